//! Values of regularised objectives, and the minimum of logistic regression.

use std::sync::Arc;

use anyhow::bail;
use rounds_algorithms::oracle::evaluate;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Features, Labels, Problem};
use rounds_kernels::loss::Loss;
use rounds_numerics::dense::solve_positive;

use crate::experiment::{Context, Loaded, Run};

/// The engine and the problem of a run, and the name of its rows for values that are made once.
pub(super) fn loaded(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<(Engine, Arc<Loaded>, String)> {
    let (configuration, draw) = (&run.cell.configuration, run.trial.draw);
    let engine = context.engine(configuration.threads)?;
    let loaded = context.problem(configuration, draw, &engine)?;
    let seed = configuration.parameters.get("data-seed");
    Ok((engine, loaded, format!("{} {seed:?} {draw}", configuration.dataset)))
}

/// `F(x) = (1/n)Σ_i φ + (λ/2)‖x‖²` over the n rows but null ones.
///
/// # Errors
/// A margin that is not finite.
pub(super) fn objective(problem: &Problem, engine: &Engine, x: &[f32]) -> anyhow::Result<f64> {
    let found = evaluate(problem, engine, x)?;
    let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
    Ok(found.loss / found.rows as f64 + 0.5 * problem.regularization() * squares)
}

/// F* by Newton's method, at most `‖∇F‖²/(2μ) ≤ 1e-12` above it.
///
/// # Errors
/// A problem of another kind, or no convergence.
pub(super) fn minimum(problem: &Problem) -> anyhow::Result<f64> {
    let mu = problem.regularization();
    Ok(minimizer(problem, mu, Vec::new(), (2e-12 * mu).sqrt())?.1)
}

/// The minimiser x of the mean loss F over the ball of radius R: `F(x) ≤ min F + 1e-9`.
///
/// With `g = ∇F(x) + λx` a point y of the ball has `F(x) − F(y) ≤ ⟨g − λx, x − y⟩ ≤ 2R‖g‖ + λ‖x‖(R − ‖x‖)`, where x is in the ball, too. λ is
/// bisected, and Newton's method makes g small.
///
/// # Errors
/// A problem of another kind, or no convergence.
pub(super) fn minimizer_in_ball(problem: &Problem, radius: f64) -> anyhow::Result<Vec<f64>> {
    let (mut low, mut high, mut x) = (1e-9 / (radius * radius), 1e3, Vec::new());
    for _ in 0..200 {
        let middle = f64::sqrt(low * high);
        x = minimizer(problem, middle, x, 1e-10 / radius)?.0;
        let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length > radius {
            low = middle;
        } else if middle * length * (radius - length) <= 8e-10 {
            return Ok(x);
        } else {
            high = middle;
        }
    }
    bail!("no multiplier up to 1,000 keeps the minimiser in the ball of radius {radius}")
}

/// The minimiser of `(1/n)Σφ + (μ/2)‖x‖²` from `x` (0 if empty), and its value: Newton's method with halved steps, in f64, until the gradient
/// is not longer than `length`.
fn minimizer(problem: &Problem, mu: f64, mut x: Vec<f64>, length: f64) -> anyhow::Result<(Vec<f64>, f64)> {
    let (Features::F32 { values, columns }, Labels::Values(targets)) =
        (problem.dataset().features(), problem.dataset().labels())
    else {
        bail!("the optimum is computed for dense rows with targets of ±1");
    };
    if problem.model().loss != Loss::Logistic || problem.model().bias {
        bail!("the optimum is computed for logistic regression without a bias");
    }
    let (d, n) = (*columns, targets.len() as f64);
    let rows = || values.chunks_exact(d).zip(targets);
    let dot = |row: &[f32], x: &[f64]| row.iter().zip(x).map(|(&a, x)| f64::from(a) * x).sum::<f64>();
    let objective = |x: &[f64]| {
        let losses = rows().map(|(row, &y)| {
            let z = f64::from(y) * dot(row, x);
            (-z).max(0.0) + (-z.abs()).exp().ln_1p()
        });
        losses.sum::<f64>() / n + 0.5 * mu * x.iter().map(|x| x * x).sum::<f64>()
    };
    x.resize(d, 0.0);
    let mut value = objective(&x);
    for _ in 0..100 {
        let mut gradient = vec![0.0; d];
        let mut hessian = vec![0.0; d * d];
        for (row, &y) in rows() {
            let z = f64::from(y) * dot(row, &x);
            let probability = 1.0 / (1.0 + z.exp());
            let (slope, curvature) = (-f64::from(y) * probability / n, probability * (1.0 - probability) / n);
            for (i, &a) in row.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                gradient[i] += slope * f64::from(a);
                let weighted = curvature * f64::from(a);
                for (entry, &b) in hessian[i * d..=i * d + i].iter_mut().zip(row) {
                    *entry += weighted * f64::from(b);
                }
            }
        }
        for i in 0..d {
            gradient[i] += mu * x[i];
            hessian[i * d + i] += mu;
        }
        if gradient.iter().map(|g| g * g).sum::<f64>() <= length * length {
            return Ok((x, value));
        }
        let step = solve_positive(hessian, d, &gradient);
        let mut share = 1.0;
        loop {
            let next: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x - share * s).collect();
            let reached = objective(&next);
            // But for its rounding, which would refuse the last steps.
            if reached <= value + 1e-14 * value.abs() || share < 1e-10 {
                (x, value) = (next, reached);
                break;
            }
            share *= 0.5;
        }
    }
    bail!("Newton's method has not converged in 100 steps")
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::catalog;
    use rounds_algorithms::executor::Executor;
    use rounds_algorithms::optimizers::{Budget, Settings};
    use rounds_algorithms::problem::Dataset;
    use rounds_algorithms::problem::synthetic::synthetic_logistic;
    use rounds_kernels::random::StreamKey;

    use super::*;

    /// Of three rows along the first axis one is −1, of two along the second one is: the minimiser is (ln 2, 0).
    #[test]
    fn the_minimiser_lies_inside_a_large_ball_and_on_the_sphere_of_a_small_one() {
        let rows = Features::f32(vec![1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0], 2);
        let data = Dataset::new("rows", rows, Labels::Values(vec![1.0, 1.0, -1.0, 1.0, -1.0])).unwrap();
        let problem = Problem::new(Arc::new(data), Loss::Logistic, false, 0.0).unwrap();
        for (radius, expected) in [(2.0, std::f64::consts::LN_2), (0.5, 0.5)] {
            let x = minimizer_in_ball(&problem, radius).unwrap();
            // An error of 1e-9 in F, whose curvature is 0.13, is one of 1e-4 inside the ball.
            assert!((x[0] - expected).abs() < 2e-4 && x[1].abs() < 2e-4 && x[0] <= radius, "{radius}: {x:?}");
        }
    }

    #[test]
    fn a_long_run_without_noise_ends_at_the_minimum() {
        let data = synthetic_logistic(400, 4, 3).into_binary().unwrap();
        let data = data.clip_features(rounds_kernels::features::Norm::L2, 2.0).unwrap();
        let problem = Problem::new(Arc::new(data), Loss::Logistic, false, 0.1).unwrap();
        let value = minimum(&problem).unwrap();
        let mut settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1));
        settings.parameters.insert("rounds".to_owned(), "2000".to_owned());
        let prepared = catalog::find("dp-nag").unwrap().prepare(&problem, &settings).unwrap();
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        executor.run().unwrap();
        let found = objective(&problem, &Engine::Sequential, executor.solution()).unwrap();
        assert!((found - value).abs() < 1e-6, "{found} {value}");
    }
}

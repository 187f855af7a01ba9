//! Curves that papers give as formulas, of `rounds_algorithms::theory`. Only the bounds of recursive gradients need runs.

mod differences;

use anyhow::Context as _;
use rounds_algorithms::theory::multistage::Schedule;
use rounds_algorithms::theory::{Curvature, QuadraticMode, allocation, correlated_noise, heavy_ball, recursive};
use serde_json::json;

use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study, definition};

/// The measure. A method is a formula; option: `eigenvalues` of a quadratic.
pub(crate) const FORMULAS: Measure =
    Measure { cells, is_default: true, ..Measure::new("formulas", Execution::Concurrent, &["eigenvalues"], run) };

/// Curves of a cell by name, each as points (x, y).
type Curves = Vec<(String, Curve)>;

type Curve = Vec<(f64, f64)>;

type Draw = fn(&Configuration, &[f64]) -> anyhow::Result<Curves>;

/// Formulas by name. Looseness is a bound over what it bounds, against the rounds.
const ALL: [(&str, Draw); 12] = [
    ("heavy-ball-looseness", heavy_ball_looseness),
    ("nesterov-looseness", nesterov_looseness),
    ("bound-a-looseness", bound_a_looseness),
    ("correlated-noise-looseness", correlated_noise_looseness),
    ("proposition-3-4-looseness", proposition_3_4_looseness),
    ("difference-looseness", differences::largest_looseness),
    ("recursion-error-looseness", differences::error_looseness),
    ("recursion-risk-looseness", differences::risk_looseness),
    ("tree-error-looseness", differences::tree_looseness),
    ("heavy-ball-error", heavy_ball_error),
    ("heavy-ball-rate", heavy_ball_rate),
    ("laplace-allocation", laplace_allocation),
];

fn curvature_of(eigenvalues: &[f64]) -> anyhow::Result<Curvature> {
    let least = eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = eigenvalues.iter().copied().fold(0.0, f64::max);
    Ok(Curvature::new(least, greatest)?)
}

/// A quadratic of these eigenvalues, started at a point of this squared distance that weighs all directions alike.
fn modes_of(eigenvalues: &[f64], squared_distance: f64) -> Vec<QuadraticMode> {
    let start = (squared_distance / eigenvalues.len() as f64).sqrt();
    let modes = eigenvalues.iter();
    modes.map(|&eigenvalue| QuadraticMode { eigenvalue, start }).collect()
}

/// The bound of Theorem 3.5 and the exact error after T rounds, each with the noise of deviation `deviation(T)`.
fn heavy_ball(
    cell: &Configuration,
    eigenvalues: &[f64],
    rounds: &[usize],
    deviation: impl Fn(usize) -> f64,
) -> anyhow::Result<[Curve; 2]> {
    let step_size = curvature_of(eigenvalues)?.step_size(cell.number("step-size")?)?;
    let momentum = cell.number("momentum")?;
    let distance = cell.number("initial-squared-distance")?;
    // The distance is that of the stacked start (x_0, x_0).
    let modes = modes_of(eigenvalues, distance / 2.0);
    let mut curves = [Vec::new(), Vec::new()];
    for &rounds in rounds {
        let (x, variance) = (rounds as f64, deviation(rounds).powi(2));
        let log = heavy_ball::published_bound_log10(step_size, momentum, eigenvalues, distance, variance, rounds)?;
        curves[0].push((x, 10f64.powf(log)));
        let excess = heavy_ball::expected_excess(&modes, step_size, momentum, &vec![variance; rounds]);
        curves[1].push((x, excess[rounds]));
    }
    Ok(curves)
}

/// Theorem 3.5 of paper 003 and the exact error, with noise of deviation T·c_w.
fn heavy_ball_error(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let level = cell.number("noise-level")?;
    let rounds: Vec<usize> = (1..=cell.whole("rounds")?.unwrap_or(200)).collect();
    let [bound, error] = heavy_ball(cell, eigenvalues, &rounds, |rounds| rounds as f64 * level)?;
    Ok(vec![("bound".to_owned(), bound), ("exact".to_owned(), error)])
}

/// Four numbers of rounds a factor of ten, up to T.
fn horizons(cell: &Configuration) -> anyhow::Result<Vec<usize>> {
    let most = cell.number("rounds")?;
    let steps = (4.0 * most.log10()).round() as i32;
    let mut rounds: Vec<usize> = (0..=steps).map(|step| 10_f64.powf(f64::from(step) / 4.0).round() as usize).collect();
    rounds.dedup();
    Ok(rounds)
}

fn looseness(points: impl IntoIterator<Item = (usize, f64, f64)>) -> Curves {
    let ratios = points.into_iter().map(|(rounds, bound, exact)| (rounds as f64, bound / exact));
    vec![(String::new(), ratios.collect())]
}

/// Theorem 3.5 of paper 003 over the exact error, with noise of one deviation.
fn heavy_ball_looseness(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let (level, rounds) = (cell.number("noise-level")?, horizons(cell)?);
    let [bound, error] = heavy_ball(cell, eigenvalues, &rounds, |_| level)?;
    let pairs = bound.into_iter().zip(error);
    Ok(looseness(pairs.map(|((rounds, bound), (_, error))| (rounds as usize, bound, error))))
}

/// Proposition 3.4 of paper 003 over the exact error.
fn proposition_3_4_looseness(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let (curvature, horizons) = (curvature_of(eigenvalues)?, horizons(cell)?);
    let (step_size, momentum) = (cell.number("step-size")?, cell.number("momentum")?);
    let (distance, level) = (cell.number("initial-squared-distance")?, cell.number("noise-level")?);
    let modes = modes_of(eigenvalues, distance);
    let most = horizons.last().copied().unwrap_or(1);
    let exact = heavy_ball::expected_excess(&modes, step_size, momentum, &vec![level * level; most]);
    let proposition = heavy_ball::Proposition34::new(curvature, step_size, momentum);
    let trace = modes.len() as f64 * level * level;
    let point = |rounds: usize| {
        let bound = proposition.bound(distance, exact[0], trace, rounds);
        let bound = bound.with_context(|| format!("{}: (3.14) has no solution", cell.key()))?;
        Ok((rounds, bound, exact[rounds]))
    };
    let points = horizons.into_iter().map(point).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(looseness(points))
}

/// Steps of Nesterov's method, constant or with the exponent of their stages.
fn schedule(cell: &Configuration, curvature: Curvature, rounds: usize) -> anyhow::Result<Schedule> {
    let scale = cell.number("step-scale")?;
    Ok(match cell.whole("stage-exponent")? {
        Some(exponent) => Schedule::multistage(curvature, scale, exponent as u32, None, rounds)?,
        None => Schedule::constant(curvature, scale / curvature.smoothness(), rounds)?,
    })
}

/// Theorem 4.1 of paper 003 over the exact error, or, with the exponent of its stages, Theorem 4.3.
fn nesterov_looseness(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let (curvature, most) = (curvature_of(eigenvalues)?, cell.number("rounds")? as usize);
    let schedule = schedule(cell, curvature, most)?;
    let modes = modes_of(eigenvalues, cell.number("initial-squared-distance")?);
    let variance = cell.number("noise-level")?.powi(2);
    let exact = schedule.expected_excess(&modes, |_| variance);
    let half_trace = 0.5 * modes.len() as f64 * variance;
    let rounds = horizons(cell)?.into_iter();
    Ok(looseness(rounds.map(|rounds| {
        let bound = schedule.truncated(rounds).bound(exact[0], |_| half_trace);
        (rounds, bound, exact[rounds])
    })))
}

/// Bound A over the exact error, for fresh gradients or for the recursion (`recursive = true`).
fn bound_a_looseness(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let (smoothness, rounds) = (curvature_of(eigenvalues)?.smoothness(), horizons(cell)?);
    let (beta, level) = (cell.number("beta")?, cell.number("noise-level")?);
    let distance = cell.number("initial-squared-distance")?;
    let recursive = cell.parameters.get("recursive") == Some(&true.into());
    let modes = modes_of(eigenvalues, distance);
    let most = rounds.last().copied().unwrap_or(1);
    let moments = recursive::expected_moments(&modes, most, beta, level * level, recursive);
    let trace = modes.len() as f64 * level * level;
    let error = |t: usize| {
        let eta = (t + 1) as f64;
        if recursive { (trace * eta, moments.mirror[t].sqrt()) } else { (trace * eta * eta, 0.0) }
    };
    Ok(looseness(rounds.into_iter().map(|rounds| {
        let bound = recursive::bound_a((smoothness, beta), distance, rounds, error);
        (rounds, bound, moments.excess[rounds - 1])
    })))
}

/// Theorem 4.7 of paper 001 with a constant of 1 and without logarithms, at τ = 1/(γL), over the exact mean error of the
/// iterates: independent noise, the square root of the prefix workload, and anti-correlated noise. With `gradients = true`,
/// Theorem 4.6 over the exact mean of E‖∇f(x_t)‖²: its class is all smooth functions, and the quadratic stands in for it.
fn correlated_noise_looseness(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let (smoothness, step_size) = (curvature_of(eigenvalues)?.smoothness(), cell.number("step-size")?);
    let kind = cell.text("noise").unwrap_or_default();
    // Coefficients of C⁻¹, a Toeplitz matrix: (1 − x)^p.
    let power = match &*kind {
        "independent" => 0.0,
        "square-root" => 0.5,
        "anti-correlated" => 1.0,
        _ => anyhow::bail!("noise = {kind:?}: it is independent, square-root or anti-correlated"),
    };
    let distance = cell.number("initial-squared-distance")?;
    let modes = modes_of(eigenvalues, distance);
    let variance = cell.number("noise-level")?.powi(2);
    let tau = (1.0 / (step_size * smoothness)).round().max(1.0) as usize;
    let gradients = cell.parameters.get("gradients") == Some(&true.into());
    let points = horizons(cell)?.into_iter().map(|rounds| {
        let mut column = vec![1.0; rounds];
        (1..rounds).for_each(|k| column[k] = column[k - 1] * ((k - 1) as f64 - power) / k as f64);
        let mut sums = column.clone();
        (1..rounds).for_each(|k| sums[k] += sums[k - 1]);
        let rows = |column: &[f64]| -> Vec<Vec<f64>> {
            (1..=rounds).map(|t| column[..t].iter().rev().copied().collect()).collect()
        };
        let (excess, gradient) = correlated_noise::quadratic_moments(&modes, step_size, variance, &rows(&column));
        let tau = tau.min(rounds);
        let terms = correlated_noise::restart_terms(&rows(&sums), tau);
        let noise = modes.len() as f64 * variance / (rounds * tau) as f64;
        let (exact, start, noise) = if gradients {
            (&gradient, excess[0], noise * terms[0])
        } else {
            (&excess, distance, noise / smoothness * terms[1])
        };
        let mean = exact.iter().sum::<f64>() / exact.len() as f64;
        let bound = start / (step_size * rounds as f64) + noise;
        (rounds, bound, mean)
    });
    Ok(looseness(points.collect::<Vec<_>>()))
}

/// The rate against β, and the fastest β.
fn heavy_ball_rate(cell: &Configuration, eigenvalues: &[f64]) -> anyhow::Result<Curves> {
    let curvature = curvature_of(eigenvalues)?;
    let step_size = curvature.step_size(cell.number("step-size")?)?;
    let rate = |momentum: f64| heavy_ball::spectral_radius(step_size, momentum, curvature);
    let momenta = (0..400).map(|index| f64::from(index) / 400.0);
    let best = heavy_ball::fastest_momentum(step_size, curvature);
    Ok(vec![
        ("rate".to_owned(), momenta.map(|beta| (beta, rate(beta))).collect()),
        (format!("fastest, β = {best:.3}"), vec![(best, 0.0), (best, rate(best))]),
    ])
}

/// b_t·n·ε/S_1 = Σ_j a_j^{1/3}/a_t^{1/3} against t.
fn laplace_allocation(cell: &Configuration, _: &[f64]) -> anyhow::Result<Curves> {
    let curvature = Curvature::new(cell.number("strong-convexity")?, cell.number("smoothness")?)?;
    let schedule = schedule(cell, curvature, cell.number("rounds")? as usize)?;
    let shares = allocation::laplace(&schedule.log_weights(), 1.0)?;
    let points = shares.iter().enumerate().map(|(t, share)| (t as f64 + 1.0, 1.0 / share));
    Ok(vec![("scale".to_owned(), points.collect())])
}

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    for method in study.definition.all_methods() {
        definition::known("formula", &method.algorithm, &ALL.map(|(id, _)| id))?;
    }
    Ok(study.definition.cells(selection)?)
}

fn run(run: &Run<'_>, _: &Context<'_>) -> anyhow::Result<Outcome> {
    let configuration = &run.cell.configuration;
    let formula = ALL.iter().find(|(id, _)| *id == configuration.algorithm);
    let (_, curves) = formula.with_context(|| format!("no formula is called {}", configuration.algorithm))?;
    let eigenvalues: Option<Vec<f64>> = run.study.option("eigenvalues")?;
    Ok(Outcome::of(json!({ "curves": curves(configuration, &eigenvalues.unwrap_or_default())? })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::testing;

    /// The y of a named curve.
    fn points(curve: &serde_json::Value) -> Vec<f64> {
        curve[1].as_array().unwrap().iter().map(|point| point[1].as_f64().unwrap()).collect()
    }

    /// The least ratio of each bound is known to a hundredth, so that a constant that is wrong by a factor shows; that of a bound with
    /// constants is at least 1.
    #[test]
    fn no_measured_value_exceeds_a_bound_with_constants_and_the_least_ratios_are_the_known_ones() {
        let text = definition::find("bounds").unwrap().text;
        let text = text.replace("rounds = 1000,", "rounds = 100,").replace("draws = 20", "draws = 3");
        let (study, results) = testing::run(&FORMULAS, &text, 2).unwrap();
        let mut least: BTreeMap<String, f64> = BTreeMap::new();
        for (cell, runs) in study.measured(&results).unwrap() {
            let name = cell.configuration.label_of_method().to_owned();
            let ratios = points(&runs[0]["curves"][0]);
            let known = least.entry(name).or_insert(f64::INFINITY);
            *known = ratios.into_iter().fold(*known, f64::min);
        }
        let known = [
            // Without constants.
            ("[000] §4.3 tB/n, unaccelerated", 2.0),
            ("[000] §4.3 ‖Δ‖, unaccelerated", 1.1),
            ("[000] Theorem 4.1, risk", 7.919),
            ("[001] Theorem 4.6", 1.0055),
            ("[001] Theorem 4.7", 5.548),
            // Bounds.
            ("Bound A, fresh gradients", 6.435),
            ("Bound A, recursive gradients", 6.44),
            ("[000] Claim 4.2, ‖Δ‖", 5.727),
            ("[000] Theorem 4.7, E‖g − ∇F‖²", 1.0034),
            ("[000] Theorem 4.7, risk", 39.78),
            ("[000] Theorem 4.11, risk", 32.84),
            ("[000] Lemma 4.3, tree", 9.756),
            ("[003] Proposition 3.4, heavy ball", 1.151),
            ("[003] Theorem 3.5, heavy ball", 49.7),
            ("[003] Theorem 4.1, Nesterov", 2.01),
            ("[003] Theorem 4.3, stages", 2.01),
        ];
        assert_eq!(least.len(), known.len(), "{least:?}");
        for (place, (name, known)) in known.into_iter().enumerate() {
            assert!((least[name] / known - 1.0).abs() < 0.01, "{name}: {least:?}");
            assert!(place < 5 || least[name] >= 1.0, "{name}: {least:?}");
        }
    }

    #[test]
    fn the_figures_of_the_paper_have_finite_curves() {
        for (name, panels) in [("paper/accelerated-figure-1", 9), ("paper/accelerated-figure-2", 2)] {
            let text = definition::find(name).unwrap().text;
            let (study, results) = testing::run(&FORMULAS, &text, 2).unwrap();
            assert_eq!(testing::charts(&study, &results).len(), panels);
            for curve in results.samples.iter().flat_map(|sample| sample["curves"].as_array().unwrap()) {
                assert!(points(curve).iter().all(|y| y.is_finite() && *y >= 0.0));
            }
        }
    }
}

//! The multilevel estimate of a proximal point: the bias of a solve with 2^{j_max} times the budget, for the expected cost
//! of about j_max solves [002 Algorithm 6 without noise; Definition 5].
//!
//! ```text
//! J ~ Geom(1/2), P(J = j) = 2^{−j}
//! x̂ = x_0 + 1[J ≤ j_max]·2^J·(x_J − x_{J−1}),     x_j = a solve to accuracy φ/2^j;     E x̂ = E x_{j_max}
//! ```
//!
//! x_0, x_{J−1} and x_J read prefixes of the same samples: only the marginal laws enter the mean, and the common prefix
//! lowers the variance of the difference.

use rounds_kernels::random::UniformStream;

use super::Result;
use super::ball::{BallSolver, Subproblem};
use super::geometry::add;
use super::pool::GradientPool;

/// J of one estimate, drawn before its round from `stream`; 0 where J > `most`.
pub(super) fn draw(stream: &mut UniformStream, most: u32) -> u32 {
    let level = stream.next_u64().trailing_zeros() + 1;
    if level <= most { level } else { 0 }
}

/// `subproblem` to accuracy φ/2^level.
pub(super) fn at_level(subproblem: &Subproblem, level: u32) -> Subproblem {
    Subproblem { accuracy: subproblem.accuracy / f64::powi(2.0, level as i32), ..*subproblem }
}

/// x̂ with J = `level`, an offset that may lie outside the ball; it reads the samples that a solve at this level reads from `first` on.
pub(super) fn estimate(
    solver: &mut dyn BallSolver,
    pool: &mut dyn GradientPool,
    first: usize,
    (subproblem, level): (&Subproblem, u32),
    smoothing: f64,
    estimate: &mut [f64],
) -> Result<()> {
    estimate.fill(0.0);
    let mut solution = vec![0.0; estimate.len()];
    let factor = f64::powi(2.0, level as i32);
    let solves = [(1.0, 0), (factor, level), (-factor, level.saturating_sub(1))];
    for &(factor, level) in &solves[..if level > 0 { 3 } else { 1 }] {
        solver.solve(pool, first, &at_level(subproblem, level), smoothing, &mut solution)?;
        add(estimate, factor, &solution);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::ball::Plan;
    use crate::resque::black_box::BlackBoxOracle;
    use crate::resque::epoch_sgd::EpochSgd;
    use crate::resque::functions::MaxOfLinear;
    use rounds_kernels::random::{Purpose, StreamKey};

    #[test]
    fn the_mean_is_that_of_the_deepest_level() {
        // A solver with bias √φ and noise √φ·z in one coordinate, so that means are known exactly.
        struct Biased(u64);
        impl BallSolver for Biased {
            fn plan(&self, subproblem: &Subproblem, _: f64, _: f64) -> Result<Plan> {
                Ok(Plan { samples: (1.0 / subproblem.accuracy) as usize, depth: 1 })
            }
            fn solve(
                &mut self,
                _: &mut dyn GradientPool,
                _: usize,
                subproblem: &Subproblem,
                _: f64,
                solution: &mut [f32],
            ) -> Result<()> {
                self.0 += 1;
                let mut z = [0f32];
                rounds_kernels::random::fill_gaussian(&StreamKey::Simulation(2), Purpose(9), self.0, 1.0, &mut z);
                solution[0] = subproblem.accuracy.sqrt() as f32 * (1.0 + z[0]);
                Ok(())
            }
        }
        let function = MaxOfLinear::new(1, 1, 1.0, 1.0).unwrap();
        let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
        let subproblem = Subproblem::new(1.0, 1.0, 0.25).unwrap();
        let mut stream = UniformStream::new(&StreamKey::Simulation(3), Purpose(4), 0, 0);
        let (runs, most) = (10_000, 4);
        let (mut total, mut squares, mut counts) = (0.0, 0.0, [0usize; 5]);
        let mut solver = Biased(0);
        for _ in 0..runs {
            let level = draw(&mut stream, most);
            counts[level as usize] += 1;
            let mut value = [0.0];
            estimate(&mut solver, &mut pool, 0, (&subproblem, level), 1.0, &mut value).unwrap();
            total += value[0];
            squares += value[0] * value[0];
        }
        let (mean, n) = (total / f64::from(runs), f64::from(runs));
        let expected = (0.25f64 / 16.0).sqrt();
        let error = ((squares / n - mean * mean) / n).sqrt();
        assert!((mean - expected).abs() < 4.9 * error, "{mean} for {expected} ± {error}");
        for (level, &count) in counts.iter().enumerate() {
            let probability = f64::powi(0.5, if level == 0 { 4 } else { level as i32 });
            let deviation = (n * probability * (1.0 - probability)).sqrt();
            let close = (count as f64 - n * probability).abs() < 4.9 * deviation;
            assert!(close, "level {level}: {count}");
        }
    }

    #[test]
    fn an_estimate_is_one_round() {
        let function = MaxOfLinear::new(6, 6, 1.0, 1.0).unwrap();
        let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
        let subproblem = Subproblem::new(1.0, 0.3, 0.1).unwrap();
        let mut solver = EpochSgd::new(48.0).unwrap();
        let plan = solver.plan(&at_level(&subproblem, 2), 1.0, 0.3).unwrap();
        pool.fetch(&[0.0; 6], 0.3, plan.samples).unwrap();
        let mut value = [0.0; 6];
        estimate(&mut solver, &mut pool, 0, (&subproblem, 2), 0.3, &mut value).unwrap();
        let ledger = pool.ledger();
        assert_eq!((ledger.rounds, ledger.gradient_queries), (1, plan.samples as u64));
        assert!(value.iter().all(|v| v.is_finite()) && value.iter().sum::<f64>() < 0.0);
    }
}

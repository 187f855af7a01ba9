//! Ball acceleration without a line search: one ball call a step, with λ read off the solution's multiplier (Carmon et al.
//! 2022, "Optimal and adaptive Monteiro–Svaiter acceleration", Algorithm 1; specification 7.3).
//!
//! ```text
//! first: (x̃, λ) = O(x_0), λ′ = λ;   then: a′ = (1 + √(1 + 4λ′A))/(2λ′), A′ = A + a′, q = (A·x + a′·v)/A′, (x̃, λ) = O(q)
//! γ = min(1, λ′/λ), a = γa′:   x ← ((1−γ)A·x + γA′·x̃)/(A + a),  v ← v − a·G(x̃),  A ← A + a,
//! λ′ ← λ′/α if λ ≤ λ′ else αλ′
//! O(q): x̃ = argmin_{‖x − q‖ ≤ r} F(x),  λ = ‖G(x̃)‖/‖x̃ − q‖
//! ```
//!
//! One call of [`BisectionFree::advance`] is one ball call, so one round. [002]'s theorems do not cover it: with sampled
//! G and λ it is a heuristic, and results say so.

use super::Result;
use super::acceleration::Progress;
use super::geometry::norm;
use crate::state::StateVisitor;
use crate::theory::ball_acceleration::AccelerationParameters;

/// The oracle of a step; each call is one round.
pub(super) trait BallOracle {
    /// Offset of `argmin_{‖x − y‖ ≤ r} F(x)` and the gradient of F there.
    fn minimize(&mut self, centre: &[f64], solution: &mut [f64], gradient: &mut [f64]) -> Result<()>;
}

/// α ∈ (1, e³]: the theory's is e³, 1.5 to 2 are faster in practice.
const FACTOR: f64 = 1.5;

/// The state of a run.
#[derive(Clone, Debug)]
pub(super) struct BisectionFree {
    pub(super) progress: Progress,
    guess: Option<f64>,
}

impl BisectionFree {
    /// A run from `start`.
    pub(super) fn new(parameters: AccelerationParameters, start: Vec<f64>) -> Result<Self> {
        Ok(Self { progress: Progress::new(parameters, 0.0, start)?, guess: None })
    }

    /// Visits what a checkpoint must hold.
    pub(super) fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        self.progress.visit_state(visitor);
        let mut values = [self.progress.weight, self.guess.unwrap_or(f64::NAN)];
        visitor.f64s("resque_stage", &mut values);
        self.progress.weight = values[0];
        self.guess = (!values[1].is_nan()).then_some(values[1]);
    }

    /// One ball call and its update.
    pub(super) fn advance(&mut self, oracle: &mut dyn BallOracle) -> Result<()> {
        let run = &mut self.progress;
        let share = self.guess.map_or(0.0, |guess| {
            let a = run.root(guess);
            a / (run.weight + a)
        });
        run.place(share);
        oracle.minimize(&run.centre, &mut run.solution, &mut run.direction)?;
        let floor = run.parameters.smallest_regularization() / 16.0;
        let multiplier = (norm(&run.direction) / norm(&run.solution).max(f64::MIN_POSITIVE))
            .clamp(floor, run.parameters.largest_regularization());
        let guess = self.guess.unwrap_or(multiplier);
        let damping = (guess / multiplier).min(1.0);
        let a = damping * run.root(guess);
        let total = run.weight + a;
        let keep = (1.0 - damping) * run.weight / total;
        for j in 0..run.iterate.len() {
            let solution = run.centre[j] + run.solution[j];
            run.iterate[j] = keep * run.iterate[j] + (1.0 - keep) * solution;
        }
        run.move_momentum(-a);
        run.weight = total;
        self.guess = Some(if multiplier <= guess { guess / FACTOR } else { guess * FACTOR });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resque::acceleration::tests::{ExactOracle, exact};

    impl BallOracle for ExactOracle {
        fn minimize(&mut self, centre: &[f64], solution: &mut [f64], gradient: &mut [f64]) -> Result<()> {
            solution.copy_from_slice(&self.solve(centre, 0.0));
            let x = crate::vectors::map2(centre, solution, |c, v| c + v);
            self.value_and_gradient(&x, gradient);
            Ok(())
        }
    }

    #[test]
    fn exact_ball_calls_reach_the_accuracy() {
        for (radius, accuracy) in [(0.1, 0.01), (0.02, 0.005)] {
            let (parameters, mut oracle, _, minimum) = exact(radius, accuracy);
            let mut run = BisectionFree::new(parameters, vec![0.0; 8]).unwrap();
            while !run.progress.finished() {
                run.advance(&mut oracle).unwrap();
            }
            let gap = oracle.value(&run.progress.iterate) - minimum;
            let iterations = run.progress.iterations;
            assert!(gap <= accuracy, "r = {radius}: gap {gap} after {iterations}");
            assert!(iterations < parameters.most_iterations(), "{iterations}");
        }
    }
}

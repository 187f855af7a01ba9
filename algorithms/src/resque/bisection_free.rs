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

use super::ResqueError;
use super::acceleration::AccelerationParameters;
use super::geometry::{norm, project};
use crate::state::StateVisitor;

/// The oracle of a step; each call is one round.
pub trait BallOracle {
    /// Offset of `argmin_{‖x − y‖ ≤ r} F(x)` and the gradient of F there.
    ///
    /// # Errors
    /// Whatever the solver refuses.
    fn minimize(&mut self, centre: &[f64], solution: &mut [f64], gradient: &mut [f64]) -> Result<(), ResqueError>;
}

/// The state of a run.
#[derive(Clone, Debug)]
pub struct BisectionFree {
    parameters: AccelerationParameters,
    factor: f64,
    start: Vec<f64>,
    iterate: Vec<f64>,
    momentum: Vec<f64>,
    centre: Vec<f64>,
    solution: Vec<f64>,
    gradient: Vec<f64>,
    weight: f64,
    guess: Option<f64>,
    iterations: u64,
}

impl BisectionFree {
    /// A run from `start`; `factor` α ∈ (1, e³] (the theory's is e³, 1.5 to 2 are faster in practice).
    ///
    /// # Errors
    /// Parameters out of range, a factor that is not above 1.
    pub fn new(parameters: AccelerationParameters, factor: f64, start: Vec<f64>) -> Result<Self, ResqueError> {
        parameters.check()?;
        super::positive("factor α − 1", factor - 1.0)?;
        let dimension = start.len();
        Ok(Self {
            factor,
            iterate: start.clone(),
            momentum: start.clone(),
            start,
            centre: vec![0.0; dimension],
            solution: vec![0.0; dimension],
            gradient: vec![0.0; dimension],
            weight: 0.0,
            guess: None,
            iterations: 0,
            parameters,
        })
    }

    /// True if A ≥ 2R²/ε, or the iterations are used up.
    pub fn finished(&self) -> bool {
        self.weight >= 2.0 * self.parameters.domain_radius.powi(2) / self.parameters.accuracy
            || self.iterations >= self.parameters.most_iterations()
    }

    /// x, the point to use.
    pub fn iterate(&self) -> &[f64] {
        &self.iterate
    }

    /// Steps done.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Visits what a checkpoint must hold.
    pub fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f64s("resque_start", &mut self.start);
        visitor.f64s("resque_iterate", &mut self.iterate);
        visitor.f64s("resque_momentum", &mut self.momentum);
        visitor.u64("resque_iterations", &mut self.iterations);
        let mut values = [self.weight, self.guess.unwrap_or(f64::NAN)];
        visitor.f64s("resque_stage", &mut values);
        self.weight = values[0];
        self.guess = (!values[1].is_nan()).then_some(values[1]);
    }

    /// One ball call and its update.
    ///
    /// # Errors
    /// Whatever the oracle refuses.
    pub fn advance(&mut self, oracle: &mut dyn BallOracle) -> Result<(), ResqueError> {
        let root = |guess: f64, weight: f64| (1.0 + (1.0 + 4.0 * guess * weight).sqrt()) / (2.0 * guess);
        let share = self.guess.map_or(0.0, |guess| {
            let a = root(guess, self.weight);
            a / (self.weight + a)
        });
        for ((q, x), v) in self.centre.iter_mut().zip(&self.iterate).zip(&self.momentum) {
            *q = x + share * (v - x);
        }
        oracle.minimize(&self.centre, &mut self.solution, &mut self.gradient)?;
        let floor = self.parameters.smallest_regularization() / 16.0;
        let multiplier = (norm(&self.gradient) / norm(&self.solution).max(f64::MIN_POSITIVE))
            .clamp(floor, self.parameters.largest_regularization());
        let guess = self.guess.unwrap_or(multiplier);
        let proposed = root(guess, self.weight);
        let damping = (guess / multiplier).min(1.0);
        let a = damping * proposed;
        let total = self.weight + a;
        let keep = (1.0 - damping) * self.weight / total;
        for j in 0..self.iterate.len() {
            let solution = self.centre[j] + self.solution[j];
            self.iterate[j] = keep * self.iterate[j] + (1.0 - keep) * solution;
            self.momentum[j] -= a * self.gradient[j] + self.start[j];
        }
        project(&mut self.momentum, self.parameters.domain_radius);
        self.momentum
            .iter_mut()
            .zip(&self.start)
            .for_each(|(v, start)| *v += start);
        self.weight = total;
        self.guess = Some(if multiplier <= guess {
            guess / self.factor
        } else {
            guess * self.factor
        });
        self.iterations += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resque::acceleration::tests::ExactOracle;
    use crate::resque::functions::PlantedRegression;

    impl BallOracle for ExactOracle {
        fn minimize(&mut self, centre: &[f64], solution: &mut [f64], gradient: &mut [f64]) -> Result<(), ResqueError> {
            solution.copy_from_slice(&self.solve(centre, 0.0));
            let x: Vec<f64> = centre.iter().zip(&*solution).map(|(c, v)| c + v).collect();
            self.value_and_gradient(&x, gradient);
            Ok(())
        }
    }

    #[test]
    fn exact_ball_calls_reach_the_accuracy() {
        let planted = PlantedRegression::new(8, 20, 1.0, 0.1, 3);
        let mut oracle = ExactOracle {
            planted,
            smoothing: 0.05,
            radius: 10.0,
            solves: 0,
        };
        let best = oracle.solve(&[0.0; 8], 0.0);
        let mut gradient = vec![0.0; 8];
        let minimum = oracle.value_and_gradient(&best, &mut gradient);
        for (radius, accuracy) in [(0.1, 0.01), (0.02, 0.005)] {
            oracle.radius = radius;
            let parameters = AccelerationParameters {
                domain_radius: 1.0,
                ball_radius: radius,
                accuracy,
                lipschitz: 1.0,
            };
            let mut run = BisectionFree::new(parameters, 1.5, vec![0.0; 8]).unwrap();
            while !run.finished() {
                run.advance(&mut oracle).unwrap();
            }
            let gap = oracle.value_and_gradient(run.iterate(), &mut gradient) - minimum;
            assert!(gap <= accuracy, "r = {radius}: gap {gap} after {}", run.iterations());
            assert!(run.iterations() < parameters.most_iterations(), "{}", run.iterations());
        }
        let parameters = AccelerationParameters {
            domain_radius: 1.0,
            ball_radius: 0.1,
            accuracy: 0.1,
            lipschitz: 1.0,
        };
        assert!(BisectionFree::new(parameters, 1.0, vec![0.0]).is_err());
    }
}

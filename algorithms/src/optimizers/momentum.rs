//! Gradient descent, heavy ball and Nesterov's method with noisy gradients [003 (2.4)–(2.6), (3.1), (4.1)]: one state
//! machine for the six methods of paper 003.
//!
//! ```text
//! g̃_t(x)  = (Σ_{i ∈ B_t} clip(∇f(x; d_i)) + noise_t)/m + λ·x
//! heavy ball   x_{t+1} = x_t − α_t·g̃_t(x_t) + β_t·(x_t − x_{t−1})                     (β = 0: gradient descent)
//! Nesterov     z_t = (1 + β_t)·x_t − β_t·x_{t−1},   x_{t+1} = z_t − α_t·g̃_t(z_t)
//! ```
//!
//! A stage that starts resets the momentum: x_{t−1} := x_t.
//!
//! **Privacy.** Every iterate may be published. Under replace-one the sum over a batch changes by at most 2·C in the norm
//! of the clip; m is public; regulariser, step sizes and momentum do not depend on the data. So a round is one Laplace
//! (L1 clip) or Gaussian (L2 clip) mechanism and the run their adaptive composition.

use rounds_kernels::linear::Point;

use super::noisy_sums::{Iteration, Release};
use crate::state::StateVisitor;

/// The place of momentum in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceleration {
    /// In the step; the gradient is taken at the iterate [003 (3.1)].
    HeavyBall,
    /// Before the gradient is taken [003 (4.1)].
    Nesterov,
}

/// One round's constants, all of them public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// α > 0.
    pub step_size: f64,
    /// β ∈ [0, 1).
    pub momentum: f64,
    /// True if momentum is reset before the round.
    pub restart: bool,
}

/// The iteration above: what to query, and what an answer does to the iterate.
pub struct NoisyMomentum {
    acceleration: Acceleration,
    steps: Vec<Step>,
    iterate: Vec<f32>,
    previous: Vec<f32>,
    point: Vec<f32>,
}

impl NoisyMomentum {
    /// The iteration from `start` with these steps.
    pub fn new(acceleration: Acceleration, steps: Vec<Step>, start: Vec<f32>) -> Self {
        let (previous, point) = (start.clone(), start.clone());
        Self { acceleration, steps, iterate: start, previous, point }
    }
}

impl Iteration for NoisyMomentum {
    /// The point at which a round takes its gradient.
    fn query(&mut self, round: u64) -> (Point<'_>, Option<Point<'_>>) {
        let step = self.steps[round as usize];
        if step.restart {
            self.previous.copy_from_slice(&self.iterate);
        }
        match self.acceleration {
            Acceleration::HeavyBall => self.point.copy_from_slice(&self.iterate),
            Acceleration::Nesterov => {
                let momentum = step.momentum as f32;
                for ((z, &x), &before) in self.point.iter_mut().zip(&self.iterate).zip(&self.previous) {
                    *z = momentum.mul_add(x - before, x);
                }
            }
        }
        (Point::at(&self.point), None)
    }

    /// x_{t+1} from the noisy sum at that point.
    fn update(&mut self, release: &Release<'_>) {
        let Step { step_size, momentum, .. } = self.steps[release.round as usize];
        let (per_row, decay) = (1.0 / release.batch_size, release.regularization);
        let carried = match self.acceleration {
            Acceleration::HeavyBall => momentum,
            Acceleration::Nesterov => 0.0,
        };
        let state = self.iterate.iter_mut().zip(&mut self.previous).zip(&self.point);
        for (((x, before), &z), &sum) in state.zip(release.sum) {
            let (now, z) = (*x, f64::from(z));
            let carry = carried * (f64::from(now) - f64::from(*before));
            *x = (z - step_size * (sum * per_row + decay * z) + carry) as f32;
            *before = now;
        }
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGENVALUES: [f64; 4] = [0.01, 0.07, 0.4, 1.0];

    /// Runs an iteration on F(x) = Σ λ_i·x_i²/2 and returns its iterates.
    fn run(acceleration: Acceleration, steps: Vec<Step>) -> Vec<[f64; 4]> {
        let rounds = steps.len() as u64;
        let mut iteration = NoisyMomentum::new(acceleration, steps, vec![1.0, -2.0, 0.5, 3.0]);
        (0..rounds).map(|round| advanced(&mut iteration, round)).collect()
    }

    /// The iterate after `round`.
    fn advanced(iteration: &mut NoisyMomentum, round: u64) -> [f64; 4] {
        let point = iteration.query(round).0.parameters;
        let sum: [f64; 4] = std::array::from_fn(|i| 10.0 * EIGENVALUES[i] * f64::from(point[i]));
        iteration.update(&Release { round, sum: &sum, noise_alone: &[], batch_size: 10.0, regularization: 0.0 });
        std::array::from_fn(|i| f64::from(iteration.solution()[i]))
    }

    fn constant(step_size: f64, momentum: f64, rounds: usize) -> Vec<Step> {
        vec![Step { step_size, momentum, restart: false }; rounds]
    }

    #[test]
    fn heavy_ball_and_nesterov_follow_their_recursions_and_without_momentum_gradient_descent() {
        for (acceleration, momentum) in [
            (Acceleration::HeavyBall, 0.7),
            (Acceleration::Nesterov, 0.7),
            (Acceleration::HeavyBall, 0.0),
            (Acceleration::Nesterov, 0.0),
        ] {
            let iterates = run(acceleration, constant(0.8, momentum, 50));
            for i in 0..4 {
                // Heavy ball [003 (B.10)] and Nesterov [003 (4.1)].
                let contraction = 1.0 - 0.8 * EIGENVALUES[i];
                let (current, previous) = match acceleration {
                    Acceleration::HeavyBall => (contraction + momentum, -momentum),
                    Acceleration::Nesterov => ((1.0 + momentum) * contraction, -momentum * contraction),
                };
                let start = [1.0, -2.0, 0.5, 3.0][i];
                let (mut now, mut before) = (start, start);
                for iterate in &iterates {
                    (now, before) = (current * now + previous * before, now);
                    assert!((now - iterate[i]).abs() < 2e-6, "{acceleration:?}, {momentum}");
                }
            }
        }
    }

    #[test]
    fn a_restart_forgets_the_previous_iterate() {
        for acceleration in [Acceleration::HeavyBall, Acceleration::Nesterov] {
            let mut steps = constant(0.8, 0.7, 20);
            steps[10].restart = true;
            let whole = run(acceleration, steps);
            let first = run(acceleration, constant(0.8, 0.7, 10));
            assert_eq!(whole[..10], first[..]);
            let resumed: Vec<f32> = first[9].iter().map(|&value| value as f32).collect();
            let mut second = NoisyMomentum::new(acceleration, constant(0.8, 0.7, 1), resumed);
            assert_eq!(advanced(&mut second, 0), whole[10]);
        }
    }
}

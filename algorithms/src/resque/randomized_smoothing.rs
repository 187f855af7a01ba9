//! Accelerated randomised smoothing (Duchi, Bartlett and Wainwright 2012) with a fixed radius [specification 7.6; 002
//! Table I].
//!
//! ```text
//! g_t = (1/m)·Σ_i g(x_t + ξ_i), ξ_i ~ N(0, ρ²I);   η_t = t + 1, τ_t = η_t/η_{0:t}, β = 2L/ρ
//! x_t = (1 − τ_t)y_t + τ_t·z_t;   y_{t+1} = Π_R(x_t − g_t/β);   z_{t+1} = Π_R(z_t − (η_t/(2β))·g_t)
//! ```
//!
//! **Bound** [derived, Bound A with independent gradients; E26: distances from the start are at most R]:
//! `E f(y_T) − f* ≤ ρL√d + 2βR²/(T(T+1)) + (T+2)L²/(6m(β − L/ρ))`. With ρ = ε/(2L√d), T = ⌈6d^{1/4}κ⌉ and
//! m = ⌈2κ/d^{1/4}⌉ the terms are at most ε/2 + ε/4 + ε/4. One step is one round of m queries, each at a point of its own.

use super::geometry::project;
use super::pool::{GradientPool, PoolMethod};
use super::{Result, positive};
use crate::state::StateVisitor;

/// Radius, rounds and queries a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothingParameters {
    /// R.
    pub domain_radius: f64,
    /// L.
    pub lipschitz: f64,
    /// ρ.
    pub smoothing: f64,
    /// T.
    pub rounds: u64,
    /// m.
    pub batch: usize,
}

impl SmoothingParameters {
    /// The parameters above for accuracy ε.
    ///
    /// # Errors
    /// A quantity not above 0.
    pub fn for_accuracy(dimension: usize, lipschitz: f64, domain_radius: f64, accuracy: f64) -> Result<Self> {
        let condition = positive("L", lipschitz)? * positive("R", domain_radius)? / positive("ε", accuracy)?;
        let root = (dimension as f64).powf(0.25);
        Ok(Self {
            domain_radius,
            lipschitz,
            smoothing: accuracy / (2.0 * lipschitz * (dimension as f64).sqrt()),
            rounds: (6.0 * root * condition).ceil() as u64,
            batch: (2.0 * condition / root).ceil().max(1.0) as usize,
        })
    }
}

/// The iteration from 0.
#[derive(Clone, Debug)]
pub struct RandomizedSmoothing {
    parameters: SmoothingParameters,
    completed: u64,
    point: Vec<f64>,
    average: Vec<f64>,
    momentum: Vec<f64>,
    gradient: Vec<f32>,
    offset: Vec<f32>,
}

impl RandomizedSmoothing {
    /// In dimension `dimension`.
    ///
    /// # Errors
    /// ρ not above 0.
    pub fn new(dimension: usize, parameters: SmoothingParameters) -> Result<Self> {
        positive("smoothing radius ρ", parameters.smoothing)?;
        Ok(Self {
            parameters,
            completed: 0,
            point: vec![0.0; dimension],
            average: vec![0.0; dimension],
            momentum: vec![0.0; dimension],
            gradient: vec![0.0; dimension],
            offset: vec![0.0; dimension],
        })
    }
}

impl PoolMethod for RandomizedSmoothing {
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        let parameters = self.parameters;
        let weight = self.completed as f64 + 1.0;
        // η_{0:t} = (t + 1)(t + 2)/2.
        let tau = 2.0 / (weight + 1.0);
        for ((x, y), z) in self.point.iter_mut().zip(&self.average).zip(&self.momentum) {
            *x = (1.0 - tau) * y + tau * z;
        }
        pool.fetch(&self.point, parameters.smoothing, parameters.batch)?;
        pool.reweighted_mean(0..parameters.batch, &self.offset, &mut self.gradient)?;
        let beta = 2.0 * parameters.lipschitz / parameters.smoothing;
        for (j, &g) in self.gradient.iter().enumerate() {
            self.average[j] = self.point[j] - f64::from(g) / beta;
            self.momentum[j] -= 0.5 * weight / beta * f64::from(g);
        }
        project(&mut self.average, parameters.domain_radius);
        project(&mut self.momentum, parameters.domain_radius);
        self.completed += 1;
        Ok(())
    }

    fn iterate(&self) -> &[f64] {
        &self.average
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("smoothing_rounds", &mut self.completed);
        visitor.f64s("smoothing_average", &mut self.average);
        visitor.f64s("smoothing_momentum", &mut self.momentum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::MaxOfLinear;
    use crate::resque::not_positive;
    use rounds_kernels::random::StreamKey;

    /// The bound on the expected gap.
    fn bound(parameters: &SmoothingParameters, dimension: usize) -> f64 {
        let (rho, l, t) = (parameters.smoothing, parameters.lipschitz, parameters.rounds as f64);
        let beta = 2.0 * l / rho;
        rho * l * (dimension as f64).sqrt()
            + 2.0 * beta * parameters.domain_radius.powi(2) / (t * (t + 1.0))
            + (t + 2.0) * l * l / (6.0 * parameters.batch as f64 * (beta - l / rho))
    }

    #[test]
    fn the_gap_is_within_the_bound_and_the_bound_within_the_accuracy() {
        for (dimension, accuracy) in [(16, 0.1), (256, 0.05)] {
            let function = MaxOfLinear::new(dimension, dimension.min(64), 1.0, 1.0).unwrap();
            let parameters = SmoothingParameters::for_accuracy(dimension, 1.0, 1.0, accuracy).unwrap();
            let bound = bound(&parameters, dimension);
            assert!(bound <= accuracy * 1.01, "{bound}");
            let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
            let mut run = RandomizedSmoothing::new(dimension, parameters).unwrap();
            for _ in 0..parameters.rounds {
                run.advance(&mut pool).unwrap();
            }
            let gap = function.value(run.iterate());
            assert!(gap <= accuracy, "{gap}");
            let queries = parameters.rounds * parameters.batch as u64;
            assert_eq!(pool.ledger().gradient_queries, queries);
        }
        let flat =
            SmoothingParameters { smoothing: 0.0, ..SmoothingParameters::for_accuracy(4, 1.0, 1.0, 0.1).unwrap() };
        let refused = RandomizedSmoothing::new(4, flat).map(drop);
        assert_eq!(refused, not_positive("smoothing radius ρ", 0.0));
    }
}

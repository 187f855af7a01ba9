//! Projected stochastic subgradient descent on a pool: the sequential baseline of [002 Table I].
//!
//! `x_{t+1} = Π_R(x_t − η·ḡ_t)`, ḡ_t the answer of a query at x_t, η = R/(L√T); the average of x_0 … x_{T−1} has expected
//! gap at most LR/√T. One step is one round of one query.

use super::geometry::project;
use super::pool::{GradientPool, PoolMethod};
use super::{Result, positive};
use crate::state::StateVisitor;

/// The iteration from 0.
#[derive(Clone, Debug)]
pub struct Subgradient {
    domain_radius: f64,
    step: f64,
    rounds: u64,
    completed: u64,
    point: Vec<f64>,
    sum: Vec<f64>,
    average: Vec<f64>,
    gradient: Vec<f32>,
    offset: Vec<f32>,
}

impl Subgradient {
    /// T = ⌈(LR/ε)²⌉ rounds for accuracy ε.
    ///
    /// # Errors
    /// A quantity not above 0.
    pub fn for_accuracy(dimension: usize, lipschitz: f64, domain_radius: f64, accuracy: f64) -> Result<Self> {
        let rounds =
            (positive("L", lipschitz)? * positive("R", domain_radius)? / positive("ε", accuracy)?).powi(2).ceil();
        Ok(Self {
            domain_radius,
            step: domain_radius / (lipschitz * rounds.sqrt()),
            rounds: rounds as u64,
            completed: 0,
            point: vec![0.0; dimension],
            sum: vec![0.0; dimension],
            average: vec![0.0; dimension],
            gradient: vec![0.0; dimension],
            offset: vec![0.0; dimension],
        })
    }

    /// T.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
}

impl PoolMethod for Subgradient {
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        self.sum.iter_mut().zip(&self.point).for_each(|(sum, x)| *sum += x);
        self.completed += 1;
        for (average, sum) in self.average.iter_mut().zip(&self.sum) {
            *average = sum / self.completed as f64;
        }
        pool.fetch(&self.point, 0.0, 1)?;
        pool.reweighted_mean(0..1, &self.offset, &mut self.gradient)?;
        self.point.iter_mut().zip(&self.gradient).for_each(|(x, &g)| *x -= self.step * f64::from(g));
        project(&mut self.point, self.domain_radius);
        Ok(())
    }

    fn iterate(&self) -> &[f64] {
        &self.average
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("subgradient_rounds", &mut self.completed);
        visitor.f64s("subgradient_iterate", &mut self.point);
        visitor.f64s("subgradient_sum", &mut self.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::MaxOfLinear;
    use rounds_kernels::random::StreamKey;

    #[test]
    fn the_average_meets_its_bound() {
        let function = MaxOfLinear::new(50, 25, 1.0, 1.0).unwrap();
        let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
        let mut run = Subgradient::for_accuracy(50, 1.0, 1.0, 0.05).unwrap();
        for _ in 0..run.rounds() {
            run.advance(&mut pool).unwrap();
        }
        let ledger = pool.ledger();
        assert_eq!([run.rounds, ledger.rounds, ledger.gradient_queries], [400; 3]);
        let gap = function.value(run.iterate());
        assert!(gap <= 0.05, "{gap}");
        assert!(Subgradient::for_accuracy(5, 1.0, 1.0, 0.0).is_err());
    }
}

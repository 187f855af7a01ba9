//! Projected stochastic subgradient descent on a pool: the sequential baseline of [002 Table I].
//!
//! `x_{t+1} = Π_R(x_t − η·ḡ_t)`, ḡ_t the answer of a query at x_t, η = R/(L√T); the average of x_0 … x_{T−1} has expected
//! gap at most LR/√T. One step is one round of one query.

use super::geometry::project;
use super::pool::GradientPool;
use super::{Result, positive};

/// The iteration from 0.
#[derive(Clone, Debug)]
pub struct Subgradient {
    domain_radius: f64,
    step: f64,
    rounds: u64,
    completed: u64,
    iterate: Vec<f64>,
    sum: Vec<f64>,
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
            iterate: vec![0.0; dimension],
            sum: vec![0.0; dimension],
            gradient: vec![0.0; dimension],
            offset: vec![0.0; dimension],
        })
    }

    /// One round.
    ///
    /// # Errors
    /// Whatever the pool refuses.
    pub fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        self.sum.iter_mut().zip(&self.iterate).for_each(|(sum, x)| *sum += x);
        self.completed += 1;
        pool.fetch(&self.iterate, 0.0, 1)?;
        pool.reweighted_mean(0..1, &self.offset, &mut self.gradient)?;
        self.iterate.iter_mut().zip(&self.gradient).for_each(|(x, &g)| *x -= self.step * f64::from(g));
        project(&mut self.iterate, self.domain_radius);
        Ok(())
    }

    /// True if all T rounds are done.
    pub fn finished(&self) -> bool {
        self.completed >= self.rounds
    }

    /// The average iterate.
    pub fn average(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / self.completed.max(1) as f64).collect()
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
        while !run.finished() {
            run.advance(&mut pool).unwrap();
        }
        let ledger = pool.ledger();
        assert_eq!([run.rounds, ledger.rounds, ledger.gradient_queries], [400; 3]);
        let gap = function.value(&run.average());
        assert!(gap <= 0.05, "{gap}");
        assert!(Subgradient::for_accuracy(5, 1.0, 1.0, 0.0).is_err());
    }
}

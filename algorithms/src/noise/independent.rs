//! Independent Gaussian noise, C = I: a fresh N(0, σ²I) a round.

use rounds_kernels::random::{self, StreamKey};

use super::{NOISE, NoiseError, NoiseMechanism};
use crate::state::StateVisitor;

/// `N(0, σ²I)` for each round, from the stream (key, noise, round). Stateless but for the round that is next.
pub struct IndependentGaussian {
    key: StreamKey,
    standard_deviation: f64,
    next: u64,
}

impl IndependentGaussian {
    /// Noise of standard deviation σ a coordinate.
    pub fn new(key: StreamKey, standard_deviation: f64) -> Self {
        Self { key, standard_deviation, next: 0 }
    }
}

impl NoiseMechanism for IndependentGaussian {
    fn add_increment(&mut self, round: u64, sum: &mut [f64]) -> Result<(), NoiseError> {
        if round != self.next {
            return Err(NoiseError::OutOfOrder { asked: round, next: self.next });
        }
        random::add_gaussian(&self.key, NOISE, round, self.standard_deviation, sum);
        self.next += 1;
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        0
    }

    fn fresh_per_round(&self) -> f64 {
        1.0
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_taken_once_and_in_order() {
        let mut noise = IndependentGaussian::new(StreamKey::Simulation(1), 1.0);
        let mut sum = vec![0.0; 5];
        noise.add_increment(0, &mut sum).unwrap();
        assert_eq!(noise.add_increment(0, &mut sum), Err(NoiseError::OutOfOrder { asked: 0, next: 1 }));
        assert_eq!(noise.add_increment(2, &mut sum), Err(NoiseError::OutOfOrder { asked: 2, next: 1 }));
        noise.add_increment(1, &mut sum).unwrap();
    }

    #[test]
    fn the_noise_has_its_standard_deviation() {
        let mut noise = IndependentGaussian::new(StreamKey::Simulation(1), 3.0);
        let mut sum = vec![0.0; 100_000];
        noise.add_increment(0, &mut sum).unwrap();
        let variance = sum.iter().map(|z| z * z).sum::<f64>() / 1e5;
        // The standard error of the variance is 9·√(2/1e5) = 0.04; five of them.
        assert!((variance - 9.0).abs() < 0.2, "{variance}");
    }
}

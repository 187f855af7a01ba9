//! Independent Gaussian noise, C = I: a fresh N(0, σ²I) a round.

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks};

use super::{NOISE, NoiseError, NoiseMechanism, PARALLEL_CHUNK, Progress};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// `N(0, σ²I)` for each round, from the stream (key, noise, round). Stateless but for the round that is next.
pub struct IndependentGaussian {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
}

impl IndependentGaussian {
    /// Noise of standard deviation σ a coordinate.
    pub fn new(key: StreamKey, standard_deviation: f64) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(u64::MAX),
        }
    }
}

impl NoiseMechanism for IndependentGaussian {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], engine: &Engine) -> Result<(), NoiseError> {
        self.progress.take(round)?;
        engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
            let block = (offset / BLOCK_COORDINATES) as u64;
            add_gaussian_blocks(&self.key, NOISE, round, block, self.standard_deviation, part);
        });
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        0
    }

    fn fresh_per_round(&self) -> f64 {
        1.0
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

//! Anti-correlated noise, B = I and C = S ([001 Example 3.2], Anti-PGD): increments `z_t − z_{t−1}`, so that every prefix
//! carries one fresh draw.

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks};

use super::{NOISE, NoiseError, NoiseMechanism, PARALLEL_CHUNK, Progress};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// `σ·(z_t − z_{t−1})`, z_{−1} = 0. The sensitivity of C = S for one participation is √T (the first column has T ones).
/// The previous draw is made again from its address rather than kept.
pub struct AntiCorrelated {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
}

impl AntiCorrelated {
    /// Noise for `rounds` rounds whose draws have standard deviation σ.
    pub fn new(key: StreamKey, standard_deviation: f64, rounds: u64) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rounds),
        }
    }
}

impl NoiseMechanism for AntiCorrelated {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], engine: &Engine) -> Result<(), NoiseError> {
        self.progress.take(round)?;
        engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
            let block = (offset / BLOCK_COORDINATES) as u64;
            add_gaussian_blocks(&self.key, NOISE, round, block, self.standard_deviation, part);
            if round > 0 {
                add_gaussian_blocks(&self.key, NOISE, round - 1, block, -self.standard_deviation, part);
            }
        });
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        0
    }

    fn fresh_per_round(&self) -> f64 {
        2.0
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

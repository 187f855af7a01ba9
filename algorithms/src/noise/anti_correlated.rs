//! Anti-correlated noise, B = I and C = S ([001 Example 3.2], Anti-PGD): increments `z_t − z_{t−1}`, so that every prefix
//! carries one fresh draw.

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks};

use super::plan::{NoisePlan, PlannedNoise};
use super::{NOISE, NoiseError, NoiseMechanism, PARALLEL_CHUNK, Progress};
use crate::oracle::Engine;
use crate::privacy::Mechanism;
use crate::state::StateVisitor;

/// The registry's entry. The sensitivity is the norm of S's worst participation, at most
/// `√(Σ_t (participations up to t)²)`, attained by the first example of each epoch; √T for one participation.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let squared: f64 = (0..plan.rounds)
        .map(|t| ((t / plan.rounds_per_epoch + 1) as f64).powi(2))
        .sum();
    let (sensitivity, rounds) = (squared.sqrt(), plan.rounds as u64);
    PlannedNoise::new(
        move |noise_multiplier, sampling| Mechanism::Factorized {
            noise_multiplier,
            sampling,
            sensitivity,
        },
        move |key, sigma| Box::new(AntiCorrelated::new(key, sigma, rounds)),
    )
}

/// `σ·(z_t − z_{t−1})`, z_{−1} = 0.
/// The previous draw is made again from its address rather than kept.
pub(super) struct AntiCorrelated {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
}

impl AntiCorrelated {
    /// Noise for `rounds` rounds whose draws have standard deviation σ.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, rounds: u64) -> Self {
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

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

//! Independent Gaussian noise, C = I: a fresh N(0, σ²I) a round.

use rounds_kernels::random::StreamKey;

use super::plan::{NoisePlan, PlannedNoise};
use super::scheduled::Level;
use super::stream::{NoiseMechanism, Progress, Result};
use crate::parallel::Engine;
use crate::privacy::{Mechanism, Sampling};
use crate::state::StateVisitor;

/// The registry's entry: one Gaussian mechanism an epoch.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    PlannedNoise::gaussian(plan.epochs())
}

impl PlannedNoise {
    /// A fresh Gaussian a round; an example takes part in `participations` of them, at most.
    pub(crate) fn gaussian(participations: usize) -> Self {
        Self::independent(move |noise_multiplier, sampling| Mechanism::Gaussian {
            noise_multiplier,
            sampling,
            participations,
        })
    }

    /// A fresh Gaussian in each of `steps` rounds on batches drawn at random.
    pub(crate) fn subsampled_gaussian(steps: usize) -> Self {
        Self::independent(move |noise_multiplier, sampling| Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling,
            steps,
        })
    }

    /// A fresh Gaussian in each of `rounds` rounds, of which the last iterate alone is published.
    pub(crate) fn last_iterate(contraction: f64, batches: usize, rounds: usize) -> Self {
        Self::independent(move |noise_multiplier, sampling| Mechanism::LastIterate {
            noise_multiplier,
            sampling,
            contraction,
            batches,
            rounds,
        })
    }

    fn independent(release: impl Fn(f64, Sampling) -> Mechanism + 'static) -> Self {
        Self::new(release, |key, sigma| Box::new(IndependentGaussian::new(key, sigma)))
    }
}

/// `N(0, σ²I)` for each round, from the stream (key, noise, round). Stateless but for the round that is next.
pub(super) struct IndependentGaussian {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
}

impl IndependentGaussian {
    /// Noise of standard deviation σ a coordinate.
    pub(super) fn new(key: StreamKey, standard_deviation: f64) -> Self {
        Self { key, standard_deviation, progress: Progress::new(u64::MAX) }
    }
}

impl NoiseMechanism for IndependentGaussian {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        self.progress.take(round)?;
        Level::Gaussian(self.standard_deviation).add(&self.key, round, sum, unit, engine)
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        Level::Gaussian(self.standard_deviation).in_units(unit).map(drop)
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

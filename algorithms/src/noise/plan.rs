//! A noise mechanism planned for a run: its stream beside its sensitivity under the run's participation, so that they cannot
//! disagree.

use rounds_kernels::random::StreamKey;

use super::stream::NoiseMechanism;
use crate::factorization::{FactorizationError, Participation, WorkloadSpecification};
use crate::privacy::{Mechanism, Sampling};

/// The run that a mechanism is made for.
#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// Rounds T.
    pub rounds: usize,
    /// Rounds of one epoch, b: an example that takes part in round j does so again in j + b, j + 2b, …
    pub rounds_per_epoch: usize,
    /// Use that the run makes of its gradients: the factorisation is best for this workload.
    pub workload: WorkloadSpecification,
    /// Parameters p.
    pub dimension: usize,
}

/// A mechanism whose noise is still to be scaled.
pub struct PlannedNoise {
    release: Box<dyn Fn(f64, Sampling) -> Mechanism>,
    stream: Box<dyn FnOnce(StreamKey, f64) -> Box<dyn NoiseMechanism>>,
    excess: f64,
}

/// A mechanism that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoisePlanError {
    /// The factorisation refuses.
    #[error(transparent)]
    Factorization(#[from] FactorizationError),
    /// Laplace noise does not belong to this family.
    #[error(
        "laplace noise: this algorithm accounts for its noise as one Gaussian mechanism; take dp-gd, dp-hb or dp-nag"
    )]
    Laplace,
    /// More rounds than the excess of a release's noise is proven for.
    #[error(
        "a factorisation of {rounds} rounds with {participations} participations of a row: the rounding of its sensitivity is bounded \
         for (participations + 1)·(rounds + 20) up to 2^27; take fewer rounds"
    )]
    TooLong {
        /// T.
        rounds: usize,
        /// k.
        participations: usize,
    },
}

impl NoisePlan {
    /// Epochs k = ⌈T/b⌉: participations of one example, at most.
    pub fn epochs(&self) -> usize {
        self.rounds.div_ceil(self.rounds_per_epoch)
    }

    /// The participation of one example: whole epochs, or rounds at least b apart where the last epoch is not whole.
    pub(super) fn participation(&self) -> Participation {
        let epochs = self.epochs();
        if epochs * self.rounds_per_epoch == self.rounds || epochs == 1 {
            Participation::epochs(epochs)
        } else {
            Participation::MinimumSeparation { participations: epochs, separation: self.rounds_per_epoch }
        }
    }

    /// The release of prefixes through one tree an epoch.
    pub(super) fn tree_release(&self) -> impl Fn(f64, Sampling) -> Mechanism + 'static {
        let (rounds, trees) = (self.rounds_per_epoch.min(self.rounds), self.epochs());
        move |noise_multiplier, sampling| Mechanism::Tree { noise_multiplier, sampling, rounds, trees }
    }
}

impl PlannedNoise {
    /// `release` states the mechanism of a noise multiplier; `stream` makes the stream whose entries of Z have a standard
    /// deviation.
    pub(super) fn new(
        release: impl Fn(f64, Sampling) -> Mechanism + 'static,
        stream: impl FnOnce(StreamKey, f64) -> Box<dyn NoiseMechanism> + 'static,
    ) -> Self {
        Self { release: Box::new(release), stream: Box::new(stream), excess: 1.0 }
    }

    /// The same mechanism, drawn with noise `excess` ≥ 1 times as large as it states.
    ///
    /// # Panics
    /// An excess below 1.
    pub(crate) fn in_excess(self, excess: f64) -> Self {
        assert!(excess >= 1.0, "noise is never less than what is stated");
        Self { excess, ..self }
    }

    /// The same stream on `steps` batches that are drawn at random, for noise of a square C with `bands` bands that was planned for one
    /// participation of a row; nothing for other noise.
    pub(crate) fn on_random_batches(self, bands: usize, steps: usize) -> Option<Self> {
        let Mechanism::Factorized { sensitivity, .. } = self.mechanism(1.0, Sampling::FixedOrder) else { return None };
        let release = move |noise_multiplier, sampling| Mechanism::SubsampledBanded {
            noise_multiplier,
            sampling,
            bands,
            sensitivity,
            steps,
        };
        Some(Self { release: Box::new(release), ..self })
    }

    /// The mechanism of a run with noise of this multiplier (standard deviation of Z's entries over clip norm).
    pub fn mechanism(&self, noise_multiplier: f64, sampling: Sampling) -> Mechanism {
        (self.release)(noise_multiplier, sampling)
    }

    /// The stream, with Z's entries of this standard deviation, or more in excess. Its vectors are f64 where the key is a release
    /// key.
    pub(super) fn stream(self, key: StreamKey, standard_deviation: f64) -> Box<dyn NoiseMechanism> {
        (self.stream)(key, self.excess * standard_deviation)
    }
}

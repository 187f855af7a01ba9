//! From a person's settings to the plan that every mini-batch method shares: batches, rounds, sampling, calibrated noise.

use rounds_kernels::linear::computed_sensitivity_factor;

use super::settings::{SamplingKind, positive};
use super::{Budget, Settings, SettingsError};
use crate::catalog::PrepareError;
use crate::privacy::{self, Accountant, Adjacency, Mechanism, PrivacyStatement, Sampling};

/// Which batches, and how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchPlan {
    /// Nominal batch size B: sums are divided by it.
    pub batch_size: usize,
    /// Rounds T.
    pub rounds: u64,
    /// Rounds of one pass over the data, ⌈n/B⌉.
    pub rounds_per_epoch: u64,
    /// What the sampler does and the accountant reads.
    pub sampling: Sampling,
    /// Neighbouring relation of the guarantee.
    pub adjacency: Adjacency,
}

/// What an algorithm does where nothing is asked for.
#[derive(Clone, Copy, Debug)]
pub struct BatchDefaults {
    /// Batch size, cut to n.
    pub batch_size: usize,
    /// Passes over the data.
    pub epochs: f64,
    /// Sampling scheme.
    pub sampling: SamplingKind,
}

impl BatchPlan {
    /// The plan for `rows` examples. Without `--adjacency` it takes the first relation that the sampling allows, in the
    /// order add-remove, zero-out, replace-one.
    ///
    /// # Errors
    /// Zero epochs, and batches that the data cannot give.
    pub fn new(settings: &Settings, rows: usize, defaults: BatchDefaults) -> Result<Self, PrepareError> {
        let batch_size = settings.batch_size.unwrap_or(defaults.batch_size.min(rows));
        if batch_size == 0 || batch_size > rows {
            return Err(SettingsError::OutOfRange {
                flag: "--batch-size",
                value: batch_size.to_string(),
                expected: "a batch has at least 1 row and at most as many as the data set",
            }
            .into());
        }
        let epochs = positive("--epochs", settings.epochs.unwrap_or(defaults.epochs))?;
        let rounds = (epochs * rows as f64 / batch_size as f64).ceil().max(1.0) as u64;
        let sampling = match settings.sampling.unwrap_or(defaults.sampling) {
            SamplingKind::Poisson => Sampling::Poisson { rate: batch_size as f64 / rows as f64 },
            SamplingKind::WithoutReplacement => Sampling::WithoutReplacement { batch: batch_size, population: rows },
            _ if batch_size == rows => Sampling::FullBatch,
            SamplingKind::Fixed => Sampling::FixedOrder,
            SamplingKind::Shuffled => Sampling::ShuffledOnce,
            SamplingKind::Reshuffled => Sampling::ReshuffledEachEpoch,
        };
        let adjacency = settings.adjacency.unwrap_or_else(|| {
            [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne]
                .into_iter()
                .find(|&adjacency| sampling.check(adjacency).is_ok())
                .unwrap_or(Adjacency::ZeroOut)
        });
        Ok(Self { batch_size, rounds, rounds_per_epoch: rows.div_ceil(batch_size) as u64, sampling, adjacency })
    }

    /// Rounds in which one example takes part at most, for sampling that is not random.
    pub fn participations(&self) -> u64 {
        self.rounds.div_ceil(self.rounds_per_epoch)
    }
}

/// Noise that fits a budget, and the statement about it.
pub struct CalibratedNoise {
    /// Noise standard deviation over clip norm.
    pub noise_multiplier: f64,
    /// Standard deviation of the noise on a sum whose summands are clipped to C, a coordinate.
    pub standard_deviation: f64,
    /// What the run does, for accountants.
    pub mechanism: Mechanism,
    /// The guarantee.
    pub statement: PrivacyStatement,
}

/// The clip norm as the f32 that the kernels clip to: what is clipped to and what is accounted for are one number.
///
/// # Errors
/// A clip norm that is not finite and above 0.
pub fn clip_norm(settings: &Settings, default: f64) -> Result<f32, SettingsError> {
    let asked = positive("--clip-norm", settings.clip_norm.unwrap_or(default))?;
    positive("--clip-norm", f64::from(asked as f32)).map(|clip_norm| clip_norm as f32)
}

/// Calibrates `mechanism` (a function of the noise multiplier) to the budget of `settings`.
///
/// A release adds noise to sums computed in f32 blocks, whose sensitivity is C·(1 + 2m²·2⁻²⁴) rather than C
/// ([`computed_sensitivity_factor`]): its standard deviation grows by that factor.
///
/// # Errors
/// A budget that is no budget, or a mechanism that no theorem covers.
pub fn calibrate(
    settings: &Settings,
    clip_norm: f32,
    adjacency: Adjacency,
    default_accountant: Accountant,
    mechanism: impl Fn(f64) -> Mechanism,
) -> Result<CalibratedNoise, PrepareError> {
    let accountant = settings.accountant.unwrap_or(default_accountant);
    let (noise_multiplier, delta) = match settings.budget {
        Budget::NonPrivate => {
            return Err(SettingsError::OutOfRange {
                flag: "--epsilon",
                value: "none".to_owned(),
                expected: "a private algorithm needs a budget: an ε above 0, or a noise multiplier",
            }
            .into());
        }
        Budget::Target { epsilon, delta } => {
            (privacy::calibrate(accountant, adjacency, epsilon, delta, &mechanism)?, delta)
        }
        Budget::NoiseMultiplier { noise_multiplier, delta } => {
            (positive("--noise-multiplier", noise_multiplier)?, delta)
        }
    };
    let mechanism = mechanism(noise_multiplier);
    let epsilon = accountant.epsilon(&mechanism, adjacency, delta)?;
    let factor = if settings.is_release() { computed_sensitivity_factor() } else { 1.0 };
    let statement = PrivacyStatement::new(&mechanism, adjacency, accountant, epsilon, delta, clip_norm.into(), settings.is_release());
    Ok(CalibratedNoise { noise_multiplier, standard_deviation: noise_multiplier * f64::from(clip_norm) * factor, mechanism, statement })
}

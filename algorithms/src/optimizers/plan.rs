//! From a person's settings to the plan that every mini-batch method shares: batches, rounds, sampling, calibrated noise.

use rounds_kernels::linear::{Additions, computed_sensitivity};

use super::settings::{SamplingKind, positive};
use super::{Budget, PrepareError, Settings, SettingsError};
use crate::oracle::partition;
use crate::privacy::{
    self, Accountant, Adjacency, Arithmetic, Mechanism, NoiseSource, PrivacyStatement, PrivateRun, Sampling,
};
use crate::problem::PublicProblem;
use crate::sampling::Sampler;

/// Which batches, and how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchPlan {
    /// Nominal batch size B: sums are divided by it.
    pub batch_size: usize,
    /// Rounds T.
    pub rounds: usize,
    /// Rounds of one pass over the data, ⌈n/B⌉.
    pub rounds_per_epoch: usize,
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
    /// The plan for `problem`, under the relation that the settings ask for or the domain declares.
    ///
    /// # Errors
    /// Zero epochs, batches that the data cannot give, add/remove without a public number of rows.
    pub fn new(settings: &Settings, problem: &PublicProblem, defaults: BatchDefaults) -> Result<Self, PrepareError> {
        let rows = problem.rows();
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
        let rounds = match settings.rounds {
            Some(rounds) => rounds.max(1) as usize,
            None => (epochs * rows as f64 / batch_size as f64).ceil().max(1.0) as usize,
        };
        let sampling = match settings.sampling.unwrap_or(defaults.sampling) {
            SamplingKind::Poisson => Sampling::Poisson {
                rate: batch_size as f64 / rows as f64,
            },
            SamplingKind::WithoutReplacement => Sampling::WithoutReplacement {
                batch: batch_size,
                population: rows,
            },
            _ if batch_size == rows => Sampling::FullBatch,
            SamplingKind::Fixed => Sampling::FixedOrder,
            SamplingKind::Shuffled => Sampling::ShuffledOnce,
            SamplingKind::Reshuffled => Sampling::ReshuffledEachEpoch,
        };
        let adjacency = problem.adjacency(settings.adjacency)?;
        Ok(Self {
            batch_size,
            rounds,
            rounds_per_epoch: rows.div_ceil(batch_size),
            sampling,
            adjacency,
        })
    }

    /// Rows of the largest batch that the sampling can draw.
    pub fn largest_batch(&self, problem: &PublicProblem) -> usize {
        match self.sampling {
            Sampling::Poisson { .. } | Sampling::FullBatch => problem.most_rows(),
            _ => self.batch_size,
        }
    }

    /// Queries of a run that asks one a row, or two in every round but the first where it takes `differences`.
    pub fn difference_queries(&self, sampler: &Sampler, differences: bool) -> Option<u64> {
        let rows = sampler.planned_rows(self.rounds as u64)?;
        let again = if differences {
            rows - sampler.planned_rows(1)?
        } else {
            0
        };
        Some(rows + again)
    }

    /// Rounds in which one example takes part at most, for sampling that is not random.
    pub fn participations(&self) -> usize {
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

/// Rows whose clipped gradients a release adds up in f32 before they enter an f64 sum. With one row, a contribution is
/// rounded on its own: what the other rows hold, or where they stand in the batch, cannot change it.
pub const RELEASE_BLOCK_ROWS: usize = 1;

/// What the sensitivity of a sum of at most `largest_batch` rows of `problem` grows by, relative to C, because it is
/// computed in floating point: a release's rounding of each contribution ([`computed_sensitivity`]) and of the sum over
/// contributions ([`Additions`]); 1 for a simulation.
pub fn release_inflation(
    settings: &Settings,
    problem: &PublicProblem,
    (adjacency, sampling): (Adjacency, Option<Sampling>),
    largest_batch: usize,
) -> f64 {
    if !settings.is_release() {
        return 1.0;
    }
    let (row_cycles, leaf_rows) = (problem.row_cycles(), problem.leaf_rows());
    let additions = Additions {
        rows: largest_batch,
        rows_of_leaf: partition::longest_leaf(largest_batch, row_cycles, leaf_rows),
        levels: problem.leaves(largest_batch).ilog2(),
        // Amplification compares batches with and without the row: of random ones the lengths differ.
        rows_move: adjacency == Adjacency::AddRemove || sampling.is_none_or(Sampling::amplifies),
    };
    computed_sensitivity(1.0, RELEASE_BLOCK_ROWS) + additions.inflation()
}

/// Calibrates `mechanism` (a function of the noise multiplier) to the budget of `settings`, for sums of at most
/// `largest_batch` rows of `problem`. The noise of a release grows by [`release_inflation`], so that ε holds for what is
/// computed.
///
/// # Errors
/// A budget that is no budget, or a mechanism that no theorem covers.
pub fn calibrate(
    settings: &Settings,
    clip_norm: f32,
    adjacency: Adjacency,
    (problem, largest_batch): (&PublicProblem, usize),
    mechanism: impl Fn(f64) -> Mechanism,
) -> Result<CalibratedNoise, PrepareError> {
    let accountant = settings
        .accountant
        .unwrap_or_else(|| Accountant::default_for(&mechanism(1.0)));
    let release = settings.is_release();
    let sampling = mechanism(1.0).sampling();
    let inflation = release_inflation(settings, problem, (adjacency, sampling), largest_batch);
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
            let mut noise_multiplier =
                privacy::calibrate(accountant, adjacency, epsilon, delta, &mechanism)? * inflation;
            // The product is rounded, and ε on a grid is not exactly monotone: what is stated must hold.
            let exceeds = |noise_multiplier| {
                let inflated = mechanism(noise_multiplier).with_inflated_sensitivity(inflation);
                accountant
                    .epsilon(&inflated, adjacency, delta)
                    .is_ok_and(|stated| stated > epsilon)
            };
            while exceeds(noise_multiplier) {
                noise_multiplier *= 1.0 + 1e-10;
            }
            (noise_multiplier, delta)
        }
        Budget::NoiseMultiplier {
            noise_multiplier,
            delta,
        } => (positive("--noise-multiplier", noise_multiplier)?, delta),
    };
    let mechanism = mechanism(noise_multiplier);
    let clip_norm = f64::from(clip_norm);
    // Asked before the statement, which fails closed: a person who asked for a budget gets the reason as an error.
    accountant.epsilon(&mechanism, adjacency, delta)?;
    let statement = PrivacyStatement::new(&PrivateRun {
        mechanism: &mechanism,
        accountant,
        adjacency,
        delta,
        clip_norm,
        sensitivity_inflation: inflation,
        problem,
        noise_source: if release {
            NoiseSource::Chacha20
        } else {
            NoiseSource::Xoshiro
        },
        arithmetic: Arithmetic::IdealisedGaussian,
    });
    Ok(CalibratedNoise {
        noise_multiplier,
        standard_deviation: noise_multiplier * clip_norm,
        mechanism,
        statement,
    })
}

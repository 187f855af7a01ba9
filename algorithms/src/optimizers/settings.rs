//! What a person asks of a run, the same for every algorithm; each algorithm fills in its own defaults.

use std::collections::BTreeMap;

use rounds_kernels::random::StreamKey;

use crate::noise::{NoiseKind, StrategyMemory};
use crate::privacy::{Accountant, Adjacency};

/// How much privacy a run may spend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// No noise and no claim.
    NonPrivate,
    /// The smallest noise that satisfies (ε, δ).
    Target {
        /// ε > 0.
        epsilon: f64,
        /// δ ∈ (0, 1).
        delta: f64,
    },
    /// This noise multiplier, whatever ε it gives at δ.
    NoiseMultiplier {
        /// Noise standard deviation over clip norm.
        noise_multiplier: f64,
        /// δ ∈ (0, 1) at which ε is reported.
        delta: f64,
    },
}

/// Which iterate is returned. Averages are post-processing of what was released: they cost no privacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Averaging {
    /// The last iterate.
    #[default]
    Last,
    /// The mean of all iterates x_1 … x_T.
    Uniform,
    /// The mean of the last half of the iterates.
    Suffix,
}

/// A sampling scheme by name; sizes come from the batch size and the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingKind {
    /// Rows in their order.
    Fixed,
    /// One permutation for the whole run.
    Shuffled,
    /// A new permutation every epoch.
    Reshuffled,
    /// Every row independently with rate B/n.
    Poisson,
    /// B distinct rows, uniformly.
    WithoutReplacement,
}

/// A setting that an algorithm cannot use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A number outside its range.
    #[error("{flag} {value}: {expected}")]
    OutOfRange {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// A `--set` key that the algorithm does not know.
    #[error("--set {key}: algorithm '{algorithm}' has no such parameter; it takes {known}")]
    UnknownParameter {
        /// The key.
        key: String,
        /// The algorithm.
        algorithm: &'static str,
        /// What it takes.
        known: String,
    },
    /// A choice that this algorithm does not offer.
    #[error("{flag} {value}: algorithm '{algorithm}' {reason}")]
    Unsupported {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// The algorithm.
        algorithm: &'static str,
        /// Why not, and what instead.
        reason: &'static str,
    },
    /// A theorem whose preconditions do not hold.
    #[error(
        "--set mode=faithful: algorithm '{algorithm}' cannot keep its proof: {reason}; feasible from {examples} on. Use mode=dp-practical for a guarantee, or mode=scaled without one"
    )]
    Infeasible {
        /// The algorithm.
        algorithm: &'static str,
        /// The precondition.
        reason: String,
        /// From how many examples on.
        examples: String,
    },
    /// A name that no variant has.
    #[error("{flag} '{value}' is not known; it takes {known}")]
    UnknownName {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What there is.
        known: &'static str,
    },
}

impl std::str::FromStr for SamplingKind {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        Ok(match name {
            "fixed" => Self::Fixed,
            "shuffled" => Self::Shuffled,
            "reshuffled" => Self::Reshuffled,
            "poisson" => Self::Poisson,
            "without-replacement" => Self::WithoutReplacement,
            _ => {
                return Err(SettingsError::UnknownName {
                    flag: "--sampling",
                    value: name.to_owned(),
                    known: "poisson, fixed, shuffled, reshuffled or without-replacement",
                });
            }
        })
    }
}

impl std::str::FromStr for Averaging {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        Ok(match name {
            "last" => Self::Last,
            "uniform" => Self::Uniform,
            "suffix" => Self::Suffix,
            _ => {
                return Err(SettingsError::UnknownName {
                    flag: "--set averaging",
                    value: name.to_owned(),
                    known: "last, uniform or suffix",
                });
            }
        })
    }
}

/// Everything a person may set for a run; `None` means the algorithm's default.
#[derive(Clone)]
pub struct Settings {
    /// Passes over the data (expected ones for Poisson sampling).
    pub epochs: Option<f64>,
    /// Rounds, instead of passes over the data.
    pub rounds: Option<u64>,
    /// Batch size B (expected size for Poisson sampling).
    pub batch_size: Option<usize>,
    /// Step size.
    pub learning_rate: Option<f64>,
    /// Momentum β ∈ [0, 1).
    pub momentum: Option<f64>,
    /// Clip norm C > 0.
    pub clip_norm: Option<f64>,
    /// How much privacy.
    pub budget: Budget,
    /// Neighbouring relation.
    pub adjacency: Option<Adjacency>,
    /// Sampling scheme.
    pub sampling: Option<SamplingKind>,
    /// Accountant.
    pub accountant: Option<Accountant>,
    /// Noise mechanism.
    pub noise: Option<NoiseKind>,
    /// Key of all noise and sampling streams.
    pub key: StreamKey,
    /// `--set key=value`: an algorithm's own parameters.
    pub parameters: BTreeMap<String, String>,
    /// Strategies of correlated noise: where their factorisations come from, and those made before. Clones share it, so
    /// that the runs of a study factorise once.
    pub strategies: StrategyMemory,
}

impl Settings {
    /// Defaults everywhere, with this budget and key.
    pub fn new(budget: Budget, key: StreamKey) -> Self {
        Self {
            epochs: None,
            rounds: None,
            batch_size: None,
            learning_rate: None,
            momentum: None,
            clip_norm: None,
            budget,
            adjacency: None,
            sampling: None,
            accountant: None,
            noise: None,
            key,
            parameters: BTreeMap::new(),
            strategies: StrategyMemory::default(),
        }
    }

    /// Whether noise and sampling come from the operating system's key.
    pub fn is_release(&self) -> bool {
        matches!(self.key, StreamKey::Release(_))
    }

    /// Refuses `--set` keys that `algorithm` does not know.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn check_parameters(&self, algorithm: &'static str, known: &[&str]) -> Result<(), SettingsError> {
        match self.parameters.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(SettingsError::UnknownParameter {
                key: key.clone(),
                algorithm,
                known: if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            }),
        }
    }

    /// An own parameter as a number, or its default; `accept` says which values are allowed.
    ///
    /// # Errors
    /// A value that is no number or not accepted.
    pub fn number(
        &self,
        key: &'static str,
        default: f64,
        expected: &'static str,
        accept: impl Fn(f64) -> bool,
    ) -> Result<f64, SettingsError> {
        match self.parameters.get(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .ok()
                .filter(|&value| accept(value))
                .ok_or_else(|| SettingsError::OutOfRange {
                    flag: key,
                    value: text.clone(),
                    expected,
                }),
        }
    }

    /// An own parameter parsed from its name, or its default.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn named<T: std::str::FromStr<Err = SettingsError>>(&self, key: &str, default: T) -> Result<T, SettingsError> {
        self.parameters.get(key).map_or(Ok(default), |text| text.parse())
    }
}

/// `value` if it is finite and above 0.
///
/// # Errors
/// Names the flag otherwise.
pub fn positive(flag: &'static str, value: f64) -> Result<f64, SettingsError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(SettingsError::OutOfRange {
            flag,
            value: value.to_string(),
            expected: "a finite number above 0 is needed",
        })
    }
}

/// `value` if it lies in [0, 1).
///
/// # Errors
/// Names the flag otherwise.
pub fn fraction(flag: &'static str, value: f64) -> Result<f64, SettingsError> {
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err(SettingsError::OutOfRange {
            flag,
            value: value.to_string(),
            expected: "a number in [0, 1) is needed",
        })
    }
}

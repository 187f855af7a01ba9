//! The settings of a run, and the choices that many algorithms offer.

use std::collections::BTreeMap;
use std::fmt::Display;

use rounds_kernels::linear::Precision;
use rounds_kernels::random::StreamKey;

use crate::choices::choices;
use crate::noise::StrategyMemory;
use crate::privacy::{Budget, CalibrationMemory};

choices! {
    /// The iterate that is returned. Averages are post-processing of what was released: they cost no privacy.
    pub enum Averaging {
        /// The last iterate.
        Last = "last",
        /// The mean of all iterates x_1 … x_T.
        Uniform = "uniform",
        /// The mean of the last half of the iterates.
        Suffix = "suffix",
    }
}

choices! {
    /// Bits of weights and of row coefficients where rows are multiplied as integers.
    pub enum Bits {
        /// Two digits of eight bits.
        Sixteen = "16",
        /// Three digits.
        TwentyFour = "24",
    }
}

impl From<Bits> for Precision {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Sixteen => Precision::Bits16,
            Bits::TwentyFour => Precision::Bits24,
        }
    }
}

choices! {
    /// A sampling scheme by name; sizes come from the batch size and the data.
    pub enum SamplingKind {
        /// Every row independently with rate B/n.
        Poisson = "poisson",
        /// Rows in their order.
        Fixed = "fixed",
        /// One permutation for the whole run.
        Shuffled = "shuffled",
        /// A new permutation every epoch.
        Reshuffled = "reshuffled",
        /// B distinct rows, uniformly.
        WithoutReplacement = "without-replacement",
        /// Groups of units in turn, each unit of a round's group independently with rate B·b/n.
        CyclicPoisson = "cyclic-poisson",
        /// Every unit in one round of each epoch, thrown independently of the others.
        RandomAllocation = "random-allocation",
        /// The same within groups of units that take turns.
        CyclicAllocation = "cyclic-allocation",
        /// Poisson batches, cut to a largest size.
        TruncatedPoisson = "truncated-poisson",
    }
}

/// A setting that an algorithm cannot use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A value outside its range.
    #[error("{parameter} {value}: {expected} is needed")]
    OutOfRange {
        /// The parameter.
        parameter: &'static str,
        /// The given value.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// A parameter that the algorithm does not read.
    #[error("{parameter}: algorithm '{algorithm}' has no such parameter; it takes {known}")]
    UnknownParameter {
        /// The parameter.
        parameter: String,
        /// The algorithm.
        algorithm: &'static str,
        /// The parameters of the algorithm.
        known: String,
    },
    /// A value that this algorithm does not offer.
    #[error("{parameter} {value}: algorithm '{algorithm}' {reason}")]
    Unsupported {
        /// The parameter.
        parameter: &'static str,
        /// The given value.
        value: String,
        /// The algorithm.
        algorithm: &'static str,
        /// The reason, and the alternative.
        reason: &'static str,
    },
}

impl SettingsError {
    /// A `value` in place of what is `expected`.
    pub(super) fn out_of_range(parameter: &'static str, value: impl Display, expected: &'static str) -> Self {
        // Of a long list the begin.
        let (value, most) = (value.to_string(), 100);
        let shown =
            value.char_indices().nth(most).map_or_else(|| value.clone(), |(end, _)| format!("{}…", &value[..end]));
        Self::OutOfRange { parameter, value: shown, expected }
    }

    /// A `value` that `algorithm` does not offer.
    pub(super) fn unsupported(
        parameter: &'static str,
        value: impl Display,
        algorithm: &'static str,
        reason: &'static str,
    ) -> Self {
        Self::Unsupported { parameter, value: value.to_string(), algorithm, reason }
    }
}

/// The settings of a run: budget, key, and values of the parameters that the algorithm describes. An absent parameter has
/// the algorithm's default.
#[derive(Clone)]
pub struct Settings {
    /// The privacy budget.
    pub budget: Budget,
    /// The share of the budget's μ² that the [moments](crate::moments) of the rows take before the run, where its features follow from
    /// them. A statement says so; of an algorithm that divides its budget by itself none does.
    pub moments: Option<f64>,
    /// Key of all noise and sampling streams.
    pub key: StreamKey,
    /// Values by the names of the parameters; read by the algorithm's typed parameters.
    pub parameters: BTreeMap<String, String>,
    /// Strategies of correlated noise: the source of their factorisations, and those made before. Clones share it, so
    /// that the runs of a study factorise once.
    pub strategies: StrategyMemory,
    /// Noise of targets that was calibrated before. Clones share it, so that the runs of a study calibrate once.
    pub calibrations: CalibrationMemory,
}

impl Settings {
    /// Defaults everywhere, with this budget and key.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let budget = Budget::Target { epsilon: 1.0, delta: 1e-5 };
    /// let settings = Settings::new(budget, StreamKey::Simulation(1)).with("epochs", 2);
    /// assert_eq!(settings.parameters["epochs"], "2");
    /// assert!(!settings.is_release());
    /// ```
    pub fn new(budget: Budget, key: StreamKey) -> Self {
        Self {
            budget,
            moments: None,
            key,
            parameters: BTreeMap::new(),
            strategies: StrategyMemory::default(),
            calibrations: CalibrationMemory::default(),
        }
    }

    /// True if noise and sampling come from the operating system's key.
    pub fn is_release(&self) -> bool {
        matches!(self.key, StreamKey::Release(_))
    }
}

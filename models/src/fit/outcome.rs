//! The outcome of a training run, and the one rule of what may be printed of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::settings::PrivacySettings;
use crate::evaluation::Regression;
use crate::model_file::Header;

/// The part of an outcome that may be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A simulation's: everything.
    All,
    /// A release's: functions of released values, and what is declared public.
    Release,
    /// A release's with diagnostics: statistics of the rows too, under a key of their own.
    Diagnosed,
}

impl Shown {
    /// The part that a run with these settings may print.
    pub fn of(privacy: &PrivacySettings) -> Self {
        match (privacy.secure, privacy.diagnostics) {
            (false, _) => Self::All,
            (true, false) => Self::Release,
            (true, true) => Self::Diagnosed,
        }
    }

    /// True where statistics of the rows are computed.
    pub fn has_statistics(self) -> bool {
        self != Self::Release
    }

    /// `value`, if it may stand beside the guarantee: always in a simulation, in a release only if it is `public`.
    pub fn beside_claim<T>(self, public: bool, value: Option<T>) -> Option<T> {
        value.filter(|_| public || self == Self::All)
    }

    /// `value`, if it belongs to the diagnostics of a release.
    pub fn in_diagnostics<T>(self, value: T) -> Option<T> {
        (self == Self::Diagnosed).then_some(value)
    }
}

/// The outcome of a run, in the order of the `--json` document.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The statement, with the plan and the domain that it follows from: of a model, its header.
    #[serde(flatten)]
    pub header: Header,
    /// The unit of privacy, where it is not a row, as the statement tells it: `n` and gradient queries count units.
    #[serde(skip)]
    pub unit: Option<String>,
    /// Columns of numbers, by what a field that is no number does.
    pub numbers: BTreeMap<&'static str, Vec<String>>,
    /// Number of ranks, if there are several processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Threads, on each of the ranks.
    pub threads: usize,
    /// The binding of threads to cores, if the face binds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinning: Option<String>,
    /// Gradient queries; the expected number of a release.
    pub gradient_queries: u64,
    /// Absent from a release.
    #[serde(flatten)]
    pub times: Option<Times>,
    /// Quality on test rows; of a release only if these are declared public.
    #[serde(flatten)]
    pub test: Option<Quality>,
    /// Number of test rows; of a release only if these are declared public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_rows: Option<usize>,
    /// Their file, if they have one of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_file: Option<PathBuf>,
    /// Quality of a model without test rows: that of the same run on four fifths of the rows, on the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Quality>,
    /// Statistics of the rows, outside the guarantee; of a release only with diagnostics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Diagnostics>,
    /// The seed of a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Flags that the algorithm does not read, and assumptions of its theorem that do not hold; they concern utility, never
    /// privacy.
    pub warnings: Vec<String>,
    /// The file of the model.
    #[serde(skip)]
    pub model: Option<PathBuf>,
    #[serde(skip)]
    pub(super) shown: Shown,
}

impl Outcome {
    /// The same outcome with the times that a face took, where they may be printed.
    #[must_use]
    pub fn with_times(mut self, times: Times) -> Self {
        self.times = self.shown.beside_claim(false, Some(times));
        if let Some(private) = self.diagnostics.as_mut().and_then(|found| found.private.as_mut()) {
            private.times = Some(times);
        }
        self
    }
}

/// Quality of a model on rows that it was not trained on.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Quality {
    /// The share of rows whose class is predicted.
    #[serde(rename = "test_accuracy")]
    Accuracy(f64),
    /// Errors of numbers, in the units of the label.
    #[serde(rename = "test_errors")]
    Errors(Regression),
}

/// Times of the stages of a run, by the clock of a face.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// Seconds of the rounds.
    pub seconds: f64,
    /// Seconds of them in messages between ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_seconds: Option<f64>,
    /// Seconds of reading and encoding rows.
    pub load_seconds: f64,
    /// Seconds of planning and calibration.
    pub calibration_seconds: f64,
}

/// Statistics of the rows.
#[derive(Debug, Serialize)]
pub struct Diagnostics {
    /// Mean loss of the training rows.
    pub train_loss: f64,
    /// Share of training rows whose class is predicted; absent of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_accuracy: Option<f64>,
    /// Share of gradients that were clipped.
    pub clipped_fraction: f64,
    /// Training rows that are null rows; absent of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub null_rows: Option<usize>,
    /// The place of these numbers beside the guarantee.
    pub note: &'static str,
    /// Facts that a release does not print beside its claim.
    #[serde(flatten)]
    pub private: Option<PrivateFacts>,
}

/// Facts that a release does not print beside its claim.
#[derive(Debug, Serialize)]
pub struct PrivateFacts {
    /// Times, if a face took them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// Realised gradient queries.
    pub gradient_queries: u64,
    /// Number of training rows, or units.
    pub n: usize,
    /// Quality on test rows.
    #[serde(flatten)]
    pub test: Option<Quality>,
}

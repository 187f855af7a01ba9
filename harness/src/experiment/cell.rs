//! A cell: one point of an experiment, namely a method with its parameters on a problem. A sample: one run of a cell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of a line of `measurements.jsonl` and of `environment.json`.
pub const SCHEMA: u32 = 1;

/// Parameters by name: those of the algorithm as in `rounds train`, and those of the problem.
pub type Parameters = BTreeMap<String, Value>;

/// The measured values of a run, by name.
pub type Values = Map<String, Value>;

/// The parameters that a problem of the data sets and generators is made by, in the order in which they name its rows.
pub const PROBLEM_PARAMETERS: &[&str] = &[
    "loss",
    "regularization",
    "rows",
    "dimension",
    "norm",
    "smoothness",
    "data-seed",
    "class",
    "feature-map",
    "feature-bound",
    "bias",
    "test-split",
    "model-kind",
];

/// The identity of a cell. Two samples with equal configuration, repeat and draw are the same measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Configuration {
    /// Name of the definition.
    pub suite: String,
    /// Label of the problem, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// Label of the method, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Id in the catalogue, or the study's own name of a method.
    pub algorithm: String,
    /// Data set or generator.
    pub dataset: String,
    /// Storage of the rows: `f32`, `u8` or `sparse`.
    pub features: String,
    /// Examples a round; 0 for the algorithm's default.
    pub batch_size: usize,
    /// Number of threads, on each rank.
    pub threads: usize,
    /// Number of ranks, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Parameters of algorithm and problem.
    #[serde(default)]
    pub parameters: Parameters,
    /// Names of those that stand in a table of the problem; known of planned cells alone.
    #[serde(skip)]
    pub of_problem: BTreeSet<String>,
}

/// Equal keys: what is stored of a cell does not say where its parameters stood.
impl PartialEq for Configuration {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Configuration {
    /// The configuration in one line. Equal configurations have equal keys.
    pub fn key(&self) -> String {
        let mut key = format!(
            "{}/{}/{}/{}/batch={}/threads={}",
            self.suite, self.algorithm, self.dataset, self.features, self.batch_size, self.threads
        );
        if let Some(ranks) = self.ranks {
            let _ = write!(key, "/ranks={ranks}");
        }
        for (name, label) in [("problem", &self.problem), ("method", &self.method)] {
            if !label.is_empty() {
                let _ = write!(key, "/{name}={label}");
            }
        }
        for (name, value) in &self.parameters {
            let _ = write!(key, "/{name}={value}");
        }
        key
    }

    /// The method's label, or the algorithm with its parameters: `dp-ftrl noise=tree`.
    pub fn label(&self) -> String {
        if !self.method.is_empty() {
            return self.method.clone();
        }
        let mut label = self.algorithm.clone();
        for (name, value) in &self.parameters {
            let _ = write!(label, " {name}={}", text(value));
        }
        label
    }

    /// The method's label, or the algorithm.
    pub fn label_of_method(&self) -> &str {
        if self.method.is_empty() { &self.algorithm } else { &self.method }
    }

    /// The number that a parameter holds.
    ///
    /// # Errors
    /// A parameter that is missing or no number.
    pub fn number(&self, name: &str) -> anyhow::Result<f64> {
        self.optional(name)?.with_context(|| format!("{}: the parameter {name} is missing", self.key()))
    }

    /// The number that a parameter holds, if it is given.
    ///
    /// # Errors
    /// A parameter that is no number.
    pub fn optional(&self, name: &str) -> anyhow::Result<Option<f64>> {
        let found = self.parameters.get(name).map(|value| {
            value.as_f64().with_context(|| format!("{}: {name} = {value}: a number is needed", self.key()))
        });
        found.transpose()
    }

    /// The whole number of at least 1 that a parameter holds, if it is given.
    ///
    /// # Errors
    /// A parameter that is no such number.
    pub fn whole(&self, name: &str) -> anyhow::Result<Option<usize>> {
        let Some(number) = self.optional(name)? else {
            return Ok(None);
        };
        anyhow::ensure!(
            number >= 1.0 && number.fract() == 0.0,
            "{}: {name} = {number}: a whole number of at least 1 is needed",
            self.key()
        );
        Ok(Some(number as usize))
    }

    /// The text that a parameter holds, if it is given; numbers as they are written.
    pub fn text(&self, name: &str) -> Option<String> {
        self.parameters.get(name).map(text)
    }

    /// The parameters of the algorithm alone.
    pub fn of_algorithm(&self) -> Parameters {
        let mut own = self.parameters.clone();
        own.retain(|name, _| !self.of_problem.contains(name));
        own
    }

    /// The cell with the parameters of its problem alone.
    #[must_use]
    pub fn on_problem(&self) -> Self {
        let mut own = self.clone();
        own.parameters.retain(|name, _| self.of_problem.contains(name));
        own
    }
}

/// Generated rows with a known population.
pub const PLANTED_LOGISTIC: &str = "planted-logistic";

/// A value without quotes.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A cell as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its identity.
    pub configuration: Configuration,
    /// Number of repeats.
    pub repeats: usize,
    /// Number of draws of the data; each has all repeats.
    pub draws: usize,
    /// Index of its problem in the definition.
    pub problem: usize,
    /// Value on the horizontal axis, if the problem has one.
    pub axis: Option<f64>,
}

/// One run of a cell. Its key says which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trial {
    /// Repeat, from 0.
    pub repeat: usize,
    /// Draw of the data, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub draw: usize,
}

impl Trial {
    /// The seed of noise and sampling of this run, from the definition's first: other for every repeat and every draw.
    pub fn seed(self, first: u64) -> u64 {
        first.wrapping_add(self.repeat as u64).wrapping_add((self.draw as u64) << 32)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// The result of one run of a cell: a line of `measurements.jsonl`. Names of its values differ from those of [`Configuration`] and of this,
/// beside which they stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample<T = Values> {
    /// The cell.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// The run.
    #[serde(flatten)]
    pub trial: Trial,
    /// Its result.
    #[serde(flatten)]
    pub outcome: T,
    /// When it ended, in UTC.
    pub date: Timestamp,
}

impl<T> Deref for Sample<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.outcome
    }
}

impl<T> DerefMut for Sample<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.outcome
    }
}

impl Sample {
    /// The sample with its values as a type has them.
    ///
    /// # Errors
    /// Values of another type.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<Sample<T>> {
        let Self { configuration, trial, outcome, date } = self.clone();
        Ok(Sample { configuration, trial, outcome: serde_json::from_value(outcome.into())?, date })
    }
}

impl<T> Sample<T> {
    /// Configuration, repeat and draw in one line.
    pub fn key(&self) -> String {
        let Trial { repeat, draw } = self.trial;
        let mut key = format!("{}/repeat={repeat}", self.configuration.key());
        if draw > 0 {
            let _ = write!(key, "/draw={draw}");
        }
        key
    }
}

/// One line of `measurements.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record<T = Values> {
    /// A finished run.
    Cell(Box<Sample<T>>),
    /// A cell that cannot be measured.
    Skipped {
        /// The cell.
        configuration: Configuration,
        /// Why not.
        reason: String,
    },
    /// A run that diverged, or whose result failed verification. The result is not kept.
    Rejected {
        /// The cell.
        configuration: Configuration,
        /// The run.
        #[serde(flatten)]
        trial: Trial,
        /// The reason.
        reason: String,
    },
}

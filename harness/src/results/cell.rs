//! One cell: what was measured, how long its rounds took, what it gave and what it guarantees.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::PinPolicy;
use crate::statistics::{SampleWarning, sorted_quantile};

/// The version of the lines of `measurements.jsonl` and of `environment.json`.
pub const SCHEMA: u32 = 1;

/// What a cell measures: its identity. Two cells with equal configuration and repeat are the same measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Suite.
    pub suite: String,
    /// Algorithm id of the catalogue.
    pub algorithm: String,
    /// Data set.
    pub dataset: String,
    /// How rows are stored: `f32`, `u8` or `sparse`.
    pub features: String,
    /// Examples a round.
    pub batch_size: usize,
    /// Threads, on each rank.
    pub threads: usize,
    /// Ranks, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Parameters of the algorithm, as the suite gives them.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
}

impl Configuration {
    /// The configuration in one line: the same words for the same configuration, whatever the order of parameters.
    pub fn key(&self) -> String {
        let mut key = format!(
            "{}/{}/{}/{}/batch={}/threads={}",
            self.suite, self.algorithm, self.dataset, self.features, self.batch_size, self.threads
        );
        if let Some(ranks) = self.ranks {
            let _ = write!(key, "/ranks={ranks}");
        }
        for (name, value) in &self.parameters {
            let _ = write!(key, "/{name}={value}");
        }
        key
    }

    /// The algorithm with its parameters, for legends: `dp-ftrl noise=tree`.
    pub fn label(&self) -> String {
        let mut label = self.algorithm.clone();
        for (name, value) in &self.parameters {
            let value = value.as_str().map_or_else(|| value.to_string(), String::from);
            let _ = write!(label, " {name}={value}");
        }
        label
    }
}

/// Times of rounds, in nanoseconds. The samples are the record; the rest is computed from them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoundTimes {
    /// Median.
    pub median: u64,
    /// A tenth of the rounds were faster.
    pub p10: u64,
    /// A tenth of the rounds were slower.
    pub p90: u64,
    /// Every timed round, in the order of the run.
    pub samples: Vec<u64>,
}

impl RoundTimes {
    /// Computes the quantiles of samples. All zero for no samples.
    pub fn new(samples: Vec<u64>) -> Self {
        let mut sorted: Vec<f64> = samples.iter().map(|&sample| sample as f64).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let quantile = |probability| sorted_quantile(&sorted, probability).round() as u64;
        Self {
            median: quantile(0.5),
            p10: quantile(0.1),
            p90: quantile(0.9),
            samples,
        }
    }
}

/// Median time of each phase of a round, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Drawing the batch.
    pub sample: u64,
    /// Gradients: reading rows, clipping, summing.
    pub gradient: u64,
    /// Drawing noise.
    pub noise: u64,
    /// Updating the model.
    pub update: u64,
}

/// One finished cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// Examples in the data set.
    pub n: usize,
    /// Features, without the bias.
    pub dimension: usize,
    /// Classes, or outputs.
    pub classes: usize,
    /// Adaptive rounds that were run.
    pub rounds: u64,
    /// Gradient queries of these rounds.
    pub gradient_queries: u64,
    /// Those of the timed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_queries: Option<u64>,
    /// How its threads were bound.
    #[serde(default, skip_serializing_if = "PinPolicy::is_none")]
    pub pinning: PinPolicy,
    /// Times of rounds.
    pub round_ns: RoundTimes,
    /// Median time of each phase.
    pub phases_ns: Phases,
    /// Mean time of a round in calls to other ranks, waiting for them included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication_ns: Option<u64>,
    /// Median over the rounds of the longest time that a rank spent outside of calls to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computing_ns: Option<u64>,
    /// Messages of a round that wait for each other, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<f64>,
    /// Bytes of rows that rank 0 sends in a round, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_bytes: Option<f64>,
    /// Median time of a message with a sum between two ranks, outside of rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_ns: Option<u64>,
    /// Bytes a second that longer messages travel with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_s: Option<f64>,
    /// Median over the rounds of their floating-point operations a second.
    pub gflops: Option<f64>,
    /// Median over the rounds of the bytes of rows they read a second.
    pub gbytes_per_s: Option<f64>,
    /// Median over the rounds of roofline time over time.
    pub roofline_fraction: Option<f64>,
    /// Mean loss over the training data.
    pub train_loss: Option<f64>,
    /// Share of test examples classified rightly.
    pub test_accuracy: Option<f64>,
    /// Loss above the optimum, where it is known.
    pub excess_risk: Option<f64>,
    /// SHA-256 of the model: equal for all repeats of a configuration.
    pub model_sha256: String,
    /// The privacy statement.
    pub privacy: Value,
    /// What makes the samples untrustworthy.
    #[serde(default)]
    pub warnings: Vec<SampleWarning>,
    /// When the cell was finished, in UTC.
    pub date: Timestamp,
}

impl Cell {
    /// Configuration and repeat in one line: what resuming looks for.
    pub fn key(&self) -> String {
        repeat_key(&self.configuration, self.repeat)
    }

    /// The number in the privacy statement under `name` (`epsilon`, `delta`, …).
    pub fn privacy_number(&self, name: &str) -> Option<f64> {
        self.privacy.get(name)?.as_f64()
    }
}

/// Configuration and repeat in one line.
pub(crate) fn repeat_key(configuration: &Configuration, repeat: usize) -> String {
    format!("{}/repeat={repeat}", configuration.key())
}

/// One line of `measurements.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A finished cell.
    Cell(Box<Cell>),
    /// A configuration that cannot be measured, with the reason: named, never silent.
    Skipped {
        /// What was asked for.
        configuration: Configuration,
        /// Why not.
        reason: String,
    },
    /// A measurement whose answer failed verification: it is not kept, only that it happened.
    Rejected {
        /// What was measured.
        configuration: Configuration,
        /// Which repeat.
        repeat: usize,
        /// What was wrong with the answer.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_the_samples() {
        let times = RoundTimes::new(vec![50, 10, 20, 40, 30]);
        assert_eq!((times.median, times.p10, times.p90), (30, 14, 46));
        assert_eq!(times.samples, [50, 10, 20, 40, 30]);
        assert_eq!(RoundTimes::new(Vec::new()), RoundTimes::default());
    }

    #[test]
    fn a_line_holds_the_promised_keys_at_its_top() {
        let cell = crate::results::store::tests::cell("dp-sgd", 64, 2, 0);
        let line = serde_json::to_value(Record::Cell(Box::new(cell.clone()))).unwrap();
        for key in [
            "suite",
            "algorithm",
            "dataset",
            "n",
            "dimension",
            "classes",
            "batch_size",
            "threads",
            "rounds",
            "gradient_queries",
            "round_ns",
            "phases_ns",
            "gflops",
            "gbytes_per_s",
            "roofline_fraction",
            "train_loss",
            "test_accuracy",
            "excess_risk",
            "privacy",
        ] {
            assert!(line.get(key).is_some(), "{key} in {line}");
        }
        for key in ["median", "p10", "p90", "samples"] {
            assert!(line["round_ns"].get(key).is_some(), "{key}");
        }
        for key in ["sample", "gradient", "noise", "update"] {
            assert!(line["phases_ns"].get(key).is_some(), "{key}");
        }
        assert!(line["round_ns"]["samples"][0].is_u64());
        assert_eq!(
            serde_json::from_value::<Record>(line).unwrap(),
            Record::Cell(Box::new(cell))
        );
    }

    #[test]
    fn keys_tell_configurations_apart() {
        let base = crate::results::store::tests::cell("dp-sgd", 64, 2, 0);
        let mut other = base.clone();
        other.configuration.parameters.insert("momentum".into(), 0.9.into());
        assert_ne!(base.key(), other.key());
        let mut again = base.clone();
        again.repeat = 1;
        assert_ne!(base.key(), again.key());
        assert_eq!(base.configuration.key(), again.configuration.key());
        assert_eq!(other.configuration.label(), "dp-sgd clip_norm=1.0 momentum=0.9");
    }
}

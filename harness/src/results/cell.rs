//! The cost of a round: how long the rounds of a run took, what they did, and the model that came out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::Sample;
use crate::machine::{Limit, PinPolicy};
use crate::statistics::{SampleWarning, sorted_quantile};

/// A finished run of a cell with the cost of its rounds.
pub type Cell = Sample<RoundCost>;

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
        Self { median: quantile(0.5), p10: quantile(0.1), p90: quantile(0.9), samples }
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

/// Shape of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Examples in the data set.
    pub n: usize,
    /// Features, without the bias.
    pub dimension: usize,
    /// Classes, or outputs.
    pub classes: usize,
}

/// Work of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunWork {
    /// Adaptive rounds.
    pub rounds: u64,
    /// Gradient queries of these rounds.
    pub gradient_queries: u64,
    /// Those of the timed rounds.
    pub timed_queries: u64,
}

/// Rates of the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Median over the rounds of their floating-point operations a second.
    pub gflops: Option<f64>,
    /// Median over the rounds of the bytes of rows they read a second.
    pub gbytes_per_s: Option<f64>,
    /// Median over the rounds of the limit's time over time. Noise can put it above 1.
    pub roofline_fraction: Option<f64>,
    /// The limit. Rows of older builds, which [`builds`](crate::builds) reads, have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// Quality of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Mean loss over the training data.
    pub train_loss: Option<f64>,
    /// Share of test examples classified rightly.
    pub test_accuracy: Option<f64>,
}

/// Result of one run of a cell of a suite; on ranks with what they said to each other besides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundCost {
    /// Shape of the data.
    #[serde(flatten)]
    pub shape: Shape,
    /// Work of the run.
    #[serde(flatten)]
    pub work: RunWork,
    /// Binding of threads to cores.
    #[serde(default, skip_serializing_if = "PinPolicy::is_none")]
    pub pinning: PinPolicy,
    /// Times of rounds.
    pub round_ns: RoundTimes,
    /// Median time of each phase.
    pub phases_ns: Phases,
    /// Rates of the rounds.
    #[serde(flatten)]
    pub rates: Rates,
    /// Quality of the model.
    #[serde(flatten)]
    pub quality: Quality,
    /// SHA-256 of the model: equal for all repeats of a configuration.
    pub model_sha256: String,
    /// The privacy statement.
    pub privacy: Value,
    /// Warnings about the samples.
    #[serde(default)]
    pub warnings: Vec<SampleWarning>,
}

impl RoundCost {
    /// The number in the privacy statement under `name` (`epsilon`, `delta`, …).
    pub fn privacy_number(&self, name: &str) -> Option<f64> {
        self.privacy.get(name)?.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Record;

    #[test]
    fn quantiles_come_from_the_samples() {
        let times = RoundTimes::new(vec![50, 10, 20, 40, 30]);
        assert_eq!((times.median, times.p10, times.p90), (30, 14, 46));
        assert_eq!(times.samples, [50, 10, 20, 40, 30]);
        assert_eq!(RoundTimes::new(Vec::new()), RoundTimes::default());
    }

    #[test]
    fn a_line_holds_the_promised_keys_at_its_top() {
        let cell = crate::results::tests::cell("dp-sgd", 64, 2, 0);
        let line = serde_json::to_value(Record::Cell(Box::new(cell.clone()))).unwrap();
        let keys = "suite algorithm dataset n dimension classes batch_size threads rounds gradient_queries round_ns phases_ns \
                    gflops gbytes_per_s roofline_fraction train_loss test_accuracy privacy";
        let (times, phases) = ("median p10 p90 samples", "sample gradient noise update");
        for (object, keys) in [(&line, keys), (&line["round_ns"], times), (&line["phases_ns"], phases)] {
            for key in keys.split(' ') {
                assert!(object.get(key).is_some(), "{key} in {object}");
            }
        }
        assert!(line["round_ns"]["samples"][0].is_u64());
        assert_eq!(serde_json::from_value::<Record<RoundCost>>(line).unwrap(), Record::Cell(Box::new(cell)));
    }

    #[test]
    fn keys_tell_configurations_apart() {
        let base = crate::results::tests::cell("dp-sgd", 64, 2, 0);
        let mut other = base.clone();
        other.configuration.parameters.insert("momentum".into(), 0.9.into());
        assert_ne!(base.key(), other.key());
        let mut again = base.clone();
        again.trial.repeat = 1;
        assert_ne!(base.key(), again.key());
        assert_eq!(base.configuration.key(), again.configuration.key());
        assert_eq!(other.configuration.label(), "dp-sgd clip_norm=1.0 momentum=0.9");
    }
}

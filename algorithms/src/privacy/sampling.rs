//! The sampler's own description, which the accountant takes: sampling and accounting cannot disagree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{self, PrivacyError};
use crate::problem::adjacency::Adjacency;

/// The law by which a run chooses the examples of each round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Sampling {
    /// Every round reads every example. The divisor is the public n.
    FullBatch,
    /// Consecutive batches of the data as they lie; every epoch repeats the same order.
    FixedOrder,
    /// One secret or public permutation before the first epoch, kept for all epochs. No amplification is claimed.
    ShuffledOnce,
    /// A new permutation each epoch. No amplification is claimed.
    ReshuffledEachEpoch,
    /// Every round includes each example independently with probability `rate`; sums are divided by the public
    /// rate·n, never by the realised batch size.
    Poisson {
        /// Inclusion probability, in (0, 1].
        rate: f64,
    },
    /// Every round draws `batch` of `population` examples uniformly without replacement, rounds independent.
    WithoutReplacement {
        /// Examples in a round.
        batch: usize,
        /// Examples in all.
        population: usize,
    },
}

impl Sampling {
    /// The kind's name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullBatch => "full-batch",
            Self::FixedOrder => "fixed",
            Self::ShuffledOnce => "shuffled",
            Self::ReshuffledEachEpoch => "reshuffled",
            Self::Poisson { .. } => "poisson",
            Self::WithoutReplacement { .. } => "without-replacement",
        }
    }

    /// True if the randomness of the sampler is part of the guarantee (and must then stay secret).
    pub fn amplifies(self) -> bool {
        matches!(self, Self::Poisson { .. } | Self::WithoutReplacement { .. })
    }

    /// The probability with which a round reads one given example, where the sampler is random.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Poisson { rate } => Some(rate),
            Self::WithoutReplacement { batch, population } => Some(batch as f64 / population as f64),
            Self::FullBatch | Self::FixedOrder | Self::ShuffledOnce | Self::ReshuffledEachEpoch => None,
        }
    }

    /// The relation whose analysis covers a claim under `adjacency`. Without replacement a batch without the row holds another
    /// in its place, and the amplification theorem compares two arbitrary rows there: zero-out, one of whose two rows is the
    /// null row, is claimed at replace-one's ε.
    pub fn analysed_as(self, adjacency: Adjacency) -> Adjacency {
        match (self, adjacency) {
            (Self::WithoutReplacement { .. }, Adjacency::ZeroOut) => Adjacency::ReplaceOne,
            _ => adjacency,
        }
    }

    /// ‖change of a batch's sum‖ / clip norm between neighbours: [`Adjacency::row_change_factor`] of
    /// [`analysed_as`](Self::analysed_as).
    pub fn row_change_factor(self, adjacency: Adjacency) -> f64 {
        self.analysed_as(adjacency).row_change_factor()
    }

    /// The table of specification 2.7, the only place that decides which sampler goes with which adjacency.
    ///
    /// # Errors
    /// [`PrivacyError::RefusedSampling`] with the reason where no theorem covers the pair, and
    /// [`PrivacyError::OutOfRange`] for a rate outside (0, 1] or a batch outside 1..=n.
    pub fn check(self, adjacency: Adjacency) -> Result<(), PrivacyError> {
        let refuse = |reason| Err(PrivacyError::RefusedSampling { sampling: self.name(), adjacency, reason });
        match self {
            Self::FullBatch => Ok(()),
            Self::FixedOrder | Self::ShuffledOnce | Self::ReshuffledEachEpoch => match adjacency {
                Adjacency::ZeroOut | Adjacency::ReplaceOne => Ok(()),
                Adjacency::AddRemove => refuse(
                    "adding or removing one example shifts every later batch; use zero-out or replace-one adjacency, \
                     or poisson sampling",
                ),
            },
            Self::Poisson { rate } => {
                error::rate(rate)?;
                match adjacency {
                    Adjacency::ZeroOut | Adjacency::AddRemove => Ok(()),
                    Adjacency::ReplaceOne => refuse(
                        "the subsampled-Gaussian pairs compare inclusion with absence, not two different examples; use \
                         add-remove or zero-out adjacency, or sampling without replacement",
                    ),
                }
            }
            Self::WithoutReplacement { batch, population } => {
                error::batch(batch, population)?;
                match adjacency {
                    Adjacency::ReplaceOne | Adjacency::ZeroOut => Ok(()),
                    Adjacency::AddRemove => refuse(
                        "the amplification theorems for a fixed batch size hold n fixed; use zero-out or replace-one \
                         adjacency, or poisson sampling",
                    ),
                }
            }
        }
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_samplers_and_adjacencies_is_exactly_the_allowed_one() {
        use Adjacency::{AddRemove, ReplaceOne, ZeroOut};
        let poisson = Sampling::Poisson { rate: 0.1 };
        let without = Sampling::WithoutReplacement { batch: 10, population: 100 };
        // Columns: zero-out, add-remove, replace-one (specification 2.7).
        let table = [
            (Sampling::FullBatch, [true, true, true]),
            (Sampling::FixedOrder, [true, false, true]),
            (Sampling::ShuffledOnce, [true, false, true]),
            (Sampling::ReshuffledEachEpoch, [true, false, true]),
            (poisson, [true, true, false]),
            (without, [true, false, true]),
        ];
        for (sampling, allowed) in table {
            for (adjacency, allowed) in [ZeroOut, AddRemove, ReplaceOne].into_iter().zip(allowed) {
                let result = sampling.check(adjacency);
                assert_eq!(result.is_ok(), allowed, "{sampling} {adjacency}");
                if let Err(error) = result {
                    assert!(matches!(error, PrivacyError::RefusedSampling { .. }));
                    let message = error.to_string();
                    let named = message.contains(sampling.name()) && message.contains(adjacency.name());
                    assert!(named, "{message}");
                }
            }
        }
    }

    #[test]
    fn rates_and_batches_out_of_range_are_refused() {
        for rate in [0.0, -0.1, 1.0 + 1e-12, f64::NAN, f64::INFINITY] {
            let error = Sampling::Poisson { rate }.check(Adjacency::AddRemove).unwrap_err();
            assert!(error.to_string().contains("the sampling rate"), "{error}");
        }
        for (batch, population) in [(0, 10), (11, 10), (1, 0)] {
            let error = Sampling::WithoutReplacement { batch, population }.check(Adjacency::ReplaceOne).unwrap_err();
            assert!(matches!(error, PrivacyError::OutOfRange { .. }), "{error}");
        }
    }

    #[test]
    fn descriptions_survive_json() {
        let sampling = Sampling::WithoutReplacement { batch: 10, population: 100 };
        let text = serde_json::to_string(&sampling).unwrap();
        assert_eq!(text, r#"{"kind":"without-replacement","batch":10,"population":100}"#);
        assert_eq!(serde_json::from_str::<Sampling>(&text).unwrap(), sampling);
    }
}

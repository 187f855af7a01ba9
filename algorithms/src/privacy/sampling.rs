//! The sampler's own description, which the accountant takes: sampling and accounting cannot disagree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{self, PrivacyError};
use super::quantiles::incomplete_beta;
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
    /// Unit i belongs to group i mod `groups`; round r includes each unit of group r mod `groups` independently with probability
    /// `rate` (Choquette-Choo et al. 2023, 2306.08153). Two participations of a unit are at least `groups` rounds apart.
    CyclicPoisson {
        /// Groups b.
        groups: usize,
        /// Inclusion probability q = B·b/n of a unit of the round's group, in (0, 1].
        rate: f64,
    },
    /// Random allocation, or balls in bins (2412.16802, 2502.08202): in each epoch of `slots·groups` rounds every unit is thrown into
    /// one of the `slots` rounds of its group i mod `groups`, uniformly and independently of all other units.
    RandomAllocation {
        /// Groups b; 1 for none.
        groups: usize,
        /// Rounds t of one group in an epoch.
        slots: usize,
    },
    /// Poisson batches, of which one with more than `most` examples is cut to a uniformly random subset of `most` of them (2508.15089).
    TruncatedPoisson {
        /// Inclusion probability before the cut, in (0, 1].
        rate: f64,
        /// The largest batch.
        most: usize,
        /// Examples in all.
        population: usize,
    },
}

/// One of the independent draws that decide about a unit's participations under a random sampler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Draw {
    /// A round takes the unit with this probability.
    Poisson { rate: f64 },
    /// A round takes `batch` of `population` examples.
    WithoutReplacement { batch: usize, population: usize },
    /// A Poisson round that is cut with probability `share`, given that its other units are enough for a cut: the unit is then in the
    /// batch with probability `cut_rate`.
    Truncated { rate: f64, share: f64, cut_rate: f64 },
    /// The unit is in one of `slots` rounds, of which the first `visible` take place.
    Allocation { slots: usize, visible: usize },
}

impl Draw {
    /// True if the unit takes part once whatever is drawn.
    pub(super) fn is_certain(self) -> bool {
        match self {
            Self::Poisson { rate } => rate == 1.0,
            Self::WithoutReplacement { batch, population } => batch == population,
            Self::Truncated { rate, share, .. } => rate == 1.0 && share == 0.0,
            Self::Allocation { slots, .. } => slots == 1,
        }
    }
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
            Self::CyclicPoisson { .. } => "cyclic-poisson",
            Self::RandomAllocation { groups: 1, .. } => "random-allocation",
            Self::RandomAllocation { .. } => "cyclic-allocation",
            Self::TruncatedPoisson { .. } => "truncated-poisson",
        }
    }

    /// True if the randomness of the sampler is part of the guarantee (and must then stay secret).
    pub fn amplifies(self) -> bool {
        !matches!(self, Self::FullBatch | Self::FixedOrder | Self::ShuffledOnce | Self::ReshuffledEachEpoch)
    }

    /// The probability with which a round reads one given example, on average over the groups where there are any and before a cut,
    /// where the sampler is random.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Poisson { rate } | Self::TruncatedPoisson { rate, .. } => Some(rate),
            Self::WithoutReplacement { batch, population } => Some(batch as f64 / population as f64),
            Self::CyclicPoisson { groups, rate } => Some(rate / groups as f64),
            Self::RandomAllocation { groups, slots } => Some(1.0 / (groups as f64 * slots as f64)),
            Self::FullBatch | Self::FixedOrder | Self::ShuffledOnce | Self::ReshuffledEachEpoch => None,
        }
    }

    /// The same of an example whose group has its turn.
    pub fn rate_in_turn(self) -> Option<f64> {
        self.rate().map(|rate| (rate * self.separation() as f64).min(1.0))
    }

    /// b: two participations of a unit are at least so many rounds apart, under a random sampler.
    pub fn separation(self) -> usize {
        match self {
            Self::CyclicPoisson { groups, .. } | Self::RandomAllocation { groups, .. } => groups,
            _ => 1,
        }
    }

    /// The draws about one unit in `rounds` rounds, equal ones counted, of the group that has most rounds; none where the sampler is
    /// not random.
    pub(super) fn draws(self, rounds: usize) -> Vec<(Draw, usize)> {
        match self {
            Self::FullBatch | Self::FixedOrder | Self::ShuffledOnce | Self::ReshuffledEachEpoch => Vec::new(),
            Self::Poisson { rate } => vec![(Draw::Poisson { rate }, rounds)],
            Self::WithoutReplacement { batch, population } => {
                vec![(Draw::WithoutReplacement { batch, population }, rounds)]
            }
            Self::CyclicPoisson { groups, rate } => vec![(Draw::Poisson { rate }, rounds.div_ceil(groups.max(1)))],
            // Of 0, which `check` refuses, as of 1.
            Self::RandomAllocation { groups, slots } => {
                let (rounds, slots) = (rounds.div_ceil(groups.max(1)), slots.max(1));
                let (epochs, visible) = (rounds / slots, rounds % slots);
                let all = [
                    (Draw::Allocation { slots, visible: slots }, epochs),
                    (Draw::Allocation { slots, visible }, usize::from(visible > 0)),
                ];
                all.into_iter().filter(|(_, count)| *count > 0).collect()
            }
            Self::TruncatedPoisson { rate, most, population } => {
                // P(Binomial(n, q) ≥ k) = I_q(k, n − k + 1).
                let at_least = |count: usize, of: usize| match count {
                    _ if count > of => 0.0,
                    _ => incomplete_beta(count as f64, (of - count + 1) as f64, rate),
                };
                // Rounded up by more than their numerical error, of gamma functions of n.
                let error = 1e-7 + 1e-14 * population as f64;
                let share = (at_least(most, population.saturating_sub(1)) * (1.0 + error)).min(1.0);
                // E[q·B_max/(m + 1) | m ≥ B_max], m the others' number.
                let cut = most as f64 / population as f64 * at_least(most + 1, population);
                let cut_rate = if share > 0.0 { (cut / share * (1.0 + 2.0 * error)).min(rate) } else { 0.0 };
                vec![(Draw::Truncated { rate, share, cut_rate }, rounds)]
            }
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
        let one_of_two_rows = "the theorem compares an example, or unit, that takes part with none, not with another one; use zero-out \
                               adjacency, or without-replacement sampling";
        let of_groups = |adjacency| match adjacency {
            Adjacency::ZeroOut => Ok(()),
            Adjacency::AddRemove => refuse(
                "adding or removing one example moves every later one to another group; use zero-out adjacency, or \
                 poisson or random-allocation sampling",
            ),
            Adjacency::ReplaceOne => refuse(one_of_two_rows),
        };
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
                        "the theorem compares an example, or unit, that takes part with none, not with another one; use \
                         add-remove or zero-out adjacency, or without-replacement sampling",
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
            Self::CyclicPoisson { groups, rate } => {
                error::rate(rate)?;
                error::at_least_one(groups, "the number of groups", "give the number of bands")?;
                of_groups(adjacency)
            }
            Self::RandomAllocation { groups, slots } => {
                error::at_least_one(groups, "the number of groups", "give the number of bands, or 1")?;
                error::at_least_one(slots, "the rounds of an epoch", "give n / (batch size · groups)")?;
                if groups == 1 && adjacency == Adjacency::AddRemove { Ok(()) } else { of_groups(adjacency) }
            }
            Self::TruncatedPoisson { rate, most, population } => {
                error::rate(rate)?;
                let valid = (1..=population).contains(&most);
                let remedy = "it is the size that greater batches are cut to";
                error::checked(most as f64, valid, "the greatest batch", "at least 1 and at most n", remedy)?;
                match adjacency {
                    Adjacency::ZeroOut => Ok(()),
                    Adjacency::AddRemove => {
                        refuse("whether a batch is cut follows from the number of rows; use zero-out adjacency")
                    }
                    Adjacency::ReplaceOne => refuse(one_of_two_rows),
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
            (Sampling::CyclicPoisson { groups: 4, rate: 0.1 }, [true, false, false]),
            (Sampling::RandomAllocation { groups: 1, slots: 10 }, [true, true, false]),
            (Sampling::RandomAllocation { groups: 4, slots: 10 }, [true, false, false]),
            (Sampling::TruncatedPoisson { rate: 0.1, most: 20, population: 100 }, [true, false, false]),
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

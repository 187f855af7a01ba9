//! Steps of a mechanism in one direction, as the accountant composes them: a dominating pair, one of two pairs by a known coin, or a law
//! that is computed.

use std::sync::Arc;

use super::allocation::Allocation;
use super::grid::{Atoms, GridLoss, Tails};
use super::pair::{Pair, Sample};

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Pair(Pair),
    /// `cut` with probability `share`, else `plain`, and which of the two is known.
    Either {
        plain: Pair,
        cut: Pair,
        share: f64,
    },
    /// An epoch of random allocation, whose law is still to be computed.
    Allocation(Allocation),
    /// That with its law.
    Allocated(Allocation, Arc<Atoms>),
}

impl Step {
    /// The same step with its law, of which at most `tail` is moved to +∞.
    pub(super) fn with_law(&self, tail: f64, is_rough: bool) -> Self {
        match self {
            &Self::Allocation(allocation) => Self::Allocated(allocation, Arc::new(allocation.law(tail, is_rough))),
            other => other.clone(),
        }
    }

    /// (first, last) cells that its losses need.
    pub(super) fn cells(&self, interval: f64, tails: Tails) -> (f64, f64) {
        match self {
            &Self::Pair(pair) => GridLoss::cells(pair, interval, tails),
            &Self::Either { plain, cut, .. } => {
                let [plain, cut] = [plain, cut].map(|pair| GridLoss::cells(pair, interval, tails));
                (plain.0.min(cut.0), plain.1.max(cut.1))
            }
            Self::Allocated(_, law) => {
                let (low, high) = law.ends();
                ((low / interval).floor(), (high / interval).ceil())
            }
            Self::Allocation(_) => (0.0, 0.0),
        }
    }

    /// An upper discretisation; see [`GridLoss::upper`].
    pub(super) fn upper(&self, interval: f64, tails: Tails) -> GridLoss {
        match self {
            &Self::Pair(pair) => GridLoss::upper(pair, interval, tails),
            &Self::Either { plain, cut, share } => {
                GridLoss::upper(plain, interval, tails).mixed(&GridLoss::upper(cut, interval, tails), share)
            }
            Self::Allocated(_, law) => {
                let (first, last) = self.cells(interval, tails);
                let mut grid = GridLoss::empty(interval, first as i64, ((last - first) as usize + 1).max(2));
                law.losses.iter().for_each(|&(loss, mass)| grid.split(loss, mass));
                grid.infinity = law.infinity;
                grid
            }
            Self::Allocation(_) => unreachable!("its law is computed before an upper bound"),
        }
    }

    /// A lower discretisation; see [`GridLoss::lower`]. Of a computed law none is known but that without any loss.
    pub(super) fn lower(&self, interval: f64, tails: Tails) -> GridLoss {
        match self {
            &Self::Pair(pair) => GridLoss::lower(pair, interval, tails),
            &Self::Either { plain, cut, share } => {
                GridLoss::lower(plain, interval, tails).mixed(&GridLoss::lower(cut, interval, tails), share)
            }
            Self::Allocation(_) | Self::Allocated(..) => GridLoss::nothing(interval),
        }
    }

    /// Losses with their masses; see [`Sample`].
    pub(super) fn sample(&self, tails: Tails) -> Sample {
        match self {
            &Self::Pair(pair) => Sample::new(pair, tails.lower, tails.upper),
            &Self::Either { plain, cut, share } => {
                let sample = |pair| Sample::new(pair, tails.lower, tails.upper);
                sample(plain).mixed(&sample(cut), share)
            }
            Self::Allocated(_, law) => Sample::of(&law.losses),
            Self::Allocation(_) => Sample::of(&[(0.0, 1.0)]),
        }
    }

    /// ln E_P[e^{λℓ}] for λ ≥ 0, or an upper bound of it.
    pub(super) fn cumulant(&self, lambda: f64) -> f64 {
        match self {
            &Self::Pair(pair) => pair.cumulant(lambda),
            &Self::Either { plain, cut, share } => {
                let [plain, cut] = [plain, cut].map(|pair| pair.cumulant(lambda));
                let largest = plain.max(cut);
                largest + ((1.0 - share) * (plain - largest).exp() + share * (cut - largest).exp()).ln()
            }
            // By convexity no more than at a known place: without amplification.
            Self::Allocation(allocation) | Self::Allocated(allocation, _) => {
                0.5 * lambda * (lambda + 1.0) / (allocation.noise * allocation.noise)
            }
        }
    }

    /// The largest loss of a pure step; it has mass there.
    pub(super) fn largest_atom(&self) -> Option<f64> {
        if let Self::Pair(pair) = self { pair.largest_atom() } else { None }
    }
}

//! The privacy loss of random allocation: a unit is in one of t rounds, uniformly, of which the first m take place
//! (Feldman and Shenfeld 2024, 2412.16802; Chua et al. 2025, 2502.08202).
//!
//! `P = (1/t)·Σ_{i ≤ m} N(e_i, σ²I) + (1 − m/t)·N(0, σ²I)` against `Q = N(0, σ²I)` dominates an epoch, adaptive or not, and adding a unit is
//! Q against P. With y_i = e^{x_i/σ² − 1/2σ²}, x_i ~ N(0, σ²) under Q,
//!
//! ```text
//! W = dP/dQ = (Σ_{i ≤ m} y_i + t − m)/t,      δ_remove(ε) = E_Q[(W − e^ε)₊],      δ_add(ε) = E_Q[(1 − e^ε·W)₊]
//! ```
//!
//! **Unfinished epochs.** The first m coordinates of an epoch's pair (m = t) are the pair above: a projection, the same under both distributions.
//! By the data-processing inequality the epoch dominates its first m rounds, and in a composition whatever it stands for. So the
//! accountant computes both and takes the lesser one: of few terms and little noise the law below is the rougher one.
//!
//! **Discretisation.** The mass of y between two points of a linear grid goes to both, in the proportion that keeps the mean. That is a
//! mean-preserving spread, sums of independent spreads are spreads, and both δ are means of convex functions of W: W′ on the grid has mean 1
//! under Q, and the pair with dP′/dQ′ = W′ dominates. Its law is an m-fold convolution, taken by one transform under an exponential tilt, so
//! that the tail that counts keeps its digits. What is cut off is counted at +∞ or at a larger loss.

use super::ROUGHER;
use super::composition::{Bound, Composed, Plan};
use super::grid::{self, Atoms, GridLoss};
use crate::normal::{density, survival};
use crate::privacy::search;

/// Most cells of the grid of y.
const MOST_CELLS: f64 = 1_048_576.0;
/// Square of the interval over the variance of y: the variance of W rises by a sixth of it at most.
const SQUARED_INTERVAL: f64 = 6e-5;
/// Interval over the smallest sum that counts.
const SHARE_OF_SUM: f64 = 0.02;
/// Mass beyond a window on the side where it does not count.
const REST: f64 = 1e-10;
/// The tilt over the one of the Chernoff bound at the end of the window: precision at the end against precision at the mean.
const TILT: f64 = 0.7;
/// Most points of a law.
const MOST_LOSSES: usize = 1 << 16;
/// Cells of the copy of y that windows are found from.
const COARSE: f64 = 2048.0;

/// An epoch of random allocation in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allocation {
    /// σ over the sensitivity.
    pub(super) noise: f64,
    /// t.
    pub(super) slots: usize,
    /// m ≥ 1.
    pub(super) visible: usize,
    /// Removal of a unit, else addition.
    pub(super) removal: bool,
}

/// z with P(N(0, 1) > z) at most `tail`.
fn quantile(tail: f64) -> f64 {
    (-2.0 * (2.0 * tail).clamp(1e-300, 1.0).ln()).sqrt()
}

/// y on a linear grid.
struct Factor {
    law: GridLoss,
}

impl Factor {
    /// The law of y = e^{sz − s²/2}, z ~ N(0, 1), between the given z, by three-point Gauss–Legendre panels of at most 0.05.
    fn new(shift: f64, (low, high): (f64, f64), interval: f64) -> Self {
        const OUTER: f64 = 0.774_596_669_241_483_4;
        let y = |z: f64| (shift * z - 0.5 * shift * shift).exp();
        let z = |y: f64| (y.ln() + 0.5 * shift * shift) / shift;
        let first = (y(low) / interval).floor();
        let cells = (y(high) / interval).ceil() - first + 1.0;
        let mut law = GridLoss::empty(interval, first as i64, (cells as usize).max(2));
        let mut from = low;
        for cell in 0..law.mass.len() - 1 {
            let base = (law.start + cell as i64) as f64 * interval;
            let to = z(base + interval).clamp(low, high);
            let panels = ((to - from) / 0.05).ceil();
            if panels < 1.0 {
                continue;
            }
            let half = 0.5 * (to - from) / panels;
            for panel in 0..panels as usize {
                let middle = from + half * (2 * panel + 1) as f64;
                for (offset, weight) in [(-OUTER, 5.0 / 9.0), (0.0, 8.0 / 9.0), (OUTER, 5.0 / 9.0)] {
                    let node = middle + offset * half;
                    let mass = half * weight * density(node);
                    let raised = ((y(node) - base) / interval).clamp(0.0, 1.0);
                    law.mass[cell] += mass * (1.0 - raised);
                    law.mass[cell + 1] += mass * raised;
                }
            }
            from = to;
        }
        Self { law }
    }

    /// A spread of the same on fewer points, for estimates.
    fn coarse(&self) -> Self {
        let interval = self.law.interval * (self.law.mass.len() as f64 / COARSE).max(1.0);
        let place = |cell: usize| self.at(cell) / interval;
        let first = place(0).floor();
        let cells = (place(self.law.mass.len() - 1) - first) as usize + 2;
        let mut law = GridLoss::empty(interval, first as i64, cells);
        for (cell, mass) in self.law.mass.iter().enumerate() {
            let place = (place(cell) - first).max(0.0);
            let raised = place.fract() * mass;
            law.mass[place as usize] += mass - raised;
            law.mass[place as usize + 1] += raised;
        }
        Self { law }
    }

    /// The law with its masses times y.
    fn weighed(&self) -> GridLoss {
        let mass = self.law.mass.iter().enumerate().map(|(cell, mass)| mass * self.at(cell)).collect();
        GridLoss { mass, ..self.law.clone() }
    }

    /// ln E[y·e^{θy}].
    fn log_tilted(&self, theta: f64) -> f64 {
        let anchor = self.law.anchor(theta);
        let weights = self.law.weights(theta, anchor).zip(&self.law.mass).enumerate();
        let moment: f64 = weights.map(|(cell, (weight, mass))| weight * mass * self.at(cell)).sum();
        moment.ln() + theta * anchor
    }

    fn at(&self, cell: usize) -> f64 {
        (self.law.start + cell as i64) as f64 * self.law.interval
    }
}

/// The same losses, in one order, on at most [`MOST_LOSSES`] points: the mass between two of them goes to both as in [`GridLoss::upper`].
fn thinned(losses: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let ends =
        losses.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, &(loss, _)| (ends.0.min(loss), ends.1.max(loss)));
    let interval = (ends.1 - ends.0) / MOST_LOSSES as f64;
    if losses.len() <= MOST_LOSSES || interval <= 0.0 {
        return losses.iter().copied().filter(|(_, mass)| *mass > 1e-300).collect();
    }
    let mut grid = GridLoss::empty(interval, (ends.0 / interval).floor() as i64, MOST_LOSSES + 3);
    losses.iter().for_each(|&(loss, mass)| grid.split(loss, mass));
    let points = (grid.start..).map(|index| index as f64 * interval);
    points.zip(grid.mass).filter(|(_, mass)| *mass > 1e-300).collect()
}

impl Allocation {
    /// The law of the loss, with at most `tail` more at +∞ than there is but for rounding.
    pub(super) fn law(self, tail: f64, is_rough: bool) -> Atoms {
        let (shift, visible, slots) = (1.0 / self.noise, self.visible as f64, self.slots as f64);
        let tail = tail.max(1e-300);
        // Where a factor ends: under P one of them has its mean moved by the shift.
        let reach = quantile(0.125 * tail / visible);
        let high = if self.removal { reach.max(shift + quantile(0.125 * tail)) } else { reach };
        let y = |z: f64| (shift * z - 0.5 * shift * shift).exp();
        let deviation = (shift * shift).exp_m1().sqrt();
        // Of m factors the sum is at least m times their geometric mean.
        let least = visible * (-0.5 * shift * shift - shift * reach / visible.sqrt()).exp();
        let least = least.max(visible - reach * visible.sqrt() * deviation) + slots - visible;
        let wanted = (SQUARED_INTERVAL.sqrt() * deviation).min(SHARE_OF_SUM * least);
        let rougher = if is_rough { ROUGHER } else { 1.0 };
        let (wanted, most_cells) = (rougher * wanted, MOST_CELLS / rougher);
        // To add a unit a smaller W costs more: where the grid is too short, what lies above its end counts there.
        let fitting = ((most_cells * wanted).ln() + 0.5 * shift * shift) / shift;
        let end = if self.removal { high } else { high.min(fitting.max(quantile(1e-3 / visible))) };
        let interval = wanted.max((y(end) - y(-reach)) / most_cells);
        let mut factor = Factor::new(shift, (-reach, end), interval);
        let above = if end < high {
            let place = ((y(end) / interval).floor() as i64 - factor.law.start).max(0) as usize;
            let last = factor.law.mass.len() - 1;
            factor.law.mass[place.min(last)] += survival(end);
            0.0
        } else {
            survival(high)
        };

        let coarse = factor.coarse();
        // ln of the moments under Q and P, of factors as they are cut.
        let under_q = |factor: &Factor, theta: f64| visible * factor.law.log_moment(theta);
        let under_p = |factor: &Factor, theta: f64| {
            let plain = factor.law.log_moment(theta);
            let seen = visible / slots * (factor.log_tilted(theta) - plain).exp();
            visible * plain + (seen + 1.0 - visible / slots).ln()
        };
        let scale = (deviation * visible.sqrt()).max(interval).ln();
        let window = |moment: &dyn Fn(f64) -> f64, side: f64, mass: f64| {
            let bound = |log_theta: f64| {
                let theta = log_theta.exp();
                (moment(side * theta) - mass.ln()) / theta
            };
            let (log_theta, bound) = search::minimize(bound, -scale - 12.0, -scale + 12.0, 1e-2);
            (side * log_theta.exp(), side * bound)
        };
        let (mass_above, mass_below) = if self.removal { (0.25 * tail, REST) } else { (REST, 0.25 * tail) };
        let upper = |theta: f64| if self.removal { under_p(&coarse, theta) } else { under_q(&coarse, theta) };
        let (theta_high, top) = window(&upper, 1.0, mass_above);
        // What lies above the window of a removal comes round at its low end, with the weight of the tilt.
        let top = if self.removal { window(&upper, 1.0, REST * mass_above).1 } else { top };
        let (theta_low, bottom) = window(&|theta| under_q(&coarse, theta), -1.0, mass_below);
        // Of little noise in many rounds.
        if !((top - bottom) / interval <= grid::MOST_CELLS as f64) {
            return Atoms { losses: Vec::new(), infinity: 1.0 };
        }
        // A tilt keeps the digits of the tail that counts, and has none far from it: of two upper bounds the smaller one holds.
        let tilted = TILT * if self.removal { theta_high } else { theta_low };
        let (edges, window) = ((theta_low, theta_high), (bottom, top));
        // Under P the mass is W times that under Q, a mean of y_i: of the law with one factor weighed by itself, whose rounding is not W times
        // as great. Rounds that are not visible leave that of Q.
        let seen = if self.removal { visible / slots } else { 0.0 };
        let parts = [
            (seen, vec![(factor.law.clone(), self.visible - 1), (factor.weighed(), 1)]),
            (1.0 - seen, vec![(factor.law.clone(), self.visible)]),
        ];
        let offset = slots - visible;
        let mut losses = Vec::new();
        let (mut total, mut lost) = (0.0, 0.0);
        let (mut start, mut end) = (f64::NEG_INFINITY, f64::INFINITY);
        for (share, steps) in parts.iter().filter(|(share, _)| *share > 0.0) {
            let [plain, tilted] =
                [0.0, tilted].map(|lambda| Composed::new(&Plan { steps, lambda, window, edges, bound: Bound::Upper }));
            for ((sum, plain), (_, tilted)) in plain.masses().zip(tilted.masses()) {
                let mass = share * plain.min(tilted);
                let ratio = (sum + offset) / slots;
                if ratio > 0.0 {
                    losses.push((if self.removal { ratio.ln() } else { -ratio.ln() }, mass));
                    total += mass;
                } else if !self.removal {
                    lost += mass;
                }
            }
            (start, end) = (start.max(plain.window().0), end.min(plain.window().1));
        }
        let cut = visible * (above + survival(reach));
        let infinity = if self.removal {
            let beyond = (under_p(&factor, theta_high) - theta_high * end).exp();
            visible / slots * survival(high - shift) + cut + beyond
        } else {
            let below = (under_q(&factor, theta_low) - theta_low * start).exp();
            lost + cut + below
        };
        // What is missing lies beyond the end of the window with the smallest losses.
        let rest = (1.0 - total - infinity).max(0.0);
        let smallest = if self.removal { losses.first_mut() } else { losses.last_mut() };
        if let Some((_, mass)) = smallest {
            *mass += rest;
        }
        Atoms { losses: thinned(&losses), infinity: infinity.min(1.0) }
    }
}

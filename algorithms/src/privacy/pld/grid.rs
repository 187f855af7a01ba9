//! Privacy losses on a grid: upper and lower discretisations of a dominating pair.

use super::pair::Pair;

/// P-masses at the losses (start + k)·interval, and the mass at +∞.
#[derive(Debug, Clone)]
pub(super) struct GridLoss {
    pub(super) interval: f64,
    pub(super) start: i64,
    pub(super) mass: Vec<f64>,
    pub(super) infinity: f64,
}

/// Tail masses that may be moved: `lower` up to the lowest cells, `upper` to +∞.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tails {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl GridLoss {
    /// (first, last) cells that the losses of `pair` need.
    pub(super) fn cells(pair: Pair, interval: f64, tails: Tails) -> (f64, f64) {
        let (low, high) = Self::losses(pair, tails);
        ((low / interval).floor(), (high / interval).ceil())
    }

    fn losses(pair: Pair, tails: Tails) -> (f64, f64) {
        let (low, high) = pair.range(tails.lower, tails.upper);
        let atoms = pair.atoms();
        atoms
            .iter()
            .fold((pair.loss(low), pair.loss(high)), |(low, high), &(loss, _)| {
                (low.min(loss), high.max(loss))
            })
    }

    /// An upper discretisation: its δ(ε) is at least that of `pair` for every ε, under any composition.
    ///
    /// The mass between two grid points goes to both, in the proportion that keeps its P-mass and its Q-mass. On the curve of
    /// δ against e^ε that draws the chord between grid points, the least convex upper bound with kinks on the grid
    /// (Doroshenko–Ghazi–Kamath–Kumar–Manurangsi 2022); its error is of second order in the interval, where rounding every
    /// loss up would be of first. The upper tail goes to +∞, the lower one is rounded up.
    pub(super) fn upper(pair: Pair, interval: f64, tails: Tails) -> Self {
        let (first, last) = Self::cells(pair, interval, tails);
        let (start, cells) = (first as i64, (last - first) as usize + 1);
        let mut mass = vec![0.0; cells];
        let one_step = -(-interval).exp_m1();
        let (low, high) = pair.range(tails.lower, tails.upper);
        let continuous = pair.mass_above(low) > 0.0;
        if continuous {
            let mut from = low;
            let mut lowest = None;
            for cell in 0..cells - 1 {
                let threshold = (start + cell as i64) as f64 * interval;
                let to = pair.coordinate(threshold + interval).clamp(low, high);
                if to <= from {
                    continue;
                }
                lowest.get_or_insert(cell);
                let (total, excess) = pair.integrals(from, to, threshold, interval);
                let raised = (excess / one_step).clamp(0.0, total);
                mass[cell] += total - raised;
                mass[cell + 1] += raised;
                from = to;
            }
            // What lies below the range has smaller losses than the upper end of its first interval.
            mass[lowest.unwrap_or(0) + 1] += pair.mass_below(low);
        }
        for (loss, atom) in pair.atoms() {
            let cell = (((loss / interval).floor() as i64 - start).max(0) as usize).min(cells - 2);
            let threshold = (start + cell as i64) as f64 * interval;
            let raised = (-(threshold - loss).exp_m1() / one_step).clamp(0.0, 1.0) * atom;
            mass[cell] += atom - raised;
            mass[cell + 1] += raised;
        }
        let infinity = if continuous { pair.mass_above(high) } else { 0.0 };
        // Quadrature errors of the masses (1e-10 relative at most) leave the total exact.
        let scale = (1.0 - infinity) / mass.iter().sum::<f64>();
        mass.iter_mut().for_each(|value| *value *= scale);
        Self {
            interval,
            start,
            mass,
            infinity,
        }
    }

    /// A lower discretisation: its δ(ε) is at most that of `pair`, under any composition.
    ///
    /// Outcomes are merged into buckets, which is post-processing; the buckets are cut so that their mean losses ln P/Q fall on
    /// grid points, one bucket after the other. Where no cut does, the bucket's loss is rounded down. Lower tails are dropped.
    pub(super) fn lower(pair: Pair, interval: f64, tails: Tails) -> Self {
        let pair = pair.rounded_down(interval);
        let (first, last) = Self::cells(pair, interval, tails);
        let (start, cells) = (first as i64 - 1, (last - first) as usize + 3);
        let mut mass = vec![0.0; cells];
        let (low, high) = pair.range(tails.lower, tails.upper);
        if pair.mass_above(low) > 0.0 {
            Self::merge(pair, interval, start, (low, high), &mut mass);
        }
        for (loss, atom) in pair.atoms() {
            let cell = ((loss / interval).round() as i64 - start).max(0) as usize;
            mass[cell.min(cells - 1)] += atom;
        }
        let below = if pair.mass_above(low) > 0.0 {
            pair.mass_below(low)
        } else {
            0.0
        };
        let scale = ((1.0 - below) / mass.iter().sum::<f64>()).min(1.0);
        mass.iter_mut().for_each(|value| *value *= scale);
        Self {
            interval,
            start,
            mass,
            infinity: 0.0,
        }
    }

    fn merge(pair: Pair, interval: f64, start: i64, (low, high): (f64, f64), mass: &mut [f64]) {
        let grid = |cell: usize| (start + cell as i64) as f64 * interval;
        let below = |loss: f64| ((loss / interval).floor() as i64 - start).max(0) as usize;
        let mut from = low;
        let mut cell = below(pair.loss(low)) + 1;
        while cell + 1 < mass.len() && from < high {
            let target = grid(cell);
            // ∫ (1 − e^{target − ℓ}) dP from `from`: negative until the mean loss reaches the target, then positive.
            let balance = |to: f64| pair.integrals(from, to, target, 2.0 * interval);
            let limit = pair.coordinate(target + interval).min(high);
            if limit <= from {
                cell += 1;
                continue;
            }
            let (_, at_limit) = balance(limit);
            if at_limit < 0.0 {
                // No cut below the next grid point reaches the target: cut half-way and round down.
                let to = pair.coordinate(target + 0.5 * interval).clamp(from, high);
                if to <= from {
                    cell += 1;
                    continue;
                }
                mass[cell - 1] += balance(to).0;
                from = to;
                cell += 1;
                continue;
            }
            let (mut inside, mut outside) = (pair.coordinate(target).max(from), limit);
            let mut to = pair.coordinate(2.0 * target - pair.loss(from)).clamp(inside, outside);
            for _ in 0..60 {
                let (_, value) = balance(to);
                if value > 0.0 {
                    outside = to;
                } else {
                    inside = to;
                }
                if outside - inside <= 1e-14 * (outside.abs() + inside.abs()) {
                    break;
                }
                // Newton, kept inside the bracket: the derivative is the integrand at the end.
                let slope = pair.balance_slope(to, target);
                let next = to - value / slope;
                if (next - to).abs() <= 1e-13 * (outside - from) {
                    break;
                }
                to = if next > inside && next < outside {
                    next
                } else {
                    0.5 * (inside + outside)
                };
            }
            // Ending on the positive side keeps the mean loss at or above the grid point.
            let (total, value) = balance(to);
            let (total, to) = if value >= 0.0 {
                (total, to)
            } else {
                (balance(outside).0, outside)
            };
            mass[cell] += total;
            from = to;
            cell += 1;
        }
        // The rest, upper tail included, rounded down.
        let rest = pair.mass_above(from);
        if rest > 0.0 {
            mass[below(pair.loss(from)).min(mass.len() - 1)] += rest;
        }
    }

    /// The loss where mass·e^{λℓ} is about largest: weights measured from there neither overflow nor vanish.
    pub(super) fn anchor(&self, lambda: f64) -> f64 {
        let stride = (self.mass.len() / 512).max(1);
        let mut best = (f64::NEG_INFINITY, self.top());
        for cell in (0..self.mass.len()).step_by(stride) {
            let loss = (self.start + cell as i64) as f64 * self.interval;
            let weight = self.mass[cell].ln() + lambda * loss;
            if weight > best.0 {
                best = (weight, loss);
            }
        }
        best.1
    }

    /// ln E[e^{λℓ}] over the finite losses.
    pub(super) fn log_moment(&self, lambda: f64) -> f64 {
        let anchor = self.anchor(lambda);
        let moment: f64 = self
            .weights(lambda, anchor)
            .zip(&self.mass)
            .map(|(weight, mass)| weight * mass)
            .sum();
        moment.ln() + lambda * anchor
    }

    /// e^{λ(ℓ_k − anchor)} for all cells; the exponential is renewed every 32 cells.
    pub(super) fn weights(&self, lambda: f64, anchor: f64) -> impl Iterator<Item = f64> {
        let ratio = (lambda * self.interval).exp();
        let (start, interval) = (self.start, self.interval);
        let mut weight = 0.0;
        (0..self.mass.len()).map(move |cell| {
            if cell % 32 == 0 || !(1e-290..1e290).contains(&weight) {
                weight = (lambda * ((start + cell as i64) as f64 * interval - anchor)).exp();
            } else {
                weight *= ratio;
            }
            weight
        })
    }

    /// The largest loss with positive mass.
    pub(super) fn top(&self) -> f64 {
        let last = self.mass.iter().rposition(|&mass| mass > 0.0).unwrap_or(0);
        (self.start + last as i64) as f64 * self.interval
    }

    /// The smallest loss with positive mass.
    pub(super) fn bottom(&self) -> f64 {
        let first = self.mass.iter().position(|&mass| mass > 0.0).unwrap_or(0);
        (self.start + first as i64) as f64 * self.interval
    }
}

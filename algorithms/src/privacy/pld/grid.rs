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

/// Most cells of a grid or transform.
pub const MOST_CELLS: usize = 1 << 22;

/// (loss, P-mass) of a discrete law that dominates, and its mass at +∞; rounding may leave a little more than 1 in all.
#[derive(Debug, PartialEq)]
pub(super) struct Atoms {
    pub(super) losses: Vec<(f64, f64)>,
    pub(super) infinity: f64,
}

impl Atoms {
    pub(super) fn ends(&self) -> (f64, f64) {
        self.losses
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &(loss, _)| (low.min(loss), high.max(loss)))
    }
}

impl GridLoss {
    /// Cells without mass.
    pub(super) fn empty(interval: f64, start: i64, cells: usize) -> Self {
        Self { interval, start, mass: vec![0.0; cells], infinity: 0.0 }
    }

    /// No loss.
    pub(super) fn nothing(interval: f64) -> Self {
        Self { interval, start: 0, mass: vec![1.0, 0.0], infinity: 0.0 }
    }

    /// This law, or `other` with probability `share`, and which of the two is known.
    pub(super) fn mixed(&self, other: &Self, share: f64) -> Self {
        let end = |grid: &Self| grid.start + grid.mass.len() as i64;
        let start = self.start.min(other.start);
        let mut mixed = Self::empty(self.interval, start, (end(self).max(end(other)) - start) as usize);
        for (grid, share) in [(self, 1.0 - share), (other, share)] {
            let cells = &mut mixed.mass[(grid.start - start) as usize..];
            cells.iter_mut().zip(&grid.mass).for_each(|(cell, mass)| *cell += share * mass);
            mixed.infinity += share * grid.infinity;
        }
        mixed
    }

    /// Adds mass at a loss to the cells beside it, in the proportion that keeps its P-mass and its Q-mass.
    pub(super) fn split(&mut self, loss: f64, mass: f64) {
        let last = self.mass.len() - 2;
        let cell = (((loss / self.interval).floor() as i64 - self.start).max(0) as usize).min(last);
        let threshold = (self.start + cell as i64) as f64 * self.interval;
        let raised = (-(threshold - loss).exp_m1() / -(-self.interval).exp_m1()).clamp(0.0, 1.0) * mass;
        self.mass[cell] += mass - raised;
        self.mass[cell + 1] += raised;
    }

    /// (first, last) cells that the losses of `pair` need.
    pub(super) fn cells(pair: Pair, interval: f64, tails: Tails) -> (f64, f64) {
        let (low, high) = pair.range(tails.lower, tails.upper);
        let ends = (pair.loss(low), pair.loss(high));
        let (low, high) = pair.atoms().iter().fold(ends, |(low, high), &(loss, _)| (low.min(loss), high.max(loss)));
        ((low / interval).floor(), (high / interval).ceil())
    }

    /// An upper discretisation: its δ(ε) is at least that of `pair` for every ε, under any composition.
    ///
    /// The mass between two grid points goes to both, in the proportion that keeps its P-mass and its Q-mass. On the curve of
    /// δ against e^ε that draws the chord between grid points, the least convex upper bound with kinks on the grid
    /// (Doroshenko–Ghazi–Kamath–Kumar–Manurangsi 2022); its error is of second order in the interval, where rounding every
    /// loss up would be of first. The upper tail goes to +∞, the lower one is rounded up.
    pub(super) fn upper(pair: Pair, interval: f64, tails: Tails) -> Self {
        let (first, last) = Self::cells(pair, interval, tails);
        let (start, cells) = (first as i64, ((last - first) as usize + 1).max(2));
        let mut grid = Self::empty(interval, start, cells);
        let mass = &mut grid.mass;
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
        pair.atoms().into_iter().for_each(|(loss, atom)| grid.split(loss, atom));
        let mass = &mut grid.mass;
        let mut infinity = if continuous { pair.mass_above(high) } else { 0.0 };
        // Quadrature errors of the masses (1e-10 relative at most) leave the total exact; what else is missing may have any loss.
        let missing = 1.0 - infinity - mass.iter().sum::<f64>();
        if missing > 1e-9 {
            infinity += missing;
        }
        let scale = (1.0 - infinity) / mass.iter().sum::<f64>();
        mass.iter_mut().for_each(|value| *value *= scale);
        Self { infinity, ..grid }
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
        let continuous = pair.mass_above(low) > 0.0;
        if continuous {
            Self::merge(pair, interval, start, (low, high), &mut mass);
        }
        for (loss, atom) in pair.atoms() {
            // On the grid but for rounding, or rounded down.
            let cell = ((loss / interval + 1e-9).floor() as i64 - start).max(0) as usize;
            mass[cell.min(cells - 1)] += atom;
        }
        let below = if continuous { pair.mass_below(low) } else { 0.0 };
        let scale = ((1.0 - below) / mass.iter().sum::<f64>()).min(1.0);
        for value in &mut mass {
            *value *= scale;
        }
        Self { interval, start, mass, infinity: 0.0 }
    }

    /// Fills `mass` with buckets over low < y < high whose mean losses are grid points. The first cut lies half-way between two
    /// grid points in the bulk, and the others follow from it to both sides: cuts keep their place between grid points as long
    /// as the density is smooth on their scale, so that rounding stays in the tails.
    fn merge(pair: Pair, interval: f64, start: i64, (low, high): (f64, f64), mass: &mut [f64]) {
        let grid = |cell: usize| (start + cell as i64) as f64 * interval;
        let below = |loss: f64| ((loss / interval).floor() as i64 - start).max(0) as usize;
        let middle_cell = below(pair.loss(0.5 * (low + high).clamp(-1.0, 1.0))).clamp(1, mass.len() - 2);
        let middle = pair.coordinate(grid(middle_cell) + 0.5 * interval).clamp(low, high);

        for upwards in [true, false] {
            let (side, end) = if upwards { (1.0, high) } else { (-1.0, low) };
            let (mut fixed, mut cell) = (middle, middle_cell + usize::from(upwards));
            while cell > 0 && cell + 1 < mass.len() && side * (end - fixed) > 0.0 {
                let limit = pair.coordinate(grid(cell) + side * interval).clamp(low, high);
                if side * (limit - fixed) > 0.0 {
                    let bucket = Bucket { pair, fixed, target: grid(cell), interval };
                    if let Some((cut, total)) = bucket.cut(limit) {
                        mass[cell] += total;
                        fixed = cut;
                    } else {
                        // The mean stays on the near side of the grid point: cut half-way to the next, round down.
                        let half_way = pair.coordinate(grid(cell) + side * 0.5 * interval);
                        let cut = half_way.clamp(fixed.min(end), fixed.max(end));
                        mass[cell - usize::from(upwards)] += bucket.balance(cut).0;
                        fixed = cut;
                    }
                }
                cell = if upwards { cell + 1 } else { cell - 1 };
            }
            if upwards {
                // The rest, upper tail included, rounded down.
                mass[below(pair.loss(fixed)).min(mass.len() - 1)] += pair.mass_above(fixed);
            }
        }
    }

    /// The loss where mass·e^{λℓ} is about largest: weights measured from there neither overflow nor vanish.
    pub(super) fn anchor(&self, lambda: f64) -> f64 {
        let stride = (self.mass.len() / 512).max(1);
        // The top's own weight counts: steps over the cells may miss an atom there.
        let top = self.top();
        let at_top = (top / self.interval).round() as i64 - self.start;
        let mut best = (self.mass[at_top as usize].ln() + lambda * top, top);
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
        let weights = self.weights(lambda, anchor).zip(&self.mass);
        let moment: f64 = weights.map(|(weight, mass)| weight * mass).sum();
        moment.ln() + lambda * anchor
    }

    /// e^{λ(ℓ_k − anchor)} for all cells; the exponential is renewed every 32 cells.
    pub(super) fn weights(&self, lambda: f64, anchor: f64) -> impl Iterator<Item = f64> {
        let ratio = (lambda * self.interval).exp();
        let (start, interval) = (self.start, self.interval);
        let mut weight = 0.0;
        (0..self.mass.len()).map(move |cell| {
            if cell.is_multiple_of(32) || !(1e-290..1e290).contains(&weight) {
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

/// A bucket of outcomes with one end fixed; the other is to be found.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    pair: Pair,
    fixed: f64,
    /// The grid point that the mean loss ln P/Q shall be, or hardly exceed.
    target: f64,
    interval: f64,
}

impl Bucket {
    /// (P-mass, ∫ (1 − e^{target − ℓ}) dP) between the fixed end and `cut`: the second is positive where the mean loss exceeds
    /// the target.
    fn balance(self, cut: f64) -> (f64, f64) {
        let (from, to) = (self.fixed.min(cut), self.fixed.max(cut));
        self.pair.integrals(from, to, self.target, 2.0 * self.interval)
    }

    /// (cut, P-mass) with the balance at, or by rounding just above, 0; nothing if no cut up to `limit` does it.
    fn cut(self, limit: f64) -> Option<(f64, f64)> {
        // The balance rises with a cut that moves up, and falls with one that moves down; `value` rises away from `near`.
        let side = if limit > self.fixed { 1.0 } else { -1.0 };
        let value_at = |cut: f64| side * self.balance(cut).1;
        let centre = self.pair.coordinate(self.target);
        let mut near = side * (side * centre).max(side * self.fixed);
        let mut far = limit;
        if value_at(far) < 0.0 {
            return None;
        }
        let mirrored = self.pair.coordinate(2.0 * self.target - self.pair.loss(self.fixed));
        let mut cut = mirrored.clamp(near.min(far), near.max(far));
        let tolerance = 1e-7 * (far - self.fixed).abs();
        for _ in 0..40 {
            let value = value_at(cut);
            if value > 0.0 {
                far = cut;
            } else {
                near = cut;
            }
            let next = cut - value / self.pair.balance_slope(cut, self.target);
            let inside = next > near.min(far) && next < near.max(far);
            let next = if inside { next } else { 0.5 * (near + far) };
            if (next - cut).abs() <= tolerance {
                break;
            }
            cut = next;
        }
        // Any cut whose mean loss is at least the target keeps the bound; the best one was found to 1e-7 of a bucket. A later
        // cut raises the mean, whichever end is fixed.
        let (mut total, mut excess) = self.balance(cut);
        if excess < 0.0 {
            cut = (cut + 2.0 * tolerance).min(limit.max(self.fixed));
            (total, excess) = self.balance(cut);
        }
        (excess >= 0.0).then_some((cut, total))
    }
}

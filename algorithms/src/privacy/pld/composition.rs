//! Composition of grid losses by one FFT, exponentially tilted so that precision lies in the requested tail.
//!
//! With P̃(ℓ) = P(ℓ)·e^{λℓ}/M(λ), the T-fold convolution of P̃ is the tilted T-fold convolution of P, and
//! δ(ε) = M(λ)^T Σ_{ℓ > ε} P̃_T(ℓ)·e^{−λℓ}(1 − e^{ε−ℓ}). At the λ that suits ε the bulk of P̃_T lies at ε, so that a relative
//! error of 1e-13 in the convolution is one in δ, be it 1e-5 or 1e-200, and only the few standard deviations around ε need
//! cells. What wraps around is bounded by Chernoff's inequality and added (or subtracted, for a lower bound).

use rounds_numerics::{Complex64, RealFourier, power};

use super::grid::GridLoss;

/// e to this is 0 in a double.
const LOG_LEAST: f64 = -745.0;
/// Cells of a window of which one is looked at where δ is small.
const BLOCK: usize = 64;

/// The T-fold composition of grid losses, on a window.
#[derive(Debug)]
pub(super) struct Composed {
    interval: f64,
    /// Tilt λ.
    lambda: f64,
    /// Grid index of the first cell of the window.
    start: i64,
    /// Tilted masses in the window, moved up or down by the bound on their error.
    mass: Vec<f64>,
    /// ln Π M_j(λ)^{T_j}, with respect to losses measured from 0.
    log_moment: f64,
    /// Total mass at +∞.
    infinity: f64,
    /// Tilted mass that may lie outside the window: below it and above it.
    outside: (f64, f64),
    bound: Bound,
}

/// The steps to compose and the window of losses.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) steps: &'a [(GridLoss, usize)],
    pub(super) lambda: f64,
    /// Losses that the window must cover.
    pub(super) window: (f64, f64),
    /// λ's of the Chernoff bounds below and above the window.
    pub(super) edges: (f64, f64),
    pub(super) bound: Bound,
}

/// Side of the truth on which the result must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Upper,
    Lower,
}

/// The smallest even 2^a·3^b·5^c that is at least `length`.
pub(super) fn transform_length(length: usize) -> usize {
    let mut best = length.next_power_of_two().max(8);
    let mut fives = 1;
    while fives < best {
        let mut threes = fives;
        while threes < best {
            let rest = length.div_ceil(threes).next_power_of_two().max(2);
            best = best.min(rest * threes);
            threes *= 3;
        }
        fives *= 5;
    }
    best
}

/// Writes the tilted law of one step into `cells`, the cell of its mean at index 0: the spectrum then turns slowly. Returns the
/// logarithm of the step's moment and that cell.
fn tilt(loss: &GridLoss, lambda: f64, cells: &mut [f64]) -> (f64, i64) {
    let anchor = loss.anchor(lambda);
    let weights = loss.weights(lambda, anchor).zip(&loss.mass);
    let tilted: Vec<f64> = weights.map(|(weight, mass)| weight * mass).collect();
    let moment: f64 = tilted.iter().sum();
    let cells_times_mass = tilted.iter().enumerate().map(|(cell, mass)| cell as f64 * mass);
    let mean = cells_times_mass.sum::<f64>() / moment;
    let centre = mean.round() as i64;
    cells.fill(0.0);
    let mut index = (-centre).rem_euclid(cells.len() as i64) as usize;
    for mass in &tilted {
        cells[index] += mass / moment;
        index = if index + 1 == cells.len() { 0 } else { index + 1 };
    }
    (moment.ln() + lambda * anchor, centre)
}

impl Composed {
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let interval = plan.steps[0].0.interval;
        let lambda = plan.lambda;
        // A composition of bounded losses needs no more than its support.
        let (bottom, top) = plan.steps.iter().fold((0.0, 0.0), |(bottom, top), (loss, count)| {
            (bottom + *count as f64 * loss.bottom(), top + *count as f64 * loss.top())
        });
        let low = plan.window.0.max(bottom);
        let high = plan.window.1.min(top).max(low);
        let start = (low / interval).floor() as i64 - 1;
        let length = transform_length(((high - low) / interval).ceil() as usize + 4);
        let window_end = (start + length as i64 - 1) as f64 * interval;

        let mut fourier = RealFourier::new(length);
        let mut cells = vec![0.0; length];
        let mut spectrum = vec![Complex64::default(); fourier.spectrum_length()];
        let mut product = vec![Complex64::new(1.0, 0.0); spectrum.len()];
        // Relative error bound of one transform of non-negative numbers, in units of their sum.
        let transform_error = 4.0 * f64::EPSILON * (length as f64).log2();
        let mut coefficient_error = vec![0.0; spectrum.len()];

        let (mut log_moment, mut log_finite) = (0.0, 0.0);
        let mut outside = (0.0, 0.0);
        let mut origin = 0_i64;
        for (loss, count) in plan.steps {
            let copies = *count as f64;
            let (log_step, centre) = tilt(loss, lambda, &mut cells);
            origin += (loss.start + centre) * *count as i64;
            log_moment += copies * log_step;
            log_finite += copies * (-loss.infinity).ln_1p();
            outside.0 += copies * (loss.log_moment(plan.edges.0) - log_step);
            outside.1 += copies * (loss.log_moment(plan.edges.1) - log_step);
            fourier.forward(&mut cells, &mut spectrum);
            // Most coefficients are too small for their powers: those are told without a root and a logarithm.
            let least = (LOG_LEAST / copies).exp() * (1.0 - 1e-9) - transform_error;
            let least_squared = if least > 0.0 { least * least } else { 0.0 };
            for ((product, error), value) in product.iter_mut().zip(&mut coefficient_error).zip(&spectrum) {
                if value.norm_sqr() < least_squared {
                    (*product, *error) = (Complex64::default(), 0.0);
                } else {
                    raise(product, error, *value, *count, transform_error);
                }
            }
        }
        let coefficients = |index: usize| if index == 0 || 2 * index == length { 1.0 } else { 2.0 };
        let cell_error = product
            .iter()
            .zip(&coefficient_error)
            .enumerate()
            .filter(|&(_, (&value, &error))| value != Complex64::default() || error != 0.0)
            .map(|(index, (value, error))| coefficients(index) * (error + transform_error * value.norm()))
            .sum::<f64>()
            / length as f64;
        let last = product.len() - 1;
        product[0].im = 0.0;
        product[last].im = 0.0;
        fourier.inverse(&mut product, &mut cells);

        let shift = match plan.bound {
            Bound::Upper => cell_error,
            Bound::Lower => -cell_error,
        };
        let rotation = (start - origin).rem_euclid(length as i64) as usize;
        cells.rotate_left(rotation);
        let cells = cells.into_iter();
        let mass = cells.map(|value| (value / length as f64 + shift).max(0.0)).collect();
        // Chernoff: E[e^{(θ−λ)ℓ}] e^{−(θ−λ)edge} under the tilted law, for θ < λ below and θ > λ above.
        let tail = |log_ratio: f64, edge_lambda: f64, edge: f64| {
            if edge_lambda == lambda { 1.0 } else { (log_ratio - (edge_lambda - lambda) * edge).exp().min(1.0) }
        };
        let window_start = start as f64 * interval;
        let outside = (
            if bottom >= window_start { 0.0 } else { tail(outside.0, plan.edges.0, window_start) },
            if top <= window_end { 0.0 } else { tail(outside.1, plan.edges.1, window_end) },
        );
        let (infinity, bound) = (-log_finite.exp_m1(), plan.bound);
        Self { interval, lambda, start, mass, log_moment, infinity, outside, bound }
    }

    /// The first and the last point of the window.
    pub(super) fn window(&self) -> (f64, f64) {
        let end = self.start + self.mass.len() as i64 - 1;
        (self.start as f64 * self.interval, end as f64 * self.interval)
    }

    /// (point, mass) of the window without its tilt: at least what lies there.
    pub(super) fn masses(&self) -> impl Iterator<Item = (f64, f64)> {
        (self.start..).zip(&self.mass).map(|(index, mass)| {
            let point = index as f64 * self.interval;
            (point, mass * (self.log_moment - self.lambda * point).exp())
        })
    }

    /// (loss, D) at the grid points of the window, last to first, for [`delta_of`](Self::delta_of).
    ///
    /// D_g = Σ_{h > g} m_h e^{−λ(h−g)Δ}(1 − e^{−(h−g)Δ}) is built from the right by additions of positive terms only.
    fn differences(&self) -> impl Iterator<Item = (f64, f64)> {
        let decay = (-self.lambda * self.interval).exp();
        let gain = decay * -(-self.interval).exp_m1();
        let decay_both = decay * (-self.interval).exp();
        let (mut difference, mut both) = (0.0, 0.0);
        (0..self.mass.len()).rev().map(move |cell| {
            let loss = (self.start + cell as i64) as f64 * self.interval;
            let here = difference;
            // Next cell to the left: everything moves one interval away, and this cell's mass joins.
            let sum = both + self.mass[cell];
            difference = decay * difference + gain * sum;
            both = decay_both * sum;
            (loss, here)
        })
    }

    /// δ at a grid point from D there.
    fn delta_of(&self, (loss, difference): (f64, f64)) -> f64 {
        let lost = match self.bound {
            // What lies above the window counts in full at its end.
            Bound::Upper => self.outside.1 * (-self.lambda * (self.window().1 - loss)).exp(),
            // What lies outside may have wrapped to anywhere.
            Bound::Lower => -(self.outside.0 + self.outside.1),
        };
        let tilted = f64::max(difference + lost, 0.0);
        let scale = self.log_moment - self.lambda * loss;
        let delta = if tilted > 0.0 { (scale + tilted.ln()).exp() } else { 0.0 };
        (self.infinity + delta).min(1.0)
    }

    /// (loss, δ) at the grid points of the window, last to first.
    fn deltas(&self) -> impl Iterator<Item = (f64, f64)> {
        self.differences().map(|(loss, difference)| (loss, self.delta_of((loss, difference))))
    }

    /// The ε of the window with δ(ε) = `delta`.
    pub(super) fn epsilon(&self, delta: f64) -> Located {
        // An upper bound rises to the left: where it is small enough at the end of a block, it is in all of it, unless so many cells are too far
        // apart for a double. A lower one falls again where less is left than may have wrapped around.
        let is_monotone = self.bound == Bound::Upper && BLOCK as f64 * self.lambda * self.interval < 300.0;
        let size = if is_monotone { BLOCK } else { 1 };
        let mut differences = self.differences();
        let mut block = Vec::with_capacity(size);
        let mut right = None;
        loop {
            block.clear();
            block.extend(differences.by_ref().take(size));
            let Some(&last) = block.last() else { return Located::Below };
            let at_last = self.delta_of(last);
            if at_last > delta {
                break;
            }
            right = Some(at_last);
        }
        for (loss, difference) in block {
            let value = self.delta_of((loss, difference));
            if value > delta {
                // Between grid points δ is linear in e^ε.
                return right.map_or(Located::Above, |right| {
                    let fraction = ((value - delta) / (value - right)).clamp(0.0, 1.0);
                    Located::At(loss + (fraction * self.interval.exp_m1()).ln_1p())
                });
            }
            right = Some(value);
        }
        Located::Below
    }

    /// δ at `epsilon`: by the chord in e^ε for an upper bound, and for a lower one at the grid point above.
    pub(super) fn delta(&self, epsilon: f64) -> Option<f64> {
        let mut right = None;
        for point in self.differences() {
            if point.0 <= epsilon {
                return Some(self.chord(epsilon - point.0, self.delta_of(point), self.delta_of(right?)));
            }
            right = Some(point);
        }
        None
    }

    /// The value so far above a grid point, by the chord in e^ε from `left` there to `right` at the next one.
    fn chord(&self, above: f64, left: f64, right: f64) -> f64 {
        let fraction = above.exp_m1() / self.interval.exp_m1();
        left + fraction.clamp(0.0, 1.0) * (right - left)
    }

    /// Upper bounds on δ at ascending `epsilons`: δ does not rise beyond the window, and is at most 1 below it.
    pub(super) fn deltas_at(&self, epsilons: &[f64]) -> Vec<f64> {
        let mut found = vec![1.0; epsilons.len()];
        let mut left = epsilons.len();
        let mut right = None;
        for (loss, value) in self.deltas() {
            while let Some(last) = left.checked_sub(1).filter(|&last| epsilons[last] >= loss) {
                found[last] = self.chord(epsilons[last] - loss, value, right.unwrap_or(value));
                left = last;
            }
            right = Some(value);
        }
        found
    }

    /// The smallest δ that can be told from 0 in this window.
    pub(super) fn resolution(&self) -> f64 {
        self.deltas().next().map_or(1.0, |(_, value)| value)
    }
}

/// Position of an ε with respect to a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Located {
    /// To the left of the window.
    Below,
    /// Found.
    At(f64),
    /// To the right of the window, or below the resolution.
    Above,
}

/// product ← product · value^count, with a bound on the error that `error` (of the product) and `value_error` leave.
fn raise(product: &mut Complex64, error: &mut f64, value: Complex64, count: usize, value_error: f64) {
    let norm = value.norm();
    let copies = count as f64;
    // |v + e|^T ≤ |v|^T e^{Te/|v|}; below this nothing is left of the coefficient.
    let log_power = copies * (norm + value_error).ln();
    if log_power < LOG_LEAST {
        *product = Complex64::default();
        *error = 0.0;
        return;
    }
    let power = power(value, count);
    // Derivative of the power at its upper end, and the rounding of the repeated products.
    let upper = log_power.exp();
    let power_error = copies * upper / (norm + value_error) * value_error + copies * 4.0 * f64::EPSILON * upper;
    let old = product.norm();
    *error = *error * (upper + power_error) + old * power_error;
    *product *= power;
}

#[cfg(test)]
mod tests {
    use super::super::grid::Tails;
    use super::super::pair::Pair;
    use super::*;
    use crate::privacy::interval_tests::{Interval, at};

    fn coin(interval: f64) -> GridLoss {
        // Randomised response with epsilon = interval.
        let keep = 1.0 / (1.0 + (-interval).exp());
        GridLoss { interval, start: -1, mass: vec![1.0 - keep, 0.0, keep], infinity: 0.0 }
    }

    fn binomial_delta(epsilon: f64, step: f64, count: u32) -> f64 {
        // Sum over heads of C(T, k) p^k (1-p)^{T-k} (1 - e^{eps - (2k - T) step})_+.
        let keep = 1.0 / (1.0 + (-step).exp());
        let mut log_binomial = 0.0;
        let mut total = 0.0;
        for heads in 0..=count {
            if heads > 0 {
                log_binomial += (f64::from(count - heads + 1) / f64::from(heads)).ln();
            }
            let loss = (2.0 * f64::from(heads) - f64::from(count)) * step;
            if loss > epsilon {
                let log = log_binomial + f64::from(heads) * keep.ln() + f64::from(count - heads) * (1.0 - keep).ln();
                total += log.exp() * -(epsilon - loss).exp_m1();
            }
        }
        total
    }

    #[test]
    fn composition_of_coins_is_the_binomial_law_deep_into_the_tail_and_narrow_windows_keep_the_bounds_on_their_sides() {
        let (step, count) = (0.1, 200);
        let steps = [(coin(step), count as usize)];
        for epsilon in [1.0_f64, 4.0, 8.0, 12.0, 18.0] {
            let expected = binomial_delta(epsilon, step, count);
            // The tilt that centres the walk at epsilon.
            let lambda = ((1.0 + epsilon / 20.0) / (1.0 - epsilon / 20.0)).ln() / (2.0 * step) - 0.5;
            let relative = |window, edges, bound| {
                let composed = Composed::new(&Plan { steps: &steps, lambda, window, edges, bound });
                composed.delta(epsilon).unwrap() / expected - 1.0
            };
            for (bound, side) in [(Bound::Upper, 1.0), (Bound::Lower, -1.0)] {
                let whole = relative((-20.0, 20.0), (lambda * 0.5, lambda * 1.5), bound);
                assert!(whole.abs() < 1e-9 && side * whole > -1e-12, "{epsilon}: {whole:e}");
                if epsilon == 4.0 {
                    assert!(side * relative((-1.0, 9.0), (lambda - 3.0, lambda + 3.0), bound) >= 0.0);
                }
            }
        }
    }

    /// Masses of the 2^`doublings`-fold composition of a grid loss, by multiplication in outward-rounded intervals.
    fn composed_in_intervals(loss: &GridLoss, doublings: u32) -> Vec<Interval> {
        let mut masses: Vec<Interval> = loss.mass.iter().map(|&mass| at(mass)).collect();
        for _ in 0..doublings {
            let mut squared = vec![at(0.0); 2 * masses.len() - 1];
            for (place, &mass) in masses.iter().enumerate() {
                for (sum, &other) in squared[place..].iter_mut().zip(&masses) {
                    *sum = *sum + mass * other;
                }
            }
            masses = squared;
        }
        masses
    }

    /// Transforms and tilts against composition in outward-rounded intervals: upper bounds on δ lie above it and lower ones
    /// below, but for 1e-12 of δ by roundings of exponentials, which are not counted (the excess of a release's noise covers 1e-9).
    #[test]
    fn composed_bounds_enclose_compositions_in_intervals() {
        let (rate, noise) = (0.1, 0.9);
        let tails = Tails { lower: 1e-13, upper: 1e-14 };
        for pair in [Pair::Remove { rate, noise }, Pair::Add { rate, noise }, Pair::Laplace { epsilon: 0.7 }] {
            for doublings in [0, 1, 4] {
                let loss = GridLoss::upper(pair, 0.05, tails);
                let (count, masses) = (1 << doublings, composed_in_intervals(&loss, doublings));
                let start = loss.start * count as i64;
                // 1 − (1 − p)^T.
                let most = count as f64 * loss.infinity;
                let infinity = Interval { lo: most * (1.0 - most), hi: most.next_up() };
                let steps = [(loss, count)];
                for lambda in [1.0, 2.0] {
                    for (bound, side) in [(Bound::Upper, 1.0), (Bound::Lower, -1.0)] {
                        let plan =
                            Plan { steps: &steps, lambda, window: (-40.0, 160.0), edges: (0.5, lambda + 3.0), bound };
                        let mut compared = 0;
                        for (epsilon, found) in Composed::new(&plan).deltas().filter(|(epsilon, _)| *epsilon > 0.2) {
                            let mut exact = infinity;
                            for (cell, &mass) in masses.iter().enumerate() {
                                let loss = at((start + cell as i64) as f64) * at(0.05);
                                if loss.lo > epsilon + 0.01 {
                                    exact = exact + mass * (at(0.0) - (at(epsilon) - loss).exp_m1());
                                }
                            }
                            let slack = 1.0 + side * 1e-12;
                            let (beyond, near) = if side > 0.0 { (exact.hi, exact.lo) } else { (exact.lo, exact.hi) };
                            let is_beyond = side * (found * slack - beyond) >= -1e-300;
                            assert!(is_beyond, "{pair:?}, {count}, {lambda}, {epsilon}: {found:e} {exact:?}");
                            if exact.lo > 1e-9 && (found / near - 1.0).abs() < 1e-6 {
                                compared += 1;
                            }
                        }
                        assert!(compared > 10 || doublings < 4, "{pair:?}, {count}, {lambda}: {compared}");
                    }
                }
            }
        }
    }

    #[test]
    fn transform_lengths_are_even_smooth_and_close() {
        for length in [1, 7, 100, 1000, 12_345, 1_000_003] {
            let found = transform_length(length);
            let close = found >= length && found <= (length + length / 4).max(8);
            assert!(close && found.is_multiple_of(2), "{length} {found}");
            let mut rest = found;
            for prime in [2, 3, 5] {
                while rest.is_multiple_of(prime) {
                    rest /= prime;
                }
            }
            assert_eq!(rest, 1);
        }
    }
}

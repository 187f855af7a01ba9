//! Selected entries of X = Σ_m w_m (A⁻¹Λ⁻¹A⁻ᵀ + s_m²·U)⁻¹ where U couples the rounds of one participation pattern.
//!
//! A⁻¹ couples neighbouring rounds and U the rounds j, j + b, j + 2b, … of one pattern. With the patterns laid side by
//! side and the circle they form folded flat (0, b − 1, 1, b − 2, …), both couplings stay within (2p + 1)·k places, and
//! the entries of the inverse that the dual's gradient needs lie in that band: O(T·(pk)²) a node. Unlike in
//! `shifted_inverse.rs` the product is formed, which costs half the digits; the certificates do not use it.

use rayon::prelude::*;

use super::banded_lower::BandedLower;
use super::lanes::Lanes;
use super::minimizer::sum_in_order;
use super::quadrature::InverseSquareRoot;

/// The order of rounds in which both couplings are banded.
pub(crate) struct FoldedOrder {
    /// position[round].
    position: Vec<usize>,
    /// The largest distance of two coupled rounds.
    bandwidth: usize,
}

impl FoldedOrder {
    /// The order for patterns of `rounds` rounds and a workload inverse with `subdiagonals`.
    pub(crate) fn new(rounds: usize, patterns: &[Vec<usize>], subdiagonals: usize) -> Self {
        let mut position = vec![0; rounds];
        let mut range = vec![(0, 0); rounds];
        let mut next = 0;
        for step in 0..patterns.len() {
            let index = if step % 2 == 0 { step / 2 } else { patterns.len() - 1 - step / 2 };
            let first = next;
            for &round in &patterns[index] {
                position[round] = next;
                next += 1;
            }
            for &round in &patterns[index] {
                range[round] = (first, next - 1);
            }
        }
        let mut bandwidth = 0;
        for round in 0..rounds {
            for other in round..(round + subdiagonals + 1).min(rounds) {
                let ((low, high), (other_low, other_high)) = (range[round], range[other]);
                bandwidth = bandwidth.max(high.max(other_high) - low.min(other_low));
            }
        }
        Self { position, bandwidth }
    }

    fn size(&self) -> usize {
        self.position.len()
    }
}

/// A symmetric band matrix in folded order: `entries[column·(w + 1) + d]` is entry (column + d, column).
pub(crate) struct SymmetricBand {
    width: usize,
    entries: Vec<f64>,
}

impl SymmetricBand {
    pub(crate) fn zeros(order: &FoldedOrder) -> Self {
        let width = order.bandwidth + 1;
        Self { width, entries: vec![0.0; order.size() * width] }
    }

    /// Adds `value` to the entry of two rounds, once for the pair.
    pub(crate) fn add(&mut self, order: &FoldedOrder, round: usize, other: usize, value: f64) {
        let (a, b) = (order.position[round], order.position[other]);
        self.entries[a.min(b) * self.width + a.abs_diff(b)] += value;
    }

    /// The entry of two rounds.
    pub(crate) fn get(&self, order: &FoldedOrder, round: usize, other: usize) -> f64 {
        let (a, b) = (order.position[round], order.position[other]);
        self.entries[a.min(b) * self.width + a.abs_diff(b)]
    }

    /// max over rows of Σ |entry| ≥ the largest eigenvalue.
    pub(crate) fn norm_bound(&self) -> f64 {
        let size = self.entries.len() / self.width;
        let mut sums = vec![0.0; size];
        for column in 0..size {
            for offset in 0..self.width.min(size - column) {
                let magnitude = self.entries[column * self.width + offset].abs();
                sums[column] += magnitude;
                if offset > 0 {
                    sums[column + offset] += magnitude;
                }
            }
        }
        sums.into_iter().fold(0.0, f64::max)
    }
}

/// W·diag(scales)·Wᵀ in folded order.
pub(crate) fn weighted_product(order: &FoldedOrder, factor: &BandedLower, scales: &[f64]) -> SymmetricBand {
    let mut product = SymmetricBand::zeros(order);
    for (column, scale) in scales.iter().enumerate() {
        let entries = factor.column(column);
        for (a, left) in entries.iter().enumerate().take(order.size() - column) {
            for (b, right) in entries.iter().enumerate().take(a + 1) {
                product.add(order, column + a, column + b, left * right * scale);
            }
        }
    }
    product
}

/// Σ_m w_m (H + s_m²·U)⁻¹ within the band; `None` where a pivot is not positive.
pub(crate) fn shifted_inverse_band(
    fixed: &SymmetricBand,
    shifted: &SymmetricBand,
    rule: &InverseSquareRoot,
) -> Option<SymmetricBand> {
    let partial: Vec<Option<Vec<f64>>> = rule
        .groups()
        .into_par_iter()
        .map(|(shifts, weights)| {
            let mut band: Vec<Lanes> = fixed
                .entries
                .iter()
                .zip(&shifted.entries)
                .map(|(&fixed, &shifted)| shifts.multiply_add(Lanes::splat(shifted), Lanes::splat(fixed)))
                .collect();
            invert_band(&mut band, fixed.width)
                .then(|| band.iter().map(|&entry| (entry * weights).0.iter().sum::<f64>()).collect())
        })
        .collect();
    let partial: Option<Vec<Vec<f64>>> = partial.into_iter().collect();
    let total = sum_in_order(fixed.entries.len(), &partial?);
    total.iter().all(|value| value.is_finite()).then_some(SymmetricBand { width: fixed.width, entries: total })
}

/// P ← the band of P⁻¹ by P = L·D·Lᵀ and Takahashi's recursion; `false` where a pivot is not positive.
fn invert_band(band: &mut [Lanes], width: usize) -> bool {
    let size = band.len() / width;
    for column in 0..size {
        let (current, later) = band[column * width..].split_at_mut(width);
        if !current[0].0.iter().all(|&pivot| pivot > 0.0) {
            return false;
        }
        let inverse = Lanes::splat(1.0) / current[0];
        for offset in 1..width.min(size - column) {
            let ratio = Lanes::ZERO - current[offset] * inverse;
            let target = &mut later[(offset - 1) * width..offset * width];
            for (entry, &value) in target.iter_mut().zip(&current[offset..]) {
                *entry = ratio.multiply_add(value, *entry);
            }
        }
        for entry in &mut current[1..] {
            *entry = *entry * inverse;
        }
        current[0] = inverse;
    }
    let mut below = vec![Lanes::ZERO; width];
    for column in (0..size).rev() {
        let (current, later) = band[column * width..].split_at_mut(width);
        let reach = width.min(size - column);
        below[..reach].fill(Lanes::ZERO);
        for q in 1..reach {
            let ratio = Lanes::ZERO - current[q];
            // Z_{column+k, column+q}, k ≥ q, is stored in column q's row k − q, and serves (q, k) too.
            let stored = &later[(q - 1) * width..q * width];
            below[q] = ratio.multiply_add(stored[0], below[q]);
            for k in q + 1..reach {
                below[k] = ratio.multiply_add(stored[k - q], below[k]);
                below[q] = (Lanes::ZERO - current[k]).multiply_add(stored[k - q], below[q]);
            }
        }
        let mut diagonal = current[0];
        for q in 1..reach {
            diagonal = diagonal - current[q] * below[q];
        }
        current[0] = diagonal;
        current[1..reach].copy_from_slice(&below[1..reach]);
    }
    true
}

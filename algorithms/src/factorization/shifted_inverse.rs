//! X = Σ_m w_m (W·Wᵀ + s_m²·diag(v))⁻¹: the dual's primal point, without any dense linear algebra.
//!
//! With G = AᵀA and W = A⁻¹ banded, the minimiser of tr(G X⁻¹) + Σ v_i X_ii is
//! X(v) = V^(−1/2) (V^(1/2) G V^(1/2))^(1/2) V^(−1/2) = (2/π) ∫₀^∞ (W·Wᵀ + s²V)⁻¹ ds   [derived],
//! and the integral is a sum over about 40 nodes (`quadrature.rs`). Every term is the inverse of a banded matrix: its
//! diagonal costs O(T·p²), the whole of it O(T²·p). Eight nodes run side by side in the lanes of a vector.
//!
//! W·Wᵀ is never formed: its smallest eigenvalue would be lost at condition numbers the workloads reach (1e10). The
//! factorisation W·Wᵀ + s²V = L·Lᵀ is differential: the part of the product that is not yet eliminated is carried as
//! Λ·D·Λᵀ with positive D and only ever gains positive rank-one terms.

use rayon::prelude::*;
use rounds_numerics::Mat;

use super::banded_lower::BandedLower;
use super::lanes::{LANES, Lanes};
use super::minimizer::sum_in_order;
use super::quadrature::InverseSquareRoot;

/// The operator v ↦ X(v) for one W of at most three subdiagonals.
pub(crate) struct ShiftedInverse<'a> {
    /// W.
    pub(crate) factor: &'a BandedLower,
    /// v > 0.
    pub(crate) weights: &'a [f64],
    /// Nodes and weights that cover the spectrum of V^(−1/2)·W·Wᵀ·V^(−1/2).
    pub(crate) rule: &'a InverseSquareRoot,
}

/// L of W·Wᵀ + s²V = L·Lᵀ for eight nodes: `ratios[j][r] = L[j + 1 + r, j]/L[j, j]` and `1/L[j, j]²`.
struct ShiftedFactor<const P: usize> {
    ratios: Vec<[Lanes; P]>,
    inverse_pivots: Vec<Lanes>,
}

/// For eight nodes: the band of (L·Lᵀ)⁻¹, `band[j][d]` = entry (j + d, j), d ≤ P.
struct InverseBand<const P: usize> {
    diagonal: Vec<Lanes>,
    below: Vec<[Lanes; P]>,
}

impl ShiftedInverse<'_> {
    /// diag X. O(nodes·T·p²).
    pub(crate) fn diagonal(&self) -> Vec<f64> {
        match self.factor.subdiagonals {
            0 | 1 => self.diagonal_of::<1>(),
            2 => self.diagonal_of::<2>(),
            _ => self.diagonal_of::<3>(),
        }
    }

    /// X as a dense symmetric matrix of which only the upper triangle is filled. O(nodes·T²·p).
    pub(crate) fn upper_triangle(&self) -> Mat<f64> {
        match self.factor.subdiagonals {
            0 | 1 => self.upper_triangle_of::<1>(),
            2 => self.upper_triangle_of::<2>(),
            _ => self.upper_triangle_of::<3>(),
        }
    }

    fn diagonal_of<const P: usize>(&self) -> Vec<f64> {
        let partial: Vec<Vec<f64>> = self
            .rule
            .groups()
            .into_par_iter()
            .map(|(shifts, weights)| {
                let factor = self.factorize::<P>(shifts);
                let mut sums = vec![0.0; self.factor.size];
                factor.inverse_band(|column, diagonal, _| {
                    sums[column] = (diagonal * weights).0.iter().sum();
                });
                sums
            })
            .collect();
        sum_in_order(self.factor.size, &partial)
    }

    fn factorize<const P: usize>(&self, shifts: Lanes) -> ShiftedFactor<P> {
        let size = self.factor.size;
        let width = self.factor.subdiagonals + 1;
        let mut ratios = Vec::with_capacity(size);
        let mut inverse_pivots = Vec::with_capacity(size);
        // What earlier columns leave to rows j … j + P − 1: Σ_c d_c ℓ_c ℓ_cᵀ, ℓ unit lower triangular.
        let mut d = [Lanes::ZERO; P];
        let mut ell = [[Lanes::ZERO; P]; P];
        for column in 0..size {
            let entries = self.factor.column(column);
            let pivot_entry = Lanes::splat(entries[0]);
            let below: [Lanes; P] =
                std::array::from_fn(|r| Lanes::splat(if r + 1 < width { entries[r + 1] } else { 0.0 }));
            let shift = shifts * Lanes::splat(self.weights[column]);
            let rest = shift + d[0];
            let pivot = pivot_entry.multiply_add(pivot_entry, rest);
            let inverse_pivot = Lanes::splat(1.0) / pivot;
            let carried: [Lanes; P] =
                std::array::from_fn(|r| if r + 1 < P { d[0] * ell[0][r + 1] } else { Lanes::ZERO });
            ratios.push(std::array::from_fn(|r| pivot_entry.multiply_add(below[r], carried[r]) * inverse_pivot));
            inverse_pivots.push(inverse_pivot);
            // W_j W_jᵀ + s²v e eᵀ + carry − L_j L_jᵀ = (carry without its first term)
            //   + (d_0 s²v / rest) ℓ_0 ℓ_0ᵀ + u uᵀ/(rest·pivot),  u = rest·w − a·g   (Lagrange's identity).
            let inverse_rest = Lanes::splat(1.0) / rest;
            let mut first: [Lanes; P] = std::array::from_fn(|r| if r + 1 < P { ell[0][r + 1] } else { Lanes::ZERO });
            let first_weight = d[0] * shift * inverse_rest;
            let mut second: [Lanes; P] = std::array::from_fn(|r| rest * below[r] - pivot_entry * carried[r]);
            for c in 0..P {
                for r in c + 1..P {
                    ell[c][r] = if c + 1 < P && r + 1 < P { ell[c + 1][r + 1] } else { Lanes::ZERO };
                }
                d[c] = if c + 1 < P { d[c + 1] } else { Lanes::ZERO };
            }
            if P > 1 {
                add_rank_one(&mut d, &mut ell, &mut first, first_weight);
            }
            add_rank_one(&mut d, &mut ell, &mut second, inverse_rest * inverse_pivot);
        }
        ShiftedFactor { ratios, inverse_pivots }
    }

    fn upper_triangle_of<const P: usize>(&self) -> Mat<f64> {
        const BLOCK: usize = 64;
        let size = self.factor.size;
        let groups: Vec<(Lanes, ShiftedFactor<P>, InverseBand<P>)> = self
            .rule
            .groups()
            .into_par_iter()
            .map(|(shifts, weights)| {
                let factor = self.factorize::<P>(shifts);
                let mut band = InverseBand { diagonal: vec![Lanes::ZERO; size], below: vec![[Lanes::ZERO; P]; size] };
                factor.inverse_band(|column, diagonal, below| {
                    band.diagonal[column] = diagonal;
                    band.below[column] = *below;
                });
                (weights, factor, band)
            })
            .collect();
        let mut matrix = vec![0.0; size * size];
        // A block of columns k of the upper triangle at a time: entry (j, k), j < k − P, follows from the P entries
        // below it in the same column of the symmetric inverse, so the columns of a block run side by side.
        matrix.par_chunks_mut(BLOCK * size).enumerate().for_each(|(block, columns)| {
            let first = block * BLOCK;
            let count = columns.len() / size;
            let end = first + count;
            let mut sums = vec![[0.0; BLOCK]; end];
            for (weights, factor, band) in &groups {
                for lane in 0..LANES {
                    let weight = weights.0[lane];
                    let mut window = [[0.0; BLOCK]; P];
                    for j in (0..end).rev() {
                        let ratios: [f64; P] = std::array::from_fn(|r| factor.ratios[j][r].0[lane]);
                        let mut values = [0.0; BLOCK];
                        for (ratio, row) in ratios.iter().zip(&window) {
                            for (value, entry) in values.iter_mut().zip(row) {
                                *value = (-ratio).mul_add(*entry, *value);
                            }
                        }
                        for k in first.max(j)..end.min(j + P + 1) {
                            values[k - first] =
                                if k == j { band.diagonal[j].0[lane] } else { band.below[j][k - j - 1].0[lane] };
                        }
                        let start = j.saturating_sub(first);
                        for (sum, value) in sums[j][start..].iter_mut().zip(&values[start..]) {
                            *sum = weight.mul_add(*value, *sum);
                        }
                        for r in (1..P).rev() {
                            window[r] = window[r - 1];
                        }
                        window[0] = values;
                    }
                }
            }
            for (offset, column) in columns.chunks_exact_mut(size).enumerate() {
                for (j, entry) in column[..=first + offset].iter_mut().enumerate() {
                    *entry = sums[j][offset];
                }
            }
        });
        rounds_numerics::MatRef::from_column_major_slice(&matrix, size, size).to_owned()
    }
}

impl<const P: usize> ShiftedFactor<P> {
    /// Visits (column, diagonal entry, P entries below it) of (L·Lᵀ)⁻¹ from the last column to the first:
    /// Z_kj = −Σ_q ratio_q Z_{k, j+1+q} and Z_jj = 1/L_jj² − Σ_q ratio_q Z_{j+1+q, j}   [Takahashi].
    #[inline(always)]
    fn inverse_band(&self, mut visit: impl FnMut(usize, Lanes, &[Lanes; P])) {
        // window[r][c] = Z_{j+1+r, j+1+c}.
        let mut window = [[Lanes::ZERO; P]; P];
        for column in (0..self.ratios.len()).rev() {
            let ratios = &self.ratios[column];
            let mut below = [Lanes::ZERO; P];
            for r in 0..P {
                for q in 0..P {
                    below[r] = below[r] - ratios[q] * window[r][q];
                }
            }
            let mut diagonal = self.inverse_pivots[column];
            for q in 0..P {
                diagonal = diagonal - ratios[q] * below[q];
            }
            visit(column, diagonal, &below);
            for r in (1..P).rev() {
                for c in (1..P).rev() {
                    window[r][c] = window[r - 1][c - 1];
                }
            }
            window[0][0] = diagonal;
            for r in 1..P {
                window[r][0] = below[r - 1];
                window[0][r] = below[r - 1];
            }
        }
    }
}

/// Σ d ℓℓᵀ ← Σ d ℓℓᵀ + weight·z·zᵀ, weight ≥ 0 (Gill, Golub, Murray & Saunders 1974, method C1: no cancellation).
#[inline(always)]
fn add_rank_one<const P: usize>(d: &mut [Lanes; P], ell: &mut [[Lanes; P]; P], z: &mut [Lanes; P], mut weight: Lanes) {
    for c in 0..P {
        let lead = z[c];
        let updated = (weight * lead).multiply_add(lead, d[c]);
        let gain = (weight * lead).divide_or_zero(updated);
        // Where nothing is added to an empty pivot the weight passes on unchanged.
        let share = d[c].map2(updated, |old, new| if new > 0.0 { old / new } else { 1.0 });
        weight = weight * share;
        d[c] = updated;
        for r in c + 1..P {
            z[r] = z[r] - lead * ell[c][r];
            ell[c][r] = gain.multiply_add(z[r], ell[c][r]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Workload, WorkloadSpecification};
    use super::*;
    use rounds_numerics::dense;

    #[test]
    fn the_quadrature_gives_the_square_root_of_the_singular_value_decomposition() {
        let prefix = WorkloadSpecification::prefix;
        let rounds = 90;
        for specification in [
            prefix(),
            prefix().with_momentum(0.9),
            prefix().with_momentum(0.99).with_decay(0.5),
            prefix().with_lambda_tau(Some(7)),
        ] {
            let workload = Workload::new(rounds, specification.clone()).unwrap();
            let factor = workload.inverse();
            let weights: Vec<f64> = (0..rounds).map(|t| 0.2 + ((t * 13) % 17) as f64).collect();
            let mut product = workload.matrix();
            for column in 0..rounds {
                dense::scale_column(&mut product, column, weights[column].sqrt());
            }
            let (singular, right) = dense::singular_vectors(product.as_ref()).unwrap();
            let scaled = BandedLower::from_fn(rounds, factor.subdiagonals, |row, column| {
                factor.get(row, column) / weights[row].sqrt()
            });
            let rule = InverseSquareRoot::on(0.9 / singular[0].powi(2), scaled.squared_norm_bound());
            let shifted = ShiftedInverse { factor, weights: &weights, rule: &rule };
            let (diagonal, triangle) = (shifted.diagonal(), shifted.upper_triangle());
            let scale = singular[0] / weights.iter().fold(f64::INFINITY, |least, &weight| least.min(weight));
            for column in 0..rounds {
                for row in 0..=column {
                    let expected: f64 =
                        (0..rounds).map(|k| right[(row, k)] * singular[k] * right[(column, k)]).sum::<f64>()
                            / (weights[row] * weights[column]).sqrt();
                    let close = (triangle[(row, column)] - expected).abs() < 1e-12 * scale;
                    assert!(close, "{specification:?} ({row}, {column})");
                }
                assert!((diagonal[column] - triangle[(column, column)]).abs() < 1e-12 * scale);
            }
            let nuclear = crate::vectors::dot(&weights, &diagonal);
            let expected: f64 = singular.iter().sum();
            let close = (nuclear - expected).abs() < 1e-12 * expected;
            assert!(close, "{specification:?}: {nuclear} {expected}");
        }
    }
}

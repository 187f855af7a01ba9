//! Norms rounded up, clip factors rounded down, and what rounding leaves of a sensitivity.

use super::model::{Batch, Clip, NonFiniteGradient, RowNorms};
use crate::features::BLOCK_ROWS;
use crate::features::{Norm, Rows};
use crate::vector::truncate;
use wide::f32x16;

/// The smallest clip norm the kernels accept, 2⁻⁶⁴: below it, products of f32 could underflow by more than the
/// guarantees of clipping allow for.
pub const MINIMUM_CLIP_NORM: f32 = 1.0 / 18_446_744_073_709_551_616.0;

/// The largest clip norm the kernels accept, 2⁶⁴.
pub const MAXIMUM_CLIP_NORM: f32 = 18_446_744_073_709_551_616.0;

/// 2⁵⁰: lengths and norms below it are clipped in f32, longer ones in f64.
const FAST_LIMIT: f32 = 1_125_899_906_842_624.0;

/// Turns lengths of gradients into clip factors that are rounded down.
///
/// # Guarantee
/// Let r be a row's residuals, N ≥ ‖a‖ its norm, K the outputs and q the coefficients the kernels multiply features
/// with, scale included. Then `‖q ⊗ a‖ ≤ C` in real arithmetic, because with u = 2⁻²⁴
///
/// - the computed length L̂ of r is at least ‖r‖·(1+u)^{−K−2}: K additions, one for the underflow term, a square root;
///   squares that underflow lose at most 2⁻¹⁵⁰ each, and `underflow` = K·2⁻¹²⁶ is added;
/// - the tested length is L̂·N·inflation with two more roundings, and inflation = 1 + (2K + 64)·u ≥ (1+u)^{K+12};
/// - an unclipped row has q = r·scale with at most two roundings, a clipped one a division and at most three more.
///
/// So every product of roundings, at most (1+u)^{K+10}, is below the inflation. A zero gradient has factor 1. Lengths
/// or norms that are not below 2⁵⁰, where f32 could overflow (and NaN), take [`clip_exactly`], which computes in f64
/// and truncates towards zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClipRule {
    pub(super) norm: Norm,
    /// K·2⁻¹²⁶, to be added to a sum of squares.
    pub(super) underflow: f32,
    clip_norm: f32,
    inflation: f32,
}

impl ClipRule {
    pub(super) fn new(norm: Norm, clip_norm: f32, outputs: usize) -> Self {
        let inflation = 1.0 + (2.0 * outputs as f64 + 64.0) / 16_777_216.0;
        ClipRule {
            norm,
            underflow: outputs as f32 * f32::MIN_POSITIVE,
            clip_norm,
            inflation: (inflation as f32).next_up(),
        }
    }

    /// True if all sixteen rows are surely short enough to be left as they are: the test of [`Self::factors`] alone, which
    /// spares its division.
    #[inline(always)]
    pub(super) fn keeps(&self, lengths: f32x16, norms: f32x16) -> bool {
        let length = lengths * norms * f32x16::splat(self.inflation);
        let limit = f32x16::splat(FAST_LIMIT);
        let kept = length.simd_le(f32x16::splat(self.clip_norm)) & length.simd_lt(limit) & norms.simd_lt(limit);
        kept.all()
    }

    /// Factors of sixteen rows with residuals of the given lengths; bit masks of the rows that are clipped and of those
    /// whose factor is valid.
    #[inline(always)]
    pub(super) fn factors(&self, lengths: f32x16, norms: f32x16) -> (f32x16, u32, u32) {
        let length = lengths * norms * f32x16::splat(self.inflation);
        let limit = f32x16::splat(FAST_LIMIT);
        let safe = length.simd_lt(limit) & norms.simd_lt(limit);
        let clip_norm = f32x16::splat(self.clip_norm);
        let clipped = length.simd_gt(clip_norm);
        let factor = clipped.select(clip_norm / length, f32x16::ONE);
        (factor, clipped.to_bitmask(), safe.to_bitmask())
    }
}

/// Clips one row in f64: `residuals[k·128]` become coefficients, rounded towards zero. Whether it was longer than the
/// clip norm, or `None` when something is not finite.
#[cold]
pub(super) fn clip_exactly(rule: &ClipRule, norm: f32, outputs: usize, residuals: &mut [f32]) -> Option<bool> {
    let values = || (0..outputs).map(|output| f64::from(residuals[output * BLOCK_ROWS]));
    let length = match rule.norm {
        Norm::L1 => values().map(f64::abs).sum::<f64>(),
        Norm::L2 => values().map(|r| r * r).sum::<f64>().sqrt(),
    };
    let length = length * f64::from(norm) * (1.0 + 1e-9);
    if !length.is_finite() {
        return None;
    }
    let clip_norm = f64::from(rule.clip_norm);
    let clipped = length > clip_norm;
    let factor = if clipped { clip_norm / length * (1.0 - 1e-9) } else { 1.0 };
    for output in 0..outputs {
        let residual = &mut residuals[output * BLOCK_ROWS];
        *residual = truncate(f64::from(*residual) * factor);
    }
    Some(clipped)
}

/// The norms that clipping needs, checked.
pub(super) fn norms_for<'a>(clip: Clip, batch: &Batch<'a>) -> Option<&'a [f32]> {
    let Clip::Bounded { norm, clip_norm } = clip else {
        return None;
    };
    assert!(
        (MINIMUM_CLIP_NORM..=MAXIMUM_CLIP_NORM).contains(&clip_norm),
        "clip norm {clip_norm}, expected one in [2^-64, 2^64]"
    );
    let norms = batch.norms.expect("a bounded clip needs the norms of the rows (linear::row_norms)");
    assert_eq!(norms.norm, norm, "norms of the rows (left) and of the clip (right)");
    assert_eq!(norms.values.len(), batch.rows.len(), "norms (left) and rows (right)");
    Some(&norms.values)
}

/// The smallest f32 that is not below `value`.
fn round_up(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) >= value { nearest } else { nearest.next_up() }
}

/// `‖a_i‖` of all rows (bias included), rounded up to f32; a non-finite feature is an error that names its row.
///
/// Bytes are summed in integers, f32 in f64 (squares exact, sums relative 2⁻⁵³ a term); what that can lose is added
/// before rounding up, so the value is never below the norm. It is above by at most 2⁻²³ and d·2⁻⁵² relative.
///
/// # Errors
/// A row with a NaN or infinite feature, or whose norm exceeds f32.
///
/// # Panics
/// Sparse rows whose indices do not ascend strictly: an index stored twice would make the norm wrong.
pub fn row_norms(rows: Rows<'_>, bias: bool, norm: Norm) -> Result<RowNorms, NonFiniteGradient> {
    let slack = 1.0 + (rows.columns() + 8) as f64 * f64::EPSILON;
    let constant = f64::from(u8::from(bias));
    let finish = |row: usize, sum: f64| {
        let sum = (sum + constant) * slack;
        let value = round_up(match norm {
            Norm::L1 => sum,
            Norm::L2 => sum.sqrt() * (1.0 + f64::EPSILON),
        });
        if value.is_finite() { Ok(value) } else { Err(NonFiniteGradient { row }) }
    };
    let values = match rows {
        Rows::F32(dense) => {
            (0..rows.len()).map(|row| finish(row, sum_of_powers(dense.row(row), norm))).collect::<Result<_, _>>()?
        }
        Rows::U8(bytes) => {
            let scale = f64::from(bytes.scale);
            (0..rows.len())
                .map(|row| {
                    let values = bytes.row(row);
                    finish(
                        row,
                        match norm {
                            Norm::L1 => values.iter().map(|&v| u64::from(v)).sum::<u64>() as f64 * scale.abs(),
                            Norm::L2 => sum_of_squared_bytes(values) as f64 * (scale * scale),
                        },
                    )
                })
                .collect::<Result<_, _>>()?
        }
        Rows::Sparse(sparse) => (0..rows.len())
            .map(|row| {
                let (indices, values) = sparse.row(row);
                assert!(
                    indices.is_sorted_by(|a, b| a < b),
                    "indices of a row must ascend strictly, or a feature stored twice escapes the norm"
                );
                finish(row, sum_of_powers(values, norm))
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(RowNorms { norm, values })
}

/// `Σ|v|` or `Σv²` in f64, eight partial sums.
fn sum_of_powers(values: &[f32], norm: Norm) -> f64 {
    let mut sums = [0.0; 8];
    let (whole, rest) = values.as_chunks::<8>();
    let power = |v: f32| match norm {
        Norm::L1 => f64::from(v).abs(),
        Norm::L2 => f64::from(v) * f64::from(v),
    };
    for chunk in whole {
        for (sum, &v) in sums.iter_mut().zip(chunk) {
            *sum += power(v);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&v| power(v)).sum::<f64>()
}

fn sum_of_squared_bytes(values: &[u8]) -> u64 {
    // 65,536 squares of bytes stay below 2³².
    values.chunks(65_536).map(|chunk| u64::from(chunk.iter().map(|&v| u32::from(v) * u32::from(v)).sum::<u32>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_are_rounded_up() {
        for value in [1.0 / 3.0, -1.0 / 3.0, 1e-46, -1e-46, 1e-40, 0.0, 16_777_217.0, -16_777_219.0, 0.1] {
            assert!(f64::from(round_up(value)) >= value, "{value}");
        }
    }
}

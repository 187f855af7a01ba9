//! Norms rounded up, clip factors rounded down, and what rounding leaves of a sensitivity.

use super::{BLOCK_ROWS, NonFiniteGradient, RowNorms};
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

/// `C·(1 + 2m²·2⁻²⁴)`: how far the *computed* f32 sum of a block of at most m = `block_rows` rows moves when one of its
/// rows is replaced by zeros (adjacency zero-out), every contribution having norm at most C = `clip_norm`.
///
/// Derivation, u = 2⁻²⁴. Each coordinate of the block's sum is a chain of at most m fused multiply-adds (or a tree of
/// chains, which is shallower), so the i-th contribution passes at most m roundings, and the computed sum differs from
/// the exact one by at most `Σ_i ((1+u)^m − 1)·|q_i a_i|` coordinate by coordinate. In the clip's norm, by the triangle
/// inequality and `‖q_i ⊗ a_i‖ ≤ C`, this is at most `m·((1+u)^m − 1)·C`; in a chain the i-th contribution passes only
/// m − i + 1 roundings, which makes it `½m(m+1)·u·C` up to a factor 1 + mu. Both neighbours round, the exact sums differ
/// by at most C: together at most `C + m(m+1)(1+mu)·u·C ≤ C·(1 + 2m²u)`. What is left, about `m²u·C`, covers underflow
/// (at most 2⁻¹⁵⁰ an operation, far below u·[`MINIMUM_CLIP_NORM`]). The f64 additions across blocks are [`Additions`].
///
/// It covers one block because zeroing a row leaves all other blocks bit for bit as they were. (With one output and 16 to 64
/// features this needs lengths and norms below 2⁵⁰: the rows behind a longer one go to kernels that round otherwise.)
/// If adding or removing a row moves other rows to other blocks, use [`computed_sensitivity_of_shifted_blocks`].
pub fn computed_sensitivity(clip_norm: f64, block_rows: usize) -> f64 {
    computed_sensitivity_of_shifted_blocks(clip_norm, block_rows, 1)
}

/// `C·(1 + 2b·m²·2⁻²⁴)`: as [`computed_sensitivity`], when b = `blocks` blocks of at most m = `block_rows` rows may
/// differ between neighbours, as they do when a row more or less (add/remove with Poisson sampling) shifts the rows
/// after it: b is then the number of blocks of the batch.
pub fn computed_sensitivity_of_shifted_blocks(clip_norm: f64, block_rows: usize, blocks: usize) -> f64 {
    let rows = block_rows as f64;
    clip_norm * (1.0 + 2.0 * blocks as f64 * rows * rows / 16_777_216.0)
}

/// The f64 additions between the contributions of a batch and its sum: blocks one after the other within a leaf, leaves
/// along a complete binary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Additions {
    /// Rows of the batch at most: n.
    pub rows: usize,
    /// Rows of a leaf at most: R.
    pub rows_of_leaf: usize,
    /// Levels of the tree above the leaves at most: d.
    pub levels: u32,
    /// True if the neighbour has its other rows at other places, in other leaves: add/remove, where a row more or less
    /// shifts the rows behind it, and random batches, which are compared with and without the row. In a fixed order a row that
    /// is zeroed or replaced leaves the others where they are.
    pub rows_move: bool,
}

impl Additions {
    /// The distance by which rounding of these additions moves a sum between neighbours, in units of the clip norm C:
    ///
    /// ```text
    /// 2⁻⁵²·(R(R+1) + 8n)        where the other rows stay
    /// 2⁻⁵²·n·(R + 1 + 2d)       where they move
    /// ```
    ///
    /// Derivation, v = 2⁻⁵³. An addition with the computed result s is off by at most v·|s| in every coordinate, so by
    /// v·‖s‖ in any absolute norm, and a partial sum of j rows is at most j·C(1+η) long. The additions of a leaf of R rows
    /// have results of at most 1, 2, …, R rows: together they are off by at most `½R(R+1)·vC(1+η)`. A result on level l of
    /// the tree sums at most 2^l·R rows.
    ///
    /// *Rows stay.* All leaves but that of the row have the same bits. In each of the two neighbours its leaf is off by
    /// `½R(R+1)·vC(1+η)` and the d results above it by `Σ_l 2^l·R·vC(1+η) ≤ 2·2^d·R·vC(1+η) ≤ 4n·vC(1+η)`, since
    /// leaves differ by at most one row and there are no more of them than rows. Twice their sum is
    /// `(R(R+1) + 8n)·vC(1+η)`.
    ///
    /// *Rows move.* Every leaf may differ. With Σr = n over the leaves, these are off by `Σ½r(r+1) ≤ ½n(R+1)` and every
    /// level by n, in units of vC(1+η): twice their sum is `n(R + 1 + 2d)·vC(1+η)`.
    ///
    /// η, from the contributions' own rounding ([`computed_sensitivity`]) and that of the additions, is below 1 as long as
    /// R < 2⁵⁰; 1 + η ≤ 2 makes v into 2⁻⁵².
    pub fn inflation(&self) -> f64 {
        let (rows, leaf) = (self.rows as f64, self.rows_of_leaf as f64);
        let units = if self.rows_move {
            rows * (leaf + 1.0 + 2.0 * f64::from(self.levels))
        } else {
            leaf * (leaf + 1.0) + 8.0 * rows
        };
        units * f64::EPSILON
    }
}

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
    let factor = if clipped {
        clip_norm / length * (1.0 - 1e-9)
    } else {
        1.0
    };
    for output in 0..outputs {
        let residual = &mut residuals[output * BLOCK_ROWS];
        *residual = truncate(f64::from(*residual) * factor);
    }
    Some(clipped)
}

/// The smallest f32 that is not below `value`.
fn round_up(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) >= value {
        nearest
    } else {
        nearest.next_up()
    }
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
        if value.is_finite() {
            Ok(value)
        } else {
            Err(NonFiniteGradient { row })
        }
    };
    let values = match rows {
        Rows::F32(dense) => (0..rows.len())
            .map(|row| {
                finish(
                    row,
                    sum_of_powers(&dense.values[row * dense.columns..][..dense.columns], norm),
                )
            })
            .collect::<Result<_, _>>()?,
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
                let entries = sparse.offsets[row]..sparse.offsets[row + 1];
                let indices = &sparse.indices[entries.clone()];
                assert!(
                    indices.is_sorted_by(|a, b| a < b),
                    "row {row}: indices must ascend strictly, or a feature stored twice escapes the norm"
                );
                finish(row, sum_of_powers(&sparse.values[entries], norm))
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
    values
        .chunks(65_536)
        .map(|chunk| u64::from(chunk.iter().map(|&v| u32::from(v) * u32::from(v)).sum::<u32>()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_never_lengthens() {
        for value in [
            1.0 / 3.0,
            -1.0 / 3.0,
            1e-46,
            -1e-46,
            1e-40,
            0.0,
            16_777_217.0,
            -16_777_219.0,
            0.1,
        ] {
            assert!(f64::from(truncate(value)).abs() <= f64::abs(value), "{value}");
            assert!(f64::from(round_up(value)) >= value, "{value}");
        }
    }

    #[test]
    fn computed_sensitivity_is_the_formula_of_the_design() {
        assert_eq!(computed_sensitivity(1.0, 128), 1.0 + 2.0 * 128.0 * 128.0 / 16_777_216.0);
        assert_eq!(computed_sensitivity(3.0, 0), 3.0);
    }

    #[test]
    fn long_sums_of_doubles_move_further_than_their_blocks_and_less_than_their_additions_allow() {
        // 2¹⁶ rows of C = 1 bring the sum to a power of two, where f64 becomes coarser; as many rows of a little more than
        // half the coarse spacing are rounded up there. Without one of the long rows the sum stays on the fine side and
        // hardly rounds.
        let half = 1_u32 << 16;
        let short = (0.5 * f64::from(half) * f64::EPSILON * (1.0 + 1e-6)) as f32;
        let sum = |long: u32| {
            let rows = (0..long).map(|_| 1.0_f32).chain((0..half).map(|_| short));
            rows.fold(0.0_f64, |sum, row| sum + f64::from(row))
        };
        let moved = sum(half) - sum(half - 1);
        let additions = Additions {
            rows: 2 * half as usize,
            rows_of_leaf: 2 * half as usize,
            levels: 0,
            rows_move: false,
        };
        let moving = Additions {
            rows_move: true,
            ..additions
        };
        assert!(moved > computed_sensitivity(1.0, 1), "{moved}");
        for additions in [additions, moving] {
            let allowed = computed_sensitivity(1.0, 1) + additions.inflation();
            assert!(moved <= allowed, "{moved} > {allowed}");
        }
        // What a batch of ordinary size adds is far below the rounding of its contributions.
        let ordinary = Additions {
            rows: 60_000,
            rows_of_leaf: 1_875,
            levels: 5,
            rows_move: false,
        };
        assert!(ordinary.inflation() < 0.01 * (computed_sensitivity(1.0, 1) - 1.0));
    }
}

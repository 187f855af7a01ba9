//! From margins to coefficients: residuals, their norms and clip factors, sixteen rows side by side.
//!
//! Margins and coefficients are stored output by output, 128 rows each: `[k·128 + i]`.

use super::clipping::{ClipRule, clip_exactly};
use super::model::{Clip, Evaluation, NonFiniteGradient, Tally};
use crate::features::BLOCK_ROWS;
use crate::features::{NULL_CLASS, Norm, Selection, Targets};
use crate::loss::{Loss, MarginLoss, TargetKind, softmax, with_margin_loss};
use crate::vector::lanes::{LANES, prefetch, put, vector};
use std::ops::Range;
use wide::f32x16;

/// The rows of a block without their features, in block order.
#[derive(Debug)]
pub(super) struct BlockRows {
    /// Row of the matrix.
    pub(super) ids: [usize; BLOCK_ROWS],
    /// Null rows: bit i is row i of the block.
    nulls: u128,
    /// Class, for softmax; 0 for null rows.
    pub(super) classes: [u32; BLOCK_ROWS],
    /// Real target, for the other losses; 0 for null rows and beyond the block's rows.
    pub(super) values: [f32; BLOCK_ROWS],
    /// Upper bound of the row's norm, bias included; 0 beyond the block's rows.
    pub(super) norms: [f32; BLOCK_ROWS],
    /// Weight of a recorded query; 0 beyond the block's rows.
    pub(super) weights: [f32; BLOCK_ROWS],
}

impl BlockRows {
    pub(super) fn new() -> Self {
        BlockRows {
            ids: [0; BLOCK_ROWS],
            nulls: 0,
            classes: [0; BLOCK_ROWS],
            values: [0.0; BLOCK_ROWS],
            norms: [0.0; BLOCK_ROWS],
            weights: [0.0; BLOCK_ROWS],
        }
    }

    /// Prefetches what [`Self::gather`] will read of scattered rows.
    pub(super) fn prefetch(
        selection: &Selection<'_>,
        positions: Range<usize>,
        targets: Targets<'_>,
        norms: Option<&[f32]>,
    ) {
        let Selection::Indices(rows) = selection else {
            return;
        };
        // Both kinds of targets have four bytes.
        let targets: *const u32 = match targets {
            Targets::Classes(classes) => classes.as_ptr(),
            Targets::Values(values) => values.as_ptr().cast(),
        };
        for &row in &rows[positions] {
            prefetch(targets.wrapping_add(row as usize).cast());
            if let Some(norms) = norms {
                prefetch(norms.as_ptr().wrapping_add(row as usize).cast());
            }
        }
    }

    /// Gathers the rows at `positions` of a selection.
    pub(super) fn gather(
        &mut self,
        selection: &Selection<'_>,
        positions: Range<usize>,
        targets: Option<Targets<'_>>,
        norms: Option<&[f32]>,
        outputs: usize,
    ) {
        let rows = positions.len();
        for (id, position) in self.ids.iter_mut().zip(positions) {
            *id = selection.row(position);
        }
        if let Some(targets) = targets {
            self.gather_targets(rows, targets, outputs);
        }
        if let Some(norms) = norms {
            for (norm, &id) in self.norms.iter_mut().zip(&self.ids[..rows]) {
                *norm = norms[id];
            }
            self.norms[rows..].fill(0.0);
        }
    }

    /// Targets of the first `rows` of `ids`.
    fn gather_targets(&mut self, rows: usize, targets: Targets<'_>, outputs: usize) {
        let ids = &self.ids[..rows];
        self.nulls = 0;
        match targets {
            Targets::Classes(classes) => {
                let mut greatest = 0;
                for (class, &id) in self.classes.iter_mut().zip(ids) {
                    *class = classes[id];
                    greatest = greatest.max(*class);
                }
                if greatest == NULL_CLASS {
                    self.set_nulls(rows, targets);
                    greatest = self.classes[..rows].iter().copied().fold(0, u32::max);
                }
                assert!((greatest as usize) < outputs, "a class beyond the model's {outputs} outputs");
            }
            Targets::Values(values) => {
                let mut any_null = false;
                for (value, &id) in self.values.iter_mut().zip(ids) {
                    *value = values[id];
                    any_null |= value.is_nan();
                }
                if any_null {
                    self.set_nulls(rows, targets);
                }
                self.values[rows..].fill(0.0);
            }
        }
    }

    /// Marks the null rows among the first `rows` of `ids`, with targets of 0 in place of theirs.
    #[cold]
    fn set_nulls(&mut self, rows: usize, targets: Targets<'_>) {
        for (row, &id) in self.ids[..rows].iter().enumerate() {
            if targets.is_null(id) {
                self.nulls |= 1 << row;
                (self.classes[row], self.values[row]) = (0, 0.0);
            }
        }
    }

    /// Zeros in the places of null rows.
    fn clear_nulls(&self, values: &mut [f32], outputs: usize) {
        let mut left = self.nulls;
        while left != 0 {
            let row = left.trailing_zeros() as usize;
            for output in 0..outputs {
                values[output * BLOCK_ROWS + row] = 0.0;
            }
            left &= left - 1;
        }
    }
}

/// The first of the block's rows with a NaN or infinite value among `values` (`outputs` a row), if any.
fn first_non_finite(values: &[f32], outputs: usize, rows: usize) -> Option<usize> {
    (0..rows).find(|row| (0..outputs).any(|output| !values[output * BLOCK_ROWS + row].is_finite()))
}

/// Zeros beyond the block's rows up to whole vectors, so that stale lanes neither fail nor count.
pub(super) fn clear_beyond(values: &mut [f32], outputs: usize, rows: usize) {
    let end = rows.next_multiple_of(LANES);
    for output in values.chunks_exact_mut(BLOCK_ROWS).take(outputs) {
        output[rows..end].fill(0.0);
    }
}

/// An error that names the first row with a NaN or infinite margin or real target.
fn check_finite(
    loss: Loss,
    outputs: usize,
    rows: usize,
    block_rows: &BlockRows,
    margins: &[f32],
) -> Result<(), NonFiniteGradient> {
    let mut poison = f32x16::ZERO;
    for output in margins.chunks_exact(BLOCK_ROWS).take(outputs) {
        for start in (0..rows).step_by(LANES) {
            poison = vector(output, start).mul_add(f32x16::ZERO, poison);
        }
    }
    if loss.targets() != TargetKind::Classes {
        for start in (0..rows).step_by(LANES) {
            poison = vector(&block_rows.values, start).mul_add(f32x16::ZERO, poison);
        }
    }
    if !poison.simd_eq(f32x16::ZERO).all() {
        let found =
            first_non_finite(margins, outputs, rows).into_iter().chain(first_non_finite(&block_rows.values, 1, rows));
        return Err(NonFiniteGradient { row: block_rows.ids[found.min().unwrap_or(0)] });
    }
    Ok(())
}

/// `margins ← ∂φ/∂u` at the margins of the first `rows` rows, 0 for null rows.
///
/// # Errors
/// A margin or a real target that is NaN or infinite, but for those of null rows. Every NaN or infinite feature makes a
/// margin so.
pub(super) fn residuals(
    loss: Loss,
    outputs: usize,
    rows: usize,
    block_rows: &BlockRows,
    margins: &mut [f32],
) -> Result<(), NonFiniteGradient> {
    clear_beyond(margins, outputs, rows);
    block_rows.clear_nulls(margins, outputs);
    check_finite(loss, outputs, rows, block_rows, margins)?;
    with_margin_loss!(
        loss,
        loss => {
            for start in (0..rows).step_by(LANES) {
                put(margins, start, loss.residual_lanes(vector(margins, start), vector(&block_rows.values, start)));
            }
        },
        softmax => softmax::block_residuals(outputs, &block_rows.classes[..rows], margins),
    );
    block_rows.clear_nulls(margins, outputs);
    Ok(())
}

/// `margins ← a·∂φ/∂u − b·∂φ/∂u′` at the margins u of the first `rows` rows and the `others` u′, or without b `a·∂φ/∂u`.
///
/// # Errors
/// As [`residuals`].
pub(super) fn combined(
    (a, b): (f32, Option<f32>),
    (loss, outputs): (Loss, usize),
    rows: usize,
    block_rows: &BlockRows,
    margins: &mut [f32],
    others: &mut [f32],
) -> Result<(), NonFiniteGradient> {
    residuals(loss, outputs, rows, block_rows, margins)?;
    if let Some(b) = b {
        residuals(loss, outputs, rows, block_rows, others)?;
        combine(a, margins, b, others, outputs, rows);
    } else {
        scale(a, margins, outputs, rows);
    }
    Ok(())
}

/// `residuals ← a·residuals − b·others` on the first `rows` rows.
fn combine(a: f32, residuals: &mut [f32], b: f32, others: &[f32], outputs: usize, rows: usize) {
    for output in 0..outputs {
        for start in (0..rows).step_by(LANES) {
            let place = output * BLOCK_ROWS + start;
            let difference = vector(others, place).mul_neg_add(f32x16::splat(b), vector(residuals, place) * a);
            put(residuals, place, difference);
        }
    }
}

/// `residuals ← a·residuals` on the first `rows` rows.
pub(super) fn scale(a: f32, residuals: &mut [f32], outputs: usize, rows: usize) {
    if a != 1.0 {
        for output in 0..outputs {
            for start in (0..rows).step_by(LANES) {
                let place = output * BLOCK_ROWS + start;
                put(residuals, place, vector(residuals, place) * a);
            }
        }
    }
}

/// `residuals ← clip factor · residuals`: the coefficients of the block's rows.
///
/// # Errors
/// A residual or norm that is NaN or infinite.
pub(super) fn clip(
    clip: Clip,
    outputs: usize,
    rows: usize,
    block_rows: &BlockRows,
    residuals: &mut [f32],
    tally: &mut Tally,
) -> Result<(), NonFiniteGradient> {
    tally.rows += rows;
    let rule = match clip {
        Clip::Unbounded => None,
        Clip::Bounded { norm, clip_norm } => Some(ClipRule::new(norm, clip_norm, outputs)),
    };
    let mut poison = f32x16::ZERO;
    for start in (0..rows).step_by(LANES) {
        let mut factor = f32x16::ONE;
        if let Some(rule) = &rule {
            let mut length = f32x16::ZERO;
            if outputs == 1 {
                length = vector(residuals, start).abs();
            } else if rule.norm == Norm::L1 {
                for output in 0..outputs {
                    length += vector(residuals, output * BLOCK_ROWS + start).abs();
                }
            } else {
                for output in 0..outputs {
                    let r = vector(residuals, output * BLOCK_ROWS + start);
                    length = r.mul_add(r, length);
                }
                length = (length + rule.underflow).sqrt();
            }
            let norms = vector(&block_rows.norms, start);
            let (lanes, clipped, safe) = rule.factors(length, norms);
            factor = lanes;
            tally.clipped += clipped.count_ones() as usize;
            if safe != 0xffff {
                let end = (start + LANES).min(rows);
                for row in (start..end).filter(|row| safe >> (row - start) & 1 == 0) {
                    tally.clipped -= (clipped >> (row - start) & 1) as usize;
                    let was_clipped = clip_exactly(rule, block_rows.norms[row], outputs, &mut residuals[row..])
                        .ok_or(NonFiniteGradient { row: block_rows.ids[row] })?;
                    tally.clipped += usize::from(was_clipped);
                }
                let mut kept = factor.to_array();
                for (lane, factor) in kept.iter_mut().enumerate() {
                    if safe >> lane & 1 == 0 {
                        *factor = 1.0;
                    }
                }
                factor = f32x16::new(kept);
            }
        }
        for output in 0..outputs {
            let place = output * BLOCK_ROWS + start;
            let q = vector(residuals, place) * factor;
            poison = q.mul_add(f32x16::ZERO, poison);
            put(residuals, place, q);
        }
    }
    if !poison.simd_eq(f32x16::ZERO).all() {
        let row = first_non_finite(residuals, outputs, rows).unwrap_or(0);
        return Err(NonFiniteGradient { row: block_rows.ids[row] });
    }
    Ok(())
}

/// `Σ_i q_i` over the first `rows` coefficients, zeros behind them.
pub(super) fn total(coefficients: &[f32], rows: usize) -> f32 {
    let mut sum = f32x16::ZERO;
    for start in (0..rows).step_by(LANES) {
        sum += vector(coefficients, start);
    }
    sum.reduce_add()
}

/// Loss and accuracy of the first `rows` rows but the null ones.
///
/// # Errors
/// As [`residuals`].
pub(super) fn values(
    loss: Loss,
    outputs: usize,
    rows: usize,
    block_rows: &BlockRows,
    margins: &mut [f32],
) -> Result<Evaluation, NonFiniteGradient> {
    clear_beyond(margins, outputs, rows);
    block_rows.clear_nulls(margins, outputs);
    check_finite(loss, outputs, rows, block_rows, margins)?;
    let is_null = |row: usize| block_rows.nulls >> row & 1 == 1;
    let mut found = Evaluation { rows: rows - block_rows.nulls.count_ones() as usize, ..Evaluation::default() };
    (found.loss, found.correct) = with_margin_loss!(
        loss,
        loss => margin_values(loss, &margins[..rows], &block_rows.values, is_null),
        softmax => softmax::block_values(outputs, &block_rows.classes[..rows], is_null, margins),
    );
    Ok(found)
}

/// Σ loss and the number of signs predicted correctly; 0 of these for losses of reals.
fn margin_values<L: MarginLoss>(
    loss: L,
    margins: &[f32],
    targets: &[f32],
    is_null: impl Fn(usize) -> bool,
) -> (f64, usize) {
    let (mut sum, mut correct) = (0.0, 0);
    for (row, (&u, &y)) in margins.iter().zip(targets).enumerate() {
        if is_null(row) {
            continue;
        }
        sum += loss.value(f64::from(u), f64::from(y));
        correct += usize::from(L::TARGETS == TargetKind::Signs && (u >= 0.0) == (y >= 0.0));
    }
    (sum, correct)
}

//! Multinomial logistic loss `ln Σ_k e^{u_k} − u_y` (softmax cross-entropy), evaluated stably by subtracting the
//! greatest margin.
//!
//! Blocks of margins are stored output by output, [`BLOCK_ROWS`] rows each: `[k·128 + i]`.

use super::without_negligible;
use crate::features::{BLOCK_ROWS, Norm};
use crate::vector::exp;
use crate::vector::lanes::{LANES, put, vector};
use wide::f32x16;

pub(super) const NAME: &str = "softmax";

/// λ_max(diag(p) − ppᵀ) ≤ 1/2.
pub(super) const CURVATURE: f64 = 0.5;

/// sup ‖softmax(u) − e_y‖.
pub(super) fn lipschitz(norm: Norm) -> f64 {
    match norm {
        Norm::L1 => 2.0,
        Norm::L2 => std::f64::consts::SQRT_2,
    }
}

pub(super) fn value(margins: &[f64], class: usize) -> f64 {
    let max = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = margins.iter().map(|margin| (margin - max).exp()).sum();
    sum.ln() + max - margins[class]
}

/// `margins ← softmax(margins) − e_class`.
pub(super) fn residual(margins: &mut [f64], class: usize) {
    let max = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    margins.iter_mut().for_each(|margin| *margin = (*margin - max).exp());
    let sum: f64 = margins.iter().sum();
    margins.iter_mut().for_each(|margin| *margin /= sum);
    margins[class] -= 1.0;
}

/// The greatest margin of each of sixteen rows.
#[inline(always)]
fn greatest(outputs: usize, start: usize, margins: &[f32]) -> f32x16 {
    let mut greatest = vector(margins, start);
    for output in 1..outputs {
        greatest = greatest.fast_max(vector(margins, output * BLOCK_ROWS + start));
    }
    greatest
}

/// `margins ← softmax(margins) − e_class` on a block, row by row.
pub(crate) fn block_residuals(outputs: usize, classes: &[u32], margins: &mut [f32]) {
    for start in (0..classes.len()).step_by(LANES) {
        let greatest = greatest(outputs, start, margins);
        let mut sum = f32x16::ZERO;
        for output in 0..outputs {
            let place = output * BLOCK_ROWS + start;
            let term = exp(vector(margins, place) - greatest);
            sum += term;
            put(margins, place, term);
        }
        let share = f32x16::ONE / sum;
        for output in 0..outputs {
            let place = output * BLOCK_ROWS + start;
            put(margins, place, without_negligible(vector(margins, place) * share));
        }
    }
    for (row, &class) in classes.iter().enumerate() {
        margins[class as usize * BLOCK_ROWS + row] -= 1.0;
    }
}

/// Σ loss of a block and the number of rows predicted correctly: those whose class is the first of the greatest margins.
/// Rows for which `is_null` holds are left out.
pub(crate) fn block_values(
    outputs: usize,
    classes: &[u32],
    is_null: impl Fn(usize) -> bool,
    margins: &[f32],
) -> (f64, usize) {
    let (mut loss, mut correct) = (0.0, 0);
    for start in (0..classes.len()).step_by(LANES) {
        let greatest = greatest(outputs, start, margins);
        let mut exponentials = f32x16::ZERO;
        for output in 0..outputs {
            exponentials += exp(vector(margins, output * BLOCK_ROWS + start) - greatest);
        }
        let (greatest, exponentials) = (greatest.to_array(), exponentials.to_array());
        for row in (start..(start + LANES).min(classes.len())).filter(|&row| !is_null(row)) {
            let (greatest, class) = (greatest[row - start], classes[row] as usize);
            let own = margins[class * BLOCK_ROWS + row];
            loss += f64::from(exponentials[row - start]).ln() + (f64::from(greatest) - f64::from(own));
            let first = own == greatest && (0..class).all(|output| margins[output * BLOCK_ROWS + row] < greatest);
            correct += usize::from(first);
        }
    }
    (loss, correct)
}

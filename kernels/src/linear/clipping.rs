//! Norms rounded up, clip factors rounded down, and what rounding leaves of a sensitivity.

use super::{NonFiniteGradient, RowNorms};
use crate::features::{Norm, Rows};

/// The smallest clip norm the kernels accept, 2⁻⁶⁴: below it, products of f32 could underflow by more than the
/// guarantees of clipping allow for.
pub const MINIMUM_CLIP_NORM: f32 = 1.0 / 18_446_744_073_709_551_616.0;

/// The largest clip norm the kernels accept, 2⁶⁴.
pub const MAXIMUM_CLIP_NORM: f32 = 18_446_744_073_709_551_616.0;

/// What a clip factor is multiplied with so that all later roundings of a contribution stay below the clip norm.
pub(super) const ROUNDED_DOWN: f64 = 1.0 - 1.0 / 2_097_152.0;

/// `C·(1 + 2m²·2⁻²⁴)`: by how much one row changes the *computed* sum of contributions of norm at most C, when each
/// block of at most `block_rows` = m rows is summed in f32 and only the block of that row differs.
pub fn computed_sensitivity(clip_norm: f64, block_rows: usize) -> f64 {
    let rows = block_rows as f64;
    clip_norm * (1.0 + 2.0 * rows * rows / 16_777_216.0)
}

/// `‖a_i‖` of all rows (bias included), rounded up to f32; a non-finite feature is an error that names its row.
///
/// # Errors
/// A row with a NaN or infinite feature, or whose norm exceeds f32.
pub fn row_norms(rows: Rows<'_>, bias: bool, norm: Norm) -> Result<RowNorms, NonFiniteGradient> {
    let mut values = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let features = super::reference::row(rows, row, bias);
        let exact = super::reference::norm(&features, norm) * (1.0 + 1e-9);
        let rounded = (exact as f32).next_up();
        if !rounded.is_finite() {
            return Err(NonFiniteGradient { row });
        }
        values.push(rounded);
    }
    Ok(RowNorms { norm, values })
}

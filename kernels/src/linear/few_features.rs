//! The parts that the kernels of rows of few features share ([`super::narrow`], [`super::stripes`]): their models, runs of rows, and clipped
//! coefficients of sixteen rows.

use wide::f32x16;

use super::clipping::ClipRule;
use super::model::LinearModel;
use crate::loss::{MarginLoss, NEGLIGIBLE};
use crate::vector::lanes::LANES;

/// Most vectors a row.
pub(super) const MOST_VECTORS: usize = 4;

/// Contiguous rows with what belongs to them.
pub(super) struct Run<'a> {
    /// `rows × features`.
    pub(super) values: &'a [f32],
    /// The first of the rows again, where there is such a copy.
    pub(super) stripes: &'a [f32],
    pub(super) targets: &'a [f32],
    pub(super) norms: Option<&'a [f32]>,
}

/// True for models of this kernel. Sums of losses that are not smooth keep the rounding of the general one.
pub(super) fn takes(model: &LinearModel) -> bool {
    let few = (LANES..=MOST_VECTORS * LANES).contains(&model.features);
    model.outputs == 1 && few && model.loss.curvature().is_some()
}

/// The coefficients of sixteen rows with these margins, targets and norms, and how many were clipped; `None` where something is not
/// finite or too large to be clipped in f32.
#[inline(always)]
pub(super) fn coefficients<L: MarginLoss>(
    loss: L,
    rule: Option<&ClipRule>,
    margins: f32x16,
    targets: f32x16,
    norms: Option<f32x16>,
) -> Option<(f32x16, usize)> {
    let null = targets.is_nan();
    let targets = null.select(f32x16::ZERO, targets);
    let residual = loss.fast_residual_lanes(margins, targets);
    let negligible = residual.abs().simd_lt(f32x16::splat(NEGLIGIBLE));
    let mut coefficient = (negligible | null).select(f32x16::ZERO, residual);
    let mut clipped = 0;
    if let (Some(rule), Some(norms)) = (rule, norms)
        && !rule.keeps(coefficient.abs(), norms)
    {
        let (factors, of_sixteen, safe) = rule.factors(coefficient.abs(), norms);
        if safe != 0xffff {
            return None;
        }
        clipped = of_sixteen.count_ones() as usize;
        coefficient *= factors;
    }
    // NaN and infinite margins, targets and coefficients: the general kernels name the row.
    let poison = coefficient.mul_add(f32x16::ZERO, (margins + targets) * f32x16::ZERO);
    poison.simd_eq(f32x16::ZERO).all().then_some((coefficient, clipped))
}

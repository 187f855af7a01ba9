//! The absolute loss `|u − y|`.

use super::convolution::normal_density;
use super::{MarginLoss, TargetKind};
use std::f64::consts::FRAC_1_SQRT_2;
use wide::f32x16;

#[derive(Clone, Copy)]
pub(crate) struct Absolute;

impl MarginLoss for Absolute {
    const NAME: &'static str = "absolute";
    const TARGETS: TargetKind = TargetKind::Reals;

    fn value(self, u: f64, y: f64) -> f64 {
        (u - y).abs()
    }

    fn residual(self, u: f64, y: f64) -> f64 {
        if u == y { 0.0 } else { (u - y).signum() }
    }

    #[inline(always)]
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        let sign = u.simd_lt(y).select(f32x16::splat(-1.0), f32x16::ONE);
        u.simd_eq(y).select(f32x16::ZERO, sign)
    }

    fn lipschitz(self) -> Option<f64> {
        Some(1.0)
    }

    fn curvature(self) -> Option<f64> {
        None
    }

    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64) {
        let u = u - y;
        let sign = libm::erf(u / s * FRAC_1_SQRT_2);
        (u * sign + 2.0 * s * normal_density(u / s), sign)
    }
}

//! The hinge loss `max(0, 1 − yu)`, y = ±1.

use super::convolution::{first_integral, normal_distribution};
use super::{MarginLoss, TargetKind};
use wide::f32x16;

#[derive(Clone, Copy)]
pub(crate) struct Hinge;

impl MarginLoss for Hinge {
    const NAME: &'static str = "hinge";
    const TARGETS: TargetKind = TargetKind::Signs;

    fn value(self, u: f64, y: f64) -> f64 {
        (1.0 - y * u).max(0.0)
    }

    fn residual(self, u: f64, y: f64) -> f64 {
        if y * u < 1.0 { -y } else { 0.0 }
    }

    #[inline(always)]
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        (y * u).simd_lt(f32x16::ONE).select(-y, f32x16::ZERO)
    }

    fn lipschitz(self) -> Option<f64> {
        Some(1.0)
    }

    fn curvature(self) -> Option<f64> {
        None
    }

    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64) {
        let z = (1.0 - y * u) / s;
        (s * first_integral(z), -y * normal_distribution(z))
    }
}

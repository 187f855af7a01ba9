//! The squared loss `(u − y)²/2`.

use super::{MarginLoss, TargetKind};
use wide::f32x16;

#[derive(Clone, Copy)]
pub(crate) struct Squared;

impl MarginLoss for Squared {
    const NAME: &'static str = "squared";
    const TARGETS: TargetKind = TargetKind::Reals;

    fn value(self, u: f64, y: f64) -> f64 {
        0.5 * (u - y) * (u - y)
    }

    fn residual(self, u: f64, y: f64) -> f64 {
        u - y
    }

    #[inline(always)]
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        u - y
    }

    fn lipschitz(self) -> Option<f64> {
        None
    }

    fn curvature(self) -> Option<f64> {
        Some(1.0)
    }

    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64) {
        let u = u - y;
        (0.5 * (u * u + s * s), u)
    }
}

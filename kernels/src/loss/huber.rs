//! The Huber loss with threshold h: `(u − y)²/2` within h of y, `h·(|u − y| − h/2)` beyond.

use super::convolution::{first_integral, second_integral};
use super::{MarginLoss, TargetKind};
use wide::f32x16;

#[derive(Clone, Copy)]
pub(crate) struct Huber(pub(crate) f32);

impl MarginLoss for Huber {
    const NAME: &'static str = "huber";
    const TARGETS: TargetKind = TargetKind::Reals;

    fn value(self, u: f64, y: f64) -> f64 {
        let (h, distance) = (f64::from(self.0), (u - y).abs());
        if distance <= h { 0.5 * distance * distance } else { h * (distance - 0.5 * h) }
    }

    fn residual(self, u: f64, y: f64) -> f64 {
        (u - y).clamp(-f64::from(self.0), f64::from(self.0))
    }

    #[inline(always)]
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        (u - y).fast_max(f32x16::splat(-self.0)).fast_min(f32x16::splat(self.0))
    }

    fn lipschitz(self) -> Option<f64> {
        Some(f64::from(self.0))
    }

    fn curvature(self) -> Option<f64> {
        Some(1.0)
    }

    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64) {
        let (u, h) = (u - y, f64::from(self.0));
        let (upper, lower) = ((u + h) / s, (u - h) / s);
        let value = s * s * (second_integral(upper) - second_integral(lower)) - h * u - 0.5 * h * h;
        (value, s * (first_integral(upper) - first_integral(lower)) - h)
    }
}

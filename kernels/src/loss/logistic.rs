//! The logistic loss `ln(1 + e^{−yu})`, y = ±1, evaluated stably by the sign of yu.

use super::convolution::gauss_hermite;
use super::{MarginLoss, TargetKind, without_negligible};
use crate::vector::exp;
use crate::vector::exponential::exp_within;
use crate::vector::lanes::reciprocal;
use wide::f32x16;

#[derive(Clone, Copy)]
pub(crate) struct Logistic;

impl MarginLoss for Logistic {
    const NAME: &'static str = "logistic";
    const TARGETS: TargetKind = TargetKind::Signs;

    fn value(self, u: f64, y: f64) -> f64 {
        let z = y * u;
        (-z).max(0.0) + (-z.abs()).exp().ln_1p()
    }

    fn residual(self, u: f64, y: f64) -> f64 {
        let z = y * u;
        let decay = (-z.abs()).exp();
        -y * if z > 0.0 { decay / (1.0 + decay) } else { 1.0 / (1.0 + decay) }
    }

    #[inline(always)]
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        let z = y * u;
        let decay = exp(-z.abs());
        let numerator = z.simd_gt(f32x16::ZERO).select(decay, f32x16::ONE);
        -y * without_negligible(numerator / (f32x16::ONE + decay))
    }

    /// `−y/(1 + e^{yu})`; at most 4 ulp off for |yu| ≤ 80, between 0 and 2e-35 in size beyond 80.
    #[inline(always)]
    fn fast_residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        -y * reciprocal(f32x16::ONE + exp_within(y * u, 80.0))
    }

    fn lipschitz(self) -> Option<f64> {
        Some(1.0)
    }

    fn curvature(self) -> Option<f64> {
        Some(0.25)
    }

    /// By the Gauss–Hermite rule: relative error below 1e-9 for s ≤ 2, 1e-5 for s ≤ 10.
    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64) {
        let z = y * u;
        let (mut value, mut slope) = (0.0, 0.0);
        for &(node, mass) in gauss_hermite() {
            let at = z + s * node;
            value += mass * ((-at).max(0.0) + (-at.abs()).exp().ln_1p());
            slope -= mass / (1.0 + at.exp());
        }
        (value, y * slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_residual_keeps_its_stated_error() {
        let mut residual = 0.0_f64;
        for step in 0..200_000 {
            let u = f64::from(((f64::from(step) / 1e5 - 1.0) * 85.0) as f32);
            for y in [-1.0_f32, 1.0] {
                let z = u * f64::from(y);
                let (margin, target) = (f32x16::splat(u as f32), f32x16::splat(y));
                let found = f64::from(Logistic.fast_residual_lanes(margin, target).to_array()[3]);
                let exact = Logistic.residual(u, y.into());
                if z <= 80.0 {
                    let ulp = 2.0_f64.powi(exact.abs().log2().floor() as i32 - 23);
                    residual = residual.max((found - exact).abs() / ulp);
                } else {
                    assert!(found.abs() <= 2e-35 && found * f64::from(y) <= 0.0);
                }
            }
        }
        assert!(residual <= 4.0, "residual: {residual} ulp");
        for u in [-1e30, -90.0, -1.0, 0.0, 1e-30, 1.0, 90.0, 1e30, f32::INFINITY] {
            for y in [-1.0_f32, 1.0] {
                let r = Logistic.fast_residual_lanes(f32x16::splat(u), f32x16::splat(y)).to_array()[0];
                assert!(r.abs() <= 1.0, "{r} at {u}");
            }
        }
    }
}

//! e^x on sixteen lanes.

use super::lanes::polynomial;
use bytemuck::cast;
use wide::{f32x16, i32x16};

/// Smallest argument of [`exp`] whose result is a normal number; below it the result is 0.
pub const EXP_LEAST: f32 = -87.336_54;

/// Largest argument of [`exp`]; above it the result is infinite.
pub const EXP_GREATEST: f32 = 88.376_26;

/// `e^x` lane by lane. Maximal error 1.5 ulp for x in [[`EXP_LEAST`], [`EXP_GREATEST`]]; 0 below, ∞ above, NaN for NaN.
///
/// `x = n·ln 2 + r`, |r| ≤ ln 2/2; `e^r = 1 + r + r²·q(r)` with q of degree 4, the interpolant of (e^r − 1 − r)/r² at the
/// Chebyshev points (relative error 2⁻²⁶·⁵ in exact arithmetic); 2^n by its exponent bits.
#[inline(always)]
pub fn exp(x: f32x16) -> f32x16 {
    let result = exp_in_range(x);
    let result = x.simd_lt(f32x16::splat(EXP_LEAST)).select(f32x16::ZERO, result);
    x.simd_gt(f32x16::splat(EXP_GREATEST)).select(f32x16::splat(f32::INFINITY), result)
}

/// `e^x` of x cut to [−limit, limit], limit ≤ 87; NaN stays NaN. At most 1.5 ulp off.
#[inline(always)]
pub(crate) fn exp_within(x: f32x16, limit: f32) -> f32x16 {
    // `fast_min` and `fast_max` return their second argument for NaN: x stands second.
    let x = f32x16::splat(limit).fast_min(x);
    exp_in_range(f32x16::splat(-limit).fast_max(x))
}

/// [`exp`] between [`EXP_LEAST`] and [`EXP_GREATEST`].
#[inline(always)]
fn exp_in_range(x: f32x16) -> f32x16 {
    // 1.5·2²³: adding it rounds to an integer, which then lies in the low bits of the sum.
    let magic = f32x16::splat(12_582_912.0);
    let shifted = x.mul_add(f32x16::splat(std::f32::consts::LOG2_E), magic);
    let n = shifted - magic;
    // ln 2 = 0.693115234375 (12 bits, so that n times it is exact) + 3.1946…e-5.
    let r = n.mul_neg_add(f32x16::splat(0.693_115_234_375), x);
    let r = n.mul_neg_add(f32x16::splat(3.194_618_3e-5), r);
    let q = polynomial(r, [0.5, 1.666_657_6e-1, 4.166_655_6e-2, 8.363_203e-3, 1.392_621_3e-3]);
    let p = (r * r).mul_add(q, r) + f32x16::ONE;
    let power = (cast::<f32x16, i32x16>(shifted) << 23) + cast::<f32x16, i32x16>(f32x16::ONE);
    p * cast::<i32x16, f32x16>(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_errs_by_at_most_one_and_a_half_ulp_on_its_range() {
        let steps = 1_600_000;
        let mut worst: f64 = 0.0;
        for step in (0..steps).step_by(16) {
            let x: [f32; 16] = std::array::from_fn(|lane| {
                let t = f64::from(step + lane as i32) / f64::from(steps - 1);
                (f64::from(EXP_LEAST) * (1.0 - t) + f64::from(EXP_GREATEST) * t) as f32
            });
            for (x, found) in x.into_iter().zip(exp(f32x16::new(x)).to_array()) {
                let exact = f64::from(x).exp();
                let ulp = 2f64.powi((exact.log2().floor() as i32).max(-126) - 23);
                worst = worst.max((f64::from(found) - exact).abs() / ulp);
            }
        }
        assert!(worst <= 1.5, "{worst} ulp");
    }

    #[test]
    fn exp_is_exact_at_zero_and_ends_in_zero_and_infinity() {
        let x = [0.0, -0.0, -1e30, f32::NEG_INFINITY, 1e30, f32::INFINITY, f32::NAN, -88.0];
        let padded = std::array::from_fn(|lane| x[lane % 8]);
        let y = exp(f32x16::new(padded)).to_array();
        assert_eq!(&y[..6], &[1.0, 1.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY]);
        assert!(y[6].is_nan());
        assert_eq!(y[7], 0.0);
    }
}

//! Logarithm and sine/cosine of whole vectors for the samplers: sixteen f32 for simulation, eight f64 for release.
//!
//! Minimax polynomials (Remez, relative error), each with the error and the range that the tests enforce. Divisions and
//! square roots are the correctly rounded instructions, never `wide`'s estimates.

use crate::vector::lanes::polynomial;
use bytemuck::cast;
use wide::{f32x16, f64x8, i32x16, i64x8, u32x16, u64x8};

/// [`polynomial`] in f64.
#[inline(always)]
fn polynomial_f64<const N: usize>(x: f64x8, coefficients: [f64; N]) -> f64x8 {
    let mut value = f64x8::splat(coefficients[N - 1]);
    for &c in coefficients[..N - 1].iter().rev() {
        value = value.mul_add(x, f64x8::splat(c));
    }
    value
}

/// `−2·ln u`, relative error below 3·2⁻²⁴ for every normal `u ∈ (0, 1]`; `−2·ln 1 = 0`.
///
/// `u = 2^e·(1 + f)` with `√½ ≤ 1 + f < √2`, so that nothing cancels near `u = 1`; `−2·ln(1 + f)/f` by a polynomial of
/// degree 8 (relative error 2.7e-8).
#[inline(always)]
pub(super) fn minus_two_ln(u: f32x16) -> f32x16 {
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let bits: i32x16 = cast(u);
    let exponent = (bits - i32x16::splat(SQRT_HALF)) >> 23_u32;
    let mantissa: f32x16 = cast(bits - (exponent << 23_u32));
    let f = mantissa - f32x16::ONE;
    let quotient = polynomial(
        f,
        [
            -2.0,
            0.999_999_76,
            -0.666_683_73,
            0.500_041_5,
            -0.399_136_7,
            0.331_247_87,
            -0.299_045_27,
            0.287_336_77,
            -0.174_447_2,
        ],
    );
    let from_exponent = f32x16::from_i32x16(exponent) * f32x16::splat(-2.0 * std::f32::consts::LN_2);
    quotient.mul_add(f, from_exponent)
}

/// `(sin πw/2, cos πw/2)`, relative error below 3·2⁻²⁴ each, for `w ∈ [−1, 1]`.
///
/// `sin πw/2 = w·S(w²)` and `cos πw/2 = (1 − w²)·C(w²)`: the zero at 1 is a factor, so the cosine keeps its relative
/// accuracy there. S and C have degree 4 (relative errors 5.4e-9 and 9.9e-10).
#[inline(always)]
pub(super) fn sin_cos_half_pi(w: f32x16) -> (f32x16, f32x16) {
    let square = w * w;
    let sine = w * polynomial(
        square,
        [std::f32::consts::FRAC_PI_2, -0.645_963_7, 0.079_689_68, -0.004_673_766_4, 0.000_151_485_13],
    );
    let zero_at_one = w.mul_neg_add(w, f32x16::ONE);
    let cosine =
        zero_at_one * polynomial(square, [1.0, -0.233_700_5, 0.019_968_59, -0.000_893_509_95, 0.000_023_587_985]);
    (sine, cosine)
}

/// `−2·ln u` in f64, relative error below 3·2⁻⁵³ for every normal `u ∈ (0, 1]`; `−2·ln 1 = 0`.
///
/// `u = 2^e·(1 + f)` as in [`minus_two_ln`]; with `s = f/(2 + f)`, `ln(1 + f) = 2s + s·R(s²)` (the series of 2·artanh s),
/// where R/s² is a polynomial of degree 6 in s² (relative error 4.6e-16 of a term below 0.01), and the sum is taken as
/// `f − (f²/2 − s·(f²/2 + R))`, whose leading term is exact.
#[inline(always)]
pub(super) fn minus_two_ln_f64(u: f64x8) -> f64x8 {
    const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    // 2⁵² + 2⁵¹: adding an integer below 2⁵¹ in size writes it into the low bits.
    const INTEGER_BITS: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: f64 = std::f64::consts::LN_2 - LN_2_HIGH + 2.319_046_813_846_299_6e-17;
    let bits: i64x8 = cast(u);
    let exponent = (bits - i64x8::splat(SQRT_HALF)) >> 52_u32;
    let mantissa: f64x8 = cast(bits - (exponent << 52_u32));
    let shifted: f64x8 = cast(exponent + i64x8::splat(INTEGER_BITS.to_bits().cast_signed()));
    let e = shifted - f64x8::splat(INTEGER_BITS);
    let f = mantissa - f64x8::ONE;
    let half_square = f * f * f64x8::HALF;
    let s = f / (f + f64x8::splat(2.0));
    let z = s * s;
    let remainder = z * polynomial_f64(
        z,
        [
            0.666_666_666_666_667,
            0.399_999_999_998_991_8,
            0.285_714_286_261_064,
            0.222_222_111_157_945_43,
            0.181_828_903_713_530_97,
            0.153_316_839_429_148_34,
            0.146_168_763_845_339_3,
        ],
    );
    let low = s.mul_add(half_square + remainder, e * f64x8::splat(LN_2_LOW));
    let ln = e.mul_add(f64x8::splat(LN_2_HIGH), f - (half_square - low));
    ln * f64x8::splat(-2.0)
}

/// `(sin πw/2, cos πw/2)` in f64, relative error below 4·2⁻⁵³ each, for `w ∈ [−1, 1]`.
///
/// As [`sin_cos_half_pi`], with S of degree 8 and C of degree 7 (relative errors 2.6e-19 and 1.8e-17).
#[inline(always)]
pub(super) fn sin_cos_half_pi_f64(w: f64x8) -> (f64x8, f64x8) {
    let square = w * w;
    let sine = w * polynomial_f64(
        square,
        [
            std::f64::consts::FRAC_PI_2,
            -0.645_964_097_506_246_2,
            0.079_692_626_246_165_44,
            -0.004_681_754_135_302_642,
            0.000_160_441_184_706_821_5,
            -3.598_843_007_207_600_6e-6,
            5.692_134_872_601_065_6e-8,
            -6.684_321_713_904_385e-10,
            5.870_610_823_606_774e-12,
        ],
    );
    let zero_at_one = w.mul_neg_add(w, f64x8::ONE);
    let cosine = zero_at_one
        * polynomial_f64(
            square,
            [
                1.0,
                -0.233_700_550_136_167_64,
                0.019_968_957_764_833_18,
                -0.000_894_522_998_120_588_2,
                2.473_727_499_123_680_7e-5,
                -4.647_631_081_469_946e-7,
                6.318_066_964_500_19e-9,
                -6.304_669_230_061_784e-11,
            ],
        );
    (sine, cosine)
}

/// `x` as f32, rounded to nearest, for `x < 2³¹`.
#[inline(always)]
pub(super) fn to_f32(x: u32x16) -> f32x16 {
    f32x16::from_i32x16(cast(x))
}

/// `(x >> 12)·2⁻⁵² ∈ [0, 1)` and `(x mod 2¹²) ∈ [0, 2¹²)`, exactly: the 52 high and the 12 low bits as f64.
#[inline(always)]
pub(super) fn split_to_f64(x: u64x8) -> (f64x8, f64x8) {
    const TWO_TO_52: f64 = 4_503_599_627_370_496.0;
    let high: f64x8 = cast(x >> 12_u32 | u64x8::splat(1f64.to_bits()));
    let low: f64x8 = cast(x & u64x8::splat(0xfff) | u64x8::splat(TWO_TO_52.to_bits()));
    (high - f64x8::ONE, low - f64x8::splat(TWO_TO_52))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest relative error of `computed` against `expected`, in units of `unit`; a zero must be met exactly.
    fn worst<const N: usize>(computed: [f64; N], expected: [f64; N], unit: f64, worst: &mut f64) {
        for (computed, expected) in computed.into_iter().zip(expected) {
            if computed != expected {
                let error = (computed - expected).abs() / (expected.abs() * unit);
                assert!(error.is_finite(), "{computed} for {expected}");
                *worst = worst.max(error);
            }
        }
    }

    #[test]
    fn logarithm_of_single_precision_keeps_its_stated_error() {
        let mut error = 0.0;
        let mut check = |first: u32, stride: u32| {
            let u: f32x16 = cast(u32x16::new(std::array::from_fn(|i| (first + stride * i as u32).min(0x3f80_0000))));
            let exact = u.to_array().map(|u| -2.0 * libm::log(f64::from(u)));
            worst(minus_two_ln(u).to_array().map(f64::from), exact, 2f64.powi(-24), &mut error);
        };
        // Every value of (½, 1], then every 61st down to 2⁻⁵⁷.
        (0x3f00_0000..=0x3f80_0000).step_by(16).for_each(|first| check(first, 1));
        (((127 - 57) << 23)..=0x3f00_0000).step_by(16 * 61).for_each(|first| check(first, 61));
        assert!(error < 3.0, "{error} units of 2^-24");
        assert_eq!(minus_two_ln(f32x16::ONE).to_array(), [0.0; 16]);
    }

    #[test]
    fn sine_and_cosine_of_single_precision_keep_their_stated_error() {
        let (mut sine_error, mut cosine_error) = (0.0, 0.0);
        // Every angle the sampler can draw.
        for first in (-(1 << 22)..1 << 22).step_by(16) {
            let w = f32x16::new(std::array::from_fn(|i| ((f64::from(first) + i as f64 + 0.5) as f32) * 2f32.powi(-22)));
            let (sine, cosine) = sin_cos_half_pi(w);
            let exact = w.to_array().map(|w| libm::sincos(std::f64::consts::FRAC_PI_2 * f64::from(w)));
            worst(sine.to_array().map(f64::from), exact.map(|(sine, _)| sine), 2f64.powi(-24), &mut sine_error);
            worst(cosine.to_array().map(f64::from), exact.map(|(_, cosine)| cosine), 2f64.powi(-24), &mut cosine_error);
        }
        assert!(sine_error < 3.0 && cosine_error < 3.0, "{sine_error} and {cosine_error} units of 2^-24");
    }

    #[test]
    fn logarithm_of_double_precision_keeps_its_stated_error() {
        let mut error = 0.0;
        let mut check = |u: f64x8| {
            let exact = u.to_array().map(|u| -2.0 * libm::log(u));
            worst(minus_two_ln_f64(u).to_array(), exact, 2f64.powi(-53), &mut error);
        };
        for i in 0..400_000 {
            // Geometric towards 0 (down to 2⁻⁶⁶), towards 1, and evenly between.
            let t = f64::from(i) / 400_000.0;
            let near = |lane: usize| 1.0 + lane as f64 * 3.7e-7;
            check(f64x8::new(std::array::from_fn(|lane| libm::exp2(-66.0 * t) / near(lane))));
            check(f64x8::new(std::array::from_fn(|lane| 1.0 - libm::exp2(-1.0 - 52.0 * t) / near(lane))));
            check(f64x8::new(std::array::from_fn(|lane| (1.0 - t) / near(lane))));
        }
        assert!(error < 3.0, "{error} units of 2^-53");
        assert_eq!(minus_two_ln_f64(f64x8::ONE).to_array(), [0.0; 8]);
    }

    #[test]
    fn sine_and_cosine_of_double_precision_keep_their_stated_error() {
        let (mut sine_error, mut cosine_error) = (0.0, 0.0);
        let mut check = |w: f64x8| {
            let (sine, cosine) = sin_cos_half_pi_f64(w);
            // cos πw/2 = sin π(1 − |w|)/2 for |w| ≥ ½: the reference's argument must not cancel either.
            let exact = w.to_array().map(|w| {
                let cosine = if w.abs() < 0.5 {
                    libm::cos(std::f64::consts::FRAC_PI_2 * w)
                } else {
                    libm::sin(std::f64::consts::FRAC_PI_2 * (1.0 - w.abs()))
                };
                (libm::sin(std::f64::consts::FRAC_PI_2 * w), cosine)
            });
            worst(sine.to_array(), exact.map(|(sine, _)| sine), 2f64.powi(-53), &mut sine_error);
            worst(cosine.to_array(), exact.map(|(_, cosine)| cosine), 2f64.powi(-53), &mut cosine_error);
        };
        for i in 0..200_000 {
            let t = f64::from(i) / 200_000.0;
            check(f64x8::new(std::array::from_fn(|lane| (2.0 * t - 1.0) / (1.0 + lane as f64 * 3.7e-7))));
            check(f64x8::new(std::array::from_fn(|lane| 1.0 - libm::exp2(-52.0 * t) / (1.0 + lane as f64 * 3.7e-7))));
            check(f64x8::new(std::array::from_fn(|lane| -libm::exp2(-52.0 * t) / (1.0 + lane as f64 * 3.7e-7))));
        }
        assert!(sine_error < 4.0 && cosine_error < 4.0, "{sine_error} and {cosine_error} units of 2^-53");
    }

    #[test]
    fn words_split_exactly() {
        let words = [0, 1, 0xfff, 0x1000, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef, u64::MAX - 0xfff];
        let (high, low) = split_to_f64(u64x8::new(words));
        for ((high, low), word) in high.to_array().into_iter().zip(low.to_array()).zip(words) {
            assert_eq!(high, (word >> 12) as f64 * 2f64.powi(-52));
            assert_eq!(low, (word & 0xfff) as f64);
        }
    }
}

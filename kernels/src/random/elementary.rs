//! Logarithm and sine/cosine of sixteen f32 at once, for the samplers: minimax polynomials (Remez, relative error) with
//! the error and the range that the tests enforce.

use bytemuck::cast;
use wide::{f32x16, i32x16, u32x16};

#[inline(always)]
fn horner<const N: usize>(x: f32x16, coefficients: [f32; N]) -> f32x16 {
    let mut value = f32x16::splat(coefficients[N - 1]);
    for &c in coefficients[..N - 1].iter().rev() {
        value = value.mul_add(x, f32x16::splat(c));
    }
    value
}

/// `−2·ln u`, relative error below 4·2⁻²⁴ for every normal `u ∈ (0, 1]`; `−2·ln 1 = 0`.
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
    let quotient = horner(
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

/// `(sin πy, cos πy)`, relative error below 4·2⁻²⁴ each, for `y ∈ [−½, ½]`.
///
/// `sin πy = y·S(y²)` and `cos πy = (1 − 4y²)·C(y²)`: the zero at ½ is a factor, so the cosine keeps its relative
/// accuracy there. S and C have degree 4 (relative errors 5.4e-9 and 9.9e-10).
#[inline(always)]
pub(super) fn sin_cos_pi(y: f32x16) -> (f32x16, f32x16) {
    let square = y * y;
    let sine = y * horner(
        square,
        [std::f32::consts::PI, -5.167_71, 2.550_07, -0.598_242_1, 0.077_560_39],
    );
    let zero_at_half = (y * f32x16::splat(-4.0)).mul_add(y, f32x16::ONE);
    let cosine = zero_at_half * horner(square, [1.0, -0.934_802, 0.319_497_44, -0.057_184_637, 0.006_038_524]);
    (sine, cosine)
}

/// Conversion of the low 31 bits' worth of `x < 2³¹`.
#[inline(always)]
pub(super) fn to_f32(x: u32x16) -> f32x16 {
    f32x16::from_i32x16(cast(x))
}

//! The logarithm, sine and cosine of the fast path, with the bounds that its enclosures rest on.
//!
//! `u = 2⁻⁵³` below is the unit roundoff. Bounds are to first order in u; the factor 1.001 that every user puts on them
//! covers the products of two of them.

use super::lanes::Lanes;
use wide::u64x8;

/// 2⁻⁵³.
pub(super) const ROUNDOFF: f64 = f64::EPSILON / 2.0;
/// [`minus_ln`]: relative error in units of u.
pub(super) const LOGARITHM_ERROR: f64 = 6.0;
/// [`box_muller`]: error in units of u times the radius.
pub(super) const NORMAL_ERROR: f64 = 7.0;

/// 128 times the 7-digit c that bring `m ∈ [½ + i/32, ½ + (i+1)/32)` to `cm = 1 + r`, `|r| ≤ 1/32`.
pub(super) const SCALES: [u8; 16] = [248, 234, 221, 210, 200, 191, 182, 174, 167, 161, 155, 149, 144, 139, 134, 128];
const SCALES_OVER_2_64: [f64; 16] = table(0.0, 1.0 / 18_446_744_073_709_551_616.0);
const SCALES_LESS_ONE: [f64; 16] = table(1.0, 1.0);
/// ln c, rounded to nearest.
const LOGARITHMS_OF_SCALES: [f64; 16] = [
    0.661_398_482_245_365,
    0.603_290_851_438_084_1,
    0.546_132_437_598_135_7,
    0.495_077_266_797_851_5,
    0.446_287_102_628_419_53,
    0.400_243_164_127_012_7,
    0.351_976_423_157_178_2,
    0.307_025_035_294_911_9,
    0.265_963_548_497_137_94,
    0.229_374_101_064_845_82,
    0.191_394_852_999_629_47,
    0.151_916_042_025_841_97,
    0.117_783_035_656_383_46,
    0.082_443_669_211_074_59,
    0.045_809_536_031_294_2,
    0.0,
];
/// `−(ln(1 + r) − r)/r²` on [−1/32, 1/32], with an error below 0.17u/|r| (Remez's algorithm with the weight |r|).
const LOGARITHM: [f64; 8] = [
    0.5,
    -0.333_333_333_333_327_9,
    0.250_000_000_021_401_05,
    -0.200_000_000_061_555_1,
    0.166_666_547_346_487_56,
    -0.142_856_951_879_211_07,
    0.125_196_842_012_646_28,
    -0.111_336_852_039_721_72,
];
/// `sin(π√w/4)/√w` on [0, 1], with an error below 0.28u.
const SINE: [f64; 7] = [
    std::f64::consts::FRAC_PI_4,
    -0.080_745_512_188_279_36,
    0.002_490_394_570_176_666,
    -3.657_620_410_933_956e-5,
    3.133_615_288_842_146e-7,
    -1.757_067_605_484_393e-9,
    6.849_984_186_986_644e-12,
];
/// `cos(π√w/4)` on [0, 1], with an error below 0.47u.
const COSINE: [f64; 7] = [
    1.0,
    -0.308_425_137_534_039_3,
    0.015_854_344_243_753_46,
    -0.000_325_991_886_525_197_8,
    3.590_859_250_151_226e-6,
    -2.460_956_382_693_462_8e-8,
    1.136_722_613_287_114_7e-10,
];

const fn table(less: f64, factor: f64) -> [f64; 16] {
    let mut table = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (SCALES[i] as f64 / 128.0 - less) * factor;
        i += 1;
    }
    table
}

/// `−ln(k·2⁻⁶⁴)` for `1 ≤ k < 2⁶⁴`, relative error below 6u.
///
/// `k·2⁻⁶⁴ = 2⁻ᵉ·m` with `½ ≤ m < 1`. The signed reading of `k·2ᵉ` is `(m − 1)·2⁶⁴`: it is rounded relative to 1 − m, so
/// that nothing is lost near 1. Then `r = cm − 1` and `−ln u = (e·ln 2 + ln c − r) + r²·p(r)`.
///
/// **Error**, absolute, with L the result; a rounding of x is at most `x·u`:
///
/// | step | error |
/// | --- | --- |
/// | `f = (m − 1)·2⁶⁴`, rounded | `c(1−m)·u` in r, so at most `1.04·c(1−m)·u` in `ln(1 + r)` |
/// | `r = f·c·2⁻⁶⁴ + (c − 1)`, fused, both constants exact | `1.04·|r|·u`; none where c = 1 |
/// | `T = e·ln 2 + ln c`, fused | `0.21e·u` and the rounding of ln c, at most u/2; `T·u`, none where e = 0 |
/// | `T − r` | `|T − r|·u`, none where T = 0 |
/// | p: coefficients, seven fused steps, r² | `0.17·|r|·u + 1.2·r²·u` |
/// | last fused step | `L·u` |
///
/// With c = 1 and e = 0 that is `(1 + 0.17 + 1.2·|r| + 1)·u` relative to `L ≥ |r|`. Elsewhere `L ≥ 1/32` and the sum over
/// the sixteen intervals of m and all e stays below 5.7u·L (`the_stated_errors_follow_from_the_tables`).
#[inline(always)]
pub(super) fn minus_ln<V: Lanes>(k: u64x8) -> V {
    let (e, m) = V::normalise(k);
    let f = V::from_signed(m);
    // The highest bit of m is 1; the next four are the interval.
    let interval = m >> 59_u32;
    let r = f.mul_add(V::lookup(&SCALES_OVER_2_64, interval), V::lookup(&SCALES_LESS_ONE, interval));
    let t = e.mul_add(V::splat(std::f64::consts::LN_2), V::lookup(&LOGARITHMS_OF_SCALES, interval));
    let square = r * r;
    let [p0, p1, p2, p3, p4, p5, p6, p7] = LOGARITHM.map(V::splat);
    let high = p7.mul_add(r, p6).mul_add(square, p5.mul_add(r, p4));
    let low = p3.mul_add(r, p2);
    let p = high.mul_add(square, low).mul_add(square, p1.mul_add(r, p0));
    square.mul_add(p, t - r)
}

/// `(sin πy/4, cos πy/4)` for `y = signed(4k)·2⁻⁶³`, in [−1, 1).
///
/// **Error**, absolute, with s and c the results:
///
/// | step | sine | cosine |
/// | --- | --- | --- |
/// | y, rounded to `y(1 + u)` | `0.79·|y|·c·u` | `0.79·|y|·|s|·u` |
/// | `w = y²`, rounded; derivatives 0.081 and 0.31 | `0.09·|y|³·u` | `0.31·y²·u` |
/// | coefficients | `0.28·|y|·u` | `0.47·u` |
/// | fused steps but the last: results below 1/8 and 1/2 | `0.07·|y|³·u` | `0.27·y²·u` |
/// | last fused step: result in [½, 1] | `0.5·|y|·u` | `0.5·u` |
/// | product with y | `|s|·u` | |
#[inline(always)]
fn sin_cos_quarter_pi<V: Lanes>(k: u64x8) -> (V, V) {
    let y = V::from_signed(k << 2_u32) * V::splat(1.0 / 9_223_372_036_854_775_808.0);
    let w = y * y;
    let mut sine = V::splat(SINE[6]);
    let mut cosine = V::splat(COSINE[6]);
    for i in (0..6).rev() {
        sine = sine.mul_add(w, V::splat(SINE[i]));
        cosine = cosine.mul_add(w, V::splat(COSINE[i]));
    }
    (sine * y, cosine)
}

/// Eight pairs `ρ·(±cos φ, sin φ)`, in this order or the other, and their radii `ρ = √(twice_variance·(−ln(k₁·2⁻⁶⁴)))`.
///
/// The angle `φ = πy/4` comes from the 62 low bits of k₂; bit 63 negates the cosine and bit 62 exchanges the two: one of
/// eight octants each.
///
/// **Error** of a coordinate against the exact value at the same k₁, k₂ and σ, with `twice_variance` = 2σ² rounded (1u):
/// the radius within `(5.7 + 1 + 1)/2·u + 1u < 4.9u` of itself (logarithm, factor, product, root); a coordinate within
/// `4.9·|c|·u + (the cosine's) + |c|·u < 6.9u` of the radius, and the same with the sine
/// (`the_stated_errors_follow_from_the_tables`).
#[inline(always)]
pub(super) fn box_muller<V: Lanes>(words: [u64x8; 2], twice_variance: f64) -> ([V; 2], V) {
    let [k1, k2] = words;
    let radius = (minus_ln::<V>(k1) * V::splat(twice_variance)).sqrt();
    let (sine, cosine) = sin_cos_quarter_pi::<V>(k2);
    let (x, y) = (radius * cosine.negate_where(k2)).swap_where(radius * sine, k2, 1 << 62);
    ([x, y], radius)
}

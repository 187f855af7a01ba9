//! Gaussian noise by the Box–Muller transform.

use super::blocks::for_each_group;
use super::elementary::{minus_two_ln, minus_two_ln_f64, sin_cos_half_pi, sin_cos_half_pi_f64, split_to_f64, to_f32};
use super::stream::{Law, Purpose, ReleaseBlock, RoundStreams, SimulationRound, StreamKey};
use super::xoshiro::XoshiroLanes;
use crate::vector::lanes::to_f64;
use bytemuck::cast;
use wide::{f32x16, f64x8, i32x16, u32x16, u64x8};

/// `sum[j] += standard_deviation · z_j`, z iid N(0, 1) from the stream (key, purpose, round, ·).
pub fn add_gaussian(key: &StreamKey, purpose: Purpose, round: u64, standard_deviation: f64, sum: &mut [f64]) {
    add_gaussian_blocks(key, purpose, round, 0, standard_deviation, sum);
}

/// [`add_gaussian`] for a part of a round: `sum[0]` is the first coordinate of block `first_block`.
pub fn add_gaussian_blocks(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    standard_deviation: f64,
    sum: &mut [f64],
) {
    let factor = f64x8::splat(standard_deviation);
    let add = |z: f64x8, sum: &mut [f64; 8]| *sum = z.mul_add(factor, f64x8::new(*sum)).to_array();
    match RoundStreams::new(key, purpose, Law::Gaussian, round) {
        RoundStreams::Simulation(streams) => simulate(streams, first_block, sum, |normals, sums| {
            let normals: [f64x8; 4] = cast(normals.map(to_f64));
            normals.into_iter().zip(sums.as_chunks_mut().0).for_each(|(z, sum)| add(z, sum));
        }),
        RoundStreams::Release(streams) => {
            let write = |normals: [f64x8; 2], sums: &mut [f64; 16]| {
                normals.into_iter().zip(sums.as_chunks_mut().0).for_each(|(z, sum)| add(z, sum));
            };
            for_each_group(first_block, sum, |block| streams.block(block), averaged_normals, write);
        }
    }
}

/// Fills `out` with `standard_deviation · N(0, 1)`; the same coordinates as [`add_gaussian`] up to rounding.
pub fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, standard_deviation: f32, out: &mut [f32]) {
    fill_gaussian_blocks(key, purpose, round, 0, standard_deviation, out);
}

/// [`fill_gaussian`] for a part of a round: `out[0]` is the first coordinate of block `first_block`.
pub fn fill_gaussian_blocks(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    standard_deviation: f32,
    out: &mut [f32],
) {
    match RoundStreams::new(key, purpose, Law::Gaussian, round) {
        RoundStreams::Simulation(streams) => {
            let factor = f32x16::splat(standard_deviation);
            simulate(streams, first_block, out, |normals, out| {
                for (z, out) in normals.into_iter().zip(out.as_chunks_mut().0) {
                    *out = (z * factor).to_array();
                }
            });
        }
        RoundStreams::Release(streams) => {
            let factor = f64::from(standard_deviation);
            let write = |normals, out: &mut [f32; 16]| {
                let normals: [f64; 16] = cast::<[f64x8; 2], _>(normals);
                for (z, out) in normals.into_iter().zip(out) {
                    *out = (factor * z) as f32;
                }
            };
            for_each_group(first_block, out, |block| streams.block(block), averaged_normals, write);
        }
    }
}

/// Hands the normals of the simulation streams to `write`: thirty-two a time, cosines before sines.
#[inline(always)]
fn simulate<T: Copy + Default>(
    streams: SimulationRound,
    first_block: u64,
    out: &mut [T],
    write: impl Fn([f32x16; 2], &mut [T; 32]),
) {
    let draw = |lanes: &mut XoshiroLanes| {
        let [first, second] = lanes.next();
        box_muller([cast(first), cast(second)])
    };
    for_each_group(first_block, out, |block| streams.lanes(block), draw, write);
}

/// Two vectors of iid N(0, 1): `√(−2 ln u)·(±cos πw/2, sin πw/2)`.
///
/// Of the 64 bits of a pair, 31 and 9 make `u = (k + ½)·2⁻⁴⁰`, one is the sign of the cosine, and 23 make the odd
/// multiple `w` of 2⁻²³ in (−1, 1). So `2⁻⁴¹ ≤ u ≤ 1`: no infinity, and the tail reaches √(82·ln 2) = 7.53 standard
/// deviations. u is rounded to f32 by at most 2⁻²⁴ of itself, and the rest adds at most 6·2⁻²⁴: relative error of a value
/// below (6 + r⁻²)·2⁻²⁴, r its radius. Only values near 0 feel the second term, on a scale of 2⁻²⁴/r.
#[inline(always)]
fn box_muller(words: [u32x16; 2]) -> [f32x16; 2] {
    let [first, second] = words;
    let high = to_f32(first >> 1_u32);
    let low = to_f32(second & u32x16::splat(0x1ff));
    let low = low.mul_add(f32x16::splat(2f32.powi(-40)), f32x16::splat(2f32.powi(-41)));
    let u = high.mul_add(f32x16::splat(2f32.powi(-31)), low);
    let radius = minus_two_ln(u).sqrt();

    let signed: i32x16 = cast(second);
    let w = f32x16::from_i32x16(signed >> 9_u32);
    let w = w.mul_add(f32x16::splat(2f32.powi(-22)), f32x16::splat(2f32.powi(-23)));
    let (sine, cosine) = sin_cos_half_pi(w);
    let cosine: f32x16 = cast(cast::<f32x16, u32x16>(cosine) ^ (first << 31_u32));
    [radius * cosine, radius * sine]
}

/// Two vectors of iid N(0, 1), each `(z₁ + z₂ + z₃ + z₄)/2` of four independent Box–Muller transforms, the first of the
/// cosines and the second of the sines (Holohan and Braghin 2021, section 4).
///
/// Whoever wants to tell from its low bits which values a noisy value can have come from has to search the product of
/// the four transforms' spaces. A mitigation of floating-point attacks, no proof.
fn averaged_normals(block: &mut ReleaseBlock) -> [f64x8; 2] {
    let words: [u64x8; 8] = block.next_vectors();
    let (pairs, _) = words.as_chunks::<2>();
    let mut sums = [f64x8::ZERO; 2];
    for &pair in pairs {
        let [cosines, sines] = box_muller_f64(pair);
        sums[0] += cosines;
        sums[1] += sines;
    }
    [sums[0] * f64x8::HALF, sums[1] * f64x8::HALF]
}

/// Two vectors of iid N(0, 1) in f64: `√(−2 ln u)·(±cos πw/2, sin πw/2)`.
///
/// All 64 bits of the first word make `u = (k + ½)·2⁻⁶⁴`; of the second, 52 make the odd multiple `w` of 2⁻⁵² in
/// (−1, 1), and one is the sign. So `2⁻⁶⁵ ≤ u ≤ 1`: no infinity, and the tail reaches √(130·ln 2) = 9.49 standard
/// deviations.
#[inline(always)]
fn box_muller_f64(words: [u64x8; 2]) -> [f64x8; 2] {
    let [first, second] = words;
    let radius = minus_two_ln_f64(open_unit_interval(first)).sqrt();
    let (sine, cosine) = sin_cos_half_pi_f64(half_circle(second));
    let cosine: f64x8 = cast(cast::<f64x8, u64x8>(cosine) ^ (second << 63_u32));
    [radius * cosine, radius * sine]
}

/// `(word + ½)·2⁻⁶⁴`, rounded once.
#[inline(always)]
pub(super) fn open_unit_interval(word: u64x8) -> f64x8 {
    let (high, low) = split_to_f64(word);
    high + low.mul_add(f64x8::splat(2f64.powi(-64)), f64x8::splat(2f64.powi(-65)))
}

/// The upper 52 bits as an odd multiple of 2⁻⁵² in (−1, 1).
#[inline(always)]
pub(super) fn half_circle(word: u64x8) -> f64x8 {
    let (high, _) = split_to_f64(word);
    (high - f64x8::HALF).mul_add(f64x8::splat(2.0), f64x8::splat(2f64.powi(-52)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of both pairs' extremes: smallest and largest u, angles at both ends and in the middle, both signs.
    fn words() -> impl Iterator<Item = [u32; 2]> {
        let radii = (0..4096u32).map(|k| k << 1).chain((0..32).map(|bit| 1 << bit)).chain([u32::MAX, u32::MAX - 1]);
        radii
            .enumerate()
            .flat_map(|(i, radius)| {
                let angle = (i as u32).wrapping_mul(0x9e37_79b9);
                [angle, angle & 0x1ff, 0x7fff_ffff, 0x8000_0000, 0, u32::MAX]
                    .map(|second| [[radius, second], [radius | 1, second]])
            })
            .flatten()
    }

    /// The scalar reference: the transform in f64 of the exact u and w.
    fn reference([first, second]: [u32; 2]) -> [f64; 2] {
        let k = u64::from(first >> 1) << 9 | u64::from(second & 0x1ff);
        let u = (k as f64 + 0.5) * 2f64.powi(-40);
        let w = f64::from(second.cast_signed() >> 9).mul_add(2.0, 1.0) * 2f64.powi(-23);
        let radius = libm::sqrt(-2.0 * libm::log(u));
        let (sine, cosine) = libm::sincos(std::f64::consts::FRAC_PI_2 * w);
        [if first & 1 == 1 { -radius * cosine } else { radius * cosine }, radius * sine]
    }

    #[test]
    fn box_muller_is_the_scalar_transform_into_the_tail() {
        let (mut worst, mut largest) = (0f64, 0f64);
        for pair in words() {
            let [cosines, sines] = box_muller(pair.map(u32x16::splat));
            let exact = reference(pair);
            let radius = exact[0].hypot(exact[1]);
            for (computed, exact) in [cosines, sines].into_iter().zip(exact) {
                let computed = f64::from(computed.to_array()[3]);
                assert!(computed.is_finite());
                largest = largest.max(computed.abs());
                worst = worst.max((computed - exact).abs() / (exact.abs() * (6.0 + radius.powi(-2))));
            }
        }
        assert!(worst < 2f64.powi(-24), "relative error {worst} of the stated one");
        assert!((7.5..7.54).contains(&largest), "largest deviate {largest}");
    }

    #[test]
    fn release_box_muller_is_the_scalar_transform_into_the_tail() {
        let mut largest = 0f64;
        for [first, second] in words() {
            let (first, second) =
                (u64::from(first) << 32 | u64::from(second), u64::from(second) << 32 | u64::from(first));
            let u = (first as f64 + 0.5) * 2f64.powi(-64);
            let w = ((second >> 12) as f64 - 2f64.powi(51) + 0.5) * 2f64.powi(-51);
            let radius = libm::sqrt(-2.0 * libm::log(u));
            let (sine, cosine) = libm::sincos(std::f64::consts::FRAC_PI_2 * w);
            let exact = [if second & 1 == 1 { -radius * cosine } else { radius * cosine }, radius * sine];
            let computed = box_muller_f64([u64x8::splat(first), u64x8::splat(second)]);
            for (computed, exact) in computed.into_iter().zip(exact) {
                let computed = computed.to_array()[5];
                largest = largest.max(computed.abs());
                assert!((computed - exact).abs() <= 1e-14 * exact.abs().max(1.0), "{computed} for {exact}");
            }
        }
        assert!((9.4..9.5).contains(&largest), "largest deviate {largest}");
    }

    #[test]
    fn release_normals_are_half_the_sum_of_four_transforms() {
        let key = StreamKey::Release([3; 32]);
        let RoundStreams::Release(round) = RoundStreams::new(&key, Purpose(1), Law::Gaussian, 2) else {
            unreachable!("a release key opens release streams")
        };
        let (mut block, mut reference) = (round.block(0), round.block(0));
        for _ in 0..100 {
            let averaged = averaged_normals(&mut block).map(f64x8::to_array);
            let words: [[u64; 8]; 8] = reference.next_vectors::<8>().map(u64x8::to_array);
            for lane in 0..8 {
                let mut sums = [0.0; 2];
                for pair in words.as_chunks::<2>().0 {
                    let transformed = box_muller_f64(pair.map(|words| u64x8::splat(words[lane])));
                    sums[0] += transformed[0].to_array()[0];
                    sums[1] += transformed[1].to_array()[0];
                }
                assert_eq!([averaged[0][lane], averaged[1][lane]], sums.map(|sum| sum / 2.0));
            }
        }
    }
}

//! Gaussian noise by the Box–Muller transform.

use super::blocks::for_each_group;
use super::elementary::{
    minus_two_ln, minus_two_ln_f64, sin_cos_half_pi, sin_cos_half_pi_f64, split_to_f64, to_f32, widen,
};
use super::stream::{Law, Purpose, ReleaseBlock, ReleaseRound, RoundStreams, SimulationRound, StreamKey};
use super::xoshiro::XoshiroLanes;
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
            let normals: [f64x8; 4] = cast(normals.map(widen));
            normals
                .into_iter()
                .zip(sums.as_chunks_mut().0)
                .for_each(|(z, sum)| add(z, sum));
        }),
        RoundStreams::Release(streams) => release(&streams, first_block, sum, |normals, sums| {
            normals
                .into_iter()
                .zip(sums.as_chunks_mut().0)
                .for_each(|(z, sum)| add(z, sum));
        }),
    }
}

/// `sum[j] += standard_deviation · z_j` in f32; the same z as [`add_gaussian`].
pub fn add_gaussian_f32(key: &StreamKey, purpose: Purpose, round: u64, standard_deviation: f32, sum: &mut [f32]) {
    add_gaussian_f32_blocks(key, purpose, round, 0, standard_deviation, sum);
}

/// [`add_gaussian_f32`] for a part of a round: `sum[0]` is the first coordinate of block `first_block`.
pub fn add_gaussian_f32_blocks(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    standard_deviation: f32,
    sum: &mut [f32],
) {
    match RoundStreams::new(key, purpose, Law::Gaussian, round) {
        RoundStreams::Simulation(streams) => {
            let factor = f32x16::splat(standard_deviation);
            simulate(streams, first_block, sum, |normals, sums| {
                for (z, sum) in normals.into_iter().zip(sums.as_chunks_mut().0) {
                    *sum = z.mul_add(factor, f32x16::new(*sum)).to_array();
                }
            });
        }
        RoundStreams::Release(streams) => {
            let factor = f64::from(standard_deviation);
            release(&streams, first_block, sum, |normals, sums| {
                for (z, sum) in flatten(normals).into_iter().zip(sums) {
                    *sum = factor.mul_add(z, f64::from(*sum)) as f32;
                }
            });
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
            release(&streams, first_block, out, |normals, out| {
                for (z, out) in flatten(normals).into_iter().zip(out) {
                    *out = (factor * z) as f32;
                }
            });
        }
    }
}

/// The sixteen normals of a release group in order.
fn flatten(normals: [f64x8; 2]) -> [f64; 16] {
    cast(normals.map(f64x8::to_array))
}

/// Hands the normals of the simulation streams to `write`: thirty-two a time, cosines before sines.
#[inline(always)]
fn simulate<T: Copy + Default>(
    streams: SimulationRound,
    first_block: u64,
    out: &mut [T],
    write: impl Fn([f32x16; 2], &mut [T; 32]),
) {
    let draw = |lanes: &mut XoshiroLanes| box_muller(lanes.next().map(cast));
    for_each_group(first_block, out, |block| streams.lanes(block), draw, write);
}

/// Two vectors of iid N(0, 1): `√(−2 ln u)·(±cos πw/2, sin πw/2)`.
///
/// Of the 64 bits of a pair, 31 and 9 make `u = (k + ½)·2⁻⁴⁰`, one is the sign of the cosine, and 23 make the odd
/// multiple `w` of 2⁻²³ in (−1, 1). So `2⁻⁴¹ ≤ u ≤ 1`: no infinity, and the tail reaches √(82·ln 2) = 7.53 standard
/// deviations. Relative error of each value against the exact transform of the rounded u: below 6·2⁻²⁴.
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

/// Hands the normals of the release streams to `write`, in f64, sixteen a time.
#[inline(always)]
fn release<T: Copy + Default>(
    streams: &ReleaseRound,
    first_block: u64,
    out: &mut [T],
    write: impl Fn([f64x8; 2], &mut [T; 16]),
) {
    for_each_group(first_block, out, |block| streams.block(block), averaged_normals, write);
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
    sums.map(|sum| sum * f64x8::HALF)
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

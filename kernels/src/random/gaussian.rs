//! Gaussian noise by the Box–Muller transform.

use super::elementary::{minus_two_ln, sin_cos_pi, to_f32};
use super::stream::{BLOCK_COORDINATES, Law, Purpose, ReleaseRound, RoundStreams, SimulationRound, StreamKey};
use super::xoshiro::XoshiroLanes;
use bytemuck::cast;
use chacha20::ChaCha20Rng;
use rand_core::Rng;
use wide::{f32x16, i32x16, u32x16};

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
    match RoundStreams::new(key, purpose, Law::Gaussian, round) {
        RoundStreams::Simulation(streams) => simulate(streams, first_block, sum, |normals, sums| {
            for (sum, z) in sums.iter_mut().zip(normals.to_array()) {
                *sum = standard_deviation.mul_add(f64::from(z), *sum);
            }
        }),
        RoundStreams::Release(streams) => {
            release(&streams, first_block, sum, |z, sum| {
                *sum = standard_deviation.mul_add(z, *sum);
            });
        }
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
                *sums = normals.mul_add(factor, f32x16::new(*sums)).to_array();
            });
        }
        RoundStreams::Release(streams) => {
            let factor = f64::from(standard_deviation);
            release(&streams, first_block, sum, |z, sum| {
                *sum = factor.mul_add(z, f64::from(*sum)) as f32;
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
                *out = (normals * factor).to_array();
            });
        }
        RoundStreams::Release(streams) => {
            let factor = f64::from(standard_deviation);
            release(&streams, first_block, out, |z, out| *out = (factor * z) as f32);
        }
    }
}

/// Two vectors of iid N(0, 1): `r·(±cos πy, sin πy)` with `r = √(−2 ln u)`.
///
/// Of the 64 bits of a pair, 31 and 9 make `u = (k + ½)·2⁻⁴⁰`, one is the sign of the cosine, and 23 make the odd
/// multiple `y` of 2⁻²⁴ in (−½, ½). So `2⁻⁴¹ ≤ u ≤ 1`: no infinity, and the tail reaches √(82·ln 2) = 7.53 standard
/// deviations. Relative error of each value against the exact transform of (u, y): below 6·2⁻²⁴.
#[inline(always)]
fn box_muller(words: [u32x16; 2]) -> (f32x16, f32x16) {
    let [first, second] = words;
    let high = to_f32(first >> 1_u32);
    let low = to_f32(second & u32x16::splat(0x1ff));
    let low = low.mul_add(f32x16::splat(2f32.powi(-40)), f32x16::splat(2f32.powi(-41)));
    let u = high.mul_add(f32x16::splat(2f32.powi(-31)), low);
    let radius = minus_two_ln(u).sqrt();

    let signed: i32x16 = cast(second);
    let y = f32x16::from_i32x16(signed >> 9_u32);
    let y = y.mul_add(f32x16::splat(2f32.powi(-23)), f32x16::splat(2f32.powi(-24)));
    let (sine, cosine) = sin_cos_pi(y);
    let sign = first << 31_u32;
    let cosine: f32x16 = cast(cast::<f32x16, u32x16>(cosine) ^ sign);
    (radius * cosine, radius * sine)
}

/// Hands the normals of the simulation streams to `write`, sixteen coordinates at a time; a last, shorter group is
/// computed whole and cut.
#[inline(always)]
fn simulate<T: Copy + Default>(
    streams: SimulationRound,
    first_block: u64,
    out: &mut [T],
    write: impl Fn(f32x16, &mut [T; 16]),
) {
    for (block, chunk) in (first_block..).zip(out.chunks_mut(BLOCK_COORDINATES)) {
        let mut lanes = streams.lanes(block);
        let (groups, rest) = chunk.as_chunks_mut::<16>();
        let (pairs, single) = groups.as_chunks_mut::<2>();
        for [left, right] in pairs {
            let (cosines, sines) = next_normals(&mut lanes);
            write(cosines, left);
            write(sines, right);
        }
        if single.is_empty() && rest.is_empty() {
            continue;
        }
        let (mut cosines, sines) = next_normals(&mut lanes);
        if let [group] = single {
            write(cosines, group);
            cosines = sines;
        }
        let mut padded = [T::default(); 16];
        padded[..rest.len()].copy_from_slice(rest);
        write(cosines, &mut padded);
        rest.copy_from_slice(&padded[..rest.len()]);
    }
}

#[inline(always)]
fn next_normals(lanes: &mut XoshiroLanes) -> (f32x16, f32x16) {
    box_muller(lanes.next().map(cast))
}

/// Hands the normals of the release streams to `write`, in f64.
///
/// Each coordinate is `(z₁ + z₂ + z₃ + z₄)/2`, four outputs of four Box–Muller pairs (Holohan and Braghin 2021, section
/// 4): whoever wants to tell a noisy value's possible origins by its low bits has to search the product of the four
/// pairs' spaces. A mitigation of floating-point attacks, no proof.
fn release<T>(streams: &ReleaseRound, first_block: u64, out: &mut [T], write: impl Fn(f64, &mut T)) {
    for (block, chunk) in (first_block..).zip(out.chunks_mut(BLOCK_COORDINATES)) {
        let mut generator = streams.block(block);
        for coordinates in chunk.chunks_mut(2) {
            let pair = next_averaged_pair(&mut generator);
            for (z, coordinate) in pair.into_iter().zip(coordinates) {
                write(z, coordinate);
            }
        }
    }
}

/// Two independent N(0, 1): halves of the sums of four cosines and of four sines.
fn next_averaged_pair(generator: &mut ChaCha20Rng) -> [f64; 2] {
    let mut pair = [0.0; 2];
    for _ in 0..4 {
        // u = (k + ½)·2⁻⁶⁴ rounded to f64, in [2⁻⁶⁵, 1]: tails to √(130·ln 2) = 9.49 standard deviations.
        let u = (generator.next_u64() as f64 + 0.5) * 2f64.powi(-64);
        let y = (generator.next_u64() >> 11) as f64 * 2f64.powi(-53);
        let radius = libm::sqrt(-2.0 * libm::log(u));
        let (sine, cosine) = libm::sincos(std::f64::consts::TAU * y);
        pair[0] += radius * cosine;
        pair[1] += radius * sine;
    }
    pair.map(|sum| 0.5 * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_normal_law() {
        for key in [StreamKey::Simulation(1), StreamKey::Release([7; 32])] {
            let mut z = vec![0.0; 1 << 20];
            add_gaussian(&key, Purpose(1), 3, 2.0, &mut z);
            let n = z.len() as f64;
            for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
                let moment = z.iter().map(|z| (z / 2.0).powi(power)).sum::<f64>() / n;
                assert!(
                    (moment - expected).abs() < 5.0 * f64::sqrt(variance / n),
                    "moment {power}: {moment}"
                );
            }
        }
    }
}

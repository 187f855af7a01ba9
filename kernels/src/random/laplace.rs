//! Laplace noise by inversion, and for release as Holohan and Braghin's sum of two products.

use super::elementary::{minus_two_ln, to_f32};
use super::stream::{BLOCK_COORDINATES, Law, Purpose, ReleaseRound, RoundStreams, SimulationRound, StreamKey};
use super::xoshiro::XoshiroLanes;
use bytemuck::cast;
use chacha20::ChaCha20Rng;
use rand_core::Rng;
use wide::{f32x16, u32x16};

/// `sum[j] += Laplace(scale)`: density e^{−|y|/scale}/(2·scale), standard deviation √2·scale.
pub fn add_laplace(key: &StreamKey, purpose: Purpose, round: u64, scale: f64, sum: &mut [f64]) {
    add_laplace_blocks(key, purpose, round, 0, scale, sum);
}

/// [`add_laplace`] for a part of a round: `sum[0]` is the first coordinate of block `first_block`.
pub fn add_laplace_blocks(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    scale: f64,
    sum: &mut [f64],
) {
    match RoundStreams::new(key, purpose, Law::Laplace, round) {
        RoundStreams::Simulation(streams) => simulate(streams, first_block, scale, sum),
        RoundStreams::Release(streams) => release(&streams, first_block, scale, sum),
    }
}

/// Sixteen iid Laplace(1): `∓ln u` with `u = (k + ½)·2⁻⁵⁵`, one more bit for the sign.
///
/// `2⁻⁵⁶ ≤ u ≤ 1`, so the tail reaches 56·ln 2 = 38.8 scales. Relative error against the exact logarithm: below 4·2⁻²⁴.
#[inline(always)]
fn next_laplace(lanes: &mut XoshiroLanes) -> f32x16 {
    let [first, second]: [u32x16; 2] = lanes.next().map(cast);
    let high = to_f32(first >> 1_u32);
    let low = to_f32(second >> 8_u32);
    let low = low.mul_add(f32x16::splat(2f32.powi(-55)), f32x16::splat(2f32.powi(-56)));
    let u = high.mul_add(f32x16::splat(2f32.powi(-31)), low);
    let magnitude = minus_two_ln(u) * f32x16::HALF;
    cast(cast::<f32x16, u32x16>(magnitude) ^ (first << 31_u32))
}

fn simulate(streams: SimulationRound, first_block: u64, scale: f64, sum: &mut [f64]) {
    let write = |values: f32x16, sums: &mut [f64]| {
        for (sum, y) in sums.iter_mut().zip(values.to_array()) {
            *sum = scale.mul_add(f64::from(y), *sum);
        }
    };
    for (block, chunk) in (first_block..).zip(sum.chunks_mut(BLOCK_COORDINATES)) {
        let mut lanes = streams.lanes(block);
        let (groups, rest) = chunk.as_chunks_mut::<16>();
        for group in groups {
            write(next_laplace(&mut lanes), group);
        }
        if !rest.is_empty() {
            write(next_laplace(&mut lanes), rest);
        }
    }
}

fn release(streams: &ReleaseRound, first_block: u64, scale: f64, sum: &mut [f64]) {
    for (block, chunk) in (first_block..).zip(sum.chunks_mut(BLOCK_COORDINATES)) {
        let mut generator = streams.block(block);
        for sum in chunk {
            let y = next_product(&mut generator) + next_product(&mut generator);
            *sum = scale.mul_add(y, *sum);
        }
    }
}

/// `ln(u)·cos(πv)`, the law of a product of two independent N(0, 1); the sum of two of them is Laplace(1) (Holohan and
/// Braghin 2021, section 4).
fn next_product(generator: &mut ChaCha20Rng) -> f64 {
    let u = (generator.next_u64() as f64 + 0.5) * 2f64.powi(-64);
    let v = (generator.next_u64() >> 11) as f64 * 2f64.powi(-53);
    libm::log(u) * libm::cos(std::f64::consts::PI * v)
}

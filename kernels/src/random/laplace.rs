//! Laplace noise by inversion, and for release as Holohan and Braghin's sum of two products.

use super::blocks::for_each_group;
use super::elementary::{minus_two_ln, minus_two_ln_f64, sin_cos_half_pi_f64, to_f32};
use super::gaussian::{half_circle, open_unit_interval};
use super::stream::{Law, Purpose, ReleaseBlock, RoundStreams, StreamKey};
use super::xoshiro::XoshiroLanes;
use crate::vector::lanes::to_f64;
use bytemuck::cast;
use wide::{f32x16, f64x8, u32x16, u64x8};

/// `sum[j] += Laplace(scale)`: density e^{−|y|/scale}/(2·scale), standard deviation √2·scale. `sum[0]` is the first coordinate of block
/// `first_block`.
pub fn add_laplace_blocks(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    scale: f64,
    sum: &mut [f64],
) {
    let factor = f64x8::splat(scale);
    let add = |y: f64x8, sum: &mut [f64; 8]| *sum = y.mul_add(factor, f64x8::new(*sum)).to_array();
    match RoundStreams::new(key, purpose, Law::Laplace, round) {
        RoundStreams::Simulation(streams) => {
            for_each_group(
                first_block,
                sum,
                |block| streams.lanes(block),
                laplace,
                |values, sums: &mut [f64; 16]| {
                    let (sums, _) = sums.as_chunks_mut();
                    for (y, sum) in to_f64(values).into_iter().zip(sums) {
                        add(y, sum);
                    }
                },
            );
        }
        RoundStreams::Release(streams) => {
            for_each_group(first_block, sum, |block| streams.block(block), sum_of_products, add);
        }
    }
}

/// Sixteen iid Laplace(1): `±ln u`.
///
/// Of the 64 bits of a value, 31 and 24 make `u = (k + ½)·2⁻⁵⁵` and one is the sign. So `2⁻⁵⁶ ≤ u ≤ 1`: no infinity, and
/// the tail reaches 56·ln 2 = 38.8 scales. Relative error against the exact logarithm of the rounded u: below 3·2⁻²⁴.
#[inline(always)]
fn laplace(lanes: &mut XoshiroLanes) -> f32x16 {
    let [first, second] = lanes.next();
    let (first, second): (u32x16, u32x16) = (cast(first), cast(second));
    let high = to_f32(first >> 1_u32);
    let low = to_f32(second >> 8_u32);
    let low = low.mul_add(f32x16::splat(2f32.powi(-55)), f32x16::splat(2f32.powi(-56)));
    let u = high.mul_add(f32x16::splat(2f32.powi(-31)), low);
    let magnitude = minus_two_ln(u) * f32x16::HALF;
    cast(cast::<f32x16, u32x16>(magnitude) ^ (first << 31_u32))
}

/// Eight iid Laplace(1) in f64: `ln(u₁)·sin(πw₁/2) + ln(u₂)·sin(πw₂/2)`.
///
/// Each product has the law of N·N′, two independent N(0, 1) (of a Box–Muller pair, r² cos·sin), and a sum of two such
/// products is Laplace(1) (Holohan and Braghin 2021, section 4). `u ≥ 2⁻⁶⁵`: the tail reaches 90 scales.
fn sum_of_products(block: &mut ReleaseBlock) -> f64x8 {
    let words: [u64x8; 4] = block.next_vectors();
    let (pairs, _) = words.as_chunks();
    let mut sum = f64x8::ZERO;
    for &[first, second] in pairs {
        let (sine, _) = sin_cos_half_pi_f64(half_circle(second));
        sum = minus_two_ln_f64(open_unit_interval(first)).mul_add(sine, sum);
    }
    sum * f64x8::HALF
}

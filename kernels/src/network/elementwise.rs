//! Layers without products: tanh, ReLU, maximum of 2 × 2, group norm. All work on one row's values.

use super::layers::Plane;
use crate::vector::lanes::{self, LANES, polynomial, put, vector};
use wide::f32x16;

/// `tanh x`, at most 4 ulp and 2⁻²² off, odd, within [−1, 1]: a quotient of polynomials up to |x| = 7.9, beyond which it is 1 in f32.
fn tanh(x: f32x16) -> f32x16 {
    let x = x.max(f32x16::splat(-7.905_311)).min(f32x16::splat(7.905_311));
    let square = x * x;
    let odd = polynomial(
        square,
        [
            4.893_524_6e-3,
            6.372_619_3e-4,
            1.485_722_4e-5,
            5.122_297e-8,
            -8.604_672e-11,
            2.000_187_9e-13,
            -2.760_768_5e-16,
        ],
    );
    let even = polynomial(square, [4.893_525e-3, 2.268_434_6e-3, 1.185_347_06e-4, 1.198_258_4e-6]);
    (x * odd / even).max(-f32x16::ONE).min(f32x16::ONE)
}

fn each(values: &mut [f32], of: impl Fn(f32x16) -> f32x16) {
    for chunk in values.as_chunks_mut::<LANES>().0 {
        *chunk = of(f32x16::new(*chunk)).to_array();
    }
}

pub(super) fn tanh_of(values: &mut [f32]) {
    each(values, tanh);
}

pub(super) fn relu_of(values: &mut [f32]) {
    each(values, |x| x.max(f32x16::ZERO));
}

fn each_by(gradients: &mut [f32], values: &[f32], of: impl Fn(f32x16, f32x16) -> f32x16) {
    for (gradient, value) in gradients.as_chunks_mut::<LANES>().0.iter_mut().zip(values.as_chunks::<LANES>().0) {
        *gradient = of(f32x16::new(*gradient), f32x16::new(*value)).to_array();
    }
}

/// `g ← g·(1 − y²)`, y the layer's values.
pub(super) fn tanh_gradient(gradients: &mut [f32], values: &[f32]) {
    each_by(gradients, values, |gradient, y| gradient * y.mul_neg_add(y, f32x16::ONE));
}

/// `g ← g where y > 0, else 0`.
pub(super) fn relu_gradient(gradients: &mut [f32], values: &[f32]) {
    each_by(gradients, values, |gradient, y| y.simd_gt(f32x16::ZERO) & gradient);
}

/// The places of each vector of the pooled plane, and of the four that it comes from.
fn pooled(from: Plane, to: Plane) -> impl Iterator<Item = (usize, [usize; 4])> {
    (0..to.image.height).flat_map(move |y| {
        (0..to.image.width).flat_map(move |x| {
            let place = from.first() + 2 * (y * from.line() + x * from.stored);
            let out = to.first() + y * to.line() + x * to.stored;
            (0..to.stored).step_by(LANES).map(move |channel| {
                let corner = place + channel;
                let below = corner + from.line();
                (out + channel, [corner, corner + from.stored, below, below + from.stored])
            })
        })
    })
}

pub(super) fn pool((from, values): (Plane, &[f32]), (to, out): (Plane, &mut [f32])) {
    for (place, sources) in pooled(from, to) {
        let [a, b, c, d] = sources.map(|source| vector(values, source));
        put(out, place, a.max(b).max(c.max(d)));
    }
}

/// The gradient goes to the first of the greatest.
pub(super) fn pool_gradient(
    (from, values, gradients): (Plane, &[f32], &mut [f32]),
    (to, out, of_out): (Plane, &[f32], &[f32]),
) {
    gradients.fill(0.0);
    for (place, sources) in pooled(from, to) {
        let (greatest, mut left) = (vector(out, place), vector(of_out, place));
        for source in sources {
            let is_greatest = vector(values, source).simd_eq(greatest);
            put(gradients, source, is_greatest & left);
            left = is_greatest.select(f32x16::ZERO, left);
        }
    }
}

/// Added to a variance.
pub(super) const LEAST_VARIANCE: f32 = 1e-5;

/// A group norm of one row: groups, and one over the deviation of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalized {
    /// `(x − mean)/deviation` in the place of each value.
    pub(super) values: Vec<f32>,
    inverses: Vec<f32>,
}

/// Ranges of a group's channels, pixel by pixel.
fn group(plane: Plane, groups: usize, group: usize) -> impl Iterator<Item = std::ops::Range<usize>> + Clone {
    let channels = plane.image.channels / groups;
    (0..plane.image.height).flat_map(move |y| {
        (0..plane.image.width).map(move |x| {
            let start = plane.first() + y * plane.line() + x * plane.stored + group * channels;
            start..start + channels
        })
    })
}

/// `y = scale·(x − mean)/√(variance + 10⁻⁵) + shift`, mean and variance over pixels and channels of a group of this row alone.
pub(super) fn group_norm(
    plane: Plane,
    groups: usize,
    values: &[f32],
    [scales, shifts]: [&[f32]; 2],
    normalized: &mut Normalized,
    out: &mut [f32],
) {
    normalized.values.resize(values.len(), 0.0);
    normalized.inverses.clear();
    let channels = plane.image.channels / groups;
    let count = (plane.image.values() / groups) as f64;
    for number in 0..groups {
        let places = group(plane, groups, number);
        let sum = |of: &dyn Fn(f64) -> f64| {
            places.clone().flatten().map(|place| of(f64::from(values[place]))).sum::<f64>() / count
        };
        let mean = sum(&|value| value);
        let variance = sum(&|value| (value - mean).powi(2));
        let inverse = 1.0 / (variance + f64::from(LEAST_VARIANCE)).sqrt();
        normalized.inverses.push(inverse as f32);
        for range in places {
            for (channel, place) in (number * channels..).zip(range) {
                let value = ((f64::from(values[place]) - mean) * inverse) as f32;
                normalized.values[place] = value;
                out[place] = value.mul_add(scales[channel], shifts[channel]);
            }
        }
    }
}

/// From the gradients of y to those of x, scales and shifts; these are added.
pub(super) fn group_norm_gradient(
    (plane, groups): (Plane, usize),
    normalized: &Normalized,
    of_out: &[f32],
    scales: &[f32],
    [of_scales, of_shifts]: [&mut [f32]; 2],
    gradients: &mut [f32],
) {
    let channels = plane.image.channels / groups;
    let count = (plane.image.values() / groups) as f64;
    for number in 0..groups {
        let places = group(plane, groups, number);
        let (mut mean, mut projection) = (0.0, 0.0);
        for range in places.clone() {
            for (channel, place) in (number * channels..).zip(range) {
                let (gradient, value) = (of_out[place], normalized.values[place]);
                of_scales[channel] += gradient * value;
                of_shifts[channel] += gradient;
                let scaled = f64::from(gradient * scales[channel]);
                mean += scaled;
                projection += scaled * f64::from(value);
            }
        }
        let [mean, projection] = [mean, projection].map(|sum| (sum / count) as f32);
        for range in places {
            for (channel, place) in (number * channels..).zip(range) {
                let scaled = of_out[place] * scales[channel];
                let centred = scaled - mean - normalized.values[place] * projection;
                gradients[place] = normalized.inverses[number] * centred;
            }
        }
    }
}

/// `Σ_i v_i²`, off by at most 2⁻¹⁶ of itself.
pub(super) fn squared_length(values: &[f32]) -> f64 {
    let of_chunk = |chunk: &[f32]| {
        let mut sums = [f32x16::ZERO; 4];
        for (place, value) in chunk.as_chunks::<LANES>().0.iter().enumerate() {
            let value = f32x16::new(*value);
            sums[place % 4] = value.mul_add(value, sums[place % 4]);
        }
        let [low, high] = lanes::to_f64((sums[0] + sums[1]) + (sums[2] + sums[3]));
        (low + high).reduce_add()
    };
    values.chunks(8_192).map(of_chunk).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_as_near_as_it_says_odd_and_within_one() {
        for step in 0..400_000 {
            let x = step as f32 * 2.5e-5;
            let [found, negative] = [x, -x].map(|x| tanh(f32x16::splat(x)).to_array()[0]);
            let exact = f64::from(x).tanh();
            assert!((f64::from(found) - exact).abs() <= exact * 4.0 / 8_388_608.0, "{x}: {found} for {exact}");
            assert!(negative == -found && found <= 1.0);
        }
        for (x, limit) in [(20.0_f32, 1.0), (f32::MAX, 1.0), (f32::INFINITY, 1.0), (1e-30, 1e-30)] {
            assert!((tanh(f32x16::splat(x)).to_array()[0] / limit - 1.0).abs() < 1e-6, "{x}");
        }
    }
}

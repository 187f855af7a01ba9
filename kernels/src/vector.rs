//! Operations on vectors of one block of memory, sixteen lanes at a time; tests compare each with its plain scalar version.
//!
//! Vectors are f32; scalars that come out of them (products, norms) are computed in f64, where a product of two f32 is
//! exact. The order of every sum is fixed by the length alone, so the same inputs give the same bits. All slices of a
//! call have one length, or the call panics.

pub(crate) mod exponential;
pub(crate) mod lanes;

pub use exponential::{EXP_GREATEST, EXP_LEAST, exp};

use crate::features::Norm;
use lanes::{LANES, padded, to_f32, to_f64};
use wide::{f32x16, f64x8};

/// `Σ_i term(x_i, y_i)` in f64: eight lanes, four chains.
#[inline(always)]
fn sum_of_terms(x: &[f32], y: &[f32], term: impl Fn(f64x8, f64x8, f64x8) -> f64x8) -> f64 {
    assert_eq!(x.len(), y.len(), "lengths of the two vectors");
    let mut sums = [f64x8::ZERO; 4];
    let ((x_whole, x_rest), (y_whole, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut add = |x: [f32; LANES], y: [f32; LANES], chain: usize| {
        let ([x0, x1], [y0, y1]) = (to_f64(f32x16::new(x)), to_f64(f32x16::new(y)));
        sums[chain] = term(x0, y0, sums[chain]);
        sums[chain + 1] = term(x1, y1, sums[chain + 1]);
    };
    let ((x_pairs, x_odd), (y_pairs, y_odd)) = (x_whole.as_chunks::<2>(), y_whole.as_chunks::<2>());
    for (x, y) in x_pairs.iter().zip(y_pairs) {
        add(x[0], y[0], 0);
        add(x[1], y[1], 2);
    }
    for (x, y) in x_odd.iter().zip(y_odd) {
        add(*x, *y, 0);
    }
    if !x_rest.is_empty() {
        add(padded(x_rest).to_array(), padded(y_rest).to_array(), 2);
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).reduce_add()
}

/// `Σ x_i y_i`; relative error n·2⁻⁵³ of `Σ |x_i y_i|`.
///
/// ```
/// assert_eq!(rounds_kernels::vector::dot(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
///
/// # Panics
/// Different lengths.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    sum_of_terms(x, y, |x, y, sum| x.mul_add(y, sum))
}

/// `Σ x_i²`.
pub fn squared_norm(x: &[f32]) -> f64 {
    dot(x, x)
}

/// `‖x‖`, in the L1 or L2 norm. Neither overflows nor underflows for any finite x.
pub fn norm(x: &[f32], norm: Norm) -> f64 {
    match norm {
        Norm::L1 => sum_of_terms(x, x, |x, _, sum| sum + x.abs()),
        Norm::L2 => squared_norm(x).sqrt(),
    }
}

/// `‖x − y‖₂`.
///
/// # Panics
/// Different lengths.
pub fn distance(x: &[f32], y: &[f32]) -> f64 {
    sum_of_terms(x, y, |x, y, sum| {
        let difference = x - y;
        difference.mul_add(difference, sum)
    })
    .sqrt()
}

/// `out_i ← term(out_i, x_i)`.
#[inline(always)]
fn map(out: &mut [f32], x: &[f32], term: impl Fn(f32x16, f32x16) -> f32x16) {
    assert_eq!(out.len(), x.len(), "lengths of the two vectors");
    let ((out_whole, out_rest), (x_whole, x_rest)) = (out.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>());
    for (out, x) in out_whole.iter_mut().zip(x_whole) {
        *out = term(f32x16::new(*out), f32x16::new(*x)).to_array();
    }
    if !x_rest.is_empty() {
        let lanes = term(padded(out_rest), padded(x_rest)).to_array();
        out_rest.copy_from_slice(&lanes[..x_rest.len()]);
    }
}

/// `x ← a·x`.
pub fn scale(a: f32, x: &mut [f32]) {
    let a = f32x16::splat(a);
    let (whole, rest) = x.as_chunks_mut::<LANES>();
    for x in whole {
        *x = (f32x16::new(*x) * a).to_array();
    }
    for x in rest {
        *x *= a.to_array()[0];
    }
}

/// `v ← β·v + (w·sum + λ·x)`, then `x ← x − η·v`, for the coefficients (β, η, w, λ); each operation rounded to f32, the sum first.
///
/// # Panics
/// Different lengths.
pub fn descend([beta, eta, weight, lambda]: [f32; 4], sum: &[f64], v: &mut [f32], x: &mut [f32]) {
    assert!(sum.len() == x.len() && v.len() == x.len(), "lengths of the vectors");
    let ((sums, sums_rest), (vs, vs_rest)) = (sum.as_chunks::<LANES>(), v.as_chunks_mut::<LANES>());
    let (xs, xs_rest) = x.as_chunks_mut::<LANES>();
    for ((x, v), sum) in xs.iter_mut().zip(vs).zip(sums) {
        let (lanes, sum) = (f32x16::new(*x), to_f32(bytemuck::cast(*sum)));
        let moved = f32x16::new(*v) * beta + (sum * weight + lanes * lambda);
        *v = moved.to_array();
        *x = (lanes - moved * eta).to_array();
    }
    for ((x, v), &sum) in xs_rest.iter_mut().zip(vs_rest).zip(sums_rest) {
        *v = beta * *v + (sum as f32 * weight + lambda * *x);
        *x -= eta * *v;
    }
}

/// `value` rounded towards zero.
pub(crate) fn truncate(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest).abs() <= value.abs() {
        nearest
    } else if nearest > 0.0 {
        nearest.next_down()
    } else {
        nearest.next_up()
    }
}

/// `x ← Π_{c,r}(x) = c + (x − c)·min(1, r/‖x − c‖₂)`; whether x lay outside. Without a center, c = 0.
///
/// Inside, x keeps its bits. Outside, the distance is computed in f64 and the factor rounded down, so that with c = 0
/// the result's norm never exceeds r; with a center, adding c rounds each coordinate once more (2⁻²⁴ of |x_i|).
///
/// # Panics
/// A radius that is not positive and finite, or different lengths.
pub fn project_onto_ball(center: Option<&[f32]>, radius: f64, x: &mut [f32]) -> bool {
    assert!(radius > 0.0 && radius.is_finite(), "radius {radius}, expected a positive one");
    let length = center.map_or_else(|| norm(x, Norm::L2), |center| distance(x, center));
    if length <= radius {
        return false;
    }
    // Two roundings to f32 follow (the factor's and the product's), 2⁻²⁴ each, and those of the length in f64.
    let factor = radius / length * (1.0 - 1.0 / 4_194_304.0);
    if factor < f64::from(f32::MIN_POSITIVE) * 16_777_216.0 || radius < f64::from(f32::MIN_POSITIVE) * 16_777_216.0 {
        // The factor or the result comes close to what f32 cannot hold to full precision.
        for (i, x) in x.iter_mut().enumerate() {
            let c = center.map_or(0.0, |center| f64::from(center[i]));
            *x = truncate(c + (f64::from(*x) - c) * factor);
        }
        return true;
    }
    let factor = factor as f32;
    match center {
        None => scale(factor, x),
        Some(center) => {
            let factor = f32x16::splat(factor);
            map(x, center, |x, c| (x - c).mul_add(factor, c));
        }
    }
    true
}

/// Prefetches the memory of `x` in order to write to it. A vector that several cores have read is in all their caches,
/// and the first write to each of its lines waits until the others release it. Prefetched lines arrive in parallel.
pub fn prefetch_for_writing(x: &[f32]) {
    for line in x.chunks(LANES) {
        lanes::prefetch_to_write(line.as_ptr().cast());
    }
    // In the line behind those where x does not begin with one.
    if let Some(last) = x.last() {
        lanes::prefetch_to_write(std::ptr::from_ref(last).cast());
    }
}

/// True if no entry is NaN or infinite.
pub fn is_finite(x: &[f32]) -> bool {
    let (whole, rest) = x.as_chunks::<LANES>();
    let poison = whole.iter().fold(f32x16::ZERO, |poison, x| f32x16::new(*x).mul_add(f32x16::ZERO, poison));
    poison.simd_eq(f32x16::ZERO).all() && rest.iter().all(|x| x.is_finite())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The plain scalar versions.
    mod reference {
        use crate::features::Norm;

        pub(super) fn dot(x: &[f32], y: &[f32]) -> f64 {
            x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
        }

        pub(super) fn norm(x: &[f32], norm: Norm) -> f64 {
            match norm {
                Norm::L1 => x.iter().map(|&x| f64::from(x).abs()).sum(),
                Norm::L2 => dot(x, x).sqrt(),
            }
        }

        pub(super) fn distance(x: &[f32], y: &[f32]) -> f64 {
            x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum::<f64>().sqrt()
        }

        pub(super) fn scale(a: f32, x: &mut [f32]) {
            x.iter_mut().for_each(|x| *x *= a);
        }

        pub(super) fn project_onto_ball(center: &[f32], radius: f64, x: &mut [f32]) -> bool {
            let length = distance(x, center);
            if length <= radius {
                return false;
            }
            for (x, &c) in x.iter_mut().zip(center) {
                *x = (f64::from(c) + (f64::from(*x) - f64::from(c)) * (radius / length)) as f32;
            }
            true
        }
    }

    /// Deterministic values in [−1, 1).
    pub(crate) fn values(seed: u64, length: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                (state >> 40) as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    /// Every length from 0 to 4·lanes + 1 at every misalignment of a few.
    fn each_shape(mut check: impl FnMut(&[f32], &[f32])) {
        let (x, y) = (values(1, 4 * LANES + 9), values(2, 4 * LANES + 9));
        for length in 0..=4 * LANES + 1 {
            for start in [0, 1, 3, 7] {
                check(&x[start..start + length], &y[start / 2..start / 2 + length]);
            }
        }
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-13 * (1.0 + expected.abs()), "{found} {expected}");
    }

    #[test]
    fn descending_rounds_each_operation() {
        each_shape(|x, v| {
            let sum: Vec<f64> = x.iter().map(|&x| f64::from(x) * 1e3 + 1e-9).collect();
            let [beta, eta, weight, lambda] = [0.9, 0.1, 0.003, 0.01_f32];
            let (mut found_v, mut found_x) = (v.to_vec(), x.to_vec());
            descend([beta, eta, weight, lambda], &sum, &mut found_v, &mut found_x);
            for (i, (&x, &v)) in x.iter().zip(v).enumerate() {
                let v = beta * v + (sum[i] as f32 * weight + lambda * x);
                assert_eq!((found_v[i], found_x[i]), (v, x - eta * v), "{i}");
            }
        });
    }

    #[test]
    fn products_norms_and_distances_agree_with_the_reference() {
        each_shape(|x, y| {
            close(dot(x, y), reference::dot(x, y));
            close(squared_norm(x), reference::dot(x, x));
            close(norm(x, Norm::L1), reference::norm(x, Norm::L1));
            close(norm(x, Norm::L2), reference::norm(x, Norm::L2));
            close(distance(x, y), reference::distance(x, y));
        });
    }

    #[test]
    fn maps_have_the_bits_of_the_reference() {
        each_shape(|_, y| {
            let (mut found, mut expected) = (y.to_vec(), y.to_vec());
            scale(-1.7, &mut found);
            reference::scale(-1.7, &mut expected);
            assert_eq!(found, expected);
        });
    }

    #[test]
    fn truncation_never_lengthens() {
        for value in [1.0 / 3.0, -1.0 / 3.0, 1e-46, -1e-46, 1e-40, 0.0, 16_777_217.0, -16_777_219.0, 0.1] {
            assert!(f64::from(truncate(value)).abs() <= f64::abs(value), "{value}");
        }
    }

    #[test]
    fn projection_leaves_the_inside_alone_and_never_leaves_the_ball() {
        each_shape(|x, center| {
            for size in [1e-30f32, 1e-3, 1.0, 1e30] {
                for radius in [1e-12, 0.5, 3.0] {
                    let mut point: Vec<f32> = x.iter().map(|v| v * size).collect();
                    let before = point.clone();
                    let moved = project_onto_ball(None, radius, &mut point);
                    let length = reference::norm(&before, Norm::L2);
                    assert_eq!(moved, length > radius);
                    if moved {
                        let after = reference::norm(&point, Norm::L2);
                        assert!(after <= radius && after >= radius * (1.0 - 1e-6), "{after} {radius}");
                    } else {
                        assert_eq!(point, before);
                    }
                }
            }
            let (mut point, mut expected) = (x.to_vec(), x.to_vec());
            let moved = project_onto_ball(Some(center), 0.25, &mut point);
            assert_eq!(moved, reference::project_onto_ball(center, 0.25, &mut expected));
            for (found, expected) in point.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-6);
            }
            assert!(reference::distance(&point, center) <= 0.25 + 1e-6 || !moved);
        });
    }

    #[test]
    fn finiteness_sees_every_entry() {
        each_shape(|x, _| {
            assert!(is_finite(x));
            for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for place in 0..x.len() {
                    let mut x = x.to_vec();
                    x[place] = poison;
                    assert!(!is_finite(&x));
                }
            }
        });
    }
}

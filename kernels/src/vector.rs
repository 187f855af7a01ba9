//! Operations on vectors of one block of memory, sixteen lanes at a time; tests compare each with its plain scalar version.
//!
//! Vectors are f32; scalars that come out of them (products, norms) are computed in f64, where a product of two f32 is
//! exact. The order of every sum is fixed by the length alone, so the same inputs give the same bits. All slices of a
//! call have one length, or the call panics.

pub(crate) mod exponential;
pub(crate) mod lanes;

pub use exponential::{EXP_GREATEST, EXP_LEAST, exp};

use lanes::{LANES, padded, to_f32, to_f64};
use wide::{f32x16, f64x8};

/// `Σ x_i y_i` in f64, in eight lanes and four chains; relative error n·2⁻⁵³ of `Σ |x_i y_i|`.
///
/// ```
/// assert_eq!(rounds_kernels::vector::dot(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
///
/// # Panics
/// Different lengths.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    assert_eq!(x.len(), y.len(), "lengths of the two vectors");
    let mut sums = [f64x8::ZERO; 4];
    let ((x_whole, x_rest), (y_whole, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut add = |x: [f32; LANES], y: [f32; LANES], chain: usize| {
        let ([x0, x1], [y0, y1]) = (to_f64(f32x16::new(x)), to_f64(f32x16::new(y)));
        sums[chain] = x0.mul_add(y0, sums[chain]);
        sums[chain + 1] = x1.mul_add(y1, sums[chain + 1]);
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
    fn products_agree_with_the_plain_sum() {
        each_shape(|x, y| {
            close(dot(x, y), x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum());
        });
    }

    #[test]
    fn truncation_never_lengthens() {
        for value in [1.0 / 3.0, -1.0 / 3.0, 1e-46, -1e-46, 1e-40, 0.0, 16_777_217.0, -16_777_219.0, 0.1] {
            assert!(f64::from(truncate(value)).abs() <= f64::abs(value), "{value}");
        }
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

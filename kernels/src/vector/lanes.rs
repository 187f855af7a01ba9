//! Sixteen f32 lanes: unaligned loads and stores, widening, transposed sums and prefetch. What `wide` lacks is written
//! with AVX-512 or AVX2 intrinsics where the build has them, and in portable form otherwise; all give the same bits.

use wide::{f32x4, f32x16, f64x8, i32x16};

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
use core::arch::x86_64 as arch;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// The lanes of a vector that one register holds: all of them where the build has AVX-512, else a half.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
pub(crate) type Part = f32x16;
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
pub(crate) type Part = wide::f32x8;

/// Parts of a vector.
pub(crate) const PARTS: usize = size_of::<f32x16>() / size_of::<Part>();

/// Lanes of a part.
pub(crate) const PART_LANES: usize = LANES / PARTS;

/// The vector of these parts.
#[inline(always)]
pub(crate) fn join(parts: [Part; PARTS]) -> f32x16 {
    bytemuck::cast(parts)
}

/// The sixteen values at `pointer`, whatever its alignment.
///
/// # Safety
/// Sixteen f32 must be readable at `pointer`.
#[inline(always)]
pub(crate) unsafe fn load(pointer: *const f32) -> f32x16 {
    // SAFETY: f32x16 is sixteen f32 in order; the caller guarantees the memory.
    unsafe { pointer.cast::<f32x16>().read_unaligned() }
}

/// The sixteen values from `start` on.
#[inline(always)]
pub(crate) fn vector(values: &[f32], start: usize) -> f32x16 {
    f32x16::new(*values[start..].first_chunk().expect("sixteen values from the start on"))
}

/// The first sixteen values, zeros where there are fewer.
#[inline(always)]
pub(crate) fn padded(values: &[f32]) -> f32x16 {
    if let Some(whole) = values.first_chunk() {
        return f32x16::new(*whole);
    }
    let mut padded = [0.0; LANES];
    padded[..values.len()].copy_from_slice(values);
    f32x16::new(padded)
}

/// Writes the sixteen lanes to the values from `start` on.
#[inline(always)]
pub(crate) fn put(values: &mut [f32], start: usize, lanes: f32x16) {
    *values[start..].first_chunk_mut().expect("sixteen values from the start on") = lanes.to_array();
}

/// `1/x` for x in [1, 2¹²⁰], at most 1 ulp off: an estimate of 14 bits and one Newton step where the build has AVX-512.
#[inline(always)]
pub(crate) fn reciprocal(x: f32x16) -> f32x16 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        // SAFETY: the build has AVX-512F; the intrinsic touches registers only.
        let estimate: f32x16 = unsafe { arch::_mm512_rcp14_ps(x.into()) }.into();
        let error = x.mul_neg_add(estimate, f32x16::ONE);
        error.mul_add(estimate, estimate)
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        f32x16::ONE / x
    }
}

/// `Σ_i coefficients[i]·xⁱ`.
#[inline(always)]
pub(crate) fn polynomial<const N: usize>(x: f32x16, coefficients: [f32; N]) -> f32x16 {
    let mut value = f32x16::splat(coefficients[N - 1]);
    for &c in coefficients[..N - 1].iter().rev() {
        value = value.mul_add(x, f32x16::splat(c));
    }
    value
}

/// Sums of quarters of four vectors: lane i of each quarter belongs to the i-th of them.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
#[inline(always)]
fn quarters([a, b, c, d]: [f32x16; 4]) -> arch::__m512 {
    let pairs = |x: f32x16, y: f32x16| {
        let (x, y): (arch::__m512, arch::__m512) = (x.into(), y.into());
        // SAFETY: the build has AVX-512F; the intrinsics touch registers only.
        unsafe {
            arch::_mm512_castps_pd(arch::_mm512_add_ps(arch::_mm512_unpacklo_ps(x, y), arch::_mm512_unpackhi_ps(x, y)))
        }
    };
    let (ab, cd) = (pairs(a, b), pairs(c, d));
    // SAFETY: as above.
    unsafe {
        arch::_mm512_add_ps(
            arch::_mm512_castpd_ps(arch::_mm512_unpacklo_pd(ab, cd)),
            arch::_mm512_castpd_ps(arch::_mm512_unpackhi_pd(ab, cd)),
        )
    }
}

/// `[Σ a, Σ b, Σ c, Σ d]`, each a fixed tree over the sixteen lanes.
#[inline(always)]
pub(crate) fn sum_each_of_four(vectors: [f32x16; 4]) -> f32x4 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        let quarters = quarters(vectors);
        // SAFETY: the build has AVX-512F; the intrinsics touch registers only.
        unsafe {
            // The upper half onto the lower half.
            let high = arch::_mm256_castpd_ps(arch::_mm512_extractf64x4_pd::<1>(arch::_mm512_castps_pd(quarters)));
            let half = arch::_mm256_add_ps(arch::_mm512_castps512_ps256(quarters), high);
            arch::_mm_add_ps(arch::_mm256_castps256_ps128(half), arch::_mm256_extractf128_ps::<1>(half)).into()
        }
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    {
        let [low, high] = [0, 1].map(|part| {
            let [a, b, c, d] = vectors.map(|v| bytemuck::cast::<_, [arch::__m256; 2]>(v)[part]);
            // SAFETY: the build has AVX2; the intrinsics touch registers only.
            unsafe {
                let pairs = |x, y| {
                    arch::_mm256_castps_pd(arch::_mm256_add_ps(
                        arch::_mm256_unpacklo_ps(x, y),
                        arch::_mm256_unpackhi_ps(x, y),
                    ))
                };
                let (ab, cd) = (pairs(a, b), pairs(c, d));
                arch::_mm256_add_ps(
                    arch::_mm256_castpd_ps(arch::_mm256_unpacklo_pd(ab, cd)),
                    arch::_mm256_castpd_ps(arch::_mm256_unpackhi_pd(ab, cd)),
                )
            }
        });
        // SAFETY: as above.
        unsafe {
            let half = arch::_mm256_add_ps(low, high);
            arch::_mm_add_ps(arch::_mm256_castps256_ps128(half), arch::_mm256_extractf128_ps::<1>(half)).into()
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    {
        sum_each_of_four_portable(vectors)
    }
}

/// [`sum_each_of_four`] without intrinsics: the same additions in the same order.
#[cfg_attr(all(target_arch = "x86_64", target_feature = "avx2"), allow(dead_code))]
#[inline(always)]
pub(crate) fn sum_each_of_four_portable(vectors: [f32x16; 4]) -> f32x4 {
    let sum = |v: &f32x16| {
        let v = v.as_array();
        let quarter = |q: usize| (v[4 * q] + v[4 * q + 2]) + (v[4 * q + 1] + v[4 * q + 3]);
        (quarter(0) + quarter(2)) + (quarter(1) + quarter(3))
    };
    f32x4::new([sum(&vectors[0]), sum(&vectors[1]), sum(&vectors[2]), sum(&vectors[3])])
}

/// `[Σ v_0, …, Σ v_15]`, each by the tree of [`sum_each_of_four`].
#[inline(always)]
pub(crate) fn sum_each_of_sixteen(vectors: [f32x16; 16]) -> f32x16 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        let of_four = |first: usize| quarters(std::array::from_fn(|v| vectors[first + v]));
        // SAFETY: the build has AVX-512F; the intrinsics touch registers only.
        unsafe {
            // Quarters 0 + 2 and 1 + 3 of two, side by side.
            let halves = |x, y| {
                arch::_mm512_add_ps(
                    arch::_mm512_shuffle_f32x4::<0b01_00_01_00>(x, y),
                    arch::_mm512_shuffle_f32x4::<0b11_10_11_10>(x, y),
                )
            };
            let (low, high) = (halves(of_four(0), of_four(4)), halves(of_four(8), of_four(12)));
            arch::_mm512_add_ps(
                arch::_mm512_shuffle_f32x4::<0b10_00_10_00>(low, high),
                arch::_mm512_shuffle_f32x4::<0b11_01_11_01>(low, high),
            )
            .into()
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        let four = |first: usize| sum_each_of_four(std::array::from_fn(|v| vectors[first + v])).to_array();
        let fours = [four(0), four(4), four(8), four(12)];
        f32x16::new(std::array::from_fn(|lane| fours[lane / 4][lane % 4]))
    }
}

/// The lanes in f64: the first eight, then the last eight.
#[inline(always)]
pub(crate) fn to_f64(lanes: f32x16) -> [f64x8; 2] {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        let lanes: arch::__m512 = lanes.into();
        // SAFETY: the build has AVX-512F; the intrinsics touch registers only.
        unsafe {
            let high = arch::_mm256_castpd_ps(arch::_mm512_extractf64x4_pd::<1>(arch::_mm512_castps_pd(lanes)));
            [arch::_mm512_cvtps_pd(arch::_mm512_castps512_ps256(lanes)).into(), arch::_mm512_cvtps_pd(high).into()]
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        let lanes = lanes.to_array();
        let half = |start: usize| f64x8::new(std::array::from_fn(|lane| f64::from(lanes[start + lane])));
        [half(0), half(8)]
    }
}

/// The lanes rounded to f32.
#[inline(always)]
pub(crate) fn to_f32([first, last]: [f64x8; 2]) -> f32x16 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        // SAFETY: the build has AVX-512F; the intrinsic touches registers only.
        bytemuck::cast(unsafe { [arch::_mm512_cvtpd_ps(first.into()), arch::_mm512_cvtpd_ps(last.into())] })
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        let halves = [first.to_array(), last.to_array()];
        f32x16::new(std::array::from_fn(|lane| halves[lane / 8][lane % 8] as f32))
    }
}

/// The last eight bits of each lane.
#[inline(always)]
pub(crate) fn low_bytes(lanes: i32x16) -> [u8; LANES] {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        // SAFETY: the build has AVX-512F; the intrinsic touches registers only.
        bytemuck::cast(unsafe { arch::_mm512_cvtepi32_epi8(lanes.into()) })
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        lanes.to_array().map(|lane| lane as u8)
    }
}

/// `sums[i] += lanes[i]` in f64, i in 0..16.
#[inline(always)]
pub(crate) fn add_to_f64(sums: &mut [f64; LANES], lanes: f32x16) {
    for (sums, lanes) in sums.as_chunks_mut().0.iter_mut().zip(to_f64(lanes)) {
        *sums = (f64x8::new(*sums) + lanes).to_array();
    }
}

/// Sixteen bytes at `bytes` as f32.
///
/// # Safety
/// Sixteen bytes must be readable at `bytes`.
#[inline(always)]
pub(crate) unsafe fn widen(bytes: *const u8) -> f32x16 {
    // SAFETY: the caller's promise.
    join(std::array::from_fn(|part| unsafe { widen_part(bytes.add(part * PART_LANES)) }))
}

/// As many bytes at `bytes` as f32 as a part has lanes.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(crate) unsafe fn widen_part(bytes: *const u8) -> Part {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    {
        // SAFETY: the build has AVX-512F; the caller guarantees sixteen bytes.
        unsafe { arch::_mm512_cvtepi32_ps(arch::_mm512_cvtepu8_epi32(arch::_mm_loadu_si128(bytes.cast()))).into() }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
    {
        // SAFETY: the caller guarantees the bytes of a part.
        let bytes = unsafe { bytes.cast::<[u8; PART_LANES]>().read() };
        Part::new(bytes.map(f32::from))
    }
}

/// Prefetches the cache line at `pointer` to the second-level cache. A hint: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// Prefetches the cache line at `pointer` in order to write to it: other cores give it up, where the build has the instruction
/// (PRFCHW), which is so for the processor at hand but not for x86-64-v3 and v4. A hint: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_to_write(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_ET0 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_sums_have_the_bits_of_the_portable_version() {
        let vectors: [f32x16; 4] = std::array::from_fn(|v| {
            f32x16::new(std::array::from_fn(|lane| ((v * 16 + lane) as f32 * 0.37).sin() * 10f32.powi(lane as i32 - 8)))
        });
        let bits = |sums: f32x4| sums.to_array().map(f32::to_bits);
        assert_eq!(bits(sum_each_of_four(vectors)), bits(sum_each_of_four_portable(vectors)));
    }

    #[test]
    fn sixteen_sums_have_the_bits_of_four_each() {
        let vectors: [f32x16; 16] = std::array::from_fn(|v| {
            f32x16::new(std::array::from_fn(|lane| {
                ((v * 16 + lane) as f32 * 0.73).cos() * 10f32.powi(lane as i32 % 7 - 3)
            }))
        });
        let sums = sum_each_of_sixteen(vectors).to_array();
        for first in (0..16).step_by(4) {
            let four = sum_each_of_four_portable(std::array::from_fn(|v| vectors[first + v])).to_array();
            assert_eq!(sums[first..first + 4], four);
        }
    }

    #[test]
    fn floats_widen_exactly_and_in_order() {
        let values: [f32; LANES] = std::array::from_fn(|lane| (lane as f32 - 7.3) * 1.7e-3);
        let widened: [f64; LANES] = bytemuck::cast(to_f64(f32x16::new(values)).map(f64x8::to_array));
        assert_eq!(widened, values.map(f64::from));
    }

    #[test]
    fn bytes_widen_exactly_and_unaligned() {
        let bytes: Vec<u8> = (0..=255).collect();
        for start in 0..=240 {
            // SAFETY: start + 16 ≤ 256.
            let found = unsafe { widen(bytes.as_ptr().add(start)) }.to_array();
            assert_eq!(found, std::array::from_fn(|lane| (start + lane) as f32));
        }
    }
}

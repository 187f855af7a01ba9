//! Eight f64 side by side, with the few operations that the enclosures are proven for.
//!
//! Every operation is the IEEE 754 one, rounded to nearest, and nothing is contracted, so that all implementations give
//! the same bits. `mul_add` rounds once, on every processor: `wide`'s does not where the build lacks FMA.

use bytemuck::{Pod, Zeroable, cast};
use std::array::from_fn;
use std::ops::{Add, Mul, Sub};
use wide::u64x8;

pub(super) trait Lanes: Pod + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    #[inline(always)]
    fn splat(value: f64) -> Self {
        cast([value; 8])
    }

    #[inline(always)]
    fn from_array(values: [f64; 8]) -> Self {
        cast(values)
    }

    #[inline(always)]
    fn to_array(self) -> [f64; 8] {
        cast(self)
    }

    /// The bits of the eight values.
    #[inline(always)]
    fn to_bits(self) -> u64x8 {
        cast(self)
    }

    /// `self·factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    fn sqrt(self) -> Self;
    /// max(|self|, |other|); NaN in one of the two may be lost, in both not.
    fn max_magnitude(self, other: Self) -> Self;
    /// Bit l is set unless lane l is below `bound`; set for NaN.
    fn not_below(self, bound: Self) -> u8;
    /// The words as signed integers, rounded to nearest.
    fn from_signed(words: u64x8) -> Self;
    /// The number of leading zeros e of each word, and `word·2^e`.
    fn normalise(words: u64x8) -> (Self, u64x8);
    /// `table[word mod 16]`.
    fn lookup(table: &[f64; 16], words: u64x8) -> Self;
    /// Changes the sign where the word's highest bit is set.
    fn negate_where(self, words: u64x8) -> Self;
    /// `(other, self)` in the lanes whose word has a bit of `bit` set, `(self, other)` elsewhere.
    fn swap_where(self, other: Self, words: u64x8, bit: u64) -> (Self, Self);
    /// Bit l is set where word l is below `bound`.
    fn words_below(words: u64x8, bound: u64) -> u8;
}

/// Eight f64 one after the other: the reference, and what compilers vectorise where AVX-512 is missing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Portable([f64; 8]);

// SAFETY: eight f64 and nothing else.
unsafe impl Zeroable for Portable {}
// SAFETY: as above.
unsafe impl Pod for Portable {}

impl Portable {
    #[inline(always)]
    fn map2(self, other: Self, operation: impl Fn(f64, f64) -> f64) -> Self {
        Self(from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }
}

macro_rules! operator {
    ($operator:ident, $method:ident) => {
        impl $operator for Portable {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.map2(other, $operator::$method)
            }
        }
    };
}
operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);

#[inline(always)]
fn mask(bit: impl Fn(usize) -> bool) -> u8 {
    (0..8).fold(0, |mask, lane| mask | u8::from(bit(lane)) << lane)
}

impl Lanes for Portable {
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].mul_add(factor.0[lane], addend.0[lane])))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(f64::sqrt))
    }

    #[inline(always)]
    fn max_magnitude(self, other: Self) -> Self {
        self.map2(other, |a, b| a.abs().max(b.abs()))
    }

    #[inline(always)]
    fn not_below(self, bound: Self) -> u8 {
        mask(|lane| !(self.0[lane] < bound.0[lane]))
    }

    #[inline(always)]
    fn from_signed(words: u64x8) -> Self {
        Self(words.to_array().map(|word| word.cast_signed() as f64))
    }

    #[inline(always)]
    fn normalise(words: u64x8) -> (Self, u64x8) {
        let words = words.to_array();
        let zeros = words.map(u64::leading_zeros);
        (Self(zeros.map(f64::from)), u64x8::new(from_fn(|lane| words[lane].checked_shl(zeros[lane]).unwrap_or(0))))
    }

    #[inline(always)]
    fn lookup(table: &[f64; 16], words: u64x8) -> Self {
        Self(words.to_array().map(|word| table[word as usize % 16]))
    }

    #[inline(always)]
    fn negate_where(self, words: u64x8) -> Self {
        cast(self.to_bits() ^ words & u64x8::splat(1 << 63))
    }

    #[inline(always)]
    fn swap_where(self, other: Self, words: u64x8, bit: u64) -> (Self, Self) {
        let words = words.to_array();
        let pick = |set: [f64; 8], clear: [f64; 8]| {
            Self(from_fn(|lane| if words[lane] & bit == 0 { clear[lane] } else { set[lane] }))
        };
        (pick(other.0, self.0), pick(self.0, other.0))
    }

    #[inline(always)]
    fn words_below(words: u64x8, bound: u64) -> u8 {
        let words = words.to_array();
        mask(|lane| words[lane] < bound)
    }
}

/// Vectors of AVX-512, of which the instructions that `wide` lacks, or does not promise, are named.
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "avx512f",
    target_feature = "avx512cd",
    target_feature = "avx512dq"
))]
mod avx512 {
    use super::Lanes;
    use std::arch::x86_64::{
        __m512i, _CMP_NLT_UQ, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cmp_pd_mask, _mm512_cmplt_epu64_mask,
        _mm512_cvtepi64_pd, _mm512_fmadd_pd, _mm512_lzcnt_epi64, _mm512_mask_blend_pd, _mm512_permutex2var_pd,
        _mm512_range_pd, _mm512_set1_epi64, _mm512_sllv_epi64, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
    };
    use wide::{f64x8, u64x8};

    /// Wraps instructions of the sets that this module is compiled for.
    macro_rules! instruction {
        ($call:expr) => {
            // SAFETY: the module exists only where the build has the instructions' features.
            unsafe { $call }
        };
    }

    impl Lanes for f64x8 {
        #[inline(always)]
        fn mul_add(self, factor: Self, addend: Self) -> Self {
            instruction!(_mm512_fmadd_pd(self.into(), factor.into(), addend.into())).into()
        }

        #[inline(always)]
        fn sqrt(self) -> Self {
            f64x8::sqrt(self)
        }

        #[inline(always)]
        fn max_magnitude(self, other: Self) -> Self {
            // Bits 1 and 0: the greater magnitude; bits 3 and 2: without its sign.
            instruction!(_mm512_range_pd::<0b1011>(self.into(), other.into())).into()
        }

        #[inline(always)]
        fn not_below(self, bound: Self) -> u8 {
            instruction!(_mm512_cmp_pd_mask::<_CMP_NLT_UQ>(self.into(), bound.into()))
        }

        #[inline(always)]
        fn from_signed(words: u64x8) -> Self {
            instruction!(_mm512_cvtepi64_pd(words.into())).into()
        }

        #[inline(always)]
        fn normalise(words: u64x8) -> (Self, u64x8) {
            let words: __m512i = words.into();
            let zeros = instruction!(_mm512_lzcnt_epi64(words));
            (instruction!(_mm512_cvtepi64_pd(zeros)).into(), instruction!(_mm512_sllv_epi64(words, zeros)).into())
        }

        #[inline(always)]
        fn lookup(table: &[f64; 16], words: u64x8) -> Self {
            let [low, high]: [f64x8; 2] = bytemuck::cast(*table);
            instruction!(_mm512_permutex2var_pd(low.into(), words.into(), high.into())).into()
        }

        #[inline(always)]
        fn negate_where(self, words: u64x8) -> Self {
            // self ^ (words & sign)
            instruction!(_mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0x78>(
                _mm512_castpd_si512(self.into()),
                words.into(),
                _mm512_set1_epi64(i64::MIN),
            )))
            .into()
        }

        #[inline(always)]
        fn swap_where(self, other: Self, words: u64x8, bit: u64) -> (Self, Self) {
            let mask = instruction!(_mm512_test_epi64_mask(words.into(), _mm512_set1_epi64(bit.cast_signed())));
            let pick =
                |clear: Self, set: Self| instruction!(_mm512_mask_blend_pd(mask, clear.into(), set.into())).into();
            (pick(self, other), pick(other, self))
        }

        #[inline(always)]
        fn words_below(words: u64x8, bound: u64) -> u8 {
            instruction!(_mm512_cmplt_epu64_mask(words.into(), _mm512_set1_epi64(bound.cast_signed())))
        }
    }
}

/// The lanes of this build.
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "avx512f",
    target_feature = "avx512cd",
    target_feature = "avx512dq"
))]
pub(super) type Native = wide::f64x8;
#[cfg(not(all(
    target_arch = "x86_64",
    target_feature = "avx512f",
    target_feature = "avx512cd",
    target_feature = "avx512dq"
)))]
pub(super) type Native = Portable;

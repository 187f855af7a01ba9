//! Exact sums of products of bytes and signed digits of 8 bits, in 32-bit integers, on every instruction set.
//!
//! Two operations on quads of bytes that are multiplied and added together; all sets lay out their operands alike, but for tiles, which
//! read other weights ([`InstructionSet::pack_group`]):
//!
//! - [`Session::rows`]: `sums_ci = Σ_j byte_ij · digit_jc`, a row against columns of digits (margins);
//! - [`Session::group`] and [`Session::sixteen`]: `sums_rc += Σ_i digit_ri · byte_ic`, rows of digits against 64 or sixteen columns of bytes (gradients).
//!
//! Nothing rounds and, within the bounds that the callers keep, nothing overflows. So all sets give the same integers,
//! which is what makes the bits of a model independent of the processor. A process may use any set that the processor
//! has, whatever the build: the tests run all of them.

use super::set::InstructionSet;
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
use super::tiles;
use crate::vector::lanes::LANES;

/// Features of a group, the bytes of a cache line.
pub(crate) const GROUP: usize = 64;

/// Rows whose products [`Session::rows`] computes together.
pub(crate) const TOGETHER: usize = 32;

/// Rows of digits that go through tiles together: two tiles of fifteen.
pub(crate) const MOST_DIGIT_ROWS: usize = 30;

/// Samples that [`Session::group`] takes at most, which loads and stores its sums each time.
pub(crate) const MOST_SAMPLES: usize = 256;

/// Lines from the quads of sixteen columns to those of the next sixteen. One line stays empty: lines that are written together would
/// else lie 4 KiB apart, and loads would wait for stores whose addresses agree in the lower twelve bits.
const QUADS: usize = MOST_SAMPLES / 4 + 1;

/// Rows that are prefetched ahead of the one that is copied.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
const AHEAD: usize = 16;

/// 64 bytes, a cache line and a row of a tile.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

pub(crate) const EMPTY: Line = Line([0; 64]);

/// Lines as bytes.
pub(crate) fn bytes_of(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a line is 64 bytes and nothing else.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

/// Lines as integers of 32 bits: tiles and vectors of them that cross no line are loaded and stored in half the time.
pub(crate) fn integers_of(lines: &mut [Line]) -> &mut [i32] {
    // SAFETY: a line is sixteen integers and nothing else, and its alignment suffices.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines) / size_of::<i32>()) }
}

/// Lines of the weights of 64 features in so many columns, as [`Session::rows`] reads them.
pub(crate) fn group_lines(columns: usize) -> usize {
    columns.next_multiple_of(4)
}

impl InstructionSet {
    /// Writes the weights of 64 features in [`group_lines`] lines: for each sixteen features those of each column in turn. Tiles
    /// read for each four features those of each column of a tile instead ([`tiles::TileWeights`]).
    pub(crate) fn pack_group(self, columns: &[Line; 2 * LANES], out: &mut [Line]) {
        if self == Self::Amx {
            #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
            for (columns, tile) in columns.chunks_exact(LANES).zip(out.chunks_mut(LANES)) {
                let (mut quads, fours) = ([EMPTY; LANES], tile.len() / 4);
                let whole = if fours == 4 { &mut *tile } else { &mut quads[..] };
                // SAFETY: sixteen lines each; this build has AVX-512.
                unsafe { x86::transpose_quads(columns.as_ptr(), GROUP / 4, (whole.as_mut_ptr(), 1)) };
                if fours < 4 {
                    for (to, line) in bytes_of(tile).as_chunks_mut::<LANES>().0.chunks_exact_mut(fours).zip(&quads) {
                        to.iter_mut().zip(line.0.as_chunks().0).for_each(|(to, four)| *to = *four);
                    }
                }
            }
            return;
        }
        let part_lines = out.len() / 4;
        for (part, lines) in out.chunks_exact_mut(part_lines).enumerate() {
            for (columns, line) in columns.as_chunks::<4>().0.iter().zip(lines) {
                for (column, sixteen) in columns.iter().zip(line.0.as_chunks_mut::<LANES>().0) {
                    sixteen.copy_from_slice(&column.0[LANES * part..][..LANES]);
                }
            }
        }
    }
}

/// True if this processor has tiles and they give the sums of the definition, tried once: no sum that a release rests on comes
/// from instructions that were not seen to agree.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
pub(super) fn tiles_agree() -> bool {
    static AGREE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *AGREE.get_or_init(|| {
        tiles::available() && {
            let of = |instructions| known_answers(&mut Products::unchecked(instructions));
            of(InstructionSet::Amx) == of(InstructionSet::Scalar)
        }
    })
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx512bw")))]
pub(super) fn tiles_agree() -> bool {
    false
}

/// Products of fixed operands: rows at one distance and at several, one and two tiles, all numbers of rows of digits.
#[cfg_attr(not(all(target_arch = "x86_64", target_feature = "avx512bw")), allow(dead_code))]
fn known_answers(products: &mut Products) -> Vec<i32> {
    // More rows of digits than go through tiles together.
    const DIGIT_ROWS: usize = MOST_DIGIT_ROWS + 3;
    const FEATURES: usize = 200;
    let mut state = 1_u32;
    let mut bytes = |count: usize| -> Vec<Line> {
        let mut line = |_| {
            Line(std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            }))
        };
        (0..count).map(&mut line).collect()
    };
    let (mut rows, mut weights) = (bytes(2 * TOGETHER * 4), bytes(4 * 2 * LANES));
    let mut digits = bytes(DIGIT_ROWS * MOST_SAMPLES / GROUP);
    let (rows, digits) = (&*bytes_of(&mut rows), &*bytes_of(&mut digits));
    // As the definition asks: 0 for features of the last group that the group before has.
    for line in &mut weights[3 * 2 * LANES..] {
        line.0[..4 * GROUP - FEATURES].fill(0);
    }
    let mut session = products.session();
    let mut answers = Vec::new();
    // Rows that follow each other, scattered ones, and from the last to the first.
    for (order, scattered) in [0, 1, 0].into_iter().enumerate() {
        let place = |row: usize| if order == 2 { TOGETHER - 1 - row } else { row };
        let start = |row: usize| rows[place(row) * FEATURES + scattered * (row * row % 7)..].as_ptr();
        let pointers: [*const u8; TOGETHER] = std::array::from_fn(start);
        for columns in [1, 7, 14, 20, 21, 26, 2 * LANES] {
            let set = session.products.instructions;
            let mut packed = vec![EMPTY; 4 * group_lines(columns)];
            for (columns, out) in weights.as_chunks().0.iter().zip(packed.chunks_exact_mut(group_lines(columns))) {
                set.pack_group(columns, out);
            }
            let mut sums = [EMPTY; 2 * LANES * TOGETHER / LANES];
            let all = (&pointers, TOGETHER);
            // SAFETY: `rows` goes on for more than a row behind the last start.
            unsafe { session.rows((all, order), &pointers[..scattered * 9], FEATURES, (&packed, columns), &mut sums) };
            answers.extend(&integers_of(&mut sums)[..columns * TOGETHER]);
        }
    }
    let samples: [*const u8; MOST_SAMPLES] = std::array::from_fn(|sample| rows[37 * sample..].as_ptr());
    for digit_rows in 1..=DIGIT_ROWS {
        // As in models of more outputs than go through the products together.
        let (step, apart) = (DIGIT_ROWS * GROUP, DIGIT_ROWS * LANES);
        let digits = Digits { bytes: digits, rows: digit_rows, step };
        let mut sums = vec![-7; 5 * apart];
        let (of_group, of_sixteen) = sums.split_at_mut(4 * apart);
        for (add, samples) in [(false, &samples[..128]), (true, &samples[..64]), (true, &samples)] {
            // SAFETY: the last sample begins more than 64 bytes before the end of `rows`.
            unsafe {
                session.group((samples, 5), digits, add, (of_group, apart));
                session.sixteen((samples, 1), digits, add, of_sixteen);
            }
        }
        answers.extend(sums);
    }
    answers
}

/// Vectors of sums, of unsigned bytes and of signed digits in quads.
///
/// # Safety
/// `Vector` is `SUMS` integers of 32 bits and nothing else. Functions may need instructions that only callers with these features
/// enabled have.
unsafe trait Quads: Copy {
    /// Sums of a vector, a multiple of four.
    const SUMS: usize;
    /// Vectors of columns whose sums of four rows stay in registers.
    const COLUMNS: usize;
    /// Rows of digits whose sums of two vectors stay in registers with the bytes that they share.
    const DIGIT_ROWS: usize;
    /// Sums, or quads as they lie in memory.
    type Vector: Copy;
    type Bytes: Copy;
    type Digits: Copy;

    /// One quad in all lanes.
    unsafe fn splat(quad: i32) -> Self::Vector;
    /// Four quads, over and over.
    unsafe fn repeat(sixteen: *const u8) -> Self::Vector;
    /// The totals of each four lanes of four vectors: lane 4f + v is that of lanes 4f … 4f + 3 of vector v.
    unsafe fn fold(vectors: [Self::Vector; 4]) -> Self::Vector;
    unsafe fn bytes(quads: Self::Vector) -> Self::Bytes;
    unsafe fn digits(quads: Self::Vector) -> Self::Digits;
    /// `sums + Σ_quad bytes·digits`.
    unsafe fn add(sums: Self::Vector, bytes: Self::Bytes, digits: Self::Digits) -> Self::Vector;
    /// Two vectors v of quads of the first 4·`SUMS` bytes of four rows: lane 4l + f holds byte 16l + 8·`HIGH` + 4v + f of each row
    /// in turn.
    unsafe fn quads<const HIGH: bool>(rows: [*const u8; 4]) -> [Self::Vector; 2];
}

/// Products of four rows of [`Session::rows`]: rows, those to prefetch, features, weights, columns, sums.
type FourRows = unsafe fn(&[*const u8; 4], &[*const u8], usize, *const u8, usize, *mut i32);

/// `sums[c·32 + row]` of four rows for the columns c of `WIDTH` vectors. A lane holds four products of one column: those of a
/// quad of each sixteen features.
///
/// # Safety
/// As [`Session::rows`], and the instructions of `V`.
#[inline(always)]
unsafe fn rows_of<V: Quads, const WIDTH: usize>(
    rows: &[*const u8; 4],
    ahead: &[*const u8],
    features: usize,
    (weights, step): (*const u8, usize),
    sums: *mut i32,
) {
    let groups = features.div_ceil(GROUP);
    // SAFETY: the caller's promises.
    unsafe {
        let mut lanes: [[V::Vector; 4]; WIDTH] = std::mem::zeroed();
        for group in 0..groups {
            // The last group begins inside the one before: its digits there are 0 and need no multiplication.
            let last = group + 1 == groups;
            let start = if last { features - GROUP } else { group * GROUP };
            let stale = if last { groups * GROUP - features } else { 0 };
            for pointer in ahead {
                crate::vector::lanes::prefetch(pointer.wrapping_add(start));
            }
            for part in stale / LANES..4 {
                let bytes = rows.map(|row| V::bytes(V::repeat(row.add(start + LANES * part))));
                let weights = weights.add((4 * group + part) * step).cast::<V::Vector>();
                for (vector, lanes) in lanes.iter_mut().enumerate() {
                    let digits = V::digits(weights.add(vector).read_unaligned());
                    for (lanes, bytes) in lanes.iter_mut().zip(bytes) {
                        *lanes = V::add(*lanes, bytes, digits);
                    }
                }
            }
        }
        for (vector, lanes) in lanes.into_iter().enumerate() {
            let lanes = V::fold(lanes);
            for column in 0..V::SUMS / 4 {
                let four = (&raw const lanes).cast::<[i32; 4]>().add(column).read();
                sums.add((vector * V::SUMS / 4 + column) * TOGETHER).cast::<[i32; 4]>().write_unaligned(four);
            }
        }
    }
}

/// [`rows_of`] for all vectors that hold any of the columns, in blocks of nearly as many each.
///
/// # Safety
/// As [`rows_of`].
#[inline(always)]
unsafe fn all_rows_of<V: Quads>(
    rows: &[*const u8; 4],
    mut ahead: &[*const u8],
    features: usize,
    weights: *const u8,
    columns: usize,
    sums: *mut i32,
) {
    let (vectors, step) = (columns.div_ceil(V::SUMS / 4), columns.div_ceil(4) * GROUP);
    let mut first = 0;
    while first < vectors {
        let left = vectors - first;
        // SAFETY: the caller's promises.
        unsafe {
            let weights = (weights.add(first * size_of::<V::Vector>()), step);
            let sums = sums.add(first * V::SUMS / 4 * TOGETHER);
            first += match left.div_ceil(left.div_ceil(V::COLUMNS)) {
                5.. => (rows_of::<V, 5>(rows, ahead, features, weights, sums), 5).1,
                4 => (rows_of::<V, 4>(rows, ahead, features, weights, sums), 4).1,
                3 => (rows_of::<V, 3>(rows, ahead, features, weights, sums), 3).1,
                2 => (rows_of::<V, 2>(rows, ahead, features, weights, sums), 2).1,
                _ => (rows_of::<V, 1>(rows, ahead, features, weights, sums), 1).1,
            };
        }
        ahead = &[];
    }
}

/// Digits of samples: 64 of a row, and behind them those of the next row.
#[derive(Clone, Copy)]
pub(crate) struct Digits<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) rows: usize,
    /// Bytes from the digits of 64 samples to those of the next 64.
    pub(crate) step: usize,
}

impl Digits<'_> {
    /// Panics unless there are digits for so many samples.
    fn check(&self, samples: usize) {
        assert!((4..=MOST_SAMPLES).contains(&samples) && samples.is_multiple_of(4) && self.rows > 0);
        assert!(self.bytes.len() >= (samples.div_ceil(GROUP) - 1) * self.step + self.rows * GROUP);
    }
}

/// `sums[v·apart + r·16 + lane] += Σ_i digits_ri · bytes_i` of `COUNT` rows of digits, each digit broadcast for the `WIDTH` vectors v of
/// columns that `quads` gives for each four samples, in lanes; see [`Session::group`].
///
/// # Safety
/// As [`Session::group`], and the instructions of `V`.
#[inline(always)]
unsafe fn columns_of<V: Quads, const COUNT: usize, const WIDTH: usize>(
    (digits, step): (*const u8, usize),
    (quads, count): (&impl Fn(usize) -> [V::Vector; WIDTH], usize),
    add: bool,
    (sums, apart): (*mut i32, usize),
) {
    // SAFETY: the caller's promises.
    unsafe {
        let place = |row: usize, v: usize| sums.add(v * apart + row * LANES).cast::<V::Vector>();
        let start = |row: usize, v: usize| if add { place(row, v).read_unaligned() } else { std::mem::zeroed() };
        let mut lanes: [[V::Vector; WIDTH]; COUNT] = std::array::from_fn(|row| std::array::from_fn(|v| start(row, v)));
        for first in (0..count).step_by(LANES) {
            let digits = digits.add(first / LANES * step);
            for quad in 0..(count - first).min(LANES) {
                let bytes = quads(first + quad).map(|quads| V::bytes(quads));
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let of_row = digits.add(row * GROUP + 4 * quad).cast::<i32>().read_unaligned();
                    let of_row = V::digits(V::splat(of_row));
                    for (lanes, bytes) in lanes.iter_mut().zip(bytes) {
                        *lanes = V::add(*lanes, bytes, of_row);
                    }
                }
            }
        }
        for (row, lanes) in lanes.into_iter().enumerate() {
            for (v, lanes) in lanes.into_iter().enumerate() {
                place(row, v).write_unaligned(lanes);
            }
        }
    }
}

/// [`columns_of`] for any number of rows of digits, in blocks of nearly as many each.
///
/// # Safety
/// As [`columns_of`].
#[inline(always)]
unsafe fn all_columns_of<V: Quads, const WIDTH: usize>(
    digits: Digits<'_>,
    quads: (&impl Fn(usize) -> [V::Vector; WIDTH], usize),
    add: bool,
    (sums, apart): (*mut i32, usize),
) {
    let mut first = 0;
    while first < digits.rows {
        let left = digits.rows - first;
        // SAFETY: the caller's promises.
        unsafe {
            let sums = (sums.add(first * LANES), apart);
            let digits = (digits.bytes.as_ptr().add(first * GROUP), digits.step);
            first += match left.div_ceil(left.div_ceil(V::DIGIT_ROWS)) {
                10.. => (columns_of::<V, 10, WIDTH>(digits, quads, add, sums), 10).1,
                9 => (columns_of::<V, 9, WIDTH>(digits, quads, add, sums), 9).1,
                8 => (columns_of::<V, 8, WIDTH>(digits, quads, add, sums), 8).1,
                7 => (columns_of::<V, 7, WIDTH>(digits, quads, add, sums), 7).1,
                6 => (columns_of::<V, 6, WIDTH>(digits, quads, add, sums), 6).1,
                4.. => (columns_of::<V, 4, WIDTH>(digits, quads, add, sums), 4).1,
                3 => (columns_of::<V, 3, WIDTH>(digits, quads, add, sums), 3).1,
                2 => (columns_of::<V, 2, WIDTH>(digits, quads, add, sums), 2).1,
                _ => (columns_of::<V, 1, WIDTH>(digits, quads, add, sums), 1).1,
            };
        }
    }
}

/// [`Session::group`]. Quads are made in registers, for each block of rows of digits anew: written to memory and read again they take
/// longer.
///
/// # Safety
/// As [`Session::group`], and the instructions of `V`.
#[inline(always)]
unsafe fn group_of<V: Quads>(
    (rows, start): (&[*const u8], usize),
    digits: Digits<'_>,
    add: bool,
    (sums, apart): (*mut i32, usize),
) {
    let rows = rows.as_chunks::<4>().0;
    for first in (0..LANES).step_by(V::SUMS) {
        // SAFETY: the caller's promises.
        unsafe {
            let four = |quad: usize| rows.get_unchecked(quad).map(|row| row.add(start + 4 * first));
            let (low, high) = (|quad| V::quads::<false>(four(quad)), |quad| V::quads::<true>(four(quad)));
            all_columns_of::<V, 2>(digits, (&low, rows.len()), add, (sums.add(first), apart));
            all_columns_of::<V, 2>(digits, (&high, rows.len()), add, (sums.add(2 * apart + first), apart));
        }
    }
}

/// [`Session::sixteen`] of `count` quads.
///
/// # Safety
/// As [`Session::sixteen`], and the instructions of `V`.
#[inline(always)]
unsafe fn sixteen_of<V: Quads>((quads, count): (*const Line, usize), digits: Digits<'_>, add: bool, sums: *mut i32) {
    for first in (0..LANES).step_by(V::SUMS) {
        // SAFETY: the caller's promises.
        unsafe {
            let quads = |quad: usize| [quads.add(quad).cast::<i32>().add(first).cast::<V::Vector>().read_unaligned()];
            all_columns_of::<V, 1>(digits, (&quads, count), add, (sums.add(first), 0));
        }
    }
}

/// The definition.
#[derive(Clone, Copy)]
struct Plain;

// SAFETY: needs no instructions.
unsafe impl Quads for Plain {
    const SUMS: usize = 4;
    const COLUMNS: usize = 2;
    const DIGIT_ROWS: usize = 6;
    type Vector = [i32; 4];
    type Bytes = [[u8; 4]; 4];
    type Digits = [[i8; 4]; 4];

    #[inline(always)]
    unsafe fn splat(quad: i32) -> [i32; 4] {
        [quad; 4]
    }
    #[inline(always)]
    unsafe fn repeat(sixteen: *const u8) -> [i32; 4] {
        // SAFETY: the caller's promise.
        unsafe { sixteen.cast::<[i32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn fold(vectors: [[i32; 4]; 4]) -> [i32; 4] {
        vectors.map(|lanes| lanes.into_iter().sum())
    }
    #[inline(always)]
    unsafe fn bytes(quads: [i32; 4]) -> [[u8; 4]; 4] {
        quads.map(i32::to_ne_bytes)
    }
    #[inline(always)]
    unsafe fn digits(quads: [i32; 4]) -> [[i8; 4]; 4] {
        quads.map(|quad| quad.to_ne_bytes().map(u8::cast_signed))
    }
    #[inline(always)]
    unsafe fn add(sums: [i32; 4], bytes: [[u8; 4]; 4], digits: [[i8; 4]; 4]) -> [i32; 4] {
        let of_quad = |lane: usize| -> i32 {
            let products = bytes[lane].into_iter().zip(digits[lane]);
            products.map(|(byte, digit)| i32::from(byte) * i32::from(digit)).sum()
        };
        std::array::from_fn(|lane| sums[lane] + of_quad(lane))
    }
    #[inline(always)]
    unsafe fn quads<const HIGH: bool>(rows: [*const u8; 4]) -> [[i32; 4]; 2] {
        // SAFETY: the caller's promise.
        let byte = |place: usize| rows.map(|row| unsafe { *row.add(8 * usize::from(HIGH) + place) });
        std::array::from_fn(|v| std::array::from_fn(|lane| i32::from_ne_bytes(byte(4 * v + lane))))
    }
}

/// Quads of four rows' bytes: those of the lower or upper halves of vectors of bytes, in two vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! quads {
    ([$a:ident, $b:ident, $c:ident, $d:ident] $half:ident $low_pairs:ident $high_pairs:ident) => {{
        let (ab, cd) = (arch::$half($a, $b), arch::$half($c, $d));
        [arch::$low_pairs(ab, cd), arch::$high_pairs(ab, cd)]
    }};
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[cfg(target_feature = "avx512bw")]
    use super::QUADS;
    use super::{Digits, GROUP, Line, Quads};
    use core::arch::x86_64 as arch;

    /// Bytes and digits as 16-bit numbers, the even ones and the odd ones: products of 8-bit numbers saturate on AVX2.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2;

    // SAFETY: the callers have AVX2.
    unsafe impl Quads for Avx2 {
        const SUMS: usize = 8;
        const COLUMNS: usize = 2;
        const DIGIT_ROWS: usize = 4;
        type Vector = arch::__m256i;
        type Bytes = [arch::__m256i; 2];
        type Digits = [arch::__m256i; 2];

        #[inline(always)]
        unsafe fn splat(quad: i32) -> arch::__m256i {
            // SAFETY: the callers have AVX2, as in all of these.
            unsafe { arch::_mm256_set1_epi32(quad) }
        }
        #[inline(always)]
        unsafe fn repeat(sixteen: *const u8) -> arch::__m256i {
            // SAFETY: as above, and the caller's promise.
            unsafe { arch::_mm256_broadcastsi128_si256(arch::_mm_loadu_si128(sixteen.cast())) }
        }
        #[inline(always)]
        unsafe fn fold([a, b, c, d]: [arch::__m256i; 4]) -> arch::__m256i {
            // SAFETY: as above.
            unsafe { arch::_mm256_hadd_epi32(arch::_mm256_hadd_epi32(a, b), arch::_mm256_hadd_epi32(c, d)) }
        }
        #[inline(always)]
        unsafe fn bytes(quads: arch::__m256i) -> [arch::__m256i; 2] {
            // SAFETY: as above.
            unsafe {
                [arch::_mm256_and_si256(quads, arch::_mm256_set1_epi16(0xff)), arch::_mm256_srli_epi16::<8>(quads)]
            }
        }
        #[inline(always)]
        unsafe fn digits(quads: arch::__m256i) -> [arch::__m256i; 2] {
            // SAFETY: as above.
            unsafe {
                [arch::_mm256_srai_epi16::<8>(arch::_mm256_slli_epi16::<8>(quads)), arch::_mm256_srai_epi16::<8>(quads)]
            }
        }
        #[inline(always)]
        unsafe fn add(
            sums: arch::__m256i,
            [even, odd]: [arch::__m256i; 2],
            digits: [arch::__m256i; 2],
        ) -> arch::__m256i {
            // SAFETY: as above.
            unsafe {
                let both = arch::_mm256_add_epi32(
                    arch::_mm256_madd_epi16(even, digits[0]),
                    arch::_mm256_madd_epi16(odd, digits[1]),
                );
                arch::_mm256_add_epi32(sums, both)
            }
        }
        #[inline(always)]
        unsafe fn quads<const HIGH: bool>(rows: [*const u8; 4]) -> [arch::__m256i; 2] {
            // SAFETY: as above, and the caller's promise.
            unsafe {
                let [a, b, c, d] = rows.map(|row| arch::_mm256_loadu_si256(row.cast()));
                if HIGH {
                    quads! { [a, b, c, d] _mm256_unpackhi_epi8 _mm256_unpacklo_epi16 _mm256_unpackhi_epi16 }
                } else {
                    quads! { [a, b, c, d] _mm256_unpacklo_epi8 _mm256_unpacklo_epi16 _mm256_unpackhi_epi16 }
                }
            }
        }
    }

    /// `vpdpbusd`: a quad a lane.
    #[derive(Clone, Copy)]
    pub(super) struct Vnni;

    // SAFETY: the callers have AVX-512BW and VNNI.
    unsafe impl Quads for Vnni {
        const SUMS: usize = 16;
        const COLUMNS: usize = 5;
        const DIGIT_ROWS: usize = 10;
        type Vector = arch::__m512i;
        type Bytes = arch::__m512i;
        type Digits = arch::__m512i;

        #[inline(always)]
        unsafe fn splat(quad: i32) -> arch::__m512i {
            // SAFETY: the callers have AVX-512, as in all of these.
            unsafe { arch::_mm512_set1_epi32(quad) }
        }
        #[inline(always)]
        unsafe fn repeat(sixteen: *const u8) -> arch::__m512i {
            // SAFETY: as above, and the caller's promise.
            unsafe { arch::_mm512_broadcast_i32x4(arch::_mm_loadu_si128(sixteen.cast())) }
        }
        #[inline(always)]
        unsafe fn fold([a, b, c, d]: [arch::__m512i; 4]) -> arch::__m512i {
            // SAFETY: as above.
            unsafe {
                let pairs =
                    |x, y| arch::_mm512_add_epi32(arch::_mm512_unpacklo_epi32(x, y), arch::_mm512_unpackhi_epi32(x, y));
                let (ab, cd) = (pairs(a, b), pairs(c, d));
                arch::_mm512_add_epi32(arch::_mm512_unpacklo_epi64(ab, cd), arch::_mm512_unpackhi_epi64(ab, cd))
            }
        }
        #[inline(always)]
        unsafe fn bytes(quads: arch::__m512i) -> arch::__m512i {
            quads
        }
        #[inline(always)]
        unsafe fn digits(quads: arch::__m512i) -> arch::__m512i {
            quads
        }
        #[inline(always)]
        unsafe fn add(sums: arch::__m512i, bytes: arch::__m512i, digits: arch::__m512i) -> arch::__m512i {
            // SAFETY: as above.
            unsafe { arch::_mm512_dpbusd_epi32(sums, bytes, digits) }
        }
        #[inline(always)]
        unsafe fn quads<const HIGH: bool>(rows: [*const u8; 4]) -> [arch::__m512i; 2] {
            // SAFETY: as above, and the caller's promise.
            unsafe {
                let [a, b, c, d] = rows.map(|row| arch::_mm512_loadu_si512(row.cast()));
                if HIGH {
                    quads! { [a, b, c, d] _mm512_unpackhi_epi8 _mm512_unpacklo_epi16 _mm512_unpackhi_epi16 }
                } else {
                    quads! { [a, b, c, d] _mm512_unpacklo_epi8 _mm512_unpacklo_epi16 _mm512_unpackhi_epi16 }
                }
            }
        }
    }

    /// 64 bytes of each row from `start` on in quads of four rows, for tiles: line `65v + q` of `out` ([`QUADS`]) holds, for rows 4q … 4q + 3,
    /// the features 16l + 4v … + 3 of each quarter l in turn, a row's byte beside the next row's.
    ///
    /// # Safety
    /// 64 bytes are readable `start` bytes after each pointer, 4·[`QUADS`] lines are writable; AVX-512BW.
    #[cfg(target_feature = "avx512bw")]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn interleave(rows: &[*const u8], start: usize, out: *mut Line) {
        for (quad, rows) in rows.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let rows = rows.map(|row| row.add(start));
                // By name: an iterator over them goes through memory, at the price of the products.
                let ([a, b], [c, d]) = (Vnni::quads::<false>(rows), Vnni::quads::<true>(rows));
                let out = out.add(quad);
                arch::_mm512_store_si512(out.cast(), a);
                arch::_mm512_store_si512(out.add(QUADS).cast(), b);
                arch::_mm512_store_si512(out.add(2 * QUADS).cast(), c);
                arch::_mm512_store_si512(out.add(3 * QUADS).cast(), d);
            }
        }
    }

    /// Quad q of line c of sixteen becomes quad c of line q, for the first `quads`, in fours, of lines that lie `out_apart` from each other. In
    /// registers: through memory it takes as long as the products of tiles.
    ///
    /// # Safety
    /// Sixteen lines are readable, and `quads` writable there; AVX-512F.
    #[cfg(target_feature = "avx512bw")]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose_quads(lines: *const Line, quads: usize, (out, out_apart): (*mut Line, usize)) {
        for first in (0..quads).step_by(4) {
            // SAFETY: the caller's promise.
            unsafe {
                let four = |line: usize| arch::_mm_load_si128(lines.add(line).cast::<arch::__m128i>().add(first / 4));
                // Lane l: those of line 4l + `line`.
                let lanes = |line: usize| {
                    let lane = arch::_mm512_castsi128_si512(four(line));
                    let lanes = arch::_mm512_inserti32x4::<1>(lane, four(4 + line));
                    let lanes = arch::_mm512_inserti32x4::<2>(lanes, four(8 + line));
                    arch::_mm512_inserti32x4::<3>(lanes, four(12 + line))
                };
                let (a, b, c, d) = (lanes(0), lanes(1), lanes(2), lanes(3));
                let (ab, ab_high) = (arch::_mm512_unpacklo_epi32(a, b), arch::_mm512_unpackhi_epi32(a, b));
                let (cd, cd_high) = (arch::_mm512_unpacklo_epi32(c, d), arch::_mm512_unpackhi_epi32(c, d));
                let store = |quad, line| arch::_mm512_store_si512(out.add((first + quad) * out_apart).cast(), line);
                store(0, arch::_mm512_unpacklo_epi64(ab, cd));
                store(1, arch::_mm512_unpackhi_epi64(ab, cd));
                store(2, arch::_mm512_unpacklo_epi64(ab_high, cd_high));
                store(3, arch::_mm512_unpackhi_epi64(ab_high, cd_high));
            }
        }
    }

    // The instructions of the traits above reach machine code in functions that enable them.
    macro_rules! with_features {
        ($features:literal, $quads:ty, $rows:ident, $group:ident, $sixteen:ident) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $rows(
                rows: &[*const u8; 4],
                ahead: &[*const u8],
                features: usize,
                weights: *const u8,
                columns: usize,
                sums: *mut i32,
            ) {
                // SAFETY: the caller's promises.
                unsafe { super::all_rows_of::<$quads>(rows, ahead, features, weights, columns, sums) }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $group(
                rows: (&[*const u8], usize),
                digits: Digits<'_>,
                add: bool,
                sums: (*mut i32, usize),
            ) {
                // SAFETY: the caller's promises.
                unsafe { super::group_of::<$quads>(rows, digits, add, sums) }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $sixteen(quads: (*const Line, usize), digits: Digits<'_>, add: bool, sums: *mut i32) {
                // SAFETY: the caller's promises.
                unsafe { super::sixteen_of::<$quads>(quads, digits, add, sums) }
            }
        };
    }
    with_features!("avx2", Avx2, rows_avx2, group_avx2, sixteen_avx2);
    with_features!("avx512f,avx512bw,avx512vnni", Vnni, rows_vnni, group_vnni, sixteen_vnni);

    const _: () = assert!(GROUP == size_of::<Line>());
}

/// A line of sixteen features of four rows from `start` on: a row's byte beside the next row's.
///
/// # Safety
/// Sixteen bytes are readable `start` bytes after each pointer.
#[inline(always)]
unsafe fn interleave_sixteen(rows: [*const u8; 4], start: usize, out: &mut Line) {
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use core::arch::x86_64 as arch;
        let [a, b, c, d] = rows.map(|row| arch::_mm_loadu_si128(row.add(start).cast::<arch::__m128i>()));
        let low = quads! { [a, b, c, d] _mm_unpacklo_epi8 _mm_unpacklo_epi16 _mm_unpackhi_epi16 };
        let high = quads! { [a, b, c, d] _mm_unpackhi_epi8 _mm_unpacklo_epi16 _mm_unpackhi_epi16 };
        for (four, lanes) in low.into_iter().chain(high).enumerate() {
            arch::_mm_store_si128(out.0.as_mut_ptr().add(16 * four).cast(), lanes);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: the caller's promise.
        let rows = rows.map(|row| unsafe { row.add(start).cast::<[u8; LANES]>().read() });
        for (feature, quad) in out.0.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *quad = rows.map(|row| row[feature]);
        }
    }
}

/// True if each row begins as far behind the one before as the second behind the first.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
fn at_one_distance(rows: &[*const u8]) -> bool {
    let distance = |pair: &[*const u8]| pair[1].addr().wrapping_sub(pair[0].addr());
    // Without an early end: in vectors.
    rows.len() < 3 || rows.windows(2).fold(0, |other, pair| other | distance(pair) ^ distance(rows)) == 0
}

/// The two operations on one set of instructions, with their scratch memory.
#[derive(Debug)]
pub(crate) struct Products {
    pub(crate) instructions: InstructionSet,
    /// Rows that do not follow each other in memory, copied for tiles; empty until there are some.
    #[cfg_attr(not(all(target_arch = "x86_64", target_feature = "avx512bw")), allow(dead_code))]
    copies: Vec<Line>,
    /// Quads of 64 features for tiles, or of sixteen: `[4][65]` lines. Sums of rows on tiles.
    quads: Vec<Line>,
    /// True if the rows at hand are copies; those behind them were prefetched when the copies were made.
    copied: bool,
}

impl Products {
    /// On these instructions.
    ///
    /// # Panics
    /// InstructionSet that this processor does not have.
    pub(crate) fn new(instructions: InstructionSet) -> Self {
        assert!(instructions.is_available(), "{instructions:?} on this processor");
        Self::unchecked(instructions)
    }

    /// [`Self::new`] on instructions that the processor has.
    fn unchecked(instructions: InstructionSet) -> Self {
        Products { instructions, copies: Vec::new(), quads: vec![EMPTY; 4 * QUADS], copied: false }
    }

    /// The operations, on this thread.
    pub(crate) fn session(&mut self) -> Session<'_> {
        Session {
            products: self,
            #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
            tiles: None,
        }
    }
}

/// The instructions of a thread, and its tile unit if they have one.
pub(crate) struct Session<'a> {
    products: &'a mut Products,
    /// The unit and what it has the shapes for.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    tiles: Option<(tiles::Configured, Operands)>,
}

/// The operands of a product on tiles.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Rows of bytes, by so many columns of weights.
    Rows(usize),
    /// So many rows of digits.
    Digits(usize),
}

impl Session<'_> {
    /// `sums[c·32 + i] = Σ_j rows_ij · weights_jc` for the first `count` or more of 32 rows of `features` unsigned bytes from `start` on
    /// and at most 32 columns of signed ones; sums of the columns behind them up to a multiple of sixteen are not specified.
    /// `weights` are those of each group of 64 features as [`InstructionSet::pack_group`] writes them. The last group ends with the
    /// row, and the weights of features that the group before has are 0. Rows `ahead` are prefetched, but on tiles not behind
    /// copies, for which [`Self::place`] did so, and only all 32 of them.
    ///
    /// # Safety
    /// `features` ≥ 64 bytes are readable `start` bytes after each pointer of a row.
    pub(crate) unsafe fn rows(
        &mut self,
        ((rows, count), start): ((&[*const u8; TOGETHER], usize), usize),
        ahead: &[*const u8],
        features: usize,
        (weights, columns): (&[Line], usize),
        sums: &mut [Line],
    ) {
        let lines = features.div_ceil(GROUP) * group_lines(columns);
        assert!(features >= GROUP && (1..=2 * LANES).contains(&columns) && weights.len() >= lines);
        assert!(sums.len() >= columns.next_multiple_of(LANES) * TOGETHER / LANES);
        let weights = weights.as_ptr().cast::<u8>();
        let four_rows: FourRows = match self.products.instructions {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 | InstructionSet::Avx512 => x86::rows_avx2,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Vnni => x86::rows_vnni,
            #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
            InstructionSet::Amx => {
                // SAFETY: the caller's promise and the asserts.
                unsafe { self.rows_on_tiles((rows, start), ahead, features, (weights, columns), sums) };
                return;
            }
            _ => all_rows_of::<Plain>,
        };
        let sums = integers_of(sums).as_mut_ptr();
        for (four, rows) in rows.as_chunks::<4>().0.iter().enumerate().take(count.div_ceil(4)) {
            let of_plane = |row: &*const u8| row.wrapping_add(start);
            let (rows, mut later) = (rows.each_ref().map(of_plane), [std::ptr::null(); 4]);
            let ahead = ahead.chunks(4).nth(four).unwrap_or(&[]);
            later.iter_mut().zip(ahead).for_each(|(later, row)| *later = of_plane(row));
            // SAFETY: the caller's promise and the asserts; `is_available` held in `new`.
            unsafe { four_rows(&rows, &later[..ahead.len()], features, weights, columns, sums.add(4 * four)) };
        }
    }

    /// Puts rows to where [`Self::rows`] and [`Self::group`] read them fastest: copies of scattered rows one behind the other,
    /// if tiles read them. Replaces all pointers by the places: 32 rows that are read together may begin anywhere, and end behind the last one, where
    /// what lies there has no say. Pointers behind `count`, at most 32, are of rows that will be read later.
    ///
    /// # Safety
    /// `features` ≥ 64 bytes are readable at each row.
    pub(crate) unsafe fn place(&mut self, rows: &mut [*const u8], count: usize, features: usize) {
        self.products.copied = false;
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
        if self.products.instructions == InstructionSet::Amx && !at_one_distance(&rows[..count]) {
            assert!(count <= MOST_SAMPLES && rows.len() <= MOST_SAMPLES + TOGETHER, "{count} of {} rows", rows.len());
            // SAFETY: the caller's promise.
            unsafe { self.copy(rows, count, features) };
            self.products.copied = true;
            let stride = features.div_ceil(GROUP) * GROUP;
            let start = self.products.copies.as_ptr().cast::<u8>();
            for (row, place) in rows.iter_mut().enumerate() {
                *place = start.wrapping_add(row * stride);
            }
        }
        let _ = (rows, count, features);
    }

    /// Copies the first `count` rows, whole cache lines apart, and prefetches those behind them meanwhile.
    ///
    /// # Safety
    /// `features` ≥ 64 bytes are readable at each row.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    unsafe fn copy(&mut self, rows: &[*const u8], count: usize, features: usize) {
        let groups = features.div_ceil(GROUP);
        // Once, and not for batches whose rows follow each other.
        self.products.copies.resize((MOST_SAMPLES + TOGETHER) * groups, EMPTY);
        for (row, copy) in self.products.copies.chunks_exact_mut(groups).take(count).enumerate() {
            if let Some(&later) = rows.get(row + AHEAD) {
                for start in (0..features).step_by(GROUP) {
                    crate::vector::lanes::prefetch(later.wrapping_add(start));
                }
            }
            let copy = copy.as_mut_ptr().cast::<u8>();
            for group in 0..groups {
                let start = (group * GROUP).min(features - GROUP);
                // SAFETY: the caller's promise; a copy has at least as many bytes as a row.
                unsafe {
                    let line = rows[row].add(start).cast::<Line>().read_unaligned();
                    copy.add(start).cast::<Line>().write_unaligned(line);
                };
            }
        }
    }

    /// [`Self::rows`] on tiles, which read rows at a fixed distance: others are copied.
    ///
    /// # Safety
    /// As [`Self::rows`]; weights and sums of all columns.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    unsafe fn rows_on_tiles(
        &mut self,
        (rows, start): (&[*const u8; TOGETHER], usize),
        ahead: &[*const u8],
        features: usize,
        (weights, columns): (*const u8, usize),
        sums: &mut [Line],
    ) {
        let groups = features.div_ceil(GROUP);
        let of_plane = |row: *const u8| row.wrapping_add(start);
        let (first, stride) = if at_one_distance(rows) {
            (of_plane(rows[0]), rows[1].addr().wrapping_sub(rows[0].addr()))
        } else {
            assert!(!self.products.copied, "rows among copies lie at one distance");
            // SAFETY: the caller's promise.
            unsafe { self.copy(&rows.map(of_plane), TOGETHER, features) };
            (self.products.copies.as_ptr().cast(), groups * GROUP)
        };
        let weights = tiles::TileWeights { start: weights, columns: group_lines(columns) };
        self.reshape(Operands::Rows(weights.columns), || weights.shapes());
        let operand = tiles::ByteRows {
            start: first,
            stride,
            groups,
            tail: features - GROUP,
            // Behind a copy lie copies.
            ahead: ahead.first_chunk().filter(|_| !self.products.copied),
            offset: start,
        };
        let by_row = &mut self.products.quads;
        // SAFETY: the caller's promise; the tiles have these shapes.
        unsafe { tiles::row_products(operand, weights, integers_of(by_row).as_mut_ptr()) };
        for first in (0..weights.columns).step_by(LANES) {
            let columns = (weights.columns - first).min(LANES);
            for half in 0..2 {
                let lines = &by_row[first * 2 + half * LANES..][..LANES];
                let sums = &mut sums[first * 2 + half..];
                // SAFETY: sixteen lines, and two for each column; these builds have AVX-512.
                unsafe { x86::transpose_quads(lines.as_ptr(), columns, (sums.as_mut_ptr(), 2)) };
            }
        }
    }

    /// Gives the tiles shapes for these operands unless they have them.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    fn reshape(&mut self, operands: Operands, shapes: impl FnOnce() -> tiles::Shapes) {
        match &mut self.tiles {
            Some((_, current)) if *current == operands => {}
            Some((configured, current)) => {
                configured.reshape(&shapes());
                *current = operands;
            }
            none => *none = Some((shapes().configure(), operands)),
        }
    }

    /// `sums[v·apart + r·16 + 4l + f] += Σ_i digits_ri · byte_i` for rows of signed digits and byte `start` + 16l + 4v + f of the rows
    /// i, at most [`MOST_SAMPLES`] in fours. Tiles read as many more digits, of 0, as make a multiple of 64. Without `add` the sums
    /// are overwritten.
    ///
    /// # Safety
    /// 64 bytes are readable `start` bytes after each pointer.
    pub(crate) unsafe fn group(
        &mut self,
        (rows, start): (&[*const u8], usize),
        digits: Digits<'_>,
        add: bool,
        (sums, apart): (&mut [i32], usize),
    ) {
        digits.check(rows.len());
        assert!(apart >= digits.rows * LANES && sums.len() >= 3 * apart + digits.rows * LANES);
        let sums = sums.as_mut_ptr();
        // SAFETY: the caller's promise and the asserts; `is_available` held in `new`.
        unsafe {
            match self.products.instructions {
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 | InstructionSet::Avx512 => {
                    x86::group_avx2((rows, start), digits, add, (sums, apart));
                }
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Vnni => x86::group_vnni((rows, start), digits, add, (sums, apart)),
                #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
                InstructionSet::Amx => {
                    let quads = self.products.quads.as_mut_ptr();
                    x86::interleave(rows, start, quads);
                    for half in 0..2 {
                        let quads = (quads.add(2 * half * QUADS).cast_const(), 2);
                        self.columns_on_tiles(quads, rows.len() / 4, digits, add, (sums.add(2 * half * apart), apart));
                    }
                }
                _ => group_of::<Plain>((rows, start), digits, add, (sums, apart)),
            }
        }
    }

    /// `sums[r·16 + c] += Σ_i digits_ri · byte_i` for byte `start` + c of the rows; otherwise as [`Self::group`].
    ///
    /// # Safety
    /// Sixteen bytes are readable `start` bytes after each pointer.
    pub(crate) unsafe fn sixteen(
        &mut self,
        (rows, start): (&[*const u8], usize),
        digits: Digits<'_>,
        add: bool,
        sums: &mut [i32],
    ) {
        digits.check(rows.len());
        assert!(sums.len() >= digits.rows * LANES);
        for (rows, line) in rows.as_chunks::<4>().0.iter().zip(&mut self.products.quads) {
            // SAFETY: the caller's promise.
            unsafe { interleave_sixteen(*rows, start, line) };
        }
        let (quads, sums) = ((self.products.quads.as_ptr(), rows.len() / 4), sums.as_mut_ptr());
        // SAFETY: the asserts; `is_available` held in `new`.
        unsafe {
            match self.products.instructions {
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 | InstructionSet::Avx512 => x86::sixteen_avx2(quads, digits, add, sums),
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Vnni => x86::sixteen_vnni(quads, digits, add, sums),
                #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
                InstructionSet::Amx => self.columns_on_tiles((quads.0, 1), quads.1, digits, add, (sums, 0)),
                _ => sixteen_of::<Plain>(quads, digits, add, sums),
            }
        }
    }

    /// The sums of one or two lines of sixteen columns, [`QUADS`] lines of `count` quads each.
    ///
    /// # Safety
    /// As [`Self::group`].
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    unsafe fn columns_on_tiles(
        &mut self,
        (quads, lines): (*const Line, usize),
        count: usize,
        digits: Digits<'_>,
        add: bool,
        (sums, apart): (*mut i32, usize),
    ) {
        let mut first = 0;
        while first < digits.rows {
            let left = digits.rows - first;
            let rows = left.div_ceil(left.div_ceil(MOST_DIGIT_ROWS));
            self.reshape(Operands::Digits(rows), || tiles::column_shapes(rows));
            let columns = tiles::Columns {
                digits: digits.bytes[first * GROUP..].as_ptr(),
                rows,
                digits_step: digits.step,
                quads: quads.cast(),
                other_quads: (lines == 2).then_some(QUADS * GROUP),
                steps: count.div_ceil(LANES),
                sums: sums.wrapping_add(first * LANES),
                other_sums: apart * size_of::<i32>(),
                add,
            };
            // SAFETY: the caller's promise; the tiles have these shapes.
            unsafe { tiles::column_products(columns) };
            first += rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_gives_the_products_of_the_definition() {
        let of = |instructions| known_answers(&mut Products::new(instructions));
        let expected = of(InstructionSet::Scalar);
        for set in InstructionSet::available() {
            assert!(of(set) == expected, "{set:?}");
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    fn tiles_that_a_processor_has_are_used() {
        assert_eq!(InstructionSet::Amx.is_available(), tiles::available());
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    fn quads_of_sixteen_lines_are_transposed() {
        let line = |line: usize| Line(std::array::from_fn(|byte| (line * 64 + byte * 5) as u8));
        let lines: [Line; LANES] = std::array::from_fn(line);
        for quads in [4, 12, LANES] {
            let mut out = [EMPTY; 3 * LANES];
            // SAFETY: sixteen lines at these distances; this build has AVX-512.
            unsafe { x86::transpose_quads(lines.as_ptr(), quads, (out.as_mut_ptr(), 3)) };
            for (quad, line) in out.iter().step_by(3).enumerate() {
                for (byte, &found) in line.0.iter().enumerate() {
                    let expected = if quad < quads { lines[byte / 4].0[4 * quad + byte % 4] } else { 0 };
                    assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn sums_of_every_set_are_those_of_the_definition() {
        const SAMPLES: usize = 132;
        const APART: usize = 40 * LANES;
        let rows: Vec<u8> = (0..SAMPLES * 80).map(|place| (place * 31 % 251) as u8).collect();
        let pointers: Vec<*const u8> = (0..SAMPLES).map(|row| rows[row * 80..].as_ptr()).collect();
        let digit = |row: usize, sample: usize| (row * 89 + sample * 57) as i8;
        for digit_rows in [1, 5, 20, 37] {
            let step = digit_rows * GROUP;
            let mut bytes = vec![0; 3 * step];
            for (row, sample) in (0..digit_rows).flat_map(|row| (0..SAMPLES).map(move |sample| (row, sample))) {
                bytes[sample / GROUP * step + row * GROUP + sample % GROUP] = digit(row, sample) as u8;
            }
            let digits = Digits { bytes: &bytes, rows: digit_rows, step };
            for set in InstructionSet::available() {
                let mut products = Products::new(set);
                let mut session = products.session();
                let mut sums = vec![0; 5 * APART];
                let (of_group, of_sixteen) = sums.split_at_mut(4 * APART);
                // SAFETY: rows of 80 bytes.
                unsafe {
                    session.group((&pointers, 13), digits, false, (of_group, APART));
                    session.sixteen((&pointers, 64), digits, false, of_sixteen);
                }
                for (place, &sum) in sums.iter().enumerate() {
                    let (line, row, lane) = (place / APART, place % APART / LANES, place % LANES);
                    let byte = if line == 4 { 64 + lane } else { 13 + 4 * line + lane / 4 * 16 + lane % 4 };
                    let of_sample = |sample| i32::from(digit(row, sample)) * i32::from(rows[sample * 80 + byte]);
                    let expected = if row < digit_rows { (0..SAMPLES).map(of_sample).sum() } else { 0 };
                    assert_eq!(sum, expected, "{set:?}, {digit_rows} rows of digits, line {line}, {row}, {lane}");
                }
            }
        }
    }
}

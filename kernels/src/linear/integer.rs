//! Rows of bytes on integer tiles: margins and gradients of [`super::accumulate`] whose sums are exact.
//!
//! A weight is written as `step_k · w` with an integer w of three signed digits of 8 bits, a coefficient as `step · q`
//! with an integer q of four. Bytes are integers already. All that is then summed are products of a byte and a digit, in
//! 32-bit integers, which never overflow here and never round; the digits' sums meet again in f64, exactly. So
//!
//! - a margin is off by at most `2⁻²⁴ · 2·max_j|W_kj| · Σ_j|a_ij|`, as if each weight had been rounded once to f32 beside the
//!   greatest one of its output; a few roundings of f32 follow, none of which grows with the number of features;
//! - a gradient's sum is exact but for one f64 rounding in 512 rows (two among the last 64 features), after the coefficients were cut to multiples of `step`
//!   towards zero: ‖q ⊗ a‖ can only shrink.
//!
//! **Privacy.** `step` follows from public numbers alone ([`step_exponent`]), but for recorded queries of which no bound is
//! known. The contribution of a row to the integer sums is then a function of this row and the parameters,
//! whatever the other rows are and wherever it stands: sums of integers do not depend on their order. Its norm is at most
//! C in real arithmetic ([`super::clipping::ClipRule`]: the coefficients are below, and cutting shortens them
//! coordinate by coordinate). So the integer sums of neighbours differ by one such contribution, exactly; what
//! [`super::computed_sensitivity`] and [`super::clipping::Additions`] add to C covers the f64 additions, for blocks of one row
//! as well. The tests below compare neighbours, and `rounds audit --rows bytes`
//! attacks releases that come here.

use super::driver::coefficients;
use super::packing::split;
use super::residuals::BlockRows;
use super::{BLOCK_ROWS, Batch, Clip, LinearModel, NonFiniteGradient, Query, Tally};
use crate::features::{Selection, U8Rows};
use crate::tiles::{self, ByteRows, Cache, Configured, Shapes, TILE_BYTES};
use crate::vector::lanes::LANES;
use core::arch::x86_64 as arch;
use std::ops::Range;

/// Rows whose coefficients are summed in 32-bit integers. Of the first digit, at most 32, the sum is below 2³¹ also when
/// it is multiplied by 2⁸ and the sum of the second one, of at most 128, is added: `512·255·(32·256 + 128) < 2³¹`.
pub(super) const SUMMED_ROWS: usize = 512;

/// Rows that go through the tiles together for their margins.
const TOGETHER: usize = 32;

/// Features of a step: the width of a tile.
const GROUP: usize = 64;

/// Digits of a weight.
const WEIGHT_DIGITS: usize = 3;

/// Digits of a coefficient.
const COEFFICIENT_DIGITS: usize = 4;

/// Outputs whose margins come out of two tiles: three columns each.
const MARGIN_OUTPUTS: usize = 10;

/// Outputs whose gradients come out of three tiles: four rows each.
const GRADIENT_OUTPUTS: usize = 12;

/// The greatest integer that three signed digits hold.
const GREATEST_WEIGHT: f32 = 8_355_711.0;

/// Coefficients are at most 2²⁹ steps long.
const COEFFICIENT_BITS: i32 = 29;

/// Fewer rows than this cost less without packing digits.
pub(super) const LEAST_ROWS: usize = 32;

/// 64 bytes, a cache line and a row of a tile.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

const EMPTY: Line = Line([0; 64]);

/// Weights in digits, as [`tiles::row_products`] reads them: for each run of at most ten outputs, for each group of 64
/// features, one or two tiles.
#[derive(Debug)]
struct Digits {
    lines: Vec<Line>,
    /// The value of one unit of each output's last digit.
    steps: Vec<f32>,
    biases: Vec<f32>,
}

/// Tiles of margins that a run of `outputs` outputs takes.
fn margin_tiles(outputs: usize) -> usize {
    (WEIGHT_DIGITS * outputs).div_ceil(LANES)
}

impl Digits {
    fn new(model: &LinearModel) -> Self {
        let groups = model.features.div_ceil(GROUP);
        let tiles: usize = split(model.outputs, MARGIN_OUTPUTS)
            .map(|(_, outputs)| margin_tiles(outputs))
            .sum();
        Digits {
            lines: vec![EMPTY; tiles * groups * LANES],
            steps: vec![0.0; model.outputs],
            biases: vec![0.0; model.outputs],
        }
    }

    /// Packs row-major `[outputs, features + bias]` parameters. Whether their size lets them be written in digits.
    fn pack(&mut self, model: &LinearModel, parameters: &[f32]) -> bool {
        let (features, width) = (model.features, model.features + usize::from(model.bias));
        let groups = features.div_ceil(GROUP);
        let weights_of = |output: usize| &parameters[output * width..][..features];
        for output in 0..model.outputs {
            let Some(step) = step_of(weights_of(output)) else {
                return false;
            };
            self.steps[output] = step;
            self.biases[output] = if model.bias {
                parameters[output * width + features]
            } else {
                0.0
            };
        }
        let mut lines = &mut self.lines[..];
        for (first, outputs) in split(model.outputs, MARGIN_OUTPUTS) {
            let tiles = margin_tiles(outputs);
            for group in 0..groups {
                let tail = group + 1 == groups;
                let start = if tail { features - GROUP } else { group * GROUP };
                let stale = if tail { groups * GROUP - features } else { 0 };
                let mut columns = [EMPTY; 2 * LANES];
                for output in 0..outputs {
                    let weights: &[f32; GROUP] = weights_of(first + output)[start..].first_chunk().expect("a group");
                    let inverse = 1.0 / self.steps[first + output];
                    let mut fresh = [0.0; GROUP];
                    let weights = if stale > 0 {
                        // The last group begins inside the one before: what was there already counts once.
                        fresh[stale..].copy_from_slice(&weights[stale..]);
                        &fresh
                    } else {
                        weights
                    };
                    for (digit, line) in weight_digits(weights, inverse).into_iter().enumerate() {
                        columns[(WEIGHT_DIGITS - 1 - digit) * outputs + output] = line;
                    }
                }
                for tile in 0..tiles {
                    let (packed, rest) = std::mem::take(&mut lines).split_at_mut(LANES);
                    transpose_words(
                        columns[tile * LANES..].first_chunk().expect("two tiles of columns"),
                        packed.first_chunk_mut().expect("split there"),
                    );
                    lines = rest;
                }
            }
        }
        true
    }
}

/// The power of two of which the weights become multiples, at most [`GREATEST_WEIGHT`] times; `None` for weights that are not
/// finite or so large that f32 might not hold what follows.
fn step_of(weights: &[f32]) -> Option<f32> {
    const GREATEST_EXPONENT: i32 = 60;
    const LEAST_EXPONENT: i32 = -60;
    let mut greatest = [0_u32; LANES];
    let (whole, rest) = weights.as_chunks::<LANES>();
    let magnitude = |weight: f32| weight.to_bits() & 0x7fff_ffff;
    for weights in whole {
        for (greatest, &weight) in greatest.iter_mut().zip(weights) {
            *greatest = magnitude(weight).max(*greatest);
        }
    }
    let greatest = greatest
        .into_iter()
        .chain(rest.iter().map(|&weight| magnitude(weight)))
        .max()?;
    let exponent = (greatest >> 23) as i32 - 127;
    if exponent > GREATEST_EXPONENT {
        return None;
    }
    let step = power_of_two(exponent.max(LEAST_EXPONENT) - 22);
    Some(if f32::from_bits(greatest) / step > GREATEST_WEIGHT {
        2.0 * step
    } else {
        step
    })
}

/// `2^exponent`, for normal numbers.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// The three digits of 64 weights, the last digit first. The word at place 4l + m of a line holds weights
/// 16m + 4l … + 3 ([`WORD_ORDER`]).
#[inline(always)]
fn weight_digits(weights: &[f32; GROUP], inverse_step: f32) -> [Line; WEIGHT_DIGITS] {
    // SAFETY: the build has AVX-512; 64 weights are there, and a line takes 64 bytes, aligned.
    unsafe {
        let inverse_step = arch::_mm512_set1_ps(inverse_step);
        let (halves, byte) = (arch::_mm512_set1_epi32(0x0080_8080), arch::_mm512_set1_epi32(0xff));
        let [a, b, c, d] = std::array::from_fn(|part| {
            let lanes = arch::_mm512_loadu_ps(weights.as_ptr().add(part * LANES));
            let integers = arch::_mm512_cvtps_epi32(arch::_mm512_mul_ps(lanes, inverse_step));
            arch::_mm512_xor_si512(arch::_mm512_add_epi32(integers, halves), halves)
        });
        let pack = |[a, b, c, d]: [arch::__m512i; 4]| {
            let [a, b, c, d] = [a, b, c, d].map(|lanes| arch::_mm512_and_si512(lanes, byte));
            let mut line = EMPTY;
            let bytes = arch::_mm512_packus_epi16(arch::_mm512_packus_epi32(a, b), arch::_mm512_packus_epi32(c, d));
            arch::_mm512_store_si512(line.0.as_mut_ptr().cast(), bytes);
            line
        };
        let all = [a, b, c, d];
        [
            pack(all),
            pack(all.map(|lanes| arch::_mm512_srli_epi32::<8>(lanes))),
            pack(all.map(|lanes| arch::_mm512_srli_epi32::<16>(lanes))),
        ]
    }
}

/// The places of the words of a line of digits among a tile's rows of four features.
const WORD_ORDER: [usize; LANES] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// Integers in signed digits of 8 bits, the last digit first: `n = Σ_j 256^j · digit_j`. Adding 128 to each digit carries
/// as it must, and flipping the upper bit takes the 128 off again.
#[inline(always)]
fn signed_digits(integers: arch::__m512i, halves: u32) -> [arch::__m128i; COEFFICIENT_DIGITS] {
    // SAFETY: the build has AVX-512; registers only.
    unsafe {
        let halves = arch::_mm512_set1_epi32(halves as i32);
        let shifted = arch::_mm512_xor_si512(arch::_mm512_add_epi32(integers, halves), halves);
        [
            arch::_mm512_cvtepi32_epi8(shifted),
            arch::_mm512_cvtepi32_epi8(arch::_mm512_srli_epi32::<8>(shifted)),
            arch::_mm512_cvtepi32_epi8(arch::_mm512_srli_epi32::<16>(shifted)),
            arch::_mm512_cvtepi32_epi8(arch::_mm512_srli_epi32::<24>(shifted)),
        ]
    }
}

/// The 16 × 16 words of 32 bits of `rows`, transposed and in their order: from one column of weights a line to a tile.
fn transpose_words(rows: &[Line; LANES], out: &mut [Line; LANES]) {
    // SAFETY: the build has AVX-512; lines are 64 bytes, aligned.
    unsafe {
        let columns = transposed(std::array::from_fn(|row| {
            arch::_mm512_load_si512(rows[row].0.as_ptr().cast())
        }));
        for (place, column) in WORD_ORDER.into_iter().zip(columns) {
            arch::_mm512_store_si512(out[place].0.as_mut_ptr().cast(), column);
        }
    }
}

/// Sixteen vectors of sixteen words, transposed.
#[inline(always)]
fn transposed(rows: [arch::__m512i; LANES]) -> [arch::__m512i; LANES] {
    // SAFETY: the build has AVX-512; registers only.
    unsafe {
        // Within each quarter of a register: word w of rows 4r … 4r + 3, for the quarter's four columns.
        let mut fours = rows;
        for four in 0..4 {
            let [a, b, c, d] = std::array::from_fn(|row| rows[4 * four + row]);
            let (ab, ab_high) = (arch::_mm512_unpacklo_epi32(a, b), arch::_mm512_unpackhi_epi32(a, b));
            let (cd, cd_high) = (arch::_mm512_unpacklo_epi32(c, d), arch::_mm512_unpackhi_epi32(c, d));
            fours[4 * four] = arch::_mm512_unpacklo_epi64(ab, cd);
            fours[4 * four + 1] = arch::_mm512_unpackhi_epi64(ab, cd);
            fours[4 * four + 2] = arch::_mm512_unpacklo_epi64(ab_high, cd_high);
            fours[4 * four + 3] = arch::_mm512_unpackhi_epi64(ab_high, cd_high);
        }
        let mut columns = rows;
        for column in 0..4 {
            let quarters = transposed_quarters(std::array::from_fn(|four| fours[4 * four + column]));
            for (quarter, lanes) in quarters.into_iter().enumerate() {
                columns[4 * quarter + column] = lanes;
            }
        }
        columns
    }
}

/// Four vectors of four quarters, transposed.
#[inline(always)]
fn transposed_quarters([a, b, c, d]: [arch::__m512i; 4]) -> [arch::__m512i; 4] {
    // SAFETY: the build has AVX-512; registers only.
    unsafe {
        let (ab_low, ab_high) = (
            arch::_mm512_shuffle_i32x4::<0b01_00_01_00>(a, b),
            arch::_mm512_shuffle_i32x4::<0b11_10_11_10>(a, b),
        );
        let (cd_low, cd_high) = (
            arch::_mm512_shuffle_i32x4::<0b01_00_01_00>(c, d),
            arch::_mm512_shuffle_i32x4::<0b11_10_11_10>(c, d),
        );
        [
            arch::_mm512_shuffle_i32x4::<0b10_00_10_00>(ab_low, cd_low),
            arch::_mm512_shuffle_i32x4::<0b11_01_11_01>(ab_low, cd_low),
            arch::_mm512_shuffle_i32x4::<0b10_00_10_00>(ab_high, cd_high),
            arch::_mm512_shuffle_i32x4::<0b11_01_11_01>(ab_high, cd_high),
        ]
    }
}

/// Scratch memory: part of a [`super::Workspace`].
#[derive(Debug)]
pub(super) struct Scratch {
    /// Features and outputs of the model that it was made for.
    shape: (usize, usize),
    current: Digits,
    previous: Digits,
    /// Rows that do not follow each other in memory, copied: `[32][row lines]`.
    rows: Vec<Line>,
    /// Lines of a row of `rows`.
    row_lines: usize,
    /// Sums of the tiles: margins `[32][32]`, gradients twice `[4][48][16]`; and space to load beyond their ends.
    sums: Vec<i32>,
    /// Coefficients in digits: `[4·output + digit][512]`.
    coefficients: Vec<Line>,
    /// A group of features of all rows, four rows interleaved: twice `[steps of 64 rows][4][16 lines]`.
    quads: Vec<Line>,
    /// Σ q of each output in steps, for the bias.
    totals: Vec<i64>,
    row_shapes: Shapes,
}

/// Sums of 64 features of a run of outputs: four tiles of 48 rows.
const GRADIENT_SUMS: usize = 4 * 48 * LANES;

/// Lines of 64 features of all rows.
const QUAD_LINES: usize = SUMMED_ROWS;

/// Lines of a row of coefficients' digits.
const DIGIT_LINES: usize = SUMMED_ROWS / GROUP;

impl Scratch {
    /// For `model`, if this processor has the tiles and the model the shape for which they pay.
    pub(super) fn new(model: &LinearModel) -> Option<Box<Self>> {
        super::has_integer_tiles_for(model).then(|| {
            let row_lines = model.features.div_ceil(GROUP);
            Box::new(Scratch {
                shape: (model.features, model.outputs),
                current: Digits::new(model),
                previous: Digits::new(model),
                rows: vec![EMPTY; TOGETHER * row_lines],
                row_lines,
                sums: vec![0; 2 * GRADIENT_SUMS],
                coefficients: vec![EMPTY; COEFFICIENT_DIGITS * model.outputs * DIGIT_LINES],
                quads: vec![EMPTY; 2 * QUAD_LINES],
                totals: vec![0; model.outputs],
                row_shapes: tiles::row_shapes(),
            })
        })
    }

    /// Packs the weights of the margins. Returns true if the kernels of this module take them.
    ///
    /// # Panics
    /// A model of another shape than this scratch was made for.
    pub(super) fn prepare(&mut self, model: &LinearModel, parameters: &[f32]) -> bool {
        self.check(model);
        self.current.pack(model, parameters)
    }

    /// Checks that this scratch was made for models of this shape.
    ///
    /// # Panics
    /// It was not.
    pub(super) fn check(&self, model: &LinearModel) {
        let shape = (model.features, model.outputs);
        assert_eq!(
            shape, self.shape,
            "features and outputs of the model (left) and of its workspace (right)"
        );
    }

    /// Margins of the rows at `positions` of the selection, at most 128: `out[k·128 + i]`.
    pub(super) fn margins(
        &mut self,
        rows: U8Rows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        out: &mut [f32],
    ) {
        let _configured = self.row_shapes.configure();
        self.margins_of_sides(rows, selection, positions, [out, &mut []]);
    }

    /// `sum += Σ_i q_i ⊗ a_i` over the rows at `positions` of the selection, at most [`SUMMED_ROWS`]:
    /// `coefficients[p·K·128 + k·128 + i]` is q_k of the i-th row of the p-th 128, 0 beyond the rows up to a whole vector.
    /// Without the exponent of a step, it is 2⁻²⁹ of the power of two above the greatest coefficient, and nothing is promised
    /// about neighbours.
    #[allow(
        clippy::too_many_arguments,
        reason = "hot code: the parts of a workspace and a batch are borrowed apart"
    )]
    pub(super) fn add_outer(
        &mut self,
        model: &LinearModel,
        rows: U8Rows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        coefficients: &[f32],
        step: Option<i32>,
        sum: &mut [f64],
    ) {
        let count = positions.len();
        let parts = || {
            coefficients
                .chunks_exact(model.outputs * BLOCK_ROWS)
                .zip((0..count).step_by(BLOCK_ROWS))
        };
        let rows_from = |first: usize| (count - first).min(BLOCK_ROWS);
        let step = step.unwrap_or_else(|| {
            let exponents = parts().map(|(part, first)| exponent_of(part, model.outputs, rows_from(first)));
            exponents.max().unwrap_or(0) - COEFFICIENT_BITS
        });
        self.totals.fill(0);
        for (part, first) in parts() {
            self.write_digits(part, rows_from(first), first, step);
        }
        let mut pointers = [std::ptr::null(); SUMMED_ROWS];
        for (pointer, position) in pointers.iter_mut().zip(positions.clone()) {
            let row = selection.row(position);
            *pointer = rows.row(row).as_ptr();
        }
        let mut configured = self.row_shapes.configure();
        self.add_block(model, &mut pointers, count, step, rows.scale, sum, &mut configured);
    }

    /// `sum += 2^step · Σ_i q_i ⊗ (scale·bytes_i, 1)` over the first `count` rows at `pointers`, whose digits were written;
    /// the 1 is that of a bias.
    #[allow(
        clippy::too_many_arguments,
        reason = "hot code: the parts of a workspace and a batch are borrowed apart"
    )]
    fn add_block(
        &mut self,
        model: &LinearModel,
        pointers: &mut [*const u8; SUMMED_ROWS],
        count: usize,
        step: i32,
        scale: f32,
        sum: &mut [f64],
        configured: &mut Configured,
    ) {
        let padded = count.next_multiple_of(GROUP);
        let last = pointers[count.saturating_sub(1)];
        pointers[count..padded].fill(last);
        let worth = f64::from(power_of_two(step));
        self.add_gradient(model, &pointers[..padded], worth * f64::from(scale), sum, configured);
        if model.bias {
            for (output, &total) in self.totals.iter().enumerate() {
                sum[output * (model.features + 1) + model.features] += total as f64 * worth;
            }
        }
    }

    /// [`Self::margins`] at one or two points, an empty slice for none.
    fn margins_of_sides(
        &mut self,
        rows: U8Rows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        mut out: [&mut [f32]; 2],
    ) {
        let Scratch {
            shape,
            current,
            previous,
            rows: copies,
            row_lines,
            sums,
            ..
        } = self;
        let row_lines = *row_lines;
        assert_eq!(
            rows.columns, shape.0,
            "columns of the rows (left) and features of the workspace (right)"
        );
        let mut prefetch = [std::ptr::null(); TOGETHER];
        for first in positions.clone().step_by(TOGETHER) {
            let count = (positions.end - first).min(TOGETHER);
            let operand = match selection {
                Selection::Range(range) if count == TOGETHER => {
                    let of_rows = &rows.values[(range.start + first) * rows.stride..]
                        [..(TOGETHER - 1) * rows.stride + rows.columns];
                    // A step's bytes are prefetched two steps before: rows may lie across cache lines.
                    for (row, prefetch) in prefetch.iter_mut().enumerate() {
                        *prefetch = of_rows.as_ptr().wrapping_add(row * rows.stride + 2 * GROUP);
                    }
                    ByteRows {
                        start: of_rows.as_ptr(),
                        stride: rows.stride,
                        groups: row_lines,
                        tail: rows.columns - GROUP,
                        prefetch: &prefetch,
                        cache: Cache::First,
                    }
                }
                _ => {
                    for (offset, copy) in copies.chunks_exact_mut(row_lines).enumerate().take(count) {
                        let row = selection.row(first + offset);
                        copy_row(rows.row(row), copy);
                    }
                    // Prefetches the rows that are copied next.
                    let next = first + count..(first + count + TOGETHER).min(selection.len());
                    prefetch.fill(copies.as_ptr().cast());
                    for (prefetch, position) in prefetch.iter_mut().zip(next) {
                        *prefetch = rows.values.as_ptr().wrapping_add(selection.row(position) * rows.stride);
                    }
                    ByteRows {
                        start: copies.as_ptr().cast(),
                        stride: row_lines * GROUP,
                        groups: row_lines,
                        tail: rows.columns - GROUP,
                        prefetch: &prefetch,
                        cache: Cache::Second,
                    }
                }
            };
            for (digits, out) in [&*current, &*previous].into_iter().zip(&mut out) {
                if !out.is_empty() {
                    products(operand, digits, rows.scale, sums, out, first - positions.start);
                }
            }
        }
    }
}

/// A row to its place among the copies.
#[inline(always)]
fn copy_row(row: &[u8], copy: &mut [Line]) {
    let (whole, rest) = row.as_chunks::<GROUP>();
    for (to, from) in copy.iter_mut().zip(whole) {
        to.0 = *from;
    }
    if !rest.is_empty() {
        copy[whole.len()].0[..rest.len()].copy_from_slice(rest);
    }
}

/// Margins of 32 rows: `out[k·128 + row + i]`.
fn products(operand: ByteRows<'_>, digits: &Digits, scale: f32, sums: &mut [i32], out: &mut [f32], row: usize) {
    let mut weights = digits.lines.as_ptr().cast::<u8>();
    let outputs = digits.steps.len();
    for (first, outputs) in split(outputs, MARGIN_OUTPUTS) {
        let tiles = margin_tiles(outputs);
        assert!(sums.len() >= TOGETHER * tiles * LANES + LANES);
        // SAFETY: the callers configured the tiles and made the operand of 32 whole rows; weights were packed for as many
        // groups; the assert covers the sums.
        unsafe { tiles::row_products(operand, weights, tiles, sums.as_mut_ptr()) };
        weights = weights.wrapping_add(operand.groups * tiles * TILE_BYTES);
        let mut steps = [0.0; LANES];
        let mut biases = [0.0; LANES];
        for (lane, (step, bias)) in digits.steps[first..]
            .iter()
            .zip(&digits.biases[first..])
            .enumerate()
            .take(outputs)
        {
            (steps[lane], biases[lane]) = (step * scale, *bias);
        }
        for half in (0..TOGETHER).step_by(LANES) {
            // SAFETY: the build has AVX-512. The last load of a row ends 2·outputs + 16 ≤ 16·tiles + 16 words after its
            // begin, which the assert covers.
            unsafe {
                let biases = arch::_mm512_loadu_ps(biases.as_ptr());
                let last = arch::_mm512_loadu_ps(steps.as_ptr());
                let middle = arch::_mm512_mul_ps(last, arch::_mm512_set1_ps(256.0));
                let greatest = arch::_mm512_mul_ps(last, arch::_mm512_set1_ps(65_536.0));
                let rows: [arch::__m512i; LANES] = std::array::from_fn(|row| {
                    let sums = sums.as_ptr().add((half + row) * tiles * LANES);
                    let load =
                        |place: usize| arch::_mm512_cvtepi32_ps(arch::_mm512_loadu_si512(sums.add(place).cast()));
                    let margin = arch::_mm512_fmadd_ps(load(2 * outputs), last, biases);
                    let margin = arch::_mm512_fmadd_ps(load(outputs), middle, margin);
                    arch::_mm512_castps_si512(arch::_mm512_fmadd_ps(load(0), greatest, margin))
                });
                for (output, margins) in transposed(rows).into_iter().enumerate().take(outputs) {
                    let out = &mut out[(first + output) * BLOCK_ROWS + row + half..][..LANES];
                    arch::_mm512_storeu_ps(out.as_mut_ptr(), arch::_mm512_castsi512_ps(margins));
                }
            }
        }
    }
}

/// The least power of two that is not below `value`: its exponent.
fn exponent_above(value: f32) -> i32 {
    let bits = value.to_bits();
    (bits >> 23) as i32 - 127 + i32::from(bits & 0x007f_ffff != 0)
}

/// The exponent of a step that lets every coefficient be written: from a bound Q of `|q_ik|`, which is the lesser of
/// `weight·max|φ′|`, max|φ′| = 1 for softmax, and `C/ν`. ν is the least norm of a row that is not zero: 1 with a bias, else
/// that of a single byte of 1. (Coefficients of zero rows may exceed Q; they are cut to it and multiply zeros.) Both bounds
/// are public, and no row changes them. With a public bound far above C/‖a‖ (bytes that are not scaled down, clipped in L1) few
/// bits are left: that only shortens. `None` where the bound is not finite or too large.
pub(super) fn step_exponent(model: &LinearModel, weight: f32, clip: Clip, scale: f32) -> Option<i32> {
    let by_clip = match clip {
        Clip::Unbounded => f32::INFINITY,
        Clip::Bounded { clip_norm, .. } => clip_norm / if model.bias { 1.0 } else { scale.abs() },
    };
    let bound = weight.min(by_clip).max(f32::MIN_POSITIVE);
    let exponent = exponent_above(bound).max(LEAST_COEFFICIENT_EXPONENT);
    (exponent <= GREATEST_COEFFICIENT_EXPONENT).then_some(exponent - COEFFICIENT_BITS)
}

/// Coefficients below 2⁻⁶⁰ need no finer steps, and above 2⁹⁰ another kernel.
const LEAST_COEFFICIENT_EXPONENT: i32 = -60;
const GREATEST_COEFFICIENT_EXPONENT: i32 = 90;

/// [`super::accumulate`] on rows of bytes; `None` where it does not apply, and nothing was added then.
#[allow(
    clippy::too_many_arguments,
    reason = "hot code: the parts of a workspace and a batch are borrowed apart"
)]
pub(super) fn accumulate(
    model: &LinearModel,
    batch: &Batch<'_>,
    rows: U8Rows<'_>,
    query: &Query<'_>,
    norms: Option<&[f32]>,
    sum: &mut [f64],
    scratch: &mut Scratch,
    (margins, others, block_rows): (&mut [f32], &mut [f32], &mut BlockRows),
) -> Option<Result<Tally, NonFiniteGradient>> {
    let weight = query.current.coefficient.abs() + query.previous.map_or(0.0, |point| point.coefficient.abs());
    let step = step_exponent(model, weight, query.clip, rows.scale)?;
    if let Some(point) = &query.previous
        && !scratch.previous.pack(model, point.parameters)
    {
        return None;
    }
    let mut configured = scratch.row_shapes.configure();
    let mut tally = Tally::default();
    let total = batch.selection.len();
    let mut pointers = [std::ptr::null(); SUMMED_ROWS];
    for block in (0..total).step_by(SUMMED_ROWS) {
        let block_end = (block + SUMMED_ROWS).min(total);
        scratch.totals.fill(0);
        for start in (block..block_end).step_by(BLOCK_ROWS) {
            let count = (block_end - start).min(BLOCK_ROWS);
            let at = start..start + count;
            block_rows.gather(&batch.selection, at.clone(), Some(batch.targets), norms, model.outputs);
            for (pointer, &id) in pointers[start - block..].iter_mut().zip(&block_rows.ids[..count]) {
                *pointer = rows.row(id).as_ptr();
            }
            let previous = if query.previous.is_some() {
                &mut others[..]
            } else {
                &mut []
            };
            scratch.margins_of_sides(rows, &batch.selection, at, [&mut margins[..], previous]);
            if let Err(error) = coefficients(model, query, count, block_rows, margins, others, &mut tally) {
                return Some(Err(error));
            }
            scratch.write_digits(margins, count, start - block, step);
        }
        scratch.add_block(
            model,
            &mut pointers,
            block_end - block,
            step,
            rows.scale,
            sum,
            &mut configured,
        );
        if block_end < total {
            configured.reshape(&scratch.row_shapes);
        }
    }
    Some(Ok(tally))
}

/// The exponent of the power of two above all coefficients of a block.
fn exponent_of(coefficients: &[f32], outputs: usize, rows: usize) -> i32 {
    let greatest = coefficients
        .chunks_exact(BLOCK_ROWS)
        .take(outputs)
        .flat_map(|output| &output[..rows])
        .fold(0.0_f32, |greatest, value| greatest.max(value.abs()));
    // What is below 2⁻¹²⁶ times a step or above 2¹²⁸ is no normal f32.
    exponent_above(greatest.max(f32::MIN_POSITIVE)).clamp(COEFFICIENT_BITS - 126, 128)
}

impl Scratch {
    /// Writes `coefficients[k·128 + i]` of `count` rows in steps of 2^step, cut towards zero, as the digits of rows `first`
    /// and on; zeros behind them up to a whole tile.
    fn write_digits(&mut self, coefficients: &[f32], count: usize, first: usize, step: i32) {
        const GREATEST: f32 = (1_u32 << COEFFICIENT_BITS) as f32;
        let digits: &mut [u8] = bytes_of(&mut self.coefficients);
        for (output, total) in self.totals.iter_mut().enumerate() {
            for start in (0..count).step_by(LANES) {
                let lanes = &coefficients[output * BLOCK_ROWS + start..][..LANES];
                // SAFETY: the build has AVX-512; sixteen coefficients are there.
                let (integers, sum) = unsafe {
                    let scaled = arch::_mm512_mul_ps(
                        arch::_mm512_loadu_ps(lanes.as_ptr()),
                        arch::_mm512_set1_ps(power_of_two(-step)),
                    );
                    let scaled = arch::_mm512_min_ps(scaled, arch::_mm512_set1_ps(GREATEST));
                    let scaled = arch::_mm512_max_ps(scaled, arch::_mm512_set1_ps(-GREATEST));
                    let integers = arch::_mm512_cvttps_epi32(scaled);
                    let low = arch::_mm512_cvtepi32_epi64(arch::_mm512_castsi512_si256(integers));
                    let high = arch::_mm512_cvtepi32_epi64(arch::_mm512_extracti64x4_epi64::<1>(integers));
                    (
                        integers,
                        arch::_mm512_reduce_add_epi64(arch::_mm512_add_epi64(low, high)),
                    )
                };
                *total += sum;
                for (digit, bytes) in signed_digits(integers, 0x8080_8080).into_iter().enumerate() {
                    let place = (COEFFICIENT_DIGITS * output + digit) * SUMMED_ROWS + first + start;
                    let digits: &mut [u8; LANES] = digits[place..].first_chunk_mut().expect("a vector of digits");
                    // SAFETY: sixteen bytes.
                    unsafe { arch::_mm_storeu_si128(digits.as_mut_ptr().cast(), bytes) };
                }
            }
            let (written, whole) = (count.next_multiple_of(LANES), count.next_multiple_of(GROUP));
            for digit in 0..COEFFICIENT_DIGITS {
                let place = (COEFFICIENT_DIGITS * output + digit) * SUMMED_ROWS + first;
                digits[place + written..place + whole].fill(0);
            }
        }
    }

    /// `sum += worth · Σ_i q_i ⊗ bytes_i` over the rows at `pointers`, a multiple of 64 of them: what is repeated has digits 0.
    fn add_gradient(
        &mut self,
        model: &LinearModel,
        pointers: &[*const u8],
        worth: f64,
        sum: &mut [f64],
        configured: &mut Configured,
    ) {
        let (features, width) = (model.features, model.features + usize::from(model.bias));
        let (steps, groups) = (pointers.len() / GROUP, self.row_lines);
        let start_of = |group: usize| {
            if group + 1 == groups {
                features - GROUP
            } else {
                group * GROUP
            }
        };
        let Scratch {
            sums,
            coefficients,
            quads,
            ..
        } = self;
        let (mut sums, mut other_sums) = sums.split_at_mut(GRADIENT_SUMS);
        let (mut quads, mut next_quads) = quads.split_at_mut(QUAD_LINES);
        let all = pointers.len() / 4;
        // SAFETY: each pointer is one of a whole row, of which 64 bytes from the group's start on are read.
        unsafe { interleave(pointers, start_of(0), quads, 0..all) };
        let several = model.outputs > GRADIENT_OUTPUTS;
        if !several {
            configured.reshape(&tiles::column_shapes(COEFFICIENT_DIGITS * model.outputs));
        }
        // The tiles multiply while the vector units interleave the next features and add up what the tiles summed before.
        let mut before: Option<Summed> = None;
        for group in 0..groups {
            let summed = |first: usize, outputs: usize| Summed {
                first,
                outputs,
                start: start_of(group),
                stale: if group + 1 == groups {
                    groups * GROUP - features
                } else {
                    0
                },
            };
            for (first, outputs) in split(model.outputs, GRADIENT_OUTPUTS) {
                if several {
                    configured.reshape(&tiles::column_shapes(COEFFICIENT_DIGITS * outputs));
                }
                let digits = coefficients[COEFFICIENT_DIGITS * first * DIGIT_LINES..].as_ptr();
                let last = first + outputs == model.outputs;
                for quarter in 0..4 {
                    let quads = quads[quarter * LANES..].as_ptr();
                    let sums = sums[quarter * 48 * LANES..][..48 * LANES].as_mut_ptr();
                    // SAFETY: the tiles have these shapes; digits and quads are there for `steps` steps, and 48 rows of
                    // sums.
                    unsafe {
                        tiles::column_products(
                            (digits.cast(), SUMMED_ROWS),
                            COEFFICIENT_DIGITS * outputs,
                            (quads.cast(), 4 * TILE_BYTES),
                            steps,
                            sums,
                        );
                    }
                    if last && group + 1 < groups {
                        let part = all * quarter / 4..all * (quarter + 1) / 4;
                        // SAFETY: as above.
                        unsafe { interleave(pointers, start_of(group + 1), next_quads, part) };
                    }
                    if let Some(before) = &before {
                        before.add(quarter, other_sums, worth, sum, width);
                    }
                }
                before = Some(summed(first, outputs));
                std::mem::swap(&mut sums, &mut other_sums);
            }
            std::mem::swap(&mut quads, &mut next_quads);
        }
        if let Some(before) = before {
            for quarter in 0..4 {
                before.add(quarter, other_sums, worth, sum, width);
            }
        }
    }
}

/// Sums of the tiles: gradients of `outputs` outputs from `first` on, for the 64 features from `start` on without the
/// first `stale` of them.
#[derive(Clone, Copy, Debug)]
struct Summed {
    first: usize,
    outputs: usize,
    start: usize,
    stale: usize,
}

impl Summed {
    /// Adds a quarter of the outputs to `sum`, of `width` parameters an output.
    fn add(&self, quarter: usize, sums: &[i32], worth: f64, sum: &mut [f64], width: usize) {
        for output in self.outputs * quarter / 4..self.outputs * (quarter + 1) / 4 {
            let sums = &sums[COEFFICIENT_DIGITS * LANES * output..][..(3 * 48 + COEFFICIENT_DIGITS) * LANES];
            let sum = &mut sum[(self.first + output) * width + self.start..][..GROUP];
            // SAFETY: four quarters of four lines of sums, 48 lines apart.
            unsafe { add_digits(sums.as_ptr(), worth, self.stale, sum) };
        }
    }
}

/// Lines as bytes.
fn bytes_of(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a line is 64 bytes and nothing else.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

/// 64 bytes of each row from `start` on, four rows interleaved, for the fours in `part`: `quads[s][v][q]` holds, for rows 64s + 4q … + 3, the features
/// 16l + 4v … + 3 of each quarter l in turn, a row's byte beside the next row's.
///
/// # Safety
/// 64 bytes are readable `start` bytes after each pointer.
unsafe fn interleave(pointers: &[*const u8], start: usize, quads: &mut [Line], part: Range<usize>) {
    assert!(quads.len() >= pointers.len() && part.end * 4 <= pointers.len());
    for quad in part {
        let pointers: [*const u8; 4] = std::array::from_fn(|row| pointers[4 * quad + row]);
        let out = &mut quads[quad / LANES * GROUP + quad % LANES..];
        // SAFETY: the build has AVX-512; the caller guarantees the loads, and a line is 64 bytes, aligned.
        unsafe {
            let [a, b, c, d] = pointers.map(|pointer| arch::_mm512_loadu_si512(pointer.add(start).cast()));
            let (ab_low, ab_high) = (arch::_mm512_unpacklo_epi8(a, b), arch::_mm512_unpackhi_epi8(a, b));
            let (cd_low, cd_high) = (arch::_mm512_unpacklo_epi8(c, d), arch::_mm512_unpackhi_epi8(c, d));
            let quarters = [
                arch::_mm512_unpacklo_epi16(ab_low, cd_low),
                arch::_mm512_unpackhi_epi16(ab_low, cd_low),
                arch::_mm512_unpacklo_epi16(ab_high, cd_high),
                arch::_mm512_unpackhi_epi16(ab_high, cd_high),
            ];
            for (line, lanes) in out.iter_mut().step_by(LANES).zip(quarters) {
                arch::_mm512_store_si512(line.0.as_mut_ptr().cast(), lanes);
            }
        }
    }
}

/// `sum_j += worth · Σ_digit 256^digit · sums_digit,j` for 64 features, of which the first `stale` are left out.
///
/// # Safety
/// Four lines of sixteen sums at `sums`, and at 48, 96 and 144 lines after it.
#[inline(always)]
unsafe fn add_digits(sums: *const i32, worth: f64, stale: usize, sum: &mut [f64]) {
    let mut added = [0.0; GROUP];
    let out = if stale == 0 {
        sum.as_mut_ptr()
    } else {
        added.as_mut_ptr()
    };
    assert!(sum.len() == GROUP);
    // SAFETY: the build has AVX-512; the caller guarantees the sums, the assert for 64 results.
    unsafe {
        let mut lows = [arch::_mm512_setzero_si512(); 4];
        let (mut middles, mut highs) = (lows, lows);
        for quarter in 0..4 {
            let [last, third, second, first]: [arch::__m512i; 4] =
                std::array::from_fn(|digit| arch::_mm512_loadu_si512(sums.add((quarter * 48 + digit) * LANES).cast()));
            (lows[quarter], middles[quarter]) = (last, third);
            highs[quarter] = arch::_mm512_add_epi32(arch::_mm512_slli_epi32::<8>(first), second);
        }
        let (lows, middles, highs) = (
            transposed_quarters(lows),
            transposed_quarters(middles),
            transposed_quarters(highs),
        );
        let (byte, word, worth) = (
            arch::_mm512_set1_pd(256.0),
            arch::_mm512_set1_pd(65_536.0),
            arch::_mm512_set1_pd(worth),
        );
        let add = |place: usize, low: arch::__m256i, middle: arch::__m256i, high: arch::__m256i| {
            let whole = arch::_mm512_fmadd_pd(arch::_mm512_cvtepi32_pd(middle), byte, arch::_mm512_cvtepi32_pd(low));
            let whole = arch::_mm512_fmadd_pd(arch::_mm512_cvtepi32_pd(high), word, whole);
            let place = out.add(place);
            arch::_mm512_storeu_pd(place, arch::_mm512_fmadd_pd(whole, worth, arch::_mm512_loadu_pd(place)));
        };
        let front = |lanes| arch::_mm512_castsi512_si256(lanes);
        let back = |lanes| arch::_mm512_extracti64x4_epi64::<1>(lanes);
        for quarter in 0..4 {
            let (low, middle, high) = (lows[quarter], middles[quarter], highs[quarter]);
            add(quarter * LANES, front(low), front(middle), front(high));
            add(quarter * LANES + LANES / 2, back(low), back(middle), back(high));
        }
    }
    if stale > 0 {
        for (sum, added) in sum[stale..].iter_mut().zip(&added[stale..]) {
            *sum += added;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Norm, Rows, Targets};
    use crate::linear::driver::accumulate as accumulate_any;
    use crate::linear::{Point, RowNorms, Workspace, reference, row_norms};
    use crate::loss::Loss;

    /// Bytes, classes and parameters of a problem, from one seed.
    struct Example {
        model: LinearModel,
        bytes: Vec<u8>,
        classes: Vec<u32>,
        parameters: Vec<f32>,
        norms: RowNorms,
    }

    const SCALE: f32 = 1.0 / 255.0;

    impl Example {
        fn new(rows: usize, features: usize, outputs: usize, bias: bool) -> Self {
            let mut state = (rows * 31 + features * 7 + outputs) as u32;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16
            };
            let model = LinearModel {
                features,
                outputs,
                bias,
                loss: Loss::Softmax,
            };
            let bytes: Vec<u8> = (0..rows * features)
                .map(|_| if next() % 3 == 0 { (next() % 256) as u8 } else { 0 })
                .collect();
            let mut weights = || -> Vec<f32> {
                let weight = |_| (next() as f32 / 32_768.0 - 1.0) * 0.2;
                (0..model.parameters()).map(weight).collect()
            };
            let parameters = weights();
            let rows_of_bytes = Rows::bytes(&bytes, features, SCALE);
            let norms = row_norms(rows_of_bytes, bias, Norm::L2).expect("bytes are finite");
            Example {
                model,
                classes: (0..rows).map(|row| (row * 7 % outputs) as u32).collect(),
                parameters,
                norms,
                bytes,
            }
        }

        fn batch<'a>(&'a self, selection: Selection<'a>) -> Batch<'a> {
            Batch {
                rows: Rows::bytes(&self.bytes, self.model.features, SCALE),
                targets: Targets::Classes(&self.classes),
                norms: Some(&self.norms),
                selection,
            }
        }

        fn sum(&self, batch: &Batch<'_>, query: &Query<'_>) -> Vec<f64> {
            let workspace = Workspace::summing_rows(&self.model, 1);
            assert!(workspace.integer.is_some());
            self.sum_in(batch, query, workspace)
        }

        fn sum_in(&self, batch: &Batch<'_>, query: &Query<'_>, mut workspace: Workspace) -> Vec<f64> {
            let mut sum = vec![0.0; self.model.parameters()];
            accumulate_any(&self.model, batch, query, &mut sum, &mut workspace).expect("finite");
            sum
        }

        fn gradient(&self, clip_norm: f32) -> Query<'_> {
            Query {
                current: Point::at(&self.parameters),
                previous: None,
                clip: Clip::l2(clip_norm),
            }
        }
    }

    /// True if this processor has tiles to test.
    fn tiles_here() -> bool {
        let here = tiles::available();
        if !here {
            eprintln!("skipped: no byte tiles here");
        }
        here
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        let scale = expected
            .iter()
            .fold(1e-3_f64, |greatest, value| greatest.max(value.abs()));
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (found - expected).abs() <= tolerance * scale,
                "{place}: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn weights_too_large_for_digits_and_not_finite_ones_take_the_other_kernels() {
        if !tiles_here() {
            return;
        }
        let mut example = Example::new(64, 80, 3, true);
        example.parameters[100] = 1e30;
        let batch = example.batch(Selection::Range(0..64));
        let query = example.gradient(1.0);
        let expected = reference::sum_of_differences(&example.model, &batch, query.current, None, query.clip);
        assert_close(&example.sum(&batch, &query), &expected, 1e-5);
        let mut broken = example.parameters.clone();
        broken[100] = f32::NAN;
        let current = Point::at(&broken);
        let mut sum = vec![0.0; example.model.parameters()];
        let mut workspace = Workspace::new(&example.model);
        let outcome = accumulate_any(
            &example.model,
            &batch,
            &Query { current, ..query },
            &mut sum,
            &mut workspace,
        );
        assert!(outcome.is_err());
    }

    #[test]
    fn a_workspace_of_another_model_is_refused() {
        if !tiles_here() {
            return;
        }
        let (wide, narrow) = (Example::new(64, 784, 10, true), Example::new(64, 100, 10, true));
        let outcome = std::panic::catch_unwind(|| {
            let mut sum = vec![0.0; narrow.model.parameters()];
            let mut workspace = Workspace::new(&wide.model);
            let batch = narrow.batch(Selection::Range(0..64));
            accumulate_any(&narrow.model, &batch, &narrow.gradient(1.0), &mut sum, &mut workspace)
        });
        assert!(outcome.is_err());
    }

    #[test]
    fn the_most_features_do_not_overflow_a_margin() {
        if !tiles_here() {
            return;
        }
        let mut example = Example::new(40, 1 << 16, 2, false);
        example.bytes.fill(255);
        // Lower digits of -128 everywhere: -32,896 = -128·256 - 128.
        example.parameters.fill(-32_896.0 / 8_388_608.0);
        example.parameters[0] = 0.9;
        let rows = example.batch(Selection::Range(0..40)).rows;
        example.norms = row_norms(rows, false, Norm::L2).expect("bytes are finite");
        let batch = example.batch(Selection::Range(0..40));
        let query = example.gradient(1.0);
        let expected = reference::sum_of_differences(&example.model, &batch, query.current, None, query.clip);
        assert_close(&example.sum(&batch, &query), &expected, 1e-5);
    }

    #[test]
    fn digits_hold_every_integer_that_they_are_asked_to() {
        for value in [
            0,
            1,
            -1,
            127,
            128,
            -128,
            -129,
            255,
            256,
            32_767,
            32_896,
            -8_355_711,
            8_355_711,
            536_870_912,
            -536_870_912,
        ] {
            // SAFETY: the build has AVX-512.
            let digits = unsafe { signed_digits(arch::_mm512_set1_epi32(value), 0x8080_8080) };
            let back = digits.into_iter().enumerate().map(|(digit, bytes)| {
                // SAFETY: registers of sixteen bytes.
                let bytes: [i8; LANES] = unsafe { std::mem::transmute(bytes) };
                assert!(bytes.iter().all(|&byte| byte == bytes[0]));
                i64::from(bytes[0]) << (8 * digit)
            });
            assert_eq!(back.sum::<i64>(), i64::from(value));
        }
    }

    #[test]
    fn steps_are_powers_of_two_that_hold_the_greatest_weight() {
        for greatest in [1.0_f32, 0.9999, 1.999_999_9, 1.992, 1.993, 3e-20, 1e17, 0.1] {
            let step = step_of(&[0.0, -greatest, greatest / 3.0]).expect("moderate");
            assert_eq!(step.to_bits() & 0x007f_ffff, 0, "{step} is a power of two");
            let integer = (greatest / step).round();
            assert!(integer <= GREATEST_WEIGHT, "{greatest}: {integer}");
            assert!(
                integer >= GREATEST_WEIGHT / 2.1 || greatest < 1e-17,
                "{greatest}: {integer}"
            );
        }
        assert_eq!(step_of(&[1.0, f32::INFINITY]), None);
        assert_eq!(step_of(&[f32::NAN, 1.0]), None);
        assert!(step_of(&[0.0; 20]).is_some());
    }
}

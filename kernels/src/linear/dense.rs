//! The two loops that all time goes into: margins of a block of rows, and the block's gradient.
//!
//! Both keep their accumulators in registers. Margins: R rows × T outputs, each a vector of partial sums over
//! features, reduced at the end of the row. Gradient: T outputs × U vectors of features, rows streaming past with
//! their coefficients broadcast. Both read a row's vectors once for all T outputs. Where a register holds half a vector, as
//! with AVX2, there are half as many accumulators: margins of several outputs take one half of all vectors after the other,
//! gradients smaller tiles. Each lane's sum, and so the bits, are the same.

use super::model::LinearModel;
use super::packing::{Layout, PackedWeights, gradient_tiles, split, tiles};
use crate::features::BLOCK_ROWS;
use crate::features::Rows;
use crate::memory::CACHE_LINE;
use crate::vector::lanes::{
    self, LANES, PART_LANES, PARTS, Part, add_to_f64, join, sum_each_of_four, widen, widen_part,
};
use std::ops::Range;
use wide::f32x16;

/// Rows the kernels may read together: how many pointers a block must have beyond its last row.
pub(super) const ROW_GROUP: usize = 8;

/// The addresses of the rows of a block, of f32 or of bytes; entries from the block's length up to a multiple of [`ROW_GROUP`] repeat a row.
pub(super) type RowPointers = [*const u8; BLOCK_ROWS];

/// A feature as it is stored.
pub(super) trait Feature: Sized {
    /// Features of a part as f32.
    ///
    /// # Safety
    /// They are readable at `start`.
    unsafe fn part(start: *const Self) -> Part;

    /// Sixteen features as f32.
    ///
    /// # Safety
    /// They are readable at `start`.
    #[inline(always)]
    unsafe fn load(start: *const Self) -> f32x16 {
        // SAFETY: the caller's promise.
        join(std::array::from_fn(|part| unsafe { Self::part(start.add(part * PART_LANES)) }))
    }
}

impl Feature for f32 {
    #[inline(always)]
    unsafe fn part(start: *const Self) -> Part {
        // SAFETY: the caller's promise.
        unsafe { start.cast::<Part>().read_unaligned() }
    }
}

impl Feature for u8 {
    #[inline(always)]
    unsafe fn part(start: *const Self) -> Part {
        // SAFETY: the caller's promise.
        unsafe { widen_part(start) }
    }
}

/// Rows to prefetch while others are computed: a little at each step of the loops, row after row in the order of
/// addresses. This keeps memory busy without delaying the loops' own loads.
#[derive(Debug)]
pub(super) struct Prefetch<'a> {
    rows: &'a [*const u8],
    /// Bytes that one step prefetches.
    stride: usize,
    /// Steps that one row takes.
    steps_a_row: usize,
    /// Steps taken of the first of `rows`.
    taken: usize,
}

/// A run of steps: each prefetches the cache line at an address, the next one that `stride` bytes on.
struct Run {
    start: *const u8,
    stride: usize,
    steps: usize,
}

impl<'a> Prefetch<'a> {
    /// No rows.
    pub(super) fn nothing() -> Self {
        Self::rows(&[], 0, 0, 0)
    }

    /// Prefetches `bytes` bytes of each of `rows` within about `steps` steps. A step prefetches at most one cache line:
    /// what does not fit into the steps is left to the hardware.
    pub(super) fn rows(rows: &'a [*const u8], bytes: usize, vectors: usize, steps: usize) -> Self {
        let vector_bytes = bytes.div_ceil(vectors.max(1)).next_multiple_of(LANES).min(CACHE_LINE);
        let stride = [vector_bytes, 2 * vector_bytes, CACHE_LINE]
            .into_iter()
            .find(|stride| rows.len() * bytes.div_ceil((*stride).max(1)) <= steps)
            .unwrap_or(CACHE_LINE)
            .min(CACHE_LINE);
        Prefetch {
            rows: if bytes == 0 { &[] } else { rows },
            stride,
            steps_a_row: bytes.div_ceil(stride.max(1)),
            taken: 0,
        }
    }

    /// The next run of steps, between 1 and `most` of them. Where nothing is left to prefetch, they prefetch `own`, which
    /// the caller is reading.
    #[inline(always)]
    fn take(&mut self, most: usize, own: *const u8) -> Run {
        let Some((&row, rest)) = self.rows.split_first() else {
            return Run { start: own, stride: 0, steps: most };
        };
        let run = Run {
            start: row.wrapping_add(self.taken * self.stride),
            stride: self.stride,
            steps: (self.steps_a_row - self.taken).min(most),
        };
        self.taken += run.steps;
        if self.taken == self.steps_a_row {
            (self.rows, self.taken) = (rest, 0);
        }
        run
    }
}

/// Steps that the loops over `rows` rows take, margins of `sides` sides and one gradient.
pub(super) fn steps(outputs: usize, layout: Layout, rows: usize, sides: usize) -> usize {
    let walks = if outputs == 1 { 1 } else { PARTS };
    let margins = rows.div_ceil(rows_together(outputs)) * tiles(outputs).count() * walks;
    let mut passes = 0;
    for_each_pass(layout.vectors, outputs, |_| passes += 1);
    sides * margins * layout.vectors.saturating_sub(1) + passes * rows
}

/// Rows whose margins are summed side by side.
fn rows_together(outputs: usize) -> usize {
    match tiles(outputs).next() {
        Some((_, 1 | 2)) if PARTS == 1 => 8,
        _ => 4,
    }
}

/// Vectors of features whose gradients are summed side by side.
fn vectors_together(outputs: usize) -> usize {
    match gradient_tiles(outputs).next() {
        Some((_, 1 | 2)) | None => 8,
        Some((_, 3)) => 6,
        Some((_, 4)) => 5,
        Some((_, 5 | 6)) => 4,
        Some(_) => 2,
    }
}

/// Vectors of sums of a tile from which on one chain of each hides latency.
const ONE_CHAIN: usize = 6;

/// The part of a gradient that one pass over a block computes: outputs × vectors.
struct Pass {
    outputs: (usize, usize),
    vectors: (usize, usize),
    /// Four chains of sums, each over every fourth row, instead of one.
    four_chains: bool,
}

/// Calls `work` for each pass of a gradient. Tiles with few sums have four chains, however many passes a tile takes to fit into
/// registers. Plain loops: chained iterators took a third of the time with one output.
#[inline(always)]
fn for_each_pass(vectors: usize, outputs: usize, mut work: impl FnMut(Pass)) {
    let tiles = gradient_tiles(outputs);
    for (first_vector, vectors) in split(vectors, vectors_together(outputs)) {
        for (first_output, outputs) in tiles.clone() {
            let four_chains = outputs * vectors < ONE_CHAIN;
            let (most_outputs, most_vectors) = match outputs {
                _ if PARTS == 1 => (outputs, vectors),
                1 => (1, 7),
                2 | 3 => (3, 2),
                _ => (6, 1),
            };
            for (vector, vectors) in split(vectors, most_vectors) {
                for (output, outputs) in split(outputs, most_outputs) {
                    work(Pass {
                        outputs: (first_output + output, outputs),
                        vectors: (first_vector + vector, vectors),
                        four_chains,
                    });
                }
            }
        }
    }
}

/// `margins[k·128 + i] = scale · Σ_j W_kj a_ij + bias_k` for the rows i of a block, `rows` starting at a multiple of
/// [`ROW_GROUP`]. A few rows meet all weights before the next ones do, while both are in first-level cache.
///
/// # Safety
/// Each pointer in `rows`, its end rounded up to a multiple of [`ROW_GROUP`], points to a row that `layout` describes,
/// and `weights` were packed with that layout.
pub(super) unsafe fn margins<F: Feature>(
    pointers: &RowPointers,
    rows: Range<usize>,
    layout: Layout,
    weights: &PackedWeights,
    scale: f32,
    margins: &mut [f32],
    prefetch: &mut Prefetch<'_>,
) {
    let outputs = weights.biases.len();
    assert!(margins.len() >= outputs * BLOCK_ROWS && rows.end <= BLOCK_ROWS && rows.start.is_multiple_of(ROW_GROUP));
    if layout.vectors == 0 {
        for (margins, &bias) in margins.chunks_exact_mut(BLOCK_ROWS).zip(&weights.biases) {
            margins[rows.clone()].fill(bias);
        }
        return;
    }
    assert!(weights.vectors.len() >= outputs * layout.vectors);
    let together = rows_together(outputs);
    for row in rows.step_by(together) {
        for (first, tile) in tiles(outputs) {
            // SAFETY: the asserts above cover the tile's weights, biases and margins; the caller covers the rows, of
            // which `together` are read from a multiple of `together` on, which divides ROW_GROUP.
            unsafe {
                let pointers = pointers.as_ptr().add(row);
                let weights_of_tile = weights.vectors.as_ptr().add(first * layout.vectors);
                let biases = weights.biases.as_ptr().add(first);
                let margins = margins.as_mut_ptr().add(first * BLOCK_ROWS + row);
                macro_rules! dispatch {
                    ($($outputs:literal $rows:literal),+) => {
                        match (tile, together) {
                            $(($outputs, $rows) => margins_of_tile::<F, $rows, $outputs>(
                                pointers, layout, weights_of_tile, biases, scale, margins, prefetch,
                            ),)+
                            _ => unreachable!("tiles have at most six outputs, and eight rows if at most two"),
                        }
                    };
                }
                dispatch!(1 8, 1 4, 2 8, 2 4, 3 4, 4 4, 5 4, 6 4);
            }
        }
    }
}

/// [`margins`] of T outputs and R rows.
///
/// # Safety
/// R pointers to rows at `pointers`, as for [`margins`]; `weights` and `biases` start at the tile's first output,
/// `margins` there at the first row.
#[inline(never)]
unsafe fn margins_of_tile<F: Feature, const R: usize, const T: usize>(
    pointers: *const *const u8,
    layout: Layout,
    weights: *const f32x16,
    biases: *const f32,
    scale: f32,
    margins: *mut f32,
    prefetch: &mut Prefetch<'_>,
) {
    // SAFETY: the caller's promise on rows and weights; margins has a whole block for each output.
    unsafe {
        let group: [*const F; R] = std::array::from_fn(|r| (*pointers.add(r)).cast());
        // One output leaves registers for both halves of a vector.
        let parts: [[[Part; R]; T]; PARTS] = if T == 1 {
            walk(&group, layout, 0, weights.cast(), prefetch)
        } else {
            std::array::from_fn(|part| walk::<F, R, T, 1>(&group, layout, part, weights.cast(), prefetch)[0])
        };
        for output in 0..T {
            let bias = *biases.add(output);
            for quarter in 0..R / 4 {
                let sums = |row: usize| join(std::array::from_fn(|part| parts[part][output][row]));
                let four = std::array::from_fn(|r| sums(4 * quarter + r));
                let four = sum_each_of_four(four).mul_add(scale.into(), bias.into());
                let out = margins.add(output * BLOCK_ROWS + 4 * quarter);
                out.cast::<[f32; 4]>().write_unaligned(four.to_array());
            }
        }
    }
}

/// `W_t · a_r` in lanes, of P parts of all vectors, the first of which is `part`.
///
/// # Safety
/// As [`margins_of_tile`].
#[inline(always)]
unsafe fn walk<F: Feature, const R: usize, const T: usize, const P: usize>(
    rows: &[*const F; R],
    layout: Layout,
    part: usize,
    weights: *const Part,
    prefetch: &mut Prefetch<'_>,
) -> [[[Part; R]; T]; P] {
    let mut sums = [[[Part::ZERO; R]; T]; P];
    let mut multiply = |offset: usize, vector: usize| {
        for (p, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller's promise: sixteen features at each row's `offset`, T vectors of weights for each vector.
            unsafe {
                let features: [Part; R] =
                    std::array::from_fn(|r| F::part(rows[r].add(offset + (part + p) * PART_LANES)));
                for (output, sums) in sums.iter_mut().enumerate() {
                    let weight = *weights.add((vector * T + output) * PARTS + part + p);
                    for (sum, features) in sums.iter_mut().zip(&features) {
                        *sum = features.mul_add(weight, *sum);
                    }
                }
            }
        }
    };
    let (mut vector, last) = (0, layout.vectors - 1);
    while vector < last {
        let run = prefetch.take(last - vector, rows[0].cast());
        let mut line = run.start;
        for _ in 0..run.steps {
            lanes::prefetch(line);
            line = line.wrapping_add(run.stride);
            multiply(vector * LANES, vector);
            vector += 1;
        }
    }
    multiply(layout.tail, last);
    sums
}

/// The destination of a gradient.
pub(super) enum Sink<'a> {
    /// Added to f64, row-major `[outputs, width]`.
    Sum {
        /// The sum.
        sum: &'a mut [f64],
        /// Parameters an output (features, and the bias if any).
        width: usize,
        /// Features a row.
        features: usize,
    },
    /// Added to f32 partial sums of one output, a vector each sixteen features.
    Partial(&'a mut [f32x16]),
}

/// `sink += Σ_i q_ki a_ij`, i over the first `rows` rows of a block, for all outputs k and features j;
/// `coefficients[k·128 + i]` is q_ki, zero for rows from `rows` up to a multiple of [`ROW_GROUP`].
///
/// # Safety
/// As [`margins`] for the rows.
pub(super) unsafe fn gradient<F: Feature>(
    pointers: &RowPointers,
    rows: usize,
    layout: Layout,
    coefficients: &[f32],
    outputs: usize,
    prefetch: &mut Prefetch<'_>,
    mut sink: Sink<'_>,
) {
    assert!(coefficients.len() >= outputs * BLOCK_ROWS && rows <= BLOCK_ROWS);
    match &sink {
        Sink::Sum { sum, width, features } => {
            assert!(sum.len() >= outputs * width && features <= width && *features <= layout.vectors * LANES);
        }
        Sink::Partial(partial) => assert!(outputs == 1 && partial.len() >= layout.vectors),
    }
    for_each_pass(layout.vectors, outputs, |pass| {
        let Pass { outputs: (first_output, outputs), vectors: (vector, vectors), four_chains } = pass;
        let last = if vector + vectors == layout.vectors { layout.tail } else { (vector + vectors - 1) * LANES };
        let place = Place { pointers, rows, first_output, vector, last, four_chains };
        // SAFETY: the asserts above and the caller's promise.
        unsafe {
            macro_rules! dispatch {
                ($($outputs:literal: $($vectors:literal)+;)+) => {
                    match (outputs, vectors) {
                        $($(($outputs, $vectors) => {
                            gradient_tile::<F, $outputs, $vectors>(&place, coefficients, prefetch, layout, &mut sink);
                        })+)+
                        _ => unreachable!("tiles have at most ten outputs and twenty-four accumulators"),
                    }
                };
            }
            #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
            dispatch! {
                1: 1 2 3 4 5 6 7 8;
                2: 1 2 3 4 5 6 7 8;
                3: 1 2 3 4 5 6;
                4: 1 2 3 4 5 6;
                5: 1 2 3 4;
                6: 1 2 3 4;
                7: 1 2;
                8: 1 2;
                9: 1 2;
                10: 1 2;
            }
            #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512f")))]
            dispatch! {
                1: 1 2 3 4 5 6 7;
                2: 1 2;
                3: 1 2;
                4: 1;
                5: 1;
                6: 1;
            }
        }
    });
}

/// The part of a gradient that one pass over the block computes.
struct Place<'a> {
    pointers: &'a RowPointers,
    rows: usize,
    first_output: usize,
    vector: usize,
    last: usize,
    four_chains: bool,
}

/// [`gradient`] of T outputs × U vectors. With few accumulators, several rows go side by side to hide latency.
///
/// # Safety
/// As [`gradient`].
#[inline(never)]
unsafe fn gradient_tile<F: Feature, const T: usize, const U: usize>(
    place: &Place<'_>,
    coefficients: &[f32],
    prefetch: &mut Prefetch<'_>,
    layout: Layout,
    sink: &mut Sink<'_>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = accumulate::<F, T, U>(place, coefficients, prefetch);
        match sink {
            Sink::Partial(partial) => {
                for (u, sum) in sums[0].iter().enumerate() {
                    partial[place.vector + u] += *sum;
                }
            }
            // Whole vectors, straight from registers: the asserts of `gradient` cover them.
            Sink::Sum { sum, width, features } if (place.vector + U) * LANES <= *features => {
                let first = sum.as_mut_ptr().add(place.first_output * *width + place.vector * LANES);
                for (t, sums) in sums.iter().enumerate() {
                    for (u, lanes) in sums.iter().enumerate() {
                        add_to_f64(&mut *first.add(t * *width + u * LANES).cast(), *lanes);
                    }
                }
            }
            Sink::Sum { sum, width, features } => {
                for (t, sums) in sums.iter().enumerate() {
                    add_last(sums, place.vector, layout, &mut sum[(place.first_output + t) * *width..][..*features]);
                }
            }
        }
    }
}

/// `Σ_i q_ti a_iu` over the rows of a block, T outputs × U vectors.
///
/// # Safety
/// As [`gradient`].
#[inline(always)]
unsafe fn accumulate<F: Feature, const T: usize, const U: usize>(
    place: &Place<'_>,
    coefficients: &[f32],
    prefetch: &mut Prefetch<'_>,
) -> [[f32x16; U]; T] {
    // SAFETY: the caller's promise: `rows` ≤ 128 rows of coefficients from `first_output` on.
    unsafe {
        let q = coefficients.as_ptr().add(place.first_output * BLOCK_ROWS);
        let step = |sums: &mut [[f32x16; U]; T], row: usize| {
            let pointer = place.pointers.get_unchecked(row).cast::<F>();
            let base = pointer.add(place.vector * LANES);
            let features: [f32x16; U] = std::array::from_fn(|u| {
                if u + 1 == U { F::load(pointer.add(place.last)) } else { F::load(base.add(u * LANES)) }
            });
            for (t, sums) in sums.iter_mut().enumerate() {
                let q = f32x16::splat(*q.add(t * BLOCK_ROWS + row));
                for (sum, features) in sums.iter_mut().zip(&features) {
                    *sum = q.mul_add(*features, *sum);
                }
            }
        };
        let mut sums = [[f32x16::ZERO; U]; T];
        if T * U >= ONE_CHAIN || !place.four_chains {
            let mut row = 0;
            while row < place.rows {
                let run = prefetch.take(place.rows - row, place.pointers[0]);
                let mut line = run.start;
                for _ in 0..run.steps {
                    lanes::prefetch(line);
                    line = line.wrapping_add(run.stride);
                    step(&mut sums, row);
                    row += 1;
                }
            }
        } else {
            let mut chains = [sums; 4];
            // Four chains side by side hide latency; in fewer registers one alone does where it has several sums.
            if PARTS == 1 || T * U == 1 {
                for row in (0..place.rows).step_by(4) {
                    for (chain, sums) in chains.iter_mut().enumerate() {
                        step(sums, row + chain);
                    }
                }
            } else {
                for (chain, sums) in chains.iter_mut().enumerate() {
                    for row in (0..place.rows).step_by(4) {
                        step(sums, row + chain);
                    }
                }
            }
            for t in 0..T {
                for u in 0..U {
                    sums[t][u] = (chains[0][t][u] + chains[1][t][u]) + (chains[2][t][u] + chains[3][t][u]);
                }
            }
        }
        sums
    }
}

/// `sum += partial` in f64, `sum` being the features of one output.
pub(super) fn add_partial(partial: &[f32x16], layout: Layout, sum: &mut [f64]) {
    add_last(&partial[..layout.vectors], 0, layout, sum);
}

/// `sum += vectors` in f64 from vector `first` of one output on, the last of which may be stale in part.
#[inline(never)]
fn add_last(vectors: &[f32x16], first: usize, layout: Layout, sum: &mut [f64]) {
    for (vector, lanes) in vectors.iter().enumerate() {
        add_vector(sum, first + vector, *lanes, layout);
    }
}

/// `sum[16·vector + lane] += lanes[lane]`, the last vector's stale lanes and padding left out.
#[inline(always)]
fn add_vector(sum: &mut [f64], vector: usize, lanes: f32x16, layout: Layout) {
    let place = &mut sum[vector * LANES..];
    if let Some(place) = place.first_chunk_mut() {
        add_to_f64(place, lanes);
    } else {
        let lanes = lanes.to_array();
        place.iter_mut().zip(&lanes[layout.stale..]).for_each(|(value, lane)| *value += f64::from(*lane));
    }
}

/// Copies `features` values to `out`, a multiple of sixteen long, zeros behind them.
pub(super) fn copy_padded(values: &[f32], out: &mut [f32]) {
    let (head, rest) = out.split_at_mut(values.len());
    head.copy_from_slice(values);
    rest.fill(0.0);
}

/// Bytes as f32, zeros behind them up to `out`'s length, a multiple of sixteen.
pub(super) fn widen_padded(bytes: &[u8], out: &mut [f32]) {
    let (whole, rest) = bytes.as_chunks::<LANES>();
    let (head, tail) = out.split_at_mut(whole.len() * LANES);
    for (bytes, out) in whole.iter().zip(head.as_chunks_mut::<LANES>().0) {
        // SAFETY: sixteen bytes.
        *out = unsafe { widen(bytes.as_ptr()) }.to_array();
    }
    tail.fill(0.0);
    tail.iter_mut().zip(rest).for_each(|(out, &byte)| *out = f32::from(byte));
}

/// `margins[k·128 + i]` of the few rows `ids`, one after the other; `buffer` holds one row.
pub(super) fn margins_of_few(
    rows: Rows<'_>,
    ids: &[usize],
    model: &LinearModel,
    parameters: &[f32],
    buffer: &mut [f32],
    margins: &mut [f32],
) {
    let width = model.width();
    for (row, &id) in ids.iter().enumerate() {
        let features = if let Rows::F32(dense) = rows {
            dense.row(id)
        } else {
            rows.widen(id, buffer);
            &*buffer
        };
        for output in 0..model.outputs {
            let (weights, bias) = parameters[output * width..][..width].split_at(model.features);
            margins[output * BLOCK_ROWS + row] = dot(features, weights) + bias.first().copied().unwrap_or(0.0);
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [[0f32; 16]; 2];
    let (left, right) = (a.chunks_exact(32), b.chunks_exact(32));
    let tail: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for half in 0..2 {
            for lane in 0..16 {
                lanes[half][lane] = a[16 * half + lane].mul_add(b[16 * half + lane], lanes[half][lane]);
            }
        }
    }
    (0..16).map(|lane| lanes[0][lane] + lanes[1][lane]).sum::<f32>() + tail
}

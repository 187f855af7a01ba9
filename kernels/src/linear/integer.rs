//! Rows of bytes: margins, clipped contributions and their sums as integers, with the same bits on every instruction set.
//!
//! A row is a vector of integers a_i ([0, 255]), features in units of a public scale s; the bias, if there is one, is the
//! feature ν = max(1, ⌊1/s + ½⌋), so about 1 in the same units. All of a query is then
//!
//! 1. **Margins.** A weight is `step_k · w` with an integer w of three signed digits, packed once a query. The integer
//!    Σ_j w_kj a_ij is exact; one multiplication in f64, one addition of the bias and one rounding to f32 make it a margin.
//! 2. **Residuals** in f32, through one sequence of IEEE operations ([`super::residuals`]).
//! 3. **Contributions.** A residual becomes integers ρ_i on the public grid h, a contribution ρ_i ⊗ a_i in units h·s.
//! 4. **Sums** of integers: exact, so they depend on no order, split, thread, rank or instruction set.
//!
//! # Guarantee
//! With a clip norm C, every contribution has `‖ρ_i ⊗ a_i‖ ≤ Ĉ` as integers, ν included, where `Ĉ·h·s ≤ C` in real
//! arithmetic ([`Grid`]). It is not a matter of rounding: `‖ρ_i‖² ≤ L_i` is checked in integers after ρ_i is rounded, with
//! `L_i ≤ Ĉ²/‖a_i‖²` (in L1, `‖ρ_i‖₁ ≤ Ĉ/‖a_i‖₁`). Contributions are functions of the row, the parameters and public
//! numbers; null rows contribute 0. So sums of neighbours differ by one such contribution, exactly.
//!
//! Residuals have the same bits where multiplications and additions are fused: on x86 with FMA and on aarch64.

use super::packing::split;
use super::products::{EMPTY, GROUP, Instructions, Line, MOST_DIGIT_ROWS, Products, Session, TOGETHER, bytes_of};
use super::residuals::{self, BlockRows};
use super::{BLOCK_ROWS, Batch, Clip, LinearModel, NonFiniteGradient, Query, Tally};
use crate::features::{Norm, Selection, U8Rows};
use crate::vector::lanes::LANES;
use std::ops::Range;

/// Digits of a weight and of a coefficient.
const DIGITS: usize = 3;

/// The greatest integer that three signed digits hold.
const GREATEST: f32 = 8_355_711.0;

/// Outputs that go through the products together: three columns, or three rows, of digits each.
const OUTPUTS: usize = MOST_DIGIT_ROWS / DIGITS;

/// Rows whose sums of digits stay in 32 bits, a multiple of a block: `65,536·255·128 < 2³¹`.
const SUMMED_ROWS: usize = 1 << 16;

/// Fewer rows than this cost less without packing digits, where nothing but time depends on it.
pub(super) const LEAST_ROWS: usize = 32;

/// The scales of bytes that take these kernels, and the exponents of weights and coefficients: all products of three
/// such numbers are normal numbers of f64.
const SCALES: std::ops::RangeInclusive<f32> = 1e-18..=1e18;
const LEAST_EXPONENT: i32 = -60;
/// 2⁵⁰, the greatest coefficient of a query: squares of residuals stay within f32.
const MOST_WEIGHT: f32 = 1_125_899_906_842_624.0;
const GREATEST_WEIGHT_EXPONENT: i32 = 60;
const GREATEST_COEFFICIENT_EXPONENT: i32 = 90;

/// The squared length, in steps, that no ρ exceeds: `outputs · 2⁴⁶`, outputs ≤ 2¹⁶.
const SURELY_KEPT: f64 = 4_611_686_018_427_387_904.0;

/// The public grid of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// h, a power of two.
    step: f64,
    /// The greatest |ρ|: `Q/h` rounded up, Q the public bound of a coefficient.
    greatest: f32,
    /// s.
    scale: f64,
    /// ν, 0 without a bias.
    bias: f64,
    /// The norm and Ĉ in units of h·s.
    clip: Option<(Norm, f64)>,
}

impl Grid {
    /// The grid for coefficients of at most `weight` (the losses of several outputs have residuals of at most 1), three
    /// digits. Coefficients are below the lesser of that and C/ν, ν the least norm of a row that is not zero: 1 with a bias, else
    /// that of a single byte of 1. (Those of zero rows may exceed it; they are cut and multiply zeros.) `None` for numbers
    /// out of range. All of it is public.
    pub(super) fn new(model: &LinearModel, scale: f32, weight: f32, clip: Clip) -> Option<Self> {
        if !SCALES.contains(&scale) || !(weight <= MOST_WEIGHT) {
            return None;
        }
        let s = f64::from(scale);
        let bias = if model.bias {
            (1.0 / s + 0.5).floor().max(1.0)
        } else {
            0.0
        };
        let by_clip = match clip {
            Clip::Unbounded => f64::INFINITY,
            Clip::Bounded { clip_norm, .. } => f64::from(clip_norm) / (bias.max(1.0) * s),
        };
        let bound = f64::from(weight).min(by_clip).max(f64::from(f32::MIN_POSITIVE));
        let step = f64::from(step_of(bound as f32, GREATEST_COEFFICIENT_EXPONENT)?);
        let clip = match clip {
            Clip::Unbounded => None,
            Clip::Bounded { norm, clip_norm } => {
                let (unit, clip_norm) = (step * s, f64::from(clip_norm));
                // Rounded down: the sign of the fused remainder is exact.
                let mut limit = (clip_norm / unit).floor();
                while limit > 0.0 && limit.mul_add(unit, -clip_norm) > 0.0 {
                    limit = (limit - 1.0).min(limit.next_down().floor());
                }
                Some((norm, limit))
            }
        };
        Some(Grid {
            step,
            greatest: ((bound / step).ceil() as f32).min(GREATEST),
            scale: s,
            bias,
            clip,
        })
    }

    /// The grid for coefficients of at most `bound`, which are not clipped.
    pub(super) fn unclipped(model: &LinearModel, scale: f32, bound: f32) -> Option<Self> {
        Self::new(model, scale, bound, Clip::Unbounded)
    }

    /// h·s, the value of a unit of the sums.
    pub(super) fn unit(&self) -> f64 {
        self.step * self.scale
    }

    /// L_i of a row whose norm, bias 1 included, is at most `norm` in units of 1: ‖ρ‖² (in L1 ‖ρ‖₁) must not exceed it.
    ///
    /// ‖a‖² = (norm² − 1)/s² + ν² in units of s, in which the norm is off by 2⁻²³ relative; each operation below by 2⁻⁵³.
    /// The result is at most `Ĉ²/‖a‖²`: the factor 1 ± 2⁻⁴⁸ on either side covers ten roundings.
    #[inline(always)]
    fn limit(&self, norm: f32, squared: bool, clip_norm: f64) -> f64 {
        const UP: f64 = 1.0 + 1.0 / 281_474_976_710_656.0;
        const DOWN: f64 = 1.0 - 1.0 / 281_474_976_710_656.0;
        let (norm, one) = (f64::from(norm), if self.bias > 0.0 { 1.0 } else { 0.0 });
        let limit = if squared {
            let features = (norm * norm * UP - one) / (self.scale * self.scale) * UP;
            let length = (features.max(0.0) + self.bias * self.bias) * UP;
            clip_norm * clip_norm / length * DOWN
        } else {
            let features = (norm * UP - one) / self.scale * UP;
            clip_norm / ((features.max(0.0) + self.bias) * UP) * DOWN
        };
        // A zero row has an infinite limit (NaN if Ĉ is 0 too).
        limit.min(SURELY_KEPT).floor()
    }
}

/// The power of two of which numbers up to `greatest` are at most [`GREATEST`] times; `None` above 2^most and for NaN.
fn step_of(greatest: f32, most: i32) -> Option<f32> {
    let exponent = (greatest.to_bits() >> 23) as i32 - 127;
    if exponent > most {
        return None;
    }
    let step = power_of_two(exponent.max(LEAST_EXPONENT) - 22);
    Some(if greatest / step > GREATEST { 2.0 * step } else { step })
}

/// The integer part: without the tests of a cast, which no instruction for vectors has.
///
/// # Safety
/// `value` is no NaN and |value| < 2³¹.
#[inline(always)]
unsafe fn truncated(value: f32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { value.to_int_unchecked() }
}

/// `2^exponent`, for normal numbers.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Weights in digits, as [`Session::rows`] reads them: for each run of at most ten outputs, for each group of 64 features,
/// one or two tiles.
#[derive(Clone, Debug)]
struct Weights {
    lines: Vec<Line>,
    /// The value of one unit of each output's last digit.
    steps: Vec<f64>,
    biases: Vec<f64>,
}

/// Tiles of margins that a run of `outputs` outputs takes.
fn margin_tiles(outputs: usize) -> usize {
    (DIGITS * outputs).div_ceil(LANES)
}

/// The three signed digits of sixteen integers, the last digit first, a byte each: `n = Σ_j 256^j·digit_j`. Adding 128 to each
/// digit carries as it must, and flipping the upper bit takes the 128 off again.
#[inline(always)]
fn digits_of<const N: usize>(integers: [i32; N]) -> [[u8; N]; DIGITS] {
    const HALVES: i32 = 0x0080_8080;
    let shifted = integers.map(|integer| (integer + HALVES) ^ HALVES);
    std::array::from_fn(|digit| shifted.map(|shifted| (shifted >> (8 * digit)) as u8))
}

/// The digits of 64 weights, of which the first `stale` count 0. A function of its own: inlined, its vectors are taken apart
/// byte by byte.
#[inline(never)]
fn weight_digits(weights: &[f32; GROUP], inverse_step: f32, stale: usize, out: &mut [Line; DIGITS]) {
    // SAFETY: `step_of` excludes NaN, and |weight·inverse_step| ≤ GREATEST.
    let integers = unsafe { weights.map(|weight| truncated((weight * inverse_step).round_ties_even())) };
    for (line, digits) in out.iter_mut().zip(digits_of(integers)) {
        line.0 = digits;
        line.0[..stale].fill(0);
    }
}

impl Weights {
    fn new(model: &LinearModel) -> Self {
        let groups = model.features.div_ceil(GROUP);
        let runs = split(model.outputs, OUTPUTS);
        let tiles: usize = runs.map(|(_, outputs)| margin_tiles(outputs)).sum();
        Weights {
            lines: vec![EMPTY; tiles * groups * LANES],
            steps: vec![0.0; model.outputs],
            biases: vec![0.0; model.outputs],
        }
    }

    /// Packs row-major `[outputs, features + bias]` parameters. Returns whether their size lets them be written in digits.
    fn pack(&mut self, model: &LinearModel, parameters: &[f32], grid_of_rows: (f64, f64)) -> bool {
        let (scale, bias) = grid_of_rows;
        let (features, width) = (model.features, model.features + usize::from(model.bias));
        let groups = features.div_ceil(GROUP);
        let mut lines = &mut self.lines[..];
        for (first, outputs) in split(model.outputs, OUTPUTS) {
            let tiles = margin_tiles(outputs);
            let (packed, rest) = std::mem::take(&mut lines).split_at_mut(groups * tiles * LANES);
            lines = rest;
            for output in 0..outputs {
                let weights = &parameters[(first + output) * width..][..width];
                let greatest = weights[..features]
                    .iter()
                    .fold(0, |greatest, weight| (weight.to_bits() & 0x7fff_ffff).max(greatest));
                let Some(step) = step_of(f32::from_bits(greatest), GREATEST_WEIGHT_EXPONENT) else {
                    return false;
                };
                let inverse = 1.0 / step;
                self.steps[first + output] = f64::from(step) * scale;
                self.biases[first + output] = weights.get(features).map_or(0.0, |&b| f64::from(b) * bias * scale);
                for group in 0..groups {
                    let last = group + 1 == groups;
                    let start = if last { features - GROUP } else { group * GROUP };
                    let weights: &[f32; GROUP] = weights[start..].first_chunk().expect("a group");
                    // The last group begins inside the one before: what was there already counts once.
                    let stale = if last { groups * GROUP - features } else { 0 };
                    let mut digits = [EMPTY; DIGITS];
                    weight_digits(weights, inverse, stale, &mut digits);
                    for (digit, bytes) in digits.iter().enumerate() {
                        let column = (DIGITS - 1 - digit) * outputs + output;
                        let tile = &mut packed[(group * tiles + column / LANES) * LANES..][..LANES];
                        let quads: &[[u8; 4]; LANES] = bytemuck::cast_ref(&bytes.0);
                        for (line, quad) in tile.iter_mut().zip(quads) {
                            let columns: &mut [[u8; 4]; LANES] = bytemuck::cast_mut(&mut line.0);
                            columns[column % LANES] = *quad;
                        }
                    }
                }
            }
        }
        true
    }
}

/// A query whose parameters are packed: made once a round, and read by all leaves of a batch.
#[derive(Clone, Debug)]
pub struct PackedQuery {
    /// Features and outputs of the model that it was made for.
    shape: (usize, usize),
    weights: [Weights; 2],
    /// Coefficients of the one or two points.
    coefficients: (f32, Option<f32>),
    clip: Clip,
    grid: Option<Grid>,
}

impl PackedQuery {
    /// Memory for queries of `model`; `None` if its rows of bytes take other kernels ([`super::has_integer_kernels_for`]).
    pub fn new(model: &LinearModel) -> Option<Self> {
        super::has_integer_kernels_for(model).then(|| PackedQuery {
            shape: (model.features, model.outputs),
            weights: [Weights::new(model), Weights::new(model)],
            coefficients: (0.0, None),
            clip: Clip::Unbounded,
            grid: None,
        })
    }

    /// Packs a query. Returns false, by public numbers and parameters alone, if it takes other kernels.
    pub(super) fn pack(&mut self, model: &LinearModel, scale: f32, query: &Query<'_>) -> bool {
        self.check(model);
        let weight = query.current.coefficient.abs() + query.previous.map_or(0.0, |point| point.coefficient.abs());
        self.grid = None;
        let Some(grid) = Grid::new(model, scale, weight, query.clip) else {
            return false;
        };
        self.coefficients = (query.current.coefficient, query.previous.map(|point| point.coefficient));
        self.clip = query.clip;
        let points = [Some(query.current), query.previous];
        for (weights, point) in self.weights.iter_mut().zip(points) {
            if let Some(point) = point
                && !weights.pack(model, point.parameters, (grid.scale, grid.bias))
            {
                return false;
            }
        }
        self.grid = Some(grid);
        true
    }

    /// Packs parameters for margins alone.
    pub(super) fn pack_margins(&mut self, model: &LinearModel, scale: f32, parameters: &[f32]) -> bool {
        self.check(model);
        self.grid = None;
        let Some(grid) = Grid::unclipped(model, scale, 1.0) else {
            return false;
        };
        self.weights[0].pack(model, parameters, (grid.scale, grid.bias))
    }

    /// The clip of the query.
    pub(super) fn clip(&self) -> Clip {
        self.clip
    }

    /// The value of a unit of the query's sums, h·s; `None` without a packed query.
    pub fn unit(&self) -> Option<f64> {
        self.grid.map(|grid| grid.unit())
    }

    /// Checks that this was made for models of this shape.
    ///
    /// # Panics
    /// It was not.
    fn check(&self, model: &LinearModel) {
        let shape = (model.features, model.outputs);
        assert_eq!(
            shape, self.shape,
            "features and outputs of the model (left) and of its workspace (right)"
        );
    }
}

/// The lines of features that gradients are summed in: groups of 64, four lines each, then sixteen features a line up to the
/// row's end.
#[derive(Clone, Copy, Debug)]
struct Columns {
    features: usize,
    /// Whole groups.
    groups: usize,
    /// Lines of sixteen features behind them, the first of which may begin inside the last group.
    rest: usize,
}

impl Columns {
    fn new(features: usize) -> Self {
        Columns {
            features,
            groups: features / GROUP,
            rest: (features % GROUP).div_ceil(LANES),
        }
    }

    fn lines(self) -> usize {
        4 * self.groups + self.rest
    }

    /// The first feature of a line behind the groups.
    fn start_of_rest(self, line: usize) -> usize {
        self.features - (self.rest - line) * LANES
    }
}

/// Scratch memory: part of a [`super::Workspace`].
#[derive(Debug)]
pub(super) struct Scratch {
    products: Products,
    /// Features and outputs of the model that it was made for.
    shape: (usize, usize),
    columns: Columns,
    /// Margins of 32 rows, `[32][32]`.
    margins: Vec<i32>,
    /// Coefficients of a block in digits, `[3·output + digit][128]`.
    digits: Vec<Line>,
    /// 64 features of a block, twice: `[4][32]` quads of rows.
    quads: Vec<Line>,
    /// Sums of digits, `[line][3·output + digit][16]`.
    sums: Vec<i32>,
    /// Rows in `sums`, which hold what was summed before if there are none.
    summed: usize,
    /// Σ ρ of each output.
    totals: Vec<i64>,
}

impl Scratch {
    /// For `model`, on the fastest instructions; `None` if its rows of bytes take other kernels.
    pub(super) fn new(model: &LinearModel) -> Option<Box<Self>> {
        Self::on(model, Instructions::fastest())
    }

    /// For `model`, on given instructions.
    pub(super) fn on(model: &LinearModel, instructions: Instructions) -> Option<Box<Self>> {
        let columns = Columns::new(model.features);
        super::has_integer_kernels_for(model).then(|| {
            Box::new(Scratch {
                products: Products::new(instructions, model.features),
                shape: (model.features, model.outputs),
                columns,
                margins: vec![0; TOGETHER * 2 * LANES + LANES],
                digits: vec![EMPTY; DIGITS * model.outputs * BLOCK_ROWS / GROUP],
                quads: vec![EMPTY; 2 * BLOCK_ROWS],
                sums: vec![0; columns.lines() * DIGITS * model.outputs * LANES],
                summed: 0,
                totals: vec![0; model.outputs],
            })
        })
    }

    /// Checks that `model` is of the shape that this and `packed` were made for.
    ///
    /// # Panics
    /// It is not.
    pub(super) fn check(&self, model: &LinearModel, packed: &PackedQuery) {
        assert!(self.shape == packed.shape, "a query packed for another workspace");
        packed.check(model);
    }

    /// Margins, at the parameters that were packed, of the rows at `positions` of the selection, at most 128:
    /// `out[k·128 + i]`.
    pub(super) fn margins(
        &mut self,
        packed: &PackedQuery,
        rows: U8Rows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        out: &mut [f32],
    ) {
        let shape = self.shape;
        let block = Addresses::of(rows, selection, positions);
        let side = (&packed.weights[0], out);
        margins_of_block(
            &mut self.products.session(),
            shape,
            &mut [side],
            &block,
            &mut self.margins,
        );
    }

    /// `sum += worth · Σ_i ρ_i ⊗ a_i`, in units of the grid, over the rows at `positions`, at most 128, of which
    /// `values[k·128 + i]` are the coefficients before they are clipped and written in integers.
    pub(super) fn add_outer(
        &mut self,
        (model, grid): (&LinearModel, &Grid),
        (rows, selection, positions): (U8Rows<'_>, &Selection<'_>, Range<usize>),
        norms: &[f32; BLOCK_ROWS],
        values: &mut [f32],
        sum: &mut [f64],
    ) {
        let count = positions.len();
        self.contribute(grid, count, norms, values, &mut Tally::default());
        let block = Addresses::of(rows, selection, positions);
        self.add_block(&block);
        self.finish(model, grid.bias, grid.unit(), sum);
    }

    /// Turns the residuals `values[k·128 + i]` of `count` rows into integers on the grid and writes their digits, with zeros
    /// behind the rows up to a multiple of 64.
    fn contribute(
        &mut self,
        grid: &Grid,
        count: usize,
        norms: &[f32; BLOCK_ROWS],
        values: &mut [f32],
        tally: &mut Tally,
    ) {
        tally.rows += count;
        residuals::clear_beyond(values, self.totals.len(), count);
        for start in (0..count).step_by(LANES) {
            tally.clipped += round(grid, norms, values, start);
        }
        let digits = bytes_of(&mut self.digits);
        let (written, whole) = (count.next_multiple_of(LANES), count.next_multiple_of(GROUP));
        for ((values, digits), total) in values
            .chunks_exact(BLOCK_ROWS)
            .zip(digits.chunks_exact_mut(DIGITS * BLOCK_ROWS))
            .zip(&mut self.totals)
        {
            let mut sums = [0_i32; LANES];
            for (start, values) in values[..written].as_chunks::<LANES>().0.iter().enumerate() {
                // SAFETY: `round` left integers of at most 23 bits.
                let integers = unsafe { values.map(|value| truncated(value)) };
                for (sum, integer) in sums.iter_mut().zip(integers) {
                    *sum += integer;
                }
                for (digit, bytes) in digits_of(integers).into_iter().enumerate() {
                    digits[digit * BLOCK_ROWS + start * LANES..][..LANES].copy_from_slice(&bytes);
                }
            }
            *total += sums.into_iter().map(i64::from).sum::<i64>();
            for digits in digits.chunks_exact_mut(BLOCK_ROWS) {
                digits[written..whole].fill(0);
            }
        }
        self.summed += count;
    }

    /// Adds the contributions whose digits were written to the sums of digits.
    fn add_block(&mut self, block: &Addresses) {
        let Scratch {
            products,
            columns,
            digits,
            quads,
            sums,
            summed,
            totals,
            ..
        } = self;
        let outputs = totals.len();
        let pointers = &block.rows[..block.count.next_multiple_of(4)];
        let fours = pointers.len() / 4;
        let digits: &[u8] = bytes_of(digits);
        let mut session = products.session();
        // Features `line` and on of all runs of outputs.
        let add = *summed > block.count;
        let mut multiply = |session: &mut Session<'_>, line: usize, quads: &[Line]| {
            let sums = &mut sums[line * DIGITS * outputs * LANES..][..DIGITS * outputs * LANES];
            for (first, outputs) in split(outputs, OUTPUTS) {
                let (digits, sums) = (
                    &digits[DIGITS * first * BLOCK_ROWS..],
                    &mut sums[DIGITS * first * LANES..],
                );
                session.columns((digits, DIGITS * outputs), (quads, fours), add, sums);
            }
        };
        let (mut current, mut next) = quads.split_at_mut(BLOCK_ROWS);
        // SAFETY: each pointer is that of a whole row, and groups lie inside of rows.
        unsafe { session.interleave(pointers, 0, current, 0..fours) };
        for group in 0..columns.groups {
            for quarter in 0..4 {
                multiply(
                    &mut session,
                    4 * group + quarter,
                    &current[quarter * BLOCK_ROWS / 4..][..BLOCK_ROWS / 4],
                );
                if group + 1 < columns.groups {
                    let part = fours * quarter / 4..fours * (quarter + 1) / 4;
                    // SAFETY: as above.
                    unsafe { session.interleave(pointers, (group + 1) * GROUP, next, part) };
                }
            }
            std::mem::swap(&mut current, &mut next);
        }
        for line in 0..columns.rest {
            // SAFETY: as above: a model of these kernels has at least 64 features.
            unsafe { Session::interleave_sixteen(pointers, columns.start_of_rest(line), current) };
            multiply(&mut session, 4 * columns.groups + line, &current[..BLOCK_ROWS / 4]);
        }
    }

    /// `sum += worth · sums`, the bias counting `bias`; the next block overwrites the sums.
    fn finish(&mut self, model: &LinearModel, bias: f64, worth: f64, sum: &mut [f64]) {
        if self.summed == 0 {
            return;
        }
        let (features, width) = (model.features, model.features + usize::from(model.bias));
        let columns = self.columns;
        for (line, sums) in self.sums.chunks_exact(DIGITS * model.outputs * LANES).enumerate() {
            for (sums, sum) in sums
                .as_chunks::<{ DIGITS * LANES }>()
                .0
                .iter()
                .zip(sum.chunks_exact_mut(width))
            {
                let whole: [f64; LANES] = std::array::from_fn(|lane| {
                    let digit = |digit: usize| f64::from(sums[digit * LANES + lane]);
                    digit(2).mul_add(256.0, digit(1)).mul_add(256.0, digit(0))
                });
                if line < 4 * columns.groups {
                    let sum = &mut sum[line / 4 * GROUP..][..GROUP];
                    for (quarter, whole) in whole.as_chunks::<4>().0.iter().enumerate() {
                        for (sum, whole) in sum[quarter * LANES + line % 4 * 4..][..4].iter_mut().zip(whole) {
                            *sum = whole.mul_add(worth, *sum);
                        }
                    }
                } else {
                    let start = columns.start_of_rest(line - 4 * columns.groups);
                    let stale = (columns.groups * GROUP).saturating_sub(start);
                    for (sum, whole) in sum[start..][..LANES].iter_mut().zip(whole).skip(stale) {
                        *sum = whole.mul_add(worth, *sum);
                    }
                }
            }
        }
        for (total, sum) in self.totals.iter_mut().zip(sum.chunks_exact_mut(width)) {
            if model.bias {
                sum[features] = (*total as f64 * bias).mul_add(worth, sum[features]);
            }
            *total = 0;
        }
        self.summed = 0;
    }
}

/// The addresses of the rows of a block, the last one repeated, and of rows to prefetch beside each.
struct Addresses {
    count: usize,
    rows: [*const u8; BLOCK_ROWS],
    ahead: [*const u8; BLOCK_ROWS],
    /// Rows of `ahead`.
    aheads: usize,
}

impl Addresses {
    /// Of the rows at `positions`.
    ///
    /// # Panics
    /// A row that does not exist.
    fn of(rows: U8Rows<'_>, selection: &Selection<'_>, positions: Range<usize>) -> Self {
        let mut block = Addresses {
            count: positions.len(),
            rows: [std::ptr::null(); BLOCK_ROWS],
            ahead: [std::ptr::null(); BLOCK_ROWS],
            aheads: 0,
        };
        let mut last = std::ptr::null();
        for (pointer, position) in block.rows.iter_mut().zip(positions.clone()) {
            last = rows.row(selection.row(position)).as_ptr();
            *pointer = last;
        }
        block.rows[positions.len()..].fill(last);
        let end = (positions.end + TOGETHER).min(selection.len());
        let first = (positions.start + TOGETHER).min(end);
        block.aheads = (end - first).min(BLOCK_ROWS);
        for (pointer, position) in block.ahead.iter_mut().zip(first..end) {
            *pointer = rows.values.as_ptr().wrapping_add(selection.row(position) * rows.stride);
        }
        block
    }
}

/// Margins of a block's rows for one or two points: `out[k·128 + i]`.
fn margins_of_block(
    session: &mut Session<'_>,
    (features, outputs): (usize, usize),
    sides: &mut [(&Weights, &mut [f32])],
    block: &Addresses,
    sums: &mut [i32],
) {
    let groups = features.div_ceil(GROUP);
    for start in (0..block.count).step_by(TOGETHER) {
        let rows: &[*const u8; TOGETHER] = block.rows[start..].first_chunk().expect("a part of a block");
        let count = (block.count - start).min(TOGETHER);
        let mut ahead = &block.ahead[start.min(block.aheads)..(start + TOGETHER).min(block.aheads)];
        for (weights, out) in &mut *sides {
            let mut lines = &weights.lines[..];
            for (first, run) in split(outputs, OUTPUTS) {
                let tiles = margin_tiles(run);
                // SAFETY: each pointer is that of a row of `features` bytes.
                unsafe {
                    session.rows(
                        (rows, count),
                        std::mem::take(&mut ahead),
                        features,
                        (lines, tiles),
                        sums,
                    );
                };
                lines = &lines[groups * tiles * LANES..];
                let mut steps = [0.0; LANES];
                let mut biases = [0.0; LANES];
                steps[..run].copy_from_slice(&weights.steps[first..first + run]);
                biases[..run].copy_from_slice(&weights.biases[first..first + run]);
                for half in (0..TOGETHER).step_by(LANES) {
                    let mut margins = [[0.0; LANES]; LANES];
                    for (row, margins) in margins.iter_mut().enumerate() {
                        let sums = &sums[(half + row) * tiles * LANES..];
                        let digit = |digit: usize| -> &[i32; LANES] {
                            let column = (DIGITS - 1 - digit) * run;
                            sums[column..].first_chunk().expect("space behind the sums")
                        };
                        let (low, middle, high) = (digit(0), digit(1), digit(2));
                        for lane in 0..LANES {
                            // Exact: less than 2⁵³.
                            let whole = f64::from(high[lane]).mul_add(256.0, f64::from(middle[lane]));
                            let whole = whole.mul_add(256.0, f64::from(low[lane]));
                            margins[lane] = whole.mul_add(steps[lane], biases[lane]) as f32;
                        }
                    }
                    for output in 0..run {
                        let out: &mut [f32; LANES] = out[(first + output) * BLOCK_ROWS + start + half..]
                            .first_chunk_mut()
                            .expect("a block of margins");
                        *out = std::array::from_fn(|row| margins[row][output]);
                    }
                }
            }
        }
    }
}

/// Clips the residuals of the sixteen rows from `start` on and rounds them to integers of the grid, which are left in `values`.
/// Returns the number of rows that were longer.
#[inline(always)]
fn round(grid: &Grid, norms: &[f32; BLOCK_ROWS], values: &mut [f32], start: usize) -> usize {
    let inverse = (1.0 / grid.step) as f32;
    let outputs = values.len() / BLOCK_ROWS;
    let mut factors = [inverse; LANES];
    let mut clipped = 0;
    let mut limits = [f64::INFINITY; LANES];
    let squared = !matches!(grid.clip, Some((Norm::L1, _)));
    if let Some((_, clip_norm)) = grid.clip {
        let norms: &[f32; LANES] = norms[start..].first_chunk().expect("norms of a block");
        limits = norms.map(|norm| grid.limit(norm, squared, clip_norm));
        let mut lengths = [0.0_f32; LANES];
        for values in values.chunks_exact(BLOCK_ROWS) {
            let values: &[f32; LANES] = values[start..].first_chunk().expect("a block");
            for (length, &value) in lengths.iter_mut().zip(values) {
                *length = if squared {
                    value.mul_add(value, *length)
                } else {
                    *length + value.abs()
                };
            }
        }
        if squared {
            lengths = lengths.map(f32::sqrt);
        }
        // Rounding to nearest may lengthen: by a deviation of 0.29 steps in L2, by that times √outputs in L1.
        let spare = if squared { 1.0 } else { (outputs as f64).sqrt() };
        for lane in 0..LANES {
            let limit = if squared { limits[lane].sqrt() } else { limits[lane] };
            let reach = ((limit - spare) * (1.0 - 1.0 / 4_194_304.0)).max(0.0) as f32;
            let longer = lengths[lane] * inverse > reach;
            factors[lane] = if longer { reach / lengths[lane] } else { inverse };
            clipped += usize::from(longer);
        }
    }
    let mut sizes = [0_i64; LANES];
    for values in values.chunks_exact_mut(BLOCK_ROWS) {
        let values: &mut [f32; LANES] = values[start..].first_chunk_mut().expect("a block");
        for lane in 0..LANES {
            let rounded = (values[lane] * factors[lane]).round_ties_even();
            values[lane] = rounded.max(-grid.greatest).min(grid.greatest);
        }
        for lane in 0..LANES {
            // SAFETY: cut to at most 2²³ above; the greater of a NaN and a number is the number.
            let integer = i64::from(unsafe { truncated(values[lane]) });
            sizes[lane] += if squared { integer * integer } else { integer.abs() };
        }
    }
    if grid.clip.is_some() {
        for lane in 0..LANES {
            // SAFETY: limits are at most 2⁶² and no NaN.
            if sizes[lane] > unsafe { limits[lane].to_int_unchecked::<i64>() } {
                cut(squared, limits[lane], sizes[lane], &mut values[start + lane..]);
            }
        }
    }
    clipped
}

/// Cuts the integers `values[k·128]`, whose squares (magnitudes in L1) sum to `size`, towards zero until they sum to at most
/// `limit`.
#[cold]
fn cut(squared: bool, limit: f64, mut size: i64, values: &mut [f32]) {
    let mut shrink = 1.0 - 1.0 / 1_048_576.0;
    while size > limit as i64 {
        let ratio = limit / size as f64;
        let factor = shrink * if squared { ratio.sqrt() } else { ratio };
        shrink *= 0.5;
        size = 0;
        for value in values.iter_mut().step_by(BLOCK_ROWS) {
            let integer = (f64::from(*value) * factor) as i64;
            *value = integer as f32;
            size += if squared { integer * integer } else { integer.abs() };
        }
    }
}

/// `sum += worth · Σ_i clip(…)` in units of `query`'s grid ([`PackedQuery::unit`]), over the rows of a batch.
///
/// # Errors
/// A row whose margins are not finite; `sum` is then unspecified.
pub(super) fn accumulate(
    (model, query): (&LinearModel, &PackedQuery),
    (batch, rows, norms): (&Batch<'_>, U8Rows<'_>, Option<&[f32]>),
    scratch: &mut Scratch,
    (margins, others, block_rows): (&mut [f32], &mut [f32], &mut BlockRows),
    worth: f64,
    sum: &mut [f64],
) -> Result<Tally, NonFiniteGradient> {
    scratch.check(model, query);
    let grid = query.grid.as_ref().expect("a packed query");
    let (selection, outputs) = (&batch.selection, model.outputs);
    let (margins, others) = (
        &mut margins[..outputs * BLOCK_ROWS],
        &mut others[..outputs * BLOCK_ROWS],
    );
    let mut tally = Tally::default();
    let (a, b) = query.coefficients;
    for start in (0..selection.len()).step_by(BLOCK_ROWS) {
        let at = start..(start + BLOCK_ROWS).min(selection.len());
        let count = at.len();
        block_rows.gather(selection, at.clone(), Some(batch.targets), norms, outputs);
        let block = Addresses::of(rows, selection, at);
        let [current, previous] = &query.weights;
        let mut sides = [(current, &mut *margins), (previous, &mut *others)];
        let sides = &mut sides[..if b.is_some() { 2 } else { 1 }];
        let mut session = scratch.products.session();
        margins_of_block(&mut session, query.shape, sides, &block, &mut scratch.margins);
        drop(session);
        let found = residuals::residuals(model.loss, outputs, count, block_rows, margins).and_then(|()| {
            let Some(b) = b else {
                residuals::scale(a, margins, outputs, count);
                return Ok(());
            };
            residuals::residuals(model.loss, outputs, count, block_rows, others)?;
            residuals::combine(a, margins, b, others, outputs, count);
            Ok(())
        });
        if let Err(error) = found {
            scratch.finish(model, 0.0, 0.0, sum);
            return Err(error);
        }
        if scratch.summed + count > SUMMED_ROWS {
            scratch.finish(model, grid.bias, worth, sum);
        }
        scratch.contribute(grid, count, &block_rows.norms, margins, &mut tally);
        scratch.add_block(&block);
    }
    scratch.finish(model, grid.bias, worth, sum);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{NULL_CLASS, Rows, Targets};
    use crate::linear::{
        NonFiniteGradient, Point, RowNorms, Workspace, accumulate_differences, accumulate_gradients, accumulate_packed,
        pack, reference, row_norms,
    };
    use crate::loss::Loss;
    use proptest::prelude::*;

    const SCALE: f32 = 1.0 / 255.0;

    /// Bytes, classes and parameters of a problem, from one seed.
    struct Example {
        model: LinearModel,
        bytes: Vec<u8>,
        scale: f32,
        classes: Vec<u32>,
        parameters: Vec<f32>,
        earlier: Vec<f32>,
    }

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
            let byte = |next: u32| if next.is_multiple_of(3) { (next >> 3) as u8 } else { 0 };
            let bytes = (0..rows * features).map(|_| byte(next())).collect();
            let mut weights = || -> Vec<f32> {
                let weight = |_| (next() as f32 / 32_768.0 - 1.0) * 0.2;
                (0..model.parameters()).map(weight).collect()
            };
            Example {
                model,
                bytes,
                scale: SCALE,
                parameters: weights(),
                earlier: weights(),
                classes: (0..rows).map(|row| (row * 7 % outputs) as u32).collect(),
            }
        }

        fn rows(&self) -> Rows<'_> {
            Rows::bytes(&self.bytes, self.model.features, self.scale)
        }

        fn norms(&self, clip: Clip) -> Option<RowNorms> {
            match clip {
                Clip::Unbounded => None,
                Clip::Bounded { norm, .. } => Some(row_norms(self.rows(), self.model.bias, norm).expect("finite")),
            }
        }

        fn batch<'a>(&'a self, norms: Option<&'a RowNorms>, selection: Selection<'a>) -> Batch<'a> {
            Batch {
                rows: self.rows(),
                targets: Targets::Classes(&self.classes),
                norms,
                selection,
            }
        }

        fn points(&self, difference: bool) -> (Point<'_>, Option<Point<'_>>) {
            let at = |coefficient, parameters| Point {
                coefficient,
                parameters,
            };
            if difference {
                (at(1.5, &self.parameters), Some(at(0.75, &self.earlier)))
            } else {
                (at(1.0, &self.parameters), None)
            }
        }

        /// The sum in units of the grid, and the unit.
        fn integers(
            &self,
            selection: Selection<'_>,
            clip: Clip,
            difference: bool,
            instructions: Instructions,
        ) -> (Vec<f64>, f64, Tally) {
            let norms = self.norms(clip);
            let batch = self.batch(norms.as_ref(), selection);
            let mut packed = PackedQuery::new(&self.model).expect("integers");
            assert!(pack(
                &self.model,
                self.scale,
                self.points(difference),
                clip,
                &mut packed
            ));
            let mut workspace = Workspace::new(&self.model).on(&self.model, instructions);
            let mut sum = vec![0.0; self.model.parameters()];
            let tally = accumulate_packed(&self.model, &batch, &packed, &mut sum, &mut workspace).expect("finite");
            assert!(sum.iter().all(|value| value.fract() == 0.0));
            (sum, packed.unit().expect("packed"), tally)
        }
    }

    /// The sets of this processor; at least AVX2.
    fn sets() -> Vec<Instructions> {
        let sets: Vec<_> = Instructions::ALL
            .into_iter()
            .filter(|set| set.are_available())
            .collect();
        eprintln!("instructions: {sets:?}");
        sets
    }

    const CLIPS: [Clip; 4] = [Clip::Unbounded, Clip::l2(1.0), Clip::l2(1e-3), Clip::l1(2.0)];

    /// Of sums in the order of the parameters.
    fn digest(sum: &[f64]) -> u64 {
        let step = |hash: u64, value: &f64| (hash ^ value.to_bits()).wrapping_mul(0x0100_0000_01b3).rotate_left(7);
        sum.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }

    #[test]
    fn every_instruction_set_gives_the_same_integers() {
        if !super::super::has_integer_kernels() {
            return;
        }
        for (rows, features, outputs, bias) in [
            (1, 64, 2, true),
            (33, 65, 3, false),
            (130, 127, 5, true),
            (200, 784, 10, true),
            (67, 300, 11, true),
            (257, 128, 26, false),
            (64, 95, 7, true),
        ] {
            let mut example = Example::new(rows, features, outputs, bias);
            (0..rows).step_by(9).for_each(|row| example.classes[row] = NULL_CLASS);
            let scattered: Vec<u32> = (0..rows).map(|row| (row * 13 % rows) as u32).collect();
            for (clip, difference) in CLIPS.into_iter().flat_map(|clip| [(clip, false), (clip, true)]) {
                for selection in [Selection::Range(0..rows), Selection::Indices(&scattered)] {
                    let of = |set| example.integers(selection.clone(), clip, difference, set);
                    let expected = of(Instructions::Scalar);
                    for set in sets() {
                        assert!(
                            of(set) == expected,
                            "{rows}×{features}, {outputs} outputs, {clip:?}, {set:?}"
                        );
                    }
                }
            }
        }
    }

    /// Recorded on AVX-512; the test passes on builds and processors with other sets only if they give the same bits.
    #[test]
    fn sums_have_the_recorded_bits_on_every_build() {
        if !super::super::has_integer_kernels() {
            return;
        }
        let example = Example::new(300, 784, 10, true);
        let digests = CLIPS.map(|clip| {
            [false, true].map(|difference| {
                let (sum, unit, _) =
                    example.integers(Selection::Range(0..300), clip, difference, Instructions::fastest());
                digest(&sum) ^ unit.to_bits()
            })
        });
        let expected = [
            [0x985c_2154_e9a1_b5e5, 0x73f4_0439_4c19_9ea1],
            [0xbe32_3b54_cf47_51a1, 0x0c32_f3e0_e59b_1fed],
            [0xa490_8c67_3bdc_7d7a, 0x99cd_47b5_ad87_d092],
            [0x4207_5cc4_c607_6bca, 0x5c07_08eb_0b2d_4003],
        ];
        assert_eq!(digests, expected, "{digests:#x?}");
    }

    #[test]
    fn sums_depend_on_no_order_and_no_split() {
        if !super::super::has_integer_kernels() {
            return;
        }
        let rows = 400;
        let example = Example::new(rows, 100, 4, true);
        let backwards: Vec<u32> = (0..rows as u32).rev().collect();
        for clip in CLIPS {
            let of = |selection| example.integers(selection, clip, false, Instructions::fastest()).0;
            let whole = of(Selection::Range(0..rows));
            assert_eq!(of(Selection::Indices(&backwards)), whole);
            for split in [1, 127, 129, 333] {
                let (mut front, back) = (of(Selection::Range(0..split)), of(Selection::Range(split..rows)));
                front.iter_mut().zip(back).for_each(|(sum, value)| *sum += value);
                assert_eq!(front, whole);
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_reference_but_for_the_grid() {
        if !super::super::has_integer_kernels() {
            return;
        }
        for (rows, features, outputs, bias) in [(40, 64, 2, true), (300, 130, 11, false), (600, 784, 10, true)] {
            let example = Example::new(rows, features, outputs, bias);
            for (clip, difference) in CLIPS.into_iter().flat_map(|clip| [(clip, false), (clip, true)]) {
                let norms = example.norms(clip);
                let batch = example.batch(norms.as_ref(), Selection::Range(0..rows));
                let (current, previous) = example.points(difference);
                let expected = reference::sum_of_differences(&example.model, &batch, current, previous, clip);
                let (sum, unit, _) =
                    example.integers(Selection::Range(0..rows), clip, difference, Instructions::fastest());
                let scale = expected
                    .iter()
                    .fold(1e-3_f64, |greatest, value| greatest.max(value.abs()));
                for (found, expected) in sum.iter().zip(&expected) {
                    let off = (found * unit - expected).abs();
                    // A row that is clipped is up to √10 steps, of 255 units a feature, shorter than it might be.
                    let allowed = 3e-6 * scale + 0.3 * 255.0 * unit * rows as f64;
                    assert!(off <= allowed, "{clip:?}: {found}·{unit} for {expected}");
                }
            }
        }
    }

    #[test]
    fn other_entry_points_give_the_packed_sum_times_its_unit() {
        if !super::super::has_integer_kernels() {
            return;
        }
        let example = Example::new(150, 90, 3, true);
        let norms = example.norms(Clip::l2(1.0));
        let batch = example.batch(norms.as_ref(), Selection::Range(0..150));
        for difference in [false, true] {
            let (expected, unit, tally) = example.integers(
                Selection::Range(0..150),
                Clip::l2(1.0),
                difference,
                Instructions::fastest(),
            );
            let (current, previous) = example.points(difference);
            let previous = previous.unwrap_or(Point {
                coefficient: 0.0,
                ..current
            });
            let mut sum = vec![0.0; expected.len()];
            let mut workspace = Workspace::summing_rows(&example.model, 1);
            let clip = Clip::l2(1.0);
            let found = accumulate_differences(
                &example.model,
                &batch,
                current,
                previous,
                clip,
                &mut sum,
                &mut workspace,
            );
            assert_eq!(found, Ok(tally));
            assert_eq!(sum, expected.iter().map(|value| value * unit).collect::<Vec<_>>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// ‖ρ ⊗ a‖ ≤ Ĉ in integers and Ĉ·h·s ≤ C, for rows and residuals that push rounding to its limit.
        #[test]
        fn a_contribution_never_exceeds_the_clip_norm(
            seed in any::<u32>(),
            outputs in 2_usize..40,
            scale in prop::sample::select(vec![SCALE, 1.0 / 256.0, 1.0, 3.7, 1e-6]),
            bias in any::<bool>(),
            l1 in any::<bool>(),
            clip_exponent in -20_i32..12,
            weight in prop::sample::select(vec![1.0_f32, 2.25, 1e3]),
        ) {
            let mut state = u64::from(seed) << 1 | 1;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let model = LinearModel { features: 64, outputs, bias, loss: Loss::Softmax };
            let norm = if l1 { Norm::L1 } else { Norm::L2 };
            let clip_norm = 2_f32.powi(clip_exponent) * (1.0 + next() as f32 / 4e9);
            let clip = Clip::Bounded { norm, clip_norm };
            let grid = Grid::new(&model, scale, weight, clip).unwrap();
            let (_, limit) = grid.clip.unwrap();
            prop_assert!(limit.fract() == 0.0 && limit.mul_add(grid.unit(), -f64::from(clip_norm)) <= 0.0);
            // Rows from empty over a single 1 to all 255.
            let rows: Vec<u8> = (0..BLOCK_ROWS).flat_map(|row| {
                let full = row * 64 / BLOCK_ROWS;
                (0..64).map(|feature| match row % 4 {
                    0 => u8::from(feature < row / 4 % 3),
                    1 => 255,
                    _ if feature < full => next() as u8,
                    _ => 0,
                }).collect::<Vec<u8>>()
            }).collect();
            let norms = row_norms(Rows::bytes(&rows, 64, scale), bias, norm).unwrap();
            let norms: &[f32; BLOCK_ROWS] = norms.values.first_chunk().unwrap();
            let mut values: Vec<f32> = (0..outputs * BLOCK_ROWS).map(|place| {
                let uniform = next() as f32 / 1_073_741_824.0 - 1.0;
                let row = place % BLOCK_ROWS;
                match row / 4 % 5 {
                    // Equal halves of steps, all of which round away from zero.
                    0 => weight * (place as f32 / 97.0).fract().round(),
                    // Short ones, and almost exactly as long as the clip norm lets them.
                    1 => uniform * weight * 1e-5,
                    2 if norms[row] > 0.0 => {
                        let spread = if l1 { outputs as f32 } else { (outputs as f32).sqrt() };
                        (clip_norm / norms[row] / spread).min(weight)
                    }
                    _ => uniform * weight,
                }
            }).collect();
            for start in (0..BLOCK_ROWS).step_by(LANES) {
                round(&grid, norms, &mut values, start);
            }
            let nu = grid.bias as u128;
            for row in 0..BLOCK_ROWS {
                let features = rows[64 * row..][..64].iter().map(|&byte| u128::from(byte)).chain([nu]);
                let rho = values.chunks(BLOCK_ROWS).map(|values| values[row]);
                prop_assert!(rho.clone().all(|value| value.fract() == 0.0 && value.abs() <= GREATEST));
                let rho = rho.map(|value| value.abs() as u128);
                let limit = limit as u128;
                if l1 {
                    prop_assert!(rho.sum::<u128>() * features.sum::<u128>() <= limit, "row {}", row);
                } else {
                    let squares = |values: &mut dyn Iterator<Item = u128>| values.map(|value| value * value).sum::<u128>();
                    let (rho, features) = (squares(&mut rho.into_iter()), squares(&mut features.into_iter()));
                    // Ĉ² may exceed 128 bits where no contribution comes near it.
                    let within = limit.checked_mul(limit).is_none_or(|limit| rho * features <= limit);
                    prop_assert!(within, "row {}: {}·{} > {}²", row, rho, features, limit);
                }
            }
        }

        /// L_i is at most Ĉ²/‖a_i‖² (Ĉ/‖a_i‖₁), and hardly less.
        #[test]
        fn limits_are_just_below_those_of_exact_arithmetic(
            ones in 0_usize..65,
            byte in 1_u8..=255,
            bias in any::<bool>(),
            l1 in any::<bool>(),
            clip_norm in 0.01_f32..4.0,
        ) {
            let model = LinearModel { features: 64, outputs: 3, bias, loss: Loss::Softmax };
            let norm = if l1 { Norm::L1 } else { Norm::L2 };
            let grid = Grid::new(&model, SCALE, 1.0, Clip::Bounded { norm, clip_norm }).unwrap();
            let row: Vec<u8> = (0..64).map(|feature| if feature < ones { byte } else { 0 }).collect();
            let norms = row_norms(Rows::bytes(&row, 64, SCALE), bias, norm).unwrap();
            let (_, limit) = grid.clip.unwrap();
            let found = grid.limit(norms.values[0], !l1, limit);
            let (ones, byte, nu) = (ones as f64, f64::from(byte), grid.bias);
            let exact = if l1 { limit / (ones * byte + nu) } else { limit * limit / (ones * byte * byte + nu * nu) };
            prop_assert!(found <= exact.min(SURELY_KEPT));
            prop_assert!(found >= exact.min(SURELY_KEPT) * (1.0 - 1e-6) - 1.0, "{} for {}", found, exact);
        }
    }

    #[test]
    fn integers_that_are_too_long_are_cut_towards_zero() {
        for squared in [false, true] {
            for limit in [0.0, 1.0, 5.0, 1e6, 3.3e13_f64.floor()] {
                let mut values = vec![0.0; 3 * BLOCK_ROWS];
                let long: [f32; 3] = [4_000_000.0, -8_000_000.0, 1.0];
                for (output, value) in long.into_iter().enumerate() {
                    values[output * BLOCK_ROWS] = value;
                }
                let size_of = |values: [f32; 3]| {
                    let integers = values.map(|value| value.abs() as i64);
                    integers
                        .map(|integer| if squared { integer * integer } else { integer })
                        .iter()
                        .sum::<i64>()
                };
                cut(squared, limit, size_of(long), &mut values);
                let cut = std::array::from_fn(|output| values[output * BLOCK_ROWS]);
                assert!(size_of(cut) as f64 <= limit);
                let shorter = |(cut, long): (&f32, &f32)| cut.abs() <= long.abs() && cut * long >= 0.0;
                assert!(cut.iter().zip(&long).all(shorter));
            }
        }
    }

    #[test]
    fn weights_too_large_for_digits_and_not_finite_ones_take_the_other_kernels() {
        let mut example = Example::new(64, 80, 3, true);
        let norms = example.norms(Clip::l2(1.0));
        let sum = |example: &Example| {
            let batch = example.batch(norms.as_ref(), Selection::Range(0..64));
            let mut sum = vec![0.0; example.model.parameters()];
            let workspace = &mut Workspace::new(&example.model);
            accumulate_gradients(
                &example.model,
                &batch,
                &example.parameters,
                Clip::l2(1.0),
                &mut sum,
                workspace,
            )
            .map(|_| sum)
        };
        example.parameters[100] = 1e30;
        let batch = example.batch(norms.as_ref(), Selection::Range(0..64));
        let current = Point::at(&example.parameters);
        let expected = reference::sum_of_differences(&example.model, &batch, current, None, Clip::l2(1.0));
        for (found, expected) in sum(&example).expect("finite").iter().zip(expected) {
            assert!((found - expected).abs() < 1e-4);
        }
        example.parameters[100] = f32::NAN;
        assert!(matches!(sum(&example), Err(NonFiniteGradient { .. })));
    }

    #[test]
    #[should_panic = "of its workspace (right)"]
    fn a_query_for_another_model_is_refused() {
        let (wide, narrow) = (Example::new(64, 784, 10, true), Example::new(64, 100, 10, true));
        let mut packed = PackedQuery::new(&wide.model).expect("of its workspace (right)");
        pack(
            &narrow.model,
            narrow.scale,
            narrow.points(false),
            Clip::Unbounded,
            &mut packed,
        );
    }

    #[test]
    fn the_most_features_and_rows_do_not_overflow() {
        if !super::super::has_integer_kernels() {
            return;
        }
        let mut example = Example::new(40, 1 << 16, 2, false);
        example.bytes.fill(255);
        // Lower digits of -128 everywhere: -32,896 = -128·256 - 128.
        example.parameters.fill(-32_896.0 / 8_388_608.0);
        example.parameters[0] = 0.9;
        let batch = example.batch(None, Selection::Range(0..40));
        let current = Point::at(&example.parameters);
        let expected = reference::sum_of_differences(&example.model, &batch, current, None, Clip::Unbounded);
        for set in sets() {
            let (sum, unit, _) = example.integers(Selection::Range(0..40), Clip::Unbounded, false, set);
            let scale = expected
                .iter()
                .fold(0.0_f64, |greatest, value| greatest.max(value.abs()));
            for (found, expected) in sum.iter().zip(&expected) {
                assert!(
                    (found * unit - expected).abs() <= 1e-4 * scale,
                    "{found}·{unit} for {expected}"
                );
            }
        }
        // As many rows as 32 bits hold and more, with coefficients whose lower digits are all -128.
        let mut example = Example::new(1, 64, 2, true);
        example.bytes.fill(255);
        example.parameters.fill(0.0);
        let rows = vec![0; SUMMED_ROWS + 1000];
        for coefficient in [1.0_f32, 65_793.0 / 65_536.0] {
            let mut packed = PackedQuery::new(&example.model).expect("integers");
            let point = Point {
                coefficient,
                parameters: &example.parameters,
            };
            assert!(pack(
                &example.model,
                example.scale,
                (point, None),
                Clip::Unbounded,
                &mut packed
            ));
            let mut sum = vec![0.0; example.model.parameters()];
            let batch = example.batch(None, Selection::Indices(&rows));
            let mut workspace = Workspace::new(&example.model);
            accumulate_packed(&example.model, &batch, &packed, &mut sum, &mut workspace).expect("finite");
            let mut one = vec![0.0; example.model.parameters()];
            let batch = example.batch(None, Selection::Range(0..1));
            accumulate_packed(&example.model, &batch, &packed, &mut one, &mut workspace).expect("finite");
            assert_eq!(
                sum,
                one.iter().map(|value| value * rows.len() as f64).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn digits_hold_every_integer_that_they_are_asked_to() {
        for value in [
            0, 1, -1, 127, 128, -128, -129, 255, 256, 32_767, 32_896, -8_355_711, 8_355_711,
        ] {
            let back = digits_of([value])
                .into_iter()
                .enumerate()
                .map(|(digit, [byte])| i32::from(byte as i8) << (8 * digit));
            assert_eq!(back.sum::<i32>(), value);
        }
    }

    #[test]
    fn steps_are_powers_of_two_that_hold_the_greatest_number() {
        for greatest in [1.0_f32, 0.9999, 1.999_999_9, 1.992, 1.993, 3e-20, 1e17, 0.1] {
            let step = step_of(greatest, GREATEST_WEIGHT_EXPONENT).expect("moderate");
            assert_eq!(step.to_bits() & 0x007f_ffff, 0, "{step} is a power of two");
            let integer = (greatest / step).round();
            assert!(integer <= GREATEST, "{greatest}: {integer}");
            assert!(integer >= GREATEST / 2.1 || greatest < 1e-17, "{greatest}: {integer}");
        }
        assert_eq!(step_of(f32::INFINITY, GREATEST_WEIGHT_EXPONENT), None);
        assert_eq!(step_of(f32::NAN, GREATEST_WEIGHT_EXPONENT), None);
        assert!(step_of(0.0, GREATEST_WEIGHT_EXPONENT).is_some());
    }
}

//! Rows of integers: margins, clipped contributions and their sums as integers, with the same bits on every instruction set.
//!
//! A row is a vector of integers a_i, features in units of a public scale s: bytes ([0, 255]), or fixed-point numbers
//! ([−2¹⁴, 2¹⁴]) in two planes of bytes ([`Planes`]). The bias, if there is one, is the feature ν = max(1, ⌊1/s + ½⌋), so about 1
//! in the same units. All of a query is then
//!
//! 1. **Margins.** A weight is `step_k · w` with an integer w of three signed digits, packed once a query. The integer
//!    Σ_j w_kj a_ij is exact; one multiplication in f64, one addition of the bias and one rounding to f32 make it a margin.
//! 2. **Residuals** in f32, through one sequence of IEEE operations ([`super::residuals`]).
//! 3. **Contributions** ρ_i ⊗ a_i and their **sums**, integers on the public lattice of [`super::lattice`], whose guarantee they
//!    have.
//!
//! Products read a plane at a time. With a = 256·high + low − 2¹⁴, a sum Σ c·a is
//! `256·(Σ c·high − 64·Σ c) + Σ c·low` ([`join`]), for margins and for sums of contributions alike.
//!
//! Residuals have the same bits where multiplications and additions are fused: on x86 with FMA and on aarch64.

use super::lattice::{FeatureGrid, GREATEST_WEIGHT_EXPONENT, Precision, SumLattice, step_of};
use super::model::{Batch, Clip, LinearModel, NonFiniteGradient, Tally};
use super::packing::split;
use super::query::Query;
use super::residuals::{self, BlockRows};
use super::unit_rows::{self, UnitRows};
use super::units::{self, Next, UnitSums};
use crate::features::BLOCK_ROWS;
use crate::features::{F32Rows, Rows, Selection, U8Rows};
use crate::instructions::products::{
    Digits, EMPTY, GROUP, Line, MOST_DIGIT_ROWS, MOST_SAMPLES, Products, Session, TOGETHER, bytes_of, group_lines,
    integers_of,
};
use crate::instructions::{InstructionSet, has_integer_kernels};
use crate::memory::ByteRows;
use crate::vector::lanes::{LANES, low_bytes, put, to_f64};
use std::ops::Range;
use wide::{f32x16, f64x8, i32x16};

/// The most digits of a weight and of a coefficient ([`Precision`]).
const DIGITS: usize = 3;

/// Outputs that go through the products together: two or three columns, or as many rows, of digits each.
const OUTPUTS: usize = MOST_DIGIT_ROWS / DIGITS;

/// Rows that are summed as integers before their sum is rounded to f64: their sums of digits stay in 32 bits, `65,536·255·128 < 2³¹`.
pub const SUMMED_ROWS: usize = 1 << 16;

/// The offset 2¹⁴ of stored integers, in units of the upper byte.
const HIGH_OFFSET: f64 = 64.0;

/// Bytes of a plane, whole cache lines.
fn plane_bytes(features: usize) -> usize {
    features.next_multiple_of(GROUP)
}

/// Rows of f32 on a grid of [`FeatureGrid::fixed_point`] as integers. A feature `s·a`, |a| ≤ 2¹⁴, is stored as the two bytes of
/// a + 2¹⁴: a row's lower bytes, zeros up to a whole cache line, and its upper bytes likewise.
#[derive(Clone, Debug)]
pub struct Planes {
    bytes: ByteRows,
    columns: usize,
    step: f32,
}

impl Planes {
    /// Zeroed memory for `rows` rows of `columns` features, which [`Self::parts`] writes.
    ///
    /// # Panics
    /// A grid that is not fixed point; no columns.
    pub fn zeroed(rows: usize, columns: usize, grid: FeatureGrid) -> Self {
        assert!(columns > 0 && grid.greatest == FeatureGrid::FIXED_POINT, "{columns} columns on {grid:?}");
        Planes { bytes: ByteRows::zeroed(rows, 2 * plane_bytes(columns)), columns, step: grid.step }
    }

    /// A writer for each part of `rows` rows: it takes the part's features. Features that are not on the grid are rounded towards 0, so
    /// that the norm of no row grows.
    pub fn parts(&mut self, rows: usize) -> impl Iterator<Item = impl FnMut(&[f32]) + Send> {
        let (columns, inverse) = (self.columns, 1.0 / self.step);
        let (memory, stride) = self.bytes.memory_mut();
        memory.chunks_mut(rows.max(1) * stride).map(move |memory| {
            move |values: &[f32]| {
                for (row, values) in memory.chunks_exact_mut(stride).zip(values.chunks_exact(columns)) {
                    let (low, high) = row.split_at_mut(stride / 2);
                    for ((low, high), &value) in low.iter_mut().zip(high).zip(values) {
                        let integer = ((value * inverse) as i32).clamp(-(1 << 14), 1 << 14) + (1 << 14);
                        (*low, *high) = (integer as u8, (integer >> 8) as u8);
                    }
                }
            }
        })
    }

    /// Appends rows.
    pub fn append(&mut self, values: &[f32]) {
        let rows = values.len() / self.columns;
        let mut more = Planes { bytes: ByteRows::zeroed(rows, self.bytes.columns()), ..*self };
        more.parts(rows).for_each(|mut write| write(values));
        self.bytes.append(&more.bytes);
    }

    /// Forgets the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows);
    }

    /// The rows as the kernels read them.
    pub fn view(&self) -> U8Rows<'_> {
        self.bytes.view(self.step)
    }
}

/// Rows of integers: of bytes, or of two planes of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerRows<'a> {
    bytes: U8Rows<'a>,
    planes: usize,
}

impl<'a> IntegerRows<'a> {
    /// Of rows that are stored as integers; `None` for others.
    ///
    /// # Panics
    /// Planes of another number of features.
    pub(super) fn of(rows: Rows<'a>) -> Option<Self> {
        match rows {
            Rows::U8(_) => Self::of_bytes(rows),
            Rows::F32(F32Rows { columns, planes, .. }) => planes.map(|bytes| {
                assert_eq!(bytes.columns, 2 * plane_bytes(columns), "bytes of {columns} features in planes");
                IntegerRows { bytes, planes: 2 }
            }),
            Rows::Sparse(_) => None,
        }
    }

    /// Of rows of bytes; `None` for others.
    pub(super) fn of_bytes(rows: Rows<'a>) -> Option<Self> {
        if let Rows::U8(bytes) = rows { Some(IntegerRows { bytes, planes: 1 }) } else { None }
    }

    /// The grid of the features.
    pub(super) fn grid(self) -> FeatureGrid {
        match self.planes {
            1 => FeatureGrid::bytes(self.bytes.scale),
            _ => FeatureGrid { step: self.bytes.scale, greatest: FeatureGrid::FIXED_POINT },
        }
    }
}

/// `Σ_k 256^k·digit_k` of sixteen sums of each of D digits, that of digit k at `place(k)·apart`: exact, below 2⁴⁸.
#[inline(always)]
fn whole<const D: usize>(sums: &[i32], apart: usize, place: impl Fn(usize) -> usize) -> [f64; LANES] {
    let digits: [&[i32; LANES]; D] =
        std::array::from_fn(|digit| sums[place(digit) * apart..].first_chunk().expect("sums of a digit"));
    std::array::from_fn(|lane| {
        let lower = digits[..D - 1].iter().rev();
        lower.fold(f64::from(digits[D - 1][lane]), |higher, digit| higher.mul_add(256.0, f64::from(digit[lane])))
    })
}

/// From `Σ c·low`, `Σ c·high` and `Σ c` to `Σ c·a` of a = 256·high + low − 2¹⁴: exact, as each of at most 2¹⁶ terms is at most
/// 2²³·2¹⁴.
#[inline(always)]
fn join(low: &mut [f64; LANES], high: &[f64; LANES], totals: &[f64; LANES]) {
    for lane in 0..LANES {
        low[lane] = HIGH_OFFSET.mul_add(-totals[lane], high[lane]).mul_add(256.0, low[lane]);
    }
}

/// True if rows of bytes, and f32 rows with [`Planes`], are summed as integers for models of this shape: several outputs, at most 2¹⁶,
/// and 64 to 2¹⁶ features, of which digits of 7 bits and a sign add up to less than 2³¹: `255·128·2¹⁶ < 2³¹`.
pub fn are_integers_for(model: &LinearModel) -> bool {
    (2..=1 << 16).contains(&model.outputs) && (64..=1 << 16).contains(&model.features)
}

/// True if they are so here: on every processor with AVX2 or better, all with the same bits.
pub fn has_integer_kernels_for(model: &LinearModel) -> bool {
    are_integers_for(model) && has_integer_kernels()
}

/// Weights in digits, as [`Session::rows`] reads them: for each run of at most ten outputs, for each group of 64 features.
#[derive(Clone, Debug)]
struct Weights {
    /// Those that read them.
    instructions: InstructionSet,
    precision: Precision,
    lines: Vec<Line>,
    /// The value of one unit of each output's last digit.
    steps: Vec<f64>,
    biases: Vec<f64>,
    /// Σ_j w_kj of each output, for fixed-point features.
    totals: Vec<f64>,
}

/// The D signed digits of sixteen integers, the last digit first, a byte each: `n = Σ_j 256^j·digit_j`. Adding 128 to each
/// digit carries as it must, and flipping the upper bit takes the 128 off again.
#[inline(always)]
fn digits_of<const D: usize>(integers: i32x16) -> [[u8; LANES]; D] {
    let halves = i32x16::splat(0x0080_8080);
    let shifted = (integers + halves) ^ halves;
    std::array::from_fn(|digit| low_bytes(shifted >> (8 * digit as u32)))
}

/// The sum of at most 2¹⁶ weights in steps, exact: each is below 2²³.
fn total_in_steps(weights: &[f32], inverse_step: f32) -> f64 {
    let (whole, rest) = weights.as_chunks::<LANES>();
    let mut sums = [f64x8::ZERO; 2];
    for weights in whole {
        let integers = (f32x16::new(*weights) * inverse_step).round_ties_even();
        for (sum, integers) in sums.iter_mut().zip(to_f64(integers)) {
            *sum += integers;
        }
    }
    let rest = rest.iter().map(|weight| f64::from((weight * inverse_step).round_ties_even()));
    (sums[0] + sums[1]).reduce_add() + rest.sum::<f64>()
}

/// The digits of 64 weights, of which the first `stale` count 0.
fn weight_digits<const D: usize>(weights: &[f32; GROUP], inverse_step: f32, stale: usize, out: &mut [Line; D]) {
    for (place, weights) in weights.as_chunks::<LANES>().0.iter().enumerate() {
        // `step_of` excludes NaN, and |weight·inverse_step| is at most the greatest integer.
        let integers = (f32x16::new(*weights) * inverse_step).round_ties_even().fast_trunc_int();
        for (line, digits) in out.iter_mut().zip(digits_of::<D>(integers)) {
            line.0[LANES * place..][..LANES].copy_from_slice(&digits);
        }
    }
    if stale > 0 {
        out.iter_mut().for_each(|line| line.0[..stale].fill(0));
    }
}

impl Weights {
    fn new(model: &LinearModel, instructions: InstructionSet) -> Self {
        let runs = split(model.outputs, OUTPUTS);
        let lines: usize = runs.map(|(_, outputs)| group_lines(DIGITS * outputs)).sum();
        Weights {
            instructions,
            precision: Precision::default(),
            lines: vec![EMPTY; model.features.div_ceil(GROUP) * lines],
            steps: vec![0.0; model.outputs],
            biases: vec![0.0; model.outputs],
            totals: vec![0.0; model.outputs],
        }
    }

    /// Packs row-major `[outputs, features + bias]` parameters. Returns whether their size lets them be written in digits.
    fn pack(&mut self, model: &LinearModel, parameters: &[f32], lattice: &SumLattice) -> bool {
        self.precision = lattice.precision;
        match lattice.precision {
            Precision::Bits16 => self.pack_digits::<2>(model, parameters, lattice),
            Precision::Bits24 => self.pack_digits::<3>(model, parameters, lattice),
        }
    }

    /// [`Self::pack`] in D digits.
    fn pack_digits<const D: usize>(&mut self, model: &LinearModel, parameters: &[f32], lattice: &SumLattice) -> bool {
        let (scale, bias) = (lattice.scale, lattice.bias);
        let (features, width) = (model.features, model.width());
        let groups = features.div_ceil(GROUP);
        let mut lines = &mut self.lines[..];
        for (first, outputs) in split(model.outputs, OUTPUTS) {
            let of_group = group_lines(D * outputs);
            let (packed, rest) = std::mem::take(&mut lines).split_at_mut(groups * of_group);
            lines = rest;
            let weights = |output: usize| &parameters[(first + output) * width..][..width];
            let mut inverses = [0.0; OUTPUTS];
            for (output, inverse) in inverses[..outputs].iter_mut().enumerate() {
                let weights = weights(output);
                let greatest = weights[..features]
                    .iter()
                    .fold(0, |greatest, weight| (weight.to_bits() & 0x7fff_ffff).max(greatest));
                let Some(step) = step_of(f32::from_bits(greatest), GREATEST_WEIGHT_EXPONENT, lattice.precision) else {
                    return false;
                };
                *inverse = 1.0 / step;
                if lattice.fixed_point {
                    self.totals[first + output] = total_in_steps(&weights[..features], *inverse);
                }
                self.steps[first + output] = f64::from(step) * scale;
                self.biases[first + output] = weights.get(features).map_or(0.0, |&b| f64::from(b) * bias * scale);
            }
            let mut columns = [EMPTY; 2 * LANES];
            for (group, packed) in packed.chunks_exact_mut(of_group).enumerate() {
                let last = group + 1 == groups;
                let start = if last { features - GROUP } else { group * GROUP };
                // The last group begins inside the one before: what was there already counts once.
                let stale = if last { groups * GROUP - features } else { 0 };
                for (output, &inverse) in inverses[..outputs].iter().enumerate() {
                    let weights: &[f32; GROUP] = weights(output)[start..].first_chunk().expect("a group");
                    let mut digits = [EMPTY; D];
                    weight_digits(weights, inverse, stale, &mut digits);
                    for (digit, line) in digits.iter().enumerate() {
                        columns[(D - 1 - digit) * outputs + output].0 = line.0;
                    }
                }
                self.instructions.pack_group(&columns, packed);
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
    lattice: Option<SumLattice>,
}

impl PackedQuery {
    /// Memory for queries of `model`; `None` if its rows take other kernels ([`has_integer_kernels_for`]).
    pub fn new(model: &LinearModel) -> Option<Self> {
        Self::on(model, InstructionSet::fastest())
    }

    /// For workspaces on given instructions ([`super::Workspace::on`]).
    pub fn on(model: &LinearModel, instructions: InstructionSet) -> Option<Self> {
        has_integer_kernels_for(model).then(|| PackedQuery {
            shape: (model.features, model.outputs),
            weights: [0, 1].map(|_| Weights::new(model, instructions)),
            coefficients: (0.0, None),
            lattice: None,
        })
    }

    /// Packs a query. Returns false, by public numbers and parameters alone, if it takes other kernels.
    pub(super) fn pack(&mut self, model: &LinearModel, query: &Query<'_>, lattice: SumLattice) -> bool {
        self.check(model);
        self.lattice = None;
        self.coefficients = query.coefficients();
        let points = [Some(query.current), query.previous];
        for (weights, point) in self.weights.iter_mut().zip(points) {
            if let Some(point) = point
                && !weights.pack(model, point.parameters, &lattice)
            {
                return false;
            }
        }
        self.lattice = Some(lattice);
        true
    }

    /// Packs parameters for margins alone, in three digits.
    pub(super) fn pack_margins(&mut self, model: &LinearModel, grid: FeatureGrid, parameters: &[f32]) -> bool {
        self.check(model);
        self.lattice = None;
        let lattice = SumLattice::new(model, (grid, Precision::Bits24), 1.0, Clip::Unbounded, 0);
        lattice.is_some_and(|lattice| self.weights[0].pack(model, parameters, &lattice))
    }

    /// The lattice of the query's sums.
    ///
    /// # Panics
    /// No query is packed.
    pub(super) fn lattice(&self) -> &SumLattice {
        self.lattice.as_ref().expect("a packed query")
    }

    /// Panics unless this was made for models of this shape.
    fn check(&self, model: &LinearModel) {
        let shape = (model.features, model.outputs);
        assert_eq!(shape, self.shape, "features and outputs of the model (left) and of its workspace (right)");
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
        Columns { features, groups: features / GROUP, rest: (features % GROUP).div_ceil(LANES) }
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
    /// Sums of the digits of 32 rows, `[plane][D·output + digit][32]`.
    margins: Vec<Line>,
    sums: DigitSums,
}

/// Contributions of some rows in digits, and the sums of digits of all rows before them.
#[derive(Debug)]
struct DigitSums {
    columns: Columns,
    /// D digits of a coefficient.
    precision: Precision,
    /// Coefficients in digits, `[row/64][D·output + digit][row % 64]`.
    digits: Vec<Line>,
    /// Sums of digits, `[plane][line][D·output + digit][16]`.
    sums: Vec<Line>,
    /// Rows in `sums`, which hold what was summed before if there are none.
    summed: usize,
    /// Σ ρ of each output, those of the rows in `digits` included.
    totals: Vec<i64>,
}

impl Scratch {
    /// For `model`, on the fastest instructions; `None` if its rows take other kernels.
    pub(super) fn new(model: &LinearModel) -> Option<Box<Self>> {
        Self::on(model, InstructionSet::fastest())
    }

    /// For `model`, on given instructions.
    pub(super) fn on(model: &LinearModel, instructions: InstructionSet) -> Option<Box<Self>> {
        let columns = Columns::new(model.features);
        has_integer_kernels_for(model).then(|| {
            Box::new(Scratch {
                products: Products::new(instructions),
                shape: (model.features, model.outputs),
                margins: vec![EMPTY; 2 * PLANE_SUMS],
                sums: DigitSums {
                    columns,
                    precision: Precision::default(),
                    digits: vec![EMPTY; DIGITS * model.outputs * MOST_SAMPLES / GROUP],
                    sums: vec![EMPTY; 2 * columns.lines() * DIGITS * model.outputs],
                    summed: 0,
                    totals: vec![0; model.outputs],
                },
            })
        })
    }

    /// Panics unless this and `packed` were made for models of this shape and the same instructions.
    pub(super) fn check(&self, model: &LinearModel, packed: &PackedQuery) {
        let of = (self.shape, self.products.instructions);
        assert!(of == (packed.shape, packed.weights[0].instructions), "a query packed for another workspace");
        packed.check(model);
    }

    /// Margins, at the parameters that were packed, of the rows at `positions` of the selection, at most 128:
    /// `out[k·128 + i]`.
    pub(super) fn margins(
        &mut self,
        packed: &PackedQuery,
        rows: IntegerRows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        out: &mut [f32],
    ) {
        let shape = self.shape;
        let mut session = self.products.session();
        let addresses = Addresses::of(rows, selection, positions, &mut session);
        let block = (&addresses, 0..addresses.count);
        let side = (&packed.weights[0], out);
        margins_of_block(&mut session, shape, &mut [side], block, &mut self.margins);
    }

    /// `sum += worth · Σ_i ρ_i ⊗ a_i` over the rows at `positions`, at most 128, of which `values[k·128 + i]` are the coefficients
    /// before they are clipped and written in integers.
    pub(super) fn add_outer(
        &mut self,
        (model, lattice): (&LinearModel, &SumLattice),
        (rows, selection, positions): (IntegerRows<'_>, &Selection<'_>, Range<usize>),
        norms: &[f32; BLOCK_ROWS],
        values: &mut [f32],
        (sum, worth): (&mut [f64], f64),
    ) {
        let sums = &mut self.sums;
        sums.contribute(lattice, (0, positions.len()), norms, values, &mut Tally::default());
        let mut session = self.products.session();
        let addresses = Addresses::of(rows, selection, positions, &mut session);
        sums.add(&mut session, &addresses);
        sums.finish(model, lattice, worth, sum);
    }
}

impl DigitSums {
    /// Forgets contributions and sums.
    fn clear(&mut self) {
        self.totals.fill(0);
        self.summed = 0;
    }

    /// Turns the residuals `values[k·128 + i]` of `count` rows into integers on the grid and writes their digits as those of the
    /// rows from `first` on, a multiple of 128, with zeros behind them up to a multiple of 64.
    fn contribute(
        &mut self,
        lattice: &SumLattice,
        (first, count): (usize, usize),
        norms: &[f32; BLOCK_ROWS],
        values: &mut [f32],
        tally: &mut Tally,
    ) {
        tally.rows += count;
        tally.clipped += lattice.round(norms, values, count);
        self.write(lattice.precision, (first, count), values, BLOCK_ROWS);
    }

    /// Writes the integers `values[k·stride + i]` in digits, as those of the rows from `first` on; see [`Self::contribute`].
    fn write(&mut self, precision: Precision, rows: (usize, usize), values: &[f32], stride: usize) {
        self.precision = precision;
        match precision {
            Precision::Bits16 => self.write_digits::<2>(rows, values, stride),
            Precision::Bits24 => self.write_digits::<3>(rows, values, stride),
        }
    }

    /// [`Self::write`] of D digits.
    fn write_digits<const D: usize>(&mut self, (first, count): (usize, usize), values: &[f32], stride: usize) {
        let step = D * self.totals.len() * GROUP;
        let digits = &mut bytes_of(&mut self.digits)[first / GROUP * step..];
        let (written, whole) = (count.next_multiple_of(LANES), count.next_multiple_of(GROUP));
        for ((output, values), total) in values.chunks_exact(stride).enumerate().zip(&mut self.totals) {
            let place = |digit: usize, row: usize| row / GROUP * step + (D * output + digit) * GROUP + row % GROUP;
            let mut sums = i32x16::ZERO;
            for (start, values) in values[..written].as_chunks::<LANES>().0.iter().enumerate() {
                // The lattice's integers have at most 23 bits.
                let integers = f32x16::new(*values).fast_trunc_int();
                sums += integers;
                for (digit, bytes) in digits_of::<D>(integers).into_iter().enumerate() {
                    digits[place(digit, start * LANES)..][..LANES].copy_from_slice(&bytes);
                }
            }
            *total += sums.to_array().into_iter().map(i64::from).sum::<i64>();
            if written < whole {
                for digit in 0..D {
                    digits[place(digit, written)..][..whole - written].fill(0);
                }
            }
        }
    }

    /// Adds the contributions of these rows, whose digits were written, to the sums of digits.
    fn add(&mut self, session: &mut Session<'_>, addresses: &Addresses) {
        let DigitSums { columns, precision, digits, sums, summed, totals } = self;
        let rows = addresses.rows();
        // Whole fours: the last row stands for those that are missing, whose digits are 0.
        let mut pointers = [*rows.last().expect("rows"); MOST_SAMPLES];
        pointers[..rows.len()].copy_from_slice(rows);
        let pointers = &pointers[..rows.len().next_multiple_of(4)];
        let digit_rows = precision.digits() * totals.len();
        let digits = Digits { bytes: bytes_of(digits), rows: digit_rows, step: digit_rows * GROUP };
        let (sums, apart) = (integers_of(sums), digit_rows * LANES);
        let add = *summed > 0;
        *summed += rows.len();
        for plane in 0..addresses.planes {
            let start = plane * plane_bytes(columns.features);
            let sums = &mut sums[plane * columns.lines() * apart..][..columns.lines() * apart];
            let (of_groups, of_rest) = sums.split_at_mut(4 * columns.groups * apart);
            for (group, sums) in of_groups.chunks_exact_mut(4 * apart).enumerate() {
                // SAFETY: each pointer is that of a whole row, and groups lie inside of its planes.
                unsafe { session.group((pointers, start + group * GROUP), digits, add, (sums, apart)) };
            }
            for (line, sums) in of_rest.chunks_exact_mut(apart).enumerate() {
                // SAFETY: as above: a model of these kernels has at least 64 features.
                unsafe { session.sixteen((pointers, start + columns.start_of_rest(line)), digits, add, sums) };
            }
        }
    }

    /// `sum += worth · sums` of rows on the lattice; the next block overwrites the sums.
    fn finish(&mut self, model: &LinearModel, lattice: &SumLattice, worth: f64, sum: &mut [f64]) {
        if self.summed == 0 {
            return;
        }
        match self.precision {
            Precision::Bits16 => self.finish_digits::<2>(model, lattice, worth, sum),
            Precision::Bits24 => self.finish_digits::<3>(model, lattice, worth, sum),
        }
    }

    /// [`Self::finish`] of sums of D digits.
    fn finish_digits<const D: usize>(
        &mut self,
        model: &LinearModel,
        lattice: &SumLattice,
        worth: f64,
        sum: &mut [f64],
    ) {
        let (features, width) = (model.features, model.width());
        let columns = self.columns;
        let digits: &[i32] = integers_of(&mut self.sums);
        let digits_at = |place: usize| &digits[place * D * LANES..][..D * LANES];
        for line in 0..columns.lines() {
            for (output, sum) in sum.chunks_exact_mut(width).enumerate() {
                let place = line * model.outputs + output;
                let mut whole = whole::<D>(digits_at(place), LANES, |digit| digit);
                if lattice.fixed_point {
                    let total = self.totals[output] as f64;
                    let behind = columns.lines() * model.outputs;
                    let high = self::whole::<D>(digits_at(behind + place), LANES, |digit| digit);
                    join(&mut whole, &high, &[total; LANES]);
                }
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
                sum[features] = (*total as f64 * lattice.bias).mul_add(worth, sum[features]);
            }
            *total = 0;
        }
        self.summed = 0;
    }
}

/// The addresses of some rows, and of those behind them that are prefetched.
struct Addresses {
    /// Planes of bytes a row.
    planes: usize,
    /// At most 256.
    count: usize,
    /// With those behind them.
    known: usize,
    /// The last one known repeated.
    rows: [*const u8; MOST_SAMPLES + TOGETHER],
}

impl Addresses {
    /// Of the rows at `positions`, where `session` reads them fastest.
    ///
    /// # Panics
    /// A row that does not exist.
    fn of(
        IntegerRows { bytes, planes }: IntegerRows<'_>,
        selection: &Selection<'_>,
        positions: Range<usize>,
        session: &mut Session<'_>,
    ) -> Self {
        let end = (positions.end + TOGETHER).min(selection.len());
        let mut addresses = Addresses {
            planes,
            count: positions.len(),
            known: end - positions.start,
            rows: [std::ptr::null(); MOST_SAMPLES + TOGETHER],
        };
        let mut last = std::ptr::null();
        for (pointer, position) in addresses.rows.iter_mut().zip(positions.start..end) {
            last = bytes.row(selection.row(position)).as_ptr();
            *pointer = last;
        }
        addresses.rows[addresses.known..].fill(last);
        // SAFETY: each pointer is that of a whole row.
        unsafe { session.place(&mut addresses.rows, addresses.count, bytes.columns) };
        addresses
    }

    /// The rows themselves.
    fn rows(&self) -> &[*const u8] {
        &self.rows[..self.count]
    }
}

/// Lines of the sums of a plane of 32 rows.
const PLANE_SUMS: usize = 2 * LANES * TOGETHER / LANES;

impl Weights {
    /// The margins of sixteen rows for one of `run` outputs from `first` on, from sums of D digits, those of an upper plane behind
    /// them.
    #[inline(always)]
    fn margins<const D: usize>(
        &self,
        (first, run, output): (usize, usize, usize),
        sums: &[i32],
        planes: usize,
    ) -> f32x16 {
        let whole = |sums: &[i32]| whole::<D>(sums, run * TOGETHER, |digit| D - 1 - digit);
        let mut sum = whole(sums);
        if planes == 2 {
            join(&mut sum, &whole(&sums[PLANE_SUMS * LANES..]), &[self.totals[first + output]; LANES]);
        }
        let (step, bias) = (self.steps[first + output], self.biases[first + output]);
        f32x16::new(sum.map(|sum| sum.mul_add(step, bias) as f32))
    }
}

/// Margins of the rows at `places`, at most 128, for one or two points: `out[k·128 + i]`.
fn margins_of_block(
    session: &mut Session<'_>,
    (features, outputs): (usize, usize),
    sides: &mut [(&Weights, &mut [f32])],
    (addresses, places): (&Addresses, Range<usize>),
    sums: &mut [Line],
) {
    let groups = features.div_ceil(GROUP);
    for start in (0..places.len()).step_by(TOGETHER) {
        let place = places.start + start;
        let rows: &[*const u8; TOGETHER] = addresses.rows[place..].first_chunk().expect("rows behind the block");
        let count = (places.end - place).min(TOGETHER);
        let behind = (place + TOGETHER).min(addresses.known);
        let mut ahead = &addresses.rows[behind..(behind + TOGETHER).min(addresses.known)];
        let planes = (0..addresses.planes).map(|plane| plane * plane_bytes(features));
        for (weights, out) in &mut *sides {
            let mut lines = &weights.lines[..];
            for (first, run) in split(outputs, OUTPUTS) {
                let columns = weights.precision.digits() * run;
                for (start, sums) in planes.clone().zip(sums.chunks_exact_mut(PLANE_SUMS)) {
                    // SAFETY: each pointer is that of a row with `features` bytes in each plane.
                    unsafe {
                        session.rows(((rows, count), start), ahead, features, (lines, columns), sums);
                    };
                }
                ahead = &[];
                lines = &lines[groups * group_lines(columns)..];
                let sums = integers_of(sums);
                for output in 0..run {
                    for half in (0..TOGETHER).step_by(LANES) {
                        let (of, sums) = ((first, run, output), &sums[output * TOGETHER + half..]);
                        let margins = match weights.precision {
                            Precision::Bits16 => weights.margins::<2>(of, sums, addresses.planes),
                            Precision::Bits24 => weights.margins::<3>(of, sums, addresses.planes),
                        };
                        put(out, (first + output) * BLOCK_ROWS + start + half, margins);
                    }
                }
            }
        }
    }
}

/// A packed query and the rows that answer it.
pub(super) struct PackedSum<'a> {
    pub(super) model: &'a LinearModel,
    pub(super) query: &'a PackedQuery,
    pub(super) batch: &'a Batch<'a>,
    pub(super) rows: IntegerRows<'a>,
    pub(super) norms: Option<&'a [f32]>,
}

/// Space for the margins of a block at one or two points, and for what belongs to its rows.
pub(super) struct MarginSpace<'a> {
    pub(super) margins: &'a mut [f32],
    pub(super) others: &'a mut [f32],
    pub(super) block_rows: &'a mut BlockRows,
}

/// `sum += worth · Σ_i clip(…)` in units of the packed lattice, over the rows of a batch.
///
/// # Errors
/// A row whose margins are not finite; `sum` is then unspecified.
pub(super) fn accumulate(
    facts: &PackedSum<'_>,
    scratch: &mut Scratch,
    MarginSpace { margins, others, block_rows }: MarginSpace<'_>,
    (sum, worth): (&mut [f64], f64),
) -> Result<Tally, NonFiniteGradient> {
    let PackedSum { model, query, batch, rows, norms } = *facts;
    scratch.check(model, query);
    let lattice = query.lattice();
    assert_eq!(
        lattice.fixed_point,
        rows.planes == 2,
        "a query packed for rows in planes (left), and such rows (right)"
    );
    let (selection, outputs) = (&batch.selection, model.outputs);
    let (margins, others) = (&mut margins[..outputs * BLOCK_ROWS], &mut others[..outputs * BLOCK_ROWS]);
    let mut tally = Tally::default();
    let points = 1 + usize::from(query.coefficients.1.is_some());
    let Scratch { products, margins: sums_of_rows, sums, .. } = scratch;
    let mut session = products.session();
    for first in (0..selection.len()).step_by(MOST_SAMPLES) {
        let end = (first + MOST_SAMPLES).min(selection.len());
        if sums.summed + (end - first) > SUMMED_ROWS {
            sums.finish(model, lattice, worth, sum);
        }
        BlockRows::prefetch(selection, first..end, batch.targets, norms);
        let addresses = Addresses::of(rows, selection, first..end, &mut session);
        for start in (first..end).step_by(BLOCK_ROWS) {
            let at = start..(start + BLOCK_ROWS).min(end);
            let count = at.len();
            block_rows.gather(selection, at, Some(batch.targets), norms, outputs);
            let block = (&addresses, start - first..start - first + count);
            let [current, previous] = &query.weights;
            let sides = &mut [(current, &mut *margins), (previous, &mut *others)][..points];
            margins_of_block(&mut session, query.shape, sides, block, sums_of_rows);
            let facts = (model.loss, outputs);
            let found = residuals::combined(query.coefficients, facts, count, block_rows, margins, others);
            if let Err(error) = found {
                sums.clear();
                return Err(error);
            }
            sums.contribute(lattice, (start - first, count), &block_rows.norms, margins, &mut tally);
        }
        sums.add(&mut session, &addresses);
    }
    sums.finish(model, lattice, worth, sum);
    Ok(tally)
}

/// [`accumulate`] over the units of a batch: a contribution for each of them.
///
/// # Errors
/// As [`accumulate`].
pub(super) fn accumulate_units(
    facts: &PackedSum<'_>,
    scratch: &mut Scratch,
    mut space: MarginSpace<'_>,
    (unit_rows, own): (UnitRows<'_>, &mut units::Scratch),
    (sum, worth): (&mut [f64], f64),
) -> Result<Tally, NonFiniteGradient> {
    let PackedSum { model, query, batch, rows, .. } = *facts;
    scratch.check(model, query);
    let lattice = query.lattice();
    assert_eq!(
        lattice.fixed_point,
        rows.planes == 2,
        "a query packed for rows in planes (left), and such rows (right)"
    );
    own.prepare(model.outputs, model.parameters());
    let of_units = UnitSums::new(unit_rows, Some(lattice), lattice.clip(), model.outputs);
    let (mut tally, mut position) = (Tally::default(), 0);
    let Scratch { products, margins: sums_of_rows, sums, .. } = scratch;
    let mut session = products.session();
    loop {
        match of_units.next(&batch.selection, &mut position, (MOST_SAMPLES, unit_rows::MOST_ROWS), own) {
            Next::End => break,
            Next::Members => {
                tally.rows += own.members.len();
                if sums.summed + own.rows.len() > SUMMED_ROWS {
                    sums.finish(model, lattice, worth, sum);
                }
                let units::Scratch { rows, members, coefficients, blocks, .. } = own;
                let contribute = |block: Range<usize>, norms: &_, margins: &mut [f32]| {
                    let members = &members[units::members_of(members, block.clone())];
                    let clip_rows = |values: &mut [f32]| lattice.round(norms, values, block.len());
                    tally.clipped += of_units.contribute((block.start, members), margins, blocks, clip_rows);
                };
                let blocks_of = units::blocks(members);
                let selection = Selection::Indices(rows);
                let scratch = (&mut session, &mut sums_of_rows[..], &mut *sums);
                add_chunk(facts, scratch, &mut space, (&selection, blocks_of), coefficients, contribute)?;
            }
            Next::Whole(rows) => {
                sums.finish(model, lattice, worth, sum);
                own.whole.fill(0.0);
                for start in rows.clone().step_by(MOST_SAMPLES) {
                    let part = start..(start + MOST_SAMPLES).min(rows.end);
                    if sums.summed + part.len() > SUMMED_ROWS {
                        sums.finish(model, lattice, 1.0, &mut own.whole);
                    }
                    let blocks = (0..part.len()).step_by(BLOCK_ROWS);
                    let blocks = blocks.map(|start| start..(start + BLOCK_ROWS).min(part.len()));
                    let unclipped =
                        |block: Range<usize>, _: &_, margins: &mut [f32]| of_units.unclipped(margins, block.len());
                    let scratch = (&mut session, &mut sums_of_rows[..], &mut *sums);
                    let selection = Selection::Range(part.clone());
                    add_chunk(facts, scratch, &mut space, (&selection, blocks), &mut own.coefficients, unclipped)?;
                }
                sums.finish(model, lattice, 1.0, &mut own.whole);
                tally.rows += 1;
                tally.clipped += usize::from(of_units.add_whole(
                    of_units.weight_of_whole(rows.len()),
                    &own.whole,
                    (&mut *sum, worth),
                ));
            }
        }
    }
    sums.finish(model, lattice, worth, sum);
    Ok(tally)
}

/// Adds the rows of a selection, at most 256, to the sums of digits. `contribute(block, norms, values)` turns the coefficients of each block,
/// whose blocks have at most 128 rows, into integers.
fn add_chunk(
    facts: &PackedSum<'_>,
    (session, sums_of_rows, sums): (&mut Session<'_>, &mut [Line], &mut DigitSums),
    MarginSpace { margins, others, block_rows }: &mut MarginSpace<'_>,
    (selection, blocks): (&Selection<'_>, impl Iterator<Item = Range<usize>>),
    coefficients: &mut [f32],
    mut contribute: impl FnMut(Range<usize>, &[f32; BLOCK_ROWS], &mut [f32]),
) -> Result<(), NonFiniteGradient> {
    let PackedSum { model, query, batch, rows, norms } = *facts;
    let (outputs, count) = (model.outputs, selection.len());
    if count == 0 {
        return Ok(());
    }
    let (margins, others) = (&mut margins[..outputs * BLOCK_ROWS], &mut others[..outputs * BLOCK_ROWS]);
    let points = 1 + usize::from(query.coefficients.1.is_some());
    BlockRows::prefetch(selection, 0..count, batch.targets, norms);
    let addresses = Addresses::of(rows, selection, 0..count, session);
    for block in blocks {
        block_rows.gather(selection, block.clone(), Some(batch.targets), norms, outputs);
        let [current, previous] = &query.weights;
        let sides = &mut [(current, &mut *margins), (previous, &mut *others)][..points];
        margins_of_block(session, query.shape, sides, (&addresses, block.clone()), sums_of_rows);
        let facts = (model.loss, outputs);
        let found = residuals::combined(query.coefficients, facts, block.len(), block_rows, margins, others);
        if let Err(error) = found {
            sums.clear();
            return Err(error);
        }
        contribute(block.clone(), &block_rows.norms, margins);
        for (to, from) in coefficients.chunks_exact_mut(MOST_SAMPLES).zip(margins.chunks_exact(BLOCK_ROWS)) {
            to[block.clone()].copy_from_slice(&from[..block.len()]);
        }
    }
    let written = count.next_multiple_of(LANES);
    coefficients.chunks_exact_mut(MOST_SAMPLES).for_each(|of_output| of_output[count..written].fill(0.0));
    sums.write(query.lattice().precision, (0, count), coefficients, MOST_SAMPLES);
    sums.add(session, &addresses);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{NULL_CLASS, Targets};
    use crate::linear::{
        NonFiniteGradient, Point, RowNorms, Workspace, accumulate_differences, accumulate_gradients,
        accumulate_on_lattice, accumulate_packed, pack, row_norms, tests::reference,
    };
    use crate::loss::Loss;

    const SCALE: f32 = 1.0 / 255.0;

    /// Every integer that is ever split into D digits, and no digit beyond a signed byte.
    fn digits_are_those_of_every_integer<const D: usize>(greatest: i32) {
        for first in (-greatest..=greatest).step_by(LANES) {
            let integers: [i32; LANES] = std::array::from_fn(|lane| first + lane as i32);
            let digits = digits_of::<D>(i32x16::new(integers));
            for (lane, &integer) in integers.iter().enumerate() {
                let value = |digit: usize| i32::from(digits[digit][lane].cast_signed()) << (8 * digit);
                let joined: i32 = (0..D).map(value).sum();
                assert!(joined == integer || integer > greatest, "{integer}: {joined}");
            }
        }
    }

    #[test]
    fn two_and_three_digits_are_those_of_every_integer() {
        digits_are_those_of_every_integer::<2>(Precision::Bits16.greatest() as i32);
        digits_are_those_of_every_integer::<3>(Precision::Bits24.greatest() as i32);
    }

    /// Sums of bytes at the ends of their ranges, joined as in exact integers.
    #[test]
    fn joined_sums_are_exact_to_the_ends_of_their_range() {
        let most = 1_i128 << 39;
        let ends = [-most, -most + 1, -(1 << 31), -255, -1, 0, 1, 255, 1 << 31, most - 1, most];
        for total in ends {
            // Σ c·byte for coefficients of one sign lies between 0 and 255 times their sum; of both signs, within the greatest.
            for low in ends.map(|end| end * 255) {
                for high in ends.map(|end| end * 255) {
                    let expected = 256 * high + low - (1 << 14) * total;
                    if expected.abs() > 1 << 53 {
                        continue;
                    }
                    let [mut joined, high, total] = [low, high, total].map(|number| [number as f64; LANES]);
                    join(&mut joined, &high, &total);
                    assert_eq!(joined[0] as i128, expected);
                }
            }
        }
    }

    /// Every fixed-point feature in its two bytes, times coefficients of all lengths: the sums of 1 and of 2¹⁶ of them.
    #[test]
    fn joined_products_are_those_of_every_feature() {
        let greatest = Precision::Bits24.greatest() as i64;
        let coefficients = (0..23).flat_map(|bit| [1 << bit, (1 << bit) - 1]).chain([greatest]);
        let coefficients: Vec<i64> = coefficients.flat_map(|coefficient: i64| [coefficient, -coefficient]).collect();
        for feature in -(1 << 14)..=1 << 14_i64 {
            let stored = feature + (1 << 14);
            for (&coefficient, terms) in coefficients.iter().flat_map(|c| [(c, 1), (c, 1 << 16)]) {
                let total = coefficient * terms;
                let mut joined = [(total * (stored & 255)) as f64; LANES];
                join(&mut joined, &[(total * (stored >> 8)) as f64; LANES], &[total as f64; LANES]);
                assert_eq!(joined[LANES - 1] as i64, total * feature, "{terms} times {coefficient} times {feature}");
            }
        }
    }

    /// Rows, classes and parameters of a problem, from one seed.
    #[derive(Clone)]
    struct Example {
        model: LinearModel,
        bytes: Vec<u8>,
        /// Fixed-point rows instead of the bytes.
        fixed_point: Option<(Vec<f32>, Planes)>,
        scale: f32,
        precision: Precision,
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
            let model = LinearModel { features, outputs, bias, loss: Loss::Softmax };
            let byte = |next: u32| if next.is_multiple_of(3) { (next >> 3) as u8 } else { 0 };
            let bytes = (0..rows * features).map(|_| byte(next())).collect();
            let mut weights = || -> Vec<f32> {
                let weight = |_| (next() as f32 / 32_768.0 - 1.0) * 0.2;
                (0..model.parameters()).map(weight).collect()
            };
            Example {
                model,
                bytes,
                fixed_point: None,
                scale: SCALE,
                precision: Precision::Bits24,
                parameters: weights(),
                earlier: weights(),
                classes: (0..rows).map(|row| (row * 7 % outputs) as u32).collect(),
            }
        }

        /// Both formats in both precisions; none where there are no integer kernels.
        fn all(rows: usize, features: usize, outputs: usize, bias: bool) -> Vec<Self> {
            if !has_integer_kernels() {
                return Vec::new();
            }
            // Odd multiples spread over both planes.
            let value = |byte: u8| (i32::from(byte) * 1_027 % 32_769 - 16_384) as f32 / 16_384.0;
            let of_precision = |precision| {
                let of_bytes = || Example { precision, ..Self::new(rows, features, outputs, bias) };
                [of_bytes(), of_bytes().with_values(|byte| if byte == 0 { 0.0 } else { value(byte) })]
            };
            [Precision::Bits24, Precision::Bits16].into_iter().flat_map(of_precision).collect()
        }

        /// The same problem with fixed-point rows.
        fn with_values(mut self, value: impl Fn(u8) -> f32) -> Self {
            let values: Vec<f32> = self.bytes.iter().map(|&byte| value(byte)).collect();
            let mut planes = Planes::zeroed(0, self.model.features, FeatureGrid::fixed_point(1.0));
            planes.append(&values);
            self.fixed_point = Some((values, planes));
            self
        }

        fn rows(&self) -> Rows<'_> {
            match &self.fixed_point {
                Some((values, planes)) => Rows::f32(values, self.model.features).with_planes(Some(planes.view())),
                None => Rows::bytes(&self.bytes, self.model.features, self.scale),
            }
        }

        fn lattice(&self, weight: f32, clip: Clip) -> SumLattice {
            let grid = IntegerRows::of(self.rows()).expect("integers").grid();
            SumLattice::new(&self.model, (grid, self.precision), weight, clip, 0).expect("a lattice")
        }

        fn norms(&self, clip: Clip) -> Option<RowNorms> {
            match clip {
                Clip::Unbounded => None,
                Clip::Bounded { norm, .. } => Some(row_norms(self.rows(), self.model.bias, norm).expect("finite")),
            }
        }

        fn batch<'a>(&'a self, norms: Option<&'a RowNorms>, selection: Selection<'a>) -> Batch<'a> {
            Batch { rows: self.rows(), targets: Targets::Classes(&self.classes), norms, selection, units: None }
        }

        fn points(&self, difference: bool) -> (Point<'_>, Option<Point<'_>>) {
            let at = |coefficient, parameters| Point { coefficient, parameters };
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
            instructions: InstructionSet,
        ) -> (Vec<f64>, f64, Tally) {
            let norms = self.norms(clip);
            let batch = self.batch(norms.as_ref(), selection);
            let mut packed = PackedQuery::on(&self.model, instructions).expect("integers");
            let points = self.points(difference);
            let weight = Query::new(points, clip).weight();
            let lattice = self.lattice(weight, clip);
            assert!(pack(&self.model, points, &lattice, &mut packed));
            let mut workspace = Workspace::new(&self.model).on(&self.model, instructions);
            let mut sum = vec![0.0; self.model.parameters()];
            let tally =
                accumulate_packed(&self.model, &batch, &packed, (&mut sum, 1.0), &mut workspace).expect("finite");
            assert!(sum.iter().all(|value| value.fract() == 0.0));
            (sum, lattice.unit(), tally)
        }
    }

    /// The sets of this processor; at least AVX2.
    fn sets() -> Vec<InstructionSet> {
        let sets: Vec<_> = InstructionSet::available().collect();
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
        for (rows, features, outputs, bias) in [
            (1, 64, 2, true),
            (33, 65, 3, false),
            (130, 127, 5, true),
            (200, 784, 10, true),
            (67, 300, 11, true),
            (257, 128, 26, false),
            (64, 95, 7, true),
        ] {
            for mut example in Example::all(rows, features, outputs, bias) {
                (0..rows).step_by(9).for_each(|row| example.classes[row] = NULL_CLASS);
                let scattered: Vec<u32> = (0..rows).map(|row| (row * 13 % rows) as u32).collect();
                for (clip, difference) in CLIPS.into_iter().flat_map(|clip| [(clip, false), (clip, true)]) {
                    for selection in [Selection::Range(0..rows), Selection::Indices(&scattered)] {
                        let of = |set| example.integers(selection.clone(), clip, difference, set);
                        let expected = of(InstructionSet::Scalar);
                        for set in sets() {
                            assert!(of(set) == expected, "{rows}×{features}, {outputs} outputs, {clip:?}, {set:?}");
                        }
                    }
                }
            }
        }
    }

    /// At parameters of which f32 margins are exact, f64 sums of f32 rows on the same lattice are those of the planes.
    #[test]
    fn sums_over_planes_are_those_over_the_rows() {
        for (rows, features, outputs, bias) in [(40, 64, 2, true), (133, 127, 11, false), (300, 784, 10, true)] {
            let examples = Example::all(rows, features, outputs, bias).into_iter();
            for mut example in examples.filter(|example| example.fixed_point.is_some()) {
                let width = features + usize::from(bias);
                for parameters in [&mut example.parameters, &mut example.earlier] {
                    for (place, weight) in parameters.iter_mut().enumerate() {
                        let sign = if (place / width).is_multiple_of(2) { 0.25 } else { -0.5 };
                        // The features where groups and rows begin and end, and the bias.
                        let counts = [0, 63, features - 1, features].contains(&(place % width));
                        *weight = if counts { sign } else { 0.0 };
                    }
                }
                let norms = row_norms(example.rows(), bias, crate::features::Norm::L2).expect("finite");
                let batch = example.batch(Some(&norms), Selection::Range(0..rows));
                for (clip, difference) in [(Clip::l2(1.0), false), (Clip::l2(50.0), true)] {
                    let points = example.points(difference);
                    let lattice = example.lattice(Query::new(points, clip).weight(), clip);
                    let mut expected = vec![0.0; example.model.parameters()];
                    let workspace = &mut Workspace::new(&example.model);
                    let of_rows =
                        accumulate_on_lattice(&example.model, &batch, points, &lattice, &mut expected, workspace);
                    for set in sets() {
                        let (sum, _, tally) = example.integers(Selection::Range(0..rows), clip, difference, set);
                        assert_eq!((sum, Ok(tally)), (expected.clone(), of_rows), "{set:?}");
                    }
                }
            }
        }
    }

    /// Recorded on AVX-512; the test passes on builds and processors with other sets only if they give the same bits.
    #[test]
    fn sums_have_the_recorded_bits_on_every_build() {
        let digests = Example::all(300, 784, 10, true).into_iter().map(|example| {
            CLIPS.map(|clip| {
                [false, true].map(|difference| {
                    let (sum, unit, _) =
                        example.integers(Selection::Range(0..300), clip, difference, InstructionSet::fastest());
                    digest(&sum) ^ unit.to_bits()
                })
            })
        });
        let digests: Vec<_> = digests.collect();
        let expected = [
            [
                [0x985c_2154_e9a1_b5e5, 0x73f4_0439_4c19_9ea1],
                [0xbe32_3b54_cf47_51a1, 0x0c32_f3e0_e59b_1fed],
                [0xa490_8c67_3bdc_7d7a, 0x99cd_47b5_ad87_d092],
                [0x4207_5cc4_c607_6bca, 0x5c07_08eb_0b2d_4003],
            ],
            [
                [0x73cc_6255_596b_439c, 0x6aa3_da83_19e8_ed79],
                [0x3b6b_7a43_5ee1_a02a, 0xec3f_e2c9_0b55_41a7],
                [0xb4d2_926b_e469_788a, 0xcb2a_3bed_16d1_2a0f],
                [0x4a64_7129_9fa9_aa8a, 0x29e8_b63c_8457_dccc],
            ],
            [
                [0xd6a5_9e9e_a90e_c312, 0x81f7_2367_f1ce_670e],
                [0x5678_297c_c280_daec, 0x27d4_86dd_cf05_2960],
                [0x7340_b6a1_e4b4_e837, 0xe9b8_97bd_ec80_2642],
                [0xdb56_8ea4_50d2_8103, 0x6ca6_1664_76fa_f6a7],
            ],
            [
                [0x1d0b_afc0_f38d_0946, 0xdf73_5dfd_15c8_375c],
                [0x3d44_69ea_ccf6_01f0, 0x901a_54fe_22ad_edcd],
                [0x305f_42f2_6adc_7440, 0x6aa0_e77d_d81b_0b72],
                [0xa4c8_d480_a471_b9aa, 0xae4b_5f56_e3a2_61bd],
            ],
        ];
        assert!(digests.is_empty() || digests == expected, "{digests:#x?}");
    }

    #[test]
    fn sums_depend_on_no_order_and_no_split() {
        let rows = 400;
        let examples = Example::all(rows, 100, 4, true);
        let backwards: Vec<u32> = (0..rows as u32).rev().collect();
        for (clip, example) in CLIPS.into_iter().flat_map(|clip| examples.iter().map(move |example| (clip, example))) {
            let of = |selection| example.integers(selection, clip, false, InstructionSet::fastest()).0;
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
        for (rows, features, outputs, bias) in [(40, 64, 2, true), (300, 130, 11, false), (600, 784, 10, true)] {
            let examples = Example::all(rows, features, outputs, bias);
            let cases = CLIPS.into_iter().flat_map(|clip| [(clip, false), (clip, true)]);
            for ((clip, difference), example) in
                cases.flat_map(|case| examples.iter().map(move |example| (case, example)))
            {
                let norms = example.norms(clip);
                let batch = example.batch(norms.as_ref(), Selection::Range(0..rows));
                let (current, previous) = example.points(difference);
                let expected = reference::sum_of_differences(&example.model, &batch, current, previous, clip);
                let (sum, unit, _) =
                    example.integers(Selection::Range(0..rows), clip, difference, InstructionSet::fastest());
                let scale = expected.iter().fold(1e-3_f64, |greatest, value| greatest.max(value.abs()));
                for (found, expected) in sum.iter().zip(&expected) {
                    let off = (found * unit - expected).abs();
                    // A row that is clipped is up to √10 steps, of `greatest` units a feature, shorter than it might be.
                    let greatest = IntegerRows::of(batch.rows).expect("integers").grid().greatest;
                    let of_margins = if example.precision == Precision::Bits24 { 3e-6 } else { 1e-3 };
                    let allowed = of_margins * scale + 0.3 * f64::from(greatest) * unit * rows as f64;
                    assert!(off <= allowed, "{clip:?}: {found}·{unit} for {expected}");
                }
            }
        }
    }

    #[test]
    fn other_entry_points_give_the_packed_sum_times_its_unit() {
        let examples = Example::all(150, 90, 3, true).into_iter();
        let examples = examples.filter(|example| example.precision == Precision::Bits24);
        for (example, difference) in examples.flat_map(|example| [(example.clone(), false), (example, true)]) {
            let norms = example.norms(Clip::l2(1.0));
            let batch = example.batch(norms.as_ref(), Selection::Range(0..150));
            let (expected, unit, tally) =
                example.integers(Selection::Range(0..150), Clip::l2(1.0), difference, InstructionSet::fastest());
            let points = example.points(difference);
            let mut sum = vec![0.0; expected.len()];
            let mut workspace = Workspace::new(&example.model);
            let clip = Clip::l2(1.0);
            let found = accumulate_differences(&example.model, &batch, points, clip, &mut sum, &mut workspace);
            assert_eq!(found, Ok(tally));
            assert_eq!(sum, expected.iter().map(|value| value * unit).collect::<Vec<_>>());
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
            accumulate_gradients(&example.model, &batch, &example.parameters, Clip::l2(1.0), &mut sum, workspace)
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
        let lattice =
            SumLattice::new(&narrow.model, (FeatureGrid::bytes(SCALE), Precision::Bits24), 1.0, Clip::Unbounded, 0);
        pack(&narrow.model, narrow.points(false), &lattice.unwrap(), &mut packed);
    }

    #[test]
    fn the_most_features_and_rows_do_not_overflow() {
        if !has_integer_kernels() {
            return;
        }
        // Bytes of 255 in either plane, and the greatest and the least fixed-point number.
        let values: [Option<f32>; 4] = [None, Some(1.0), Some(-1.0), Some(16_383.0 / 16_384.0)];
        let example_of = |rows, features, bias, value: Option<f32>| {
            let mut example = Example::new(rows, features, 2, bias);
            example.bytes.fill(255);
            match value {
                Some(value) => example.with_values(|_| value),
                None => example,
            }
        };
        for value in values {
            let mut example = example_of(40, 1 << 16, false, value);
            // Lower digits of -128 everywhere: -32,896 = -128·256 - 128.
            example.parameters.fill(-32_896.0 / 8_388_608.0);
            example.parameters[0] = 0.9;
            let batch = example.batch(None, Selection::Range(0..40));
            let current = Point::at(&example.parameters);
            let expected = reference::sum_of_differences(&example.model, &batch, current, None, Clip::Unbounded);
            for set in sets() {
                let (sum, unit, _) = example.integers(Selection::Range(0..40), Clip::Unbounded, false, set);
                let scale = expected.iter().fold(0.0_f64, |greatest, value| greatest.max(value.abs()));
                for (found, expected) in sum.iter().zip(&expected) {
                    assert!(
                        (found * unit - expected).abs() <= 1e-4 * scale,
                        "{value:?}, {set:?}: {found}·{unit} for {expected}"
                    );
                }
            }
            // As many rows as 32 bits hold and more, with coefficients whose lower digits are all -128.
            let mut example = example_of(1, 64, true, value);
            example.parameters.fill(0.0);
            let rows = vec![0; SUMMED_ROWS + 1000];
            for coefficient in [1.0_f32, 65_793.0 / 65_536.0] {
                let point = Point { coefficient, parameters: &example.parameters };
                let lattice = example.lattice(coefficient, Clip::Unbounded);
                for set in sets() {
                    let mut packed = PackedQuery::on(&example.model, set).expect("integers");
                    assert!(pack(&example.model, (point, None), &lattice, &mut packed));
                    let mut workspace = Workspace::new(&example.model).on(&example.model, set);
                    let mut sum = |selection| {
                        let batch = example.batch(None, selection);
                        let mut sum = vec![0.0; example.model.parameters()];
                        accumulate_packed(&example.model, &batch, &packed, (&mut sum, 1.0), &mut workspace)
                            .expect("finite");
                        sum
                    };
                    let one = sum(Selection::Range(0..1));
                    let whole: Vec<f64> = one.iter().map(|value| value * rows.len() as f64).collect();
                    assert_eq!(sum(Selection::Indices(&rows)), whole, "{value:?}, {set:?}");
                }
            }
        }
    }

    /// The grid of a simulation does not depend on the number of rows: its sums go on beyond 2⁵³ units, where they are rounded as others
    /// of f64 are, after each 65,536 rows that were summed exactly.
    #[test]
    fn sums_beyond_53_bits_are_rounded_as_floating_point_sums() {
        if !has_integer_kernels() {
            return;
        }
        let mut example = Example::new(1, 64, 2, true).with_values(|_| 16_383.0 / 16_384.0);
        example.parameters.fill(0.0);
        let rows = vec![0; 9 * SUMMED_ROWS + 1];
        let coefficient = 1.9 + f32::EPSILON;
        let mut packed = PackedQuery::new(&example.model).expect("integers");
        let point = Point { coefficient, parameters: &example.parameters };
        assert!(pack(&example.model, (point, None), &example.lattice(coefficient, Clip::Unbounded), &mut packed));
        let mut workspace = Workspace::new(&example.model);
        let mut sum = |selection| {
            let mut sum = vec![0.0; example.model.parameters()];
            let batch = example.batch(None, selection);
            accumulate_packed(&example.model, &batch, &packed, (&mut sum, 1.0), &mut workspace).expect("finite");
            sum.into_iter().map(|value| value as i128)
        };
        let one: Vec<i128> = sum(Selection::Range(0..1)).collect();
        let whole: Vec<i128> = one.iter().map(|value| value * rows.len() as i128).collect();
        let off: Vec<i128> =
            sum(Selection::Indices(&rows)).zip(&whole).map(|(sum, whole)| (sum - whole).abs()).collect();
        assert!(whole.iter().all(|whole| whole.abs() > 1 << 54), "{whole:?}");
        assert!(off.iter().zip(&whole).all(|(off, whole)| off << 53 <= 10 * whole.abs()), "{off:?} of {whole:?}");
        assert!(off.iter().any(|&off| off > 0), "the case rounds nothing");
    }
}

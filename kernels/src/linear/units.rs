//! Sums over units: all rows of a unit, a person's say, give one contribution, `clip_C(w·Σ_i q_i ⊗ a_i)` with w = 1 or one over the unit's
//! number of rows.
//!
//! A unit of one row contributes what the row would. Of a unit of few rows the length follows from the products of its rows,
//! `‖Σ_i q_i ⊗ a_i‖² = Σ_ij (q_i·q_j)(a_i·a_j)`, which are computed once ([`super::RowProducts`]); its rows are then summed with all others. A unit of
//! many rows ([`MOST_ROWS`](super::unit_rows::MOST_ROWS)), and one that is clipped in L1, is summed by itself, scaled and added.
//!
//! # Guarantee
//! On a lattice every contribution V of a unit is a vector of integers with `‖V‖ ≤ Ĉ`, ν included ([`super::lattice`]), and a function of the
//! unit's rows, the parameters and public numbers: no other unit of the batch enters an operation of it, and sums of integers depend on no
//! order. Few rows: after ρ_i is rounded, `Σ_ij (ρ_i·ρ_j)(a_i·a_j) ≤ Ĉ²` is checked with an upper bound of the sum's own roundings
//! ([`squared_length`]); a unit that fails is shrunk and rounded anew, and contributes 0 in the end. Many rows: `V_j = ⌊S_j·f⌋` towards 0 of
//! the unit's own sum S, and `Σ_j V_j² ≤ Ĉ²` is checked in f64 with its margin.

use super::lattice::{self, CUT, Precision, SumLattice};
use super::model::Clip;
use super::residuals;
use super::unit_rows::{TOGETHER, UnitRows, width};
use crate::features::{BLOCK_ROWS, Norm, Selection};
use crate::vector::lanes::{LANES, put, to_f64, vector};
use std::ops::Range;
use wide::{f32x16, f64x8};

/// A unit among the rows of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Member {
    unit: usize,
    pub(super) rows: Range<usize>,
}

/// What the units of a batch have in common.
#[derive(Clone, Copy)]
pub(super) struct UnitSums<'a> {
    units: UnitRows<'a>,
    /// The lattice of the sums, or the clip of sums in floating point.
    lattice: Option<&'a SumLattice>,
    clip: Clip,
    outputs: usize,
}

/// Scratch memory for units.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Rows of the matrix.
    pub(super) rows: Vec<u32>,
    pub(super) members: Vec<Member>,
    /// Coefficients of the rows of a chunk, `[k·256 + i]`.
    pub(super) coefficients: Vec<f32>,
    pub(super) blocks: BlockScratch,
    /// The sum of a unit of many rows.
    pub(super) whole: Vec<f64>,
}

/// Scratch memory for the units of a block.
#[derive(Debug, Default)]
pub(super) struct BlockScratch {
    /// Coefficients of a block before and after they are clipped and rounded, with a vector behind them.
    before: Coefficients,
    after: Coefficients,
    /// The factor of each row; −1 for rows that are units.
    factors: Vec<f32>,
}

/// Coefficients `[k·128 + i]` of the rows of a block.
#[derive(Debug, Default)]
struct Coefficients {
    values: Vec<f32>,
    /// Σ_k of their squares, for each row.
    squares: Vec<f32>,
}

/// The rows of whole units, at most 128 at a time.
pub(super) fn blocks(members: &[Member]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut place = 0;
    std::iter::from_fn(move || {
        let start = members.get(place)?.rows.start;
        while members.get(place).is_some_and(|member| member.rows.end - start <= BLOCK_ROWS) {
            place += 1;
        }
        Some(start..members[place - 1].rows.end)
    })
}

/// The members with rows in a block of [`blocks`].
pub(super) fn members_of(members: &[Member], block: Range<usize>) -> Range<usize> {
    members.partition_point(|member| member.rows.end <= block.start)
        ..members.partition_point(|member| member.rows.start < block.end)
}

impl Scratch {
    /// For sums of `parameters` values.
    pub(super) fn prepare(&mut self, outputs: usize, parameters: usize) {
        self.coefficients.resize(outputs * 2 * BLOCK_ROWS, 0.0);
        let BlockScratch { before, after, factors } = &mut self.blocks;
        for Coefficients { values, squares } in [before, after] {
            values.resize(outputs * BLOCK_ROWS + LANES, 0.0);
            squares.resize(BLOCK_ROWS + LANES, 0.0);
        }
        factors.resize(BLOCK_ROWS, 0.0);
        self.whole.resize(parameters, 0.0);
    }
}

/// What to sum next.
pub(super) enum Next {
    /// The rows of the members of the scratch.
    Members,
    /// A unit by itself.
    Whole(Range<usize>),
    End,
}

impl<'a> UnitSums<'a> {
    pub(super) fn new(units: UnitRows<'a>, lattice: Option<&'a SumLattice>, clip: Clip, outputs: usize) -> Self {
        let unit = units.products.unit;
        assert!(
            lattice.is_none_or(|lattice| lattice.scale == unit),
            "products of rows in another unit than the lattice's"
        );
        UnitSums { units, lattice, clip, outputs }
    }

    /// Gathers units of the selection from `position` on, as long as they have at most `most` rows together and none has more than
    /// `most_of_one`.
    pub(super) fn next(
        &self,
        selection: &Selection<'_>,
        position: &mut usize,
        (most, most_of_one): (usize, usize),
        scratch: &mut Scratch,
    ) -> Next {
        let most_of_one = if let Clip::Bounded { norm: Norm::L1, .. } = self.clip { 1 } else { most_of_one };
        scratch.rows.clear();
        scratch.members.clear();
        while *position < selection.len() {
            let unit = selection.row(*position);
            let own = self.units.rows_of(unit);
            if own.len() > most_of_one {
                if !scratch.members.is_empty() {
                    return Next::Members;
                }
                *position += 1;
                return Next::Whole(own);
            }
            let start = scratch.rows.len();
            if start + own.len() > most {
                return Next::Members;
            }
            *position += 1;
            self.units.products.prefetch(unit);
            scratch.members.push(Member { unit, rows: start..start + own.len() });
            scratch.rows.extend(own.map(|row| row as u32));
        }
        if scratch.members.is_empty() { Next::End } else { Next::Members }
    }

    /// Turns the coefficients `values[k·128 + i]` of the rows of some members, which begin at row `first` of the chunk, into those of their
    /// contributions: on a lattice integers, zeros behind them up to a whole vector. `clip_rows` does so for rows that are units. Returns
    /// the units that were clipped.
    pub(super) fn contribute(
        &self,
        (first, members): (usize, &[Member]),
        values: &mut [f32],
        BlockScratch { before, after, factors }: &mut BlockScratch,
        clip_rows: impl FnOnce(&mut [f32]) -> usize,
    ) -> usize {
        let values = &mut values[..self.outputs * BLOCK_ROWS];
        let is_single = |member: &Member| member.rows.len() == 1;
        let place = |member: &Member| member.rows.start - first..member.rows.end - first;
        let count = members.last().map_or(0, |member| member.rows.end - first);
        residuals::clear_beyond(values, self.outputs, count);
        if members.iter().all(is_single) {
            return clip_rows(values);
        }
        before.copy(self.scale() as f32, values, count);
        let mut clipped = 0;
        factors.fill(0.0);
        for member in members.iter().filter(|member| member.rows.len() > 1) {
            let (factor, is_longer) = self.unit(member).factor(before, place(member).start);
            factors[place(member)].fill(factor);
            clipped += usize::from(is_longer);
        }
        if members.iter().any(is_single) {
            for member in members {
                if is_single(member) {
                    factors[place(member)].fill(-1.0);
                } else {
                    values.chunks_exact_mut(BLOCK_ROWS).for_each(|values| values[place(member)].fill(0.0));
                }
            }
            clipped += clip_rows(values);
        }
        self.scaled_rows(before, factors, 0..count, after);
        if self.lattice.is_some() {
            for member in members.iter().filter(|member| member.rows.len() > 1) {
                let unit = self.unit(member);
                for attempt in 0..=8 {
                    let Some(smaller) = unit.excess(after, place(member).start) else { break };
                    let factor = &mut factors[place(member)];
                    // With a factor of 0 it contributes nothing, whoever rounds its rows anew.
                    let less = if attempt < 8 { smaller * (1.0 - f64::from(1 << attempt) / 4_096.0) } else { 0.0 };
                    factor.fill((f64::from(factor[0]) * less) as f32);
                    self.scaled_rows(before, factors, place(member), after);
                }
            }
        }
        for start in (0..count).step_by(LANES) {
            let are_theirs = vector(factors, start).simd_ge(f32x16::ZERO);
            for place in (start..values.len()).step_by(BLOCK_ROWS) {
                put(values, place, are_theirs.select(vector(&after.values, place), vector(values, place)));
            }
        }
        clipped
    }

    /// A unit of few rows.
    fn unit(&self, member: &Member) -> Unit<'_> {
        Unit { sums: self, products: self.units.products.of(member.unit), rows: member.rows.len() }
    }

    /// Writes the rows `rows` times their factors, on a lattice as integers.
    fn scaled_rows(&self, before: &Coefficients, factors: &[f32], rows: Range<usize>, after: &mut Coefficients) {
        for start in (rows.start / LANES * LANES..rows.end).step_by(LANES) {
            let mut squares = f32x16::ZERO;
            if self.lattice.is_some() {
                squares = lattice::round_by(vector(factors, start), &before.values, start, &mut after.values);
            } else {
                for place in (start..self.outputs * BLOCK_ROWS).step_by(BLOCK_ROWS) {
                    put(&mut after.values, place, vector(&before.values, place) * vector(factors, start));
                }
            }
            put(&mut after.squares, start, squares);
        }
    }

    /// A power of two: coefficients times it are at most the greatest integer of the lattice; 1 without one.
    fn scale(&self) -> f64 {
        self.lattice.map_or(1.0, |lattice| lattice.spread / lattice.step())
    }

    /// The factor of a sum over the `rows` rows of a unit ([`Self::unclipped`]).
    pub(super) fn weight_of_whole(&self, rows: usize) -> f64 {
        self.units.weight(rows) / self.lattice.map_or(1.0, |lattice| lattice.spread)
    }

    /// Adds `worth` times the contribution of a unit: `weight · whole`, clipped. Returns whether it was longer than the clip norm.
    pub(super) fn add_whole(&self, weight: f64, whole: &[f64], (sum, worth): (&mut [f64], f64)) -> bool {
        let norm = if let Clip::Bounded { norm, .. } = self.clip { norm } else { Norm::L2 };
        let size = |value: f64| if norm == Norm::L1 { value.abs() } else { value * value };
        let length_of = |sizes: f64| if norm == Norm::L1 { sizes } else { sizes.sqrt() };
        // A sum of p terms is off by p·2⁻⁵³ of itself.
        let inflation = 1.0 + (whole.len() + 64) as f64 / 4_503_599_627_370_496.0;
        let limit = match (self.lattice, self.clip) {
            (Some(lattice), _) => lattice.limit(),
            (None, Clip::Bounded { clip_norm, .. }) => f64::from(clip_norm),
            (None, Clip::Unbounded) => f64::INFINITY,
        };
        let longest = length_of(whole.iter().map(|&value| size(value)).sum()) * weight * inflation;
        if !longest.is_finite() {
            return true;
        }
        let is_longer = longest > limit;
        let factor = weight * if is_longer { limit / longest / inflation } else { 1.0 };
        let of = |value: f64| {
            let scaled = value * factor;
            if self.lattice.is_some() { scaled.trunc() } else { scaled }
        };
        let mut sizes = 0.0;
        for (sum, &value) in sum.iter_mut().zip(whole) {
            let value = of(value);
            sizes += size(value);
            *sum = value.mul_add(worth, *sum);
        }
        if !(length_of(sizes) * inflation <= limit) {
            // It was too long, or no number: it contributes nothing.
            sum.iter_mut().zip(whole).for_each(|(sum, &value)| *sum = of(value).mul_add(-worth, *sum));
        }
        is_longer
    }

    /// Coefficients of a unit that is summed by itself: on a lattice integers of [`SumLattice::spread`] times them.
    pub(super) fn unclipped(&self, values: &mut [f32], count: usize) {
        let values = &mut values[..self.outputs * BLOCK_ROWS];
        residuals::clear_beyond(values, self.outputs, count);
        if let Some(lattice) = self.lattice {
            let factor = (lattice.spread / lattice.step()) as f32;
            let greatest = lattice.greatest();
            for values in values.chunks_exact_mut(BLOCK_ROWS) {
                for value in &mut values[..count] {
                    *value = (*value * factor).round_ties_even().clamp(-greatest, greatest);
                }
            }
        }
    }
}

impl Coefficients {
    /// Takes `scale` times the coefficients of the first `count` rows, a whole number of vectors.
    fn copy(&mut self, scale: f32, values: &[f32], count: usize) {
        let end = count.next_multiple_of(LANES);
        for start in (0..end).step_by(LANES) {
            let mut squares = f32x16::ZERO;
            for place in (start..values.len()).step_by(BLOCK_ROWS) {
                let lanes = (vector(values, place) * scale).max(-f32x16::splat(CUT)).min(f32x16::splat(CUT));
                put(&mut self.values, place, lanes);
                squares = lanes.mul_add(lanes, squares);
            }
            put(&mut self.squares, start, squares);
        }
        // What is multiplied by products of 0 is finite.
        self.values[..values.len()].chunks_exact_mut(BLOCK_ROWS).for_each(|values| values[end..].fill(0.0));
        self.squares[end..].fill(0.0);
    }
}

/// A unit of few rows.
struct Unit<'a> {
    sums: &'a UnitSums<'a>,
    products: &'a [f32],
    rows: usize,
}

impl Unit<'_> {
    /// The greatest length of the coefficients of a contribution.
    fn limit(&self) -> f64 {
        match (self.sums.lattice, self.sums.clip) {
            (Some(lattice), _) => lattice.limit(),
            (None, Clip::Bounded { clip_norm, .. }) => f64::from(clip_norm) / self.sums.units.products.unit,
            (None, Clip::Unbounded) => f64::INFINITY,
        }
    }

    /// The factor of coefficients, [`UnitSums::scale`] times those of the rows from `start` on, to those of the unit's contribution before they
    /// are rounded; whether they were longer than the clip norm.
    fn factor(&self, before: &Coefficients, start: usize) -> (f32, bool) {
        let weight = self.sums.units.weight(self.rows) / self.sums.lattice.map_or(1.0, |lattice| lattice.spread);
        let limit = self.limit();
        if limit == f64::INFINITY {
            return (weight as f32, false);
        }
        // Rounding may lengthen, and what is too long is rounded anew.
        let spare = match self.sums.lattice.map(|lattice| lattice.precision) {
            Some(Precision::Bits16) => 1.0 - 1.0 / 1_024.0,
            Some(Precision::Bits24) => 1.0 - 1.0 / 32_768.0,
            None => 1.0 - 1.0 / 1_048_576.0,
        };
        let length = self.squared_length(before, start).sqrt() * weight;
        let factor = if length <= limit * spare { weight } else { weight * limit * spare / length };
        (factor as f32, length > limit)
    }

    /// The factor by which integers are too great for the lattice or the clip norm, if they are.
    fn excess(&self, after: &Coefficients, start: usize) -> Option<f64> {
        let (Some(lattice), limit) = (self.sums.lattice, self.limit()) else { return None };
        let squares = &after.squares[start..start + self.rows];
        let bound = lattice.greatest();
        // No integer is longer than its row.
        if squares.iter().any(|&square| !(square <= bound * bound)) {
            let rows = start..start + self.rows;
            let values = after.values[..self.sums.outputs * BLOCK_ROWS].chunks_exact(BLOCK_ROWS);
            let greatest =
                values.flat_map(|values| &values[rows.clone()]).fold(0.0_f32, |most, value| most.max(value.abs()));
            if !(greatest <= bound) {
                return Some(f64::from(bound / greatest));
            }
        }
        // A root and its argument are each off by 2⁻⁵³ of themselves.
        let length = self.squared_length(after, start).sqrt() * (1.0 + 1.0 / 1_099_511_627_776.0);
        let fits = limit == f64::INFINITY || length <= limit;
        (!fits).then(|| (limit / length).min(1.0))
    }

    /// An upper bound of `‖Σ_i v_i ⊗ a_i‖²` over the rows from `start` of a block on, bias included, in squares of a unit of features.
    ///
    /// With u = 2⁻²⁴: of each term (v_i·v_j)(a_i·a_j) the first factor is a sum of K products, the second is rounded once; eight vectors at most
    /// of eight rows are added in f32, all else in f64. So the sum is off by at most (K + 20)·u·Σ_ij |v_i·v_j||a_i·a_j|, and that sum is at most
    /// `(Σ_i ‖v_i‖‖a_i‖)² ≤ m·Σ_i ‖v_i‖²‖a_i‖²`, of which the same share is added, and a fifth more for its own roundings. Rows of other units
    /// are multiplied by 0.
    fn squared_length(&self, of: &Coefficients, start: usize) -> f64 {
        let (diagonal, mut products) = self.products.split_at(self.rows.next_multiple_of(LANES));
        let mut of_rows = f32x16::ZERO;
        for (place, diagonal) in (start..).step_by(LANES).zip(diagonal.as_chunks::<LANES>().0) {
            of_rows = f32x16::new(*diagonal).mul_add(vector(&of.squares, place), of_rows);
        }
        let mut sum = f64x8::ZERO;
        for first in (0..self.rows).step_by(TOGETHER) {
            let width = width(first);
            let (eight, rest) = products.split_at(TOGETHER * width);
            products = rest;
            let mut totals = [f32x16::ZERO; 4];
            for place in (0..width).step_by(LANES) {
                let mut between = [f32x16::ZERO; TOGETHER];
                for output in (start..).step_by(BLOCK_ROWS).take(self.sums.outputs) {
                    let rows: &[f32; TOGETHER] = of.values[output + first..].first_chunk().expect("a vector behind");
                    let others = vector(&of.values, output + place);
                    for (&row, between) in rows.iter().zip(&mut between) {
                        *between = f32x16::splat(row).mul_add(others, *between);
                    }
                }
                for (row, (between, products)) in between.into_iter().zip(eight.chunks_exact(width)).enumerate() {
                    let total = &mut totals[row % 4];
                    *total = between.mul_add(vector(products, place), *total);
                }
            }
            let [low, high] = to_f64((totals[0] + totals[1]) + (totals[2] + totals[3]));
            sum += low + high;
        }
        let share = 1.2 * (self.sums.outputs + 40) as f64 / 16_777_216.0 * self.rows as f64;
        let (sum, of_rows) = (sum_of_eight(sum.to_array()), sum_of_sixteen(of_rows.to_array()));
        let bound = sum.max(0.0) * (1.0 + 1.0 / 1_099_511_627_776.0) + share * f64::from(of_rows);
        // No number is a length that nothing holds.
        if sum.is_finite() && bound.is_finite() { bound } else { f64::INFINITY }
    }
}

/// In one order in every build, as a bound decides the integers of its unit; a vector's own sum has that of its width.
fn sum_of_eight(lanes: [f64; 8]) -> f64 {
    let [a, b, c, d]: [f64; 4] = std::array::from_fn(|lane| lanes[lane] + lanes[lane + 4]);
    (a + b) + (c + d)
}

/// As [`sum_of_eight`].
fn sum_of_sixteen(lanes: [f32; 16]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|lane| lanes[lane] + lanes[lane + 8]);
    let [a, b, c, d]: [f32; 4] = std::array::from_fn(|lane| eight[lane] + eight[lane + 4]);
    (a + c) + (b + d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{NULL_CLASS, NULL_TARGET, Rows, SparseRows, Targets};
    use crate::instructions::InstructionSet;
    use crate::linear::{
        Batch, FeatureGrid, LinearModel, LocalSteps, PackedQuery, Planes, Point, Reduction, RowNorms, RowProducts,
        Tally, Workspace, accumulate_differences, accumulate_local_steps, accumulate_on_lattice, accumulate_packed,
        pack, row_norms, tests::reference,
    };
    use crate::loss::Loss;

    /// Sizes of units: none, one, few, as many as products are kept for, and more.
    const SIZES: [usize; 14] = [3, 0, 1, 1, 2, 5, 10, 0, 1, 33, 128, 129, 7, 300];

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Format {
        Bytes,
        /// On a grid, of [`Planes`] where the model has them.
        FixedPoint,
        Sparse,
    }

    struct Example {
        model: LinearModel,
        format: Format,
        bytes: Vec<u8>,
        values: Vec<f32>,
        planes: Option<Planes>,
        sparse: (Vec<usize>, Vec<u32>, Vec<f32>),
        classes: Vec<u32>,
        reals: Vec<f32>,
        offsets: Vec<usize>,
        products: RowProducts,
        points: [Vec<f32>; 2],
    }

    impl Example {
        fn new(format: Format, loss: Loss, features: usize, outputs: usize, sizes: &[usize]) -> Self {
            let model = LinearModel { features, outputs, bias: true, loss };
            let mut state = (features * 31 + outputs) as u32;
            let mut next = move || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16
            };
            let mut offsets = vec![0];
            sizes.iter().for_each(|size| offsets.push(offsets[offsets.len() - 1] + size));
            let rows = offsets[sizes.len()];
            let byte = |next: u32| if next.is_multiple_of(3) { (next >> 3) as u8 } else { 0 };
            let bytes: Vec<u8> = (0..rows * features).map(|_| byte(next())).collect();
            let of_byte =
                |byte: u8| if byte == 0 { 0.0 } else { (i32::from(byte) * 1_027 % 32_769 - 16_384) as f32 / 16_384.0 };
            let values: Vec<f32> = bytes.iter().copied().map(of_byte).collect();
            let mut sparse = (vec![0], Vec::new(), Vec::new());
            for row in values.chunks_exact(features) {
                let stored = row.iter().enumerate().filter(|(_, value)| **value != 0.0);
                stored.for_each(|(column, &value)| {
                    sparse.1.push(column as u32);
                    sparse.2.push(value);
                });
                sparse.0.push(sparse.1.len());
            }
            let planes = (format == Format::FixedPoint && crate::linear::has_integer_kernels_for(&model)).then(|| {
                let mut planes = Planes::zeroed(0, features, FeatureGrid::fixed_point(1.0));
                planes.append(&values);
                planes
            });
            let mut weights = || (0..model.parameters()).map(|_| (next() as f32 / 32_768.0 - 1.0) * 0.2).collect();
            let points = [weights(), weights()];
            let mut classes: Vec<u32> = (0..rows).map(|row| (row * 7 % outputs) as u32).collect();
            let mut reals: Vec<f32> = (0..rows).map(|row| if row % 3 == 0 { 1.0 } else { -1.0 }).collect();
            for row in (0..rows).step_by(11) {
                (classes[row], reals[row]) = (NULL_CLASS, NULL_TARGET);
            }
            let unit = if format == Format::Bytes { f64::from(1.0_f32 / 255.0) } else { 2_f64.powi(-14) };
            let products = RowProducts { values: Vec::new(), starts: vec![0], unit };
            let mut example =
                Example { model, format, bytes, values, planes, sparse, classes, reals, offsets, products, points };
            let middle = sizes.len() / 2;
            let mut products = RowProducts::new(example.rows(), true, &example.offsets, 0..middle, unit);
            products.append(&RowProducts::new(example.rows(), true, &example.offsets, middle..sizes.len(), unit));
            example.products = products;
            example
        }

        fn rows(&self) -> Rows<'_> {
            let columns = self.model.features;
            match self.format {
                Format::Bytes => Rows::bytes(&self.bytes, columns, 1.0 / 255.0),
                Format::FixedPoint => {
                    Rows::f32(&self.values, columns).with_planes(self.planes.as_ref().map(Planes::view))
                }
                Format::Sparse => {
                    let (offsets, indices, values) = &self.sparse;
                    Rows::Sparse(SparseRows { offsets, indices, values, columns })
                }
            }
        }

        fn grid(&self) -> FeatureGrid {
            match self.format {
                Format::Bytes => FeatureGrid::bytes(1.0 / 255.0),
                _ => FeatureGrid::fixed_point(1.0),
            }
        }

        fn batch<'a>(&'a self, norms: &'a RowNorms, selection: Selection<'a>, reduction: Reduction) -> Batch<'a> {
            let targets = match self.model.loss {
                Loss::Softmax => Targets::Classes(&self.classes),
                _ => Targets::Values(&self.reals),
            };
            let units = UnitRows { offsets: &self.offsets, reduction, products: &self.products };
            Batch { rows: self.rows(), targets, norms: Some(norms), selection, units: Some(units) }
        }

        fn points(&self, difference: bool) -> (Point<'_>, Option<Point<'_>>) {
            let at = |coefficient, parameters| Point { coefficient, parameters };
            let [current, previous] = &self.points;
            if difference { (at(1.5, current), Some(at(0.75, previous))) } else { (at(1.0, current), None) }
        }

        /// The sum on a lattice, and the lattice.
        fn integers(
            &self,
            batch: &Batch<'_>,
            clip: Clip,
            difference: bool,
            precision: Precision,
        ) -> (Vec<f64>, SumLattice, Tally) {
            self.integers_on(InstructionSet::fastest(), batch, clip, difference, precision)
        }

        fn integers_on(
            &self,
            set: InstructionSet,
            batch: &Batch<'_>,
            clip: Clip,
            difference: bool,
            precision: Precision,
        ) -> (Vec<f64>, SumLattice, Tally) {
            let points = self.points(difference);
            let weight = points.0.coefficient + points.1.map_or(0.0, |point| point.coefficient);
            let lattice =
                SumLattice::of_units(&self.model, (self.grid(), precision), weight, clip, 1 << 20).expect("a lattice");
            let mut sum = vec![0.0; self.model.parameters()];
            let mut workspace = Workspace::new(&self.model).on(&self.model, set);
            let packed = PackedQuery::on(&self.model, set).filter(|_| self.format != Format::Sparse);
            let tally = match packed {
                Some(mut packed) => {
                    assert!(pack(&self.model, points, &lattice, &mut packed));
                    accumulate_packed(&self.model, batch, &packed, (&mut sum, 1.0), &mut workspace)
                }
                None => accumulate_on_lattice(&self.model, batch, points, &lattice, &mut sum, &mut workspace),
            };
            (sum, lattice, tally.expect("finite"))
        }
    }

    fn examples(sizes: &[usize]) -> Vec<Example> {
        let mut examples = Vec::new();
        for format in [Format::Bytes, Format::FixedPoint, Format::Sparse] {
            for (loss, features, outputs) in [
                (Loss::Softmax, 80, 3),
                (Loss::Softmax, 127, 10),
                (Loss::Softmax, 150, 13),
                (Loss::Softmax, 20, 4),
                (Loss::Logistic, 90, 1),
                (Loss::Squared, 33, 1),
            ] {
                examples.push(Example::new(format, loss, features, outputs, sizes));
            }
        }
        examples
    }

    const CLIPS: [Clip; 4] = [Clip::l2(0.05), Clip::l2(1.0), Clip::l2(100.0), Clip::l1(2.0)];

    #[test]
    fn contributions_are_integers_within_the_clip_norm_and_depend_on_their_unit_alone() {
        for example in examples(&SIZES) {
            for (clip, difference, reduction, precision) in CLIPS.into_iter().flat_map(|clip| {
                [(clip, false, Reduction::Mean, Precision::Bits16), (clip, true, Reduction::Sum, Precision::Bits24)]
            }) {
                let Clip::Bounded { norm, clip_norm } = clip else { panic!("a clip") };
                let norms = row_norms(example.rows(), true, norm).expect("finite");
                let mut total = vec![0.0; example.model.parameters()];
                let mut clipped = 0;
                for unit in 0..SIZES.len() {
                    let batch = example.batch(&norms, Selection::Range(unit..unit + 1), reduction);
                    let (sum, lattice, tally) = example.integers(&batch, clip, difference, precision);
                    assert!(sum.iter().all(|value| value.fract() == 0.0));
                    let integers = || sum.iter().map(|&value| value as i128);
                    let limit = lattice.limit() as i128;
                    match norm {
                        Norm::L1 => assert!(integers().map(i128::abs).sum::<i128>() <= limit),
                        Norm::L2 => assert!(integers().map(|value| value * value).sum::<i128>() <= limit * limit),
                    }
                    assert!(lattice.limit() * lattice.unit() <= f64::from(clip_norm));
                    assert!(SIZES[unit] > 0 || sum.iter().all(|&value| value == 0.0), "{unit}");
                    total.iter_mut().zip(&sum).for_each(|(total, value)| *total += value);
                    clipped += tally.clipped;
                }
                let backwards: Vec<u32> = (0..SIZES.len() as u32).rev().collect();
                for selection in [Selection::Range(0..SIZES.len()), Selection::Indices(&backwards)] {
                    let batch = example.batch(&norms, selection, reduction);
                    for set in InstructionSet::available() {
                        let (sum, _, tally) = example.integers_on(set, &batch, clip, difference, precision);
                        assert_eq!(tally, Tally { rows: SIZES.len(), clipped });
                        let of = (example.format, example.model);
                        assert_eq!(sum, total, "{of:?} {clip:?} {reduction:?} {set:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_reference_on_lattices_and_in_floating_point() {
        for example in examples(&SIZES) {
            for (clip, reduction) in
                CLIPS.into_iter().flat_map(|clip| [(clip, Reduction::Mean), (clip, Reduction::Sum)])
            {
                let Clip::Bounded { norm, clip_norm } = clip else { panic!("a clip") };
                let norms = row_norms(example.rows(), true, norm).expect("finite");
                let batch = example.batch(&norms, Selection::Range(0..SIZES.len()), reduction);
                for difference in [false, true] {
                    let points = example.points(difference);
                    let expected = reference::sum_of_units(&example.model, &batch, points.0, points.1, clip);
                    let mut sum = vec![0.0; expected.len()];
                    let mut workspace = Workspace::new(&example.model);
                    accumulate_differences(&example.model, &batch, points, clip, &mut sum, &mut workspace)
                        .expect("finite");
                    let (integers, lattice, _) = example.integers(&batch, clip, difference, Precision::Bits24);
                    let integers: Vec<f64> = integers.iter().map(|value| value * lattice.unit()).collect();
                    for (name, found) in [("floating point", &sum), ("lattice", &integers)] {
                        let off: f64 =
                            found.iter().zip(&expected).map(|(found, expected)| (found - expected).powi(2)).sum();
                        // Rows of the squared loss are cut far above the clip norm; others differ by the lattice alone.
                        let allowed = 2e-3 * f64::from(clip_norm) * SIZES.len() as f64;
                        assert!(
                            off.sqrt() <= allowed,
                            "{name}: {} > {allowed}, {:?} {:?} {clip:?} {reduction:?} {difference}",
                            off.sqrt(),
                            example.format,
                            example.model
                        );
                    }
                }
            }
        }
    }

    /// Blocks hold whole units, so that the last ones begin anywhere among 256 rows: 32 rows that are read together end behind them.
    #[test]
    fn units_that_fill_no_block_contribute_what_they_do_by_themselves() {
        for (size, precision, difference) in [
            (5, Precision::Bits24, false),
            (13, Precision::Bits16, true),
            (37, Precision::Bits24, true),
            (127, Precision::Bits16, false),
        ] {
            let sizes = vec![size; 300_usize.div_ceil(size)];
            for example in examples(&sizes) {
                let norms = row_norms(example.rows(), true, Norm::L2).expect("finite");
                let sum = |selection, set| {
                    let batch = example.batch(&norms, selection, Reduction::Mean);
                    example.integers_on(set, &batch, Clip::l2(1.0), difference, precision).0
                };
                let mut total = vec![0.0; example.model.parameters()];
                for unit in 0..sizes.len() {
                    let own = sum(Selection::Range(unit..unit + 1), InstructionSet::fastest());
                    total.iter_mut().zip(&own).for_each(|(total, value)| *total += value);
                }
                // Scattered in memory.
                let backwards: Vec<u32> = (0..sizes.len() as u32).rev().collect();
                for set in InstructionSet::available() {
                    let found = sum(Selection::Indices(&backwards), set);
                    assert_eq!(found, total, "{:?} {:?} {size} {set:?}", example.format, example.model);
                }
            }
        }
    }

    /// One half after the other gives 0.
    #[test]
    fn bounds_of_lengths_are_added_in_one_order_in_every_build() {
        let mut lanes = [0.0; 8];
        (lanes[0], lanes[4], lanes[1], lanes[5]) = (1e300, -1e300, 1.0, 1.0);
        assert_eq!(sum_of_eight(lanes), 2.0);
        let mut lanes = [0.0; 16];
        (lanes[0], lanes[8], lanes[1], lanes[12]) = (1e30, -1e30, 1.0, 1.0);
        assert_eq!(sum_of_sixteen(lanes), 2.0);
        // That of AVX-512.
        for first in 1..100 {
            let lanes: [f32; 16] = std::array::from_fn(|lane| ((first * 16 + lane) as f32).sin() * 1e3);
            let wide = lanes.first_chunk::<8>().expect("8 of 16").map(f64::from);
            if cfg!(target_feature = "avx512f") {
                assert_eq!(sum_of_sixteen(lanes), f32x16::new(lanes).reduce_add());
                assert_eq!(sum_of_eight(wide), f64x8::new(wide).reduce_add());
            }
        }
    }

    #[test]
    fn units_of_one_row_have_the_bits_of_rows() {
        for example in examples(&[1; 300]) {
            for clip in CLIPS {
                let Clip::Bounded { norm, .. } = clip else { panic!("a clip") };
                let norms = row_norms(example.rows(), true, norm).expect("finite");
                let units = example.batch(&norms, Selection::Range(3..300), Reduction::Mean);
                let rows = Batch { units: None, ..units.clone() };
                for precision in [Precision::Bits16, Precision::Bits24] {
                    let [of_units, of_rows] =
                        [&units, &rows].map(|batch| example.integers(batch, clip, true, precision));
                    assert_eq!(of_units, of_rows);
                }
            }
        }
    }

    /// Rows that all but cancel: coefficients far greater than the contribution.
    #[test]
    fn units_whose_rows_cancel_stay_within_the_clip_norm() {
        let mut example = Example::new(Format::Bytes, Loss::Softmax, 80, 3, &[40, 2, 100]);
        let columns = example.model.features;
        for row in 1..example.classes.len() {
            let (first, rest) = example.bytes.split_at_mut(columns);
            rest[(row - 1) * columns..][..columns].copy_from_slice(first);
            rest[(row - 1) * columns] = row as u8;
            example.classes[row] = (row % 2) as u32;
        }
        example.classes[0] = 0;
        example.products = RowProducts::new(example.rows(), true, &example.offsets, 0..3, example.products.unit);
        let norms = row_norms(example.rows(), true, Norm::L2).expect("finite");
        for clip_norm in [0.01, 0.5, 4.0] {
            for (unit, reduction) in (0..3).flat_map(|unit| [(unit, Reduction::Mean), (unit, Reduction::Sum)]) {
                let batch = example.batch(&norms, Selection::Range(unit..unit + 1), reduction);
                for precision in [Precision::Bits16, Precision::Bits24] {
                    let (sum, lattice, _) = example.integers(&batch, Clip::l2(clip_norm), false, precision);
                    let square: i128 = sum.iter().map(|&value| value as i128 * value as i128).sum();
                    assert!(square > 0 && square <= (lattice.limit() as i128).pow(2));
                }
            }
        }
    }

    /// Local steps against plain gradient descent in f64 on each unit's rows.
    #[test]
    fn local_steps_are_gradient_steps_on_the_units_own_rows() {
        for example in examples(&SIZES) {
            let norms = row_norms(example.rows(), true, Norm::L2).expect("finite");
            let model = &example.model;
            let local = LocalSteps { passes: 2, step_size: 0.05, batch: 4, most_weight: 1e6 };
            let start = &example.points[0];
            for clip_norm in [0.01_f32, 50.0] {
                let clip = Clip::l2(clip_norm);
                let mut expected = vec![0.0; model.parameters()];
                for unit in 0..SIZES.len() {
                    let rows = example.offsets[unit]..example.offsets[unit + 1];
                    let mut weights = start.clone();
                    for first in (0..2).flat_map(|_| rows.clone().step_by(4)) {
                        let part = first..(first + 4).min(rows.end);
                        let step = 0.05 / part.len() as f64;
                        let batch = example.batch(&norms, Selection::Range(0..1), Reduction::Mean);
                        let part = batch.of_rows(Selection::Range(part));
                        let point = Point::at(&weights);
                        let gradient = reference::sum_of_differences(model, &part, point, None, Clip::Unbounded);
                        weights.iter_mut().zip(gradient).for_each(|(x, g)| *x -= (step * g) as f32);
                    }
                    let moved = start.iter().zip(&weights).map(|(&a, &b)| f64::from(a) - f64::from(b));
                    let moved: Vec<f64> = moved.collect();
                    let factor = (f64::from(clip_norm) / reference::norm(&moved, Norm::L2)).min(1.0);
                    let factor = if factor.is_finite() { factor } else { 0.0 };
                    expected.iter_mut().zip(moved).for_each(|(sum, value)| *sum += factor * value);
                }
                let grid = (example.grid(), Precision::Bits24);
                let lattice = SumLattice::of_units(model, grid, 1.0, clip, 1 << 20).expect("a lattice");
                for lattice in [None, Some(&lattice)] {
                    let batch = example.batch(&norms, Selection::Range(0..SIZES.len()), Reduction::Mean);
                    let (mut sum, mut workspace) = (vec![0.0; expected.len()], Workspace::new(model));
                    let steps = (start.as_slice(), &local);
                    let tally = accumulate_local_steps(model, &batch, steps, (clip, lattice), &mut sum, &mut workspace);
                    assert_eq!(tally.expect("finite").rows, SIZES.len());
                    let unit = lattice.map_or(1.0, SumLattice::unit);
                    let off: f64 = sum.iter().zip(&expected).map(|(sum, value)| (sum * unit - value).powi(2)).sum();
                    let length = reference::norm(&expected, Norm::L2);
                    assert!(off.sqrt() <= 2e-4 * length, "{} of {length}, {:?} {model:?}", off.sqrt(), example.format);
                    assert!(lattice.is_none() || sum.iter().all(|value| value.fract() == 0.0));
                }
            }
        }
    }

    /// A local step that f32 holds as 0 times a slope that it holds as infinite.
    #[test]
    fn a_step_that_underflows_moves_no_weight_however_steep() {
        let sizes = [2_000];
        let mut example = Example::new(Format::FixedPoint, Loss::Squared, 33, 1, &sizes);
        let norms = row_norms(example.rows(), true, Norm::L2).expect("finite");
        example.points[0].fill(1e-3);
        example.points[0][0] = 5e36;
        let batch = example.batch(&norms, Selection::Range(0..1), Reduction::Mean);
        let local = LocalSteps { passes: 2, step_size: 0.0, batch: 2_000, most_weight: 1e37 };
        let slopes = reference::sum_of_differences(
            &example.model,
            &batch.of_rows(Selection::Range(0..2_000)),
            Point::at(&example.points[0]),
            None,
            Clip::Unbounded,
        );
        assert!(slopes[0] as f32 == f32::INFINITY);
        let (mut sum, mut workspace) = (vec![0.0; example.model.parameters()], Workspace::new(&example.model));
        let steps = (example.points[0].as_slice(), &local);
        accumulate_local_steps(&example.model, &batch, steps, (Clip::l2(1.0), None), &mut sum, &mut workspace)
            .expect("finite");
        assert!(sum.iter().all(|&value| value == 0.0), "{sum:?}");
    }

    /// Residuals of the squared loss beyond all bounds, whose squares no f32 holds: what a unit adds stays its own, and no longer than the clip norm.
    #[test]
    fn coefficients_beyond_all_bounds_stay_within_their_unit_and_the_clip_norm() {
        let sizes = [2, 2, 1, 2, 3, 2, 5, 130, 2, 1, 17, 2];
        for format in [Format::Bytes, Format::FixedPoint, Format::Sparse] {
            let mut example = Example::new(format, Loss::Squared, 33, 1, &sizes);
            let norms = row_norms(example.rows(), true, Norm::L2).expect("finite");
            for (weight, clip_norm) in
                [1e6_f32, 1e12, 1e17].into_iter().flat_map(|weight| [1e-16_f32, 1e-3, 1.0].map(|norm| (weight, norm)))
            {
                // Rows without the first feature have a small residual, others a huge one.
                for (place, parameter) in example.points[0].iter_mut().enumerate() {
                    *parameter = if place == 0 { weight } else { 1e-3 };
                }
                for (reduction, precision) in
                    [(Reduction::Mean, Precision::Bits24), (Reduction::Sum, Precision::Bits16)]
                {
                    let of = |selection| {
                        let batch = example.batch(&norms, selection, reduction);
                        let (sum, lattice, _) = example.integers(&batch, Clip::l2(clip_norm), false, precision);
                        (sum, lattice.limit())
                    };
                    let mut total = vec![0.0; example.model.parameters()];
                    for unit in 0..sizes.len() {
                        let (sum, limit) = of(Selection::Range(unit..unit + 1));
                        let square: i128 = sum.iter().map(|&value| (value as i128).pow(2)).sum();
                        assert!(square <= (limit as i128).pow(2), "{format:?} {weight} {clip_norm} {unit}");
                        total.iter_mut().zip(&sum).for_each(|(total, value)| *total += value);
                    }
                    let backwards: Vec<u32> = (0..sizes.len() as u32).rev().collect();
                    for selection in [Selection::Range(0..sizes.len()), Selection::Indices(&backwards)] {
                        assert_eq!(of(selection).0, total, "{format:?} {weight} {clip_norm}");
                    }
                }
            }
        }
    }
}

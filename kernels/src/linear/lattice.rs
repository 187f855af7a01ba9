//! The public lattice that clipped sums lie on: contributions ρ_i ⊗ a_i of integers, exact whatever the order of the rows.
//!
//! Features are integers a_i times a public step s ([`FeatureGrid`]); the bias is the feature ν = max(1, ⌊1/s + ½⌋), about 1 in
//! the same units. A residual becomes integers ρ_i on a public grid h, a contribution ρ_i ⊗ a_i in units of h·s, and a sum of
//! integers below 2⁵³ is exact in f64: it depends on no order, block, split, thread, rank or instruction set.
//!
//! # Guarantee
//! With a clip norm C, every contribution has `‖ρ_i ⊗ a_i‖ ≤ Ĉ` as integers, ν included, where `Ĉ·h·s ≤ C` in real
//! arithmetic. It is not a matter of rounding: `‖ρ_i‖² ≤ L_i` is checked after ρ_i is rounded, in f64 with a margin for its own
//! roundings and in integers where that does not decide, with
//! `L_i ≤ Ĉ²/‖a_i‖²` (in L1, `‖ρ_i‖₁ ≤ Ĉ/‖a_i‖₁`). Contributions are functions of the row, the parameters and public
//! numbers; null rows contribute 0. So sums of neighbours differ by one such contribution, exactly.

use super::dense::{Feature, RowPointers};
use super::model::{Clip, LinearModel};
use super::packing::{Layout, split};
use super::source::Source;
use crate::features::{BLOCK_ROWS, Norm, bias_in_units};
use crate::vector::lanes::{LANES, put, to_f32, to_f64, vector};
use wide::{f32x16, f64x8};

/// The length of weights and of coefficients where rows are multiplied as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Two signed digits of eight bits: a margin is off by about 1e-4 of the greatest weight, a batch's sum by 1e-4 of a row's
    /// coefficient.
    Bits16,
    /// Three digits: 3e-7 of both.
    #[default]
    Bits24,
}

impl Precision {
    /// Signed digits of eight bits.
    pub(super) const fn digits(self) -> usize {
        match self {
            Precision::Bits16 => 2,
            Precision::Bits24 => 3,
        }
    }

    /// The greatest integer that the digits hold.
    pub(super) const fn greatest(self) -> f32 {
        match self {
            Precision::Bits16 => 32_639.0,
            Precision::Bits24 => 8_355_711.0,
        }
    }

    /// Bits behind the first one of the greatest integer.
    const fn bits(self) -> i32 {
        8 * self.digits() as i32 - 2
    }
}

/// Numbers of which all features are: `step` times an integer of at most `greatest`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureGrid {
    /// s; a power of two but for bytes.
    pub step: f32,
    /// The greatest integer.
    pub greatest: u32,
}

impl FeatureGrid {
    /// The greatest integer of fixed point, 2¹⁴.
    pub const FIXED_POINT: u32 = 1 << 14;

    /// Multiples of 2⁻¹⁴ times the power of two that is not below `bound`, the greatest feature: fixed point, 15 bits and a sign.
    pub fn fixed_point(bound: f64) -> Self {
        let exponent = bound.log2().ceil().clamp(-100.0, 100.0) as i32;
        FeatureGrid { step: 2_f32.powi(exponent - 14), greatest: Self::FIXED_POINT }
    }

    /// The grid of bytes with this scale.
    pub fn bytes(scale: f32) -> Self {
        FeatureGrid { step: scale, greatest: 255 }
    }
}

/// The steps of features that have lattices, and the exponents of weights and coefficients: all products of three such numbers
/// are normal numbers of f64.
const STEPS: std::ops::RangeInclusive<f32> = 1e-18..=1e18;
const LEAST_EXPONENT: i32 = -60;
/// 2⁵⁰, the greatest coefficient of a query: squares of residuals stay within f32.
const MOST_WEIGHT: f32 = 1_125_899_906_842_624.0;
pub(super) const GREATEST_WEIGHT_EXPONENT: i32 = 60;
const GREATEST_COEFFICIENT_EXPONENT: i32 = 90;

/// The squared length, in steps, that no ρ exceeds: `outputs · 2⁴⁶`, outputs ≤ 2¹⁶.
const SURELY_KEPT: f64 = 4_611_686_018_427_387_904.0;

/// Sums of at most this many units are surely exact, with their noise: 2⁵².
const MOST_UNITS: f64 = 4_503_599_627_370_496.0;

/// The lattice of the sums of a query. All of it is public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumLattice {
    /// The length of ρ and of the weights.
    pub(super) precision: Precision,
    /// h, a power of two.
    step: f64,
    /// The greatest |ρ|: `Q/h` rounded up, Q the public bound of a coefficient.
    greatest: f32,
    /// s.
    pub(super) scale: f64,
    /// Features are those of [`FeatureGrid::fixed_point`].
    pub(super) fixed_point: bool,
    /// ν, 0 without a bias.
    pub(super) bias: f64,
    /// The clip, and Ĉ in units of h·s.
    clip: (Clip, f64),
    /// A power of two, at most 1: coefficients that are not clipped, times it, are at most Q; 2⁻⁸ where they have no bound.
    pub(super) spread: f64,
}

impl SumLattice {
    /// The lattice of sums of at most `rows` clipped terms, gradients times at most `weight`; `None` for numbers out of range.
    ///
    /// Q is the least of `weight` times the greatest residual of the loss, and of C/ν′, ν′ the least norm of a row that
    /// matters: 1 with a bias, else 2⁻⁸ of the greatest feature (shorter rows contribute at most Q times themselves). h is
    /// about Q·2⁻¹⁵, two digits, or Q·2⁻²³, three digits, up to twice that for Q a power of two; these with a clip and a bias, where Q is near C, coarser by the factor by which features are finer than bytes, and
    /// that by less from 32 outputs on. Rounding ρ adds noise of variance h²·a²/6 a row of clipped sums in two digits and of rows with few
    /// steps, else h²·a²/12 where residuals differ and up to 0.2 % of itself to a sum of residuals that rows share (`round`). Where
    /// sums could exceed 2⁵², h is as coarse as that takes.
    pub fn new(
        model: &LinearModel,
        (features, precision): (FeatureGrid, Precision),
        weight: f32,
        clip: Clip,
        rows: usize,
    ) -> Option<Self> {
        Self::of_terms(model, (features, precision), weight, clip, (rows, false))
    }

    /// The lattice of sums of the clipped contributions of at most `units` units, each of any number of rows: a coordinate of one may be as
    /// long as the clip norm.
    pub fn of_units(
        model: &LinearModel,
        grid: (FeatureGrid, Precision),
        weight: f32,
        clip: Clip,
        units: usize,
    ) -> Option<Self> {
        Self::of_terms(model, grid, weight, clip, (units, true))
    }

    fn of_terms(
        model: &LinearModel,
        (features, precision): (FeatureGrid, Precision),
        weight: f32,
        clip: Clip,
        (rows, are_units): (usize, bool),
    ) -> Option<Self> {
        let FeatureGrid { step: scale, greatest } = features;
        if !STEPS.contains(&scale) || !(weight <= MOST_WEIGHT) {
            return None;
        }
        let s = f64::from(scale);
        let bias = if model.bias { bias_in_units(s) } else { 0.0 };
        let least_norm = s * bias.max(f64::from(greatest / 256).max(1.0));
        let clip_norm = match clip {
            Clip::Unbounded => f64::INFINITY,
            Clip::Bounded { clip_norm, .. } => f64::from(clip_norm),
        };
        let residual = if model.outputs > 1 { Some(1.0) } else { model.loss.lipschitz(Norm::L2) };
        let bound = (f64::from(weight) * residual.unwrap_or(f64::INFINITY)).min(clip_norm / least_norm);
        let bound = bound.max(f64::from(f32::MIN_POSITIVE));
        let is_fine = precision == Precision::Bits24 && model.bias && clip != Clip::Unbounded;
        let finer = if is_fine { f64::from(greatest / 1_024) } else { 1.0 };
        let finer = (finer / (model.outputs / 16).next_power_of_two() as f64).max(1.0);
        let mut step = f64::from(step_of(bound as f32, GREATEST_COEFFICIENT_EXPONENT, precision)?) * finer;
        let mut limit = f64::INFINITY;
        let coarsest = (bound / 16.0).max(step);
        // A coordinate of a contribution is at most Ĉ, and at most the greatest ρ times the greatest feature.
        let of_row = if are_units { f64::INFINITY } else { bound * bias.max(f64::from(greatest)) };
        let greatest_term = (clip_norm / s).min(of_row);
        while rows as f64 * (greatest_term / step) > MOST_UNITS {
            step *= 2.0;
        }
        if clip_norm < f64::INFINITY {
            // Rounded down: the sign of the fused remainder is exact.
            let unit = step * s;
            limit = (clip_norm / unit).floor();
            while limit > 0.0 && limit.mul_add(unit, -clip_norm) > 0.0 {
                limit = (limit - 1.0).min(limit.next_down().floor());
            }
        }
        (step <= coarsest).then(|| SumLattice {
            precision,
            step,
            greatest: ((bound / step).ceil() as f32).min(precision.greatest()),
            scale: s,
            fixed_point: greatest == FeatureGrid::FIXED_POINT,
            bias,
            clip: (clip, limit),
            spread: {
                let most = residual.map_or(256.0, |residual| f64::from(weight) * residual / bound);
                2_f64.powi(-most.log2().ceil().clamp(0.0, 100.0) as i32)
            },
        })
    }

    /// h.
    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// The greatest |ρ|.
    pub(super) fn greatest(&self) -> f32 {
        self.greatest
    }

    /// Ĉ in units of h·s; infinite without a clip.
    pub(super) fn limit(&self) -> f64 {
        self.clip.1
    }

    /// The clip of the terms.
    pub fn clip(&self) -> Clip {
        self.clip.0
    }

    /// True if every sum of so many terms is exact in f64, clipped or not.
    pub fn is_exact_for(&self, rows: usize) -> bool {
        let feature = if self.fixed_point { FeatureGrid::FIXED_POINT } else { 255 };
        rows as f64 * f64::from(self.greatest) * self.bias.max(f64::from(feature)) <= 2.0 * MOST_UNITS
    }

    /// `Σ_i ρ_i·ν` of the first `count` integers.
    pub(super) fn bias_of(&self, integers: &[f32], count: usize) -> f64 {
        integers[..count].iter().map(|&integer| f64::from(integer)).sum::<f64>() * self.bias
    }

    /// h·s, the value of a unit of the sums.
    pub fn unit(&self) -> f64 {
        self.step * self.scale
    }

    /// L_i of rows whose norms, bias 1 included, are at most `norms` in units of 1: ‖ρ‖² (in L1 ‖ρ‖₁) must not exceed it.
    ///
    /// ‖a‖² = (norm² − 1)/s² + ν² in units of s, in which the norm is off by 2⁻²³ relative; each operation below by 2⁻⁵³.
    /// The result is at most `Ĉ²/‖a‖²`: the factor 1 ± 2⁻⁴⁸ on either side covers ten roundings.
    #[inline(always)]
    fn limits(&self, norms: f64x8, squared: bool, clip_norm: f64) -> f64x8 {
        const UP: f64 = 1.0 + 1.0 / 281_474_976_710_656.0;
        const DOWN: f64 = 1.0 - 1.0 / 281_474_976_710_656.0;
        let one = if self.bias > 0.0 { 1.0 } else { 0.0 };
        let limits = if squared {
            let features = (norms * norms * UP - one) / (self.scale * self.scale) * UP;
            let lengths = (features.max(f64x8::ZERO) + self.bias * self.bias) * UP;
            f64x8::splat(clip_norm * clip_norm) / lengths * DOWN
        } else {
            let features = (norms * UP - one) / self.scale * UP;
            f64x8::splat(clip_norm) / ((features.max(f64x8::ZERO) + self.bias) * UP) * DOWN
        };
        // A zero row has an infinite limit (NaN if Ĉ is 0 too); `min` takes the number.
        limits.min(f64x8::splat(SURELY_KEPT)).floor()
    }

    /// Clips the residuals `values[k·128 + i]` of `count` rows with these norms and rounds them to integers ρ, which are left in
    /// their place, zeros behind them up to a multiple of 32. Returns the number of rows that were longer.
    pub(super) fn round(&self, norms: &[f32; BLOCK_ROWS], values: &mut [f32], count: usize) -> usize {
        let whole = count.next_multiple_of(TOGETHER * LANES);
        values.chunks_exact_mut(BLOCK_ROWS).for_each(|values| values[count..whole].fill(0.0));
        (0..whole).step_by(TOGETHER * LANES).map(|start| round(self, norms, values, start)).sum()
    }
}

/// Rounds the coefficients of the sixteen rows from `start` on, times their factors, to integers, up and down in proportion as [`round`] does;
/// zeros stay. A vector stands behind the last coefficient. Returns the rows' sums of squares.
pub(super) fn round_by(factors: f32x16, values: &[f32], start: usize, out: &mut [f32]) -> f32x16 {
    let places = (start..values.len() - LANES).step_by(BLOCK_ROWS);
    let [mut rest] = dither([f32x16::ZERO], values, places.clone());
    let mut squares = f32x16::ZERO;
    for place in places {
        let exact = vector(values, place).mul_add(factors, rest);
        let rounded = exact.round_ties_even();
        rest = exact - rounded;
        let rounded = rounded.max(-f32x16::splat(CUT)).min(f32x16::splat(CUT));
        squares = rounded.mul_add(rounded, squares);
        put(out, place, rounded);
    }
    squares
}

/// The power of two of which numbers up to `greatest` are at most [`Precision::greatest`] times; `None` above 2^most and for NaN.
pub(super) fn step_of(greatest: f32, most: i32, precision: Precision) -> Option<f32> {
    let exponent = (greatest.to_bits() >> 23) as i32 - 127;
    if exponent > most {
        return None;
    }
    let step = power_of_two(exponent.max(LEAST_EXPONENT) - precision.bits());
    Some(if greatest / step > precision.greatest() { 2.0 * step } else { step })
}

/// The greatest magnitude of a coefficient in a block, 2³⁰, before and after it is rounded: squares and products of up to 2¹⁶ of them, times
/// products of rows below 2⁴⁴, stay within f32, and what a row has does not reach another unit as an infinity times 0. Coefficients of bounded losses are
/// far below; those of the squared loss are cut.
pub(super) const CUT: f32 = 1_073_741_824.0;

/// `2^exponent`, for normal numbers.
pub(super) fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Steps of h from which on a coefficient of 24 bits is rounded to nearest: that moves it by at most 0.2 %.
const MANY_STEPS: f32 = 256.0;

/// Vectors of rows that are rounded together: each has chains of operations that wait for one another.
const TOGETHER: usize = 2;

/// [`SumLattice::round`] of the 32 rows from `start` on.
///
/// Rows that share a residual, as all rows of the first round do, would round alike. With 16 bits, and where a K-th of a row's length, K
/// outputs, has less than [`MANY_STEPS`], what rounding an output leaves is therefore added to the next one, and the first output gets
/// what is as good as uniform: every coefficient is then rounded up and down in proportion, right in the mean over such rows.
#[inline(always)]
fn round(grid: &SumLattice, norms: &[f32; BLOCK_ROWS], values: &mut [f32], start: usize) -> usize {
    let inverse = f32x16::splat((1.0 / grid.step) as f32);
    let greatest = f32x16::splat(grid.greatest);
    let outputs = values.len() / BLOCK_ROWS;
    let places = (start..).step_by(BLOCK_ROWS).take(outputs);
    let (clip, clip_norm) = grid.clip;
    let squared = !matches!(clip, Clip::Bounded { norm: Norm::L1, .. });
    let mut factors = [inverse; TOGETHER];
    let mut clipped = 0;
    let mut limits = [[f64x8::splat(f64::INFINITY); 2]; TOGETHER];
    let (mut carries, mut rests) = ([f32x16::ZERO; TOGETHER], [f32x16::ZERO; TOGETHER]);
    if clip != Clip::Unbounded {
        let squares = squared && outputs > 1;
        let mut lengths = [f32x16::ZERO; TOGETHER];
        for place in places.clone() {
            for (v, length) in lengths.iter_mut().enumerate() {
                let value = vector(values, place + v * LANES);
                *length = if squares { value.mul_add(value, *length) } else { *length + value.abs() };
            }
        }
        // Rounding may lengthen: by a deviation of 0.29 steps in L2, with carries 0.4 to 0.6, by that times √outputs in L1.
        let spare = if squared { 1.0 } else { (outputs as f64).sqrt() };
        let many = if grid.precision == Precision::Bits16 { f32::INFINITY } else { MANY_STEPS * outputs as f32 };
        for v in 0..TOGETHER {
            limits[v] = to_f64(vector(norms, start + v * LANES)).map(|norms| grid.limits(norms, squared, clip_norm));
            let length = if squares { lengths[v].sqrt() } else { lengths[v] };
            let reach = to_f32(limits[v].map(|limits| {
                let limits = if squared { limits.sqrt() } else { limits };
                ((limits - spare) * (1.0 - 1.0 / 4_194_304.0)).max(f64x8::ZERO)
            }));
            let longer = (length * inverse).simd_gt(reach);
            factors[v] = longer.select(reach / length, inverse);
            clipped += longer.to_bitmask().count_ones() as usize;
            carries[v] = reach.min(greatest).simd_lt(f32x16::splat(many));
        }
        if carries.iter().any(|carries| carries.any()) {
            let norms = std::array::from_fn(|v| vector(norms, start + v * LANES));
            let dithers: [_; TOGETHER] = dither(norms, values, places.clone());
            rests = std::array::from_fn(|v| carries[v] & dithers[v]);
        }
    }
    let mut sizes = [[f64x8::ZERO; 2]; TOGETHER];
    for place in places {
        for v in 0..TOGETHER {
            let exact = vector(values, place + v * LANES) * factors[v] + rests[v];
            let rounded = exact.round_ties_even();
            rests[v] = carries[v] & (exact - rounded);
            // Of a NaN and a number the number.
            let integers = rounded.max(-greatest).min(greatest);
            put(values, place + v * LANES, integers);
            for (sizes, integers) in sizes[v].iter_mut().zip(to_f64(integers)) {
                *sizes += if squared { integers * integers } else { integers.abs() };
            }
        }
    }
    // Sums of at most 2¹⁶ squares below 2⁴⁶ are off by at most 2⁻³⁷ here; rows near their limit are summed in integers.
    let near = |(sizes, limits): (f64x8, f64x8)| (sizes * (1.0 + 1.0 / 68_719_476_736.0)).simd_gt(limits).any();
    for (v, (sizes, limits)) in sizes.into_iter().zip(limits).enumerate() {
        if sizes.into_iter().zip(limits).any(near) {
            for (lane, limit) in limits.iter().flat_map(|limits| limits.to_array()).enumerate() {
                cut(squared, limit, &mut values[start + v * LANES + lane..]);
            }
        }
    }
    clipped
}

/// Numbers in [−½, ½), one a row, as good as independent and uniform over rows that differ in norm or in the residual of an output:
/// hashes of these, of V vectors of rows.
#[inline(always)]
fn dither<const V: usize>(norms: [f32x16; V], values: &[f32], places: impl Iterator<Item = usize>) -> [f32x16; V] {
    let mut hashes = norms.map(|norms| norms.to_array().map(f32::to_bits));
    for place in places {
        for (v, hashes) in hashes.iter_mut().enumerate() {
            for (hash, value) in hashes.iter_mut().zip(vector(values, place + v * LANES).to_array()) {
                *hash = (*hash ^ value.to_bits()).wrapping_mul(0x9e37_79b1);
                *hash ^= *hash >> 15;
            }
        }
    }
    hashes.map(|hashes| f32x16::new(hashes.map(|hash| (hash as i32 >> 8) as f32 / 16_777_216.0)))
}

/// Caps the magnitudes of the integers `values[k·128]` at the greatest number for which their squares (magnitudes in L1) sum to at most
/// `limit`: small ones, which rounding left right in the mean, stay.
#[cold]
fn cut(squared: bool, limit: f64, values: &mut [f32]) {
    let fits = |cap: i64| {
        let capped = values.iter().step_by(BLOCK_ROWS).map(|&value| (value.abs() as i64).min(cap));
        capped.map(|integer| if squared { integer * integer } else { integer }).sum::<i64>() <= limit as i64
    };
    let (mut cap, mut too_great) = (0, 1 << 23);
    if fits(too_great) {
        return;
    }
    while too_great - cap > 1 {
        let middle = i64::midpoint(cap, too_great);
        if fits(middle) { cap = middle } else { too_great = middle }
    }
    for value in values.iter_mut().step_by(BLOCK_ROWS) {
        *value = value.clamp(-(cap as f32), cap as f32);
    }
}

/// `sum[k·width + j] += Σ_i ρ_ki·a_ij` for the first `rows` rows of a part, a_ij in units of the lattice: exact.
///
/// # Safety
/// `pointers` come from [`Source::margins`] or [`Source::place`].
pub(super) unsafe fn add_gradient(
    source: &Source<'_>,
    (pointers, rows): (&RowPointers, usize),
    lattice: &SumLattice,
    integers: &[f32],
    sum: &mut [f64],
    (features, width): (usize, usize),
) {
    let outputs = sum.len() / width;
    assert!(rows <= BLOCK_ROWS && integers.len() >= outputs * BLOCK_ROWS && features <= width);
    // Bytes are read as the integers that they are.
    let factor = if source.holds_integers() { 1.0 } else { 1.0 / lattice.scale };
    let place = Place { pointers, rows, layout: source.layout, factor, features, width };
    for (first, tile) in split(outputs, 4) {
        let (integers, sum) = (&integers[first * BLOCK_ROWS..], &mut sum[first * width..]);
        // SAFETY: the caller's promise.
        unsafe {
            match (source.reads_bytes(), tile) {
                (true, _) => (0..tile).for_each(|output| {
                    gradient_of::<u8, 1>(&place, &integers[output * BLOCK_ROWS..], &mut sum[output * width..]);
                }),
                (false, 1) => gradient_of::<f32, 1>(&place, integers, sum),
                (false, 2) => gradient_of::<f32, 2>(&place, integers, sum),
                (false, 3) => gradient_of::<f32, 3>(&place, integers, sum),
                (false, _) => gradient_of::<f32, 4>(&place, integers, sum),
            }
        }
    }
}

/// Rows of a part, and the sum that they add to.
struct Place<'a> {
    pointers: &'a RowPointers,
    rows: usize,
    layout: Layout,
    factor: f64,
    features: usize,
    width: usize,
}

/// [`add_gradient`] of T outputs.
///
/// # Safety
/// As [`add_gradient`]; features are stored as F.
unsafe fn gradient_of<F: Feature, const T: usize>(place: &Place<'_>, integers: &[f32], sum: &mut [f64]) {
    let layout = place.layout;
    for vector in 0..layout.vectors {
        let is_last = vector + 1 == layout.vectors;
        let offset = if is_last { layout.tail } else { vector * LANES };
        let mut sums = [[f64x8::ZERO; 2]; T];
        for (row, &pointer) in place.pointers[..place.rows].iter().enumerate() {
            // SAFETY: sixteen features can be read at the layout's offsets.
            let features = to_f64(unsafe { F::load(pointer.cast::<F>().add(offset)) });
            for (output, sums) in sums.iter_mut().enumerate() {
                let rho = f64x8::splat(f64::from(integers[output * BLOCK_ROWS + row]));
                for (sum, features) in sums.iter_mut().zip(features) {
                    *sum = features.mul_add(rho, *sum);
                }
            }
        }
        let stale = if is_last { layout.stale } else { 0 };
        for (sums, sum) in sums.iter().zip(sum.chunks_mut(place.width)) {
            let lanes: [f64; LANES] = bytemuck::cast(sums.map(f64x8::to_array));
            for (sum, lane) in sum[..place.features][vector * LANES..].iter_mut().zip(&lanes[stale..]) {
                *sum = lane.mul_add(place.factor, *sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Rows;
    use crate::linear::row_norms;
    use crate::loss::Loss;
    use proptest::prelude::*;

    const SCALE: f32 = 1.0 / 255.0;

    /// Every vector of three small integers and every limit: the result is within it, a greater cap would not be, and nothing grows or
    /// changes its sign.
    #[test]
    fn what_is_cut_fits_whatever_it_was() {
        for squared in [true, false] {
            let size = |values: &[f32]| values.iter().map(|&v| if squared { v * v } else { v.abs() }).sum::<f32>();
            for code in 0..13 * 13 * 13 {
                let vector = [code % 13 - 6, code / 13 % 13 - 6, code / 169 - 6].map(|value| value as f32);
                for limit in 0..=size(&vector) as i32 {
                    let mut values = [0.0; 2 * BLOCK_ROWS + 1];
                    vector.iter().zip(values.iter_mut().step_by(BLOCK_ROWS)).for_each(|(&from, to)| *to = from);
                    cut(squared, f64::from(limit), &mut values);
                    let kept = [values[0], values[BLOCK_ROWS], values[2 * BLOCK_ROWS]];
                    assert!(size(&kept) <= limit as f32, "{vector:?} in {limit}: {kept:?}");
                    let cap = kept.iter().fold(1.0, |cap: f32, kept| cap.max(kept.abs() + 1.0));
                    assert!(
                        kept == vector || size(&vector.map(|value| value.clamp(-cap, cap))) > limit as f32,
                        "{vector:?} in {limit}: {kept:?}"
                    );
                    assert!(kept.iter().zip(&vector).all(|(&kept, &of)| kept.abs() <= of.abs() && kept * of >= 0.0));
                }
            }
        }
    }

    /// Rounds residuals of one output, a block at a time, at norms that clip them and that do not: all fit, and none changes its sign.
    fn assert_residuals_fit(mut next_block: impl FnMut() -> Option<[f32; BLOCK_ROWS]>) {
        let model = LinearModel { features: 64, outputs: 1, bias: true, loss: Loss::Logistic };
        let lattices = [Precision::Bits24, Precision::Bits16]
            .map(|precision| (FeatureGrid::bytes(SCALE), precision))
            .map(|grid| SumLattice::new(&model, grid, 1.0, Clip::l2(0.7), 60_000).unwrap());
        while let Some(residuals) = next_block() {
            for (lattice, norm) in lattices.iter().flat_map(|lattice| [1.0_f32, 1.5, 27.9].map(|norm| (lattice, norm)))
            {
                let limit = lattice.limits(f64x8::splat(f64::from(norm)), true, lattice.clip.1).to_array()[0];
                let mut values = residuals;
                lattice.round(&[norm; BLOCK_ROWS], &mut values, BLOCK_ROWS);
                for (integer, residual) in values.into_iter().zip(residuals) {
                    let integer = f64::from(integer);
                    assert!(integer.fract() == 0.0 && integer * integer <= limit, "{residual:e}: {integer}");
                    assert!(!residual.is_finite() || integer * f64::from(residual) >= 0.0, "{residual:e}: {integer}");
                }
            }
        }
    }

    /// An infinite residual is cut, with either sign.
    #[test]
    #[ignore = "2³² residuals: some minutes"]
    fn exact_noise_in_full_every_residual_fits() {
        let mut firsts = (0..=u32::MAX).step_by(BLOCK_ROWS);
        assert_residuals_fit(|| {
            let first = firsts.next()?;
            Some(std::array::from_fn(|row| f32::from_bits(first + row as u32)))
        });
    }

    /// The residuals next to every power of two and next to 2¹⁷ ties of each grid.
    #[test]
    fn residuals_next_to_ties_and_powers_of_two_fit() {
        let powers = (0..=255_u32).map(|exponent| f32::from_bits(exponent << 23));
        let ties = [23, 22, 15, 14].into_iter().flat_map(|bits| {
            let step = 0.5_f32.powi(bits);
            (0..1 << 15).map(move |tie| (tie as f32 + 0.5) * step)
        });
        let near =
            |value: f32| (-3..4_i32).map(move |ulps| f32::from_bits(value.to_bits().saturating_add_signed(ulps)));
        let mut all = powers.chain(ties).flat_map(near).flat_map(|value| [value, -value]).peekable();
        assert_residuals_fit(|| {
            all.peek()?;
            Some(std::array::from_fn(|_| all.next().unwrap_or(0.0)))
        });
    }

    /// The worst error of a coordinate of the sum over `rows` rows of the first round, as a share of the sum's greatest coordinate, and
    /// what may be: 0.2 %, or five deviations of the mean of so many rounded coefficients where that is more.
    ///
    /// Residuals are 1/K and in the own class 1/K − 1, norms lie within 1 % of `norm`. Each class has a feature that its rows alone lack:
    /// the greatest coordinates sum what rows add to a class that is not theirs. A shorter row is no error: the clip norm permits it.
    fn error_of_the_first_round(outputs: usize, norm: f32, precision: Precision, rows: usize) -> (f64, f64) {
        let model = LinearModel { features: 50, outputs, bias: true, loss: Loss::Softmax };
        let grid = (FeatureGrid::fixed_point(1.0), precision);
        let lattice = SumLattice::new(&model, grid, 1.0, Clip::l2(1.0), 60_000).unwrap();
        let shared = 1.0 / outputs as f32;
        let (mut sums, mut expected) = (vec![0.0; outputs], vec![0.0; outputs]);
        let (mut own, mut expected_own) = (0.0, 0.0);
        let mut values = vec![0.0; outputs * BLOCK_ROWS];
        for block in 0..rows / BLOCK_ROWS {
            let class = |row: usize| (block * 37 + row * 11) % outputs;
            let of_row = |row: usize| norm * (1.0 + 0.01 * (block * BLOCK_ROWS + row) as f32 / rows as f32);
            values.fill(shared);
            (0..BLOCK_ROWS).for_each(|row| values[class(row) * BLOCK_ROWS + row] -= 1.0);
            lattice.round(&std::array::from_fn(of_row), &mut values, BLOCK_ROWS);
            let mut all = 0.0;
            for row in 0..BLOCK_ROWS {
                let length = f64::from(of_row(row)) * f64::from(1.0 - shared).sqrt();
                let factor = 1.0 / length.max(1.0) / lattice.step;
                own -= f64::from(std::mem::take(&mut values[class(row) * BLOCK_ROWS + row]));
                expected_own += factor * f64::from(1.0 - shared);
                expected[class(row)] -= factor * f64::from(shared);
                all += factor * f64::from(shared);
            }
            for ((sum, expected), values) in sums.iter_mut().zip(&mut expected).zip(values.chunks_exact(BLOCK_ROWS)) {
                *sum += values.iter().map(|&value| f64::from(value)).sum::<f64>();
                *expected += all;
            }
        }
        let shorter = own / expected_own;
        assert!(shorter > 0.97, "{outputs} {norm} {precision:?}: clipped to {shorter}");
        let errors = sums.iter().zip(&expected).map(|(sum, expected)| (sum / (expected * shorter) - 1.0).abs());
        let steps = expected[0] / rows as f64;
        (errors.fold(0.0, f64::max), f64::max(0.002, 5.0 * (steps.min(0.25) / rows as f64).sqrt() / steps))
    }

    /// [`error_of_the_first_round`] for all numbers of outputs and norms, `most` roundings a case.
    fn assert_the_first_round_is_right_in_the_mean(most: usize) {
        for precision in [Precision::Bits24, Precision::Bits16] {
            for outputs in [10, 16, 100, 5_000] {
                for norm in [1.0, 7.0, 64.0, 256.0, 300.0] {
                    let (error, allowed) = error_of_the_first_round(outputs, norm, precision, most / outputs);
                    println!(
                        "{precision:?}, {outputs} outputs, norm {norm}: {:.4} % of {:.4} %",
                        100.0 * error,
                        100.0 * allowed
                    );
                    assert!(error <= allowed, "{precision:?}, {outputs} outputs, norm {norm}: {error} of {allowed}");
                }
            }
        }
    }

    /// Rounding of a residual that all rows share is a bias of the sum, which no number of rows averages out.
    #[test]
    fn rows_that_share_a_residual_are_rounded_right_in_the_mean() {
        assert_the_first_round_is_right_in_the_mean(1 << 25);
    }

    #[test]
    #[ignore = "10⁹ roundings a case: minutes"]
    fn exact_noise_in_full_rows_that_share_a_residual_are_rounded_right_in_the_mean() {
        assert_the_first_round_is_right_in_the_mean(1 << 30);
    }

    /// Rows of one norm and one residual have the same integers: what rounding adds to their sum is, output by output, that sum times at
    /// most a step over their coefficient. Rows of eight categories and a bias, in the first round of ten classes.
    #[test]
    fn rows_that_agree_move_their_own_sum_by_a_step_of_each_coefficient() {
        let model = LinearModel { features: 64, outputs: 10, bias: true, loss: Loss::Softmax };
        let grid = (FeatureGrid::bytes(SCALE), Precision::Bits16);
        let lattice = SumLattice::new(&model, grid, 1.0, Clip::l2(1.0), 60_000).unwrap();
        let mut values = vec![0.1; 10 * BLOCK_ROWS];
        (0..BLOCK_ROWS).for_each(|row| values[row % 10 * BLOCK_ROWS + row] -= 1.0);
        lattice.round(&[3.0; BLOCK_ROWS], &mut values, BLOCK_ROWS);
        // The length in steps that rows are clipped to, one for rounding left out.
        let reach = lattice.limits(f64x8::splat(3.0), true, lattice.clip.1).to_array()[0].sqrt() - 1.0;
        for (output, values) in values.chunks_exact(BLOCK_ROWS).enumerate() {
            for (row, &rho) in values.iter().enumerate() {
                assert_eq!(rho, values[row % 10], "output {output}, row {row}");
                let (residual, share) = if output == row % 10 { (-0.9, 0.0002) } else { (0.1, 0.0019) };
                let exact = residual * reach / 0.9_f64.sqrt();
                let moved = (f64::from(rho) - exact).abs();
                assert!(moved <= 1.001 && moved / exact.abs() < share, "output {output}, row {row}: {rho} of {exact}");
            }
        }
    }

    /// Every three residuals next to ties of a coarse grid, at clips from none to nothing left: ρ fits; rounding moves a coefficient by at
    /// most a step, never across 0, and their sum by one; without a clip each by half a step.
    #[test]
    fn several_outputs_next_to_ties_fit_and_hardly_move() {
        let near = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 7.5]
            .iter()
            .flat_map(|&steps: &f32| [steps, -steps, steps.next_up(), (steps.next_down()).max(0.0), -steps.next_up()]);
        let near: Vec<f32> = near.collect();
        let codes = near.len().pow(3);
        for (clip, norm) in [(Clip::Unbounded, 1.0), (Clip::l2(1.0), 300.0), (Clip::l2(1.0), 4e3), (Clip::l2(1.0), 2e4)]
        {
            let model = LinearModel { features: 64, outputs: 3, bias: true, loss: Loss::Softmax };
            let grid = (FeatureGrid::bytes(SCALE), Precision::Bits16);
            let lattice = SumLattice::new(&model, grid, 1.0, clip, 60_000).unwrap();
            let step = lattice.step as f32;
            let limit = lattice.limits(f64x8::splat(f64::from(norm)), true, lattice.clip.1).to_array()[0];
            for first in (0..codes).step_by(BLOCK_ROWS) {
                let of = |row: usize| {
                    let code = (first + row) % codes;
                    [code, code / near.len(), code / near.len().pow(2)].map(|code| near[code % near.len()])
                };
                let mut values: Vec<f32> = (0..3)
                    .flat_map(|output| (0..BLOCK_ROWS).map(move |row| (output, row)))
                    .map(|(output, row)| of(row)[output] * step)
                    .collect();
                // Norms that differ, as those of rows do; longer ones have no greater limit.
                let norms = std::array::from_fn(|row| norm * (1.0 + row as f32 * 1e-6));
                lattice.round(&norms, &mut values, BLOCK_ROWS);
                for row in 0..BLOCK_ROWS {
                    let (exact, rho) = (of(row), [0, 1, 2].map(|output| values[output * BLOCK_ROWS + row]));
                    let place = format!("norm {norm}, {exact:?} steps: {rho:?}");
                    let size = |steps: [f32; 3]| steps.iter().map(|&step| f64::from(step * step)).sum::<f64>();
                    assert!(rho.iter().all(|rho| rho.fract() == 0.0), "{place}");
                    assert!(exact.iter().zip(&rho).all(|(exact, rho)| exact * rho >= 0.0), "{place}");
                    let most = if clip == Clip::Unbounded { 0.5 } else { 1.0 };
                    if clip == Clip::Unbounded || size(exact).sqrt() + 1.0 < limit.sqrt() && size(rho) < limit {
                        let moved = exact.iter().zip(&rho).map(|(exact, rho)| rho - exact);
                        assert!(moved.clone().all(|moved| moved.abs() <= most), "{place}");
                        assert!(clip == Clip::Unbounded || moved.sum::<f32>().abs() <= 1.0, "{place}");
                    }
                    assert!(clip == Clip::Unbounded || size(rho) <= limit, "{place} in {limit}");
                }
            }
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
            rows in prop::sample::select(vec![0_usize, 60_000, 1 << 26]),
            precision in prop::sample::select(vec![Precision::Bits16, Precision::Bits24]),
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
            let lattice = SumLattice::new(&model, (FeatureGrid::bytes(scale), precision), weight, clip, rows).unwrap();
            let (_, limit) = lattice.clip;
            prop_assert!(limit.fract() == 0.0 && limit.mul_add(lattice.unit(), -f64::from(clip_norm)) <= 0.0);
            let greatest = f64::from(lattice.greatest) * lattice.bias.max(255.0);
            prop_assert!(rows as f64 * limit.min(greatest) <= 1.01 * MOST_UNITS);
            // Rows from empty over a single 1 to all 255.
            let bytes: Vec<u8> = (0..BLOCK_ROWS).flat_map(|row| {
                let full = row * 64 / BLOCK_ROWS;
                (0..64).map(|feature| match row % 4 {
                    0 => u8::from(feature < row / 4 % 3),
                    1 => 255,
                    _ if feature < full => next() as u8,
                    _ => 0,
                }).collect::<Vec<u8>>()
            }).collect();
            let norms = row_norms(Rows::bytes(&bytes, 64, scale), bias, norm).unwrap();
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
            lattice.round(norms, &mut values, BLOCK_ROWS);
            let nu = lattice.bias as u128;
            for row in 0..BLOCK_ROWS {
                let features = bytes[64 * row..][..64].iter().map(|&byte| u128::from(byte)).chain([nu]);
                let rho = values.chunks(BLOCK_ROWS).map(|values| values[row]);
                prop_assert!(rho.clone().all(|value| value.fract() == 0.0 && value.abs() <= precision.greatest()));
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
            let clip = Clip::Bounded { norm, clip_norm };
            let lattice = SumLattice::new(&model, (FeatureGrid::bytes(SCALE), Precision::Bits24), 1.0, clip, 0).unwrap();
            let row: Vec<u8> = (0..64).map(|feature| if feature < ones { byte } else { 0 }).collect();
            let norms = row_norms(Rows::bytes(&row, 64, SCALE), bias, norm).unwrap();
            let (_, limit) = lattice.clip;
            let norm = f64x8::splat(f64::from(norms.values[0]));
            let found = lattice.limits(norm, !l1, limit).to_array()[0];
            let (ones, byte, nu) = (ones as f64, f64::from(byte), lattice.bias);
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
                    integers.map(|integer| if squared { integer * integer } else { integer }).iter().sum::<i64>()
                };
                cut(squared, limit, &mut values);
                let cut = std::array::from_fn(|output| values[output * BLOCK_ROWS]);
                assert!(size_of(cut) as f64 <= limit);
                let shorter = |(cut, long): (&f32, &f32)| cut.abs() <= long.abs() && cut * long >= 0.0;
                assert!(cut.iter().zip(&long).all(shorter));
            }
        }
    }

    #[test]
    fn sums_are_exact_as_far_as_their_greatest_terms_allow() {
        let model = LinearModel { features: 64, outputs: 10, bias: true, loss: Loss::Softmax };
        let is_exact = |grid, rows| {
            SumLattice::new(&model, (grid, Precision::Bits24), 1.0, Clip::Unbounded, 0).unwrap().is_exact_for(rows)
        };
        assert!(is_exact(FeatureGrid::bytes(SCALE), 1 << 16) && !is_exact(FeatureGrid::bytes(1e-9), 1 << 16));
        assert!(is_exact(FeatureGrid::fixed_point(1.0), 1 << 16) && !is_exact(FeatureGrid::fixed_point(1.0), 1 << 18));
    }

    #[test]
    fn steps_are_powers_of_two_that_hold_the_greatest_number() {
        let numbers = [1.0_f32, 0.9999, 1.999_999_9, 1.992, 1.993, 3e-20, 1e17, 0.1];
        let precisions = [Precision::Bits16, Precision::Bits24];
        for (greatest, precision) in numbers.iter().flat_map(|&number| precisions.map(|precision| (number, precision)))
        {
            let step = step_of(greatest, GREATEST_WEIGHT_EXPONENT, precision).expect("moderate");
            assert_eq!(step.to_bits() & 0x007f_ffff, 0, "{step} is a power of two");
            let integer = (greatest / step).round();
            assert!(integer <= precision.greatest(), "{greatest}: {integer}");
            assert!(integer >= precision.greatest() / 2.1 || greatest < 1e-17, "{greatest}: {integer}");
        }
        assert_eq!(step_of(f32::INFINITY, GREATEST_WEIGHT_EXPONENT, Precision::Bits24), None);
        assert_eq!(step_of(f32::NAN, GREATEST_WEIGHT_EXPONENT, Precision::Bits24), None);
        assert!(step_of(0.0, GREATEST_WEIGHT_EXPONENT, Precision::Bits24).is_some());
    }
}

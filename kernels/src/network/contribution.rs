//! Sums of clipped row gradients: each is made, measured, scaled and added by itself.
//!
//! # Guarantee
//! On a lattice a row contributes a vector V of integers, in units of a public γ, with `Σ_j V_j² ≤ Ĉ²` and `Ĉ·γ ≤ C`: `V_j = ⌊g_j·f⌋` towards 0, g the
//! row's gradient as it was computed, f the factor by its length as it was computed. How far these are off does not matter: the squares of the
//! integers are summed after the rounding, exactly (each is below 2⁴⁸ and a sum in f64 that reaches 2⁵³ is above Ĉ² < 2⁴⁶, whatever it loses
//! there), and a V that is too long contributes 0. So does a gradient that is no number. V is a function of the row, the parameters and public
//! numbers: [`Pass`] holds one row at a time and writes every value before it reads it, so that no row before, behind or beside it enters an
//! operation. Sums of integers depend on no order: 32 bits hold those of [`SUMMED_ROWS`] rows, f64 all of a data set.

use super::elementwise::squared_length;
use super::layers::Network;
use super::row::{PackedParameters, Pass};
use crate::features::{Norm, Rows, Targets};
use crate::linear::{Batch, Clip, Evaluation, NonFiniteGradient, Tally};
use crate::loss::{Loss, Target};
use crate::vector::lanes::{LANES, to_f64};
use wide::{f32x16, f64x8, i32x16};

/// Rows whose integers are summed in 32 bits, or whose gradients in f32: 128 times less than 2²³ is within 2³⁰.
const SUMMED_ROWS: usize = 128;

/// Sums of at most this many units are surely exact, with their noise: 2⁵².
const MOST_UNITS: f64 = 4_503_599_627_370_496.0;

/// The computed length of a gradient, times this, is at least its length.
const LONGER: f64 = 1.0 + 1.0 / 65_536.0;

/// The lattice of exact sums over clipped row gradients of networks. All of it is public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientLattice {
    /// γ, a power of two.
    unit: f64,
    /// `Ĉ = ⌊C/γ⌋`, in [2²², 2²³).
    limit: f64,
}

impl GradientLattice {
    /// The lattice of sums of at most `rows` gradients, clipped to `clip_norm` in L2; none for more rows than sums are exact for.
    pub fn new(clip_norm: f32, rows: usize) -> Option<Self> {
        let exponent = f64::from(clip_norm).log2().floor() as i32;
        let unit = 2_f64.powi(exponent - 22);
        // Exact: γ is a power of two.
        let limit = (f64::from(clip_norm) / unit).floor();
        let is_exact = (4_194_304.0..8_388_608.0).contains(&limit) && rows as f64 * limit <= MOST_UNITS;
        is_exact.then_some(Self { unit, limit })
    }

    /// γ, the value of a unit of the sums.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Ĉ.
    pub fn limit(&self) -> f64 {
        self.limit
    }
}

/// Scratch memory for one network, of one thread. The owner of the loop makes it once.
#[derive(Debug)]
pub struct Workspace {
    pass: Pass,
    /// A row's gradient, as parameters are stored.
    gradient: Vec<f32>,
    /// Sums under way, of either kind.
    integers: Vec<i32>,
    reals: Vec<f32>,
}

impl Workspace {
    /// Scratch for batches of `network`.
    pub fn new(network: &Network) -> Self {
        Self { pass: Pass::new(network), gradient: Vec::new(), integers: Vec::new(), reals: Vec::new() }
    }
}

/// `sum += Σ clip(Σ_p c_p·∇f(x_p; d_i))` over the rows of the batch and the points p, one or two; with a lattice in its units, where rows
/// cannot fail.
///
/// # Errors
/// Without a lattice, a row whose gradient is not finite.
///
/// # Panics
/// A clip in L1, units of several rows, or a batch that does not suit the network.
pub fn accumulate(
    network: &Network,
    batch: &Batch<'_>,
    points: &[(&PackedParameters, f32)],
    (clip, lattice): (Clip, Option<&GradientLattice>),
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let Targets::Classes(classes) = batch.targets else { panic!("a network tells classes apart") };
    assert!(batch.units.is_none() && sum.len() == network.parameters());
    let clip_norm = match clip {
        Clip::Unbounded => None,
        Clip::Bounded { norm, clip_norm } => {
            assert_eq!(norm, Norm::L2, "gradients of networks are clipped in L2");
            Some(f64::from(clip_norm))
        }
    };
    let stored = network.stored_parameters;
    let Workspace { pass, gradient, integers, reals } = workspace;
    gradient.resize(if clip_norm.is_some() { stored } else { 0 }, 0.0);
    integers.resize(if lattice.is_some() { stored } else { 0 }, 0);
    reals.resize(if lattice.is_some() { 0 } else { stored }, 0.0);
    let mut tally = Tally { rows: batch.selection.len(), clipped: 0 };
    let mut failed = None;
    let mut summed = 0;
    for row in batch.selection.rows().filter(|&row| !batch.targets.is_null(row)) {
        // What is not clipped goes where it is summed.
        let out = if clip_norm.is_some() { &mut *gradient } else { &mut *reals };
        let mut is_finite = true;
        for (place, &point) in points.iter().enumerate() {
            pass.forward(network, point.0, (batch.rows, row));
            is_finite &= pass.backward(network, point, classes[row], (out, place > 0 || clip_norm.is_none()));
        }
        let length = clip_norm.map_or(0.0, |_| squared_length(gradient).sqrt() * LONGER);
        if !is_finite || !length.is_finite() {
            if lattice.is_none() {
                failed = Some(NonFiniteGradient { row });
                break;
            }
            tally.clipped += 1;
            continue;
        }
        if let Some(clip_norm) = clip_norm {
            let (limit, unit) = lattice.map_or((clip_norm, 1.0), |lattice| (lattice.limit, lattice.unit));
            let is_longer = length / unit > limit;
            tally.clipped += usize::from(is_longer);
            let factor = (if is_longer { limit / length } else { 1.0 / unit }) as f32;
            if lattice.is_some() {
                add_integers(gradient, factor, limit, integers);
            } else {
                add_reals(gradient, factor, reals);
            }
        }
        summed += 1;
        if summed % SUMMED_ROWS == 0 {
            move_to(network, integers, reals, sum);
        }
    }
    move_to(network, integers, reals, sum);
    failed.map_or(Ok(tally), Err)
}

fn add_reals(gradient: &[f32], factor: f32, sum: &mut [f32]) {
    let factor = f32x16::splat(factor);
    for (sum, value) in sum.as_chunks_mut::<LANES>().0.iter_mut().zip(gradient.as_chunks::<LANES>().0) {
        *sum = f32x16::new(*value).mul_add(factor, f32x16::new(*sum)).to_array();
    }
}

/// Adds the integers of a gradient, unless they are longer than `limit`.
fn add_integers(gradient: &[f32], factor: f32, limit: f64, sum: &mut [i32]) {
    let factor = f32x16::splat(factor);
    let most = f32x16::splat(limit as f32);
    // Of a NaN and a number the number.
    let integers = |value: &[f32; LANES]| (f32x16::new(*value) * factor).trunc().max(-most).min(most);
    let mut squares = [f64x8::ZERO; 2];
    let (sum, gradient) = (sum.as_chunks_mut::<LANES>().0, gradient.as_chunks::<LANES>().0);
    for (sum, value) in sum.iter_mut().zip(gradient) {
        let value = integers(value);
        for (squares, value) in squares.iter_mut().zip(to_f64(value)) {
            *squares = value.mul_add(value, *squares);
        }
        *sum = (i32x16::new(*sum) + value.fast_trunc_int()).to_array();
    }
    let [low, high] = squares;
    if !((low + high).reduce_add() <= limit * limit) {
        for (sum, value) in sum.iter_mut().zip(gradient) {
            *sum = (i32x16::new(*sum) - integers(value).fast_trunc_int()).to_array();
        }
    }
}

/// Moves the sums of either kind, as they are stored, to those of parameters.
fn move_to(network: &Network, integers: &mut [i32], reals: &mut [f32], sum: &mut [f64]) {
    for tensor in network.stages.iter().filter_map(|stage| stage.tensors).flatten() {
        for (place, stored) in tensor.rows() {
            let sum = &mut sum[place..place + tensor.outputs];
            if reals.is_empty() {
                sum.iter_mut().zip(&integers[stored..]).for_each(|(sum, &value)| *sum += f64::from(value));
            } else {
                sum.iter_mut().zip(&reals[stored..]).for_each(|(sum, &value)| *sum += f64::from(value));
            }
        }
    }
    integers.fill(0);
    reals.fill(0.0);
}

/// Loss and accuracy over the rows of a batch but null ones.
///
/// # Errors
/// A row whose outputs are not finite.
///
/// # Panics
/// A batch without classes.
pub fn evaluate(
    network: &Network,
    batch: &Batch<'_>,
    parameters: &PackedParameters,
    workspace: &mut Workspace,
) -> Result<Evaluation, NonFiniteGradient> {
    let Targets::Classes(classes) = batch.targets else { panic!("a network tells classes apart") };
    let mut found = Evaluation::default();
    for row in batch.selection.rows().filter(|&row| !batch.targets.is_null(row)) {
        let outputs = workspace.pass.forward(network, parameters, (batch.rows, row));
        if outputs.iter().any(|output| !output.is_finite()) {
            return Err(NonFiniteGradient { row });
        }
        let class = classes[row];
        found.loss += Loss::Softmax.value(outputs, Target::Class(class as usize));
        let greatest = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let predicted = outputs.iter().position(|&output| output == greatest);
        found.correct += usize::from(predicted == Some(class as usize));
        found.rows += 1;
    }
    Ok(found)
}

/// The outputs for row `row` of some rows.
pub fn outputs<'w>(
    network: &Network,
    rows: Rows<'_>,
    row: usize,
    parameters: &PackedParameters,
    workspace: &'w mut Workspace,
) -> &'w [f64] {
    workspace.pass.forward(network, parameters, (rows, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever factor is asked for: at the limit all is added, a hair above it nothing, and numbers beyond all bounds are cut.
    #[test]
    fn integers_that_are_too_long_contribute_nothing() {
        let limit = 4_194_304.0;
        for (greatest, count, is_added) in [(1_048_576.0, 16, true), (1_048_577.0, 16, false), (4_194_304.0, 1, true)] {
            let gradient: Vec<f32> = (0..64).map(|place| if place < count { greatest } else { 0.25 }).collect();
            let mut sum = vec![7; 64];
            add_integers(&gradient, 1.0, limit, &mut sum);
            let expected = |place| if place < count && is_added { 7 + greatest as i32 } else { 7 };
            assert!((0..64).all(|place| sum[place] == expected(place)), "{greatest} {count}");
        }
        for value in [f32::MAX, f32::INFINITY, f32::NAN] {
            let mut sum = vec![-3; 32];
            add_integers(&[value; 32], 1.0, limit, &mut sum);
            let square: f64 = sum.iter().map(|&sum| f64::from(sum + 3).powi(2)).sum();
            assert!(square <= limit * limit, "{value}");
        }
    }
}

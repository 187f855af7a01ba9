//! Queries whose answers are kept: a pool of ReSQue queries records K residuals a query in its round, and is reweighted
//! later, at points that were not known then.
//!
//! A round and a reweighting both go through the rows in blocks of at most 128, each in three phases: margins of the
//! block; what is done with margins, sixteen rows side by side; and, in a reweighting, the sum of coefficients times rows,
//! which are still in cache. Values that outlive a block lie output by output ([`ByOutput`]), so that nothing is
//! transposed.

use std::ops::Range;

use wide::f32x16;

use super::driver::{Needs, Pass, for_each_part, sum_blocks};
use super::lattice::{FeatureGrid, SumLattice};
use super::model::{Batch, LinearModel, NonFiniteGradient, check};
use super::packing::Layout;
use super::residuals::{self, BlockRows};
use super::selection::{Kernel, Purpose};
use super::workspace::Workspace;
use crate::features::BLOCK_ROWS;
use crate::features::Norm;
use crate::vector::exp;
use crate::vector::lanes::{LANES, padded, put};

/// Largest exponent of a weight: f32 holds e^88.
pub const MOST_EXPONENT: f32 = 88.0;

/// Scratch memory: that of the kernels of blocks, and what recorded queries add.
#[derive(Debug)]
pub struct RecordedWorkspace {
    blocks: Workspace,
    packed: Packed,
    exact: bool,
}

/// The parameters that the packed weights are of. Parts of a batch share their point, which is packed once.
#[derive(Debug, Default)]
struct Packed {
    form: Option<Form>,
    parameters: Vec<f32>,
}

/// The model and kernels that parameters are packed for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form {
    /// Features and outputs.
    shape: (usize, usize),
    /// Layout of the kernels of blocks, `None` for integers.
    layout: Option<Layout>,
    /// Scale of bytes.
    scale: f32,
}

impl Packed {
    /// True if `parameters` are packed in this form already, bit for bit.
    fn holds(&self, form: Form, parameters: &[f32]) -> bool {
        let bits = bytemuck::cast_slice::<f32, u32>;
        self.form == Some(form) && bits(&self.parameters) == bits(parameters)
    }

    fn keep(&mut self, form: Form, parameters: &[f32]) {
        self.form = Some(form);
        self.parameters.clear();
        self.parameters.extend_from_slice(parameters);
    }
}

impl RecordedWorkspace {
    /// Scratch for batches of `model`.
    pub fn new(model: &LinearModel) -> Self {
        Self { blocks: Workspace::new(model), packed: Packed::default(), exact: false }
    }

    /// The same scratch for answers that enter exact sums: by the same kernels whatever the number of rows.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Selects the kernels of a pass and packs the parameters for them, unless they are 0. `exact`: what a row adds to an exact sum, or
    /// answers before one, must not depend on the number of rows.
    fn select<'b, 'a>(
        &mut self,
        (model, batch): (&'b LinearModel, &'b Batch<'a>),
        parameters: &'b [f32],
        exact: bool,
        needs: Needs<'b, 'a>,
    ) -> Pass<'b, 'a> {
        check(model, batch, parameters);
        let at_zero = needs.sums && parameters.iter().all(|&value| value == 0.0);
        let purpose = if exact || self.exact { Purpose::ExactlyRecorded } else { Purpose::Recorded };
        let kernel = Kernel::select(model, batch, purpose, |rows| {
            self.pack_digits(model, rows.grid(), (!at_zero).then_some(parameters))
        });
        let needs = Needs { current: (!at_zero).then_some(parameters), ..needs };
        let pass = Pass::new(model, batch, needs, kernel, self.blocks.blocks);
        if matches!(kernel, Kernel::Dense) && !at_zero {
            self.pack_vectors(model, pass.source.layout, parameters);
        }
        pass
    }

    /// Packs weights in digits, unless they are 0. Returns whether there are kernels in integers and they take these.
    fn pack_digits(&mut self, model: &LinearModel, grid: FeatureGrid, parameters: Option<&[f32]>) -> bool {
        let Some((integer, digits, ..)) = self.blocks.integers() else {
            return false;
        };
        integer.check(model, digits);
        let Some(parameters) = parameters else {
            return true;
        };
        let form = Form { shape: (model.features, model.outputs), layout: None, scale: grid.step };
        if self.packed.holds(form, parameters) {
            return true;
        }
        self.packed.form = None;
        let packed = digits.pack_margins(model, grid, parameters);
        if packed {
            self.packed.keep(form, parameters);
        }
        packed
    }

    /// Packs weights for the kernels of blocks.
    fn pack_vectors(&mut self, model: &LinearModel, layout: Layout, parameters: &[f32]) {
        let form = Form { shape: (model.features, model.outputs), layout: Some(layout), scale: 1.0 };
        if !self.packed.holds(form, parameters) {
            self.blocks.current.pack(model, layout, parameters);
            self.packed.keep(form, parameters);
        }
    }
}

/// K values a query, output by output: that of query b and output k is `values[k·stride + b]`.
#[derive(Clone, Copy, Debug)]
pub struct ByOutput<'a> {
    values: &'a [f32],
    stride: usize,
}

impl<'a> ByOutput<'a> {
    /// `values` of `outputs` outputs, as many queries each.
    ///
    /// # Panics
    /// A length that is no multiple of `outputs`.
    pub fn new(values: &'a [f32], outputs: usize) -> Self {
        assert!(values.len().is_multiple_of(outputs), "a value a query for each output");
        Self { values, stride: values.len() / outputs }
    }

    /// The same without the first `queries` queries.
    #[must_use]
    pub fn from(self, queries: usize) -> Self {
        Self { values: &self.values[queries..], stride: self.stride }
    }

    /// The values of one output for some queries.
    pub fn of(self, output: usize, queries: Range<usize>) -> &'a [f32] {
        &self.values[output * self.stride..][queries]
    }
}

/// Shifts of margins, `ρ·‖a_b‖·g_kb` for query b and output k: what ⟨a_b, ξ_k⟩ is for ξ_k ~ N(0, ρ²I).
#[derive(Clone, Copy, Debug)]
pub struct Shifts<'a> {
    /// g, standard normals.
    pub normals: ByOutput<'a>,
    /// ρ > 0.
    pub radius: f32,
}

/// The part of ⟨v, ξ⟩ that the shifts do not determine, for weights with the law of those of ξ itself.
#[derive(Clone, Copy, Debug)]
pub struct Remainder<'a> {
    /// ‖v‖²/ρ².
    pub squared_offset: f32,
    /// A standard normal a query of the batch.
    pub normals: &'a [f32],
}

/// Recorded queries and the offset at which they are weighed.
#[derive(Clone, Copy, Debug)]
pub struct Reweighting<'a> {
    /// v: weights are given margins ⟨a, v_k⟩.
    pub offset: &'a [f32],
    /// The answers of [`record`].
    pub residuals: ByOutput<'a>,
    /// The lattice of an exact sum, whose terms are clipped as it says.
    pub lattice: Option<SumLattice>,
}

/// A block of recorded queries whose weights are to be computed.
#[derive(Clone, Debug)]
pub struct RecordedBlock<'a> {
    /// Positions in the batch.
    pub positions: Range<usize>,
    /// ⟨a_i, v_k⟩ at `[k·128 + i]`, 0 beyond the block's rows up to a whole vector.
    margins: &'a [f32],
    /// ‖a_i‖, bias included, rounded up; 0 beyond the block's rows.
    norms: &'a [f32; BLOCK_ROWS],
}

impl RecordedBlock<'_> {
    /// The same block of a longer batch, in which it lies `first` positions further on.
    #[must_use]
    pub fn behind(self, first: usize) -> Self {
        Self { positions: first + self.positions.start..first + self.positions.end, ..self }
    }

    /// `t_k = ⟨a, v_k⟩`, K of them, of the offset v, at the block's row `row`.
    pub fn offset_margins(&self, row: usize) -> impl Iterator<Item = f32> {
        self.margins.chunks_exact(BLOCK_ROWS).map(move |output| output[row])
    }

    /// ‖a‖ of the block's row `row`, bias included, rounded up.
    pub fn row_norm(&self, row: usize) -> f32 {
        self.norms[row]
    }

    /// `weights[i] = exp(Σ_k u_k·(g_k − u_k/2))` with `u_k = t_k/(ρ‖a_i‖)`: the ReSQue weight given the shifts alone
    /// (specification 7.1). With a remainder z, times `exp(√q·z − q/2)`, `q = ‖v‖²/ρ² − Σ_k u_k²`: the weight itself. A
    /// row of zeros has u = 0. Exponents are off by at most (2K + 8)·2⁻²⁴ times `Σ_k |u_k|·(|g_k| + |u_k|)`, and weights
    /// by 1.5 ulp more.
    ///
    /// # Errors
    /// An exponent above [`MOST_EXPONENT`] or NaN: the first such.
    ///
    /// # Panics
    /// Shifts or a remainder of another batch.
    pub fn likelihood_ratios(
        &self,
        shifts: Shifts<'_>,
        remainder: Option<Remainder<'_>>,
        weights: &mut [f32; BLOCK_ROWS],
    ) -> Result<(), f32> {
        let rows = self.positions.len();
        for start in (0..rows).step_by(LANES) {
            let norms = padded(&self.norms[start..]);
            let inverse =
                norms.simd_gt(f32x16::ZERO).select(f32x16::ONE / (norms * f32x16::splat(shifts.radius)), f32x16::ZERO);
            let (mut exponent, mut explained) = (f32x16::ZERO, f32x16::ZERO);
            for (output, margins) in self.margins.chunks_exact(BLOCK_ROWS).enumerate() {
                let u = padded(&margins[start..]) * inverse;
                let g = padded(&shifts.normals.of(output, self.positions.clone())[start..]);
                exponent = u.mul_add(u.mul_neg_add(f32x16::splat(0.5), g), exponent);
                explained = u.mul_add(u, explained);
            }
            if let Some(remainder) = remainder {
                let left = (f32x16::splat(remainder.squared_offset) - explained).fast_max(f32x16::ZERO);
                let z = padded(&remainder.normals[self.positions.clone()][start..]);
                exponent = left.sqrt().mul_add(z, left.mul_neg_add(f32x16::splat(0.5), exponent));
            }
            if !exponent.simd_lt(f32x16::splat(MOST_EXPONENT)).all() {
                let mut lanes = exponent.to_array().into_iter();
                return Err(lanes.find(|lane| !(*lane < MOST_EXPONENT)).unwrap_or(f32::NAN));
            }
            put(weights, start, exp(exponent));
        }
        Ok(())
    }
}

/// `residuals_k[b] = ∂φ/∂u_k` at the margins `u = W·a_b + shifts_b`, 0 for null rows: the answers of a round.
///
/// # Errors
/// A row whose margins or target are NaN or infinite.
///
/// # Panics
/// Residuals or shifts of another batch; parameters that do not fit the model; shifts without L2 norms of the rows.
pub fn record(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    shifts: Option<Shifts<'_>>,
    residuals: &mut [&mut [f32]],
    workspace: &mut RecordedWorkspace,
) -> Result<(), NonFiniteGradient> {
    let total = batch.selection.len();
    assert!(
        residuals.len() == model.outputs && residuals.iter().all(|of_output| of_output.len() == total),
        "residuals of another batch"
    );
    let norms = shifts.is_some().then(|| l2_norms(batch));
    let needs = Needs { targets: Some(batch.targets), norms, ..Needs::default() };
    let pass = workspace.select((model, batch), parameters, false, needs);
    for_each_part(&pass, &mut workspace.blocks, |rows, block_rows, values| {
        if let Some(shifts) = shifts {
            shift(shifts, &rows, &block_rows.norms, values);
        }
        residuals::residuals(model.loss, model.outputs, rows.len(), block_rows, values)?;
        for (to, from) in residuals.iter_mut().zip(values.chunks_exact(BLOCK_ROWS)) {
            to[rows.clone()].copy_from_slice(&from[..rows.len()]);
        }
        Ok(())
    })
}

/// `sum += Σ_b w_b·residuals_b ⊗ a_b` with the weights that `weigh` gives a block's rows from their margins at the offset:
/// f32 within blocks of at most 128 rows, f64 between them. On a lattice, in its units, of clipped terms and exact: what a row adds
/// depends on its own answers, weight and features only.
///
/// # Errors
/// The first error of `weigh`; a sum that is not finite names the batch's first row, or the first of a block that is not.
///
/// # Panics
/// Residuals or a sum of another length than the batch and the model have; an offset that does not fit the model; rows
/// without L2 norms.
pub fn accumulate_reweighted<E: From<NonFiniteGradient>>(
    model: &LinearModel,
    batch: &Batch<'_>,
    reweighting: Reweighting<'_>,
    weigh: &mut impl FnMut(&RecordedBlock<'_>, &mut [f32; BLOCK_ROWS]) -> Result<(), E>,
    sum: &mut [f64],
    workspace: &mut RecordedWorkspace,
) -> Result<(), E> {
    assert_eq!(sum.len(), model.parameters(), "a sum of another model");
    let Reweighting { offset, residuals, .. } = reweighting;
    let needs = Needs { norms: Some(l2_norms(batch)), sums: true, ..Needs::default() };
    let lattice = reweighting.lattice.as_ref();
    let pass = workspace.select((model, batch), offset, lattice.is_some(), needs);
    let in_integers = matches!(pass.kernel, Kernel::Integers(_));
    sum_blocks((&pass, lattice), 0, sum, &mut workspace.blocks, |rows, block_rows, values, _| {
        weigh_part(model, rows, block_rows, values, weigh)?;
        let values = &mut values[..model.outputs * BLOCK_ROWS];
        let finite = coefficients(residuals, rows, &block_rows.weights, values);
        if in_integers && !finite {
            return Err(NonFiniteGradient { row: batch.selection.row(rows.start) }.into());
        }
        if let Some(lattice) = lattice.filter(|_| !in_integers) {
            lattice.round(&block_rows.norms, values, rows.len());
        }
        Ok::<(), E>(())
    })?;
    if batch.selection.is_empty() || sum.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    Err(NonFiniteGradient { row: batch.selection.row(0) }.into())
}

/// The weights of a part's rows from its margins, 0 beyond the rows.
fn weigh_part<E>(
    model: &LinearModel,
    rows: &Range<usize>,
    block_rows: &mut BlockRows,
    margins: &mut [f32],
    weigh: &mut impl FnMut(&RecordedBlock<'_>, &mut [f32; BLOCK_ROWS]) -> Result<(), E>,
) -> Result<(), E> {
    residuals::clear_beyond(margins, model.outputs, rows.len());
    let BlockRows { norms, weights, .. } = block_rows;
    let recorded = RecordedBlock { positions: rows.clone(), margins: &margins[..model.outputs * BLOCK_ROWS], norms };
    weigh(&recorded, weights)?;
    weights[rows.len()..].fill(0.0);
    Ok(())
}

/// The L2 norms of all rows.
fn l2_norms<'a>(batch: &Batch<'a>) -> &'a [f32] {
    let norms = batch.norms.expect("shifts and weights need the L2 norms of the rows (linear::row_norms)");
    assert_eq!(norms.norm, Norm::L2, "norms of the rows (left) and of a Gaussian shift (right)");
    assert_eq!(norms.values.len(), batch.rows.len(), "norms (left) and rows (right)");
    &norms.values
}

/// `margins[k·128 + i] += ρ·‖a_i‖·g_ki` for the rows at `positions`.
fn shift(shifts: Shifts<'_>, positions: &Range<usize>, norms: &[f32; BLOCK_ROWS], margins: &mut [f32]) {
    for (output, margins) in margins.chunks_exact_mut(BLOCK_ROWS).enumerate() {
        let normals = shifts.normals.of(output, positions.clone());
        for start in (0..positions.len()).step_by(LANES) {
            let deviation = padded(&norms[start..]) * f32x16::splat(shifts.radius);
            let shifted = deviation.mul_add(padded(&normals[start..]), padded(&margins[start..]));
            put(margins, start, shifted);
        }
    }
}

/// Second phase of a reweighting: `values[k·128 + i] = w_i·residual_ki`. Whether all are finite.
fn coefficients(
    residuals: ByOutput<'_>,
    positions: &Range<usize>,
    weights: &[f32; BLOCK_ROWS],
    values: &mut [f32],
) -> bool {
    let mut poison = f32x16::ZERO;
    for (output, values) in values.chunks_exact_mut(BLOCK_ROWS).enumerate() {
        let recorded = residuals.of(output, positions.clone());
        for start in (0..positions.len()).step_by(LANES) {
            let coefficient = padded(&weights[start..]) * padded(&recorded[start..]);
            poison = coefficient.mul_add(f32x16::ZERO, poison);
            put(values, start, coefficient);
        }
    }
    poison.simd_eq(f32x16::ZERO).all()
}

#[cfg(test)]
mod tests {
    use super::super::lattice::Precision;
    use super::super::{RowNorms, row_norms};
    use super::*;
    use crate::features::{NULL_CLASS, NULL_TARGET, Rows, Selection, SparseRows, Targets};
    use crate::linear::Clip;
    use crate::loss::{Loss, Target};

    fn waves(count: usize, frequency: f64) -> Vec<f32> {
        (0..count).map(|i| (i as f64 * frequency).sin() as f32).collect()
    }

    /// Bytes, the same values in f32 and as sparse rows, and targets of both kinds.
    struct Data {
        model: LinearModel,
        bytes: Vec<u8>,
        scale: f32,
        values: Vec<f32>,
        offsets: Vec<usize>,
        indices: Vec<u32>,
        stored: Vec<f32>,
        classes: Vec<u32>,
        reals: Vec<f32>,
    }

    impl Data {
        /// With one output the logistic loss, else softmax; `byte` gives the byte of a row and column.
        fn new(
            (rows, features): (usize, usize),
            outputs: usize,
            bias: bool,
            scale: f32,
            byte: impl Fn(usize, usize) -> u8,
        ) -> Self {
            let bytes: Vec<u8> = (0..rows * features).map(|i| byte(i / features, i % features)).collect();
            let values: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) * scale).collect();
            let entries = || (0..values.len()).filter(|&i| bytes[i] != 0);
            Data {
                model: LinearModel {
                    features,
                    outputs,
                    bias,
                    loss: if outputs == 1 { Loss::Logistic } else { Loss::Softmax },
                },
                offsets: (0..=rows).map(|row| entries().take_while(|&i| i < row * features).count()).collect(),
                indices: entries().map(|i| (i % features) as u32).collect(),
                stored: entries().map(|i| values[i]).collect(),
                classes: (0..rows).map(|row| (row % outputs) as u32).collect(),
                reals: (0..rows).map(|row| if row % 3 == 0 { 1.0 } else { -1.0 }).collect(),
                bytes,
                scale,
                values,
            }
        }

        fn formats(&self) -> [Rows<'_>; 3] {
            let columns = self.model.features;
            [
                Rows::f32(&self.values, columns),
                Rows::bytes(&self.bytes, columns, self.scale),
                Rows::Sparse(SparseRows {
                    offsets: &self.offsets,
                    indices: &self.indices,
                    values: &self.stored,
                    columns,
                }),
            ]
        }

        fn batch<'a>(&'a self, rows: Rows<'a>, norms: &'a RowNorms, selection: Selection<'a>) -> Batch<'a> {
            Batch {
                rows,
                targets: if self.model.outputs == 1 {
                    Targets::Values(&self.reals)
                } else {
                    Targets::Classes(&self.classes)
                },
                norms: Some(norms),
                selection,
                units: None,
            }
        }

        /// The same rows, some of them null.
        fn with_nulls(&mut self, is_null: impl Fn(usize) -> bool) {
            for row in (0..self.reals.len()).filter(|&row| is_null(row)) {
                (self.classes[row], self.reals[row]) = (NULL_CLASS, NULL_TARGET);
            }
        }
    }

    /// [`record`], into one vector.
    fn answers(
        model: &LinearModel,
        batch: &Batch<'_>,
        parameters: &[f32],
        shifts: Option<Shifts<'_>>,
        workspace: &mut RecordedWorkspace,
    ) -> Result<Vec<f32>, NonFiniteGradient> {
        let mut residuals = vec![0.0; batch.selection.len() * model.outputs];
        let mut by_output: Vec<_> = residuals.chunks_exact_mut(batch.selection.len()).collect();
        record(model, batch, parameters, shifts, &mut by_output, workspace)?;
        Ok(residuals)
    }

    /// `ln w` of one row in f64: from K pairs (⟨a, v_k⟩, normal), its norm, ρ, and ‖v‖²/ρ² with a normal.
    fn exponent(pairs: &[(f64, f64)], norm: f64, radius: f64, remainder: Option<(f64, f64)>) -> f64 {
        let (mut exponent, mut explained) = (0.0, 0.0);
        for &(t, g) in pairs {
            let u = if norm > 0.0 { t / (radius * norm) } else { 0.0 };
            exponent += u * (g - 0.5 * u);
            explained += u * u;
        }
        let left = remainder.map_or((0.0, 0.0), |(squared, z)| ((squared - explained).max(0.0), z));
        exponent + left.0.sqrt() * left.1 - 0.5 * left.0
    }

    #[test]
    fn rounds_and_reweightings_agree_with_scalar_sums_in_every_format() {
        for (features, outputs, bias, used) in [
            (1usize, 1, false, 9),
            (1, 3, true, 259),
            (5, 1, true, 259),
            (5, 3, false, 15),
            (32, 1, false, 300),
            (32, 3, true, 17),
            (67, 1, true, 16),
            (67, 3, false, 259),
            (67, 10, true, 131),
            (130, 11, true, 1_100),
        ] {
            let count = 300;
            // A row of zeros now and then: without a bias, its shifts and weights are 0 and 1.
            let byte = |row, column| u8::from(row % 13 != 5) * ((row * features + column) * 37 % 11) as u8;
            let data = Data::new((count, features), outputs, bias, 0.25, byte);
            let model = data.model;
            let width = features + usize::from(bias);
            let parameters = waves(model.parameters(), 0.71);
            let radius = 0.3f32;
            let scale = radius / (model.parameters() as f32).sqrt();
            let offset: Vec<f32> = waves(model.parameters(), 1.13).iter().map(|v| v * scale).collect();
            let squared_offset = offset.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / f64::from(radius).powi(2);
            let selected: Vec<u32> = (0..used).map(|i| (i * 7 % count) as u32).collect();
            // One query more than is used, so that the stride is not the batch's length.
            let normals = waves((used + 1) * outputs, 2.9);
            let rest = waves(used, 4.3);
            for rows in data.formats() {
                let norms = row_norms(rows, bias, Norm::L2).unwrap();
                let batch = data.batch(rows, &norms, Selection::Indices(&selected));
                let shifts = Shifts { normals: ByOutput::new(&normals, outputs).from(1), radius };
                let mut workspace = RecordedWorkspace::new(&model);
                let recorded = answers(&model, &batch, &parameters, Some(shifts), &mut workspace).unwrap();
                let recorded = ByOutput::new(&recorded, outputs);
                for full in [false, true] {
                    let remainder = full.then_some(Remainder { squared_offset: squared_offset as f32, normals: &rest });
                    let mut found_weights = vec![0.0; used];
                    let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                        block.likelihood_ratios(shifts, remainder, weights).unwrap();
                        found_weights[block.positions.clone()].copy_from_slice(&weights[..block.positions.len()]);
                        Ok::<(), NonFiniteGradient>(())
                    };
                    let reweighting = Reweighting { offset: &offset, residuals: recorded, lattice: None };
                    let mut sum = vec![0.0; model.parameters()];
                    accumulate_reweighted(&model, &batch, reweighting, &mut weigh, &mut sum, &mut workspace).unwrap();
                    let mut expected_sum = vec![0.0; model.parameters()];
                    for (position, &row) in selected.iter().enumerate() {
                        let row = row as usize;
                        let a: Vec<f64> = data.values[row * features..(row + 1) * features]
                            .iter()
                            .chain(bias.then_some(&1.0))
                            .map(|&v| f64::from(v))
                            .collect();
                        let inner = |w: &[f32], k: usize| -> f64 {
                            (0..width).map(|j| a[j] * f64::from(w[k * width + j])).sum()
                        };
                        let norm = a.iter().map(|v| v * v).sum::<f64>().sqrt();
                        let normal = |k: usize| f64::from(normals[k * (used + 1) + 1 + position]);
                        let mut residual: Vec<f64> = (0..outputs)
                            .map(|k| inner(&parameters, k) + f64::from(radius) * norm * normal(k))
                            .collect();
                        let target = if outputs == 1 {
                            Target::Value(f64::from(data.reals[row]))
                        } else {
                            Target::Class(data.classes[row] as usize)
                        };
                        model.loss.residual(&mut residual, target);
                        let pairs: Vec<_> = (0..outputs).map(|k| (inner(&offset, k), normal(k))).collect();
                        let remainder = full.then(|| (squared_offset, f64::from(rest[position])));
                        let weight = exponent(&pairs, norm, f64::from(radius), remainder).exp();
                        let found = f64::from(found_weights[position]);
                        // What is left of ‖v‖² is off by rounding, its square root by more.
                        let tolerance = if full { 2e-3 } else { 2e-5 };
                        assert!((found / weight - 1.0).abs() < tolerance, "{rows:?}: {found} for {weight}");
                        for k in 0..outputs {
                            let found_residual = f64::from(recorded.of(k, position..position + 1)[0]);
                            assert!((found_residual - residual[k]).abs() < 2e-5, "{rows:?}");
                            for j in 0..width {
                                expected_sum[k * width + j] += found * a[j] * found_residual;
                            }
                        }
                    }
                    assert!(
                        sum.iter().zip(&expected_sum).all(|(a, b)| (a - b).abs() < 1e-3),
                        "{features} {outputs} {bias} {used}"
                    );
                }
            }
        }
    }

    #[test]
    fn sums_do_not_depend_on_what_a_workspace_was_used_for_and_at_zero_all_margins_are_zero() {
        let (features, count) = (67, 200);
        let data =
            Data::new((count, features), 3, true, 0.25, |row, column| ((row * features + column) * 37 % 11) as u8);
        let (model, values) = (data.model, &data.values);
        let answers = waves(3 * count, 0.37);
        let residuals = ByOutput::new(&answers, 3);
        let (zero, first) = (vec![0.0; model.parameters()], waves(model.parameters(), 0.71));
        let second: Vec<f32> = first.iter().map(|v| 0.5 * v).collect();
        let formats = data.formats();
        let sum = |rows: Rows<'_>, used: Range<usize>, offset: &[f32], workspace: &mut RecordedWorkspace| {
            let norms = row_norms(rows, true, Norm::L2).unwrap();
            let batch = data.batch(rows, &norms, Selection::Range(used));
            let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                for (row, weight) in weights.iter_mut().enumerate().take(block.positions.len()) {
                    *weight = 1.0 + block.offset_margins(row).map(f32::abs).sum::<f32>();
                }
                Ok::<(), NonFiniteGradient>(())
            };
            let mut sum = vec![0.0; model.parameters()];
            let reweighting = Reweighting { offset, residuals, lattice: None };
            accumulate_reweighted(&model, &batch, reweighting, &mut weigh, &mut sum, workspace).unwrap();
            sum
        };
        let mut idle = RecordedWorkspace::new(&model);
        for rows in formats {
            sum(rows, 0..count, &zero, &mut idle);
            assert!(idle.packed.form.is_none(), "weights of 0 are packed for nothing");
        }
        let mut shared = RecordedWorkspace::new(&model);
        for used in [0..count, 3..20, 0..7, 5..150] {
            for offset in [&first, &first, &zero, &second, &zero, &first] {
                for rows in formats {
                    let found = sum(rows, used.clone(), offset, &mut shared);
                    let fresh = sum(rows, used.clone(), offset, &mut RecordedWorkspace::new(&model));
                    assert_eq!(found, fresh, "{rows:?}, {used:?}");
                    if *offset == zero {
                        for output in 0..3 {
                            for feature in 0..features {
                                let term = |(position, row): (usize, usize)| {
                                    let residual = residuals.of(output, position..position + 1)[0];
                                    f64::from(residual) * f64::from(values[row * features + feature])
                                };
                                let expected: f64 = used.clone().enumerate().map(term).sum();
                                let found = found[output * (features + 1) + feature];
                                assert!((found - expected).abs() < 1e-3, "{rows:?}, {used:?}: {found} for {expected}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Positions stay when a row becomes null, and with them the shifts of all others: what these answer and add does not
    /// change by a bit. Nor does it change with the weights beside them: integers are multiples of a step that follows from the cap.
    #[test]
    fn what_a_recorded_row_adds_depends_on_no_other_row() {
        let is_null = |row: usize| row % 5 == 2;
        for (features, outputs, bias, used) in [
            (20, 1, true, 33),
            (67, 1, false, 129),
            (67, 3, true, 15),
            (67, 3, true, 33),
            (130, 11, false, 129),
            (64, 2, true, 520),
        ] {
            let byte = |row: usize, column: usize| ((row * features + column) * 37 % 101) as u8;
            let [full_data, some_data] = [false, true].map(|nulls| {
                let mut data = Data::new((used, features), outputs, bias, 1.0 / 64.0, byte);
                data.with_nulls(|row| nulls && is_null(row));
                data
            });
            let model = full_data.model;
            let (parameters, offset) = (waves(model.parameters(), 0.71), waves(model.parameters(), 1.13));
            let normals = waves(used * outputs, 2.9);
            let shifts = Shifts { normals: ByOutput::new(&normals, outputs), radius: 0.3 };
            for (rows, tiles) in full_data.formats().into_iter().flat_map(|rows| [(rows, true), (rows, false)]) {
                let norms = row_norms(rows, bias, Norm::L2).unwrap();
                let mut workspace = RecordedWorkspace::new(&model).exactly();
                if !tiles {
                    workspace.blocks = workspace.blocks.without_integers();
                }
                let [full, some] = [&full_data, &some_data].map(|data| {
                    let batch = data.batch(rows, &norms, Selection::Range(0..used));
                    answers(&model, &batch, &parameters, Some(shifts), &mut workspace).unwrap()
                });
                for (place, (&found, &kept)) in some.iter().zip(&full).enumerate() {
                    assert_eq!(found, if is_null(place % used) { 0.0 } else { kept });
                }
                let grid = match rows {
                    Rows::U8(bytes) => FeatureGrid::bytes(bytes.scale),
                    _ => FeatureGrid { step: 1.0 / 64.0, greatest: 255 },
                };
                for clip_norm in [1.0, 0.01] {
                    let lattice = SumLattice::new(&model, (grid, Precision::Bits24), 2.7, Clip::l2(clip_norm), used);
                    let mut sum = |residuals: &[f32], rows_of_sum: Range<usize>| {
                        let first = rows_of_sum.start;
                        let residuals = ByOutput::new(residuals, outputs).from(first);
                        let batch = full_data.batch(rows, &norms, Selection::Range(rows_of_sum));
                        let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                            for (row, position) in block.positions.clone().enumerate() {
                                let margin = block.offset_margins(row).map(f32::abs).sum::<f32>();
                                weights[row] = (margin / ((first + position) % 17 + 1) as f32).min(2.7);
                            }
                            Ok::<(), NonFiniteGradient>(())
                        };
                        let reweighting = Reweighting { offset: &offset, residuals, lattice };
                        let mut sum = vec![0.0; model.parameters()];
                        accumulate_reweighted(&model, &batch, reweighting, &mut weigh, &mut sum, &mut workspace)
                            .unwrap();
                        sum
                    };
                    let (mut of_all, mut of_some) = (vec![0.0; model.parameters()], vec![0.0; model.parameters()]);
                    for row in 0..used {
                        let alone = sum(&full, row..row + 1);
                        let add = |to: &mut [f64]| to.iter_mut().zip(&alone).for_each(|(sum, value)| *sum += value);
                        add(&mut of_all);
                        if !is_null(row) {
                            add(&mut of_some);
                        }
                    }
                    assert_eq!(sum(&full, 0..used), of_all, "{model:?} {clip_norm} {tiles} {used}");
                    assert_eq!(sum(&some, 0..used), of_some, "{model:?} {clip_norm} {tiles} {used}");
                }
            }
        }
    }

    /// One row `value` of one feature, its answer 1, reweighted at `offset`, ρ = 1, with one normal.
    fn reweighted(value: f32, offset: f32, normal: f32) -> (Result<(), f32>, Result<(), NonFiniteGradient>) {
        let model = LinearModel { features: 1, outputs: 1, bias: false, loss: Loss::Hinge };
        let values = [1.0, value];
        let rows = Rows::f32(&values, 1);
        let norms = row_norms(rows, false, Norm::L2).unwrap();
        let batch = Batch {
            rows,
            targets: Targets::Values(&[1.0; 2]),
            norms: Some(&norms),
            selection: Selection::Range(1..2),
            units: None,
        };
        let (normals, mut ratios) = ([normal], Ok(()));
        let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
            let shifts = Shifts { normals: ByOutput::new(&normals, 1), radius: 1.0 };
            ratios = block.likelihood_ratios(shifts, None, weights);
            Ok(())
        };
        let mut workspace = RecordedWorkspace::new(&model);
        let (answers, mut sum) = ([1e30], [0.0]);
        let outcome = accumulate_reweighted(
            &model,
            &batch,
            Reweighting { offset: &[offset], residuals: ByOutput::new(&answers, 1), lattice: None },
            &mut weigh,
            &mut sum,
            &mut workspace,
        );
        (ratios, outcome)
    }

    #[test]
    fn overflow_is_reported() {
        assert_eq!(reweighted(1.0, 0.5, 0.25), (Ok(()), Ok(())));
        let row = NonFiniteGradient { row: 1 };
        assert_eq!(reweighted(1e30, 0.0, 0.0), (Ok(()), Err(row)));
        // ln w = u·(g − u/2) with u = 10.
        assert_eq!(reweighted(1.0, 10.0, 13.75).0, Ok(()));
        let exponent = reweighted(1.0, 10.0, 13.875).0.unwrap_err();
        assert!((exponent - 88.75).abs() < 1e-3, "{exponent}");
        assert!(reweighted(1.0, f32::NAN, 1.0).0.unwrap_err().is_nan());
    }

    #[test]
    fn a_row_that_is_no_number_is_named() {
        let model = LinearModel { features: 3, outputs: 1, bias: false, loss: Loss::Logistic };
        for count in [5, 40] {
            let mut values = vec![0.5; 3 * count];
            values[3 * 4 + 1] = f32::NAN;
            let targets = vec![1.0; count];
            let batch = Batch {
                rows: Rows::f32(&values, 3),
                targets: Targets::Values(&targets),
                norms: None,
                selection: Selection::Range(1..count),
                units: None,
            };
            let outcome = answers(&model, &batch, &[0.1; 3], None, &mut RecordedWorkspace::new(&model));
            assert_eq!(outcome, Err(NonFiniteGradient { row: 4 }));
        }
    }
}

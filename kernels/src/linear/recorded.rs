//! Queries whose answers are kept: a pool of ReSQue queries records K residuals a query in its round, and is reweighted
//! later, at points that were not known then.
//!
//! A round and a reweighting both go through the rows in blocks of at most 128, each in three phases: margins of the
//! block; what is done with margins, sixteen rows side by side; and, in a reweighting, the sum of coefficients times rows,
//! which are still in cache. Values that outlive a block lie output by output ([`ByOutput`]), so that nothing is
//! transposed.

use std::ops::Range;

use wide::f32x16;

use super::dense::{self, Ahead, ROW_GROUP, RowPointers, Sink};
use super::integer;
use super::packing::Layout;
use super::residuals::{self, RowFacts};
use super::{
    BLOCK_ROWS, Batch, Clip, LinearModel, NonFiniteGradient, Source, Workspace, check, row_at, sparse, takes_tiles,
};
use crate::features::{Norm, Rows, Selection, Targets, U8Rows};
use crate::vector::exp;
use crate::vector::lanes::LANES;

/// Rows below which packing the weights for the kernels of blocks costs more than they save.
const FEW_ROWS: usize = 16;

/// Largest exponent of a weight: f32 holds e^88.
pub const MOST_EXPONENT: f32 = 88.0;

/// Scratch memory: that of the kernels of blocks, and one row.
#[derive(Debug)]
pub struct RecordedWorkspace {
    blocks: Workspace,
    row: Vec<f32>,
    /// Coefficients of the rows whose outer products are summed together on integer tiles.
    coefficients: Vec<f32>,
    packed: Packed,
}

/// Which parameters the kernels' packed weights are of: parts of a batch share their point, which is packed for the first
/// of them.
#[derive(Debug, Default)]
struct Packed {
    form: Option<Form>,
    parameters: Vec<f32>,
}

/// For which model and kernels parameters are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Features and outputs.
    shape: (usize, usize),
    /// Layout of the kernels of blocks, `None` for integer tiles.
    layout: Option<Layout>,
}

impl Packed {
    /// Whether `parameters` are packed in this form already, bit for bit.
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
        Self::summing_rows(model, BLOCK_ROWS)
    }

    /// Scratch for batches of `model` whose sums leave f32 every `block_rows` rows at the latest; see
    /// [`Workspace::summing_rows`].
    pub fn summing_rows(model: &LinearModel, block_rows: usize) -> Self {
        Self {
            blocks: Workspace::summing_rows(model, block_rows),
            row: vec![0.0; model.features],
            coefficients: vec![0.0; model.outputs * integer::SUMMED_ROWS],
            packed: Packed::default(),
        }
    }

    /// Packs weights in digits for integer tiles, unless they are 0. Whether there are any and they take these.
    fn pack_digits(&mut self, model: &LinearModel, parameters: &[f32], at_zero: bool) -> bool {
        let Some(integer) = &mut self.blocks.integer else {
            return false;
        };
        if at_zero {
            integer.check(model);
            return true;
        }
        let form = Form {
            shape: (model.features, model.outputs),
            layout: None,
        };
        if self.packed.holds(form, parameters) {
            return true;
        }
        self.packed.form = None;
        let packed = integer.prepare(model, parameters);
        if packed {
            self.packed.keep(form, parameters);
        }
        packed
    }

    /// Packs weights for the kernels of blocks.
    fn pack_vectors(&mut self, model: &LinearModel, layout: Layout, parameters: &[f32]) {
        let form = Form {
            shape: (model.features, model.outputs),
            layout: Some(layout),
        };
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
        Self {
            values,
            stride: values.len() / outputs,
        }
    }

    /// The same without the first `queries` queries.
    #[must_use]
    pub fn from(self, queries: usize) -> Self {
        Self {
            values: &self.values[queries..],
            stride: self.stride,
        }
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
    /// What is known of all terms beforehand.
    pub cap: Option<Cap>,
}

/// Public bounds of the terms of a reweighted sum, which the weights must keep: `w_b ≤ weight` and
/// `‖w_b·residuals_b ⊗ a_b‖₂ ≤ clip_norm`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap {
    /// Bound of the weights.
    pub weight: f32,
    /// Bound of the terms' norms.
    pub clip_norm: f32,
}

/// A block of recorded queries as their weights are asked for.
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
        Self {
            positions: first + self.positions.start..first + self.positions.end,
            ..self
        }
    }

    /// `t_k = ⟨a, v_k⟩`, K of them, of the offset v that is asked for, at the block's row `row`.
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
            let norms = lanes(self.norms, start);
            let inverse = norms
                .simd_gt(f32x16::ZERO)
                .select(f32x16::ONE / (norms * f32x16::splat(shifts.radius)), f32x16::ZERO);
            let (mut exponent, mut explained) = (f32x16::ZERO, f32x16::ZERO);
            for (output, margins) in self.margins.chunks_exact(BLOCK_ROWS).enumerate() {
                let u = lanes(margins, start) * inverse;
                let g = lanes(shifts.normals.of(output, self.positions.clone()), start);
                exponent = u.mul_add(u.mul_neg_add(f32x16::splat(0.5), g), exponent);
                explained = u.mul_add(u, explained);
            }
            if let Some(remainder) = remainder {
                let left = (f32x16::splat(remainder.squared_offset) - explained).fast_max(f32x16::ZERO);
                let z = lanes(&remainder.normals[self.positions.clone()], start);
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
    let pass = Pass {
        targets: Some(batch.targets),
        ..Pass::new(model, batch, parameters, None, norms, workspace)
    };
    for start in (0..total).step_by(pass.part) {
        let rows = start..(start + pass.part).min(total);
        let mut starts = [std::ptr::null(); BLOCK_ROWS];
        let mut ahead = pass.ahead(&rows, false, &mut starts);
        pass.margins(&rows, workspace, &mut ahead);
        let Workspace {
            residuals: values,
            facts,
            ..
        } = &mut workspace.blocks;
        if let Some(shifts) = shifts {
            shift(shifts, &rows, &facts.norms, values);
        }
        residuals::residuals(model.loss, model.outputs, rows.len(), facts, values)?;
        for (to, from) in residuals.iter_mut().zip(values.chunks_exact(BLOCK_ROWS)) {
            to[rows.clone()].copy_from_slice(&from[..rows.len()]);
        }
    }
    Ok(())
}

/// `sum += Σ_b w_b·residuals_b ⊗ a_b` with the weights that `weigh` gives a block's rows from their margins at the offset:
/// f32 within blocks of at most 128 rows, f64 between them. Where each row is rounded on its own
/// ([`RecordedWorkspace::summing_rows`] of 1), what it adds depends on its own answers, weight and features only.
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
    let (total, outputs) = (batch.selection.len(), model.outputs);
    let Reweighting { offset, residuals, .. } = reweighting;
    let norms = Some(l2_norms(batch));
    let pass = Pass::new(model, batch, offset, Some(&reweighting), norms, workspace);
    if let Some(bytes) = pass.on_tiles {
        return pass.reweighted_on_tiles(bytes, residuals, weigh, sum, workspace);
    }
    let block_rows = workspace.blocks.blocks.block;
    for block in (0..total).step_by(block_rows) {
        let block_end = (block + block_rows).min(total);
        // With one output, parts of a block stay in first-level cache, and share a partial sum.
        let in_parts = outputs == 1 && block_end - block > pass.part;
        if in_parts {
            workspace.blocks.partial.fill(f32x16::ZERO);
        }
        for start in (block..block_end).step_by(pass.part) {
            let rows = start..(start + pass.part).min(block_end);
            let mut starts = [std::ptr::null(); BLOCK_ROWS];
            let mut ahead = pass.ahead(&rows, true, &mut starts);
            let pointers = pass.margins(&rows, workspace, &mut ahead);
            let Workspace {
                residuals: values,
                facts,
                ..
            } = &mut workspace.blocks;
            residuals::clear_beyond(values, outputs, rows.len());
            let RowFacts { norms, weights, .. } = &mut **facts;
            let recorded = RecordedBlock {
                positions: rows.clone(),
                margins: &values[..outputs * BLOCK_ROWS],
                norms,
            };
            weigh(&recorded, weights)?;
            weights[rows.len()..].fill(0.0);
            coefficients(residuals, &rows, weights, values);
            if model.bias {
                let width = model.features + 1;
                for (output, values) in values.chunks_exact(BLOCK_ROWS).enumerate() {
                    sum[output * width + model.features] += f64::from(residuals::total(values, rows.len()));
                }
            }
            residuals::scale(pass.source.scale, values, outputs, rows.len());
            pass.outer(&rows, &pointers, in_parts, workspace, &mut ahead, sum);
        }
        if in_parts {
            let (partial, layout) = (&workspace.blocks.partial, pass.source.layout);
            dense::add_partial(partial, layout, &mut sum[..model.features]);
        }
    }
    finite(batch, sum)
}

/// An error that names the batch's first row if the sum is not finite.
fn finite<E: From<NonFiniteGradient>>(batch: &Batch<'_>, sum: &[f64]) -> Result<(), E> {
    if batch.selection.is_empty() || sum.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        let row = row_at(&batch.selection, 0);
        Err(NonFiniteGradient { row }.into())
    }
}

/// The L2 norms of all rows.
fn l2_norms<'a>(batch: &Batch<'a>) -> &'a [f32] {
    let norms = batch
        .norms
        .expect("shifts and weights need the L2 norms of the rows (linear::row_norms)");
    assert_eq!(
        norms.norm,
        Norm::L2,
        "norms of the rows (left) and of a Gaussian shift (right)"
    );
    assert_eq!(norms.values.len(), batch.rows.len(), "norms (left) and rows (right)");
    &norms.values
}

/// Sixteen values from `start` on, zeros beyond the last.
#[inline(always)]
fn lanes(values: &[f32], start: usize) -> f32x16 {
    let rest = &values[start..];
    if let Some(whole) = rest.first_chunk::<LANES>() {
        return f32x16::new(*whole);
    }
    let mut padded = [0.0; LANES];
    padded[..rest.len()].copy_from_slice(rest);
    f32x16::new(padded)
}

#[inline(always)]
fn put(values: &mut [f32], start: usize, lanes: f32x16) {
    *values[start..]
        .first_chunk_mut::<LANES>()
        .expect("blocks are whole vectors") = lanes.to_array();
}

/// `margins[k·128 + i] += ρ·‖a_i‖·g_ki` for the rows at `positions`.
fn shift(shifts: Shifts<'_>, positions: &Range<usize>, norms: &[f32; BLOCK_ROWS], margins: &mut [f32]) {
    for (output, margins) in margins.chunks_exact_mut(BLOCK_ROWS).enumerate() {
        let normals = shifts.normals.of(output, positions.clone());
        for start in (0..positions.len()).step_by(LANES) {
            let deviation = lanes(norms, start) * f32x16::splat(shifts.radius);
            let shifted = deviation.mul_add(lanes(normals, start), lanes(margins, start));
            put(margins, start, shifted);
        }
    }
}

/// A way through the rows of a batch, block by block, with the parameters whose margins are computed.
struct Pass<'b, 'a> {
    model: &'b LinearModel,
    batch: &'b Batch<'a>,
    parameters: &'b [f32],
    norms: Option<&'a [f32]>,
    source: Source<'a>,
    /// Rows of a block whose margins are computed before their gradients.
    part: usize,
    /// Steps of the loops over such rows, for [`Ahead`]: those of margins and those of gradients.
    margin_steps: usize,
    gradient_steps: usize,
    /// Whether the rows go through the kernels of blocks, for which the parameters were packed unless they are 0.
    in_blocks: bool,
    /// The rows, where they go through integer tiles, for which the parameters were packed unless they are 0.
    on_tiles: Option<U8Rows<'a>>,
    /// How finely coefficients are written there: the exponent of a step that no row has a say in, if there is one.
    step: Option<i32>,
    /// Targets, where residuals are asked for.
    targets: Option<Targets<'a>>,
    /// Whether the margins are known to be 0 without the rows.
    at_zero: bool,
}

impl<'b, 'a> Pass<'b, 'a> {
    fn new(
        model: &'b LinearModel,
        batch: &'b Batch<'a>,
        parameters: &'b [f32],
        reweighting: Option<&Reweighting<'_>>,
        norms: Option<&'a [f32]>,
        workspace: &mut RecordedWorkspace,
    ) -> Self {
        check(model, batch, parameters);
        let source = Source::new(batch.rows, model);
        let (blocks, total) = (workspace.blocks.blocks, batch.selection.len());
        let at_zero = reweighting.is_some() && parameters.iter().all(|&value| value == 0.0);
        let on_tiles = match batch.rows {
            Rows::U8(bytes) if takes_tiles(blocks, total) => Some(bytes),
            _ => None,
        };
        let step = on_tiles.zip(reweighting.and_then(|reweighting| reweighting.cap));
        let step = step.and_then(|(bytes, Cap { weight, clip_norm })| {
            let norm = Norm::L2;
            integer::step_exponent(model, weight, Clip::Bounded { norm, clip_norm }, bytes.scale)
        });
        // Steps that follow from the rows are for sums that do not round each row on its own, and of which no bound is known.
        let has_step = |reweighting: &Reweighting<'_>| match reweighting.cap {
            Some(_) => step.is_some(),
            None => blocks.block > 1,
        };
        let on_tiles = on_tiles
            .filter(|_| reweighting.is_none_or(has_step))
            .filter(|_| workspace.pack_digits(model, parameters, at_zero));
        let part = if on_tiles.is_some() {
            BLOCK_ROWS
        } else {
            source.part(blocks)
        };
        let in_blocks = on_tiles.is_none() && source.is_dense() && (blocks.block == 1 || total >= FEW_ROWS);
        if in_blocks && !at_zero {
            workspace.pack_vectors(model, source.layout, parameters);
        }
        let gradient_steps = dense::steps(model.outputs, source.layout, part, 0);
        Self {
            model,
            batch,
            parameters,
            norms,
            source,
            part,
            margin_steps: dense::steps(model.outputs, source.layout, part, 1) - gradient_steps,
            gradient_steps,
            in_blocks,
            on_tiles,
            step,
            targets: None,
            at_zero,
        }
    }

    /// Asks for the rows behind those at `positions`, while margins and, if `gradients`, their sums are computed.
    fn ahead<'s>(
        &self,
        positions: &Range<usize>,
        gradients: bool,
        starts: &'s mut [*const u8; BLOCK_ROWS],
    ) -> Ahead<'s> {
        if self.on_tiles.is_some() {
            return Ahead::rows(&[], 0, 0, 0);
        }
        let next = positions.end..(positions.end + self.part).min(self.batch.selection.len());
        let next = self.source.starts(&self.batch.selection, next, starts);
        let steps = match (gradients, self.at_zero) {
            (false, _) => self.margin_steps,
            (true, false) => self.margin_steps + self.gradient_steps,
            (true, true) => self.gradient_steps,
        };
        Ahead::rows(next, self.source.row_bytes(), self.source.layout.vectors, steps)
    }

    /// First phase: facts of the rows at `positions`, and their margins at `[k·128 + i]` of the workspace's residuals.
    /// Where the rows lie.
    fn margins(
        &self,
        positions: &Range<usize>,
        workspace: &mut RecordedWorkspace,
        ahead: &mut Ahead<'_>,
    ) -> RowPointers {
        let Workspace {
            current,
            residuals: margins,
            rows: scratch,
            facts,
            integer,
            ..
        } = &mut workspace.blocks;
        let (model, count) = (self.model, positions.len());
        match &self.batch.selection {
            Selection::Range(range) => {
                for (id, row) in facts
                    .ids
                    .iter_mut()
                    .zip(range.start + positions.start..range.start + positions.end)
                {
                    *id = row;
                }
            }
            Selection::Indices(indices) => {
                for (id, &row) in facts.ids.iter_mut().zip(&indices[positions.clone()]) {
                    *id = row as usize;
                }
            }
        }
        if let Some(targets) = self.targets {
            facts.gather_targets(count, targets, model.outputs);
        }
        if let Some(norms) = self.norms {
            facts.gather_norms(count, norms);
        }
        let ids = &facts.ids[..count];
        let nowhere = [std::ptr::null(); BLOCK_ROWS];
        if self.at_zero {
            margins[..model.outputs * BLOCK_ROWS].fill(0.0);
        }
        if let Rows::Sparse(rows) = self.batch.rows {
            if !self.at_zero {
                sparse::margins(rows, ids, model, self.parameters, margins);
            }
            return nowhere;
        }
        if let (Some(bytes), Some(integer)) = (self.on_tiles, integer) {
            if self.at_zero {
                self.source.ask(ids);
            } else {
                integer.margins(bytes, &self.batch.selection, positions.clone(), margins);
            }
            return nowhere;
        }
        if self.in_blocks {
            let cold = positions.start == 0 && self.source.is_scattered(&self.batch.selection);
            if self.at_zero {
                return self.source.margins(ids, scratch, [], cold, ahead);
            }
            let sides = [(&*current, &mut margins[..])];
            return self.source.margins(ids, scratch, sides, cold, ahead);
        }
        self.few_margins(ids, &mut workspace.row, margins);
        let mut pointers = [std::ptr::null(); BLOCK_ROWS];
        for first in (0..count).step_by(ROW_GROUP) {
            let group = first..(first + ROW_GROUP).min(count);
            self.source.place(ids, group, scratch, &mut pointers);
        }
        pointers
    }

    /// Margins of the few rows `ids`, one after the other.
    fn few_margins(&self, ids: &[usize], buffer: &mut [f32], margins: &mut [f32]) {
        let width = self.model.features + usize::from(self.model.bias);
        for (row, &id) in ids.iter().enumerate() {
            let features = load(self.batch.rows, id, buffer);
            for output in 0..self.model.outputs {
                let (weights, bias) = self.parameters[output * width..][..width].split_at(self.model.features);
                margins[output * BLOCK_ROWS + row] = dot(features, weights) + bias.first().copied().unwrap_or(0.0);
            }
        }
    }

    /// [`accumulate_reweighted`] on integer tiles: outer products of up to 512 rows are summed together.
    fn reweighted_on_tiles<E: From<NonFiniteGradient>>(
        &self,
        bytes: U8Rows<'_>,
        residuals: ByOutput<'_>,
        weigh: &mut impl FnMut(&RecordedBlock<'_>, &mut [f32; BLOCK_ROWS]) -> Result<(), E>,
        sum: &mut [f64],
        workspace: &mut RecordedWorkspace,
    ) -> Result<(), E> {
        let (total, block_values) = (self.batch.selection.len(), self.model.outputs * BLOCK_ROWS);
        for block in (0..total).step_by(integer::SUMMED_ROWS) {
            let block_end = (block + integer::SUMMED_ROWS).min(total);
            for (part, start) in (block..block_end).step_by(BLOCK_ROWS).enumerate() {
                let rows = start..(start + BLOCK_ROWS).min(block_end);
                self.margins(&rows, workspace, &mut Ahead::rows(&[], 0, 0, 0));
                let Workspace {
                    residuals: values,
                    facts,
                    ..
                } = &mut workspace.blocks;
                let values = &mut values[..block_values];
                residuals::clear_beyond(values, self.model.outputs, rows.len());
                let RowFacts { norms, weights, .. } = &mut **facts;
                let recorded = RecordedBlock {
                    positions: rows.clone(),
                    margins: values,
                    norms,
                };
                weigh(&recorded, weights)?;
                weights[rows.len()..].fill(0.0);
                let of_part = &mut workspace.coefficients[part * block_values..][..block_values];
                if !coefficients(residuals, &rows, weights, of_part) {
                    let row = row_at(&self.batch.selection, start);
                    return Err(NonFiniteGradient { row }.into());
                }
            }
            if let Some(integer) = &mut workspace.blocks.integer {
                let (selection, coefficients) = (&self.batch.selection, &workspace.coefficients);
                let positions = block..block_end;
                integer.add_outer(self.model, bytes, selection, positions, coefficients, self.step, sum);
            }
        }
        finite(self.batch, sum)
    }

    /// Third phase of a reweighting: the sum of coefficients times rows.
    fn outer(
        &self,
        positions: &Range<usize>,
        pointers: &RowPointers,
        in_parts: bool,
        workspace: &mut RecordedWorkspace,
        ahead: &mut Ahead<'_>,
        sum: &mut [f64],
    ) {
        let Workspace {
            residuals: coefficients,
            partial,
            facts,
            ..
        } = &mut workspace.blocks;
        let (model, count) = (self.model, positions.len());
        if let Rows::Sparse(rows) = self.batch.rows {
            return sparse::add_gradient(rows, &facts.ids[..count], model, coefficients, sum);
        }
        if self.source.layout.vectors == 0 {
            return;
        }
        let sink = if in_parts {
            Sink::Partial(partial)
        } else {
            Sink::Sum {
                sum,
                width: model.features + usize::from(model.bias),
                features: model.features,
            }
        };
        // SAFETY: coefficients beyond the rows are 0, as weights and residuals are there.
        unsafe {
            self.source
                .gradient(pointers, count, coefficients, model.outputs, ahead, sink);
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
            let coefficient = lanes(weights, start) * lanes(recorded, start);
            poison = coefficient.mul_add(f32x16::ZERO, poison);
            put(values, start, coefficient);
        }
    }
    poison.simd_eq(f32x16::ZERO).all()
}

/// A dense row as f32: itself, or widened into `buffer`.
fn load<'a>(rows: Rows<'a>, row: usize, buffer: &'a mut [f32]) -> &'a [f32] {
    match rows {
        Rows::F32(dense) => &dense.values[row * dense.columns..(row + 1) * dense.columns],
        Rows::U8(dense) => {
            for (value, &byte) in buffer.iter_mut().zip(dense.row(row)) {
                *value = f32::from(byte) * dense.scale;
            }
            buffer
        }
        Rows::Sparse(_) => unreachable!("sparse rows are never widened"),
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

#[cfg(test)]
mod tests {
    use super::super::row_norms;
    use super::*;
    use crate::features::{F32Rows, NULL_CLASS, NULL_TARGET, SparseRows};
    use crate::loss::{Loss, Target};

    fn waves(count: usize, frequency: f64) -> Vec<f32> {
        (0..count).map(|i| (i as f64 * frequency).sin() as f32).collect()
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
            let bytes: Vec<u8> = (0..count * features)
                .map(|i| if i / features % 13 == 5 { 0 } else { (i * 37 % 11) as u8 })
                .collect();
            let values: Vec<f32> = bytes.iter().map(|&b| f32::from(b) * 0.25).collect();
            let mut offsets = vec![0];
            let (mut indices, mut stored) = (Vec::new(), Vec::new());
            for row in values.chunks_exact(features) {
                for (column, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                    indices.push(column as u32);
                    stored.push(value);
                }
                offsets.push(indices.len());
            }
            let loss = if outputs == 1 { Loss::Logistic } else { Loss::Softmax };
            let model = LinearModel {
                features,
                outputs,
                bias,
                loss,
            };
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
            let targets: Vec<f32> = (0..count).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
            let classes: Vec<u32> = (0..count).map(|i| (i % outputs) as u32).collect();
            let formats = [
                Rows::F32(F32Rows {
                    values: &values,
                    columns: features,
                }),
                Rows::U8(U8Rows::tight(&bytes, features, 0.25)),
                Rows::Sparse(SparseRows {
                    offsets: &offsets,
                    indices: &indices,
                    values: &stored,
                    columns: features,
                }),
            ];
            for rows in formats {
                let norms = row_norms(rows, bias, Norm::L2).unwrap();
                let batch = Batch {
                    rows,
                    targets: if outputs == 1 {
                        Targets::Values(&targets)
                    } else {
                        Targets::Classes(&classes)
                    },
                    norms: Some(&norms),
                    selection: Selection::Indices(&selected),
                };
                let shifts = Shifts {
                    normals: ByOutput::new(&normals, outputs).from(1),
                    radius,
                };
                let mut workspace = RecordedWorkspace::new(&model);
                let mut recorded = vec![0.0; used * outputs];
                let mut by_output: Vec<_> = recorded.chunks_exact_mut(used).collect();
                record(
                    &model,
                    &batch,
                    &parameters,
                    Some(shifts),
                    &mut by_output,
                    &mut workspace,
                )
                .unwrap();
                let recorded = ByOutput::new(&recorded, outputs);
                for full in [false, true] {
                    let remainder = full.then_some(Remainder {
                        squared_offset: squared_offset as f32,
                        normals: &rest,
                    });
                    let mut found_weights = vec![0.0; used];
                    let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                        block.likelihood_ratios(shifts, remainder, weights).unwrap();
                        found_weights[block.positions.clone()].copy_from_slice(&weights[..block.positions.len()]);
                        Ok::<(), NonFiniteGradient>(())
                    };
                    let reweighting = Reweighting {
                        offset: &offset,
                        residuals: recorded,
                        cap: None,
                    };
                    let mut sum = vec![0.0; model.parameters()];
                    accumulate_reweighted(&model, &batch, reweighting, &mut weigh, &mut sum, &mut workspace).unwrap();
                    let mut expected_sum = vec![0.0; model.parameters()];
                    for (position, &row) in selected.iter().enumerate() {
                        let row = row as usize;
                        let a: Vec<f64> = values[row * features..(row + 1) * features]
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
                            Target::Value(f64::from(targets[row]))
                        } else {
                            Target::Class(classes[row] as usize)
                        };
                        loss.residual(&mut residual, target);
                        let pairs: Vec<_> = (0..outputs).map(|k| (inner(&offset, k), normal(k))).collect();
                        let remainder = full.then(|| (squared_offset, f64::from(rest[position])));
                        let weight = exponent(&pairs, norm, f64::from(radius), remainder).exp();
                        let found = f64::from(found_weights[position]);
                        // What is left of ‖v‖² is off by rounding, its square root by more.
                        let tolerance = if full { 2e-3 } else { 2e-5 };
                        assert!(
                            (found / weight - 1.0).abs() < tolerance,
                            "{rows:?}: {found} for {weight}"
                        );
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
        let bytes: Vec<u8> = (0..count * features).map(|i| (i * 37 % 11) as u8).collect();
        let values: Vec<f32> = bytes.iter().map(|&b| f32::from(b) * 0.25).collect();
        let classes: Vec<u32> = (0..count).map(|i| (i % 3) as u32).collect();
        let model = LinearModel {
            features,
            outputs: 3,
            bias: true,
            loss: Loss::Softmax,
        };
        let answers = waves(3 * count, 0.37);
        let residuals = ByOutput::new(&answers, 3);
        let (zero, first) = (vec![0.0; model.parameters()], waves(model.parameters(), 0.71));
        let second: Vec<f32> = first.iter().map(|v| 0.5 * v).collect();
        let spread: Vec<u8> = bytes
            .chunks_exact(features)
            .flat_map(|row| row.iter().copied().chain([255; 61]))
            .collect();
        let tight = Rows::U8(U8Rows::tight(&bytes, features, 0.25));
        let formats = [
            tight,
            Rows::U8(U8Rows {
                values: &spread,
                columns: features,
                stride: features + 61,
                scale: 0.25,
            }),
            Rows::F32(F32Rows {
                values: &values,
                columns: features,
            }),
        ];
        let sum = |rows: Rows<'_>, used: Range<usize>, offset: &[f32], workspace: &mut RecordedWorkspace| {
            let norms = row_norms(rows, true, Norm::L2).unwrap();
            let batch = Batch {
                rows,
                targets: Targets::Classes(&classes),
                norms: Some(&norms),
                selection: Selection::Range(used),
            };
            let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                for (row, weight) in weights.iter_mut().enumerate().take(block.positions.len()) {
                    *weight = 1.0 + block.offset_margins(row).map(f32::abs).sum::<f32>();
                }
                Ok::<(), NonFiniteGradient>(())
            };
            let mut sum = vec![0.0; model.parameters()];
            let reweighting = Reweighting {
                offset,
                residuals,
                cap: None,
            };
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
                    if let Rows::U8(_) = rows {
                        let found_tight = sum(tight, used.clone(), offset, &mut RecordedWorkspace::new(&model));
                        assert_eq!(found, found_tight, "bytes between rows change nothing: {used:?}");
                    }
                    if *offset == zero {
                        for output in 0..3 {
                            for feature in 0..features {
                                let term = |(position, row): (usize, usize)| {
                                    let residual = residuals.of(output, position..position + 1)[0];
                                    f64::from(residual) * f64::from(values[row * features + feature])
                                };
                                let expected: f64 = used.clone().enumerate().map(term).sum();
                                let found = found[output * (features + 1) + feature];
                                assert!(
                                    (found - expected).abs() < 1e-3,
                                    "{rows:?}, {used:?}: {found} for {expected}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// Positions stay when a row becomes null, and with them the shifts of all others: what these answer and add does not
    /// change by a bit. Nor does it change with the weights beside them: integer tiles write coefficients in steps of the cap.
    #[test]
    fn what_a_recorded_row_adds_depends_on_no_other_row() {
        for (features, outputs, bias, used) in [
            (20, 1, true, 33),
            (67, 1, false, 129),
            (67, 3, true, 15),
            (67, 3, true, 33),
            (130, 11, false, 129),
            (64, 2, true, 520),
        ] {
            let bytes: Vec<u8> = (0..used * features).map(|i| (i * 37 % 101) as u8).collect();
            let values: Vec<f32> = bytes.iter().map(|&b| f32::from(b) / 64.0).collect();
            let indices: Vec<u32> = (0..used * features).map(|i| (i % features) as u32).collect();
            let offsets: Vec<usize> = (0..=used).map(|row| row * features).collect();
            let formats = [
                Rows::F32(F32Rows {
                    values: &values,
                    columns: features,
                }),
                Rows::U8(U8Rows::tight(&bytes, features, 1.0 / 64.0)),
                Rows::Sparse(SparseRows {
                    offsets: &offsets,
                    indices: &indices,
                    values: &values,
                    columns: features,
                }),
            ];
            let model = LinearModel {
                features,
                outputs,
                bias,
                loss: if outputs == 1 { Loss::Logistic } else { Loss::Softmax },
            };
            let (parameters, offset) = (waves(model.parameters(), 0.71), waves(model.parameters(), 1.13));
            let normals = waves(used * outputs, 2.9);
            let shifts = Shifts {
                normals: ByOutput::new(&normals, outputs),
                radius: 0.3,
            };
            let all_classes: Vec<u32> = (0..used).map(|i| (i % outputs) as u32).collect();
            let all_values: Vec<f32> = (0..used).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
            let is_null = |row: usize| row % 5 == 2;
            let with_nulls = |null: &dyn Fn(usize) -> bool| -> (Vec<u32>, Vec<f32>) {
                let classes = all_classes.iter().enumerate();
                let values = all_values.iter().enumerate();
                (
                    classes
                        .map(|(row, &y)| if null(row) { NULL_CLASS } else { y })
                        .collect(),
                    values
                        .map(|(row, &y)| if null(row) { NULL_TARGET } else { y })
                        .collect(),
                )
            };
            for (rows, tiles) in formats.into_iter().flat_map(|rows| [(rows, true), (rows, false)]) {
                let norms = row_norms(rows, bias, Norm::L2).unwrap();
                let mut workspace = RecordedWorkspace::summing_rows(&model, 1);
                if !tiles {
                    workspace.blocks = workspace.blocks.without_integer_tiles();
                }
                let mut answers = |(classes, reals): &(Vec<u32>, Vec<f32>)| {
                    let targets = match model.loss {
                        Loss::Softmax => Targets::Classes(classes),
                        _ => Targets::Values(reals),
                    };
                    let (norms, selection) = (Some(&norms), Selection::Range(0..used));
                    let batch = Batch {
                        rows,
                        targets,
                        norms,
                        selection,
                    };
                    let mut residuals = vec![0.0; used * outputs];
                    let mut by_output: Vec<_> = residuals.chunks_exact_mut(used).collect();
                    record(
                        &model,
                        &batch,
                        &parameters,
                        Some(shifts),
                        &mut by_output,
                        &mut workspace,
                    )
                    .unwrap();
                    residuals
                };
                let full = answers(&with_nulls(&|_| false));
                let some = answers(&with_nulls(&is_null));
                for (place, (&found, &kept)) in some.iter().zip(&full).enumerate() {
                    assert_eq!(found, if is_null(place % used) { 0.0 } else { kept });
                }
                for cap in [
                    None,
                    Some(Cap {
                        weight: 2.7,
                        clip_norm: 1.0,
                    }),
                ] {
                    let mut sum = |residuals: &[f32], rows_of_sum: Range<usize>| {
                        let first = rows_of_sum.start;
                        let residuals = ByOutput::new(residuals, outputs).from(first);
                        let batch = Batch {
                            rows,
                            targets: if outputs == 1 {
                                Targets::Values(&all_values)
                            } else {
                                Targets::Classes(&all_classes)
                            },
                            norms: Some(&norms),
                            selection: Selection::Range(rows_of_sum),
                        };
                        let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                            for (row, position) in block.positions.clone().enumerate() {
                                let margin = block.offset_margins(row).map(f32::abs).sum::<f32>();
                                let length: f32 = (0..outputs)
                                    .map(|k| residuals.of(k, position..position + 1)[0].powi(2))
                                    .sum();
                                let longest = 0.999 / (length.sqrt() * block.row_norm(row));
                                weights[row] = (margin / ((first + position) % 17 + 1) as f32).min(longest).min(2.7);
                            }
                            Ok::<(), NonFiniteGradient>(())
                        };
                        let reweighting = Reweighting {
                            offset: &offset,
                            residuals,
                            cap,
                        };
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
                    assert_eq!(sum(&full, 0..used), of_all, "{model:?} {cap:?} {tiles} {used}");
                    assert_eq!(sum(&some, 0..used), of_some, "{model:?} {cap:?} {tiles} {used}");
                }
            }
        }
    }

    /// One row `value` of one feature, its answer 1, reweighted at `offset`, ρ = 1, with one normal.
    fn reweighted(value: f32, offset: f32, normal: f32) -> (Result<(), f32>, Result<(), NonFiniteGradient>) {
        let model = LinearModel {
            features: 1,
            outputs: 1,
            bias: false,
            loss: Loss::Hinge,
        };
        let values = [1.0, value];
        let rows = Rows::F32(F32Rows {
            values: &values,
            columns: 1,
        });
        let norms = row_norms(rows, false, Norm::L2).unwrap();
        let batch = Batch {
            rows,
            targets: Targets::Values(&[1.0; 2]),
            norms: Some(&norms),
            selection: Selection::Range(1..2),
        };
        let (normals, mut ratios) = ([normal], Ok(()));
        let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
            let shifts = Shifts {
                normals: ByOutput::new(&normals, 1),
                radius: 1.0,
            };
            ratios = block.likelihood_ratios(shifts, None, weights);
            Ok(())
        };
        let mut workspace = RecordedWorkspace::new(&model);
        let (answers, mut sum) = ([1e30], [0.0]);
        let outcome = accumulate_reweighted(
            &model,
            &batch,
            Reweighting {
                offset: &[offset],
                residuals: ByOutput::new(&answers, 1),
                cap: None,
            },
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
        let model = LinearModel {
            features: 3,
            outputs: 1,
            bias: false,
            loss: Loss::Logistic,
        };
        for count in [5, 40] {
            let mut values = vec![0.5; 3 * count];
            values[3 * 4 + 1] = f32::NAN;
            let targets = vec![1.0; count];
            let batch = Batch {
                rows: Rows::F32(F32Rows {
                    values: &values,
                    columns: 3,
                }),
                targets: Targets::Values(&targets),
                norms: None,
                selection: Selection::Range(1..count),
            };
            let mut residuals = vec![0.0; count - 1];
            let mut workspace = RecordedWorkspace::new(&model);
            let outcome = record(
                &model,
                &batch,
                &[0.1; 3],
                None,
                &mut [&mut residuals[..]],
                &mut workspace,
            );
            assert_eq!(outcome, Err(NonFiniteGradient { row: 4 }));
        }
    }
}

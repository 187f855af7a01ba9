//! The block loop of all kernels: margins of a part of a block, coefficients, and their sum with the rows.
//!
//! [`Kernel::select`] chooses the kernels of a batch. [`Pass`] walks through its rows. [`sum_blocks`] is the loop of every
//! sum but those of integers.

use super::dense::{self, Prefetch, ROW_GROUP, RowPointers, Sink};
use super::integer::IntegerRows;
use super::residuals::{self, BlockRows};
use super::source::Source;
use super::workspace::{BlockSizes, Workspace};
use super::{
    BLOCK_ROWS, Batch, Clip, Evaluation, LinearModel, NonFiniteGradient, PackedQuery, Query, SumLattice, Tally, check,
    check_batch, integer, lattice, narrow, norms_for, reference, sparse,
};
use crate::features::{Norm, Rows, Selection, SparseRows, Targets, U8Rows};
use std::ops::Range;
use wide::f32x16;

/// The kernels that read the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<'a> {
    /// Rows of bytes as integers, for which the weights were packed in digits.
    Integers(U8Rows<'a>),
    /// Sparse rows, entry by entry.
    Sparse(SparseRows<'a>),
    /// Dense rows in groups, for which the weights were packed in vectors.
    Dense,
    /// Dense rows one after the other: fewer than packing pays for.
    Few,
}

impl<'a> Kernel<'a> {
    /// Integers if the weights were packed for them, else by format and number of rows.
    pub(super) fn select(rows: Rows<'a>, in_integers: bool, few: bool) -> Self {
        match rows {
            Rows::U8(bytes) if in_integers => Kernel::Integers(bytes),
            Rows::Sparse(sparse) => Kernel::Sparse(sparse),
            _ if few => Kernel::Few,
            _ => Kernel::Dense,
        }
    }
}

/// A pass over the rows of a batch, part by part of at most 128 rows.
pub(super) struct Pass<'b, 'a> {
    pub(super) model: &'b LinearModel,
    pub(super) batch: &'b Batch<'a>,
    /// The parameters of the margins; `None` for parameters of 0.
    pub(super) current: Option<&'b [f32]>,
    /// The parameters of the other margins, if any.
    pub(super) previous: Option<&'b [f32]>,
    pub(super) norms: Option<&'a [f32]>,
    /// Targets, where residuals are needed.
    pub(super) targets: Option<Targets<'a>>,
    pub(super) source: Source<'a>,
    pub(super) kernel: Kernel<'a>,
    /// Rows whose margins are computed before their gradients.
    pub(super) part: usize,
    /// Steps of the loops over such rows for [`Prefetch`].
    steps: usize,
}

impl<'b, 'a> Pass<'b, 'a> {
    /// A pass that computes margins at the given parameters and, if `sums`, gradients.
    pub(super) fn new(
        (model, batch): (&'b LinearModel, &'b Batch<'a>),
        (current, previous): (Option<&'b [f32]>, Option<&'b [f32]>),
        (targets, norms): (Option<Targets<'a>>, Option<&'a [f32]>),
        kernel: Kernel<'a>,
        blocks: BlockSizes,
        sums: bool,
    ) -> Self {
        let source = Source::new(batch.rows, model);
        let part = match kernel {
            Kernel::Integers(_) => BLOCK_ROWS,
            _ => source.part(blocks),
        };
        let mut pass = Pass { model, batch, current, previous, norms, targets, source, kernel, part, steps: 0 };
        let of_sides = |sides| dense::steps(model.outputs, source.layout, part, sides);
        pass.steps = of_sides(pass.sides()) - if sums { 0 } else { of_sides(0) };
        pass
    }

    /// Points at which margins are computed: there are previous parameters only beside current ones.
    fn sides(&self) -> usize {
        usize::from(self.current.is_some()) + usize::from(self.previous.is_some())
    }

    /// The ranges of positions of the parts from `start` to `end`.
    pub(super) fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let part = self.part;
        (start..end).step_by(part).map(move |start| start..(start + part).min(end))
    }

    /// Gathers targets and norms of the rows at `positions`, and computes their margins at `[k·128 + i]` of the workspace's
    /// residuals, those of the previous parameters at `others`. Prefetches the next rows meanwhile. Returns the addresses
    /// of dense rows.
    pub(super) fn margins<'s>(
        &self,
        positions: &Range<usize>,
        starts: &'s mut [*const u8; BLOCK_ROWS],
        workspace: &mut Workspace,
    ) -> (RowPointers, Prefetch<'s>) {
        let Workspace {
            current: packed,
            previous: packed_previous,
            residuals: margins,
            others,
            rows: scratch,
            row: buffer,
            block_rows,
            integer,
            packed: digits,
            ..
        } = workspace;
        let (model, selection, count) = (self.model, &self.batch.selection, positions.len());
        block_rows.gather(selection, positions.clone(), self.targets, self.norms, model.outputs);
        let ids = &block_rows.ids[..count];
        let mut prefetch = Prefetch::nothing();
        let nowhere = [std::ptr::null(); BLOCK_ROWS];
        if self.current.is_none() {
            margins[..model.outputs * BLOCK_ROWS].fill(0.0);
        }
        let cold = positions.start == 0 && self.source.is_scattered(selection);
        if matches!(self.kernel, Kernel::Dense | Kernel::Few) {
            let next = positions.end..(positions.end + self.part).min(selection.len());
            let next = self.source.starts(selection, next, starts);
            prefetch = Prefetch::rows(next, self.source.row_bytes(), self.source.layout.vectors, self.steps);
        }
        let pointers = match self.kernel {
            Kernel::Sparse(rows) => {
                for (parameters, margins) in [(self.current, margins), (self.previous, others)] {
                    if let Some(parameters) = parameters {
                        sparse::margins(rows, ids, model, parameters, margins);
                    }
                }
                nowhere
            }
            Kernel::Integers(rows) => {
                match (self.current, integer, digits) {
                    (Some(_), Some(integer), Some(digits)) => {
                        integer.margins(digits, rows, selection, positions.clone(), margins);
                    }
                    _ => self.source.prefetch(ids),
                }
                nowhere
            }
            Kernel::Dense => {
                let mut sides = [(&*packed, &mut margins[..]), (&*packed_previous, &mut others[..])];
                self.source.margins(ids, scratch, &mut sides[..self.sides()], cold, &mut prefetch)
            }
            Kernel::Few => {
                if let Some(parameters) = self.current {
                    dense::margins_of_few(self.batch.rows, ids, model, parameters, buffer, margins);
                }
                let mut pointers = nowhere;
                for first in (0..count).step_by(ROW_GROUP) {
                    let group = first..(first + ROW_GROUP).min(count);
                    self.source.place(ids, group, scratch, &mut pointers);
                }
                pointers
            }
        };
        (pointers, prefetch)
    }
}

/// `sum += Σ_i q_i ⊗ a_i` over the rows from position `first` on, in f32 within blocks and f64 across them; with a lattice
/// `sum += Σ_i ρ_i ⊗ a_i` in its units, exactly. `coefficients(positions, block_rows, margins, others)` turns the margins of a part
/// into q or ρ.
///
/// # Errors
/// The first error of `coefficients`.
pub(super) fn sum_blocks<E>(
    (pass, lattice): (&Pass<'_, '_>, Option<&SumLattice>),
    first: usize,
    sum: &mut [f64],
    workspace: &mut Workspace,
    mut coefficients: impl FnMut(&Range<usize>, &mut BlockRows, &mut [f32], &mut [f32]) -> Result<(), E>,
) -> Result<(), E> {
    let (model, source, layout) = (pass.model, &pass.source, pass.source.layout);
    let (outputs, width) = (model.outputs, model.width());
    let (total, block_size) = (pass.batch.selection.len(), workspace.blocks.block);
    for block in (first..total).step_by(block_size) {
        let block_end = (block + block_size).min(total);
        // With one output, parts of a block stay in first-level cache and share a partial sum.
        let in_parts = outputs == 1 && block_end - block > pass.part && lattice.is_none();
        if in_parts {
            workspace.partial.fill(f32x16::ZERO);
        }
        for rows in pass.parts(block, block_end) {
            let count = rows.len();
            let mut starts = [std::ptr::null(); BLOCK_ROWS];
            let (pointers, mut prefetch) = pass.margins(&rows, &mut starts, workspace);
            let Workspace { residuals: values, others, partial, block_rows, .. } = &mut *workspace;
            coefficients(&rows, block_rows, values, others)?;
            if model.bias {
                for (output, values) in values.chunks_exact(BLOCK_ROWS).take(outputs).enumerate() {
                    sum[output * width + model.features] += match lattice {
                        None => f64::from(residuals::total(values, count)),
                        Some(lattice) => lattice.bias_of(values, count),
                    };
                }
            }
            if let Kernel::Sparse(rows) = pass.kernel {
                let factor = lattice.map_or(1.0, |lattice| 1.0 / lattice.scale);
                sparse::add_gradient(rows, &block_rows.ids[..count], model, (values, factor), sum);
                continue;
            }
            if layout.vectors == 0 {
                continue;
            }
            if let Some(lattice) = lattice {
                // SAFETY: the pointers are those of this part.
                unsafe {
                    lattice::add_gradient(source, (&pointers, count), lattice, values, sum, (model.features, width));
                }
                continue;
            }
            residuals::scale(source.scale, values, outputs, count);
            let sink = if in_parts {
                Sink::Partial(partial)
            } else {
                Sink::Sum { sum: &mut *sum, width, features: model.features }
            };
            // SAFETY: the coefficients beyond the rows are 0, as `coefficients` promises.
            unsafe { source.gradient(&pointers, count, values, outputs, &mut prefetch, sink) };
        }
        if in_parts {
            dense::add_partial(&workspace.partial, layout, &mut sum[..model.features]);
        }
    }
    Ok(())
}

/// Calls `work(positions, block_rows, margins)` for each part of a pass that sums nothing.
///
/// # Errors
/// The first error of `work`.
pub(super) fn for_each_part(
    pass: &Pass<'_, '_>,
    workspace: &mut Workspace,
    mut work: impl FnMut(Range<usize>, &BlockRows, &mut [f32]) -> Result<(), NonFiniteGradient>,
) -> Result<(), NonFiniteGradient> {
    for rows in pass.parts(0, pass.batch.selection.len()) {
        let mut starts = [std::ptr::null(); BLOCK_ROWS];
        pass.margins(&rows, &mut starts, workspace);
        work(rows, &workspace.block_rows, &mut workspace.residuals)?;
    }
    Ok(())
}

/// [`super::accumulate_differences`].
pub(super) fn accumulate(
    model: &LinearModel,
    batch: &Batch<'_>,
    query: &Query<'_>,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    check(model, batch, query.current.parameters);
    assert_eq!(sum.len(), model.parameters(), "length of the sum (left) and parameters of the model (right)");
    if let Some(previous) = &query.previous {
        check(model, batch, previous.parameters);
    }
    let norms = norms_for(query.clip, batch);
    if let (None, Some(integer), Some(packed), Some(rows)) =
        (query.lattice, &mut workspace.integer, &mut workspace.packed, IntegerRows::of(batch.rows))
        && let Some(lattice) = SumLattice::new(model, rows.grid(), query.weight(), query.clip, batch.selection.len())
        && packed.pack(model, query, lattice)
    {
        let unit = lattice.unit();
        let Workspace { residuals, others, block_rows, .. } = workspace;
        let facts = (batch, rows, norms);
        return integer::accumulate((model, packed), facts, integer, (residuals, others, block_rows), (sum, unit));
    }
    let (current, previous) = (query.current.parameters, query.previous.map(|point| point.parameters));
    let kernel = Kernel::select(batch.rows, false, false);
    let pass = Pass::new(
        (model, batch),
        (Some(current), previous),
        (Some(batch.targets), norms),
        kernel,
        workspace.blocks,
        true,
    );
    let layout = pass.source.layout;
    if let Kernel::Dense = kernel {
        workspace.current.pack(model, layout, current);
        if let Some(previous) = previous {
            workspace.previous.pack(model, layout, previous);
        }
    }
    let mut tally = Tally::default();
    // The general kernels sum the rows that the narrow ones leave.
    let lattice = query.lattice.as_ref();
    if previous.is_none() && query.current.coefficient == 1.0 && lattice.is_none() {
        tally = narrow::accumulate_front(model, batch, norms, query.clip, layout, &workspace.current, sum);
    }
    sum_blocks((&pass, lattice), tally.rows, sum, workspace, |rows, block_rows, margins, others| {
        coefficients(model, query, rows.len(), block_rows, margins, others, &mut tally)
    })?;
    if query.clip == Clip::Unbounded && sum.iter().any(|value| !value.is_finite()) {
        return Err(NonFiniteGradient { row: longest_gradient(model, batch, query) });
    }
    Ok(tally)
}

/// [`super::accumulate_on_lattice`] of a query that [`super::pack`] packed, with integer instructions; a unit of the lattice adds `worth`, 1
/// for integers.
///
/// # Errors
/// As [`super::accumulate_gradients`].
///
/// # Panics
/// As [`super::accumulate_gradients`], without a packed query, and on rows of another format.
pub fn accumulate_packed(
    model: &LinearModel,
    batch: &Batch<'_>,
    packed: &PackedQuery,
    (sum, worth): (&mut [f64], f64),
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    assert_eq!(sum.len(), model.parameters(), "length of the sum (left) and parameters of the model (right)");
    check_batch(model, batch);
    let Workspace { integer: Some(integer), residuals, others, block_rows, .. } = workspace else {
        panic!("a packed query needs a workspace with integers");
    };
    let Some(rows) = IntegerRows::of(batch.rows) else {
        panic!("a packed query needs rows of bytes or planes");
    };
    let facts = (batch, rows, norms_for(packed.lattice().clip(), batch));
    integer::accumulate((model, packed), facts, integer, (residuals, others, block_rows), (sum, worth))
}

/// Loss and accuracy of a batch at `parameters`, null rows left out. Softmax predicts the first class of largest margin; the logistic and
/// hinge losses predict +1 where the margin is at least 0.
///
/// # Errors
/// As [`super::accumulate_gradients`].
///
/// # Panics
/// As [`super::accumulate_gradients`].
pub fn evaluate(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    workspace: &mut Workspace,
) -> Result<Evaluation, NonFiniteGradient> {
    check(model, batch, parameters);
    let in_integers = if let Rows::U8(bytes) = batch.rows
        && batch.selection.len() >= integer::LEAST_ROWS
        && let (Some(_), Some(packed)) = (&workspace.integer, &mut workspace.packed)
    {
        packed.pack_margins(model, bytes.scale, parameters)
    } else {
        false
    };
    let pass = Pass::new(
        (model, batch),
        (Some(parameters), None),
        (Some(batch.targets), None),
        Kernel::select(batch.rows, in_integers, false),
        workspace.blocks,
        false,
    );
    if let Kernel::Dense = pass.kernel {
        workspace.current.pack(model, pass.source.layout, parameters);
    }
    let mut evaluation = Evaluation::default();
    for_each_part(&pass, workspace, |rows, block_rows, margins| {
        let of_part = residuals::values(model.loss, model.outputs, rows.len(), block_rows, margins)?;
        evaluation.loss += of_part.loss;
        evaluation.correct += of_part.correct;
        evaluation.rows += of_part.rows;
        Ok(())
    })?;
    Ok(evaluation)
}

/// From margins to coefficients of the `count` rows that were gathered. `margins[k·128 + i]` are those of the
/// current point and become `clip factor · (a·r_ki − b·r′_ki)`, on a lattice in integers, zeros behind them up to a whole vector;
/// `others` are those of the previous point, if there is one.
///
/// # Errors
/// As [`accumulate_gradients`].
pub(super) fn coefficients(
    model: &LinearModel,
    query: &Query<'_>,
    count: usize,
    block_rows: &BlockRows,
    margins: &mut [f32],
    others: &mut [f32],
    tally: &mut Tally,
) -> Result<(), NonFiniteGradient> {
    let outputs = model.outputs;
    residuals::combined(query.coefficients(), (model.loss, outputs), count, block_rows, margins, others)?;
    if let Some(lattice) = &query.lattice {
        tally.rows += count;
        tally.clipped += lattice.round(&block_rows.norms, &mut margins[..outputs * BLOCK_ROWS], count);
        return Ok(());
    }
    residuals::clip(query.clip, outputs, count, block_rows, margins, tally)?;
    residuals::clear_beyond(margins, outputs, count);
    Ok(())
}

/// The row with the longest gradient: the one to name when a sum of finite gradients overflows f32.
#[cold]
fn longest_gradient(model: &LinearModel, batch: &Batch<'_>, query: &Query<'_>) -> usize {
    let length = |row: usize| {
        let single = Batch { selection: Selection::Range(row..row + 1), ..batch.clone() };
        let gradient = reference::sum_of_differences(model, &single, query.current, query.previous, Clip::Unbounded);
        reference::norm(&gradient, Norm::L2)
    };
    batch.selection.rows().max_by(|&i, &j| length(i).total_cmp(&length(j))).unwrap_or(0)
}

//! The block loop of all kernels: margins of a part of a block, coefficients, and their sum with the rows.
//!
//! [`Kernel::select`] chooses the kernels of a batch. [`Pass`] walks through its rows. [`sum_blocks`] is the loop of every
//! sum but those whose margins and gradients are both integers, [`integer::accumulate`].

use super::clipping::norms_for;
use super::dense::{self, Prefetch, ROW_GROUP, RowPointers, Sink};
use super::integer::PackedQuery;
use super::integer::{self, IntegerRows, MarginSpace, PackedSum};
use super::lattice::{Precision, SumLattice};
use super::model::{
    Batch, Clip, Evaluation, LinearModel, NonFiniteGradient, Point, Tally, check, check_batch, check_parameters,
};
use super::query::Query;
use super::residuals::{self, BlockRows};
use super::selection::{Kernel, Purpose};
use super::source::{BlockSizes, Source};
use super::unit_rows::{self, UnitRows};
use super::units::{self, Next, UnitSums};
use super::workspace::Workspace;
use super::{lattice, narrow, sparse};
use crate::features::BLOCK_ROWS;
use crate::features::{Selection, Targets};
use std::ops::Range;
use wide::f32x16;

/// The needs of a pass beside its rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs<'b, 'a> {
    /// The parameters of the margins; `None` for parameters of 0.
    pub(super) current: Option<&'b [f32]>,
    /// The parameters of the other margins, if any.
    pub(super) previous: Option<&'b [f32]>,
    /// Targets, where residuals are needed.
    pub(super) targets: Option<Targets<'a>>,
    pub(super) norms: Option<&'a [f32]>,
    /// True if gradients are summed.
    pub(super) sums: bool,
}

/// A pass over the rows of a batch, part by part of at most 128 rows.
pub(super) struct Pass<'b, 'a> {
    model: &'b LinearModel,
    batch: &'b Batch<'a>,
    needs: Needs<'b, 'a>,
    pub(super) source: Source<'a>,
    pub(super) kernel: Kernel<'a>,
    /// Rows whose margins are computed before their gradients.
    part: usize,
    /// Steps of the loops over such rows for [`Prefetch`].
    steps: usize,
}

impl<'b, 'a> Pass<'b, 'a> {
    /// A pass that computes margins at the given parameters and, if `needs.sums`, gradients.
    pub(super) fn new(
        model: &'b LinearModel,
        batch: &'b Batch<'a>,
        needs: Needs<'b, 'a>,
        kernel: Kernel<'a>,
        blocks: BlockSizes,
    ) -> Self {
        let source = Source::new(batch.rows, model);
        let part = match kernel {
            Kernel::Integers(_) => BLOCK_ROWS,
            _ => source.part(blocks),
        };
        let mut pass = Pass { model, batch, needs, source, kernel, part, steps: 0 };
        let of_sides = |sides| dense::steps(model.outputs, source.layout, part, sides);
        pass.steps = of_sides(pass.sides()) - if needs.sums { 0 } else { of_sides(0) };
        pass
    }

    /// Points at which margins are computed: there are previous parameters only beside current ones.
    fn sides(&self) -> usize {
        usize::from(self.needs.current.is_some()) + usize::from(self.needs.previous.is_some())
    }

    /// The ranges of positions of the parts from `start` to `end`.
    fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let part = self.part;
        (start..end).step_by(part).map(move |start| start..(start + part).min(end))
    }

    /// Gathers targets and norms of the rows at `positions`, and computes their margins at `[k·128 + i]` of the workspace's
    /// residuals, those of the previous parameters at `others`. Prefetches the next rows meanwhile. Returns the addresses
    /// of dense rows.
    fn margins<'s>(
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
        block_rows.gather(selection, positions.clone(), self.needs.targets, self.needs.norms, model.outputs);
        let ids = &block_rows.ids[..count];
        let mut prefetch = Prefetch::nothing();
        let nowhere = [std::ptr::null(); BLOCK_ROWS];
        if self.needs.current.is_none() {
            margins[..model.outputs * BLOCK_ROWS].fill(0.0);
        }
        let cold = positions.start == 0 && self.source.is_scattered(selection);
        if matches!(self.kernel, Kernel::Narrow | Kernel::Dense | Kernel::Few) {
            let next = positions.end..(positions.end + self.part).min(selection.len());
            let next = self.source.starts(selection, next, starts);
            prefetch = Prefetch::rows(next, self.source.row_bytes(), self.source.layout.vectors, self.steps);
        }
        let pointers = match self.kernel {
            Kernel::Sparse(rows) => {
                for (parameters, margins) in [(self.needs.current, margins), (self.needs.previous, others)] {
                    if let Some(parameters) = parameters {
                        sparse::margins(rows, ids, model, parameters, margins);
                    }
                }
                nowhere
            }
            Kernel::Integers(rows) => {
                match (self.needs.current, integer, digits) {
                    (Some(_), Some(integer), Some(digits)) => {
                        integer.margins(digits, rows, selection, positions.clone(), margins);
                    }
                    _ => self.source.prefetch(ids),
                }
                nowhere
            }
            Kernel::Narrow | Kernel::Dense => {
                let mut sides = [(&*packed, &mut margins[..]), (&*packed_previous, &mut others[..])];
                self.source.margins(ids, scratch, &mut sides[..self.sides()], cold, &mut prefetch)
            }
            Kernel::Few => {
                if let Some(parameters) = self.needs.current {
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
/// The first error of `coefficients`; coefficients that no integers stand for.
pub(super) fn sum_blocks<E: From<NonFiniteGradient>>(
    (pass, lattice): (&Pass<'_, '_>, Option<&SumLattice>),
    first: usize,
    sum: &mut [f64],
    workspace: &mut Workspace,
    mut coefficients: impl FnMut(&Range<usize>, &mut BlockRows, &mut [f32], &mut [f32]) -> Result<(), E>,
) -> Result<(), E> {
    let (model, source, layout) = (pass.model, &pass.source, pass.source.layout);
    let (outputs, width) = (model.outputs, model.width());
    let in_integers = matches!(pass.kernel, Kernel::Integers(_));
    let block_size = if in_integers { BLOCK_ROWS } else { workspace.blocks.block };
    let total = pass.batch.selection.len();
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
            if let Kernel::Integers(integers) = pass.kernel {
                if !add_integers(pass, (integers, rows.clone()), lattice, sum, workspace) {
                    return Err(NonFiniteGradient { row: pass.batch.selection.row(rows.start) }.into());
                }
                continue;
            }
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

/// [`sum_blocks`] of a part in integers. Without a lattice that of the part follows from its greatest coefficient, and nothing is promised about
/// neighbours. Returns whether there is one.
fn add_integers(
    pass: &Pass<'_, '_>,
    (integers, rows): (IntegerRows<'_>, Range<usize>),
    exact: Option<&SumLattice>,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> bool {
    let Workspace { integer, block_rows, residuals: values, .. } = workspace;
    let values = &mut values[..pass.model.outputs * BLOCK_ROWS];
    let lattice = exact.copied().or_else(|| {
        let of_rows = values.chunks_exact(BLOCK_ROWS).flat_map(|values| &values[..rows.len()]);
        let greatest = of_rows.fold(0.0_f32, |greatest, value| greatest.max(value.abs()));
        SumLattice::new(pass.model, (integers.grid(), Precision::Bits24), greatest, Clip::Unbounded, 0)
    });
    let (Some(lattice), Some(integer)) = (lattice, integer) else {
        return false;
    };
    let worth = exact.map_or_else(|| lattice.unit(), |_| 1.0);
    let facts = (integers, &pass.batch.selection, rows);
    integer.add_outer((pass.model, &lattice), facts, &block_rows.norms, values, (sum, worth));
    true
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

/// `sum += Σ_i clip(∇f(x; d_i))`, f32 inside blocks of at most 128 rows, f64 across blocks. Null rows add exactly 0.
///
/// # Errors
/// A row whose gradient is not finite; `sum` is then unspecified.
///
/// # Panics
/// Shapes that do not fit the model, rows or classes out of range, a clip norm outside
/// [[`MINIMUM_CLIP_NORM`], [`MAXIMUM_CLIP_NORM`]], or a bounded clip without norms of its kind.
pub fn accumulate_gradients(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    accumulate_differences(model, batch, (Point::at(parameters), None), clip, sum, workspace)
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference, rows read once; without a second point, or with b = 0,
/// `Σ_i clip(a·∇f(x; d_i))`.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_differences(
    model: &LinearModel,
    batch: &Batch<'_>,
    points: (Point<'_>, Option<Point<'_>>),
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    accumulate(model, batch, &Query::new(points, clip), sum, workspace)
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, or without a second point `Σ_i clip(a·∇f(x; d_i))`, in units of `lattice` and with
/// its clip: integers, exact whatever the order and the split of a batch, as long as they are below 2⁵³.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_on_lattice(
    model: &LinearModel,
    batch: &Batch<'_>,
    points: (Point<'_>, Option<Point<'_>>),
    lattice: &SumLattice,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let query = Query { lattice: Some(*lattice), ..Query::new(points, lattice.clip()) };
    accumulate(model, batch, &query, sum, workspace)
}

/// Packs `a·∇f(x; d_i) − b·∇f(x′; d_i)`, or without a second point `a·∇f(x; d_i)`, for [`accumulate_packed`] on rows of bytes or
/// planes that are multiples of the lattice's step: once for all parts of a batch. Returns false, by the parameters alone, where these are too
/// large.
///
/// # Panics
/// A workspace of another model.
pub fn pack(
    model: &LinearModel,
    points: (Point<'_>, Option<Point<'_>>),
    lattice: &SumLattice,
    packed: &mut PackedQuery,
) -> bool {
    for point in std::iter::once(&points.0).chain(&points.1) {
        check_parameters(model, point.parameters);
    }
    packed.pack(model, &Query::new(points, lattice.clip()), *lattice)
}

/// The sum of a query.
fn accumulate(
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
    let purpose = match (&query.lattice, query.coefficients()) {
        (Some(_), _) => Purpose::ExactSum,
        (None, (1.0, None)) => Purpose::Gradients,
        _ => Purpose::Differences,
    };
    let kernel = Kernel::select(model, batch, purpose, |rows| {
        let Some((_, packed, ..)) = workspace.integers() else {
            return false;
        };
        let lattice =
            SumLattice::new(model, (rows.grid(), Precision::Bits24), query.weight(), query.clip, batch.selection.len());
        lattice.is_some_and(|lattice| packed.pack(model, query, lattice))
    });
    if let (Kernel::Integers(rows), Some((scratch, packed, space, units))) = (kernel, workspace.integers()) {
        let unit = packed.lattice().unit();
        let facts = PackedSum { model, query: packed, batch, rows, norms };
        return integer_sum(&facts, scratch, space, units, (sum, unit));
    }
    let (current, previous) = (query.current.parameters, query.previous.map(|point| point.parameters));
    let needs = Needs { current: Some(current), previous, targets: Some(batch.targets), norms, sums: true };
    let pass = Pass::new(model, batch, needs, kernel, workspace.blocks);
    let layout = pass.source.layout;
    if let Kernel::Dense | Kernel::Narrow = kernel {
        workspace.current.pack(model, layout, current);
        if let Some(previous) = previous {
            workspace.previous.pack(model, layout, previous);
        }
    }
    if let Some(units) = batch.units {
        return accumulate_units((model, batch, query), (needs, kernel, units), sum, workspace);
    }
    let mut tally = Tally::default();
    // The general kernels sum the rows that the narrow ones leave.
    let lattice = query.lattice.as_ref();
    if let Kernel::Narrow = kernel {
        tally = narrow::accumulate_front(model, batch, norms, query.clip, layout, &workspace.current, sum);
    }
    sum_blocks((&pass, lattice), tally.rows, sum, workspace, |rows, block_rows, margins, others| {
        coefficients(model, query, rows.len(), block_rows, margins, others, &mut tally)
    })?;
    if query.clip == Clip::Unbounded && sum.iter().any(|value| !value.is_finite()) {
        return Err(NonFiniteGradient { row: longest_gradient(model, batch, query, workspace) });
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
    let Some((scratch, _, space, units)) = workspace.integers() else {
        panic!("a packed query needs a workspace with integers");
    };
    let Some(rows) = IntegerRows::of(batch.rows) else {
        panic!("a packed query needs rows of bytes or planes");
    };
    let norms = norms_for(packed.lattice().clip(), batch);
    integer_sum(&PackedSum { model, query: packed, batch, rows, norms }, scratch, space, units, (sum, worth))
}

/// A sum in integers, over units where the batch has them.
fn integer_sum(
    facts: &PackedSum<'_>,
    scratch: &mut integer::Scratch,
    space: MarginSpace<'_>,
    units: &mut units::Scratch,
    sum: (&mut [f64], f64),
) -> Result<Tally, NonFiniteGradient> {
    match facts.batch.units {
        None => integer::accumulate(facts, scratch, space, sum),
        Some(of_batch) => integer::accumulate_units(facts, scratch, space, (of_batch, units), sum),
    }
}

/// The sum of a query over the units of a batch, whose parameters are packed for `kernel`.
///
/// # Errors
/// As [`accumulate_gradients`].
fn accumulate_units(
    (model, batch, query): (&LinearModel, &Batch<'_>, &Query<'_>),
    (needs, kernel, of_batch): (Needs<'_, '_>, Kernel<'_>, UnitRows<'_>),
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let mut own = std::mem::take(&mut *workspace.units);
    own.prepare(model.outputs, model.parameters());
    let lattice = query.lattice.as_ref();
    let sums = UnitSums::new(of_batch, lattice, query.clip, model.outputs);
    // Rows that a pass takes at once.
    let most = Pass::new(model, batch, needs, kernel, workspace.blocks).part.min(unit_rows::MOST_ROWS);
    let (mut tally, mut position) = (Tally::default(), 0);
    let mut summed = || loop {
        match sums.next(&batch.selection, &mut position, (most, most), &mut own) {
            Next::End => return Ok(()),
            Next::Members => {
                tally.rows += own.members.len();
                let units::Scratch { rows, members, blocks, .. } = &mut own;
                let chunk = batch.of_rows(Selection::Indices(rows));
                let pass = Pass::new(model, &chunk, needs, kernel, workspace.blocks);
                sum_blocks((&pass, lattice), 0, sum, workspace, |rows, block_rows, margins, others| {
                    residuals::combined(
                        query.coefficients(),
                        (model.loss, model.outputs),
                        rows.len(),
                        block_rows,
                        margins,
                        others,
                    )?;
                    let mut outcome = Ok(());
                    let clip_rows = |values: &mut [f32]| {
                        let mut tally = Tally::default();
                        outcome = clip_rows(model, query, rows.len(), block_rows, values, &mut tally);
                        tally.clipped
                    };
                    tally.clipped += sums.contribute((rows.start, members), margins, blocks, clip_rows);
                    outcome
                })?;
            }
            Next::Whole(rows) => {
                tally.rows += 1;
                own.whole.fill(0.0);
                let unit = batch.of_rows(Selection::Range(rows.clone()));
                let pass = Pass::new(model, &unit, needs, kernel, workspace.blocks);
                sum_blocks((&pass, lattice), 0, &mut own.whole, workspace, |rows, block_rows, margins, others| {
                    residuals::combined(
                        query.coefficients(),
                        (model.loss, model.outputs),
                        rows.len(),
                        block_rows,
                        margins,
                        others,
                    )?;
                    sums.unclipped(margins, rows.len());
                    Ok::<_, NonFiniteGradient>(())
                })?;
                tally.clipped +=
                    usize::from(sums.add_whole(sums.weight_of_whole(rows.len()), &own.whole, (&mut *sum, 1.0)));
            }
        }
    };
    let outcome = summed();
    *workspace.units = own;
    outcome.map(|()| tally)
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
    let kernel = Kernel::select(model, batch, Purpose::Evaluation, |rows| {
        workspace.integers().is_some_and(|(_, packed, ..)| packed.pack_margins(model, rows.grid(), parameters))
    });
    let needs = Needs { current: Some(parameters), targets: Some(batch.targets), ..Needs::default() };
    let pass = Pass::new(model, batch, needs, kernel, workspace.blocks);
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
    residuals::combined(query.coefficients(), (model.loss, model.outputs), count, block_rows, margins, others)?;
    clip_rows(model, query, count, block_rows, margins, tally)
}

/// Clips the coefficients of rows that were gathered, on a lattice to integers, and puts zeros behind them up to a whole vector.
fn clip_rows(
    model: &LinearModel,
    query: &Query<'_>,
    count: usize,
    block_rows: &BlockRows,
    margins: &mut [f32],
    tally: &mut Tally,
) -> Result<(), NonFiniteGradient> {
    let outputs = model.outputs;
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
fn longest_gradient(model: &LinearModel, batch: &Batch<'_>, query: &Query<'_>, workspace: &mut Workspace) -> usize {
    let mut longest = (0.0, batch.selection.row(0));
    // A row that overflows alone is reported by itself.
    for row in batch.selection.rows().filter(|_| batch.selection.len() > 1) {
        let single = Batch { selection: Selection::Range(row..row + 1), ..batch.clone() };
        let mut gradient = vec![0.0; model.parameters()];
        let found = accumulate(model, &single, query, &mut gradient, workspace);
        let length = found.map_or(f64::INFINITY, |_| gradient.iter().map(|value| value * value).sum());
        if length > longest.0 {
            longest = (length, row);
        }
    }
    longest.1
}

//! Fused gradients of linear models: margins, residuals, closed-form per-example norms, clip factors and the sum of
//! clipped gradients in one pass over a block of rows.
//!
//! A per-example gradient of a linear model is of rank one, `g_i = r_i ⊗ a_i`, so `‖g_i‖ = ‖r_i‖·‖a_i‖` for the L2 and
//! the L1 norm alike, and clipping needs no materialised per-example gradient.

mod clipping;
mod dense;
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
mod integer;
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx512bw")))]
#[path = "linear/without_tiles.rs"]
mod integer;
mod narrow;
mod packing;
pub mod recorded;
pub mod reference;
pub mod replicas;
mod residuals;
mod sparse;

use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::{Loss, TargetKind};
use crate::vector::lanes::{LANES, prefetch};
use dense::{Ahead, ROW_GROUP, RowPointers, Sink};
use packing::{Layout, PackedWeights};
use residuals::RowFacts;
use std::ops::Range;
use wide::f32x16;

pub use clipping::{
    Additions, MAXIMUM_CLIP_NORM, MINIMUM_CLIP_NORM, computed_sensitivity, computed_sensitivity_of_shifted_blocks,
    row_norms,
};

/// Rows whose contributions are summed in f32 before the sum moves to f64: the m of [`computed_sensitivity`].
pub const BLOCK_ROWS: usize = 128;

/// Shape and loss of a linear model. Parameters are row-major `[outputs, features + bias]`, bias last in each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// Features a row, without the bias.
    pub features: usize,
    /// Outputs K: the number of classes for softmax, 1 for all other losses.
    pub outputs: usize,
    /// Whether a constant feature 1 is appended to every row.
    pub bias: bool,
    /// The loss.
    pub loss: Loss,
}

impl LinearModel {
    /// Number of parameters, `K·(features + bias)`.
    pub fn parameters(&self) -> usize {
        self.outputs * (self.features + usize::from(self.bias))
    }
}

/// How per-example gradients (or differences) are clipped before they are summed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Not at all.
    Unbounded,
    /// `g · min(1, C/‖g‖)` in the given norm, C > 0.
    Bounded {
        /// The norm.
        norm: Norm,
        /// The clip norm C.
        clip_norm: f32,
    },
}

/// Norms of rows, bias included, rounded up: what clipping multiplies with the residual's norm.
#[derive(Clone, Debug)]
pub struct RowNorms {
    /// Which norm.
    pub norm: Norm,
    /// One value a row of the whole matrix.
    pub values: Vec<f32>,
}

/// A batch: the whole matrix, its targets and norms, and which rows to read.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// All rows.
    pub rows: Rows<'a>,
    /// All targets.
    pub targets: Targets<'a>,
    /// Norms of all rows in the norm of the clip; may be absent when the clip is unbounded.
    pub norms: Option<&'a RowNorms>,
    /// Which rows.
    pub selection: Selection<'a>,
}

/// A coefficient and the parameters at which a gradient is taken: one side of `a·∇f(x) − b·∇f(x′)`.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The factor of the gradient.
    pub coefficient: f32,
    /// The parameters.
    pub parameters: &'a [f32],
}

/// What a kernel counted while it summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows read.
    pub rows: usize,
    /// Rows whose gradient was longer than the clip norm. A statistic of the data: diagnostics only.
    pub clipped: usize,
}

/// A gradient that is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: the gradient is not finite (NaN or infinite features, or parameters that diverged)")]
pub struct NonFiniteGradient {
    /// The row of the matrix.
    pub row: usize,
}

/// Loss and accuracy of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Σ loss over the rows.
    pub loss: f64,
    /// Rows predicted correctly: arg max for softmax, sign for ±1 targets; 0 for regression losses.
    pub correct: usize,
    /// Rows read, without null ones.
    pub rows: usize,
}

/// Scratch memory of the kernels for one model: made once by whoever owns the loop. Calls of the kernels allocate
/// nothing.
#[derive(Debug)]
pub struct Workspace {
    current: PackedWeights,
    previous: PackedWeights,
    /// `[output][128]` margins, then residuals, then coefficients.
    residuals: Vec<f32>,
    others: Vec<f32>,
    /// Rows that are not read in place, padded to whole vectors.
    rows: Vec<f32x16>,
    /// A block's gradient, where it is summed in parts (one output only).
    partial: Vec<f32x16>,
    facts: Box<RowFacts>,
    blocks: BlockSizes,
    integer: Option<Box<integer::Scratch>>,
}

/// How many rows go through a kernel together.
#[derive(Clone, Copy, Debug)]
struct BlockSizes {
    /// Rows whose sum stays in f32.
    block: usize,
    /// Rows whose margins are computed before their gradients: with one output, as many as stay in first-level cache.
    part: usize,
}

impl BlockSizes {
    fn of(model: &LinearModel) -> Self {
        let row_bytes = (model.features.div_ceil(LANES) * LANES * size_of::<f32>()).max(1);
        let within = |bytes: usize, multiple: usize, most: usize| {
            (bytes / row_bytes / multiple * multiple).clamp(multiple, most)
        };
        let block = within(1 << 20, 16, BLOCK_ROWS);
        let part = if model.outputs == 1 {
            within(24 << 10, ROW_GROUP, block)
        } else {
            block
        };
        BlockSizes { block, part }
    }
}

impl Workspace {
    /// Scratch for batches of `model`.
    pub fn new(model: &LinearModel) -> Self {
        Self::summing_rows(model, BLOCK_ROWS)
    }

    /// Scratch for batches of `model` whose sums leave f32 every `block_rows` rows at the latest. With one row, what a
    /// row adds to a sum is rounded on its own: it depends neither on the other rows nor on its place in the batch.
    ///
    /// # Panics
    /// If `block_rows` is 0.
    pub fn summing_rows(model: &LinearModel, block_rows: usize) -> Self {
        assert!(block_rows > 0, "a block has at least one row");
        let BlockSizes { block, part } = BlockSizes::of(model);
        let blocks = BlockSizes {
            block: block.min(block_rows),
            part: part.min(block_rows),
        };
        let vectors = model.features.div_ceil(LANES);
        Workspace {
            current: PackedWeights::with_capacity(model),
            previous: PackedWeights::with_capacity(model),
            residuals: vec![0.0; model.outputs * BLOCK_ROWS],
            others: vec![0.0; model.outputs * BLOCK_ROWS],
            rows: vec![f32x16::ZERO; blocks.part * vectors],
            partial: vec![f32x16::ZERO; vectors],
            facts: Box::new(RowFacts::new()),
            blocks,
            integer: integer::Scratch::new(model),
        }
    }

    /// The same scratch without integer tiles: rows of bytes are widened and multiplied in f32, as on processors that have
    /// none.
    #[must_use]
    pub fn without_integer_tiles(mut self) -> Self {
        self.integer = None;
        self
    }
}

/// Whether rows of bytes go through integer tiles (AMX) here for a model that suits them: several outputs, and 64 to 2¹⁶
/// features, of which digits of 7 bits and a sign add up to less than 2³¹: `255·128·2¹⁶ < 2³¹`.
pub fn has_integer_tiles_for(model: &LinearModel) -> bool {
    model.outputs > 1 && (64..=1 << 16).contains(&model.features) && has_integer_tiles()
}

/// Whether this processor has integer tiles and lets this process use them: this decides on the bits of sums.
pub fn has_integer_tiles() -> bool {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    {
        crate::tiles::available()
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512bw")))]
    {
        false
    }
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
    let query = Query {
        current: Point {
            coefficient: 1.0,
            parameters,
        },
        previous: None,
        clip,
    };
    accumulate(model, batch, &query, sum, workspace)
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference, rows read once. With b = 0 the second
/// point is not read.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_differences(
    model: &LinearModel,
    batch: &Batch<'_>,
    current: Point<'_>,
    previous: Point<'_>,
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let previous = (previous.coefficient != 0.0).then_some(previous);
    accumulate(
        model,
        batch,
        &Query {
            current,
            previous,
            clip,
        },
        sum,
        workspace,
    )
}

/// What is summed: `Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`.
struct Query<'a> {
    current: Point<'a>,
    previous: Option<Point<'a>>,
    clip: Clip,
}

fn check(model: &LinearModel, batch: &Batch<'_>, parameters: &[f32]) {
    let rows = batch.rows.len();
    assert_eq!(
        batch.rows.columns(),
        model.features,
        "columns of the rows (left) and features of the model (right)"
    );
    assert_eq!(
        parameters.len(),
        model.parameters(),
        "parameters given (left) and of the model (right)"
    );
    assert_eq!(batch.targets.len(), rows, "targets (left) and rows (right)");
    let loss = model.loss;
    match (loss.targets(), batch.targets) {
        (TargetKind::Classes, Targets::Classes(_)) => assert!(model.outputs >= 2, "{loss} needs at least two outputs"),
        (TargetKind::Classes, Targets::Values(_)) => panic!("{loss} needs classes, found real targets"),
        (_, Targets::Classes(_)) => panic!("{loss} needs real targets, found classes"),
        (_, Targets::Values(_)) => assert_eq!(model.outputs, 1, "outputs of {loss} (left)"),
    }
    match &batch.selection {
        Selection::Range(range) => assert!(range.end <= rows, "rows {range:?} of a matrix with {rows}"),
        Selection::Indices(indices) => {
            let greatest = indices.iter().copied().max();
            assert!(
                greatest.is_none_or(|row| (row as usize) < rows),
                "row {greatest:?} of a matrix with {rows}"
            );
        }
    }
}

/// The norms that clipping needs, checked.
fn norms_for<'a>(clip: Clip, batch: &Batch<'a>) -> Option<&'a [f32]> {
    let Clip::Bounded { norm, clip_norm } = clip else {
        return None;
    };
    assert!(
        (MINIMUM_CLIP_NORM..=MAXIMUM_CLIP_NORM).contains(&clip_norm),
        "clip norm {clip_norm}, expected one in [2^-64, 2^64]"
    );
    let norms = batch
        .norms
        .expect("a bounded clip needs the norms of the rows (linear::row_norms)");
    assert_eq!(norms.norm, norm, "norms of the rows (left) and of the clip (right)");
    assert_eq!(norms.values.len(), batch.rows.len(), "norms (left) and rows (right)");
    Some(&norms.values)
}

fn row_at(selection: &Selection<'_>, position: usize) -> usize {
    match selection {
        Selection::Range(range) => range.start + position,
        Selection::Indices(indices) => indices[position] as usize,
    }
}

/// How the dense kernels read rows of this format: in place where sixteen features can be loaded anywhere in a row,
/// else through scratch memory.
fn layout_of(rows: Rows<'_>, model: &LinearModel) -> Layout {
    if reads_in_place(rows, model) {
        Layout::in_place(model.features)
    } else {
        Layout::padded(model.features)
    }
}

/// Whether the kernels read rows where they are. With one output bytes are widened whenever they are read, which is
/// cheaper than to store and load them four times as wide; with more, every tile of outputs would widen them again.
fn reads_in_place(rows: Rows<'_>, model: &LinearModel) -> bool {
    match rows {
        Rows::F32(_) => model.features >= LANES,
        Rows::U8(_) => model.features >= LANES && model.outputs == 1,
        Rows::Sparse(_) => false,
    }
}

/// The rows of one batch as the dense kernels read them.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    rows: Rows<'a>,
    in_place: bool,
    layout: Layout,
    /// What a stored feature is multiplied with.
    scale: f32,
}

impl<'a> Source<'a> {
    fn new(rows: Rows<'a>, model: &LinearModel) -> Self {
        Source {
            rows,
            in_place: reads_in_place(rows, model),
            layout: layout_of(rows, model),
            scale: match rows {
                Rows::U8(bytes) => bytes.scale,
                _ => 1.0,
            },
        }
    }

    fn is_dense(&self) -> bool {
        !matches!(self.rows, Rows::Sparse(_))
    }

    /// Whether rows are so short, and so far apart, that the hardware does not see them coming.
    fn is_scattered(&self, selection: &Selection<'_>) -> bool {
        matches!((self.rows, selection), (Rows::U8(_), Selection::Indices(_)))
    }

    /// Whether the kernels meet bytes, not f32.
    fn reads_bytes(&self) -> bool {
        self.in_place && matches!(self.rows, Rows::U8(_))
    }

    /// Rows whose margins are computed before their gradients: as many as stay in first-level cache.
    fn part(&self, blocks: BlockSizes) -> usize {
        if self.reads_bytes() {
            (blocks.part * size_of::<f32>()).min(blocks.block)
        } else {
            blocks.part
        }
    }

    /// `sink += Σ_i q_ki a_ij`, i over the first `rows` rows of a part, see [`dense::gradient`].
    ///
    /// # Safety
    /// `pointers` come from [`Source::margins`] or [`Source::place`], coefficients beyond the rows are zero.
    unsafe fn gradient(
        &self,
        pointers: &RowPointers,
        rows: usize,
        coefficients: &[f32],
        outputs: usize,
        ahead: &mut Ahead<'_>,
        sink: Sink<'_>,
    ) {
        // SAFETY: the pointers are of whole rows in this layout, repeated up to a row group.
        unsafe {
            if self.reads_bytes() {
                dense::gradient::<u8>(pointers, rows, self.layout, coefficients, outputs, ahead, sink);
            } else {
                dense::gradient::<f32>(pointers, rows, self.layout, coefficients, outputs, ahead, sink);
            }
        }
    }

    /// Bytes of a dense row.
    fn row_bytes(&self) -> usize {
        match self.rows {
            Rows::F32(dense) => dense.columns * size_of::<f32>(),
            Rows::U8(bytes) => bytes.columns,
            Rows::Sparse(_) => 0,
        }
    }

    /// Where the rows at `positions` of a selection start, for [`Ahead`].
    fn starts<'b>(
        &self,
        selection: &Selection<'_>,
        positions: Range<usize>,
        starts: &'b mut [*const u8; BLOCK_ROWS],
    ) -> &'b [*const u8] {
        let count = if self.is_dense() { positions.len() } else { 0 };
        for (start, position) in starts[..count].iter_mut().zip(positions) {
            *start = address(self.rows, row_at(selection, position));
        }
        &starts[..count]
    }

    /// Points `pointers[group]` to the rows `ids[group]`, copied to `scratch` where the format or the layout asks for
    /// it, and the pointers behind them up to a whole row group to the last of them.
    fn place(&self, ids: &[usize], group: Range<usize>, scratch: &mut [f32x16], pointers: &mut RowPointers) {
        let stride = self.layout.vectors * LANES;
        let Some(last) = group.clone().last() else {
            return;
        };
        match self.rows {
            Rows::F32(_) | Rows::U8(_) if self.in_place => {
                for (pointer, &id) in pointers[group.clone()].iter_mut().zip(&ids[group.clone()]) {
                    *pointer = row_start(self.rows, id);
                }
            }
            Rows::F32(_) | Rows::U8(_) if stride > 0 => {
                let scratch: &mut [f32] = bytemuck::cast_slice_mut(scratch);
                for row in group.clone() {
                    let (id, out) = (ids[row], &mut scratch[row * stride..][..stride]);
                    match self.rows {
                        Rows::U8(bytes) => {
                            dense::widen_padded(bytes.row(id), out);
                        }
                        Rows::F32(values) => {
                            dense::copy_padded(&values.values[id * values.columns..][..values.columns], out);
                        }
                        Rows::Sparse(_) => unreachable!("sparse rows are read entry by entry"),
                    }
                    pointers[row] = out.as_ptr().cast();
                }
            }
            _ => {}
        }
        let last = pointers[last];
        pointers[group.end..group.end.next_multiple_of(ROW_GROUP)].fill(last);
    }

    /// Asks for dense rows: these lie anywhere in memory.
    fn ask(&self, ids: &[usize]) {
        for &id in ids {
            let start = address(self.rows, id);
            for line in (0..self.row_bytes()).step_by(64) {
                prefetch(start.wrapping_add(line));
            }
        }
    }

    /// Margins of the rows `ids` at each side's weights, a group of rows after the other: rows that are copied are still
    /// in first-level cache when they are multiplied. Rows that nobody asked for before, `cold` ones, are asked for a group
    /// ahead. Where the rows lie.
    fn margins<const S: usize>(
        &self,
        ids: &[usize],
        scratch: &mut [f32x16],
        mut sides: [(&PackedWeights, &mut [f32]); S],
        cold: bool,
        ahead: &mut Ahead<'_>,
    ) -> RowPointers {
        let mut pointers = [std::ptr::null(); BLOCK_ROWS];
        for first in (0..ids.len()).step_by(ROW_GROUP) {
            let group = first..(first + ROW_GROUP).min(ids.len());
            if cold {
                self.ask(&ids[group.end..(group.end + ROW_GROUP).min(ids.len())]);
            }
            self.place(ids, group.clone(), scratch, &mut pointers);
            for (weights, out) in &mut sides {
                let (rows, layout, scale) = (group.clone(), self.layout, self.scale);
                // SAFETY: the pointers are of whole rows in this layout, repeated up to a row group; the weights were
                // packed with it.
                unsafe {
                    if self.reads_bytes() {
                        dense::margins::<u8>(&pointers, rows, layout, weights, scale, out, ahead);
                    } else {
                        dense::margins::<f32>(&pointers, rows, layout, weights, scale, out, ahead);
                    }
                }
            }
        }
        pointers
    }
}

/// Where a row starts, for a hint.
fn address(rows: Rows<'_>, row: usize) -> *const u8 {
    match rows {
        Rows::F32(dense) => dense.values.as_ptr().wrapping_add(row * dense.columns).cast(),
        Rows::U8(bytes) => bytes.values.as_ptr().wrapping_add(row * bytes.stride),
        Rows::Sparse(sparse) => sparse.values.as_ptr().wrapping_add(sparse.offsets[row]).cast(),
    }
}

/// Where a dense row starts that is read whole.
///
/// # Panics
/// If the row is not inside of the matrix.
fn row_start(rows: Rows<'_>, row: usize) -> *const u8 {
    match rows {
        Rows::F32(dense) => dense.values[row * dense.columns..][..dense.columns].as_ptr().cast(),
        Rows::U8(bytes) => bytes.row(row).as_ptr(),
        Rows::Sparse(_) => unreachable!("sparse rows are read entry by entry"),
    }
}

fn accumulate(
    model: &LinearModel,
    batch: &Batch<'_>,
    query: &Query<'_>,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    check(model, batch, query.current.parameters);
    assert_eq!(
        sum.len(),
        model.parameters(),
        "length of the sum (left) and parameters of the model (right)"
    );
    if let Some(previous) = &query.previous {
        check(model, batch, previous.parameters);
    }
    let norms = norms_for(query.clip, batch);
    let (outputs, width) = (model.outputs, model.features + usize::from(model.bias));
    let source = Source::new(batch.rows, model);
    let layout = source.layout;
    let Workspace {
        current,
        previous,
        residuals,
        others,
        rows: scratch,
        partial,
        facts,
        blocks,
        integer,
    } = workspace;
    if let (Some(integer), Rows::U8(bytes)) = (integer, batch.rows)
        && takes_tiles(*blocks, batch.selection.len())
        && integer.prepare(model, query.current.parameters)
        && let Some(outcome) = integer::accumulate(
            model,
            batch,
            bytes,
            query,
            norms,
            sum,
            integer,
            (&mut residuals[..], &mut others[..], &mut **facts),
        )
    {
        return outcome;
    }
    let sparse = match batch.rows {
        Rows::Sparse(sparse) => Some(sparse),
        _ => None,
    };
    if sparse.is_none() {
        current.pack(model, layout, query.current.parameters);
        if let Some(point) = &query.previous {
            previous.pack(model, layout, point.parameters);
        }
    }
    let scattered = source.is_scattered(&batch.selection);
    let sides = 1 + usize::from(query.previous.is_some());
    let part = source.part(*blocks);
    let steps = dense::steps(outputs, layout, part, sides);
    let total = batch.selection.len();
    let alone = query.previous.is_none() && query.current.coefficient == 1.0;
    // What is left is summed by the general kernels: a row may change the rounding of those behind it, so sums in which
    // each row is rounded on its own do without.
    let mut tally = if alone && blocks.block == BLOCK_ROWS {
        narrow::accumulate_front(model, batch, norms, query.clip, layout, current, sum)
    } else {
        Tally::default()
    };
    for block in (tally.rows..total).step_by(blocks.block) {
        let block_end = (block + blocks.block).min(total);
        let in_parts = outputs == 1 && block_end - block > part;
        if in_parts {
            partial.fill(f32x16::ZERO);
        }
        for start in (block..block_end).step_by(part) {
            let count = (block_end - start).min(part);
            for (offset, id) in facts.ids[..count].iter_mut().enumerate() {
                *id = row_at(&batch.selection, start + offset);
            }
            facts.gather(count, batch.targets, norms, outputs);
            let mut starts = [std::ptr::null(); BLOCK_ROWS];
            let next = (start + count)..(start + count + part).min(total);
            let next = source.starts(&batch.selection, next, &mut starts);
            let mut ahead = Ahead::rows(next, source.row_bytes(), layout.vectors, steps);
            let ids = &facts.ids[..count];
            let pointers = match (sparse, &query.previous) {
                (Some(sparse), previous) => {
                    sparse::margins(sparse, ids, model, query.current.parameters, residuals);
                    if let Some(point) = previous {
                        sparse::margins(sparse, ids, model, point.parameters, others);
                    }
                    [std::ptr::null(); BLOCK_ROWS]
                }
                (None, None) => source.margins(
                    ids,
                    scratch,
                    [(&*current, &mut residuals[..])],
                    scattered && start == 0,
                    &mut ahead,
                ),
                (None, Some(_)) => {
                    let sides = [(&*current, &mut residuals[..]), (&*previous, &mut others[..])];
                    source.margins(ids, scratch, sides, scattered && start == 0, &mut ahead)
                }
            };
            coefficients(model, query, count, facts, residuals, others, &mut tally)?;
            if model.bias {
                for output in 0..outputs {
                    let total = residuals::total(&residuals[output * BLOCK_ROWS..][..BLOCK_ROWS], count);
                    sum[output * width + model.features] += f64::from(total);
                }
            }
            if let Some(sparse) = sparse {
                sparse::add_gradient(sparse, &facts.ids[..count], model, residuals, sum);
                continue;
            }
            if layout.vectors == 0 {
                continue;
            }
            residuals::scale(source.scale, residuals, outputs, count);
            let sink = if in_parts {
                Sink::Partial(partial)
            } else {
                Sink::Sum {
                    sum: &mut *sum,
                    width,
                    features: model.features,
                }
            };
            // SAFETY: coefficients beyond the rows were cleared.
            unsafe { source.gradient(&pointers, count, residuals, outputs, &mut ahead, sink) };
        }
        if in_parts {
            dense::add_partial(partial, layout, &mut sum[..model.features]);
        }
    }
    if query.clip == Clip::Unbounded && sum.iter().any(|value| !value.is_finite()) {
        return Err(NonFiniteGradient {
            row: longest_gradient(model, batch, query),
        });
    }
    Ok(tally)
}

/// Whether a sum of `rows` rows goes through integer tiles: enough of them, or, where each is to be rounded on its own, any
/// number, so that a row more or less never changes the kernel.
fn takes_tiles(blocks: BlockSizes, rows: usize) -> bool {
    blocks.block == 1 || rows >= integer::LEAST_ROWS
}

/// From margins to coefficients of the `count` rows whose facts were gathered. `margins[k·128 + i]` are those of the
/// current point and become `clip factor · (a·r_ki − b·r′_ki)`, zeros behind them up to a whole vector; `others` are those of the previous point, if there is one.
///
/// # Errors
/// As [`accumulate_gradients`].
fn coefficients(
    model: &LinearModel,
    query: &Query<'_>,
    count: usize,
    facts: &RowFacts,
    margins: &mut [f32],
    others: &mut [f32],
    tally: &mut Tally,
) -> Result<(), NonFiniteGradient> {
    let outputs = model.outputs;
    residuals::residuals(model.loss, outputs, count, facts, margins)?;
    if let Some(point) = &query.previous {
        residuals::residuals(model.loss, outputs, count, facts, others)?;
        let (a, b) = (query.current.coefficient, point.coefficient);
        residuals::combine(a, margins, b, others, outputs, count);
    } else {
        residuals::scale(query.current.coefficient, margins, outputs, count);
    }
    residuals::clip(query.clip, outputs, count, facts, margins, tally)?;
    residuals::clear_beyond(margins, outputs, count);
    Ok(())
}

/// The row with the longest gradient: the one to name when a sum of finite gradients overflows f32.
#[cold]
fn longest_gradient(model: &LinearModel, batch: &Batch<'_>, query: &Query<'_>) -> usize {
    let length = |position: usize| {
        let row = row_at(&batch.selection, position);
        let single = Batch {
            selection: Selection::Range(row..row + 1),
            ..batch.clone()
        };
        let gradient = reference::sum_of_differences(model, &single, query.current, query.previous, Clip::Unbounded);
        reference::norm(&gradient, Norm::L2)
    };
    let position = (0..batch.selection.len()).max_by(|&i, &j| length(i).total_cmp(&length(j)));
    position.map_or(0, |position| row_at(&batch.selection, position))
}

/// Loss and accuracy of a batch at `parameters`, null rows left out. Softmax predicts the first class of largest margin; the logistic and
/// hinge losses predict +1 where the margin is at least 0.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn evaluate(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    workspace: &mut Workspace,
) -> Result<Evaluation, NonFiniteGradient> {
    check(model, batch, parameters);
    let source = Source::new(batch.rows, model);
    let Workspace {
        current,
        residuals: margins,
        rows: scratch,
        facts,
        blocks,
        integer,
        ..
    } = workspace;
    let total = batch.selection.len();
    let scattered = source.is_scattered(&batch.selection);
    let mut integer = match (integer, batch.rows) {
        (Some(integer), Rows::U8(bytes)) if total >= integer::LEAST_ROWS => Some((integer, bytes)),
        _ => None,
    };
    integer = integer.and_then(|(integer, bytes)| integer.prepare(model, parameters).then_some((integer, bytes)));
    let part = if integer.is_some() {
        BLOCK_ROWS
    } else {
        source.part(*blocks)
    };
    let steps = dense::steps(model.outputs, source.layout, part, 1) / 2;
    if source.is_dense() {
        current.pack(model, source.layout, parameters);
    }
    let mut evaluation = Evaluation::default();
    for start in (0..total).step_by(part) {
        let count = (total - start).min(part);
        for (offset, id) in facts.ids[..count].iter_mut().enumerate() {
            *id = row_at(&batch.selection, start + offset);
        }
        facts.gather(count, batch.targets, None, model.outputs);
        if let Some((integer, bytes)) = &mut integer {
            integer.margins(*bytes, &batch.selection, start..start + count, margins);
        } else if let Rows::Sparse(sparse) = batch.rows {
            sparse::margins(sparse, &facts.ids[..count], model, parameters, margins);
        } else {
            let mut starts = [std::ptr::null(); BLOCK_ROWS];
            let next = (start + count)..(start + count + part).min(total);
            let next = source.starts(&batch.selection, next, &mut starts);
            let mut ahead = Ahead::rows(next, source.row_bytes(), source.layout.vectors, steps);
            let sides = [(&*current, &mut margins[..])];
            source.margins(&facts.ids[..count], scratch, sides, scattered && start == 0, &mut ahead);
        }
        let of_part = residuals::values(model.loss, model.outputs, count, facts, margins)?;
        evaluation.loss += of_part.loss;
        evaluation.correct += of_part.correct;
        evaluation.rows += of_part.rows;
    }
    Ok(evaluation)
}

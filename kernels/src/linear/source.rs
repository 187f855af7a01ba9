//! Rows of a batch as the dense kernels read them: in place, or widened and padded in scratch memory.

use super::dense::{self, Prefetch, ROW_GROUP, RowPointers, Sink};
use super::model::LinearModel;
use super::packing::{Layout, PackedWeights};
use crate::features::BLOCK_ROWS;
use crate::features::{Rows, Selection};
use crate::vector::lanes::{self, LANES};
use std::ops::Range;
use wide::f32x16;

/// Numbers of rows that go through a kernel together.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSizes {
    /// Rows whose sum stays in f32.
    pub(super) block: usize,
    /// Rows whose margins are computed before their gradients: with one output, as many as stay in first-level cache.
    pub(super) part: usize,
}

impl BlockSizes {
    pub(super) fn of(model: &LinearModel) -> Self {
        let row_bytes = (model.features.div_ceil(LANES) * LANES * size_of::<f32>()).max(1);
        let within = |bytes: usize, multiple: usize, most: usize| {
            (bytes / row_bytes / multiple * multiple).clamp(multiple, most)
        };
        let block = within(1 << 20, 16, BLOCK_ROWS);
        let part = if model.outputs == 1 { within(24 << 10, ROW_GROUP, block) } else { block };
        BlockSizes { block, part }
    }
}

/// True if the kernels read rows in place: sixteen features can be loaded anywhere in a row. With one
/// output bytes are widened whenever they are read, which is cheaper than to store and load them four times as wide; with more, every
/// tile of outputs would widen them again.
fn reads_in_place(rows: Rows<'_>, model: &LinearModel) -> bool {
    match rows {
        Rows::F32(_) => model.features >= LANES,
        Rows::U8(_) => model.features >= LANES && model.outputs == 1,
        Rows::Sparse(_) => false,
    }
}

/// The rows of one batch as the dense kernels read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    rows: Rows<'a>,
    in_place: bool,
    pub(super) layout: Layout,
    /// The factor of a stored feature.
    pub(super) scale: f32,
}

impl<'a> Source<'a> {
    pub(super) fn new(rows: Rows<'a>, model: &LinearModel) -> Self {
        let in_place = reads_in_place(rows, model);
        Source {
            rows,
            in_place,
            layout: if in_place { Layout::in_place(model.features) } else { Layout::padded(model.features) },
            scale: match rows {
                Rows::U8(bytes) => bytes.scale,
                _ => 1.0,
            },
        }
    }

    /// True if rows are too short and too far apart for the hardware's own prefetching.
    pub(super) fn is_scattered(&self, selection: &Selection<'_>) -> bool {
        matches!((self.rows, selection), (Rows::U8(_), Selection::Indices(_)))
    }

    /// True if stored features are integers, `scale` times which they are.
    pub(super) fn holds_integers(&self) -> bool {
        matches!(self.rows, Rows::U8(_))
    }

    /// True if the kernels read bytes, not f32.
    pub(super) fn reads_bytes(&self) -> bool {
        self.in_place && matches!(self.rows, Rows::U8(_))
    }

    /// Rows whose margins are computed before their gradients: as many as stay in first-level cache.
    pub(super) fn part(&self, blocks: BlockSizes) -> usize {
        if self.reads_bytes() { (blocks.part * size_of::<f32>()).min(blocks.block) } else { blocks.part }
    }

    /// `sink += Σ_i q_ki a_ij`, i over the first `rows` rows of a part, see [`dense::gradient`].
    ///
    /// # Safety
    /// `pointers` come from [`Source::margins`] or [`Source::place`], coefficients beyond the rows are zero.
    pub(super) unsafe fn gradient(
        &self,
        pointers: &RowPointers,
        rows: usize,
        coefficients: &[f32],
        outputs: usize,
        prefetch: &mut Prefetch<'_>,
        sink: Sink<'_>,
    ) {
        // SAFETY: the pointers are of whole rows in this layout, repeated up to a row group.
        unsafe {
            if self.reads_bytes() {
                dense::gradient::<u8>(pointers, rows, self.layout, coefficients, outputs, prefetch, sink);
            } else {
                dense::gradient::<f32>(pointers, rows, self.layout, coefficients, outputs, prefetch, sink);
            }
        }
    }

    /// Bytes of a dense row.
    pub(super) fn row_bytes(&self) -> usize {
        match self.rows {
            Rows::F32(dense) => dense.columns * size_of::<f32>(),
            Rows::U8(bytes) => bytes.columns,
            Rows::Sparse(_) => 0,
        }
    }

    /// The addresses of the dense rows at `positions` of a selection, for [`Prefetch`].
    pub(super) fn starts<'b>(
        &self,
        selection: &Selection<'_>,
        positions: Range<usize>,
        starts: &'b mut [*const u8; BLOCK_ROWS],
    ) -> &'b [*const u8] {
        let starts = &mut starts[..positions.len()];
        for (start, position) in starts.iter_mut().zip(positions) {
            *start = row_start(self.rows, selection.row(position));
        }
        starts
    }

    /// Points `pointers[group]` to the rows `ids[group]`, copied to `scratch` where the format or the layout requires
    /// it, and the pointers behind them up to a whole row group to the last of them.
    pub(super) fn place(&self, ids: &[usize], group: Range<usize>, scratch: &mut [f32x16], pointers: &mut RowPointers) {
        let stride = self.layout.vectors * LANES;
        let Some(last) = group.clone().last() else {
            return;
        };
        if self.in_place {
            for (pointer, &id) in pointers[group.clone()].iter_mut().zip(&ids[group.clone()]) {
                *pointer = row_start(self.rows, id);
            }
        } else if stride > 0 {
            let scratch: &mut [f32] = bytemuck::cast_slice_mut(scratch);
            for row in group.clone() {
                let (id, out) = (ids[row], &mut scratch[row * stride..][..stride]);
                match self.rows {
                    Rows::U8(bytes) => dense::widen_padded(bytes.row(id), out),
                    Rows::F32(values) => dense::copy_padded(values.row(id), out),
                    Rows::Sparse(_) => unreachable!("sparse rows are read entry by entry"),
                }
                pointers[row] = out.as_ptr().cast();
            }
        }
        let last = pointers[last];
        pointers[group.end..group.end.next_multiple_of(ROW_GROUP)].fill(last);
    }

    /// Prefetches dense rows anywhere in memory.
    pub(super) fn prefetch(&self, ids: &[usize]) {
        for &id in ids {
            let start = row_start(self.rows, id);
            for line in (0..self.row_bytes()).step_by(64) {
                lanes::prefetch(start.wrapping_add(line));
            }
        }
    }

    /// Margins of the rows `ids` at each side's weights, group by group: copied rows are still in first-level cache when
    /// they are multiplied. Rows that were not prefetched before (`cold`) are prefetched one group ahead. Returns the
    /// addresses of the rows.
    pub(super) fn margins(
        &self,
        ids: &[usize],
        scratch: &mut [f32x16],
        sides: &mut [(&PackedWeights, &mut [f32])],
        cold: bool,
        prefetch: &mut Prefetch<'_>,
    ) -> RowPointers {
        let mut pointers = [std::ptr::null(); BLOCK_ROWS];
        for first in (0..ids.len()).step_by(ROW_GROUP) {
            let group = first..(first + ROW_GROUP).min(ids.len());
            if cold {
                self.prefetch(&ids[group.end..(group.end + ROW_GROUP).min(ids.len())]);
            }
            self.place(ids, group.clone(), scratch, &mut pointers);
            for (weights, out) in &mut *sides {
                let (rows, layout, scale) = (group.clone(), self.layout, self.scale);
                // SAFETY: the pointers are of whole rows in this layout, repeated up to a row group; the weights were
                // packed with it.
                unsafe {
                    if self.reads_bytes() {
                        dense::margins::<u8>(&pointers, rows, layout, weights, scale, out, prefetch);
                    } else {
                        dense::margins::<f32>(&pointers, rows, layout, weights, scale, out, prefetch);
                    }
                }
            }
        }
        pointers
    }
}

/// The address of a dense row.
///
/// # Panics
/// If the row is not inside of the matrix.
#[inline(always)]
fn row_start(rows: Rows<'_>, row: usize) -> *const u8 {
    match rows {
        Rows::F32(dense) => dense.row(row).as_ptr().cast(),
        Rows::U8(bytes) => bytes.row(row).as_ptr(),
        Rows::Sparse(_) => unreachable!("sparse rows are read entry by entry"),
    }
}

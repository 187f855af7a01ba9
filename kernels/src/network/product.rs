//! `C ← A·B`, `C ← A·B + C` or `C ← A·B + bias` in f32 for matrices whose rows and depth are grids: a convolution is one such product of the
//! image as it lies in memory, without a copy.
//!
//! A tile of C stays in registers for the whole depth. Every entry of C is one chain of fused multiply-adds in the order of the depth: its
//! bits depend on A, B, C and the shape alone.

use crate::vector::lanes::{PART_LANES, Part};

/// Columns of a panel of B: two registers.
pub(super) const PANEL: usize = 2 * PART_LANES;

/// Rows of a tile: as many as leave registers for a panel.
const TILE: usize = if PART_LANES == 16 { 8 } else { 6 };

/// `outer × inner` places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) outer: usize,
    pub(super) inner: usize,
}

/// The distances of such places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub(super) outer: usize,
    pub(super) inner: usize,
}

impl Grid {
    /// Places from the first to the last one.
    fn reach(self, strides: Strides) -> usize {
        (self.outer - 1) * strides.outer + (self.inner - 1) * strides.inner
    }
}

/// A product: C has a row for each place of `rows`, and sums over those of `depth`. `A[row, place] = a[a_rows(row) + a_depth(place)]`; a panel of B
/// begins `b_panel` behind the one before, and its rows are those of `depth`; all extents at least 1, columns a multiple of 16.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) rows: Grid,
    pub(super) depth: Grid,
    pub(super) columns: usize,
    pub(super) a_rows: Strides,
    pub(super) a_depth: Strides,
    pub(super) b_depth: Strides,
    pub(super) b_panel: usize,
    pub(super) c_rows: Strides,
}

/// The number that a sum begins with.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    Zero,
    /// One a column.
    Bias(&'a [f32]),
    /// The entry itself.
    Sum,
}

impl Product {
    /// Computes the product.
    ///
    /// # Panics
    /// Slices too short for the shape.
    pub(super) fn run(&self, a: &[f32], b: &[f32], c: &mut [f32], start: Start<'_>) {
        let Self { rows, depth, columns, .. } = *self;
        assert!(rows.outer * rows.inner * depth.outer * depth.inner * columns > 0 && columns.is_multiple_of(16));
        let (panels, last) = ((columns - 1) / PANEL, (columns - 1) % PANEL + 1);
        assert!(a.len() > rows.reach(self.a_rows) + depth.reach(self.a_depth), "A is too short for {self:?}");
        assert!(b.len() >= panels * self.b_panel + depth.reach(self.b_depth) + last, "B is too short for {self:?}");
        assert!(c.len() >= rows.reach(self.c_rows) + columns, "C is too short for {self:?}");
        assert!(self.c_rows.inner >= columns && (rows.outer == 1 || self.c_rows.outer >= rows.inner * columns));
        if let Start::Bias(bias) = start {
            assert!(bias.len() >= columns, "biases are too few for {self:?}");
        }
        for column in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - column);
            // SAFETY: the assertions above hold every element that these extents and strides address.
            unsafe {
                let b = b.as_ptr().add(column / PANEL * self.b_panel);
                for outer in 0..rows.outer {
                    for inner in (0..rows.inner).step_by(TILE) {
                        let a = a.as_ptr().add(outer * self.a_rows.outer + inner * self.a_rows.inner);
                        let c = c.as_mut_ptr().add(outer * self.c_rows.outer + inner * self.c_rows.inner + column);
                        let bias = if let Start::Bias(bias) = start { Some(bias.as_ptr().add(column)) } else { None };
                        let start = (bias, matches!(start, Start::Sum));
                        let place = (a, b, c);
                        match (TILE.min(rows.inner - inner), width == PANEL) {
                            (8, true) => self.tile::<8, 2>(place, start),
                            (7, true) => self.tile::<7, 2>(place, start),
                            (6, true) => self.tile::<6, 2>(place, start),
                            (5, true) => self.tile::<5, 2>(place, start),
                            (4, true) => self.tile::<4, 2>(place, start),
                            (3, true) => self.tile::<3, 2>(place, start),
                            (2, true) => self.tile::<2, 2>(place, start),
                            (_, true) => self.tile::<1, 2>(place, start),
                            (8, false) => self.tile::<8, 1>(place, start),
                            (7, false) => self.tile::<7, 1>(place, start),
                            (6, false) => self.tile::<6, 1>(place, start),
                            (5, false) => self.tile::<5, 1>(place, start),
                            (4, false) => self.tile::<4, 1>(place, start),
                            (3, false) => self.tile::<3, 1>(place, start),
                            (2, false) => self.tile::<2, 1>(place, start),
                            (_, false) => self.tile::<1, 1>(place, start),
                        }
                    }
                }
            }
        }
    }

    /// A tile of P rows and V registers of columns.
    ///
    /// # Safety
    /// All that the tile addresses lies in the matrices.
    #[inline(never)]
    unsafe fn tile<const P: usize, const V: usize>(
        &self,
        (a, b, c): (*const f32, *const f32, *mut f32),
        (bias, is_sum): (Option<*const f32>, bool),
    ) {
        let Self { depth, a_rows, a_depth, b_depth, c_rows, .. } = *self;
        let mut sums = [[Part::ZERO; V]; P];
        // SAFETY: the caller's promise.
        unsafe {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (part, sum) in sums.iter_mut().enumerate() {
                    if let Some(bias) = bias {
                        *sum = bias.add(part * PART_LANES).cast::<Part>().read_unaligned();
                    } else if is_sum {
                        *sum = c.add(row * c_rows.inner + part * PART_LANES).cast::<Part>().read_unaligned();
                    }
                }
            }
            for outer in 0..depth.outer {
                let (mut a, mut b) = (a.add(outer * a_depth.outer), b.add(outer * b_depth.outer));
                for _ in 0..depth.inner {
                    let columns: [Part; V] =
                        std::array::from_fn(|part| b.add(part * PART_LANES).cast::<Part>().read_unaligned());
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let value = Part::splat(*a.add(row * a_rows.inner));
                        for (sum, &columns) in sums.iter_mut().zip(&columns) {
                            *sum = value.mul_add(columns, *sum);
                        }
                    }
                    // The last step may leave the matrices, which wrapping does not mind.
                    (a, b) = (a.wrapping_add(a_depth.inner), b.wrapping_add(b_depth.inner));
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (part, &sum) in sums.iter().enumerate() {
                    c.add(row * c_rows.inner + part * PART_LANES).cast::<Part>().write_unaligned(sum);
                }
            }
        }
    }
}

//! Rows of a design matrix as the kernels read them: dense f32, dense u8 with a scale, or CSR; and which of them
//! form a batch. Borrowed views only; whoever loads data owns it.

use std::ops::Range;

/// Rows of a block: their contributions are summed in f32 before the sum moves to f64.
pub const BLOCK_ROWS: usize = 128;

/// ν, the value 1 of the bias among integer features in units of `scale`.
pub(crate) fn bias_in_units(scale: f64) -> f64 {
    (1.0 / scale + 0.5).floor().max(1.0)
}

/// A copy of runs of dense rows in another order ([`crate::linear::Stripes`]).
#[derive(Clone, Copy, Debug)]
pub struct StripedRows<'a> {
    /// The rows of each run, ascending, and the values before its own.
    pub(crate) runs: &'a [(Range<usize>, usize)],
    /// `stripes × 32 × features × 16` values.
    pub(crate) values: &'a [f32],
}

/// Dense rows of f32 features, row-major.
#[derive(Clone, Copy, Debug)]
pub struct F32Rows<'a> {
    /// `rows × columns` values.
    pub values: &'a [f32],
    /// Features a row.
    pub columns: usize,
    /// A copy of some of the rows that is summed faster, to the same bits.
    pub stripes: Option<StripedRows<'a>>,
    /// The same rows as integers in two planes of bytes, where they are summed so ([`crate::linear::Planes`]).
    pub planes: Option<U8Rows<'a>>,
}

impl<'a> F32Rows<'a> {
    /// The features of a row.
    ///
    /// # Panics
    /// A row that does not exist.
    #[inline]
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.columns..][..self.columns]
    }
}

/// Dense rows of bytes, row-major; feature = `scale · byte`. Exact for image data, in a quarter of the memory.
#[derive(Clone, Copy, Debug)]
pub struct U8Rows<'a> {
    /// `rows × stride` bytes, of which the first `columns` of each row are read.
    pub values: &'a [u8],
    /// Features a row.
    pub columns: usize,
    /// Bytes from a row's begin to the next one's, at least `columns`. Rows that begin at cache lines are read faster.
    pub stride: usize,
    /// The factor of a byte, e.g. 1/255.
    pub scale: f32,
}

impl<'a> U8Rows<'a> {
    /// The bytes of a row.
    ///
    /// # Panics
    /// A row that does not exist.
    #[inline]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.values[row * self.stride..][..self.columns]
    }
}

/// Compressed sparse rows: row `i` holds `values[offsets[i]..offsets[i + 1]]` at `indices[..]`, ascending.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a> {
    /// `rows + 1` offsets into `indices` and `values`.
    pub offsets: &'a [usize],
    /// Column of each stored value.
    pub indices: &'a [u32],
    /// The stored values.
    pub values: &'a [f32],
    /// Features a row.
    pub columns: usize,
}

impl<'a> SparseRows<'a> {
    /// The columns and values of a row's entries.
    ///
    /// # Panics
    /// A row that does not exist.
    #[inline]
    pub fn row(&self, row: usize) -> (&'a [u32], &'a [f32]) {
        let entries = self.offsets[row]..self.offsets[row + 1];
        (&self.indices[entries.clone()], &self.values[entries])
    }
}

/// Rows in one of the formats the kernels read.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Dense f32.
    F32(F32Rows<'a>),
    /// Dense bytes with a scale.
    U8(U8Rows<'a>),
    /// Compressed sparse rows.
    Sparse(SparseRows<'a>),
}

impl<'a> Rows<'a> {
    /// Dense rows of f32: `rows × columns` values, row-major.
    pub fn f32(values: &'a [f32], columns: usize) -> Self {
        Rows::F32(F32Rows { values, columns, stripes: None, planes: None })
    }

    /// The same rows with planes, if they are dense f32.
    #[must_use]
    pub fn with_planes(self, planes: Option<U8Rows<'a>>) -> Self {
        match self {
            Rows::F32(rows) => Rows::F32(F32Rows { planes, ..rows }),
            others => others,
        }
    }

    /// Dense rows of bytes without gaps: `rows × columns` bytes, row-major.
    pub fn bytes(values: &'a [u8], columns: usize, scale: f32) -> Self {
        Rows::U8(U8Rows { values, columns, stride: columns, scale })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Rows::F32(rows) => rows.values.len().checked_div(rows.columns).unwrap_or(0),
            Rows::U8(rows) => rows.values.len().checked_div(rows.stride).unwrap_or(0),
            Rows::Sparse(rows) => rows.offsets.len().saturating_sub(1),
        }
    }

    /// Writes a row as f32, one value a column.
    pub fn widen(&self, row: usize, out: &mut [f32]) {
        match self {
            Rows::F32(dense) => out.copy_from_slice(dense.row(row)),
            Rows::U8(bytes) => {
                out.iter_mut().zip(bytes.row(row)).for_each(|(out, &byte)| *out = f32::from(byte) * bytes.scale);
            }
            Rows::Sparse(sparse) => {
                out.fill(0.0);
                let (columns, values) = sparse.row(row);
                columns.iter().zip(values).for_each(|(&column, value)| out[column as usize] += value);
            }
        }
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Features a row, without a bias.
    pub fn columns(&self) -> usize {
        match self {
            Rows::F32(rows) => rows.columns,
            Rows::U8(rows) => rows.columns,
            Rows::Sparse(rows) => rows.columns,
        }
    }
}

/// The rows that a kernel reads: a contiguous range, or a list of row indices (a row may occur more than once).
#[derive(Clone, Debug)]
pub enum Selection<'a> {
    /// Rows `start..end`.
    Range(Range<usize>),
    /// Row indices, in the order in which they are summed.
    Indices(&'a [u32]),
}

impl Selection<'_> {
    /// Number of rows selected.
    pub fn len(&self) -> usize {
        match self {
            Selection::Range(range) => range.len(),
            Selection::Indices(indices) => indices.len(),
        }
    }

    /// The row at `position`.
    #[inline(always)]
    pub(crate) fn row(&self, position: usize) -> usize {
        match self {
            Selection::Range(range) => range.start + position,
            Selection::Indices(indices) => indices[position] as usize,
        }
    }

    /// The rows selected, in order.
    pub fn rows(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.len()).map(|position| self.row(position))
    }

    /// True if no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The class of a null row.
pub const NULL_CLASS: u32 = u32::MAX;

/// The real target of a null row, one of the NaNs: [`Targets::is_null`] takes any.
pub const NULL_TARGET: f32 = f32::NAN;

/// The targets that the loss compares margins with. A null row contributes 0 to every sum and is left out of evaluations.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// A class in `0..K` for each row (softmax), [`NULL_CLASS`] for a null row.
    Classes(&'a [u32]),
    /// A real for each row: ±1 for the logistic and hinge losses, any finite value for regression; NaN for a null row.
    Values(&'a [f32]),
}

impl Targets<'_> {
    /// True if `row` is a null row.
    pub fn is_null(self, row: usize) -> bool {
        match self {
            Targets::Classes(classes) => classes[row] == NULL_CLASS,
            Targets::Values(values) => values[row].is_nan(),
        }
    }

    /// Number of targets.
    pub fn len(&self) -> usize {
        match self {
            Targets::Classes(classes) => classes.len(),
            Targets::Values(values) => values.len(),
        }
    }

    /// True if there are no targets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The norm in which gradients are clipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Σ|v|, which Laplace mechanisms need.
    L1,
    /// √Σv², which Gaussian mechanisms need.
    L2,
}

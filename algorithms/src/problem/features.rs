//! Features and labels in the formats in which rows are kept, and the checks that make them a data set.

use std::fmt::Display;
use std::ops::Range;

use rounds_kernels::features::{NULL_CLASS, Rows, SparseRows, Targets};
pub use rounds_kernels::memory::{Buffer, ByteRows};

use super::domain::Storage;
use super::withheld::{NoClaim, Withheld};

/// The reason for which data is refused. No message holds anything of a row; what was found in one stands in a [`Withheld`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetError {
    /// A fault of arguments or declared facts, shown in full.
    #[error("data set {name}: {problem}")]
    Argument {
        /// The data set.
        name: String,
        /// The problem and the way out.
        problem: String,
    },
    /// A fault of rows, whose text is withheld.
    #[error(
        "data set {name}: its rows make no data set, or none for this domain and loss; a run that claims nothing shows more"
    )]
    Rows {
        /// The data set.
        name: String,
        /// The row, if it is the fault of one, the problem and the way out.
        found: Withheld,
    },
}

impl DatasetError {
    pub(super) fn of(mut self, of: &str) -> Self {
        let (Self::Argument { name, .. } | Self::Rows { name, .. }) = &mut self;
        of.clone_into(name);
        self
    }

    /// The message with what was found, where nothing is claimed.
    pub fn explained(&self, witness: &NoClaim) -> String {
        match self {
            Self::Argument { .. } => self.to_string(),
            Self::Rows { name, found } => format!("data set {name}{}", found.shown(witness)),
        }
    }

    /// The message with what was found, withheld.
    pub fn withheld(&self) -> Withheld {
        match self {
            Self::Argument { .. } => Withheld::new(self),
            Self::Rows { name, found } => found.behind(format_args!("data set {name}")),
        }
    }
}

/// Compressed sparse rows: row i stores `values[offsets[i]..offsets[i + 1]]` in the columns `indices[..]`, which ascend
/// strictly. Stored zeros are allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix {
    /// `n + 1` offsets, the first one 0.
    pub offsets: Vec<usize>,
    /// Column of each stored value.
    pub indices: Vec<u32>,
    /// The stored values.
    pub values: Vec<f32>,
    /// Features a row.
    pub columns: usize,
}

impl SparseMatrix {
    /// No rows.
    pub fn new(columns: usize) -> Self {
        Self { offsets: vec![0], indices: Vec::new(), values: Vec::new(), columns }
    }

    /// Appends the stored values and their columns as a row.
    pub fn push_row(&mut self, entries: impl IntoIterator<Item = (u32, f32)>) {
        for (index, value) in entries {
            self.indices.push(index);
            self.values.push(value);
        }
        self.offsets.push(self.values.len());
    }

    fn append(&mut self, other: &Self) {
        let end = self.values.len();
        self.offsets.extend(other.offsets[1..].iter().map(|offset| end + offset));
        self.indices.extend_from_slice(&other.indices);
        self.values.extend_from_slice(&other.values);
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.indices.truncate(self.offsets[rows]);
        self.values.truncate(self.offsets[rows]);
    }

    /// Removes the stored values of the rows for which `is_null` holds, of which `first` is the first one.
    fn clear_rows(&mut self, first: usize, is_null: impl Fn(usize) -> bool) {
        let mut kept = self.offsets[first];
        let mut start = kept;
        for row in first..self.offsets.len() - 1 {
            let end = self.offsets[row + 1];
            if !is_null(row) {
                self.indices.copy_within(start..end, kept);
                self.values.copy_within(start..end, kept);
                kept += end - start;
            }
            (self.offsets[row + 1], start) = (kept, end);
        }
        self.indices.truncate(kept);
        self.values.truncate(kept);
    }

    /// The places of a row's stored values.
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// Dense rows, `None` if they cannot be addressed.
    fn to_dense(&self) -> Option<Features> {
        let limit = isize::MAX as usize / size_of::<f32>();
        let size = (self.offsets.len() - 1).checked_mul(self.columns);
        let mut dense: Buffer<f32> = Buffer::zeroed(size.filter(|&size| size <= limit)?);
        for (row, out) in dense.chunks_exact_mut(self.columns).enumerate() {
            for entry in self.row(row) {
                out[self.indices[entry] as usize] = self.values[entry];
            }
        }
        Some(Features::f32(dense, self.columns))
    }
}

/// A design matrix of n rows and d columns, in the format in which it is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Dense f32, row-major, `n × columns` values.
    F32 {
        /// The values.
        values: Buffer<f32>,
        /// Features a row.
        columns: usize,
    },
    /// Dense bytes; feature = `scale · byte`.
    U8 {
        /// The rows.
        rows: ByteRows,
        /// The factor of a byte, e.g. 1/255.
        scale: f32,
    },
    /// Compressed sparse rows.
    Sparse(SparseMatrix),
}

impl Features {
    /// Dense rows of `columns` f32 values, one row after the other.
    pub fn f32(values: impl Into<Buffer<f32>>, columns: usize) -> Self {
        Features::F32 { values: values.into(), columns }
    }

    /// Dense rows of `columns` bytes, one row after the other; feature = `scale · byte`.
    pub fn bytes(values: &[u8], columns: usize, scale: f32) -> Self {
        Features::U8 { rows: ByteRows::new(values, columns), scale }
    }

    /// No rows in the format and of the columns of these.
    pub(super) fn emptied(&self) -> Self {
        match self {
            Features::F32 { columns, .. } => Features::f32(Buffer::new(), *columns),
            Features::U8 { rows, scale } => Features::bytes(&[], rows.columns(), *scale),
            Features::Sparse(sparse) => Features::Sparse(SparseMatrix::new(sparse.columns)),
        }
    }

    /// Rounds f32 and stored values to multiples of `step`, a power of two, of at most `greatest` times it: to nearest or
    /// towards 0.
    pub(super) fn round_to(&mut self, step: f32, greatest: f32, towards_zero: bool) {
        let inverse = 1.0 / step;
        let cut = |integer: f32| integer.max(-greatest).min(greatest) * step;
        let round = |values: &mut [f32]| {
            if towards_zero {
                values.iter_mut().for_each(|value| *value = cut((*value * inverse).trunc()));
            } else {
                values.iter_mut().for_each(|value| *value = cut((*value * inverse).round_ties_even()));
            }
        };
        match self {
            Features::F32 { values, .. } => round(values),
            Features::Sparse(sparse) => round(&mut sparse.values),
            Features::U8 { .. } => {}
        }
    }

    /// The scale of rows of bytes.
    pub(crate) fn byte_scale(&self) -> Option<f32> {
        match self {
            Features::U8 { scale, .. } => Some(*scale),
            _ => None,
        }
    }

    /// The matrix as the kernels read it.
    pub fn rows(&self) -> Rows<'_> {
        match self {
            Features::F32 { values, columns } => Rows::f32(values, *columns),
            Features::U8 { rows, scale } => Rows::U8(rows.view(*scale)),
            Features::Sparse(sparse) => Rows::Sparse(SparseRows {
                offsets: &sparse.offsets,
                indices: &sparse.indices,
                values: &sparse.values,
                columns: sparse.columns,
            }),
        }
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// There are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Features a row, d.
    pub fn columns(&self) -> usize {
        self.rows().columns()
    }

    /// Values held: n·d for dense rows, the stored ones (explicit zeros included) for sparse rows.
    pub fn stored(&self) -> usize {
        match self {
            Features::F32 { values, .. } => values.len(),
            Features::U8 { rows, .. } => rows.stored(),
            Features::Sparse(sparse) => sparse.values.len(),
        }
    }

    /// Bytes of a matrix of this format with `rows` rows and `stored` values, without gaps between rows.
    pub(super) fn bytes_of(&self, rows: usize, stored: usize) -> usize {
        match self {
            Features::F32 { .. } => 4 * stored,
            Features::U8 { .. } => stored,
            Features::Sparse(_) => 8 * stored + size_of::<usize>() * (rows + 1),
        }
    }

    /// The format in a domain's words.
    pub fn storage(&self) -> Storage {
        match self {
            Features::F32 { .. } => Storage::Dense,
            Features::U8 { .. } => Storage::Bytes,
            Features::Sparse(_) => Storage::Sparse,
        }
    }

    /// The format's name in tables and in the digest.
    pub fn format(&self) -> &'static str {
        match self {
            Features::F32 { .. } => "f32",
            Features::U8 { .. } => "u8",
            Features::Sparse(_) => "sparse-f32",
        }
    }

    /// Sets the features of the rows for which `is_null` holds to 0; sparse rows lose their stored values.
    pub(crate) fn clear_rows(&mut self, is_null: impl Fn(usize) -> bool) {
        let mut null = (0..self.len()).filter(|&row| is_null(row));
        match self {
            Features::F32 { values, columns } => {
                null.for_each(|row| values[row * *columns..(row + 1) * *columns].fill(0.0));
            }
            Features::U8 { rows, .. } => {
                let (memory, stride) = rows.memory_mut();
                null.for_each(|row| memory[row * stride..(row + 1) * stride].fill(0));
            }
            Features::Sparse(sparse) => {
                if let Some(first) = null.next() {
                    sparse.clear_rows(first, &is_null);
                }
            }
        }
    }

    /// The same features as dense f32 rows, `None` if they cannot be addressed.
    pub(super) fn into_f32(self) -> Option<Self> {
        match self {
            dense @ Features::F32 { .. } => Some(dense),
            Features::U8 { rows, scale } => {
                let mut values = Buffer::zeroed(rows.stored());
                for (value, &byte) in values.iter_mut().zip(rows.iter().flatten()) {
                    *value = scale * f32::from(byte);
                }
                Some(Features::f32(values, rows.columns()))
            }
            Features::Sparse(sparse) => sparse.to_dense(),
        }
    }

    /// Copies of the rows `rows`, in their order.
    pub(super) fn select(&self, rows: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut selected = self.emptied();
        match (&mut selected, self) {
            (Features::F32 { values, columns }, Features::F32 { values: all, .. }) => {
                values.reserve_exact(rows.len() * *columns);
                for row in rows {
                    values.extend_from_slice(&all[row * *columns..(row + 1) * *columns]);
                }
            }
            (Features::U8 { rows: bytes, .. }, Features::U8 { rows: all, .. }) => {
                let (memory, stride) = all.memory();
                bytes.reserve_exact(rows.len() * all.columns());
                for row in rows {
                    bytes.extend_from_slice(&memory[row * stride..][..all.columns()]);
                }
            }
            (Features::Sparse(sparse), Features::Sparse(all)) => {
                for row in rows {
                    let stored = all.row(row);
                    let indices = all.indices[stored.clone()].iter().copied();
                    sparse.push_row(indices.zip(all.values[stored].iter().copied()));
                }
            }
            _ => unreachable!("an emptied copy has the same format"),
        }
        selected
    }

    /// The rows `rows`, in their order: dense rows move within their memory, sparse ones, of other lengths each, are copied.
    pub(super) fn into_order(mut self, rows: &[usize]) -> Self {
        match &mut self {
            Features::F32 { values, columns } => reorder(values, *columns, rows),
            Features::U8 { rows: bytes, .. } => {
                let (memory, stride) = bytes.memory_mut();
                reorder(memory, stride, rows);
            }
            Features::Sparse(_) => return self.select(rows.iter().copied()),
        }
        self.truncate(rows.len());
        self
    }

    /// Keeps the first `rows` rows, and the memory.
    pub(super) fn truncate(&mut self, rows: usize) {
        match self {
            Features::F32 { values, columns } => values.truncate(rows * *columns),
            Features::U8 { rows: all, .. } => all.truncate(rows),
            Features::Sparse(sparse) => sparse.truncate(rows),
        }
    }

    /// Appends rows.
    ///
    /// # Panics
    /// Rows of another format.
    pub(super) fn append(&mut self, other: &Self) {
        match (self, other) {
            (Features::U8 { rows, .. }, Features::U8 { rows: new, .. }) => rows.append(new),
            (Features::F32 { values, .. }, Features::F32 { values: new, .. }) => values.extend_from_slice(new),
            (Features::Sparse(sparse), Features::Sparse(new)) => sparse.append(new),
            _ => unreachable!("all rows of a data set have one format"),
        }
    }

    /// Checks that these are finite rows.
    pub(super) fn check(&self) -> Result<(), DatasetError> {
        let columns = self.columns();
        if columns == 0 {
            return fault("", "its rows have no features; at least one column is needed");
        }
        if self.is_empty() && self.stored() == 0 {
            return fault("", "it has no rows; at least one is needed");
        }
        for (what, found) in [("columns", columns), ("rows", self.len())] {
            check_addressable(what, found)?;
        }
        let non_finite = |row, column, value: f32| {
            let problem = format!("the feature is {value}; features are finite (remove the row or fill the value in)");
            fault(format!(", row {}, column {} (counted from 1)", row + 1, column + 1), problem)
        };
        match self {
            Features::F32 { .. } | Features::U8 { .. } if !self.stored().is_multiple_of(columns) => {
                let values = self.stored();
                let problem =
                    format!("{values} values do not fill rows of {columns} features; the last row is incomplete");
                fault("", problem)
            }
            Features::F32 { values, .. } => match first_non_finite(values) {
                Some(entry) => non_finite(entry / columns, entry % columns, values[entry]),
                None => Ok(()),
            },
            Features::U8 { scale, .. } => {
                check_positive("scale", f64::from(*scale))?;
                check_positive("scale of the largest byte", f64::from(255.0 * scale))
            }
            Features::Sparse(sparse) => {
                sparse.check()?;
                match first_non_finite(&sparse.values) {
                    Some(entry) => {
                        let row = sparse.offsets.partition_point(|&offset| offset <= entry) - 1;
                        non_finite(row, sparse.indices[entry] as usize, sparse.values[entry])
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl SparseMatrix {
    /// Checks offsets and columns.
    fn check(&self) -> Result<(), DatasetError> {
        let (offsets, stored) = (&self.offsets, self.values.len());
        let rows = offsets.len().saturating_sub(1);
        if rows == 0 {
            return fault("", "it has no rows; at least one is needed");
        }
        for row in 0..rows {
            let (start, end) = (offsets[row], offsets[row + 1]);
            let first_is_zero = row > 0 || start == 0;
            let last_is_stored = row + 1 < rows || end == stored;
            if !first_is_zero || !last_is_stored || start > end || end > stored || self.indices.len() != stored {
                let stored = stored.min(self.indices.len());
                let problem = format!(
                    "its offsets {start}..{end} do not lie in order within {stored} stored values; offsets start at 0, never \
                     fall and end at the number of stored values"
                );
                return fault(place(row), problem);
            }
            let indices = &self.indices[start..end];
            let descending = indices.windows(2).find(|pair| pair[0] >= pair[1]).map(|pair| &pair[1]);
            let outside = indices.last().filter(|&&column| column as usize >= self.columns);
            if let Some(column) = descending.or(outside) {
                let problem = format!(
                    "column {} is repeated, out of order or beyond {}; columns of a row ascend strictly",
                    u64::from(*column) + 1,
                    self.columns
                );
                return fault(place(row), problem);
            }
        }
        Ok(())
    }
}

/// The prediction targets.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// A class in `0..classes` for each row.
    Classes {
        /// One class a row, [`NULL_CLASS`] of a null row.
        values: Vec<u32>,
        /// Number of classes K.
        classes: usize,
        /// Names of the K classes, where the file has them.
        names: Option<Vec<String>>,
    },
    /// A real for each row, NaN of a null row.
    Values(Vec<f32>),
}

impl Labels {
    /// Classes 0 … K − 1 without names.
    pub fn numbered(values: Vec<u32>, classes: usize) -> Self {
        Labels::Classes { values, classes, names: None }
    }

    /// The labels as the kernels read them.
    pub fn targets(&self) -> Targets<'_> {
        match self {
            Labels::Classes { values, .. } => Targets::Classes(values),
            Labels::Values(values) => Targets::Values(values),
        }
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.targets().len()
    }

    /// There are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of classes K, or `None` for real targets.
    pub fn classes(&self) -> Option<usize> {
        match self {
            Labels::Classes { classes, .. } => Some(*classes),
            Labels::Values(_) => None,
        }
    }

    /// The names of the classes: their numbers, where the file has none; `None` for real targets.
    pub fn class_names(&self) -> Option<Vec<String>> {
        match self {
            Labels::Classes { names: Some(names), .. } => Some(names.clone()),
            Labels::Classes { classes, .. } => Some((0..*classes).map(|class| class.to_string()).collect()),
            Labels::Values(_) => None,
        }
    }

    /// Copies of the labels of `rows`, in their order.
    pub(super) fn select(&self, rows: impl Iterator<Item = usize>) -> Self {
        match self {
            Labels::Classes { values, classes, names } => Labels::Classes {
                values: rows.map(|row| values[row]).collect(),
                classes: *classes,
                names: names.clone(),
            },
            Labels::Values(values) => Labels::Values(rows.map(|row| values[row]).collect()),
        }
    }

    /// Keeps the first `rows` labels, and the memory.
    pub(super) fn truncate(&mut self, rows: usize) {
        match self {
            Labels::Classes { values, .. } => values.truncate(rows),
            Labels::Values(values) => values.truncate(rows),
        }
    }

    /// Appends the labels of `rows` of `all`.
    ///
    /// # Panics
    /// Labels of another kind.
    pub(super) fn extend_from(&mut self, all: &Self, rows: &[u32]) {
        match (self, all) {
            (Labels::Classes { values, .. }, Labels::Classes { values: all, .. }) => {
                values.extend(rows.iter().map(|&row| all[row as usize]));
            }
            (Labels::Values(values), Labels::Values(all)) => values.extend(rows.iter().map(|&row| all[row as usize])),
            _ => unreachable!("all rows of a data set have one kind of label"),
        }
    }

    /// Checks that classes are in range and targets not infinite.
    pub(super) fn check(&self) -> Result<(), DatasetError> {
        match self {
            Labels::Classes { values, classes, names } => {
                check_addressable("classes", *classes)?;
                let is_class = |label: u32| (label as usize) < *classes || label == NULL_CLASS;
                if let Some(row) = values.iter().position(|&label| !is_class(label)) {
                    let label = values[row];
                    let problem = format!("class {label} is not below the number of classes, {classes}");
                    return fault(place(row), problem);
                }
                match names.as_ref().map(Vec::len).filter(|names| names != classes) {
                    Some(names) => {
                        let problem =
                            format!("{names} class names for {classes} classes; give one name a class, or none");
                        fault("", problem)
                    }
                    None => Ok(()),
                }
            }
            Labels::Values(values) => match values.iter().position(|value| value.is_infinite()) {
                Some(row) => {
                    let problem = format!("the target is {}; targets are finite (remove the row)", values[row]);
                    fault(place(row), problem)
                }
                None => Ok(()),
            },
        }
    }
}

/// The place of a row in a message: rows and columns count from 1 there, as lines do in an editor; a header is no row.
fn place(row: usize) -> String {
    format!(", row {} (counted from 1)", row + 1)
}

/// The refusal of rows or labels, withheld; `place` begins with a comma.
pub(super) fn fault<T>(place: impl Display, problem: impl Display) -> Result<T, DatasetError> {
    Err(DatasetError::Rows { name: String::new(), found: Withheld::new(format_args!("{place}: {problem}")) })
}

/// The refusal of an argument.
pub(super) fn argument<T>(problem: String) -> Result<T, DatasetError> {
    Err(DatasetError::Argument { name: String::new(), problem })
}

fn check_addressable(what: &str, found: usize) -> Result<(), DatasetError> {
    let limit = u32::MAX as usize;
    if found <= limit {
        return Ok(());
    }
    let problem = format!("{found} {what} are more than the {limit} that 32-bit indices address; split the data");
    fault("", problem)
}

/// Checks that `what` is a positive finite number.
pub(super) fn check_positive(what: &str, value: f64) -> Result<(), DatasetError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    argument(format!("the {what} is {value}; it must be a positive, finite number"))
}

/// Index of the first NaN or infinity.
fn first_non_finite(values: &[f32]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let blocks = 4096;
    let block = values
        .chunks(blocks)
        .position(|block| block.iter().fold(false, |bad, value| bad | (value.to_bits() & EXPONENT == EXPONENT)))?;
    let start = block * blocks;
    values[start..].iter().position(|value| !value.is_finite()).map(|offset| start + offset)
}

/// Moves the distinct rows `order`, of `stride` values each, to the front, in that order. Each cycle of the permutation passes
/// through memory of one row; rows that are not named fill the places behind.
fn reorder<T: Copy>(values: &mut [T], stride: usize, order: &[usize]) {
    let mut left = vec![true; values.len() / stride];
    order.iter().for_each(|&row| left[row] = false);
    let others = (0..left.len()).filter(|&row| left[row]);
    let order: Vec<usize> = order.iter().copied().chain(others).collect();
    let mut placed = vec![false; order.len()];
    for start in 0..order.len() {
        if placed[start] || order[start] == start {
            continue;
        }
        let held = values[start * stride..][..stride].to_vec();
        let mut place = start;
        while order[place] != start {
            let from = order[place] * stride;
            values.copy_within(from..from + stride, place * stride);
            placed[place] = true;
            place = order[place];
        }
        values[place * stride..][..stride].copy_from_slice(&held);
        placed[place] = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_ordered_in_their_memory_are_the_copies_in_that_order(
            order in (1_usize..60).prop_flat_map(|rows| Just((0..rows).collect::<Vec<_>>()).prop_shuffle()),
            kept in 0.1_f64..1.0,
        ) {
            let rows = order.len();
            let dense = Features::f32((0..3 * rows).map(|value| value as f32).collect::<Vec<_>>(), 3);
            let mut bytes = ByteRows::zeroed(rows, 70);
            let (memory, stride) = bytes.memory_mut();
            memory.chunks_mut(stride).enumerate().for_each(|(row, bytes)| bytes[..70].fill(row as u8));
            let bytes = Features::U8 { rows: bytes, scale: 1.0 };
            for order in [&order[..], &order[..(kept * rows as f64).ceil() as usize]] {
                for features in [&dense, &bytes] {
                    prop_assert_eq!(features.clone().into_order(order), features.select(order.iter().copied()));
                }
            }
        }
    }
}

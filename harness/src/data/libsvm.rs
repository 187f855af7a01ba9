//! LIBSVM text: a line `label index:value index:value …` a row, indices ascending from 1. Plain, gzip or xz; `#` starts a
//! comment. Sparse rows stay sparse.

use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::lines::{BadLine, excerpt, parse_blocks};
use crate::data::number;
use crate::data::room::reserve;
use crate::data::source::{Progress, Source};
use rounds_algorithms::problem::{Buffer, Features};
use std::path::Path;

/// How rows are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Dense if at least half of the values of the first block (256 KiB) are stored, when dense rows are the smaller ones;
    /// sparse otherwise.
    #[default]
    Automatic,
    /// Compressed sparse rows; explicit zeros are kept.
    Sparse,
    /// Dense f32 rows.
    Dense,
}

/// What the file does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibsvmOptions {
    /// How rows are kept.
    pub storage: Storage,
    /// Features a row. Without it, the largest index of the file.
    pub columns: Option<usize>,
    /// The index of the first feature: 1, as LIBSVM writes it, or 0.
    pub first_index: u32,
}

impl Default for LibsvmOptions {
    fn default() -> Self {
        Self {
            storage: Storage::Automatic,
            columns: None,
            first_index: 1,
        }
    }
}

/// Undeclared columns may be so many …
const FREE_COLUMNS: usize = 1 << 20;
/// … or so many times the stored values, if that is more: a larger index is a damaged one.
const COLUMNS_A_VALUE: usize = 16;
/// Dense rows may take so many times the bytes of their text when they were asked for …
const DENSE_EXPANSION: u128 = 1000;
/// … so many when they were chosen here …
const CHOSEN_DENSE_EXPANSION: u128 = 10;
/// … and so many bytes in any case.
const DENSE_FLOOR: u128 = 1 << 20;

/// Reads a file.
///
/// # Errors
/// Missing or damaged files; lines that are not LIBSVM; indices that do not ascend, start below the first or lie beyond the
/// declared columns; values that are NaN or infinite; an index so large that the file cannot mean it.
pub fn read(path: &Path, options: LibsvmOptions) -> Result<(Features, RawLabels), DataError> {
    match read_as(path, options) {
        // What was taken for dense from its start is sparse further on.
        Err(DataError::TooWide { .. }) if options.storage == Storage::Automatic => read_as(
            path,
            LibsvmOptions {
                storage: Storage::Sparse,
                ..options
            },
        ),
        result => result,
    }
}

fn read_as(path: &Path, options: LibsvmOptions) -> Result<(Features, RawLabels), DataError> {
    let mut labels = Vec::new();
    let mut text_bytes = 0;
    let mut matrix = None;
    let parse = |text: &[u8]| parse_block(text, options.first_index, options.columns);
    parse_blocks(Source::open(path)?, Vec::new(), 0, parse, |part, progress| {
        reserve(&mut labels, part.labels.len(), progress);
        labels.extend_from_slice(&part.labels);
        text_bytes += part.text_bytes;
        let matrix = matrix.get_or_insert_with(|| Matrix::for_rows_like(&part, options));
        match matrix {
            Matrix::Sparse(sparse) => sparse.append(&part, progress),
            Matrix::Dense(dense) => {
                let columns = dense.columns.max(part.columns);
                let bytes = 4 * labels.len() as u128 * columns as u128;
                let expansion = match options.storage {
                    Storage::Dense => DENSE_EXPANSION,
                    Storage::Automatic | Storage::Sparse => CHOSEN_DENSE_EXPANSION,
                };
                if bytes > DENSE_FLOOR.max(expansion * text_bytes as u128) {
                    return Err(DataError::TooWide {
                        path: path.into(),
                        rows: labels.len(),
                        columns,
                        storage: "as dense f32",
                        bytes,
                        way_out: "keep it sparse, or mend the index if it is a damaged one",
                    });
                }
                dense.append(&part, columns, progress);
            }
        }
        Ok(())
    })?;
    labels.shrink_to_fit();
    let rows = labels.len();
    let features = match matrix {
        None => Features::f32(Buffer::new(), 1),
        Some(Matrix::Dense(dense)) => Features::f32(dense.values, dense.columns),
        Some(Matrix::Sparse(mut sparse)) => {
            let (columns, stored) = (sparse.columns, sparse.values.len());
            if options.columns.is_none() && columns > FREE_COLUMNS.max(COLUMNS_A_VALUE * stored) {
                return Err(DataError::TooWide {
                    path: path.into(),
                    rows,
                    columns,
                    storage: "(the largest index) make a model that",
                    bytes: 4 * columns as u128,
                    way_out: "if the index is not a damaged one, declare the number of columns",
                });
            }
            sparse.offsets.shrink_to_fit();
            sparse.indices.shrink_to_fit();
            sparse.values.shrink_to_fit();
            let Sparse {
                offsets,
                indices,
                values,
                columns,
            } = sparse;
            Features::Sparse {
                offsets,
                indices,
                values,
                columns,
            }
        }
    };
    Ok((features, RawLabels::Numbers(labels)))
}

/// Rows parsed from one block.
#[derive(Default)]
struct Part {
    text_bytes: usize,
    labels: Vec<f32>,
    /// Where each row ends in `indices` and `values`.
    ends: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    /// The largest index plus one, or the declared number of columns.
    columns: usize,
}

/// Rows collected so far.
enum Matrix {
    Sparse(Sparse),
    Dense(Dense),
}

impl Matrix {
    /// Dense if it was asked for, or if `part`, the first one, is at least half full.
    fn for_rows_like(part: &Part, options: LibsvmOptions) -> Self {
        let dense = match options.storage {
            Storage::Dense => true,
            Storage::Sparse => false,
            Storage::Automatic => {
                !part.values.is_empty()
                    && 2 * part.values.len() as u128 >= part.labels.len() as u128 * part.columns as u128
            }
        };
        if dense {
            Self::Dense(Dense {
                values: Buffer::new(),
                columns: part.columns,
            })
        } else {
            Self::Sparse(Sparse {
                offsets: vec![0],
                indices: Vec::new(),
                values: Vec::new(),
                columns: part.columns,
            })
        }
    }
}

struct Sparse {
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    columns: usize,
}

impl Sparse {
    fn append(&mut self, part: &Part, progress: Progress) {
        let stored = self.values.len();
        reserve(&mut self.offsets, part.ends.len(), progress);
        self.offsets.extend(part.ends.iter().map(|end| stored + end));
        reserve(&mut self.indices, part.indices.len(), progress);
        self.indices.extend_from_slice(&part.indices);
        reserve(&mut self.values, part.values.len(), progress);
        self.values.extend_from_slice(&part.values);
        self.columns = self.columns.max(part.columns);
    }
}

struct Dense {
    values: Buffer<f32>,
    columns: usize,
}

impl Dense {
    fn append(&mut self, part: &Part, columns: usize, progress: Progress) {
        self.widen(columns);
        if columns == 0 {
            return;
        }
        let filled = self.values.len();
        let more = part.labels.len() * columns;
        reserve(&mut self.values, more, progress);
        self.values.extend_zeros(more);
        let mut start = 0;
        for (row, &end) in self.values[filled..].chunks_exact_mut(columns).zip(&part.ends) {
            for (&index, &value) in part.indices[start..end].iter().zip(&part.values[start..end]) {
                row[index as usize] = value;
            }
            start = end;
        }
    }

    /// Gives every row more columns, all zero.
    fn widen(&mut self, columns: usize) {
        let before = std::mem::replace(&mut self.columns, columns);
        if before == columns || self.values.is_empty() {
            return;
        }
        let rows = self.values.len() / before;
        self.values.extend_zeros(rows * (columns - before));
        // From the last row on: a row's new place starts at or after its old one and is free by then.
        for row in (0..rows).rev() {
            self.values.copy_within(row * before..(row + 1) * before, row * columns);
            self.values[row * columns + before..(row + 1) * columns].fill(0.0);
        }
    }
}

/// Parses whole lines.
fn parse_block(text: &[u8], first_index: u32, declared: Option<usize>) -> Result<(Part, usize), BadLine> {
    let mut part = Part {
        text_bytes: text.len(),
        ..Part::default()
    };
    part.indices.reserve(text.len() / 8);
    part.values.reserve(text.len() / 8);
    let limit = declared.unwrap_or(u32::MAX as usize - 1);
    let mut columns = 0;
    let mut line = 0;
    let mut at = 0;
    while at < text.len() {
        at = blanks(text, at);
        if let Some(after) = end_of_line(text, at) {
            (at, line) = (after, line + 1);
            continue;
        }
        let (label, length) = number::scan(&text[at..]).unwrap_or((0.0, 0));
        let after = at + length;
        if length == 0 || !ends_field(text, after) {
            return Err(bad_label(text, at, line));
        }
        if !label.is_finite() {
            return Err(BadLine::new(line, "a finite label", excerpt(field(text, at))));
        }
        part.labels.push(label);
        at = after;
        // The next index may not be below this.
        let mut lowest = first_index;
        loop {
            at = blanks(text, at);
            if let Some(after) = end_of_line(text, at) {
                (at, line) = (after, line + 1);
                break;
            }
            let start = at;
            let mut index = 0u64;
            while let Some(digit) = text
                .get(at)
                .map(|byte| byte.wrapping_sub(b'0'))
                .filter(|&digit| digit < 10)
            {
                index = (index * 10 + u64::from(digit)).min(1 << 40);
                at += 1;
            }
            if at == start || text.get(at) != Some(&b':') {
                return Err(BadLine::new(
                    line,
                    "index:value with a whole number as the index",
                    excerpt(field(text, start)),
                ));
            }
            if index < u64::from(lowest) || (index - u64::from(first_index)) as usize >= limit {
                return Err(bad_index(index, lowest, first_index, limit, line));
            }
            at += 1;
            let Some((value, length)) = number::scan(&text[at..]).filter(|&(_, length)| ends_field(text, at + length))
            else {
                return Err(BadLine::new(
                    line,
                    "a number after index and colon",
                    excerpt(field(text, start)),
                ));
            };
            if !value.is_finite() {
                return Err(BadLine::new(
                    line,
                    "a finite value that f32 can hold",
                    excerpt(field(text, start)),
                ));
            }
            at += length;
            lowest = index as u32 + 1;
            part.indices.push(index as u32 - first_index);
            part.values.push(value);
        }
        columns = columns.max(lowest - first_index);
        part.ends.push(part.values.len());
    }
    part.columns = declared.unwrap_or(columns as usize);
    Ok((part, line))
}

#[inline]
fn blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

/// Where the next line starts, if only a comment or nothing is left of this one.
#[inline]
fn end_of_line(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at) {
        Some(b'\n') => Some(at + 1),
        Some(b'#') => Some(
            text[at..]
                .iter()
                .position(|&byte| byte == b'\n')
                .map_or(text.len(), |length| at + length + 1),
        ),
        None => Some(at),
        _ => None,
    }
}

#[inline]
fn ends_field(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), None | Some(b' ' | b'\n' | b'\t' | b'\r'))
}

/// The text up to the next blank.
fn field(text: &[u8], at: usize) -> &[u8] {
    let end = text[at..]
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(text.len() - at);
    &text[at..at + end]
}

#[cold]
fn bad_label(text: &[u8], at: usize, line: usize) -> BadLine {
    let label = field(text, at);
    let expected = if label.contains(&b',') {
        "one number as the label (data with several labels a row is not supported)"
    } else if label.contains(&b':') {
        "a number as the label before the first index:value"
    } else {
        "a finite number as the label (LIBSVM text: label index:value …)"
    };
    BadLine::new(line, expected, excerpt(label))
}

#[cold]
fn bad_index(index: u64, lowest: u32, first_index: u32, limit: usize, line: usize) -> BadLine {
    let found = format!("index {index}");
    if index < u64::from(first_index) {
        BadLine::new(
            line,
            "indices that count from 1 (declare 0 as the first index if they count from 0)",
            found,
        )
    } else if index < u64::from(lowest) {
        let expected = format!("an index of at least {lowest}: the indices of a row ascend and none is repeated");
        BadLine::new(line, expected, found)
    } else {
        let last = limit as u64 - 1 + u64::from(first_index);
        BadLine::new(line, format!("an index of at most {last}, the last column"), found)
    }
}

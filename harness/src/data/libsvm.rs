//! LIBSVM text: a line `label index:value index:value …` a row, indices ascending from 1. Plain, gzip or xz; `#` starts a
//! comment. Sparse rows stay sparse.

use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::lines::{BadLine, excerpt, parse_blocks};
use crate::data::number;
use crate::data::room::reserve;
use crate::data::source::{Progress, Source};
use rounds_algorithms::problem::{self, Buffer, Domain, Encoder, Features, Labels};
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
/// Dense rows of declared columns take no more.
const DECLARED_DENSE: u128 = 1 << 38;
/// Indices are counted so far.
const LAST_INDEX: u64 = 1 << 40;

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

/// Reads a file into `domain`, of unnamed columns: values are mapped, those beyond the columns dropped, labels looked up. NaN
/// and infinities may be written as words.
///
/// # Errors
/// Missing or damaged files, and text that is not LIBSVM: tokens other than `index:value`, indices that do not ascend from 1.
/// No value, index or label is refused.
pub fn read_into(path: &Path, domain: &Domain) -> Result<(Features, Labels), DataError> {
    let (encoder, columns) = (Encoder::new(domain), domain.features());
    let mut codes = Vec::new();
    let mut matrix = if domain.storage == problem::Storage::Sparse {
        Matrix::Sparse(Sparse::new(columns))
    } else {
        Matrix::Dense(Dense::new(columns))
    };
    let parse = |text: &[u8]| parse_block(text, 1, Some(columns), Some(&encoder));
    parse_blocks(Source::open(path)?, Vec::new(), 0, parse, |part, progress| {
        reserve(&mut codes, part.labels.len(), progress);
        codes.extend_from_slice(&part.labels);
        match &mut matrix {
            Matrix::Sparse(sparse) => sparse.append(&part, progress),
            Matrix::Dense(dense) => {
                check_dense(path, codes.len(), columns, DECLARED_DENSE)?;
                dense.append(&part, columns, progress);
            }
        }
        Ok(())
    })?;
    codes.shrink_to_fit();
    Ok(encoder.finish(encoder.matrix(matrix.into_features()), codes))
}

/// Refuses dense rows that take more than `limit` bytes.
fn check_dense(path: &Path, rows: usize, columns: usize, limit: u128) -> Result<(), DataError> {
    let bytes = 4 * rows as u128 * columns as u128;
    if bytes <= limit {
        return Ok(());
    }
    Err(DataError::TooWide {
        path: path.into(),
        rows,
        columns,
        storage: "as dense f32",
        bytes,
        way_out: "keep it sparse, or mend the index if it is a damaged one",
    })
}

fn read_as(path: &Path, options: LibsvmOptions) -> Result<(Features, RawLabels), DataError> {
    let mut labels = Vec::new();
    let mut text_bytes = 0;
    let mut matrix = None;
    let parse = |text: &[u8]| parse_block(text, options.first_index, options.columns, None);
    parse_blocks(Source::open(path)?, Vec::new(), 0, parse, |part, progress| {
        reserve(&mut labels, part.labels.len(), progress);
        labels.extend(part.labels.iter().copied().map(f32::from_bits));
        text_bytes += part.text_bytes;
        let matrix = matrix.get_or_insert_with(|| Matrix::for_rows_like(&part, options));
        match matrix {
            Matrix::Sparse(sparse) => sparse.append(&part, progress),
            Matrix::Dense(dense) => {
                let columns = dense.columns.max(part.columns);
                let expansion = match options.storage {
                    Storage::Dense => DENSE_EXPANSION,
                    Storage::Automatic | Storage::Sparse => CHOSEN_DENSE_EXPANSION,
                };
                let limit = DENSE_FLOOR.max(expansion * text_bytes as u128);
                check_dense(path, labels.len(), columns, limit)?;
                dense.append(&part, columns, progress);
            }
        }
        Ok(())
    })?;
    labels.shrink_to_fit();
    let rows = labels.len();
    let features = matrix.map_or_else(|| Features::f32(Buffer::new(), 1), Matrix::into_features);
    if let Features::Sparse { values, columns, .. } = &features {
        let (columns, stored) = (*columns, values.len());
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
    }
    Ok((features, RawLabels::Numbers(labels)))
}

/// Rows parsed from one block.
#[derive(Default)]
struct Part {
    text_bytes: usize,
    /// The bits of each number, or its code in a domain.
    labels: Vec<u32>,
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
            Self::Dense(Dense::new(part.columns))
        } else {
            Self::Sparse(Sparse::new(part.columns))
        }
    }

    fn into_features(self) -> Features {
        match self {
            Matrix::Dense(dense) => Features::f32(dense.values, dense.columns),
            Matrix::Sparse(Sparse {
                mut offsets,
                mut indices,
                mut values,
                columns,
            }) => {
                offsets.shrink_to_fit();
                indices.shrink_to_fit();
                values.shrink_to_fit();
                Features::Sparse {
                    offsets,
                    indices,
                    values,
                    columns,
                }
            }
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
    fn new(columns: usize) -> Self {
        Self {
            offsets: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
            columns,
        }
    }

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
    fn new(columns: usize) -> Self {
        Self {
            values: Buffer::new(),
            columns,
        }
    }

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

/// Parses whole lines. With an `encoder` any value and label is taken, and values beyond the declared columns are dropped.
fn parse_block(
    text: &[u8],
    first_index: u32,
    declared: Option<usize>,
    encoder: Option<&Encoder<'_>>,
) -> Result<(Part, usize), BadLine> {
    let mut part = Part {
        text_bytes: text.len(),
        ..Part::default()
    };
    part.indices.reserve(text.len() / 8);
    part.values.reserve(text.len() / 8);
    let limit = declared.unwrap_or(u32::MAX as usize - 1);
    let first_index = u64::from(first_index);
    let mut columns = 0;
    let mut line = 0;
    let mut at = 0;
    while at < text.len() {
        at = blanks(text, at);
        if let Some(after) = end_of_line(text, at) {
            (at, line) = (after, line + 1);
            continue;
        }
        let scanned = number::scan(&text[at..]).filter(|&(_, length)| ends_field(text, at + length));
        let (label, length) = match (scanned, encoder) {
            (Some((label, length)), Some(encoder)) => (encoder.label_number(f64::from(label)), length),
            (Some((label, length)), None) if label.is_finite() => (label.to_bits(), length),
            (Some(_), None) => return Err(BadLine::new(line, "a finite label", excerpt(field(text, at)))),
            (None, Some(encoder)) if !field(text, at).contains(&b':') => {
                let word = field(text, at);
                (encoder.label(word), word.len())
            }
            (None, _) => return Err(bad_label(text, at, line)),
        };
        part.labels.push(label);
        at += length;
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
                index = (index * 10 + u64::from(digit)).min(LAST_INDEX);
                at += 1;
            }
            if at == start || text.get(at) != Some(&b':') {
                return Err(BadLine::new(
                    line,
                    "index:value with a whole number as the index",
                    excerpt(field(text, start)),
                ));
            }
            let beyond = (index.saturating_sub(first_index)) as usize >= limit;
            if index < lowest || (beyond && encoder.is_none()) {
                return Err(bad_index(index, lowest, first_index, limit, line));
            }
            at += 1;
            let scanned = number::scan(&text[at..]).filter(|&(_, length)| ends_field(text, at + length));
            let Some((value, length)) = scanned.or_else(|| encoder.and_then(|_| not_finite(field(text, at)))) else {
                return Err(BadLine::new(
                    line,
                    "a number after index and colon",
                    excerpt(field(text, start)),
                ));
            };
            if !value.is_finite() && encoder.is_none() {
                return Err(BadLine::new(
                    line,
                    "a finite value that f32 can hold",
                    excerpt(field(text, start)),
                ));
            }
            at += length;
            // Of the indices that count no further, one may follow the other.
            lowest = (index + 1).min(LAST_INDEX);
            if !beyond {
                part.indices.push((index - first_index) as u32);
                part.values.push(value);
            }
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

/// A word for NaN or an infinity, and its length.
#[cold]
fn not_finite(field: &[u8]) -> Option<(f32, usize)> {
    let value: f32 = std::str::from_utf8(field).ok()?.parse().ok()?;
    (!value.is_finite()).then_some((value, field.len()))
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
fn bad_index(index: u64, lowest: u64, first_index: u64, limit: usize, line: usize) -> BadLine {
    let found = format!("index {index}");
    if index < first_index {
        BadLine::new(
            line,
            "indices that count from 1 (declare 0 as the first index if they count from 0)",
            found,
        )
    } else if index < lowest {
        let expected = format!("an index of at least {lowest}: the indices of a row ascend and none is repeated");
        BadLine::new(line, expected, found)
    } else {
        let last = limit as u64 - 1 + first_index;
        BadLine::new(line, format!("an index of at most {last}, the last column"), found)
    }
}

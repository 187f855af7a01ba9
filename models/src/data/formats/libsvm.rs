//! LIBSVM text: one row a line, `label index:value index:value …`, indices ascending from 1, or from 0 if that is asked for. Plain, gzip or xz; `#` starts a
//! comment. Sparse rows stay sparse.

use crate::data::capacity::reserve;
use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::lines::{BadLine, excerpt, parse_blocks};
use crate::data::number;
use crate::data::request::Request;
use crate::data::source::{Progress, Source};
use crate::data::table::{Table, check_unnamed};
use rounds_algorithms::problem::{Buffer, Domain, Encoder, Features, SparseMatrix, Storage};
use std::path::Path;

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

/// The shape of undeclared rows, as far as it is known before they are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Dense or sparse. Without it dense if at least half of the values of the first block (256 KiB) are stored, when dense rows
    /// are the smaller ones; explicit zeros of sparse rows are kept.
    storage: Option<Storage>,
    /// Features a row. Without it, as many as the largest index of the file says.
    columns: Option<usize>,
    /// The index of the first feature.
    first: u64,
}

impl Shape {
    /// Rows in any storage.
    pub(super) fn new(request: Request<'_>) -> Self {
        Self { storage: None, columns: request.columns, first: request.first_index.unwrap_or(1) }
    }

    /// The shape of test rows, which are stored as the training rows `train` are. The columns of sparse ones may be more.
    pub(super) fn like(self, train: &Features) -> Self {
        let storage = train.storage();
        Self {
            storage: Some(storage),
            columns: match storage {
                Storage::Sparse => self.columns,
                _ => Some(train.columns()),
            },
            ..self
        }
    }
}

/// Reads a file. In `domain`, of unnamed columns, values are mapped, those beyond the columns dropped, labels looked up; NaN
/// and infinities may be written as words. Without it the rows have `shape`.
///
/// # Errors
/// Missing or damaged files, and text that is not LIBSVM: tokens other than `index:value`, indices that do not ascend from the first one.
/// In a domain no value, index or label is refused. Without one indices beyond the known columns; values that are NaN or
/// infinite; an index so large that the file cannot mean it.
pub(super) fn read(path: &Path, domain: Option<&Domain>, shape: Shape) -> Result<Table, DataError> {
    if let Some(domain) = domain {
        check_unnamed(path, domain)?;
        let shape = Shape { storage: Some(domain.storage), columns: Some(domain.features()), ..shape };
        let encoder = Encoder::new(domain);
        let rows = read_rows(path, shape, DECLARED_DENSE, Some(&encoder))?;
        let (features, labels) = rows.ok_or_else(|| too_wide(path, domain.features()))?;
        return Ok(Table::of_file(path, encoder.matrix(features), RawLabels::Encoded(labels)));
    }
    let expansion = match shape.storage {
        None => CHOSEN_DENSE_EXPANSION,
        Some(_) => DENSE_EXPANSION,
    };
    let (features, labels) = match read_rows(path, shape, expansion, None)? {
        Some(rows) => rows,
        None if shape.storage.is_some() => return Err(too_wide(path, shape.columns.unwrap_or(0))),
        None => {
            // The file begins dense and continues sparse.
            let storage = Some(Storage::Sparse);
            read_rows(path, Shape { storage, ..shape }, expansion, None)?.expect("sparse rows have no limit")
        }
    };
    if let Features::Sparse(SparseMatrix { values, columns, .. }) = &features
        && shape.columns.is_none()
        && *columns > FREE_COLUMNS.max(COLUMNS_A_VALUE * values.len())
    {
        let problem = format!(
            "the largest index, {columns}, makes a model of far more memory than the file holds; if it is not a damaged one, \
             declare the number of columns"
        );
        return Err(DataError::contents(path, problem));
    }
    let labels = labels.into_iter().map(f32::from_bits).collect();
    Ok(Table::of_file(path, features, RawLabels::Numbers(labels)))
}

fn too_wide(path: &Path, columns: usize) -> DataError {
    let problem = format!(
        "its rows of {columns} columns as dense f32 would take far more memory than the file holds; keep them sparse, or mend \
         the index if it is a damaged one"
    );
    DataError::contents(path, problem)
}

/// The rows of a file and the bits of their labels, or codes; `None` if dense rows would take too much memory: more than
/// `allowed` bytes in a domain, more than `allowed` times the bytes of their text without one.
fn read_rows(
    path: &Path,
    shape: Shape,
    allowed: u128,
    encoder: Option<&Encoder<'_>>,
) -> Result<Option<(Features, Vec<u32>)>, DataError> {
    let mut labels = Vec::new();
    let mut text_bytes = 0;
    let mut features: Option<Features> = None;
    let mut too_wide = false;
    let parse = |text: &[u8]| parse_block(text, shape, encoder);
    let append = |part: Part, progress| {
        reserve(&mut labels, part.labels.len(), progress);
        labels.extend_from_slice(&part.labels);
        text_bytes += part.text_bytes;
        match features.get_or_insert_with(|| for_rows_like(&part, shape)) {
            Features::Sparse(sparse) => self::append(sparse, &part, progress),
            Features::F32 { values, columns } => {
                let before = std::mem::replace(columns, (*columns).max(part.columns));
                let limit = match encoder {
                    Some(_) => allowed,
                    None => DENSE_FLOOR.max(allowed * text_bytes as u128),
                };
                too_wide = 4 * labels.len() as u128 * *columns as u128 > limit;
                if too_wide {
                    return Err(self::too_wide(path, *columns));
                }
                append_dense(values, before, &part, *columns, progress);
            }
            Features::U8 { .. } => unreachable!("text holds numbers"),
        }
        Ok(())
    };
    let outcome = parse_blocks(Source::open(path)?, Vec::new(), 0, parse, append);
    if too_wide {
        return Ok(None);
    }
    outcome?;
    labels.shrink_to_fit();
    let mut features = features.unwrap_or_else(|| Features::f32(Buffer::zeroed(0), shape.columns.unwrap_or(1)));
    if let Features::Sparse(sparse) = &mut features {
        sparse.offsets.shrink_to_fit();
        sparse.indices.shrink_to_fit();
        sparse.values.shrink_to_fit();
    }
    Ok(Some((features, labels)))
}

/// Rows parsed from one block.
#[derive(Default)]
struct Part {
    text_bytes: usize,
    /// The bits of each number, or its code in a domain.
    labels: Vec<u32>,
    /// The end of each row in `indices` and `values`.
    ends: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    /// The largest index plus one, or the declared number of columns.
    columns: usize,
}

/// No rows of `shape`; of unknown storage they are dense if `part`, the first one, is at least half full.
fn for_rows_like(part: &Part, shape: Shape) -> Features {
    let stored = part.values.len() as u128;
    let half_full = stored > 0 && 2 * stored >= part.labels.len() as u128 * part.columns as u128;
    if shape.storage.map_or(half_full, |storage| storage != Storage::Sparse) {
        Features::f32(Buffer::zeroed(0), part.columns)
    } else {
        Features::Sparse(SparseMatrix::new(part.columns))
    }
}

/// Appends rows, with capacity for as many as the whole file is expected to hold.
fn append(sparse: &mut SparseMatrix, part: &Part, progress: Progress) {
    let stored = sparse.values.len();
    reserve(&mut sparse.offsets, part.ends.len(), progress);
    sparse.offsets.extend(part.ends.iter().map(|end| stored + end));
    reserve(&mut sparse.indices, part.indices.len(), progress);
    sparse.indices.extend_from_slice(&part.indices);
    reserve(&mut sparse.values, part.values.len(), progress);
    sparse.values.extend_from_slice(&part.values);
    sparse.columns = sparse.columns.max(part.columns);
}

/// Appends rows to dense ones, which become as wide as `columns`.
fn append_dense(values: &mut Buffer<f32>, before: usize, part: &Part, columns: usize, progress: Progress) {
    widen(values, before, columns);
    if columns == 0 {
        return;
    }
    let filled = values.len();
    let more = part.labels.len() * columns;
    reserve(values, more, progress);
    values.extend_zeros(more);
    let mut start = 0;
    for (row, &end) in values[filled..].chunks_exact_mut(columns).zip(&part.ends) {
        for (&index, &value) in part.indices[start..end].iter().zip(&part.values[start..end]) {
            row[index as usize] = value;
        }
        start = end;
    }
}

/// Gives every row of `before` columns more of them, all zero.
fn widen(values: &mut Buffer<f32>, before: usize, columns: usize) {
    if before == columns || values.is_empty() {
        return;
    }
    let rows = values.len() / before;
    values.extend_zeros(rows * (columns - before));
    // From the last row on: a row's new place starts at or after its old one and is free by then.
    for row in (0..rows).rev() {
        values.copy_within(row * before..(row + 1) * before, row * columns);
        values[row * columns + before..(row + 1) * columns].fill(0.0);
    }
}

/// Parses whole lines. With an `encoder` any value and label is taken, and values beyond the declared columns are dropped.
fn parse_block(text: &[u8], shape: Shape, encoder: Option<&Encoder<'_>>) -> Result<(Part, usize), BadLine> {
    let Shape { columns: declared, first, .. } = shape;
    let mut part = Part { text_bytes: text.len(), ..Part::default() };
    part.indices.reserve(text.len() / 8);
    part.values.reserve(text.len() / 8);
    let limit = declared.unwrap_or(u32::MAX as usize - 1);
    let (mut columns, mut line, mut at) = (0, 0, 0);
    while at < text.len() {
        at = blanks(text, at);
        if let Some(after) = end_of_line(text, at) {
            (at, line) = (after, line + 1);
            continue;
        }
        let (label, length) = read_label(text, at, line, encoder)?;
        part.labels.push(label);
        at += length;
        // The next index may not be below this.
        let mut lowest = first;
        loop {
            at = blanks(text, at);
            if let Some(after) = end_of_line(text, at) {
                (at, line) = (after, line + 1);
                break;
            }
            let start = at;
            let bad = |expected: &str| BadLine::new(line, expected, excerpt(field(text, start)));
            let index;
            (index, at) = read_index(text, at);
            if at == start || text.get(at) != Some(&b':') {
                return Err(bad("index:value with a whole number as the index"));
            }
            let beyond = index.saturating_sub(first) as usize >= limit;
            if index < lowest || (beyond && encoder.is_none()) {
                return Err(bad_index(index, lowest, first + limit as u64 - 1, line));
            }
            at += 1;
            let scanned = number::scan::<f32>(&text[at..]).filter(|&(_, length)| ends_field(text, at + length));
            let (value, length) = match (scanned, encoder) {
                (Some((value, _)), None) if !value.is_finite() => {
                    return Err(bad("a finite value that f32 can hold"));
                }
                (Some(found), _) => found,
                (None, Some(_)) => not_finite(field(text, at)).ok_or_else(|| bad("a number after index and colon"))?,
                (None, None) => return Err(bad("a number after index and colon")),
            };
            at += length;
            // Of the indices that count no further, one may follow the other.
            lowest = (index + 1).min(LAST_INDEX);
            if !beyond {
                part.indices.push((index - first) as u32);
                part.values.push(value);
            }
        }
        columns = columns.max(lowest - first);
        part.ends.push(part.values.len());
    }
    part.columns = declared.unwrap_or(columns as usize);
    Ok((part, line))
}

/// The bits of a row's label, or its code, and its length.
#[inline]
fn read_label(text: &[u8], at: usize, line: usize, encoder: Option<&Encoder<'_>>) -> Result<(u32, usize), BadLine> {
    let scanned = number::scan::<f32>(&text[at..]).filter(|&(_, length)| ends_field(text, at + length));
    match (scanned, encoder) {
        (Some((label, length)), Some(encoder)) => Ok((encoder.label_number(f64::from(label)), length)),
        (Some((label, length)), None) if label.is_finite() => Ok((label.to_bits(), length)),
        (Some(_), None) => Err(BadLine::new(line, "a finite label", excerpt(field(text, at)))),
        (None, Some(encoder)) if !field(text, at).contains(&b':') => {
            let word = field(text, at);
            Ok((encoder.label(word), word.len()))
        }
        (None, _) => Err(bad_label(text, at, line)),
    }
}

/// The whole number at `at`, counted to [`LAST_INDEX`], and its end.
#[inline]
fn read_index(text: &[u8], mut at: usize) -> (u64, usize) {
    let mut index = 0;
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        index = (index * 10 + u64::from(digit - b'0')).min(LAST_INDEX);
        at += 1;
    }
    (index, at)
}

#[inline]
fn blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

/// The beginning of the next line, if only a comment or nothing is left of this one.
#[inline]
fn end_of_line(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at) {
        Some(b'\n') => Some(at + 1),
        Some(b'#') => {
            let length = text[at..].iter().position(|&byte| byte == b'\n');
            Some(length.map_or(text.len(), |length| at + length + 1))
        }
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
    let length = text[at..].iter().position(u8::is_ascii_whitespace);
    &text[at..length.map_or(text.len(), |length| at + length)]
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
fn bad_index(index: u64, lowest: u64, last: u64, line: usize) -> BadLine {
    let expected = if index == 0 && lowest == 1 {
        "indices that count from 1 (for those that count from 0 give `first-index 0`)".to_owned()
    } else if index < lowest {
        format!("an index of at least {lowest}: the indices of a row ascend and none is repeated")
    } else {
        format!("an index of at most {last}, the last column")
    };
    BadLine::new(line, expected, format!("index {index}"))
}

//! CSV: one row a line, numbers separated by commas, semicolons or tabs, one column the label. With a header or without;
//! plain, gzip or xz.
//!
//! The splitter is its own: lines are parsed in parallel blocks, and a quoted field ends in its line, so that a lost quote is
//! an error of one line and not a field of the rest of the file.

use super::parquet;
use crate::data::capacity::reserve;
use crate::data::error::{DataError, listing};
use crate::data::ids::Ids;
use crate::data::labels::{MOST_CLASSES, RawLabels, Words};
use crate::data::lines::{BadLine, excerpt, first_block, parse_blocks};
use crate::data::number;
use crate::data::request::{LabelUse, Request};
use crate::data::source::{Compression, Source, unpacked_name};
use crate::data::table::Table;
use rounds_algorithms::problem::{BinCounts, Buffer, Columns, Domain, Encoder, Features, encoding};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

/// Usual names of a label column.
const LABEL_NAMES: [&str; 4] = ["label", "class", "target", "y"];

/// A file's text: that of a Parquet file's table, or its own.
fn open(path: &Path) -> Result<Source<'static>, DataError> {
    let source = Source::open(path)?;
    match source.compression {
        Compression::Parquet => parquet::open(&source),
        _ => Ok(source),
    }
}

/// The beginning of a file, without a byte order mark.
fn begin(source: &mut Source<'_>) -> Result<Vec<u8>, DataError> {
    let mut text = first_block(source)?;
    if text.starts_with(b"\xef\xbb\xbf") {
        text.drain(..3);
    }
    Ok(text)
}

/// The first line that is not blank.
pub(crate) struct FirstLine {
    pub(crate) fields: Vec<String>,
    delimiter: u8,
    text: String,
    /// Beginning of the next line.
    end: usize,
    /// Number of the line, from 1.
    number: usize,
    /// The format says that it names columns.
    names_columns: bool,
}

impl FirstLine {
    /// The first line of a file: of a file with a header the names of its columns.
    ///
    /// # Errors
    /// Missing or damaged files, no line, and a line that does not split.
    pub(crate) fn read(path: &Path) -> Result<Self, DataError> {
        let mut source = open(path)?;
        let text = begin(&mut source)?;
        Self::of(&source, &text)
    }

    fn of(source: &Source<'_>, text: &[u8]) -> Result<Self, DataError> {
        let path = source.path();
        let (mut end, mut number) = (0, 0);
        let line = loop {
            let Some(length) = text[end..].iter().position(|&byte| byte == b'\n') else {
                return Err(BadLine::new(0, "at least one row", "only blank lines").at(path, number));
            };
            let line = &text[end..end + length];
            (end, number) = (end + length + 1, number + 1);
            if !line.trim_ascii().is_empty() {
                break line;
            }
        };
        let count = |delimiter: u8| line.split(|&byte| byte == delimiter).count();
        // The last maximum wins, so the comma stands last.
        let delimiter =
            [b'\t', b';', b','].into_iter().max_by_key(|&delimiter| count(delimiter)).expect("three candidates");
        let mut fields = Vec::new();
        let refuse = |bad: BadLine| bad.at(path, number - 1);
        split_all(line, delimiter, 0, &mut fields).map_err(refuse)?;
        if fields.len() < 2 {
            let expected = "at least two fields, a feature and a label, separated by comma, semicolon or tab";
            return Err(refuse(BadLine::new(0, expected, excerpt(line))));
        }
        let fields = fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        let text = excerpt(line);
        Ok(Self { fields, delimiter, text, end, number, names_columns: source.compression == Compression::Parquet })
    }

    /// The place of the column with a usual label name, in any case.
    pub(crate) fn usual_label(&self) -> Option<usize> {
        LABEL_NAMES.iter().find_map(|usual| self.fields.iter().position(|name| name.eq_ignore_ascii_case(usual)))
    }

    /// The line names columns: it has `label` or a usual label name, or no number.
    pub(crate) fn is_header(&self, label: Option<&str>) -> bool {
        let named = label.is_some_and(|label| self.fields.iter().any(|field| field == label));
        named || self.names_columns || self.usual_label().is_some() || !self.fields.iter().any(|field| is_number(field))
    }

    /// The place of the label: the column called `label`, else the one with a usual name, else the last one.
    ///
    /// # Errors
    /// No column called `label`.
    pub(crate) fn label(&self, path: &Path, label: Option<&str>) -> Result<usize, DataError> {
        let Some(label) = label else {
            return Ok(self.usual_label().unwrap_or(self.fields.len() - 1));
        };
        let place = self.fields.iter().position(|field| field == label);
        place.ok_or_else(|| {
            let found = listing(&self.fields);
            DataError::contents(path, format_args!("no label column named {label:?}; found {found}"))
        })
    }
}

/// Refuses a header in which two columns have one name.
pub(crate) fn check_names(path: &Path, header: &[String]) -> Result<(), DataError> {
    let mut seen = HashSet::new();
    match header.iter().find(|name| !seen.insert(*name)) {
        Some(name) => {
            Err(DataError::columns(path, format_args!("two columns are called {}: rename one", listing([name]))))
        }
        None => Ok(()),
    }
}

fn is_number(field: &str) -> bool {
    number::parse::<f32>(field.as_bytes()).is_some()
}

/// So many different words are still taken for a category.
pub(crate) const MOST_WORDS: usize = 64;

/// Fields that stand for a missing value, as pandas and R write them.
const MISSING: [&[u8]; 10] = [b"", b"NA", b"N/A", b"n/a", b"nan", b"NaN", b"null", b"NULL", b"None", b"?"];

/// A date such as 2024-01-31, 31.12.2024 or 01/31/24, perhaps with a time of day.
fn is_date(field: &[u8]) -> bool {
    let date = field.split(|byte| matches!(byte, b'T' | b' ')).next().unwrap_or(field);
    let mut lengths = [0; 3];
    let mut parts = 0;
    for part in date.split(|byte| matches!(byte, b'-' | b'/' | b'.')) {
        if parts == 3 || !(1..=4).contains(&part.len()) || !part.iter().all(u8::is_ascii_digit) {
            return false;
        }
        lengths[parts] = part.len();
        parts += 1;
    }
    parts == 3 && (lengths.contains(&4) || lengths == [2; 3])
}

/// Fields of a column.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) missing: usize,
    pub(crate) words: usize,
    /// Words that are dates.
    pub(crate) dates: usize,
    /// Finite numbers, their sum and range.
    pub(crate) numbers: usize,
    sum: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    /// A number is no integer.
    pub(crate) has_fractions: bool,
    /// The different fields, or `None` if they are more than `limit`, or than [`MOST_WORDS`] and some have fractions.
    pub(crate) distinct: Option<BTreeSet<Vec<u8>>>,
    limit: usize,
    /// The first and the last number, while each is the one before plus 1.
    pub(crate) counting: Option<Option<(f64, f64)>>,
    pub(crate) word: Option<Vec<u8>>,
    /// Hashes of the different fields, and the number of fields that are not empty, of a column that may hold ids.
    pub(crate) ids: Option<(HashSet<u64>, usize)>,
}

impl Summary {
    /// No row has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.missing == 0 && self.distinct.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// No fields of a column, of which up to `limit` different fields are kept, and that may hold ids.
    fn new(limit: usize, may_hold_ids: bool) -> Self {
        Self {
            missing: 0,
            words: 0,
            dates: 0,
            numbers: 0,
            sum: 0.0,
            lo: f64::INFINITY,
            hi: f64::NEG_INFINITY,
            has_fractions: false,
            distinct: Some(BTreeSet::new()),
            limit,
            counting: Some(None),
            word: None,
            ids: may_hold_ids.then(Default::default),
        }
    }

    fn take(&mut self, field: &[u8]) {
        if let Some((different, count)) = self.ids.as_mut().filter(|_| !field.is_empty()) {
            let mut hasher = DefaultHasher::new();
            field.hash(&mut hasher);
            different.insert(hasher.finish());
            *count += 1;
        }
        let number = match number::parse(field) {
            Some(number) => number,
            None if MISSING.contains(&field) => {
                self.missing += 1;
                self.counting = None;
                return;
            }
            None => encoding::number(field),
        };
        if number.is_finite() {
            self.numbers += 1;
            self.sum += number;
            (self.lo, self.hi) = (self.lo.min(number), self.hi.max(number));
            self.has_fractions |= number.fract() != 0.0;
        } else if number.is_nan() {
            self.words += 1;
            self.dates += usize::from(is_date(field));
            self.word.get_or_insert_with(|| field.to_vec());
        }
        self.counting = match self.counting {
            Some(None) if number.is_finite() => Some(Some((number, number))),
            Some(Some((first, last))) if number == last + 1.0 => Some(Some((first, number))),
            _ => None,
        };
        if let Some(distinct) = &mut self.distinct
            && !distinct.contains(field)
        {
            distinct.insert(field.to_vec());
            self.limit_distinct();
        }
    }

    fn limit_distinct(&mut self) {
        let limit = if self.has_fractions { MOST_WORDS } else { self.limit };
        self.distinct = self.distinct.take().filter(|distinct| distinct.len() <= limit);
    }

    /// Adds the fields of the lines that follow.
    fn merge(&mut self, later: Self) {
        self.missing += later.missing;
        self.words += later.words;
        self.dates += later.dates;
        self.numbers += later.numbers;
        self.sum += later.sum;
        (self.lo, self.hi) = (self.lo.min(later.lo), self.hi.max(later.hi));
        self.has_fractions |= later.has_fractions;
        self.counting = match (self.counting, later.counting) {
            (Some(None), counting) => counting,
            (Some(Some((first, last))), Some(Some((next, end)))) if next == last + 1.0 => Some(Some((first, end))),
            _ => None,
        };
        self.word = self.word.take().or(later.word);
        if let (Some((different, count)), Some((more, later))) = (&mut self.ids, later.ids) {
            different.extend(more);
            *count += later;
        }
        self.distinct = match (self.distinct.take(), later.distinct) {
            (Some(mut distinct), Some(more)) => {
                distinct.extend(more);
                Some(distinct)
            }
            _ => None,
        };
        self.limit_distinct();
    }

    /// The mean of the finite numbers.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.numbers as f64
    }

    /// The different fields, numbers by size, each once and without needless digits.
    pub(crate) fn values(&self) -> Vec<String> {
        let fields = self.distinct.iter().flatten();
        if self.words > 0 {
            return fields.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        }
        let mut numbers: Vec<f64> = fields.map(|field| encoding::number(field) + 0.0).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        numbers.iter().map(ToString::to_string).collect()
    }
}

/// Summaries of the columns of a file with the header `header`, whose label stands at `label`. Columns with the names `may_hold_ids` may hold
/// ids.
pub(crate) fn summarise(
    path: &Path,
    header: &FirstLine,
    label: usize,
    may_hold_ids: impl Fn(&str) -> bool,
) -> Result<Vec<Summary>, DataError> {
    let limit = |place| if place == label { MOST_CLASSES } else { MOST_WORDS };
    let named = header.fields.iter().enumerate();
    let nothing: Vec<Summary> =
        named.map(|(place, name)| Summary::new(limit(place), place != label && may_hold_ids(name))).collect();
    let take = |summaries: &mut [Summary], fields: &[Cow<'_, [u8]>]| {
        summaries.iter_mut().zip(fields).for_each(|(summary, field)| summary.take(field));
    };
    fold_rows(path, header, &nothing, take, Summary::merge)
}

/// The numbers of the columns called `names`, of a file with the header `header`, counted by bin. A row that encodes to the null row of
/// `domain`, whatever the bounds of its numbers, is not counted.
pub(crate) fn count_numbers(
    path: &Path,
    header: &FirstLine,
    domain: &Domain,
    names: &[String],
) -> Result<Vec<BinCounts>, DataError> {
    let place = |name: &str| header.fields.iter().position(|field| field == name);
    let places: Vec<_> = names.iter().map(|name| place(name)).collect();
    let (encoder, label) = (Encoder::new(domain), domain.label_column.as_deref().and_then(place));
    let columns: Vec<_> = match &domain.columns {
        Columns::Named(columns) => columns.iter().map(|column| place(&column.name)).collect(),
        Columns::Matrix { .. } => Vec::new(),
    };
    let take = |counts: &mut [BinCounts], fields: &[Cow<'_, [u8]>]| {
        let field = |place: Option<usize>| place.map_or(&b""[..], |place| &fields[place]);
        let is_null = encoder.label(field(label)) == encoding::NULL_LABEL
            || columns.iter().enumerate().any(|(column, &place)| !encoder.keeps(column, field(place)));
        if is_null {
            return;
        }
        for (counts, &place) in counts.iter_mut().zip(&places) {
            counts.take(encoding::number(field(place)));
        }
    };
    fold_rows(path, header, &vec![BinCounts::default(); names.len()], take, |sum, part| sum.merge(&part))
}

/// Folds the rows of a file with the header `header`, column by column: a part of the file begins with `nothing`, `take` adds a row to it, and
/// `merge` adds the part that follows.
fn fold_rows<T: Clone + Send + Sync>(
    path: &Path,
    header: &FirstLine,
    nothing: &[T],
    take: impl Fn(&mut [T], &[Cow<'_, [u8]>]) + Sync,
    merge: impl Fn(&mut T, T),
) -> Result<Vec<T>, DataError> {
    let mut source = open(path)?;
    let mut text = begin(&mut source)?;
    text.drain(..header.end);
    let mut all = nothing.to_vec();
    let parse = |text: &[u8]| {
        let mut part = nothing.to_vec();
        let lines = for_each_row(text, header.fields.len(), header.delimiter, |_, fields| {
            take(&mut part, fields);
            Ok(())
        })?;
        Ok((part, lines))
    };
    parse_blocks(source, text, header.number, parse, |part: Vec<T>, _| {
        all.iter_mut().zip(part).for_each(|(sum, part)| merge(sum, part));
        Ok(())
    })?;
    Ok(all)
}

/// The use of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Features of a named column, from `start` on.
    Named {
        column: usize,
        start: usize,
    },
    /// The value of an unnamed column.
    Value(usize),
    Label,
    Unit,
    Dropped,
}

struct Layout {
    /// Bytes before the first row.
    start: usize,
    lines_before: usize,
    delimiter: u8,
    /// One a field.
    places: Vec<Place>,
    features: usize,
    /// Undeclared labels are words.
    words: bool,
}

impl Layout {
    /// Columns are found by the names in the header; a file without one has unnamed columns, the label last, and is separated
    /// by commas, or tabs if it is called `.tsv`.
    fn declared(source: &Source<'_>, text: &[u8], domain: &Domain, request: Request<'_>) -> Result<Self, DataError> {
        let (path, labels) = (source.path(), request.labels);
        let mut layout = Self {
            start: 0,
            lines_before: 0,
            delimiter: b',',
            places: Vec::new(),
            features: domain.features(),
            words: false,
        };
        if let Some(label) = &domain.label_column {
            let header = FirstLine::of(source, text)?;
            (layout.start, layout.lines_before) = (header.end, header.number);
            layout.delimiter = header.delimiter;
            layout.places = places(path, &header.fields, domain, label, request)?;
        } else if let Columns::Matrix { count, .. } = domain.columns {
            if unpacked_name(path).ends_with(".tsv") {
                layout.delimiter = b'\t';
            }
            let first = request.is_for_model.then(|| FirstLine::of(source, text)).transpose()?;
            let fields = first.map_or(count + 1, |line| line.fields.len());
            let label = match labels {
                LabelUse::Needed => Some(Place::Label),
                LabelUse::Ignored if fields == count => None,
                LabelUse::Ignored => Some(Place::Dropped),
            };
            layout.places = (0..count).map(Place::Value).chain(label).collect();
            if fields != layout.places.len() {
                let problem = format!("it has {fields} columns, and the model reads {count}, beside the label");
                return Err(DataError::columns(path, problem));
            }
        } else {
            let problem = "no label column is declared: `label NAME`, or [label] column = \"NAME\" in the schema";
            return Err(DataError::columns(path, problem));
        }
        Ok(layout)
    }

    /// The first line is a header if it has `label` or a usual label name, or no number; it is a row if everything but the
    /// label is a number.
    fn guessed(source: &Source<'_>, text: &[u8], request: Request<'_>) -> Result<Self, DataError> {
        let path = source.path();
        let first = FirstLine::of(source, text)?;
        let label = request.label;
        let place = if label.is_none() && request.has_no_label(first.fields.len()) {
            usize::MAX
        } else {
            first.label(path, label)?
        };
        let is_header = label.is_some() || first.is_header(None);
        let mut features = first.fields.iter().enumerate().filter(|(other, _)| *other != place);
        if !is_header && !features.all(|(_, field)| is_number(field)) {
            let expected = "a header without numbers, or a row of numbers; mend the first line";
            return Err(BadLine::new(0, expected, format_args!("both: {}", first.text)).at(path, first.number - 1));
        }
        // Labels are words if the first one is.
        let is_word = |field: &[u8]| number::parse::<f32>(field).is_none();
        let words = if request.labels == LabelUse::Ignored {
            false
        } else if is_header {
            let mut fields = Vec::new();
            let mut rows = text[first.end..].split(|&byte| byte == b'\n');
            let row = rows.find(|line| !line.trim_ascii().is_empty());
            row.is_some_and(|row| split_all(row, first.delimiter, 0, &mut fields).is_ok())
                && fields.get(place).is_some_and(|field| is_word(field))
        } else {
            is_word(first.fields[place].as_bytes())
        };
        let places = (0..first.fields.len()).map(|field| match field.cmp(&place) {
            std::cmp::Ordering::Less => Place::Value(field),
            std::cmp::Ordering::Equal if request.labels == LabelUse::Ignored => Place::Dropped,
            std::cmp::Ordering::Equal => Place::Label,
            std::cmp::Ordering::Greater => Place::Value(field - 1),
        });
        Ok(Self {
            start: if is_header { first.end } else { 0 },
            lines_before: if is_header { first.number } else { 0 },
            delimiter: first.delimiter,
            places: places.collect(),
            features: first.fields.len() - usize::from(place < first.fields.len()),
            words,
        })
    }
}

/// Reads a file. In `domain` fields are mapped, whatever they hold. Without it all columns but the label are features, in their
/// order; the label is the column that the request names, the one with a usual name, or the last.
///
/// # Errors
/// Missing or damaged files, and text that is not CSV: rows with more or fewer fields, quotes that do not close. In a domain
/// columns that are declared and not there or there and not declared; no field is refused. Without one no such label column;
/// fields that are empty, no numbers, NaN or infinite; labels that are words in one row and numbers in another, or too many
/// different words.
pub(super) fn read(path: &Path, request: Request<'_>) -> Result<Table, DataError> {
    let domain = request.domain.map(AsRef::as_ref);
    let mut source = open(path)?;
    let mut text = begin(&mut source)?;
    let layout = match domain {
        Some(domain) => Layout::declared(&source, &text, domain, request).map_err(|error| {
            // Packed bytes are no names of columns.
            let is_gzip = source.compression == Compression::Plain && text.starts_with(Compression::Gzip.magic());
            let named = "a gzip file whose name does not end in .gz: rename it";
            if is_gzip { DataError::columns(path, named) } else { error }
        })?,
        None => Layout::guessed(&source, &text, request)?,
    };
    text.drain(..layout.start);
    let encoder = domain.map(Encoder::new);
    let (mut values, mut labels, mut ids) = (Buffer::zeroed(0), Vec::new(), Ids::default());
    let mut words = Words::default();
    let parse = |text: &[u8]| parse_block(text, &layout, encoder.as_ref());
    parse_blocks(source, text, layout.lines_before, parse, |mut part: Part, progress| {
        reserve(&mut values, part.values.len(), progress);
        values.extend_from_slice(&part.values);
        if layout.words {
            let known: Vec<u32> = part.words.ordered.iter().map(|word| words.index(word)).collect();
            part.labels.iter_mut().for_each(|word| *word = known[*word as usize]);
        }
        reserve(&mut labels, part.labels.len(), progress);
        labels.extend_from_slice(&part.labels);
        ids.append(&part.ids);
        Ok(())
    })?;
    labels.shrink_to_fit();
    let units = layout.places.contains(&Place::Unit).then(|| ids.units());
    let mut features = Features::f32(values, layout.features);
    let labels = if let Some(encoder) = encoder {
        if domain.is_some_and(|domain| matches!(domain.columns, Columns::Matrix { .. })) {
            features = encoder.matrix(features);
        }
        RawLabels::Encoded(labels)
    } else if layout.words {
        words.labels(labels)
    } else {
        RawLabels::Numbers(labels.into_iter().map(f32::from_bits).collect())
    };
    Ok(Table { units, ..Table::of_file(path, features, labels) })
}

/// The places of a header's columns in `domain`.
fn places(
    path: &Path,
    header: &[String],
    domain: &Domain,
    label: &str,
    request: Request<'_>,
) -> Result<Vec<Place>, DataError> {
    let labels = request.labels;
    let [unit, grouped] = [domain.unit.as_ref(), request.unit].map(|unit| unit.and_then(|unit| unit.column.as_ref()));
    let refuse = |problem: String| Err(DataError::columns(path, problem));
    check_names(path, header)?;
    let mut missing = Vec::from_iter((labels == LabelUse::Needed).then_some(label));
    let mut starts = HashMap::new();
    let mut start = 0;
    if let Columns::Named(columns) = &domain.columns {
        let encoder = Encoder::new(domain);
        for (column, of) in columns.iter().enumerate() {
            missing.push(&of.name);
            starts.insert(of.name.as_str(), Place::Named { column, start });
            start += encoder.width(column);
        }
    }
    missing.extend(grouped.map(String::as_str));
    let mut dropped: Vec<_> = domain.dropped.iter().filter(|_| !request.is_for_model).map(String::as_str).collect();
    for names in [&mut missing, &mut dropped] {
        names.retain(|name| !header.iter().any(|found| found == name));
    }
    if missing.is_empty() && !dropped.is_empty() {
        let problem = "it lacks columns that are to be dropped";
        return refuse(format!("{problem}: {}; name columns that it has, or add these, empty", listing(dropped)));
    }
    let mut unknown = Vec::new();
    let mut places = Vec::with_capacity(header.len());
    for name in header {
        places.push(if name == label && labels == LabelUse::Needed {
            Place::Label
        } else if grouped == Some(name) {
            Place::Unit
        } else if name == label || unit == Some(name) || domain.dropped.contains(name) {
            Place::Dropped
        } else if let Some(place) = starts.get(name.as_str()) {
            *place
        } else {
            unknown.push(name.as_str());
            Place::Value(unknown.len() - 1)
        });
    }
    let (whose, remedy) = if request.is_for_model {
        ("the model", "give the columns that it was trained on, by their names in the header, in any order")
    } else {
        (
            "its domain",
            "every column is declared or dropped: `drop NAME,…`, or drop = [\"NAME\", …] under [rows] of a schema",
        )
    };
    let count = unknown.len();
    if let Columns::Matrix { count: declared, .. } = domain.columns {
        if count != declared {
            return refuse(format!("it has {count} columns beside the label, and {whose} has {declared}"));
        }
        unknown.clear();
    }
    let parts = [("lacks columns of", "", missing), ("has columns that", " does not know", unknown)];
    let parts = parts.iter().filter(|(.., names)| !names.is_empty());
    let problems: Vec<_> =
        parts.map(|(what, end, names)| format!("it {what} {whose}{end}: {}", listing(names))).collect();
    if problems.is_empty() { Ok(places) } else { refuse(format!("{}; {remedy}", problems.join("; "))) }
}

/// Rows parsed from one block.
#[derive(Default)]
struct Part {
    values: Vec<f32>,
    /// Codes of a domain, places in `words`, or the bits of numbers.
    labels: Vec<u32>,
    words: Words,
    ids: Ids,
}

/// Parses whole lines. With an `encoder` any field is taken; those of unnamed columns stay as they are.
fn parse_block(text: &[u8], layout: &Layout, encoder: Option<&Encoder<'_>>) -> Result<(Part, usize), BadLine> {
    let mut part = Part::default();
    part.values.reserve(text.len() / 6);
    let unlabelled = if layout.places.contains(&Place::Label) { encoding::NULL_LABEL } else { 0 };
    let lines = for_each_row(text, layout.places.len(), layout.delimiter, |line, fields| {
        let row = part.values.len();
        part.values.resize(row + layout.features, 0.0);
        let row: &mut [f32] = &mut part.values[row..];
        let (mut code, mut null) = (unlabelled, false);
        for (number, (field, place)) in fields.iter().zip(&layout.places).enumerate() {
            match (*place, encoder) {
                (Place::Dropped, _) => {}
                (Place::Unit, _) => part.ids.take(field),
                (Place::Named { column, start }, Some(encoder)) => {
                    null |= !encoder.field(column, field, &mut row[start..start + encoder.width(column)]);
                }
                (Place::Value(column), Some(_)) => {
                    row[column] = number::parse(field).unwrap_or_else(|| encoding::number(field) as f32);
                }
                (Place::Value(column), None) => row[column] = finite(field, line, number, false)?,
                (Place::Label, Some(encoder)) => code = encoder.label(field),
                (Place::Label, None) if layout.words && !field.is_empty() => code = part.words.index(field),
                (Place::Label, None) => code = finite(field, line, number, true)?.to_bits(),
                (Place::Named { .. }, None) => unreachable!("columns are named by a schema"),
            }
        }
        part.labels.push(if null { encoding::NULL_LABEL } else { code });
        Ok(())
    })?;
    Ok((part, lines))
}

/// The finite number of a field.
#[inline]
fn finite(field: &[u8], line: usize, place: usize, is_label: bool) -> Result<f32, BadLine> {
    match number::parse::<f32>(field) {
        Some(number) if number.is_finite() => Ok(number),
        _ => Err(not_finite(field, line, place + 1, is_label)),
    }
}

#[cold]
fn not_finite(field: &[u8], line: usize, column: usize, is_label: bool) -> BadLine {
    let (expected, found) = if field.is_empty() {
        let remedy = "fill missing values in, or remove the row";
        (format!("a number in column {column} ({remedy})"), "an empty field".to_owned())
    } else if is_label {
        let expected = format!("a finite number as the label in column {column}, as in the first row");
        (expected, excerpt(field))
    } else {
        let remedy = "words need to be encoded as numbers";
        (format!("a finite number in column {column} ({remedy})"), excerpt(field))
    };
    BadLine::new(line, expected, found)
}

/// Calls `take` with the number of each line that is not blank and its `count` fields, and returns the number of lines.
///
/// # Errors
/// Lines with more or fewer fields, and those of [`split_all`] and `take`.
fn for_each_row<'a>(
    text: &'a [u8],
    count: usize,
    delimiter: u8,
    mut take: impl FnMut(usize, &[Cow<'a, [u8]>]) -> Result<(), BadLine>,
) -> Result<usize, BadLine> {
    let mut fields = Vec::with_capacity(count);
    let mut lines = 0;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
        let line = &text[start..end];
        start = end + 1;
        // A line of tabs is a row of empty fields.
        if !line.trim_ascii().is_empty() || line.contains(&delimiter) {
            fields.clear();
            split_all(line, delimiter, lines, &mut fields)?;
            if fields.len() != count {
                let expected = format!("{count} fields, as in the first line");
                let found = format!("{}: {}", fields.len(), excerpt(line));
                return Err(BadLine::new(lines, expected, found));
            }
            take(lines, &fields)?;
        }
        lines += 1;
    }
    Ok(lines)
}

/// Appends the fields of a line, the `number`-th of its block.
///
/// # Errors
/// Quotes that do not close, and text after a closing one.
fn split_all<'a>(line: &'a [u8], delimiter: u8, number: usize, fields: &mut Vec<Cow<'a, [u8]>>) -> Result<(), BadLine> {
    let mut at = 0;
    // Most lines have no quote: each of their delimiters ends a field.
    if memchr::memchr(b'"', line).is_none() {
        for end in memchr::memchr_iter(delimiter, line).chain([line.len()]) {
            fields.push(Cow::Borrowed(line[at..end].trim_ascii()));
            at = end + 1;
        }
        return Ok(());
    }
    loop {
        let Some((field, end)) = split_line(line, at, delimiter) else {
            let expected = "a closing quote in the line of the opening one";
            return Err(BadLine::new(number, expected, excerpt(&line[at..])));
        };
        fields.push(field);
        match line.get(end) {
            Some(&byte) if byte == delimiter => at = end + 1,
            None => return Ok(()),
            Some(_) => {
                let expected = "a separator after the closing quote";
                return Err(BadLine::new(number, expected, excerpt(&line[end..])));
            }
        }
    }
}

/// The field that starts at `at`, without blanks around it and without quotes, and where it ends. `None` for a quote that
/// does not close.
fn split_line(line: &[u8], at: usize, delimiter: u8) -> Option<(Cow<'_, [u8]>, usize)> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\r') || (*byte == b'\t' && delimiter != b'\t');
    let rest = &line[at..];
    let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
    if rest.get(blanks) != Some(&b'"') {
        let length = rest.iter().position(|&byte| byte == delimiter).unwrap_or(rest.len());
        return Some((Cow::Borrowed(rest[..length].trim_ascii()), at + length));
    }
    let mut field = Vec::new();
    let mut place = blanks + 1;
    loop {
        match (rest.get(place)?, rest.get(place + 1)) {
            (b'"', Some(b'"')) => {
                field.push(b'"');
                place += 2;
            }
            (b'"', _) => break,
            (&byte, _) => {
                field.push(byte);
                place += 1;
            }
        }
    }
    place += 1;
    place += rest[place..].iter().take_while(|byte| is_blank(byte)).count();
    Some((Cow::Owned(field), at + place))
}

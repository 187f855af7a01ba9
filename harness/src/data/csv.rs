//! CSV: a line a row, numbers separated by commas, semicolons or tabs, one column the label. With a header or without;
//! plain, gzip or xz.

use crate::data::draft::Summary;
use crate::data::error::{DataError, listing};
use crate::data::labels::{MOST_CLASSES, RawLabels};
use crate::data::lines::{BadLine, excerpt, first_block, parse_blocks};
use crate::data::number;
use crate::data::room::reserve;
use crate::data::source::Source;
use rounds_algorithms::problem::{Buffer, Columns, Domain, Encoder, Features, Labels, encoding};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// Which column is the label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// The one that the header calls label, class, target or y (in any case), if there is one; else the last.
    #[default]
    Automatic,
    /// The one that the header calls so.
    Name(String),
    /// The one at this place, counting from 0.
    Index(usize),
}

/// What the file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// Which column is the label.
    pub label: LabelColumn,
    /// Whether the first line names the columns. Without it: yes if it has no number or names a label, no if everything but
    /// the label is a number; anything else is refused.
    pub header: Option<bool>,
    /// What separates fields. Without it, whichever of comma, semicolon and tab the first line has most of.
    pub delimiter: Option<u8>,
}

/// Names that a label column usually has.
pub const LABEL_NAMES: [&str; 4] = ["label", "class", "target", "y"];

/// What the first line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    delimiter: u8,
    fields: usize,
    label: usize,
    header: bool,
    /// Whether labels are words.
    words: bool,
}

/// Reads a file: all columns but the label are features, in their order.
///
/// # Errors
/// Missing or damaged files; no such label column; rows of different lengths; fields that are empty, no numbers, NaN or
/// infinite; labels that are words in one row and numbers in another, or too many different words.
pub fn read(path: &Path, options: &CsvOptions) -> Result<(Features, RawLabels), DataError> {
    let mut source = Source::open(path)?;
    let mut text = begin(&mut source)?;
    let (shape, skipped) = shape(path, &text, options)?;
    let mut lines_before = 0;
    if shape.header {
        lines_before = text[..skipped].split(|&byte| byte == b'\n').count() - 1;
        text.drain(..skipped);
    }
    let columns = shape.fields - 1;
    let mut values = Buffer::new();
    let mut numbers = Vec::new();
    let mut rows = Vec::new();
    let mut words = Words::default();
    parse_blocks(
        source,
        text,
        lines_before,
        |text| parse_block(text, &shape),
        |part, progress| {
            reserve(&mut values, part.values.len(), progress);
            values.extend_from_slice(&part.values);
            reserve(&mut numbers, part.numbers.len(), progress);
            numbers.extend_from_slice(&part.numbers);
            let known: Vec<u32> = part.words.ordered.iter().map(|word| words.index(word)).collect();
            reserve(&mut rows, part.rows.len(), progress);
            rows.extend(part.rows.iter().map(|&word| known[word as usize]));
            if words.ordered.len() > MOST_CLASSES {
                return Err(DataError::Labels {
                    path: path.into(),
                    expected: format!("a label column of at most {MOST_CLASSES} different words; choose another one"),
                    found: "more than that".into(),
                });
            }
            Ok(())
        },
    )?;
    numbers.shrink_to_fit();
    rows.shrink_to_fit();
    let labels = if shape.words {
        let words = words
            .ordered
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        RawLabels::Words { rows, words }
    } else {
        RawLabels::Numbers(numbers)
    };
    Ok((Features::f32(values, columns), labels))
}

/// The begin of a file, without a mark of the encoding.
fn begin(source: &mut Source<'_>) -> Result<Vec<u8>, DataError> {
    let mut text = first_block(source)?;
    if text.starts_with(b"\xef\xbb\xbf") {
        text.drain(..3);
    }
    Ok(text)
}

/// The first line that is not blank.
pub struct FirstLine {
    /// Its fields.
    pub fields: Vec<String>,
    /// What separates them.
    pub delimiter: u8,
}

/// The names of a file's columns, and nothing of its rows.
///
/// # Errors
/// Missing or damaged files, no line, and a line that does not split.
pub fn read_header(path: &Path) -> Result<FirstLine, DataError> {
    let text = begin(&mut Source::open(path)?)?;
    let (line, ..) = first_line(path, &text, None)?;
    Ok(FirstLine {
        fields: line.fields.iter().map(|field| text_of(field)).collect(),
        delimiter: line.delimiter,
    })
}

/// What the fields of each column of a file with a header hold.
///
/// # Errors
/// As [`read_into`], of its text.
pub(super) fn summarise(path: &Path, header: &FirstLine) -> Result<Vec<Summary>, DataError> {
    let mut source = Source::open(path)?;
    let mut text = begin(&mut source)?;
    let (_, start, lines_before) = first_line(path, &text, None)?;
    text.drain(..start);
    let mut summaries = vec![Summary::default(); header.fields.len()];
    let summarise = |text: &[u8]| {
        let mut summaries = vec![Summary::default(); header.fields.len()];
        let lines = for_each_row(text, header.fields.len(), header.delimiter, |fields| {
            summaries
                .iter_mut()
                .zip(fields)
                .for_each(|(summary, field)| summary.take(field));
        })?;
        Ok((summaries, lines))
    };
    parse_blocks(source, text, lines_before, summarise, |part: Vec<Summary>, _| {
        summaries
            .iter_mut()
            .zip(part)
            .for_each(|(summary, later)| summary.merge(later));
        Ok(())
    })?;
    Ok(summaries)
}

fn text_of(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// What becomes of a field.
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
    Dropped,
}

/// Reads a file into `domain`: fields are mapped, whatever they hold. Columns are found by the names in the header; a file
/// without one has unnamed columns, the label last, and is separated by commas, or tabs if it is called `.tsv`.
///
/// # Errors
/// Missing or damaged files, columns that are declared and not there or there and not declared, and text that is not CSV:
/// rows with more or fewer fields, quotes that do not close. No field is refused.
pub fn read_into(path: &Path, domain: &Domain) -> Result<(Features, Labels), DataError> {
    let mut source = Source::open(path)?;
    let mut text = begin(&mut source)?;
    let mut lines_before = 0;
    let (places, delimiter) = if let Some(label) = &domain.label_column {
        let (line, start, lines) = first_line(path, &text, None)?;
        let header: Vec<String> = line.fields.iter().map(|field| text_of(field)).collect();
        let delimiter = line.delimiter;
        text.drain(..start);
        lines_before = lines;
        (places(path, &header, domain, label)?, delimiter)
    } else {
        let Columns::Matrix { count, .. } = domain.columns else {
            return Err(DataError::schema(
                path,
                "its schema names no label column; add [label] column = \"NAME\"",
            ));
        };
        let tabs = [".tsv", ".tsv.gz", ".tsv.xz"]
            .iter()
            .any(|ending| path.to_string_lossy().ends_with(ending));
        let places = (0..count).map(Place::Value).chain([Place::Label]).collect();
        (places, if tabs { b'\t' } else { b',' })
    };
    let (encoder, features) = (Encoder::new(domain), domain.features());
    let (mut values, mut codes) = (Buffer::new(), Vec::new());
    parse_blocks(
        source,
        text,
        lines_before,
        |text| encode_block(text, &places, delimiter, features, &encoder),
        |part: (Vec<f32>, Vec<u32>), progress| {
            reserve(&mut values, part.0.len(), progress);
            values.extend_from_slice(&part.0);
            reserve(&mut codes, part.1.len(), progress);
            codes.extend_from_slice(&part.1);
            Ok(())
        },
    )?;
    codes.shrink_to_fit();
    let mut encoded = Features::f32(values, features);
    if matches!(domain.columns, Columns::Matrix { .. }) {
        encoded = encoder.matrix(encoded);
    }
    Ok(encoder.finish(encoded, codes))
}

/// The places of a header's columns.
fn places(path: &Path, header: &[String], domain: &Domain, label: &str) -> Result<Vec<Place>, DataError> {
    let refuse = |problem: String, found: &[&String]| {
        Err(DataError::Schema {
            path: path.into(),
            problem,
            found: listing(found),
        })
    };
    if let Some((_, name)) = header
        .iter()
        .enumerate()
        .find(|(place, name)| header[..*place].contains(name))
    {
        return refuse("two columns have one name; rename one of them".to_owned(), &[name]);
    }
    let has = |name: &str| header.iter().any(|found| found == name);
    let mut missing: Vec<&str> = [label].into_iter().filter(|name| !has(name)).collect();
    let mut starts = HashMap::new();
    let mut start = 0;
    if let Columns::Named(columns) = &domain.columns {
        let encoder = Encoder::new(domain);
        for (column, of) in columns.iter().enumerate() {
            starts.insert(of.name.as_str(), Place::Named { column, start });
            start += encoder.width(column);
        }
        missing.extend(
            columns
                .iter()
                .map(|column| column.name.as_str())
                .filter(|name| !has(name)),
        );
    }
    missing.extend(domain.dropped.iter().map(String::as_str).filter(|name| !has(name)));
    if !missing.is_empty() {
        return refuse(
            format!("it has no column {}, which its schema names", listing(missing)),
            &header.iter().collect::<Vec<_>>(),
        );
    }
    let (mut undeclared, mut unnamed) = (Vec::new(), 0);
    let mut places = Vec::with_capacity(header.len());
    for name in header {
        places.push(if name == label {
            Place::Label
        } else if domain.dropped.contains(name) {
            Place::Dropped
        } else if let Some(place) = starts.get(name.as_str()) {
            *place
        } else {
            undeclared.push(name);
            unnamed += 1;
            Place::Value(unnamed - 1)
        });
    }
    match &domain.columns {
        Columns::Named(_) if !undeclared.is_empty() => refuse(
            format!(
                "{} of its columns are in no schema; declare them, or drop them: drop = [\"NAME\", …] under [rows]",
                undeclared.len()
            ),
            &undeclared,
        ),
        Columns::Matrix { count, .. } if *count != unnamed => {
            let problem =
                format!("it has {unnamed} columns beside the label, but its schema declares {count}; mend the schema");
            refuse(problem, &[])
        }
        _ => Ok(places),
    }
}

/// Encodes whole lines: features, or the values of unnamed columns as they are, and codes of labels.
fn encode_block(
    text: &[u8],
    places: &[Place],
    delimiter: u8,
    features: usize,
    encoder: &Encoder<'_>,
) -> Result<((Vec<f32>, Vec<u32>), usize), BadLine> {
    let (mut values, mut codes) = (Vec::new(), Vec::new());
    let lines = for_each_row(text, places.len(), delimiter, |fields| {
        let row = values.len();
        values.resize(row + features, 0.0);
        let row: &mut [f32] = &mut values[row..];
        let (mut code, mut null) = (encoding::NULL_LABEL, false);
        for (field, place) in fields.iter().zip(places) {
            match *place {
                Place::Named { column, start } => {
                    null |= !encoder.field(column, field, &mut row[start..start + encoder.width(column)]);
                }
                Place::Value(column) => {
                    row[column] = number::parse(field).unwrap_or_else(|| encoding::number(field) as f32);
                }
                Place::Label => code = encoder.label(field),
                Place::Dropped => {}
            }
        }
        codes.push(if null { encoding::NULL_LABEL } else { code });
    })?;
    Ok(((values, codes), lines))
}

/// Calls `take` with the `count` fields of each line that is not blank, and returns the number of lines.
///
/// # Errors
/// Lines with more or fewer fields, and those of [`split_all`].
fn for_each_row<'a>(
    text: &'a [u8],
    count: usize,
    delimiter: u8,
    mut take: impl FnMut(&[Cow<'a, [u8]>]),
) -> Result<usize, BadLine> {
    let mut fields = Vec::with_capacity(count);
    let mut lines = 0;
    for line in text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n') {
        // A line of tabs is a row of empty fields.
        if !line.trim_ascii().is_empty() || line.contains(&delimiter) {
            fields.clear();
            split_all(line, delimiter, lines, &mut fields)?;
            if fields.len() != count {
                return Err(other_fields(lines, count, fields.len(), line));
            }
            take(&fields);
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

fn other_fields(line: usize, expected: usize, found: usize, text: &[u8]) -> BadLine {
    let expected = format!("{expected} fields, as in the first line");
    BadLine::new(line, expected, format!("{found}: {}", excerpt(text)))
}

/// Different words and the order in which they came.
#[derive(Default)]
struct Words {
    indices: HashMap<Vec<u8>, u32>,
    ordered: Vec<Vec<u8>>,
}

impl Words {
    fn index(&mut self, word: &[u8]) -> u32 {
        if let Some(&index) = self.indices.get(word) {
            return index;
        }
        let index = self.ordered.len() as u32;
        self.indices.insert(word.to_vec(), index);
        self.ordered.push(word.to_vec());
        index
    }
}

/// A line in fields.
struct SplitLine<'a> {
    text: &'a [u8],
    fields: Vec<Cow<'a, [u8]>>,
    delimiter: u8,
}

/// The first line that is not blank, where the next one starts, and the number of lines before that.
fn first_line<'a>(
    path: &Path,
    text: &'a [u8],
    delimiter: Option<u8>,
) -> Result<(SplitLine<'a>, usize, usize), DataError> {
    let mut start = 0;
    let mut line_number = 1;
    let line = loop {
        let Some(length) = text[start..].iter().position(|&byte| byte == b'\n') else {
            let (expected, found) = ("at least one row".into(), "only blank lines".into());
            return Err(DataError::Line {
                path: path.into(),
                line: line_number,
                expected,
                found,
            });
        };
        let line = &text[start..start + length];
        start += length + 1;
        if !line.trim_ascii().is_empty() {
            break line;
        }
        line_number += 1;
    };
    let delimiter = delimiter.unwrap_or_else(|| {
        let count = |delimiter: u8| line.split(|&byte| byte == delimiter).count();
        // The last maximum wins, so the comma stands last.
        [b'\t', b';', b',']
            .into_iter()
            .max_by_key(|&delimiter| count(delimiter))
            .expect("three candidates")
    });
    let mut fields = Vec::new();
    let refuse = |bad: BadLine| bad.at(path, line_number - 1);
    split_all(line, delimiter, 0, &mut fields).map_err(refuse)?;
    if fields.len() < 2 {
        let expected = "at least two fields, a feature and a label, separated by comma, semicolon or tab";
        return Err(refuse(BadLine::new(0, expected, excerpt(line))));
    }
    let line = SplitLine {
        text: line,
        fields,
        delimiter,
    };
    Ok((line, start, line_number))
}

/// Decides about delimiter, header and label column by the first line that is not blank, and returns where the next
/// one starts.
fn shape(path: &Path, text: &[u8], options: &CsvOptions) -> Result<(Shape, usize), DataError> {
    let (line, start, line_number) = first_line(path, text, options.delimiter)?;
    let SplitLine {
        text: line,
        fields,
        delimiter,
    } = line;
    let is_number = |field: &Cow<'_, [u8]>| number::parse(field).is_some();
    let named = |name: &str| {
        fields
            .iter()
            .position(|field| field.eq_ignore_ascii_case(name.as_bytes()))
    };
    let usual_label = LABEL_NAMES.iter().find_map(|name| named(name));
    let last = fields.len() - 1;
    let label = match &options.label {
        LabelColumn::Name(name) => {
            let exact = fields.iter().position(|field| **field == *name.as_bytes());
            exact.ok_or_else(|| DataError::Column {
                path: path.into(),
                wanted: format!("named {name:?}"),
                found: listing(fields.iter().map(|field| String::from_utf8_lossy(field))),
            })?
        }
        LabelColumn::Index(index) if *index > last => {
            return Err(DataError::Column {
                path: path.into(),
                wanted: format!("at place {index}"),
                found: format!("{} columns, 0 to {last}", fields.len()),
            });
        }
        LabelColumn::Index(index) => *index,
        LabelColumn::Automatic => usual_label.filter(|_| options.header != Some(false)).unwrap_or(last),
    };
    let named = matches!(options.label, LabelColumn::Name(_));
    let header = match options.header {
        Some(false) if named => {
            return Err(DataError::Column {
                path: path.into(),
                wanted: "by its name".into(),
                found: "no header, as declared, so that columns have no names; give its place".into(),
            });
        }
        Some(header) => header,
        None if named || usual_label.is_some() || !fields.iter().any(is_number) => true,
        None if fields
            .iter()
            .enumerate()
            .all(|(place, field)| place == label || is_number(field)) =>
        {
            false
        }
        None => {
            let expected = "a header without numbers, or a row of numbers; declare whether the first line is a header";
            return Err(BadLine::new(0, expected, format!("both: {}", excerpt(line))).at(path, line_number - 1));
        }
    };
    // Labels are words if the first one is.
    let first_row = if header {
        text[start..]
            .split(|&byte| byte == b'\n')
            .find(|line| !line.trim_ascii().is_empty())
    } else {
        Some(line)
    };
    let words = first_row
        .and_then(|row| nth_field(row, label, delimiter))
        .is_some_and(|field| !is_number(&field));
    Ok((
        Shape {
            delimiter,
            fields: fields.len(),
            label,
            header,
            words,
        },
        start,
    ))
}

fn nth_field(line: &[u8], place: usize, delimiter: u8) -> Option<Cow<'_, [u8]>> {
    let mut at = 0;
    for _ in 0..place {
        let (_, end) = split(line, at, delimiter)?;
        at = end + 1;
        if end >= line.len() {
            return None;
        }
    }
    split(line, at, delimiter).map(|(field, _)| field)
}

/// [`split_line`] of the line of `text` in which `at` lies.
fn split(text: &[u8], at: usize, delimiter: u8) -> Option<(Cow<'_, [u8]>, usize)> {
    let rest = &text[at.min(text.len())..];
    let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    split_line(&text[..at + end], at, delimiter)
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

/// Rows parsed from one block.
#[derive(Default)]
struct Part {
    values: Vec<f32>,
    numbers: Vec<f32>,
    rows: Vec<u32>,
    words: Words,
}

/// Parses whole lines.
fn parse_block(text: &[u8], shape: &Shape) -> Result<(Part, usize), BadLine> {
    let mut part = Part::default();
    part.values.reserve(text.len() / 6);
    let mut line = 0;
    let mut at = 0;
    while at < text.len() {
        if matches!(text[at], b'\n' | b'\r' | b' ') {
            // A blank line, or blanks before the first field, which the field's own parser skips.
            let length = text[at..]
                .iter()
                .position(|&byte| byte == b'\n')
                .unwrap_or(text.len() - at);
            if text[at..at + length].trim_ascii().is_empty() {
                at += length + 1;
                line += 1;
                continue;
            }
        }
        let start = at;
        for place in 0..shape.fields {
            let is_label = place == shape.label;
            let fast = match number::scan(&text[at..]) {
                Some((value, length))
                    if !(is_label && shape.words) && ends_field(text, at + length, shape.delimiter) =>
                {
                    Some((value, at + length))
                }
                _ => None,
            };
            let (value, mut end) = match fast {
                Some(found) => found,
                None => slow_field(text, at, place, line, shape, &mut part)?,
            };
            if !value.is_finite() {
                return Err(BadLine::new(
                    line,
                    format!("a finite number in column {}", place + 1),
                    excerpt(&text[at..end]),
                ));
            }
            if !is_label {
                part.values.push(value);
            } else if !shape.words {
                part.numbers.push(value);
            }
            if text.get(end) == Some(&b'\r') && text.get(end + 1) == Some(&b'\n') {
                end += 1;
            }
            let last = place + 1 == shape.fields;
            let separated = text.get(end) == Some(&shape.delimiter);
            if separated == last {
                let rest = text[start..].split(|&byte| byte == b'\n').next().unwrap_or_default();
                let mut count = 1;
                let mut at = 0;
                while let Some((_, end)) =
                    split(rest, at, shape.delimiter).filter(|&(_, end)| rest.get(end) == Some(&shape.delimiter))
                {
                    count += 1;
                    at = end + 1;
                }
                return Err(other_fields(line, shape.fields, count, rest));
            }
            at = end + 1;
        }
        line += 1;
    }
    Ok((part, line))
}

#[inline]
fn ends_field(text: &[u8], at: usize, delimiter: u8) -> bool {
    match text.get(at) {
        None | Some(b'\n') => true,
        Some(b'\r') => matches!(text.get(at + 1), None | Some(b'\n')),
        Some(&byte) => byte == delimiter,
    }
}

/// A field that is not simply a number: quoted, with blanks, a word, or wrong. For a label that is a word the word is
/// recorded and the value is 0.
#[cold]
fn slow_field(
    text: &[u8],
    at: usize,
    place: usize,
    line: usize,
    shape: &Shape,
    part: &mut Part,
) -> Result<(f32, usize), BadLine> {
    let Some((field, end)) = split(text, at, shape.delimiter) else {
        return Err(BadLine::new(
            line,
            "a closing quote in the line of the opening one",
            excerpt(&text[at..]),
        ));
    };
    if !ends_field(text, end, shape.delimiter) {
        return Err(BadLine::new(
            line,
            "a separator after the closing quote",
            excerpt(&text[end..]),
        ));
    }
    if field.is_empty() {
        let expected = format!(
            "a number in column {} (fill missing values in, or remove the row)",
            place + 1
        );
        return Err(BadLine::new(line, expected, "an empty field"));
    }
    if place == shape.label && shape.words {
        let word = part.words.index(&field);
        part.rows.push(word);
        return Ok((0.0, end));
    }
    let expected = || {
        if place == shape.label {
            format!("a number as the label in column {}, as in the first row", place + 1)
        } else {
            format!(
                "a finite number in column {} (words need to be encoded as numbers)",
                place + 1
            )
        }
    };
    number::parse(&field)
        .map(|value| (value, end))
        .ok_or_else(|| BadLine::new(line, expected(), excerpt(&field)))
}

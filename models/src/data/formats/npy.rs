//! NPY and NPZ, numpy's formats: one array a file, or several in a zip archive.
//!
//! The header has its own parser, which takes nothing but the three entries: a parser of Python literals recurses as deep as
//! a damaged header is nested.

use crate::data::array::{Element, Header};
use crate::data::error::DataError;
use crate::data::ids::{self, Ids};
use crate::data::labels::RawLabels;
use crate::data::request::{LabelUse, Request};
use crate::data::source::{Compression, Source, damaged, expansion, expansion_bound};
use crate::data::table::Table;
use rounds_algorithms::problem::Features;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use zip::{CompressionMethod, ZipArchive};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are one line of text; numpy itself refuses longer ones.
const LONGEST_HEADER: usize = 10_000;

/// Words of an array are no longer than this.
const LONGEST_WORD: usize = 1 << 12;

/// The element that numpy calls so, without the byte order.
fn element_named(code: &str) -> Option<Element> {
    use Element::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let length = |digits: &str| digits.parse().ok().filter(|length| (1..=LONGEST_WORD).contains(length));
    match code.as_bytes().first() {
        Some(b'S') => return length(&code[1..]).map(Element::Bytes),
        Some(b'U') => return length(&code[1..]).map(Element::Characters),
        _ => {}
    }
    let codes = ["b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"];
    let elements = [Bool, U8, I8, U16, I16, U32, I32, U64, I64, F32, F64];
    let place = codes.iter().position(|known| *known == code)?;
    Some(elements[place])
}

/// Reads the header, and checks that the file can keep its promises.
fn read_header(source: &mut Source<'_>) -> Result<Header, DataError> {
    let path = source.path().to_path_buf();
    let mut start = Vec::new();
    source.read_up_to(8, &mut start)?;
    if start.len() < 8 || !start.starts_with(MAGIC) {
        let expected = "an NPY file (bytes 93 4e 55 4d 50 59, then the version)";
        return Err(DataError::magic(&path, &start, expected));
    }
    let refuse = |found: String, expected: &str| DataError::header(&path, found, expected);
    let width = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(refuse(format!("version {version}"), "NPY version 1, 2 or 3")),
    };
    let mut length = Vec::new();
    source.read_up_to(width, &mut length)?;
    let short = |promised: usize, found: usize| DataError::size(&path, promised as u128, found as u128);
    let length = match *length {
        [low, high] => usize::from(u16::from_le_bytes([low, high])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => return Err(short(8 + width, 8 + length.len())),
    };
    if length > LONGEST_HEADER {
        return Err(refuse(format!("{length} bytes of header"), "a header of at most 10,000 bytes"));
    }
    let mut text = Vec::new();
    if source.read_up_to(length, &mut text)? < length {
        return Err(short(8 + width + length, 8 + width + text.len()));
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let Some(fields) = Fields::parse(&text) else {
        let found = format!("{:?}", shorten(&text));
        return Err(refuse(found, "a dictionary of descr, fortran_order and shape"));
    };
    let Some(element) = element_named(fields.descr.trim_start_matches(['<', '>', '|', '='])) else {
        return Err(refuse(
            format!("the dtype {:?}", shorten(&fields.descr)),
            "an element type among bool, integers, float32 and float64, in either byte order, or words of labels \
             ('U' or 'S'); convert with array.astype('float32') and save again",
        ));
    };
    let header = Header {
        element,
        big_endian: fields.descr.starts_with('>'),
        fortran_order: fields.fortran_order && fields.shape.len() > 1,
        shape: fields.shape,
        start: 8 + width + length,
    };
    header.checked(source)
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The three entries of a header's dictionary.
struct Fields {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Fields {
    /// Parses the Python literal `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, entries in any order. A
    /// `descr` that is a list (a structured type) is kept as text.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" if value.starts_with('[') => {
                    // Up to the bracket that closes the first one.
                    let mut depth = 0;
                    let end = value.find(|character| {
                        depth += i32::from(character == '[') - i32::from(character == ']');
                        depth == 0
                    })?;
                    descr = Some(value[..=end].to_owned());
                    &value[end + 1..]
                }
                "descr" => {
                    let (value, after) = quoted(value)?;
                    descr = Some(value.to_owned());
                    after
                }
                "fortran_order" => {
                    let word = if value.starts_with("True") { "True" } else { "False" };
                    fortran_order = Some(word == "True");
                    value.strip_prefix(word)?
                }
                "shape" => {
                    let (tuple, after) = value.strip_prefix('(')?.split_once(')')?;
                    let sizes = tuple.split(',').map(str::trim).filter(|size| !size.is_empty());
                    let sizes = sizes.map(|size| size.trim_end_matches('L').parse().ok());
                    shape = Some(sizes.collect::<Option<Vec<usize>>>()?);
                    after
                }
                _ => return None,
            }
            .trim_start();
            rest = match rest.strip_prefix(',') {
                Some(after) => after.trim_start(),
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// A string in single or double quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|&quote| quote == '\'' || quote == '"')?;
    text[1..].split_once(quote)
}

/// Features from an array of two dimensions or more: the first is the row, the others are flattened. `uint8` stays bytes,
/// with scale 1/255 if the array has more than two dimensions (images) and 1 otherwise; all else becomes f32.
///
/// # Errors
/// Damaged headers, element types or orders that are not supported, and files that are not as long as the header promises.
pub(super) fn read_features(source: &mut Source<'_>) -> Result<Features, DataError> {
    let header = read_header(source)?;
    let is_images = header.shape.len() > 2;
    if header.fortran_order && is_images {
        let expected = "C order for more than two dimensions; save numpy.ascontiguousarray(array)";
        let found = format_args!("Fortran order and the shape {:?}", header.shape);
        return Err(DataError::header(source.path(), found, expected));
    }
    header.read_features(source, if is_images { 1.0 / 255.0 } else { 1.0 })
}

/// Labels from an array of one dimension, or of two with one column.
pub(super) fn read_labels(source: &mut Source<'_>) -> Result<RawLabels, DataError> {
    let expected = "labels of one dimension (one-hot rows: save array.argmax(1))";
    read_column(source, expected)?.read_labels(source)
}

/// Ids of units, from an array as of labels.
pub(in crate::data) fn read_ids(source: &mut Source<'_>) -> Result<Ids, DataError> {
    read_column(source, "ids of one dimension")?.read_ids(source)
}

/// The header of an array of one dimension, or of two with one column.
fn read_column(source: &mut Source<'_>, expected: &str) -> Result<Header, DataError> {
    let header = read_header(source)?;
    if header.shape.len() > 1 && header.shape[1..] != [1] {
        return Err(DataError::header(source.path(), format_args!("the shape {:?}", header.shape), expected));
    }
    Ok(header)
}

/// A single array whose last column is the label, unless the request says that it has none.
///
/// # Errors
/// As [`read_features`], and arrays without a second column.
pub(super) fn read_table(path: &Path, request: Request<'_>) -> Result<Table, DataError> {
    let features = read_features(&mut Source::open(path)?)?;
    if request.has_no_label(features.columns()) {
        let labels = RawLabels::Absent(features.len());
        return Ok(Table::of_file(path, features, labels));
    }
    if features.columns() < 2 {
        let expected = "at least two columns, the last one the label";
        return Err(DataError::header(path, "one column", expected));
    }
    let (features, labels) = match features {
        Features::U8 { mut rows, scale } => {
            let labels = rows.take_last_column().into_iter().map(f32::from).collect();
            (Features::U8 { rows, scale }, labels)
        }
        Features::F32 { mut values, columns } => {
            let labels = values.iter().skip(columns - 1).step_by(columns).copied().collect();
            let rows = values.len() / columns;
            for row in 1..rows {
                values.copy_within(row * columns..(row + 1) * columns - 1, row * (columns - 1));
            }
            values.truncate(rows * (columns - 1));
            (Features::f32(values, columns - 1), labels)
        }
        Features::Sparse(_) => unreachable!("arrays are dense"),
    };
    Ok(Table::of_file(path, features, RawLabels::Numbers(labels)))
}

/// Names of arrays of an archive or a folder that are features and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// Features and labels to train on.
    pub(super) train: [String; 2],
    /// Features and labels to test on.
    pub(super) test: Option<[String; 2]>,
}

const TRAIN_FEATURES: &str = "x_train train_x train_images train_features train_data x features data images";
const TRAIN_LABELS: &str = "y_train train_y train_labels train_targets y labels label targets target";
const TEST_FEATURES: &str = "x_test test_x test_images test_features test_data";
const TEST_LABELS: &str = "y_test test_y test_labels test_targets";
/// What [`Roles::of`] looks for, for messages.
pub(super) const EXPECTED_ARRAYS: &str = "arrays x_train and y_train (x_test, y_test), or x and y (or train_images, train_labels, …; features, labels; data, target)";

impl Roles {
    /// Finds the roles by the usual names, in any case.
    pub(super) fn of(names: &[String]) -> Option<Self> {
        let find = |candidates: &str| named(names, candidates);
        let train = [find(TRAIN_FEATURES)?, find(TRAIN_LABELS)?];
        let test = find(TEST_FEATURES).zip(find(TEST_LABELS)).map(<[String; 2]>::from);
        Some(Self { train, test })
    }

    /// Features and labels of the test rows, or else of the only rows, and whether they are test rows. Labels that are ignored
    /// need not be there.
    pub(super) fn of_model(names: &[String], labels: LabelUse) -> Option<(String, Option<String>, bool)> {
        if labels == LabelUse::Needed {
            let Self { train, test } = Self::of(names)?;
            let is_test = test.is_some();
            let [features, labels] = test.unwrap_or(train);
            return Some((features, Some(labels), is_test));
        }
        let test = named(names, TEST_FEATURES).map(|features| (features, None, true));
        test.or_else(|| Some((named(names, TRAIN_FEATURES)?, None, false)))
    }
}

/// The first of `candidates` that is among the names, in any case.
fn named(names: &[String], candidates: &str) -> Option<String> {
    let same = |candidate: &str| names.iter().find(|name| name.eq_ignore_ascii_case(candidate));
    candidates.split(' ').find_map(same).cloned()
}

pub(super) struct Archive {
    path: PathBuf,
    file_bytes: u64,
    zip: ZipArchive<BufReader<File>>,
    /// Names of the arrays.
    pub(super) names: Vec<String>,
}

impl Archive {
    /// Opens an archive and reads its directory.
    ///
    /// # Errors
    /// Missing files, and archives whose directory is damaged.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        // The same complaints as for any other file.
        let file_bytes = Source::open(path)?.file_bytes;
        let file = File::open(path).map_err(DataError::read(path))?;
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, "zip", &error))?;
        let names = zip.file_names().filter_map(Result::ok);
        let names = names.filter_map(|name| name.strip_suffix(".npy").map(str::to_owned)).collect();
        let path = path.into();
        Ok(Self { path, file_bytes, zip, names })
    }

    /// Rows with these features and labels, or without labels.
    ///
    /// # Errors
    /// Those of the entries and of [`read_features`] and [`read_labels`].
    pub(super) fn table(&mut self, features: &str, labels: Option<&str>) -> Result<Table, DataError> {
        let rows = self.array(features, read_features)?;
        let path = self.path.join(format!("{features}.npy"));
        let Some(labels) = labels else {
            let absent = RawLabels::Absent(rows.len());
            return Ok(Table::of_file(&path, rows, absent));
        };
        let read = self.array(labels, read_labels)?;
        Ok(Table::of_files(&path, rows, &self.path.join(format!("{labels}.npy")), read))
    }

    /// The array of units, if there is one.
    pub(super) fn units(&mut self) -> Result<Option<Ids>, DataError> {
        let is_there = self.names.iter().any(|name| name == ids::ARRAY);
        is_there.then(|| self.array(ids::ARRAY, read_ids)).transpose()
    }

    /// Reads the array called `name` with one of this module's functions.
    ///
    /// # Errors
    /// Damaged, encrypted or otherwise packed entries; entries whose promised size their packed size does not justify;
    /// those of `read`.
    fn array<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Source<'_>) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let file = format!("{name}.npy");
        let path = self.path.join(&file);
        let entry = self.zip.by_name(&file).map_err(|error| damaged(&path, "zip", &error))?;
        let (packed, promised) = (entry.compressed_size(), entry.size());
        let compression = match entry.compression() {
            CompressionMethod::Stored => Compression::Plain,
            CompressionMethod::Deflated => Compression::Zip,
            other => {
                let expected = "entries that are stored or deflated, as numpy.savez and savez_compressed write them";
                return Err(DataError::header(&path, format_args!("the method {other:?}"), expected));
            }
        };
        if packed > self.file_bytes {
            return Err(DataError::size(&path, u128::from(packed), u128::from(self.file_bytes)));
        }
        if promised > expansion_bound(packed) {
            return Err(expansion(&path, packed));
        }
        read(&mut Source::entry(path, packed, compression, entry))
    }
}

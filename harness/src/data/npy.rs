//! NPY and NPZ, numpy's formats: one array a file, or several in a zip archive.
//!
//! Own parser instead of a crate's, because a header has to be read and judged before anything is allocated, and
//! because bytes are to stay bytes.

use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::room::{Growing, reserve_promised};
use crate::data::source::{Compression, Source, expansion_bound};
use rounds_algorithms::problem::{Buffer, ByteRows, Features};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use zip::{CompressionMethod, ZipArchive};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are one line of text; numpy itself refuses longer ones.
const LONGEST_HEADER: usize = 10_000;
/// Elements converted at a time.
const BLOCK: usize = 1 << 16;

/// Type of an element; multi-byte ones come in either byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Element {
    /// The element that numpy calls so, without the byte order.
    fn named(code: &str) -> Option<Self> {
        Some(match code {
            "b1" => Self::Bool,
            "u1" => Self::U8,
            "i1" => Self::I8,
            "u2" => Self::U16,
            "i2" => Self::I16,
            "u4" => Self::U32,
            "i4" => Self::I32,
            "u8" => Self::U64,
            "i8" => Self::I64,
            "f4" => Self::F32,
            "f8" => Self::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Appends the elements in `bytes`, each rounded to the nearest f32.
    fn decode(self, big_endian: bool, bytes: &[u8], out: &mut Vec<f32>) {
        fn extend<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, swap: bool, number: impl Fn([u8; N]) -> f32) {
            out.extend(bytes.as_chunks::<N>().0.iter().map(|&element| {
                let mut element = element;
                if swap {
                    element.reverse();
                }
                number(element)
            }));
        }
        match self {
            Self::Bool => extend(bytes, out, false, |[byte]| f32::from(u8::from(byte != 0))),
            Self::U8 => extend(bytes, out, false, |[byte]| f32::from(byte)),
            Self::I8 => extend(bytes, out, false, |element| f32::from(i8::from_le_bytes(element))),
            Self::U16 => extend(bytes, out, big_endian, |element| f32::from(u16::from_le_bytes(element))),
            Self::I16 => extend(bytes, out, big_endian, |element| f32::from(i16::from_le_bytes(element))),
            Self::U32 => extend(bytes, out, big_endian, |element| u32::from_le_bytes(element) as f32),
            Self::I32 => extend(bytes, out, big_endian, |element| i32::from_le_bytes(element) as f32),
            Self::U64 => extend(bytes, out, big_endian, |element| u64::from_le_bytes(element) as f32),
            Self::I64 => extend(bytes, out, big_endian, |element| i64::from_le_bytes(element) as f32),
            Self::F32 => extend(bytes, out, big_endian, f32::from_le_bytes),
            Self::F64 => extend(bytes, out, big_endian, |element| f64::from_le_bytes(element) as f32),
        }
    }
}

/// What an NPY header says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    element: Element,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<usize>,
    /// Bytes of header and elements together.
    promised: u128,
}

impl Header {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Reads and judges a header: afterwards the file is known to be as long as it must be, or packed and able to be.
fn read_header(source: &mut Source<'_>) -> Result<Header, DataError> {
    let path = source.path().to_path_buf();
    let mut start = Vec::new();
    source.read_up_to(8, &mut start)?;
    if start.len() < 8 || !start.starts_with(MAGIC) {
        let expected = "an NPY file (bytes 93 4e 55 4d 50 59, then the version)".into();
        return Err(DataError::Magic {
            path,
            expected,
            found: format!("{start:02x?}"),
        });
    }
    let refuse = |expected: &str, found: String| DataError::Header {
        path: path.clone(),
        expected: expected.into(),
        found,
    };
    let width = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(refuse("NPY version 1, 2 or 3", format!("version {version}"))),
    };
    let mut length = Vec::new();
    source.read_up_to(width, &mut length)?;
    let short = |found: usize| DataError::Size {
        path: path.clone(),
        promised: 8 + width as u128,
        found: found as u128,
    };
    let length = match *length {
        [low, high] => usize::from(u16::from_le_bytes([low, high])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => return Err(short(8 + length.len())),
    };
    if length > LONGEST_HEADER {
        return Err(refuse(
            "a header of at most 10,000 bytes",
            format!("{length} bytes of header"),
        ));
    }
    let mut text = Vec::new();
    if source.read_up_to(length, &mut text)? < length {
        let (promised, found) = ((8 + width + length) as u128, (8 + width + text.len()) as u128);
        return Err(DataError::Size {
            path: path.clone(),
            promised,
            found,
        });
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let fields = Fields::parse(&text).ok_or_else(|| {
        refuse(
            "a dictionary of descr, fortran_order and shape",
            format!("{:?}", shorten(&text)),
        )
    })?;
    let code = fields.descr.trim_start_matches(['<', '>', '|', '=']);
    let element = Element::named(code).ok_or_else(|| {
        refuse(
            "an element type among bool, integers, float32 and float64, in either byte order; convert with \
             array.astype('float32') and save again",
            format!("the dtype {:?}", shorten(&fields.descr)),
        )
    })?;
    let bytes = fields
        .shape
        .iter()
        .try_fold(element.bytes() as u128, |total, &size| total.checked_mul(size as u128));
    let bytes = bytes
        .filter(|_| (1..=8).contains(&fields.shape.len()) && !fields.shape.contains(&0))
        .ok_or_else(|| {
            refuse(
                "one to eight dimensions, none of them empty or impossibly large",
                format!("the shape {}", shorten(&format!("{:?}", fields.shape))),
            )
        })?;
    let promised = bytes.saturating_add((8 + width + length) as u128);
    source.check_promise(promised)?;
    let big_endian = fields.descr.starts_with('>');
    Ok(Header {
        element,
        big_endian,
        fortran_order: fields.fortran_order,
        shape: fields.shape,
        promised,
    })
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
                    let (value, after) = value.split_at_checked(if value.starts_with("True") { 4 } else { 5 })?;
                    fortran_order = Some(match value {
                        "True" => true,
                        "False" => false,
                        _ => return None,
                    });
                    after
                }
                "shape" => {
                    let (tuple, after) = value.strip_prefix('(')?.split_once(')')?;
                    let sizes = tuple.split(',').map(str::trim).filter(|size| !size.is_empty());
                    shape = Some(
                        sizes
                            .map(|size| size.trim_end_matches('L').parse().ok())
                            .collect::<Option<Vec<usize>>>()?,
                    );
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
        Some(Self {
            descr: descr?,
            fortran_order: fortran_order?,
            shape: shape?,
        })
    }
}

/// A string in single or double quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|&quote| quote == '\'' || quote == '"')?;
    text[1..].split_once(quote)
}

/// Calls `take` with all elements in the order of the file, converted, a block at a time.
fn for_each_block(
    source: &mut Source<'_>,
    header: &Header,
    mut take: impl FnMut(&[f32], &[u8]),
) -> Result<(), DataError> {
    let mut remaining = header.elements() * header.element.bytes();
    let mut bytes = Vec::with_capacity(remaining.min(BLOCK * header.element.bytes()));
    let mut numbers = Vec::new();
    while remaining > 0 {
        bytes.clear();
        numbers.clear();
        let wanted = remaining.min(BLOCK * header.element.bytes());
        let read = source.read_up_to(wanted, &mut bytes)?;
        if read < wanted {
            let found = header.promised - (remaining - read) as u128;
            return Err(DataError::Size {
                path: source.path().into(),
                promised: header.promised,
                found,
            });
        }
        if header.element != Element::U8 {
            header.element.decode(header.big_endian, &bytes, &mut numbers);
        }
        take(&numbers, &bytes);
        remaining -= wanted;
    }
    source.expect_end(header.promised)
}

/// An array of rows: empty, or of zeros to be overwritten in any order.
trait Rows: Growing<Value: Copy> {
    fn zeroed(rows: usize, columns: usize) -> Self;

    /// All values, and how far a row's begin lies from the one before.
    fn memory(&mut self, columns: usize) -> (&mut [Self::Value], usize);
}

impl Rows for Buffer<f32> {
    fn zeroed(rows: usize, columns: usize) -> Self {
        Buffer::zeroed(rows * columns)
    }

    fn memory(&mut self, columns: usize) -> (&mut [f32], usize) {
        (self, columns)
    }
}

impl Rows for ByteRows {
    fn zeroed(rows: usize, columns: usize) -> Self {
        ByteRows::zeroed(rows, columns)
    }

    fn memory(&mut self, _: usize) -> (&mut [u8], usize) {
        self.memory_mut()
    }
}

/// Elements in C order, `rows × columns`, from blocks in the order of the file.
struct Collected<R> {
    values: R,
    total: usize,
    /// Elements for which room may be made before they have arrived.
    justified: usize,
    /// rows and columns, if the file runs down the columns.
    transposed: Option<(usize, usize)>,
    position: usize,
}

impl<R: Rows> Collected<R> {
    fn new(header: &Header, source: &Source<'_>) -> Self {
        let total = header.elements();
        let rows = header.shape[0];
        let columns = total / rows;
        let transposed = (header.fortran_order && header.shape.len() > 1).then_some((rows, columns));
        Self {
            values: R::zeroed(if transposed.is_some() { rows } else { 0 }, columns),
            total,
            justified: source.justified_bytes() / header.element.bytes(),
            transposed,
            position: 0,
        }
    }

    fn extend(&mut self, block: &[R::Value]) {
        if let Some((rows, columns)) = self.transposed {
            let (memory, stride) = self.values.memory(columns);
            let (mut column, mut row) = (self.position / rows, self.position % rows);
            for &value in block {
                memory[row * stride + column] = value;
                row += 1;
                if row == rows {
                    (row, column) = (0, column + 1);
                }
            }
            self.position += block.len();
        } else {
            reserve_promised(&mut self.values, block.len(), self.total, self.justified);
            self.values.append(block);
        }
    }
}

/// Features from an array of two dimensions or more: the first is the row, the others are flattened. `uint8` stays bytes,
/// with scale 1/255 if the array has more than two dimensions (images) and 1 otherwise; all else becomes f32.
///
/// # Errors
/// Damaged headers, element types or orders that are not supported, and files that are not as long as the header promises.
pub fn read_features(source: &mut Source<'_>) -> Result<Features, DataError> {
    let header = read_header(source)?;
    let refuse = |expected: &str, found| DataError::Header {
        path: source.path().into(),
        expected: expected.into(),
        found,
    };
    if header.shape.len() < 2 {
        return Err(refuse(
            "features of two dimensions or more",
            format!("the shape {:?}", header.shape),
        ));
    }
    if header.fortran_order && header.shape.len() > 2 {
        return Err(refuse(
            "C order for more than two dimensions; save numpy.ascontiguousarray(array)",
            format!("Fortran order and the shape {:?}", header.shape),
        ));
    }
    let columns = header.shape[1..].iter().product();
    if header.element == Element::U8 {
        let mut collected = Collected::<ByteRows>::new(&header, source);
        for_each_block(source, &header, |_, bytes| collected.extend(bytes))?;
        let scale = if header.shape.len() > 2 { 1.0 / 255.0 } else { 1.0 };
        Ok(Features::U8 {
            rows: collected.values,
            scale,
        })
    } else {
        let mut collected = Collected::<Buffer<f32>>::new(&header, source);
        for_each_block(source, &header, |numbers, _| collected.extend(numbers))?;
        Ok(Features::f32(collected.values, columns))
    }
}

/// Labels from an array of one dimension, or of two with one column.
///
/// # Errors
/// As [`read_features`].
pub fn read_labels(source: &mut Source<'_>) -> Result<RawLabels, DataError> {
    let header = read_header(source)?;
    let path = source.path().to_path_buf();
    if header.shape.len() > 1 && header.shape[1..] != [1] {
        let expected = "labels of one dimension (one-hot rows: save array.argmax(1))".into();
        return Err(DataError::Header {
            path,
            expected,
            found: format!("the shape {:?}", header.shape),
        });
    }
    let mut collected = Collected::<Buffer<f32>>::new(&header, source);
    let mut bytes_as_numbers = Vec::new();
    for_each_block(source, &header, |numbers, bytes| {
        if header.element == Element::U8 {
            bytes_as_numbers.clear();
            header.element.decode(false, bytes, &mut bytes_as_numbers);
            collected.extend(&bytes_as_numbers);
        } else {
            collected.extend(numbers);
        }
    })?;
    Ok(RawLabels::Numbers(collected.values.to_vec()))
}

/// A single array whose last column is the label.
///
/// # Errors
/// As [`read_features`], and arrays without a second column.
pub fn read_table(source: &mut Source<'_>) -> Result<(Features, RawLabels), DataError> {
    let features = read_features(source)?;
    let columns = features.columns();
    if columns < 2 {
        return Err(DataError::Header {
            path: source.path().into(),
            expected: "at least two columns, the last one the label".into(),
            found: "one column".into(),
        });
    }
    match features {
        Features::U8 { mut rows, scale } => {
            let labels = rows.take_last_column().into_iter().map(f32::from).collect();
            Ok((Features::U8 { rows, scale }, RawLabels::Numbers(labels)))
        }
        Features::F32 { mut values, columns } => {
            let labels = values.iter().skip(columns - 1).step_by(columns).copied().collect();
            let rows = values.len() / columns;
            for row in 1..rows {
                values.copy_within(row * columns..(row + 1) * columns - 1, row * (columns - 1));
            }
            values.truncate(rows * (columns - 1));
            Ok((Features::f32(values, columns - 1), RawLabels::Numbers(labels)))
        }
        Features::Sparse { .. } => unreachable!("arrays are dense"),
    }
}

/// Names of arrays (of an archive or a folder) that are features and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Features and labels to train on.
    pub train: [String; 2],
    /// Features and labels to test on.
    pub test: Option<[String; 2]>,
}

const TRAIN_FEATURES: &[&str] = &[
    "x_train",
    "train_x",
    "train_images",
    "train_features",
    "train_data",
    "x",
    "features",
    "data",
    "images",
];
const TRAIN_LABELS: &[&str] = &[
    "y_train",
    "train_y",
    "train_labels",
    "train_targets",
    "y",
    "labels",
    "label",
    "targets",
    "target",
];
const TEST_FEATURES: &[&str] = &["x_test", "test_x", "test_images", "test_features", "test_data"];
const TEST_LABELS: &[&str] = &["y_test", "test_y", "test_labels", "test_targets"];
/// What [`Roles::of`] looks for, for messages.
pub const EXPECTED_ARRAYS: &str = "arrays x_train and y_train (x_test, y_test), or x and y (or train_images, train_labels, …; features, labels; data, target)";

impl Roles {
    /// Finds the roles by the usual names, in any case.
    pub fn of(names: &[String]) -> Option<Self> {
        let find = |candidates: &[&str]| {
            candidates
                .iter()
                .find_map(|candidate| names.iter().find(|name| name.eq_ignore_ascii_case(candidate)))
                .cloned()
        };
        let train = [find(TRAIN_FEATURES)?, find(TRAIN_LABELS)?];
        let test = find(TEST_FEATURES)
            .zip(find(TEST_LABELS))
            .map(|(features, labels)| [features, labels]);
        Some(Self { train, test })
    }
}

/// An NPZ archive.
pub struct Archive {
    path: PathBuf,
    file_bytes: u64,
    zip: ZipArchive<BufReader<File>>,
    names: Vec<String>,
}

impl Archive {
    /// Opens an archive and reads its directory.
    ///
    /// # Errors
    /// Missing files, and archives whose directory is damaged.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        // The same complaints as for any other file.
        let file_bytes = Source::open(path)?.file_bytes();
        let file = File::open(path).map_err(|source| DataError::Read {
            path: path.into(),
            source,
        })?;
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| broken(path, error))?;
        let names = zip
            .file_names()
            .filter_map(Result::ok)
            .filter_map(|name| name.strip_suffix(".npy").map(str::to_owned));
        let names = names.collect();
        Ok(Self {
            path: path.into(),
            file_bytes,
            zip,
            names,
        })
    }

    /// Names of the arrays.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the array called `name` with one of this module's functions.
    ///
    /// # Errors
    /// Damaged, encrypted or otherwise packed entries; entries whose promised size their packed size does not justify;
    /// those of `read`.
    pub fn array<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Source<'_>) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let path = self.path.join(format!("{name}.npy"));
        let entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|error| broken(&path, error))?;
        let (packed, promised) = (entry.compressed_size(), entry.size());
        let compression = match entry.compression() {
            CompressionMethod::Stored => Compression::Plain,
            CompressionMethod::Deflated => Compression::Zip,
            other => {
                let expected =
                    "entries that are stored or deflated, as numpy.savez and savez_compressed write them".into();
                return Err(DataError::Header {
                    path,
                    expected,
                    found: format!("the method {other:?}"),
                });
            }
        };
        if packed > self.file_bytes {
            let (promised, found) = (u128::from(packed), u128::from(self.file_bytes));
            return Err(DataError::Size { path, promised, found });
        }
        if promised > expansion_bound(packed) {
            return Err(DataError::Expansion {
                path,
                packed,
                limit: expansion_bound(packed),
            });
        }
        read(&mut Source::entry(path, packed, compression, entry))
    }
}

fn broken(path: &Path, error: zip::result::ZipError) -> DataError {
    DataError::Packed {
        path: path.into(),
        kind: "zip",
        source: error.into(),
    }
}

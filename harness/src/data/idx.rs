//! IDX, the format of MNIST: two zero bytes, the type of an element, the number of dimensions, each dimension as a
//! big-endian u32, then the elements, big-endian, row-major. Plain, gzip or xz.

use crate::data::error::DataError;
use crate::data::room::reserve_promised;
use crate::data::source::{Compression, Source};
use rounds_algorithms::problem::{Buffer, ByteRows, Features, Labels};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// Bytes that are read at once, whole elements.
const BLOCK: usize = 1 << 20;

/// Data has no more dimensions than this.
const MOST_DIMENSIONS: u8 = 8;

/// Type of an IDX element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    U8 = 0x08,
    I8 = 0x09,
    I16 = 0x0b,
    I32 = 0x0c,
    F32 = 0x0d,
    F64 = 0x0e,
}

impl Element {
    const ALL: [Self; 6] = [Self::U8, Self::I8, Self::I16, Self::I32, Self::F32, Self::F64];

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn decode(self, bytes: &[u8]) -> Vec<f32> {
        fn convert<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
            bytes
                .as_chunks::<N>()
                .0
                .iter()
                .map(|&element| number(element))
                .collect()
        }
        match self {
            Self::U8 => convert(bytes, |[byte]| f32::from(byte)),
            Self::I8 => convert(bytes, |element| f32::from(i8::from_be_bytes(element))),
            Self::I16 => convert(bytes, |element| f32::from(i16::from_be_bytes(element))),
            Self::I32 => convert(bytes, |element| i32::from_be_bytes(element) as f32),
            Self::F32 => convert(bytes, f32::from_be_bytes),
            Self::F64 => convert(bytes, |element| f64::from_be_bytes(element) as f32),
        }
    }
}

/// What a header promises.
struct Promise {
    element: Element,
    shape: Vec<usize>,
    /// Bytes before the elements.
    start: u64,
    /// Bytes of the elements.
    payload: u128,
    /// Bytes of the file.
    total: u128,
}

/// Reads the header, and checks that the file can keep what it promises.
fn read_header(path: &Path, source: &mut Source<'_>) -> Result<Promise, DataError> {
    let mut header = Vec::new();
    source.read_up_to(4, &mut header)?;
    let (element, dimensions) = match header[..] {
        [0, 0, code, dimensions @ ..=MOST_DIMENSIONS] => {
            let element = Element::ALL.into_iter().find(|&element| element as u8 == code);
            element.map(|element| (element, usize::from(dimensions)))
        }
        _ => None,
    }
    .ok_or_else(|| DataError::Magic {
        path: path.into(),
        expected:
            "an IDX file (bytes 00 00, an element type 08, 09, 0b, 0c, 0d or 0e, the number of dimensions, at most 8)"
                .into(),
        found: format!("{header:02x?}"),
    })?;
    let sizes = 4 * dimensions;
    header.clear();
    if source.read_up_to(sizes, &mut header)? < sizes {
        let (promised, found) = (4 + sizes as u128, 4 + header.len() as u128);
        return Err(DataError::Size {
            path: path.into(),
            promised,
            found,
        });
    }
    let shape: Vec<usize> = header
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&size| u32::from_be_bytes(size) as usize)
        .collect();
    let elements = shape
        .iter()
        .try_fold(element.bytes() as u128, |total, &size| total.checked_mul(size as u128));
    let payload = elements
        .filter(|_| !shape.is_empty() && !shape.contains(&0))
        .ok_or_else(|| DataError::Header {
            path: path.into(),
            expected: "at least one dimension, and no empty or impossibly large one".into(),
            found: format!("the shape {shape:?}"),
        })?;
    let promised = payload.saturating_add(4 + sizes as u128);
    source.check_promise(promised)?;
    Ok(Promise {
        element,
        shape,
        start: 4 + sizes as u64,
        payload,
        total: promised,
    })
}

/// Features from elements in the order of the file: bytes stay bytes with scale 1/255, all else becomes f32.
enum Rows {
    Bytes(ByteRows),
    Numbers {
        element: Element,
        values: Buffer<f32>,
        columns: usize,
    },
}

impl Rows {
    fn new(element: Element, columns: usize) -> Self {
        match element {
            Element::U8 => Self::Bytes(ByteRows::zeroed(0, columns)),
            _ => Self::Numbers {
                element,
                values: Buffer::new(),
                columns,
            },
        }
    }

    /// Appends whole elements of the `promised` bytes, of which the file's size justifies `justified`.
    fn extend(&mut self, bytes: &[u8], promised: usize, justified: usize) {
        match self {
            Self::Bytes(rows) => {
                reserve_promised(rows, bytes.len(), promised, justified);
                rows.extend_from_slice(bytes);
            }
            Self::Numbers { element, values, .. } => {
                let size = element.bytes();
                reserve_promised(values, bytes.len() / size, promised / size, justified / size);
                values.extend_from_slice(&element.decode(bytes));
            }
        }
    }

    fn into_features(self) -> Features {
        match self {
            Self::Bytes(rows) => Features::U8 {
                rows,
                scale: 1.0 / 255.0,
            },
            Self::Numbers { values, columns, .. } => Features::f32(values, columns),
        }
    }
}

/// Rows of a plain file that were read alone.
pub struct PartOfFile {
    /// The rows asked for.
    pub features: Features,
    /// SHA-256 of their bytes.
    pub digest: [u8; 32],
    /// SHA-256 of the bytes of the rows that were only looked at.
    pub seen: [u8; 32],
}

/// The number of rows of a file, if its rows can be read alone: if it is not packed.
///
/// # Errors
/// As [`read_features`], of the header.
pub fn seekable_rows(path: &Path) -> Result<Option<usize>, DataError> {
    let mut source = Source::open(path)?;
    if source.compression() != Compression::Plain {
        return Ok(None);
    }
    Ok(read_header(path, &mut source)?.shape.first().copied())
}

/// The rows `own` of a plain file, found by seeking; the rows `seen` are read once, block by block, for their digest.
///
/// # Errors
/// As [`read_features`].
pub fn read_part(path: &Path, own: Range<usize>, seen: Range<usize>) -> Result<PartOfFile, DataError> {
    let promise = read_header(path, &mut Source::open(path)?)?;
    let columns: usize = promise.shape[1..].iter().product();
    let width = columns * promise.element.bytes();
    let failed = |source| DataError::Read {
        path: path.into(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut read = |rows: Range<usize>, take: &mut dyn FnMut(&[u8])| -> std::io::Result<[u8; 32]> {
        file.seek(SeekFrom::Start(promise.start + (rows.start * width) as u64))?;
        let mut hasher = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut left = rows.len() * width;
        while left > 0 {
            let block = &mut block[..left.min(BLOCK)];
            file.read_exact(block)?;
            hasher.update(&*block);
            take(block);
            left -= block.len();
        }
        Ok(hasher.finalize().into())
    };
    let seen = read(seen, &mut |_| ()).map_err(failed)?;
    let (mut rows, promised) = (Rows::new(promise.element, columns), own.len() * width);
    let digest = read(own, &mut |bytes| rows.extend(bytes, promised, promised)).map_err(failed)?;
    Ok(PartOfFile {
        features: rows.into_features(),
        digest,
        seen,
    })
}

/// Features: the first dimension is the row, the others are flattened. Bytes stay bytes with scale 1/255; every other
/// element type becomes f32, rounded to nearest.
///
/// # Errors
/// Missing, damaged, truncated or oversized files, wrong magic numbers, shapes without rows or features.
pub fn read_features(path: &Path) -> Result<Features, DataError> {
    let mut source = Source::open(path)?;
    let Promise {
        element,
        shape,
        payload,
        total,
        ..
    } = read_header(path, &mut source)?;
    if shape.len() < 2 {
        return Err(DataError::Header {
            path: path.into(),
            expected: "features of two dimensions or more (a file of one dimension holds labels)".into(),
            found: format!("the shape {shape:?}"),
        });
    }
    let mut rows = Rows::new(element, shape[1..].iter().product());
    let (promised, justified) = (usize::try_from(payload).unwrap_or(usize::MAX), source.justified_bytes());
    let (mut left, mut block) = (promised, Vec::new());
    while left > 0 {
        block.clear();
        let wanted = left.min(BLOCK);
        let read = source.read_up_to(wanted, &mut block)?;
        if read < wanted {
            return Err(DataError::Size {
                path: path.into(),
                promised: total,
                found: total - (left - read) as u128,
            });
        }
        rows.extend(&block, promised, justified);
        left -= wanted;
    }
    source.expect_end(total)?;
    Ok(rows.into_features())
}

/// Labels: one integer a row.
///
/// # Errors
/// As [`read_features`], and labels that are not integers.
pub fn read_labels(path: &Path) -> Result<Vec<i64>, DataError> {
    let mut source = Source::open(path)?;
    let Promise {
        element,
        shape,
        payload,
        total,
        ..
    } = read_header(path, &mut source)?;
    if shape.len() != 1 {
        return Err(DataError::Header {
            path: path.into(),
            expected: "labels of one dimension".into(),
            found: format!("the shape {shape:?}"),
        });
    }
    let bytes = source.read_exactly(usize::try_from(payload).unwrap_or(usize::MAX), total)?;
    source.expect_end(total)?;
    Ok(match element {
        Element::U8 => bytes.iter().map(|&byte| i64::from(byte)).collect(),
        Element::I8 => bytes.iter().map(|&byte| i64::from(byte.cast_signed())).collect(),
        Element::I16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&element| i64::from(i16::from_be_bytes(element)))
            .collect(),
        Element::I32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&element| i64::from(i32::from_be_bytes(element)))
            .collect(),
        Element::F32 | Element::F64 => {
            return Err(DataError::Header {
                path: path.into(),
                expected: "integer labels (element type 08, 09, 0b or 0c)".into(),
                found: format!("element type {:02x}", element as u8),
            });
        }
    })
}

/// Labels as classes `0..classes`; without `classes`, as many as the largest label asks for.
///
/// # Errors
/// [`DataError::Label`] for labels that are no class.
pub fn classes(path: &Path, labels: &[i64], classes: Option<usize>) -> Result<Labels, DataError> {
    // Without a number of classes any label that leaves the classes at most as many as the rows, or 256, is taken.
    let limit = classes.unwrap_or_else(|| labels.len().max(256));
    let label = |(row, &label): (usize, &i64)| {
        u32::try_from(label)
            .ok()
            .filter(|&label| (label as usize) < limit)
            .ok_or_else(|| DataError::Label {
                path: path.into(),
                row,
                found: label.to_string(),
                expected: format!("0 to {}", limit - 1),
            })
    };
    let values = labels.iter().enumerate().map(label).collect::<Result<Vec<u32>, _>>()?;
    let classes = classes.unwrap_or_else(|| values.iter().max().map_or(0, |&label| label as usize + 1));
    Ok(Labels::Classes {
        values,
        classes,
        names: None,
    })
}

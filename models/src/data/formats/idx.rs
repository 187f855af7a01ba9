//! IDX, the format of MNIST: two zero bytes, the type of an element, the number of dimensions, each dimension as a
//! big-endian u32, then the elements, big-endian, row-major. Plain, gzip or xz.

use crate::data::array::{BLOCK, Element, Header, Rows};
use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::source::{Compression, Source};
use crate::data::table::Table;
use rounds_algorithms::problem::Features;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// Data has no more dimensions than this.
const MOST_DIMENSIONS: u8 = 8;
const SCALE: f32 = 1.0 / 255.0;

/// The element types by their codes.
const ELEMENTS: [(u8, Element); 6] = [
    (0x08, Element::U8),
    (0x09, Element::I8),
    (0x0b, Element::I16),
    (0x0c, Element::I32),
    (0x0d, Element::F32),
    (0x0e, Element::F64),
];

/// Reads the header, and checks that the file can keep its promises.
fn read_header(source: &mut Source<'_>) -> Result<Header, DataError> {
    let mut header = Vec::new();
    source.read_up_to(4, &mut header)?;
    let known = match header[..] {
        [0, 0, code, dimensions @ ..=MOST_DIMENSIONS] => {
            ELEMENTS.iter().find(|(of, _)| *of == code).map(|(_, element)| (*element, usize::from(dimensions)))
        }
        _ => None,
    };
    let Some((element, dimensions)) = known else {
        let expected =
            "an IDX file (bytes 00 00, an element type 08, 09, 0b, 0c, 0d or 0e, the number of dimensions, at most 8)";
        return Err(DataError::magic(source.path(), &header, expected));
    };
    let sizes = 4 * dimensions;
    header.clear();
    if source.read_up_to(sizes, &mut header)? < sizes {
        let (promised, found) = (4 + sizes as u128, 4 + header.len() as u128);
        return Err(DataError::size(source.path(), promised, found));
    }
    let (sizes, _) = header.as_chunks::<4>();
    let header = Header {
        element,
        big_endian: true,
        fortran_order: false,
        shape: sizes.iter().map(|&size| u32::from_be_bytes(size) as usize).collect(),
        start: 4 + header.len(),
    };
    header.checked(source)
}

/// Rows of a plain file that were read alone.
pub(crate) struct PartOfFile {
    pub(crate) features: Features,
    /// SHA-256 of their bytes.
    pub(crate) digest: [u8; 32],
    /// SHA-256 of the bytes of the rows that were only hashed.
    pub(crate) hashed: [u8; 32],
}

/// The number of rows that a file's header promises.
pub(crate) fn promised_rows(path: &Path) -> Result<Option<usize>, DataError> {
    Ok(read_header(&mut Source::open(path)?)?.shape.first().copied())
}

/// The number of rows of a file, if its rows can be read alone: if it is not packed.
pub(crate) fn seekable_rows(path: &Path) -> Result<Option<usize>, DataError> {
    let mut source = Source::open(path)?;
    if source.compression != Compression::Plain {
        return Ok(None);
    }
    Ok(read_header(&mut source)?.shape.first().copied())
}

/// The rows `own` of a plain file, found by seeking; the rows `hashed` are read once, block by block, for their digest.
pub(crate) fn read_part(path: &Path, own: Range<usize>, hashed: Range<usize>) -> Result<PartOfFile, DataError> {
    let mut header = read_header(&mut Source::open(path)?)?;
    let mut file = File::open(path).map_err(DataError::read(path))?;
    let (start, width) = (header.start, header.row_bytes());
    let mut read = |rows: Range<usize>, take: &mut dyn FnMut(&[u8])| -> Result<[u8; 32], DataError> {
        file.seek(SeekFrom::Start((start + rows.start * width) as u64)).map_err(DataError::read(path))?;
        let mut hasher = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut left = rows.len() * width;
        while left > 0 {
            let block = &mut block[..left.min(BLOCK)];
            file.read_exact(block).map_err(DataError::read(path))?;
            hasher.update(&*block);
            take(block);
            left -= block.len();
        }
        Ok(hasher.finalize().into())
    };
    let hashed = read(hashed, &mut |_| ())?;
    header.shape[0] = own.len();
    let mut rows = Rows::new(&header, header.bytes(), SCALE);
    let digest = read(own, &mut |bytes| rows.extend(bytes))?;
    Ok(PartOfFile { features: rows.features, digest, hashed })
}

/// Features: the first dimension is the row, the others are flattened. Bytes stay bytes with scale 1/255; every other
/// element type becomes f32, rounded to nearest.
///
/// # Errors
/// Missing, damaged, truncated or oversized files, wrong magic numbers, shapes without rows or features.
fn read_features(path: &Path) -> Result<Features, DataError> {
    let mut source = Source::open(path)?;
    read_header(&mut source)?.read_features(&mut source, SCALE)
}

/// The features and labels of two files.
pub(crate) fn read_table(images: &Path, labels: &Path, classes: Option<usize>) -> Result<Table, DataError> {
    let (features, values) = rayon::join(|| read_features(images), || read_labels(labels));
    let raw = RawLabels::Indices { values: values?, classes };
    Ok(Table::of_files(images, features?, labels, raw))
}

/// Labels: one integer a row.
///
/// # Errors
/// As [`read_features`], and labels that are not integers.
pub(crate) fn read_labels(path: &Path) -> Result<Vec<i64>, DataError> {
    let mut source = Source::open(path)?;
    let header = read_header(&mut source)?;
    if header.shape.len() != 1 {
        let found = format_args!("the shape {:?}", header.shape);
        return Err(DataError::header(path, found, "labels of one dimension"));
    }
    if matches!(header.element, Element::F32 | Element::F64) {
        let found = format_args!("the element type {:?}", header.element);
        return Err(DataError::header(path, found, "integer labels (element type 08, 09, 0b or 0c)"));
    }
    let mut labels = Vec::new();
    let unused = 64 - 8 * header.element.bytes();
    header.for_each_block(&mut source, |bytes| {
        labels.extend(bytes.chunks_exact(header.element.bytes()).map(|bytes| {
            let bits = bytes.iter().fold(0_i64, |bits, &byte| bits << 8 | i64::from(byte));
            if header.element == Element::U8 {
                bits
            } else {
                // The sign bit fills the unused ones.
                bits << unused >> unused
            }
        }));
    })?;
    Ok(labels)
}

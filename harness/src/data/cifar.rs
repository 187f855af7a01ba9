//! CIFAR-10's binary records: one byte of label, then 3 × 32 × 32 bytes of red, green and blue, row-major. Plain, gzip or xz;
//! several files are one data set, unpacked side by side.

use crate::data::error::DataError;
use crate::data::room::reserve;
use crate::data::source::{Compression, Source};
use rayon::prelude::*;
use rounds_algorithms::problem::{ByteRows, Features, Labels};
use std::path::{Path, PathBuf};

/// Bytes of an image.
const PIXELS: usize = 3 * 32 * 32;
/// Bytes of a record.
pub const RECORD: usize = 1 + PIXELS;
const CLASSES: usize = 10;
/// Records read at a time.
const BLOCK: usize = 64;

/// Reads files of records, in the order given, as 3072 bytes a row with scale 1/255, and their labels.
///
/// # Errors
/// Missing or damaged files, files that do not end with a record, no file at all.
pub fn read(paths: &[PathBuf]) -> Result<(Features, Vec<u8>), DataError> {
    let parts: Vec<_> = paths.par_iter().map(|path| read_file(path)).collect::<Result<_, _>>()?;
    let (mut pixels, labels): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let rows = if pixels.len() == 1 {
        pixels.remove(0)
    } else {
        let mut all = ByteRows::zeroed(0, PIXELS);
        all.reserve_exact(pixels.iter().map(ByteRows::stored).sum());
        // A file's rows are given back as soon as they are copied.
        pixels.into_iter().for_each(|of_file| all.append(&of_file));
        all
    };
    Ok((
        Features::U8 {
            rows,
            scale: 1.0 / 255.0,
        },
        labels.concat(),
    ))
}

/// Labels as classes.
///
/// # Errors
/// Labels above 9.
pub fn classes(path: &Path, labels: &[u8]) -> Result<Labels, DataError> {
    if let Some(row) = labels.iter().position(|&label| usize::from(label) >= CLASSES) {
        return Err(DataError::Label {
            path: path.into(),
            row,
            found: labels[row].to_string(),
            expected: "0 to 9 of CIFAR-10".into(),
        });
    }
    Ok(Labels::Classes {
        values: labels.iter().copied().map(u32::from).collect(),
        classes: CLASSES,
        names: None,
    })
}

fn read_file(path: &Path) -> Result<(ByteRows, Vec<u8>), DataError> {
    let mut source = Source::open(path)?;
    let incomplete = |bytes: u128| {
        let record = RECORD as u128;
        DataError::Size {
            path: path.into(),
            promised: bytes.div_ceil(record).max(1) * record,
            found: bytes,
        }
    };
    if source.compression() == Compression::Plain && !source.file_bytes().is_multiple_of(RECORD as u64) {
        return Err(incomplete(u128::from(source.file_bytes())));
    }
    let (mut pixels, mut labels) = (ByteRows::zeroed(0, PIXELS), Vec::new());
    let mut block = Vec::with_capacity(BLOCK * RECORD);
    loop {
        block.clear();
        let read = source.read_up_to(BLOCK * RECORD, &mut block)?;
        let (records, rest) = block.as_chunks::<RECORD>();
        if !rest.is_empty() || (read == 0 && labels.is_empty()) {
            return Err(incomplete((labels.len() * RECORD + read) as u128));
        }
        reserve(&mut pixels, records.len() * PIXELS, source.progress());
        for record in records {
            labels.push(record[0]);
            pixels.extend_from_slice(&record[1..]);
        }
        if read < BLOCK * RECORD {
            return Ok((pixels, labels));
        }
    }
}

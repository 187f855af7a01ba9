//! CIFAR-10's binary records: one byte of label, then 3 × 32 × 32 bytes of red, green and blue, row-major. Plain, gzip or xz;
//! several files are one data set, unpacked side by side.

use crate::data::capacity::reserve;
use crate::data::error::DataError;
use crate::data::labels::RawLabels;
use crate::data::source::{Compression, Source};
use crate::data::table::Table;
use rayon::prelude::*;
use rounds_algorithms::problem::{ByteRows, Features};
use std::path::{Path, PathBuf};

/// Bytes of an image.
const PIXELS: usize = 3 * 32 * 32;
/// Bytes of a record.
const RECORD: usize = 1 + PIXELS;
/// Records read at a time.
const BLOCK: usize = 64;

/// Reads files of records, in the order given, as 3072 bytes a row with scale 1/255, and their labels of 10 classes.
///
/// # Errors
/// Missing or damaged files, files that do not end with a record.
///
/// # Panics
/// No file at all.
pub(super) fn read(paths: &[PathBuf]) -> Result<Table, DataError> {
    let parts: Vec<_> = paths.par_iter().map(|path| read_file(path)).collect::<Result<_, _>>()?;
    let (mut pixels, labels): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let rows = if pixels.len() == 1 {
        pixels.remove(0)
    } else {
        let mut all = ByteRows::zeroed(0, PIXELS);
        all.reserve_exact(pixels.iter().map(ByteRows::stored).sum());
        // The rows of a file are freed as soon as they are copied.
        pixels.into_iter().for_each(|of_file| all.append(&of_file));
        all
    };
    let labels = RawLabels::Indices { values: labels.concat().into_iter().map(i64::from).collect(), classes: Some(10) };
    let scale = 1.0 / 255.0;
    Ok(Table::of_file(&paths[0], Features::U8 { rows, scale }, labels))
}

fn read_file(path: &Path) -> Result<(ByteRows, Vec<u8>), DataError> {
    let mut source = Source::open(path)?;
    let incomplete = |bytes: u128| {
        let record = RECORD as u128;
        DataError::size(path, bytes.div_ceil(record).max(1) * record, bytes)
    };
    if source.compression == Compression::Plain && !source.file_bytes.is_multiple_of(RECORD as u64) {
        return Err(incomplete(u128::from(source.file_bytes)));
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

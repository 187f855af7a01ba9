//! A data file as a stream of plain bytes. Its name says how it is packed, never what it holds: a row may begin as a packed file does.
//! The file is sized before it is read, and the bytes that come out are bounded by those that go in.

use crate::data::error::DataError;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rounds_algorithms::problem::Format;

/// The packing of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    /// RFC 1952; several members are one stream.
    Gzip,
    Xz,
    /// An entry of a zip archive.
    Zip,
    /// A Parquet file, or the text of its table.
    Parquet,
}

impl Compression {
    /// The packing of a file with this name.
    pub(super) fn named(path: &Path) -> Self {
        let name = path.as_os_str().to_string_lossy();
        let packed = [(".gz", Self::Gzip), (".xz", Self::Xz), (".parquet", Self::Parquet)];
        packed.iter().find(|(ending, _)| name.ends_with(ending)).map_or(Self::Plain, |(_, packing)| *packing)
    }

    /// The first bytes of every file that is packed so.
    pub(super) fn magic(self) -> &'static [u8] {
        match self {
            Self::Plain => b"",
            Self::Gzip => &[0x1f, 0x8b],
            Self::Xz => b"\xfd7zXZ\0",
            Self::Zip => b"PK",
            Self::Parquet => b"PAR1",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zip => "zip",
            Self::Parquet => "Parquet",
        }
    }
}

/// A packed file may unpack to this many times its size. Data files reach 20; bombs 1,000 and more.
pub(super) const EXPANSION_LIMIT: u64 = 200;
/// … or to this many bytes, if that is more.
pub(super) const EXPANSION_FLOOR: u64 = 1 << 20;
/// Capacity for this many times its size may be reserved before a packed file's bytes have arrived.
const EXPANSION_EXPECTED: u64 = 20;

/// Memory that an xz decoder may take; `xz -9` asks for 65 MiB, whatever the size of the file.
const XZ_MEMORY: u64 = 128 << 20;

/// Bytes that `packed` packed bytes may unpack to.
pub(super) fn expansion_bound(packed: u64) -> u64 {
    packed.saturating_mul(EXPANSION_LIMIT).max(EXPANSION_FLOOR)
}

pub(super) struct Source<'a> {
    path: PathBuf,
    /// Bytes on disk.
    pub(super) file_bytes: u64,
    pub(super) compression: Compression,
    unpacked: u64,
    consumed: Arc<AtomicU64>,
    reader: Box<dyn Read + Send + 'a>,
}

impl<'a> Source<'a> {
    /// Opens a file that is packed as its name says.
    ///
    /// # Errors
    /// No such file, one that cannot be read, one that does not start as its packing does.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let read = DataError::read(path);
        let system = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => DataError::missing(path, "a data file"),
            _ => read(source),
        };
        // Before it is opened: a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(system)?;
        if !metadata.is_file() {
            let problem = "a pipe or device, and rows are read more than once: write them to a file, and name that";
            return Err(DataError::file(path, problem));
        }
        let mut file = File::open(path).map_err(&read)?;
        let mut start = Vec::with_capacity(6);
        (&mut file).take(6).read_to_end(&mut start).map_err(&read)?;
        let compression = Compression::named(path);
        if !start.starts_with(compression.magic()) {
            let expected = format!("a {} file, as its name says", compression.name());
            return Err(DataError::magic(path, &start, &expected));
        }
        let consumed = Arc::new(AtomicU64::new(0));
        let raw = Cursor::new(start).chain(file);
        // Decoders are metered by what they use, not by what waits in their buffer.
        let metered = |raw| Metered { reader: BufReader::with_capacity(1 << 16, raw), consumed: Arc::clone(&consumed) };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::Plain | Compression::Zip | Compression::Parquet => {
                Box::new(Metered { reader: raw, consumed: Arc::clone(&consumed) })
            }
            Compression::Gzip => Box::new(MultiGzDecoder::new(metered(raw))),
            Compression::Xz => {
                let decoder =
                    Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED).map_err(|error| read(error.into()))?;
                Box::new(XzDecoder::new_stream(metered(raw), decoder))
            }
        };
        Ok(Self { path: path.into(), file_bytes: metadata.len(), compression, unpacked: 0, consumed, reader })
    }

    /// An entry of an archive: `packed` bytes that `reader` unpacks, to be called `path`.
    pub(super) fn entry(path: PathBuf, packed: u64, compression: Compression, reader: impl Read + Send + 'a) -> Self {
        let consumed = Arc::new(AtomicU64::new(0));
        Self { path, file_bytes: packed, compression, unpacked: 0, consumed, reader: Box::new(reader) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The part of the file that has been consumed so far.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            consumed: self.consumed.load(Ordering::Relaxed),
            unpacked: self.unpacked,
            file_bytes: self.file_bytes,
        }
    }

    /// The most bytes that this file may hold: its size when plain, what its packed size justifies otherwise.
    pub(super) fn byte_bound(&self) -> u64 {
        match self.compression {
            Compression::Plain => self.file_bytes,
            _ => expansion_bound(self.file_bytes),
        }
    }

    /// Bytes for which capacity may be reserved before they have arrived: the file's own when plain, as many as data files
    /// unpack to otherwise.
    pub(super) fn justified_bytes(&self) -> usize {
        let bytes = match self.compression {
            Compression::Plain => self.file_bytes,
            _ => self.file_bytes.saturating_mul(EXPANSION_EXPECTED),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Checks that the header's promise of `total` bytes, header included, can be kept, before anything is allocated.
    ///
    /// # Errors
    /// A plain file of another size; a packed one that would have to expand beyond [`expansion_bound`].
    pub(super) fn check_promise(&self, total: u128) -> Result<(), DataError> {
        match self.compression {
            Compression::Plain if total != u128::from(self.file_bytes) => {
                Err(DataError::size(&self.path, total, u128::from(self.file_bytes)))
            }
            _ if total > u128::from(self.byte_bound()) => Err(expansion(&self.path, self.file_bytes)),
            _ => Ok(()),
        }
    }

    /// Appends up to `limit` bytes to `out` and returns how many; fewer only at the end of the file.
    ///
    /// # Errors
    /// A file that cannot be read, a damaged packed stream, and one that unpacks to more than its size justifies.
    pub(super) fn read_up_to(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<usize, DataError> {
        let bound = expansion_bound(self.file_bytes);
        let packed = self.compression != Compression::Plain;
        let allowed = if packed { (limit as u64).min(bound - self.unpacked.min(bound) + 1) } else { limit as u64 };
        let read = (&mut self.reader).take(allowed).read_to_end(out).map_err(|source| match source.raw_os_error() {
            None if packed => damaged(&self.path, self.compression.name(), &source),
            _ => DataError::read(&self.path)(source),
        })?;
        self.unpacked += read as u64;
        if packed && self.unpacked > bound {
            return Err(expansion(&self.path, self.file_bytes));
        }
        Ok(read)
    }

    /// Checks that nothing follows what the header promised; this also verifies a packed file's checksum.
    ///
    /// # Errors
    /// More bytes, and those of [`read_up_to`](Self::read_up_to).
    pub(super) fn expect_end(&mut self, promised: u128) -> Result<(), DataError> {
        let mut rest = Vec::new();
        if self.read_up_to(1, &mut rest)? > 0 {
            return Err(DataError::size(&self.path, promised, u128::from(self.unpacked)));
        }
        Ok(())
    }
}

/// A file's name without the endings of packing.
pub(super) fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let unpacked = [".gz", ".xz"].iter().find_map(|ending| name.strip_suffix(ending));
    unpacked.unwrap_or(&name).to_owned()
}

pub(super) fn damaged(path: &Path, kind: &str, source: &dyn std::fmt::Display) -> DataError {
    DataError::contents(path, format_args!("the {kind} stream is damaged or cut off ({source}); fetch the file again"))
}

/// A packed file that unpacks to more than its size justifies.
pub(super) fn expansion(path: &Path, packed: u64) -> DataError {
    let problem = format!(
        "it would unpack to more than {} bytes, which is more than data does; if it is genuine, unpack it and load the plain file",
        expansion_bound(packed)
    );
    DataError::contents(path, problem)
}

/// The part of a file that has been consumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    consumed: u64,
    unpacked: u64,
    file_bytes: u64,
}

impl Progress {
    /// Extrapolates a count reached so far to the whole file, with a margin of an eighth. A file whose begin packs better
    /// than data do is taken for one whose rest does not.
    pub(super) fn extrapolate(&self, so_far: usize) -> usize {
        let file_bytes = self.file_bytes.max(1);
        let consumed = self.consumed.max(self.unpacked / EXPANSION_EXPECTED).clamp(1, file_bytes);
        (so_far as f64 * (file_bytes as f64 / consumed as f64) * 1.125) as usize
    }
}

/// Counts the bytes that pass.
struct Metered<R> {
    reader: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Metered<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// The file called `name` in `folder`, plain or packed.
pub(super) fn packed_or_not(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut paths = ["", ".gz", ".xz"].map(|ending| folder.join(format!("{name}{ending}"))).into_iter();
    paths.find(|path| path.is_file())
}

/// The format that a file is called by.
pub(super) fn named_format(path: &Path) -> Option<Format> {
    let name = unpacked_name(path).to_ascii_lowercase();
    let endings = [
        (".npy", Format::Npy),
        (".npz", Format::Npz),
        (".bin", Format::CifarRecords),
        (".parquet", Format::Parquet),
        (".csv", Format::Csv),
        (".tsv", Format::Csv),
        (".libsvm", Format::Libsvm),
        (".svm", Format::Libsvm),
        ("-ubyte", Format::Idx),
    ];
    endings.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_packs_too_well_reserves_nothing_for_a_rest_that_cannot() {
        let progress = |consumed, unpacked, file_bytes| Progress { consumed, unpacked, file_bytes };
        // A megabyte of zeros came from a thousand bytes of a file of 60 MB, whose rest may well be noise.
        let expected = progress(1_000, 1 << 20, 60_000_000).extrapolate(1 << 20) as f64;
        assert!(expected < 1.2 * 20.0 * 60e6, "{expected}");
        // A file that packs as data do is extrapolated.
        assert_eq!(progress(100_000, 500_000, 1_000_000).extrapolate(500_000), 5_625_000);
    }
}

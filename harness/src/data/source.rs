//! A data file as a stream of plain bytes: gzip or xz is recognised by its magic number, the file is sized before it is
//! read, and what comes out is bounded by what went in.

use crate::data::error::DataError;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, RFC 1952; several members are one stream.
    Gzip,
    /// xz.
    Xz,
    /// An entry of a zip archive.
    Zip,
}

impl Compression {
    /// Recognises a file by its first bytes.
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zip => "zip",
        }
    }
}

/// A packed file may unpack to this many times its size. Data files reach 20; bombs 1,000 and more.
pub const EXPANSION_LIMIT: u64 = 200;
/// … or to this many bytes, if that is more.
pub const EXPANSION_FLOOR: u64 = 1 << 20;
/// Room for this many times its size may be made before a packed file's bytes have arrived.
const EXPANSION_EXPECTED: u64 = 20;

/// Memory that an xz decoder may take; `xz -9` asks for 65 MiB, whatever the size of the file.
const XZ_MEMORY: u64 = 128 << 20;

/// Bytes that `packed` packed bytes may unpack to.
pub fn expansion_bound(packed: u64) -> u64 {
    packed.saturating_mul(EXPANSION_LIMIT).max(EXPANSION_FLOOR)
}

/// An opened data file.
pub struct Source<'a> {
    path: PathBuf,
    file_bytes: u64,
    compression: Compression,
    unpacked: u64,
    consumed: Arc<AtomicU64>,
    reader: Box<dyn Read + Send + 'a>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Source({}, {} bytes, {:?})",
            self.path.display(),
            self.file_bytes,
            self.compression
        )
    }
}

impl<'a> Source<'a> {
    /// Opens a file and looks at its first bytes.
    ///
    /// # Errors
    /// [`DataError::Missing`] if there is no such file, [`DataError::Read`] if it cannot be read.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let read = |source| match source {
            source if std::io::Error::kind(&source) == std::io::ErrorKind::NotFound => DataError::Missing {
                path: path.into(),
                looked_for: "a data file".into(),
            },
            source => DataError::Read {
                path: path.into(),
                source,
            },
        };
        let mut file = File::open(path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() {
            return Err(DataError::Missing {
                path: path.into(),
                looked_for: "a regular file".into(),
            });
        }
        let mut start = Vec::with_capacity(6);
        (&mut file).take(6).read_to_end(&mut start).map_err(read)?;
        let compression = Compression::of(&start);
        let consumed = Arc::new(AtomicU64::new(0));
        let raw = Cursor::new(start).chain(file);
        // Decoders are metered by what they use, not by what waits in their buffer.
        let metered = |raw| Metered {
            reader: BufReader::with_capacity(1 << 16, raw),
            consumed: Arc::clone(&consumed),
        };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::Plain | Compression::Zip => Box::new(Metered {
                reader: raw,
                consumed: Arc::clone(&consumed),
            }),
            Compression::Gzip => Box::new(MultiGzDecoder::new(metered(raw))),
            Compression::Xz => {
                let decoder = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED).map_err(|error| DataError::Read {
                    path: path.into(),
                    source: error.into(),
                })?;
                Box::new(XzDecoder::new_stream(metered(raw), decoder))
            }
        };
        Ok(Self {
            path: path.into(),
            file_bytes: metadata.len(),
            compression,
            unpacked: 0,
            consumed,
            reader,
        })
    }

    /// An entry of an archive: `packed` bytes that `reader` unpacks, to be called `path`.
    pub fn entry(path: PathBuf, packed: u64, compression: Compression, reader: impl Read + Send + 'a) -> Self {
        let consumed = Arc::new(AtomicU64::new(0));
        Self {
            path,
            file_bytes: packed,
            compression,
            unpacked: 0,
            consumed,
            reader: Box::new(reader),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is packed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes on disk.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// How much of the file has been consumed so far.
    pub fn progress(&self) -> Progress {
        Progress {
            consumed: self.consumed.load(Ordering::Relaxed),
            unpacked: self.unpacked,
            file_bytes: self.file_bytes,
        }
    }

    /// The most bytes that this file may hold: its size when plain, what its packed size justifies otherwise.
    pub fn byte_bound(&self) -> u64 {
        match self.compression {
            Compression::Plain => self.file_bytes,
            _ => expansion_bound(self.file_bytes),
        }
    }

    /// Bytes for which room may be made before they have arrived: the file's own when plain, as many as data files unpack to
    /// otherwise.
    pub fn justified_bytes(&self) -> usize {
        let bytes = match self.compression {
            Compression::Plain => self.file_bytes,
            _ => self.file_bytes.saturating_mul(EXPANSION_EXPECTED),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Checks that the header's promise of `total` bytes, header included, can be kept, before anything is allocated.
    ///
    /// # Errors
    /// [`DataError::Size`] for a plain file of another size; [`DataError::Expansion`] for a packed one that would have to
    /// expand beyond [`expansion_bound`].
    pub fn check_promise(&self, total: u128) -> Result<(), DataError> {
        match self.compression {
            Compression::Plain if total != u128::from(self.file_bytes) => Err(DataError::Size {
                path: self.path.clone(),
                promised: total,
                found: u128::from(self.file_bytes),
            }),
            Compression::Gzip | Compression::Xz | Compression::Zip if total > u128::from(self.byte_bound()) => {
                Err(self.expands())
            }
            _ => Ok(()),
        }
    }

    /// Appends up to `limit` bytes to `out` and returns how many; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`DataError::Read`], [`DataError::Packed`] and [`DataError::Expansion`].
    pub fn read_up_to(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<usize, DataError> {
        let bound = expansion_bound(self.file_bytes);
        let packed = self.compression != Compression::Plain;
        let allowed = if packed {
            (limit as u64).min(bound - self.unpacked.min(bound) + 1)
        } else {
            limit as u64
        };
        let read = (&mut self.reader).take(allowed).read_to_end(out).map_err(|source| {
            if packed && source.raw_os_error().is_none() {
                DataError::Packed {
                    path: self.path.clone(),
                    kind: self.compression.name(),
                    source,
                }
            } else {
                DataError::Read {
                    path: self.path.clone(),
                    source,
                }
            }
        })?;
        self.unpacked += read as u64;
        if packed && self.unpacked > bound {
            return Err(self.expands());
        }
        Ok(read)
    }

    /// Reads exactly `count` bytes of a file whose header promised `promised` in all. Memory is reserved as the
    /// bytes arrive, never more than twice what has arrived beyond the file's own size.
    ///
    /// # Errors
    /// [`DataError::Size`] if the file ends early, and those of [`read_up_to`](Self::read_up_to).
    pub fn read_exactly(&mut self, count: usize, promised: u128) -> Result<Vec<u8>, DataError> {
        let mut out = Vec::new();
        while out.len() < count {
            let justified = out.len().max(self.file_bytes as usize).max(1 << 16);
            let step = justified.min(count - out.len());
            out.reserve_exact(step);
            if self.read_up_to(step, &mut out)? < step {
                let found = u128::from(self.unpacked);
                return Err(DataError::Size {
                    path: self.path.clone(),
                    promised,
                    found,
                });
            }
        }
        Ok(out)
    }

    /// Checks that nothing follows what the header promised; this also verifies a packed file's checksum.
    ///
    /// # Errors
    /// [`DataError::Size`] if there is more, and those of [`read_up_to`](Self::read_up_to).
    pub fn expect_end(&mut self, promised: u128) -> Result<(), DataError> {
        let mut rest = Vec::new();
        if self.read_up_to(1, &mut rest)? > 0 {
            let found = u128::from(self.unpacked);
            return Err(DataError::Size {
                path: self.path.clone(),
                promised,
                found,
            });
        }
        Ok(())
    }

    fn expands(&self) -> DataError {
        DataError::Expansion {
            path: self.path.clone(),
            packed: self.file_bytes,
            limit: self.byte_bound(),
        }
    }
}

/// How much of a file has been consumed.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    consumed: u64,
    unpacked: u64,
    file_bytes: u64,
}

impl Progress {
    /// Of `file_bytes`, `consumed` bytes have unpacked to `unpacked`.
    #[cfg(test)]
    pub fn of(consumed: u64, unpacked: u64, file_bytes: u64) -> Self {
        Self {
            consumed,
            unpacked,
            file_bytes,
        }
    }

    /// Extrapolates a count reached so far to the whole file, with a margin of an eighth. A file whose begin packs better
    /// than data do is taken for one whose rest does not.
    pub fn extrapolate(&self, so_far: usize) -> usize {
        let file_bytes = self.file_bytes.max(1);
        let consumed = self
            .consumed
            .max(self.unpacked / EXPANSION_EXPECTED)
            .clamp(1, file_bytes);
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

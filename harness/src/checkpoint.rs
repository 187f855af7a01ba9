//! Checkpoints of a training run: what is needed to go on as if nothing had happened, and what proves that it is the
//! same run.
//!
//! A checkpoint binds the data, the parameters, the build and the instruction set: resuming on anything else would add
//! replayed noise to another gradient, and the difference of two such releases has no noise at all.
//!
//! **What is secret.** A release's file holds its key, from which all noise follows, and the optimiser's state. It has
//! mode 0600, lies in a folder in which nobody else can put another file in its place, and is written through a temporary
//! file beside it. Copies of the key in memory are zeroed after use; copies that the compiler makes of values that move,
//! and those in buffers of MPI and of the system, are not. The state's vectors are not zeroed.
//!
//! **How a file ends.** Replaced or removed, it is overwritten with zeros through its open descriptor, after the rename of
//! the new one is on the disk. The zeros reach the old blocks only where the file system writes in place. They do not on
//! copy-on-write file systems (Btrfs, ZFS), in snapshots and backups, on flash that spreads its writes, in a journal that
//! holds data; there an encrypted disk is the way. A process that is killed while it writes leaves
//! `.rounds-checkpoint-…` beside the checkpoint, to be shredded by hand. Access lists beyond the mode are not looked at.
//!
//! **What names the data.** [`KeyedDigest`], an HMAC under the run's key. The file's checksum is a plain SHA-256: it lies
//! in the file that holds the key and the state themselves, so it tells a reader of the file nothing; alone, it is a hash
//! of 256 secret uniform bits among others, which cannot be guessed to compare. A simulation's key is its seed, which
//! anybody can try: a simulation keeps nothing secret.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::state::StateVisitor;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::commands::UsageError;
use rounds_algorithms::hexadecimal;

/// First bytes of every checkpoint of any version.
const FAMILY: &[u8] = b"rounds-ckpt-v";

/// First bytes of a simulation's checkpoint. The length of the header follows.
const SIMULATION: &[u8; 16] = b"rounds-ckpt-v2 s";

/// First bytes of a release's checkpoint. Its key follows, then the length of the header.
const RELEASE: &[u8; 16] = b"rounds-ckpt-v2 r";

/// The stream of the run's key that gives the key of [`KeyedDigest`].
const BINDING: Purpose = Purpose(0x434b_5054);

/// No checkpoint is larger: headers and vectors of a model that fits in memory.
const MOST_BYTES: u64 = 1 << 36;

/// Why a checkpoint cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its variant")]
pub enum CheckpointError {
    #[error("checkpoint {}: cannot {action}: {source}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("checkpoint {}: {reason}", path.display())]
    Place { path: PathBuf, reason: String },
    #[error("checkpoint {}: {reason}; start the run anew without --resume", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "checkpoint {}: the data differ; resuming would add the same noise to other gradients. Resume with the same data, \
         or start anew without --resume",
        path.display()
    )]
    OtherData { path: PathBuf },
    #[error(
        "checkpoint {}: its {what} is {recorded}, and this run's is {now}; resuming would add the same noise to other \
         gradients. Resume with the same {what}, or start anew without --resume",
        path.display()
    )]
    OtherRun {
        path: PathBuf,
        what: String,
        recorded: String,
        now: String,
    },
}

impl CheckpointError {
    /// The error of a command: a place that the command line named wrongly is bad usage.
    pub fn reported(self) -> anyhow::Error {
        match self {
            Self::Place { .. } => UsageError::of(self),
            error => error.into(),
        }
    }
}

/// HMAC-SHA-256 of a digest of the rows under a key that the run's key gives: whoever lacks the run's key can neither
/// compare it with the digest of rows that they guess nor with that of another run.
///
/// ```text
/// HMAC key = first 256 bits of the uniform stream (run's key, BINDING, round 0, block 0)
/// ```
///
/// No other draw has that address, so for a release ChaCha20 makes the HMAC key independent of all noise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyedDigest(String);

impl KeyedDigest {
    /// Of the rows with this `digest`, in a run with this `key`.
    pub fn new(key: &StreamKey, digest: &[u8]) -> Self {
        let mut stream = UniformStream::new(key, BINDING, 0, 0);
        let mut own = Zeroizing::new([0; 32]);
        for word in own.as_chunks_mut::<8>().0 {
            *word = stream.next_u64().to_le_bytes();
        }
        Self(hexadecimal(&authenticate(&*own, digest)))
    }
}

/// HMAC-SHA-256.
fn authenticate(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}

/// What must be the same for a run to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Of the rows.
    pub data: KeyedDigest,
    /// The program's build.
    pub build: String,
    /// The vector extension it was built for.
    pub isa: String,
    /// Every parameter that decides the model, as name and value.
    pub parameters: Vec<(String, String)>,
}

impl Binding {
    /// The first difference but that of the data, as (what, recorded, now).
    fn difference(&self, now: &Self) -> Option<(String, String, String)> {
        let pairs = [
            ("build", &self.build, &now.build),
            ("instruction set", &self.isa, &now.isa),
        ];
        if let Some((what, recorded, now)) = pairs.into_iter().find(|(_, recorded, now)| recorded != now) {
            return Some((what.to_owned(), recorded.clone(), now.clone()));
        }
        let value = |parameters: &[(String, String)], name: &str| {
            parameters
                .iter()
                .find(|(key, _)| key == name)
                .map_or("not given".to_owned(), |(_, value)| value.clone())
        };
        self.parameters.iter().chain(&now.parameters).find_map(|(name, _)| {
            let (recorded, now) = (value(&self.parameters, name), value(&now.parameters, name));
            (recorded != now).then(|| (name.clone(), recorded, now))
        })
    }
}

/// The part of a checkpoint that is not the optimiser's vectors.
#[derive(Serialize, Deserialize)]
struct Header {
    binding: Binding,
    ledger: Ledger,
    counters: Vec<u64>,
    singles: Vec<usize>,
    doubles: Vec<usize>,
}

/// A saved state.
pub struct Checkpoint {
    /// The release key, of a secure run.
    key: Option<StreamKey>,
    header: Header,
    singles: Vec<Vec<f32>>,
    doubles: Vec<Vec<f64>>,
}

/// Copies the state out of an optimiser.
#[derive(Default)]
struct Saving {
    counters: Vec<u64>,
    singles: Vec<Vec<f32>>,
    doubles: Vec<Vec<f64>>,
}

impl StateVisitor for Saving {
    fn u64(&mut self, _: &str, value: &mut u64) {
        self.counters.push(*value);
    }

    fn f32s(&mut self, _: &str, values: &mut [f32]) {
        self.singles.push(values.to_vec());
    }

    fn f64s(&mut self, _: &str, values: &mut [f64]) {
        self.doubles.push(values.to_vec());
    }
}

/// Copies the state back into an optimiser that visits the same names in the same order.
struct Restoring<'a> {
    counters: std::slice::Iter<'a, u64>,
    singles: std::slice::Iter<'a, Vec<f32>>,
    doubles: std::slice::Iter<'a, Vec<f64>>,
    /// The first name for which there was nothing that fits.
    misfit: Option<String>,
}

impl Restoring<'_> {
    fn miss(&mut self, name: &str) {
        self.misfit.get_or_insert_with(|| name.to_owned());
    }
}

impl StateVisitor for Restoring<'_> {
    fn u64(&mut self, name: &str, value: &mut u64) {
        match self.counters.next() {
            Some(saved) => *value = *saved,
            None => self.miss(name),
        }
    }

    fn f32s(&mut self, name: &str, values: &mut [f32]) {
        match self.singles.next() {
            Some(saved) if saved.len() == values.len() => values.copy_from_slice(saved),
            _ => self.miss(name),
        }
    }

    fn f64s(&mut self, name: &str, values: &mut [f64]) {
        match self.doubles.next() {
            Some(saved) if saved.len() == values.len() => values.copy_from_slice(saved),
            _ => self.miss(name),
        }
    }
}

impl Checkpoint {
    /// The state that `visit` shows, of a run bound by `binding`.
    pub fn take(binding: Binding, ledger: Ledger, key: &StreamKey, visit: impl FnOnce(&mut dyn StateVisitor)) -> Self {
        let mut state = Saving::default();
        visit(&mut state);
        let header = Header {
            binding,
            ledger,
            counters: state.counters,
            singles: state.singles.iter().map(Vec::len).collect(),
            doubles: state.doubles.iter().map(Vec::len).collect(),
        };
        Self {
            key: Some(key.clone()).filter(|key| matches!(key, StreamKey::Release(_))),
            header,
            singles: state.singles,
            doubles: state.doubles,
        }
    }

    /// What the run had asked of the data.
    pub fn ledger(&self) -> Ledger {
        self.header.ledger
    }

    /// The release key, of a secure run.
    pub fn key(&self) -> Option<StreamKey> {
        self.key.clone()
    }

    /// Puts the state back.
    ///
    /// # Errors
    /// A state of another shape, or a binding that differs.
    pub fn restore(
        &self,
        path: &Path,
        now: &Binding,
        visit: impl FnOnce(&mut dyn StateVisitor),
    ) -> Result<(), CheckpointError> {
        if let Some((what, recorded, now)) = self.header.binding.difference(now) {
            return Err(CheckpointError::OtherRun {
                path: path.to_owned(),
                what,
                recorded,
                now,
            });
        }
        // Another key makes another HMAC of the same data, so the parameters, the seed among them, come first.
        if self.header.binding.data != now.data {
            return Err(CheckpointError::OtherData { path: path.to_owned() });
        }
        let mut state = Restoring {
            counters: self.header.counters.iter(),
            singles: self.singles.iter(),
            doubles: self.doubles.iter(),
            misfit: None,
        };
        visit(&mut state);
        let left = state.counters.len() + state.singles.len() + state.doubles.len();
        match state.misfit {
            Some(name) => Err(damaged(
                path,
                format!("the state '{name}' is missing or has another length"),
            )),
            None if left > 0 => Err(damaged(path, format!("{left} values are left over"))),
            None => Ok(()),
        }
    }

    /// Writes the checkpoint: a reader sees the old one or the new one, whole. What the old file held is overwritten.
    ///
    /// # Errors
    /// A place that [`check_place`] refuses (of a simulation, only what is no checkpoint), a file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        if self.key.is_some() {
            check_folder(path)?;
        }
        let old = existing(path)?;
        let bytes = self.serialized(path)?;
        // A temporary file is made with mode 0600.
        let folder = folder(path);
        let file = tempfile::Builder::new()
            .prefix(".rounds-checkpoint-")
            .tempfile_in(folder);
        let mut file = file.map_err(failed("create a file beside it", path))?;
        let written = file.write_all(&bytes).and_then(|()| file.as_file().sync_all());
        let persisted = match written {
            Ok(()) => file.persist(path).map_err(|error| (error.file, error.error)),
            Err(error) => Err((file, error)),
        };
        if let Err((file, error)) = persisted {
            // What is left of it goes with the error that is told.
            let _ = wipe(file.as_file());
            return Err(failed("write", path)(error));
        }
        // The old file is the last good one until the new name is on the disk.
        let renamed = File::open(folder).and_then(|folder| folder.sync_all());
        renamed.map_err(failed("write", path))?;
        old.map_or(Ok(()), |old| wipe(&old))
            .map_err(failed("overwrite the one before", path))
    }

    /// The file's content. Made at its final size, so that no copy is left behind where a buffer grew.
    fn serialized(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, CheckpointError> {
        let header = serde_json::to_vec(&self.header).map_err(|error| damaged(path, error.to_string()))?;
        let values =
            4 * self.singles.iter().map(Vec::len).sum::<usize>() + 8 * self.doubles.iter().map(Vec::len).sum::<usize>();
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 + 32 + 8 + header.len() + values + 32));
        match &self.key {
            Some(StreamKey::Release(key)) => {
                bytes.extend_from_slice(RELEASE);
                bytes.extend_from_slice(key);
            }
            _ => bytes.extend_from_slice(SIMULATION),
        }
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        self.singles
            .iter()
            .flatten()
            .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        self.doubles
            .iter()
            .flatten()
            .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        let digest = Sha256::digest(&*bytes);
        bytes.extend_from_slice(&digest);
        Ok(bytes)
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes) and [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Self::parse(path, &Self::bytes(path)?)
    }

    /// The bytes of a checkpoint, for ranks that cannot see the file.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large for a checkpoint; a release's that others may read or that another user
    /// owns: its key may be known, or another's.
    pub fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, CheckpointError> {
        let mut file = open(path, OpenOptions::new().read(true)).map_err(|error| match error {
            Unopened::Place(reason) => refused(path, reason),
            Unopened::File(error) => failed("open", path)(error),
        })?;
        let metadata = file.metadata().map_err(failed("read", path))?;
        if metadata.len() > MOST_BYTES {
            return Err(damaged(path, format!("{} bytes are too many", metadata.len())));
        }
        let mut bytes = Zeroizing::new(vec![0; metadata.len() as usize]);
        file.read_exact(&mut bytes).map_err(failed("read", path))?;
        let own = rustix::process::geteuid().as_raw();
        match exposure(metadata.uid(), metadata.mode(), own) {
            Some(reason) if bytes.starts_with(RELEASE) => Err(refused(path, reason)),
            _ => Ok(bytes),
        }
    }

    /// The checkpoint that `bytes` of the file `path` hold.
    ///
    /// # Errors
    /// Bytes that are no checkpoint, or damaged.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let whole = bytes
            .len()
            .checked_sub(32)
            .filter(|&end| Sha256::digest(&bytes[..end])[..] == bytes[end..]);
        let end = whole.ok_or_else(|| damaged(path, "it is no checkpoint, or is damaged".to_owned()))?;
        let short = || damaged(path, "it is too short".to_owned());
        let (magic, body) = bytes[..end].split_first_chunk::<16>().ok_or_else(short)?;
        let (key, body) = match magic {
            SIMULATION => (None, body),
            RELEASE => {
                let (key, body) = body.split_first_chunk::<32>().ok_or_else(short)?;
                (Some(StreamKey::Release(*key)), body)
            }
            _ => return Err(damaged(path, "it is no checkpoint of this version".to_owned())),
        };
        let (length, rest) = body.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
        let (header, mut rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let header: Header = serde_json::from_slice(header).map_err(|error| damaged(path, error.to_string()))?;
        let mut take = |count: usize, width: usize| {
            let bytes = count.checked_mul(width)?;
            let (front, back) = rest.split_at_checked(bytes)?;
            rest = back;
            Some(front)
        };
        let mut singles = Vec::new();
        for &count in &header.singles {
            let bytes = take(count, 4).ok_or_else(short)?;
            singles.push(
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&chunk| f32::from_le_bytes(chunk))
                    .collect(),
            );
        }
        let mut doubles = Vec::new();
        for &count in &header.doubles {
            let bytes = take(count, 8).ok_or_else(short)?;
            doubles.push(
                bytes
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|&chunk| f64::from_le_bytes(chunk))
                    .collect(),
            );
        }
        Ok(Self {
            key,
            header,
            singles,
            doubles,
        })
    }
}

/// Checks, before the work, that a release may keep its checkpoint at `path`.
///
/// # Errors
/// A link, a folder, a pipe, a file that is no checkpoint; a folder in which others could put a file in its place.
pub fn check_place(path: &Path) -> Result<(), CheckpointError> {
    check_folder(path)?;
    existing(path).map(drop)
}

/// Removes the checkpoint of a run that is finished, if there is one, and overwrites what it held.
///
/// # Errors
/// What is no checkpoint, a file that cannot be overwritten or removed.
pub fn remove(path: &Path) -> Result<(), CheckpointError> {
    let Some(file) = existing(path)? else { return Ok(()) };
    wipe(&file).map_err(failed("overwrite", path))?;
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Who else may know the key in a file of this owner and mode, for a process of user `own`; and the way out.
fn exposure(owner: u32, mode: u32, own: u32) -> Option<String> {
    if owner != own {
        return Some(format!(
            "it belongs to user {owner}, who may know its key, and this process to user {own}; resume as that user, or start \
             anew without --resume"
        ));
    }
    (mode & 0o077 != 0).then(|| {
        format!(
            "it holds the key of a release and its mode {:o} lets others at it; if nobody has read it, chmod 600 it, else \
             start anew without --resume",
            mode & 0o777
        )
    })
}

/// Refuses a folder in which others can put a file in the place of the checkpoint.
fn check_folder(path: &Path) -> Result<(), CheckpointError> {
    let folder = folder(path);
    let metadata = fs::metadata(folder).map_err(failed("look at its folder", path))?;
    let mode = metadata.mode();
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        let reason = format!(
            "its folder {} belongs to another user, who could put another file in its place; name a file in a folder of yours",
            folder.display()
        );
        return Err(refused(path, reason));
    }
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let reason = format!(
            "others may write to {} (mode {:o}), and could put a file of theirs in the place of this one, which holds the key \
             of a release; chmod go-w that folder, or name a file in one that is yours alone",
            folder.display(),
            mode & 0o7777
        );
        return Err(refused(path, reason));
    }
    Ok(())
}

/// The checkpoint at `path`, opened to be overwritten, if there is a file.
fn existing(path: &Path) -> Result<Option<File>, CheckpointError> {
    let file = match open(path, OpenOptions::new().read(true).write(true)) {
        Ok(file) => file,
        Err(Unopened::Place(reason)) => return Err(refused(path, reason)),
        Err(Unopened::File(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(Unopened::File(error)) => return Err(failed("open the one before", path)(error)),
    };
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        return Ok(Some(file));
    }
    let mut start = [0; FAMILY.len()];
    match file.read_exact_at(&mut start, 0) {
        Ok(()) if start == FAMILY => Ok(Some(file)),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(failed("read the one before", path)(error)),
        _ => Err(refused(
            path,
            "there is a file that is no checkpoint, which would be overwritten; name another, or remove it".to_owned(),
        )),
    }
}

/// Why [`open`] has no file.
enum Unopened {
    Place(String),
    File(io::Error),
}

/// Opens a regular file, through no link.
fn open(path: &Path, options: &mut OpenOptions) -> Result<File, Unopened> {
    let metadata = fs::symlink_metadata(path).map_err(Unopened::File)?;
    if !metadata.is_file() {
        let kind = if metadata.is_symlink() {
            "a symbolic link"
        } else {
            "no regular file"
        };
        return Err(Unopened::Place(format!("it is {kind}; name the file itself")));
    }
    // Not even through one that was put there since.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    options.custom_flags(flags).open(path).map_err(Unopened::File)
}

/// Overwrites a file with zeros, on the disk.
fn wipe(mut file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    file.rewind()?;
    io::copy(&mut io::repeat(0).take(size), &mut file)?;
    file.sync_all()
}

/// Where a file lies.
fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

fn refused(path: &Path, reason: String) -> CheckpointError {
    CheckpointError::Place {
        path: path.to_owned(),
        reason,
    }
}

fn damaged(path: &Path, reason: String) -> CheckpointError {
    CheckpointError::Damaged {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: StreamKey = StreamKey::Release([0xa5; 32]);
    const DIGEST: [u8; 32] = [0x3c; 32];

    fn binding(key: &StreamKey) -> Binding {
        Binding {
            data: KeyedDigest::new(key, &DIGEST),
            build: "b".into(),
            isa: "i".into(),
            parameters: vec![("--epsilon".into(), "1".into())],
        }
    }

    fn state(visitor: &mut dyn StateVisitor, values: &mut (u64, [f32; 3], [f64; 2])) {
        visitor.u64("round", &mut values.0);
        visitor.f32s("iterate", &mut values.1);
        visitor.f64s("sum", &mut values.2);
    }

    fn taken(key: &StreamKey) -> Checkpoint {
        let mut values = (7, [1.0, -0.0, f32::MIN_POSITIVE], [2.5, 1e300]);
        Checkpoint::take(binding(key), Ledger::default(), key, |visitor| {
            state(visitor, &mut values);
        })
    }

    fn saved(folder: &Path, key: &StreamKey) -> PathBuf {
        let path = folder.join("run.checkpoint");
        taken(key).write(&path).unwrap();
        path
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Whether `bytes` hold `part` as it is or in hexadecimal digits.
    fn hold(bytes: &[u8], part: &[u8]) -> bool {
        [part, hexadecimal(part).as_bytes()]
            .iter()
            .any(|part| bytes.windows(part.len()).any(|window| window == *part))
    }

    #[test]
    fn a_state_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let checkpoint = Checkpoint::read(&path).unwrap();
        assert!(matches!(checkpoint.key(), Some(StreamKey::Release(key)) if key == [0xa5; 32]));
        let mut values = (0, [0.0; 3], [0.0; 2]);
        checkpoint
            .restore(&path, &binding(&KEY), |visitor| state(visitor, &mut values))
            .unwrap();
        assert_eq!(values, (7, [1.0, -0.0, f32::MIN_POSITIVE], [2.5, 1e300]));
        assert!(values.1[1].is_sign_negative());
        let simulated = Checkpoint::read(&saved(folder.path(), &StreamKey::Simulation(1))).unwrap();
        assert!(simulated.key().is_none());
    }

    #[test]
    fn the_buffer_of_a_file_never_grows_so_no_copy_of_the_key_is_left_behind() {
        for key in [KEY, StreamKey::Simulation(1)] {
            let bytes = taken(&key).serialized(Path::new("run.checkpoint")).unwrap();
            let spare = if matches!(key, StreamKey::Release(_)) { 0 } else { 32 };
            assert_eq!(bytes.capacity() - bytes.len(), spare);
        }
    }

    /// RFC 4231, test cases 1, 2 and 6.
    #[test]
    fn authentication_is_hmac_sha_256() {
        let cases: [(&[u8], &[u8], &str); 3] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hexadecimal(&authenticate(key, message)), expected);
        }
    }

    #[test]
    fn the_data_are_named_by_a_digest_that_each_key_makes_anew() {
        let keys = [
            KEY,
            StreamKey::Release([0xa4; 32]),
            StreamKey::Simulation(1),
            StreamKey::Simulation(2),
        ];
        let digests = keys.map(|key| KeyedDigest::new(&key, &DIGEST));
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests[..i].contains(digest));
        }
        assert_eq!(digests[0], KeyedDigest::new(&KEY, &DIGEST));
        assert_ne!(digests[0], KeyedDigest::new(&KEY, &[0; 32]));
        let folder = tempfile::tempdir().unwrap();
        for key in [KEY, StreamKey::Simulation(1)] {
            let bytes = fs::read(saved(folder.path(), &key)).unwrap();
            assert!(hold(&bytes, KeyedDigest::new(&key, &DIGEST).0.as_bytes()) && !hold(&bytes, &DIGEST));
        }
    }

    #[test]
    fn other_data_are_refused_without_a_word_about_either() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        let other = Binding {
            data: KeyedDigest::new(&KEY, &[0; 32]),
            ..binding(&KEY)
        };
        let error = Checkpoint::read(&path)
            .unwrap()
            .restore(&path, &other, |_| ())
            .unwrap_err();
        assert!(matches!(error, CheckpointError::OtherData { .. }));
        let texts = [error.to_string(), format!("{error:?}")];
        assert!(texts[0].contains("the data differ"), "{}", texts[0]);
        for text in texts {
            for digest in [&other.data, &binding(&KEY).data] {
                assert!(!text.contains(&digest.0), "{text}");
            }
        }
    }

    #[test]
    fn another_run_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let key = StreamKey::Simulation(1);
        let path = saved(folder.path(), &key);
        let checkpoint = Checkpoint::read(&path).unwrap();
        let others = [
            (
                "build",
                Binding {
                    build: "x".into(),
                    ..binding(&key)
                },
            ),
            (
                "instruction set",
                Binding {
                    isa: "x".into(),
                    ..binding(&key)
                },
            ),
            (
                "--epsilon",
                Binding {
                    parameters: vec![("--epsilon".into(), "2".into())],
                    ..binding(&key)
                },
            ),
            // Its key, and so its HMAC of the same data, is another.
            (
                "--seed",
                Binding {
                    parameters: vec![("--epsilon".into(), "1".into()), ("--seed".into(), "2".into())],
                    ..binding(&StreamKey::Simulation(2))
                },
            ),
        ];
        for (what, other) in others {
            let error = checkpoint.restore(&path, &other, |_| ()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let mut values = (0, [0.0; 3], [0.0; 2]);
        let misfit = checkpoint.restore(&path, &binding(&key), |visitor| {
            visitor.f32s("iterate", &mut values.1[..2]);
        });
        assert!(misfit.unwrap_err().to_string().contains("iterate"));
    }

    #[test]
    fn a_file_that_is_replaced_or_removed_holds_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        let links = ["first", "second"].map(|name| folder.path().join(name));
        let size = fs::metadata(&path).unwrap().len() as usize;
        fs::hard_link(&path, &links[0]).unwrap();
        saved(folder.path(), &KEY);
        assert_eq!(fs::read(&links[0]).unwrap(), vec![0; size], "replaced");
        assert!(Checkpoint::read(&path).unwrap().key().is_some());
        fs::hard_link(&path, &links[1]).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read(&links[1]).unwrap(), vec![0; size], "removed");
        assert!(!path.exists());
        remove(&path).unwrap();
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "a temporary file is left"
        );
    }

    #[test]
    fn what_is_no_checkpoint_is_neither_followed_nor_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let target = saved(folder.path(), &KEY);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let inner = folder.path().join("folder");
        fs::create_dir(&inner).unwrap();
        let text = folder.path().join("thesis.txt");
        fs::write(&text, "a long text that is no checkpoint").unwrap();
        let held = fs::read(&target).unwrap();
        for (path, what) in [
            (&link, "symbolic link"),
            (&inner, "no regular file"),
            (&text, "no checkpoint"),
        ] {
            for key in [KEY, StreamKey::Simulation(1)] {
                let error = taken(&key).write(path).unwrap_err();
                assert!(error.to_string().contains(what), "{error}");
                assert!(error.reported().is::<UsageError>());
            }
            assert!(matches!(check_place(path), Err(CheckpointError::Place { .. })));
            assert!(matches!(remove(path), Err(CheckpointError::Place { .. })));
            assert!(Checkpoint::read(path).is_err());
        }
        assert!(link.is_symlink() && inner.is_dir());
        assert_eq!(fs::read(&target).unwrap(), held);
        assert_eq!(fs::read(&text).unwrap(), b"a long text that is no checkpoint");
        let empty = folder.path().join("empty");
        File::create(&empty).unwrap();
        taken(&KEY).write(&empty).unwrap();
    }

    #[test]
    fn a_release_keeps_no_checkpoint_where_others_can_put_a_file_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.checkpoint");
        for (mode, refused) in [
            (0o777, true),
            (0o770, true),
            (0o702, true),
            (0o1777, false),
            (0o755, false),
        ] {
            set_mode(folder.path(), mode);
            let place = check_place(&path);
            assert_eq!(place.is_err(), refused, "{mode:o}");
            assert_eq!(taken(&KEY).write(&path).is_err(), refused, "{mode:o}");
            if let Err(error) = place {
                assert!(error.to_string().contains("chmod go-w"), "{error}");
                assert!(error.reported().is::<UsageError>());
            }
            taken(&StreamKey::Simulation(1)).write(&path).unwrap();
        }
    }

    #[test]
    fn a_key_that_others_may_know_is_not_resumed_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        for mode in [0o640, 0o604, 0o660] {
            set_mode(&path, mode);
            let error = Checkpoint::read(&path).err().unwrap();
            assert!(error.to_string().contains("chmod 600"), "{error}");
            assert!(error.reported().is::<UsageError>());
        }
        set_mode(&path, 0o600);
        assert!(Checkpoint::read(&path).is_ok());
        assert!(exposure(1000, 0o100_600, 1000).is_none());
        assert!(exposure(1000, 0o100_600, 0).unwrap().contains("belongs to user 1000"));
        let simulated = saved(folder.path(), &StreamKey::Simulation(1));
        set_mode(&simulated, 0o644);
        assert!(Checkpoint::read(&simulated).is_ok());
    }

    #[test]
    fn damaged_files_are_refused_wherever_they_are_damaged() {
        let folder = tempfile::tempdir().unwrap();
        for key in [KEY, StreamKey::Simulation(1)] {
            let path = saved(folder.path(), &key);
            let whole = fs::read(&path).unwrap();
            for position in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[position] ^= 1;
                for (bytes, what) in [(&bytes[..], "byte"), (&whole[..position], "bytes")] {
                    let parsed = Checkpoint::parse(&path, bytes);
                    assert!(
                        matches!(parsed, Err(CheckpointError::Damaged { .. })),
                        "{position} {what}"
                    );
                }
            }
        }
        assert!(matches!(
            Checkpoint::read(&folder.path().join("none")),
            Err(CheckpointError::File { .. })
        ));
    }
}

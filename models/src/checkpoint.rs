//! Checkpoints of a training run: the state, and the binding that a resumed run must match.
//!
//! A checkpoint binds the data, the parameters, the build, the instruction set, the plan and the coefficients of correlated noise. From
//! these and the system's key follows the key of a release, so on anything else the same noise is not drawn; the binding says what
//! differs, and keeps a model from being made of two runs.
//!
//! **Secrets.** A release's file holds the system's key, from which all noise follows, and the optimiser's state. It has mode 0600 and
//! lies in a folder in which nobody else can replace it. Copies of the key in memory are zeroed after use; copies that the
//! compiler makes of moved values, and those in buffers of MPI and of the system, are not. The state is not zeroed.
//!
//! **Erasure.** A file that is replaced or removed is overwritten with zeros, after the new one is on the disk. The zeros do
//! not reach the old blocks on copy-on-write file systems (Btrfs, ZFS), in snapshots and backups, on flash that spreads its
//! writes, and in a journal that holds data; use an encrypted disk there. A process that is killed while it writes or removes
//! leaves `.rounds-…` beside the checkpoint, to be shredded by hand. Access lists beyond the mode are not read.
//!
//! **Digests.** [`KeyedDigest`] names the data under the system's key. The checksum of the file is a plain SHA-256, and lies in
//! the file that holds the key and the state. A simulation's key is its seed: a simulation keeps nothing secret.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::state::StateVisitor;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::files::{self, OpenError};
use crate::keyed::{KeyedDigest, derived};
use crate::text::foreign;

/// First bytes of every checkpoint of any version.
const FAMILY: &[u8] = b"rounds-ckpt-v";

/// First bytes of a simulation's checkpoint. The length of the header follows.
const SIMULATION: &[u8; 16] = b"rounds-ckpt-v3 s";

/// First bytes of a release's checkpoint. Its key follows, then the length of the header.
const RELEASE: &[u8; 16] = b"rounds-ckpt-v3 r";

/// Largest size of a checkpoint: headers and vectors of a model that fits in memory.
const MOST_BYTES: u64 = 1 << 36;

/// A checkpoint that cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
#[non_exhaustive]
pub enum CheckpointError {
    #[error("checkpoint {}: cannot {action}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("checkpoint {}: {reason}", path.display())]
    Place { path: PathBuf, reason: String },
    #[error("checkpoint {}: {reason}; start anew without `resume`", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "checkpoint {}: the data differ, and no model is made of two. Resume with the same data, \
         or start anew without `resume`",
        path.display()
    )]
    OtherData { path: PathBuf },
    #[error(
        "checkpoint {}: its {difference}, and no model is made of two runs. Resume with the same {}, or \
         start anew without `resume`",
        path.display(), difference.what
    )]
    OtherRun { path: PathBuf, difference: Difference },
}

/// A condition in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} was {recorded}, now it is {now}")]
pub struct Difference {
    /// The condition by its name.
    pub what: String,
    /// In the earlier run.
    pub recorded: String,
    /// In the later one.
    pub now: String,
}

/// The facts that a resumed run must share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) data: KeyedDigest,
    pub(crate) build: String,
    /// The build's vector extension.
    pub(crate) isa: String,
    /// SHA-256 of the coefficients of correlated noise, which may come from a file or a cache.
    pub(crate) coefficients: Option<String>,
    /// Every parameter that decides the model, as name and value.
    pub(crate) parameters: Vec<(String, String)>,
    /// The calibrated mechanism and the values of the plan, as JSON: two libraries may round one calibration to two values.
    pub(crate) plan: String,
    /// The run's name in its ledger: each booking has noise of its own, and one is not resumed as another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) booking: Option<String>,
}

impl Binding {
    /// The key of a run with this binding, from the source of its randomness.
    pub(crate) fn key(&self, source: &StreamKey) -> StreamKey {
        derived(source, "run", &serde_json::to_vec(self).expect("names and values"))
    }

    /// The first difference but that of the data.
    fn difference(&self, now: &Self) -> Option<Difference> {
        // All but the digest of the domain are arguments.
        let named = |(name, value): &(String, String)| {
            (if name == "schema" { name.clone() } else { format!("`{name}`") }, value.clone())
        };
        let facts = |binding: &Self| {
            // Two builds of one package differ in both, and --isa chooses between them.
            let own = [("instruction set", &binding.isa), ("build", &binding.build)];
            let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
            let coefficients = binding.coefficients.iter().map(|digest| ("factorization".to_owned(), digest.clone()));
            let named = binding.parameters.iter().map(named);
            let booking = binding.booking.iter().map(|run| ("entry of `ledger`".to_owned(), run.clone()));
            own.into_iter().chain(named).chain(coefficients).chain(booking).collect::<Vec<_>>()
        };
        // A plan follows from the arguments, which are named first.
        let plan = (self.plan != now.plan).then(|| Difference {
            what: "plan".to_owned(),
            recorded: self.plan.clone(),
            now: now.plan.clone(),
        });
        let (recorded, now) = (facts(self), facts(now));
        let value = |facts: &[(String, String)], name: &str| {
            let fact = facts.iter().find(|(key, _)| key == name);
            fact.map_or("not given".to_owned(), |(_, value)| value.clone())
        };
        let fact = recorded.iter().chain(&now).find_map(|(name, _)| {
            let (what, recorded, now) = (name.clone(), value(&recorded, name), value(&now, name));
            (recorded != now).then_some(Difference { what, recorded, now })
        });
        fact.or(plan)
    }
}

/// The part of a checkpoint before the state.
#[derive(Serialize, Deserialize)]
struct Header {
    binding: Binding,
    ledger: Ledger,
    /// Names and lengths of the state's values, in bytes.
    fields: Vec<(String, usize)>,
}

pub(crate) struct Checkpoint {
    /// The key of a release.
    key: Option<StreamKey>,
    header: Header,
    /// The state's values, little-endian.
    state: Vec<u8>,
}

/// Copies the state out of an optimiser.
#[derive(Default)]
struct Saving {
    fields: Vec<(String, usize)>,
    state: Vec<u8>,
}

impl Saving {
    fn save<const N: usize>(&mut self, name: &str, values: impl ExactSizeIterator<Item = [u8; N]>) {
        self.fields.push((name.to_owned(), N * values.len()));
        self.state.extend(values.flatten());
    }
}

impl StateVisitor for Saving {
    fn u64(&mut self, name: &str, value: &mut u64) {
        self.save(name, [value.to_le_bytes()].into_iter());
    }

    fn f32s(&mut self, name: &str, values: &mut [f32]) {
        self.save(name, values.iter().map(|value| value.to_le_bytes()));
    }

    fn f64s(&mut self, name: &str, values: &mut [f64]) {
        self.save(name, values.iter().map(|value| value.to_le_bytes()));
    }
}

/// Copies the state back into an optimiser that visits the same names in the same order.
struct Restoring<'a> {
    fields: std::slice::Iter<'a, (String, usize)>,
    state: &'a [u8],
    /// The first name without a saved value of its length.
    misfit: Option<String>,
}

impl Restoring<'_> {
    /// Copies the next value, if it has this name and as many numbers as `values`.
    fn restore<T, const N: usize>(&mut self, name: &str, values: &mut [T], number: impl Fn([u8; N]) -> T) {
        let expected = (name.to_owned(), N * values.len());
        if self.misfit.is_some() || self.fields.next() != Some(&expected) {
            self.misfit.get_or_insert(expected.0);
            return;
        }
        let (saved, rest) = self.state.split_at(expected.1);
        self.state = rest;
        for (value, chunk) in values.iter_mut().zip(saved.as_chunks::<N>().0) {
            *value = number(*chunk);
        }
    }
}

impl StateVisitor for Restoring<'_> {
    fn u64(&mut self, name: &str, value: &mut u64) {
        self.restore(name, std::slice::from_mut(value), u64::from_le_bytes);
    }

    fn f32s(&mut self, name: &str, values: &mut [f32]) {
        self.restore(name, values, f32::from_le_bytes);
    }

    fn f64s(&mut self, name: &str, values: &mut [f64]) {
        self.restore(name, values, f64::from_le_bytes);
    }
}

impl Checkpoint {
    /// The state that `visit` shows, of a run bound by `binding`.
    pub(crate) fn take(
        binding: Binding,
        ledger: Ledger,
        key: &StreamKey,
        visit: impl FnOnce(&mut dyn StateVisitor),
    ) -> Self {
        let mut saved = Saving::default();
        visit(&mut saved);
        let (fields, state) = (saved.fields, saved.state);
        let key = Some(key.clone()).filter(|key| matches!(key, StreamKey::Release(_)));
        let header = Header { binding, ledger, fields };
        Self { key, header, state }
    }

    /// The work of the run so far.
    pub(crate) fn ledger(&self) -> Ledger {
        self.header.ledger
    }

    /// The run's name in its ledger.
    pub(crate) fn booking(&self) -> Option<&str> {
        self.header.binding.booking.as_deref()
    }

    pub(crate) fn key(&self) -> Option<StreamKey> {
        self.key.clone()
    }

    /// Puts the state back.
    ///
    /// # Errors
    /// A state of another shape, or a binding that differs.
    pub(crate) fn restore(
        &self,
        path: &Path,
        now: &Binding,
        visit: impl FnOnce(&mut dyn StateVisitor),
    ) -> Result<(), CheckpointError> {
        if let Some(difference) = self.header.binding.difference(now) {
            let path = path.to_owned();
            return Err(CheckpointError::OtherRun { path, difference });
        }
        // Another key makes another HMAC of the same data, so the parameters, the seed among them, come first.
        if self.header.binding.data != now.data {
            return Err(CheckpointError::OtherData { path: path.to_owned() });
        }
        let mut restoring = Restoring { fields: self.header.fields.iter(), state: &self.state, misfit: None };
        visit(&mut restoring);
        match (restoring.misfit, restoring.fields.len()) {
            (Some(name), _) => Err(damaged(path, format!("the state '{name}' is missing or has another length"))),
            (None, 0) => Ok(()),
            (None, left) => Err(damaged(path, format!("{left} values are left over"))),
        }
    }

    /// Replaces the checkpoint as a whole, and overwrites the old one.
    ///
    /// # Errors
    /// A place that [`check_place`] refuses (of a simulation, only a file that is no checkpoint), a file that cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        if self.key.is_some() {
            check_folder(path)?;
        }
        let old = existing(path)?;
        files::replace_private(path, &self.serialized(path)?).map_err(failed("write", path))?;
        old.map_or(Ok(()), |old| files::wipe(&old)).map_err(failed("overwrite the one before", path))
    }

    /// The file's content, in a buffer of its final size: one that grows leaves copies behind.
    fn serialized(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, CheckpointError> {
        let header = serde_json::to_vec(&self.header).map_err(|error| damaged(path, error.to_string()))?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 + 32 + 8 + header.len() + self.state.len() + 32));
        match &self.key {
            Some(StreamKey::Release(key)) => {
                bytes.extend_from_slice(RELEASE);
                bytes.extend_from_slice(key);
            }
            _ => bytes.extend_from_slice(SIMULATION),
        }
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.state);
        let digest = Sha256::digest(&*bytes);
        bytes.extend_from_slice(&digest);
        Ok(bytes)
    }

    /// The bytes of a checkpoint, for ranks that cannot see the file.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large for a checkpoint; a release's that others may read or that another user
    /// owns: its key may be known, or another's.
    pub(crate) fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, CheckpointError> {
        let mut file = files::open_regular(path, OpenOptions::new().read(true)).map_err(unopened("open", path))?;
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
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let whole = bytes.len().checked_sub(32);
        let whole = whole.filter(|&end| Sha256::digest(&bytes[..end])[..] == bytes[end..]);
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
        let (header, state) = rest.split_at_checked(length).ok_or_else(short)?;
        let header: Header = serde_json::from_slice(header).map_err(|error| damaged(path, foreign(&error)))?;
        let lengths = header.fields.iter().map(|(_, length)| *length);
        if lengths.fold(0, usize::saturating_add) != state.len() {
            return Err(short());
        }
        let state = state.to_vec();
        Ok(Self { key, header, state })
    }
}

/// Checks, before the work, that a release may keep its checkpoint at `path`.
///
/// # Errors
/// A link, a folder, a pipe, a file that is no checkpoint; a folder in which others could put a file in its place.
pub(crate) fn check_place(path: &Path) -> Result<(), CheckpointError> {
    check_folder(path)?;
    existing(path).map(drop)
}

/// Checks, before the work, that a run which goes on from `resumed`, if from any, may keep its checkpoint at `path`: a release that is stopped
/// has spent its ε, and its checkpoint alone makes its model.
///
/// # Errors
/// A link, a folder, a pipe, a file that is no checkpoint; the checkpoint of another run, which is unfinished.
pub(crate) fn check_free(path: &Path, resumed: Option<&Path>) -> Result<(), CheckpointError> {
    let is_kept = existing(path)?.is_some_and(|file| file.metadata().map_or(true, |metadata| metadata.len() > 0));
    if is_kept && resumed.and_then(files::identity) != files::identity(path) {
        let reason = format!(
            "it is that of an unfinished run, which would be lost; go on with `resume {}`, or move it away to begin anew",
            path.display()
        );
        return Err(refused(path, reason));
    }
    Ok(())
}

/// Removes the checkpoint of a run that is finished, if there is one, and overwrites what it held.
///
/// A process that is killed in between leaves no file of this name that is no checkpoint.
///
/// # Errors
/// What is no checkpoint, a file that cannot be overwritten or removed.
pub(crate) fn remove(path: &Path) -> Result<(), CheckpointError> {
    existing(path)?.map_or(Ok(()), |file| files::remove_wiped(path, &file)).map_err(failed("remove", path))
}

/// The users besides `own` that may know the key in a file of this owner and mode, with the remedy.
fn exposure(owner: u32, mode: u32, own: u32) -> Option<String> {
    if owner != own {
        return Some(format!(
            "it belongs to user {owner}, who may know its key, and this process to user {own}; resume as that user, or start \
             anew without `resume`"
        ));
    }
    (mode & 0o077 != 0).then(|| {
        format!(
            "it holds the key of a release and its mode {:o} lets others at it; if nobody has read it, chmod 600 it, else \
             start anew without `resume`",
            mode & 0o777
        )
    })
}

/// Refuses a folder in which others can put a file in the place of the checkpoint, and one below a folder in which everybody can put
/// another one in its place. Whoever owns a folder above, or its group, is trusted.
fn check_folder(path: &Path) -> Result<(), CheckpointError> {
    let folder = files::folder_of(path);
    let metadata = fs::metadata(folder).map_err(failed("look at its folder", path))?;
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        let reason = format!(
            "its folder {} belongs to another user, who could put another file in its place; name a file in a folder of yours",
            folder.display()
        );
        return Err(refused(path, reason));
    }
    let open_to = |folder: &Path, writers: u32| {
        let mode = fs::metadata(folder).map_or(0, |metadata| metadata.mode());
        (mode & writers != 0 && mode & 0o1000 == 0).then(|| (folder.to_owned(), mode))
    };
    // As it was named, and as its links lead.
    let named = std::path::absolute(folder).into_iter().chain(fs::canonicalize(folder));
    let mut above = named.flat_map(|folder| folder.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>());
    if let Some((folder, mode)) = open_to(folder, 0o022).or_else(|| above.find_map(|folder| open_to(&folder, 0o002))) {
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
    let file = match files::open_regular(path, OpenOptions::new().read(true).write(true)) {
        Err(OpenError::File(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unopened("open the one before", path))?,
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

fn unopened(action: &'static str, path: &Path) -> impl FnOnce(OpenError) -> CheckpointError {
    move |error| match error {
        OpenError::NotRegular(kind) => refused(path, format!("it is {kind}; name the file itself")),
        OpenError::File(error) => failed(action, path)(error),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::File { action, path: path.to_owned(), source }
}

fn refused(path: &Path, reason: String) -> CheckpointError {
    CheckpointError::Place { path: path.to_owned(), reason }
}

fn damaged(path: &Path, reason: String) -> CheckpointError {
    CheckpointError::Damaged { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rounds_algorithms::hexadecimal;

    use super::*;

    const KEY: StreamKey = StreamKey::Release([0xa5; 32]);
    const DIGEST: [u8; 32] = [0x3c; 32];

    fn binding(key: &StreamKey) -> Binding {
        Binding {
            data: KeyedDigest::new(key, &DIGEST),
            build: "b".into(),
            isa: "i".into(),
            coefficients: Some("c".into()),
            parameters: vec![("epsilon".into(), "1".into())],
            plan: "p".into(),
            booking: None,
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

    fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::parse(path, &Checkpoint::bytes(path)?)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// True if `bytes` hold `part` as it is or in hexadecimal digits.
    fn hold(bytes: &[u8], part: &[u8]) -> bool {
        [part, hexadecimal(part).as_bytes()].iter().any(|part| bytes.windows(part.len()).any(|window| window == *part))
    }

    #[test]
    fn a_state_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let checkpoint = read(&path).unwrap();
        assert!(matches!(checkpoint.key(), Some(StreamKey::Release(key)) if key == [0xa5; 32]));
        let mut values = (0, [0.0; 3], [0.0; 2]);
        checkpoint.restore(&path, &binding(&KEY), |visitor| state(visitor, &mut values)).unwrap();
        assert_eq!(values, (7, [1.0, -0.0, f32::MIN_POSITIVE], [2.5, 1e300]));
        assert!(values.1[1].is_sign_negative());
        let simulated = read(&saved(folder.path(), &StreamKey::Simulation(1))).unwrap();
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

    #[test]
    fn the_data_are_named_by_a_digest_that_each_key_makes_anew() {
        let simulations = [1, 2].map(StreamKey::Simulation);
        let keys = [KEY, StreamKey::Release([0xa4; 32])].into_iter().chain(simulations);
        let digests: Vec<_> = keys.map(|key| KeyedDigest::new(&key, &DIGEST)).collect();
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
        let path = Path::new("run.checkpoint");
        let data = KeyedDigest::new(&KEY, &[0; 32]);
        let other = Binding { data, ..binding(&KEY) };
        let error = taken(&KEY).restore(path, &other, |_| ()).unwrap_err();
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
        let path = Path::new("run.checkpoint");
        let key = StreamKey::Simulation(1);
        let (checkpoint, run) = (taken(&key), binding(&key));
        let of_parameters = |values: &[(&str, &str)], key: &StreamKey| {
            let parameters = values.iter().map(|&(name, value)| (name.into(), value.into()));
            Binding { parameters: parameters.collect(), ..binding(key) }
        };
        let build = Binding { build: "x".into(), ..run.clone() };
        // The seed is the key, and so the HMAC of the same data is another.
        let seed = of_parameters(&[("epsilon", "1"), ("seed", "2")], &StreamKey::Simulation(2));
        let others = [
            ("build", build),
            ("factorization", Binding { coefficients: None, ..run.clone() }),
            ("instruction set", Binding { isa: "x".into(), ..run.clone() }),
            ("plan", Binding { plan: "x".into(), ..run }),
            ("epsilon", of_parameters(&[("epsilon", "2")], &key)),
            ("seed", seed),
        ];
        for (what, other) in others {
            let error = checkpoint.restore(path, &other, |_| ()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let mut values = (0, [0.0; 3], [0.0; 2]);
        let misfit = checkpoint.restore(path, &binding(&key), |visitor| {
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
        assert!(read(&path).unwrap().key().is_some());
        fs::hard_link(&path, &links[1]).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read(&links[1]).unwrap(), vec![0; size], "removed");
        assert!(!path.exists());
        remove(&path).unwrap();
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "a temporary file is left");
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
        for (path, what) in [(&link, "symbolic link"), (&inner, "no regular file"), (&text, "no checkpoint")] {
            for key in [KEY, StreamKey::Simulation(1)] {
                let error = taken(&key).write(path).unwrap_err();
                assert!(error.to_string().contains(what), "{error}");
                assert!(matches!(error, CheckpointError::Place { .. }));
            }
            assert!(matches!(check_place(path), Err(CheckpointError::Place { .. })));
            assert!(matches!(remove(path), Err(CheckpointError::Place { .. })));
            assert!(read(path).is_err());
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
        for (mode, refused) in [(0o777, true), (0o770, true), (0o702, true), (0o1777, false), (0o755, false)] {
            set_mode(folder.path(), mode);
            let place = check_place(&path);
            assert_eq!(place.is_err(), refused, "{mode:o}");
            assert_eq!(taken(&KEY).write(&path).is_err(), refused, "{mode:o}");
            if let Err(error) = place {
                assert!(error.to_string().contains("chmod go-w"), "{error}");
                assert!(matches!(error, CheckpointError::Place { .. }));
            }
            taken(&StreamKey::Simulation(1)).write(&path).unwrap();
        }
        // Whoever may write above puts another folder there.
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        set_mode(folder.path(), 0o777);
        let error = check_place(&inner.join("run.checkpoint")).unwrap_err().to_string();
        assert!(error.contains(&format!("others may write to {} ", folder.path().display())), "{error}");
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&inner, link.path().join("link")).unwrap();
        let linked = link.path().join("link").join("run.checkpoint");
        assert!(check_place(&linked).is_err());
        set_mode(folder.path(), 0o775);
        check_place(&inner.join("run.checkpoint")).unwrap();
        check_place(&linked).unwrap();
        set_mode(link.path(), 0o777);
        assert!(check_place(&linked).is_err());
    }

    #[test]
    fn a_key_that_others_may_know_is_not_resumed_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &KEY);
        for mode in [0o640, 0o604, 0o660] {
            set_mode(&path, mode);
            let error = read(&path).err().unwrap();
            assert!(error.to_string().contains("chmod 600"), "{error}");
            assert!(matches!(error, CheckpointError::Place { .. }));
        }
        set_mode(&path, 0o600);
        assert!(read(&path).is_ok());
        assert!(exposure(1000, 0o100_600, 1000).is_none());
        assert!(exposure(1000, 0o100_600, 0).unwrap().contains("belongs to user 1000"));
        let simulated = saved(folder.path(), &StreamKey::Simulation(1));
        set_mode(&simulated, 0o644);
        assert!(read(&simulated).is_ok());
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
                for bytes in [&bytes[..], &whole[..position]] {
                    let damaged = matches!(Checkpoint::parse(&path, bytes), Err(CheckpointError::Damaged { .. }));
                    assert!(damaged, "{position} of {}", bytes.len());
                }
            }
        }
        let missing = read(&folder.path().join("none"));
        assert!(matches!(missing, Err(CheckpointError::File { .. })));
    }
}

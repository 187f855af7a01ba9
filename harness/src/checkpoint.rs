//! Checkpoints of a training run: what is needed to go on as if nothing had happened, and what proves that it is the
//! same run.
//!
//! A checkpoint binds the data digest, the parameters, the build and the instruction set: resuming on anything else
//! would add replayed noise to another gradient, and the difference of two such releases has no noise at all. A release
//! key lies in the file too, so the file has mode 0600, is written through a temporary file beside it, and is removed
//! when the run is finished.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::state::StateVisitor;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// First bytes of every checkpoint.
const MAGIC: &[u8; 16] = b"rounds-ckpt-v1\n\n";

/// No checkpoint is larger: headers and vectors of a model that fits in memory.
const MOST_BYTES: u64 = 1 << 36;

/// Why a checkpoint cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refuses.
    #[error("checkpoint {}: cannot {action}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a checkpoint, or not a whole one.
    #[error("checkpoint {}: {reason}; start the run anew without --resume", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Of another run.
    #[error(
        "checkpoint {}: its {what} is {recorded}, and this run's is {now}; resuming would add the same noise to other \
         gradients. Resume with the same {what}, or start anew without --resume",
        path.display()
    )]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
        /// In the checkpoint.
        recorded: String,
        /// In this run.
        now: String,
    },
}

/// What must be the same for a run to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// SHA-256 of the data.
    pub data: String,
    /// The program's build.
    pub build: String,
    /// The vector extension it was built for.
    pub isa: String,
    /// Every parameter that decides the model, as name and value.
    pub parameters: Vec<(String, String)>,
}

impl Binding {
    /// The first difference, as (what, recorded, now).
    fn difference(&self, now: &Self) -> Option<(String, String, String)> {
        let pairs = [
            ("data", &self.data, &now.data),
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
    /// The release key in hexadecimal digits, for secure runs.
    key: Option<String>,
    counters: Vec<u64>,
    singles: Vec<usize>,
    doubles: Vec<usize>,
}

/// A saved state.
pub struct Checkpoint {
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
        let key = match key {
            StreamKey::Release(key) => Some(key.iter().map(|byte| format!("{byte:02x}")).collect()),
            StreamKey::Simulation(_) => None,
        };
        let header = Header {
            binding,
            ledger,
            key,
            counters: state.counters,
            singles: state.singles.iter().map(Vec::len).collect(),
            doubles: state.doubles.iter().map(Vec::len).collect(),
        };
        Self {
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
        let digits = self.header.key.as_ref()?;
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        (digits.len() == 64).then_some(StreamKey::Release(key))
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

    /// Writes the checkpoint: a reader sees the old one or the new one, whole.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let failed = |action| {
            move |source| CheckpointError::File {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let header = serde_json::to_vec(&self.header).map_err(|error| damaged(path, error.to_string()))?;
        let mut bytes = Vec::with_capacity(header.len() + 64);
        bytes.extend_from_slice(MAGIC);
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
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        // A temporary file is made with mode 0600; the mode is set again in case a platform does otherwise.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed("create a file beside it"))?;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(failed("set its mode"))?;
        file.write_all(&bytes).map_err(failed("write"))?;
        file.as_file().sync_all().map_err(failed("write"))?;
        file.persist(path).map_err(|error| failed("replace")(error.error))?;
        Ok(())
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// A file that cannot be read, is no checkpoint, or is damaged.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Self::parse(path, &Self::bytes(path)?)
    }

    /// The bytes of a checkpoint, for ranks that cannot see the file.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large for a checkpoint.
    pub fn bytes(path: &Path) -> Result<Vec<u8>, CheckpointError> {
        let failed = |action| {
            move |source| CheckpointError::File {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let mut file = fs::File::open(path).map_err(failed("open"))?;
        let size = file.metadata().map_err(failed("read"))?.len();
        if size > MOST_BYTES {
            return Err(damaged(path, format!("{size} bytes are too many")));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        Ok(bytes)
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
        let body = bytes[..end]
            .strip_prefix(MAGIC)
            .ok_or_else(|| damaged(path, "it is no checkpoint of this version".to_owned()))?;
        let short = || damaged(path, "it is too short".to_owned());
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
            header,
            singles,
            doubles,
        })
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
    use super::*;

    fn binding() -> Binding {
        Binding {
            data: "d".into(),
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

    fn saved(folder: &Path, key: &StreamKey) -> PathBuf {
        let path = folder.join("run.checkpoint");
        let mut values = (7, [1.0, -0.0, f32::MIN_POSITIVE], [2.5, 1e300]);
        Checkpoint::take(binding(), Ledger::default(), key, |visitor| state(visitor, &mut values))
            .write(&path)
            .unwrap();
        path
    }

    #[test]
    fn a_state_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &StreamKey::Release([0xa5; 32]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let checkpoint = Checkpoint::read(&path).unwrap();
        assert!(matches!(checkpoint.key(), Some(StreamKey::Release(key)) if key == [0xa5; 32]));
        let mut values = (0, [0.0; 3], [0.0; 2]);
        checkpoint
            .restore(&path, &binding(), |visitor| state(visitor, &mut values))
            .unwrap();
        assert_eq!(values, (7, [1.0, -0.0, f32::MIN_POSITIVE], [2.5, 1e300]));
        assert!(values.1[1].is_sign_negative());
    }

    #[test]
    fn another_run_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &StreamKey::Simulation(1));
        let checkpoint = Checkpoint::read(&path).unwrap();
        let others = [
            (
                "data",
                Binding {
                    data: "x".into(),
                    ..binding()
                },
            ),
            (
                "build",
                Binding {
                    build: "x".into(),
                    ..binding()
                },
            ),
            (
                "instruction set",
                Binding {
                    isa: "x".into(),
                    ..binding()
                },
            ),
            (
                "--epsilon",
                Binding {
                    parameters: vec![("--epsilon".into(), "2".into())],
                    ..binding()
                },
            ),
        ];
        for (what, other) in others {
            let error = checkpoint.restore(&path, &other, |_| ()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let mut values = (0, [0.0; 3], [0.0; 2]);
        let misfit = checkpoint.restore(&path, &binding(), |visitor| visitor.f32s("iterate", &mut values.1[..2]));
        assert!(misfit.unwrap_err().to_string().contains("iterate"));
    }

    #[test]
    fn damaged_files_are_refused_wherever_they_are_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &StreamKey::Simulation(1));
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[position] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert!(
                matches!(Checkpoint::read(&path), Err(CheckpointError::Damaged { .. })),
                "byte {position}"
            );
            fs::write(&path, &whole[..position]).unwrap();
            assert!(
                matches!(Checkpoint::read(&path), Err(CheckpointError::Damaged { .. })),
                "{position} bytes"
            );
        }
        assert!(matches!(
            Checkpoint::read(&folder.path().join("none")),
            Err(CheckpointError::File { .. })
        ));
    }
}

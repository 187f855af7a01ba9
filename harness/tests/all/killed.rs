//! Releases that are killed at any round, and go on after something has changed or not: the bits of the run that was never killed, or
//! a refusal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rounds_kernels::random::{Purpose, StreamKey, UniformStream};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{command, stderr};

const SCHEMA: &str =
    "[columns.height]\nkind = \"number\"\nbounds = [0, 10]\n[label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n";

/// What happens between the kill and the second start.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    Rows,
    Schema,
    Flags,
    Threads,
    /// Another factorisation takes the place of the one in the user's cache.
    Cache,
    InstructionSet,
    /// Another release's key, in a checkpoint whose checksum is right.
    Key,
}

const CHANGES: [Change; 8] = [
    Change::Nothing,
    Change::Rows,
    Change::Schema,
    Change::Flags,
    Change::Threads,
    Change::Cache,
    Change::InstructionSet,
    Change::Key,
];

impl Change {
    /// The run goes on: neither threads nor integer kernels decide bits.
    fn is_allowed(self) -> bool {
        matches!(self, Self::Nothing | Self::Threads | Self::InstructionSet)
    }
}

struct Trial {
    folder: tempfile::TempDir,
    line: String,
}

impl Trial {
    /// A table of 200 rows with a schema, and a release on it that takes some hundred milliseconds.
    fn new(method: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.csv");
        let trial = Self { line: line(&table, method), folder };
        trial.write_rows(0);
        trial.write_schema("10");
        trial
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_rows(&self, first: usize) {
        let row =
            |row: usize| format!("{},{}\n", (row + first * usize::from(row == 3)) % 11, ["no", "yes"][row / 2 % 2]);
        let text = "height,kind\n".to_owned() + &(0..200).map(row).collect::<String>();
        fs::write(self.path("table.csv"), text).unwrap();
    }

    fn write_schema(&self, hi: &str) {
        fs::write(self.path("schema.toml"), SCHEMA.replace("10]", &format!("{hi}]"))).unwrap();
    }

    fn run(&self, more: &str, isa: Option<&str>) -> Output {
        let mut run = command(&format!("{} --json {more}", self.line));
        run.env("XDG_CACHE_HOME", self.folder.path());
        isa.map(|isa| run.env("ROUNDS_ISA", isa));
        run.output().expect("the program starts")
    }

    /// The release, at its first checkpoint or its end.
    fn started(&self) -> Child {
        let saved = self.path("saved");
        let mut saving = command(&format!("{} --checkpoint {} --checkpoint-every 3", self.line, saved.display()));
        saving.env("XDG_CACHE_HOME", self.folder.path()).stdout(Stdio::null());
        let mut running = saving.spawn().expect("the program starts");
        while !saved.exists() && running.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        running
    }

    /// Kills the release a moment after its first checkpoint, and returns its first and its last one. None if it was too late.
    fn killed(&self, moment: Duration) -> Option<[Vec<u8>; 2]> {
        let (saved, mut running) = (self.path("saved"), self.started());
        // A file that is replaced while it is read is overwritten.
        let first = fs::read(&saved).ok().filter(|bytes| is_whole(bytes));
        std::thread::sleep(moment);
        running.kill().unwrap();
        running.wait().unwrap();
        let last = fs::read(&saved).ok();
        let _ = fs::remove_file(&saved);
        Some([first?, last?])
    }

    /// The end of the run that goes on from `checkpoint`: its model, or its refusal.
    fn resumed(&self, checkpoint: &[u8], more: &str, isa: Option<&str>) -> Result<String, String> {
        let path = self.path("resumed");
        fs::write(&path, checkpoint).unwrap();
        let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, owner_alone).unwrap();
        let output = self.run(&format!("--resume {} {more}", path.display()), isa);
        let _ = fs::remove_file(&path);
        if !output.status.success() {
            return Err(stderr(&output));
        }
        let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
        Ok(document["model_sha256"].as_str().expect("a digest").to_owned())
    }

    /// The factorisations in the cache.
    fn cached(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path("rounds/factorizations")).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect()
    }

    /// Puts the factorisation of another method into the cache, under the name and the key of the one that the run takes.
    fn swap_cached(&self) {
        let [own] = &self.cached()[..] else { panic!("one factorisation is in the cache") };
        let bytes = fs::read(own).unwrap();
        let other = Self::new("banded=4");
        let run = other.run("", None);
        assert!(run.status.success(), "{}", stderr(&run));
        let [another] = &other.cached()[..] else { panic!("one factorisation is in the cache") };
        let mut swapped = fs::read(another).unwrap();
        let end = swapped.len() - 32;
        // A magic number of 16 bytes, a key of 32.
        swapped[16..48].copy_from_slice(&bytes[16..48]);
        let digest = Sha256::digest(&swapped[..end]);
        swapped[end..].copy_from_slice(&digest);
        assert_ne!(swapped, bytes);
        fs::write(own, swapped).unwrap();
    }
}

fn line(table: &Path, method: &str) -> String {
    format!(
        "train --data {} --secure --algorithm dp-mf --noise {method} --batch-size 20 --epochs 20 --noise-multiplier 20 --delta 1e-4",
        table.display()
    )
}

/// The checksum of a checkpoint belongs to it: it was not overwritten while it was read.
fn is_whole(checkpoint: &[u8]) -> bool {
    checkpoint.split_last_chunk::<32>().is_some_and(|(bytes, digest)| Sha256::digest(bytes)[..] == digest[..])
}

/// A checkpoint with another key, and the checksum that belongs to it.
fn rekeyed(checkpoint: &[u8]) -> Vec<u8> {
    let mut bytes = checkpoint.to_vec();
    bytes[16] ^= 1;
    let end = bytes.len() - 32;
    let digest = Sha256::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&digest);
    bytes
}

/// Kills and resumes a release `trials` times, at moments that are drawn, with one change after the other.
fn kill(trials: u64) {
    let mut draws = UniformStream::new(&StreamKey::Simulation(34), Purpose(1), 0, 0);
    let mut draw = |below: u64| draws.next_u64() % below;
    let (mut done, mut advanced) = (0, 0);
    while done < trials {
        let change = CHANGES[done as usize % CHANGES.len()];
        let trial = Trial::new("optimal");
        let Some([first, checkpoint]) = trial.killed(Duration::from_micros(draw(150_000))) else { continue };
        // From the first state: a state that is put back wrongly shows where a later one is put back.
        let whole = change.is_allowed().then(|| trial.resumed(&first, "", None).expect("the same run goes on"));
        advanced += u64::from(whole.is_some() && first != checkpoint);
        let (mut checkpoint, mut more, mut isa) = (checkpoint, "", None);
        match change {
            Change::Nothing => {}
            Change::Rows => trial.write_rows(1),
            Change::Schema => trial.write_schema("10.5"),
            Change::Flags => more = "--clip-norm 0.5",
            Change::Threads => more = "--threads 1",
            Change::Cache => trial.swap_cached(),
            Change::InstructionSet => isa = Some("scalar"),
            Change::Key => checkpoint = rekeyed(&checkpoint),
        }
        let found = trial.resumed(&checkpoint, more, isa);
        let holds = match &found {
            Ok(model) => Some(model) == whole.as_ref(),
            Err(message) => whole.is_none() && message.contains("start anew without"),
        };
        assert!(holds, "trial {done}: {change:?} gives {found:?}, and the whole run {whole:?}");
        done += 1;
    }
    assert!(advanced > 0, "every release was killed at its first checkpoint");
}

#[test]
fn a_killed_release_goes_on_to_its_own_bits_or_not_at_all() {
    kill(CHANGES.len() as u64);
}

#[test]
#[ignore = "300 processes are killed, and 600 go on"]
fn three_hundred_killed_releases_go_on_to_their_own_bits_or_not_at_all() {
    kill(300);
}

#[test]
fn the_memory_of_a_release_is_locked_where_the_limit_allows_it() {
    let trial = Trial::new("optimal");
    let mut running = trial.started();
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let is_over = running.try_wait().unwrap().is_some();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(!is_over, "the release ended before it was looked at");
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")?.split_whitespace().next()?.parse().ok());
    let locked: u64 = locked.expect("a number of kB");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).maximum;
    assert_eq!(locked > 0, limit.is_none() || rustix::process::geteuid().is_root(), "{locked} kB");
}

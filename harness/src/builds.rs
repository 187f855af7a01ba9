//! Two builds of this program measured in turn on this machine: A B, B A, A B, …, each member of a pair by a process of its own.
//! Drift of the machine then meets both alike, and the scatter of the pairs shows the rest of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use rounds_algorithms::hexadecimal;
use sha2::{Digest as _, Sha256};

use crate::results::{Run, read_run};
use crate::usage::UsageError;
use rounds_models::files;

/// The file that tells what a folder of pairs compares.
const SUBJECT: &str = "builds.json";

/// A program for each side, and the arguments of `rounds run` for both.
#[derive(Debug)]
pub struct Builds {
    programs: [PathBuf; 2],
    arguments: Vec<String>,
    /// Warnings of processes that were passed on, each once.
    warned: RefCell<BTreeSet<String>>,
}

impl Builds {
    /// Both builds, with arguments that select cells. A process measures each cell once unless they say `--repeats`.
    pub fn new(programs: [PathBuf; 2], mut arguments: Vec<String>) -> Self {
        if !arguments.iter().any(|argument| argument.starts_with("--repeats")) {
            arguments.extend(["--repeats".to_owned(), "1".to_owned()]);
        }
        Self { programs, arguments, warned: RefCell::default() }
    }

    /// Binds `folder` to these builds and arguments: pairs of others must not be mixed with theirs.
    ///
    /// # Errors
    /// A folder with other pairs, programs that cannot be read, a folder that cannot be written.
    pub fn bind(&self, folder: &Path) -> anyhow::Result<()> {
        let digest = |program: &PathBuf| {
            if !program.is_file() {
                return Err(UsageError::of(format!("--build {}: no program is there", program.display())));
            }
            let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
            anyhow::Ok(hexadecimal(&Sha256::digest(&bytes)))
        };
        let digests = [digest(&self.programs[0])?, digest(&self.programs[1])?];
        let subject = serde_json::json!({"sha256": digests, "arguments": self.arguments}).to_string();
        let path = folder.join(SUBJECT);
        match fs::read_to_string(&path) {
            Ok(recorded) => ensure!(
                recorded == subject,
                "{} holds pairs of other builds or arguments: choose another folder with --out",
                folder.display()
            ),
            Err(_) => fs::create_dir_all(folder)
                .and_then(|()| files::replace(&path, subject.as_bytes()))
                .with_context(|| format!("cannot write {}", path.display()))?,
        }
        Ok(())
    }

    /// Measures one side into a folder, and passes on the warnings that are new. Returns false if `stopped` ended it.
    ///
    /// # Errors
    /// A program that cannot be started, or fails.
    pub fn measure(
        &self,
        side: usize,
        folder: &Path,
        stopped: &AtomicBool,
        warn: &dyn Fn(&str),
    ) -> anyhow::Result<bool> {
        if stopped.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // A name without a slash is a file here, not a program of PATH.
        let program = std::path::absolute(&self.programs[side])?;
        let mut command = Command::new(&program);
        command.arg("run").args(&self.arguments).arg("--json").arg("--out").arg(folder);
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
        let done = done.with_context(|| format!("cannot start {}", program.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        for warning in said.lines().filter_map(|line| line.strip_prefix("warning: ")) {
            if self.warned.borrow_mut().insert(warning.to_owned()) {
                warn(warning);
            }
        }
        let stopped = stopped.load(Ordering::Relaxed);
        let mut reason: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        if reason.is_empty() {
            reason = said.lines().rev().take(10).collect();
            reason.reverse();
        }
        ensure!(
            stopped || done.status.success(),
            "{} run failed ({})\n{}",
            program.display(),
            done.status,
            reason.join("\n")
        );
        Ok(done.status.success())
    }
}

/// Measures pairs in turn, each member into a folder of its own below `folder`; members that are there are kept. `measure` gives
/// false where it was stopped. Returns the number of whole pairs and the runs of both sides, with a repeat for each pair.
///
/// # Errors
/// The first member that fails, no whole pair, or results that cannot be read.
pub fn measure_in_turn(
    folder: &Path,
    pairs: usize,
    measure: &dyn Fn(usize, &Path) -> anyhow::Result<bool>,
) -> anyhow::Result<(usize, [Run; 2])> {
    let member = |pair: usize, side: usize| folder.join(format!("{pair}-{}", ["A", "B"][side]));
    let in_turn = (1..=pairs).flat_map(|pair| [0, 1].map(|place| (pair, (place + pair + 1) % 2)));
    for (pair, side) in in_turn {
        let (whole, partial) = (member(pair, side), folder.join("unfinished"));
        if whole.exists() {
            continue;
        }
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        if !measure(side, &partial)? {
            break;
        }
        fs::rename(&partial, &whole)?;
    }
    let whole = (1..=pairs).take_while(|&pair| member(pair, 0).exists() && member(pair, 1).exists());
    let whole = whole.count();
    ensure!(whole > 0, "stopped before the first pair was finished");
    let runs = [0, 1].map(|side| {
        let mut all = read_run(&member(1, side))?;
        // Limits of one process among many, which each build may measure in another way.
        all.environment.rooflines.clear();
        for pair in 2..=whole {
            let repeats = all.results.samples.iter().map(|sample| sample.trial.repeat + 1).max();
            for mut sample in read_run(&member(pair, side))?.results.samples {
                sample.trial.repeat += repeats.unwrap_or(0);
                all.results.samples.push(sample);
            }
        }
        anyhow::Ok(all)
    });
    let [before, after] = runs;
    Ok((whole, [before?, after?]))
}

//! Results of suites: the cost of a round, cell by cell, and the repeats of a configuration pooled.

mod cell;
mod pooled;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use cell::{Cell, Phases, Quality, Rates, RoundCost, RoundTimes, RunWork, Shape};
pub use pooled::{Pooled, pool};

use crate::experiment::store::{self, Results, Stored};
use crate::experiment::{Sample, text};

pub use crate::experiment::cell::SCHEMA;
pub use crate::experiment::store::{Binding, Mode, StoreError};
pub use crate::experiment::{Configuration, Trial};

/// A line of a suite's `measurements.jsonl`.
pub type Record = crate::experiment::Record<RoundCost>;
/// The writer of a suite's folder.
pub type Store = crate::experiment::Store<RoundCost>;
/// A suite's folder as read.
pub type Run = crate::experiment::store::Stored<RoundCost>;

/// Reads the results of suites.
///
/// # Errors
/// As [`crate::experiment::store::read`].
pub fn read_run(folder: &Path) -> Result<Run, StoreError> {
    crate::experiment::store::read(folder)
}

/// Reads the results of suites, or those of a study as runs of one round each: its seconds, with what came out in place of the
/// model. Of a folder without results of its own the only one below it is read.
///
/// # Errors
/// As [`crate::experiment::store::read`]; several folders of results.
pub fn read_any(folder: &Path) -> anyhow::Result<Run> {
    let found = folders(folder);
    anyhow::ensure!(
        found.len() < 2,
        "{} holds the results of several studies; name one of {}",
        folder.display(),
        found.iter().map(|one| one.display().to_string()).collect::<Vec<_>>().join(", ")
    );
    let folder = found.first().map_or(folder, |own| own.as_path());
    let Stored { results, folder, environment, binding, messages } = store::read(folder)?;
    let samples =
        results.samples.into_iter().filter_map(|sample: Sample| sample.typed().ok().or_else(|| of_study(sample)));
    let mut typed: Results<RoundCost> = samples.collect();
    typed.rejected = results.rejected;
    Ok(Run { results: typed, folder, environment, binding, messages })
}

/// The folder, or those below it, that hold results; the folder alone if it does.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    visit(folder, &mut |path| {
        found.push(path.to_owned());
        false
    });
    found
}

/// Visits the folder and those below it that hold results, in the order of their names, but those below one whose visit is false.
pub(crate) fn visit(folder: &Path, visitor: &mut dyn FnMut(&Path) -> bool) {
    /// Depth of studies: `paper/srg-table-1`.
    const DEPTH: usize = 3;
    fn below(folder: &Path, depth: usize, visitor: &mut dyn FnMut(&Path) -> bool) {
        if store::holds_results(folder) && !visitor(folder) || depth == 0 {
            return;
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        paths.sort();
        paths.iter().for_each(|path| below(path, depth - 1, visitor));
    }
    below(folder, DEPTH, visitor);
}

/// A run of a study as one round. None without a time.
fn of_study(sample: Sample) -> Option<Cell> {
    let outcome = &sample.outcome;
    let times = match (outcome.get("seconds"), outcome.get("round_ns")) {
        (Some(seconds), _) => vec![(seconds.as_f64()? * 1e9) as u64],
        (None, Some(Value::Number(nanoseconds))) => vec![nanoseconds.as_f64()? as u64],
        (None, Some(times)) => serde_json::from_value(times.get("samples")?.clone()).ok()?,
        (None, None) => return None,
    };
    let result = ["value", "model_sha256"].iter().find_map(|name| outcome.get(*name));
    let cost = RoundCost {
        work: RunWork { rounds: 1, ..RunWork::default() },
        round_ns: RoundTimes::new(times),
        model_sha256: result.map_or_else(String::new, text),
        ..RoundCost::default()
    };
    Some(Cell { configuration: sample.configuration, trial: sample.trial, outcome: cost, date: sample.date })
}

#[cfg(test)]
#[path = "../../tests/all/cell.rs"]
pub(crate) mod tests;

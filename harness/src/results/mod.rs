//! Results of suites: the cost of a round, cell by cell, and the repeats of a configuration pooled.

mod cell;
mod pooled;

use std::path::Path;

pub use cell::{Cell, Exchange, Phases, Quality, Rates, RoundCost, RoundTimes, RunWork, Shape};
pub use pooled::{Pooled, pool};

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

#[cfg(test)]
#[path = "../../tests/all/cell.rs"]
pub(crate) mod tests;

//! What was measured, on disk: `results/<date>/<machine>/{environment.json, measurements.jsonl, measurements.csv}`.
//!
//! A cell is finished or absent. Each finished cell is one line of `measurements.jsonl`, written at once and synced;
//! a line that a kill cut in half is dropped when the folder is opened again, and nothing else is lost. Nothing here
//! measures or draws.

mod cell;
mod pooled;
mod store;
mod table;

pub use cell::{Cell, Configuration, Phases, Record, RoundTimes, SCHEMA};
pub use pooled::{Pooled, beyond_roofline, pool};
pub use store::{Binding, Mode, ResultsError, Run, Store, newest_directory, read_run, results_directory};
pub use table::write_csv;

#[cfg(test)]
pub(crate) use store::tests as store_tests;

//! The commands of `rounds`, one file each: `XArguments` (clap) and `run(&XArguments, json)`.
//!
//! With `json` a command writes one JSON document (or JSON lines) to stdout and nothing else; without it, text for
//! people. Errors are returned, never printed here: `main` prints one message and picks the exit code.

pub mod account;
pub mod audit;
mod black_box;
pub mod compare;
pub mod factorize;
pub mod list;
pub mod machine;
pub mod report;
pub mod run;
pub mod schema;
pub mod simulate;
mod simulate_ranks;
mod threads;
pub mod train;
mod usage;

pub use usage::{UsageError, with_causes};

//! The commands of `rounds`, one file each: `XArguments` (clap) and `run(&XArguments, Output)`.
//!
//! A command has one result; [`Output`] prints it on stdout, as JSON or as text. Errors are returned, never printed here: `main`
//! prints one message and picks the exit code.

pub mod account;
pub mod audit;
pub mod compare;
pub mod completions;
mod declaration;
pub mod evaluate;
pub mod factorize;
pub mod features;
pub mod keygen;
pub mod ledger;
pub mod list;
pub mod machine;
pub mod manual;
pub mod predict;
pub mod report;
pub mod run;
pub mod schema;
pub mod simulate;
mod statement;
mod terminal;

pub mod train;
pub mod tune;
mod values;
pub mod verdicts;

pub use crate::output::{self, Output};
pub use crate::usage::{UsageError, with_causes};

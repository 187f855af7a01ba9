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

use std::path::Path;

use anyhow::Context as _;
use rounds_models::files;

/// Checks, before the work, that the output `path` can be written, is none of the inputs and replaces nothing but a file of its kind, which
/// `is_own` knows by its first bytes.
fn check_output(path: &Path, inputs: &[&Path], is_own: fn(&[u8]) -> bool) -> anyhow::Result<()> {
    files::check_replaceable(path).with_context(|| format!("{}: cannot be written", path.display()))?;
    let own = files::identity(path);
    let refused = |holds: &str| Err(UsageError::of(format!("{}: {holds}", path.display())));
    if own.is_some() && path.is_file() && inputs.iter().any(|input| files::identity(input) == own) {
        return refused("this command reads it, and it would be lost; name another file");
    }
    if files::holds_other(path, is_own) {
        return refused("it holds something else, which would be lost; name another file, or move this one away");
    }
    Ok(())
}

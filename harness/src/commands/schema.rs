//! `rounds schema FILE`: drafts the schema of a data file for a person to check.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use rounds_models::data::draft;
use serde_json::json;

use super::declaration::ColumnArguments;
use super::{Output, UsageError};

/// Arguments of `rounds schema`.
#[derive(clap::Args)]
pub struct SchemaArguments {
    /// A data file, or a folder in one of the known layouts.
    file: PathBuf,
    #[command(flatten)]
    columns: ColumnArguments,
    /// Output file; `schema.toml` beside the data is found by itself [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Drafts one schema. It is marked as read from the data: a run on it claims nothing until a person removes the mark.
///
/// # Errors
/// Data that cannot be read, with the line, and an output that cannot be written.
pub fn run(arguments: &SchemaArguments, output: Output) -> anyhow::Result<()> {
    let schema = draft::draft(&arguments.file, &arguments.columns.flags())?;
    if let Some(path) = &arguments.output {
        // Never over a schema that a person has checked.
        if path.exists() {
            return Err(UsageError::of(format!("{}: it is there already; move it away first", path.display())));
        }
        let written = File::create_new(path).and_then(|mut file| {
            let written = file.write_all(schema.as_bytes());
            // No half of a schema.
            written.inspect_err(|_| drop(fs::remove_file(path)))
        });
        written.with_context(|| format!("{}: cannot be written", path.display()))?;
        let next = "check every line, then set drafted = false";
        output.say(format_args!("wrote {}; {next}", path.display()));
        if output == Output::Text {
            return Ok(());
        }
    }
    output.print(&json!({"schema": schema}), schema.trim_end())
}

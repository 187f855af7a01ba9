//! `rounds schema FILE`: drafts the schema of a data file for a person to check.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::data::draft;

/// What `rounds schema` takes.
#[derive(clap::Args)]
pub struct SchemaArguments {
    /// A data file, or a folder in one of the known layouts.
    file: PathBuf,
    /// Where the schema is written; `schema.toml` beside the data is found by itself [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Drafts one schema. It is marked as read from the data: a run on it claims nothing until a person removes the mark.
///
/// # Errors
/// Data that cannot be read, with the line, and an output that cannot be written.
pub fn run(arguments: &SchemaArguments, json: bool) -> anyhow::Result<()> {
    let text = draft::draft(&arguments.file)?;
    match &arguments.output {
        // Never over a schema that a person has checked.
        Some(path) => std::fs::File::create_new(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| {
                format!(
                    "{}: cannot be written; if it is there, move it away first",
                    path.display()
                )
            })?,
        None if !json => print!("{text}"),
        None => {}
    }
    if json {
        println!("{}", serde_json::json!({ "schema": text }));
    }
    Ok(())
}

//! `rounds verdicts`: what the papers print beside what the committed runs have, each with a verdict.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::Output;
use crate::analysis::{judge, markdown};
use crate::drawing::{Entry, Table};

/// Arguments of `rounds verdicts`.
#[derive(clap::Args)]
pub struct VerdictsArguments {
    /// Folder of the committed results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Numbers and claims of the papers, as declared queries of raw runs.
    #[arg(long, value_name = "FILE", default_value = "bench/published.toml")]
    published: PathBuf,
    /// Print Markdown.
    #[arg(long, conflicts_with = "check")]
    markdown: bool,
    /// Fail where the page of the results says something else.
    #[arg(long)]
    check: bool,
}

/// Judges every row and prints it.
///
/// # Errors
/// A declaration that no run fits, or with `--check` a page that differs.
pub fn run(arguments: &VerdictsArguments, output: Output) -> anyhow::Result<()> {
    let rows = judge(&arguments.published, &arguments.results)?;
    let text = markdown(&rows);
    if arguments.check {
        let path = arguments.results.join("README.md");
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let place = page
            .split_once("<!-- rounds:verdicts -->\n")
            .and_then(|(_, rest)| rest.split_once("\n<!-- /rounds:verdicts -->"));
        let (there, _) = place.with_context(|| format!("{}: no place for the verdicts", path.display()))?;
        if let Some((line, _)) = there.lines().zip(text.lines()).find(|(there, here)| there != here) {
            bail!("{}: the raw runs say otherwise than: {line}; run `make readme`", path.display());
        }
        if there.lines().count() != text.lines().count() {
            bail!("{}: the table has lines more or less than the raw runs; run `make readme`", path.display());
        }
        return Ok(());
    }
    if arguments.markdown {
        println!("{text}");
        return Ok(());
    }
    let mut table = Table::new("Verdicts", "paper|says|said|ours|verdict");
    for row in &rows {
        table.row(row.entries().map(Entry::text));
    }
    output.print(&rows, table.terminal())
}

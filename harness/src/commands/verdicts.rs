//! `rounds verdicts`: what the papers print beside what the committed runs have, each with a verdict; and the pages that say so.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::{Output, UsageError};
use crate::analysis::Pages;
use crate::drawing::{Entry, Table};

/// Arguments of `rounds verdicts`.
#[derive(clap::Args)]
pub struct VerdictsArguments {
    /// Pages for --write and --check.
    #[arg(value_name = "PAGE", default_values = ["README.md", "results/README.md"])]
    pages: Vec<PathBuf>,
    /// Folder of the committed results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Claims of the papers, tables and numbers of the pages, as declared queries of raw runs.
    #[arg(long, value_name = "FILE", default_value = "bench/verdicts.toml")]
    declarations: PathBuf,
    /// Put the verdicts, tables and numbers between the markers of the pages.
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Fail where a page says something else than the raw runs.
    #[arg(long)]
    check: bool,
}

/// Judges every row and prints it, or fills or checks the pages.
///
/// # Errors
/// A declaration that no run fits, or with `--check` the first line that differs of each page.
pub fn run(arguments: &VerdictsArguments, output: Output) -> anyhow::Result<()> {
    for (flag, path) in [("--declarations FILE", &arguments.declarations), ("--results DIR", &arguments.results)] {
        let absent = || format!("{} is not there: run this in a checkout of rounds, or name {flag}", path.display());
        ensure!(path.exists(), UsageError::of(absent()));
    }
    let mut pages = Pages::new(&arguments.declarations, &arguments.results)?;
    if !arguments.write && !arguments.check {
        let mut table = Table::new("Verdicts", "paper|says|said|ours|verdict");
        for row in &pages.rows {
            table.row(row.entries().map(Entry::text));
        }
        return output.print(&pages.rows, table.terminal());
    }
    let mut differing = Vec::new();
    for path in &arguments.pages {
        let name = || path.display().to_string();
        let there = fs::read_to_string(path).with_context(name)?;
        let here = pages.filled(&there).with_context(name)?;
        if arguments.write && here != there {
            fs::write(path, here).with_context(name)?;
        } else if here != there {
            let mut lines = there.lines().zip(here.lines()).enumerate();
            let (place, (there, here)) = lines.find(|(_, (there, here))| there != here).unwrap_or_default();
            differing.push(format!("{}:{}: {there}\nThe raw runs say: {here}", name(), place + 1));
        }
    }
    ensure!(differing.is_empty(), "{}\n`make readme` writes it", differing.join("\n"));
    pages.all_placed()
}

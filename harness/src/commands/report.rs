//! `rounds report DIR`: the page of a run.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;

use super::{Output, output};
use crate::files;
use crate::report::{Studies, report_html};
use crate::results::read_run;

/// Writes report.html: figures, tables and the machine, in one file that loads nothing from the network.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// A folder of `rounds run`.
    pub folder: PathBuf,
    /// The page [default: report.html in the folder].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A written report.
#[derive(Serialize)]
struct Written {
    report: PathBuf,
    cells: usize,
    messages: Vec<String>,
}

impl fmt::Display for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.report.display())
    }
}

/// Reads the run, writes the page and prints its path.
///
/// # Errors
/// No run in the folder, damaged files, a page that cannot be written.
pub fn run(arguments: &ReportArguments, output: Output) -> Result<()> {
    let run = read_run(&arguments.folder)?;
    let studies = Studies::read(&arguments.folder);
    let page = report_html(&run, &studies);
    let report = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.folder.join("report.html"));
    files::replace(&report, page.as_bytes()).with_context(|| format!("cannot write {}", report.display()))?;
    let messages: Vec<String> = run.messages.into_iter().chain(studies.messages).collect();
    if output == Output::Text {
        messages.iter().for_each(output::warn);
    }
    output.print(&Written {
        report,
        cells: run.results.samples.len(),
        messages,
    })
}

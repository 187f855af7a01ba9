//! `rounds report DIR`: the page of a run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{Output, check_output, output};
use crate::experiment::run::write_files;
use crate::experiment::store::{self, Stored};
use crate::experiment::{Results, Sample};
use crate::report::{Studies, report_html};
use crate::results::{Run, folders, read_run};
use crate::studies;
use rounds_models::files;

/// Writes report.html: figures, tables and the machine, in one file that loads nothing from the network.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// A folder of `rounds run`, or one of its studies.
    pub folder: PathBuf,
    /// The page [default: report.html in the folder].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the page, tables and pictures of each study beside its runs, too, as `rounds run` does.
    #[arg(long)]
    pub files: bool,
}

#[derive(Serialize)]
struct Written<'a> {
    report: &'a Path,
    cells: usize,
    messages: &'a [String],
}

/// The cells of a run's folder. Of a folder of its studies, which are shown beside cells, the machine and the messages alone.
fn run_of(folder: &Path) -> Result<Run> {
    let first = folders(folder).into_iter().next();
    let own = first.as_deref().unwrap_or(folder);
    let stored: Stored = store::read(own)?;
    let mut studies = stored.binding.suites.keys().map(Path::new);
    let below = own.strip_prefix(folder).unwrap_or(own);
    ensure!(
        own == folder || studies.any(|name| name.ends_with(below)),
        "{} is not the folder of one run: results below it are in {}; name that folder, or the one around it",
        folder.display(),
        own.display()
    );
    let is_suite = |sample: &Sample| sample.contains_key("phases_ns");
    if own == folder && stored.results.samples.iter().all(is_suite) {
        return Ok(read_run(folder)?);
    }
    Ok(Run {
        results: Results::default(),
        folder: folder.to_owned(),
        environment: stored.environment,
        binding: stored.binding,
        messages: Vec::new(),
    })
}

/// True of the start of a page of `rounds`.
fn is_page(start: &[u8]) -> bool {
    let start = String::from_utf8_lossy(start);
    start.starts_with("<!DOCTYPE html>") && start.contains("<title>rounds: ")
}

/// Reads the run, writes the page and prints its path.
///
/// # Errors
/// No run in the folder, or none that is finished; damaged files, a page that cannot be written.
pub fn run(arguments: &ReportArguments, output: Output) -> Result<()> {
    let folder = &arguments.folder;
    let run = run_of(folder)?;
    let report = arguments.out.clone().unwrap_or_else(|| folder.join("report.html"));
    check_output(&report, &[], is_page)?;
    let studies = Studies::read(folder, &studies::present);
    let messages: Vec<String> = run.messages.iter().chain(&studies.messages).cloned().collect();
    ensure!(
        !run.results.is_empty() || !studies.presentations.is_empty(),
        "{} has nothing to show: {}",
        folder.display(),
        if messages.is_empty() {
            "no run is finished yet (continue with `rounds run --resume`), or the file of its definition is gone"
                .to_owned()
        } else {
            messages.join("; ")
        }
    );
    for (name, page) in studies.presentations.iter().filter(|_| arguments.files) {
        // An absent name is that of the folder itself.
        let own = folder.join(name);
        write_files(&own, &page.files("study", &store::head(&own)?.0))?;
    }
    let page = report_html(&run, &studies);
    files::replace(&report, page.as_bytes()).with_context(|| format!("cannot write {}", report.display()))?;
    if output == Output::Text {
        messages.iter().for_each(output::warn);
    }
    let written = Written { report: &report, cells: run.results.samples.len(), messages: &messages };
    output.print(&written, report.display())
}

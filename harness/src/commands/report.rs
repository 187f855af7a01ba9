//! `rounds report DIR`: one self-contained page of a run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;

use crate::report::{Studies, report_html};
use crate::results::read_run;

/// Writes report.html: figures, tables and the machine, in one file that needs no network.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// A folder that `rounds run` wrote.
    pub folder: PathBuf,
    /// The page; by default report.html in the folder.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Reads the run, writes the page and says where it lies.
///
/// # Errors
/// No run in the folder, damaged files, a page that cannot be written.
pub fn run(arguments: &ReportArguments, json: bool) -> Result<()> {
    let run = read_run(&arguments.folder)?;
    let studies = Studies::read(&arguments.folder);
    let page = report_html(&run, &studies);
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.folder.join("report.html"));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    let messages: Vec<&String> = run.messages.iter().chain(&studies.messages).collect();
    if json {
        println!(
            "{}",
            json!({"report": path, "cells": run.cells.len(), "messages": messages})
        );
    } else {
        for message in messages {
            eprintln!("warning: {message}");
        }
        println!("{}", path.display());
    }
    Ok(())
}

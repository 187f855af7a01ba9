//! `rounds compare A B`: what changed between two runs, with significance.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color, Table};

use crate::commands::UsageError;
use crate::compare::{Change, Comparison, Rules, Verdict, compare};
use crate::results::read_run;

/// Compares the times of run B with those of run A: ratio B/A, its interval, and which changes are significant.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// The first run: a folder that `rounds run` wrote.
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The second run.
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// Compare runs of different machines, instruction sets, builds or data.
    #[arg(long)]
    pub force: bool,
    /// Least relative change that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub threshold: f64,
    /// Show unchanged configurations too.
    #[arg(long)]
    pub all: bool,
}

/// Reads both runs and prints what changed.
///
/// # Errors
/// Folders without runs, damaged files, runs that cannot be compared, a threshold that is no percentage.
pub fn run(arguments: &CompareArguments, json: bool) -> Result<()> {
    if !(0.0..1000.0).contains(&arguments.threshold) {
        return Err(UsageError::new(format!(
            "--threshold {}: expected a percentage from 0 up",
            arguments.threshold
        ))
        .into());
    }
    let (before, after) = (read_run(&arguments.before)?, read_run(&arguments.after)?);
    let rules = Rules {
        threshold: arguments.threshold / 100.0,
        force: arguments.force,
        ..Rules::default()
    };
    let comparison = compare(&before, &after, rules)?;
    if json {
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_for_people(&comparison, arguments.all);
    }
    Ok(())
}

fn print_for_people(comparison: &Comparison, all: bool) {
    for remark in &comparison.remarks {
        eprintln!("warning: {remark}");
    }
    let shown = |change: &&Change| all || change.verdict != Verdict::Unchanged;
    let changes: Vec<&Change> = comparison.changes.iter().filter(shown).collect();
    if !changes.is_empty() {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "algorithm",
            "data",
            "batch",
            "threads",
            "before",
            "after",
            "ratio",
            "95 % interval",
            "verdict",
        ]);
        for change in changes {
            table.add_row(row(change));
        }
        for column in 2..8 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
    }
    let count = |verdict| {
        comparison
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    };
    println!(
        "{} configurations: {} faster, {} slower, {} without significant change; geometric mean of the ratios {:.3}",
        comparison.changes.len(),
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::Unchanged),
        comparison.mean_ratio
    );
    for (name, keys) in [("first", &comparison.only_before), ("second", &comparison.only_after)] {
        if !keys.is_empty() {
            println!(
                "{} configurations are in the {name} run only, {} among them",
                keys.len(),
                keys[0]
            );
        }
    }
}

fn row(change: &Change) -> Vec<Cell> {
    let (word, colour) = match change.verdict {
        Verdict::Faster => ("faster", Some(Color::Green)),
        Verdict::Slower => ("slower", Some(Color::Red)),
        Verdict::Unchanged => ("", None),
    };
    let verdict = if change.warnings.is_empty() {
        word.to_string()
    } else {
        format!("{word} (doubtful samples)")
    };
    let verdict = Cell::new(verdict.trim());
    let verdict = if let Some(colour) = colour {
        verdict.fg(colour)
    } else {
        verdict
    };
    let microseconds = |nanoseconds: f64| Cell::new(format!("{:.1} µs", nanoseconds / 1e3));
    vec![
        Cell::new(change.configuration.label()),
        Cell::new(format!(
            "{} ({})",
            change.configuration.dataset, change.configuration.features
        )),
        Cell::new(change.configuration.batch_size),
        Cell::new(change.configuration.threads),
        microseconds(change.before_ns),
        microseconds(change.after_ns),
        Cell::new(format!("{:.3}", change.ratio)),
        Cell::new(format!("{:.3} – {:.3}", change.interval.low, change.interval.high)),
        verdict,
    ]
}

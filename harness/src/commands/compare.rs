//! `rounds compare A B`: what changed between two runs, with significance.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color, Table};
use rayon::prelude::*;

use crate::calibration::{CHANGES, NOISES, Noise, Rates, calibrate};
use crate::commands::UsageError;
use crate::compare::{Change, Comparison, Rules, Verdict, compare};
use crate::results::read_run;
use crate::statistics::SampleWarning;

/// Compares the times of run B with those of run A: ratio B/A, its interval, and which changes are significant.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// The first run: a folder that `rounds run` wrote.
    #[arg(value_name = "A", required_unless_present = "calibrate")]
    pub before: Option<PathBuf>,
    /// The second run.
    #[arg(value_name = "B", required_unless_present = "calibrate")]
    pub after: Option<PathBuf>,
    /// Compare simulated runs instead, whose changes are known: how often verdicts are right.
    #[arg(long, conflicts_with_all = ["before", "after"])]
    pub calibrate: bool,
    /// Comparisons of each kind and machine that --calibrate simulates.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub comparisons: u32,
    /// Compare runs of different machines, instruction sets, builds or data.
    #[arg(long)]
    pub force: bool,
    /// Least relative change that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub threshold: f64,
    /// What the machine may do to all times of a run by itself, as a standard deviation in percent: smaller changes that all
    /// configurations share are not told from it. Default: 1, or 2 if a run was in a virtual machine, whose neighbours come
    /// and go.
    #[arg(long, value_name = "PERCENT")]
    pub machine_noise: Option<f64>,
    /// Show unchanged configurations too.
    #[arg(long)]
    pub all: bool,
}

/// Reads both runs and prints what changed.
///
/// # Errors
/// Folders without runs, damaged files, runs that cannot be compared, a threshold that is no percentage.
pub fn run(arguments: &CompareArguments, json: bool) -> Result<()> {
    for (name, percentage) in [
        ("--threshold", arguments.threshold),
        ("--machine-noise", arguments.machine_noise.unwrap_or(0.0)),
    ] {
        if !(0.0..1000.0).contains(&percentage) {
            return Err(UsageError::new(format!("{name} {percentage}: expected a percentage from 0 up")).into());
        }
    }
    let rules = Rules {
        threshold: arguments.threshold / 100.0,
        machine_noise: arguments
            .machine_noise
            .map_or(Rules::default().machine_noise, |percent| percent / 100.0),
        force: arguments.force,
        ..Rules::default()
    };
    let (Some(before), Some(after)) = (&arguments.before, &arguments.after) else {
        return calibrated(rules, arguments.comparisons as usize, json);
    };
    let (before, after) = (read_run(before)?, read_run(after)?);
    let rules = if arguments.machine_noise.is_none() {
        rules.with_noise_of([&before, &after])
    } else {
        rules
    };
    let comparison = compare(&before, &after, rules)?;
    if json {
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_for_people(&comparison, arguments.all);
    }
    Ok(())
}

/// Repeats that are calibrated for.
const REPEATS: [usize; 3] = [3, 5, 10];

/// Rates of right and wrong verdicts on every simulated machine.
fn calibrated(rules: Rules, comparisons: usize, json: bool) -> Result<()> {
    let rules = Rules {
        resamples: 10_000,
        ..rules
    };
    let worlds: Vec<(Noise, usize)> = NOISES
        .into_iter()
        .flat_map(|noise| REPEATS.map(|repeats| (noise, repeats)))
        .collect();
    let rates: Vec<Rates> = worlds
        .into_par_iter()
        .map(|(noise, repeats)| calibrate(noise, repeats, comparisons, rules, 20_260_131))
        .collect();
    if json {
        println!("{}", serde_json::to_string(&rates)?);
        return Ok(());
    }
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let header = [
        "machine",
        "repeats",
        "spread of repeats",
        "no change said of equal code",
        "false verdicts",
    ];
    let of_changes = CHANGES.map(|change| format!("{} found", percent(change).replace(".0", "")));
    table.set_header(
        header
            .into_iter()
            .map(String::from)
            .chain(of_changes)
            .chain(["false verdicts beside".to_owned()]),
    );
    for own in &rates {
        let mut row = vec![
            own.noise.to_owned(),
            own.repeats.to_string(),
            percent(own.spread),
            percent(own.quiet),
            format!("{:.2} %", 100.0 * own.false_verdicts),
        ];
        row.extend(own.power.map(percent));
        row.push(format!("{:.2} %", 100.0 * own.false_beside));
        table.add_row(row);
    }
    for column in 1..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    println!("{comparisons} comparisons of each kind and row, 24 configurations each");
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
    if let Some(common) = &comparison.common {
        let word = match common.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Unchanged => "no change: the machine may do as much by itself",
        };
        println!(
            "all together: ratio {:.3}, {word} (within {:.3} – {:.3})",
            common.ratio, common.tolerance.low, common.tolerance.high
        );
    }
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
        let mut kinds: Vec<&str> = change.warnings.iter().map(SampleWarning::name).collect();
        kinds.sort_unstable();
        kinds.dedup();
        format!("{word} (doubtful samples: {})", kinds.join(", "))
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

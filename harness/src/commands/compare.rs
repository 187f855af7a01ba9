//! `rounds compare A B`: significant changes between two runs, or between two builds that are measured in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::run::{AFTER_THIS_RUN, stop_on_interrupt};
use super::{Output, UsageError, output};
use crate::builds::{Builds, measure_in_turn};
use crate::compare::{Change, Comparison, Rules, Verdict, compare};
use crate::drawing::table::{Entry, Look, Table};
use crate::format::{plural, three_digits, time};
use crate::report::Labels;
use crate::results::read_any;
use crate::statistics::SampleWarning;
use crate::usage::command_again;

/// Compares the times of run B with those of run A: ratio B/A, its interval, and the significant changes.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// Folders A and B of `rounds run`; with --build suites.
    #[arg(value_name = "A B", required_unless_present = "build")]
    pub operands: Vec<PathBuf>,
    /// A program `rounds`, given twice: measures builds A and B in turn on this machine.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "force")]
    pub build: Vec<PathBuf>,
    /// Pairs of processes with --build.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "build", value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Folder of the pairs; those that it holds are not measured again [default: results/DAY/builds-TIME].
    #[arg(long, value_name = "DIR", requires = "build")]
    pub out: Option<PathBuf>,
    /// Arguments of `rounds run` with --build: --algorithms, --batch-sizes, --threads, …
    #[arg(last = true, value_name = "ARGUMENTS", requires = "build")]
    pub cells: Vec<String>,
    /// Compare runs of different machines, instruction sets, builds or data.
    #[arg(long)]
    pub force: bool,
    /// Least change that counts: a percentage (5%) or a ratio (1.05). Exit code 1 if a significant slowdown exceeds it.
    #[arg(long, value_name = "CHANGE", default_value = "1%", value_parser = change)]
    pub threshold: f64,
    /// Standard deviation of the machine's effect on all times of a run, as a percentage or a ratio. Smaller common changes are
    /// not significant [default: 1%, or 2% if a run is from a virtual machine].
    #[arg(long, value_name = "CHANGE", value_parser = change)]
    pub machine_noise: Option<f64>,
    /// Show unchanged configurations too.
    #[arg(long)]
    pub all: bool,
}

/// Reads `5%` or `1.05` as 0.05.
fn change(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text).map(|ratio| ratio - 1.0),
    };
    share.filter(|share| (0.0..10.0).contains(share)).ok_or_else(|| {
        format!("'{text}' is neither a percentage from 0% up, such as 5%, nor a ratio from 1 up, such as 1.05")
    })
}

/// Reads both runs and prints the changes.
///
/// # Errors
/// Folders without runs, damaged files, runs that cannot be compared; a significant slowdown.
pub fn run(arguments: &CompareArguments, output: Output) -> Result<()> {
    let default = Rules::default();
    let rules = Rules {
        threshold: arguments.threshold,
        machine_noise: arguments.machine_noise.unwrap_or(default.machine_noise),
        force: arguments.force,
        ..default
    };
    let (comparison, folder) = if arguments.build.is_empty() {
        (of_folders(arguments, rules)?, None)
    } else {
        let (comparison, folder) = of_builds(arguments, rules, output)?;
        (comparison, Some(folder))
    };
    if output == Output::Text {
        comparison.remarks.iter().for_each(output::warn);
    }
    let shown = Shown { comparison, threshold: rules.threshold, all: arguments.all || folder.is_some(), folder };
    output.print(&shown, shown.text())?;
    shown.judge()
}

fn of_folders(arguments: &CompareArguments, rules: Rules) -> Result<Comparison> {
    let [before, after] = &arguments.operands[..] else {
        return Err(UsageError::of("expected two folders of rounds run, or --build twice"));
    };
    let (before, after) = (read_any(before)?, read_any(after)?);
    let rules = if arguments.machine_noise.is_none() { rules.with_noise_of([&before, &after]) } else { rules };
    Ok(compare(&before, &after, rules)?)
}

fn of_builds(arguments: &CompareArguments, rules: Rules, output: Output) -> Result<(Comparison, PathBuf)> {
    let [before, after] = &arguments.build[..] else {
        return Err(UsageError::of("--build: give it twice, for builds A and B"));
    };
    let own = ["--out", "--resume", "--list", "--json"];
    let is_own = |argument: &&String| own.contains(&argument.split('=').next().unwrap_or_default());
    if let Some(argument) = arguments.cells.iter().find(is_own) {
        return Err(UsageError::of(format!("{argument}: the runs of a pair are set up by compare")));
    }
    let suites = arguments.operands.iter().map(|suite| suite.display().to_string());
    let programs = [before.clone(), after.clone()];
    let builds = Builds::new(programs.clone(), suites.chain(arguments.cells.clone()).collect());
    let folder = arguments.out.clone().unwrap_or_else(|| {
        let now = jiff::Timestamp::now();
        Path::new("results").join(now.strftime("%Y-%m-%d/builds-%H%M%S").to_string())
    });
    builds.bind(&folder)?;
    let (stopped, pairs) = (stop_on_interrupt(AFTER_THIS_RUN)?, arguments.pairs as usize);
    let progress = output.progress(2 * pairs as u64, "{bar:20.green} {pos}/{len} processes, {left}");
    let (whole, [before, after]) = measure_in_turn(&folder, pairs, &|side, out| {
        progress.tick();
        let warn = |warning: &str| progress.suspend(|| output::warn(warning));
        let measured = builds.measure(side, out, &stopped, &warn);
        progress.inc(1);
        measured
    })?;
    progress.finish_and_clear();
    // The state of the machine between processes is in the scatter of the pairs.
    let machine_noise = arguments.machine_noise.map_or(0.0, |_| rules.machine_noise);
    let rules = Rules { machine_noise, force: true, ..rules };
    let same_revision = before.environment.build.revision == after.environment.build.revision;
    let mut comparison = compare(&before, &after, rules)?;
    if whole < pairs {
        comparison.remarks.push(format!(
            "stopped after {whole} of {pairs} pairs; to measure the others:\n  {}",
            command_again(&[("--out", Some(&folder))])
        ));
    }
    if same_revision {
        let [a, b] = &programs;
        comparison.builds = [format!("A: {}", a.display()), format!("B: {}", b.display())];
    }
    Ok((comparison, folder))
}

/// A comparison with or without its unchanged configurations.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    comparison: Comparison,
    #[serde(skip)]
    threshold: f64,
    #[serde(skip)]
    all: bool,
    /// The folder of the pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
}

impl Shown {
    /// Fails where a configuration, or all of them together, became slower: the exit code that continuous integration reads.
    fn judge(&self) -> Result<()> {
        let changes = self.comparison.changes.iter();
        let slower = changes.filter(|change| change.verdict == Verdict::Slower).count();
        let common = self.comparison.common.is_some_and(|common| common.verdict == Verdict::Slower);
        let together = if common { ", and all together" } else { "" };
        anyhow::ensure!(
            slower == 0 && !common,
            "{slower} of {} configurations are slower by more than {} %{together}",
            self.comparison.changes.len(),
            three_digits(100.0 * self.threshold)
        );
        Ok(())
    }

    fn text(&self) -> String {
        let comparison = &self.comparison;
        let [before, after] = &comparison.builds;
        // A program's path stands in the heading alone.
        let name = |build: &'_ str| build.split(':').next().unwrap_or_default().to_owned();
        let [before, after] = match (name(before), name(after)) {
            (before, after) if before == after => ["before", "after"].map(str::to_owned),
            (before, after) => [before, after],
        };
        let columns = format!("algorithm|#batch|#threads|#{before}|#{after}|#ratio|#95 % interval|#verdict");
        let changes = &comparison.changes;
        let labels = Labels::of(changes.iter().map(|change| &change.configuration));
        let mut lines = vec![format!("builds {} and {}", comparison.builds[0], comparison.builds[1])];
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        let shown = |change: &&Change| self.all || change.verdict != Verdict::Unchanged;
        for change in changes.iter().filter(shown) {
            let table = tables.entry(data(change));
            let table = table.or_insert_with(|| Table::new("Changes", &columns));
            table.row(row(change, &labels));
        }
        for (data, table) in tables {
            let (table, shared) = table.without_empty_columns().without_shared_columns(&["batch", "threads"]);
            let shared = shared.iter().map(|one| format!("; {one}")).collect::<String>();
            lines.push(format!("{data}{shared}\n{}", table.terminal()));
        }
        let count = |verdict| changes.iter().filter(|change| change.verdict == verdict).count();
        let counts = format!(
            "{}: {} faster, {} slower, {} without significant change; geometric mean of the ratios {:.3}",
            plural(changes.len(), "configuration"),
            count(Verdict::Faster),
            count(Verdict::Slower),
            count(Verdict::Unchanged),
            comparison.mean_ratio
        );
        lines.push(output::wrapped(&counts, 0));
        if let Some(common) = &comparison.common {
            let word = match common.verdict {
                Verdict::Faster => "faster",
                Verdict::Slower => "slower",
                Verdict::Unchanged => "no significant change",
            };
            let (ratio, low, high) = (common.ratio, common.tolerance.low, common.tolerance.high);
            let line = format!("all together: ratio {ratio:.3}, {word} (the machine may cause {low:.3}–{high:.3})");
            lines.push(output::wrapped(&line, 0));
        }
        let unseen =
            |change: &&Change| change.verdict == Verdict::Unchanged && change.visible_from > 1.0 + self.threshold;
        let unseen = changes.iter().filter(unseen).count();
        if unseen > 0 {
            let (threshold, all) = (three_digits(100.0 * self.threshold), changes.len());
            let line = format!(
                "a slowdown of {threshold} % could not have been seen in {unseen} of {}; more {} would show smaller ones",
                plural(all, "configuration"),
                if self.folder.is_some() { "--pairs" } else { "--repeats" }
            );
            lines.push(output::wrapped(&line, 0));
        }
        // A run of a study is one sample.
        let kinds = changes.iter().flat_map(|change| &change.warnings);
        let kinds = kinds.filter(|warning| !matches!(warning, SampleWarning::TooFew { .. }));
        let kinds: BTreeSet<&str> = kinds.map(SampleWarning::name).collect();
        if !kinds.is_empty() {
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            let line = format!(
                "suspicious samples ({kinds}): --json names their configurations, and rounds report says what to do"
            );
            lines.push(output::wrapped(&line, 0));
        }
        for (name, keys) in [("first", &comparison.only_before), ("second", &comparison.only_after)] {
            if let [example, ..] = &keys[..] {
                let number = keys.len();
                lines.push(format!("{number} configurations are in the {name} run only, for example {example}"));
            }
        }
        for (name, failed) in [("first", &comparison.failed_before), ("second", &comparison.failed_after)] {
            if let [example, ..] = &failed[..] {
                let failures = plural(failed.len(), "configuration");
                let line =
                    format!("{failures} failed in the {name} run, in all repeats or some, for example {example}");
                lines.push(output::wrapped(&line, 0));
            }
        }
        lines.extend(self.folder.as_ref().map(|folder| format!("results: {}", folder.display())));
        lines.join("\n")
    }
}

/// The data set of a change, the heading of its table.
fn data(change: &Change) -> String {
    let configuration = &change.configuration;
    match configuration.problem.as_str() {
        "" => format!("{} ({})", configuration.dataset, configuration.features),
        problem => problem.to_owned(),
    }
}

fn row(change: &Change, labels: &Labels) -> Vec<Entry> {
    let (word, look) = match change.verdict {
        Verdict::Faster => ("faster", Look::Better),
        Verdict::Slower => ("slower", Look::Worse),
        Verdict::Unchanged => ("", Look::Plain),
    };
    let configuration = &change.configuration;
    vec![
        Entry::text(labels.name(configuration)),
        Entry::count(configuration.batch_size),
        Entry::count(configuration.threads),
        Entry::number(change.before_ns, time),
        Entry::number(change.after_ns, time),
        Entry::number(change.ratio, |ratio| format!("{ratio:.3}")),
        Entry::text(format!("{:.3}–{:.3}", change.interval.low, change.interval.high)),
        Entry::text(word).look(look),
    ]
}

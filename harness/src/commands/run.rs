//! `rounds run`: finds definitions, selects their cells, runs what is missing and presents the results.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

use super::{Output, UsageError};
use crate::cluster::{Cluster, EngineKind};
use crate::experiment::store::{Mode, results_directory};
use crate::experiment::{Cell, Measure, Plan, Selection, Session, Source, definition};
use crate::format::plural;
use crate::machine::{Environment, PinPolicy, Pinning, Topology};
use crate::studies;

/// The suite that `rounds run` measures by default.
const DEFAULT: &str = "quick";
/// The study after it.
const DEFAULT_STUDY: &str = "quick-training";

/// Arguments of `rounds run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// Suites and studies: names of `rounds list suites`, or TOML files [default: quick quick-training]
    #[arg(value_name = "SUITE")]
    pub(super) suites: Vec<String>,
    /// Folder of the results [default: results/DAY/MACHINE]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Folder of the files of named data sets
    #[arg(long, env = "ROUNDS_DATA")]
    pub(super) data_dir: Option<PathBuf>,
    /// Affinity of threads to cores [default: none, core for scaling]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(super) pin: Option<PinPolicy>,
    /// Execution engine
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    pub(super) engine: EngineKind,
    /// Measure what is missing in the newest folder, or in --out
    #[arg(long)]
    pub(super) resume: bool,
    /// List the cells and measure nothing
    #[arg(long)]
    pub(super) list: bool,
}

/// Runs experiments.
///
/// # Errors
/// Unknown suites, algorithms or data sets; results that cannot be written or resumed. Finished cells are kept.
pub fn run(arguments: &RunArguments, output: Output) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.engine)?;
    let result = run_on(arguments, output, &cluster);
    cluster.finish(result)
}

/// Experiments of one measure in one folder.
struct Group {
    measure: &'static Measure,
    /// Their folder in the folder of results.
    below: String,
    sources: Vec<Source>,
}

/// [`run`] on every rank.
fn run_on(arguments: &RunArguments, output: Output, cluster: &Cluster) -> anyhow::Result<()> {
    let mut names = arguments.suites.clone();
    if names.is_empty() {
        names.push(DEFAULT.to_owned());
        // Rows of cells, or some cells alone, leave the study out.
        let all = output == Output::Text
            && arguments.selection.algorithms.is_empty()
            && arguments.selection.batch_sizes.is_empty();
        names.extend((all && cluster.count().is_none()).then(|| DEFAULT_STUDY.to_owned()));
    }
    let mut plans = Vec::new();
    for group in cluster.all_ok(groups(&names, cluster).map_err(|error| usage(&error)))? {
        let selection = selection(arguments, cluster, group.measure);
        let plan = Plan::new(group.measure, &group.sources, &selection);
        let plan = cluster.all_ok(plan.map_err(|error| usage(&error)))?;
        plans.push((group, selection, plan));
    }
    if arguments.list {
        return list(&plans, output, cluster);
    }
    if output == Output::Text && cluster.is_root() && std::io::stderr().is_terminal() {
        let cells = plans.iter().flat_map(|(.., plan)| plan.cells());
        let runs: usize = cells.map(|cell| cell.repeats * cell.draws).sum();
        eprintln!("Measuring {}: {}, fewer if some are there already", names.join(" and "), plural(runs, "run"));
    }
    let mode = if arguments.resume { Mode::Resume } else { Mode::New };
    let root = arguments.out.clone();
    let root = root.unwrap_or_else(|| results_directory(Path::new("results"), &Environment::capture(&[]), mode));
    let stopped = stop_on_interrupt(AFTER_THIS_RUN)?;
    let at_root = plans.iter().any(|(group, ..)| group.measure.is_suite);
    let (mut is_measured, mut missing, mut rejected) = (false, BTreeSet::new(), 0);
    for (group, selection, plan) in plans {
        let session = Session {
            cluster,
            selection,
            data_dir: arguments.data_dir.clone(),
            mode,
            output,
            root: &root,
            stopped: Arc::clone(&stopped),
        };
        let keys: Vec<String> = plan.cells().iter().map(|cell| cell.configuration.key()).collect();
        cluster.check_same("list of cells", &keys.join("\n"))?;
        let pinning = match arguments.pin {
            Some(policy) => cluster.all_ok(cluster.pinning(policy))?,
            None => Pinning::new(group.measure.pin).unwrap_or_else(|_| Pinning::none()),
        };
        let (reasons, of_plan) = plan.run(&session, pinning, &root.join(group.below))?;
        is_measured |= reasons.is_empty();
        missing.extend(reasons);
        rejected += of_plan;
    }
    let missing: Vec<String> = missing.into_iter().collect();
    anyhow::ensure!(is_measured, "no run could be measured: {}", missing.join("; "));
    if output == Output::Text && cluster.is_root() {
        println!("Results: {}", root.display());
        if at_root {
            println!("As a page: rounds report {}", root.display());
        }
    }
    let failed = plural(rejected, "run");
    anyhow::ensure!(rejected == 0, "{failed} failed, as said above; all others are in {}", root.display());
    Ok(())
}

fn usage(error: &anyhow::Error) -> anyhow::Error {
    UsageError::of(format!("{error:#}"))
}

/// The definitions of `names` by folder.
fn groups(names: &[String], cluster: &Cluster) -> anyhow::Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for name in names {
        let source = definition::find(name)?;
        let measure = studies::measure(&source.definition)?;
        anyhow::ensure!(
            cluster.count().is_none() || measure.is_suite,
            "--engine mpi: '{name}' is a study, which runs in one process; suites run on ranks"
        );
        let below = if measure.is_suite { "" } else { &source.definition.name }.to_owned();
        match groups.iter_mut().find(|group| group.below == below) {
            Some(group) => group.sources.push(source),
            None => groups.push(Group { measure, below, sources: vec![source] }),
        }
    }
    Ok(groups)
}

fn selection(arguments: &RunArguments, cluster: &Cluster, measure: &Measure) -> Selection {
    Selection {
        default_threads: match cluster.count() {
            Some(_) => vec![1],
            None => (measure.threads)(Topology::detect().cores.max(1)),
        },
        files: arguments.data_dir.is_some(),
        ranks: cluster.count(),
        ..arguments.selection.clone()
    }
}

/// The dry run.
fn list(plans: &[(Group, Selection, Plan)], output: Output, cluster: &Cluster) -> anyhow::Result<()> {
    let cells: Vec<&Cell> = plans.iter().flat_map(|(_, _, plan)| plan.cells()).collect();
    for cell in cells.iter().filter(|_| cluster.is_root()) {
        output.json_line(&cell.configuration)?;
        if output == Output::Text {
            println!("{} × {}", cell.configuration.key(), cell.repeats * cell.draws);
        }
    }
    if output == Output::Text && cluster.is_root() {
        println!("{}", plural(cells.len(), "cell"));
    }
    Ok(())
}

/// Message of the first Ctrl-C of measurements.
pub(super) const AFTER_THIS_RUN: &str =
    "stopping after the current run; press Ctrl-C again to stop at once (the run is then lost)";

/// A flag that the first Ctrl-C raises, with a `message`: the command stops where it next can. A second one ends the process.
pub(super) fn stop_on_interrupt(message: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    ctrlc::set_handler(move || {
        if flag.load(Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\n{message}");
        flag.store(true, Ordering::Relaxed);
    })
    .context("Ctrl-C cannot be handled")?;
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::table::EXCERPT_ROWS;
    use crate::experiment::Definition;
    use crate::report::SUMMARY_LINES;

    #[test]
    fn what_the_default_run_prints_fits_sixty_lines() {
        let source = definition::find(DEFAULT_STUDY).unwrap();
        let study = Definition::parse(DEFAULT_STUDY, &source.text).unwrap();
        let cells = study.cells(&Selection::default()).unwrap();
        // Of each problem its heading, the table and a gap; the line about what is left out; two last lines.
        let tables = (0..study.problems.len()).map(|problem| {
            let rows = cells.iter().filter(|cell| cell.problem == problem).count();
            2 + rows.min(EXCERPT_ROWS) + 1
        });
        assert!(SUMMARY_LINES + tables.sum::<usize>() + 3 <= 60);
    }
}

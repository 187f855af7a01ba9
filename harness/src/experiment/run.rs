//! The driver: which runs are missing, making them, keeping each at once, and presenting them all.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use anyhow::{Context as _, ensure};
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde_json::Value;

use super::cell::{Cell, Configuration, Record, Sample, Trial};
use super::definition::{Definition, Selection, Source};
use super::store::{self, Binding, Mode, Store, Stored};
use super::{Context, Execution, Measure, Outcome, Presentation, Results, Run, Study};
use crate::cluster::Cluster;
use crate::drawing;
use crate::format::plural;
use crate::machine::{Environment, Pinning, Watch, disturbances, measured_disturbances};
use crate::output::{self, Output};
use crate::statistics::Choices;
use crate::usage::command_again;
use rounds_algorithms::optimizers::RoundError;
use rounds_kernels::linear::NonFiniteGradient;
use rounds_models::files;
use rounds_models::fit::FitError;

/// A call of `rounds run`: what holds for all of its experiments.
pub struct Session<'a> {
    /// Ranks, or this process alone.
    pub cluster: &'a Cluster,
    /// Selected part of the experiments.
    pub selection: Selection,
    /// Folder of data files.
    pub data_dir: Option<PathBuf>,
    /// Continue, or begin anew.
    pub mode: Mode,
    /// Form of stdout.
    pub output: Output,
    /// The folder of the whole command, which `--resume` continues.
    pub root: &'a Path,
    /// Raised by Ctrl-C.
    pub stopped: Arc<AtomicBool>,
}

/// Studies of one measure in one folder, ready to run.
pub struct Plan {
    measure: &'static Measure,
    studies: Vec<(Study, Vec<Cell>)>,
    /// Cells that need data files, which are not there.
    without_files: Vec<Configuration>,
    /// Names or files of the definitions.
    sources: Vec<String>,
}

struct Task<'a> {
    study: &'a Study,
    cell: &'a Cell,
    trial: Trial,
}

impl Task<'_> {
    fn outcome(&self, earlier: &Results, context: &Context<'_>) -> anyhow::Result<Outcome> {
        let Self { study, cell, trial } = *self;
        let outcome = (study.measure.run)(&Run { study, cell, trial, earlier }, context);
        outcome.or_else(|error| {
            if has_diverged(&error) { Ok(Outcome::Rejected(error.root_cause().to_string())) } else { Err(error) }
        })
    }
}

/// True for the error of a run that diverged, in a round or at its evaluation, and of a selection without a model: outcomes of their cells.
fn has_diverged(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(FitError::Round(error)) => error.is_divergence(),
        Some(of_fit) => matches!(of_fit, FitError::Statistic(_) | FitError::NoWinner),
        None => error.is::<NonFiniteGradient>() || error.downcast_ref().is_some_and(RoundError::is_divergence),
    }
}

impl Plan {
    /// The experiments that `sources` define.
    ///
    /// # Errors
    /// Definitions that are not valid, and a selection that leaves nothing of one.
    pub fn new(measure: &'static Measure, sources: &[Source], selection: &Selection) -> anyhow::Result<Self> {
        let names = sources.iter().map(|source| source.name.clone()).collect();
        let mut plan = Self { measure, studies: Vec::new(), without_files: Vec::new(), sources: names };
        for source in sources {
            let study = Study::parse(measure, source)?;
            let cells = match measure.execution {
                // How many threads a run has changes nothing.
                Execution::Concurrent => study.cells(&Selection { threads: vec![1], ..selection.clone() }),
                Execution::Interleaved | Execution::InOrder => study.cells(selection),
            };
            let cells = cells.map_err(|error| source.placed(error))?;
            plan.without_files.extend(study.definition.without_files(selection));
            plan.studies.push((study, cells));
        }
        Ok(plan)
    }

    /// All runs, in the order in which they are made.
    fn tasks(&self) -> Vec<Task<'_>> {
        let mut tasks = Vec::new();
        for (study, cells) in &self.studies {
            let trials = |cell: &Cell| {
                let draws = cell.draws;
                (0..cell.repeats).flat_map(move |repeat| (0..draws).map(move |draw| Trial { repeat, draw }))
            };
            if self.measure.execution != Execution::Interleaved {
                let of_cell = |cell| trials(cell).map(move |trial| Task { study, cell, trial });
                tasks.extend(cells.iter().flat_map(of_cell));
                continue;
            }
            let passes: BTreeSet<Trial> = cells.iter().flat_map(trials).collect();
            for trial in passes {
                let mut choices = Choices::new(study.definition.seed.wrapping_add(trial.repeat as u64));
                let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
                let measured = |cell: &&Cell| trial.repeat < cell.repeats && trial.draw < cell.draws;
                for cell in cells.iter().filter(measured) {
                    let name = (self.measure.group)(&cell.configuration);
                    match groups.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, group)) => group.push(cell),
                        None => groups.push((name, vec![cell])),
                    }
                }
                choices.shuffle(&mut groups);
                for (_, mut group) in groups {
                    choices.shuffle(&mut group);
                    tasks.extend(group.into_iter().map(|cell| Task { study, cell, trial }));
                }
            }
        }
        tasks
    }

    /// Every cell, with its number of runs.
    pub fn cells(&self) -> Vec<&Cell> {
        self.studies.iter().flat_map(|(_, cells)| cells).collect()
    }

    /// Makes what is missing in `folder`, keeps it and presents everything. Where no run at all could be measured, the reasons; and the
    /// number of runs that were rejected.
    ///
    /// # Errors
    /// Data, runs or files that fail; an interruption. Finished runs are kept.
    pub fn run(
        &self,
        session: &Session<'_>,
        pinning: Pinning,
        folder: &Path,
    ) -> anyhow::Result<(BTreeSet<String>, usize)> {
        let cluster = session.cluster;
        let first = cluster.is_root();
        let tasks = self.tasks();
        let threads: BTreeSet<usize> = if self.measure.execution == Execution::Concurrent {
            session.selection.threads_or(&[]).iter().copied().collect()
        } else {
            let of_cells = self.cells().into_iter().map(|cell| cell.configuration.threads);
            of_cells.collect()
        };
        let threads: Vec<usize> = threads.into_iter().collect();
        let most = threads.last().copied().unwrap_or(1);
        let environment =
            Environment { definitions: self.sources.clone(), ..Environment::capture_pinned(&[], &pinning, most) };
        // Only what rank 0 writes is kept.
        let scratch = if first { None } else { Some(tempfile::tempdir()?) };
        let folder = scratch.as_ref().map_or(folder, |scratch| scratch.path());
        let definitions = self.studies.iter().map(|(study, _)| &study.definition);
        let binding =
            Binding::new(&environment, definitions.map(|definition| (definition.name.clone(), definition.digest())));
        let opened = Store::open(folder, environment.clone(), binding, session.mode);
        let mut store: Store = cluster.all_ok(opened.map_err(Into::into))?;
        for message in store.messages() {
            output::warn(message);
        }
        // Rank 0 knows what is finished.
        let finished = |task: &Task<'_>| store.results().is_finished(&task.cell.configuration, task.trial);
        let finished = cluster.broadcast(tasks.iter().map(|task| u8::from(finished(task))).collect());
        let tasks = tasks.into_iter().zip(finished);
        let missing: Vec<Task<'_>> = tasks.filter_map(|(task, finished)| (finished == 0).then_some(task)).collect();
        let progress = session.output.progress(missing.len() as u64, PROGRESS);
        // Peaks are those of a machine at rest: ranks that wait for each other are none.
        let timed = self.measure.execution == Execution::Interleaved && cluster.count().is_none();
        if timed && !missing.is_empty() {
            progress.set_message("peaks of the machine");
            store.measure_rooflines(&threads, &pinning)?;
        }
        let data_dir = session.data_dir.clone();
        let mut context = Context::new(cluster, pinning, store.environment().clone(), data_dir, most);
        context.threads_of_run = (most / missing.len().max(1)).max(1);
        let watch = if timed { Watch::start() } else { None };
        let (left_out, rejected) = (BTreeMap::new(), 0);
        let mut bench = Bench { session, context: &context, store: &mut store, progress, left_out, rejected };
        for configuration in &self.without_files {
            bench.leave_out(configuration.clone(), &configuration.dataset, NO_FILES.to_owned())?;
        }
        let done = match self.measure.execution {
            Execution::Concurrent => bench.spread(&missing)?,
            Execution::Interleaved | Execution::InOrder => bench.one_by_one(&missing)?,
        };
        bench.progress.finish_and_clear();
        let Bench { left_out, rejected, .. } = bench;
        if !first {
            return Ok((BTreeSet::new(), 0));
        }
        for (reason, count) in left_out {
            output::warn(format_args!("{count} not measured: {reason}"));
        }
        if timed {
            context.disturbances = found(&context, watch);
        }
        store.write_table()?;
        let nothing = store.results().samples.is_empty();
        if !nothing {
            let (study, _) = self.studies.last().context("a plan has a study")?;
            let presentation = (self.measure.present)(study, store.results(), &context)?;
            publish(presentation, folder, &context.environment, session.output)?;
        }
        ensure!(
            done == missing.len(),
            "stopped {}. To go on:\n  {}",
            match done {
                0 => format!("before the first of {}", plural(missing.len(), "run")),
                _ => format!("after {done} of {} runs, kept in {}", missing.len(), folder.display()),
            },
            command_again(&[("--resume", None), ("--out", Some(session.root))])
        );
        let results = store.results();
        let reasons = results.skipped.iter().map(|(_, reason)| reason).chain(results.rejected.values());
        Ok((reasons.filter(|_| nothing).cloned().collect(), rejected))
    }

    /// The lines of the finished runs that `folder` holds, and [the runs that failed](store::Results::failures).
    ///
    /// # Errors
    /// Files that cannot be read.
    pub(crate) fn lines(&self, folder: &Path) -> anyhow::Result<(Vec<Value>, Option<String>)> {
        let (study, _) = self.studies.last().context("a plan has a study")?;
        let results = store::read(folder)?.results;
        Ok((study.lines(&results)?, results.failures()))
    }

    /// The page of the finished runs that `folder` holds, made anew, and messages about them. `None` for a suite, of which
    /// [`crate::report::report_html`] makes one.
    ///
    /// # Errors
    /// Files that cannot be read; no finished run.
    pub fn present(&self, folder: &Path) -> anyhow::Result<Option<(drawing::Presentation, Vec<String>)>> {
        if self.measure.is_suite {
            return Ok(None);
        }
        let Stored { environment, binding, results, mut messages, .. } = store::read(folder)?;
        let most = results.samples.iter().map(|sample| sample.configuration.threads).max();
        let most = most.with_context(|| match results.rejected.values().next() {
            Some(reason) => format!("no run ended well: {reason}"),
            None => "no run is finished yet; continue it with `rounds run --resume`".to_owned(),
        })?;
        let cluster = Cluster::alone();
        let mut context = Context::new(&cluster, Pinning::none(), environment, None, most);
        if self.measure.execution == Execution::Interleaved {
            context.disturbances = found(&context, None);
        }
        let (study, _) = self.studies.last().context("a plan has a study")?;
        let Definition { name, .. } = &study.definition;
        if binding.suites.get(name) != Some(&study.definition.digest()) {
            messages.push(format!(
                "{name}: its definition has changed since; cells that only one of both has are left out"
            ));
        }
        let Some(mut page) = (self.measure.present)(study, &results, &context)?.page else {
            return Ok(None);
        };
        page.command.clone_from(&context.environment.command);
        Ok(Some((page, messages)))
    }
}

const NO_FILES: &str = "it needs data files: give --data-dir or set ROUNDS_DATA";

const PROGRESS: &str = "{bar:20.green} {pos}/{len} runs, {left} {wide_msg}";

/// Disturbances of the machine, known and measured.
fn found(context: &Context<'_>, watch: Option<Watch>) -> Vec<String> {
    let environment = &context.environment;
    let profile = &environment.build.profile;
    let mut found = disturbances(&environment.machine, &environment.state, profile, context.threads);
    found.extend(measured_disturbances(environment, watch.and_then(|watch| watch.end())));
    found.iter().map(ToString::to_string).collect()
}

/// Writes the files of a presentation and prints the rest.
fn publish(
    mut presentation: Presentation,
    folder: &Path,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    if let Some(mut page) = presentation.page {
        page.command.clone_from(&environment.command);
        presentation.files.extend(page.files("study", environment));
        presentation.text += &page.terminal();
    }
    write_files(folder, &presentation.files)?;
    if output == Output::Text {
        println!("{}", presentation.text);
    }
    Ok(())
}

/// Writes files, given by name, into a folder.
///
/// # Errors
/// The first that cannot be written.
pub(crate) fn write_files(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for (name, contents) in files {
        let path = folder.join(name);
        files::replace(&path, contents.as_bytes()).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// The runs of one experiment.
struct Bench<'a> {
    session: &'a Session<'a>,
    context: &'a Context<'a>,
    store: &'a mut Store,
    progress: ProgressBar,
    /// Reasons for which cells were not measured, and how many.
    left_out: BTreeMap<String, usize>,
    /// Number of runs that were rejected.
    rejected: usize,
}

impl Bench<'_> {
    /// Makes runs one after another and returns how many.
    fn one_by_one(&mut self, missing: &[Task<'_>]) -> anyhow::Result<usize> {
        let mut skipped: HashSet<String> = HashSet::new();
        for (done, task) in missing.iter().enumerate() {
            let stopped = self.session.stopped.load(Ordering::Relaxed);
            if self.session.cluster.broadcast(vec![u8::from(stopped)]) != [0] {
                return Ok(done);
            }
            let key = task.cell.configuration.key();
            if !skipped.contains(&key) {
                self.progress.set_message(key.clone());
                let outcome = task.outcome(self.store.results(), self.context)?;
                if matches!(outcome, Outcome::Skipped(_)) {
                    skipped.insert(key);
                }
                self.keep(task, outcome)?;
            }
            self.progress.inc(1);
        }
        Ok(missing.len())
    }

    /// Spreads runs over the threads and returns how many were made.
    fn spread(&mut self, missing: &[Task<'_>]) -> anyhow::Result<usize> {
        let earlier = self.store.results().clone();
        let (failed, next) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (sender, receiver) = mpsc::channel();
        let mut done = 0;
        std::thread::scope(|scope| {
            let (failed, earlier, context, session) = (&failed, &earlier, self.context, self.session);
            let next = &next;
            // Threads of their own: a thread of a pool that waits within a run could begin another run, which may need what the
            // first one is making.
            for _ in 0..(context.threads / context.threads_of_run).max(1) {
                let sender = sender.clone();
                scope.spawn(move || {
                    while !failed.load(Ordering::Relaxed) && !session.stopped.load(Ordering::Relaxed) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(task) = missing.get(place) else { break };
                        let outcome = task.outcome(earlier, context);
                        // The receiver only leaves early after an error, and then the result is not wanted.
                        let _ = sender.send((place, outcome));
                    }
                });
            }
            drop(sender);
            for (place, outcome) in &receiver {
                let task = &missing[place];
                self.progress.set_message(task.cell.configuration.key());
                if let Err(error) = outcome.and_then(|outcome| self.keep(task, outcome)) {
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                done += 1;
                self.progress.inc(1);
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// Writes the result of a run, and prints it.
    fn keep(&mut self, task: &Task<'_>, outcome: Outcome) -> anyhow::Result<()> {
        for (name, digest) in self.context.digests() {
            self.store.bind_data(&name, &digest)?;
        }
        let configuration = task.cell.configuration.clone();
        let label = configuration.label();
        match outcome {
            Outcome::Measured(outcome) => {
                let sample = Sample { configuration, trial: task.trial, outcome, date: Timestamp::now() };
                if self.session.cluster.is_root() {
                    self.session.output.json_line(&sample)?;
                }
                Ok(self.store.append(Record::Cell(Box::new(sample)))?)
            }
            Outcome::Skipped(reason) => self.leave_out(configuration, &label, reason),
            Outcome::Rejected(reason) => {
                *self.left_out.entry(format!("{}: {reason}", configuration.key())).or_default() += 1;
                self.rejected += 1;
                Ok(self.store.append(Record::Rejected { configuration, trial: task.trial, reason })?)
            }
        }
    }

    /// Writes that a cell cannot be measured.
    fn leave_out(&mut self, configuration: Configuration, label: &str, reason: String) -> anyhow::Result<()> {
        *self.left_out.entry(format!("{label}: {reason}")).or_default() += 1;
        Ok(self.store.append(Record::Skipped { configuration, reason })?)
    }
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::noise::NoiseError;
    use rounds_algorithms::oracle::QueryError;
    use rounds_algorithms::problem::ProblemError;

    use super::*;

    #[test]
    fn only_what_a_run_itself_made_of_its_numbers_is_no_end_of_all_runs() {
        let row = NonFiniteGradient { row: 3 };
        let step = |source| RoundError::Step { round: 2, source };
        let diverged = || step(QueryError::Diverged.into());
        let of_runs: [anyhow::Error; 5] = [
            diverged().into(),
            row.into(),
            FitError::Round(diverged()).into(),
            FitError::Statistic(row).into(),
            FitError::NoWinner.into(),
        ];
        for error in of_runs.into_iter().map(|error| error.context("its cell")) {
            assert!(has_diverged(&error), "{error:?}");
        }
        let spent = || step(NoiseError::Exhausted { rounds: 4 }.into());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let of_all: [anyhow::Error; 7] = [
            full.into(),
            // Of the data, before a round.
            ProblemError::Row(row).into(),
            FitError::Problem(row.into()).into(),
            spent().into(),
            FitError::Round(spent()).into(),
            RoundError::Finished { rounds: 4 }.into(),
            anyhow::anyhow!("{}", diverged()),
        ];
        for error in of_all.into_iter().map(|error| error.context("its cell")) {
            assert!(!has_diverged(&error), "{error:?}");
        }
    }
}

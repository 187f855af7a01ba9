//! Experiments: problem × method × parameters × axis × metric.
//!
//! A definition (TOML, [`definition`]) lists problems and methods; they come to cells ([`cell`]). A [`Measure`] says what one
//! run of a cell yields: values by name. The driver ([`run`]) makes the runs that are missing and keeps each of them
//! at once ([`store`]). Data, calibrations and factorisations are made once ([`Context`]). No algorithm is written here.

pub mod cache;
pub mod cell;
pub mod definition;
pub mod run;
pub(crate) mod settings;
pub mod store;

use std::any::Any;
use std::sync::Arc;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use cache::Memo;
pub use cache::{Context, Loaded};
pub use cell::{Cell, Configuration, Parameters, Record, Sample, Trial, Values, text};
pub use definition::{Definition, DefinitionError, Selection, Source};
pub use run::{Plan, Session};
pub use store::{Results, Store};

use crate::drawing::{self, chart::ends};
use crate::format::{self, plural, rounded};
use crate::grouping::by_key;
use crate::machine::PinPolicy;
use crate::usage::with_causes;

/// The order in which cells run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Cells one after another, all once, then all again, each time in another order; for timings. Groups of cells
    /// ([`Study::group`]) stay together. Peak and bandwidth of the machine are measured before.
    Interleaved,
    /// Cells one after another, in the order of the definition, each with all its repeats.
    InOrder,
    /// Runs spread over the threads, one a thread; several where there are fewer runs and a study uses [`Context::engine_of_run`].
    /// Results must not depend on threads.
    Concurrent,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Kept.
    Measured(Values),
    /// The cell cannot be measured, with the reason. Its other runs are left out.
    Skipped(String),
    /// The run diverged, or its result failed verification or is not finite, with the reason. It is not kept, and but for times no mean is
    /// taken of the other runs of its cell.
    Rejected(String),
}

impl Outcome {
    /// The values of a run, an object; rejected where a number is not finite, which JSON has as `null`. A value that there is not has no name.
    pub(crate) fn of(values: Value) -> Self {
        fn holds_null(value: &Value) -> bool {
            match value {
                Value::Array(values) => values.iter().any(holds_null),
                Value::Object(fields) => fields.values().any(holds_null),
                value => value.is_null(),
            }
        }
        let Value::Object(values) = values else { return Self::Rejected("it has no values".to_owned()) };
        let missing = values.iter().filter(|(name, value)| *name != "privacy" && holds_null(value));
        let names: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            return Self::Measured(values);
        }
        Self::Rejected(format!("the result is not finite: {}", names.join(", ")))
    }
}

/// A run to make.
pub struct Run<'a> {
    /// The experiment.
    pub study: &'a Study,
    /// The cell.
    pub cell: &'a Cell,
    /// Repeat and draw.
    pub trial: Trial,
    /// All finished runs (with [`Execution::Concurrent`], those of earlier calls).
    pub earlier: &'a Results,
}

/// All that a study shows of its runs.
#[derive(Debug, Clone, Default)]
pub struct Presentation {
    /// Text, figures and tables.
    pub page: Option<drawing::Presentation>,
    /// Text for a terminal, beside that of the page.
    pub text: String,
    /// Files by name for the folder of the results, beside those of the page.
    pub files: Vec<(String, String)>,
}

/// A kind of study, by what its records are.
pub struct Kind {
    /// The value of `study` in a definition.
    pub name: &'static str,
    /// The measures of this kind, one of them the default.
    pub measures: &'static [Measure],
}

/// What the runs of a study measure, and how they are made.
pub struct Measure {
    /// The value of `measure` in a definition.
    pub name: &'static str,
    /// True for that of a kind's definitions without `measure`.
    pub is_default: bool,
    /// The order in which cells run.
    pub execution: Execution,
    /// True for suites: ranks can make their runs, and results lie in the folder itself, not in one of the definition's name.
    pub is_suite: bool,
    /// Binding of threads without `--pin`.
    pub pin: PinPolicy,
    /// Thread counts where neither the command line nor the definition names any.
    pub threads: fn(usize) -> Vec<usize>,
    /// The definition whose figures and tables are those of a definition without own ones.
    pub like: &'static str,
    /// The keys of `[options]`.
    pub options: &'static [&'static str],
    /// Checks the definition and makes its cells: by default the product of problems, methods, parameters and threads.
    pub cells: fn(&Study, &Selection) -> anyhow::Result<Vec<Cell>>,
    /// The group of a cell with [`Execution::Interleaved`].
    pub group: fn(&Configuration) -> String,
    /// Makes one run. An error ends the experiment, but for one of a run that diverged, which is [`Outcome::Rejected`]; a cell that cannot
    /// be measured is [`Outcome::Skipped`].
    pub run: fn(&Run<'_>, &Context<'_>) -> anyhow::Result<Outcome>,
    /// The lines that the fields of figures and tables are taken from, of those of all finished runs.
    pub derive: fn(&Study, Vec<Value>) -> anyhow::Result<Vec<Value>>,
    /// Tables and pictures of all finished runs: by default those that the definition declares.
    pub present: fn(&Study, &Results, &Context<'_>) -> anyhow::Result<Presentation>,
}

impl Measure {
    /// A measure of one process, on all cores, with a folder for each definition.
    pub const fn new(
        name: &'static str,
        execution: Execution,
        options: &'static [&'static str],
        run: fn(&Run<'_>, &Context<'_>) -> anyhow::Result<Outcome>,
    ) -> Self {
        Self {
            name,
            is_default: false,
            execution,
            is_suite: false,
            pin: PinPolicy::None,
            threads: |cores| vec![cores],
            like: "",
            options,
            cells: |study, selection| Ok(study.definition.cells(selection)?),
            group: Configuration::key,
            run,
            derive: |_, lines| Ok(lines),
            present: page,
        }
    }
}

/// A definition with what it measures, and values that its runs share.
pub struct Study {
    /// What its runs measure.
    pub measure: &'static Measure,
    /// The definition.
    pub definition: Definition,
    memo: Memo<Arc<dyn Any + Send + Sync>>,
}

impl Study {
    /// The study of a definition.
    ///
    /// # Errors
    /// An option that the measure does not read.
    pub fn parse(measure: &'static Measure, source: &Source) -> anyhow::Result<Self> {
        let mut definition = source.definition.clone();
        if measure.is_default {
            // The same study whether its definition names the default or not, by its digest, too.
            definition.measure.clear();
        }
        definition::known_parameters(&definition.options, &format!("'{}'", measure.name), measure.options)
            .map_err(|error| source.placed(error.into()))?;
        Ok(Self { measure, definition, memo: Memo::default() })
    }

    /// An option; `Option<T>` where it may be missing.
    ///
    /// # Errors
    /// An option that is missing or of another type.
    pub(crate) fn option<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let value = self.definition.options.get(name).cloned().unwrap_or_default();
        let is_missing = value.is_null();
        serde_json::from_value(value).map_err(|error| {
            let why = if is_missing { "it is missing".to_owned() } else { definition::explained(&error.to_string()) };
            self.definition.invalid(format!("[options] {name}: {why}")).into()
        })
    }

    /// The value of `key` that runs share, made by `make` where it is missing. All of a study are of one type.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn shared<T: Clone + Send + Sync + 'static>(
        &self,
        key: &str,
        make: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        // Without its type: what diverges here is no run's own.
        let make = || make().map_err(|error| anyhow::Error::msg(with_causes(&error)));
        let value = self.memo.get(key, || Ok(Arc::new(make()?) as Arc<dyn Any + Send + Sync>))?;
        Ok(value.downcast_ref::<T>().context("values of one type")?.clone())
    }

    /// All cells.
    ///
    /// # Errors
    /// Values that make no sense; a selection that names an unknown algorithm.
    pub fn cells(&self, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
        (self.measure.cells)(self, selection)
    }

    /// The cells that were measured, in the order of the definition, each with its finished runs. A cell with a rejected run is none: the
    /// others are those that did not diverge, and no sample of its law.
    ///
    /// # Errors
    /// Those of [`Study::cells`].
    pub fn measured<'r>(&self, results: &'r Results) -> anyhow::Result<Vec<(Cell, Vec<&'r Sample>)>> {
        let cells = tried(self, results)?.into_iter();
        Ok(cells.filter(|tried| self.is_shown(tried)).map(|tried| (tried.cell, tried.runs)).collect())
    }

    /// True for a cell with finished runs and no rejected one, or with times: a round takes as long whatever other repeats came to.
    fn is_shown(&self, tried: &Tried<'_>) -> bool {
        !tried.runs.is_empty() && (tried.rejected.is_empty() || self.measure.execution == Execution::Interleaved)
    }

    /// The finished runs as lines, with the fields of their cells and those of the measure.
    ///
    /// # Errors
    /// Results that cannot be shown.
    pub(crate) fn lines(&self, results: &Results) -> anyhow::Result<Vec<Value>> {
        let place = |cell: &Cell| (cell.problem, cell.axis, cell.configuration.label_of_method().to_owned());
        let mut all = tried(self, results)?;
        all.retain(|tried| tried.made() > 0);
        let rivals = by_key(all.iter().map(|tried| (place(&tried.cell), &tried.cell.configuration)));
        let mut lines = Vec::new();
        for Tried { cell, runs, .. } in all.iter().filter(|tried| self.is_shown(tried)) {
            let own = rivals.iter().find(|(other, _)| *other == place(cell));
            let chosen = chosen(&cell.configuration, own.map_or(&[], |(_, rivals)| rivals));
            let problem = &self.definition.problems[cell.problem];
            for run in runs {
                let mut line = serde_json::to_value(run)?;
                line["method"] = cell.configuration.label_of_method().into();
                line["problem"] = rounded(problem.name()).into();
                line["draw"] = run.trial.draw.into();
                line["axis"] = cell.axis.into();
                line["axis_name"] = problem.axis.clone().into();
                line["target"] = problem.target.into();
                line["chosen"] = (&*chosen).into();
                lines.push(line);
            }
        }
        (self.measure.derive)(self, lines)
    }
}

/// A cell with the runs that were made of it.
struct Tried<'r> {
    cell: Cell,
    runs: Vec<&'r Sample>,
    /// The reasons of those that were rejected.
    rejected: Vec<&'r str>,
}

impl Tried<'_> {
    fn made(&self) -> usize {
        self.runs.len() + self.rejected.len()
    }

    fn planned(&self) -> usize {
        self.cell.repeats * self.cell.draws
    }

    /// Its identity, and how many of its runs were rejected, if any, and why.
    fn rejection(&self) -> Option<(String, String)> {
        let (reason, count) = (self.rejected.first()?, self.rejected.len());
        Some((self.cell.configuration.key(), format!("{count} of {} failed: {reason}", plural(self.planned(), "run"))))
    }
}

/// All cells in the order of the definition.
fn tried<'r>(study: &Study, results: &'r Results) -> anyhow::Result<Vec<Tried<'r>>> {
    let threads = results.samples.iter().map(|sample| sample.configuration.threads);
    let cells = study.cells(&Selection { threads: threads.collect(), ..Selection::everything() })?;
    let tried = |cell: Cell| {
        let runs = results.of(&cell.configuration).collect();
        let rejected = results.rejections(&cell.configuration).collect();
        Tried { cell, runs, rejected }
    };
    Ok(cells.into_iter().map(tried).collect())
}

/// The runs that nobody made, of `cells` that can be measured: their number, or where the definition says why, a line for each method on
/// each problem.
fn unmade(study: &Study, cells: &[Tried<'_>]) -> Vec<String> {
    let (problems, why) = (&study.definition.problems, &study.definition.show.unfinished);
    if why.is_empty() {
        let made: usize = cells.iter().map(|tried| tried.made().min(tried.planned())).sum();
        let all: usize = cells.iter().map(Tried::planned).sum();
        return if made < all { vec![format!("{made} of {all} runs were made.")] } else { Vec::new() };
    }
    let methods =
        by_key(cells.iter().map(|tried| ((tried.cell.problem, tried.cell.configuration.label_of_method()), tried)));
    let line = |((problem, method), cells): ((usize, &str), Vec<&Tried<'_>>)| {
        let rivals: Vec<&Configuration> = cells.iter().map(|tried| &tried.cell.configuration).collect();
        let one = |tried: &&Tried<'_>| {
            let (made, all) = (tried.made(), tried.planned());
            let own = differing(&tried.cell.configuration, &rivals).into_iter();
            let own = own.map(|(name, value, _)| format!("{name} {}", text(&value))).collect::<Vec<_>>().join(", ");
            let some = format!("({made} of {all} runs made)");
            (made < all).then(|| if made == 0 { own } else { format!("{own} {some}").trim().to_owned() })
        };
        let missing: Vec<String> = cells.iter().filter_map(one).collect();
        let on = if problems.len() > 1 { format!(" on {}", problems[problem].name()) } else { String::new() };
        let which = missing.join("; ");
        let colon = if which.is_empty() { "" } else { ": " };
        (!missing.is_empty()).then(|| format!("Not run: {method}{on}{colon}{which}"))
    };
    let lines: Vec<String> = methods.into_iter().filter_map(line).collect();
    let why = (!lines.is_empty()).then(|| why.clone());
    lines.into_iter().chain(why).collect()
}

/// The page that a definition declares.
fn page(study: &Study, results: &Results, context: &Context<'_>) -> anyhow::Result<Presentation> {
    let (definition, like) = (&study.definition, study.measure.like);
    let mut show = definition.show.clone();
    if show.is_empty() && !like.is_empty() {
        show = show.like(like)?;
    }
    let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
    let (group, about) = (or(&show.group, "Papers"), or(&show.about, &definition.about));
    let title = or(&show.title, &definition.name);
    let lines = study.lines(results)?;
    let mut parts = show.parts(&title, &lines);
    let own = |(cell, _): &&(Configuration, String)| cell.suite == definition.name;
    let mut cells = tried(study, results)?;
    let skipped = results.skipped.iter().filter(own).map(|(cell, reason)| (cell.key(), reason.clone()));
    let left_out = left_out(skipped.chain(cells.iter().filter_map(Tried::rejection)))
        .into_iter()
        .map(|line| format!("Left out: {line}"));
    cells.retain(|tried| !results.is_closed(&tried.cell.configuration));
    // What others are shown like has fields of all of them.
    let is_own = !definition.show.is_empty() && definition.show.like.is_empty() && definition.name != like;
    let own = show.missing(&lines).into_iter().filter(|_| is_own);
    let missing = own.map(|field| format!("[show]: no run has `{field}`"));
    let notes = missing.chain(left_out).chain(unmade(study, &cells)).chain(context.disturbances.iter().cloned());
    let notes: Vec<String> = notes.collect();
    parts.extend((!notes.is_empty()).then_some(drawing::Part::List(notes)));
    let page = drawing::Presentation::new(&title, &group, &about);
    Ok(Presentation { page: Some(drawing::Presentation { parts, ..page }), ..Presentation::default() })
}

/// Cells without a measurement, in a line for each reason.
pub(crate) fn left_out(cells: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let line = |(reason, cells): (String, Vec<String>)| {
        let more = if cells.len() > 1 { format!(" and {} more", cells.len() - 1) } else { String::new() };
        format!("{}{more}: {reason}", cells[0])
    };
    by_key(cells.map(|(cell, reason)| (reason, cell))).into_iter().map(line).collect()
}

/// The parameters of an algorithm that differ from those of its `rivals`, each with the numbers of all.
fn differing(cell: &Configuration, rivals: &[&Configuration]) -> Vec<(String, Value, Vec<f64>)> {
    let own = |cell: &Configuration| {
        let mut own = cell.of_algorithm();
        own.insert("batch".to_owned(), cell.batch_size.into());
        own
    };
    let tried: Vec<Parameters> = rivals.iter().map(|rival| own(rival)).collect();
    let one = |(name, value): (String, Value)| {
        let of_name = || tried.iter().map(|rival| rival.get(&name));
        if of_name().all(|other| other == Some(&value)) {
            return None;
        }
        let numbers = of_name().filter_map(|other| other?.as_f64()).collect();
        Some((name, value, numbers))
    };
    own(cell).into_iter().filter_map(one).collect()
}

/// The parameters of an algorithm that differ from those of its `rivals`, at the same place with the same method. The ends of a grid
/// are named: a better value may lie beyond them.
fn chosen(cell: &Configuration, rivals: &[&Configuration]) -> String {
    let one = |(name, value, numbers): (String, Value, Vec<f64>)| {
        let Some(number) = value.as_f64() else { return format!("{name} {}", text(&value)) };
        let (least, most) = ends(numbers.into_iter());
        let end = if number == most {
            ", the largest"
        } else if number == least {
            ", the smallest"
        } else {
            ""
        };
        format!("{name} {}{end}", format::number(number))
    };
    differing(cell, rivals).into_iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Experiments in tests.
#[cfg(test)]
pub mod testing {
    use super::store::{Mode, read};
    use super::*;
    use crate::cluster::Cluster;
    use crate::machine::{Environment, Pinning};
    use crate::output::Output;

    /// A selection of everything on a number of threads.
    pub fn selection(threads: usize) -> Selection {
        Selection { default_threads: vec![threads], ..Selection::default() }
    }

    /// The context of an experiment in this process.
    pub fn context(threads: usize) -> Context<'static> {
        let cluster = Box::leak(Box::new(Cluster::alone()));
        Context::new(cluster, Pinning::none(), Environment::capture(&[]), None, threads)
    }

    /// Runs a definition without its name, study and subject, as [`run`].
    ///
    /// # Errors
    /// Those of the study.
    pub fn small(measure: &'static Measure, text: &str, threads: usize) -> anyhow::Result<(Study, Results)> {
        run(measure, &headed(text), threads)
    }

    /// A definition with its head.
    pub fn headed(text: &str) -> String {
        format!("name = \"small\"\nabout = \"a test\"\n{text}")
    }

    /// The study of a text.
    ///
    /// # Errors
    /// Those of the study.
    pub fn parse(measure: &'static Measure, text: &str) -> anyhow::Result<Study> {
        Study::parse(measure, &Source::new("test", text)?)
    }

    /// The charts that the definition of a study declares.
    pub fn charts(study: &Study, results: &Results) -> Vec<drawing::chart::Chart> {
        let page = page(study, results, &context(1)).unwrap().page.unwrap();
        let panels = page.parts.into_iter().flat_map(|part| match part {
            drawing::Part::Figure(figure) => figure.panels,
            _ => Vec::new(),
        });
        panels.map(|panel| panel.chart).collect()
    }

    /// The number of a run.
    pub fn number(sample: &Sample, name: &str) -> f64 {
        sample.outcome.get(name).and_then(Value::as_f64).unwrap_or_else(|| panic!("{name} of {}", sample.key()))
    }

    /// The numbers of a list of a run.
    pub fn numbers(sample: &Sample, name: &str) -> Vec<f64> {
        let list =
            sample.outcome.get(name).and_then(Value::as_array).unwrap_or_else(|| panic!("{name} of {}", sample.key()));
        list.iter().map(|value| value.as_f64().expect("a number")).collect()
    }

    /// Runs a definition and presents it, in a folder that is removed.
    ///
    /// # Errors
    /// Those of the study.
    pub fn run(measure: &'static Measure, text: &str, threads: usize) -> anyhow::Result<(Study, Results)> {
        let folder = tempfile::tempdir()?;
        let selection = selection(threads);
        let planned = Plan::new(measure, &[Source::new("test", text)?], &selection)?;
        let session = Session {
            cluster: &Cluster::alone(),
            selection,
            data_dir: None,
            mode: Mode::New,
            root: folder.path(),
            output: Output::Json,
            stopped: Arc::default(),
        };
        planned.run(&session, Pinning::none(), folder.path())?;
        Ok((parse(measure, text)?, read(folder.path())?.results))
    }

    #[test]
    fn a_result_that_is_not_finite_is_rejected_with_the_names_of_its_numbers() {
        let outcome =
            |value: f64, y: f64| Outcome::of(serde_json::json!({ "value": value, "curve": [["a", y]], "n": 1 }));
        assert!(matches!(outcome(1.0, 2.0), Outcome::Measured(values) if values["n"] == 1));
        let Outcome::Rejected(reason) = outcome(f64::NAN, f64::INFINITY) else { panic!("rejected") };
        assert_eq!(reason, "the result is not finite: value, curve");
    }
}

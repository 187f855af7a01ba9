//! Experiments: problem × method × parameters × axis × metric.
//!
//! A definition (TOML, [`definition`]) lists problems and methods; they come to cells ([`cell`]). A [`Study`] says what one
//! run of a cell yields and what all runs show. The driver ([`run`]) makes the runs that are missing and keeps each of them
//! at once ([`store`]). Data, calibrations and factorisations are made once ([`Context`]). No algorithm is written here.

pub mod cache;
pub mod cell;
pub mod definition;
pub mod run;
pub(crate) mod settings;
pub mod store;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use cache::{Context, Loaded};
pub use cell::{Cell, Configuration, Parameters, Record, Sample, Trial, text};
pub(crate) use definition::NoOptions;
pub use definition::{Definition, DefinitionError, Selection, Source};
pub use run::{Plan, Session, plan};
pub use store::{Results, Store};

use crate::drawing::{self, chart::ends};
use crate::format::{self, rounded};
use crate::grouping::by_key;
use crate::machine::PinPolicy;

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
pub enum Outcome<T> {
    /// Kept.
    Measured(T),
    /// The cell cannot be measured, with the reason. Its other runs are left out.
    Skipped(String),
    /// The result failed verification or is not finite, with the reason. It is not kept.
    Rejected(String),
}

/// A run that a study is to make.
pub struct Run<'a, T> {
    /// The cell.
    pub cell: &'a Cell,
    /// Repeat and draw.
    pub trial: Trial,
    /// All finished runs (with [`Execution::Concurrent`], those of earlier calls).
    pub earlier: &'a Results<T>,
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

/// The properties of a study, and its entry in the registry.
pub struct Kind {
    /// The value of `study` in a definition.
    pub name: &'static str,
    /// The order in which cells run.
    pub execution: Execution,
    /// True where ranks can make its runs.
    pub on_ranks: bool,
    /// True where results lie in the folder itself, not in a folder of the definition's name.
    pub at_root: bool,
    /// Binding of threads without `--pin`.
    pub pin: PinPolicy,
    /// Thread counts where neither the command line nor the definition names any.
    pub threads: fn(usize) -> Vec<usize>,
    /// The definition whose figures and tables are those of a definition without own ones.
    pub like: &'static str,
    /// Makes its experiments.
    pub plan: fn(&[Source], &Selection) -> anyhow::Result<Box<dyn Plan>>,
}

impl Kind {
    /// A study of one process, on all cores, with a folder for each definition.
    pub const fn new<S: Study + 'static>(name: &'static str, execution: Execution) -> Self {
        Self {
            name,
            execution,
            on_ranks: false,
            at_root: false,
            pin: PinPolicy::None,
            threads: |cores| vec![cores],
            like: "",
            plan: plan::<S>,
        }
    }
}

/// A cell with its finished runs.
pub type Measured<'r, T> = (Cell, Vec<&'r Sample<T>>);

/// A definition with its study's own keys, and values that the runs of a study share. A study is such a pair of types: give one that shares
/// nothing a unit struct of its own as `V`.
pub struct Experiment<O, V = ()> {
    /// The definition.
    pub definition: Definition,
    /// The study's own keys.
    pub options: O,
    /// The values, such as [`cache::Memo`].
    pub shared: V,
}

impl<O, V: Default> From<(Definition, O)> for Experiment<O, V> {
    fn from((definition, options): (Definition, O)) -> Self {
        Self { definition, options, shared: V::default() }
    }
}

impl<O, V> AsRef<Definition> for Experiment<O, V> {
    fn as_ref(&self) -> &Definition {
        &self.definition
    }
}

/// A kind of experiment: an [`Experiment`] of its options.
pub trait Study: Sized + Sync + From<(Definition, <Self as Study>::Options)> + AsRef<Definition> {
    /// Its properties.
    const KIND: Kind;

    /// The table `[options]` of a definition. Derive with `deny_unknown_fields`; [`NoOptions`] for none.
    type Options: DeserializeOwned + Serialize;
    /// Result of one run, as plain data. Names of its fields differ from those of [`Configuration`] and [`Sample`].
    type Outcome: DeserializeOwned + Serialize + Clone + Send + Sync;

    /// Checks a definition.
    ///
    /// # Errors
    /// Values that make no sense.
    fn check(_definition: &Definition, _options: &Self::Options) -> anyhow::Result<()> {
        Ok(())
    }

    /// The study of a definition, whose text this is.
    ///
    /// # Errors
    /// Those of [`Definition::parse`] and [`Study::check`].
    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let (definition, options) = Definition::parse(name, text)?;
        Self::check(&definition, &options)?;
        Ok((definition, options).into())
    }

    /// The definition.
    fn definition(&self) -> &Definition {
        self.as_ref()
    }

    /// All cells. The default is the product of problems, methods, parameters and threads.
    ///
    /// # Errors
    /// A selection that names an unknown algorithm.
    fn cells(&self, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
        Ok(self.definition().cells(selection)?)
    }

    /// The group of a cell with [`Execution::Interleaved`].
    fn group(&self, cell: &Cell) -> String {
        cell.configuration.key()
    }

    /// Makes one run.
    ///
    /// # Errors
    /// A failure that ends the experiment. A cell that cannot be measured is [`Outcome::Skipped`].
    fn measure(&self, run: &Run<'_, Self::Outcome>, context: &Context) -> anyhow::Result<Outcome<Self::Outcome>>;

    /// The cells that were measured, in the order of the definition, each with its finished runs.
    ///
    /// # Errors
    /// Those of [`Study::cells`].
    fn measured<'r>(&self, results: &'r Results<Self::Outcome>) -> anyhow::Result<Vec<Measured<'r, Self::Outcome>>> {
        let cells = with_runs(self, results)?.into_iter();
        Ok(cells.filter(|(_, runs)| !runs.is_empty()).collect())
    }

    /// The lines that the fields of figures and tables are taken from: those of all finished runs by default.
    ///
    /// # Errors
    /// Results that cannot be shown.
    fn lines(&self, results: &Results<Self::Outcome>) -> anyhow::Result<Vec<Value>> {
        lines(self, results, &|_, _, _| {})
    }

    /// Tables and pictures of all finished runs. The default draws those that the definition declares, or those of
    /// the kind.
    ///
    /// # Errors
    /// Results that cannot be shown.
    fn present(&self, results: &Results<Self::Outcome>, context: &Context) -> anyhow::Result<Presentation> {
        page(self, results, context)
    }
}

/// All cells in the order of the definition, each with its finished runs.
fn with_runs<'r, S: Study>(
    study: &S,
    results: &'r Results<S::Outcome>,
) -> anyhow::Result<Vec<Measured<'r, S::Outcome>>> {
    let threads = results.samples.iter().map(|sample| sample.configuration.threads);
    let cells = study.cells(&Selection { threads: threads.collect(), ..Selection::everything() })?;
    let with_runs = |cell: Cell| {
        let runs: Vec<_> = results.of(&cell.configuration).collect();
        (cell, runs)
    };
    Ok(cells.into_iter().map(with_runs).collect())
}

/// The runs that nobody made, in a line for each method on each problem.
fn unmade<S: Study>(study: &S, results: &Results<S::Outcome>) -> anyhow::Result<Vec<String>> {
    let (cells, problems) = (with_runs(study, results)?, &study.definition().problems);
    let methods = by_key(cells.iter().map(|cell| ((cell.0.problem, cell.0.configuration.label_of_method()), cell)));
    let line = |((problem, method), cells): ((usize, &str), Vec<&Measured<'_, S::Outcome>>)| {
        let rivals: Vec<&Configuration> = cells.iter().map(|(cell, _)| &cell.configuration).collect();
        let one = |(cell, runs): &&Measured<'_, S::Outcome>| {
            let (made, all) = (runs.len(), cell.repeats * cell.draws);
            let own = differing(&cell.configuration, &rivals).into_iter();
            let own = own.map(|(name, value, _)| format!("{name} {}", text(&value))).collect::<Vec<_>>().join(", ");
            (made < all).then(|| if made == 0 { own } else { format!("{own} ({made} of {all} runs made)") })
        };
        let missing: Vec<String> = cells.iter().filter_map(one).collect();
        let on = if problems.len() > 1 { format!(" on {}", problems[problem].name()) } else { String::new() };
        (!missing.is_empty()).then(|| format!("Not run: {method}{on}: {}", missing.join("; ")))
    };
    Ok(methods.into_iter().filter_map(line).collect())
}

/// The page that a definition declares.
///
/// # Errors
/// Results that cannot be shown.
pub(crate) fn page<S: Study>(
    study: &S,
    results: &Results<S::Outcome>,
    context: &Context,
) -> anyhow::Result<Presentation> {
    let definition = study.definition();
    let mut show = definition.show.clone();
    if show.is_empty() && !S::KIND.like.is_empty() {
        show = show.like(S::KIND.like)?;
    }
    let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
    let (group, about) = (or(&show.group, "Papers"), or(&show.about, &definition.about));
    let title = or(&show.title, &definition.name);
    let lines = study.lines(results)?;
    let mut parts = show.parts(&title, &lines);
    let own = |(cell, _): &&(Configuration, String)| cell.suite == definition.name;
    let left_out = left_out(results.skipped.iter().filter(own)).into_iter().map(|line| format!("Left out: {line}"));
    // What others are shown like has fields of all of them.
    let is_own = !definition.show.is_empty() && definition.name != S::KIND.like;
    let own = show.missing(&lines).into_iter().filter(|_| is_own);
    let missing = own.map(|field| format!("[show]: no run has `{field}`"));
    let unmade = if show.unfinished.is_empty() { Vec::new() } else { unmade(study, results)? };
    let why = (!unmade.is_empty()).then(|| show.unfinished.clone());
    let unmade = unmade.into_iter().chain(why);
    let notes = missing.chain(left_out).chain(unmade).chain(context.disturbances.iter().cloned());
    let notes: Vec<String> = notes.collect();
    parts.extend((!notes.is_empty()).then_some(drawing::Part::List(notes)));
    let page = drawing::Presentation::new(&title, &group, &about);
    Ok(Presentation { page: Some(drawing::Presentation { parts, ..page }), ..Presentation::default() })
}

/// Cells without a measurement, in a line for each reason.
pub(crate) fn left_out<'r>(cells: impl Iterator<Item = &'r (Configuration, String)>) -> Vec<String> {
    let line = |(reason, cells): (&str, Vec<String>)| {
        let more = if cells.len() > 1 { format!(" and {} more", cells.len() - 1) } else { String::new() };
        format!("{}{more}: {reason}", cells[0])
    };
    by_key(cells.map(|(cell, reason)| (&**reason, cell.key()))).into_iter().map(line).collect()
}

/// The finished runs as lines, with the fields of their cells; `add` adds those of a kind.
///
/// # Errors
/// Results that cannot be shown.
pub(crate) fn lines<S: Study>(
    study: &S,
    results: &Results<S::Outcome>,
    add: &dyn Fn(&Cell, &Sample<S::Outcome>, &mut Value),
) -> anyhow::Result<Vec<Value>> {
    let measured = study.measured(results)?;
    let place = |cell: &Cell| (cell.problem, cell.axis, cell.configuration.label_of_method().to_owned());
    let rivals = by_key(measured.iter().map(|(cell, _)| (place(cell), &cell.configuration)));
    let mut lines = Vec::new();
    for (cell, runs) in &measured {
        let own = rivals.iter().find(|(other, _)| *other == place(cell));
        let chosen = chosen(&cell.configuration, own.map_or(&[], |(_, rivals)| rivals));
        let problem = &study.definition().problems[cell.problem];
        for run in runs {
            let mut line = serde_json::to_value(run)?;
            line["method"] = cell.configuration.label_of_method().into();
            line["problem"] = rounded(problem.name()).into();
            line["draw"] = run.trial.draw.into();
            line["axis"] = cell.axis.into();
            line["axis_name"] = problem.axis.clone().into();
            line["target"] = problem.target.into();
            line["chosen"] = (&*chosen).into();
            add(cell, run, &mut line);
            lines.push(line);
        }
    }
    Ok(lines)
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
    pub fn small<S: Study + 'static>(text: &str, threads: usize) -> anyhow::Result<(S, Results<S::Outcome>)> {
        run(&headed::<S>(text), threads)
    }

    /// A definition with its head.
    pub fn headed<S: Study>(text: &str) -> String {
        format!("name = \"small\"\nstudy = \"{}\"\nabout = \"a test\"\n{text}", S::KIND.name)
    }

    /// The charts that the definition of a study declares.
    pub fn charts<S: Study>(study: &S, results: &Results<S::Outcome>) -> Vec<drawing::chart::Chart> {
        let page = study.present(results, &context(1)).unwrap().page.unwrap();
        let panels = page.parts.into_iter().flat_map(|part| match part {
            drawing::Part::Figure(figure) => figure.panels,
            _ => Vec::new(),
        });
        panels.map(|panel| panel.chart).collect()
    }

    /// Runs a definition and presents it, in a folder that is removed.
    ///
    /// # Errors
    /// Those of the study.
    pub fn run<S: Study + 'static>(text: &str, threads: usize) -> anyhow::Result<(S, Results<S::Outcome>)> {
        let folder = tempfile::tempdir()?;
        let selection = selection(threads);
        let planned = plan::<S>(&[Source::new("test", text)?], &selection)?;
        let session = Session {
            cluster: &Cluster::alone(),
            selection,
            data_dir: None,
            mode: Mode::New,
            root: folder.path(),
            output: Output::Json,
            stopped: std::sync::Arc::default(),
        };
        planned.run(&session, Pinning::none(), folder.path())?;
        let results = read::<S::Outcome>(folder.path())?.results;
        Ok((S::parse("test", text)?, results))
    }
}

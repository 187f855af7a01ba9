//! Definitions of experiments: one TOML schema for suites, paper figures and all other studies, and the cells of one.
//!
//! The definitions under `bench/definitions` are part of the binary; a path to another file works as well. docs/FORMAT.md
//! describes the schema. Nothing here loads data.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use clap::builder::RangedU64ValueParser;
use rounds_algorithms::{catalog, hexadecimal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use super::cell::{Cell, Configuration, PLANTED_LOGISTIC, Parameters, text};
use crate::drawing::Show;
use crate::usage::nearest;
use rounds_models::data::{self, schema::line_of};
use rounds_models::text::foreign;

include!(concat!(env!("OUT_DIR"), "/definitions.rs"));

/// Why a definition cannot be used, with its name or line and the way out.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct DefinitionError(String);

/// A definition with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its name in the binary, or its file.
    pub name: String,
    /// TOML.
    pub text: String,
    /// The parsed definition.
    pub definition: Definition,
}

impl Show {
    /// The page with the figures, tables and section of another definition, and its subject where it has none.
    ///
    /// # Errors
    /// Those of [`find`].
    pub fn like(&self, name: &str) -> Result<Self, DefinitionError> {
        let show = find(name)?.definition.show;
        let mut own = self.clone();
        (own.figures, own.tables) = (show.figures, show.tables);
        for (own, other) in [(&mut own.group, show.group), (&mut own.about, show.about)] {
            if own.is_empty() {
                *own = other;
            }
        }
        Ok(own)
    }
}

fn default_study() -> String {
    "timing".to_owned()
}

/// All definitions in the binary, by name.
///
/// # Errors
/// A definition that does not parse.
pub fn all() -> Result<Vec<Source>, DefinitionError> {
    EMBEDDED.iter().map(|(name, text)| Source::new(name, text)).collect()
}

/// The definition with this name, or in this file (a name that ends in `.toml`).
///
/// # Errors
/// An unknown name, with the nearest; a file that cannot be read or parsed.
pub fn find(name: &str) -> Result<Source, DefinitionError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let text = fs::read_to_string(name)
            .map_err(|error| DefinitionError(format!("cannot read the definition {name}: {error}")))?;
        return Source::new(name, &text);
    }
    let names: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
    let found = EMBEDDED.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| unknown_name("suite", name, &names))?;
    Source::new(name, text)
}

impl Source {
    /// Reads a definition.
    ///
    /// # Errors
    /// Those of [`Definition::parse`].
    pub fn new(name: &str, text: &str) -> Result<Self, DefinitionError> {
        Ok(Self { name: name.into(), text: text.into(), definition: Definition::parse(name, text)? })
    }

    /// The error, with the line of the parameter where it is one about a name.
    pub(super) fn placed(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<UnknownParameter>() {
            Ok(unknown) => match line_of_parameter(&self.text, &unknown.name) {
                Some(line) => DefinitionError(format!("{}:{line}: {unknown}", self.name)).into(),
                None => unknown.into(),
            },
            Err(error) => error,
        }
    }
}

/// A definition. A field is a key at the top of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Its name: lower-case letters, digits, hyphens and slashes.
    pub name: String,
    /// Its kind.
    #[serde(default = "default_study")]
    pub study: String,
    /// The name of the measure: what is measured in each run; empty for the default of the kind.
    #[serde(default)]
    pub measure: String,
    /// Subject, in a line.
    pub about: String,
    /// First seed of noise and sampling.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of runs of a cell.
    #[serde(default = "one")]
    pub repeats: usize,
    /// Number of draws of generated data; every draw has all repeats.
    #[serde(default = "one")]
    pub draws: usize,
    /// Thread counts; empty for the study's default.
    #[serde(default)]
    pub threads: Vec<usize>,
    /// `"all"` adds every algorithm of the catalogue that no method names, with its defaults.
    pub algorithms: Option<Everything>,
    /// Parameters of all methods. A list is swept: every combination is measured.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters of all problems.
    #[serde(default)]
    pub problem_parameters: Parameters,
    /// Keys of the measure.
    #[serde(default)]
    pub options: Parameters,
    /// Figures and tables. They are no part of the digest: what was run stays what it is.
    #[serde(default, skip_serializing)]
    pub show: Show,
    /// Problems.
    #[serde(default, rename = "problem")]
    pub problems: Vec<Problem>,
    /// By what, on all problems that have no methods of their own.
    #[serde(default, rename = "method")]
    pub methods: Vec<Method>,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// The word `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Everything {
    /// Every algorithm of the catalogue.
    All,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Problem {
    /// Name in tables and figures.
    #[serde(default)]
    pub label: String,
    /// Data set or generator.
    pub dataset: String,
    /// Storage of the rows: `f32`, `u8` or `sparse`.
    #[serde(default = "as_floats")]
    pub features: String,
    /// True to leave out methods that do not name the data set.
    #[serde(default)]
    pub by_name: bool,
    /// The parameter along the horizontal axis.
    pub axis: Option<String>,
    /// The value to reach.
    pub target: Option<f64>,
    /// Number of runs, instead of the definition's.
    pub repeats: Option<usize>,
    /// Parameters of the problem, over those of the definition.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters of all its methods, over those of the definition.
    #[serde(default)]
    pub method_parameters: Parameters,
    /// Its own methods, instead of the definition's.
    #[serde(default, rename = "method")]
    pub methods: Vec<Method>,
}

impl Problem {
    /// Its label, or its data set.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { &self.dataset } else { &self.label }
    }
}

fn as_floats() -> String {
    "f32".into()
}

/// A method.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Method {
    /// Name in tables and figures.
    #[serde(default)]
    pub label: String,
    /// Id in the catalogue, or a name that the study knows.
    pub algorithm: String,
    /// Storage of the rows, instead of the problem's.
    pub features: Option<String>,
    /// Its data sets; none for all.
    #[serde(default)]
    pub datasets: Vec<String>,
    /// Parameters, over those that the problem has for its methods.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters that the problem has for this method alone, over its own.
    #[serde(default)]
    pub problem_parameters: Parameters,
}

/// The part of an experiment that a command line selects. The default is everything that needs no files, on one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Selection {
    /// Numbers of threads, such as 1,2 or 1-64 [default: 1 and all cores]
    #[arg(long, value_name = "COUNTS", value_parser = thread_counts, default_value = "", hide_default_value = true)]
    pub threads: std::vec::Vec<usize>,
    /// Thread counts where neither the command line nor the definition names any; one thread where these are empty, too.
    #[arg(skip)]
    pub default_threads: Vec<usize>,
    /// Only these algorithms
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    pub algorithms: Vec<String>,
    /// Batch sizes instead of the definition's
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = counts(u32::MAX.into()))]
    pub batch_sizes: Vec<usize>,
    /// Repeats instead of the definition's
    #[arg(long, value_name = "N", value_parser = counts(u16::MAX.into()))]
    pub repeats: Option<usize>,
    /// Only cells with this parameter; of several values of one parameter any
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = parameter)]
    pub only: Vec<(String, String)>,
    /// True where data files are available.
    #[arg(skip)]
    pub files: bool,
    /// Number of ranks that run every cell, if there are any.
    #[arg(skip)]
    pub ranks: Option<usize>,
}

/// The largest number of threads: 256, or twice the processors. Far more than processors only wait for each other.
pub fn most_threads() -> usize {
    std::thread::available_parallelism().map_or(256, |processors| (2 * processors.get()).max(256))
}

/// Reads a list of thread counts and ranges of them, such as `1,2,8-16`; nothing is an empty list.
///
/// # Errors
/// The first part that is neither a count from 1 to [`most_threads`] nor an ascending range of them.
pub fn thread_counts(text: &str) -> Result<Vec<usize>, String> {
    let (mut all, most) = (Vec::new(), most_threads());
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let count = |text: &str| text.trim().parse().ok().filter(|count: &usize| (1..=most).contains(count));
        match (count(first), count(last)) {
            (Some(first), Some(last)) if first <= last => all.extend(first..=last),
            _ => {
                return Err(format!("'{part}' is no number from 1 to {most} and no range of them, such as 1-64"));
            }
        }
    }
    Ok(all)
}

/// Whole numbers from 1 to `most` on a command line.
pub fn counts(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Reads `NAME=VALUE`.
fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a parameter with its value, such as epsilon=4, is needed")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Selection {
    /// True for parameters that have the values of `only`; numbers are compared as numbers.
    fn takes(&self, parameters: &Parameters) -> bool {
        let is = |own: &Value, value: &str| {
            text(own) == value || own.as_f64().is_some_and(|own| value.parse().is_ok_and(|value: f64| own == value))
        };
        let has = |(name, value): &(String, String)| parameters.get(name).is_some_and(|own| is(own, value));
        self.only.iter().all(|(name, _)| self.only.iter().any(|one| one.0 == *name && has(one)))
    }

    /// Everything, data files included.
    pub fn everything() -> Self {
        Self { files: true, ..Self::default() }
    }

    /// The thread counts of a definition that names `own`; none if nobody names any.
    pub fn threads_or<'a>(&'a self, own: &'a [usize]) -> &'a [usize] {
        let lists = [&self.threads[..], own, &self.default_threads];
        lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
    }
}

impl Definition {
    /// Parses and checks a definition.
    ///
    /// # Errors
    /// Syntax, unknown keys (with the nearest) and values that make no sense, each with its line or name.
    pub fn parse(name: &str, text: &str) -> Result<Self, DefinitionError> {
        let mut definition: Self = from_toml(name, text)?;
        if !definition.show.like.is_empty() {
            definition.show = definition.show.like(&definition.show.like)?;
        }
        definition.check()?;
        Ok(definition)
    }

    /// SHA-256 over the values of the definition. Comments and layout do not count.
    pub fn digest(&self) -> String {
        let canonical = serde_json::to_string(self).unwrap_or_default();
        hexadecimal(&Sha256::digest(canonical.as_bytes()))
    }

    /// An error of this definition.
    pub fn invalid(&self, message: impl Display) -> DefinitionError {
        DefinitionError(format!("{}: {message}", self.name))
    }

    /// The methods of a problem.
    pub fn methods_of(&self, problem: &Problem) -> Vec<Method> {
        let own = if problem.methods.is_empty() { &self.methods } else { &problem.methods };
        let mut methods = own.clone();
        if self.algorithms.is_some() {
            let unnamed =
                catalog::ALGORITHMS.iter().filter(|known| own.iter().all(|method| method.algorithm != known.id));
            methods.extend(unnamed.map(|algorithm| Method { algorithm: algorithm.id.to_owned(), ..Method::default() }));
        }
        methods
    }

    /// The methods of all problems.
    pub fn all_methods(&self) -> impl Iterator<Item = Method> {
        self.problems.iter().flat_map(|problem| self.methods_of(problem))
    }

    /// All cells of `selection`: problems × methods × combinations of parameters × threads.
    ///
    /// # Errors
    /// A selection that names an algorithm the definition does not have, or leaves nothing.
    pub fn cells(&self, selection: &Selection) -> Result<Vec<Cell>, DefinitionError> {
        let methods: Vec<Method> = self.all_methods().collect();
        let ids: BTreeSet<&str> = methods.iter().map(|method| method.algorithm.as_str()).collect();
        if let Some(name) = selection.algorithms.iter().find(|name| !ids.contains(name.as_str())) {
            let ids: Vec<&str> = ids.into_iter().collect();
            return Err(unknown_name("algorithm in this suite", name, &ids));
        }
        let cells = self.possible(selection);
        if cells.is_empty() {
            let only: Vec<String> = selection.only.iter().map(|(name, value)| format!("{name}={value}")).collect();
            return Err(self.invalid(if only.is_empty() || !self.without_files(selection).is_empty() {
                "nothing is left to measure: its problems need data files (--data-dir)".to_owned()
            } else {
                format!(
                    "nothing is left to measure with --where {} (--list without it shows all)",
                    only.join(" --where ")
                )
            }));
        }
        Ok(cells)
    }

    /// The cells that `selection` would have if data files were available.
    pub fn without_files(&self, selection: &Selection) -> Vec<Configuration> {
        if selection.files {
            return Vec::new();
        }
        let everything = Selection { files: true, ..selection.clone() };
        let cells = self.possible(&everything).into_iter().map(|cell| cell.configuration);
        cells.filter(|cell| needs_files(&cell.dataset)).collect()
    }

    fn possible(&self, selection: &Selection) -> Vec<Cell> {
        let mut threads: BTreeSet<usize> = selection.threads_or(&self.threads).iter().copied().collect();
        if threads.is_empty() {
            threads.insert(1);
        }
        let mut cells = Vec::new();
        for (index, problem) in self.problems.iter().enumerate() {
            if needs_files(&problem.dataset) && !selection.files {
                continue;
            }
            for method in self.methods_of(problem) {
                let selected = selection.algorithms.is_empty() || selection.algorithms.contains(&method.algorithm);
                let named = method.datasets.contains(&problem.dataset);
                if !selected || !(named || method.datasets.is_empty() && !problem.by_name) {
                    continue;
                }
                let own = self.parameters_of_problem(problem, &method);
                let of_problem: BTreeSet<String> = own.keys().cloned().collect();
                let mut all = self.parameters_of(problem, &method, &selection.batch_sizes);
                all.extend(own);
                for parameters in combinations(&all).into_iter().filter(|parameters| selection.takes(parameters)) {
                    for &threads in &threads {
                        let parameters = (parameters.clone(), of_problem.clone());
                        cells.push(self.cell(index, &method, parameters, threads, selection));
                    }
                }
            }
        }
        cells
    }

    /// Parameters of a method on a problem: the inner ones win. Methods without privacy leave out a budget that others set.
    fn parameters_of(&self, problem: &Problem, method: &Method, batch_sizes: &[usize]) -> Parameters {
        const OF_PRIVACY: [&str; 7] =
            ["epsilon", "delta", "noise-multiplier", "adjacency", "clip-norm", "accountant", "noise"];
        let mut parameters = self.parameters.clone();
        parameters.extend(problem.method_parameters.clone());
        if catalog::find(&method.algorithm).is_ok_and(|algorithm| !algorithm.private) {
            parameters.retain(|name, _| !OF_PRIVACY.contains(&name.as_str()));
        }
        parameters.extend(method.parameters.clone());
        if !batch_sizes.is_empty() && parameters.contains_key(BATCH_SIZE) {
            parameters.insert(BATCH_SIZE.to_owned(), batch_sizes.into());
        }
        parameters
    }

    /// Parameters of a problem for a method.
    fn parameters_of_problem(&self, problem: &Problem, method: &Method) -> Parameters {
        let all = [&self.problem_parameters, &problem.parameters, &method.problem_parameters].into_iter().flatten();
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Checks that parameters of the rows, and draws of them, change the data set: else one run would be counted as several.
    fn check_applies(&self, problem: &Problem, parameters: &Parameters) -> Result<(), DefinitionError> {
        let dataset = problem.dataset.as_str();
        let own = OF_GENERATORS.iter().find(|(name, _)| *name == dataset);
        if own.is_none() && data::NAMES.iter().all(|named| named.name != dataset) {
            return Ok(());
        }
        let own = own.map_or(&[][..], |(_, own)| own);
        let of_rows = OF_GENERATORS.iter().flat_map(|(_, names)| *names);
        let mut unread = of_rows.filter(|name| parameters.contains_key(**name) && !own.contains(*name));
        let choice = match unread.next() {
            Some(name) => name,
            None if self.draws > 1 && own.is_empty() => "draws",
            None => return Ok(()),
        };
        Err(self.invalid(format!(
            "{choice} does not apply to {dataset}, whose rows are as they are: leave it out, or take a generator such as {PLANTED_LOGISTIC}"
        )))
    }

    fn cell(
        &self,
        index: usize,
        method: &Method,
        (mut parameters, of_problem): (Parameters, BTreeSet<String>),
        threads: usize,
        selection: &Selection,
    ) -> Cell {
        let problem = &self.problems[index];
        let axis = problem.axis.as_ref().and_then(|name| parameters.get(name)).and_then(Value::as_f64);
        let batch_size = parameters.remove(BATCH_SIZE).and_then(|size| size.as_u64());
        let features = method.features.as_ref().unwrap_or(&problem.features);
        Cell {
            configuration: Configuration {
                suite: self.name.clone(),
                problem: problem.label.clone(),
                method: method.label.clone(),
                algorithm: method.algorithm.clone(),
                dataset: problem.dataset.clone(),
                features: features.clone(),
                batch_size: batch_size.unwrap_or(0) as usize,
                threads,
                ranks: selection.ranks,
                parameters,
                of_problem,
            },
            repeats: selection.repeats.or(problem.repeats).unwrap_or(self.repeats),
            draws: self.draws,
            problem: index,
            axis,
        }
    }

    fn check(&self) -> Result<(), DefinitionError> {
        let require = |holds: bool, message: &str| if holds { Ok(()) } else { Err(self.invalid(message)) };
        let letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-/".contains(letter);
        require(
            !self.name.is_empty() && self.name.chars().all(letter),
            "its name must be lower-case letters, digits, hyphens and slashes",
        )?;
        let repeats = self.problems.iter().filter_map(|problem| problem.repeats);
        require(
            repeats.chain([self.repeats, self.draws]).all(|count| count > 0),
            "repeats and draws must be at least 1",
        )?;
        require(!self.threads.contains(&0), "threads must be at least 1")?;
        require(!self.problems.is_empty(), "it names no [[problem]]")?;
        let datasets: Vec<&str> = self.problems.iter().map(|problem| problem.dataset.as_str()).collect();
        for problem in &self.problems {
            let methods = self.methods_of(problem);
            require(!methods.is_empty(), "it names no [[method]] and not algorithms = \"all\"")?;
            let own = methods.iter().filter_map(|method| method.features.as_ref());
            for features in own.chain([&problem.features]) {
                known("kind of features", features, &["f32", "u8", "sparse"])?;
            }
            for method in &methods {
                method.datasets.iter().try_for_each(|name| known("[[problem]] with the data set", name, &datasets))?;
                let parameters = self.parameters_of(problem, method, &[]);
                let own = self.parameters_of_problem(problem, method);
                self.check_applies(problem, &own)?;
                if let Some(name) = own.keys().find(|name| parameters.contains_key(*name)) {
                    let id = &method.algorithm;
                    return Err(self.invalid(format!("{name} is a parameter of the problem and of {id}; keep one")));
                }
                let mut all = parameters.iter().chain(&own);
                if let Some((name, _)) = all.find(|(_, value)| value.as_array().is_some_and(Vec::is_empty)) {
                    return Err(self.invalid(format!("{}: {name} has no values", method.algorithm)));
                }
                let sizes = parameters.get(BATCH_SIZE).map_or(Vec::new(), values);
                if let Some(size) = sizes.iter().find(|size| size.as_u64().is_none_or(|size| size == 0)) {
                    return Err(self.invalid(format!(
                        "{}: batch-size = {size}: a whole number of at least 1 is needed",
                        method.algorithm
                    )));
                }
            }
        }
        let all = self.possible(&Selection::everything());
        for (index, problem) in self.problems.iter().enumerate() {
            let is_on_axis = |cell: &Cell| cell.problem == index && cell.axis.is_some();
            if let Some(axis) = problem.axis.as_ref().filter(|_| !all.iter().any(is_on_axis)) {
                let dataset = &problem.dataset;
                return Err(self.invalid(format!(
                    "axis = \"{axis}\": no method on {dataset} has this parameter as a number; vary it in parameters"
                )));
            }
        }
        let mut keys = BTreeSet::new();
        let mut all = all.into_iter().map(|cell| cell.configuration.key());
        let twice = all.find(|key| !keys.insert(key.clone()));
        twice.map_or(Ok(()), |key| Err(self.invalid(format!("{key} is defined twice; keep one"))))
    }
}

const BATCH_SIZE: &str = "batch-size";

/// The parameters of each generator of rows. Any other data set has the rows that it has.
const OF_GENERATORS: [(&str, &[&str]); 4] = [
    (PLANTED_LOGISTIC, &["rows", "dimension", "norm", "data-seed"]),
    ("synthetic-logistic", &["rows", "dimension", "data-seed"]),
    ("synthetic-mnist", &["data-seed"]),
    ("quadratic", &["dimension", "smoothness", "data-seed"]),
];

/// True for a data set that is read from files.
pub fn needs_files(dataset: &str) -> bool {
    data::NAMES.iter().any(|named| named.name == dataset) && !data::is_generated(dataset)
}

/// Checks that `name` is one of `names`.
///
/// # Errors
/// An unknown name, with the nearest.
pub fn known(kind: &str, name: &str, names: &[&str]) -> Result<(), DefinitionError> {
    if names.contains(&name) { Ok(()) } else { Err(unknown_name(kind, name, names)) }
}

/// A parameter that nothing reads.
#[derive(Debug, Error)]
#[error("{owner} has no parameter '{name}'; {way_out}")]
pub(super) struct UnknownParameter {
    name: String,
    owner: String,
    way_out: String,
}

/// Checks that the names of `parameters` are those that `owner` reads.
///
/// # Errors
/// An unknown name, with the nearest.
pub(super) fn known_parameters(parameters: &Parameters, owner: &str, names: &[&str]) -> Result<(), UnknownParameter> {
    let unknown = parameters.keys().find(|name| !names.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        Err(UnknownParameter { name: name.clone(), owner: owner.to_owned(), way_out: way_out(name, names) })
    })
}

/// The line of the first parameter of this name.
fn line_of_parameter(text: &str, name: &str) -> Option<usize> {
    fn first(table: &DeTable<'_>, name: &str, in_parameters: bool) -> Option<usize> {
        let found = table.iter().filter_map(|(key, value)| {
            if in_parameters && key.get_ref() == name {
                return Some(key.span().start);
            }
            let in_parameters = key.get_ref().ends_with("parameters") || key.get_ref() == "options";
            match value.get_ref() {
                DeValue::Table(table) => first(table, name, in_parameters),
                DeValue::Array(array) => {
                    let tables = array.iter().filter_map(|value| value.get_ref().as_table());
                    tables.filter_map(|table| first(table, name, false)).min()
                }
                _ => None,
            }
        });
        found.min()
    }
    let table = DeTable::parse(text).ok()?;
    let offset = first(table.get_ref(), name, false)?;
    Some(text.as_bytes()[..offset].split(|&byte| byte == b'\n').count())
}

fn values(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// Every combination of the values of parameters, the first name outermost.
fn combinations(parameters: &Parameters) -> Vec<Parameters> {
    parameters.iter().fold(vec![Parameters::new()], |choices, (name, value)| {
        let values = values(value);
        choices
            .iter()
            .flat_map(|choice| {
                values.iter().map(|value| {
                    let mut choice = choice.clone();
                    choice.insert(name.clone(), value.clone());
                    choice
                })
            })
            .collect()
    })
}

/// Reads a value from TOML. An unknown key is reported with its line and the nearest key.
fn from_toml<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, DefinitionError> {
    toml::from_str(text).map_err(|error| {
        DefinitionError(format!("{name}:{}: {}", line_of(text, &error), explained(error.message().trim())))
    })
}

/// The message of serde, of an unknown key with the nearest: unknown field `one`, expected one of `two`, `three`.
pub(super) fn explained(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((key, known)) if message.starts_with("unknown field") => {
            format!("unknown key '{key}'; {}", way_out(key, known))
        }
        _ => foreign(message),
    }
}

fn way_out(name: &str, candidates: &[&str]) -> String {
    nearest(name, candidates).map_or_else(
        || format!("it must be one of {}", candidates.join(", ")),
        |candidate| format!("did you mean '{candidate}'?"),
    )
}

/// An unknown name, with the nearest.
pub fn unknown_name(kind: &str, name: &str, candidates: &[&str]) -> DefinitionError {
    DefinitionError(format!("there is no {kind} '{name}'; {}", way_out(name, candidates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
name = "small"
about = "a test"
repeats = 2
parameters = { epsilon = 1.0, batch-size = [64, 500] }
[[problem]]
dataset = "synthetic-mnist"
[[problem]]
dataset = "mnist"
features = "u8"
[[method]]
algorithm = "sgd"
parameters = { batch-size = 32 }
[[method]]
algorithm = "dp-ftrl"
datasets = ["synthetic-mnist"]
parameters = { clip-norm = 1.0, noise = ["tree", "optimal"], momentum = [0.0, 0.9] }
"#;

    fn parse(text: &str) -> Result<Definition, DefinitionError> {
        Definition::parse("small", text)
    }

    #[test]
    fn lists_are_swept_and_inner_parameters_win() {
        let definition = parse(SMALL).unwrap();
        // sgd: 2 problems × 1 batch size; dp-ftrl: 1 problem × 2 batch sizes × 2 × 2 combinations.
        let cells = definition.cells(&Selection::everything()).unwrap();
        assert_eq!(cells.len(), 2 + 8);
        let of = |id: &str| cells.iter().map(|cell| &cell.configuration).find(|cell| cell.algorithm == id);
        let (sgd, ftrl) = (of("sgd").unwrap(), of("dp-ftrl").unwrap());
        assert_eq!((sgd.batch_size, sgd.parameters.len()), (32, 0), "no budget without privacy");
        assert_eq!((ftrl.batch_size, &ftrl.parameters["epsilon"]), (64, &1.0.into()));
        let some = Selection {
            algorithms: vec!["dp-ftrl".into()],
            batch_sizes: vec![7],
            threads: vec![2, 1, 2],
            repeats: Some(1),
            ..Selection::default()
        };
        let cells = definition.cells(&some).unwrap();
        assert_eq!(cells.len(), 8);
        assert!(cells.iter().all(|cell| cell.configuration.batch_size == 7 && cell.repeats == 1));
    }

    #[test]
    fn cells_are_selected_by_the_values_of_their_parameters() {
        let count = |only: &[&str]| {
            let only = only.iter().map(|text| parameter(text).unwrap()).collect();
            parse(SMALL).unwrap().cells(&Selection { only, ..Selection::everything() }).map(|cells| cells.len())
        };
        assert_eq!(count(&["noise=tree"]).unwrap(), 4);
        assert_eq!(count(&["noise=tree", "momentum=0", "epsilon=1.00"]).unwrap(), 2);
        assert_eq!(count(&["momentum=0", "momentum=0.9", "batch-size=64"]).unwrap(), 4);
        let refused = count(&["noise=tree", "momentun=0"]).unwrap_err().to_string();
        assert!(refused.contains("with --where noise=tree --where momentun=0 ("), "{refused}");
        assert!(parameter("noise").is_err());
        // Cells that only the files of their data lack.
        let text = SMALL.replace("[\"synthetic-mnist\"]", "[\"mnist\"]");
        let only = vec![parameter("momentum=0").unwrap()];
        let refused = parse(&text).unwrap().cells(&Selection { only, ..Selection::default() }).unwrap_err().to_string();
        assert!(refused.contains("need data files"), "{refused}");
    }

    #[test]
    fn an_axis_is_a_swept_parameter() {
        let text = SMALL.replace("[\"synthetic-mnist\"]", "[\"mnist\"]");
        let text = text.replace("features = \"u8\"", "features = \"u8\"\naxis = \"momentum\"");
        let cells = parse(&text).unwrap().cells(&Selection::everything()).unwrap();
        let axis: Vec<_> = cells.iter().filter_map(|cell| cell.axis).collect();
        assert_eq!(axis.len(), 8);
        assert!(axis.contains(&0.9));
    }

    #[test]
    fn what_does_not_change_the_rows_is_refused() {
        let sweep = |dataset: &str, head: &str, parameters: &str| {
            let text = format!(
                "name = \"a\"\nabout = \"a test\"\n{head}\n[[problem]]\ndataset = \"{dataset}\"\n{parameters}\n[[method]]\nalgorithm = \"sgd\""
            );
            parse(&text).map(drop).map_err(|error| error.to_string())
        };
        for (dataset, head, parameters, refused) in [
            ("mnist", "", "parameters = { rows = [1000, 2000] }", "rows does not apply to mnist"),
            ("mnist", "draws = 3", "", "draws does not apply to mnist"),
            ("synthetic-mnist", "", "parameters = { rows = 10, data-seed = 2 }", "rows does not apply"),
            ("quadratic", "", "parameters = { rows = 10 }", "rows does not apply"),
            ("synthetic-logistic", "", "parameters = { norm = [1, 2] }", "norm does not apply"),
            ("mnist", "", "axis = \"rows\"", "axis = \"rows\": no method"),
            ("mnist", "", "axis = \"loss\"\nparameters = { loss = \"hinge\" }", "axis = \"loss\": no method"),
        ] {
            let error = sweep(dataset, head, parameters).unwrap_err();
            assert!(error.contains(refused), "{error}");
        }
        for (dataset, head, parameters) in [
            ("planted-logistic", "draws = 3", "parameters = { rows = 10, dimension = 2, norm = 3 }"),
            ("synthetic-logistic", "draws = 3", "axis = \"rows\"\nparameters = { rows = [10, 20] }"),
            ("another-study's", "draws = 2", "parameters = { rows = 10 }"),
        ] {
            sweep(dataset, head, parameters).unwrap();
        }
    }

    #[test]
    fn problems_without_their_files_are_left_out_and_named() {
        let definition = parse(SMALL).unwrap();
        assert_eq!(definition.cells(&Selection::default()).unwrap().len(), 9);
        let left_out = definition.without_files(&Selection::default());
        assert!(left_out.len() == 1 && left_out[0].dataset == "mnist");
        assert!(definition.without_files(&Selection::everything()).is_empty());
        let none = SMALL
            .replace("\"synthetic-mnist\"\n[[p", "\"covtype\"\n[[p")
            .replace("[\"synthetic-mnist\"]", "[\"mnist\"]");
        let error = parse(&none).unwrap().cells(&Selection::default()).unwrap_err();
        assert!(error.to_string().contains("--data-dir"), "{error}");
    }

    #[test]
    fn all_algorithms_are_those_of_the_catalogue() {
        let text = SMALL.replace("repeats = 2", "repeats = 2\nalgorithms = \"all\"");
        let cells = parse(&text).unwrap().cells(&Selection::everything()).unwrap();
        for algorithm in catalog::ALGORITHMS {
            assert!(cells.iter().any(|cell| cell.configuration.algorithm == algorithm.id), "{}", algorithm.id);
        }
        let by_name =
            text.replace("dataset = \"synthetic-mnist\"\n[[p", "dataset = \"synthetic-mnist\"\nby-name = true\n[[p");
        let cells = parse(&by_name).unwrap().cells(&Selection::default()).unwrap();
        assert!(cells.iter().all(|cell| cell.configuration.algorithm == "dp-ftrl"));
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_the_nearest_name() {
        let cases = [
            ("repeats = 2", "repeat = 2", "small:4: unknown key 'repeat'; did you mean 'repeats'?"),
            ("algorithm = \"sgd\"", "name = \"sgd\"", "small:12: unknown key 'name'; it must be one of label, "),
            ("features = \"u8\"", "feature = \"u8\"", "small:10: unknown key 'feature'; did you mean 'features'?"),
            ("repeats = 2", "repeats = 0", "repeats and draws must be at least 1"),
            ("repeats = 2", "repeats = \"two\"", "small:4: invalid type"),
            ("repeats = 2", "repeats = ", "small:4: "),
            ("name = \"small\"", "name = \"Small one\"", "lower-case letters"),
            ("features = \"u8\"", "features = \"u9\"", "features 'u9'; did you mean 'u8'?"),
            ("batch-size = 32", "batch-size = 0", "batch-size = 0"),
            ("[\"synthetic-mnist\"]", "[\"synthetic\"]", "did you mean 'synthetic-mnist'?"),
            ("[0.0, 0.9]", "[]", "momentum has no values"),
            ("[0.0, 0.9]", "[0.9, 0.9]", "is defined twice"),
            (
                "features = \"u8\"",
                "parameters = { momentum = 0.5 }",
                "momentum is a parameter of the problem and of dp-ftrl",
            ),
        ];
        for (right, wrong, expected) in cases {
            assert!(SMALL.contains(right), "{right}");
            let message = parse(&SMALL.replacen(right, wrong, 1)).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        let error = find("quik").unwrap_err().to_string();
        assert_eq!(error, "there is no suite 'quik'; did you mean 'quick'?");
        assert!(find("nowhere.toml").unwrap_err().to_string().contains("nowhere.toml"));
        let selection = Selection { algorithms: vec!["sdg".into()], ..Selection::default() };
        let error = parse(SMALL).unwrap().cells(&selection).unwrap_err().to_string();
        assert!(error.contains("did you mean 'sgd'?"), "{error}");
    }

    #[test]
    fn the_digest_is_of_the_meaning_not_of_the_layout() {
        let digest = |text: &str| parse(text).unwrap().digest();
        assert_eq!(digest(SMALL), digest(&format!("# a comment\n{SMALL}")));
        assert_ne!(digest(SMALL), digest(&SMALL.replace("repeats = 2", "repeats = 3")));
    }
}

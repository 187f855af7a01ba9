//! Suites: what `rounds run` measures, as TOML under `bench/definitions`, and the list of cells they come to.
//!
//! A suite names problems, algorithms with parameters, batch sizes, repeats and what to verify. The definitions are
//! part of the binary, so that it works alone; a path to another TOML file works as well. Nothing here loads data or
//! knows the catalogue: `Suite::check_names` is given the names there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use crate::results::Configuration;
use crate::statistics::Choices;
use rounds_algorithms::hexadecimal;

/// The definitions in the binary, by name. Adding one is one file and one line.
const EMBEDDED: &[(&str, &str)] = &[
    ("quick", include_str!("../../bench/definitions/quick.toml")),
    ("full", include_str!("../../bench/definitions/full.toml")),
    ("latency", include_str!("../../bench/definitions/latency.toml")),
    (
        "latency-target",
        include_str!("../../bench/definitions/latency-target.toml"),
    ),
    (
        "latency-ac-sa",
        include_str!("../../bench/definitions/latency-ac-sa.toml"),
    ),
    ("ranks", include_str!("../../bench/definitions/ranks.toml")),
];

/// Why a suite cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Not TOML, or a value of the wrong type.
    #[error("{name}:{line}: {message}")]
    Syntax {
        /// The suite's file or name.
        name: String,
        /// From 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A key that no suite has.
    #[error("{name}:{line}: unknown key '{key}' in {place}; {way_out}")]
    UnknownKey {
        /// The suite's file or name.
        name: String,
        /// From 1.
        line: usize,
        /// As written.
        key: String,
        /// The table it stands in.
        place: String,
        /// The nearest key, or all there are.
        way_out: String,
    },
    /// A value that makes no sense.
    #[error("suite {suite}: {message}")]
    Invalid {
        /// The suite.
        suite: String,
        /// What, and what would be right.
        message: String,
    },
    /// A name that nothing has.
    #[error("there is no {kind} '{name}'; {way_out}")]
    UnknownName {
        /// Suite, algorithm or data set.
        kind: &'static str,
        /// As written.
        name: String,
        /// The nearest, or all there are.
        way_out: String,
    },
    /// A file that cannot be read.
    #[error("cannot read the suite {path}: {message}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
}

/// A suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Suite {
    /// Its name: letters, digits and hyphens.
    pub name: String,
    /// What it shows, in a line.
    pub about: String,
    /// Seed of the order of cells, and of data and noise.
    pub seed: u64,
    /// How often each cell is measured.
    pub repeats: usize,
    /// Batch sizes of every algorithm that names none.
    #[serde(default)]
    pub batch_sizes: Vec<usize>,
    /// Thread counts; none means those of the command line.
    #[serde(default)]
    pub threads: Vec<usize>,
    /// How many rounds a cell runs.
    pub rounds: RoundBudget,
    /// What an answer must pass.
    #[serde(default)]
    pub verify: Verification,
    /// What is solved.
    #[serde(rename = "problem")]
    pub problems: Vec<ProblemDefinition>,
    /// By what.
    #[serde(rename = "algorithm")]
    pub algorithms: Vec<AlgorithmDefinition>,
}

/// How many rounds a cell runs: the same in every repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RoundBudget {
    /// Examples to read in all.
    pub examples: u64,
    /// Least number of rounds.
    pub at_least: u64,
    /// Greatest number of rounds.
    pub at_most: u64,
    /// Rounds before the first timed one.
    #[serde(default)]
    pub warm_up: u64,
}

impl RoundBudget {
    /// examples / batch size, between the bounds.
    pub fn timed_rounds(&self, batch_size: usize) -> u64 {
        (self.examples / (batch_size as u64).max(1)).clamp(self.at_least, self.at_most)
    }
}

/// What an answer must pass to be kept. Everything, unless a suite says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a check of its own")]
pub struct Verification {
    /// The counted rounds are the planned ones.
    pub rounds: bool,
    /// The counted gradient queries are the planned ones (expected ones need not be).
    pub queries: bool,
    /// Model and loss are finite.
    pub finite: bool,
    /// All repeats and thread counts end with the same model.
    pub model: bool,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            rounds: true,
            queries: true,
            finite: true,
            model: true,
        }
    }
}

/// A problem of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProblemDefinition {
    /// Name of the data set.
    pub dataset: String,
    /// How rows are stored: `f32`, `u8` or `sparse`.
    #[serde(default = "as_floats")]
    pub features: String,
    /// Only where data files are at hand.
    #[serde(default)]
    pub needs_files: bool,
    /// Only for algorithms that name its data set.
    #[serde(default)]
    pub by_name: bool,
}

fn as_floats() -> String {
    "f32".into()
}

/// An algorithm of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AlgorithmDefinition {
    /// Id of the catalogue.
    pub id: String,
    /// Parameters, by the names of `rounds train`'s flags.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Parameters with several values: every combination is measured.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<Value>>,
    /// Its own batch sizes.
    #[serde(default)]
    pub batch_sizes: Vec<usize>,
    /// Its own data sets; none means all problems of the suite.
    #[serde(default)]
    pub datasets: Vec<String>,
}

/// What a command line takes from a suite. The default takes everything that needs no files, on one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Thread counts instead of the suite's; where both are empty, one thread.
    pub threads: Vec<usize>,
    /// Only these algorithms.
    pub algorithms: Vec<String>,
    /// Batch sizes instead of the suite's.
    pub batch_sizes: Vec<usize>,
    /// Repeats instead of the suite's.
    pub repeats: Option<usize>,
    /// Whether data files are at hand.
    pub files: bool,
    /// Ranks that run every cell, where there are any.
    pub ranks: Option<usize>,
}

/// One cell to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSpecification {
    /// What to measure.
    pub configuration: Configuration,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// Seed of data and noise: the same for every cell of a suite.
    pub seed: u64,
    /// Rounds before the first timed one.
    pub warm_up_rounds: u64,
    /// Timed rounds.
    pub timed_rounds: u64,
    /// What the answer must pass.
    pub verify: Verification,
}

/// All suites in the binary.
///
/// # Errors
/// A definition that does not parse; a test holds that all do.
pub fn all() -> Result<Vec<Suite>, DefinitionError> {
    EMBEDDED
        .iter()
        .map(|(name, text)| Suite::parse_named(name, text))
        .collect()
}

/// The suite with this name, or in this file (a name that ends in `.toml`).
///
/// # Errors
/// An unknown name, with the nearest; a file that cannot be read or parsed.
pub fn find(name: &str) -> Result<Suite, DefinitionError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let text = fs::read_to_string(name).map_err(|error| DefinitionError::File {
            path: name.into(),
            message: error.to_string(),
        })?;
        return Suite::parse_named(name, &text);
    }
    let (_, text) = EMBEDDED.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let suites = EMBEDDED.iter().map(|(name, _)| *name);
        let studies = crate::studies::NAMES.iter().map(|(name, _)| *name);
        unknown_name("suite", name, &suites.chain(studies).collect::<Vec<_>>())
    })?;
    Suite::parse_named(name, text)
}

impl Suite {
    /// Parses a definition and checks it.
    ///
    /// # Errors
    /// Syntax, unknown keys (with the nearest) and values that make no sense, each with its line or name.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        Self::parse_named("suite", text)
    }

    fn parse_named(name: &str, text: &str) -> Result<Self, DefinitionError> {
        let syntax = |error: &toml::de::Error| DefinitionError::Syntax {
            name: name.into(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            message: error.message().into(),
        };
        let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
        check_keys(name, text, table.get_ref())?;
        let suite: Self = toml::from_str(text).map_err(|error| syntax(&error))?;
        suite.check()?;
        Ok(suite)
    }

    /// SHA-256 over what the suite says; comments and layout do not enter.
    pub fn digest(&self) -> String {
        let canonical = serde_json::to_string(self).unwrap_or_default();
        hexadecimal(&Sha256::digest(canonical.as_bytes()))
    }

    /// Checks algorithms and data sets against those there are.
    ///
    /// # Errors
    /// The first unknown name, with the nearest.
    pub fn check_names(&self, algorithms: &[&str], datasets: &[&str]) -> Result<(), DefinitionError> {
        let known = |kind, name: &str, names: &[&str]| {
            if names.contains(&name) {
                Ok(())
            } else {
                Err(unknown_name(kind, name, names))
            }
        };
        self.algorithms
            .iter()
            .try_for_each(|algorithm| known("algorithm", &algorithm.id, algorithms))?;
        self.problems
            .iter()
            .try_for_each(|problem| known("data set", &problem.dataset, datasets))
    }

    /// The cells in the order in which they are to be measured: all cells once, then all again, for each repeat, each
    /// time in another order, drawn from the suite's seed. So drift of the machine meets all cells alike.
    ///
    /// # Errors
    /// A selection that names an algorithm the suite does not have, or leaves nothing.
    pub fn cells(&self, selection: &Selection) -> Result<Vec<CellSpecification>, DefinitionError> {
        let ids: Vec<&str> = self.algorithms.iter().map(|algorithm| algorithm.id.as_str()).collect();
        if let Some(name) = selection.algorithms.iter().find(|name| !ids.contains(&name.as_str())) {
            return Err(unknown_name("algorithm in this suite", name, &ids));
        }
        let configurations = self.configurations(selection);
        if configurations.is_empty() {
            return Err(self.invalid("nothing is left to measure: its problems need data files (--data-dir)"));
        }
        let mut cells = Vec::new();
        for repeat in 0..selection.repeats.unwrap_or(self.repeats) {
            let mut pass: Vec<CellSpecification> = configurations
                .iter()
                .map(|configuration| CellSpecification {
                    configuration: configuration.clone(),
                    repeat,
                    seed: self.seed,
                    warm_up_rounds: self.rounds.warm_up,
                    timed_rounds: self.rounds.timed_rounds(configuration.batch_size),
                    verify: self.verify,
                })
                .collect();
            Choices::new(self.seed.wrapping_add(repeat as u64)).shuffle(&mut pass);
            cells.append(&mut pass);
        }
        Ok(cells)
    }

    /// The configurations that `selection` would measure if data files were at hand, and cannot.
    pub fn without_files(&self, selection: &Selection) -> Vec<Configuration> {
        if selection.files {
            return Vec::new();
        }
        let everything = Selection {
            files: true,
            ..selection.clone()
        };
        let possible = self.configurations(selection);
        let mut all = self.configurations(&everything);
        all.retain(|configuration| !possible.contains(configuration));
        all
    }

    fn configurations(&self, selection: &Selection) -> Vec<Configuration> {
        let either = |first: &[usize], second: &[usize], third: &[usize]| -> BTreeSet<usize> {
            let chosen = [first, second, third]
                .into_iter()
                .find(|list| !list.is_empty())
                .unwrap_or(&[]);
            chosen.iter().copied().collect()
        };
        let threads = either(&selection.threads, &self.threads, &[1]);
        let mut configurations = Vec::new();
        for problem in self
            .problems
            .iter()
            .filter(|problem| selection.files || !problem.needs_files)
        {
            for algorithm in &self.algorithms {
                let chosen = selection.algorithms.is_empty() || selection.algorithms.contains(&algorithm.id);
                let named = algorithm.datasets.contains(&problem.dataset);
                let fits = named || (algorithm.datasets.is_empty() && !problem.by_name);
                if !chosen || !fits {
                    continue;
                }
                let batch_sizes = either(&selection.batch_sizes, &algorithm.batch_sizes, &self.batch_sizes);
                for parameters in algorithm.combinations() {
                    for &batch_size in &batch_sizes {
                        for &threads in &threads {
                            configurations.push(Configuration {
                                suite: self.name.clone(),
                                algorithm: algorithm.id.clone(),
                                dataset: problem.dataset.clone(),
                                features: problem.features.clone(),
                                batch_size,
                                threads,
                                ranks: selection.ranks,
                                parameters: parameters.clone(),
                            });
                        }
                    }
                }
            }
        }
        configurations
    }

    fn invalid(&self, message: impl Into<String>) -> DefinitionError {
        DefinitionError::Invalid {
            suite: self.name.clone(),
            message: message.into(),
        }
    }

    fn check(&self) -> Result<(), DefinitionError> {
        let require = |holds: bool, message: &str| if holds { Ok(()) } else { Err(self.invalid(message)) };
        let word = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
        };
        require(
            word(&self.name),
            "its name must be lower-case letters, digits and hyphens",
        )?;
        require(self.repeats > 0, "repeats must be at least 1")?;
        require(!self.threads.contains(&0), "threads must be at least 1")?;
        require(
            self.rounds.at_least > 0 && self.rounds.at_least <= self.rounds.at_most,
            "rounds: at-least must be at least 1 and no more than at-most",
        )?;
        require(!self.problems.is_empty(), "it names no [[problem]]")?;
        require(!self.algorithms.is_empty(), "it names no [[algorithm]]")?;
        for problem in &self.problems {
            let kinds = ["f32", "u8", "sparse"];
            if !kinds.contains(&problem.features.as_str()) {
                let way_out = way_out(&problem.features, &kinds);
                return Err(self.invalid(format!("unknown features '{}'; {way_out}", problem.features)));
            }
        }
        let datasets: Vec<&str> = self.problems.iter().map(|problem| problem.dataset.as_str()).collect();
        for algorithm in &self.algorithms {
            let of = |message: &str| self.invalid(format!("algorithm {}: {message}", algorithm.id));
            let batch_sizes = if algorithm.batch_sizes.is_empty() {
                &self.batch_sizes
            } else {
                &algorithm.batch_sizes
            };
            if batch_sizes.is_empty() || batch_sizes.contains(&0) {
                return Err(of("batch-sizes must be given, here or for the suite, each at least 1"));
            }
            if let Some(name) = algorithm
                .datasets
                .iter()
                .find(|name| !datasets.contains(&name.as_str()))
            {
                return Err(of(&format!(
                    "no [[problem]] has the data set '{name}'; {}",
                    way_out(name, &datasets)
                )));
            }
            if let Some((name, _)) = algorithm.sweep.iter().find(|(_, values)| values.is_empty()) {
                return Err(of(&format!("sweep.{name} has no values")));
            }
            if let Some(name) = algorithm
                .sweep
                .keys()
                .find(|name| algorithm.parameters.contains_key(*name))
            {
                return Err(of(&format!("{name} stands in both parameters and sweep; keep one")));
            }
            let scalar = |value: &Value| !value.is_object() && !value.is_array();
            if let Some((name, _)) = algorithm.parameters.iter().find(|(_, value)| !scalar(value)) {
                return Err(of(&format!("{name} must be a single value; several go into sweep")));
            }
        }
        let mut configurations = BTreeSet::new();
        let everything = Selection {
            files: true,
            ..Selection::default()
        };
        for configuration in self.configurations(&everything) {
            if !configurations.insert(configuration.key()) {
                return Err(self.invalid(format!("{} is defined twice; keep one", configuration.key())));
            }
        }
        Ok(())
    }
}

impl AlgorithmDefinition {
    /// Every combination of the swept values, with the fixed parameters.
    pub(crate) fn combinations(&self) -> Vec<BTreeMap<String, Value>> {
        let mut combinations = vec![self.parameters.clone()];
        for (name, values) in &self.sweep {
            combinations = combinations
                .into_iter()
                .flat_map(|combination| {
                    values.iter().map(move |value| {
                        let mut combination = combination.clone();
                        combination.insert(name.clone(), value.clone());
                        combination
                    })
                })
                .collect();
        }
        combinations
    }
}

/// The candidate that is nearest to a name, if any is near: few letters apart, or alike at the beginning.
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let similarity = |candidate: &str| {
        let apart = strsim::damerau_levenshtein(name, candidate);
        if apart <= (name.chars().count() / 3).max(1) {
            2.0 - apart as f64
        } else {
            strsim::jaro_winkler(name, candidate) - 1e3
        }
    };
    let near = |candidate: &str| similarity(candidate) > 0.8 - 1e3;
    candidates
        .iter()
        .copied()
        .filter(|candidate| near(candidate))
        .max_by(|first, second| similarity(first).total_cmp(&similarity(second)))
}

fn way_out(name: &str, candidates: &[&str]) -> String {
    nearest(name, candidates).map_or_else(
        || format!("it must be one of {}", candidates.join(", ")),
        |candidate| format!("did you mean '{candidate}'?"),
    )
}

fn unknown_name(kind: &'static str, name: &str, candidates: &[&str]) -> DefinitionError {
    DefinitionError::UnknownName {
        kind,
        name: name.into(),
        way_out: way_out(name, candidates),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())]
        .split(|&byte| byte == b'\n')
        .count()
}

/// Every key against the keys there are, table by table; parameters and sweeps are free.
fn check_keys(name: &str, text: &str, table: &DeTable<'_>) -> Result<(), DefinitionError> {
    const TOP: &[&str] = &[
        "name",
        "about",
        "seed",
        "repeats",
        "batch-sizes",
        "threads",
        "rounds",
        "verify",
        "problem",
        "algorithm",
    ];
    const TABLES: &[(&str, &[&str])] = &[
        ("rounds", &["examples", "at-least", "at-most", "warm-up"]),
        ("verify", &["rounds", "queries", "finite", "model"]),
        ("problem", &["dataset", "features", "needs-files", "by-name"]),
        ("algorithm", &["id", "parameters", "sweep", "batch-sizes", "datasets"]),
    ];
    let check = |table: &DeTable<'_>, place: &str, known: &[&str]| {
        table
            .keys()
            .find(|key| !known.contains(&&**key.get_ref()))
            .map_or(Ok(()), |key| {
                Err(DefinitionError::UnknownKey {
                    name: name.into(),
                    line: line_of(text, key.span().start),
                    key: key.get_ref().to_string(),
                    place: place.into(),
                    way_out: way_out(key.get_ref(), known),
                })
            })
    };
    check(table, "the suite", TOP)?;
    for (key, value) in table {
        let Some((place, known)) = TABLES.iter().find(|(place, _)| *place == &**key.get_ref()) else {
            continue;
        };
        match value.get_ref() {
            DeValue::Table(table) => check(table, &format!("[{place}]"), known)?,
            DeValue::Array(array) => {
                for table in array.iter().filter_map(|item| item.get_ref().as_table()) {
                    check(table, &format!("[[{place}]]"), known)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
name = "small"
about = "a test"
seed = 1
repeats = 2
batch-sizes = [64, 500]
[rounds]
examples = 6400
at-least = 5
at-most = 50
[[problem]]
dataset = "synthetic-mnist"
[[problem]]
dataset = "mnist"
features = "u8"
needs-files = true
[[algorithm]]
id = "sgd"
batch-sizes = [32]
[[algorithm]]
id = "dp-ftrl"
datasets = ["synthetic-mnist"]
parameters = { clip-norm = 1.0 }
sweep = { noise = ["tree", "optimal"], momentum = [0.0, 0.9] }
"#;

    fn message(text: &str) -> String {
        Suite::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_file_is_in_the_binary_under_its_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/definitions");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            // Folders hold the studies of papers, which are not suites.
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        files.sort();
        let mut names: Vec<String> = all().unwrap().into_iter().map(|suite| suite.name).collect();
        names.sort();
        assert_eq!(files, names);
        for (name, _) in EMBEDDED {
            assert_eq!(find(name).unwrap().name, *name);
        }
    }

    #[test]
    fn the_default_and_the_full_suite_measure_every_algorithm_of_the_catalogue() {
        let catalogue: Vec<&str> = rounds_algorithms::catalog::ALGORITHMS
            .iter()
            .map(|algorithm| algorithm.id)
            .collect();
        for name in ["quick", "full"] {
            let suite = find(name).unwrap();
            let cells = suite
                .cells(&Selection {
                    threads: vec![1, 2],
                    ..Selection::default()
                })
                .unwrap();
            let measured: BTreeSet<&str> = cells.iter().map(|cell| cell.configuration.algorithm.as_str()).collect();
            let missing: Vec<&&str> = catalogue.iter().filter(|id| !measured.contains(**id)).collect();
            assert!(missing.is_empty(), "{name} lacks {missing:?}");
            suite
                .check_names(
                    &catalogue,
                    &crate::data::NAMES.iter().map(|data| data.name).collect::<Vec<_>>(),
                )
                .unwrap();
            // Methods of one pass read no row of MNIST's 60,000 twice.
            for cell in &cells {
                let rows = (cell.warm_up_rounds + cell.timed_rounds) as usize * cell.configuration.batch_size;
                assert!(
                    rows <= 60_000 || !cell.configuration.algorithm.contains("accelerated"),
                    "{}",
                    cell.configuration.key()
                );
            }
            let parameters = cells.iter().map(|cell| &cell.configuration.parameters);
            for parameters in parameters {
                crate::settings::regularization(parameters).unwrap();
            }
        }
    }

    #[test]
    fn the_quick_suite_measures_dp_sgd_over_all_batch_sizes_with_and_without_files() {
        let suite = find("quick").unwrap();
        let selection = Selection {
            threads: vec![1, 2],
            algorithms: vec!["dp-sgd".into()],
            files: true,
            ..Selection::default()
        };
        let cells = suite.cells(&selection).unwrap();
        assert_eq!(cells.len(), 6 * 2 * 2 * suite.repeats);
        let without_files = Selection {
            files: false,
            ..selection.clone()
        };
        assert_eq!(suite.cells(&without_files).unwrap().len(), cells.len() / 2);
        let left_out = suite.without_files(&without_files);
        assert_eq!(left_out.len() * suite.repeats, cells.len() / 2);
        assert!(left_out.iter().all(|configuration| configuration.dataset == "mnist"));
        assert!(suite.without_files(&selection).is_empty());
        let largest = cells
            .iter()
            .find(|cell| cell.configuration.batch_size == 60_000)
            .unwrap();
        assert_eq!(largest.timed_rounds, 20);
    }

    #[test]
    fn a_problem_by_name_is_measured_by_those_who_name_it() {
        let text = SMALL.replace(
            "dataset = \"synthetic-mnist\"\n[[problem]]",
            "dataset = \"synthetic-mnist\"\nby-name = true\n[[problem]]",
        );
        assert_ne!(text, SMALL);
        let cells = Suite::parse(&text).unwrap().cells(&Selection::default()).unwrap();
        assert!(cells.iter().all(|cell| cell.configuration.algorithm == "dp-ftrl"));
        assert!(!cells.is_empty());
    }

    #[test]
    fn sweeps_filters_and_own_batch_sizes_multiply_out() {
        let suite = Suite::parse(SMALL).unwrap();
        let everything = Selection {
            files: true,
            ..Selection::default()
        };
        // sgd: 2 problems × 1 batch size; dp-ftrl: 1 problem × 2 batch sizes × 2 × 2 combinations; 2 repeats.
        assert_eq!(suite.cells(&everything).unwrap().len(), (2 + 8) * 2);
        let some = Selection {
            algorithms: vec!["dp-ftrl".into()],
            batch_sizes: vec![7],
            threads: vec![2, 1, 2],
            repeats: Some(1),
            ..Selection::default()
        };
        let cells = suite.cells(&some).unwrap();
        assert_eq!(cells.len(), 8);
        assert!(
            cells
                .iter()
                .all(|cell| cell.configuration.batch_size == 7 && cell.timed_rounds == 50)
        );
        assert!(
            cells
                .iter()
                .all(|cell| cell.configuration.parameters["clip-norm"] == 1.0)
        );
    }

    #[test]
    fn every_pass_measures_every_cell_once_in_an_order_of_its_own() {
        let suite = Suite::parse(SMALL).unwrap();
        let selection = Selection {
            threads: vec![1, 2, 3, 4],
            ..Selection::default()
        };
        let cells = suite.cells(&selection).unwrap();
        let (first, second) = cells.split_at(cells.len() / 2);
        let keys = |pass: &[CellSpecification]| pass.iter().map(|cell| cell.configuration.key()).collect::<Vec<_>>();
        assert!(first.iter().all(|cell| cell.repeat == 0) && second.iter().all(|cell| cell.repeat == 1));
        assert_ne!(keys(first), keys(second));
        assert_eq!(BTreeSet::from_iter(keys(first)), BTreeSet::from_iter(keys(second)));
        assert_eq!(cells, suite.cells(&selection).unwrap());
    }

    #[test]
    fn unknown_keys_name_their_line_and_the_nearest_key() {
        let cases = [
            (
                "repeats = 2",
                "repeat = 2",
                ":5: unknown key 'repeat' in the suite; did you mean 'repeats'?",
            ),
            (
                "at-least = 5",
                "at_least = 5",
                ":9: unknown key 'at_least' in [rounds]; did you mean 'at-least'?",
            ),
            (
                "id = \"sgd\"",
                "name = \"sgd\"",
                ":18: unknown key 'name' in [[algorithm]]; it must be one of id, ",
            ),
            (
                "needs-files",
                "need-file",
                ":16: unknown key 'need-file' in [[problem]]; did you mean 'needs-files'?",
            ),
        ];
        for (right, wrong, expected) in cases {
            let message = message(&SMALL.replace(right, wrong));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        let cases = [
            ("repeats = 2", "repeats = 0", "repeats must be at least 1"),
            ("repeats = 2", "repeats = \"two\"", "suite:5: invalid type"),
            ("repeats = 2", "repeats = ", "suite:5: "),
            ("name = \"small\"", "name = \"Small one\"", "lower-case letters"),
            ("at-most = 50", "at-most = 4", "no more than at-most"),
            (
                "features = \"u8\"",
                "features = \"u9\"",
                "unknown features 'u9'; did you mean 'u8'?",
            ),
            (
                "batch-sizes = [32]",
                "batch-sizes = [0]",
                "algorithm sgd: batch-sizes must be given",
            ),
            (
                "[\"synthetic-mnist\"]",
                "[\"synthetic\"]",
                "did you mean 'synthetic-mnist'?",
            ),
            ("[0.0, 0.9]", "[]", "sweep.momentum has no values"),
            ("{ clip-norm = 1.0 }", "{ noise = 1 }", "noise stands in both"),
            ("{ clip-norm = 1.0 }", "{ clip-norm = [1.0] }", "several go into sweep"),
            ("[0.0, 0.9]", "[0.9, 0.9]", "is defined twice"),
        ];
        for (right, wrong, expected) in cases {
            assert!(SMALL.contains(right), "{right}");
            let message = message(&SMALL.replacen(right, wrong, 1));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn unknown_names_come_with_the_nearest() {
        assert_eq!(
            find("quik").unwrap_err().to_string(),
            "there is no suite 'quik'; did you mean 'quick'?"
        );
        assert!(find("nowhere.toml").unwrap_err().to_string().contains("nowhere.toml"));
        let suite = Suite::parse(SMALL).unwrap();
        let error = suite
            .check_names(&["sgd", "dp-ftlr"], &["mnist", "synthetic-mnist"])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "there is no algorithm 'dp-ftrl'; did you mean 'dp-ftlr'?");
        assert!(
            suite
                .check_names(&["sgd", "dp-ftrl"], &["mnist"])
                .unwrap_err()
                .to_string()
                .contains("data set")
        );
        let selection = Selection {
            algorithms: vec!["sdg".into()],
            ..Selection::default()
        };
        assert!(
            suite
                .cells(&selection)
                .unwrap_err()
                .to_string()
                .contains("did you mean 'sgd'?")
        );
    }

    #[test]
    fn a_selection_that_leaves_nothing_says_why() {
        let suite = Suite::parse(&SMALL.replace(
            "dataset = \"synthetic-mnist\"\n",
            "dataset = \"synthetic-mnist\"\nneeds-files = true\n",
        ))
        .unwrap();
        assert!(
            suite
                .cells(&Selection::default())
                .unwrap_err()
                .to_string()
                .contains("--data-dir")
        );
    }

    #[test]
    fn the_digest_is_of_the_meaning_not_of_the_layout() {
        let suite = Suite::parse(SMALL).unwrap();
        assert_eq!(
            suite.digest(),
            Suite::parse(&format!("# a comment\n{SMALL}")).unwrap().digest()
        );
        assert_ne!(
            suite.digest(),
            Suite::parse(&SMALL.replace("seed = 1", "seed = 2")).unwrap().digest()
        );
    }
}

//! The six methods of paper 003 on real data under Gaussian noise, beside DP-SGD and DP-FTRL at the same (ε, δ) and
//! adjacency: final risk, rounds, gradient queries and time of the best of each method's settings.
//!
//! All methods minimise the same `F(x) = (1/n)Σφ + (λ/2)‖x‖²` on rows clipped to a public norm. Picking the best of
//! several settings on the private data spends privacy that no ε here counts; the number of settings is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::{Engine, evaluate};
use rounds_algorithms::problem::{Dataset, Problem};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data;
use crate::settings;

/// The study's definition.
pub const DEFINITION: &str = include_str!("../../../bench/definitions/paper/accelerated-real-data.toml");

/// Its name, as `rounds run` takes it.
pub const NAME: &str = "paper/accelerated-real-data";

/// Private stochastic convex optimisation against SGD without privacy: the same table with another definition.
pub const PRIVATE_SCO: (&str, &str) = ("private-sco", include_str!("../../../bench/studies/private-sco.toml"));

/// What is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Seed of the first run's noise and batches.
    pub seed: u64,
    /// Runs of a setting.
    pub runs: u64,
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Neighbouring relation of every method that names no other.
    pub adjacency: String,
    /// Data.
    #[serde(rename = "problem")]
    pub problems: Vec<ProblemDefinition>,
    /// Methods.
    #[serde(rename = "algorithm")]
    pub algorithms: Vec<AlgorithmDefinition>,
}

/// An algorithm of a suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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

/// A data set and what is minimised on it; all constants are public.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProblemDefinition {
    /// Name of the data set.
    pub dataset: String,
    /// The class against all others, for a data set of more than two.
    #[serde(default)]
    pub class: Option<u32>,
    /// L2 norm that rows are clipped to.
    pub feature_bound: f64,
    /// λ.
    pub regularization: f64,
    /// Bound on F(0) − F*: ln K, since losses are at least 0.
    pub initial_gap: f64,
    /// Runs instead of the study's.
    #[serde(default)]
    pub runs: Option<u64>,
}

/// One setting of one method on one data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Data set.
    pub dataset: String,
    /// Rows n.
    pub n: usize,
    /// Features, without the bias.
    pub dimension: usize,
    /// Id of the method.
    pub algorithm: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, Value>,
    /// Batch size; n for full batches.
    pub batch_size: usize,
    /// Rounds of a run.
    pub rounds: u64,
    /// Gradient queries of a run.
    pub gradient_queries: u64,
    /// Threads.
    pub threads: usize,
    /// Median seconds of a run, without loading, calibration and evaluation.
    pub seconds: f64,
    /// Mean of F over the runs.
    pub final_risk: f64,
    /// Its standard error.
    pub final_risk_standard_error: f64,
    /// Mean of F − F*.
    pub excess_risk: f64,
    /// Mean accuracy on the test rows, where there are any.
    pub test_accuracy: Option<f64>,
    /// The first run's privacy statement.
    pub privacy: Value,
    /// Runs.
    pub runs: u64,
}

/// A setting that a method or an accountant refuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// Data set.
    pub dataset: String,
    /// Id of the method.
    pub algorithm: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, Value>,
    /// Why.
    pub reason: String,
}

/// Everything the study found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Settings that ran.
    pub rows: Vec<Row>,
    /// Settings that were refused.
    pub refused: Vec<Refused>,
    /// F* by data set.
    pub optima: BTreeMap<String, f64>,
    /// ε and δ of every row.
    pub budget: (f64, f64),
}

/// A training problem, its test rows and F*.
struct Loaded {
    train: Problem,
    test: Option<Problem>,
    optimum: f64,
}

/// Measures all settings on the data sets that are there and writes `rows.json` and `table.md` into `out_dir`.
///
/// # Errors
/// A definition that makes no sense, no data set at all, a run that fails or spends more than the budget.
pub fn run(
    definition: &str,
    out_dir: &Path,
    data_dir: Option<&Path>,
    engine: &Engine,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Study> {
    let definition: Definition = toml::from_str(definition).context("the study's definition")?;
    fs::create_dir_all(out_dir).with_context(|| format!("{}: the folder cannot be made", out_dir.display()))?;
    let mut study = Study {
        rows: Vec::new(),
        refused: Vec::new(),
        optima: BTreeMap::new(),
        budget: (definition.epsilon, definition.delta),
    };
    for problem in &definition.problems {
        let loaded = match load(problem, data_dir, engine) {
            Ok(loaded) => loaded,
            Err(error) => {
                progress(&format!("{} is skipped: {error:#}", problem.dataset));
                continue;
            }
        };
        study.optima.insert(problem.dataset.clone(), loaded.optimum);
        progress(&format!("{}: F* = {:.6}", problem.dataset, loaded.optimum));
        for algorithm in &definition.algorithms {
            let whole = [loaded.train.rows()];
            let sizes: &[usize] = if algorithm.batch_sizes.is_empty() {
                &whole
            } else {
                &algorithm.batch_sizes
            };
            for parameters in algorithm.combinations() {
                for &batch_size in sizes {
                    let settings = definition.settings(problem, &algorithm.id, &parameters, batch_size)?;
                    let outcome = measure(&definition, problem, &loaded, algorithm, &settings, engine)?;
                    match outcome {
                        Ok(mut row) => {
                            row.parameters.clone_from(&parameters);
                            row.batch_size = batch_size;
                            progress(&line(&row));
                            study.rows.push(row);
                        }
                        Err(reason) => {
                            progress(&format!("{} {parameters:?}: refused: {reason}", algorithm.id));
                            study.refused.push(Refused {
                                dataset: problem.dataset.clone(),
                                algorithm: algorithm.id.clone(),
                                parameters: parameters.clone(),
                                reason,
                            });
                        }
                    }
                }
            }
        }
    }
    ensure!(
        !study.rows.is_empty(),
        "none of the data sets is there: give --data-dir, or set ROUNDS_DATA"
    );
    let json = out_dir.join("rows.json");
    fs::write(&json, serde_json::to_string_pretty(&study)?)
        .with_context(|| format!("{}: cannot be written", json.display()))?;
    let markdown = out_dir.join("table.md");
    fs::write(&markdown, table(&study)).with_context(|| format!("{}: cannot be written", markdown.display()))?;
    Ok(study)
}

impl Definition {
    /// The settings of one cell: the study's budget and adjacency, the method's parameters.
    fn settings(
        &self,
        problem: &ProblemDefinition,
        id: &str,
        parameters: &BTreeMap<String, Value>,
        batch_size: usize,
    ) -> anyhow::Result<Settings> {
        let mut all = parameters.clone();
        all.insert("epsilon".to_owned(), self.epsilon.into());
        all.insert("delta".to_owned(), self.delta.into());
        all.entry("adjacency".to_owned())
            .or_insert_with(|| self.adjacency.clone().into());
        if id.ends_with("-opt") {
            all.insert("initial-gap".to_owned(), problem.initial_gap.into());
        }
        let mut settings = settings::from_parameters(&all, StreamKey::Simulation(self.seed))?;
        if !catalog::find(id)?.private {
            settings.budget = Budget::NonPrivate;
            settings = settings.without("adjacency");
        }
        settings.set("batch-size", batch_size);
        Ok(settings)
    }
}

/// Loads, clips and completes a problem, and finds F*.
fn load(definition: &ProblemDefinition, data_dir: Option<&Path>, engine: &Engine) -> anyhow::Result<Loaded> {
    let loaded = data::load(&definition.dataset, data_dir)?;
    let treat = |dataset: Dataset| -> anyhow::Result<Dataset> {
        let dataset = match definition.class {
            Some(class) => dataset.one_against_rest(class)?,
            None => dataset,
        };
        let dataset = dataset.to_f32()?.clip_features(Norm::L2, definition.feature_bound)?;
        Ok(match dataset.classes() {
            Some(2) => dataset.into_binary()?,
            _ => dataset,
        })
    };
    let problem = |dataset: Dataset, regularization: f64| -> anyhow::Result<Problem> {
        let dataset = treat(dataset)?;
        let loss = if dataset.classes().is_some() {
            Loss::Softmax
        } else {
            Loss::Logistic
        };
        Ok(Problem::new(Arc::new(dataset), loss, true, regularization)?)
    };
    let train = problem(loaded.train, definition.regularization)?;
    let test = loaded.test.map(|test| problem(test, 0.0)).transpose()?;
    let optimum = minimum(&train, engine)?;
    Ok(Loaded { train, test, optimum })
}

/// F* by Nesterov's method without noise: 40·√κ rounds leave less than the rounding of f32.
fn minimum(problem: &Problem, engine: &Engine) -> anyhow::Result<f64> {
    let mut settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(0));
    let bound = problem.dataset().public_bound(Norm::L2).context("rows are clipped")?;
    let condition = (0.5 * (bound * bound + 1.0) + problem.regularization()) / problem.regularization();
    let rounds = (40.0 * condition.sqrt()).ceil();
    settings.set("rounds", rounds);
    let (solution, _, _) = train(problem, "dp-nag", &settings, engine)?;
    objective(problem, &solution, engine)
}

/// F at a point.
fn objective(problem: &Problem, point: &[f32], engine: &Engine) -> anyhow::Result<f64> {
    let squares: f64 = point.iter().map(|&x| f64::from(x).powi(2)).sum();
    let loss = evaluate(problem, engine, point)?.loss / problem.rows() as f64;
    Ok(loss + 0.5 * problem.regularization() * squares)
}

/// What a run came to: parameters, (rounds, queries), seconds.
type Trained = (Vec<f32>, (u64, u64), f64);

fn train(problem: &Problem, id: &str, settings: &Settings, engine: &Engine) -> anyhow::Result<Trained> {
    let prepared = catalog::find(id)?.prepare(problem, settings)?;
    let mut executor = Executor::new(problem, engine.clone(), prepared);
    let started = Instant::now();
    executor.run()?;
    let seconds = started.elapsed().as_secs_f64();
    let ledger = executor.ledger();
    Ok((
        executor.solution().to_vec(),
        (ledger.rounds, ledger.gradient_queries),
        seconds,
    ))
}

/// All runs of a setting, or the reason for which it is refused.
fn measure(
    definition: &Definition,
    problem: &ProblemDefinition,
    loaded: &Loaded,
    algorithm: &AlgorithmDefinition,
    settings: &Settings,
    engine: &Engine,
) -> anyhow::Result<Result<Row, String>> {
    let entry = catalog::find(&algorithm.id)?;
    let privacy = match entry.prepare(&loaded.train, settings) {
        Ok(prepared) => prepared.privacy,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let spent = match privacy.epsilon {
        Some(spent) => spent,
        None if entry.private => return Ok(Err(privacy.reason.unwrap_or_default())),
        None => 0.0,
    };
    if spent > definition.epsilon {
        bail!(
            "{}: ε = {spent} is more than the budget {}",
            algorithm.id,
            definition.epsilon
        );
    }
    let runs = problem.runs.unwrap_or(definition.runs).max(1);
    let (mut risks, mut accuracies, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = (0, 0);
    for run in 0..runs {
        let settings = Settings {
            key: StreamKey::Simulation(definition.seed + run),
            ..settings.clone()
        };
        let (solution, counted, seconds) = train(&loaded.train, &algorithm.id, &settings, engine)?;
        counts = counted;
        times.push(seconds);
        risks.push(objective(&loaded.train, &solution, engine)?);
        if let Some(test) = &loaded.test {
            let evaluation = evaluate(test, engine, &solution)?;
            accuracies.push(evaluation.correct as f64 / evaluation.rows.max(1) as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let risk = mean(&risks);
    let squares: f64 = risks.iter().map(|value| (value - risk).powi(2)).sum();
    Ok(Ok(Row {
        dataset: problem.dataset.clone(),
        n: loaded.train.rows(),
        dimension: loaded.train.model().features,
        algorithm: algorithm.id.clone(),
        parameters: BTreeMap::new(),
        batch_size: loaded.train.rows(),
        rounds: counts.0,
        gradient_queries: counts.1,
        threads: engine.threads(),
        seconds: times[times.len() / 2],
        final_risk: risk,
        final_risk_standard_error: (squares / (runs as f64 - 1.0).max(1.0) / runs as f64).sqrt(),
        excess_risk: risk - loaded.optimum,
        test_accuracy: (!accuracies.is_empty()).then(|| mean(&accuracies)),
        privacy: serde_json::to_value(&privacy)?,
        runs,
    }))
}

/// A setting in a line, for people.
fn line(row: &Row) -> String {
    format!(
        "{} {} {} B = {}: F = {:.4} ± {:.4}, {} rounds, {} queries, {:.3} s",
        row.dataset,
        row.algorithm,
        parameters(&row.parameters),
        row.batch_size,
        row.final_risk,
        row.final_risk_standard_error,
        row.rounds,
        row.gradient_queries,
        row.seconds
    )
}

/// `key value, key value`; what all settings share is left out.
fn parameters(parameters: &BTreeMap<String, Value>) -> String {
    let shown: Vec<_> = parameters
        .iter()
        .filter(|(key, _)| !["noise", "sampling", "clip-norm", "adjacency"].contains(&key.as_str()))
        .map(|(key, value)| {
            format!(
                "{key} {}",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            )
        })
        .collect();
    shown.join(", ")
}

/// The best setting of every method on every data set, as Markdown.
pub fn table(study: &Study) -> String {
    let mut text = format!(
        "ε = {}, δ = {:e} for every private row. The best of each method's settings by mean final risk; picking it on the data is \
         outside the guarantee.\n\n| data | method | setting (of tried) | adjacency | final risk F | F − F* | test accuracy | \
         rounds | queries | time |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        study.budget.0, study.budget.1
    );
    for (dataset, optimum) in &study.optima {
        let rows = study.rows.iter().filter(|row| row.dataset == *dataset);
        let mut best: Vec<(&Row, usize)> = Vec::new();
        for row in rows {
            let alike = |other: &Row| {
                (&other.algorithm, &other.privacy["adjacency"]) == (&row.algorithm, &row.privacy["adjacency"])
            };
            match best.iter_mut().find(|(other, _)| alike(other)) {
                Some((other, tried)) => {
                    *tried += 1;
                    if row.final_risk < other.final_risk {
                        *other = row;
                    }
                }
                None => best.push((row, 1)),
            }
        }
        best.sort_by(|(a, _), (b, _)| a.final_risk.total_cmp(&b.final_risk));
        for (row, tried) in best {
            let batch = if row.batch_size == row.n {
                "full batch".to_owned()
            } else {
                format!("batch {}", row.batch_size)
            };
            let own = parameters(&row.parameters);
            let setting = [batch, own]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>();
            let accuracy = row
                .test_accuracy
                .map_or_else(|| "–".to_owned(), |accuracy| format!("{:.1} %", 100.0 * accuracy));
            let _ = writeln!(
                text,
                "| {dataset} | `{}` | {} ({tried}) | {} | {:.4} ± {:.4} | {:.4} | {accuracy} | {} | {} | {} |",
                row.algorithm,
                setting.join(", "),
                row.privacy["adjacency"].as_str().unwrap_or("not private"),
                row.final_risk,
                row.final_risk_standard_error,
                row.excess_risk,
                row.rounds,
                row.gradient_queries,
                duration(row.seconds),
            );
        }
        let _ = writeln!(text, "| {dataset} | none (F*) | | | {optimum:.4} | 0 | | | | |");
    }
    text
}

fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_names_known_methods_and_gives_every_one_of_them_the_same_budget() {
        let definition: Definition = toml::from_str(DEFINITION).unwrap();
        assert_eq!(definition.name, NAME);
        let private_sco: Definition = toml::from_str(PRIVATE_SCO.1).unwrap();
        assert_eq!(private_sco.name, PRIVATE_SCO.0);
        for algorithm in definition.algorithms.iter().chain(&private_sco.algorithms) {
            assert!(catalog::find(&algorithm.id).is_ok(), "{}", algorithm.id);
            let keys = algorithm.parameters.keys().chain(algorithm.sweep.keys());
            for own in keys {
                assert!(!["epsilon", "delta"].contains(&own.as_str()), "{own}");
            }
        }
    }

    #[test]
    fn every_setting_spends_its_budget_on_generated_data_and_risks_lie_above_the_optimum() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"
            name = "small"
            about = "small"
            seed = 1
            runs = 2
            epsilon = 1.0
            delta = 1e-5
            adjacency = "replace-one"
            [[problem]]
            dataset = "synthetic-logistic"
            feature-bound = 1.0
            regularization = 0.05
            initial-gap = 0.7
            [[algorithm]]
            id = "dp-nag-opt"
            parameters = { noise = "independent" }
            sweep = { rounds = [20, 40] }
            [[algorithm]]
            id = "dp-nag"
            parameters = { noise = "independent", rounds = 5, strong-convexity = 99.0 }
        "#;
        let study = run(text, folder.path(), None, &Engine::Sequential, &mut |_| {}).unwrap();
        assert_eq!((study.rows.len(), study.refused.len()), (2, 1));
        assert!(
            study.refused[0].reason.contains("exceeds smoothness"),
            "{}",
            study.refused[0].reason
        );
        for row in &study.rows {
            assert!(row.excess_risk > -1e-6 && row.excess_risk < 0.1, "{row:?}");
            assert_eq!(row.privacy["claim"], "simulation");
            assert_eq!(row.gradient_queries, row.rounds * 100_000);
        }
        let table = fs::read_to_string(folder.path().join("table.md")).unwrap();
        assert_eq!(table.lines().filter(|line| line.contains("`dp-nag-opt`")).count(), 1);
        assert!(table.contains("(2)"), "{table}");
    }
}

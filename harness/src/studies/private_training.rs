//! Studies of many private training runs: a paper's table or figure as settings of the catalogue's algorithms, each run
//! with many seeds, beside the published numbers.
//!
//! Data are loaded once, strategies are factorised once and kept on disk, runs are spread over the threads one run a
//! thread. Every finished run is a line of `runs.jsonl` and is not run again. The result does not depend on threads.

pub mod presentation;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rayon::prelude::*;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, Budget, Settings};
use rounds_algorithms::oracle::{self, Engine};
use rounds_algorithms::problem::Problem;
use rounds_algorithms::problem::planted::PlantedLogistic;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::intervals;
use crate::{data, settings};
use rounds_algorithms::hexadecimal;

/// Parameters of an algorithm: flags of `rounds train` without their dashes, `batch-size` and `rounds`, and what is
/// passed on as `--set key=value`.
type Parameters = BTreeMap<String, Value>;

/// What a study runs, as TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// The suite's name.
    pub name: String,
    /// Title of table and figure.
    pub title: String,
    /// Where the published numbers stand.
    #[serde(default)]
    pub source: String,
    /// Runs of a setting, with seeds `seed`, `seed + 1`, …
    pub runs: usize,
    /// First seed.
    #[serde(default = "one")]
    pub seed: u64,
    /// Confidence level of the intervals of means.
    #[serde(default = "default_level")]
    pub level: f64,
    /// Parts of the table, panels of the figure.
    #[serde(rename = "panel")]
    pub panels: Vec<PanelDefinition>,
}

fn one() -> u64 {
    1
}

fn default_level() -> f64 {
    0.95
}

/// A data set and what is the same for all methods on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PanelDefinition {
    /// What it shows.
    pub label: String,
    /// A data set by name, or `planted-logistic`, whose population risk is known.
    pub dataset: String,
    /// Rows and columns of generated data, norm of its planted model.
    #[serde(default)]
    pub rows: Option<usize>,
    /// See `rows`.
    #[serde(default)]
    pub dimension: Option<usize>,
    /// See `rows`.
    #[serde(default)]
    pub norm: Option<f64>,
    /// Runs instead of the study's.
    #[serde(default)]
    pub runs: Option<usize>,
    /// The value to reach: rounds and queries up to it are counted, at rounds that grow by a twentieth.
    #[serde(default)]
    pub target: Option<f64>,
    /// Parameters of all methods.
    #[serde(default)]
    pub parameters: Parameters,
    /// The parameter along the horizontal axis (or `rows`), and its values.
    #[serde(default)]
    pub vary: Option<Vary>,
    /// The methods.
    #[serde(rename = "method")]
    pub methods: Vec<MethodDefinition>,
}

/// A horizontal axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The parameter.
    pub key: String,
    /// Its values.
    pub values: Vec<f64>,
}

/// A row of the table, a curve of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MethodDefinition {
    /// Its name.
    pub label: String,
    /// Id in the catalogue.
    pub algorithm: String,
    /// Parameters, over those of the panel.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters of which every combination is tried; the best one is shown.
    #[serde(default)]
    pub grid: BTreeMap<String, Vec<Value>>,
    /// Values of the horizontal axis that this method is run at; all of them without.
    #[serde(default)]
    pub only: Option<Vec<f64>>,
    /// The published number and the half width of its interval.
    #[serde(default)]
    pub published: Option<f64>,
    /// See `published`.
    #[serde(default)]
    pub published_interval: Option<f64>,
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of test examples classified rightly, in percent: more is better.
    TestAccuracy,
    /// Population risk above its minimum: less is better.
    ExcessRisk,
}

/// A finished run: a line of `runs.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// SHA-256 of the setting: data, algorithm and all parameters.
    pub setting: String,
    /// Seed of noise and sampling.
    pub seed: u64,
    /// Its value in the study's metric.
    pub value: f64,
    /// Adaptive rounds.
    pub rounds: u64,
    /// Gradient queries.
    pub gradient_queries: u64,
    /// Share of the clipped contributions.
    pub clipped: f64,
    /// Seconds of the rounds, on one thread, without preparation and evaluation.
    pub seconds: f64,
    /// Rounds and queries when the target was first seen to be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_target: Option<(u64, u64)>,
}

/// A setting with the mean of its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// SHA-256 of the setting.
    pub setting: String,
    /// The method's label.
    pub method: String,
    /// Id in the catalogue.
    pub algorithm: String,
    /// All parameters.
    pub parameters: Parameters,
    /// The horizontal axis, if there is one.
    pub x: Option<f64>,
    /// Runs.
    pub runs: usize,
    /// Mean of the metric.
    pub mean: f64,
    /// Ends of the interval of the mean.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Standard deviation of a run.
    pub standard_deviation: f64,
    /// Adaptive rounds of a run (mean).
    pub rounds: f64,
    /// Gradient queries of a run (mean).
    pub gradient_queries: f64,
    /// Gradient queries over examples.
    pub epochs: f64,
    /// Share of clipped contributions.
    pub clipped: f64,
    /// Median seconds of a run's rounds on one thread, while the other threads ran others.
    pub seconds: f64,
    /// ε that the run guarantees.
    pub epsilon: Option<f64>,
    /// release, simulation or none.
    pub claim: String,
    /// Noise multiplier.
    pub noise_multiplier: Option<f64>,
    /// The published number and the half width of its interval.
    pub published: Option<f64>,
    /// See `published`.
    pub published_interval: Option<f64>,
    /// Median rounds and queries to the target, if more than half of the runs reached it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_target: Option<(u64, u64)>,
    /// Whether it is the best of its method's grid at this place.
    pub best: bool,
}

/// A finished panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// What it shows.
    pub label: String,
    /// The data set.
    pub dataset: String,
    /// Examples (of the last data set, where rows vary).
    pub n: usize,
    /// The metric.
    pub metric: Metric,
    /// The parameter along the horizontal axis.
    pub vary: Option<String>,
    /// The value that rounds and queries are counted to.
    #[serde(default)]
    pub target: Option<f64>,
    /// All settings.
    pub outcomes: Vec<Outcome>,
    /// Settings that could not be prepared, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A finished study as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The suite's name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Where the published numbers stand.
    pub source: String,
    /// Confidence level of the intervals.
    pub level: f64,
    /// The panels.
    pub panels: Vec<Panel>,
    /// Wall-clock seconds of this call, and runs that it made.
    pub seconds: f64,
    /// See `seconds`.
    pub runs_made: usize,
}

/// What runs are evaluated on.
enum Judge {
    Test(Box<Problem>),
    Planted(PlantedLogistic),
}

/// A loaded data set.
struct Loaded {
    train: Problem,
    judge: Judge,
    digest: String,
}

/// A setting that is ready to run.
struct Ready {
    data: Arc<Loaded>,
    algorithm: &'static Algorithm,
    settings: Settings,
    outcome: Outcome,
    runs: usize,
    target: Option<f64>,
}

/// Runs what `definition` (TOML) asks for and is not in `folder` yet, on `threads` threads, and writes `runs.jsonl`,
/// `study.json`, `table.md` and one `panel-N.svg` a panel with a horizontal axis. `runs` replaces the definition's number.
///
/// # Errors
/// A definition that makes no sense, data that are not there, a run that fails, a folder that cannot be written.
pub fn run(
    definition: &str,
    folder: &Path,
    data_dir: Option<&Path>,
    threads: usize,
    runs: Option<usize>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Study> {
    let started = Instant::now();
    let mut definition: Definition = toml::from_str(definition).context("the study's definition")?;
    if let Some(runs) = runs {
        definition.runs = runs;
        definition.panels.iter_mut().for_each(|panel| panel.runs = None);
    }
    fs::create_dir_all(folder).with_context(|| format!("{}: the folder cannot be made", folder.display()))?;
    let mut bench = Bench {
        data_dir,
        loaded: HashMap::new(),
        strategies: StrategyMemory::filled_from(crate::factorization_cache::source()),
    };
    let kept = folder.join("runs.jsonl");
    let mut finished = read_runs(&kept)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build()?;
    let mut panels = Vec::new();
    let mut runs_made = 0;
    for panel in &definition.panels {
        let (ready, left_out) = bench.ready(&definition, panel, progress)?;
        let done: HashSet<(String, u64)> = finished.iter().map(|run| (run.setting.clone(), run.seed)).collect();
        let missing: Vec<(&Ready, u64)> = ready
            .iter()
            .flat_map(|ready| (0..ready.runs as u64).map(move |run| (ready, definition.seed + run)))
            .filter(|(ready, seed)| !done.contains(&(ready.outcome.setting.clone(), *seed)))
            .collect();
        runs_made += missing.len();
        finished.extend(make_runs(&pool, &missing, &kept, &panel.label, progress)?);
        panels.push(summary(panel, &definition, ready, left_out, &finished));
    }
    let study = Study {
        name: definition.name,
        title: definition.title,
        source: definition.source,
        level: definition.level,
        panels,
        seconds: started.elapsed().as_secs_f64(),
        runs_made,
    };
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    };
    write("study.json", serde_json::to_string_pretty(&study)?)?;
    Ok(study)
}

/// Runs `missing` on `pool`, keeps each as soon as it is finished, and says how long the rest will take.
fn make_runs(
    pool: &rayon::ThreadPool,
    missing: &[(&Ready, u64)],
    kept: &Path,
    label: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Run>> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(kept)
        .with_context(|| format!("{} cannot be written", kept.display()))?;
    let stopped = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let mut made = Vec::new();
    std::thread::scope(|scope| {
        let stopped = &stopped;
        scope.spawn(move || {
            pool.install(|| {
                missing
                    .par_iter()
                    .with_max_len(1)
                    .for_each_with(sender, |sender, (ready, seed)| {
                        if !stopped.load(Ordering::Relaxed) {
                            // The receiver only leaves early after an error, and then the result is not wanted.
                            let _ = sender.send(ready.run(*seed));
                        }
                    });
            });
        });
        let started = Instant::now();
        let mut said = Instant::now();
        for outcome in &receiver {
            let kept = outcome.and_then(|run| {
                writeln!(file, "{}", serde_json::to_string(&run)?).context("a finished run cannot be kept")?;
                Ok(run)
            });
            match kept {
                Ok(run) => made.push(run),
                Err(error) => {
                    stopped.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            if said.elapsed() > Duration::from_secs(5) || made.len() == missing.len() {
                said = Instant::now();
                let left = started
                    .elapsed()
                    .mul_f64((missing.len() - made.len()) as f64 / made.len() as f64);
                progress(&format!(
                    "{label}: {} of {} runs, {} left",
                    made.len(),
                    missing.len(),
                    minutes(left)
                ));
            }
        }
        Ok(())
    })?;
    Ok(made)
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

/// The runs that a file holds; a line that was cut off by an interruption is left out.
fn read_runs(path: &Path) -> anyhow::Result<Vec<Run>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let runs: Vec<Run> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if !text.is_empty() && !text.ends_with('\n') {
        // What is appended next begins on a line of its own.
        let lines: Vec<String> = runs.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        fs::write(path, lines.join("\n") + "\n").with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(runs)
}

/// Data and strategies, shared by all settings.
struct Bench<'a> {
    data_dir: Option<&'a Path>,
    loaded: HashMap<String, Arc<Loaded>>,
    strategies: StrategyMemory,
}

impl Bench<'_> {
    /// All settings of a panel, calibrated.
    fn ready(
        &mut self,
        definition: &Definition,
        panel: &PanelDefinition,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<(Vec<Ready>, Vec<String>)> {
        let places: Vec<Option<f64>> = match &panel.vary {
            Some(vary) => vary.values.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let (mut ready, mut left_out) = (Vec::new(), Vec::new());
        for method in &panel.methods {
            for &x in &places {
                let runs_here = |only: &Vec<f64>| x.is_some_and(|x| only.contains(&x));
                if !method.only.as_ref().is_none_or(runs_here) {
                    continue;
                }
                let mut common = panel.parameters.clone();
                common.extend(method.parameters.clone());
                let mut rows = panel.rows;
                if let (Some(vary), Some(x)) = (&panel.vary, x) {
                    if vary.key == "rows" {
                        rows = Some(x as usize);
                    } else {
                        common.insert(vary.key.clone(), serde_json::json!(x));
                    }
                }
                let data = self.load(panel, rows)?;
                for choice in combinations(&method.grid) {
                    let mut parameters = common.clone();
                    parameters.extend(choice);
                    let started = Instant::now();
                    let runs = panel.runs.unwrap_or(definition.runs);
                    match self.prepare(&data, method, parameters, x, (runs, panel.target))? {
                        Ok(setting) => ready.push(setting),
                        Err(reason) => {
                            progress(&format!("{}: left out: {reason}", panel.label));
                            left_out.push(reason);
                        }
                    }
                    if started.elapsed() > Duration::from_secs(2) {
                        progress(&format!(
                            "{}: {} is ready after {:.1} s",
                            panel.label,
                            method.label,
                            started.elapsed().as_secs_f64()
                        ));
                    }
                }
            }
        }
        if ready.is_empty() {
            bail!("{}: no setting can be run: {}", panel.label, left_out.join("; "));
        }
        Ok((ready, left_out))
    }

    /// A setting: factorised, calibrated, with what it guarantees; or why the algorithm refuses it.
    fn prepare(
        &self,
        data: &Arc<Loaded>,
        method: &MethodDefinition,
        parameters: Parameters,
        x: Option<f64>,
        (runs, target): (usize, Option<f64>),
    ) -> anyhow::Result<Result<Ready, String>> {
        let algorithm = catalog::find(&method.algorithm)?;
        let mut settings = settings::from_parameters(&parameters, StreamKey::Simulation(0))?;
        settings.strategies = self.strategies.clone();
        let prepared = match algorithm.prepare(&data.train, &settings) {
            Ok(prepared) => prepared,
            Err(error) => {
                let parameters = serde_json::to_string(&parameters)?;
                return Ok(Err(format!("{} with {parameters}: {error}", method.label)));
            }
        };
        // The noise is calibrated once; runs take it as it is.
        if let (Budget::Target { delta, .. }, Some(noise_multiplier)) =
            (settings.budget, prepared.privacy.noise_multiplier)
        {
            settings.budget = Budget::NoiseMultiplier {
                noise_multiplier,
                delta,
            };
        }
        let identity = serde_json::to_string(&(&data.digest, algorithm.id, &parameters, target))?;
        let claim = serde_json::to_value(prepared.privacy.claim)?;
        let outcome = Outcome {
            setting: hexadecimal(&Sha256::digest(identity.as_bytes())),
            method: method.label.clone(),
            algorithm: algorithm.id.to_owned(),
            parameters,
            x,
            runs: 0,
            mean: f64::NAN,
            low: f64::NAN,
            high: f64::NAN,
            standard_deviation: f64::NAN,
            rounds: 0.0,
            gradient_queries: 0.0,
            epochs: 0.0,
            clipped: 0.0,
            seconds: 0.0,
            epsilon: prepared.privacy.epsilon,
            claim: claim.as_str().unwrap_or_default().to_owned(),
            noise_multiplier: prepared.privacy.noise_multiplier,
            published: method.published,
            published_interval: method.published_interval,
            to_target: None,
            best: false,
        };
        Ok(Ok(Ready {
            data: Arc::clone(data),
            algorithm,
            settings,
            outcome,
            runs,
            target,
        }))
    }

    /// The data of a panel, loaded once.
    fn load(&mut self, panel: &PanelDefinition, rows: Option<usize>) -> anyhow::Result<Arc<Loaded>> {
        let key = format!("{} {rows:?} {:?} {:?}", panel.dataset, panel.dimension, panel.norm);
        if let Some(loaded) = self.loaded.get(&key) {
            return Ok(Arc::clone(loaded));
        }
        let loaded = if panel.dataset == "planted-logistic" {
            let (Some(rows), Some(dimension)) = (rows, panel.dimension) else {
                bail!("{}: planted-logistic needs rows and dimension", panel.label);
            };
            let planted = PlantedLogistic::new(dimension, panel.norm.unwrap_or(5.0), 1);
            let train = planted.dataset(rows, 2);
            Loaded {
                digest: hexadecimal(&train.digest()),
                train: Problem::new(Arc::new(train), Loss::Logistic, false, 0.0)?,
                judge: Judge::Planted(planted),
            }
        } else {
            // The study keeps hashes that a digest of the rows enters.
            if data::NAMES.iter().all(|name| name.name != panel.dataset) {
                bail!(
                    "{}: '{}' is no data set that has a name; studies are of public data only",
                    panel.label,
                    panel.dataset
                );
            }
            let data = data::load(&panel.dataset, self.data_dir)?;
            let Some(test) = data.test else {
                bail!("{}: the data set {} has no test rows", panel.label, panel.dataset);
            };
            Loaded {
                digest: hexadecimal(&data.train.digest()),
                train: Problem::new(Arc::new(data.train), Loss::Softmax, true, 0.0)?,
                judge: Judge::Test(Box::new(Problem::new(Arc::new(test), Loss::Softmax, true, 0.0)?)),
            }
        };
        let loaded = Arc::new(loaded);
        self.loaded.insert(key, Arc::clone(&loaded));
        Ok(loaded)
    }
}

/// Every combination of a grid, in the order of its keys.
fn combinations(grid: &BTreeMap<String, Vec<Value>>) -> Vec<Parameters> {
    grid.iter().fold(vec![Parameters::new()], |choices, (key, values)| {
        choices
            .iter()
            .flat_map(|choice| {
                values.iter().map(|value| {
                    let mut choice = choice.clone();
                    choice.insert(key.clone(), value.clone());
                    choice
                })
            })
            .collect()
    })
}

impl Ready {
    /// One run from its first round to its judgement.
    fn run(&self, seed: u64) -> anyhow::Result<Run> {
        let settings = Settings {
            key: StreamKey::Simulation(seed),
            ..self.settings.clone()
        };
        let prepared = self.algorithm.prepare(&self.data.train, &settings)?;
        let mut executor = Executor::new(&self.data.train, Engine::Sequential, prepared);
        let mut seconds = 0.0;
        let (mut next_look, mut to_target) = (1, None);
        while !executor.is_finished() {
            let started = Instant::now();
            let last = executor.rounds();
            let until = if self.target.is_some() && to_target.is_none() {
                last.min(next_look)
            } else {
                last
            };
            while executor.round() < until {
                executor
                    .advance()
                    .with_context(|| format!("{}, seed {seed}", self.outcome.method))?;
            }
            seconds += started.elapsed().as_secs_f64();
            next_look = until + 1 + until / 20;
            if let Some(target) = self.target
                && to_target.is_none()
                && self
                    .data
                    .judge
                    .reaches(self.data.judge.value(executor.solution())?, target)
            {
                to_target = Some((executor.ledger().rounds, executor.ledger().gradient_queries));
            }
        }
        let value = self.data.judge.value(executor.solution())?;
        let ledger = executor.ledger();
        Ok(Run {
            setting: self.outcome.setting.clone(),
            seed,
            value,
            rounds: ledger.rounds,
            gradient_queries: ledger.gradient_queries,
            clipped: ledger.clipped as f64 / ledger.clippable.max(1) as f64,
            seconds,
            to_target,
        })
    }
}

impl Judge {
    fn metric(&self) -> Metric {
        match self {
            Self::Test(_) => Metric::TestAccuracy,
            Self::Planted(_) => Metric::ExcessRisk,
        }
    }

    /// The metric's value of a model.
    fn value(&self, parameters: &[f32]) -> anyhow::Result<f64> {
        Ok(match self {
            Self::Test(test) => {
                let evaluation = oracle::evaluate(test, &Engine::Sequential, parameters)?;
                100.0 * evaluation.correct as f64 / evaluation.rows as f64
            }
            Self::Planted(planted) => planted.excess_risk(parameters),
        })
    }

    fn reaches(&self, value: f64, target: f64) -> bool {
        self.metric().compare(value, target).is_ge()
    }
}

impl Metric {
    /// Greater is better.
    fn compare(self, one: f64, other: f64) -> std::cmp::Ordering {
        match self {
            Self::TestAccuracy => one.total_cmp(&other),
            Self::ExcessRisk => other.total_cmp(&one),
        }
    }
}

/// Means, intervals and the best of every grid.
fn summary(
    panel: &PanelDefinition,
    definition: &Definition,
    ready: Vec<Ready>,
    left_out: Vec<String>,
    finished: &[Run],
) -> Panel {
    let mut by_setting: HashMap<&str, Vec<&Run>> = HashMap::new();
    for run in finished {
        by_setting.entry(&run.setting).or_default().push(run);
    }
    let n = ready.last().map_or(0, |ready| ready.data.train.rows());
    let metric = ready
        .first()
        .map_or(Metric::TestAccuracy, |ready| ready.data.judge.metric());
    let mut outcomes: Vec<Outcome> = ready
        .into_iter()
        .map(|ready| {
            let mut runs = by_setting
                .get(ready.outcome.setting.as_str())
                .cloned()
                .unwrap_or_default();
            runs.sort_by_key(|run| run.seed);
            runs.retain(|run| run.seed < definition.seed + ready.runs as u64);
            let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
            let mean_of =
                |value: &dyn Fn(&Run) -> f64| runs.iter().map(|run| value(run)).sum::<f64>() / runs.len().max(1) as f64;
            let interval = intervals::of_mean(&values, definition.level);
            let mut seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
            seconds.sort_by(f64::total_cmp);
            let gradient_queries = mean_of(&|run| run.gradient_queries as f64);
            Outcome {
                runs: runs.len(),
                mean: interval.mean,
                low: interval.low,
                high: interval.high,
                standard_deviation: interval.standard_deviation,
                rounds: mean_of(&|run| run.rounds as f64),
                gradient_queries,
                epochs: gradient_queries / ready.data.train.rows() as f64,
                clipped: mean_of(&|run| run.clipped),
                seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN),
                to_target: median_to_target(&runs),
                ..ready.outcome
            }
        })
        .collect();
    for index in 0..outcomes.len() {
        let one = &outcomes[index];
        let rivals = outcomes
            .iter()
            .filter(|other| other.method == one.method && other.x == one.x);
        // The first of equals.
        let best = rivals.fold(None::<&Outcome>, |best, other| match best {
            Some(best) if metric.compare(other.mean, best.mean).is_le() => Some(best),
            _ => Some(other),
        });
        let is_best = best.is_some_and(|best| std::ptr::eq(best, one));
        outcomes[index].best = is_best;
    }
    Panel {
        label: panel.label.clone(),
        dataset: panel.dataset.clone(),
        n,
        metric,
        vary: panel.vary.as_ref().map(|vary| vary.key.clone()),
        target: panel.target,
        outcomes,
        left_out,
    }
}

/// The middle run by rounds, runs that missed the target at the end; nothing if the middle one did.
fn median_to_target(runs: &[&Run]) -> Option<(u64, u64)> {
    let mut reached: Vec<(u64, u64)> = runs
        .iter()
        .map(|run| run.to_target.unwrap_or((u64::MAX, u64::MAX)))
        .collect();
    reached.sort_unstable();
    reached
        .get(reached.len() / 2)
        .copied()
        .filter(|(rounds, _)| *rounds != u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        title = "small"
        runs = 3
        level = 0.9

        [[panel]]
        label = "planted"
        dataset = "planted-logistic"
        rows = 1500
        dimension = 5
        norm = 3.0
        target = 0.05
        parameters = { epsilon = 5.0, delta = 1e-5, batch-size = 50 }
        vary = { key = "epsilon", values = [1, 20] }

        [[panel.method]]
        label = "SRG"
        algorithm = "dp-srg-memf"
        parameters = { epochs = 2, noise = "optimal", clip-norm = 1.0 }
        grid = { learning-rate = [0.0001, 0.2] }

        [[panel.method]]
        label = "accelerated"
        algorithm = "accelerated-dp-srg"
        only = [20]
    "#;

    fn small(folder: &Path, threads: usize) -> Study {
        run(SMALL, folder, None, threads, None, &mut |_| {}).unwrap()
    }

    #[test]
    fn finished_runs_are_kept_and_a_line_cut_off_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let first = small(folder.path(), 2);
        // Two places times two step sizes, and one, times three runs.
        assert_eq!((first.panels[0].outcomes.len(), first.runs_made), (5, 15));
        let path = folder.path().join("runs.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 30]).unwrap();
        let second = small(folder.path(), 1);
        assert_eq!(second.runs_made, 1);
        let third = small(folder.path(), 1);
        assert_eq!(third.runs_made, 0);
        for study in [&second, &third] {
            for (one, other) in first.panels[0].outcomes.iter().zip(&study.panels[0].outcomes) {
                // The same models, whatever the number of threads; times are measured.
                let without_time = |outcome: &Outcome| Outcome {
                    seconds: 0.0,
                    ..outcome.clone()
                };
                assert_eq!(without_time(one), without_time(other));
            }
        }
        let table = fs::read_to_string(folder.path().join("table.md")).unwrap();
        assert!(table.contains("| SRG |") && table.contains("accelerated"), "{table}");
        assert!(
            fs::read_to_string(folder.path().join("panel-1.svg"))
                .unwrap()
                .contains("<svg")
        );
    }

    #[test]
    fn the_best_of_a_grid_is_marked_and_targets_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let study = small(folder.path(), 1);
        let outcomes = &study.panels[0].outcomes;
        for x in [1.0, 20.0] {
            let best: Vec<&Outcome> = outcomes
                .iter()
                .filter(|outcome| outcome.method == "SRG" && outcome.x == Some(x) && outcome.best)
                .collect();
            assert_eq!(best.len(), 1);
            assert_eq!(best[0].parameters["learning-rate"], serde_json::json!(0.2));
        }
        for outcome in outcomes {
            assert!(outcome.low <= outcome.mean && outcome.mean <= outcome.high && outcome.runs == 3);
            assert!(outcome.epsilon.unwrap() <= outcome.x.unwrap() && outcome.claim == "simulation");
            let slow = outcome.parameters.get("learning-rate") == Some(&serde_json::json!(0.0001));
            assert_eq!(outcome.to_target.is_some(), !slow, "{outcome:?}");
            if let Some((rounds, queries)) = outcome.to_target {
                assert!(rounds as f64 <= outcome.rounds && queries as f64 <= outcome.gradient_queries);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let fails = |from: &str, to: &str| {
            let error = run(&SMALL.replace(from, to), folder.path(), None, 1, None, &mut |_| {}).unwrap_err();
            format!("{error:#}")
        };
        assert!(fails("dp-srg-memf", "dp-srg-mmf").contains("dp-srg-memf"));
        assert!(fails("batch-size = 50", "batch-size = 0.5").contains("batch-size = 0.5"));
        assert!(fails("rows = 1500", "").contains("needs rows"));
        assert!(fails("level = 0.9", "levels = 0.9").contains("levels"));
    }
}

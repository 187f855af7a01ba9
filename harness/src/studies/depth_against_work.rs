//! Query depth against total work: every runnable method of paper 002's Table I to a gap of ε, measured.
//!
//! A cell runs one method on one function until its point has a gap of at most ε (exact values, outside the clock, at
//! rounds that grow by 2 %) and keeps rounds, queries, computational depth, and the time of its parts: rounds of queries,
//! reweighted mini-batches, and the rest. From these, `rounds simulate` predicts other machines
//! ([`crate::prediction::queries`]).
//!
//! Finished cells are kept line by line, so that a study that is stopped goes on where it was.

pub mod presentation;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rounds_algorithms::oracle::{Engine, Ledger};
use rounds_algorithms::problem::Labels;
use rounds_algorithms::resque::ResqueError;
use rounds_algorithms::resque::black_box::{BlackBox, BlackBoxOracle};
use rounds_algorithms::resque::cutting_plane::{Centre, CuttingPlane};
use rounds_algorithms::resque::estimator::{OracleMode, RadiusRule};
use rounds_algorithms::resque::functions::{LinearLoss, MaxOfLinear, PlantedRegression};
use rounds_algorithms::resque::parallel::{Constants, Outer, ParallelParameters, ParallelResque, Solver};
use rounds_algorithms::resque::pool::{GradientPool, PoolMethod};
use rounds_algorithms::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};
use rounds_algorithms::resque::subgradient::Subgradient;
use rounds_algorithms::theory::parallel::Method as Theory;
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};

use super::exponents::{self, Exponent};
use crate::data;
use crate::machine::Build;

/// The study's definition.
pub const DEFINITION: &str = include_str!("../../../bench/studies/depth-against-work.toml");

/// Its name, as `rounds run` takes it.
pub const NAME: &str = "depth-against-work";

/// What is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Seed of functions, queries and levels.
    pub seed: u64,
    /// Thread counts; the first one's cells are those that exponents are fitted to.
    pub threads: Vec<usize>,
    /// Queries after which a cell is given up.
    pub most_queries: u64,
    /// Seconds after which a cell is given up.
    pub most_seconds: f64,
    /// Seconds on the first number of threads above which a cell is not measured on the others: they are there for the
    /// model, which short cells tell as much of.
    pub most_seconds_again: f64,
    /// Functions.
    #[serde(rename = "family")]
    pub families: Vec<Family>,
    /// Methods.
    #[serde(rename = "method")]
    pub methods: Vec<MethodDefinition>,
}

/// A family of functions over dimensions and accuracies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Family {
    /// Which functions.
    pub kind: Kind,
    /// Dimensions; those of the data for hinge.
    #[serde(default)]
    pub dimensions: Vec<usize>,
    /// Target gaps ε, with L = R = 1.
    pub accuracies: Vec<f64>,
    /// Pairs of rows of the regression.
    #[serde(default)]
    pub pairs: Option<usize>,
    /// Standard deviation of the regression's deviations.
    #[serde(default)]
    pub deviation: Option<f64>,
    /// The hinge loss's data.
    #[serde(default)]
    pub dataset: Option<String>,
}

/// A kind of function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// [`MaxOfLinear`].
    MaxOfLinear,
    /// [`PlantedRegression`].
    L1Regression,
    /// The mean hinge loss of a data set.
    Hinge,
}

/// A method and where it is run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MethodDefinition {
    /// Which one.
    pub id: Method,
    /// Largest dimension.
    #[serde(default)]
    pub most_dimensions: Option<usize>,
}

/// A runnable method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Stochastic subgradients, one query a round.
    Sgd,
    /// Accelerated descent on a smoothed function.
    RandomizedSmoothing,
    /// Cutting planes with analytic centres.
    CuttingPlane,
    /// Ball acceleration with EpochSGD and line search.
    ResqueEpochSgd,
    /// Ball acceleration with AC-SA and line search.
    ResqueAcSa,
    /// Ball acceleration with AC-SA, without a line search.
    ResqueBisectionFree,
}

impl Cell {
    /// A cell before its first round.
    pub fn unmeasured(family: Kind, algorithm: &str, dimension: usize, accuracy: f64, threads: usize) -> Self {
        Self {
            family,
            algorithm: algorithm.to_owned(),
            dimension,
            accuracy,
            threads,
            reached: false,
            start_gap: f64::INFINITY,
            gap: f64::INFINITY,
            rounds: 0,
            gradient_queries: 0,
            computational_depth: 0,
            seconds: 0.0,
            query_seconds: 0.0,
            work: Work::default(),
        }
    }

    /// Whether its counts say something of the method: it reached its target, from a start well above it.
    pub fn tells(&self) -> bool {
        self.reached && self.start_gap > 2.0 * self.accuracy
    }
}

impl Method {
    /// The id in tables and results.
    pub fn id(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::RandomizedSmoothing => "randomized-smoothing",
            Self::CuttingPlane => "cutting-plane",
            Self::ResqueEpochSgd => "resque-epoch-sgd",
            Self::ResqueAcSa => "resque-ac-sa",
            Self::ResqueBisectionFree => "resque-bisection-free",
        }
    }

    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Sgd,
        Self::RandomizedSmoothing,
        Self::CuttingPlane,
        Self::ResqueEpochSgd,
        Self::ResqueAcSa,
        Self::ResqueBisectionFree,
    ];

    /// The row of Table I; the bisection-free variant is held against Theorem 2.
    pub fn theory(self) -> Theory {
        match self {
            Self::Sgd => Theory::Sgd,
            Self::RandomizedSmoothing => Theory::RandomizedSmoothing,
            Self::CuttingPlane => Theory::CuttingPlane,
            Self::ResqueEpochSgd => Theory::ResqueEpochSgd,
            Self::ResqueAcSa | Self::ResqueBisectionFree => Theory::ResqueAcceleratedSa,
        }
    }
}

/// A measured cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The function's kind.
    pub family: Kind,
    /// The method.
    pub algorithm: String,
    /// d.
    pub dimension: usize,
    /// ε.
    pub accuracy: f64,
    /// Threads.
    pub threads: usize,
    /// Whether the gap reached ε; the counts are those at the end otherwise.
    pub reached: bool,
    /// Gap of the start, 0.
    pub start_gap: f64,
    /// Final gap.
    pub gap: f64,
    /// Adaptive rounds.
    pub rounds: u64,
    /// Gradient queries.
    pub gradient_queries: u64,
    /// Dependent vector operations.
    pub computational_depth: u64,
    /// Seconds, without evaluations of the gap.
    pub seconds: f64,
    /// Seconds of them in rounds of more than one query. Files that know one parallel part have that here.
    #[serde(alias = "parallel_seconds")]
    pub query_seconds: f64,
    /// Reweighted mini-batches.
    #[serde(flatten)]
    pub work: Work,
}

/// Reweighted mini-batches of more than one sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Seconds in them.
    #[serde(default)]
    pub reweight_seconds: f64,
    /// Their number.
    #[serde(default)]
    pub reweightings: u64,
    /// Samples in them.
    #[serde(default)]
    pub reweighted: u64,
}

/// A fitted exponent beside the theory's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedExponent {
    /// The family.
    pub family: Kind,
    /// The method.
    pub algorithm: String,
    /// `rounds` or `gradient_queries`.
    pub quantity: String,
    /// `dimension` or `1/accuracy`.
    pub variable: String,
    /// Table I.
    pub theory: f64,
    /// The fit.
    #[serde(flatten)]
    pub exponent: Exponent,
    /// Cells it rests on.
    pub cells: usize,
}

/// Everything the study found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Cells in the order in which they were measured.
    pub cells: Vec<Cell>,
    /// Fits.
    pub exponents: Vec<FittedExponent>,
    /// What a round costs two threads of one process beside its work ([`exchange_seconds`]), in seconds; 0 in files that do not
    /// know it.
    #[serde(default)]
    pub exchange_seconds: f64,
}

impl Study {
    /// JSON with a line a cell.
    ///
    /// # Errors
    /// Never: numbers and names can be written.
    pub fn document(&self) -> Result<String, serde_json::Error> {
        let cells = self.cells.iter().map(serde_json::to_string);
        let exponents = self.exponents.iter().map(serde_json::to_string);
        let (cells, exponents): (Result<Vec<_>, _>, Result<Vec<_>, _>) = (cells.collect(), exponents.collect());
        Ok(format!(
            "{{\"exchange_seconds\": {:e}, \"cells\": [\n{}\n], \"exponents\": [\n{}\n]}}\n",
            self.exchange_seconds,
            cells?.join(",\n"),
            exponents?.join(",\n")
        ))
    }
}

/// A function with its exact minimum.
pub trait Known: BlackBox {
    /// f(x) − min f.
    fn gap(&self, point: &[f64]) -> f64;
}

impl Known for MaxOfLinear {
    fn gap(&self, point: &[f64]) -> f64 {
        self.value(point)
    }
}

/// A mean loss with its minimum, or the best value known.
struct Measured<'a> {
    loss: LinearLoss<'a>,
    minimum: f64,
}

impl BlackBox for Measured<'_> {
    type Answer = <LinearLoss<'static> as BlackBox>::Answer;

    fn dimension(&self) -> usize {
        self.loss.dimension()
    }

    fn lipschitz(&self) -> f64 {
        self.loss.lipschitz()
    }

    fn query(&self, point: &[f32], choice: u64) -> Self::Answer {
        self.loss.query(point, choice)
    }

    fn add(&self, answer: &Self::Answer, weight: f32, sum: &mut [f32]) -> bool {
        self.loss.add(answer, weight, sum)
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.loss.value(point)
    }
}

impl Known for Measured<'_> {
    fn gap(&self, point: &[f64]) -> f64 {
        self.value(point) - self.minimum
    }
}

/// A pool that times what may run on all threads. A single query or sample is one task: no thread can help.
struct TimedPool<'p, 'c> {
    pool: &'p mut dyn GradientPool,
    cell: &'c mut Cell,
}

impl GradientPool for TimedPool<'_, '_> {
    fn dimension(&self) -> usize {
        self.pool.dimension()
    }

    fn lipschitz(&self) -> f64 {
        self.pool.lipschitz()
    }

    fn mode(&self) -> OracleMode {
        self.pool.mode()
    }

    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<(), ResqueError> {
        let started = Instant::now();
        let outcome = self.pool.fetch(centre, radius, count);
        if count > 1 {
            self.cell.query_seconds += started.elapsed().as_secs_f64();
        }
        outcome
    }

    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<(), ResqueError> {
        if samples.len() == 1 {
            return self.pool.reweighted_mean(samples, offset, mean);
        }
        self.cell.work.reweightings += 1;
        self.cell.work.reweighted += samples.len() as u64;
        let started = Instant::now();
        let outcome = self.pool.reweighted_mean(samples, offset, mean);
        self.cell.work.reweight_seconds += started.elapsed().as_secs_f64();
        outcome
    }

    fn ledger(&self) -> Ledger {
        self.pool.ledger()
    }
}

/// One method, as a loop of rounds.
enum Run {
    Subgradient(Subgradient),
    Smoothing(RandomizedSmoothing),
    Cutting { run: CuttingPlane, best: Option<Vec<f64>> },
    Resque(Box<ParallelResque>),
}

impl Run {
    fn new(
        method: Method,
        dimension: usize,
        lipschitz: f64,
        accuracy: f64,
        key: StreamKey,
    ) -> Result<Self, ResqueError> {
        let resque = |solver, outer| {
            let parameters = ParallelParameters {
                domain_radius: 1.0,
                accuracy,
                lipschitz,
                radius_rule: RadiusRule::WorstCase,
                solver,
                outer,
                constants: Constants::practical(),
            };
            ParallelResque::new(parameters, vec![0.0; dimension], key).map(|run| Self::Resque(Box::new(run)))
        };
        Ok(match method {
            Method::Sgd => Self::Subgradient(Subgradient::for_accuracy(dimension, lipschitz, 1.0, accuracy, 1)?),
            Method::RandomizedSmoothing => {
                let parameters = SmoothingParameters::for_accuracy(dimension, lipschitz, 1.0, accuracy, 1.0)?;
                Self::Smoothing(RandomizedSmoothing::new(dimension, parameters)?)
            }
            Method::CuttingPlane => {
                // A stochastic gradient needs (LR/ε)² queries for its error to stay below ε/R.
                let batch = (lipschitz / accuracy).powi(2).ceil() as usize;
                let run = CuttingPlane::for_accuracy(Centre::Analytic, dimension, lipschitz, 1.0, accuracy, batch)?;
                Self::Cutting { run, best: None }
            }
            Method::ResqueEpochSgd => resque(Solver::EpochSgd, Outer::LineSearch)?,
            Method::ResqueAcSa => resque(Solver::AcceleratedSa, Outer::LineSearch)?,
            Method::ResqueBisectionFree => resque(Solver::AcceleratedSa, Outer::BisectionFree)?,
        })
    }

    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<(), ResqueError> {
        match self {
            Self::Subgradient(run) => run.advance(pool),
            Self::Smoothing(run) => run.advance(pool),
            Self::Cutting { run, .. } => run.advance(pool),
            Self::Resque(run) => run.advance(pool),
        }
    }

    fn finished(&self) -> bool {
        match self {
            Self::Subgradient(run) => run.finished(),
            Self::Smoothing(run) => run.finished(),
            Self::Cutting { run, .. } => run.finished(),
            // Practical constants give up the proof that the potential's end is the target: go on until the gap says so.
            Self::Resque(run) => run.rounds() >= run.most_rounds(),
        }
    }

    /// The gap of the point that the method would return now.
    fn gap(&mut self, function: &impl Known) -> f64 {
        match self {
            Self::Subgradient(run) => function.gap(&run.average()),
            Self::Smoothing(run) => function.gap(run.iterate()),
            Self::Cutting { run, best } => {
                // The best visited centre so far.
                let here = function.gap(run.queried());
                let before = best.as_ref().map_or(f64::INFINITY, |point| function.gap(point));
                if here < before {
                    *best = Some(run.queried().to_vec());
                }
                here.min(before)
            }
            Self::Resque(run) => function.gap(run.iterate()),
        }
    }

    fn depth(&self, rounds: u64) -> u64 {
        match self {
            Self::Resque(run) => run.computational_depth(),
            _ => rounds,
        }
    }
}

/// When a cell is given up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Queries.
    pub most_queries: u64,
    /// Seconds.
    pub most_seconds: f64,
}

/// Runs `method` on `function` until the gap is at most `accuracy`.
///
/// # Errors
/// A method that refuses its parameters, an engine that cannot start.
pub fn measure<F: Known>(
    function: &F,
    family: Kind,
    method: Method,
    accuracy: f64,
    threads: usize,
    seed: u64,
    limits: Limits,
) -> anyhow::Result<Cell> {
    let engine = Engine::with_threads(threads)?;
    let dimension = function.dimension();
    let mut oracle = BlackBoxOracle::new(function, engine.clone(), StreamKey::Simulation(seed));
    let mut run = Run::new(
        method,
        dimension,
        function.lipschitz(),
        accuracy,
        StreamKey::Simulation(seed),
    )?;
    let mut cell = Cell::unmeasured(family, method.id(), dimension, accuracy, threads);
    cell.start_gap = function.gap(&vec![0.0; dimension]);
    // Worker threads take tasks without leaving the pool; function values are taken outside the clock.
    engine.install(|| -> anyhow::Result<()> {
        let mut next = 1;
        let wall = Instant::now();
        loop {
            let started = Instant::now();
            let mut pool = TimedPool {
                pool: &mut oracle,
                cell: &mut cell,
            };
            let outcome = run.advance(&mut pool);
            cell.seconds += started.elapsed().as_secs_f64();
            match outcome {
                Err(ResqueError::TooManyQueries { .. }) => return Ok(()),
                other => other?,
            }
            let ledger = oracle.ledger();
            cell.rounds = ledger.rounds;
            cell.gradient_queries = ledger.gradient_queries;
            cell.computational_depth = run.depth(ledger.rounds);
            let over = ledger.gradient_queries > limits.most_queries
                || cell.seconds > limits.most_seconds
                || wall.elapsed().as_secs_f64() > 4.0 * limits.most_seconds;
            let last = run.finished() || over;
            if ledger.rounds >= next || last || matches!(run, Run::Cutting { .. }) {
                cell.gap = run.gap(function);
                cell.reached = cell.gap <= accuracy;
                next = ledger.rounds + 1 + ledger.rounds / 50;
            }
            if cell.reached || last {
                return Ok(());
            }
        }
    })?;
    Ok(cell)
}

/// The function of the hard family for a target: m = min(d, 1/(4ε)²), at least 1.
///
/// # Errors
/// A dimension of 0.
pub fn hard_function(dimension: usize, accuracy: f64) -> Result<MaxOfLinear, ResqueError> {
    let coordinates = ((0.25 / accuracy).powi(2).ceil() as usize).clamp(1, dimension.max(1));
    MaxOfLinear::new(dimension, coordinates, 1.0, 1.0)
}

/// The study's definition.
///
/// # Errors
/// Never for the one in the binary; kept as an error so that an edited file says what is wrong.
pub fn definition() -> anyhow::Result<Definition> {
    toml::from_str(DEFINITION).context("bench/studies/depth-against-work.toml")
}

/// Cells that are done, a line each in a file, until the study is complete.
pub struct Finished {
    path: PathBuf,
    file: File,
    cells: HashMap<String, Cell>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct FinishedCell {
    setting: String,
    cell: Cell,
}

impl Finished {
    /// The cells of `cells.jsonl` in `folder`, which is made if it is not there. A last line that was cut off is measured
    /// again, and so is what another build or definition measured.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("cells.jsonl");
        let text = if path.exists() {
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?
        } else {
            String::new()
        };
        let cells = text
            .lines()
            .filter_map(|line| serde_json::from_str::<FinishedCell>(line).ok())
            .map(|line| (line.setting, line.cell))
            .collect();
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { path, file, cells })
    }

    fn keep(&mut self, setting: String, cell: Cell) -> anyhow::Result<Cell> {
        let line = FinishedCell { setting, cell };
        writeln!(self.file, "{}", serde_json::to_string(&line)?)
            .with_context(|| format!("{} cannot be written", self.path.display()))?;
        self.cells.insert(line.setting, line.cell.clone());
        Ok(line.cell)
    }

    /// Removes the file: the study's own holds the cells.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("{} cannot be removed", self.path.display()))
    }
}

/// What is measured for one function.
struct Bench<'d> {
    definition: &'d Definition,
    family: &'d Family,
    dimension: usize,
    accuracies: &'d [f64],
}

impl Bench<'_> {
    /// Every cell: ε, method, threads.
    fn settings(&self) -> impl Iterator<Item = (f64, Method, usize)> {
        let methods = self.definition.methods.iter().filter(|method| {
            let most = method.most_dimensions.unwrap_or(usize::MAX);
            self.dimension <= most
        });
        let methods: Vec<Method> = methods.map(|method| method.id).collect();
        let threads = &self.definition.threads;
        self.accuracies.iter().flat_map(move |&accuracy| {
            let methods = methods.clone().into_iter();
            methods.flat_map(move |method| threads.iter().map(move |&threads| (accuracy, method, threads)))
        })
    }

    /// What makes a cell the same: all that its numbers depend on.
    fn key(&self, (accuracy, method, threads): (f64, Method, usize)) -> String {
        let Definition {
            seed,
            most_queries,
            most_seconds,
            ..
        } = self.definition;
        let Family {
            kind,
            pairs,
            deviation,
            dataset,
            ..
        } = self.family;
        format!(
            "{kind:?} {pairs:?} {deviation:?} {dataset:?} d={} ε={accuracy} {} threads={threads} seed={seed} \
             most={most_queries},{most_seconds} {}",
            self.dimension,
            method.id(),
            Build::current().identity()
        )
    }

    fn is_finished(&self, finished: &Finished) -> bool {
        self.settings()
            .all(|setting| finished.cells.contains_key(&self.key(setting)))
    }

    /// Measures the cells that are not finished. A method that was given up is not tried at smaller ε, and one that took
    /// long on the first number of threads is not run on others.
    fn measure<F: Known>(
        &self,
        function: &F,
        finished: &mut Finished,
        cells: &mut Vec<Cell>,
        report: &mut impl FnMut(&Cell),
    ) -> anyhow::Result<()> {
        let Definition {
            seed,
            most_queries,
            most_seconds,
            ..
        } = *self.definition;
        let limits = Limits {
            most_queries,
            most_seconds,
        };
        for setting in self.settings() {
            let (accuracy, method, threads) = setting;
            let mut before = cells.iter().filter(|cell| {
                cell.family == self.family.kind && cell.algorithm == method.id() && cell.dimension == self.dimension
            });
            let first = before.clone().find(|cell| cell.accuracy == accuracy);
            let long = first.is_some_and(|cell| cell.seconds > self.definition.most_seconds_again);
            if long || before.any(|cell| !cell.reached && cell.accuracy >= accuracy) {
                continue;
            }
            let key = self.key(setting);
            let cell = if let Some(cell) = finished.cells.get(&key) {
                cell.clone()
            } else {
                let cell = measure(function, self.family.kind, method, accuracy, threads, seed, limits)?;
                report(&cell);
                finished.keep(key, cell)?
            };
            cells.push(cell);
        }
        Ok(())
    }
}

/// Measures all cells that are not finished yet; `report` is told each one as it is done.
///
/// # Errors
/// A method that refuses its parameters, a file that cannot be written. A data set that is not there is skipped with a
/// word on stderr.
pub fn run(
    definition: &Definition,
    data_dir: Option<&Path>,
    finished: &mut Finished,
    mut report: impl FnMut(&Cell),
) -> anyhow::Result<Study> {
    let mut cells = Vec::new();
    for family in &definition.families {
        match family.kind {
            Kind::MaxOfLinear => {
                for &dimension in &family.dimensions {
                    for &accuracy in &family.accuracies {
                        let bench = Bench {
                            definition,
                            family,
                            dimension,
                            accuracies: &[accuracy],
                        };
                        let function = hard_function(dimension, accuracy)?;
                        bench.measure(&function, finished, &mut cells, &mut report)?;
                    }
                }
            }
            Kind::L1Regression => {
                for &dimension in &family.dimensions {
                    let pairs = family.pairs.unwrap_or(1_000);
                    let planted =
                        PlantedRegression::new(dimension, pairs, 2.0, family.deviation.unwrap_or(0.1), definition.seed);
                    let function = Measured {
                        loss: planted.function(),
                        minimum: planted.minimum,
                    };
                    let bench = Bench {
                        definition,
                        family,
                        dimension,
                        accuracies: &family.accuracies,
                    };
                    bench.measure(&function, finished, &mut cells, &mut report)?;
                }
            }
            Kind::Hinge => {
                let name = family.dataset.as_deref().unwrap_or("a9a");
                let loaded = match data::load(name, data_dir) {
                    Ok(loaded) => loaded,
                    Err(error) => {
                        eprintln!("rounds: {NAME}: hinge on {name} is skipped: {error:#}");
                        continue;
                    }
                };
                let train = loaded.train.into_binary()?.clip_features(Norm::L2, 1.0)?;
                let Labels::Values(targets) = train.labels() else {
                    anyhow::bail!("{name}: hinge loss needs ±1 targets");
                };
                let loss = LinearLoss::new(train.rows(), targets, Loss::Hinge)?;
                let bench = Bench {
                    definition,
                    family,
                    dimension: loss.dimension(),
                    accuracies: &family.accuracies,
                };
                let minimum = if bench.is_finished(finished) {
                    f64::NAN
                } else {
                    reference_value(&loss, definition.seed)?
                };
                let function = Measured { loss, minimum };
                bench.measure(&function, finished, &mut cells, &mut report)?;
            }
        }
    }
    let exponents = fit_all(&cells, definition.threads.first().copied().unwrap_or(1));
    Ok(Study {
        cells,
        exponents,
        exchange_seconds: exchange_seconds(2)?,
    })
}

/// What a round costs `threads` threads of one process beside its work: starting the others and waiting for the last. The
/// median of rounds in which every thread works for some time, after as long a pause, as between rounds. A round in which a
/// thread did another's work, because that one came too late, took longer than all that were measured; where most are such,
/// all work longer: from 20 µs up to 1.28 ms, which is the answer where threads hardly ever work at the same time.
///
/// # Errors
/// Threads that cannot be started.
pub fn exchange_seconds(threads: usize) -> anyhow::Result<f64> {
    const ROUNDS: usize = 1_001;
    let engine = Engine::with_threads(threads)?;
    let typical = |work: Duration| {
        let spin = || {
            let started = Instant::now();
            while started.elapsed() < work {
                std::hint::spin_loop();
            }
        };
        engine.install(|| {
            let mut workers = vec![0; threads];
            let mut seconds = [(); ROUNDS].map(|()| {
                spin();
                let started = Instant::now();
                engine.for_each(&mut workers, &|own, worker| {
                    *own = worker;
                    spin();
                });
                let seconds = started.elapsed().saturating_sub(work).as_secs_f64();
                workers.sort_unstable();
                let each_worked = workers.windows(2).all(|pair| pair[0] < pair[1]);
                if each_worked { seconds } else { f64::INFINITY }
            });
            seconds.sort_unstable_by(f64::total_cmp);
            seconds[ROUNDS / 2]
        })
    };
    let mut work = Duration::from_micros(20);
    let mut exchange = typical(work);
    while exchange.is_infinite() && work < Duration::from_millis(1) {
        work *= 2;
        exchange = typical(work);
    }
    Ok(if exchange.is_infinite() {
        work.as_secs_f64()
    } else {
        exchange
    })
}

/// The least value that a long run of accelerated smoothing finds in the unit ball: an upper bound on the minimum, so
/// that reported gaps may be too small by the run's own error.
fn reference_value(loss: &LinearLoss<'_>, seed: u64) -> anyhow::Result<f64> {
    let dimension = loss.dimension();
    let mut oracle = BlackBoxOracle::new(loss, Engine::default(), StreamKey::Simulation(seed ^ 0x5eed));
    let parameters = SmoothingParameters {
        domain_radius: 1.0,
        lipschitz: loss.lipschitz(),
        smoothing: 0.005,
        rounds: 600,
        batch: 20_000,
    };
    let mut run = RandomizedSmoothing::new(dimension, parameters)?;
    while !run.finished() {
        run.advance(&mut oracle)?;
    }
    Ok(loss.value(run.iterate()))
}

/// A cell in a line, for people.
pub fn line(cell: &Cell) -> String {
    let outcome = if cell.reached { "reached" } else { "NOT reached" };
    format!(
        "{:?} d = {} ε = {} {} on {} threads: {outcome} (gap {:.4}) in {} rounds, {} queries, depth {}, {:.3} s",
        cell.family,
        cell.dimension,
        cell.accuracy,
        cell.algorithm,
        cell.threads,
        cell.gap,
        cell.rounds,
        cell.gradient_queries,
        cell.computational_depth,
        cell.seconds
    )
}

/// Exponents of depth and queries in d and 1/ε, from the cells that reached their target on `threads` threads.
pub fn fit_all(cells: &[Cell], threads: usize) -> Vec<FittedExponent> {
    let mut fits = Vec::new();
    for family in [Kind::MaxOfLinear, Kind::L1Regression, Kind::Hinge] {
        for method in Method::ALL {
            let used: Vec<&Cell> = cells
                .iter()
                .filter(|cell| {
                    cell.family == family && cell.algorithm == method.id() && cell.threads == threads && cell.tells()
                })
                .collect();
            let varies = used.iter().any(|cell| cell.dimension != used[0].dimension);
            let (theory_depth, theory_queries) = (method.theory().depth_exponents(), method.theory().query_exponents());
            let quantities: [(&str, fn(&Cell) -> f64, (f64, f64)); 2] = [
                ("rounds", |cell| cell.rounds as f64, theory_depth),
                ("gradient_queries", |cell| cell.gradient_queries as f64, theory_queries),
            ];
            for (quantity, value, (of_dimension, of_accuracy)) in quantities {
                let rows: Vec<_> = used
                    .iter()
                    .map(|cell| {
                        let mut variables = vec![1.0 / cell.accuracy];
                        if varies {
                            variables.push(cell.dimension as f64);
                        }
                        (variables, value(cell))
                    })
                    .collect();
                let Some(found) = exponents::fit(&rows) else { continue };
                let names = [("1/accuracy", of_accuracy), ("dimension", of_dimension)];
                for (exponent, (variable, theory)) in found.into_iter().zip(names) {
                    fits.push(FittedExponent {
                        family,
                        algorithm: method.id().to_owned(),
                        quantity: quantity.to_owned(),
                        variable: variable.to_owned(),
                        theory,
                        exponent,
                        cells: rows.len(),
                    });
                }
            }
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_in_the_binary_is_valid() {
        let definition = definition().unwrap();
        assert_eq!(definition.name, NAME);
        assert!(definition.methods.len() == Method::ALL.len() && definition.families.len() == 3);
        assert!(toml::from_str::<Definition>(&DEFINITION.replace("seed", "seeds")).is_err());
    }

    #[test]
    fn every_method_reaches_a_target_and_counts_do_not_depend_on_threads() {
        let limits = Limits {
            most_queries: 5_000_000,
            most_seconds: 20.0,
        };
        let function = hard_function(16, 0.1).unwrap();
        for method in Method::ALL {
            let cells: Vec<_> = [1, 2]
                .map(|threads| measure(&function, Kind::MaxOfLinear, method, 0.1, threads, 3, limits).unwrap())
                .into();
            for cell in &cells {
                assert!(cell.reached && cell.gap <= 0.1, "{cell:?}");
                assert!(cell.rounds > 0 && cell.gradient_queries >= cell.rounds);
                assert!(cell.computational_depth >= cell.rounds);
                assert!(cell.query_seconds + cell.work.reweight_seconds <= cell.seconds);
                assert!(cell.work.reweighted >= 2 * cell.work.reweightings);
            }
            let counts = |cell: &Cell| {
                (
                    cell.rounds,
                    cell.gradient_queries,
                    cell.computational_depth,
                    cell.gap.to_bits(),
                )
            };
            assert_eq!(counts(&cells[0]), counts(&cells[1]), "{method:?}");
        }
    }

    #[test]
    fn a_study_that_was_stopped_goes_on_with_the_same_cells() {
        let folder = tempfile::tempdir().unwrap();
        let mut definition = definition().unwrap();
        definition.families.truncate(1);
        definition.families[0].dimensions = vec![16];
        definition.families[0].accuracies = vec![0.16, 0.08];
        definition.methods.truncate(2);
        let study = |definition: &Definition| {
            let (mut measured, mut finished) = (0, Finished::in_folder(folder.path()).unwrap());
            let study = run(definition, None, &mut finished, |_| measured += 1).unwrap();
            (study, measured)
        };
        let (whole, measured) = study(&definition);
        assert_eq!((measured, whole.cells.len()), (8, 8));
        let document = whole.document().unwrap();
        assert_eq!(serde_json::from_str::<Study>(&document).unwrap(), whole);
        assert!(document.lines().count() >= 8);
        // The last line is cut off as by a process that is killed.
        let path = folder.path().join("cells.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 40]).unwrap();
        let (again, measured) = study(&definition);
        assert_eq!(measured, 1);
        assert_eq!(again.cells[..7], whole.cells[..7]);
        assert_eq!(study(&definition).1, 0);
        // Cells of another definition are not taken.
        definition.seed += 1;
        assert_eq!(study(&definition).1, 8);
        Finished::in_folder(folder.path()).unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_cell_that_is_given_up_says_so() {
        let function = hard_function(64, 0.02).unwrap();
        let limits = Limits {
            most_queries: 10,
            most_seconds: 5.0,
        };
        let cell = measure(&function, Kind::MaxOfLinear, Method::Sgd, 0.02, 1, 3, limits).unwrap();
        assert!(!cell.reached && cell.gradient_queries == 11);
    }

    #[test]
    fn fits_take_only_cells_that_reached_their_target() {
        let cell = |dimension: usize, accuracy: f64, reached: bool| Cell {
            reached,
            start_gap: 4.0 * accuracy,
            rounds: if reached { (accuracy.powi(-2)).round() as u64 } else { 1 },
            gradient_queries: 7,
            ..Cell::unmeasured(Kind::MaxOfLinear, "sgd", dimension, accuracy, 1)
        };
        let mut cells = vec![cell(16, 0.001, false)];
        for dimension in [16, 64] {
            for accuracy in [0.1, 0.05, 0.02] {
                cells.push(cell(dimension, accuracy, true));
            }
        }
        let fits = fit_all(&cells, 1);
        let slope = fits
            .iter()
            .find(|fit| fit.quantity == "rounds" && fit.variable == "1/accuracy")
            .unwrap();
        assert!((slope.exponent.measured - 2.0).abs() < 1e-6 && slope.theory == 2.0 && slope.cells == 6);
        assert!(fit_all(&cells, 2).is_empty());
    }
}

//! Thread scaling: what a round takes on 1, 2, … threads, with the batch fixed (strong scaling) and with the rows a thread
//! fixed (weak scaling); speed-up, efficiency and the serial fraction that the speed-ups tell of, each with its interval.
//!
//! With T(p, B) the time of a round of B rows on p threads:
//!
//! - strong: S(p) = T(1, B) / T(p, B), efficiency S(p)/p, and Amdahl's law T(p)/T(1) = s + (1 − s)/p;
//! - weak: S(p) = p·T(1, B) / T(p, p·B), efficiency S(p)/p, and Gustafson's law S(p) = p − s·(p − 1), where s is a share of
//!   the time on p threads.
//!
//! The unit of evidence is a repeat: S(p) is the median over the repeats of the ratio of the two medians that one repeat
//! measured side by side, and intervals are percentiles of a bootstrap over repeats, the same ones for all thread counts.
//! A serial fraction below 0 says that more threads did better than their number, as caches that add up do.

pub mod presentation;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rounds_algorithms::catalog;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::Budget;
use rounds_algorithms::oracle::Engine;
use rounds_algorithms::problem::{Dataset, Problem};
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::round_time::RoundBudget;
use crate::cluster::Traffic;
use crate::machine::{Disturbance, Environment, Pinning, Watch, disturbances, measured_disturbances};
use crate::statistics::{Choices, Interval, SampleWarning, bootstrap_median, examine, median, percentile_interval};
use crate::{data, measure, settings};

/// The study's definition.
pub const DEFINITION: &str = include_str!("../../../bench/studies/scaling.toml");

/// Its name, as `rounds run` takes it.
pub const NAME: &str = "scaling";

/// Resamples of the bootstrap.
const RESAMPLES: usize = 4_000;
const LEVEL: f64 = 0.95;

/// What is measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// The data set.
    pub dataset: String,
    /// Seed of orders, noise and sampling.
    pub seed: u64,
    /// How often each cell is measured.
    pub repeats: usize,
    /// Rounds of a cell in a repeat.
    pub rounds: RoundBudget,
    /// By what.
    #[serde(rename = "method")]
    pub methods: Vec<MethodDefinition>,
}

/// A method on one format of rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MethodDefinition {
    /// How it is called in tables and figures.
    pub label: String,
    /// Id of the catalogue.
    pub algorithm: String,
    /// `u8` or `f32`.
    pub features: String,
    /// Parameters, by the names of `rounds train`'s flags.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Batch sizes of strong scaling.
    #[serde(default)]
    pub strong: Vec<usize>,
    /// Rows a thread of weak scaling.
    #[serde(default)]
    pub weak: Vec<usize>,
}

/// The definition in the binary.
///
/// # Errors
/// A definition that does not parse; a test holds that it does.
pub fn definition() -> anyhow::Result<Definition> {
    Ok(toml::from_str(DEFINITION)?)
}

/// What stays the same while threads are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The batch.
    Strong,
    /// The rows a thread.
    Weak,
}

impl Kind {
    /// The batch on `threads` threads of a curve of `size`.
    pub fn batch_size(self, size: usize, threads: usize) -> usize {
        match self {
            Self::Strong => size,
            Self::Weak => size * threads,
        }
    }
}

/// A number and its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    fn new(value: f64, interval: Interval) -> Self {
        Self {
            value,
            low: interval.low,
            high: interval.high,
        }
    }

    /// Both ends and the value divided by a positive number.
    fn over(self, divisor: f64) -> Self {
        Self {
            value: self.value / divisor,
            low: self.low / divisor,
            high: self.high / divisor,
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.2} ({:.2} – {:.2})", self.value, self.low, self.high)
    }
}

/// Times of one method, batch size and thread count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The method's label.
    pub method: String,
    /// What its curve holds fixed.
    pub kind: Kind,
    /// The batch, or the rows a thread.
    pub size: usize,
    /// Examples a round.
    pub batch_size: usize,
    /// Threads.
    pub threads: usize,
    /// Nanoseconds of every timed round, by repeat.
    pub samples: Vec<Vec<u64>>,
    /// Median over all rounds, in nanoseconds, with its interval.
    pub round_ns: Estimate,
    /// What makes any repeat's samples untrustworthy, each kind once.
    pub warnings: Vec<SampleWarning>,
}

impl Cell {
    fn repeat_medians(&self) -> Vec<f64> {
        self.samples
            .iter()
            .map(|samples| median(&as_numbers(samples)))
            .collect()
    }
}

/// One point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Threads.
    pub threads: usize,
    /// Examples a round.
    pub batch_size: usize,
    /// S(p).
    pub speedup: Estimate,
    /// S(p)/p.
    pub efficiency: Estimate,
}

/// Speed-up of a method against threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The method's label.
    pub method: String,
    /// Id of the catalogue.
    pub algorithm: String,
    /// Format of rows.
    pub features: String,
    /// What stays the same.
    pub kind: Kind,
    /// Batch size (strong) or rows a thread (weak).
    pub size: usize,
    /// By threads, 1 first.
    pub points: Vec<Point>,
    /// Serial fraction: Amdahl's for strong scaling, Gustafson's for weak; none on one thread alone.
    pub serial_fraction: Option<Estimate>,
}

impl Curve {
    /// `DP-SGD, bytes, B = 8000`, or with rows a thread.
    pub fn label(&self) -> String {
        match self.kind {
            Kind::Strong => format!("{}, B = {}", self.method, self.size),
            Kind::Weak => format!("{}, {} rows a thread", self.method, self.size),
        }
    }
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// Machine, its state, the build and the rooflines by thread count, measured before.
    pub environment: Environment,
    /// Thread counts.
    pub threads: Vec<usize>,
    /// How often each cell was measured.
    pub repeats: usize,
    /// Times.
    pub cells: Vec<Cell>,
    /// What they come to.
    pub curves: Vec<Curve>,
    /// What disturbed the measurement, each with its remedy.
    pub warnings: Vec<String>,
    /// Wall-clock of it all.
    pub seconds: f64,
}

/// What a person may change.
pub struct Options<'a> {
    /// Where files of data sets lie.
    pub data_dir: Option<&'a Path>,
    /// Thread counts instead of those up to the number of cores; 1 is always among them.
    pub threads: Vec<usize>,
    /// Instead of the definition's.
    pub repeats: Option<usize>,
    /// Only these algorithms; none means all.
    pub algorithms: Vec<String>,
    /// How threads are bound.
    pub pinning: Pinning,
}

/// Thread counts that show a curve: all up to 4, then three for each doubling, and all cores.
pub fn thread_counts(cores: usize) -> Vec<usize> {
    let steps =
        (0..).flat_map(|power: u32| [4 << power, 5 << power, 6 << power, 7 << power].map(|count| count as usize));
    let mut counts: Vec<usize> = (1..4).chain(steps.take_while(|&count| count < cores)).collect();
    counts.retain(|&count| count <= cores && (count < 8 || count.is_multiple_of(2)));
    counts.push(cores.max(1));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// A cell to measure.
struct Plan<'d> {
    method: &'d MethodDefinition,
    kind: Kind,
    size: usize,
    threads: usize,
}

/// Method, kind, size and threads: what a cell is.
type Key = (String, Kind, usize, usize);

/// Measures everything and fits.
///
/// # Errors
/// Data that cannot be loaded, algorithms that cannot be prepared, threads that cannot be bound, and models that differ
/// between thread counts.
pub fn run(definition: &Definition, options: &Options<'_>, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Study> {
    let started = Instant::now();
    let cores = crate::machine::Topology::detect().cores;
    let mut threads = if options.threads.is_empty() {
        thread_counts(cores)
    } else {
        options.threads.clone()
    };
    threads.push(1);
    threads.sort_unstable();
    threads.dedup();
    let methods: Vec<&MethodDefinition> = definition
        .methods
        .iter()
        .filter(|method| options.algorithms.is_empty() || options.algorithms.contains(&method.algorithm))
        .collect();
    ensure!(!methods.is_empty(), "{NAME} measures none of the algorithms asked for");
    progress("measuring peak and bandwidth for each thread count");
    let environment = Environment::capture_pinned(&threads, &options.pinning);
    let loaded = data::load(&definition.dataset, options.data_dir)?.train;
    let mut bench = Bench {
        definition,
        loaded,
        problems: BTreeMap::new(),
        engines: threads
            .iter()
            .map(|&count| Ok((count, options.pinning.engine(count)?)))
            .collect::<anyhow::Result<_>>()?,
        strategies: StrategyMemory::default(),
        multipliers: BTreeMap::new(),
        models: BTreeMap::new(),
    };
    let repeats = options.repeats.unwrap_or(definition.repeats).max(1);
    let mut groups = groups(&methods, &threads);
    let rows = bench.loaded.len();
    for group in &mut groups {
        group.retain(|plan| plan.kind.batch_size(plan.size, plan.threads) <= rows);
    }
    let watch = Watch::start();
    let mut samples: BTreeMap<Key, Vec<Vec<u64>>> = BTreeMap::new();
    for repeat in 0..repeats {
        let mut choices = Choices::new(definition.seed.wrapping_add(repeat as u64));
        let mut order: Vec<&Vec<Plan<'_>>> = groups.iter().collect();
        choices.shuffle(&mut order);
        for group in order {
            let mut plans: Vec<&Plan<'_>> = group.iter().collect();
            choices.shuffle(&mut plans);
            for plan in plans {
                let key = (plan.method.label.clone(), plan.kind, plan.size, plan.threads);
                let measured = bench.measure(plan)?;
                samples.entry(key).or_default().push(measured);
            }
        }
        progress(&format!(
            "repeat {} of {repeats}: {:.0} s",
            repeat + 1,
            started.elapsed().as_secs_f64()
        ));
    }
    let interference = watch.and_then(|watch| watch.end());
    let cells: Vec<Cell> = samples
        .into_iter()
        .map(|(key, samples)| summary(key, samples))
        .collect();
    let curves = curves(&methods, &cells, &threads, definition.seed);
    let most = threads.last().copied().unwrap_or(1);
    let mut found = disturbances(
        &environment.machine,
        &environment.state,
        &environment.build.profile,
        most,
    );
    found.extend(measured_disturbances(&environment, interference));
    if let Some(kinds) = doubtful(&cells) {
        found.push(kinds);
    }
    let mut warnings: Vec<String> = found.iter().map(ToString::to_string).collect();
    if most == 1 {
        warnings.push("one thread alone shows no scaling: run it where there are more cores, or give --threads".into());
    }
    Ok(Study {
        name: definition.name.clone(),
        environment,
        threads,
        repeats,
        cells,
        curves,
        warnings,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The cells of each curve, which are measured side by side.
fn groups<'d>(methods: &[&'d MethodDefinition], threads: &[usize]) -> Vec<Vec<Plan<'d>>> {
    let of_curve = |method: &'d MethodDefinition, kind: Kind, size: usize| -> Vec<Plan<'d>> {
        let plan = |&threads: &usize| Plan {
            method,
            kind,
            size,
            threads,
        };
        threads.iter().map(plan).collect()
    };
    let mut groups = Vec::new();
    for &method in methods {
        groups.extend(method.strong.iter().map(|&size| of_curve(method, Kind::Strong, size)));
        groups.extend(method.weak.iter().map(|&size| of_curve(method, Kind::Weak, size)));
    }
    groups
}

/// Loaded problems, engines and calibrated noise.
struct Bench<'d> {
    definition: &'d Definition,
    loaded: Dataset,
    /// By format and, where there are several memory nodes, threads on each.
    problems: BTreeMap<(String, Vec<usize>), Arc<Problem>>,
    engines: BTreeMap<usize, Engine>,
    strategies: StrategyMemory,
    /// Noise multipliers by method and batch size.
    multipliers: BTreeMap<(String, usize), f64>,
    /// Digests of models by method and batch size.
    models: BTreeMap<(String, usize), String>,
}

impl Bench<'_> {
    /// Nanoseconds of the timed rounds of a cell.
    fn measure(&mut self, plan: &Plan<'_>) -> anyhow::Result<Vec<u64>> {
        let engine = self.engines[&plan.threads].clone();
        let problem = self.problem(&plan.method.features, &engine)?;
        let batch_size = plan.kind.batch_size(plan.size, plan.threads);
        let key = (plan.method.label.clone(), batch_size);
        let rounds = self.definition.rounds;
        let noise_key = StreamKey::Simulation(self.definition.seed);
        let mut settings = settings::from_parameters(&plan.method.parameters, noise_key)?;
        settings.set("batch-size", batch_size);
        settings.set("rounds", rounds.warm_up + rounds.timed_rounds(batch_size));
        settings.strategies = self.strategies.clone();
        if let (Budget::Target { delta, .. }, Some(&noise_multiplier)) = (settings.budget, self.multipliers.get(&key)) {
            settings.budget = Budget::NoiseMultiplier {
                noise_multiplier,
                delta,
            };
        }
        let algorithm = catalog::find(&plan.method.algorithm)?;
        let prepared = algorithm
            .prepare(&problem, &settings)
            .with_context(|| format!("{} on batches of {batch_size}", plan.method.label))?;
        if let Some(noise_multiplier) = prepared.privacy.noise_multiplier {
            self.multipliers.insert(key.clone(), noise_multiplier);
        }
        let timed = measure::time_rounds(&problem, &engine, prepared, rounds.warm_up, &Traffic::default)?;
        let model = measure::digest(&timed.parameters);
        let expected = self.models.entry(key).or_insert_with(|| model.clone());
        ensure!(
            *expected == model,
            "{} on batches of {batch_size}: the model on {} threads is {model}, on others it was {expected}",
            plan.method.label,
            plan.threads
        );
        Ok(timed.round)
    }

    fn problem(&mut self, features: &str, engine: &Engine) -> anyhow::Result<Arc<Problem>> {
        let nodes = Some(engine.threads_by_node()).filter(|nodes| nodes.len() > 1);
        let key = (features.to_owned(), nodes.unwrap_or_default());
        if let Some(problem) = self.problems.get(&key) {
            return Ok(Arc::clone(problem));
        }
        let dataset = self.loaded.clone();
        let dataset = if features == "f32" { dataset.to_f32()? } else { dataset };
        let (dataset, loss) = dataset.for_loss(None)?;
        let problem = Arc::new(Problem::new(Arc::new(dataset), loss, true, 0.0)?.placed_for(engine));
        self.problems.insert(key, Arc::clone(&problem));
        Ok(problem)
    }
}

fn as_numbers(samples: &[u64]) -> Vec<f64> {
    samples.iter().map(|&sample| sample as f64).collect()
}

fn summary((method, kind, size, threads): Key, samples: Vec<Vec<u64>>) -> Cell {
    let all: Vec<f64> = samples.iter().flat_map(|samples| as_numbers(samples)).collect();
    let mut warnings: Vec<SampleWarning> = Vec::new();
    for warning in samples.iter().flat_map(|samples| examine(&as_numbers(samples))) {
        if !warnings.iter().any(|known| known.name() == warning.name()) {
            warnings.push(warning);
        }
    }
    let interval = bootstrap_median(&all, LEVEL, 1_000, all.len() as u64);
    Cell {
        round_ns: Estimate::new(median(&all), interval),
        method,
        kind,
        size,
        batch_size: kind.batch_size(size, threads),
        threads,
        samples,
        warnings,
    }
}

/// How many cells have doubtful samples, where any have.
fn doubtful(cells: &[Cell]) -> Option<Disturbance> {
    let mut kinds: Vec<&'static str> = Vec::new();
    let mut count = 0;
    for cell in cells {
        let own: Vec<_> = cell
            .warnings
            .iter()
            .map(SampleWarning::name)
            .filter(|name| *name != "too-few")
            .collect();
        count += usize::from(!own.is_empty());
        kinds.extend(own);
    }
    kinds.sort_unstable();
    kinds.dedup();
    (count > 0).then(|| Disturbance::DoubtfulSamples {
        cells: count,
        of: cells.len(),
        kinds: kinds.join(", "),
    })
}

/// The curves of all methods.
fn curves(methods: &[&MethodDefinition], cells: &[Cell], threads: &[usize], seed: u64) -> Vec<Curve> {
    let mut curves = Vec::new();
    for method in methods {
        let sizes = |kind| match kind {
            Kind::Strong => &method.strong,
            Kind::Weak => &method.weak,
        };
        for kind in [Kind::Strong, Kind::Weak] {
            for &size in sizes(kind) {
                // Batches larger than the data set were not measured.
                let medians: Vec<(usize, Vec<f64>)> = threads
                    .iter()
                    .filter_map(|&threads| {
                        let key = (&method.label, kind, size, threads);
                        let own = |cell: &&Cell| (&cell.method, cell.kind, cell.size, cell.threads) == key;
                        Some((threads, cells.iter().find(own)?.repeat_medians()))
                    })
                    .collect();
                if medians.is_empty() {
                    continue;
                }
                let (points, serial_fraction) = scaled(kind, size, &medians, seed);
                curves.push(Curve {
                    method: method.label.clone(),
                    algorithm: method.algorithm.clone(),
                    features: method.features.clone(),
                    kind,
                    size,
                    points,
                    serial_fraction,
                });
            }
        }
    }
    curves
}

/// Speed-ups and serial fraction from the medians of each repeat by thread count, 1 first.
fn scaled(kind: Kind, size: usize, medians: &[(usize, Vec<f64>)], seed: u64) -> (Vec<Point>, Option<Estimate>) {
    let base = &medians[0].1;
    let work = |threads: usize| match kind {
        Kind::Strong => 1.0,
        Kind::Weak => threads as f64,
    };
    // S(p) of each repeat.
    let ratios: Vec<(usize, Vec<f64>)> = medians
        .iter()
        .map(|(threads, own)| {
            let ratio = |(one, many): (&f64, &f64)| work(*threads) * one / many;
            (*threads, base.iter().zip(own).map(ratio).collect())
        })
        .collect();
    let repeats = base.len();
    let mut choices = Choices::new(seed ^ size as u64);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); ratios.len()];
    let mut fractions = Vec::with_capacity(RESAMPLES);
    let mut chosen = vec![0; repeats];
    let mut drawn = Vec::with_capacity(repeats);
    for _ in 0..RESAMPLES {
        chosen.fill_with(|| choices.below(repeats));
        let mut speedups = Vec::with_capacity(ratios.len());
        for ((threads, ratios), draws) in ratios.iter().zip(&mut draws) {
            drawn.clear();
            drawn.extend(chosen.iter().map(|&repeat| ratios[repeat]));
            let speedup = median(&drawn);
            draws.push(speedup);
            speedups.push((*threads, speedup));
        }
        fractions.extend(serial_fraction(kind, &speedups));
    }
    let medians: Vec<(usize, f64)> = ratios
        .iter()
        .map(|(threads, ratios)| (*threads, median(ratios)))
        .collect();
    let points = medians
        .iter()
        .zip(&mut draws)
        .map(|(&(threads, value), draws)| {
            let speedup = Estimate::new(value, percentile_interval(draws, LEVEL));
            Point {
                threads,
                batch_size: kind.batch_size(size, threads),
                speedup,
                efficiency: speedup.over(threads as f64),
            }
        })
        .collect();
    let fraction =
        serial_fraction(kind, &medians).map(|value| Estimate::new(value, percentile_interval(&mut fractions, LEVEL)));
    (points, fraction)
}

/// The serial fraction by least squares through (p, S(p)): of 1/S(p) − 1/p = s·(1 − 1/p) by Amdahl's law, of
/// p − S(p) = s·(p − 1) by Gustafson's. None on one thread alone.
fn serial_fraction(kind: Kind, speedups: &[(usize, f64)]) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for &(threads, speedup) in speedups {
        let count = threads as f64;
        let (x, y) = match kind {
            Kind::Strong => (1.0 - 1.0 / count, 1.0 / speedup - 1.0 / count),
            Kind::Weak => (count - 1.0, count - speedup),
        };
        products += x * y;
        squares += x * x;
    }
    (squares > 0.0).then(|| products / squares)
}

/// Speed-ups of the machine itself: arithmetic from registers, and reading from memory.
pub fn limits(study: &Study) -> Vec<(&'static str, Vec<(usize, f64)>)> {
    let Some(one) = study.environment.roofline(1) else {
        return Vec::new();
    };
    let of = |value: fn(&crate::machine::Roofline) -> f64| -> Vec<(usize, f64)> {
        let rooflines = study.environment.rooflines.iter();
        rooflines
            .map(|roofline| (roofline.threads, value(roofline) / value(&one)))
            .collect()
    };
    vec![
        ("measured peak", of(|roofline| roofline.peak_gflops)),
        ("measured bandwidth", of(|roofline| roofline.bandwidth_gbytes_per_s)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_names_what_there_is() {
        let definition = definition().unwrap();
        assert_eq!(definition.name, NAME);
        for method in &definition.methods {
            assert!(catalog::find(&method.algorithm).is_ok());
            assert!(settings::from_parameters(&method.parameters, StreamKey::Simulation(1)).is_ok());
        }
        let algorithms: std::collections::BTreeSet<_> =
            definition.methods.iter().map(|method| &method.algorithm).collect();
        assert!(algorithms.len() >= 3);
    }

    #[test]
    fn thread_counts_grow_to_all_cores() {
        for (cores, expected) in [
            (1, &[1][..]),
            (2, &[1, 2]),
            (4, &[1, 2, 3, 4]),
            (6, &[1, 2, 3, 4, 5, 6]),
            (16, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]),
            (22, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 22]),
        ] {
            assert_eq!(thread_counts(cores), expected);
        }
    }

    /// Medians of `repeats` repeats on 1, 2, 4 and 8 threads by a law, with a drift that all threads share.
    fn medians(law: &dyn Fn(f64) -> f64, repeats: usize, noise: f64) -> Vec<(usize, Vec<f64>)> {
        let mut choices = Choices::new(5);
        [1, 2, 4, 8]
            .map(|threads| {
                let times = (0..repeats).map(|repeat| {
                    let drift = 1.0 + 0.2 * repeat as f64;
                    1e6 * law(threads as f64) * drift * (1.0 + noise * (choices.uniform() - 0.5))
                });
                (threads, times.collect())
            })
            .into()
    }

    #[test]
    fn the_serial_fraction_of_each_law_is_found_in_spite_of_drift() {
        let amdahl = medians(&|count| 0.1 + 0.9 / count, 11, 0.0);
        let (points, fraction) = scaled(Kind::Strong, 8_000, &amdahl, 1);
        assert!((fraction.unwrap().value - 0.1).abs() < 1e-9);
        let speedup = points[3].speedup.value;
        assert!((speedup - 1.0 / (0.1 + 0.9 / 8.0)).abs() < 1e-9);
        assert_eq!(points[0].speedup.value, 1.0);
        assert!((points[3].efficiency.value - speedup / 8.0).abs() < 1e-12);
        // By Gustafson's law with s = 0.2 the time grows by 1 / (1 - s (p - 1) / p).
        let gustafson = medians(&|count| count / (count - 0.2 * (count - 1.0)), 11, 0.0);
        let (points, fraction) = scaled(Kind::Weak, 4_000, &gustafson, 1);
        assert!((fraction.unwrap().value - 0.2).abs() < 1e-9);
        assert!((points[1].speedup.value - 1.8).abs() < 1e-9);
        assert_eq!(points[1].batch_size, 8_000);
    }

    #[test]
    fn intervals_hold_the_truth_and_shrink_with_the_noise() {
        let truth = 1.0 / (0.05 + 0.95 / 8.0);
        let mut widths = Vec::new();
        for noise in [0.01, 0.1] {
            let noisy = medians(&|count| 0.05 + 0.95 / count, 15, noise);
            let (points, fraction) = scaled(Kind::Strong, 8_000, &noisy, 1);
            let (speedup, fraction) = (points[3].speedup, fraction.unwrap());
            assert!(speedup.low <= truth && truth <= speedup.high, "{speedup}");
            assert!(fraction.low <= 0.05 && 0.05 <= fraction.high, "{fraction}");
            widths.push(speedup.high - speedup.low);
        }
        assert!(widths[0] < widths[1] / 3.0, "{widths:?}");
    }

    #[test]
    fn one_thread_alone_has_no_serial_fraction() {
        let (points, fraction) = scaled(Kind::Strong, 8_000, &[(1, vec![1.0, 2.0])], 1);
        assert_eq!((points.len(), fraction), (1, None));
    }

    #[test]
    fn a_small_study_measures_every_cell_once_a_repeat() {
        let definition = Definition {
            repeats: 2,
            rounds: RoundBudget {
                examples: 1,
                at_least: 2,
                at_most: 2,
                warm_up: 0,
            },
            methods: vec![MethodDefinition {
                label: "SGD".into(),
                algorithm: "sgd".into(),
                features: "u8".into(),
                parameters: BTreeMap::new(),
                strong: vec![64, 128],
                weak: vec![64],
            }],
            ..definition().unwrap()
        };
        let options = Options {
            data_dir: None,
            threads: vec![2],
            repeats: None,
            algorithms: Vec::new(),
            pinning: Pinning::none(),
        };
        let study = run(&definition, &options, &mut |_| ()).unwrap();
        assert_eq!(
            (study.threads.as_slice(), study.cells.len(), study.curves.len()),
            (&[1, 2][..], 6, 3)
        );
        assert!(
            study
                .cells
                .iter()
                .all(|cell| cell.samples.len() == 2 && cell.samples[0].len() == 2)
        );
        assert!(presentation::present(&study).terminal().contains("All curves"));
        let text = serde_json::to_string(&study).unwrap();
        assert_eq!(serde_json::from_str::<Study>(&text).unwrap(), study);
    }
}

//! Noise mechanisms side by side: the error of each against the number of rounds, the time and memory of a round, and the
//! accuracy that correlated noise buys on real data.

pub mod presentation;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoisePlan, StrategyMemory};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::oracle::{self, Engine};
use rounds_algorithms::problem::Problem;
use rounds_kernels::gemm::{Shape, multiply_add_f32};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{data, factorization_cache, settings, statistics};

/// The study's definition.
pub const DEFINITION: &str = include_str!("../../../bench/studies/noise-mechanisms.toml");

/// Its name, as `rounds run` takes it.
pub const NAME: &str = "noise-mechanisms";

/// What is measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Seed of noise and sampling.
    pub seed: u64,
    /// Which errors.
    pub errors: ErrorDefinition,
    /// Which costs.
    pub costs: CostDefinition,
    /// Which runs.
    pub training: TrainingDefinition,
}

/// Errors of prefix sums, one participation.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ErrorDefinition {
    /// T.
    pub rounds: Vec<usize>,
    /// Factorisation methods.
    pub methods: Vec<String>,
    /// Certified relative gap of optimal ones.
    pub gap: f64,
}

/// Costs of a round.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CostDefinition {
    /// Parameters p.
    pub dimension: usize,
    /// T.
    pub rounds: Vec<usize>,
    /// Noise mechanisms.
    pub mechanisms: Vec<String>,
    /// Timed runs of each.
    pub repeats: usize,
}

/// Training runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrainingDefinition {
    /// Data set, with test rows.
    pub dataset: String,
    /// Runs of each setting.
    pub seeds: u64,
    /// Settings.
    #[serde(rename = "run")]
    pub runs: Vec<RunDefinition>,
}

/// One setting.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunDefinition {
    /// Its name in tables.
    pub label: String,
    /// Algorithm of the catalogue.
    pub algorithm: String,
    /// B.
    pub batch_size: usize,
    /// Flags of `rounds train`, and own parameters.
    pub parameters: BTreeMap<String, Value>,
}

/// The error of a factorisation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorCell {
    /// The method.
    pub method: String,
    /// T.
    pub rounds: usize,
    /// Root mean square over rounds, at sensitivity 1.
    pub rms_error: f64,
    /// Largest over rounds, at sensitivity 1.
    pub max_error: f64,
    /// Certified gap of the squared error, where there is one.
    pub relative_gap: Option<f64>,
    /// What it took to compute, 0 for closed forms.
    pub seconds: f64,
}

/// The cost of a mechanism's round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CostCell {
    /// The mechanism.
    pub mechanism: String,
    /// T.
    pub rounds: usize,
    /// p.
    pub dimension: usize,
    /// Median time of a round.
    pub round_ns: f64,
    /// The same in vectors of fresh Gaussians, measured just before.
    pub gaussian_vectors: f64,
    /// Vectors of p numbers kept between rounds.
    pub resident_vectors: usize,
}

/// What rounds of noise are made of, on one thread.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct References {
    /// p of the vectors below.
    pub dimension: usize,
    /// Drawing one vector of Gaussians.
    pub gaussian_vector_ns: f64,
    /// Reading one vector of f32 that lies in memory, not in a cache.
    pub memory_vector_ns: f64,
    /// Rate of a square f32 matrix product.
    pub product_gflops: f64,
}

/// A training run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrainingCell {
    /// The setting.
    pub label: String,
    /// The algorithm.
    pub algorithm: String,
    /// The seed.
    pub seed: u64,
    /// Fraction of the test rows that are classified rightly.
    pub test_accuracy: f64,
    /// Claimed ε.
    pub epsilon: Option<f64>,
    /// At this δ.
    pub delta: Option<f64>,
    /// Under this relation.
    pub adjacency: Option<String>,
    /// Time of all rounds.
    pub seconds: f64,
}

/// Everything measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Study {
    /// Errors against T.
    pub errors: Vec<ErrorCell>,
    /// What costs are held against.
    pub references: References,
    /// Costs against T.
    pub costs: Vec<CostCell>,
    /// Accuracies.
    pub training: Vec<TrainingCell>,
}

/// Mean and standard error of a setting's accuracies.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// The setting.
    pub label: String,
    /// Runs.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation over seeds divided by √runs.
    pub standard_error: f64,
}

/// The study's definition.
///
/// # Errors
/// An edited file that is not as it must be.
pub fn definition() -> anyhow::Result<Definition> {
    toml::from_str(DEFINITION).context("bench/studies/noise-mechanisms.toml")
}

/// Measures everything; `report` is told each cell in a line.
///
/// # Errors
/// A method or mechanism that refuses; training data that are there and broken. Absent data leave training out.
pub fn run(
    definition: &Definition,
    data_dir: Option<&Path>,
    threads: usize,
    mut report: impl FnMut(&str),
) -> anyhow::Result<Study> {
    let mut study = Study::default();
    for &rounds in &definition.errors.rounds {
        for method in &definition.errors.methods {
            let cell = error(method, rounds, definition.errors.gap)?;
            report(&format!("{method}, T = {rounds}: rms error {:.6}", cell.rms_error));
            study.errors.push(cell);
        }
    }
    study.references = references(definition.costs.dimension, definition.seed);
    let memory = StrategyMemory::filled_from(factorization_cache::source());
    for &rounds in &definition.costs.rounds {
        for mechanism in &definition.costs.mechanisms {
            let cell = cost(mechanism, rounds, &definition.costs, definition.seed, &memory)?;
            report(&format!(
                "{mechanism}, T = {rounds}: {:.1} µs a round, {:.2} vectors of Gaussians",
                cell.round_ns * 1e-3,
                cell.gaussian_vectors
            ));
            study.costs.push(cell);
        }
    }
    match data::load(&definition.training.dataset, data_dir) {
        Ok(loaded) => {
            let train = Problem::new(Arc::new(loaded.train), Loss::Softmax, true, 0.0)?;
            let test = loaded.test.context("the data set of the study has no test rows")?;
            let test = Problem::new(Arc::new(test), Loss::Softmax, true, 0.0)?;
            let engine = Engine::with_threads(threads)?;
            for run in &definition.training.runs {
                for seed in 0..definition.training.seeds {
                    let cell = train_once(run, &train, &test, definition.seed + seed, &engine)?;
                    report(&format!(
                        "{}, seed {seed}: {:.2} %",
                        run.label,
                        100.0 * cell.test_accuracy
                    ));
                    study.training.push(cell);
                }
            }
        }
        Err(error) => report(&format!("training is left out: {error}")),
    }
    Ok(study)
}

/// The error of one method, computed anew so that its time is its own.
fn error(method: &str, rounds: usize, gap: f64) -> anyhow::Result<ErrorCell> {
    let workload = Workload::new(rounds, WorkloadSpecification::prefix())?;
    let parsed: Method = method.parse()?;
    let parsed = match parsed {
        // No more bands than rounds.
        Method::Banded { bands } => Method::Banded {
            bands: bands.min(rounds),
        },
        other => other,
    };
    let request = FactorizationRequest {
        gap,
        ..FactorizationRequest::new(workload, Participation::Single, parsed)
    };
    let started = Instant::now();
    let factorization = request.factorize()?;
    Ok(ErrorCell {
        method: method.to_owned(),
        rounds,
        rms_error: factorization.rms_error(),
        max_error: factorization.max_error(),
        relative_gap: factorization.relative_gap(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Rows and columns of the matrix product that is timed.
const SIZE: usize = 768;

/// Medians of what noise is made of.
fn references(dimension: usize, seed: u64) -> References {
    let median_ns = |repeats: usize, work: &mut dyn FnMut()| {
        let samples: Vec<f64> = (0..repeats)
            .map(|_| {
                let started = Instant::now();
                work();
                started.elapsed().as_nanos() as f64
            })
            .collect();
        statistics::median(&samples)
    };
    let key = StreamKey::Simulation(seed);
    let mut draws = vec![0f32; dimension];
    let mut round = 0;
    let gaussian_vector_ns = median_ns(500, &mut || {
        round += 1;
        fill_gaussian(&key, Purpose(1), round, 1.0, &mut draws);
        std::hint::black_box(&draws);
    });
    // A pool of 512 MiB: what is read was last touched long ago. 32 vectors at a time, as a band of 32 would.
    let pool = vec![1f32; 1 << 27];
    let set = 32 * dimension;
    let mut start = 0;
    let memory_vector_ns = median_ns(300, &mut || {
        start = if start + 2 * set > pool.len() { 0 } else { start + set };
        let mut lanes = [0f32; 64];
        for part in pool[start..(start + set).min(pool.len())].chunks_exact(64) {
            for (lane, value) in lanes.iter_mut().zip(part) {
                *lane += value;
            }
        }
        std::hint::black_box(lanes);
    }) / 32.0;
    let (a, b, mut c) = (
        vec![0.5f32; SIZE * SIZE],
        vec![0.5f32; SIZE * SIZE],
        vec![0f32; SIZE * SIZE],
    );
    let product_ns = median_ns(30, &mut || {
        multiply_add_f32(Shape::packed(SIZE, SIZE, SIZE), &a, &b, &mut c);
        std::hint::black_box(&c);
    });
    References {
        dimension,
        gaussian_vector_ns,
        memory_vector_ns,
        product_gflops: 2.0 * (SIZE as f64).powi(3) / product_ns,
    }
}

/// Time of a round on one thread, beside that of a vector of Gaussians.
fn cost(
    mechanism: &str,
    rounds: usize,
    costs: &CostDefinition,
    seed: u64,
    memory: &StrategyMemory,
) -> anyhow::Result<CostCell> {
    let dimension = costs.dimension;
    let kind: NoiseKind = mechanism.parse()?;
    let key = StreamKey::Simulation(seed);
    let mut draws = vec![0f32; dimension];
    let mut gaussian = Vec::new();
    for repeat in 0..64 {
        let started = Instant::now();
        for round in 0..16 {
            fill_gaussian(&key, Purpose(1), 16 * repeat + round, 1.0, &mut draws);
            std::hint::black_box(&draws);
        }
        gaussian.push(started.elapsed().as_nanos() as f64 / 16.0);
    }
    let mut sum = vec![0.0; dimension];
    let (mut samples, mut resident_vectors) = (Vec::new(), 0);
    for _ in 0..costs.repeats.max(1) {
        let plan = NoisePlan {
            kind,
            rounds,
            rounds_per_epoch: rounds,
            workload: WorkloadSpecification::prefix(),
            dimension,
        };
        let mut stream = plan.prepare(memory)?.stream(key.clone(), 1.0);
        resident_vectors = stream.resident_vectors();
        let started = Instant::now();
        for round in 0..rounds as u64 {
            stream.add_increment(round, &mut sum, &Engine::Sequential)?;
        }
        std::hint::black_box(&sum);
        samples.push(started.elapsed().as_nanos() as f64 / rounds as f64);
    }
    let round_ns = statistics::median(&samples);
    Ok(CostCell {
        mechanism: mechanism.to_owned(),
        rounds,
        dimension,
        round_ns,
        gaussian_vectors: round_ns / statistics::median(&gaussian),
        resident_vectors,
    })
}

/// One training run and its accuracy on the test rows.
fn train_once(
    run: &RunDefinition,
    train: &Problem,
    test: &Problem,
    seed: u64,
    engine: &Engine,
) -> anyhow::Result<TrainingCell> {
    let algorithm = catalog::find(&run.algorithm)?;
    let mut settings = settings::from_parameters(&run.parameters, StreamKey::Simulation(seed))?;
    settings.batch_size = Some(run.batch_size);
    let prepared = algorithm.prepare(train, &settings)?;
    let privacy = prepared.privacy.clone();
    let mut executor = Executor::new(train, engine.clone(), prepared);
    let started = Instant::now();
    executor.run()?;
    let seconds = started.elapsed().as_secs_f64();
    let evaluation = oracle::evaluate(test, engine, executor.solution())?;
    Ok(TrainingCell {
        label: run.label.clone(),
        algorithm: run.algorithm.clone(),
        seed,
        test_accuracy: evaluation.correct as f64 / evaluation.rows as f64,
        epsilon: privacy.epsilon,
        delta: privacy.delta,
        adjacency: privacy.adjacency.map(|adjacency| adjacency.to_string()),
        seconds,
    })
}

/// Means and standard errors, in the order of the settings.
pub fn accuracies(cells: &[TrainingCell]) -> Vec<Accuracy> {
    let mut labels: Vec<&str> = Vec::new();
    for cell in cells {
        if !labels.contains(&cell.label.as_str()) {
            labels.push(&cell.label);
        }
    }
    labels
        .into_iter()
        .map(|label| {
            let own: Vec<f64> = cells
                .iter()
                .filter(|cell| cell.label == label)
                .map(|cell| cell.test_accuracy)
                .collect();
            let runs = own.len() as f64;
            let mean = own.iter().sum::<f64>() / runs;
            let variance = own.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (runs - 1.0).max(1.0);
            Accuracy {
                label: label.to_owned(),
                runs: own.len(),
                mean,
                standard_error: (variance / runs).sqrt(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Definition {
        let mut definition = definition().expect("the definition in the binary");
        definition.errors.rounds = vec![8];
        definition.costs.rounds = vec![8];
        definition.costs.dimension = 100;
        definition.costs.mechanisms.retain(|mechanism| mechanism != "banded=32");
        definition.training.seeds = 0;
        definition
    }

    #[test]
    fn every_method_and_mechanism_of_the_definition_is_measured_and_none_beats_the_optimum() {
        let definition = small();
        let study = run(&definition, None, 1, |_| {}).expect("a small study");
        assert_eq!(study.errors.len(), definition.errors.methods.len());
        assert_eq!(study.costs.len(), definition.costs.mechanisms.len());
        let optimum = &study.errors[0];
        assert_eq!(optimum.method, "optimal");
        // ‖B‖_F² = 17.866177 at T = 8 (specification 3.3).
        assert!((optimum.rms_error.powi(2) * 8.0 - 17.866_177_332_774).abs() < 1e-4);
        for cell in &study.errors {
            assert!(cell.rms_error >= optimum.rms_error * (1.0 - 1e-6), "{}", cell.method);
        }
        assert!(study.costs.iter().all(|cell| cell.round_ns > 0.0));
    }

    #[test]
    fn accuracies_have_their_mean_and_standard_error() {
        let cell = |label: &str, test_accuracy| TrainingCell {
            label: label.to_owned(),
            algorithm: "dp-sgd".to_owned(),
            seed: 0,
            test_accuracy,
            epsilon: Some(1.0),
            delta: Some(1e-5),
            adjacency: None,
            seconds: 1.0,
        };
        let found = accuracies(&[cell("a", 0.8), cell("b", 0.5), cell("a", 0.9)]);
        assert_eq!(found.len(), 2);
        assert!((found[0].mean - 0.85).abs() < 1e-12 && (found[0].standard_error - 0.05).abs() < 1e-12);
        assert_eq!((found[1].runs, found[1].standard_error), (1, 0.0));
    }
}

//! The round of every algorithm of the catalogue, sampling, noise and update included: throughput in gradient queries.
//!
//! Rounds are those of one run after another: what prepares a run (calibration, factorisation, memory) is not timed.
//! Algorithms of classes run on MNIST-shaped bytes, batches of 500; those that do not fit it on planted logistic regression.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, Budget, Settings};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::Problem;
use rounds_algorithms::problem::synthetic::{synthetic_logistic, synthetic_mnist};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

const BATCH: usize = 500;

/// A run of an algorithm that can be prepared again.
struct Run<'a> {
    algorithm: &'static Algorithm,
    problem: &'a Problem,
    settings: Settings,
    rounds: u64,
}

impl<'a> Run<'a> {
    /// On the first problem, and with the first settings, that the algorithm takes.
    fn of(algorithm: &'static Algorithm, problems: &'a [Problem], strategies: &StrategyMemory) -> Option<Self> {
        let budget = if algorithm.private { Budget::Target { epsilon: 5.0, delta: 1e-5 } } else { Budget::NonPrivate };
        for problem in problems {
            for batch_size in [Some(BATCH), None] {
                let mut settings = Settings::new(budget, StreamKey::Simulation(1));
                if let Some(batch_size) = batch_size {
                    settings.offer(algorithm, "batch-size", batch_size);
                }
                settings.strategies = strategies.clone();
                let Ok(prepared) = algorithm.prepare(problem, &settings) else {
                    continue;
                };
                return Some(Self { algorithm, problem, settings, rounds: prepared.rounds });
            }
        }
        None
    }

    /// Time of `rounds` rounds, and what they asked for a round on average.
    fn time(&self, rounds: u64, engine: &Engine) -> (Duration, u64) {
        let mut elapsed = Duration::ZERO;
        let (mut left, mut queries) = (rounds, 0);
        while left > 0 {
            let prepared = self.algorithm.prepare(self.problem, &self.settings).expect("it was prepared before");
            let now = left.min(prepared.rounds);
            let mut executor = Executor::new(self.problem, engine.clone(), prepared).limited_to(now);
            executor.place();
            let started = Instant::now();
            executor.run().expect("every round");
            elapsed += started.elapsed();
            queries += executor.ledger().gradient_queries;
            left -= now;
        }
        (elapsed, queries / rounds.max(1))
    }
}

fn rounds(criterion: &mut Criterion) {
    let (images, _) = synthetic_mnist(1);
    let planted = synthetic_logistic(20_000, 20, 1)
        .into_binary()
        .and_then(|data| data.clip_features(Norm::L2, 1.0))
        .expect("two classes");
    let problems = [
        Problem::new(Arc::new(images), Loss::Softmax, true, 0.0).expect("classes"),
        Problem::new(Arc::new(planted), Loss::Logistic, false, 0.02).expect("real targets"),
    ];
    let strategies = StrategyMemory::default();
    let mut group = criterion.benchmark_group("algorithm round");
    group.sample_size(10).warm_up_time(Duration::from_millis(150)).measurement_time(Duration::from_millis(600));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for algorithm in catalog::ALGORITHMS {
        if !may_run("algorithm round", algorithm.id) {
            continue;
        }
        let run = Run::of(algorithm, &problems, &strategies).expect("a problem of the bench fits");
        // What a round asks for is known once some were run.
        let (_, queries) = run.time(run.rounds.min(8), &Engine::Sequential);
        group.throughput(Throughput::Elements(queries));
        for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
            let engine = Engine::with_threads(threads).expect("threads");
            let id = BenchmarkId::new(algorithm.id, format!("{threads} threads"));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|iterations| run.time(iterations, &engine).0);
            });
        }
    }
    group.finish();
}

/// Whether the filter of the command line may choose a benchmark of this group and name: what it surely leaves out need not
/// be prepared. A filter that is more than letters, digits and a few signs may choose anything.
fn may_run(group: &str, name: &str) -> bool {
    const SWITCHES: [&str; 8] =
        ["--bench", "--list", "--test", "--quick", "--noplot", "--quiet", "--verbose", "--exact"];
    let arguments: Vec<String> = std::env::args().collect();
    let filters = arguments.windows(2).filter_map(|pair| {
        let value_of_option = pair[0].starts_with('-') && !SWITCHES.contains(&pair[0].as_str());
        (!value_of_option && !pair[1].starts_with('-')).then_some(&pair[1])
    });
    let plain = |filter: &str| filter.chars().all(|sign| sign.is_ascii_alphanumeric() || "-_ ".contains(sign));
    let known = format!("{group}/{name}/1 2 threads");
    let mut filters = filters.peekable();
    filters.peek().is_none() || filters.any(|filter| !plain(filter) || known.contains(filter.as_str()))
}

/// A DP-SGD round against its batch size, on the calling thread and on all cores.
fn batch_sizes(criterion: &mut Criterion) {
    let (images, _) = synthetic_mnist(1);
    let floats = images.clone().to_f32().expect("dense rows");
    let problems = [("u8", images), ("f32", floats)].map(|(name, data)| {
        let problem = Problem::new(Arc::new(data), Loss::Softmax, true, 0.0).expect("classes");
        (name, problem)
    });
    let algorithm = catalog::find("dp-sgd").expect("in the catalogue");
    let mut group = criterion.benchmark_group("dp-sgd round");
    group.sample_size(10).warm_up_time(Duration::from_millis(150)).measurement_time(Duration::from_millis(600));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for (name, problem) in &problems {
        for batch_size in [64, 500, 2_000, 8_000, 60_000] {
            group.throughput(Throughput::Elements(batch_size as u64));
            for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
                let engine = Engine::with_threads(threads).expect("threads");
                let budget = Budget::NoiseMultiplier { noise_multiplier: 1.0, delta: 1e-5 };
                let mut settings = Settings::new(budget, StreamKey::Simulation(1));
                settings.set("batch-size", batch_size);
                settings.set("rounds", 1_000);
                let id = BenchmarkId::new(format!("{name}, {threads} threads"), batch_size);
                group.bench_function(id, |bencher| {
                    let prepared = algorithm.prepare(problem, &settings).expect("dp-sgd");
                    let run = Run { algorithm, problem, settings: settings.clone(), rounds: prepared.rounds };
                    bencher.iter_custom(|iterations| run.time(iterations, &engine).0);
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, rounds, batch_sizes);
criterion_main!(benches);

//! Cost of a ReSQue round: projected queries next to a plain mini-batch round, materialised ones next to the Gaussian
//! sampler.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rounds_algorithms::oracle::Oracle;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::synthetic::synthetic_mnist;
use rounds_algorithms::problem::{Dataset, Features, Labels, Problem};
use rounds_algorithms::resque::black_box::BlackBoxOracle;
use rounds_algorithms::resque::functions::PlantedRegression;
use rounds_algorithms::resque::pool::GradientPool;
use rounds_algorithms::resque::projected::{ProjectedPool, Weights};
use rounds_kernels::features::{Rows, Selection, Targets};
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream, fill_gaussian};

/// A plain mini-batch round of N queries, and a projected ReSQue round of N queries with the one reweighting at which
/// AC-SA uses them, on rows of bytes and of f32. Both choose fresh rows every round, so that both find them in memory, not
/// in the caches that the round before left. The aim: at most 1.7 times.
fn projected(criterion: &mut Criterion) {
    let (bytes, _) = synthetic_mnist(1);
    let widened = widened(&bytes);
    for (format, data) in [("u8", bytes), ("f32", widened)] {
        let problem = Problem::new(Arc::new(data), Loss::Softmax, true, 0.0).expect("classes for softmax");
        let mut group = criterion.benchmark_group(format!("projected {format}"));
        group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
        for queries in [500usize, 2_000, 8_000] {
            group.throughput(Throughput::Elements(queries as u64));
            let mut oracle = Oracle::new(&problem, Engine::default());
            let mut stream = UniformStream::new(&StreamKey::Simulation(1), Purpose(1), 0, 0);
            let mut rows = vec![0_u32; queries];
            let parameters = vec![0.01; problem.parameters()];
            let mut sum = vec![0.0; problem.parameters()];
            group.bench_function(format!("plain/{queries}"), |bencher| {
                bencher.iter(|| {
                    rows.fill_with(|| stream.below(problem.rows() as u64) as u32);
                    oracle
                        .gradient_sum(&Selection::Indices(&rows), black_box(&parameters), Clip::Unbounded, &mut sum)
                        .expect("finite rows");
                });
            });
            let key = StreamKey::Simulation(2);
            let mut pool = ProjectedPool::new(&problem, Weights::Conditional, 10.0, key).expect("a softmax pool");
            let centre = vec![0.01; problem.parameters()];
            let offset = vec![1e-5; problem.parameters()];
            let mut mean = vec![0.0; problem.parameters()];
            group.bench_function(format!("resque/{queries}"), |bencher| {
                bencher.iter(|| {
                    let mut queries_of = pool.on(&mut oracle);
                    queries_of.fetch(black_box(&centre), 0.01, queries).expect("a round");
                    queries_of.reweighted_mean(0..queries, &offset, &mut mean).expect("inside the ball");
                });
            });
        }
        group.finish();
    }
}

/// The same rows as f32.
fn widened(bytes: &Dataset) -> Dataset {
    let (Rows::U8(rows), Targets::Classes(classes)) = (bytes.rows(), bytes.targets()) else {
        unreachable!("bytes and classes");
    };
    let widen = |row: usize| rows.row(row).iter().map(|&byte| f32::from(byte) * rows.scale);
    let values: Vec<f32> = (0..bytes.len()).flat_map(widen).collect();
    let features = Features::F32 { values: values.into(), columns: bytes.columns() };
    let labels = Labels::Classes { values: classes.to_vec(), classes: 10, names: None };
    Dataset::new("widened", features, labels).expect("as many rows as classes")
}

/// The sampler alone, and a materialised round with one reweighting, which draws every coordinate twice: once to query
/// and once, regenerated, to reweight. Both count drawn coordinates. The aim: 60 % of the sampler's rate.
fn materialised(criterion: &mut Criterion) {
    let (dimension, queries) = (1_024, 4_096);
    let planted = PlantedRegression::new(dimension, 500, 2.0, 0.1, 1);
    let function = planted.function();
    let mut group = criterion.benchmark_group("materialised");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements((2 * dimension * queries) as u64));
    let mut coordinates = vec![0f32; 4_096];
    group.bench_function("sampler", |bencher| {
        bencher.iter(|| {
            for round in 0..(2 * dimension * queries / 4_096) as u64 {
                fill_gaussian(&StreamKey::Simulation(1), Purpose(1), round, 0.1, &mut coordinates);
                black_box(&coordinates);
            }
        });
    });
    let mut oracle = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
    let centre = vec![0.01; dimension];
    let offset = vec![1e-3; dimension];
    let mut mean = vec![0.0; dimension];
    group.bench_function("resque", |bencher| {
        bencher.iter(|| {
            oracle.fetch(black_box(&centre), 0.1, queries).expect("a round");
            oracle.reweighted_mean(0..queries, &offset, &mut mean).expect("inside the ball");
        });
    });
    group.finish();
}

criterion_group!(benches, projected, materialised);
criterion_main!(benches);

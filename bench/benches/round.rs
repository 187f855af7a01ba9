//! A full-batch round as an optimiser sees it, oracle and threads included: n = 100,000 rows of 20 features with one
//! output, the shape of paper 003's figures, next to the rate at which the rows can be read.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rounds_algorithms::oracle::Oracle;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::synthetic::synthetic_logistic;
use rounds_algorithms::problem::{Features, Problem};
use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;
use wide::f32x16;

fn full_batch(criterion: &mut Criterion) {
    let data = synthetic_logistic(100_000, 20, 1)
        .into_binary()
        .and_then(|data| data.clip_features(Norm::L2, 20f64.sqrt()))
        .expect("two classes");
    let problem = Problem::new(Arc::new(data), Loss::Logistic, false, 0.02).expect("dense rows");
    let Features::F32 { values, .. } = problem.dataset().features() else { unreachable!("generated rows are f32") };
    let parameters = vec![0.1; problem.parameters()];
    let mut sum = vec![0.0; problem.parameters()];
    let mut group = criterion.benchmark_group("full batch of 100,000 x 20");
    group.sample_size(15).warm_up_time(Duration::from_millis(150)).measurement_time(Duration::from_millis(600));
    group.throughput(Throughput::Bytes((4 * values.len()) as u64));
    for threads in [1, 2] {
        let engine = Engine::with_threads(threads).expect("threads");
        let clips = [("unbounded", Clip::Unbounded), ("clipped", Clip::l1(20.0))];
        for (name, clip) in clips {
            let mut oracle = Oracle::new(&problem, engine.clone());
            group.bench_function(format!("{name}, {threads} threads"), |bencher| {
                engine.install(|| {
                    bencher.iter(|| {
                        oracle
                            .gradient_sum(&Selection::Range(0..100_000), black_box(&parameters), clip, &mut sum)
                            .expect("finite rows");
                    });
                });
            });
        }
        let mut parts: Vec<(&[f32], f32x16)> =
            values.chunks(values.len() / 16).map(|part| (part, f32x16::ZERO)).collect();
        group.bench_function(format!("reading alone, {threads} threads"), |bencher| {
            engine.install(|| {
                bencher.iter(|| {
                    engine.for_each(&mut parts, &|(part, total), _| *total = read(part));
                    black_box(&parts);
                });
            });
        });
    }
    group.finish();
}

/// The sum of all values, in eight chains.
fn read(values: &[f32]) -> f32x16 {
    let mut chains = [f32x16::ZERO; 8];
    for lines in values.as_chunks::<128>().0 {
        for (chain, lanes) in chains.iter_mut().zip(lines.as_chunks::<16>().0) {
            *chain += f32x16::new(*lanes);
        }
    }
    chains.into_iter().fold(f32x16::ZERO, |total, chain| total + chain)
}

criterion_group!(benches, full_batch);
criterion_main!(benches);

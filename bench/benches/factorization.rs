//! Cost of a factorisation against T: the optimal ones with their certificates, and the structured ones.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rounds_algorithms::factorization::{
    FactorizationRequest, Method, Objective, Participation, Workload, WorkloadSpecification,
};

fn request(rounds: usize, momentum: f64, epochs: usize, method: Method) -> FactorizationRequest {
    let mut specification = WorkloadSpecification::prefix();
    if momentum > 0.0 {
        specification = specification.with_momentum(momentum);
    }
    let workload = Workload::new(rounds, specification).expect("a workload of the bench");
    FactorizationRequest::new(workload, Participation::epochs(epochs), method)
}

fn optimal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("factorization/optimal");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (name, momentum, epochs, gap, sizes) in [
        ("prefix", 0.0, 1, 1e-6, &[120, 512, 1024, 2048][..]),
        ("momentum 0.9", 0.9, 1, 1e-6, &[120, 512, 1024, 2048][..]),
        ("prefix, 6 epochs", 0.0, 6, 1e-4, &[120, 300, 600][..]),
        ("momentum 0.9, 6 epochs", 0.9, 6, 1e-4, &[120, 300][..]),
    ] {
        for &rounds in sizes {
            let request = FactorizationRequest { gap, ..request(rounds, momentum, epochs, Method::Optimal) };
            group.bench_with_input(BenchmarkId::new(name, rounds), &request, |bencher, request| {
                bencher.iter(|| request.clone().factorize().expect("a gap within reach"));
            });
        }
    }
    let request =
        FactorizationRequest { objective: Objective::Max, gap: 1e-4, ..request(512, 0.0, 1, Method::Optimal) };
    group.bench_function("prefix, worst row/512", |bencher| {
        bencher.iter(|| request.clone().factorize().expect("a gap within reach"));
    });
    group.finish();
}

fn structured(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("factorization/structured");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for method in ["toeplitz", "blt=3", "banded=16", "tree", "honaker-online"] {
        let method: Method = method.parse().expect("a method of the catalogue");
        for rounds in [256, 1024] {
            let request = request(rounds, 0.0, 1, method);
            group.bench_with_input(BenchmarkId::new(method.to_string(), rounds), &request, |bencher, request| {
                bencher.iter(|| request.clone().factorize().expect("a structured factorisation"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, optimal, structured);
criterion_main!(benches);

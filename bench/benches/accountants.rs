//! Accountants: time of one ε and of one calibration.

use criterion::{Criterion, criterion_group, criterion_main};
use rounds_algorithms::privacy::{Accountant, Adjacency, Mechanism, Sampling, calibrate, gaussian, pld, rdp};
use std::hint::black_box;

fn poisson(noise_multiplier: f64, rate: f64, steps: usize) -> Mechanism {
    Mechanism::SubsampledGaussian {
        noise_multiplier,
        sampling: Sampling::Poisson { rate },
        steps,
    }
}

fn epsilons(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("epsilon");
    group.sample_size(20);
    group.bench_function("analytic_gaussian", |bencher| {
        bencher.iter(|| gaussian::epsilon(1e-5, black_box(0.7)));
    });
    group.bench_function("rdp_divergence/order_2.5", |bencher| {
        bencher.iter(|| rdp::poisson_subsampled_gaussian(2.5, 0.01, black_box(1.0)));
    });
    for steps in [100, 1000, 10_000] {
        for accountant in [Accountant::Rdp, Accountant::Pld] {
            let mechanism = poisson(1.0, 0.01, steps);
            group.bench_function(format!("{accountant}/{steps}"), |bencher| {
                bencher.iter(|| accountant.epsilon(black_box(&mechanism), Adjacency::AddRemove, 1e-5));
            });
        }
    }
    let mechanism = poisson(1.0, 0.01, 1000);
    group.bench_function("pld_both_bounds/1000", |bencher| {
        bencher.iter(|| pld::PrivacyLoss::new(black_box(&mechanism), Adjacency::AddRemove)?.epsilon_bounds(1e-5));
    });
    group.finish();
}

fn calibrations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("calibration");
    group.sample_size(10);
    for (name, epsilon, rate, steps) in [
        ("1000_steps", 1.0, 0.01, 1000),
        ("mnist_60_epochs", 1.0, 0.004_266_666_667, 14_062),
    ] {
        for accountant in [Accountant::Rdp, Accountant::Pld] {
            group.bench_function(format!("{accountant}/{name}"), |bencher| {
                bencher.iter(|| {
                    calibrate(accountant, Adjacency::AddRemove, black_box(epsilon), 1e-5, |noise| {
                        poisson(noise, rate, steps)
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, epsilons, calibrations);
criterion_main!(benches);

//! Accountants: time of one ε and of one calibration.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rounds_algorithms::privacy::{
    Accountant, Adjacency, Mechanism, Sampling, calibrate, gaussian, laplace, pld, rdp, zcdp,
};
use std::hint::black_box;
use std::time::Duration;

fn poisson(noise_multiplier: f64, rate: f64, steps: usize) -> Mechanism {
    Mechanism::SubsampledGaussian { noise_multiplier, sampling: Sampling::Poisson { rate }, steps }
}

fn epsilons(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("epsilon");
    // Each is an ε a second.
    group.throughput(Throughput::Elements(1));
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

/// Mechanisms whose ε needs no numerical composition, by every accountant that takes them, and the conversions alone.
fn closed_forms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("epsilon/closed forms");
    group.throughput(Throughput::Elements(1));
    group.bench_function("zcdp conversion", |bencher| {
        bencher.iter(|| zcdp::epsilon(1e-5, black_box(0.1)));
    });
    group.bench_function("mu of epsilon and delta", |bencher| {
        bencher.iter(|| gaussian::mu(black_box(1.0), 1e-5));
    });
    let sampling = Sampling::FixedOrder;
    let mechanisms = [
        ("gaussian", Mechanism::Gaussian { noise_multiplier: 4.0, sampling, participations: 6 }),
        ("factorized", Mechanism::Factorized { noise_multiplier: 4.0, sampling, sensitivity: 2.5 }),
        ("tree", Mechanism::Tree { noise_multiplier: 20.0, sampling, rounds: 1_024, trees: 6 }),
        ("laplace", laplace::mean_mechanism(0.05, 2.0, 1_000, 10_000, 60)),
    ];
    for (name, mechanism) in &mechanisms {
        for accountant in [Accountant::Zcdp, Accountant::Gdp, Accountant::Rdp, Accountant::Pld, Accountant::Pure] {
            if accountant.epsilon(mechanism, Adjacency::ZeroOut, 1e-5).is_err() {
                continue;
            }
            group.bench_function(format!("{name}/{accountant}"), |bencher| {
                bencher.iter(|| accountant.epsilon(black_box(mechanism), Adjacency::ZeroOut, 1e-5));
            });
        }
    }
    group.finish();
}

fn calibrations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("calibration");
    for (name, epsilon, rate, steps) in
        [("1000_steps", 1.0, 0.01, 1000), ("mnist_60_epochs", 1.0, 0.004_266_666_667, 14_062)]
    {
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

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(600));
    targets = epsilons, closed_forms, calibrations
}
criterion_main!(benches);

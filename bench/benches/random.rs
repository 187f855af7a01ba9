//! Noise samplers: throughput of the kernels and of `rand_distr` on Xoshiro256++, in one run.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::SeedableRng;
use rand::distr::Distribution;
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use rounds_algorithms::privacy::Sampling;
use rounds_algorithms::sampling::Sampler;
use rounds_kernels::random::exact::{
    ExactGaps, Term, fill_rounded_combination, fill_rounded_gaussian, fill_rounded_laplace,
};
use rounds_kernels::random::{Purpose, StreamKey, UniformStream, add_gaussian, add_laplace_blocks, fill_gaussian};
use std::hint::black_box;
use std::time::Duration;

/// 10 classes × (784 features + bias): a round's noise for multinomial MNIST.
const ROUND: usize = 7_850;
/// 16 blocks: 256 KiB of f32, which stay in L2.
const FILL: usize = 65_536;

const PURPOSE: Purpose = Purpose(1);

fn gaussian(criterion: &mut Criterion) {
    let simulation = StreamKey::Simulation(1);
    let release = StreamKey::Release([7; 32]);
    for length in [FILL, ROUND] {
        let mut group = criterion.benchmark_group(format!("gaussian/{length}"));
        group.throughput(Throughput::Elements(length as u64));
        let mut singles = vec![0f32; length];
        let mut doubles = vec![0f64; length];
        let mut round = 0;
        let mut next_round = || {
            round += 1;
            round
        };
        group.bench_function("fill_f32", |bencher| {
            bencher.iter(|| fill_gaussian(&simulation, PURPOSE, next_round(), 1.5, black_box(&mut singles)));
        });
        group.bench_function("add_f64", |bencher| {
            bencher.iter(|| add_gaussian(&simulation, PURPOSE, next_round(), 1.5, black_box(&mut doubles)));
        });
        group.bench_function("rand_distr_f32", |bencher| {
            let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
            bencher.iter(|| {
                for z in black_box(&mut singles) {
                    let normal: f32 = StandardNormal.sample(&mut generator);
                    *z = 1.5 * normal;
                }
            });
        });
        group.bench_function("release_add_f64", |bencher| {
            bencher.iter(|| add_gaussian(&release, PURPOSE, next_round(), 1.5, black_box(&mut doubles)));
        });
        group.finish();
    }
}

fn laplace(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("laplace/{FILL}"));
    group.throughput(Throughput::Elements(FILL as u64));
    let mut doubles = vec![0f64; FILL];
    for (name, key) in [("add_f64", StreamKey::Simulation(1)), ("release_add_f64", StreamKey::Release([7; 32]))] {
        let mut round = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                round += 1;
                add_laplace_blocks(&key, PURPOSE, round, 0, 1.5, black_box(&mut doubles));
            });
        });
    }
    group.finish();
}

/// The exactly rounded laws, in results: fractions of a lattice's step up to 2³¹ steps, and a band of 32 terms.
fn exact(criterion: &mut Criterion) {
    let mut integers = vec![0i64; FILL];
    let mut short = vec![0i32; FILL];
    for (name, key) in [("simulation", StreamKey::Simulation(1)), ("release", StreamKey::Release([7; 32]))] {
        let mut group = criterion.benchmark_group(format!("exact/{FILL}/{name}"));
        group.throughput(Throughput::Elements(FILL as u64));
        let mut round = 0;
        let mut next_round = || {
            round += 1;
            round
        };
        for (label, deviation) in [("3", 3.0), ("2^25", 33_554_432.0), ("2^31", 2_147_483_648.0)] {
            group.bench_function(format!("gaussian i64, {label}"), |bencher| {
                bencher.iter(|| {
                    fill_rounded_gaussian(&key, PURPOSE, next_round(), 0, deviation, black_box(&mut integers));
                });
            });
        }
        group.bench_function("gaussian i32, 3", |bencher| {
            bencher.iter(|| fill_rounded_gaussian(&key, PURPOSE, next_round(), 0, 3.0, black_box(&mut short)));
        });
        group.bench_function("laplace i64, 3", |bencher| {
            bencher.iter(|| fill_rounded_laplace(&key, PURPOSE, next_round(), 0, 3.0, black_box(&mut integers)));
        });
        let terms: Vec<Term> = (0..32)
            .map(|round| Term { purpose: PURPOSE, round, coefficient: 1e6 / (round as f64 + 1.0).sqrt() })
            .collect();
        group.bench_function("32 terms, 10^6", |bencher| {
            bencher.iter(|| fill_rounded_combination(&key, &terms, 0, black_box(&mut integers)));
        });
        group.throughput(Throughput::Elements(60_000));
        let gaps = ExactGaps::new(500.0 / 60_000.0);
        let mut indices = Vec::with_capacity(60_000);
        group.bench_function("poisson sample by gaps, 500 of 60000", |bencher| {
            bencher.iter(|| gaps.subset(&key, PURPOSE, next_round(), 60_000, black_box(&mut indices)));
        });
        group.finish();
    }
}

fn uniform(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("uniform");
    for (name, key) in [("simulation", StreamKey::Simulation(1)), ("release", StreamKey::Release([7; 32]))] {
        let mut stream = UniformStream::new(&key, PURPOSE, 0, 0);
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("next_f64/{name}"), |bencher| bencher.iter(|| stream.next_f64()));
        group.bench_function(format!("below 60000/{name}"), |bencher| {
            bencher.iter(|| stream.below(60_000));
        });
        let mut items: Vec<u32> = (0..60_000).collect();
        group.throughput(Throughput::Elements(60_000));
        group.bench_function(format!("shuffle of 60000/{name}"), |bencher| {
            bencher.iter(|| stream.shuffle(black_box(&mut items)));
        });
    }
    group.finish();
}

/// Every way of choosing batches of 500 out of 60,000 rows: throughput in rows chosen.
fn samplers(criterion: &mut Criterion) {
    let (rows, batch) = (60_000, 500);
    let mut group = criterion.benchmark_group("sampler/500 of 60000");
    group.throughput(Throughput::Elements(batch as u64));
    for (name, sampling) in [
        ("fixed order", Sampling::FixedOrder),
        ("shuffled once", Sampling::ShuffledOnce),
        ("reshuffled each epoch", Sampling::ReshuffledEachEpoch),
        ("without replacement", Sampling::WithoutReplacement { batch, population: rows }),
        ("poisson", Sampling::Poisson { rate: batch as f64 / rows as f64 }),
        ("poisson, rate 1/10", Sampling::Poisson { rate: 0.1 }),
    ] {
        for (source, key) in [("simulation", StreamKey::Simulation(1)), ("release", StreamKey::Release([7; 32]))] {
            let mut sampler = Sampler::new(sampling, rows, batch, key).expect("a batch of the data");
            let mut round = 0;
            group.bench_function(format!("{name}/{source}"), |bencher| {
                bencher.iter(|| {
                    round += 1;
                    black_box(sampler.draw(round, rows).len())
                });
            });
        }
    }
    group.finish();
}

fn sampling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("poisson/60000");
    group.throughput(Throughput::Elements(60_000));
    for (name, key) in [("simulation", StreamKey::Simulation(1)), ("release", StreamKey::Release([7; 32]))] {
        let mut indices = Vec::with_capacity(60_000);
        let mut round = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                round += 1;
                UniformStream::new(&key, PURPOSE, round, 0).bernoulli_subset(
                    500.0 / 60_000.0,
                    60_000,
                    black_box(&mut indices),
                );
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(500));
    targets = gaussian, laplace, exact, uniform, sampling, samplers
}
criterion_main!(benches);

//! Cost of a round of noise: every mechanism against the dimension and against the number of rounds, next to what it is
//! made of (reading vectors from memory, drawing Gaussians, a matrix product). One iteration is a whole run of T rounds;
//! throughput is given in coordinates of one round, so that a run's time divided by T is a round's.

use std::hint::black_box;
use std::time::Duration;

use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use rounds_algorithms::factorization::WorkloadSpecification;
use rounds_algorithms::noise::{
    NoiseLevels, NoiseMechanism as _, NoisePlan, PlannedNoise, PrivateNoise, StrategyMemory,
};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_kernels::gemm::{Shape, multiply_add_f32};
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

/// Every mechanism of the registry that is one Gaussian mechanism.
fn kinds() -> impl Iterator<Item = NoiseKind> {
    let all = NoiseKind::ALL.iter().copied();
    all.filter(|kind| *kind != NoiseKind::Laplace)
}

fn planned(kind: NoiseKind, rounds: usize, dimension: usize, memory: &StrategyMemory) -> PlannedNoise {
    let plan = NoisePlan { rounds, rounds_per_epoch: rounds, workload: WorkloadSpecification::prefix(), dimension };
    kind.prepare(&plan, memory).expect("a plan of the bench")
}

/// All rounds of a mechanism that is made outside of the time; throughput in coordinates.
fn runs(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    mut make: impl FnMut() -> PrivateNoise,
    (rounds, dimension): (usize, usize),
    unit: Option<f64>,
) {
    let mut sum = vec![0.0; dimension];
    let mut run = |mut mechanism: PrivateNoise| {
        sum.fill(0.0);
        for round in 0..rounds as u64 {
            mechanism.add_increment(round, &mut sum, unit, &Engine::Sequential).expect("rounds in order");
        }
        black_box(&sum[0]);
    };
    group.throughput(Throughput::Elements((rounds * dimension) as u64));
    group.bench_function(id, |bencher| bencher.iter_batched(&mut make, &mut run, BatchSize::PerIteration));
}

fn settings(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
}

fn against_dimension(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mechanism/dimension, T = 256");
    settings(&mut group);
    let memory = StrategyMemory::default();
    for kind in kinds() {
        for dimension in [785, 7_850, 78_500] {
            let make = || planned(kind, 256, dimension, &memory).unaccounted(StreamKey::Simulation(1), 1.0);
            runs(&mut group, BenchmarkId::new(kind.to_string(), dimension), make, (256, dimension), None);
        }
    }
    for dimension in [785, 7_850, 78_500] {
        let levels = || NoiseLevels::Laplace { scales: vec![1.0; 256] };
        let make = || levels().unaccounted(StreamKey::Simulation(1));
        runs(&mut group, BenchmarkId::new("laplace", dimension), make, (256, dimension), None);
    }
    group.finish();
}

fn against_rounds(criterion: &mut Criterion) {
    const DIMENSION: usize = 7_850;
    let mut group = criterion.benchmark_group("mechanism/rounds, d = 7850");
    settings(&mut group);
    for kind in kinds() {
        for rounds in [128, 512, 2_048] {
            // What a factorisation costs is measured elsewhere; closed forms stand for the dense ones here.
            if rounds > 512 && matches!(kind, NoiseKind::Optimal | NoiseKind::Banded(_)) {
                continue;
            }
            let memory = StrategyMemory::default();
            let make = || planned(kind, rounds, DIMENSION, &memory).unaccounted(StreamKey::Simulation(1), 1.0);
            runs(&mut group, BenchmarkId::new(kind.to_string(), rounds), make, (rounds, DIMENSION), None);
        }
    }
    group.finish();
}

/// Noise rounded exactly to a lattice of σ/γ = 2²⁰ and 2³¹, against noise in floating point, for both keys.
fn exact(criterion: &mut Criterion) {
    const DIMENSION: usize = 7_850;
    let mut group = criterion.benchmark_group("mechanism/exact, d = 7850, T = 256");
    settings(&mut group);
    let memory = StrategyMemory::default();
    for kind in kinds() {
        for (name, key) in [("simulation", StreamKey::Simulation(1)), ("release", StreamKey::Release([7; 32]))] {
            for (lattice, unit) in [("none", None), ("2^20", Some(2f64.powi(-20))), ("2^31", Some(2f64.powi(-31)))] {
                let make = || planned(kind, 256, DIMENSION, &memory).unaccounted(key.clone(), 1.0);
                let id = BenchmarkId::new(format!("{kind}/{name}"), lattice);
                runs(&mut group, id, make, (256, DIMENSION), unit);
            }
        }
    }
    group.finish();
}

/// The sum of all values, in 64 lanes.
fn lanes_of(values: &[f32]) -> [f32; 64] {
    let mut lanes = [0f32; 64];
    for part in values.chunks_exact(64) {
        for (lane, value) in lanes.iter_mut().zip(part) {
            *lane += value;
        }
    }
    lanes
}

/// The parts of a round, for the ratios that mechanisms are held to.
fn references(criterion: &mut Criterion) {
    const DIMENSION: usize = 7_850;
    let mut group = criterion.benchmark_group("mechanism/references, d = 7850");
    settings(&mut group);
    // 32 vectors of f32, out of a pool larger than the caches: every read comes from memory.
    let pool = vec![1f32; 1 << 28 >> 2];
    let set = 32 * DIMENSION;
    let mut start = 0;
    group.bench_function("reading 32 vectors from memory", |bencher| {
        bencher.iter(|| {
            start = if start + 2 * set > pool.len() { 0 } else { start + set };
            black_box(lanes_of(&pool[start..start + set]))
        });
    });
    group.bench_function("reading 32 vectors from cache", |bencher| {
        bencher.iter(|| black_box(lanes_of(black_box(&pool[..set]))));
    });
    let mut draws = vec![0f32; DIMENSION];
    let mut round = 0;
    group.bench_function("one vector of Gaussians", |bencher| {
        bencher.iter(|| {
            round += 1;
            fill_gaussian(&StreamKey::Simulation(1), Purpose(7), round, 1.0, &mut draws);
            black_box(draws[0])
        });
    });
    let size = 1_024;
    let (a, b, mut c) = (vec![0.5f32; size * size], vec![0.5f32; size * size], vec![0f32; size * size]);
    group.throughput(Throughput::Elements(2 * (size as u64).pow(3)));
    group.bench_function("matrix product of 1024", |bencher| {
        bencher.iter(|| {
            multiply_add_f32(Shape::packed(size, size, size), &a, &b, &mut c);
            black_box(c[0])
        });
    });
    group.finish();
}

criterion_group!(benches, references, against_dimension, against_rounds, exact);
criterion_main!(benches);

//! Operations on vectors, the materialised path and the matrix product, on blocks that stay in the second-level cache:
//! throughput in elements, bytes or flops.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rounds_kernels::features::Norm;
use rounds_kernels::gemm::{Shape, multiply_add_f32, multiply_add_f64};
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::{Loss, Target};
use rounds_kernels::{materialized, vector};

/// 10 classes × (784 features + bias), and a model beyond the first-level cache.
const LENGTHS: [usize; 2] = [7_850, 65_536];

fn vectors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vector");
    for length in LENGTHS {
        let x: Vec<f32> = (0..length).map(|index| (index % 97) as f32 / 97.0 - 0.5).collect();
        let mut y = x.clone();
        let mut out = x.clone();
        let mut sum = vec![0.0; length];
        let doubles = vec![1e-3; length];
        group.throughput(Throughput::Elements(length as u64));
        let id = |name| BenchmarkId::new(name, length);
        group.bench_function(id("dot"), |bencher| bencher.iter(|| vector::dot(black_box(&x), &y)));
        group.bench_function(id("norm L2"), |bencher| {
            bencher.iter(|| vector::norm(black_box(&x), Norm::L2));
        });
        group.bench_function(id("norm L1"), |bencher| {
            bencher.iter(|| vector::norm(black_box(&x), Norm::L1));
        });
        group.bench_function(id("distance"), |bencher| {
            bencher.iter(|| vector::distance(black_box(&x), &y));
        });
        group.bench_function(id("axpy"), |bencher| {
            bencher.iter(|| vector::axpy(1e-9, black_box(&x), &mut y));
        });
        group.bench_function(id("scale"), |bencher| {
            bencher.iter(|| vector::scale(black_box(1.0), &mut y));
        });
        group.bench_function(id("interpolate"), |bencher| {
            bencher.iter(|| vector::interpolate(0.25, black_box(&x), &y, &mut out));
        });
        group.bench_function(id("project onto a ball"), |bencher| {
            bencher.iter(|| {
                // Outside each time, so that it is scaled each time.
                out[0] = 1e6;
                vector::project_onto_ball(Some(&x), 1.0, black_box(&mut out))
            });
        });
        group.bench_function(id("add to f64"), |bencher| {
            bencher.iter(|| vector::add_to_f64(black_box(&x), &mut sum));
        });
        group.bench_function(id("add f64"), |bencher| {
            bencher.iter(|| vector::add_f64(black_box(&doubles), &mut sum));
        });
        group.bench_function(id("round to f32"), |bencher| {
            bencher.iter(|| vector::round_to_f32(1e-3, black_box(&sum), &mut out));
        });
        group.bench_function(id("is finite"), |bencher| {
            bencher.iter(|| vector::is_finite(black_box(&x)));
        });
    }
    group.finish();
}

/// The scalar references of residuals, a row each.
fn residuals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("residual reference");
    group.throughput(Throughput::Elements(1));
    let mut margins = [0.0; 10];
    group.bench_function("softmax/10 classes", |bencher| {
        bencher.iter(|| {
            for (class, margin) in margins.iter_mut().enumerate() {
                *margin = class as f64 / 10.0;
            }
            Loss::Softmax.residual(black_box(&mut margins), Target::Class(3));
        });
    });
    for (name, loss) in [
        ("logistic", Loss::Logistic),
        ("squared", Loss::Squared),
        ("Huber", Loss::Huber(1.0)),
        ("hinge", Loss::Hinge),
        ("absolute", Loss::Absolute),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut margin = [black_box(0.3)];
                loss.residual(&mut margin, Target::Value(1.0));
                margin
            });
        });
    }
    group.finish();
}

/// Per-example gradients that lie in memory: norms, clipping and the sum.
fn materialised(criterion: &mut Criterion) {
    let (rows, dimension) = (32, 7_850);
    let gradients: Vec<f32> = (0..rows * dimension)
        .map(|index| (index % 89) as f32 / 89.0 - 0.5)
        .collect();
    let mut sum = vec![0.0; dimension];
    let mut scratch = vec![0.0; dimension];
    let mut norms = vec![0.0; rows];
    let clip = Clip::Bounded {
        norm: Norm::L2,
        clip_norm: 1.0,
    };
    let mut group = criterion.benchmark_group("materialized/32 gradients of 7850");
    group.throughput(Throughput::Elements((rows * dimension) as u64));
    group.bench_function("norms", |bencher| {
        bencher.iter(|| materialized::norms(black_box(&gradients), dimension, Norm::L2, &mut norms));
    });
    group.bench_function("clipped sum", |bencher| {
        bencher.iter(|| materialized::accumulate_gradients(black_box(&gradients), 0, clip, &mut sum));
    });
    group.bench_function("clipped sum of differences", |bencher| {
        bencher.iter(|| {
            let points = ((3.0, black_box(gradients.as_slice())), (2.0, gradients.as_slice()));
            materialized::accumulate_differences(points.0, points.1, 0, clip, &mut sum, &mut scratch)
        });
    });
    group.finish();
}

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matrix product, flops");
    // A square one, and noise of a block of rounds: T × T times T × coordinates.
    for (m, k, n) in [(512, 512, 512), (64, 256, 2_048)] {
        group.throughput(Throughput::Elements((2 * m * k * n) as u64));
        let shape = Shape::packed(m, k, n);
        let (a, b, mut c) = (vec![0.5f32; m * k], vec![0.5f32; k * n], vec![0f32; m * n]);
        group.bench_function(format!("f32/{m} x {k} x {n}"), |bencher| {
            bencher.iter(|| multiply_add_f32(shape, black_box(&a), &b, &mut c));
        });
        let (a, b, mut c) = (vec![0.5f64; m * k], vec![0.5f64; k * n], vec![0f64; m * n]);
        group.bench_function(format!("f64/{m} x {k} x {n}"), |bencher| {
            bencher.iter(|| multiply_add_f64(shape, black_box(&a), &b, &mut c));
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
    targets = vectors, residuals, materialised, products
}
criterion_main!(benches);

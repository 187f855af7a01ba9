//! Operations on vectors and the matrix product, on blocks that stay in the second-level cache:
//! throughput in elements, bytes or flops.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rounds_kernels::gemm::{Shape, multiply_add_f32, multiply_add_f64};
use rounds_kernels::loss::{Loss, Target};
use rounds_kernels::vector;

/// 10 classes × (784 features + bias), and a model beyond the first-level cache.
const LENGTHS: [usize; 2] = [7_850, 65_536];

fn vectors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vector");
    for length in LENGTHS {
        let x: Vec<f32> = (0..length).map(|index| (index % 97) as f32 / 97.0 - 0.5).collect();
        let y = x.clone();
        group.throughput(Throughput::Elements(length as u64));
        let id = |name| BenchmarkId::new(name, length);
        group.bench_function(id("dot"), |bencher| bencher.iter(|| vector::dot(black_box(&x), &y)));
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
    for loss in Loss::ALL {
        group.bench_function(loss.to_string(), |bencher| {
            bencher.iter(|| {
                if loss == Loss::Softmax {
                    let mut margins = black_box([0.3; 10]);
                    loss.residual(&mut margins, Target::Class(3));
                    margins[0]
                } else {
                    let mut margin = [black_box(0.3)];
                    loss.residual(&mut margin, Target::Value(1.0));
                    margin[0]
                }
            });
        });
    }
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
    targets = vectors, residuals, products
}
criterion_main!(benches);

//! The fused gradient kernels of linear models: throughput in floating-point operations, beside the FMA peak measured in
//! the same run, and in bytes where memory is the limit.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rounds_kernels::features::{F32Rows, Norm, Rows, Selection, Targets, U8Rows};
use rounds_kernels::linear::{
    Batch, Clip, LinearModel, Point, RowNorms, Workspace, accumulate_differences, accumulate_gradients, row_norms,
};
use rounds_kernels::loss::Loss;
use wide::f32x16;

const CLIP: Clip = Clip::Bounded {
    norm: Norm::L2,
    clip_norm: 1.0,
};

/// Rows, targets and norms of one problem.
struct Data {
    floats: Vec<f32>,
    bytes: Vec<u8>,
    classes: Vec<u32>,
    signs: Vec<f32>,
    columns: usize,
}

impl Data {
    fn new(rows: usize, columns: usize) -> Self {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let bytes: Vec<u8> = (0..rows * columns).map(|_| next()).collect();
        Self {
            floats: bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect(),
            bytes,
            classes: (0..rows).map(|row| (row % 10) as u32).collect(),
            signs: (0..rows).map(|row| if row % 3 == 0 { 1.0 } else { -1.0 }).collect(),
            columns,
        }
    }

    fn rows(&self, bytes: bool) -> Rows<'_> {
        if bytes {
            Rows::U8(U8Rows {
                values: &self.bytes,
                columns: self.columns,
                scale: 1.0 / 255.0,
            })
        } else {
            Rows::F32(F32Rows {
                values: &self.floats,
                columns: self.columns,
            })
        }
    }

    fn batch<'a>(&'a self, bytes: bool, outputs: usize, norms: &'a RowNorms) -> Batch<'a> {
        let rows = self.rows(bytes);
        let targets = if outputs > 1 {
            Targets::Classes(&self.classes)
        } else {
            Targets::Values(&self.signs)
        };
        Batch {
            rows,
            targets,
            norms: Some(norms),
            selection: Selection::Range(0..rows.len()),
        }
    }
}

fn model(columns: usize, outputs: usize) -> LinearModel {
    let loss = if outputs > 1 { Loss::Softmax } else { Loss::Logistic };
    LinearModel {
        features: columns,
        outputs,
        bias: true,
        loss,
    }
}

/// Independent chains of fused multiply-adds in registers: what the processor can do at most.
fn peak(criterion: &mut Criterion) {
    const CHAINS: usize = 16;
    const STEPS: usize = 4_096;
    let mut group = criterion.benchmark_group("peak");
    group.throughput(Throughput::Elements((2 * 16 * CHAINS * STEPS) as u64));
    group.bench_function("f32 fused multiply-add, flops", |bencher| {
        let factor = black_box(f32x16::splat(0.999));
        bencher.iter(|| {
            let mut chains = [f32x16::splat(1.0); CHAINS];
            for _ in 0..STEPS {
                for chain in &mut chains {
                    *chain = chain.mul_add(factor, factor);
                }
            }
            chains
        });
    });
    group.finish();
}

fn gradients(criterion: &mut Criterion) {
    // 128 rows stay in L2, 4,000 in L3, 60,000 come from memory.
    for rows in [128, 4_000, 60_000] {
        let data = Data::new(rows, 784);
        for outputs in [1, 10] {
            let model = model(784, outputs);
            let parameters = vec![0.01; model.parameters()];
            let mut sum = vec![0.0; model.parameters()];
            let mut workspace = Workspace::new(&model);
            let mut group = criterion.benchmark_group(format!("gradient/{outputs} outputs, 784 features"));
            group.throughput(Throughput::Elements((4 * rows * model.parameters()) as u64));
            for bytes in [false, true] {
                let norms = row_norms(data.rows(bytes), true, Norm::L2).expect("finite rows");
                let batch = data.batch(bytes, outputs, &norms);
                let name = format!("{rows} rows of {}, flops", if bytes { "u8" } else { "f32" });
                group.bench_function(name, |bencher| {
                    bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace));
                });
            }
            group.finish();
        }
    }
}

fn differences(criterion: &mut Criterion) {
    let data = Data::new(2_000, 784);
    let model = model(784, 10);
    let parameters = vec![0.01; model.parameters()];
    let previous = vec![0.02; model.parameters()];
    let mut sum = vec![0.0; model.parameters()];
    let mut workspace = Workspace::new(&model);
    let norms = row_norms(data.rows(false), true, Norm::L2).expect("finite rows");
    let batch = data.batch(false, 10, &norms);
    let mut group = criterion.benchmark_group("difference against gradient/2,000 rows of f32");
    group.bench_function("gradient", |bencher| {
        bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace));
    });
    group.bench_function("difference", |bencher| {
        let current = Point {
            coefficient: 3.0,
            parameters: &parameters,
        };
        let previous = Point {
            coefficient: 2.0,
            parameters: &previous,
        };
        bencher.iter(|| accumulate_differences(&model, &batch, current, previous, CLIP, &mut sum, &mut workspace));
    });
    group.finish();
}

fn few_features(criterion: &mut Criterion) {
    let data = Data::new(100_000, 20);
    let model = model(20, 1);
    let parameters = vec![0.01; model.parameters()];
    let mut sum = vec![0.0; model.parameters()];
    let mut workspace = Workspace::new(&model);
    let norms = row_norms(data.rows(false), true, Norm::L2).expect("finite rows");
    let batch = data.batch(false, 1, &norms);
    let mut group = criterion.benchmark_group("gradient/1 output, 20 features");
    group.throughput(Throughput::Bytes((4 * data.floats.len()) as u64));
    group.bench_function("100,000 rows of f32, bytes", |bencher| {
        bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace));
    });
    group.finish();
}

criterion_group!(benches, peak, gradients, differences, few_features);
criterion_main!(benches);

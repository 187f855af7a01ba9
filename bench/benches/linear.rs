//! The fused gradient kernels of linear models: throughput in floating-point operations, next to the FMA peak measured in
//! the same run, and in bytes where memory is the limit.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rounds_kernels::features::{Norm, Rows, Selection, SparseRows, Targets};
use rounds_kernels::instructions::InstructionSet;
use rounds_kernels::linear::recorded::{ByOutput, RecordedWorkspace, Reweighting, accumulate_reweighted, record};
use rounds_kernels::linear::{
    Batch, Clip, FeatureGrid, LinearModel, NonFiniteGradient, PackedQuery, Planes, Point, Precision, RowNorms,
    SumLattice, Workspace, accumulate_differences, accumulate_gradients, accumulate_packed, evaluate, pack, row_norms,
};
use rounds_kernels::loss::Loss;
use rounds_kernels::memory::{Buffer, ByteRows};
use wide::f32x16;

const CLIP: Clip = Clip::l2(1.0);

/// Rows, targets and norms of one problem.
struct Data {
    floats: Buffer<f32>,
    bytes: ByteRows,
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
            floats: Buffer::from(bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect::<Vec<_>>()),
            bytes: ByteRows::new(&bytes, columns),
            classes: (0..rows).map(|row| (row % 10) as u32).collect(),
            signs: (0..rows).map(|row| if row % 3 == 0 { 1.0 } else { -1.0 }).collect(),
            columns,
        }
    }

    fn rows(&self, bytes: bool) -> Rows<'_> {
        if bytes { Rows::U8(self.bytes.view(1.0 / 255.0)) } else { Rows::f32(&self.floats, self.columns) }
    }

    fn batch<'a>(&'a self, bytes: bool, outputs: usize, norms: &'a RowNorms) -> Batch<'a> {
        let rows = self.rows(bytes);
        let targets = if outputs > 1 { Targets::Classes(&self.classes) } else { Targets::Values(&self.signs) };
        Batch { rows, targets, norms: Some(norms), selection: Selection::Range(0..rows.len()), units: None }
    }
}

fn model(columns: usize, outputs: usize) -> LinearModel {
    let loss = if outputs > 1 { Loss::Softmax } else { Loss::Logistic };
    LinearModel { features: columns, outputs, bias: true, loss }
}

/// Sums of clipped gradients at small parameters, in floating-point operations.
fn sums(group: &mut BenchmarkGroup<'_, WallTime>, name: String, model: &LinearModel, batch: &Batch<'_>, clip: Clip) {
    let parameters = vec![0.01; model.parameters()];
    let mut sum = vec![0.0; model.parameters()];
    let mut workspace = Workspace::new(model);
    group.throughput(Throughput::Elements((4 * batch.selection.len() * model.parameters()) as u64));
    group.bench_function(name, |bencher| {
        bencher.iter(|| accumulate_gradients(model, batch, &parameters, clip, &mut sum, &mut workspace));
    });
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
            let mut group = criterion.benchmark_group(format!("gradient/{outputs} outputs, 784 features"));
            for bytes in [false, true] {
                let norms = row_norms(data.rows(bytes), true, Norm::L2).expect("finite rows");
                let batch = data.batch(bytes, outputs, &norms);
                let name = format!("{rows} rows of {}, flops", if bytes { "u8" } else { "f32" });
                sums(&mut group, name, &model(784, outputs), &batch, CLIP);
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
    group.throughput(Throughput::Elements(2_000));
    group.bench_function("gradient", |bencher| {
        bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace));
    });
    group.bench_function("difference", |bencher| {
        let current = Point { coefficient: 3.0, parameters: &parameters };
        let points = (current, Some(Point { coefficient: 2.0, parameters: &previous }));
        bencher.iter(|| accumulate_differences(&model, &batch, points, CLIP, &mut sum, &mut workspace));
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

/// Rows of a batch in any order, as samplers give them.
fn scattered(criterion: &mut Criterion) {
    let data = Data::new(60_000, 784);
    let mut group = criterion.benchmark_group("gradient of scattered rows/10 outputs, 784 features");
    for rows in [64_u32, 500, 8_000] {
        // A step that is no divisor of 60,000 meets rows far apart.
        let indices: Vec<u32> = (0..rows).map(|place| place * 7_919 % 60_000).collect();
        for bytes in [false, true] {
            let norms = row_norms(data.rows(bytes), true, Norm::L2).expect("finite rows");
            let batch = Batch { selection: Selection::Indices(&indices), ..data.batch(bytes, 10, &norms) };
            let name = format!("{rows} rows of {}, flops", if bytes { "u8" } else { "f32" });
            sums(&mut group, name, &model(784, 10), &batch, CLIP);
        }
    }
    group.finish();
}

/// Rows of bytes in f32, and integers of one and two planes and of both precisions on every set of instructions.
fn integers(criterion: &mut Criterion) {
    let data = Data::new(60_000, 784);
    let model = model(784, 10);
    let parameters = vec![0.01; model.parameters()];
    let mut sum = vec![0.0; model.parameters()];
    let norms = row_norms(data.rows(true), true, Norm::L2).expect("finite rows");
    let of_set = |set| (set, PackedQuery::on(&model, set).expect("integers"), Workspace::new(&model).on(&model, set));
    let mut sets: Vec<_> = InstructionSet::available().map(of_set).collect();
    let mut floats = Workspace::new(&model).without_integers();
    let fixed_point = FeatureGrid::fixed_point(1.0);
    let mut planes = Planes::zeroed(60_000, 784, fixed_point);
    planes.parts(60_000).for_each(|mut write| write(&data.floats));
    let rows_of_f32 = data.rows(false).with_planes(Some(planes.view()));
    let kinds = [("bytes", data.rows(true), FeatureGrid::bytes(1.0 / 255.0)), ("f32", rows_of_f32, fixed_point)];
    for rows in [64, 500, 2_000, 60_000] {
        for (kind, features, grid) in kinds {
            let mut group =
                criterion.benchmark_group(format!("gradient of {rows} rows of {kind}, 10 outputs, 784 features"));
            let selection = Selection::Range(0..rows);
            let batch = Batch { rows: features, selection, ..data.batch(true, 10, &norms) };
            if kind == "bytes" {
                group.bench_function("f32", |bencher| {
                    bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut floats));
                });
            }
            for (set, packed, workspace) in &mut sets {
                if rows > 64 && *set == InstructionSet::Scalar {
                    continue;
                }
                for precision in [Precision::Bits16, Precision::Bits24] {
                    let lattice = SumLattice::new(&model, (grid, precision), 1.0, CLIP, rows).expect("small sums");
                    let point = Point { coefficient: 1.0, parameters: &parameters };
                    group.bench_function(format!("{set}, {precision:?}"), |bencher| {
                        bencher.iter(|| {
                            assert!(pack(&model, (point, None), &lattice, packed));
                            accumulate_packed(&model, &batch, packed, (&mut sum, 1.0), workspace)
                        });
                    });
                }
            }
            group.finish();
        }
    }
}

/// Compressed rows, one feature in ten stored: throughput in stored values.
fn sparse(criterion: &mut Criterion) {
    let (rows, columns, stored) = (4_000_usize, 784_usize, 78_usize);
    let offsets: Vec<usize> = (0..=rows).map(|row| row * stored).collect();
    let indices: Vec<u32> =
        (0..rows).flat_map(|row| (0..stored).map(move |place| (10 * place + row % 10) as u32)).collect();
    let values: Vec<f32> = (0..rows * stored).map(|place| (place % 251) as f32 / 251.0).collect();
    let data = Data::new(rows, 1);
    let matrix = Rows::Sparse(SparseRows { offsets: &offsets, indices: &indices, values: &values, columns });
    let norms = row_norms(matrix, true, Norm::L2).expect("finite rows");
    let mut group = criterion.benchmark_group("gradient of sparse rows/78 of 784 features stored");
    group.throughput(Throughput::Elements((rows * stored) as u64));
    for outputs in [1, 10] {
        let model = model(columns, outputs);
        let parameters = vec![0.01; model.parameters()];
        let mut sum = vec![0.0; model.parameters()];
        let mut workspace = Workspace::new(&model);
        let batch = Batch { rows: matrix, ..data.batch(false, outputs, &norms) };
        group.bench_function(format!("{outputs} outputs, stored values"), |bencher| {
            bencher.iter(|| accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace));
        });
    }
    group.finish();
}

/// Margins that are kept, and sums of rows by coefficients.
fn recorded(criterion: &mut Criterion) {
    let rows = 2_000;
    let data = Data::new(rows, 784);
    let model = model(784, 10);
    let parameters = vec![0.01; model.parameters()];
    let mut kept = vec![0.0; rows * 10];
    let recorded = vec![0.1; rows * 10];
    let mut sum = vec![0.0; model.parameters()];
    let mut workspace = RecordedWorkspace::new(&model);
    let norms = row_norms(data.rows(true), true, Norm::L2).expect("finite rows");
    let batch = data.batch(true, 10, &norms);
    let mut group = criterion.benchmark_group("recorded/2,000 rows of u8, 10 outputs, 784 features");
    group.throughput(Throughput::Elements((2 * rows * model.parameters()) as u64));
    group.bench_function("round, flops of margins", |bencher| {
        let mut residuals: Vec<&mut [f32]> = kept.chunks_exact_mut(rows).collect();
        bencher.iter(|| record(&model, &batch, &parameters, None, &mut residuals, &mut workspace));
    });
    group.throughput(Throughput::Elements((4 * rows * model.parameters()) as u64));
    group.bench_function("reweighting, flops of margins and outer products", |bencher| {
        let residuals = ByOutput::new(&recorded, 10);
        bencher.iter(|| {
            accumulate_reweighted(
                &model,
                &batch,
                Reweighting { offset: &parameters, residuals, lattice: None },
                &mut |_, weights| {
                    weights.fill(0.5);
                    Ok::<(), NonFiniteGradient>(())
                },
                &mut sum,
                &mut workspace,
            )
        });
    });
    group.finish();
}

/// Every loss and norm of clipping, and other numbers of classes.
fn losses(criterion: &mut Criterion) {
    let rows = 2_000;
    let data = Data::new(rows, 128);
    let norms = [Norm::L1, Norm::L2].map(|norm| row_norms(data.rows(false), true, norm).expect("finite rows"));
    let mut group = criterion.benchmark_group("gradient by loss/2,000 rows of f32, 128 features");
    let ones = Loss::ALL.into_iter().filter(|&loss| loss != Loss::Softmax);
    let ones = ones.map(|loss| (loss.to_string(), LinearModel { loss, ..model(128, 1) }));
    let many = [2, 10, 26, 100].map(|classes| (format!("softmax of {classes}"), model(128, classes)));
    for (name, model) in ones.chain(many) {
        let classes: Vec<u32> = (0..rows).map(|row| (row % model.outputs) as u32).collect();
        for (norm, norms) in [Norm::L1, Norm::L2].into_iter().zip(&norms) {
            let clip = Clip::Bounded { norm, clip_norm: 1.0 };
            let mut batch = data.batch(false, model.outputs, norms);
            if model.outputs > 1 {
                batch.targets = Targets::Classes(&classes);
            }
            sums(&mut group, format!("{name}, clipped in {norm:?}, flops"), &model, &batch, clip);
        }
    }
    group.finish();
}

/// Row norms, loss and accuracy.
fn other(criterion: &mut Criterion) {
    let rows = 4_000;
    let data = Data::new(rows, 784);
    let model = model(784, 10);
    let parameters = vec![0.01; model.parameters()];
    let mut workspace = Workspace::new(&model);
    let mut group = criterion.benchmark_group("around gradients/4,000 rows, 784 features");
    for bytes in [false, true] {
        let kind = if bytes { "u8" } else { "f32" };
        let norms = row_norms(data.rows(bytes), true, Norm::L2).expect("finite rows");
        let batch = data.batch(bytes, 10, &norms);
        group.throughput(Throughput::Elements((2 * rows * model.parameters()) as u64));
        group.bench_function(format!("loss and accuracy, {kind}, flops"), |bencher| {
            bencher.iter(|| evaluate(&model, &batch, &parameters, &mut workspace));
        });
        group.throughput(Throughput::Elements((rows * 784) as u64));
        for norm in [Norm::L1, Norm::L2] {
            group.bench_function(format!("{norm:?} norms of rows, {kind}, features"), |bencher| {
                bencher.iter(|| row_norms(data.rows(bytes), true, black_box(norm)));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(12)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(600));
    targets = peak, gradients, differences, few_features, scattered, integers, sparse, recorded, losses, other
}
criterion_main!(benches);

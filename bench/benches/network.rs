//! Gradients of networks: floating-point operations a second beside the FMA peak measured in the same run, without clipping, clipped, and clipped
//! on the lattice of a release. Times are the processor's on this thread, so that other programs on the machine do not count.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rounds_kernels::features::{Rows, Selection, Targets};
use rounds_kernels::linear::{Batch, Clip};
use rounds_kernels::network::{GradientLattice, Network, PackedParameters, Workspace, accumulate, evaluate};
use wide::f32x16;

/// Rows of a leaf of 500.
const ROWS: usize = 31;

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let file = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    file.split(' ').next().and_then(|time| time.parse().ok()).expect("a number")
}

/// The processor time of so many calls.
fn timed<T>(calls: u64, mut call: impl FnMut() -> T) -> Duration {
    let start = processor_time();
    (0..calls).for_each(|_| drop(black_box(call())));
    // The clock of a thread steps when it is interrupted or yields.
    std::thread::yield_now();
    Duration::from_nanos((processor_time() - start).max(1))
}

/// Independent chains of fused multiply-adds in registers.
fn peak(criterion: &mut Criterion) {
    const CHAINS: usize = 16;
    const STEPS: usize = 65_536;
    let mut group = criterion.benchmark_group("peak");
    group.throughput(Throughput::Elements((2 * 16 * CHAINS * STEPS) as u64));
    group.bench_function("multiply-add", |bencher| {
        bencher.iter_custom(|calls| {
            timed(calls, || {
                let mut sums = [f32x16::ZERO; CHAINS];
                let (a, b) = (black_box(f32x16::splat(0.999)), black_box(f32x16::splat(1e-3)));
                for _ in 0..STEPS {
                    sums.iter_mut().for_each(|sum| *sum = sum.mul_add(a, b));
                }
                sums
            })
        });
    });
}

fn networks(criterion: &mut Criterion) {
    for (name, columns) in [("cnn-550k", 3_072), ("conv 16, tanh, pool, conv 32, tanh, pool, dense 32, tanh", 784)] {
        let network = Network::new(name, columns, 10).expect("a network");
        let bytes: Vec<u8> = (0..ROWS * columns).map(|place| ((place * 7_919) >> 3) as u8).collect();
        let classes: Vec<u32> = (0..ROWS as u32).map(|row| row % 10).collect();
        let batch = Batch {
            rows: Rows::bytes(&bytes, columns, 1.0 / 255.0),
            targets: Targets::Classes(&classes),
            norms: None,
            selection: Selection::Range(0..ROWS),
            units: None,
        };
        let mut packed = PackedParameters::new(&network);
        let parameters = network.initial(1);
        packed.set(&network, &parameters);
        let (mut sum, mut workspace) = (vec![0.0; network.parameters()], Workspace::new(&network));
        let lattice = GradientLattice::new(1.0, 1 << 20);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(ROWS as u64 * network.flops() as u64));
        for (kind, clip, lattice) in [
            ("not clipped", Clip::Unbounded, None),
            ("clipped", Clip::l2(1.0), None),
            ("on the lattice", Clip::l2(1.0), lattice.as_ref()),
        ] {
            group.bench_function(kind, |bencher| {
                bencher.iter_custom(|calls| {
                    let points = [(&packed, 1.0)];
                    timed(calls, || accumulate(&network, &batch, &points, (clip, lattice), &mut sum, &mut workspace))
                });
            });
        }
        group.bench_function("forward", |bencher| {
            bencher.iter_custom(|calls| timed(calls, || evaluate(&network, &batch, &packed, &mut workspace)));
        });
        group.bench_function("parameters", |bencher| {
            bencher.iter_custom(|calls| timed(calls, || packed.set(&network, &parameters)));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    targets = peak, networks
}
criterion_main!(benches);

//! Rates of the kernels on one thread, on the shapes of a round, under the roofline.

use std::time::{Duration, Instant};

use rounds_kernels::features::{Norm, Rows, Selection, Targets};
use rounds_kernels::linear::{
    Batch, Clip, FeatureGrid, LinearModel, Planes, Point, Precision, SumLattice, Workspace, accumulate_differences,
    accumulate_gradients, accumulate_on_lattice, has_integer_kernels, has_integer_kernels_for, integer_operations,
    row_norms,
};
use rounds_kernels::loss::Loss;
use rounds_kernels::memory::{Buffer, ByteRows};
use rounds_kernels::random::{Purpose, StreamKey, add_gaussian};
use rounds_kernels::vector;
use serde::{Deserialize, Serialize};

use crate::format::plural;
use crate::machine::{Limit, Roofline};
use crate::statistics::median;

/// The file beside the measurements of a run.
pub(crate) const FILE: &str = "kernels.json";

/// The rate of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelRate {
    pub(crate) kernel: String,
    pub(crate) shape: String,
    /// Floating-point operations of a call; 0 if they are not counted.
    pub(crate) flops: f64,
    /// Operations on 8-bit integers of a call; 0 if it computes in f32.
    #[serde(default)]
    pub(crate) integer_operations: f64,
    /// Bytes that a call reads and writes.
    pub(crate) bytes: f64,
    /// Median seconds of a call.
    pub(crate) seconds: f64,
}

impl KernelRate {
    pub(crate) fn gflops(&self) -> f64 {
        self.flops / self.seconds * 1e-9
    }

    /// The limit of its instructions and of the cache that holds what it reads.
    pub(crate) fn limit(&self, roofline: &Roofline) -> Limit {
        let integers = self.integer_operations > 0.0;
        roofline.limit(integers.then_some(self.integer_operations / self.flops), self.bytes)
    }
}

/// Seconds of a call: the median of repeats that take about 40 ms together, at least three of them.
fn seconds(mut call: impl FnMut()) -> f64 {
    call();
    let (mut times, begin) = (Vec::new(), Instant::now());
    while times.len() < 3 || (begin.elapsed() < Duration::from_millis(40) && times.len() < 2_000) {
        let start = Instant::now();
        call();
        times.push(start.elapsed().as_secs_f64());
    }
    median(&times)
}

const FEATURES: usize = 784;
const CLIP: Clip = Clip::l2(1.0);

/// Measures all kernels: the shapes are those of MNIST, 128 rows (they stay in the second-level cache), 4,000 and 60,000.
pub(crate) fn measure() -> Vec<KernelRate> {
    let mut rates = Vec::new();
    for rows in [128, 4_000, 60_000] {
        let mut state = 1_u32;
        let bytes: Vec<u8> = (0..rows * FEATURES)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let grid = FeatureGrid::fixed_point(1.0);
        let fixed_point = |&byte: &u8| (f32::from(byte) / 255.0 / grid.step).round() * grid.step;
        let floats: Vec<f32> = bytes.iter().map(fixed_point).collect();
        // In memory as data sets are.
        let (floats, bytes) = (Buffer::from(floats), ByteRows::new(&bytes, FEATURES));
        let of_bytes = Rows::U8(bytes.view(1.0 / 255.0));
        let of_floats = Rows::f32(&floats, FEATURES);
        gradients((of_bytes, "u8", 1, FeatureGrid::bytes(1.0 / 255.0)), &[1, 10], &mut rates);
        gradients((of_floats, "f32", 4, grid), &[1, 10], &mut rates);
        if has_integer_kernels() {
            let mut planes = Planes::zeroed(0, FEATURES, grid);
            planes.append(&floats);
            let in_planes = of_floats.with_planes(Some(planes.view()));
            gradients((in_planes, "fixed-point f32", 2, grid), &[10], &mut rates);
        }
    }
    vectors(&mut rates);
    rates
}

/// The clipped sum of gradients, for each number of outputs, in integers of 24 and of 16 bits where there are such kernels, and the
/// clipped sum of differences, of rows of which kernels read `width` bytes a feature.
fn gradients(
    (rows, stored, width, grid): (Rows<'_>, &str, usize, FeatureGrid),
    outputs: &[usize],
    rates: &mut Vec<KernelRate>,
) {
    let count = rows.len();
    let classes: Vec<u32> = (0..count).map(|row| (row % 10) as u32).collect();
    let signs: Vec<f32> = (0..count).map(|row| if row % 3 == 0 { 1.0 } else { -1.0 }).collect();
    let norms = row_norms(rows, true, Norm::L2).expect("finite rows");
    for &outputs in outputs {
        let model = LinearModel {
            features: FEATURES,
            outputs,
            bias: true,
            loss: if outputs > 1 { Loss::Softmax } else { Loss::Logistic },
        };
        let parameters = vec![0.01; model.parameters()];
        let mut sum = vec![0.0; model.parameters()];
        let mut workspace = Workspace::new(&model);
        let batch = Batch {
            rows,
            targets: if outputs > 1 { Targets::Classes(&classes) } else { Targets::Values(&signs) },
            norms: Some(&norms),
            selection: Selection::Range(0..count),
            units: None,
        };
        let flops = (4 * count * model.parameters()) as f64;
        let in_integers = width < size_of::<f32>() && has_integer_kernels_for(&model);
        let operations_per_flop = |precision| {
            let operations = (count * width) as f64 * integer_operations(&model, precision);
            if in_integers { operations / flops } else { 0.0 }
        };
        let mut rate = |kernel: &str, flops: f64, precision, seconds: f64| {
            rates.push(KernelRate {
                kernel: kernel.to_owned(),
                shape: format!("{count} rows of {stored}, {}", plural(outputs, "output")),
                flops,
                integer_operations: flops * operations_per_flop(precision),
                bytes: (count * FEATURES * width) as f64,
                seconds,
            });
        };
        let gradient = seconds(|| {
            accumulate_gradients(&model, &batch, &parameters, CLIP, &mut sum, &mut workspace)
                .expect("finite gradients");
        });
        rate("clipped gradients", flops, Precision::Bits24, gradient);
        let point = |coefficient, parameters| Point { coefficient, parameters };
        if in_integers {
            let lattice = SumLattice::new(&model, (grid, Precision::Bits16), 1.0, CLIP, 0).expect("numbers in range");
            let gradient = seconds(|| {
                let points = (point(1.0, &parameters[..]), None);
                accumulate_on_lattice(&model, &batch, points, &lattice, &mut sum, &mut workspace)
                    .expect("finite gradients");
            });
            rate("clipped gradients, 16 bits", flops, Precision::Bits16, gradient);
        }
        if outputs > 1 && count == 4_000 {
            let previous = vec![0.02; model.parameters()];
            let difference = seconds(|| {
                let points = (point(3.0, &parameters[..]), Some(point(2.0, &previous[..])));
                accumulate_differences(&model, &batch, points, CLIP, &mut sum, &mut workspace)
                    .expect("finite gradients");
            });
            rate("clipped differences", 1.5 * flops, Precision::Bits24, difference);
        }
    }
}

/// The operations of a round on vectors of the model's length.
fn vectors(rates: &mut Vec<KernelRate>) {
    let length = 10 * (FEATURES + 1);
    let (x, mut y) = (vec![1.0_f32; length], vec![0.5_f32; length]);
    let mut sum = vec![0.0_f64; length];
    let key = StreamKey::Simulation(1);
    let mut round = 0;
    let count = length as f64;
    let mut rate = |kernel: &str, flops: f64, bytes: f64, seconds: f64| {
        rates.push(KernelRate {
            kernel: kernel.to_owned(),
            shape: format!("{length} parameters"),
            flops,
            integer_operations: 0.0,
            bytes,
            seconds,
        });
    };
    let taken = seconds(|| vector::axpy(std::hint::black_box(1e-6), &x, &mut y));
    rate("y + a·x", 2.0 * count, 12.0 * count, taken);
    let taken = seconds(|| {
        std::hint::black_box(vector::dot(&x, &y));
    });
    rate("inner product", 2.0 * count, 8.0 * count, taken);
    let taken = seconds(|| {
        round += 1;
        add_gaussian(&key, Purpose(1), round, 1.0, &mut sum);
    });
    rate("Gaussian noise", 0.0, 16.0 * count, taken);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_flops_bytes_and_seconds() {
        let rate = KernelRate {
            kernel: "k".into(),
            shape: "s".into(),
            flops: 4e9,
            integer_operations: 0.0,
            bytes: 1e9,
            seconds: 0.5,
        };
        let roofline = Roofline::new(1, 16.0, 10.0);
        assert_eq!(rate.gflops(), 8.0);
        assert!((rate.limit(&roofline).fraction(rate.flops, rate.bytes, rate.seconds) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn vectors_of_a_round_have_rates() {
        let mut rates = Vec::new();
        vectors(&mut rates);
        assert_eq!(rates.len(), 3);
        assert!(rates.iter().all(|rate| rate.seconds > 0.0 && rate.bytes > 0.0));
    }
}

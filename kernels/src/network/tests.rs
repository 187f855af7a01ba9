use super::layers::{Layer, Plane};
use super::*;
use crate::features::{NULL_CLASS, Rows, Selection, Targets};
use crate::linear::{Batch, Clip, Tally};
use crate::loss::{Loss, Target};
use proptest::prelude::*;

/// The loss of one row in f64, by plain loops over pixels and channels.
fn loss(network: &Network, parameters: &[f64], pixels: &[f32], class: usize) -> f64 {
    let Image { height, width, channels } = network.image();
    let mut values: Vec<f64> = (0..height * width * channels)
        .map(|place| 2.0 * f64::from(pixels[place % channels * height * width + place / channels]) - 1.0)
        .collect();
    let mut image = network.image();
    for stage in &network.stages {
        let Plane { image: next, .. } = network.planes[stage.output];
        let tensors = stage.tensors.map(|tensors| tensors.map(|tensor| &parameters[tensor.start..][..tensor.len()]));
        let at = |values: &[f64], y: isize, x: isize, c: usize| {
            let inside = (0..image.height as isize).contains(&y) && (0..image.width as isize).contains(&x);
            if inside { values[(y as usize * image.width + x as usize) * image.channels + c] } else { 0.0 }
        };
        let pixels = (0..next.height).flat_map(|y| (0..next.width).map(move |x| (y as isize, x as isize)));
        let places = pixels.flat_map(|(y, x)| (0..next.channels).map(move |c| (y, x, c)));
        values = match (stage.layer, tensors) {
            (Layer::Tanh, _) => values.iter().map(|value| value.tanh()).collect(),
            (Layer::Relu, _) => values.iter().map(|value| value.max(0.0)).collect(),
            (Layer::Flatten, _) => values,
            (Layer::Pool, _) => places
                .map(|(y, x, c)| {
                    let corners = [(0, 0), (0, 1), (1, 0), (1, 1)];
                    corners
                        .map(|(down, right)| at(&values, 2 * y + down, 2 * x + right, c))
                        .into_iter()
                        .fold(f64::MIN, f64::max)
                })
                .collect(),
            (Layer::Convolution(_), Some([weights, biases])) => places
                .map(|(y, x, out)| {
                    let taps = (0..9).flat_map(|tap| (0..image.channels).map(move |c| (tap, c)));
                    let products = taps.map(|(tap, c)| {
                        let value = at(&values, y + tap / 3 - 1, x + tap % 3 - 1, c);
                        value * weights[(tap as usize * image.channels + c) * next.channels + out]
                    });
                    biases[out] + products.sum::<f64>()
                })
                .collect(),
            (Layer::Dense(_), Some([weights, biases])) => (0..next.channels)
                .map(|out| {
                    let products =
                        values.iter().enumerate().map(|(place, value)| value * weights[place * next.channels + out]);
                    biases[out] + products.sum::<f64>()
                })
                .collect(),
            (Layer::GroupNorm(groups), Some([scales, shifts])) => {
                let size = image.channels / groups;
                let of_group = |group: usize| {
                    let own: Vec<f64> = values
                        .iter()
                        .enumerate()
                        .filter(|(place, _)| place % image.channels / size == group)
                        .map(|(_, value)| *value)
                        .collect();
                    let mean = own.iter().sum::<f64>() / own.len() as f64;
                    (mean, own.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / own.len() as f64)
                };
                let groups: Vec<_> = (0..groups).map(of_group).collect();
                let normalized = values.iter().enumerate().map(|(place, value)| {
                    let channel = place % image.channels;
                    let (mean, variance) = groups[channel / size];
                    scales[channel] * (value - mean) / (variance + 1e-5).sqrt() + shifts[channel]
                });
                normalized.collect()
            }
            _ => unreachable!("a layer with its tensors"),
        };
        image = next;
    }
    Loss::Softmax.value(&values, Target::Class(class))
}

/// Rows of random pixels with classes, and parameters.
struct Example {
    network: Network,
    parameters: Vec<f32>,
    bytes: Vec<u8>,
    classes: Vec<u32>,
}

impl Example {
    fn new(text: &str, (columns, outputs): (usize, usize), rows: usize, (seed, scale): (u64, f32)) -> Self {
        let network = Network::new(text, columns, outputs).expect("a network");
        let mut parameters = network.initial(seed);
        let mut state = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u32
        };
        // Biases and scales of their own.
        for value in &mut parameters {
            *value = scale * (*value + (next() as f32 / 16_777_216.0 - 0.5) * 0.2);
        }
        let bytes = (0..rows * columns).map(|_| next() as u8).collect();
        let classes = (0..rows).map(|row| if row % 7 == 5 { NULL_CLASS } else { next() % outputs as u32 }).collect();
        Self { network, parameters, bytes, classes }
    }

    fn batch<'a>(&'a self, selection: Selection<'a>) -> Batch<'a> {
        let rows = Rows::bytes(&self.bytes, self.network.image().values(), 1.0 / 255.0);
        Batch { rows, targets: Targets::Classes(&self.classes), norms: None, selection, units: None }
    }

    fn packed(&self) -> PackedParameters {
        let mut packed = PackedParameters::new(&self.network);
        packed.set(&self.network, &self.parameters);
        packed
    }

    fn sum(
        &self,
        selection: Selection<'_>,
        terms: (Clip, Option<&GradientLattice>),
        workspace: &mut Workspace,
    ) -> (Vec<f64>, Tally) {
        let packed = self.packed();
        let mut sum = vec![0.0; self.parameters.len()];
        let batch = self.batch(selection);
        let tally = accumulate(&self.network, &batch, &[(&packed, 1.0)], terms, &mut sum, workspace).expect("finite");
        (sum, tally)
    }

    /// The derivative by one parameter of the loss of a row, by differences in f64.
    fn derivative(&self, row: usize, place: usize) -> f64 {
        let columns = self.network.image().values();
        let pixels: Vec<f32> =
            self.bytes[row * columns..][..columns].iter().map(|&byte| f32::from(byte) * (1.0 / 255.0)).collect();
        let mut parameters: Vec<f64> = self.parameters.iter().map(|&value| f64::from(value)).collect();
        let class = self.classes[row] as usize;
        let [above, below] = [1e-6, -1e-6].map(|step| {
            parameters[place] = f64::from(self.parameters[place]) + step;
            loss(&self.network, &parameters, &pixels, class)
        });
        (above - below) / 2e-6
    }

    /// The change of the derivative over a step of 10⁻⁵: large where a ReLU or a pool has a kink, and f32 and f64 may take different sides of it.
    fn bend(&self, row: usize, place: usize) -> f64 {
        let columns = self.network.image().values();
        let pixels: Vec<f32> =
            self.bytes[row * columns..][..columns].iter().map(|&byte| f32::from(byte) * (1.0 / 255.0)).collect();
        let mut parameters: Vec<f64> = self.parameters.iter().map(|&value| f64::from(value)).collect();
        let [below, here, above] = [-1e-5, 0.0, 1e-5].map(|step| {
            parameters[place] = f64::from(self.parameters[place]) + step;
            loss(&self.network, &parameters, &pixels, self.classes[row] as usize)
        });
        ((above - 2.0 * here + below) / 1e-5).abs()
    }
}

fn length(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Lists of layers for an image, every kind among them.
const LISTS: [&str; 8] = [
    "dense 5, tanh",
    "conv 3, tanh, pool, dense 4, relu",
    "conv 17, relu, conv 4, tanh, pool, dense 3, tanh",
    "conv 6, group-norm 3, tanh, pool, group-norm 2, conv 33, relu",
    "conv 4, relu, group-norm 1, conv 5, pool, dense 7, group-norm 7, tanh, dense 3",
    "conv 2, pool, conv 2, tanh",
    "conv 40",
    "dense 20, relu, dense 18, tanh",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The gradient of a network is the derivative of the loss of a reference in f64, to 10⁻⁴ of its length.
    #[test]
    fn gradients_are_those_of_the_reference_in_double_precision(
        list in 0..LISTS.len(), height in 2_usize..10, width in 2_usize..11, channels in 1_usize..4, outputs in 2_usize..6, seed in 0..1_000_u64,
    ) {
        let text = format!("image {height}x{width}x{channels}, {}", LISTS[list]);
        let example = Example::new(&text, (height * width * channels, outputs), 2, (seed, 1.0));
        let mut workspace = Workspace::new(&example.network);
        for row in 0..2 {
            let (sum, _) = example.sum(Selection::Range(row..row + 1), (Clip::Unbounded, None), &mut workspace);
            // All parameters of the last layers, every few of the others.
            let step = sum.len().div_ceil(80);
            let places = (seed as usize % step..sum.len()).step_by(step).chain(sum.len().saturating_sub(20)..sum.len());
            let most = 5e-5 * length(&sum);
            let all: Vec<usize> = places.collect();
            let smooth = all.iter().filter(|&&place| example.bend(row, place) <= most);
            let (sum, expected): (Vec<f64>, Vec<f64>) =
                smooth.map(|&place| (sum[place], example.derivative(row, place))).unzip();
            prop_assert!(2 * sum.len() > all.len(), "{text}: {} of {} places are smooth", sum.len(), all.len());
            let off: Vec<f64> = sum.iter().zip(&expected).map(|(sum, expected)| sum - expected).collect();
            prop_assert!(length(&off) <= 1e-4 * length(&expected), "{text}: {} of {}", length(&off), length(&expected));
        }
    }
}

#[test]
fn the_network_of_the_paper_has_its_parameters_and_the_gradient_of_the_reference() {
    let example = Example::new("cnn-550k", (3_072, 10), 3, (1, 1.0));
    assert_eq!(example.network.parameters(), 550_570);
    assert!((example.network.flops() / 231.6e6 - 1.0).abs() < 1e-3, "{}", example.network.flops());
    let (sum, _) = example.sum(Selection::Range(1..2), (Clip::Unbounded, None), &mut Workspace::new(&example.network));
    let typical = length(&sum) / (sum.len() as f64).sqrt();
    // A weight of every layer, and a bias.
    for tensor in example.network.stages.iter().filter_map(|stage| stage.tensors).flatten() {
        let place = tensor.start + (tensor.len() * 5 / 7);
        let expected = example.derivative(1, place);
        let allowed = 1e-4 * (expected.abs() + 10.0 * typical);
        assert!((sum[place] - expected).abs() <= allowed, "{} for {expected} at {tensor:?}", sum[place]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Weights of any size, so that values overflow, become NaN or subnormal: no row leaves anything in a thread's memory for the next one.
    #[test]
    fn rows_leave_nothing_behind_whatever_the_weights_are(
        list in 0..WITH_NORMS.len(), height in 2_usize..9, width in 2_usize..9, seed in 0..1_000_u64,
        exponents in prop::collection::vec(-30..31_i32, 24), rows in prop::collection::vec(0..5_u32, 2..9), clip_norm in 0.01_f32..100.0,
    ) {
        let text = format!("image {height}x{width}x1, {}", WITH_NORMS[list]);
        let mut example = Example::new(&text, (height * width, 3), 5, (seed, 1.0));
        let tensors: Vec<_> = example.network.stages.iter().filter_map(|stage| stage.tensors).flatten().collect();
        for (tensor, exponent) in tensors.iter().zip(exponents) {
            for value in &mut example.parameters[tensor.start..tensor.start + tensor.len()] {
                *value = (*value * 10_f32.powi(exponent)).clamp(-1e30, 1e30);
            }
        }
        let lattice = GradientLattice::new(clip_norm, 8).expect("a lattice");
        let terms = (Clip::l2(clip_norm), Some(&lattice));
        let mut used = Workspace::new(&example.network);
        let mut total = vec![0.0; example.parameters.len()];
        for &row in &rows {
            let (found, _) = example.sum(Selection::Indices(&[row]), terms, &mut used);
            let (alone, _) = example.sum(Selection::Indices(&[row]), terms, &mut Workspace::new(&example.network));
            prop_assert!(found == alone, "{text}: row {row}");
            total.iter_mut().zip(alone).for_each(|(total, value)| *total += value);
        }
        prop_assert!(example.sum(Selection::Indices(&rows), terms, &mut used).0 == total, "{text}");
    }
}

const WITH_NORMS: [&str; 6] = [
    "conv 3, relu, conv 5, relu, conv 3, tanh, group-norm 3, pool, dense 4, relu, dense 3, group-norm 1, tanh",
    "conv 3, relu, conv 5, tanh, conv 3, relu, group-norm 1, conv 2",
    "conv 3, group-norm 3, group-norm 1, relu, conv 3, group-norm 3, tanh, conv 3, relu, group-norm 1",
    "dense 4, relu, dense 20, group-norm 2, relu, dense 5, relu, group-norm 5, relu",
    "conv 2, relu, pool, conv 2, group-norm 2, relu, conv 17, relu, group-norm 17, dense 3, relu",
    "conv 20, relu, relu, tanh, conv 20, relu, conv 20, relu",
];

const OF_EVERY_KIND: [(&str, (usize, usize)); 3] = [
    ("image 8x9x2, conv 6, group-norm 3, tanh, pool, conv 20, relu, dense 9, tanh", (144, 3)),
    ("image 6x6x1, conv 3, relu, pool, conv 5, group-norm 1, tanh", (36, 4)),
    ("dense 12, tanh", (784, 10)),
];

/// What a row adds is what it adds alone in new memory: no row before or beside it, no order and no split enters, bit for bit.
#[test]
fn a_contribution_depends_on_its_row_alone() {
    for (text, shape) in OF_EVERY_KIND {
        let rows = 2 * 128 + 9;
        let example = Example::new(text, shape, rows, (3, 1.0));
        // Rows whose outputs are no numbers, before all others in the memory of a thread.
        let broken =
            Example { parameters: vec![1e30; example.parameters.len()], ..Example::new(text, shape, rows, (3, 1.0)) };
        for clip_norm in [0.01, 0.3, 1e3] {
            let lattice = GradientLattice::new(clip_norm, rows).expect("a lattice");
            let terms = (Clip::l2(clip_norm), Some(&lattice));
            let mut used = Workspace::new(&example.network);
            broken.sum(Selection::Range(0..3), terms, &mut used);
            let (mut total, mut clipped) = (vec![0.0; example.parameters.len()], 0);
            for row in 0..rows {
                let alone = Selection::Range(row..row + 1);
                let (sum, tally) = example.sum(alone.clone(), terms, &mut Workspace::new(&example.network));
                assert_eq!(example.sum(alone, terms, &mut used).0, sum, "{text}: row {row}");
                total.iter_mut().zip(&sum).for_each(|(total, value)| *total += value);
                clipped += tally.clipped;
            }
            let backwards: Vec<u32> = (0..rows as u32).rev().collect();
            for selection in [Selection::Range(0..rows), Selection::Indices(&backwards)] {
                assert_eq!(
                    example.sum(selection, terms, &mut used),
                    (total.clone(), Tally { rows, clipped }),
                    "{text}"
                );
            }
        }
    }
}

/// In a batch without a lattice, too, a row's gradient has its bits whatever the memory held.
#[test]
fn gradients_in_floating_point_have_their_bits_in_used_memory() {
    for (text, shape) in OF_EVERY_KIND {
        let example = Example::new(text, shape, 4, (9, 1.0));
        for clip in [Clip::Unbounded, Clip::l2(0.25)] {
            let mut used = Workspace::new(&example.network);
            for row in [2, 0, 1, 3] {
                let alone = Selection::Range(row..row + 1);
                let (fresh, _) = example.sum(alone.clone(), (clip, None), &mut Workspace::new(&example.network));
                assert_eq!(example.sum(alone, (clip, None), &mut used).0, fresh, "{text}");
            }
        }
    }
}

/// Integers within the clip norm, whatever the weights: the whole gradient is clipped, not each layer's.
#[test]
fn contributions_are_integers_within_the_clip_norm_and_near_the_clipped_gradient() {
    for (text, shape) in OF_EVERY_KIND {
        for scale in [1e-3, 1.0, 8.0, 1e3, 1e18, 1e30] {
            let example = Example::new(text, shape, 8, (5, scale));
            for clip_norm in [6e-20, 1e-3, 0.7, 1.0, 3.0, 1e19] {
                let lattice = GradientLattice::new(clip_norm, 1 << 20).expect("a lattice");
                assert!(lattice.limit() * lattice.unit() <= f64::from(clip_norm));
                let terms = (Clip::l2(clip_norm), Some(&lattice));
                let mut workspace = Workspace::new(&example.network);
                for row in 0..8 {
                    let alone = Selection::Range(row..row + 1);
                    let (sum, tally) = example.sum(alone.clone(), terms, &mut workspace);
                    assert!(sum.iter().all(|value| value.fract() == 0.0));
                    let square: i128 = sum.iter().map(|&value| (value as i128).pow(2)).sum();
                    assert!(square <= (lattice.limit() as i128).pow(2), "{text} {scale} {clip_norm}");
                    if example.classes[row] == NULL_CLASS {
                        assert_eq!((square, tally.clipped), (0, 0));
                    } else if scale <= 8.0 {
                        let (gradient, _) = example.sum(alone, (Clip::Unbounded, None), &mut workspace);
                        let factor = (f64::from(clip_norm) / length(&gradient)).min(1.0);
                        let off: Vec<f64> = sum
                            .iter()
                            .zip(&gradient)
                            .map(|(sum, value)| sum * lattice.unit() - factor * value)
                            .collect();
                        let rounding = (sum.len() as f64).sqrt() * lattice.unit();
                        assert!(length(&off) <= 4e-5 * f64::from(clip_norm) + rounding, "{text} {scale} {clip_norm}");
                        assert_eq!(tally.clipped == 1, factor < 1.0);
                    }
                }
            }
        }
    }
}

#[test]
fn sums_in_floating_point_are_those_of_the_clipped_gradients() {
    let (text, shape) = OF_EVERY_KIND[0];
    let example = Example::new(text, shape, 300, (2, 1.0));
    let mut workspace = Workspace::new(&example.network);
    let mut gradient_of = |row| example.sum(Selection::Range(row..row + 1), (Clip::Unbounded, None), &mut workspace).0;
    for clip in [Clip::Unbounded, Clip::l2(0.4)] {
        let mut expected = vec![0.0; example.parameters.len()];
        for row in 0..300 {
            let gradient = gradient_of(row);
            let factor = if clip == Clip::Unbounded { 1.0 } else { (0.4 / length(&gradient)).min(1.0) };
            let factor = if factor.is_finite() { factor } else { 0.0 };
            expected.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += factor * value);
        }
        let (sum, _) = example.sum(Selection::Range(0..300), (clip, None), &mut Workspace::new(&example.network));
        let off: Vec<f64> = sum.iter().zip(&expected).map(|(sum, expected)| sum - expected).collect();
        assert!(length(&off) <= 1e-4 * length(&expected), "{clip:?}: {} of {}", length(&off), length(&expected));
    }
}

/// A difference is clipped as one vector.
#[test]
fn differences_are_those_of_the_gradients() {
    let (text, shape) = OF_EVERY_KIND[0];
    let [current, previous] = [1, 2].map(|seed| Example {
        bytes: Example::new(text, shape, 2, (1, 1.0)).bytes,
        ..Example::new(text, shape, 2, (seed, 1.0))
    });
    let previous = Example { classes: current.classes.clone(), ..previous };
    let mut workspace = Workspace::new(&current.network);
    let of = |example: &Example, workspace: &mut Workspace| {
        example.sum(Selection::Range(0..1), (Clip::Unbounded, None), workspace).0
    };
    let [one, other] = [&current, &previous].map(|example| of(example, &mut workspace));
    let expected: Vec<f64> = one.iter().zip(&other).map(|(one, other)| 1.5 * one - 0.75 * other).collect();
    for (clip, factor) in [(Clip::Unbounded, 1.0), (Clip::l2(0.1), 0.1 / length(&expected))] {
        let [packed, earlier] = [&current, &previous].map(Example::packed);
        let mut sum = vec![0.0; expected.len()];
        let points = [(&packed, 1.5), (&earlier, -0.75)];
        let batch = current.batch(Selection::Range(0..1));
        accumulate(&current.network, &batch, &points, (clip, None), &mut sum, &mut workspace).expect("finite");
        let off: Vec<f64> = sum.iter().zip(&expected).map(|(sum, value)| sum - factor * value).collect();
        assert!(length(&off) <= 1e-4 * factor * length(&expected), "{clip:?}");
    }
}

#[test]
fn evaluations_are_those_of_the_reference() {
    let (text, shape) = OF_EVERY_KIND[1];
    let example = Example::new(text, shape, 20, (4, 1.0));
    let packed = example.packed();
    let mut workspace = Workspace::new(&example.network);
    let found =
        evaluate(&example.network, &example.batch(Selection::Range(0..20)), &packed, &mut workspace).expect("finite");
    let parameters: Vec<f64> = example.parameters.iter().map(|&value| f64::from(value)).collect();
    let (mut expected, mut correct) = (0.0, 0);
    let known = (0..20).filter(|&row| example.classes[row] != NULL_CLASS);
    for row in known.clone() {
        let pixels: Vec<f32> = example.bytes[row * 36..][..36].iter().map(|&byte| f32::from(byte) / 255.0).collect();
        let losses: Vec<f64> = (0..4).map(|class| loss(&example.network, &parameters, &pixels, class)).collect();
        let own = losses[example.classes[row] as usize];
        expected += own;
        correct += usize::from(losses.iter().all(|&other| own <= other));
    }
    assert_eq!((found.rows, found.correct), (known.count(), correct));
    assert!((found.loss / expected - 1.0).abs() < 1e-5);
}

#[test]
fn initial_weights_follow_from_the_seed_and_have_the_variance_of_their_inputs() {
    let network = Network::new("conv 32, relu, dense 64, tanh", 3_072, 10).expect("a network");
    let [one, same, other] = [1, 1, 2].map(|seed| network.initial(seed));
    assert!(one == same && one != other);
    let tensors: Vec<_> = network.stages.iter().filter_map(|stage| stage.tensors).collect();
    for (tensor, gain) in tensors.iter().zip([2.0, 1.0, 1.0]) {
        let [weights, biases] = tensor.map(|tensor| &one[tensor.start..][..tensor.len()]);
        let variance = weights.iter().map(|value| f64::from(value * value)).sum::<f64>() / weights.len() as f64;
        let expected = gain / (tensor[0].taps * tensor[0].inputs) as f64;
        assert!((variance / expected - 1.0).abs() < 0.2, "{variance} for {expected}");
        assert!(biases.iter().all(|&bias| bias == 0.0));
    }
}

#[test]
fn lists_that_are_no_networks_are_refused_with_a_way_out() {
    let refused = |text: &str, columns, outputs| Network::new(text, columns, outputs).expect_err(text).to_string();
    for (text, columns, outputs, expected) in [
        ("cnn-551k", 784, 10, "`cnn-550k`"),
        ("conv", 784, 10, "`conv N`"),
        ("conv 0, tanh", 784, 10, "'conv 0' is no layer"),
        ("tanh, dense 5", 784, 10, "begins with"),
        ("conv 5, tanh", 100, 10, "begin the list with `image HxWxC`"),
        ("image 28x28x3, conv 5, tanh", 784, 10, "28x28x3 has 2352 values, and rows have 784 columns"),
        ("image 28x28, conv 5", 784, 10, "no layer"),
        ("dense 5, conv 3", 784, 10, "`conv 3` does not suit"),
        ("image 1x4x1, conv 3, pool", 4, 2, "`pool` does not suit"),
        ("conv 5, group-norm 2", 784, 10, "`group-norm 2` does not suit"),
        ("dense 100000", 784, 10, "78500000 parameters"),
        ("conv 100000", 784, 10, "values between two layers"),
        ("cnn-550k", 3_072, 1, "classes"),
    ] {
        let message = refused(text, columns, outputs);
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert_eq!(Network::new("cnn-550k", 784, 10).map(|network| network.image().channels), Ok(1));
}

/// True if no row of the example moves a sum over rows by more than the clip norm, and each by what it adds alone.
fn is_of_clipped_rows(example: &Example, clip_norm: f64, sum: impl Fn(&Example, &[u32]) -> Vec<f64>) -> bool {
    let all: Vec<u32> = (0..example.classes.len() as u32).collect();
    let whole = sum(example, &all);
    all.iter().all(|&row| {
        let others: Vec<u32> = all.iter().copied().filter(|&other| other != row).collect();
        let (without, alone) = (sum(example, &others), sum(example, &[row]));
        let moved: Vec<f64> = whole.iter().zip(&without).map(|(whole, without)| whole - without).collect();
        length(&moved) <= clip_norm && moved == alone
    })
}

/// What the sums of a release promise, and copies that are broken on purpose, which must not pass for it.
#[test]
fn sums_that_break_the_promise_are_found() {
    let text = "image 6x6x1, conv 3, group-norm 3, tanh, pool, dense 8, tanh";
    let example =
        Example { classes: (0..12).map(|row| row % 4).collect(), ..Example::new(text, (36, 4), 12, (3, 1.0)) };
    let clip_norm = 0.25_f32;
    let limit = f64::from(clip_norm);
    let lattice = GradientLattice::new(clip_norm, 12).expect("a lattice");
    let of = |example: &Example, rows: &[u32], terms| {
        example.sum(Selection::Indices(rows), terms, &mut Workspace::new(&example.network)).0
    };
    let exact = |example: &Example, rows: &[u32]| {
        let sum = of(example, rows, (Clip::l2(clip_norm), Some(&lattice)));
        sum.iter().map(|value| value * lattice.unit()).collect::<Vec<_>>()
    };
    let clipped = |values: &[f64]| {
        let factor = (limit / length(values)).min(1.0) * (1.0 - 1e-9);
        values.iter().map(|value| (value * factor / lattice.unit()).trunc() * lattice.unit()).collect::<Vec<_>>()
    };
    assert!(is_of_clipped_rows(&example, limit, exact));
    // The sum is clipped, not its terms.
    let after_the_sum = |example: &Example, rows: &[u32]| clipped(&of(example, rows, (Clip::Unbounded, None)));
    assert!(!is_of_clipped_rows(&example, limit, after_the_sum));
    // Each layer to the clip norm of the whole.
    let by_layer = |example: &Example, rows: &[u32]| {
        let mut sum = vec![0.0; example.parameters.len()];
        for &row in rows {
            let gradient = of(example, &[row], (Clip::Unbounded, None));
            for [weights, biases] in example.network.stages.iter().filter_map(|stage| stage.tensors) {
                let own = weights.start..biases.start + biases.len();
                sum[own.clone()].iter_mut().zip(clipped(&gradient[own])).for_each(|(sum, value)| *sum += value);
            }
        }
        sum
    };
    assert!(!is_of_clipped_rows(&example, limit, by_layer));
    // A statistic of the batch in a norm: rows less their mean.
    let of_the_batch = |example: &Example, rows: &[u32]| {
        let columns = example.network.image().values();
        let of_row = |row: u32| &example.bytes[row as usize * columns..][..columns];
        let mean: Vec<u32> = (0..columns)
            .map(|place| rows.iter().map(|&row| u32::from(of_row(row)[place])).sum::<u32>() / rows.len() as u32)
            .collect();
        let centred = |(place, &byte): (usize, &u8)| (128 + u32::from(byte) / 2 - mean[place % columns] / 2) as u8;
        let bytes = example.bytes.iter().enumerate().map(centred).collect();
        let copy = Example {
            network: example.network.clone(),
            parameters: example.parameters.clone(),
            bytes,
            classes: example.classes.clone(),
        };
        exact(&copy, rows)
    };
    assert!(!is_of_clipped_rows(&example, limit, of_the_batch));
}

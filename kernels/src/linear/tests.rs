//! The fast kernels against the plain f64 reference, over odd shapes, and what clipping guarantees at the extremes.

pub(super) mod reference;

use crate::features::{NULL_CLASS, NULL_TARGET, Norm, Rows, Selection, SparseRows, Targets, U8Rows};
use crate::linear::recorded::{ByOutput, RecordedWorkspace, Reweighting, accumulate_reweighted, record};
use crate::linear::{
    Batch, Clip, Evaluation, FeatureGrid, LinearModel, NonFiniteGradient, Point, Precision, RowNorms, SumLattice,
    Tally, Workspace, accumulate_differences, accumulate_gradients, accumulate_on_lattice, evaluate, row_norms,
};
use crate::loss::Loss;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    F32,
    U8,
    Sparse,
}

/// A matrix in one of the formats, with targets of both kinds.
#[derive(Clone)]
struct Problem {
    model: LinearModel,
    format: Format,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    /// The factor of a byte.
    scale: f32,
    offsets: Vec<usize>,
    indices: Vec<u32>,
    classes: Vec<u32>,
    reals: Vec<f32>,
    parameters: Vec<f32>,
    earlier: Vec<f32>,
}

const SCALE: f32 = 1.0 / 255.0;

impl Problem {
    fn new(seed: u64, n: usize, features: usize, classes: usize, bias: bool, loss: Loss, format: Format) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed);
        let outputs = if loss == Loss::Softmax { classes } else { 1 };
        let model = LinearModel { features, outputs, bias, loss };
        let (mut floats, mut offsets, mut indices) = (Vec::new(), vec![0], Vec::new());
        for _ in 0..n {
            for feature in 0..features {
                let kept = format != Format::Sparse || random.random_bool(0.3);
                if kept {
                    floats.push((random.random_range(-1.0_f32..1.0) * 16_384.0).round() / 16_384.0);
                    indices.push(feature as u32);
                }
            }
            offsets.push(indices.len());
        }
        let signed = matches!(loss, Loss::Logistic | Loss::Hinge);
        let spread = 3.0 / (features as f32 + 1.0).sqrt();
        let mut weights = || (0..model.parameters()).map(|_| random.random_range(-spread..=spread)).collect();
        let (parameters, earlier) = (weights(), weights());
        Problem {
            model,
            format,
            floats,
            scale: SCALE,
            bytes: (0..n * features).map(|_| random.random()).collect(),
            offsets,
            indices,
            classes: (0..n).map(|_| random.random_range(0..classes as u32)).collect(),
            reals: (0..n)
                .map(|_| if signed { if random.random() { 1.0 } else { -1.0 } } else { random.random_range(-2.0..2.0) })
                .collect(),
            parameters,
            earlier,
        }
    }

    fn rows(&self) -> Rows<'_> {
        let columns = self.model.features;
        match self.format {
            Format::F32 => Rows::f32(&self.floats, columns),
            Format::U8 => Rows::bytes(&self.bytes, columns, self.scale),
            Format::Sparse => Rows::Sparse(SparseRows {
                offsets: &self.offsets,
                indices: &self.indices,
                values: &self.floats,
                columns,
            }),
        }
    }

    fn targets(&self) -> Targets<'_> {
        match self.model.loss {
            Loss::Softmax => Targets::Classes(&self.classes),
            _ => Targets::Values(&self.reals),
        }
    }

    /// A null row at `row`; its features stay.
    fn nullify(&mut self, row: usize) {
        assert!(!self.targets().is_null(row));
        (self.classes[row], self.reals[row]) = (NULL_CLASS, NULL_TARGET);
        assert!(self.targets().is_null(row));
    }

    /// Changes the stored features of `row`.
    fn change_features(&mut self, row: usize, float: impl Fn(f32) -> f32, byte: impl Fn(u8) -> u8) {
        let columns = self.model.features;
        let stored = match self.format {
            Format::Sparse => self.offsets[row]..self.offsets[row + 1],
            _ => row * columns..(row + 1) * columns,
        };
        self.floats[stored].iter_mut().for_each(|value| *value = float(*value));
        let bytes = &mut self.bytes[row * columns..][..columns];
        bytes.iter_mut().for_each(|value| *value = byte(*value));
    }

    /// Σ clip(∇f), or with `difference` Σ clip(1.5·∇f − 0.75·∇f′), and how many were clipped.
    fn sum(
        &self,
        selection: Selection<'_>,
        clip: Clip,
        difference: bool,
        workspace: &mut Workspace,
    ) -> (Vec<f64>, usize) {
        let norms = norms(self, clip);
        let batch = self.batch(norms.as_ref(), selection);
        let mut sum = vec![0.0; self.model.parameters()];
        let points = self.points(difference);
        let tally = accumulate_differences(&self.model, &batch, points, clip, &mut sum, workspace).unwrap();
        assert_eq!(tally.rows, batch.selection.len());
        (sum, tally.clipped)
    }

    /// [`Self::sum`] as integers of its lattice, for a bounded clip.
    fn exact_sum(
        &self,
        selection: Selection<'_>,
        clip: Clip,
        difference: bool,
        workspace: &mut Workspace,
    ) -> (Vec<f64>, usize) {
        let norms = norms(self, clip);
        let batch = self.batch(norms.as_ref(), selection);
        let lattice = self.lattice(clip);
        let mut sum = vec![0.0; self.model.parameters()];
        let points = self.points(difference);
        let tally = accumulate_on_lattice(&self.model, &batch, points, &lattice, &mut sum, workspace).unwrap();
        assert!(tally.rows == batch.selection.len() && sum.iter().all(|value| value.fract() == 0.0));
        (sum, tally.clipped)
    }

    fn lattice(&self, clip: Clip) -> SumLattice {
        let grid = match self.format {
            Format::U8 => FeatureGrid::bytes(self.scale),
            Format::F32 | Format::Sparse => FeatureGrid { step: 1.0 / 16_384.0, greatest: 16_384 },
        };
        SumLattice::new(&self.model, (grid, Precision::Bits24), 2.25, clip, self.rows().len()).unwrap()
    }

    fn points(&self, difference: bool) -> (Point<'_>, Option<Point<'_>>) {
        let at = |coefficient, parameters| Point { coefficient, parameters };
        if difference {
            (at(1.5, &self.parameters), Some(at(0.75, &self.earlier)))
        } else {
            (at(1.0, &self.parameters), None)
        }
    }

    fn batch<'a>(&'a self, norms: Option<&'a RowNorms>, selection: Selection<'a>) -> Batch<'a> {
        Batch { rows: self.rows(), targets: self.targets(), norms, selection, units: None }
    }
}

/// The sum of clipped gradients and its counts.
fn sum_of(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    clip: Clip,
) -> Result<(Vec<f64>, Tally), NonFiniteGradient> {
    let mut sum = vec![0.0; model.parameters()];
    let tally = accumulate_gradients(model, batch, parameters, clip, &mut sum, &mut Workspace::new(model))?;
    Ok((sum, tally))
}

/// A model without a bias.
fn model(features: usize, outputs: usize, loss: Loss) -> LinearModel {
    LinearModel { features, outputs, bias: false, loss }
}

/// Largest difference of two vectors, relative to `scale`.
fn error(found: &[f64], expected: &[f64], scale: f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max) / scale
}

/// Rows whose margin lies so close to a kink of the loss that f32 and f64 may fall on different sides.
fn near_a_kink(problem: &Problem, row: usize, parameters: &[f32]) -> bool {
    if !matches!(problem.model.loss, Loss::Hinge | Loss::Absolute) {
        return false;
    }
    let features = reference::row(problem.rows(), row, problem.model.bias);
    let u: f64 = features.iter().zip(parameters).map(|(a, &w)| a * f64::from(w)).sum();
    let y = f64::from(problem.reals[row]);
    let distance = if problem.model.loss == Loss::Hinge { y * u - 1.0 } else { u - y };
    distance.abs() < 1e-4
}

fn shapes() -> impl Strategy<Value = (u64, usize, usize, usize, bool, Loss, Format)> {
    (
        any::<u64>(),
        prop_oneof![1usize..40, 100usize..300],
        prop_oneof![Just(0usize), 1usize..20, 30usize..70, 100usize..320],
        prop_oneof![2usize..14, Just(26usize)],
        any::<bool>(),
        prop::sample::select(Loss::ALL.to_vec()),
        prop::sample::select(vec![Format::F32, Format::U8, Format::Sparse]),
    )
        .prop_filter("a model has a feature or a bias", |shape| shape.2 > 0 || shape.4)
        .prop_map(|(seed, n, d, k, bias, loss, format)| {
            // Dense rows without features do not tell their number.
            let n = if d == 0 && format != Format::Sparse { 0 } else { n };
            (seed, n, d, k, bias, loss, format)
        })
}

fn clips() -> impl Strategy<Value = Clip> {
    prop_oneof![
        Just(Clip::Unbounded),
        (prop::sample::select(vec![Norm::L1, Norm::L2]), prop::sample::select(vec![0.01f32, 0.5, 3.0, 1e6]))
            .prop_map(|(norm, clip_norm)| Clip::Bounded { norm, clip_norm }),
    ]
}

fn norms(problem: &Problem, clip: Clip) -> Option<RowNorms> {
    match clip {
        Clip::Unbounded => None,
        Clip::Bounded { norm, .. } => Some(row_norms(problem.rows(), problem.model.bias, norm).expect("finite rows")),
    }
}

/// A selection of rows away from kinks: a range when nothing had to be left out and `indexed` is false.
fn chosen(problem: &Problem, seed: u64, indexed: bool) -> (std::ops::Range<usize>, Option<Vec<u32>>) {
    let n = problem.rows().len();
    let random = &mut SmallRng::seed_from_u64(seed ^ 1);
    let kinked =
        |row: &usize| near_a_kink(problem, *row, &problem.parameters) || near_a_kink(problem, *row, &problem.earlier);
    if indexed || (0..n).any(|row| kinked(&row)) {
        let rows = (0..if n == 0 { 0 } else { n + 7 }).map(|_| random.random_range(0..n)).filter(|row| !kinked(row));
        (0..0, Some(rows.map(|row| row as u32).collect()))
    } else {
        let start = if n == 0 { 0 } else { random.random_range(0..n.min(5)) };
        (start..n, None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn gradients_and_differences_agree_with_the_reference(
        (seed, n, d, k, bias, loss, format) in shapes(),
        clip in clips(),
        indexed in any::<bool>(),
    ) {
        let problem = Problem::new(seed, n, d, k, bias, loss, format);
        let norms = norms(&problem, clip);
        let (range, indices) = chosen(&problem, seed, indexed);
        let selection = indices.as_ref().map_or(Selection::Range(range), |indices| Selection::Indices(indices));
        let batch = problem.batch(norms.as_ref(), selection);
        let rows = batch.selection.len();
        let model = &problem.model;
        let workspace = &mut Workspace::new(model);
        let tolerance = 3e-5 * (rows as f64 + 1.0).sqrt();
        let start = vec![0.25; model.parameters()];
        let plus_start = |sum: Vec<f64>| -> Vec<f64> { sum.into_iter().map(|value| value + 0.25).collect() };

        let mut sum = start.clone();
        let tally = accumulate_gradients(model, &batch, &problem.parameters, clip, &mut sum, workspace).unwrap();
        prop_assert_eq!(tally.rows, rows);
        let current = Point::at(&problem.parameters);
        let expected = plus_start(reference::sum_of_differences(model, &batch, current, None, clip));
        let found = error(&sum, &expected, 1.0 + rows as f64 * 0.05);
        prop_assert!(found < tolerance, "gradients: {} {:?} {:?}", found, sum, expected);

        let mut again = start.clone();
        let repeated = accumulate_gradients(model, &batch, &problem.parameters, clip, &mut again, workspace).unwrap();
        prop_assert_eq!(&again, &sum, "the same inputs give the same bits");
        prop_assert_eq!(repeated, tally);

        let mut zeroed = start.clone();
        let nothing = Point { coefficient: 0.0, parameters: &problem.earlier };
        accumulate_differences(model, &batch, (current, Some(nothing)), clip, &mut zeroed, workspace).unwrap();
        prop_assert_eq!(&zeroed, &sum, "a second coefficient of 0 is the plain gradient");

        let points = problem.points(true);
        let mut difference = start.clone();
        accumulate_differences(model, &batch, points, clip, &mut difference, workspace).unwrap();
        let expected = plus_start(reference::sum_of_differences(model, &batch, points.0, points.1, clip));
        let found = error(&difference, &expected, 1.0 + rows as f64 * 0.05);
        prop_assert!(found < 2.0 * tolerance, "differences: {}", found);

        let evaluation = evaluate(model, &batch, &problem.parameters, workspace).unwrap();
        let expected = reference::evaluation(model, &batch, &problem.parameters);
        prop_assert_eq!(evaluation.rows, expected.rows);
        prop_assert!((evaluation.loss - expected.loss).abs() <= 1e-4 * (1.0 + rows as f64));
        let doubtful = evaluation.correct.abs_diff(expected.correct);
        prop_assert!(doubtful <= 1 + rows / 50, "{} correct, expected {}", evaluation.correct, expected.correct);
    }

    #[test]
    fn a_clipped_contribution_never_exceeds_the_clip_norm(
        seed in any::<u64>(),
        exponent in -36i32..36,
        steepness in -30i32..30,
        clip_exponent in -19i32..19,
        d in 1usize..100,
        k in 2usize..12,
        bias in any::<bool>(),
        loss in prop::sample::select(Loss::ALL.to_vec()),
        norm in prop::sample::select(vec![Norm::L1, Norm::L2]),
        u8_rows in any::<bool>(),
    ) {
        let format = if u8_rows { Format::U8 } else { Format::F32 };
        let mut problem = Problem::new(seed, 3, d, k, bias, loss, format);
        let size = 10f32.powi(exponent);
        problem.floats.iter_mut().for_each(|v| *v *= size);
        let steep = 10f32.powi(steepness);
        if !matches!(loss, Loss::Logistic | Loss::Hinge) {
            problem.reals.iter_mut().for_each(|y| *y *= steep);
        }
        let clip_norm = 10f32.powi(clip_exponent);
        let clip = Clip::Bounded { norm, clip_norm };
        let norms = norms(&problem, clip);
        let model = &problem.model;
        for row in 0..3 {
            let batch = problem.batch(norms.as_ref(), Selection::Range(row..row + 1));
            let mut sum = vec![0.0; model.parameters()];
            let workspace = &mut Workspace::new(model);
            let result = accumulate_gradients(model, &batch, &problem.parameters, clip, &mut sum, workspace);
            if result.is_ok() {
                // A single row is not summed with others: each entry is one rounded product, 2⁻²⁴ or 2⁻¹⁵⁰ off.
                let length = reference::norm(&sum, norm);
                let rounding = f64::from(clip_norm) * 2f64.powi(-24) + sum.len() as f64 * 2f64.powi(-150);
                prop_assert!(length <= f64::from(clip_norm) + rounding, "{} > {}", length, clip_norm);
            }
        }
    }
}

/// Relative error of a sum of 128 products in f32, one after the other.
const ROUNDED_IN_BLOCKS: f64 = 128.0 / 16_777_216.0;

#[test]
fn clipped_sums_never_exceed_rows_times_the_clip_norm() {
    for format in [Format::F32, Format::U8, Format::Sparse] {
        for clip_norm in [0.02, 1.0] {
            let problem = Problem::new(11, 1000, 50, 10, true, Loss::Softmax, format);
            let clip = Clip::l2(clip_norm);
            let norms = norms(&problem, clip);
            let batch = problem.batch(norms.as_ref(), Selection::Range(0..1000));
            let (sum, tally) = sum_of(&problem.model, &batch, &problem.parameters, clip).unwrap();
            assert!(tally.clipped > 0);
            assert!(reference::norm(&sum, Norm::L2) <= 1000.0 * f64::from(clip_norm) * (1.0 + ROUNDED_IN_BLOCKS));
        }
    }
}

#[test]
fn equal_clipped_rows_sum_to_their_number_times_the_clip_norm_and_no_more() {
    // Every contribution is the same vector of norm C: the worst case for the sum's length.
    let values = vec![0.37f32; 128 * 33];
    let rows = Rows::f32(&values, 33);
    let model = model(33, 1, Loss::Absolute);
    let norms = row_norms(rows, false, Norm::L2).unwrap();
    let batch = Batch {
        rows,
        targets: Targets::Values(&[5.0; 128]),
        norms: Some(&norms),
        selection: Selection::Range(0..128),
        units: None,
    };
    let clip = Clip::l2(0.1);
    let (sum, tally) = sum_of(&model, &batch, &[0.0; 33], clip).unwrap();
    assert_eq!(tally.clipped, 128);
    let length = reference::norm(&sum, Norm::L2);
    let bound = 128.0 * f64::from(0.1f32) * (1.0 + ROUNDED_IN_BLOCKS);
    assert!(length <= bound && length > 12.79, "{length}");
}

#[test]
fn a_zero_gradient_is_neither_clipped_nor_an_error() {
    let rows = Rows::f32(&[0.0; 60], 20);
    let model = model(20, 2, Loss::Softmax);
    let norms = row_norms(rows, false, Norm::L2).unwrap();
    assert_eq!(norms.values, [0.0; 3]);
    let batch = Batch {
        rows,
        targets: Targets::Classes(&[0, 1, 0]),
        norms: Some(&norms),
        selection: Selection::Indices(&[2, 1]),
        units: None,
    };
    let clip = Clip::l2(1.0);
    let (sum, tally) = sum_of(&model, &batch, &[1.0; 40], clip).unwrap();
    assert_eq!((tally.rows, tally.clipped), (2, 0));
    assert_eq!(sum, vec![0.0; 40]);
}

#[test]
fn an_empty_selection_changes_nothing() {
    for format in [Format::F32, Format::U8, Format::Sparse] {
        let problem = Problem::new(5, 10, 17, 3, true, Loss::Softmax, format);
        let clip = Clip::l2(1.0);
        let norms = norms(&problem, clip);
        for selection in [Selection::Range(4..4), Selection::Indices(&[])] {
            let batch = problem.batch(norms.as_ref(), selection);
            let mut sum = vec![7.0; problem.model.parameters()];
            let workspace = &mut Workspace::new(&problem.model);
            let tally =
                accumulate_gradients(&problem.model, &batch, &problem.parameters, clip, &mut sum, workspace).unwrap();
            assert_eq!((tally.rows, tally.clipped), (0, 0));
            assert_eq!(sum, vec![7.0; problem.model.parameters()]);
            assert_eq!(evaluate(&problem.model, &batch, &problem.parameters, workspace).unwrap().rows, 0);
        }
    }
}

#[test]
fn nan_and_infinite_features_targets_and_parameters_name_the_row() {
    for loss in Loss::ALL {
        for format in [Format::F32, Format::Sparse] {
            for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for (d, row) in [(5, 150), (35, 3)] {
                    let mut problem = Problem::new(3, 200, d, 4, true, loss, format);
                    let entry = if format == Format::F32 { row * d + d - 1 } else { problem.offsets[row + 1] - 1 };
                    let row = if format == Format::F32 {
                        row
                    } else {
                        problem.offsets.iter().rposition(|&offset| offset <= entry).unwrap()
                    };
                    problem.floats[entry] = poison;
                    let batch = problem.batch(None, Selection::Range(0..200));
                    let model = &problem.model;
                    let workspace = &mut Workspace::new(model);
                    let mut sum = vec![0.0; model.parameters()];
                    let expected = NonFiniteGradient { row };
                    assert_eq!(row_norms(batch.rows, true, Norm::L2).unwrap_err(), expected);
                    assert_eq!(row_norms(batch.rows, true, Norm::L1).unwrap_err(), expected);
                    let parameters = &problem.parameters;
                    let found = accumulate_gradients(model, &batch, parameters, Clip::Unbounded, &mut sum, workspace);
                    assert_eq!(found.unwrap_err(), expected, "{loss:?} {format:?} {poison}");
                    assert_eq!(evaluate(model, &batch, parameters, workspace).unwrap_err(), expected);
                }
            }
        }
        let mut problem = Problem::new(4, 40, 20, 4, false, loss, Format::F32);
        let clip = Clip::l2(1.0);
        let norms = norms(&problem, clip);
        if loss != Loss::Softmax {
            problem.reals[33] = f32::INFINITY;
            let batch = problem.batch(norms.as_ref(), Selection::Range(0..40));
            let found = sum_of(&problem.model, &batch, &problem.parameters, clip);
            assert_eq!(found.unwrap_err(), NonFiniteGradient { row: 33 }, "{loss:?}");
            problem.reals[33] = 1.0;
        }
        problem.parameters[0] = f32::NAN;
        let batch = problem.batch(norms.as_ref(), Selection::Range(7..40));
        let found = sum_of(&problem.model, &batch, &problem.parameters, clip);
        assert_eq!(found.unwrap_err(), NonFiniteGradient { row: 7 }, "{loss:?}");
    }
}

#[test]
fn an_unbounded_sum_that_overflows_names_the_longest_gradient() {
    let mut values = vec![1.0f32; 20 * 4];
    values[20 * 2] = 3e38;
    let rows = Rows::f32(&values, 20);
    let model = model(20, 1, Loss::Squared);
    let batch = Batch {
        rows,
        targets: Targets::Values(&[0.0, 0.0, 1000.0, 0.0]),
        norms: None,
        selection: Selection::Range(0..4),
        units: None,
    };
    let found = sum_of(&model, &batch, &[0.0; 20], Clip::Unbounded);
    assert_eq!(found.unwrap_err(), NonFiniteGradient { row: 2 });
}

#[test]
fn huge_gradients_are_clipped_to_the_clip_norm_not_to_zero() {
    let values = vec![1e37f32; 20];
    let rows = Rows::f32(&values, 20);
    let model = LinearModel { bias: true, ..model(20, 1, Loss::Squared) };
    let norms = row_norms(rows, true, Norm::L2).unwrap();
    let batch = Batch {
        rows,
        targets: Targets::Values(&[1e38]),
        norms: Some(&norms),
        selection: Selection::Range(0..1),
        units: None,
    };
    let (sum, tally) = sum_of(&model, &batch, &[0.0; 21], Clip::l2(2.0)).unwrap();
    assert_eq!(tally.clipped, 1);
    let length = reference::norm(&sum, Norm::L2);
    assert!((1.999..=2.0 * (1.0 + 2f64.powi(-24))).contains(&length), "{length}");
}

#[test]
fn row_norms_are_never_below_the_norm_and_close_to_it() {
    for format in [Format::F32, Format::U8, Format::Sparse] {
        for norm in [Norm::L1, Norm::L2] {
            for bias in [false, true] {
                let problem = Problem::new(9, 60, 83, 3, bias, Loss::Softmax, format);
                let norms = row_norms(problem.rows(), bias, norm).unwrap();
                for (row, &found) in norms.values.iter().enumerate() {
                    let exact = reference::norm(&reference::row(problem.rows(), row, bias), norm);
                    let above = f64::from(found) / exact - 1.0;
                    assert!((0.0..3e-7).contains(&above), "{format:?} {norm:?} {above}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "ascend strictly")]
fn a_feature_stored_twice_is_refused_since_its_norm_would_be_wrong() {
    let rows = SparseRows { offsets: &[0, 2], indices: &[4, 4], values: &[1.0, 1.0], columns: 9 };
    let _ = row_norms(Rows::Sparse(rows), false, Norm::L2);
}

#[test]
#[should_panic(expected = "norms of the rows (left) and of the clip (right)")]
fn norms_of_another_kind_are_refused() {
    let problem = Problem::new(1, 4, 6, 3, false, Loss::Softmax, Format::F32);
    let norms = row_norms(problem.rows(), false, Norm::L1).unwrap();
    let batch = problem.batch(Some(&norms), Selection::Range(0..4));
    let clip = Clip::l2(1.0);
    let _ = sum_of(&problem.model, &batch, &problem.parameters, clip);
}

/// Bytes between rows are never read, and the stride of rows changes no bit.
#[test]
fn rows_with_gaps_give_the_bits_of_rows_without() {
    for (features, classes, loss) in [
        (784, 10, Loss::Softmax),
        (100, 3, Loss::Softmax),
        (130, 2, Loss::Logistic),
        (64, 2, Loss::Squared),
        (33, 4, Loss::Softmax),
        (5, 2, Loss::Hinge),
    ] {
        let n = 150;
        let problem = Problem::new(7, n, features, classes, true, loss, Format::U8);
        let indices: Vec<u32> = (0..n as u32 - 3).map(|place| place * 11 % n as u32).collect();
        let results = [features, features + 1, features + 17, features.next_multiple_of(64) + 64].map(|stride| {
            let mut values = vec![255; n * stride];
            for (to, from) in values.chunks_exact_mut(stride).zip(problem.bytes.chunks_exact(features)) {
                to[..features].copy_from_slice(from);
            }
            let rows = Rows::U8(U8Rows { values: &values, columns: features, stride, scale: SCALE });
            assert_eq!((rows.len(), rows.columns()), (n, features));
            let norms = row_norms(rows, true, Norm::L2).unwrap();
            let l1_norms = row_norms(rows, true, Norm::L1).unwrap();
            let mut bits: Vec<u64> =
                norms.values.iter().chain(&l1_norms.values).map(|norm| u64::from(norm.to_bits())).collect();
            for selection in [Selection::Range(2..n), Selection::Indices(&indices)] {
                let batch = Batch { rows, targets: problem.targets(), norms: Some(&norms), selection, units: None };
                let (model, length) = (&problem.model, problem.model.parameters());
                let clip = Clip::l2(0.5);
                let mut sum = vec![0.0; length];
                let mut loss = 0.0;
                for mut workspace in workspaces(model) {
                    accumulate_gradients(model, &batch, &problem.parameters, clip, &mut sum, &mut workspace).unwrap();
                    loss += evaluate(model, &batch, &problem.parameters, &mut workspace).unwrap().loss;
                }
                let mut recorded = RecordedWorkspace::new(model);
                let mut residuals = vec![0.0; model.outputs * batch.selection.len()];
                let mut of_outputs: Vec<&mut [f32]> = residuals.chunks_mut(batch.selection.len()).collect();
                record(model, &batch, &problem.parameters, None, &mut of_outputs, &mut recorded).unwrap();
                accumulate_reweighted(
                    model,
                    &batch,
                    Reweighting {
                        offset: &problem.earlier,
                        residuals: ByOutput::new(&residuals, model.outputs),
                        lattice: None,
                    },
                    &mut |block, weights| -> Result<(), NonFiniteGradient> {
                        for (row, weight) in weights[..block.positions.len()].iter_mut().enumerate() {
                            *weight = 1.0 + block.offset_margins(row).sum::<f32>().abs();
                        }
                        Ok(())
                    },
                    &mut sum,
                    &mut recorded,
                )
                .unwrap();
                bits.extend(sum.iter().map(|value| value.to_bits()));
                bits.push(loss.to_bits());
            }
            bits
        });
        assert!(results.iter().all(|bits| *bits == results[0]), "{features} features, {loss:?}");
    }
}

const CLIPS: [Clip; 3] = [Clip::Unbounded, Clip::l2(0.3), Clip::l1(2.0)];

/// Scratch with and without integers.
fn workspaces(model: &LinearModel) -> [Workspace; 2] {
    [Workspace::new(model), Workspace::new(model).without_integers()]
}

#[test]
fn null_rows_add_exactly_nothing_and_are_not_evaluated() {
    let shapes = [(1, 2), (20, 4), (33, 10), (64, 2), (130, 11)];
    let sizes = [1, 17, 33, 129];
    for (loss, format) in
        Loss::ALL.into_iter().flat_map(|loss| [Format::F32, Format::U8, Format::Sparse].map(|format| (loss, format)))
    {
        for ((features, classes), n) in shapes.into_iter().flat_map(|shape| sizes.map(|n| (shape, n))) {
            for bias in [false, true] {
                let name = format!("{loss:?} {format:?} {n}×{features} bias {bias}");
                let full = Problem::new(n as u64, n, features, classes, bias, loss, format);
                let model = &full.model;
                let (mut some, mut none) = (full.clone(), full.clone());
                let nulls: Vec<usize> = (0..n).filter(|row| row % 3 == 1).collect();
                nulls.iter().for_each(|&row| some.nullify(row));
                (0..n).for_each(|row| none.nullify(row));
                // Rows without features add nothing either, where there is no bias.
                let (mut empty, mut empty_null) = (full.clone(), some.clone());
                for &row in &nulls {
                    empty.change_features(row, |_| 0.0, |_| 0);
                    empty_null.change_features(row, |_| 0.0, |_| 0);
                }
                let kept: Vec<u32> = (0..n as u32).filter(|row| row % 3 != 1).collect();
                let all: Vec<u32> = (0..n as u32).collect();
                for (clip, difference) in CLIPS.into_iter().flat_map(|clip| [(clip, false), (clip, true)]) {
                    let selections = [Selection::Range(0..n), Selection::Indices(&all)];
                    for selection in selections {
                        let zeros = (vec![0.0; model.parameters()], 0);
                        if clip != Clip::Unbounded {
                            let mut workspace = Workspace::new(model);
                            let mut sum = |problem: &Problem, selection: &Selection<'_>| {
                                problem.exact_sum(selection.clone(), clip, difference, &mut workspace)
                            };
                            assert_eq!(sum(&none, &selection), zeros, "{name}");
                            let expected = sum(&some, &Selection::Indices(&kept));
                            assert_eq!(sum(&some, &selection), expected, "{name}");
                        }
                        for mut blocks in workspaces(model) {
                            let mut sum =
                                |problem: &Problem| problem.sum(selection.clone(), clip, difference, &mut blocks);
                            assert_eq!(sum(&none), zeros, "{name}");
                            if !bias {
                                assert_eq!(sum(&empty_null), sum(&empty), "{name}");
                            }
                            if !matches!(loss, Loss::Hinge | Loss::Absolute) {
                                let norms = norms(&some, clip);
                                let batch = some.batch(norms.as_ref(), selection.clone());
                                let (current, previous) = some.points(difference);
                                let exact = reference::sum_of_differences(model, &batch, current, previous, clip);
                                let found = error(&sum(&some).0, &exact, 1.0 + n as f64 * 0.05);
                                assert!(found < 6e-5 * (n as f64 + 1.0).sqrt(), "{name}: {found}");
                            }
                        }
                    }
                }
                for workspace in &mut workspaces(model) {
                    let mut evaluation = |problem: &Problem| {
                        let batch = problem.batch(None, Selection::Range(0..n));
                        evaluate(model, &batch, &problem.parameters, workspace).unwrap()
                    };
                    assert_eq!(evaluation(&none), Evaluation::default(), "{name}");
                    let found = evaluation(&some);
                    let batch = full.batch(None, Selection::Indices(&kept));
                    let expected = reference::evaluation(model, &batch, &full.parameters);
                    assert_eq!(
                        reference::evaluation(model, &some.batch(None, Selection::Range(0..n)), &full.parameters),
                        expected
                    );
                    assert_eq!(found.rows, kept.len(), "{name}");
                    assert!((found.loss - expected.loss).abs() <= 1e-4 * (1.0 + n as f64), "{name}");
                    assert!(found.correct.abs_diff(expected.correct) <= 1 + n / 50, "{name}");
                }
            }
        }
    }
}

/// The basis of a release: the exact sum of a batch is the sum of what its rows add alone. So nothing else in a batch changes
/// what a row adds: not the number or the order of rows, not a long row beside it, not the greatest coefficient of a block. A row adds no
/// more than the clip norm, as integers, and all rows about what the clipped gradients are.
#[test]
fn in_exact_sums_a_row_adds_what_it_adds_alone() {
    let of_all_formats = [
        (Loss::Logistic, 1, 2, true),
        (Loss::Squared, 20, 2, false),
        (Loss::Huber(0.7), 67, 2, true),
        (Loss::Softmax, 40, 3, true),
        (Loss::Softmax, 130, 7, false),
    ];
    let of_all_formats = of_all_formats.into_iter().flat_map(|(loss, features, classes, bias)| {
        [Format::F32, Format::U8, Format::Sparse].map(|format| (loss, format, features, classes, bias))
    });
    let cases = [
        (Loss::Logistic, Format::F32, 20, 2, true),
        (Loss::Huber(0.7), Format::F32, 64, 2, false),
        (Loss::Squared, Format::F32, 16, 2, true),
        (Loss::Logistic, Format::F32, 200, 2, false),
        (Loss::Absolute, Format::F32, 5, 2, true),
        (Loss::Softmax, Format::F32, 33, 10, true),
        (Loss::Logistic, Format::U8, 40, 2, true),
        (Loss::Softmax, Format::U8, 100, 10, true),
        (Loss::Softmax, Format::U8, 131, 13, false),
        (Loss::Softmax, Format::Sparse, 30, 4, true),
        (Loss::Hinge, Format::Sparse, 50, 2, false),
    ];
    for (loss, format, features, classes, bias) in cases.into_iter().chain(of_all_formats) {
        // Several blocks of 128 rows.
        let long = if format == Format::U8 { 520 } else { 40 };
        for n in [1, 31, 32, 33, 127, 128, 129, long] {
            let mut ordinary = Problem::new(n as u64, n, features, classes, bias, loss, format);
            ordinary.scale = if n.is_multiple_of(2) { 1.0 / 256.0 } else { SCALE };
            // Every other row stays.
            let (mut extreme, mut null) = (ordinary.clone(), ordinary.clone());
            for row in (1..n).step_by(2) {
                extreme.change_features(row, |value| 1e20 * value, |byte| 255 * (byte % 2));
                null.nullify(row);
            }
            let shuffled: Vec<u32> = (0..n as u32).map(|row| row * 7 % n as u32).collect();
            let bounded = CLIPS.into_iter().filter(|clip| *clip != Clip::Unbounded);
            for (clip, difference) in bounded.flat_map(|clip| [(clip, false), (clip, true)]) {
                let mut workspace = Workspace::new(&ordinary.model);
                let name = format!("{loss:?} {format:?} {n}×{features} {clip:?} {difference}");
                let mut sum =
                    |problem: &Problem, selection| problem.exact_sum(selection, clip, difference, &mut workspace).0;
                let one = |row: usize| Selection::Range(row..row + 1);
                let alone: Vec<Vec<f64>> = (0..n).map(|row| sum(&ordinary, one(row))).collect();
                let (Clip::Bounded { norm, clip_norm }, unit) = (clip, ordinary.lattice(clip).unit()) else { continue };
                let greatest = (f64::from(clip_norm) / unit).floor() * (1.0 + 1e-12);
                assert!(alone.iter().all(|added| reference::norm(added, norm) <= greatest), "{name}");
                for (others, far) in [(&ordinary, false), (&extreme, true), (&null, false)] {
                    let mut expected = vec![0.0; ordinary.model.parameters()];
                    for row in 0..n {
                        let changed = (row % 2 == 1).then(|| sum(others, one(row)));
                        let added = changed.as_ref().unwrap_or(&alone[row]);
                        expected.iter_mut().zip(added).for_each(|(sum, value)| *sum += value);
                    }
                    assert_eq!(sum(others, Selection::Range(0..n)), expected, "{name}");
                    assert_eq!(sum(others, Selection::Indices(&shuffled)), expected, "{name}");
                    if !far && !matches!(loss, Loss::Hinge | Loss::Absolute) {
                        let norms = norms(others, clip);
                        let batch = others.batch(norms.as_ref(), Selection::Range(0..n));
                        let (current, previous) = others.points(difference);
                        let near = reference::sum_of_differences(&others.model, &batch, current, previous, clip);
                        let found: Vec<f64> = expected.iter().map(|value| value * unit).collect();
                        assert!(error(&found, &near, f64::from(clip_norm) * (n as f64).sqrt()) < 2e-3, "{name}");
                    }
                }
            }
        }
    }
}

//! Gradients and losses of many parameter vectors at the same rows, for models of few features and one output: lanes
//! hold runs, so a pass over the rows is a product of a tall matrix (rows × features) with a narrow one (features × runs),
//! and no sum across lanes is ever needed. For studies that repeat a run; one run uses [`super::accumulate_gradients`].
//!
//! A block of at most [`super::BLOCK_ROWS`] rows is processed for up to five vectors of runs at a time: margins in
//! register tiles of rows × vectors, residuals in registers, then the gradient in register tiles of features × vectors.

use wide::f32x16;

use super::model::{Batch, LinearModel, NonFiniteGradient};
use super::packing::split;
use crate::features::BLOCK_ROWS;
use crate::features::{Rows, Selection, Targets};
use crate::loss::{MarginLoss, TargetKind, with_margin_loss};
use crate::vector::lanes::{LANES, add_to_f64};

/// Vectors of runs that are processed together.
const MOST_VECTORS: usize = 5;

/// Scratch memory for one model and a number of runs.
#[derive(Debug)]
pub struct ReplicaWorkspace {
    features: usize,
    /// Vectors of runs.
    vectors: usize,
    /// `[chunk][features][vectors of the chunk]`.
    parameters: Vec<f32x16>,
    /// Residuals of a block, `[row][vector]`.
    residuals: Vec<f32x16>,
    /// Rows of a block that are not contiguous f32 in memory.
    rows: Vec<f32>,
    targets: Vec<f32>,
}

impl ReplicaWorkspace {
    /// Scratch for `runs` parameter vectors of `model`.
    ///
    /// # Panics
    /// A model with more than one output, or with a bias (append a column of ones instead).
    pub fn new(model: &LinearModel, runs: usize) -> Self {
        assert!(
            model.outputs == 1 && model.loss.targets() != TargetKind::Classes,
            "replicas are for models of one output"
        );
        assert!(!model.bias, "replicas have no bias: append a column of ones");
        let vectors = runs.div_ceil(LANES);
        Self {
            features: model.features,
            vectors,
            parameters: vec![f32x16::ZERO; vectors * model.features],
            residuals: vec![f32x16::ZERO; BLOCK_ROWS * MOST_VECTORS.min(vectors)],
            rows: vec![0.0; BLOCK_ROWS * model.features],
            targets: vec![0.0; BLOCK_ROWS],
        }
    }

    /// Values of a matrix of `[features, runs]`, runs padded to whole vectors: the shape of parameters and sums.
    pub fn padded_runs(runs: usize) -> usize {
        runs.next_multiple_of(LANES)
    }

    /// Brings `[features, padded runs]` into the order in which it is read.
    fn pack(&mut self, parameters: &[f32]) {
        let stride = self.vectors * LANES;
        assert_eq!(parameters.len(), self.features * stride, "parameters are not [features, padded runs]");
        let mut packed = self.parameters.iter_mut();
        for (first, count) in split(self.vectors, MOST_VECTORS) {
            for feature in parameters.chunks_exact(stride) {
                for vector in first..first + count {
                    let lanes = feature[vector * LANES..].first_chunk().expect("runs are whole vectors");
                    *packed.next().expect("as many vectors as parameters") = f32x16::new(*lanes);
                }
            }
        }
    }
}

/// `sums[j, r] += Σ_i φ′(a_i·x_r; y_i)·a_ij`, unclipped, for every run r: f32 inside blocks of at most 128 rows, f64 across
/// blocks. `parameters` and `sums` are `[features, padded runs]`, run fastest; padding runs cost time and mean nothing.
///
/// # Errors
/// A row and run whose gradient is not finite; `sums` is then unspecified.
///
/// # Panics
/// Shapes that do not fit the workspace, rows out of range.
pub fn accumulate_replica_gradients(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    sums: &mut [f64],
    workspace: &mut ReplicaWorkspace,
) -> Result<(), NonFiniteGradient> {
    workspace.pack(parameters);
    let ReplicaWorkspace { features, vectors, parameters, residuals, rows, targets } = workspace;
    let (features, stride) = (*features, *vectors * LANES);
    assert_eq!(sums.len(), features * stride, "sums are not [features, padded runs]");
    for_each_block(model, batch, rows, targets, |block| {
        for (first, count) in split(*vectors, MOST_VECTORS) {
            let weights = &parameters[first * features..][..count * features];
            let place = (&mut *sums, stride, first * LANES);
            with_margin_loss!(
                model.loss,
                loss => match count {
                    1 => chunk_gradient::<_, 1, 16, 5>(loss, features, block, weights, residuals, place),
                    2 => chunk_gradient::<_, 2, 10, 4>(loss, features, block, weights, residuals, place),
                    3 => chunk_gradient::<_, 3, 8, 4>(loss, features, block, weights, residuals, place),
                    4 => chunk_gradient::<_, 4, 5, 4>(loss, features, block, weights, residuals, place),
                    _ => chunk_gradient::<_, 5, 4, 4>(loss, features, block, weights, residuals, place),
                },
                softmax => panic!("replicas need a loss of one margin"),
            );
        }
    });
    // Every NaN or infinite margin makes a residual and with it a sum so, or belongs to a row without features.
    check_finite(model, batch, sums)
}

/// `losses[r] += Σ_i φ(a_i·x_r; y_i)` over the rows but null ones, for every run r (padding included), as [`accumulate_replica_gradients`].
///
/// # Errors
/// As [`accumulate_replica_gradients`].
///
/// # Panics
/// As [`accumulate_replica_gradients`].
pub fn accumulate_replica_losses(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    losses: &mut [f64],
    workspace: &mut ReplicaWorkspace,
) -> Result<(), NonFiniteGradient> {
    workspace.pack(parameters);
    let ReplicaWorkspace { features, vectors, parameters, rows, targets, .. } = workspace;
    let features = *features;
    assert_eq!(losses.len(), *vectors * LANES, "losses are not one a padded run");
    for_each_block(model, batch, rows, targets, |block| {
        for (first, count) in split(*vectors, MOST_VECTORS) {
            let weights = &parameters[first * features..][..count * features];
            let losses = &mut losses[first * LANES..][..count * LANES];
            with_margin_loss!(
                model.loss,
                loss => match count {
                    1 => chunk_losses::<_, 1, 16>(loss, features, block, weights, losses),
                    2 => chunk_losses::<_, 2, 10>(loss, features, block, weights, losses),
                    3 => chunk_losses::<_, 3, 8>(loss, features, block, weights, losses),
                    4 => chunk_losses::<_, 4, 5>(loss, features, block, weights, losses),
                    _ => chunk_losses::<_, 5, 4>(loss, features, block, weights, losses),
                },
                softmax => panic!("replicas need a loss of one margin"),
            );
        }
    });
    check_finite(model, batch, losses)
}

/// The rows and targets of one block, contiguous.
struct Block<'a> {
    /// `rows × features`.
    rows: &'a [f32],
    targets: &'a [f32],
}

/// Calls `work` for every block of the batch.
fn for_each_block(
    model: &LinearModel,
    batch: &Batch<'_>,
    rows: &mut [f32],
    targets: &mut [f32],
    mut work: impl FnMut(&Block<'_>),
) {
    let Targets::Values(values) = batch.targets else { panic!("replicas need real targets") };
    let features = model.features;
    assert_eq!(batch.rows.columns(), features, "the rows' columns are not the model's features");
    let total = batch.selection.len();
    for start in (0..total).step_by(BLOCK_ROWS) {
        let count = BLOCK_ROWS.min(total - start);
        let block = if let (Rows::F32(dense), Selection::Range(range)) = (&batch.rows, &batch.selection) {
            let first = range.start + start;
            Block { rows: &dense.values[first * features..][..count * features], targets: &values[first..][..count] }
        } else {
            for position in 0..count {
                let row = batch.selection.row(start + position);
                batch.rows.widen(row, &mut rows[position * features..][..features]);
                targets[position] = values[row];
            }
            Block { rows: &rows[..count * features], targets: &targets[..count] }
        };
        work(&block);
    }
}

/// An error for sums that are not finite. It names the first row with a NaN or infinite feature, else the first: then parameters have
/// diverged.
fn check_finite(model: &LinearModel, batch: &Batch<'_>, sums: &[f64]) -> Result<(), NonFiniteGradient> {
    if sums.iter().all(|sum| sum.is_finite()) {
        return Ok(());
    }
    let mut features = vec![0.0; model.features];
    let culprit = batch.selection.rows().find(|&row| {
        batch.rows.widen(row, &mut features);
        !features.iter().all(|value| value.is_finite())
    });
    Err(NonFiniteGradient { row: culprit.or_else(|| batch.selection.rows().next()).unwrap_or(0) })
}

/// Margins, residuals and gradient of one block for V vectors of runs, from run `first` of the `stride` in `sums` on; register tiles
/// of R rows, then of J features.
fn chunk_gradient<L: MarginLoss, const V: usize, const R: usize, const J: usize>(
    loss: L,
    features: usize,
    block: &Block<'_>,
    weights: &[f32x16],
    residuals: &mut [f32x16],
    (sums, stride, first): (&mut [f64], usize, usize),
) {
    let (weights, _) = weights.as_chunks::<V>();
    let (residuals, _) = residuals.as_chunks_mut::<V>();
    let residuals = &mut residuals[..block.targets.len()];
    let mut places = residuals.iter_mut();
    for_each_row::<V, R>(features, block, weights, |margins, target| {
        *places.next().expect("a place a row") = residuals_of_row(loss, margins, target);
    });
    let mut feature = 0;
    while feature < features {
        let left = features - feature;
        let target = &mut sums[feature * stride..];
        if left >= J {
            gradient_tile::<V, J>(block.rows, features, feature, residuals, target, stride, first);
            feature += J;
        } else {
            gradient_tile::<V, 1>(block.rows, features, feature, residuals, target, stride, first);
            feature += 1;
        }
    }
}

/// Calls `work(margins, target)` for each row of a block in turn; register tiles of R rows.
#[inline(always)]
fn for_each_row<const V: usize, const R: usize>(
    features: usize,
    block: &Block<'_>,
    weights: &[[f32x16; V]],
    mut work: impl FnMut(&[f32x16; V], f32),
) {
    let mut tiles = block.rows.chunks_exact(features * R);
    let mut targets = block.targets.chunks_exact(R);
    for (rows, targets) in (&mut tiles).zip(&mut targets) {
        for (margins, &target) in tile_margins::<V, R>(rows, features, weights).iter().zip(targets) {
            work(margins, target);
        }
    }
    for (row, &target) in tiles.remainder().chunks_exact(features).zip(targets.remainder()) {
        let [margins] = tile_margins::<V, 1>(row, features, weights);
        work(&margins, target);
    }
}

/// Residuals of one row, 0 for the null row.
#[inline(always)]
fn residuals_of_row<L: MarginLoss, const V: usize>(loss: L, margins: &[f32x16; V], target: f32) -> [f32x16; V] {
    if target.is_nan() {
        return [f32x16::ZERO; V];
    }
    margins.map(|margin| loss.fast_residual_lanes(margin, f32x16::splat(target)))
}

/// `u[i][v] = Σ_j a_ij·x_j[v]` for R rows.
#[inline(always)]
fn tile_margins<const V: usize, const R: usize>(
    rows: &[f32],
    features: usize,
    weights: &[[f32x16; V]],
) -> [[f32x16; V]; R] {
    let rows: [&[f32]; R] = std::array::from_fn(|row| &rows[row * features..][..weights.len()]);
    let mut margins = [[f32x16::ZERO; V]; R];
    for (feature, weights) in weights.iter().enumerate() {
        for (margins, row) in margins.iter_mut().zip(&rows) {
            let value = f32x16::splat(row[feature]);
            for (margin, &weight) in margins.iter_mut().zip(weights) {
                *margin = value.mul_add(weight, *margin);
            }
        }
    }
    margins
}

/// `sums[j, ·] += Σ_i r_i[·]·a_ij` for J features from `feature` on.
#[inline(always)]
fn gradient_tile<const V: usize, const J: usize>(
    rows: &[f32],
    features: usize,
    feature: usize,
    residuals: &[[f32x16; V]],
    sums: &mut [f64],
    stride: usize,
    first: usize,
) {
    let mut totals = [[f32x16::ZERO; V]; J];
    for (row, residuals) in rows.chunks_exact(features).zip(residuals) {
        let values: &[f32; J] = row[feature..].first_chunk().expect("J features are left");
        for (totals, &value) in totals.iter_mut().zip(values) {
            let value = f32x16::splat(value);
            for (total, &residual) in totals.iter_mut().zip(residuals) {
                *total = value.mul_add(residual, *total);
            }
        }
    }
    for (totals, sums) in totals.iter().zip(sums.chunks_mut(stride)) {
        let (sums, _) = sums[first..][..V * LANES].as_chunks_mut();
        totals.iter().zip(sums).for_each(|(total, sums)| add_to_f64(sums, *total));
    }
}

fn chunk_losses<L: MarginLoss, const V: usize, const R: usize>(
    loss: L,
    features: usize,
    block: &Block<'_>,
    weights: &[f32x16],
    losses: &mut [f64],
) {
    let (weights, _) = weights.as_chunks::<V>();
    let mut totals = [f32x16::ZERO; V];
    for_each_row::<V, R>(features, block, weights, |margins, target| {
        if target.is_nan() {
            return;
        }
        for (total, &margin) in totals.iter_mut().zip(margins) {
            *total += loss.value_lanes(margin, f32x16::splat(target));
        }
    });
    totals.iter().zip(losses.as_chunks_mut().0).for_each(|(total, losses)| add_to_f64(losses, *total));
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::features::NULL_TARGET;
    use crate::linear::{Clip, Point};
    use crate::loss::Loss;
    use crate::vector::tests::values;

    fn model(features: usize, loss: Loss) -> LinearModel {
        LinearModel { features, outputs: 1, bias: false, loss }
    }

    fn check(rows: usize, features: usize, runs: usize, loss: Loss, indices: Option<&[u32]>) {
        let model = model(features, loss);
        let matrix = values(1, rows * features);
        let mut targets: Vec<f32> = values(2, rows).iter().map(|value| value.signum()).collect();
        targets.iter_mut().skip(3).step_by(7).for_each(|target| *target = NULL_TARGET);
        let padded = ReplicaWorkspace::padded_runs(runs);
        let parameters: Vec<f32> = values(3, features * padded).iter().map(|value| 3.0 * value).collect();
        let batch = Batch {
            rows: Rows::f32(&matrix, features),
            targets: Targets::Values(&targets),
            norms: None,
            selection: indices.map_or(Selection::Range(0..rows), Selection::Indices),
        };
        let mut workspace = ReplicaWorkspace::new(&model, runs);
        let mut sums = vec![1.0; features * padded];
        accumulate_replica_gradients(&model, &batch, &parameters, &mut sums, &mut workspace).unwrap();
        let mut losses = vec![2.0; padded];
        accumulate_replica_losses(&model, &batch, &parameters, &mut losses, &mut workspace).unwrap();
        for run in 0..runs {
            let own: Vec<f32> = (0..features).map(|feature| parameters[feature * padded + run]).collect();
            let expected = reference::sum_of_differences(&model, &batch, Point::at(&own), None, Clip::Unbounded);
            let tolerance = 2e-6 * (batch.selection.len() as f64 + 1.0);
            for (feature, value) in expected.iter().enumerate() {
                let found = sums[feature * padded + run] - 1.0;
                assert!((found - value).abs() < tolerance, "{loss:?} {rows}×{features}, {runs}: {found} for {value}");
            }
            let value = reference::evaluation(&model, &batch, &own).loss;
            let found = losses[run] - 2.0;
            assert!((found - value).abs() < 3e-6 * (value + 1.0), "{loss:?} loss {found} for {value}");
        }
    }

    #[test]
    fn sums_and_losses_are_those_of_each_run_alone() {
        for loss in Loss::ALL.into_iter().filter(|&loss| loss != Loss::Softmax) {
            for (rows, features, runs) in [
                (0, 3, 1),
                (1, 1, 1),
                (5, 2, 17),
                (128, 20, 20),
                (129, 21, 40),
                (300, 7, 80),
                (257, 20, 97),
                (40, 4, 160),
            ] {
                check(rows, features, runs, loss, None);
            }
        }
        let indices: Vec<u32> = (0..200).map(|index| (index * 7) % 90).collect();
        check(90, 20, 33, Loss::Logistic, Some(&indices));
    }

    #[test]
    fn a_feature_that_is_no_number_names_its_row() {
        let model = model(3, Loss::Logistic);
        let mut matrix = values(1, 30);
        matrix[4 * 3 + 1] = f32::NAN;
        let targets = [1.0; 10];
        let batch = Batch {
            rows: Rows::f32(&matrix, 3),
            targets: Targets::Values(&targets),
            norms: None,
            selection: Selection::Range(0..10),
        };
        let mut workspace = ReplicaWorkspace::new(&model, 1);
        let mut sums = vec![0.0; 48];
        let outcome = accumulate_replica_gradients(&model, &batch, &[0.1; 48], &mut sums, &mut workspace);
        assert_eq!(outcome, Err(NonFiniteGradient { row: 4 }));
        let mut losses = vec![0.0; 16];
        let outcome = accumulate_replica_losses(&model, &batch, &[0.1; 48], &mut losses, &mut workspace);
        assert_eq!(outcome, Err(NonFiniteGradient { row: 4 }));
    }
}

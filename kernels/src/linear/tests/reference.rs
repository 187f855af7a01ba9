//! The plain scalar versions: f64, every per-example gradient materialised, no closed form. What the fast kernels are
//! tested against; nothing else should call them.

use super::super::model::{Batch, Clip, Evaluation, LinearModel, Point};
use super::super::unit_rows::Reduction;
use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::{Target, TargetKind};

/// Row `row` of `rows` in f64, with the constant 1 appended when `bias`.
pub(crate) fn row(rows: Rows<'_>, row: usize, bias: bool) -> Vec<f64> {
    let mut features: Vec<f64> = match rows {
        Rows::F32(dense) => dense.row(row).iter().map(|&v| f64::from(v)).collect(),
        Rows::U8(bytes) => bytes.row(row).iter().map(|&v| f64::from(v) * f64::from(bytes.scale)).collect(),
        Rows::Sparse(sparse) => {
            let mut dense = vec![0.0; sparse.columns];
            let (columns, values) = sparse.row(row);
            columns.iter().zip(values).for_each(|(&column, &value)| dense[column as usize] += f64::from(value));
            dense
        }
    };
    if bias {
        features.push(1.0);
    }
    features
}

/// ‖v‖ in the given norm.
pub(crate) fn norm(values: &[f64], norm: Norm) -> f64 {
    match norm {
        Norm::L1 => values.iter().map(|v| v.abs()).sum(),
        Norm::L2 => values.iter().map(|v| v * v).sum::<f64>().sqrt(),
    }
}

/// `None` for the null row.
fn target(targets: Targets<'_>, row: usize) -> Option<Target> {
    (!targets.is_null(row)).then(|| match targets {
        Targets::Classes(classes) => Target::Class(classes[row] as usize),
        Targets::Values(values) => Target::Value(f64::from(values[row])),
    })
}

fn margins(features: &[f64], outputs: usize, parameters: &[f32]) -> Vec<f64> {
    (0..outputs)
        .map(|output| {
            let weights = &parameters[output * features.len()..(output + 1) * features.len()];
            features.iter().zip(weights).map(|(a, &w)| a * f64::from(w)).sum()
        })
        .collect()
}

fn per_example(model: &LinearModel, batch: &Batch<'_>, row_index: usize, point: Point<'_>) -> Vec<f64> {
    let Some(target) = target(batch.targets, row_index) else {
        return vec![0.0; model.parameters()];
    };
    let features = row(batch.rows, row_index, model.bias);
    let mut residual = margins(&features, model.outputs, point.parameters);
    model.loss.residual(&mut residual, target);
    let coefficient = f64::from(point.coefficient);
    residual.iter().flat_map(|r| features.iter().map(move |a| coefficient * r * a)).collect()
}

fn clip_in_place(gradient: &mut [f64], clip: Clip) {
    if let Clip::Bounded { norm: kind, clip_norm } = clip {
        let length = norm(gradient, kind);
        if length > f64::from(clip_norm) {
            gradient.iter_mut().for_each(|v| *v *= f64::from(clip_norm) / length);
        }
    }
}

/// `Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`; without `previous` the plain sum of clipped gradients.
pub(crate) fn sum_of_differences(
    model: &LinearModel,
    batch: &Batch<'_>,
    current: Point<'_>,
    previous: Option<Point<'_>>,
    clip: Clip,
) -> Vec<f64> {
    let mut sum = vec![0.0; model.parameters()];
    for row_index in batch.selection.rows() {
        let mut gradient = per_example(model, batch, row_index, current);
        if let Some(previous) = previous {
            let other = per_example(model, batch, row_index, previous);
            gradient.iter_mut().zip(other).for_each(|(g, o)| *g -= o);
        }
        clip_in_place(&mut gradient, clip);
        sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += g);
    }
    sum
}

/// `Σ_u clip(w·Σ_{i ∈ u} (a·∇f(x; d_i) − b·∇f(x′; d_i)))` over the units of a batch.
///
/// # Panics
/// A batch without units.
pub(crate) fn sum_of_units(
    model: &LinearModel,
    batch: &Batch<'_>,
    current: Point<'_>,
    previous: Option<Point<'_>>,
    clip: Clip,
) -> Vec<f64> {
    let units = batch.units.expect("a batch of units");
    let mut sum = vec![0.0; model.parameters()];
    for unit in batch.selection.rows() {
        let rows = units.offsets[unit]..units.offsets[unit + 1];
        let count = rows.len();
        let rows = batch.of_rows(Selection::Range(rows));
        let mut gradient = sum_of_differences(model, &rows, current, previous, Clip::Unbounded);
        if units.reduction == Reduction::Mean {
            gradient.iter_mut().for_each(|value| *value /= count.max(1) as f64);
        }
        clip_in_place(&mut gradient, clip);
        sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
    }
    sum
}

/// Loss and accuracy, as [`evaluate`](super::evaluate).
pub(crate) fn evaluation(model: &LinearModel, batch: &Batch<'_>, parameters: &[f32]) -> Evaluation {
    let mut evaluation = Evaluation::default();
    for row_index in batch.selection.rows() {
        let Some(target) = target(batch.targets, row_index) else {
            continue;
        };
        let features = row(batch.rows, row_index, model.bias);
        let u = margins(&features, model.outputs, parameters);
        evaluation.loss += model.loss.value(&u, target);
        evaluation.rows += 1;
        evaluation.correct += usize::from(match (model.loss.targets(), target) {
            (_, Target::Class(class)) => {
                // −0 and 0 tie, and the first of the greatest wins.
                let value = |output: usize| u[output] + 0.0;
                let best = (0..u.len()).rev().max_by(|&i, &j| value(i).total_cmp(&value(j)));
                best == Some(class)
            }
            (TargetKind::Signs, Target::Value(y)) => (u[0] >= 0.0) == (y >= 0.0),
            _ => false,
        });
    }
    evaluation
}

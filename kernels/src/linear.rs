//! Fused gradients of linear models: margins, residuals, closed-form per-example norms, clip factors and the sum of
//! clipped gradients in one pass over a block of rows.
//!
//! A per-example gradient of a linear model is of rank one, `g_i = r_i ⊗ a_i`, so `‖g_i‖ = ‖r_i‖·‖a_i‖` for the L2 and
//! the L1 norm alike, and clipping needs no materialised per-example gradient.

mod clipping;
pub mod recorded;
pub mod reference;
pub mod replicas;

use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::{Loss, Target};

pub use clipping::{MAXIMUM_CLIP_NORM, MINIMUM_CLIP_NORM, computed_sensitivity, row_norms};

/// Rows whose contributions are summed in f32 before the sum moves to f64: the m of [`computed_sensitivity`].
pub const BLOCK_ROWS: usize = 128;

/// Shape and loss of a linear model. Parameters are row-major `[outputs, features + bias]`, bias last in each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// Features a row, without the bias.
    pub features: usize,
    /// Outputs K: the number of classes for softmax, 1 for all other losses.
    pub outputs: usize,
    /// Whether a constant feature 1 is appended to every row.
    pub bias: bool,
    /// The loss.
    pub loss: Loss,
}

impl LinearModel {
    /// Number of parameters, `K·(features + bias)`.
    pub fn parameters(&self) -> usize {
        self.outputs * (self.features + usize::from(self.bias))
    }
}

/// How per-example gradients (or differences) are clipped before they are summed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Not at all.
    Unbounded,
    /// `g · min(1, C/‖g‖)` in the given norm, C > 0.
    Bounded {
        /// The norm.
        norm: Norm,
        /// The clip norm C.
        clip_norm: f32,
    },
}

/// Norms of rows, bias included, rounded up: what clipping multiplies with the residual's norm.
#[derive(Clone, Debug)]
pub struct RowNorms {
    /// Which norm.
    pub norm: Norm,
    /// One value a row of the whole matrix.
    pub values: Vec<f32>,
}

/// A batch: the whole matrix, its targets and norms, and which rows to read.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// All rows.
    pub rows: Rows<'a>,
    /// All targets.
    pub targets: Targets<'a>,
    /// Norms of all rows in the norm of the clip; may be absent when the clip is unbounded.
    pub norms: Option<&'a RowNorms>,
    /// Which rows.
    pub selection: Selection<'a>,
}

/// A coefficient and the parameters at which a gradient is taken: one side of `a·∇f(x) − b·∇f(x′)`.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The factor of the gradient.
    pub coefficient: f32,
    /// The parameters.
    pub parameters: &'a [f32],
}

/// What a kernel counted while it summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows read.
    pub rows: usize,
    /// Rows whose gradient was longer than the clip norm. A statistic of the data: diagnostics only.
    pub clipped: usize,
}

/// A gradient that is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: the gradient is not finite (NaN or infinite features, or parameters that diverged)")]
pub struct NonFiniteGradient {
    /// The row of the matrix.
    pub row: usize,
}

/// Loss and accuracy of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Σ loss over the rows.
    pub loss: f64,
    /// Rows predicted correctly: arg max for softmax, sign for ±1 targets; 0 for regression losses.
    pub correct: usize,
    /// Rows read.
    pub rows: usize,
}

/// Additive shifts of the margins and weights of the rows, for the projected ReSQue estimator: row `b` of the batch
/// contributes `weights[b] · residual(W·a_b + shifts[b]) ⊗ a_b`.
#[derive(Clone, Copy, Debug)]
pub struct Perturbation<'a> {
    /// `batch × K` shifts, row-major, in batch order.
    pub shifts: &'a [f32],
    /// One weight a batch row.
    pub weights: &'a [f32],
}

/// Scratch memory of the kernels for one model: made once by whoever owns the loop.
#[derive(Debug)]
pub struct Workspace {
    row: Vec<f32>,
    margins: Vec<f64>,
    previous: Vec<f64>,
    gradient: Vec<f32>,
}

impl Workspace {
    /// Scratch for batches of `model`.
    pub fn new(model: &LinearModel) -> Self {
        Workspace {
            row: vec![0.0; model.features + 1],
            margins: vec![0.0; model.outputs],
            previous: vec![0.0; model.outputs],
            gradient: vec![0.0; model.parameters()],
        }
    }
}

/// `sum += Σ_i clip(∇f(x; d_i))`, f32 inside blocks of at most 128 rows, f64 across blocks.
///
/// # Errors
/// A row whose gradient is not finite; `sum` is then unspecified.
///
/// # Panics
/// Shapes that do not fit the model, rows out of range, a clip norm outside
/// [[`MINIMUM_CLIP_NORM`], [`MAXIMUM_CLIP_NORM`]], or a bounded clip without norms of its kind.
pub fn accumulate_gradients(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    accumulate(
        model,
        batch,
        Point {
            coefficient: 1.0,
            parameters,
        },
        None,
        None,
        clip,
        sum,
        workspace,
    )
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference, rows read once.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_differences(
    model: &LinearModel,
    batch: &Batch<'_>,
    current: Point<'_>,
    previous: Point<'_>,
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    accumulate(model, batch, current, Some(previous), None, clip, sum, workspace)
}

/// `sum += Σ_b w_b · clip(residual(W·a_b + shift_b) ⊗ a_b)` for ReSQue.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_perturbed_gradients(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    perturbation: Perturbation<'_>,
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let point = Point {
        coefficient: 1.0,
        parameters,
    };
    accumulate(model, batch, point, None, Some(perturbation), clip, sum, workspace)
}

fn check(model: &LinearModel, batch: &Batch<'_>, parameters: &[f32]) {
    assert_eq!(
        batch.rows.columns(),
        model.features,
        "the rows' columns are not the model's features"
    );
    assert!(batch.targets.len() >= batch.rows.len(), "fewer targets than rows");
    assert_eq!(parameters.len(), model.parameters(), "parameters do not fit the model");
    match &batch.selection {
        Selection::Range(range) => assert!(range.end <= batch.rows.len(), "range beyond the rows"),
        Selection::Indices(indices) => {
            let end = indices.iter().copied().max().map_or(0, |index| index as usize + 1);
            assert!(end <= batch.rows.len(), "row index beyond the rows");
        }
    }
}

fn load_row(rows: Rows<'_>, index: usize, out: &mut [f32]) {
    match rows {
        Rows::F32(dense) => out.copy_from_slice(&dense.values[index * dense.columns..][..dense.columns]),
        Rows::U8(bytes) => {
            let values = &bytes.values[index * bytes.columns..][..bytes.columns];
            out.iter_mut()
                .zip(values)
                .for_each(|(o, &v)| *o = f32::from(v) * bytes.scale);
        }
        Rows::Sparse(sparse) => {
            out.fill(0.0);
            for entry in sparse.offsets[index]..sparse.offsets[index + 1] {
                out[sparse.indices[entry] as usize] += sparse.values[entry];
            }
        }
    }
}

fn margins(row: &[f32], parameters: &[f32], margins: &mut [f64]) {
    for (margin, weights) in margins.iter_mut().zip(parameters.chunks_exact(row.len())) {
        let mut lanes = [0f32; 16];
        let (a, w) = (row.chunks_exact(16), weights.chunks_exact(16));
        let tail: f32 = a.remainder().iter().zip(w.remainder()).map(|(a, w)| a * w).sum();
        for (a, w) in a.zip(w) {
            for lane in 0..16 {
                lanes[lane] = a[lane].mul_add(w[lane], lanes[lane]);
            }
        }
        *margin = f64::from(lanes.iter().sum::<f32>() + tail);
    }
}

fn target(targets: Targets<'_>, row: usize) -> Target {
    match targets {
        Targets::Classes(classes) => Target::Class(classes[row] as usize),
        Targets::Values(values) => Target::Value(f64::from(values[row])),
    }
}

fn row_at(selection: &Selection<'_>, position: usize) -> usize {
    match selection {
        Selection::Range(range) => range.start + position,
        Selection::Indices(indices) => indices[position] as usize,
    }
}

fn accumulate(
    model: &LinearModel,
    batch: &Batch<'_>,
    current: Point<'_>,
    previous: Option<Point<'_>>,
    perturbation: Option<Perturbation<'_>>,
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    check(model, batch, current.parameters);
    let width = model.features + usize::from(model.bias);
    let mut tally = Tally::default();
    let Workspace {
        row,
        margins: residual,
        previous: other,
        gradient,
    } = workspace;
    let row = &mut row[..width];
    if model.bias {
        row[model.features] = 1.0;
    }
    for start in (0..batch.selection.len()).step_by(BLOCK_ROWS) {
        gradient.fill(0.0);
        for position in start..(start + BLOCK_ROWS).min(batch.selection.len()) {
            let index = row_at(&batch.selection, position);
            load_row(batch.rows, index, &mut row[..model.features]);
            let target = target(batch.targets, index);
            let at = |point: &Point<'_>, out: &mut [f64]| {
                margins(row, point.parameters, out);
                if let Some(perturbation) = perturbation {
                    let shifts = &perturbation.shifts[position * model.outputs..];
                    out.iter_mut()
                        .zip(shifts)
                        .for_each(|(margin, &shift)| *margin += f64::from(shift));
                }
                let finite = out.iter().all(|margin| margin.is_finite());
                let label = match target {
                    Target::Class(_) => true,
                    Target::Value(value) => value.is_finite(),
                };
                if !(finite && label) {
                    return Err(NonFiniteGradient { row: index });
                }
                model.loss.residual(out, target);
                out.iter_mut().for_each(|r| *r *= f64::from(point.coefficient));
                Ok(())
            };
            at(&current, residual)?;
            if let Some(previous) = &previous {
                at(previous, other)?;
                residual.iter_mut().zip(other.iter()).for_each(|(r, o)| *r -= o);
            }
            let mut factor = 1.0;
            if let Clip::Bounded { norm, clip_norm } = clip {
                let norms = batch.norms.expect("a bounded clip needs the rows' norms");
                assert_eq!(norms.norm, norm, "norms of another kind than the clip's");
                let length = reference::norm(residual, norm) * f64::from(norms.values[index]);
                if length > f64::from(clip_norm) {
                    factor = f64::from(clip_norm) / length * clipping::ROUNDED_DOWN;
                    tally.clipped += 1;
                }
            }
            if let Some(perturbation) = perturbation {
                factor *= f64::from(perturbation.weights[position]);
            }
            for (r, gradient) in residual.iter().zip(gradient.chunks_exact_mut(width)) {
                let coefficient = (r * factor) as f32;
                if !coefficient.is_finite() {
                    return Err(NonFiniteGradient { row: index });
                }
                gradient
                    .iter_mut()
                    .zip(row.iter())
                    .for_each(|(g, &a)| *g = coefficient.mul_add(a, *g));
            }
            tally.rows += 1;
        }
        sum.iter_mut()
            .zip(gradient.iter())
            .for_each(|(s, &g)| *s += f64::from(g));
    }
    Ok(tally)
}

/// Loss and accuracy of a batch at `parameters`. Softmax predicts the first class of largest margin; the logistic and
/// hinge losses predict +1 where the margin is at least 0.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn evaluate(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    workspace: &mut Workspace,
) -> Result<Evaluation, NonFiniteGradient> {
    check(model, batch, parameters);
    let width = model.features + usize::from(model.bias);
    let row = &mut workspace.row[..width];
    if model.bias {
        row[model.features] = 1.0;
    }
    let mut evaluation = Evaluation::default();
    for position in 0..batch.selection.len() {
        let index = row_at(&batch.selection, position);
        load_row(batch.rows, index, &mut row[..model.features]);
        let u = &mut workspace.margins;
        margins(row, parameters, u);
        let target = target(batch.targets, index);
        let loss = model.loss.value(u, target);
        if !loss.is_finite() {
            return Err(NonFiniteGradient { row: index });
        }
        evaluation.loss += loss;
        evaluation.rows += 1;
        evaluation.correct += usize::from(match (model.loss, target) {
            (Loss::Softmax, Target::Class(class)) => {
                (0..u.len()).rev().max_by(|&i, &j| u[i].total_cmp(&u[j])) == Some(class)
            }
            (Loss::Logistic | Loss::Hinge, Target::Value(y)) => (u[0] >= 0.0) == (y >= 0.0),
            _ => false,
        });
    }
    Ok(evaluation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::F32Rows;

    #[test]
    fn a_small_softmax_batch_agrees_with_the_reference() {
        let model = LinearModel {
            features: 19,
            outputs: 3,
            bias: true,
            loss: Loss::Softmax,
        };
        let values: Vec<f32> = (0..19 * 7).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
        let parameters: Vec<f32> = (0..60).map(|i| ((i * 53 % 97) as f32 - 48.0) / 90.0).collect();
        let rows = Rows::F32(F32Rows {
            values: &values,
            columns: 19,
        });
        let norms = row_norms(rows, true, Norm::L2).expect("finite rows");
        let classes = [0, 1, 2, 1, 0, 2, 2];
        let batch = Batch {
            rows,
            targets: Targets::Classes(&classes),
            norms: Some(&norms),
            selection: Selection::Indices(&[6, 0, 3, 3]),
        };
        let clip = Clip::Bounded {
            norm: Norm::L2,
            clip_norm: 2.0,
        };
        let mut sum = vec![0.0; model.parameters()];
        let mut workspace = Workspace::new(&model);
        let tally = accumulate_gradients(&model, &batch, &parameters, clip, &mut sum, &mut workspace).expect("finite");
        assert_eq!(tally.rows, 4);
        let point = Point {
            coefficient: 1.0,
            parameters: &parameters,
        };
        let expected = reference::sum_of_differences(&model, &batch, point, None, clip);
        for (found, expected) in sum.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}

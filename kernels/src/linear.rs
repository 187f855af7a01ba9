//! Fused gradients of linear models: margins, residuals, closed-form per-example norms, clip factors and the sum of
//! clipped gradients in one pass over a block of rows.
//!
//! A per-example gradient of a linear model is of rank one, `g_i = r_i ⊗ a_i`, so `‖g_i‖ = ‖r_i‖·‖a_i‖` for the L2 and
//! the L1 norm alike, and clipping needs no materialised per-example gradient.

use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::Loss;

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
pub struct Workspace {}

impl Workspace {
    /// Scratch for batches of `model`.
    pub fn new(_model: &LinearModel) -> Self {
        todo!()
    }
}

/// Norms of all rows (bias included), rounded up; a non-finite feature is an error that names its row.
///
/// # Errors
/// A row with a NaN or infinite feature.
pub fn row_norms(_rows: Rows<'_>, _bias: bool, _norm: Norm) -> Result<RowNorms, NonFiniteGradient> {
    todo!()
}

/// `sum += Σ_i clip(∇f(x; d_i))`, f32 inside blocks of at most 128 rows, f64 across blocks.
///
/// # Errors
/// A row whose gradient is not finite; `sum` is then unspecified.
pub fn accumulate_gradients(
    _model: &LinearModel,
    _batch: &Batch<'_>,
    _parameters: &[f32],
    _clip: Clip,
    _sum: &mut [f64],
    _workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    todo!()
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference, rows read once.
///
/// # Errors
/// As [`accumulate_gradients`].
pub fn accumulate_differences(
    _model: &LinearModel,
    _batch: &Batch<'_>,
    _current: Point<'_>,
    _previous: Point<'_>,
    _clip: Clip,
    _sum: &mut [f64],
    _workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    todo!()
}

/// `sum += Σ_b w_b · clip(residual(W·a_b + shift_b) ⊗ a_b)` for ReSQue.
///
/// # Errors
/// As [`accumulate_gradients`].
pub fn accumulate_perturbed_gradients(
    _model: &LinearModel,
    _batch: &Batch<'_>,
    _parameters: &[f32],
    _perturbation: Perturbation<'_>,
    _clip: Clip,
    _sum: &mut [f64],
    _workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    todo!()
}

/// Loss and accuracy of a batch at `parameters`.
///
/// # Errors
/// As [`accumulate_gradients`].
pub fn evaluate(
    _model: &LinearModel,
    _batch: &Batch<'_>,
    _parameters: &[f32],
    _workspace: &mut Workspace,
) -> Result<Evaluation, NonFiniteGradient> {
    todo!()
}

//! Linear models, their batches, and what a pass over a batch returns.

use std::fmt::{self, Debug};

use super::unit_rows::UnitRows;
use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::{Loss, TargetKind};

/// Shape and loss of a linear model. Parameters are row-major `[outputs, features + bias]`, bias last in each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// Features a row, without the bias.
    pub features: usize,
    /// Outputs K: the number of classes for softmax, 1 for all other losses.
    pub outputs: usize,
    /// True if a constant feature 1 is appended to every row.
    pub bias: bool,
    /// The loss.
    pub loss: Loss,
}

impl LinearModel {
    /// Number of parameters, `K·(features + bias)`.
    pub fn parameters(&self) -> usize {
        self.outputs * self.width()
    }

    /// Parameters an output.
    pub(super) fn width(&self) -> usize {
        self.features + usize::from(self.bias)
    }
}

/// The clipping of per-example gradients (or differences) before they are summed.
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

impl Clip {
    /// A bound of the L2 norm.
    pub const fn l2(clip_norm: f32) -> Self {
        Clip::Bounded { norm: Norm::L2, clip_norm }
    }

    /// A bound of the L1 norm.
    pub const fn l1(clip_norm: f32) -> Self {
        Clip::Bounded { norm: Norm::L1, clip_norm }
    }
}

/// Norms of rows, bias included, rounded up: what clipping multiplies with the residual's norm.
#[derive(Clone, Debug)]
pub struct RowNorms {
    /// The norm.
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
    /// The rows to read; where there are units, the units.
    pub selection: Selection<'a>,
    /// The units of the rows, if their contributions are those of units.
    pub units: Option<UnitRows<'a>>,
}

impl<'a> Batch<'a> {
    /// Rows of the same matrix, each by itself.
    pub(super) fn of_rows<'b>(&self, selection: Selection<'b>) -> Batch<'b>
    where
        'a: 'b,
    {
        Batch { rows: self.rows, targets: self.targets, norms: self.norms, selection, units: None }
    }
}

/// A coefficient and the parameters at which a gradient is taken: one side of `a·∇f(x) − b·∇f(x′)`.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The factor of the gradient.
    pub coefficient: f32,
    /// The parameters.
    pub parameters: &'a [f32],
}

impl<'a> Point<'a> {
    /// The parameters with coefficient 1.
    pub fn at(parameters: &'a [f32]) -> Self {
        Point { coefficient: 1.0, parameters }
    }
}

/// Counts of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows read, or units.
    pub rows: usize,
    /// Those whose gradient was longer than the clip norm. A statistic of the data: diagnostics only.
    pub clipped: usize,
}

/// A gradient that is NaN or infinite. Neither message nor `Debug` says of which row: a release may show them.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gradient of a row is not finite (NaN or infinite features, or parameters that diverged)")]
pub struct NonFiniteGradient {
    /// The row of the matrix.
    pub row: usize,
}

impl Debug for NonFiniteGradient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NonFiniteGradient").finish_non_exhaustive()
    }
}

/// Loss and accuracy of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Σ loss over the rows.
    pub loss: f64,
    /// Rows predicted correctly: arg max for softmax, sign for ±1 targets; 0 for regression losses.
    pub correct: usize,
    /// Rows read, without null ones.
    pub rows: usize,
}

pub(super) fn check_parameters(model: &LinearModel, parameters: &[f32]) {
    assert_eq!(parameters.len(), model.parameters(), "parameters given (left) and of the model (right)");
}

pub(super) fn check(model: &LinearModel, batch: &Batch<'_>, parameters: &[f32]) {
    check_parameters(model, parameters);
    check_batch(model, batch);
}

pub(super) fn check_batch(model: &LinearModel, batch: &Batch<'_>) {
    let rows = batch.rows.len();
    assert_eq!(batch.rows.columns(), model.features, "columns of the rows (left) and features of the model (right)");
    assert_eq!(batch.targets.len(), rows, "targets (left) and rows (right)");
    let loss = model.loss;
    match (loss.targets(), batch.targets) {
        (TargetKind::Classes, Targets::Classes(_)) => assert!(model.outputs >= 2, "{loss} needs at least two outputs"),
        (TargetKind::Classes, Targets::Values(_)) => panic!("{loss} needs classes, found real targets"),
        (_, Targets::Classes(_)) => panic!("{loss} needs real targets, found classes"),
        (_, Targets::Values(_)) => assert_eq!(model.outputs, 1, "outputs of {loss} (left)"),
    }
    let selectable = batch.units.map_or(rows, |units| {
        assert!(units.offsets.last() == Some(&rows), "rows of the units (left) and rows (right)");
        units.len()
    });
    match &batch.selection {
        Selection::Range(range) => assert!(range.end <= selectable, "rows beyond those of the matrix"),
        Selection::Indices(indices) => {
            let greatest = indices.iter().copied().max();
            assert!(greatest.is_none_or(|row| (row as usize) < selectable), "a row beyond those of the matrix");
        }
    }
}

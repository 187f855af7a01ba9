//! What is minimised: the mean loss of a linear model over a data set, plus an optional quadratic regulariser.

use std::sync::{Arc, OnceLock};

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::{self, Batch, LinearModel, NonFiniteGradient, RowNorms};
use rounds_kernels::loss::Loss;

use super::{Dataset, Labels};
use crate::oracle::partition;

/// `F(x) = (1/n) Σ_i φ(W a_i; y_i) + (λ/2)‖x‖²` over a data set, with the row norms that clipping needs.
///
/// The regulariser is independent of the data: optimisers add `λ·x` after clipping and noise, and it never enters a
/// sensitivity.
pub struct Problem {
    dataset: Arc<Dataset>,
    model: LinearModel,
    regularization: f64,
    l2_norms: RowNorms,
    l1_norms: OnceLock<RowNorms>,
}

/// A data set and a loss that do not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Softmax needs classes, the other losses real targets.
    #[error(
        "{loss:?} loss needs {needed}, and data set '{dataset}' has {found}: choose another loss or another data set"
    )]
    Targets {
        /// The loss.
        loss: Loss,
        /// The data set.
        dataset: String,
        /// What the loss needs.
        needed: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// A regularisation that is negative or not finite.
    #[error("a regularisation of {0} is not a finite number of at least 0")]
    Regularization(f64),
    /// A row that is not finite.
    #[error(transparent)]
    Row(#[from] NonFiniteGradient),
}

impl Problem {
    /// The problem of fitting a linear model with `loss` to `dataset`.
    ///
    /// # Errors
    /// A loss whose kind of target the data set does not have; a regularisation below 0 or not finite.
    pub fn new(dataset: Arc<Dataset>, loss: Loss, bias: bool, regularization: f64) -> Result<Self, ProblemError> {
        if !(regularization >= 0.0 && regularization.is_finite()) {
            return Err(ProblemError::Regularization(regularization));
        }
        let outputs = match (loss, dataset.labels()) {
            (Loss::Softmax, Labels::Classes { classes, .. }) => *classes,
            (Loss::Softmax, Labels::Values(_)) => {
                return Err(ProblemError::Targets {
                    loss,
                    dataset: dataset.name().to_owned(),
                    needed: "class labels",
                    found: "real targets",
                });
            }
            (_, Labels::Classes { .. }) => {
                return Err(ProblemError::Targets {
                    loss,
                    dataset: dataset.name().to_owned(),
                    needed: "real (or ±1) targets",
                    found: "class labels",
                });
            }
            (_, Labels::Values(_)) => 1,
        };
        let model = LinearModel {
            features: dataset.columns(),
            outputs,
            bias,
            loss,
        };
        let l2_norms = linear::row_norms(dataset.rows(), bias, Norm::L2)?;
        Ok(Self {
            dataset,
            model,
            regularization,
            l2_norms,
            l1_norms: OnceLock::new(),
        })
    }

    /// The data.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Shape and loss.
    pub fn model(&self) -> &LinearModel {
        &self.model
    }

    /// λ of the regulariser.
    pub fn regularization(&self) -> f64 {
        self.regularization
    }

    /// Number of examples n.
    pub fn rows(&self) -> usize {
        self.dataset.len()
    }

    /// Number of parameters p.
    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// Mean stored features of a row: all of them for dense rows.
    fn stored_per_row(&self) -> f64 {
        let features = self.dataset.features();
        features.stored() as f64 / self.rows().max(1) as f64
    }

    /// Floating-point operations of one gradient query: a multiplication and an addition for every parameter that the
    /// row touches, in the margins and again in the gradient.
    pub fn flops_per_row(&self) -> f64 {
        4.0 * self.model.outputs as f64 * (self.stored_per_row() + f64::from(u8::from(self.model.bias)))
    }

    /// Bytes of features of one row.
    pub fn bytes_per_row(&self) -> f64 {
        self.dataset.features().bytes() as f64 / self.rows().max(1) as f64
    }

    /// What a row costs, for the partition of batches.
    pub fn row_cycles(&self) -> f64 {
        partition::row_cycles(self.flops_per_row(), self.bytes_per_row())
    }

    /// A batch for the kernels, with the norms that a clip in `norm` needs.
    pub(crate) fn batch<'b>(&'b self, selection: Selection<'b>, norm: Option<Norm>) -> Batch<'b> {
        let norms = norm.map(|norm| self.row_norms(norm));
        Batch {
            rows: self.dataset.rows(),
            targets: self.dataset.targets(),
            norms,
            selection,
        }
    }

    /// Row norms (bias included, rounded up); the L1 norms are computed when first asked for.
    pub fn row_norms(&self, norm: Norm) -> &RowNorms {
        match norm {
            Norm::L2 => &self.l2_norms,
            Norm::L1 => self.l1_norms.get_or_init(|| {
                linear::row_norms(self.dataset.rows(), self.model.bias, Norm::L1)
                    .expect("the rows were checked when their L2 norms were computed")
            }),
        }
    }
}

//! The public part of a problem: everything that a plan may be computed from.

use std::sync::Arc;

use rounds_kernels::features::Norm;
use rounds_kernels::linear::{self, FeatureGrid, LinearModel, NonFiniteGradient, Precision};
use rounds_kernels::loss::{Loss, TargetKind};
use rounds_kernels::network::{Network, NetworkError};

use super::dataset::{Dataset, byte_bound, round_up};
use super::domain::{Domain, Relation, Storage};
use super::encoding::BYTE_SCALE;
use super::units::UnitDeclaration;
use crate::parallel::partition;

/// A data set and a loss that do not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum ProblemError {
    /// Softmax needs classes, the other losses real targets.
    #[error(
        "{loss} loss needs {needed}, and data set '{dataset}' has {found}: choose another loss or another data set"
    )]
    Targets { loss: Loss, dataset: String, needed: &'static str, found: &'static str },
    /// A single class, which leaves nothing to tell apart.
    #[error(
        "all rows of data set '{dataset}' have one class, and {loss} loss tells at least two apart: give rows of another class, \
         or declare all classes (--classes A,B)"
    )]
    OneClass { loss: Loss, dataset: String },
    /// A regularisation that is negative or not finite.
    #[error("a regularisation of {0} is not a finite number of at least 0")]
    Regularization(f64),
    /// Rows that are scaled so far that their norms could overflow.
    #[error("rows may be {0:e} long (L1), which f32 arithmetic cannot take: scale the features less")]
    RowBound(f64),
    /// Units whose rows ranks would share out.
    #[error("rows of units (`unit`) are not shared out over ranks: run one process, with as many threads")]
    SharedUnits,
    /// A text that is no network for these rows.
    #[error("`model-kind`: {0}")]
    Network(#[from] NetworkError),
    /// Rows that no network reads.
    #[error(
        "`model-kind`: a network reads images one by one, and no {0}: leave it out, or give dense rows in one process"
    )]
    NetworkRows(&'static str),
    /// A row that is not finite.
    #[error(transparent)]
    Row(#[from] NonFiniteGradient),
}

/// Stored values that a sparse row is taken to have where batches are partitioned: the true number is private.
const SPARSE_ROW_VALUES: usize = 64;

/// The largest margin of a row of a declared domain, 2⁶⁰.
const MOST_MARGIN: f64 = 1_152_921_504_606_846_976.0;

/// Under add/remove a data set of the domain has at most this many times the public number of rows.
pub const MOST_ROWS_PER_PUBLIC_ROW: usize = 4;

/// Shape, loss, relation and bounds of a problem, without its rows. Batch sizes, rates, numbers of rounds, divisors, steps,
/// noise and the split of batches are functions of this and of the settings: constructors of optimisers take nothing else,
/// so no row can change a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicProblem {
    name: String,
    relation: Relation,
    rows: usize,
    model: LinearModel,
    network: Option<Arc<Network>>,
    regularization: f64,
    storage: Storage,
    bounds: [Option<f64>; 2],
    is_short: bool,
    domain: Option<Arc<Domain>>,
    feature_grid: Option<FeatureGrid>,
    unit: Option<UnitDeclaration>,
    pub(super) measured: Measured,
}

/// Constants that were read off the rows. A plan on a problem with one of them claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The largest L2 norm of a row, bias included.
    pub longest_row: Option<f64>,
    /// The largest eigenvalue of `AᵀA/n`, bias included.
    pub second_moment: Option<f64>,
}

impl PublicProblem {
    /// The public part of the problem of fitting a linear model with `loss` and an intercept to a data set of `domain` with
    /// `rows` rows. Under add/remove `rows` is not read.
    ///
    /// # Errors
    /// A loss that does not fit the label; a regularisation below 0 or not finite.
    pub fn of_domain(
        name: impl Into<String>,
        domain: &Arc<Domain>,
        rows: usize,
        loss: Loss,
        regularization: f64,
    ) -> Result<Self, ProblemError> {
        let name = name.into();
        let classes = domain.classes().filter(|_| loss.targets() == TargetKind::Classes);
        let outputs = outputs(&name, loss, classes)?;
        Ok(Self {
            relation: domain.relation,
            rows: domain.relation.public_rows(rows),
            model: LinearModel { features: domain.features(), outputs, bias: true, loss },
            network: None,
            regularization: checked_regularization(regularization)?,
            storage: domain.storage,
            // As of loaded rows.
            bounds: [Norm::L1, Norm::L2].map(|norm| {
                Some(match domain.storage {
                    Storage::Bytes => byte_bound(BYTE_SCALE, domain.features(), norm),
                    Storage::Dense | Storage::Sparse => round_up(domain.row_bound(norm)),
                })
            }),
            is_short: false,
            feature_grid: Some(match domain.storage {
                Storage::Bytes => FeatureGrid::bytes(BYTE_SCALE),
                Storage::Dense | Storage::Sparse => FeatureGrid::fixed_point(1.0),
            }),
            unit: domain.unit.clone(),
            domain: Some(Arc::clone(domain)),
            measured: Measured::default(),
            name,
        })
    }

    /// The public part of a problem on `dataset`: of its domain where it has one, else of its shape, which then covers no
    /// claim.
    pub(super) fn of_dataset(
        dataset: &Dataset,
        loss: Loss,
        bias: bool,
        regularization: f64,
    ) -> Result<Self, ProblemError> {
        let outputs = outputs(dataset.name(), loss, dataset.classes())?;
        let bounds = [Norm::L1, Norm::L2].map(|norm| dataset.public_bound(norm));
        if dataset.domain().is_some()
            && let Some(bound) = bounds[0].filter(|bound| !(*bound <= MOST_MARGIN))
        {
            return Err(ProblemError::RowBound(bound));
        }
        let relation = dataset.domain().map_or(Relation::ZeroOut, |domain| domain.relation);
        Ok(Self {
            name: dataset.name().to_owned(),
            relation,
            rows: relation.public_rows(dataset.records()),
            model: LinearModel { features: dataset.columns(), outputs, bias, loss },
            network: None,
            regularization: checked_regularization(regularization)?,
            storage: dataset.features().storage(),
            bounds,
            is_short: dataset.is_short(),
            feature_grid: dataset.feature_grid(),
            domain: dataset.domain().cloned(),
            unit: dataset.units().map(|units| units.declaration().clone()),
            measured: Measured::default(),
        })
    }

    /// The same problem on so many rows, which are not read under add/remove.
    #[must_use]
    pub fn with_rows(self, rows: usize) -> Self {
        Self { rows: self.relation.public_rows(rows), ..self }
    }

    /// The same problem with another regularisation.
    ///
    /// # Errors
    /// One below 0 or not finite.
    pub fn with_regularization(self, regularization: f64) -> Result<Self, ProblemError> {
        Ok(Self { regularization: checked_regularization(regularization)?, ..self })
    }

    /// The same problem for a network ([`Network::new`]) in place of a linear model.
    ///
    /// # Errors
    /// A text that is no network for rows of this shape; rows that no network reads.
    pub fn with_network(self, text: &str) -> Result<Self, ProblemError> {
        if self.storage == Storage::Sparse {
            return Err(ProblemError::NetworkRows("sparse rows"));
        }
        if self.unit.is_some() {
            return Err(ProblemError::NetworkRows("units of several rows"));
        }
        let network = Network::new(text, self.model.features, self.model.outputs)?;
        Ok(Self { network: Some(Arc::new(network)), ..self })
    }

    /// The data set's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The neighbouring relation that the domain declares.
    pub fn relation(&self) -> Relation {
        self.relation
    }

    /// The same problem under another relation.
    pub(super) fn set_relation(&mut self, relation: Relation, rows: usize) {
        self.relation = relation;
        self.rows = relation.public_rows(rows);
    }

    /// The unit of privacy, where it is not a row. Then `rows` of plans, batches and relations are units.
    pub fn unit(&self) -> Option<&UnitDeclaration> {
        self.unit.as_ref()
    }

    /// The number of rows, or units, that plans are computed from: n, or the declared N under add/remove.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The most rows that a data set of the domain has.
    pub fn most_rows(&self) -> usize {
        match self.relation {
            Relation::ZeroOut | Relation::ReplaceOne => self.rows,
            Relation::AddRemove { public_rows } => public_rows.saturating_mul(MOST_ROWS_PER_PUBLIC_ROW),
        }
    }

    /// Shape and loss of the linear model; of a network its features, classes and loss.
    pub fn model(&self) -> &LinearModel {
        &self.model
    }

    /// The network, if the model is one.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.as_ref()
    }

    /// λ of the regulariser.
    pub fn regularization(&self) -> f64 {
        self.regularization
    }

    /// Number of parameters p.
    pub fn parameters(&self) -> usize {
        self.network.as_ref().map_or_else(|| self.model.parameters(), |network| network.parameters())
    }

    /// The smallest public bound on the norm of every row, bias excluded.
    pub fn row_bound(&self, norm: Norm) -> Option<f64> {
        self.bounds[usize::from(norm == Norm::L2)]
    }

    /// True where that bound on the L2 norm is at most ¾ of the one that bounds of the features alone imply.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// The largest magnitude of a parameter at which queries are answered: `2⁶⁰/(A₁ + 1)` with the public L1 bound A₁ of a
    /// row. Margins of rows of the domain are then at most 2⁶⁰ and no f32 overflows, whatever a row holds. Infinite without a
    /// declared domain.
    pub fn most_weight(&self) -> f32 {
        match (&self.domain, self.row_bound(Norm::L1)) {
            (Some(_), Some(bound)) => (MOST_MARGIN / (bound + 1.0)) as f32,
            _ => f32::INFINITY,
        }
    }

    /// The declared domain.
    pub fn domain(&self) -> Option<&Arc<Domain>> {
        self.domain.as_ref()
    }

    /// Constants that were read off the rows.
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// The reason for which a plan on this problem claims nothing, if there is one.
    pub fn unclaimable(&self) -> Option<&'static str> {
        match &self.domain {
            None => Some("the data have no declared domain: shapes, scales and classes were read off the rows"),
            Some(domain) if domain.is_draft() => Some(
                "the domain was read from the rows, and no person has confirmed it: check every line of its schema, and set \
                     drafted = false",
            ),
            Some(domain) if domain.unit != self.unit => Some(
                "the unit of the rows is not the one that their domain declares: name it in the schema ([rows] unit)",
            ),
            Some(_) if self.measured != Measured::default() => Some("a constant was read off the rows"),
            Some(_) => None,
        }
    }

    /// True where rows are summed as integers on a processor with such kernels: rows of bytes, and dense f32 rows of a declared domain,
    /// for a model that suits them ([`linear::are_integers_for`]).
    pub fn suits_integers(&self) -> bool {
        let has_integers = match self.storage {
            Storage::Bytes => true,
            Storage::Dense => self.feature_grid.is_some(),
            Storage::Sparse => false,
        };
        has_integers && self.network.is_none() && linear::are_integers_for(&self.model)
    }

    /// True where they are so here.
    pub fn is_in_integers(&self) -> bool {
        self.suits_integers() && linear::has_integer_kernels_for(&self.model)
    }

    /// Operations on integers of a gradient query for one row; none where it takes floating point.
    pub fn integer_operations(&self, precision: Precision) -> Option<f64> {
        let planes = if self.is_in_planes() { 2.0 } else { 1.0 };
        self.is_in_integers().then(|| planes * linear::integer_operations(&self.model, precision))
    }

    /// True where gradient queries read f32 rows as integers in two planes of bytes.
    pub(super) fn is_in_planes(&self) -> bool {
        self.storage == Storage::Dense && self.is_in_integers()
    }

    /// The public grid on which features lie; none without a declared domain.
    pub fn feature_grid(&self) -> Option<FeatureGrid> {
        self.feature_grid
    }

    /// The cost of a row, for the partition of batches.
    pub fn row_cycles(&self) -> f64 {
        if let Some(network) = &self.network {
            return partition::row_cycles(network.flops(), 0.0);
        }
        let (values, bytes) = match self.storage {
            Storage::Dense if self.is_in_planes() => (self.model.features, 2 * self.model.features),
            Storage::Dense => (self.model.features, 4 * self.model.features),
            Storage::Bytes => (self.model.features, self.model.features),
            Storage::Sparse => {
                let values = self.model.features.min(SPARSE_ROW_VALUES);
                (values, 8 * values)
            }
        };
        partition::row_cycles(flops_per_row(&self.model, values as f64), bytes as f64)
    }

    /// Leaves of a batch of `rows` rows.
    pub fn leaves(&self, rows: usize) -> usize {
        partition::leaves(rows, self.row_cycles(), self.leaf_rows())
    }

    /// Pieces of each leaf of such a batch on so many threads, where gradient queries read rows as integers; else 1.
    pub fn pieces(&self, rows: usize, threads: usize) -> usize {
        let leaves = self.leaves(rows);
        if self.is_in_integers() { partition::pieces(rows, leaves, self.leaf_rows(), threads) } else { 1 }
    }

    /// The cost of a leaf beside its rows, in rows, times [`partition::LEAVES_MARGIN`].
    pub fn leaf_rows(&self) -> f64 {
        match &self.network {
            Some(_) => partition::LEAF_ROWS_OF_NETWORKS,
            None if self.is_in_integers() => partition::LEAF_ROWS_OF_INTEGERS,
            None => partition::LEAF_ROWS,
        }
    }
}

/// A multiplication and an addition for every parameter that a row of `values` values touches, in the margins and again in
/// the gradient.
pub(super) fn flops_per_row(model: &LinearModel, values: f64) -> f64 {
    4.0 * model.outputs as f64 * (values + f64::from(u8::from(model.bias)))
}

/// K for softmax, 1 for the other losses.
fn outputs(name: &str, loss: Loss, classes: Option<usize>) -> Result<usize, ProblemError> {
    let refuse = |needed, found| ProblemError::Targets { loss, dataset: name.to_owned(), needed, found };
    match (loss.targets(), classes) {
        (TargetKind::Classes, Some(classes)) if classes < 2 => {
            Err(ProblemError::OneClass { loss, dataset: name.to_owned() })
        }
        (TargetKind::Classes, Some(classes)) => Ok(classes),
        (TargetKind::Classes, None) => Err(refuse("class labels", "real targets")),
        (_, Some(_)) => Err(refuse("real (or ±1) targets", "class labels")),
        (_, None) => Ok(1),
    }
}

fn checked_regularization(regularization: f64) -> Result<f64, ProblemError> {
    if regularization >= 0.0 && regularization.is_finite() {
        Ok(regularization)
    } else {
        Err(ProblemError::Regularization(regularization))
    }
}

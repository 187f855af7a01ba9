//! Reweighted stochastic queries (ReSQue) and what is built of them: parallel and private stochastic convex optimisation
//! with few adaptive rounds (paper 002, specification 7).
//!
//! | idea | file | source |
//! | --- | --- | --- |
//! | weights, moments, projected draws | [`estimator`] | [002 Definition 2, Lemmas 1–2] |
//! | closed-form Gaussian convolutions | [`rounds_kernels::loss::Loss::convolved`] | specification 1 |
//! | rounds of queries at perturbed points, counted | [`pool`], [`black_box`] | [002 Problem 1] |
//! | pools on a problem | [`projected`] | specification 7.1 |
//! | functions with known optimum | [`functions`] | |
//! | ball subproblems in one round | [`ball`], [`epoch_sgd`], [`accelerated_sa`] | [002 Algorithms 1–2] |
//! | bias reduction | [`multilevel`] | [002 Algorithm 6] |
//! | ball acceleration | [`acceleration`], [`bisection_free`] | [002 Propositions 1–2] |
//! | the whole parallel method | [`parallel`] | [002 Theorems 1–2] |
//! | localisation | [`localization`] | [002 Proposition 11] |
//! | baselines | [`subgradient`], [`randomized_smoothing`], [`cutting_plane`] | [002 Table I] |
//!
//! Iterates near a centre x̄ are kept as offsets v = x − x̄ in f32: the balls are far smaller than the domain, and x̄ + v
//! would lose v's digits. Centres and outer iterates are f64.

use rounds_kernels::linear::NonFiniteGradient;

use crate::noise::NoiseError;
use crate::oracle::QueryError;

mod accelerated_sa;
pub(crate) mod acceleration;
mod ball;
mod bisection_free;
pub mod black_box;
pub mod cutting_plane;
mod epoch_sgd;
mod estimator;
pub mod functions;
pub(crate) mod geometry;
pub(crate) mod localization;
mod multilevel;
pub mod parallel;
pub mod pool;
pub mod projected;
pub mod randomized_smoothing;
pub mod subgradient;

/// An unsolvable problem, with the reason. Points, weights and samples follow from rows before noise is added: no message holds one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResqueError {
    /// A ball that is larger than the domain.
    #[error("ball radius r = {ball} is larger than the domain's radius R = {domain}: choose r ≤ R, or a smaller ε")]
    BallLargerThanDomain {
        /// r.
        ball: f64,
        /// R.
        domain: f64,
    },
    /// A quantity that must be positive.
    #[error("{quantity} = {value}: a finite number above 0 is needed")]
    NotPositive {
        /// Its name.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// A weight beyond the range of f64.
    #[error("a ReSQue weight overflows: the point is far outside the ball ‖x − x̄‖ ≤ ρ; shrink the step")]
    WeightOverflow,
    /// A point outside the ball in which the weights' moments are bounded.
    #[error("a point lies outside the ball of validity ρ = {radius:e} around the centre")]
    OutsideValidity {
        /// ρ.
        radius: f64,
    },
    /// Units of several rows.
    #[error(
        "reweighted queries weigh every row by itself, and a unit (`unit`) contributes all its rows as one: choose a first-order \
         algorithm, such as dp-sgd, or declare no unit"
    )]
    Units,
    /// A loss of several margins.
    #[error("the softmax loss has several margins: a black-box function takes losses of one margin")]
    SeveralMargins,
    /// A gradient that is not finite.
    #[error("a query of the round returned a gradient that is not finite: check the data, or shrink the radius")]
    NotFinite,
    /// More samples than the round fetched.
    #[error("samples {start}..{end} were asked of a pool of {fetched}: a pool serves what its one round queried")]
    PoolExhausted {
        /// First sample.
        start: usize,
        /// One past the last.
        end: usize,
        /// Samples there are.
        fetched: usize,
    },
    /// Reweighting where queries are made at the point itself.
    #[error("a pool fetched without smoothing (ρ = 0) holds gradients at its centre only")]
    NotReweightable,
    /// A round that would need more queries than memory or patience allow.
    #[error("a round of {needed:e} queries is above the limit of {limit:e}: raise ε or λ, or use smaller constants")]
    TooManyQueries {
        /// Queries.
        needed: f64,
        /// The limit.
        limit: f64,
    },
    /// The data or an oracle refused.
    #[error(transparent)]
    Gradient(#[from] QueryError),
    /// The noise mechanism of a private solve refused.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl From<NonFiniteGradient> for ResqueError {
    fn from(source: NonFiniteGradient) -> Self {
        Self::Gradient(source.into())
    }
}

/// Result of a method of this module.
pub type Result<T, E = ResqueError> = std::result::Result<T, E>;

/// `value` if it is finite and above 0.
pub(crate) fn positive(quantity: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() { Ok(value) } else { not_positive(quantity, value) }
}

/// The refusal of `value`.
pub(crate) fn not_positive<T>(quantity: &'static str, value: f64) -> Result<T> {
    Err(ResqueError::NotPositive { quantity, value })
}

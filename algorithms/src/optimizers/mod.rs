//! Optimisers: state machines whose `advance` is exactly one adaptive round. One file a variant.
//!
//! An optimiser never touches data, threads or a clock: it asks the [`Oracle`], which counts. What it guarantees it
//! states as data (a [`Mechanism`]); accountants read that and nothing else.

pub mod accelerated_plan;
pub mod accelerated_srg;
pub mod cutting_plane;
pub mod gradient_descent;
pub mod heavy_ball;
pub mod matrix_factorization;
pub mod momentum;
pub mod multistage;
pub mod nesterov;
pub mod phased_sgd;
pub mod plan;
pub mod randomized_smoothing;
pub mod resque_parallel;
pub mod resque_private;
pub mod settings;
pub mod sgd;
pub mod srg_matrix_factorization;
pub mod unaccelerated_srg;

pub use settings::{Averaging, Budget, NoiseKind, SamplingKind, Settings, SettingsError};

use crate::noise::NoiseError;
use crate::oracle::{Oracle, QueryError};
use crate::privacy::Mechanism;
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// A round that could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// A query without an answer.
    #[error("round {round}: {source}")]
    Gradient {
        /// The round, 0-based.
        round: u64,
        /// Why.
        source: QueryError,
    },
    /// The noise mechanism refused.
    #[error("round {round}: {source}")]
    Noise {
        /// The round, 0-based.
        round: u64,
        /// Why.
        source: NoiseError,
    },
    /// A pool of reweighted queries refused.
    #[error("round {round}: {source}")]
    Resque {
        /// The round, 0-based.
        round: u64,
        /// Why.
        source: crate::resque::ResqueError,
    },
    /// More rounds than planned (and accounted for).
    #[error("all {rounds} planned rounds are done: another one would not be covered by the privacy statement")]
    Finished {
        /// Rounds planned.
        rounds: u64,
    },
}

/// A constant outside what a theorem assumes, where `constants = practical` goes on: utility is then not proven. Privacy
/// never rests on these, since clipping is always on.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AssumptionWarning {
    /// β < 2MT.
    #[error(
        "beta = {beta} is below 2·M·T = {needed}: differences are not bounded by [000 Claim 4.2], and more of them are \
         clipped; --set constants=theory refuses this"
    )]
    SmallBeta {
        /// β.
        beta: f64,
        /// 2MT.
        needed: f64,
    },
    /// ζ > 1/2.
    #[error("zeta = {zeta} is above 1/2: the step as printed, outside the proof; --set zeta=0.5 is inside")]
    LargeZeta {
        /// ζ.
        zeta: f64,
    },
    /// B > √n in the constrained regime.
    #[error("batches of {batch_size} rows are above √n = {root:.0}: the constrained regime is proven up to there")]
    LargeBatch {
        /// B.
        batch_size: usize,
        /// √n.
        root: f64,
    },
}

/// A first-order method as a state machine.
pub trait Optimizer: Send {
    /// One adaptive round: one batch of gradient queries, its noise, one update.
    ///
    /// # Errors
    /// A gradient that is not finite, noise that is used up, a round past the planned ones. The state is then unusable.
    fn advance(&mut self, oracle: &mut Oracle<'_>) -> Result<(), RoundError>;

    /// Rounds planned: what the privacy statement covers.
    fn planned_rounds(&self) -> u64;

    /// The sampler that draws the batch of every round, where one does.
    fn batches(&self) -> Option<&Sampler> {
        None
    }

    /// Gradient queries of all planned rounds, where sampling does not make their number random.
    fn planned_queries(&self) -> Option<u64> {
        None
    }

    /// Which assumptions of its theorem a run leaves.
    fn warnings(&self) -> Vec<AssumptionWarning> {
        Vec::new()
    }

    /// Rounds done.
    fn completed_rounds(&self) -> u64;

    /// The parameters to use: the last iterate, or an average where the method says so.
    fn solution(&mut self) -> &[f32];

    /// What the whole run releases, for accountants; `None` for a method without noise.
    fn mechanism(&self) -> Option<Mechanism>;

    /// Visits what a checkpoint must hold.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

//! A first-order method as a state machine, and what ends its rounds.

use crate::noise::{NoiseError, PrivateNoise};
use crate::oracle::{Oracle, QueryError};
use crate::resque::ResqueError;
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// A step that could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// A query without an answer.
    #[error(transparent)]
    Gradient(#[from] QueryError),
    /// The noise mechanism refused.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A pool of reweighted queries refused.
    #[error(transparent)]
    Resque(#[from] ResqueError),
}

/// A round that could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The optimiser's step failed.
    #[error("round {round}: {source}")]
    Step {
        /// The round, 0-based.
        round: u64,
        /// The reason.
        source: StepError,
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
         clipped; constants=theory refuses this"
    )]
    SmallBeta {
        /// β.
        beta: f64,
        /// 2MT.
        needed: f64,
    },
    /// ζ > 1/2.
    #[error("zeta = {zeta} is above 1/2: the step as printed, outside the proof; zeta=0.5 is inside")]
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
    /// Iterates are not projected.
    #[error(
        "iterates are not projected, which the proof needs: give a public bound R on the norm of the minimiser, radius=R; \
         without one, noise may carry iterates anywhere"
    )]
    NoProjection,
}

/// A first-order method as a state machine. An [`Executor`](crate::executor::Executor) counts its rounds.
pub trait Optimizer: Send {
    /// Adaptive round `round` (0-based): one batch of gradient queries, its noise, one update. The phase
    /// [`Sample`](crate::oracle::Phase::Sample) has begun.
    ///
    /// # Errors
    /// A gradient that is not finite, noise that is used up. The state is then unusable.
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError>;

    /// The parameters to use: the last iterate, or an average where the method says so.
    fn solution(&mut self) -> &[f32];

    /// Visits what a checkpoint must hold beside the number of rounds done.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);

    /// The noise that it adds: what a run of it states.
    fn noise(&self) -> Option<&PrivateNoise> {
        None
    }

    /// The sampler that draws the batch of every round, where one does.
    fn batches(&self) -> Option<&Sampler> {
        None
    }
}

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

impl RoundError {
    /// True where the iterate is too large to be computed with: a fault of the settings or of chance, which another run may not have.
    /// It can follow from a row's own gradient, so only measurements ask; a release shows no difference.
    pub fn is_divergence(&self) -> bool {
        let Self::Step { source, .. } = self else { return false };
        match source {
            StepError::Gradient(error) | StepError::Resque(ResqueError::Gradient(error)) => {
                matches!(error, QueryError::Diverged | QueryError::Row(_))
            }
            StepError::Resque(error) => matches!(error, ResqueError::NotFinite | ResqueError::WeightOverflow),
            StepError::Noise(_) => false,
        }
    }
}

/// A constant outside what a theorem assumes, where `constants = practical` goes on: utility is then not proven. Privacy
/// never rests on these, since clipping is always on. Also work that a person may not expect, a function of public numbers.
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
    /// Rounds that outlast a minute.
    #[error(
        "{rounds} rounds, one after the other, take about {multiplications:.0e} multiplications, {minutes:.0} minutes at 4*10^9 a second, and up to \
         nine times as long where no point shows early that it is good enough; \
         fewer parameters (loss=logistic for two classes), a larger accuracy or a smaller batch-size take less",
        minutes = multiplications / 240e9
    )]
    Work {
        /// Multiplications of all rounds, about.
        multiplications: f64,
        /// T.
        rounds: u64,
    },
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

    /// The greatest weight of a term of its noisy sums.
    fn greatest_weight(&self) -> f32 {
        1.0
    }

    /// The sampler that draws the batch of every round, where one does.
    fn batches(&self) -> Option<&Sampler> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::iter::successors;

    use rounds_kernels::linear::NonFiniteGradient;
    use rounds_kernels::loss::Loss;
    use rounds_kernels::network::NetworkError;

    use super::*;
    use crate::problem::ProblemError;

    /// Errors of each variant. A new variant or field does not compile before it stands in the list.
    macro_rules! of_each_variant {
        ($kind:ty; $($variant:pat => $errors:expr,)*) => {{
            let _is_listed = |error: &$kind| match error { $($variant => (),)* };
            let mut all: Vec<$kind> = Vec::new();
            $(for error in $errors {
                assert!(matches!(error, $variant), "{error:?}");
                all.push(error);
            })*
            all
        }};
    }

    #[test]
    fn no_error_of_a_round_or_a_problem_shows_a_row() {
        // The number of a row; all others are of arguments and plans, and public.
        let row = || NonFiniteGradient { row: 31337 };
        let queries = || {
            of_each_variant! { QueryError;
                QueryError::Diverged => [QueryError::Diverged],
                QueryError::Lattice { rows: _ } => [QueryError::Lattice { rows: 4 }],
                QueryError::Order => [QueryError::Order],
                QueryError::Row(NonFiniteGradient { row: _ }) => [QueryError::Row(row())],
            }
        };
        let noises = || {
            of_each_variant! { NoiseError;
                NoiseError::OutOfOrder { asked: _, next: _ } => [NoiseError::OutOfOrder { asked: 2, next: 1 }],
                NoiseError::Exhausted { rounds: _ } => [NoiseError::Exhausted { rounds: 4 }],
                NoiseError::TooFine { unit: _, coarser: _ } => [NoiseError::TooFine { unit: 1e-9, coarser: 2.0 }],
            }
        };
        let solvers = of_each_variant! { ResqueError;
            ResqueError::BallLargerThanDomain { ball: _, domain: _ } =>
                [ResqueError::BallLargerThanDomain { ball: 2.0, domain: 1.0 }],
            ResqueError::NotPositive { quantity: _, value: _ } =>
                [ResqueError::NotPositive { quantity: "radius", value: -1.0 }],
            ResqueError::WeightOverflow => [ResqueError::WeightOverflow],
            ResqueError::OutsideValidity { radius: _ } => [ResqueError::OutsideValidity { radius: 1.0 }],
            ResqueError::Units => [ResqueError::Units],
            ResqueError::SeveralMargins => [ResqueError::SeveralMargins],
            ResqueError::NotFinite => [ResqueError::NotFinite],
            ResqueError::PoolExhausted { start: _, end: _, fetched: _ } =>
                [ResqueError::PoolExhausted { start: 1, end: 3, fetched: 2 }],
            ResqueError::NotReweightable => [ResqueError::NotReweightable],
            ResqueError::TooManyQueries { needed: _, limit: _ } =>
                [ResqueError::TooManyQueries { needed: 2.0, limit: 1.0 }],
            ResqueError::Gradient(_) => queries().into_iter().map(ResqueError::Gradient).chain([row().into()]),
            ResqueError::Noise(_) => noises().into_iter().map(ResqueError::Noise),
        };
        let steps = of_each_variant! { StepError;
            StepError::Gradient(_) => queries().into_iter().map(StepError::Gradient),
            StepError::Noise(_) => noises().into_iter().map(StepError::Noise),
            StepError::Resque(_) => solvers.into_iter().map(StepError::Resque),
        };
        let rounds = of_each_variant! { RoundError;
            RoundError::Step { round: _, source: _ } =>
                steps.into_iter().map(|source| RoundError::Step { round: 3, source }),
            RoundError::Finished { rounds: _ } => [RoundError::Finished { rounds: 4 }],
        };
        let (loss, dataset) = (Loss::Softmax, "d".to_owned());
        let problems = of_each_variant! { ProblemError;
            ProblemError::Targets { loss: _, dataset: _, needed: _, found: _ } =>
                [ProblemError::Targets { loss, dataset: dataset.clone(), needed: "classes", found: "real targets" }],
            // In a domain the declared classes are counted.
            ProblemError::OneClass { loss: _, dataset: _ } => [ProblemError::OneClass { loss, dataset: dataset.clone() }],
            ProblemError::Regularization(_) => [ProblemError::Regularization(-1.0)],
            ProblemError::SharedUnits => [ProblemError::SharedUnits],
            ProblemError::RowBound(_) => [ProblemError::RowBound(1e30)],
            ProblemError::Network(_) => [ProblemError::Network(NetworkError::First)],
            ProblemError::NetworkRows(_) => [ProblemError::NetworkRows("sparse rows")],
            ProblemError::Row(NonFiniteGradient { row: _ }) => [ProblemError::Row(row())],
        };
        // Two answers of a query in a step, the same in a pool of ReSQue and once more by conversion, and two of the pool itself.
        assert_eq!(rounds.iter().filter(|error| error.is_divergence()).count(), 2 + 3 + 2);
        let rounds = rounds.into_iter().map(|error| Box::new(error) as Box<dyn Error>);
        for error in rounds.chain(problems.into_iter().map(|error| Box::new(error) as Box<dyn Error>)) {
            let causes = successors(error.source(), |cause| (*cause).source());
            let said = causes.fold(format!("{error} {error:?}"), |said, cause| format!("{said} {cause} {cause:?}"));
            assert!(!said.contains("31337"), "{said}");
        }
    }
}

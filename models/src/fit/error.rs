//! Reasons for which a run ends without a model.

use std::path::PathBuf;

use rounds_algorithms::optimizers::{PrepareError, RoundError};
use rounds_algorithms::problem::ProblemError;
use rounds_kernels::linear::NonFiniteGradient;

use crate::checkpoint::CheckpointError;
use crate::data::{DataError, Explained, SchemaError};
use crate::factorization_file::FactorizationFileError;
use crate::group::{Group, SharedError};
use crate::model_file::ModelFileError;
use crate::signature::KeyError;
use crate::text::with_causes;

/// The reason for which a run ends without a model.
///
/// In a message the name of an argument stands in backticks, with its value if it has one: `` `bounds LO,HI` ``. A face writes it as
/// its own users give it. A message of a release names no row, line or value of the data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the fields")]
pub enum FitError {
    /// An argument, with its value where that matters, that cannot be, or not beside the others.
    #[error("`{argument}`: {problem}")]
    Argument { argument: String, problem: String },
    /// Rows that cannot be loaded or declared; of a release without what was found.
    #[error(transparent)]
    Data(DataError),
    /// The same of a run that is no release, with what was found.
    #[error(transparent)]
    Explained(Explained),
    /// A declaration that makes no domain.
    #[error(transparent)]
    Schema(SchemaError),
    /// Rows that make no problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// Settings that the algorithm refuses.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// An unknown algorithm.
    #[error(transparent)]
    Unknown(#[from] rounds_algorithms::catalog::UnknownAlgorithm),
    /// A round that cannot be.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// A statistic that cannot be computed.
    #[error(transparent)]
    Statistic(#[from] NonFiniteGradient),
    /// A checkpoint that cannot be written or used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file of a factorisation that cannot be used.
    #[error(transparent)]
    Factorization(#[from] FactorizationFileError),
    /// A place that the model cannot be written to.
    #[error(transparent)]
    Model(#[from] ModelFileError),
    /// A key that cannot sign.
    #[error(transparent)]
    Sign(#[from] KeyError),
    /// The system gives no key.
    #[error("the generator of the operating system gives no key")]
    Key(#[source] getrandom::Error),
    /// The observer has stopped the run.
    #[error("stopped after round {round} of {rounds}{}", checkpoint.as_ref().map(|path| format!("; `resume {}` goes on", path.display())).unwrap_or_default())]
    Stopped { round: u64, rounds: u64, checkpoint: Option<PathBuf> },
    /// An error of some rank.
    #[error("{0}")]
    Shared(#[from] SharedError),
}

impl FitError {
    /// An argument's error.
    pub(crate) fn argument(argument: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Argument { argument: argument.into(), problem: problem.into() }
    }

    /// Something that only the arguments decide.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Argument { .. } | Self::Sign(_) | Self::Schema(_) | Self::Prepare(_) | Self::Unknown(_) => true,
            // In a release contents cannot be told from columns.
            Self::Data(error) => {
                matches!(
                    error,
                    DataError::Contents(_)
                        | DataError::Columns(_)
                        | DataError::Dataset(_)
                        | DataError::MoreRanksThanRows { .. }
                )
            }
            Self::Explained(error) => {
                matches!(
                    error.withheld(),
                    DataError::Columns(_) | DataError::Dataset(_) | DataError::MoreRanksThanRows { .. }
                )
            }
            Self::Model(error) => error.is_usage(),
            Self::Checkpoint(error) => matches!(error, CheckpointError::Place { .. }),
            Self::Shared(SharedError { is_usage, .. }) => *is_usage,
            _ => false,
        }
    }
}

impl Group {
    /// The result of this rank if every rank succeeded.
    ///
    /// # Errors
    /// [`FitError::Shared`] if any of several ranks failed; this process's own error if it is alone.
    pub fn all_ok<T, E: Into<FitError>>(&self, result: Result<T, E>) -> Result<T, FitError> {
        let result = result.map_err(Into::into);
        let own = result.as_ref().err();
        self.agree(own.map(|error| SharedError { message: with_causes(error), is_usage: error.is_usage() }))?;
        result
    }

    /// Runs a step on rank 0 alone; its error is that of all ranks.
    ///
    /// # Errors
    /// As [`all_ok`](Self::all_ok).
    pub fn root_only<E: Into<FitError>>(&self, step: impl FnOnce() -> Result<(), E>) -> Result<(), FitError> {
        self.all_ok(if self.is_root() { step() } else { Ok(()) })
    }
}

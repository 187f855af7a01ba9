//! Reasons for which a run ends without a model.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::PathBuf;

use rounds_algorithms::optimizers::{PrepareError, RoundError};
use rounds_algorithms::privacy::PrivacyError;
use rounds_algorithms::problem::ProblemError;
use rounds_kernels::linear::NonFiniteGradient;

use crate::checkpoint::CheckpointError;
use crate::data::{DataError, Explained, SchemaError};
use crate::factorization_file::FactorizationFileError;
use crate::group::{Group, SharedError};
use crate::ledger::LedgerError;
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
    /// A ledger that cannot be used, or a run that it refuses.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A place that the model cannot be written to.
    #[error(transparent)]
    Model(#[from] ModelFileError),
    /// A key that cannot sign.
    #[error(transparent)]
    Sign(#[from] KeyError),
    /// The system gives no key.
    #[error("the generator of the operating system gives no key")]
    Key(#[source] getrandom::Error),
    /// The observer has stopped a simulation.
    #[error("stopped after round {round} of {rounds}{}", checkpoint.as_ref().map(|path| format!("; `resume {}` goes on", path.display())).unwrap_or_default())]
    Stopped { round: u64, rounds: u64, checkpoint: Option<PathBuf> },
    /// The observer has stopped a release or a selection. Where, is secret: rounds with a unit of many rows take longer, and the round that is
    /// reached at a time tells how many there were.
    #[error("stopped before its end{}", checkpoint.as_ref().map(|path| format!("; `resume {}` goes on", path.display())).unwrap_or_default())]
    Interrupted { checkpoint: Option<PathBuf> },
    /// A selection without a winner.
    #[error(
        "no model comes of this selection: no trial was drawn, or every one diverged. That is one of its outcomes, and its budget is spent"
    )]
    NoWinner,
    /// An error of some rank.
    #[error("{0}")]
    Shared(#[from] SharedError),
}

impl From<PrivacyError> for FitError {
    fn from(error: PrivacyError) -> Self {
        Self::Prepare(error.into())
    }
}

impl FitError {
    /// An argument's error.
    pub(crate) fn argument(argument: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Argument { argument: argument.into(), problem: problem.into() }
    }

    /// The refusal of rows that have no such features ([`FeatureMap::on`](crate::features::FeatureMap::on)).
    pub(crate) fn features(problem: String) -> Self {
        match problem.split_once("`: ") {
            Some((argument, problem)) => Self::argument(argument.trim_start_matches('`'), problem),
            None => Self::argument("features", problem),
        }
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
            Self::Problem(error) => matches!(error, ProblemError::Network(_) | ProblemError::NetworkRows(_)),
            Self::Ledger(error) => error.is_usage(),
            Self::Model(error) => error.is_usage(),
            Self::Checkpoint(error) => matches!(error, CheckpointError::Place { .. }),
            Self::Shared(SharedError { is_usage, .. }) => *is_usage,
            _ => false,
        }
    }
}

/// True where nothing is there under a name that was given: a file, a folder, a data set. It depends on names and on which files exist,
/// never on what is in them, so that a release may end by it.
pub fn names_nothing(error: &(dyn Error + 'static)) -> bool {
    let is_missing = |error: &DataError| {
        matches!(error, DataError::Missing { .. } | DataError::Unknown { .. } | DataError::NoDirectory { .. })
    };
    successors(Some(error), |error| (*error).source()).any(|cause| {
        // Those of a fit show the error of its data as theirs, not as a cause.
        let of_data = match cause.downcast_ref() {
            Some(FitError::Data(error)) => Some(error),
            Some(FitError::Explained(error)) => Some(error.withheld()),
            _ => cause.downcast_ref().or_else(|| cause.downcast_ref().map(Explained::withheld)),
        };
        let of_system = cause.downcast_ref::<io::Error>();
        of_data.is_some_and(is_missing) || of_system.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    })
}

impl Group {
    /// The result of this rank if every rank succeeded.
    ///
    /// # Errors
    /// [`FitError::Shared`] if any of several ranks failed; this process's own error if it is alone.
    pub fn all_ok<T, E: Into<FitError>>(&self, result: Result<T, E>) -> Result<T, FitError> {
        let result = result.map_err(Into::into);
        let own = result.as_ref().err();
        let is_usage = |error: &FitError| error.is_usage() || names_nothing(error);
        self.agree(own.map(|error| SharedError { message: with_causes(error), is_usage: is_usage(error) }))?;
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

#[cfg(test)]
mod tests {

    use rounds_algorithms::oracle::QueryError;

    use super::super::settings::Training;
    use super::super::setup::{explained, of_schema};
    use super::*;
    use crate::data::{PLANTED, planted};

    /// Every way by which something of a row could come into an error of a release. A new variant does not compile before it stands here.
    #[test]
    fn no_error_of_a_release_shows_what_was_found_in_its_rows() {
        let mut training = Training::on("d.csv").private(1.0, 1e-6);
        training.privacy.secure = true;
        let row = NonFiniteGradient { row: PLANTED };
        let mut errors = vec![
            FitError::Problem(row.into()),
            FitError::Round(RoundError::Step { round: 3, source: QueryError::Row(row).into() }),
            FitError::Statistic(row),
        ];
        errors.extend(planted().into_iter().map(|error| explained(&training, error)));
        errors.extend(planted().into_iter().map(|error| of_schema(&training, SchemaError::Data(error))));
        let shared = |error: &FitError| SharedError { message: with_causes(error), is_usage: error.is_usage() };
        errors.extend(errors.iter().map(shared).map(FitError::Shared).collect::<Vec<_>>());
        for error in &errors {
            let causes = successors(error.source(), |cause| (*cause).source());
            let said = causes.fold(format!("{error} {error:?}"), |said, cause| format!("{said} {cause} {cause:?}"));
            assert!(!said.contains("31337"), "{said}");
            match error {
                FitError::Data(_)
                | FitError::Problem(_)
                | FitError::Round(_)
                | FitError::Statistic(_)
                | FitError::Shared(_) => {}
                FitError::Explained(_) => panic!("{error}: of a run that claims nothing"),
                // Of arguments, declarations, plans, places and the system: no row.
                FitError::Argument { argument: _, problem: _ }
                | FitError::Schema(SchemaError::Declaration { place: _, problem: _ } | SchemaError::Data(_))
                | FitError::Prepare(_)
                | FitError::Unknown(_)
                | FitError::Checkpoint(_)
                | FitError::Factorization(_)
                | FitError::Ledger(_)
                | FitError::Model(_)
                | FitError::Sign(_)
                | FitError::Key(_)
                | FitError::Interrupted { checkpoint: _ }
                | FitError::NoWinner
                | FitError::Stopped { round: _, rounds: _, checkpoint: _ } => panic!("{error}: nothing of a row"),
            }
        }
        training.privacy.secure = false;
        let shown = planted().into_iter().map(|error| explained(&training, error).to_string());
        assert!(shown.filter(|message| message.contains("31337")).count() >= 10);
    }
}

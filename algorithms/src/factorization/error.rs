//! Errors of factorisations.

use thiserror::Error;

/// An unusable workload, participation, strategy or stored factorisation.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum FactorizationError {
    /// T = 0.
    #[error("a workload needs at least one round, found T = 0")]
    NoRounds,
    /// A participation with more epochs than rounds.
    #[error(
        "{epochs} epochs do not fit into {rounds} rounds: an example takes part at most once a round; use at most {rounds} epochs"
    )]
    MoreEpochsThanRounds {
        /// The epochs requested.
        epochs: usize,
        /// The rounds available.
        rounds: usize,
    },
    /// A parameter outside its range.
    #[error("{name} = {value} is outside its range: expected {expected}")]
    InvalidParameter {
        /// The parameter's name.
        name: &'static str,
        /// The value found.
        value: f64,
        /// The range expected.
        expected: &'static str,
    },
    /// A sequence (learning rates, decays, coefficients) of the wrong length.
    #[error("{name} holds {found} values, expected {expected}: one a round")]
    WrongLength {
        /// Name of the sequence.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length expected.
        expected: usize,
    },
    /// A matrix that is not square or has the wrong size.
    #[error("{name} is {rows} x {columns}, expected {expected} x {expected}")]
    ShapeMismatch {
        /// Name of the matrix.
        name: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// The size expected.
        expected: usize,
    },
    /// An entry above the diagonal.
    #[error(
        "C is not lower triangular: entry ({row}, {column}) is {value}; round {row} would need the noise of round {column}"
    )]
    NotLowerTriangular {
        /// Row of the first offending entry, from 0.
        row: usize,
        /// Its column.
        column: usize,
        /// Its value.
        value: f64,
    },
    /// A zero on the diagonal of a triangular matrix, or a value that is no number.
    #[error("C is singular: its diagonal entry {row} is {value}, expected a finite number other than zero")]
    Singular {
        /// Row of the entry, from 0.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// An entry that is infinite or no number.
    #[error("C has the entry {value} at ({row}, {column}), expected finite numbers")]
    NotFinite {
        /// Its row, from 0.
        row: usize,
        /// Its column.
        column: usize,
        /// Its value.
        value: f64,
    },
    /// C⁻¹ leaves the range of f64.
    #[error(
        "the inverse of C overflows at row {row}: the noise recursion would release infinite noise; choose fewer bands or smaller coefficients"
    )]
    InverseOverflow {
        /// The first row that is not finite, from 0.
        row: usize,
    },
    /// C is so badly conditioned that the inverse that noise is drawn through is not C⁻¹.
    #[error(
        "the computed inverse X of C is no inverse: X·C differs from the identity by {difference:e} at ({row}, {column}), at most {most:e} is allowed; the noise would not be the C⁻¹z whose sensitivity is stated. C is too badly conditioned: factorise again, with fewer rounds or smaller entries below the diagonal"
    )]
    InverseMismatch {
        /// Row of the largest difference, from 0.
        row: usize,
        /// Its column.
        column: usize,
        /// |(X·C − I)[row, column]|.
        difference: f64,
        /// The largest difference allowed.
        most: f64,
    },
    /// B·C is not the workload.
    #[error(
        "B·C is not the workload: entry ({row}, {column}) is {found}, expected {expected}; the factors belong to another workload"
    )]
    ProductMismatch {
        /// Row of the largest difference, from 0.
        row: usize,
        /// Its column.
        column: usize,
        /// The entry of B·C.
        found: f64,
        /// The entry of A.
        expected: f64,
    },
    /// A recorded sensitivity that the matrix does not have.
    #[error("the recorded sensitivity {found} is not that of C, {expected}: noise calibrated to it would be wrong")]
    SensitivityMismatch {
        /// The recorded value.
        found: f64,
        /// The value of the matrix.
        expected: f64,
    },
    /// The optimiser stopped short of the requested gap.
    #[error("the certified relative duality gap stopped at {gap:e}, requested {asked:e}: request a larger gap")]
    NotConverged {
        /// The gap reached.
        gap: f64,
        /// The gap requested.
        asked: f64,
    },
    /// T × T matrices that do not fit into memory.
    #[error(
        "T = {rounds} rounds need {needed:.1} GiB of memory for matrices of T × T numbers, and {available:.1} GiB are free: take \
         fewer rounds, or the method blt=m or toeplitz, which need none"
    )]
    Memory {
        /// T.
        rounds: usize,
        /// GiB that the matrices take.
        needed: f64,
        /// GiB that there are.
        available: f64,
    },
    /// A combination that is not factorised.
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// The combination.
        what: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A text that names no workload, method or participation.
    #[error("cannot read {text:?} as {what}: expected {expected}")]
    Unreadable {
        /// Kind of the text.
        what: &'static str,
        /// The text found.
        text: String,
        /// The forms accepted.
        expected: &'static str,
    },
    /// Stored bytes that fail their checks.
    #[error("the stored factorisation is damaged: {reason}; it must be computed again")]
    Damaged {
        /// The check that failed.
        reason: String,
    },
    /// An eigenvalue, singular value or Cholesky routine failed.
    #[error("{routine} failed on a {size} x {size} matrix: the problem is too badly conditioned for f64")]
    Numerical {
        /// The routine.
        routine: &'static str,
        /// The size.
        size: usize,
    },
}

/// `Numerical`.
pub(crate) fn numerical(routine: &'static str, size: usize) -> FactorizationError {
    FactorizationError::Numerical { routine, size }
}

/// `InvalidParameter` unless `value` lies in `range`.
pub(crate) fn check_range(
    name: &'static str,
    value: f64,
    range: std::ops::Range<f64>,
    expected: &'static str,
) -> Result<(), FactorizationError> {
    if range.contains(&value) { Ok(()) } else { Err(FactorizationError::InvalidParameter { name, value, expected }) }
}

/// `WrongLength` unless a sequence has the expected length.
pub(crate) fn check_length(name: &'static str, found: usize, expected: usize) -> Result<(), FactorizationError> {
    if found == expected { Ok(()) } else { Err(FactorizationError::WrongLength { name, found, expected }) }
}

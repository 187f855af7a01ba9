//! Errors of factorisations.

use thiserror::Error;

/// An unusable workload, participation, strategy or stored factorisation. Rows, columns and rounds count from 0.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum FactorizationError {
    /// T = 0.
    #[error("a workload needs at least one round, found T = 0")]
    NoRounds,
    /// A participation with more epochs than rounds.
    #[error(
        "{epochs} epochs do not fit into {rounds} rounds: an example takes part at most once a round; use at most {rounds} epochs"
    )]
    MoreEpochsThanRounds { epochs: usize, rounds: usize },
    /// A parameter outside its range.
    #[error("{name} = {value} is outside its range: expected {expected}")]
    InvalidParameter { name: &'static str, value: f64, expected: &'static str },
    /// A sequence (learning rates, decays, coefficients) of the wrong length.
    #[error("{name} holds {found} values, expected {expected}: one a round")]
    WrongLength { name: &'static str, found: usize, expected: usize },
    /// A matrix that is not square or has the wrong size.
    #[error("{name} is {rows} x {columns}, expected {expected} x {expected}")]
    ShapeMismatch { name: &'static str, rows: usize, columns: usize, expected: usize },
    /// An entry above the diagonal.
    #[error(
        "C is not lower triangular: entry ({row}, {column}) is {value}; round {row} would need the noise of round {column}"
    )]
    NotLowerTriangular { row: usize, column: usize, value: f64 },
    /// A zero on the diagonal of a triangular matrix, or a value that is no number.
    #[error("C is singular: its diagonal entry {row} is {value}, expected a finite number other than zero")]
    Singular { row: usize, value: f64 },
    /// An entry that is infinite or no number.
    #[error("C has the entry {value} at ({row}, {column}), expected finite numbers")]
    NotFinite { row: usize, column: usize, value: f64 },
    /// C⁻¹ leaves the range of f64.
    #[error(
        "the inverse of C overflows at row {row}: the noise recursion would release infinite noise; choose fewer bands or smaller coefficients"
    )]
    InverseOverflow { row: usize },
    /// C is so badly conditioned that the inverse that noise is drawn through is not C⁻¹.
    #[error(
        "the computed inverse X of C is no inverse: X·C differs from the identity by {difference:e} at ({row}, {column}), at most {most:e} is allowed; the noise would not be the C⁻¹z whose sensitivity is stated. C is too badly conditioned: factorise again, with fewer rounds or smaller entries below the diagonal"
    )]
    InverseMismatch { row: usize, column: usize, difference: f64, most: f64 },
    /// B·C is not the workload.
    #[error("the recorded sensitivity {found} is not that of C, {expected}: noise calibrated to it would be wrong")]
    SensitivityMismatch { found: f64, expected: f64 },
    /// The optimiser stopped short of the requested gap.
    #[error("the certified relative duality gap stopped at {gap:e}, requested {asked:e}: request a larger gap")]
    NotConverged { gap: f64, asked: f64 },
    /// T × T matrices that do not fit into memory.
    #[error(
        "T = {rounds} rounds need {needed:.1} GiB of memory for matrices of T × T numbers, and this machine has {present:.1}: take \
         fewer rounds, or the method blt=m or toeplitz, which need none"
    )]
    Memory { rounds: usize, needed: f64, present: f64 },
    /// A combination that is not factorised.
    #[error("{what} is not supported: {reason}")]
    Unsupported { what: String, reason: String },
    /// A text that names no workload, method or participation.
    #[error("cannot read {text:?} as {what}: expected {expected}")]
    Unreadable { what: &'static str, text: String, expected: &'static str },
    /// Stored bytes that fail their checks.
    #[error("the stored factorisation is damaged: {reason}; it must be computed again")]
    Damaged { reason: String },
    /// An eigenvalue, singular value or Cholesky routine failed.
    #[error("{routine} failed on a {size} x {size} matrix: the problem is too badly conditioned for f64")]
    Numerical { routine: &'static str, size: usize },
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

/// `ShapeMismatch` unless a matrix is square and of the expected size.
pub(crate) fn check_square(
    name: &'static str,
    (rows, columns): (usize, usize),
    expected: usize,
) -> Result<(), FactorizationError> {
    if (rows, columns) == (expected, expected) {
        Ok(())
    } else {
        Err(FactorizationError::ShapeMismatch { name, rows, columns, expected })
    }
}

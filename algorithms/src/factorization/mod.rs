//! Factorisations A = B·C of a workload: the C that noise is added through, its sensitivity and its error.
//!
//! Releasing A·G + sens(C)·B·Z for Gaussian Z is one Gaussian mechanism with noise C⁻¹·Z on the increments, whatever the
//! factorisation [001 §2.1]; the factorisation decides the error ‖B‖·sens(C). Nothing here draws noise, reads a file or
//! knows a clock: a mechanism takes [`Factorization::strategy`], an accountant takes its sensitivity.
//!
//! | file | idea |
//! | --- | --- |
//! | `workload` | A = Λ_τ·S·diag(η)·M·L, products and banded inverses |
//! | `participation` | the rounds of one example; sensitivities, exact or bounded |
//! | `optimal` | the optimal C with a certified gap; `shifted_inverse`, `pattern_dual`, `pattern_band`, `quadrature` serve it |
//! | `toeplitz` | closed-form square roots |
//! | `banded` | optimised C with few diagonals |
//! | `blt` | optimised buffered linear Toeplitz C |
//! | `tree` | the binary tree and the estimators of Honaker |
//! | `strategy` | C in each form: inverse, sensitivity, error |
//! | `source` | computed, cached or given factorisations |
//! | `encoding` | a factorisation as bytes, keyed by its inputs, checked on reading |

mod banded;
mod banded_lower;
mod blt;
mod dual;
mod encoding;
mod error;
mod lanes;
mod minimizer;
mod optimal;
mod participation;
mod pattern_band;
mod pattern_dual;
mod quadrature;
mod shifted_inverse;
mod source;
mod strategy;
mod toeplitz;
mod tree;
mod workload;

#[cfg(test)]
pub(crate) mod tests;

use std::str::FromStr;

use rounds_numerics::{Mat, MatRef, dense};

pub(crate) use banded::toeplitz_banded_error;
pub use dual::Objective;
pub use encoding::FactorizationKey;
pub use error::FactorizationError;
use error::{check_square, numerical};
pub use participation::{Exactness, Participation, Sensitivity};
pub use source::FactorizationSource;
pub use strategy::{BandedStrategy, Strategy};
use toeplitz::{fourier_gram, square_root_coefficients};
pub use tree::TreeVariant;
pub(crate) use tree::estimate_variance;
#[cfg(test)]
pub(crate) use tree::nodes;
use tree::tree_sensitivity;
pub use workload::{Workload, WorkloadSpecification};

/// The choice of C. `FromStr` reads `optimal`, `banded=b`, `blt=m`, `toeplitz`, `fourier`, `tree`, `honaker-online`,
/// `honaker-full`, `identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The least error of all C, with a certified gap.
    Optimal,
    /// The least error of C with b diagonals that the optimiser finds; b vectors of memory.
    Banded {
        /// b, the main diagonal included.
        bands: usize,
    },
    /// The least error of buffered linear Toeplitz C that the optimiser finds; m vectors of memory.
    Blt {
        /// m.
        buffers: usize,
    },
    /// The square root of the workload (of its Toeplitz part, where it is not Toeplitz).
    Toeplitz,
    /// DP-Fourier: the transform of the workload (of its Toeplitz part) on a circle of 2T rounds, with the best decoder, A·C⁺.
    Fourier,
    /// The binary tree.
    Tree(TreeVariant),
    /// C = I: independent noise.
    Identity,
}

impl Method {
    /// The methods without a parameter.
    const NAMED: [(&str, Self); 7] = [
        ("optimal", Self::Optimal),
        ("toeplitz", Self::Toeplitz),
        ("fourier", Self::Fourier),
        ("tree", Self::Tree(TreeVariant::Plain)),
        ("honaker-online", Self::Tree(TreeVariant::HonakerOnline)),
        ("honaker-full", Self::Tree(TreeVariant::HonakerFull)),
        ("identity", Self::Identity),
    ];
}

impl FromStr for Method {
    type Err = FactorizationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unreadable = || FactorizationError::Unreadable {
            what: "a factorisation method",
            text: text.to_owned(),
            expected: "optimal, banded=b, blt=m, toeplitz, fourier, tree, honaker-online, honaker-full or identity",
        };
        let number = |value: &str| value.parse::<usize>().ok().filter(|&value| value > 0).ok_or_else(unreadable);
        Ok(match text.split_once('=') {
            Some(("banded", bands)) => Self::Banded { bands: number(bands)? },
            Some(("blt", buffers)) => Self::Blt { buffers: number(buffers)? },
            Some(_) => return Err(unreadable()),
            None => {
                let named = Self::NAMED.into_iter().find(|(name, _)| *name == text);
                named.ok_or_else(unreadable)?.1
            }
        })
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Banded { bands } => write!(formatter, "banded={bands}"),
            Self::Blt { buffers } => write!(formatter, "blt={buffers}"),
            _ => {
                let named = Self::NAMED.into_iter().find(|(_, method)| method == self);
                formatter.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Everything a factorisation depends on.
#[derive(Clone, Debug)]
pub struct FactorizationRequest {
    /// A.
    pub workload: Workload,
    /// The rounds in which an example may take part.
    pub participation: Participation,
    /// The choice of C.
    pub method: Method,
    /// The minimised error. Closed forms, trees and the identity ignore it.
    pub objective: Objective,
    /// The largest certified relative gap of the squared objective that `Method::Optimal` may leave.
    pub gap: f64,
}

impl FactorizationRequest {
    /// The Frobenius objective and a gap of 1e-6.
    pub fn new(workload: Workload, participation: Participation, method: Method) -> Self {
        Self { workload, participation, method, objective: Objective::Frobenius, gap: 1e-6 }
    }

    /// Number of T × T matrices of f64 that [`factorize`](Self::factorize) holds at once, at most (measured at T = 1000 and 2000).
    pub fn matrices(&self) -> usize {
        match (self.method, &self.participation) {
            (Method::Optimal, Participation::Single) => 8,
            (Method::Optimal, _) => 16,
            (Method::Banded { .. }, _) => 3,
            (Method::Tree(TreeVariant::HonakerFull) | Method::Fourier, _) => 5,
            // Noise through it is drawn by its inverse.
            (Method::Toeplitz, _) => 1,
            (Method::Blt { .. } | Method::Tree(_) | Method::Identity, _) => 0,
        }
    }

    /// Computes the factorisation.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let workload = Workload::new(64, WorkloadSpecification::prefix())?;
    /// let tree_free = FactorizationRequest::new(workload.clone(), Participation::Single, Method::Toeplitz).factorize()?;
    /// let optimal = FactorizationRequest::new(workload, Participation::Single, Method::Optimal).factorize()?;
    /// assert!(optimal.rms_error() <= tree_free.rms_error());
    /// # Ok::<(), rounds_algorithms::factorization::FactorizationError>(())
    /// ```
    ///
    /// # Errors
    /// A participation that does not fit the rounds, parameters out of range, a method that does not cover the request,
    /// an optimiser that misses the gap.
    pub fn factorize(self) -> Result<Factorization, FactorizationError> {
        let Self { workload, participation, method, objective, gap } = self;
        let rounds = workload.rounds();
        participation.check(rounds)?;
        let mut relative_gap = None;
        let strategy = match method {
            Method::Identity => Strategy::Identity { rounds },
            Method::Optimal => {
                let optimum = optimal::optimize(&workload, &participation, objective, gap)?;
                relative_gap = Some(optimum.relative_gap);
                Strategy::Dense(optimum.strategy)
            }
            Method::Banded { bands } => {
                Strategy::Banded(banded::optimize(&workload, &participation, objective, bands)?)
            }
            Method::Blt { buffers } => blt::optimize(&workload, &participation, objective, buffers)?,
            Method::Toeplitz => {
                Strategy::Toeplitz { coefficients: square_root_coefficients(rounds, &workload.similar_roots()) }
            }
            Method::Fourier => {
                let lags = fourier_gram(rounds, &workload.similar_roots());
                let gram = Mat::from_fn(rounds, rounds, |row, column| lags[row.abs_diff(column)]);
                let routine = "the Cholesky factorisation of DP-Fourier's Gram matrix";
                let factor = dense::strategy_from_gram(gram.as_ref());
                Strategy::Dense(factor.ok_or_else(|| numerical(routine, rounds))?)
            }
            Method::Tree(TreeVariant::HonakerFull) => {
                // B = S·H⁺ has the law of S·C⁻¹ with CᵀC = HᵀH.
                let gram = Mat::from_fn(rounds, rounds, |row, column| {
                    tree::gram(TreeVariant::HonakerFull, rounds, row, column)
                });
                let routine = "the Cholesky factorisation of the tree's Gram matrix";
                let factor = dense::strategy_from_gram(gram.as_ref());
                Strategy::Dense(factor.ok_or_else(|| numerical(routine, rounds))?)
            }
            Method::Tree(variant) => Strategy::Tree { rounds, variant },
        };
        let mut factorization = Factorization::evaluate(workload, participation, strategy)?;
        factorization.method = Some(method);
        factorization.relative_gap = relative_gap;
        factorization.correct_sensitivity()?;
        Ok(factorization)
    }
}

/// A = B·C with its sensitivity and errors.
#[derive(Clone, Debug)]
pub struct Factorization {
    workload: Workload,
    participation: Participation,
    method: Option<Method>,
    strategy: Strategy,
    sensitivity: Sensitivity,
    /// ‖B_t‖² of C as written.
    squared_row_errors: Vec<f64>,
    relative_gap: Option<f64>,
}

/// Largest entry of |X·C − I| that a C from outside may have.
const MOST_INVERSE_ERROR: f64 = 1e-9;

/// The largest |found − expected| of two square matrices, and where it is; a NaN counts as the largest.
fn largest_difference(found: MatRef<'_, f64>, expected: MatRef<'_, f64>) -> (f64, usize, usize) {
    let mut worst = (0.0, 0, 0);
    for column in 0..found.ncols() {
        for row in 0..found.nrows() {
            let difference = (found[(row, column)] - expected[(row, column)]).abs();
            if !(difference <= worst.0) {
                worst = (difference, row, column);
                if difference.is_nan() {
                    return worst;
                }
            }
        }
    }
    worst
}

impl Factorization {
    /// Measures a given C against a workload and a participation.
    ///
    /// # Errors
    /// A C that is not lower triangular, singular, not finite, of the wrong size, or whose inverse overflows.
    pub fn evaluate(
        workload: Workload,
        participation: Participation,
        strategy: Strategy,
    ) -> Result<Self, FactorizationError> {
        let rounds = workload.rounds();
        participation.check(rounds)?;
        strategy.check()?;
        check_square("C", (strategy.rounds(), strategy.rounds()), rounds)?;
        let sensitivity = strategy.sensitivity(&participation)?;
        let squared_row_errors = strategy.squared_row_errors(&workload)?;
        Ok(Self {
            workload,
            participation,
            method: None,
            strategy,
            sensitivity,
            squared_row_errors,
            relative_gap: None,
        })
    }

    /// Takes a C that comes from outside: checks its shape and max|X·C − I| ≤ 1e-9 for the computed inverse X of C.
    ///
    /// Noise is X·z, so its privacy is that of X⁻¹: the sensitivity of C bounds it only as far as X is C's inverse.
    ///
    /// # Errors
    /// `ShapeMismatch`, `NotLowerTriangular`, `Singular`, `NotFinite`, `InverseOverflow`, `InverseMismatch`.
    pub fn from_matrix(
        workload: Workload,
        participation: Participation,
        strategy: Mat<f64>,
    ) -> Result<Self, FactorizationError> {
        let rounds = workload.rounds();
        check_square("C", strategy.shape(), rounds)?;
        let given = strategy.clone();
        let factorization = Self::evaluate(workload, participation, Strategy::Dense(strategy))?;
        let product = dense::multiply(dense::invert_lower(given.as_ref()).as_ref(), given.as_ref());
        let (difference, row, column) = largest_difference(product.as_ref(), Mat::identity(rounds, rounds).as_ref());
        if !(difference <= MOST_INVERSE_ERROR) {
            return Err(FactorizationError::InverseMismatch { row, column, difference, most: MOST_INVERSE_ERROR });
        }
        Ok(factorization)
    }

    /// The full Honaker estimator keeps the causal factor of its law; its sensitivity is that of the tree it comes from.
    fn correct_sensitivity(&mut self) -> Result<(), FactorizationError> {
        if self.method == Some(Method::Tree(TreeVariant::HonakerFull)) {
            self.sensitivity = tree_sensitivity(TreeVariant::HonakerFull, self.rounds(), &self.participation)?;
        }
        Ok(())
    }

    fn check_sensitivity(&self, found: f64) -> Result<(), FactorizationError> {
        let expected = self.sensitivity.value;
        if (found - expected).abs() <= 1e-9 * expected {
            Ok(())
        } else {
            Err(FactorizationError::SensitivityMismatch { found, expected })
        }
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.workload.rounds()
    }

    /// A.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The participation that the sensitivity holds for.
    pub fn participation(&self) -> &Participation {
        &self.participation
    }

    /// The method that chose C; `None` for a C from outside.
    pub fn method(&self) -> Option<Method> {
        self.method
    }

    /// C.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// sens(C) of C as written, and whether it is exact.
    pub fn sensitivity(&self) -> Sensitivity {
        self.sensitivity
    }

    /// (P − D)/P of the squared objective, where an optimum was certified.
    pub fn relative_gap(&self) -> Option<f64> {
        self.relative_gap
    }

    /// ‖B_t‖·sens(C) for every round t: the error per unit of noise at sensitivity 1.
    pub fn row_errors(&self) -> Vec<f64> {
        self.squared_row_errors.iter().map(|error| error.sqrt() * self.sensitivity.value).collect()
    }

    /// √(Σ_t ‖B_t‖²/T) at sensitivity 1.
    pub fn rms_error(&self) -> f64 {
        self.frobenius() / (self.rounds() as f64).sqrt()
    }

    /// max_t ‖B_t‖ at sensitivity 1.
    pub fn max_error(&self) -> f64 {
        Objective::Max.of_squares(&self.squared_row_errors).sqrt() * self.sensitivity.value
    }

    /// ‖B‖_F at sensitivity 1; the workload's Λ_τ, where it has one, is part of B.
    pub fn frobenius(&self) -> f64 {
        Objective::Frobenius.of_squares(&self.squared_row_errors).sqrt() * self.sensitivity.value
    }
}

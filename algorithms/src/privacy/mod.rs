//! Privacy guarantees: mechanisms as data, accountants that turn them into (ε, δ), calibration of the noise, and the
//! privacy statement. Pure f64 computation: no I/O, no clock, no randomness, no state.
//!
//! * [`Adjacency`] is the neighbouring relation and [`Sampling`] the law of the batches; [`Sampling::check`] is the only
//!   place that decides which go together.
//! * [`Mechanism`] is an optimiser's description of its releases; the accountants read nothing else.
//! * [`Accountant`] computes ε or δ; [`calibrate`] finds the noise of a target. Behind it: [`gaussian`] (exact),
//!   [`gdp`], [`zcdp`], [`rdp`], [`pld`] and [`laplace`] (pure).
//! * [`selection`] is the price of the best of a random number of trials.
//! * [`PrivacyStatement`] is what stands in a result, and claims nothing that was not proven; [`Composed`] adds up several that were
//!   planned beforehand, and a [`Filter`] those that are chosen one after the other.
//!
//! Only upper bounds are called ε.

mod accountant;
mod accounting;
mod calibration;
mod composed;
mod error;
mod filter;
pub mod gaussian;
pub mod gdp;
pub mod laplace;
mod last_iterate;
mod mechanism;
pub mod pld;
mod quantiles;
pub mod rdp;
mod sampling;
mod search;
pub mod selection;
mod statement;
pub mod zcdp;

pub use accountant::Accountant;
pub use accounting::calibrate;
pub use calibration::{Budget, CalibrationMemory};
pub use composed::{Composed, CompositionError};
pub use error::PrivacyError;
pub use filter::{Filter, FilterKind, Share, Taken};
pub use mechanism::Mechanism;
#[cfg(test)]
pub(crate) use mechanism::tree_squared_sensitivity;
pub use quantiles::{beta_quantile, student_cdf, student_quantile};
pub use sampling::Sampling;
pub use selection::{SelectionStatement, TrialCount, TrialLaw};
pub use statement::{Arithmetic, Claim, DISJOINT_CHUNKS, NoiseSource, PrivacyStatement, PrivacyWarning, PrivateRun};

pub use crate::normal::normal_quantile;
pub use crate::problem::Adjacency;

/// Mechanisms and a comparison for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::{Mechanism, Sampling};

    /// One Gaussian release on a full batch.
    pub(crate) const fn gaussian(noise_multiplier: f64) -> Mechanism {
        Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 }
    }

    pub(crate) const fn subsampled(noise_multiplier: f64, sampling: Sampling, steps: usize) -> Mechanism {
        Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps }
    }

    pub(crate) const fn poisson(noise_multiplier: f64, rate: f64, steps: usize) -> Mechanism {
        subsampled(noise_multiplier, Sampling::Poisson { rate }, steps)
    }

    pub(crate) const fn without_replacement(
        noise_multiplier: f64,
        batch: usize,
        population: usize,
        steps: usize,
    ) -> Mechanism {
        subsampled(noise_multiplier, Sampling::WithoutReplacement { batch, population }, steps)
    }

    /// Laplace releases on full batches.
    pub(crate) const fn laplace(scale: f64, l1_sensitivity: f64, steps: usize) -> Mechanism {
        Mechanism::Laplace { scale, l1_sensitivity, sampling: Sampling::FullBatch, steps }
    }

    pub(crate) const fn tree(noise_multiplier: f64, sampling: Sampling, rounds: usize, trees: usize) -> Mechanism {
        Mechanism::Tree { noise_multiplier, sampling, rounds, trees }
    }

    pub(crate) fn assert_relative(found: f64, expected: f64, tolerance: f64, what: &str) {
        let error = (found / expected - 1.0).abs();
        assert!(error < tolerance, "{what}: found {found:e}, expected {expected:e}, relative error {error:e}");
    }
}

#[cfg(test)]
mod interval_tests;
#[cfg(test)]
mod tests;

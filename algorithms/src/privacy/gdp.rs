//! Gaussian differential privacy: a mechanism that is as private as telling N(0, 1) from N(μ, 1).
//!
//! Adaptive composition adds squares, μ = √(Σ μ_i²), and loses nothing: every run without subsampling, trees and
//! factorisations included, is one Gaussian mechanism. Conversion to (ε, δ) is [`super::gaussian`].

use super::accountant::Accountant;
use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use crate::problem::adjacency::Adjacency;

/// μ of a mechanism whose every step is Gaussian.
///
/// # Errors
/// [`PrivacyError::RefusedAccountant`] for subsampled and Laplace steps (the central-limit value of μ is no upper
/// bound), and whatever [`Mechanism::check`] finds.
pub fn mu(mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
    mechanism.check(adjacency)?;
    let mut squares = 0.0;
    for step in mechanism.steps() {
        let mu = step.gaussian_mu(adjacency).ok_or_else(|| {
            let reason = "its privacy is not that of one Gaussian mechanism, and a central-limit value is no upper bound; \
                          use pld or rdp";
            error::refused(Accountant::Gdp, step.name(), reason)
        })?;
        squares += mu * mu;
    }
    Ok(f64::sqrt(squares))
}

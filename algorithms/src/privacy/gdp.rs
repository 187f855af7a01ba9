//! Gaussian differential privacy: a mechanism that is as private as telling N(0, 1) from N(μ, 1).
//!
//! Adaptive composition adds squares, μ = √(Σ μ_i²), and loses nothing: every run without subsampling, trees and
//! factorisations included, is one Gaussian mechanism. Conversion to (ε, δ) is [`super::gaussian`].

use super::{Accountant, Adjacency, Mechanism, PrivacyError, error};

/// μ of a mechanism whose every step is Gaussian, rounded up.
///
/// Of n steps each μ_i² is wrong by at most γ_8 (a root, a product, a quotient, a square), their sum by γ_n and its root by
/// half of both and a rounding: at most (n + 10)·u/2 in all with u = 2⁻⁵³. The factor 1 + (n + 16)·2u leaves room for the
/// roundings between a noise multiplier and its standard deviation.
///
/// # Errors
/// [`PrivacyError::RefusedAccountant`] for subsampled and Laplace steps (the central-limit value of μ is no upper
/// bound), and whatever [`Mechanism::check`] finds.
pub fn mu(mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
    mechanism.check(adjacency)?;
    let mut squares = 0.0_f64;
    for step in mechanism.steps() {
        let mu = step.gaussian_mu(adjacency).ok_or_else(|| {
            let reason = "its privacy is not that of one Gaussian mechanism, and a central-limit value is no upper bound; \
                          use pld or rdp";
            error::refused(Accountant::Gdp, step, reason)
        })?;
        squares += mu * mu;
    }
    Ok(squares.sqrt() * (1.0 + (mechanism.steps().len() + 16) as f64 * f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Sampling;

    #[test]
    fn mu_is_no_less_than_the_root() {
        for participations in 1..100 {
            let mechanism =
                Mechanism::Gaussian { noise_multiplier: 1.0, sampling: Sampling::FixedOrder, participations };
            // Squares of integers: nearest rounding gives √3 and every second other root too small.
            let scaled = |mu: f64| ((mu * 2.0_f64.powi(52)) as u128).pow(2);
            let exact = (participations as u128) << 104;
            assert!(scaled(mu(&mechanism, Adjacency::ZeroOut).unwrap()) > exact);
            assert!(participations != 3 || scaled(3.0_f64.sqrt()) < exact);
        }
    }
}

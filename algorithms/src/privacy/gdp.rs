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

/// μ of last iterates, and of nothing else.
///
/// # Errors
/// [`PrivacyError::RefusedAccountant`] for other mechanisms, and whatever [`Mechanism::check`] finds.
pub(super) fn last_iterate_mu(mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
    match mechanism.steps().into_iter().find(|step| !matches!(step, Mechanism::LastIterate { .. })) {
        None => mu(mechanism, adjacency),
        Some(step) => {
            let reason = "it is no run whose steps contract and whose last iterate alone is published; use another accountant, or \
                          dp-sgd under its conditions";
            Err(error::refused(Accountant::LastIterate, step.name(), reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::assert_relative;
    use crate::privacy::gaussian;
    use crate::privacy::last_iterate::last_iterate_ratio;

    /// Table 1 of 2403.00278 to the digits printed: c = 0.9998, 40 batches a pass, μ of a step 2/3 under replace-one, δ = 1e-5.
    #[test]
    fn the_published_table_is_reproduced() {
        for (passes, printed, composed) in [(50, 4.3, 30.5), (100, 5.5, 49.9), (200, 7.1, 83.8)] {
            let mechanism = Mechanism::LastIterate {
                noise_multiplier: 3.0,
                sampling: crate::privacy::Sampling::FixedOrder,
                contraction: 0.9998,
                batches: 40,
                rounds: 40 * passes,
            };
            let found = Accountant::LastIterate.epsilon(&mechanism, Adjacency::ReplaceOne, 1e-5).unwrap();
            assert!((found - printed).abs() < 0.051, "{passes}: {found}");
            let all = gaussian::epsilon(1e-5, 2.0 / 3.0 * (passes as f64).sqrt()).unwrap();
            assert!((all - composed).abs() < 0.051, "{passes}: {all}");
            // Zero-out has half the μ.
            let [zeroed, replaced] =
                [Adjacency::ZeroOut, Adjacency::ReplaceOne].map(|relation| mu(&mechanism, relation).unwrap());
            assert_relative(2.0 * zeroed, replaced, 1e-12, "relations");
        }
    }

    /// Against x ← c·x + s + noise, the last iterate of quadratics: attained by full batches, and never more than the bound for others.
    #[test]
    fn quadratics_attain_the_bound_of_full_batches_and_stay_below_that_of_cyclic_ones() {
        for contraction in [0.3_f64, 0.9, 0.9998, 1.0] {
            for (batches, passes) in [(1, 1), (1, 7), (1, 500), (4, 1), (4, 2), (4, 90), (40, 25)] {
                let (mut mean, mut variance) = (0.0, 0.0);
                for round in 1..=batches * passes {
                    // The example is in the last batch of a pass.
                    mean = contraction * mean + f64::from(u8::from(round % batches == 0));
                    variance = contraction * contraction * variance + 1.0;
                }
                let (found, least) =
                    (last_iterate_ratio(contraction, batches, batches * passes), mean / f64::sqrt(variance));
                if batches == 1 {
                    assert_relative(found, least, 1e-9, "full batches");
                } else {
                    assert!(found >= least * (1.0 - 1e-12), "{contraction} {batches} {passes}: {found} {least}");
                }
            }
        }
        assert_relative(last_iterate_ratio(1.0, 4, 40), f64::sqrt(1.0 + 9.0 / 4.0), 1e-12, "no contraction");
        assert_relative(last_iterate_ratio(1.0 - 1e-9, 4, 40), last_iterate_ratio(1.0, 4, 40), 1e-6, "hardly any");
        // Passes that are not whole count as such.
        assert_eq!(last_iterate_ratio(0.9, 4, 37), last_iterate_ratio(0.9, 4, 40));
    }
}

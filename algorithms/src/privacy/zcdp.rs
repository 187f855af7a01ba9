//! Zero-concentrated differential privacy: D_α ≤ ρα for every order α (specification 2.2).
//!
//! A Gaussian mechanism has ρ = μ²/2, an ε-DP one ρ = ε²/2; composition adds. The conversion to (ε, δ) is the tight one of
//! Canonne–Kamath–Steinke 2020, with the simple one of paper 000 beside it.

use super::accountant::Accountant;
use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use super::{laplace, search};
use crate::problem::adjacency::Adjacency;

/// Orders α are searched over ln(α − 1) in this range, to this tolerance.
pub(super) const ORDERS: Orders = Orders(-20.0, 60.0, 1e-9);

/// The range of ln(α − 1) in which the order of a conversion is searched, and the tolerance.
pub(super) struct Orders(pub(super) f64, pub(super) f64, pub(super) f64);

impl Orders {
    /// (ε, α): inf_α D_α + (ln(1/δ) + ln[(1 − 1/α)^α/(α − 1)])/(α − 1), at least 0, and the order that gives it.
    pub(super) fn epsilon(&self, delta: f64, divergence: impl Fn(f64) -> f64) -> (f64, f64) {
        let log_delta = delta.ln();
        let at = |log_x: f64| {
            let x = log_x.exp();
            divergence(1.0 + x) + (log_conversion(x) - log_delta) / x
        };
        let (log_x, epsilon) = search::minimize(at, self.0, self.1, self.2);
        (epsilon.max(0.0), 1.0 + log_x.exp())
    }

    /// (δ, α): inf_α e^{(α−1)(D_α−ε)}(1 − 1/α)^α/(α − 1), at most 1, and the order that gives it.
    pub(super) fn delta(&self, epsilon: f64, divergence: impl Fn(f64) -> f64) -> (f64, f64) {
        let at = |log_x: f64| {
            let x = log_x.exp();
            x * (divergence(1.0 + x) - epsilon) + log_conversion(x)
        };
        let (log_x, log_delta) = search::minimize(at, self.0, self.1, self.2);
        (log_delta.min(0.0).exp(), 1.0 + log_x.exp())
    }
}

/// ln(α−1)·(α−1) − α ln α = −[entropy of the conversion], the logarithm of (1 − 1/α)^α / (α − 1).
pub(super) fn log_conversion(order_minus_one: f64) -> f64 {
    let x = order_minus_one;
    // x ln x − (x + 1) ln(x + 1), without cancellation for large x.
    if x > 1.0 { -(x + 1.0) * (1.0 / x).ln_1p() - x.ln() } else { x * x.ln() - (x + 1.0) * x.ln_1p() }
}

/// ρ-zCDP to ε at δ: inf_{α > 1} ρα + (ln(1/δ) + ln[(1 − 1/α)^α/(α − 1)])/(α − 1), the tight conversion [CKS20].
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ρ > 0 is finite and δ ∈ (0, 1).
pub fn epsilon(delta: f64, rho: f64) -> Result<f64, PrivacyError> {
    error::delta(delta)?;
    checked_rho(rho)?;
    Ok(ORDERS.epsilon(delta, |order| rho * order).0)
}

/// δ(ε; ρ) = inf_{α > 1} e^{(α−1)(αρ−ε)} (1 − 1/α)^α / (α − 1), at most 1 [CKS20].
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 and ρ > 0 are finite.
pub fn delta(epsilon: f64, rho: f64) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    checked_rho(rho)?;
    Ok(ORDERS.delta(epsilon, |order| rho * order).0)
}

/// The largest ρ whose [`epsilon`] at δ is at most ε.
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 is finite and δ ∈ (0, 1).
pub fn rho(epsilon_target: f64, delta: f64) -> Result<f64, PrivacyError> {
    // The simple inverse is too small, ρ = ε too large: the tight value lies between.
    let lower = simple_rho(epsilon_target, delta)?;
    let mut upper = lower;
    while epsilon(delta, upper)? < epsilon_target {
        upper *= 2.0;
    }
    if upper == lower {
        return Ok(lower);
    }
    let excess = |rho: f64| Ok(epsilon(delta, rho)? - epsilon_target);
    let bracket = search::bracket_root(excess, lower, upper, 0.0)?;
    Ok(bracket.root.min(bracket.opposite))
}

/// ε = ρ + 2√(ρ ln(1/δ)), the simple conversion [000 §5].
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ρ > 0 is finite and δ ∈ (0, 1).
pub fn simple_epsilon(delta: f64, rho: f64) -> Result<f64, PrivacyError> {
    error::delta(delta)?;
    checked_rho(rho)?;
    Ok(rho + 2.0 * (-rho * delta.ln()).sqrt())
}

/// δ = exp(−(ε − ρ)²/(4ρ)) of [`simple_epsilon`], 1 where ε ≤ ρ.
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 and ρ > 0 are finite.
pub fn simple_delta(epsilon: f64, rho: f64) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    checked_rho(rho)?;
    Ok((-(epsilon - rho).max(0.0).powi(2) / (4.0 * rho)).exp())
}

/// ρ = (√(ln(1/δ) + ε) − √(ln(1/δ)))², the inverse of [`simple_epsilon`].
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 is finite and δ ∈ (0, 1).
pub fn simple_rho(epsilon: f64, delta: f64) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    error::delta(delta)?;
    let log = -delta.ln();
    // The difference of the roots, written without cancellation.
    let root = epsilon / ((log + epsilon).sqrt() + log.sqrt());
    Ok(root * root)
}

/// ρ of a mechanism: Σ μ²/2 over its Gaussian steps and Σ ε²/2 over its Laplace steps. Errors name `accountant`, zcdp or zcdp-simple.
///
/// # Errors
/// [`PrivacyError::RefusedAccountant`] for subsampled Gaussian steps, and whatever [`Mechanism::check`] finds.
pub fn rho_of(accountant: Accountant, mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
    mechanism.check(adjacency)?;
    let mut rho = 0.0;
    for step in mechanism.steps() {
        if let Some(mu) = step.gaussian_mu(adjacency) {
            rho += 0.5 * mu * mu;
        } else if let Some((epsilon, count)) = laplace::step_epsilon(step) {
            rho += 0.5 * epsilon * epsilon * count as f64;
        } else {
            let reason = "subsampling does not amplify zCDP; use pld or rdp";
            return Err(error::refused(accountant, step.name(), reason));
        }
    }
    Ok(rho)
}

fn checked_rho(rho: f64) -> Result<f64, PrivacyError> {
    error::positive(rho, "rho", "it is mu squared over two, for instance 0.1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::assert_relative;
    use crate::privacy::gaussian;

    #[test]
    fn golden_epsilons_of_the_reference_library() {
        // reference values, zCDP to (epsilon, delta), dense orders. (rho, delta, epsilon)
        for (rho, delta, expected) in [
            (0.15, 1e-10, 3.573_775_031),
            (0.0144, 1e-10, 1.044_503_239),
            (0.5, 1e-5, 4.728_386_988),
            (0.1, 1e-6, 2.141_938_966),
        ] {
            let found = epsilon(delta, rho).unwrap();
            assert_relative(found, expected, 1e-6, "zCDP");
            // Continuous orders cannot lose against a grid.
            assert!(found <= expected * (1.0 + 1e-9), "{found}");
        }
    }

    #[test]
    fn reference_numbers_of_the_specification() {
        // specification 2.6: tight, simple; then the inverse at two targets.
        for (found, expected, tolerance) in [
            (epsilon(1e-6, 0.1), 2.141_938_9, 2e-8),
            (simple_epsilon(1e-6, 0.1), 2.450_788_0, 2e-8),
            (epsilon(1e-5, 0.5), 4.728_387_0, 2e-8),
            (simple_epsilon(1e-5, 0.5), 5.298_525_9, 2e-8),
            (simple_rho(0.1, 1e-6), 1.803_04e-4, 3e-6),
            (rho(0.1, 1e-6), 3.210_48e-4, 3e-6),
            (simple_rho(2.0, 1e-6), 0.067_573_9, 1e-6),
            (rho(2.0, 1e-6), 0.088_152_7, 1e-6),
        ] {
            assert_relative(found.unwrap(), expected, tolerance, "zCDP");
        }
    }

    #[test]
    fn conversions_round_trip_and_never_undercut_the_exact_gaussian() {
        for rho_value in [1e-8, 1e-3, 0.3, 5.0, 200.0] {
            for delta_value in [1e-12, 1e-6, 1e-2] {
                let tight = epsilon(delta_value, rho_value).unwrap();
                assert!(tight >= gaussian::epsilon(delta_value, (2.0 * rho_value).sqrt()).unwrap());
                assert!(tight <= simple_epsilon(delta_value, rho_value).unwrap());
                if tight > 0.0 {
                    assert_relative(delta(tight, rho_value).unwrap(), delta_value, 1e-7, "zCDP");
                    assert_relative(rho(tight, delta_value).unwrap(), rho_value, 1e-7, "zCDP");
                    let simple = simple_epsilon(delta_value, rho_value).unwrap();
                    assert_relative(simple_delta(simple, rho_value).unwrap(), delta_value, 1e-7, "zCDP");
                    assert!(simple_delta(tight, rho_value).unwrap() >= delta_value);
                    assert_relative(simple_rho(simple, delta_value).unwrap(), rho_value, 1e-12, "zCDP");
                }
            }
        }
    }
}

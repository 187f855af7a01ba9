//! Pure differential privacy: the Laplace mechanism, its amplification by subsampling, and composition by addition
//! (paper 003; specification 2.4).
//!
//! In any dimension, noise Laplace(b) on every coordinate of a quantity with L1 sensitivity S is dominated by the scalar
//! mechanism with shift S: moving one coordinate after the other composes trade-off functions, and for log-concave noise
//! shifts add up exactly (Dong–Roth–Su 2022, Lemma A.5 and Proposition A.3). The RDP and PLD accountants use that pair.

use super::accountant::Accountant;
use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use super::sampling::Sampling;
use crate::problem::adjacency::Adjacency;

/// ln(1 + q(e^ε − 1)), the amplified ε of a sampler that reads a given example with probability q: without replacement
/// under replace-one with q = m/n [003 (3.3), Thm A.3], and Poisson under add/remove or zero-out
/// (Balle–Barthe–Gaboardi 2018, Thm 8).
pub fn amplified_epsilon(epsilon: f64, rate: f64) -> f64 {
    if epsilon > 40.0 {
        epsilon + (rate + (1.0 - rate) * (-epsilon).exp()).ln()
    } else {
        (rate * epsilon.exp_m1()).ln_1p()
    }
}

/// ln(1 + (e^ε − 1)/q), the inverse of [`amplified_epsilon`] [003 (3.4)].
pub fn unamplified_epsilon(epsilon: f64, rate: f64) -> f64 {
    amplified_epsilon(epsilon, 1.0 / rate)
}

/// (ε of one round after amplification, rounds) of a Laplace step; nothing for other mechanisms.
pub(super) fn step_epsilon(step: &Mechanism) -> Option<(f64, usize)> {
    match *step {
        Mechanism::Laplace { scale, l1_sensitivity, sampling, steps } => {
            let inner = l1_sensitivity / scale;
            Some((sampling.rate().map_or(inner, |rate| amplified_epsilon(inner, rate)), steps))
        }
        _ => None,
    }
}

/// True if the step is one Laplace mechanism rather than a mixture of two: its exact loss is then known.
pub(super) fn is_plain(step: &Mechanism) -> bool {
    matches!(step, Mechanism::Laplace { sampling, .. } if sampling.rate().is_none_or(|rate| rate == 1.0))
}

/// Σ ε_t over all rounds of Laplace mechanisms: pure (ε, 0)-DP [003 Thm A.2].
///
/// # Errors
/// [`PrivacyError::RefusedAccountant`] for Gaussian steps, and whatever [`Mechanism::check`] finds.
pub fn pure_epsilon(mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
    mechanism.check(adjacency)?;
    let mut total = 0.0;
    for step in mechanism.steps() {
        let (epsilon, count) = step_epsilon(step).ok_or_else(|| {
            let reason = "Gaussian noise gives no pure differential privacy; use gdp, rdp or pld";
            error::refused(Accountant::Pure, step.name(), reason)
        })?;
        total += epsilon * count as f64;
    }
    Ok(total)
}

/// The Laplace mechanism of paper 003: T rounds on m of n examples without replacement (every example for m = n), noise of
/// scale b on the mean, terms that differ by at most S₁ in L1 norm.
pub fn mean_mechanism(scale: f64, l1_sensitivity: f64, batch: usize, population: usize, steps: usize) -> Mechanism {
    let sampling =
        if batch == population { Sampling::FullBatch } else { Sampling::WithoutReplacement { batch, population } };
    Mechanism::Laplace { scale, l1_sensitivity: l1_sensitivity / batch as f64, sampling, steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_of_the_amplification_gives_a_mean_its_epsilon() {
        // b = S/(m·ln(1 + (n/m)(e^ε − 1))) [003 (3.5)].
        for (batch, population) in [(1, 1), (10, 1000), (1000, 1000), (600, 60_000)] {
            for target in [1e-9, 1e-3, 0.5, 20.0, 300.0] {
                let inner = unamplified_epsilon(target, batch as f64 / population as f64);
                let mechanism = mean_mechanism(2.0 / (batch as f64 * inner), 2.0, batch, population, 3);
                let found = pure_epsilon(&mechanism, Adjacency::ReplaceOne).unwrap();
                assert!((found / (3.0 * target) - 1.0).abs() < 1e-12, "{found} for 3 x {target}");
            }
        }
    }

    #[test]
    fn a_whole_batch_is_not_amplified_and_a_small_one_almost_in_proportion() {
        assert!((amplified_epsilon(0.7, 1.0) - 0.7).abs() < 1e-15);
        assert!((amplified_epsilon(1e-6, 0.01) / 1e-8 - 1.0).abs() < 1e-6);
        // ln(1 + 0.01(e - 1)) in 20 digits.
        assert!((amplified_epsilon(1.0, 0.01) / 0.017_036_863_236_176_55 - 1.0).abs() < 1e-14);
        assert!((amplified_epsilon(50.0, 0.01) - (50.0 + 0.01_f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn per_round_scales_add_up() {
        let schedule = Mechanism::laplace_schedule(&[1.0, 2.0, 4.0], 0.5, Sampling::FullBatch);
        let found = pure_epsilon(&schedule, Adjacency::ReplaceOne).unwrap();
        assert!((found - 0.875).abs() < 1e-15);
    }
}

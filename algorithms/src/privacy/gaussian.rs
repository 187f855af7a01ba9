//! The Gaussian mechanism, exactly (Balle–Wang 2018; specification 2.1).
//!
//! δ(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), with μ = sensitivity / noise standard deviation. In terms of
//! a = ε/μ − μ/2 and the Mills ratio R this is φ(a)·(R(a) − R(a + μ)), which neither cancels nor underflows before its
//! logarithm is taken. All three directions (δ, ε, μ) hold 1e-12 relative wherever the answer is
//! well conditioned; tests compare with 60-digit values from μ = 1e-6 to 1e4 and δ from 1e-300 to 1 − 1e-9.

use super::error::{self, PrivacyError};
use super::search;
use crate::normal::{LN_SQRT_2_PI, density, mills_ratio, mills_ratio_drop, survival};

/// (ln δ, ln(1 − δ)) at ε = μ(a + μ/2) ≥ 0.
fn log_delta_and_complement(a: f64, mu: f64) -> (f64, f64) {
    if a >= -1.0 {
        let log_delta = -0.5 * a * a - LN_SQRT_2_PI + mills_ratio_drop(a, mu).ln();
        (log_delta, (-log_delta.exp()).ln_1p())
    } else {
        // Here μ > 2 and the subtracted term is at most 0.31; below a = −38 both terms vanish against 1.
        let complement = survival(-a) + density(a) * mills_ratio(a + mu);
        ((-complement).ln_1p(), complement.ln())
    }
}

/// ln δ(ε; μ) for ε ≥ 0 and μ > 0; finite where δ itself underflows.
pub fn log_delta(epsilon: f64, mu: f64) -> f64 {
    log_delta_and_complement(epsilon / mu - 0.5 * mu, mu).0
}

/// δ(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), in [0, 1], for ε ≥ 0.
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε ≥ 0 and μ > 0 are finite.
pub fn delta(epsilon: f64, mu: f64) -> Result<f64, PrivacyError> {
    if epsilon != 0.0 {
        error::target_epsilon(epsilon)?;
    }
    Ok(log_delta(epsilon, checked_mu(mu)?).exp())
}

/// The ε ≥ 0 with δ(ε; μ) = δ; 0 where δ(0; μ) ≤ δ already.
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless μ > 0 is finite and δ ∈ (0, 1).
pub fn epsilon(delta: f64, mu: f64) -> Result<f64, PrivacyError> {
    error::delta(delta)?;
    checked_mu(mu)?;
    let excess = log_ratio_to(delta);
    if excess(-0.5 * mu, mu) <= 0.0 {
        return Ok(0.0);
    }
    // δ ≤ Φ(−a) ≤ e^{−a²/2} for a ≥ 0 bounds the root from above.
    let upper = (-2.0 * delta.ln()).sqrt() + 1.0;
    let a = search::root(|a| excess(a, mu), -0.5 * mu, upper.max(-0.5 * mu + 1.0));
    Ok((mu * (a + 0.5 * mu)).max(0.0))
}

/// The μ with δ(ε; μ) = δ: the least private Gaussian mechanism that is still (ε, δ)-DP. The smallest noise standard
/// deviation / sensitivity is 1/μ.
///
/// ```
/// use rounds_algorithms::privacy::gaussian;
///
/// let mu = gaussian::mu(1.0, 1e-5)?;
/// assert!((gaussian::epsilon(1e-5, mu)? - 1.0).abs() < 1e-6);
/// # Ok::<(), rounds_algorithms::privacy::PrivacyError>(())
/// ```
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 is finite and δ ∈ (0, 1).
pub fn mu(epsilon: f64, delta: f64) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    error::delta(delta)?;
    let excess = log_ratio_to(delta);
    let at = |mu: f64| excess(epsilon / mu - 0.5 * mu, mu);
    let (mut lower, mut upper) = ((2.0 * epsilon).sqrt(), (2.0 * epsilon).sqrt());
    while at(upper) < 0.0 {
        lower = upper;
        upper = 2.0 * upper + 0.1;
    }
    while at(lower) > 0.0 {
        upper = lower;
        lower *= 0.5;
    }
    Ok(search::root(at, lower, upper))
}

fn checked_mu(mu: f64) -> Result<f64, PrivacyError> {
    error::positive(mu, "mu", "it is sensitivity / noise standard deviation")
}

/// (a, μ) ↦ a monotone function of δ(a; μ) with its root at `delta`, accurate near 0 and near 1.
fn log_ratio_to(delta: f64) -> impl Fn(f64, f64) -> f64 {
    let (log_delta, log_complement) = (delta.ln(), (-delta).ln_1p());
    move |a, mu| {
        let (log, complement) = log_delta_and_complement(a, mu);
        if delta <= 0.5 { log - log_delta } else { log_complement - complement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::assert_relative;

    /// (μ, δ, ε, relative tolerance of μ).
    const VALUES: [(f64, f64, f64, f64); 35] = [
        // The reference library's analytic Gaussian mechanism: ε of a standard deviation.
        (1.0, 1e-5, 4.377_178_095_681_14, 1e-12),
        (1.0 / 2.0, 1e-5, 1.993_091_404_415_12, 1e-12),
        (1.0 / 5.0, 1e-6, 0.834_117_548_624_052, 1e-12),
        (1.0 / 0.5, 1e-5, 9.997_256_146_434_32, 1e-12),
        (1.0 / 10.0, 1e-9, 0.535_148_231_553_108, 1e-12),
        (1.0 / 100.0, 1e-5, 0.027_219_419_814_571_2, 1e-12),
        // Its row for a standard deviation of 1/3 gives δ to six digits only.
        (3.0, 0.787_601, 1.000_000_014_994_3, 5e-6),
        // And the standard deviation of an ε.
        (1.0 / 3.730_631_634_815_94, 1e-5, 1.0, 2e-12),
        (1.0 / 36.304_690_426_195_2, 1e-6, 0.1, 2e-12),
        (1.0 / 1.543_861_417_775_44, 1e-6, 3.0, 2e-12),
        (1.0 / 0.600_229_072_198_952, 1e-5, 8.0, 2e-12),
        (1.0 / 4.224_678_889_326_82, 1e-6, 1.0, 2e-12),
        (1.0 / 10.673_896_815_08, 1e-9, 0.5, 2e-12),
        // Specification 2.6; its row (1, 1e-5) is off by 5.5e-13 against 40-digit root finding and reference values.
        (0.268_051_123_211_443, 1e-5, 1.0, 1e-12),
        (0.027_544_650_243_827_5, 1e-6, 0.1, 1e-12),
        (0.448_334_740_395_192, 1e-6, 2.0, 1e-12),
        (1.666_030_597_845_718, 1e-5, 8.0, 1e-12),
        // 40-digit root finding.
        (0.268_051_123_211_294_2, 1e-5, 1.0, 1e-14),
        (0.448_334_740_395_192_7, 1e-6, 2.0, 1e-14),
        // 80-digit root finding, at the extremes.
        (1e-06, 1e-12, 4.424_892_759_089_482e-06, 1e-12),
        (1e-06, 1e-07, 9.023_465_934_661_589e-07, 1e-12),
        (0.000_1, 1e-10, 0.000_442_493_815_890_374_6, 1e-12),
        (0.001, 1e-09, 0.004_425_350_887_537_46, 1e-12),
        (0.01, 1e-300, 0.368_298_990_013_809_5, 1e-12),
        (0.1, 1e-15, 0.743_298_397_003_571_7, 1e-12),
        (1.0, 1e-300, 37.448_847_912_139_11, 1e-12),
        (1.0, 0.3, 0.276_617_398_896_849_55, 1e-12),
        (3.0, 0.5, 3.529_275_780_931_74, 1e-12),
        (3.0, 1e-05, 16.675_494_402_828_164, 1e-12),
        (10.0, 1e-05, 91.817_289_624_663_74, 1e-12),
        (20.0, 0.999_999_999, 78.857_087_142_736_4, 1e-12),
        (100.0, 1e-09, 5_598.809_571_473_025, 1e-12),
        (1_000.0, 1e-05, 504_263.892_920_654_1, 1e-12),
        (10_000.0, 1e-10, 50_063_612.409_341_976, 1e-12),
        (10_000.0, 0.9, 49_987_183.484_280_474, 1e-12),
    ];

    #[test]
    fn golden_values_hold_in_both_directions_with_twelve_digits_at_the_extremes() {
        for (mu_value, delta_value, epsilon_value, tolerance) in VALUES {
            let what = format!("mu {mu_value}, delta {delta_value}");
            assert_relative(mu(epsilon_value, delta_value).unwrap(), mu_value, tolerance, &what);
            // ε moves by up to 1.4 times the relative change of μ.
            let factor = if tolerance == 1e-12 { 1.0 } else { 2.0 };
            let tolerance = factor * tolerance.max(1e-12);
            assert_relative(epsilon(delta_value, mu_value).unwrap(), epsilon_value, tolerance, &what);
        }
        for (mu_value, delta_value, epsilon_value, _) in &VALUES[19..] {
            let found = log_delta(*epsilon_value, *mu_value);
            assert_relative(found, delta_value.ln(), 1e-12, "ln delta");
        }
    }

    #[test]
    fn delta_falls_in_epsilon_and_rises_in_mu() {
        let mut previous = 1.0;
        for step in 0..200 {
            let value = delta(f64::from(step) * 0.1, 1.3).unwrap();
            assert!(value < previous && value > 0.0);
            previous = value;
        }
        let mut previous = 0.0;
        for step in -60..40 {
            let value = delta(1.0, (f64::from(step) * 0.1).exp()).unwrap();
            assert!(value >= previous && value <= 1.0, "{value} after {previous}");
            previous = value;
        }
    }

    #[test]
    fn a_large_delta_needs_no_epsilon_and_a_tiny_mechanism_has_a_tiny_one() {
        assert_eq!(epsilon(0.9, 0.1).unwrap(), 0.0);
        assert!(epsilon(1e-5, 1e-12).unwrap() < 1e-11);
        assert_eq!(delta(5.0, 1e-9).unwrap(), 0.0);
        assert_eq!(delta(0.0, 100.0).unwrap(), 1.0);
    }
}

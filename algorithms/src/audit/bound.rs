//! From the errors of a test to a lower bound on the privacy loss.
//!
//! A test between "the canary took part" and "it did not" makes false alarms with probability α and misses with β. A
//! mechanism that is (ε, δ)-DP for every (ε, δ(ε)) of its curve satisfies 1 − β ≤ e^ε·α + δ(ε) and 1 − α ≤ e^ε·β + δ(ε) for
//! all ε ≥ 0. Counts give upper confidence limits of α and β (Clopper–Pearson); the least private mechanism that they
//! still contradict gives the bound.

use super::guesses::Guesses;
use crate::privacy::pld::PrivacyLoss;
use crate::privacy::rdp::RenyiCurve;
use crate::privacy::{Accountant, Adjacency, Mechanism, PrivacyError, beta_quantile, gdp, normal_quantile};

/// The Clopper–Pearson upper limit of a probability: the p with P(Binomial(trials, p) ≤ successes) = error; 1 where every
/// trial succeeded.
pub(super) fn upper_limit(successes: u64, trials: u64, error: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    let (a, b) = (successes as f64 + 1.0, (trials - successes) as f64);
    // P(X ≤ x) = 1 − I_p(x + 1, n − x) = I_{1−p}(n − x, x + 1).
    1.0 - beta_quantile(error, b, a)
}

/// Upper confidence limits of a test's errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestErrors {
    /// α: alarm though the canary did not take part.
    pub false_alarm: f64,
    /// β: no alarm though it did.
    pub miss: f64,
}

impl TestErrors {
    /// The limits from counts, each at half of `error`.
    pub fn from_counts(false_alarms: u64, misses: u64, trials: u64, error: f64) -> Self {
        Self {
            false_alarm: upper_limit(false_alarms, trials, 0.5 * error),
            miss: upper_limit(misses, trials, 0.5 * error),
        }
    }

    /// The largest μ that the errors contradict: Φ⁻¹(1 − α) − Φ⁻¹(β), at least 0.
    pub fn gaussian_mu(self) -> f64 {
        (-normal_quantile(self.false_alarm) - normal_quantile(self.miss)).max(0.0)
    }

    /// The largest ε at `delta` that the errors contradict, ln((1 − β − δ)/α) in either direction, at least 0.
    pub fn log_ratio(self, delta: f64) -> f64 {
        let one = ((1.0 - self.miss - delta).max(0.0) / self.false_alarm).ln();
        let other = ((1.0 - self.false_alarm - delta).max(0.0) / self.miss).ln();
        one.max(other).max(0.0)
    }
}

/// A lower bound, in the units of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LowerBound {
    /// μ, where the mechanism is one Gaussian mechanism.
    pub(super) mu: Option<f64>,
    /// ε at the claim's δ.
    pub(super) epsilon: f64,
}

/// A family of mechanisms: the claimed one on a sensitivity `factor` times as large.
pub(super) struct ClaimedFamily {
    /// The claimed mechanism, factor 1.
    pub(super) mechanism: Mechanism,
    /// The claim's accountant.
    pub(super) accountant: Accountant,
    /// The claim's relation.
    pub(super) adjacency: Adjacency,
    /// The claim's δ; 0 for a pure claim.
    pub(super) delta: f64,
}

/// Relative accuracy of ε of the curves that are compared: δ(ε) is rounded up, so that a coarse one only weakens a bound.
const CURVE_ACCURACY: f64 = 2e-3;

/// Points of such a curve for guesses, from ε = 0.02 to 30.
const CURVE_POINTS: i32 = 47;

/// What runs showed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// Of many runs with one canary or without.
    Errors(TestErrors),
    /// Of one run with many.
    Guesses(Guesses),
}

/// A claim that is contradicted by this factor (e^1.5 = 4.5) is not followed further.
const MOST_LOG_FACTOR: f64 = 1.5;

impl ClaimedFamily {
    /// Claimed μ, where the run is one Gaussian mechanism.
    pub(super) fn mu(&self) -> Option<f64> {
        gdp::mu(&self.mechanism, self.adjacency).ok()
    }

    /// The bound from what was seen: the member with the smallest factor that it does not contradict.
    pub(super) fn lower_bound(&self, seen: Seen) -> Result<LowerBound, PrivacyError> {
        if let Some(mu) = self.mu() {
            let bound = match seen {
                Seen::Errors(errors) => errors.gaussian_mu(),
                Seen::Guesses(guesses) => guesses.gaussian_mu(),
            };
            let epsilon = if bound > 0.0 { self.epsilon(bound / mu)? } else { 0.0 };
            return Ok(LowerBound { mu: Some(bound), epsilon });
        }
        let contradicted = |log_factor: f64| self.contradicts(log_factor.exp(), seen);
        // The claim itself is asked first: the bracket stays where curves are within numerical reach.
        let (mut lower, mut upper) = (0.0, 0.0);
        if contradicted(0.0)? {
            // Far beyond the claim its curve may be out of numerical reach: what was reached stands.
            while lower < MOST_LOG_FACTOR && contradicted(upper).unwrap_or(false) {
                lower = upper;
                upper += 0.25;
            }
        } else {
            while !contradicted(lower)? {
                upper = lower;
                lower -= 0.25;
                if lower < -2.0 * MOST_LOG_FACTOR {
                    return Ok(LowerBound { mu: None, epsilon: 0.0 });
                }
            }
        }
        while upper - lower > 1e-3 && lower < MOST_LOG_FACTOR {
            let middle = 0.5 * (lower + upper);
            if contradicted(middle).unwrap_or(false) {
                lower = middle;
            } else {
                upper = middle;
            }
        }
        Ok(LowerBound { mu: None, epsilon: self.epsilon(lower.exp())? })
    }

    /// ε at the claim's δ of the member with this factor.
    pub(super) fn epsilon(&self, factor: f64) -> Result<f64, PrivacyError> {
        let member = self.mechanism.with_inflated_sensitivity(factor);
        self.accountant.epsilon(&member, self.adjacency, self.delta)
    }

    /// True if no test can have errors this small on the member with this factor: some ε has
    /// 1 − β > e^ε·α + δ(ε), or the same with α and β exchanged. Or if so many guesses are hardly ever right.
    fn contradicts(&self, factor: f64, seen: Seen) -> Result<bool, PrivacyError> {
        let member = self.mechanism.with_inflated_sensitivity(factor);
        let delta: Box<dyn Fn(f64) -> Result<f64, PrivacyError>> = match PrivacyLoss::new(&member, self.adjacency) {
            Ok(loss) => {
                let loss = loss.with_relative_accuracy(CURVE_ACCURACY)?;
                Box::new(move |epsilon| loss.delta(epsilon))
            }
            // Gaussian noise on batches without replacement has no known pair, only a Rényi curve.
            Err(PrivacyError::RefusedAccountant { .. }) => {
                let curve = RenyiCurve::new(&member, self.adjacency)?;
                Box::new(move |epsilon| Ok(curve.delta(epsilon)?.0))
            }
            Err(error) => return Err(error),
        };
        let errors = match seen {
            Seen::Errors(errors) => errors,
            Seen::Guesses(guesses) => {
                // Fewer ε weaken the bound, and no more.
                // An ε out of numerical reach asks for nothing; of pure mechanisms no more than their ε is lost.
                let pure = |epsilon| Accountant::Pure.delta(&member, self.adjacency, epsilon).unwrap_or(1.0);
                let curve = (0..CURVE_POINTS).map(|point| {
                    let epsilon = 0.02 * 1.17_f64.powi(point);
                    (epsilon, delta(epsilon).unwrap_or(1.0).min(pure(epsilon)))
                });
                return Ok(guesses.contradict_curve(&curve.collect::<Vec<_>>()));
            }
        };
        for (alarm, miss) in [(errors.false_alarm, errors.miss), (errors.miss, errors.false_alarm)] {
            let largest = ((1.0 - miss) / alarm).ln();
            if largest <= 0.0 {
                continue;
            }
            // δ(ε) is convex in e^ε, so that the excess has one maximum: a golden-section search.
            let excess = |epsilon: f64| -> Result<f64, PrivacyError> {
                Ok(1.0 - miss - epsilon.exp() * alarm - delta(epsilon)?)
            };
            let share = 0.5 * (5.0_f64.sqrt() - 1.0);
            let (mut low, mut high) = (1e-6, largest.max(2e-6));
            let (mut left, mut right) = (high - share * (high - low), low + share * (high - low));
            let (mut at_left, mut at_right) = (excess(left)?, excess(right)?);
            for _ in 0..14 {
                if at_left > 0.0 || at_right > 0.0 {
                    return Ok(true);
                }
                if at_left > at_right {
                    (high, right, at_right) = (right, left, at_left);
                    left = high - share * (high - low);
                    at_left = excess(left)?;
                } else {
                    (low, left, at_left) = (left, right, at_right);
                    right = low + share * (high - low);
                    at_right = excess(right)?;
                }
            }
            if at_left > 0.0 || at_right > 0.0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::{assert_relative, gaussian, laplace, poisson};

    /// P(Binomial(n, p) ≤ x), term by term.
    fn binomial_tail(x: u64, n: u64, p: f64) -> f64 {
        (0..=x)
            .map(|k| {
                let (k, n) = (k as f64, n as f64);
                (libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
                    + k * p.ln()
                    + (n - k) * (-p).ln_1p())
                .exp()
            })
            .sum()
    }

    #[test]
    fn the_upper_limit_solves_its_equation() {
        for trials in [1, 7, 100, 2_500] {
            for successes in [0, 1, 3, 50, 99, 2_499] {
                for error in [0.05, 5e-5] {
                    let limit = upper_limit(successes, trials, error);
                    if successes >= trials {
                        assert_eq!(limit, 1.0);
                        continue;
                    }
                    let tail = binomial_tail(successes, trials, limit);
                    assert_relative(tail, error, 1e-7, &format!("{successes}/{trials}"));
                }
            }
        }
        // No success in n trials: 1 − error^{1/n}.
        assert!((upper_limit(0, 100, 0.05) - (1.0 - 0.05_f64.powf(0.01))).abs() < 1e-13);
    }

    fn family(mechanism: Mechanism, delta: f64) -> ClaimedFamily {
        let accountant = Accountant::default_for(&mechanism);
        ClaimedFamily { mechanism, accountant, adjacency: Adjacency::ZeroOut, delta }
    }

    fn errors(false_alarm: f64, miss: f64) -> TestErrors {
        TestErrors { false_alarm, miss }
    }

    #[test]
    fn errors_on_the_curve_of_a_gaussian_give_its_mu_whichever_family_reads_them() {
        // The best test of N(0, 1) against N(1.5, 1), twice.
        for threshold in [0.4, 1.2] {
            let tail = |x: f64| 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2);
            let errors = errors(tail(threshold), tail(1.5 - threshold));
            let bound = family(gaussian(1.0), 1e-5).lower_bound(Seen::Errors(errors)).unwrap();
            assert!((bound.mu.unwrap() - 1.5).abs() < 1e-9);
            let exact = crate::privacy::gaussian::epsilon(1e-5, 1.5).unwrap();
            assert!((bound.epsilon / exact - 1.0).abs() < 1e-9);
            // A subsampled mechanism of rate nearly 1 is nearly that Gaussian, and is bounded through its curve.
            let subsampled = poisson(1.0, 1.0 - 1e-9, 1);
            let LowerBound { mu, epsilon } = family(subsampled, 1e-5).lower_bound(Seen::Errors(errors)).unwrap();
            assert_eq!(mu, None);
            assert!((epsilon / exact - 1.0).abs() < 0.01, "{epsilon} for {exact}");
            assert!(epsilon < exact * (1.0 + 1e-6), "a bound never exceeds the truth");
        }
    }

    #[test]
    fn errors_of_a_laplace_mechanism_give_its_epsilon() {
        // Laplace(1) around 0 and around 1.4, threshold 1.4: α = e^{−1.4}/2, β = 1/2.
        let errors = errors(0.5 * (-1.4_f64).exp(), 0.5);
        let bound = family(laplace(1.0, 1.0, 1), 0.0).lower_bound(Seen::Errors(errors)).unwrap().epsilon;
        assert!((bound - 1.4).abs() < 0.02 && bound <= 1.4, "{bound}");
    }

    #[test]
    fn a_test_that_guesses_proves_nothing() {
        let errors = errors(0.5, 0.5);
        assert!(errors.gaussian_mu() < 1e-12);
        let bound = family(poisson(1.0, 0.5, 2), 1e-5).lower_bound(Seen::Errors(errors)).unwrap();
        assert_eq!(bound.epsilon, 0.0);
    }
}

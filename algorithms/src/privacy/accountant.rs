//! ε, δ and the noise of a mechanism by any accountant. Accountants are values without state.

use serde::{Deserialize, Serialize};

use super::{Adjacency, Mechanism, PrivacyError, Sampling, error, gaussian, gdp, laplace, pld, rdp, search, zcdp};
use crate::choices::choices;

choices! {
    /// An accountant turns a mechanism into (ε, δ). Every ε is an upper bound; none is a central-limit approximation.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Accountant {
        /// Exact for mechanisms that are Gaussian throughout.
        Gdp = "gdp",
        /// Gaussian and Laplace without Gaussian subsampling; the tight conversion.
        Zcdp = "zcdp",
        /// Everything; continuous orders, the tight conversion.
        Rdp = "rdp",
        /// The privacy loss distribution: the tightest for Poisson sampling and unlike steps.
        Pld = "pld",
        /// Pure ε by addition, for Laplace.
        Pure = "pure",
    }
}

impl Accountant {
    /// The tightest accountant that covers `mechanism`: gdp for Gaussian ones (exact), pure for Laplace ones (the guarantee
    /// without δ), rdp where a batch is drawn without replacement (the only theorem for it), pld for the rest.
    pub fn default_for(mechanism: &Mechanism) -> Self {
        let steps = mechanism.steps();
        let gaussian = |step: &&Mechanism| step.gaussian_mu(Adjacency::ZeroOut).is_some();
        let without_replacement = |step: &&Mechanism| {
            let sampling = Mechanism::sampling(step);
            matches!(sampling, Some(Sampling::WithoutReplacement { .. }))
                && matches!(step, Mechanism::SubsampledGaussian { .. })
        };
        if steps.iter().all(gaussian) {
            Self::Gdp
        } else if steps.iter().all(|step| laplace::step_epsilon(step).is_some()) {
            Self::Pure
        } else if steps.iter().any(|step| without_replacement(step) && !gaussian(step)) {
            Self::Rdp
        } else {
            Self::Pld
        }
    }

    /// The smallest ε this accountant proves for `mechanism` at δ. The pure accountant's ε holds at δ = 0 and accepts it.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let mechanism = Mechanism::Gaussian {
    ///     noise_multiplier: 2.0,
    ///     sampling: Sampling::FullBatch,
    ///     participations: 4,
    /// };
    /// let epsilon = Accountant::Gdp.epsilon(&mechanism, Adjacency::ZeroOut, 1e-5)?;
    /// assert!((epsilon - 4.3772).abs() < 1e-3);
    /// # Ok::<(), rounds_algorithms::privacy::PrivacyError>(())
    /// ```
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] for δ ∉ (0, 1), [`PrivacyError::RefusedAccountant`] where no theorem covers the
    /// mechanism, and whatever [`Mechanism::check`] finds.
    pub fn epsilon(self, mechanism: &Mechanism, adjacency: Adjacency, delta: f64) -> Result<f64, PrivacyError> {
        if !(self == Self::Pure && delta == 0.0) {
            error::delta(delta)?;
        }
        match self {
            Self::Gdp => gaussian::epsilon(delta, gdp::mu(mechanism, adjacency)?),
            Self::Zcdp => zcdp::epsilon(delta, zcdp::rho_of(mechanism, adjacency)?),
            Self::Rdp => Ok(rdp::RenyiCurve::new(mechanism, adjacency)?.epsilon(delta)?.0),
            Self::Pld => pld::PrivacyLoss::new(mechanism, adjacency)?.epsilon(delta),
            Self::Pure => laplace::pure_epsilon(mechanism, adjacency),
        }
    }

    /// The smallest δ this accountant proves for `mechanism` at ε.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon), with [`PrivacyError::OutOfRange`] unless ε > 0 is finite.
    pub fn delta(self, mechanism: &Mechanism, adjacency: Adjacency, epsilon: f64) -> Result<f64, PrivacyError> {
        error::target_epsilon(epsilon)?;
        match self {
            Self::Gdp => gaussian::delta(epsilon, gdp::mu(mechanism, adjacency)?),
            Self::Zcdp => zcdp::delta(epsilon, zcdp::rho_of(mechanism, adjacency)?),
            Self::Rdp => Ok(rdp::RenyiCurve::new(mechanism, adjacency)?.delta(epsilon)?.0),
            Self::Pld => pld::PrivacyLoss::new(mechanism, adjacency)?.delta(epsilon),
            Self::Pure => {
                // Randomised response is the worst ε₀-DP mechanism: δ = (e^{ε₀} − e^ε)/(1 + e^{ε₀}).
                let pure = laplace::pure_epsilon(mechanism, adjacency)?;
                Ok((-(epsilon - pure).exp_m1() / (1.0 + (-pure).exp())).max(0.0))
            }
        }
    }
}

/// Noise multipliers are searched between these.
const LOWEST: f64 = 1e-9;
const HIGHEST: f64 = 1e12;

/// The smallest noise whose ε at δ is at most the target, rounded up: the ε of the result is at most `epsilon`, and that of
/// a multiplier smaller by 1e-9 relative is not.
///
/// `mechanism_at` states the mechanism for a noise multiplier (for Laplace, any parameter that scales the noise); ε must
/// fall as it grows.
///
/// ```
/// use rounds_algorithms::prelude::*;
///
/// let mechanism = |noise_multiplier| Mechanism::SubsampledGaussian {
///     noise_multiplier,
///     sampling: Sampling::Poisson { rate: 0.01 },
///     steps: 100,
/// };
/// let noise = calibrate(Accountant::Rdp, Adjacency::ZeroOut, 1.0, 1e-5, mechanism)?;
/// assert!(Accountant::Rdp.epsilon(&mechanism(noise), Adjacency::ZeroOut, 1e-5)? <= 1.0);
/// # Ok::<(), rounds_algorithms::privacy::PrivacyError>(())
/// ```
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless ε > 0 is finite and δ ∈ (0, 1) (δ = 0 too for the pure accountant),
/// [`PrivacyError::Unreachable`] if no noise multiplier in [1e-9, 1e12] brackets the target, and the errors of
/// [`Accountant::epsilon`].
pub fn calibrate(
    accountant: Accountant,
    adjacency: Adjacency,
    epsilon: f64,
    delta: f64,
    mechanism_at: impl Fn(f64) -> Mechanism,
) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    let excess = |accountant: Accountant, noise: f64| -> Result<f64, PrivacyError> {
        let found = accountant.epsilon(&mechanism_at(noise), adjacency, delta)?;
        Ok((found / epsilon).ln().clamp(-100.0, 100.0))
    };
    // The Rényi accountant is quick and never far above the tight one: a first bracket for the slow one.
    let (guess, step) = if accountant == Accountant::Pld {
        let bracket = bracket_target(|noise| excess(Accountant::Rdp, noise), 1.0, 2.0);
        match bracket {
            Ok((lower, upper)) => (
                search::bracket_root(|noise| excess(Accountant::Rdp, noise), lower, upper, 1e-3)?.root,
                1.1,
            ),
            Err(_) => (1.0, 2.0),
        }
    } else {
        (1.0, 2.0)
    };
    let unreachable = |closest: f64| PrivacyError::Unreachable {
        epsilon,
        delta,
        lowest: LOWEST,
        highest: HIGHEST,
        closest: epsilon * closest.exp(),
    };
    let (lower, upper) =
        bracket_target(|noise| excess(accountant, noise), guess, step).map_err(|failure| match failure {
            BracketFailure::Privacy(error) => error,
            BracketFailure::OutOfReach { closest } => unreachable(closest),
        })?;
    let bracket = search::bracket_root(|noise| excess(accountant, noise), lower, upper, 2e-10)?;
    Ok(if bracket.at_root <= 0.0 {
        bracket.root
    } else {
        bracket.opposite
    })
}

enum BracketFailure {
    Privacy(PrivacyError),
    OutOfReach { closest: f64 },
}

/// (noise with ε above the target, noise with ε at most the target), going up or down from `guess` by growing factors.
fn bracket_target(
    excess: impl Fn(f64) -> Result<f64, PrivacyError>,
    guess: f64,
    mut factor: f64,
) -> Result<(f64, f64), BracketFailure> {
    let at_guess = excess(guess).map_err(BracketFailure::Privacy)?;
    let upwards = at_guess > 0.0;
    let mut previous = guess;
    loop {
        let noise = if upwards { previous * factor } else { previous / factor };
        let value = excess(noise).map_err(BracketFailure::Privacy)?;
        if (value > 0.0) != upwards {
            return Ok(if upwards { (previous, noise) } else { (noise, previous) });
        }
        if !(LOWEST..=HIGHEST).contains(&noise) {
            return Err(BracketFailure::OutOfReach { closest: value });
        }
        previous = noise;
        factor = (factor * factor).min(4.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::{self, poisson, subsampled, without_replacement};

    #[test]
    fn calibration_returns_the_smallest_noise_rounded_up() {
        for accountant in [Accountant::Gdp, Accountant::Zcdp, Accountant::Rdp] {
            for (epsilon, delta) in [(0.01, 1e-9), (1.0, 1e-5), (20.0, 1e-2), (400.0, 1e-6)] {
                let noise = calibrate(accountant, Adjacency::ReplaceOne, epsilon, delta, examples::gaussian).unwrap();
                let at = |noise| {
                    accountant
                        .epsilon(&examples::gaussian(noise), Adjacency::ReplaceOne, delta)
                        .unwrap()
                };
                assert!(at(noise) <= epsilon, "{accountant} {epsilon}");
                assert!(at(noise * (1.0 - 1e-9)) > epsilon, "{accountant} {epsilon}");
            }
        }
        let noise = calibrate(Accountant::Gdp, Adjacency::ZeroOut, 1.0, 1e-5, examples::gaussian).unwrap();
        assert!((noise / gaussian::noise_multiplier(1.0, 1e-5).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn golden_calibrations_by_rdp() {
        // reference values: (epsilon, rate, steps, noise multiplier by the reference library's orders).
        for (epsilon, rate, steps, expected) in [
            (1.0, 0.01, 1000, 1.513_122_2),
            (3.0, 0.01, 500, 0.797_947_95),
            (8.0, 0.04, 2250, 1.415_873_2),
            (1.0, 0.004_266_666_667, 14_062, 2.178_420_9),
        ] {
            let found = calibrate(Accountant::Rdp, Adjacency::AddRemove, epsilon, 1e-5, |noise| {
                poisson(noise, rate, steps)
            })
            .unwrap();
            assert!(
                found <= expected * (1.0 + 1e-6) && found > expected * 0.998,
                "{found} against {expected}"
            );
        }
    }

    #[test]
    fn epsilon_falls_with_the_noise_and_rises_with_the_steps() {
        for accountant in [Accountant::Rdp, Accountant::Pld] {
            let mut previous = f64::INFINITY;
            for noise in [0.5, 0.7, 1.0, 2.0, 8.0, 100.0] {
                let at = |steps| {
                    accountant
                        .epsilon(&poisson(noise, 0.02, steps), Adjacency::AddRemove, 1e-6)
                        .unwrap()
                };
                assert!(at(50) < previous && at(50) > 0.0, "{accountant} {noise}");
                assert!(at(100) > at(50));
                previous = at(50);
            }
        }
    }

    #[test]
    fn accountants_refuse_what_no_theorem_covers() {
        let poisson = poisson(1.0, 0.1, 10);
        let laplace = examples::laplace(1.0, 1.0, 1);
        let without = without_replacement(1.0, 1, 10, 2);
        for (accountant, mechanism, adjacency) in [
            (Accountant::Gdp, &poisson, Adjacency::AddRemove),
            (Accountant::Gdp, &laplace, Adjacency::AddRemove),
            (Accountant::Zcdp, &poisson, Adjacency::AddRemove),
            (Accountant::Pure, &poisson, Adjacency::AddRemove),
            (Accountant::Pld, &without, Adjacency::ReplaceOne),
        ] {
            let error = accountant.epsilon(mechanism, adjacency, 1e-5).unwrap_err();
            assert!(matches!(error, PrivacyError::RefusedAccountant { .. }), "{error}");
            assert!(error.to_string().contains(accountant.name()), "{error}");
        }
    }

    #[test]
    fn the_default_accountant_covers_its_mechanism() {
        let sampling = Sampling::WithoutReplacement {
            batch: 5,
            population: 10,
        };
        let laplace = Mechanism::Laplace {
            scale: 1.0,
            l1_sensitivity: 1.0,
            sampling,
            steps: 3,
        };
        let without = subsampled(1.0, sampling, 3);
        let mixed = Mechanism::Composition(vec![examples::gaussian(1.0), laplace.clone()]);
        for (mechanism, adjacency, expected) in [
            (examples::gaussian(1.0), Adjacency::ReplaceOne, Accountant::Gdp),
            (poisson(1.0, 0.1, 3), Adjacency::AddRemove, Accountant::Pld),
            (laplace, Adjacency::ReplaceOne, Accountant::Pure),
            (without, Adjacency::ReplaceOne, Accountant::Rdp),
            (mixed, Adjacency::ReplaceOne, Accountant::Pld),
        ] {
            let accountant = Accountant::default_for(&mechanism);
            assert_eq!(accountant, expected);
            assert!(accountant.epsilon(&mechanism, adjacency, 1e-5).unwrap() > 0.0);
        }
    }

    #[test]
    fn the_pure_delta_is_that_of_randomised_response() {
        let laplace = examples::laplace(1.0, 2.0, 1);
        let at = |epsilon| Accountant::Pure.delta(&laplace, Adjacency::ZeroOut, epsilon).unwrap();
        assert_eq!(at(2.0), 0.0);
        assert_eq!(at(9.0), 0.0);
        assert!((at(1.0) - (2f64.exp() - 1f64.exp()) / (1.0 + 2f64.exp())).abs() < 1e-15);
        assert_eq!(
            Accountant::Pure.epsilon(&laplace, Adjacency::ZeroOut, 0.0).unwrap(),
            2.0
        );
    }

    #[test]
    fn targets_that_no_noise_reaches_are_errors() {
        let fixed = |_| examples::gaussian(1.0);
        let error = calibrate(Accountant::Gdp, Adjacency::ZeroOut, 1.0, 1e-5, fixed).unwrap_err();
        assert!(
            matches!(error, PrivacyError::Unreachable { .. }) && error.to_string().contains("--epsilon"),
            "{error}"
        );
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let message = |result: Result<f64, PrivacyError>| result.unwrap_err().to_string();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let curve = rdp::RenyiCurve::new(&poisson(1.0, 0.1, 1), Adjacency::AddRemove).unwrap();
            for error in [
                message(calibrate(
                    Accountant::Gdp,
                    Adjacency::ZeroOut,
                    bad,
                    1e-5,
                    examples::gaussian,
                )),
                message(gaussian::mu(bad, 1e-5)),
                message(zcdp::delta(bad, 1.0)),
                message(curve.delta(bad).map(|found| found.0)),
            ] {
                assert!(error.contains("--epsilon"), "{error}");
            }
            assert!(message(gaussian::epsilon(1e-5, bad)).contains("mu must be"));
            assert!(message(zcdp::epsilon(1e-5, bad)).contains("--rho"));
            assert!(message(zcdp::simple_epsilon(1e-5, bad)).contains("--rho"));
            assert!(message(rdp::poisson_subsampled_gaussian(bad.min(1.0), 0.1, 1.0)).contains("order"));
            assert!(message(rdp::poisson_subsampled_gaussian(2.0, 0.1, bad)).contains("--noise-multiplier"));
            assert!(rdp::WithoutReplacement::new(0.1, bad).is_err());
        }
        for bad in [0.0, 1.0, -1e-5, 2.0, f64::NAN] {
            let curve = rdp::RenyiCurve::new(&poisson(1.0, 0.1, 1), Adjacency::AddRemove).unwrap();
            for error in [
                message(calibrate(
                    Accountant::Gdp,
                    Adjacency::ZeroOut,
                    1.0,
                    bad,
                    examples::gaussian,
                )),
                message(gaussian::mu(1.0, bad)),
                message(gaussian::epsilon(bad, 1.0)),
                message(zcdp::rho(1.0, bad)),
                message(curve.epsilon(bad).map(|found| found.0)),
            ] {
                assert!(error.contains("--delta"), "{error}");
            }
        }
        assert!(gaussian::delta(-1.0, 1.0).is_err() && gaussian::delta(f64::NAN, 1.0).is_err());
        assert!(message(rdp::poisson_subsampled_gaussian(2.0, 1.5, 1.0)).contains("--sampling-rate"));
        assert!(rdp::WithoutReplacement::new(0.0, 1.0).is_err());
    }
}

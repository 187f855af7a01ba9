//! ε, δ and the noise of a mechanism by any accountant.

use super::accountant::Accountant;
use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use super::sampling::Sampling;
use super::{gaussian, gdp, laplace, pld, rdp, search, zcdp};
use crate::problem::adjacency::Adjacency;

/// How closely an accountant computes. Both are upper bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Precision {
    /// As what is stated.
    #[default]
    Exact,
    /// To some thousandths, in a tenth of the time, for searches that end with the other.
    Rough,
}

impl Accountant {
    /// The tightest accountant that covers `mechanism`: gdp for Gaussian ones (exact), pure for Laplace ones (the guarantee
    /// without δ), rdp where a batch is drawn without replacement (the only theorem for it), pld for the rest.
    pub fn default_for(mechanism: &Mechanism) -> Self {
        let steps = mechanism.steps();
        let gaussian = |step: &&Mechanism| step.gaussian_mu(Adjacency::ZeroOut).is_some();
        let without_replacement = |step: &&Mechanism| {
            step.draws().is_some() && matches!(step.sampling(), Some(Sampling::WithoutReplacement { .. }))
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
        self.epsilon_to(Precision::Exact, mechanism, adjacency, delta)
    }

    /// [`epsilon`](Self::epsilon) so closely.
    pub(super) fn epsilon_to(
        self,
        precision: Precision,
        mechanism: &Mechanism,
        adjacency: Adjacency,
        delta: f64,
    ) -> Result<f64, PrivacyError> {
        if !(self == Self::Pure && delta == 0.0) {
            error::delta(delta)?;
        }
        match self {
            Self::Gdp => gaussian::epsilon(delta, gdp::mu(mechanism, adjacency)?),
            Self::LastIterate => gaussian::epsilon(delta, gdp::last_iterate_mu(mechanism, adjacency)?),
            Self::Zcdp => zcdp::epsilon(delta, zcdp::rho_of(self, mechanism, adjacency)?),
            Self::ZcdpSimple => zcdp::simple_epsilon(delta, zcdp::rho_of(self, mechanism, adjacency)?),
            Self::Rdp => Ok(rdp::RenyiCurve::new(mechanism, adjacency)?.epsilon(delta)?.0),
            Self::Pld => pld::PrivacyLoss::new(mechanism, adjacency)?.computed_to(precision).epsilon(delta),
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
            Self::LastIterate => gaussian::delta(epsilon, gdp::last_iterate_mu(mechanism, adjacency)?),
            Self::Zcdp => zcdp::delta(epsilon, zcdp::rho_of(self, mechanism, adjacency)?),
            Self::ZcdpSimple => zcdp::simple_delta(epsilon, zcdp::rho_of(self, mechanism, adjacency)?),
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
    calibrated(Precision::Exact, accountant, adjacency, (epsilon, delta), mechanism_at)
}

/// [`calibrate`] so closely.
pub(super) fn calibrated(
    precision: Precision,
    accountant: Accountant,
    adjacency: Adjacency,
    (epsilon, delta): (f64, f64),
    mechanism_at: impl Fn(f64) -> Mechanism,
) -> Result<f64, PrivacyError> {
    error::target_epsilon(epsilon)?;
    let excess = |precision: Precision, accountant: Accountant, noise: f64| -> Result<f64, PrivacyError> {
        let found = accountant.epsilon_to(precision, &mechanism_at(noise), adjacency, delta)?;
        Ok((found / epsilon).ln().clamp(-100.0, 100.0))
    };
    let unreachable = |closest: f64| PrivacyError::Unreachable {
        epsilon,
        delta,
        lowest: LOWEST,
        highest: HIGHEST,
        closest: epsilon * closest.exp(),
    };
    let found = |precision, accountant, (guess, step), tolerance| {
        let excess = |noise| excess(precision, accountant, noise);
        let (lower, upper) = bracket_target(excess, guess, step)?.map_err(unreachable)?;
        search::bracket_root(excess, lower, upper, tolerance)
    };
    let mut start = (1.0, 2.0);
    // The Rényi accountant is quick and never far above the tight one: a first bracket for the slow one.
    if accountant == Accountant::Pld
        && let Ok(bracket) = found(Precision::Exact, Accountant::Rdp, start, 1e-3)
    {
        start = (bracket.root, 1.1);
    }
    let is_slow = accountant == Accountant::Pld && mechanism_at(1.0).is_allocated();
    if is_slow || precision == Precision::Rough {
        let bracket = found(Precision::Rough, accountant, start, 1e-5)?;
        start = (bracket.root.max(bracket.opposite), 1.0005);
        if precision == Precision::Rough {
            return Ok(start.0);
        }
    }
    let bracket = found(precision, accountant, start, 2e-10)?;
    Ok(if bracket.at_root <= 0.0 { bracket.root } else { bracket.opposite })
}

/// (noise with ε above the target, noise with ε at most the target), going up or down from `guess` by growing factors; what
/// came closest, where the noises between which is searched end before.
pub(super) fn bracket_target<E>(
    excess: impl Fn(f64) -> Result<f64, E>,
    guess: f64,
    mut factor: f64,
) -> Result<Result<(f64, f64), f64>, E> {
    let upwards = excess(guess)? > 0.0;
    let mut previous = guess;
    loop {
        let noise = if upwards { previous * factor } else { previous / factor };
        let value = excess(noise)?;
        if (value > 0.0) != upwards {
            return Ok(Ok(if upwards { (previous, noise) } else { (noise, previous) }));
        }
        if !(LOWEST..=HIGHEST).contains(&noise) {
            return Ok(Err(value));
        }
        previous = noise;
        factor = (factor * factor).min(4.0);
    }
}

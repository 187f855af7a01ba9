//! Theorems of the papers as functions of public constants: rates, error bounds, and the allocations of a privacy budget
//! that minimise them. Nothing here sees data, noise or a clock.

pub mod allocation;
pub mod ball_acceleration;
pub mod correlated_noise;
pub mod heavy_ball;
pub mod multistage;
pub mod parallel;
pub mod parallel_time;
mod quadratic;
pub mod recursive;
pub mod recursive_risk;

pub use quadratic::{QuadraticMode, TransitionMatrix, expected_excess};

/// Constants outside the domain of a theorem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum TheoryError {
    /// Strong convexity that is missing.
    #[error("strong convexity mu = {0}: this method needs mu > 0; add a regulariser, `regularization LAMBDA`")]
    NotStronglyConvex(f64),
    /// μ > L, or an L that is no number.
    #[error(
        "strong convexity mu = {mu} exceeds smoothness L = {smoothness}: no function has such constants; check both"
    )]
    Constants { mu: f64, smoothness: f64 },
    /// A step size that is not in (0, 1/L].
    #[error("step size {step_size} is not in (0, 1/L] = (0, {limit}]: choose one of at most {limit}")]
    StepSize { step_size: f64, limit: f64 },
    /// A round, counted from 1, that would get none of the budget.
    #[error(
        "round {round} of {rounds} would get none of the privacy budget (its noise would be infinite): take fewer \
         rounds, a smaller step size, or the uniform allocation"
    )]
    StarvedRound { round: usize, rounds: usize },
    /// A quantity outside its range.
    #[error("{quantity} is {found}: expected {expected}")]
    OutOfRange { quantity: &'static str, found: f64, expected: &'static str },
}

/// A value that satisfies `valid`, or an error that names it.
fn within(quantity: &'static str, found: f64, expected: &'static str, valid: bool) -> Result<f64, TheoryError> {
    if valid { Ok(found) } else { Err(TheoryError::OutOfRange { quantity, found, expected }) }
}

/// Strong convexity μ and smoothness L of a function in S_{μ,L}: `0 < μ ≤ L`, checked once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curvature {
    mu: f64,
    smoothness: f64,
}

impl Curvature {
    /// The class S_{μ,L}.
    ///
    /// # Errors
    /// μ that is not above 0, or μ > L.
    pub fn new(mu: f64, smoothness: f64) -> Result<Self, TheoryError> {
        if !(mu > 0.0 && mu.is_finite()) {
            return Err(TheoryError::NotStronglyConvex(mu));
        }
        if !(mu <= smoothness && smoothness.is_finite()) {
            return Err(TheoryError::Constants { mu, smoothness });
        }
        Ok(Self { mu, smoothness })
    }

    /// μ.
    pub fn mu(self) -> f64 {
        self.mu
    }

    /// L.
    pub fn smoothness(self) -> f64 {
        self.smoothness
    }

    /// κ = L/μ.
    pub fn condition(self) -> f64 {
        self.smoothness / self.mu
    }

    /// `step_size` if it lies in (0, 1/L].
    ///
    /// # Errors
    /// A step size outside.
    pub fn step_size(self, step_size: f64) -> Result<f64, TheoryError> {
        let limit = 1.0 / self.smoothness;
        if step_size > 0.0 && step_size <= limit * (1.0 + 1e-12) {
            Ok(step_size)
        } else {
            Err(TheoryError::StepSize { step_size, limit })
        }
    }

    /// `β = (1 − √(μα))/(1 + √(μα))`, the momentum of [003 Theorem 4.1].
    pub fn momentum(self, step_size: f64) -> f64 {
        let root = (self.mu * step_size).sqrt();
        (1.0 - root) / (1.0 + root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeded uniform numbers in (0, 1) by xorshift.
    pub(super) fn uniform_numbers(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn impossible_constants_are_refused_with_the_reason() {
        for (mu, smoothness, reason) in [
            (0.0, 1.0, "needs mu > 0"),
            (f64::NAN, 1.0, "needs mu > 0"),
            (2.0, 1.0, "mu = 2 exceeds smoothness L = 1"),
            (1.0, f64::INFINITY, "exceeds smoothness"),
        ] {
            let message = Curvature::new(mu, smoothness).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
        let curvature = Curvature::new(0.1, 4.0).unwrap();
        let (step_size, limit) = (0.3, 0.25);
        let expected = TheoryError::StepSize { step_size, limit };
        assert_eq!(curvature.step_size(0.3), Err(expected));
        assert!(curvature.step_size(0.0).is_err());
        assert_eq!(curvature.step_size(0.25), Ok(0.25));
    }

    #[test]
    fn momentum_is_zero_at_condition_one() {
        assert_eq!(Curvature::new(1.0, 1.0).unwrap().momentum(1.0), 0.0);
        let beta = Curvature::new(0.01, 1.0).unwrap().momentum(1.0);
        assert!((beta - 0.9 / 1.1).abs() < 1e-15);
    }
}

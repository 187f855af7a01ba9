//! A pool of gradient queries: the interface between the solvers of a ball and a function.
//!
//! One [`GradientPool::fetch`] is one adaptive round: all its points are fixed by the centre before any answer is known.
//! Everything after it reuses the answers, so it costs computational depth and no query depth.

use std::ops::Range;

use super::{ResqueError, Result, not_positive};
use crate::oracle::Ledger;
use crate::state::StateVisitor;

/// Rounds of stochastic subgradients at perturbed points, and their reweighted means.
pub trait GradientPool {
    /// Number of parameters d.
    fn dimension(&self) -> usize;

    /// L with E‖g‖² ≤ L².
    fn lipschitz(&self) -> f64;

    /// One adaptive round: `count` queries `g_i` at `x̄ + ξ_i`, ξ_i ~ N(0, ρ²I); with ρ = 0 all at x̄ itself. Replaces the
    /// pool.
    ///
    /// # Errors
    /// ρ < 0 or not finite, an answer that is not finite, more queries than the pool's limit.
    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<()>;

    /// `mean = (1/|S|)·Σ_{i ∈ S} w(v, ξ_i)·g_i`, an unbiased estimate of ∇f̂_ρ(x̄ + v) [002 Lemma 1]: no query.
    ///
    /// # Errors
    /// ‖v‖ > ρ, an overflowing weight, samples that were not fetched.
    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<()>;

    /// Rounds and queries so far.
    fn ledger(&self) -> Ledger;
}

/// A method that reads one pool.
pub trait PoolMethod: Send {
    /// One adaptive round.
    ///
    /// # Errors
    /// Whatever the pool refuses.
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()>;

    /// The point to use.
    fn iterate(&self) -> &[f64];

    /// The point whose value says how far it is: of methods that are judged by the best of the points that they query, the last of those.
    fn judged(&self) -> &[f64] {
        self.iterate()
    }

    /// Steps of the outer loop and computational depth, of methods for which these are not the rounds.
    fn steps(&self) -> Option<(u64, u64)> {
        None
    }

    /// Visits the state of a checkpoint.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

/// Most queries of one round.
const MOST_QUERIES: usize = 1 << 27;

/// Refuses a round whose ρ is neither 0 nor a normal number of f32, the type of offsets, or that has too many queries.
pub(super) fn check_round(radius: f64, count: usize) -> Result<()> {
    let usable = radius == 0.0 || radius >= f64::from(f32::MIN_POSITIVE);
    if !(usable && radius.is_finite()) {
        return not_positive("smoothing radius ρ", radius);
    }
    if count > MOST_QUERIES {
        return Err(ResqueError::TooManyQueries { needed: count as f64, limit: MOST_QUERIES as f64 });
    }
    Ok(())
}

/// Refuses samples that the round did not fetch, and offsets at which its gradients cannot be reweighted: any but 0 for
/// ρ = 0, and those outside ‖v‖ ≤ ρ, where `E w² = e^{‖v‖²/ρ²} ≤ e` no longer holds (a rounding of 1e-5 is allowed).
pub(super) fn check_samples(samples: &Range<usize>, fetched: usize, squared_offset: f64, radius: f64) -> Result<()> {
    if samples.end > fetched || samples.is_empty() {
        return Err(ResqueError::PoolExhausted { start: samples.start, end: samples.end, fetched });
    }
    if squared_offset > 0.0 && radius == 0.0 {
        return Err(ResqueError::NotReweightable);
    }
    if squared_offset <= radius * radius * (1.0 + 1e-5) { Ok(()) } else { Err(ResqueError::OutsideValidity { radius }) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Asserts that `pool` refuses the rounds and the means that no pool can answer.
    pub(in crate::resque) fn refuses_bad_rounds(pool: &mut dyn GradientPool) {
        let dimension = pool.dimension();
        let (centre, near, far) = (vec![0.0; dimension], vec![0.0; dimension], vec![0.1f32; dimension]);
        let mut mean = near.clone();
        for value in [-1.0, 1e-40] {
            assert_eq!(pool.fetch(&centre, value, 1), not_positive("smoothing radius ρ", value));
        }
        let radius = 0.1;
        pool.fetch(&centre, radius, 10).unwrap();
        let exhausted = ResqueError::PoolExhausted { start: 5, end: 11, fetched: 10 };
        assert_eq!(pool.reweighted_mean(5..11, &near, &mut mean).unwrap_err(), exhausted);
        let refused = pool.reweighted_mean(0..10, &far, &mut mean).unwrap_err();
        assert_eq!(refused, ResqueError::OutsideValidity { radius });
        pool.fetch(&centre, 0.0, 10).unwrap();
        pool.reweighted_mean(0..10, &near, &mut mean).unwrap();
        let refused = pool.reweighted_mean(0..10, &far, &mut mean).unwrap_err();
        assert_eq!(refused, ResqueError::NotReweightable);
    }

    #[test]
    fn what_no_pool_can_answer_is_refused() {
        for radius in [-0.1, f64::NAN, f64::INFINITY, 1e-40] {
            let refused = check_round(radius, 5);
            assert!(matches!(refused, Err(ResqueError::NotPositive { .. })), "{radius}");
        }
        let refused = check_round(1.0, usize::MAX);
        assert!(matches!(refused, Err(ResqueError::TooManyQueries { .. })));
        assert!(check_round(0.0, 5).is_ok() && check_samples(&(0..10), 10, 0.0, 0.0).is_ok());
        for samples in [5..11, 3..3] {
            let refused = check_samples(&samples, 10, 0.0, 0.1);
            assert!(matches!(refused, Err(ResqueError::PoolExhausted { .. })));
        }
        let refused = check_samples(&(0..10), 10, 0.01, 0.0);
        assert!(matches!(refused, Err(ResqueError::NotReweightable)));
        assert!(check_samples(&(0..10), 10, 1.0, 1.0).is_ok());
        for squared_offset in [1.21, f64::NAN] {
            let refused = check_samples(&(0..10), 10, squared_offset, 1.0);
            assert!(matches!(refused, Err(ResqueError::OutsideValidity { .. })));
        }
    }
}

//! A pool of gradient queries: the interface between the solvers of a ball and a function.
//!
//! One [`GradientPool::fetch`] is one adaptive round: all its points are fixed by the centre before any answer is known.
//! Everything after it reuses the answers, so it costs computational depth and no query depth.

use std::ops::Range;

use super::ResqueError;
use super::estimator::OracleMode;
use crate::oracle::Ledger;
use crate::state::StateVisitor;

/// Rounds of stochastic subgradients at perturbed points, and their reweighted means.
pub trait GradientPool {
    /// Number of parameters d.
    fn dimension(&self) -> usize;

    /// L with E‖g‖² ≤ L².
    fn lipschitz(&self) -> f64;

    /// The way in which queries are made.
    fn mode(&self) -> OracleMode;

    /// One adaptive round: `count` queries `g_i` at `x̄ + ξ_i`, ξ_i ~ N(0, ρ²I); with ρ = 0 all at x̄ itself. Replaces the
    /// pool.
    ///
    /// # Errors
    /// ρ < 0 or not finite, an answer that is not finite, more queries than the pool's limit.
    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<(), ResqueError>;

    /// `mean = (1/|S|)·Σ_{i ∈ S} w(v, ξ_i)·g_i`, an unbiased estimate of ∇f̂_ρ(x̄ + v) [002 Lemma 1]. No query, but in
    /// closed-form mode, where it is a round of |S| queries.
    ///
    /// # Errors
    /// ‖v‖ > ρ, an overflowing weight, samples that were not fetched.
    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<(), ResqueError>;

    /// Rounds and queries so far.
    fn ledger(&self) -> Ledger;
}

/// A method that reads one pool.
pub trait PoolMethod: Send {
    /// One adaptive round.
    ///
    /// # Errors
    /// Whatever the pool refuses.
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<(), ResqueError>;

    /// The point to use.
    fn iterate(&self) -> &[f64];

    /// Visits the state of a checkpoint.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

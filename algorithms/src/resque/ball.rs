//! The ball subproblem and its solvers: `min_{‖v‖ ≤ r} f̂_ρ(x̄ + v) + (λ/2)‖v‖²` [002 Definition 4].

use super::pool::GradientPool;
use super::{ResqueError, Result, positive};

/// A regularised problem on the ball of radius r around the pool's centre, in offsets v = x − x̄.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Subproblem {
    /// λ > 0.
    pub(super) regularization: f64,
    /// r, at most the pool's ρ.
    pub(super) radius: f64,
    /// Requested expected gap φ > 0.
    pub(super) accuracy: f64,
}

impl Subproblem {
    /// The subproblem with λ, r and φ.
    pub(super) fn new(regularization: f64, radius: f64, accuracy: f64) -> Result<Self> {
        Ok(Self {
            regularization: positive("regularisation λ (the solvers of a ball divide by it)", regularization)?,
            radius: positive("ball radius r", radius)?,
            accuracy: positive("subproblem accuracy φ", accuracy)?,
        })
    }
}

/// The queries and the depth of a solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Queries, all of one round.
    pub(super) samples: usize,
    /// Dependent vector operations, a mini-batch counting one.
    pub(super) depth: u64,
}

/// Solves subproblems from an already fetched pool: a ball optimisation oracle of constant query depth.
pub(super) trait BallSolver: Send {
    /// Samples and depth for `subproblem`, given L and ρ.
    ///
    /// # Errors
    /// A subproblem that needs more queries than can be counted, a ρ that is not above 0.
    fn plan(&self, subproblem: &Subproblem, lipschitz: f64, smoothing: f64) -> Result<Plan>;

    /// Writes the solution's offset to `solution`, reading the samples `first..first + plan.samples`.
    fn solve(
        &mut self,
        pool: &mut dyn GradientPool,
        first: usize,
        subproblem: &Subproblem,
        smoothing: f64,
        solution: &mut [f32],
    ) -> Result<()>;
}

/// Most samples of one solve.
const MOST_SAMPLES: f64 = (1u64 << 27) as f64;

/// A computed sample size as an integer.
///
/// # Errors
/// Above 2²⁷ or NaN.
pub(crate) fn sample_size(needed: f64) -> Result<usize> {
    if needed <= MOST_SAMPLES {
        Ok(needed.ceil().max(1.0) as usize)
    } else {
        Err(ResqueError::TooManyQueries { needed, limit: MOST_SAMPLES })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::oracle::Ledger;
    use crate::vectors::{dot, map2};
    use std::ops::Range;

    /// A strongly structured smooth function with exact gradients: f(x) = (m/2)‖x − target‖², for which the ball
    /// subproblem has a closed form. Every "sample" is the exact gradient.
    pub(crate) struct Quadratic {
        pub(crate) target: Vec<f64>,
        pub(crate) curvature: f64,
        pub(crate) centre: Vec<f64>,
        pub(crate) ledger: Ledger,
    }

    impl Quadratic {
        pub(crate) fn new(target: Vec<f64>, curvature: f64) -> Self {
            Self { centre: vec![0.0; target.len()], target, curvature, ledger: Ledger::default() }
        }

        /// argmin of the subproblem: the ray to the target, clipped at r.
        pub(crate) fn exact(&self, subproblem: &Subproblem) -> Vec<f64> {
            let shrink = self.curvature / (self.curvature + subproblem.regularization);
            let mut v = map2(&self.target, &self.centre, |t, c| shrink * (t - c));
            crate::resque::geometry::project(&mut v, subproblem.radius);
            v
        }

        /// The subproblem's objective at offset v.
        pub(crate) fn objective(&self, v: &[f64], subproblem: &Subproblem) -> f64 {
            let error = map2(&map2(v, &self.centre, |v, c| c + v), &self.target, |x, t| x - t);
            0.5 * self.curvature * dot(&error, &error) + 0.5 * subproblem.regularization * dot(v, v)
        }
    }

    impl GradientPool for Quadratic {
        fn dimension(&self) -> usize {
            self.target.len()
        }
        fn lipschitz(&self) -> f64 {
            1.0
        }
        fn fetch(&mut self, centre: &[f64], _: f64, count: usize) -> Result<()> {
            self.centre.copy_from_slice(centre);
            self.ledger.rounds += 1;
            self.ledger.gradient_queries += count as u64;
            Ok(())
        }
        fn reweighted_mean(&mut self, _: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<()> {
            for (j, mean) in mean.iter_mut().enumerate() {
                *mean = (self.curvature * (self.centre[j] + f64::from(offset[j]) - self.target[j])) as f32;
            }
            Ok(())
        }
        fn ledger(&self) -> Ledger {
            self.ledger
        }
    }

    #[test]
    fn impossible_subproblems_are_refused() {
        assert!(Subproblem::new(1.0, 1.0, 1.0).is_ok());
        for [regularization, radius, accuracy] in [[0.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, f64::NAN]] {
            let bad = Subproblem::new(regularization, radius, accuracy);
            assert!(matches!(bad, Err(ResqueError::NotPositive { .. })), "{bad:?}");
        }
        assert!(matches!(sample_size(f64::INFINITY), Err(ResqueError::TooManyQueries { .. })));
        assert_eq!(sample_size(2.1).unwrap(), 3);
    }
}

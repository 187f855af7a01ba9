//! An optimiser from a method of [`crate::resque`] that reads a projected pool, one adaptive round a step.

use super::algorithm::{PrepareError, Prepared, Run};
use super::optimizer::{Optimizer, StepError};
use crate::oracle::{Oracle, Phase};
use crate::resque::geometry::narrow;
use crate::resque::pool::PoolMethod;
use crate::resque::projected::{ProjectedPool, Weights};
use crate::state::StateVisitor;

struct Pooled<M> {
    method: M,
    pool: ProjectedPool,
    solution: Vec<f32>,
}

/// `method` on a pool of the problem for `rounds` rounds, without a claim.
pub(super) fn prepared(
    run: &Run<'_>,
    method: impl PoolMethod + 'static,
    (weights, lipschitz): (Weights, f64),
    rounds: u64,
) -> Result<Prepared, PrepareError> {
    let optimizer = Pooled {
        method,
        pool: ProjectedPool::new(run.problem, weights, lipschitz, run.key().clone())?,
        solution: vec![0.0; run.problem.parameters()],
    };
    Ok(Prepared::new(optimizer, rounds).revoked("no noise is added to gradients"))
}

impl<M: PoolMethod> Optimizer for Pooled<M> {
    fn step(&mut self, _: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        oracle.enter(Phase::Gradient);
        self.method.advance(&mut self.pool.on(oracle))?;
        oracle.enter(Phase::Update);
        Ok(())
    }

    fn solution(&mut self) -> &[f32] {
        narrow(&mut self.solution, self.method.iterate());
        &self.solution
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("pool_round", &mut self.pool.round);
        self.method.visit_state(visitor);
    }
}

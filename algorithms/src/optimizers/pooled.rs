//! An optimiser from a method of [`crate::resque`] that reads a projected pool, one adaptive round a step.

use super::{Optimizer, PrepareError, Prepared, Settings, StepError};
use crate::oracle::{Oracle, Phase};
use crate::privacy::PrivacyStatement;
use crate::problem::PublicProblem;
use crate::resque::geometry::narrow;
use crate::resque::pool::PoolMethod;
use crate::resque::projected::{ProjectedPool, Weights};
use crate::state::StateVisitor;

struct Pooled<M> {
    method: M,
    pool: ProjectedPool,
    solution: Vec<f32>,
}

/// `method` on a pool of `problem` for `rounds` rounds, without a claim.
pub(super) fn prepared(
    problem: &PublicProblem,
    settings: &Settings,
    method: impl PoolMethod + 'static,
    weights: Weights,
    lipschitz: f64,
    rounds: u64,
) -> Result<Prepared, PrepareError> {
    let optimizer = Pooled {
        method,
        pool: ProjectedPool::new(problem, weights, lipschitz, settings.key.clone())?,
        solution: vec![0.0; problem.parameters()],
    };
    let statement = PrivacyStatement::none("no noise is added to gradients");
    Ok(Prepared::new(optimizer, rounds, None, statement))
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

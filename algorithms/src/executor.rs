//! The one loop that drives an optimiser: it owns the optimiser, its oracle, the number of rounds done and the end of the
//! run. Clocks, progress bars, traces and checkpoints are [`Observer`]s.

use std::ops::ControlFlow;

use rounds_kernels::arithmetic::in_default_mode;

use crate::optimizers::{Optimizer, Prepared, RoundError};
use crate::oracle::{Ledger, Oracle, Phase};
use crate::parallel::Engine;
use crate::privacy::Arithmetic;
use crate::problem::Problem;
use crate::state::StateVisitor;

/// Code that runs between rounds. A closure from an [`Executor`] to a `ControlFlow` is an observer of finished rounds.
pub trait Observer<E = RoundError>: Send {
    /// Called before every round, in the order of the observers.
    fn before_round(&mut self, _executor: &Executor<'_>) {}

    /// Called after every round, in reverse order: the last observer is closest to the round. `Break` ends the run.
    ///
    /// # Errors
    /// Any error ends the run.
    fn after_round(&mut self, executor: &mut Executor<'_>) -> Result<ControlFlow<()>, E>;
}

impl<E, F: FnMut(&mut Executor<'_>) -> Result<ControlFlow<()>, E> + Send> Observer<E> for F {
    fn after_round(&mut self, executor: &mut Executor<'_>) -> Result<ControlFlow<()>, E> {
        self(executor)
    }
}

/// A prepared optimiser on a problem, between two rounds.
pub struct Executor<'p> {
    optimizer: Box<dyn Optimizer>,
    oracle: Oracle<'p>,
    round: u64,
    rounds: u64,
    placed: bool,
}

impl<'p> Executor<'p> {
    /// The run of `prepared` on `problem`, before its first round.
    pub fn new(problem: &'p Problem, engine: Engine, prepared: Prepared) -> Self {
        Self::on(Oracle::new(problem, engine), prepared)
    }

    /// The run of `prepared` on an oracle, whose counters go on. Its sums are exact where the statement says so.
    pub fn on(oracle: Oracle<'p>, prepared: Prepared) -> Self {
        let is_exact = prepared.privacy.arithmetic.is_some_and(Arithmetic::is_exact);
        let oracle = oracle.at_precision(prepared.precision.into());
        let oracle = if is_exact { oracle.exactly() } else { oracle };
        Self { optimizer: prepared.optimizer, oracle, round: 0, rounds: prepared.rounds, placed: false }
    }

    /// The same run, ended after `rounds` rounds if more are planned.
    #[must_use]
    pub fn limited_to(mut self, rounds: u64) -> Self {
        self.rounds = self.rounds.min(rounds);
        self
    }

    /// The oracle, for another run.
    pub fn into_oracle(self) -> Oracle<'p> {
        self.oracle
    }

    /// Rounds done.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Rounds of the whole run.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// True after the last round.
    pub fn is_finished(&self) -> bool {
        self.round >= self.rounds
    }

    /// Work so far.
    pub fn ledger(&self) -> Ledger {
        self.oracle.ledger()
    }

    /// The parameters to use: the last iterate, or an average where the method says so.
    pub fn solution(&mut self) -> &[f32] {
        in_default_mode(|| self.optimizer.solution())
    }

    /// Visits the state of a checkpoint: the number of rounds done and the optimiser's own state.
    pub fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("round", &mut self.round);
        self.optimizer.visit_state(visitor);
    }

    /// Restores the counters of an interrupted run.
    pub fn set_ledger(&mut self, ledger: Ledger) {
        self.oracle.set_ledger(ledger);
    }

    /// Brings rows to the ranks that read them, as far as that is known before the first round. [`run`](Self::run) does it
    /// where it was not done; called alone, it keeps the transfer out of a timed run.
    pub fn place(&mut self) {
        if !self.placed {
            self.oracle.place(self.optimizer.batches(), self.rounds);
            self.placed = true;
        }
    }

    /// One round.
    ///
    /// # Errors
    /// A query without an answer, noise that is used up, a round past the planned ones. The state is then unusable.
    pub fn advance(&mut self) -> Result<(), RoundError> {
        if self.is_finished() {
            return Err(RoundError::Finished { rounds: self.rounds });
        }
        let round = self.round;
        self.oracle.enter(Phase::Sample);
        let step = in_default_mode(|| self.optimizer.step(round, &mut self.oracle));
        step.map_err(|source| RoundError::Step { round, source })?;
        self.round += 1;
        Ok(())
    }

    /// All rounds that are left.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// # use std::sync::Arc;
    /// # let labels = Labels::Values(vec![1.0, 2.0, 3.0, 4.0]);
    /// # let dataset = Dataset::new("line", Features::f32(vec![0.25, 0.5, 0.75, 1.0], 1), labels)?;
    /// # let problem = Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0)?;
    /// let settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1))
    ///     .with("batch-size", 4)
    ///     .with("epochs", 200)
    ///     .with("learning-rate", 0.5);
    /// let prepared = catalog::find("sgd")?.prepare(&problem, &settings)?;
    /// let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
    /// executor.run()?;
    /// assert!((executor.solution()[0] - 4.0).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first round that fails.
    pub fn run(&mut self) -> Result<(), RoundError> {
        self.run_observed(&mut [])
    }

    /// All rounds that are left, until an observer ends the run.
    ///
    /// # Errors
    /// The first round or observer that fails.
    pub fn run_observed<E: From<RoundError> + Send>(
        &mut self,
        observers: &mut [&mut dyn Observer<E>],
    ) -> Result<(), E> {
        self.place();
        let engine = self.oracle.engine().clone();
        engine.install(|| {
            let mut flow = ControlFlow::Continue(());
            while flow.is_continue() && !self.is_finished() {
                for observer in observers.iter_mut() {
                    observer.before_round(self);
                }
                self.advance()?;
                for observer in observers.iter_mut().rev() {
                    if observer.after_round(self)?.is_break() {
                        flow = ControlFlow::Break(());
                    }
                }
            }
            Ok(())
        })
    }
}

//! The third step of a run: its rounds, with checkpoints.

use std::ops::ControlFlow;

use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::Prepared;

use super::error::FitError;
use super::load::Loaded;
use super::observer::{Execution, Observer, Stage};
use super::settings::Training;
use crate::checkpoint::{Binding, Checkpoint};

/// Runs all rounds, from the checkpoint's if one is resumed.
pub(super) fn run<'p>(
    training: &Training,
    execution: &Execution,
    observer: &mut dyn Observer,
    loaded: &'p Loaded,
    (prepared, binding): (Prepared, Option<&Binding>),
) -> Result<Executor<'p>, FitError> {
    let group = &execution.group;
    let kept = &training.checkpoint;
    observer.enter(Stage::Placing);
    let mut executor = Executor::new(&loaded.problem, execution.engine.clone(), prepared);
    if let (Some(checkpoint), Some(path), Some(binding)) = (&loaded.resumed, &kept.resume, binding) {
        group.all_ok(checkpoint.restore(path, binding, |visitor| executor.visit_state(visitor)))?;
        executor.set_ledger(checkpoint.ledger());
    }
    // Rows are placed before the timed rounds.
    executor.place();
    observer.enter(Stage::Rounds(executor.rounds()));
    let mut after_round = |executor: &mut Executor<'_>| {
        let round = executor.round();
        observer.after_round(round);
        if executor.is_finished() {
            return Ok(ControlFlow::Continue(()));
        }
        let stopped = group.count().is_none() && observer.stops();
        if let (Some(path), Some(binding)) = (&kept.file, binding)
            && (stopped || round % kept.interval() == 0)
        {
            group.root_only(|| {
                let (ledger, key) = (executor.ledger(), &loaded.source);
                Checkpoint::take(binding.clone(), ledger, key, |visitor| executor.visit_state(visitor)).write(path)
            })?;
        }
        if stopped {
            return Err(FitError::Stopped { round, rounds: executor.rounds(), checkpoint: kept.file.clone() });
        }
        Ok(ControlFlow::Continue(()))
    };
    let run = executor.run_observed(&mut [&mut after_round]);
    group.all_ok(run)?;
    Ok(executor)
}

//! A training run from data to model and privacy statement.
//!
//! data × settings × engine × observer → model + outcome. [`fit`] takes four steps: `load`, `plan` and `publish`, a file each, and the
//! rounds between the last two; `release` holds the refusals, and [`Shown`] is the one rule of what may be told.

mod booking;
mod error;
mod key;
pub(crate) mod load;
mod observer;
mod outcome;
pub(crate) mod plan;
mod publish;
pub(crate) mod release;
mod settings;
pub(crate) mod setup;
pub(crate) mod tune;

pub use error::FitError;
pub use observer::{Execution, Observer, Stage};
pub use outcome::{Diagnostics, Outcome, PrivateFacts, Quality, Shown, Times};
pub use settings::{CheckpointSettings, DataSettings, OptimizerSettings, PrivacySettings, Training};
pub use tune::{Grid, PublicRows, TrialScore, Tuned, Tuning, tune};

use std::ops::ControlFlow;

use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::Prepared;
use rounds_kernels::arithmetic::in_default_mode;

use crate::checkpoint::{Binding, Checkpoint};
use crate::model_file::Model;
use load::Loaded;

/// A run that is finished.
pub struct Fitted {
    /// The model, which predicts, evaluates and is written to a file.
    pub model: Model,
    /// What may be told of the run, with its privacy statement. Of a release nothing else may be.
    pub outcome: Outcome,
}

/// Loads, plans, runs and publishes.
///
/// Every rank of a group takes the same steps; rank 0 alone writes. The same settings, build and data give the same bits for any
/// engine.
///
/// ```
/// use rounds_models::fit::{Execution, Observer, Training, fit};
///
/// /// Counts rounds, and says what a person should know.
/// struct Counting(u64);
///
/// impl Observer for Counting {
///     fn after_round(&mut self, round: u64) {
///         self.0 = round;
///     }
///
///     fn warn(&mut self, warning: &str) {
///         eprintln!("{warning}");
///     }
/// }
///
/// let mut training = Training::on("synthetic-logistic").private(1.0, 1e-5);
/// training.optimizer.epochs = Some(2.0);
/// let mut counting = Counting(0);
/// let fitted = fit(&training, &Execution::default(), &mut counting)?;
/// assert_eq!(counting.0, fitted.outcome.header.rounds);
/// # Ok::<(), rounds_models::fit::FitError>(())
/// ```
///
/// # Errors
/// Anything that the settings, the data or the algorithm refuse, with the way out; [`FitError::Stopped`] if the observer stops it.
pub fn fit(training: &Training, execution: &Execution, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    in_default_mode(|| fit_drawn(training, execution, observer, key::of_system))
}

/// [`fit`] with a generator of the system.
fn fit_drawn(
    training: &Training,
    execution: &Execution,
    observer: &mut dyn Observer,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<Fitted, FitError> {
    let mut loaded = load::load(training, execution, observer, draw, &booking::of_run)?;
    observer.enter(Stage::Planning);
    let (prepared, plan) = plan::plan(training, execution, &loaded)?;
    if let Some(booking) = &mut loaded.booking {
        booking.begin(&prepared.privacy, &loaded.problem)?;
    }
    plan.warnings.iter().for_each(|warning| observer.warn(warning));
    let mut executor = run(training, execution, observer, &loaded, (prepared, plan.binding.as_ref()))?;
    observer.enter(Stage::Publishing);
    let (ledger, weights) = (executor.ledger(), executor.solution().to_vec());
    let finished = publish::finish(Shown::of(&training.privacy), execution, &loaded, ledger, &weights)?;
    let (model, place) = publish::keep(training, execution, observer, &loaded, &plan, weights)?;
    booking::done(loaded.booking.take(), observer, &model);
    let outcome = publish::outcome(training, execution, observer, &loaded, plan, (&finished, &model, place))?;
    Ok(Fitted { model, outcome })
}

/// Runs all rounds, from the checkpoint's if one is resumed.
fn run<'p>(
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

//! A training run from data to model and privacy statement.
//!
//! data × settings × engine × observer → model + outcome. [`fit`] takes four steps, a file each: `load`, `plan`, `rounds`, `publish`;
//! `release` holds the refusals, and [`Shown`] is the one rule of what may be told.

mod booking;
mod error;
mod key;
pub(crate) mod load;
mod observer;
mod outcome;
pub(crate) mod plan;
mod publish;
pub(crate) mod release;
mod rounds;
mod settings;
pub(crate) mod setup;
pub(crate) mod tune;

pub use error::FitError;
pub use observer::{Execution, Observer, Stage};
pub use outcome::{Diagnostics, Outcome, PrivateFacts, Quality, Shown, Times};
pub use settings::{CheckpointSettings, DataSettings, OptimizerSettings, PrivacySettings, Training};
pub use tune::{Grid, PublicRows, TrialScore, Tuned, Tuning, tune};

use rounds_kernels::arithmetic::in_default_mode;

use crate::model_file::Model;

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
        booking.begin(&prepared.privacy, loaded.problem.public())?;
    }
    plan.warnings.iter().for_each(|warning| observer.warn(warning));
    let mut executor = rounds::run(training, execution, observer, &loaded, (prepared, plan.binding.as_ref()))?;
    observer.enter(Stage::Publishing);
    let (ledger, weights) = (executor.ledger(), executor.solution().to_vec());
    let finished = publish::finish(Shown::of(&training.privacy), execution, &loaded, ledger, &weights)?;
    let (model, place) = publish::keep(training, execution, observer, &loaded, &plan, weights)?;
    booking::done(loaded.booking.take(), observer, &model);
    let outcome = publish::outcome(training, execution, observer, &loaded, plan, (&finished, &model, place))?;
    Ok(Fitted { model, outcome })
}

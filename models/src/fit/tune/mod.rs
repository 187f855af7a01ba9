//! Tuning that is paid for: of a random number of trials, each a run with settings drawn from a declared grid, the best one is released.
//!
//! **Privacy.** What a selection costs, and why, stands in [`rounds_algorithms::privacy::selection`]; what a score is, in
//! [`rounds_algorithms::selection`]. A trial's model and its noisy score are one mechanism; trials have keys of their own, and run as any
//! run does. Only the winner's settings and model leave this function: not the number of trials, nor which of them won, nor any score. A trial
//! that diverges, a function of released values, is an outcome with the lowest score. All points of the grid are planned before the first
//! round, from public facts, so that no trial can be refused later.
//!
//! **Resuming.** The number of trials, their settings and their noise follow from the source of the run's key, which lies in the checkpoint, so
//! that a resumed selection is the same selection. A checkpoint is written before the first trial and after each; a trial that was
//! under way begins anew, with the same bits.

mod grid;
mod plan;

pub use grid::{Grid, PublicRows, Tuning};
pub(crate) use plan::SelectionPlan;

use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::privacy::{CalibrationMemory, PrivacyStatement};
use rounds_algorithms::problem::{Domain, Problem, PublicProblem};
use rounds_algorithms::selection::{beats, draw_settings, noisy, number_of_trials, score};
use rounds_algorithms::state::StateVisitor;
use rounds_kernels::arithmetic::in_default_mode;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use rounds_kernels::vector;
use serde::Serialize;

use super::booking;
use super::error::FitError;
use super::load::{self, Loaded};
use super::observer::{Execution, Observer, Stage};
use super::outcome::Outcome;
use super::settings::DataSettings;
use super::setup::{explained, of_system, set_up, with_factorization};
use super::{plan as run_plan, publish};
use crate::checkpoint::{self, Checkpoint};
use crate::data::{self, LabelUse, Request};
use crate::files::identity;
use crate::keyed::{branched, unused};
use crate::model_file::{Model, Target, treat_features};

/// A selection that is finished; serialised, what may be told of it.
#[derive(Serialize)]
pub struct Tuned {
    /// The winner's model, with the statement of the selection.
    #[serde(skip)]
    pub model: Model,
    /// What may be told of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Every trial, of a simulation with diagnostics alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<Vec<TrialScore>>,
}

/// A trial of a simulation, for diagnostics.
#[derive(Clone, Debug, Serialize)]
pub struct TrialScore {
    /// Its settings, in the order of the grid.
    pub settings: Vec<(String, String)>,
    /// Its score over the number of rows, in [−1, 1] but for its noise; none where it diverged.
    pub score: Option<f64>,
}

/// Draws the number of trials and their settings, runs all, and publishes the best.
///
/// ```
/// use rounds_models::fit::{Execution, Grid, Training, Tuning, tune};
///
/// let mut tuning = Tuning::of(Training::on("synthetic-logistic").private(1.0, 1e-5));
/// tuning.training.optimizer.epochs = Some(1.0);
/// tuning.grid = Grid::new([("learning-rate", &["0.5", "2"])])?;
/// tuning.trials = 2.0;
/// let tuned = tune(&tuning, &Execution::default(), &mut ())?;
/// assert!(tuned.outcome.header.privacy.epsilon.is_some_and(|epsilon| epsilon <= 1.0));
/// # Ok::<(), rounds_models::fit::FitError>(())
/// ```
///
/// # Errors
/// Anything that a run of some point of the grid would refuse, and what is no selection: [`Tuning::check`];
/// [`FitError::NoWinner`] where no model comes of it, and [`FitError::Interrupted`] if the observer stops it.
pub fn tune(tuning: &Tuning, execution: &Execution, observer: &mut dyn Observer) -> Result<Tuned, FitError> {
    // Which points a selection tried is not released: what it calibrated must not be found by the time of a later run.
    let own = Execution { calibrations: CalibrationMemory::default(), ..execution.clone() };
    in_default_mode(|| tune_drawn(tuning, &own, observer, of_system))
}

/// [`tune`] with a generator of the system.
fn tune_drawn(
    tuning: &Tuning,
    execution: &Execution,
    observer: &mut dyn Observer,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<Tuned, FitError> {
    if execution.group.count().is_some() {
        return Err(FitError::argument("engine", "trials run in one process; leave out ranks"));
    }
    let algorithm = tuning.check()?;
    if let Some(rows) = &tuning.score_on {
        check_score_rows(tuning, &rows.path)?;
    }
    let training = &tuning.training;
    let setup = set_up(training, execution, draw)?;
    // What a ledger books before a row is read: all trials together. Public rows that are none are refused before it, and so before private
    // bounds are drawn.
    let stated = |problem: &PublicProblem| {
        if let (Some(rows), Some(domain)) = (&tuning.score_on, &setup.domain) {
            let columns = (domain.features(), &Target::of(domain));
            score_rows(tuning, Some(domain), columns, problem.model().loss, rows)?;
        }
        Ok(SelectionPlan::new(tuning, algorithm, problem, &setup.settings, None)?.booked(problem))
    };
    let booking = booking::book(&setup, stated)?;
    observer.enter(Stage::Loading);
    let mut loaded = load::load(booking, setup)?;
    observer.enter(Stage::Planning);
    let score_rows = |rows| {
        let (domain, of) = (loaded.setup.domain.as_ref(), &loaded.trained_on);
        score_rows(tuning, domain, (of.columns(), &of.target), loaded.problem.model().loss, rows)
    };
    let public = tuning.score_on.as_ref().map(score_rows).transpose()?;
    let selection = SelectionPlan::new(tuning, algorithm, &loaded.problem, &loaded.setup.settings, None)?;
    if let Some(reason) = &selection.unclaimed {
        training.privacy.check_release(&loaded.problem, &PrivacyStatement::none(reason))?;
    }
    let rows = loaded.problem.dataset().digest();
    (loaded.setup.is_bound, loaded.digest) = (true, Some(rows));
    let (source, counted) = (loaded.setup.source.clone(), loaded.counted.unwrap_or_default());
    loaded.setup.parameters.extend(tuning.bound());
    let scored = public.as_ref().map_or([0; 32], |rows| rows.dataset().digest());
    let stated = serde_json::to_string(&selection.statement).expect("names and values");
    let binding = run_plan::binding(&loaded, &[rows, scored, counted].concat(), None, stated);
    let mut best = Best { weights: vec![0.0; loaded.problem.parameters()], ..Best::default() };
    let kept = &training.checkpoint;
    if let (Some(resumed), Some(path)) = (&loaded.setup.resumed, &kept.resume) {
        resumed.restore(path, &binding, |visitor| best.visit(visitor))?;
        best.ledger = resumed.ledger();
    }
    let mut selecting = Selecting { tuning, selection: &selection, public: public.as_ref(), source: &source };
    let decided = serde_json::to_vec(&binding.parameters).expect("names and values");
    let draws = branched(&source, "selection", &decided);
    let count = number_of_trials(selection.statement.trials, &draws);
    let places = |trial: u64| draw_settings(&draws, trial, tuning.grid.lengths());
    let room = loaded.begin(&selection.booked(&loaded.problem))?;
    observer.enter(Stage::Trials);
    let mut told = training.privacy.diagnostics.then(Vec::new);
    loop {
        if let Some(path) = &kept.file {
            Checkpoint::take(binding.clone(), best.ledger, &source, |visitor| best.visit(visitor)).write(path)?;
        }
        if best.done == count {
            break;
        }
        if observer.stops() {
            return Err(FitError::Interrupted { checkpoint: kept.file.clone() });
        }
        let trial = best.done;
        let outcome = selecting.trial(observer, &mut loaded, (trial, &places(trial)))?;
        if let Some(told) = &mut told {
            let score = outcome.as_ref().map(|outcome| selecting.mean(&loaded, outcome.score));
            told.push(TrialScore { settings: tuning.grid.at(&places(trial)), score });
        }
        best.take(trial, outcome);
    }
    let Some(winner) = best.winner.checked_sub(1) else {
        for path in [&kept.file, &kept.resume].into_iter().flatten() {
            checkpoint::remove(path)?;
        }
        return Err(FitError::NoWinner);
    };
    observer.enter(Stage::Publishing);
    selecting.enter(&mut loaded, (winner, &places(winner)))?;
    let (prepared, mut plan) = run_plan::plan(&loaded)?;
    let domain = loaded.problem.domain().map(|domain| &**domain);
    let privacy = selection.stated(prepared.privacy, &loaded.problem);
    plan.privacy = run_plan::of_run(privacy, &loaded.trained_on, domain);
    training.privacy.check_release(&loaded.problem, &plan.privacy)?;
    plan.warnings.extend(doubt(training, scored == rows));
    plan.warnings.iter().for_each(|warning| observer.warn(warning));
    drop(room);
    // The checkpoints of the selection, which its trials have none of.
    loaded.setup.training.checkpoint = kept.clone();
    let (model, outcome) = publish::publish(&mut loaded, plan, (best.ledger, best.weights), observer)?;
    Ok(Tuned { model, outcome, trials: told })
}

/// The best trial so far: the state of a selection. Which one it is, is secret.
#[derive(Default)]
struct Best {
    /// Trials that are done.
    done: u64,
    /// The best one's number from 1, or 0.
    winner: u64,
    score: u64,
    weights: Vec<f32>,
    ledger: Ledger,
}

/// What a trial came to.
struct TrialOutcome {
    score: i64,
    ledger: Ledger,
    weights: Vec<f32>,
}

impl Best {
    fn visit(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("trials", &mut self.done);
        visitor.u64("winner", &mut self.winner);
        visitor.u64("score", &mut self.score);
        visitor.f32s("weights", &mut self.weights);
    }

    /// Counts a trial, and keeps it if it is the best one.
    fn take(&mut self, trial: u64, outcome: Option<TrialOutcome>) {
        self.done = trial + 1;
        let before = (self.winner > 0).then_some(self.score as i64);
        if let Some(TrialOutcome { score, ledger, weights }) = outcome.filter(|outcome| beats(outcome.score, before)) {
            *self = Self { done: self.done, winner: trial + 1, score: score as u64, weights, ledger };
        }
    }
}

/// Nobody observes a trial; it can be stopped.
struct Unseen<'a>(&'a mut dyn Observer);

impl Observer for Unseen<'_> {
    fn stops(&mut self) -> bool {
        self.0.stops()
    }
}

/// What all trials share.
struct Selecting<'a> {
    tuning: &'a Tuning,
    selection: &'a SelectionPlan,
    /// The declared public rows that scores are of.
    public: Option<&'a Problem>,
    source: &'a StreamKey,
}

impl Selecting<'_> {
    /// Makes `loaded` the run of a trial with the settings at these places.
    fn enter(&self, loaded: &mut Loaded, (trial, places): (u64, &[usize])) -> Result<(), FitError> {
        let setup = &mut loaded.setup;
        setup.training = self.tuning.at(places)?;
        // What was calibrated is the same for all; strategies are a trial's own, since a digest of them enters its key.
        let calibrations = setup.settings.calibrations.clone();
        (setup.settings, setup.factorization_used) = with_factorization(&setup.training, setup.algorithm)?;
        setup.source = branched(self.source, "trial", &trial.to_le_bytes());
        (setup.settings.budget, setup.settings.calibrations) = (self.selection.budget, calibrations);
        setup.settings.key = unused(&setup.source);
        let own = setup.training.bound_parameters(setup.domain.as_deref());
        setup.parameters = own.into_iter().chain(self.tuning.bound()).collect();
        Ok(loaded.problem.regularize(setup.training.optimizer.regularization)?)
    }

    /// Runs a trial and scores it; `None` if it diverges.
    fn trial(
        &mut self,
        observer: &mut dyn Observer,
        loaded: &mut Loaded,
        trial: (u64, &[usize]),
    ) -> Result<Option<TrialOutcome>, FitError> {
        self.enter(loaded, trial)?;
        let (prepared, plan) = run_plan::plan(loaded)?;
        let mechanism = prepared.mechanism.as_ref().map(|mechanism| self.selection.with_score(mechanism));
        let is_planned = mechanism.is_some_and(|mechanism| self.selection.statement.mechanisms.contains(&mechanism));
        assert!(is_planned, "every trial is one of the mechanisms that the selection is accounted for");
        let binding = plan.binding.expect("every trial is bound");
        let mut executor = match super::run(loaded, (prepared, Some(&binding)), &mut Unseen(observer)) {
            Ok(executor) => executor,
            Err(FitError::Round(_)) => return Ok(None),
            Err(FitError::Stopped { .. } | FitError::Interrupted { .. }) => {
                let checkpoint = self.tuning.training.checkpoint.file.clone();
                return Err(FitError::Interrupted { checkpoint });
            }
            Err(error) => return Err(error),
        };
        let (ledger, weights) = (executor.ledger(), executor.solution().to_vec());
        if !vector::is_finite(&weights) {
            return Ok(None);
        }
        let score = score(self.public.unwrap_or(&loaded.problem), &weights);
        let score =
            self.selection.score_noise.map_or(score, |noise| noisy(score, noise, &binding.key(&loaded.setup.source)));
        Ok(Some(TrialOutcome { score, ledger, weights }))
    }

    /// A score over the number of rows, or units.
    fn mean(&self, loaded: &Loaded, score: i64) -> f64 {
        score as f64 / 65_536.0 / self.public.unwrap_or(&loaded.problem).rows() as f64
    }
}

/// Refuses rows to score on that are no public rows of their own, by where they lie alone.
///
/// **Privacy.** A copy of the training rows in another file is not refused. Whether a declared public file has the rows or the digest of the
/// training file is a function of the private rows: who declares the file that he takes them to be would read the refusal with probability 1 if all
/// are as he guessed, and with probability 0 if one differs, which no (ε, δ) with δ < 1 allows. Names, links and folders do not depend on what
/// the rows are. A simulation, whose statement protects nobody, says so.
fn check_score_rows(tuning: &Tuning, path: &Path) -> Result<(), FitError> {
    let training = &tuning.training;
    let refused = |problem: &str| Err(FitError::argument(format!("score-on {}", path.display()), problem));
    let Some(own) = identity(path).filter(|_| path.is_file()) else {
        return refused("name a file of public rows, or leave it out to score on the training rows, which is paid for");
    };
    // Of a named set or a folder any file may hold training rows.
    let data = Path::new(&training.data.data);
    let folder = if data.is_dir() { Some(data) } else { training.data.data_dir.as_deref().filter(|_| !data.exists()) };
    if identity(data) == Some(own) || folder.is_some_and(|folder| holds(folder, own, 8)) {
        return refused(
            "these are the training rows, or lie where they do: a score on them without noise would void the claim. Put public rows \
             elsewhere, or leave it out to score on the training rows with noise that is paid for",
        );
    }
    Ok(())
}

/// What a simulation says of public rows that are a copy of the training rows.
fn doubt(training: &super::Training, is_copy: bool) -> Option<String> {
    let warning = "`score-on`: these public rows are the training rows, and the score on them is not paid for. A release cannot say so, since that \
                   would tell of its rows";
    (is_copy && !training.privacy.secure).then(|| warning.to_owned())
}

/// True if a folder holds a file, under any name and by any link, so many folders deep.
fn holds(folder: &Path, file: (u64, u64), depth: u32) -> bool {
    let mut inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    inside.any(|path| identity(&path) == Some(file) || (depth > 0 && path.is_dir() && holds(&path, file, depth - 1)))
}

/// The declared public rows that scores are of, treated as the training rows are.
fn score_rows(
    tuning: &Tuning,
    domain: Option<&Arc<Domain>>,
    (columns, target): (usize, &Target),
    loss: Loss,
    stated: &PublicRows,
) -> Result<Problem, FitError> {
    let (training, path) = (&tuning.training, &stated.path);
    let argument = format!("score-on {}", path.display());
    let is_test = training.test_file().is_some_and(|test| identity(&test) == identity(path));
    if is_test && domain.is_some_and(|domain| !domain.test_is_public) {
        let problem =
            "the schema says that these test rows are not public: they are of the units that the claim protects";
        return Err(FitError::argument(argument, problem));
    }
    let request = Request {
        columns: Some(columns),
        labels: LabelUse::Needed,
        label: training.data.declaration.columns.label.as_deref(),
        first_index: training.data.first_index,
        ..Request::of(domain)
    };
    let classes = match target {
        Target::Classes(classes) => Some(&classes[..]),
        Target::Bounds(_) => None,
    };
    let place = path.to_string_lossy();
    let rows = data::rows_for_model(&place, None, request, classes).map_err(|error| explained(training, error))?;
    if PublicRows::read(path)? != *stated {
        return Err(FitError::argument(argument, "it changed while it was read"));
    }
    let DataSettings { features, scale_features, clip_features, .. } = &training.data;
    let map = features.as_ref().map(|map| (map, None));
    let rows = treat_features(rows.dataset, map, *scale_features, *clip_features);
    let rows = rows.and_then(|rows| rows.for_loss(Some(loss)));
    let (rows, loss) = rows.map_err(|error| explained(training, error))?;
    Ok(training.optimizer.problem(rows, loss)?)
}

#[cfg(test)]
mod tests;

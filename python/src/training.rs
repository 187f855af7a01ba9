//! `train`: settings by name, progress by a callback, interrupts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rounds_algorithms::privacy::CalibrationMemory;
use rounds_kernels::features::Norm;
use rounds_models::data::TrainTest;
use rounds_models::fit::{
    Execution, FitError, Fitted, Grid, Observer, PublicRows, Stage, Training, Tuned, Tuning, fit, tune,
};

use crate::model::Model;
use crate::rows::Rows;
use crate::{as_python, of_file, refused};

/// Time between two looks at signals, and two calls of a callback.
const PACE: Duration = Duration::from_millis(50);

/// Noise that was calibrated in this process: another fit with the same budget finds it.
static CALIBRATIONS: LazyLock<CalibrationMemory> = LazyLock::new(CalibrationMemory::default);

fn read<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("`{name}` {text}: {error}")))
}

fn list(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

/// Sets what the command's flag of this name sets, or a parameter of the algorithm.
fn set(training: &mut Training, name: &str, text: &str) -> PyResult<()> {
    macro_rules! into {
        ($place:expr) => {
            $place = read(name, text)?
        };
        (some $place:expr) => {
            $place = Some(read(name, text)?)
        };
    }
    let Training { data, privacy, optimizer, checkpoint, .. } = training;
    let declaration = &mut data.declaration;
    match name {
        "algorithm" => into!(training.algorithm),
        "seed" => into!(training.seed),
        "model" => training.model = Some(text.into()),
        "sign" => training.sign = Some(text.into()),
        "data_dir" => data.data_dir = Some(text.into()),
        "test" => data.test = Some(text.into()),
        "test_split" => into!(some data.test_split),
        "first_index" => into!(some data.first_index),
        "features" => into!(some data.features),
        "scale_features" => into!(some data.scale_features),
        "clip_features" => {
            let norm = |name| match name {
                "l1" => Some(Norm::L1),
                "l2" => Some(Norm::L2),
                _ => None,
            };
            let given = text.split_once('=').and_then(|(of, bound)| Some((norm(of)?, bound.parse().ok()?)));
            let problem = || PyValueError::new_err(format!("`clip_features` {text}: give l1=BOUND or l2=BOUND"));
            data.clip_features = Some(given.ok_or_else(problem)?);
        }
        "schema" => declaration.schema = Some(text.into()),
        "label" => into!(some declaration.columns.label),
        "drop" => declaration.columns.drop = list(text),
        "task" => into!(some declaration.columns.task),
        "unit" => into!(some declaration.columns.unit),
        "unit_ids" => declaration.unit_ids = Some(text.into()),
        "classes" => declaration.classes = Some(list(text)),
        "bounds" => into!(some declaration.bounds),
        "dimension" => into!(some declaration.dimension),
        "public_rows" => into!(some declaration.public_rows),
        "epsilon" => into!(some privacy.epsilon),
        "delta" => into!(privacy.delta),
        "noise_multiplier" => into!(some privacy.noise_multiplier),
        "noise" => into!(some privacy.noise),
        "factorization" => privacy.factorization = Some(text.into()),
        "adjacency" => into!(some privacy.adjacency),
        "accountant" => into!(some privacy.accountant),
        "secure" => into!(privacy.secure),
        "diagnostics" => into!(privacy.diagnostics),
        "allow_weak_privacy" => into!(privacy.allow_weak_privacy),
        "ledger" => training.ledger = Some(text.into()),
        "epochs" => into!(some optimizer.epochs),
        "batch_size" => into!(some optimizer.batch_size),
        "sampling" => into!(some optimizer.sampling),
        "learning_rate" => into!(some optimizer.learning_rate),
        "momentum" => into!(some optimizer.momentum),
        "clip_norm" => into!(some optimizer.clip_norm),
        "loss" => into!(some optimizer.loss),
        "regularization" => into!(optimizer.regularization),
        "model_kind" => into!(some optimizer.model_kind),
        "checkpoint" => checkpoint.file = Some(text.into()),
        "checkpoint_every" => into!(some checkpoint.every),
        "resume" => checkpoint.resume = Some(text.into()),
        parameter => training.parameters.push((parameter.replace('_', "-"), text.to_owned())),
    }
    Ok(())
}

/// The observer of a run, on its thread: what the calling thread tells a callback, and whether that one stops the run.
#[derive(Default)]
struct Face {
    /// How long a round takes depends on its rows: of a release the stages alone are told.
    is_release: bool,
    /// Stages that are entered and not told yet.
    stages: Mutex<Vec<&'static str>>,
    rounds: AtomicU64,
    done: AtomicU64,
    stops: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Observer for &Face {
    fn enter(&mut self, stage: Stage) {
        let name = match stage {
            Stage::Loading => "loading",
            Stage::Planning => "planning",
            Stage::Placing => "placing",
            Stage::Rounds(rounds) => {
                self.rounds.store(rounds, Ordering::Relaxed);
                "rounds"
            }
            Stage::Trials => "trials",
            Stage::Publishing => "publishing",
        };
        self.stages.lock().expect("no fault while it is held").push(name);
    }

    fn after_round(&mut self, round: u64) {
        self.done.store(round, Ordering::Relaxed);
    }

    fn stops(&mut self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    fn warn(&mut self, warning: &str) {
        self.warnings.lock().expect("no fault while it is held").push(as_python(warning));
    }
}

impl Face {
    /// Looks for signals, which the interpreter's main thread alone sees, and tells the callback of stages and rounds since the last call.
    fn attend(&self, py: Python<'_>, callback: Option<&Py<PyAny>>, told: &mut u64) -> PyResult<()> {
        py.check_signals()?;
        let stages = std::mem::take(&mut *self.stages.lock().expect("no fault while it is held"));
        let (done, rounds) = (self.done.load(Ordering::Relaxed), self.rounds.load(Ordering::Relaxed));
        let Some(callback) = callback else { return Ok(()) };
        for stage in stages {
            let round = if stage == "publishing" { rounds } else { 0 };
            callback.call1(py, (stage, round, rounds))?;
            *told = if stage == "publishing" { rounds } else { *told };
        }
        if done > *told && !self.is_release {
            *told = done;
            callback.call1(py, ("rounds", done, rounds))?;
        }
        Ok(())
    }
}

/// The run on a thread of its own, while this one attends to signals and the callback; what either raised.
fn attended(
    py: Python<'_>,
    face: &Face,
    callback: Option<&Py<PyAny>>,
    run: impl FnOnce(&mut dyn Observer) -> Result<Tuned, FitError> + Send,
) -> PyResult<(Result<Tuned, FitError>, Option<PyErr>)> {
    crate::check_process()?;
    let (sender, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    thread::scope(|scope| {
        let run = move || {
            // Dropped at the end, whatever it is.
            let _sender = sender;
            catch_unwind(AssertUnwindSafe(|| run(&mut { face })))
        };
        let worker = thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, run)?;
        let (mut raised, mut told) = (None, 0);
        loop {
            let wait = || ended.lock().expect("no fault while it is held").recv_timeout(PACE);
            let goes_on = py.detach(wait) == Err(RecvTimeoutError::Timeout);
            if raised.is_none() {
                raised = face.attend(py, callback, &mut told).err();
                face.stops.store(raised.is_some(), Ordering::Relaxed);
            }
            if !goes_on {
                break;
            }
        }
        let ended = py.detach(|| worker.join()).expect("faults are caught").map_err(|_| crate::fault())?;
        Ok((ended, raised))
    })
}

/// The exception for an error of a run.
fn exception(error: &FitError) -> PyErr {
    match error {
        error if error.is_usage() => refused(error),
        FitError::Data(_) | FitError::Explained(_) | FitError::Problem(_) => refused(error),
        FitError::Checkpoint(_)
        | FitError::Factorization(_)
        | FitError::Model(_)
        | FitError::Ledger(_)
        | FitError::Key(_) => of_file(error),
        error => PyRuntimeError::new_err(as_python(&error.to_string())),
    }
}

/// Lists of a grid by their names, the expected number of trials, the law of their number, and a file of public rows to score on.
type Selection = (Vec<(String, Vec<String>)>, f64, String, Option<PathBuf>);

/// The selection whose trials are runs of `training`.
fn tuning(training: Training, (grid, trials, law, score_on): Selection) -> PyResult<Tuning> {
    let grid = Grid::new(grid).map_err(|error| refused(&error))?;
    let score_on = score_on.as_deref().map(PublicRows::read).transpose().map_err(|error| exception(&error))?;
    Ok(Tuning { training, grid, trials, law: read("law", &law)?, score_on })
}

/// Trains a model, or the best one of a selection: the run of the command for the same settings. Gives the model, the document of the outcome,
/// and warnings.
#[pyfunction]
#[pyo3(signature = (data, settings, rows = None, test = None, threads = None, callback = None, holds_out = true, selection = None))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn train(
    py: Python<'_>,
    data: String,
    settings: Vec<(String, String)>,
    rows: Option<&Rows>,
    test: Option<&Rows>,
    threads: Option<usize>,
    callback: Option<Py<PyAny>>,
    holds_out: bool,
    selection: Option<Selection>,
) -> PyResult<(Model, String, Vec<String>)> {
    let mut training = match rows {
        None => Training::on(data),
        Some(Rows(rows)) => {
            if rows.units().is_none() && rows.domain().is_some_and(|domain| domain.unit.is_some()) {
                return Err(PyValueError::new_err("the domain declares a unit: give the unit of each row by `unit`"));
            }
            Training::on_rows(TrainTest { train: rows.clone(), test: test.map(|test| test.0.clone()) })
        }
    };
    training.holds_out = holds_out;
    for (name, text) in &settings {
        set(&mut training, name, text)?;
    }
    let mut execution = Execution::on(crate::engine::engine(threads)?);
    execution.calibrations = CALIBRATIONS.clone();
    let face = Face { is_release: training.privacy.secure, ..Face::default() };
    // A signal that came before belongs to the caller.
    py.check_signals()?;
    let (ended, raised) = match selection {
        None => attended(py, &face, callback.as_ref(), |observer| {
            let Fitted { model, outcome } = fit(&training, &execution, observer)?;
            Ok(Tuned { model, outcome, trials: None })
        })?,
        Some(selection) => {
            let tuning = tuning(training, selection)?;
            attended(py, &face, callback.as_ref(), |observer| tune(&tuning, &execution, observer))?
        }
    };
    match (ended, raised) {
        (Ok(_), Some(raised)) if !raised.is_instance_of::<PyKeyboardInterrupt>(py) => Err(raised),
        (Ok(mut tuned), raised) => {
            tuned.outcome.warnings.iter_mut().for_each(|warning| *warning = as_python(warning));
            let document = serde_json::to_string(&tuned).map_err(|error| PyOSError::new_err(error.to_string()))?;
            let mut warnings = face.warnings.into_inner().expect("no fault while it is held");
            // Its budget is spent, and there is nothing left to stop.
            warnings
                .extend(raised.map(|_| "the interrupt came too late to stop the run: here is its model".to_owned()));
            Ok((Model::new(tuned.model)?, document, warnings))
        }
        (Err(error @ (FitError::Stopped { .. } | FitError::Interrupted { .. })), Some(raised)) => {
            if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(PyKeyboardInterrupt::new_err(as_python(&error.to_string())));
            }
            Err(raised)
        }
        (Err(error), _) => Err(exception(&error)),
    }
}

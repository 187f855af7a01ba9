//! The fifth step of a run: its model, the end of its checkpoints, and its outcome.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rounds_algorithms::executor::Executor;
use rounds_algorithms::oracle::{self, Ledger};
use rounds_algorithms::problem::{self, Column, ColumnKind, Columns, Domain, Problem, Relation};
use rounds_kernels::linear::Evaluation;
use rounds_kernels::loss::TargetKind;
use serde_json::Map;

use super::booking;
use super::error::FitError;
use super::load::{Loaded, placed};
use super::observer::{Execution, Observer};
use super::outcome::{Diagnostics, Outcome, PrivateFacts, Quality, Shown};
use super::plan::Plan;
use super::setup::{Setup, draft_command};
use crate::checkpoint;
use crate::data::Split;
use crate::model_file::{Header, Model, digest};
use crate::predictions::regression;

/// Evaluates, writes and describes the model of a run that ended with these weights, after the work in this ledger.
pub(super) fn publish(
    loaded: &mut Loaded,
    plan: Plan,
    (ledger, weights): (Ledger, Vec<f32>),
    observer: &mut dyn Observer,
) -> Result<(Model, Outcome), FitError> {
    let Execution { group, engine, .. } = &loaded.setup.execution;
    let shown = Shown::of(&loaded.setup.training.privacy);
    let evaluated = shown.has_statistics().then(|| oracle::evaluate(&loaded.problem, engine, &weights));
    let evaluated = match evaluated {
        // A statistic that cannot be computed decides over no release.
        Some(Err(_)) if shown != Shown::All => None,
        evaluated => group.all_ok(evaluated.transpose())?,
    };
    group.check_same("model", &digest(&weights))?;
    let (model, place) = keep(loaded, &plan, weights, observer)?;
    booking::done(loaded.booking.take(), observer, &model);
    let outcome = outcome(loaded, plan, (ledger, evaluated), (&model, place), observer)?;
    Ok((model, outcome))
}

/// Writes the model and removes the checkpoints of a run that is finished, on rank 0; the model, and where it lies.
fn keep(
    loaded: &Loaded,
    plan: &Plan,
    weights: Vec<f32>,
    observer: &mut dyn Observer,
) -> Result<(Model, Option<PathBuf>), FitError> {
    let Setup { training, execution, algorithm, domain, .. } = &loaded.setup;
    // Algorithm, data and domain have keys of their own.
    let own = ["algorithm", "data", "schema"];
    let parameters = loaded.setup.parameters.iter().filter(|(name, _)| !own.contains(&name.as_str()));
    let mut parameters: Map<_, _> = parameters.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let (loss, trained_on) = (loaded.problem.model().loss, loaded.trained_on.clone());
    // Without a domain the default follows from the labels.
    parameters.insert("loss".to_owned(), loss.to_string().into());
    // That of the rows as they are loaded: features of their own have one that follows.
    let mapped = training.data.features.is_some();
    let domain = if mapped { domain.clone() } else { loaded.problem.domain().cloned() };
    let header = Header {
        version: 0,
        algorithm: algorithm.id.to_owned(),
        n: (!matches!(loaded.problem.relation(), Relation::AddRemove { .. })).then(|| loaded.problem.rows()),
        rounds: plan.rounds,
        loss: String::new(),
        data: trained_on,
        parameters,
        plan: plan.parameters.iter().map(|(&name, value)| (name.to_owned(), value.clone())).collect(),
        model_sha256: String::new(),
        privacy: plan.privacy.clone(),
        build: None,
        signature: None,
    };
    let header = header.completed(loss, domain.as_deref(), Some(&weights));
    let released = loaded.released.as_ref().map(|released| released.matrix.clone());
    let mut model = Model::new(header, weights, loss, domain).with_released(released);
    if let Some(signer) = &loaded.setup.signer {
        model.sign(signer, execution.build);
    }
    let mut place = training.model.clone();
    execution.group.root_only(|| {
        if let Some(place) = &mut place {
            // The model is on the disk before the state that could make it again is removed.
            let written = model.keep(place, execution.build)?;
            if written != *place {
                let [taken, own] = [&*place, &written].map(|path| path.display());
                observer.warn(&format!("{taken} is taken since this run began: this model is {own}"));
            }
            *place = written;
        }
        for path in [&training.checkpoint.file, &training.checkpoint.resume].into_iter().flatten() {
            checkpoint::remove(path)?;
        }
        Ok::<_, FitError>(())
    })?;
    Ok((model, place))
}

/// The document of a run, by the rule of [`Shown`].
fn outcome(
    loaded: &Loaded,
    plan: Plan,
    (ledger, evaluated): (Ledger, Option<Evaluation>),
    (model, place): (&Model, Option<PathBuf>),
    observer: &mut dyn Observer,
) -> Result<Outcome, FitError> {
    let Loaded { setup, problem, .. } = loaded;
    let Setup { training, execution, .. } = setup;
    let (shown, weights) = (Shown::of(&training.privacy), model.weights());
    let Plan { mut warnings, expected_queries, .. } = plan;
    let test_is_public = setup.domain.as_ref().is_some_and(|domain| domain.test_is_public);
    let test = loaded.test.as_ref().filter(|_| test_is_public || shown.has_statistics());
    let test = match test.map(|test| quality(loaded, test, weights)) {
        Some(Err(_)) if shown != Shown::All => None,
        found => found.transpose()?.flatten(),
    };
    let stored = if problem.public().unit().is_some() { problem.dataset().len() } else { problem.rows() };
    let null_rows = evaluated.filter(|_| shown == Shown::All).map(|of| stored - of.rows);
    if let Some(null_rows) = null_rows.filter(|null_rows| 2 * null_rows > stored) {
        let remedy = draft_command(training).map_or_else(
            || "; mend their domain, or the values".to_owned(),
            |command| format!(". `{command}` drafts a schema"),
        );
        let warning = format!(
            "{null_rows} of {stored} training rows are null rows, from which the model learns nothing: a column taken for numbers holds \
             words or nothing in them, a category or the label a value that is not declared{remedy}"
        );
        observer.warn(&warning);
        warnings.push(warning);
    }
    let has_classes = problem.model().loss.targets() != TargetKind::Reals;
    let diagnostics = evaluated.map(|found| Diagnostics {
        train_loss: found.loss / found.rows as f64,
        train_accuracy: has_classes.then(|| found.correct as f64 / found.rows as f64),
        clipped_fraction: ledger.clipped_fraction(),
        null_rows,
        note: "statistics of the data, outside the privacy guarantee",
        private: shown.in_diagnostics(PrivateFacts {
            times: None,
            gradient_queries: ledger.gradient_queries,
            n: problem.rows(),
            test,
        }),
    });
    let is_file = || Path::new(&training.data.data).is_file();
    let queries = shown.beside_claim(false, Some(ledger.gradient_queries));
    Ok(Outcome {
        header: model.header().clone(),
        unit: problem.public().unit().map(ToString::to_string),
        numbers: setup.domain.as_deref().map_or_else(BTreeMap::new, numbers),
        ranks: execution.group.count(),
        threads: execution.engine.local().threads(),
        pinning: execution.pinning.clone(),
        gradient_queries: queries.unwrap_or(expected_queries),
        times: None,
        test: shown.beside_claim(test_is_public, test),
        test_rows: shown.beside_claim(test_is_public, loaded.test.as_ref().map(|test| test.dataset().len())),
        test_file: training.test_file().filter(|_| loaded.test.is_some() && is_file()),
        held_out: held_out(loaded),
        diagnostics,
        seed: (!training.privacy.secure).then_some(training.seed),
        warnings,
        model: place,
        shown,
    })
}

/// Columns that a domain declares as numbers, by what a field that is no number does.
fn numbers(domain: &Domain) -> BTreeMap<&'static str, Vec<String>> {
    let mut numbers: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let Columns::Named(columns) = &domain.columns else {
        return numbers;
    };
    for Column { name, kind } in columns {
        let does = match kind {
            ColumnKind::Number { missing: None, .. } => "makes its row the null row, which adds nothing",
            ColumnKind::Number { .. } => "takes the missing value of its column",
            ColumnKind::Category { .. } => continue,
        };
        numbers.entry(does).or_default().push(name.clone());
    }
    numbers
}

/// The quality of weights on test rows; `None` if all of these are null rows.
fn quality(loaded: &Loaded, test: &Problem, weights: &[f32]) -> Result<Option<Quality>, FitError> {
    let rows = test.dataset();
    if (0..rows.len()).all(|row| rows.is_null(row)) {
        return Ok(None);
    }
    if test.model().loss.targets() == TargetKind::Reals {
        let outputs = problem::outputs(weights, rows.rows(), true);
        return Ok(Some(Quality::Errors(regression(rows, &loaded.trained_on.target, &outputs))));
    }
    let found = oracle::evaluate(test, loaded.setup.execution.engine.local(), weights)?;
    Ok(Some(Quality::Accuracy(found.correct as f64 / found.rows as f64)))
}

/// Of a simulation without test rows, the quality of the same run on four fifths of the rows, on the others. `None` of long runs,
/// which have checkpoints or ranks, and where so few rows allow no such run.
fn held_out(loaded: &Loaded) -> Option<Quality> {
    let Loaded { setup, problem, .. } = loaded;
    let Setup { training, execution, .. } = setup;
    let is_long = setup.is_bound || execution.group.count().is_some();
    if training.privacy.secure || !training.holds_out || loaded.test.is_some() || is_long {
        return None;
    }
    let split = Split { fraction: 0.2, seed: training.seed };
    let (train, test) = split.apart(problem.dataset())?;
    let of = |rows| training.optimizer.problem(rows, problem.model().loss).ok();
    let train = placed(of(train)?, setup);
    let prepared = setup.algorithm.prepare(&train, &setup.settings).ok()?;
    let mut executor = Executor::new(&train, execution.engine.clone(), prepared);
    executor.run().ok()?;
    quality(loaded, &of(test)?, executor.solution()).ok()?
}

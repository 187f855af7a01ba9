//! Questions without a run: ε of mechanisms, verification, factorisations, audits, drafts.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rounds_algorithms::audit::{self as audits, AuditSettings, Subject};
use rounds_algorithms::factorization::{
    FactorizationRequest, Method, Objective, Participation, Workload, WorkloadSpecification,
};
use rounds_algorithms::privacy::{Accountant, Adjacency, FilterKind, Mechanism, Sampling, calibrate, gdp};
use rounds_kernels::instructions;
use rounds_models::data::draft as drafts;
use rounds_models::data::{ColumnUse, Task};
use rounds_models::ledger::{Account, Budget, Ledger, LedgerError};
use rounds_models::signature::PublicKey;
use rounds_models::statement::Verifier;
use rounds_models::{factorization_cache, factorization_file};
use serde_json::{Value, json};

use crate::rows::Domain;
use crate::{detached, of_file, refused};

fn parsed<T: std::str::FromStr<Err: std::error::Error + 'static>>(text: Option<&str>) -> PyResult<Option<T>> {
    text.map(str::parse).transpose().map_err(|error: T::Err| refused(&error))
}

/// The mechanism of a name at a noise multiplier, and its usual relation.
type Family = Box<dyn Fn(f64) -> Mechanism + Send>;

fn family(name: &str, sampling: Option<Sampling>, steps: usize, trees: usize) -> PyResult<(Family, Adjacency)> {
    Ok(match (name, sampling) {
        ("gaussian", None) => (
            Box::new(move |noise_multiplier| Mechanism::Gaussian {
                noise_multiplier,
                sampling: Sampling::FullBatch,
                participations: steps,
            }),
            Adjacency::AddRemove,
        ),
        ("subsampled-gaussian", Some(sampling)) => {
            let is_poisson = matches!(sampling, Sampling::Poisson { .. });
            let adjacency = if is_poisson { Adjacency::AddRemove } else { Adjacency::ReplaceOne };
            (
                Box::new(move |noise_multiplier| Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps }),
                adjacency,
            )
        }
        ("tree", None) => (
            Box::new(move |noise_multiplier| Mechanism::Tree {
                noise_multiplier,
                sampling: Sampling::ShuffledOnce,
                rounds: steps,
                trees,
            }),
            Adjacency::ZeroOut,
        ),
        ("subsampled-gaussian", None) => {
            return Err(PyValueError::new_err("`subsampled-gaussian` needs `sampling_rate`, or `m` and `n`"));
        }
        ("gaussian" | "tree", Some(_)) => {
            return Err(PyValueError::new_err("`sampling_rate` and `m` belong to subsampled-gaussian"));
        }
        (other, _) => {
            let known = "gaussian, subsampled-gaussian or tree (`rounds account` has more)";
            return Err(PyValueError::new_err(format!("mechanism {other:?} is not known: it is {known}")));
        }
    })
}

/// ε of a mechanism with given noise, or the least noise for an ε, as JSON.
#[pyfunction]
#[pyo3(signature = (mechanism, *, delta, noise_multiplier, epsilon, steps, trees, sampling_rate, m, n, accountant, adjacency))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn account(
    py: Python<'_>,
    mechanism: &str,
    delta: f64,
    noise_multiplier: Option<f64>,
    epsilon: Option<f64>,
    steps: usize,
    trees: usize,
    sampling_rate: Option<f64>,
    m: Option<usize>,
    n: Option<usize>,
    accountant: Option<&str>,
    adjacency: Option<&str>,
) -> PyResult<String> {
    let sampling = match (sampling_rate, m, n) {
        (Some(rate), None, _) => Some(Sampling::Poisson { rate }),
        (None, Some(batch), Some(population)) => Some(Sampling::WithoutReplacement { batch, population }),
        (None, None, _) => None,
        _ => return Err(PyValueError::new_err("give `sampling_rate`, or `m` with `n`")),
    };
    let (family, usual) = family(mechanism, sampling, steps, trees)?;
    let adjacency = parsed(adjacency)?.unwrap_or(usual);
    let accountant: Accountant = parsed(accountant)?.unwrap_or_else(|| Accountant::default_for(&family(1.0)));
    let found = detached(py, move || {
        let noise_multiplier = match (noise_multiplier, epsilon) {
            (Some(noise_multiplier), None) => noise_multiplier,
            (None, Some(epsilon)) => {
                calibrate(accountant, adjacency, epsilon, delta, &family).map_err(|error| refused(&error))?
            }
            _ => return Err(PyValueError::new_err("give either `noise_multiplier` or `epsilon`")),
        };
        let stated = family(noise_multiplier);
        let epsilon = accountant.epsilon(&stated, adjacency, delta).map_err(|error| refused(&error))?;
        let mu = gdp::mu(&stated, adjacency).ok();
        Ok(json!({
            "epsilon": epsilon,
            "delta": delta,
            "noise_multiplier": noise_multiplier,
            "accountant": accountant,
            "adjacency": adjacency,
            "mechanism": stated.name(),
            "statement": stated.to_string(),
            "mu": mu,
        }))
    })??;
    Ok(found.to_string())
}

/// The verifier of statements.
fn verifier(signer: Option<PathBuf>, factorization: Option<PathBuf>) -> PyResult<Verifier> {
    let signer = signer.as_deref().map(PublicKey::read).transpose().map_err(|error| of_file(&error))?;
    let mut verifier = Verifier::default();
    (verifier.signer, verifier.factorization) = (signer, factorization);
    Ok(verifier)
}

/// The statement of a release computed again, with each difference, as JSON.
#[pyfunction]
#[pyo3(signature = (path, signer = None, factorization = None))]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    signer: Option<PathBuf>,
    factorization: Option<PathBuf>,
) -> PyResult<String> {
    let verifier = verifier(signer, factorization)?;
    let found = detached(py, move || verifier.verify(&path))?.map_err(|error| refused(&error))?;
    Ok(document(&found))
}

/// What several releases from the same rows guarantee together, as JSON.
#[pyfunction]
#[pyo3(signature = (paths, delta = None, signer = None, factorization = None))]
pub(crate) fn compose(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    delta: Option<f64>,
    signer: Option<PathBuf>,
    factorization: Option<PathBuf>,
) -> PyResult<String> {
    let verifier = verifier(signer, factorization)?;
    let (composed, runs) = detached(py, move || verifier.compose(&paths, delta))?.map_err(|error| refused(&error))?;
    Ok(json!({ "together": composed, "runs": runs }).to_string())
}

/// What was booked of a ledger's budget, as JSON; with the name, domain and number of rows of data, a filter and (ε, δ), one is made.
#[pyfunction]
#[pyo3(signature = (path, made = None))]
pub(crate) fn ledger(
    path: PathBuf,
    made: Option<(String, Bound<'_, Domain>, Option<usize>, String, f64, f64)>,
) -> PyResult<String> {
    let said = |error: LedgerError| if error.is_usage() { refused(&error) } else { of_file(&error) };
    if let Some((data, domain, rows, filter, epsilon, delta)) = made {
        let domain = &domain.get().0;
        if domain.is_draft() {
            return Err(PyValueError::new_err(
                "a ledger takes relation and unit from a checked domain, and this one is a draft",
            ));
        }
        let filter: FilterKind = parsed(Some(&filter))?.expect("a text");
        let budget = Budget::new(&data, domain, rows, (filter, epsilon, delta)).map_err(said)?;
        Ledger::create(&path, &budget).map_err(said)?;
    }
    let account = Account::read(&path).map_err(said)?;
    let spent = account.spent().into_iter().fold(0.0, f64::max);
    let mut found = serde_json::to_value(&account).map_err(|error| PyValueError::new_err(error.to_string()))?;
    (found["spent"], found["left"]) = (spent.into(), (1.0 - spent).max(0.0).into());
    Ok(found.to_string())
}

fn document(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The errors of a factorisation of a workload, as JSON; C goes to the file `out`.
#[pyfunction]
#[pyo3(signature = (rounds, *, workload, epochs, method, objective, lambda_tau, gap, out))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn factorize(
    py: Python<'_>,
    rounds: usize,
    workload: &str,
    epochs: usize,
    method: &str,
    objective: &str,
    lambda_tau: Option<usize>,
    gap: f64,
    out: Option<PathBuf>,
) -> PyResult<String> {
    let said = |name: &str, error: &dyn std::fmt::Display| PyValueError::new_err(format!("`{name}`: {error}"));
    let specification: WorkloadSpecification = workload.parse().map_err(|error| said("workload", &error))?;
    let specification = specification.with_lambda_tau(lambda_tau);
    let method: Method = method.parse().map_err(|error| said("method", &error))?;
    let objective = match objective {
        "frobenius" => Objective::Frobenius,
        "max" => Objective::Max,
        other => return Err(said("objective", &format!("{other:?} is not frobenius or max"))),
    };
    let workload = Workload::new(rounds, specification).map_err(|error| refused(&error))?;
    let participation = Participation::epochs(epochs);
    participation.check(rounds).map_err(|error| refused(&error))?;
    let request = FactorizationRequest { objective, gap, ..FactorizationRequest::new(workload, participation, method) };
    let made = detached(py, move || {
        factorization_cache::factorize(request, factorization_cache::default_folder().as_deref())
    })?;
    let (factorization, from_cache) = made.map_err(|error| refused(&error))?;
    if let Some(path) = out {
        factorization_file::write(&path, &factorization).map_err(|error| of_file(&error))?;
    }
    let sensitivity = factorization.sensitivity();
    let document = json!({
        "rounds": factorization.rounds(),
        "epochs": epochs,
        "method": factorization.method().map(|method| method.to_string()),
        "sensitivity": sensitivity.value,
        "rms_error": factorization.rms_error(),
        "max_error": factorization.max_error(),
        "frobenius": factorization.frobenius(),
        "relative_gap": factorization.relative_gap(),
        "from_cache": from_cache,
    });
    Ok(document.to_string())
}

/// Lower bounds on the privacy loss of an algorithm beside its claims, one a scene, as JSON.
#[pyfunction]
#[pyo3(signature = (algorithm, *, runs, seed, epsilon, delta, adjacency, secure, sabotage, threads))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn audit(
    py: Python<'_>,
    algorithm: &str,
    runs: u64,
    seed: u64,
    epsilon: Option<f64>,
    delta: f64,
    adjacency: Option<&str>,
    secure: bool,
    sabotage: Option<&str>,
    threads: Option<usize>,
) -> PyResult<String> {
    let subjects = Subject::of(algorithm).map_err(|error| refused(&error))?;
    let sabotage =
        sabotage.map(str::parse).transpose().map_err(|error| PyValueError::new_err(format!("`sabotage`: {error}")))?;
    let key = if secure { audits::AuditKey::Secure } else { audits::AuditKey::Simulation };
    let settings = AuditSettings {
        runs,
        seed,
        epsilon,
        delta,
        adjacency: parsed(adjacency)?,
        key,
        sabotage,
        ..AuditSettings::default()
    };
    let engine = crate::engine::engine(threads)?;
    let reports = detached(py, move || {
        let taken = subjects.into_iter().filter(|subject| subject.takes(settings.rows, settings.units));
        taken
            .map(|subject| {
                let report = subject.audit(&settings, &engine, &|_| ()).map_err(|error| refused(&error))?;
                Ok(match report.finding {
                    Ok(found) => json!({
                        "algorithm": report.algorithm,
                        "scene": report.scene,
                        "adjacency": report.adjacency,
                        "claimed_epsilon": found.claimed_epsilon,
                        "delta": found.delta,
                        "lower_bound_epsilon": found.lower_bound_epsilon,
                        "disproved": found.disproves(),
                        "runs": found.runs,
                        "confidence": found.confidence,
                    }),
                    Err(reason) => json!({ "algorithm": report.algorithm, "scene": report.scene, "claim": "none", "reason": reason }),
                })
            })
            .collect::<PyResult<Vec<Value>>>()
    })??;
    Ok(Value::from(reports).to_string())
}

/// The text of a schema that is drafted from the rows of a file.
#[pyfunction]
#[pyo3(signature = (path, label = None, drop = Vec::new(), task = None, unit = None))]
pub(crate) fn draft(
    py: Python<'_>,
    path: PathBuf,
    label: Option<String>,
    drop: Vec<String>,
    task: Option<&str>,
    unit: Option<String>,
) -> PyResult<String> {
    let task: Option<Task> = parsed(task)?;
    let columns = ColumnUse { label, drop, task, unit };
    detached(py, move || drafts::draft(&path, &columns))?.map_err(|error| refused(&error))
}

/// The instruction set of the kernels of this build on this processor.
#[pyfunction]
pub(crate) fn instruction_set() -> &'static str {
    instructions::level()
}

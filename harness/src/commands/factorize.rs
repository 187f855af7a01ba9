//! `rounds factorize`: the errors of a factorisation A = B·C of a workload, and C as NPY.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use rounds_algorithms::factorization::{
    FactorizationError, FactorizationRequest, Method, Objective, Participation, Workload, WorkloadSpecification,
};
use serde_json::json;

use super::output::{Output, table};
use super::{UsageError, check_output};
use crate::experiment::definition::counts;
use rounds_models::factorization_cache;
use rounds_models::factorization_file::{self, FactorizationFile};

/// Arguments of `rounds factorize`.
#[derive(clap::Args)]
pub struct FactorizeArguments {
    /// Number of rounds T.
    #[arg(long, value_name = "T", value_parser = counts(10_000_000))]
    rounds: usize,
    /// Workload: prefix, momentum=β, srg=c[,momentum=β], or lr=FILE (one positive learning rate a line).
    #[arg(long, default_value = "prefix", value_name = "A")]
    workload: String,
    /// Number of epochs k. An example participates once in each, always at the same position.
    #[arg(long, default_value_t = 1, value_name = "K")]
    epochs: usize,
    /// Method: optimal, banded=b, blt=m, toeplitz, fourier, tree, honaker-online, honaker-full or identity.
    #[arg(long, default_value = "optimal", value_name = "METHOD")]
    method: String,
    /// Objective to minimise: frobenius (all rounds) or max (the worst round).
    #[arg(long, default_value = "frobenius", value_name = "OBJECTIVE")]
    objective: String,
    /// Period τ of the Λ_τ-weighted error (DP-MF⁺).
    #[arg(long, value_name = "TAU")]
    lambda_tau: Option<usize>,
    /// Largest certified relative gap of the squared objective for `optimal`.
    #[arg(long, default_value_t = 1e-6, value_name = "GAP")]
    gap: f64,
    /// Write C (T × T, f64; one row a node for trees) as NPY.
    #[arg(long, value_name = "F.npy")]
    out: Option<PathBuf>,
    /// Measure the factorisation in this file (NPY with C) instead, and check its shape and inverse.
    #[arg(long, value_name = "F.npy", conflicts_with_all = ["method", "objective", "gap", "out"])]
    check: Option<PathBuf>,
    /// Compute the factorisation even if the cache holds it.
    #[arg(long)]
    no_cache: bool,
}

/// Factorises, prints the errors, writes C.
///
/// # Errors
/// A workload, participation or method that makes no sense; a file that cannot be read or written.
pub fn run(arguments: &FactorizeArguments, output: Output) -> anyhow::Result<()> {
    let usage = |flag: &str, error: &dyn fmt::Display| UsageError::of(format!("{flag}: {error}"));
    let specification = workload(&arguments.workload)?.with_lambda_tau(arguments.lambda_tau);
    let method: Method = arguments.method.parse().map_err(|error| usage("--method", &error))?;
    let objective = match arguments.objective.as_str() {
        "frobenius" => Objective::Frobenius,
        "max" => Objective::Max,
        other => return Err(usage("--objective", &format!("'{other}' is not frobenius or max"))),
    };
    let workload = Workload::new(arguments.rounds, specification).map_err(|error| usage("--workload", &error))?;
    let participation = Participation::epochs(arguments.epochs);
    participation.check(arguments.rounds).map_err(|error| usage("--epochs", &error))?;
    if let Some(path) = &arguments.out {
        // C as a matrix, as an array and as bytes; B the same.
        factorization_cache::check_memory(arguments.rounds, 6).map_err(|error| usage("--out", &error))?;
        // Any array may be data or a model.
        check_output(path, &[], |_| false)?;
    }
    let started = Instant::now();
    let (factorization, from_cache) = if let Some(path) = &arguments.check {
        let file = FactorizationFile::read(path)?;
        let checked = file.check(workload, participation).with_context(|| format!("--check {}", path.display()))?;
        (checked, false)
    } else {
        let request = FactorizationRequest {
            objective,
            gap: arguments.gap,
            ..FactorizationRequest::new(workload, participation, method)
        };
        let folder = factorization_cache::default_folder().filter(|_| !arguments.no_cache);
        let made = factorization_cache::factorize(request, folder.as_deref());
        made.map_err(|error| match error {
            FactorizationError::Memory { .. } => usage("--rounds", &error),
            error => error.into(),
        })?
    };
    let seconds = started.elapsed().as_secs_f64();
    if let Some(path) = &arguments.out {
        factorization_file::write(path, &factorization)
            .with_context(|| format!("--out {}: C could not be written", path.display()))?;
    }
    let method = factorization.method().map_or_else(|| "from a file".to_owned(), |method| method.to_string());
    let (sensitivity, gap) = (factorization.sensitivity(), factorization.relative_gap());
    let (rms, max, frobenius) = (factorization.rms_error(), factorization.max_error(), factorization.frobenius());
    let (rounds, epochs) = (factorization.rounds(), arguments.epochs);
    let document = json!({
        "rounds": rounds,
        "epochs": epochs,
        "workload": arguments.workload,
        "method": method,
        "sensitivity": sensitivity.value,
        "sensitivity_exactness": format!("{:?}", sensitivity.exactness),
        "rms_error": rms,
        "max_error": max,
        "frobenius": frobenius,
        "relative_gap": gap,
        "seconds": seconds,
        "from_cache": from_cache,
    });
    let cached = if from_cache { " (from the cache)" } else { "" };
    let number = |value: f64| format!("{value:.9}");
    let mut table = table([method, format!("{rounds} rounds of {}, {epochs} epochs", arguments.workload)]);
    table.add_rows([
        ["root mean square error", &number(rms)],
        ["largest error of a round", &number(max)],
        ["‖B‖_F", &number(frobenius)],
        [
            "sensitivity of C as written",
            &format!("{:.9} ({:?}: {})", sensitivity.value, sensitivity.exactness, sensitivity.reason),
        ],
        ["certified relative gap", &gap.map_or_else(|| "not an optimum".to_owned(), |gap| format!("{gap:.2e}"))],
        ["seconds", &format!("{seconds:.3}{cached}")],
    ]);
    output.print(&document, format_args!("{table}\nErrors are per unit of noise, at sensitivity 1."))
}

/// A workload by its name, or learning rates from a file.
fn workload(text: &str) -> anyhow::Result<WorkloadSpecification> {
    let Some(path) = text.strip_prefix("lr=") else {
        return text.parse().map_err(|error| UsageError::of(format!("--workload: {error}")));
    };
    let content =
        std::fs::read_to_string(path).with_context(|| format!("--workload {text}: the file cannot be read"))?;
    let mut rates = Vec::new();
    for (line, value) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let rate = value.trim().parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
        rates.push(rate.with_context(|| format!("{path}:{}: '{value}' is not a positive learning rate", line + 1))?);
    }
    Ok(WorkloadSpecification::prefix().with_learning_rates(rates))
}

//! `rounds factorize`: the errors of a factorisation A = B·C of a workload, and C as NPY.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use rounds_algorithms::factorization::{
    Factorization, FactorizationRequest, Method, Objective, Participation, Workload, WorkloadSpecification,
};
use serde_json::json;

use super::UsageError;
use crate::factorization_cache;
use crate::factorization_file::{self, FactorizationFile};

/// What `rounds factorize` takes.
#[derive(clap::Args)]
pub struct FactorizeArguments {
    /// Rounds T.
    #[arg(long, value_name = "T")]
    rounds: usize,
    /// Workload: prefix, momentum=β, srg=c[,momentum=β], or lr=FILE (one positive learning rate a line).
    #[arg(long, default_value = "prefix", value_name = "A")]
    workload: String,
    /// Epochs k: an example takes part once in each, always at the same place.
    #[arg(long, default_value_t = 1, value_name = "K")]
    epochs: usize,
    /// Method: optimal, banded=b, blt=m, toeplitz, tree, honaker-online, honaker-full or identity.
    #[arg(long, default_value = "optimal", value_name = "METHOD")]
    method: String,
    /// What is made small: frobenius (all rounds) or max (the worst round).
    #[arg(long, default_value = "frobenius", value_name = "OBJECTIVE")]
    objective: String,
    /// Period τ of the Λ_τ-weighted error (DP-MF⁺).
    #[arg(long, value_name = "TAU")]
    lambda_tau: Option<usize>,
    /// Largest certified relative gap of the squared objective that `optimal` may leave.
    #[arg(long, default_value_t = 1e-6, value_name = "GAP")]
    gap: f64,
    /// Where to write C (T × T, f64; one row a node for trees) as NPY, or C, B and the sensitivity as NPZ.
    #[arg(long, value_name = "F.npy|F.npz")]
    out: Option<PathBuf>,
    /// Measures the factorisation in this file (NPY with C, or NPZ with C, B, sensitivity) instead, and checks its shape,
    /// B·C and sensitivity.
    #[arg(long, value_name = "F.npy|F.npz", conflicts_with_all = ["method", "objective", "gap", "out"])]
    check: Option<PathBuf>,
    /// Compute anew instead of taking a kept factorisation.
    #[arg(long)]
    no_cache: bool,
}

/// Factorises, prints the errors, writes C.
///
/// # Errors
/// A workload, participation or method that makes no sense; a file that cannot be written.
pub fn run(arguments: &FactorizeArguments, json: bool) -> anyhow::Result<()> {
    let usage = |flag: &str, error: &dyn std::fmt::Display| UsageError::new(format!("{flag}: {error}"));
    let specification = workload(&arguments.workload)?.with_lambda_tau(arguments.lambda_tau);
    let method: Method = arguments.method.parse().map_err(|error| usage("--method", &error))?;
    let objective = match arguments.objective.as_str() {
        "frobenius" => Objective::Frobenius,
        "max" => Objective::Max,
        other => {
            return Err(
                UsageError::new(format!("--objective '{other}' is not known; it takes frobenius or max")).into(),
            );
        }
    };
    let workload = Workload::new(arguments.rounds, specification).map_err(|error| usage("--workload", &error))?;
    let participation = Participation::epochs(arguments.epochs);
    participation
        .check(arguments.rounds)
        .map_err(|error| usage("--epochs", &error))?;
    if let Some(path) = &arguments.check {
        let started = Instant::now();
        let factorization = FactorizationFile::read(path)?
            .check(workload, participation)
            .with_context(|| format!("--check {}", path.display()))?;
        return print(arguments, &factorization, started.elapsed().as_secs_f64(), false, json);
    }
    let request = FactorizationRequest {
        objective,
        gap: arguments.gap,
        ..FactorizationRequest::new(workload, participation, method)
    };
    let started = Instant::now();
    let folder = factorization_cache::default_folder().filter(|_| !arguments.no_cache);
    let (factorization, kept) = factorization_cache::factorize(request, folder.as_deref())?;
    let seconds = started.elapsed().as_secs_f64();
    if let Some(path) = &arguments.out {
        factorization_file::write(path, &factorization)
            .with_context(|| format!("--out {}: C could not be written", path.display()))?;
    }
    print(arguments, &factorization, seconds, kept, json)
}

/// The errors of a factorisation, as JSON or for people.
fn print(
    arguments: &FactorizeArguments,
    factorization: &Factorization,
    seconds: f64,
    kept: bool,
    json: bool,
) -> anyhow::Result<()> {
    let method = factorization
        .method()
        .map_or_else(|| "from a file".to_owned(), |method| method.to_string());
    let sensitivity = factorization.sensitivity();
    if json {
        let document = json!({
            "rounds": factorization.rounds(),
            "epochs": arguments.epochs,
            "workload": arguments.workload,
            "method": method,
            "sensitivity": sensitivity.value,
            "sensitivity_exactness": format!("{:?}", sensitivity.exactness),
            "rms_error": factorization.rms_error(),
            "max_error": factorization.max_error(),
            "frobenius": factorization.frobenius(),
            "relative_gap": factorization.relative_gap(),
            "seconds": seconds,
            "from_cache": kept,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        method,
        format!(
            "{} rounds of {}, {} epochs",
            arguments.rounds, arguments.workload, arguments.epochs
        ),
    ]);
    let gap = factorization
        .relative_gap()
        .map_or_else(|| "not an optimum".to_owned(), |gap| format!("{gap:.2e}"));
    for (what, value) in [
        ("root mean square error", format!("{:.9}", factorization.rms_error())),
        ("largest error of a round", format!("{:.9}", factorization.max_error())),
        ("‖B‖_F", format!("{:.9}", factorization.frobenius())),
        (
            "sensitivity of C as written",
            format!(
                "{:.9} ({:?}: {})",
                sensitivity.value, sensitivity.exactness, sensitivity.reason
            ),
        ),
        ("certified relative gap", gap),
        (
            "seconds",
            format!("{seconds:.3}{}", if kept { " (kept from before)" } else { "" }),
        ),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    println!("{table}");
    println!("Errors are per unit of noise, at sensitivity 1.");
    Ok(())
}

/// A workload by its name, or learning rates from a file.
fn workload(text: &str) -> anyhow::Result<WorkloadSpecification> {
    let Some(path) = text.strip_prefix("lr=") else {
        return text
            .parse()
            .map_err(|error| UsageError::new(format!("--workload: {error}")).into());
    };
    let content =
        std::fs::read_to_string(path).with_context(|| format!("--workload {text}: the file cannot be read"))?;
    let mut rates = Vec::new();
    for (line, value) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let rate = value
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|rate| *rate > 0.0 && rate.is_finite());
        rates.push(rate.with_context(|| format!("{path}:{}: '{value}' is not a positive learning rate", line + 1))?);
    }
    Ok(WorkloadSpecification::prefix().with_learning_rates(rates))
}

//! `rounds audit`: an empirical lower bound on the privacy loss of an algorithm, beside what it claims.

use std::time::Instant;

use rounds_algorithms::audit::{
    self, AuditError, AuditKey, AuditReport, AuditSettings, CanaryRows, Finding, Sabotage, Subject,
};
use rounds_algorithms::catalog;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::Adjacency;
use serde_json::{Value, json};

use super::{Output, UsageError, output};
use crate::cluster;
use crate::drawing::{Entry, Table};
use crate::experiment::definition::{counts, most_threads};
use crate::format::{scientific, three_digits};

/// Arguments of `rounds audit`.
#[derive(clap::Args)]
pub struct AuditArguments {
    /// Algorithm, one of `rounds list algorithms`, or `all` for every private one; or `moments`, the release that whitened features follow from.
    #[arg(long, value_name = "A")]
    algorithm: String,
    /// Runs of the algorithm in all [default: 20000, on a problem of a few rows]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000), value_name = "N")]
    runs: Option<u64>,
    /// ε of the claim [default: that of μ = 2 (Gaussian mechanisms), 4 (with subsampling), 2 (Laplace)]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// δ of the claim.
    #[arg(long, default_value_t = 1e-5, value_name = "D")]
    delta: f64,
    /// Neighbouring relation: zero-out, add-remove or replace-one [default: zero-out, or the one that --sabotage breaks]
    #[arg(long, value_name = "RELATION")]
    adjacency: Option<Adjacency>,
    /// Keys of the runs: simulation, or secure as a release draws its noise.
    #[arg(long, default_value = "simulation", value_name = "KIND")]
    key: AuditKey,
    /// Audit a copy that is broken on purpose: halved-noise, skipped-clip, ignored-participation, fixed-order or divisor-from-rows; with --units
    /// clip-rows-not-units, divisor-from-row-count or unit-count-from-rows; with --selection report-the-score or deterministic-count; with
    /// --rows network clip-after-sum, clip-layers or batch-statistic; of moments two-triangles
    #[arg(long, value_name = "HOW")]
    sabotage: Option<Sabotage>,
    /// Rows of the data: `f32`, or `bytes` or `fixed-point` (f32 of a declared domain), which releases sum as integers, or `short`: bytes in
    /// integers of 16 bits; or `network`: images through a small network.
    #[arg(long, default_value = "f32", value_name = "FORMAT")]
    rows: CanaryRows,
    /// Neighbours differ in a unit of several rows: three of them, or none.
    #[arg(long)]
    units: bool,
    /// Audit the best of a random number of runs, as `rounds tune` releases it.
    #[arg(long)]
    selection: bool,
    /// One training with M canaries, each in or out by a fair coin, instead of many with one: a weaker bound, in seconds
    #[arg(long, value_name = "M", conflicts_with_all = ["runs", "selection"])]
    one_run: Option<usize>,
    /// Seed of all runs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = counts(most_threads() as u64))]
    threads: Option<usize>,
}

/// Prints claims beside bounds, and fails where a bound exceeds a claim (of a sabotaged copy: where none does).
///
/// # Errors
/// An unknown algorithm, settings that it refuses, a claim that is disproved, sabotage that is not detected.
pub fn run(arguments: &AuditArguments, output: Output) -> anyhow::Result<()> {
    let threads = cluster::threads(arguments.threads)?;
    let engine = Engine::with_threads(threads).map_err(|error| UsageError::of(format!("--threads: {error}")))?;
    let audited = audited(arguments)?;
    let settings = AuditSettings {
        runs: arguments.runs.unwrap_or(20_000),
        seed: arguments.seed,
        epsilon: arguments.epsilon,
        delta: arguments.delta,
        adjacency: arguments.adjacency,
        key: arguments.key,
        sabotage: arguments.sabotage,
        rows: arguments.rows,
        units: arguments.units,
        selection: arguments.selection,
        one_run: arguments.one_run,
        judged: audited.len(),
    };
    let runs = if settings.one_run.is_some() { 3 } else { settings.runs };
    let length = runs * audited.len() as u64;
    let progress = output.progress(length, "{msg:20} {wide_bar} {pos}/{len} runs, {rate}, {left}");
    let relation = settings.adjacency.or(settings.sabotage.and_then(Sabotage::breaks));
    let mut reports = Vec::new();
    let mut refused = 0;
    for subject in &audited {
        let (algorithm, scene) = subject.names();
        progress.set_message(algorithm);
        let started = Instant::now();
        let report = subject.audit(&settings, &engine, &|runs| progress.inc(runs));
        let report = match report {
            // Of several scenes, those that do not offer the relation, or units, or an order to break, are no error.
            Err(error @ (AuditError::Prepare { .. } | AuditError::Order { .. }))
                if (relation.is_some() || settings.units || matches!(error, AuditError::Order { .. }))
                    && refused + 1 < audited.len() =>
            {
                refused += 1;
                AuditReport {
                    algorithm,
                    scene,
                    key: settings.key,
                    adjacency: relation.unwrap_or(Adjacency::ZeroOut),
                    sabotage: settings.sabotage,
                    rows: settings.rows,
                    units: settings.units,
                    selection: settings.selection,
                    finding: Err(match error {
                        AuditError::Prepare { source, .. } => source.to_string(),
                        other => other.to_string(),
                    }),
                }
            }
            Err(
                error @ (AuditError::Prepare { .. }
                | AuditError::Relation { .. }
                | AuditError::Sabotage(..)
                | AuditError::Order { .. }
                | AuditError::Canaries { .. }
                | AuditError::Counts(_)
                | AuditError::Moments(_)
                | AuditError::TooFewRuns(_)),
            ) => {
                return Err(UsageError::of(error));
            }
            report => report?,
        };
        let seconds = started.elapsed().as_secs_f64();
        reports.push(TimedReport { report, seconds });
    }
    progress.finish_and_clear();
    let documents: Vec<Value> = reports.iter().map(TimedReport::document).collect();
    // Of one algorithm that is named a single report is no list.
    let document = match &documents[..] {
        [single] if arguments.algorithm != "all" => single.clone(),
        _ => documents.into(),
    };
    output.print(&document, text(&reports))?;
    judge(&reports)
}

/// The algorithms and scenes to audit.
fn audited(arguments: &AuditArguments) -> anyhow::Result<Vec<Subject>> {
    let names: Vec<&str> = match arguments.algorithm.as_str() {
        "all" => {
            catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.private).map(|algorithm| algorithm.id).collect()
        }
        id => vec![id],
    };
    let subjects = names.iter().map(|name| Subject::of(name).map_err(UsageError::of)).collect::<Result<Vec<_>, _>>()?;
    let all = subjects.concat();
    let taken: Vec<_> = all.iter().copied().filter(|one| one.takes(arguments.rows, arguments.units)).collect();
    match (taken.is_empty(), all.first()) {
        (true, Some(one)) => Err(UsageError::of(AuditError::Rows(one.names().0))),
        _ => Ok(taken),
    }
}

/// The probability with which each bound exceeds the truth.
fn error(reports: &[TimedReport]) -> f64 {
    let found = reports.iter().find_map(|one| Some(one.report.finding.as_ref().ok()?.confidence));
    found.map_or(audit::ERROR, |confidence| 1.0 - confidence)
}

struct TimedReport {
    report: AuditReport,
    seconds: f64,
}

/// Fails where a claim is disproved, or where sabotage is not detected.
fn judge(reports: &[TimedReport]) -> anyhow::Result<()> {
    let disproved = |report: &AuditReport| report.finding.as_ref().is_ok_and(Finding::disproves);
    // A broken copy may stay below a loose claim, that without replacement say; one of its scenes has to show it.
    let detected = |id| reports.iter().any(|one| one.report.algorithm == id && disproved(&one.report));
    let wrong = reports.iter().map(|one| &one.report).filter(|report| match report.sabotage {
        None => disproved(report),
        Some(_) => report.finding.is_ok() && !detected(report.algorithm),
    });
    let wrong: Vec<_> = wrong.map(|report| format!("{} ({})", report.algorithm, report.scene)).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join(", ");
    match reports.first().and_then(|first| first.report.sabotage) {
        None => anyhow::bail!(
            "the bound exceeds the claim of {wrong}: except with probability {}, less noise was added than the claim needs",
            three_digits(error(reports) * reports.len() as f64)
        ),
        Some(sabotage) => anyhow::bail!(
            "{} was not detected in {wrong}: raise --runs, or check that the sabotage has an effect",
            sabotage.name()
        ),
    }
}

impl TimedReport {
    fn document(&self) -> Value {
        let report = &self.report;
        let mut document = json!({
            "algorithm": report.algorithm,
            "scene": report.scene,
            "key": report.key.name(),
            "adjacency": report.adjacency,
            "sabotage": report.sabotage.map(Sabotage::name),
            "rows": report.rows.name(),
            "unit": if report.units { "several rows" } else { "row" },
            "selection": report.selection,
        });
        let found = match &report.finding {
            Ok(finding) => json!({
                "integers": finding.integers,
                "claimed_mu": finding.claimed_mu,
                "claimed_epsilon": finding.claimed_epsilon,
                "delta": finding.delta,
                "mechanism": finding.mechanism,
                "lower_bound_mu": finding.lower_bound_mu,
                "lower_bound_epsilon": finding.lower_bound_epsilon,
                "disproved": finding.disproves(),
                "runs": finding.runs,
                "rounds": finding.rounds,
                "trials": finding.trials,
                "false_alarms": finding.false_alarms,
                "misses": finding.misses,
                "confidence": finding.confidence,
                "seconds": self.seconds,
                "one_run": finding.guesses.map(|found| {
                    json!({
                        "canaries": found.canaries,
                        "guesses": found.guesses,
                        "right": found.right,
                        "lower_bound_epsilon_at_delta": found.epsilon(finding.delta),
                    })
                }),
            }),
            Err(reason) => json!({
                "integers": null,
                "claimed_mu": null,
                "claimed_epsilon": null,
                "lower_bound_mu": null,
                "lower_bound_epsilon": null,
                "runs": 0,
                "confidence": null,
                "claim": "none",
                "reason": reason,
            }),
        };
        if let (Value::Object(document), Value::Object(found)) = (&mut document, found) {
            document.extend(found);
        }
        document
    }

    fn row(&self) -> [Entry; 11] {
        let report = &self.report;
        let number = |value: Option<f64>| Entry::number(value, |value| format!("{value:.3}"));
        let found = report.finding.as_ref().ok();
        let guesses = found.and_then(|finding| finding.guesses);
        let verdict = match (found.map(Finding::disproves), report.sabotage) {
            (None, _) => "no claim",
            (Some(false), None) => "below",
            (Some(true), None) => "ABOVE",
            (Some(true), Some(_)) => "detected",
            (Some(false), Some(_)) => "not detected",
        };
        [
            Entry::text(report.algorithm),
            Entry::text(report.scene),
            Entry::text(report.adjacency.name()),
            number(found.and_then(|finding| finding.claimed_mu)),
            number(found.and_then(|finding| finding.lower_bound_mu)),
            number(found.map(|finding| finding.claimed_epsilon)),
            number(found.map(|finding| finding.lower_bound_epsilon)),
            number(found.and_then(|finding| Some(finding.guesses?.epsilon(finding.delta)))),
            Entry::text(guesses.map_or_else(String::new, |found| format!("{} of {}", found.right, found.guesses))),
            Entry::text(found.map_or_else(String::new, |finding| scientific(finding.delta))),
            Entry::text(verdict),
        ]
    }
}

fn text(reports: &[TimedReport]) -> String {
    let mut table = Table::new(
        "Audit",
        "algorithm|scene|relation|#μ claim|#μ at least|#ε claim|#ε at least|#any noise|right guesses|δ|bound",
    );
    reports.iter().for_each(|report| table.row(report.row()));
    let (table, mut shared) = table.without_empty_columns().without_shared_columns(&["relation", "δ"]);
    let first = reports.first().map(|first| &first.report);
    shared.extend(first.map(|first| format!("key {}", first.key.name())));
    shared.extend(first.filter(|first| first.units).map(|_| "units of several rows".to_owned()));
    shared.extend(first.filter(|first| first.selection).map(|_| "the best of a random number of runs".to_owned()));
    shared.extend(first.and_then(|first| first.sabotage).map(|sabotage| format!("sabotage {}", sabotage.name())));
    let (table, shared) = (table.terminal(), shared.join(", "));
    let reason = |report: &AuditReport| {
        let reason = report.finding.as_ref().err()?;
        Some(format!("{} ({}): nothing is claimed: {reason}\n", report.algorithm, report.scene))
    };
    let reasons: String = reports.iter().filter_map(|one| reason(&one.report)).collect();
    let found = |one: &TimedReport| Some((one.report.rows, one.report.finding.as_ref().ok()?.integers));
    let rows = match reports.iter().find_map(found) {
        Some((CanaryRows::Bytes, true)) => "Rows of bytes, summed as integers.\n",
        Some((CanaryRows::Short, true)) => "Rows of bytes, summed as integers of 16 bits.\n",
        Some((CanaryRows::FixedPoint, true)) => "Fixed-point rows of f32, summed as integers of two bytes.\n",
        Some((CanaryRows::FixedPoint, false)) => {
            "Fixed-point rows, summed in f32: this processor has no kernels for integers.\n"
        }
        Some((CanaryRows::Bytes | CanaryRows::Short, false)) => {
            "Rows of bytes, summed in f32: this processor has no kernels for integers.\n"
        }
        Some((CanaryRows::F32, _)) => "Rows of f32.\n",
        Some((CanaryRows::Network, _)) => "Images, through a small network.\n",
        None => "",
    };
    let is_one = |one: &TimedReport| one.report.finding.as_ref().is_ok_and(|found| found.guesses.is_some());
    let one = if reports.iter().any(is_one) {
        "One run with many canaries. Only the bound on ε of any noise holds for noise of another kind than is claimed. "
    } else {
        ""
    };
    let error = three_digits(error(reports));
    let end = format!("{one}Each bound holds but with probability {error}; one below a claim is no proof of it.");
    format!("{table}\n{}", output::wrapped(&format!("{shared}\n{reasons}{rows}{end}"), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::audit::FEWEST_RUNS;

    #[test]
    fn documents_say_which_rows_were_audited_and_what_summed_them() {
        let tiles = rounds_kernels::linear::has_integer_kernels();
        for (rows, name, integers) in [
            (CanaryRows::F32, "f32", false),
            (CanaryRows::Bytes, "bytes", tiles),
            (CanaryRows::FixedPoint, "fixed-point", tiles),
            (CanaryRows::Short, "short", tiles),
        ] {
            let settings = AuditSettings { runs: FEWEST_RUNS, rows, ..AuditSettings::default() };
            let algorithm = catalog::find("dp-memf").ok().unwrap();
            let report = audit::audit(algorithm, &algorithm.scenes[0], &settings, &Engine::Sequential, &|_| ());
            let report = report.unwrap();
            let timed = TimedReport { report, seconds: 1.0 };
            let document = timed.document();
            assert_eq!(document["rows"], name);
            assert_eq!(document["integers"], integers);
            let text = text(&[timed]);
            assert!(text.contains("relation zero-out, δ 1e-5, key simulation"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}

//! `rounds simulate`: predicted time of a method on P workers with latency ℓ, from measured costs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rounds_algorithms::oracle::Engine;
use rounds_algorithms::theory::parallel::Method;
use serde::Serialize;

use super::{Output, UsageError, output};
use crate::format::{count, time};
use crate::grouping::distinct;
use crate::machine::Topology;
use crate::prediction::presentation;
use crate::prediction::queries::{self, Cell, Costs, Kind, PLACES, Place, Row};
use crate::prediction::ranks::Measurements;
use crate::report::{Entry, Table};
use crate::results::{Pooled, pool, read_run};
use crate::studies::depth_against_work as study;
use crate::studies::exponents::Study;
use rounds_models::files;

/// Arguments of `rounds simulate`.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// Methods [default: all that run].
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    algorithms: Vec<Method>,
    /// Number of workers [default: a machine, a rack, a continent and phones, with their latencies].
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..), requires = "latency")]
    workers: Option<u64>,
    /// Latency of a round in seconds, e.g. 0.03.
    #[arg(long, value_name = "SECONDS", value_parser = latency, requires = "workers")]
    latency: Option<f64>,
    /// Dimension of the measured function, the maximum of linear functions.
    #[arg(long, default_value_t = 256, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dimension: u32,
    /// Target gap ε with L = R = 1.
    #[arg(long, default_value_t = 0.05, value_name = "EPSILON", value_parser = accuracy)]
    accuracy: f64,
    /// Read the costs from the results of a study (`depth-against-work.json`) instead of measuring them.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Predict rounds on ranks instead, from these results of one process.
    #[arg(long, value_name = "DIR", requires = "measured", conflicts_with_all = ["from", "workers"])]
    from_run: Option<PathBuf>,
    /// Results of the same suite on ranks with this delay a direction; may be repeated.
    #[arg(long, value_name = "SECONDS=DIR", value_parser = measured_run, requires = "from_run")]
    measured: Vec<(f64, PathBuf)>,
    /// Source of the delays, for the record.
    #[arg(long, value_name = "WORD", default_value = "netem", requires = "from_run")]
    link: String,
    /// Folder for rows, tables and picture: latency.json, .md and .svg, scaling.json and .md.
    #[arg(long, value_name = "DIR", requires = "from_run")]
    out: Option<PathBuf>,
    /// Seed of the measured runs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// A finite number that is `valid`; else what is `expected`.
fn number(text: &str, valid: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&value: &f64| value.is_finite() && valid(value));
    number.ok_or_else(|| format!("'{text}' is not {expected}"))
}

fn latency(text: &str) -> Result<f64, String> {
    number(text, |seconds| seconds >= 0.0, "a number of seconds of at least 0, such as 0.03")
}

fn accuracy(text: &str) -> Result<f64, String> {
    let expected = "an accuracy between 0 and 1 (L = R = 1), such as 0.05";
    number(text, |epsilon| epsilon > 0.0 && epsilon < 1.0, expected)
}

fn measured_run(text: &str) -> Result<(f64, PathBuf), String> {
    let read = text.split_once('=').and_then(|(delay, folder)| Some((latency(delay).ok()?, folder.into())));
    read.ok_or_else(|| format!("'{text}' is not of the form SECONDS=DIR, such as 0.01=results/10ms"))
}

/// Measures or reads costs, and prints the predictions.
///
/// # Errors
/// Results that cannot be read or lack a cell; a method that cannot run; files that cannot be written.
pub fn run(arguments: &SimulateArguments, output: Output) -> anyhow::Result<()> {
    if let Some(alone) = &arguments.from_run {
        return predict_ranks(arguments, alone, output);
    }
    let methods = if arguments.algorithms.is_empty() { Method::ALL.to_vec() } else { arguments.algorithms.clone() };
    let costs = match &arguments.from {
        Some(path) => costs_from_study(path, arguments, &methods)?,
        None => measured_costs(arguments, &methods)?,
    };
    let places = match (arguments.workers, arguments.latency) {
        (Some(workers), Some(latency)) => vec![Place { name: "given", workers, latency }],
        _ => PLACES.to_vec(),
    };
    let rows = queries::rows(&costs, &places);
    print(&rows, output, || queries_text(&rows))
}

/// One row a JSON line, or all rows as text.
fn print<Row: Serialize>(rows: &[Row], output: Output, text: impl Fn() -> String) -> anyhow::Result<()> {
    for row in rows {
        output.json_line(row)?;
    }
    if output == Output::Text {
        println!("{}", text());
    }
    Ok(())
}

/// Queries after which a method is given up.
const MOST_QUERIES: u64 = 50_000_000;

/// Measures the methods now.
fn measured_costs(arguments: &SimulateArguments, methods: &[Method]) -> anyhow::Result<Costs> {
    let function = study::hard_function(arguments.dimension as usize, arguments.accuracy)?;
    let measure = |method: Method, threads| -> anyhow::Result<Cell> {
        let (accuracy, engine) = (arguments.accuracy, Engine::with_threads(threads)?);
        Ok(Cell {
            family: Kind::MaxOfLinear,
            algorithm: method.id().to_owned(),
            accuracy,
            threads,
            found: study::measure((&function, 0.0), method, accuracy, &engine, arguments.seed, MOST_QUERIES)?,
        })
    };
    let mut cells = Vec::new();
    for &method in methods {
        // Newton's method on the barrier: cubic work a round.
        if method == Method::CuttingPlane && arguments.dimension > 64 && arguments.algorithms.is_empty() {
            continue;
        }
        let one = measure(method, 1)?;
        if one.reached {
            let two = measure(method, 2)?;
            cells.push((one, Some(two).filter(|two| two.reached)));
        } else {
            output::warn(format!(
                "{}: a gap of {} was not reached within {} queries; the method is left out",
                method.id(),
                arguments.accuracy,
                one.gradient_queries
            ));
        }
    }
    anyhow::ensure!(!cells.is_empty(), "no method reached a gap of {}: raise --accuracy", arguments.accuracy);
    Ok(Costs { cells, exchange_seconds: study::exchange_seconds(2)? })
}

/// Reads the same from the results of a study.
fn costs_from_study(path: &Path, arguments: &SimulateArguments, methods: &[Method]) -> anyhow::Result<Costs> {
    let text = fs::read_to_string(path).with_context(|| format!("--from {}", path.display()))?;
    let study: Study =
        serde_json::from_str(&text).with_context(|| format!("--from {}: not a study", path.display()))?;
    let (dimension, accuracy) = (arguments.dimension as usize, arguments.accuracy);
    let reached = || {
        let cells = study.cells.iter();
        cells.filter(|cell| cell.family == Kind::MaxOfLinear && cell.reached)
    };
    let find = |method: &Method, threads: usize| {
        let wanted = (method.id(), dimension, accuracy, threads);
        let is_wanted = |cell: &&Cell| (&*cell.algorithm, cell.dimension, cell.accuracy, cell.threads) == wanted;
        reached().find(is_wanted).cloned()
    };
    let cells: Vec<_> = methods.iter().filter_map(|method| find(method, 1).map(|one| (one, find(method, 2)))).collect();
    if cells.is_empty() {
        let known =
            distinct(reached().map(|cell| format!("--dimension {} --accuracy {}", cell.dimension, cell.accuracy)));
        return Err(UsageError::of(format!(
            "{} holds no finished cell with --dimension {dimension} --accuracy {accuracy}; it holds: {}",
            path.display(),
            known.join(", ")
        )));
    }
    Ok(Costs { cells, exchange_seconds: study.exchange_seconds })
}

/// Predicts rounds on ranks, compares them with the measured ones, and writes rows, tables and, where there is a delay, the
/// picture.
fn predict_ranks(arguments: &SimulateArguments, alone: &Path, output: Output) -> anyhow::Result<()> {
    let pooled = |folder: &Path| -> anyhow::Result<Vec<Pooled>> { Ok(pool(&read_run(folder)?.results.samples)) };
    let one_process = pooled(alone)?.into_iter().map(|pooled| pooled.cell);
    let mut ranks = Vec::new();
    for (delay, folder) in &arguments.measured {
        ranks.push((*delay, pooled(folder)?));
    }
    ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let measurements =
        Measurements { one_process: one_process.filter(|cell| cell.configuration.ranks.is_none()).collect(), ranks };
    if measurements.undelayed().next().is_none() {
        return Err(UsageError::of(
            "--measured: one of the folders must be without delay (0=DIR): the link's own time comes from it",
        ));
    }
    let rows = measurements.latency_rows(&arguments.link).map_err(UsageError::of)?;
    let scaling = measurements.scaling_rows(Topology::detect().cores);
    let (latency, ranks) = (presentation::latency(&rows), presentation::ranks(&scaling));
    if let Some(out) = &arguments.out {
        let mut files = latency.pictures();
        files.extend(
            [
                ("latency.json", rows_of_json(&rows)?),
                ("latency.md", latency.markdown()),
                ("scaling.json", rows_of_json(&scaling)?),
                ("scaling.md", ranks.markdown()),
            ]
            .map(|(name, text)| (name.to_owned(), text)),
        );
        for (name, text) in files {
            let path = out.join(name);
            files::replace(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    print(&rows, output, || format!("{}\n\n{}", latency.terminal(), ranks.terminal()))
}

/// One row a line, numbers with six digits.
fn rows_of_json<Row: Serialize>(rows: &[Row]) -> anyhow::Result<String> {
    fn rounded(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) if number.is_f64() => {
                let short = format!("{:.5e}", number.as_f64().unwrap_or(f64::NAN)).parse::<f64>();
                *value = short.map_or(serde_json::Value::Null, Into::into);
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(rounded),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(rounded),
            _ => {}
        }
    }
    let line = |row| {
        let mut value = serde_json::to_value(row)?;
        rounded(&mut value);
        anyhow::Ok(value.to_string())
    };
    let lines: Vec<String> = rows.iter().map(line).collect::<Result<_, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Places in their order, the fastest method first.
fn queries_text(rows: &[Row]) -> String {
    let seconds = |seconds: f64| Entry::sorted(time(seconds * 1e9), seconds);
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| a.latency_s.total_cmp(&b.latency_s).then(a.seconds.total_cmp(&b.seconds)));
    let mut text = String::new();
    for own in rows.chunk_by(|a, b| a.place == b.place) {
        let columns = "algorithm|#time to target|#rounds|#queries|faster above";
        let mut table = Table::new("Time to a target", columns);
        for row in own {
            let overtakes = row.crossovers.iter();
            let faster = overtakes.map(|other| format!("{} than {}", time(other.latency_s * 1e9), other.against));
            table.row([
                Entry::text(&row.algorithm),
                seconds(row.seconds),
                Entry::count(row.rounds as usize),
                Entry::count(row.gradient_queries as usize),
                Entry::text(faster.collect::<Vec<_>>().join("\n")),
            ]);
        }
        let Row { place, workers, latency_s, .. } = &own[0];
        let (workers, latency) = (count(*workers as f64), time(latency_s * 1e9));
        let _ = writeln!(text, "{place}, workers: {workers}, latency: {latency}\n{}", table.terminal());
    }
    for row in rows.iter().filter(|row| row.place == rows[0].place) {
        if let Some(error) = row.two_thread_model_error {
            let (name, percent) = (&row.algorithm, 100.0 * error);
            let line = format!("\n{name}: the model's two-thread time is {percent:+.0} % off the measured one");
            text.push_str(&line);
        }
    }
    let end = "Modelled from one-thread times on the maximum of linear functions; bandwidth is not modelled.";
    text + "\n" + &output::wrapped(end, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_whose_numbers_have_six_digits() {
        let text =
            rows_of_json(&[serde_json::json!({"a": 0.123_456_789, "b": [7, 1e-9]}), serde_json::json!(2.5)]).unwrap();
        assert_eq!(text, "[\n{\"a\":0.123457,\"b\":[7,1e-9]},\n2.5\n]\n");
    }

    #[test]
    fn bad_numbers_are_refused_with_an_example() {
        assert!(latency("-1").is_err() && latency("x").unwrap_err().contains("0.03"));
        assert!(accuracy("1.5").is_err() && accuracy("0").is_err() && accuracy("0.1").is_ok());
        assert_eq!(measured_run("0.01=results/x=y"), Ok((0.01, PathBuf::from("results/x=y"))));
        assert!(measured_run("-1=x").is_err() && measured_run("x").unwrap_err().contains("0.01="));
    }
}

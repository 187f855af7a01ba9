//! `rounds simulate`: modelled time of parallel methods on P workers with the latency ℓ, from a study of query depth.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use super::{Output, UsageError, output};
use crate::drawing::{Entry, Table};
use crate::format::{count, time};
use crate::grouping::distinct;
use crate::studies::depth_cell::{Cell, Cells, Kind};

/// Arguments of `rounds simulate`.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// Results of the study, the file `depth-against-work.json`.
    #[arg(value_name = "FILE")]
    study: PathBuf,
    /// Number of workers.
    #[arg(long, value_name = "P", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..))]
    workers: u64,
    /// Latency of a round in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.05, value_parser = latency)]
    latency: f64,
    /// Dimension of the measured function, the maximum of linear functions.
    #[arg(long, value_name = "D", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dimension: u32,
    /// Target gap ε with L = R = 1.
    #[arg(long, value_name = "EPSILON", default_value_t = 0.05, value_parser = accuracy)]
    accuracy: f64,
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

/// A method on these workers.
#[derive(Serialize)]
struct Row {
    algorithm: String,
    workers: u64,
    latency_s: f64,
    seconds: f64,
    rounds: u64,
    gradient_queries: u64,
    dimension: usize,
    accuracy: f64,
}

/// Reads the study and prints the modelled times, the fastest method first.
///
/// # Errors
/// A file that is no study, or lacks the cell.
pub fn run(arguments: &SimulateArguments, output: Output) -> anyhow::Result<()> {
    let SimulateArguments { ref study, workers, latency, dimension, accuracy } = *arguments;
    let dimension = dimension as usize;
    let path = study.display();
    let text = fs::read_to_string(study).with_context(|| path.to_string())?;
    let study: Cells = serde_json::from_str(&text).with_context(|| format!("{path}: not a study of query depth"))?;
    let is_one = |cell: &&Cell| cell.family == Kind::MaxOfLinear && cell.reached && cell.threads == 1;
    let reached = || study.cells.iter().filter(is_one);
    let row = |cell: &Cell| Row {
        algorithm: cell.algorithm.clone(),
        workers,
        latency_s: latency,
        seconds: cell.work().time_to_target(workers, latency),
        rounds: cell.rounds,
        gradient_queries: cell.gradient_queries,
        dimension,
        accuracy,
    };
    let mut rows: Vec<Row> =
        reached().filter(|cell| (cell.dimension, cell.accuracy) == (dimension, accuracy)).map(row).collect();
    if rows.is_empty() {
        let known =
            distinct(reached().map(|cell| format!("--dimension {} --accuracy {}", cell.dimension, cell.accuracy)));
        return Err(UsageError::of(format!(
            "{path} holds no finished cell with --dimension {dimension} --accuracy {accuracy}; it holds: {}",
            known.join(", ")
        )));
    }
    rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    for row in &rows {
        output.json_line(row)?;
    }
    if output == Output::Text {
        let mut table = Table::new("Time to a target", "algorithm|#time to target|#rounds|#queries");
        for row in &rows {
            table.row([
                Entry::text(&row.algorithm),
                Entry::number(1e9 * row.seconds, time),
                Entry::count(row.rounds as usize),
                Entry::count(row.gradient_queries as usize),
            ]);
        }
        let (workers, latency) = (count(workers as f64), time(1e9 * latency));
        let end = "Modelled from one-thread times on the maximum of linear functions; bandwidth is not modelled.";
        println!("workers: {workers}, latency: {latency}\n{}\n{}", table.terminal(), output::wrapped(end, 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_refused_with_an_example() {
        assert!(latency("-1").is_err() && latency("x").unwrap_err().contains("0.03"));
        assert!(accuracy("1.5").is_err() && accuracy("0").is_err() && accuracy("0.1").is_ok());
    }
}

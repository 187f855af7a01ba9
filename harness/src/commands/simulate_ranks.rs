//! `rounds simulate --from-run`: what measured rounds of one process would take on ranks with a latency between them, and
//! how far that is from what they took.
//!
//! ```text
//! round(P, ℓ) = link + ℓ·log₂P + gradient/P + (round − gradient)
//! ```
//!
//! *round* and *gradient* are medians of one process with one thread, *link* the median in which the ranks hand a sum around
//! outside of any round when nothing delays it, ℓ the delay of a direction: the sum of an adaptive round is one message in
//! each of log₂P steps. Nothing is fitted to the rounds that are predicted.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use super::UsageError;
use crate::report::latency_svg;
use crate::results::{Cell, pool, read_run};

/// A folder of results that was measured with a delay.
#[derive(Clone, Debug)]
pub struct Measured {
    delay: f64,
    folder: PathBuf,
}

/// Reads `SECONDS=DIR`.
pub(super) fn measured(text: &str) -> Result<Measured, String> {
    text.split_once('=')
        .and_then(|(delay, folder)| {
            let delay = delay
                .parse()
                .ok()
                .filter(|&delay: &f64| delay >= 0.0 && delay.is_finite())?;
            Some(Measured {
                delay,
                folder: folder.into(),
            })
        })
        .ok_or_else(|| format!("'{text}' is not of the form SECONDS=DIR, such as 0.01=results/10ms"))
}

/// One method at one delay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyRow {
    /// The algorithm with its parameters.
    pub algorithm: String,
    /// Examples a round.
    pub batch_size: usize,
    /// Ranks.
    pub workers: usize,
    /// What delays: `netem`, or a relay in user space.
    pub link: String,
    /// Delay of a direction in seconds.
    pub latency_s: f64,
    /// Seconds in which the ranks hand a sum around without delay, outside of rounds.
    pub link_s: f64,
    /// Timed rounds.
    pub rounds: usize,
    /// Predicted median of a round.
    pub predicted_round_s: f64,
    /// Measured median of a round.
    pub measured_round_s: f64,
    /// Predicted over measured, less 1.
    pub round_error: f64,
    /// Predicted time of all timed rounds.
    pub predicted_seconds: f64,
    /// Measured time of all timed rounds.
    pub seconds: f64,
    /// Predicted over measured time, less 1.
    pub error: f64,
    /// Accuracy at the end.
    pub test_accuracy: Option<f64>,
    /// Delay above which this method's run is the faster one, by prediction, against methods of more rounds.
    pub overtakes: Vec<Overtaking>,
}

/// The delay above which a run is faster than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overtaking {
    /// The other method.
    pub against: String,
    /// Seconds a direction.
    pub latency_s: f64,
}

/// `round(P, ℓ)` in seconds.
fn predicted(alone: &Cell, ranks: usize, link: f64, delay: f64) -> f64 {
    let (round, gradient) = (alone.round_ns.median as f64, alone.phases_ns.gradient as f64);
    let steps = f64::from(ranks.max(1).ilog2());
    link + delay * steps + (gradient.min(round) / ranks as f64 + (round - gradient).max(0.0)) * 1e-9
}

/// Predicts, compares, and writes `latency.json` and `latency.svg` into `out`.
///
/// # Errors
/// Results that cannot be read, cells that are missing on one side, files that cannot be written.
pub(super) fn run(
    alone: &std::path::Path,
    measured: &[Measured],
    link: &str,
    out: Option<&std::path::Path>,
    json: bool,
) -> anyhow::Result<()> {
    let cells = |folder: &std::path::Path| -> anyhow::Result<Vec<Cell>> {
        Ok(pool(&read_run(folder)?.cells)
            .into_iter()
            .map(|pooled| pooled.cell)
            .collect())
    };
    let alone: Vec<Cell> = cells(alone)?
        .into_iter()
        .filter(|cell| cell.configuration.threads == 1 && cell.configuration.ranks.is_none())
        .collect();
    let mut runs = Vec::new();
    for run in measured {
        runs.push((run.delay, cells(&run.folder)?));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let undelayed = runs
        .first()
        .filter(|(delay, _)| *delay == 0.0)
        .map(|(_, cells)| cells.clone());
    let undelayed = undelayed.ok_or_else(|| {
        UsageError::new(
            "--measured: one of the folders must be without delay (0=DIR): the link's own time comes from it",
        )
    })?;
    let rows = rows(&alone, &undelayed, &runs, link)?;
    if let Some(out) = out {
        let write = |name: &str, text: String| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("latency.json", serde_json::to_string_pretty(&rows)?)?;
        write("latency.svg", latency_svg(&rows))?;
    }
    if json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        print_rows(&rows);
    }
    Ok(())
}

fn name(cell: &Cell) -> String {
    format!("{} B={}", cell.configuration.algorithm, cell.configuration.batch_size)
}

fn rows(
    alone: &[Cell],
    undelayed: &[Cell],
    runs: &[(f64, Vec<Cell>)],
    link: &str,
) -> Result<Vec<LatencyRow>, UsageError> {
    let same = |a: &Cell, b: &Cell| {
        let (a, b) = (&a.configuration, &b.configuration);
        (&a.algorithm, &a.dataset, a.batch_size, &a.parameters)
            == (&b.algorithm, &b.dataset, b.batch_size, &b.parameters)
    };
    let find = |cells: &[Cell], cell: &Cell| {
        cells.iter().find(|other| same(other, cell)).cloned().ok_or_else(|| {
            UsageError::new(format!(
                "{} was not measured everywhere: measure the same suite",
                cell.configuration.key()
            ))
        })
    };
    let mut rows = Vec::new();
    for (delay, cells) in runs {
        for cell in cells {
            let ranks = cell.configuration.ranks.unwrap_or(1);
            let own = find(alone, cell)?;
            let link_s = find(undelayed, cell)?.link_ns.unwrap_or(0) as f64 * 1e-9;
            let count = cell.round_ns.samples.len();
            let round = predicted(&own, ranks, link_s, *delay);
            let measured = cell.round_ns.median as f64 * 1e-9;
            let seconds = cell.round_ns.samples.iter().sum::<u64>() as f64 * 1e-9;
            let mut overtakes = Vec::new();
            for other in cells.iter().filter(|other| other.round_ns.samples.len() > count) {
                let (others, other_alone) = (other.round_ns.samples.len() as f64, find(alone, other)?);
                let start = count as f64 * predicted(&own, ranks, link_s, 0.0)
                    - others
                        * predicted(
                            &other_alone,
                            ranks,
                            find(undelayed, other)?.link_ns.unwrap_or(0) as f64 * 1e-9,
                            0.0,
                        );
                overtakes.push(Overtaking {
                    against: name(other),
                    latency_s: (start / ((others - count as f64) * f64::from(ranks.max(2).ilog2()))).max(0.0),
                });
            }
            rows.push(LatencyRow {
                algorithm: cell.configuration.algorithm.clone(),
                batch_size: cell.configuration.batch_size,
                workers: ranks,
                link: link.to_owned(),
                latency_s: *delay,
                link_s,
                rounds: count,
                predicted_round_s: round,
                measured_round_s: measured,
                round_error: round / measured - 1.0,
                predicted_seconds: round * count as f64,
                seconds,
                error: round * count as f64 / seconds - 1.0,
                test_accuracy: cell.test_accuracy,
                overtakes,
            });
        }
    }
    Ok(rows)
}

fn print_rows(rows: &[LatencyRow]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "delay",
        "algorithm",
        "batch",
        "rounds",
        "round",
        "predicted",
        "error",
        "run",
        "predicted",
        "error",
        "accuracy",
        "faster above",
    ]);
    let time = |seconds: f64| {
        if seconds < 1.0 {
            format!("{:.2} ms", seconds * 1e3)
        } else {
            format!("{seconds:.2} s")
        }
    };
    let percent = |value: f64| format!("{:+.1} %", 100.0 * value);
    for row in rows {
        let overtakes: Vec<_> = row
            .overtakes
            .iter()
            .map(|other| format!("{} than {}", time(other.latency_s), other.against))
            .collect();
        table.add_row([
            time(row.latency_s),
            row.algorithm.clone(),
            row.batch_size.to_string(),
            row.rounds.to_string(),
            time(row.measured_round_s),
            time(row.predicted_round_s),
            percent(row.round_error),
            time(row.seconds),
            time(row.predicted_seconds),
            percent(row.error),
            row.test_accuracy
                .map_or_else(String::new, |accuracy| format!("{:.1} %", 100.0 * accuracy)),
            overtakes.join("\n"),
        ]);
    }
    println!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_with_their_folders() {
        let read = measured("0.01=results/x=y").unwrap();
        assert_eq!((read.delay, read.folder), (0.01, PathBuf::from("results/x=y")));
        assert!(measured("-1=x").is_err() && measured("x").unwrap_err().contains("0.01="));
    }
}

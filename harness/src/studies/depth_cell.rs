//! A cell of the study of query depth: a method that ran to a gap of ε, its counts and its times.

use std::ops::Deref;

use rounds_algorithms::theory::parallel_time::Work;
use serde::{Deserialize, Serialize};

use crate::grouping::by_key;
use crate::statistics::{as_numbers, median};

/// A kind of function that costs are measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// `MaxOfLinear`: the maximum of linear functions.
    MaxOfLinear,
    /// `PlantedRegression`: mean absolute residuals.
    L1Regression,
    /// The mean hinge loss of a data set.
    Hinge,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) family: Kind,
    /// Id of the method.
    pub(crate) algorithm: String,
    /// ε.
    pub(crate) accuracy: f64,
    pub(crate) threads: usize,
    #[serde(flatten)]
    pub(crate) found: Found,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// d.
    pub(crate) dimension: usize,
    /// True if the gap reached ε; otherwise the counts are those at the end.
    pub(crate) reached: bool,
    /// Gap of the start, 0.
    pub(crate) start_gap: f64,
    pub(crate) gap: f64,
    /// Adaptive rounds.
    pub(crate) rounds: u64,
    /// Steps of the outer loop: rounds without the trials of a line search.
    pub(crate) iterations: u64,
    /// Gradient queries.
    pub(crate) gradient_queries: u64,
    /// Dependent vector operations.
    pub(crate) computational_depth: u64,
    /// Seconds, without evaluations of the gap.
    pub(crate) seconds: f64,
    /// Seconds of them in rounds of more than one query.
    pub(crate) query_seconds: f64,
    /// Seconds of them in reweighted mini-batches of more than one sample.
    pub(crate) reweight_seconds: f64,
    /// Number of such mini-batches.
    pub(crate) reweightings: u64,
    /// Samples in them.
    pub(crate) reweighted: u64,
}

impl Found {
    /// The medians of runs of one cell, one a seed. Unless all of them reached the target it was not reached.
    pub(crate) fn median(runs: &[&Cell]) -> Self {
        let number = |value: fn(&Self) -> f64| median(&runs.iter().map(|run| value(run)).collect::<Vec<_>>());
        let count = |value: fn(&Self) -> u64| {
            let values: Vec<u64> = runs.iter().map(|run| value(run)).collect();
            median(&as_numbers(&values)).round() as u64
        };
        Self {
            dimension: runs.first().map_or(0, |run| run.dimension),
            reached: runs.iter().all(|run| run.reached),
            start_gap: number(|run| run.start_gap),
            gap: number(|run| run.gap),
            rounds: count(|run| run.rounds),
            iterations: count(|run| run.iterations),
            gradient_queries: count(|run| run.gradient_queries),
            computational_depth: count(|run| run.computational_depth),
            seconds: number(|run| run.seconds),
            query_seconds: number(|run| run.query_seconds),
            reweight_seconds: number(|run| run.reweight_seconds),
            reweightings: count(|run| run.reweightings),
            reweighted: count(|run| run.reweighted),
        }
    }
}

impl Deref for Cell {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.found
    }
}

impl Cell {
    /// The same for all runs of a cell.
    pub(crate) fn setting(&self) -> impl PartialEq {
        (self.family, &*self.algorithm, self.dimension, self.threads, self.accuracy.to_bits())
    }

    /// Counts and times for the model of other machines; those of one thread.
    pub(crate) fn work(&self) -> Work {
        Work {
            rounds: self.rounds,
            queries: self.gradient_queries,
            query_seconds: self.query_seconds,
            mini_batches: self.reweightings,
            samples: self.reweighted,
            reweight_seconds: self.reweight_seconds,
            rest_seconds: (self.seconds - self.query_seconds - self.reweight_seconds).max(0.0),
        }
    }

    /// True if the counts describe the method: it reached its target, from a start well above it.
    pub(crate) fn is_typical(&self) -> bool {
        self.reached && self.start_gap > 2.0 * self.accuracy
    }
}

/// All cells in the order in which they were measured, each with the medians of its runs: `depth-against-work.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cells {
    pub(crate) cells: Vec<Cell>,
}

impl Cells {
    /// The cells of these runs.
    pub(crate) fn of(runs: &[Cell]) -> Self {
        let cells = by_key(runs.iter().map(|run| (run.setting(), run))).into_iter();
        Self { cells: cells.map(|(_, runs)| Cell { found: Found::median(&runs), ..runs[0].clone() }).collect() }
    }

    /// JSON with one line for each cell.
    pub(crate) fn document(&self) -> Result<String, serde_json::Error> {
        let lines: Result<Vec<_>, _> = self.cells.iter().map(serde_json::to_string).collect();
        Ok(format!("{{\"cells\": [\n{}\n]}}\n", lines?.join(",\n")))
    }
}

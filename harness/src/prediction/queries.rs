//! Time of a parallel method on P workers with round latency ℓ, from a cell of the study of query depth.
//!
//! Bandwidth is not modelled: a worker receives a centre of d numbers a round, and its answer is as small as a query's.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{Overtaking, crossing};
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

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::MaxOfLinear, Self::L1Regression, Self::Hinge];
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

    /// True if the counts describe the method: it reached its target, from a start well above it.
    pub(crate) fn is_typical(&self) -> bool {
        self.reached && self.start_gap > 2.0 * self.accuracy
    }
}

/// A number of workers and their latency.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// P.
    pub(crate) workers: u64,
    /// ℓ in seconds.
    pub(crate) latency: f64,
}

/// Round-trip latencies of their kind: shared memory, a rack's network, a continent's, and mobile devices.
pub(crate) const PLACES: [Place; 4] = [
    Place { name: "machine", workers: 2, latency: 1e-6 },
    Place { name: "rack", workers: 256, latency: 5e-5 },
    Place { name: "continent", workers: 1_024, latency: 0.05 },
    Place { name: "phones", workers: 100_000, latency: 10.0 },
];

/// Seconds of `shares` tasks of `seconds` in all, in `parts` equal parts one after the other, on P workers.
fn shared(seconds: f64, shares: u64, parts: u64, workers: u64) -> f64 {
    let helpful = (shares as f64 / parts.max(1) as f64).clamp(1.0, workers as f64);
    seconds / helpful
}

/// Seconds outside of rounds of queries and of reweighted mini-batches.
fn rest(cell: &Cell) -> f64 {
    (cell.seconds - cell.query_seconds - cell.reweight_seconds).max(0.0)
}

/// ```text
/// seconds(P, ℓ) = rounds·ℓ + queries/min(P, queries a round)
///               + min(reweighting, reweighting/min(P, samples a mini-batch) + mini-batches·ℓ) + rest
/// ```
///
/// from a one-thread cell. A round of queries is one exchange. Reweighted mini-batches follow each other, and each is an
/// exchange too; where that takes longer, one worker reweights alone.
pub(crate) fn modelled_seconds(cell: &Cell, workers: u64, latency: f64) -> f64 {
    let queries = shared(cell.query_seconds, cell.gradient_queries, cell.rounds, workers);
    let reweighting = shared(cell.reweight_seconds, cell.reweighted, cell.reweightings, workers);
    let reweighting = cell.reweight_seconds.min(reweighting + cell.reweightings as f64 * latency);
    cell.rounds as f64 * latency + queries + reweighting + rest(cell)
}

/// `rest + min(queries, queries/2 + rounds·ℓ) + min(reweighting, reweighting/2 + mini-batches·ℓ)`, with 2 for fewer than two
/// shares as in [`modelled_seconds`]: the time on two threads of one process, whose rounds cost ℓ beside their work. A round
/// stays on one thread where sharing it takes longer.
pub(crate) fn modelled_seconds_of_two_threads(cell: &Cell, exchange: f64) -> f64 {
    let part =
        |seconds: f64, shares, parts: u64| seconds.min(shared(seconds, shares, parts, 2) + parts as f64 * exchange);
    rest(cell)
        + part(cell.query_seconds, cell.gradient_queries, cell.rounds)
        + part(cell.reweight_seconds, cell.reweighted, cell.reweightings)
}

/// The latency from which on one worker reweights alone.
fn latency_of_one_worker(cell: &Cell, workers: u64) -> f64 {
    let saved = cell.reweight_seconds - shared(cell.reweight_seconds, cell.reweighted, cell.reweightings, workers);
    saved / cell.reweightings.max(1) as f64
}

/// ℓ above which `cell` is faster than `other` on P workers, 0 if it always is; `None` if it needs at least as many rounds.
pub(crate) fn crossover(cell: &Cell, other: &Cell, workers: u64) -> Option<f64> {
    if cell.rounds >= other.rounds {
        return None;
    }
    let mut corners = [0.0, latency_of_one_worker(cell, workers), latency_of_one_worker(other, workers)];
    corners.sort_by(f64::total_cmp);
    let behind = |latency: f64| modelled_seconds(cell, workers, latency) - modelled_seconds(other, workers, latency);
    Some(crossing(behind, &corners, (other.rounds - cell.rounds) as f64))
}

/// Costs that predictions rest on.
pub(crate) struct Costs {
    /// One-thread cells that reached the target, with the two-thread cell of the same setting.
    pub(crate) cells: Vec<(Cell, Option<Cell>)>,
    /// Seconds that a round costs two threads beside its work.
    pub(crate) exchange_seconds: f64,
}

/// One method in one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Id of the method.
    pub(crate) algorithm: String,
    pub(crate) place: String,
    /// P.
    pub(crate) workers: u64,
    /// ℓ.
    pub(crate) latency_s: f64,
    pub(crate) seconds: f64,
    /// Adaptive rounds.
    pub(crate) rounds: u64,
    /// Gradient queries.
    pub(crate) gradient_queries: u64,
    /// d.
    pub(crate) dimension: usize,
    /// ε.
    pub(crate) accuracy: f64,
    pub(crate) measured_seconds: f64,
    /// Modelled over measured two-thread time, less 1.
    pub(crate) two_thread_model_error: Option<f64>,
    /// Methods of more rounds that this one overtakes.
    pub(crate) crossovers: Vec<Overtaking>,
}

/// The model on all cells in all places.
pub(crate) fn rows(costs: &Costs, places: &[Place]) -> Vec<Row> {
    let cells = &costs.cells;
    let row = |place: &Place, cell: &Cell, two: Option<&Cell>| Row {
        algorithm: cell.algorithm.clone(),
        place: place.name.to_owned(),
        workers: place.workers,
        latency_s: place.latency,
        seconds: modelled_seconds(cell, place.workers, place.latency),
        rounds: cell.rounds,
        gradient_queries: cell.gradient_queries,
        dimension: cell.dimension,
        accuracy: cell.accuracy,
        measured_seconds: cell.seconds,
        two_thread_model_error: two
            .map(|two| modelled_seconds_of_two_threads(cell, costs.exchange_seconds) / two.seconds - 1.0),
        crossovers: cells
            .iter()
            .filter(|(other, _)| other.algorithm != cell.algorithm)
            .filter_map(|(other, _)| {
                let latency_s = crossover(cell, other, place.workers)?;
                let against = other.algorithm.clone();
                Some(Overtaking { against, latency_s })
            })
            .collect(),
    };
    places.iter().flat_map(|place| cells.iter().map(|(cell, two)| row(place, cell, two.as_ref()))).collect()
}

#[cfg(test)]
mod tests {
    use super::modelled_seconds as seconds;
    use super::*;

    fn cell(algorithm: &str, rounds: u64, queries: u64, seconds: f64, parallel: f64) -> Cell {
        Cell {
            family: Kind::MaxOfLinear,
            algorithm: algorithm.to_owned(),
            accuracy: 0.05,
            threads: 1,
            found: Found {
                dimension: 256,
                reached: true,
                rounds,
                gradient_queries: queries,
                seconds,
                query_seconds: parallel,
                ..Found::default()
            },
        }
    }

    #[test]
    fn no_more_workers_help_than_a_round_has_queries() {
        let cell = cell("a", 10, 40, 5.0, 4.0);
        assert_eq!(seconds(&cell, 1, 0.0), 5.0);
        assert_eq!(seconds(&cell, 2, 0.0), 3.0);
        assert_eq!(seconds(&cell, 4, 0.5), 7.0);
        assert_eq!(seconds(&cell, 1_000_000, 0.5), 7.0);
    }

    #[test]
    fn mini_batches_are_shared_out_while_their_exchanges_are_worth_it() {
        // 100 mini-batches of 8 samples: 3 s on one worker, 0.75 s and 100 exchanges on four.
        let mut cell = cell("a", 10, 40, 5.0, 1.0);
        cell.found.reweight_seconds = 3.0;
        (cell.found.reweightings, cell.found.reweighted) = (100, 800);
        assert_eq!(seconds(&cell, 4, 0.0), 1.0 + 0.25 + 0.75);
        assert_eq!(seconds(&cell, 4, 0.01), 0.1 + 1.0 + 0.25 + 0.75 + 1.0);
        assert_eq!(seconds(&cell, 4, 1.0), 10.0 + 1.0 + 0.25 + 3.0);
        assert_eq!(seconds(&cell, 1_000, 0.0), 1.0 + 0.25 + 3.0 / 8.0);
        // Against a method whose time is between those with and without sharing, the lines cross before the corner.
        for other in [2.5, 3.0, 4.5] {
            let other = super::tests::cell("b", 60, 60, other, 0.0);
            let latency = crossover(&cell, &other, 4).unwrap();
            if latency > 0.0 {
                assert!((seconds(&cell, 4, latency) - seconds(&other, 4, latency)).abs() < 1e-12);
            }
            for above in [1.01, 2.0, 1e3, 1e6] {
                let latency = above * latency.max(1e-9);
                assert!(seconds(&cell, 4, latency) < seconds(&other, 4, latency), "{latency}");
            }
        }
    }

    #[test]
    fn lines_cross_where_both_take_the_same_time() {
        let (shallow, deep) = (cell("shallow", 10, 1_000, 8.0, 0.0), cell("deep", 400, 400, 0.2, 0.0));
        let latency = crossover(&shallow, &deep, 4).unwrap();
        assert!((seconds(&shallow, 4, latency) - seconds(&deep, 4, latency)).abs() < 1e-12);
        assert!(seconds(&shallow, 4, 1.1 * latency) < seconds(&deep, 4, 1.1 * latency));
        assert!(crossover(&deep, &shallow, 4).is_none());
        let better = cell("better", 10, 10, 0.1, 0.0);
        assert_eq!(crossover(&better, &deep, 4), Some(0.0));
    }

    #[test]
    fn two_threads_share_what_is_worth_an_exchange() {
        let cell = cell("a", 10, 40, 5.0, 4.0);
        // Rounds that cost more than sharing saves stay on one thread.
        for (exchange, expected) in [(0.0, 3.0), (0.1, 4.0), (0.3, 5.0)] {
            assert!((modelled_seconds_of_two_threads(&cell, exchange) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn every_cell_has_a_row_in_every_place() {
        let costs = Costs {
            cells: vec![
                (cell("a", 10, 40, 5.0, 4.0), Some(cell("a", 10, 40, 3.3, 2.0))),
                (cell("b", 90, 90, 1.0, 0.0), None),
            ],
            exchange_seconds: 0.01,
        };
        let rows = rows(&costs, &PLACES);
        assert_eq!(rows.len(), 8);
        // 1 + 4/2 + 10·0.01 = 3.1 against 3.3.
        assert!((rows[0].two_thread_model_error.unwrap() + 0.0606).abs() < 1e-3);
        assert_eq!(rows[0].crossovers.len(), 1);
    }
}

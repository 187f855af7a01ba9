//! The time of a round on threads that a machine does not have, from the phases measured on one and two.
//!
//! With g, z, s, u the phases of one thread (gradient, noise, sampling, update), L leaves of B rows, in M ≥ L pieces on p threads, and N
//! blocks of coordinates,
//!
//! `T(p) = s + u + g·⌈M/p⌉·(B/M + c)/(B + L·c) + z·⌈N/p⌉/N + rest + shared(p)`,
//!
//! where a leaf or piece costs as much as c rows beside its own and `rest` is what one thread spends between phases; phases longer than
//! their round, since the clock adds to them, count as shares of it, so that T(1) is the measured time. `shared` is 0 on one thread, and on more what T(2) leaves of the time measured
//! on two: barriers, weights that are packed once, caches. It is taken to be the same for all p ≥ 2: memory bandwidth, a frequency that
//! falls with busy cores and barriers that grow with p are not modelled, so a prediction is a floor.

use std::path::Path;

use rounds_algorithms::noise::PARALLEL_CHUNK;
use rounds_algorithms::parallel::partition;
use rounds_algorithms::problem::{Domain, PublicProblem, Storage};
use rounds_kernels::loss::Loss;
use rounds_models::data::built_in;
use serde::Serialize;

use crate::experiment::Configuration;
use crate::format::plural;
use crate::results::{Cell, Phases, Pooled, pool};
use crate::statistics::sorted_quantile;

/// Threads of the predictions.
pub(crate) const THREADS: [usize; 3] = [4, 16, 64];

/// A round on one thread, as far as threads can share it. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Round<'a> {
    phases: Phases,
    /// Median of whole rounds.
    total: f64,
    problem: &'a PublicProblem,
    rows: usize,
    blocks: usize,
    shared: f64,
}

impl Round<'_> {
    /// Pieces of all leaves.
    fn pieces(&self, threads: usize) -> usize {
        self.problem.leaves(self.rows) * self.problem.pieces(self.rows, threads)
    }

    /// The parts of T(p) with their names.
    fn parts(&self, threads: usize) -> [(&'static str, f64); 6] {
        let Phases { sample, gradient, noise, update } = self.phases;
        let sum = (sample + gradient + noise + update) as f64;
        let serial = |time: u64| time as f64 * (self.total / sum.max(1.0)).min(1.0);
        // The time of some leaves or pieces on a thread, in rows.
        let rows = |own: usize, of: usize| {
            own as f64 * (self.rows as f64 / of as f64 + self.problem.leaf_rows() / partition::LEAVES_MARGIN)
        };
        let (leaves, pieces) = (self.pieces(1), self.pieces(threads));
        let of_gradient = rows(pieces.div_ceil(threads), pieces) / rows(leaves, leaves);
        let of_noise = self.blocks.div_ceil(threads) as f64 / self.blocks as f64;
        [
            ("sampling", serial(sample)),
            ("gradient", serial(gradient) * of_gradient),
            ("noise", serial(noise) * of_noise),
            ("update", serial(update)),
            ("between phases", (self.total - sum).max(0.0)),
            ("sharing", if threads > 1 { self.shared } else { 0.0 }),
        ]
    }

    /// T(p).
    fn time(&self, threads: usize) -> f64 {
        self.parts(threads).iter().map(|(_, time)| time).sum()
    }

    /// The longest part of T(p); where it has fewer leaves, pieces of them or blocks than there are threads, their number.
    fn binds(&self, threads: usize) -> String {
        let longest = self.parts(threads).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (name, _) = longest.expect("six parts");
        match name {
            "gradient" if self.pieces(threads) < threads => {
                match (self.problem.leaves(self.rows), self.pieces(threads)) {
                    (1, _) => "1 leaf".to_owned(),
                    (leaves, pieces) if leaves == pieces => format!("{leaves} leaves"),
                    (_, pieces) => format!("{pieces} pieces"),
                }
            }
            "noise" if self.blocks < threads => plural(self.blocks, "block"),
            name => name.to_owned(),
        }
    }
}

/// A prediction: times in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Prediction {
    /// The method's label, or its algorithm.
    pub(crate) algorithm: String,
    /// The same with parameters.
    pub(crate) method: String,
    pub(crate) dataset: String,
    pub(crate) features: String,
    pub(crate) batch_size: usize,
    pub(crate) leaves: usize,
    /// Measured on one thread.
    pub(crate) one_ns: f64,
    /// Measured on two.
    pub(crate) two_ns: Option<f64>,
    /// The time on two threads by the phases of one alone, over the measured one, less 1.
    pub(crate) error_at_two: Option<f64>,
    /// On [`THREADS`].
    pub(crate) predicted_ns: [f64; 3],
    /// The longest part of each.
    pub(crate) binds: [String; 3],
}

/// The public part of a data set whose domain is known by its name.
fn problem(cell: &Cell, data_dir: Option<&Path>) -> Option<PublicProblem> {
    let Configuration { dataset, features, .. } = &cell.configuration;
    let storage = match features.as_str() {
        "u8" => Storage::Bytes,
        "sparse" => Storage::Sparse,
        _ => Storage::Dense,
    };
    let domain = Domain { storage, ..(*built_in(dataset, data_dir)?).clone() };
    let loss = if domain.classes().is_none() {
        Loss::Squared
    } else if cell.shape.classes > 1 {
        Loss::Softmax
    } else {
        Loss::Logistic
    };
    PublicProblem::of_domain(dataset, &domain.into(), cell.shape.n, loss, 0.0).ok()
}

fn predict(one: &Pooled, two: Option<&Pooled>, problem: &PublicProblem) -> Prediction {
    let (cell, configuration) = (&one.cell, one.configuration());
    let parameters = cell.shape.classes.max(1) * (cell.shape.dimension + 1);
    let blocks = parameters.div_ceil(PARALLEL_CHUNK).max(1);
    let rows = configuration.batch_size;
    let alone = Round { phases: cell.phases_ns, total: one.median(), problem, rows, blocks, shared: 0.0 };
    let two_ns = two.map(Pooled::median);
    let shared = two_ns.map_or(0.0, |two| (two - alone.time(2)).max(0.0));
    let round = Round { shared, ..alone };
    Prediction {
        algorithm: configuration.label_of_method().to_owned(),
        method: configuration.label(),
        dataset: configuration.dataset.clone(),
        features: configuration.features.clone(),
        batch_size: rows,
        leaves: problem.leaves(rows),
        one_ns: one.median(),
        two_ns,
        error_at_two: two_ns.map(|two| alone.time(2) / two - 1.0),
        predicted_ns: THREADS.map(|threads| round.time(threads)),
        binds: THREADS.map(|threads| round.binds(threads)),
    }
}

/// Rounds read one batch of the given size, at one point or at two: within a tenth, the queries of one or of two.
fn reads_one_batch(cell: &Cell) -> bool {
    let rounds = cell.round_ns.samples.len() as f64;
    let batches = cell.work.timed_queries as f64 / rounds / cell.configuration.batch_size as f64;
    [1.0, 2.0].iter().any(|times| (batches / times - 1.0).abs() <= 0.1)
}

/// Predictions for the cells that were measured on one thread and read one batch a round, by data set and batch size.
pub(crate) fn predictions(cells: &[Cell], data_dir: Option<&Path>) -> Vec<Prediction> {
    let pooled: Vec<Pooled> = pool(cells)
        .into_iter()
        .filter(|one| one.configuration().ranks.is_none() && reads_one_batch(&one.cell))
        .collect();
    let on = |threads: usize| pooled.iter().filter(move |one| one.configuration().threads == threads);
    let predicted = on(1).filter_map(|one| {
        let twice = Configuration { threads: 2, ..one.configuration().clone() };
        let two = on(2).find(|two| *two.configuration() == twice);
        Some(predict(one, two, &problem(&one.cell, data_dir)?))
    });
    let mut predicted: Vec<Prediction> = predicted.collect();
    predicted.sort_by_cached_key(|one| (one.dataset.clone(), one.features.clone(), one.batch_size));
    predicted
}

/// The median and the ninth decile of the errors at two threads, without sign; none where two threads were not measured.
pub(crate) fn errors(predictions: &[Prediction]) -> Option<[f64; 2]> {
    let mut errors: Vec<f64> = predictions.iter().filter_map(|one| one.error_at_two).map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    (!errors.is_empty()).then(|| [0.5, 0.9].map(|probability| sorted_quantile(&errors, probability)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RoundTimes, tests::cell};

    /// A cell of DP-SGD on rows of bytes whose round took so long.
    fn measured(threads: usize, total: u64, phases: Phases) -> Cell {
        let mut cell = cell("dp-sgd", 2_000, threads, 0);
        (cell.configuration.dataset, cell.configuration.features) = ("synthetic-mnist".into(), "u8".into());
        (cell.shape.n, cell.shape.dimension, cell.shape.classes) = (60_000, 784, 10);
        cell.work.timed_queries = 5 * 2_000;
        (cell.round_ns, cell.phases_ns) = (RoundTimes::new(vec![total; 5]), phases);
        cell
    }

    #[test]
    fn planted_phases_predict_their_time_and_the_part_that_binds() {
        let planted = Phases { sample: 4_000, gradient: 400_000, noise: 6_000, update: 3_000 };
        let cells = [measured(1, 415_000, planted), measured(2, 230_000, planted)];
        let [found] = &predictions(&cells, None)[..] else { panic!("one prediction") };
        assert_eq!((found.leaves, found.two_ns), (4, Some(230_000.0)));
        // Two of four leaves a thread: 215 µs, of 230 measured.
        assert!((found.error_at_two.unwrap() - (215.0 / 230.0 - 1.0)).abs() < 1e-12);
        // One of four leaves a thread; one of sixteen pieces a thread, each of 125 of 2,000 rows and 85 beside its own.
        let share = (125.0 + 256.0 / 3.0) / (2_000.0 + 4.0 * 256.0 / 3.0);
        let are = |found: &Prediction, rest: f64, gradient: f64| {
            let expected = [0.25, share, share].map(|share| rest + share * gradient);
            let close =
                found.predicted_ns.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
            assert!(close, "{:?}, not {expected:?}", found.predicted_ns);
        };
        // With the 15 µs that two threads lost.
        are(found, 30_000.0, 400_000.0);
        assert_eq!(found.binds, ["gradient", "gradient", "16 pieces"]);
        let planted = Phases { gradient: 8_000, noise: 90_000, ..planted };
        let alone = &predictions(&[measured(1, 105_000, planted)], None)[0];
        assert_eq!(alone.error_at_two, None);
        are(alone, 97_000.0, 8_000.0);
        assert_eq!(alone.binds, ["1 block"; 3]);
        // Phases of twice the round are halved.
        let clock =
            &predictions(&[measured(1, 206_500, Phases { gradient: 400_000, noise: 6_000, ..planted })], None)[0];
        assert_eq!(clock.one_ns, 206_500.0);
        are(clock, 6_500.0, 200_000.0);
        assert!(predictions(&cells[1..], None).is_empty());
        let mut whole_set = cells[0].clone();
        whole_set.work.timed_queries *= 30;
        assert!(predictions(&[whole_set], None).is_empty());
        assert_eq!(errors(std::slice::from_ref(alone)), None);
        let error = found.error_at_two.unwrap();
        assert_eq!(errors(std::slice::from_ref(found)), Some([-error, -error]));
    }
}

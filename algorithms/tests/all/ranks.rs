//! Properties of ranks that share the rows: the same bits as one process with all rows, for any number of ranks and
//! threads, whatever the batches, the format of the rows and the algorithm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rounds_algorithms::catalog;
use rounds_algorithms::optimizers::{SamplingKind, Settings};
use rounds_algorithms::oracle::{Ledger, Oracle, QueryError, evaluate};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::parallel::ranks::{Ranks, ThreadRanks};
use rounds_algorithms::problem::{Dataset, Features, Problem, ProblemError};
use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::Clip;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

use crate::runs::{budget, dataset, executor, in_domain, labels, loss_of, noisy, whole};

/// Runs `work` on every rank with its part of the rows; the answers, by rank.
fn on_ranks<R: Send>(
    dataset: &Dataset,
    ranks: usize,
    threads: usize,
    work: impl Fn(&Problem, &Engine) -> R + Sync,
) -> Vec<R> {
    on_counted_ranks(dataset, ranks, threads, |problem, engine, _| work(problem, engine))
}

/// [`on_ranks`], with the number of exchanges of a rank in which rows were sent.
fn on_counted_ranks<R: Send>(
    dataset: &Dataset,
    ranks: usize,
    threads: usize,
    work: impl Fn(&Problem, &Engine, &AtomicUsize) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = ThreadRanks::of(ranks)
            .into_iter()
            .map(|own| {
                scope.spawn(move || {
                    let exchanges = Arc::new(AtomicUsize::new(0));
                    let own: Arc<dyn Ranks> = Arc::new(Counting { ranks: own, exchanges: Arc::clone(&exchanges) });
                    let rows = dataset.len();
                    let part = rows * own.rank() / ranks..rows * (own.rank() + 1) / ranks;
                    let part = dataset.select(part);
                    let digest = part.digest_over(&*own);
                    assert_eq!(digest, dataset.digest(), "the digest depends on the ranks");
                    let loss = loss_of(dataset);
                    let problem = Problem::sharded(part, loss, true, 0.01, &*own, |found| found);
                    let problem: Problem = problem.map_err(|error: ProblemError| error).expect("a problem");
                    let engine = Engine::over_ranks(own, threads).expect("threads");
                    engine.clone().install(|| work(&problem, &engine, &exchanges))
                })
            })
            .collect();
        let answers = running.into_iter().map(|rank| rank.join().expect("no rank panics"));
        answers.collect()
    })
}

fn settings(sampling: Option<SamplingKind>, batch_size: usize) -> Settings {
    let settings = noisy(0.7, 11).with("batch-size", batch_size).with("epochs", 3.0);
    match sampling {
        Some(sampling) => settings.with("sampling", sampling),
        None => settings,
    }
}

type Trained = (Vec<u32>, Ledger, u64);

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The model's bits, the counts, and the bits of its training loss. Where ranks and threads are odd in number together,
/// rows are placed before the first round; else they travel when they are needed.
fn train(problem: &Problem, engine: &Engine, id: &str, settings: &Settings, most_rounds: u64) -> Trained {
    let mut executor = executor(problem, id, settings, engine);
    let ranks = engine.ranked().map_or(0, |ranked| ranked.ranks().count());
    if (ranks + engine.threads()) % 2 == 1 {
        executor.place();
    }
    for _ in 0..executor.rounds().min(most_rounds) {
        executor.advance().expect("a round");
    }
    let ledger = executor.ledger();
    let solution = executor.solution();
    let loss = evaluate(problem, engine, solution).expect("finite").loss;
    (bits(solution), ledger, loss.to_bits())
}

#[test]
fn the_model_has_the_same_bits_for_any_number_of_ranks_and_threads() {
    let samplings = [
        SamplingKind::Poisson,
        SamplingKind::Fixed,
        SamplingKind::Shuffled,
        SamplingKind::Reshuffled,
        SamplingKind::WithoutReplacement,
    ];
    let data = [
        dataset("u8", 1_501, 60, 10),
        dataset("f32", 1_500, 90, 0),
        // Few features: a kernel of its own.
        dataset("f32", 1_500, 40, 0),
        dataset("sparse", 1_499, 80, 3),
        in_domain(dataset("f32", 1_500, 70, 10)),
    ];
    for (dataset, sampling) in data.iter().flat_map(|data| samplings.map(|sampling| (data, sampling))) {
        // One leaf, and several.
        for batch_size in [20, 600] {
            let adjacency = match sampling {
                SamplingKind::WithoutReplacement => "replace-one",
                _ => "zero-out",
            };
            let settings = settings(Some(sampling), batch_size)
                .with("adjacency", adjacency)
                .with("epochs", if batch_size == 20 { 0.5 } else { 3.0 });
            let run = |problem: &Problem, engine: &Engine| train(problem, engine, "dp-sgd", &settings, u64::MAX);
            let one = run(&whole(dataset), &Engine::Sequential);
            for (ranks, threads) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2), (7, 1)] {
                for (rank, found) in on_ranks(dataset, ranks, threads, run).into_iter().enumerate() {
                    assert!(
                        found == one,
                        "rank {rank} of {ranks}, {threads} threads, {sampling:?}, batches of {batch_size}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_have_the_same_bits_on_ranks_though_every_addition_of_leaves_rounds() {
    // Leaves whose sums lie up to 2⁴⁴ apart: f64 cannot hold them together, so the order in which they are added shows. (Sums
    // of f32 that are alike in size are exact in f64, in any order.)
    let (rows, columns) = (6_000, 100);
    let mut stream = UniformStream::new(&StreamKey::Simulation(6), Purpose(1), 0, 0);
    let values = (0..rows * columns).map(|place| {
        let leaf = place / columns / 375;
        let scale = 2.0_f64.powi((leaf * 17 % 45) as i32 - 22);
        (scale * (2.0 * stream.next_f64() - 1.0)) as f32
    });
    let features = Features::f32(values.collect::<Vec<_>>(), columns);
    let mut of_labels = UniformStream::new(&StreamKey::Simulation(6), Purpose(2), 0, 0);
    let labels = labels(rows, 0, &mut of_labels);
    let dataset = Dataset::new("of all sizes", features, labels).expect("a valid data set");
    let sum_of = |oracle: &mut Oracle<'_>, rows: std::ops::Range<usize>| {
        let problem = oracle.problem();
        let mut sum = vec![0.0; problem.parameters()];
        let zeros = vec![0.0; problem.parameters()];
        let sums = oracle.gradient_sum(&Selection::Range(rows), &zeros, Clip::Unbounded, &mut sum);
        sums.expect("finite");
        sum
    };
    let problem = whole(&dataset);
    let mut oracle = Oracle::new(&problem, Engine::Sequential);
    let parts: Vec<Vec<f64>> = (0..16).map(|leaf| sum_of(&mut oracle, leaf * 375..(leaf + 1) * 375)).collect();
    let from_left = parts.iter().fold(0.0, |sum, part| sum + part[0]);
    let from_right = parts.iter().rev().fold(0.0, |sum, part| sum + part[0]);
    assert!(from_left.to_bits() != from_right.to_bits(), "the order of additions does not show");
    let one: Vec<u64> = sum_of(&mut oracle, 0..rows).iter().map(|value| value.to_bits()).collect();
    for (ranks, threads) in [(1, 2), (2, 1), (2, 2), (3, 1), (4, 1), (7, 1)] {
        let run = |problem: &Problem, engine: &Engine| {
            let sum = sum_of(&mut Oracle::new(problem, engine.clone()), 0..rows);
            sum.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        for found in on_ranks(&dataset, ranks, threads, run) {
            assert!(found == one, "{ranks} ranks of {threads} threads");
        }
    }
}

/// Ranks that count the exchanges in which rows travel.
struct Counting {
    ranks: ThreadRanks,
    exchanges: Arc<AtomicUsize>,
}

impl Ranks for Counting {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn count(&self) -> usize {
        self.ranks.count()
    }

    fn swap(&self, partner: usize, values: &[f64], received: &mut [f64]) {
        self.ranks.swap(partner, values, received);
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        self.ranks.all_gather(own, lengths, all);
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.ranks.broadcast(from, bytes);
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        if incoming.iter().any(|bytes| !bytes.is_empty()) {
            self.exchanges.fetch_add(1, Ordering::Relaxed);
        }
        self.ranks.exchange(outgoing, incoming);
    }
}

#[test]
fn no_row_travels_in_a_round_that_could_be_foreseen() {
    let dataset = dataset("f32", 6_000, 60, 10);
    let samplings = [
        (SamplingKind::Poisson, "zero-out"),
        (SamplingKind::Fixed, "zero-out"),
        (SamplingKind::Shuffled, "zero-out"),
        (SamplingKind::WithoutReplacement, "replace-one"),
    ];
    let two_runs = |algorithm: &str, settings: &Settings, ranks: usize, place: bool| {
        let exchanges = on_counted_ranks(&dataset, ranks, 1, |problem, engine, exchanges| {
            [(); 2].map(|()| {
                let mut executor = executor(problem, algorithm, settings, engine);
                if place {
                    executor.place();
                }
                let before = exchanges.load(Ordering::Relaxed);
                (0..executor.rounds()).for_each(|_| executor.advance().expect("a round"));
                exchanges.load(Ordering::Relaxed) - before
            })
        });
        let sum = |run: usize| exchanges.iter().map(|own| own[run]).sum::<usize>();
        [sum(0), sum(1)]
    };
    for (sampling, adjacency) in samplings {
        let settings = settings(Some(sampling), 2_000).with("adjacency", adjacency);
        for ranks in [2, 3, 4] {
            let found = two_runs("dp-sgd", &settings, ranks, true);
            assert_eq!(found, [0, 0], "{sampling:?} on {ranks} ranks");
        }
        let [found, _] = two_runs("dp-sgd", &settings, 2, false);
        assert!(found > 0, "{sampling:?} without placing");
    }
    // Batches of an order that changes: its first epoch could be foreseen; later ones travel, in every run again.
    let epochs = |epochs| settings(None, 2_000).with("epochs", epochs);
    assert_eq!(two_runs("sgd", &epochs(1.0), 2, true), [0, 0]);
    let [first, second] = two_runs("sgd", &epochs(3.0), 2, true);
    assert!(first > 0 && first == second, "{first} exchanges, then {second}");
}

#[test]
fn every_algorithm_has_the_same_bits_on_ranks() {
    let dataset = dataset("f32", 900, 100, 0).clip_features(Norm::L2, 1.0).expect("a bound");
    for algorithm in catalog::ALGORITHMS {
        let budget = budget(algorithm);
        let own = settings(None, 300).without("epochs");
        let settings = Settings { budget, ..own };
        let problem = whole(&dataset);
        let settings = match algorithm.prepare(&problem, &settings) {
            Ok(_) => settings,
            Err(_) => settings.without("batch-size"),
        };
        if let Err(error) = algorithm.prepare(&problem, &settings) {
            println!("skipped: {}: {error}", algorithm.id);
            continue;
        }
        // A round of ReSQue is thousands of queries, each an exchange between ranks.
        let most_rounds = if algorithm.id.starts_with("resque") { 2 } else { 12 };
        let run = |problem: &Problem, engine: &Engine| train(problem, engine, algorithm.id, &settings, most_rounds);
        let one = run(&problem, &Engine::Sequential);
        for found in on_ranks(&dataset, 3, 2, run) {
            assert!(found == one, "{} on 3 ranks", algorithm.id);
        }
    }
}

#[test]
fn l1_clips_and_duplicate_rows_have_the_same_bits_on_ranks() {
    for format in ["f32", "u8", "sparse"] {
        let dataset = dataset(format, 800, 70, 4);
        let mut stream = UniformStream::new(&StreamKey::Simulation(9), Purpose(1), 0, 0);
        // With replacement, in no order: several rounds, so that guests come, stay and leave.
        let batches: Vec<Vec<u32>> = (0..6).map(|_| (0..1_200).map(|_| stream.below(800) as u32).collect()).collect();
        let clip = Clip::l1(0.5);
        let run = |problem: &Problem, engine: &Engine| {
            let parameters = vec![0.01; problem.parameters()];
            let mut oracle = Oracle::new(problem, engine.clone());
            let mut sums = Vec::new();
            for batch in &batches {
                let mut sum = vec![0.0; problem.parameters()];
                let selection = Selection::Indices(batch);
                oracle.gradient_sum(&selection, &parameters, clip, &mut sum).expect("finite");
                sums.extend(sum.iter().map(|value| value.to_bits()));
            }
            (sums, oracle.ledger())
        };
        let one = run(&whole(&dataset), &Engine::Sequential);
        assert!(one.1.clipped > 0);
        for ranks in [1, 2, 3, 5] {
            assert!(on_ranks(&dataset, ranks, 1, run).iter().all(|found| *found == one), "{format} on {ranks} ranks");
        }
    }
}

#[test]
fn a_row_that_fails_is_named_on_every_rank_and_its_rank_is_known() {
    let dataset = dataset("f32", 1_000, 90, 0);
    let run = |problem: &Problem, engine: &Engine| {
        let mut oracle = Oracle::new(problem, engine.clone());
        let mut sum = vec![0.0; problem.parameters()];
        // Margins overflow where the first feature is not tiny: row 0 of the batch fails first.
        let mut parameters = vec![0.0; problem.parameters()];
        parameters[0] = f32::INFINITY;
        let batch = Selection::Range(700..1_000);
        let error = oracle.gradient_sum(&batch, &parameters, Clip::Unbounded, &mut sum).expect_err("infinite margins");
        let QueryError::Row(error) = error else { panic!("{error}") };
        (error.row, engine.ranked().and_then(|ranked| ranked.failed()))
    };
    let (row, _) = run(&whole(&dataset), &Engine::Sequential);
    for found in on_ranks(&dataset, 3, 1, run) {
        assert_eq!(found.0, row);
        assert!(found.1.is_some());
    }
}

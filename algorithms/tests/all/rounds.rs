//! Properties of a round of any optimiser: the same bits for any number of threads, exact counts, no allocation
//! after the first, sensitivity at most the clip norm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use rounds_algorithms::optimizers::{SamplingKind, Settings};
use rounds_algorithms::oracle::{Ledger, Oracle};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Dataset, Features, Problem};
use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::recorded::{ByOutput, RecordedBlock, Reweighting};
use rounds_kernels::linear::{BLOCK_ROWS, Clip, NonFiniteGradient, Point, Precision, has_integer_kernels};
use rounds_kernels::loss::Loss;

use crate::runs::{dataset, executor, in_domain, noisy};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's guarantees for `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees for `pointer` and `layout` are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn problem(rows: usize, columns: usize, classes: usize) -> Problem {
    softmax(dataset("f32", rows, columns, classes as u64))
}

fn softmax(dataset: Dataset) -> Problem {
    Problem::new(Arc::new(dataset), Loss::Softmax, true, 0.0).expect("classes for softmax")
}

fn settings(noise_multiplier: f64) -> Settings {
    noisy(noise_multiplier, 11)
}

/// Parameters after all rounds on an engine, and the oracle's counts.
fn train(problem: &Problem, id: &str, settings: &Settings, engine: &Engine) -> (Vec<f32>, Ledger) {
    let mut executor = executor(problem, id, settings, engine);
    executor.run().expect("every round");
    (executor.solution().to_vec(), executor.ledger())
}

#[test]
fn memory_nodes_change_where_rows_lie_and_no_bit_of_the_model() {
    let settings = settings(1.0).with("batch-size", 700).with("epochs", 2.0);
    let sparse = || softmax(dataset("sparse", 2_000, 50, 10));
    let makers: [&dyn Fn() -> Problem; 3] = [&|| problem(3_000, 50, 10), &sparse, &|| declared(3_000, 70, 10)];
    for make in makers {
        let one = train(&make(), "dp-sgd", &settings, &Engine::Sequential).0;
        for nodes in [&[1][..], &[1, 1], &[2, 1]] {
            let engine = Engine::with_start(nodes, |_| ()).expect("threads");
            let original = make();
            let placed = make().placed_for(&engine);
            assert!(placed.dataset().features() == original.dataset().features());
            assert!(train(&placed, "dp-sgd", &settings, &engine).0 == one, "{nodes:?}");
        }
    }
}

#[test]
fn the_model_has_the_same_bits_for_any_number_of_threads() {
    for problem in [problem(3_000, 50, 10), declared(3_000, 70, 10)] {
        for batch_size in [64, 700, 3_000] {
            let settings = settings(1.0).with("batch-size", batch_size).with("epochs", 2.0);
            let bits = |threads| {
                let engine = Engine::with_threads(threads).expect("threads");
                train(&problem, "dp-sgd", &settings, &engine).0
            };
            let one = bits(1);
            for threads in [2, 3, 5] {
                assert!(bits(threads) == one, "{threads} threads, batches of {batch_size}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_library_that_turns_subnormal_numbers_off_moves_no_bit_of_a_model() {
    let labels = dataset("f32", 3_000, 50, 10).labels().clone();
    let values: Vec<f32> = (0..3_000 * 50).map(|place| (place % 89) as f32 * 1e-40).collect();
    let problem = softmax(Dataset::new("tiny", Features::f32(values, 50), labels).expect("rows"));
    let settings = settings(1.0).with("batch-size", 3_000).with("rounds", 2);
    let of_threads =
        || [1, 3].map(|threads| train(&problem, "sgd", &settings, &Engine::with_threads(threads).unwrap()).0);
    let expected = of_threads();
    assert!(expected[0].iter().any(|weight| weight.is_subnormal()));
    let found = std::thread::scope(|scope| {
        let in_other_mode = scope.spawn(|| {
            // Flush to zero, and subnormal operands as zero.
            let mode = 0x9fc0_u32;
            // SAFETY: the control register of a thread that ends here is loaded; no exception is unmasked.
            unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
            of_threads()
        });
        in_other_mode.join().unwrap()
    });
    assert!(found == expected);
}

/// Bytes are worth no power of two, so that sums of leaves in a simulation are rounded, and pieces that were, too, would show. So would the bias
/// of bytes worth 1e-9, whose sums are exact in a release alone.
#[test]
fn leaves_of_integers_have_the_same_bits_in_any_number_of_pieces() {
    let rows = 3_001;
    let bytes = dataset("u8", rows, 784, 10);
    let values: Vec<u8> = (0..rows * 784).map(|place| (place * 31 % 251) as u8).collect();
    let tiny = Dataset::new("tiny", Features::bytes(&values, 784, 1e-9), bytes.labels().clone()).expect("rows");
    for problem in
        [softmax(bytes), softmax(tiny), declared(rows, 784, 10), declared(rows, 20, 10), problem(rows, 784, 10)]
    {
        let parameters = scattered(&problem);
        for (exact, precision) in [(false, Precision::Bits24), (true, Precision::Bits24), (true, Precision::Bits16)] {
            let sum = |threads| {
                let oracle = Oracle::new(&problem, Engine::with_threads(threads).expect("threads"));
                let oracle = if exact { oracle.exactly() } else { oracle };
                let mut sum = vec![0.0; problem.parameters()];
                let mut oracle = oracle.at_precision(precision);
                oracle.gradient_sum(&Selection::Range(0..rows), &parameters, l2(1.0), &mut sum).expect("finite rows");
                (sum, oracle.ledger().clipped)
            };
            let one = sum(1);
            for threads in [2, 3, 6, 16] {
                assert!(sum(threads) == one, "{threads} threads, {:?}", problem.model());
            }
        }
        let leaves = problem.leaves(rows);
        let pieces = [1, 2, 16].map(|threads| problem.pieces(rows, threads));
        assert_eq!(pieces, [1, 1, if problem.is_in_integers() { 16 / leaves } else { 1 }]);
    }
}

#[test]
fn no_round_after_the_first_allocates() {
    let problems = [problem(4_000, 30, 10), declared(4_000, 70, 10)];
    for (problem, id) in problems.iter().flat_map(|problem| [(problem, "sgd"), (problem, "dp-sgd")]) {
        for sampling in [SamplingKind::Shuffled, SamplingKind::Poisson] {
            let settings = settings(1.0).with("batch-size", 1_000).with("epochs", 5.0).with("sampling", sampling);
            let mut executor = executor(problem, id, &settings, &Engine::Sequential);
            executor.advance().unwrap();
            let before = ALLOCATIONS.get();
            executor.run().unwrap();
            assert_eq!(ALLOCATIONS.get(), before, "{id}, {sampling:?}");
        }
    }
}

#[test]
fn rounds_and_queries_are_counted_exactly() {
    let problem = problem(1_000, 5, 3);
    let settings = settings(1.0).with("batch-size", 300).with("epochs", 2.0).with("sampling", SamplingKind::Fixed);
    let (_, ledger) = train(&problem, "dp-sgd", &settings, &Engine::Sequential);
    // ⌈2·1000/300⌉ = 7 rounds: 300, 300, 300, 100 and again 300, 300, 300.
    assert_eq!((ledger.rounds, ledger.gradient_queries), (7, 1_900));
    let mut oracle = Oracle::new(&problem, Engine::Sequential);
    let parameters = vec![0.0; problem.parameters()];
    let mut sum = vec![0.0; problem.parameters()];
    let point = |coefficient| Point { coefficient, parameters: &parameters };
    let (rows, free) = (Selection::Range(0..10), Clip::Unbounded);
    oracle.difference_sum(&rows, point(2.0), point(1.0), free, &mut sum).unwrap();
    assert_eq!((oracle.ledger().rounds, oracle.ledger().gradient_queries), (1, 20));
}

#[test]
fn an_empty_batch_is_a_round_like_any_other() {
    let problem = problem(50, 5, 3);
    let mut oracle = Oracle::new(&problem, Engine::Sequential);
    let mut sum = vec![1.0; problem.parameters()];
    let parameters = vec![0.0; problem.parameters()];
    oracle.gradient_sum(&Selection::Indices(&[]), &parameters, l2(1.0), &mut sum).unwrap();
    assert!(sum.iter().all(|&value| value == 0.0));
    assert_eq!(oracle.ledger().rounds, 1);
    // 1 expected row out of 50 a round: many batches are empty, and every release still carries noise.
    let settings = settings(5.0).with("batch-size", 1).with("epochs", 1.0);
    let mut executor = executor(&problem, "dp-sgd", &settings, &Engine::Sequential);
    let mut empty = 0;
    let mut before = executor.solution().to_vec();
    for _ in 0..50 {
        let queries = executor.ledger().gradient_queries;
        executor.advance().unwrap();
        empty += u32::from(executor.ledger().gradient_queries == queries);
        let after = executor.solution().to_vec();
        assert!(before != after);
        before = after;
    }
    assert!(empty > 5, "{empty} empty batches");
}

fn l2(clip_norm: f32) -> Clip {
    Clip::Bounded { norm: Norm::L2, clip_norm }
}

/// Parameters of all sizes.
fn scattered(problem: &Problem) -> Vec<f32> {
    let value = |j: usize| ((j * 7 % 13) as f32 - 6.0) / 3.0;
    (0..problem.parameters()).map(value).collect()
}

/// The same problem in a declared domain.
fn declared(rows: usize, columns: usize, classes: usize) -> Problem {
    softmax(in_domain(dataset("f32", rows, columns, classes as u64)))
}

/// ‖sum over all 700 rows − sum over all but `example`‖.
fn moved(problem: &Problem, example: u32, mut sum: impl FnMut(&Selection<'_>, &mut [f64])) -> f64 {
    let all: Vec<u32> = (0..700).collect();
    let others: Vec<u32> = (0..700).filter(|&row| row != example).collect();
    let [with, without] = [&all, &others].map(|rows| {
        let mut total = vec![0.0; problem.parameters()];
        sum(&Selection::Indices(rows), &mut total);
        total
    });
    let squares = with.iter().zip(&without).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

#[test]
fn without_one_example_a_clipped_sum_moves_by_at_most_the_clip_norm() {
    let problem = problem(700, 20, 4);
    let mut oracle = Oracle::new(&problem, Engine::Sequential);
    let parameters = scattered(&problem);
    let previous: Vec<f32> = parameters.iter().map(|x| x * 0.9 + 0.01).collect();
    let point = |coefficient, parameters| Point { coefficient, parameters };
    for clip_norm in [0.05_f32, 1.0, 100.0] {
        // Clips allow for their own rounding; that of sums in f32 moves with the places of the rows.
        let most = f64::from(clip_norm) * (1.0 + 1e-3);
        for example in [0, 130, 699] {
            let gradient = moved(&problem, example, |rows, sum| {
                oracle.gradient_sum(rows, &parameters, l2(clip_norm), sum).unwrap();
            });
            let difference = moved(&problem, example, |rows, sum| {
                let (current, previous) = (point(3.0, &parameters), point(2.0, &previous));
                oracle.difference_sum(rows, current, previous, l2(clip_norm), sum).unwrap();
            });
            assert!(gradient <= most && difference <= most, "{gradient}, {difference} > {most}");
        }
    }
}

#[test]
fn without_noise_and_clipping_dp_sgd_is_sgd() {
    let problem = problem(1_000, 10, 4);
    let shared = settings(1e-30)
        .with("batch-size", 100)
        .with("epochs", 3.0)
        .with("learning-rate", 0.5)
        .with("momentum", 0.9)
        .with("sampling", SamplingKind::Shuffled);
    let model = |id, settings: &Settings| train(&problem, id, settings, &Engine::Sequential).0;
    let unclipped = shared.clone().with("clip-norm", 1e6);
    let last = shared.clone().with("averaging", "last");
    assert_eq!(model("dp-sgd", &unclipped), model("sgd", &last));
}

#[test]
fn a_row_more_moves_an_exact_sum_by_its_own_contribution_and_no_more_than_the_clip_norm() {
    // Of f32 rows, and of their planes.
    let problems = [20, 70].map(|columns| declared(700, columns, 4));
    for (problem, difference) in problems.iter().flat_map(|problem| [(problem, false), (problem, true)]) {
        let in_planes = problem.model().features >= 64 && has_integer_kernels();
        assert_eq!(problem.is_in_integers(), in_planes);
        let mut oracle = Oracle::new(problem, Engine::Sequential).exactly();
        let parameters = scattered(problem);
        let previous: Vec<f32> = parameters.iter().map(|x| x * 0.9 + 0.01).collect();
        let point = |coefficient, parameters| Point { coefficient, parameters };
        let points = if difference {
            (point(3.0, &parameters[..]), Some(point(2.0, &previous[..])))
        } else {
            (Point::at(&parameters), None)
        };
        let mut sum = |rows: &Selection<'_>, sum: &mut [f64]| {
            let unit = oracle.sum_in_units(rows, points, l2(1.0), sum).unwrap();
            assert!(sum.iter().all(|value| value.fract() == 0.0));
            unit.expect("exact sums have a unit")
        };
        for example in [0, 130, 699] {
            let moved = moved(problem, example, |rows, to| {
                sum(rows, to);
            });
            let mut own = vec![0.0; problem.parameters()];
            let unit = sum(&Selection::Indices(&[example]), &mut own);
            let length = own.iter().map(|value| value * value).sum::<f64>().sqrt();
            assert_eq!(moved, length);
            assert!(length * unit <= 1.0 + 1e-14, "{}", length * unit);
        }
    }
}

#[test]
fn a_recorded_row_moves_a_release_sum_by_what_it_adds_alone() {
    let problem = declared(700, 20, 4);
    let mut oracle = Oracle::new(&problem, Engine::Sequential).exactly();
    let rows = Selection::Range(0..700);
    let parameters = vec![0.1; problem.parameters()];
    let mut residuals = vec![0.0; 4 * 700];
    oracle.record(&rows, &parameters, None, &mut residuals).unwrap();
    let lattice = oracle.lattice(1.0, l2(0.3)).unwrap();
    assert!(lattice.is_some());
    let mut sum = |residuals: &[f32]| {
        let weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| -> Result<(), NonFiniteGradient> {
            for (position, weight) in block.positions.clone().zip(weights) {
                *weight = 1.0 / (position + 1) as f32;
            }
            Ok(())
        };
        let reweighting = Reweighting { offset: &parameters, residuals: ByOutput::new(residuals, 4), lattice };
        let mut sum = vec![0.0; problem.parameters()];
        oracle.recorded_sum(&rows, reweighting, &weigh, &mut sum).unwrap();
        sum
    };
    let all = sum(&residuals);
    for example in [0, 130, 699] {
        let masked = |keep: &dyn Fn(usize) -> bool| -> Vec<f32> {
            let places = residuals.iter().enumerate();
            places.map(|(place, &value)| if keep(place % 700) { value } else { 0.0 }).collect()
        };
        let (others, own) = (sum(&masked(&|row| row != example)), sum(&masked(&|row| row == example)));
        for ((all, others), own) in all.iter().zip(&others).zip(&own) {
            assert_eq!(all - others, *own);
        }
    }
}

//! Runs on networks: every first-order method, the same bits for any number of threads, and refusals by name.

use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::Settings;
use rounds_algorithms::oracle::{Oracle, evaluate};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Dataset, Features, Labels, Problem};
use rounds_kernels::features::Selection;
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

use crate::runs::{budget, dataset, in_domain};

const NETWORK: &str = "image 6x5x2, conv 4, group-norm 2, tanh, pool, dense 6, relu";

fn problem(dataset: Dataset) -> Problem {
    let problem = Problem::new(Arc::new(dataset), Loss::Softmax, true, 0.0).expect("classes");
    problem.with_network(NETWORK).expect("a network")
}

/// Rows of f32 with and without a domain, and bytes.
fn problems(rows: usize) -> [Problem; 3] {
    [in_domain(dataset("f32", rows, 60, 3)), dataset("f32", rows, 60, 3), dataset("u8", rows, 60, 3)].map(problem)
}

fn settings(id: &str) -> Settings {
    let algorithm = catalog::find(id).expect("in the catalogue");
    Settings::new(budget(algorithm), StreamKey::Simulation(3)).with("batch-size", 90).with("rounds", 6)
}

#[test]
fn every_method_with_steps_runs_on_a_network_with_the_same_bits_for_any_number_of_threads() {
    let first_order = catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.reads("initialization"));
    let ids: Vec<_> = first_order.map(|algorithm| algorithm.id).collect();
    assert!(["sgd", "dp-sgd", "dp-ftrl", "dp-mf", "dp-mf-plus", "dp-srg-memf"].iter().all(|id| ids.contains(id)));
    for problem in problems(270) {
        for id in &ids {
            let algorithm = catalog::find(id).expect("in the catalogue");
            let [one, two, three] = [1, 2, 3].map(|threads| {
                let prepared =
                    algorithm.prepare(&problem, &settings(id)).unwrap_or_else(|error| panic!("{id}: {error}"));
                assert_eq!(prepared.parameters["initialization"], "3");
                let mut executor = Executor::new(&problem, Engine::with_threads(threads).expect("threads"), prepared);
                executor.run().unwrap_or_else(|error| panic!("{id}: {error}"));
                assert_eq!(executor.ledger().rounds, 6);
                executor.solution().to_vec()
            });
            assert!(one == two && one == three, "{id}");
            let start = problem.network().expect("a network").initial(3);
            assert!(one.len() == start.len() && one != start && one.iter().all(|value| value.is_finite()), "{id}");
        }
    }
}

#[test]
fn other_methods_and_settings_of_linear_models_are_refused_by_name() {
    let [problem, ..] = problems(100);
    for algorithm in catalog::ALGORITHMS.iter().filter(|algorithm| !algorithm.reads("initialization")) {
        let settings = Settings::new(budget(algorithm), StreamKey::Simulation(1));
        let error = algorithm.prepare(&problem, &settings).err().expect(algorithm.id).to_string();
        assert!(error.contains("model-kind") && error.contains("leave it out"), "{error}");
    }
    let linear = Problem::new(Arc::new(dataset("f32", 100, 60, 3)), Loss::Softmax, true, 0.0).expect("classes");
    let seeded = settings("dp-sgd").with("initialization", 4);
    let error = catalog::find("dp-sgd").expect("known").prepare(&linear, &seeded).err().expect("refused");
    assert!(error.to_string().contains("initialization 4"), "{error}");
    let sparse = Problem::new(Arc::new(dataset("sparse", 100, 60, 3)), Loss::Softmax, true, 0.0).expect("classes");
    assert!(sparse.with_network(NETWORK).err().expect("refused").to_string().contains("sparse rows"));
}

/// A sum of a release moves by one contribution, of the clip norm at most, when a row is nulled: exactly, whatever else is in the batch.
#[test]
fn a_nulled_row_moves_an_exact_sum_by_its_own_contribution() {
    let rows = 200;
    let all = in_domain(dataset("f32", rows, 60, 3));
    let without = |row: Option<usize>| {
        let Labels::Classes { values, classes, .. } = all.labels() else { panic!("classes") };
        let mut values = values.clone();
        row.into_iter().for_each(|row| values[row] = rounds_kernels::features::NULL_CLASS);
        let Features::F32 { values: features, .. } = all.features() else { panic!("dense") };
        let labels = Labels::numbered(values, *classes);
        problem(in_domain(Dataset::new("rows", Features::f32(features.to_vec(), 60), labels).expect("rows")))
    };
    let sum = |problem: &Problem, batch: Selection<'_>| {
        let network = problem.network().expect("a network");
        let mut oracle = Oracle::new(problem, Engine::with_threads(2).expect("threads")).exactly();
        let mut sum = vec![0.0; problem.parameters()];
        let point = network.initial(7);
        let points = (rounds_kernels::linear::Point::at(&point), None);
        let unit = oracle.sum_in_units(&batch, points, Clip::l2(0.5), &mut sum).expect("a sum").expect("integers");
        (sum, unit)
    };
    let whole = without(None);
    let (all_rows, unit) = sum(&whole, Selection::Range(0..rows));
    for row in [0, 17, 199] {
        let (others, _) = sum(&without(Some(row)), Selection::Range(0..rows));
        let (alone, _) = sum(&whole, Selection::Range(row..row + 1));
        let moved: Vec<f64> = all_rows.iter().zip(&others).map(|(with, without)| with - without).collect();
        assert_eq!(moved, alone);
        let length = moved.iter().map(|value| value * value).sum::<f64>().sqrt() * unit;
        assert!(length > 0.0 && length <= 0.5, "{length}");
    }
}

/// Four classes, told apart by the brightest quarter: no linear model of the centred quarters' products learns what a convolution does.
#[test]
fn a_network_learns_without_privacy_and_with_it() {
    let rows = 1_200;
    let pixel = |row: usize, place: usize| {
        let (y, x) = (place / 6, place % 6);
        let noise = (row * 7_919 + place * 104_729) % 61;
        let is_bright = (y / 3, x / 3) == (row % 4 / 2, row % 2);
        (noise + if is_bright { 140 } else { 20 }) as u8
    };
    let bytes: Vec<u8> = (0..rows * 36).map(|place| pixel(place / 36, place % 36)).collect();
    let labels = Labels::numbered((0..rows).map(|row| row as u32 % 4).collect(), 4);
    let data = Dataset::new("quarters", Features::bytes(&bytes, 36, 1.0 / 255.0), labels).expect("rows");
    let problem = Problem::new(Arc::new(data), Loss::Softmax, true, 0.0).expect("classes");
    let problem = problem.with_network("image 6x6x1, conv 6, tanh, pool, dense 8, tanh").expect("a network");
    for id in ["sgd", "dp-sgd", "dp-mf-plus"] {
        let settings = settings(id).with("batch-size", 120).with("rounds", 60);
        let prepared = catalog::find(id).expect("known").prepare(&problem, &settings).expect("a plan");
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        executor.run().expect("every round");
        let found =
            evaluate(&problem, &Engine::with_threads(2).expect("threads"), executor.solution()).expect("finite");
        assert!(found.correct as f64 > 0.9 * rows as f64, "{id}: {} of {rows}", found.correct);
    }
}

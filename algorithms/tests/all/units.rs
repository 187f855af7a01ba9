//! Units of several rows: rounds over them, and what a plan may know of them.

use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::optimizers::{PrepareError, Settings};
use rounds_algorithms::prelude::*;
use rounds_algorithms::privacy::{Budget, Claim};
use rounds_algorithms::problem::{Relation, UnitDeclaration, UnitIds};
use rounds_algorithms::resque::ResqueError;
use rounds_kernels::features::Selection;
use rounds_kernels::linear::{Clip, Precision, Reduction};
use rounds_kernels::random::StreamKey;

const COLUMNS: usize = 70;

fn declaration(reduction: Reduction) -> UnitDeclaration {
    UnitDeclaration { column: Some("person".into()), reduction, most_rows: None }
}

/// Rows of three classes; row i belongs to the unit `unit_of(i)`, of `count`.
fn dataset(rows: usize, unit: Option<(&dyn Fn(usize) -> usize, usize)>, reduction: Reduction) -> Dataset {
    let value = |row: usize, column: usize| ((row * 31 + column * 17) % 61) as f32 / 64.0 - 0.5;
    let values: Vec<_> = (0..rows).flat_map(|row| (0..COLUMNS).map(move |column| value(row, column))).collect();
    let labels = (0..rows).map(|row| (row * row % 3) as u32).collect();
    let labels = Labels::Classes { values: labels, classes: 3, names: None };
    let columns = Columns::Matrix { count: COLUMNS, bounds: Bounds::new(-1.0, 1.0).expect("bounds") };
    let classes = Label::Classes(["a", "b", "c"].map(str::to_owned).to_vec());
    let mut domain = Domain::new(columns, Storage::Dense, classes, DomainSource::Arguments);
    domain.unit = unit.map(|_| declaration(reduction));
    let dataset = Dataset::new("people", Features::f32(values, COLUMNS), labels).expect("rows");
    let dataset = dataset.in_domain(Arc::new(domain)).expect("rows of the domain");
    match unit {
        None => dataset,
        Some((of, count)) => {
            let ids = UnitIds { of_rows: (0..rows).map(|row| of(row) as u32).collect(), count };
            dataset.by_unit(&ids, declaration(reduction)).expect("a unit for each row")
        }
    }
}

fn problem(dataset: Dataset) -> Problem {
    Problem::new(Arc::new(dataset), Loss::Softmax, true, 0.0).expect("classes for softmax")
}

/// Few rows in some units, many in others, none in one.
fn uneven(row: usize) -> usize {
    match row {
        0..400 => 3,
        400..520 => row % 2 * 4,
        row => 5 + row % 31,
    }
}

#[test]
fn sums_have_the_same_bits_for_any_number_of_threads_and_leaves() {
    for reduction in [Reduction::Mean, Reduction::Sum] {
        let problem = problem(dataset(1_500, Some((&uneven, 40)), reduction));
        assert_eq!((problem.rows(), problem.public().rows(), problem.dataset().len()), (40, 40, 1_500));
        let sum = |threads, precision| {
            let engine = Engine::with_threads(threads).expect("threads");
            let mut oracle = Oracle::new(&problem, engine).exactly().at_precision(precision);
            let mut sum = vec![0.0; problem.parameters()];
            let weights: Vec<f32> = (0..problem.parameters()).map(|place| (place % 7) as f32 / 10.0 - 0.3).collect();
            oracle.gradient_sum(&Selection::Range(0..40), &weights, Clip::l2(0.5), &mut sum).expect("finite");
            assert_eq!(oracle.ledger().gradient_queries, 40, "units, not rows");
            sum
        };
        for precision in [Precision::Bits16, Precision::Bits24] {
            let expected = sum(1, precision);
            assert!([2, 3].into_iter().all(|threads| sum(threads, precision) == expected));
            // Each of 39 units adds at most 0.5.
            assert!(expected.iter().map(|value| value * value).sum::<f64>().sqrt() <= 39.0 * 0.5);
        }
    }
}

fn settings(epsilon: f64) -> Settings {
    let mut settings = Settings::new(Budget::Target { epsilon, delta: 1e-5 }, StreamKey::Simulation(1));
    settings.set("rounds", 5);
    settings.set("batch-size", 8);
    settings
}

/// A statement about units is that of as many rows at the same rate, and no number of rows enters the plan.
#[test]
fn a_plan_over_units_is_that_over_as_many_rows() {
    let of_rows = problem(dataset(40, None, Reduction::Mean));
    let uneven = problem(dataset(1_500, Some((&uneven, 40)), Reduction::Mean));
    let even = problem(dataset(80, Some((&|row| row / 2, 40)), Reduction::Mean));
    assert_eq!(uneven.public(), even.public());
    for id in ["dp-sgd", "dp-mf", "dp-ftrl", "accelerated-dp-srg", "dp-srg-memf"] {
        let algorithm = catalog::find(id).expect("an algorithm");
        let mut settings = settings(1.0);
        if id.ends_with("mf") {
            // Factorisations are made for the steps, which by default differ.
            settings.set("learning-rate-schedule", "constant");
        }
        let [rows, units, others] =
            [&of_rows, &uneven, &even].map(|problem| algorithm.prepare(problem, &settings).expect("a plan"));
        assert_eq!(rows.mechanism, units.mechanism, "{id}");
        assert_eq!(rows.privacy.epsilon, units.privacy.epsilon);
        assert_eq!(units.privacy, others.privacy);
        assert_eq!(
            (rows.privacy.unit.as_str(), units.privacy.unit.as_str()),
            ("example", "value of column \"person\"")
        );
        assert_ne!(units.privacy.claim, Claim::None);
    }
}

#[test]
fn reweighted_queries_and_undeclared_units_are_refused_by_name() {
    let units = problem(dataset(80, Some((&|row| row / 2, 40)), Reduction::Mean));
    for id in ["resque-epoch-sgd", "resque-ac-sa", "resque-private-erm", "resque-private-sco", "cutting-plane"] {
        let algorithm = catalog::find(id).expect("an algorithm");
        let budget = if algorithm.private { Budget::Target { epsilon: 1.0, delta: 1e-5 } } else { Budget::NonPrivate };
        let refused = algorithm.prepare(&units, &Settings::new(budget, StreamKey::Simulation(1)));
        assert!(matches!(refused, Err(PrepareError::Resque(ResqueError::Units))), "{id}");
    }
    for id in ["phased-sgd", "phased-erm", "localized-accelerated"] {
        let algorithm = catalog::find(id).expect("an algorithm");
        let budget = Budget::Target { epsilon: 1.0, delta: 1e-5 };
        let refused = algorithm.prepare(&units, &Settings::new(budget, StreamKey::Simulation(1)));
        assert!(refused.err().is_some_and(|error| error.to_string().contains("unit")), "{id}");
    }
    // Units of rows whose domain declares none, and the other way round.
    let plain = dataset(80, None, Reduction::Mean);
    let ids = UnitIds { of_rows: (0..80).map(|row| row / 2).collect(), count: 40 };
    let undeclared = problem(plain.by_unit(&ids, declaration(Reduction::Mean)).expect("a unit for each row"));
    assert!(undeclared.unclaimable().is_some_and(|reason| reason.contains("unit")));
    let algorithm = catalog::find("dp-sgd").expect("dp-sgd");
    assert_eq!(algorithm.prepare(&undeclared, &settings(1.0)).expect("a plan").privacy.claim, Claim::None);
}

#[test]
fn neighbours_keep_the_place_of_a_unit_without_rows() {
    let data = dataset(80, Some((&|row| row / 2, 40)), Reduction::Mean);
    let neighbour = data.clone().null_row(7);
    assert_eq!((neighbour.records(), neighbour.len()), (40, 78));
    let units = neighbour.units().expect("units");
    assert_eq!((units.rows_of(6), units.rows_of(7), units.rows_of(8)), (12..14, 14..14, 14..16));
    assert_ne!(neighbour.digest(), data.digest());
    assert_eq!(problem(neighbour.clone()).public(), problem(data.clone()).public());
    let some = data.select([3, 1].into_iter());
    assert_eq!((some.records(), some.len()), (2, 4));
    assert_eq!(problem(data).relation(), Relation::ZeroOut);
}

/// One pass of one step over all rows of a unit is a step along its mean gradient, and in one round as good as a larger rate.
#[test]
fn a_single_local_step_over_all_rows_is_the_mean_gradient() {
    let problem = problem(dataset(80, Some((&|row| row / 2, 40)), Reduction::Mean));
    let run = |local: bool| {
        let mut settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1));
        settings.set("rounds", 1);
        settings.set("sampling", "fixed");
        settings.set("batch-size", 40);
        settings.set("momentum", 0);
        settings.set("averaging", "last");
        settings.set("learning-rate", if local { 1.0 } else { 0.25 });
        if local {
            settings.set("local-steps", 1);
            settings.set("local-step-size", 0.25);
            settings.set("local-batch", 100);
        }
        let algorithm = catalog::find("sgd").expect("sgd");
        let prepared = algorithm.prepare(&problem, &settings).expect("a plan");
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        executor.run().expect("rounds");
        executor.solution().to_vec()
    };
    let [gradient, local] = [false, true].map(run);
    assert!(gradient.iter().zip(&local).all(|(a, b)| (a - b).abs() < 1e-6) && gradient.iter().any(|&x| x.abs() > 1e-3));
}

#[test]
fn local_steps_are_private_like_gradients_and_need_a_unit() {
    let units = problem(dataset(1_500, Some((&uneven, 40)), Reduction::Mean));
    for id in ["dp-sgd", "dp-mf", "dp-ftrl"] {
        let algorithm = catalog::find(id).expect("an algorithm");
        let local = settings(1.0).with("clip-norm", 1).with("local-steps", 2).with("local-step-size", 0.5);
        let [plain, prepared] = [&settings(1.0).with("clip-norm", 1), &local]
            .map(|settings| algorithm.prepare(&units, settings).expect("a plan"));
        assert_eq!(prepared.privacy, plain.privacy);
        let models = [1, 2].map(|threads| {
            let prepared = algorithm.prepare(&units, &local).expect("a plan");
            let engine = Engine::with_threads(threads).expect("threads");
            let mut executor = Executor::new(&units, engine, prepared);
            executor.run().expect("rounds");
            executor.solution().to_vec()
        });
        assert_eq!(models[0], models[1], "{id}");
        let rows = problem(dataset(40, None, Reduction::Mean));
        let refused = algorithm.prepare(&rows, &local).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|message| message.contains("local-steps 2")), "{id}");
    }
}

#[test]
fn units_of_one_row_train_the_model_of_rows() {
    let rows = problem(dataset(300, None, Reduction::Mean));
    let one = UnitDeclaration { most_rows: Some(1), ..declaration(Reduction::Mean) };
    let mut domain = Domain::clone(rows.domain().expect("a domain"));
    domain.unit = Some(one.clone());
    let ids = UnitIds { of_rows: (0..300).collect(), count: 300 };
    let units = dataset(300, None, Reduction::Mean).in_domain(Arc::new(domain)).expect("rows of the domain");
    let units = problem(units.by_unit(&ids, one).expect("a unit for each row"));
    for id in ["dp-sgd", "dp-mf", "accelerated-dp-srg"] {
        let algorithm = catalog::find(id).expect("an algorithm");
        let [of_rows, of_units] = [&rows, &units].map(|problem| {
            let mut settings = Settings::new(Budget::Target { epsilon: 4.0, delta: 1e-5 }, StreamKey::Simulation(3));
            settings.set("batch-size", 60);
            settings.set("rounds", 5);
            let prepared = algorithm.prepare(problem, &settings).expect("a plan");
            let mut executor = Executor::new(problem, Engine::Sequential, prepared);
            executor.run().expect("rounds");
            executor.solution().to_vec()
        });
        assert_eq!(of_rows, of_units, "{id}");
    }
}

//! Neighbouring files: on a declared domain everything public about a run is the same whatever a row holds: shape, format, plan,
//! statement, messages, and whether rounds succeed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, SamplingKind, Settings};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::{Accountant, Adjacency};
use rounds_algorithms::problem::{Dataset, Features, Problem, PublicProblem};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use rounds_models::choices::Choices;
use rounds_models::data::{self, Declaration};

use crate::files::Folder;
use crate::forms::{COLUMNS, FORMS, Form, Packing, ROWS, of, pairs};

/// Everything public about a run.
#[derive(Debug, PartialEq)]
struct Behaviour {
    problem: PublicProblem,
    format: String,
    prepared: Result<(String, u64), String>,
    rounds: Vec<Result<(), String>>,
    outputs: usize,
}

/// One run on a data set of `rows`, alone in the folder.
fn behaviour(
    folder: &Folder,
    (form, packing): (Form, Packing),
    schema: &str,
    rows: &[Vec<u8>],
    algorithm: &'static Algorithm,
    settings: &Settings,
) -> Behaviour {
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    folder.write("schema.toml", schema);
    let path = form.write(folder, rows, packing).display().to_string();
    let domain = data::declare(&path, None, &Declaration::default()).expect("a good schema");
    let domain = domain.expect("a schema beside the file");
    let data = data::load_declared(&path, None, Some(&domain)).expect("rows cannot fail");
    let train = data.train;
    let loss = if algorithm.id == "phased-sgd" { Loss::Huber(1.0) } else { Loss::Logistic };
    let format = format!("{}, {} values", train.features().format(), stored(&train));
    let problem = Problem::new(Arc::new(train.into_binary().expect("two classes")), loss, true, 0.1).unwrap();
    // The public part of a loaded problem is that of its domain, which holds no row.
    let declared = PublicProblem::of_domain(problem.name(), &domain, problem.rows(), loss, 0.1).unwrap();
    assert_eq!(&declared, problem.public());
    let mut rounds = Vec::new();
    let prepared = algorithm.prepare(&problem, settings).map_err(|error| error.to_string());
    let prepared = prepared.map(|prepared| {
        let statement = serde_json::to_string(&prepared.privacy).unwrap();
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        for _ in 0..executor.rounds().min(4) {
            rounds.push(executor.advance().map_err(|error| error.to_string()));
        }
        (statement, executor.rounds())
    });
    Behaviour { format, prepared, rounds, outputs: problem.parameters(), problem: problem.public().clone() }
}

/// Values that a dense format holds; those of sparse rows are private.
fn stored(data: &Dataset) -> String {
    match data.features() {
        Features::Sparse(_) => "private".to_owned(),
        dense => (dense.stored() / data.len()).to_string(),
    }
}

/// Settings that every private algorithm accepts on 64 rows, for the relation and choices at hand.
fn settings(algorithm: &Algorithm, relation: Adjacency, choices: &mut Choices) -> Settings {
    let budget = Budget::NoiseMultiplier { noise_multiplier: 1.5, delta: 1e-4 };
    let key = match choices.below(2) {
        0 => StreamKey::Simulation(choices.below(1_000_000) as u64),
        _ => StreamKey::Release([choices.below(256) as u8; 32]),
    };
    let mut settings = Settings::new(budget, key);
    settings.set("adjacency", relation);
    settings.set("batch-size", 8);
    settings.set("clip-norm", 1.0);
    match algorithm.id {
        "dp-sgd" => {
            settings.set("accountant", Accountant::Rdp);
            let samplings: &[SamplingKind] = match relation {
                Adjacency::ReplaceOne => &[SamplingKind::Fixed, SamplingKind::WithoutReplacement],
                Adjacency::AddRemove => &[SamplingKind::Poisson, SamplingKind::RandomAllocation],
                Adjacency::ZeroOut => &[
                    SamplingKind::Poisson,
                    SamplingKind::Shuffled,
                    SamplingKind::WithoutReplacement,
                    SamplingKind::CyclicPoisson,
                    SamplingKind::RandomAllocation,
                    SamplingKind::CyclicAllocation,
                    SamplingKind::TruncatedPoisson,
                ],
            };
            let sampling = of(choices, samplings);
            if matches!(sampling, SamplingKind::CyclicPoisson | SamplingKind::CyclicAllocation) {
                settings.set("bands", 2);
            }
            settings.set("sampling", sampling);
        }
        id if id.starts_with("resque") => settings.set("accountant", Accountant::Rdp),
        id if ["dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt"].contains(&id) => {
            settings.set("noise", NoiseKind::Independent);
            settings = settings.without("batch-size");
            settings.set("rounds", 4);
        }
        _ => {}
    }
    if !algorithm.reads("batch-size") {
        settings = settings.without("batch-size");
    }
    settings
}

#[test]
fn neighbours_have_the_same_shape_plan_statement_and_messages() {
    let pairs = pairs();
    let private = catalog::ALGORITHMS.iter().copied().filter(|algorithm| algorithm.private);
    let private: Vec<_> = private.collect();
    let (folder, mut ran) = (Folder::new(), BTreeSet::new());
    for pair in 0..pairs {
        let mut choices = Choices::new(pair);
        let algorithm = of(&mut choices, &private);
        let relations = [Adjacency::ZeroOut, Adjacency::ReplaceOne, Adjacency::AddRemove];
        let relation = of(&mut choices, &relations);
        let form = of(&mut choices, FORMS);
        let packing = of(&mut choices, &[Packing::Plain, Packing::Plain, Packing::Gzip, Packing::Xz]);
        let schema = form.schema(relation, &mut choices);
        let settings = settings(algorithm, relation, &mut choices);
        let data = form.neighbours(relation, &mut choices);
        let [first, second] =
            data.map(|rows| behaviour(&folder, (form, packing), &schema, &rows, algorithm, &settings));
        let id = algorithm.id;
        assert_eq!(first, second, "pair {pair}: {id} under {relation}, {form:?} {packing:?}");
        assert!(first.rounds.iter().all(Result::is_ok), "pair {pair}: {first:?}");
        if first.prepared.is_ok() {
            ran.insert((id, relation.name()));
        }
    }
    // Every private algorithm ran under zero-out, and the offered relations beside it.
    if pairs >= 1_000 {
        let zero_out = private.iter().map(|algorithm| (algorithm.id, "zero-out"));
        let others = ["dp-sgd", "dp-gd"].map(|id| [(id, "replace-one"), (id, "add-remove")]);
        for case in zero_out.chain(others.into_iter().flatten()) {
            assert!(ran.contains(&case), "{case:?} never ran: {ran:?}");
        }
    }
}

#[test]
fn a_class_that_is_missing_and_a_column_that_is_constant_change_nothing() {
    let (folder, form) = (Folder::new(), Form::Csv);
    let algorithm = catalog::find("dp-sgd").unwrap_or_else(|_| panic!("dp-sgd"));
    let mut choices = Choices::new(7);
    let schema = form.schema(Adjacency::ZeroOut, &mut choices);
    let settings = settings(algorithm, Adjacency::ZeroOut, &mut choices);
    let rows = |label: &str, field: &str| -> Vec<Vec<u8>> {
        (0..ROWS).map(|_| format!("{}red,{label}\n", format!("{field},").repeat(COLUMNS)).into_bytes()).collect()
    };
    let behaviours = [("no", "1"), ("yes", "1e300"), ("", "word"), ("maybe", "")].map(|(label, field)| {
        behaviour(&folder, (form, Packing::Plain), &schema, &rows(label, field), algorithm, &settings)
    });
    assert!(behaviours.iter().all(|behaviour| *behaviour == behaviours[0]));
}

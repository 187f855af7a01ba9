//! Properties of every algorithm of the catalogue.

use std::collections::VecDeque;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, Prepared, RoundError, Settings};
use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::Claim;
use rounds_algorithms::problem::Problem;
use rounds_algorithms::state::StateVisitor;
use rounds_kernels::features::Norm;
use rounds_kernels::random::StreamKey;

use crate::runs::{budget, dataset, whole};

/// 600 rows of 6 features in the unit ball.
fn problem() -> Problem {
    whole(&dataset("f32", 600, 6, 0).clip_features(Norm::L2, 1.0).expect("a bound"))
}

fn settings(algorithm: &Algorithm) -> Settings {
    let mut settings = Settings::new(budget(algorithm), StreamKey::Simulation(21));
    settings.offer(algorithm, "batch-size", 60);
    settings
}

fn prepared(algorithm: &'static Algorithm, problem: &Problem) -> Prepared {
    algorithm
        .prepare(problem, &settings(algorithm))
        .or_else(|_| algorithm.prepare(problem, &settings(algorithm).without("batch-size")))
        .unwrap_or_else(|error| panic!("{}: {error}", algorithm.id))
}

/// At most this many rounds of an algorithm are run here.
const MOST_ROUNDS: u64 = 40;

fn run(algorithm: &'static Algorithm, problem: &Problem, threads: usize) -> (Vec<f32>, Ledger) {
    let engine = Engine::with_threads(threads).expect("threads");
    let mut executor = Executor::new(problem, engine, prepared(algorithm, problem)).limited_to(MOST_ROUNDS);
    executor.run().unwrap_or_else(|error| panic!("{}: {error}", algorithm.id));
    assert!(matches!(executor.advance(), Err(RoundError::Finished { .. })));
    (executor.solution().to_vec(), executor.ledger())
}

#[test]
fn every_algorithm_gives_the_same_bits_for_any_number_of_threads() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        let one = run(algorithm, &problem, 1).0;
        let two = run(algorithm, &problem, 2).0;
        assert!(one == two, "{}", algorithm.id);
        assert!(one.iter().all(|value| value.is_finite()), "{}", algorithm.id);
    }
}

#[test]
fn a_round_is_one_round_of_the_oracle_and_queries_are_the_planned_ones() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        let ledger = run(algorithm, &problem, 1).1;
        let prepared = prepared(algorithm, &problem);
        assert_eq!(ledger.rounds, prepared.rounds.min(MOST_ROUNDS), "{}", algorithm.id);
        if prepared.rounds <= MOST_ROUNDS
            && let Some(queries) = prepared.queries
        {
            assert_eq!(ledger.gradient_queries, queries, "{}", algorithm.id);
        }
    }
}

/// Saves the state of one optimiser, then restores it in another that visits the same values in the same order.
#[derive(Default)]
struct Memory {
    counters: VecDeque<Vec<u64>>,
    singles: VecDeque<Vec<f32>>,
    doubles: VecDeque<Vec<f64>>,
    restoring: bool,
}

impl StateVisitor for Memory {
    fn u64(&mut self, name: &str, value: &mut u64) {
        visit(self.restoring, &mut self.counters, name, std::slice::from_mut(value));
    }

    fn f32s(&mut self, name: &str, values: &mut [f32]) {
        visit(self.restoring, &mut self.singles, name, values);
    }

    fn f64s(&mut self, name: &str, values: &mut [f64]) {
        visit(self.restoring, &mut self.doubles, name, values);
    }
}

/// Saves `values`, or restores them from the first that were saved.
fn visit<T: Copy>(restoring: bool, saved: &mut VecDeque<Vec<T>>, name: &str, values: &mut [T]) {
    if restoring {
        let first = saved.pop_front();
        values.copy_from_slice(&first.unwrap_or_else(|| panic!("nothing was saved for {name}")));
    } else {
        saved.push_back(values.to_vec());
    }
}

#[test]
fn a_restored_run_ends_as_an_undisturbed_one() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        let executor =
            || Executor::new(&problem, Engine::Sequential, prepared(algorithm, &problem)).limited_to(MOST_ROUNDS);
        let (mut first, mut second) = (executor(), executor());
        let mut memory = Memory::default();
        (0..first.rounds() / 2).for_each(|_| first.advance().expect("a round"));
        first.visit_state(&mut memory);
        first.run().expect("every round");
        memory.restoring = true;
        second.visit_state(&mut memory);
        second.run().expect("every round");
        assert!(first.solution() == second.solution(), "{}", algorithm.id);
    }
}

#[test]
fn settings_that_share_calibrations_run_as_those_alone() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
        let run = |settings: &Settings| {
            let prepared = algorithm
                .prepare(&problem, settings)
                .or_else(|_| algorithm.prepare(&problem, &settings.clone().without("batch-size")))
                .expect("prepared");
            let mut executor = Executor::new(&problem, Engine::Sequential, prepared).limited_to(3);
            executor.run().expect("three rounds");
            executor.solution().to_vec()
        };
        let memory = settings(algorithm);
        for epsilon in [0.25, 2.0, 0.25] {
            let budget = Budget::Target { epsilon, delta: 1e-5 };
            let [shared, alone] = [memory.clone(), settings(algorithm)].map(|other| Settings { budget, ..other });
            assert!(run(&shared) == run(&alone), "{} at ε = {epsilon}", algorithm.id);
        }
    }
}

#[test]
fn private_algorithms_state_what_they_release_and_others_claim_nothing() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        let prepared = prepared(algorithm, &problem);
        if !algorithm.private {
            assert_eq!(prepared.privacy.claim, Claim::None, "{}", algorithm.id);
            continue;
        }
        match prepared.privacy.claim {
            Claim::None => assert!(prepared.privacy.reason.is_some(), "{}", algorithm.id),
            Claim::Release => panic!("{}: a seed is no secret", algorithm.id),
            Claim::Simulation => {
                let epsilon = prepared.privacy.epsilon.expect("a claim has its epsilon");
                assert!(epsilon <= 5.0 && prepared.mechanism.is_some(), "{}", algorithm.id);
            }
        }
    }
}

#[test]
fn a_private_algorithm_without_a_budget_claims_nothing() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
        let settings = Settings { budget: Budget::NonPrivate, ..settings(algorithm) };
        let claim = algorithm.prepare(&problem, &settings).map(|prepared| prepared.privacy.claim);
        assert!(matches!(claim, Err(_) | Ok(Claim::None)), "{}", algorithm.id);
    }
}

#[test]
fn a_theorem_is_promised_with_its_constants_alone() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        assert!(
            !algorithm.promise.contains("Theorem 1") && !algorithm.promise.contains("Theorem 2"),
            "{}",
            algorithm.id
        );
    }
    for (id, theorem) in [("resque-epoch-sgd", "Theorem 1"), ("resque-ac-sa", "Theorem 2")] {
        let algorithm = catalog::find(id).expect("an id");
        let promise = |outer: &str, samples: f64| {
            let settings = settings(algorithm).with("outer", outer).with("samples", samples);
            algorithm.prepare(&problem, &settings).expect("prepared").parameters["promise"].clone()
        };
        assert_eq!(prepared(algorithm, &problem).parameters["promise"], algorithm.promise);
        for (outer, samples, holds) in [
            ("bisection-free", 48.0, false),
            ("line-search", 47.9, false),
            ("line-search", 48.0, true),
            ("line-search", 96.0, true),
        ] {
            assert_eq!(promise(outer, samples).contains(theorem), holds, "{outer} {samples}");
        }
    }
}

#[test]
fn cutting_planes_that_outlast_a_minute_say_so_before_they_start() {
    let cutting_plane = catalog::find("cutting-plane").expect("an id");
    let warnings = |features: usize, own: &[(&str, &str)]| {
        let problem = whole(&dataset("f32", 600, features, 0).clip_features(Norm::L2, 1.0).expect("a bound"));
        let all = own.iter().fold(settings(cutting_plane), |settings, (name, value)| settings.with(name, value));
        let warnings = cutting_plane.prepare(&problem, &all).expect("prepared").warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(warnings(6, &[]).is_empty());
    let said = warnings(400, &[]);
    assert!(said.len() == 1 && said[0].contains("minutes"), "{said:?}");
    let fewer = warnings(20, &[("accuracy", "4")]);
    assert!(fewer.is_empty(), "{fewer:?}");
}

#[test]
fn unknown_parameters_are_named() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        let mut settings = settings(algorithm);
        settings.set("no-such-key", 1);
        let error = algorithm.prepare(&problem, &settings).err().expect("refused");
        let error = error.to_string();
        assert!(error.contains("no-such-key") && error.contains(algorithm.id), "{error}");
    }
}

#[test]
fn a_parameter_is_read_or_refused() {
    let problem = problem();
    let absurd = [("epochs", -1.0), ("learning-rate", -1.0), ("momentum", 7.0), ("clip-norm", f64::NAN)];
    for algorithm in catalog::ALGORITHMS {
        for (parameter, value) in absurd {
            let error = algorithm.prepare(&problem, &settings(algorithm).with(parameter, value)).err();
            let message = error.expect("refused").to_string();
            assert!(message.starts_with(parameter), "{}: {message}", algorithm.id);
            let unknown = message.contains("has no such parameter");
            assert_eq!(unknown, !algorithm.reads(parameter), "{}: {message}", algorithm.id);
        }
    }
}

#[test]
fn constant_defaults_are_in_range_and_described() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS {
        for parameter in algorithm.parameters() {
            assert!(parameter.about.starts_with(' '), "{} {}", algorithm.id, parameter.name);
            let Some(default) = (parameter.default)() else { continue };
            let with_default = settings(algorithm).with(parameter.name, default);
            let outcome = algorithm.prepare(&problem, &with_default).map(|_| ());
            let message = outcome.err().map_or_else(String::new, |error| error.to_string());
            assert!(!message.starts_with(parameter.name), "{}: {message}", algorithm.id);
        }
    }
}

#[test]
fn noise_that_an_algorithm_cannot_add_is_refused_and_neither_listed_nor_ignored() {
    let problem = problem();
    for algorithm in catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
        let parameter = algorithm.parameters().find(|parameter| parameter.name == "noise").expect("a choice");
        for noise in NoiseKind::ALL {
            let outcome = algorithm.prepare(&problem, &settings(algorithm).with("noise", noise)).map(|_| ());
            let message = outcome.err().map_or_else(String::new, |error| error.to_string());
            let refused = ["noise ", "laplace noise"].iter().any(|start| message.starts_with(start));
            let name = noise.to_string();
            let listed = parameter.expected.split(", ").any(|one| one.split('=').next() == name.split('=').next());
            // On cyclic batches alone DP-SGD adds noise of bands.
            let elsewhere = algorithm.id == "dp-sgd" && listed;
            assert!(listed != refused || elsewhere, "{}: {noise}", algorithm.id);
        }
        let statements: Vec<String> = [NoiseKind::Tree, NoiseKind::Laplace, NoiseKind::AntiCorrelated]
            .into_iter()
            .filter_map(|noise| {
                let settings = settings(algorithm).with("noise", noise);
                algorithm.prepare(&problem, &settings).ok()?.privacy.mechanism
            })
            .collect();
        // What is accepted is in the statement: no two kinds of noise have the same one.
        for (place, statement) in statements.iter().enumerate() {
            assert!(!statements[..place].contains(statement), "{}: {statement}", algorithm.id);
        }
    }
}

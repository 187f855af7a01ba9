//! Recursive gradients and correlated noise (papers 000, 001, 004): reductions, bounds, and what is refused or warned of.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::factorization::{FactorizationSource, Workload, WorkloadSpecification};
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{AssumptionWarning, NoiseKind, PrepareError, Settings};
use rounds_algorithms::oracle::{Ledger, Oracle};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::planted::PlantedLogistic;
use rounds_algorithms::problem::synthetic::Quadratic;
use rounds_algorithms::problem::{Dataset, Features, Labels, Problem};
use rounds_algorithms::theory::QuadraticMode;
use rounds_algorithms::theory::correlated_noise::quadratic_moments;
use rounds_algorithms::theory::recursive::{self, best_beta};
use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;

use crate::runs::{noisy, prepared};

/// A multiplier whose noise no f32 sees.
const QUIET: f64 = 1e-30;

/// `parameters` are `name=value`, separated by spaces.
fn settings(noise_multiplier: f64, seed: u64, parameters: &str) -> Settings {
    let mut settings = noisy(noise_multiplier, seed);
    for parameter in parameters.split_whitespace() {
        let (name, value) = parameter.split_once('=').expect("name=value");
        settings.set(name, value);
    }
    settings
}

/// All iterates that the optimiser would return, one a round, and the counts.
fn iterates(problem: &Problem, id: &str, settings: &Settings) -> (Vec<Vec<f32>>, Ledger) {
    let prepared = prepared(problem, id, settings);
    let queries = prepared.queries;
    let mut executor = Executor::new(problem, Engine::Sequential, prepared);
    let mut iterates = vec![executor.solution().to_vec()];
    while !executor.is_finished() {
        executor.advance().expect("a round");
        iterates.push(executor.solution().to_vec());
    }
    assert_eq!(queries, Some(executor.ledger().gradient_queries), "{id}: queries");
    (iterates, executor.ledger())
}

fn last(problem: &Problem, id: &str, settings: &Settings) -> Vec<f32> {
    iterates(problem, id, settings).0.pop().expect("a round")
}

fn planted(rows: usize, dimension: usize, norm: f64) -> (PlantedLogistic, Problem) {
    let planted = PlantedLogistic::new(dimension, norm, 7);
    let problem = Problem::new(Arc::new(planted.dataset(rows, 8)), Loss::Logistic, false, 0.0).expect("targets ±1");
    (planted, problem)
}

fn assert_close(left: &[f32], right: &[f32], tolerance: f32) {
    for (a, b) in left.iter().zip(right) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn with_weights_that_grow_without_bound_the_accelerated_recursion_is_dp_ftrl() {
    let (_, problem) = planted(2_000, 6, 3.0);
    let common = |own: &str| settings(2.0, 3, &format!("batch-size=50 noise=tree epochs=1 clip-norm=0.4 {own}"));
    let ftrl = last(&problem, "dp-ftrl", &common("momentum=0 learning-rate=0.5"));
    let growing = |growth| last(&problem, "accelerated-dp-srg", &common(&format!("growth={growth} beta=2")));
    assert_close(&growing("inf"), &ftrl, 1e-5);
    // λ = 40: e^{−40} is less than the last bit of every gradient.
    assert_close(&growing("40"), &ftrl, 1e-5);
    assert!(growing("0.5").iter().zip(&ftrl).any(|(a, b)| (a - b).abs() > 1e-3));
}

#[test]
fn without_decay_dp_srg_memf_is_dp_memf_and_with_independent_noise_that_is_dp_sgd() {
    let (_, problem) = planted(1_200, 5, 3.0);
    for epochs in [1.0, 3.0] {
        let common = format!("batch-size=100 epochs={epochs} momentum=0.9 learning-rate=0.1 sampling=shuffled");
        let common = settings(1.5, 5, &common);
        let recursive = last(&problem, "dp-srg-memf", &common.clone().with("decay", 0));
        assert_eq!(recursive, last(&problem, "dp-memf", &common));
        let independent = common.clone().with("noise", NoiseKind::Independent);
        let dp_sgd = last(&problem, "dp-sgd", &common);
        for id in ["dp-memf", "pgd"] {
            assert_eq!(last(&problem, id, &independent), dp_sgd, "{id}");
        }
    }
}

/// The workloads that a run of 12 rounds asks factorisations for.
fn workloads(problem: &Problem, id: &str, parameters: &str) -> Vec<Workload> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let mut settings = settings(1.0, 5, &format!("noise=optimal batch-size=200 epochs=2 {parameters}"));
    settings.strategies = StrategyMemory::filled_from(FactorizationSource::new(move |request| {
        kept.lock().expect("one thread").push(request.workload.clone());
        request.factorize()
    }));
    last(problem, id, &settings);
    asked.lock().expect("one thread").clone()
}

#[test]
fn a_schedule_scales_the_steps_and_the_factorisation_follows_it() {
    let (_, problem) = planted(1_200, 5, 3.0);
    let linear: Vec<f64> = (0..12).map(|t| f64::from(12 - t) / 12.0).collect();
    let cooldown: Vec<f64> = linear.iter().map(|left| (4.0 * left).min(1.0)).collect();
    assert_eq!(cooldown[8..], [1.0, 1.0, 2.0 / 3.0, 1.0 / 3.0]);
    let listed = |factors: &[f64]| factors.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    for id in ["sgd", "dp-sgd", "dp-ftrl", "dp-srg-memf"] {
        let of = |schedule: &str| {
            let common = "batch-size=200 epochs=2 momentum=0.5 learning-rate=0.25 sampling=fixed";
            let common = settings(1.5, 5, common).with("learning-rate-schedule", schedule);
            let common = if id == "dp-srg-memf" { common.with("workload", "ones") } else { common };
            let common = if id == "sgd" { common.with("averaging", "last") } else { common };
            iterates(&problem, id, &common).0
        };
        let constant = of("constant");
        assert_eq!(of(&listed(&[1.0; 12])), constant, "{id}");
        assert_eq!(of("linear"), of(&listed(&linear)), "{id}");
        assert_eq!(of("cooldown"), of(&listed(&cooldown)), "{id}");
        let mut last_half = [1.0; 12];
        last_half[11] = 0.5;
        let halved = of(&listed(&last_half));
        assert_eq!(halved[..12], constant[..12], "{id}");
        for coordinate in 0..5 {
            let step = |run: &[Vec<f32>]| run[12][coordinate] - run[11][coordinate];
            assert!((step(&halved) - 0.5 * step(&constant)).abs() < 1e-6, "{id}");
        }
    }
    let prefix = WorkloadSpecification::prefix;
    let rates = || prefix().with_learning_rates(linear.clone());
    let ratios = || (0..12).map(|t| f64::from(12 - t + i32::from(t > 0)) / f64::from(12 - t)).collect();
    let schedule = "learning-rate-schedule=linear momentum=0.5";
    for (id, own, expected) in [
        ("dp-mf", "", rates()),
        ("dp-mf", "workload=ones", prefix()),
        ("dp-mf", "workload=true", rates().with_momentum(0.5)),
        ("dp-memf", "", rates().with_momentum(0.5)),
        ("dp-mf-plus", "tau=3", rates().with_lambda_tau(Some(3))),
        ("dp-srg-memf", "decay=0.25", rates().with_momentum(0.5).with_decay(0.25)),
        ("dp-srg-memf", "workload=ones", prefix()),
        ("dp-srg-memf", "decay=eta-ratio", rates().with_momentum(0.5).with_decays(ratios())),
    ] {
        let found = workloads(&problem, id, &format!("{schedule} {own}"));
        let expected = Workload::new(12, expected).expect("a workload");
        let is_expected = |found: &Workload| (found.matrix() - expected.matrix()).norm_max() < 1e-12;
        assert!(!found.is_empty() && found.iter().all(is_expected), "{id} {own}");
    }
}

#[test]
fn decays_are_a_sequence_and_a_zero_starts_the_recursion_again() {
    let (_, problem) = planted(1_200, 5, 3.0);
    let of = |decay: &str, own: &str| {
        let common = format!("batch-size=200 epochs=2 momentum=0.5 learning-rate=0.25 sampling=fixed {own}");
        iterates(&problem, "dp-srg-memf", &settings(1.5, 5, &common).with("workload", "ones").with("decay", decay)).0
    };
    let list = |decays: [f64; 12]| decays.map(|decay| decay.to_string()).join(",");
    let constant = of("0.25", "");
    // The first value is not used.
    assert_eq!(of(&list([0.25; 12]), ""), constant);
    assert_eq!(of(&list(std::array::from_fn(|t| if t == 0 { 0.75 } else { 0.25 })), ""), constant);
    let none = of("0", "");
    assert!(none[2] != constant[2]);
    // Of zeros there is no difference to clip.
    assert_eq!(of(&list([0.0; 12]), ""), none);
    let later = of(&list(std::array::from_fn(|t| if t < 11 { 0.25 } else { 0.0 })), "");
    assert!(later[..12] == constant[..12] && later[12] != constant[12]);
    // η_t ∝ 4^t: c_t = 1/4 in every round.
    let growing = list(std::array::from_fn(|t| 4_f64.powi(t as i32 - 11)));
    let own = format!("learning-rate-schedule={growing}");
    assert_eq!(of("eta-ratio", &own), of("0.25", &own));
    // c_t = 1 where steps are constant.
    assert_eq!(of("eta-ratio", ""), of(&list([1.0; 12]), ""));
    for (decay, own, part) in [
        ("1", "", "eta-ratio"),
        ("0.5,1.5", "", "eta-ratio"),
        ("0.5,0.5", "", "of 2 values for 12 rounds"),
        ("eta-ratio", "paper-line-7=true", "a constant decay alone"),
    ] {
        let settings = settings(1.5, 5, &format!("batch-size=200 epochs=2 {own}")).with("decay", decay);
        let error = catalog::find("dp-srg-memf").expect("an id").prepare(problem.public(), &settings).err();
        let message = error.expect("refused").to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn schedules_that_do_not_fit_are_refused_by_name() {
    let (_, problem) = planted(1_200, 5, 3.0);
    let refused = |id: &str, schedule: &str| {
        let settings = settings(1.5, 5, "batch-size=200 epochs=2").with("learning-rate-schedule", schedule);
        let error = catalog::find(id).expect("an id").prepare(problem.public(), &settings).err();
        error.expect("refused").to_string()
    };
    for id in ["dp-sgd", "dp-mf", "dp-srg-memf"] {
        for schedule in ["", "exponential", "1,0,1", "1,-1", "1,nan", "1,inf"] {
            let message = refused(id, schedule);
            assert!(message.starts_with("learning-rate-schedule ") && message.contains("cooldown"), "{id}: {message}");
        }
        let message = refused(id, "1,0.5");
        assert!(message.contains("of 2 values for 12 rounds: one value a round"), "{id}: {message}");
    }
    for id in ["dp-gd", "phased-sgd", "accelerated-dp-srg"] {
        let message = refused(id, "linear");
        assert!(message.contains("has no such parameter"), "{message}");
    }
}

#[test]
fn line_7_as_printed_adds_the_noise_twice() {
    let (_, problem) = planted(1_200, 5, 3.0);
    let common = |noise_multiplier| settings(noise_multiplier, 5, "batch-size=100 epochs=2 learning-rate=0.1");
    let printed = |decay| common(1.5).with("paper-line-7", true).with("decay", decay);
    // Without decay D_t + 2·noise is what DP-MEMF has at twice the noise.
    let twice = last(&problem, "dp-memf", &common(3.0));
    assert_close(&last(&problem, "dp-srg-memf", &printed(0.0)), &twice, 1e-5);
    let corrected = last(&problem, "dp-srg-memf", &common(1.5).with("decay", 0.3));
    let found = last(&problem, "dp-srg-memf", &printed(0.3));
    assert!(found.iter().zip(&corrected).any(|(a, b)| (a - b).abs() > 1e-3));
    let quiet = |line: bool| settings(QUIET, 5, "decay=0.3 batch-size=100").with("paper-line-7", line);
    assert_eq!(last(&problem, "dp-srg-memf", &quiet(true)), last(&problem, "dp-srg-memf", &quiet(false)));
    let mut release = printed(0.3);
    release.key = rounds_kernels::random::StreamKey::Release([3; 32]);
    let claim = prepared(&problem, "dp-srg-memf", &release).privacy.claim;
    assert_eq!(claim, rounds_algorithms::privacy::Claim::None);
}

#[test]
fn with_period_one_dp_mf_plus_is_dp_sgd() {
    let (_, problem) = planted(800, 5, 3.0);
    let common = settings(1.5, 5, "batch-size=50 epochs=1 momentum=0 learning-rate=0.1 sampling=fixed");
    // Λ_1·S = I, whose best strategy is I; the optimiser certifies it to 1e-4.
    let plus = last(&problem, "dp-mf-plus", &common.clone().with("tau", 1));
    assert_close(&plus, &last(&problem, "dp-sgd", &common), 1e-2);
}

/// T copies of the same rows, one after the other: every batch is the whole of a small data set.
fn repeated(rows: usize, copies: usize) -> (Problem, Problem) {
    let planted = PlantedLogistic::new(6, 3.0, 2);
    let (Features::F32 { values, .. }, Labels::Values(labels)) = planted.dataset(rows, 4).into_parts() else {
        panic!("f32 rows and real targets")
    };
    let problem = |copies: usize| {
        let features = Features::f32(values.repeat(copies), 6);
        let data = Dataset::new("repeated", features, Labels::Values(labels.repeat(copies)))
            .and_then(|data| data.clip_features(Norm::L2, 1.0))
            .expect("rows");
        Problem::new(Arc::new(data), Loss::Logistic, false, 0.0).expect("targets ±1")
    };
    (problem(1), problem(copies))
}

fn gradient(problem: &Problem, x: &[f32]) -> Vec<f64> {
    let mut sum = vec![0.0; x.len()];
    Oracle::new(problem, Engine::Sequential)
        .gradient_sum(&Selection::Range(0..problem.rows()), x, Clip::Unbounded, &mut sum)
        .expect("finite");
    sum.iter().map(|value| value / problem.rows() as f64).collect()
}

fn loss(problem: &Problem, x: &[f32]) -> f64 {
    rounds_algorithms::oracle::evaluate(problem, &Engine::Sequential, x).expect("finite").loss / problem.rows() as f64
}

#[test]
fn without_noise_and_on_full_batches_the_recursion_is_nesterovs_method_and_has_its_rate() {
    let (rounds, smoothness) = (60, 0.25);
    let (single, problem) = repeated(150, rounds);
    let settings = settings(QUIET, 1, "beta=0.25 zeta=0.5 batch-size=150 sampling=fixed clip-norm=1e6");
    let (found, ledger) = iterates(&problem, "accelerated-dp-srg", &settings);
    assert_eq!((ledger.rounds, ledger.gradient_queries), (60, (2 * 60 - 1) * 150));
    // The method with exact gradients in f64.
    let (mut x, mut z) = (vec![0.0_f64; 6], vec![0.0_f64; 6]);
    let mut y = x.clone();
    for t in 0..rounds {
        let point: Vec<f32> = x.iter().map(|&value| value as f32).collect();
        let g = gradient(&single, &point);
        let mix = 2.0 / (t as f64 + 3.0);
        for j in 0..6 {
            z[j] -= 0.5 * (t as f64 + 1.0) / smoothness * g[j];
            y[j] = x[j] - g[j] / smoothness;
            x[j] = (1.0 - mix) * y[j] + mix * z[j];
        }
        let expected: Vec<f32> = y.iter().map(|&value| value as f32).collect();
        // Every D_t rounds in f32, with weights up to T.
        assert_close(&found[t + 1], &expected, 2e-3);
    }
    let start: Vec<f32> = y.iter().map(|&value| value as f32).collect();
    let optimum = (0..20_000).fold(start, |x, _| {
        let g = gradient(&single, &x);
        x.iter().zip(g).map(|(x, g)| (f64::from(*x) - 4.0 * g) as f32).collect()
    });
    let distance = optimum.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    for t in [5, 15, 30, 60] {
        let gap = loss(&single, &found[t]) - loss(&single, &optimum);
        let bound = smoothness * distance * distance / (0.5 * (t * (t + 1)) as f64);
        assert!(gap <= bound, "t = {t}: {gap} > {bound}");
    }
}

#[test]
fn with_coupling_average_queries_are_at_the_weighted_means_of_projected_gradient_descent() {
    let (rounds, radius, beta) = (40, 1.5, 20.0);
    let (single, problem) = repeated(150, rounds);
    let parameters = "coupling=average beta=20 radius=1.5 batch-size=150 sampling=fixed clip-norm=1e6";
    let settings = settings(QUIET, 1, parameters);
    let (found, _) = iterates(&problem, "accelerated-dp-srg", &settings);
    let mut learner: Vec<Vec<f64>> = vec![vec![0.0; 6]];
    for t in 0..rounds {
        let weights = (0..=t).map(|i| i as f64 + 1.0);
        let total: f64 = weights.clone().sum();
        let mean = |j: usize| weights.clone().zip(&learner).map(|(weight, z)| weight * z[j]).sum::<f64>() / total;
        let query: Vec<f32> = (0..6).map(|j| mean(j) as f32).collect();
        // y_{t+1} = x_t is what a run would return.
        assert_close(&found[t + 1], &query, 2e-3);
        let loss = gradient(&single, &query);
        let moved = (0..6).map(|j| learner[t][j] - (t as f64 + 1.0) / beta * loss[j]);
        let moved: Vec<f64> = moved.collect();
        let shrink = (radius / moved.iter().map(|z| z * z).sum::<f64>().sqrt()).min(1.0);
        learner.push(moved.iter().map(|z| z * shrink).collect());
    }
    let norm = learner[rounds].iter().map(|z| z * z).sum::<f64>().sqrt();
    assert!((norm - radius).abs() < 1e-9, "the projection was met: {norm}");
}

/// Bound A at M = 1/4; errors that are correlated with the past have iterates within `correlation_radius`.
fn bound_a(beta: f64, distance: f64, rounds: u32, correlation_radius: f64, variances: impl Fn(u32) -> f64) -> f64 {
    let errors = |t: usize| (variances(t as u32), correlation_radius);
    recursive::bound_a((0.25, beta), distance * distance, rounds as usize, errors)
}

/// `V_t = η_t²·(L²/B + noise)` of fresh mini-batch gradients, L = 1.
fn independent_variance(t: u32, batch: usize, noise: f64) -> f64 {
    f64::from(t + 1).powi(2) * (1.0 / batch as f64 + noise)
}

#[test]
fn best_beta_is_where_bound_a_is_least() {
    let noise = 10.0 * 0.02 * 0.02;
    let best = best_beta(0.25, 100, 0.01 + noise, 2.0);
    let bound = |beta| bound_a(beta, 2.0, 100, 0.0, |t| independent_variance(t, 100, noise));
    // The closed form takes Σ η_{0:t} ≈ T³/6: right to the order 1/T.
    assert!(bound(best) <= bound(1.1 * best) && bound(best) <= bound(0.9 * best));
}

#[test]
fn the_population_risk_of_accelerated_runs_stays_below_bound_a() {
    let (rows, dimension, radius, batch) = (10_000, 10, 2.0, 100);
    let (planted, problem) = planted(rows, dimension, radius);
    let rounds = (rows / batch) as u32;
    let clip = 4.0;
    for (id, multiplier) in [("accelerated-dp-srg", 5.3), ("accelerated-independent", 2.0)] {
        let recursive = id == "accelerated-dp-srg";
        let runs = 8;
        let mut mean = 0.0;
        for seed in 0..runs {
            let settings = settings(multiplier, seed, "beta=50 zeta=0.5 radius=2.0001").with("batch-size", batch);
            let settings = settings.with("clip-norm", if recursive { clip } else { 1.0 });
            let (found, ledger) = iterates(&problem, id, &settings);
            // Q = 2S needs differences below S, and L = 1 bounds gradients: nothing may be clipped.
            assert_eq!(ledger.clipped, 0, "{id}");
            mean += planted.excess_risk(found.last().expect("a round")) / runs as f64;
        }
        let node = (multiplier * if recursive { clip } else { 1.0 } / batch as f64).powi(2);
        let correlation_radius = if recursive { 2.0 * radius } else { 0.0 };
        let bound = bound_a(50.0, radius, rounds, correlation_radius, |t| {
            if recursive {
                // At most Q²(t + 1)/B + d·v: Q bounds the distance of a difference to its mean, v is the variance of
                // prefix t.
                let prefix = f64::from((t + 1).count_ones()) * node;
                4.0 * clip * clip * f64::from(t + 1) / batch as f64 + dimension as f64 * prefix
            } else {
                independent_variance(t, batch, dimension as f64 * node)
            }
        });
        assert!(mean < bound, "{id}: {mean} ≥ {bound}");
        assert!(bound < 1.5, "{id}: a bound of {bound} says nothing");
    }
}

#[test]
fn differences_stay_below_the_bound_of_claim_4_2_and_are_clipped_below_their_size() {
    let (_, problem) = planted(2_500, 6, 2.0);
    let (smoothness, radius) = (0.25, 2.0);
    // 2·(2·M·D + L) without noise, D the diameter (erratum E26); β = 2MT.
    let bound = 2.0 * (2.0 * smoothness * 2.0 * radius + 1.0);
    let with_clip = |clip: f64| settings(QUIET, 1, "beta=25 zeta=0.5 radius=2 batch-size=50").with("clip-norm", clip);
    assert_eq!(iterates(&problem, "accelerated-dp-srg", &with_clip(bound)).1.clipped, 0);
    assert!(iterates(&problem, "accelerated-dp-srg", &with_clip(0.3)).1.clipped > 100);
}

#[test]
fn weights_that_no_sum_takes_are_refused_before_a_round() {
    let (_, problem) = planted(640, 6, 2.0);
    let prepare = |power: f64| {
        let settings = settings(QUIET, 1, "batch-size=10").with("power", power);
        catalog::find("unaccelerated-dp-srg").unwrap().prepare(&problem, &settings).map(|_| settings)
    };
    // 64 rounds: 64^k + 63^k is 2^50 at k = 8.18.
    let refused = prepare(8.2).err().expect("refused").to_string();
    assert!(refused.starts_with("power 8.2: ") && refused.contains("lower it"), "{refused}");
    assert!(prepare(400.0).is_err());
    iterates(&problem, "unaccelerated-dp-srg", &prepare(8.15).expect("the sum of the last round takes them"));
}

#[test]
fn the_unaccelerated_recursion_has_the_variance_of_its_bound_and_large_batches_do_not_lower_it() {
    let (_, problem) = planted(4_096, 6, 3.0);
    let mut ends = Vec::new();
    for batch in [16, 64, 256] {
        // Steps of length B/√n times a gradient of at most 1.
        let beta = 64.0 / batch as f64;
        let (mut measured, mut bound) = (0.0, 0.0);
        let seeds = 12;
        for seed in 0..seeds {
            let settings = settings(QUIET, seed, "power=2 clip-norm=1e3 sampling=shuffled");
            let settings = settings.with("beta", beta).with("batch-size", batch);
            let (found, _) = iterates(&problem, "unaccelerated-dp-srg", &settings);
            let end = found.len() - 2;
            let exact = gradient(&problem, &found[end]);
            let error: f64 =
                (0..6).map(|j| (beta * f64::from(found[end][j] - found[end + 1][j]) - exact[j]).powi(2)).sum();
            let steps: Vec<f64> = found[..=end]
                .windows(2)
                .map(|pair| {
                    let squares = pair[0].iter().zip(&pair[1]).map(|(a, b)| f64::from(a - b).powi(2));
                    squares.sum::<f64>().sqrt()
                })
                .collect();
            measured += error / f64::from(seeds as u32);
            // Σ_{i ≤ t} E‖w_i·∇f(x_i) − w_{i−1}·∇f(x_{i−1})‖²/(B·w_t²), w_t = (t + 1)², each difference at most
            // (w_i − w_{i−1})·L + w_{i−1}·M·‖x_i − x_{i−1}‖.
            let weight = |t: usize| (t as f64 + 1.0).powi(2);
            let squares: f64 =
                (0..steps.len()).map(|i| (weight(i + 1) - weight(i) + weight(i) * 0.25 * steps[i]).powi(2)).sum();
            bound += (1.0 + squares) / (batch as f64 * weight(end).powi(2)) / f64::from(seeds as u32);
        }
        assert!(measured < bound, "B = {batch}: {measured} ≥ {bound}");
        ends.push(measured * batch as f64);
    }
    // A mini-batch gradient's variance falls like 1/B; the recursion's, times B, must grow.
    assert!(ends[2] > 1.5 * ends[0], "{ends:?}");
}

#[test]
fn gradient_descent_with_correlated_noise_has_the_moments_of_the_formula_and_stays_below_its_bounds() {
    let quadratic = Quadratic::random(12, 10.0, 3);
    let problem = Problem::new(Arc::new(quadratic.dataset()), Loss::Squared, false, 0.0).expect("real targets");
    let (rounds, step_size, deviation) = (120_usize, 0.02, 0.3);
    let mode = |(&eigenvalue, optimum): (&f64, &f64)| QuadraticMode { eigenvalue, start: -optimum };
    let modes: Vec<_> = quadratic.eigenvalues.iter().zip(&quadratic.optimum).map(mode).collect();
    let squared_distance: f64 = quadratic.optimum.iter().map(|x| x * x).sum();
    for (id, anti) in [("pgd", false), ("anti-pgd", true)] {
        let seeds = 60;
        let means: Vec<f64> = (0..seeds)
            .map(|seed| {
                let clip = 1e4;
                // The noise of the mean of 12 rows has this standard deviation.
                let parameters = format!("batch-size=12 rounds={rounds} learning-rate={step_size} clip-norm={clip}");
                let settings = settings(deviation * 12.0 / clip, seed, &parameters);
                let (found, ledger) = iterates(&problem, id, &settings);
                assert_eq!(ledger.clipped, 0);
                found.iter().map(|x| quadratic.value(x)).sum::<f64>() / found.len() as f64
            })
            .collect();
        let mean = means.iter().sum::<f64>() / seeds as f64;
        let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64;
        let entry = |lag: usize| match lag {
            0 => 1.0,
            1 if anti => -1.0,
            _ => 0.0,
        };
        let row = |t: usize| (0..=t).map(|s| entry(t - s)).collect();
        let inverse: Vec<Vec<f64>> = (0..rounds).map(row).collect();
        let (excess, _) = quadratic_moments(&modes, step_size, deviation * deviation, &inverse);
        let exact = excess.iter().sum::<f64>() / excess.len() as f64;
        // Five standard errors of 60 runs.
        let error = 5.0 * (variance / seeds as f64).sqrt() + 1e-4 * exact;
        assert!((mean - exact).abs() < error, "{id}: {mean} {exact} ± {error}");
        // [001 Propositions 4.4 (γ ≤ 1/(2L)) and 4.5 (γ ≤ 1/(4L), erratum E12)], with L = 10.
        let (start, noise) = (squared_distance / (step_size * (rounds as f64 + 1.0)), 12.0 * deviation * deviation);
        let bound = if anti { 2.0 * start + 40.0 * step_size * step_size * noise } else { start + step_size * noise };
        assert!(mean < bound, "{id}: {mean} ≥ {bound}");
    }
}

#[test]
fn constants_outside_the_theorems_are_refused_under_theory_and_warned_of_in_practice() {
    let (_, problem) = planted(10_000, 6, 2.0);
    let prepare = |id: &str, batch: usize, own: &str| {
        let settings = settings(3.0, 1, &format!("radius=2 smoothness=0.25 batch-size={batch} {own}"));
        catalog::find(id).expect("in the catalogue").prepare(&problem, &settings)
    };
    let theory = |own: &str| format!("constants=theory lipschitz=1 {own}");
    for (batch, own) in [
        (100, ""),
        (400, "regime=constrained"),
        (100, "regime=constrained zeta=1"),
        (100, "regime=constrained coupling=average"),
    ] {
        let refused = prepare("accelerated-dp-srg", batch, &theory(own)).err();
        assert!(matches!(refused, Some(PrepareError::Settings(_))), "{batch} {own}");
    }
    for id in ["accelerated-dp-srg", "accelerated-independent"] {
        let proven = prepare(id, 100, &theory("regime=constrained")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(proven.warnings, []);
    }
    let practical = prepare("accelerated-dp-srg", 400, "regime=constrained beta=1");
    let practical = practical.unwrap_or_else(|error| panic!("{error}"));
    let warnings = practical.warnings;
    let (beta, needed, zeta) = (1.0, 12.5, 1.0);
    assert!(warnings.contains(&AssumptionWarning::SmallBeta { beta, needed }));
    assert!(warnings.contains(&AssumptionWarning::LargeZeta { zeta }));
    let is_large = matches!(warnings[2], AssumptionWarning::LargeBatch { batch_size: 400, .. });
    assert!(is_large, "{warnings:?}");
    assert!(warnings.iter().all(|warning| !warning.to_string().is_empty()));
    for decay in ["1", "1.2", "-0.1"] {
        let settings = settings(3.0, 1, &format!("decay={decay}"));
        let algorithm = catalog::find("dp-srg-memf").expect("in the catalogue");
        assert!(algorithm.prepare(&problem, &settings).is_err());
    }
}

#[test]
fn theory_accepts_its_own_default_batch_and_the_check_of_beta_uses_the_smoothness_of_the_proof() {
    let public = "constants=theory radius=2 smoothness=0.25 lipschitz=1";
    let id = "accelerated-dp-srg";
    // √64,000 = 252.98: 253 rounds of 253 rows would be refused.
    for rows in [1_000, 4_000, 64_000] {
        let (_, problem) = planted(rows, 6, 2.0);
        let settings = settings(3.0, 1, public).with("regime", "constrained");
        assert_eq!(prepared(&problem, id, &settings).warnings, [], "{rows}");
    }
    // Rows of norm 1 have M = 1/4; practical steps are set for a quarter of that.
    let (_, problem) = planted(1_000, 6, 2.0);
    let settings = settings(3.0, 1, "beta=1 radius=2 batch-size=20");
    let (beta, needed) = (1.0, 2.0 * 0.25 * 50.0);
    let warnings = prepared(&problem, id, &settings).warnings;
    assert!(warnings.contains(&AssumptionWarning::SmallBeta { beta, needed }), "{warnings:?}");
}

#[test]
fn methods_that_their_paper_projects_stay_in_the_ball_and_ask_for_its_radius() {
    let (planted, problem) = planted(1_000, 6, 2.0);
    for id in ["accelerated-dp-srg", "accelerated-independent", "unaccelerated-dp-srg"] {
        let settings = settings(20.0, 1, "beta=0.3 batch-size=1");
        let inside = settings.clone().with("radius", 2.0);
        let asks = |warning: &AssumptionWarning| warning.to_string().contains("radius=R");
        let asked = [&settings, &inside].map(|settings| prepared(&problem, id, settings).warnings.iter().any(asks));
        assert_eq!(asked, [true, false], "{id}");
        // One row a round: without the projection the noise of all rounds carries the iterates away.
        let [free, kept] = [&settings, &inside].map(|settings| last(&problem, id, settings));
        let norm = |x: &[f32]| x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        assert!(norm(&kept) <= 2.0 + 1e-5 && norm(&free) > 20.0, "{id}: {} {}", norm(&kept), norm(&free));
        assert!(planted.excess_risk(&kept) < 0.1 * planted.excess_risk(&free), "{id}");
    }
}

#[test]
fn theory_constants_of_fresh_gradients_keep_bound_a() {
    let (planted, problem) = planted(10_000, 6, 2.0);
    let parameters = "constants=theory radius=2 smoothness=0.25 lipschitz=1";
    let (batch, multiplier) = (100, 2.0);
    let mut mean = 0.0;
    for seed in 0..6 {
        let settings = settings(multiplier, seed, parameters).with("batch-size", batch);
        let (found, _) = iterates(&problem, "accelerated-independent", &settings);
        mean += planted.excess_risk(found.last().expect("a round")) / 6.0;
    }
    let deviation = multiplier / batch as f64;
    let noise = 6.0 * deviation * deviation;
    let beta = best_beta(0.25, 100, 1.0 / batch as f64 + noise, 2.0);
    let bound = bound_a(beta, 2.0, 100, 0.0, |t| independent_variance(t, batch, noise));
    assert!(mean < bound, "{mean}");
}

#[test]
fn settings_that_share_a_memory_factorise_once_and_run_the_same() {
    let (_, problem) = planted(600, 4, 2.0);
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let memory = StrategyMemory::filled_from(FactorizationSource::new(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        request.factorize()
    }));
    for seed in [1, 2, 3] {
        let alone = settings(1.0, seed, "batch-size=50 epochs=2 noise=optimal");
        let shared = Settings { strategies: memory.clone(), ..alone.clone() };
        assert_eq!(last(&problem, "dp-memf", &shared), last(&problem, "dp-memf", &alone));
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

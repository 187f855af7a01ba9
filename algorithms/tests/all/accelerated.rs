//! The six methods of paper 003 through their plans: budgets are kept, reductions hold, errors lie under their bounds,
//! and what cannot be promised is refused.

use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::noise::NoiseLevels;
use rounds_algorithms::optimizers::accelerated_plan::{AcceleratedPlan, Method};
use rounds_algorithms::optimizers::{Budget, NoiseKind, PrepareError, SamplingKind, Settings, SettingsError};
use rounds_algorithms::oracle::evaluate;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::{Accountant, Adjacency, Claim, Sampling};
use rounds_algorithms::problem::synthetic::synthetic_logistic;
use rounds_algorithms::problem::{Dataset, Features, Labels, Problem};
use rounds_algorithms::theory::multistage::Schedule;
use rounds_algorithms::theory::{Curvature, TheoryError};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

fn problem(rows: usize, regularization: f64) -> Problem {
    let data =
        synthetic_logistic(rows, 5, 9).into_binary().and_then(|data| data.clip_features(Norm::L2, 5.0_f64.sqrt()));
    Problem::new(Arc::new(data.unwrap()), Loss::Logistic, false, regularization).unwrap()
}

fn settings(epsilon: f64, parameters: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::new(Budget::Target { epsilon, delta: 1e-6 }, StreamKey::Simulation(4));
    settings.set("adjacency", Adjacency::ReplaceOne);
    parameters.iter().for_each(|(key, value)| settings.set(key, value));
    settings
}

fn solve(problem: &Problem, method: Method, settings: &Settings) -> Vec<f32> {
    let plan = AcceleratedPlan::new(method, problem, settings).unwrap();
    let prepared = plan.prepared(problem, &settings.key).unwrap();
    let mut executor = Executor::new(problem, Engine::Sequential, prepared);
    executor.run().unwrap();
    let ledger = executor.ledger();
    assert_eq!(ledger.rounds as usize, plan.steps.len());
    assert_eq!(ledger.gradient_queries as usize, plan.steps.len() * plan.batch);
    executor.solution().to_vec()
}

/// True where the method divides its budget by its own weights.
fn is_optimized(method: Method) -> bool {
    matches!(method, Method::Nesterov { optimized: true } | Method::Multistage { optimized: true })
}

/// The settings without a budget.
fn quiet(parameters: &[(&str, &str)]) -> Settings {
    Settings { budget: Budget::NonPrivate, ..settings(1.0, parameters) }
}

/// The least objective, by 400 rounds without noise.
fn least(problem: &Problem) -> f64 {
    let nesterov = Method::Nesterov { optimized: false };
    objective(problem, &solve(problem, nesterov, &quiet(&[("rounds", "400")])))
}

fn objective(problem: &Problem, x: &[f32]) -> f64 {
    let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
    let loss = evaluate(problem, &Engine::Sequential, x).unwrap().loss / problem.rows() as f64;
    loss + 0.5 * problem.regularization() * squares
}

#[test]
fn every_method_spends_its_budget_and_no_more() {
    let problem = problem(1_000, 0.1);
    for method in Method::ALL {
        for batch in [1_000, 50] {
            for noise in [NoiseKind::Laplace, NoiseKind::Independent] {
                let settings = settings(0.7, &[("rounds", "40")]);
                let settings = settings.with("batch-size", batch).with("noise", noise);
                let plan = AcceleratedPlan::new(method, &problem, &settings);
                if noise == NoiseKind::Independent && batch < 1_000 && is_optimized(method) {
                    let refused = matches!(plan, Err(PrepareError::Settings(SettingsError::Unsupported { .. })));
                    assert!(refused, "{}", method.id());
                    continue;
                }
                let plan = plan.unwrap();
                assert_eq!(plan.statement().claim, Claim::Simulation);
                assert_eq!(plan.statement().adjacency, Some(Adjacency::ReplaceOne));
                let epsilon = plan.statement().epsilon.unwrap();
                assert!(epsilon <= 0.7 && epsilon > 0.7 * (1.0 - 1e-6), "{} {batch} {noise:?}: {epsilon}", method.id());
                if noise == NoiseKind::Laplace {
                    let accounted = (plan.statement().accountant, plan.statement().delta);
                    assert_eq!(accounted, (Some(Accountant::Pure), Some(0.0)));
                    // The noise that is drawn spends what is claimed: replace-one moves a sum by 2·C in L1.
                    let noise = plan.noise.as_ref().unwrap();
                    let NoiseLevels::Laplace { scales } = noise.levels() else { panic!("not Laplace") };
                    let sensitivity = 2.0 * plan.statement().clip_norm.unwrap();
                    let rate = batch as f64 / 1_000.0;
                    let spent: f64 = scales.iter().map(|b| (rate * (sensitivity / b).exp_m1()).ln_1p()).sum();
                    assert!((spent / epsilon - 1.0).abs() < 1e-9, "{spent} {epsilon}");
                    assert_eq!(scales.len(), plan.steps.len());
                }
            }
        }
    }
}

#[test]
fn a_large_budget_gives_the_method_without_noise_and_its_rate() {
    let problem = problem(2_000, 0.2);
    let best = least(&problem);
    for method in Method::ALL {
        let parameters = [("rounds", "60"), ("start", "3"), ("initial-gap", "fixed")];
        let parameters = &parameters[..if is_optimized(method) { 3 } else { 2 }];
        let [with, without] =
            [settings(1e12, parameters), quiet(parameters)].map(|settings| solve(&problem, method, &settings));
        let close = with.iter().zip(&without).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close, "{} {with:?} {without:?}", method.id());
        // μ = 0.2, L = 5/4 + 0.2, α = 1/L: 1 − √(μα) = 0.63 a round for Nesterov, 1 − μα = 0.86 for gradient descent.
        let start = objective(&problem, &[3.0; 5]) - best;
        let limit = match method {
            Method::GradientDescent => 2.0 * start * (1.0_f64 - 0.2 / 1.45).powi(60),
            Method::HeavyBall => 1e-3 * start,
            Method::Nesterov { .. } => 2.0 * start * (1.0 - (0.2_f64 / 1.45).sqrt()).powi(60),
            Method::Multistage { .. } => 1e-2 * start,
        };
        let gap = objective(&problem, &without) - best;
        assert!(gap <= limit + 2e-7, "{}: {gap} > {limit}", method.id());
    }
}

#[test]
fn heavy_ball_without_momentum_is_gradient_descent_and_one_stage_is_nesterov() {
    let problem = problem(500, 0.1);
    let plain = settings(2.0, &[("rounds", "30")]);
    let still = plain.clone().with("momentum", 0.0);
    let descent = solve(&problem, Method::GradientDescent, &plain);
    assert_eq!(solve(&problem, Method::HeavyBall, &still), descent);
    let one = settings(2.0, &[("rounds", "30"), ("first-stage", "30")]);
    for optimized in [false, true] {
        let stages = solve(&problem, Method::Multistage { optimized }, &one);
        assert_eq!(stages, solve(&problem, Method::Nesterov { optimized }, &plain));
    }
}

#[test]
fn measured_errors_lie_under_the_repaired_bound() {
    let problem = problem(1_000, 0.2);
    let best = least(&problem);
    let curvature = Curvature::new(0.2, 1.45).unwrap();
    for method in [Method::Nesterov { optimized: true }, Method::Multistage { optimized: false }] {
        let parameters = [("rounds", "25"), ("start", "2"), ("initial-gap", "fixed")];
        let read = if is_optimized(method) { 3 } else { 2 };
        let base = settings(2.0, &parameters[..read]);
        let plan = AcceleratedPlan::new(method, &problem, &base).unwrap();
        let gaps: Vec<f64> = (0..40)
            .map(|seed| {
                let settings = Settings { key: StreamKey::Simulation(seed), ..base.clone() };
                objective(&problem, &solve(&problem, method, &settings)) - best
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / 40.0;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 39.0 / 40.0).sqrt();
        let schedule = match method {
            Method::Multistage { .. } => Schedule::multistage(curvature, 1.0, 1, None, 25).unwrap(),
            _ => Schedule::constant(curvature, 1.0 / 1.45, 25).unwrap(),
        };
        // E_T ≤ 2·a_{T,0}·E_0 + Σ_t a_{T,t}·(half the trace of the noise on the mean of 1,000 rows, 5 coordinates).
        let variances = plan.noise.unwrap().levels().variances();
        let weights = schedule.log_weights();
        let noise = weights.iter().zip(variances).map(|(weight, variance)| weight.exp() * 2.5 * variance / 1e6);
        let gap = objective(&problem, &[2.0; 5]) - best;
        let bound = 2.0 * schedule.log_initial_weight().exp() * gap + noise.sum::<f64>();
        let id = method.id();
        assert!(mean - 4.9 * deviation <= bound, "{id}: {mean} ± {deviation} above {bound}");
        assert!(mean > 1e-3 * bound, "{id}: the bound {bound} says nothing about {mean}");
    }
}

#[test]
fn an_optimised_budget_grows_towards_the_end_of_a_stage() {
    let problem = problem(1_000, 0.1);
    for (batch, noise) in [(1_000, NoiseKind::Laplace), (100, NoiseKind::Laplace), (1_000, NoiseKind::Independent)] {
        let settings = settings(1.0, &[("rounds", "20"), ("initial-gap", "fixed")]);
        let settings = settings.with("batch-size", batch).with("noise", noise);
        let plan = AcceleratedPlan::new(Method::Nesterov { optimized: true }, &problem, &settings).unwrap();
        let variances = plan.noise.unwrap().levels().variances();
        assert!(variances.windows(2).all(|pair| pair[1] < pair[0]), "{noise:?} {variances:?}");
    }
}

#[test]
fn what_cannot_be_promised_is_refused_with_the_reason() {
    let convex = problem(200, 0.0);
    let strong = problem(200, 0.1);
    let refusal = |problem: &Problem, method: Method, settings: &Settings| -> String {
        AcceleratedPlan::new(method, problem, settings).expect_err("refused").to_string()
    };
    let nesterov = Method::Nesterov { optimized: false };
    assert!(refusal(&convex, nesterov, &settings(1.0, &[])).contains("mu > 0"));
    assert!(AcceleratedPlan::new(Method::GradientDescent, &convex, &settings(1.0, &[])).is_ok());
    assert!(refusal(&strong, nesterov, &settings(1.0, &[("strong-convexity", "9")])).contains("exceeds smoothness"));
    let fast = settings(1.0, &[]).with("learning-rate", 3.0);
    assert!(refusal(&strong, nesterov, &fast).contains("step size 3"));
    let poisson = settings(1.0, &[]).with("sampling", SamplingKind::Poisson).with("batch-size", 20);
    assert!(refusal(&strong, nesterov, &poisson).contains("without replacement"));
    let momentum = settings(1.0, &[]).with("momentum", 0.5);
    let refused = catalog::find(nesterov.id()).unwrap().prepare(&strong, &momentum);
    assert!(refused.err().unwrap().to_string().starts_with("momentum"));
    let parameters = [("rounds", "5000"), ("strong-convexity", "1.3"), ("initial-gap", "fixed")];
    let starved = settings(1.0, &parameters);
    let starved = AcceleratedPlan::new(Method::Nesterov { optimized: true }, &strong, &starved);
    assert!(matches!(starved.err(), Some(PrepareError::Theory(TheoryError::StarvedRound { round: 1, .. }))));
    // Without a bound on the features there is neither a step size nor a sensitivity.
    let free = Dataset::new("f", Features::f32(vec![1.0; 30], 3), Labels::Values(vec![1.0; 10])).unwrap();
    let free = Problem::new(Arc::new(free), Loss::Logistic, true, 0.1).unwrap();
    assert!(refusal(&free, nesterov, &settings(1.0, &[])).contains("feature-bound"));
    assert!(refusal(&free, nesterov, &settings(1.0, &[("feature-bound", "2")])).contains("clip-norm"));
    let declared = settings(1.0, &[("feature-bound", "2")]).with("clip-norm", 1.0);
    assert!(AcceleratedPlan::new(nesterov, &free, &declared).is_ok());
}

#[test]
fn a_smoothness_taken_from_the_data_claims_nothing() {
    let estimate = settings(1.0, &[("smoothness", "estimate")]);
    assert!(AcceleratedPlan::new(Method::HeavyBall, &problem(500, 0.1), &estimate).is_err());
    let problem = problem(500, 0.1).with_second_moment();
    let plan = AcceleratedPlan::new(Method::HeavyBall, &problem, &estimate).unwrap();
    assert_eq!((plan.statement().claim, plan.statement().epsilon), (Claim::None, None));
    // The estimate is below the public bound 5/4 + λ.
    let smoothness = plan.curvature.unwrap().smoothness();
    assert!(smoothness < 1.35 && smoothness > 0.2, "{smoothness}");
}

#[test]
fn the_noise_of_the_authors_code_spends_root_two_times_the_claim() {
    let problem = problem(500, 0.1);
    let plan = AcceleratedPlan::new(Method::Nesterov { optimized: true }, &problem, &settings(1.0, &[])).unwrap();
    let code = plan.clone().with_noise_scaled(std::f64::consts::FRAC_1_SQRT_2);
    assert_eq!(code.statement().claim, Claim::None);
    assert!((code.pure_epsilon().unwrap() / plan.pure_epsilon().unwrap() - std::f64::consts::SQRT_2).abs() < 1e-12);
}

#[test]
fn the_number_of_rounds_is_that_of_the_bound_or_of_the_authors_code() {
    let data = synthetic_logistic(100_000, 20, 1).into_binary();
    let data = data.and_then(|data| data.clip_features(Norm::L2, 20.0_f64.sqrt())).unwrap();
    let problem = Problem::new(Arc::new(data), Loss::Logistic, false, 0.02).unwrap();
    let (nesterov, stages) = (Method::Nesterov { optimized: true }, Method::Multistage { optimized: true });
    let rounds = |rule: &str, smoothness: &[(&str, &str)]| {
        [(nesterov, "1"), (nesterov, "0.1"), (stages, "1")].map(|(method, scale)| {
            let mut settings = settings(1.0, smoothness).with("rounds", 1_000).with("rounds-rule", rule);
            settings.budget = Budget::Target { epsilon: 1.0, delta: 0.0 };
            let plan = AcceleratedPlan::new(method, &problem, &settings.with("step-scale", scale)).unwrap();
            plan.steps.len()
        })
    };
    // L = 20/4 + 0.02 from the public bound on the rows.
    assert_eq!(rounds("bound", &[]), [120, 346, 88]);
    assert_eq!(rounds("published-code", &[]), [135, 394, 88]);
    // The authors' L, λ_max(Σ u·uᵀ/n) + 2λ without the factor 1/4, is measured on the rows: 20/4 + 1/12 + 0.02 of uniform features.
    assert_eq!(rounds("published-code", &[("smoothness", "5.1033")]), [136, 396, 89]);
}

#[test]
fn the_catalogue_prepares_all_six_and_batches_are_drawn_as_described() {
    let problem = problem(400, 0.1);
    for method in Method::ALL {
        let algorithm = catalog::find(method.id()).ok().unwrap();
        assert!(algorithm.private);
        let settings = settings(1.0, &[("rounds", "5")]).with("batch-size", 40);
        let prepared = algorithm.prepare(&problem, &settings).unwrap();
        let (batch, population) = (40, 400);
        let expected = Sampling::WithoutReplacement { batch, population };
        assert_eq!(prepared.mechanism.unwrap().sampling(), Some(expected));
        assert_eq!(prepared.privacy.claim, Claim::Simulation);
    }
}

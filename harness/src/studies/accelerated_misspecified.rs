//! What the methods of paper 003 do when L or μ are wrong: the gap after T rounds against the factor by which a constant
//! is off, without noise and with Laplace noise of a budget ε.
//!
//! The true L is `λ_max(Σ a·aᵀ/n)/4 + λ` by power iteration on the data, so nothing here is a guarantee: `claim: none`.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::accelerated_plan::{AcceleratedPlan, Method};
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::{Engine, ReplicatedOracle};
use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::synthetic::synthetic_logistic;
use rounds_algorithms::problem::{Problem, largest_second_moment};
use rounds_kernels::features::Norm;
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};

use super::accelerated_figures::{CurvePoint, Figure, Panel, Series, minimum};

/// Gaps below it are drawn at it: F is a sum of f32 losses, and its rounding reaches 1e-9.
const FLOOR: f64 = 1e-8;

/// The definition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MisspecifiedFigure {
    name: String,
    title: String,
    rows: usize,
    dimension: usize,
    data_seed: u64,
    regularization: f64,
    methods: Vec<String>,
    rounds: usize,
    start: f64,
    initial_gap: f64,
    epsilon: f64,
    runs: u64,
    smoothness_factors: Vec<f64>,
    strong_convexity_factors: Vec<f64>,
    seed: u64,
}

/// Which constant is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constant {
    /// L.
    Smoothness,
    /// μ.
    StrongConvexity,
}

/// A method with a wrong constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Misspecified {
    /// Id of the method.
    pub method: String,
    /// The constant that is wrong.
    pub constant: Constant,
    /// What was used over what is true.
    pub factor: f64,
    /// ε of the noise, or none.
    pub epsilon: Option<f64>,
    /// Rounds done, T′ for the methods that choose it.
    pub rounds: usize,
    /// Mean of F(x_T) − F* over the runs; none where a run diverged or the constants are refused.
    pub gap: Option<f64>,
    /// Why there is no gap.
    pub reason: Option<String>,
    /// Always `none`: constants are taken from the data.
    pub claim: String,
}

impl MisspecifiedFigure {
    /// The sweep as a figure: a column a constant, a row without and a row with noise.
    pub(super) fn compute(self, engine: &Engine, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Figure> {
        let data = synthetic_logistic(self.rows, self.dimension, self.data_seed)
            .into_binary()?
            .clip_features(Norm::L2, (self.dimension as f64).sqrt())?;
        let problem = Problem::new(Arc::new(data), Loss::Logistic, false, self.regularization)?;
        let optimum = minimum(&problem)?;
        let smoothness = 0.25 * largest_second_moment(&problem, 1e-8) + self.regularization;
        progress(&format!(
            "optimum {:.12}; true L = {smoothness:.4}, μ = {}",
            optimum.0, self.regularization
        ));
        let mut panels = Vec::new();
        let mut found = Vec::new();
        for (row, epsilon) in [None, Some(self.epsilon)].into_iter().enumerate() {
            let constants = [
                (Constant::Smoothness, &self.smoothness_factors),
                (Constant::StrongConvexity, &self.strong_convexity_factors),
            ];
            for (column, (constant, factors)) in constants.into_iter().enumerate() {
                let mut series = Vec::new();
                for (colour, id) in self.methods.iter().enumerate() {
                    let Some(method) = Method::ALL.into_iter().find(|method| method.id() == id) else {
                        let known: Vec<_> = Method::ALL.into_iter().map(Method::id).collect();
                        bail!("methods: '{id}' is not one of {}", known.join(", "));
                    };
                    let mut points = Vec::new();
                    for &factor in factors {
                        let outcome = self.measure(
                            &problem, optimum.0, smoothness, method, constant, factor, epsilon, engine,
                        )?;
                        if let Some(gap) = outcome.gap {
                            let y = gap.max(FLOOR).log10();
                            let x = factor.log10();
                            points.push(CurvePoint { x, y, low: y, high: y });
                        }
                        found.push(outcome);
                    }
                    series.push(Series {
                        label: id.clone(),
                        colour,
                        dashed: false,
                        points,
                    });
                }
                let name = match constant {
                    Constant::Smoothness => "L",
                    Constant::StrongConvexity => "μ",
                };
                let noise = epsilon.map_or("no noise".to_owned(), |epsilon| format!("Laplace noise, ε = {epsilon}"));
                panels.push(Panel {
                    title: format!("{name} wrong, {noise}, T = {}", self.rounds),
                    row,
                    column,
                    x_label: format!("{name} used / {name} true"),
                    y_label: format!("F(x_T) − F*, {noise}"),
                    x_is_log10: true,
                    y_is_log10: true,
                    series,
                });
                progress(&format!("{name}, {noise}: done"));
            }
        }
        Ok(Figure {
            name: self.name,
            title: self.title,
            panels,
            settings: Vec::new(),
            misspecified: found,
            optimum: Some(optimum),
        })
    }

    fn measure(
        &self,
        problem: &Problem,
        optimum: f64,
        smoothness: f64,
        method: Method,
        constant: Constant,
        factor: f64,
        epsilon: Option<f64>,
        engine: &Engine,
    ) -> anyhow::Result<Misspecified> {
        let (of_smoothness, of_convexity) = match constant {
            Constant::Smoothness => (factor, 1.0),
            Constant::StrongConvexity => (1.0, factor),
        };
        let mut outcome = Misspecified {
            method: method.id().to_owned(),
            constant,
            factor,
            epsilon,
            rounds: 0,
            gap: None,
            reason: None,
            claim: "none".to_owned(),
        };
        let budget = epsilon.map_or(Budget::NonPrivate, |epsilon| Budget::Target { epsilon, delta: 0.0 });
        let runs = if epsilon.is_some() { self.runs } else { 1 };
        let mut solutions = Vec::new();
        for run in 0..runs {
            let mut settings = Settings::new(budget, StreamKey::Simulation(self.seed + run));
            settings.adjacency = Some(Adjacency::ReplaceOne);
            let mut set = |key: &str, value: f64| settings.parameters.insert(key.to_owned(), value.to_string());
            set("rounds", self.rounds as f64);
            set("smoothness", of_smoothness * smoothness);
            set("strong-convexity", of_convexity * self.regularization);
            set("start", self.start);
            if matches!(
                method,
                Method::Nesterov { optimized: true } | Method::Multistage { optimized: true }
            ) {
                set("initial-gap", self.initial_gap);
            }
            let plan = match AcceleratedPlan::new(method, problem, &settings) {
                Ok(plan) => plan,
                Err(error) => {
                    outcome.reason = Some(error.to_string());
                    return Ok(outcome);
                }
            };
            let prepared = plan.prepared(problem, &settings.key)?;
            let mut executor = Executor::new(problem, engine.clone(), prepared);
            outcome.rounds = plan.steps.len();
            let finished = executor.run();
            // Margins beyond f32 are an error of their own; a gap beyond any start is the same before that.
            if finished.is_err() {
                outcome.reason = Some("diverged".to_owned());
                return Ok(outcome);
            }
            solutions.push(executor.solution().to_vec());
        }
        let views: Vec<&[f32]> = solutions.iter().map(Vec::as_slice).collect();
        let mut oracle = ReplicatedOracle::new(problem, engine.clone(), 0, Clip::Unbounded)?;
        let Ok(values) = oracle.objectives(&views) else {
            outcome.reason = Some("diverged".to_owned());
            return Ok(outcome);
        };
        let mean = values.iter().map(|value| value - optimum).sum::<f64>() / values.len() as f64;
        let start = vec![self.start as f32; problem.parameters()];
        let first = oracle.objectives(&[&start])?.first().copied().context("one point")? - optimum;
        if mean.is_finite() && mean < 10.0 * first.max(1.0) {
            outcome.gap = Some(mean);
        } else {
            outcome.reason = Some("diverged".to_owned());
        }
        Ok(outcome)
    }
}

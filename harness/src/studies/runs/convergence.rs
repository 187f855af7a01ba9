//! Convergence of private methods on logistic regression: F(x_t) − F* against t, over many runs (paper 003, Figures 3 and 4).
//!
//! A measurement is all runs of a cell.

use anyhow::Context as _;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::RoundError;
use rounds_algorithms::optimizers::accelerated_plan::{AcceleratedPlan, Method};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Labels, Problem};
use rounds_kernels::random::StreamKey;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study};
use crate::studies::logistic::{loaded, minimum, objective};

/// The measure. Options: `runs` of a cell, and about so many `evaluations` of iterations, evenly from 0 to the last. Runs share the minima of
/// their problems.
pub(crate) const CONVERGENCE: Measure =
    Measure { cells, ..Measure::new("convergence", Execution::InOrder, &["runs", "evaluations"], run) };

/// Parameter: `correct` Laplace noise, or `published-code` for the √2 smaller noise of the authors' code, which has no claim.
const DRAWN_NOISE: &str = "drawn-noise";

struct Plan<'a> {
    problem: &'a Problem,
    engine: &'a Engine,
    method: AcceleratedPlan,
    keys: Vec<StreamKey>,
    iterations: Vec<usize>,
    epsilon: f64,
}

/// Parameters of one run at the iterations to evaluate, one vector after the other.
type Visited = Vec<f32>;

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    for name in CONVERGENCE.options {
        anyhow::ensure!(study.option::<usize>(name)? > 0, "{name} must be at least 1");
    }
    for method in study.definition.all_methods() {
        method_of(&method.algorithm)?;
    }
    Ok(study.definition.cells(selection)?)
}

fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let (engine, loaded, key) = loaded(run, context)?;
    let optimum = run.study.shared(&key, || minimum(&loaded.train))?;
    let plan = Plan::new(run, &loaded.train, &engine, context)?;
    let (visited, gradient_queries) = plan.runs()?;
    plan.gaps(optimum, &visited, gradient_queries)
}

fn method_of(id: &str) -> anyhow::Result<Method> {
    let known: Vec<_> = Method::ALL.into_iter().map(Method::id).collect();
    let method = Method::ALL.into_iter().find(|method| method.id() == id);
    method.with_context(|| format!("the method '{id}' is not one of {}", known.join(", ")))
}

/// The key of a run: other for every method, T, c and run, the same for both kinds of noise, so that they differ by their
/// scale alone.
fn key(configuration: &Configuration, seed: u64, run: usize, draw: usize) -> anyhow::Result<StreamKey> {
    let (rounds, scale) = (configuration.number("rounds")?, configuration.number("step-scale")?);
    let (batch, id) = (configuration.batch_size, &configuration.algorithm);
    let mut name = format!("{seed}/{batch}/{id}/{rounds}/{scale}/{run}");
    if draw > 0 {
        name.extend(["/", &draw.to_string()]);
    }
    let hash = Sha256::digest(name.as_bytes());
    Ok(StreamKey::Simulation(u64::from_le_bytes(std::array::from_fn(|index| hash[index]))))
}

impl<'a> Plan<'a> {
    fn new(run: &Run<'_>, problem: &'a Problem, engine: &'a Engine, context: &Context<'_>) -> anyhow::Result<Self> {
        let (mut configuration, seed) = (run.cell.configuration.clone(), run.study.definition.seed);
        let drawn = configuration.parameters.remove(DRAWN_NOISE);
        let settings = context.settings(&configuration, seed)?;
        let plan = AcceleratedPlan::new(method_of(&configuration.algorithm)?, problem, &settings)?;
        let claimed = plan.statement().epsilon.context("the plan has no guarantee")?;
        let (plan, epsilon) = match drawn.as_ref().and_then(|drawn| drawn.as_str()) {
            None | Some("correct") => (plan, claimed),
            Some("published-code") => {
                let plan = plan.with_noise_scaled(std::f64::consts::FRAC_1_SQRT_2);
                let epsilon = plan.pure_epsilon()?;
                (plan, epsilon)
            }
            Some(other) => anyhow::bail!("{DRAWN_NOISE} = '{other}': it is correct or published-code"),
        };
        let (runs, parts): (usize, usize) = (run.study.option("runs")?, run.study.option("evaluations")?);
        let first = run.trial.repeat * runs;
        let keys = (first..first + runs).map(|place| key(&configuration, seed, place, run.trial.draw));
        let keys = keys.collect::<anyhow::Result<_>>()?;
        let rounds = plan.steps.len();
        let parts = parts.clamp(1, rounds);
        let iterations = (0..=parts).map(|part| (rounds * part + parts / 2) / parts).collect();
        Ok(Self { problem, engine, method: plan, keys, iterations, epsilon })
    }

    /// All runs: of those on the whole data every one on all threads, of those on batches several at the same time.
    fn runs(&self) -> anyhow::Result<(Vec<Visited>, u64)> {
        let on_all = self.method.batch == self.problem.rows();
        let mut runs: Vec<_> = self.keys.iter().map(|key| (key, Ok((Vec::new(), 0)))).collect();
        if on_all {
            runs.iter_mut().for_each(|(key, outcome)| *outcome = self.alone(key, self.engine.clone()));
        } else {
            self.engine.for_each(&mut runs, &|(key, outcome), _| *outcome = self.alone(key, Engine::Sequential));
        }
        let runs: Vec<(Visited, u64)> = runs.into_iter().map(|(_, outcome)| outcome).collect::<anyhow::Result<_>>()?;
        let queries = runs.first().map_or(0, |(_, queries)| *queries);
        Ok((runs.into_iter().map(|(visited, _)| visited).collect(), queries))
    }

    fn alone(&self, key: &StreamKey, engine: Engine) -> anyhow::Result<(Visited, u64)> {
        let mut run = Executor::new(self.problem, engine, self.method.prepared(self.problem, key)?);
        let mut visited = run.solution().to_vec();
        let mut keep = |run: &mut Executor<'_>| -> Result<_, RoundError> {
            if self.iterations.binary_search(&(run.round() as usize)).is_ok() {
                visited.extend_from_slice(run.solution());
            }
            Ok(std::ops::ControlFlow::Continue(()))
        };
        run.run_observed(&mut [&mut keep])?;
        let queries = run.ledger().gradient_queries;
        Ok((visited, queries))
    }

    /// The gaps F(x_t) − F* of all runs at the iterations to evaluate, beside the constants that the steps were set from.
    fn gaps(&self, optimum: f64, visited: &[Visited], gradient_queries: u64) -> anyhow::Result<Outcome> {
        let points = visited.iter().flat_map(|run| run.chunks_exact(self.problem.parameters()));
        let gap = |point: &[f32]| Ok(objective(self.problem, self.engine, point)? - optimum);
        let gaps: Vec<f64> = points.map(gap).collect::<anyhow::Result<_>>()?;
        let (count, runs) = (self.iterations.len(), visited.len() as f64);
        let at = |index: usize| gaps.iter().copied().skip(index).step_by(count);
        let mean: Vec<f64> = (0..count).map(|index| at(index).sum::<f64>() / runs).collect();
        let error = |index: usize| {
            let squares: f64 = at(index).map(|gap| (gap - mean[index]).powi(2)).sum();
            (squares / (runs - 1.0).max(1.0) / runs).sqrt()
        };
        let curvature = self.method.curvature.context("the figure needs a regularisation above 0")?;
        let labels = match self.problem.dataset().labels() {
            Labels::Values(labels) => &labels[..],
            Labels::Classes { .. } => &[],
        };
        Ok(Outcome::of(json!({
            "rounds": self.method.steps.len(),
            "gradient_queries": gradient_queries,
            "runs": visited.len(),
            "epsilon": self.epsilon,
            "claim": self.method.statement().claim,
            "smoothness_used": curvature.smoothness(),
            "strong_convexity_used": curvature.mu(),
            "iterations": self.iterations,
            // Of this draw.
            "negative_labels": labels.iter().filter(|&&label| label < 0.0).count() as f64 / labels.len() as f64,
            "gap_mean": mean,
            "gap_standard_error": (0..count).map(error).collect::<Vec<f64>>(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{self, number, numbers};

    const SMALL: &str = r#"
        options = { runs = 3, evaluations = 5 }
        [parameters]
        batch-size = BATCH
        epsilon = 1.0
        delta = 0.0
        adjacency = "replace-one"
        rounds = [10, 20]
        step-scale = 1.0
        start = 2.0
        drawn-noise = ["correct", "published-code"]
        [[problem]]
        dataset = "synthetic-logistic"
        [problem.parameters]
        rows = 400
        dimension = 4
        data-seed = 3
        feature-bound = 2.0
        loss = "logistic"
        bias = false
        regularization = 0.1
        [[method]]
        algorithm = "dp-gd"
        [[method]]
        algorithm = "dp-nag-opt"
        parameters = { initial-gap = 10.0, allocation = "guide" }
    "#;

    #[test]
    fn cells_count_queries_name_the_drawn_budget_and_do_not_depend_on_threads() {
        for batch in [400, 40] {
            let text = SMALL.replace("BATCH", &batch.to_string());
            let [one, two] = [1, 2].map(|threads| testing::small(&CONVERGENCE, &text, threads).unwrap().1);
            assert_eq!(one.samples.len(), 8);
            for (sample, other) in one.samples.iter().zip(&two.samples) {
                assert_eq!(sample.outcome, other.outcome);
                assert_eq!(number(sample, "gradient_queries"), f64::from(batch) * number(sample, "rounds"));
                assert!(numbers(sample, "gap_mean").iter().all(|&gap| gap > -1e-6), "F below its minimum");
                let epsilon = number(sample, "epsilon");
                if sample.configuration.text(DRAWN_NOISE).unwrap() == "correct" {
                    assert_eq!(sample["claim"], "simulation");
                    assert!((epsilon - 1.0).abs() < 1e-6);
                } else {
                    assert_eq!(sample["claim"], "none");
                    assert!(epsilon > 1.3);
                }
            }
        }
    }

    #[test]
    fn a_number_of_rounds_has_one_colour_in_all_panels() {
        let text = SMALL.replace("BATCH", "40").replace(
            "algorithm = \"dp-gd\"",
            "algorithm = \"dp-gd\"\nparameters = { rounds = [20, 10] }\n[[method]]\nalgorithm = \"dp-hb\"\nparameters = { rounds = 10 }",
        );
        let (study, results) =
            testing::small(&CONVERGENCE, &format!("draws = 2\nshow.like = 'paper/accelerated-figure-3'\n{text}"), 1)
                .unwrap();
        let charts = testing::charts(&study, &results);
        let series = charts.iter().flat_map(|chart| &chart.series);
        let mut of_ten: Vec<_> =
            series.filter(|series| series.name.contains("= 10")).map(|series| series.colour).collect();
        of_ten.dedup();
        assert_eq!(of_ten, [1]);
        // The ratio of both methods on each draw with each noise.
        let ratios = charts.last().unwrap().series.iter().map(|series| series.points.len());
        assert_eq!(ratios.collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn unknown_methods_are_refused() {
        let text = SMALL.replace("BATCH", "400").replace("dp-gd", "dp-dg");
        let error = testing::small(&CONVERGENCE, &text, 1).err().unwrap();
        assert!(error.to_string().contains("dp-nag-opt"), "{error}");
    }
}

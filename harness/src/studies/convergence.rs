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
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::logistic::{loaded, minimum, objective};
use crate::experiment::cache::Memo;
use crate::experiment::{Configuration, Context, Definition, Execution, Experiment, Kind, Outcome, Run, Study};

/// The study. Runs share the minima of their problems.
pub(super) type Convergence = Experiment<Options, Memo<f64>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Runs of a cell.
    runs: usize,
    /// About as many iterations are evaluated, evenly from 0 to the last.
    evaluations: usize,
}

/// Parameter: `correct` Laplace noise, or `published-code` for the √2 smaller noise of the authors' code, which has no claim.
const DRAWN_NOISE: &str = "drawn-noise";

/// F(x_t) − F* over the runs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Gaps {
    /// T′: rounds of each run.
    rounds: usize,
    /// Gradient queries of each run, as its oracle counted them.
    gradient_queries: u64,
    runs: usize,
    /// ε of the drawn noise.
    epsilon: f64,
    claim: String,
    /// Smoothness L that the steps were set from.
    smoothness_used: f64,
    /// Strong convexity μ that the steps were set from.
    strong_convexity_used: f64,
    iterations: Vec<usize>,
    /// Share of the rows of this draw with a negative label.
    negative_labels: f64,
    /// Mean gap over the runs, the start's first.
    gap_mean: Vec<f64>,
    /// Its standard error.
    gap_standard_error: Vec<f64>,
}

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

impl Study for Convergence {
    const KIND: Kind = Kind::new::<Self>("convergence", Execution::InOrder);
    type Options = Options;
    type Outcome = Gaps;

    fn check(definition: &Definition, options: &Options) -> anyhow::Result<()> {
        for (name, value) in [("runs", options.runs), ("evaluations", options.evaluations)] {
            anyhow::ensure!(value > 0, "{name} must be at least 1");
        }
        for method in definition.all_methods() {
            method_of(&method.algorithm)?;
        }
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Gaps>, context: &Context<'_>) -> anyhow::Result<Outcome<Gaps>> {
        let (engine, loaded, key) = loaded(run, context)?;
        let optimum = self.shared.get(&key, || minimum(&loaded.train))?;
        let plan = self.plan(run, &loaded.train, &engine, context)?;
        let (visited, gradient_queries) = plan.runs()?;
        Ok(Outcome::Measured(plan.gaps(optimum, &visited, gradient_queries)?))
    }
}

fn method_of(id: &str) -> anyhow::Result<Method> {
    let known: Vec<_> = Method::ALL.into_iter().map(Method::id).collect();
    let method = Method::ALL.into_iter().find(|method| method.id() == id);
    method.with_context(|| format!("the method '{id}' is not one of {}", known.join(", ")))
}

impl Convergence {
    fn plan<'a>(
        &self,
        run: &Run<'_, Gaps>,
        problem: &'a Problem,
        engine: &'a Engine,
        context: &Context<'_>,
    ) -> anyhow::Result<Plan<'a>> {
        let mut configuration = run.cell.configuration.clone();
        let drawn = configuration.parameters.remove(DRAWN_NOISE);
        let settings = context.settings(&configuration, self.definition.seed)?;
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
        let options = &self.options;
        let first = run.trial.repeat * options.runs;
        let keys = (first..first + options.runs)
            .map(|place| key(&configuration, self.definition.seed, place, run.trial.draw))
            .collect::<anyhow::Result<_>>()?;
        let rounds = plan.steps.len();
        let parts = options.evaluations.clamp(1, rounds);
        Ok(Plan {
            problem,
            engine,
            method: plan,
            keys,
            iterations: (0..=parts).map(|part| (rounds * part + parts / 2) / parts).collect(),
            epsilon,
        })
    }
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

impl Plan<'_> {
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

    /// The gaps of all runs at the iterations to evaluate.
    fn gaps(&self, optimum: f64, visited: &[Visited], gradient_queries: u64) -> anyhow::Result<Gaps> {
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
        let claim = serde_json::to_value(self.method.statement().claim)?;
        Ok(Gaps {
            rounds: self.method.steps.len(),
            gradient_queries,
            runs: visited.len(),
            epsilon: self.epsilon,
            claim: claim.as_str().unwrap_or("none").to_owned(),
            smoothness_used: curvature.smoothness(),
            strong_convexity_used: curvature.mu(),
            iterations: self.iterations.clone(),
            negative_labels: negative_labels(self.problem),
            gap_standard_error: (0..count).map(error).collect(),
            gap_mean: mean,
        })
    }
}

fn negative_labels(problem: &Problem) -> f64 {
    let Labels::Values(labels) = problem.dataset().labels() else {
        return f64::NAN;
    };
    labels.iter().filter(|&&label| label < 0.0).count() as f64 / labels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

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
            let [one, two] = [1, 2].map(|threads| testing::small::<Convergence>(&text, threads).unwrap().1);
            assert_eq!(one.samples.len(), 8);
            for (sample, other) in one.samples.iter().zip(&two.samples) {
                assert_eq!(sample.outcome, other.outcome);
                assert_eq!(sample.gradient_queries, batch * sample.rounds as u64);
                assert!(sample.gap_mean.iter().all(|&gap| gap > -1e-6), "F below its minimum");
                if sample.configuration.text(DRAWN_NOISE).unwrap() == "correct" {
                    assert_eq!(sample.claim, "simulation");
                    assert!((sample.epsilon - 1.0).abs() < 1e-6);
                } else {
                    assert_eq!(sample.claim, "none");
                    assert!(sample.epsilon > 1.3);
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
            testing::small::<Convergence>(&format!("draws = 2\nshow.like = 'paper/accelerated-figure-3'\n{text}"), 1)
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
        let error = testing::small::<Convergence>(&text, 1).err().unwrap();
        assert!(error.to_string().contains("dp-nag-opt"), "{error}");
    }
}

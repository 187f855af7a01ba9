//! Training: test accuracy or risk of many runs of the catalogue's algorithms, against a parameter or the number of rows,
//! with the rounds and queries to a target.
//!
//! Runs are spread over the threads, one a thread, or several where there are fewer runs. Where parameters of a method are swept, the best combination is shown;
//! picking it on private data spends privacy that no ε here counts. A method with `grid = "learning-rate=0.5,1,2"` (several lists with `;`
//! between them) and `trials` pays for it: a run is a selection among a random number of trials, at one ε for all of them. A `feature-map` that
//! follows from moments of the rows is released in every run, at one ε with it.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use rounds_algorithms::catalog;
use rounds_algorithms::choices::choices;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::evaluate;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::PrivacyStatement;
use rounds_algorithms::problem::Problem as Objective;
use rounds_kernels::features::Norm;
use rounds_kernels::random::StreamKey;
use rounds_models::data::TrainTest;
use rounds_models::features::FeatureMap;
use rounds_models::fit::{self, Grid, Tuning, tune};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::experiment::cache::{Loaded, check};
use crate::experiment::cell::PLANTED_LOGISTIC;
use crate::experiment::settings::{self, BUDGET};
use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study, Trial};
use crate::studies::logistic::objective;
use crate::usage::with_causes;

/// The measure. Option: `metric` of data sets; accuracy on the test rows by default. Generated rows of `planted-logistic` have their excess
/// risk. Runs share the minima of their objectives.
pub(crate) const TRAINING: Measure = Measure {
    like: "quick-training",
    cells,
    derive,
    is_default: true,
    ..Measure::new("training", Execution::Concurrent, &["metric"], run)
};

/// The parameters of a method that is tuned: its grid, and the expected number of trials.
const TUNING: [&str; 2] = ["grid", "trials"];

choices! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Metric {
        /// Share of test examples classified rightly, in percent: more is better.
        #[default]
        TestAccuracy = "test-accuracy",
        /// Population risk above its minimum, of generated rows: less is better.
        ExcessRisk = "excess-risk",
        /// The objective `F(x) = (1/n)Σφ + (λ/2)‖x‖²` above its minimum: less is better.
        ExcessObjective = "excess-objective",
    }
}

impl Metric {
    /// That of a problem, where one is given for data sets.
    fn of(given: Option<Self>, is_planted: bool) -> Self {
        if is_planted { Self::ExcessRisk } else { given.unwrap_or_default() }
    }

    /// What is less where the value is better.
    fn cost(self, value: f64) -> f64 {
        if self == Self::TestAccuracy { -value } else { value }
    }
}

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    let of_planted = study.option::<Option<Metric>>("metric")?.map(|metric| metric == Metric::ExcessRisk);
    for problem in &study.definition.problems {
        let is_planted = problem.dataset == PLANTED_LOGISTIC;
        ensure!(
            of_planted.is_none_or(|of_planted| of_planted == is_planted),
            "metric: {} has another one: excess-risk is that of {PLANTED_LOGISTIC}, which has no other; leave metric out, or \
             give this data set a definition of its own",
            problem.dataset
        );
    }
    let cells = study.definition.cells(selection)?;
    let mut settings = cells.clone();
    for cell in &mut settings {
        cell.configuration.parameters.retain(|name, _| !TUNING.contains(&name.as_str()));
    }
    check(&settings)?;
    for cell in cells.iter().map(|cell| &cell.configuration) {
        let has = |name: &str| cell.parameters.contains_key(name);
        ensure!(
            cell.dataset != PLANTED_LOGISTIC || !has("test-split"),
            "{}: test-split: its models are judged by their population; leave it out",
            cell.key()
        );
        let (_, map) = before_moments(cell).with_context(|| cell.key())?;
        if map.is_some() {
            training(cell).with_context(|| cell.key())?;
            ensure!(
                !TUNING.into_iter().chain(["feature-bound"]).any(has),
                "{}: trials share no release of moments, and its rows are cut by norm=B of the map; leave grid and feature-bound out",
                cell.key()
            );
            ensure!(
                Metric::of(study.option("metric")?, false) == Metric::TestAccuracy,
                "{}: runs on moments are judged by test-accuracy; leave metric out",
                cell.key()
            );
        }
        if TUNING.into_iter().any(has) {
            tuning(cell).with_context(|| cell.key())?;
        }
    }
    Ok(cells)
}

fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let (study, cell) = (run.study, &run.cell.configuration);
    let (rows, map) = before_moments(cell)?;
    let loaded = match context.problem(&rows, run.trial.draw, &Engine::Sequential) {
        Ok(loaded) => loaded,
        Err(error) => return Ok(Outcome::Skipped(with_causes(&error))),
    };
    if let Some(map) = map {
        return fitted(run, &loaded, map);
    }
    if cell.parameters.contains_key(TUNING[0]) {
        return tuned(run, &loaded);
    }
    let settings = context.settings(cell, run.trial.seed(study.definition.seed))?;
    let prepared = match catalog::find(&cell.algorithm)?.prepare(&loaded.train, &settings) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(Outcome::Skipped(refusal.to_string())),
    };
    let (spent, budget) = (prepared.privacy.epsilon, cell.optional("epsilon")?);
    if budget.is_some() && spent.is_none() {
        let reason = prepared.privacy.reason.clone();
        return Ok(Outcome::Skipped(reason.unwrap_or_else(|| "it has no guarantee".into())));
    }
    ensure!(spent <= budget.or(spent), "{}: ε = {spent:?} is more than the budget {budget:?}", cell.key());
    let privacy = told(run, &prepared.privacy)?;
    let judge = Judge::new(run, &loaded)?;
    let target = study.definition.problems[run.cell.problem].target;
    let mut executor = Executor::new(&loaded.train, context.engine_of_run()?, prepared);
    executor.place();
    let mut seconds = 0.0;
    let (mut next_look, mut to_target) = (1, None);
    while !executor.is_finished() {
        let started = Instant::now();
        let last = executor.rounds();
        let pending = target.filter(|_| to_target.is_none());
        let until = if pending.is_some() { last.min(next_look) } else { last };
        while executor.round() < until {
            executor.advance().with_context(|| cell.key())?;
        }
        seconds += started.elapsed().as_secs_f64() * context.threads_of_run as f64;
        next_look = until + 1 + until / 20;
        if let Some(target) = pending
            && judge.metric.cost(judge.value(executor.solution())?) <= judge.metric.cost(target)
        {
            // Rounds and queries when the target was first seen to be reached.
            to_target = Some((executor.ledger().rounds, executor.ledger().gradient_queries));
        }
    }
    let ledger = executor.ledger();
    let clipped = ledger.clipped as f64 / ledger.clippable.max(1) as f64;
    let counts = (ledger.rounds, ledger.gradient_queries, clipped);
    let mut values = judge.values(executor.solution(), counts, seconds, privacy)?;
    if let Some(to_target) = to_target {
        values["to_target"] = json!(to_target);
    }
    Ok(Outcome::of(values))
}

/// The statement of the first run of a cell, and of the others what differs or stands in tables.
fn told(run: &Run<'_>, privacy: &PrivacyStatement) -> anyhow::Result<Value> {
    let mut privacy = serde_json::to_value(privacy)?;
    if let Some(statement) = privacy.as_object_mut().filter(|_| run.trial != Trial::default()) {
        statement
            .retain(|key, _| ["claim", "epsilon", "delta", "adjacency", "noise_multiplier"].contains(&key.as_str()));
    }
    Ok(privacy)
}

/// The value of a run under the name of its metric as well, and the `cost` whose least is the best.
fn derive(study: &Study, mut lines: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let given = study.option::<Option<Metric>>("metric")?;
    for line in &mut lines {
        let (metric, value) = (Metric::of(given, line["dataset"] == PLANTED_LOGISTIC), line["value"].clone());
        line["cost"] = metric.cost(value.as_f64().unwrap_or(f64::NAN)).into();
        line[metric.name()] = value;
        line["metric"] = metric.name().into();
        if line["axis_name"] != "epsilon" {
            let epsilon = &line["privacy"]["epsilon"];
            line["spent"] = if epsilon.is_null() { "∞".into() } else { epsilon.clone() };
        }
        if metric == Metric::ExcessObjective {
            line["accuracy"] = line.get("test_accuracy").cloned().unwrap_or_default();
        }
        if line["target"].is_number() && line.get("to_target").is_none() {
            line["to_target"] = vec!["not reached"; 2].into();
        }
    }
    Ok(lines)
}

/// The values of a run with these rounds, queries and share of clipped gradients (of a selection the winner's). Seconds are those of the
/// rounds times the run's threads, without preparation and evaluation; of a selection with its plan and all trials, of moments with their release.
fn values(
    (value, accuracy): (f64, Option<f64>),
    loaded: &Loaded,
    (rounds, gradient_queries, clipped): (u64, u64, f64),
    seconds: f64,
    privacy: Value,
) -> Value {
    let mut values = json!({ "value": value });
    if let Some(accuracy) = accuracy {
        values["test_accuracy"] = accuracy.into();
    }
    let counts = [("n", loaded.train.rows() as u64), ("rounds", rounds), ("gradient_queries", gradient_queries)];
    counts.into_iter().for_each(|(name, count)| values[name] = count.into());
    (values["clipped"], values["seconds"]) = (clipped.into(), seconds.into());
    values["privacy"] = privacy;
    values
}

struct Judge<'l> {
    metric: Metric,
    loaded: &'l Loaded,
    /// Minimum of the objective, where it is the metric.
    minimum: f64,
}

impl<'l> Judge<'l> {
    fn new(run: &Run<'_>, loaded: &'l Loaded) -> anyhow::Result<Self> {
        let (study, cell) = (run.study, &run.cell.configuration);
        let metric = Metric::of(study.option("metric")?, loaded.planted.is_some());
        let minimum = if metric == Metric::ExcessObjective {
            let key = format!("{} {} {}", cell.problem, cell.dataset, run.trial.draw);
            study.shared(&key, || minimum(&loaded.train))?
        } else {
            0.0
        };
        if metric == Metric::TestAccuracy && loaded.test.is_none() {
            bail!(
                "the data set {} has no test rows: take metric = \"excess-objective\" and a regularization above 0",
                cell.dataset
            );
        }
        Ok(Self { metric, loaded, minimum })
    }

    /// The values of a run whose model is this.
    fn values(
        &self,
        parameters: &[f32],
        counts: (u64, u64, f64),
        seconds: f64,
        privacy: Value,
    ) -> anyhow::Result<Value> {
        let value = self.value(parameters)?;
        let mut values = values((value, self.accuracy(parameters)?), self.loaded, counts, seconds, privacy);
        if self.metric == Metric::ExcessObjective {
            values["objective"] = (value + self.minimum).into();
        }
        Ok(values)
    }

    fn value(&self, parameters: &[f32]) -> anyhow::Result<f64> {
        Ok(match (self.metric, &self.loaded.planted) {
            (Metric::ExcessRisk, Some(planted)) => planted.excess_risk(parameters),
            (Metric::ExcessObjective, _) => {
                objective(&self.loaded.train, &Engine::Sequential, parameters)? - self.minimum
            }
            _ => 100.0
                * self.accuracy(parameters)?.context(
                    "the data set has no test rows: take metric = \"excess-objective\" and a regularization above 0",
                )?,
        })
    }

    fn accuracy(&self, parameters: &[f32]) -> anyhow::Result<Option<f64>> {
        let test = self.loaded.test.as_ref();
        let found = test.map(|test| evaluate(test, &Engine::Sequential, parameters)).transpose()?;
        Ok(found.map(|found| found.correct as f64 / found.rows.max(1) as f64))
    }
}

/// The run of a cell as `rounds train` makes it, but for its rows and its seed.
fn training(cell: &Configuration) -> anyhow::Result<fit::Training> {
    let problem = cell.on_problem().parameters;
    ensure!(
        cell.dataset != PLANTED_LOGISTIC && problem.get("bias") != Some(&false.into()),
        "trials of a grid, and runs on moments, train models with a bias, and this problem has none; leave grid and feature-map out, or take \
         another problem"
    );
    let mut training = fit::Training { algorithm: cell.algorithm.clone(), ..fit::Training::default() };
    training.privacy.epsilon = cell.optional("epsilon")?;
    training.privacy.delta = cell.number("delta")?;
    training.optimizer.batch_size = Some(cell.batch_size).filter(|&size| size > 0);
    training.optimizer.loss = settings::loss(&problem)?;
    training.optimizer.regularization = settings::regularization(&problem)?;
    let own = cell.of_algorithm().into_keys().filter(|name| ![&TUNING[..], &BUDGET].concat().contains(&&name[..]));
    training.parameters = own.filter_map(|name| cell.text(&name).map(|value| (name, value))).collect();
    Ok(training)
}

/// The selection of a cell with a grid, but for its rows and its seed.
fn tuning(cell: &Configuration) -> anyhow::Result<Tuning> {
    let lists =
        cell.text(TUNING[0]).context("trials draw from a grid: give grid = \"NAME=V1,V2,…\", or leave trials out")?;
    let mut tuning = Tuning::of(training(cell)?);
    let lists = lists.split(';').map(|list| {
        let (name, values) = list.split_once('=').context("a grid is NAME=V1,V2,…")?;
        Ok((name.trim().to_owned(), values.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>()))
    });
    tuning.grid = Grid::new(lists.collect::<anyhow::Result<Vec<_>>>()?)?;
    tuning.trials = cell.optional(TUNING[1])?.unwrap_or(tuning.trials);
    tuning.check()?;
    Ok(tuning)
}

fn tuned(run: &Run<'_>, loaded: &Loaded) -> anyhow::Result<Outcome> {
    let cell = &run.cell.configuration;
    let mut tuning = tuning(cell)?;
    let rows = TrainTest { train: loaded.train.dataset().as_ref().clone(), test: None };
    tuning.training.data = fit::Training::on_rows(rows).data;
    tuning.training.seed = run.trial.seed(run.study.definition.seed);
    let judge = Judge::new(run, loaded)?;
    let started = Instant::now();
    let tuned = tune(&tuning, &fit::Execution::default(), &mut ()).with_context(|| cell.key())?;
    let seconds = started.elapsed().as_secs_f64();
    let privacy = serde_json::to_value(&tuned.outcome.header.privacy)?;
    Ok(Outcome::of(judge.values(tuned.model.weights(), counts(&tuned.outcome), seconds, privacy)?))
}

/// Rounds, queries and the share of clipped gradients.
fn counts(outcome: &fit::Outcome) -> (u64, u64, f64) {
    let clipped = outcome.diagnostics.as_ref().map_or(0.0, |of_run| of_run.clipped_fraction);
    (outcome.header.rounds, outcome.gradient_queries, clipped)
}

/// The cell on rows before the map of a `feature-map` that follows from moments, and that map.
fn before_moments(cell: &Configuration) -> anyhow::Result<(Configuration, Option<FeatureMap>)> {
    const NAME: &str = "feature-map";
    let mut rows = cell.clone();
    let map = cell.on_problem().text(NAME).map(|map| map.parse().map_err(anyhow::Error::msg)).transpose()?;
    let Some(FeatureMap::Moments(mut map)) = map else { return Ok((rows, None)) };
    match map.before.take() {
        Some(before) => rows.parameters.insert(NAME.to_owned(), before.to_string().into()),
        None => rows.parameters.remove(NAME),
    };
    Ok((rows, Some(FeatureMap::Moments(map))))
}

/// A run that releases moments, as `rounds train --features` makes it, judged on the test rows.
fn fitted(run: &Run<'_>, loaded: &Loaded, map: FeatureMap) -> anyhow::Result<Outcome> {
    let cell = &run.cell.configuration;
    let mut training = training(cell)?;
    let [train, test] =
        [Some(&loaded.train), loaded.test.as_ref()].map(|rows| rows.map(|rows| rows.dataset().as_ref().clone()));
    training.data = fit::Training::on_rows(TrainTest { train: train.expect("training rows"), test }).data;
    training.data.features = Some(map);
    training.seed = run.trial.seed(run.study.definition.seed);
    let started = Instant::now();
    let fit::Fitted { outcome, .. } = match fit::fit(&training, &fit::Execution::default(), &mut ()) {
        Ok(fitted) => fitted,
        Err(refusal @ fit::FitError::Prepare(_)) => return Ok(Outcome::Skipped(refusal.to_string())),
        Err(error) => return Err(error).with_context(|| cell.key()),
    };
    let seconds = started.elapsed().as_secs_f64();
    let Some(fit::Quality::Accuracy(accuracy)) = outcome.test else {
        bail!(
            "{}: runs on moments are judged by the accuracy on test rows: take a data set with some, or test-split",
            cell.key()
        );
    };
    let privacy = told(run, &outcome.header.privacy)?;
    Ok(Outcome::of(values((100.0 * accuracy, Some(accuracy)), loaded, counts(&outcome), seconds, privacy)))
}

/// F* by Nesterov's method without noise: 40·√κ rounds leave less than the rounding of f32.
fn minimum(problem: &Objective) -> anyhow::Result<f64> {
    anyhow::ensure!(problem.regularization() > 0.0, "metric \"excess-objective\" needs a regularization above 0");
    let mut settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(0));
    let bound = problem.dataset().public_bound(Norm::L2).context("rows are clipped")?;
    let condition = (0.5 * (bound * bound + 1.0) + problem.regularization()) / problem.regularization();
    let rounds = (40.0 * condition.sqrt()).ceil();
    settings.parameters.insert("rounds".to_owned(), rounds.to_string());
    let prepared = catalog::find("dp-nag")?.prepare(problem, &settings)?;
    let mut executor = Executor::new(problem, Engine::Sequential, prepared);
    executor.run()?;
    objective(problem, &Engine::Sequential, executor.solution())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Results;
    use crate::experiment::testing::{self, number};

    const SMALL: &str = r#"
        repeats = 3
        show.level = 0.9

        [[problem]]
        label = "planted"
        dataset = "planted-logistic"
        target = 0.05
        axis = "epsilon"
        parameters = { rows = 1500, dimension = 5, norm = 3.0 }
        method-parameters = { epsilon = [1, 20], delta = 1e-5, batch-size = 50 }

        [[problem.method]]
        label = "SRG"
        algorithm = "dp-srg-memf"
        parameters = { epochs = 2, noise = "optimal", clip-norm = 1.0, learning-rate = [0.0001, 0.2] }

        [[problem.method]]
        label = "accelerated"
        algorithm = "accelerated-dp-srg"
        parameters = { epsilon = 20 }
    "#;

    fn page_of(study: &Study, results: &Results) -> String {
        (TRAINING.present)(study, results, &testing::context(1)).unwrap().page.unwrap().markdown()
    }

    #[test]
    fn a_metric_that_would_change_nothing_is_refused() {
        for (metric, data) in [("test-accuracy", "planted-logistic"), ("excess-risk", "synthetic-mnist")] {
            let text = SMALL.replace("show.level = 0.9", &format!("options.metric = \"{metric}\""));
            let text = text.replace("rows = 1500, dimension = 5, norm = 3.0", "");
            let error = testing::small(&TRAINING, &text.replace("planted-logistic", data), 1).err().unwrap();
            assert!(error.to_string().starts_with(&format!("metric: {data} has")), "{error}");
        }
    }

    const ON_MOMENTS: &str = r#"
        repeats = 2

        [[problem]]
        dataset = "synthetic-logistic"
        axis = "epsilon"
        parameters = { test-split = 0.2 }
        method-parameters = { epsilon = [1, 4], delta = 1e-5, rounds = 20 }

        [[problem.method]]
        label = "features as they are"
        algorithm = "dp-sgd"

        [[problem.method]]
        label = "whitened"
        algorithm = "dp-sgd"
        problem-parameters = { feature-map = "whiten" }

        [[problem.method]]
        label = "normalized cosines"
        algorithm = "dp-sgd"
        problem-parameters = { feature-map = "fourier:count=8+normalize" }
    "#;

    #[test]
    fn runs_on_moments_pay_for_them_and_are_those_of_train() {
        let (_, results) = testing::small(&TRAINING, ON_MOMENTS, 2).unwrap();
        assert_eq!(results.samples.len(), 12, "{:?}", results.skipped);
        for run in &results.samples {
            let (cell, privacy) = (&run.configuration, &run["privacy"]);
            let epsilon = cell.number("epsilon").unwrap();
            assert!(privacy["epsilon"].as_f64().is_some_and(|stated| stated <= epsilon && stated > 0.99 * epsilon));
            let is_first = run.trial == Trial::default();
            assert_eq!(privacy["moments_noise"].is_number(), is_first && cell.method != "features as they are");
            assert!(number(run, "value") > 50.0, "{run:?}");
        }
        let whitened =
            |run: &&crate::experiment::Sample| run.configuration.method == "whitened" && run.trial.repeat == 1;
        for run in results.samples.iter().filter(whitened) {
            let mut training =
                fit::Training::on("synthetic-logistic").private(run.configuration.number("epsilon").unwrap(), 1e-5);
            (training.algorithm, training.seed) = ("dp-sgd".to_owned(), run.trial.seed(1));
            training.parameters = vec![("rounds".to_owned(), "20".to_owned())];
            training.data.features = Some("whiten".parse().unwrap());
            let request = rounds_models::data::Request {
                split: Some(rounds_models::data::Split { fraction: 0.2, seed: 0 }),
                ..rounds_models::data::Request::of(None)
            };
            let part = crate::cluster::Cluster::alone().load("synthetic-logistic", None, request).unwrap();
            training.data.rows = Some(std::sync::Arc::new(TrainTest { train: part.train, test: part.test }));
            let fitted = fit::fit(&training, &fit::Execution::default(), &mut ()).unwrap();
            let Some(fit::Quality::Accuracy(accuracy)) = fitted.outcome.test else { panic!("test rows") };
            assert_eq!(number(run, "test_accuracy").to_bits(), accuracy.to_bits());
        }
        // Settings that the algorithm refuses leave their cells out and no others.
        let sizes = "rounds = 20, batch-size = [4000, 90000]";
        let (_, some) = testing::small(&TRAINING, &ON_MOMENTS.replace("rounds = 20", sizes), 1).unwrap();
        assert_eq!((some.samples.len(), some.skipped.len()), (12, 6), "{:?}", some.skipped);
        let refused = |from: &str, to: &str| {
            let error = testing::small(&TRAINING, &ON_MOMENTS.replace(from, to), 1).err().expect("refused");
            format!("{error:#}")
        };
        let grid = "rounds = 20, grid = \"learning-rate=0.5,1\"";
        assert!(refused("rounds = 20", grid).contains("trials share no release"));
        assert!(refused("test-split = 0.2", "feature-bound = 1.0").contains("norm=B of the map"));
        assert!(refused("repeats = 2", "repeats = 1\noptions.metric = \"excess-objective\"").contains("test-accuracy"));
        assert!(refused(", delta = 1e-5", "").contains("delta is missing"));
        assert!(refused("\"whiten\"", "\"whiten:power=no\"").contains("none of its values"));
        assert!(refused("test-split = 0.2", "rows = 200").contains("no test rows"));
    }

    #[test]
    fn the_best_combination_is_marked_and_targets_are_counted() {
        let (study, results) = testing::small(&TRAINING, SMALL, 2).unwrap();
        // Two places times two step sizes, and one, times three runs.
        assert_eq!(results.samples.len(), 15);
        let page = page_of(&study, &results);
        for expected in [
            // Both best values are the larger of two.
            "learning-rate 0.2, the largest",
            "| SRG | 20 |",
            "rounds to 0.05",
            " ± ",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        for run in &results.samples {
            let cell = &run.configuration;
            assert!(run["privacy"]["epsilon"].as_f64() <= Some(cell.number("epsilon").unwrap()));
            assert_eq!(run["privacy"]["claim"], "simulation");
            let slow = cell.text("learning-rate").as_deref() == Some("0.0001");
            assert_eq!(run.contains_key("to_target"), !slow, "{}", cell.key());
        }
        let poor: Vec<_> = results.samples.iter().filter(|run| !run.contains_key("to_target")).cloned().collect();
        assert!(page_of(&study, &poor.into_iter().collect()).contains("| not reached | not reached |"));
        let wider = SMALL.replace("[0.0001, 0.2]", "[0.0001, 0.2, 1000]");
        let (study, wider) = testing::small(&TRAINING, &wider, 2).unwrap();
        assert!(page_of(&study, &wider).contains("| learning-rate 0.2 |"));
        // As many threads as runs and more: two for each run.
        let [(_, again), (_, pairs)] = [1, 30].map(|threads| testing::small(&TRAINING, SMALL, threads).unwrap());
        let values = |results: &Results| {
            let mut values: Vec<_> = results.samples.iter().map(|run| (run.key(), number(run, "value"))).collect();
            values.sort_by(|one, other| one.0.cmp(&other.0));
            values
        };
        for other in [again, pairs] {
            assert_eq!(values(&results), values(&other), "models do not depend on threads");
        }
    }

    #[test]
    fn a_cell_whose_runs_diverged_is_named_and_no_mean_is_taken_of_the_others() {
        let (study, mut results) =
            testing::small(&TRAINING, &SMALL.replace("[0.0001, 0.2]", "[0.0001, 0.1, 1e30]"), 2).unwrap();
        assert_eq!((results.samples.len(), results.rejected.len()), (15, 6), "all others are made");
        let page = page_of(&study, &results);
        for expected in [
            "/learning-rate=1e+30/",
            " and 1 more: 3 of 3 runs failed: the iterate or a coefficient has diverged; lower the learning rate",
            // Larger ones were tried.
            "| learning-rate 0.1 |",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        // One seed of the best cell at ε = 20: no mean is taken of the others.
        let shown = |page: &str| page.lines().find(|line| line.starts_with("| SRG | 20 |")).unwrap().to_owned();
        assert!(shown(&page).contains("learning-rate 0.1"), "{page}");
        let is_best = |run: &crate::experiment::Sample| {
            let [epsilon, rate] = ["epsilon", "learning-rate"].map(|name| run.configuration.text(name));
            (epsilon.as_deref(), rate.as_deref()) == (Some("20"), Some("0.1"))
        };
        let lost = results.samples.iter().find(|run| is_best(run) && run.trial.repeat == 1).unwrap();
        results.rejected.insert((lost.configuration.key(), lost.trial), "it diverged".to_owned());
        let page = page_of(&study, &results);
        assert!(
            shown(&page).contains("learning-rate 0.0001") && page.contains(": 1 of 3 runs failed: it diverged"),
            "{page}"
        );
        assert_eq!(study.lines(&results).unwrap().len(), 15 - 3);
    }

    #[test]
    fn objectives_lie_above_their_minimum_and_refusals_are_named() {
        let text = r#"
            repeats = 2
            parameters = { epsilon = 1.0, delta = 1e-5, adjacency = "replace-one" }
            [options]
            metric = "excess-objective"
            [[problem]]
            dataset = "synthetic-logistic"
            parameters = { loss = "logistic", feature-bound = 1.0, regularization = 0.05, rows = 2000 }
            [[method]]
            algorithm = "dp-nag-opt"
            parameters = { noise = "independent", rounds = [20, 40], initial-gap = 0.7 }
            [[method]]
            algorithm = "dp-nag"
            parameters = { noise = "independent", rounds = 5, strong-convexity = 99.0 }
        "#;
        let (study, results) = testing::small(&TRAINING, text, 1).unwrap();
        assert_eq!(results.samples.len(), 4, "{:?}", results.skipped);
        assert!(results.skipped[0].1.contains("exceeds smoothness"), "{:?}", results.skipped);
        for run in &results.samples {
            assert!(number(run, "value") > -1e-6, "{run:?}");
            assert_eq!(number(run, "gradient_queries"), number(run, "rounds") * 2000.0);
        }
        // The best of two, and the reason for which the other method is left out.
        let page = page_of(&study, &results);
        assert_eq!(page.matches("| dp-nag-opt |").count(), 1, "{page}");
        assert!(page.contains("Left out: ") && page.contains("exceeds smoothness"), "{page}");
    }

    #[test]
    fn one_run_has_no_interval_and_different_relations_are_named() {
        let text = r#"
            options = { }
            [[problem]]
            dataset = "planted-logistic"
            parameters = { rows = 500, dimension = 5, norm = 3.0 }
            method-parameters = { epsilon = 1.0, delta = 1e-5, epochs = 1, batch-size = 50 }
            [[method]]
            label = "zero"
            algorithm = "dp-sgd"
            [[method]]
            label = "one"
            algorithm = "dp-sgd"
            parameters = { adjacency = "replace-one", sampling = "without-replacement" }
        "#;
        let shown = |text: &str| {
            let (study, results) = testing::small(&TRAINING, text, 1).unwrap();
            page_of(&study, &results)
        };
        let one = shown(text);
        assert!(!one.contains('±') && one.contains("| replace-one |") && one.contains("| zero-out |"), "{one}");
        let two = shown(&text.replace("options", "repeats = 2\noptions").replace("\"replace-one\"", "\"zero-out\""));
        assert!(two.contains('±') && two.contains("δ 0.00001, relation zero-out."), "{two}");
    }

    #[test]
    fn tables_leave_out_what_captions_say_and_exponents_unfinished_cells() {
        let text = r#"
            draws = 2
            options = { }
            [[problem]]
            dataset = "planted-logistic"
            axis = "rows"
            parameters = { rows = [400, 200, 800], dimension = 5, norm = 3.0 }
            method-parameters = { epsilon = 1.0, delta = 1e-5, epochs = 1, batch-size = 50 }
            [[method]]
            algorithm = "dp-sgd"
            parameters = { sampling = "without-replacement", adjacency = "replace-one" }
        "#;
        let (study, mut results) = testing::small(&TRAINING, text, 1).unwrap();
        let shown = |results: &Results| page_of(&study, results);
        let charts = testing::charts(&study, &results);
        assert_eq!(charts.len(), 3);
        for chart in charts {
            assert!(chart.series[0].points.is_sorted_by_key(|point| point.x), "{}", chart.title);
        }
        let whole = shown(&results);
        for expected in ["with their 95 % intervals.", "In all rows: runs 2, ", "1.00 (1.00 – 1.00)"] {
            assert!(whole.contains(expected), "{whole}");
        }
        assert!(!whole.contains("relation |") && whole.contains("relation replace-one"), "{whole}");
        results.samples.retain(|run| number(run, "n") < 800.0 || run.trial.draw == 0);
        let stopped = shown(&results.samples.into_iter().collect());
        assert!(!stopped.contains("1.00 (1.00"), "{stopped}");
    }

    const TUNED: &str = r#"
        repeats = 1
        [options]
        metric = "excess-objective"
        [[problem]]
        dataset = "synthetic-logistic"
        parameters = { rows = 2000, loss = "logistic", regularization = 0.05, feature-bound = 1.0 }
        [[problem.method]]
        algorithm = "dp-sgd"
        parameters = { epsilon = 8, delta = 1e-5, epochs = 2, batch-size = 100, grid = "clip-norm=0.5,0.6", trials = 3 }
    "#;

    #[test]
    fn a_selection_trains_the_problem_that_it_is_compared_on() {
        // Of the training alone, whatever it is judged by.
        let trained = |from: &str, to: &str| {
            let (_, results) = testing::small(&TRAINING, &TUNED.replace(from, to), 1).unwrap();
            let run = results.samples.first().unwrap();
            (number(run, "clipped"), number(run, "rounds"))
        };
        let logistic = trained("", "");
        assert!(logistic.0 > 0.0 && logistic.1 == 40.0, "{logistic:?}");
        assert_ne!(logistic.0, trained("\"logistic\"", "\"huber=1\"").0);
        assert_ne!(logistic.0, trained("0.05, feature", "0.02, feature").0);
        assert_eq!(trained("= 100", "= 50").1, 80.0);
        let refused = |from: &str, to: &str| {
            let text = TUNED.replace(from, to);
            let error = testing::small(&TRAINING, &text, 1).err().unwrap_or_else(|| panic!("refused: {text}"));
            format!("{error:#}")
        };
        assert!(refused("bound = 1.0", "bound = 1.0, bias = false").contains("models with a bias"));
        assert!(refused("grid = \"clip-norm=0.5,0.6\", ", "").contains("trials draw from a grid"));
        assert!(refused("clip-norm=0.5,0.6", "clip-norm=0.5").contains("dp-sgd"), "the cell is named");
        assert!(refused("delta = 1e-5, ", "").contains("delta is missing"));
        let split = SMALL.replace("norm = 3.0", "norm = 3.0, test-split = 0.2");
        let split = format!("{:#}", testing::small(&TRAINING, &split, 1).err().unwrap());
        assert!(split.contains("test-split: its models are judged"), "{split}");
    }

    #[test]
    fn mistakes_are_named() {
        let fails = |from: &str, to: &str| {
            let error = testing::small(&TRAINING, &SMALL.replace(from, to), 1).err().expect("refused");
            format!("{error:#}")
        };
        assert!(fails("dp-srg-memf", "dp-srg-mmf").contains("dp-srg-memf"));
        assert!(fails("batch-size = 50", "batch-size = 0.5").contains("batch-size = 0.5"));
        assert!(fails("show.level = 0.9", "show.levels = 0.9").contains("levels"));
    }
}

//! Gradient queries of private methods to the optimal error on losses that are not smooth, beside Table II and Figure 1 of paper
//! 002.
//!
//! ```text
//! rows a = s·(e_1/R, √(1 − 1/R²)·w), w uniform on the unit sphere, s = ±1;  target y = s, or −s with probability 1/4
//! F(x) = E φ(⟨a, x⟩, y) is least at x* = R·e_1, where every margin is s;    error = C·LR(1/√n + √(d·ln(1/δ))/(nε))
//! ```
//!
//! A run has a budget of `epochs`·n queries, as the theory has it: as many rounds as `rounds-per-ball`·K, K = (R/r)^{2/3}, and
//! batches that share the budget. What a seed needs is the budget from which on its population risk is within the error.

use std::sync::Arc;

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Buffer, Dataset, Features, Labels, Problem};
use rounds_algorithms::theory::parallel::{self, private_error};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::{Loss, Target};
use serde_json::{Value, json};

use crate::estimates::crossing;
use crate::experiment::{Cell, Context, Execution, Measure, Outcome, Run, Selection, Study, settings};
use crate::grouping::by_key;
use crate::lines::number;
use crate::statistics::{Choices, mean, median};

/// The measure. Options: R (`radius`), C of the error (`error-constant`), and rounds over K (`rounds-per-ball`). Runs share their rows.
pub(crate) const PRIVATE_QUERIES: Measure = Measure {
    cells,
    derive,
    ..Measure::new("private-queries", Execution::Concurrent, &["radius", "error-constant", "rounds-per-ball"], run)
};

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    for method in study.definition.all_methods() {
        let algorithm = catalog::find(&method.algorithm)?;
        anyhow::ensure!(
            algorithm.reads("accuracy") && algorithm.private,
            "{}: '{}' is not a private method with a target accuracy",
            study.definition.name,
            algorithm.id
        );
    }
    Ok(study.definition.cells(selection)?)
}

/// The population's F(x) − F* (`excess`) beside the error, with the rounds and queries that a run took.
fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let cell = &run.cell.configuration;
    let option = |name: &str| run.study.option::<f64>(name);
    let (radius, error_constant, rounds_per_ball) =
        (option("radius")?, option("error-constant")?, option("rounds-per-ball")?);
    let loss =
        settings::loss(&cell.parameters)?.with_context(|| format!("{}: the parameter loss is missing", cell.key()))?;
    let number = |name| cell.number(name);
    let [n, d, epsilon, delta] = [number("rows")?, number("dimension")?, number("epsilon")?, number("delta")?];
    let seed = run.study.definition.seed + run.trial.repeat as u64;
    let rows = format!("{loss} {n} {d} {seed}");
    let make = || Ok(Arc::new(planted((n as usize, d as usize), loss, radius, seed)?));
    let problem = run.study.shared(&rows, make)?;
    let mut own = cell.clone();
    let epochs = number("epochs")?;
    let error = error_constant * radius * private_error(n, d, epsilon, delta);
    // The balls of the practical mode have the radius of a linear model's loss, ε/(2L).
    let balls = (2.0 * radius / error).powf(2.0 / 3.0);
    let releases = rounds_per_ball * balls * cell.optional("inner")?.unwrap_or(8.0);
    let batch = (epochs * n / releases).round().max(1.0);
    for (name, value) in [("radius", radius), ("accuracy", error), ("batch-size", batch)] {
        own.parameters.insert(name.to_owned(), value.into());
    }
    let settings = context.settings(&own, seed)?;
    let prepared = match catalog::find(&own.algorithm)?.prepare(&problem, &settings) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(Outcome::Skipped(refusal.to_string())),
    };
    let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
    executor.run().with_context(|| cell.key())?;
    let ledger = executor.ledger();
    Ok(Outcome::of(json!({
        "excess": excess(executor.solution(), loss, radius),
        "error": error,
        "rounds": ledger.rounds,
        "gradient_queries": ledger.gradient_queries,
    })))
}

/// A line for each seed of a setting, with the queries at which its risk comes down to the error: none unless each seed's lies between
/// two budgets. And the rows of Table II, as curves at an n so large that a sum is its larger part.
#[expect(clippy::unnecessary_wraps, reason = "the signature is that of all measures")]
fn derive(_: &Study, mut runs: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let setting = |line: &Value| {
        let mut parameters = line["parameters"].clone();
        parameters.as_object_mut().map(|parameters| parameters.remove("epochs"));
        (line["method"].clone(), parameters)
    };
    for line in &mut runs {
        line["ratio"] = number(line, "excess / error").into();
    }
    let mut needs = Vec::new();
    for ((_, parameters), runs) in by_key(runs.iter().map(|line| (setting(line), line))) {
        let [n, d, epsilon] = ["rows", "dimension", "epsilon"].map(|name| number(&parameters, name));
        let of_seeds = by_key(runs.iter().map(|run| (run["repeat"].as_u64(), *run)));
        let need = |(_, runs): &(Option<u64>, Vec<&Value>)| {
            let points = runs.iter().map(|run| (number(run, "gradient_queries"), number(run, "ratio")));
            let mut points: Vec<_> = points.collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            crossing(&points, 1.0).filter(|(_, is_first)| !is_first).map(|(queries, _)| queries)
        };
        let found: Option<Vec<f64>> = of_seeds.iter().map(need).collect();
        let budgets = by_key(runs.iter().map(|run| (&run["parameters"], number(run, "ratio"))));
        let least = budgets.iter().map(|(_, ratios)| mean(ratios)).fold(f64::INFINITY, f64::min);
        let rounds = median(&runs.iter().map(|run| number(run, "rounds")).collect::<Vec<_>>());
        let [.., (_, theorem)] = parallel::PRIVATE_QUERIES;
        for (seed, (_, runs)) in of_seeds.iter().enumerate() {
            let queries = found.as_ref().map(|found| found[seed]);
            let mut line = runs[0].clone();
            line["record"] = "need".into();
            line["parameters"] = parameters.clone();
            line["queries"] = queries.into();
            line["theorem"] = theorem(n, d, epsilon).into();
            line["rounds"] = rounds.into();
            line["least"] = least.into();
            line["log_dimension"] = d.log(n).into();
            line["log_queries"] = queries.map(|queries| queries.log(n)).into();
            needs.push(line);
        }
    }
    needs.extend(parallel::PRIVATE_QUERIES.map(|(name, queries)| {
        let (n, x) = (1e100_f64, (0..=100).map(|step| f64::from(step) / 50.0));
        let y: Vec<f64> = x.clone().map(|x| queries(n, n.powf(x), 1.0).log(n)).collect();
        json!({ "method": name, "parameters": { "epsilon": 1.0 }, "log_dimension": x.collect::<Vec<_>>(), "log_queries": y })
    }));
    Ok(needs)
}

/// Rows whose population risk has a known minimiser.
fn planted((rows, dimension): (usize, usize), loss: Loss, radius: f64, seed: u64) -> anyhow::Result<Problem> {
    anyhow::ensure!(dimension >= 2 && radius > 1.0, "planted rows need d ≥ 2 and R > 1");
    let mut values = Buffer::zeroed(rows.checked_mul(dimension).context("n·d values cannot be addressed")?);
    let mut choices = Choices::new(seed);
    let mut targets = Vec::with_capacity(rows);
    for row in values.chunks_exact_mut(dimension) {
        let sign = if choices.uniform() < 0.5 { 1.0 } else { -1.0 };
        direction(&mut choices, radius, row);
        row.iter_mut().for_each(|value| *value *= sign);
        targets.push(if choices.uniform() < 0.25 { -sign } else { sign });
    }
    let dataset = Dataset::new("planted-flips", Features::f32(values, dimension), Labels::Values(targets))?;
    let dataset = dataset.clip_features(Norm::L2, 1.0)?;
    Ok(Problem::new(Arc::new(dataset), loss, false, 0.0)?)
}

/// `(1/R, √(1 − 1/R²)·w)`, w uniform on the unit sphere.
fn direction(choices: &mut Choices, radius: f64, row: &mut [f32]) {
    row.fill_with(|| choices.normal() as f32);
    row[0] = 0.0;
    let length = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    let scale = ((1.0 - radius.powi(-2)).sqrt() / length) as f32;
    row.iter_mut().for_each(|value| *value *= scale);
    row[0] = radius.recip() as f32;
}

/// F(x) − F*: exact in the targets, over 4,096 directions that are the same for all models.
fn excess(point: &[f32], loss: Loss, radius: f64) -> f64 {
    const DIRECTIONS: usize = 4_096;
    let (mut choices, mut row) = (Choices::new(0), vec![0.0; point.len()]);
    let risk = |margin: f64| {
        0.75 * loss.value(&[margin], Target::Value(1.0)) + 0.25 * loss.value(&[margin], Target::Value(-1.0))
    };
    let excess = (0..DIRECTIONS).map(|_| {
        direction(&mut choices, radius, &mut row);
        let margin: f64 = row.iter().zip(point).map(|(&a, &x)| f64::from(a) * f64::from(x)).sum();
        risk(margin) - risk(1.0)
    });
    excess.sum::<f64>() / DIRECTIONS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn the_planted_point_is_the_minimiser_of_both_losses() {
        for loss in [Loss::Hinge, Loss::Absolute] {
            let risk = |x: &[f32]| excess(x, loss, 2.0);
            assert!(risk(&[2.0, 0.0, 0.0]).abs() < 1e-6);
            assert!((risk(&[0.0; 3]) - 0.5).abs() < 1e-6);
            for other in [[1.9f32, 0.0, 0.0], [2.1, 0.0, 0.0], [2.0, 0.1, 0.0], [1.99, 0.0, 0.1]] {
                assert!(risk(&other) > 1e-3, "{loss} {other:?}");
            }
        }
    }

    #[test]
    fn more_queries_come_closer_and_other_methods_are_refused() {
        let text = r#"
            repeats = 2
            parameters = { delta = 1e-6, adjacency = "zero-out" }
            options = { radius = 2.0, error-constant = 1.0, rounds-per-ball = 15.0 }
            [[problem]]
            dataset = "planted-flips"
            parameters = { loss = ["hinge", "absolute"], rows = 4000, dimension = 5 }
            method-parameters = { epsilon = 2.0, epochs = [0.05, 4] }
            [[method]]
            algorithm = "resque-private-sco"
        "#;
        let (study, results) = testing::small(&PRIVATE_QUERIES, text, 2).unwrap();
        let measured = study.measured(&results).unwrap();
        let of = |place: usize| {
            mean(&measured[place].1.iter().map(|run| testing::number(run, "excess")).collect::<Vec<_>>())
        };
        assert_eq!(measured.len(), 4);
        for loss in [0, 1] {
            let (few, many) = (of(loss), of(loss + 2));
            assert!(0.0 < many && many < 0.5 * few && few < 1.0, "{few} {many}");
        }
        let mut needs = study.lines(&results).unwrap();
        needs.retain(|line| line["record"] == "need");
        // Of two losses and two seeds.
        assert_eq!(needs.len(), 4);
        assert!(needs.iter().all(|need| need["theorem"].as_f64() > Some(4000.0) && need["least"].as_f64() < Some(2.0)));
        let other = text.replace("resque-private-sco", "phased-sgd");
        let error = testing::small(&PRIVATE_QUERIES, &other, 1).err().expect("refused");
        assert!(error.to_string().contains("phased-sgd"), "{error:#}");
    }
}

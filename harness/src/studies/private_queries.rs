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

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Buffer, Dataset, Features, Labels, Problem};
use rounds_algorithms::theory::parallel::{PRIVATE_QUERIES, private_error};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::{Loss, Target};
use serde::{Deserialize, Serialize};

use super::exponents::fit;
use crate::experiment::cache::Memo;
use crate::experiment::{
    Configuration, Context, Definition, Execution, Experiment, Kind, Measured, Outcome, Presentation, Results, Run,
    Study,
};
use crate::format::{count, three_digits};
use crate::grouping::by_key;
use crate::report::{Axis, Chart, Entry, Figure, Panel, Part, Point, Series, Style, Table};
use crate::settings;
use crate::statistics::{Choices, Estimate, mean, median, of_mean};

/// The study. Runs share their rows.
pub(super) type PrivateQueries = Experiment<Options, Memo<Arc<Problem>>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Options {
    /// R.
    radius: f64,
    /// C of the error.
    error_constant: f64,
    /// Rounds over K.
    rounds_per_ball: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Spent {
    /// F(x) − F*, of the population.
    excess: f64,
    error: f64,
    rounds: u64,
    gradient_queries: u64,
}

/// n, d, ε and δ of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    rows: f64,
    dimension: f64,
    epsilon: f64,
    delta: f64,
}

impl Setting {
    fn of(cell: &Configuration) -> anyhow::Result<Self> {
        Ok(Self {
            rows: cell.number("rows")?,
            dimension: cell.number("dimension")?,
            epsilon: cell.number("epsilon")?,
            delta: cell.number("delta")?,
        })
    }

    fn variables(self) -> Vec<f64> {
        vec![self.rows, self.dimension, 1.0 / self.epsilon]
    }
}

fn loss_of(cell: &Configuration) -> anyhow::Result<Loss> {
    settings::loss(&cell.parameters)?.with_context(|| format!("{}: the parameter loss is missing", cell.key()))
}

impl Study for PrivateQueries {
    const KIND: Kind = Kind::new::<Self>("private-queries", Execution::Concurrent);
    type Options = Options;
    type Outcome = Spent;

    fn check(definition: &Definition<Options>) -> anyhow::Result<()> {
        for method in definition.all_methods() {
            let algorithm = catalog::find(&method.algorithm)?;
            anyhow::ensure!(
                algorithm.reads("accuracy") && algorithm.private,
                "{}: '{}' is not a private method with a target accuracy",
                definition.name,
                algorithm.id
            );
        }
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Spent>, context: &Context<'_>) -> anyhow::Result<Outcome<Spent>> {
        let cell = &run.cell.configuration;
        let (setting, loss, radius) = (Setting::of(cell)?, loss_of(cell)?, self.definition.options().radius);
        let seed = self.definition.seed + run.trial.repeat as u64;
        let rows = format!("{loss} {} {} {seed}", setting.rows, setting.dimension);
        let problem = self.shared.get(&rows, || Ok(Arc::new(planted(setting, loss, radius, seed)?)))?;
        let mut own = cell.clone();
        let epochs = own.parameters.get("epochs").and_then(serde_json::Value::as_f64);
        let epochs = epochs.with_context(|| format!("{}: the parameter epochs is missing", cell.key()))?;
        let error = self.error(setting);
        // The balls of the practical mode have the radius of a linear model's loss, ε/(2L).
        let balls = (2.0 * radius / error).powf(2.0 / 3.0);
        let rounds = self.definition.options().rounds_per_ball * balls;
        let releases = rounds * cell.optional("inner")?.unwrap_or(8.0);
        let batch = (epochs * setting.rows / releases).round().max(1.0);
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
        Ok(Outcome::Measured(Spent {
            excess: excess(executor.solution(), loss, radius),
            error,
            rounds: ledger.rounds,
            gradient_queries: ledger.gradient_queries,
        }))
    }

    fn present(&self, results: &Results<Spent>, _: &Path, _: &Context<'_>) -> anyhow::Result<Presentation> {
        let needs = self.needs(&self.measured(results)?)?;
        let parts = vec![
            Part::Figure(Figure::new("Table II and Figure 1", "Content", vec![figure(&needs)])),
            Part::Table(table(&needs)),
            Part::Table(exponents(&needs)),
        ];
        Ok(Presentation::of_parts(("Private queries", "Papers", &self.definition.about), parts))
    }
}

/// The budgets that a method needs in one setting.
struct Need {
    method: String,
    setting: Setting,
    error: f64,
    /// Queries of each seed; none where the smallest budget was enough or the largest was not.
    queries: Vec<Option<f64>>,
    /// Rounds of a run, and the mean risk over the error with the largest budget.
    rounds: f64,
    best: f64,
}

impl Need {
    /// The logarithm's mean over the seeds and its interval, as numbers; none unless every seed's need was found.
    fn mean(&self) -> Option<Estimate> {
        let logarithms: Option<Vec<f64>> = self.queries.iter().map(|queries| Some(queries.as_ref()?.ln())).collect();
        let Estimate { value, low, high } = of_mean(&logarithms?, 0.95);
        Some(Estimate { value: value.exp(), low: low.exp(), high: high.exp() })
    }
}

impl PrivateQueries {
    fn error(&self, setting: Setting) -> f64 {
        let Options { radius, error_constant, .. } = *self.definition.options();
        let Setting { rows, dimension, epsilon, delta } = setting;
        error_constant * radius * private_error(rows, dimension, epsilon, delta)
    }

    /// The measured cells without their budgets, in the order of the definition.
    fn needs(&self, measured: &[Measured<'_, Spent>]) -> anyhow::Result<Vec<Need>> {
        let cells = measured.iter().map(|of_cell| {
            let mut common = of_cell.0.configuration.clone();
            common.parameters.remove("epochs");
            (common, of_cell)
        });
        let need = |(common, group): (Configuration, Vec<&Measured<'_, Spent>>)| {
            let of_seed = |repeat: usize| {
                let runs = group.iter().filter_map(|(_, runs)| runs.iter().find(|run| run.trial.repeat == repeat));
                let mut points: Vec<_> =
                    runs.map(|run| (run.gradient_queries as f64, run.excess / run.error)).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                needed(&points)
            };
            let all = || group.iter().flat_map(|(_, runs)| runs);
            let ratios =
                group.iter().map(|(_, runs)| mean(&runs.iter().map(|run| run.excess / run.error).collect::<Vec<_>>()));
            let setting = Setting::of(&common)?;
            Ok(Need {
                method: format!("{}, {}", common.label_of_method(), loss_of(&common)?),
                setting,
                error: self.error(setting),
                queries: (0..group[0].0.repeats).map(of_seed).collect(),
                rounds: median(&all().map(|run| run.rounds as f64).collect::<Vec<_>>()),
                best: ratios.fold(f64::INFINITY, f64::min),
            })
        };
        by_key(cells).into_iter().map(need).collect()
    }
}

/// The queries at which `points` (queries, risk over the error), ascending, first come down to 1, on a line in logarithms
/// from the last budget that did not. None at either end of the budgets: the need is not known there.
fn needed(points: &[(f64, f64)]) -> Option<f64> {
    let first = points.iter().position(|(_, ratio)| *ratio <= 1.0)?;
    let [(before, above), (after, below)] = [points[first.checked_sub(1)?], points[first]];
    let below = below.max(f64::MIN_POSITIVE);
    let share = above.ln() / (above.ln() - below.ln());
    Some((before.ln() + share * (after.ln() - before.ln())).exp())
}

/// Rows whose population risk has a known minimiser.
fn planted(setting: Setting, loss: Loss, radius: f64, seed: u64) -> anyhow::Result<Problem> {
    let (rows, dimension) = (setting.rows as usize, setting.dimension as usize);
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

/// The methods with their losses, each once.
fn methods(needs: &[Need]) -> BTreeSet<&str> {
    needs.iter().map(|need| &*need.method).collect()
}

/// Figure 1: exponents of n against those of the dimension, of the cells whose ε is 1.
fn figure(needs: &[Need]) -> Panel {
    let mut series = Vec::new();
    for (place, (name, queries)) in PRIVATE_QUERIES.into_iter().enumerate() {
        // The slopes at an n so large that a sum is its larger part.
        let at = |step: i32| {
            let (x, n) = (f64::from(step) / 50.0, 1e100_f64);
            Point::new(x, queries(n, n.powf(x), 1.0).log(n), name)
        };
        series.push(Series::new(name, Style::Curve, place, (0..=100).map(at).collect()));
    }
    for (place, method) in methods(needs).into_iter().enumerate() {
        let point = |need: &Need| {
            let (Estimate { value, low, high }, n) = (need.mean()?, need.setting.rows);
            let note = format!("{method}, n = {n}, d = {}: {}", need.setting.dimension, count(value));
            let point = Point::new(need.setting.dimension.log(n), value.log(n), note);
            Some(point.interval(low.log(n), high.log(n)))
        };
        let own = needs.iter().filter(|need| need.method == method && need.setting.epsilon == 1.0);
        let points = own.filter_map(point).collect();
        series.push(Series::new(method, Style::Points, PRIVATE_QUERIES.len() + place, points));
    }
    let chart = Chart::new(
        "Gradient queries to the optimal private error",
        "lines: Table II at ε = 1 without constants and logarithms; points: measured at ε = 1, with 95 % intervals over seeds",
        Axis::linear("log_n d"),
        Axis::linear("log_n of the gradient queries"),
        series,
    );
    Panel::chart("Figure 1", "private-queries", chart)
}

fn table(needs: &[Need]) -> Table {
    let columns =
        "method|#n|#d|#ε|#error|#queries|#95 % over seeds|#over n|#Theorem 4|#rounds|#least risk over the error";
    let mut table = Table::new("Queries to the optimal error", columns);
    for need in needs {
        let Setting { rows, dimension, epsilon, .. } = need.setting;
        let (found, [.., (_, theorem)]) = (need.mean(), PRIVATE_QUERIES);
        let outside = || Entry::text("outside of the budgets");
        table.row([
            Entry::text(&need.method),
            Entry::number(rows, count),
            Entry::number(dimension, count),
            Entry::number(epsilon, three_digits),
            Entry::number(need.error, three_digits),
            found.map_or_else(outside, |found| Entry::number(found.value, count)),
            found.map_or_else(Entry::default, |found| {
                Entry::sorted(format!("[{}, {}]", count(found.low), count(found.high)), found.low)
            }),
            Entry::number(found.map(|found| found.value / rows), three_digits),
            Entry::number(theorem(rows, dimension, epsilon), count),
            Entry::number(need.rounds, count),
            Entry::number(need.best, three_digits),
        ]);
    }
    table
}

/// Exponents of the needed queries in n, d and 1/ε, and those of Theorem 4's formula in the same cells.
fn exponents(needs: &[Need]) -> Table {
    let mut table = Table::new("Exponents of the queries", "method|in|#Theorem 4|#measured|#95 % over seeds|#cells");
    let two = |value: f64| format!("{value:.2}");
    for method in methods(needs) {
        let own = || needs.iter().filter(move |need| need.method == method && need.mean().is_some());
        let fitted = |value: &dyn Fn(&Need) -> f64| {
            let rows: Vec<_> = own().map(|need| (need.setting.variables(), value(need))).collect();
            fit(&rows).unwrap_or_default()
        };
        let [.., (_, theorem)] = PRIVATE_QUERIES;
        let theory = fitted(&|need| theorem(need.setting.rows, need.setting.dimension, need.setting.epsilon));
        let seeds = own().map(|need| need.queries.len()).min().unwrap_or(0);
        let of_seeds: Vec<_> = (0..seeds).map(|seed| fitted(&|need| need.queries[seed].unwrap_or(f64::NAN))).collect();
        for (index, (theory, name)) in theory.iter().zip(["n", "d", "1/ε"]).enumerate() {
            let values = of_seeds.iter().filter_map(|fits| Some(fits.get(index)?.value));
            let measured = of_mean(&values.collect::<Vec<_>>(), 0.95);
            table.row([
                Entry::text(method),
                Entry::text(name),
                Entry::number(theory.value, two),
                Entry::number(measured.value, two),
                measured
                    .ends()
                    .map_or_else(Entry::default, |(low, high)| Entry::sorted(format!("[{low:.2}, {high:.2}]"), low)),
                Entry::count(own().count()),
            ]);
        }
    }
    table
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
    fn the_need_lies_between_the_budgets_around_the_error() {
        let points = [(10.0, 4.0), (100.0, 2.0), (1_000.0, 0.5), (10_000.0, 0.1)];
        let middle = needed(&points).unwrap();
        assert!((middle / (100.0 * 10.0f64.sqrt()) - 1.0).abs() < 1e-9, "{middle}");
        // Neither the first budget nor more than the last one is a measurement.
        assert_eq!((needed(&points[2..]), needed(&points[..2])), (None, None));
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
        let (study, results) = testing::small::<PrivateQueries>(text, 2).unwrap();
        let measured = study.measured(&results).unwrap();
        let of = |place: usize| mean(&measured[place].1.iter().map(|run| run.excess).collect::<Vec<_>>());
        assert_eq!(measured.len(), 4);
        for loss in [0, 1] {
            let (few, many) = (of(loss), of(loss + 2));
            assert!(0.0 < many && many < 0.5 * few && few < 1.0, "{few} {many}");
        }
        let mut needs = study.needs(&measured).unwrap();
        assert_eq!(needs.len(), 2);
        needs.extend(study.needs(&measured).unwrap());
        assert_eq!(methods(&needs).len(), 2, "of alternating methods each once");
        let other = text.replace("resque-private-sco", "phased-sgd");
        let error = testing::small::<PrivateQueries>(&other, 1).err().expect("refused");
        assert!(error.to_string().contains("phased-sgd"), "{error:#}");
    }
}

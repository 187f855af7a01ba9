//! Rates of private methods in the number of rows, on populations where the worst case binds and on the rows of data sets: exact excess
//! population risk, and the smallest number of rounds that keeps it near the optimum.
//!
//! A cell is a method with T rounds on n rows. Its outcome is the mean excess over draws of the data, at the step size with the
//! least worst-case mean, and at the slope of the family with the largest. Both are found by climbing grids of powers of 2 until
//! the neighbours on both sides are worse.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::Settings;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::Problem;
use rounds_algorithms::problem::population::Population;
use rounds_algorithms::theory::parallel::private_error;
use rounds_kernels::random::StreamKey;
use rounds_models::data;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::estimates::{Estimated, Risks, smallest};
use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study, definition};
use crate::format::number;
use crate::grouping::{by_key, distinct};
use crate::statistics::mean;
use crate::studies::logistic::minimizer_in_ball;

/// The measure. A problem is a population: a slope, a slope with a stiff coordinate, valleys, or the rows of a data set, of which n are drawn
/// with replacement. These are shared, with their minimisers. Options: `draws` of data and noise of a cell, and the factor of the optimum
/// `within` which the risk of the smallest T is.
pub(crate) const RATES: Measure = Measure {
    threads: |_| vec![1],
    cells,
    derive,
    ..Measure::new("rates", Execution::Concurrent, &["draws", "within"], run)
};

const SLOPE: &str = "slope";
const STIFF_SLOPE: &str = "stiff-slope";
const VALLEYS: &str = "valleys";
const DESIGNED: [&str; 3] = [SLOPE, STIFF_SLOPE, VALLEYS];

/// Parameter: T of a cell; the batch size follows.
const ROUNDS: &str = "rounds";
/// Parameter: `law`, or `memory` for rows that are drawn and kept.
const ROWS_IN: &str = "rows-in";

/// The largest exponents of 2 of steps and slopes.
const MOST: i32 = 30;
/// A relative change of the risk that is none, so that climbing ends on a plateau, as that of steps beyond the ball.
const FLAT: f64 = 1e-3;

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    let definition = &study.definition;
    anyhow::ensure!(study.option::<usize>("draws")? >= 2, "{}: at least 2 draws are needed", definition.name);
    anyhow::ensure!(study.option::<f64>("within")? > 1.0, "{}: options.within is a factor above 1", definition.name);
    for problem in &definition.problems {
        let named = data::NAMES.iter().map(|name| name.name);
        definition::known("problem", &problem.dataset, &DESIGNED.into_iter().chain(named).collect::<Vec<_>>())?;
        let axis = problem.axis.as_deref().unwrap_or_default();
        definition::known("axis", axis, &["rows", "dimension", "epsilon"])?;
    }
    Ok(definition.cells(selection)?)
}

/// The best of a method with T rounds.
fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let (cell, seed) = (&run.cell.configuration, run.study.definition.seed);
    let real = real(run, context)?;
    let trials = Trials { real, ..Trials::new(cell, seed, run.study.option("draws")?)? };
    let mut own = cell.clone();
    for name in [ROUNDS, ROWS_IN, "rows", "dimension"] {
        own.parameters.remove(name);
    }
    own.batch_size = trials.rows.div_ceil(cell.number(ROUNDS)? as usize);
    let mut settings = context.settings(&own, seed)?;
    let algorithm = catalog::find(&own.algorithm)?;
    settings.offer(algorithm, "sampling", "fixed");
    let population = trials.population(trials.steepest()?, 0).context("no population")?;
    if let Err(refusal) = algorithm.prepare(&trials.problem(&population, 0), &settings) {
        return Ok(Outcome::Skipped(refusal.to_string()));
    }
    let mut least = f64::INFINITY;
    let mut slope = trials.steepest()?;
    let climbed = climbed(&[1, -5], &[2, 1], f64::NEG_INFINITY, &Tried::mean, &mut |step| {
        let worst = trials.worst(&settings, step, slope, least)?;
        slope = worst.best;
        let tried = worst.tried.get(&slope).context("the worst slope was tried")?;
        least = least.min(tried.mean());
        let at_edge = worst.at_edge;
        Ok(Some(Tried { slope, at_edge, ..tried.clone() }))
    })?;
    let best = climbed.tried.get(&climbed.best).context("the best step was tried")?;
    // Steps by their exponent of 2, each with its mean at its worst slope, or at a slope that is worse than that of a better step.
    let tried = climbed.tried.iter().map(|(&step, tried)| (step, digits(tried.mean(), 3)));
    let mut values = json!({
        // As the oracle counted them.
        "adaptive_rounds": best.rounds,
        // With the least risk, 1/β for methods that have β.
        "step": f64::from(climbed.best).exp2(),
        // A grid ended before both neighbours of the optimum were measured.
        "at_edge": climbed.at_edge || best.at_edge,
        "clipped": digits(best.clipped, 3),
        "excess": best.excess.iter().map(|&value| digits(value, 4)).collect::<Vec<f64>>(),
        "tried": tried.collect::<Vec<(i32, f64)>>(),
    });
    if trials.has_slopes() {
        values["slope"] = f64::from(best.slope).exp2().into();
    }
    Ok(Outcome::of(values))
}

/// The population of a data set's rows, with its minimiser over the ball of the methods; none for a designed one.
fn real(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Option<Arc<Population>>> {
    let cell = &run.cell.configuration;
    if DESIGNED.contains(&&*cell.dataset) {
        return Ok(None);
    }
    let (own, radius) = (cell.on_problem(), cell.number("radius")?);
    let make = || {
        let loaded = context.problem(&own, 0, &Engine::Sequential)?;
        let columns = loaded.train.parameters();
        anyhow::ensure!(cell.whole("dimension")? == Some(columns), "{}: dimension is {columns}", cell.dataset);
        let optimum = minimizer_in_ball(&loaded.train, radius)?;
        Ok(Arc::new(Population::of_rows(&loaded.train, optimum)))
    };
    run.study.shared(&format!("{} {:?} {radius}", own.dataset, own.parameters), make).map(Some)
}

/// A line for each draw of a cell, with the risk of that draw and what its place on the axis shows.
fn derive(study: &Study, lines: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let within = study.option("within")?;
    let mut all = Vec::new();
    let family = |line: &Value| (line["problem"].clone(), line["axis_name"].clone());
    for (_, family) in by_key(lines.into_iter().map(|line| (family(&line), line))) {
        let mut places = by_key(family.iter().filter_map(|line| Some((line["axis"].as_f64()?, line))));
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let places: Vec<Place<'_>> = places.into_iter().map(|(_, lines)| Place::of(&lines, within)).collect();
        // The optimal rate without its constant is drawn through the last optimum.
        let scale = places.last().map_or(1.0, |last| last.optimum / last.optimal_rate);
        all.extend(places.iter().flat_map(|place| place.lines(scale)));
    }
    Ok(all)
}

/// The cells at one place of an axis.
struct Place<'r> {
    /// Lines with their risks by draw.
    cells: Vec<(&'r Value, f64, Vec<f64>)>,
    within: f64,
    /// The least mean risk of any method and T.
    optimum: f64,
    /// 1/√n + √(d·ln(1/δ))/(εn).
    optimal_rate: f64,
}

impl<'r> Place<'r> {
    fn of(lines: &[&'r Value], within: f64) -> Self {
        let parameter = |name: &str| lines[0]["parameters"][name].as_f64().unwrap_or(f64::NAN);
        let optimal_rate =
            private_error(parameter("rows"), parameter("dimension"), parameter("epsilon"), parameter("delta"));
        let cells = lines.iter().map(|&line| {
            let risks = line["excess"].as_array().into_iter().flatten().filter_map(Value::as_f64);
            (line, line["adaptive_rounds"].as_f64().unwrap_or(f64::NAN), risks.collect())
        });
        let cells: Vec<(_, _, Vec<f64>)> = cells.collect();
        let optimum = cells.iter().map(|(.., risks)| mean(risks)).fold(f64::INFINITY, f64::min);
        Self { cells, within, optimum, optimal_rate }
    }

    /// The fewest rounds of a method within the factor of the optimum, with its 95 % interval over the draws by the jackknife; true where no
    /// fewer were measured.
    fn smallest(&self, method: &Value) -> Option<(Estimated, bool)> {
        let all: Vec<Risks<'_>> = self.cells.iter().map(|(_, rounds, risks)| (*rounds, &**risks)).collect();
        let own = self.cells.iter().zip(&all).filter(|((line, ..), _)| line["method"] == *method);
        let own: Vec<Risks<'_>> = own.map(|(_, risks)| *risks).collect();
        smallest(&own, &all, self.within)
    }

    fn lines(&self, scale: f64) -> Vec<Value> {
        let methods = distinct(self.cells.iter().map(|(line, ..)| &line["method"]));
        let smallest: Vec<_> = methods.into_iter().map(|method| (method, self.smallest(method))).collect();
        let mut lines = Vec::new();
        for (cell, _, risks) in &self.cells {
            let own = smallest.iter().find(|(method, _)| **method == cell["method"]);
            for (draw, excess) in risks.iter().enumerate() {
                let mut line = Value::clone(cell);
                line["draw"] = draw.into();
                line["excess"] = (*excess).into();
                line["risks"] = cell["excess"].clone();
                line["level"] = (self.within * self.optimum).into();
                line["end"] = if cell["at_edge"] == true { "yes" } else { "" }.into();
                line["optimal_rate"] = (scale * self.optimal_rate).into();
                line["smallest_shown"] = match own {
                    Some((_, Some((rounds, true)))) => format!("≤ {}", number(rounds.value)),
                    Some((_, Some((rounds, false)))) => {
                        let (value, half) = (rounds.value, rounds.half(0.95));
                        line["smallest"] = value.into();
                        line["smallest_low"] = (value - half).into();
                        line["smallest_high"] = (value + half).into();
                        format!("{} ({} – {})", number(value), number(value - half), number(value + half))
                    }
                    _ => "not reached".to_owned(),
                }
                .into();
                lines.push(line);
            }
        }
        lines
    }
}

/// The runs of a cell: populations, and draws of data and noise.
struct Trials<'a> {
    cell: &'a Configuration,
    rows: usize,
    dimension: usize,
    in_memory: bool,
    /// Names the cell in keys, alike for all methods.
    name: String,
    draws: usize,
    /// The rows of a data set.
    real: Option<Arc<Population>>,
}

/// Runs with one step size on one population.
#[derive(Clone, Default)]
struct Tried {
    slope: i32,
    at_edge: bool,
    rounds: u64,
    clipped: f64,
    excess: Vec<f64>,
}

impl Tried {
    fn mean(&self) -> f64 {
        mean(&self.excess)
    }
}

impl<'a> Trials<'a> {
    fn new(cell: &'a Configuration, seed: u64, draws: usize) -> anyhow::Result<Self> {
        let whole = |name| cell.whole(name)?.with_context(|| format!("{}: {name} is missing", cell.key()));
        let (rows, dimension, rounds) = (whole("rows")?, whole("dimension")?, whole(ROUNDS)?);
        let rows_in = cell.text(ROWS_IN).unwrap_or_else(|| "law".to_owned());
        definition::known(ROWS_IN, &rows_in, &["law", "memory"])?;
        Ok(Self {
            cell,
            rows,
            dimension,
            in_memory: rows_in == "memory",
            name: format!("{seed}/{}/{rows}/{dimension}/{rounds}/{rows_in}", cell.dataset),
            draws,
            real: None,
        })
    }

    fn has_slopes(&self) -> bool {
        [SLOPE, STIFF_SLOPE].contains(&&*self.cell.dataset)
    }

    fn seed(&self, draw: usize) -> u64 {
        let hash = Sha256::digest(format!("{}/{draw}", self.name).as_bytes());
        u64::from_le_bytes(std::array::from_fn(|index| hash[index]))
    }

    /// The population of slope 2^`slope`, if there is one.
    fn population(&self, slope: i32, draw: usize) -> Option<Arc<Population>> {
        let seed = self.seed(draw);
        if self.has_slopes() {
            let is_stiff = self.cell.dataset == STIFF_SLOPE;
            return Population::slope(self.dimension, f64::from(slope).exp2(), is_stiff, seed).map(Arc::new);
        }
        let only = || self.real.clone().unwrap_or_else(|| Arc::new(Population::valleys(self.dimension, seed)));
        (slope == 0).then(only)
    }

    /// The exponent of the steepest slope that there is; 0 for other populations.
    fn steepest(&self) -> anyhow::Result<i32> {
        let candidates = if self.has_slopes() { -MOST..=0 } else { 0..=0 };
        let steepest = candidates.rev().find(|&slope| self.population(slope, 0).is_some());
        steepest.with_context(|| format!("{}: no slope is small enough", self.cell.key()))
    }

    fn problem(&self, population: &Population, draw: usize) -> Problem {
        let key = StreamKey::Simulation(self.seed(draw));
        if self.in_memory { population.materialized(self.rows, key) } else { population.drawn(self.rows, key) }
    }

    /// The slope with the largest mean excess of runs with step 2^`step`, or `first` or one of the next that is above `enough`: every
    /// fourth part of the steepest one down to 1/√n, and then the neighbours of the worst.
    fn worst(&self, settings: &Settings, step: i32, first: i32, enough: f64) -> anyhow::Result<Climbed<Tried>> {
        let mut slopes = vec![first];
        let mut strides: &[i32] = &[];
        if self.has_slopes() {
            let least = -(0.5 * (self.rows as f64).log2()).round() as i32;
            slopes.extend((least..=self.steepest()?).step_by(2));
            strides = &[1];
        }
        let cost = |tried: &Tried| -tried.mean();
        climbed(&slopes, strides, -enough, &cost, &mut |slope| self.run(settings, step, slope))
    }

    /// All draws with step 2^`step` on the population of slope 2^`slope`.
    fn run(&self, settings: &Settings, step: i32, slope: i32) -> anyhow::Result<Option<Tried>> {
        let algorithm = catalog::find(&self.cell.algorithm)?;
        let step = f64::from(step).exp2();
        let (name, value) = if algorithm.reads("beta") { ("beta", 1.0 / step) } else { ("learning-rate", step) };
        let mut settings = settings.clone().with(name, value);
        let mut tried = Tried { slope, ..Tried::default() };
        for draw in 0..self.draws {
            let Some(population) = self.population(slope, draw) else {
                return Ok(None);
            };
            let problem = self.problem(&population, draw);
            settings.key = StreamKey::Simulation(self.seed(draw));
            let prepared = algorithm.prepare(&problem, &settings)?;
            let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
            executor.run()?;
            let ledger = executor.ledger();
            tried.rounds = ledger.rounds;
            tried.clipped += ledger.clipped as f64 / ledger.clippable as f64 / self.draws as f64;
            tried.excess.push(population.excess_risk(executor.solution()));
        }
        Ok(Some(tried))
    }
}

/// A minimum on a grid of whole numbers.
struct Climbed<T> {
    best: i32,
    /// The grid ended before both neighbours of the best were tried.
    at_edge: bool,
    tried: BTreeMap<i32, T>,
}

/// Goes from the best of `starts` in the direction of less cost, in strides of each length in turn, until no neighbour costs
/// noticeably less, or until a cost is below `enough`. `try_at` gives nothing beyond the end of the grid.
fn climbed<T>(
    starts: &[i32],
    strides: &[i32],
    enough: f64,
    cost: &dyn Fn(&T) -> f64,
    try_at: &mut dyn FnMut(i32) -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Climbed<T>> {
    let mut tried = BTreeMap::new();
    let mut measure = |place: i32, tried: &mut BTreeMap<i32, T>| -> anyhow::Result<Option<f64>> {
        if place.abs() <= MOST && !tried.contains_key(&place) {
            tried.extend(try_at(place)?.map(|outcome| (place, outcome)));
        }
        Ok(tried.get(&place).map(cost))
    };
    let (mut best, mut least, mut at_edge) = (0, f64::INFINITY, false);
    for &start in starts {
        let cost = measure(start, &mut tried)?.context("a start lies beyond the grid")?;
        if cost < least {
            (best, least) = (start, cost);
        }
        if least < enough {
            return Ok(Climbed { best, at_edge, tried });
        }
    }
    for &stride in strides {
        let mut from = None;
        while from != Some(best) {
            from = Some(best);
            at_edge = false;
            for place in [best - stride, best + stride] {
                let Some(cost) = measure(place, &mut tried)? else {
                    at_edge = true;
                    continue;
                };
                if cost < least - FLAT * least.abs() {
                    (best, least) = (place, cost);
                }
            }
        }
    }
    Ok(Climbed { best, at_edge, tried })
}

/// `value` with as many digits.
fn digits(value: f64, count: usize) -> f64 {
    format!("{value:.*e}", count - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{self, number, numbers};
    use crate::statistics::deviation;

    const SMALL: &str = r#"
        parameters = { epsilon = 1.0, delta = 1e-6, adjacency = "zero-out", clip-norm = 1.0, radius = 1.0 }
        options = { draws = 4, within = 1.5 }
        [[method]]
        algorithm = "accelerated-dp-srg"
        parameters = { noise = "honaker-online" }
        [[method]]
        algorithm = "dp-sgd"
        parameters = { epochs = 1, momentum = 0.0 }
        [[method]]
        algorithm = "phased-sgd"
        [[problem]]
        label = "Slope"
        dataset = "slope"
        axis = "rows"
        parameters = { rows = [100, 400, 1600, 6400], dimension = 4 }
        method-parameters = { rounds = [2, 4] }
        [[problem]]
        label = "Valleys"
        dataset = "valleys"
        axis = "epsilon"
        parameters = { rows = 400, dimension = 16 }
        method-parameters = { rounds = 8, epsilon = [0.5, 1.0] }
    "#;

    #[test]
    fn climbing_ends_at_the_minimum_and_tells_the_end_of_the_grid() {
        let found = |first: i32, least: i32, beyond: i32| {
            let mut try_at = |place: i32| Ok((place <= beyond).then(|| (f64::from(place) - f64::from(least)).abs()));
            let found = climbed(&[first], &[2, 1], f64::NEG_INFINITY, &|cost: &f64| *cost, &mut try_at).unwrap();
            (found.best, found.at_edge)
        };
        for (first, least) in [(0, 0), (0, 7), (3, -8), (-5, 6)] {
            assert_eq!(found(first, least, 20), (least, false));
        }
        assert_eq!(found(0, 9, 5), (5, true));
        assert_eq!(found(0, 40, 40), (MOST, true));
        let mut flat_from_3 = |place: i32| Ok(Some(1.0 + f64::from((3 - place).max(0)) - 1e-6 * f64::from(place)));
        let plateau = climbed(&[0], &[2, 1], f64::NEG_INFINITY, &|cost: &f64| *cost, &mut flat_from_3).unwrap();
        assert!(plateau.best <= 4 && !plateau.at_edge, "{}", plateau.best);
    }

    #[test]
    fn cells_count_their_rounds_and_no_risk_is_below_the_optimum() {
        let (study, results) = testing::small(&RATES, SMALL, 1).unwrap();
        assert_eq!(results.samples.len(), 3 * 10);
        let lines = study.lines(&results).unwrap();
        assert_eq!(lines.len(), 3 * 10 * 4);
        // The optimal rate goes through the optimum of the last place, and the level is 1.5 times as high.
        let last = |line: &&Value| line["problem"] == "Valleys" && line["axis"] == 1.0;
        let of_cells =
            by_key(lines.iter().filter(last).map(|line| (&line["method"], line["excess"].as_f64().unwrap())));
        let optimum = of_cells.iter().map(|(_, excess)| mean(excess)).fold(f64::INFINITY, f64::min);
        for line in lines.iter().filter(last) {
            assert!((line["optimal_rate"].as_f64().unwrap() / optimum - 1.0).abs() < 1e-9, "{line}");
            assert!((line["level"].as_f64().unwrap() / optimum - 1.5).abs() < 1e-9, "{line}");
            let shown = line["smallest_shown"].as_str().unwrap();
            assert!(shown.starts_with("≤ ") || shown == "not reached", "one T alone: {shown}");
        }
        for sample in &results.samples {
            let asked = sample.configuration.number(ROUNDS).unwrap();
            let phased = sample.configuration.algorithm == "phased-sgd";
            assert!(phased || number(sample, "adaptive_rounds") == asked, "{}", sample.configuration.key());
            let excess = numbers(sample, "excess");
            assert_eq!(excess.len(), 4);
            assert!(sample["at_edge"] == false || sample.contains_key("slope"));
            assert!(excess.iter().all(|&excess| excess > -1e-7));
            assert_eq!(sample.contains_key("slope"), sample.configuration.dataset == SLOPE);
        }
        let risk = |rows: f64| {
            let own = |sample: &&crate::experiment::Sample| {
                let cell = &sample.configuration;
                cell.dataset == SLOPE && cell.algorithm == "dp-sgd" && cell.number("rows").unwrap() == rows
            };
            results
                .samples
                .iter()
                .filter(own)
                .map(|sample| mean(&numbers(sample, "excess")))
                .fold(f64::INFINITY, f64::min)
        };
        assert!(risk(6_400.0) < 0.4 * risk(100.0), "{} {}", risk(6_400.0), risk(100.0));
    }

    #[test]
    fn rows_by_their_law_give_the_risks_of_rows_in_memory() {
        const DRAWS: usize = 120;
        let study = testing::parse(&RATES, &testing::headed(SMALL)).unwrap();
        let mut compared = 0;
        for cell in study.cells(&testing::selection(1)).unwrap() {
            let mut cell = cell.configuration;
            if cell.number(ROUNDS).unwrap() < 4.0 || cell.number("rows").unwrap() != 400.0 {
                continue;
            }
            cell.parameters.insert("rows".to_owned(), 10_000.into());
            let mut own = cell.clone();
            own.parameters.remove(ROUNDS);
            own.batch_size = 10_000 / cell.number(ROUNDS).unwrap() as usize;
            // Little noise, so that the rows are what varies.
            own.parameters.insert("epsilon".to_owned(), 50.0.into());
            let mut settings = testing::context(1).settings(&own, 1).unwrap();
            settings.offer(catalog::find(&own.algorithm).unwrap(), "sampling", "fixed");
            let excess = ["law", "memory"].map(|rows_in| {
                let mut cell = cell.clone();
                cell.parameters.insert(ROWS_IN.to_owned(), rows_in.into());
                let trials = Trials::new(&cell, 7, DRAWS).unwrap();
                let slope = if trials.has_slopes() { -5 } else { 0 };
                trials.run(&settings, 2, slope).unwrap().unwrap().excess
            });
            assert_ne!(excess[0], excess[1]);
            let ([one, other], [a, b]) =
                (excess.each_ref().map(|excess| mean(excess)), excess.each_ref().map(|excess| deviation(excess)));
            let error = ((a * a + b * b) / DRAWS as f64).sqrt();
            assert!((one - other).abs() < 4.5 * error, "{}: {one} {other}", cell.key());
            // Four standard errors of the logarithm of a ratio of deviations, generous for tails of a χ² law.
            assert!((a / b).ln().abs() < 4.0 * (2.0 / DRAWS as f64).sqrt(), "{}: {a} {b}", cell.key());
            compared += 1;
        }
        assert_eq!(compared, 9);
    }
}

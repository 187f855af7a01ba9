//! Exponents of what single studies ask for: the fewest rounds and least risks of the rate study, counts of query depth, and the
//! queries that a private method needs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use rounds_algorithms::theory::parallel::PRIVATE_QUERIES;

use super::records::{Fields, Records, Run};
use crate::estimates::{Estimated, Risks, crossing, exponent, fewest_rounds, mean_without};
use crate::statistics::{jackknife, mean, median};

/// An exponent, the number of its points, and the formula's exponent in the same cells where one is given; or a number of rounds, and
/// true where no fewer were measured.
pub(crate) struct Derived {
    pub(crate) found: Estimated,
    pub(crate) points: usize,
    pub(crate) theory: Option<f64>,
    pub(crate) is_end: bool,
}

fn some(rows: &[(Vec<f64>, f64)], at: usize, seeds: &[f64], is_jackknife: bool) -> Option<Derived> {
    let found = exponent(rows, at, seeds, is_jackknife)?;
    Some(Derived { found, points: rows.len(), theory: None, is_end: false })
}

fn fitted(rows: &[(Vec<f64>, f64)], at: usize) -> Option<f64> {
    Some(exponent(rows, at, &[], false)?.value)
}

/// The field of a query without one, such as that of the fewest rounds at one place.
const ONE_PLACE: &str = "value";

/// A cell of the rate study.
struct Cell {
    is_own: bool,
    rounds: f64,
    at_edge: bool,
    /// The risk by draw.
    excess: Vec<f64>,
}

/// The cells of `study` by their place on `axis`.
fn cells(records: &mut Records, study: &str, fields: &Fields, axis: &str) -> anyhow::Result<BTreeMap<u64, Vec<Cell>>> {
    let mut all = fields.clone();
    let method = all.remove("algorithm").context("an algorithm is missing")?;
    let mut places: BTreeMap<u64, Vec<Cell>> = BTreeMap::new();
    for run in records.select(study, &all)? {
        let place = if axis == ONE_PLACE { 0.0 } else { run.number(axis)? };
        places.entry(place.to_bits()).or_default().push(Cell {
            is_own: run.is("algorithm", &method),
            rounds: run.number("adaptive_rounds")?,
            at_edge: run.is("at_edge", &true.into()),
            excess: run.sample("excess")?.into_values().collect(),
        });
    }
    Ok(places)
}

/// The least risk of a method over the numbers of rounds that were measured, and true at an end of these, of the steps or of the slopes.
fn least_risk(cells: &[Cell], left_out: Option<usize>) -> Option<(f64, bool)> {
    let own = || cells.iter().filter(|cell| cell.is_own);
    let risks = own().map(|cell| (mean_without(&cell.excess, left_out), cell));
    let (risk, best) = risks.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let [fewer, more] =
        [Ordering::Less, Ordering::Greater].map(|side| own().any(|cell| cell.rounds.total_cmp(&best.rounds) == side));
    Some((risk, best.at_edge || fewer != more))
}

/// The exponent of the fewest rounds `within` a factor of the least risk, or without one of the least risk, in `axis`, over the places of a
/// study of rates, or the fewest rounds at [`ONE_PLACE`]; their draws by the jackknife. Places whose value lies at an end of a grid enter no
/// exponent. With `less` it is that of the least risk less the one of the runs with these fields, at the same place or their only one,
/// wherever in its grid that lies.
pub(crate) fn of_rates(
    records: &mut Records,
    study: &str,
    fields: &Fields,
    less: Option<&Fields>,
    axis: &str,
    within: Option<f64>,
) -> anyhow::Result<Option<Derived>> {
    let places = cells(records, study, fields, axis)?;
    let less = less.map(|less| cells(records, study, less, axis)).transpose()?;
    let draws = places.values().flatten().map(|cell| cell.excess.len()).min().unwrap_or(0);
    // The number of a place, and true at an end of a grid.
    let number = |place: &u64, cells: &[Cell], left_out: Option<usize>| {
        let Some(within) = within else {
            let (risk, at_end) = least_risk(cells, left_out)?;
            let Some(less) = &less else { return Some((risk, at_end)) };
            let other = less.get(place).or_else(|| less.values().next().filter(|_| less.len() == 1))?;
            return Some((risk - least_risk(other, left_out)?.0, at_end)).filter(|(rest, _)| *rest > 0.0);
        };
        let all: Vec<Risks<'_>> = cells.iter().map(|cell| (cell.rounds, &*cell.excess)).collect();
        let own = cells.iter().zip(&all).filter(|(cell, _)| cell.is_own);
        fewest_rounds(&own.map(|(_, risks)| *risks).collect::<Vec<_>>(), &all, within, left_out)
    };
    if axis == ONE_PLACE {
        let Some((place, cells, (value, is_end))) =
            places.iter().find_map(|(place, cells)| Some((place, cells, number(place, cells, None)?)))
        else {
            return Ok(None);
        };
        let without: Vec<f64> = (0..draws).filter_map(|draw| Some(number(place, cells, Some(draw))?.0)).collect();
        let count = without.len();
        let error = if is_end { 0.0 } else { jackknife(&without) };
        let found = Estimated { value, error, freedom: count as f64 - 1.0, count };
        return Ok(Some(Derived { found, points: usize::MAX, theory: None, is_end }));
    }
    let is_inside = |(place, cells): &(&u64, &Vec<Cell>)| number(place, cells, None).is_some_and(|(_, is_end)| !is_end);
    let inside: Vec<_> = places.iter().filter(is_inside).collect();
    let points = |left_out: Option<usize>| -> Vec<(Vec<f64>, f64)> {
        let point = |(place, cells): &(&u64, &Vec<Cell>)| {
            Some((vec![f64::from_bits(**place)], number(place, cells, left_out)?.0))
        };
        inside.iter().filter_map(point).collect()
    };
    let without: Option<Vec<f64>> = (0..draws).map(|draw| fitted(&points(Some(draw)), 0)).collect();
    Ok(without.and_then(|without| some(&points(None), 0, &without, true)))
}

/// The exponent of a count of query depth in 1/ε (`accuracy`) or d (`dimension`). A cell that a seed missed, or that starts within
/// twice its target, is left out.
pub(crate) fn of_depth(
    records: &mut Records,
    study: &str,
    fields: &Fields,
    count: &str,
    axis: &str,
) -> anyhow::Result<Option<Derived>> {
    let mut cells: BTreeMap<[u64; 2], Vec<Rc<Run>>> = BTreeMap::new();
    for run in records.select(study, fields)? {
        let place = [1.0 / run.number("accuracy")?, run.number("dimension")?].map(f64::to_bits);
        cells.entry(place).or_default().push(run);
    }
    let typical = |place: &[u64; 2], runs: &[Rc<Run>]| {
        let starts: Vec<f64> = runs.iter().filter_map(|run| run.number("start_gap").ok()).collect();
        runs.iter().all(|run| run.is("reached", &true.into())) && median(&starts) * f64::from_bits(place[0]) > 2.0
    };
    cells.retain(|place, runs| typical(place, runs));
    // A d that does not vary has no exponent.
    let varying = if cells.keys().any(|place| cells.keys().any(|other| place[1] != other[1])) { 2 } else { 1 };
    let rows = |value: &dyn Fn(&[Rc<Run>]) -> anyhow::Result<f64>| -> anyhow::Result<Vec<(Vec<f64>, f64)>> {
        cells
            .iter()
            .map(|(place, runs)| Ok((place[..varying].iter().map(|x| f64::from_bits(*x)).collect(), value(runs)?)))
            .collect()
    };
    let at = match axis {
        "accuracy" => 0,
        "dimension" => 1,
        _ => bail!("depth has no axis '{axis}'"),
    };
    let counts = |runs: &[Rc<Run>]| runs.iter().map(|run| run.number(count)).collect::<Result<Vec<_>, _>>();
    let seeds = cells.values().map(Vec::len).min().unwrap_or(0);
    let of_seed = |seed: usize| anyhow::Ok(fitted(&rows(&|runs| Ok(counts(runs)?[seed]))?, at));
    let of_seeds: Option<Vec<f64>> = (0..seeds).map(of_seed).collect::<Result<_, _>>()?;
    let middle = rows(&|runs| Ok(median(&counts(runs)?)))?;
    Ok(of_seeds.and_then(|of_seeds| some(&middle, at, &of_seeds, false)))
}

/// The exponent in n (`rows`), d (`dimension`) or 1/ε (`epsilon`) of the queries at which the risk comes down to the optimal
/// error, beside that of Theorem 4 of paper 002 in the same cells.
pub(crate) fn of_needs(
    records: &mut Records,
    study: &str,
    fields: &Fields,
    axis: &str,
) -> anyhow::Result<Option<Derived>> {
    let mut cells: BTreeMap<[u64; 3], BTreeMap<u64, Vec<(f64, f64)>>> = BTreeMap::new();
    for run in records.select(study, fields)? {
        let place = [run.number("rows")?, run.number("dimension")?, 1.0 / run.number("epsilon")?].map(f64::to_bits);
        let point = (run.number("gradient_queries")?, run.number("excess/error")?);
        cells.entry(place).or_default().entry(run.place().1).or_default().push(point);
    }
    let at = ["rows", "dimension", "epsilon"].iter().position(|name| *name == axis).context("no such axis")?;
    let need = |points: &[(f64, f64)]| -> anyhow::Result<f64> {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = crossing(&points, 1.0).filter(|(_, is_first)| !is_first);
        Ok(found.context("a need lies at an end of its budgets")?.0)
    };
    let rows = |value: &dyn Fn(&[f64], &BTreeMap<u64, Vec<(f64, f64)>>) -> anyhow::Result<f64>| {
        let row = |(place, seeds): (&[u64; 3], &BTreeMap<u64, Vec<(f64, f64)>>)| {
            let x = place.map(f64::from_bits).to_vec();
            let y = value(&x, seeds)?;
            anyhow::Ok((x, y))
        };
        cells.iter().map(row).collect::<Result<Vec<_>, _>>()
    };
    let theorem = rows(&|x, _| {
        let [.., (_, theorem)] = PRIVATE_QUERIES;
        Ok(theorem(x[0], x[1], 1.0 / x[2]))
    })?;
    let seeds: Vec<u64> = cells.values().next().context("no cell")?.keys().copied().collect();
    let of_seed =
        |seed: &u64| anyhow::Ok(fitted(&rows(&|_, seeds| need(seeds.get(seed).context("a seed is missing")?))?, at));
    let of_seeds: Option<Vec<f64>> = seeds.iter().map(of_seed).collect::<Result<_, _>>()?;
    let middle = rows(&|_, seeds| {
        let logarithms: Vec<f64> =
            seeds.values().map(|points| Ok(need(points)?.ln())).collect::<anyhow::Result<_>>()?;
        Ok(mean(&logarithms).exp())
    })?;
    let found = of_seeds.and_then(|of_seeds| some(&middle, at, &of_seeds, false));
    Ok(found.map(|found| Derived { theory: fitted(&theorem, at), ..found }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Risks 2√d + 3 of three draws, of which the statistical part is 3: with it the exponent is smaller.
    #[test]
    fn the_statistical_term_is_subtracted_before_the_exponent() {
        let run = |problem: &str, d: f64, rounds: u64, risk: f64| {
            let excess = [0.99, 1.0, 1.01].map(|factor| factor * risk);
            json!({ "problem": problem, "algorithm": "a", "d": d, "adaptive_rounds": rounds, "excess": excess })
        };
        let private = (1..=8).map(|d| f64::from(d) * 100.0).flat_map(|d| {
            [(16, 99.0), (32, 2.0 * d.sqrt() + 3.0), (64, 99.0)].map(|(rounds, risk)| run("private", d, rounds, risk))
        });
        let mut records = Records::of("other", private.chain([run("statistical", 200.0, 32, 3.0)]).collect());
        let fields = |problem: &str| -> Fields {
            [("problem", problem), ("algorithm", "a")].map(|(name, value)| (name.to_owned(), value.into())).into()
        };
        let mut of = |less: Option<&Fields>| {
            let found = of_rates(&mut records, "other", &fields("private"), less, "d", None).unwrap().unwrap();
            (found.found.value, found.points, found.found.count)
        };
        let (value, points, draws) = of(Some(&fields("statistical")));
        assert!((value - 0.5).abs() < 1e-9 && (points, draws) == (8, 3), "{value} {points} {draws}");
        assert!(of(None).0 < 0.48, "{:?}", of(None));
    }

    /// Risks √d at 32 of 16 to 64 rounds, but the least of two places at an end of them, far off the power law; and a grid of one.
    #[test]
    fn a_least_risk_at_either_end_of_the_rounds_enters_no_exponent() {
        let points = |rounds: &[u64]| {
            let run = |d: u32, rounds: u64| {
                let risk = match (d, rounds) {
                    (100, 16) | (800, 64) => 0.1,
                    (_, 32) => f64::from(d).sqrt(),
                    _ => 99.0,
                };
                let excess = [0.99, 1.0, 1.01].map(|factor| factor * risk);
                json!({ "algorithm": "a", "d": d, "adaptive_rounds": rounds, "excess": excess })
            };
            let runs = (1..=8).flat_map(|d| rounds.iter().map(move |rounds| run(100 * d, *rounds))).collect();
            let fields = Fields::from([("algorithm".to_owned(), "a".into())]);
            let found = of_rates(&mut Records::of("s", runs), "s", &fields, None, "d", None).unwrap()?;
            Some(((1e9 * found.found.value).round() / 1e9, found.points))
        };
        let grids: [&[u64]; 4] = [&[16, 32, 64], &[16, 32], &[32, 64], &[32]];
        assert_eq!(grids.map(points), [Some((0.5, 6)), None, None, Some((0.5, 8))]);
    }
}

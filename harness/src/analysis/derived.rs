//! The fewest rounds and least risks of a study of rates, and their exponents.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

use super::records::{Fields, Records};
use crate::estimates::{Estimated, Risks, exponent, fewest_rounds, fit, mean_without, smallest};

/// An exponent, the number of its points, and the formula's exponent in the same cells where one is given; or a number of rounds, and
/// true where no fewer were measured.
pub(crate) struct Derived {
    pub(crate) found: Estimated,
    pub(crate) points: usize,
    pub(crate) theory: Option<f64>,
    pub(crate) is_end: bool,
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
    // A line of one draw holds the risks of all.
    all.insert("draw".to_owned(), 0.into());
    let mut places: BTreeMap<u64, Vec<Cell>> = BTreeMap::new();
    for run in records.select(study, &all)? {
        let place = if axis == ONE_PLACE { 0.0 } else { run.number(axis)? };
        places.entry(place.to_bits()).or_default().push(Cell {
            is_own: run.is("algorithm", &method),
            rounds: run.number("adaptive_rounds")?,
            at_edge: run.is("at_edge", &true.into()),
            excess: run.0["risks"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect(),
        });
    }
    Ok(places)
}

/// The risks of a method's cells, and of all.
fn risks(cells: &[Cell]) -> (Vec<Risks<'_>>, Vec<Risks<'_>>) {
    let risks = |is_own: bool| {
        let cells = cells.iter().filter(|cell| cell.is_own || !is_own);
        cells.map(|cell| (cell.rounds, &*cell.excess)).collect()
    };
    (risks(true), risks(false))
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
        let (own, all) = risks(cells);
        fewest_rounds(&own, &all, within, left_out)
    };
    if axis == ONE_PLACE {
        let smallest = |cells: &Vec<Cell>| {
            let (own, all) = risks(cells);
            smallest(&own, &all, within?)
        };
        let found = places.values().find_map(smallest);
        return Ok(found.map(|(found, is_end)| Derived { found, points: usize::MAX, theory: None, is_end }));
    }
    let is_inside = |(place, cells): &(&u64, &Vec<Cell>)| number(place, cells, None).is_some_and(|(_, is_end)| !is_end);
    let inside: Vec<_> = places.iter().filter(is_inside).collect();
    let points = |left_out: Option<usize>| -> Vec<(Vec<f64>, f64)> {
        let point = |(place, cells): &(&u64, &Vec<Cell>)| {
            Some((vec![f64::from_bits(**place)], number(place, cells, left_out)?.0))
        };
        inside.iter().filter_map(point).collect()
    };
    let fitted = |draw| Some(fit(&points(Some(draw)))?.first()?.value);
    let without: Option<Vec<f64>> = (0..draws).map(fitted).collect();
    let found = without.and_then(|without| exponent(&points(None), &without, true));
    Ok(found.map(|found| Derived { found, points: inside.len(), theory: None, is_end: false }))
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
            json!({ "problem": problem, "algorithm": "a", "d": d, "adaptive_rounds": rounds, "draw": 0, "risks": excess })
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
                json!({ "algorithm": "a", "d": d, "adaptive_rounds": rounds, "draw": 0, "risks": excess })
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

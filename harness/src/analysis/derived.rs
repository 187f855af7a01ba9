//! Exponents of what single studies ask for: the fewest rounds and least risks of the rate study, counts of query depth, and the
//! queries that a private method needs.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use rounds_algorithms::theory::parallel::PRIVATE_QUERIES;

use super::estimates::{Estimated, exponent};
use super::records::{Fields, Records, Run};
use crate::exponents::crossing;
use crate::statistics::{mean, median};

/// An exponent, the number of its points, and the formula's exponent in the same cells where one is given.
pub(crate) struct Exponent {
    pub(crate) found: Estimated,
    pub(crate) points: usize,
    pub(crate) theory: Option<f64>,
}

fn some(rows: &[(Vec<f64>, f64)], at: usize, seeds: &[f64], is_jackknife: bool) -> anyhow::Result<Exponent> {
    let found = exponent(rows, at, seeds, is_jackknife).context("too few points for an exponent")?;
    Ok(Exponent { found, points: rows.len(), theory: None })
}

fn fitted(rows: &[(Vec<f64>, f64)], at: usize) -> anyhow::Result<f64> {
    Ok(exponent(rows, at, &[], false).context("too few points for an exponent")?.value)
}

/// The exponent of the fewest rounds (`is_rounds`) or the least risk in `axis`, over the places of the rate study; its draws by
/// the jackknife. Values at an end of a grid enter none.
pub(crate) fn of_rates(
    records: &mut Records,
    fields: &Fields,
    axis: &str,
    is_rounds: bool,
) -> anyhow::Result<Exponent> {
    let mut all = fields.clone();
    let method = all.remove("algorithm").context("an algorithm is missing")?;
    let mut places: BTreeMap<u64, Vec<Run>> = BTreeMap::new();
    for run in records.select("rate-study", &all)? {
        places.entry(run.number(axis)?.to_bits()).or_default().push(run);
    }
    let fits = |run: &&Run| run.is("algorithm", &method);
    let points = |left_out: Option<u64>| -> anyhow::Result<Vec<(Vec<f64>, f64)>> {
        let risk = |run: &Run| -> anyhow::Result<f64> {
            let kept = run.sample("excess")?.into_iter().filter(|((draw, _), _)| Some(*draw) != left_out);
            Ok(mean(&kept.map(|(_, value)| value).collect::<Vec<_>>()))
        };
        let mut points = Vec::new();
        for (place, runs) in &places {
            let x = vec![f64::from_bits(*place)];
            let mut curve = Vec::new();
            for run in runs.iter().filter(fits) {
                curve.push((run.number("adaptive_rounds")?, risk(run)?, run.is("at_edge", &true.into())));
            }
            curve.sort_by(|a, b| a.0.total_cmp(&b.0));
            if !is_rounds {
                let least = curve.iter().min_by(|a, b| a.1.total_cmp(&b.1));
                points.extend(least.filter(|least| !least.2).map(|least| (x, least.1)));
                continue;
            }
            let risks: Vec<f64> = runs.iter().map(risk).collect::<Result<_, _>>()?;
            let level = 1.5 * risks.iter().copied().fold(f64::INFINITY, f64::min);
            let curve: Vec<(f64, f64)> = curve.iter().map(|point| (point.0, point.1)).collect();
            points.extend(crossing(&curve, level).filter(|(_, is_first)| !is_first).map(|(rounds, _)| (x, rounds)));
        }
        Ok(points)
    };
    let draws: Vec<f64> = (0..20).map(|draw| fitted(&points(Some(draw))?, 0)).collect::<Result<_, _>>()?;
    some(&points(None)?, 0, &draws, true)
}

/// The exponent of a count of query depth in 1/ε (`accuracy`) or d (`dimension`). A cell that a seed missed, or that starts within
/// twice its target, is left out.
pub(crate) fn of_depth(records: &mut Records, fields: &Fields, count: &str, axis: &str) -> anyhow::Result<Exponent> {
    let mut cells: BTreeMap<[u64; 2], Vec<Run>> = BTreeMap::new();
    for run in records.select("depth-against-work", fields)? {
        let place = [1.0 / run.number("accuracy")?, run.number("dimension")?].map(f64::to_bits);
        cells.entry(place).or_default().push(run);
    }
    let typical = |place: &[u64; 2], runs: &[Run]| {
        let starts: Vec<f64> = runs.iter().filter_map(|run| run.number("start_gap").ok()).collect();
        runs.iter().all(|run| run.is("reached", &true.into())) && median(&starts) * f64::from_bits(place[0]) > 2.0
    };
    cells.retain(|place, runs| typical(place, runs));
    let rows = |value: &dyn Fn(&[Run]) -> anyhow::Result<f64>| -> anyhow::Result<Vec<(Vec<f64>, f64)>> {
        cells.iter().map(|(place, runs)| Ok((place.map(f64::from_bits).to_vec(), value(runs)?))).collect()
    };
    let at = match axis {
        "accuracy" => 0,
        "dimension" => 1,
        _ => bail!("depth has no axis '{axis}'"),
    };
    let counts = |runs: &[Run]| runs.iter().map(|run| run.number(count)).collect::<Result<Vec<_>, _>>();
    let seeds = cells.values().map(Vec::len).min().unwrap_or(0);
    let of_seed = |seed: usize| fitted(&rows(&|runs| Ok(counts(runs)?[seed]))?, at);
    let of_seeds: Vec<f64> = (0..seeds).map(of_seed).collect::<Result<_, _>>()?;
    some(&rows(&|runs| Ok(median(&counts(runs)?)))?, at, &of_seeds, false)
}

/// The exponent in n (`rows`), d (`dimension`) or 1/ε (`epsilon`) of the queries at which the risk comes down to the optimal
/// error, beside that of Theorem 4 of paper 002 in the same cells.
pub(crate) fn of_needs(records: &mut Records, fields: &Fields, axis: &str) -> anyhow::Result<Exponent> {
    let mut cells: BTreeMap<[u64; 3], BTreeMap<u64, Vec<(f64, f64)>>> = BTreeMap::new();
    for run in records.select("private-queries", fields)? {
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
    let of_seed = |seed: &u64| fitted(&rows(&|_, seeds| need(seeds.get(seed).context("a seed is missing")?))?, at);
    let of_seeds: Vec<f64> = seeds.iter().map(of_seed).collect::<Result<_, _>>()?;
    let middle = rows(&|_, seeds| {
        let logarithms: Vec<f64> =
            seeds.values().map(|points| Ok(need(points)?.ln())).collect::<anyhow::Result<_>>()?;
        Ok(mean(&logarithms).exp())
    })?;
    Ok(Exponent { theory: Some(fitted(&theorem, at)?), ..some(&middle, at, &of_seeds, false)? })
}

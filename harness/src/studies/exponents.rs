//! Exponents of power laws, with intervals: least squares in logarithms; and those of depth and work beside Table I of paper
//! 002.

use std::collections::BTreeSet;

use rounds_algorithms::theory::parallel::Method;
use rounds_numerics::{Mat, dense};
use serde::{Deserialize, Serialize};

use super::depth_cell::{Cell, Found, Kind};
use crate::grouping::by_key;
use crate::statistics::{Estimate, Interval, of_mean, student_quantile};

/// Exponents p of `y = c·Π x_j^{p_j}` from rows `(x, y)`, all positive: least squares of ln y on ln x with intercept, each
/// with its 95 % interval under independent errors; NaN for a variable with fewer than three values, which any exponent fits.
/// `None` where a variable does not vary, or with no more rows than unknowns.
pub(crate) fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<Estimate>> {
    let variables = rows.first()?.0.len();
    let unknowns = variables + 1;
    if rows.len() <= unknowns {
        return None;
    }
    let design: Vec<Vec<f64>> =
        rows.iter().map(|(x, _)| std::iter::once(1.0).chain(x.iter().map(|x| x.ln())).collect()).collect();
    let values: Vec<f64> = rows.iter().map(|(_, y)| y.ln()).collect();
    // The inverse of the normal equations' matrix, L⁻ᵀ·L⁻¹ of Cholesky's L·Lᵀ: at most three unknowns.
    let product = |i: usize, j: usize| design.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let lower = dense::cholesky(Mat::from_fn(unknowns, unknowns, product).as_ref())?;
    if (0..unknowns).any(|i| lower[(i, i)].powi(2) < 1e-9) {
        return None;
    }
    let half = dense::invert_lower(lower.as_ref());
    let inverse = |i: usize, j: usize| (0..unknowns).map(|k| half[(k, i)] * half[(k, j)]).sum::<f64>();
    let right = |i: usize| design.iter().zip(&values).map(|(row, y)| row[i] * y).sum::<f64>();
    let solution: Vec<f64> = (0..unknowns).map(|i| (0..unknowns).map(|j| inverse(i, j) * right(j)).sum()).collect();
    let fitted = |row: &[f64]| row.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>();
    let residual: f64 = design.iter().zip(&values).map(|(row, y)| (y - fitted(row)).powi(2)).sum();
    let freedom = (rows.len() - unknowns) as f64;
    let values_of = |i: usize| rows.iter().map(|(x, _)| x[i - 1].to_bits()).collect::<BTreeSet<_>>().len();
    let estimate = |i: usize| {
        if values_of(i) < 3 {
            return Estimate::new(f64::NAN, Interval::new(f64::NAN, f64::NAN));
        }
        let half = student_quantile(0.975, freedom) * (residual / freedom * inverse(i, i)).sqrt();
        let value = solution[i];
        Estimate::new(value, Interval::new(value - half, value + half))
    };
    Some((1..unknowns).map(estimate).collect())
}

/// A fitted exponent beside the theory's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FittedExponent {
    pub(crate) family: Kind,
    pub(crate) algorithm: String,
    /// The count: `rounds`, `iterations`, `gradient_queries` or `computational_depth`.
    pub(crate) quantity: String,
    /// `dimension` or `1/accuracy`.
    pub(crate) variable: String,
    /// Table I.
    pub(crate) theory: f64,
    /// The fit to the medians of the cells, with the interval of its residuals: the misfit of a power law.
    #[serde(flatten)]
    pub(crate) exponent: Estimate,
    /// The mean of the fits of each seed's runs, with its interval over the seeds: chance. None for a single seed.
    pub(crate) over_seeds: Option<Estimate>,
    pub(crate) cells: usize,
}

/// All cells with their fits: `depth-against-work.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Study {
    /// Cells in the order in which they were measured, each with the medians of its runs.
    pub(crate) cells: Vec<Cell>,
    /// Fits to the cells of the fewest threads that every seed reached.
    pub(crate) exponents: Vec<FittedExponent>,
    /// Seconds that a round costs two threads of one process beside its work; 0 if it was not measured.
    pub(crate) exchange_seconds: f64,
}

impl Study {
    /// A study of these runs, each with the place of its seed.
    pub(crate) fn new(runs: &[(usize, Cell)], exchange_seconds: f64) -> Self {
        let of_cells = by_key(runs.iter().map(|(_, run)| (run.setting(), run))).into_iter();
        let cells: Vec<Cell> =
            of_cells.map(|(_, runs)| Cell { found: Found::median(&runs), ..runs[0].clone() }).collect();
        let fewest = cells.iter().map(|cell| cell.threads).min().unwrap_or(1);
        Self { exponents: fit_all(&cells, runs, fewest), cells, exchange_seconds }
    }

    /// JSON with one line for each cell.
    pub(crate) fn document(&self) -> Result<String, serde_json::Error> {
        fn lines<T: Serialize>(rows: &[T]) -> Result<String, serde_json::Error> {
            let lines: Result<Vec<_>, _> = rows.iter().map(serde_json::to_string).collect();
            Ok(lines?.join(",\n"))
        }
        Ok(format!(
            "{{\"exchange_seconds\": {:e}, \"cells\": [\n{}\n], \"exponents\": [\n{}\n]}}\n",
            self.exchange_seconds,
            lines(&self.cells)?,
            lines(&self.exponents)?
        ))
    }
}

type Count = fn(&Found) -> u64;

/// A count, its name, and its exponents (of d, of 1/ε) in Table I.
fn counts(method: Method) -> [(&'static str, Count, (f64, f64)); 4] {
    let (depth, computational) = (method.depth_exponents(), method.computational_exponents());
    [
        ("rounds", |found| found.rounds, depth),
        ("iterations", |found| found.iterations, depth),
        ("gradient_queries", |found| found.gradient_queries, method.query_exponents()),
        ("computational_depth", |found| found.computational_depth, computational),
    ]
}

/// The fit of a count in 1/ε and, where it varies, d.
fn fit_cells<'c>(cells: impl Iterator<Item = &'c Cell>, count: Count) -> Vec<Estimate> {
    let cells: Vec<&Cell> = cells.collect();
    let varies = cells.iter().any(|cell| cell.dimension != cells[0].dimension);
    let row = |cell: &&Cell| {
        let dimension = varies.then_some(cell.dimension as f64);
        let x = std::iter::once(1.0 / cell.accuracy).chain(dimension).collect();
        (x, count(cell) as f64)
    };
    fit(&cells.iter().map(row).collect::<Vec<_>>()).unwrap_or_default()
}

/// Exponents of all counts in d and 1/ε on `threads` threads, from `cells` (medians) and the `runs` of each seed. A cell that
/// one seed missed is left out for all of them: what the others needed would be too little.
fn fit_all(cells: &[Cell], runs: &[(usize, Cell)], threads: usize) -> Vec<FittedExponent> {
    let mut fits = Vec::new();
    let seeds: BTreeSet<usize> = runs.iter().map(|(seed, _)| *seed).collect();
    for (family, method) in Kind::ALL.iter().flat_map(|kind| Method::ALL.map(|method| (*kind, method))) {
        let own = |cell: &&Cell| (cell.family, &*cell.algorithm, cell.threads) == (family, method.id(), threads);
        let used: Vec<&Cell> = cells.iter().filter(own).filter(|cell| cell.is_typical()).collect();
        for (quantity, count, (of_dimension, of_accuracy)) in counts(method) {
            let found = fit_cells(used.iter().copied(), count);
            let of_seed = |seed: &usize| {
                let own = runs
                    .iter()
                    .filter(|(other, run)| other == seed && used.iter().any(|cell| cell.setting() == run.setting()));
                fit_cells(own.map(|(_, run)| run), count)
            };
            let of_seeds: Vec<Vec<Estimate>> = seeds.iter().map(of_seed).collect();
            let names = [("1/accuracy", of_accuracy), ("dimension", of_dimension)];
            for (index, (exponent, (variable, theory))) in found.into_iter().zip(names).enumerate() {
                if !exponent.value.is_finite() {
                    continue;
                }
                let values = of_seeds.iter().filter_map(|fits| Some(fits.get(index)?.value));
                let over_seeds = of_mean(&values.collect::<Vec<_>>(), 0.95);
                fits.push(FittedExponent {
                    family,
                    algorithm: method.id().to_owned(),
                    quantity: quantity.to_owned(),
                    variable: variable.to_owned(),
                    theory,
                    exponent,
                    over_seeds: over_seeds.ends().map(|_| over_seeds),
                    cells: used.len(),
                });
            }
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_power_laws_are_recovered() {
        let mut rows = Vec::new();
        for d in [16.0f64, 64.0, 256.0] {
            for e in [0.1f64, 0.05, 0.02] {
                rows.push((vec![d, 1.0 / e], 3.0 * d.powf(1.0 / 3.0) * e.powf(-2.0 / 3.0)));
            }
        }
        let found = fit(&rows).unwrap();
        rows.retain(|(x, _)| x[0] < 100.0);
        let two_dimensions = fit(&rows).unwrap();
        assert!(two_dimensions[0].value.is_nan() && two_dimensions[1].value.is_finite());
        rows.retain(|(x, _)| x[1] < 30.0 && x[0] < 20.0);
        assert!(fit(&rows).is_none(), "two rows");
        assert!((found[0].value - 1.0 / 3.0).abs() < 1e-9 && (found[1].value - 2.0 / 3.0).abs() < 1e-9);
        assert!(found[0].high - found[0].low < 1e-6);
    }

    #[test]
    fn intervals_cover_at_their_rate() {
        // y = x·e^{noise}: 400 fits of 8 points, 95 % intervals must hold the exponent 1 in about 380.
        let mut choices = crate::statistics::Choices::new(5);
        let mut held = 0;
        for _ in 0..400 {
            let rows: Vec<_> = (1..=8)
                .map(|i| {
                    let noise: f64 = (0..12).map(|_| choices.uniform()).sum::<f64>() - 6.0;
                    (vec![f64::from(i)], f64::from(i) * (0.2 * noise).exp())
                })
                .collect();
            let exponent = fit(&rows).unwrap()[0];
            held += usize::from(exponent.low <= 1.0 && 1.0 <= exponent.high);
        }
        // Binomial(400, 0.95): five standard deviations are 22.
        assert!((358..=400).contains(&held), "{held}");
    }

    #[test]
    fn what_does_not_vary_has_no_exponent() {
        assert!(fit(&[]).is_none());
        assert!(fit(&[(vec![2.0], 1.0), (vec![2.0], 2.0), (vec![2.0], 3.0), (vec![2.0], 4.0)]).is_none());
        assert!(fit(&[(vec![1.0], 1.0), (vec![2.0], 2.0)]).is_none());
    }

    /// A cell whose counts are powers of d and 1/ε, times `factor`.
    fn cell(dimension: usize, accuracy: f64, factor: f64) -> Cell {
        let count = |d: f64, e: f64| (1e4 * factor * (dimension as f64).powf(d) * accuracy.powf(-e)).round() as u64;
        Cell {
            family: Kind::MaxOfLinear,
            algorithm: "resque-ac-sa".to_owned(),
            accuracy,
            threads: 1,
            found: Found {
                dimension,
                reached: true,
                start_gap: 4.0 * accuracy,
                rounds: count(1.0 / 3.0, 2.0 / 3.0),
                iterations: count(1.0 / 3.0, 2.0 / 3.0),
                computational_depth: count(0.25, 1.0),
                gradient_queries: count(0.0, 2.0),
                ..Found::default()
            },
        }
    }

    /// All runs of three seeds, of which the second one needs half as much again in the largest dimension.
    fn runs() -> Vec<(usize, Cell)> {
        let mut runs = Vec::new();
        for seed in 0..3 {
            for dimension in [16, 64, 256] {
                let factor = if (seed, dimension) == (1, 256) { 1.5 } else { 1.0 };
                runs.extend([0.1, 0.05, 0.02].map(|accuracy| (seed, cell(dimension, accuracy, factor))));
            }
        }
        runs
    }

    #[test]
    fn every_count_has_an_exponent_with_its_interval_over_the_seeds() {
        let study = Study::new(&runs(), 1e-5);
        assert_eq!((study.cells.len(), study.exponents.len()), (9, 8));
        for fit in &study.exponents {
            assert!((fit.exponent.value - fit.theory).abs() < 1e-3, "{fit:?}");
            let over_seeds = fit.over_seeds.expect("three seeds");
            // Only the exponent of d differs between the seeds.
            let width = over_seeds.high - over_seeds.low;
            assert_eq!(width > 0.1, fit.variable == "dimension", "{fit:?}");
        }
        let computational = study.exponents.iter().filter(|fit| fit.quantity == "computational_depth");
        assert_eq!(computational.map(|fit| fit.theory).collect::<Vec<_>>(), [1.0, 0.25]);
        let document = study.document().unwrap();
        assert_eq!(serde_json::from_str::<Study>(&document).unwrap(), study);
        let one: Vec<_> = runs().into_iter().filter(|(seed, _)| *seed == 0).collect();
        let study = Study::new(&one, 0.0);
        assert!(study.exponents.iter().all(|fit| fit.over_seeds.is_none()));
        assert_eq!(serde_json::from_str::<Study>(&study.document().unwrap()).unwrap(), study);
    }

    #[test]
    fn a_cell_that_one_seed_missed_is_left_out_for_all() {
        let mut runs = runs();
        let (_, missed) = runs.iter_mut().find(|(seed, cell)| (*seed, cell.dimension) == (2, 256)).unwrap();
        missed.found.reached = false;
        let study = Study::new(&runs, 0.0);
        assert!(study.exponents.iter().all(|fit| fit.cells == 8));
        assert!(fit_all(&study.cells, &runs, 2).is_empty());
    }
}

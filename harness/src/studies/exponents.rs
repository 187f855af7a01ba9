//! Exponents of power laws, with intervals: least squares in logarithms; and those of depth and work beside Table I of paper
//! 002.

use std::collections::BTreeSet;

use rounds_algorithms::theory::parallel::Method;
use rounds_numerics::{Mat, dense};
use serde::{Deserialize, Serialize};

use crate::prediction::queries::{Cell, Kind};
use crate::statistics::{Estimate, Interval, student_quantile};

/// Exponents p of `y = c·Π x_j^{p_j}` from rows `(x, y)`, all positive: least squares of ln y on ln x with intercept, each
/// with its 95 % interval under independent errors; NaN for a variable with fewer than three values, which any exponent fits.
/// `None` where a variable does not vary, or with no more rows than unknowns.
pub fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<Estimate>> {
    let variables = rows.first()?.0.len();
    let unknowns = variables + 1;
    if rows.len() <= unknowns {
        return None;
    }
    let design: Vec<Vec<f64>> = rows
        .iter()
        .map(|(x, _)| std::iter::once(1.0).chain(x.iter().map(|x| x.ln())).collect())
        .collect();
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
    let solution: Vec<f64> = (0..unknowns)
        .map(|i| (0..unknowns).map(|j| inverse(i, j) * right(j)).sum())
        .collect();
    let fitted = |row: &[f64]| row.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>();
    let residual: f64 = design
        .iter()
        .zip(&values)
        .map(|(row, y)| (y - fitted(row)).powi(2))
        .sum();
    let freedom = (rows.len() - unknowns) as f64;
    let values_of = |i: usize| {
        rows.iter()
            .map(|(x, _)| x[i - 1].to_bits())
            .collect::<BTreeSet<_>>()
            .len()
    };
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
pub struct FittedExponent {
    /// Kind of the functions.
    pub family: Kind,
    /// The method.
    pub algorithm: String,
    /// `rounds` or `gradient_queries`.
    pub quantity: String,
    /// `dimension` or `1/accuracy`.
    pub variable: String,
    /// Table I.
    pub theory: f64,
    /// The fit.
    #[serde(flatten)]
    pub exponent: Estimate,
    /// Number of cells.
    pub cells: usize,
}

/// All cells with their fits: `depth-against-work.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Cells in the order in which they were measured.
    pub cells: Vec<Cell>,
    /// Fits to the cells of the fewest threads.
    pub exponents: Vec<FittedExponent>,
    /// Seconds that a round costs two threads of one process beside its work; 0 if it was not measured.
    pub exchange_seconds: f64,
}

impl Study {
    /// A study of these cells.
    pub fn new(cells: Vec<Cell>, exchange_seconds: f64) -> Self {
        let fewest = cells.iter().map(|cell| cell.threads).min().unwrap_or(1);
        Self {
            exponents: fit_all(&cells, fewest),
            cells,
            exchange_seconds,
        }
    }

    /// JSON with one line for each cell.
    ///
    /// # Errors
    /// Numbers that JSON cannot represent.
    pub fn document(&self) -> Result<String, serde_json::Error> {
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

/// Exponents of depth and queries in d and 1/ε, from the cells that reached their target on `threads` threads.
fn fit_all(cells: &[Cell], threads: usize) -> Vec<FittedExponent> {
    let mut fits = Vec::new();
    for (family, method) in Kind::ALL
        .iter()
        .flat_map(|kind| Method::ALL.map(|method| (*kind, method)))
    {
        let own = |cell: &&Cell| (cell.family, &*cell.algorithm, cell.threads) == (family, method.id(), threads);
        let used: Vec<&Cell> = cells.iter().filter(own).filter(|cell| cell.is_typical()).collect();
        let varies = used.iter().any(|cell| cell.dimension != used[0].dimension);
        let (theory_depth, theory_queries) = (method.depth_exponents(), method.query_exponents());
        let quantities: [(&str, fn(&Cell) -> f64, (f64, f64)); 2] = [
            ("rounds", |cell| cell.rounds as f64, theory_depth),
            ("gradient_queries", |cell| cell.gradient_queries as f64, theory_queries),
        ];
        for (quantity, value, (of_dimension, of_accuracy)) in quantities {
            let row = |cell: &&Cell| {
                let dimension = varies.then_some(cell.dimension as f64);
                (
                    std::iter::once(1.0 / cell.accuracy).chain(dimension).collect(),
                    value(cell),
                )
            };
            let rows: Vec<_> = used.iter().map(row).collect();
            let names = [("1/accuracy", of_accuracy), ("dimension", of_dimension)];
            let found = fit(&rows).unwrap_or_default();
            fits.extend(
                found
                    .into_iter()
                    .zip(names)
                    .filter(|(exponent, _)| exponent.value.is_finite())
                    .map(|(exponent, (variable, theory))| FittedExponent {
                        family,
                        algorithm: method.id().to_owned(),
                        quantity: quantity.to_owned(),
                        variable: variable.to_owned(),
                        theory,
                        exponent,
                        cells: rows.len(),
                    }),
            );
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::queries::Found;

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

    #[test]
    fn fits_take_only_cells_that_reached_their_target() {
        let cell = |dimension: usize, accuracy: f64, reached: bool| Cell {
            family: Kind::MaxOfLinear,
            algorithm: "sgd".to_owned(),
            accuracy,
            threads: 1,
            found: Found {
                dimension,
                reached,
                start_gap: 4.0 * accuracy,
                rounds: if reached { (accuracy.powi(-2)).round() as u64 } else { 1 },
                gradient_queries: 7,
                ..Found::default()
            },
        };
        let mut cells = vec![cell(16, 0.001, false)];
        for dimension in [16, 64] {
            cells.extend([0.1, 0.05, 0.02].map(|accuracy| cell(dimension, accuracy, true)));
        }
        let exponents = fit_all(&cells, 1);
        let slope = exponents
            .iter()
            .find(|fit| fit.quantity == "rounds" && fit.variable == "1/accuracy")
            .unwrap();
        assert!((slope.exponent.value - 2.0).abs() < 1e-6 && slope.theory == 2.0 && slope.cells == 6);
        assert!(fit_all(&cells, 2).is_empty());
        let study = Study {
            cells,
            exponents,
            exchange_seconds: 1e-5,
        };
        assert_eq!(
            serde_json::from_str::<Study>(&study.document().unwrap()).unwrap(),
            study
        );
    }
}

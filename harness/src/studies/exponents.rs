//! Exponents of power laws, with intervals: least squares in logarithms.

use serde::{Deserialize, Serialize};

use crate::experiment::summary::student_quantile;

/// A fitted exponent and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exponent {
    /// Least-squares estimate.
    pub measured: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Exponents p of `y = c·Π x_j^{p_j}` from rows `(x, y)`, all positive: least squares of ln y on ln x with intercept, each
/// with its 95 % interval under independent errors. `None` where a variable does not vary, or with no more rows than
/// unknowns.
pub fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<Exponent>> {
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
    // Normal equations, inverted by Gauss–Jordan with pivoting: at most three unknowns.
    let mut matrix = vec![vec![0.0; 2 * unknowns]; unknowns];
    for i in 0..unknowns {
        for j in 0..unknowns {
            matrix[i][j] = design.iter().map(|row| row[i] * row[j]).sum();
        }
        matrix[i][unknowns + i] = 1.0;
    }
    for column in 0..unknowns {
        let pivot = (column..unknowns).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        let scale = matrix[column][column];
        if scale.abs() < 1e-9 {
            return None;
        }
        matrix[column].iter_mut().for_each(|value| *value /= scale);
        for other in 0..unknowns {
            if other != column {
                let factor = matrix[other][column];
                let source = matrix[column].clone();
                matrix[other]
                    .iter_mut()
                    .zip(source)
                    .for_each(|(value, source)| *value -= factor * source);
            }
        }
    }
    let inverse: Vec<&[f64]> = matrix.iter().map(|row| &row[unknowns..]).collect();
    let right: Vec<f64> = (0..unknowns)
        .map(|i| design.iter().zip(&values).map(|(row, y)| row[i] * y).sum())
        .collect();
    let solution: Vec<f64> = inverse
        .iter()
        .map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum())
        .collect();
    let residual: f64 = design
        .iter()
        .zip(&values)
        .map(|(row, y)| (y - row.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>()).powi(2))
        .sum();
    let freedom = (rows.len() - unknowns) as f64;
    let half_width = |i: usize| student_quantile(0.975, freedom) * (residual / freedom * inverse[i][i]).sqrt();
    Some(
        (1..unknowns)
            .map(|i| Exponent {
                measured: solution[i],
                low: solution[i] - half_width(i),
                high: solution[i] + half_width(i),
            })
            .collect(),
    )
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
        assert!((found[0].measured - 1.0 / 3.0).abs() < 1e-9 && (found[1].measured - 2.0 / 3.0).abs() < 1e-9);
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
}

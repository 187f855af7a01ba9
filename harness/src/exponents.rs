//! Exponents of power laws with intervals, by least squares in logarithms; where a curve comes down to a level; and the fewest rounds near
//! the least risk.

use std::collections::BTreeSet;

use rounds_numerics::{Mat, dense};

use crate::statistics::{Estimate, Interval, mean, student_quantile};

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

/// The x at which `points` (x, y) in the order of x, all positive, first come down to `level`, on a line in logarithms; at the first point
/// its x and true. `None` where no point does.
pub(crate) fn crossing(points: &[(f64, f64)], level: f64) -> Option<(f64, bool)> {
    let first = points.iter().position(|(_, y)| *y <= level)?;
    let Some(before) = first.checked_sub(1) else { return Some((points[0].0, true)) };
    let [(before, above), (after, below)] = [points[before], points[first]];
    let share = (above / level).ln() / (above / below.max(f64::MIN_POSITIVE)).ln();
    Some((before * (after / before).powf(share), false))
}

/// The risks of a method's draws after so many rounds.
pub(crate) type Risks<'a> = (f64, &'a [f64]);

/// The mean over all draws but one.
pub(crate) fn mean_without(risks: &[f64], left_out: Option<usize>) -> f64 {
    let kept = risks.iter().enumerate().filter(|(draw, _)| Some(*draw) != left_out);
    mean(&kept.map(|(_, risk)| *risk).collect::<Vec<_>>())
}

/// The fewest rounds of a method at which its mean risk is within `factor` of the least of all methods' `risks`, over all draws but one;
/// true where no fewer were measured. `None` where no number of rounds is enough.
pub(crate) fn fewest_rounds(
    own: &[Risks<'_>],
    all: &[Risks<'_>],
    factor: f64,
    left_out: Option<usize>,
) -> Option<(f64, bool)> {
    let least = all.iter().map(|(_, risks)| mean_without(risks, left_out)).fold(f64::INFINITY, f64::min);
    let mut curve: Vec<_> = own.iter().map(|(rounds, risks)| (*rounds, mean_without(risks, left_out))).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    crossing(&curve, factor * least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_rounds_are_those_without_a_draw() {
        let (one, two) = ([8.0, 8.0, 2.0], [1.0, 1.0, 4.0]);
        let (own, all) = ([(20.0, &two[..]), (10.0, &one[..])], [(10.0, &one[..]), (20.0, &two[..])]);
        // Means 6 and 2 against a level of 3: ln 2/ln 3 of the way from 10 to 20.
        let (rounds, is_first) = fewest_rounds(&own, &all, 1.5, None).unwrap();
        assert!((rounds / 15.486 - 1.0).abs() < 1e-4 && !is_first, "{rounds}");
        // Without the last draw 8 and 1 against 1.5.
        let (rounds, _) = fewest_rounds(&own, &all, 1.5, Some(2)).unwrap();
        assert!((rounds / 17.470 - 1.0).abs() < 1e-4, "{rounds}");
        assert_eq!(fewest_rounds(&own[1..], &all, 1.5, None), None);
    }

    #[test]
    fn a_crossing_lies_between_the_points_around_the_level() {
        let points = [(10.0, 4.0), (100.0, 2.0), (1_000.0, 0.5), (10_000.0, 0.1)];
        // ln(2/1.5)/ln(2/0.5) of the way from 100 to 1,000.
        let (place, is_first) = crossing(&points, 1.5).unwrap();
        assert!((place / 161.26 - 1.0).abs() < 1e-4 && !is_first, "{place}");
        assert_eq!((crossing(&points[2..], 1.0), crossing(&points[..2], 1.0)), (Some((1_000.0, true)), None));
    }

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
}

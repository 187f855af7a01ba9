//! Estimates with their errors: means, paired and independent differences, exponents of power laws by least squares in logarithms; where
//! a curve comes down to a level; and the fewest rounds near the least risk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rounds_numerics::{Mat, dense};

use crate::statistics::{deviation, jackknife, mean, student_cdf, student_quantile};

/// Fewest runs, or pairs of runs, that a verdict rests on.
pub(crate) const LEAST_RUNS: usize = 10;

/// A number of each run, by what it shares with others: the draw of the data and the seed.
pub(crate) type Sample = BTreeMap<(u64, u64), f64>;

/// A number with its standard error; an error of 0 is that of a number without chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimated {
    pub(crate) value: f64,
    pub(crate) error: f64,
    /// Degrees of freedom of the error.
    pub(crate) freedom: f64,
    /// Runs, or pairs of runs, that differ.
    pub(crate) count: usize,
}

impl Estimated {
    /// Half of the two-sided interval at `level`.
    pub(crate) fn half(&self, level: f64) -> f64 {
        if self.error == 0.0 { 0.0 } else { student_quantile(0.5 + 0.5 * level, self.freedom) * self.error }
    }

    /// The level 1 − α at which the two-sided interval just reaches `bound`, as α.
    pub(crate) fn reaches(&self, bound: f64) -> f64 {
        let distance = (self.value - bound).abs();
        if self.error == 0.0 {
            return if distance > 0.0 { 0.0 } else { 1.0 };
        }
        2.0 * student_cdf(-distance / self.error, self.freedom)
    }

    /// The estimate from halves that each chose the other's setting: where these differ, its error is at most √2 times as large
    /// ([`best`](crate::analysis)).
    pub(crate) fn of_halves(self, differs: bool) -> Self {
        Self { error: if differs { std::f64::consts::SQRT_2 } else { 1.0 } * self.error, ..self }
    }

    /// The difference of two independent estimates (Welch).
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let parts = [self, other].map(|one| one.error.powi(2));
        let total: f64 = parts.iter().sum();
        let spread: f64 = parts.iter().zip([self, other]).map(|(part, one)| part.powi(2) / one.freedom).sum();
        Self {
            value: self.value - other.value,
            error: total.sqrt(),
            freedom: if spread > 0.0 { total.powi(2) / spread } else { 1.0 },
            count: self.count.min(other.count),
        }
    }
}

/// With the ends of its 95 % interval.
impl fmt::Display for Estimated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, half) = (self.value, self.half(0.95));
        write!(formatter, "{value:.2} ({:.2} – {:.2})", value - half, value + half)
    }
}

/// The mean over runs. Values of one draw of the data share it, so that draws are counted where there are several. Repeats that are
/// all the same are one deterministic run.
pub(crate) fn of_mean(sample: &Sample) -> Estimated {
    let mut draws: Vec<(u64, Vec<f64>)> = Vec::new();
    for ((draw, _), value) in sample {
        match draws.last_mut() {
            Some((last, values)) if last == draw => values.push(*value),
            _ => draws.push((*draw, vec![*value])),
        }
    }
    let values: Vec<f64> = if draws.len() > 1 {
        draws.iter().map(|(_, values)| mean(values)).collect()
    } else {
        sample.values().copied().collect()
    };
    let (value, count) = (mean(&values), values.len());
    if values.iter().all(|other| *other == values[0]) {
        return Estimated { value: values[0], error: 0.0, freedom: 1.0, count: 1 };
    }
    Estimated { value, error: deviation(&values) / (count as f64).sqrt(), freedom: count as f64 - 1.0, count }
}

/// The differences of two samples on the draws and seeds that both have, if those are all, or half of the smaller one and no fewer than a verdict
/// needs: else pairs would drop runs that it stands on.
pub(crate) fn pairs(one: &Sample, other: &Sample) -> Option<Sample> {
    let shared = one.iter().filter_map(|(place, value)| Some((*place, value - other.get(place)?)));
    let shared: Sample = shared.collect();
    let are_enough = shared.len() >= LEAST_RUNS && 2 * shared.len() >= one.len().min(other.len());
    (are_enough || one.keys().eq(other.keys())).then_some(shared)
}

/// The mean of one sample less that of another: of their [`pairs`], else by Welch.
pub(crate) fn difference(one: &Sample, other: &Sample) -> Estimated {
    pairs(one, other).map_or_else(|| of_mean(one).minus(&of_mean(other)), |pairs| of_mean(&pairs))
}

/// The exponent of the first variable by least squares in logarithms. The error is the greater one of draws and of the misfit of the power law: `seeds`
/// are the fits of each seed, or with `is_jackknife` those without each draw.
pub(crate) fn exponent(rows: &[(Vec<f64>, f64)], seeds: &[f64], is_jackknife: bool) -> Option<Estimated> {
    let misfit = fit(rows)?.first().copied().filter(|misfit| misfit.value.is_finite())?;
    let count = seeds.len();
    let error = match count {
        0 | 1 => 0.0,
        _ if is_jackknife => jackknife(seeds),
        _ => deviation(seeds) / (count as f64).sqrt(),
    };
    let value = if is_jackknife || seeds.is_empty() { misfit.value } else { mean(seeds) };
    let of_draws = Estimated { value, error, freedom: count as f64 - 1.0, count };
    let misfit = Estimated { value, count, ..misfit };
    Some(if of_draws.half(0.95) > misfit.half(0.95) { of_draws } else { misfit })
}

/// Exponents p of `y = c·Π x_j^{p_j}` from rows `(x, y)`, all positive: least squares of ln y on ln x with intercept, each
/// with its error under independent errors; NaN for a variable with fewer than three values, which any exponent fits.
/// `None` where a variable does not vary, or with no more rows than unknowns.
pub(crate) fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<Estimated>> {
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
        let error = (residual / freedom * inverse(i, i)).sqrt();
        let (value, error) = if values_of(i) < 3 { (f64::NAN, f64::NAN) } else { (solution[i], error) };
        Estimated { value, error, freedom, count: rows.len() }
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

/// The fewest rounds with their error by the jackknife over draws; without one, and true, where no fewer were measured.
pub(crate) fn smallest(own: &[Risks<'_>], all: &[Risks<'_>], factor: f64) -> Option<(Estimated, bool)> {
    let (value, is_first) = fewest_rounds(own, all, factor, None)?;
    let draws = all.iter().map(|(_, risks)| risks.len()).min()?;
    let without = (0..draws).filter_map(|draw| fewest_rounds(own, all, factor, Some(draw)));
    let without: Vec<f64> = without.map(|(rounds, _)| rounds).collect();
    let error = if is_first { 0.0 } else { jackknife(&without) };
    Some((Estimated { value, error, freedom: without.len() as f64 - 1.0, count: without.len() }, is_first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_paired_on_what_they_share() {
        let seeds = |seeds: std::ops::Range<u64>, shift: f64| {
            seeds.map(|seed| ((0, seed), (seed * seed) as f64 + shift)).collect::<Sample>()
        };
        let (ten, twenty) = (seeds(0..10, 1.0), seeds(0..20, 0.0));
        // Equal but for the shift: no error in pairs.
        assert_eq!(difference(&ten, &twenty), Estimated { value: 1.0, error: 0.0, freedom: 1.0, count: 1 });
        assert_eq!(pairs(&twenty, &ten).unwrap().len(), 10);
        assert_eq!(pairs(&seeds(0..20, 0.0), &seeds(10..30, 0.0)).unwrap().len(), 10);
        assert!(pairs(&seeds(0..21, 0.0), &seeds(11..32, 0.0)).is_none());
        // One seed in common of two and two, or of ten and one, is no difference without chance.
        assert!(pairs(&seeds(0..2, 0.0), &seeds(1..3, 0.0)).is_none() && pairs(&ten, &seeds(0..1, 0.0)).is_none());
        assert_eq!(pairs(&seeds(0..3, 0.0), &seeds(0..3, 1.0)).unwrap().len(), 3);
        assert!(difference(&seeds(0..10, 0.0), &seeds(6..16, 0.0)).error > 1.0);
    }

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
        assert!(found[0].half(0.95) < 1e-6);
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
            held += usize::from((exponent.value - 1.0).abs() <= exponent.half(0.95));
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

//! Estimates with their errors: means, paired and independent differences, exponents.

use super::records::Sample;
use crate::exponents::fit;
use crate::statistics::{deviation, jackknife, mean, student_cdf, student_quantile};

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
    /// ([`best`](super::records::best)).
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

/// The mean of one sample less that of another: of differences where both have the same draws and seeds, else by Welch.
pub(crate) fn difference(one: &Sample, other: &Sample) -> Estimated {
    if one.keys().eq(other.keys()) {
        return of_mean(&one.iter().map(|(place, value)| (*place, value - other[place])).collect());
    }
    of_mean(one).minus(&of_mean(other))
}

/// An exponent by least squares in logarithms. The error is the greater one of draws and of the misfit of the power law: `seeds`
/// are the fits of each seed, or with `is_jackknife` those without each draw.
pub(crate) fn exponent(
    rows: &[(Vec<f64>, f64)],
    variable: usize,
    seeds: &[f64],
    is_jackknife: bool,
) -> Option<Estimated> {
    let whole = fit(rows)?.get(variable).copied().filter(|whole| whole.value.is_finite())?;
    let freedom = (rows.len() - rows[0].0.len() - 1) as f64;
    let misfit = 0.5 * (whole.high - whole.low) / student_quantile(0.975, freedom);
    let count = seeds.len() as f64;
    let of_draws = match seeds.len() {
        0 | 1 => 0.0,
        _ if is_jackknife => jackknife(seeds),
        _ => deviation(seeds) / count.sqrt(),
    };
    let half = |error: f64, freedom: f64| student_quantile(0.975, freedom) * error;
    let value = if is_jackknife || seeds.is_empty() { whole.value } else { mean(seeds) };
    let count = seeds.len();
    if half(of_draws, count as f64 - 1.0) > half(misfit, freedom) {
        return Some(Estimated { value, error: of_draws, freedom: count as f64 - 1.0, count });
    }
    Some(Estimated { value, error: misfit, freedom, count })
}

//! Statistics: quantiles and bootstrap intervals of times, means over seeds and draws of the data with Student's intervals, and
//! what makes samples untrustworthy.
//!
//! Times are skewed and have outliers, so statistics of times are about medians. Every random choice takes a seed: the
//! same samples give the same interval. Nothing here knows what was measured.

use std::collections::BTreeMap;

pub use rounds_algorithms::privacy::{normal_quantile, student_cdf, student_quantile};
pub use rounds_models::choices::Choices;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An interval with its end points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval with these end points.
    pub fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// True for a value in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A number and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// A number with its interval.
    pub fn new(value: f64, Interval { low, high }: Interval) -> Self {
        Self { value, low, high }
    }

    /// The ends of the interval; none where too few values were measured for one.
    pub fn ends(&self) -> Option<(f64, f64)> {
        (self.low.is_finite() && self.high.is_finite()).then_some((self.low, self.high))
    }
}

/// The mean; NaN for no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a value, by n − 1.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// The standard error of a number by the jackknife, from its values without each draw.
pub(crate) fn jackknife(without: &[f64]) -> f64 {
    let count = without.len() as f64;
    (count - 1.0) * deviation(without) / count.sqrt()
}

/// The mean of `values` and its two-sided interval at confidence `level`, by Student's t; without ends (NaN) for fewer than two
/// values.
pub fn of_mean(values: &[f64], level: f64) -> Estimate {
    let (value, count) = (mean(values), values.len() as f64);
    let half = if values.len() < 2 {
        f64::NAN
    } else {
        student_quantile(0.5 + 0.5 * level, count - 1.0) * deviation(values) / count.sqrt()
    };
    Estimate::new(value, Interval::new(value - half, value + half))
}

/// The mean of values by draw of the data, and its interval at confidence `level`.
///
/// With one draw the interval is over its values. With several, values of one draw share their data: the interval is over the
/// means of the draws, which covers seeds and draws.
pub fn of_draws(values: &[(usize, f64)], level: f64) -> Estimate {
    let mut draws: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for &(draw, value) in values {
        draws.entry(draw).or_default().push(value);
    }
    if draws.len() > 1 {
        of_mean(&draws.values().map(|own| mean(own)).collect::<Vec<_>>(), level)
    } else {
        of_mean(&draws.into_values().flatten().collect::<Vec<_>>(), level)
    }
}

/// Integers, such as nanoseconds, as numbers.
pub fn as_numbers(samples: &[u64]) -> Vec<f64> {
    samples.iter().map(|&sample| sample as f64).collect()
}

/// The median: the middle value, or the mean of the two middle ones. NaN for no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted_quantile(&sorted, 0.5)
}

/// The quantile of sorted samples at `probability` ∈ [0, 1], linear between order statistics (Hyndman and Fan's type 7). NaN for
/// no samples.
pub fn sorted_quantile(sorted: &[f64], probability: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = probability.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Percentile-bootstrap interval of the median at `level` (0.95, say) from `resamples` resamples.
///
/// The median is a monotone function of places in the sorted samples, so places are resampled, not values.
pub fn bootstrap_median(samples: &[f64], level: f64, resamples: usize, seed: u64) -> Interval {
    if samples.is_empty() {
        return Interval::new(f64::NAN, f64::NAN);
    }
    let mut choices = Choices::new(seed);
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len();
    let mut places = vec![0; count];
    let mut medians: Vec<f64> = (0..resamples)
        .map(|_| {
            places.fill_with(|| choices.below(count));
            let (lower, &mut upper_middle, _) = places.select_nth_unstable(count / 2);
            if count % 2 == 1 {
                sorted[upper_middle]
            } else {
                let lower_middle = *lower.iter().max().expect("an even count has a lower half");
                f64::midpoint(sorted[lower_middle], sorted[upper_middle])
            }
        })
        .collect();
    percentile_interval(&mut medians, level)
}

/// The central interval of `level` among values; sorts them.
pub fn percentile_interval(values: &mut [f64], level: f64) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Interval::new(sorted_quantile(values, tail), sorted_quantile(values, 1.0 - tail))
}

/// A warning about the samples of one cell, with the remedy.
#[derive(Debug, Clone, PartialEq, Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its variant")]
pub enum SampleWarning {
    #[error("only {count} samples: the interval is wide; ask for more with --repeats")]
    TooFew { count: usize },
    #[error("{percent:.0} % of the samples are far slower than the rest: other programs ran; stop them and run again")]
    Outliers { percent: f64 },
    #[error("the first rounds took {ratio:.1} times the median: caches were cold; ask for more warm-up rounds")]
    SlowStart { ratio: f64 },
    #[error(
        "times changed by {percent:+.1} % from the first third to the last: the machine's frequency or load drifted; \
         let it warm up, fix the frequency, and run again"
    )]
    Drift { percent: f64 },
    #[error(
        "times fall into two groups, {percent:.0} % apart: threads moved between cores or the frequency switched; pin \
         the threads and fix the frequency"
    )]
    Bimodal { percent: f64 },
}

impl SampleWarning {
    /// The kind in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TooFew { .. } => "too-few",
            Self::Outliers { .. } => "outliers",
            Self::SlowStart { .. } => "slow-start",
            Self::Drift { .. } => "drift",
            Self::Bimodal { .. } => "bimodal",
        }
    }
}

/// Examines samples in the order they were taken. An empty answer means nothing stands out.
///
/// The limits are chosen so that independent samples, normal or log-normal, raise any warning (but `TooFew`) in less
/// than 1 % of the cases; a test holds that.
pub fn examine(samples: &[f64]) -> Vec<SampleWarning> {
    let count = samples.len();
    if count < 5 {
        return vec![SampleWarning::TooFew { count }];
    }
    let mut warnings = Vec::new();
    let middle = median(samples);
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    // 1.4826 turns the median absolute deviation into a standard deviation for normal samples; a spread below a
    // thousandth of the median is the clock's grain.
    let spread = (1.4826 * median(&deviations)).max(1e-3 * middle);
    let far = |sample: f64| sample - middle > 10.0 * spread;

    if far(samples[0]) && samples[0] > 1.5 * middle {
        warnings.push(SampleWarning::SlowStart { ratio: samples[0] / middle });
    }
    let outliers = samples[1..].iter().filter(|sample| far(**sample)).count();
    // The median does not move for fewer than one in twenty.
    if outliers * 20 > count {
        warnings.push(SampleWarning::Outliers { percent: 100.0 * outliers as f64 / count as f64 });
    }
    if count >= 12 {
        let third = count / 3;
        let (first, last) = (&samples[..third], &samples[count - third..]);
        let change = median(last) / median(first) - 1.0;
        if change.abs() > 0.03 && rank_sum_score(first, last).abs() > 3.5 {
            warnings.push(SampleWarning::Drift { percent: 100.0 * change });
        }
        if let Some(distance) = two_groups(samples) {
            warnings.push(SampleWarning::Bimodal { percent: 100.0 * distance });
        }
    }
    warnings
}

/// The warnings about several series of samples, each kind once.
pub fn examine_all(series: &[Vec<f64>]) -> Vec<SampleWarning> {
    let mut warnings: Vec<SampleWarning> = Vec::new();
    for warning in series.iter().flat_map(|samples| examine(samples)) {
        if !warnings.iter().any(|known| known.name() == warning.name()) {
            warnings.push(warning);
        }
    }
    warnings
}

/// The Wilcoxon rank-sum statistic of `second` against `first`, standardised (ties count half).
fn rank_sum_score(first: &[f64], second: &[f64]) -> f64 {
    let (m, n) = (first.len() as f64, second.len() as f64);
    let mut sorted = first.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let larger: f64 = second
        .iter()
        .map(|value| {
            let below = sorted.partition_point(|other| other < value);
            let not_above = sorted.partition_point(|other| other <= value);
            (below + not_above) as f64 / 2.0
        })
        .sum();
    (larger - m * n / 2.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

/// The relative distance between two groups of samples where there are two: the split of the sorted samples that
/// leaves least variance within, each group at least 15 %, their means more than 6 standard deviations (within) and
/// 5 % apart. A normal sample splits at 2.7 standard deviations, a uniform one at 3.5.
fn two_groups(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // Outliers are another warning's matter.
    let sorted = &sorted[sorted.len() / 50..sorted.len() - sorted.len() / 50];
    let count = sorted.len();
    let (mut sums, mut squares) = (vec![0.0; count + 1], vec![0.0; count + 1]);
    for (place, value) in sorted.iter().enumerate() {
        let centred = value - sorted[count / 2];
        sums[place + 1] = sums[place] + centred;
        squares[place + 1] = squares[place] + centred * centred;
    }
    let scatter = |start: usize, end: usize| {
        let (sum, square) = (sums[end] - sums[start], squares[end] - squares[start]);
        square - sum * sum / (end - start) as f64
    };
    let smallest = (count * 15).div_ceil(100).max(2);
    let within = |split: &usize| scatter(0, *split) + scatter(*split, count);
    let split = (smallest..=count.checked_sub(smallest)?).min_by(|a, b| within(a).total_cmp(&within(b)))?;
    let mean = |start: usize, end: usize| sorted[count / 2] + (sums[end] - sums[start]) / (end - start) as f64;
    let (low, high) = (mean(0, split), mean(split, count));
    let deviation = (within(&split).max(0.0) / count as f64).sqrt();
    let distance = (high - low) / low;
    (high - low > 6.0 * deviation && distance > 0.05).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(count: usize, choices: &mut Choices) -> Vec<f64> {
        (0..count).map(|_| choices.normal()).collect()
    }

    #[test]
    fn quantiles_are_linear_between_order_statistics() {
        // R: quantile(c(1, 2, 4, 8), c(0, .1, .5, .9, 1)), type 7.
        let samples = [1.0, 2.0, 4.0, 8.0];
        for (probability, expected) in [(0.0, 1.0), (0.1, 1.3), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            assert!((sorted_quantile(&samples, probability) - expected).abs() < 1e-12, "{probability}");
        }
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let samples: Vec<f64> = normals(51, &mut Choices::new(1));
        assert_eq!(bootstrap_median(&samples, 0.95, 500, 7), bootstrap_median(&samples, 0.95, 500, 7));
        assert_ne!(bootstrap_median(&samples, 0.95, 500, 7), bootstrap_median(&samples, 0.95, 500, 8));
    }

    #[test]
    fn the_median_interval_covers_as_often_as_it_says() {
        let mut choices = Choices::new(2);
        let trials = 1000;
        let covered = (0..trials)
            .filter(|&trial| bootstrap_median(&normals(40, &mut choices), 0.95, 400, trial).contains(0.0))
            .count();
        // Binomial(1000, 0.95) has standard deviation 6.9; the percentile bootstrap of a median is off by a point or
        // two at 40 samples.
        assert!((910..=985).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut choices = Choices::new(4);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            choices.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        let chi_squared: f64 = counts.values().map(|&count| f64::from(count - 1000_i32).powi(2) / 1000.0).sum();
        // χ² with 5 degrees of freedom exceeds 37.0 with probability 6e-7.
        assert!(counts.len() == 6 && chi_squared < 37.0, "{counts:?}");
    }

    #[test]
    fn independent_samples_rarely_raise_a_warning() {
        let mut choices = Choices::new(5);
        let mut warned = 0;
        for trial in 0..1000 {
            let count = 12 + trial % 200;
            let log_normal = trial % 2 == 0;
            let samples: Vec<f64> = normals(count, &mut choices)
                .into_iter()
                .map(|normal| if log_normal { (0.1 * normal).exp() } else { 1.0 + 0.03 * normal })
                .collect();
            warned += usize::from(!examine(&samples).is_empty());
        }
        assert!(warned < 10, "{warned} of 1000");
    }

    #[test]
    fn each_warning_is_raised_and_carries_its_remedy() {
        let mut choices = Choices::new(6);
        let quiet: Vec<f64> = normals(90, &mut choices).into_iter().map(|normal| 1.0 + 0.01 * normal).collect();
        let changed = |change: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            quiet.iter().enumerate().map(|(place, &sample)| change(place, sample)).collect()
        };
        let cases: [(Vec<f64>, &str, &str); 5] = [
            (quiet[..4].to_vec(), "only 4 samples", "--repeats"),
            (changed(&|place, sample| if place % 15 == 3 { 3.0 * sample } else { sample }), "far slower", "stop them"),
            (changed(&|place, sample| if place == 0 { 5.0 } else { sample }), "first rounds", "warm-up"),
            (
                changed(&|place, sample| sample * (1.0 + 0.001 * place as f64)),
                "from the first third",
                "fix the frequency",
            ),
            (changed(&|place, sample| if place % 2 == 0 { 1.3 * sample } else { sample }), "two groups", "pin"),
        ];
        for (samples, symptom, remedy) in cases {
            let warnings = examine(&samples);
            assert_eq!(warnings.len(), 1, "{symptom}: {warnings:?}");
            let message = warnings[0].to_string();
            assert!(message.contains(symptom) && message.contains(remedy), "{message}");
        }
        assert!(examine(&quiet).is_empty());
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        let interval = of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert_eq!(interval.value, 3.0);
        assert!((interval.high - 3.0 - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 0.01);
        let single = of_mean(&[7.0], 0.95);
        assert_eq!((single.value, single.ends()), (7.0, None));
        assert!(of_mean(&[], 0.95).value.is_nan());
    }

    #[test]
    fn draws_are_the_units_where_there_are_several() {
        // Two seeds agree on each of three draws, so that six values tell no more than three.
        let values = [(0, 1.0), (0, 1.0), (1, 2.0), (1, 2.0), (2, 3.0), (2, 3.0)];
        let interval = of_draws(&values, 0.95);
        let alone = of_mean(&[1.0, 2.0, 3.0], 0.95);
        assert_eq!(interval, alone);
    }
}

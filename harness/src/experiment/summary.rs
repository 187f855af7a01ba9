//! Means with their intervals, over seeds and over draws of the data.

use serde::{Deserialize, Serialize};

use crate::statistics::normal_quantile;

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanInterval {
    /// The mean; NaN for no values.
    pub mean: f64,
    /// Lower end; the mean itself for fewer than two values.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Standard deviation of a value.
    pub standard_deviation: f64,
}

/// The mean of `values` and its two-sided interval at confidence `level`, by Student's t.
pub fn of_mean(values: &[f64], level: f64) -> MeanInterval {
    of_draws(&values.iter().map(|&value| (0, value)).collect::<Vec<_>>(), level)
}

/// The mean of values by draw of the data, and its interval at confidence `level`.
///
/// With one draw the interval is over its values. With several, values of one draw share their data: the interval is over the
/// means of the draws, which covers seeds and draws.
pub fn of_draws(values: &[(usize, f64)], level: f64) -> MeanInterval {
    let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let mut draws: Vec<usize> = values.iter().map(|(draw, _)| *draw).collect();
    draws.sort_unstable();
    draws.dedup();
    let of_draw = |draw: usize| {
        let own: Vec<f64> = values
            .iter()
            .filter(|(other, _)| *other == draw)
            .map(|(_, value)| *value)
            .collect();
        mean(&own)
    };
    let units: Vec<f64> = if draws.len() > 1 {
        draws.into_iter().map(of_draw).collect()
    } else {
        all.clone()
    };
    let mean = mean(&units);
    let half = if units.len() < 2 {
        0.0
    } else {
        student_quantile(0.5 + 0.5 * level, units.len() as f64 - 1.0) * deviation(&units) / (units.len() as f64).sqrt()
    };
    MeanInterval {
        mean,
        low: mean - half,
        high: mean + half,
        standard_deviation: if all.len() < 2 { 0.0 } else { deviation(&all) },
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

/// The quantile of Student's t by the Cornish–Fisher expansion around the normal one: within 0.5 % from 4 degrees of freedom
/// on, 6 % at 2; for a probability in (1/2, 1).
pub fn student_quantile(probability: f64, freedom: f64) -> f64 {
    let z = normal_quantile(probability);
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * freedom.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (probability, freedom, table) in [
            (0.975, 4.0, 2.776),
            (0.975, 19.0, 2.093),
            (0.98, 99.0, 2.081),
            (0.995, 9.0, 3.250),
            (0.975, 1e9, 1.960),
        ] {
            let found = student_quantile(probability, freedom);
            assert!((found / table - 1.0).abs() < 5e-3, "{found} {table}");
        }
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        let interval = of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert_eq!(interval.mean, 3.0);
        assert!((interval.high - 3.0 - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 0.01);
        assert_eq!(of_mean(&[7.0], 0.95).high, 7.0);
        assert!(of_mean(&[], 0.95).mean.is_nan());
    }

    #[test]
    fn draws_are_the_units_where_there_are_several() {
        // Two seeds agree on each of three draws, so that six values tell no more than three.
        let values = [(0, 1.0), (0, 1.0), (1, 2.0), (1, 2.0), (2, 3.0), (2, 3.0)];
        let interval = of_draws(&values, 0.95);
        let alone = of_mean(&[1.0, 2.0, 3.0], 0.95);
        assert_eq!(
            (interval.mean, interval.low, interval.high),
            (alone.mean, alone.low, alone.high)
        );
    }
}

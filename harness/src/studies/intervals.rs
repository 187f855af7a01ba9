//! Intervals of means, by Student's t.

use crate::statistics::normal_quantile;

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// The mean of `values` and its two-sided interval at confidence `level`.
pub fn of_mean(values: &[f64], level: f64) -> MeanInterval {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return MeanInterval {
            mean,
            low: mean,
            high: mean,
            standard_deviation: 0.0,
        };
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = t_quantile(0.5 + 0.5 * level, values.len() - 1) * (variance / count).sqrt();
    MeanInterval {
        mean,
        low: mean - half,
        high: mean + half,
        standard_deviation: variance.sqrt(),
    }
}

/// The quantile of Student's t by the Cornish–Fisher expansion (within 0.5 % from 4 degrees of freedom on), for a
/// probability in (1/2, 1).
fn t_quantile(probability: f64, degrees: usize) -> f64 {
    let (z, v) = (normal_quantile(probability), degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / v + second / (v * v) + third / (v * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (probability, degrees, table) in [
            (0.975, 4, 2.776),
            (0.975, 19, 2.093),
            (0.98, 99, 2.081),
            (0.995, 9, 3.250),
        ] {
            let found = t_quantile(probability, degrees);
            assert!((found / table - 1.0).abs() < 5e-3, "{found} {table}");
        }
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        let interval = of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert_eq!(interval.mean, 3.0);
        assert!((interval.high - 3.0 - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 0.01);
        assert_eq!(of_mean(&[7.0], 0.95).high, 7.0);
    }
}

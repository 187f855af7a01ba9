//! A lower bound from released models alone: statistics that know nothing of algorithm, plan or noise.
//!
//! Each statistic of a fixed list is learned, with its threshold and the side of its alarm, on the first half of the
//! models; its errors are counted on the other half. The best bound counts, its error shared out over the list.

use rounds_algorithms::audit::TestErrors;

/// A number computed from a model. The list is fixed before the models are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// The mean difference's direction, each coordinate over its variance, on the coordinates (at most so many) where the
    /// difference is largest in standard deviations.
    MeanDifference(usize),
    /// ln of the mean square of all coordinates: a divisor or rate that depends on the rows shows here.
    LogVariance,
}

impl Statistic {
    /// The list.
    const ALL: [Self; 4] =
        [Self::MeanDifference(1), Self::MeanDifference(100), Self::MeanDifference(usize::MAX), Self::LogVariance];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MeanDifference(1) => "the coordinate that differs most",
            Self::MeanDifference(usize::MAX) => "mean difference",
            Self::MeanDifference(_) => "mean difference of few coordinates",
            Self::LogVariance => "log-variance",
        }
    }

    /// The statistic as a function of a model, learned from models of either kind.
    fn learned(self, models: [&[Vec<f32>]; 2]) -> Box<dyn Fn(&[f32]) -> f64> {
        let Self::MeanDifference(most) = self else {
            return Box::new(|model| {
                let squares: f64 = model.iter().map(|&x| f64::from(x).powi(2)).sum();
                (squares / model.len() as f64).max(f64::MIN_POSITIVE).ln()
            });
        };
        let mean = |models: &[Vec<f32>], coordinate: usize| {
            models.iter().map(|model| f64::from(model[coordinate])).sum::<f64>() / models.len() as f64
        };
        // (coordinate, weight, difference in standard deviations)
        let mut weights: Vec<(usize, f64, f64)> = (0..models[0][0].len())
            .map(|coordinate| {
                let means = models.map(|models| mean(models, coordinate));
                let squares = models.iter().zip(means).flat_map(|(models, mean)| {
                    models.iter().map(move |model| (f64::from(model[coordinate]) - mean).powi(2))
                });
                let count = (models[0].len() + models[1].len()) as f64;
                // A coordinate that moves without noise must not drown in a division by 0.
                let variance = squares.sum::<f64>() / count + 1e-12 * means[0].powi(2).max(1e-12);
                let difference = means[1] - means[0];
                (coordinate, difference / variance, difference.abs() / variance.sqrt())
            })
            .collect();
        if most < weights.len() {
            weights.sort_by(|left, right| right.2.total_cmp(&left.2));
            weights.truncate(most);
        }
        Box::new(move |model| {
            let terms = weights.iter().map(|&(coordinate, weight, _)| weight * f64::from(model[coordinate]));
            terms.sum()
        })
    }
}

/// A lower bound on ε from released models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReleasedBound {
    /// The statistic that gave it.
    pub(crate) statistic: Statistic,
    /// ε is at least this at the δ that was asked about.
    pub(crate) epsilon: f64,
    /// Models of each kind whose errors were counted.
    pub(crate) trials: u64,
    /// Alarms on models of the first kind.
    pub(crate) false_alarms: u64,
    /// No alarm on models of the second kind.
    pub(crate) misses: u64,
}

/// The best lower bound on ε at `delta` over the statistics, from as many models of either kind. It exceeds the truth with a
/// probability of at most `error`.
///
/// # Panics
/// Fewer than two models of a kind, or models of different lengths.
pub(crate) fn released_bound(models: [&[Vec<f32>]; 2], delta: f64, error: f64) -> ReleasedBound {
    let half = models[0].len().min(models[1].len()) / 2;
    assert!(half > 0, "two models of each kind are needed");
    let error = error / Statistic::ALL.len() as f64;
    let bounds = Statistic::ALL.map(|statistic| {
        let value = statistic.learned(models.map(|models| &models[..half]));
        let values = |range: std::ops::Range<usize>| {
            models.map(|models| models[range.clone()].iter().map(|model| value(model)).collect::<Vec<f64>>())
        };
        let learned = values(0..half);
        let candidates = learned.iter().flatten().flat_map(|&threshold| [(threshold, 1.0), (threshold, -1.0)]);
        let bound = |values: &[Vec<f64>; 2], (threshold, side): (f64, f64)| {
            let alarms = |values: &[f64]| values.iter().filter(|&&x| side * (x - threshold) > 0.0).count() as u64;
            let (trials, false_alarms) = (values[0].len() as u64, alarms(&values[0]));
            let misses = trials - alarms(&values[1]);
            ReleasedBound {
                statistic,
                epsilon: TestErrors::from_counts(false_alarms, misses, trials, error).log_ratio(delta),
                trials,
                false_alarms,
                misses,
            }
        };
        // Between thresholds of the same bound, the one with the fewest errors.
        let score = |found: &ReleasedBound| (found.epsilon, -((found.false_alarms + found.misses) as f64));
        let best = candidates
            .map(|test| (score(&bound(&learned, test)), test))
            .max_by(|left, right| left.0.0.total_cmp(&right.0.0).then(left.0.1.total_cmp(&right.0.1)))
            .map_or((0.0, 1.0), |(_, test)| test);
        bound(&values(half..2 * half), best)
    });
    bounds
        .into_iter()
        .reduce(|best, other| if other.epsilon > best.epsilon { other } else { best })
        .expect("a list of statistics")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

    /// Models of noise times `scale`, the first coordinate moved by `shift`.
    fn models(seed: u64, (count, parameters): (usize, usize), scale: f32, shift: f32) -> Vec<Vec<f32>> {
        (0..count as u64)
            .map(|run| {
                let mut model = vec![0.0; parameters];
                fill_gaussian(&StreamKey::Simulation(seed), Purpose(9), run, scale, &mut model);
                model[0] += shift;
                model
            })
            .collect()
    }

    #[test]
    fn a_divisor_of_29_against_30_is_found_in_the_scale_of_models_as_by_the_review() {
        let size = (150, 4_000);
        let (same, other) = (models(1, size, 1.0, 0.0), models(2, size, 1.0, 0.0));
        assert_eq!(released_bound([&same, &other], 1e-5, 1e-4).epsilon, 0.0);
        let broken = models(2, size, 30.0 / 29.0, 0.0);
        let found = released_bound([&same, &broken], 1e-5, 1e-4);
        assert_eq!(found.statistic, Statistic::LogVariance);
        assert!(found.epsilon > 1.0, "{found:?}");
    }

    #[test]
    fn a_shift_of_one_coordinate_among_many_is_found() {
        let size = (200, 1_000);
        let (same, moved) = (models(3, size, 1.0, 0.0), models(4, size, 1.0, 5.0));
        let found = released_bound([&same, &moved], 1e-5, 1e-4);
        assert!(found.epsilon > 1.5, "{found:?}");
        assert!(matches!(found.statistic, Statistic::MeanDifference(_)));
    }
}

//! Quality of predictions on labelled rows: formulas over labels and outputs. No files, no data sets.

use rayon::prelude::*;
use serde::Serialize;

const BINS: usize = 10;
/// Confusions of more classes are not counted: K² numbers would be more than a person or a program wants.
const MOST_CONFUSED_CLASSES: usize = 1000;

/// Outputs of classifiers on labelled rows.
pub struct Classified<'a> {
    /// Number of classes K.
    pub classes: usize,
    /// The class of each row, below K.
    pub labels: &'a [u32],
    /// The predicted classes.
    pub predictions: &'a [u32],
    /// Logits: K a row, row after row.
    pub logits: &'a [f64],
    /// The softmax of a row's logits is a distribution over the classes.
    pub are_probabilities: bool,
}

/// Quality of classifications. Values that the rows do not define are absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Classification {
    /// Share of rows that are predicted correctly.
    pub accuracy: f64,
    /// Mean over the classes that occur of the share of their rows that are predicted correctly.
    pub balanced_accuracy: f64,
    /// Area under the receiver operating characteristic; of more than two classes the mean of one class against the others,
    /// over the classes that occur. Absent if one class alone occurs.
    pub auc: Option<f64>,
    /// Mean of `−ln p` of the rows' classes. Absent of models without probabilities.
    pub log_loss: Option<f64>,
    /// Rows by class (first index) and prediction; absent above 1,000 classes.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Ten bins of equal width of the predicted probability: of two classes that of the second one and how often it occurs, of
    /// more that of the predicted class and how often it is right. Absent of models without probabilities.
    pub calibration: Option<Vec<Bin>>,
}

/// A bin of predicted probabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
    /// The bin's lowest probability.
    pub from: f64,
    /// The next bin's.
    pub to: f64,
    /// Rows in the bin.
    pub rows: u64,
    /// Mean predicted probability; absent of an empty bin.
    pub predicted: Option<f64>,
    /// Observed share; absent of an empty bin.
    pub observed: Option<f64>,
}

/// Quality of predicted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean of the absolute error.
    pub mae: f64,
    /// `1 − Σ(y − ŷ)² / Σ(y − ȳ)²`; absent if all targets are equal.
    pub r2: Option<f64>,
}

/// `softmax(logits)`.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - greatest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// `−ln softmax(logits)[class]`.
fn log_loss(logits: &[f64], class: usize) -> f64 {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - greatest).exp()).sum();
    greatest - logits[class] + sum.ln()
}

/// The share of pairs of a positive and a negative row in which the positive one has the higher score; a tie counts half. `None`
/// without such pairs.
fn area_under_curve(mut scored: Vec<(f64, bool)>) -> Option<f64> {
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut negatives, mut positives, mut won) = (0.0, 0.0, 0.0);
    for tied in scored.chunk_by(|a, b| a.0 == b.0) {
        let positive = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let negative = tied.len() as f64 - positive;
        won += positive * (negatives + 0.5 * negative);
        (negatives, positives) = (negatives + negative, positives + positive);
    }
    let pairs = negatives * positives;
    (pairs > 0.0).then(|| won / pairs)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

impl Classified<'_> {
    /// The quality of these predictions.
    ///
    /// # Panics
    /// No rows, or lists of other lengths.
    pub fn quality(&self) -> Classification {
        let rows = self.labels.len();
        assert!(rows > 0 && self.predictions.len() == rows && self.logits.len() == rows * self.classes);
        let mut of_class = vec![(0_u64, 0_u64); self.classes];
        for (&label, &prediction) in self.labels.iter().zip(self.predictions) {
            let (all, correct) = &mut of_class[label as usize];
            *all += 1;
            *correct += u64::from(label == prediction);
        }
        let correct: u64 = of_class.iter().map(|(_, correct)| correct).sum();
        let occurring: Vec<f64> =
            of_class.iter().filter(|(all, _)| *all > 0).map(|&(all, correct)| correct as f64 / all as f64).collect();
        let probabilistic = self.are_probabilities.then_some(());
        let by_row = || self.logits.chunks_exact(self.classes).zip(self.labels);
        Classification {
            accuracy: correct as f64 / rows as f64,
            balanced_accuracy: mean(occurring.into_iter()),
            auc: self.auc(),
            log_loss: probabilistic
                .map(|()| by_row().map(|(logits, &label)| log_loss(logits, label as usize)).sum::<f64>() / rows as f64),
            confusion: (self.classes <= MOST_CONFUSED_CLASSES).then(|| self.confusion()),
            calibration: probabilistic.map(|()| self.calibration()),
        }
    }

    fn auc(&self) -> Option<f64> {
        let by_row = || self.logits.chunks_exact(self.classes).zip(self.labels);
        if self.classes == 2 {
            // The difference of logits has fewer ties than the probability.
            let scored = by_row().map(|(logits, &label)| (logits[1] - logits[0], label == 1));
            return area_under_curve(scored.collect());
        }
        let probabilities: Vec<f64> = by_row().flat_map(|(logits, _)| softmax(logits)).collect();
        let one_against_rest = |class: usize| {
            let scored = probabilities.chunks_exact(self.classes).zip(self.labels);
            area_under_curve(scored.map(|(of, &label)| (of[class], label as usize == class)).collect())
        };
        let areas: Vec<f64> = (0..self.classes).into_par_iter().filter_map(one_against_rest).collect();
        (!areas.is_empty()).then(|| mean(areas.into_iter()))
    }

    fn confusion(&self) -> Vec<Vec<u64>> {
        let mut confusion = vec![vec![0; self.classes]; self.classes];
        for (&label, &prediction) in self.labels.iter().zip(self.predictions) {
            confusion[label as usize][prediction as usize] += 1;
        }
        confusion
    }

    fn calibration(&self) -> Vec<Bin> {
        let mut sums = [(0_u64, 0.0, 0_u64); BINS];
        let rows = self.logits.chunks_exact(self.classes).zip(self.labels).zip(self.predictions);
        for ((logits, &label), &prediction) in rows {
            let class = if self.classes == 2 { 1 } else { prediction };
            let probability = softmax(logits)[class as usize];
            let (rows, predicted, observed) = &mut sums[((probability * BINS as f64) as usize).min(BINS - 1)];
            *rows += 1;
            *predicted += probability;
            *observed += u64::from(label == class);
        }
        let bin = |(place, &(rows, predicted, observed)): (usize, &(u64, f64, u64))| Bin {
            from: place as f64 / BINS as f64,
            to: (place + 1) as f64 / BINS as f64,
            rows,
            predicted: (rows > 0).then(|| predicted / rows as f64),
            observed: (rows > 0).then(|| observed as f64 / rows as f64),
        };
        sums.iter().enumerate().map(bin).collect()
    }
}

impl Regression {
    /// The quality of these predictions.
    ///
    /// # Panics
    /// No rows, or lists of other lengths.
    pub fn of(targets: &[f64], predictions: &[f64]) -> Self {
        assert!(!targets.is_empty() && targets.len() == predictions.len());
        let errors = || targets.iter().zip(predictions).map(|(target, prediction)| target - prediction);
        let squared = mean(errors().map(|error| error * error));
        let centre = mean(targets.iter().copied());
        let variance = mean(targets.iter().map(|target| (target - centre).powi(2)));
        // The rounding of the mean is no spread.
        let varies = targets.iter().any(|target| *target != targets[0]);
        Self { rmse: squared.sqrt(), mae: mean(errors().map(f64::abs)), r2: varies.then(|| 1.0 - squared / variance) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes with these probabilities of the second one.
    fn binary(rows: &[(f64, u32)]) -> Classification {
        let logits: Vec<f64> = rows.iter().flat_map(|(p, _)| [0.0, (p / (1.0 - p)).ln()]).collect();
        let labels: Vec<u32> = rows.iter().map(|(_, label)| *label).collect();
        let predictions: Vec<u32> = rows.iter().map(|(p, _)| u32::from(*p >= 0.5)).collect();
        let classified = Classified {
            classes: 2,
            labels: &labels,
            predictions: &predictions,
            logits: &logits,
            are_probabilities: true,
        };
        classified.quality()
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }

    #[test]
    fn two_classes_have_the_values_of_the_formulas() {
        // scikit-learn's example of roc_auc_score, and a confident row that is wrong.
        let found = binary(&[(0.1, 0), (0.4, 0), (0.35, 1), (0.8, 1), (0.9, 0)]);
        assert_eq!((found.accuracy, found.auc), (0.6, Some(0.5)));
        assert_near(found.balanced_accuracy, 7.0 / 12.0);
        let product: f64 = 0.9 * 0.6 * 0.35 * 0.8 * 0.1;
        assert_near(found.log_loss.unwrap(), -product.ln() / 5.0);
        assert_eq!(found.confusion.unwrap(), [[2, 1], [1, 1]]);
        let bins = found.calibration.unwrap();
        let rows: Vec<u64> = bins.iter().map(|bin| bin.rows).collect();
        assert_eq!(rows.iter().sum::<u64>(), 5);
        assert_eq!((bins[3].rows, bins[3].observed), (1, Some(1.0)));
        assert_near(bins[3].predicted.unwrap(), 0.35);
        assert_eq!((bins[5].from, bins[5].to, bins[5].predicted), (0.5, 0.6, None));
    }

    #[test]
    fn ties_count_half_and_one_class_has_no_area() {
        assert_eq!(binary(&[(0.1, 0), (0.4, 0), (0.35, 1), (0.8, 1)]).auc, Some(0.75));
        assert_eq!(binary(&[(0.5, 0), (0.5, 1), (0.5, 1)]).auc, Some(0.5));
        assert_eq!(binary(&[(0.2, 0), (0.5, 0), (0.5, 1)]).auc, Some(0.75));
        let alone = binary(&[(0.2, 1), (0.7, 1)]);
        assert_eq!((alone.auc, alone.accuracy, alone.balanced_accuracy), (None, 0.5, 0.5));
    }

    #[test]
    fn more_classes_are_averaged_over_those_that_occur() {
        // Logits of 4 rows; the last class never occurs, and saturated ones give no NaN.
        let logits = [[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0], [0.0, 1e4, 0.0]].concat();
        let classified = Classified {
            classes: 3,
            labels: &[0, 1, 0, 1],
            predictions: &[0, 1, 2, 1],
            logits: &logits,
            are_probabilities: true,
        };
        let found = classified.quality();
        assert_eq!((found.accuracy, found.balanced_accuracy, found.auc), (0.75, 0.75, Some(1.0)));
        let [a, b, c] = [0.0_f64, 1.0, 2.0].map(f64::exp);
        let expected = -((c / (a + b + c)).ln() * 2.0 + (b / (a + b + c)).ln()) / 4.0;
        assert_near(found.log_loss.unwrap(), expected);
        let bins = found.calibration.unwrap();
        assert_eq!((bins[6].rows, bins[9].rows), (3, 1));
        assert_near(bins[6].observed.unwrap(), 2.0 / 3.0);
        let margins = Classified { are_probabilities: false, ..classified };
        let found = margins.quality();
        assert_eq!((found.log_loss, found.calibration), (None, None));
    }

    #[test]
    fn errors_of_numbers_are_those_of_the_formulas() {
        // scikit-learn's example of r2_score.
        let found = Regression::of(&[3.0, -0.5, 2.0, 7.0], &[2.5, 0.0, 2.0, 8.0]);
        assert_near(found.rmse, 0.375_f64.sqrt());
        assert_near(found.mae, 0.5);
        assert_near(found.r2.unwrap(), 0.948_608_137_044_967_9);
        assert_eq!(Regression::of(&[0.1; 3], &[0.1, 0.2, 0.3]).r2, None);
    }
}

//! Predictions of a model for rows, and their quality, as documents.

use rounds_algorithms::problem::{Dataset, Labels};
use serde::Serialize;

use crate::data::{ModelRows, listing};
use crate::evaluation::{Classification, Classified, Regression, softmax};
use crate::model_file::{Model, Target};

/// The prediction for a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prediction {
    /// The name of a class.
    Class(String),
    /// A number. The weights are f32, and more digits would be noise.
    Number(f32),
}

/// Predictions for rows, in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predictions {
    /// Names of the classes; none of a model of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// None for a row outside of the model's domain.
    pub predictions: Vec<Option<Prediction>>,
    /// In the order of the classes; none likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<Option<Vec<f32>>>>,
}

/// The quality of a model on some rows.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The algorithm's id.
    pub algorithm: String,
    /// The loss.
    pub loss: String,
    /// SHA-256 of the weights.
    pub model_sha256: String,
    /// The name of the data set.
    pub dataset: String,
    /// Rows are the test rows of a data set that has training rows, too.
    pub test_rows: bool,
    /// Rows that were evaluated.
    pub rows: usize,
    /// Rows that were left out: without a label or outside of the model's domain.
    pub left_out: usize,
    /// Names of the classes; none of a model of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// The quality.
    #[serde(flatten)]
    pub quality: Assessment,
    /// The place of these numbers beside the statement.
    pub note: &'static str,
}

/// The quality of predictions.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Assessment {
    /// Of classes.
    Classification(Classification),
    /// Of numbers.
    Regression(Regression),
}

/// Rows of which none can be evaluated.
#[derive(Debug, thiserror::Error)]
#[error("no row has a label and all values that the model's schema declares; {known}")]
pub struct NoLabels {
    known: String,
}

/// The quality of a model of numbers with these outputs, on the rows that are not null, of which there is one at least.
pub(crate) fn regression(dataset: &Dataset, target: &Target, outputs: &[f64]) -> Regression {
    let Labels::Values(values) = dataset.labels() else { unreachable!("labels of a model of numbers are numbers") };
    let rows = || (0..dataset.len()).filter(|&row| !dataset.is_null(row));
    let targets: Vec<f64> = rows().map(|row| target.number(f64::from(values[row]))).collect();
    let predictions: Vec<f64> = rows().map(|row| target.number(outputs[row])).collect();
    Regression::of(&targets, &predictions)
}

impl Model {
    /// Predictions for rows that this model has [loaded](Self::load), with the probability of each class if they are asked for and the
    /// loss has any.
    ///
    /// # Panics
    /// Rows with another number of features.
    pub fn predict(&self, rows: &Dataset, with_probabilities: bool) -> Predictions {
        let outputs = self.outputs(rows.rows());
        let by_row = outputs.chunks_exact(outputs.len() / rows.len().max(1)).enumerate();
        let by_row = by_row.map(|(row, outputs)| (!rows.is_null(row)).then_some(outputs));
        let prediction = |outputs: &[f64]| match self.classes() {
            Some(classes) => Prediction::Class(classes[Self::class(outputs)].clone()),
            None => Prediction::Number(self.header.data.target.number(outputs[0]) as f32),
        };
        let probabilities = |outputs: &[f64]| -> Vec<f32> {
            let of_classes = softmax(&Self::logits(outputs));
            of_classes.into_iter().map(|probability| probability as f32).collect()
        };
        let with_probabilities = with_probabilities && self.has_probabilities();
        Predictions {
            classes: self.classes().map(<[String]>::to_vec),
            predictions: by_row.clone().map(|outputs| outputs.map(prediction)).collect(),
            probabilities: with_probabilities.then(|| by_row.map(|outputs| outputs.map(probabilities)).collect()),
        }
    }

    /// The quality of this model on labelled rows that it has [loaded](Self::load). It is not covered by the privacy statement.
    ///
    /// # Errors
    /// Rows without labels.
    ///
    /// # Panics
    /// Rows with another number of features.
    pub fn evaluate(&self, rows: ModelRows) -> Result<Evaluation, NoLabels> {
        let ModelRows { dataset, are_test_rows } = rows;
        let name = dataset.name().to_owned();
        let outputs = self.outputs(dataset.rows());
        let width = outputs.len() / dataset.len().max(1);
        let labelled: Vec<usize> = (0..dataset.len()).filter(|&row| !dataset.is_null(row)).collect();
        let left_out = dataset.len() - labelled.len();
        if labelled.is_empty() {
            let known = self.classes().map_or_else(
                || "a number is needed".to_owned(),
                |classes| format!("the model knows the classes {}", listing(classes)),
            );
            return Err(NoLabels { known });
        }
        let outputs_of = |row: usize| &outputs[row * width..(row + 1) * width];
        let quality = if let Some(classes) = self.classes() {
            let labels = match dataset.into_parts().1 {
                Labels::Classes { values, .. } => values,
                Labels::Values(values) => values.into_iter().map(|value| u32::from(value > 0.0)).collect(),
            };
            let labels: Vec<u32> = labelled.iter().map(|&row| labels[row]).collect();
            let predictions = labelled.iter().map(|&row| Self::class(outputs_of(row)) as u32);
            let logits = labelled.iter().flat_map(|&row| Self::logits(outputs_of(row)));
            let classified = Classified {
                classes: classes.len(),
                labels: &labels,
                predictions: &predictions.collect::<Vec<_>>(),
                logits: &logits.collect::<Vec<_>>(),
                are_probabilities: self.has_probabilities(),
            };
            Assessment::Classification(classified.quality())
        } else {
            Assessment::Regression(regression(&dataset, &self.header.data.target, &outputs))
        };
        Ok(Evaluation {
            algorithm: self.header.algorithm.clone(),
            loss: self.header.loss.clone(),
            model_sha256: self.header.model_sha256.clone(),
            dataset: name,
            test_rows: are_test_rows,
            rows: labelled.len(),
            left_out,
            classes: self.classes().map(<[String]>::to_vec),
            quality,
            note: "not covered by the model's privacy statement",
        })
    }
}

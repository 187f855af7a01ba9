//! `rounds evaluate`: the quality of a model's predictions on labelled rows.

use rounds_algorithms::problem::{Dataset, Labels};
use serde::Serialize;

use super::predict::ModelAndData;
use super::{Output, output};
use crate::format::{plural, three_digits};
use rounds_models::data::{LabelUse, ModelRows};
use rounds_models::evaluation::{Bin, Classification, Classified, Regression};
use rounds_models::model_file::{Model, Target};

/// Arguments of `rounds evaluate`.
#[derive(clap::Args)]
pub struct EvaluateArguments {
    #[command(flatten)]
    rows: ModelAndData,
}

/// Confusions of more classes are not shown as a matrix.
const MOST_COLUMNS: usize = 10;

/// The quality of a model on some rows.
#[derive(Serialize)]
struct Evaluation {
    algorithm: String,
    loss: String,
    model_sha256: String,
    dataset: String,
    /// Rows are the test rows of a data set that has training rows, too.
    test_rows: bool,
    rows: usize,
    /// Rows that were left out: without a label or outside of the model's domain.
    left_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<String>>,
    #[serde(flatten)]
    quality: Quality,
    note: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Quality {
    Classification(Classification),
    Regression(Regression),
}

/// The quality of a model of numbers with these outputs, on the rows that are not null, of which there is one at least.
pub(super) fn regression(dataset: &Dataset, target: &Target, outputs: &[f64]) -> Regression {
    let Labels::Values(values) = dataset.labels() else { unreachable!("labels of a model of numbers are numbers") };
    let rows = || (0..dataset.len()).filter(|&row| !dataset.is_null(row));
    let targets: Vec<f64> = rows().map(|row| target.number(f64::from(values[row]))).collect();
    let predictions: Vec<f64> = rows().map(|row| target.number(outputs[row])).collect();
    Regression::of(&targets, &predictions)
}

/// The quality of a model of numbers in one line.
pub(super) fn regression_text(found: &Regression) -> String {
    let r2 = found.r2.map_or_else(|| "not defined".to_owned(), |r2| format!("{r2:.4}"));
    format!("R² {r2}, RMSE {}, MAE {}", three_digits(found.rmse), three_digits(found.mae))
}

/// Evaluates one model.
///
/// # Errors
/// Models and data that cannot be read, other columns than the model's, rows without labels.
pub fn run(arguments: &EvaluateArguments, output: Output) -> anyhow::Result<()> {
    let ModelAndData { model, data, data_dir } = &arguments.rows;
    let model = Model::read(model)?;
    let ModelRows { dataset, are_test_rows } =
        model.load(data, data_dir.as_deref(), LabelUse::Needed).map_err(super::predict::rows_error)?;
    let name = dataset.name().to_owned();
    let outputs = model.outputs(dataset.rows());
    let width = outputs.len() / dataset.len();
    let labelled: Vec<usize> = (0..dataset.len()).filter(|&row| !dataset.is_null(row)).collect();
    let left_out = dataset.len() - labelled.len();
    if labelled.is_empty() {
        let known = model.classes().map_or_else(
            || "a number is needed".to_owned(),
            |classes| format!("the model knows the classes {}", rounds_models::data::listing(classes)),
        );
        anyhow::bail!("{data}: no row has a label and all values that the model's schema declares; {known}");
    }
    let outputs_of = |row: usize| &outputs[row * width..(row + 1) * width];
    let quality = if let Some(classes) = model.classes() {
        let labels = match dataset.into_parts().1 {
            Labels::Classes { values, .. } => values,
            Labels::Values(values) => values.into_iter().map(|value| u32::from(value > 0.0)).collect(),
        };
        let labels: Vec<u32> = labelled.iter().map(|&row| labels[row]).collect();
        let predictions = labelled.iter().map(|&row| Model::class(outputs_of(row)) as u32);
        let logits = labelled.iter().flat_map(|&row| Model::logits(outputs_of(row)));
        let classified = Classified {
            classes: classes.len(),
            labels: &labels,
            predictions: &predictions.collect::<Vec<_>>(),
            logits: &logits.collect::<Vec<_>>(),
            are_probabilities: model.has_probabilities(),
        };
        Quality::Classification(classified.quality())
    } else {
        Quality::Regression(regression(&dataset, &model.header.data.target, &outputs))
    };
    let evaluation = Evaluation {
        algorithm: model.header.algorithm.clone(),
        loss: model.header.loss.clone(),
        model_sha256: model.header.model_sha256.clone(),
        dataset: name,
        test_rows: are_test_rows,
        rows: labelled.len(),
        left_out,
        classes: model.classes().map(<[String]>::to_vec),
        quality,
        note: "not covered by the model's privacy statement",
    };
    output.print(&evaluation, evaluation.text())
}

impl Evaluation {
    fn text(&self) -> String {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let defined = |value: Option<f64>, reason: &str| {
            value.map_or_else(|| format!("not defined: {reason}"), |value| format!("{value:.4}"))
        };
        let part = if self.test_rows { "test row" } else { "row" };
        let mut pairs = vec![
            ("model", format!("{}, {} loss", self.algorithm, self.loss)),
            ("data", format!("{} of {}", plural(self.rows, part), self.dataset)),
        ];
        if self.left_out > 0 {
            let text = format!("{} without a label or outside of the domain", plural(self.left_out, "row"));
            pairs.push(("left out", text));
        }
        match &self.quality {
            Quality::Classification(found) => {
                let classes = self.classes.as_ref().map_or(0, Vec::len);
                let area = if classes > 2 { "AUC, one against rest" } else { "AUC" };
                pairs.push(("accuracy", percent(found.accuracy)));
                pairs.push(("balanced accuracy", percent(found.balanced_accuracy)));
                pairs.push((area, defined(found.auc, "one class alone occurs")));
                pairs.extend(found.log_loss.map(|loss| ("log loss", format!("{loss:.4}"))));
            }
            Quality::Regression(found) => pairs.extend([
                ("RMSE", three_digits(found.rmse)),
                ("MAE", three_digits(found.mae)),
                ("R²", defined(found.r2, "all targets are equal")),
            ]),
        }
        pairs.push(("note", self.note.to_owned()));
        let mut text = output::pairs(pairs).to_string();
        if let (Quality::Classification(found), Some(classes)) = (&self.quality, &self.classes) {
            text.extend([confusion_text(found, classes), calibration_text(found, classes)].into_iter().flatten());
        }
        text
    }
}

/// The confusion matrix, or of many classes the most frequent confusions.
fn confusion_text(found: &Classification, classes: &[String]) -> Option<String> {
    let confusion = found.confusion.as_ref()?;
    let (heading, mut table);
    if classes.len() <= MOST_COLUMNS {
        heading = "Rows by class, and by prediction:";
        table = output::table(std::iter::once("class").chain(classes.iter().map(String::as_str)));
        for (class, rows) in classes.iter().zip(confusion) {
            table.add_row(std::iter::once(class.clone()).chain(rows.iter().map(u64::to_string)));
        }
        output::align_right(&mut table, 1..=classes.len());
    } else {
        heading = "The most frequent confusions:";
        let mut pairs: Vec<(u64, usize, usize)> = Vec::new();
        for (class, rows) in confusion.iter().enumerate() {
            let wrong = rows.iter().enumerate().filter(|&(other, &count)| other != class && count > 0);
            pairs.extend(wrong.map(|(other, &count)| (count, class, other)));
        }
        pairs.sort_by_key(|&(count, ..)| std::cmp::Reverse(count));
        table = output::table(["class", "prediction", "rows"]);
        for (count, class, other) in pairs.into_iter().take(MOST_COLUMNS) {
            table.add_row([classes[class].clone(), classes[other].clone(), count.to_string()]);
        }
        output::align_right(&mut table, [2]);
    }
    table.set_width(80);
    Some(format!("\n\n{heading}\n{table}"))
}

fn calibration_text(found: &Classification, classes: &[String]) -> Option<String> {
    let bins = found.calibration.as_ref()?;
    let (of, observed) = match classes {
        [_, second] => (second.as_str(), "observed share"),
        _ => ("the predicted class", "share correct"),
    };
    let mut table = output::table(["bin", "mean predicted", observed, "rows"]);
    for Bin { from, to, rows, predicted, observed } in bins {
        let share = |share: &Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{share:.3}"));
        table.add_row([format!("{from:.1} to {to:.1}"), share(predicted), share(observed), rows.to_string()]);
    }
    output::align_right(&mut table, 1..4);
    table.set_width(80);
    Some(format!("\n\nCalibration, probability of {of}:\n{table}"))
}

//! `rounds evaluate`: the quality of a model's predictions on labelled rows.

use super::predict::ModelAndData;
use super::{Output, output};
use crate::format::{plural, three_digits};
use rounds_models::data::LabelUse;
use rounds_models::evaluation::{Bin, Classification, Regression};
use rounds_models::model_file::Model;
use rounds_models::predictions::{Assessment, Evaluation};

/// Arguments of `rounds evaluate`.
#[derive(clap::Args)]
pub struct EvaluateArguments {
    #[command(flatten)]
    rows: ModelAndData,
}

/// Confusions of more classes are not shown as a matrix.
const MOST_COLUMNS: usize = 10;

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
    let rows = model.load(data, data_dir.as_deref(), LabelUse::Needed).map_err(super::predict::rows_error)?;
    let evaluation = model.evaluate(rows).map_err(|error| anyhow::anyhow!("{data}: {error}"))?;
    output.print(&evaluation, text(&evaluation))
}

/// The whole evaluation.
fn text(evaluation: &Evaluation) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let defined = |value: Option<f64>, reason: &str| {
        value.map_or_else(|| format!("not defined: {reason}"), |value| format!("{value:.4}"))
    };
    let part = if evaluation.test_rows { "test row" } else { "row" };
    let mut pairs = vec![
        ("model", format!("{}, {} loss", evaluation.algorithm, evaluation.loss)),
        ("data", format!("{} of {}", plural(evaluation.rows, part), evaluation.dataset)),
    ];
    if evaluation.left_out > 0 {
        let text = format!("{} without a label or outside of the domain", plural(evaluation.left_out, "row"));
        pairs.push(("left out", text));
    }
    match &evaluation.quality {
        Assessment::Classification(found) => {
            let classes = evaluation.classes.as_ref().map_or(0, Vec::len);
            let area = if classes > 2 { "AUC, one against rest" } else { "AUC" };
            pairs.push(("accuracy", percent(found.accuracy)));
            pairs.push(("balanced accuracy", percent(found.balanced_accuracy)));
            pairs.push((area, defined(found.auc, "one class alone occurs")));
            pairs.extend(found.log_loss.map(|loss| ("log loss", format!("{loss:.4}"))));
        }
        Assessment::Regression(found) => pairs.extend([
            ("RMSE", three_digits(found.rmse)),
            ("MAE", three_digits(found.mae)),
            ("R²", defined(found.r2, "all targets are equal")),
        ]),
    }
    pairs.push(("note", evaluation.note.to_owned()));
    let mut text = output::pairs(pairs).to_string();
    if let (Assessment::Classification(found), Some(classes)) = (&evaluation.quality, &evaluation.classes) {
        text.extend([confusion_text(found, classes), calibration_text(found, classes)].into_iter().flatten());
    }
    text
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

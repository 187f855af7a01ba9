//! `rounds predict`: the label of every row, by a model that `rounds train` wrote.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Output, UsageError, check_output, output};
use rounds_models::data::{DataError, Explained, LabelUse};
use rounds_models::files;
use rounds_models::model_file::Model;
use rounds_models::predictions::{Prediction, Predictions};

/// Arguments of `rounds predict`.
#[derive(clap::Args)]
pub struct PredictArguments {
    #[command(flatten)]
    rows: ModelAndData,
    /// Add a column with the probability of each class
    #[arg(long)]
    probabilities: bool,
    /// Output file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A model and rows for it.
#[derive(clap::Args)]
pub(super) struct ModelAndData {
    /// Model file of `rounds train --model`
    #[arg(value_name = "MODEL")]
    pub(super) model: PathBuf,
    /// Data set, one of `rounds list datasets`, or the path of a file or folder; of one with test rows these are taken
    #[arg(value_name = "NAME|PATH")]
    pub(super) data: String,
    /// Folder of the named data sets
    #[arg(long, env = "ROUNDS_DATA", value_name = "FOLDER")]
    pub(super) data_dir: Option<PathBuf>,
}

/// The reported error of rows for a model. Columns that are not those of the model are bad usage.
pub(super) fn rows_error(error: Explained) -> anyhow::Error {
    if matches!(error.withheld(), DataError::Columns(_)) { UsageError::of(error) } else { error.into() }
}

/// Predictions as CSV: the prediction, then the probabilities.
fn to_csv(found: &Predictions) -> csv::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = found.classes.iter().flatten().filter(|_| found.probabilities.is_some());
    let names = names.map(|name| format!("probability_{name}"));
    writer.write_record(std::iter::once("prediction".to_owned()).chain(names))?;
    for (row, prediction) in found.predictions.iter().enumerate() {
        let prediction = match prediction {
            Some(Prediction::Class(class)) => class.clone(),
            Some(Prediction::Number(number)) => format!("{number:?}"),
            None => String::new(),
        };
        let mut fields = vec![prediction];
        if let (Some(classes), Some(probabilities)) = (&found.classes, &found.probabilities) {
            match &probabilities[row] {
                Some(of) => fields.extend(of.iter().map(|probability| format!("{probability:?}"))),
                None => fields.resize(1 + classes.len(), String::new()),
            }
        }
        writer.write_record(fields)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8(bytes).expect("fields are text"))
}

/// True of the start of predictions as they are written here, CSV or JSON.
fn is_predictions(start: &[u8]) -> bool {
    let starts = [
        "prediction\n",
        "prediction,probability_",
        "prediction,\"probability_",
        "{\n  \"classes\": [",
        "{\n  \"predictions\": [",
    ];
    starts.iter().any(|known| start.starts_with(known.as_bytes()))
}

/// Predicts every row, in the order of the file. A row that the model's domain maps to the null row has no prediction.
///
/// # Errors
/// Models and data that cannot be read, other columns than the model's, probabilities of a loss without them, an output that
/// cannot be written.
pub fn run(arguments: &PredictArguments, output: Output) -> anyhow::Result<()> {
    let model = Model::read(&arguments.rows.model)?;
    if let Some(path) = &arguments.output {
        check_output(path, &[&arguments.rows.model, Path::new(&arguments.rows.data)], is_predictions)?;
    }
    if arguments.probabilities && !model.has_probabilities() {
        return Err(UsageError::of(format!(
            "--probabilities: {} loss has none; train with softmax or logistic loss",
            model.header().loss
        )));
    }
    let ModelAndData { data, data_dir, .. } = &arguments.rows;
    let rows = model.load(data, data_dir.as_deref(), LabelUse::Ignored).map_err(rows_error)?;
    let predictions = model.predict(&rows.dataset, arguments.probabilities);
    let missing = predictions.predictions.iter().filter(|of| of.is_none()).count();
    if missing > 0 {
        output::warn(format!(
            "{missing} of {} rows have no prediction: a field is missing, or none of the values that the model's schema declares",
            predictions.predictions.len()
        ));
    }
    let text = match output {
        Output::Text => to_csv(&predictions)?,
        Output::Json => serde_json::to_string_pretty(&predictions)? + "\n",
    };
    let Some(path) = &arguments.output else {
        print!("{text}");
        return Ok(());
    };
    files::replace(path, text.as_bytes()).with_context(|| format!("{}: cannot be written", path.display()))?;
    let count = predictions.predictions.len();
    output.say(format_args!("wrote {count} predictions to {}", path.display()));
    Ok(())
}

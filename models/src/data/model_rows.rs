//! Rows for a model, to predict or to evaluate on: read as its training rows were.

use std::path::Path;

use rounds_algorithms::problem::{Columns, Dataset, Labels};

use super::error::{DataError, Explained, listing};
use super::formats::{self, one_file};
use super::labels::{Meaning, RawLabels};
use super::load;
use super::names;
use super::request::{LabelUse, Request};
use super::table::TrainTest;

/// Rows for a model. Labels are its classes or real targets; where labels are ignored, they mean nothing.
#[derive(Clone, Debug)]
pub struct ModelRows {
    /// The rows.
    pub dataset: Dataset,
    /// They are test rows, beside which there are training rows.
    pub are_test_rows: bool,
}

/// Loads rows by the name of a data set or the path of a file or folder, as [`load_declared`](super::load_declared) does, for a model of these classes, or
/// of real targets; `input` has the domain of its training rows, if they had one, and its features as columns. Of a data set with
/// test rows these are taken, of any other one all rows; a file is taken alone, whatever lies beside it.
///
/// # Errors
/// As [`load_declared`](super::load_declared); columns or labels that are not those of the model.
pub fn load_for_model(
    name_or_path: &str,
    data_dir: Option<&Path>,
    input: Request<'_>,
    classes: Option<&[String]>,
) -> Result<ModelRows, Explained> {
    rows(name_or_path, data_dir, input, classes).map_err(DataError::for_reader)
}

/// [`load_for_model`], with errors of a run.
pub(crate) fn rows(
    name_or_path: &str,
    data_dir: Option<&Path>,
    input: Request<'_>,
    classes: Option<&[String]>,
) -> Result<ModelRows, DataError> {
    let (path, input) = (Path::new(name_or_path), input.ungrouped());
    let named = names::find(name_or_path).is_some();
    if named && let Some(domain) = names::built_in(name_or_path, data_dir) {
        check_features(path, domain.features(), input)?;
    }
    let (dataset, are_test_rows) = if named || !path.is_file() {
        let TrainTest { train, test } = load::rows(name_or_path, data_dir, Request::of(input.domain).ungrouped())?;
        let are_test_rows = test.is_some();
        (test.unwrap_or(train), are_test_rows)
    } else {
        let (table, are_test_rows) = one_file::read(path, input)?;
        check_features(path, table.features.columns(), input)?;
        (table.alone(&formats::stem(path), input)?, are_test_rows)
    };
    check_features(path, dataset.columns(), input)?;
    let dataset = match (input.labels, input.domain) {
        (LabelUse::Needed, None) => relabelled(path, dataset, classes)?,
        _ => dataset,
    };
    Ok(ModelRows { dataset, are_test_rows })
}

fn check_features(path: &Path, found: usize, input: Request<'_>) -> Result<(), DataError> {
    let Some(features) = input.columns.filter(|&features| features != found) else {
        return Ok(());
    };
    let label = match input.labels {
        LabelUse::Needed => "and the label",
        LabelUse::Ignored => "with or without a label",
    };
    // A category is several features.
    let (reads, give) = match input.domain.map(|domain| &domain.columns) {
        Some(Columns::Named(columns)) => (
            format!("a table with the columns {}", listing(columns.iter().map(|column| &column.name))),
            "these".to_owned(),
        ),
        _ => (features.to_string(), features.to_string()),
    };
    let problem = format!("it has {found} feature columns, and the model reads {reads}; give {give}, {label}");
    Err(DataError::columns(path, problem))
}

/// Undeclared rows whose labels, which have a meaning of their own, are the classes or targets of the model: classes are found by
/// their names, and of real targets each name is a number.
fn relabelled(path: &Path, dataset: Dataset, classes: Option<&[String]>) -> Result<Dataset, DataError> {
    let (name, names) = (dataset.name().to_owned(), dataset.labels().class_names());
    let (features, labels) = dataset.into_parts();
    let found = match labels {
        Labels::Values(values) => RawLabels::Numbers(values),
        Labels::Classes { values: rows, .. } => RawLabels::Words { rows, words: names.unwrap_or_default() },
    };
    let meaning = classes.map_or(Meaning::Targets, |names| Meaning::Classes(names.len(), Some(names.to_vec())));
    let labels = found.with_meaning(path, &meaning)?;
    Dataset::new(name, features, labels).map_err(|error| DataError::no_dataset(path, &error))
}

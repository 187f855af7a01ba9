//! Loading by name or path.

use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::problem::{Dataset, Domain};

use super::error::DataError;
use super::formats::{self, IdxFiles, LabelUse};
use super::labels::Task;
use super::names::{self, NAMES};
use super::table::TrainTest;
use crate::choices::Choices;
use crate::text::nearest;

/// Rows that a caller asks for, beside their place.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The domain into which they are encoded; without one they are kept as they are, and nothing may be claimed for them.
    pub domain: Option<&'a Arc<Domain>>,
    /// The meaning of undeclared labels.
    pub task: Option<Task>,
    /// Undeclared CSV: the label's column.
    pub label: Option<&'a str>,
    /// The number of features, of undeclared LIBSVM rows and of files whose labels may be missing.
    pub columns: Option<usize>,
    /// The use of labels.
    pub labels: LabelUse,
    /// LIBSVM: the index of the first column [default: 1].
    pub first_index: Option<u64>,
    /// The file of test rows, instead of the one beside the training rows.
    pub test: Option<&'a Path>,
    /// The rows that are kept for testing.
    pub split: Option<Split>,
}

impl<'a> Request<'a> {
    /// The rows of a data set in `domain`.
    pub fn of(domain: Option<&'a Arc<Domain>>) -> Self {
        Self { domain, ..Self::default() }
    }

    /// A row of so many fields has no label.
    pub(super) fn has_no_label(&self, fields: usize) -> bool {
        self.labels == LabelUse::Ignored && self.columns == Some(fields)
    }

    /// All files are those of the data set, and all training rows are asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.test.is_none() && self.split.is_none() && self.first_index.is_none()
    }
}

/// A part of the rows that is kept for testing: ⌊F·n + ½⌋ of n rows, drawn by their positions from a seed.
///
/// The positions are a function of n, F and the seed, and of nothing that a row holds. Where n and the order of rows are public
/// (zero-out, replace-one) they are public, and of two neighbouring data sets the same positions remain for training: these
/// differ in at most the one row that the data sets differ in, and their number is the public n of the run. Under add-remove a
/// row more moves the others to other positions; there is no such split, and callers refuse it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// F, between 0 and 1.
    pub fraction: f64,
    /// The seed.
    pub seed: u64,
}

impl Split {
    /// The rows for training and for testing, both in the order of the file.
    pub(crate) fn of(self, path: &Path, whole: &TrainTest) -> Result<TrainTest, DataError> {
        if whole.test.is_some() {
            let problem = "--test-split: it comes with test rows; leave it out";
            return Err(DataError::file(path, problem));
        }
        let (rows, fraction) = (whole.train.len(), self.fraction);
        let (train, test) = self.apart(&whole.train).ok_or_else(|| {
            let problem =
                format!("--test-split {fraction}: of {rows} rows it leaves none for training or none for testing");
            DataError::file(path, problem)
        })?;
        Ok(TrainTest { train, test: Some(test) })
    }

    /// The rows for training and for testing, both in their order; `None` if that leaves no rows for one of them.
    pub fn apart(self, whole: &Dataset) -> Option<(Dataset, Dataset)> {
        let rows = whole.len();
        let kept = (self.fraction * rows as f64).round() as usize;
        if kept == 0 || kept >= rows {
            return None;
        }
        let mut places: Vec<usize> = (0..rows).collect();
        let mut choices = Choices::new(self.seed);
        for place in 0..kept {
            places.swap(place, place + choices.below(rows - place));
        }
        let (test, train) = places.split_at_mut(kept);
        let select = |places: &mut [usize]| -> Dataset {
            places.sort_unstable();
            whole.select(places.iter().copied())
        };
        Some((select(train), select(test)))
    }
}

/// Loads a data set by its name, in its built-in domain if it has one, or a file or folder by its path, without a domain.
///
/// # Errors
/// As [`load_declared`].
pub fn load(name_or_path: &str, data_dir: Option<&Path>) -> Result<TrainTest, DataError> {
    load_declared(name_or_path, data_dir, names::built_in(name_or_path, data_dir).as_ref())
}

/// Loads a data set by its name, or a file or folder by its path; a name wins over a file called so, which `./name` means.
/// Rows are encoded into `domain`; without one they are kept as they are, and nothing may be claimed for them. Files of named
/// data sets lie in `data_dir`, else in the folder that the variable ROUNDS_DATA names.
///
/// A file's format is told by its content: NPY, NPZ and Parquet by their magic numbers, LIBSVM by `index:value`, CSV by its
/// separators. Test rows come from a file beside it that is called the same with `.t` (or `.tst` for `.trn`). Folders hold
/// MNIST's four IDX files, CIFAR-10's records (`data_batch_*.bin` or `train_*.bin` and `test*.bin`), NPY arrays called as in
/// `npy::EXPECTED_ARRAYS`, or `train.*` and perhaps `test.*` in any of the file formats.
///
/// # Errors
/// [`DataError`], see there. In a domain no error depends on a row once the file's syntax is right.
pub fn load_declared(
    name_or_path: &str,
    data_dir: Option<&Path>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    load_requested(name_or_path, data_dir, Request::of(domain))
}

/// Loads the rows that are asked for, as [`load_declared`] does.
///
/// # Errors
/// As [`load_declared`]; requests that the data do not allow.
pub fn load_requested(
    name_or_path: &str,
    data_dir: Option<&Path>,
    request: Request<'_>,
) -> Result<TrainTest, DataError> {
    let path = Path::new(name_or_path);
    let whole = load_whole(name_or_path, data_dir, request)?;
    match request.split {
        Some(split) => split.of(path, &whole),
        None => Ok(whole),
    }
}

fn load_whole(name_or_path: &str, data_dir: Option<&Path>, request: Request<'_>) -> Result<TrainTest, DataError> {
    let path = Path::new(name_or_path);
    let named = names::find(name_or_path);
    if named.is_some() || path.is_dir() {
        let of_files = [("--test", request.test.is_some()), ("--first-index", request.first_index.is_some())];
        if let Some((flag, _)) = of_files.iter().find(|(_, given)| *given) {
            let problem = format!("{flag}: this is for the path of a file; leave it out");
            return Err(DataError::file(path, problem));
        }
    }
    if let Some(named) = named {
        return named.load(data_dir, request);
    }
    if path.is_dir() {
        return formats::load_folder(path, request);
    }
    if path.exists() {
        return formats::load_file(path, request);
    }
    if path.components().count() > 1 || path.extension().is_some() {
        return Err(DataError::missing(path, "a data file or folder"));
    }
    let known: Vec<&'static str> = NAMES.iter().map(|named| named.name).collect();
    Err(DataError::Unknown {
        name: name_or_path.into(),
        nearest: nearest(&name_or_path.to_lowercase(), &known),
        known: known.join(", "),
    })
}

/// The IDX files that a data set is made of, with its name and number of classes, if it is made of such files.
pub(super) fn idx_data(
    name_or_path: &str,
    data_dir: Option<&Path>,
) -> Result<Option<(String, IdxFiles, Option<usize>)>, DataError> {
    if let Some(named) = names::find(name_or_path) {
        let files = named.idx_files(data_dir)?;
        return Ok(files.map(|files| (named.name.to_owned(), files, Some(10))));
    }
    let path = Path::new(name_or_path);
    Ok(formats::idx_files(path).map(|files| (formats::stem(path), files, None)))
}

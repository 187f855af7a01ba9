//! Loading by name or path.

use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::problem::Domain;

use super::error::DataError;
use super::formats::{self, IdxFiles};
use super::names::{self, NAMES};
use super::request::Request;
use super::table::TrainTest;
use crate::text::nearest;

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
        Some(split) => whole.split(path, split),
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

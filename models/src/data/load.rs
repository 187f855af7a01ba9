//! Loading by name or path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::problem::Domain;

use super::error::{DataError, Explained};
use super::formats::{self, IdxFiles};
use super::names::{self, NAMES};
use super::request::Request;
use super::table::TrainTest;
use super::units;
use crate::text::nearest;

/// Loads a data set by its name, in its built-in domain if it has one, or a file or folder by its path, without a domain.
///
/// # Errors
/// As [`load_declared`].
pub fn load(name_or_path: &str, data_dir: Option<&Path>) -> Result<TrainTest, Explained> {
    load_declared(name_or_path, data_dir, names::built_in(name_or_path, data_dir).as_ref())
}

/// Loads a data set by its name, or a file or folder by its path; a name wins over a file called so, which `./name` means.
/// Rows are encoded into `domain`; without one they are kept as they are, and nothing may be claimed for them. Files of named
/// data sets lie in `data_dir`, else in the folder that the variable ROUNDS_DATA names.
///
/// The format of a file in a domain is the declared one, else that of its name: `.npy`, `.npz`, `.bin` (CIFAR-10's records), `.parquet`,
/// `.csv` and `.tsv`, `.libsvm` and `.svm`; a table if columns have names, and LIBSVM otherwise. Without a domain its content tells it:
/// NPY and NPZ by their magic numbers, LIBSVM by `index:value`, CSV by its separators. A name that ends in `.gz` or `.xz` says that the
/// file is packed. Test rows come from a file beside it that is called the same with `.t` (or `.tst` for `.trn`). Folders hold
/// MNIST's four IDX files, CIFAR-10's records (`data_batch_*.bin` or `train_*.bin` and `test*.bin`), NPY arrays called as in
/// `npy::EXPECTED_ARRAYS`, or `train.*` and perhaps `test.*` in any of the file formats.
///
/// # Errors
/// [`DataError`], see there. In a domain no error depends on a row once the file's syntax is right.
pub fn load_declared(
    name_or_path: &str,
    data_dir: Option<&Path>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, Explained> {
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
) -> Result<TrainTest, Explained> {
    rows(name_or_path, data_dir, request).map_err(DataError::for_reader)
}

/// As [`load_requested`]; the error withholds what was found.
pub(super) fn rows(name_or_path: &str, data_dir: Option<&Path>, request: Request<'_>) -> Result<TrainTest, DataError> {
    let path = Path::new(name_or_path);
    let beside = request.unit.filter(|unit| unit.column.is_none() && names::find(name_or_path).is_none());
    let beside = beside.and_then(|_| units::beside(path));
    let request = Request { unit_ids: request.unit_ids.or(beside.as_deref()), ..request };
    let whole = load_whole(name_or_path, data_dir, request).map_err(|error| error.about(path))?;
    match request.split {
        Some(split) => whole.split(path, split),
        None => Ok(whole),
    }
}

fn load_whole(name_or_path: &str, data_dir: Option<&Path>, request: Request<'_>) -> Result<TrainTest, DataError> {
    let path = Path::new(name_or_path);
    let named = names::find(name_or_path);
    let is_file = named.is_none() && !path.is_dir();
    if !is_file && (request.test.is_some() || request.first_index.is_some()) {
        let problem = "`test`, `first-index`: these are for the path of a file; leave them out";
        return Err(DataError::file(path, problem));
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

/// The files with the features of training rows and of test rows.
pub(crate) fn files_of(name_or_path: &str, data_dir: Option<&Path>, request: Request<'_>) -> [Vec<PathBuf>; 2] {
    match names::find(name_or_path) {
        Some(named) => named.files(data_dir),
        None => formats::files_of(Path::new(name_or_path), request),
    }
}

/// The name of a data set, and its number of training rows where the header of a file promises it.
pub(crate) fn promised_rows(name_or_path: &str, data_dir: Option<&Path>) -> Option<(String, usize)> {
    let (name, [images, ..], _) = idx_data(name_or_path, data_dir).ok()??;
    Some((name, formats::idx::promised_rows(&images).ok()??))
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

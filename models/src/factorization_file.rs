//! Factorisations in files: NPY f64 with C, or NPZ with `C` and, where they are recorded, `B` and `sensitivity`. The matrices
//! are checked against the workload and the participation of the run before any noise is drawn through them.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Cursor, Seek, Write};
use std::path::{Path, PathBuf};

use ndarray::{Array0, Array2};
use ndarray_npy::{ReadNpyExt as _, WriteNpyExt as _};
use rounds_algorithms::factorization::{Factorization, FactorizationError, Participation, Workload};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::files;

/// A file of a factorisation that cannot be read, used or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum FactorizationFileError {
    #[error("factorisation {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "factorisation {path}: {reason}; expected NPY with C (f64, T × T), or NPZ with C and, if recorded, B (f64, T × T) and sensitivity (f64)"
    )]
    Format { path: PathBuf, reason: String },
    #[error(transparent)]
    Factorization(#[from] FactorizationError),
}

const IN_MEMORY: &str = "an array is written to memory";

/// The matrix C of a file, with what is recorded beside it.
#[derive(Clone, Debug)]
pub struct FactorizationFile {
    strategy: Array2<f64>,
    error_matrix: Option<Array2<f64>>,
    sensitivity: Option<f64>,
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

/// The array `name` of an archive; none if the archive lacks it.
fn array<D: ndarray::Dimension>(
    archive: &mut ZipArchive<File>,
    name: &str,
) -> Result<Option<ndarray::Array<f64, D>>, String> {
    let is_named =
        |found: zip::result::ZipResult<Cow<'_, str>>| found.is_ok_and(|found| found.trim_end_matches(".npy") == name);
    let Some(place) = archive.file_names().position(is_named) else {
        return Ok(None);
    };
    let entry = archive.by_index(place).map_err(|error| error.to_string())?;
    let array = ndarray::Array::read_npy(entry);
    array.map(Some).map_err(|error| format!("array '{name}': {error}"))
}

/// Adds the array `name` to an archive.
fn add_array<D: ndarray::Dimension>(
    archive: &mut ZipWriter<impl Write + Seek>,
    name: &str,
    array: &ndarray::Array<f64, D>,
) {
    archive.start_file(format!("{name}.npy"), SimpleFileOptions::default()).expect(IN_MEMORY);
    array.write_npy(archive).expect(IN_MEMORY);
}

impl FactorizationFile {
    /// Reads `path`: NPZ by its extension, else NPY.
    ///
    /// # Errors
    /// A file that cannot be opened or has another form.
    pub fn read(path: &Path) -> Result<Self, FactorizationFileError> {
        let refused = |reason: String| FactorizationFileError::Format { path: path.to_owned(), reason };
        // A pipe would wait for its writer, and an archive cannot be read from one.
        if path.exists() && !path.is_file() {
            return Err(refused("it is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(|source| FactorizationFileError::Io { path: path.to_owned(), source })?;
        let read = || -> Result<Self, String> {
            if !is_archive(path) {
                return Ok(Self {
                    strategy: Array2::read_npy(file).map_err(|error| error.to_string())?,
                    error_matrix: None,
                    sensitivity: None,
                });
            }
            let mut archive = ZipArchive::new(file).map_err(|error| error.to_string())?;
            let sensitivity: Option<Array0<f64>> = array(&mut archive, "sensitivity")?;
            Ok(Self {
                strategy: array(&mut archive, "C")?.ok_or("no array 'C'")?,
                error_matrix: array(&mut archive, "B")?,
                sensitivity: sensitivity.map(Array0::into_scalar),
            })
        };
        read().map_err(refused)
    }

    /// The factorisation of `workload`, measured and checked under `participation`.
    ///
    /// # Errors
    /// Those of [`Factorization::from_matrices`]: shapes, triangularity, B·C, the recorded sensitivity.
    pub fn check(&self, workload: Workload, participation: Participation) -> Result<Factorization, FactorizationError> {
        let matrix = |array: &Array2<f64>| {
            rounds_numerics::Mat::from_fn(array.nrows(), array.ncols(), |row, column| array[(row, column)])
        };
        let error_matrix = self.error_matrix.as_ref().map(matrix);
        Factorization::from_matrices(
            workload,
            participation,
            matrix(&self.strategy),
            error_matrix.as_ref().map(rounds_numerics::Mat::as_ref),
            self.sensitivity,
        )
    }
}

/// Writes C to `path`: NPY, or with the extension npz also B and the sensitivity, which reading then checks.
///
/// # Errors
/// A file that cannot be written; a C whose inverse overflows.
pub fn write(path: &Path, factorization: &Factorization) -> Result<(), FactorizationFileError> {
    let failed = |source| FactorizationFileError::Io { path: path.to_owned(), source };
    let array = |matrix: &rounds_numerics::Mat<f64>| {
        Array2::from_shape_fn((matrix.nrows(), matrix.ncols()), |(row, column)| matrix[(row, column)])
    };
    let strategy = array(&factorization.strategy().matrix());
    if !is_archive(path) {
        let mut bytes = Vec::new();
        strategy.write_npy(&mut bytes).expect(IN_MEMORY);
        return files::replace(path, &bytes).map_err(failed);
    }
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let error_matrix = array(&factorization.error_matrix()?);
    for (name, matrix) in [("C", &strategy), ("B", &error_matrix)] {
        add_array(&mut archive, name, matrix);
    }
    add_array(&mut archive, "sensitivity", &ndarray::arr0(factorization.sensitivity().value));
    files::replace(path, archive.finish().expect(IN_MEMORY).get_ref()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::factorization::{FactorizationRequest, Method, WorkloadSpecification};

    fn workload(rounds: usize) -> Workload {
        Workload::new(rounds, WorkloadSpecification::prefix()).unwrap()
    }

    fn optimum(rounds: usize) -> Factorization {
        FactorizationRequest::new(workload(rounds), Participation::epochs(2), Method::Optimal).factorize().unwrap()
    }

    /// A file of the given arrays.
    fn archive(strategy: &Array2<f64>, error_matrix: &Array2<f64>, sensitivity: f64) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.npz");
        let mut archive = ZipWriter::new(File::create(&path).unwrap());
        add_array(&mut archive, "C", strategy);
        add_array(&mut archive, "B", error_matrix);
        add_array(&mut archive, "sensitivity", &ndarray::arr0(sensitivity));
        archive.finish().unwrap();
        (folder, path)
    }

    #[test]
    fn what_is_written_is_read_again_and_has_the_same_error() {
        let factorization = optimum(12);
        let folder = tempfile::tempdir().unwrap();
        for name in ["F.npy", "F.npz"] {
            let path = folder.path().join(name);
            write(&path, &factorization).unwrap();
            let read = FactorizationFile::read(&path).unwrap();
            let checked = read.check(workload(12), Participation::epochs(2)).unwrap();
            assert!((checked.frobenius() / factorization.frobenius() - 1.0).abs() < 1e-9);
            assert!(matches!(
                read.check(workload(13), Participation::epochs(2)),
                Err(FactorizationError::ShapeMismatch { .. })
            ));
        }
        // The recorded sensitivity is that of two epochs.
        let read = FactorizationFile::read(&folder.path().join("F.npz")).unwrap();
        assert!(matches!(
            read.check(workload(12), Participation::Single),
            Err(FactorizationError::SensitivityMismatch { .. })
        ));
    }

    #[test]
    fn files_whose_parts_do_not_fit_are_refused_with_what_was_found() {
        let (identity, ones) =
            (Array2::<f64>::eye(3), Array2::from_shape_fn((3, 3), |(row, column)| f64::from(u8::from(column <= row))));
        let checked = |strategy: &Array2<f64>, error_matrix: &Array2<f64>, sensitivity: f64| {
            let (_folder, path) = archive(strategy, error_matrix, sensitivity);
            FactorizationFile::read(&path).unwrap().check(workload(3), Participation::Single)
        };
        assert!(checked(&identity, &ones, 1.0).is_ok());
        assert!(matches!(checked(&identity, &identity, 1.0), Err(FactorizationError::ProductMismatch { .. })));
        assert!(matches!(checked(&identity, &ones, 0.5), Err(FactorizationError::SensitivityMismatch { .. })));
        let upper = ones.t().to_owned();
        assert!(matches!(checked(&upper, &ones, 1.0), Err(FactorizationError::NotLowerTriangular { .. })));
        let mut singular = identity.clone();
        singular[(1, 1)] = 0.0;
        assert!(checked(&singular, &ones, 1.0).is_err());
    }

    #[test]
    fn other_files_are_refused_with_what_is_expected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.npy");
        std::fs::write(&path, b"no array").unwrap();
        let message = FactorizationFile::read(&path).unwrap_err().to_string();
        assert!(message.contains("F.npy") && message.contains("f64"), "{message}");
        assert!(matches!(
            FactorizationFile::read(&folder.path().join("absent.npy")),
            Err(FactorizationFileError::Io { .. })
        ));
        let archive_path = folder.path().join("F.npz");
        let mut archive = ZipWriter::new(File::create(&archive_path).unwrap());
        add_array(&mut archive, "D", &Array2::<f64>::eye(2));
        archive.finish().unwrap();
        let message = FactorizationFile::read(&archive_path).unwrap_err().to_string();
        assert!(message.contains("'C'"), "{message}");
    }
}

//! Factorisations in files: NPY f64 with C. It is checked against the workload and the participation of the run before any noise is
//! drawn through it.

use std::fs::File;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use ndarray_npy::{ReadNpyExt as _, WriteNpyExt as _};
use rounds_algorithms::factorization::{Factorization, FactorizationError, Participation, Workload};
use rounds_numerics::Mat;

use crate::files;

/// A file of a factorisation that cannot be read, used or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum FactorizationFileError {
    #[error("factorisation {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("factorisation {path}: {reason}; expected NPY with C (f64, T × T)")]
    Format { path: PathBuf, reason: String },
    #[error(transparent)]
    Factorization(#[from] FactorizationError),
}

/// The matrix C of a file.
#[derive(Clone, Debug)]
pub struct FactorizationFile(Mat<f64>);

impl FactorizationFile {
    /// Reads `path`.
    ///
    /// # Errors
    /// A file that cannot be opened or has another form.
    pub fn read(path: &Path) -> Result<Self, FactorizationFileError> {
        let refused = |reason: String| FactorizationFileError::Format { path: path.to_owned(), reason };
        // A pipe would wait for its writer.
        if path.exists() && !path.is_file() {
            return Err(refused("it is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(|source| FactorizationFileError::Io { path: path.to_owned(), source })?;
        let array = Array2::read_npy(file).map_err(|error| refused(error.to_string()))?;
        Ok(Self(Mat::from_fn(array.nrows(), array.ncols(), |row, column| array[(row, column)])))
    }

    /// The factorisation of `workload`, measured and checked under `participation`.
    ///
    /// # Errors
    /// Those of [`Factorization::from_matrix`].
    pub fn check(&self, workload: Workload, participation: Participation) -> Result<Factorization, FactorizationError> {
        Factorization::from_matrix(workload, participation, self.0.clone())
    }
}

/// Writes C to `path` as NPY.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, factorization: &Factorization) -> Result<(), FactorizationFileError> {
    let matrix = factorization.strategy().matrix();
    let array = Array2::from_shape_fn((matrix.nrows(), matrix.ncols()), |(row, column)| matrix[(row, column)]);
    let mut bytes = Vec::new();
    array.write_npy(&mut bytes).expect("an array is written to memory");
    files::replace(path, &bytes).map_err(|source| FactorizationFileError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::factorization::{FactorizationRequest, Method, WorkloadSpecification};

    fn workload(rounds: usize) -> Workload {
        Workload::new(rounds, WorkloadSpecification::prefix()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_and_has_the_same_error() {
        let request = FactorizationRequest::new(workload(12), Participation::epochs(2), Method::Optimal);
        let factorization = request.factorize().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.npy");
        write(&path, &factorization).unwrap();
        let read = FactorizationFile::read(&path).unwrap();
        let checked = read.check(workload(12), Participation::epochs(2)).unwrap();
        assert!((checked.frobenius() / factorization.frobenius() - 1.0).abs() < 1e-9);
        assert!(matches!(
            read.check(workload(13), Participation::epochs(2)),
            Err(FactorizationError::ShapeMismatch { .. })
        ));
    }

    #[test]
    fn other_files_are_refused_with_what_is_expected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.npy");
        // No array, and an archive of one, as numpy.savez writes it.
        for bytes in [&b"no array"[..], b"PK\x03\x04 an archive"] {
            std::fs::write(&path, bytes).unwrap();
            let message = FactorizationFile::read(&path).unwrap_err().to_string();
            assert!(message.contains("F.npy") && message.contains("NPY with C (f64"), "{message}");
        }
        assert!(matches!(
            FactorizationFile::read(&folder.path().join("absent.npy")),
            Err(FactorizationFileError::Io { .. })
        ));
    }
}

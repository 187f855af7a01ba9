//! Names and folders: which files make up a data set, and where they lie.

use crate::data::error::DataError;
use crate::data::idx;
use rayon::prelude::*;
use rounds_algorithms::problem::synthetic::{Quadratic, synthetic_logistic, synthetic_mnist};
use rounds_algorithms::problem::{Dataset, Features, Labels};
use std::path::{Path, PathBuf};

/// A data set as a run needs it.
#[derive(Clone, Debug)]
pub struct TrainTest {
    /// What is trained on.
    pub train: Dataset,
    /// What accuracy is measured on, where the data comes with it. Same columns and classes as `train`.
    pub test: Option<Dataset>,
}

/// The seed of the synthetic data sets.
const SEED: u64 = 0;

/// Names that [`load`] knows, and what each stands for.
pub const NAMES: &[(&str, &str)] = &[
    (
        "synthetic-mnist",
        "generated: MNIST's shape and sparsity, labels from a planted softmax model",
    ),
    (
        "synthetic-logistic",
        "generated: paper 003, section 5 (n = 100,000, d = 20)",
    ),
    (
        "quadratic",
        "generated: a quadratic that is not strongly convex, paper 001, Fig. 2 (d = 100, L = 10)",
    ),
    (
        "mnist",
        "IDX files: 60,000 and 10,000 images of 28 × 28 bytes, 10 classes",
    ),
];

/// Loads a data set by its name, or a file or folder by its path. Names of files are looked for in `data_dir`, or else
/// in the folder that the variable ROUNDS_DATA names.
///
/// # Errors
/// [`DataError`], see there.
pub fn load(name_or_path: &str, data_dir: Option<&Path>) -> Result<TrainTest, DataError> {
    match name_or_path {
        "synthetic-mnist" => {
            let (train, test) = synthetic_mnist(SEED);
            return Ok(TrainTest {
                train,
                test: Some(test),
            });
        }
        "synthetic-logistic" => {
            return Ok(TrainTest {
                train: synthetic_logistic(100_000, 20, SEED),
                test: None,
            });
        }
        "quadratic" => {
            return Ok(TrainTest {
                train: Quadratic::random(100, 10.0, SEED).dataset(),
                test: None,
            });
        }
        _ => {}
    }
    if name_or_path == "mnist" {
        let root = data_root(name_or_path, data_dir)?;
        let folders = [
            root.join("mnist"),
            root.join("MNIST/raw"),
            root.join("MNIST"),
            root.clone(),
        ];
        let folder = folders.iter().find(|folder| find_idx(folder).is_some());
        let expected = folders[0].clone();
        let folder = folder.ok_or(DataError::Missing {
            path: expected,
            looked_for: "MNIST's four IDX files, packed or not".into(),
        })?;
        return load_mnist("mnist", folder, Some(10));
    }
    let path = Path::new(name_or_path);
    if path.is_dir() && find_idx(path).is_some() {
        return load_mnist(&stem(path), path, None);
    }
    let nearest = NAMES
        .iter()
        .map(|&(name, _)| (strsim::jaro_winkler(name, name_or_path), name));
    let nearest = nearest
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let known = NAMES.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ");
    Err(DataError::Unknown {
        name: name_or_path.into(),
        nearest: nearest.map(|(_, name)| name),
        known,
    })
}

/// Where files of named data sets are looked for.
fn data_root(name: &str, data_dir: Option<&Path>) -> Result<PathBuf, DataError> {
    let root = data_dir
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("ROUNDS_DATA").map(PathBuf::from));
    let root = root.ok_or_else(|| DataError::NoDirectory { name: name.into() })?;
    if root.is_dir() {
        Ok(root)
    } else {
        Err(DataError::Missing {
            path: root,
            looked_for: "the folder of data files that --data-dir names".into(),
        })
    }
}

/// A name for what lies at `path`: its last component without endings.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".xz"))
        .unwrap_or(&name);
    name.to_owned()
}

/// The file called `name` in `folder`, plain or packed.
fn packed_or_not(folder: &Path, name: &str) -> Option<PathBuf> {
    ["", ".gz", ".xz"]
        .into_iter()
        .map(|ending| folder.join(format!("{name}{ending}")))
        .find(|path| path.is_file())
}

/// MNIST's files in a folder: train images, train labels, test images, test labels.
fn find_idx(folder: &Path) -> Option<[PathBuf; 4]> {
    let find = |start: &str, kind: &str| {
        packed_or_not(folder, &format!("{start}-{kind}-ubyte"))
            .or_else(|| packed_or_not(folder, &format!("{start}.{kind}-ubyte")))
    };
    Some([
        find("train-images", "idx3")?,
        find("train-labels", "idx1")?,
        find("t10k-images", "idx3")?,
        find("t10k-labels", "idx1")?,
    ])
}

fn load_mnist(name: &str, folder: &Path, classes: Option<usize>) -> Result<TrainTest, DataError> {
    let files = find_idx(folder).ok_or_else(|| DataError::Missing {
        path: folder.into(),
        looked_for: "the four IDX files of MNIST's layout, packed or not".into(),
    })?;
    let [train_images, train_labels, test_images, test_labels] = &files;
    let (images, labels) = rayon::join(
        || {
            [train_images, test_images]
                .into_par_iter()
                .map(|path| idx::read_features(path))
                .collect::<Result<Vec<_>, _>>()
        },
        || -> Result<_, DataError> {
            let train = idx::read_labels(train_labels, classes)?;
            let test = idx::read_labels(test_labels, train.classes())?;
            Ok([train, test])
        },
    );
    let ([train, test], [train_classes, test_classes]) =
        (<[Features; 2]>::try_from(images?).expect("two files"), labels?);
    if train.columns() != test.columns() {
        return Err(DataError::TestMismatch {
            path: test_images.clone(),
            expected: format!("{} columns", train.columns()),
            found: format!("{} columns", test.columns()),
        });
    }
    Ok(TrainTest {
        train: join(name, train_images, train, train_labels, train_classes)?,
        test: Some(join(name, test_images, test, test_labels, test_classes)?),
    })
}

/// Features of one file and labels of another.
fn join(
    name: &str,
    features_path: &Path,
    features: Features,
    labels_path: &Path,
    labels: Labels,
) -> Result<Dataset, DataError> {
    let (rows, count) = (features.len(), labels.len());
    if rows != count {
        let (features_path, labels_path) = (features_path.into(), labels_path.into());
        return Err(DataError::Counts {
            features_path,
            rows,
            labels_path,
            labels: count,
        });
    }
    Dataset::new(name, features, labels).map_err(|source| DataError::Dataset {
        path: features_path.into(),
        source,
    })
}

//! Named data sets: generated ones, and files in the data folder with their domains.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::problem::synthetic::{
    Quadratic, synthetic_logistic, synthetic_logistic_domain, synthetic_mnist, synthetic_mnist_domain,
    synthetic_mnist_optimum,
};
use rounds_algorithms::problem::{Bounds, Columns, Dataset, Domain, DomainSource, Label, Storage};

use super::error::DataError;
use super::folder::{self, Format, Single, TrainTest};
use super::libsvm;

/// The seed of generated data sets.
const SEED: u64 = 0;
/// Features of synthetic-logistic.
const LOGISTIC_FEATURES: usize = 20;
const QUADRATIC_DIMENSION: usize = 100;
const QUADRATIC_SMOOTHNESS: f64 = 10.0;

/// A named data set.
pub struct Name {
    /// The name.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    contents: Contents,
}

enum Contents {
    Generated(Generated),
    Files(Files),
}

/// A data set that is made from a seed.
struct Generated {
    /// Training rows and perhaps test rows.
    data: fn(u64) -> (Dataset, Option<Dataset>),
    domain: fn() -> Domain,
    /// The minimiser of the population risk, if it is known.
    optimum: Option<fn(u64) -> Vec<f32>>,
}

/// A data set of files, with the declared domain from its documentation.
struct Files {
    layout: Layout,
    columns: usize,
    bounds: [f64; 2],
    storage: Storage,
    /// Separated by commas.
    classes: &'static str,
}

#[derive(Clone, Copy)]
enum Layout {
    /// MNIST's four files.
    Idx,
    /// CIFAR-10's records.
    Cifar,
    /// A file of training rows, called one of the first names, and perhaps one of test rows. The domain is that of the file
    /// with the first name.
    Single {
        format: Format,
        train: &'static [&'static str],
        test: &'static [&'static str],
        label: Option<&'static str>,
    },
}

impl Layout {
    /// Folders of the data folder in which the files are looked for.
    fn folders(self, name: &'static str) -> [&'static str; 4] {
        match self {
            Self::Idx => ["mnist", "MNIST/raw", "MNIST", ""],
            Self::Cifar => ["cifar10", "cifar-10-batches-bin", "CIFAR10", ""],
            Self::Single {
                format: Format::Csv, ..
            } => ["other", "csv", name, ""],
            Self::Single { .. } => ["libsvm", name, "other", ""],
        }
    }
}

const fn generated(name: &'static str, about: &'static str, generated: Generated) -> Name {
    Name {
        name,
        about,
        contents: Contents::Generated(generated),
    }
}

const DIGITS: &str = "0,1,2,3,4,5,6,7,8,9";

/// Images of `columns` bytes in ten classes.
const fn images(name: &'static str, about: &'static str, layout: Layout, columns: usize) -> Name {
    let contents = Contents::Files(Files {
        layout,
        columns,
        bounds: [0.0, 255.0],
        storage: Storage::Bytes,
        classes: DIGITS,
    });
    Name { name, about, contents }
}

type FileNames = &'static [&'static str];

/// Sparse columns in [0, 1].
const fn sparse(columns: usize, classes: &'static str) -> (usize, [f64; 2], Storage, &'static str) {
    (columns, [0.0, 1.0], Storage::Sparse, classes)
}

const fn dense(columns: usize, bounds: [f64; 2], classes: &'static str) -> (usize, [f64; 2], Storage, &'static str) {
    (columns, bounds, Storage::Dense, classes)
}

/// LIBSVM files of training and test rows.
const fn libsvm(
    name: &'static str,
    about: &'static str,
    [train, test]: [FileNames; 2],
    (columns, bounds, storage, classes): (usize, [f64; 2], Storage, &'static str),
) -> Name {
    let layout = Layout::Single {
        format: Format::Libsvm,
        train,
        test,
        label: None,
    };
    let contents = Contents::Files(Files {
        layout,
        columns,
        bounds,
        storage,
        classes,
    });
    Name { name, about, contents }
}

/// All named data sets.
pub const NAMES: &[Name] = &[
    generated(
        "synthetic-mnist",
        "generated: 60,000 + 10,000 x 784 bytes, 10 classes; MNIST's shape and sparsity, planted softmax model",
        Generated {
            data: |seed| {
                let (train, test) = synthetic_mnist(seed);
                (train, Some(test))
            },
            domain: synthetic_mnist_domain,
            optimum: Some(synthetic_mnist_optimum),
        },
    ),
    generated(
        "synthetic-logistic",
        "generated: 100,000 x 20, 2 classes; paper 003, section 5",
        Generated {
            data: |seed| (synthetic_logistic(100_000, LOGISTIC_FEATURES, seed), None),
            domain: || synthetic_logistic_domain(LOGISTIC_FEATURES),
            optimum: None,
        },
    ),
    generated(
        "quadratic",
        "generated: 100 x 100, real targets; squared loss is a quadratic with L = 10 as in paper 001, figure 2",
        Generated {
            data: |seed| (quadratic(seed).dataset(), None),
            domain: || Quadratic::domain(QUADRATIC_DIMENSION, QUADRATIC_SMOOTHNESS),
            optimum: Some(|seed| {
                let weights = quadratic(seed).optimum;
                weights.iter().map(|&weight| weight as f32).chain([0.0]).collect()
            }),
        },
    ),
    images(
        "mnist",
        "IDX files: 60,000 + 10,000 x 784 bytes, 10 classes",
        Layout::Idx,
        784,
    ),
    images(
        "cifar10",
        "CIFAR-10 records: 50,000 + 10,000 x 3,072 bytes, 10 classes",
        Layout::Cifar,
        3_072,
    ),
    libsvm(
        "a9a",
        "LIBSVM files: 32,561 + 16,281 x 123, 2 classes",
        [&["a9a"], &["a9a.t"]],
        sparse(123, "-1,1"),
    ),
    libsvm(
        "w8a",
        "LIBSVM files: 49,749 x 300, 2 classes",
        [&["w8a"], &["w8a.t"]],
        sparse(300, "-1,1"),
    ),
    libsvm(
        "ijcnn1",
        // Bounds of the training rows; 1,280 values of the test rows lie a little outside and are cut.
        "LIBSVM files: 49,990 + 91,701 x 22, 2 classes",
        [&["ijcnn1"], &["ijcnn1.t"]],
        dense(22, [-1.0, 1.0], "-1,1"),
    ),
    Name {
        name: "covtype",
        about: "CSV file: forest cover, 54 features, 7 classes, or the 16 % of it in covtype-16pct-scaled01.csv",
        contents: Contents::Files(Files {
            layout: Layout::Single {
                format: Format::Csv,
                train: &["covtype-16pct-scaled01.csv", "covtype.csv"],
                test: &[],
                label: Some("Cover_Type"),
            },
            columns: 54,
            bounds: [0.0, 1.0],
            storage: Storage::Dense,
            classes: "1,2,3,4,5,6,7",
        }),
    },
    libsvm(
        "letter",
        "LIBSVM files: 15,000 + 5,000 x 16, 26 classes",
        [&["letter.scale"], &["letter.scale.t"]],
        dense(
            16,
            [-1.0, 1.0],
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26",
        ),
    ),
    libsvm(
        "pendigits",
        "LIBSVM files: 7,494 + 3,498 x 16, 10 classes, values 0 to 100 divided by 100",
        [&["pendigits"], &["pendigits.t"]],
        dense(16, [0.0, 100.0], DIGITS),
    ),
    libsvm(
        "phishing",
        "LIBSVM file: 11,055 x 68, 2 classes",
        [&["phishing"], &[]],
        sparse(68, "0,1"),
    ),
    libsvm(
        "mushrooms",
        "LIBSVM file: 8,124 x 112, 2 classes",
        [&["mushrooms"], &[]],
        sparse(112, "1,2"),
    ),
    libsvm(
        "german",
        "LIBSVM file: 1,000 x 24, 2 classes",
        [&["german.numer_scale", "german.numer"], &[]],
        dense(24, [-1.0, 1.0], "-1,1"),
    ),
    libsvm(
        "reuters",
        "LIBSVM files: 7,770 + 3,299 x 8,315, sparse, 2 classes",
        [&["reuters-lasvm.trn"], &["reuters-lasvm.tst"]],
        sparse(8_315, "-1,1"),
    ),
];

fn quadratic(seed: u64) -> Quadratic {
    Quadratic::random(QUADRATIC_DIMENSION, QUADRATIC_SMOOTHNESS, seed)
}

/// The data set that is called so.
pub(super) fn find(name: &str) -> Option<&'static Name> {
    NAMES.iter().find(|named| named.name == name)
}

/// The data set needs no file.
pub fn is_generated(name: &str) -> bool {
    find(name).is_some_and(|named| matches!(named.contents, Contents::Generated(_)))
}

/// The parameters that minimise the population risk of a generated data set's usual model, one row an output with the
/// intercept last, where they are known.
pub fn optimum(name: &str) -> Option<Vec<f32>> {
    match &find(name)?.contents {
        Contents::Generated(generated) => generated.optimum.map(|optimum| optimum(SEED)),
        Contents::Files(_) => None,
    }
}

/// The domain of a named data set. `None` for other names, and for files other than those that the domain describes.
pub fn built_in(name: &str, data_dir: Option<&Path>) -> Option<Arc<Domain>> {
    let named = find(name)?;
    match &named.contents {
        Contents::Generated(generated) => Some(Arc::new((generated.domain)())),
        Contents::Files(files) => files.is_described(named.name, data_dir).then(|| files.domain(name)),
    }
}

impl Files {
    fn domain(&self, name: &str) -> Arc<Domain> {
        let [lo, hi] = self.bounds;
        let columns = Columns::Matrix {
            count: self.columns,
            bounds: Bounds::new(lo, hi).expect("built-in bounds are in order"),
        };
        let classes = Label::Classes(self.classes.split(',').map(str::to_owned).collect());
        let mut domain = Domain::new(columns, self.storage, classes, DomainSource::BuiltIn(name.to_owned()));
        domain.test_is_public = true;
        if let Layout::Single { label, .. } = self.layout {
            domain.label_column = label.map(str::to_owned);
        }
        Arc::new(domain)
    }

    /// The domain is that of the file of training rows, if there is one.
    fn is_described(&self, name: &'static str, data_dir: Option<&Path>) -> bool {
        let Layout::Single { train, .. } = self.layout else {
            return true;
        };
        let folders = data_folders(name, data_dir, self.layout);
        let file = folders.ok().and_then(|folders| folder::first_file(&folders, train));
        file.is_none_or(|file| folder::unpacked_name(&file) == train[0])
    }
}

impl Name {
    /// MNIST's files, if the data set is made of such files.
    pub(super) fn idx_files(&self, data_dir: Option<&Path>) -> Result<Option<folder::IdxFiles>, DataError> {
        match &self.contents {
            Contents::Files(Files {
                layout: Layout::Idx, ..
            }) => {
                let folders = data_folders(self.name, data_dir, Layout::Idx)?;
                let files = folders.iter().find_map(|folder| folder::idx_files(folder));
                let expected = "train-images-idx3-ubyte and the other three IDX files";
                files.ok_or_else(|| missing(&folders, expected)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Loads the data set. Generated rows come in their own domain; `domain` may declare another relation.
    pub(super) fn load(&self, data_dir: Option<&Path>, domain: Option<&Arc<Domain>>) -> Result<TrainTest, DataError> {
        let name = self.name;
        let files = match &self.contents {
            Contents::Generated(generated) => {
                let (train, test) = (generated.data)(SEED);
                return folder::redeclared(TrainTest { train, test }, domain);
            }
            Contents::Files(files) => files,
        };
        let folders = data_folders(name, data_dir, files.layout)?;
        match files.layout {
            Layout::Idx => {
                let files = self.idx_files(data_dir)?.expect("the layout has IDX files");
                folder::load_idx(name, &files, Some(10), domain)
            }
            Layout::Cifar => {
                let files = folders.iter().find_map(|folder| folder::cifar_files(folder));
                let expected = "data_batch_1.bin … or train_1.bin … (CIFAR-10's records)";
                folder::load_cifar(name, &files.ok_or_else(|| missing(&folders, expected))?, domain)
            }
            Layout::Single {
                format,
                train,
                test,
                label,
            } => {
                let file = folder::first_file(&folders, train).ok_or_else(|| missing(&folders, train[0]))?;
                let test = folder::first_file(&folders, test);
                let shape = libsvm::Shape {
                    columns: Some(files.columns),
                    storage: None,
                };
                Single { format, label, shape }.load(name, &file, test.as_deref(), domain)
            }
        }
    }
}

/// Folders in which files of a named data set are looked for.
fn data_folders(name: &'static str, data_dir: Option<&Path>, layout: Layout) -> Result<Vec<PathBuf>, DataError> {
    let root = data_dir
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("ROUNDS_DATA").map(PathBuf::from));
    let root = root.ok_or_else(|| DataError::NoDirectory { name: name.into() })?;
    if root.is_dir() {
        Ok(layout.folders(name).iter().map(|folder| root.join(folder)).collect())
    } else {
        Err(DataError::missing(
            &root,
            "the folder of data files (--data-dir or ROUNDS_DATA)",
        ))
    }
}

fn missing(folders: &[PathBuf], file: &str) -> DataError {
    let searched: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let path = folders.last().expect("at least one folder is searched");
    DataError::missing(
        path,
        &format!("{file}, plain, .gz or .xz, in one of {}", searched.join(", ")),
    )
}

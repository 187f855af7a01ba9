//! Named data sets: generated ones, and files in the data folder with their domains (`names.toml`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rounds_algorithms::problem::synthetic::{
    Quadratic, Users, synthetic_logistic, synthetic_logistic_domain, synthetic_mnist, synthetic_mnist_domain,
    synthetic_users, synthetic_users_domain,
};
use rounds_algorithms::problem::{Dataset, Domain, DomainSource, Format, Labels, UnitDeclaration};
use serde::Deserialize;

use super::error::DataError;
use super::formats::{self, IdxFiles};
use super::ids::UNIT_OF_FILE;
use super::request::Request;
use super::schema::SchemaTable;
use super::source::unpacked_name;
use super::table::TrainTest;

const FILES: &str = include_str!("names.toml");
/// The seed of generated data sets.
const SEED: u64 = 0;
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

#[expect(clippy::large_enum_variant, reason = "few, made once, and read where they stand")]
enum Contents {
    Generated(Generated),
    Files(Files),
}

/// A data set that is made from a seed.
struct Generated {
    /// Training rows and perhaps test rows.
    data: fn(u64) -> (Dataset, Option<Dataset>),
    domain: fn() -> Domain,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilesTable {
    files: Vec<Files>,
}

/// A data set of files, with the declared domain from its documentation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    name: String,
    about: String,
    format: Format,
    /// Folders of the data folder.
    folders: Vec<String>,
    /// Names of the file of training rows; the schema describes the first one.
    #[serde(default)]
    train: Vec<String>,
    #[serde(default)]
    test: Vec<String>,
    schema: SchemaTable,
    /// The training rows belong to users, for studies of such units.
    users: Option<UsersTable>,
}

/// A split into users ([`Users`]).
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersTable {
    rows: f64,
    spread: f64,
    skew: f64,
}

/// All named data sets.
pub static NAMES: LazyLock<Vec<Name>> = LazyLock::new(|| {
    let generated = |name, about, contents| Name { name, about, contents: Contents::Generated(contents) };
    let mut names = vec![
        generated(
            "synthetic-mnist",
            "generated: 60,000 + 10,000 x 784 bytes, 10 classes; MNIST's shape and sparsity, planted softmax model",
            Generated {
                data: |seed| {
                    let (train, test) = synthetic_mnist(seed);
                    (train, Some(test))
                },
                domain: synthetic_mnist_domain,
            },
        ),
        generated(
            "synthetic-logistic",
            "generated: 100,000 x 20, 2 classes; paper 003, section 5",
            Generated {
                data: |seed| (synthetic_logistic(100_000, LOGISTIC_FEATURES, seed), None),
                domain: || synthetic_logistic_domain(LOGISTIC_FEATURES),
            },
        ),
        generated(
            "synthetic-users",
            "generated: 100,000 x 20, 2 classes, rows of 5,000 users who differ in their intercept",
            Generated {
                data: |seed| (synthetic_users((5_000, 20), LOGISTIC_FEATURES, 1.0, seed), None),
                domain: || synthetic_users_domain(LOGISTIC_FEATURES),
            },
        ),
        generated(
            "quadratic",
            "generated: 100 x 100, real targets; squared loss is a quadratic with L = 10 as in paper 001, figure 2",
            Generated {
                data: |seed| (quadratic(seed).dataset(), None),
                domain: || Quadratic::domain(QUADRATIC_DIMENSION, QUADRATIC_SMOOTHNESS),
            },
        ),
    ];
    let table: FilesTable = toml::from_str(FILES).expect("a test reads the table of names");
    names.extend(table.files.into_iter().map(|mut files| Name {
        name: std::mem::take(&mut files.name).leak(),
        about: std::mem::take(&mut files.about).leak(),
        contents: Contents::Files(files),
    }));
    names
});

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

/// The users of a named data set are dealt out by the labels of all its rows: data that differ in one row have other users everywhere.
pub(crate) fn deals_users(name: &str) -> bool {
    find(name).is_some_and(|named| matches!(&named.contents, Contents::Files(files) if files.users.is_some()))
}

/// The domain of a named data set. `None` for other names, and for files other than those that the domain describes.
pub fn built_in(name: &str, data_dir: Option<&Path>) -> Option<Arc<Domain>> {
    let named = find(name)?;
    match &named.contents {
        Contents::Generated(generated) => Some(Arc::new((generated.domain)())),
        Contents::Files(files) => files.is_described(named.name, data_dir).then(|| Arc::new(files.domain(named.name))),
    }
}

impl Files {
    fn domain(&self, name: &str) -> Domain {
        let domain = self.schema.clone().domain(DomainSource::BuiltIn(name.to_owned()));
        let mut domain = domain.expect("a test checks every built-in schema");
        domain.test_is_public = true;
        domain.format = Some(self.format);
        domain.unit = self.users.map(|_| UNIT_OF_FILE.clone());
        domain
    }

    /// Training rows by user, where there are users.
    fn by_user(&self, loaded: TrainTest, unit: &UnitDeclaration) -> Result<TrainTest, DataError> {
        let (Some(UsersTable { rows, spread, skew }), Labels::Classes { values, classes, .. }) =
            (self.users, loaded.train.labels())
        else {
            return Ok(loaded);
        };
        let users = Users { rows, spread, skew }.of(values, *classes, SEED);
        let name = loaded.train.name().to_owned();
        let train = loaded.train.by_unit(&users, unit.clone());
        let train = train.map_err(|error| DataError::no_dataset(Path::new(&name), &error))?;
        Ok(TrainTest { train, ..loaded })
    }

    /// The schema is that of the file of training rows, if there is one.
    fn is_described(&self, name: &str, data_dir: Option<&Path>) -> bool {
        let folders = self.data_folders(name, data_dir).unwrap_or_default();
        let file = formats::first_file(&folders, &self.train);
        file.is_none_or(|file| unpacked_name(&file) == self.train[0])
    }

    /// Folders in which the files are looked for.
    fn data_folders(&self, name: &str, data_dir: Option<&Path>) -> Result<Vec<PathBuf>, DataError> {
        let given = data_dir.map(Path::to_path_buf);
        let root = given.or_else(|| std::env::var_os("ROUNDS_DATA").map(PathBuf::from));
        let root = root.ok_or_else(|| DataError::NoDirectory { name: name.into() })?;
        if root.is_dir() {
            return Ok(self.folders.iter().map(|folder| root.join(folder)).collect());
        }
        Err(DataError::missing(&root, "the folder of data files (`data-dir` or ROUNDS_DATA)"))
    }

    fn load(&self, name: &str, data_dir: Option<&Path>, request: Request<'_>) -> Result<TrainTest, DataError> {
        let folders = self.data_folders(name, data_dir)?;
        match self.format {
            Format::Idx => return formats::load_idx(name, &find_idx(&folders)?, Some(10), request),
            Format::CifarRecords => {
                let files = folders.iter().find_map(|folder| formats::cifar_files(folder));
                let expected = "data_batch_1.bin … or train_1.bin … (CIFAR-10's records)";
                return formats::load_cifar(name, &files.ok_or_else(|| missing(&folders, expected))?, request);
            }
            Format::Libsvm | Format::Csv | Format::Parquet | Format::Npy | Format::Npz => {}
        }
        let described = self.domain(name);
        let file = formats::first_file(&folders, &self.train).ok_or_else(|| missing(&folders, &self.train[0]))?;
        let test = formats::first_file(&folders, &self.test);
        let request =
            Request { label: described.label_column.as_deref(), columns: Some(described.features()), ..request };
        formats::load_as(self.format, name, &file, test.as_deref(), request)
    }
}

impl Name {
    /// MNIST's files, if the data set is made of such files.
    pub(super) fn idx_files(&self, data_dir: Option<&Path>) -> Result<Option<IdxFiles>, DataError> {
        match &self.contents {
            Contents::Files(files) if files.format == Format::Idx => {
                find_idx(&files.data_folders(self.name, data_dir)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The files with the features of training rows and of test rows.
    pub(super) fn files(&self, data_dir: Option<&Path>) -> [Vec<PathBuf>; 2] {
        let Contents::Files(files) = &self.contents else { return Default::default() };
        let folders = files.data_folders(self.name, data_dir).unwrap_or_default();
        let first = |names| formats::first_file(&folders, names).into_iter().collect();
        match files.format {
            Format::Idx => {
                find_idx(&folders).map_or_else(|_| Default::default(), |[train, _, test, _]| [vec![train], vec![test]])
            }
            Format::CifarRecords => folders.iter().find_map(|folder| formats::cifar_files(folder)).unwrap_or_default(),
            Format::Libsvm | Format::Csv | Format::Parquet | Format::Npy | Format::Npz => {
                [first(&files.train), first(&files.test)]
            }
        }
    }

    /// Loads the data set. Generated rows come in their own domain; that of the request may declare another relation.
    pub(super) fn load(&self, data_dir: Option<&Path>, request: Request<'_>) -> Result<TrainTest, DataError> {
        match &self.contents {
            Contents::Generated(generated) => {
                let (train, test) = (generated.data)(SEED);
                TrainTest { train, test }.redeclared(request.domain)
            }
            Contents::Files(files) if files.users.is_some() && request.unit_ids.is_none() => {
                let loaded = files.load(self.name, data_dir, request.ungrouped())?;
                files.by_user(loaded, request.unit.unwrap_or(&UNIT_OF_FILE))
            }
            Contents::Files(files) => files.load(self.name, data_dir, request),
        }
    }
}

fn find_idx(folders: &[PathBuf]) -> Result<IdxFiles, DataError> {
    let files = folders.iter().find_map(|folder| formats::idx_files(folder));
    files.ok_or_else(|| missing(folders, "train-images-idx3-ubyte and the other three IDX files"))
}

fn missing(folders: &[PathBuf], file: &str) -> DataError {
    let searched: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let path = folders.last().expect("at least one folder is searched");
    let expected = format!("{file}, plain, .gz or .xz, in one of {}", searched.join(", "));
    DataError::missing(path, &expected)
}

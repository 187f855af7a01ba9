//! Names, files and folders: which files make up a data set, what format they are in, and which test rows belong to
//! which training rows.

use crate::data::csv::{self, CsvOptions, LabelColumn};
use crate::data::error::{DataError, listing};
use crate::data::labels::{BadLabels, Classes, RawLabels, Target};
use crate::data::libsvm::{self, LibsvmOptions, Storage};
use crate::data::npy::{self, Archive, Roles};
use crate::data::source::Source;
use crate::data::{cifar, idx};
use rayon::prelude::*;
use rounds_algorithms::problem::synthetic::{
    Quadratic, synthetic_logistic, synthetic_logistic_domain, synthetic_mnist, synthetic_mnist_domain,
    synthetic_mnist_optimum,
};
use rounds_algorithms::problem::{
    self, Bounds, Columns, Dataset, DatasetError, Domain, DomainSource, Encoder, Features, Label, Labels, Relation,
};
use rounds_kernels::features::Norm;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A data set as a run needs it.
#[derive(Clone, Debug)]
pub struct TrainTest {
    /// What is trained on.
    pub train: Dataset,
    /// What accuracy is measured on, where the data comes with it. Same columns and classes as `train`.
    pub test: Option<Dataset>,
}

/// Explicit operations on the features. Their constants are public, that is declared, never estimated from the data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preparation {
    /// `x ↦ factor · x`.
    pub scale: Option<f32>,
    /// `x ↦ x · min(1, bound/‖x‖)`, after scaling.
    pub clip: Option<(Norm, f64)>,
}

impl TrainTest {
    /// Scales and clips the features of training and test rows. The bound lies in the data sets afterwards, for the
    /// privacy statement.
    ///
    /// # Errors
    /// Factors and bounds that are not positive and finite, and products that overflow.
    pub fn prepare(self, preparation: Preparation) -> Result<Self, DatasetError> {
        let prepare = |data: Dataset| {
            let data = match preparation.scale {
                Some(factor) => data.scale_features(factor)?,
                None => data,
            };
            match preparation.clip {
                Some((norm, bound)) => data.clip_features(norm, bound),
                None => Ok(data),
            }
        };
        Ok(Self {
            train: prepare(self.train)?,
            test: self.test.map(prepare).transpose()?,
        })
    }
}

/// What files do not say themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// Where files of named data sets lie; without it, the folder that the variable ROUNDS_DATA names.
    pub data_dir: Option<PathBuf>,
    /// Into what rows are encoded. Without it they are kept as they are, and nothing may be claimed for them; what follows is
    /// for those alone.
    pub domain: Option<Arc<Domain>>,
    /// Whether labels are classes or real targets.
    pub target: Target,
    /// CSV: label column, header, delimiter.
    pub csv: CsvOptions,
    /// LIBSVM: sparse or dense, number of columns, first index.
    pub libsvm: LibsvmOptions,
}

/// What a name stands for.
enum Contents {
    SyntheticMnist,
    SyntheticLogistic,
    Quadratic,
    Mnist,
    Cifar10,
    /// LIBSVM files: names without packing of training and test rows, and the domain of the file with the first name.
    Libsvm(&'static [&'static str], &'static [&'static str], BuiltIn),
    /// A CSV file, its label column, and the domain of the file with the first name.
    Csv(&'static [&'static str], &'static str, BuiltIn),
}

/// The declared domain of a named data set, from its documentation.
struct BuiltIn {
    columns: usize,
    bounds: [f64; 2],
    storage: problem::Storage,
    /// Separated by commas.
    classes: &'static str,
}

impl BuiltIn {
    const fn dense(columns: usize, bounds: [f64; 2], classes: &'static str) -> Self {
        Self {
            columns,
            bounds,
            storage: problem::Storage::Dense,
            classes,
        }
    }

    const fn sparse(columns: usize, classes: &'static str) -> Self {
        Self {
            columns,
            bounds: [0.0, 1.0],
            storage: problem::Storage::Sparse,
            classes,
        }
    }

    /// Images of `columns` bytes in ten classes.
    const fn images(columns: usize) -> Self {
        Self {
            columns,
            bounds: [0.0, 255.0],
            storage: problem::Storage::Bytes,
            classes: "0,1,2,3,4,5,6,7,8,9",
        }
    }

    fn domain(&self, name: &str, label_column: Option<&str>) -> Domain {
        Domain {
            relation: Relation::ZeroOut,
            columns: Columns::Matrix {
                count: self.columns,
                bounds: Bounds::new(self.bounds[0], self.bounds[1]).expect("built-in bounds are in order"),
            },
            storage: self.storage,
            label: Label::Classes(self.classes.split(',').map(str::to_owned).collect()),
            label_column: label_column.map(str::to_owned),
            dropped: Vec::new(),
            test_is_public: true,
            source: DomainSource::BuiltIn(name.to_owned()),
        }
    }
}

/// A name under which data is asked for.
pub struct Name {
    /// The name.
    pub name: &'static str,
    /// What it stands for, in a few words.
    pub about: &'static str,
    contents: Contents,
}

/// The seed of the synthetic data sets.
const SEED: u64 = 0;

/// All names that [`load`] knows.
pub const NAMES: &[Name] = &[
    Name {
        name: "synthetic-mnist",
        about: "generated: 60,000 + 10,000 x 784 bytes, 10 classes; MNIST's shape and sparsity, planted softmax model",
        contents: Contents::SyntheticMnist,
    },
    Name {
        name: "synthetic-logistic",
        about: "generated: 100,000 x 20, 2 classes; paper 003, section 5",
        contents: Contents::SyntheticLogistic,
    },
    Name {
        name: "quadratic",
        about: "generated: 100 x 100, real targets; squared loss is a quadratic with L = 10 as in paper 001, figure 2",
        contents: Contents::Quadratic,
    },
    Name {
        name: "mnist",
        about: "IDX files: 60,000 + 10,000 x 784 bytes, 10 classes",
        contents: Contents::Mnist,
    },
    Name {
        name: "cifar10",
        about: "CIFAR-10 records: 50,000 + 10,000 x 3,072 bytes, 10 classes",
        contents: Contents::Cifar10,
    },
    Name {
        name: "a9a",
        about: "LIBSVM files: 32,561 + 16,281 x 123, 2 classes",
        contents: Contents::Libsvm(&["a9a"], &["a9a.t"], BuiltIn::sparse(123, "-1,1")),
    },
    Name {
        name: "w8a",
        about: "LIBSVM files: 49,749 x 300, 2 classes",
        contents: Contents::Libsvm(&["w8a"], &["w8a.t"], BuiltIn::sparse(300, "-1,1")),
    },
    Name {
        name: "ijcnn1",
        // Bounds of the training rows; 1,280 values of the test rows lie a little outside and are cut.
        about: "LIBSVM files: 49,990 + 91,701 x 22, 2 classes",
        contents: Contents::Libsvm(&["ijcnn1"], &["ijcnn1.t"], BuiltIn::dense(22, [-1.0, 1.0], "-1,1")),
    },
    Name {
        name: "covtype",
        about: "CSV file: forest cover, 54 features, 7 classes, or the 16 % of it in covtype-16pct-scaled01.csv",
        contents: Contents::Csv(
            &["covtype-16pct-scaled01.csv", "covtype.csv"],
            "Cover_Type",
            BuiltIn::dense(54, [0.0, 1.0], "1,2,3,4,5,6,7"),
        ),
    },
    Name {
        name: "letter",
        about: "LIBSVM files: 15,000 + 5,000 x 16, 26 classes",
        contents: Contents::Libsvm(
            &["letter.scale"],
            &["letter.scale.t"],
            BuiltIn::dense(
                16,
                [-1.0, 1.0],
                "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26",
            ),
        ),
    },
    Name {
        name: "pendigits",
        about: "LIBSVM files: 7,494 + 3,498 x 16, 10 classes, values 0 to 100 divided by 100",
        contents: Contents::Libsvm(
            &["pendigits"],
            &["pendigits.t"],
            BuiltIn::dense(16, [0.0, 100.0], "0,1,2,3,4,5,6,7,8,9"),
        ),
    },
    Name {
        name: "phishing",
        about: "LIBSVM file: 11,055 x 68, 2 classes",
        contents: Contents::Libsvm(&["phishing"], &[], BuiltIn::sparse(68, "0,1")),
    },
    Name {
        name: "mushrooms",
        about: "LIBSVM file: 8,124 x 112, 2 classes",
        contents: Contents::Libsvm(&["mushrooms"], &[], BuiltIn::sparse(112, "1,2")),
    },
    Name {
        name: "german",
        about: "LIBSVM file: 1,000 x 24, 2 classes",
        contents: Contents::Libsvm(
            &["german.numer_scale", "german.numer"],
            &[],
            BuiltIn::dense(24, [-1.0, 1.0], "-1,1"),
        ),
    },
    Name {
        name: "reuters",
        about: "LIBSVM files: 7,770 + 3,299 x 8,315, sparse, 2 classes",
        contents: Contents::Libsvm(
            &["reuters-lasvm.trn"],
            &["reuters-lasvm.tst"],
            BuiltIn::sparse(8_315, "-1,1"),
        ),
    },
];

/// Features of synthetic-logistic.
const LOGISTIC_FEATURES: usize = 20;
const QUADRATIC_DIMENSION: usize = 100;
const QUADRATIC_SMOOTHNESS: f64 = 10.0;

fn quadratic() -> Quadratic {
    Quadratic::random(QUADRATIC_DIMENSION, QUADRATIC_SMOOTHNESS, SEED)
}

/// Where LIBSVM files of a name are looked for in the data folder.
fn libsvm_folders(name: &str) -> [&str; 4] {
    ["libsvm", name, "other", ""]
}

/// Where a CSV file of a name is looked for.
fn csv_folders(name: &str) -> [&str; 4] {
    ["other", "csv", name, ""]
}

/// The parameters that minimise the population risk of a generated data set's usual model, one row an output with the
/// intercept last, where they are known.
pub fn optimum(name: &str) -> Option<Vec<f32>> {
    match find(name)?.contents {
        Contents::SyntheticMnist => Some(synthetic_mnist_optimum(SEED)),
        Contents::Quadratic => {
            let weights = quadratic().optimum;
            Some(weights.iter().map(|&weight| weight as f32).chain([0.0]).collect())
        }
        _ => None,
    }
}

/// The domain of a named data set. `None` for other names, and where only a file lies there of which nothing is declared.
pub fn built_in(name: &str, data_dir: Option<&Path>) -> Option<Arc<Domain>> {
    let named = find(name)?;
    let first = |files: &[&str], inside: &[&str]| {
        let options = options(data_dir, None);
        let found = folders(name, &options, inside)
            .ok()
            .and_then(|folders| first_file(&folders, files));
        found.is_none_or(|file| unpacked_name(&file) == files[0])
    };
    let domain = match &named.contents {
        Contents::SyntheticMnist => synthetic_mnist_domain(),
        Contents::SyntheticLogistic => synthetic_logistic_domain(LOGISTIC_FEATURES),
        Contents::Quadratic => Quadratic::domain(QUADRATIC_DIMENSION, QUADRATIC_SMOOTHNESS),
        Contents::Mnist => BuiltIn::images(28 * 28).domain(name, None),
        Contents::Cifar10 => BuiltIn::images(3 * 32 * 32).domain(name, None),
        Contents::Libsvm(files, _, built_in) if first(files, &libsvm_folders(name)) => built_in.domain(name, None),
        Contents::Csv(files, label, built_in) if first(files, &csv_folders(name)) => built_in.domain(name, Some(label)),
        Contents::Libsvm(..) | Contents::Csv(..) => return None,
    };
    Some(Arc::new(domain))
}

/// The data set that is called so.
pub(super) fn find(name: &str) -> Option<&'static Name> {
    NAMES.iter().find(|named| named.name == name)
}

/// Whether a data set needs no file.
pub fn is_generated(name: &str) -> bool {
    find(name).is_some_and(|named| {
        matches!(
            named.contents,
            Contents::SyntheticMnist | Contents::SyntheticLogistic | Contents::Quadratic
        )
    })
}

/// The table of training rows at `path`, a file or a folder: a CSV file.
pub(super) fn table(path: &Path) -> Option<PathBuf> {
    let file = if path.is_dir() {
        let train = list(path).ok()?.into_iter().find(|file| file.starts_with("train."))?;
        path.join(train)
    } else {
        path.to_owned()
    };
    matches!(format_of(&file, None), Ok(Format::Csv)).then_some(file)
}

fn options(data_dir: Option<&Path>, domain: Option<Arc<Domain>>) -> LoadOptions {
    LoadOptions {
        data_dir: data_dir.map(Path::to_path_buf),
        domain,
        ..LoadOptions::default()
    }
}

/// Loads a data set by its name, in its built-in domain if it has one, or a file or folder by its path, without a domain.
///
/// # Errors
/// As [`load_with`].
pub fn load(name_or_path: &str, data_dir: Option<&Path>) -> Result<TrainTest, DataError> {
    load_declared(name_or_path, data_dir, built_in(name_or_path, data_dir))
}

/// Loads a data set by its name or path, encoded into `domain`; without one as it is, so that nothing may be claimed.
///
/// # Errors
/// As [`load_with`]. In a domain no error depends on a row once the file's syntax is right.
pub fn load_declared(
    name_or_path: &str,
    data_dir: Option<&Path>,
    domain: Option<Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    load_with(name_or_path, &options(data_dir, domain))
}

/// Loads a data set by its name, or a file or folder by its path; a name wins over a file called so, which `./name` means.
///
/// A file's format is told by its content: NPY and NPZ by their magic numbers, LIBSVM by `index:value`, CSV by its
/// separators. Test rows come from a file beside it that is called the same with `.t` (or `.tst` for `.trn`). Folders hold
/// MNIST's four IDX files, CIFAR-10's records (`data_batch_*.bin` or `train_*.bin` and `test*.bin`), NPY arrays called as in
/// [`npy::EXPECTED_ARRAYS`], or `train.*` and perhaps `test.*` in any of the file formats.
///
/// # Errors
/// [`DataError`], see there.
pub fn load_with(name_or_path: &str, options: &LoadOptions) -> Result<TrainTest, DataError> {
    if let Some(named) = find(name_or_path) {
        return load_named(named, options);
    }
    let path = Path::new(name_or_path);
    if path.is_dir() {
        return load_folder(path, options);
    }
    if path.exists() {
        return load_file(&stem(path), path, test_file(path).as_deref(), options);
    }
    if path.components().count() > 1 || path.extension().is_some() {
        return Err(DataError::Missing {
            path: path.into(),
            looked_for: "a data file or folder".into(),
        });
    }
    let similar = NAMES.iter().map(|named| {
        (
            strsim::jaro_winkler(named.name, &name_or_path.to_lowercase()),
            named.name,
        )
    });
    let nearest = similar
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let known = NAMES.iter().map(|named| named.name).collect::<Vec<_>>().join(", ");
    Err(DataError::Unknown {
        name: name_or_path.into(),
        nearest: nearest.map(|(_, name)| name),
        known,
    })
}

fn load_named(named: &Name, options: &LoadOptions) -> Result<TrainTest, DataError> {
    let name = named.name;
    match named.contents {
        Contents::SyntheticMnist => {
            let (train, test) = synthetic_mnist(SEED);
            generated(train, Some(test), options)
        }
        Contents::SyntheticLogistic => generated(synthetic_logistic(100_000, LOGISTIC_FEATURES, SEED), None, options),
        Contents::Quadratic => generated(quadratic().dataset(), None, options),
        Contents::Mnist => load_idx(name, &idx_folders(name, options)?, Some(10), options.domain.as_ref()),
        Contents::Cifar10 => {
            let folders = folders(name, options, &["cifar10", "cifar-10-batches-bin", "CIFAR10", ""])?;
            let files = folders.iter().find_map(|folder| cifar_files(folder));
            let files =
                files.ok_or_else(|| missing(&folders, "data_batch_1.bin … or train_1.bin … (CIFAR-10's records)"))?;
            load_cifar(name, &files, options.domain.as_ref())
        }
        Contents::Libsvm(train, test, BuiltIn { columns, .. }) => {
            let folders = folders(name, options, &libsvm_folders(name))?;
            let train_file = first_file(&folders, train).ok_or_else(|| missing(&folders, train[0]))?;
            let test_file = first_file(&folders, test);
            let libsvm = LibsvmOptions {
                columns: options.libsvm.columns.or(Some(columns)),
                ..options.libsvm
            };
            load_libsvm(
                name,
                &train_file,
                test_file.as_deref(),
                &LoadOptions {
                    libsvm,
                    ..options.clone()
                },
            )
        }
        Contents::Csv(files, label, _) => {
            let folders = folders(name, options, &csv_folders(name))?;
            let file = first_file(&folders, files).ok_or_else(|| missing(&folders, files[0]))?;
            let csv = CsvOptions {
                label: LabelColumn::Name(label.into()),
                ..options.csv.clone()
            };
            load_csv(
                name,
                &file,
                None,
                &LoadOptions {
                    csv,
                    target: Target::Classes,
                    ..options.clone()
                },
            )
        }
    }
}

/// Generated rows. They come in their own domain; `options` may declare another relation.
fn generated(train: Dataset, test: Option<Dataset>, options: &LoadOptions) -> Result<TrainTest, DataError> {
    let declare = |data: Dataset| match &options.domain {
        None => Ok(data),
        Some(domain) => {
            let path = data.name().into();
            data.in_domain(Arc::clone(domain))
                .map_err(|source| DataError::Dataset { path, source })
        }
    };
    Ok(TrainTest {
        train: declare(train)?,
        test: test.map(declare).transpose()?,
    })
}

/// Where files of a named data set are looked for: these folders of the data folder.
fn folders(name: &str, options: &LoadOptions, inside: &[&str]) -> Result<Vec<PathBuf>, DataError> {
    let root = options
        .data_dir
        .clone()
        .or_else(|| std::env::var_os("ROUNDS_DATA").map(PathBuf::from));
    let root = root.ok_or_else(|| DataError::NoDirectory { name: name.into() })?;
    if root.is_dir() {
        Ok(inside.iter().map(|folder| root.join(folder)).collect())
    } else {
        Err(DataError::Missing {
            path: root,
            looked_for: "the folder of data files (--data-dir or ROUNDS_DATA)".into(),
        })
    }
}

fn missing(folders: &[PathBuf], file: &str) -> DataError {
    let path = folders.last().expect("at least one folder is searched").clone();
    let searched: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    DataError::Missing {
        path,
        looked_for: format!("{file}, plain, .gz or .xz, in one of {}", searched.join(", ")),
    }
}

/// A file's name without the endings of packing.
fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    name.strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".xz"))
        .unwrap_or(&name)
        .to_owned()
}

/// A name for what lies at `path`.
fn stem(path: &Path) -> String {
    let name = unpacked_name(path);
    let ending = [".csv", ".tsv", ".npy", ".npz", ".libsvm", ".svm", ".txt", ".bin"];
    ending
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name)
        .to_owned()
}

/// The file called `name` in `folder`, plain or packed.
fn packed_or_not(folder: &Path, name: &str) -> Option<PathBuf> {
    ["", ".gz", ".xz"]
        .into_iter()
        .map(|ending| folder.join(format!("{name}{ending}")))
        .find(|path| path.is_file())
}

fn first_file(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    folders
        .iter()
        .find_map(|folder| names.iter().find_map(|name| packed_or_not(folder, name)))
}

/// The file of test rows beside a file of training rows.
fn test_file(path: &Path) -> Option<PathBuf> {
    let name = unpacked_name(path);
    let folder = path.parent()?;
    let counterpart = name.strip_suffix(".trn").map(|name| format!("{name}.tst"));
    packed_or_not(folder, &counterpart.unwrap_or_else(|| format!("{name}.t")))
}

/// Whether a file is called as binary records are.
fn is_records(path: &Path) -> bool {
    Path::new(&unpacked_name(path))
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("bin"))
}

/// What a single file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Libsvm,
    Csv,
    Npy,
    Npz,
    Cifar,
}

/// Tells a file's format by its first 64 KiB. With a domain no row tells anything: text is CSV if its columns have names or
/// the file is called so, and LIBSVM otherwise.
fn format_of(path: &Path, domain: Option<&Arc<Domain>>) -> Result<Format, DataError> {
    let mut source = Source::open(path)?;
    let mut start = Vec::new();
    source.read_up_to(1 << 16, &mut start)?;
    let refuse = |found: &str| DataError::Layout {
        path: path.into(),
        expected: "a file in LIBSVM, CSV, NPY or NPZ format, or a folder of IDX files, CIFAR-10 records or NPY arrays",
        found: found.into(),
    };
    match start[..] {
        [] => return Err(refuse("an empty file")),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return Ok(Format::Npy),
        [b'P', b'K', 3..=6, 4..=8, ..] => return Ok(Format::Npz),
        [0, 0, 8..=14, _, ..] => {
            return Err(refuse(
                "a single IDX file, which lacks features or labels; give its folder",
            ));
        }
        _ => {}
    }
    if is_records(path) {
        return Ok(Format::Cifar);
    }
    if domain.is_none() && start.contains(&0) {
        return Err(refuse("binary data without a known magic number"));
    }
    if let Some(domain) = domain {
        let called = |ending: &str| unpacked_name(path).to_ascii_lowercase().ends_with(ending);
        let table = domain.label_column.is_some() || called(".csv") || called(".tsv");
        return Ok(if table { Format::Csv } else { Format::Libsvm });
    }
    let line = start
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|line| !line.is_empty() && line[0] != b'#');
    let line = line.ok_or_else(|| refuse("no row"))?;
    let pair = |field: &[u8]| {
        field
            .iter()
            .position(|&byte| byte == b':')
            .is_some_and(|colon| colon > 0 && field[..colon].iter().all(u8::is_ascii_digit))
    };
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    if fields.clone().skip(1).any(pair) {
        Ok(Format::Libsvm)
    } else if line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t')) {
        Ok(Format::Csv)
    } else if fields
        .next()
        .is_some_and(|field| crate::data::number::parse(field).is_some())
        && fields.next().is_none()
    {
        // A row without a feature that is not zero.
        Ok(Format::Libsvm)
    } else {
        Err(refuse(
            "text that is neither label index:value … nor separated by commas, semicolons or tabs",
        ))
    }
}

fn load_file(name: &str, path: &Path, test: Option<&Path>, options: &LoadOptions) -> Result<TrainTest, DataError> {
    match format_of(path, options.domain.as_ref())? {
        Format::Libsvm => load_libsvm(name, path, test, options),
        Format::Csv => load_csv(name, path, test, options),
        Format::Npy => load_npy(name, path, test, options),
        Format::Npz => load_npz(name, path, options),
        Format::Cifar => load_cifar(
            name,
            &CifarFiles {
                train: vec![path.into()],
                test: test.map(Path::to_path_buf).into_iter().collect(),
            },
            options.domain.as_ref(),
        ),
    }
}

fn load_folder(folder: &Path, options: &LoadOptions) -> Result<TrainTest, DataError> {
    let name = stem(folder);
    if let Some(files) = idx_files(folder) {
        return load_idx(&name, &files, None, options.domain.as_ref());
    }
    if let Some(files) = cifar_files(folder) {
        return load_cifar(&name, &files, options.domain.as_ref());
    }
    let files = list(folder)?;
    let arrays: Vec<String> = files
        .iter()
        .filter_map(|file| file.strip_suffix(".npy").map(str::to_owned))
        .collect();
    if let Some(roles) = Roles::of(&arrays) {
        let open = |array: &String| folder.join(format!("{array}.npy"));
        return join_arrays(&name, &roles, options, &open, |array, labels| {
            let mut source = Source::open(&open(array))?;
            if labels {
                npy::read_labels(&mut source).map(Array::Labels)
            } else {
                npy::read_features(&mut source).map(Array::Features)
            }
        });
    }
    let start = |start: &str| {
        files
            .iter()
            .find(|file| file.starts_with(start))
            .map(|file| folder.join(file))
    };
    if let Some(train) = start("train.") {
        return load_file(&name, &train, start("test.").as_deref(), options);
    }
    Err(DataError::Layout {
        path: folder.into(),
        expected: "MNIST's four IDX files, CIFAR-10's records (data_batch_*.bin or train_*.bin, test*.bin), NPY arrays (x_train, \
                   y_train, x_test, y_test), or train.* and test.* in LIBSVM, CSV or NPY format; or give a file in it",
        found: if files.is_empty() {
            "no files".into()
        } else {
            format!("a folder with {}", listing(files))
        },
    })
}

/// Names of the files in a folder, sorted.
fn list(folder: &Path) -> Result<Vec<String>, DataError> {
    let read = |source| DataError::Read {
        path: folder.into(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        if entry.path().is_file() {
            files.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Labels of training data as classes or targets, and how test labels map to them.
fn decide(path: &Path, labels: RawLabels, target: Target) -> Result<(Labels, Option<Classes>), DataError> {
    check_finite(path, &labels)?;
    labels.decide(target).map_err(|bad| bad_labels(path, bad))
}

/// Labels of test data, as the training data decided.
fn follow(path: &Path, labels: RawLabels, classes: Option<&Classes>) -> Result<Labels, DataError> {
    match classes {
        Some(classes) => {
            check_finite(path, &labels).and_then(|()| labels.assign(classes).map_err(|bad| bad_labels(path, bad)))
        }
        None => decide(path, labels, Target::Values).map(|(labels, _)| labels),
    }
}

/// Refuses labels that are NaN or infinite.
fn check_finite(path: &Path, labels: &RawLabels) -> Result<(), DataError> {
    let RawLabels::Numbers(values) = labels else {
        return Ok(());
    };
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(row) => Err(DataError::Label {
            path: path.into(),
            row,
            found: values[row].to_string(),
            expected: "of finite numbers".into(),
        }),
    }
}

fn bad_labels(path: &Path, bad: BadLabels) -> DataError {
    DataError::Labels {
        path: path.into(),
        expected: bad.expected,
        found: bad.found,
    }
}

pub(super) fn checked(name: &str, path: &Path, features: Features, labels: Labels) -> Result<Dataset, DataError> {
    Dataset::new(name, features, labels).map_err(|source| DataError::Dataset {
        path: path.into(),
        source,
    })
}

/// A data set of rows that were encoded into `domain`.
fn declared(
    name: &str,
    path: &Path,
    (features, labels): (Features, Labels),
    domain: &Arc<Domain>,
) -> Result<Dataset, DataError> {
    Dataset::new(name, features, labels)
        .and_then(|data| data.in_domain(Arc::clone(domain)))
        .map_err(|source| DataError::Dataset {
            path: path.into(),
            source,
        })
}

/// The rows of a matrix and their labels in `domain`.
pub(super) fn encoded(
    name: &str,
    path: &Path,
    features: Features,
    labels: impl Iterator<Item = f64>,
    domain: &Arc<Domain>,
) -> Result<Dataset, DataError> {
    check_unnamed(path, domain)?;
    let (found, declared_columns) = (features.columns(), domain.features());
    if found != declared_columns {
        let problem = format!("it has {found} columns, but its schema declares {declared_columns}; mend the schema");
        return Err(DataError::schema(path, problem));
    }
    let encoder = Encoder::new(domain);
    let codes = labels.map(|label| encoder.label_number(label)).collect();
    declared(name, path, encoder.finish(encoder.matrix(features), codes), domain)
}

/// Refuses a domain of named columns for a file in which columns have no names.
fn check_unnamed(path: &Path, domain: &Domain) -> Result<(), DataError> {
    match domain.columns {
        Columns::Matrix { .. } => Ok(()),
        Columns::Named(_) => Err(DataError::schema(
            path,
            "its columns have no names, but its schema names them; declare [columns] count = D, bounds = [LO, HI]",
        )),
    }
}

/// A function that reads rows of a file into a domain.
type ReadInto<'a> = &'a dyn Fn(&Path) -> Result<Dataset, DataError>;

/// Training and test rows of a domain, which does not depend on either.
fn load_into(train: &Path, test: Option<&Path>, read: ReadInto<'_>) -> Result<TrainTest, DataError> {
    Ok(TrainTest {
        train: read(train)?,
        test: test.map(read).transpose()?,
    })
}

/// Refuses test rows of another width.
fn check_columns(path: &Path, train: &Features, test: &Features) -> Result<(), DataError> {
    if train.columns() == test.columns() {
        return Ok(());
    }
    Err(DataError::TestMismatch {
        path: path.into(),
        expected: format!("{} columns", train.columns()),
        found: format!("{} columns", test.columns()),
    })
}

/// A function that reads features and labels from one file.
type ReadTable<'a> = &'a dyn Fn(&Path) -> Result<(Features, RawLabels), DataError>;

/// Training and test rows from a file each.
fn load_tables(
    name: &str,
    train: &Path,
    test: Option<&Path>,
    target: Target,
    read: ReadTable<'_>,
) -> Result<TrainTest, DataError> {
    let (features, labels) = read(train)?;
    let (labels, classes) = decide(train, labels, target)?;
    let test = match test {
        None => None,
        Some(test) => {
            let (test_features, test_labels) = read(test)?;
            check_columns(test, &features, &test_features)?;
            Some(checked(
                name,
                test,
                test_features,
                follow(test, test_labels, classes.as_ref())?,
            )?)
        }
    };
    Ok(TrainTest {
        train: checked(name, train, features, labels)?,
        test,
    })
}

fn load_csv(name: &str, train: &Path, test: Option<&Path>, options: &LoadOptions) -> Result<TrainTest, DataError> {
    if let Some(domain) = &options.domain {
        return load_into(train, test, &|path| {
            declared(name, path, csv::read_into(path, domain)?, domain)
        });
    }
    load_tables(name, train, test, options.target, &|path| csv::read(path, &options.csv))
}

fn load_npy(name: &str, train: &Path, test: Option<&Path>, options: &LoadOptions) -> Result<TrainTest, DataError> {
    if let Some(domain) = &options.domain {
        return load_into(train, test, &|path| {
            let (features, labels) = npy::read_table(&mut Source::open(path)?)?;
            encoded(name, path, features, labels.numbers(), domain)
        });
    }
    load_tables(name, train, test, options.target, &|path| {
        npy::read_table(&mut Source::open(path)?)
    })
}

/// LIBSVM files: the number of columns is the declared one or the largest of both files.
fn load_libsvm(name: &str, train: &Path, test: Option<&Path>, options: &LoadOptions) -> Result<TrainTest, DataError> {
    if let Some(domain) = &options.domain {
        return load_into(train, test, &|path| {
            check_unnamed(path, domain)?;
            declared(name, path, libsvm::read_into(path, domain)?, domain)
        });
    }
    let (mut features, labels) = libsvm::read(train, options.libsvm)?;
    let (labels, classes) = decide(train, labels, options.target)?;
    let test = match test {
        None => None,
        Some(test) => {
            // Test rows are kept as the training rows are, whatever their own density.
            let storage = match &features {
                Features::Sparse { .. } => Storage::Sparse,
                Features::F32 { .. } | Features::U8 { .. } => Storage::Dense,
            };
            let columns = match storage {
                Storage::Dense => Some(features.columns()),
                _ => options.libsvm.columns,
            };
            let (mut test_features, test_labels) = libsvm::read(
                test,
                LibsvmOptions {
                    storage,
                    columns,
                    ..options.libsvm
                },
            )?;
            let widest = features.columns().max(test_features.columns());
            for features in [&mut features, &mut test_features] {
                if let Features::Sparse { columns, .. } = features {
                    *columns = widest;
                }
            }
            Some(checked(
                name,
                test,
                test_features,
                follow(test, test_labels, classes.as_ref())?,
            )?)
        }
    };
    Ok(TrainTest {
        train: checked(name, train, features, labels)?,
        test,
    })
}

/// One array of an archive or folder.
enum Array {
    Features(Features),
    Labels(RawLabels),
}

fn load_npz(name: &str, path: &Path, options: &LoadOptions) -> Result<TrainTest, DataError> {
    let mut archive = Archive::open(path)?;
    let Some(roles) = Roles::of(archive.names()) else {
        let names = archive.names();
        let found = if names.is_empty() {
            "no arrays".into()
        } else {
            format!("the arrays {}", listing(names))
        };
        return Err(DataError::Layout {
            path: path.into(),
            expected: npy::EXPECTED_ARRAYS,
            found,
        });
    };
    join_arrays(
        name,
        &roles,
        options,
        &|array| path.join(format!("{array}.npy")),
        |array, labels| {
            if labels {
                archive.array(array, npy::read_labels).map(Array::Labels)
            } else {
                archive.array(array, npy::read_features).map(Array::Features)
            }
        },
    )
}

/// Training and test rows from two arrays each.
fn join_arrays(
    name: &str,
    roles: &Roles,
    options: &LoadOptions,
    path: &dyn Fn(&String) -> PathBuf,
    mut read: impl FnMut(&String, bool) -> Result<Array, DataError>,
) -> Result<TrainTest, DataError> {
    let mut pair = |[features, labels]: &[String; 2]| -> Result<_, DataError> {
        let (Array::Features(rows), Array::Labels(raw)) = (read(features, false)?, read(labels, true)?) else {
            unreachable!("features and labels are read as what they are")
        };
        Ok((path(features), rows, path(labels), raw))
    };
    if let Some(domain) = &options.domain {
        let mut read = |roles: &[String; 2]| {
            let (path, features, _, labels) = pair(roles)?;
            encoded(name, &path, features, labels.numbers(), domain)
        };
        return Ok(TrainTest {
            train: read(&roles.train)?,
            test: roles.test.as_ref().map(read).transpose()?,
        });
    }
    let (train_path, train, labels_path, labels) = pair(&roles.train)?;
    let (labels, classes) = decide(&labels_path, labels, options.target)?;
    let test = match &roles.test {
        None => None,
        Some(test) => {
            let (test_path, test, labels_path, labels) = pair(test)?;
            check_columns(&test_path, &train, &test)?;
            let labels = follow(&labels_path, labels, classes.as_ref())?;
            Some(join(name, &test_path, test, &labels_path, labels)?)
        }
    };
    Ok(TrainTest {
        train: join(name, &train_path, train, &labels_path, labels)?,
        test,
    })
}

/// CIFAR-10's files.
struct CifarFiles {
    train: Vec<PathBuf>,
    test: Vec<PathBuf>,
}

/// CIFAR-10's files in a folder.
fn cifar_files(folder: &Path) -> Option<CifarFiles> {
    let files = list(folder).ok()?;
    let find = |start: &[&str]| -> Vec<PathBuf> {
        let wanted = |file: &&String| start.iter().any(|start| file.starts_with(start)) && is_records(Path::new(file));
        files.iter().filter(wanted).map(|file| folder.join(file)).collect()
    };
    let train = find(&["data_batch_", "train"]);
    (!train.is_empty()).then(|| CifarFiles {
        train,
        test: find(&["test"]),
    })
}

fn load_cifar(name: &str, files: &CifarFiles, domain: Option<&Arc<Domain>>) -> Result<TrainTest, DataError> {
    let (train, test) = rayon::join(
        || cifar::read(&files.train),
        || {
            if files.test.is_empty() {
                Ok(None)
            } else {
                cifar::read(&files.test).map(Some)
            }
        },
    );
    let make = |path: &Path, (features, labels): (Features, Vec<u8>)| match domain {
        Some(domain) => encoded(name, path, features, labels.into_iter().map(f64::from), domain),
        None => checked(name, path, features, cifar::classes(path, &labels)?),
    };
    Ok(TrainTest {
        train: make(&files.train[0], train?)?,
        test: test?.map(|rows| make(&files.test[0], rows)).transpose()?,
    })
}

/// MNIST's files: training images and labels, test images and labels.
pub(super) type IdxFiles = [PathBuf; 4];

/// MNIST's files in a folder.
fn idx_files(folder: &Path) -> Option<IdxFiles> {
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

/// The IDX files that a data set is made of, with its name and number of classes, if it is made of such files.
pub(super) fn idx_data(
    name_or_path: &str,
    data_dir: Option<&Path>,
) -> Result<Option<(String, IdxFiles, Option<usize>)>, DataError> {
    let options = options(data_dir, None);
    if let Some(named) = find(name_or_path) {
        if !matches!(named.contents, Contents::Mnist) {
            return Ok(None);
        }
        let files = idx_folders(named.name, &options)?;
        return Ok(Some((named.name.to_owned(), files, Some(10))));
    }
    let path = Path::new(name_or_path);
    Ok(idx_files(path).map(|files| (stem(path), files, None)))
}

/// MNIST's files in the folder of data files.
fn idx_folders(name: &str, options: &LoadOptions) -> Result<IdxFiles, DataError> {
    let folders = folders(name, options, &["mnist", "MNIST/raw", "MNIST", ""])?;
    let files = folders.iter().find_map(|folder| idx_files(folder));
    files.ok_or_else(|| missing(&folders, "train-images-idx3-ubyte and the other three IDX files"))
}

/// The test rows of [`IdxFiles`] whose training rows have `columns` and `classes`.
pub(super) fn idx_test(
    name: &str,
    files: &IdxFiles,
    columns: usize,
    classes: Option<usize>,
    domain: Option<&Arc<Domain>>,
) -> Result<Dataset, DataError> {
    let [_, _, images, labels] = files;
    let test = idx::read_features(images)?;
    if test.columns() != columns {
        return Err(DataError::TestMismatch {
            path: images.clone(),
            expected: format!("{columns} columns"),
            found: format!("{} columns", test.columns()),
        });
    }
    let numbers = idx::read_labels(labels)?;
    if let Some(domain) = domain {
        return encoded(
            name,
            images,
            test,
            numbers.into_iter().map(|label| label as f64),
            domain,
        );
    }
    join(name, images, test, labels, idx::classes(labels, &numbers, classes)?)
}

fn load_idx(
    name: &str,
    files: &IdxFiles,
    classes: Option<usize>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    let [train_images, train_labels, test_images, test_labels] = files;
    let (images, labels) = rayon::join(
        || {
            [train_images, test_images]
                .into_par_iter()
                .map(|path| idx::read_features(path))
                .collect::<Result<Vec<_>, _>>()
        },
        || -> Result<_, DataError> { Ok([idx::read_labels(train_labels)?, idx::read_labels(test_labels)?]) },
    );
    let ([train, test], [labels, of_test]) = (<[Features; 2]>::try_from(images?).expect("two files"), labels?);
    if let Some(domain) = domain {
        let encode = |path: &Path, features, labels: Vec<i64>| {
            encoded(
                name,
                path,
                features,
                labels.into_iter().map(|label| label as f64),
                domain,
            )
        };
        return Ok(TrainTest {
            train: encode(train_images, train, labels)?,
            test: Some(encode(test_images, test, of_test)?),
        });
    }
    let train_classes = idx::classes(train_labels, &labels, classes)?;
    let test_classes = idx::classes(test_labels, &of_test, train_classes.classes())?;
    check_columns(test_images, &train, &test)?;
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
    checked(name, features_path, features, labels)
}

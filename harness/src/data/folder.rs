//! Loading by name or path: the files that make up a data set, their format, and the test rows that belong to the training
//! rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::problem::{Columns, Dataset, DatasetError, Domain, Encoder, Features};

use super::error::{DataError, listing};
use super::labels::{Meaning, RawLabels};
use super::names::{self, NAMES};
use super::npy::{self, Archive, Roles};
use super::source::Source;
use super::{cifar, csv, idx, libsvm, number};

/// A data set as a run needs it.
#[derive(Clone, Debug)]
pub struct TrainTest {
    /// Training rows.
    pub train: Dataset,
    /// Test rows for accuracy, if there are any. Same columns and classes as `train`.
    pub test: Option<Dataset>,
}

/// Features and labels of the same rows, from one file or two.
pub(super) struct Table {
    path: PathBuf,
    labels_path: PathBuf,
    features: Features,
    labels: RawLabels,
}

impl Table {
    /// Rows of one file.
    pub(super) fn of_file(path: &Path, features: Features, labels: RawLabels) -> Self {
        Self::of_files(path, features, path, labels)
    }

    /// Features of one file and labels of another.
    pub(super) fn of_files(path: &Path, features: Features, labels_path: &Path, labels: RawLabels) -> Self {
        Self {
            path: path.into(),
            labels_path: labels_path.into(),
            features,
            labels,
        }
    }

    /// The features and labels of two IDX files.
    pub(super) fn of_idx(images: &Path, labels: &Path, classes: Option<usize>) -> Result<Self, DataError> {
        let (features, values) = rayon::join(|| idx::read_features(images), || idx::read_labels(labels));
        let values = values?;
        Ok(Self::of_files(
            images,
            features?,
            labels,
            RawLabels::Indices { values, classes },
        ))
    }

    fn check_counts(&self) -> Result<(), DataError> {
        check_counts(&self.path, self.features.len(), &self.labels_path, self.labels.len())
    }

    /// The data set of these rows, encoded into `domain`.
    fn encoded(self, name: &str, domain: &Arc<Domain>) -> Result<Dataset, DataError> {
        self.check_counts()?;
        let path = self.path;
        let encoder = Encoder::new(domain);
        let (features, codes) = match self.labels {
            RawLabels::Encoded(codes) => (self.features, codes),
            labels => {
                check_unnamed(&path, domain)?;
                let (found, declared) = (self.features.columns(), domain.features());
                if found != declared {
                    let problem =
                        format!("it has {found} columns, but its schema declares {declared}; mend the schema");
                    return Err(DataError::schema(&path, problem));
                }
                let codes = labels.numbers().map(|label| encoder.label_number(label)).collect();
                (encoder.matrix(self.features), codes)
            }
        };
        let (features, labels) = encoder.finish(features, codes);
        Dataset::new(name, features, labels)
            .and_then(|data| data.in_domain(Arc::clone(domain)))
            .map_err(|error| no_dataset(&path, &error))
    }
}

/// Refuses a number of labels other than that of the rows.
pub(super) fn check_counts(path: &Path, rows: usize, labels_path: &Path, labels: usize) -> Result<(), DataError> {
    if rows == labels {
        return Ok(());
    }
    let problem = format!(
        "{rows} rows, but {} has {labels} labels; each row has one label, so they do not belong together",
        labels_path.display()
    );
    Err(DataError::rows(
        path,
        problem,
        "it has another number of rows than its labels",
    ))
}

fn no_dataset(path: &Path, error: &DatasetError) -> DataError {
    DataError::rows(path, error.to_string(), "its rows make no data set")
}

/// The way from the rows of files to data sets, which training rows define for the test rows.
pub(super) enum Reading<'a> {
    /// Encoding into a domain.
    Declared(&'a Arc<Domain>),
    /// Features as they are; the columns and the meaning of labels are those of the training rows.
    Undeclared { columns: usize, meaning: Meaning },
}

impl<'a> Reading<'a> {
    /// Encoding into `domain`; without one the reading of training rows with `columns` and `labels`.
    pub(super) fn of(
        domain: Option<&'a Arc<Domain>>,
        columns: usize,
        labels_path: &Path,
        labels: &RawLabels,
    ) -> Result<Self, DataError> {
        Ok(match domain {
            Some(domain) => Self::Declared(domain),
            None => Self::Undeclared {
                columns,
                meaning: labels.meaning(labels_path)?,
            },
        })
    }

    /// The data set of a file's rows.
    pub(super) fn dataset(&self, name: &str, table: Table) -> Result<Dataset, DataError> {
        let (columns, meaning) = match self {
            Self::Declared(domain) => return table.encoded(name, domain),
            Self::Undeclared { columns, meaning } => (*columns, meaning),
        };
        let found = table.features.columns();
        if found != columns {
            let problem = format!(
                "{found} columns, but the training data has {columns} columns; training and test rows have the same columns"
            );
            return Err(DataError::file(&table.path, problem));
        }
        table.check_counts()?;
        let labels = table.labels.with_meaning(&table.labels_path, meaning)?;
        Dataset::new(name, table.features, labels).map_err(|error| no_dataset(&table.path, &error))
    }
}

/// The data sets of training and test rows.
fn finish(
    name: &str,
    mut train: Table,
    mut test: Option<Table>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    if let Some(test) = &mut test
        && let (Features::Sparse(a), Features::Sparse(b)) = (&mut train.features, &mut test.features)
    {
        // Columns of sparse files are as many as the larger one of the largest indices.
        a.columns = a.columns.max(b.columns);
        b.columns = a.columns;
    }
    let reading = Reading::of(domain, train.features.columns(), &train.labels_path, &train.labels)?;
    Ok(TrainTest {
        train: reading.dataset(name, train)?,
        test: test.map(|test| reading.dataset(name, test)).transpose()?,
    })
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
/// A file's format is told by its content: NPY and NPZ by their magic numbers, LIBSVM by `index:value`, CSV by its
/// separators. Test rows come from a file beside it that is called the same with `.t` (or `.tst` for `.trn`). Folders hold
/// MNIST's four IDX files, CIFAR-10's records (`data_batch_*.bin` or `train_*.bin` and `test*.bin`), NPY arrays called as in
/// [`npy::EXPECTED_ARRAYS`], or `train.*` and perhaps `test.*` in any of the file formats.
///
/// # Errors
/// [`DataError`], see there. In a domain no error depends on a row once the file's syntax is right.
pub fn load_declared(
    name_or_path: &str,
    data_dir: Option<&Path>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    if let Some(named) = names::find(name_or_path) {
        return named.load(data_dir, domain);
    }
    let path = Path::new(name_or_path);
    if path.is_dir() {
        return load_folder(path, domain);
    }
    if path.exists() {
        return load_file(&stem(path), path, test_file(path).as_deref(), domain);
    }
    if path.components().count() > 1 || path.extension().is_some() {
        return Err(DataError::missing(path, "a data file or folder"));
    }
    let wanted = name_or_path.to_lowercase();
    let similar = NAMES
        .iter()
        .map(|named| (strsim::jaro_winkler(named.name, &wanted), named.name));
    let similar = similar.filter(|(similarity, _)| *similarity > 0.75);
    let nearest = similar.max_by(|a, b| a.0.total_cmp(&b.0));
    Err(DataError::Unknown {
        name: name_or_path.into(),
        nearest: nearest.map(|(_, name)| name),
        known: NAMES.iter().map(|named| named.name).collect::<Vec<_>>().join(", "),
    })
}

/// Rows that have a domain, in another one of the same shape.
pub(super) fn redeclared(data: TrainTest, domain: Option<&Arc<Domain>>) -> Result<TrainTest, DataError> {
    let Some(domain) = domain else { return Ok(data) };
    let declare = |data: Dataset| {
        let path = PathBuf::from(data.name());
        let declared = data.in_domain(Arc::clone(domain));
        declared.map_err(|error| no_dataset(&path, &error))
    };
    let test = data.test.map(declare).transpose()?;
    Ok(TrainTest {
        train: declare(data.train)?,
        test,
    })
}

/// The table of training rows at `path`, a file or a folder: a CSV file.
pub(super) fn table(path: &Path) -> Option<PathBuf> {
    let file = match path.is_dir().then(|| list(path)) {
        Some(files) => path.join(files.ok()?.into_iter().find(|file| file.starts_with("train."))?),
        None => path.to_owned(),
    };
    matches!(format_of(&file, None), Ok(Format::Csv)).then_some(file)
}

/// A file's name without the endings of packing.
pub(super) fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let unpacked = [".gz", ".xz"].iter().find_map(|ending| name.strip_suffix(ending));
    unpacked.unwrap_or(&name).to_owned()
}

/// A name for the data set at `path`.
fn stem(path: &Path) -> String {
    let name = unpacked_name(path);
    [".csv", ".tsv", ".npy", ".npz", ".libsvm", ".svm", ".txt", ".bin"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name)
        .to_owned()
}

/// The file called `name` in `folder`, plain or packed.
fn packed_or_not(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut paths = ["", ".gz", ".xz"]
        .map(|ending| folder.join(format!("{name}{ending}")))
        .into_iter();
    paths.find(|path| path.is_file())
}

/// The first file called one of `names`, plain or packed.
pub(super) fn first_file(folders: &[PathBuf], names: &[String]) -> Option<PathBuf> {
    let first = |folder: &PathBuf| names.iter().find_map(|name| packed_or_not(folder, name));
    folders.iter().find_map(first)
}

/// The file of test rows beside a file of training rows.
fn test_file(path: &Path) -> Option<PathBuf> {
    let name = unpacked_name(path);
    let test = name
        .strip_suffix(".trn")
        .map_or_else(|| format!("{name}.t"), |name| format!("{name}.tst"));
    packed_or_not(path.parent()?, &test)
}

/// A file is called as binary records are.
fn is_records(path: &Path) -> bool {
    Path::new(&unpacked_name(path))
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("bin"))
}

/// The format of a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Libsvm,
    Csv,
    Npy,
    Npz,
    Cifar,
}

/// The format of a file by its first 64 KiB. With a domain no row enters: text is CSV if its columns have names or the file is
/// called so, and LIBSVM otherwise.
fn format_of(path: &Path, domain: Option<&Arc<Domain>>) -> Result<Format, DataError> {
    let mut source = Source::open(path)?;
    let mut start = Vec::new();
    source.read_up_to(1 << 16, &mut start)?;
    let refuse = |found: &str| {
        let formats = "LIBSVM, CSV, NPY or NPZ format, or a folder of IDX files, CIFAR-10 records or NPY arrays";
        Err(DataError::file(path, format!("{found}; expected a file in {formats}")))
    };
    match start[..] {
        [] => return refuse("an empty file"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return Ok(Format::Npy),
        [b'P', b'K', 3..=6, 4..=8, ..] => return Ok(Format::Npz),
        [0, 0, 8..=14, _, ..] => return refuse("a single IDX file, which lacks features or labels; give its folder"),
        _ => {}
    }
    if is_records(path) {
        return Ok(Format::Cifar);
    }
    if let Some(domain) = domain {
        let called = |ending: &str| unpacked_name(path).to_ascii_lowercase().ends_with(ending);
        let table = domain.label_column.is_some() || called(".csv") || called(".tsv");
        return Ok(if table { Format::Csv } else { Format::Libsvm });
    }
    if start.contains(&0) {
        return refuse("binary data without a known magic number");
    }
    let mut lines = start.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let Some(line) = lines.find(|line| !line.is_empty() && line[0] != b'#') else {
        return refuse("no row");
    };
    let pair = |field: &[u8]| {
        let colon = field.iter().position(|&byte| byte == b':');
        colon.is_some_and(|colon| colon > 0 && field[..colon].iter().all(u8::is_ascii_digit))
    };
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    if fields.clone().skip(1).any(pair) {
        Ok(Format::Libsvm)
    } else if line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t')) {
        Ok(Format::Csv)
    } else if fields.next().is_some_and(|field| number::parse(field).is_some()) && fields.next().is_none() {
        // A row without a feature that is not zero.
        Ok(Format::Libsvm)
    } else {
        refuse("text that is neither label index:value … nor separated by commas, semicolons or tabs")
    }
}

/// The format of files that hold features and labels together, and hints for undeclared ones.
#[derive(Clone, Copy)]
pub(super) struct Single<'a> {
    pub format: Format,
    /// CSV: the label's column.
    pub label: Option<&'a str>,
    /// LIBSVM: storage and columns.
    pub shape: libsvm::Shape,
}

impl Single<'_> {
    /// Training and test rows of a file each.
    pub(super) fn load(
        self,
        name: &str,
        train: &Path,
        test: Option<&Path>,
        domain: Option<&Arc<Domain>>,
    ) -> Result<TrainTest, DataError> {
        let declared = domain.map(AsRef::as_ref);
        let read = |path: &Path, shape: libsvm::Shape| match self.format {
            Format::Libsvm => libsvm::read(path, declared, shape),
            Format::Csv => csv::read(path, declared, self.label),
            Format::Npy => npy::read_table(path),
            Format::Cifar => cifar::read(&[path.into()]),
            Format::Npz => unreachable!("an archive holds several arrays"),
        };
        let train = read(train, self.shape)?;
        let test = test.map(|test| read(test, self.shape.like(&train.features)));
        finish(name, train, test.transpose()?, domain)
    }
}

fn load_file(
    name: &str,
    path: &Path,
    test: Option<&Path>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    match format_of(path, domain)? {
        Format::Npz => load_npz(name, path, domain),
        format => {
            let (label, shape) = (None, libsvm::Shape::default());
            Single { format, label, shape }.load(name, path, test, domain)
        }
    }
}

fn load_folder(folder: &Path, domain: Option<&Arc<Domain>>) -> Result<TrainTest, DataError> {
    let name = stem(folder);
    if let Some(files) = idx_files(folder) {
        return load_idx(&name, &files, None, domain);
    }
    if let Some(files) = cifar_files(folder) {
        return load_cifar(&name, &files, domain);
    }
    let files = list(folder)?;
    let arrays = files
        .iter()
        .filter_map(|file| file.strip_suffix(".npy").map(str::to_owned));
    let arrays: Vec<String> = arrays.collect();
    if let Some(roles) = Roles::of(&arrays) {
        return load_arrays(&name, &roles, domain, |[features, labels]| {
            let path = |array: &String| folder.join(format!("{array}.npy"));
            let (features, labels) = (path(features), path(labels));
            Ok(Table::of_files(
                &features,
                npy::read_features(&mut Source::open(&features)?)?,
                &labels,
                npy::read_labels(&mut Source::open(&labels)?)?,
            ))
        });
    }
    let start = |start: &str| {
        let file = files.iter().find(|file| file.starts_with(start));
        file.map(|file| folder.join(file))
    };
    if let Some(train) = start("train.") {
        return load_file(&name, &train, start("test.").as_deref(), domain);
    }
    let found = match &files[..] {
        [] => "no files".to_owned(),
        files => format!("a folder with {}", listing(files)),
    };
    let expected = "MNIST's four IDX files, CIFAR-10's records (data_batch_*.bin or train_*.bin, test*.bin), NPY arrays \
                    (x_train, y_train, x_test, y_test), or train.* and test.* in LIBSVM, CSV or NPY format; or give a file in it";
    Err(DataError::file(folder, format!("{found}; expected {expected}")))
}

/// Names of the files in a folder, sorted.
fn list(folder: &Path) -> Result<Vec<String>, DataError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(DataError::read(folder))? {
        let entry = entry.map_err(DataError::read(folder))?;
        if entry.path().is_file() {
            files.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Refuses a domain of named columns for a file in which columns have no names.
pub(super) fn check_unnamed(path: &Path, domain: &Domain) -> Result<(), DataError> {
    match domain.columns {
        Columns::Matrix { .. } => Ok(()),
        Columns::Named(_) => Err(DataError::schema(
            path,
            "its columns have no names, but its schema names them; declare [columns] count = D, bounds = [LO, HI]",
        )),
    }
}

fn load_npz(name: &str, path: &Path, domain: Option<&Arc<Domain>>) -> Result<TrainTest, DataError> {
    let mut archive = Archive::open(path)?;
    let Some(roles) = Roles::of(archive.names()) else {
        let found = match archive.names() {
            [] => "no arrays".to_owned(),
            names => format!("the arrays {}", listing(names)),
        };
        let expected = npy::EXPECTED_ARRAYS;
        return Err(DataError::file(path, format!("{found}; expected {expected}")));
    };
    load_arrays(name, &roles, domain, |[features, labels]| {
        let entry = |array: &String| path.join(format!("{array}.npy"));
        Ok(Table::of_files(
            &entry(features),
            archive.array(features, npy::read_features)?,
            &entry(labels),
            archive.array(labels, npy::read_labels)?,
        ))
    })
}

/// Training and test rows from two arrays each.
fn load_arrays(
    name: &str,
    roles: &Roles,
    domain: Option<&Arc<Domain>>,
    mut read: impl FnMut(&[String; 2]) -> Result<Table, DataError>,
) -> Result<TrainTest, DataError> {
    let train = read(&roles.train)?;
    finish(name, train, roles.test.as_ref().map(read).transpose()?, domain)
}

/// CIFAR-10's files of training and of test rows.
pub(super) type CifarFiles = [Vec<PathBuf>; 2];

/// CIFAR-10's files in a folder.
pub(super) fn cifar_files(folder: &Path) -> Option<CifarFiles> {
    let files = list(folder).ok()?;
    let find = |start: &[&str]| -> Vec<PathBuf> {
        let wanted = |file: &&String| start.iter().any(|start| file.starts_with(start)) && is_records(Path::new(file));
        files.iter().filter(wanted).map(|file| folder.join(file)).collect()
    };
    let files = [find(&["data_batch_", "train"]), find(&["test"])];
    Some(files).filter(|[train, _]| !train.is_empty())
}

pub(super) fn load_cifar(
    name: &str,
    [train, test]: &CifarFiles,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    let read_test = || (!test.is_empty()).then(|| cifar::read(test)).transpose();
    let (train, test) = rayon::join(|| cifar::read(train), read_test);
    finish(name, train?, test?, domain)
}

/// MNIST's files: training images and labels, test images and labels.
pub(super) type IdxFiles = [PathBuf; 4];

/// MNIST's files in a folder.
pub(super) fn idx_files(folder: &Path) -> Option<IdxFiles> {
    let find = |start: &str, kind: &str| {
        let called = |separator| packed_or_not(folder, &format!("{start}{separator}{kind}-ubyte"));
        called('-').or_else(|| called('.'))
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
    if let Some(named) = names::find(name_or_path) {
        let files = named.idx_files(data_dir)?;
        return Ok(files.map(|files| (named.name.to_owned(), files, Some(10))));
    }
    let path = Path::new(name_or_path);
    Ok(idx_files(path).map(|files| (stem(path), files, None)))
}

pub(super) fn load_idx(
    name: &str,
    files: &IdxFiles,
    classes: Option<usize>,
    domain: Option<&Arc<Domain>>,
) -> Result<TrainTest, DataError> {
    let [images, labels, test_images, test_labels] = files;
    let (train, test) = rayon::join(
        || Table::of_idx(images, labels, classes),
        || Table::of_idx(test_images, test_labels, classes),
    );
    finish(name, train?, Some(test?), domain)
}

//! Formats of data: the list of them, the format of a file by its content, the files of a folder in the known layouts, and
//! the rows of both. Adding a format is a file beside this list, its `mod` line, its variant and its arms.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::{DataError, listing};
use super::number;
use super::request::Request;
use super::source::{Compression, Source, unpacked_name};
use super::table::{Table, TrainTest};
use npy::{Archive, Roles};

mod cifar;
pub(super) mod csv;
pub(super) mod idx;
mod libsvm;
mod npy;
pub(super) mod one_file;
mod parquet;

/// The table of training rows at `path`, a file or a folder: a CSV or Parquet file. `named` is that of [`format_of`].
pub(super) fn table(path: &Path, named: Option<bool>) -> Option<PathBuf> {
    let file = match path.is_dir().then(|| list(path)) {
        Some(files) => path.join(files.ok()?.into_iter().find(|file| file.starts_with("train."))?),
        None => path.to_owned(),
    };
    matches!(format_of(&file, named), Ok(Format::Csv | Format::Parquet)).then_some(file)
}

/// A name for the data set at `path`.
pub(super) fn stem(path: &Path) -> String {
    let name = unpacked_name(path);
    [".csv", ".tsv", ".parquet", ".npy", ".npz", ".libsvm", ".svm", ".txt", ".bin"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name)
        .to_owned()
}

/// The file called `name` in `folder`, plain or packed.
fn packed_or_not(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut paths = ["", ".gz", ".xz"].map(|ending| folder.join(format!("{name}{ending}"))).into_iter();
    paths.find(|path| path.is_file())
}

/// The first file called one of `names`, plain or packed.
pub(super) fn first_file(folders: &[PathBuf], names: &[String]) -> Option<PathBuf> {
    let first = |folder: &PathBuf| names.iter().find_map(|name| packed_or_not(folder, name));
    folders.iter().find_map(first)
}

/// The file of test rows: that of `--test`, else the one beside the data file.
pub fn test_file(path: &Path, request: Request<'_>) -> Option<PathBuf> {
    let name = unpacked_name(path);
    let test = name.strip_suffix(".trn").map_or_else(|| format!("{name}.t"), |name| format!("{name}.tst"));
    let beside = || packed_or_not(path.parent()?, &test).filter(|_| request.split.is_none());
    request.test.map(Path::to_owned).or_else(beside)
}

/// A file is called as binary records are.
fn is_records(path: &Path) -> bool {
    Path::new(&unpacked_name(path)).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("bin"))
}

/// The format of a file, or of the files of a folder.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// A file of training rows, and perhaps one of test rows.
    Libsvm,
    Csv,
    Npy,
    /// An archive of arrays.
    Npz,
    /// A table, read as the text that it would be in a CSV file.
    Parquet,
    /// CIFAR-10's records.
    Cifar,
    /// MNIST's four files.
    Idx,
}

/// True for a declared domain with named columns, `None` without a domain.
fn has_names(request: Request<'_>) -> Option<bool> {
    request.domain.map(|domain| domain.label_column.is_some())
}

/// The format of a file by its first 64 KiB. Where it is declared whether columns have names (`named`) no row enters: text is CSV if
/// they have, or if the file is called so, and LIBSVM otherwise.
fn format_of(path: &Path, named: Option<bool>) -> Result<Format, DataError> {
    let mut source = Source::open(path)?;
    let mut start = Vec::new();
    source.read_up_to(1 << 16, &mut start)?;
    let refuse = |found: &str| {
        let formats =
            "LIBSVM, CSV, Parquet, NPY or NPZ format, or a folder of IDX files, CIFAR-10 records or NPY arrays";
        Err(DataError::file(path, format!("{found}; expected a file in {formats}")))
    };
    match start[..] {
        [] => return refuse("an empty file"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return Ok(Format::Npy),
        [b'P', b'K', 3..=6, 4..=8, ..] => return Ok(Format::Npz),
        _ if source.compression == Compression::Parquet => return Ok(Format::Parquet),
        [0, 0, 8..=14, _, ..] => return refuse("a single IDX file, which lacks features or labels; give its folder"),
        _ => {}
    }
    if is_records(path) {
        return Ok(Format::Cifar);
    }
    if let Some(named) = named {
        let called = |ending: &str| unpacked_name(path).to_ascii_lowercase().ends_with(ending);
        let table = named || called(".csv") || called(".tsv");
        return Ok(if table { Format::Csv } else { Format::Libsvm });
    }
    if start.starts_with(b"PAR1") && start.contains(&0) {
        return refuse("a Parquet file that is cut off or damaged");
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
    } else if fields.next().is_some_and(|field| number::parse::<f32>(field).is_some()) && fields.next().is_none() {
        // A row without a feature that is not zero.
        Ok(Format::Libsvm)
    } else {
        refuse("text that is neither label index:value … nor separated by commas, semicolons or tabs")
    }
}

impl Format {
    /// Training and test rows of a file each.
    pub(super) fn load(
        self,
        name: &str,
        train: &Path,
        test: Option<&Path>,
        request: Request<'_>,
    ) -> Result<TrainTest, DataError> {
        if self == Self::Npz {
            return load_npz(name, train, request);
        }
        let shape = libsvm::Shape::new(request);
        let train = self.read(train, request, shape)?;
        let read_test = |test: &Path| {
            let shape = shape.like(&train.features);
            format_of(test, has_names(request))?.read(test, request, shape)
        };
        let test = test.map(read_test).transpose()?;
        TrainTest::of(name, train, test, request)
    }

    /// The rows of a file that holds features and labels.
    fn read(self, path: &Path, request: Request<'_>, shape: libsvm::Shape) -> Result<Table, DataError> {
        let declared = request.domain.map(AsRef::as_ref);
        match self {
            Self::Libsvm => libsvm::read(path, declared, shape),
            Self::Csv | Self::Parquet => csv::read(path, request),
            Self::Npy => npy::read_table(path, request),
            Self::Cifar => cifar::read(&[path.into()]),
            Self::Npz | Self::Idx => {
                let expected = "an archive of training rows holds test rows, too: x_test and y_test";
                Err(DataError::file(path, format!("no file of test rows; {expected}")))
            }
        }
    }
}

/// Training rows of a file, and test rows of the file that is asked for, else of the file beside it, if there is one.
pub(super) fn load_file(path: &Path, request: Request<'_>) -> Result<TrainTest, DataError> {
    let format = format_of(path, has_names(request))?;
    let is_undeclared = request.domain.is_none();
    let of_libsvm = [
        ("--first-index", request.first_index.is_some()),
        ("--dimension without --bounds", is_undeclared && request.columns.is_some()),
    ];
    if let Some((flag, _)) = of_libsvm.iter().find(|(_, given)| *given && format != Format::Libsvm) {
        return Err(DataError::file(path, format!("{flag}: this is for LIBSVM files; leave it out")));
    }
    if format == Format::Npz && request.test.is_some() {
        let problem = "--test: an archive holds its own test rows, x_test and y_test; leave it out";
        return Err(DataError::file(path, problem));
    }
    format.load(&stem(path), path, test_file(path, request).as_deref(), request)
}

/// Rows of a folder in one of the known layouts.
pub(super) fn load_folder(folder: &Path, request: Request<'_>) -> Result<TrainTest, DataError> {
    let name = stem(folder);
    if let Some(files) = idx_files(folder) {
        return load_idx(&name, &files, None, request);
    }
    if let Some(files) = cifar_files(folder) {
        return load_cifar(&name, &files, request);
    }
    let files = list(folder)?;
    let arrays = files.iter().filter_map(|file| file.strip_suffix(".npy").map(str::to_owned));
    let arrays: Vec<String> = arrays.collect();
    if let Some(roles) = Roles::of(&arrays) {
        return load_arrays(&name, &roles, request, |[features, labels]| {
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
        let test = start("test.");
        return format_of(&train, has_names(request))?.load(&name, &train, test.as_deref(), request);
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

fn load_npz(name: &str, path: &Path, request: Request<'_>) -> Result<TrainTest, DataError> {
    let mut archive = Archive::open(path)?;
    let Some(roles) = Roles::of(&archive.names) else {
        return Err(no_roles(path, &archive.names));
    };
    load_arrays(name, &roles, request, |[features, labels]| archive.table(features, Some(labels)))
}

/// The refusal of an archive by the names of its arrays.
fn no_roles(path: &Path, names: &[String]) -> DataError {
    let found = match names {
        [] => "no arrays".to_owned(),
        names => format!("the arrays {}", listing(names)),
    };
    DataError::file(path, format!("{found}; expected {}", npy::EXPECTED_ARRAYS))
}

/// Training and test rows from two arrays each.
fn load_arrays(
    name: &str,
    roles: &Roles,
    request: Request<'_>,
    mut read: impl FnMut(&[String; 2]) -> Result<Table, DataError>,
) -> Result<TrainTest, DataError> {
    let train = read(&roles.train)?;
    TrainTest::of(name, train, roles.test.as_ref().map(read).transpose()?, request)
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

pub(super) fn load_cifar(name: &str, [train, test]: &CifarFiles, request: Request<'_>) -> Result<TrainTest, DataError> {
    let read_test = || (!test.is_empty()).then(|| cifar::read(test)).transpose();
    let (train, test) = rayon::join(|| cifar::read(train), read_test);
    TrainTest::of(name, train?, test?, request)
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

pub(super) fn load_idx(
    name: &str,
    files: &IdxFiles,
    classes: Option<usize>,
    request: Request<'_>,
) -> Result<TrainTest, DataError> {
    let [images, labels, test_images, test_labels] = files;
    let (train, test) =
        rayon::join(|| idx::read_table(images, labels, classes), || idx::read_table(test_images, test_labels, classes));
    TrainTest::of(name, train?, Some(test?), request)
}

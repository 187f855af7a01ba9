//! Formats of data: the format of a file, the files of a folder in the known layouts, and the rows of both. Adding a format is a file
//! here, its `mod` line, its variant of [`Format`] and its arms.

use std::path::{Path, PathBuf};

use rounds_algorithms::problem::{Domain, Format};

use super::error::{DataError, listing};
use super::number;
use super::request::Request;
use super::source::{Compression, Source, named_format, packed_or_not, unpacked_name};
use super::table::{Table, TrainTest};
use npy::{Archive, Roles};

mod cifar;
pub(super) mod csv;
pub(super) mod idx;
mod libsvm;
pub(super) mod npy;
pub(super) mod one_file;
mod parquet;

/// The table of training rows at `path`, a file or a folder: a CSV or Parquet file, by [`format_of`].
pub(super) fn table(path: &Path, declared: Option<Declared>) -> Option<PathBuf> {
    let file = match path.is_dir().then(|| list(path)) {
        Some(files) => path.join(files.ok()?.into_iter().find(|file| file.starts_with("train."))?),
        None => path.to_owned(),
    };
    matches!(format_of(&file, declared), Ok(Format::Csv | Format::Parquet)).then_some(file)
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

/// The files with the features of training rows and of test rows, of a file or of a folder in a known layout.
pub(super) fn files_of(path: &Path, request: Request<'_>) -> [Vec<PathBuf>; 2] {
    let format = request.domain.and_then(|domain| domain.format);
    let [train, mut test] = match path.is_dir().then(|| Layout::of(path, format)) {
        Some(Ok(layout)) => layout.files(path),
        _ => [vec![path.to_owned()], Vec::new()],
    };
    test.extend(test_file(path, request));
    [train, test]
}

/// A file is called as binary records are.
fn is_records(path: &Path) -> bool {
    named_format(path) == Some(Format::CifarRecords)
}

/// What is declared of the files of a data set.
#[derive(Clone, Copy)]
pub(super) struct Declared {
    /// Their format.
    pub(super) format: Option<Format>,
    /// Columns have names.
    pub(super) named: bool,
}

impl Declared {
    pub(super) fn of(domain: &Domain) -> Self {
        Self { format: domain.format, named: domain.label_column.is_some() }
    }
}

fn declared(request: Request<'_>) -> Option<Declared> {
    request.domain.map(|domain| Declared::of(domain))
}

/// The format of a file: the declared one, else by its name; nothing that the file holds chooses it. Where nothing is declared, and so
/// nothing claimed, by its first 64 KiB.
///
/// # Errors
/// A name that is not of the declared format; where nothing is declared, a file that is of no format.
pub(super) fn format_of(path: &Path, declared: Option<Declared>) -> Result<Format, DataError> {
    let Some(Declared { format, named }) = declared else { return format_by_content(path) };
    let of_name = named_format(path);
    let format = format.or(of_name).unwrap_or(if named { Format::Csv } else { Format::Libsvm });
    let is_parquet = Compression::named(path) == Compression::Parquet;
    if is_parquet != (format == Format::Parquet) {
        return Err(DataError::file(path, "the name of a Parquet file, and of no other, ends in .parquet"));
    }
    if format == Format::Idx {
        return Err(DataError::file(path, SINGLE_IDX));
    }
    Ok(format)
}

const SINGLE_IDX: &str = "a single IDX file, which lacks features or labels; give its folder";

fn format_by_content(path: &Path) -> Result<Format, DataError> {
    let mut source = Source::open(path)?;
    let mut start = Vec::new();
    source.read_up_to(1 << 16, &mut start)?;
    let refuse = |found: &str| {
        let formats =
            "LIBSVM, CSV, Parquet, NPY or NPZ format, or a folder of IDX files, CIFAR-10 records or NPY arrays";
        Err(DataError::contents(path, format_args!("{found}; expected a file in {formats}")))
    };
    let packed = [(Compression::Gzip, ".gz"), (Compression::Xz, ".xz"), (Compression::Parquet, ".parquet")];
    let is_packed = |(packing, _): &&(Compression, _)| start.starts_with(packing.magic()) && start.contains(&0);
    match start[..] {
        [] => return refuse("an empty file"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return Ok(Format::Npy),
        [b'P', b'K', 3..=6, 4..=8, ..] => return Ok(Format::Npz),
        _ if source.compression == Compression::Parquet => return Ok(Format::Parquet),
        [0, 0, 8..=14, _, ..] if !is_records(path) => return Err(DataError::file(path, SINGLE_IDX)),
        _ if is_records(path) => return Ok(Format::CifarRecords),
        _ => {}
    }
    if let Some((packing, ending)) = packed.iter().find(is_packed) {
        return refuse(&format!("a {} file whose name does not end in {ending}: rename it", packing.name()));
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

/// Training and test rows of a file each, the former in this format.
pub(super) fn load_as(
    format: Format,
    name: &str,
    train: &Path,
    test: Option<&Path>,
    request: Request<'_>,
) -> Result<TrainTest, DataError> {
    if format == Format::Npz {
        return load_npz(name, train, request);
    }
    let shape = libsvm::Shape::new(request);
    let train = read_as(format, train, request, shape)?;
    let read_test = |test: &Path| {
        let shape = shape.like(&train.features);
        read_as(format_of(test, declared(request))?, test, request.ungrouped(), shape)
    };
    let test = test.map(read_test).transpose()?;
    TrainTest::of(name, train, test, request)
}

/// The rows of a file in this format that holds features and labels.
fn read_as(format: Format, path: &Path, request: Request<'_>, shape: libsvm::Shape) -> Result<Table, DataError> {
    match format {
        Format::Libsvm => libsvm::read(path, request.domain.map(AsRef::as_ref), shape),
        Format::Csv | Format::Parquet => csv::read(path, request),
        Format::Npy => npy::read_table(path, request),
        Format::CifarRecords => cifar::read(&[path.into()]),
        Format::Npz | Format::Idx => {
            let problem = "no file of test rows; an archive of training rows holds test rows, too: x_test and y_test";
            Err(DataError::file(path, problem))
        }
    }
}

/// Training rows of a file, and test rows of the file that is asked for, else of the file beside it, if there is one.
pub(super) fn load_file(path: &Path, request: Request<'_>) -> Result<TrainTest, DataError> {
    let format = format_of(path, declared(request))?;
    if format != Format::Libsvm {
        if request.first_index.is_some() {
            return Err(DataError::file(path, "`first-index`: this is for LIBSVM files; leave it out"));
        }
        if request.domain.is_none() && request.columns.is_some() {
            let problem = "`dimension` without `bounds`: this is for LIBSVM files; leave it out";
            return Err(DataError::file(path, problem));
        }
    }
    if format == Format::Npz && request.test.is_some() {
        let problem = "`test`: an archive holds its own test rows, x_test and y_test; leave it out";
        return Err(DataError::file(path, problem));
    }
    load_as(format, &stem(path), path, test_file(path, request).as_deref(), request)
}

/// The files of a folder in one of the known layouts.
enum Layout {
    Idx(IdxFiles),
    CifarRecords(CifarFiles),
    Arrays(Roles),
    /// Training rows and perhaps test rows.
    Files(PathBuf, Option<PathBuf>),
}

impl Layout {
    /// The layout of a folder by the names of its files, if it is that of the declared format.
    fn of(folder: &Path, format: Option<Format>) -> Result<Self, DataError> {
        let may_be = |of: Format| format.is_none_or(|format| format == of);
        if let Some(files) = idx_files(folder).filter(|_| may_be(Format::Idx)) {
            return Ok(Self::Idx(files));
        }
        if let Some(files) = cifar_files(folder).filter(|_| may_be(Format::CifarRecords)) {
            return Ok(Self::CifarRecords(files));
        }
        let files = list(folder)?;
        let arrays: Vec<String> =
            files.iter().filter_map(|file| file.strip_suffix(".npy").map(str::to_owned)).collect();
        if let Some(roles) = Roles::of(&arrays).filter(|_| may_be(Format::Npy)) {
            return Ok(Self::Arrays(roles));
        }
        let start = |start: &str| {
            let file = files.iter().find(|file| file.starts_with(start));
            file.map(|file| folder.join(file))
        };
        if let Some(train) = start("train.") {
            return Ok(Self::Files(train, start("test.")));
        }
        let expected = "MNIST's four IDX files, CIFAR-10's records (data_batch_*.bin or train_*.bin, test*.bin), NPY arrays \
                        (x_train, y_train, x_test, y_test), or train.* and test.* in LIBSVM, CSV or NPY format; or give a file in it";
        Err(DataError::Folder { path: folder.into(), files, expected })
    }

    /// Its files, as those of [`files_of`].
    fn files(self, folder: &Path) -> [Vec<PathBuf>; 2] {
        let array = |[features, _]: [String; 2]| folder.join(format!("{features}.npy"));
        match self {
            Self::Idx([train, _, test, _]) => [vec![train], vec![test]],
            Self::CifarRecords(files) => files,
            Self::Arrays(Roles { train, test }) => [vec![array(train)], test.map(array).into_iter().collect()],
            Self::Files(train, test) => [vec![train], test.into_iter().collect()],
        }
    }
}

/// The format of the files at `path`, where nothing is declared.
pub(super) fn found_format(path: &Path) -> Result<Format, DataError> {
    if !path.is_dir() {
        return format_by_content(path);
    }
    Ok(match Layout::of(path, None)? {
        Layout::Idx(_) => Format::Idx,
        Layout::CifarRecords(_) => Format::CifarRecords,
        Layout::Arrays(_) => Format::Npy,
        Layout::Files(train, _) => format_by_content(&train)?,
    })
}

/// Rows of a folder in one of the known layouts.
pub(super) fn load_folder(folder: &Path, request: Request<'_>) -> Result<TrainTest, DataError> {
    let name = stem(folder);
    match Layout::of(folder, request.domain.and_then(|domain| domain.format))? {
        Layout::Idx(files) => load_idx(&name, &files, None, request),
        Layout::CifarRecords(files) => load_cifar(&name, &files, request),
        Layout::Arrays(roles) => load_arrays(&name, &roles, request, |[features, labels]| {
            let path = |array: &String| folder.join(format!("{array}.npy"));
            let (features, labels) = (path(features), path(labels));
            Ok(Table::of_files(
                &features,
                npy::read_features(&mut Source::open(&features)?)?,
                &labels,
                npy::read_labels(&mut Source::open(&labels)?)?,
            ))
        }),
        Layout::Files(train, test) => {
            load_as(format_of(&train, declared(request))?, &name, &train, test.as_deref(), request)
        }
    }
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
    let units = request.unit.filter(|unit| unit.column.is_none() && request.unit_ids.is_none());
    let mut units = units.map(|_| archive.units()).transpose()?.flatten().map(|ids| ids.units());
    load_arrays(name, &roles, request, |[features, labels]| {
        // Training rows come first.
        let units = units.take();
        Ok(Table { units, ..archive.table(features, Some(labels))? })
    })
}

/// The refusal of an archive by the names of its arrays.
fn no_roles(path: &Path, names: &[String]) -> DataError {
    let found = match names {
        [] => "no arrays".to_owned(),
        names => format!("the arrays {}", listing(names)),
    };
    DataError::contents(path, format_args!("{found}; expected {}", npy::EXPECTED_ARRAYS))
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

//! Data sets of every form whose rows are drawn: numbers in and beyond their bounds, NaN, words where a number is due, empty fields, labels
//! outside of the domain, and rows that begin as other formats do. Several test binaries use this file.

use std::fmt::Write as _;
use std::path::PathBuf;

use rounds_algorithms::privacy::Adjacency;
use rounds_models::choices::Choices;
use zip::CompressionMethod;

use crate::files::{Folder, MNIST, gzip, idx, npy, npz, xz};

pub(crate) const ROWS: usize = 64;
pub(crate) const COLUMNS: usize = 5;

/// Pairs of neighbours that a test tries; the variable ROUNDS_PAIRS sets another number.
pub(crate) fn pairs() -> u64 {
    let pairs = std::env::var("ROUNDS_PAIRS").ok();
    pairs.and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// One of `options`.
pub(crate) fn of<T: Copy>(choices: &mut Choices, options: &[T]) -> T {
    options[choices.below(options.len())]
}

/// Fields as people and programs write them, in and out of range.
const FIELDS: [&str; 12] =
    ["0.5", "-3", "1e30", "-1e30", "1e-30", "1e300", "-1e300", "NaN", "inf", "-inf", "0", "7.25"];
const ODD_FIELDS: [&str; 4] = ["", "word", "1e-300", "0x10"];

/// The form of a data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Csv,
    /// CSV without a header.
    Headless,
    /// The table of the CSV form, numbers and words by turns.
    #[cfg(feature = "parquet")]
    Parquet,
    Libsvm {
        sparse: bool,
    },
    Npy,
    Npz,
    /// A folder of four files.
    Idx,
    /// CIFAR-10's.
    Records,
}

pub(crate) const FORMS: &[Form] = &[
    Form::Csv,
    Form::Headless,
    #[cfg(feature = "parquet")]
    Form::Parquet,
    Form::Libsvm { sparse: false },
    Form::Libsvm { sparse: true },
    Form::Npy,
    Form::Npz,
    Form::Idx,
    Form::Records,
];

/// The first bytes of other formats, which a row may have.
const MAGICS: [&[u8]; 6] = [&[0, 0, 8, 3], &[0x1f, 0x8b, 8], b"\xfd7zXZ\0", b"PK\x03\x04", b"PAR1", b"\x93NUMPY\x01\0"];

impl Form {
    /// A row whose fields are drawn from `choices`, or a null row.
    pub(crate) fn row(self, choices: &mut Choices, null: bool) -> Vec<u8> {
        let number = |choices: &mut Choices| of(choices, &FIELDS).parse::<f64>().unwrap().to_le_bytes();
        let fields = |choices: &mut Choices| {
            let mut row = Vec::new();
            for column in 0..COLUMNS {
                match (column, choices.below(8)) {
                    (0, 1) => row.extend(of(choices, &MAGICS)),
                    (_, 0) => row.extend(of(choices, &ODD_FIELDS).bytes()),
                    _ => row.extend(of(choices, &FIELDS).bytes()),
                }
                row.push(b',');
            }
            row
        };
        match self {
            Self::Headless => {
                let label = if null { "9" } else { of(choices, &["-1", "1", "3", ""]) };
                [&fields(choices), label.as_bytes(), b"\n"].concat()
            }
            #[cfg(feature = "parquet")]
            Self::Parquet => Self::Csv.row(choices, null),
            Self::Csv => {
                let label = if null { "" } else { of(choices, &["no", "yes", "perhaps", ""]) };
                let text = format!("{},{label}\n", of(choices, &["red", "blue", "grey", ""]));
                [fields(choices), text.into_bytes()].concat()
            }
            Self::Libsvm { .. } => {
                // A label that is no class makes the null row.
                let mut text = String::from(if null { "9" } else { of(choices, &["-1", "1", "1", "3"]) });
                for index in 1..=COLUMNS + 2 {
                    if choices.below(2) == 0 {
                        write!(text, " {index}:{}", of(choices, &FIELDS)).unwrap();
                    }
                }
                (text + "\n").into_bytes()
            }
            Self::Npy | Self::Npz => {
                let label: f64 = if null { 9.0 } else { of(choices, &[-1.0, 1.0, 3.0, f64::NAN]) };
                let mut row: Vec<u8> = (0..COLUMNS).flat_map(|_| number(choices)).collect();
                row.extend(label.to_le_bytes());
                row
            }
            // The label comes last, so that the first row of images is the first of its file.
            Self::Idx => {
                let mut row: Vec<u8> = (0..COLUMNS).map(|_| choices.below(256) as u8).collect();
                row.push(if null { 200 } else { of(choices, &[0, 1, 7]) });
                row
            }
            Self::Records => {
                let mut row = vec![choices.below(256) as u8; 3073];
                let magic = of(choices, &MAGICS);
                row[..magic.len()].copy_from_slice(magic);
                if null {
                    row[0] = 200;
                } else if choices.below(3) > 0 {
                    row[0] = of(choices, &[0, 1]);
                }
                row
            }
        }
    }

    /// The rows of two neighbouring data sets.
    pub(crate) fn neighbours(self, relation: Adjacency, choices: &mut Choices) -> [Vec<Vec<u8>>; 2] {
        let rows: Vec<Vec<u8>> = (0..ROWS).map(|_| self.row(choices, false)).collect();
        // A format is known by its first bytes.
        let changed = if choices.below(4) == 0 { 0 } else { choices.below(ROWS) };
        let mut other = rows.clone();
        match relation {
            Adjacency::ZeroOut => other[changed] = self.row(choices, true),
            Adjacency::ReplaceOne => other[changed] = self.row(choices, false),
            Adjacency::AddRemove => drop(other.remove(changed)),
        }
        [rows, other]
    }

    pub(crate) fn schema(self, relation: Adjacency, choices: &mut Choices) -> String {
        let public = if relation == Adjacency::AddRemove { "public-rows = 60\n" } else { "" };
        let format = match self {
            Self::Csv | Self::Headless => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
            Self::Libsvm { .. } => "libsvm",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Idx => "idx",
            Self::Records => "cifar-records",
        };
        let format = if choices.below(2) == 0 { format!("format = \"{format}\"\n") } else { String::new() };
        let rows = format!("[rows]\nrelation = \"{relation}\"\n{public}{format}");
        let (storage, columns, bounds, classes) = match self {
            #[cfg(feature = "parquet")]
            Self::Parquet => return rows + &table(),
            Self::Csv => return rows + &table(),
            Self::Libsvm { sparse: true } => ("sparse", COLUMNS, "-4, 8", "-1, 1"),
            Self::Headless | Self::Libsvm { sparse: false } | Self::Npy | Self::Npz => {
                ("dense", COLUMNS, "-4, 8", "-1, 1")
            }
            Self::Idx => ("bytes", COLUMNS, "0, 255", "0, 1"),
            Self::Records => ("bytes", 3072, "0, 255", "0, 1"),
        };
        format!(
            "{rows}storage = \"{storage}\"\n[columns]\ncount = {columns}\nbounds = [{bounds}]\n[label]\nclasses = [{classes}]\n"
        )
    }

    /// Writes the rows, packed in this way, into a folder; the place of the data set.
    pub(crate) fn write(self, folder: &Folder, rows: &[Vec<u8>], packing: Packing) -> PathBuf {
        let count = rows.len();
        let parts = |at: usize| -> [Vec<u8>; 2] {
            [
                rows.iter().flat_map(|row| &row[..at]).copied().collect(),
                rows.iter().flat_map(|row| &row[at..]).copied().collect(),
            ]
        };
        let file = |name: &str, bytes: Vec<u8>| match packing {
            Packing::Plain => folder.write(name, bytes),
            Packing::Gzip => folder.write(&format!("{name}.gz"), gzip(bytes)),
            Packing::Xz => folder.write(&format!("{name}.xz"), xz(bytes)),
        };
        match self {
            Self::Csv => {
                // Of rows by unit the first field is the id.
                let is_by_unit = rows[0].iter().filter(|&&byte| byte == b',').count() > COLUMNS + 1;
                let names = (0..COLUMNS).map(|column| format!("x{column},")).collect::<String>();
                let header = format!("{}{names}colour,kind\n", if is_by_unit { "person," } else { "" });
                file("table.csv", [header.into_bytes(), rows.concat()].concat())
            }
            Self::Headless => file("table.csv", rows.concat()),
            #[cfg(feature = "parquet")]
            Self::Parquet => folder.write("table.parquet", parquet(rows, packing)),
            Self::Libsvm { .. } => file("table.svm", rows.concat()),
            Self::Npy => file("table.npy", npy("<f8", false, &format!("{count}, {}", COLUMNS + 1), &rows.concat())),
            Self::Npz => {
                let [x, y] = parts(8 * COLUMNS);
                let arrays = [
                    ("x", npy("<f8", false, &format!("{count}, {COLUMNS}"), &x)),
                    ("y", npy("<f8", false, &format!("{count},"), &y)),
                ];
                let stored = packing == Packing::Plain;
                let method = if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
                folder.write("table.npz", npz(&arrays, method))
            }
            Self::Idx => {
                let [images, labels] = parts(COLUMNS);
                let (rows, columns) = (count as u32, COLUMNS as u32);
                let test = [idx(8, &[1, 1, columns], &[7; COLUMNS]), idx(8, &[1], &[1])];
                let [test_images, test_labels] = test;
                let files = [idx(8, &[rows, 1, columns], &images), idx(8, &[rows], &labels), test_images, test_labels];
                for (name, bytes) in MNIST.into_iter().zip(files) {
                    file(name, bytes);
                }
                folder.path().to_owned()
            }
            Self::Records => file("table.bin", rows.concat()),
        }
    }
}

/// The columns and the label of a table with names.
fn table() -> String {
    let mut text = String::new();
    for column in 0..COLUMNS {
        write!(text, "[columns.x{column}]\nkind = \"number\"\nbounds = [-4, 8]\n").unwrap();
        if column % 2 == 0 {
            text.push_str("missing = 1\n");
        }
    }
    text + "[columns.colour]\nkind = \"category\"\nvalues = [\"red\", \"blue\"]\nother = \"blue\"\n\
            [label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n"
}

/// The rows of a table with names as Parquet: of its columns the first one and every second one after it hold numbers, the others text.
#[cfg(feature = "parquet")]
fn parquet(rows: &[Vec<u8>], packing: Packing) -> Vec<u8> {
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArrayType, DoubleType};
    use parquet::file::{properties::WriterProperties, writer::SerializedFileWriter};
    let text: Vec<String> = rows.iter().map(|row| String::from_utf8_lossy(row).trim_end().to_owned()).collect();
    let names = (0..COLUMNS).map(|column| format!("x{column}")).chain(["colour", "kind"].map(str::to_owned));
    let is_number = |column: usize| column < COLUMNS && column.is_multiple_of(2);
    let columns = names.enumerate().map(|(column, name)| {
        if is_number(column) { format!("optional double {name}; ") } else { format!("optional binary {name} (utf8); ") }
    });
    let schema = format!("message table {{ {} }}", columns.collect::<String>());
    let schema = parquet::schema::parser::parse_message_type(&schema).unwrap();
    let codec = match packing {
        Packing::Plain => Compression::UNCOMPRESSED,
        Packing::Gzip => Compression::GZIP(Default::default()),
        Packing::Xz => Compression::SNAPPY,
    };
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for place in 0..COLUMNS + 2 {
        let fields = || text.iter().map(|row| row.split(',').nth(place).unwrap());
        let mut column = group.next_column().unwrap().unwrap();
        if is_number(place) {
            let numbers: Vec<Option<f64>> = fields().map(|field| field.parse().ok()).collect();
            let levels: Vec<i16> = numbers.iter().map(|number| number.is_some().into()).collect();
            let numbers: Vec<f64> = numbers.into_iter().flatten().collect();
            column.typed::<DoubleType>().write_batch(&numbers, Some(&levels), None).unwrap();
        } else {
            let levels: Vec<i16> = fields().map(|field| (!field.is_empty()).into()).collect();
            let words: Vec<_> = fields().filter(|field| !field.is_empty()).map(Into::into).collect();
            column.typed::<ByteArrayType>().write_batch(&words, Some(&levels), None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// The packing of a file: in a Parquet file that of its pages, the third one SNAPPY.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Xz,
}

//! Why data cannot be loaded: one message that names the file, the row or line, what was expected, what was found,
//! and the way out.

use rounds_algorithms::problem::DatasetError;
use std::path::{Path, PathBuf};

/// The first twelve of some names, each cut to 40 characters and free of line feeds, for a message.
pub(crate) fn listing<Name: AsRef<str>>(names: impl IntoIterator<Item = Name>) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<String> = Vec::new();
    for name in names.by_ref().take(12) {
        shown.push(name.as_ref().chars().take(40).flat_map(char::escape_debug).collect());
    }
    if names.next().is_some() {
        shown.push("…".into());
    }
    shown.join(", ")
}

/// Why data cannot be loaded. Lines count from 1, as editors do; rows, records and columns from 0 unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Neither a name nor a path.
    #[error(
        "no data set or file is called {name:?}{}; known names: {known} (a file is given by its path, or with --data-dir)",
        nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The most similar name, if one is.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// A named data set of files, and no folder to look in.
    #[error(
        "data set {name}: no folder to look in; say where it lies with --data-dir DIR or the variable ROUNDS_DATA, or use \
         synthetic-mnist, which needs no file"
    )]
    NoDirectory {
        /// The data set.
        name: String,
    },
    /// Not there.
    #[error("{}: not found; expected {looked_for}", path.display())]
    Missing {
        /// The file or folder.
        path: PathBuf,
        /// What should have been there.
        looked_for: String,
    },
    /// The operating system refused.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A damaged packed stream.
    #[error("{}: the {kind} stream is damaged or cut off ({source}); fetch the file again", path.display())]
    Packed {
        /// The file.
        path: PathBuf,
        /// "gzip", "xz" or "zip".
        kind: &'static str,
        /// What the decoder says.
        source: std::io::Error,
    },
    /// A packed file that unpacks to more than its size justifies.
    #[error(
        "{}: its {packed} packed bytes would unpack to more than {limit}, which is more than data does; if it is \
         genuine, unpack it and load the plain file", path.display()
    )]
    Expansion {
        /// The file.
        path: PathBuf,
        /// Packed size in bytes.
        packed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Not the format it should be.
    #[error("{}: not {expected}: it starts with {found}", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// The format, with its first bytes.
        expected: String,
        /// The first bytes.
        found: String,
    },
    /// A header that makes no sense, or promises what this reader does not take.
    #[error("{}: its header says {found}; expected {expected}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is expected.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// More or fewer bytes than the header promises.
    #[error(
        "{}: {} where its header promises {promised} bytes; fetch the file again", path.display(),
        if found < promised { format!("it ends after {found} bytes") } else { format!("there are at least {found} bytes") }
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes promised.
        promised: u128,
        /// Bytes found.
        found: u128,
    },
    /// Features and labels that do not belong together.
    #[error("{} has {rows} rows but {} has {labels} labels; each row has one label, so they do not belong together", features_path.display(), labels_path.display())]
    Counts {
        /// Where the features are.
        features_path: PathBuf,
        /// Number of rows.
        rows: usize,
        /// Where the labels are.
        labels_path: PathBuf,
        /// Number of labels.
        labels: usize,
    },
    /// A label that is not one of the classes.
    #[error("{}, row {row}: label {found} is not one of the classes {expected}", path.display())]
    Label {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The label.
        found: String,
        /// The classes.
        expected: String,
    },
    /// The data set itself breaks a promise.
    #[error("{}: {source}", path.display())]
    Dataset {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DatasetError,
    },
    /// Training and test rows that do not belong together.
    #[error("{}: {found}, but the training data has {expected}; training and test rows have the same columns and classes", path.display())]
    TestMismatch {
        /// The test file.
        path: PathBuf,
        /// What the training data has.
        expected: String,
        /// What the test data has.
        found: String,
    },
    /// A folder in no known layout.
    #[error("{}: {found}; expected {expected}", path.display())]
    Layout {
        /// The folder.
        path: PathBuf,
        /// The layouts.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
    /// A line of a text file that is not what it should be.
    #[error("{}, line {line}: expected {expected}; found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: usize,
        /// What was expected, and the way out.
        expected: String,
        /// What was found.
        found: String,
    },
    /// Labels that make no classes, or a label that is none of them.
    #[error("{}: {found}; expected {expected}", path.display())]
    Labels {
        /// The file.
        path: PathBuf,
        /// What is expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A number of features that the file's size does not justify.
    #[error(
        "{}: {rows} rows of {columns} features {storage} would take {bytes} bytes of memory, far more than the file holds; \
         {way_out}", path.display()
    )]
    TooWide {
        /// The file.
        path: PathBuf,
        /// Number of rows.
        rows: usize,
        /// Features a row.
        columns: usize,
        /// "as dense f32", or what the model would be.
        storage: &'static str,
        /// The bytes.
        bytes: u128,
        /// The way out.
        way_out: &'static str,
    },
    /// A file that is not what its schema declares.
    #[error("{}: {problem}{}", path.display(), if found.is_empty() { String::new() } else { format!("; found {found}") })]
    Schema {
        /// The file.
        path: PathBuf,
        /// The problem and the way out, in words of the schema alone.
        problem: String,
        /// The header's columns; of a file without its header these are a row.
        found: String,
    },
    /// No such label column.
    #[error("{}: no label column {wanted}; found {found}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column that was asked for.
        wanted: String,
        /// What there is.
        found: String,
    },
}

impl DataError {
    /// A file that is not what its schema declares.
    pub(crate) fn schema(path: &Path, problem: impl Into<String>) -> Self {
        Self::Schema {
            path: path.into(),
            problem: problem.into(),
            found: String::new(),
        }
    }

    /// The message for a private run: it names the file and the kind of problem, but no row, line or value, nor how many
    /// rows there are.
    pub fn without_rows(&self) -> String {
        let (path, problem) = match self {
            Self::Line { path, .. } => (path, "a line is not what the format asks for"),
            Self::Label { path, .. } | Self::Labels { path, .. } => (path, "its labels are not what is expected"),
            Self::Dataset { path, .. } => (path, "its rows make no data set"),
            Self::TooWide { path, .. } => (path, "its rows would take far more memory than the file holds"),
            Self::Size { path, .. } => (path, "it is shorter or longer than its header promises"),
            Self::Header { path, .. } => (path, "its header does not describe data that can be read"),
            Self::Schema { path, problem, .. } => return format!("{}: {problem}", path.display()),
            Self::Counts { features_path, .. } => (features_path, "it has another number of rows than its labels"),
            Self::Unknown { .. }
            | Self::NoDirectory { .. }
            | Self::Missing { .. }
            | Self::Read { .. }
            | Self::Packed { .. }
            | Self::Expansion { .. }
            | Self::Magic { .. }
            | Self::TestMismatch { .. }
            | Self::Layout { .. }
            | Self::Column { .. } => return self.to_string(),
        };
        let path = path.display();
        format!("{path}: {problem}; `rounds schema {path}`, which claims nothing, shows where")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_message_names_the_file_and_no_row() {
        let path = || PathBuf::from("d.csv");
        let text = || "31337".to_owned();
        let errors = [
            DataError::Line {
                path: path(),
                line: 31337,
                expected: text(),
                found: text(),
            },
            DataError::Label {
                path: path(),
                row: 31337,
                found: text(),
                expected: text(),
            },
            DataError::Labels {
                path: path(),
                expected: text(),
                found: text(),
            },
            DataError::Dataset {
                path: path(),
                source: DatasetError::NonFiniteTarget {
                    name: text(),
                    row: 31337,
                    value: 31337.0,
                },
            },
            DataError::Size {
                path: path(),
                promised: 31337,
                found: 31337,
            },
            DataError::Counts {
                features_path: path(),
                rows: 31337,
                labels_path: path(),
                labels: 31337,
            },
        ];
        for error in errors {
            let message = error.without_rows();
            assert!(
                message.contains("`rounds schema d.csv`") && !message.contains("31337"),
                "{message}"
            );
            assert!(error.to_string().contains("31337"));
        }
        let message = DataError::schema(&path(), "no column x").without_rows();
        assert_eq!(message, "d.csv: no column x");
    }
}

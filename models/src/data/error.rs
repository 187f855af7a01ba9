//! Errors of loading: one message that names the file, the row or line, what was expected, what was found, and the way out.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The first twelve of some names, each cut to 40 characters and free of line feeds, for a message.
pub fn listing<Name: AsRef<str>>(names: impl IntoIterator<Item = Name>) -> String {
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

/// The reason for which data cannot be loaded. Lines, rows and columns count from 1; a header is a line
/// and no row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum DataError {
    /// Neither a name nor a path.
    #[error(
        "no data set or file is called {name:?}{}; known names: {known} (a file is given by its path, or with --data-dir)",
        nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    Unknown { name: String, nearest: Option<&'static str>, known: String },
    /// A named data set of files without a data folder.
    #[error(
        "data set {name}: no data folder; give --data-dir DIR or set the variable ROUNDS_DATA, or use synthetic-mnist, \
         which needs no file"
    )]
    NoDirectory { name: String },
    /// A file or folder that the system does not hand over.
    #[error("{}: cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file or folder that is not what is expected; the message depends on no row.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    /// Contents that are not what is expected; the message names rows, or depends on them.
    #[error("{}{place}: {problem}", path.display())]
    Rows {
        path: PathBuf,
        /// The line or row, after a comma, if it is the fault of one.
        place: String,
        problem: String,
        /// The kind of problem, without anything of the rows.
        summary: &'static str,
    },
    /// A file that is not what its schema declares.
    #[error("{}: {problem}{}", path.display(), if found.is_empty() { String::new() } else { format!("; found {found}") })]
    Schema {
        path: PathBuf,
        /// The problem and the way out, in words of the schema alone.
        problem: String,
        /// The header's columns; of a file without its header these are a row.
        found: String,
    },
    /// A rank without rows.
    #[error("data set {name} has fewer rows than there are ranks, {ranks}: start fewer ranks")]
    MoreRanksThanRows { name: String, ranks: usize },
}

impl DataError {
    /// A file or folder that is not what is expected.
    pub(super) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File { path: path.into(), problem: problem.into() }
    }

    pub(super) fn read(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Read { path: path.into(), source }
    }

    /// Contents that are not what is expected.
    pub(super) fn rows(path: &Path, problem: impl Into<String>, summary: &'static str) -> Self {
        Self::Rows { path: path.into(), place: String::new(), problem: problem.into(), summary }
    }

    /// A file that is not what its schema declares.
    pub(crate) fn schema(path: &Path, problem: impl Into<String>) -> Self {
        Self::Schema { path: path.into(), problem: problem.into(), found: String::new() }
    }

    /// Nothing at `path`.
    pub(super) fn missing(path: &Path, expected: &str) -> Self {
        Self::file(path, format!("not found; expected {expected}"))
    }

    /// A file that does not start as its format does; its first bytes may be a row's.
    pub(super) fn magic(path: &Path, start: &[u8], expected: &str) -> Self {
        Self::rows(path, format!("not {expected}: it starts with {start:02x?}"), "it does not start as its format does")
    }

    /// A header that describes no data, or data that is not supported.
    pub(super) fn header(path: &Path, found: impl Display, expected: &str) -> Self {
        Self::rows(
            path,
            format!("its header says {found}; expected {expected}"),
            "its header does not describe data that can be read",
        )
    }

    /// More or fewer bytes than the header promises.
    pub(super) fn size(path: &Path, promised: u128, found: u128) -> Self {
        let found = if found < promised {
            format!("it ends after {found} bytes")
        } else {
            format!("there are at least {found} bytes")
        };
        Self::rows(
            path,
            format!("{found} where its header promises {promised} bytes; fetch the file again"),
            "it is shorter or longer than its header promises",
        )
    }

    /// A label that is none of the classes.
    pub(super) fn label(path: &Path, row: usize, found: impl Display, classes: impl Display) -> Self {
        Self::Rows {
            path: path.into(),
            place: format!(", row {} (counted from 1)", row + 1),
            problem: format!("label {found} is not one of the classes {classes}"),
            summary: "its labels are not what is expected",
        }
    }

    /// The message for a private run: it names the file and the kind of problem, but no row, line or value, nor the number
    /// of rows.
    pub fn without_rows(&self) -> String {
        match self {
            Self::Rows { path, summary, .. } => {
                let path = path.display();
                format!("{path}: {summary}; `rounds schema {path}`, which claims nothing, shows where")
            }
            Self::Schema { path, problem, .. } => format!("{}: {problem}", path.display()),
            // They hold nothing of the rows.
            Self::Unknown { .. }
            | Self::NoDirectory { .. }
            | Self::Read { .. }
            | Self::File { .. }
            | Self::MoreRanksThanRows { .. } => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_message_names_the_file_and_no_row() {
        let path = Path::new("d.csv");
        for error in [
            DataError::label(path, 31337, 31337, "0 to 9"),
            DataError::size(path, 31337, 31337),
            DataError::header(path, "31337", "31337"),
            DataError::magic(path, &[0x31, 0x33, 0x7a], "31337"),
            DataError::rows(path, "31337", "its rows make no data set"),
        ] {
            let message = error.without_rows();
            assert!(message.contains("`rounds schema d.csv`"), "{message}");
            assert!(!message.contains("31337"), "{message}");
            assert!(error.to_string().contains("31337"));
        }
        let message = DataError::schema(path, "no column x").without_rows();
        assert_eq!(message, "d.csv: no column x");
    }
}

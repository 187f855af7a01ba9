//! Errors of loading. What a file holds is in no message of a [`DataError`], so that a release may show every one; the line, what was
//! found and the way out are in that of an [`Explained`] one, which a run that claims nothing makes of it.

use std::fmt::{self, Debug, Display};
use std::path::{Path, PathBuf};

use rounds_algorithms::problem::{Claims, DatasetError, NoClaim, Withheld};

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

/// The reason for which data cannot be loaded.
///
/// No message holds anything of a row, nor depends on one: a text is either fixed, or of arguments, names of files and the system. What
/// was found stands in a [`Withheld`], which does not show it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum DataError {
    /// Neither a name nor a path.
    #[error(
        "no data set or file is called {name:?}{}; known names: {known} (a file is given by its path, or with `data-dir`)",
        nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    Unknown { name: String, nearest: Option<&'static str>, known: String },
    /// A named data set of files without a data folder.
    #[error(
        "data set {name}: no data folder; give `data-dir DIR` or set the variable ROUNDS_DATA, or use synthetic-mnist, \
         which needs no file"
    )]
    NoDirectory { name: String },
    /// A file or folder that the system does not hand over.
    #[error("{}: cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// Nothing at a path.
    #[error("{}: not found; expected {expected}", path.display())]
    Missing { path: PathBuf, expected: String },
    /// A place or a name that is not what is expected, or an argument that is not for it.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: &'static str },
    /// A folder in no layout that is known, with the names of its files.
    #[error("{}: {}; expected {expected}", path.display(), match &files[..] {
        [] => "no files".to_owned(),
        files => format!("a folder with {}", listing(files)),
    })]
    Folder { path: PathBuf, files: Vec<String>, expected: &'static str },
    /// A file that holds no data set in its format.
    #[error(transparent)]
    Contents(Found),
    /// A file with other columns than its domain, or the training rows, have.
    #[error(transparent)]
    Columns(Found),
    /// Rows that make no data set, or features that cannot be treated so.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A rank without rows.
    #[error("data set {name} has fewer rows than there are ranks, {ranks}: start fewer ranks")]
    MoreRanksThanRows { name: String, ranks: usize },
}

/// What was found in a file, behind a message that is the same whatever it was and wherever it lies.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: it holds no data set of the declared format and columns, or is damaged; `rounds schema {}`, which claims nothing, shows more",
    path.display(),
    path.display()
)]
pub struct Found {
    path: PathBuf,
    /// The place, a colon, what was found, and the way out.
    found: Withheld,
}

/// A reader of rows as they are, by a function of this module, who claims nothing by that.
struct Reader;

impl Claims for Reader {
    fn claims(&self) -> bool {
        false
    }
}

/// An error of loading with what was found: the line or row, the value, what was expected, and the way out. Lines, rows and
/// columns count from 1; a header is a line and no row.
pub struct Explained(DataError, NoClaim);

impl Explained {
    /// The error without what was found.
    pub fn withheld(&self) -> &DataError {
        &self.0
    }
}

impl Display for Explained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            DataError::Contents(of) | DataError::Columns(of) => {
                write!(formatter, "{}{}", of.path.display(), of.found.shown(&self.1))
            }
            DataError::Dataset(error) => formatter.write_str(&error.explained(&self.1)),
            error => Display::fmt(error, formatter),
        }
    }
}

impl Debug for Explained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

impl std::error::Error for Explained {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Explained> for DataError {
    fn from(Explained(error, _): Explained) -> Self {
        error
    }
}

impl DataError {
    /// The error with what was found, where nothing is claimed.
    pub(crate) fn explained(self, witness: NoClaim) -> Explained {
        Explained(self, witness)
    }

    /// The error as a reader of rows sees it, who claims nothing.
    pub fn for_reader(self) -> Explained {
        self.explained(NoClaim::of(&Reader).expect("a reader claims nothing"))
    }

    /// A file or folder that is not what is expected.
    pub(super) fn file(path: &Path, problem: &'static str) -> Self {
        Self::File { path: path.into(), problem }
    }

    /// A file or folder with the error of the system; a text that a program put into the error, and that may be of rows, is left out.
    pub(super) fn read(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| {
            let of_system = source.raw_os_error().is_some();
            Self::Read { path: path.into(), source: if of_system { source } else { source.kind().into() } }
        }
    }

    /// Contents that make no data set.
    pub(super) fn no_dataset(path: &Path, error: &DatasetError) -> Self {
        Self::Contents(Found { path: path.into(), found: error.withheld().behind(": ") })
    }

    /// Contents that are not what is expected.
    pub(super) fn contents(path: &Path, found: impl Display) -> Self {
        Self::contents_at(path, "", found)
    }

    /// Contents that are not what is expected at a line or row, which stands after a comma.
    pub(super) fn contents_at(path: &Path, place: &str, found: impl Display) -> Self {
        Self::Contents(Found { path: path.into(), found: Withheld::new(format_args!("{place}: {found}")) })
    }

    /// A file with other columns than are declared.
    pub(super) fn columns(path: &Path, found: impl Display) -> Self {
        Self::Columns(Found { path: path.into(), found: Withheld::new(format_args!(": {found}")) })
    }

    /// The error of a file in a folder or archive as that of the whole: which of them it is, is found in them.
    pub(crate) fn about(mut self, whole: &Path) -> Self {
        if let Self::Contents(of) | Self::Columns(of) = &mut self
            && let Ok(file) = of.path.strip_prefix(whole)
            && file != Path::new("")
        {
            of.found = of.found.behind(format_args!("/{}", file.display()));
            of.path = whole.into();
        }
        self
    }

    /// Nothing at `path`.
    pub(super) fn missing(path: &Path, expected: &str) -> Self {
        Self::Missing { path: path.into(), expected: expected.into() }
    }

    /// A file that does not start as its format does.
    pub(super) fn magic(path: &Path, start: &[u8], expected: &str) -> Self {
        Self::contents(path, format_args!("not {expected}: it starts with {start:02x?}"))
    }

    /// A header that describes no data, or data that is not supported.
    pub(super) fn header(path: &Path, found: impl Display, expected: &str) -> Self {
        Self::contents(path, format_args!("its header says {found}; expected {expected}"))
    }

    /// More or fewer bytes than the header promises.
    pub(super) fn size(path: &Path, promised: u128, found: u128) -> Self {
        let found = if found < promised {
            format!("it ends after {found} bytes")
        } else {
            format!("there are at least {found} bytes")
        };
        Self::contents(path, format_args!("{found} where its header promises {promised} bytes; fetch the file again"))
    }

    /// A label that is not what is expected.
    pub(super) fn label(path: &Path, row: usize, found: impl Display, expected: impl Display) -> Self {
        let place = format!(", row {} (counted from 1)", row + 1);
        Self::contents_at(path, &place, format_args!("label {found} is not one of the {expected}"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rounds_algorithms::problem::{Dataset, Features, Labels};

    use super::*;

    /// The number in place of a value of a row, its number or a line.
    pub(crate) const PLANTED: usize = 31_337;

    /// An error of every constructor, and of every variant, with [`PLANTED`] wherever something of a row may stand. A new variant or field
    /// does not compile before it stands here.
    pub(crate) fn planted() -> Vec<DataError> {
        let path = Path::new("d.csv");
        let row = PLANTED.to_string();
        let values = [vec![0.5; PLANTED - 1], vec![f32::NAN]].concat();
        let labels = Labels::Values(vec![0.0; PLANTED]);
        let no_dataset = Dataset::new("d", Features::f32(values, 1), labels).unwrap_err();
        let errors = vec![
            DataError::label(path, PLANTED, PLANTED, "0 to 9"),
            DataError::size(path, PLANTED as u128, PLANTED as u128),
            DataError::header(path, &row, &row),
            DataError::magic(path, row.as_bytes(), &row),
            DataError::contents(path, &row),
            DataError::contents_at(path, &row, &row),
            DataError::contents(&path.join(format!("{row}.npy")), &row).about(path),
            DataError::no_dataset(path, &no_dataset),
            DataError::columns(path, &row),
            DataError::read(path)(std::io::Error::other(row)),
            DataError::Dataset(no_dataset),
        ];
        for error in &errors {
            match error {
                // Of arguments, names of files and of columns, and fixed texts: no row.
                DataError::Unknown { name: _, nearest: _, known: _ }
                | DataError::NoDirectory { name: _ }
                | DataError::Missing { path: _, expected: _ }
                | DataError::File { path: _, problem: _ }
                | DataError::Folder { path: _, files: _, expected: _ }
                | DataError::MoreRanksThanRows { name: _, ranks: _ }
                | DataError::Dataset(DatasetError::Argument { name: _, problem: _ }) => panic!("{error}"),
                DataError::Read { path: _, source: _ }
                | DataError::Contents(Found { path: _, found: _ })
                | DataError::Columns(Found { path: _, found: _ })
                | DataError::Dataset(DatasetError::Rows { name: _, found: _ }) => {}
            }
        }
        errors
    }

    #[test]
    fn only_an_explained_error_shows_what_was_found() {
        let (mut messages, mut files) = (Vec::new(), 0);
        for error in planted() {
            let withheld = [error.to_string(), format!("{error:?}")];
            assert!(!withheld.concat().contains("31337"), "{withheld:?}");
            if let DataError::Contents(_) | DataError::Columns(_) = error {
                messages.push(withheld.map(|text| text.replace("Columns", "Contents")));
                files += 1;
            }
            // Nobody sees what a program put into an error of the system.
            let is_read = matches!(error, DataError::Read { .. });
            assert_ne!(error.for_reader().to_string().contains("31337"), is_read);
        }
        messages.dedup();
        assert!(messages.len() == 1 && files == 9 && messages[0][0].contains("`rounds schema d.csv`"), "{messages:?}");
    }
}

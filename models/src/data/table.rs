//! Rows of a data set: features and labels as a reader finds them, and the data sets of training and test rows that they make.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::problem::{Columns, Dataset, Domain, Encoder, Features, UnitIds};

use super::error::DataError;
use super::labels::{Meaning, RawLabels};
use super::request::{Request, Split};

/// A data set as a run needs it.
#[derive(Clone)]
pub struct TrainTest {
    /// Training rows.
    pub train: Dataset,
    /// Test rows for accuracy, if there are any. Same columns and classes as `train`.
    pub test: Option<Dataset>,
}

/// The name alone: settings that hold rows may be printed.
impl fmt::Debug for TrainTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TrainTest").field("name", &self.train.name()).finish_non_exhaustive()
    }
}

impl TrainTest {
    /// These rows with a part kept for testing, both in the order of the file.
    pub(crate) fn split(&self, path: &Path, split: Split) -> Result<Self, DataError> {
        if self.test.is_some() {
            return Err(DataError::file(path, "`test-split`: it comes with test rows; leave it out"));
        }
        let problem = "`test-split`: it leaves none of the rows for training or none for testing";
        let (train, test) = split.apart(&self.train).ok_or_else(|| DataError::file(path, problem))?;
        Ok(Self { train, test: Some(test) })
    }
}

/// Features and labels of the same rows, from one file or two.
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) labels_path: PathBuf,
    pub(super) features: Features,
    pub(super) labels: RawLabels,
    /// The unit of each row, if the file of the rows has them.
    pub(super) units: Option<UnitIds>,
}

impl Table {
    pub(super) fn of_file(path: &Path, features: Features, labels: RawLabels) -> Self {
        Self::of_files(path, features, path, labels)
    }

    /// Features of one file and labels of another.
    pub(super) fn of_files(path: &Path, features: Features, labels_path: &Path, labels: RawLabels) -> Self {
        Self { path: path.into(), labels_path: labels_path.into(), features, labels, units: None }
    }

    /// The same rows without their labels. Of encoded rows a label alone made none the null row.
    #[must_use]
    pub(super) fn unlabelled(self) -> Self {
        let labels = match self.labels {
            RawLabels::Encoded(codes) => RawLabels::Encoded(vec![0; codes.len()]),
            labels => RawLabels::Absent(labels.len()),
        };
        Self { labels, ..self }
    }

    /// The data set of these rows on their own: in the domain that is asked for, or with the classes or targets that their labels make.
    pub(super) fn alone(self, name: &str, request: Request<'_>) -> Result<Dataset, DataError> {
        let reading = Reading::of(request, self.features.columns(), &self.labels_path, &self.labels)?;
        reading.dataset(name, self)
    }

    fn check_counts(&self) -> Result<(), DataError> {
        check_counts(&self.path, self.features.len(), &self.labels_path, self.labels.len(), "label")
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
                    let problem = format!(
                        "it has {found} columns, but its domain has {declared}; mend `dimension D`, or the schema"
                    );
                    return Err(DataError::columns(&path, problem));
                }
                (encoder.matrix(self.features), labels.codes(&encoder))
            }
        };
        let (features, labels) = encoder.finish(features, codes);
        Dataset::new(name, features, labels)
            .and_then(|data| data.in_domain(Arc::clone(domain)))
            .map_err(|error| DataError::no_dataset(&path, &error))
    }
}

/// Refuses a number of labels, or of another `value`, other than that of the rows.
pub(super) fn check_counts(
    path: &Path,
    rows: usize,
    values_path: &Path,
    values: usize,
    value: &str,
) -> Result<(), DataError> {
    if rows == values {
        return Ok(());
    }
    let problem = format!(
        "{rows} rows, but {} has {values} {value}s; each row has one {value}, so they do not belong together",
        values_path.display()
    );
    Err(DataError::contents(path, problem))
}

/// The way from the rows of files to data sets, which training rows define for the test rows.
pub(super) enum Reading<'a> {
    /// Encoding into a domain.
    Declared(&'a Arc<Domain>),
    /// Features as they are; the columns and the meaning of labels are those of the training rows.
    Undeclared { columns: usize, meaning: Meaning },
}

impl<'a> Reading<'a> {
    /// Encoding into the request's domain; without one the reading of training rows with `columns` and `labels`.
    pub(super) fn of(
        request: Request<'a>,
        columns: usize,
        labels_path: &Path,
        labels: &RawLabels,
    ) -> Result<Self, DataError> {
        Ok(match request.domain {
            Some(domain) => Self::Declared(domain),
            None => Self::Undeclared { columns, meaning: labels.meaning(labels_path, request.task)? },
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
            return Err(DataError::contents(&table.path, problem));
        }
        table.check_counts()?;
        let labels = table.labels.with_meaning(&table.labels_path, meaning)?;
        Dataset::new(name, table.features, labels).map_err(|error| DataError::no_dataset(&table.path, &error))
    }
}

impl TrainTest {
    /// Rows that have a domain, in another one of the same shape.
    pub(super) fn redeclared(self, domain: Option<&Arc<Domain>>) -> Result<Self, DataError> {
        let Some(domain) = domain else { return Ok(self) };
        let declare = |data: Dataset| {
            let path = PathBuf::from(data.name());
            let declared = data.in_domain(Arc::clone(domain));
            declared.map_err(|error| DataError::no_dataset(&path, &error))
        };
        Ok(Self { train: declare(self.train)?, test: self.test.map(declare).transpose()? })
    }
}

/// Refuses a domain of named columns for a file in which columns have no names.
pub(super) fn check_unnamed(path: &Path, domain: &Domain) -> Result<(), DataError> {
    match domain.columns {
        Columns::Matrix { .. } => Ok(()),
        Columns::Named(_) => Err(DataError::columns(
            path,
            "its columns have no names, but its domain names them; declare `dimension D` and `bounds LO,HI`, or [columns] \
             count = D, bounds = [LO, HI] in the schema",
        )),
    }
}

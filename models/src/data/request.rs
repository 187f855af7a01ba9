//! What a caller asks of a data set: rows, their split, the use of labels and columns. It names no format, so that every reader
//! and the tables below them may take it.

use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::problem::{Dataset, Domain, UnitDeclaration};
use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::labels::Task;
use super::names;
use crate::choices::Choices;

/// Rows that a caller asks for, beside their place.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The domain into which they are encoded; without one they are kept as they are, and nothing may be claimed for them.
    pub domain: Option<&'a Arc<Domain>>,
    /// The meaning of undeclared labels.
    pub task: Option<Task>,
    /// Undeclared CSV: the label's column.
    pub label: Option<&'a str>,
    /// The number of features, of undeclared LIBSVM rows and of files whose labels may be missing.
    pub columns: Option<usize>,
    /// The use of labels.
    pub labels: LabelUse,
    /// A model reads the rows: columns that it does not read need not be there.
    pub is_for_model: bool,
    /// LIBSVM: the index of the first column [default: 1].
    pub first_index: Option<u64>,
    /// The file of test rows, instead of the one beside the training rows.
    pub test: Option<&'a Path>,
    /// The rows that are kept for testing.
    pub split: Option<Split>,
    /// The unit by which training rows are ordered: that of the domain, in [`Request::of`].
    pub unit: Option<&'a UnitDeclaration>,
    /// The file with the unit of each training row, of a unit without a column [default: the one beside the rows].
    pub unit_ids: Option<&'a Path>,
}

impl<'a> Request<'a> {
    /// The rows of a data set in `domain`.
    pub fn of(domain: Option<&'a Arc<Domain>>) -> Self {
        Self { domain, unit: domain.and_then(|domain| domain.unit.as_ref()), ..Self::default() }
    }

    /// The rows that are asked for, without the units of training rows: test rows, and those of a model, are judged one by one.
    pub(super) fn ungrouped(self) -> Self {
        Self { unit: None, unit_ids: None, ..self }
    }

    /// A row of so many fields has no label.
    pub(super) fn has_no_label(&self, fields: usize) -> bool {
        self.labels == LabelUse::Ignored && self.columns == Some(fields)
    }

    /// All files are those of the data set, and all training rows are asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.test.is_none() && self.split.is_none() && self.first_index.is_none()
    }
}

/// A part of the rows that is kept for testing: ⌊F·n + ½⌋ of n rows, or of n units with all their rows, drawn by their positions from a seed.
///
/// The positions are a function of n, F and the seed, and of nothing that a row holds. Where n and the order of rows are public
/// (zero-out, replace-one) they are public, and of two neighbouring data sets the same positions remain for training: these
/// differ in at most the one row that the data sets differ in, and their number is the public n of the run. Under add-remove a
/// row more moves the others to other positions; there is no such split, and callers refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// F, between 0 and 1.
    pub fraction: f64,
    /// The seed.
    pub seed: u64,
}

impl Split {
    /// The number of rows for testing; `None` if that leaves none for testing or for training.
    fn kept(self, rows: usize) -> Option<usize> {
        let kept = (self.fraction * rows as f64).round() as usize;
        (1..rows).contains(&kept).then_some(kept)
    }

    /// The number of rows for training; `None` as of [`kept`](Self::kept).
    pub(crate) fn training_rows(self, rows: usize) -> Option<usize> {
        self.kept(rows).map(|kept| rows - kept)
    }

    /// True if some number of rows leaves so many for training.
    pub(crate) fn leaves(self, training: usize) -> bool {
        // Of a row more, as many are left or one more.
        let (mut low, mut high) = (training, 1 << 50);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.kept(middle) {
                Some(kept) if middle - kept >= training => high = middle,
                _ => low = middle + 1,
            }
        }
        self.kept(low).is_some_and(|kept| low - kept == training)
    }

    /// The rows for training and for testing, both in their order; `None` if that leaves no rows for one of them.
    pub fn apart(self, whole: &Dataset) -> Option<(Dataset, Dataset)> {
        let rows = whole.records();
        let kept = self.kept(rows)?;
        let mut places: Vec<usize> = (0..rows).collect();
        let mut choices = Choices::new(self.seed);
        for place in 0..kept {
            places.swap(place, place + choices.below(rows - place));
        }
        let (test, train) = places.split_at_mut(kept);
        let select = |places: &mut [usize]| -> Dataset {
            places.sort_unstable();
            whole.select(places.iter().copied())
        };
        Some((select(train), select(test)))
    }
}

/// The use of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelUse {
    /// Every row has one.
    #[default]
    Needed,
    /// Rows may have none; labels that are there are not read.
    Ignored,
}

/// The use of a table's columns, by flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnUse {
    /// Label column by its name in the header [default: label, class, target or y, else the last one]
    pub label: Option<String>,
    /// Columns to leave out, separated by commas
    pub drop: Vec<String>,
    /// Meaning of the label [default: classes for words and for up to 256 different integers, else numbers]
    pub task: Option<Task>,
    /// Column whose values tell units of privacy apart, such as people: all rows of one are protected together
    pub unit: Option<String>,
}

impl ColumnUse {
    /// Refuses names of columns for a file in which columns have none.
    pub(super) fn refuse_names(&self, path: &Path) -> Result<(), DataError> {
        // A file that is not there is refused by whoever reads it.
        let is_there = path.exists() || names::find(&path.to_string_lossy()).is_some();
        if !is_there || self.label.is_none() && self.drop.is_empty() && self.unit.is_none() {
            return Ok(());
        }
        let problem =
            "`label`, `drop`, `unit`: its columns have no names; leave them out, or write a header in its first line";
        Err(DataError::file(path, problem))
    }
}

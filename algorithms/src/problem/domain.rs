//! The declared domain of a data set: everything that is known of it before a private run opens the rows.
//!
//! A privacy claim compares two data sets that differ in one row. Shapes, scales, batch sizes, divisors and formats may
//! therefore depend on the domain, never on a row. Rows outside the domain are mapped into it, so that no row can fail.

use std::fmt::{self, Display};

use rounds_kernels::features::Norm;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::adjacency::Adjacency;
use super::units::UnitDeclaration;
use crate::choices::choices;

/// The neighbouring relation of a claim, with what it makes public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One row becomes the null row. The number of rows and their order are public.
    ZeroOut,
    /// One row becomes any other row of the domain. The number of rows and their order are public.
    ReplaceOne,
    /// One row more or less. The number of rows is private; `public_rows` takes its place in every rate, divisor and
    /// number of rounds.
    AddRemove {
        /// N ≥ 1, chosen without looking at the rows.
        public_rows: usize,
    },
}

impl Relation {
    /// The relation's name for accountants.
    pub fn adjacency(self) -> Adjacency {
        match self {
            Self::ZeroOut => Adjacency::ZeroOut,
            Self::ReplaceOne => Adjacency::ReplaceOne,
            Self::AddRemove { .. } => Adjacency::AddRemove,
        }
    }

    /// The row count that plans are computed from: n where it is public, else N.
    pub fn public_rows(self, rows: usize) -> usize {
        match self {
            Self::ZeroOut | Self::ReplaceOne => rows,
            Self::AddRemove { public_rows } => public_rows,
        }
    }
}

/// A closed interval lo < hi of finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "[f64; 2]")]
pub struct Bounds {
    lo: f64,
    hi: f64,
}

impl Bounds {
    /// `[lo, hi]`.
    ///
    /// ```
    /// use rounds_algorithms::problem::Bounds;
    ///
    /// let ages = Bounds::new(0.0, 120.0)?;
    /// assert_eq!(ages.to_unit(60.0), 0.0);
    /// assert!(Bounds::new(1.0, 0.0).is_err());
    /// # Ok::<(), rounds_algorithms::problem::DomainError>(())
    /// ```
    ///
    /// # Errors
    /// Bounds that are not finite or not in order, or whose difference overflows.
    pub fn new(lo: f64, hi: f64) -> Result<Self, DomainError> {
        if lo.is_finite() && hi.is_finite() && lo < hi && (hi - lo).is_finite() {
            Ok(Self { lo, hi })
        } else {
            Err(DomainError::Bounds { lo, hi })
        }
    }

    /// The lower end.
    pub fn lo(self) -> f64 {
        self.lo
    }

    /// The upper end.
    pub fn hi(self) -> f64 {
        self.hi
    }

    /// `max(|lo|, |hi|)`.
    pub fn magnitude(self) -> f64 {
        self.lo.abs().max(self.hi.abs())
    }

    /// `value` cut to the interval; `missing` for NaN.
    pub fn clamp(self, value: f64, missing: f64) -> f64 {
        if value.is_nan() { missing } else { value }.max(self.lo).min(self.hi)
    }

    /// The affine map of the interval onto [−1, 1], cut to it against rounding.
    pub fn to_unit(self, value: f64) -> f64 {
        ((value - self.lo) / (self.hi - self.lo)).mul_add(2.0, -1.0).clamp(-1.0, 1.0)
    }
}

impl TryFrom<[f64; 2]> for Bounds {
    type Error = DomainError;

    fn try_from([lo, hi]: [f64; 2]) -> Result<Self, DomainError> {
        Self::new(lo, hi)
    }
}

/// The value of a category column that is not among the declared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The whole row becomes the null row.
    NullRow,
    /// The value with this index.
    Value(usize),
}

/// The kind of a named column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// A bounded number, one feature in [−1, 1].
    Number {
        /// Values outside are cut to the bounds.
        bounds: Bounds,
        /// The value of an empty field, a word, or NaN; `None` makes the row the null row.
        missing: Option<f64>,
    },
    /// One of several words, one feature of 0 or 1 each.
    Category {
        /// The words, in the order of their features.
        values: Vec<String>,
        /// The value of any other word, and of an empty field.
        other: Other,
    },
}

impl ColumnKind {
    /// Number of features of the column.
    pub(super) fn features(&self) -> usize {
        match self {
            Self::Number { .. } => 1,
            Self::Category { values, .. } => values.len(),
        }
    }
}

/// A named column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name in the file's header.
    pub name: String,
    /// Its kind.
    pub kind: ColumnKind,
}

/// The feature columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Columns {
    /// Columns of a table, matched by name.
    Named(Vec<Column>),
    /// Columns without names: LIBSVM indices, matrices, image bytes. Values outside of the bounds are cut to them; NaN, an
    /// empty field or a word is 0 (or the bound next to 0). Divided by `max(|lo|, |hi|)` where 0 lies within the bounds, so that 0 stays 0; else mapped
    /// onto [−1, 1].
    Matrix {
        /// Number of columns.
        count: usize,
        /// Bounds of every value.
        bounds: Bounds,
    },
}

choices! {
    /// The format of the files of a data set.
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Format {
        /// Text: a label and `index:value` for each value that is not 0.
        Libsvm = "libsvm",
        /// Text: fields between commas, semicolons or tabs.
        Csv = "csv",
        /// A table of Apache Parquet, read as the text that it would be in a CSV file.
        Parquet = "parquet",
        /// numpy's arrays, one a file.
        Npy = "npy",
        /// An archive of numpy's arrays.
        Npz = "npz",
        /// CIFAR-10's records: a byte of label and 3,072 of an image.
        CifarRecords = "cifar-records",
        /// MNIST's four files.
        Idx = "idx",
    }
}

choices! {
    /// The format in which rows are kept. It follows from the declaration, never from the rows.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Storage {
        /// f32, every value.
        #[default]
        Dense = "dense",
        /// Bytes of a matrix with bounds [0, 255].
        Bytes = "bytes",
        /// The values of a matrix that are not 0.
        Sparse = "sparse",
    }
}

/// The label. A missing label, or one that is not declared, makes the row the null row.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// One of these classes, in this order. Of two classes the second is +1 for binary losses.
    Classes(Vec<String>),
    /// A bounded number, mapped onto [−1, 1].
    Number(Bounds),
}

/// The origin of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainSource {
    /// A schema file that a person wrote, by its name.
    Schema(String),
    /// A schema file that was drafted from the rows and that a person has confirmed, by its name.
    Confirmed(String),
    /// The built-in schema of a named data set.
    BuiltIn(String),
    /// Flags of the command line, or the program that made the rows.
    Arguments,
    /// A draft that was read from the rows: it covers no claim.
    Draft(String),
    /// Bounds that a private mechanism read off the rows, in a domain of that origin.
    PrivateBounds(Box<Self>),
    /// A domain of that origin that arguments of these names have changed.
    Changed(Box<Self>, String),
}

impl DomainSource {
    /// The origin of the columns, whatever that of their bounds and of changes.
    pub fn of_columns(&self) -> &Self {
        if let Self::PrivateBounds(of) | Self::Changed(of, _) = self { of.of_columns() } else { self }
    }

    /// The origin that a statement names, if it names one.
    pub fn stated(text: &str) -> Option<Self> {
        let named = |before, after| text.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
        let changed = || {
            let (of, names) = text.rsplit_once(CHANGED)?;
            Some(Self::Changed(Box::new(Self::stated(of)?), names.to_owned()))
        };
        named("schema ", ", written")
            .map(Self::Schema)
            .or_else(|| named("schema ", ", drafted from the rows and confirmed").map(Self::Confirmed))
            .or_else(|| Some(Self::PrivateBounds(Box::new(Self::stated(&named("private bounds; else ", "")?)?))))
            .or_else(changed)
            .or_else(|| named("built-in schema of ", "").map(Self::BuiltIn))
            .or_else(|| named("draft ", "").map(Self::Draft))
            .or_else(|| (text == "arguments").then_some(Self::Arguments))
    }
}

/// The text between the origin of a domain and the names of the arguments that changed it.
const CHANGED: &str = "; changed by arguments: ";

/// As a statement names it.
impl fmt::Display for DomainSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(name) => write!(formatter, "schema {name}, written"),
            Self::Confirmed(name) => write!(formatter, "schema {name}, drafted from the rows and confirmed"),
            Self::BuiltIn(name) => write!(formatter, "built-in schema of {name}"),
            Self::Arguments => formatter.write_str("arguments"),
            Self::Draft(name) => write!(formatter, "draft {name}"),
            Self::PrivateBounds(of) => write!(formatter, "private bounds; else {of}"),
            Self::Changed(of, names) => write!(formatter, "{of}{CHANGED}{names}"),
        }
    }
}

/// Most classes: the sums of squares of a row's coefficients are proven for so many (docs/PRIVACY.md, step 2).
const MOST_CLASSES: usize = 1 << 16;

/// A domain that is no domain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum DomainError {
    /// Bounds out of order.
    #[error("bounds [{lo}, {hi}]: two finite numbers are needed, the lower one first")]
    Bounds { lo: f64, hi: f64 },
    /// Anything else.
    #[error("{what}: {found}; {expected}")]
    Declaration { what: String, found: String, expected: &'static str },
}

/// The declared domain of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The neighbouring relation.
    pub relation: Relation,
    /// The feature columns.
    pub columns: Columns,
    /// The format in which rows are kept.
    pub storage: Storage,
    /// The label.
    pub label: Label,
    /// The label's column, for tables with a header.
    pub label_column: Option<String>,
    /// Columns of a table that are ignored.
    pub dropped: Vec<String>,
    /// The rows of the test set are public, so that accuracy on them may be printed.
    pub test_is_public: bool,
    /// The unit of privacy; a row where none is declared.
    pub unit: Option<UnitDeclaration>,
    /// The format of the data's files; where it is not declared their names tell it. What they hold never does.
    pub format: Option<Format>,
    /// Its origin.
    pub source: DomainSource,
}

impl Domain {
    /// Number of named columns of numbers, the label among them.
    pub fn numbers(&self) -> usize {
        let is_number = |column: &&Column| matches!(column.kind, ColumnKind::Number { .. });
        let columns = match &self.columns {
            Columns::Named(columns) => columns.iter().filter(is_number).count(),
            Columns::Matrix { .. } => 0,
        };
        columns + usize::from(matches!(self.label, Label::Number(_)))
    }

    /// The domain under zero-out, with private test rows and no column names but those of `columns`.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let columns = Columns::Matrix { count: 3, bounds: Bounds::new(-1.0, 1.0)? };
    /// let label = Label::Classes(vec!["no".into(), "yes".into()]);
    /// let domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
    /// domain.check()?;
    /// assert_eq!((domain.features(), domain.classes()), (3, Some(2)));
    /// # Ok::<(), rounds_algorithms::problem::DomainError>(())
    /// ```
    pub fn new(columns: Columns, storage: Storage, label: Label, source: DomainSource) -> Self {
        Self {
            relation: Relation::ZeroOut,
            columns,
            storage,
            label,
            label_column: None,
            dropped: Vec::new(),
            test_is_public: false,
            unit: None,
            format: None,
            source,
        }
    }

    /// Checks the declaration.
    ///
    /// # Errors
    /// No column, a repeated column or value, a category without values, fewer than two classes, N = 0, a storage that the
    /// columns do not allow.
    pub fn check(&self) -> Result<(), DomainError> {
        let zero_rows = self.relation == (Relation::AddRemove { public_rows: 0 });
        let expected = "a public number of rows of at least 1 is needed";
        require(!zero_rows, "public-rows", "0", expected)?;
        if let Some(unit) = &self.unit {
            require(unit.most_rows != Some(0), "max-rows", "0", "at least 1 row of a unit is needed")?;
            let is_label = unit.column.is_some() && unit.column == self.label_column;
            require(!is_label, "unit", "also the label", "the unit is neither label nor feature")?;
            let is_feature = match (&unit.column, &self.columns) {
                (Some(unit), Columns::Named(columns)) => columns.iter().any(|column| column.name == *unit),
                _ => false,
            };
            require(!is_feature, "unit", "also a feature column", "the unit is neither label nor feature")?;
        }
        match &self.columns {
            Columns::Named(columns) => self.check_named(columns)?,
            Columns::Matrix { count, bounds } => {
                let expected = "between 1 and 2^32 − 1 columns are needed";
                require((1..=u32::MAX as usize).contains(count), "columns", count, expected)?;
                let is_sparse_with_zero = self.storage != Storage::Sparse || (bounds.lo <= 0.0 && 0.0 <= bounds.hi);
                let found = "sparse, and 0 lies outside of the bounds";
                require(is_sparse_with_zero, "storage", found, "sparse columns keep 0")?;
                let are_bytes = self.storage != Storage::Bytes || (bounds.lo, bounds.hi) == (0.0, 255.0);
                require(are_bytes, "storage", "bytes", "bytes have the bounds [0, 255]")?;
            }
        }
        if let Label::Classes(names) = &self.label {
            let expected = "declare at least two classes, and at most 65,536";
            require((2..=MOST_CLASSES).contains(&names.len()), "classes", names.len(), expected)?;
            once("classes", names.iter(), "declare each class once")?;
        }
        Ok(())
    }

    fn check_named(&self, columns: &[Column]) -> Result<(), DomainError> {
        let expected = "declare at least one feature column";
        require(!columns.is_empty(), "columns", "none", expected)?;
        let names = || columns.iter().map(|column| &column.name);
        once("columns", names(), "declare each column once")?;
        for Column { name, kind } in columns {
            let what = format!("column {name:?}");
            match kind {
                ColumnKind::Category { values, other } => {
                    let expected = "list the values of the category";
                    require(!values.is_empty(), &what, "no values", expected)?;
                    once(&what, values.iter(), "list each value once")?;
                    let is_value = !matches!(other, Other::Value(index) if *index >= values.len());
                    let expected = "other is \"null-row\" or one of the values";
                    require(is_value, &what, "an unknown policy", expected)?;
                }
                ColumnKind::Number { missing, .. } => {
                    let (is_finite, found) = (missing.is_none_or(f64::is_finite), "a missing value that is not finite");
                    require(is_finite, &what, found, "give a finite number")?;
                }
            }
        }
        let is_feature = self.label_column.as_ref().is_some_and(|label| names().any(|name| name == label));
        require(!is_feature, "label", "also a feature column", "the label is no feature")?;
        let expected = "tables with named columns are kept dense";
        require(self.storage == Storage::Dense, "storage", self.storage.name(), expected)
    }

    /// It was read from the rows, and no person has confirmed it.
    pub fn is_draft(&self) -> bool {
        matches!(self.source.of_columns(), DomainSource::Draft(_))
    }

    /// Features of an encoded row, without a bias.
    pub fn features(&self) -> usize {
        match &self.columns {
            Columns::Named(columns) => columns.iter().map(|column| column.kind.features()).sum(),
            Columns::Matrix { count, .. } => *count,
        }
    }

    /// Number of classes, or `None` for a number.
    pub fn classes(&self) -> Option<usize> {
        match &self.label {
            Label::Classes(names) => Some(names.len()),
            Label::Number(_) => None,
        }
    }

    /// A bound on the norm of every encoded row, bias excluded. Every number is at most 1, and of the features of a category
    /// one is 1: with c columns `‖a‖₂ ≤ √c` and `‖a‖₁ ≤ c`.
    pub fn row_bound(&self, norm: Norm) -> f64 {
        let columns = match &self.columns {
            Columns::Named(columns) => columns.len(),
            Columns::Matrix { count, .. } => *count,
        } as f64;
        match norm {
            Norm::L1 => columns,
            Norm::L2 => columns.sqrt().next_up(),
        }
    }

    /// SHA-256 of everything that is declared of rows, in the notation of the types: the same for equal domains, wherever they were
    /// declared and whatever their files are. It says nothing of the rows but private bounds, if it has them.
    pub fn digest(&self) -> [u8; 32] {
        let Self { relation, columns, storage, label, label_column, test_is_public, unit, .. } = self;
        let declared = (relation, columns, storage, label, label_column, test_is_public);
        match unit {
            None => Sha256::digest(format!("{declared:?}")).into(),
            Some(unit) => Sha256::digest(format!("{declared:?}, {unit:?}")).into(),
        }
    }
}

/// Refuses a declaration that does not hold.
fn require(holds: bool, what: &str, found: impl Display, expected: &'static str) -> Result<(), DomainError> {
    if holds {
        return Ok(());
    }
    Err(DomainError::Declaration { what: what.to_owned(), found: found.to_string(), expected })
}

/// Refuses a name that stands twice.
fn once<'a>(
    what: &str,
    mut names: impl Iterator<Item = &'a String>,
    expected: &'static str,
) -> Result<(), DomainError> {
    let mut seen = std::collections::HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => require(false, what, format!("{name:?} twice"), expected),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_from_the_statement_that_names_it() {
        let name = || "a, written.toml".to_owned();
        let bounds = |of| DomainSource::PrivateBounds(Box::new(of));
        let confirmed = DomainSource::Confirmed(name());
        let changed = |of| DomainSource::Changed(Box::new(of), "drop, bounds".to_owned());
        for source in [
            DomainSource::Schema(name()),
            DomainSource::BuiltIn(name()),
            DomainSource::Arguments,
            DomainSource::Draft(name()),
            bounds(bounds(confirmed.clone())),
            changed(confirmed.clone()),
            changed(DomainSource::BuiltIn(name())),
            bounds(changed(DomainSource::Schema(name()))),
            confirmed,
        ] {
            assert_eq!(DomainSource::stated(&source.to_string()), Some(source));
        }
        assert_eq!(["", "schema a", "arguments "].map(DomainSource::stated), [const { None }; 3]);
    }
}

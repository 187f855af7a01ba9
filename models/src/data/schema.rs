//! Schemas: the declared domain of a data set as a TOML file.

use std::collections::BTreeMap;
use std::path::Path;

use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::{
    Bounds, Column, ColumnKind, Columns, Domain, DomainError, DomainSource, Format, Label, Other, Relation, Storage,
    UnitDeclaration,
};
use rounds_kernels::linear::Reduction;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Spanned, Value};

use super::error::{DataError, listing};
use crate::text::foreign;

/// The reason for which no domain can be declared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum SchemaError {
    /// A schema that cannot be read or makes no domain: the problem and the way out.
    #[error("{place}: {problem}")]
    Declaration { place: String, problem: String },
    /// A table cannot be read: its header, or its rows for private bounds or a draft.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Checks that a schema holds the domain, as the header of a model must.
///
/// # Errors
/// The reason, as for columns with names and a label without one.
pub(crate) fn keeps(domain: &Domain) -> Result<(), String> {
    let text = write(&Domain { format: None, ..domain.clone() }, &BTreeMap::new());
    let again = parse("its schema", &text).map_err(|error| error.to_string())?;
    if again.digest() == domain.digest() { Ok(()) } else { Err("a schema gives it back as another one".to_owned()) }
}

/// Words in the comments of a draft, by which a draft without its mark is known.
const NOTE: &str = "read from the data";

/// The policy of a category without one: a field that is none of its values makes its row the null row.
const NULL_ROW: &str = "null-row";

/// Refuses a declaration, at a place that the caller adds ([`SchemaError::at`]).
pub(super) fn refuse<T>(problem: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::declaration("", problem))
}

impl From<DomainError> for SchemaError {
    fn from(error: DomainError) -> Self {
        Self::declaration("", error.to_string())
    }
}

impl SchemaError {
    pub(super) fn declaration(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Declaration { place: place.into(), problem: problem.into() }
    }

    /// The error at this place, where it names none.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Self::Declaration { place: none, problem } if none.is_empty() => Self::declaration(place, problem),
            error => error,
        }
    }
}

/// Reads a schema file.
///
/// # Errors
/// As [`parse`], and files that cannot be read.
pub fn read(path: &Path) -> Result<Domain, SchemaError> {
    let place = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&place, &text),
        Err(error) => {
            let problem = format!("cannot be read: {error}; `rounds schema FILE` drafts a schema");
            Err(SchemaError::declaration(place, problem))
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchemaTable {
    /// Absent from a schema that a person wrote.
    drafted: Option<bool>,
    #[serde(default)]
    rows: RowsTable,
    #[serde(default)]
    columns: BTreeMap<Spanned<String>, Value>,
    label: Option<LabelTable>,
    #[serde(default)]
    test: TestTable,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RowsTable {
    relation: Option<Adjacency>,
    public_rows: Option<usize>,
    storage: Storage,
    format: Option<Format>,
    drop: Vec<String>,
    unit: Option<UnitKey>,
    reduce: Option<ReductionName>,
    max_rows: Option<usize>,
}

/// The ids of units: a column, or a file.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum UnitKey {
    Column(String),
    File(bool),
}

/// A reduction by its name.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ReductionName {
    Mean,
    Sum,
}

impl RowsTable {
    /// The declared unit.
    fn unit(&self) -> Result<Option<UnitDeclaration>, SchemaError> {
        let column = match &self.unit {
            Some(UnitKey::Column(column)) => Some(column.clone()),
            Some(UnitKey::File(true)) => None,
            _ if self.reduce.is_none() && self.max_rows.is_none() => return Ok(None),
            _ => return refuse("reduce, max-rows: these are of a unit, and none is declared: add unit = \"COLUMN\""),
        };
        let reduction = match self.reduce {
            None | Some(ReductionName::Mean) => Reduction::Mean,
            Some(ReductionName::Sum) => Reduction::Sum,
        };
        Ok(Some(UnitDeclaration { column, reduction, most_rows: self.max_rows }))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixTable {
    count: usize,
    bounds: Bounds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
enum ColumnTable {
    Number { bounds: Bounds, missing: Option<f64> },
    Category { values: Vec<Word>, other: Option<Word> },
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelTable {
    column: Option<String>,
    classes: Option<Vec<Word>>,
    bounds: Option<Bounds>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TestTable {
    public: bool,
}

/// A word of a table, which may be written as a number.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Integer(i64),
    Number(f64),
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        match word {
            Word::Text(text) => text,
            Word::Integer(number) => number.to_string(),
            Word::Number(number) => number.to_string(),
        }
    }
}

fn words(words: Vec<Word>) -> Vec<String> {
    words.into_iter().map(String::from).collect()
}

/// Parses a schema; `place` is its name in messages.
///
/// # Errors
/// Syntax, unknown keys, and declarations that make no domain.
pub fn parse(place: &str, text: &str) -> Result<Domain, SchemaError> {
    let table: SchemaTable = toml::from_str(text).map_err(|error| {
        SchemaError::declaration(format!("{place}, line {}", line_of(text, &error)), foreign(error.message()))
    })?;
    let is_noted = |line: &str| line.split_once('#').is_some_and(|(_, note)| note.to_ascii_lowercase().contains(NOTE));
    let source = match table.drafted {
        // A draft whose line was deleted is one still: only a word of a person confirms it.
        None if text.lines().any(is_noted) => DomainSource::Draft,
        None => DomainSource::Schema,
        Some(false) => DomainSource::Confirmed,
        Some(true) => DomainSource::Draft,
    };
    table.domain(source(place.into())).map_err(|error| error.at(place))
}

/// The line on which a text is no TOML, or not that of its tables and keys, from 1.
pub fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let offset = error.span().map_or(0, |span| span.start.min(text.len()));
    text.as_bytes()[..offset].split(|&byte| byte == b'\n').count()
}

impl SchemaTable {
    /// The declared domain.
    pub(super) fn domain(self, source: DomainSource) -> Result<Domain, SchemaError> {
        let Some(label) = self.label else {
            return refuse("no label; add [label] with classes = [\"no\", \"yes\"] or bounds = [LO, HI]");
        };
        let (columns, unit) = (columns(self.columns)?, self.rows.unit()?);
        if label.column.is_none() && matches!(columns, Columns::Named(_)) {
            return refuse("label: no column; add column = \"NAME\" under [label]");
        }
        let kind = match (label.classes, label.bounds) {
            (Some(classes), None) => Label::Classes(words(classes)),
            (None, Some(bounds)) => Label::Number(bounds),
            _ => return refuse("label: declare either classes = [\"no\", \"yes\"] or bounds = [LO, HI]"),
        };
        let mut domain = Domain::new(columns, self.rows.storage, kind, source);
        (domain.label_column, domain.dropped) = (label.column, self.rows.drop);
        domain.test_is_public = self.test.public;
        (domain.format, domain.unit) = (self.rows.format, unit);
        related(domain, self.rows.relation, self.rows.public_rows)
    }
}

fn columns(tables: BTreeMap<Spanned<String>, Value>) -> Result<Columns, SchemaError> {
    if tables.is_empty() {
        return refuse(
            "no columns; add [columns.NAME] for each, or [columns] with count = D and bounds = [LO, HI] if they have no names",
        );
    }
    let is_named = tables.values().all(Value::is_table);
    let mut tables: Vec<_> = tables.into_iter().collect();
    // Features are in the order of the schema.
    tables.sort_by_key(|(name, _)| name.span().start);
    let tables = tables.into_iter().map(|(name, value)| (name.into_inner(), value));
    if is_named {
        tables.map(column).collect::<Result<_, _>>().map(Columns::Named)
    } else {
        let MatrixTable { count, bounds } = declared("columns", Value::Table(tables.collect()))?;
        Ok(Columns::Matrix { count, bounds })
    }
}

/// The kind of declaration in a table under this key.
fn declared<T: DeserializeOwned>(key: &str, table: Value) -> Result<T, SchemaError> {
    table.try_into().or_else(|error: toml::de::Error| refuse(format!("{key}: {}", foreign(error.message()))))
}

fn column((name, table): (String, Value)) -> Result<Column, SchemaError> {
    let key = format!("columns.{name}");
    let kind = match declared(&key, table)? {
        ColumnTable::Number { bounds, missing } => ColumnKind::Number { bounds, missing },
        ColumnTable::Category { values, other } => {
            let values = words(values);
            let other = match other.map(String::from) {
                None => Other::NullRow,
                Some(other) => match values.iter().position(|value| *value == other) {
                    Some(index) => Other::Value(index),
                    None if other == NULL_ROW => Other::NullRow,
                    None => {
                        let words = listing(values);
                        return refuse(format!("{key}: other = {other:?}; choose \"null-row\" or one of {words}"));
                    }
                },
            };
            ColumnKind::Category { values, other }
        }
    };
    Ok(Column { name, kind })
}

/// The domain under `relation`, if one is given, checked as a whole.
pub(super) fn related(
    mut domain: Domain,
    relation: Option<Adjacency>,
    public_rows: Option<usize>,
) -> Result<Domain, SchemaError> {
    domain.relation = match (relation.unwrap_or(domain.relation.adjacency()), public_rows, domain.relation) {
        (Adjacency::ZeroOut, None, _) => Relation::ZeroOut,
        (Adjacency::ReplaceOne, None, _) => Relation::ReplaceOne,
        (Adjacency::AddRemove, Some(public_rows), _)
        | (Adjacency::AddRemove, None, Relation::AddRemove { public_rows }) => Relation::AddRemove { public_rows },
        (Adjacency::AddRemove, None, _) => {
            return refuse(
                "add-remove needs a public number of rows, chosen without looking at them: public-rows = N under [rows], or \
                 `public-rows N`",
            );
        }
        (relation, Some(_), _) => {
            let problem = "leave it out, or choose add-remove";
            return refuse(format!("public-rows is of add-remove alone, not of {relation}; {problem}"));
        }
    };
    if let (Some(UnitDeclaration { column: Some(column), .. }), None) = (&domain.unit, &domain.label_column) {
        return refuse(format!(
            "unit: {column:?} is the name of a column, and columns have no names; write unit = true, and give a file with \
             the unit of each row (`unit-ids FILE`)"
        ));
    }
    domain.check()?;
    Ok(domain)
}

/// A schema as a file, with `notes` beside the columns that they are called by (`label`, and `columns` of columns without
/// names). [`parse`] reads the same domain.
pub fn write(domain: &Domain, notes: &BTreeMap<String, String>) -> String {
    let quoted = |text: &str| Value::String(text.into()).to_string();
    let list = |words: &[String]| format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "));
    let note = |key: &str| notes.get(key).map_or_else(String::new, |note| format!("  # {note}"));
    let range = |bounds: Bounds| format!("bounds = [{}, {}]", number(bounds.lo()), number(bounds.hi()));
    let mut lines: Vec<String> = Vec::new();
    if domain.is_draft() {
        lines.push(
            "# Read from the data. A person checks every line below, without looking at the rows where they are\n\
             # private, and then sets drafted = false. Until then a run on this schema claims nothing."
                .into(),
        );
    }
    if let DomainSource::Draft(_) | DomainSource::Confirmed(_) = domain.source.of_columns() {
        lines.push(format!("drafted = {}\n", domain.is_draft()));
    }
    lines.push(format!("[rows]\nrelation = {}", quoted(domain.relation.adjacency().name())));
    if let Relation::AddRemove { public_rows } = domain.relation {
        lines.push(format!("public-rows = {public_rows}"));
    }
    lines.extend(domain.format.map(|format| format!("format = {}", quoted(format.name()))));
    lines.push(format!("storage = {}", quoted(domain.storage.name())));
    if !domain.dropped.is_empty() {
        lines.push(format!("drop = {}{}", list(&domain.dropped), note("drop")));
    }
    if let Some(UnitDeclaration { column, reduction, most_rows }) = &domain.unit {
        let unit = column.as_ref().map_or_else(|| "true".to_owned(), |column| quoted(column));
        lines.push(format!("unit = {unit}{}", note("unit")));
        lines.extend((*reduction == Reduction::Sum).then(|| "reduce = \"sum\"".to_owned()));
        lines.extend(most_rows.map(|most| format!("max-rows = {most}")));
    }
    match &domain.columns {
        Columns::Matrix { count, bounds } => {
            lines.push(format!("\n[columns]\ncount = {count}\n{}{}", range(*bounds), note("columns")));
        }
        Columns::Named(columns) => {
            for Column { name, kind } in columns {
                lines.push(format!("\n[columns.{}]{}", quoted(name), note(name)));
                match kind {
                    ColumnKind::Number { bounds, missing } => {
                        lines.push(format!("kind = \"number\"\n{}", range(*bounds)));
                        lines.extend(missing.map(|missing| format!("missing = {}", number(missing))));
                    }
                    ColumnKind::Category { values, other } => {
                        let other = match other {
                            // A value may have that name; it is the default, too.
                            Other::NullRow if values.iter().any(|value| value == NULL_ROW) => None,
                            Other::NullRow => Some(NULL_ROW),
                            Other::Value(index) => Some(values[*index].as_str()),
                        };
                        lines.push(format!("kind = \"category\"\nvalues = {}", list(values)));
                        lines.extend(other.map(|other| format!("other = {}", quoted(other))));
                    }
                }
            }
        }
    }
    lines.push(format!("\n[label]{}", note("label")));
    lines.extend(domain.label_column.as_ref().map(|column| format!("column = {}", quoted(column))));
    lines.push(match &domain.label {
        Label::Classes(names) => format!("classes = {}", list(names)),
        Label::Number(bounds) => range(*bounds),
    });
    lines.push(format!("\n[test]\npublic = {}\n", domain.test_is_public));
    lines.join("\n")
}

/// A number without an exponent or a point where it needs none.
fn number(value: f64) -> String {
    // An integer −0 is 0.
    let is_negative_zero = value == 0.0 && value.is_sign_negative();
    if value.fract() == 0.0 && value.abs() < 1e15 && !is_negative_zero {
        format!("{value:.0}")
    } else {
        format!("{value:?}")
    }
}

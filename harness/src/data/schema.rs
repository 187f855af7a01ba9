//! Schemas: the declared domain of a data set as a TOML file, and its sources in order: a file that is named, `schema.toml`
//! beside the data, the built-in schema of a named data set, flags. Of a table only the header is read, for the names of its
//! columns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::{
    Bounds, Column, ColumnKind, Columns, Domain, DomainError, DomainSource, Label, Other, Relation, Storage,
};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::csv::FirstLine;
use super::error::{DataError, listing};
use super::{folder, names};

/// The name of a schema beside data.
const BESIDE: &str = "schema.toml";

/// The reason for which no domain can be declared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum SchemaError {
    /// A schema that cannot be read.
    #[error("{}: cannot be read: {source}; `rounds schema FILE` drafts a schema", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// Not TOML, or not its tables and keys; lines count from 1.
    #[error("{place}, line {line}: {message}")]
    Syntax {
        place: String,
        line: usize,
        message: String,
    },
    /// A declaration that makes no domain: the problem and the way out.
    #[error("{place}: {problem}")]
    Declaration { place: String, problem: String },
    /// The header of a table cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}

fn refuse<T>(place: &str, problem: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Declaration {
        place: place.into(),
        problem: problem.into(),
    })
}

/// Declarations by flags. They override a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// The schema file.
    pub schema: Option<PathBuf>,
    /// The label's column.
    pub label: Option<String>,
    /// The classes in order.
    pub classes: Option<Vec<String>>,
    /// `LO,HI` for all numbers, or `NAME=LO:HI,…`; the label's name makes it a number.
    pub bounds: Option<String>,
    /// N of add/remove.
    pub public_rows: Option<usize>,
    /// Number of columns without names.
    pub dimension: Option<usize>,
    /// The relation.
    pub relation: Option<Adjacency>,
}

/// The declared domain of a data set, `None` if nothing declares one.
///
/// # Errors
/// Schemas that cannot be read or make no domain, flags that contradict the schema or are not enough without one.
pub fn declare(
    name_or_path: &str,
    data_dir: Option<&Path>,
    flags: &Declaration,
) -> Result<Option<Arc<Domain>>, SchemaError> {
    let path = Path::new(name_or_path);
    let named = names::find(name_or_path);
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let beside = folder.unwrap_or(path).join(BESIDE);
    let declared = if let Some(schema) = &flags.schema {
        Some(read(schema)?)
    } else if named.is_none() && path.exists() && beside.is_file() {
        Some(read(&beside)?)
    } else {
        names::built_in(name_or_path, data_dir).map(Arc::unwrap_or_clone)
    };
    let place = match (&declared, &flags.schema) {
        (Some(_), Some(schema)) => schema.display().to_string(),
        (Some(_), None) if named.is_some() => format!("data set {name_or_path}"),
        (Some(_), None) => beside.display().to_string(),
        (None, _) => name_or_path.to_owned(),
    };
    let domain = match declared {
        None if !flags.declare_rows() && flags.public_rows.is_none() => return Ok(None),
        None => from_flags(&place, path, flags)?,
        Some(_) if names::is_generated(name_or_path) && flags.declare_rows() => {
            return refuse(
                &place,
                "it is generated in its own domain; leave out --schema, --label, --classes, --bounds and --dimension",
            );
        }
        Some(domain) => overridden(&place, domain, flags)?,
    };
    let domain = related(&place, domain, flags.relation, flags.public_rows)?;
    domain.check().map_err(|error| of_domain(&place, "", &error))?;
    Ok(Some(Arc::new(domain)))
}

impl Declaration {
    /// More than the relation is declared.
    fn declare_rows(&self) -> bool {
        let relation_alone = Self {
            relation: self.relation,
            public_rows: self.public_rows,
            ..Self::default()
        };
        *self != relation_alone
    }
}

/// Reads a schema file.
///
/// # Errors
/// As [`parse`], and files that cannot be read.
pub fn read(path: &Path) -> Result<Domain, SchemaError> {
    let text = std::fs::read_to_string(path).map_err(|source| SchemaError::Read {
        path: path.into(),
        source,
    })?;
    parse(&path.display().to_string(), &text)
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchemaTable {
    #[serde(default)]
    drafted: bool,
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
    relation: Option<String>,
    public_rows: Option<usize>,
    storage: Option<String>,
    drop: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixTable {
    count: usize,
    bounds: [f64; 2],
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
enum ColumnTable {
    Number { bounds: [f64; 2], missing: Option<f64> },
    Category { values: Vec<Word>, other: Option<Word> },
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelTable {
    column: Option<String>,
    classes: Option<Vec<Word>>,
    bounds: Option<[f64; 2]>,
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

fn of_domain(place: &str, key: &str, error: &DomainError) -> SchemaError {
    SchemaError::Declaration {
        place: place.into(),
        problem: format!("{key}{error}"),
    }
}

fn bounds_of(place: &str, key: &str, [lo, hi]: [f64; 2]) -> Result<Bounds, SchemaError> {
    Bounds::new(lo, hi).map_err(|error| of_domain(place, &format!("{key}: "), &error))
}

/// Parses a schema; `place` is its name in messages.
///
/// # Errors
/// Syntax, unknown keys, and declarations that make no domain.
pub fn parse(place: &str, text: &str) -> Result<Domain, SchemaError> {
    let table: SchemaTable = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start.min(text.len()));
        SchemaError::Syntax {
            place: place.into(),
            line: text.as_bytes()[..offset].split(|&byte| byte == b'\n').count(),
            message: error.message().replace('\n', " "),
        }
    })?;
    let source = if table.drafted {
        DomainSource::Draft(place.into())
    } else {
        DomainSource::Schema(place.into())
    };
    table.domain(place, source)
}

impl SchemaTable {
    /// The declared domain; `place` is the schema's name in messages.
    pub(super) fn domain(self, place: &str, source: DomainSource) -> Result<Domain, SchemaError> {
        let Some(label) = self.label else {
            let problem = "no label; add [label] with classes = [\"no\", \"yes\"] or bounds = [LO, HI]";
            return refuse(place, problem);
        };
        let columns = columns(place, self.columns)?;
        if label.column.is_none() && matches!(columns, Columns::Named(_)) {
            return refuse(place, "label: no column; add column = \"NAME\" under [label]");
        }
        let name = self.rows.storage.unwrap_or_else(|| Storage::Dense.name().to_owned());
        let mut all = [Storage::Dense, Storage::Bytes, Storage::Sparse].into_iter();
        let Some(storage) = all.find(|storage| storage.name() == name) else {
            return refuse(place, format!("rows.storage: {name:?}; choose dense, bytes or sparse"));
        };
        let kind = match (label.classes, label.bounds) {
            (Some(classes), None) => Label::Classes(words(classes)),
            (None, Some(bounds)) => Label::Number(bounds_of(place, "label", bounds)?),
            _ => {
                let problem = "label: declare either classes = [\"no\", \"yes\"] or bounds = [LO, HI]";
                return refuse(place, problem);
            }
        };
        let mut domain = Domain::new(columns, storage, kind, source);
        (domain.label_column, domain.dropped) = (label.column, self.rows.drop);
        domain.test_is_public = self.test.public;
        let relation = match self.rows.relation.as_deref().map(Adjacency::from_str).transpose() {
            Ok(relation) => relation,
            Err(error) => return refuse(place, format!("rows.relation: {error}")),
        };
        let domain = related(place, domain, relation, self.rows.public_rows)?;
        domain.check().map_err(|error| of_domain(place, "", &error))?;
        Ok(domain)
    }
}

fn columns(place: &str, tables: BTreeMap<Spanned<String>, Value>) -> Result<Columns, SchemaError> {
    if tables.is_empty() {
        return refuse(
            place,
            "no columns; add [columns.NAME] for each, or [columns] with count = D and bounds = [LO, HI] if they have no names",
        );
    }
    if !tables.values().all(Value::is_table) {
        let table: toml::Table = tables
            .into_iter()
            .map(|(key, value)| (key.into_inner(), value))
            .collect();
        return match table.try_into::<MatrixTable>() {
            Ok(MatrixTable { count, bounds }) => Ok(Columns::Matrix {
                count,
                bounds: bounds_of(place, "columns", bounds)?,
            }),
            Err(error) => refuse(place, format!("columns: {}", error.message())),
        };
    }
    let mut tables: Vec<_> = tables.into_iter().collect();
    // Features are in the order of the schema.
    tables.sort_by_key(|(name, _)| name.span().start);
    let column = |(name, table): (Spanned<String>, Value)| {
        let name = name.into_inner();
        let key = format!("columns.{name}");
        let kind = match table.try_into::<ColumnTable>() {
            Ok(ColumnTable::Number { bounds, missing }) => ColumnKind::Number {
                bounds: bounds_of(place, &key, bounds)?,
                missing,
            },
            Ok(ColumnTable::Category { values, other }) => {
                let values = words(values);
                let other = match other.map(String::from) {
                    None => Other::NullRow,
                    Some(other) => match values.iter().position(|value| *value == other) {
                        Some(index) => Other::Value(index),
                        None if other == "null-row" => Other::NullRow,
                        None => {
                            let words = listing(values);
                            let problem = format!("{key}: other = {other:?}; choose \"null-row\" or one of {words}");
                            return refuse(place, problem);
                        }
                    },
                };
                ColumnKind::Category { values, other }
            }
            Err(error) => return refuse(place, format!("{key}: {}", error.message().replace('\n', " "))),
        };
        Ok(Column { name, kind })
    };
    Ok(Columns::Named(
        tables.into_iter().map(column).collect::<Result<_, _>>()?,
    ))
}

/// The domain under `relation`, if one is asked for.
fn related(
    place: &str,
    mut domain: Domain,
    relation: Option<Adjacency>,
    public_rows: Option<usize>,
) -> Result<Domain, SchemaError> {
    let known = match domain.relation {
        Relation::AddRemove { public_rows } => Some(public_rows),
        Relation::ZeroOut | Relation::ReplaceOne => None,
    };
    domain.relation = match (relation.unwrap_or(domain.relation.adjacency()), public_rows) {
        (Adjacency::ZeroOut, None) => Relation::ZeroOut,
        (Adjacency::ReplaceOne, None) => Relation::ReplaceOne,
        (Adjacency::AddRemove, rows) => {
            let Some(public_rows) = rows.or(known) else {
                let problem = "add-remove needs a public number of rows, chosen without looking at them: public-rows = N \
                               under [rows], or --public-rows N";
                return refuse(place, problem);
            };
            Relation::AddRemove { public_rows }
        }
        (relation, Some(_)) => {
            let problem = "leave it out, or choose add-remove";
            return refuse(
                place,
                format!("public-rows is of add-remove alone, not of {relation}; {problem}"),
            );
        }
    };
    Ok(domain)
}

/// Bounds as a flag gives them.
enum BoundsFlag {
    All(Bounds),
    Named(Vec<(String, Bounds)>),
}

impl BoundsFlag {
    fn parse(place: &str, text: &str) -> Result<Self, SchemaError> {
        let pair = |lo: &str, hi: &str| {
            if let (Ok(lo), Ok(hi)) = (lo.trim().parse(), hi.trim().parse()) {
                return bounds_of(place, "--bounds", [lo, hi]);
            }
            let forms = "LO,HI for all columns, or NAME=LO:HI,NAME=LO:HI";
            refuse(place, format!("--bounds {text}: give {forms}"))
        };
        if !text.contains('=') {
            let (lo, hi) = text.split_once(',').unwrap_or((text, ""));
            return pair(lo, hi).map(Self::All);
        }
        let named = text.split(',').map(|part| {
            let (name, range) = part.rsplit_once('=').unwrap_or((part, ""));
            let (lo, hi) = range.split_once(':').unwrap_or((range, ""));
            Ok((name.trim().to_owned(), pair(lo, hi)?))
        });
        named.collect::<Result<_, _>>().map(Self::Named)
    }

    /// Bounds of this name alone.
    fn named(&self, name: &str) -> Option<Bounds> {
        match self {
            Self::All(_) => None,
            Self::Named(named) => named.iter().find(|(of, _)| of == name).map(|(_, bounds)| *bounds),
        }
    }
}

/// A schema's domain, changed by flags.
fn overridden(place: &str, mut domain: Domain, flags: &Declaration) -> Result<Domain, SchemaError> {
    if let Some(label) = &flags.label {
        domain.label_column = Some(label.clone());
    }
    if let Some(classes) = &flags.classes {
        domain.label = Label::Classes(classes.clone());
    }
    match (&mut domain.columns, flags.dimension) {
        (Columns::Matrix { count, .. }, Some(dimension)) => *count = dimension,
        (Columns::Named(_), Some(_)) => return refuse(place, "--dimension is for columns without names; leave it out"),
        (_, None) => {}
    }
    let Some(text) = &flags.bounds else { return Ok(domain) };
    let flag = BoundsFlag::parse(place, text)?;
    match (&flag, &mut domain.columns) {
        (BoundsFlag::All(all), Columns::Matrix { bounds, .. }) => *bounds = *all,
        (BoundsFlag::All(all), Columns::Named(columns)) => {
            for column in columns {
                if let ColumnKind::Number { bounds, .. } = &mut column.kind {
                    *bounds = *all;
                }
            }
        }
        (BoundsFlag::Named(named), columns) => {
            for (name, new) in named {
                if *name == *domain.label_column.as_deref().unwrap_or("label") {
                    domain.label = Label::Number(*new);
                    continue;
                }
                let column = match columns {
                    Columns::Named(columns) => columns.iter_mut().find(|column| column.name == *name),
                    Columns::Matrix { .. } => None,
                };
                let Some(ColumnKind::Number { bounds, .. }) = column.map(|column| &mut column.kind) else {
                    let problem = format!("--bounds: no number column is called {name:?}; declare it in the schema");
                    return refuse(place, problem);
                };
                *bounds = *new;
            }
        }
    }
    Ok(domain)
}

/// A domain of flags alone.
fn from_flags(place: &str, path: &Path, flags: &Declaration) -> Result<Domain, SchemaError> {
    let Some(bounds) = &flags.bounds else {
        let problem = "no bounds; add --bounds LO,HI or NAME=LO:HI,…, or a schema (`rounds schema FILE` drafts one)";
        return refuse(place, problem);
    };
    let bounds = BoundsFlag::parse(place, bounds)?;
    let (columns, label_column) = match (flags.dimension, &bounds) {
        (Some(count), &BoundsFlag::All(bounds)) => (Columns::Matrix { count, bounds }, flags.label.clone()),
        (Some(_), BoundsFlag::Named(_)) => {
            return refuse(place, "columns without names have common bounds: --bounds LO,HI");
        }
        (None, _) => {
            let (columns, label) = named_columns(place, path, flags.label.as_ref(), &bounds)?;
            (Columns::Named(columns), Some(label))
        }
    };
    let label_bounds = label_column.as_deref().and_then(|name| bounds.named(name));
    let label = match (&flags.classes, label_bounds) {
        (Some(classes), _) => Label::Classes(classes.clone()),
        (None, Some(bounds)) => Label::Number(bounds),
        (None, None) => {
            let problem = "no classes; add --classes a,b, or bounds of the label: NAME=LO:HI";
            return refuse(place, problem);
        }
    };
    let mut domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
    domain.label_column = label_column;
    Ok(domain)
}

/// Number columns with the names of a table's header, and the label's name.
fn named_columns(
    place: &str,
    path: &Path,
    label: Option<&String>,
    bounds: &BoundsFlag,
) -> Result<(Vec<Column>, String), SchemaError> {
    let Some(file) = folder::table(path) else {
        return refuse(place, "no number of columns; add --dimension D");
    };
    let header = FirstLine::read(&file)?;
    if !header.has_only_words() {
        let problem = "its first line is no header; declare columns without names by --dimension D";
        return refuse(place, problem);
    }
    // A first line that does not hold the label's name may be a row: no name is taken from it.
    let Some(label) = label.filter(|label| header.fields.contains(label)) else {
        let problem = "its first line holds no label column of that name; name the label by --label NAME, or declare \
                       columns without names by --dimension D";
        return refuse(place, problem);
    };
    let (mut columns, mut unbounded) = (Vec::new(), Vec::new());
    for name in header.fields.iter().filter(|name| *name != label) {
        let own = match bounds {
            BoundsFlag::All(all) => Some(*all),
            BoundsFlag::Named(_) => bounds.named(name),
        };
        let Some(bounds) = own else {
            unbounded.push(name);
            continue;
        };
        let (name, kind) = (name.clone(), ColumnKind::Number { bounds, missing: None });
        columns.push(Column { name, kind });
    }
    if unbounded.is_empty() {
        return Ok((columns, label.clone()));
    }
    let names = listing(unbounded);
    refuse(
        place,
        format!("--bounds: none for {names}; add NAME=LO:HI, or use a schema"),
    )
}

/// A schema as a file, with `notes` beside the columns that they are called by (`label`, and `columns` of columns without
/// names). [`parse`] reads the same domain.
pub fn write(domain: &Domain, notes: &BTreeMap<String, String>) -> String {
    let quoted = |text: &str| Value::String(text.into()).to_string();
    let list = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    let note = |key: &str| notes.get(key).map_or_else(String::new, |note| format!("  # {note}"));
    let range = |bounds: Bounds| format!("bounds = [{}, {}]", number(bounds.lo()), number(bounds.hi()));
    let mut lines = Vec::new();
    if domain.is_draft() {
        lines.push(
            "# Read from the data. A person checks every line below, without looking at the rows where they are".into(),
        );
        lines.push("# private, and then sets drafted = false. Until then a run on this schema claims nothing.".into());
    }
    lines.push(format!("drafted = {}\n\n[rows]", domain.is_draft()));
    lines.push(format!("relation = {}", quoted(domain.relation.adjacency().name())));
    if let Relation::AddRemove { public_rows } = domain.relation {
        lines.push(format!("public-rows = {public_rows}"));
    }
    lines.push(format!("storage = {}", quoted(domain.storage.name())));
    if !domain.dropped.is_empty() {
        lines.push(format!("drop = [{}]{}", list(&domain.dropped), note("drop")));
    }
    match &domain.columns {
        Columns::Matrix { count, bounds } => {
            let bounds = range(*bounds) + &note("columns");
            lines.push(format!("\n[columns]\ncount = {count}\n{bounds}"));
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
                            Other::NullRow => "null-row",
                            Other::Value(index) => &values[*index],
                        };
                        let (values, other) = (list(values), quoted(other));
                        lines.push(format!("kind = \"category\"\nvalues = [{values}]\nother = {other}"));
                    }
                }
            }
        }
    }
    lines.push(format!("\n[label]{}", note("label")));
    lines.extend(
        domain
            .label_column
            .as_ref()
            .map(|column| format!("column = {}", quoted(column))),
    );
    lines.push(match &domain.label {
        Label::Classes(names) => format!("classes = [{}]", list(names)),
        Label::Number(bounds) => range(*bounds),
    });
    lines.push(format!("\n[test]\npublic = {}\n", domain.test_is_public));
    lines.join("\n")
}

/// A number without an exponent or a point where it needs none.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:?}")
    }
}

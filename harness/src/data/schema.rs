//! Schemas: the declared domain of a data set as a TOML file, and its sources in order: a file that is named, `schema.toml`
//! beside the data, the built-in schema of a named data set, flags. Nothing here opens a row: of a table only the header is
//! read, for the names of its columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;
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

/// The schema beside data.
const BESIDE: &str = "schema.toml";

/// Why no domain can be declared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A schema that cannot be read.
    #[error("{}: cannot be read: {source}; `rounds schema FILE` drafts a schema", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or not its tables and keys.
    #[error("{place}, line {line}: {message}")]
    Syntax {
        /// The file.
        place: String,
        /// The line, counting from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A declaration that makes no domain.
    #[error("{place}: {problem}")]
    Declaration {
        /// The file, or the flags.
        place: String,
        /// What is wrong, and the way out.
        problem: String,
    },
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

/// What flags declare. They override a schema.
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
    let beside = if path.is_dir() {
        path.join(BESIDE)
    } else {
        path.with_file_name(BESIDE)
    };
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
    /// Whether more than the relation is declared.
    fn declare_rows(&self) -> bool {
        self.schema.is_some()
            || self.label.is_some()
            || self.classes.is_some()
            || self.bounds.is_some()
            || self.dimension.is_some()
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaTable {
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

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RowsTable {
    relation: Option<String>,
    public_rows: Option<usize>,
    storage: Option<String>,
    drop: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixTable {
    count: usize,
    bounds: [f64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
enum ColumnTable {
    Number { bounds: [f64; 2], missing: Option<f64> },
    Category { values: Vec<Word>, other: Option<Word> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelTable {
    column: Option<String>,
    classes: Option<Vec<Word>>,
    bounds: Option<[f64; 2]>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TestTable {
    public: bool,
}

/// A word of a table, which may be written as a number.
#[derive(Deserialize)]
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

/// Parses a schema; `place` is what messages call it.
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
    let Some(label) = table.label else {
        return refuse(
            place,
            "no label; add [label] with classes = [\"no\", \"yes\"] or bounds = [LO, HI]",
        );
    };
    let columns = columns(place, table.columns)?;
    if label.column.is_none() && matches!(columns, Columns::Named(_)) {
        return refuse(place, "label: no column; add column = \"NAME\" under [label]");
    }
    let storage = match table.rows.storage.as_deref() {
        None => Storage::Dense,
        Some(name) => match [Storage::Dense, Storage::Bytes, Storage::Sparse]
            .into_iter()
            .find(|storage| storage.name() == name)
        {
            Some(storage) => storage,
            None => return refuse(place, format!("rows.storage: {name:?}; choose dense, bytes or sparse")),
        },
    };
    let domain = Domain {
        relation: Relation::ZeroOut,
        columns,
        storage,
        label: match (label.classes, label.bounds) {
            (Some(classes), None) => Label::Classes(words(classes)),
            (None, Some(bounds)) => Label::Number(bounds_of(place, "label", bounds)?),
            _ => {
                return refuse(
                    place,
                    "label: declare either classes = [\"no\", \"yes\"] or bounds = [LO, HI]",
                );
            }
        },
        label_column: label.column,
        dropped: table.rows.drop,
        test_is_public: table.test.public,
        source: if table.drafted {
            DomainSource::Draft(place.into())
        } else {
            DomainSource::Schema(place.into())
        },
    };
    let relation = match table.rows.relation.as_deref() {
        None => None,
        Some(name) => match Adjacency::from_str(name) {
            Ok(relation) => Some(relation),
            Err(error) => return refuse(place, format!("rows.relation: {error}")),
        },
    };
    let domain = related(place, domain, relation, table.rows.public_rows)?;
    domain.check().map_err(|error| of_domain(place, "", &error))?;
    Ok(domain)
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
                            return refuse(
                                place,
                                format!(
                                    "{key}: other = {other:?}; choose \"null-row\" or one of {}",
                                    listing(values)
                                ),
                            );
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
        (Adjacency::AddRemove, rows) => match rows.or(known) {
            Some(public_rows) => Relation::AddRemove { public_rows },
            None => {
                return refuse(
                    place,
                    "add-remove needs a public number of rows, chosen without looking at them: public-rows = N under [rows], \
                     or --public-rows N",
                );
            }
        },
        (relation, Some(_)) => {
            return refuse(
                place,
                format!("public-rows is of add-remove alone, not of {relation}; leave it out, or choose add-remove"),
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
        let pair = |lo: &str, hi: &str| match (lo.trim().parse(), hi.trim().parse()) {
            (Ok(lo), Ok(hi)) => bounds_of(place, "--bounds", [lo, hi]),
            _ => refuse(
                place,
                format!("--bounds {text}: give LO,HI for all columns, or NAME=LO:HI,NAME=LO:HI"),
            ),
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
}

/// A schema's domain with what flags say otherwise.
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
    let of_named = match BoundsFlag::parse(place, text)? {
        BoundsFlag::Named(named) => named,
        BoundsFlag::All(all) => {
            match &mut domain.columns {
                Columns::Matrix { bounds, .. } => *bounds = all,
                Columns::Named(columns) => columns.iter_mut().for_each(|column| {
                    if let ColumnKind::Number { bounds, .. } = &mut column.kind {
                        *bounds = all;
                    }
                }),
            }
            return Ok(domain);
        }
    };
    for (name, new) in of_named {
        if name == domain.label_column.as_deref().unwrap_or("label") {
            domain.label = Label::Number(new);
            continue;
        }
        let column = match &mut domain.columns {
            Columns::Named(columns) => columns.iter_mut().find(|column| column.name == name),
            Columns::Matrix { .. } => None,
        };
        match column.map(|column| &mut column.kind) {
            Some(ColumnKind::Number { bounds, .. }) => *bounds = new,
            Some(ColumnKind::Category { .. }) | None => {
                return refuse(
                    place,
                    format!("--bounds: no number column is called {name:?}; declare it in the schema"),
                );
            }
        }
    }
    Ok(domain)
}

/// A domain of flags alone.
fn from_flags(place: &str, path: &Path, flags: &Declaration) -> Result<Domain, SchemaError> {
    let Some(bounds) = &flags.bounds else {
        return refuse(
            place,
            "no bounds; add --bounds LO,HI or NAME=LO:HI,…, or a schema (`rounds schema FILE` drafts one)",
        );
    };
    let bounds = BoundsFlag::parse(place, bounds)?;
    let bounds_of = |name: &str| match &bounds {
        BoundsFlag::All(_) => None,
        BoundsFlag::Named(named) => named.iter().find(|(of, _)| of == name).map(|(_, bounds)| *bounds),
    };
    let (columns, label_column) = if let Some(count) = flags.dimension {
        let BoundsFlag::All(bounds) = bounds else {
            return refuse(place, "columns without names have common bounds: --bounds LO,HI");
        };
        (Columns::Matrix { count, bounds }, flags.label.clone())
    } else {
        let Some(file) = folder::table(path) else {
            return refuse(place, "no number of columns; add --dimension D");
        };
        let header = FirstLine::read(&file)?;
        if !header.has_only_words() {
            return refuse(
                place,
                "its first line is no header; declare columns without names by --dimension D",
            );
        }
        let header = header.fields;
        // A first line that does not hold the label's name may be a row: no name is taken from it.
        let Some(label) = flags.label.clone().filter(|label| header.contains(label)) else {
            return refuse(
                place,
                "its first line holds no label column of that name; name the label by --label NAME, or declare columns \
                 without names by --dimension D",
            );
        };
        let label = Some(label);
        let names = header.iter().filter(|name| Some(*name) != label.as_ref());
        let mut unbounded = Vec::new();
        let mut columns = Vec::new();
        for name in names {
            let of_all = if let BoundsFlag::All(bounds) = &bounds {
                Some(*bounds)
            } else {
                None
            };
            match of_all.or_else(|| bounds_of(name)) {
                None => unbounded.push(name),
                Some(bounds) => columns.push(Column {
                    name: name.clone(),
                    kind: ColumnKind::Number { bounds, missing: None },
                }),
            }
        }
        if !unbounded.is_empty() {
            return refuse(
                place,
                format!(
                    "--bounds: none for {}; add NAME=LO:HI, or use a schema",
                    listing(unbounded)
                ),
            );
        }
        (Columns::Named(columns), label)
    };
    let label = match (&flags.classes, label_column.as_deref().and_then(bounds_of)) {
        (Some(classes), _) => Label::Classes(classes.clone()),
        (None, Some(bounds)) => Label::Number(bounds),
        (None, None) => {
            return refuse(
                place,
                "no classes; add --classes a,b, or bounds of the label: NAME=LO:HI",
            );
        }
    };
    Ok(Domain {
        relation: Relation::ZeroOut,
        columns,
        storage: Storage::Dense,
        label,
        label_column,
        dropped: Vec::new(),
        test_is_public: false,
        source: DomainSource::Arguments,
    })
}

/// A schema as a file, with `notes` beside the columns that they are called by (`label`, and `columns` of columns without
/// names). [`parse`] reads the same domain.
pub fn write(domain: &Domain, notes: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a string takes any text");
        text.push('\n');
    };
    let quoted = |text: &str| Value::String(text.into()).to_string();
    let list = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    let note = |key: &str| notes.get(key).map_or_else(String::new, |note| format!("  # {note}"));
    let range = |bounds: Bounds| format!("[{}, {}]", number(bounds.lo()), number(bounds.hi()));
    if domain.is_draft() {
        line(format_args!(
            "# Read from the data. A person checks every line below, without looking at the rows where they are"
        ));
        line(format_args!(
            "# private, and then sets drafted = false. Until then a run on this schema claims nothing."
        ));
    }
    line(format_args!("drafted = {}\n\n[rows]", domain.is_draft()));
    line(format_args!(
        "relation = {}",
        quoted(domain.relation.adjacency().name())
    ));
    if let Relation::AddRemove { public_rows } = domain.relation {
        line(format_args!("public-rows = {public_rows}"));
    }
    line(format_args!("storage = {}", quoted(domain.storage.name())));
    if !domain.dropped.is_empty() {
        line(format_args!("drop = [{}]{}", list(&domain.dropped), note("drop")));
    }
    match &domain.columns {
        Columns::Matrix { count, bounds } => {
            line(format_args!(
                "\n[columns]\ncount = {count}\nbounds = {}{}",
                range(*bounds),
                note("columns")
            ));
        }
        Columns::Named(columns) => {
            for Column { name, kind } in columns {
                line(format_args!("\n[columns.{}]{}", quoted(name), note(name)));
                match kind {
                    ColumnKind::Number { bounds, missing } => {
                        line(format_args!("kind = \"number\"\nbounds = {}", range(*bounds)));
                        if let Some(missing) = missing {
                            line(format_args!("missing = {}", number(*missing)));
                        }
                    }
                    ColumnKind::Category { values, other } => {
                        let other = match other {
                            Other::NullRow => "null-row",
                            Other::Value(index) => &values[*index],
                        };
                        line(format_args!(
                            "kind = \"category\"\nvalues = [{}]\nother = {}",
                            list(values),
                            quoted(other)
                        ));
                    }
                }
            }
        }
    }
    line(format_args!("\n[label]{}", note("label")));
    if let Some(column) = &domain.label_column {
        line(format_args!("column = {}", quoted(column)));
    }
    match &domain.label {
        Label::Classes(names) => line(format_args!("classes = [{}]", list(names))),
        Label::Number(bounds) => line(format_args!("bounds = {}", range(*bounds))),
    }
    line(format_args!("\n[test]\npublic = {}", domain.test_is_public));
    text
}

/// A number as people write it.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:?}")
    }
}

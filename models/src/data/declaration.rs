//! The domain that a run declares, from its sources in order: a schema file that is named, `schema.toml` beside the data, the
//! built-in schema of a named data set, flags. Of a table only the header is read, for the names of its columns. Where nothing
//! declares a table with a header, a run that claims nothing may draft its domain from the rows ([`drafted`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::{
    BinCounts, Bounds, Column, ColumnKind, Columns, Domain, DomainSource, Label, Storage, UnitDeclaration, noise_scale,
    private_bounds,
};
use rounds_kernels::random::StreamKey;
use sha2::{Digest as _, Sha256};

use super::error::listing;
use super::formats::{self, Declared, csv, csv::FirstLine};
use super::ids::UNIT_OF_FILE;
use super::labels::Task;
use super::request::ColumnUse;
use super::schema::{SchemaError, read, refuse, related};
use super::{draft, names};

/// The name of a schema beside data.
const BESIDE: &str = "schema.toml";

/// The place of the schema beside a data file, or in a folder.
pub fn schema_beside(path: &Path) -> PathBuf {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    folder.unwrap_or(path).join(BESIDE)
}

/// Declarations by flags. They override a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Schema of the data: columns, label, relation (TOML) [default: schema.toml beside the data, or the built-in one]
    pub schema: Option<PathBuf>,
    /// The use of a table's columns.
    pub columns: ColumnUse,
    /// Class names in order, separated by commas
    pub classes: Option<Vec<String>>,
    /// Public bounds of the values: LO,HI for all columns, or NAME=LO:HI,… by column (the label's name makes it a number); or
    /// private:EPSILON, which reads them off the rows privately, at an EPSILON of its own beside --epsilon
    pub bounds: Option<String>,
    /// Number of columns, for files without a header (LIBSVM: of a run that claims nothing, too)
    pub dimension: Option<usize>,
    /// Public number of rows, or units, N for add-remove, chosen without looking at the rows
    pub public_rows: Option<usize>,
    /// File with the unit of each training row: text, one id a line, or NPY [default: DATA.units, or units.txt in a folder]
    pub unit_ids: Option<PathBuf>,
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
    let is_file = names::find(name_or_path).is_none() && path.exists();
    let beside = Some(schema_beside(path)).filter(|beside| is_file && beside.is_file());
    let (place, declared) = if let Some(schema) = flags.schema.as_ref().or(beside.as_ref()) {
        (schema.display().to_string(), Some(read(schema)?))
    } else if let Some(built_in) = names::built_in(name_or_path, data_dir) {
        (format!("data set {name_or_path}"), Some(Arc::unwrap_or_clone(built_in)))
    } else {
        (name_or_path.to_owned(), None)
    };
    let domain = match declared {
        None if flags.bounds.is_none() => return Ok(None),
        None => from_flags(path, flags),
        Some(_) if names::is_generated(name_or_path) && flags.declare_rows() => refuse(
            "it is generated in its own domain; leave out `schema`, `label`, `drop`, `task`, `unit`, `unit-ids`, `classes`, \
             `bounds` and `dimension`",
        ),
        Some(domain) => overridden(domain, flags),
    };
    domain.and_then(|domain| checked(domain, flags)).map(Some).map_err(|error| error.at(&place))
}

/// The domain of a table with a header that nothing declares, drafted from its training rows and changed by flags, and what to
/// say of it; `None` for other data. It reads the rows: for runs that claim nothing.
///
/// # Errors
/// A table that cannot be read, or has columns that are no features; flags that make no domain, or need a declared one.
pub fn drafted(name_or_path: &str, flags: &Declaration) -> Result<Option<(Arc<Domain>, Vec<String>)>, SchemaError> {
    let path = Path::new(name_or_path);
    let draft = match names::find(name_or_path) {
        None if path.exists() => draft::drafted(path, &flags.columns, false)?,
        _ => None,
    };
    let Some(draft) = draft else {
        flags.columns.refuse_names(path)?;
        if flags.classes.is_none() && flags.public_rows.is_none() {
            return Ok(None);
        }
        let problem = "`classes` and `public-rows` declare data whose bounds are declared; add `bounds LO,HI`, or a schema \
                       (`rounds schema FILE` drafts one)";
        return Err(SchemaError::declaration(name_or_path, problem));
    };
    let draft = draft.check(path)?;
    let domain = overridden(draft.domain, flags).and_then(|domain| checked(domain, flags));
    Ok(Some((domain.map_err(|error| error.at(name_or_path))?, draft.warnings)))
}

/// The domain under the relation that flags name, checked as a whole. Refuses a task that is not that of the declared label.
fn checked(domain: Domain, flags: &Declaration) -> Result<Arc<Domain>, SchemaError> {
    let domain = related(domain, flags.relation, flags.public_rows)?;
    match (flags.columns.task, &domain.label) {
        (Some(Task::Regression), Label::Classes(_)) => {
            let name = label_name(&domain);
            refuse(format!(
                "`task regression`: the label is declared as classes; give its bounds: `bounds {name}=LO:HI`"
            ))
        }
        (Some(Task::Classification), Label::Number(_)) => {
            refuse("`task classification`: the label is declared as a number; give its classes: `classes A,B`")
        }
        _ => Ok(Arc::new(domain)),
    }
}

/// The name by which flags call the label.
fn label_name(domain: &Domain) -> &str {
    domain.label_column.as_deref().unwrap_or("label")
}

impl Declaration {
    /// ε of the private bounds that are asked for.
    pub fn private_bounds(&self) -> Option<f64> {
        match BoundsFlag::parse(self.bounds.as_deref()?) {
            Ok(BoundsFlag::Private(epsilon)) => Some(epsilon),
            _ => None,
        }
    }

    /// The columns of `domain` are those of a table's header, and only bounds of all columns together say that they hold numbers.
    pub fn columns_are_guessed(&self, domain: &Domain) -> bool {
        let bounds = self.bounds.as_deref().map(BoundsFlag::parse);
        domain.source == DomainSource::Arguments
            && domain.label_column.is_some()
            && !matches!(bounds, Some(Ok(BoundsFlag::Named(_))))
    }

    /// The names of the flags that are given and may change what a schema declares of rows.
    fn that_change(&self) -> Vec<&'static str> {
        let bounds = self.bounds.is_some() && self.private_bounds().is_none();
        let given = [
            ("label", self.columns.label.is_some()),
            ("drop", !self.columns.drop.is_empty()),
            ("unit", self.columns.unit.is_some()),
            ("unit-ids", self.unit_ids.is_some()),
            ("classes", self.classes.is_some()),
            ("dimension", self.dimension.is_some()),
            ("bounds", bounds),
        ];
        given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }

    /// More than the relation is declared.
    fn declare_rows(&self) -> bool {
        let relation_alone = Self { relation: self.relation, public_rows: self.public_rows, ..Self::default() };
        *self != relation_alone
    }
}

/// The domain with the unit that flags name. One that a schema declares stays as it is.
fn with_unit(domain: &mut Domain, flags: &Declaration) -> Result<(), SchemaError> {
    let column = &flags.columns.unit;
    let flag = match (column, &flags.unit_ids) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            return refuse("`unit`, `unit-ids`: ids stand in a column or in a file; leave one of them out");
        }
        (Some(column), None) => format!("unit {column}"),
        (None, Some(file)) => format!("unit-ids {}", file.display()),
    };
    match &domain.unit {
        Some(declared) if declared.column == *column => {}
        Some(declared) => {
            return refuse(format!("`{flag}`: the schema declares another unit, {declared}; leave it out"));
        }
        None => {
            if let Columns::Named(columns) = &mut domain.columns {
                columns.retain(|of| Some(&of.name) != column.as_ref());
            }
            domain.dropped.retain(|name| Some(name) != column.as_ref());
            domain.unit = Some(UnitDeclaration { column: column.clone(), ..UNIT_OF_FILE.clone() });
        }
    }
    Ok(())
}

/// The named columns of numbers: their names, their bounds, and the value of missing fields.
fn numbers(columns: &mut Columns) -> impl Iterator<Item = (&String, &mut Bounds, Option<&mut f64>)> {
    let named = if let Columns::Named(columns) = columns { &mut columns[..] } else { &mut [] };
    named.iter_mut().filter_map(|Column { name, kind }| match kind {
        ColumnKind::Number { bounds, missing } => Some((&*name, bounds, missing.as_mut())),
        ColumnKind::Category { .. } => None,
    })
}

const FOR_TABLES: &str = "`bounds private:EPSILON` is for tables with a header; declare other data by `bounds LO,HI`";

/// Refuses private bounds of a domain without named columns of numbers, and noise beyond 2⁵⁰ rows.
pub(crate) fn check_private_bounds(domain: &Domain, epsilon: f64) -> Result<(), &'static str> {
    match &domain.columns {
        _ if domain.unit.is_some() => Err(
            "`bounds private:EPSILON` counts rows, of which a unit may have many: declare the bounds of each column, by a \
             schema or `bounds NAME=LO:HI,…`",
        ),
        Columns::Matrix { .. } => Err(FOR_TABLES),
        Columns::Named(_) if domain.numbers() == 0 => Err("`bounds private:EPSILON`: no column of numbers is declared"),
        Columns::Named(_) if !(noise_scale(domain.numbers(), domain.relation, epsilon) <= 2_f64.powi(50)) => {
            Err("`bounds private:EPSILON`: the noise would exceed 2^50 rows; give a larger EPSILON")
        }
        Columns::Named(_) => Ok(()),
    }
}

/// `domain` with private bounds of all its columns of numbers, the label among them, in the rows of a table with a header; missing
/// values are the middle of the bounds. With it the SHA-256 of the counts, which is of the rows and must not be shown; `key` gives the
/// key of their noise from it.
///
/// # Errors
/// Another kind of data, a domain without numbers, noise beyond 2⁵⁰ rows, a table that cannot be read.
pub(crate) fn bound_privately(
    name_or_path: &str,
    domain: &Domain,
    epsilon: f64,
    key: impl FnOnce(&[u8; 32]) -> StreamKey,
) -> Result<(Domain, [u8; 32]), SchemaError> {
    let declared = domain;
    let mut domain = domain.clone();
    domain.source = DomainSource::PrivateBounds(Box::new(domain.source));
    let table = formats::table(Path::new(name_or_path), Some(Declared::of(&domain)))
        .filter(|_| names::find(name_or_path).is_none());
    let file = check_private_bounds(declared, epsilon).and_then(|()| table.ok_or(FOR_TABLES));
    let file = file.map_err(|problem| SchemaError::declaration(name_or_path, problem))?;
    let mut found: Vec<_> = numbers(&mut domain.columns).collect();
    if let (Label::Number(bounds), Some(name)) = (&mut domain.label, &domain.label_column) {
        found.push((name, bounds, None));
    }
    let header = FirstLine::read(&file)?;
    let names: Vec<String> = found.iter().map(|(name, ..)| (*name).clone()).collect();
    let counts = csv::count_numbers(&file, &header, declared, &names)?;
    let mut digest = Sha256::new();
    counts.iter().flat_map(BinCounts::iter).for_each(|count| digest.update(count.to_le_bytes()));
    let digest = digest.finalize().into();
    let released = private_bounds(&counts, domain.relation, epsilon, &key(&digest));
    for ((_, bounds, missing), private) in found.into_iter().zip(released) {
        *bounds = private;
        // A drafted schema's would be a mean of the rows.
        if let Some(missing) = missing {
            *missing = 0.5 * private.lo() + 0.5 * private.hi();
        }
    }
    Ok((domain, digest))
}

/// Bounds as a flag gives them.
enum BoundsFlag {
    /// ε of private bounds.
    Private(f64),
    All(Bounds),
    Named(Vec<(String, Bounds)>),
}

impl BoundsFlag {
    fn parse(text: &str) -> Result<Self, SchemaError> {
        let pair = |lo: &str, hi: &str| match (lo.trim().parse(), hi.trim().parse()) {
            (Ok(lo), Ok(hi)) => Bounds::new(lo, hi).or_else(|error| refuse(format!("`bounds`: {error}"))),
            _ => refuse(format!("`bounds {text}`: give LO,HI for all columns, or NAME=LO:HI,NAME=LO:HI")),
        };
        if let Some(epsilon) = text.strip_prefix("private:") {
            let epsilon = epsilon.parse().ok().filter(|epsilon| (1e-9..=1e9).contains(epsilon));
            let refused = || refuse(format!("`bounds {text}`: give private:EPSILON, with a number above 0"));
            return epsilon.map_or_else(refused, |epsilon| Ok(Self::Private(epsilon)));
        }
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

/// A schema's domain, changed by flags, with an origin that says so.
fn overridden(declared: Domain, flags: &Declaration) -> Result<Domain, SchemaError> {
    let mut domain = changed(declared.clone(), flags)?;
    if domain != declared && declared.source != DomainSource::Arguments {
        let names = flags.that_change().join(", ");
        domain.source = DomainSource::Changed(Box::new(declared.source), names);
    }
    Ok(domain)
}

fn changed(mut domain: Domain, flags: &Declaration) -> Result<Domain, SchemaError> {
    if let Some(label) = &flags.columns.label {
        domain.label_column = Some(label.clone());
    }
    for name in &flags.columns.drop {
        if let Columns::Named(columns) = &mut domain.columns {
            columns.retain(|column| column.name != *name);
        }
        if domain.label_column.as_ref().is_none_or(|label| label == name) {
            return refuse(format!("`drop {name}`: a column with a name is dropped, and not the label"));
        }
        if !domain.dropped.contains(name) {
            domain.dropped.push(name.clone());
        }
    }
    if let Some(classes) = &flags.classes {
        domain.label = Label::Classes(classes.clone());
    }
    match (&mut domain.columns, flags.dimension) {
        (Columns::Matrix { count, .. }, Some(dimension)) => *count = dimension,
        (Columns::Named(_), Some(_)) => return refuse("`dimension` is for columns without names; leave it out"),
        (_, None) => {}
    }
    with_unit(&mut domain, flags)?;
    match flags.bounds.as_deref().map(BoundsFlag::parse).transpose()? {
        None | Some(BoundsFlag::Private(_)) => {}
        Some(BoundsFlag::All(all)) => {
            if let Columns::Matrix { bounds, .. } = &mut domain.columns {
                *bounds = all;
            }
            numbers(&mut domain.columns).for_each(|(_, bounds, _)| *bounds = all);
        }
        Some(BoundsFlag::Named(named)) => {
            for (name, new) in named {
                if name == label_name(&domain) {
                    if flags.classes.is_some() {
                        let problem = "the label is one of classes or a number; leave one out";
                        return refuse(format!("`classes` and `bounds {name}=LO:HI`: {problem}"));
                    }
                    domain.label = Label::Number(new);
                } else if let Some((_, bounds, _)) = numbers(&mut domain.columns).find(|(of, ..)| **of == name) {
                    *bounds = new;
                } else {
                    return refuse(format!("`bounds`: no number column is called {name:?}; declare it in the schema"));
                }
            }
        }
    }
    Ok(domain)
}

/// Bounds until declared or private ones are known.
fn unit() -> Bounds {
    Bounds::new(-1.0, 1.0).expect("−1 is below 1")
}

/// A domain of flags alone: the columns are so many, or those of a table's header, all numbers.
fn from_flags(path: &Path, flags: &Declaration) -> Result<Domain, SchemaError> {
    let flag = BoundsFlag::parse(flags.bounds.as_deref().unwrap_or_default())?;
    let is_private = matches!(flag, BoundsFlag::Private(_));
    let (columns, label_column) = match flags.dimension {
        Some(_) if !matches!(flag, BoundsFlag::All(_)) => {
            return refuse("columns without names have common bounds: `bounds LO,HI`");
        }
        Some(count) => (Columns::Matrix { count, bounds: unit() }, None),
        None => {
            let (names, label) = header(path, flags.columns.label.as_ref())?;
            // A row without one number would be no row; the middle of private bounds is as public as they are.
            let kind = ColumnKind::Number { bounds: unit(), missing: is_private.then_some(0.0) };
            let features = names.into_iter().filter(|name| *name != label);
            (Columns::Named(features.map(|name| Column { name, kind: kind.clone() }).collect()), Some(label))
        }
    };
    let label = match flags.columns.task {
        Some(Task::Regression) if is_private => Label::Number(unit()),
        _ => Label::Classes(Vec::new()),
    };
    let mut domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
    domain.label_column = label_column;
    let domain = overridden(domain, flags)?;
    if matches!(&domain.label, Label::Classes(classes) if classes.is_empty()) {
        return refuse(
            "no classes; add `classes a,b`, or bounds of the label: NAME=LO:HI (with private bounds: `task regression`). A \
             table with categories needs a schema (`rounds schema FILE` drafts one)",
        );
    }
    if let (BoundsFlag::Named(named), Columns::Named(columns)) = (flag, &domain.columns) {
        let names = columns.iter().map(|column| &column.name);
        let mut unbounded = names.filter(|name| !named.iter().any(|(of, _)| of == *name)).peekable();
        if unbounded.peek().is_some() {
            let names = listing(unbounded);
            return refuse(format!(
                "`bounds`: none for {names}; add NAME=LO:HI, leave them out by `drop`, or use a schema"
            ));
        }
    }
    Ok(domain)
}

/// The names in a table's header, and that of the label.
fn header(path: &Path, label: Option<&String>) -> Result<(Vec<String>, String), SchemaError> {
    let Some(file) = formats::table(path, Some(Declared { format: None, named: label.is_some() })) else {
        return refuse("no number of columns; add `dimension D`");
    };
    let header = FirstLine::read(&file)?;
    // A first line that does not hold the label's name may be a row: nothing else is told of it.
    match label.filter(|label| header.fields.contains(label)) {
        Some(label) => {
            csv::check_names(&file, &header.fields)?;
            Ok((header.fields, label.clone()))
        }
        None => refuse(
            "its first line is no header with a label column of that name; name the label by `label NAME`, or declare \
             columns without names by `dimension D`",
        ),
    }
}

//! Drafts of domains, read from the data: for a person to check as a schema, and for runs on tables that nothing declares. A draft
//! covers no claim, so every row may enter it, and errors name the line.

use std::collections::BTreeMap;
use std::path::Path;

use rounds_algorithms::plural;
use rounds_algorithms::problem::{
    Bounds, Column, ColumnKind, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Other, SparseMatrix,
    Storage, UnitDeclaration,
};
use rounds_kernels::linear::Reduction;

use super::error::{DataError, Explained, listing};
use super::formats;
use super::formats::csv::{self, FirstLine, MOST_WORDS, Summary};
use super::labels::{Task, classes};
use super::request::{ColumnUse, Request};
use super::{load, schema};

/// Bounds of one significant digit around `lo` and `hi`.
fn rounded_out(lo: f64, hi: f64) -> Bounds {
    let unit = || Bounds::new(0.0, 1.0).expect("0 is below 1");
    let largest = lo.abs().max(hi.abs());
    if !(lo <= hi && largest > 0.0) {
        return unit();
    }
    let exponent = largest.log10().floor() as i32;
    // By way of decimal text, so that 0.3 does not become 3·0.1.
    let decimal = |digits: f64| format!("{digits}e{exponent}").parse().unwrap_or(digits);
    let step = 10f64.powi(exponent);
    let (lo, hi) = ((lo / step).floor(), (hi / step).ceil());
    Bounds::new(decimal(lo), decimal(if lo < hi { hi } else { lo + 1.0 })).unwrap_or_else(|_| unit())
}

/// `value` with three significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The text of a schema for a file or folder.
///
/// # Errors
/// Data that cannot be read; of a text, the first line that is none of its format.
pub fn draft(path: &Path, flags: &ColumnUse) -> Result<String, Explained> {
    written(path, flags).map_err(DataError::for_reader)
}

fn written(path: &Path, flags: &ColumnUse) -> Result<String, DataError> {
    if let Some(draft) = drafted(path, flags, true)? {
        let mut notes = draft.notes;
        let reasons: Vec<String> = draft.unusable.iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
        if !reasons.is_empty() {
            notes.insert("drop".into(), reasons.join("; "));
        }
        let mut domain = draft.domain;
        domain.dropped.extend(draft.unusable.into_iter().map(|(name, _)| name));
        return Ok(schema::write(&domain, &notes));
    }
    flags.refuse_names(path)?;
    let notes = [("columns", "bounds of every column, read from the data"), ("label", "read from the data")];
    let notes = notes.map(|(key, note)| (key.to_owned(), note.to_owned()));
    let request = Request { task: flags.task, ..Request::default() };
    let data = load::rows(&path.to_string_lossy(), None, request)?;
    let source = DomainSource::Draft(path.display().to_string());
    let mut domain = of_matrix(source, &data.train);
    domain.format = formats::found_format(path).ok();
    Ok(schema::write(&domain, &notes.into()))
}

/// The domain of a table with a header, read from its rows.
pub(super) struct Draft {
    pub(super) domain: Domain,
    /// What a person who checks it should know, by column.
    notes: BTreeMap<String, String>,
    /// What a person who runs on it should know.
    pub(super) warnings: Vec<String>,
    /// Columns that are no features, with the reason.
    unusable: Vec<(String, String)>,
}

impl Draft {
    /// Refuses columns of dates and free text.
    pub(super) fn check(self, path: &Path) -> Result<Self, DataError> {
        let Some((name, problem)) = self.unusable.first() else {
            return Ok(self);
        };
        let names: Vec<&str> = self.unusable.iter().map(|(name, _)| name.as_str()).collect();
        let problem = format!(
            "column {name:?} is no feature: {problem}. Leave it out by `drop {}`, or replace it in the file by numbers or by \
             a category of at most {MOST_WORDS} words",
            names.join(",")
        );
        Err(DataError::contents(path, problem))
    }
}

/// The draft of the table of training rows at `path`; `None` if it has no table with a header. One for a person to check proposes a unit where
/// the flags name none.
pub(super) fn drafted(path: &Path, flags: &ColumnUse, proposes_unit: bool) -> Result<Option<Draft>, DataError> {
    if path.is_file() {
        // A file of no format is refused as such, whatever else is asked of it.
        formats::found_format(path)?;
    }
    let Some(file) = formats::table(path, None) else {
        return Ok(None);
    };
    let header = FirstLine::read(&file)?;
    if !header.is_header(flags.label.as_deref()) {
        return Ok(None);
    }
    let mut draft = of_table(DomainSource::Draft(path.display().to_string()), &file, &header, (flags, proposes_unit))?;
    draft.domain.format = Some(formats::found_format(&file)?);
    Ok(Some(draft))
}

fn of_matrix(source: DomainSource, data: &Dataset) -> Domain {
    let range = |values: &[f32], (lo, hi): (f64, f64)| {
        let widen = |(lo, hi): (f64, f64), value: f64| (lo.min(value), hi.max(value));
        let (lo, hi) = values.iter().copied().map(f64::from).fold((lo, hi), widen);
        rounded_out(lo, hi)
    };
    let nothing = (f64::INFINITY, f64::NEG_INFINITY);
    let (bounds, storage) = match data.features() {
        Features::U8 { .. } => (Bounds::new(0.0, 255.0).expect("bytes have bounds"), Storage::Bytes),
        Features::F32 { values, .. } => (range(values, nothing), Storage::Dense),
        Features::Sparse(SparseMatrix { values, .. }) => (range(values, (0.0, 0.0)), Storage::Sparse),
    };
    let label = match data.labels() {
        Labels::Values(values) => Label::Number(range(values, nothing)),
        labels @ Labels::Classes { .. } => Label::Classes(labels.class_names().unwrap_or_default()),
    };
    let count = data.columns();
    Domain::new(Columns::Matrix { count, bounds }, storage, label, source)
}

fn of_table(
    source: DomainSource,
    file: &Path,
    header: &FirstLine,
    (flags, proposes_unit): (&ColumnUse, bool),
) -> Result<Draft, DataError> {
    csv::check_names(file, &header.fields)?;
    let place = header.label(file, flags.label.as_deref())?;
    let label_name = &header.fields[place];
    let absent = |name: &&String| **name == *label_name || !header.fields.contains(name);
    let mut named = flags.drop.iter().map(|name| ("drop", name)).chain(flags.unit.iter().map(|name| ("unit", name)));
    if let Some((flag, name)) = named.find(|(_, name)| absent(name)) {
        let found = listing(&header.fields);
        let problem = format!("`{flag} {name}`: no column beside the label {label_name:?} is called so; found {found}");
        return Err(DataError::contents(file, problem));
    }
    let summaries = csv::summarise(file, header, place, is_identifier)?;
    if summaries.iter().all(Summary::is_empty) {
        let problem = "it has a header and no rows; at least one is needed";
        return Err(DataError::contents(file, problem));
    }
    let of_label = &summaries[place];
    let label = label_of(file, label_name, of_label, flags.task)?;
    let mut notes = BTreeMap::new();
    let note = "read from the data: which column, which classes, in which order?";
    notes.insert("label".into(), note.into());
    let mut warnings = Vec::new();
    if flags.label.is_none() && header.usual_label().is_none() {
        warnings.push(format!("the label is the last column, {label_name:?}; `label NAME` takes another one"));
    }
    if of_label.missing > 0 {
        let rows = plural(of_label.missing, "row");
        warnings.push(format!(
            "column {label_name:?} holds no label in {rows}: null rows, from which the model learns nothing"
        ));
    }
    if of_label.words == 0 && !of_label.has_fractions && flags.task.is_none() {
        let classes = if let Label::Classes(classes) = &label { Some(classes.len()) } else { None };
        warnings.extend(doubtful_integers(&format!("the label column {label_name:?}"), classes));
    }
    let mut unit = flags.unit.as_ref();
    let repeated = repeated_ids(&header.fields, &summaries).filter(|_| unit.is_none());
    if let Some((name, ids, rows)) = repeated {
        if proposes_unit {
            let note = format!("{ids} different values in {rows} rows: is this whom to protect? else drop it");
            notes.insert("unit".into(), note);
            unit = Some(name);
        } else {
            warnings.push(format!(
                "column {name:?} holds {ids} different ids in {rows} rows, and each row is protected by itself: \
                 `unit {name}` protects all rows of one id together, `drop {name}` leaves it out"
            ));
        }
    }
    let (mut columns, mut dropped, mut unusable) = (Vec::new(), flags.drop.clone(), Vec::new());
    dropped.retain(|name| Some(name) != unit);
    for (name, of) in header.fields.iter().zip(&summaries) {
        if name == label_name || Some(name) == unit || flags.drop.contains(name) {
            continue;
        }
        match kind_of(of) {
            Some(Ok(kind)) => {
                let (note, warning) = said_of(name, of, &kind);
                notes.insert(name.clone(), note);
                // What to do with a unit is said.
                warnings.extend(warning.filter(|_| repeated.is_none_or(|(unit, ..)| name != unit)));
                let name = name.clone();
                columns.push(Column { name, kind });
            }
            Some(Err(problem)) => unusable.push((name.clone(), problem)),
            None => {
                warnings.push(format!("column {name:?} is empty and left out"));
                dropped.push(name.clone());
            }
        }
    }
    let mut domain = Domain::new(Columns::Named(columns), Storage::Dense, label, source);
    domain.label_column = Some(label_name.clone());
    domain.dropped = dropped;
    domain.unit = unit.map(|column| UnitDeclaration {
        column: Some(column.clone()),
        reduction: Reduction::Mean,
        most_rows: None,
    });
    Ok(Draft { domain, notes, warnings, unusable })
}

/// The first word of a column, for messages.
fn example(of: &Summary) -> String {
    let word = String::from_utf8_lossy(of.word.as_deref().unwrap_or_default()).into_owned();
    format!("{:?}", word.chars().take(40).collect::<String>())
}

/// The label in a column with these fields.
fn label_of(file: &Path, name: &str, of: &Summary, task: Option<Task>) -> Result<Label, DataError> {
    let values = of.distinct.as_ref().map(|_| of.values());
    let decided = match values.as_deref() {
        Some([]) => Err("is empty, and there is nothing to learn".to_owned()),
        Some([only]) => Err(format!("holds nothing but {only}, and there is nothing to learn")),
        _ => classes((of.words > 0).then(|| example(of)), of.has_fractions, values, task)
            .map_err(|problem| format!("holds {problem}")),
    };
    match decided {
        Ok(Some(classes)) => Ok(Label::Classes(classes)),
        Ok(None) => Ok(Label::Number(rounded_out(of.lo, of.hi))),
        Err(problem) => {
            let problem = format!("its label column {name:?} {problem}; `label NAME` takes another one");
            Err(DataError::contents(file, problem))
        }
    }
}

/// Integers that differ in more values may be classes or numbers.
const DOUBTFUL_CLASSES: usize = 20;

/// The warning that a label of integers was taken for this many classes, or for a number; none for few classes.
pub(super) fn doubtful_integers(name: &str, classes: Option<usize>) -> Option<String> {
    match classes {
        Some(classes) if classes <= DOUBTFUL_CLASSES => None,
        Some(classes) => Some(format!(
            "{name} holds {classes} different integers, which are taken as classes; `task regression` takes them as numbers, \
             `task classification` confirms it"
        )),
        None => Some(format!(
            "{name} holds integers, which are taken as numbers; `task classification` takes them as classes, \
             `task regression` confirms it"
        )),
    }
}

/// The kind of a feature column with these fields, or the reason for which it is none; `None` for one without fields.
///
/// A column of numbers may hold a few words, which then are missing values; these take the mean. A category with missing values
/// has a value of its own for them.
fn kind_of(of: &Summary) -> Option<Result<ColumnKind, String>> {
    let is_number = of.words == 0 || (of.distinct.is_none() && of.numbers > 9 * of.words);
    Some(if of.numbers > 0 && is_number {
        let is_missing = of.missing + of.words > 0;
        Ok(ColumnKind::Number { bounds: rounded_out(of.lo, of.hi), missing: is_missing.then(|| rounded(of.mean())) })
    } else if of.words > 0 && of.dates == of.words && of.numbers == 0 {
        Err(format!("it holds dates such as {}", example(of)))
    } else if of.distinct.is_none() {
        Err(format!("it holds more than {MOST_WORDS} different words, such as {}", example(of)))
    } else if of.words > 0 {
        let mut values = of.values();
        let is_missing = of.missing > 0;
        values.extend(is_missing.then(String::new));
        let other = if is_missing { Other::Value(values.len() - 1) } else { Other::NullRow };
        Ok(ColumnKind::Category { values, other })
    } else {
        return None;
    })
}

/// The column that most likely tells people apart by ids of which some stand in several rows, the number of its different ids, and that of the
/// rows with one: one that is called so, or another identifier of many values.
fn repeated_ids<'n>(names: &'n [String], summaries: &[Summary]) -> Option<(&'n String, usize, usize)> {
    let found = names.iter().zip(summaries).filter_map(|(name, of)| {
        let (different, rows) = of.ids.as_ref()?;
        // Two values of `member` are an answer, of `member_id` two people.
        let may_be_answer = is_people(&name.to_ascii_lowercase());
        let least = if is_person(name) { 2 + usize::from(may_be_answer) } else { MOST_WORDS + 1 };
        (least..*rows).contains(&different.len()).then_some((name, different.len(), *rows))
    });
    // Of equals the first one.
    found.min_by_key(|(name, ..)| !is_person(name))
}

/// Names of those whom a claim protects.
const PEOPLE: &str = "account borrower client customer driver employee household member participant patient person student \
                      subject user visitor";

fn is_people(name: &str) -> bool {
    PEOPLE.split(' ').any(|people| people == name)
}

/// The name of a column is that of people, or of their ids.
fn is_person(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_people(lower.trim_end_matches("id").trim_end_matches(['_', '-', ' ']))
}

/// The name of a column is that of an identifier.
fn is_identifier(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let suffixes = ["_id", "-id", " id", "_key"];
    matches!(lower.as_str(), "" | "id" | "index" | "key" | "uuid")
        || is_person(name)
        || lower.starts_with("unnamed: ")
        || suffixes.iter().any(|suffix| lower.ends_with(suffix))
        || name.ends_with("Id")
        || name.ends_with("ID")
}

/// The note on a feature column, and the warning if there is one.
fn said_of(name: &str, of: &Summary, kind: &ColumnKind) -> (String, Option<String>) {
    let ColumnKind::Number { missing, .. } = kind else {
        let missing = if of.missing > 0 { "; \"\" stands for missing ones" } else { "" };
        return (format!("values read from the data{missing}"), None);
    };
    let many = of.distinct.is_none() && !of.has_fractions && of.words == 0;
    let counts = matches!(of.counting, Some(Some(_)));
    if many && (counts || is_identifier(name)) {
        let found = if counts { "counts the rows" } else { "holds integers" };
        let warning = format!("column {name:?} {found} and looks like an identifier; leave it out by `drop {name:?}`");
        return (format!("{found}: an identifier? then only name it in [rows]: drop = [{name:?}]"), Some(warning));
    }
    let mean = if missing.is_some() { " and mean (for missing ones)" } else { "" };
    let warning = (of.words > 0).then(|| {
        let (words, word) = (of.words, example(of));
        format!("column {name:?} holds {words} words such as {word} among its numbers; they are taken as missing")
    });
    (format!("bounds{mean} read from the data"), warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_out_to_a_digit() {
        for (lo, hi, expected) in [
            (17.0, 90.0, [10.0, 90.0]),
            (-3.2, 0.7, [-4.0, 1.0]),
            (0.182, 0.301, [0.1, 0.4]),
            (5.0, 5.0, [5.0, 6.0]),
            (0.0, 0.0, [0.0, 1.0]),
            (-1.0, 1.0, [-1.0, 1.0]),
            (f64::INFINITY, f64::NEG_INFINITY, [0.0, 1.0]),
        ] {
            let bounds = rounded_out(lo, hi);
            assert_eq!([bounds.lo(), bounds.hi()], expected, "{lo} {hi}");
        }
    }
}

//! Drafts of schemas, read from the data, for a person to check. A draft covers no claim, so every row may enter it, and errors
//! name the line.

use std::collections::BTreeMap;
use std::path::Path;

use rounds_algorithms::problem::{
    Bounds, Column, ColumnKind, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Other, SparseMatrix,
    Storage,
};

use super::error::DataError;
use super::formats;
use super::formats::csv::{self, FirstLine, MOST_WORDS};
use super::load::load_declared;
use super::schema;

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

/// The text of a schema for a file or folder.
///
/// # Errors
/// Data that cannot be read; of a text, the first line that is none of its format.
pub fn draft(path: &Path) -> Result<String, DataError> {
    let mut notes = BTreeMap::new();
    let table = formats::table(path).map(|file| FirstLine::read(&file).map(|header| (file, header)));
    let source = DomainSource::Draft(path.display().to_string());
    let domain = match table.transpose()? {
        Some((file, header)) if header.has_only_words() => of_table(source, &file, &header, &mut notes)?,
        _ => {
            notes.insert("columns".into(), "bounds of every column, read from the data".into());
            notes.insert("label".into(), "read from the data".into());
            let data = load_declared(&path.to_string_lossy(), None, None)?;
            of_matrix(source, &data.train)
        }
    };
    Ok(schema::write(&domain, &notes))
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
        Labels::Classes { classes, names, .. } => {
            let numbered = || (0..*classes).map(|class| class.to_string()).collect();
            Label::Classes(names.clone().unwrap_or_else(numbered))
        }
        Labels::Values(values) => Label::Number(range(values, nothing)),
    };
    let count = data.columns();
    Domain::new(Columns::Matrix { count, bounds }, storage, label, source)
}

fn of_table(
    source: DomainSource,
    file: &Path,
    header: &FirstLine,
    notes: &mut BTreeMap<String, String>,
) -> Result<Domain, DataError> {
    let summaries = csv::summarise(file, header)?;
    let label_place = header.label();
    let (mut columns, mut dropped) = (Vec::new(), Vec::new());
    let mut label = Label::Number(rounded_out(0.0, 1.0));
    for (place, (name, of)) in header.fields.iter().zip(summaries).enumerate() {
        if place == label_place {
            label = match of.values() {
                values if values.len() >= 2 => Label::Classes(values),
                _ => Label::Number(rounded_out(of.lo, of.hi)),
            };
            notes.insert(
                "label".into(),
                "read from the data: which column, which classes, in which order?".into(),
            );
            continue;
        }
        let empty = if of.empty > 0 {
            "; empty fields make null rows, or declare missing"
        } else {
            ""
        };
        let (note, kind);
        if of.words == 0 && of.lo <= of.hi {
            let counts = of.distinct.is_none() && matches!(of.counting, Some(Some(_)));
            note = if counts {
                "counts the rows: an identifier? then drop it".to_owned()
            } else {
                format!("bounds read from the data{empty}")
            };
            let (bounds, missing) = (rounded_out(of.lo, of.hi), None);
            kind = ColumnKind::Number { bounds, missing };
        } else if of.distinct.as_ref().is_some_and(|distinct| !distinct.is_empty()) {
            note = "values read from the data".to_owned();
            let (values, other) = (of.values(), Other::NullRow);
            kind = ColumnKind::Category { values, other };
        } else {
            dropped.push(name.clone());
            continue;
        }
        notes.insert(name.clone(), note);
        let name = name.clone();
        columns.push(Column { name, kind });
    }
    let note = format!("empty, or more than {MOST_WORDS} different words: identifiers or text");
    notes.insert("drop".into(), note);
    let mut domain = Domain::new(Columns::Named(columns), Storage::Dense, label, source);
    domain.label_column = Some(header.fields[label_place].clone());
    domain.dropped = dropped;
    Ok(domain)
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

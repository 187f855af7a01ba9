//! One file of rows for a model, with labels or without.

use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::problem::{Columns, Domain, Format};

use super::csv::FirstLine;
use super::npy::{Archive, Roles};
use super::{Declared, format_of, libsvm, no_roles, read_as};
use crate::data::error::{DataError, listing};
use crate::data::request::{LabelUse, Request};
use crate::data::table::Table;

/// Reads a file, of an archive the test rows, if it has any; and whether these are test rows. Columns of a table are matched by
/// name, in any order; columns that the domain drops need not be there.
///
/// # Errors
/// Files that cannot be read, and tables with columns that the model does not know or without some that it reads, by name.
pub(in crate::data) fn read(path: &Path, request: Request<'_>) -> Result<(Table, bool), DataError> {
    // A model reads rows in any format.
    let declared = request.domain.map(|domain| Declared { format: None, ..Declared::of(domain) });
    let format = format_of(path, declared)?;
    if format == Format::Npz {
        return archive(path, request.labels);
    }
    let is_table = matches!(format, Format::Csv | Format::Parquet);
    let matched = match request.domain {
        Some(domain) if is_table => Some(matched(path, domain, request.labels)?),
        domain => domain.cloned(),
    };
    let matched = Request { domain: matched.as_ref(), ..request };
    let table = read_as(format, path, matched, libsvm::Shape::new(matched))?;
    // Where a text's labels are ignored, its reader has done so.
    let table = match request.labels {
        LabelUse::Needed => table,
        LabelUse::Ignored if is_table => table,
        LabelUse::Ignored => table.unlabelled(),
    };
    Ok((table, false))
}

/// The domain for a table: without the dropped columns that the file does not have.
fn matched(path: &Path, domain: &Arc<Domain>, labels: LabelUse) -> Result<Arc<Domain>, DataError> {
    let header = FirstLine::read(path)?.fields;
    let label = domain.label_column.as_ref();
    let unit = domain.unit.as_ref().and_then(|unit| unit.column.as_ref());
    let is_beside = |name: &String| Some(name) == label || Some(name) == unit || domain.dropped.contains(name);
    let columns = match &domain.columns {
        Columns::Named(columns) => columns,
        &Columns::Matrix { count, .. } => {
            let unnamed = header.iter().filter(|name| !is_beside(name)).count();
            // Without a header the label is one of the fields.
            if unnamed == count || (label.is_none() && unnamed == count + 1) {
                return Ok(Arc::clone(domain));
            }
            let problem = format!("it has {unnamed} columns, and the model reads {count}, beside the label");
            return Err(DataError::columns(path, problem));
        }
    };
    let names = || columns.iter().map(|column| &column.name);
    let needed = names().chain(label.filter(|_| labels == LabelUse::Needed));
    let missing: Vec<&String> = needed.filter(|name| !header.contains(name)).collect();
    let known = |name: &String| is_beside(name) || names().any(|of| of == name);
    let unknown: Vec<&String> = header.iter().filter(|name| !known(name)).collect();
    let parts = [("it lacks columns of the model", missing), ("it has columns that the model does not know", unknown)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let problems: Vec<String> = parts.map(|(what, names)| format!("{what}: {}", listing(names))).collect();
    if !problems.is_empty() {
        let problem = format!(
            "{}; give the columns that the model was trained on, by their names in the header, in any order",
            problems.join("; ")
        );
        return Err(DataError::columns(path, problem));
    }
    let mut matched = Domain::clone(domain);
    matched.dropped.retain(|name| header.contains(name));
    Ok(Arc::new(matched))
}

fn archive(path: &Path, labels: LabelUse) -> Result<(Table, bool), DataError> {
    let mut archive = Archive::open(path)?;
    let Some((features, labels, is_test)) = Roles::of_model(&archive.names, labels) else {
        return Err(no_roles(path, &archive.names));
    };
    Ok((archive.table(&features, labels.as_deref())?, is_test))
}

//! One file of rows for a model, with labels or without.

use std::path::Path;

use rounds_algorithms::problem::Format;

use super::npy::{Archive, Roles};
use super::{Declared, format_of, libsvm, no_roles, read_as};
use crate::data::error::DataError;
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
    let request = Request { is_for_model: true, ..request };
    let table = read_as(format, path, request, libsvm::Shape::new(request))?;
    // Where a text's labels are ignored, its reader has done so.
    Ok(match request.labels {
        LabelUse::Ignored if !matches!(format, Format::Csv | Format::Parquet) => (table.unlabelled(), false),
        _ => (table, false),
    })
}

fn archive(path: &Path, labels: LabelUse) -> Result<(Table, bool), DataError> {
    let mut archive = Archive::open(path)?;
    let Some((features, labels, is_test)) = Roles::of_model(&archive.names, labels) else {
        return Err(no_roles(path, &archive.names));
    };
    Ok((archive.table(&features, labels.as_deref())?, is_test))
}

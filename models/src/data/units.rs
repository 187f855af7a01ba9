//! The units of training rows: the ids in a column of a table, in an array of an archive, or in a file with one id a row.

use std::path::{Path, PathBuf};

use rounds_algorithms::problem::{Dataset, Format, UnitDeclaration, UnitIds};

use super::error::DataError;
use super::formats::{named_format, npy, packed_or_not};
use super::request::Request;
use super::source::{Source, unpacked_name};
use super::table::{Table, check_counts};

/// The array of an archive with the unit of each row.
pub(super) const ARRAY: &str = "units";

/// The ids of rows, in their order, one behind the other.
#[derive(Default)]
pub(super) struct Ids {
    text: String,
    ends: Vec<usize>,
}

impl Ids {
    /// Takes the id of the next row.
    pub(super) fn take(&mut self, id: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(id));
        self.ends.push(self.text.len());
    }

    /// Takes the ids of the rows behind these.
    pub(super) fn append(&mut self, later: &Self) {
        let end = self.text.len();
        self.text.push_str(&later.text);
        self.ends.extend(later.ends.iter().map(|own| end + own));
    }

    /// The unit of each row.
    pub(super) fn units(&self) -> UnitIds {
        let mut start = 0;
        UnitIds::of_values(self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]))
    }
}

/// The file of ids beside the rows at `path`: `DATA.units` beside a file, `units.txt` or `units.npy` in a folder.
pub(super) fn beside(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return packed_or_not(path, "units.txt").or_else(|| packed_or_not(path, "units.npy"));
    }
    packed_or_not(path.parent()?, &format!("{}.{ARRAY}", unpacked_name(path)))
}

/// Reads a file of ids: an NPY array of integers or words, or text with one id a line.
fn read(path: &Path) -> Result<Ids, DataError> {
    let mut source = Source::open(path)?;
    if named_format(path) == Some(Format::Npy) {
        return npy::read_ids(&mut source);
    }
    let (mut text, mut ids) = (Vec::new(), Ids::default());
    source.read_up_to(usize::MAX, &mut text)?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let lines = text.strip_suffix(b"\n").unwrap_or(text);
    lines.split(|&byte| byte == b'\n').for_each(|line| ids.take(line.trim_ascii()));
    Ok(ids)
}

/// The unit of each row of `table`, which its reader found or a file has.
pub(super) fn of_table(
    table: &mut Table,
    declared: &UnitDeclaration,
    request: Request<'_>,
) -> Result<UnitIds, DataError> {
    let file = match (table.units.take(), &declared.column, request.unit_ids) {
        (Some(ids), ..) => return Ok(ids),
        (None, None, Some(file)) => file,
        (None, Some(_), _) => {
            let problem = "`unit`: its columns have no names; give a file with the unit of each row: `unit-ids FILE`, \
                           and unit = true in its schema";
            return Err(DataError::file(&table.path, problem));
        }
        (None, None, None) => {
            let expected = "a file with the unit of each row: `unit-ids FILE`, DATA.units beside the data, units.txt or \
                            units.npy in its folder, or the array units of an archive";
            return Err(DataError::missing(&table.path, expected));
        }
    };
    let ids = read(file)?.units();
    check_counts(&table.path, table.features.len(), file, ids.of_rows.len(), "unit id")?;
    Ok(ids)
}

/// What a person should know of the units of rows, in a run that claims nothing: it reads the rows.
pub fn unit_doubts(data: &Dataset) -> Vec<String> {
    let Some(units) = data.units() else { return Vec::new() };
    let (without_id, count) = (units.without_id(), units.count());
    let left_out = (without_id > 0)
        .then(|| format!("{without_id} rows have no id of a unit and are left out: nobody can say whose they are"));
    let single = (count == data.len()).then(|| {
        format!("{count} units have {count} rows, one each: this protects single rows, as a run without `unit` does")
    });
    left_out.into_iter().chain(single).collect()
}

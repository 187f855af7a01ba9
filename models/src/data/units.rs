//! The units of training rows: the ids in a column of a table, in an array of an archive, or in a file with one id a row.

use std::path::{Path, PathBuf};

use rounds_algorithms::problem::{Dataset, Features, Format, UnitDeclaration, UnitIds};

use super::error::DataError;
use super::formats::npy;
use super::ids::{ARRAY, Ids};
use super::request::Request;
use super::source::{Source, named_format, packed_or_not, unpacked_name};
use super::table::{Reading, Table, TrainTest, check_counts};

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

impl TrainTest {
    /// The data sets of training and test rows, the former by unit if that is asked for.
    pub(super) fn of(
        name: &str,
        mut train: Table,
        mut test: Option<Table>,
        request: Request<'_>,
    ) -> Result<Self, DataError> {
        if let Some(test) = &mut test
            && let (Features::Sparse(a), Features::Sparse(b)) = (&mut train.features, &mut test.features)
        {
            // Columns of sparse files are as many as the larger one of the largest indices.
            a.columns = a.columns.max(b.columns);
            b.columns = a.columns;
        }
        let reading = Reading::of(request, train.features.columns(), &train.labels_path, &train.labels)?;
        let units = request.unit.map(|unit| of_table(&mut train, unit, request)).transpose()?;
        let path = train.path.clone();
        let mut train = reading.dataset(name, train)?;
        if let (Some(ids), Some(unit)) = (units, request.unit) {
            let by_unit = train.by_unit(&ids, unit.clone());
            train = by_unit.map_err(|error| DataError::no_dataset(&path, &error))?;
        }
        Ok(Self { train, test: test.map(|test| reading.dataset(name, test)).transpose()? })
    }
}

/// The unit of each row of `table`, which its reader found or a file has.
fn of_table(table: &mut Table, declared: &UnitDeclaration, request: Request<'_>) -> Result<UnitIds, DataError> {
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

//! The ids of rows' units.

use rounds_algorithms::problem::{UnitDeclaration, UnitIds};
use rounds_kernels::linear::Reduction;

/// The unit of a file of ids that is given by a flag.
pub(crate) static UNIT_OF_FILE: UnitDeclaration =
    UnitDeclaration { column: None, reduction: Reduction::Mean, most_rows: None };

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

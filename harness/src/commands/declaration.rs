//! Flags that declare the columns, the label and the bounds of data.

use std::path::PathBuf;

use rounds_models::data::{ColumnUse, Declaration, Task};

/// The use of a table's columns.
#[derive(clap::Args)]
pub(super) struct ColumnArguments {
    /// Label column by its name in the header [default: label, class, target or y, else the last one]
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Columns to leave out, separated by commas
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    drop: Vec<String>,
    /// Meaning of the label: classification or regression [default: classes for words and for up to 256 different integers, else numbers]
    #[arg(long, value_name = "TASK")]
    task: Option<Task>,
    /// Column whose values tell units of privacy apart, such as people: all rows of one are protected together, as by a
    /// schema with unit = "NAME", which a release needs
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
}

impl ColumnArguments {
    pub(super) fn flags(&self) -> ColumnUse {
        ColumnUse { label: self.label.clone(), drop: self.drop.clone(), task: self.task, unit: self.unit.clone() }
    }
}

/// Declarations that override a schema.
#[derive(clap::Args)]
pub(super) struct DeclarationArguments {
    /// Schema of the data: columns, label, relation (TOML) [default: schema.toml beside the data, or the built-in one]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArguments,
    /// Class names in order, separated by commas
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    classes: Option<Vec<String>>,
    /// Public bounds of the values: LO,HI for all columns, or NAME=LO:HI,… by column (the label's name makes it a number); or
    /// private:EPSILON, which reads them off the rows privately, at an EPSILON of its own beside --epsilon
    #[arg(long, value_name = "BOUNDS", allow_hyphen_values = true)]
    bounds: Option<String>,
    /// Number of columns, for files without a header (LIBSVM: of a run that claims nothing, too)
    #[arg(long, value_name = "D")]
    dimension: Option<usize>,
    /// Public number of rows, or units, N for add-remove, chosen without looking at the rows
    #[arg(long, value_name = "N")]
    public_rows: Option<usize>,
    /// File with the unit of each training row: text, one id a line, or NPY [default: DATA.units, or units.txt in a folder, where the
    /// schema says unit = true]
    #[arg(long, value_name = "FILE", conflicts_with = "unit")]
    unit_ids: Option<PathBuf>,
}

impl DeclarationArguments {
    pub(super) fn declaration(&self) -> Declaration {
        Declaration {
            schema: self.schema.clone(),
            columns: self.columns.flags(),
            classes: self.classes.clone(),
            bounds: self.bounds.clone(),
            dimension: self.dimension,
            public_rows: self.public_rows,
            unit_ids: self.unit_ids.clone(),
            relation: None,
        }
    }
}

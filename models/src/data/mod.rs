//! Data from files: readers of the usual formats, folders in their known layouts, and named data sets.
//!
//! Every reader sizes a file before it reads it, checks it against its header, reserves no memory that the file's size does not
//! justify, and fails with one message that names the place and the way out. The result is a checked
//! [`Dataset`](rounds_algorithms::problem::Dataset), in a declared domain if there is one: then no row can fail once the syntax
//! is right. Nothing here knows of mechanisms or training.

mod array;
mod capacity;
mod declaration;
mod doubts;
pub mod draft;
mod error;
mod formats;
mod ids;
mod labels;
mod lines;
mod load;
mod model_rows;
mod names;
mod number;
pub mod part;
mod request;
pub mod schema;
mod source;
mod table;
mod units;

pub use declaration::{Declaration, declare, drafted, schema_beside};
pub(crate) use declaration::{bound_privately, check_private_bounds};
pub use doubts::doubts;
#[cfg(test)]
pub(crate) use error::tests::{PLANTED, planted};
pub use error::{DataError, Explained, listing};
pub use formats::test_file;
pub(crate) use ids::UNIT_OF_FILE;
pub use labels::Task;
pub(crate) use load::{files_of, promised_rows};
pub use load::{load, load_declared, load_requested};
pub(crate) use model_rows::rows as rows_for_model;
pub use model_rows::{ModelRows, load_for_model};
pub(crate) use names::deals_users;
pub use names::{NAMES, Name, built_in, is_generated};
pub(crate) use part::UNITS_OVER_RANKS;
pub use request::{ColumnUse, LabelUse, Request, Split};
pub use schema::SchemaError;
pub use table::TrainTest;
pub use units::unit_doubts;

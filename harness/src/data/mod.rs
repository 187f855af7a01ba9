//! Data from files: readers of the usual formats, folders in their known layouts, and the names under which data sets
//! are asked for.
//!
//! Every reader sizes a file before it reads it, checks it against what its header promises, reserves no memory that the
//! file's size does not justify, and fails with one message that names the place and the way out. What comes out is a
//! checked [`Dataset`], in a declared domain if there is one: then no row can fail once the syntax is right. Nothing here
//! knows of mechanisms or training.

pub mod cifar;
pub mod csv;
pub mod draft;
pub mod error;
pub mod folder;
pub mod idx;
pub mod labels;
pub mod libsvm;
pub mod lines;
pub mod npy;
pub mod number;
pub mod part;
pub mod room;
pub mod schema;
pub mod source;

pub use error::DataError;
pub use folder::{
    LoadOptions, NAMES, Name, Preparation, TrainTest, built_in, is_generated, load, load_declared, load_with, optimum,
};
pub use schema::{Declaration, SchemaError, declare};

//! Private models from tables: the declared domain of a table, its readers, models as files, checkpoints.
//!
//! Between the algorithms and the command. No command line, terminal, topology or plots.

pub mod build;
pub mod checkpoint;
pub mod choices;
pub mod data;
pub mod evaluation;
pub mod factorization_cache;
pub mod factorization_file;
pub mod files;
pub mod model_file;
pub mod text;

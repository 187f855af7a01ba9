//! How rounds measures: data files, the clock, the machine, results, reports and the command line.
//!
//! The only crate with a clock, files, hwlocality, clap and plots; algorithms and kernels know nothing of it.

// Tests of the crate share builders with those of its interface.
#[cfg(test)]
extern crate self as rounds;

pub mod builds;
mod checkpoint;
pub mod cluster;
pub mod commands;
pub mod compare;
pub mod data;
mod evaluation;
pub mod experiment;
mod factorization_cache;
mod factorization_file;
mod files;
mod format;
mod grouping;
mod kernel_rates;
pub mod launcher;
pub mod machine;
mod measure;
mod model_file;
pub mod output;
pub mod report;
pub mod results;
mod settings;
pub mod statistics;
pub mod studies;
pub mod usage;

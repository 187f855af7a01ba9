//! How rounds measures: data files, the clock, the machine, results, reports and the command line.
//!
//! The only crate with a clock, files, hwlocality, clap and plots; algorithms and kernels know nothing of it.

// Tests of the crate share builders with those of its interface.
#[cfg(test)]
extern crate self as rounds;

pub mod builds;
pub mod calibration;
pub mod checkpoint;
pub mod cluster;
pub mod commands;
pub mod compare;
pub mod data;
pub mod evaluation;
pub mod experiment;
pub mod factorization_cache;
pub mod factorization_file;
pub mod files;
pub mod format;
mod grouping;
pub mod kernel_rates;
pub mod launcher;
pub mod machine;
pub mod measure;
pub mod model_file;
pub mod output;
pub mod prediction;
pub mod report;
pub mod results;
pub mod settings;
pub mod statistics;
pub mod studies;
pub mod usage;

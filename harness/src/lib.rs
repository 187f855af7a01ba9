//! How rounds measures: data files, the clock, the machine, results, reports and the command line.
//!
//! The only crate with a clock, files, hwlocality, clap and plots; algorithms and kernels know nothing of it.

// Tests of the crate share builders with those of its interface.
#[cfg(test)]
extern crate self as rounds;

mod analysis;
pub mod builds;
pub mod cluster;
pub mod commands;
pub mod compare;
pub mod drawing;
mod estimates;
pub mod experiment;
mod format;
mod grouping;
pub mod launcher;
mod lines;
pub mod machine;
mod measure;
pub mod output;
pub mod report;
pub mod results;
pub mod statistics;
pub mod studies;
mod thread_scaling;
pub mod usage;

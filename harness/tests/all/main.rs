//! The harness through its public interface: one binary, so that it is linked once. The tests of MPI, whose binary
//! ranks start anew, and those that measure the memory of their process are binaries of their own.

mod bad_input;
mod cell;
mod compare;
mod data;
mod domain;
mod files;
mod floor_plan;
mod model;
mod model_hashes;
mod neighbours;
mod release;
mod report;
mod results;
mod support;
mod synthetic;
mod tables;
mod without_mpi;

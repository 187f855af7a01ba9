//! The harness through its public interface: one binary, so that it is linked once. The tests of MPI and of peak memory are
//! binaries of their own.

#[allow(dead_code, reason = "the tests of reports need whole plans of cells")]
#[path = "../synthetic/mod.rs"]
mod synthetic;

mod bad_input;
mod floor_plan;
mod neighbours;
mod release;
mod support;
mod without_mpi;

//! The harness through its public interface: one binary, so that it is linked once. The tests of MPI are a binary of
//! their own.

mod bad_input;
mod black_box;
mod cell;
mod compare;
#[path = "../../../models/tests/all/declared.rs"]
mod declared;
#[expect(dead_code, reason = "a part of the builders is for other test binaries")]
#[path = "../../../models/tests/all/files.rs"]
mod files;
mod floor_plan;
#[path = "../../../models/tests/all/forms.rs"]
mod forms;
mod instruction_sets;
mod killed;
mod ledger;
mod model;
mod model_hashes;
mod neighbours;
mod release;
mod report;
mod results;
mod support;
mod synthetic;
mod tables;
mod verdicts;
mod without_mpi;

//! The crate through its public interface: one binary, so that it is linked once. The tests that count allocations are binaries of
//! their own.

mod data;
mod declared;
mod domain;
mod features;
mod files;
mod fit;
mod forms;
mod ledger;
mod neighbours;
mod statement;
mod units;

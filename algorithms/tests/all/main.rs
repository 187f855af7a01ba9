//! Tests of the crate through its public interface, in one binary.

mod accelerated;
mod audit;
mod catalog;
mod networks;
mod ranks;
mod recursive;
mod rounds;
mod runs;
mod units;

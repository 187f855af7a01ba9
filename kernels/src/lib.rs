//! Kernels of private convex optimisation: one core, one block of memory.
//!
//! Pure functions on slices and small plain structs: the fused gradient kernels of linear models ([`linear`]), their
//! losses ([`loss`]) and row formats ([`features`]), the memory of rows ([`memory`]), addressed noise streams
//! ([`random`]), vector operations ([`vector`]), the matrix product ([`gemm`]), the instruction sets
//! ([`instructions`]), loops that reach the machine's limits ([`limits`]) and the meeting place of threads that other code starts ([`team`]).
//! No thread is started here; no clock that decides a result, no file, no privacy policy and no seed of its own may live
//! here.

#![allow(
    clippy::too_many_lines,
    clippy::too_many_arguments,
    reason = "a kernel's loop body is one function, so that its values stay in registers"
)]

pub mod arithmetic;
pub mod features;
pub mod gemm;
pub mod instructions;
pub mod limits;
pub mod linear;
pub mod loss;
pub mod memory;
pub mod network;
pub mod random;
pub mod scattering;
pub mod team;
pub mod vector;

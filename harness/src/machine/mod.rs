//! The machine of a measurement: topology, instruction set, state, measured limits, and the build. Every result is stored
//! with them. Facts that the system does not give are `Known::UNKNOWN`, never guessed.

mod build;
mod disturbance;
mod environment;
mod instructions;
mod known;
mod peak;
mod pinning;
mod state;
mod topology;
mod watch;

pub use build::Build;
pub use disturbance::{Disturbance, disturbances, measured_disturbances};
pub use environment::{Environment, Machine};
pub use instructions::{ProcessorError, check_processor, instruction_set, vector_extension};
pub use known::Known;
pub use peak::{Arithmetic, CacheBandwidth, IntegerPeak, Limit, Roofline, measure_roofline, measure_rooflines};
pub use pinning::{PinPolicy, Pinning, PinningError, Place};
pub use state::ProcessorState;
pub use topology::{Cache, NumaNode, Topology};
pub use watch::{Interference, Watch};

//! The machine of a measurement: topology, instruction set, state, measured limits, and the build. Every result is stored
//! with them. Facts that the system does not give are `Known(None)`, never guessed.

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

pub(crate) use build::build;
pub(crate) use disturbance::{disturbances, measured_disturbances};
pub use environment::Environment;
pub(crate) use environment::Machine;
pub use instructions::check_processor;
pub(crate) use instructions::instruction_set;
pub(crate) use known::Known;
pub use peak::Roofline;
pub(crate) use peak::{Limit, measure_rooflines};
pub use pinning::PinPolicy;
pub(crate) use pinning::{Pinning, Place};
pub(crate) use state::ProcessorState;
pub(crate) use topology::Topology;
pub(crate) use watch::{Interference, Watch};

//! The names that most programs need: `use rounds_algorithms::prelude::*`.

pub use std::ops::ControlFlow;

pub use rounds_kernels::features::Norm;
pub use rounds_kernels::linear::Clip;
pub use rounds_kernels::loss::Loss;
pub use rounds_kernels::random::StreamKey;

pub use crate::catalog::{self, ALGORITHMS};
pub use crate::executor::{Executor, Observer};
pub use crate::factorization::{
    Factorization, FactorizationRequest, Method, Participation, Workload, WorkloadSpecification,
};
pub use crate::noise::{NoiseError, NoiseKind, NoiseMechanism, PrivateNoise};
pub use crate::optimizers::{Algorithm, Budget, Optimizer, Prepared, RoundError, Settings, StepError};
pub use crate::oracle::{Oracle, Phase, evaluate};
pub use crate::parallel::Engine;
pub use crate::privacy::{
    Accountant, Adjacency, Mechanism, NoiseSource, PrivacyStatement, PrivateRun, Sampling, calibrate,
};
pub use crate::problem::{
    Bounds, Column, ColumnKind, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Problem,
    PublicProblem, Relation, Storage,
};
pub use crate::sampling::Sampler;
pub use crate::state::StateVisitor;

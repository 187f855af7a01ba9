//! Private linear models from tables and arrays, with the statement of what they guarantee.
//!
//! The crate stands between the algorithms, which know matrices, and a face: a command, a service, another language. A face gives
//! settings, threads and an [`Observer`](fit::Observer); it gets a model and an [`Outcome`](fit::Outcome). No command line,
//! terminal, topology or plots are here, and no clock.
//!
//! # Train
//!
//! ```
//! use rounds_models::fit::{Execution, Training, fit};
//!
//! // A named data set that is made without a file; the path of a file or folder does as well.
//! let training = Training::on("synthetic-logistic").private(1.0, 1e-5);
//! let fitted = fit(&training, &Execution::default(), &mut ())?;
//! assert!(fitted.outcome.header.privacy.epsilon.is_some_and(|epsilon| epsilon <= 1.0));
//! # Ok::<(), rounds_models::fit::FitError>(())
//! ```
//!
//! A claim needs a declared domain: columns, bounds and classes that are known without the rows. It is a schema file (`schema.toml`
//! beside the data, or [`Declaration::schema`](data::Declaration)), or the domain that rows in memory carry. [`data::draft`] drafts a
//! schema from rows for a person to check. A table without one is tried all the same, and the run claims nothing.
//!
//! With `training.privacy.secure` a run is a release: noise and sampling come from a key of the operating system. What a release
//! must not do is refused here, whatever the face: a drafted domain, guessed columns, training rows as test rows, a place that holds
//! another release, a claim that protects next to nothing. No error of a release shows a row, and its outcome holds nothing that
//! the noise does not cover.
//!
//! # Use
//!
//! Build with `RUSTFLAGS="-C target-cpu=native"`, or `x86-64-v3` for every processor with AVX2: the kernels of floating-point rows are
//! compiled for what Cargo is told, and that is SSE2 without a word. The [`prelude`] has the names of settings.
//!
//! [`Model`](model_file::Model) reads and writes model files, [loads](model_file::Model::load) rows as its training rows were loaded,
//! [predicts](model_file::Model::predict) and [evaluates](model_file::Model::evaluate). [`statement::verify`] computes the
//! statement of a release again, all of it.
//!
//! # Examples
//!
//! `models/examples/`, a file each: `train_on_csv` (a schema, a release that verifies, predictions, accuracy on new rows), `train_on_arrays`, `resume` (a run that
//! stops and goes on) and `own_algorithm_on_csv`.

pub mod build;
mod checkpoint;
pub mod choices;
pub mod data;
pub mod evaluation;
pub mod factorization_cache;
pub mod factorization_file;
pub mod features;
pub mod files;
pub mod fit;
pub mod group;
mod keyed;
pub mod ledger;
pub mod model_file;
pub mod predictions;
pub mod signature;
pub mod statement;
pub mod text;

pub use checkpoint::{CheckpointError, Difference};

/// The names that most programs need, those of settings that other crates define among them: `use rounds_models::prelude::*`.
pub mod prelude {
    pub use rounds_algorithms::noise::NoiseKind;
    pub use rounds_algorithms::optimizers::SamplingKind;
    pub use rounds_algorithms::parallel::Engine;
    pub use rounds_algorithms::privacy::{Accountant, Adjacency, PrivacyStatement};
    pub use rounds_algorithms::problem::{Dataset, Domain, Features, Labels};
    pub use rounds_kernels::features::Norm;
    pub use rounds_kernels::loss::Loss;

    pub use crate::data::LabelUse;
    pub use crate::fit::{Execution, Observer, Outcome, Training, fit};
    pub use crate::model_file::Model;
    pub use crate::statement::verify;
}

//! Optimisers: state machines whose `step` is exactly one adaptive round. One file a variant.
//!
//! An optimiser never touches data, threads or a clock: it asks the [`Oracle`](crate::oracle::Oracle), which counts. What it guarantees it
//! states as data (a [`Mechanism`](crate::privacy::Mechanism)); accountants read that and nothing else.

mod accelerated_methods;
pub mod accelerated_plan;
mod accelerated_srg;
mod algorithm;
mod amplified;
mod cutting_plane;
pub(crate) mod dp_sgd;
mod last_iterate;
mod matrix_factorization;
pub mod momentum;
mod noisy_sums;
mod optimizer;
mod parameter_value;
pub mod parameters;
mod phased_erm;
mod phased_sgd;
mod plan;
mod pooled;
mod randomized_smoothing;
mod resque_parallel;
mod resque_private;
pub mod scene;
mod schedule;
pub mod settings;
pub(crate) mod sgd;
mod srg_matrix_factorization;
mod unaccelerated_srg;

/// All algorithms, in the order in which they are listed. A new one is a file, its `mod` line above and a line here.
pub static ALGORITHMS: &[&Algorithm] = &[
    &sgd::SGD,
    &dp_sgd::DP_SGD,
    &matrix_factorization::DP_FTRL,
    &matrix_factorization::DP_MEMF,
    &srg_matrix_factorization::DP_SRG_MEMF,
    &accelerated_srg::ACCELERATED_DP_SRG,
    &unaccelerated_srg::UNACCELERATED_DP_SRG,
    &accelerated_srg::ACCELERATED_INDEPENDENT,
    &matrix_factorization::PGD,
    &matrix_factorization::ANTI_PGD,
    &matrix_factorization::DP_MF,
    &matrix_factorization::DP_MF_PLUS,
    &phased_sgd::PHASED_SGD,
    &phased_erm::PHASED_ERM,
    &phased_erm::LOCALIZED_ACCELERATED,
    &resque_parallel::RESQUE_EPOCH_SGD,
    &resque_parallel::RESQUE_AC_SA,
    &resque_private::RESQUE_PRIVATE_ERM,
    &resque_private::RESQUE_PRIVATE_SCO,
    &randomized_smoothing::RANDOMIZED_SMOOTHING,
    &cutting_plane::CUTTING_PLANE,
    &accelerated_methods::DP_GD,
    &accelerated_methods::DP_HB,
    &accelerated_methods::DP_NAG,
    &accelerated_methods::DP_NAG_OPT,
    &accelerated_methods::DP_MASG,
    &accelerated_methods::DP_MASG_OPT,
];

pub use algorithm::{Algorithm, Checked, PrepareError, Prepared};
pub use optimizer::{AssumptionWarning, Optimizer, RoundError, StepError};
pub use parameters::Parameter;
pub use scene::Scene;
pub use settings::{Averaging, SamplingKind, Settings, SettingsError};

pub use crate::noise::NoiseKind;
pub use crate::privacy::Budget;

#[cfg(test)]
mod tests {
    use super::Prepared;
    use crate::executor::Executor;
    use crate::oracle::{Ledger, evaluate};
    use crate::parallel::Engine;
    use crate::problem::Problem;

    /// The solution after all rounds, and their counts.
    pub(super) fn run(problem: &Problem, prepared: Prepared) -> (Vec<f32>, Ledger) {
        let mut executor = Executor::new(problem, Engine::default(), prepared);
        executor.run().unwrap();
        (executor.solution().to_vec(), executor.ledger())
    }

    /// The mean loss of a row, without the regulariser.
    pub(super) fn mean_loss(problem: &Problem, x: &[f32]) -> f64 {
        evaluate(problem, &Engine::default(), x).unwrap().loss / problem.rows() as f64
    }
}

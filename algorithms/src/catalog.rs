//! Every algorithm: its name, its paper, what it promises, its own parameters and its constructor. Adding one is one
//! file under `optimizers` and one line here.

use crate::optimizers::{
    Algorithm, NoiseKind, PrepareError, Prepared, Settings, SettingsError, accelerated_srg, cutting_plane,
    gradient_descent, heavy_ball, matrix_factorization, multistage, nesterov, phased_sgd, randomized_smoothing,
    resque_parallel, resque_private, sgd, srg_matrix_factorization, unaccelerated_srg,
};
use crate::privacy::Claim;
use crate::problem::PublicProblem;

/// All algorithms, in the order in which they are listed.
pub static ALGORITHMS: &[&Algorithm] = &[
    &sgd::SGD,
    &sgd::DP_SGD,
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
    &resque_parallel::RESQUE_EPOCH_SGD,
    &resque_parallel::RESQUE_AC_SA,
    &resque_private::RESQUE_PRIVATE_ERM,
    &resque_private::RESQUE_PRIVATE_SCO,
    &randomized_smoothing::RANDOMIZED_SMOOTHING,
    &cutting_plane::CUTTING_PLANE,
    &gradient_descent::DP_GD,
    &heavy_ball::DP_HB,
    &nesterov::DP_NAG,
    &nesterov::DP_NAG_OPT,
    &multistage::DP_MASG,
    &multistage::DP_MASG_OPT,
];

/// Algorithms whose noise covers the rounding of their sums, when these leave f32 every
/// [`RELEASE_BLOCK_ROWS`](crate::optimizers::plan::RELEASE_BLOCK_ROWS) rows: only they may claim a release.
const RELEASED: &[&str] = &[
    "dp-sgd",
    "dp-ftrl",
    "dp-memf",
    "dp-srg-memf",
    "accelerated-dp-srg",
    "unaccelerated-dp-srg",
    "accelerated-independent",
    "pgd",
    "anti-pgd",
    "dp-mf",
    "dp-mf-plus",
    "dp-gd",
    "dp-hb",
    "dp-nag",
    "dp-nag-opt",
    "dp-masg",
    "dp-masg-opt",
];

/// Flags that an algorithm does not read, beside those of [`Algorithm::reads`] that go with privacy.
const UNREAD: &[(&[&str], &[&str])] = &[
    (&["dp-sgd"], &["--noise"]),
    (
        &["accelerated-dp-srg", "unaccelerated-dp-srg", "accelerated-independent"],
        &["--learning-rate", "--momentum"],
    ),
    (&["phased-sgd"], &["--epochs", "--momentum", "--sampling", "--noise"]),
    (
        &["resque-private-erm", "resque-private-sco"],
        &["--learning-rate", "--momentum", "--sampling", "--noise"],
    ),
    (
        &["resque-epoch-sgd", "resque-ac-sa"],
        &[
            "--epochs",
            "--batch-size",
            "--learning-rate",
            "--momentum",
            "--sampling",
        ],
    ),
    (
        &["randomized-smoothing"],
        &["--learning-rate", "--momentum", "--sampling"],
    ),
    (
        &["cutting-plane"],
        &["--epochs", "--learning-rate", "--momentum", "--sampling"],
    ),
];

/// Flags that only private algorithms read.
const OF_PRIVACY: &[&str] = &["--clip-norm", "--adjacency", "--accountant", "--noise"];

/// An algorithm that is not in the catalogue.
#[derive(Debug, thiserror::Error)]
#[error("there is no algorithm '{name}'; did you mean '{nearest}'? `rounds list algorithms` shows all")]
pub struct UnknownAlgorithm {
    /// What was asked for.
    pub name: String,
    /// The closest name.
    pub nearest: &'static str,
}

impl Algorithm {
    /// The optimiser for `problem`, calibrated to the budget of `settings`.
    ///
    /// # Errors
    /// Settings out of range or unknown to the algorithm, guarantees that no theorem covers.
    pub fn prepare(&'static self, problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
        let known: Vec<_> = self.parameters.iter().map(|(key, _)| *key).collect();
        settings.check_parameters(self.id, &known)?;
        let mut prepared = (self.constructor)(problem, settings)?;
        prepared.release = settings.is_release();
        if settings.is_release() && !RELEASED.contains(&self.id) && prepared.privacy.claim == Claim::Release {
            let reason = format!(
                "the rounding of {}'s sums is not covered by its noise: no release is claimed",
                self.id
            );
            prepared.privacy = prepared.privacy.revoked(reason);
        }
        Ok(prepared)
    }
}

impl Algorithm {
    /// Whether it reads the setting behind a flag of the command line, `--batch-size` say.
    pub fn reads(&self, flag: &str) -> bool {
        let of_privacy = !self.private && OF_PRIVACY.contains(&flag);
        let unread = |(ids, flags): &(&[&str], &[&str])| ids.contains(&self.id) && flags.contains(&flag);
        !of_privacy && !UNREAD.iter().any(unread)
    }

    /// Settings that are given and not read: one that a private algorithm's guarantee would be thought to rest on is an
    /// error, any other is named, for a warning.
    ///
    /// # Errors
    /// A clip norm, relation, sampling, accountant or noise that a private algorithm does not read. Independent noise is
    /// what those without a choice add: asking for it is no error.
    pub fn unread(&'static self, settings: &Settings) -> Result<Vec<&'static str>, SettingsError> {
        let noise = settings.noise.filter(|noise| *noise != NoiseKind::Independent);
        let given: [(&'static str, Option<String>); 9] = [
            ("--epochs", settings.epochs.map(|value| value.to_string())),
            ("--batch-size", settings.batch_size.map(|value| value.to_string())),
            ("--learning-rate", settings.learning_rate.map(|value| value.to_string())),
            ("--momentum", settings.momentum.map(|value| value.to_string())),
            ("--clip-norm", settings.clip_norm.map(|value| value.to_string())),
            ("--adjacency", settings.adjacency.map(|value| value.to_string())),
            (
                "--sampling",
                settings.sampling.map(|value| format!("{value:?}").to_lowercase()),
            ),
            ("--accountant", settings.accountant.map(|value| value.to_string())),
            ("--noise", noise.map(|value| format!("{value:?}").to_lowercase())),
        ];
        let mut unread = Vec::new();
        for (flag, value) in given {
            let Some(value) = value.filter(|_| !self.reads(flag)) else {
                continue;
            };
            if self.private && (OF_PRIVACY.contains(&flag) || flag == "--sampling") {
                let reason = if flag == "--noise" {
                    "adds a fresh Gaussian a round and takes no other noise; for correlated noise take dp-ftrl, dp-mf or \
                     dp-memf, for Laplace noise dp-gd"
                } else {
                    "has one of its own and does not read the flag; leave it out"
                };
                return Err(SettingsError::Unsupported {
                    flag,
                    value,
                    algorithm: self.id,
                    reason,
                });
            }
            unread.push(flag);
        }
        Ok(unread)
    }
}

/// The algorithm with this id.
///
/// # Errors
/// An unknown id, with the nearest one.
pub fn find(id: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    ALGORITHMS
        .iter()
        .copied()
        .find(|algorithm| algorithm.id == id)
        .ok_or_else(|| UnknownAlgorithm {
            name: id.to_owned(),
            nearest: ALGORITHMS
                .iter()
                .map(|algorithm| algorithm.id)
                .max_by(|left, right| strsim::jaro_winkler(id, left).total_cmp(&strsim::jaro_winkler(id, right)))
                .unwrap_or("dp-sgd"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_found() {
        for (index, algorithm) in ALGORITHMS.iter().enumerate() {
            assert!(std::ptr::eq(find(algorithm.id).ok().unwrap(), *algorithm));
            assert!(ALGORITHMS[..index].iter().all(|other| other.id != algorithm.id));
        }
    }

    #[test]
    fn an_unknown_id_names_the_nearest() {
        assert_eq!(find("dp-sdg").err().unwrap().nearest, "dp-sgd");
    }
}

//! The list of all algorithms. Adding one is one file under `optimizers` and one line here.

use crate::optimizers::{
    Algorithm, accelerated_srg, cutting_plane, gradient_descent, heavy_ball, matrix_factorization, multistage,
    nesterov, phased_sgd, randomized_smoothing, resque_parallel, resque_private, sgd, srg_matrix_factorization,
    unaccelerated_srg,
};

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

/// An algorithm that is not in the catalogue.
#[derive(Debug, thiserror::Error)]
#[error("there is no algorithm '{name}'; did you mean '{nearest}'? `rounds list algorithms` shows all")]
pub struct UnknownAlgorithm {
    /// The given name.
    pub name: String,
    /// The closest name.
    pub nearest: &'static str,
}

/// The algorithm with this id.
///
/// ```
/// use rounds_algorithms::catalog;
///
/// assert_eq!(catalog::find("dp-sgd")?.name, "DP-SGD");
/// assert_eq!(catalog::find("dp-sdg").err().map(|error| error.nearest), Some("dp-sgd"));
/// # Ok::<(), catalog::UnknownAlgorithm>(())
/// ```
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

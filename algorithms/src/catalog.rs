//! The lookup of algorithms by id. Their list stands beside the `mod` lines of [`crate::optimizers`].

pub use crate::optimizers::ALGORITHMS;
use crate::optimizers::Algorithm;

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
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.id == id).ok_or_else(|| {
        let alike = |known: &str| strsim::jaro_winkler(&id.to_lowercase(), known);
        UnknownAlgorithm {
            name: id.to_owned(),
            nearest: ALGORITHMS
                .iter()
                .map(|algorithm| algorithm.id)
                .max_by(|left, right| alike(left).total_cmp(&alike(right)))
                .unwrap_or("dp-sgd"),
        }
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
}

//! The lookup of algorithms by id. Their list stands beside the `mod` lines of [`crate::optimizers`].

pub use crate::optimizers::ALGORITHMS;
use crate::optimizers::Algorithm;

/// An algorithm that is not in the catalogue.
#[derive(Debug, thiserror::Error)]
#[error("there is no algorithm '{name}'{}", nearest.map_or("; `rounds list algorithms` shows all".to_owned(), |known| format!("; did you mean '{known}'? `rounds list algorithms` shows all")))]
pub struct UnknownAlgorithm {
    /// The given name.
    pub name: String,
    /// The nearest name, if any is near.
    pub nearest: Option<&'static str>,
}

/// The algorithm with this id.
///
/// ```
/// use rounds_algorithms::catalog;
///
/// assert_eq!(catalog::find("dp-sgd")?.name, "DP-SGD");
/// assert_eq!(catalog::find("dp-sdg").err().and_then(|error| error.nearest), Some("dp-sgd"));
/// # Ok::<(), catalog::UnknownAlgorithm>(())
/// ```
///
/// # Errors
/// An unknown id, with the nearest one.
pub fn find(id: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    let known: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.id).collect();
    let unknown = || UnknownAlgorithm { name: id.to_owned(), nearest: nearest(&id.to_lowercase(), &known) };
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.id == id).ok_or_else(unknown)
}

/// The candidate that is nearest to a name, if any is near: few letters apart, or alike at the beginning.
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    // Of candidates that are equally far, the one that is more alike: dp-sgd for dpsgd, not dp-gd.
    let similarity = |candidate: &str| {
        let apart = strsim::damerau_levenshtein(name, candidate);
        let alike = strsim::jaro_winkler(name, candidate);
        if apart <= (name.chars().count() / 3).max(1) { alike - apart as f64 } else { alike - 1e3 }
    };
    let near = |candidate: &str| similarity(candidate) > 0.8 - 1e3;
    candidates
        .iter()
        .copied()
        .filter(|candidate| near(candidate))
        .max_by(|first, second| similarity(first).total_cmp(&similarity(second)))
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
    fn near_names_are_suggested() {
        assert_eq!(nearest("dpsgd", &["dp-gd", "dp-sgd", "sgd"]), Some("dp-sgd"));
        assert_eq!(nearest("nothing-like-it", &["dp-gd"]), None);
        assert_eq!(find("lbfgs").err().and_then(|error| error.nearest), None);
    }
}

//! Factorisations that were computed before, in a folder of the user's cache directory: keyed by all their inputs, checked
//! on reading, computed anew when damaged.

use std::fs;
use std::path::{Path, PathBuf};

use rounds_algorithms::factorization::{Factorization, FactorizationError, FactorizationRequest, FactorizationSource};

use crate::files;

/// `$XDG_CACHE_HOME/rounds/factorizations`, or below `~/.cache`; nothing where neither is known.
pub fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(root.join("rounds").join("factorizations"))
}

/// Factorisations from the user's cache, computed and kept where they are not there.
pub fn source() -> FactorizationSource {
    let folder = default_folder();
    FactorizationSource::new(move |request| Ok(factorize(request, folder.as_deref())?.0))
}

/// Factorisations from the user's cache, computed where they are not there and not kept.
pub(crate) fn reader() -> FactorizationSource {
    let folder = default_folder();
    FactorizationSource::new(move |request| {
        looked_up(request, folder.as_deref()).map(|(factorization, _)| factorization)
    })
}

/// The factorisation of `request`, from `folder` if an intact one lies there, and whether it did.
fn looked_up(
    request: FactorizationRequest,
    folder: Option<&Path>,
) -> Result<(Factorization, bool), FactorizationError> {
    if let Some(factorization) = folder.and_then(|folder| kept(&request, folder)) {
        return Ok((factorization, true));
    }
    check_memory(request.workload.rounds(), request.matrices())?;
    Ok((request.factorize()?, false))
}

/// The intact factorisation of `request` in `folder`.
fn kept(request: &FactorizationRequest, folder: &Path) -> Option<Factorization> {
    let bytes = fs::read(folder.join(request.key().hexadecimal())).ok()?;
    request.decode(&bytes).ok()
}

/// The factorisation of `request`, from `folder` if an intact one lies there, and whether it did. A cache that cannot be
/// written is no error: the next run computes again.
///
/// # Errors
/// Those of [`FactorizationRequest::factorize`], and matrices that do not fit into memory.
pub fn factorize(
    request: FactorizationRequest,
    folder: Option<&Path>,
) -> Result<(Factorization, bool), FactorizationError> {
    let key = request.key();
    let (factorization, found) = looked_up(request, folder)?;
    if let Some(folder) = folder.filter(|_| !found) {
        let path = folder.join(key.hexadecimal());
        let _ = fs::create_dir_all(folder).and_then(|()| files::replace(&path, &factorization.encode(key)));
    }
    Ok((factorization, found))
}

/// Bytes of memory of this machine; infinite where the system does not tell.
///
/// **Privacy.** No row moves it. What is free falls by the rows that were read, whose number a unit moves by any amount: no check of a run reads that.
pub fn memory_of_machine() -> f64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::INFINITY, |kib| kib * 1024.0)
}

/// Checks that so many matrices of T × T f64 fit into the memory of the machine.
///
/// **Privacy.** A plan is made after its rows are read. What is compared and told is T, a public number, and [`memory_of_machine`].
///
/// # Errors
/// `Memory`. A system that does not tell its memory refuses nothing.
pub fn check_memory(rounds: usize, matrices: usize) -> Result<(), FactorizationError> {
    const GIB: f64 = (1_u64 << 30) as f64;
    let present = memory_of_machine() / GIB;
    let needed = 8.0 * (rounds as f64).powi(2) * matrices as f64 / GIB;
    if needed <= present { Ok(()) } else { Err(FactorizationError::Memory { rounds, needed, present }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::factorization::{Method, Participation, Workload, WorkloadSpecification};

    fn request() -> FactorizationRequest {
        let workload = Workload::new(12, WorkloadSpecification::prefix().with_momentum(0.9)).unwrap();
        FactorizationRequest::new(workload, Participation::Single, Method::Optimal)
    }

    #[test]
    fn matrices_are_compared_with_the_memory_of_the_machine_and_no_free_one() {
        let folder = tempfile::tempdir().unwrap();
        // As many rounds as the whole memory holds matrices for, and one more.
        let most = (memory_of_machine() / 8.0).sqrt() as usize;
        check_memory(most, 1).unwrap();
        let workload = Workload::new(most + 1, WorkloadSpecification::prefix()).unwrap();
        let request = FactorizationRequest::new(workload, Participation::Single, Method::Optimal);
        let refused = factorize(request, Some(folder.path())).map(|_| ()).unwrap_err();
        let FactorizationError::Memory { present, .. } = refused else { panic!("{refused}") };
        assert_eq!(present * f64::from(1 << 30), memory_of_machine());
    }

    #[test]
    fn a_kept_factorisation_is_found_and_a_damaged_one_is_computed_anew() {
        let folder = tempfile::tempdir().unwrap();
        // Who only looks keeps nothing.
        assert!(!looked_up(request(), Some(folder.path())).unwrap().1);
        let (first, found) = factorize(request(), Some(folder.path())).unwrap();
        assert!(!found && looked_up(request(), Some(folder.path())).unwrap().1);
        let (again, found) = factorize(request(), Some(folder.path())).unwrap();
        assert!(found);
        assert_eq!(first.frobenius(), again.frobenius());
        let path = folder.path().join(request().key().hexadecimal());
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let (anew, found) = factorize(request(), Some(folder.path())).unwrap();
        assert!(!found && anew.frobenius() == first.frobenius());
        assert!(factorize(request(), Some(folder.path())).unwrap().1, "the damaged file was replaced");
    }
}

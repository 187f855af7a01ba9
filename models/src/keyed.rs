//! Values that follow from a run's source of randomness: the key of a simulation is its seed, that of a release follows from the system's
//! key and from the data that it protects.
//!
//! The system draws 256 bits K for a release. Nothing is drawn from K itself; a run's key is
//!
//! ```text
//! HMAC-SHA-256(K, "rounds run" ‖ 0 ‖ binding)       binding = (data, build, instruction set, coefficients of the noise, parameters,
//!                                                              domain, plan with the calibrated mechanism)
//! HMAC-SHA-256(K, "rounds rows" ‖ 0 ‖ digests of the encoded rows, private counts)           the data of a binding
//! HMAC-SHA-256(K, "rounds bounds" ‖ 0 ‖ SHA-256 of the counts, parameters, build, set)  of private bounds
//! HMAC-SHA-256(K, "rounds moments" ‖ 0 ‖ SHA-256 of the sums, their scale and noise, counts, parameters, build, set)  of moments
//! HMAC-SHA-256(K, "rounds trial" ‖ 0 ‖ number)                                      the K of a trial of a selection
//! HMAC-SHA-256(K, "rounds selection" ‖ 0 ‖ parameters, grid and law)                of the number of trials and their settings
//! ```
//!
//! No label with its 0 begins another, so these are values of one function at different points. A run's key follows from everything
//! that decides to which sums its noise is added. Runs that differ in any of it have keys that nobody can tell from independent ones,
//! even where K repeats: in a cloned or restored virtual machine, a fork, a resumed run. Runs that differ in nothing, with one K, are
//! the same release; that they are equal shows that their rows are. For one run nothing changes: over a random K the key of each data
//! set is uniform, but for what tells HMAC from a random function, so the law of the output is that of a key drawn after the data.
//! Nothing is shown of the digest but what that key makes, so without K it can be compared with no guess of the rows.
//!
//! The construction is that of a synthetic initialisation vector (Rogaway and Shrimpton, "A provable-security treatment of the
//! key-wrap problem", EUROCRYPT 2006).

use hmac::{Hmac, KeyInit as _, Mac as _};
use rounds_algorithms::hexadecimal;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// HMAC-SHA-256 of "rounds " ‖ `of` ‖ 0 ‖ `message` under the source, for a simulation the bytes of its seed.
pub(crate) fn mac(source: &StreamKey, of: &str, message: &[u8]) -> [u8; 32] {
    let mac = match source {
        StreamKey::Release(key) => Hmac::<Sha256>::new_from_slice(key),
        StreamKey::Simulation(seed) => Hmac::<Sha256>::new_from_slice(&seed.to_le_bytes()),
    };
    let mac = mac.expect("HMAC takes keys of any length");
    mac.chain_update("rounds ").chain_update(of).chain_update([0]).chain_update(message).finalize().into_bytes().into()
}

/// The key that is used `of` something where `message` decides what meets its draws. A simulation's is its seed.
pub(crate) fn derived(source: &StreamKey, of: &str, message: &[u8]) -> StreamKey {
    match source {
        StreamKey::Release(_) => StreamKey::Release(mac(source, of, message)),
        StreamKey::Simulation(_) => source.clone(),
    }
}

/// A source of its own for a part of what follows from `source`, of a release and of a simulation.
pub(crate) fn branched(source: &StreamKey, of: &str, message: &[u8]) -> StreamKey {
    let mac = mac(source, of, message);
    match source {
        StreamKey::Release(_) => StreamKey::Release(mac),
        StreamKey::Simulation(_) => StreamKey::Simulation(u64::from_le_bytes(*mac.first_chunk().expect("32 bytes"))),
    }
}

/// The key of plans, which draw nothing.
pub(crate) fn unused(source: &StreamKey) -> StreamKey {
    match source {
        StreamKey::Release(_) => StreamKey::Release([0; 32]),
        seed @ StreamKey::Simulation(_) => seed.clone(),
    }
}

/// HMAC-SHA-256 of a digest of the rows under the source of the run's keys ([`mac`] of `rows`). Without the source it can be
/// compared neither with the digest of guessed rows nor with that of another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct KeyedDigest(pub(crate) String);

impl KeyedDigest {
    /// The digest of rows with a plain `digest`, in a run of this `source`.
    pub(crate) fn new(source: &StreamKey, digest: &[u8]) -> Self {
        Self(hexadecimal(&mac(source, "rows", digest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_follows_from_its_use_and_its_message_and_of_a_simulation_from_neither() {
        let source = StreamKey::Release([7; 32]);
        let bytes = |of, message: &[u8]| match derived(&source, of, message) {
            StreamKey::Release(key) => key,
            StreamKey::Simulation(_) => panic!("a release's key"),
        };
        // HMAC-SHA-256 of "rounds run\0rows" under 32 bytes of 7, by Python's hmac.
        assert_eq!(rounds_algorithms::hexadecimal(&bytes("run", b"rows")), EXPECTED);
        let keys =
            [bytes("run", b"rows"), bytes("run", b"row"), bytes("bounds", b"rows"), bytes("rows", b"rows"), [7; 32]];
        assert!((0..5).all(|i| !keys[..i].contains(&keys[i])));
        assert!(matches!(derived(&StreamKey::Simulation(3), "run", b"rows"), StreamKey::Simulation(3)));
    }

    const EXPECTED: &str = "dcacf63d9ad1901391feaeb6735911e29435871e4644edd731919990e7f45cbe";
}

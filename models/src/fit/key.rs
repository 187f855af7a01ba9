//! Keys of a run: a simulation's seed, or a release's own key, which follows from the system's and from the data that it protects.
//!
//! The system draws 256 bits K for a release. Nothing is drawn from K itself; a run's key is
//!
//! ```text
//! HMAC-SHA-256(K, "rounds run" ‖ 0 ‖ binding)       binding = (HMAC of the encoded rows and private counts under a key that K gives,
//!                                                              build, instruction set, coefficients of the noise, parameters, domain)
//! HMAC-SHA-256(K, "rounds bounds" ‖ 0 ‖ SHA-256 of the counts, build and parameters)           of private bounds
//! ```
//!
//! so it follows from everything that decides to which sums its noise is added. Runs that differ in any of it have keys that nobody
//! can tell from independent ones, even where K repeats: in a cloned or restored virtual machine, a fork, a resumed run. Runs that
//! differ in nothing, with one K, are the same release. For one run nothing changes: over a random K the key of each data set is
//! uniform, but for what tells HMAC from a random function, so the law of the output is that of a key that is drawn after the data.
//! Nothing is shown of the digest but what that key makes, so without K it can be compared with no guess of the rows.
//!
//! The construction is that of a synthetic initialisation vector (Rogaway and Shrimpton, "A provable-security treatment of the
//! key-wrap problem", EUROCRYPT 2006).

use hmac::{Hmac, KeyInit as _, Mac as _};
use rounds_kernels::random::StreamKey;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::error::FitError;
use super::observer::Execution;
use super::settings::Training;
use crate::checkpoint::{self, Checkpoint};

/// The generator of the system.
pub(super) fn of_system(key: &mut [u8]) -> Result<(), FitError> {
    getrandom::fill(key).map_err(FitError::Key)
}

/// The source of all randomness of a run: the resumed checkpoint's, a simulation's seed, or for a release what `draw` gives on rank
/// 0. With one source all ranks draw the same noise, and no round sends any.
pub(super) fn source(
    training: &Training,
    execution: &Execution,
    resumed: Option<&Checkpoint>,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<StreamKey, FitError> {
    if !training.privacy.secure {
        return Ok(StreamKey::Simulation(training.seed));
    }
    let group = &execution.group;
    let kept = training.checkpoint.file.as_deref();
    group.root_only(|| kept.map_or(Ok(()), checkpoint::check_place))?;
    if let Some(key) = resumed.and_then(Checkpoint::key) {
        return Ok(key);
    }
    let mut key = Zeroizing::new(vec![0; if group.is_root() { 32 } else { 0 }]);
    group.root_only(|| draw(&mut key))?;
    let drawn = group.broadcast_secret(key);
    Ok(StreamKey::Release(drawn.as_slice().try_into().expect("32 bytes")))
}

/// The key that is used `of` something where `message` decides what meets its draws. A simulation's is its seed.
pub(super) fn derived(source: &StreamKey, of: &str, message: &[u8]) -> StreamKey {
    let StreamKey::Release(key) = source else { return source.clone() };
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    let mac = mac.chain_update("rounds ").chain_update(of).chain_update([0]).chain_update(message);
    StreamKey::Release(mac.finalize().into_bytes().into())
}

/// The key of plans, which draw nothing.
pub(super) fn unused(source: &StreamKey) -> StreamKey {
    match source {
        StreamKey::Release(_) => StreamKey::Release([0; 32]),
        seed @ StreamKey::Simulation(_) => seed.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::problem::{
        Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage,
    };

    use super::super::fit_drawn;
    use super::*;
    use crate::data::TrainTest;
    use crate::fit::{Execution, Training};

    /// Rows of one feature, of which the first is `canary`.
    fn rows(canary: f32) -> Dataset {
        let features: Vec<f32> = (0..200).map(|row| if row == 0 { canary } else { 0.25 }).collect();
        let labels = Labels::Classes { values: (0..200).map(|row| row % 2).collect(), classes: 2, names: None };
        let columns = Columns::Matrix { count: 1, bounds: Bounds::new(-1.0, 1.0).unwrap() };
        let label = Label::Classes(["no", "yes"].map(str::to_owned).to_vec());
        let domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
        Dataset::new("rows", Features::f32(features, 1), labels).unwrap().in_domain(domain.into()).unwrap()
    }

    fn release(rows: Dataset, change: impl FnOnce(&mut Training)) -> Vec<f32> {
        let mut training = Training::on_rows(TrainTest { train: rows, test: None }).private(0.01, 1e-6);
        training.privacy.secure = true;
        (training.optimizer.epochs, training.optimizer.learning_rate) = (Some(1.0), Some(1.0));
        training.optimizer.batch_size = Some(200);
        change(&mut training);
        // A generator that repeats: that of a cloned machine.
        let repeats = |key: &mut [u8]| {
            key.fill(7);
            Ok(())
        };
        fit_drawn(&training, &Execution::default(), &mut (), repeats).unwrap().model.weights().to_vec()
    }

    #[test]
    fn a_generator_that_repeats_gives_other_data_other_noise() {
        let same = |_: &mut Training| ();
        let first = release(rows(1.0), same);
        assert_eq!(release(rows(1.0), same), first, "the same release");
        // A row moves the mean of 200 gradients by 2/200 at most; noise at ε = 0.01 moves it by some hundred times as much.
        let far = |other: &[f32]| first.iter().zip(other).any(|(a, b)| (a - b).abs() > 0.1);
        assert!(far(&release(rows(-1.0), same)), "a neighbour");
        assert!(far(&release(rows(1.0), |training| training.privacy.delta = 1.000_001e-6)), "another parameter");
        let correlated = |training: &mut Training| {
            training.algorithm = "dp-mf".to_owned();
            training.optimizer.batch_size = Some(50);
        };
        assert!(far(&release(rows(1.0), correlated)));
    }

    #[test]
    fn a_key_follows_from_its_use_and_its_message_and_of_a_simulation_from_neither() {
        let source = StreamKey::Release([7; 32]);
        let bytes = |of, message: &[u8]| match derived(&source, of, message) {
            StreamKey::Release(key) => key,
            StreamKey::Simulation(_) => panic!("a release's key"),
        };
        // HMAC-SHA-256 of "rounds run\0rows" under 32 bytes of 7, by Python's hmac.
        assert_eq!(rounds_algorithms::hexadecimal(&bytes("run", b"rows")), EXPECTED);
        let keys = [bytes("run", b"rows"), bytes("run", b"row"), bytes("bounds", b"rows"), [7; 32]];
        assert!((0..4).all(|i| !keys[..i].contains(&keys[i])));
        assert!(matches!(derived(&StreamKey::Simulation(3), "run", b"rows"), StreamKey::Simulation(3)));
    }

    const EXPECTED: &str = "dcacf63d9ad1901391feaeb6735911e29435871e4644edd731919990e7f45cbe";
}

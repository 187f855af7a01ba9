//! Every guarantee of the catalogue against an attack that knows everything but the noise: the bound stays below the claim,
//! and rises above it in copies that are broken on purpose.

use rounds_algorithms::audit::{AuditError, AuditReport, AuditSettings, CanaryRows, Finding, Sabotage, audit};
use rounds_algorithms::catalog::{self, ALGORITHMS, Algorithm};
use rounds_algorithms::oracle::Engine;

/// `rounds audit` takes 20,000 and more.
const RUNS: u64 = 4_000;

fn finding(algorithm: &'static Algorithm, sabotage: Option<Sabotage>) -> Finding {
    let settings = AuditSettings {
        // A skipped clip is seen at once, and is slow to account for.
        runs: if sabotage == Some(Sabotage::SkippedClip) {
            1_200
        } else {
            RUNS
        },
        sabotage,
        ..AuditSettings::default()
    };
    audit(algorithm, &settings, &Engine::Sequential, &|_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", algorithm.id))
        .finding
        .unwrap_or_else(|reason| panic!("{}: {reason}", algorithm.id))
}

#[test]
fn no_claim_of_the_catalogue_is_disproved_and_every_bound_has_power() {
    for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
        let found = finding(algorithm, None);
        assert!(!found.disproves(), "{}: {found:?}", algorithm.id);
        assert!(
            found.lower_bound_epsilon > 0.25 * found.claimed_epsilon,
            "{}: {found:?}",
            algorithm.id
        );
    }
}

#[test]
fn every_sabotaged_copy_is_found_out() {
    for sabotage in Sabotage::ALL {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
            let found = finding(algorithm, Some(sabotage));
            assert!(
                found.disproves(),
                "{} with {}: {found:?}",
                algorithm.id,
                sabotage.name()
            );
        }
    }
}

fn on_bytes(algorithm: &'static Algorithm, sabotage: Option<Sabotage>) -> AuditReport {
    let settings = AuditSettings {
        // Subsampled noise takes more runs for a bound above 0.
        runs: if algorithm.id == "dp-sgd" && sabotage != Some(Sabotage::SkippedClip) {
            RUNS
        } else {
            1_200
        },
        sabotage,
        rows: CanaryRows::Bytes,
        ..AuditSettings::default()
    };
    audit(algorithm, &settings, &Engine::Sequential, &|_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", algorithm.id))
}

#[test]
fn claims_hold_on_rows_of_bytes_as_releases_sum_them_and_broken_copies_are_found_out() {
    let mut audited = 0;
    for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
        let Ok(found) = on_bytes(algorithm, None).finding else {
            continue;
        };
        audited += 1;
        assert!(!found.disproves(), "{}: {found:?}", algorithm.id);
        assert!(
            found.lower_bound_epsilon > 0.2 * found.claimed_epsilon,
            "{}: {found:?}",
            algorithm.id
        );
    }
    assert!(audited >= 10, "{audited} algorithms");
    for sabotage in Sabotage::ALL {
        for id in ["dp-sgd", "dp-memf", "accelerated-dp-srg"] {
            let found = on_bytes(catalog::find(id).ok().unwrap(), Some(sabotage))
                .finding
                .unwrap();
            assert!(found.disproves(), "{id} with {}: {found:?}", sabotage.name());
        }
    }
}

#[test]
fn findings_do_not_depend_on_the_number_of_threads() {
    let algorithm = catalog::find("dp-memf").ok().unwrap();
    let settings = AuditSettings {
        runs: 800,
        ..AuditSettings::default()
    };
    let bounds = [1, 3].map(|threads| {
        let engine = Engine::with_threads(threads).unwrap();
        let found = audit(algorithm, &settings, &engine, &|_| {}).unwrap().finding.unwrap();
        (found.false_alarms, found.misses, found.shift.to_bits())
    });
    assert_eq!(bounds[0], bounds[1]);
}

#[test]
fn algorithms_without_a_claim_say_so_and_too_few_runs_are_refused() {
    let sgd = catalog::find("sgd").ok().unwrap();
    let report = audit(sgd, &AuditSettings::default(), &Engine::Sequential, &|_| {}).unwrap();
    assert!(report.finding.unwrap_err().contains("claims nothing"));
    let settings = AuditSettings {
        runs: 10,
        ..AuditSettings::default()
    };
    assert!(matches!(
        audit(sgd, &settings, &Engine::Sequential, &|_| {}),
        Err(AuditError::TooFewRuns(10))
    ));
}

//! Golden values of samplers beyond Poisson batches, with their origin: a Python reference with privacy loss distributions of its own at two
//! step sizes, extrapolated, checked against the reference library 0.6.0 where it knows the sampler, and direct integration.

use super::*;
use crate::privacy::calibrate;
use crate::privacy::examples::{assert_relative, poisson, subsampled};
use crate::privacy::{Sampling, gaussian};

fn allocation(noise: f64, slots: usize, rounds: usize) -> Mechanism {
    subsampled(noise, Sampling::RandomAllocation { groups: 1, slots }, rounds)
}

fn of(directions: Vec<Direction>) -> PrivacyLoss {
    PrivacyLoss { directions, ..loss(&allocation(1.0, 2, 2)) }
}

/// ε of removal and addition by themselves.
fn both(mechanism: &Mechanism, delta: f64) -> [f64; 2] {
    let loss = PrivacyLoss::new(mechanism, Adjacency::ZeroOut).unwrap();
    [0, 1].map(|direction| {
        let directions = vec![loss.directions[direction].clone()];
        of(directions).epsilon(delta).unwrap()
    })
}

/// From above to 1e-4, and below by no more than 1e-6, as the last digits of the reference are.
fn assert_golden(found: f64, golden: f64, what: &str) {
    assert!((golden * (1.0 - 1e-6)..golden * (1.0 + 1e-4)).contains(&found), "{what}: {found} for {golden}");
}

#[test]
fn random_allocation_has_its_golden_values() {
    for (noise, slots, rounds, delta, golden) in [
        (1.0, 120, 120, 1e-6, [0.760_616, 0.443_526]),
        (2.0, 120, 120, 1e-5, [0.156_643, 0.154_144]),
        (1.0, 1000, 1000, 1e-6, [0.171_729, 0.149_431]),
        (5.0, 20, 20, 1e-6, [0.169_883, 0.169_483]),
        // Several epochs, the last of the first row unfinished.
        (1.0, 120, 16 * 120 + 80, 1e-6, [2.289_835, 2.114_329]),
        (2.0, 100, 1000, 1e-5, [0.603_096, 0.599_449]),
    ] {
        let found = both(&allocation(noise, slots, rounds), delta);
        for (found, golden) in found.into_iter().zip(golden) {
            assert_golden(found, golden, &format!("{noise} {slots} {rounds}"));
        }
    }
}

#[test]
fn delta_of_random_allocation_is_that_of_direct_integration() {
    for (noise, slots, epsilon, golden) in [
        (1.0, 2, 0.5, [0.149_177, 0.142_687]),
        (1.0, 2, 1.5, [0.018_665_5, 0.012_361_6]),
        (2.0, 3, 0.5, [0.008_007_40, 0.007_233_34]),
    ] {
        let loss = PrivacyLoss::new(&allocation(noise, slots, slots), Adjacency::AddRemove).unwrap();
        for (direction, golden) in loss.directions.iter().zip(golden) {
            let one = of(vec![direction.clone()]);
            assert_relative(one.delta(epsilon).unwrap(), golden, 1e-4, &format!("{noise} {slots} {epsilon}"));
        }
    }
}

/// One visible slot of t is a Poisson round of rate 1/t, and one slot an epoch is no allocation.
#[test]
fn allocation_has_its_special_cases() {
    for (noise, slots) in [(1.0, 20), (0.7, 5), (3.0, 100)] {
        let [remove, add] = both(&allocation(noise, slots, 1), 1e-5);
        let [of_remove, of_add] = both(&poisson(noise, 1.0 / slots as f64, 1), 1e-5);
        for (found, golden) in [(remove, of_remove), (add, of_add)] {
            assert!(found >= golden * (1.0 - 2e-5) && found <= golden * (1.0 + 2e-4), "{found} {golden}");
        }
    }
    let whole = allocation(2.0, 1, 9);
    let found = Accountant::Gdp.epsilon(&whole, Adjacency::AddRemove, 1e-5).unwrap();
    assert_relative(found, gaussian::epsilon(1e-5, 1.5).unwrap(), 1e-12, "one slot");
}

/// Whatever the noise, ε is no more than without amplification, falls with the noise, and rises with the rounds that are visible.
#[test]
fn allocation_is_monotone_from_little_noise_to_much() {
    let mut previous = f64::INFINITY;
    for noise in [0.2, 0.5, 1.0, 3.0, 1e3, 1e6] {
        let epsilon = |rounds| loss(&allocation(noise, 50, rounds)).epsilon(1e-6).unwrap();
        let found = epsilon(50);
        let unamplified = gaussian::epsilon(1e-6, 1.0 / noise).unwrap();
        assert!(found <= unamplified * 1.01 && found < previous, "{noise}: {found} {unamplified} {previous}");
        assert!(epsilon(10) <= found && found <= epsilon(60), "{noise}");
        previous = found;
    }
    let amplified = loss(&allocation(1e3, 50, 50)).epsilon(1e-6).unwrap();
    assert!(amplified < gaussian::epsilon(1e-6, 1e-3).unwrap() * 0.2, "{amplified}");
}

/// Of little noise the sum of few terms is so rough that its transform loses more than that of a whole epoch, which counts then.
#[test]
fn no_part_of_an_epoch_costs_more_than_the_whole() {
    // ε of a first epoch that is begun: `allocation_is_monotone_from_little_noise_to_much`.
    let [part, epoch] = [25, 40].map(|rounds| loss(&allocation(0.4, 20, rounds)));
    let [of_part, of_epoch] = [&part, &epoch].map(|loss| loss.epsilon(1e-6).unwrap());
    assert!(of_part <= of_epoch, "{of_part} {of_epoch}");
    for share in [0.3, 1.0] {
        let [part, epoch] = [&part, &epoch].map(|loss| loss.delta(share * of_epoch).unwrap());
        assert!(part <= epoch, "{part:e} {epoch:e}");
    }
    let epsilons: Vec<f64> = (0..20).map(|point| 0.1 * of_epoch * f64::from(point)).collect();
    let [part, epoch] = [part, epoch].map(|loss| loss.profile(&epsilons, 1e-6).unwrap());
    assert!(part.iter().zip(&epoch).all(|(part, epoch)| part <= epoch), "{part:?} {epoch:?}");
}

/// Little noise: what is lost to the grid and to the transforms is bounded, and so is their memory.
#[test]
fn allocation_with_little_noise_is_no_worse_than_known() {
    // Unamplified it would be 8.56.
    let [removal, addition] = both(&allocation(0.6, 50, 50), 1e-6);
    assert_golden(removal, 4.935_6, "removal");
    assert!(addition < removal, "{removal} {addition}");
    // Addition by direct integration 2.92; unamplified 14.45.
    let [_, addition] = both(&allocation(0.4, 50, 50), 1e-6);
    assert!((2.9..3.2).contains(&addition), "{addition}");
    for (noise, slots, delta) in [(0.1, 1_000, 1e-6), (0.05, 50, 1e-6), (0.6, 7, 1e-17), (1.0, 3, 1e-100)] {
        let found = loss(&allocation(noise, slots, slots)).epsilon(delta).unwrap();
        let unamplified = gaussian::epsilon(delta, 1.0 / noise).unwrap();
        assert!(found <= unamplified * 1.0001, "{noise}: {found} {unamplified}");
    }
}

fn loss(mechanism: &Mechanism) -> PrivacyLoss {
    PrivacyLoss::new(mechanism, Adjacency::ZeroOut).unwrap()
}

#[test]
fn cyclic_poisson_has_its_golden_values() {
    for (noise, rounds, groups, batch, rows, delta, golden) in [
        (1.0, 2000, 16, 500.0, 60_000.0, 1e-6, 11.984_417_56),
        (4.0, 600, 8, 1000.0, 60_000.0, 1e-5, 1.156_124_14),
        (1.2, 120, 10, 500.0, 60_000.0, 1e-6, 2.178_605_49),
    ] {
        let sampling = Sampling::CyclicPoisson { groups, rate: batch * groups as f64 / rows };
        let plain = loss(&subsampled(noise, sampling, rounds)).epsilon(delta).unwrap();
        assert_golden(plain, golden, "cyclic");
        // Of noise with bands, columns of norm 2 and twice the noise; a band more than groups is refused.
        let banded = |bands| Mechanism::SubsampledBanded {
            noise_multiplier: 2.0 * noise,
            sampling,
            bands,
            sensitivity: 2.0,
            steps: rounds,
        };
        assert_eq!(loss(&banded(groups)).epsilon(delta).unwrap(), plain);
        let refused = banded(groups + 1).check(Adjacency::ZeroOut).unwrap_err();
        assert!(matches!(refused, PrivacyError::BandsBeyondSeparation { .. }), "{refused}");
    }
}

#[test]
fn truncated_poisson_has_its_golden_values() {
    for (noise, rate, population, most, rounds, delta, golden) in
        [(1.0, 0.01, 50_000, 600, 1000, 1e-5, 1.838_018_084), (2.0, 0.0667, 60_000, 4200, 150, 1e-5, 1.873_123_333_3)]
    {
        let mechanism = subsampled(noise, Sampling::TruncatedPoisson { rate, most, population }, rounds);
        let found = loss(&mechanism).epsilon(delta).unwrap();
        assert_golden(found, golden, "truncated");
        let by_rdp = Accountant::Rdp.epsilon(&mechanism, Adjacency::ZeroOut, delta).unwrap();
        assert!(by_rdp > found, "{by_rdp} {found}");
        // Without a cut it is Poisson sampling; with a cut at every round a batch of a fixed size.
        let never = subsampled(noise, Sampling::TruncatedPoisson { rate, most: population, population }, rounds);
        let plain = loss(&poisson(noise, rate, rounds)).epsilon(delta).unwrap();
        assert_relative(loss(&never).epsilon(delta).unwrap(), plain, 1e-9, "no cut");
        assert!(found > plain);
    }
}

/// Every sampler's noise is found by every accountant that covers it, and Rényi bounds are never below.
/// Where most batches are cut the pair is loose, and the Rényi bound is taken.
#[test]
fn truncated_poisson_is_never_above_its_renyi_bound() {
    for (noise, rate, most, population, rounds) in [(1.0, 0.5, 6, 10, 1), (1.0, 0.5, 1, 2, 5)] {
        let mechanism = subsampled(noise, Sampling::TruncatedPoisson { rate, most, population }, rounds);
        let renyi = RenyiCurve::new(&mechanism, Adjacency::ZeroOut).unwrap().epsilon(1e-6).unwrap().0;
        let found = loss(&mechanism).epsilon(1e-6).unwrap();
        assert!(found <= renyi, "{found} {renyi}");
    }
}

/// The rough δ that a search begins with is an upper bound, too: at least the accurate one and at most a hundredth above it, at every ε.
#[test]
fn rough_bounds_are_above_the_others_and_near_them() {
    for (noise, slots, rounds, delta) in
        [(1.0, 120, 120, 1e-6), (2.0, 100, 1_000, 1e-5), (0.7, 20, 50, 1e-6), (5.0, 20, 20, 1e-7), (1.3, 8, 301, 1e-6)]
    {
        let mechanism = allocation(noise, slots, rounds);
        let [exact, rough] =
            [Precision::Exact, Precision::Rough].map(|precision| loss(&mechanism).computed_to(precision));
        let (least, most) = (exact.epsilon(delta).unwrap(), rough.epsilon(delta).unwrap());
        assert!((least * (1.0 - 1e-6)..least * 1.01).contains(&most), "{noise} {slots} {rounds}: {most} {least}");
        let epsilons: Vec<f64> = (0..40).map(|point| 0.05 * least * f64::from(point)).collect();
        let [exact, rough] = [exact, rough].map(|loss| loss.profile(&epsilons, delta).unwrap());
        for ((least, most), epsilon) in exact.into_iter().zip(rough).zip(epsilons) {
            assert!(most >= least * (1.0 - 1e-4) - 1e-3 * delta, "{noise} {slots} {epsilon}: {most:e} {least:e}");
        }
    }
}

/// Noise is the same whatever it was searched from: the least whose ε is at most the target, as a search by exact bounds alone finds it.
#[test]
fn noise_of_allocated_batches_is_the_least_that_exact_bounds_allow() {
    for (slots, rounds, epsilon, delta) in [(20, 50, 1.0, 1e-5), (100, 300, 0.3, 1e-6), (5, 5, 4.0, 1e-6)] {
        let of = |noise: f64| loss(&allocation(noise, slots, rounds)).epsilon(delta).unwrap();
        let found =
            calibrate(Accountant::Pld, Adjacency::ZeroOut, epsilon, delta, |noise| allocation(noise, slots, rounds));
        let found = found.unwrap();
        assert!(of(found) <= epsilon && of(found * (1.0 - 1e-8)) > epsilon, "{slots}, {epsilon}: {found}");
    }
}

#[test]
fn noise_of_every_sampler_calibrates() {
    for sampling in [
        Sampling::CyclicPoisson { groups: 4, rate: 0.2 },
        Sampling::RandomAllocation { groups: 1, slots: 20 },
        Sampling::RandomAllocation { groups: 4, slots: 5 },
        Sampling::TruncatedPoisson { rate: 0.05, most: 60, population: 1000 },
    ] {
        let [by_pld, by_rdp] = [Accountant::Pld, Accountant::Rdp].map(|accountant| {
            calibrate(accountant, Adjacency::ZeroOut, 1.0, 1e-5, |noise| subsampled(noise, sampling, 50)).unwrap()
        });
        assert!(by_pld < by_rdp, "{sampling}: {by_pld} {by_rdp}");
        assert!(loss(&subsampled(by_pld, sampling, 50)).epsilon(1e-5).unwrap() <= 1.0);
        assert!(Accountant::Gdp.epsilon(&subsampled(by_pld, sampling, 50), Adjacency::ZeroOut, 1e-5).is_err());
    }
}

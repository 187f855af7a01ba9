//! Golden values and laws that hold for several accountants.

use super::examples::{self, assert_relative, gaussian as release, laplace, poisson, without_replacement};
use super::*;

use Accountant::{Gdp, Pld, Pure, Rdp, Zcdp, ZcdpSimple};
use Adjacency::{AddRemove, ReplaceOne, ZeroOut};

/// Noise, rate, steps, δ, and ε of the reference library: by RDP over its grid of orders, by PLD at discretisation 1e-4, and at
/// 1e-5, where given.
const COMPOSED: [(f64, f64, usize, f64, f64, f64, Option<f64>); 8] = [
    (1.1, 0.004_266_666_667, 14_062, 1e-5, 2.596_555_87, 2.381_686_002, None),
    (1.0, 0.01, 1000, 1e-5, 2.101_366_525, 1.828_243_646, Some(1.828_236_737)),
    (2.0, 0.01, 10_000, 1e-6, 2.629_141_899, 2.446_810_456, None),
    (0.8, 0.01, 500, 1e-5, 2.979_032_142, 2.399_439_432, Some(2.399_437_176)),
    (4.0, 0.133_333_333_3, 600, 1e-5, 3.888_385_633, 3.583_654_599, Some(3.583_652_404)),
    (1.3, 0.0025, 6000, 1e-5, 0.724_223_402_6, 0.640_110_926_4, None),
    (1.5, 0.04, 2250, 1e-5, 7.329_334_702, 6.768_787_374, Some(6.768_780_589)),
    (0.7, 0.001_066_666_667, 2048, 1e-6, 2.185_118_6, 1.199_007_881, Some(1.198_996_748)),
];

#[test]
fn golden_epsilons_of_composed_poisson_steps() {
    // Specification 2.6: the best order of these steps.
    let curve = rdp::RenyiCurve::new(&poisson(1.1, 0.01, 1000), AddRemove).unwrap();
    assert_relative(curve.epsilon(1e-5).unwrap().1, 9.6, 2e-2, "order");
    for (noise, rate, steps, delta, by_rdp, coarse, finer) in COMPOSED {
        let mechanism = poisson(noise, rate, steps);
        let curve = rdp::RenyiCurve::new(&mechanism, AddRemove).unwrap();
        let (found, order) = curve.epsilon(delta).unwrap();
        // A continuous order can only gain, and only what the grid step of 0.1 (1 above 11) leaves.
        let what = format!("{mechanism}, order {order}: {found} against {by_rdp}");
        let gains_little = found <= by_rdp * (1.0 + 1e-8) && found > by_rdp * (1.0 - 2e-3);
        assert!(gains_little && order > 1.0, "{what}");
        let loss = pld::PrivacyLoss::new(&mechanism, AddRemove).unwrap();
        let pld::Bounds { lower, upper } = loss.epsilon_bounds(delta).unwrap();
        assert_relative(upper, coarse, 1e-3, "pld");
        let lower = lower.unwrap();
        assert!(lower <= upper && lower > upper * (1.0 - 1e-3), "{lower} {upper}");
        if let Some(finer) = finer {
            assert_relative(upper, finer, 3e-5, "pld");
            assert!(lower <= finer, "{lower} against {finer}");
        }
    }
}

#[test]
fn golden_epsilons() {
    let tree = |noise, rounds| examples::tree(noise, Sampling::FixedOrder, rounds, 1);
    let four_trees = examples::tree(2.0, Sampling::ShuffledOnce, 400, 4);
    let drawn = |noise| without_replacement(noise, 600, 60_000, 500);
    // (accountant, mechanism, relation, δ, ε, most and least relative error)
    for (accountant, mechanism, adjacency, delta, expected, most, least) in [
        // Specification 2.6.
        (Rdp, poisson(1.1, 0.01, 1000), AddRemove, 1e-5, 1.711_77, 1e-4, 1e-4),
        // Reference values: sigma there is in units of the replace-one sensitivity 2c, hence twice that as multiplier.
        (Rdp, drawn(2.0), ReplaceOne, 1e-5, 2.538_897_891, 1e-8, 5e-3),
        (Rdp, drawn(4.0), ReplaceOne, 1e-5, 1.001_085_696, 1e-8, 5e-3),
        // The reference library's single-epoch tree aggregation (replace-special, RDP): continuous orders win by little.
        (Rdp, tree(1.13, 1600), ZeroOut, 1e-6, 18.709_609_89, 1e-9, 5e-3),
        (Rdp, tree(8.83, 1600), ZeroOut, 1e-6, 1.773_192_45, 1e-9, 5e-3),
        (Rdp, tree(1.0, 1024), ZeroOut, 1e-5, 20.259_186_88, 1e-9, 5e-3),
        (Rdp, tree(4.0, 120), ZeroOut, 1e-5, 2.958_508_859, 1e-9, 5e-3),
        (Rdp, tree(0.149, 1600), ZeroOut, 1e-6, 363.658_091_7, 1e-9, 5e-3),
        // Four epochs of 400 steps, a fresh tree each, every example in all four: restarts do not come for free.
        (Gdp, four_trees, ZeroOut, 1e-6, 18.163_445_76, 1e-9, 1e-9),
        // The reference library's PLD at 1e-5.
        (Pld, laplace(1.0, 0.1, 100), AddRemove, 1e-6, 4.692_667_416_559_13, 1e-4, 1e-4),
    ] {
        let found = accountant.epsilon(&mechanism, adjacency, delta).unwrap();
        let error = found / expected - 1.0;
        let close = error <= most && error > -least;
        assert!(close, "{accountant}, {mechanism}: {found} against {expected}");
        if matches!(mechanism, Mechanism::Tree { .. }) {
            let exact = Gdp.epsilon(&mechanism, adjacency, delta).unwrap();
            assert!(exact < found || accountant == Gdp);
        }
    }
}

#[test]
fn golden_calibrations() {
    // Reference values: ε, rate, steps, and the noise multiplier by the reference library's orders and by its PLD, whose
    // search stops 1e-4 above the smallest one: at 1.41473 it reports ε = 0.99990.
    for (epsilon, rate, steps, by_rdp, by_pld) in [
        (1.0, 0.01, 1000, 1.513_122_2, 1.414_73),
        (3.0, 0.01, 500, 0.797_947_95, 0.742_824),
        (8.0, 0.04, 2250, 1.415_873_2, 1.346),
        (1.0, 0.004_266_666_667, 14_062, 2.178_420_9, 2.025_15),
    ] {
        for (accountant, expected, least) in [(Rdp, by_rdp, 2e-3), (Pld, by_pld, 2e-4)] {
            let mechanism = |noise| poisson(noise, rate, steps);
            let found = calibrate(accountant, AddRemove, epsilon, 1e-5, mechanism).unwrap();
            let error = found / expected - 1.0;
            let close = error <= 1e-6 && error > -least;
            assert!(close, "{accountant}: {found} against {expected}");
        }
    }
}

#[test]
fn calibration_returns_the_smallest_noise_rounded_up() {
    type Family = fn(f64) -> Mechanism;
    let gaussians = [Gdp, Zcdp, ZcdpSimple, Rdp].into_iter().flat_map(|accountant| {
        let targets = [(0.01, 1e-9), (1.0, 1e-5), (20.0, 1e-2), (400.0, 1e-6)];
        targets.map(|(epsilon, delta)| (accountant, ReplaceOne, epsilon, delta, release as Family))
    });
    let sampled: [(Accountant, Adjacency, f64, f64, Family); 3] = [
        (Pld, AddRemove, 1.0, 1e-6, |noise| poisson(noise, 0.01, 100)),
        (Pld, AddRemove, 0.05, 1e-6, |noise| poisson(noise, 0.3, 7)),
        (Pld, AddRemove, 20.0, 1e-6, |noise| poisson(noise, 0.5, 50)),
    ];
    for (accountant, adjacency, epsilon, delta, family) in gaussians.chain(sampled) {
        let noise = calibrate(accountant, adjacency, epsilon, delta, family).unwrap();
        let at = |noise| accountant.epsilon(&family(noise), adjacency, delta).unwrap();
        assert!(at(noise) <= epsilon, "{accountant} {epsilon}");
        assert!(at(noise * (1.0 - 1e-9)) > epsilon, "{accountant} {epsilon}");
    }
    // 000 §5.1: (0.1, 1e-6) of one pass by the printed conversion.
    let noise = calibrate(ZcdpSimple, ZeroOut, 0.1, 1e-6, release).unwrap();
    assert_relative(noise, 52.660_166_125_723_82, 1e-9, "noise");
    assert!(ZcdpSimple.epsilon(&poisson(1.0, 0.1, 2), AddRemove, 1e-6).is_err());
    let noise = calibrate(Gdp, ZeroOut, 1.0, 1e-5, release).unwrap();
    assert_relative(noise, 1.0 / gaussian::mu(1.0, 1e-5).unwrap(), 1e-9, "noise");
}

#[test]
fn epsilon_falls_with_the_noise_and_rises_with_the_steps() {
    for accountant in [Rdp, Pld] {
        let mut previous = f64::INFINITY;
        for noise in [0.5, 0.7, 1.0, 2.0, 8.0, 100.0] {
            let at = |steps| accountant.epsilon(&poisson(noise, 0.02, steps), AddRemove, 1e-6);
            let (some, more) = (at(50).unwrap(), at(100).unwrap());
            assert!(some < previous && some > 0.0 && more > some, "{accountant} {noise}");
            previous = some;
        }
    }
}

#[test]
fn epsilon_and_delta_invert_each_other() {
    // The grids of two privacy loss distributions differ, by 1e-5 of ε.
    for (accountant, deltas, tolerance) in [(Rdp, [1e-12, 1e-5, 1e-2], 1e-6), (Pld, [1e-10, 1e-5, 1e-2], 2e-3)] {
        for mechanism in [
            poisson(1.0, 0.01, 1000),
            poisson(0.6, 0.2, 10),
            poisson(0.5, 0.1, 3),
            poisson(50.0, 0.5, 100_000),
            laplace(1.0, 0.3, 40),
        ] {
            for delta in deltas {
                let epsilon = accountant.epsilon(&mechanism, AddRemove, delta).unwrap();
                if epsilon > 0.0 {
                    let back = accountant.delta(&mechanism, AddRemove, epsilon).unwrap();
                    assert_relative(back, delta, tolerance, &format!("{accountant}, {mechanism}"));
                }
            }
        }
    }
}

#[test]
fn extremes_give_finite_numbers() {
    for (accountant, deltas) in [(Rdp, [1e-300, 1e-5, 0.5]), (Pld, [1e-30, 1e-5, 0.1])] {
        for noise in [0.1, 1.0, 1e4] {
            for rate in [1e-6, 0.5, 1.0] {
                let counts = [1, 1000, 1_000_000].into_iter();
                for (steps, delta) in counts.flat_map(|steps| deltas.map(|delta| (steps, delta))) {
                    let found = accountant.epsilon(&poisson(noise, rate, steps), AddRemove, delta);
                    let epsilon = found.unwrap();
                    let what = format!("{accountant} {noise} {rate} {steps} {delta}: {epsilon}");
                    assert!(epsilon.is_finite() && epsilon >= 0.0, "{what}");
                }
            }
        }
    }
}

#[test]
fn accountants_refuse_what_no_theorem_covers() {
    let (poisson, without) = (poisson(1.0, 0.1, 10), without_replacement(1.0, 1, 10, 2));
    let laplace = laplace(1.0, 1.0, 1);
    for (accountant, mechanism, adjacency) in [
        (Gdp, &poisson, AddRemove),
        (Gdp, &laplace, AddRemove),
        (Zcdp, &poisson, AddRemove),
        (Pure, &poisson, AddRemove),
        (Pld, &without, ReplaceOne),
    ] {
        let error = accountant.epsilon(mechanism, adjacency, 1e-5).unwrap_err();
        assert!(matches!(error, PrivacyError::RefusedAccountant { .. }), "{error}");
        assert!(error.to_string().contains(accountant.name()), "{error}");
    }
}

#[test]
fn the_default_accountant_covers_its_mechanism() {
    let drawn = Sampling::WithoutReplacement { batch: 5, population: 10 };
    let on_batches = Mechanism::laplace_schedule(&[1.0; 3], 1.0, drawn);
    let mixed = Mechanism::Composition(vec![release(1.0), on_batches.clone()]);
    for (mechanism, adjacency, expected) in [
        (release(1.0), ReplaceOne, Gdp),
        (poisson(1.0, 0.1, 3), AddRemove, Pld),
        (on_batches, ReplaceOne, Pure),
        (without_replacement(1.0, 5, 10, 3), ReplaceOne, Rdp),
        (mixed, ReplaceOne, Pld),
    ] {
        let accountant = Accountant::default_for(&mechanism);
        assert_eq!(accountant, expected);
        assert!(accountant.epsilon(&mechanism, adjacency, 1e-5).unwrap() > 0.0);
    }
}

#[test]
fn the_pure_delta_is_that_of_randomised_response() {
    let laplace = laplace(1.0, 2.0, 1);
    let at = |epsilon| Pure.delta(&laplace, ZeroOut, epsilon).unwrap();
    assert_eq!((at(2.0), at(9.0)), (0.0, 0.0));
    assert!((at(1.0) - (2f64.exp() - 1f64.exp()) / (1.0 + 2f64.exp())).abs() < 1e-15);
    assert_eq!(Pure.epsilon(&laplace, ZeroOut, 0.0).unwrap(), 2.0);
}

#[test]
fn targets_that_no_noise_reaches_are_errors() {
    let error = calibrate(Gdp, ZeroOut, 1.0, 1e-5, |_| release(1.0)).unwrap_err();
    assert!(matches!(error, PrivacyError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("raise epsilon"), "{error}");
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let curve = rdp::RenyiCurve::new(&poisson(1.0, 0.1, 1), AddRemove).unwrap();
    let divergence = rdp::poisson_subsampled_gaussian;
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for (found, name) in [
            (calibrate(Gdp, ZeroOut, bad, 1e-5, release), "epsilon must be"),
            (gaussian::mu(bad, 1e-5), "epsilon must be"),
            (zcdp::delta(bad, 1.0), "epsilon must be"),
            (curve.delta(bad).map(|found| found.0), "epsilon must be"),
            (gaussian::epsilon(1e-5, bad), "mu must be"),
            (zcdp::epsilon(1e-5, bad), "rho must be"),
            (zcdp::simple_epsilon(1e-5, bad), "rho must be"),
            (divergence(bad.min(1.0), 0.1, 1.0), "order must be"),
            (divergence(2.0, 0.1, bad), "noise multiplier must be"),
            (rdp::WithoutReplacement::new(0.1, bad).map(|_| 0.0), "mu must be"),
        ] {
            let message = found.unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
    for bad in [0.0, 1.0, -1e-5, 2.0, f64::NAN] {
        for found in [
            calibrate(Gdp, ZeroOut, 1.0, bad, release),
            gaussian::mu(1.0, bad),
            gaussian::epsilon(bad, 1.0),
            zcdp::rho(1.0, bad),
            curve.epsilon(bad).map(|found| found.0),
        ] {
            let message = found.unwrap_err().to_string();
            assert!(message.contains("delta must be"), "{message}");
        }
    }
    assert!(gaussian::delta(-1.0, 1.0).is_err() && gaussian::delta(f64::NAN, 1.0).is_err());
    let error = divergence(2.0, 1.5, 1.0).unwrap_err().to_string();
    assert!(error.contains("sampling rate"), "{error}");
    assert!(rdp::WithoutReplacement::new(0.0, 1.0).is_err());
}

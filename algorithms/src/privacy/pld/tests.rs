//! Golden values, closed forms, bounds on the right side, extremes, errors.

use super::*;
use crate::privacy::examples::{self, poisson, subsampled};
use crate::privacy::{Sampling, calibrate, gaussian};

fn gaussian_with(mu: f64) -> Mechanism {
    examples::gaussian(1.0 / mu)
}

fn laplace(epsilon: f64, steps: usize) -> Mechanism {
    examples::laplace(1.0, epsilon, steps)
}

fn loss(mechanism: &Mechanism) -> PrivacyLoss {
    PrivacyLoss::new(mechanism, Adjacency::AddRemove).unwrap()
}

fn by(accountant: Accountant, mechanism: &Mechanism, delta: f64) -> f64 {
    accountant.epsilon(mechanism, Adjacency::AddRemove, delta).unwrap()
}

/// Asserts that ε by the privacy loss distribution exceeds another bound by no more than the discretisation.
fn assert_no_more(found: f64, bound: f64, what: &str) {
    assert!(found <= bound * (1.0 + 2e-5), "{what}: {found} {bound}");
}

#[test]
fn epsilon_of_a_gaussian_is_never_below_the_truth_and_hardly_above() {
    for mu in [1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4] {
        for delta in [1e-200, 1e-12, 1e-6, 1e-3, 0.1] {
            let truth = gaussian::epsilon(delta, mu).unwrap();
            let Bounds { lower, upper } = loss(&gaussian_with(mu)).epsilon_bounds(delta).unwrap();
            let hardly_above = truth * (1.0 + 2e-4) + 1e-5 * mu;
            let ordered = lower.unwrap() <= truth && truth <= upper && upper <= hardly_above;
            assert!(ordered, "mu {mu}, delta {delta}: {lower:?} {truth:e} {upper:e}");
        }
    }
}

#[test]
fn delta_of_a_gaussian_is_never_below_the_truth_and_hardly_above() {
    for mu in [0.01, 0.3, 1.0, 10.0] {
        for multiple in [0.5, 2.0, 8.0, 20.0] {
            let epsilon = multiple * mu + 0.5 * mu * mu;
            let truth = gaussian::delta(epsilon, mu).unwrap();
            let upper = loss(&gaussian_with(mu)).delta(epsilon).unwrap();
            let hardly_above = upper >= truth && upper <= truth * 1.02;
            assert!(hardly_above, "mu {mu}, epsilon {epsilon}: {upper:e} {truth:e}");
        }
    }
}

/// Far in the tail, against q·Φ̄((y − 1)/σ) + (1 − q − e^ε)·Φ̄(y/σ), y = σ²·ln((e^ε − 1 + q)/q) + 1/2, in 60 digits.
#[test]
fn a_poisson_step_at_the_smallest_deltas_is_never_below_its_closed_form() {
    for (noise, rate, delta, truth) in [
        (0.128_799_557_214_602_9, 0.3, 5.375_560_523_908_558e-248, 289.244_382_340_944),
        (0.125, 0.5, 1e-235, 292.841_869_207_207),
        (0.25, 0.5, 1e-265, 146.188_480_622_879),
        (0.5, 0.5, 1e-295, 74.578_203_241_534_5),
        (0.5, 0.01, 1e-250, 64.550_007_140_776_7),
        (0.125, 0.5, 1e-100, 200.746_150_323_7),
        (1.0, 0.1, 1e-300, 35.083_982_065_294_2),
    ] {
        let found = by(Accountant::Pld, &poisson(noise, rate, 1), delta);
        assert!(
            (truth * (1.0 - 1e-12)..truth * 1.01 + 1e-3).contains(&found),
            "{noise} {rate} {delta:e}: {found} {truth}"
        );
    }
}

#[test]
fn composed_gaussians_on_a_grid_are_the_gaussian_of_their_sum() {
    // Poisson at a rate next to 1 is the Gaussian mechanism, but goes through the grid step by step.
    for (noise, steps) in [(5.0, 10), (30.0, 1000)] {
        let truth = gaussian::epsilon(1e-6, f64::sqrt(steps as f64) / noise).unwrap();
        let found = loss(&poisson(noise, 1.0 - 1e-12, steps)).epsilon(1e-6).unwrap();
        assert!((truth..truth * (1.0 + 3e-5)).contains(&found), "{found} {truth}");
    }
}

#[test]
fn one_laplace_release_has_its_closed_form() {
    // delta(eps) = 1 - e^{(eps - eps0)/2}.
    for epsilon_zero in [0.1_f64, 1.0, 5.0] {
        for share in [0.1, 0.5, 0.9] {
            let epsilon = share * epsilon_zero;
            let truth = -(0.5 * (epsilon - epsilon_zero)).exp_m1();
            let upper = loss(&laplace(epsilon_zero, 1)).delta(epsilon).unwrap();
            assert!(truth <= upper && upper < truth * 1.001, "{epsilon}: {truth} {upper}");
        }
    }
}

#[test]
fn laplace_releases_keep_their_epsilon_at_every_delta_and_calibrate() {
    // The largest loss, Σ ε₀, has the mass 2^{−T}: δ ≥ 2^{−T}(1 − e^{ε − Σ ε₀}).
    for (epsilon_zero, steps) in [(1.0, 1), (0.01, 1), (1.0, 2), (1.0, 5), (0.01, 5), (1.0, 20), (0.1, 20), (0.3, 100)]
    {
        let mechanism = laplace(epsilon_zero, steps);
        let privacy_loss = loss(&mechanism);
        let most = epsilon_zero * steps as f64;
        let mut previous = 0.0;
        for delta in [1e-3, 1e-6, 1e-9, 1e-12, 1e-30] {
            let what = format!("{epsilon_zero} {steps} {delta:e}");
            let found = privacy_loss.epsilon(delta).unwrap();
            let least = most + (-delta * 2_f64.powi(steps as i32)).max(-1.0).ln_1p();
            let rises = found >= least * (1.0 - 1e-12) && found >= previous * (1.0 - 2e-5);
            assert!(rises && found <= most, "{what}: {found}");
            assert_no_more(found, by(Accountant::Rdp, &mechanism, delta), &what);
            previous = found;
        }
    }
    for (epsilon, delta, steps) in [(1.0, 1e-9, 1), (1.0, 1e-6, 2), (2.0, 1e-9, 5), (0.1, 1e-6, 40), (20.0, 1e-9, 20)] {
        let at = |scale| examples::laplace(scale, 1.0, steps);
        let [by_pld, by_rdp] = [Accountant::Pld, Accountant::Rdp]
            .map(|accountant| calibrate(accountant, Adjacency::AddRemove, epsilon, delta, at).unwrap());
        assert_no_more(by_pld, by_rdp, &format!("{epsilon} {delta:e} {steps}"));
        assert!(loss(&at(by_pld)).epsilon(delta).unwrap() <= epsilon);
    }
}

#[test]
fn composed_laplace_gains_over_pure_addition_and_over_rdp() {
    let mechanism = laplace(0.1, 100);
    let [by_pld, by_rdp] = [Accountant::Pld, Accountant::Rdp].map(|accountant| by(accountant, &mechanism, 1e-6));
    let pure = by(Accountant::Pure, &mechanism, 0.0);
    assert!(by_pld < by_rdp && by_rdp < pure, "{by_pld} {by_rdp} {pure}");
}

#[test]
fn unlike_steps_compose() {
    // Reference library 0.6.0, PLD at discretisation 1e-5, delta 1e-6.
    let parts = vec![poisson(1.0, 0.01, 300), poisson(0.8, 0.02, 50), gaussian_with(0.25), laplace(0.05, 4)];
    let found = loss(&Mechanism::Composition(parts)).epsilon(1e-6).unwrap();
    assert!((found / 3.094_910_360_964_775 - 1.0).abs() < 1e-4, "{found}");
}

#[test]
fn the_two_directions_are_composed_separately() {
    let privacy_loss = loss(&poisson(1.0, 0.2, 20));
    assert_eq!(privacy_loss.directions.len(), 2);
    let [remove, add] = [0, 1].map(|direction| {
        let single = PrivacyLoss {
            directions: vec![privacy_loss.directions[direction].clone()],
            interval: Interval::Automatic,
            laws: OnceLock::new(),
            renyi: None,
            is_rough: false,
        };
        single.epsilon(1e-5).unwrap()
    });
    // Reference library, PLD at 1e-5: the two directions by themselves.
    examples::assert_relative(remove, 6.616_136_668_435_563, 1e-4, "removal");
    examples::assert_relative(add, 2.716_935_335_126_016, 1e-4, "addition");
    assert_eq!(privacy_loss.epsilon(1e-5).unwrap(), remove.max(add));
    assert_eq!(loss(&laplace(1.0, 3)).directions.len(), 1);
}

#[test]
fn pld_never_exceeds_rdp_by_more_than_the_discretisation() {
    for noise in [0.4, 1.0, 10.0] {
        for rate in [1e-4, 0.05, 0.9] {
            for steps in [1, 30, 5000] {
                let mechanism = poisson(noise, rate, steps);
                let (found, by_rdp) = (by(Accountant::Pld, &mechanism, 1e-5), by(Accountant::Rdp, &mechanism, 1e-5));
                assert_no_more(found, by_rdp, &format!("{mechanism}, noise {noise}"));
            }
        }
    }
}

#[test]
fn a_coarser_grid_gives_a_larger_upper_and_a_smaller_lower_bound() {
    let mechanism = poisson(1.0, 0.01, 200);
    let on_grid = |interval| loss(&mechanism).with_interval(interval).unwrap();
    let [fine, coarse] = [1e-4, 2e-3].map(|interval| on_grid(interval).epsilon_bounds(1e-5).unwrap());
    assert!(fine.upper < coarse.upper && fine.lower > coarse.lower);
    let accurate = loss(&mechanism).with_relative_accuracy(1e-3).unwrap();
    let found = accurate.epsilon(1e-5).unwrap();
    assert!(found > fine.upper && found < fine.upper * 1.002, "{found} {fine:?}");
}

/// Grids on which neighbouring cells lie some e^30 apart under the tilt of a small δ.
#[test]
fn a_grid_far_too_coarse_keeps_its_bounds_or_is_refused() {
    for (noise, rate, steps, delta, interval) in [
        (20.0, 0.01, 2, 1e-7, 0.15),
        (20.0, 0.01, 2, 1e-7, 0.2),
        (20.0, 0.01, 2, 1e-7, 2.0),
        (40.4, 1.15e-4, 100, 1.2e-8, 0.127),
        (5.0, 0.1, 10, 1e-5, 0.1),
        (1.0, 0.1, 10, 1e-30, 0.5),
    ] {
        let mechanism = poisson(noise, rate, steps);
        let truth = loss(&mechanism).epsilon_bounds(delta).unwrap();
        match loss(&mechanism).with_interval(interval).unwrap().epsilon_bounds(delta) {
            Ok(coarse) => {
                assert!(coarse.upper >= truth.lower.unwrap() && coarse.lower <= Some(truth.upper), "{coarse:?}");
            }
            Err(error) => assert!(matches!(error, PrivacyError::Resolution { .. }), "{error}"),
        }
    }
    // The widest that is taken still has both bounds.
    let widest = loss(&poisson(0.05, 1e-6, 1)).with_interval(700.0).unwrap().epsilon_bounds(1e-14).unwrap();
    assert!(widest.lower == Some(0.0) && (297.0..=700.0).contains(&widest.upper), "{widest:?}");
    let coarse = loss(&poisson(5.0, 0.1, 10)).with_interval(0.1).unwrap().epsilon_bounds(1e-5).unwrap();
    assert!(coarse.lower > Some(0.09), "{coarse:?}");
}

#[test]
fn what_is_out_of_numerical_reach_is_an_error() {
    let fine = loss(&poisson(1.0, 0.01, 100)).with_interval(1e-9).unwrap();
    let error = fine.epsilon(1e-5).unwrap_err();
    assert!(matches!(error, PrivacyError::TooFineDiscretization { .. }), "{error}");
    assert!(error.to_string().contains("choose one of at least"), "{error}");
    let accurate = loss(&poisson(1.0, 0.01, 1_000_000)).with_relative_accuracy(1e-12);
    let error = accurate.unwrap().epsilon(1e-5).unwrap_err();
    assert!(matches!(error, PrivacyError::TooFineDiscretization { .. }), "{error}");
    for bad in [0.0, -1.0, f64::NAN, 701.0, 1e300, f64::INFINITY] {
        let one = || loss(&poisson(1.0, 0.1, 1));
        let error = one().with_interval(bad).unwrap_err().to_string();
        assert!(error.contains("the discretization"), "{error}");
        let error = one().with_relative_accuracy(bad).unwrap_err().to_string();
        assert!(error.contains("the relative accuracy"), "{error}");
    }
    // So many steps that the rounding of the transforms alone exceeds delta.
    let error = loss(&poisson(1e10, 0.5, 1_usize << 60)).epsilon(1e-5).unwrap_err();
    assert!(matches!(error, PrivacyError::Resolution { .. }), "{error}");
    assert!(error.to_string().contains("epsilon is too large for the pld accountant"), "{error}");
    let error = PrivacyError::Resolution { accountant: Accountant::Pld, delta: 1e-12, resolution: 1e-11 };
    assert!(error.to_string().contains("raise delta or take the rdp"), "{error}");
    // Losses up to 5·10⁹ would take hours of quadrature.
    let error = loss(&poisson(1e-5, 0.01, 10)).epsilon(1e-5).unwrap_err();
    assert!(matches!(error, PrivacyError::WideLosses { .. }), "{error}");
    let without = Sampling::WithoutReplacement { batch: 3, population: 9 };
    let mechanism = subsampled(1.0, without, 1);
    let error = PrivacyLoss::new(&mechanism, Adjacency::ReplaceOne).unwrap_err();
    assert!(matches!(error, PrivacyError::RefusedAccountant { .. }), "{error}");
    assert!(error.to_string().contains("rdp"), "{error}");
}

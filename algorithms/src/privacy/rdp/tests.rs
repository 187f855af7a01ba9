//! Golden values, agreement of the two evaluations, and the laws every Rényi curve obeys.

use super::*;
use crate::privacy::examples::{assert_relative, poisson};
use crate::privacy::gaussian as analytic;

/// The name of a case in a failure.
fn at(order: f64, noise: f64, rate: f64) -> String {
    format!("order {order}, noise {noise}, rate {rate}")
}

#[test]
fn golden_divergences_of_the_subsampled_gaussian() {
    // reference values, reference accounting library.
    const ORDERS: [f64; 8] = [2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    #[rustfmt::skip]
    let rows: [(f64, f64, [f64; 8]); 5] = [
        (1.0, 0.01, [0.000_171_813_422_075, 0.000_264_637_574_585, 0.000_468_667_242_169, 0.000_893_643_907_606,
            3.087_850_783_7, 11.246_275_937, 27.321_731_874_6, 59.358_568_631_4]),
        (2.5, 0.01, [1.735_093_657_08e-5, 2.607_372_169_26e-5, 4.361_513_124_62e-5, 7.017_055_184_47e-5,
            0.000_142_461_684_001, 0.000_293_979_484_911, 0.446_037_587_332, 5.598_568_780_79]),
        (0.7, 0.001, [6.696_867_386_3e-6, 1.026_267_406_46e-5, 1.826_862_140_92e-5, 0.289_592_916_511,
            8.958_258_314_72, 25.522_475_130_1, 58.288_720_260_8, 123.650_097_845]),
        (4.0, 0.1, [0.000_644_736_701_796, 0.000_972_843_281_937, 0.001_640_987_435_23, 0.002_674_498_619_8,
            0.005_635_518_058_13, 0.012_720_223_446_9, 0.037_999_885_906_2, 1.682_561_837_51]),
        (1.1, 0.004_266_666_667, [2.339_577_601e-5, 3.536_769_897_2e-5, 5.990_213_552_35e-5, 9.834_106_177_99e-5,
            0.791_891_432_782, 7.590_188_346_21, 20.902_740_779_2, 47.392_671_693_9]),
    ];
    for (noise, rate, values) in rows {
        for (order, expected) in ORDERS.into_iter().zip(values) {
            let found = poisson_subsampled_gaussian(order, rate, noise).unwrap();
            assert_relative(found, expected, 1e-9, &at(order, noise, rate));
        }
    }
}

#[test]
fn golden_divergences_at_fractional_orders() {
    // reference values (40-digit quadrature) and specification 2.6: (rate, noise, order, divergence, digits given).
    for (rate, noise, order, expected, tolerance) in [
        (0.01, 1.0, 1.5, 1.272_537_433_274_5e-4, 1e-12),
        (0.01, 1.0, 3.0, 2.646_375_745_846_61e-4, 1e-13),
        (0.1, 4.0, 1.5, 4.821_344_823_229_76e-4, 1e-13),
        (0.1, 4.0, 2.5, 8.083_025_497_276_39e-4, 1e-13),
        (0.01, 1.0, 2.0, 1.718_134_22e-4, 3e-9),
        (0.01, 1.1, 8.0, 5.840_703_36e-4, 3e-9),
        (0.1, 2.0, 16.0, 0.045_291_839_1, 3e-9),
        (0.01, 1.0, 2.5, 2.175_753_32e-4, 3e-9),
        (0.05, 1.3, 1.5, 1.478_401_85e-3, 4e-9),
        (0.1, 2.0, 16.5, 0.050_075_138_4, 3e-9),
    ] {
        let found = poisson_subsampled_gaussian(order, rate, noise).unwrap();
        assert_relative(found, expected, tolerance, &at(order, noise, rate));
    }
}

#[test]
fn quadrature_and_binomial_sum_agree_at_integer_orders() {
    for noise in [0.3, 0.8, 1.0, 2.7, 3.0, 20.0, 1e4] {
        for rate in [1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999_999] {
            for order in [2.0, 3.0, 7.0, 40.0] {
                let sum = log_moment_by_binomials(order, rate, noise);
                let integral = log_moment_by_quadrature(order, rate, noise).unwrap();
                assert_relative(integral, sum, 2e-12, &at(order, noise, rate));
            }
        }
    }
}

#[test]
fn divergence_never_decreases_in_the_order_and_stays_below_the_unsampled_one() {
    for noise in [0.1, 0.5, 1.0, 4.0, 100.0, 1e4] {
        for rate in [1e-6, 1e-3, 0.04, 0.5, 0.99, 1.0] {
            let mut previous = 0.0;
            for step in 0..160 {
                let order = 1.0 + (-6.0 + 0.07 * f64::from(step)).exp();
                let value = poisson_subsampled_gaussian(order, rate, noise).unwrap();
                let bounded = value <= gaussian(order, 1.0 / noise) * (1.0 + 1e-12);
                let rising = value.is_finite() && value >= previous * (1.0 - 1e-12);
                assert!(bounded && rising, "{}: {value:e}", at(order, noise, rate));
                previous = value;
            }
        }
    }
}

#[test]
fn without_replacement_is_monotone_and_bounded_by_the_whole_batch() {
    for mu in [1e-4, 0.05, 1.0, 5.0] {
        for rate in [1e-6, 0.01, 0.5, 1.0] {
            let curve = WithoutReplacement::new(rate, mu).unwrap();
            let mut previous = 0.0;
            for step in 0..100 {
                let order = 1.0 + (-3.0 + 0.12 * f64::from(step)).exp();
                let value = curve.divergence(order);
                let bounded = value.is_finite() && value <= gaussian(order, mu) * (1.0 + 1e-12);
                let rising = value >= previous * (1.0 - 1e-9);
                assert!(bounded && rising, "{mu} {rate} {order}: {value:e} after {previous:e}");
                previous = value;
            }
        }
    }
}

#[test]
fn even_moments_match_their_alternating_sums() {
    // E[(dP/dQ - 1)^l] = sum_i (-1)^i C(l, i) e^{i(i-1)mu^2/2}; 4th moment at mu = 1.
    let expected = (6.0_f64.exp() - 4.0 * 3.0_f64.exp() + 6.0 * 1.0_f64.exp() - 3.0).ln();
    let moment = WithoutReplacement::log_even_moment;
    assert_relative(moment(4, 1.0), expected, 1e-13, "fourth moment");
    assert_relative(moment(2, 1e-3), 1e-6_f64.exp_m1().ln(), 1e-13, "second moment");
    assert!(moment(0, 2.0).abs() < 1e-13);
}

#[test]
fn laplace_and_randomised_response_curves_run_from_zero_to_epsilon() {
    for epsilon in [1e-9, 1e-4, 0.5, 3.0, 50.0] {
        let (mut previous_laplace, mut previous_response) = (0.0, 0.0);
        for step in 0..200 {
            let order = 1.0 + (-8.0 + 0.12 * f64::from(step)).exp();
            let (lap, response) = (laplace(order, epsilon), randomized_response(order, epsilon));
            assert!(lap >= previous_laplace * (1.0 - 1e-9) && response >= previous_response * (1.0 - 1e-9));
            let ordered = lap <= response * (1.0 + 1e-9) && response <= epsilon * (1.0 + 1e-12);
            assert!(ordered, "{order} {epsilon}");
            (previous_laplace, previous_response) = (lap, response);
        }
    }
    // The series and the closed form meet: alpha * epsilon = 0.1.
    let below = laplace(2.0, 0.05 * (1.0 - 1e-12));
    assert_relative(below, laplace(2.0, 0.05), 1e-10, "branches");
    // Order 2, epsilon 1: ln(2/3 e + 1/3 e^-2).
    let expected = (2.0 / 3.0 * 1f64.exp() + (-2f64).exp() / 3.0).ln();
    assert_relative(laplace(2.0, 1.0), expected, 1e-14, "order 2");
}

#[test]
fn rdp_never_undercuts_the_exact_gaussian_and_full_rate_is_the_gaussian() {
    for noise in [0.2, 1.0, 30.0, 1e4] {
        for steps in [1, 1000, 1_000_000] {
            let whole = RenyiCurve::new(&poisson(noise, 1.0, steps), Adjacency::AddRemove).unwrap();
            let (bound, _) = whole.epsilon(1e-6).unwrap();
            let exact = analytic::epsilon(1e-6, (steps as f64).sqrt() / noise).unwrap();
            assert!(bound >= exact && bound.is_finite());
        }
    }
}

//! Tests through the public interface: the tables of the specification and refusals.

use rounds_numerics::Mat;

use super::*;

fn prefix(rounds: usize) -> Workload {
    Workload::new(rounds, WorkloadSpecification::prefix()).unwrap()
}

fn factorize(rounds: usize, method: Method) -> Factorization {
    FactorizationRequest::new(prefix(rounds), Participation::Single, method)
        .factorize()
        .unwrap()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < tolerance, "{found} {expected}");
    }
}

#[test]
fn trees_of_eight_rounds_have_the_reference_variances() {
    // Node variance 1: divide by the sensitivity. [specification 3.2]
    for (variant, expected, total) in [
        (TreeVariant::Plain, [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 3.0, 1.0], 7.2111),
        (
            TreeVariant::HonakerOnline,
            [1.0, 0.6667, 1.6667, 0.5714, 1.5714, 1.2381, 2.2381, 0.5333],
            6.1598,
        ),
        (
            TreeVariant::HonakerFull,
            [0.6095, 0.4381, 0.8190, 0.4190, 0.9524, 0.7048, 1.0095, 0.5333],
            4.6843,
        ),
    ] {
        let found = factorize(8, Method::Tree(variant));
        let sensitivity = found.sensitivity().value;
        assert!((sensitivity - 2.0).abs() < 1e-12);
        let variances: Vec<f64> = found
            .row_errors()
            .iter()
            .map(|error| (error / sensitivity).powi(2))
            .collect();
        assert_close(&variances, &expected, 6e-5);
        // The specification multiplies ‖B‖_F by the sensitivity 2.
        assert!(
            (found.frobenius() - total).abs() < 1e-4,
            "{variant:?}: {}",
            found.frobenius()
        );
    }
}

#[test]
fn trees_of_many_rounds_have_the_reference_mean_errors() {
    for (variant, mean) in [
        (TreeVariant::HonakerOnline, 26.521_627_058),
        (TreeVariant::HonakerFull, 11.521_627_058),
    ] {
        let found = factorize(512, Method::Tree(variant)).rms_error().powi(2);
        assert!((found - mean).abs() < 1e-8, "{variant:?}: {found}");
    }
}

#[test]
fn the_square_root_has_the_reference_errors() {
    for (rounds, expected) in [(8, 20.119_55), (64, 318.173_26), (256, 1_823.334_18), (4, 7.633_26)] {
        let found = factorize(rounds, Method::Toeplitz).frobenius().powi(2);
        assert!((found - expected).abs() < 1e-4, "{rounds}: {found}");
    }
    for (rounds, squared_sensitivity) in [
        (8, 1.718_379_259),
        (128, 2.610_103_865),
        (1024, 3.272_554_150),
        (2048, 3.493_228_601),
    ] {
        let found = factorize(rounds, Method::Toeplitz);
        assert!((found.max_error() - squared_sensitivity).abs() < 1e-8);
    }
    let workload = Workload::new(
        64,
        WorkloadSpecification::prefix()
            .with_momentum(0.9)
            .with_decay((-2.5_f64).exp()),
    )
    .unwrap();
    let found = FactorizationRequest::new(workload.clone(), Participation::Single, Method::Toeplitz)
        .factorize()
        .unwrap();
    assert!((found.frobenius() - 106.917).abs() < 1e-3, "{}", found.frobenius());
    // C optimised for the prefix sum, used on the true workload.
    let ones = factorize(64, Method::Optimal).strategy().clone();
    let found = Factorization::evaluate(workload, Participation::Single, ones).unwrap();
    assert!((found.frobenius() - 112.839).abs() < 2e-2, "{}", found.frobenius());
}

#[test]
fn fixed_epochs_have_the_reference_errors() {
    for (method, expected) in [(Method::Identity, 91.214), (Method::Toeplitz, 45.709)] {
        let request = FactorizationRequest::new(prefix(64), Participation::FixedEpoch { epochs: 4 }, method);
        let found = request.factorize().unwrap();
        assert!(
            (found.frobenius() - expected).abs() < 1e-3,
            "{method}: {}",
            found.frobenius()
        );
        assert_eq!(found.sensitivity().exactness, Exactness::Exact);
    }
}

#[test]
fn the_worst_rows_of_a_thousand_rounds_have_the_reference_ratios() {
    let root = factorize(1024, Method::Toeplitz).max_error();
    for (method, expected, tolerance) in [
        (Method::Tree(TreeVariant::Plain), 3.20, 0.01),
        (Method::Tree(TreeVariant::HonakerOnline), 2.44, 0.01),
        (Method::Identity, 9.78, 0.01),
    ] {
        let found = factorize(1024, method).max_error() / root;
        assert!((found - expected).abs() < tolerance, "{method}: {found}");
    }
}

#[test]
fn every_form_has_one_error_whether_measured_by_columns_or_by_its_matrix() {
    for method in [
        "optimal",
        "banded=4",
        "blt=2",
        "toeplitz",
        "tree",
        "honaker-online",
        "honaker-full",
        "identity",
    ] {
        let method: Method = method.parse().unwrap();
        for specification in [
            WorkloadSpecification::prefix(),
            WorkloadSpecification::prefix().with_momentum(0.6),
            WorkloadSpecification::prefix().with_lambda_tau(Some(5)),
            WorkloadSpecification::prefix().with_learning_rates((1..=20).map(|t| 1.0 / f64::from(t)).collect()),
        ] {
            let workload = Workload::new(20, specification).unwrap();
            let found = FactorizationRequest::new(workload, Participation::FixedEpoch { epochs: 4 }, method);
            let found = found.factorize().unwrap();
            let matrix = found.error_matrix().unwrap();
            let errors: Vec<f64> = (0..20)
                .map(|row| {
                    matrix.row(row).iter().map(|entry| entry * entry).sum::<f64>().sqrt() * found.sensitivity().value
                })
                .collect();
            assert_close(&errors, &found.row_errors(), 1e-9 * found.max_error());
            // B·C = A; for trees with the node matrix C.
            let product = &matrix * found.strategy().matrix();
            let workload = found.workload().matrix();
            for row in 0..20 {
                for column in 0..20 {
                    assert!(
                        (product[(row, column)] - workload[(row, column)]).abs() < 1e-9,
                        "{method} ({row}, {column})"
                    );
                }
            }
        }
    }
}

#[test]
fn no_method_beats_the_optimum() {
    for participation in [Participation::Single, Participation::FixedEpoch { epochs: 4 }] {
        let error = |method: &str| {
            let request = FactorizationRequest::new(prefix(64), participation, method.parse().unwrap());
            request.factorize().unwrap().frobenius()
        };
        let least = error("optimal");
        for method in [
            "banded=16",
            "blt=3",
            "toeplitz",
            "tree",
            "honaker-online",
            "honaker-full",
            "identity",
        ] {
            assert!(error(method) > least * (1.0 - 1e-6), "{method}");
        }
        assert!(error("banded=16") < 1.1 * least);
        assert!(error("blt=3") < 1.35 * least, "{}", error("blt=3") / least);
    }
}

#[test]
fn sensitivities_of_every_method_cover_all_sign_patterns() {
    let (rounds, epochs) = (12, 3);
    for method in [
        "optimal",
        "banded=4",
        "banded=7",
        "blt=2",
        "toeplitz",
        "tree",
        "honaker-online",
        "honaker-full",
    ] {
        let participation = Participation::FixedEpoch { epochs };
        let request = FactorizationRequest::new(prefix(rounds), participation, method.parse().unwrap());
        let found = request.factorize().unwrap();
        let matrix = found.strategy().matrix();
        let mut largest: f64 = 0.0;
        for start in 0..rounds / epochs {
            for signs in 0..1 << epochs {
                let sum = |row: usize| -> f64 {
                    (0..epochs)
                        .map(|e| if signs >> e & 1 == 1 { -1.0 } else { 1.0 } * matrix[(row, start + e * rounds / epochs)])
                        .sum()
                };
                largest = largest.max((0..matrix.nrows()).map(|row| sum(row).powi(2)).sum());
            }
        }
        let value = found.sensitivity().value;
        assert!(
            value >= largest.sqrt() * (1.0 - 1e-12),
            "{method}: {value} {}",
            largest.sqrt()
        );
        if found.sensitivity().exactness == Exactness::Exact {
            assert!(
                value <= largest.sqrt() * (1.0 + 1e-12),
                "{method}: {value} {}",
                largest.sqrt()
            );
        }
    }
}

#[test]
fn methods_are_read_and_written() {
    for text in [
        "optimal",
        "banded=32",
        "blt=3",
        "toeplitz",
        "tree",
        "honaker-online",
        "honaker-full",
        "identity",
    ] {
        assert_eq!(text.parse::<Method>().unwrap().to_string(), text);
    }
    for text in ["", "banded", "banded=0", "blt=-1", "optimal=3", "cholesky"] {
        assert!(
            matches!(text.parse::<Method>(), Err(FactorizationError::Unreadable { .. })),
            "{text}"
        );
    }
}

#[test]
fn factors_from_outside_are_checked() {
    let good = factorize(6, Method::Optimal);
    let (strategy, errors) = (good.strategy().matrix(), good.error_matrix().unwrap());
    let check = |strategy: Mat<f64>, errors: Option<&Mat<f64>>, sensitivity| {
        Factorization::from_matrices(
            prefix(6),
            Participation::Single,
            strategy,
            errors.map(Mat::as_ref),
            sensitivity,
        )
    };
    let taken = check(strategy.clone(), Some(&errors), Some(1.0)).unwrap();
    assert!((taken.frobenius() - good.frobenius()).abs() < 1e-12);

    let mut upper = strategy.clone();
    upper[(1, 3)] = 0.1;
    assert!(matches!(
        check(upper, None, None),
        Err(FactorizationError::NotLowerTriangular { row: 1, column: 3, .. })
    ));
    let mut singular = strategy.clone();
    singular[(2, 2)] = 0.0;
    assert!(matches!(
        check(singular, None, None),
        Err(FactorizationError::Singular { row: 2, .. })
    ));
    let mut infinite = strategy.clone();
    infinite[(4, 1)] = f64::INFINITY;
    assert!(matches!(
        check(infinite, None, None),
        Err(FactorizationError::NotFinite { row: 4, column: 1, .. })
    ));
    assert!(matches!(
        check(Mat::identity(5, 5), None, None),
        Err(FactorizationError::ShapeMismatch {
            name: "C",
            rows: 5,
            expected: 6,
            ..
        })
    ));
    assert!(matches!(
        check(strategy.clone(), Some(&Mat::identity(5, 6)), None),
        Err(FactorizationError::ShapeMismatch { name: "B", rows: 5, .. })
    ));
    let mut wrong = errors.clone();
    wrong[(5, 2)] += 1e-3;
    assert!(matches!(
        check(strategy.clone(), Some(&wrong), None),
        Err(FactorizationError::ProductMismatch { row: 5, .. })
    ));
    assert!(matches!(
        check(strategy.clone(), Some(&errors), Some(0.9)),
        Err(FactorizationError::SensitivityMismatch { .. })
    ));
    // C⁻¹ of a bidiagonal matrix with −4 below a unit diagonal grows like 4ᵗ.
    let growing = Mat::from_fn(600, 600, |row, column| {
        if row == column {
            1.0
        } else if row == column + 1 {
            -4.0
        } else {
            0.0
        }
    });
    let found = Factorization::from_matrices(prefix(600), Participation::Single, growing, None, None);
    assert!(matches!(found, Err(FactorizationError::InverseOverflow { .. })));
}

#[test]
fn messages_say_what_was_expected_and_found() {
    let message = FactorizationRequest::new(prefix(4), Participation::FixedEpoch { epochs: 5 }, Method::Identity)
        .factorize()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("5 epochs") && message.contains("4 rounds"),
        "{message}"
    );
    let message = FactorizationRequest::new(prefix(4), Participation::Single, Method::Banded { bands: 9 })
        .factorize()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("bands = 9") && message.contains("1 ≤ b ≤ T"),
        "{message}"
    );
}

#[test]
fn a_given_c_whose_computed_inverse_is_none_is_refused_with_where_it_fails() {
    // Ones on the diagonal and c below have an inverse that grows like (1 − c)^t: X·C cancels numbers that large.
    let ill = |rounds: usize, below: f64| {
        let strategy = Mat::from_fn(rounds, rounds, |row, column| match row.cmp(&column) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => below,
        });
        Factorization::from_matrices(prefix(rounds), Participation::Single, strategy, None, None)
    };
    let refused = ill(40, -1.3).unwrap_err();
    let FactorizationError::InverseMismatch {
        row,
        column,
        difference,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert!(row > column && difference > 1e-9, "{difference} at ({row}, {column})");
    assert!(refused.to_string().contains("badly conditioned"), "{refused}");
    // The same matrix with fewer rounds, or one whose inverse stays small, passes.
    assert!(ill(10, -1.3).is_ok());
    assert!(ill(200, 0.3).is_ok());
}

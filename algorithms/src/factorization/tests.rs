//! Tests through the public interface: the tables of the specification and refusals.

use rounds_numerics::Mat;

use super::workload::{apply_lambda_tau, columns_of, matrix_of, matrix_of_map};
use super::*;
use crate::noise::lattice::EXCESS;

impl Strategy {
    /// B = A·C⁻¹, T × T (T × nodes for trees).
    ///
    /// # Errors
    /// `InverseOverflow`, `Singular`.
    pub(crate) fn error_matrix(&self, workload: &Workload) -> Result<Mat<f64>, FactorizationError> {
        let noise = self.noise_matrix()?;
        let columns = noise.ncols();
        let write = columns_of(noise);
        Ok(matrix_of(self.rounds(), columns, |column, values| {
            write(column, values);
            workload.apply_in_place(values);
        }))
    }
}

/// Λ_τ as a matrix, T × T.
pub(crate) fn lambda_tau_matrix(rounds: usize, period: usize) -> Mat<f64> {
    matrix_of_map(rounds, |values| apply_lambda_tau(period, values))
}

/// The specification of prefix sums.
pub(super) fn sums() -> WorkloadSpecification {
    WorkloadSpecification::prefix()
}

/// The workload of prefix sums.
pub(super) fn prefix(rounds: usize) -> Workload {
    Workload::new(rounds, sums()).unwrap()
}

/// At most k participations, at least b rounds apart.
pub(super) fn separated(participations: usize, separation: usize) -> Participation {
    Participation::MinimumSeparation { participations, separation }
}

/// C with these Toeplitz coefficients, as rows.
pub(super) fn toeplitz_rows(coefficients: &[f64]) -> Vec<Vec<f64>> {
    let row = |t: usize| (0..coefficients.len()).map(move |s| if s <= t { coefficients[t - s] } else { 0.0 }).collect();
    (0..coefficients.len()).map(row).collect()
}

/// All sets of at most k rounds that are at least b apart.
pub(super) fn separated_sets(
    rounds: usize,
    participations: usize,
    separation: usize,
) -> impl Iterator<Item = Vec<usize>> {
    (0..1_u32 << rounds)
        .map(move |mask| (0..rounds).filter(|round| mask >> round & 1 == 1).collect::<Vec<_>>())
        .filter(move |set| set.len() <= participations && set.windows(2).all(|pair| pair[1] - pair[0] >= separation))
}

/// max over the patterns and all sign vectors of ‖Σ ± C_{:,i}‖.
pub(super) fn largest_signed_norm(matrix: &[Vec<f64>], patterns: &[Vec<usize>]) -> f64 {
    let mut largest: f64 = 0.0;
    for pattern in patterns {
        for signs in 0..1_u32 << pattern.len() {
            let sign = |bit: usize| if signs >> bit & 1 == 1 { -1.0 } else { 1.0 };
            let sum = |row: &Vec<f64>| -> f64 { pattern.iter().enumerate().map(|(bit, &i)| sign(bit) * row[i]).sum() };
            largest = largest.max(matrix.iter().map(|row| sum(row).powi(2)).sum());
        }
    }
    largest.sqrt()
}

/// A small linear congruential sequence in [−1, 1], enough to vary test matrices.
pub(super) fn sequence(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Asserts that the gradient at `point` is that of central differences of this step.
pub(super) fn assert_gradient(
    point: &[f64],
    gradient: &[f64],
    (step, tolerance): (f64, f64),
    value: impl Fn(&[f64]) -> f64,
) {
    for index in 0..point.len() {
        let [above, below] = [step, -step].map(|step| {
            let mut moved = point.to_vec();
            moved[index] += step;
            value(&moved)
        });
        let error = (above - below) / (2.0 * step) - gradient[index];
        assert!(error.abs() < tolerance, "{index}: off by {error}");
    }
}

fn factorize(rounds: usize, method: Method) -> Factorization {
    let request = FactorizationRequest::new(prefix(rounds), Participation::Single, method);
    request.factorize().unwrap()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < tolerance, "{found} {expected}");
    }
}

#[test]
fn sensitivities_that_nearest_rounding_makes_too_small_are_covered_by_the_excess_of_noise() {
    // Squares of 2⁻²⁷ vanish beside 1 in a sum that is rounded to nearest.
    let mut coefficients = vec![2.0_f64.powi(-27); 65];
    coefficients[0] = 1.0;
    for participation in [Participation::Single, Participation::epochs(2), separated(3, 20)] {
        let (most, apart) = (participation.participations(65), participation.separation(65));
        let entry =
            |row: usize, start: usize| if row < start { 0 } else { 1_u128 << if row == start { 27 } else { 0 } };
        let row = |row: usize| (0..65).step_by(apart).take(most).map(|start| entry(row, start)).sum::<u128>().pow(2);
        let exact = (0..65).map(row).sum::<u128>() << 50;
        for strategy in [
            Strategy::Toeplitz { coefficients: coefficients.clone() },
            Strategy::Banded(BandedStrategy::toeplitz(65, &coefficients)),
            Strategy::Dense(Strategy::Toeplitz { coefficients: coefficients.clone() }.matrix()),
        ] {
            let found = Factorization::evaluate(prefix(65), participation, strategy).unwrap().sensitivity().value;
            let squared = |value: f64| ((value * 2.0_f64.powi(52)) as u128).pow(2);
            assert!(squared(found) < exact || participation != Participation::Single);
            assert!(squared(found * EXCESS) >= exact, "{participation:?}");
        }
    }
}

#[test]
fn trees_of_eight_rounds_have_the_reference_variances() {
    // Node variance 1: divide by the sensitivity. [specification 3.2]
    for (variant, expected) in [
        (TreeVariant::Plain, [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 3.0, 1.0]),
        (TreeVariant::HonakerOnline, [1.0, 0.6667, 1.6667, 0.5714, 1.5714, 1.2381, 2.2381, 0.5333]),
        (TreeVariant::HonakerFull, [0.6095, 0.4381, 0.8190, 0.4190, 0.9524, 0.7048, 1.0095, 0.5333]),
    ] {
        let found = factorize(8, Method::Tree(variant));
        let sensitivity = found.sensitivity().value;
        assert!((sensitivity - 2.0).abs() < 1e-12);
        let errors = found.row_errors().into_iter();
        let variances: Vec<f64> = errors.map(|error| (error / sensitivity).powi(2)).collect();
        assert_close(&variances, &expected, 6e-5);
    }
}

#[test]
fn closed_forms_have_the_reference_errors() {
    let [frobenius, worst, squared, mean]: [fn(&Factorization) -> f64; 4] = [
        Factorization::frobenius,
        Factorization::max_error,
        |found| found.frobenius().powi(2),
        |found| found.rms_error().powi(2),
    ];
    let decayed = sums().with_momentum(0.9).with_decay((-2.5_f64).exp());
    let four = Participation::FixedEpoch { epochs: 4 };
    let single = Participation::Single;
    for (method, rounds, participation, specification, error, expected, tolerance) in [
        // The specification multiplies ‖B‖_F by the sensitivity 2.
        ("tree", 8, single, sums(), frobenius, 7.2111, 1e-4),
        ("honaker-online", 8, single, sums(), frobenius, 6.1598, 1e-4),
        ("honaker-full", 8, single, sums(), frobenius, 4.6843, 1e-4),
        ("honaker-online", 512, single, sums(), mean, 26.521_627_058, 1e-8),
        ("honaker-full", 512, single, sums(), mean, 11.521_627_058, 1e-8),
        ("toeplitz", 8, single, sums(), squared, 20.119_55, 1e-4),
        ("toeplitz", 64, single, sums(), squared, 318.173_26, 1e-4),
        ("toeplitz", 256, single, sums(), squared, 1_823.334_18, 1e-4),
        ("toeplitz", 4, single, sums(), squared, 7.633_26, 1e-4),
        // The square root's worst row is its squared sensitivity.
        ("toeplitz", 8, single, sums(), worst, 1.718_379_259, 1e-8),
        ("toeplitz", 128, single, sums(), worst, 2.610_103_865, 1e-8),
        ("toeplitz", 1024, single, sums(), worst, 3.272_554_150, 1e-8),
        ("toeplitz", 2048, single, sums(), worst, 3.493_228_601, 1e-8),
        ("toeplitz", 64, single, decayed.clone(), frobenius, 106.917, 1e-3),
        ("identity", 64, four, sums(), frobenius, 91.214, 1e-3),
        ("toeplitz", 64, four, sums(), frobenius, 45.709, 1e-3),
        // Ratios to the square root.
        ("tree", 1024, single, sums(), worst, 3.20 * 3.272_554_150, 0.033),
        ("honaker-online", 1024, single, sums(), worst, 2.44 * 3.272_554_150, 0.033),
        ("identity", 1024, single, sums(), worst, 9.78 * 3.272_554_150, 0.033),
    ] {
        let workload = Workload::new(rounds, specification).unwrap();
        let request = FactorizationRequest::new(workload, participation, method.parse().unwrap());
        let found = request.factorize().unwrap();
        let close = (error(&found) - expected).abs() < tolerance;
        assert!(close, "{method}, {rounds} rounds: {} {expected}", error(&found));
        assert_eq!(found.sensitivity().exactness, Exactness::Exact);
    }
    // C optimised for the prefix sum, used on the true workload.
    let workload = Workload::new(64, decayed).unwrap();
    let ones = factorize(64, Method::Optimal).strategy().clone();
    let found = Factorization::evaluate(workload, single, ones).unwrap().frobenius();
    assert!((found - 112.839).abs() < 2e-2, "{found}");
}

/// A text for every method.
const METHODS: [&str; 9] =
    ["optimal", "banded=4", "blt=2", "toeplitz", "fourier", "tree", "honaker-online", "honaker-full", "identity"];

#[test]
fn every_form_has_one_error_whether_measured_by_columns_or_by_its_matrix() {
    for method in METHODS {
        let method: Method = method.parse().unwrap();
        for specification in [
            sums(),
            sums().with_momentum(0.6),
            sums().with_lambda_tau(Some(5)),
            sums().with_learning_rates((1..=20).map(|t| 1.0 / f64::from(t)).collect()),
        ] {
            let workload = Workload::new(20, specification).unwrap();
            let found = FactorizationRequest::new(workload, Participation::FixedEpoch { epochs: 4 }, method);
            let found = found.factorize().unwrap();
            let matrix = found.strategy().error_matrix(found.workload()).unwrap();
            let norm = |row: usize| matrix.row(row).norm_l2() * found.sensitivity().value;
            let errors: Vec<f64> = (0..20).map(norm).collect();
            assert_close(&errors, &found.row_errors(), 1e-9 * found.max_error());
            // B·C = A; for trees with the node matrix C.
            let product = &matrix * found.strategy().matrix();
            let worst = largest_difference(product.as_ref(), found.workload().matrix().as_ref());
            assert!(worst.0 < 1e-9, "{method}: {worst:?}");
        }
    }
}

/// C = Λ^{1/2}·F·[I; 0] entry by entry, as real and imaginary rows.
#[test]
fn dp_fourier_has_the_gram_matrix_of_its_transform() {
    const T: usize = 7;
    for specification in [sums(), sums().with_momentum(0.9).with_decay(0.2)] {
        let workload = Workload::new(T, specification).unwrap();
        let first = workload.matrix();
        let angle = |k: usize, j: usize| std::f64::consts::PI * (k * j) as f64 / T as f64;
        let size = |k: usize| {
            let sum = |part: fn(f64) -> f64| (0..T).map(|j| first[(j, 0)] * part(angle(k, j))).sum::<f64>();
            sum(f64::cos).hypot(sum(f64::sin)).sqrt() / (2.0 * T as f64).sqrt()
        };
        let transform = Mat::from_fn(4 * T, T, |row, j| {
            let angle = angle(row / 2, j);
            size(row / 2) * if row % 2 == 0 { angle.cos() } else { angle.sin() }
        });
        for participation in [Participation::Single, Participation::FixedEpoch { epochs: 7 }] {
            let found =
                FactorizationRequest::new(workload.clone(), participation, Method::Fourier).factorize().unwrap();
            let strategy = found.strategy().matrix();
            let difference = strategy.transpose() * &strategy - transform.transpose() * &transform;
            assert!(difference.norm_max() < 1e-12);
            assert_eq!(found.sensitivity().exactness, Exactness::Exact);
            let column = |j: usize| transform.col(j).norm_l2();
            let all = (0..4 * T).map(|row| transform.row(row).iter().sum::<f64>().powi(2)).sum::<f64>().sqrt();
            let expected = if participation == Participation::Single { column(0) } else { all };
            assert!((found.sensitivity().value / expected - 1.0).abs() < 1e-12, "{:?}", found.sensitivity());
        }
    }
    let errors = [1, 4].map(|epochs| {
        [Method::Fourier, Method::Optimal].map(|method| {
            let request = FactorizationRequest::new(prefix(128), Participation::epochs(epochs), method);
            request.factorize().unwrap().rms_error()
        })
    });
    let expected = [[2.428, 2.311], [6.341, 4.805]];
    let close = errors.as_flattened().iter().zip(expected.as_flattened()).all(|(a, b)| (a - b).abs() < 5e-4);
    assert!(close, "{errors:?}");
}

#[test]
fn no_method_beats_the_optimum() {
    for participation in [Participation::Single, Participation::FixedEpoch { epochs: 4 }] {
        let error = |method: &str| {
            let request = FactorizationRequest::new(prefix(64), participation, method.parse().unwrap());
            request.factorize().unwrap().frobenius()
        };
        let least = error("optimal");
        for method in ["banded=16", "blt=3"].iter().chain(&METHODS[3..]) {
            assert!(error(method) > least * (1.0 - 1e-6), "{method}");
        }
        assert!(error("banded=16") < 1.1 * least);
        assert!(error("blt=3") < 1.35 * least, "{}", error("blt=3") / least);
    }
}

#[test]
fn sensitivities_of_every_method_cover_all_sign_patterns() {
    let participation = Participation::FixedEpoch { epochs: 3 };
    let patterns = participation.patterns(12).unwrap();
    for method in METHODS.iter().chain(&["banded=7"]) {
        let request = FactorizationRequest::new(prefix(12), participation, method.parse().unwrap());
        let found = request.factorize().unwrap();
        let matrix = found.strategy().matrix();
        let rows: Vec<Vec<f64>> = matrix.row_iter().map(|row| row.iter().copied().collect()).collect();
        let (largest, Sensitivity { value, exactness, .. }) =
            (largest_signed_norm(&rows, &patterns), found.sensitivity());
        assert!(value >= largest * (1.0 - 1e-12), "{method}: {value} {largest}");
        let holds = value <= largest * (1.0 + 1e-12) || exactness == Exactness::UpperBound;
        assert!(holds, "{method}: {value} {largest}");
    }
}

#[test]
fn methods_are_read_and_written() {
    for text in METHODS {
        assert_eq!(text.parse::<Method>().unwrap().to_string(), text);
    }
    for text in ["", "banded", "banded=0", "blt=-1", "optimal=3", "cholesky"] {
        let error = text.parse::<Method>().unwrap_err();
        assert!(matches!(error, FactorizationError::Unreadable { .. }), "{text}");
    }
}

type Refused = fn(&FactorizationError) -> bool;

#[test]
fn a_c_from_outside_is_checked() {
    let good = factorize(6, Method::Optimal);
    let strategy = good.strategy().matrix();
    let check = |strategy: Mat<f64>| Factorization::from_matrix(prefix(6), Participation::Single, strategy);
    let taken = check(strategy.clone()).unwrap();
    assert!((taken.frobenius() - good.frobenius()).abs() < 1e-12);

    let entries: [(usize, usize, f64, Refused); 3] = [
        (1, 3, 0.1, |error| matches!(error, FactorizationError::NotLowerTriangular { row: 1, column: 3, .. })),
        (2, 2, 0.0, |error| matches!(error, FactorizationError::Singular { row: 2, .. })),
        (4, 1, f64::INFINITY, |error| matches!(error, FactorizationError::NotFinite { row: 4, column: 1, .. })),
    ];
    for (row, column, value, refused) in entries {
        let mut wrong = strategy.clone();
        wrong[(row, column)] = value;
        let error = check(wrong).unwrap_err();
        assert!(refused(&error), "{error}");
    }
    let shape = |name, rows, columns| FactorizationError::ShapeMismatch { name, rows, columns, expected: 6 };
    assert_eq!(check(Mat::identity(5, 5)).unwrap_err(), shape("C", 5, 5));
    // C⁻¹ of a bidiagonal matrix with −4 below a unit diagonal grows like 4ᵗ.
    let growing = Mat::from_fn(600, 600, |row, column| match row.wrapping_sub(column) {
        0 => 1.0,
        1 => -4.0,
        _ => 0.0,
    });
    let found = Factorization::from_matrix(prefix(600), Participation::Single, growing);
    assert!(matches!(found, Err(FactorizationError::InverseOverflow { .. })));
}

#[test]
fn messages_say_what_was_expected_and_found() {
    for (epochs, method, expected, found) in
        [(5, "identity", "4 rounds", "5 epochs"), (1, "banded=9", "1 ≤ b ≤ T", "bands = 9")]
    {
        let request = FactorizationRequest::new(prefix(4), Participation::epochs(epochs), method.parse().unwrap());
        let message = request.factorize().unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains(found), "{message}");
    }
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
        Factorization::from_matrix(prefix(rounds), Participation::Single, strategy)
    };
    let refused = ill(40, -1.3).unwrap_err();
    let FactorizationError::InverseMismatch { row, column, difference, .. } = refused else { panic!("{refused}") };
    assert!(row > column && difference > 1e-9);
    assert!(refused.to_string().contains("badly conditioned"), "{refused}");
    // The same matrix with fewer rounds, or one whose inverse stays small, passes.
    assert!(ill(10, -1.3).is_ok());
    assert!(ill(200, 0.3).is_ok());
}

//! Every mechanism against its matrix: for given Z the increments equal C⁻¹Z to rounding, and their covariance over many
//! keys equals σ²·C⁻¹C⁻ᵀ.

use rounds_kernels::random::{Purpose, StreamKey, add_gaussian};

use super::anti_correlated::AntiCorrelated;
use super::banded::Banded;
use super::buffered_toeplitz::BufferedToeplitz;
use super::dense::Dense;
use super::honaker::HonakerTree;
use super::tree::Tree;
use super::*;
use crate::factorization::{FactorizationRequest, Method, Workload, WorkloadSpecification};

const ROUNDS: usize = 13;
/// More than one block of coordinates, and no multiple of any lane count.
const DIMENSION: usize = BLOCK_COORDINATES + 37;
const SIGMA: f64 = 1.5;

fn draw(key: &StreamKey, purpose: Purpose, round: u64, dimension: usize) -> Vec<f64> {
    let mut out = vec![0.0; dimension];
    add_gaussian(key, purpose, round, 1.0, &mut out);
    out
}

/// The increments of all rounds.
fn increments(mechanism: &mut dyn NoiseMechanism, rounds: usize, dimension: usize, engine: &Engine) -> Vec<Vec<f64>> {
    (0..rounds)
        .map(|round| {
            let mut sum = vec![0.0; dimension];
            mechanism.add_increment(round as u64, &mut sum, engine).unwrap();
            sum
        })
        .collect()
}

/// `rows·Z`, Z being the draws of `NOISE`.
fn product(rows: &[Vec<f64>], key: &StreamKey, dimension: usize) -> Vec<Vec<f64>> {
    let z: Vec<Vec<f64>> = (0..rows.len())
        .map(|round| draw(key, NOISE, round as u64, dimension))
        .collect();
    rows.iter()
        .map(|row| {
            (0..dimension)
                .map(|j| SIGMA * row.iter().zip(&z).map(|(entry, z)| entry * z[j]).sum::<f64>())
                .collect()
        })
        .collect()
}

fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
    for (round, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (j, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (found - expected).abs() <= tolerance,
                "round {round}, coordinate {j}: {found} against {expected}"
            );
        }
    }
}

/// Inverse of a lower triangular matrix, row by row.
fn inverse(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = rows.len();
    let mut inverse = vec![vec![0.0; n]; n];
    for column in 0..n {
        for row in column..n {
            let known: f64 = (column..row).map(|k| rows[row][k] * inverse[k][column]).sum();
            inverse[row][column] = (f64::from(u8::from(row == column)) - known) / rows[row][row];
        }
    }
    inverse
}

fn toeplitz(coefficients: &[f64], rounds: usize) -> Vec<Vec<f64>> {
    (0..rounds)
        .map(|t| {
            (0..rounds)
                .map(|s| {
                    if s <= t {
                        coefficients.get(t - s).copied().unwrap_or(0.0)
                    } else {
                        0.0
                    }
                })
                .collect()
        })
        .collect()
}

fn keys() -> [StreamKey; 2] {
    [StreamKey::Simulation(5), StreamKey::Release([9; 32])]
}

#[test]
fn independent_noise_is_z() {
    for key in keys() {
        let mut mechanism = IndependentGaussian::new(key.clone(), SIGMA);
        let identity = toeplitz(&[1.0], ROUNDS);
        let found = increments(&mut mechanism, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(&found, &product(&identity, &key, DIMENSION), 1e-12);
    }
}

#[test]
fn anti_correlated_prefixes_are_one_draw() {
    for key in keys() {
        let mut mechanism = AntiCorrelated::new(key.clone(), SIGMA, ROUNDS as u64);
        let found = increments(&mut mechanism, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(
            &found,
            &product(&toeplitz(&[1.0, -1.0], ROUNDS), &key, DIMENSION),
            1e-12,
        );
    }
}

#[test]
fn banded_noise_solves_its_recursion() {
    let toeplitz = |_: usize, lag: usize| 1.3 * 0.7_f64.powi(lag as i32);
    let unlike = |t: usize, lag: usize| {
        if lag == 0 {
            1.0 + 0.1 * t as f64
        } else {
            0.3 / (lag + t) as f64
        }
    };
    let cases: [(&dyn Fn(usize, usize) -> f64, usize); 7] = [
        (&toeplitz, 1),
        (&toeplitz, 2),
        (&toeplitz, 3),
        (&toeplitz, 9),
        (&toeplitz, 10),
        (&toeplitz, 11),
        (&unlike, 4),
    ];
    for (entry, bands) in cases {
        let rows: Vec<Vec<f64>> = (0..ROUNDS)
            .map(|t| (0..bands.min(t + 1)).map(|lag| entry(t, lag)).collect())
            .collect();
        let lower = |t: usize, s: usize| if s <= t && t - s < bands { rows[t][t - s] } else { 0.0 };
        let matrix: Vec<Vec<f64>> = (0..ROUNDS)
            .map(|t| (0..ROUNDS).map(|s| lower(t, s)).collect())
            .collect();
        let expected = inverse(&matrix);
        let key = StreamKey::Simulation(6);
        let mut single = Banded::<f32>::new(key.clone(), SIGMA, rows.clone(), DIMENSION);
        let found = increments(&mut single, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(&found, &product(&expected, &key, DIMENSION), 2e-5);
        let key = StreamKey::Release([3; 32]);
        let mut double = Banded::<f64>::new(key.clone(), SIGMA, rows, DIMENSION);
        let found = increments(&mut double, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(&found, &product(&expected, &key, DIMENSION), 1e-10);
    }
}

#[test]
fn streams_of_factorisations_apply_the_inverse_of_c() {
    let (rounds, key) = (24, StreamKey::Release([7; 32]));
    for (kind, method) in [
        ("optimal", "optimal"),
        ("banded=4", "banded=4"),
        ("blt=3", "blt=3"),
        ("toeplitz", "toeplitz"),
        ("honaker-full", "honaker-full"),
    ] {
        let plan = NoisePlan {
            kind: kind.parse().unwrap(),
            rounds,
            rounds_per_epoch: 8,
            workload: WorkloadSpecification::prefix(),
            dimension: 5,
        };
        let method: Method = method.parse().unwrap();
        let workload = Workload::new(rounds, WorkloadSpecification::prefix()).unwrap();
        let request = FactorizationRequest {
            gap: 1e-4,
            ..FactorizationRequest::new(workload, plan.participation(), method)
        };
        let strategy = request.factorize().unwrap().strategy().matrix();
        let planned = plan.prepare(&StrategyMemory::default()).unwrap();
        let found = increments(&mut *planned.stream(key.clone(), 1.0), rounds, 5, &Engine::Sequential);
        for t in 0..rounds {
            for (j, z) in draw(&key, NOISE, t as u64, 5).into_iter().enumerate() {
                let product: f64 = (0..=t).map(|s| strategy[(t, s)] * found[s][j]).sum();
                assert!((product - z).abs() < 1e-10, "{kind}: {product} {z}");
            }
        }
    }
}

#[test]
fn kinds_are_read_and_written() {
    for kind in NoiseKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
    }
    for text in ["", "banded", "banded=0", "blt=-1", "optimal=3", "cholesky"] {
        assert!(text.parse::<NoiseKind>().is_err(), "{text}");
    }
}

#[test]
fn buffered_toeplitz_noise_is_its_dense_solve() {
    let (scale, decay): ([f64; 3], [f64; 3]) = ([0.044_441, 0.120_545, 0.311_390], [0.998_973, 0.978_560, 0.743_284]);
    let coefficient = |i: i32| (0..3).map(|j| scale[j] * decay[j].powi(i - 1)).sum::<f64>();
    let coefficients: Vec<f64> = (0..ROUNDS as i32)
        .map(|i| if i == 0 { 1.0 } else { coefficient(i) })
        .collect();
    let expected = inverse(&toeplitz(&coefficients, ROUNDS));
    for key in keys() {
        let rounds = ROUNDS as u64;
        let mut double = BufferedToeplitz::<f64>::new(key.clone(), SIGMA, rounds, &scale, &decay, DIMENSION);
        let found = increments(&mut double, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(&found, &product(&expected, &key, DIMENSION), 1e-6);
    }
}

#[test]
fn dense_noise_is_the_product_across_blocks_and_threads() {
    // More rounds than a block of them, so that a second block begins.
    let rounds = 150;
    let matrix: Vec<Vec<f64>> = (0..rounds)
        .map(|t| {
            (0..rounds)
                .map(|s| {
                    if s <= t {
                        1.0 / (1.0 + (t - s) as f64 + 0.01 * s as f64)
                    } else {
                        0.0
                    }
                })
                .collect()
        })
        .collect();
    let key = StreamKey::Simulation(8);
    let expected = product(&matrix, &key, DIMENSION);
    let mut sequential = Dense::<f32>::new(key.clone(), SIGMA, &matrix, DIMENSION);
    let one = increments(&mut sequential, rounds, DIMENSION, &Engine::Sequential);
    assert_close(&one, &expected, 1e-4);
    let mut parallel = Dense::<f32>::new(key, SIGMA, &matrix, DIMENSION);
    let two = increments(&mut parallel, rounds, DIMENSION, &Engine::with_threads(2).unwrap());
    assert!(one == two);
}

/// Rows of the prefix noise, by accumulating increments.
fn prefixes(increments: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut total = vec![0.0; increments[0].len()];
    increments
        .iter()
        .map(|increment| {
            total
                .iter_mut()
                .zip(increment)
                .for_each(|(total, value)| *total += value);
            total.clone()
        })
        .collect()
}

#[test]
fn tree_prefixes_are_sums_of_their_nodes() {
    for key in keys() {
        let mut mechanism = Tree::new(key.clone(), SIGMA, ROUNDS as u64, 8);
        let found = prefixes(&increments(&mut mechanism, ROUNDS, DIMENSION, &Engine::Sequential));
        for (round, prefix) in found.iter().enumerate() {
            // The nodes at the set bits of the prefix of each tree; a finished tree of 8 is its root.
            let mut nodes = Vec::new();
            for (tree, leaves) in [(0, (round + 1).min(8)), (8, (round + 1).saturating_sub(8))] {
                let mut end = 0;
                for level in (0..usize::BITS - leaves.leading_zeros()).rev() {
                    if leaves >> level & 1 == 1 {
                        end += 1 << level;
                        nodes.push(tree + end as u64);
                    }
                }
            }
            let mut expected = vec![0.0; DIMENSION];
            nodes
                .iter()
                .for_each(|&node| add_gaussian(&key, NOISE, node, SIGMA, &mut expected));
            assert_close(std::slice::from_ref(prefix), &[expected], 1e-11);
        }
    }
}

/// Sample variance of each prefix over coordinates, in units of σ².
fn prefix_variances(mechanism: &mut dyn NoiseMechanism, rounds: usize, dimension: usize) -> Vec<f64> {
    prefixes(&increments(mechanism, rounds, dimension, &Engine::Sequential))
        .iter()
        .map(|prefix| prefix.iter().map(|value| value * value).sum::<f64>() / (dimension as f64 * SIGMA * SIGMA))
        .collect()
}

#[test]
fn prefix_variances_are_those_of_the_estimators() {
    // Prefix variances for T = 8: popcounts for the plain tree, Σ 2^k/(2^{k+1} − 1) over the set bits for Honaker's
    // online estimator.
    let dimension = 40_000;
    let tolerance = 5.2 * (2.0 / dimension as f64).sqrt();
    let check = |found: Vec<f64>, expected: [f64; 8]| {
        for (round, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "prefix {}: {found} against {expected}",
                round + 1
            );
        }
    };
    let mut plain = Tree::new(StreamKey::Simulation(1), SIGMA, 8, 8);
    check(
        prefix_variances(&mut plain, 8, dimension),
        [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 3.0, 1.0],
    );
    let (one, two, three) = (2.0 / 3.0, 4.0 / 7.0, 8.0 / 15.0);
    let expected = [1.0, one, 1.0 + one, two, 1.0 + two, one + two, 1.0 + one + two, three];
    let mut single = HonakerTree::<f32>::new(StreamKey::Simulation(2), SIGMA, 8, 8, dimension);
    check(prefix_variances(&mut single, 8, dimension), expected);
    let mut double = HonakerTree::<f64>::new(StreamKey::Release([1; 32]), SIGMA, 8, 8, dimension);
    check(prefix_variances(&mut double, 8, dimension), expected);
}

#[test]
fn covariances_of_honaker_prefixes_are_those_of_shared_nodes() {
    // Prefixes 2 and 3 share the estimate of the first pair: Cov = 2/3; prefixes 1 and 2 share the first leaf with
    // weight 1/3.
    let dimension = 40_000;
    let mut mechanism = HonakerTree::<f32>::new(StreamKey::Simulation(3), SIGMA, 8, 8, dimension);
    let prefixes = prefixes(&increments(&mut mechanism, 8, dimension, &Engine::Sequential));
    let covariance = |a: usize, b: usize| {
        prefixes[a].iter().zip(&prefixes[b]).map(|(a, b)| a * b).sum::<f64>() / (dimension as f64 * SIGMA * SIGMA)
    };
    let tolerance = 5.2 * 2.0 / (dimension as f64).sqrt();
    assert!((covariance(1, 2) - 2.0 / 3.0).abs() < tolerance);
    assert!((covariance(0, 1) - 1.0 / 3.0).abs() < tolerance);
    assert!((covariance(3, 6) - 4.0 / 7.0).abs() < tolerance);
}

#[test]
fn every_mechanism_takes_rounds_in_order_and_no_more_than_it_was_made_for() {
    for kind in NoiseKind::ALL.iter().filter(|kind| **kind != NoiseKind::Laplace) {
        let kind = if matches!(kind, NoiseKind::Banded(_)) {
            NoiseKind::Banded(2)
        } else {
            *kind
        };
        let plan = NoisePlan {
            kind,
            rounds: 24,
            rounds_per_epoch: 24,
            workload: WorkloadSpecification::prefix(),
            dimension: 3,
        };
        let planned = plan.prepare(&StrategyMemory::default()).unwrap();
        let mut stream = planned.stream(StreamKey::Simulation(1), 1.0);
        let mut take = |round| stream.add_increment(round, &mut [0.0; 3], &Engine::Sequential);
        assert_eq!(take(1), Err(NoiseError::OutOfOrder { asked: 1, next: 0 }));
        take(0).unwrap();
        assert_eq!(take(0), Err(NoiseError::OutOfOrder { asked: 0, next: 1 }));
        (1..24).for_each(|round| take(round).unwrap());
        // Independent noise has no last round.
        if kind != NoiseKind::Independent {
            assert_eq!(take(24), Err(NoiseError::Exhausted { rounds: 24 }));
        }
    }
}

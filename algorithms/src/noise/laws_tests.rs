//! Every mechanism against its matrix: for given Z the increments equal C⁻¹Z to rounding, and their covariance over many
//! keys equals σ²·C⁻¹C⁻ᵀ.

use std::sync::Arc;

use rounds_kernels::random::exact::fill_enclosed_normals;
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey, add_gaussian};

use super::banded::Banded;
use super::buffered_toeplitz::BufferedToeplitz;
use super::dense::Dense;
use super::exact_laws_tests::{Matrix, cases, keys};
use super::honaker::HonakerTree;
use super::recursion::{Planned, Recursion, Recursive};
use super::scheduled::ScheduledNoise;
use super::stream::TREE_LEVELS;
use super::*;
use crate::factorization::{
    FactorizationRequest, Method, Strategy, TreeVariant, Workload, WorkloadSpecification, nodes,
};
use crate::parallel::Engine;

const ROUNDS: usize = 13;
/// More than one block of coordinates, and no multiple of any lane count.
const DIMENSION: usize = BLOCK_COORDINATES + 37;
const SIGMA: f64 = 1.5;

/// The normals of mechanisms that keep vectors: in f64 for a release key.
fn draw_kept(key: &StreamKey, purpose: Purpose, round: u64, dimension: usize) -> Vec<f64> {
    let mut out = vec![0.0; dimension];
    if let StreamKey::Simulation(_) = key {
        add_gaussian(key, purpose, round, 1.0, &mut out);
        return out;
    }
    for (block, out) in (0..).zip(out.chunks_mut(BLOCK_COORDINATES)) {
        fill_enclosed_normals(key, purpose, round, block, out);
    }
    out
}

/// A stream of a recursion on vectors of length [`DIMENSION`].
fn stream<R: Recursion>(key: &StreamKey, recursion: R, rounds: usize) -> Recursive<R> {
    Recursive::new(key.clone(), SIGMA, Arc::new(Planned::new(recursion, rounds as u64)), DIMENSION)
}

/// The increments of all rounds.
fn increments(mechanism: &mut dyn NoiseMechanism, rounds: usize, dimension: usize, engine: &Engine) -> Vec<Vec<f64>> {
    (0..rounds)
        .map(|round| {
            let mut sum = vec![0.0; dimension];
            mechanism.add_increment(round as u64, &mut sum, None, engine).unwrap();
            sum
        })
        .collect()
}

/// `rows·Z`, Z being the draws of `NOISE`.
fn product(rows: &[Vec<f64>], key: &StreamKey) -> Vec<Vec<f64>> {
    let z: Vec<Vec<f64>> = (0..rows.len()).map(|round| draw_kept(key, NOISE, round as u64, DIMENSION)).collect();
    rows.iter()
        .map(|row| {
            (0..DIMENSION).map(|j| SIGMA * row.iter().zip(&z).map(|(entry, z)| entry * z[j]).sum::<f64>()).collect()
        })
        .collect()
}

fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
    for (round, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (j, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - expected).abs() <= tolerance, "round {round}, coordinate {j}: {found} against {expected}");
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

/// The rows of a lower triangular matrix.
fn lower(rounds: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    let row = |t: usize| (0..rounds).map(|s| if s <= t { entry(t, s) } else { 0.0 }).collect();
    (0..rounds).map(row).collect()
}

fn toeplitz(coefficients: &[f64], rounds: usize) -> Vec<Vec<f64>> {
    lower(rounds, |t, s| coefficients.get(t - s).copied().unwrap_or(0.0))
}

#[test]
fn increments_of_addressed_noise_are_signed_sums_of_its_draws() {
    for (_, matrix, mechanism) in cases() {
        let Matrix::Draws(draws) = matrix else { continue };
        for key in keys() {
            let found = increments(&mut *mechanism(key.clone(), SIGMA), ROUNDS, DIMENSION, &Engine::Sequential);
            let mut expected = vec![vec![0.0; DIMENSION]; ROUNDS];
            for (t, expected) in expected.iter_mut().enumerate() {
                for (round, sign) in draws(t) {
                    add_gaussian(&key, NOISE, round as u64, sign * SIGMA, expected);
                }
            }
            assert_close(&found, &expected, 1e-12);
        }
    }
}

/// Asserts that a recursion's increments are `inverse·Z`, in f32 and in f64.
fn assert_inverts<R: Recursion>(recursion: &dyn Fn() -> R, inverse: &[Vec<f64>]) {
    for (key, tolerance) in [(StreamKey::Simulation(6), 2e-5), (StreamKey::Release([3; 32]), 1e-10)] {
        let mut mechanism = stream(&key, recursion(), ROUNDS);
        let found = increments(&mut mechanism, ROUNDS, DIMENSION, &Engine::Sequential);
        assert_close(&found, &product(inverse, &key), tolerance);
    }
}

#[test]
fn banded_noise_solves_its_recursion() {
    let toeplitz = |_: usize, lag: usize| 1.3 * 0.7_f64.powi(lag as i32);
    let unlike = |t: usize, lag: usize| {
        if lag == 0 { 1.0 + 0.1 * t as f64 } else { 0.3 / (lag + t) as f64 }
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
        let rows: Vec<Vec<f64>> =
            (0..ROUNDS).map(|t| (0..bands.min(t + 1)).map(|lag| entry(t, lag)).collect()).collect();
        let expected = inverse(&lower(ROUNDS, |t, s| rows[t].get(t - s).copied().unwrap_or(0.0)));
        assert_inverts(&|| Banded::new(rows.clone()), &expected);
    }
}

#[test]
fn streams_of_factorisations_apply_the_inverse_of_c() {
    let (rounds, key) = (24, StreamKey::Release([7; 32]));
    for kind in ["optimal", "banded=4", "blt=3", "toeplitz", "fourier", "honaker-full"] {
        let plan = NoisePlan { rounds, rounds_per_epoch: 8, workload: WorkloadSpecification::prefix(), dimension: 5 };
        let method: Method = kind.parse().unwrap();
        let workload = Workload::new(rounds, WorkloadSpecification::prefix()).unwrap();
        let request =
            FactorizationRequest { gap: 1e-4, ..FactorizationRequest::new(workload, plan.participation(), method) };
        let strategy = request.factorize().unwrap().strategy().matrix();
        let planned = kind.parse::<NoiseKind>().unwrap().prepare(&plan, &StrategyMemory::default()).unwrap();
        let found = increments(&mut *planned.stream(key.clone(), 1.0), rounds, 5, &Engine::Sequential);
        for t in 0..rounds {
            for (j, z) in draw_kept(&key, NOISE, t as u64, 5).into_iter().enumerate() {
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
    let coefficients: Vec<f64> = (0..ROUNDS as i32).map(|i| if i == 0 { 1.0 } else { coefficient(i) }).collect();
    let expected = inverse(&toeplitz(&coefficients, ROUNDS));
    assert_inverts(&|| BufferedToeplitz::new(&scale, &decay), &expected);
}

#[test]
fn dense_noise_is_the_product_across_blocks_and_threads() {
    // More rounds than a block of them, so that a second block begins.
    let rounds = 150;
    let matrix = lower(rounds, |t, s| 1.0 / (1.0 + (t - s) as f64 + 0.01 * s as f64));
    let key = StreamKey::Simulation(8);
    let expected = product(&matrix, &key);
    let matrix = Arc::new(matrix);
    let run = |engine: &Engine| {
        let mut mechanism = Dense::new(key.clone(), SIGMA, Arc::clone(&matrix), DIMENSION);
        increments(&mut mechanism, rounds, DIMENSION, engine)
    };
    let one = run(&Engine::Sequential);
    assert_close(&one, &expected, 1e-4);
    assert!(one == run(&Engine::with_threads(2).unwrap()));
}

/// Rows of the prefix noise, by accumulating increments.
fn prefixes(increments: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut total = vec![0.0; increments[0].len()];
    increments
        .iter()
        .map(|increment| {
            total.iter_mut().zip(increment).for_each(|(total, value)| *total += value);
            total.clone()
        })
        .collect()
}

#[test]
fn honaker_prefixes_are_the_estimates_of_the_factorisation_from_the_nodes_draws() {
    // Column (level, index) of the factorisation's B: the weight of that node in every prefix. Its draw is addressed by the
    // round that completes it, in the stream of its level.
    for (key, tolerance) in [(StreamKey::Simulation(2), 1e-4), (StreamKey::Release([1; 32]), 1e-11)] {
        let rounds = ROUNDS as u64;
        let mut mechanism = stream(&key, HonakerTree::new(rounds, rounds), ROUNDS);
        let found = prefixes(&increments(&mut mechanism, ROUNDS, DIMENSION, &Engine::Sequential));
        let variant = TreeVariant::HonakerOnline;
        let prefix = Workload::new(ROUNDS, WorkloadSpecification::prefix()).unwrap();
        let tree = Strategy::Tree { rounds: ROUNDS, variant };
        let weights = tree.error_matrix(&prefix).unwrap();
        let mut expected = vec![vec![0.0; DIMENSION]; ROUNDS];
        for (column, (level, index)) in nodes(variant, ROUNDS).enumerate() {
            let purpose = Purpose(TREE_LEVELS + level as u32);
            let drawn = draw_kept(&key, purpose, ((index << level) - 1) as u64, DIMENSION);
            for (row, prefix) in expected.iter_mut().enumerate() {
                let weight = SIGMA * weights[(row, column)];
                prefix.iter_mut().zip(&drawn).for_each(|(sum, z)| *sum += weight * z);
            }
        }
        assert_close(&found, &expected, tolerance);
    }
}

#[test]
fn every_mechanism_takes_rounds_in_order_and_no_more_than_it_was_made_for() {
    for kind in NoiseKind::ALL {
        let kind = if matches!(kind, NoiseKind::Banded(_)) { NoiseKind::Banded(2) } else { *kind };
        let plan =
            NoisePlan { rounds: 24, rounds_per_epoch: 24, workload: WorkloadSpecification::prefix(), dimension: 3 };
        let key = StreamKey::Simulation(1);
        let mut stream: Box<dyn NoiseMechanism> = match kind.prepare(&plan, &StrategyMemory::default()) {
            Ok(planned) => planned.stream(key, 1.0),
            Err(error) => {
                assert_eq!(kind, NoiseKind::Laplace, "{error}");
                Box::new(ScheduledNoise::new(key, NoiseLevels::Laplace { scales: vec![1.0; 24] }))
            }
        };
        let mut take = |round| stream.add_increment(round, &mut [0.0; 3], None, &Engine::Sequential);
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

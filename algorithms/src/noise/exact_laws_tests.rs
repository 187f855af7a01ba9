//! The integers of every mechanism against ⌊W + ½⌋ of its matrix, evaluated in exact arithmetic without its recursion.

use std::collections::VecDeque;
use std::sync::Arc;

use rounds_kernels::random::exact::{Exact, LinearForm, decide, fill_rounded_laplace};
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey};

use super::banded::Banded;
use super::buffered_toeplitz::BufferedToeplitz;
use super::dense::Dense;
use super::honaker::HonakerTree;
use super::independent::IndependentGaussian;
use super::lattice::EXCESS;
use super::recursion::{Planned, Recursion, Recursive};
use super::scheduled::ScheduledNoise;
use super::stream::TREE_LEVELS;
use super::*;
use crate::parallel::Engine;
use crate::state::StateVisitor;

const ROUNDS: usize = 13;
/// Rounds of a tree.
const EPOCH: usize = 8;
const DIMENSION: usize = BLOCK_COORDINATES + 21;
/// Coordinates that are compared: of both blocks.
const COMPARED: [usize; 6] = [0, 1, 777, BLOCK_COORDINATES - 1, BLOCK_COORDINATES, DIMENSION - 1];
/// σ/γ; the last leaves a part of the coordinates to the slow path.
const SCALES: [f64; 4] = [0.7, 1.3e6, 3.1e9, 1.7e12];
const UNIT: f64 = 0.375;

pub(super) fn keys() -> [StreamKey; 2] {
    [StreamKey::Simulation(5), StreamKey::Release([9; 32])]
}

/// The matrix of a mechanism.
pub(super) enum Matrix {
    /// N, by the rounds of its draws.
    Draws(fn(usize) -> Vec<(usize, f64)>),
    /// The rows of N.
    Rows(Vec<Vec<f64>>),
    /// C, whose system is solved by substitution.
    Inverse(Vec<Vec<f64>>),
    /// The estimates of subtrees.
    Honaker,
}

/// W of a round.
struct Reference<'a> {
    matrix: &'a Matrix,
    round: usize,
    scale: f64,
}

impl LinearForm for Reference<'_> {
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N> {
        let t = self.round;
        let mut z = |round: usize| normal(NOISE, round as u64);
        let noise = match self.matrix {
            Matrix::Draws(draws) => {
                draws(t).into_iter().fold(Exact::ZERO, |sum, (round, sign)| sum + z(round).times(sign))
            }
            Matrix::Rows(rows) => (0..=t).fold(Exact::ZERO, |sum, s| sum + z(s).times(rows[t][s])),
            Matrix::Inverse(rows) => {
                let mut solution: Vec<Exact<N>> = Vec::new();
                for t in 0..=t {
                    let known = (0..t).fold(z(t), |rest, s| rest - solution[s].times(rows[t][s]));
                    solution.push(known.over(rows[t][t]));
                }
                solution[t]
            }
            Matrix::Honaker => {
                let first = t / EPOCH * EPOCH;
                honaker_prefix(first, t + 1 - first, normal) - honaker_prefix(first, t - first, normal)
            }
        };
        noise.times(self.scale)
    }
}

/// The estimate of the first `leaves` rounds of the tree that begins in round `first`.
fn honaker_prefix<const N: usize>(
    first: usize,
    leaves: usize,
    normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>,
) -> Exact<N> {
    let mut end = first;
    let mut sum = Exact::ZERO;
    for height in (0..usize::BITS).rev().filter(|height| leaves >> height & 1 == 1) {
        end += 1 << height;
        sum = sum + honaker_estimate(end, height, normal);
    }
    sum
}

/// The estimate of the 2^height rounds before `end`.
fn honaker_estimate<const N: usize>(
    end: usize,
    height: u32,
    normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>,
) -> Exact<N> {
    let own = normal(Purpose(TREE_LEVELS + height), end as u64 - 1);
    if height == 0 {
        return own;
    }
    let leaves = 2_f64.powi(height as i32);
    let weight = leaves / (2.0 * leaves - 1.0);
    let left = honaker_estimate(end - (1 << (height - 1)), height - 1, normal);
    let right = honaker_estimate(end, height - 1, normal);
    own.times(weight) + left.times(1.0 - weight) + right.times(1.0 - weight)
}

/// The nodes of the prefix that ends with round t: the last round of each, less 1 added.
fn tree_draws(t: usize) -> Vec<(usize, f64)> {
    let nodes = |leaves: usize, sign: f64| {
        let ends = (0..usize::BITS).filter(move |level| leaves >> level & 1 == 1);
        ends.map(move |level| (t / EPOCH * EPOCH + (leaves >> level << level), sign))
    };
    let leaf = t % EPOCH + 1;
    nodes(leaf, 1.0).chain(nodes(leaf - 1, -1.0)).collect()
}

/// A mechanism, made of a key and σ.
pub(super) type Stream = Box<dyn Fn(StreamKey, f64) -> Box<dyn NoiseMechanism>>;

fn recursive<R: Recursion>(recursion: R) -> Stream {
    let planned = Arc::new(Planned::new(recursion, ROUNDS as u64));
    Box::new(move |key, sigma| Box::new(Recursive::new(key, sigma, Arc::clone(&planned), DIMENSION)))
}

/// Every mechanism with its matrix. Coefficients of C are such that its entries are f64 themselves.
pub(super) fn cases() -> Vec<(&'static str, Matrix, Stream)> {
    let (rounds, epoch) = (ROUNDS as u64, EPOCH as u64);
    let lower = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
        (0..ROUNDS).map(|t| (0..=t).map(|s| entry(t, s)).collect()).collect()
    };
    let independent: Stream = Box::new(|key, sigma| Box::new(IndependentGaussian::new(key, sigma)));
    let scheduled: Stream = Box::new(|key, sigma| {
        let standard_deviations = vec![sigma; ROUNDS];
        Box::new(ScheduledNoise::new(key, NoiseLevels::Gaussian { standard_deviations }))
    });
    let anti_correlated: Stream = Box::new(move |key, sigma| Box::new(anti_correlated::stream(key, sigma, rounds)));
    let tree: Stream = Box::new(move |key, sigma| Box::new(tree::stream(key, sigma, rounds, epoch)));
    let bands = |t: usize, lag: usize| (1.2 + 0.1 * t as f64) / (1 + 2 * lag) as f64;
    let banded = |count: usize| {
        let rows = (0..ROUNDS).map(|t| (0..count.min(t + 1)).map(|lag| bands(t, lag)).collect());
        recursive(Banded::new(rows.collect()))
    };
    let banded_matrix = |count| Matrix::Inverse(lower(&|t, s| if t - s < count { bands(t, t - s) } else { 0.0 }));
    let (omega, theta) = ([0.25, 0.125], [0.75, 0.5_f64]);
    let coefficient = |lag: i32| (0..2).map(|j| omega[j] * theta[j].powi(lag - 1)).sum::<f64>();
    let blt_matrix = Matrix::Inverse(lower(&|t, s| if t == s { 1.0 } else { coefficient((t - s) as i32) }));
    let rows = Arc::new(lower(&|t, s| (if t == s { 1.1 } else { -0.3 }) / (1.0 + (t - s) as f64)));
    let dense_matrix = Matrix::Rows(rows.to_vec());
    let dense: Stream = Box::new(move |key, sigma| Box::new(Dense::new(key, sigma, Arc::clone(&rows), DIMENSION)));
    let difference = |t: usize| [(t, 1.0), (t.saturating_sub(1), -1.0)][..=t.min(1)].to_vec();
    vec![
        ("independent", Matrix::Draws(|t| vec![(t, 1.0)]), independent),
        ("scheduled", Matrix::Draws(|t| vec![(t, 1.0)]), scheduled),
        ("anti-correlated", Matrix::Draws(difference), anti_correlated),
        ("tree", Matrix::Draws(tree_draws), tree),
        ("honaker-online", Matrix::Honaker, recursive(HonakerTree::new(rounds, epoch))),
        ("banded=11", banded_matrix(11), banded(11)),
        ("banded=1", banded_matrix(1), banded(1)),
        ("blt", blt_matrix, recursive(BufferedToeplitz::new(&omega, &theta))),
        ("dense", dense_matrix, dense),
    ]
}

/// Rounds `from..to` on sums that are 100 before.
fn run(
    mechanism: &mut dyn NoiseMechanism,
    (from, to): (usize, usize),
    unit: Option<f64>,
    engine: &Engine,
) -> Vec<Vec<f64>> {
    (from..to)
        .map(|round| {
            let mut sum = vec![100.0; DIMENSION];
            mechanism.add_increment(round as u64, &mut sum, unit, engine).unwrap();
            sum
        })
        .collect()
}

#[test]
fn increments_are_the_real_noise_rounded_once() {
    let engine = Engine::with_threads(2).unwrap();
    for (name, matrix, stream) in cases() {
        for key in keys() {
            for scale in SCALES {
                let sigma = scale * UNIT;
                let found = run(&mut *stream(key.clone(), sigma), (0, ROUNDS), Some(UNIT), &engine);
                for (round, found) in found.iter().enumerate() {
                    let form = Reference { matrix: &matrix, round, scale: sigma / UNIT * EXCESS };
                    for j in COMPARED {
                        let expected = decide(&key, &form, j as u64) + 100;
                        assert_eq!(found[j], expected as f64, "{name}, {scale}, round {round}, coordinate {j}");
                    }
                }
            }
        }
    }
}

#[test]
fn laplace_increments_are_the_exact_draws() {
    for key in keys() {
        for scale in SCALES {
            let levels = NoiseLevels::Laplace { scales: vec![scale * UNIT; 2] };
            let found = run(&mut ScheduledNoise::new(key.clone(), levels), (0, 2), Some(UNIT), &Engine::Sequential);
            let mut expected = vec![0_i64; DIMENSION];
            fill_rounded_laplace(&key, NOISE, 1, 0, scale * UNIT / UNIT * EXCESS, &mut expected);
            assert!(found[1].iter().zip(&expected).all(|(found, expected)| *found == (expected + 100) as f64));
        }
    }
}

/// A checkpoint in memory.
#[derive(Default)]
struct Tape {
    restores: bool,
    words: VecDeque<u64>,
}

impl Tape {
    fn pass<T: Copy>(&mut self, values: &mut [T], to: impl Fn(T) -> u64, from: impl Fn(u64) -> T) {
        for value in values {
            if self.restores {
                *value = from(self.words.pop_front().unwrap());
            } else {
                self.words.push_back(to(*value));
            }
        }
    }
}

impl StateVisitor for Tape {
    fn u64(&mut self, _: &str, value: &mut u64) {
        self.pass(std::slice::from_mut(value), |value| value, |word| word);
    }

    fn f32s(&mut self, _: &str, values: &mut [f32]) {
        self.pass(values, |value| value.to_bits().into(), |word| f32::from_bits(word as u32));
    }

    fn f64s(&mut self, _: &str, values: &mut [f64]) {
        self.pass(values, f64::to_bits, f64::from_bits);
    }
}

#[test]
fn a_resumed_run_and_another_engine_give_the_same_bits() {
    let threads = Engine::with_threads(3).unwrap();
    for (name, _, stream) in cases() {
        for key in keys() {
            // At the second σ the slow path decides some coordinates of every round.
            for (sigma, unit) in [(1.5, None), (5e11, Some(1.0))] {
                let whole = run(&mut *stream(key.clone(), sigma), (0, ROUNDS), unit, &Engine::Sequential);
                for at in [0, 1, 6, 9] {
                    let mut first = stream(key.clone(), sigma);
                    let mut parts = run(&mut *first, (0, at), unit, &threads);
                    let mut tape = Tape::default();
                    first.visit_state(&mut tape);
                    tape.restores = true;
                    let mut second = stream(key.clone(), sigma);
                    second.visit_state(&mut tape);
                    assert!(tape.words.is_empty(), "{name}");
                    parts.extend(run(&mut *second, (at, ROUNDS), unit, &Engine::Sequential));
                    assert!(parts == whole, "{name}, resumed at {at}");
                }
            }
        }
    }
}

#[test]
fn a_lattice_that_is_too_fine_is_refused_with_a_remedy() {
    for (name, _, stream) in cases() {
        for key in keys() {
            let mut mechanism = stream(key, 1.0);
            let mut sum = vec![0.0; DIMENSION];
            let planned = mechanism.check_unit(2_f64.powi(-50));
            let found = mechanism.add_increment(0, &mut sum, Some(2_f64.powi(-50)), &Engine::Sequential);
            assert_eq!(planned, found, "{name}: known before a round");
            let Err(NoiseError::TooFine { unit, coarser }) = found else { panic!("{name}: {found:?}") };
            assert!(sum.iter().all(|sum| *sum == 0.0));
            assert!(coarser > 1.0 && found.unwrap_err().to_string().contains("times too large"));
            assert_eq!(mechanism.check_unit(1.01 * unit * coarser), Ok(()), "{name}");
            let remedy = mechanism.add_increment(1, &mut sum, Some(1.01 * unit * coarser), &Engine::Sequential);
            assert_eq!(remedy, Ok(()), "{name}");
        }
    }
}

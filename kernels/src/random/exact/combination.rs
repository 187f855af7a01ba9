//! Linear forms in ideal normals, rounded once: the noise of trees, bands and other matrices.
//!
//! A mechanism whose noise is a sum of few terms calls [`fill_rounded_combination`]. One with a recursion (C⁻¹Z of a band or
//! of buffers, Honaker's estimates) runs it in f64 on [`fill_enclosed_normals`], bounds the error of its result, and
//! rounds by [`round_enclosed`], which asks [`decide`] for what the bound leaves open: the same recursion, written for
//! [`Exact`] numbers, from the key alone.
//!
//! **The error of a recursion** `c_0 ζ_t = z_t − Σ_{i ≥ 1} c_i ζ_{t−i}`, that is `Cζ = z`: the computed values solve it
//! for `z_t + ρ_t`, where ρ_t holds the error of z̃_t and the roundings of step t alone, which are at most u times the
//! partial sums and `u·|c_0 ζ̃_t|`. So `ζ̃ − ζ = C⁻¹ρ` and `|ζ̃_t − ζ_t| ≤ κ_t·max_s |ρ_s|`, `κ_t = Σ_s |C⁻¹[t, s]|`: the plan
//! computes κ from C, once. Adding up the errors of the ζ themselves would let the bound grow exponentially.

use super::super::stream::{BLOCK_COORDINATES, Law, Purpose, ReleaseRound, RoundStreams, SimulationRound, StreamKey};
use super::ball::Exact;
use super::lanes::{Lanes, Native};
use super::transform::{ROUNDOFF, box_muller};
use super::words::{Batch, Round};
use super::{
    BATCH, Enclosure, Lattice, Question, SLACK, assert_rounding_to_nearest, first_decided, for_each_batch, lanes_of,
    nearest, normals, outside, pair_words,
};

/// A real number that is linear in ideal normals.
pub trait LinearForm {
    /// Its value: `normal` gives z(purpose, round) of the coordinate at hand.
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N>;
}

/// `coefficient·z(purpose, round)`, the normals that [`super::fill_rounded_gaussian`] rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Purpose of the normals.
    pub purpose: Purpose,
    /// Round of the normals.
    pub round: u64,
    /// Coefficient in lattice units.
    pub coefficient: f64,
}

impl LinearForm for [Term] {
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N> {
        self.iter().fold(Exact::ZERO, |sum, term| sum + normal(term.purpose, term.round).times(term.coefficient))
    }
}

/// Fills `out` with `⌊W + ½⌋`, `W = Σ_i c_i·z(purpose_i, round_i)` a real number: `out[0]` is the first coordinate of block
/// `first_block`.
///
/// All comes from the key: nothing is kept between calls, and a call costs one pass over the normals of each term.
///
/// **Enclosure.** Let R_i be the greatest radius of a block of coordinates under term i and E_i the bound of its normals'
/// errors ([`fill_enclosed_normals`]). The sum is a chain of fused steps, whose i-th result is at most
/// `P_i = Σ_{j ≤ i} |c_j|·R_j`, so `|W̃ − W| ≤ Σ |c_i|·E_i + u·Σ P_i`.
///
/// **Slow decisions.** A share of twice that bound: about `Σ|c_i|·(n + 9)·2⁻⁵⁰` for n terms in descending order, half of
/// n's part in ascending order; each takes some 1 µs a term. And 3e-5 of the pairs a term.
///
/// # Panics
/// If `Σ|c_i|` is not finite or above 2⁵⁰ (2²⁷ for i32), or the processor does not round to nearest.
pub fn fill_rounded_combination<T: Lattice>(key: &StreamKey, terms: &[Term], first_block: u64, out: &mut [T]) {
    let sum: f64 = terms.iter().map(|term| term.coefficient.abs()).sum();
    assert!(
        sum <= T::GREATEST_SCALE,
        "the coefficients' sizes add to {sum} lattice units, and at most {} can be rounded: choose a coarser lattice",
        T::GREATEST_SCALE
    );
    assert_rounding_to_nearest();
    match key {
        StreamKey::Simulation(seed) => combination::<Native, SimulationRound, T>(seed, terms, first_block, out, 1.0),
        StreamKey::Release(key) => combination::<Native, ReleaseRound, T>(key, terms, first_block, out, 1.0),
    };
}

/// [`fill_rounded_combination`] with its bound times `share`; the number of coordinates that the slow path decided.
pub(super) fn combination<V: Lanes, R: Round, T: Lattice>(
    key: &R::Key,
    terms: &[Term],
    first_block: u64,
    out: &mut [T],
    share: f64,
) -> usize {
    let mut slow = 0;
    for (block, out) in (first_block..).zip(out.chunks_mut(BLOCK_COORDINATES)) {
        #[allow(clippy::large_stack_arrays, reason = "32 KiB, and nothing is allocated in a round")]
        let mut sums = [0.0; BLOCK_COORDINATES];
        let sums = &mut sums[..out.len()];
        let (mut bound, mut partial) = (0.0, 0.0);
        for term in terms {
            let round = R::new(key, term.purpose, Law::ExactGaussian, term.round);
            let normals = accumulate::<V, R>(&round, block, term.coefficient, sums);
            let size = term.coefficient.abs();
            partial += size * normals.magnitude;
            bound += size * normals.error + ROUNDOFF * partial;
        }
        slow += round_values::<V, T>(sums, SLACK * bound * share, out, |index| {
            decide_form::<R, [Term]>(key, terms, block * BLOCK_COORDINATES as u64 + index as u64)
        });
    }
    slow
}

/// Bounds of normals in f64.
#[derive(Clone, Copy, Debug, Default)]
pub struct NormalBounds {
    /// Greatest distance of a value from the real number that it stands for.
    pub error: f64,
    /// Greatest size of a value.
    pub magnitude: f64,
}

/// Fills `out` with f64 near the ideal normals of (key, purpose, round), and tells how near; for the block whose first
/// coordinate is `out[0]`.
///
/// Each lies within `slope·R + absolute` of the real number ([`super`], steps 1 to 3 with σ = 1 and K = 2⁴⁸; pairs
/// beyond K come from the exact arithmetic), R the greatest radius: about 8.4u·4.3.
///
/// # Panics
/// If `out` is longer than a block, or the processor does not round to nearest.
pub fn fill_enclosed_normals(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    block: u64,
    out: &mut [f64],
) -> NormalBounds {
    assert!(out.len() <= BLOCK_COORDINATES, "bounds hold for one block of coordinates");
    assert_rounding_to_nearest();
    out.fill(0.0);
    match RoundStreams::new(key, purpose, Law::ExactGaussian, round) {
        RoundStreams::Simulation(round) => accumulate::<Native, _>(&round, block, 1.0, out),
        RoundStreams::Release(round) => accumulate::<Native, _>(&round, block, 1.0, out),
    }
}

/// `out[i] = ⌊W_i + ½⌋` for real numbers `|W_i − values[i]| ≤ bound`, |W_i| < 2⁶²: from the value where the bound decides, from
/// `decide(i)` elsewhere.
///
/// # Panics
/// If the slices' lengths differ.
pub fn round_enclosed<T: Lattice>(values: &[f64], bound: f64, out: &mut [T], decide: impl FnMut(usize) -> i64) {
    assert_eq!(values.len(), out.len(), "one integer a value");
    round_values::<Native, T>(values, SLACK * bound, out, decide);
}

/// `⌊W + ½⌋` of a coordinate, from the key alone; W is `form`.
pub fn decide<F: LinearForm + ?Sized>(key: &StreamKey, form: &F, coordinate: u64) -> i64 {
    match key {
        StreamKey::Simulation(seed) => decide_form::<SimulationRound, F>(seed, form, coordinate),
        StreamKey::Release(key) => decide_form::<ReleaseRound, F>(key, form, coordinate),
    }
}

#[inline(always)]
fn round_values<V: Lanes, T: Lattice>(
    values: &[f64],
    bound: f64,
    out: &mut [T],
    mut decide: impl FnMut(usize) -> i64,
) -> usize {
    let threshold = V::splat(0.5 - bound - f64::EPSILON);
    let mut slow = 0;
    for (group, (values, out)) in values.chunks(16).zip(out.chunks_mut(16)).enumerate() {
        let mut padded = [0.0; 16];
        padded[..values.len()].copy_from_slice(values);
        let rounded = [0, 8].map(|first| {
            let x = V::from_array(std::array::from_fn(|lane| padded[first + lane]));
            let (shifted, distance) = nearest(x);
            // Beyond 2⁵¹ the distance is not one.
            let magnitude = x.max_magnitude(x).not_below(V::splat(2f64.powi(51)));
            let undecided = distance.max_magnitude(distance).not_below(threshold);
            (shifted.to_bits(), undecided | magnitude)
        });
        let mut results = [T::default(); 16];
        T::write(rounded.map(|(bits, _)| bits), &mut results);
        let undecided = rounded.map(|(_, undecided)| undecided);
        if undecided != [0; 2] {
            for place in lanes_of(undecided).filter(|place| *place < out.len()) {
                results[place] = T::from_i64(decide(16 * group + place));
                slow += 1;
            }
        }
        out.copy_from_slice(&results[..out.len()]);
    }
    slow
}

/// Exponent of K for normals that enter sums.
const MARGIN: i32 = 48;

/// `sums += coefficient·z̃` for a block of coordinates, and the bounds of the z̃.
#[inline(always)]
fn accumulate<V: Lanes, R: Round>(round: &R, block: u64, coefficient: f64, sums: &mut [f64]) -> NormalBounds {
    let enclosure = Enclosure::of_gaussian_with(1.0, MARGIN);
    let mut greatest = V::splat(0.0);
    for_each_batch(round, block, sums, |batch, sums: &mut [f64; BATCH]| {
        let (pairs, _) = batch.words.as_chunks();
        let (sums, _) = sums.as_chunks_mut::<16>();
        for (t, (&words, sums)) in pairs.iter().zip(sums).enumerate() {
            let (mut normals, mut radius) = box_muller::<V>(words, 2.0);
            let ends = outside(V::words_below, words[0], enclosure.margin);
            if ends != 0 {
                (normals, radius) = with_exact_pairs(round, &batch, t, ends, normals, radius);
            }
            greatest = greatest.max_magnitude(radius);
            for (z, sums) in normals.into_iter().zip(sums.as_chunks_mut().0) {
                *sums = z.mul_add(V::splat(coefficient), V::from_array(*sums)).to_array();
            }
        }
    });
    // The computed radius and sine may each be a few units too small.
    let magnitude = SLACK * greatest.to_array().into_iter().fold(0.0, f64::max);
    NormalBounds { error: enclosure.slope * magnitude + enclosure.absolute, magnitude }
}

/// Replaces the pairs `ends` of vector t by values of the exact arithmetic, within `3u·R`.
#[cold]
#[inline(never)]
fn with_exact_pairs<V: Lanes, R: Round>(
    round: &R,
    batch: &Batch,
    t: usize,
    ends: u8,
    normals: [V; 2],
    radius: V,
) -> ([V; 2], V) {
    let [mut x, mut y] = normals.map(V::to_array);
    let mut radii = radius.to_array();
    for lane in lanes_of([ends]) {
        let place = 8 * t + lane;
        let values = first_decided(&Values {
            round,
            number: 64 * batch.index + place as u64,
            words: pair_words(&batch.words, place),
        });
        (x[lane], y[lane]) = (values[0], values[1]);
        radii[lane] = values[0].hypot(values[1]);
    }
    ([x, y].map(V::from_array), V::from_array(radii))
}

/// The normals of a pair as f64.
struct Values<'a, R> {
    round: &'a R,
    number: u64,
    words: [u64; 2],
}

impl<R: Round> Question for Values<'_, R> {
    type Answer = [f64; 2];

    fn answer<const N: usize>(&self) -> Option<[f64; 2]> {
        let pair = normals::<R, N>(self.round, self.number, self.words)?;
        let values = pair.map(Exact::to_f64);
        let bound = ROUNDOFF * values[0].hypot(values[1]);
        pair.iter().all(|z| z.absolute_error() <= bound).then_some(values)
    }
}

#[cold]
#[inline(never)]
pub(super) fn decide_form<R: Round, F: LinearForm + ?Sized>(key: &R::Key, form: &F, coordinate: u64) -> i64 {
    first_decided(&Coordinate::<R, F> { key, form, number: coordinate })
}

/// A linear form at one coordinate.
struct Coordinate<'a, R: Round, F: ?Sized> {
    key: &'a R::Key,
    form: &'a F,
    number: u64,
}

impl<R: Round, F: LinearForm + ?Sized> Question for Coordinate<'_, R, F> {
    type Answer = i64;

    fn answer<const N: usize>(&self) -> Option<i64> {
        let mut normal = |purpose, round| {
            let round = R::new(self.key, purpose, Law::ExactGaussian, round);
            normal::<R, N>(&round, self.number)
        };
        self.form.value(&mut normal).nearest_integer()
    }
}

/// The ideal normal of a coordinate of a round; with no bound if N words do not suffice for it.
pub(super) fn normal<R: Round, const N: usize>(round: &R, coordinate: u64) -> Exact<N> {
    let (batch, place) = (coordinate / BATCH as u64, coordinate as usize % BATCH);
    let pair = 8 * (place / 16) + place % 8;
    let words = pair_words(&round.batch(batch), pair);
    normals::<R, N>(round, 64 * batch + pair as u64, words).map_or(Exact::UNKNOWN, |pair| pair[place / 8 % 2])
}

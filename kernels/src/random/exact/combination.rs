//! Sums of ideal normals with real coefficients, rounded once: the noise of trees, bands and other matrices.

use super::super::stream::{BLOCK_COORDINATES, Law, Purpose, ReleaseRound, StreamKey};
use super::ball::Ball;
use super::lanes::{Lanes, Native};
use super::transform::{ROUNDOFF, box_muller};
use super::words::{Batch, Round, Simulation};
use super::{
    BATCH, Enclosure, GREATEST_SCALE, Lattice, Question, SLACK, Signed, assert_rounding_to_nearest, first_decided,
    for_each_batch, lanes_of, nearest, normals, outside, pair_words,
};

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

/// Fills `out` with `⌊W + ½⌋`, `W = Σ_i c_i·z(purpose_i, round_i)` a real number: `out[0]` is the first coordinate of block
/// `first_block`.
///
/// All comes from the key: nothing is kept between calls, and a call costs one pass over the normals of each term.
///
/// **Enclosure.** Let R_i be the greatest radius of a block of coordinates under term i. Each normal is computed within
/// `E_i = slope·R_i + absolute` ([`super`], steps 1 to 3 with σ = 1 and K = 2⁴⁶; pairs beyond K from the exact arithmetic).
/// The sum is a chain of fused steps, whose i-th result is at most `P_i = Σ_{j ≤ i} |c_j|·R_j`, so `|W̃ − W| ≤ Σ |c_i|·E_i +
/// u·Σ P_i =: D`, and W̃ decides where it lies closer than ½ − D to an integer.
///
/// **Slow decisions.** A share 2D of the coordinates, and 8e-6 of the pairs a term: about `Σ|c_i|·(n + 10)·2⁻⁵⁰` for n
/// terms in descending order, half of n's part in ascending order. Each takes some 2 µs a term.
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
        StreamKey::Simulation(seed) => {
            combination::<Native, Simulation, T>(seed, terms, first_block, out, 1.0);
        }
        StreamKey::Release(key) => {
            combination::<Native, ReleaseRound, T>(key, terms, first_block, out, 1.0);
        }
    }
}

const _: () = assert!(GREATEST_SCALE < 9e15, "37 scales of each term stay below 2^62");

/// Exponent of K for normals that are added up.
const MARGIN: i32 = 46;

/// [`fill_rounded_combination`] with its bound D times `share`; the number of coordinates that the slow path decided.
pub(super) fn combination<V: Lanes, R: Round, T: Lattice>(
    key: &R::Key,
    terms: &[Term],
    first_block: u64,
    out: &mut [T],
    share: f64,
) -> usize {
    let enclosure = Enclosure::of_gaussian_with(1.0, MARGIN);
    let mut slow = 0;
    for (block, out) in (first_block..).zip(out.chunks_mut(BLOCK_COORDINATES)) {
        #[allow(clippy::large_stack_arrays, reason = "32 KiB, and nothing is allocated in a round")]
        let mut sums = [0.0; BLOCK_COORDINATES];
        let sums = &mut sums[..out.len()];
        let (mut bound, mut partial) = (0.0, 0.0);
        for term in terms {
            let round = R::new(key, term.purpose, Law::ExactGaussian, term.round);
            let radius = accumulate::<V, R>(&round, block, &enclosure, term.coefficient, sums);
            let size = term.coefficient.abs();
            partial += size * radius;
            bound += size * (enclosure.slope * radius + enclosure.absolute) + ROUNDOFF * partial;
        }
        let threshold = 0.5 - SLACK * bound * share - f64::EPSILON;
        for (group, (sums, out)) in sums.chunks(16).zip(out.chunks_mut(16)).enumerate() {
            let mut padded = [0.0; 16];
            padded[..sums.len()].copy_from_slice(sums);
            let rounded = [0, 8].map(|first| {
                let (shifted, distance) = nearest(V::from_array(std::array::from_fn(|lane| padded[first + lane])));
                let undecided = distance.max_magnitude(distance).not_below(V::splat(threshold));
                (shifted, undecided)
            });
            let mut results = [T::default(); 16];
            T::write(rounded.map(|(shifted, _)| shifted.to_bits()), &mut results);
            let undecided = rounded.map(|(_, undecided)| undecided);
            if undecided != [0; 2] {
                for place in lanes_of(undecided).filter(|place| *place < out.len()) {
                    let coordinate = block * BLOCK_COORDINATES as u64 + (16 * group + place) as u64;
                    results[place] = T::from_i64(decide::<R>(key, terms, coordinate));
                    slow += 1;
                }
            }
            out.copy_from_slice(&results[..out.len()]);
        }
    }
    slow
}

/// `sums += coefficient·z̃` for a block of coordinates; the greatest radius.
#[inline(always)]
fn accumulate<V: Lanes, R: Round>(
    round: &R,
    block: u64,
    enclosure: &Enclosure,
    coefficient: f64,
    sums: &mut [f64],
) -> f64 {
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
    greatest.to_array().into_iter().fold(0.0, f64::max)
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
        let values = pair.map(|z| z.magnitude.to_f64().copysign(if z.negative { -1.0 } else { 1.0 }));
        let bound = ROUNDOFF * values[0].hypot(values[1]);
        pair.iter()
            .all(|z| z.magnitude.absolute_error() <= bound)
            .then_some(values)
    }
}

#[cold]
#[inline(never)]
pub(super) fn decide<R: Round>(key: &R::Key, terms: &[Term], coordinate: u64) -> i64 {
    first_decided(&Coordinate::<R> {
        key,
        terms,
        number: coordinate,
    })
}

/// W of one coordinate.
struct Coordinate<'a, R: Round> {
    key: &'a R::Key,
    terms: &'a [Term],
    number: u64,
}

impl<R: Round> Question for Coordinate<'_, R> {
    type Answer = i64;

    fn answer<const N: usize>(&self) -> Option<i64> {
        let mut sum = Ball::<N>::integer(0);
        for term in self.terms {
            let round = R::new(self.key, term.purpose, Law::ExactGaussian, term.round);
            sum = sum.add(normal::<R, N>(&round, self.number)?.times(term.coefficient));
        }
        sum.nearest_integer()
    }
}

/// The ideal normal of a coordinate of a round.
pub(super) fn normal<R: Round, const N: usize>(round: &R, coordinate: u64) -> Option<Signed<N>> {
    let (batch, place) = (coordinate / BATCH as u64, coordinate as usize % BATCH);
    let pair = 8 * (place / 16) + place % 8;
    let words = pair_words(&round.batch(batch), pair);
    normals::<R, N>(round, 64 * batch + pair as u64, words).map(|pair| pair[place / 8 % 2])
}

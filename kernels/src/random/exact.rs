//! Noise rounded exactly to a lattice: `⌊σz + ½⌋` where z is the ideal normal, for every σ below 2⁵⁰.
//!
//! **What is exact.** The binary digits of a uniform U go on for ever: the first 64 come from the batch, the others from
//! their own address ([`words`]). `z₁, z₂ = √(−2 ln U₁)·(±cos φ, sin φ)`, φ = πy/4 with y made of U₂'s digits, are then two
//! independent standard normals, as real numbers, if the digits are ideal. What these functions return is
//! `⌊σz + ½⌋` of these real numbers. So for an integer S the sum `S + ⌊σz + ½⌋ = ⌊S + σz + ½⌋` is a function of `S + σz`, the
//! output of the continuous mechanism, and has every guarantee that it has.
//!
//! **How.** The fast path computes σz in f64 from the first 64 digits, and a bound of how far the real number can be. If
//! both ends of the interval round to one integer, that is the result; the slow path decides the rest, with more digits
//! and more precision until it can ([`ball`]). What bounds and precisions are chosen changes the time and never a result,
//! so the results are the same for all instruction sets. The slow path's time depends on the noise.
//!
//! **Fast enclosure of `X = σz`** (Gaussian). Let k₁, k₂ be the 64-bit words, `U = (k₁ + θ)·2⁻⁶⁴` with θ ∈ \[0, 1) from the
//! later digits, R the exact radius at θ = 0 and R̃, X̃ the computed values.
//! 1. `|X̃ − X(k₁, k₂)| ≤ 6.9u·R` ([`transform::box_muller`]; with 3. at most 7u·R).
//! 2. θ moves `L = −ln U` by at most `1/k₁`. For `K ≤ k₁ ≤ 2⁶⁴ − K` it moves R by at most `R/(2K·L_K)`,
//!    `L_K = (64 − log₂K)·ln 2`, where U ≤ ½, since there `U·L` is least at the left end; and by `σ·2⁻⁶⁴/√(2K·2⁻⁶⁴)` where
//!    U > ½, since there `U·√(2L)` is least at the right end.
//! 3. The later digits of U₂ move y by at most 2⁻⁶¹, X by `0.79R·2⁻⁶¹ < 0.01u·R`.
//! 4. `X̃ + 1.5·2⁵²` rounds to the nearest integer n, and `d = X̃ − n` is exact. If `|d| < ½ − (sum of 1. to 3.)`, all numbers
//!    of the interval round to n. The threshold `½ − ε·R̃ − …` is computed with 0.1 % and 2⁻⁵² to spare for its own rounding.
//!    NaN fails the comparison. Where `|X̃| ≥ 2⁵¹`, `7u·R > ½` and nothing is accepted.
//!
//! K and the bound balance: a pair is undecided with probability about `K·2⁻⁶³ + 5σ·ε`, ε = 7u + 1/(2K·L_K).
//!
//! Everything assumes rounding to nearest, which each call checks.

mod ball;
mod combination;
mod gaps;
mod lanes;
#[cfg(test)]
mod tests;
mod transform;
mod words;

use super::blocks::for_each_group;
use super::stream::{BLOCK_COORDINATES, Law, Purpose, RoundStreams, StreamKey};
use ball::Ball;
pub use ball::Exact;
pub use combination::{
    LinearForm, NormalBounds, Term, decide, fill_enclosed_normals, fill_rounded_combination, round_enclosed,
};
pub use gaps::ExactGaps;
use lanes::{Lanes, Native};
use transform::{LOGARITHM_ERROR, NORMAL_ERROR, ROUNDOFF, box_muller, minus_ln};
use wide::u64x8;
use words::{Batch, Block, Round};

/// Coordinates of a batch.
const BATCH: usize = 128;
/// Batches of a block of coordinates.
const BATCHES: u64 = (BLOCK_COORDINATES / BATCH) as u64;
/// 1.5·2⁵²: adding it rounds an f64 below 2⁵¹ to the nearest integer, which then stands in the low bits.
const INTEGER_BITS: f64 = 6_755_399_441_055_744.0;
/// The part of an enclosure that is left for its own rounding.
const SLACK: f64 = 1.001;
/// The greatest scale in lattice units.
const GREATEST_SCALE: f64 = 1_125_899_906_842_624.0;

/// An integer type of the results: i64, or i32 for scales up to 2²⁷, which leave it with probability below 10⁻⁵⁰.
pub trait Lattice: sealed::Lattice {}
impl Lattice for i32 {}
impl Lattice for i64 {}

mod sealed {
    use wide::u64x8;

    pub trait Lattice: Copy + Default {
        /// The greatest scale whose draws the type holds.
        const GREATEST_SCALE: f64;
        /// Writes the sixteen integers that stand in the low bits of `1.5·2⁵² + integer`.
        fn write(shifted: [u64x8; 2], out: &mut [Self]);
        fn from_i64(value: i64) -> Self;
    }
}

impl sealed::Lattice for i64 {
    const GREATEST_SCALE: f64 = GREATEST_SCALE;

    #[inline(always)]
    fn write(shifted: [u64x8; 2], out: &mut [Self]) {
        for (bits, out) in shifted.into_iter().zip(out.as_chunks_mut::<8>().0) {
            *out = bytemuck::cast(bits - u64x8::splat(INTEGER_BITS.to_bits()));
        }
    }

    fn from_i64(value: i64) -> Self {
        value
    }
}

impl sealed::Lattice for i32 {
    const GREATEST_SCALE: f64 = 134_217_728.0;

    #[inline(always)]
    fn write(shifted: [u64x8; 2], out: &mut [Self]) {
        for (bits, out) in shifted.into_iter().zip(out.as_chunks_mut::<8>().0) {
            *out = bits.to_array().map(|bits| bits as i32);
        }
    }

    fn from_i64(value: i64) -> Self {
        value.try_into().expect("a draw of at most sixteen scales")
    }
}

/// Fills `out` with `⌊σz_j + ½⌋`, z_j the ideal normals of (key, purpose, round); `out[0]` is the first coordinate of block
/// `first_block`, and `deviation` is σ in lattice units.
///
/// # Panics
/// If σ is not in (0, 2⁵⁰], or above 2²⁷ for i32; if the processor does not round to nearest.
pub fn fill_rounded_gaussian<T: Lattice>(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    deviation: f64,
    out: &mut [T],
) {
    check::<T>(deviation);
    let enclosure = Enclosure::of_gaussian(deviation);
    match RoundStreams::new(key, purpose, Law::ExactGaussian, round) {
        RoundStreams::Simulation(round) => gaussian::<Native, _, T>(&round, first_block, &enclosure, out),
        RoundStreams::Release(round) => gaussian::<Native, _, T>(&round, first_block, &enclosure, out),
    };
}

/// Fills `out` with `⌊Y_j + ½⌋`, Y_j the ideal Laplace variables of density e^{−|y|/scale}/(2·scale), as
/// [`fill_rounded_gaussian`] does.
///
/// `Y = ±scale·(−ln U)`: the first digit is the sign, the others are U's. With `k = 2·word` and the later digits,
/// `U = (k + θ)·2⁻⁶⁴`, θ ∈ \[0, 2), which moves L by at most 2/k: by `L·2/(K·L_K)` for U ≤ ½, k ≥ K, and by 2⁻⁶² beyond.
///
/// # Panics
/// As [`fill_rounded_gaussian`].
pub fn fill_rounded_laplace<T: Lattice>(
    key: &StreamKey,
    purpose: Purpose,
    round: u64,
    first_block: u64,
    scale: f64,
    out: &mut [T],
) {
    check::<T>(scale);
    let enclosure = Enclosure::of_laplace(scale);
    match RoundStreams::new(key, purpose, Law::ExactLaplace, round) {
        RoundStreams::Simulation(round) => laplace::<Native, _, T>(&round, first_block, &enclosure, out),
        RoundStreams::Release(round) => laplace::<Native, _, T>(&round, first_block, &enclosure, out),
    }
}

fn check<T: Lattice>(scale: f64) {
    assert!(
        scale > 0.0 && scale <= T::GREATEST_SCALE,
        "the noise's scale must lie in (0, {}] lattice units, found {scale}: choose a coarser lattice",
        T::GREATEST_SCALE
    );
    assert_rounding_to_nearest();
}

/// The bounds need the processor's default rounding, which a foreign library may have changed for this thread.
fn assert_rounding_to_nearest() {
    let one = std::hint::black_box(1.0);
    let [down, up] = [0.5 * f64::EPSILON, 0.75 * f64::EPSILON].map(|part| one + part);
    assert!(
        down == 1.0 && up == 1.0 + f64::EPSILON,
        "the processor does not round to nearest: some library changed the floating-point control register"
    );
}

/// A bound of the distance of real numbers from computed ones: `slope·magnitude + absolute`, for words from `margin` on.
#[derive(Clone, Copy, Debug)]
struct Enclosure {
    scale: f64,
    margin: u64,
    slope: f64,
    absolute: f64,
}

impl Enclosure {
    /// The margin K for a scale, `2³¹·√(scale/4)` by powers of two: near the least `K·2⁻⁶³ + 5·scale/(2K·L_K)`.
    fn margin(scale: f64) -> i32 {
        let exponent = (scale.to_bits() >> 52) as i32 - 1023;
        (31 + (exponent - 2).div_euclid(2)).clamp(20, 50)
    }

    fn of_gaussian(deviation: f64) -> Self {
        Self::of_gaussian_with(deviation, Self::margin(deviation))
    }

    fn of_gaussian_with(deviation: f64, margin: i32) -> Self {
        let right_end = 2f64.powi(-64) / (2.0 * 2f64.powi(margin - 64)).sqrt();
        Self::new(deviation, margin, NORMAL_ERROR, [0.5, right_end])
    }

    /// 6u from the logarithm, 1u from the product.
    fn of_laplace(scale: f64) -> Self {
        Self::new(scale, Self::margin(scale), LOGARITHM_ERROR + 1.0, [2.0, 2f64.powi(-62)])
    }

    /// For numbers within `roundings·u` of themselves that later digits move by at most `left/(K·L_K)` of themselves where U ≤ ½,
    /// and by `right·scale` beyond.
    fn new(scale: f64, margin: i32, roundings: f64, [left, right]: [f64; 2]) -> Self {
        let least_logarithm = f64::from(64 - margin) * std::f64::consts::LN_2;
        Self {
            scale,
            margin: 1 << margin,
            slope: SLACK * (roundings * ROUNDOFF + left * 2f64.powi(-margin) / least_logarithm),
            absolute: SLACK * right * scale,
        }
    }

    /// The greatest distance from an integer that decides, for numbers of this magnitude: `½ − slope·magnitude − absolute`.
    #[inline(always)]
    fn threshold<V: Lanes>(&self, magnitude: V) -> V {
        magnitude.mul_add(V::splat(-self.slope), V::splat(0.5 - self.absolute - f64::EPSILON))
    }
}

/// `x + 1.5·2⁵²`, whose low bits are the nearest integer, and the distance of x from it.
#[inline(always)]
fn nearest<V: Lanes>(x: V) -> (V, V) {
    let shifted = x + V::splat(INTEGER_BITS);
    (shifted, x - (shifted - V::splat(INTEGER_BITS)))
}

/// [`fill_rounded_gaussian`] from any digits; the number of pairs that the slow path decided.
#[inline(always)]
fn gaussian<V: Lanes, R: Round, T: Lattice>(
    round: &R,
    first_block: u64,
    enclosure: &Enclosure,
    out: &mut [T],
) -> usize {
    let twice_variance = 2.0 * (enclosure.scale * enclosure.scale);
    let mut slow = 0;
    for_each_batch(round, first_block, out, |batch, out: &mut [T; BATCH]| {
        let mut undecided = [0; 8];
        let (pairs, _) = batch.words.as_chunks();
        let (outs, _) = out.as_chunks_mut::<16>();
        for ((&words, out), undecided) in pairs.iter().zip(outs).zip(&mut undecided) {
            let ([x, y], radius) = box_muller::<V>(words, twice_variance);
            let ((x, dx), (y, dy)) = (nearest(x), nearest(y));
            T::write([x.to_bits(), y.to_bits()], out);
            *undecided = dx.max_magnitude(dy).not_below(enclosure.threshold(radius))
                | outside(V::words_below, words[0], enclosure.margin);
        }
        if undecided != [0; 8] {
            slow += decide_pairs(round, &batch, undecided, enclosure.scale, out);
        }
    });
    slow
}

/// Bit l is set where word l is below `margin` or at least `2⁶⁴ − margin`.
#[inline(always)]
fn outside(words_below: impl Fn(u64x8, u64) -> u8, words: u64x8, margin: u64) -> u8 {
    words_below(words + u64x8::splat(margin), 2 * margin)
}

/// [`for_each_group`] for batches of digits.
#[inline(always)]
fn for_each_batch<R: Round, T: Copy + Default>(
    round: &R,
    first_block: u64,
    out: &mut [T],
    mut write: impl FnMut(Batch, &mut [T; BATCH]),
) {
    // Sixteen words of the counter's 64 bits a batch, and pairs are numbered below 2⁶⁴.
    let last_block = first_block.saturating_add((out.len() / BLOCK_COORDINATES) as u64);
    assert!(last_block < 1 << 52, "blocks of exact noise are numbered below 2^52");
    for_each_group(first_block, out, |block| round.open(block), Block::next, |batch, out| write(batch, out));
}

#[cold]
#[inline(never)]
fn decide_pairs<R: Round, T: Lattice>(
    round: &R,
    batch: &Batch,
    undecided: [u8; 8],
    deviation: f64,
    out: &mut [T; BATCH],
) -> usize {
    let mut slow = 0;
    for (place, number) in lanes_of(undecided).map(|place| (place, 64 * batch.index + place as u64)) {
        let pair = Pair { round, number, words: pair_words(&batch.words, place), deviation };
        let [x, y] = first_decided(&pair);
        let first = 16 * (place / 8) + place % 8;
        (out[first], out[first + 8]) = (T::from_i64(x), T::from_i64(y));
        slow += 1;
    }
    slow
}

/// The numbers 8t + l of the bits l of the masks t.
fn lanes_of<const N: usize>(masks: [u8; N]) -> impl Iterator<Item = usize> {
    (0..8 * N).filter(move |place| masks[place / 8] >> (place % 8) & 1 == 1)
}

/// The two words of pair 8t + l of a batch.
fn pair_words(words: &[u64x8; 16], place: usize) -> [u64; 2] {
    [0, 1].map(|word| words[2 * (place / 8) + word].to_array()[place % 8])
}

/// Something that enough precision decides.
trait Question {
    type Answer;

    /// The answer, if N words of precision and as many digits decide.
    fn answer<const N: usize>(&self) -> Option<Self::Answer>;
}

/// The answer with the least precision that decides: 128, 256, 512 or 1024 digits.
///
/// # Panics
/// If 1024 digits do not decide: with probability below 2⁻⁹⁰⁰.
fn first_decided<Q: Question>(question: &Q) -> Q::Answer {
    question
        .answer::<3>()
        .or_else(|| question.answer::<5>())
        .or_else(|| question.answer::<9>())
        .or_else(|| question.answer::<17>())
        .expect("1024 digits decide")
}

/// Both outputs of a pair of uniforms.
struct Pair<'a, R> {
    round: &'a R,
    number: u64,
    words: [u64; 2],
    deviation: f64,
}

impl<R: Round> Question for Pair<'_, R> {
    type Answer = [i64; 2];

    fn answer<const N: usize>(&self) -> Option<[i64; 2]> {
        let [x, y] = normals::<R, N>(self.round, self.number, self.words)?;
        let rounded = |z: Exact<N>| z.times(self.deviation).nearest_integer();
        Some([rounded(x)?, rounded(y)?])
    }
}

/// The N − 1 words of digits of both uniforms of this number.
fn digits<R: Round, const N: usize>(round: &R, number: u64, words: [u64; 2]) -> [[u64; N]; 2] {
    let mut digits = words.map(|word| std::array::from_fn(|i| if i == 0 { word } else { 0 }));
    let [first, second] = &mut digits;
    round.later(number, &mut first[1..N - 1], &mut second[1..N - 1]);
    digits
}

/// The ideal normals of the pair with this number and these first words; none if the digits do not suffice for the logarithm.
fn normals<R: Round, const N: usize>(round: &R, number: u64, words: [u64; 2]) -> Option<[Exact<N>; 2]> {
    let [first, mut second] = digits::<R, N>(round, number, words);
    second[0] &= u64::MAX >> 2;
    normals_of(Ball::from_digits(&first[..N - 1]), Ball::from_digits(&second[..N - 1]), words[1])
}

/// `√(−2 ln U)·(±cos πy/4, sin πy/4)`, in this order or the other. `angle` is 0.00…, the digits of the second uniform
/// with 0 for the octant's two; they are y's in two's complement: `y = 8·angle`, less 2 where that is at least 1.
fn normals_of<const N: usize>(uniform: Ball<N>, angle: Ball<N>, octant: u64) -> Option<[Exact<N>; 2]> {
    let radius = uniform.minus_ln()?.shifted_up(1).sqrt();
    let is_negative = octant >> 61 & 1 == 1;
    let y = if is_negative { Ball::integer(2).sub(angle.shifted_up(3)) } else { angle.shifted_up(3) };
    let (sine, cosine) = y.sin_cos_quarter_pi();
    let sine = Exact::new(is_negative, radius.mul(sine));
    let cosine = Exact::new(octant >> 63 == 1, radius.mul(cosine));
    Some(if octant >> 62 & 1 == 1 { [sine, cosine] } else { [cosine, sine] })
}

/// [`fill_rounded_laplace`] from any digits.
#[inline(always)]
fn laplace<V: Lanes, R: Round, T: Lattice>(round: &R, first_block: u64, enclosure: &Enclosure, out: &mut [T]) {
    for_each_batch(round, first_block, out, |batch, out: &mut [T; BATCH]| {
        let mut undecided = [0; 16];
        let (outs, _) = out.as_chunks_mut::<16>();
        let (pairs, _) = batch.words.as_chunks::<2>();
        let (masks, _) = undecided.as_chunks_mut::<2>();
        for ((words, out), undecided) in pairs.iter().zip(outs).zip(masks) {
            let [x, y] = words.map(|words| {
                let k = words << 1_u32;
                let magnitude = minus_ln::<V>(k) * V::splat(enclosure.scale);
                let (shifted, distance) = nearest(magnitude.negate_where(words));
                let mask = distance.max_magnitude(distance).not_below(enclosure.threshold(magnitude));
                (shifted, mask | V::words_below(k, enclosure.margin))
            });
            T::write([x.0.to_bits(), y.0.to_bits()], out);
            *undecided = [x.1, y.1];
        }
        if undecided != [0; 16] {
            decide_laplace(round, &batch, undecided, enclosure.scale, out);
        }
    });
}

#[cold]
#[inline(never)]
fn decide_laplace<R: Round, T: Lattice>(
    round: &R,
    batch: &Batch,
    undecided: [u8; 16],
    scale: f64,
    out: &mut [T; BATCH],
) {
    for place in lanes_of(undecided) {
        let draw = LaplaceDraw {
            round,
            number: BATCH as u64 * batch.index + place as u64,
            word: batch.words[place / 8].to_array()[place % 8],
            scale,
        };
        out[place] = T::from_i64(first_decided(&draw));
    }
}

struct LaplaceDraw<'a, R> {
    round: &'a R,
    number: u64,
    word: u64,
    scale: f64,
}

impl<R: Round> Question for LaplaceDraw<'_, R> {
    type Answer = i64;

    fn answer<const N: usize>(&self) -> Option<i64> {
        let [mut digits, _] = digits::<R, N>(self.round, self.number, [self.word, 0]);
        digits[0] &= u64::MAX >> 1;
        let uniform = Ball::<N>::from_digits(&digits[..N - 1]).shifted_up(1);
        let draw = Exact::new(self.word >> 63 == 1, uniform.minus_ln()?);
        draw.times(self.scale).nearest_integer()
    }
}

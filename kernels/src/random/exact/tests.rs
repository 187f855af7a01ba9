//! Attacks on the guarantees of the exact samplers. Each check takes its number of draws: the tests run a hundredth, and
//! `exact_noise_in_full` (`make verify-exact`) all of them. Seeds are fixed, statistical tests have level α = 1e-6.

use super::super::laws_tests::{assert_chi_square, normal_tail};
use super::super::stream::{ReleaseRound, SimulationRound};
use super::super::uniform::UniformStream;
use super::combination::{combination, decide_form, normal};
use super::lanes::Portable;
use super::*;
use dashu_float::FBig;
use wide::u64x8;

const SIMULATION: u64 = 20_240_229;
const RELEASE: [u8; 32] = *b"a key that only these tests use.";
const PURPOSE: Purpose = Purpose(7);

/// A real number in 200 bits more than ours, by other code.
type Big = FBig;

fn big(value: u64, fraction: usize) -> Big {
    Big::from(value).with_precision(64 * fraction + 200).value()
}

/// The words of a fixed-point number, the lowest first, with `fraction` words of digits.
fn big_of(words: &[u64], fraction: usize) -> Big {
    let integer = words.iter().rev().fold(big(0, fraction), |x, &word| (x << 64) + big(word, fraction));
    integer >> (64 * fraction as isize)
}

fn words() -> impl FnMut() -> u64 {
    let mut stream = UniformStream::new(&StreamKey::Simulation(99), PURPOSE, 0, 0);
    move || stream.next_u64()
}

/// Words of uniforms where errors are greatest: random ones, near 0, near 1, at the tables' edges, and few bits.
fn hard_words(count: u64, mut next: impl FnMut() -> u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| {
        let word = next();
        let shift = next() % 62;
        match i % 5 {
            0 => word,
            1 => word >> shift,
            2 => (word >> shift).wrapping_neg(),
            3 => (1 << 63 | (word % 32) << 58).wrapping_add(((word >> 32) % 4097) << (shift % 30)) >> (shift % 3),
            _ => ((word % 16) << 60).wrapping_add(((word >> 32) % 4097) << (shift % 30)).wrapping_sub(2048),
        }
        .max(1)
    })
}

fn is_within<const N: usize>(ball: Ball<N>, exact: &Big) -> bool {
    let (value, error) = ball.parts();
    let distance = (exact.clone() - big_of(&value, N - 1)) << (64 * (N as isize - 1));
    let error = Big::from(error);
    distance <= error && -distance <= error
}

fn check_exact_functions<const N: usize>(count: u64) {
    let mut next = words();
    for word in hard_words(count, words()) {
        let digits: Vec<u64> = std::iter::once(word).chain((2..N).map(|_| next())).collect();
        let mut value: Vec<u64> = digits.iter().rev().copied().collect();
        value.push(0);
        // Any number that begins with the digits must be enclosed, the two ends above all.
        let ball = Ball::<N>::from_digits(&digits);
        for end in [0, 1] {
            let x = big_of(&value, N - 1) + (big(end, N - 1) >> (64 * (N as isize - 1)));
            if let Some(logarithm) = ball.minus_ln() {
                assert!(is_within(logarithm, &-x.ln()), "-ln {x}");
            } else {
                assert!(word >> 32 == 0, "-ln {x}");
            }
            let (sine, cosine) = ball.sin_cos_quarter_pi();
            let (exact_sine, exact_cosine) = x.sin_cos_unit(8);
            assert!(is_within(sine, &exact_sine) && is_within(cosine, &exact_cosine), "{x}");
            assert!(is_within(ball.sqrt(), &x.nth_root(2)), "root of {x}");
            assert!(is_within(ball.mul(ball), &(&x * &x)), "square of {x}");
            // Errors that grew for no reason would only cost time.
            assert!(sine.absolute_error() < 2f64.powi(40 - 64 * (N as i32 - 1)));
        }
    }
}

#[test]
fn exact_functions_enclose_those_of_another_library() {
    check_exact_functions::<3>(100);
    check_exact_functions::<5>(25);
    check_exact_functions::<17>(5);
}

#[test]
fn every_precision_decides_alike() {
    let round = SimulationRound::new(SIMULATION, PURPOSE, Law::ExactGaussian, 3);
    let batch = round.batch(2);
    for place in 0..64 {
        let pair =
            Pair { round: &round, number: 128 + place as u64, words: pair_words(&batch, place), deviation: 1e15 };
        let decided = pair.answer::<3>().expect("128 digits decide at 10^15");
        assert_eq!(pair.answer::<5>(), Some(decided));
        assert_eq!(pair.answer::<9>(), Some(decided));
        assert_eq!(pair.answer::<17>(), Some(decided));
    }
}

#[test]
fn exact_numbers_are_the_floats_they_come_from() {
    for x in [0.0, 1.0, 0.1, 1e-9, 1.5e15, 1e-30, f64::MIN_POSITIVE, 5e-324, 1.8e19] {
        let ball = Ball::<3>::from_f64(-x);
        assert!(is_within(ball, &Big::try_from(x).unwrap().with_precision(400).value()), "{x}");
        if x > 1e-20 {
            assert_eq!(ball.to_f64(), x);
        }
    }
    let around_a_tie = Ball::<3>::from_f64(2.5).add(Ball::from_digits(&[0, 0]));
    assert_eq!(around_a_tie.nearest_integer(), None, "both 2 and 3 are enclosed");
    let minus = |x| Ball::<5>::integer(0).sub(Ball::from_f64(x));
    assert_eq!(minus(2.4).nearest_integer(), Some(-2));
    assert_eq!(minus(0.6).nearest_integer(), Some(-1));
}

/// The greatest errors of logarithm, and of pairs relative to the radius, in units of u, and the pair that has it.
fn check_fast_functions(count: u64) -> ([f64; 2], [u64; 2]) {
    let (mut worst, mut worst_pair) = ([0f64; 2], [0; 2]);
    let (mut radii, mut angles) = (hard_words(count, words()), hard_words(u64::MAX, words()).skip(1));
    while let Some(first) = radii.next() {
        let k1: [u64; 8] = std::array::from_fn(|lane| if lane == 0 { first } else { radii.next().unwrap_or(first) });
        let k2: [u64; 8] = std::array::from_fn(|_| angles.next().expect("an endless sequence"));
        let vectors = [k1, k2].map(u64x8::new);
        let logarithms = minus_ln::<Native>(vectors[0]).to_array();
        let (pairs, radius) = box_muller::<Native>(vectors, 2.0);
        let (reference, _) = box_muller::<Portable>(vectors, 2.0);
        assert_eq!(pairs.map(Lanes::to_array), reference.map(Lanes::to_array));
        assert_eq!(logarithms, minus_ln::<Portable>(vectors[0]).to_array());
        let [x, y] = pairs.map(Lanes::to_array);
        let radius = radius.to_array();
        for lane in 0..8 {
            // Five words: the reference's own error is nothing.
            let exact = Ball::<5>::multiple_of_2_to_minus_64(k1[lane]).minus_ln().expect("k > 0");
            let error = distance(logarithms[lane], Exact::new(false, exact)) / logarithms[lane];
            worst[0] = worst[0].max(error / ROUNDOFF);
            let exact = normals_of::<5>(
                Ball::multiple_of_2_to_minus_64(k1[lane]),
                Ball::multiple_of_2_to_minus_64(k2[lane] & u64::MAX >> 2),
                k2[lane],
            )
            .expect("k > 0");
            for (computed, exact) in [x[lane], y[lane]].into_iter().zip(exact) {
                let error = distance(computed, exact) / radius[lane];
                // Near the middle of the law errors are small in lattice units, and boundaries far apart.
                if error / ROUNDOFF > worst[1] && (count > 20_000 || radius[lane] > 1.0) {
                    (worst[1], worst_pair) = (error / ROUNDOFF, [k1[lane], k2[lane]]);
                }
            }
        }
    }
    (worst, worst_pair)
}

/// |computed − exact|, as an upper bound.
fn distance<const N: usize>(computed: f64, exact: Exact<N>) -> f64 {
    let difference = exact - Exact::new(computed < 0.0, Ball::from_f64(computed));
    difference.to_f64().abs() + difference.absolute_error()
}

#[test]
fn the_fast_path_keeps_its_stated_errors_and_bits_on_all_instruction_sets() {
    assert_fast_errors(check_fast_functions(100_000).0);
}

fn assert_fast_errors([logarithm, normal]: [f64; 2]) {
    assert!(logarithm < LOGARITHM_ERROR && logarithm > 0.3 * LOGARITHM_ERROR, "{logarithm}u");
    // Above a quarter: an enclosure of a quarter of the width is wrong.
    assert!(normal < NORMAL_ERROR && normal > 0.3 * NORMAL_ERROR, "{normal}u");
}

/// Every draw of these batches in both ways; the number of slow decisions of the fast path, and of differences.
fn check_fast_against_slow<V: Lanes, R: Round>(key: &R::Key, enclosure: &Enclosure, batches: u64) -> [u64; 2] {
    let (mut slow, mut different) = (0, 0);
    let number = 5;
    let round = R::new(key, PURPOSE, Law::ExactGaussian, number);
    let mut fast = vec![0i64; BATCH * batches.min(BATCHES) as usize];
    for first_block in 0..batches.div_ceil(BATCHES) {
        slow += gaussian::<V, R, i64>(&round, first_block, enclosure, &mut fast) as u64;
        let mut block = round.open(first_block);
        for fast in fast.as_chunks::<BATCH>().0 {
            let batch = block.next();
            let mut exact = [0i64; BATCH];
            decide_pairs(&round, &batch, [0xff; 8], enclosure.scale, &mut exact);
            different += fast.iter().zip(exact).filter(|(fast, exact)| **fast != *exact).count() as u64;
        }
    }
    [slow, different]
}

fn quarter(enclosure: Enclosure) -> Enclosure {
    Enclosure { slope: enclosure.slope / 4.0, absolute: enclosure.absolute / 4.0, ..enclosure }
}

#[test]
fn the_fast_path_rounds_as_the_slow_path_does() {
    for deviation in [0.01, 0.7, 1e3, 2f64.powi(31), 2f64.powi(40), 2f64.powi(47), 2f64.powi(50)] {
        let enclosure = Enclosure::of_gaussian(deviation);
        let [slow, different] = check_fast_against_slow::<Native, SimulationRound>(&SIMULATION, &enclosure, 400);
        assert_eq!(different, 0, "at {deviation}, {slow} decided slowly");
        let share = slow as f64 / (400.0 * 64.0);
        let stated = enclosure.margin as f64 * 2f64.powi(-63) + 5.0 * deviation * enclosure.slope;
        assert!(share < 1.3 * stated + 5e-4, "{share} of the pairs at {deviation}, stated {stated}");
        let [_, different] = check_fast_against_slow::<Portable, ReleaseRound>(&RELEASE, &enclosure, 50);
        assert_eq!(different, 0, "at {deviation}");
    }
}

/// One pair of first words for all pairs; later digits vary.
struct Repeated([u64; 2]);

struct RepeatedBlock(u64, [u64; 2]);

impl Block for RepeatedBlock {
    fn next(&mut self) -> Batch {
        self.0 += 1;
        Batch { index: self.0 - 1, words: std::array::from_fn(|vector| u64x8::splat(self.1[vector % 2])) }
    }
}

impl Round for Repeated {
    type Block = RepeatedBlock;
    type Key = [u64; 2];

    fn new(words: &[u64; 2], _: Purpose, _: Law, _: u64) -> Self {
        Self(*words)
    }

    fn open(&self, block: u64) -> RepeatedBlock {
        RepeatedBlock(block * BATCHES, self.0)
    }

    fn later(&self, number: u64, first: &mut [u64], second: &mut [u64]) {
        first.fill(number << 58);
        second.fill(!number << 58);
    }
}

/// The pair of the greatest error, at many scales: one puts the boundary between two integers within the error.
#[test]
fn an_enclosure_of_a_quarter_of_the_width_is_caught() {
    let (_, pair) = check_fast_functions(20_000);
    let (mut differences, mut sabotaged_differences) = (0, 0);
    for i in 0..2000 {
        let enclosure = Enclosure::of_gaussian(2f64.powi(46) * (1.0 + f64::from(i) * 1e-5));
        let [_, different] = check_fast_against_slow::<Native, Repeated>(&pair, &enclosure, 1);
        differences += different;
        let [_, different] = check_fast_against_slow::<Native, Repeated>(&pair, &quarter(enclosure), 1);
        sabotaged_differences += different;
    }
    assert_eq!(differences, 0);
    assert!(sabotaged_differences > 64, "{sabotaged_differences} of 256,000");
}

#[test]
fn results_are_the_same_on_all_instruction_sets_and_for_both_integer_types() {
    fn draws<V: Lanes, R: Round>(key: &R::Key, deviation: f64, length: usize) -> [Vec<i64>; 4] {
        let (mut wide, mut short, mut laplace_draws) = (vec![0i64; length], vec![0i32; length], vec![0i64; length]);
        let round = R::new(key, PURPOSE, Law::ExactGaussian, 1);
        gaussian::<V, R, i64>(&round, 3, &Enclosure::of_gaussian(deviation), &mut wide);
        gaussian::<V, R, i32>(&round, 3, &Enclosure::of_gaussian(deviation), &mut short);
        laplace::<V, R, i64>(&round, 3, &Enclosure::of_laplace(deviation), &mut laplace_draws);
        let mut sums = vec![0i64; length];
        combination::<V, R, i64>(key, &terms(5, deviation), 3, &mut sums, 1.0);
        [wide, short.into_iter().map(i64::from).collect(), laplace_draws, sums]
    }
    for length in [0, 1, 15, 16, 127, 128, 129, 4096, 9000] {
        for deviation in [3.0, 1e7] {
            let native = draws::<Native, SimulationRound>(&SIMULATION, deviation, length);
            assert_eq!(native, draws::<Portable, SimulationRound>(&SIMULATION, deviation, length));
            assert_eq!(native[0], native[1]);
            let native = draws::<Native, ReleaseRound>(&RELEASE, deviation, length);
            assert_eq!(native, draws::<Portable, ReleaseRound>(&RELEASE, deviation, length));
        }
    }
}

#[test]
fn a_part_of_a_round_is_that_part_and_addresses_do_not_share_noise() {
    for key in [StreamKey::Simulation(SIMULATION), StreamKey::Release(RELEASE)] {
        let draw = |purpose, round, first_block, length| {
            let mut out = vec![0i64; length];
            fill_rounded_gaussian(&key, purpose, round, first_block, 1e12, &mut out);
            out
        };
        let whole = draw(PURPOSE, 1, 0, 3 * BLOCK_COORDINATES);
        assert_eq!(whole[BLOCK_COORDINATES..][..5000], draw(PURPOSE, 1, 1, 5000));
        let others = [draw(PURPOSE, 2, 0, 4096), draw(Purpose(8), 1, 0, 4096), draw(PURPOSE, 1, 7, 4096)];
        let mut all = [whole, others.concat()].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        // 25,000 draws on a lattice of 10¹² are distinct up to chance.
        assert!(count - all.len() < 10);
    }
}

/// The digits' layout is part of the specification: a release can be recomputed from its key.
#[test]
fn the_layout_of_digits_stays() {
    let draw = |key: &StreamKey| {
        let (mut normals, mut laplace_draws) = (vec![0i64; 4096], vec![0i64; 4096]);
        fill_rounded_gaussian(key, PURPOSE, 2, 1, 1e6, &mut normals);
        fill_rounded_laplace(key, PURPOSE, 2, 1, 1e6, &mut laplace_draws);
        [0, 9, 4095].map(|i| [normals[i], laplace_draws[i]])
    };
    assert_eq!(draw(&StreamKey::Simulation(1)), LAYOUT[0]);
    assert_eq!(draw(&StreamKey::Release([1; 32])), LAYOUT[1]);
}

const LAYOUT: [[[i64; 2]; 3]; 2] = [
    [[-541_636, 17_846], [-75_262, 1_534_300], [-1_307_754, 1_191_065]],
    [[1_364_978, -1_092_882], [-830_737, -773_512], [696_959, 1_238_270]],
];

/// P(⌊X + ½⌋ = n) of a symmetric X with P(X > x) = tail(x), without cancellation in the tails.
fn rounded(n: i64, tail: impl Fn(f64) -> f64) -> f64 {
    let n = n.unsigned_abs() as f64;
    if n == 0.0 { 1.0 - 2.0 * tail(0.5) } else { tail(n - 0.5) - tail(n + 0.5) }
}

/// χ² of draws against the exact probabilities of −60, …, 60, the ends with their tails.
fn check_law(count: u64, probability: impl Fn(i64) -> f64, fill: impl Fn(u64, &mut [i64])) {
    let mut counts = [0u64; 121];
    let mut out = vec![0i64; 1 << 16];
    for round in 0..count.div_ceil(1 << 16) {
        fill(round, &mut out);
        for &n in &out {
            counts[(n.clamp(-60, 60) + 60) as usize] += 1;
        }
    }
    let probabilities: Vec<f64> = (-60..=60).map(probability).collect();
    assert_chi_square(&counts, &probabilities);
}

fn check_laws(count: u64) {
    for (seed, scale) in [(1, 0.7), (2, 3.0)] {
        for key in [StreamKey::Simulation(seed), StreamKey::Release([seed as u8; 32])] {
            let normal = |n| rounded(n, |x| normal_tail(x / scale));
            check_law(count, normal, |round, out| {
                fill_rounded_gaussian(&key, PURPOSE, round, 0, scale, out);
            });
            let laplace = |n| rounded(n, |x| 0.5 * libm::exp(-x / scale));
            check_law(count, laplace, |round, out| {
                fill_rounded_laplace(&key, PURPOSE, round, 0, scale, out);
            });
        }
    }
}

#[test]
fn draws_follow_the_rounded_laws() {
    check_laws(1 << 21);
}

/// Uniforms below 2^−BITS: the first BITS digits are 0, and those that follow are the other source's.
struct Small<R, const BITS: u32>(R);

struct SmallBlock<B, const BITS: u32>(B);

impl<B: Block, const BITS: u32> Block for SmallBlock<B, BITS> {
    fn next(&mut self) -> Batch {
        let mut batch = self.0.next();
        for [radius, _] in batch.words.as_chunks_mut().0 {
            *radius >>= BITS;
        }
        batch
    }
}

impl<R: Round, const BITS: u32> Round for Small<R, BITS> {
    type Block = SmallBlock<R::Block, BITS>;
    type Key = R::Key;

    fn new(key: &R::Key, purpose: Purpose, law: Law, round: u64) -> Self {
        Self(R::new(key, purpose, law, round))
    }

    fn open(&self, block: u64) -> Self::Block {
        SmallBlock(self.0.open(block))
    }

    fn later(&self, number: u64, first: &mut [u64], second: &mut [u64]) {
        self.0.later(number, first, second);
    }
}

/// The tail beyond `√(2·BITS·ln 2)` standard deviations: given `U < 2^−BITS`, `P(|x| > t) = 2^BITS·P(|z| > t)` there, for x
/// and for y.
fn check_tail<const BITS: u32>(pairs: u64) {
    let deviation = 3.0;
    let least = deviation * (2.0 * f64::from(BITS) * std::f64::consts::LN_2).sqrt();
    let first = (least + 0.5).ceil() as i64;
    let mut counts = [0u64; 9];
    let mut out = vec![0i64; BLOCK_COORDINATES];
    let blocks = pairs.div_ceil(BLOCK_COORDINATES as u64 / 2);
    for number in 0..blocks {
        let round = Small::<SimulationRound, BITS>::new(&SIMULATION, PURPOSE, Law::ExactGaussian, number);
        gaussian::<Native, _, i64>(&round, 0, &Enclosure::of_gaussian(deviation), &mut out);
        for n in out.iter().map(|n| n.abs() - first) {
            counts[if n < 0 { 8 } else { n.min(7) as usize }] += 1;
        }
    }
    let beyond = |n: i64| 2f64.powi(BITS as i32 + 1) * normal_tail((n as f64 - 0.5) / deviation);
    let mut probabilities: Vec<f64> = (first..first + 7).map(|n| beyond(n) - beyond(n + 1)).collect();
    probabilities.extend([beyond(first + 7), 1.0 - beyond(first)]);
    assert_chi_square(&counts, &probabilities);
}

#[test]
fn the_tails_beyond_six_deviations_are_those_of_the_normal() {
    check_tail::<26>(1 << 20);
    check_tail::<40>(1 << 17);
    // Only the slow path draws these.
    check_tail::<60>(1 << 14);
}

/// Terms as those of a band: n rounds with coefficients `deviation/√(j + 1)` of alternating sign.
fn terms(n: u64, deviation: f64) -> Vec<Term> {
    (0..n)
        .map(|j| Term {
            purpose: PURPOSE,
            round: 40 + j,
            coefficient: deviation / (j as f64 + 1.0).sqrt() * if j % 3 == 1 { -1.0 } else { 1.0 },
        })
        .collect()
}

/// Slow decisions and differences of combinations.
fn check_combinations<R: Round>(key: &R::Key, terms: &[Term], count: usize, share: f64) -> [usize; 2] {
    let (mut slow, mut different) = (0, 0);
    for first_block in 0..count.div_ceil(BLOCK_COORDINATES) {
        let mut out = vec![0i64; BLOCK_COORDINATES.min(count)];
        slow += combination::<Native, R, i64>(key, terms, first_block as u64, &mut out, share);
        let coordinate = (first_block * BLOCK_COORDINATES) as u64;
        different += (coordinate..)
            .zip(out)
            .filter(|&(coordinate, value)| value != decide_form::<R, [Term]>(key, terms, coordinate))
            .count();
    }
    [slow, different]
}

#[test]
fn combinations_round_as_the_slow_path_does() {
    for deviation in [0.5, 1e6, 2f64.powi(31), 2f64.powi(40)] {
        for n in [1, 2, 8] {
            let terms = terms(n, deviation);
            let [slow, different] = check_combinations::<SimulationRound>(&SIMULATION, &terms, 1000, 1.0);
            assert_eq!(different, 0, "{n} terms at {deviation}, {slow} decided slowly");
            let [_, different] = check_combinations::<ReleaseRound>(&RELEASE, &terms, 200, 1.0);
            assert_eq!(different, 0, "{n} terms at {deviation}");
        }
    }
    // The bound is for errors that all point one way; random ones stay far below it.
    let [slow, different] = check_combinations::<SimulationRound>(&SIMULATION, &terms(4, 2f64.powi(46)), 10_000, 0.005);
    assert!(different > 0, "a two-hundredth of the bound was not caught, {slow} decided slowly");
}

#[test]
fn a_combination_of_one_term_is_the_rounded_gaussian() {
    for key in [StreamKey::Simulation(SIMULATION), StreamKey::Release(RELEASE)] {
        for deviation in [0.3, 12.5, 4e9] {
            let (mut gaussian, mut sum) = (vec![0i64; 9000], vec![0i64; 9000]);
            fill_rounded_gaussian(&key, PURPOSE, 6, 2, deviation, &mut gaussian);
            let term = Term { purpose: PURPOSE, round: 6, coefficient: deviation };
            fill_rounded_combination(&key, &[term], 2, &mut sum);
            assert_eq!(gaussian, sum, "at {deviation}");
        }
    }
}

#[test]
fn exact_numbers_divide() {
    for x in [1.0, -3.0, 0.7, 1e9, -1e-9] {
        let inverse = Exact::<3>::new(false, Ball::integer(1)).over(x);
        assert!(distance(1.0 / x, inverse) < 1.2e-16 * (1.0 / x).abs());
        let one = inverse.times(x);
        assert!(distance(1.0, one) < 2f64.powi(-80), "1/{x}");
        assert!(distance(1.0, one) <= 2.0 * one.absolute_error());
    }
}

#[test]
fn a_ball_is_its_middle_widened() {
    fn check<const N: usize>() {
        let ball = Exact::<N>::new(false, Ball::integer(1)).over(-3.0);
        let (middle, radius) = ball.centre();
        let ulp = 2f64.powi(-64 * (N as i32 - 1));
        assert!(middle.absolute_error() == 0.0 && radius >= ball.absolute_error() && radius < 99.0 * ulp);
        let error = middle.widened(radius).absolute_error();
        assert!(error >= radius && error <= 1.01 * radius + 2.0 * ulp, "{error}");
        assert_eq!(Exact::<N>::UNKNOWN.centre().1, f64::INFINITY);
        // −1/3 rounds to 0 up to a distance of 1/6; no ball is wider than 2¹²⁷ ulps.
        let widest = if N == 3 { 0.166 } else { 2f64.powi(126) * ulp };
        assert_eq!(middle.widened(widest).nearest_integer(), Some(0));
        for distance in [0.167, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(middle.widened(distance).nearest_integer(), None, "{distance}");
        }
    }
    check::<3>();
    check::<5>();
}

/// ζ = C⁻¹z for a Toeplitz band, scaled: the recursion of correlated noise.
struct Band {
    coefficients: Vec<f64>,
    deviation: f64,
    round: u64,
}

impl LinearForm for Band {
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N> {
        let mut zeta: Vec<Exact<N>> = Vec::new();
        for round in 0..=self.round {
            let mut value = normal(PURPOSE, round);
            for (coefficient, past) in self.coefficients[1..].iter().zip(zeta.iter().rev()) {
                value = value - past.times(*coefficient);
            }
            zeta.push(value.over(self.coefficients[0]));
        }
        zeta.last().expect("a round").times(self.deviation)
    }
}

#[test]
fn a_recursion_rounds_as_its_exact_value_does() {
    // C with C⁻¹ of bounded rows: the square root of the prefix sums, cut to six bands and scaled.
    let coefficients: Vec<f64> = [1.0, 0.5, 0.375, 0.3125, 0.273_437_5, 0.246_093_75].map(|c| 1.3 * c).to_vec();
    let (rounds, length) = (12, 300);
    let mut row = vec![1.0 / coefficients[0]];
    for t in 1..rounds {
        let sum: f64 = coefficients[1..].iter().zip(row.iter().rev()).map(|(c, n)| c * n).sum();
        row.push(-sum / coefficients[0]);
        assert_eq!(row.len(), t + 1);
    }
    let kappa = SLACK * row.iter().map(|n: &f64| n.abs()).sum::<f64>();
    for key in [StreamKey::Simulation(SIMULATION), StreamKey::Release(RELEASE)] {
        for deviation in [2f64.powi(20), 2f64.powi(43)] {
            let (mut slow, mut residual) = (0, 0f64);
            let mut history: Vec<Vec<f64>> = Vec::new();
            for round in 0..rounds {
                let mut zeta = vec![0.0; length];
                let bounds = fill_enclosed_normals(&key, PURPOSE, round as u64, 0, &mut zeta);
                let mut partial = bounds.magnitude;
                for (c, past) in coefficients[1..].iter().zip(history.iter().rev()) {
                    let greatest = past.iter().fold(0.0, |greatest: f64, x| greatest.max(x.abs()));
                    zeta.iter_mut().zip(past).for_each(|(zeta, past)| *zeta = (-c).mul_add(*past, *zeta));
                    partial += c * greatest;
                    residual = residual.max(bounds.error + (coefficients.len() + 1) as f64 * ROUNDOFF * partial);
                }
                residual = residual.max(bounds.error + 2.0 * ROUNDOFF * partial);
                zeta.iter_mut().for_each(|zeta| *zeta /= coefficients[0]);
                let values: Vec<f64> = zeta.iter().map(|zeta| deviation * zeta).collect();
                let scaling = ROUNDOFF * values.iter().fold(0.0, |greatest: f64, x| greatest.max(x.abs()));
                let bound = deviation * kappa * residual + scaling;
                let form = Band { coefficients: coefficients.clone(), deviation, round: round as u64 };
                let mut out = vec![0i64; length];
                round_enclosed(&values, bound, &mut out, |index| {
                    slow += 1;
                    decide(&key, &form, index as u64)
                });
                for (index, value) in out.into_iter().enumerate().step_by(7) {
                    assert_eq!(value, decide(&key, &form, index as u64), "round {round}");
                }
                history.push(zeta);
            }
            let all = rounds * length;
            assert_eq!(slow > 0, deviation > 1e9, "{slow} of {all} decided slowly");
        }
    }
}

#[test]
fn the_ends_of_the_uniforms_enter_combinations_exactly() {
    // Half of these pairs come from the exact arithmetic.
    let round = Small::<SimulationRound, 17>::new(&SIMULATION, PURPOSE, Law::ExactGaussian, 40);
    let mut sums = [0i64; 512];
    combination::<Native, Small<SimulationRound, 17>, i64>(&SIMULATION, &terms(1, 1e12), 0, &mut sums, 1.0);
    for (coordinate, sum) in sums.into_iter().enumerate() {
        let exact = normal::<_, 5>(&round, coordinate as u64).times(1e12);
        assert_eq!(exact.nearest_integer(), Some(sum));
    }
}

#[test]
fn laplace_draws_round_as_the_slow_path_does() {
    fn check<R: Round>(key: &R::Key, enclosure: &Enclosure, blocks: u64) -> usize {
        let round = R::new(key, PURPOSE, Law::ExactLaplace, 5);
        let mut fast = vec![0i64; BLOCK_COORDINATES];
        let mut different = 0;
        for number in 0..blocks {
            laplace::<Native, R, i64>(&round, number, enclosure, &mut fast);
            let mut block = round.open(number);
            for fast in fast.as_chunks::<BATCH>().0 {
                let mut exact = [0i64; BATCH];
                decide_laplace(&round, &block.next(), [0xff; 16], enclosure.scale, &mut exact);
                different += fast.iter().zip(exact).filter(|(fast, exact)| **fast != *exact).count();
            }
        }
        different
    }
    for scale in [0.2, 3.0, 1e6, 2f64.powi(31), 2f64.powi(40), 2f64.powi(50)] {
        let enclosure = Enclosure::of_laplace(scale);
        assert_eq!(check::<SimulationRound>(&SIMULATION, &enclosure, 10), 0, "at {scale}");
        assert_eq!(check::<ReleaseRound>(&RELEASE, &enclosure, 2), 0, "at {scale}");
    }
    let sabotaged = quarter(Enclosure::of_laplace(2f64.powi(49)));
    assert!(check::<SimulationRound>(&SIMULATION, &sabotaged, 30) > 0);
}

#[test]
fn gaps_are_the_floors_that_the_slow_path_finds() {
    for q in [0.9, 0.5, 0.1, 1.0 / 120.0, 1e-5, 1e-9, 2f64.powi(-64), 1.0 - 2f64.powi(-53)] {
        let gaps = ExactGaps::new(q);
        let round = SimulationRound::new(SIMULATION, PURPOSE, Law::ExactGaps, 1);
        let mut block = round.open(0);
        for _ in 0..20 {
            let batch = block.next();
            let native = gaps.gaps::<Native, _>(&round, &batch);
            assert_eq!(native, gaps.gaps::<Portable, _>(&round, &batch));
            for (place, gap) in native.into_iter().enumerate() {
                assert_eq!(gap.min(1 << 40), gaps.decide(&round, &batch, place), "gap {place} at {q}");
            }
        }
    }
}

fn check_gaps(subsets: u64) {
    for (seed, q) in [(1, 0.4), (2, 0.05), (3, 500.0 / 60_000.0)] {
        for key in [StreamKey::Simulation(seed), StreamKey::Release([seed as u8; 32])] {
            let gaps = ExactGaps::new(q);
            let n = (60.0 / q) as u32;
            let mut counts = vec![0u64; 1 + (20.0 / q) as usize];
            let mut indices = Vec::new();
            for round in 0..subsets {
                gaps.subset(&key, PURPOSE, round, n, &mut indices);
                assert!(indices.is_sorted_by(|a, b| a < b));
                // The first thirty gaps of a subset are free of its end but for a chance of 1e-6.
                for pair in indices.windows(2).take(20) {
                    let last = counts.len() - 1;
                    counts[(pair[1] - pair[0] - 1).min(last as u32) as usize] += 1;
                }
            }
            let last = counts.len() - 1;
            let mut law: Vec<f64> = (0..last).map(|k| q * libm::pow(1.0 - q, k as f64)).collect();
            law.push(libm::pow(1.0 - q, last as f64));
            assert_chi_square(&counts, &law);
        }
    }
}

#[test]
fn gaps_follow_the_geometric_law() {
    check_gaps(3_000);
    let mut indices = vec![7];
    let key = StreamKey::Release(RELEASE);
    ExactGaps::new(1.0).subset(&key, PURPOSE, 0, 131, &mut indices);
    assert_eq!(indices, (0..131).collect::<Vec<_>>());
    for never in [0.0, 2f64.powi(-65)] {
        ExactGaps::new(never).subset(&key, PURPOSE, 0, 131, &mut indices);
        assert!(indices.is_empty());
    }
    ExactGaps::new(0.5).subset(&key, PURPOSE, 0, 0, &mut indices);
    assert!(indices.is_empty());
    for q in [-1e-9, 1.0 + 1e-9, f64::NAN] {
        assert!(std::panic::catch_unwind(|| ExactGaps::new(q)).is_err());
    }
}

/// Holes (Mironov 2012): a textbook draw `v + scale·ln u` of an f64 u takes few values, and which ones tells v. An attacker
/// looks for a u that explains what was released.
#[test]
fn holes_tell_a_textbook_draw_apart_and_none_of_ours() {
    let scale = 1.0 / 3.0;
    let textbook = |u: f64| scale * libm::log(u);
    // Is there a multiple u of 2⁻⁵³ with v − scale·(−ln u) = y?
    let explains_textbook = |v: f64, y: f64| {
        let near = libm::exp((y - v) / scale) * 2f64.powi(53);
        (-40..=40).any(|step| {
            let u = (near.round() + f64::from(step)) * 2f64.powi(-53);
            u > 0.0 && u <= 1.0 && v + textbook(u) == y
        })
    };
    // Ours: is there a word that explains the integer?
    let lattice_scale = 2f64.powi(30) / 3.0;
    let explains_ours = |v: i64, y: i64| {
        let near = libm::exp((y - v) as f64 / lattice_scale) * 2f64.powi(64);
        let spacing = near / lattice_scale / 8.0;
        (-40..=40).any(|step| {
            let word = (near + f64::from(step) * spacing) as u64;
            let [logarithm, ..] = minus_ln::<Portable>(u64x8::splat(word.max(1))).to_array();
            (0.5 - lattice_scale * logarithm).floor() as i64 == y - v
        })
    };
    let mut next = words();
    let [mut textbook_excluded, mut ours_excluded, mut draws] = [0; 3];
    for _ in 0..2000 {
        let word = next();
        // Values beyond the neighbour's reach tell it apart in the continuous mechanism too.
        let magnitude = -libm::log(word as f64 * 2f64.powi(-64)) * scale;
        if magnitude < 1.0 {
            continue;
        }
        draws += 1;
        let y = 1.0 + textbook((word >> 11) as f64 * 2f64.powi(-53));
        assert!(explains_textbook(1.0, y));
        textbook_excluded += u32::from(!explains_textbook(0.0, y));
        let one = 1 << 30;
        let [logarithm, ..] = minus_ln::<Portable>(u64x8::splat(word)).to_array();
        let y = one + (0.5 - lattice_scale * logarithm).floor() as i64;
        assert!(explains_ours(one, y));
        ours_excluded += u32::from(!explains_ours(0, y));
    }
    assert!(textbook_excluded * 3 > draws, "{textbook_excluded} of {draws}");
    assert_eq!(ours_excluded, 0, "of {draws}");
}

/// Precision (Haney et al. 2022): the low bits of `v + noise` in f64 are those of the finer of the two, so that a result
/// whose lowest bit is finer than v's sum allows shows v = 0.
#[test]
fn low_bits_tell_a_textbook_sum_apart_and_none_of_ours() {
    let value = 1024.0;
    let mut next = words();
    let mut uniform = || ((next() >> 11) as f64 + 1.0) * 2f64.powi(-53);
    let noise: Vec<f64> = (0..20_000)
        .map(|_| value * (-2.0 * libm::log(uniform())).sqrt() * libm::cos(std::f64::consts::TAU * uniform()))
        .collect();
    // A sum of `value` and anything beyond a quarter of it is a multiple of 2⁻⁴⁴.
    let excludes = |y: f64| (y * 2f64.powi(44)).fract() != 0.0 && (y - value).abs() > value / 4.0;
    assert!(noise.iter().all(|z| !excludes(value + z)), "the attack is never wrong");
    let told = noise.iter().filter(|z| excludes(0.0 + **z)).count();
    assert!(told > 2_000, "{told} of 20,000");
    // Ours: the released value is an integer times the lattice's step, whatever v is.
    let mut rounded = vec![0i64; 20_000];
    let step = 2f64.powi(-20);
    fill_rounded_gaussian(&StreamKey::Simulation(SIMULATION), PURPOSE, 0, 0, value / step, &mut rounded);
    let told = rounded.iter().filter(|z| excludes(**z as f64 * step)).count();
    assert_eq!(told, 0);
    // And its last bits are alike for v = 0 and v = 1024: both are sums of fair bits.
    let odd = rounded.iter().filter(|z| **z & 1 == 1).count();
    assert!((odd as f64 - 10_000.0).abs() < 4.892 * 70.8, "{odd} of 20,000");
}

#[test]
fn scales_and_types_that_cannot_hold_the_draws_are_refused() {
    let key = StreamKey::Simulation(1);
    let refused = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 2.3e15] {
        assert!(refused(&|| fill_rounded_gaussian(&key, PURPOSE, 0, 0, scale, &mut [0i64; 4])));
        assert!(refused(&|| fill_rounded_laplace(&key, PURPOSE, 0, 0, scale, &mut [0i64; 4])));
        if scale != 0.0 && scale != -1.0 {
            let term = Term { purpose: PURPOSE, round: 0, coefficient: scale };
            assert!(refused(&|| fill_rounded_combination(&key, &[term], 0, &mut [0i64; 4])));
        }
    }
    assert!(refused(&|| fill_rounded_gaussian(&key, PURPOSE, 0, 0, 2f64.powi(28), &mut [0i32; 4])));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn another_rounding_mode_is_refused() {
    use std::arch::asm;
    let mut default = 0_u32;
    // SAFETY: the register is stored, changed for one function that only adds, and restored.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut default) };
    for mode in 1..4 {
        let changed = default | mode << 13;
        // SAFETY: as above.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const changed) };
        let outcome = std::panic::catch_unwind(assert_rounding_to_nearest);
        // SAFETY: as above.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const default) };
        assert!(outcome.is_err(), "mode {mode}");
    }
    assert_rounding_to_nearest();
}

/// The tables of errors, summed over each interval of m and each e, and over y.
#[test]
fn the_stated_errors_follow_from_the_tables() {
    let mut worst = 0f64;
    for interval in 0..16 {
        let (low, high) = (0.5 + f64::from(interval) / 32.0, 0.5 + f64::from(interval + 1) / 32.0);
        let c = f64::from(transform::SCALES[interval as usize]) / 128.0;
        let is_last = interval == 15;
        for e in 0..64 {
            if is_last && e == 0 {
                continue;
            }
            for i in 0..=100 {
                let m = low + (high - low) * f64::from(i) / 100.0;
                let r = c * m - 1.0;
                let t = f64::from(e) * std::f64::consts::LN_2 + libm::log(c);
                let logarithm = t - libm::log1p(r);
                let mut error = 1.04 * c * (1.0 - m);
                error += if is_last { 0.0 } else { 1.04 * r.abs() };
                error += 0.21 * f64::from(e) + 0.5 * half_ulp_of(libm::log(c));
                error += if e == 0 { 0.0 } else { half_ulp_of(t) };
                error += half_ulp_of(t - r) + 0.17 * r.abs() + 1.2 * r * r + half_ulp_of(logarithm);
                worst = worst.max(error / logarithm);
            }
        }
    }
    assert!(worst < 5.7, "{worst}u");
    let mut worst = 0f64;
    for i in 0..=1000 {
        let y = f64::from(i) / 1000.0;
        let (s, c) = libm::sincos(std::f64::consts::FRAC_PI_4 * y);
        let sine = 0.79 * y * c + (0.09 + 0.07) * y * y * y + (0.28 + 0.5) * y + s;
        let cosine = 0.79 * y * s + (0.31 + 0.27) * y * y + 0.47 + 0.5;
        worst = worst.max(4.9 * s + sine + s).max(4.9 * c + cosine + c);
    }
    assert!(worst < 6.9, "{worst}u");
}

/// Half the distance of f64 around x in units of 2⁻⁵³.
fn half_ulp_of(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { libm::exp2(libm::log2(x.abs()).floor() + 1.0) / 2.0 }
}

/// All checks with their full counts: minutes.
#[test]
#[ignore = "takes minutes: make verify-exact"]
fn exact_noise_in_full() {
    let start = std::time::Instant::now();
    let report = |what: &str, outcome: String| println!("{what}: {outcome} ({:.0} s)", start.elapsed().as_secs_f64());
    check_exact_functions::<3>(20_000);
    check_exact_functions::<5>(5_000);
    check_exact_functions::<17>(500);
    report("exact functions against dashu-float, 25,500 arguments", "enclosed".to_owned());
    let (errors, _) = check_fast_functions(10_000_000);
    assert_fast_errors(errors);
    report(
        "fast functions, 10^7 random and worst arguments",
        format!("logarithm {:.2}u of {LOGARITHM_ERROR}u, pairs {:.2}u of {NORMAL_ERROR}u", errors[0], errors[1]),
    );
    for exponent in [31, 40] {
        let enclosure = Enclosure::of_gaussian(2f64.powi(exponent));
        let [slow, different] = check_fast_against_slow::<Native, ReleaseRound>(&RELEASE, &enclosure, 781_250);
        assert_eq!(different, 0);
        report(
            &format!("fast against slow path at 2^{exponent}, 10^8 draws"),
            format!("0 differences, {slow} decided slowly"),
        );
    }
    check_laws(1_000_000_000);
    report("chi square of 10^9 draws a law, key and scale in 0.7 and 3", "passed".to_owned());
    check_tail::<26>(1 << 27);
    check_tail::<40>(1 << 22);
    check_tail::<60>(1 << 20);
    report("tails from 6.0, 7.4 and 9.1 deviations", "passed".to_owned());
    check_gaps(300_000);
    report("gaps", "passed".to_owned());
    for (n, deviation) in [(8, 2f64.powi(25)), (32, 2f64.powi(31))] {
        let [slow, different] = check_combinations::<ReleaseRound>(&RELEASE, &terms(n, deviation), 200_000, 1.0);
        assert_eq!(different, 0);
        report(
            &format!("combinations of {n} terms at 2^{}, 200,000 draws", deviation.log2()),
            format!("0 differences, {slow} decided slowly"),
        );
    }
}

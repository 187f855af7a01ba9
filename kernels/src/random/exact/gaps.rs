//! Rare Bernoulli decisions as exact gaps between successes.

use super::super::stream::{Law, Purpose, RoundStreams, StreamKey};
use super::super::uniform::assert_probability;
use super::ball::Ball;
use super::lanes::{Lanes, Native, Portable};
use super::transform::{LOGARITHM_ERROR, minus_ln};
use super::words::{Batch, Block, Round};
use super::{
    BATCH, BATCHES, Enclosure, Question, assert_rounding_to_nearest, digits, first_decided, lanes_of, nearest, sealed,
};
use wide::u64x8;

/// Independent Bernoulli(q̂) trials by the gaps between their successes, `q̂ = ⌊q·2⁶⁴⌋·2⁻⁶⁴`; q̂ = q from 2⁻¹¹ on.
///
/// `gap = ⌊ln U/ln(1 − q̂)⌋` has `P(gap ≥ k) = P(U ≤ (1 − q̂)^k) = (1 − q̂)^k` for an ideal uniform U, and what is returned is
/// the floor of this real number. An accountant may take q, since q̂ ≤ q.
///
/// **Enclosure.** With `ℓ = −ln(1 − q̂)` and `L = −ln U`: both logarithms within 6u ([`minus_ln`]; `1 − q̂` is a multiple of
/// 2⁻⁶⁴), the inverse of ℓ, its product with L and `L/ℓ − ½` rounded: `15u·L/ℓ`. The digits of U beyond 64 move L by at most
/// `L/(K·L_K)` for U ≤ ½, and by 2⁻⁶³ beyond.
#[derive(Clone, Copy, Debug)]
pub struct ExactGaps {
    /// `(1 − q̂)·2⁶⁴`; 2⁶⁴ if q̂ = 0.
    failure: u128,
    /// `scale` is 1/ℓ.
    enclosure: Enclosure,
}

impl ExactGaps {
    /// The trials that succeed with probability q̂.
    ///
    /// # Panics
    /// If `q` is not in [0, 1].
    pub fn new(q: f64) -> Self {
        assert_probability(q);
        assert_rounding_to_nearest();
        let failure = (1 << 64) - (q * 2f64.powi(64)) as u128;
        let [logarithm, ..] = minus_ln::<Portable>(u64x8::splat(failure as u64)).to_array();
        let scale = 1.0 / logarithm;
        let roundings = 2.0 * LOGARITHM_ERROR + 3.0;
        Self { failure, enclosure: Enclosure::new(scale, Enclosure::margin(scale), roundings, [1.0, 2f64.powi(-63)]) }
    }

    /// Replaces `indices` by the subset of `0..n` whose trials succeed, ascending, from the stream (key, purpose, round).
    ///
    /// Allocates only where `indices` lacks the capacity.
    pub fn subset(&self, key: &StreamKey, purpose: Purpose, round: u64, n: u32, indices: &mut Vec<u32>) {
        indices.clear();
        if self.failure == 0 {
            indices.extend(0..n);
        } else if self.failure >> 64 == 0 {
            assert_rounding_to_nearest();
            match RoundStreams::new(key, purpose, Law::ExactGaps, round) {
                RoundStreams::Simulation(round) => self.fill(&round, n, indices),
                RoundStreams::Release(round) => self.fill(&round, n, indices),
            }
        }
    }

    fn fill<R: Round>(&self, round: &R, n: u32, indices: &mut Vec<u32>) {
        let mut next = 0_u64;
        for number in 0.. {
            let mut block = round.open(number);
            for _ in 0..BATCHES {
                for gap in self.gaps::<Native, R>(round, &block.next()) {
                    next = next.saturating_add(gap.cast_unsigned());
                    if next >= u64::from(n) {
                        return;
                    }
                    indices.push(next as u32);
                    next += 1;
                }
            }
        }
    }

    /// The gaps of a batch, 2⁴⁰ for all above.
    #[inline(always)]
    pub(super) fn gaps<V: Lanes, R: Round>(&self, round: &R, batch: &Batch) -> [i64; BATCH] {
        let mut gaps = [0; BATCH];
        let mut undecided = [0; 16];
        let (pairs, _) = batch.words.as_chunks::<2>();
        let (outs, _) = gaps.as_chunks_mut::<16>();
        let (masks, _) = undecided.as_chunks_mut::<2>();
        for ((words, out), undecided) in pairs.iter().zip(outs).zip(masks) {
            let rounded = words.map(|words| {
                let magnitude = minus_ln::<V>(words) * V::splat(self.enclosure.scale);
                let (shifted, distance) = nearest(magnitude - V::splat(0.5));
                let mask = distance.max_magnitude(distance).not_below(self.enclosure.threshold(magnitude));
                (shifted, mask | V::words_below(words, self.enclosure.margin))
            });
            sealed::Lattice::write(rounded.map(|(shifted, _)| shifted.to_bits()), out);
            *undecided = rounded.map(|(_, undecided)| undecided);
        }
        if undecided != [0; 16] {
            for place in lanes_of(undecided) {
                gaps[place] = self.decide(round, batch, place);
            }
        }
        gaps
    }

    #[cold]
    #[inline(never)]
    pub(super) fn decide<R: Round>(&self, round: &R, batch: &Batch, place: usize) -> i64 {
        first_decided(&Gap {
            round,
            number: BATCH as u64 * batch.index + place as u64,
            word: batch.words[place / 8].to_array()[place % 8],
            failure: self.failure as u64,
        })
    }
}

const GREATEST_GAP: i64 = 1 << 40;

struct Gap<'a, R> {
    round: &'a R,
    number: u64,
    word: u64,
    failure: u64,
}

impl<R: Round> Question for Gap<'_, R> {
    type Answer = i64;

    /// The n with `n·ℓ ≤ L < (n + 1)·ℓ`, among those next to the quotient in f64.
    fn answer<const N: usize>(&self) -> Option<i64> {
        let [uniform, _] = digits::<R, N>(self.round, self.number, [self.word, 0]);
        let logarithm = Ball::<N>::from_digits(&uniform[..N - 1]).minus_ln()?;
        let step = Ball::<N>::multiple_of_2_to_minus_64(self.failure).minus_ln()?;
        let quotient = logarithm.to_f64() / step.to_f64();
        if quotient >= GREATEST_GAP as f64 {
            return Some(GREATEST_GAP);
        }
        let nearest = quotient as u64;
        (nearest.saturating_sub(1)..=nearest + 1)
            .find(|&n| {
                let above = logarithm.sub(step.mul(Ball::integer(n)));
                let below = step.mul(Ball::integer(n + 1)).sub(logarithm);
                above.is_certainly_positive() && below.is_certainly_positive()
            })
            .map(u64::cast_signed)
    }
}

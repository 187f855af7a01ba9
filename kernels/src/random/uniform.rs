//! Uniform words, and the sampling decisions that are made of them.

use super::stream::{Law, Purpose, ReleaseBlock, RoundStreams, StreamKey};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of uniform 64-bit words for sampling decisions.
pub struct UniformStream {
    generator: Generator,
}

#[allow(clippy::large_enum_variant, reason = "a box would allocate in every round")]
enum Generator {
    Simulation(Xoshiro256PlusPlus),
    Release(ReleaseBlock),
}

impl UniformStream {
    /// The stream (key, purpose, round, block).
    pub fn new(key: &StreamKey, purpose: Purpose, round: u64, block: u64) -> Self {
        let generator = match RoundStreams::new(key, purpose, Law::Uniform, round) {
            RoundStreams::Simulation(streams) => Generator::Simulation(streams.scalar(block)),
            RoundStreams::Release(streams) => Generator::Release(streams.block(block)),
        };
        Self { generator }
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        match &mut self.generator {
            Generator::Simulation(generator) => generator.next_u64(),
            Generator::Release(generator) => generator.next_u64(),
        }
    }

    /// Uniform on the multiples of 2⁻⁵³ in [0, 1).
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform on `0..n`, without bias (Lemire 2019).
    ///
    /// # Panics
    /// If `n` is 0: there is no integer below 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(
            n > 0,
            "a uniform integer below 0 was asked for; the range must hold at least one integer"
        );
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // 2⁶⁴ mod n of the 2⁶⁴ words are rejected, so that each result has equally many.
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// 64 independent Bernoulli(q) decisions, bit `i` set with probability exactly `q` (the f64 value).
    ///
    /// Bit `i` is `[U_i < q]`, U_i drawn bit by bit for all 64 at once until none equals q's prefix: about 8 words.
    ///
    /// # Panics
    /// If `q` is not in [0, 1].
    pub fn bernoulli_mask(&mut self, q: f64) -> u64 {
        assert_probability(q);
        if q == 1.0 {
            return u64::MAX;
        }
        let (mut undecided, mut below, mut rest) = (u64::MAX, 0, q);
        // Each turn: `rest` is the part of q that is not yet compared, scaled to [0, 1); doubling it is exact.
        while undecided != 0 && rest > 0.0 {
            let word = self.next_u64();
            rest *= 2.0;
            if rest >= 1.0 {
                rest -= 1.0;
                below |= undecided & !word;
                undecided &= word;
            } else {
                undecided &= !word;
            }
        }
        below
    }

    /// Poisson sampling: replaces `indices` by the subset of `0..n` that holds each index with probability exactly `q`,
    /// independently, ascending.
    ///
    /// Allocates only where `indices` lacks the capacity.
    ///
    /// # Panics
    /// If `q` is not in [0, 1].
    pub fn bernoulli_subset(&mut self, q: f64, n: u32, indices: &mut Vec<u32>) {
        indices.clear();
        let mut first = 0;
        while first < n {
            let mut mask = self.bernoulli_mask(q);
            let size = (n - first).min(64);
            if size < 64 {
                mask &= (1 << size) - 1;
            }
            while mask != 0 {
                indices.push(first + mask.trailing_zeros());
                mask &= mask - 1;
            }
            first += size;
        }
    }

    /// A uniformly random order of `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

fn assert_probability(q: f64) {
    assert!(
        (0.0..=1.0).contains(&q),
        "the sampling probability must lie in [0, 1], found {q}"
    );
}

/// Gaps between the successes of Bernoulli(q) trials: `P(gap ≥ k) = (1 − q)^k`.
#[derive(Clone, Copy, Debug)]
pub struct BernoulliGaps {
    /// 1/ln(1 − q), in [−∞, −0].
    inverse_log: f64,
}

impl BernoulliGaps {
    /// The gaps of trials that succeed with probability `q`.
    ///
    /// # Panics
    /// If `q` is not in [0, 1].
    pub fn new(q: f64) -> Self {
        assert_probability(q);
        Self {
            inverse_log: 1.0 / libm::log1p(-q),
        }
    }

    /// How many trials fail before the next success; `u64::MAX` if none ever succeeds.
    pub fn next(&self, stream: &mut UniformStream) -> u64 {
        let u = (stream.next_u64() as f64 + 0.5) * 2f64.powi(-64);
        if self.inverse_log == f64::NEG_INFINITY {
            return u64::MAX;
        }
        (libm::log(u) * self.inverse_log) as u64
    }
}

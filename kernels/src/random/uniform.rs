//! Uniform words, and the sampling decisions that are made of them.

use super::stream::{Law, Purpose, ReleaseBlock, RoundStreams, StreamKey};
use super::xoshiro::XoshiroLanes;
use bytemuck::cast;
use wide::u64x8;
use zeroize::Zeroize;

/// A stream of uniform 64-bit words for sampling decisions.
pub struct UniformStream {
    generator: Generator,
    /// Sixteen words, of which the first `used` are spent.
    words: [u64; 16],
    used: usize,
}

#[allow(clippy::large_enum_variant, reason = "a box would allocate in every round")]
enum Generator {
    Simulation(XoshiroLanes),
    Release(ReleaseBlock),
}

impl Drop for UniformStream {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl UniformStream {
    /// The stream (key, purpose, round, block).
    pub fn new(key: &StreamKey, purpose: Purpose, round: u64, block: u64) -> Self {
        let generator = match RoundStreams::new(key, purpose, Law::Uniform, round) {
            RoundStreams::Simulation(streams) => Generator::Simulation(streams.lanes(block)),
            RoundStreams::Release(streams) => Generator::Release(streams.block(block)),
        };
        Self { generator, words: [0; 16], used: 16 }
    }

    /// The next sixteen words of the generator. Those that are left of the words before are skipped.
    #[inline]
    fn next_words(&mut self) -> [u64x8; 2] {
        self.used = 16;
        match &mut self.generator {
            Generator::Simulation(generator) => generator.next(),
            Generator::Release(generator) => generator.next_vectors(),
        }
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.used == 16 {
            self.words = cast(self.next_words());
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
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
        assert!(n > 0, "no integer is below 0: the range must hold at least one integer");
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

    /// Poisson sampling: replaces `indices` by the subset of `0..n` that holds each index with probability exactly `q`,
    /// independently, ascending.
    ///
    /// Allocates only where `indices` lacks the capacity.
    ///
    /// # Panics
    /// If `q` is not in [0, 1].
    pub fn bernoulli_subset(&mut self, q: f64, n: u32, indices: &mut Vec<u32>) {
        assert_probability(q);
        // One branch a subset, not one a word.
        match &mut self.generator {
            Generator::Simulation(generator) => bernoulli_subset(q, n, indices, || generator.next()),
            Generator::Release(generator) => bernoulli_subset(q, n, indices, || generator.next_vectors()),
        }
    }

    /// Sampling without replacement: replaces `indices` by a uniformly random subset of `0..n` of exactly `size` elements,
    /// ascending (Floyd's algorithm: `size` draws; Bentley and Floyd 1987).
    ///
    /// `members` holds n bits, all of which are written and read: O(size + n/64). Allocates only where it or `indices`
    /// lacks the capacity.
    ///
    /// # Panics
    /// If `size > n`.
    pub fn subset(&mut self, size: u32, n: u32, members: &mut Vec<u64>, indices: &mut Vec<u32>) {
        assert!(size <= n, "a subset of {size} elements was asked of {n}; it can hold at most all of them");
        indices.clear();
        members.clear();
        members.resize(n.div_ceil(64) as usize, 0);
        for last in n - size..n {
            let drawn = self.below(u64::from(last) + 1) as u32;
            let is_member = members[drawn as usize / 64] >> (drawn % 64) & 1 == 1;
            let chosen = if is_member { last } else { drawn };
            members[chosen as usize / 64] |= 1 << (chosen % 64);
        }
        for (&mask, first) in members.iter().zip((0..).step_by(64)) {
            push_members(first, mask, indices);
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

/// [`UniformStream::bernoulli_subset`] from any source of words.
#[inline(always)]
fn bernoulli_subset(q: f64, n: u32, indices: &mut Vec<u32>, mut next: impl FnMut() -> [u64x8; 2]) {
    indices.clear();
    for group in (0..n).step_by(1024) {
        let masks: [u64; 16] = cast(below_probability(q, &mut next));
        for (first, mask) in (group..n).step_by(64).zip(masks) {
            let size = (n - first).min(64);
            push_members(first, mask & (u64::MAX >> (64 - size)), indices);
        }
    }
}

/// Appends `first + i` for each bit `i` of the mask, ascending. Four at a time, whether there are as many or not: a loop that
/// ends after each mask's own number of members would be mispredicted at most of them.
#[inline]
fn push_members(first: u32, mut mask: u64, indices: &mut Vec<u32>) {
    if mask == 0 {
        return;
    }
    let members = mask.count_ones() as usize;
    indices.reserve(64);
    let space: &mut [_; 64] = indices.spare_capacity_mut().first_chunk_mut().expect("reserved");
    for four in space.as_chunks_mut::<4>().0 {
        for place in four {
            // Beyond the last member 64, which is not kept.
            place.write(first.wrapping_add(mask.trailing_zeros()));
            mask &= mask.wrapping_sub(1);
        }
        if mask == 0 {
            break;
        }
    }
    // SAFETY: the loop wrote at least as many places as the mask has bits, all of them within the reserved ones.
    unsafe { indices.set_len(indices.len() + members) };
}

/// 1024 independent Bernoulli(q) decisions: bit `i` is `[U_i < q]`, where the binary digits of `U_i ∈ [0, 1)` are bit
/// `i` of the first draw, of the second, …
///
/// The digits of q and of all U are compared from the highest down until none of the U equals q so far; each draw halves
/// their number, so twelve draws mostly suffice. Exact for every f64: scaling by 2⁶⁴ and taking off the integer part lose
/// nothing. Four draws at a time, since a branch after each would be mispredicted.
#[inline(always)]
fn below_probability(q: f64, mut next: impl FnMut() -> [u64x8; 2]) -> [u64x8; 2] {
    let all = u64x8::splat(u64::MAX);
    if q >= 1.0 {
        return [all; 2];
    }
    let (mut undecided, mut below, mut rest) = ([all; 2], [u64x8::ZERO; 2], q);
    while rest > 0.0 {
        let scaled = rest * 2f64.powi(64);
        let mut digits = scaled as u64;
        rest = scaled - digits as f64;
        for _ in 0..16 {
            for _ in 0..4 {
                // All ones or all zeros, as the digit of q.
                let digit = u64x8::splat((digits.cast_signed() >> 63).cast_unsigned());
                let words = next();
                for half in 0..2 {
                    below[half] |= undecided[half] & digit & !words[half];
                    undecided[half] &= !(words[half] ^ digit);
                }
                digits <<= 1;
            }
            if undecided[0] | undecided[1] == u64x8::ZERO || (digits == 0 && rest == 0.0) {
                return below;
            }
        }
    }
    below
}

pub(super) fn assert_probability(q: f64) {
    assert!((0.0..=1.0).contains(&q), "the sampling probability must lie in [0, 1], found {q}");
}

#[cfg(test)]
mod tests {
    use super::super::laws_tests::{assert_chi_square, assert_kolmogorov_smirnov};
    use super::*;

    /// The comparison of digits, for every probability k/2⁸ and every eight digits: with the digits of U = j/2⁸ the decision is j < k.
    #[test]
    fn every_decision_is_that_of_the_digits() {
        for k in 0..256_u64 {
            let q = k as f64 / 256.0;
            // 256 numbers U a pass, one a bit: 1024 bits hold them four times, with other digits behind the first eight.
            let mut drawn = 0;
            let next = || {
                let word = |word: usize| {
                    let digit = |bit: usize| {
                        let j = (64 * word + bit) % 256;
                        if drawn < 8 { j >> (7 - drawn) & 1 } else { word / 4 % 2 }
                    };
                    (0..64).fold(0_u64, |mask, bit| mask | (digit(bit) as u64) << bit)
                };
                let words: [u64; 16] = std::array::from_fn(word);
                drawn += 1;
                cast(words)
            };
            let masks: [u64; 16] = cast(below_probability(q, next));
            for place in 0..1024 {
                let decided = masks[place / 64] >> (place % 64) & 1 == 1;
                assert_eq!(decided, (place as u64 % 256) < k, "U = {}/256, q = {k}/256", place % 256);
            }
        }
    }

    fn streams() -> [UniformStream; 2] {
        [StreamKey::Simulation(11), StreamKey::Release([11; 32])].map(|key| UniformStream::new(&key, Purpose(1), 2, 3))
    }

    /// Binomial(n, q) probabilities of 0..=n.
    fn binomial(n: u32, q: f64) -> Vec<f64> {
        let ln_factorial = |k: u32| libm::lgamma(f64::from(k) + 1.0);
        (0..=n)
            .map(|k| {
                let choose = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
                libm::exp(choose + f64::from(k) * libm::log(q) + f64::from(n - k) * libm::log1p(-q))
            })
            .collect()
    }

    #[test]
    fn uniform_reals_are_uniform_on_the_half_open_interval() {
        for mut stream in streams() {
            let sample: Vec<f64> = (0..1 << 18).map(|_| stream.next_f64()).collect();
            assert!(sample.iter().all(|u| (0.0..1.0).contains(u)));
            assert_kolmogorov_smirnov(sample, |u| u);
        }
    }

    #[test]
    fn every_bit_of_the_words_is_fair() {
        for mut stream in streams() {
            let mut counts = [0u32; 64];
            for _ in 0..1 << 18 {
                let word = stream.next_u64();
                counts.iter_mut().enumerate().for_each(|(bit, count)| *count += u32::from(word >> bit & 1 == 1));
            }
            for count in counts {
                assert!((f64::from(count) - 131_072.0).abs() < 4.892 * 256.0, "{count} of 262144");
            }
        }
    }

    #[test]
    fn integers_below_a_bound_are_unbiased() {
        for mut stream in streams() {
            for n in [1, 2, 3, 10, 97] {
                let mut counts = vec![0; n];
                (0..100_000).for_each(|_| counts[stream.below(n as u64) as usize] += 1);
                if n > 1 {
                    assert_chi_square(&counts, &vec![1.0 / n as f64; n]);
                }
            }
            // 2⁶⁴ = ⅔·n + n: a multiplication without rejection would hit some thirds twice as often as others.
            let n = 3 << 62;
            let mut thirds = [0; 3];
            let mut odd = [0; 2];
            for _ in 0..100_000 {
                let x = stream.below(n);
                assert!(x < n);
                thirds[(x % 3) as usize] += 1;
                odd[(x % 2) as usize] += 1;
            }
            assert_chi_square(&thirds, &[1.0 / 3.0; 3]);
            assert_chi_square(&odd, &[0.5; 2]);
        }
    }

    #[test]
    #[should_panic(expected = "the range must hold at least one integer")]
    fn an_integer_below_zero_is_refused() {
        streams()[0].below(0);
    }

    /// The decisions of [`below_probability`] on scripted words, sixteen a draw.
    fn decide(q: f64, mut next: impl FnMut() -> u64) -> [u64; 16] {
        cast(below_probability(q, || cast([(); 16].map(|()| next()))))
    }

    #[test]
    fn a_mask_compares_exactly() {
        let mut stream = UniformStream::new(&StreamKey::Simulation(4), Purpose(1), 1, 1);
        let probabilities = [0.5, 0.25, 0.3, 1.0 / 3.0, 500.0 / 60_000.0, 1e-5, 1.0 - 2f64.powi(-53), 2f64.powi(-30)];
        for q in probabilities {
            for _ in 0..200 {
                let draws: [[u64; 16]; 64] = std::array::from_fn(|_| std::array::from_fn(|_| stream.next_u64()));
                let mut used = draws.as_flattened().iter().copied();
                let masks = decide(q, || used.next().expect("64 digits decide"));
                for (which, mask) in masks.into_iter().enumerate() {
                    for i in 0..64 {
                        // All 64 digits of U; as U is a multiple of 2⁻⁶⁴, U < q is U·2⁶⁴ < ⌈q·2⁶⁴⌉.
                        let u = draws.iter().fold(0u64, |u, words| u << 1 | words[which] >> i & 1);
                        let threshold = (q * 2f64.powi(64)).ceil() as u128;
                        assert_eq!(mask >> i & 1 == 1, u128::from(u) < threshold, "{q}, bit {i} of {which}");
                    }
                }
            }
        }
    }

    #[test]
    fn digits_beyond_the_sixty_fourth_count() {
        // q = 0.11·2⁻⁶⁴: U with 64 zeros is below q if 10… follows, and not if 11… does.
        let q = 0.75 * 2f64.powi(-64);
        let digits = |last: [u64; 2]| {
            let mut words = std::iter::repeat_n(0, 64).chain(last).chain(std::iter::repeat(0));
            let masks = below_probability(q, || [u64x8::splat(words.next().expect("an endless sequence")); 2]);
            cast::<_, [u64; 16]>(masks)[9]
        };
        assert_eq!(digits([u64::MAX, 0]), u64::MAX);
        assert_eq!(digits([u64::MAX, 0xff]), !0xff);
        assert_eq!(decide(q, || 1), [!1; 16]);
        assert_eq!(decide(f64::MIN_POSITIVE, || 0), [u64::MAX; 16]);
    }

    #[test]
    fn certain_and_impossible_events_are_so_without_drawing() {
        let draw = || -> u64 { panic!("no word is needed") };
        assert_eq!(decide(1.0, draw), [u64::MAX; 16]);
        assert_eq!(decide(0.0, draw), [0; 16]);
        for mut stream in streams() {
            let mut indices = vec![9; 3];
            stream.bernoulli_subset(1.0, 131, &mut indices);
            assert_eq!(indices, (0..131).collect::<Vec<_>>());
            stream.bernoulli_subset(0.0, 131, &mut indices);
            assert!(indices.is_empty());
            stream.bernoulli_subset(0.5, 0, &mut indices);
            assert!(indices.is_empty());
        }
    }

    #[test]
    fn probabilities_outside_the_unit_interval_are_refused() {
        for q in [-1e-9, 1.0 + 1e-9, f64::NAN, f64::INFINITY] {
            assert!(std::panic::catch_unwind(|| streams()[0].bernoulli_subset(q, 1, &mut Vec::new())).is_err());
        }
    }

    #[test]
    fn poisson_samples_have_binomial_sizes_and_uniform_members() {
        for mut stream in streams() {
            for (n, q, repeats) in [(130, 0.01, 40_000), (130, 0.5, 20_000), (70, 0.999, 20_000), (1_000, 1e-4, 40_000)]
            {
                let mut sizes = vec![0; n as usize + 1];
                let mut members = vec![0; n as usize];
                let mut indices = Vec::new();
                for _ in 0..repeats {
                    stream.bernoulli_subset(q, n, &mut indices);
                    assert!(indices.is_sorted_by(|a, b| a < b));
                    sizes[indices.len()] += 1;
                    for &index in &indices {
                        members[index as usize] += 1;
                    }
                }
                assert_chi_square(&sizes, &binomial(n, q));
                if q < 0.5 {
                    assert_chi_square(&members, &vec![1.0 / f64::from(n); n as usize]);
                }
            }
        }
    }

    #[test]
    fn members_are_the_bits_of_their_masks() {
        let mut state = 1_u64;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            // Few bits and many.
            [state & state >> 17 & state << 9 & state >> 31, state, state | state >> 13]
        });
        let masks = [0, 1, 1 << 63, u64::MAX, 0xf, 0x1f].into_iter().chain(random.take(100).flatten());
        let (mut found, mut expected) = (vec![7], vec![7]);
        for mask in masks {
            // The last one ends with the greatest index that there is.
            for first in [0, 64, u32::MAX - 63] {
                push_members(first, mask, &mut found);
                expected.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| first + bit));
                assert_eq!(found, expected, "{mask:#x}");
            }
        }
    }

    #[test]
    fn subsets_of_a_size_are_equally_likely() {
        for mut stream in streams() {
            let (mut members, mut indices) = (Vec::new(), Vec::new());
            let mut counts = vec![0; 64];
            for _ in 0..40_000 {
                stream.subset(3, 6, &mut members, &mut indices);
                counts[indices.iter().fold(0, |code, index| code | 1 << index)] += 1;
            }
            assert!(counts.iter().enumerate().all(|(code, &count)| (code.count_ones() == 3) == (count > 0)));
            counts.retain(|&count| count > 0);
            assert_chi_square(&counts, &[1.0 / 20.0; 20]);
            for (size, n) in [(0, 0), (0, 5), (5, 5), (64, 64), (65, 130), (129, 130), (500, 60_000)] {
                stream.subset(size, n, &mut members, &mut indices);
                assert_eq!(indices.len(), size as usize);
                assert!(indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|&index| index < n));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a subset of 6 elements was asked of 5")]
    fn a_subset_larger_than_the_whole_is_refused() {
        streams()[0].subset(6, 5, &mut Vec::new(), &mut Vec::new());
    }

    #[test]
    fn members_of_a_poisson_sample_are_independent_of_their_neighbours() {
        let q = 0.3f64;
        for mut stream in streams() {
            // Neighbours, the same bit of the next word, and the next draw of 1024.
            for distance in [1, 64, 1024] {
                let mut counts = [0; 4];
                let mut indices = Vec::new();
                for _ in 0..200 {
                    stream.bernoulli_subset(q, 2_048, &mut indices);
                    let mut member = [0; 2_048];
                    for &index in &indices {
                        member[index as usize] = 1;
                    }
                    // Disjoint pairs.
                    let starts = (0..2_048).filter(|first| first / distance % 2 == 0);
                    starts.for_each(|first| counts[member[first] + 2 * member[first + distance]] += 1);
                }
                assert_chi_square(&counts, &[(1.0 - q).powi(2), q * (1.0 - q), q * (1.0 - q), q * q]);
            }
        }
    }

    #[test]
    fn shuffles_reach_every_order_equally_often() {
        for mut stream in streams() {
            let mut counts = vec![0; 3125];
            for _ in 0..60_000 {
                let mut items = [0usize, 1, 2, 3, 4];
                stream.shuffle(&mut items);
                counts[items.iter().fold(0, |code, item| 5 * code + item)] += 1;
            }
            let reached: Vec<u64> = counts.into_iter().filter(|&count| count > 0).collect();
            assert_eq!(reached.len(), 120);
            assert_chi_square(&reached, &[1.0 / 120.0; 120]);
        }
        streams()[0].shuffle::<u32>(&mut []);
    }
}

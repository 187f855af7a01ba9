//! From an address (key, purpose, law, round, block) to the state of a generator.

use super::xoshiro::XoshiroLanes;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::fmt;
use wide::u64x8;
use zeroize::Zeroize;

/// Coordinates that one block's stream covers: coordinate `j` of a round lies in block `j / 4096`.
pub const BLOCK_COORDINATES: usize = 4096;

/// The key of all streams of a run.
///
/// A release key is never printed, and its memory is zeroed when it is dropped.
#[derive(Clone)]
pub enum StreamKey {
    /// Reproducible simulation from a seed (xoshiro). Never a release.
    Simulation(u64),
    /// A 256-bit key from the operating system (ChaCha20).
    Release([u8; 32]),
}

impl Drop for StreamKey {
    fn drop(&mut self) {
        if let StreamKey::Release(key) = self {
            key.zeroize();
        }
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamKey::Simulation(seed) => formatter.debug_tuple("Simulation").field(seed).finish(),
            StreamKey::Release(_) => formatter.write_str("Release(redacted)"),
        }
    }
}

/// The use of a stream: two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purpose(pub u32);

/// The sampler that reads a stream. Part of the address, so that Gaussian, Laplace and uniform draws of one purpose and
/// round never read the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Law {
    Gaussian = 1,
    Laplace = 2,
    Uniform = 3,
    ExactGaussian = 4,
    ExactLaplace = 5,
    ExactGaps = 6,
}

/// The streams of one round: everything of the address but the block.
pub(super) enum RoundStreams {
    Simulation(SimulationRound),
    Release(ReleaseRound),
}

impl RoundStreams {
    pub(super) fn new(key: &StreamKey, purpose: Purpose, law: Law, round: u64) -> Self {
        match key {
            StreamKey::Simulation(seed) => Self::Simulation(SimulationRound::new(*seed, purpose, law, round)),
            StreamKey::Release(key) => Self::Release(ReleaseRound::new(key, purpose, law, round)),
        }
    }
}

/// The 64-bit finaliser of SplitMix64 (variant 13 of Stafford's): a bijection.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The 64-bit finaliser of MurmurHash3: a bijection, independent of [`mix`].
#[inline(always)]
fn mix_increment(mut z: u64) -> u64 {
    z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

/// Simulation streams of one round.
///
/// The address is absorbed word by word into two 64-bit chains of bijections; after the block they are the start and the
/// (odd) increment of a SplitMix64 sequence, whose 64 words are the states of the sixteen lanes.
///
/// **What holds.** For a fixed key, purpose, law and round, distinct blocks have distinct starts and increments' hashes,
/// since each absorption is a bijection of the word. Between other addresses the 127 bits of (start, increment) are a
/// hash: N streams collide with probability about N²/2¹²⁸. Two lanes overlap within L steps with probability about
/// N²·L/2²⁵⁶. The 64 words of one block come from distinct inputs of a bijection, so at most one of them is zero and no
/// lane ever has the forbidden all-zero state.
#[derive(Clone, Copy)]
pub(super) struct SimulationRound {
    start: u64,
    increment: u64,
}

impl SimulationRound {
    pub(super) fn new(seed: u64, purpose: Purpose, law: Law, round: u64) -> Self {
        let origin = Self { start: 0x243f_6a88_85a3_08d3, increment: 0x1319_8a2e_0370_7344 };
        origin.absorb(seed).absorb(u64::from(purpose.0) << 32 | law as u64).absorb(round)
    }

    #[inline]
    pub(super) fn absorb(self, word: u64) -> Self {
        Self {
            start: mix((self.start ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15)),
            increment: mix_increment((self.increment ^ word).wrapping_add(0xd1b5_4a32_d192_ed03)),
        }
    }

    /// The states of the lanes of a block.
    #[inline]
    fn words(self, block: u64) -> [u64; 64] {
        let address = self.absorb(block);
        // An increment with few bit transitions mixes badly (Steele, Lea, Flood 2014, mixGamma).
        let mut increment = address.increment | 1;
        if (increment ^ (increment >> 1)).count_ones() < 24 {
            increment ^= 0xaaaa_aaaa_aaaa_aaaa;
        }
        std::array::from_fn(|i| mix(address.start.wrapping_add(increment.wrapping_mul(i as u64 + 1))))
    }

    /// The sixteen-lane generator of a block.
    #[inline]
    pub(super) fn lanes(self, block: u64) -> XoshiroLanes {
        XoshiroLanes::from_words(&self.words(block))
    }
}

/// Release streams of one round.
///
/// ```text
/// round key   = first 256 bits of ChaCha20(key = master, nonce = purpose·2³² + law, counter = round)
/// block stream = ChaCha20(key = round key, nonce = block, counter = 0, 1, 2, …)
/// ```
///
/// **No two addresses share a stream.** The master key is used for nothing but round keys. (purpose, law, round) ↦
/// (nonce, counter) is one to one, so each round key comes from a ChaCha20 block of its own; if ChaCha20 is a
/// pseudorandom function, round keys are independent uniform 256-bit strings, and N of them collide with probability
/// below N²/2²⁵⁷. Under one round key, blocks differ in the nonce, and within a block the 64-bit counter would have to
/// pass 2⁶⁴ blocks of 64 bytes to repeat; the input blocks of the cipher are therefore distinct.
pub(super) struct ReleaseRound {
    key: [u8; 32],
}

impl ReleaseRound {
    pub(super) fn new(master: &[u8; 32], purpose: Purpose, law: Law, round: u64) -> Self {
        let mut generator = ChaCha20Rng::from_seed(*master);
        generator.set_stream(u64::from(purpose.0) << 32 | law as u64);
        generator.set_block_pos(round);
        let mut key = [0u8; 32];
        generator.fill_bytes(&mut key);
        Self { key }
    }

    /// The generator of a block.
    pub(super) fn block(&self, block: u64) -> ReleaseBlock {
        let mut generator = ChaCha20Rng::from_seed(self.key);
        generator.set_stream(block);
        ReleaseBlock { generator }
    }

    /// The round key as the cipher's words.
    pub(super) fn words(&self) -> [u32; 8] {
        std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|byte| self.key[4 * i + byte])))
    }

    /// The block of the cipher under the round key with this nonce and counter.
    pub(super) fn cipher_block(&self, nonce: u64, counter: u64) -> [u64; 8] {
        let mut block = self.block(nonce);
        block.generator.set_block_pos(counter);
        std::array::from_fn(|_| block.generator.next_u64())
    }
}

/// The ChaCha20 stream of one block; zeroed on drop by the generator.
pub(super) struct ReleaseBlock {
    generator: ChaCha20Rng,
}

impl ReleaseBlock {
    /// The next `64·8·N` bits.
    #[inline]
    pub(super) fn next_vectors<const N: usize>(&mut self) -> [u64x8; N] {
        let mut words = [u64x8::ZERO; N];
        self.generator.fill_bytes(bytemuck::cast_slice_mut(&mut words));
        words
    }
}

impl Drop for ReleaseRound {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_words(seed: u64, purpose: u32, law: Law, round: u64, block: u64) -> [u64; 64] {
        SimulationRound::new(seed, Purpose(purpose), law, round).words(block)
    }

    #[test]
    fn a_release_key_is_zeroed_where_it_lay_when_it_is_dropped() {
        let mut place = std::mem::MaybeUninit::new(StreamKey::Release([0xa5; 32]));
        // SAFETY: the value is there, and is dropped once.
        unsafe { place.assume_init_drop() };
        // SAFETY: nothing of a key is freed when it is dropped, so what lies there is a key still.
        let left = unsafe { place.assume_init_ref() };
        assert!(matches!(left, StreamKey::Release(key) if *key == [0; 32]));
    }

    #[test]
    fn one_bit_of_the_address_changes_half_the_bits_of_every_lane() {
        let origin = block_words(5, 6, Law::Gaussian, 7, 8);
        let mut neighbours = vec![block_words(5, 6, Law::Laplace, 7, 8), block_words(5, 6, Law::Uniform, 7, 8)];
        for bit in 0..64 {
            neighbours.push(block_words(5 ^ 1 << bit, 6, Law::Gaussian, 7, 8));
            neighbours.push(block_words(5, 6 ^ 1 << (bit % 32), Law::Gaussian, 7, 8));
            neighbours.push(block_words(5, 6, Law::Gaussian, 7 ^ 1 << bit, 8));
            neighbours.push(block_words(5, 6, Law::Gaussian, 7, 8 ^ 1 << bit));
        }
        for (which, words) in neighbours.iter().enumerate() {
            let flipped: u32 = words.iter().zip(&origin).map(|(word, origin)| (word ^ origin).count_ones()).sum();
            // Binomial(4096, ½): standard deviation 32.
            assert!((f64::from(flipped) - 2048.0).abs() < 4.892 * 32.0, "neighbour {which}: {flipped} of 4096 bits");
            for (word, origin) in words.iter().zip(&origin) {
                assert!((8..=56).contains(&(word ^ origin).count_ones()), "neighbour {which}");
            }
        }
    }

    #[test]
    fn neighbouring_lanes_and_words_share_no_pattern() {
        for block in 0..256 {
            let words = block_words(1, 1, Law::Gaussian, 1, block);
            for (i, a) in words.iter().enumerate() {
                for b in &words[..i] {
                    // P(≤ 6 or ≥ 58 of 64 fair bits) is 4e-12 a side.
                    assert!((7..58).contains(&(a ^ b).count_ones()), "block {block}, word {i}");
                }
            }
        }
    }

    #[test]
    fn no_lane_is_all_zero() {
        for block in 0..10_000 {
            let words = block_words(0, 0, Law::Uniform, 0, block);
            for lane in 0..16 {
                assert_ne!([words[lane], words[16 + lane], words[32 + lane], words[48 + lane]], [0; 4]);
            }
        }
    }

    #[test]
    fn both_finalisers_are_bijections() {
        // Their inverses, by the inverse multipliers and shifts.
        fn unshift(z: u64, by: u32) -> u64 {
            let mut x = z;
            for _ in 0..64 / by {
                x = z ^ (x >> by);
            }
            x
        }
        fn inverse(odd: u64) -> u64 {
            (0..6).fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
        }
        for z in (0..10_000u64).map(|i| i.wrapping_mul(0x2545_f491_4f6c_dd1d)) {
            let mut x = unshift(mix(z), 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
            x = unshift(x, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
            assert_eq!(unshift(x, 30), z);
            let mut x = unshift(mix_increment(z), 33).wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
            x = unshift(x, 33).wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
            assert_eq!(unshift(x, 33), z);
        }
    }
}

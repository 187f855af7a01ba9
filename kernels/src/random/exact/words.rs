//! The binary digits of the uniforms, by address.
//!
//! A batch is sixteen vectors of eight words, the first 64 digits of 128 uniforms: batch b of a round covers its
//! coordinates `128b, …, 128b + 127`. The digits that follow are addressed by the uniform's number in the round.
//!
//! ```text
//! release     round key  = as in `stream`, with laws of its own
//!             batch b    = ChaCha20(round key, nonce 0, counters 16b, …, 16b + 15); vector v holds word v of the sixteen
//!                          blocks, two blocks a lane, the even one low
//!             later      = ChaCha20(round key, nonce 1 + level, counter = number): four words for the first uniform of
//!                          the number and four for the second
//! simulation  batch b    = eight steps of the sixteen lanes of its block
//!             later      = steps of a generator addressed by (round, LATER, number)
//! ```
//!
//! **No digit is used twice**: (nonce, counter) is one to one in (level, batch or number), and round keys differ by
//! (purpose, law, round).

use super::super::stream::{Law, Purpose, ReleaseRound, SimulationRound};
use super::super::xoshiro::XoshiroLanes;
use super::BATCHES;
use bytemuck::cast;
use wide::{u32x16, u64x8};
use zeroize::Zeroize;

/// 128 words, and the number of their batch in the round.
pub(super) struct Batch {
    pub(super) index: u64,
    pub(super) words: [u64x8; 16],
}

/// The digits of one round.
pub(super) trait Round {
    type Block: Block;
    /// The key of all rounds.
    type Key;

    fn new(key: &Self::Key, purpose: Purpose, law: Law, round: u64) -> Self;

    /// The first digits of the batches of a block of coordinates.
    fn open(&self, block: u64) -> Self::Block;

    /// Digits 65, 66, … of the two uniforms that have this number, as many as the slices hold.
    fn later(&self, number: u64, first: &mut [u64], second: &mut [u64]);

    /// Batch `index` of the round.
    fn batch(&self, index: u64) -> [u64x8; 16] {
        let mut block = self.open(index / BATCHES);
        for _ in 0..index % BATCHES {
            block.next();
        }
        block.next().words
    }
}

/// The batches of a block of coordinates, in order.
pub(super) trait Block {
    fn next(&mut self) -> Batch;
}

/// Separates later digits from blocks in the address of simulations.
const LATER: u64 = 0x004c_4154_4552;

pub(super) struct SimulationBlock {
    index: u64,
    lanes: XoshiroLanes,
}

impl Round for SimulationRound {
    type Block = SimulationBlock;
    type Key = u64;

    fn new(seed: &u64, purpose: Purpose, law: Law, round: u64) -> Self {
        SimulationRound::new(*seed, purpose, law, round)
    }

    #[inline]
    fn open(&self, block: u64) -> SimulationBlock {
        SimulationBlock { index: block * BATCHES, lanes: self.lanes(block) }
    }

    fn later(&self, number: u64, first: &mut [u64], second: &mut [u64]) {
        let mut lanes = self.absorb(LATER).lanes(number);
        for (first, second) in first.iter_mut().zip(second) {
            let [low, high] = lanes.next().map(u64x8::to_array);
            (*first, *second) = (low[0], high[0]);
        }
    }
}

impl Block for SimulationBlock {
    #[inline(always)]
    fn next(&mut self) -> Batch {
        let mut words = [u64x8::ZERO; 16];
        for pair in words.as_chunks_mut().0 {
            *pair = self.lanes.next();
        }
        self.index += 1;
        Batch { index: self.index - 1, words }
    }
}

impl Round for ReleaseRound {
    type Block = ReleaseBatches;
    type Key = [u8; 32];

    fn new(key: &[u8; 32], purpose: Purpose, law: Law, round: u64) -> Self {
        ReleaseRound::new(key, purpose, law, round)
    }

    fn open(&self, block: u64) -> ReleaseBatches {
        ReleaseBatches { index: block * BATCHES, key: self.words() }
    }

    fn batch(&self, index: u64) -> [u64x8; 16] {
        cast(chacha20(&self.words(), 16 * index))
    }

    fn later(&self, number: u64, first: &mut [u64], second: &mut [u64]) {
        for (level, (first, second)) in (1..).zip(first.chunks_mut(4).zip(second.chunks_mut(4))) {
            let words = self.cipher_block(level, number);
            first.copy_from_slice(&words[..first.len()]);
            second.copy_from_slice(&words[4..4 + second.len()]);
        }
    }
}

pub(super) struct ReleaseBatches {
    index: u64,
    key: [u32; 8],
}

impl Drop for ReleaseBatches {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Block for ReleaseBatches {
    #[inline(always)]
    fn next(&mut self) -> Batch {
        self.index += 1;
        Batch { index: self.index - 1, words: cast(chacha20(&self.key, 16 * (self.index - 1))) }
    }
}

/// Sixteen blocks of ChaCha20 with nonce 0 and counters `first, …, first + 15`: vector v holds word v of each. `first` is
/// a multiple of sixteen.
#[inline(always)]
fn chacha20(key: &[u32; 8], first: u64) -> [u32x16; 16] {
    const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    let splat = u32x16::splat;
    let counter = splat(first as u32) | u32x16::new(std::array::from_fn(|lane| lane as u32));
    let mut start = [u32x16::ZERO; 16];
    start[..4].copy_from_slice(&CONSTANTS.map(splat));
    start[4..12].copy_from_slice(&key.map(splat));
    (start[12], start[13]) = (counter, splat((first >> 32) as u32));
    let mut x = start;
    for _ in 0..10 {
        // Columns, then diagonals.
        for skew in [0, 1] {
            let at = |row: usize, column: usize| 4 * row + (column + row * skew) % 4;
            mix::<16>(&mut x, |c| (at(0, c), at(1, c), at(3, c)));
            mix::<12>(&mut x, |c| (at(2, c), at(3, c), at(1, c)));
            mix::<8>(&mut x, |c| (at(0, c), at(1, c), at(3, c)));
            mix::<7>(&mut x, |c| (at(2, c), at(3, c), at(1, c)));
        }
    }
    std::array::from_fn(|word| x[word] + start[word])
}

/// `a += b; d = (d ^ a) rotated left by BITS` for four columns or diagonals, interleaved.
#[inline(always)]
fn mix<const BITS: u32>(x: &mut [u32x16; 16], quarter: impl Fn(usize) -> (usize, usize, usize)) {
    for column in 0..4 {
        let (a, b, _) = quarter(column);
        x[a] += x[b];
    }
    for column in 0..4 {
        let (a, _, d) = quarter(column);
        let mixed = x[d] ^ x[a];
        x[d] = mixed << BITS | mixed >> (32 - BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stream::Law;
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    #[test]
    fn sixteen_blocks_are_those_of_the_cipher() {
        let bytes: [u8; 32] = std::array::from_fn(|i| (37 * i + 11) as u8);
        let key: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()));
        for first in [0, 16, (1 << 32) - 16, 1 << 32, (1 << 60) + 48] {
            let blocks = chacha20(&key, first).map(u32x16::to_array);
            let mut reference = ChaCha20Rng::from_seed(bytes);
            reference.set_block_pos(first);
            for block in 0..16 {
                for vector in &blocks {
                    assert_eq!(vector[block], reference.next_u32(), "block {block} after {first}");
                }
            }
        }
        // RFC 8439, appendix A.1, test vector 1: the block of key, nonce and counter 0.
        let zeros = chacha20(&[0; 8], 0);
        assert_eq!([zeros[0].to_array()[0], zeros[15].to_array()[0]], [0xade0_b876, 0x8665_eeb2]);
    }

    #[test]
    fn a_batch_is_the_same_alone_and_in_order_and_later_digits_extend() {
        fn check<R: Round>(key: &R::Key) {
            let round = R::new(key, Purpose(3), Law::ExactGaussian, 9);
            let mut block = round.open(5);
            for index in 5 * BATCHES..6 * BATCHES {
                let batch = block.next();
                assert_eq!(batch.index, index);
                assert_eq!(batch.words, round.batch(index));
            }
            let digits = |count| {
                let (mut first, mut second) = (vec![0; count], vec![0; count]);
                round.later(77, &mut first, &mut second);
                [first, second]
            };
            let long = digits(31);
            for count in [1, 3, 4, 7, 15] {
                let short = digits(count);
                assert_eq!(short[0], long[0][..count]);
                assert_eq!(short[1], long[1][..count]);
            }
            let mut all: Vec<u64> = long.concat();
            all.extend(round.batch(1).iter().flat_map(|words| words.to_array()));
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 62 + 128);
        }
        check::<SimulationRound>(&5);
        check::<ReleaseRound>(&[5; 32]);
    }
}

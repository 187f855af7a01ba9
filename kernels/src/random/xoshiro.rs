//! Sixteen lanes of xoshiro256++ (Blackman and Vigna 2021), bit for bit the scalar generator in each lane.

use wide::u64x8;

/// Sixteen independent xoshiro256++ generators: lanes 0 to 7 in the first vector, 8 to 15 in the second.
pub(super) struct XoshiroLanes {
    state: [[u64x8; 4]; 2],
}

impl XoshiroLanes {
    /// Lane `l` has the state `words[l], words[16 + l], words[32 + l], words[48 + l]`, not all zero.
    #[inline]
    pub(super) fn from_words(words: &[u64; 64]) -> Self {
        let vector = |k: usize| u64x8::new(std::array::from_fn(|lane| words[8 * k + lane]));
        Self {
            state: [
                std::array::from_fn(|s| vector(2 * s)),
                std::array::from_fn(|s| vector(2 * s + 1)),
            ],
        }
    }

    /// The next 64 bits of each lane.
    #[inline(always)]
    pub(super) fn next(&mut self) -> [u64x8; 2] {
        let [low, high] = &mut self.state;
        [step(low), step(high)]
    }
}

#[inline(always)]
fn rotate_left<const BITS: u32>(x: u64x8) -> u64x8 {
    x << BITS | x >> (64 - BITS)
}

#[inline(always)]
fn step(s: &mut [u64x8; 4]) -> u64x8 {
    let word = rotate_left::<23>(s[0] + s[3]) + s[0];
    let t = s[1] << 17_u32;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left::<45>(s[3]);
    word
}

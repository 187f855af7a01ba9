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
        Self { state: [std::array::from_fn(|s| vector(2 * s)), std::array::from_fn(|s| vector(2 * s + 1))] }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn each_lane_is_the_scalar_generator_bit_for_bit() {
        let words: [u64; 64] =
            std::array::from_fn(|i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32));
        let mut scalars: [Xoshiro256PlusPlus; 16] = std::array::from_fn(|lane| {
            let state: Vec<u8> = (0..4).flat_map(|s| words[16 * s + lane].to_le_bytes()).collect();
            Xoshiro256PlusPlus::from_seed(state.try_into().unwrap())
        });
        let mut lanes = XoshiroLanes::from_words(&words);
        for step in 0..10_000 {
            let [low, high] = lanes.next().map(u64x8::to_array);
            for (lane, (scalar, word)) in scalars.iter_mut().zip(low.into_iter().chain(high)).enumerate() {
                assert_eq!(scalar.next_u64(), word, "lane {lane}, step {step}");
            }
        }
    }
}

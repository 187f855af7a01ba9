//! Rows that are drawn independently from finitely many distinct ones. A batch is then known by how often it holds each of
//! them, a multinomial vector: its sums cost as much as there are distinct rows, for any number of rows.

use std::ops::Range;

use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Binomial, Distribution as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

/// Streams of the drawn rows.
const ROWS: Purpose = Purpose(0x4c41_5753);

/// The law of n independent rows.
pub struct Law {
    /// P(row is distinct row c | it is none of those before c).
    conditional: Vec<f64>,
    single: WeightedAliasIndex<f64>,
    rows: usize,
    key: StreamKey,
}

impl Law {
    /// The law of `rows` rows, each of which is distinct row c with probability `shares[c]/Σ shares`.
    ///
    /// # Panics
    /// No rows; shares that are not positive.
    pub fn new(shares: &[f64], rows: usize, key: StreamKey) -> Self {
        assert!(rows > 0, "a data set has at least one row");
        assert!(shares.iter().all(|&share| share > 0.0), "shares are positive");
        let mut rest = 0.0;
        let mut conditional: Vec<f64> = shares
            .iter()
            .rev()
            .map(|&share| {
                rest += share;
                share / rest
            })
            .collect();
        conditional.reverse();
        let single = WeightedAliasIndex::new(shares.to_vec()).expect("positive shares have a table");
        Self { conditional, single, rows, key }
    }

    /// n.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of distinct rows.
    pub fn categories(&self) -> usize {
        self.conditional.len()
    }

    /// A generator for the rows from `start` on.
    fn generator(&self, start: usize) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(UniformStream::new(&self.key, ROWS, start as u64, 0).next_u64())
    }

    /// The distinct row that each of all rows is.
    pub fn draw(&self) -> Vec<usize> {
        let mut generator = self.generator(self.rows);
        (0..self.rows).map(|_| self.single.sample(&mut generator)).collect()
    }

    /// The number of rows of `range` that are each distinct row. Ranges that do not overlap are independent, and the same range
    /// always gives the same counts; two ranges must be equal or disjoint.
    pub fn counts(&self, range: &Range<usize>) -> Vec<u64> {
        let mut generator = self.generator(range.start);
        let mut counts = vec![0; self.categories()];
        if range.len() < counts.len() {
            for _ in range.clone() {
                counts[self.single.sample(&mut generator)] += 1;
            }
            return counts;
        }
        let mut rest = range.len() as u64;
        for (count, &probability) in counts.iter_mut().zip(&self.conditional) {
            let binomial = Binomial::new(rest, probability.min(1.0)).expect("a probability");
            *count = binomial.sample(&mut generator);
            rest -= *count;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_large_and_small_batches_have_the_moments_of_a_multinomial_vector() {
        let shares = [0.5, 0.125, 0.25, 0.0625, 0.0625];
        for (batch, batches) in [(4, 40_000), (50, 20_000), (3_000, 20_000)] {
            let law = Law::new(&shares, batch * batches, StreamKey::Simulation(batch as u64));
            let counts: Vec<Vec<u64>> =
                (0..batches).map(|index| law.counts(&(index * batch..(index + 1) * batch))).collect();
            assert!(counts.iter().all(|counts| counts.iter().sum::<u64>() == batch as u64));
            let (size, number) = (batch as f64, batches as f64);
            for (one, &p) in shares.iter().enumerate() {
                for (other, &q) in shares.iter().enumerate() {
                    let product =
                        |counts: &Vec<u64>| (counts[one] as f64 - size * p) * (counts[other] as f64 - size * q);
                    let products: Vec<f64> = counts.iter().map(product).collect();
                    let covariance = products.iter().sum::<f64>() / number;
                    let expected = size * (if one == other { p } else { 0.0 } - p * q);
                    let spread = products.iter().map(|value| (value - expected).powi(2)).sum::<f64>() / number;
                    assert!(
                        (covariance - expected).abs() < 5.5 * (spread / number).sqrt(),
                        "{batch} {one} {other}: {covariance} {expected}"
                    );
                }
                let mean = counts.iter().map(|counts| counts[one] as f64).sum::<f64>() / number;
                assert!((mean - size * p).abs() < 5.5 * (size * p * (1.0 - p) / number).sqrt());
            }
        }
    }

    #[test]
    fn a_range_is_drawn_once_and_others_are_independent_of_it() {
        let law = Law::new(&[1.0; 8], 2_000, StreamKey::Simulation(3));
        assert_eq!(law.counts(&(0..1_000)), law.counts(&(0..1_000)));
        assert_ne!(law.counts(&(0..1_000)), law.counts(&(1_000..2_000)));
        assert_eq!(law.draw().len(), 2_000);
    }
}

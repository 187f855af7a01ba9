//! Private bounds of columns: what a table holds of them, with ε of its own instead of a declaration.
//!
//! Every column has one public partition of the line: the octaves `±[2^e, 2^{e+1})`, e from −20 to 41, in eight equal steps each,
//! and the numbers near 0. The counts of all bins of all c columns are released with Laplace noise, and bounds are a function of
//! these alone.
//!
//! **Privacy.** A row lies in one bin of a column at most (in none where its field is missing, and the null row in none at all).
//! One row less or more, or the null row in place of one, moves one count of a column by 1 at most: the L1 sensitivity of all
//! counts is c. Another row in place of one moves two: 2c. Noise of scale b = c/ε or 2c/ε makes the counts ε-DP for δ = 0. Counts
//! are integers, so that `count + ⌊Y + ½⌋ = ⌊count + Y + ½⌋` is a function of the real-valued mechanism, and the exact sampler
//! draws ⌊Y + ½⌋. No threshold, and no bin, depends on a row or on the number of rows.

use std::ops::Range;

use rounds_kernels::random::exact::fill_rounded_laplace;
use rounds_kernels::random::{Purpose, StreamKey};

use super::domain::{Bounds, Relation};

/// Address of the noise, which no other mechanism draws from.
const NOISE_OF_COUNTS: Purpose = Purpose(0x424f_554e);
/// The exponent of the first octave.
const FIRST: i32 = -20;
const OCTAVES: usize = 62;
/// Steps of an octave.
const STEPS: usize = 8;
/// The bin of numbers below the first octave, in the middle.
const ZERO: usize = OCTAVES * STEPS;
const BINS: usize = 2 * ZERO + 1;
/// −ln of the probability that an octave without rows seems to have some.
const CERTAINTY: f64 = 11.5;

/// The numbers of rows of a column by bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinCounts(Vec<i64>);

impl Default for BinCounts {
    fn default() -> Self {
        Self(vec![0; BINS])
    }
}

impl BinCounts {
    /// Counts a number; one that is not finite is missing.
    pub fn take(&mut self, number: f64) {
        if number.is_finite() {
            self.0[bin(number)] += 1;
        }
    }

    /// The counts, in the order of the bins.
    pub fn iter(&self) -> impl Iterator<Item = &i64> {
        self.0.iter()
    }

    /// Adds the counts of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }
}

/// The bin of a number.
fn bin(number: f64) -> usize {
    let bits = number.abs().to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    if exponent < FIRST {
        return ZERO;
    }
    // The first three binary digits behind the point.
    let step = (exponent - FIRST) as usize * STEPS + (bits >> 49 & 7) as usize;
    let step = step.min(ZERO - 1);
    if number > 0.0 { ZERO + 1 + step } else { ZERO - 1 - step }
}

/// The ends of a bin; both are 0 of the one in the middle.
fn ends(bin: usize) -> [f64; 2] {
    let edge = |step: usize| 2_f64.powi(FIRST + (step / STEPS) as i32) * (1.0 + (step % STEPS) as f64 / STEPS as f64);
    match bin {
        ZERO => [0.0, 0.0],
        above if bin > ZERO => [edge(above - ZERO - 1), edge(above - ZERO)],
        below => [-edge(ZERO - below), -edge(ZERO - 1 - below)],
    }
}

/// The scale of the noise on the counts of `columns` columns, c/ε (2c/ε for replace-one), rounded up so that it holds of the decimal ε that was
/// given: the float nearest to that ε is off by half a unit in the last place at most, and so is the quotient, which is less than two units of
/// the scale together.
///
/// ```
/// use rounds_algorithms::problem::{Relation, noise_scale};
///
/// assert!((noise_scale(10, Relation::ZeroOut, 1.0) - 10.0).abs() < 1e-9);
/// assert!((noise_scale(10, Relation::ReplaceOne, 1.0) - 20.0).abs() < 1e-9);
/// ```
pub fn noise_scale(columns: usize, relation: Relation, epsilon: f64) -> f64 {
    let moved = if relation == Relation::ReplaceOne { 2 } else { 1 };
    ((moved * columns) as f64 / epsilon).next_up().next_up()
}

/// Bounds of every column, ε-DP of all counts together.
///
/// # Panics
/// An ε for which the noise is above 2⁵⁰ rows.
pub fn private_bounds(counts: &[BinCounts], relation: Relation, epsilon: f64, key: &StreamKey) -> Vec<Bounds> {
    let scale = noise_scale(counts.len(), relation, epsilon);
    let of_column = |(column, BinCounts(counts)): (usize, &BinCounts)| {
        let mut released = vec![0_i64; BINS];
        fill_rounded_laplace(key, NOISE_OF_COUNTS, column as u64, 0, scale, &mut released);
        released.iter_mut().zip(counts).for_each(|(noise, count)| *noise += count);
        bounds_of(&released, scale)
    };
    counts.iter().enumerate().map(of_column).collect()
}

/// The bounds that noisy counts show: from the lowest octave that surely has rows to the highest one, without the outer steps of
/// these two that show none.
fn bounds_of(released: &[i64], scale: f64) -> Bounds {
    let octaves = |from: usize| (0..OCTAVES).map(move |octave| from + octave * STEPS..from + (octave + 1) * STEPS);
    let groups: Vec<Range<usize>> =
        octaves(0).chain(std::iter::once(ZERO..ZERO + 1)).chain(octaves(ZERO + 1)).collect();
    let sum = |group: &Range<usize>| released[group.clone()].iter().sum::<i64>() as f64;
    // P[Σ of m Laplace variables > t] ≤ (1 − u²)^{−m}·e^{−ut/b}, here at u = 0.7.
    let is_sure = |group: &&Range<usize>| sum(group) > scale * (CERTAINTY + 0.674 * group.len() as f64) / 0.7;
    let greatest = || groups.iter().max_by(|a, b| sum(a).total_cmp(&sum(b)));
    let [lowest, highest] = [groups.iter().find(is_sure), groups.iter().rfind(is_sure)];
    let (Some(lowest), Some(highest)) = (lowest.or_else(greatest), highest.or_else(greatest)) else {
        unreachable!("there are octaves")
    };
    // Rows on both sides of 0 spread over ever smaller octaves there: six octaves of a side, down from the longest number, count
    // as one.
    let octave = |group: &Range<usize>| (group.start + group.end).abs_diff(2 * ZERO) / (2 * STEPS);
    let outer = STEPS * (octave(lowest).max(octave(highest)) + 1).min(OCTAVES);
    let inner = outer.saturating_sub(6 * STEPS);
    let is_likely = |side: &Range<usize>| sum(side) > 31.0 * scale;
    let side = |end: &Range<usize>, side: Range<usize>| if is_likely(&side) { side } else { end.clone() };
    let lowest = side(lowest, ZERO - outer..ZERO - inner);
    let highest = side(highest, ZERO + 1 + inner..ZERO + 1 + outer);
    let lowest = if lowest.start <= highest.start { lowest } else { highest.clone() };
    // The most steps from the outer end whose counts together are like those of no rows; never all of an octave.
    let empty = |steps: &mut dyn Iterator<Item = usize>| {
        let (mut total, mut most) = (0, 0);
        for (count, bin) in (1..).zip(steps) {
            total += released[bin];
            let like_none = scale * (2.0 + 2.5 * f64::from(2 * count).sqrt());
            most = if total as f64 <= like_none { count } else { most };
        }
        most as usize
    };
    let first = lowest.start + empty(&mut (lowest.start..lowest.end - 1));
    let last = highest.end - 1 - empty(&mut (highest.start + 1..highest.end).rev());
    let (lo, hi) = (ends(first)[0], ends(last.max(first))[1]);
    Bounds::new(lo, if lo < hi { hi } else { lo + 1.0 }).expect("ends of bins are finite and in order")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(numbers: impl IntoIterator<Item = f64>) -> BinCounts {
        let mut counts = BinCounts::default();
        numbers.into_iter().for_each(|number| counts.take(number));
        counts
    }

    #[test]
    fn every_number_lies_between_the_ends_of_its_bin() {
        for exponent in -20..42 {
            for number in [1.0, 1.124, 1.125, 1.5, 1.999].map(|digits| digits * 2_f64.powi(exponent)) {
                for signed in [number, -number] {
                    let [lo, hi] = ends(bin(signed));
                    assert!(lo <= signed && signed <= hi, "{signed} in [{lo}, {hi}]");
                    assert!(hi - lo <= 0.13 * number, "[{lo}, {hi}]");
                }
            }
        }
        assert_eq!([0.0, -0.0, 1e-9, -1e-300].map(bin), [ZERO; 4]);
        assert_eq!([bin(1e300), bin(f64::MIN)], [BINS - 1, 0]);
        assert_eq!(counted([f64::NAN, f64::INFINITY]), BinCounts::default());
        for (left, right) in (0..BINS).zip(1..BINS).filter(|(left, right)| *left != ZERO && *right != ZERO) {
            assert_eq!(ends(left)[1], ends(right)[0], "bins {left} and {right}");
        }
    }

    /// 10,000 rows a column.
    fn columns() -> Vec<Vec<f64>> {
        let normal = |seed: u64| {
            let key = StreamKey::Simulation(seed);
            let mut noise = vec![0.0_f64; 10_000];
            rounds_kernels::random::add_gaussian(&key, Purpose(1), 0, 1.0, &mut noise);
            noise
        };
        let of = |seed, map: fn(f64) -> f64| normal(seed).into_iter().map(map).collect();
        vec![
            of(1, |z| 52_000.0 + 16_000.0 * z),
            of(2, |z| 8_000.0 + 5_000.0 * z),
            of(3, f64::exp),
            of(4, |z| z),
            of(5, |z| 1990.0 + (10.0 * z).round()),
            of(6, |z| f64::from(u8::from(z > 1.0))),
            of(7, |z| -0.001 * z.abs()),
            vec![5.0; 10_000],
        ]
    }

    #[test]
    fn bounds_hold_nine_tenths_of_the_rows_and_little_else() {
        let columns = columns();
        let counts: Vec<BinCounts> = columns.iter().map(|column| counted(column.iter().copied())).collect();
        let epsilon = 0.1 * columns.len() as f64;
        for seed in 0..50 {
            let bounds = private_bounds(&counts, Relation::ZeroOut, epsilon, &StreamKey::Simulation(seed));
            for (place, (bounds, column)) in bounds.iter().zip(&columns).enumerate() {
                let (lo, hi) = (bounds.lo(), bounds.hi());
                let held = column.iter().filter(|&&value| lo <= value && value <= hi).count();
                assert!(held >= 9_000, "column {place}, seed {seed}: {held} rows in [{lo}, {hi}]");
                let [least, greatest] = [f64::min, f64::max].map(|of| column.iter().copied().fold(column[0], of));
                let range = (greatest - least).max(least.abs());
                assert!(hi - lo <= 1.5 * range, "column {place}, seed {seed}: [{lo}, {hi}]");
            }
        }
    }

    /// A row that stands alone is as likely seen as the noise allows: over 40,000 seeds no event of the bounds is more than e^ε
    /// times as likely with the row as without it, but for the error of four standard deviations.
    #[test]
    fn neighbouring_columns_have_bounds_within_the_likelihood_ratio() {
        const SEEDS: u64 = 40_000;
        let epsilon = 1.0;
        // The counts lie where noise decides.
        let crowd = |count: usize| std::iter::repeat_n(3.0, count);
        let lone = |count| vec![counted(crowd(count))];
        for (with, without, relation) in [
            (lone(16), lone(15), Relation::ZeroOut),
            (lone(16), lone(15), Relation::AddRemove { public_rows: 15 }),
            // The row lies in both columns.
            ([lone(34), lone(34)].concat(), [lone(33), lone(33)].concat(), Relation::ZeroOut),
            (
                vec![counted(crowd(16).chain([100.0; 16]))],
                vec![counted(crowd(17).chain([100.0; 15]))],
                Relation::ReplaceOne,
            ),
        ] {
            let mut seen = std::collections::BTreeMap::<Vec<u64>, [u32; 2]>::new();
            for (side, counts) in [&with, &without].into_iter().enumerate() {
                for seed in 0..SEEDS {
                    // Both sides have noise of their own.
                    let key = StreamKey::Simulation(2 * seed + side as u64);
                    let bounds = private_bounds(counts, relation, epsilon, &key);
                    let ends =
                        bounds.iter().flat_map(|bounds| [bounds.lo().to_bits(), bounds.hi().to_bits()]).collect();
                    seen.entry(ends).or_default()[side] += 1;
                }
            }
            let mut often = 0;
            for [mut p, mut q] in seen.into_values().map(|counts| counts.map(f64::from)) {
                for _ in 0..2 {
                    (p, q) = (q, p);
                    let error = 4.0 * (p + f64::exp(2.0 * epsilon) * q + 1.0).sqrt();
                    assert!(p <= f64::exp(epsilon) * q + error, "{p} and {q} of {SEEDS}");
                }
                often += usize::from(p.min(q) > 400.0);
            }
            assert!(often >= 2, "the test decides nothing");
        }
    }
}

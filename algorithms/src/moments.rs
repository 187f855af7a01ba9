//! The second moment of the rows as one Gaussian mechanism: sums of integers, a sensitivity in closed form, noise that is drawn exactly.
//!
//! **The release.** A row x̃ = (1, x), the bias first, contributes the entries i ≤ j of x̃x̃ᵀ, those off the diagonal times √2: all of them
//! ([`Form::Full`]), or those of the first row and of the diagonal alone ([`Form::Diagonal`]: a number, d sums and d sums of squares). The
//! null row contributes 0. Noise of one deviation is added to each coordinate; off the diagonal both are divided by √2 again.
//!
//! **Sensitivity.** Features are integers a_j of the public step s, and a row contributes if `Σ a_j² ≤ L` and `|a_j| ≤ g`, which is tested in
//! integers: L from the public bound of a row's norm, g the greatest integer of a feature. Every row of the domain does, and another one
//! contributes 0. So with all entries a contribution has the length
//!
//! ```text
//! √(Σ_i x̃_i⁴ + 2·Σ_{i<j} x̃_i²x̃_j²) = ‖x̃x̃ᵀ‖_F = ‖x̃‖² = 1 + s²·Σ a_j² ≤ 1 + s²L
//! ```
//!
//! and with those of the first row and of the diagonal the square of its length is
//!
//! ```text
//! 1 + 2·Σ_j x_j² + Σ_j x_j⁴ ≤ 1 + 2s²L + s⁴L·min(L, g²),     since Σ a_j⁴ ≤ max_j a_j²·Σ a_j².
//! ```
//!
//! That is Δ, the norm by which the null row in place of a row, or a row more or less, moves the sums; another row moves them by 2Δ. A
//! contribution is a function of its row and of public numbers. Sums with noise of deviation σΔ are
//! [`Mechanism::Gaussian`](crate::privacy::Mechanism) of noise multiplier σ that reads every row once.
//!
//! **Exactness.** Products of features are integers of s², features and the number of rows integers of s and 1: sums are integers of 64 bits
//! (4·2³² rows of products up to 2²⁸), the same in any order, since a block's products stay below 2⁵³ in f64. An entry with the real noise W
//! in units of its own is released as S + ⌊W + ½⌋ = ⌊S + W + ½⌋, a function of the real-valued mechanism. Whatever is made of it, division,
//! eigenvectors, rounding, is post-processing, and no number of rows is read but the released one.

use rounds_kernels::features::Norm;
use rounds_kernels::random::exact::fill_rounded_gaussian;
use rounds_kernels::random::{Purpose, StreamKey};
use rounds_numerics::{Mat, dense};
use sha2::{Digest as _, Sha256};

use crate::noise::lattice::EXCESS;
use crate::problem::Dataset;

/// Addresses of the noise, which no other mechanism draws from: on and off the diagonal.
const ON_DIAGONAL: Purpose = Purpose(0x4d4f_4d44);
const OFF_DIAGONAL: Purpose = Purpose(0x4d4f_4d4f);
/// Rows that are multiplied at once.
const BLOCK: usize = 1024;
/// The greatest deviation of noise in units of an entry, 2⁴⁹: with sums below 2⁶² it stays within 64 bits.
const MOST_NOISE: f64 = 562_949_953_421_312.0;

/// The entries of the second moment that are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Means and squares of the features.
    Diagonal,
    /// All.
    Full,
}

/// Sums over the rows of what each contributes. They are secret.
pub struct MomentSums {
    form: Form,
    /// d + 1.
    size: usize,
    /// s.
    step: f64,
    /// Δ.
    sensitivity: f64,
    /// Row 0 of x̃x̃ᵀ, then its diagonal without the first entry, or then its other rows, 0 below the diagonal.
    sums: Vec<i64>,
}

/// The released mean and covariance, in the units of the features, with the noise that they hold.
pub struct Moments {
    /// The mean of each feature.
    pub mean: Vec<f64>,
    /// The variance of each feature, or the rows of the covariance.
    pub covariance: Vec<f64>,
    /// The deviation of the noise of a mean square.
    pub deviation: f64,
}

impl MomentSums {
    /// The sums over the rows of a data set.
    ///
    /// # Errors
    /// Rows without a declared domain, whose lengths nothing bounds, and rows of units.
    pub fn of(dataset: &Dataset, form: Form) -> Result<Self, &'static str> {
        let grid = dataset.feature_grid().zip(dataset.public_bound(Norm::L2));
        let (grid, bound) = grid
            .ok_or("its moments need rows of a declared domain, which bounds their norm: give a schema, or bounds")?;
        if dataset.units().is_some() {
            return Err(
                "a unit moves moments by all of its rows, and what they come to is not bounded here: declare no unit",
            );
        }
        let (step, greatest) = (f64::from(grid.step), f64::from(grid.greatest));
        let most = (bound / step).powi(2).ceil();
        let square = step * step;
        let sensitivity = match form {
            Form::Full => 1.0 + square * most,
            Form::Diagonal => {
                (1.0 + 2.0 * square * most + square * square * most * most.min(greatest * greatest)).sqrt()
            }
        };
        let size = dataset.columns() + 1;
        let entries = match form {
            Form::Diagonal => 2 * size - 1,
            Form::Full => size * size,
        };
        let mut sums = Self { form, size, step, sensitivity, sums: vec![0; entries] };
        let mut block = Mat::<f64>::zeros(size, BLOCK);
        let (rows, mut row_values, mut filled) = (dataset.rows(), vec![0.0; size - 1], 0);
        for row in (0..dataset.len()).filter(|&row| !dataset.is_null(row)) {
            rows.widen(row, &mut row_values);
            let integers = row_values.iter().map(|&value| (f64::from(value) / step).round());
            // Sums of squares below 2⁵³ are exact; beyond, from 2²⁵ columns on, they are off by 2⁻²⁸ at most, which EXCESS covers.
            let (length, longest) =
                integers.clone().fold((0.0, 0.0_f64), |(sum, longest), a| (sum + a * a, longest.max(a.abs())));
            if !(length <= most && longest <= greatest) {
                continue;
            }
            let column = block.col_mut(filled);
            column.iter_mut().zip(std::iter::once(1.0).chain(integers)).for_each(|(to, a)| *to = a);
            filled += 1;
            if filled == BLOCK {
                sums.add(&block);
                filled = 0;
            }
        }
        block.subcols_mut(filled, BLOCK - filled).fill(0.0);
        sums.add(&block);
        Ok(sums)
    }

    /// Adds the contributions of the columns of `block`.
    fn add(&mut self, block: &Mat<f64>) {
        match self.form {
            Form::Full => {
                let products = dense::multiply(block.as_ref(), block.transpose());
                for (row, sums) in self.sums.chunks_exact_mut(self.size).enumerate() {
                    let above = sums.iter_mut().enumerate().skip(row);
                    above.for_each(|(column, sum)| *sum += products[(row, column)] as i64);
                }
            }
            Form::Diagonal => {
                let (first, squares) = self.sums.split_at_mut(self.size);
                for column in block.col_iter() {
                    first.iter_mut().zip(column.iter()).for_each(|(sum, a)| *sum += *a as i64);
                    squares.iter_mut().zip(column.iter().skip(1)).for_each(|(sum, a)| *sum += (a * a) as i64);
                }
            }
        }
    }

    /// SHA-256 of the sums and of what scales their noise.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update([self.form as u8]);
        [self.step, self.sensitivity].iter().for_each(|scale| hasher.update(scale.to_le_bytes()));
        self.sums.iter().for_each(|sum| hasher.update(sum.to_le_bytes()));
        hasher.finalize().into()
    }

    /// The deviation of noise of this multiplier.
    ///
    /// # Errors
    /// Noise beyond the range of the sums' integers: a function of public numbers.
    pub fn deviation(&self, noise_multiplier: f64) -> Result<f64, &'static str> {
        let deviation = noise_multiplier * self.sensitivity * EXCESS;
        // Of an entry that is an integer of `unit`.
        let [of_squares, of_counts] = [self.step * self.step, 1.0].map(|unit| deviation / unit);
        if !(of_squares.max(of_counts) <= MOST_NOISE && of_squares.min(of_counts) > 0.0) {
            return Err(
                "the noise of its moments is too large for the step of the features: raise epsilon, or scale the features",
            );
        }
        Ok(deviation)
    }

    /// The sums with noise of this multiplier.
    ///
    /// # Errors
    /// As [`deviation`](Self::deviation).
    pub fn released(mut self, noise_multiplier: f64, key: &StreamKey) -> Result<Moments, &'static str> {
        let deviation = self.add_noise(noise_multiplier, key)?;
        Ok(self.moments(deviation))
    }

    /// Adds the noise; its deviation.
    fn add_noise(&mut self, noise_multiplier: f64, key: &StreamKey) -> Result<f64, &'static str> {
        let (deviation, step) = (self.deviation(noise_multiplier)?, self.step);
        let draw = |purpose, round: usize, unit: f64, sums: &mut [i64]| {
            let mut noise = vec![0_i64; sums.len()];
            fill_rounded_gaussian(key, purpose, round as u64, 0, deviation / unit, &mut noise);
            sums.iter_mut().zip(noise).for_each(|(sum, noise)| *sum += noise);
        };
        let off = std::f64::consts::SQRT_2 * step;
        let size = self.size;
        let (first, rest) = self.sums.split_at_mut(size);
        draw(ON_DIAGONAL, 0, 1.0, &mut first[..1]);
        draw(OFF_DIAGONAL, 0, off, &mut first[1..]);
        match self.form {
            Form::Diagonal => draw(ON_DIAGONAL, 1, step * step, rest),
            Form::Full => {
                let mut diagonal: Vec<i64> = (1..size).map(|i| rest[(i - 1) * size + i]).collect();
                draw(ON_DIAGONAL, 1, step * step, &mut diagonal);
                for (i, (row, on)) in (1..).zip(rest.chunks_exact_mut(size).zip(diagonal)) {
                    row[i] = on;
                    draw(OFF_DIAGONAL, i, off * step, &mut row[i + 1..]);
                }
            }
        }
        Ok(deviation)
    }

    /// The mean and the covariance that noisy sums say.
    fn moments(&self, deviation: f64) -> Moments {
        let (first, rest) = self.sums.split_at(self.size);
        let count = (first[0] as f64).max(1.0);
        let mean: Vec<f64> = first[1..].iter().map(|&sum| sum as f64 * self.step / count).collect();
        let square = |sum: i64| sum as f64 * self.step * self.step / count;
        let covariance = match self.form {
            Form::Diagonal => rest.iter().zip(&mean).map(|(&sum, mean)| square(sum) - mean * mean).collect(),
            Form::Full => {
                let d = mean.len();
                let entry = |i: usize, j: usize| square(rest[i.min(j) * self.size + i.max(j) + 1]) - mean[i] * mean[j];
                (0..d * d).map(|place| entry(place / d, place % d)).collect()
            }
        };
        Moments { mean, covariance, deviation: deviation / count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{
        Bounds, Columns, Domain, DomainSource, Features, Label, Labels, SparseMatrix, Storage, UnitDeclaration, UnitIds,
    };
    use rounds_kernels::linear::Reduction;

    /// Rows of 3 features in a domain of [−1, 1], or of bytes.
    fn rows(features: Features) -> Dataset {
        let labels = Labels::numbered((0..features.len()).map(|row| row as u32 % 2).collect(), 2);
        let [lowest, highest] = if features.storage() == Storage::Bytes { [0.0, 255.0] } else { [-1.0, 1.0] };
        let columns = Columns::Matrix { count: 3, bounds: Bounds::new(lowest, highest).unwrap() };
        let label = Label::Classes(["no", "yes"].map(str::to_owned).to_vec());
        let domain = Domain::new(columns, features.storage(), label, DomainSource::Arguments);
        Dataset::new("rows", features, labels).unwrap().in_domain(domain.into()).unwrap()
    }

    fn dense(values: &[f32]) -> Dataset {
        rows(Features::f32(values.to_vec(), 3))
    }

    /// The sums in coordinates whose noise has one deviation: entries off the diagonal count √2 times.
    fn coordinates(sums: &MomentSums) -> Vec<f64> {
        let (size, s) = (sums.size, sums.step);
        let off = |unit: f64| std::f64::consts::SQRT_2 * unit;
        let place = |place: usize| match (place / size, place % size, sums.form) {
            (0, 0, _) => 1.0,
            (0, ..) => off(s),
            (_, _, Form::Diagonal) => s * s,
            (row, column, _) if row == column => s * s,
            (row, column, _) if row < column => off(s * s),
            _ => 0.0,
        };
        sums.sums.iter().enumerate().map(|(index, &sum)| place(index) * sum as f64).collect()
    }

    fn length(of: &[f64]) -> f64 {
        of.iter().map(|value| value * value).sum::<f64>().sqrt()
    }

    #[test]
    fn no_row_moves_the_sums_by_more_than_their_sensitivity_and_the_longest_does() {
        let bytes = |values: [u8; 3]| rows(Features::bytes(&values, 3, 1.0 / 255.0));
        for form in [Form::Diagonal, Form::Full] {
            for (row, is_longest) in [
                (dense(&[1.0, -1.0, 1.0]), true),
                (dense(&[1.0, 0.0, 0.0]), false),
                (dense(&[9.0, -9.0, f32::MAX]), true),
                (dense(&[0.3, -0.7, 0.01]), false),
                (bytes([255, 255, 255]), true),
                (bytes([255, 0, 7]), false),
                (dense(&[1.0, 0.9, -0.9]).clip_features(Norm::L2, 1.2).unwrap(), form == Form::Full),
            ] {
                let sums = MomentSums::of(&row, form).unwrap();
                let found = length(&coordinates(&sums));
                assert!(found <= sums.sensitivity, "{form:?}: {found} of {}", sums.sensitivity);
                assert!(!is_longest || found > 0.999 * sums.sensitivity, "{form:?}: {found} of {}", sums.sensitivity);
                // The bias is a feature, too.
                assert!(found >= 1.0);
            }
        }
    }

    #[test]
    fn sums_are_those_of_integers_in_every_format_and_a_null_row_adds_nothing() {
        let values: Vec<f32> = (0..3 * 2_500).map(|place| (place * 37 % 201) as f32 / 100.0 - 1.0).collect();
        let sparse = |values: &[f32]| {
            let mut matrix = SparseMatrix::new(3);
            let entries =
                |row: &[f32]| -> Vec<_> { (0..).zip(row.iter().copied()).filter(|(_, value)| *value != 0.0).collect() };
            values.chunks(3).for_each(|row| matrix.push_row(entries(row)));
            rows(Features::Sparse(matrix))
        };
        let all = dense(&values);
        let integer = |value: f32| (f64::from(value) * 16_384.0).round_ties_even() as i64;
        for form in [Form::Diagonal, Form::Full] {
            let sums = MomentSums::of(&all, form).unwrap();
            let naive = |i: usize, j: usize| -> i64 {
                let entry = |row: &[f32], i: usize| if i == 0 { 1 } else { integer(row[i - 1]) };
                values.chunks(3).map(|row| entry(row, i) * entry(row, j)).sum()
            };
            let expected: Vec<i64> = match form {
                Form::Diagonal => (0..4).map(|j| naive(0, j)).chain((1..4).map(|j| naive(j, j))).collect(),
                Form::Full => (0..16).map(|at| if at / 4 <= at % 4 { naive(at / 4, at % 4) } else { 0 }).collect(),
            };
            assert_eq!(sums.sums, expected);
            assert_eq!(sums.digest(), MomentSums::of(&sparse(&values), form).unwrap().digest());
            let without: Vec<f32> = [&values[..30], &values[33..]].concat();
            assert_eq!(
                MomentSums::of(&all.clone().null_row(10), form).unwrap().sums,
                MomentSums::of(&dense(&without), form).unwrap().sums
            );
        }
    }

    /// Along the contribution of the longest row, in units of the noise that is stated, the neighbour without it is 1/σ away: the shift and the
    /// deviation of 4,000 releases say so to some percent, and a release with half of the noise, or for a row without its bias, would not.
    #[test]
    fn releases_of_neighbours_are_as_far_apart_as_the_mechanism_says() {
        let values: Vec<f32> =
            (0..30).map(|place| (place * 7 % 11) as f32 / 10.0 - 0.5).chain([1.0, -1.0, 1.0]).collect();
        let (with, without) = (dense(&values), dense(&values).null_row(10));
        let sigma = 0.5;
        for form in [Form::Diagonal, Form::Full] {
            let direction = coordinates(&MomentSums::of(&dense(&[1.0, -1.0, 1.0]), form).unwrap());
            let told = |rows: &Dataset, seeds: std::ops::Range<u64>| -> Vec<f64> {
                let along = |seed| {
                    let mut sums = MomentSums::of(rows, form).unwrap();
                    sums.add_noise(sigma, &StreamKey::Simulation(seed)).unwrap();
                    let found = coordinates(&sums);
                    found.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>() / length(&direction)
                };
                seeds.map(along).collect()
            };
            let [absent, present] = [told(&without, 0..2_000), told(&with, 2_000..4_000)];
            let mean = |told: &[f64]| told.iter().sum::<f64>() / told.len() as f64;
            let deviation = |told: &[f64]| {
                let middle = mean(told);
                (told.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / told.len() as f64).sqrt()
            };
            let apart = (mean(&present) - mean(&absent)) / deviation(&absent);
            assert!((apart * sigma - 1.0).abs() < 0.08, "{form:?}: {apart}");
            // Every other direction has as much noise: each coordinate by itself.
            let size = coordinates(&MomentSums::of(&without, form).unwrap()).len();
            let mut squares = vec![0.0; size];
            for seed in 0..2_000 {
                let exact = MomentSums::of(&without, form).unwrap();
                let mut noisy = MomentSums::of(&without, form).unwrap();
                noisy.add_noise(sigma, &StreamKey::Simulation(seed)).unwrap();
                let pairs = coordinates(&noisy).into_iter().zip(coordinates(&exact));
                squares
                    .iter_mut()
                    .zip(pairs)
                    .for_each(|(sum, (noisy, exact))| *sum += (noisy - exact).powi(2) / 2_000.0);
            }
            let stated = sigma * MomentSums::of(&without, form).unwrap().sensitivity;
            for (place, square) in squares.into_iter().enumerate() {
                let is_read = form == Form::Diagonal || place / 4 <= place % 4;
                let found = square.sqrt() / stated;
                assert!(if is_read { (found - 1.0).abs() < 0.08 } else { found == 0.0 }, "{form:?}, {place}: {found}");
            }
        }
    }

    #[test]
    fn released_moments_are_those_of_the_rows_but_for_their_noise() {
        let values: Vec<f32> = (0..3 * 5_000).map(|place| (place * 7_919 % 2_003) as f32 / 1_001.5 - 1.0).collect();
        let mean = |j: usize| values.chunks(3).map(|row| f64::from(row[j])).sum::<f64>() / 5_000.0;
        let covariance = |i: usize, j: usize| {
            values.chunks(3).map(|row| f64::from(row[i] * row[j])).sum::<f64>() / 5_000.0 - mean(i) * mean(j)
        };
        let key = StreamKey::Release([5; 32]);
        for form in [Form::Diagonal, Form::Full] {
            let found = MomentSums::of(&dense(&values), form).unwrap().released(2.0, &key).unwrap();
            let near = |found: f64, expected: f64| {
                assert!((found - expected).abs() < 5.0 * found.abs().max(1.0) * 8.0 / 5_000.0, "{found} {expected}");
            };
            assert!(
                (found.deviation * 5_000.0 / 2.0 - if form == Form::Full { 4.0 } else { 10_f64.sqrt() }).abs() < 0.1
            );
            (0..3).for_each(|j| near(found.mean[j], mean(j)));
            match form {
                Form::Diagonal => (0..3).for_each(|j| near(found.covariance[j], covariance(j, j))),
                Form::Full => (0..9).for_each(|at| near(found.covariance[at], covariance(at / 3, at % 3))),
            }
        }
    }

    #[test]
    fn rows_whose_contribution_nothing_bounds_are_refused() {
        let labels = Labels::numbered(vec![0, 1], 2);
        let undeclared = Dataset::new("rows", Features::f32(vec![1.0; 6], 3), labels).unwrap();
        let refused = |rows: &Dataset| MomentSums::of(rows, Form::Full).err().expect("refused");
        assert!(refused(&undeclared).contains("a declared domain, which bounds their norm"));
        let ids = UnitIds { of_rows: vec![0, 1], count: 2 };
        let declaration = UnitDeclaration { column: None, reduction: Reduction::Mean, most_rows: None };
        let units = dense(&[0.0; 6]).by_unit(&ids, declaration).unwrap();
        assert!(refused(&units).contains("declare no unit"));
        let sums = MomentSums::of(&dense(&[0.0; 6]), Form::Full).unwrap();
        assert!(sums.released(1e9, &StreamKey::Simulation(1)).is_err_and(|reason| reason.contains("raise epsilon")));
    }
}

//! The statistic: the likelihood ratio of the canary on the whitened transcript.
//!
//! A transcript is what the canary's coordinate of the released iterates did, one value a round. Without projections it is
//! an affine function of the rounds' noise, triangular in time: x = m + A·z, with the same A in every coordinate, since
//! noise is drawn and processed coordinate by coordinate. So K = A·Aᵀ is seen in the coordinates that the canary does not
//! touch, and u = K^{−1/2}x with the Cholesky root is the noise of each round again, white, in the order of release (up to
//! signs: C applied to the released increments). The canary's presence moves u by δ, ‖δ‖ = μ. Nothing here knows which
//! algorithm or mechanism it looks at; a wrong K or δ would cost power and never validity, since the threshold's errors are
//! counted on runs that neither has seen.

/// Density of a round's noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Density {
    Gaussian,
    Laplace,
}

/// The law of the noise of a round, and the rate at which the canary takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoiseLaw {
    pub(super) density: Density,
    /// Probability that a round reads the canary: 1 where its batches are fixed.
    pub(super) rate: f64,
}

/// Sums over coordinates that the canary does not touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    count: f64,
    sum: Vec<f64>,
    products: Vec<f64>,
}

impl Moments {
    /// Nothing seen of `rounds` rounds.
    pub(super) fn new(rounds: usize) -> Self {
        Self { count: 0.0, sum: vec![0.0; rounds], products: vec![0.0; rounds * rounds] }
    }

    /// One coordinate's values, one a round.
    pub(super) fn add(&mut self, values: &(impl Iterator<Item = f64> + Clone)) {
        let rounds = self.sum.len();
        self.count += 1.0;
        for (row, left) in values.clone().enumerate() {
            self.sum[row] += left;
            for (entry, right) in self.products[row * rounds..].iter_mut().zip(values.clone().take(row + 1)) {
                *entry += left * right;
            }
        }
    }

    /// Covariance of two rounds, the later one first.
    fn covariance(&self, row: usize, column: usize) -> f64 {
        let mean = self.sum[row] * self.sum[column] / self.count;
        (self.products[row * self.sum.len() + column] - mean) / (self.count - 1.0).max(1.0)
    }

    /// Mean of the squared whitened values, `tr(R⁻¹·K·R⁻ᵀ)/T` for the lower root R.
    fn mean_square(&self, root: &[f64]) -> f64 {
        let rounds = self.sum.len();
        // Two substitutions: rows of M = R⁻¹·K, then columns of R⁻¹·Mᵀ, of which the diagonal is wanted.
        let mut half = vec![0.0; rounds * rounds];
        for column in 0..rounds {
            for row in 0..rounds {
                let known: f64 = (0..row).map(|k| root[row * rounds + k] * half[k * rounds + column]).sum();
                let entry = self.covariance(row.max(column), row.min(column));
                half[row * rounds + column] = (entry - known) / root[row * rounds + row];
            }
        }
        let mut trace = 0.0;
        for row in 0..rounds {
            let mut whitened = half[row * rounds..(row + 1) * rounds].to_vec();
            whiten(root, &mut whitened);
            trace += whitened[row];
        }
        trace / rounds.max(1) as f64
    }

    /// The lower Cholesky root of the covariance, with a relative ridge of 1e-10: rounds that release nothing new get a
    /// standard deviation of 1e-5 of their own, far above rounding and far below noise, so that a value which moves without
    /// noise still counts as the breach that it is.
    fn root(&self) -> Vec<f64> {
        let rounds = self.sum.len();
        let covariance = |row, column| self.covariance(row, column);
        let largest = (0..rounds).map(|row| covariance(row, row)).fold(0.0, f64::max);
        let floor = if largest > 0.0 { 1e-16 * largest } else { 1e-30 };
        let mut root = vec![0.0; rounds * rounds];
        for row in 0..rounds {
            for column in 0..=row {
                let known: f64 = (0..column).map(|k| root[row * rounds + k] * root[column * rounds + k]).sum();
                root[row * rounds + column] = if row == column {
                    let variance = covariance(row, row);
                    let ridge = (1e-10 * variance).max(floor);
                    (variance - known).max(0.0).max(ridge).sqrt()
                } else {
                    (covariance(row, column) - known) / root[column * rounds + column]
                };
            }
        }
        root
    }
}

/// x ← R⁻¹·x for a lower root R.
fn whiten(root: &[f64], values: &mut [f64]) {
    let rounds = values.len();
    for row in 0..rounds {
        let known: f64 = (0..row).map(|k| root[row * rounds + k] * values[k]).sum();
        values[row] = (values[row] - known) / root[row * rounds + row];
    }
}

/// The statistic, fixed before the runs that it judges: the likelihood ratio of the canary's shift of its coordinate, plus
/// that of another scale of the noise in the other coordinates. A divisor, rate or noise that depends on the rows shows in
/// the scale.
#[derive(Clone, Debug)]
pub(super) struct LikelihoodRatio {
    law: NoiseLaw,
    root: Vec<f64>,
    /// Whitened mean without the canary.
    without: Vec<f64>,
    /// Whitened mean with it.
    with: Vec<f64>,
    /// Whitened mean of the other coordinates, without the canary.
    centre: Vec<f64>,
    /// Mean squares of whitened noise, without and with the canary.
    squares: [f64; 2],
}

impl LikelihoodRatio {
    /// The ratio from the noise's moments and the mean transcripts, each without and with the canary.
    pub(super) fn new(law: NoiseLaw, noise: [&Moments; 2], means: [&[f64]; 2]) -> Self {
        let root = noise[0].root();
        let whitened = |values: &[f64]| {
            let mut values = values.to_vec();
            whiten(&root, &mut values);
            values
        };
        let centre: Vec<f64> = noise[0].sum.iter().map(|sum| sum / noise[0].count).collect();
        Self {
            law,
            without: whitened(means[0]),
            with: whitened(means[1]),
            centre: whitened(&centre),
            squares: noise.map(|noise| noise.mean_square(&root).max(f64::MIN_POSITIVE)),
            root,
        }
    }

    /// ‖δ‖, the mean shift of the whitened transcript by the canary.
    pub(super) fn shift(&self) -> f64 {
        let squared: f64 = self.with.iter().zip(&self.without).map(|(a, b)| (a - b).powi(2)).sum();
        squared.sqrt()
    }

    /// Variance of the noise with the canary over that without.
    pub(super) fn scale(&self) -> f64 {
        self.squares[1] / self.squares[0]
    }

    /// ln of the ratio of the densities with and without the canary of a run's iterates, `columns` values a round, the
    /// canary's coordinate first.
    pub(super) fn log_ratio(&self, iterates: &[f32], columns: usize) -> f64 {
        let mut values = Vec::with_capacity(self.without.len());
        (0..columns)
            .map(|column| {
                values.clear();
                values.extend(iterates[column..].iter().step_by(columns).map(|&x| f64::from(x)));
                if column == 0 { self.of_shift(&mut values) } else { self.of_scale(&mut values) }
            })
            .sum()
    }

    /// The part of a coordinate that the canary does not touch: N(0, s·s₀) against N(0, s₀) for white values.
    fn of_scale(&self, values: &mut [f64]) -> f64 {
        whiten(&self.root, values);
        let squares: f64 = values.iter().zip(&self.centre).map(|(u, m)| (u - m).powi(2)).sum();
        let of = |square: f64| -0.5 * (values.len() as f64 * square.ln() + squares / square);
        of(self.squares[1]) - of(self.squares[0])
    }

    /// The part of the canary's coordinate; `transcript` is overwritten.
    pub(super) fn of_shift(&self, transcript: &mut [f64]) -> f64 {
        whiten(&self.root, transcript);
        let NoiseLaw { density, rate } = self.law;
        let moved = transcript.iter().zip(self.without.iter().zip(&self.with)).map(|(u, (without, with))| {
            let shift = (with - without) / rate;
            let from = u - without;
            match density {
                Density::Gaussian => shift * (from - 0.5 * shift),
                // White Laplace noise has scale 1/√2.
                Density::Laplace => std::f64::consts::SQRT_2 * (from.abs() - (from - shift).abs()),
            }
        });
        if rate == 1.0 {
            return moved.sum();
        }
        // ln(1 − q + q·e^x), from the larger of the terms.
        let mixed = |exponent: f64| {
            let (with, without) = (rate.ln() + exponent, (-rate).ln_1p());
            let largest = with.max(without);
            largest + ((with - largest).exp() + (without - largest).exp()).ln()
        };
        moved.map(mixed).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

    const ALWAYS: NoiseLaw = NoiseLaw { density: Density::Gaussian, rate: 1.0 };

    fn draws(seed: u64, count: usize) -> Vec<f32> {
        let mut draws = vec![0.0; count];
        fill_gaussian(&StreamKey::Simulation(seed), Purpose(9), 0, 1.0, &mut draws);
        draws
    }

    #[test]
    fn whitening_finds_the_noise_and_the_shift_again() {
        // x_t = Σ_{s ≤ t} (t − s + 1)·z_s, and a canary that moves z_0 by 1.2 and z_2 by −0.9: ‖δ‖ = 1.5.
        const ROUNDS: usize = 4;
        let response = |noise: [f64; ROUNDS]| -> Vec<f64> {
            (0..ROUNDS).map(|t| (0..=t).map(|s| (t - s + 1) as f64 * noise[s]).sum()).collect()
        };
        let draws = draws(3, 4 * 50_000);
        let mut moments = Moments::new(ROUNDS);
        for z in draws.chunks(ROUNDS) {
            moments.add(&response(std::array::from_fn(|t| f64::from(z[t]))).into_iter());
        }
        let canary = response([1.2, 0.0, -0.9, 0.0]);
        let ratio = LikelihoodRatio::new(ALWAYS, [&moments; 2], [&[0.0; ROUNDS], &canary]);
        assert!((ratio.shift() - 1.5).abs() < 0.02, "{}", ratio.shift());
        // The ratio of z is δ·z − ‖δ‖²/2.
        let z = [0.3, -1.0, 0.8, 2.0];
        let found = ratio.of_shift(&mut response(z));
        assert!((found - (1.2 * 0.3 - 0.9 * 0.8 - 1.125)).abs() < 0.06, "{found}");
    }

    #[test]
    fn rounds_that_repeat_release_nothing_and_what_moves_without_noise_is_seen() {
        let draws = draws(4, 2_000);
        let mut moments = Moments::new(3);
        for &z in &draws {
            // The second round repeats the first, the third is constant.
            moments.add(&[f64::from(z), f64::from(z), 0.0].into_iter());
        }
        let quiet = LikelihoodRatio::new(ALWAYS, [&moments; 2], [&[0.0; 3], &[1.0, 1.0, 0.0]]);
        assert!((quiet.shift() - 1.0).abs() < 0.1, "{}", quiet.shift());
        let leak = LikelihoodRatio::new(ALWAYS, [&moments; 2], [&[0.0; 3], &[1.0, 1.0, 1e-3]]);
        assert!(leak.shift() > 1e3, "{}", leak.shift());
    }

    #[test]
    fn a_subsampled_ratio_is_that_of_the_mixture() {
        let draws = draws(5, 100_000);
        let mut moments = Moments::new(1);
        for &z in &draws {
            moments.add(&std::iter::once(f64::from(z)));
        }
        let ratio = LikelihoodRatio::new(NoiseLaw { rate: 0.25, ..ALWAYS }, [&moments; 2], [&[0.0], &[0.5]]);
        for x in [-3.0, 0.0, 1.0, 4.0_f64] {
            let exact = (0.75 + 0.25 * (2.0 * x - 2.0).exp()).ln();
            let found = ratio.of_shift(&mut [x]);
            let close = (found - exact).abs() < 0.05 * exact.abs().max(0.2);
            assert!(close, "{x}: {found} for {exact}");
        }
    }

    #[test]
    fn another_scale_of_correlated_noise_is_seen_where_the_canary_is_not() {
        let draws = draws(6, 2 * 50_000);
        let mut moments = [Moments::new(2), Moments::new(2)];
        for pair in draws.chunks(2) {
            let values = [f64::from(pair[0]), f64::from(pair[0]) + 3.0 * f64::from(pair[1])];
            moments[0].add(&values.into_iter());
            moments[1].add(&values.map(|value| 1.5 * value).into_iter());
        }
        let ratio = LikelihoodRatio::new(ALWAYS, [&moments[0], &moments[1]], [&[0.0; 2]; 2]);
        assert!((ratio.scale() - 2.25).abs() < 1e-6, "{}", ratio.scale());
        // White values (1, 2): −ln 2.25 + (1 − 1/2.25)·5/2.
        let found = ratio.log_ratio(&[0.0, 1.0, 0.0, 7.0], 2);
        let exact = -(2.25_f64.ln()) + (1.0 - 1.0 / 2.25) * 2.5;
        assert!((found - exact).abs() < 0.05, "{found}");
    }
}

//! The statistic: the likelihood ratio of the canary on the whitened transcript.
//!
//! A transcript is what the canary's coordinate of the released iterates did, one value a round. Without projections it is
//! an affine function of the rounds' noise, triangular in time: x = m + A·z, with the same A in every coordinate, since
//! noise is drawn and processed coordinate by coordinate. So K = A·Aᵀ is seen in the coordinates that the canary does not
//! touch, and u = K^{−1/2}x with the Cholesky root is the noise of each round again, white, in the order of release (up to
//! signs: C applied to the released increments). The canary's presence moves u by δ, ‖δ‖ = μ. Nothing here knows which
//! algorithm or mechanism it looks at; a wrong K or δ would cost power and never validity, since the threshold's errors are
//! counted on runs that neither has seen.

/// How the noise of a round is distributed, and how often the canary takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoiseLaw {
    /// Gaussian, the canary in every round of its batches.
    Gaussian,
    /// Gaussian, the canary in each round with this probability.
    SubsampledGaussian(f64),
    /// Laplace.
    Laplace,
}

/// Sums over coordinates that the canary does not touch.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    count: f64,
    sum: Vec<f64>,
    products: Vec<f64>,
}

impl Moments {
    /// Nothing seen of `rounds` rounds.
    pub fn new(rounds: usize) -> Self {
        Self {
            count: 0.0,
            sum: vec![0.0; rounds],
            products: vec![0.0; rounds * rounds],
        }
    }

    /// One coordinate's values, one a round.
    pub fn add(&mut self, values: &(impl Iterator<Item = f64> + Clone)) {
        let rounds = self.sum.len();
        self.count += 1.0;
        for (row, left) in values.clone().enumerate() {
            self.sum[row] += left;
            for (entry, right) in self.products[row * rounds..]
                .iter_mut()
                .zip(values.clone().take(row + 1))
            {
                *entry += left * right;
            }
        }
    }

    /// Adds what `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.iter_mut().zip(&other.sum).for_each(|(to, from)| *to += from);
        self.products
            .iter_mut()
            .zip(&other.products)
            .for_each(|(to, from)| *to += from);
    }

    /// The lower Cholesky root of the covariance, with a relative ridge of 1e-10: rounds that release nothing new get a
    /// standard deviation of 1e-5 of their own, far above rounding and far below noise, so that a value which moves without
    /// noise still counts as the breach that it is.
    fn root(&self) -> Vec<f64> {
        let rounds = self.sum.len();
        let covariance = |row: usize, column: usize| {
            let mean = self.sum[row] * self.sum[column] / self.count;
            (self.products[row * rounds + column] - mean) / (self.count - 1.0).max(1.0)
        };
        let largest = (0..rounds).map(|row| covariance(row, row)).fold(0.0, f64::max);
        let floor = if largest > 0.0 { 1e-16 * largest } else { 1e-30 };
        let mut root = vec![0.0; rounds * rounds];
        for row in 0..rounds {
            for column in 0..=row {
                let known: f64 = (0..column)
                    .map(|k| root[row * rounds + k] * root[column * rounds + k])
                    .sum();
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

/// The statistic, fixed before the runs that it judges.
#[derive(Clone, Debug)]
pub struct LikelihoodRatio {
    law: NoiseLaw,
    root: Vec<f64>,
    /// Whitened mean without the canary.
    without: Vec<f64>,
    /// Whitened mean with it.
    with: Vec<f64>,
}

impl LikelihoodRatio {
    /// The ratio from the noise's moments and the mean transcripts without and with the canary.
    pub fn new(law: NoiseLaw, noise: &Moments, without: &[f64], with: &[f64]) -> Self {
        let root = noise.root();
        let mut ratio = Self {
            law,
            without: without.to_vec(),
            with: with.to_vec(),
            root,
        };
        let mut means = (std::mem::take(&mut ratio.without), std::mem::take(&mut ratio.with));
        ratio.whiten(&mut means.0);
        ratio.whiten(&mut means.1);
        (ratio.without, ratio.with) = means;
        ratio
    }

    /// x ← K^{−1/2}·x.
    fn whiten(&self, values: &mut [f64]) {
        let rounds = values.len();
        for row in 0..rounds {
            let known: f64 = (0..row).map(|k| self.root[row * rounds + k] * values[k]).sum();
            values[row] = (values[row] - known) / self.root[row * rounds + row];
        }
    }

    /// ‖δ‖, what the canary moves the whitened transcript by on average.
    pub fn shift(&self) -> f64 {
        let squared: f64 = self.with.iter().zip(&self.without).map(|(a, b)| (a - b).powi(2)).sum();
        squared.sqrt()
    }

    /// ln of the ratio of the densities with and without the canary; `transcript` is overwritten.
    pub fn log_ratio(&self, transcript: &mut [f64]) -> f64 {
        self.whiten(transcript);
        let rounds = transcript.iter().zip(self.without.iter().zip(&self.with));
        match self.law {
            NoiseLaw::Gaussian => rounds
                .map(|(u, (without, with))| (with - without) * (u - 0.5 * (with + without)))
                .sum(),
            NoiseLaw::SubsampledGaussian(rate) => rounds
                .map(|(u, (without, with))| {
                    let shift = (with - without) / rate;
                    let exponent = shift * (u - without - 0.5 * shift);
                    // ln(1 − q + q·e^x), from the larger of the two terms.
                    let (absent, present) = ((1.0 - rate).ln(), rate.ln() + exponent);
                    let (large, small) = (absent.max(present), absent.min(present));
                    large + (small - large).exp().ln_1p()
                })
                .sum(),
            // White Laplace noise has scale 1/√2.
            NoiseLaw::Laplace => rounds
                .map(|(u, (without, with))| std::f64::consts::SQRT_2 * ((u - without).abs() - (u - with).abs()))
                .sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

    #[test]
    fn whitening_finds_the_noise_and_the_shift_again() {
        // x_t = Σ_{s ≤ t} (t − s + 1)·z_s, and a canary that moves z_0 by 1.2 and z_2 by −0.9: ‖δ‖ = 1.5.
        const ROUNDS: usize = 4;
        let response = |noise: [f64; ROUNDS]| -> Vec<f64> {
            (0..ROUNDS)
                .map(|t| (0..=t).map(|s| (t - s + 1) as f64 * noise[s]).sum())
                .collect()
        };
        let mut draws = vec![0f32; 4 * 50_000];
        fill_gaussian(&StreamKey::Simulation(3), Purpose(9), 0, 1.0, &mut draws);
        let mut moments = Moments::new(ROUNDS);
        for z in draws.chunks(ROUNDS) {
            moments.add(&response(std::array::from_fn(|t| f64::from(z[t]))).into_iter());
        }
        let canary = response([1.2, 0.0, -0.9, 0.0]);
        let ratio = LikelihoodRatio::new(NoiseLaw::Gaussian, &moments, &[0.0; ROUNDS], &canary);
        assert!((ratio.shift() - 1.5).abs() < 0.02, "{}", ratio.shift());
        // The ratio of z is δ·z − ‖δ‖²/2.
        let z = [0.3, -1.0, 0.8, 2.0];
        let found = ratio.log_ratio(&mut response(z));
        assert!((found - (1.2 * 0.3 - 0.9 * 0.8 - 1.125)).abs() < 0.06, "{found}");
    }

    #[test]
    fn rounds_that_repeat_release_nothing_and_what_moves_without_noise_is_seen() {
        let mut draws = vec![0f32; 2_000];
        fill_gaussian(&StreamKey::Simulation(4), Purpose(9), 0, 1.0, &mut draws);
        let mut moments = Moments::new(3);
        for &z in &draws {
            // The second round repeats the first, the third is constant.
            moments.add(&[f64::from(z), f64::from(z), 0.0].into_iter());
        }
        let quiet = LikelihoodRatio::new(NoiseLaw::Gaussian, &moments, &[0.0; 3], &[1.0, 1.0, 0.0]);
        assert!((quiet.shift() - 1.0).abs() < 0.1, "{}", quiet.shift());
        let leak = LikelihoodRatio::new(NoiseLaw::Gaussian, &moments, &[0.0; 3], &[1.0, 1.0, 1e-3]);
        assert!(leak.shift() > 1e3, "{}", leak.shift());
    }

    #[test]
    fn a_subsampled_ratio_is_that_of_the_mixture() {
        let mut draws = vec![0f32; 100_000];
        fill_gaussian(&StreamKey::Simulation(5), Purpose(9), 0, 1.0, &mut draws);
        let mut moments = Moments::new(1);
        for &z in &draws {
            moments.add(&std::iter::once(f64::from(z)));
        }
        let ratio = LikelihoodRatio::new(NoiseLaw::SubsampledGaussian(0.25), &moments, &[0.0], &[0.5]);
        for x in [-3.0, 0.0, 1.0, 4.0_f64] {
            let exact = (0.75 + 0.25 * (2.0 * x - 2.0).exp()).ln();
            let found = ratio.log_ratio(&mut [x]);
            assert!(
                (found - exact).abs() < 0.05 * exact.abs().max(0.2),
                "{x}: {found} for {exact}"
            );
        }
    }
}

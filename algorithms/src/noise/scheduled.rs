//! Independent noise whose level follows a schedule, one level a round: how a privacy budget is divided unevenly among
//! rounds [003 (4.5)].

use std::iter::repeat_n;

use rounds_kernels::linear::Clip;
use rounds_kernels::random::exact::{fill_rounded_gaussian, fill_rounded_laplace};
use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks, add_laplace_blocks};

use super::lattice::{MOST_OF_SUMS, add_rounded, in_units};
use super::stream::{NOISE, NoiseMechanism, PARALLEL_CHUNK, Progress, Result};
use crate::parallel::Engine;
use crate::privacy::{Mechanism, PrivacyStatement};
use crate::state::StateVisitor;

/// The law and the level of every round's noise, on the *sum* that is released, a coordinate. Scale and standard
/// deviation are told apart by name: a Laplace variable of scale b has standard deviation √2·b.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseLevels {
    /// Laplace: density e^{−|y|/b}/(2b), variance 2b².
    Laplace {
        /// b of every round.
        scales: Vec<f64>,
    },
    /// Gaussian.
    Gaussian {
        /// σ of every round.
        standard_deviations: Vec<f64>,
    },
}

impl NoiseLevels {
    /// The levels of fresh noise that `mechanism` states, round by round, on sums of terms clipped to `clip_norm`.
    ///
    /// # Panics
    /// A mechanism of correlated noise.
    pub(super) fn of(mechanism: &Mechanism, clip_norm: f64) -> Self {
        let (mut scales, mut standard_deviations) = (Vec::new(), Vec::new());
        for step in mechanism.steps() {
            match *step {
                Mechanism::Laplace { scale, steps, .. } => scales.extend(repeat_n(scale, steps)),
                Mechanism::Gaussian { noise_multiplier, participations: steps, .. }
                | Mechanism::SubsampledGaussian { noise_multiplier, steps, .. } => {
                    standard_deviations.extend(repeat_n(noise_multiplier * clip_norm, steps));
                }
                _ => panic!("{step} is no fresh noise"),
            }
        }
        assert!(scales.is_empty() || standard_deviations.is_empty(), "one law in all rounds");
        if standard_deviations.is_empty() { Self::Laplace { scales } } else { Self::Gaussian { standard_deviations } }
    }

    /// Rounds that there is noise for.
    pub fn rounds(&self) -> usize {
        match self {
            Self::Laplace { scales } => scales.len(),
            Self::Gaussian { standard_deviations } => standard_deviations.len(),
        }
    }

    /// Variance of the noise of every round, a coordinate: 2b² or σ².
    pub fn variances(&self) -> Vec<f64> {
        match self {
            Self::Laplace { scales } => scales.iter().map(|scale| 2.0 * scale * scale).collect(),
            Self::Gaussian { standard_deviations } => standard_deviations.iter().map(|sigma| sigma * sigma).collect(),
        }
    }

    /// The same noise, `factor` times as large.
    fn scaled(&self, factor: f64) -> Self {
        let scale = |levels: &[f64]| levels.iter().map(|level| level * factor).collect();
        match self {
            Self::Laplace { scales } => Self::Laplace { scales: scale(scales) },
            Self::Gaussian { standard_deviations } => {
                Self::Gaussian { standard_deviations: scale(standard_deviations) }
            }
        }
    }
}

/// The law and the level of one round: its scale b or standard deviation σ.
#[derive(Clone, Copy)]
pub(super) enum Level {
    Laplace(f64),
    Gaussian(f64),
}

impl Level {
    pub(super) fn in_units(self, unit: f64) -> Result<f64> {
        let (Self::Laplace(level) | Self::Gaussian(level)) = self;
        in_units(level, unit, 1.0, MOST_OF_SUMS)
    }

    /// Adds fresh noise, from the stream (key, noise, round); W is the real variable of this law.
    pub(super) fn add(
        self,
        key: &StreamKey,
        round: u64,
        sum: &mut [f64],
        unit: Option<f64>,
        engine: &Engine,
    ) -> Result<()> {
        let (Self::Laplace(level) | Self::Gaussian(level)) = self;
        if let Some(unit) = unit {
            let scale = self.in_units(unit)?;
            add_rounded(sum, engine, &|block, noise| match self {
                Self::Laplace(_) => fill_rounded_laplace(key, NOISE, round, block, scale, noise),
                Self::Gaussian(_) => fill_rounded_gaussian(key, NOISE, round, block, scale, noise),
            });
        } else {
            engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
                let block = (offset / BLOCK_COORDINATES) as u64;
                match self {
                    Self::Laplace(_) => add_laplace_blocks(key, NOISE, round, block, level, part),
                    Self::Gaussian(_) => add_gaussian_blocks(key, NOISE, round, block, level, part),
                }
            });
        }
        Ok(())
    }
}

/// Fresh noise for every round as a run states it, without the key that it is drawn from.
#[derive(Clone, Debug)]
pub struct NoiseSchedule {
    pub(super) levels: NoiseLevels,
    pub(super) clip: Clip,
    pub(super) mechanism: Mechanism,
    pub(super) statement: PrivacyStatement,
}

impl NoiseSchedule {
    /// The law and the level of every round.
    pub fn levels(&self) -> &NoiseLevels {
        &self.levels
    }

    /// The released mechanism.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// The guarantee.
    pub fn statement(&self) -> &PrivacyStatement {
        &self.statement
    }

    /// Noise `factor` times as large, for studies of what other noise does; its guarantee is withdrawn. The mechanism describes
    /// the noise that is then drawn.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            levels: self.levels.scaled(factor),
            // Noise times a factor and sensitivity divided by it are the same mechanism.
            mechanism: self.mechanism.with_inflated_sensitivity(1.0 / factor),
            statement: self.statement.revoked(format!("the noise was multiplied by {factor}")),
            ..self
        }
    }
}

/// Fresh noise of the scheduled level for each round, from the stream (key, noise, round).
pub(super) struct ScheduledNoise {
    key: StreamKey,
    levels: NoiseLevels,
    progress: Progress,
}

impl ScheduledNoise {
    /// Noise of these levels.
    pub(super) fn new(key: StreamKey, levels: NoiseLevels) -> Self {
        let progress = Progress::new(levels.rounds() as u64);
        Self { key, levels, progress }
    }

    fn level(&self, round: usize) -> Level {
        match &self.levels {
            NoiseLevels::Laplace { scales } => Level::Laplace(scales[round]),
            NoiseLevels::Gaussian { standard_deviations } => Level::Gaussian(standard_deviations[round]),
        }
    }
}

impl NoiseMechanism for ScheduledNoise {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        self.progress.take(round)?;
        self.level(round as usize).add(&self.key, round, sum, unit, engine)
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        (0..self.levels.rounds()).try_for_each(|round| self.level(round).in_units(unit).map(drop))
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_the_moments_of_its_level() {
        let laplace = NoiseLevels::Laplace { scales: vec![1.0, 0.25] };
        let gaussian = NoiseLevels::Gaussian { standard_deviations: vec![1.0, 0.25] };
        for (levels, absolute) in [(laplace, 1.0), (gaussian, (2.0 / std::f64::consts::PI).sqrt())] {
            let variances = levels.variances();
            let mut noise = ScheduledNoise::new(StreamKey::Simulation(3), levels);
            for (round, level) in [1.0, 0.25].into_iter().enumerate() {
                let mut sum = vec![0.0; 200_000];
                noise.add_increment(round as u64, &mut sum, None, &Engine::Sequential).unwrap();
                // E|y| = b for Laplace(b): the moment that a scale taken for a standard deviation misses by √2. Standard
                // errors are below 1/√2e5 = 0.0022 of the level (variance: 0.005); five of them.
                let mean = sum.iter().map(|y| y.abs()).sum::<f64>() / 2e5;
                assert!((mean / level - absolute).abs() < 0.0112, "{mean}");
                let variance = sum.iter().map(|y| y * y).sum::<f64>() / 2e5;
                assert!((variance / variances[round] - 1.0).abs() < 0.025, "{variance}");
            }
        }
    }
}

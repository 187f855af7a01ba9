//! The smallest problem on which an algorithm's guarantee is put to the test, and copies of the algorithm that are broken
//! on purpose.
//!
//! **The canary** is one row with feature e_1 and a squared loss whose residual is [`RAW_GRADIENT`] throughout, so that its
//! gradient points along the first coordinate in every participation and is clipped to the clip norm; a skipped clip
//! shows tenfold. All other rows are 0, and so are their gradients: the other coordinates see the run's noise and
//! nothing else. The canary is the first row, which takes part first and as often as any.
//!
//! **On rows of bytes** ([`CanaryRows::Bytes`]) the canary is a byte of 255 among 64, with two classes: what the integer
//! tiles of a release take. The residual of a softmax with two classes is a multiple of (1, −1), so that the clipped
//! gradient is C·(1, −1)/√2 ⊗ e_1 whatever the model is, as long as it is clipped; steps are so small that the margins, and
//! the gradient with them, hardly move. The audit reads the iterates along (1, −1)/√2.
//!
//! **A sabotaged copy** is the unmodified algorithm with settings, or on data, that its claim does not cover: half the
//! noise; a clip norm above every gradient with the same noise; the example standing twice in the data, so that one of
//! its participations is missing in the sensitivity. No switch in the algorithms weakens their guarantee.

use std::sync::Arc;

use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

use crate::catalog::Algorithm;
use crate::optimizers::{Budget, SamplingKind, Settings, SettingsError};
use crate::privacy::{Accountant, Adjacency, gaussian};
use crate::problem::{Dataset, Features, Labels, Problem};

/// Norm of the canary's gradient before clipping, in units of the clip norm.
pub const RAW_GRADIENT: f64 = 10.0;
/// A clip norm that clips nothing, in units of the longest gradient: not more, since accountants of subsampled noise take
/// long for multipliers that are very small.
const NO_CLIP: f64 = 1.2;
/// Coordinates: the canary's, and those that show the noise alone.
pub(super) const COLUMNS: usize = 8;
/// μ of the claims of Gaussian mechanisms: far from 0, and within reach of counts of a few thousand.
const CLAIMED_MU: f64 = 2.0;

/// The learning rate of audits on rows of bytes: margins of rows that are a few dozen long stay far below 1.
const BYTES_LEARNING_RATE: f64 = 1e-4;
/// Bytes of a row: a tile is as wide.
const BYTES: usize = 64;

/// In what format the canary stands in the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanaryRows {
    /// Rows of f32, a squared loss.
    #[default]
    F32,
    /// Rows of bytes and two classes, summed as releases are: on processors with integer tiles, by these.
    Bytes,
}

impl CanaryRows {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bytes => "bytes",
        }
    }

    /// One iterate's coordinate for each of [`COLUMNS`]: the canary's first.
    pub(super) fn coordinates(self, iterate: &[f32]) -> impl Iterator<Item = f32> {
        (0..COLUMNS).map(move |column| match self {
            Self::F32 => iterate[column],
            Self::Bytes => std::f32::consts::FRAC_1_SQRT_2 * (iterate[column] - iterate[BYTES + column]),
        })
    }
}

impl std::str::FromStr for CanaryRows {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        match name {
            "f32" => Ok(Self::F32),
            "bytes" => Ok(Self::Bytes),
            _ => Err(SettingsError::UnknownName {
                flag: "--rows",
                value: name.to_owned(),
                known: "f32 or bytes",
            }),
        }
    }
}

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The noise is half of what is claimed.
    HalvedNoise,
    /// Gradients are not clipped.
    SkippedClip,
    /// The sensitivity counts one participation less than there is.
    IgnoredParticipation,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::HalvedNoise, Self::SkippedClip, Self::IgnoredParticipation];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::HalvedNoise => "halved-noise",
            Self::SkippedClip => "skipped-clip",
            Self::IgnoredParticipation => "ignored-participation",
        }
    }
}

impl std::str::FromStr for Sabotage {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        Self::ALL
            .into_iter()
            .find(|sabotage| sabotage.name() == name)
            .ok_or_else(|| SettingsError::UnknownName {
                flag: "--sabotage",
                value: name.to_owned(),
                known: "halved-noise, skipped-clip or ignored-participation",
            })
    }
}

/// Data sizes and settings of one algorithm's audit.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    rows: usize,
    batch_size: Option<usize>,
    rounds: Option<u64>,
    epochs: Option<f64>,
    sampling: Option<SamplingKind>,
    parameters: Vec<(&'static str, &'static str)>,
    /// Own parameters in units of the clip norm.
    scaled: Vec<(&'static str, f64)>,
    /// ε of the claim; without one, the ε of [`CLAIMED_MU`].
    epsilon: Option<f64>,
    /// Norm of the canary's gradient before clipping: the longest one.
    raw: f64,
    /// Where the example stands again when a participation is ignored.
    second: usize,
    /// Rows there are then.
    rows_with_second: usize,
    /// Whether the method is told constants (a bound of rows, a smoothness, radii) that are those of the squared loss on the
    /// rows of f32.
    told_constants_of_f32: bool,
}

impl Scene {
    /// The scene of `algorithm`. Anything that is not named here reads fixed batches: k = 2 epochs of 4 rounds.
    pub(super) fn of(algorithm: &Algorithm) -> Self {
        let fixed = Self {
            rows: 8,
            batch_size: Some(2),
            rounds: Some(8),
            epochs: None,
            // A shuffled order is covered by the same claim, and hides the canary's place.
            sampling: Some(SamplingKind::Fixed),
            parameters: Vec::new(),
            scaled: Vec::new(),
            epsilon: None,
            raw: RAW_GRADIENT,
            // One epoch of 16 rows in place of two of 8: the claim counts one participation, and the example has two.
            second: 8,
            rows_with_second: 16,
            told_constants_of_f32: false,
        };
        match algorithm.id {
            "dp-sgd" => Self {
                rows: 16,
                batch_size: Some(8),
                rounds: Some(4),
                sampling: Some(SamplingKind::Poisson),
                epsilon: Some(4.0),
                second: 1,
                rows_with_second: 16,
                ..fixed
            },
            "accelerated-dp-srg" | "unaccelerated-dp-srg" | "accelerated-independent" => Self {
                rows: 16,
                second: 2,
                ..fixed
            },
            "phased-sgd" => Self {
                rows: 64,
                batch_size: Some(8),
                rounds: None,
                sampling: None,
                parameters: vec![("row-bound", "1")],
                second: 1,
                rows_with_second: 64,
                told_constants_of_f32: true,
                ..fixed
            },
            // All rows in every batch, one release a round, a ball as large as the domain: every other round is a step,
            // whose release is the iterate's move.
            "resque-private-erm" | "resque-private-sco" => Self {
                rows: 64,
                batch_size: Some(if algorithm.id == "resque-private-erm" { 64 } else { 32 }),
                rounds: None,
                epochs: Some(2.0),
                sampling: None,
                parameters: vec![("radius", "10"), ("inner", "1")],
                scaled: vec![("accuracy", 20.0)],
                // Margins are shifted by up to a few radii: the residual must not change its sign.
                raw: 10.0 * RAW_GRADIENT,
                second: 1,
                rows_with_second: 64,
                told_constants_of_f32: true,
                ..fixed
            },
            "dp-gd" | "dp-hb" | "dp-nag" | "dp-nag-opt" | "dp-masg" | "dp-masg-opt" => Self {
                rows: 4,
                batch_size: None,
                rounds: None,
                sampling: None,
                parameters: [
                    ("rounds", "2"),
                    ("smoothness", "1"),
                    ("strong-convexity", "0.25"),
                    ("first-stage", "1"),
                    ("initial-gap", "fixed"),
                ]
                .into_iter()
                .filter(|(key, _)| algorithm.parameters.iter().any(|(known, _)| known == key))
                .collect(),
                epsilon: Some(2.0),
                second: 1,
                rows_with_second: 4,
                told_constants_of_f32: true,
                ..fixed
            },
            _ => fixed,
        }
    }

    /// ε of the claim where none is asked for.
    pub(super) fn epsilon(&self, delta: f64) -> f64 {
        self.epsilon
            .or_else(|| gaussian::epsilon(delta, CLAIMED_MU).ok())
            .unwrap_or(1.0)
    }

    /// Whether the audit can be made on such rows.
    pub(super) fn takes(&self, rows: CanaryRows) -> bool {
        rows == CanaryRows::F32 || !self.told_constants_of_f32
    }

    /// The settings with this budget, the clip norm `clip` times 1.
    fn settings(&self, budget: Budget, clip: f64, accountant: Option<Accountant>, rows: CanaryRows) -> Settings {
        let mut settings = Settings {
            learning_rate: (rows == CanaryRows::Bytes).then_some(BYTES_LEARNING_RATE),
            epochs: self.epochs,
            rounds: self.rounds,
            batch_size: self.batch_size,
            clip_norm: Some(clip),
            sampling: self.sampling,
            accountant,
            ..Settings::new(budget, StreamKey::Simulation(0))
        };
        for &(key, value) in &self.parameters {
            settings.parameters.insert(key.to_owned(), value.to_owned());
        }
        for &(key, value) in &self.scaled {
            settings.parameters.insert(key.to_owned(), (value * clip).to_string());
        }
        settings
    }

    /// The settings that are claimed.
    pub(super) fn claimed(&self, epsilon: f64, delta: f64, rows: CanaryRows) -> Settings {
        let budget = Budget::Target { epsilon, delta };
        self.settings(budget, 1.0, None, rows)
    }

    /// The settings that are run: those of the claim, its noise given as what it came to, unless sabotage changes them.
    /// `noise_multiplier` is the claim's, where there is one.
    pub(super) fn run(
        &self,
        sabotage: Option<Sabotage>,
        noise_multiplier: Option<f64>,
        epsilon: f64,
        delta: f64,
        accountant: Option<Accountant>,
        rows: CanaryRows,
    ) -> Settings {
        let (share, clip) = match sabotage {
            Some(Sabotage::HalvedNoise) => (0.5, 1.0),
            // The same noise: multiplier times clip norm.
            Some(Sabotage::SkippedClip) => (1.0 / (NO_CLIP * self.raw), NO_CLIP * self.raw),
            None | Some(Sabotage::IgnoredParticipation) => (1.0, 1.0),
        };
        let budget = match noise_multiplier {
            Some(noise_multiplier) => Budget::NoiseMultiplier {
                noise_multiplier: noise_multiplier * share,
                delta,
            },
            // Scales of Laplace noise are sensitivity over ε.
            None => Budget::Target {
                epsilon: epsilon / share,
                delta,
            },
        };
        self.settings(budget, clip, accountant, rows)
    }

    /// The problems without and with the canary, for this relation.
    pub(super) fn problems(
        &self,
        adjacency: Adjacency,
        sabotage: Option<Sabotage>,
        format: CanaryRows,
    ) -> [Problem; 2] {
        let twice = sabotage == Some(Sabotage::IgnoredParticipation);
        let rows = if twice { self.rows_with_second } else { self.rows };
        let places: &[usize] = if twice { &[0, self.second] } else { &[0] };
        // Replaced: another example with the opposite gradient. Zeroed, added or removed: a row without a gradient.
        let absent = match adjacency {
            Adjacency::ReplaceOne => Some(self.raw as f32),
            Adjacency::ZeroOut | Adjacency::AddRemove => None,
        };
        if format == CanaryRows::Bytes {
            // Replaced: the same row of the other class.
            return [absent.map(|_| 0), Some(1)].map(|class| {
                let (mut bytes, mut classes) = (vec![0; rows * BYTES], vec![0; rows]);
                if let Some(class) = class {
                    for &row in places {
                        bytes[row * BYTES] = 255;
                        classes[row] = class;
                    }
                }
                // The residual (½, −½) is 1/√2 long, and makes a gradient of raw.
                let scale = std::f32::consts::SQRT_2 * self.raw as f32 / 255.0;
                let features = Features::bytes(&bytes, BYTES, scale);
                let labels = Labels::Classes {
                    values: classes,
                    classes: 2,
                    names: None,
                };
                let dataset = Dataset::new("canary", features, labels).expect("bytes and two classes");
                Problem::new(Arc::new(dataset), Loss::Softmax, false, 0.0).expect("classes for a softmax")
            });
        }
        [absent, Some(-self.raw as f32)].map(|target| {
            let (mut values, mut labels) = (vec![0.0; rows * COLUMNS], vec![0.0; rows]);
            if let Some(target) = target {
                for &row in places {
                    values[row * COLUMNS] = 1.0;
                    labels[row] = target;
                }
            }
            let features = Features::f32(values, COLUMNS);
            let dataset =
                Dataset::new("canary", features, Labels::Values(labels)).expect("finite features and targets");
            Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0).expect("real targets for a squared loss")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ALGORITHMS;
    use crate::oracle::{Engine, Oracle};
    use rounds_kernels::features::{Norm, Selection};
    use rounds_kernels::linear::Clip;

    #[test]
    fn the_claimed_clip_norm_clips_the_canary_and_that_of_a_skipped_clip_clips_nothing() {
        for algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.private) {
            let scene = Scene::of(algorithm);
            for rows in [CanaryRows::F32, CanaryRows::Bytes] {
                if !scene.takes(rows) {
                    continue;
                }
                let [_, present] = scene.problems(Adjacency::ZeroOut, None, rows);
                for (sabotage, expected) in [(None, 1.0), (Some(Sabotage::SkippedClip), scene.raw)] {
                    let settings = scene.run(sabotage, Some(1.0), 1.0, 1e-5, None, rows);
                    let clip = Clip::Bounded {
                        norm: Norm::L2,
                        clip_norm: settings.clip_norm.unwrap() as f32,
                    };
                    let mut oracle = Oracle::new(&present, Engine::Sequential);
                    let model = vec![0.0; present.parameters()];
                    let mut sum = vec![0.0; present.parameters()];
                    let batch = Selection::Range(0..present.rows());
                    oracle.gradient_sum(&batch, &model, clip, &mut sum).unwrap();
                    let clipped = oracle.ledger().clipped;
                    assert_eq!(
                        clipped,
                        u64::from(sabotage.is_none()),
                        "{} on {}",
                        algorithm.id,
                        rows.name()
                    );
                    let sum: Vec<f32> = sum.into_iter().map(|value| value as f32).collect();
                    let along = rows.coordinates(&sum).next().unwrap();
                    assert!(
                        (f64::from(along.abs()) - expected).abs() < 1e-5 * expected,
                        "{} on {}: {along}, not ±{expected}",
                        algorithm.id,
                        rows.name()
                    );
                }
            }
        }
    }
}

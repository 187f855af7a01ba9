//! Typed parameters of algorithms: the macro [`parameters!`] declares a struct whose fields carry their name, range, default
//! and description. Lists, help, checks and reading come from that one declaration.

use std::fmt::Display;

use rounds_kernels::linear::{MAXIMUM_CLIP_NORM, MINIMUM_CLIP_NORM};

pub use super::parameter_value::ParameterValue;
use super::schedule::LearningRateSchedule;
use super::settings::{Bits, SamplingKind, Settings, SettingsError};
use crate::noise::NoiseKind;
use crate::privacy::{Accountant, Adjacency};

/// The description of one parameter.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// The name, in the command line and in definitions.
    pub name: &'static str,
    /// The description, with the default where it is computed.
    pub about: &'static str,
    /// The allowed values.
    pub expected: &'static str,
    /// The default, where it is a constant.
    pub default: fn() -> Option<String>,
}

impl Parameter {
    /// Description, allowed values and default in one sentence.
    pub fn help(&self) -> String {
        let default = (self.default)().map_or_else(String::new, |default| format!(" [default: {default}]"));
        // A range that ends with a comma reads on in errors: "a number above 0, or fixed, is needed".
        format!("{}; {}{default}", self.about.trim(), self.expected.trim_end_matches(','))
    }
}

/// Allowed numbers.
pub struct Range {
    /// The range in words.
    pub expected: &'static str,
    /// The test.
    pub holds: fn(f64) -> bool,
}

impl Range {
    /// Any finite number.
    pub const FINITE: Self = Self::new("a finite number", f64::is_finite);
    /// (0, ∞).
    pub const POSITIVE: Self = Self::new("a finite number above 0", |value| value > 0.0 && value.is_finite());
    /// [0, ∞).
    pub const NOT_NEGATIVE: Self =
        Self::new("a finite number of at least 0", |value| value >= 0.0 && value.is_finite());
    /// [0, 1).
    pub const FRACTION: Self = Self::new("a number in [0, 1)", |value| (0.0..1.0).contains(&value));
    /// (0, 1].
    pub const SHARE: Self = Self::new("a number in (0, 1]", |value| value > 0.0 && value <= 1.0);
    /// The norms that the kernels clip to.
    pub const CLIPPABLE: Self = Self::new("a number in [2^-64, 2^64], about 5e-20 to 2e19,", |value| {
        (f64::from(MINIMUM_CLIP_NORM)..=f64::from(MAXIMUM_CLIP_NORM)).contains(&value)
    });
    /// Numbers of passes over the data that end.
    pub const EPOCHS: Self = Self::new("a number above 0 and at most 10^6", |value| value > 0.0 && value <= 1e6);
    /// Numbers of rounds that end.
    pub const ROUNDS: Self = Self::new("a whole number from 1 to 10^8", |value| (1.0..=1e8).contains(&value));
    /// Whole numbers of at least 1.
    pub const COUNT: Self = Self::new("a whole number of at least 1", |value| value >= 1.0);

    /// The numbers for which `holds` is true.
    pub const fn new(expected: &'static str, holds: fn(f64) -> bool) -> Self {
        Self { expected, holds }
    }

    /// `value` if it lies in the range.
    ///
    /// # Errors
    /// Names the parameter otherwise.
    pub fn check(&self, parameter: &'static str, value: f64) -> Result<f64, SettingsError> {
        if (self.holds)(value) {
            return Ok(value);
        }
        Err(SettingsError::out_of_range(parameter, value, self.expected))
    }
}

impl Settings {
    /// The value of one parameter, or its default.
    pub(super) fn read<T: ParameterValue>(
        &self,
        parameter: &Parameter,
        holds: fn(f64) -> bool,
        default: T,
    ) -> Result<T, SettingsError> {
        let Some(text) = self.parameters.get(parameter.name) else {
            return Ok(default);
        };
        T::parsed(text)
            .filter(|value| value.number().is_none_or(holds))
            .ok_or_else(|| SettingsError::out_of_range(parameter.name, text, parameter.expected))
    }

    /// The same settings with one parameter set.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: impl Display) -> Self {
        self.set(parameter, value);
        self
    }

    /// Sets a parameter.
    pub fn set(&mut self, parameter: &str, value: impl Display) {
        self.parameters.insert(parameter.to_owned(), value.to_string());
    }

    /// The same settings with a parameter as its default.
    #[must_use]
    pub fn without(mut self, parameter: &str) -> Self {
        self.parameters.remove(parameter);
        self
    }
}

/// Parameters that are read from the texts of settings.
pub(crate) trait Parameters: Sized + 'static {
    /// The descriptions, by groups.
    fn groups() -> Vec<&'static [Parameter]>;

    /// Reads the values.
    ///
    /// # Errors
    /// The first value out of its range.
    fn read(settings: &Settings) -> Result<Self, SettingsError>;
}

impl Parameters for () {
    fn groups() -> Vec<&'static [Parameter]> {
        Vec::new()
    }

    fn read(_: &Settings) -> Result<Self, SettingsError> {
        Ok(())
    }
}

impl<A: Parameters, B: Parameters> Parameters for (A, B) {
    fn groups() -> Vec<&'static [Parameter]> {
        [A::groups(), B::groups()].concat()
    }

    fn read(settings: &Settings) -> Result<Self, SettingsError> {
        Ok((A::read(settings)?, B::read(settings)?))
    }
}

/// The name of a field as it is written by people: underscores are hyphens.
pub(super) const fn hyphenated<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let (mut name, mut index) = ([0; LENGTH], 0);
    while index < LENGTH {
        let byte = field.as_bytes()[index];
        name[index] = if byte == b'_' { b'-' } else { byte };
        index += 1;
    }
    name
}

/// Declares a struct of parameters: `/// description`, then `field: Type [range] = default`. Range and default may be left
/// out; an `Option` without a default is `None`. The struct is `Copy`, but for `struct Name: Clone`, whose values hold lists.
macro_rules! parameters {
    (@copy $name:ident) => {
        impl Copy for $name {}
    };
    (@copy $name:ident Clone) => {};
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(: $clone:ident)? {
            $($(#[doc = $about:literal])+ $field:ident: $type:ty $([$range:expr])? $(= $default:expr)?),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $name {
            $($(#[doc = $about])+ $visibility $field: $type),+
        }

        $crate::optimizers::parameters::parameters!(@copy $name $($clone)?);

        #[allow(dead_code)]
        impl $name {
            /// The descriptions of all fields.
            $visibility const ALL: &'static [$crate::optimizers::parameters::Parameter] = &[$(Self::$field()),+];

            $(
                /// The description of the field of this name.
                $visibility const fn $field() -> $crate::optimizers::parameters::Parameter {
                    const LENGTH: usize = stringify!($field).len();
                    const NAME: [u8; LENGTH] = $crate::optimizers::parameters::hyphenated(stringify!($field));
                    const TEXT: &str = match std::str::from_utf8(&NAME) {
                        Ok(name) => name,
                        Err(_) => panic!("names are ASCII"),
                    };
                    $crate::optimizers::parameters::Parameter {
                        name: TEXT,
                        about: concat!($($about),+),
                        expected: $crate::optimizers::parameters::expected!($type $(, $range)?),
                        default: || $crate::optimizers::parameters::ParameterValue::text(&Self::default().$field),
                    }
                }
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::optimizers::parameters::default!($($default)?)),+ }
            }
        }

        impl $crate::optimizers::parameters::Parameters for $name {
            fn groups() -> Vec<&'static [$crate::optimizers::parameters::Parameter]> {
                vec![Self::ALL]
            }

            fn read(
                settings: &$crate::optimizers::settings::Settings,
            ) -> Result<Self, $crate::optimizers::settings::SettingsError> {
                let default = Self::default();
                Ok(Self {
                    $($field: settings.read(
                        &Self::$field(),
                        $crate::optimizers::parameters::holds!($($range)?),
                        default.$field,
                    )?),+
                })
            }
        }
    };
}

/// A default, or that of the type.
macro_rules! default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

/// The allowed values in words: those of the range, or of the type.
macro_rules! expected {
    ($type:ty) => {
        <$type as $crate::optimizers::parameters::ParameterValue>::EXPECTED
    };
    ($type:ty, $range:expr) => {
        $range.expected
    };
}

/// The test of a range; none always holds.
macro_rules! holds {
    () => {
        |_| true
    };
    ($range:expr) => {
        $range.holds
    };
}

pub(super) use {default, expected, holds, parameters};

parameters! {
    /// Parameters that many algorithms share. The catalogue's entry of an algorithm lists those that it reads.
    pub struct Common: Clone {
        /// Passes over the data (expected ones for Poisson sampling)
        epochs: Option<f64> [Range::EPOCHS],
        /// Number of rounds, instead of passes over the data
        rounds: Option<usize> [Range::ROUNDS],
        /// Batch size B (expected size for Poisson sampling)
        batch_size: Option<usize> [Range::COUNT],
        /// Sampling scheme of the batches
        sampling: Option<SamplingKind>,
        /// Step size
        learning_rate: Option<f64> [Range::POSITIVE],
        /// Step sizes over the rounds, as factors of the learning rate: linear ends at 0, cooldown falls to 0 over the last quarter (default: constant; linear where dp-sgd chooses the step size for classes)
        learning_rate_schedule: Option<LearningRateSchedule>,
        /// Momentum β
        momentum: Option<f64> [Range::FRACTION],
        /// Seed of a network's initial weights, which are public (default: that of the run; of a release 0)
        initialization: Option<usize>,
        /// Clip norm C of per-example gradients
        clip_norm: Option<f64> [Range::CLIPPABLE],
        /// Neighbouring relation of the guarantee (default: that of the domain)
        adjacency: Option<Adjacency>,
        /// Accountant (default: the best for the mechanism)
        accountant: Option<Accountant>,
        /// Noise mechanism
        noise: Option<NoiseKind>,
        /// Bits of weights and row coefficients in integer sums (default: 16 with noise, a bias, 2 to 16 outputs, 64 or more features and short rows; else 24)
        precision: Option<Bits>,
    }
}

/// Parameters of mini-batches.
pub(super) const BATCHES: &[Parameter] =
    &[Common::epochs(), Common::rounds(), Common::batch_size(), Common::sampling()];
/// Parameters of steps with momentum.
pub(super) const STEPS: &[Parameter] =
    &[Common::learning_rate(), Common::learning_rate_schedule(), Common::momentum(), Common::initialization()];
/// Parameters of a guarantee.
pub(super) const PRIVACY: &[Parameter] = &[Common::clip_norm(), Common::adjacency(), Common::accountant()];
/// Shorter integers, whose rounding is far below the noise.
pub(super) const PRECISION: &[Parameter] = &[Common::precision()];
/// A choice of noise, one of those `listed`. The plan of the algorithm refuses others, and names algorithms that take them.
const fn noise(listed: &'static str) -> Parameter {
    Parameter { expected: listed, ..Common::noise() }
}

/// The choice of correlated or independent Gaussian noise: every mechanism but the last, Laplace.
pub(super) const NOISE: &[Parameter] =
    &[noise(NoiseKind::NAMES.split_at(NoiseKind::NAMES.len() - ", laplace".len()).0)];
/// A fresh Gaussian a round, or that of a square C on cyclic batches.
pub(super) const BANDED_NOISE: &[Parameter] = &[noise("independent, banded=b, optimal, toeplitz, fourier, blt=m")];
/// A fresh Gaussian a round.
pub(super) const INDEPENDENT_NOISE: &[Parameter] = &[noise("independent")];
/// Laplace or Gaussian noise, fresh in each round.
pub(super) const LAPLACE_NOISE: &[Parameter] = &[noise("laplace, independent")];

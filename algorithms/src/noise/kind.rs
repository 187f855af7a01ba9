//! The registry of noise mechanisms.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::factorized::StrategyMemory;
use super::plan::{NoisePlan, NoisePlanError, PlannedNoise};
use super::{anti_correlated, factorized, honaker, independent, tree};
use crate::factorization::{Method, TreeVariant};

/// Declares the noise mechanisms: an entry holds the description, the variant with its parameter and an example of it, the
/// name, and the function that prepares C and its stream for a plan.
macro_rules! registry {
    ($(#[doc = $about:literal] $kind:ident $(($parameter:ident = $example:literal))? $name:literal => $prepare:expr;)*) => {
        /// A noise mechanism, read from and written as `name` or `name=parameter`.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum NoiseKind {
            $(#[doc = $about] $kind $((registry!(@count $parameter)))?,)*
        }

        impl NoiseKind {
            /// Every mechanism, those with a parameter at an example of it.
            pub const ALL: &'static [Self] = &[$(Self::$kind $(($example))?,)*];

            /// The names of all mechanisms, with their parameters, separated by commas.
            pub const NAMES: &'static str = {
                let names = concat!($($name $(, "=", stringify!($parameter))?, ", "),*);
                names.split_at(names.len() - 2).0
            };

            /// One line on the mechanism.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => $about.trim_ascii_start(),)*
                }
            }

            /// The name, and the parameter where there is one.
            fn parts(self) -> (&'static str, Option<usize>) {
                match self {
                    $(Self::$kind $(($parameter))? => ($name, registry!(@option $($parameter)?)),)*
                }
            }

            fn of(name: &str, parameter: Option<usize>) -> Option<Self> {
                match (name, parameter) {
                    $(($name, registry!(@pattern $($parameter)?)) => Some(Self::$kind $(($parameter))?),)*
                    _ => None,
                }
            }

            /// C with its sensitivity and its stream for a plan; a factorisation is computed or out of `memory`.
            ///
            /// # Errors
            /// A workload or participation that the factorisation refuses.
            pub fn prepare(self, plan: &NoisePlan, memory: &StrategyMemory) -> Result<PlannedNoise, NoisePlanError> {
                match self {
                    $(Self::$kind $(($parameter))? => $prepare(plan, memory $(, $parameter)?),)*
                }
            }
        }
    };
    (@count $parameter:ident) => { usize };
    (@option $parameter:ident) => { Some($parameter) };
    (@option) => { None };
    (@pattern $parameter:ident) => { Some($parameter @ 1..) };
    (@pattern) => { None };
}

registry! {
    /// A fresh Gaussian a round.
    Independent "independent" => |plan, _| Ok(independent::planned(plan));
    /// Binary tree.
    Tree "tree" => |plan, _| Ok(tree::planned(plan));
    /// Tree with the online Honaker estimator.
    HonakerOnline "honaker-online" => |plan, _| Ok(honaker::planned(plan));
    /// Tree with the full Honaker estimator.
    HonakerFull "honaker-full" => |plan, memory| factorized::prepare(plan, memory, Method::Tree(TreeVariant::HonakerFull));
    /// The optimal dense factorisation.
    Optimal "optimal" => |plan, memory| factorized::prepare(plan, memory, Method::Optimal);
    /// Banded factorisation with b bands.
    Banded(bands = 32) "banded" => |plan, memory, bands| factorized::prepare(plan, memory, Method::Banded { bands });
    /// Buffered linear Toeplitz factorisation with m buffers.
    Blt(buffers = 3) "blt" => |plan, memory, buffers| factorized::prepare(plan, memory, Method::Blt { buffers });
    /// The square root of the Toeplitz workload.
    Toeplitz "toeplitz" => |plan, memory| factorized::prepare(plan, memory, Method::Toeplitz);
    /// DP-Fourier: the transform of the Toeplitz workload on a circle of 2T rounds.
    Fourier "fourier" => |plan, memory| factorized::prepare(plan, memory, Method::Fourier);
    /// Differences of fresh Gaussians, C = S.
    AntiCorrelated "anti-correlated" => |plan, _| Ok(anti_correlated::planned(plan));
    /// Laplace noise with a scale a round, accounted for by the accelerated methods.
    Laplace "laplace" => |_, _| Err(NoisePlanError::Laplace);
}

impl NoiseKind {
    /// Bands of its C over so many rounds, the main diagonal included.
    pub(crate) fn bands(self, rounds: usize) -> usize {
        match self {
            Self::Independent => 1,
            Self::Banded(bands) => bands.min(rounds),
            _ => rounds,
        }
    }
}

impl Display for NoiseKind {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (name, None) => formatter.write_str(name),
            (name, Some(parameter)) => write!(formatter, "{name}={parameter}"),
        }
    }
}

impl fmt::Debug for NoiseKind {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

/// A text that is no noise mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("noise mechanism '{0}' is not known: it is one of {known}", known = NoiseKind::names())]
pub struct UnknownNoise(String);

impl NoiseKind {
    /// The names of all mechanisms, parametrised ones with an example, separated by commas.
    ///
    /// ```
    /// use rounds_algorithms::noise::NoiseKind;
    ///
    /// assert_eq!("banded=8".parse(), Ok(NoiseKind::Banded(8)));
    /// assert!(NoiseKind::names().starts_with("independent, tree"));
    /// ```
    pub fn names() -> String {
        Self::ALL.iter().map(Self::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for NoiseKind {
    type Err = UnknownNoise;

    fn from_str(text: &str) -> Result<Self, UnknownNoise> {
        match text.split_once('=') {
            None => Self::of(text, None),
            Some((name, parameter)) => parameter.parse().ok().and_then(|parameter| Self::of(name, Some(parameter))),
        }
        .ok_or_else(|| UnknownNoise(text.to_owned()))
    }
}

//! Noise mechanisms: streams that yield the noise of round t for a p-vector. A mechanism is a file here and an entry of
//! the registry below.
//!
//! Every mechanism adds row t of `C⁻¹Z` of a factorisation `A = B·C` to the sum of round t, scaled by σ, the standard
//! deviation of Z's entries; the noise of the t-th prefix is the sum of the first t rows, row t of `S·C⁻¹·Z`. Streams
//! are addressed, so a restarted run replays the same noise: two different draws released for one gradient would break
//! the guarantee.
//!
//! **Privacy** ([001 §2.1], Denisov et al. 2022): releasing `C·G + Z` for clipped G is one Gaussian mechanism, also when
//! G is chosen adaptively, since C is lower triangular; `G + C⁻¹Z` is post-processing of it. μ = sens(C)·Δ/σ, where one
//! example changes the rows of G in which it takes part by at most Δ each. Every mechanism here names its C.
//!
//! **Rounding.** In units γ of a lattice the sum is an integer S, and what is added is `⌊W + ½⌋`, W the real noise in these units,
//! a function of the ideal normals that the key addresses. `S + ⌊W + ½⌋ = ⌊S + W + ½⌋` is post-processing of the continuous
//! mechanism's output, so that every guarantee of it holds as it stands. W is that of the real matrix which the stored
//! coefficients define, and of the f64 above σ/γ; each file says why sens(C) is that of this matrix. Without a lattice
//! the noise is idealised: W in f32 for simulations, in f64 for a release key.
//!
//! | stream | C | fresh normals a round | vectors kept |
//! | --- | --- | --- | --- |
//! | `IndependentGaussian` | I | 1 | 0 |
//! | `AntiCorrelated` | S (prefix sums), so that B = I | 2 | 0 |
//! | `Tree` | the binary tree of nodes | < 2 | 0 |
//! | `HonakerTree` | the full tree, online estimator | 2 | log₂T + 1 |
//! | `Banded` | b bands | 1 | b − 1 |
//! | `BufferedToeplitz` | Toeplitz, m exponentials | 1 | m |
//! | `Dense` | any lower triangular | about 1 + T/(2·block) | one block of rounds |

mod anti_correlated;
mod banded;
mod buffered_toeplitz;
mod dense;
mod factorized;
mod honaker;
mod independent;
pub(crate) mod lattice;
mod plan;
mod recursion;
mod scalar;
mod scheduled;
mod tree;

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

pub use factorized::StrategyMemory;
pub use independent::IndependentGaussian;
use lattice::{MOST_OF_SUMS, add_rounded, in_units};
pub use plan::{NoisePlan, NoisePlanError, PlannedNoise};
use rounds_kernels::random::exact::{Term, fill_rounded_combination};
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey, add_gaussian_blocks};
pub use scheduled::{NoiseLevels, ScheduledNoise};

use crate::factorization::{Method, TreeVariant};
use crate::parallel::Engine;
use crate::state::StateVisitor;

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

            /// C and its stream for a plan of this kind.
            fn prepare(self, plan: &NoisePlan, memory: &StrategyMemory) -> Result<PlannedNoise, NoisePlanError> {
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
    /// Differences of fresh Gaussians, C = S.
    AntiCorrelated "anti-correlated" => |plan, _| Ok(anti_correlated::planned(plan));
    /// Laplace noise with a scale a round, accounted for by the accelerated methods.
    Laplace "laplace" => |_, _| Err(NoisePlanError::Laplace);
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

/// Streams of the noise of optimisers.
pub const NOISE: Purpose = Purpose(0x4e4f_4953);

/// Coordinates whose noise one task makes: whole blocks of the streams, enough to be worth a fork.
const PARALLEL_CHUNK: usize = 4 * BLOCK_COORDINATES;

/// Streams of the inner nodes of trees, by level.
const TREE_LEVELS: u32 = 0x5452_0000;

/// A round out of order or past the end.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// Rounds must be taken one after the other.
    #[error("noise of round {asked} is requested, and round {next} is next: rounds are taken in order, each once")]
    OutOfOrder {
        /// Requested round.
        asked: u64,
        /// Next round.
        next: u64,
    },
    /// The mechanism was made for fewer rounds.
    #[error("the noise mechanism was made for {rounds} rounds and is used up: plan for more rounds")]
    Exhausted {
        /// Number of rounds.
        rounds: u64,
    },
    /// The lattice is too fine for noise of this size.
    #[error(
        "the noise is too large for exact rounding to multiples of {unit:e}: choose a lattice at least {coarser:.1} times \
        as coarse (rows of fewer bits or residuals of fewer digits)"
    )]
    TooFine {
        /// Step γ of the lattice.
        unit: f64,
        /// Factor by which it is too fine.
        coarser: f64,
    },
}

type Result<T, E = NoiseError> = std::result::Result<T, E>;

/// A stream of correlated noise.
pub trait NoiseMechanism: Send {
    /// `sum += σ·(C⁻¹Z)_round`, the noise of this round's release; rounds are 0-based and taken in order. The same bits
    /// for any engine.
    ///
    /// With `unit` γ, `sum` holds integers, the sum in units of γ, and what is added is `⌊W/γ + ½⌋`, W the real number
    /// above, exactly; its time depends on the noise. A run gives a unit in every round or in none.
    ///
    /// # Errors
    /// A round out of order, or past the last round that the mechanism was made for; noise too large for the lattice.
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()>;

    /// Vectors of length p that the mechanism keeps.
    fn resident_vectors(&self) -> usize {
        0
    }

    /// Visits the state of a checkpoint.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

/// Noise whose rounds are sums of draws addressed by numbers, ±σ·z: nothing is kept, and draws are made again where later
/// rounds need them. The coefficients are integers, so W is their real sum times σ.
struct Addressed<D> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    /// Names the draws of a round: address and sign.
    draws: D,
    /// Draws of a round, at most.
    most: u32,
    /// The draws of the round at hand.
    terms: Vec<Term>,
}

impl<D: Fn(u64, &mut dyn FnMut(u64, f64))> Addressed<D> {
    fn new(key: StreamKey, standard_deviation: f64, rounds: u64, most: u32, draws: D) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rounds),
            draws,
            most,
            terms: Vec::with_capacity(most as usize),
        }
    }
}

impl<D: Fn(u64, &mut dyn FnMut(u64, f64)) + Send> NoiseMechanism for Addressed<D> {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        self.progress.take(round)?;
        let (key, terms) = (&self.key, &mut self.terms);
        terms.clear();
        (self.draws)(round, &mut |round, coefficient| {
            terms.push(Term { purpose: NOISE, round, coefficient });
        });
        let scale = match unit {
            None => self.standard_deviation,
            Some(unit) => in_units(self.standard_deviation, unit, self.most.into(), MOST_OF_SUMS)?,
        };
        terms.iter_mut().for_each(|term| term.coefficient *= scale);
        let terms = &*terms;
        if unit.is_some() {
            add_rounded(sum, engine, &|block, noise| {
                fill_rounded_combination(key, terms, block, noise);
            });
        } else {
            engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
                let block = (offset / BLOCK_COORDINATES) as u64;
                for term in terms {
                    add_gaussian_blocks(key, NOISE, term.round, block, term.coefficient, part);
                }
            });
        }
        Ok(())
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

/// The next round and the number of rounds, which every mechanism checks before it draws.
#[derive(Clone, Copy, Debug)]
struct Progress {
    next: u64,
    rounds: u64,
}

impl Progress {
    /// `rounds` rounds, none taken.
    fn new(rounds: u64) -> Self {
        Self { next: 0, rounds }
    }

    /// Takes `round`.
    fn take(&mut self, round: u64) -> Result<()> {
        if round >= self.rounds {
            return Err(NoiseError::Exhausted { rounds: self.rounds });
        }
        if round != self.next {
            return Err(NoiseError::OutOfOrder { asked: round, next: self.next });
        }
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod exact_laws;
#[cfg(test)]
mod laws;

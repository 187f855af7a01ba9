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

mod addressed;
mod anti_correlated;
mod banded;
mod buffered_toeplitz;
mod dense;
mod factorized;
mod honaker;
mod independent;
mod kind;
pub(crate) mod lattice;
mod plan;
mod private;
mod recursion;
mod scalar;
mod scheduled;
mod stream;
mod tree;

pub use factorized::StrategyMemory;
pub use kind::{NoiseKind, UnknownNoise};
pub use plan::{NoisePlan, NoisePlanError, PlannedNoise};
pub(crate) use private::Calibration;
pub use private::PrivateNoise;
pub use scheduled::{NoiseLevels, NoiseSchedule};
pub use stream::{NOISE, NoiseError, NoiseMechanism, PARALLEL_CHUNK};

#[cfg(test)]
mod exact_laws_tests;
#[cfg(test)]
mod laws_tests;

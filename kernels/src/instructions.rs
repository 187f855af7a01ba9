//! The instruction sets of the kernels: products of integers on each of them, the one that this process uses, and its name.
//!
//! Kernels in floating point are compiled for one set: a limit does not lower them. The bits of their sums depend on it, so
//! results, checkpoints and ranks are compared by [`level`]; a kernel of another level that rounds otherwise has to change that
//! word. Products of integers have the same bits on all sets, and [`InstructionSet::fastest`] is chosen when the process runs.
//!
//! | file | contents |
//! | --- | --- |
//! | `set.rs` | the sets, their order and names |
//! | `products.rs` | products of bytes and digits on every set |
//! | `tiles.rs` | products on tiles (AMX) |

pub(crate) mod products;
mod set;
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
pub(crate) mod tiles;

use std::sync::OnceLock;

pub use set::{InstructionSet, UnknownInstructionSet};

/// The greatest set that this process may use: set once, at the latest when a kernel is first chosen.
static CEILING: OnceLock<InstructionSet> = OnceLock::new();

/// A limit that cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The processor or the build lacks the set.
    #[error("this processor or this build lacks {0}; the best set here is {best}", best = best_here())]
    Unavailable(InstructionSet),
    /// A limit was set before, or kernels were chosen without one.
    #[error("the instruction set is limited once, before any kernel is chosen")]
    TooLate,
}

/// Limits the products of integers of this process to `set`. No bits of a sum change. Kernels in floating point stay as they are
/// compiled, and what libraries compute (the factorisations of correlated noise) as they choose: both may round in other ways on
/// another processor.
///
/// # Errors
/// A set that is not available here; a call after the first kernel was chosen.
pub fn limit(set: InstructionSet) -> Result<(), LimitError> {
    if !set.is_available() {
        return Err(LimitError::Unavailable(set));
    }
    CEILING.set(set).map_err(|_| LimitError::TooLate)
}

impl InstructionSet {
    /// True if this processor, and for tiles this build, has it.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Scalar => true,
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            Self::Vnni => is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni"),
            Self::Amx => Self::Vnni.is_available() && products::tiles_agree(),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Scalar
        }
    }

    /// The sets that are available here, in their order.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|set| set.is_available())
    }

    /// The fastest set here that the limit allows.
    pub fn fastest() -> Self {
        let ceiling = *CEILING.get_or_init(|| Self::Amx);
        // A set above the limit is not even looked for: tiles are tried when they are.
        let allowed = Self::ALL.into_iter().rev().filter(|&set| set <= ceiling);
        allowed.into_iter().find(|set| set.is_available()).unwrap_or(Self::Scalar)
    }
}

/// The greatest set of this processor and build, whatever the limit.
fn best_here() -> InstructionSet {
    InstructionSet::available().last().unwrap_or(InstructionSet::Scalar)
}

/// True if rows of integers are summed as such on this processor. No limit changes it: with [`InstructionSet::Scalar`] plain Rust gives
/// the same integers.
pub fn has_integer_kernels() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| InstructionSet::available().any(|set| set != InstructionSet::Scalar))
}

/// The level of the kernels in this process: the [`vector_extension`], with `+amx` where they also use this processor's integer tiles, which are
/// looked for when the process runs.
pub fn level() -> &'static str {
    if InstructionSet::fastest() == InstructionSet::Amx { "avx512+amx" } else { vector_extension() }
}

/// The vector extension that `wide` picked when this build was compiled: `avx512`, `avx2`, `avx`, `sse4.2`, `sse2`, `neon` or `scalar`. It
/// decides the bits of sums in floating point; integer kernels decide none, whatever they use.
pub fn vector_extension() -> &'static str {
    let extensions = [
        (cfg!(target_feature = "avx512f"), "avx512"),
        (cfg!(all(target_feature = "avx2", target_feature = "fma")), "avx2"),
        (cfg!(target_feature = "avx"), "avx"),
        (cfg!(target_feature = "sse4.2"), "sse4.2"),
        (cfg!(target_feature = "sse2"), "sse2"),
        (cfg!(target_feature = "neon"), "neon"),
    ];
    extensions.into_iter().find(|&(has, _)| has).map_or("scalar", |(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_their_sets_in_ascending_order() {
        let names = ["scalar", "v3", "v4", "vnni", "amx"];
        assert!(InstructionSet::ALL.is_sorted());
        assert_eq!(InstructionSet::ALL.map(|set| set.to_string()), names);
        assert_eq!(names.map(|name| name.parse()), InstructionSet::ALL.map(Ok));
        let error = "avx2".parse::<InstructionSet>().unwrap_err().to_string();
        assert!(names.into_iter().all(|name| error.contains(name)), "{error}");
    }

    #[test]
    fn a_set_that_is_not_here_is_refused_and_a_limit_after_a_kernel_too() {
        InstructionSet::fastest();
        for set in InstructionSet::ALL {
            let expected = if set.is_available() { LimitError::TooLate } else { LimitError::Unavailable(set) };
            assert_eq!(limit(set), Err(expected));
            assert!(!expected.to_string().is_empty());
        }
    }
}

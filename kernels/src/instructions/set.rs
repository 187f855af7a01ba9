//! Sets of instructions by name and order.

use std::fmt;
use std::str::FromStr;

/// A set of instructions for products of integers. A later one has more than those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// `scalar`: plain Rust, the definition that the others are compared with.
    Scalar,
    /// `v3`, AVX2: pairs of 16-bit products.
    Avx2,
    /// `v4`, AVX-512 without VNNI. Integers are multiplied as on AVX2.
    Avx512,
    /// `vnni`, AVX-512 with VNNI: quads of 8-bit products.
    Vnni,
    /// `amx`: tiles of 16 × 16 sums of 64 products.
    Amx,
}

/// A name that no set has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no set of instructions: it is scalar, v3, v4, vnni or amx")]
pub struct UnknownInstructionSet(pub String);

impl InstructionSet {
    /// All sets, in their order.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Vnni, Self::Amx];

    const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "v3",
            Self::Avx512 => "v4",
            Self::Vnni => "vnni",
            Self::Amx => "amx",
        }
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for InstructionSet {
    type Err = UnknownInstructionSet;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|set| set.name() == name);
        known.ok_or_else(|| UnknownInstructionSet(name.to_owned()))
    }
}

//! Neighbouring relations: which two data sets the guarantee compares.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::PrivacyError;

/// When two data sets are neighbours. Part of every sensitivity, never implicit.
///
/// For a sum of per-example terms of norm at most c (the clip norm), one example's rounds change by at most
/// [`row_change_factor`](Self::row_change_factor)·c. Guarantees under different relations are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adjacency {
    /// One example's contribution is replaced by zero everywhere (papers 000, 001 and 004).
    ZeroOut,
    /// One example is added or removed.
    AddRemove,
    /// One example is replaced by another (papers 002 and 003).
    ReplaceOne,
}

impl Adjacency {
    /// The names, for messages and help texts.
    pub const NAMES: &str = "zero-out, add-remove, replace-one";

    /// ‖change of one example's clipped term‖ / clip norm: 1 for zero-out and add/remove, 2 for replace-one
    /// (specification 0.2: μ doubles, ρ quadruples).
    pub fn row_change_factor(self) -> f64 {
        match self {
            Self::ZeroOut | Self::AddRemove => 1.0,
            Self::ReplaceOne => 2.0,
        }
    }

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroOut => "zero-out",
            Self::AddRemove => "add-remove",
            Self::ReplaceOne => "replace-one",
        }
    }
}

impl fmt::Display for Adjacency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Adjacency {
    type Err = PrivacyError;

    fn from_str(name: &str) -> Result<Self, PrivacyError> {
        match name {
            "zero-out" => Ok(Self::ZeroOut),
            "add-remove" => Ok(Self::AddRemove),
            "replace-one" => Ok(Self::ReplaceOne),
            _ => Err(PrivacyError::UnknownName {
                kind: "adjacency",
                found: name.into(),
                expected: Self::NAMES,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_names_list_the_known_ones() {
        for adjacency in [Adjacency::ZeroOut, Adjacency::AddRemove, Adjacency::ReplaceOne] {
            assert_eq!(adjacency.name().parse::<Adjacency>().unwrap(), adjacency);
            assert_eq!(serde_json::to_string(&adjacency).unwrap(), format!("\"{adjacency}\""));
        }
        let message = "replace".parse::<Adjacency>().unwrap_err().to_string();
        assert!(
            message.contains("`replace`") && message.contains("replace-one"),
            "{message}"
        );
    }

    #[test]
    fn only_replace_one_doubles_the_row_change() {
        assert_eq!(Adjacency::ZeroOut.row_change_factor(), 1.0);
        assert_eq!(Adjacency::AddRemove.row_change_factor(), 1.0);
        assert_eq!(Adjacency::ReplaceOne.row_change_factor(), 2.0);
    }
}

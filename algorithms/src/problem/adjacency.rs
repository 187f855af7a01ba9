//! Neighbouring relations: which two data sets the guarantee compares.

use serde::{Deserialize, Serialize};

use crate::choices::choices;

choices! {
    /// The relation of neighbouring data sets. Part of every sensitivity, never implicit.
    ///
    /// For a sum of per-example terms of norm at most c (the clip norm), one example's rounds change by at most
    /// [`row_change_factor`](Self::row_change_factor)·c. Guarantees under different relations are not comparable.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Adjacency {
        /// One example's contribution is replaced by zero everywhere (papers 000, 001 and 004).
        ZeroOut = "zero-out",
        /// One example is added or removed.
        AddRemove = "add-remove",
        /// One example is replaced by another (papers 002 and 003).
        ReplaceOne = "replace-one",
    }
}

impl Adjacency {
    /// ‖change of one example's clipped term‖ / clip norm: 1 for zero-out and add/remove, 2 for replace-one
    /// (specification 0.2: μ doubles, ρ quadruples).
    ///
    /// ```
    /// use rounds_algorithms::privacy::Adjacency;
    ///
    /// assert_eq!(Adjacency::ZeroOut.row_change_factor(), 1.0);
    /// assert_eq!(Adjacency::ReplaceOne.row_change_factor(), 2.0);
    /// ```
    pub fn row_change_factor(self) -> f64 {
        match self {
            Self::ZeroOut | Self::AddRemove => 1.0,
            Self::ReplaceOne => 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json_and_only_replace_one_doubles_the_row_change() {
        for adjacency in Adjacency::ALL {
            assert_eq!(adjacency.name().parse(), Ok(*adjacency));
            assert_eq!(serde_json::to_string(adjacency).unwrap(), format!("\"{adjacency}\""));
        }
        let factors = Adjacency::ALL.iter().map(|adjacency| adjacency.row_change_factor());
        assert!(factors.eq([1.0, 1.0, 2.0]));
    }
}

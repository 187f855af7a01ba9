//! Details of rows in errors. They are not shown, unless nothing is claimed for the rows.

use std::fmt::{self, Debug, Display};

/// A run, or a reader of rows, that may claim something for them. A type that implements it decides who sees a [`Withheld`] text.
pub trait Claims {
    /// Something is claimed for the rows.
    fn claims(&self) -> bool;
}

/// A witness that nothing is claimed for the rows that an error is about. A release cannot have one.
pub struct NoClaim(());

impl NoClaim {
    /// The witness of a run that claims nothing.
    pub fn of(run: &impl Claims) -> Option<Self> {
        (!run.claims()).then_some(Self(()))
    }
}

/// A text about rows that no message of an error holds: it has no `Display`, and its `Debug` is fixed.
#[derive(Clone, PartialEq, Eq)]
pub struct Withheld(String);

impl Withheld {
    /// Withholds `text`.
    pub fn new(text: impl Display) -> Self {
        Self(text.to_string())
    }

    /// `text` before what is withheld.
    #[must_use]
    pub fn behind(&self, text: impl Display) -> Self {
        Self(format!("{text}{}", self.0))
    }

    /// The text, where nothing is claimed.
    pub fn shown(&self, _: &NoClaim) -> &str {
        &self.0
    }
}

impl Debug for Withheld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("withheld")
    }
}

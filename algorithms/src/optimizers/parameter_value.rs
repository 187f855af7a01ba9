//! Types of parameters: values of texts.

use crate::choices::Choice;
use crate::noise::NoiseKind;

/// A type of parameters.
pub trait ParameterValue: Sized {
    /// The allowed values where no range is declared.
    const EXPECTED: &'static str;

    /// The value of a text.
    fn parsed(text: &str) -> Option<Self>;

    /// The number that a range bounds.
    fn number(&self) -> Option<f64> {
        None
    }

    /// The text of the value, if there is one.
    fn text(&self) -> Option<String>;
}

impl Choice for NoiseKind {
    const NAMES: &'static str = Self::NAMES;
}

impl<T: Choice> ParameterValue for T {
    const EXPECTED: &'static str = T::NAMES;

    fn parsed(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl ParameterValue for f64 {
    const EXPECTED: &'static str = "a number";

    fn parsed(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn number(&self) -> Option<f64> {
        Some(*self)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl ParameterValue for usize {
    const EXPECTED: &'static str = "a whole number";

    /// `20.0` is a whole number too.
    fn parsed(text: &str) -> Option<Self> {
        let whole = |value: &f64| value.fract() == 0.0 && (0.0..9e15).contains(value);
        text.parse().ok().or_else(|| text.parse().ok().filter(whole).map(|value| value as Self))
    }

    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A parameter with a computed default, or none.
impl<T: ParameterValue> ParameterValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn parsed(text: &str) -> Option<Self> {
        T::parsed(text).map(Some)
    }

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(T::number)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(T::text)
    }
}

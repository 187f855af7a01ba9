//! Bad usage as an error of its own: `main` ends with exit code 2 for it, with 1 for everything else.

/// A command line that cannot be carried out: what is wrong, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// Bad usage with its message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// An error of something that only the command line decides.
    pub fn of(error: impl std::fmt::Display) -> anyhow::Error {
        Self::new(error.to_string()).into()
    }
}

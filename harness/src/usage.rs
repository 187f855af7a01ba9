//! Failures as a person reads them. Bad usage is an error of its own: `main` ends with exit code 2 for it, with 1 for
//! everything else.

/// A command line that cannot be carried out: what is wrong, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// Bad usage with its message, or an error of something that only the command line decides.
    pub fn of(message: impl std::fmt::Display) -> anyhow::Error {
        Self(message.to_string()).into()
    }
}

/// An error with its causes, `what: why: why that`; a cause that is in the text already is not said again.
pub fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.contains(&cause) {
            said
        } else {
            format!("{said}: {cause}")
        }
    })
}

/// The candidate that is nearest to a name, if any is near: few letters apart, or alike at the beginning.
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let similarity = |candidate: &str| {
        let apart = strsim::damerau_levenshtein(name, candidate);
        if apart <= (name.chars().count() / 3).max(1) {
            2.0 - apart as f64
        } else {
            strsim::jaro_winkler(name, candidate) - 1e3
        }
    };
    let near = |candidate: &str| similarity(candidate) > 0.8 - 1e3;
    candidates
        .iter()
        .copied()
        .filter(|candidate| near(candidate))
        .max_by(|first, second| similarity(first).total_cmp(&similarity(second)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[derive(Debug, thiserror::Error)]
    #[error("c.csv: cannot be read: {source}")]
    struct Quoting {
        source: std::io::Error,
    }

    #[test]
    fn a_cause_is_said_once() {
        let error = || Quoting {
            source: std::io::Error::other("no such file"),
        };
        assert_eq!(with_causes(&error().into()), "c.csv: cannot be read: no such file");
        let loading = Err::<(), _>(error()).context("the data").unwrap_err();
        assert_eq!(with_causes(&loading), "the data: c.csv: cannot be read: no such file");
        assert_eq!(with_causes(&anyhow::anyhow!("why").context("what")), "what: why");
    }
}

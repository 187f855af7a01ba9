//! Failures as a person reads them. Bad usage is an error of its own: `main` ends with exit code 2 for it, with 1 for
//! everything else.

use std::path::Path;

pub use rounds_models::text::nearest;
pub(crate) use rounds_models::text::quoted;

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
        if said.contains(&cause) { said } else { format!("{said}: {cause}") }
    })
}

/// The command line of this process as a shell reads it, with `flags` instead of its own of these names: the whole way to go on.
pub fn command_again(flags: &[(&str, Option<&Path>)]) -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments: Vec<String> = arguments.map(|own| own.to_string_lossy().into_owned()).collect();
    again(&arguments, flags)
}

fn again(arguments: &[String], flags: &[(&str, Option<&Path>)]) -> String {
    let own = arguments.iter().position(|own| own == "--").unwrap_or(arguments.len());
    let (own, rest) = arguments.split_at(own);
    let mut words = vec!["rounds".to_owned()];
    let mut own = own.iter();
    while let Some(word) = own.next() {
        match flags.iter().find(|(name, _)| word.split('=').next() == Some(*name)) {
            Some((name, Some(_))) if word == name => drop(own.next()),
            Some(_) => {}
            None => words.push(quoted(word)),
        }
    }
    for (name, value) in flags {
        words.push((*name).to_owned());
        words.extend(value.map(|path| quoted(&path.to_string_lossy())));
    }
    words.extend(rest.iter().map(|word| quoted(word)));
    words.join(" ")
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
    fn a_command_is_said_again_with_all_its_flags() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = words("run a --out=x --threads 1-2 --resume --out y -- --out z");
        let flags = [("--resume", None), ("--out", Some(Path::new("a b")))];
        let expected = "rounds run a --threads 1-2 --resume --out 'a b' -- --out z";
        assert_eq!(again(&line, &flags), expected);
    }

    #[test]
    fn a_cause_is_said_once() {
        let error = || Quoting { source: std::io::Error::other("no such file") };
        assert_eq!(with_causes(&error().into()), "c.csv: cannot be read: no such file");
        let loading = Err::<(), _>(error()).context("the data").unwrap_err();
        assert_eq!(with_causes(&loading), "the data: c.csv: cannot be read: no such file");
        assert_eq!(with_causes(&anyhow::anyhow!("why").context("what")), "what: why");
    }
}

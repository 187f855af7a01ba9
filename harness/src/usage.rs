//! Failures as a person reads them. Bad usage is an error of its own: `main` ends with exit code 2 for it and for a name of nothing
//! that is there, with 1 for everything else.

use std::path::Path;

use rounds_models::fit::names_nothing;
use rounds_models::group::SharedError;
use rounds_models::text;
pub use rounds_models::text::nearest;
pub(crate) use rounds_models::text::quoted;

use crate::experiment::store::StoreError;

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

/// True for bad usage, and where nothing is there under a name that was given: a file, a folder, a data set, results.
pub fn is_usage(error: &anyhow::Error) -> bool {
    let is_no_run = error.chain().any(|cause| matches!(cause.downcast_ref(), Some(StoreError::NoRun { .. })));
    error.is::<UsageError>() || is_no_run || names_nothing(error.as_ref())
}

/// An error with its causes, `what: why: why that`, and with [`flags`]; a cause that is in the text already is not said again.
pub fn with_causes(error: &anyhow::Error) -> String {
    flags(&text::with_causes(error.as_ref()))
}

/// A message of the library, which names arguments in backticks, with flags for them: `--bounds LO,HI`.
pub fn flags(message: &str) -> String {
    let mut parts = message.split('`');
    let mut said = parts.next().unwrap_or_default().to_owned();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let name = part.split(' ').next().unwrap_or_default();
        match parts.next() {
            Some(after) if text::ARGUMENTS.split(' ').any(|known| known == name) => said.extend(["--", part, after]),
            Some(after) => said.extend(["`", part, "`", after]),
            None => said.extend(["`", part]),
        }
    }
    said
}

/// The reported error of the library's, with flags for its arguments.
pub fn reported(is_usage: bool, error: impl std::error::Error + 'static) -> anyhow::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(shared) = error.downcast_ref::<SharedError>() {
            return SharedError { message: flags(&shared.message), ..*shared }.into();
        }
        cause = error.source();
    }
    let message = flags(&text::with_causes(&error));
    if is_usage || names_nothing(&error) { UsageError::of(message) } else { anyhow::Error::msg(message) }
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
    use std::io;

    use rounds_models::data::DataError;
    use rounds_models::fit::FitError;

    use super::*;
    use crate::commands::account::AccountArguments;
    use crate::commands::audit::AuditArguments;
    use crate::commands::ledger::LedgerArguments;
    use crate::commands::tune::TuneArguments;
    use anyhow::Context as _;
    use clap::Args as _;

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
    fn arguments_of_the_library_are_flags_of_the_command() {
        for (message, said) in [
            ("`test`: give `bounds LO,HI`, or no `x y`", "--test: give --bounds LO,HI, or no `x y`"),
            ("`rounds schema 'a'` drafts `label", "`rounds schema 'a'` drafts `label"),
            ("", ""),
        ] {
            assert_eq!(flags(message), said);
        }
        let account = AccountArguments::augment_args(clap::Command::new("account"));
        let tune = TuneArguments::augment_args(clap::Command::new("tune"));
        let ledger = LedgerArguments::augment_args(clap::Command::new("ledger"));
        let new = ledger.find_subcommand("new").unwrap();
        let audit = AuditArguments::augment_args(clap::Command::new("audit"));
        // `tune` has the flags of `train`.
        let others =
            [(&account, "compose statement verify"), (new, "filter rows"), (&audit, "one-run selection units")];
        for name in text::ARGUMENTS.split(' ') {
            let other = others.iter().find(|(_, names)| names.split(' ').any(|own| own == name));
            let command = other.map_or(&tune, |(command, _)| command);
            assert!(command.get_arguments().any(|own| own.get_long() == Some(name)), "--{name}");
        }
        let shared = SharedError { message: "rank 1 of 2: `model a`: no".to_owned(), is_usage: true };
        let reported = reported(true, rounds_models::fit::FitError::from(shared));
        assert_eq!(reported.downcast_ref::<SharedError>().unwrap().message, "rank 1 of 2: --model a: no");
    }

    #[test]
    fn a_name_of_nothing_that_is_there_is_bad_usage_and_a_failing_system_is_none() {
        let read = |kind: io::ErrorKind| DataError::Read { path: "a".into(), source: kind.into() };
        let missing = || DataError::Missing { path: "a".into(), expected: "a data file".to_owned() };
        for error in [
            missing().for_reader().into(),
            FitError::Data(missing()).into(),
            FitError::Explained(DataError::NoDirectory { name: "mnist".to_owned() }.for_reader()).into(),
            StoreError::NoRun { folder: "a".into() }.into(),
            read(io::ErrorKind::NotFound).into(),
            reported(false, read(io::ErrorKind::NotFound)),
            UsageError::of("why"),
        ] {
            assert!(is_usage(&error) && is_usage(&error.context("what")));
        }
        for error in [
            read(io::ErrorKind::PermissionDenied),
            read(io::ErrorKind::StorageFull),
            DataError::Folder { path: "a".into(), files: Vec::new(), expected: "a known layout" },
        ] {
            assert!(!is_usage(&FitError::Data(error).into()));
        }
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

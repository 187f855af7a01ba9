//! `rounds list algorithms|suites|datasets`: what the program knows.

use std::fmt::{self, Display, Formatter};

use clap::ValueEnum;
use rounds_algorithms::catalog;
use rounds_algorithms::optimizers::Algorithm;
use serde::Serialize;

use super::{Output, UsageError, output};
use crate::data;
use crate::experiment::definition;

/// Arguments of `rounds list`.
#[derive(clap::Args)]
pub struct ListArguments {
    /// Subject of the list
    #[arg(value_enum)]
    subject: Subject,
    /// One algorithm, suite or data set, with its parameters [default: all]
    id: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    Algorithms,
    Suites,
    Datasets,
}

/// One line of the list, and what more there is to say of it.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Algorithm {
        id: &'static str,
        name: &'static str,
        source: &'static str,
        promise: &'static str,
        parameters: Vec<Parameter>,
    },
    Other {
        id: String,
        about: String,
    },
}

/// A parameter of an algorithm.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    about: String,
}

impl Entry {
    fn of(id: &str, about: &str) -> Self {
        let (id, about) = (id.to_owned(), about.to_owned());
        Self::Other { id, about }
    }

    fn of_algorithm(algorithm: &Algorithm) -> Self {
        let parameters = algorithm.parameters().map(|parameter| Parameter {
            name: parameter.name,
            about: parameter.help(),
        });
        Self::Algorithm {
            id: algorithm.id,
            name: algorithm.name,
            source: algorithm.source,
            promise: algorithm.promise,
            parameters: parameters.collect(),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Algorithm { id, .. } => id,
            Self::Other { id, .. } => id,
        }
    }

    /// The entry in lines of at most 80 characters.
    fn text(&self, details: bool) -> String {
        let lines = |text: &str| output::wrapped(text, 4);
        let (id, name, source, promise, parameters) = match self {
            Self::Other { id, about } => return format!("{id}\n{}", lines(about)),
            Self::Algorithm {
                id,
                name,
                source,
                promise,
                parameters,
            } => (id, name, source, promise, parameters),
        };
        let mut text = format!("{id}\n{}\n{}", lines(name), lines(promise));
        if details {
            text = text + "\n\nSource\n" + &lines(source);
            if !parameters.is_empty() {
                text += "\n\nParameters";
            }
            for parameter in parameters {
                text = text + "\n    " + parameter.name + "\n" + &output::wrapped(&parameter.about, 8);
            }
        } else if !parameters.is_empty() {
            let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
            text = text + "\n" + &lines(&format!("Parameters: {}", names.join(", ")));
        }
        text
    }
}

/// The entries that match.
#[derive(Serialize)]
#[serde(transparent)]
struct List {
    entries: Vec<Entry>,
    #[serde(skip)]
    details: bool,
}

impl Display for List {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.entries.iter().map(|entry| entry.text(self.details)).collect();
        formatter.write_str(&texts.join("\n"))
    }
}

/// Lists one subject, or one of its entries.
///
/// # Errors
/// A suite definition that cannot be read, an unknown id.
pub fn run(arguments: &ListArguments, output: Output) -> anyhow::Result<()> {
    let (entries, subject): (Vec<Entry>, _) = match arguments.subject {
        Subject::Algorithms => {
            let all = catalog::ALGORITHMS
                .iter()
                .map(|algorithm| Entry::of_algorithm(algorithm));
            (all.collect(), "algorithm")
        }
        Subject::Suites => {
            let suites = definition::all()?.into_iter().map(|source| source.head);
            (suites.map(|head| Entry::of(&head.name, &head.about)).collect(), "suite")
        }
        Subject::Datasets => {
            let all = data::NAMES.iter();
            (all.map(|name| Entry::of(name.name, name.about)).collect(), "data set")
        }
    };
    let details = arguments.id.is_some();
    let wanted = |entry: &Entry| arguments.id.as_ref().is_none_or(|id| id == entry.id());
    let entries: Vec<_> = entries.into_iter().filter(wanted).collect();
    if let (true, Some(id)) = (entries.is_empty(), &arguments.id) {
        return Err(match arguments.subject {
            Subject::Algorithms => catalog::find(id).err().map(UsageError::of),
            _ => None,
        }
        .unwrap_or_else(|| UsageError::of(format!("there is no {subject} '{id}'"))));
    }
    output.print(&List { entries, details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fit_in_eighty_columns() {
        for algorithm in catalog::ALGORITHMS {
            for details in [false, true] {
                let text = Entry::of_algorithm(algorithm).text(details);
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        }
    }
}

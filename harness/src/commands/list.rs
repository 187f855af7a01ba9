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

/// One line of the list.
#[derive(Serialize)]
struct Entry {
    id: String,
    #[serde(flatten)]
    about: About,
}

/// The description of an entry.
#[derive(Serialize)]
#[serde(untagged)]
enum About {
    Algorithm { name: &'static str, source: &'static str, promise: &'static str, parameters: Vec<Parameter> },
    Other { about: String },
}

/// A parameter of an algorithm.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    about: String,
}

impl Entry {
    fn of(id: &str, about: &str) -> Self {
        let about = about.to_owned();
        Self { id: id.to_owned(), about: About::Other { about } }
    }

    fn of_algorithm(algorithm: &Algorithm) -> Self {
        let parameters =
            algorithm.parameters().map(|parameter| Parameter { name: parameter.name, about: parameter.help() });
        let about = About::Algorithm {
            name: algorithm.name,
            source: algorithm.source,
            promise: algorithm.promise,
            parameters: parameters.collect(),
        };
        let id = algorithm.id.to_owned();
        Self { id, about }
    }

    /// The entry in lines of at most 80 characters.
    fn text(&self, details: bool) -> String {
        let lines = |text: &str| output::wrapped(text, 4);
        let (name, source, promise, parameters) = match &self.about {
            About::Other { about } => return format!("{}\n{}", self.id, lines(about)),
            About::Algorithm { name, source, promise, parameters } => (name, source, promise, parameters),
        };
        let mut text = format!("{}\n{}\n{}", self.id, lines(name), lines(promise));
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
            let all = catalog::ALGORITHMS.iter().map(|algorithm| Entry::of_algorithm(algorithm));
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
    let wanted = |entry: &Entry| arguments.id.as_ref().is_none_or(|id| *id == entry.id);
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

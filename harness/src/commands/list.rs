//! `rounds list algorithms|suites|datasets`: what the program knows.

use clap::ValueEnum;
use rounds_algorithms::catalog;
use rounds_algorithms::optimizers::Algorithm;
use serde_json::{Value, json};

use super::{Output, UsageError, output};
use crate::experiment::definition;
use crate::usage::nearest;
use rounds_models::data;

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

struct Entry {
    id: String,
    document: Value,
    /// Lines of at most 80 characters.
    text: String,
}

impl Entry {
    fn of(id: &str, about: &str) -> Self {
        let text = format!("{id}\n{}", output::wrapped(about, 4));
        Self { id: id.to_owned(), document: json!({"id": id, "about": about}), text }
    }

    fn of_algorithm(algorithm: &Algorithm, details: bool) -> Self {
        let Algorithm { id, name, source, promise, .. } = *algorithm;
        let parameters: Vec<_> = algorithm.parameters().map(|parameter| (parameter.name, parameter.help())).collect();
        let lines = |text: &str| output::wrapped(text, 4);
        let mut text = format!("{id}\n{}\n{}", lines(name), lines(promise));
        if details {
            text = text + "\n\nSource\n" + &lines(source);
            if !parameters.is_empty() {
                text += "\n\nParameters";
            }
            for (name, about) in &parameters {
                text = text + "\n    " + name + "\n" + &output::wrapped(about, 8);
            }
        } else if !parameters.is_empty() {
            let names: Vec<_> = parameters.iter().map(|(name, _)| *name).collect();
            text = text + "\n" + &lines(&format!("Parameters: {}", names.join(", ")));
        }
        let parameters = parameters.iter().map(|(name, about)| json!({"name": name, "about": about}));
        let parameters: Vec<Value> = parameters.collect();
        let document = json!({"id": id, "name": name, "source": source, "promise": promise, "parameters": parameters});
        Self { id: id.to_owned(), document, text }
    }
}

/// Lists one subject, or one of its entries.
///
/// # Errors
/// A suite definition that cannot be read, an unknown id.
pub fn run(arguments: &ListArguments, output: Output) -> anyhow::Result<()> {
    let details = arguments.id.is_some();
    let (entries, subject, list): (Vec<Entry>, _, _) = match arguments.subject {
        Subject::Algorithms => {
            let all = catalog::ALGORITHMS.iter().map(|algorithm| Entry::of_algorithm(algorithm, details));
            (all.collect(), "algorithm", "algorithms")
        }
        Subject::Suites => {
            let suites = definition::all()?.into_iter().map(|source| source.definition);
            (suites.map(|suite| Entry::of(&suite.name, &suite.about)).collect(), "suite", "suites")
        }
        Subject::Datasets => {
            let all = data::NAMES.iter();
            (all.map(|name| Entry::of(name.name, name.about)).collect(), "data set", "datasets")
        }
    };
    let known: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    if let Some(id) = arguments.id.as_ref().filter(|id| !known.contains(&id.as_str())) {
        let near =
            nearest(&id.to_lowercase(), &known).map(|known| format!("did you mean '{known}'? ")).unwrap_or_default();
        return Err(UsageError::of(format!("there is no {subject} '{id}'; {near}`rounds list {list}` shows all")));
    }
    let wanted = |entry: &Entry| arguments.id.as_ref().is_none_or(|id| *id == entry.id);
    let entries = entries.into_iter().filter(wanted);
    let (documents, texts): (Vec<_>, Vec<_>) = entries.map(|entry| (entry.document, entry.text)).unzip();
    output.print(&documents, texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fit_in_eighty_columns() {
        for algorithm in catalog::ALGORITHMS {
            for details in [false, true] {
                let text = Entry::of_algorithm(algorithm, details).text;
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        }
    }
}

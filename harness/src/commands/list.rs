//! `rounds list algorithms|suites|datasets`: what there is.

use clap::ValueEnum;
use rounds_algorithms::catalog;
use serde_json::json;

use crate::{data, definitions, studies};

/// What `rounds list` takes.
#[derive(clap::Args)]
pub struct ListArguments {
    /// What to list.
    #[arg(value_enum)]
    subject: Subject,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    Algorithms,
    Suites,
    Datasets,
}

/// Lists one subject.
///
/// # Errors
/// A suite definition that cannot be read.
pub fn run(arguments: &ListArguments, json: bool) -> anyhow::Result<()> {
    let (header, rows): (Vec<&str>, Vec<Vec<String>>) = match arguments.subject {
        Subject::Algorithms => (
            vec!["id", "name", "source", "promise", "parameters"],
            catalog::ALGORITHMS
                .iter()
                .map(|algorithm| {
                    let own: Vec<_> = algorithm
                        .parameters
                        .iter()
                        .map(|(key, about)| format!("{key}: {about}"))
                        .collect();
                    let text = [algorithm.id, algorithm.name, algorithm.source, algorithm.promise].map(str::to_owned);
                    text.into_iter().chain([own.join("\n")]).collect()
                })
                .collect(),
        ),
        Subject::Suites => (
            vec!["id", "about"],
            definitions::all()?
                .into_iter()
                .map(|suite| vec![suite.name, suite.about])
                .chain(
                    studies::NAMES
                        .iter()
                        .map(|(name, about)| vec![(*name).to_owned(), (*about).to_owned()]),
                )
                .collect(),
        ),
        Subject::Datasets => (
            vec!["id", "about"],
            data::NAMES
                .iter()
                .map(|name| vec![name.name.to_owned(), name.about.to_owned()])
                .collect(),
        ),
    };
    if json {
        let rows: Vec<serde_json::Map<_, _>> = rows
            .into_iter()
            .map(|row| {
                header
                    .iter()
                    .map(|key| (*key).to_owned())
                    .zip(row.into_iter().map(|cell| json!(cell)))
                    .collect()
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        table.set_header(header);
        table.add_rows(rows);
        println!("{table}");
    }
    Ok(())
}

//! Studies: the kinds of experiments, one file each with what a run yields and what all runs show. No algorithm is written
//! here, and no store or loop.

mod convergence;
mod correlated_noise;
pub(crate) mod depth_against_work;
pub(crate) mod depth_cell;
mod formulas;
mod logistic;
mod noise_mechanisms;
mod private_queries;
mod rates;
mod round_time;
pub(crate) mod training;
mod wrong_constants;

use std::path::Path;

use crate::drawing;
use crate::experiment::{Kind, Selection, Study as _, definition, store};

/// The kinds of experiments. Adding one is one file, its `mod` line and its line here.
pub const KINDS: &[Kind] = &[
    convergence::Convergence::KIND,
    correlated_noise::CorrelatedNoise::KIND,
    depth_against_work::DepthAgainstWork::KIND,
    formulas::Formulas::KIND,
    noise_mechanisms::NoiseMechanisms::KIND,
    private_queries::PrivateQueries::KIND,
    rates::Rates::KIND,
    round_time::RoundTime::KIND,
    round_time::Scaling::KIND,
    training::Training::KIND,
    wrong_constants::WrongConstants::KIND,
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The page of the study in `folder`, made anew from its raw runs, and messages about them: by the definition that was run, or that of
/// its name in this program. `None` for a suite, and without a definition.
///
/// # Errors
/// Those of [`Plan::present`](crate::experiment::Plan::present); a definition that is not valid.
pub fn present(folder: &Path) -> anyhow::Result<Option<(drawing::Presentation, Vec<String>)>> {
    let (environment, binding) = store::head(folder)?;
    // Sheets of earlier builds name a definition's file in the command alone.
    let files = environment.command.split(' ').filter(|word| word.ends_with(".toml"));
    let names = environment.definitions.iter().chain(binding.suites.keys()).map(String::as_str);
    let mut sources = names.chain(files).filter_map(|name| definition::find(name).ok());
    let source = sources.find(|source| binding.suites.contains_key(&source.head.name));
    let Some((kind, source)) = source.and_then(|source| Some((kind(&source.head.study)?, source))) else {
        return Ok(None);
    };
    (kind.plan)(&[source], &Selection::everything())?.present(folder)
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::catalog;

    use super::*;

    #[test]
    fn every_definition_has_the_name_of_its_file_and_cells_that_can_be_run() {
        for source in definition::all().unwrap() {
            let kind = kind(&source.head.study).unwrap();
            assert!(!source.head.about.is_empty());
            assert_eq!(source.head.name, source.name);
            let selection = Selection { default_threads: (kind.threads)(2), ..Selection::everything() };
            let plan = (kind.plan)(&[source], &selection).unwrap();
            assert!(!plan.cells().is_empty());
            for planned in plan.cells() {
                let cell = &planned.configuration;
                let generated = ["planted-logistic", "synthetic-logistic", "random-quadratic"];
                let has_verdicts = ["training", "convergence", "correlated-noise"].contains(&kind.name);
                if cell.suite.starts_with("paper/") && has_verdicts && generated.contains(&&*cell.dataset) {
                    assert!(planned.draws >= 10, "{}: a verdict from one draw of the data", cell.key());
                    // Papers 000 and 004 project; the methods of paper 001 do not.
                    let projects = cell.dataset == "planted-logistic"
                        && catalog::find(&cell.algorithm).is_ok_and(|algorithm| algorithm.reads("radius"));
                    let radius = cell.parameters.contains_key("radius");
                    assert!(!projects || radius, "{}: iterates are not projected", cell.key());
                }
                let of_engine = ["epsilon", "delta", "noise-multiplier", "rows-per-thread", "rounds", "grid", "trials"];
                let own = cell.of_algorithm();
                let mut own = own.keys().filter(|name| !of_engine.contains(&name.as_str()));
                let Ok(algorithm) = catalog::find(&cell.algorithm) else {
                    continue;
                };
                if ["round-time", "scaling", "training"].contains(&kind.name) {
                    assert!(own.all(|name| algorithm.reads(name)), "{}", cell.key());
                }
            }
        }
    }

    #[test]
    fn a_misspelt_parameter_is_named_with_its_line_and_the_nearest() {
        let text = "name = \"mine\"\nstudy = \"training\"\nabout = \"a test\"\noptions = { }\n\
                    [[problem]]\ndataset = \"synthetic-logistic\"\nparameters = { rows = 50 }\n\
                    [[method]]\nalgorithm = \"dp-sgd\"\nparameters = { epsilon = 1.0, momentum = 0.5 }\n";
        let kind = kind("training").unwrap();
        let plan =
            |text: &str| (kind.plan)(&[definition::Source::new("mine.toml", text).unwrap()], &Selection::default());
        assert!(plan(text).is_ok());
        for (right, wrong, expected) in [
            (
                "momentum",
                "momentun",
                "mine.toml:10: algorithm 'dp-sgd' has no parameter 'momentun'; did you mean 'momentum'?",
            ),
            ("rows", "row", "mine.toml:7: a problem has no parameter 'row'; did you mean 'rows'?"),
            // A parameter in the other's table.
            ("rows", "momentum", "momentum is a parameter of the problem and of dp-sgd"),
            ("momentum", "regularization", "mine.toml:10: algorithm 'dp-sgd' has no parameter 'regularization'"),
        ] {
            let error = plan(&text.replacen(right, wrong, 1)).err().expect("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

//! Studies: what runs measure, a file each, in four kinds: times, training runs, points of curves, and query depth. No algorithm is written
//! here, and no store or loop.

mod curves;
mod depth;
mod logistic;
mod runs;
mod timing;

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use self::curves::{correlated_noise, formulas, noise_mechanisms, private_queries, rates, wrong_constants};
use self::runs::{convergence, training};
use crate::drawing;
use crate::experiment::definition::{self, unknown_name};
use crate::experiment::{Definition, DefinitionError, Kind, Measure, Plan, Selection, store};

/// The kinds of studies, each with what it measures. Adding a measure is one file, its `mod` line and its place here.
pub const KINDS: [Kind; 4] = [
    Kind { name: "timing", measures: &[timing::ROUND, timing::SCALING] },
    Kind { name: "runs", measures: &[training::TRAINING, convergence::CONVERGENCE] },
    Kind {
        name: "curves",
        measures: &[
            formulas::FORMULAS,
            rates::RATES,
            correlated_noise::CORRELATED_NOISE,
            noise_mechanisms::NOISE_MECHANISMS,
            private_queries::PRIVATE_QUERIES,
            wrong_constants::WRONG_CONSTANTS,
        ],
    },
    Kind { name: "depth", measures: &[depth::DEPTH] },
];

/// The measure of a definition.
///
/// # Errors
/// A kind or measure that there is not, with the nearest.
pub fn measure(definition: &Definition) -> Result<&'static Measure, DefinitionError> {
    let study = &definition.study;
    let has = |kind: &&Kind| kind.measures.iter().any(|measure| measure.name == study);
    let kind = KINDS.iter().find(|kind| kind.name == study).ok_or_else(|| match KINDS.iter().find(has) {
        Some(Kind { name, .. }) => {
            definition.invalid(format!("'{study}' is a measure: give study = \"{name}\" and measure = \"{study}\""))
        }
        None => unknown_name("study", study, &KINDS.map(|kind| kind.name)),
    })?;
    let measures = kind.measures;
    let names: Vec<&str> = measures.iter().map(|measure| measure.name).collect();
    let is_named = |measure: &&Measure| measure.name == definition.measure;
    let found =
        measures.iter().find(|measure| is_named(measure) || definition.measure.is_empty() && measure.is_default);
    found.ok_or_else(|| unknown_name(&format!("measure of '{}'", definition.study), &definition.measure, &names))
}

/// The study in `folder`: by the definition that was run, or that of its name in this program. `None` for one without a definition.
fn plan(folder: &Path) -> anyhow::Result<Option<Plan>> {
    let (environment, binding) = store::head(folder)?;
    // Sheets of earlier builds name a definition's file in the command alone.
    let files = environment.command.split(' ').filter(|word| word.ends_with(".toml"));
    let names = environment.definitions.iter().chain(binding.suites.keys()).map(String::as_str);
    let mut sources = names.chain(files).filter_map(|name| definition::find(name).ok());
    let source = sources.find(|source| binding.suites.contains_key(&source.definition.name));
    let Some(source) = source else { return Ok(None) };
    Plan::new(measure(&source.definition)?, &[source], &Selection::everything()).map(Some)
}

/// The page of the study in `folder`, made anew from its raw runs, and messages about them. `None` for a suite, and without a definition.
///
/// # Errors
/// Those of [`Plan::present`]; a definition that is not valid.
pub fn present(folder: &Path) -> anyhow::Result<Option<(drawing::Presentation, Vec<String>)>> {
    plan(folder)?.map_or(Ok(None), |plan| plan.present(folder))
}

/// The lines of the finished runs in `folder`, and [the runs that failed](store::Results::failures).
///
/// # Errors
/// Files that cannot be read; no definition.
pub(crate) fn lines(folder: &Path) -> anyhow::Result<(Vec<Value>, Option<String>)> {
    plan(folder)?.with_context(|| format!("{}: its definition is gone", folder.display()))?.lines(folder)
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::catalog;

    use super::*;
    use crate::experiment::Study;

    #[test]
    fn every_definition_has_the_name_of_its_file_and_cells_that_can_be_run() {
        for source in definition::all().unwrap() {
            let measure = measure(&source.definition).unwrap();
            assert!(!source.definition.about.is_empty());
            assert_eq!(source.definition.name, source.name);
            let selection = Selection { default_threads: (measure.threads)(2), ..Selection::everything() };
            let plan = Plan::new(measure, &[source], &selection).unwrap();
            assert!(!plan.cells().is_empty());
            for planned in plan.cells() {
                let cell = &planned.configuration;
                let generated = ["planted-logistic", "synthetic-logistic", "random-quadratic"];
                let has_verdicts = ["training", "convergence", "correlated-noise"].contains(&measure.name);
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
                if ["round", "scaling", "training"].contains(&measure.name) {
                    assert!(own.all(|name| algorithm.reads(name)), "{}", cell.key());
                }
            }
        }
    }

    #[test]
    fn a_study_is_the_same_whether_it_names_the_default_measure_or_not() {
        for kind in &KINDS {
            assert_eq!(kind.measures.iter().filter(|measure| measure.is_default).count(), 1, "{}", kind.name);
        }
        let text = "name = \"mine\"\nstudy = \"runs\"\nabout = \"a test\"\n\
                    [[problem]]\ndataset = \"synthetic-logistic\"\n[[method]]\nalgorithm = \"dp-sgd\"\n";
        let digest = |text: &str| {
            let source = definition::Source::new("mine.toml", text).unwrap();
            Study::parse(measure(&source.definition).unwrap(), &source).unwrap().definition.digest()
        };
        let named = |name: &str| text.replacen("about", &format!("measure = \"{name}\"\nabout"), 1);
        assert_eq!(digest(text), digest(&named("training")));
        assert_ne!(digest(text), digest(&named("convergence")));
    }

    #[test]
    fn a_measure_in_place_of_its_kind_is_told_where_it_belongs() {
        let text = "name = \"mine\"\nstudy = \"rates\"\nabout = \"a test\"\n\
                    [[problem]]\ndataset = \"synthetic-logistic\"\n[[method]]\nalgorithm = \"sgd\"\n";
        let source = definition::Source::new("mine.toml", text).unwrap();
        let error = measure(&source.definition).err().unwrap().to_string();
        assert!(
            error.contains("mine: 'rates' is a measure: give study = \"curves\" and measure = \"rates\""),
            "{error}"
        );
    }

    #[test]
    fn a_misspelt_parameter_is_named_with_its_line_and_the_nearest() {
        let text = "name = \"mine\"\nstudy = \"runs\"\nabout = \"a test\"\noptions = { }\n\
                    [[problem]]\ndataset = \"synthetic-logistic\"\nparameters = { rows = 50 }\n\
                    [[method]]\nalgorithm = \"dp-sgd\"\nparameters = { epsilon = 1.0, momentum = 0.5 }\n";
        let plan = |text: &str| -> anyhow::Result<Plan> {
            let source = definition::Source::new("mine.toml", text)?;
            Plan::new(measure(&source.definition)?, &[source], &Selection::default())
        };
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

//! Methods of paper 003 with a wrong L or μ: the gap after T rounds against the factor by which the constant is off.
//!
//! The true L is `λ_max(Σ a·aᵀ/n)/4 + λ` by power iteration on the data, so nothing here is a guarantee.

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::problem::largest_second_moment;
use serde_json::json;

use crate::experiment::{Cell, Context, Execution, Measure, Outcome, Run, Selection, Study};
use crate::studies::logistic::{loaded, minimum, objective};

/// Parameters: a constant's used over its true value.
const SMOOTHNESS: &str = "smoothness-factor";
const STRONG_CONVEXITY: &str = "strong-convexity-factor";

/// The measure. Runs share F* and the true L of their problems.
pub(crate) const WRONG_CONSTANTS: Measure =
    Measure { cells, ..Measure::new("wrong-constants", Execution::InOrder, &[], run) };

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    for problem in &study.definition.problems {
        anyhow::ensure!(
            problem.axis.as_deref().is_some_and(|axis| [SMOOTHNESS, STRONG_CONVEXITY].contains(&axis)),
            "{}: every [[problem]] needs axis = \"{SMOOTHNESS}\" or \"{STRONG_CONVEXITY}\"",
            study.definition.name
        );
    }
    Ok(study.definition.cells(selection)?)
}

/// Rounds done (T′ of the methods that choose it), and the gaps F(x) − F* of the start and the end; none of a run that diverged.
fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let configuration = &run.cell.configuration;
    let (engine, loaded, key) = loaded(run, context)?;
    let problem = &loaded.train;
    let (optimum, smoothness) = run.study.shared(&key, || {
        let smoothness =
            0.25 * largest_second_moment(problem.dataset(), problem.model().bias, 1e-8) + problem.regularization();
        Ok((minimum(problem)?, smoothness))
    })?;
    let mut own = configuration.clone();
    own.parameters.retain(|name, _| ![SMOOTHNESS, STRONG_CONVEXITY].contains(&name.as_str()));
    let factor = |name| anyhow::Ok(configuration.optional(name)?.unwrap_or(1.0));
    let mut settings = context.settings(&own, run.trial.seed(run.study.definition.seed))?;
    let mut used = |name: &str, value: f64| settings.parameters.insert(name.to_owned(), value.to_string());
    used("smoothness", factor(SMOOTHNESS)? * smoothness);
    used("strong-convexity", factor(STRONG_CONVEXITY)? * problem.regularization());
    let prepared = match catalog::find(&configuration.algorithm)?.prepare(problem, &settings) {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Outcome::Skipped(error.to_string())),
    };
    let mut executor = Executor::new(problem, engine.clone(), prepared);
    let rounds = executor.rounds();
    let gap_at = |point: &[f32]| anyhow::Ok(objective(problem, &engine, point)? - optimum);
    let start_gap = gap_at(&vec![configuration.number("start")? as f32; problem.parameters()])?;
    let mut values = json!({ "rounds": rounds, "start_gap": start_gap });
    // Margins beyond f32 are an error of their own.
    let gap = executor.run().ok().and_then(|()| gap_at(executor.solution()).ok());
    if let Some(gap) = gap.filter(|gap| gap.is_finite()) {
        values["gap"] = gap.into();
    }
    Ok(Outcome::of(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn true_constants_reach_the_minimum_and_a_small_smoothness_does_not() {
        let text = r#"
            [[problem]]
            label = "L wrong"
            dataset = "synthetic-logistic"
            axis = "smoothness-factor"
            [problem.parameters]
            rows = 400
            dimension = 4
            data-seed = 3
            feature-bound = 2.0
            loss = "logistic"
            bias = false
            regularization = 0.01
            [problem.method-parameters]
            rounds = 200
            start = 10.0
            smoothness-factor = [0.1, 1.0]
            [[method]]
            algorithm = "dp-nag"
        "#;
        let (study, results) = testing::small(&WRONG_CONSTANTS, text, 1).unwrap();
        let measured = study.measured(&results).unwrap();
        let gaps: Vec<_> =
            measured.iter().map(|(_, runs)| runs[0].get("gap").and_then(serde_json::Value::as_f64)).collect();
        assert_eq!(gaps.len(), 2);
        assert!(gaps[0].is_none_or(|gap| gap > 1e-2) && gaps[1].is_some_and(|gap| gap < 1e-5), "{gaps:?}");
    }
}

//! Short names of configurations: an algorithm with the parameters that distinguish it. Shared parameters are listed once,
//! in a subtitle.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::format::scientific;
use crate::results::{Configuration, Phases};

/// The phases of a round by name, in the order of their colours.
pub(super) fn phases(phases: &Phases) -> [(&'static str, u64); 4] {
    [("sampling", phases.sample), ("gradient", phases.gradient), ("noise", phases.noise), ("update", phases.update)]
}

/// The relations and δ that the ε of privacy statements are under, such as `zero-out, δ = 1e-5`.
fn guarantees<'a>(statements: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let guarantee = |statement: &Value| {
        statement.get("epsilon")?.as_f64()?;
        let relation = statement.get("adjacency").and_then(Value::as_str).unwrap_or("an unknown relation");
        let delta = statement.get("delta").and_then(Value::as_f64).unwrap_or(0.0);
        Some(format!("{relation}, δ = {}", scientific(delta)))
    };
    let found: BTreeSet<String> = statements.into_iter().filter_map(guarantee).collect();
    found.into_iter().collect()
}

/// `ε` with the relation and δ of all these statements, for a heading or an axis.
pub(super) fn epsilon<'a>(statements: impl IntoIterator<Item = &'a Value>) -> String {
    match &guarantees(statements)[..] {
        [] => "ε".to_owned(),
        [one] => format!("ε ({one})"),
        _ => "ε (several relations or δ)".to_owned(),
    }
}

/// The names of a set of configurations.
pub(crate) struct Labels {
    /// Parameters that differ within a method of a problem, by [`method`].
    apart: BTreeMap<String, BTreeSet<String>>,
    /// Parameters with one value wherever they are given, by more than half of the algorithms.
    shared: BTreeMap<String, String>,
}

impl Labels {
    /// The names that distinguish these configurations.
    pub(crate) fn of<'a>(configurations: impl IntoIterator<Item = &'a Configuration>) -> Self {
        // The sets of parameters of each method.
        let mut sets: BTreeMap<String, BTreeSet<BTreeMap<&str, String>>> = BTreeMap::new();
        for configuration in configurations {
            let parameters = configuration.parameters.iter();
            let parameters = parameters.map(|(name, value)| (name.as_str(), text(value))).collect();
            sets.entry(method(configuration)).or_default().insert(parameters);
        }
        let mut apart: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut values: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for (algorithm, sets) in &sets {
            let names: BTreeSet<&str> = sets.iter().flat_map(|set| set.keys().copied()).collect();
            for name in names {
                let of_name: BTreeSet<Option<&String>> = sets.iter().map(|set| set.get(name)).collect();
                if of_name.len() > 1 {
                    let names = apart.entry(algorithm.clone()).or_default();
                    names.insert(name.to_owned());
                }
                let (algorithms, known) = values.entry(name).or_default();
                algorithms.insert(algorithm.as_str());
                known.extend(of_name.into_iter().flatten().map(String::as_str));
            }
        }
        let common = values.into_iter().filter_map(|(name, (algorithms, known))| {
            let is_common = known.len() == 1 && 2 * algorithms.len() > sets.len();
            is_common.then_some((name.to_owned(), (*known.first()?).to_owned()))
        });
        let shared = common.filter(|(name, _)| !apart.values().any(|names| names.contains(name))).collect();
        Self { apart, shared }
    }

    /// The method's label or its algorithm, with those of its parameters that differ between configurations.
    pub(crate) fn name(&self, configuration: &Configuration) -> String {
        let name = configuration.label_of_method();
        let apart = self.apart.get(&method(configuration)).into_iter().flatten();
        let own = |name: &String| Some(written(name, &text(configuration.parameters.get(name)?)));
        let own: Vec<String> = apart.filter_map(own).collect();
        if own.is_empty() { name.to_owned() } else { format!("{name} {}", own.join(", ")) }
    }

    /// The shared parameters for a subtitle: `ε = 1, δ = 1e-5`; may be empty.
    pub(super) fn shared(&self) -> String {
        listed(self.shared.iter().map(|(name, value)| (name, value.clone())))
    }
}

/// The method on its problem: algorithms that have labels are told apart by them.
fn method(configuration: &Configuration) -> String {
    format!("{}/{}", configuration.problem, configuration.label_of_method())
}

/// All parameters of a configuration: `ε = 1, δ = 1e-5, clip norm = 1`.
pub(super) fn parameters(configuration: &Configuration) -> String {
    listed(configuration.parameters.iter().map(|(name, value)| (name, text(value))))
}

/// Parameters in a row, ε and δ first.
fn listed<'a>(parameters: impl Iterator<Item = (&'a String, String)>) -> String {
    let mut list: Vec<(&String, String)> = parameters.collect();
    list.sort_by_key(|(name, _)| (name.as_str() != "epsilon", name.as_str() != "delta", name.as_str()));
    let written: Vec<String> = list.into_iter().map(|(name, value)| written(name, &value)).collect();
    written.join(", ")
}

fn written(name: &str, value: &str) -> String {
    format!("{} = {value}", symbol(name))
}

/// A parameter's symbol, or its name in words.
pub(super) fn symbol(name: &str) -> String {
    let symbol = match name {
        "epsilon" => "ε",
        "delta" => "δ",
        "beta" => "β",
        "tau" => "τ",
        other => other,
    };
    symbol.replace(['-', '_'], " ")
}

/// The short form of a value: 1 for 1.0, 1e-5 for 0.00001.
fn text(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number != 0.0 && number.abs() < 1e-3 => format!("{number:e}"),
        Some(number) => number.to_string(),
        None => crate::experiment::text(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(algorithm: &str, parameters: Value) -> Configuration {
        Configuration {
            suite: "quick".into(),
            algorithm: algorithm.into(),
            dataset: "mnist".into(),
            features: "u8".into(),
            batch_size: 64,
            threads: 1,
            parameters: serde_json::from_value(parameters).unwrap(),
            ..Configuration::default()
        }
    }

    #[test]
    fn shared_parameters_are_in_the_subtitle_and_not_in_the_names() {
        let all = [
            configuration("sgd", json!({})),
            configuration("dp-sgd", json!({"clip-norm": 1.0, "epsilon": 1.0, "delta": 1e-5})),
            configuration("dp-ftrl", json!({"epsilon": 1.0, "delta": 1e-5})),
        ];
        let labels = Labels::of(&all);
        assert_eq!(all.each_ref().map(|one| labels.name(one)), ["sgd", "dp-sgd", "dp-ftrl"]);
        assert_eq!(labels.shared(), "ε = 1, δ = 1e-5");
        assert_eq!(parameters(&all[1]), "ε = 1, δ = 1e-5, clip norm = 1");
    }

    #[test]
    fn distinguishing_parameters_stay_in_the_names() {
        let all = [
            configuration("dp-ftrl", json!({"noise": "tree", "epsilon": 1.0})),
            configuration("dp-ftrl", json!({"noise": "optimal", "epsilon": 1.0})),
            configuration("dp-ftrl", json!({"epsilon": 1.0})),
            configuration("dp-sgd", json!({"epsilon": 2.0})),
        ];
        let labels = Labels::of(&all);
        assert_eq!(
            all.each_ref().map(|one| labels.name(one)),
            ["dp-ftrl noise = tree", "dp-ftrl noise = optimal", "dp-ftrl", "dp-sgd"]
        );
        assert_eq!(labels.shared(), "");
        let names: BTreeSet<String> = all.iter().map(|one| labels.name(one)).collect();
        assert_eq!(names.len(), all.len(), "no two have one name");
    }
}

//! Settings of an algorithm from the parameters of a definition: the budget, and values by the names of the algorithm's
//! parameters.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde_json::Value;

use super::cell::text;

/// The parameters of a budget.
pub(crate) const BUDGET: [&str; 3] = ["epsilon", "delta", "noise-multiplier"];

/// A parameter of the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("parameter {key} = {value}: {reason}")]
pub(crate) struct ParameterError {
    key: String,
    value: String,
    reason: String,
}

/// The settings that an algorithm's `parameters` stand for, with this key and nothing else changed from the defaults.
///
/// # Errors
/// The first budget of the wrong type, and a budget that is given twice.
pub(crate) fn from_parameters(
    parameters: &BTreeMap<String, Value>,
    key: StreamKey,
) -> Result<Settings, ParameterError> {
    let mut settings = Settings::new(Budget::NonPrivate, key);
    let delta = parameters.get("delta").map_or(Ok(1e-5), |value| number("delta", value))?;
    for (name, value) in parameters {
        match name.as_str() {
            "epsilon" => settings.budget = Budget::Target { epsilon: number(name, value)?, delta },
            "noise-multiplier" if parameters.contains_key("epsilon") => {
                return Err(error(name, value, "a budget is either epsilon or noise-multiplier"));
            }
            "noise-multiplier" => {
                settings.budget = Budget::NoiseMultiplier { noise_multiplier: number(name, value)?, delta };
            }
            "delta" => {}
            _ => settings.set(name, text(value)),
        }
    }
    Ok(settings)
}

/// λ of the regulariser that `parameters` ask for; 0 without.
///
/// # Errors
/// A value that is not a finite number of at least 0.
pub(crate) fn regularization(parameters: &BTreeMap<String, Value>) -> Result<f64, ParameterError> {
    let Some(value) = parameters.get("regularization") else {
        return Ok(0.0);
    };
    let lambda = number("regularization", value)?;
    if lambda >= 0.0 && lambda.is_finite() {
        Ok(lambda)
    } else {
        Err(error("regularization", value, "a finite number of at least 0 is needed"))
    }
}

/// The loss that `parameters` choose, if any.
///
/// # Errors
/// A name that no loss has.
pub(crate) fn loss(parameters: &BTreeMap<String, Value>) -> Result<Option<Loss>, ParameterError> {
    let parsed =
        |value: &Value| Loss::from_str(&text(value)).map_err(|reason| error("loss", value, reason.to_string()));
    parameters.get("loss").map(parsed).transpose()
}

fn error(key: &str, value: &Value, reason: impl Into<String>) -> ParameterError {
    ParameterError { key: key.to_owned(), value: text(value), reason: reason.into() }
}

fn number(key: &str, value: &Value) -> Result<f64, ParameterError> {
    value.as_f64().ok_or_else(|| error(key, value, "a number is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(value: Value) -> Result<Settings, ParameterError> {
        let parameters = serde_json::from_value(value).expect("a map");
        from_parameters(&parameters, StreamKey::Simulation(1))
    }

    #[test]
    fn the_budget_is_taken_out_and_the_rest_is_the_algorithms() {
        let settings =
            parsed(json!({"epsilon": 2.0, "delta": 1e-6, "clip-norm": 1, "radius": 3.5, "sampling": "poisson"}))
                .expect("valid");
        assert_eq!(settings.budget, Budget::Target { epsilon: 2.0, delta: 1e-6 });
        assert_eq!(settings.parameters["clip-norm"], "1");
        assert_eq!(settings.parameters.get("radius").map(String::as_str), Some("3.5"));
    }

    #[test]
    fn the_regulariser_is_the_problems() {
        let of = |value| regularization(&serde_json::from_value(value).expect("a map"));
        assert_eq!(of(json!({})).expect("none is 0"), 0.0);
        assert_eq!(of(json!({"regularization": 0.01})).expect("valid"), 0.01);
        assert!(of(json!({"regularization": -1.0})).is_err());
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        for (value, named) in [
            (json!({"epsilon": "much"}), "epsilon"),
            (json!({"epsilon": 1.0, "noise-multiplier": 1.0}), "noise-multiplier"),
        ] {
            assert!(parsed(value).err().expect("refused").to_string().contains(named));
        }
    }
}

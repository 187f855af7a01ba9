//! Sequences over the rounds of a run: step sizes η_t. They are public and given before the first round; no row is read, so that a
//! schedule is post-processing of what was released, and the guarantee is that of constant steps.

use std::sync::Arc;

use super::parameters::ParameterValue;
use super::settings::SettingsError;

/// Step sizes over the T rounds of a run, `η_t = η·f_t` for t = 0 … T − 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LearningRateSchedule {
    /// f_t = 1.
    #[default]
    Constant,
    /// f_t = (T − t)/T: down to 0 after the last round.
    Linear,
    /// f_t = min(1, 4(T − t)/T): constant, then down to 0 over the last quarter of the rounds, as the learning rate cools down in Denisov
    /// et al. 2022 and Choquette-Choo et al. 2022 (arXiv 2211.06530).
    Cooldown,
    /// f_t of a list, one for every round.
    Factors(Arc<[f64]>),
}

impl LearningRateSchedule {
    /// The same schedule, if it suits T rounds.
    ///
    /// # Errors
    /// Factors for another number of rounds.
    pub(super) fn check(&self, rounds: usize) -> Result<(), SettingsError> {
        match self {
            Self::Factors(factors) => check_length("learning-rate-schedule", factors, rounds),
            _ => Ok(()),
        }
    }

    /// f_t; 1 at most for the schedules that have names.
    pub(super) fn factor(&self, round: u64, rounds: u64) -> f64 {
        let left = (rounds - round) as f64 / rounds as f64;
        match self {
            Self::Constant => 1.0,
            Self::Linear => left,
            Self::Cooldown => (4.0 * left).min(1.0),
            Self::Factors(factors) => factors[round as usize],
        }
    }

    /// f_0 … f_{T−1}; none where all are 1.
    pub(super) fn factors(&self, rounds: usize) -> Option<Vec<f64>> {
        let factor = |round| self.factor(round, rounds as u64);
        (*self != Self::Constant).then(|| (0..rounds as u64).map(factor).collect())
    }
}

/// Refuses a list of `values` that has not one for every round.
pub(super) fn check_length(parameter: &'static str, values: &[f64], rounds: usize) -> Result<(), SettingsError> {
    if values.len() == rounds {
        return Ok(());
    }
    let value = format!("of {} values for {rounds} rounds", values.len());
    Err(SettingsError::out_of_range(parameter, value, "one value a round"))
}

/// Numbers separated by commas, if `holds` is true of all.
pub(super) fn numbers(text: &str, holds: impl Fn(f64) -> bool) -> Option<Arc<[f64]>> {
    text.split(',').map(|value| value.trim().parse().ok().filter(|value| holds(*value))).collect()
}

/// The text that [`numbers`] reads.
pub(super) fn listed(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

impl ParameterValue for LearningRateSchedule {
    const EXPECTED: &'static str =
        "constant, linear, cooldown, or as many factors above 0 as rounds, separated by commas,";

    fn parsed(text: &str) -> Option<Self> {
        match text {
            "constant" => Some(Self::Constant),
            "linear" => Some(Self::Linear),
            "cooldown" => Some(Self::Cooldown),
            list => numbers(list, |value| value.is_normal() && value > 0.0).map(Self::Factors),
        }
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Constant => "constant".to_owned(),
            Self::Linear => "linear".to_owned(),
            Self::Cooldown => "cooldown".to_owned(),
            Self::Factors(factors) => listed(factors),
        })
    }
}

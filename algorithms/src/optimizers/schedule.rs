//! Sequences over the rounds of a run: step sizes η_t and decays c_t. They are public and given before the first round, and no row is
//! read for them. Steps are post-processing of what was released: the guarantee is that of constant ones.

use std::sync::Arc;

use super::parameter_value::ParameterValue;
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

/// The decays c_t of a recursive gradient `g_t = c_t·g_{t−1} + D_t`, t = 1 … T − 1; the first round has none.
///
/// **Privacy.** c_t is a public number, and the difference `∇f(x_t; d) − c_t·∇f(x_{t−1}; d)` of a row is clipped as one, so that a row
/// moves D_t by at most the clip norm whatever c_t is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decay {
    /// c_t = c in [0, 1).
    Constant(f64),
    /// c_t = η_{t−1}/η_t of the learning-rate schedule, with which `η_t·g_t = η_{t−1}·g_{t−1} + η_t·D_t`.
    StepRatio,
    /// c_t in [0, 1] of a list with a value for every round, of which the first is not used.
    Sequence(Arc<[f64]>),
}

impl Decay {
    /// c_0 = 0, c_1 … c_{T−1}.
    ///
    /// # Errors
    /// A list for another number of rounds; a schedule that falls too fast for its ratios.
    pub(super) fn sequence(&self, schedule: &LearningRateSchedule, rounds: usize) -> Result<Vec<f64>, SettingsError> {
        let mut decays = match self {
            Self::Constant(constant) => vec![*constant; rounds],
            Self::StepRatio => {
                let factor = |round| schedule.factor(round, rounds as u64);
                (0..rounds as u64).map(|round| factor(round.saturating_sub(1)) / factor(round)).collect()
            }
            Self::Sequence(values) => {
                check_length("decay", values, rounds)?;
                values.to_vec()
            }
        };
        decays[0] = 0.0;
        // Beyond the greatest coefficient of a query.
        if let Some(round) = decays.iter().position(|decay| !(*decay <= 2_f64.powi(50))) {
            let value = format!(
                "eta-ratio of a schedule that falls to {:e} of itself in round {}",
                1.0 / decays[round],
                round + 1
            );
            return Err(SettingsError::out_of_range("decay", value, "a fall to no less than 2^-50 in a round"));
        }
        Ok(decays)
    }
}

impl ParameterValue for Decay {
    const EXPECTED: &'static str =
        "a number in [0, 1), eta-ratio, or as many numbers in [0, 1] as rounds, separated by commas,";

    fn parsed(text: &str) -> Option<Self> {
        if text == "eta-ratio" {
            return Some(Self::StepRatio);
        }
        match text.parse() {
            Ok(constant) => (0.0..1.0).contains(&constant).then_some(Self::Constant(constant)),
            Err(_) => numbers(text, |value| (0.0..=1.0).contains(&value)).map(Self::Sequence),
        }
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Constant(constant) => constant.to_string(),
            Self::StepRatio => "eta-ratio".to_owned(),
            Self::Sequence(values) => listed(values),
        })
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

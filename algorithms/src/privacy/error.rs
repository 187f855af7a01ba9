//! Errors of accounting, each with the way out.

use super::accountant::Accountant;
use crate::plural;
use crate::problem::adjacency::Adjacency;

/// A privacy question without an answer. The messages name the value, what was expected, and the way out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum PrivacyError {
    /// A number outside its range (NaN and infinities included).
    #[error("{quantity} must be {expected}, found {}: {remedy}", brief(*found))]
    OutOfRange { quantity: &'static str, found: f64, expected: &'static str, remedy: &'static str },
    /// The sampler and the adjacency do not go together: no theorem covers the pair.
    #[error("{sampling} sampling cannot be accounted under {adjacency} adjacency: {reason}")]
    RefusedSampling { sampling: &'static str, adjacency: Adjacency, reason: &'static str },
    /// The mechanism is described with a sampler that its analysis does not know.
    #[error("a {mechanism} mechanism cannot be described with {sampling} sampling: {reason}")]
    RefusedMechanism { mechanism: &'static str, sampling: &'static str, reason: &'static str },
    /// Participations of one unit whose bands overlap.
    #[error(
        "noise of {bands} bands on {sampling} batches: participations of an example are {} apart at least, and no theorem covers \
         more bands than that; take at most {}, or a cyclic sampler of {bands} groups",
        plural(*separation, "round"), plural(*separation, "band")
    )]
    BandsBeyondSeparation { bands: usize, separation: usize, sampling: &'static str },
    /// The accountant has no theorem for the mechanism.
    #[error("the {accountant} accountant does not cover a {mechanism} mechanism: {reason}")]
    RefusedAccountant { accountant: Accountant, mechanism: &'static str, reason: &'static str },
    /// A statement without ε, δ or relation.
    #[error("it claims no (ε, δ) under a neighbouring relation")]
    NoClaim,
    /// Features that follow from moments of the rows, in a run that does not pay for these.
    #[error("the features follow from moments of the rows, and {0}")]
    Moments(&'static str),
    /// A composition of nothing.
    #[error("a composition needs at least one mechanism, found none: list the steps that touch the data")]
    EmptyComposition,
    /// No noise reaches the target.
    #[error(
        "no noise multiplier between {lowest:e} and {highest:e} gives epsilon <= {epsilon} at delta = {delta}: the \
         closest epsilon is {closest}; raise epsilon or delta, or take fewer steps"
    )]
    Unreachable { epsilon: f64, delta: f64, lowest: f64, highest: f64, closest: f64 },
    /// The discretisation of the privacy loss needs more cells than are allowed.
    #[error(
        "a discretisation of {interval:e} needs {cells:e} cells, more than {limit}: choose one of at least {smallest:e}"
    )]
    TooFineDiscretization { interval: f64, cells: f64, limit: usize, smallest: f64 },
    /// The numerical error is as large as the requested delta.
    #[error("{}", unresolved(*accountant, *delta, *resolution))]
    Resolution { accountant: Accountant, delta: f64, resolution: f64 },
    /// Losses of one step that are too far apart to be integrated.
    #[error(
        "the privacy losses of a step differ by {range:.1e}, and the pld accountant takes {limit:.0e} at most: raise the noise or \
         take the rdp accountant"
    )]
    WideLosses { range: f64, limit: f64 },
}

/// δ that no accountant resolves; of a resolution that is no usable δ the losses are too large, and another δ changes nothing.
fn unresolved(accountant: Accountant, delta: f64, resolution: f64) -> String {
    if resolution < 0.1 {
        return format!(
            "delta = {delta:e} is below what the {accountant} accountant resolves here ({resolution:e}): raise delta or take \
             the rdp accountant"
        );
    }
    format!(
        "epsilon is too large for the {accountant} accountant, which resolves no delta here: lower epsilon, by more noise or \
         fewer steps"
    )
}

/// A number of a message, in powers of ten where all its digits would be many.
pub(super) fn brief(value: f64) -> String {
    if value == 0.0 || (1e-6..1e16).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// `value` where it is valid, or an error that names `quantity`.
pub(super) fn checked(
    value: f64,
    valid: bool,
    quantity: &'static str,
    expected: &'static str,
    remedy: &'static str,
) -> Result<f64, PrivacyError> {
    if valid { Ok(value) } else { Err(PrivacyError::OutOfRange { quantity, found: value, expected, remedy }) }
}

/// The refusal of a step, by its name, that `accountant` has no theorem for.
pub(super) fn refused(accountant: Accountant, step: &'static str, reason: &'static str) -> PrivacyError {
    PrivacyError::RefusedAccountant { accountant, mechanism: step, reason }
}

/// A positive finite value, or an error that names `quantity`.
pub(super) fn positive(value: f64, quantity: &'static str, remedy: &'static str) -> Result<f64, PrivacyError> {
    let valid = value.is_finite() && value > 0.0;
    checked(value, valid, quantity, "a positive finite number", remedy)
}

/// A count of at least one, or an error that names `quantity`.
pub(super) fn at_least_one(value: usize, quantity: &'static str, remedy: &'static str) -> Result<(), PrivacyError> {
    checked(value as f64, value >= 1, quantity, "at least 1", remedy).map(drop)
}

/// A target epsilon: positive and finite.
pub(super) fn target_epsilon(epsilon: f64) -> Result<f64, PrivacyError> {
    positive(epsilon, "epsilon", "choose the privacy loss to allow, for instance 1")
}

/// A noise multiplier: positive and finite.
pub(super) fn noise_multiplier(value: f64) -> Result<f64, PrivacyError> {
    let remedy = "without noise there is no privacy; give a target epsilon to have it calibrated";
    positive(value, "the noise multiplier", remedy)
}

/// A delta of an approximate guarantee: in (0, 1).
pub(super) fn delta(delta: f64) -> Result<f64, PrivacyError> {
    delta_or(delta, "choose it well below 1/n, for instance 1e-6 for 60,000 examples")
}

/// δ ∈ (0, 1), or the remedy.
pub(super) fn delta_or(delta: f64, remedy: &'static str) -> Result<f64, PrivacyError> {
    checked(delta, delta > 0.0 && delta < 1.0, "delta", "strictly between 0 and 1", remedy)
}

/// A Rényi order: above 1 and finite.
pub(super) fn order(order: f64) -> Result<f64, PrivacyError> {
    let (valid, remedy) = (order.is_finite() && order > 1.0, "orders of a few units to a few hundred are usual");
    checked(order, valid, "the Rényi order", "finite and above 1", remedy)
}

/// A sampling rate: in (0, 1].
pub(super) fn rate(rate: f64) -> Result<f64, PrivacyError> {
    let (valid, expected) = (rate > 0.0 && rate <= 1.0, "above 0 and at most 1");
    let remedy = "it is the probability with which a round reads an example: batch size / n";
    checked(rate, valid, "the sampling rate", expected, remedy)
}

/// A batch drawn without replacement: between 1 and the population.
pub(super) fn batch(batch: usize, population: usize) -> Result<(), PrivacyError> {
    let (valid, expected) = (batch >= 1 && batch <= population, "at least 1 and at most n");
    let remedy = "a batch without replacement holds each example at most once";
    checked(batch as f64, valid, "the batch size", expected, remedy).map(drop)
}

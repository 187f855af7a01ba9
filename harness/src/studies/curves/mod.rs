//! Quantities at the points of series: formulas, exact means, Monte-Carlo means and times of single parts.

pub(super) mod correlated_noise;
pub(super) mod formulas;
pub(super) mod noise_mechanisms;
pub(super) mod private_queries;
pub(super) mod rates;
pub(super) mod wrong_constants;

//! DP-GD: `x⁺ = x − α·g̃(x)` with Laplace noise of one scale for all rounds [003 (2.4), (3.4)–(3.5)]. The iteration is
//! [`super::momentum`], without momentum.

use super::accelerated_plan::{self, Method, PARAMETERS};
use super::{Algorithm, PrepareError, Prepared, Settings};
use crate::problem::PublicProblem;

/// The catalogue's entry.
pub static DP_GD: Algorithm = Algorithm {
    id: "dp-gd",
    name: "DP-GD",
    source: "[003 (2.4), §5]",
    promise: "ε-DP by Laplace noise on L1-clipped gradients, every iterate public; linear rate 1 − μα",
    private: true,
    parameters: &PARAMETERS,
    constructor: dp_gd,
};

fn dp_gd(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    accelerated_plan::prepare(Method::GradientDescent, problem, settings)
}

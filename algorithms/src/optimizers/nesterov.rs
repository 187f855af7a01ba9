//! DP-NAG and DP-NAG-opt: `z = (1 + β)x − βx₋, x⁺ = z − α·g̃(z)` with noise of one scale, or with T′ ≤ T rounds and scales
//! that minimise the error bound [003 (4.1), (4.4)–(4.6)]. The iteration is [`super::momentum`], the
//! weights of the bound are in [`crate::theory::multistage`], the division of the budget in [`crate::theory::allocation`].

use super::Algorithm;
use super::accelerated_plan::{ALL_ROWS, Division, EVERY, Method, MethodParameters, prepare};
use super::parameters::PRIVACY;
use super::scene::Scene;

/// The catalogue's entry of the uniform budget.
pub static DP_NAG: Algorithm = Algorithm {
    id: "dp-nag",
    name: "DP Nesterov",
    source: "[003 (4.1), Theorem 4.1]",
    promise: "ε-DP, every iterate public; E_T ≤ 2(1 − √(μα))^T·E_0 + noise",
    private: true,
    release: true,
    groups: &[EVERY, PRIVACY, MethodParameters::ALL],
    scenes: &[ALL_ROWS],
    constructor: |problem, settings| prepare(Method::Nesterov { optimized: false }, problem, settings),
};

/// The catalogue's entry of the optimised budget.
pub static DP_NAG_OPT: Algorithm = Algorithm {
    id: "dp-nag-opt",
    name: "DP Nesterov, optimised budget",
    source: "[003 §4.1, (4.5), (4.6)]",
    promise: "as dp-nag, with the rounds and the division of the budget that minimise its bound",
    private: true,
    release: true,
    groups: &[EVERY, PRIVACY, MethodParameters::ALL, Division::ALL],
    scenes: &[Scene {
        parameters: &[("rounds", "2"), ("smoothness", "1"), ("strong-convexity", "0.25"), ("initial-gap", "fixed")],
        ..ALL_ROWS
    }],
    constructor: |problem, settings| prepare(Method::Nesterov { optimized: true }, problem, settings),
};

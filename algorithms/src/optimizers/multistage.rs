//! DP-MASG and DP-MASG-opt: Nesterov's method in stages of shrinking step sizes, momentum reset at each
//! [003 (4.7), Theorem 4.3], with noise of one scale or with the scales that minimise (4.8). The iteration is
//! [`super::momentum`]; stages and weights are in [`crate::theory::multistage`].

use super::Algorithm;
use super::accelerated_plan::{ALL_ROWS, Division, EVERY, Method, MethodParameters, Stages, prepare};
use super::parameters::PRIVACY;
use super::scene::Scene;

/// The catalogue's entry of the uniform budget.
pub static DP_MASG: Algorithm = Algorithm {
    id: "dp-masg",
    name: "DP multistage Nesterov",
    source: "[003 §4.2, (4.7)]",
    promise: "ε-DP, every iterate public; bound (4.8) with 2·E_0",
    private: true,
    release: true,
    groups: &[EVERY, PRIVACY, MethodParameters::ALL, Stages::ALL],
    scenes: &[Scene {
        parameters: &[("rounds", "2"), ("smoothness", "1"), ("strong-convexity", "0.25"), ("first-stage", "1")],
        ..ALL_ROWS
    }],
    constructor: |problem, settings| prepare(Method::Multistage { optimized: false }, problem, settings),
};

/// The catalogue's entry of the optimised budget.
pub static DP_MASG_OPT: Algorithm = Algorithm {
    id: "dp-masg-opt",
    name: "DP multistage Nesterov, optimised budget",
    source: "[003 §4.2, (4.5)–(4.8)]",
    promise: "as dp-masg, with the rounds and the division of the budget that minimise its bound",
    private: true,
    release: true,
    groups: &[EVERY, PRIVACY, MethodParameters::ALL, Stages::ALL, Division::ALL],
    scenes: &[Scene {
        parameters: &[
            ("rounds", "2"),
            ("smoothness", "1"),
            ("strong-convexity", "0.25"),
            ("first-stage", "1"),
            ("initial-gap", "fixed"),
        ],
        ..ALL_ROWS
    }],
    constructor: |problem, settings| prepare(Method::Multistage { optimized: true }, problem, settings),
};

//! DP-GD: `x⁺ = x − α·g̃(x)` with Laplace noise of one scale for all rounds [003 (2.4), (3.4)–(3.5)]. The iteration is
//! [`super::momentum`], without momentum.

use super::Algorithm;
use super::accelerated_plan::{self, ALL_ROWS, EVERY, Method, MethodParameters};
use super::parameters::PRIVACY;
use super::scene::{Row, Scene};

/// The catalogue's entry.
pub static DP_GD: Algorithm = Algorithm {
    id: "dp-gd",
    name: "DP-GD",
    source: "[003 (2.4), §5]",
    promise: "ε-DP by Laplace noise on L1-clipped gradients, every iterate public; linear rate 1 − μα",
    private: true,
    release: true,
    groups: &[EVERY, PRIVACY, MethodParameters::ALL],
    scenes: &[
        ALL_ROWS,
        Scene {
            name: "without replacement, Laplace",
            rows: 8,
            rows_with_second: 8,
            batch_size: Some(4),
            others: Row::Opposite,
            ..ALL_ROWS
        },
    ],
    constructor: |problem, settings| accelerated_plan::prepare(Method::GradientDescent, problem, settings),
};

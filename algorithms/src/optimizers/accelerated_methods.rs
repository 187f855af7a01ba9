//! The six methods of paper 003: their entries in the catalogue. The iteration is [`super::momentum`], batches, steps and budgets
//! are in [`super::accelerated_plan`].

use super::accelerated_plan::{AcceleratedPlan, Division, Method, MethodParameters, Stages};
use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::parameters::{Common, LAPLACE_NOISE, PRIVACY, Parameter};
use super::scene::{Row, Scene};

fn prepare(
    run: &Run<'_>,
    method: Method,
    own: MethodParameters,
    more: (Stages, Division),
) -> Result<Prepared, PrepareError> {
    AcceleratedPlan::of(run, method, &own, &more)?.prepared(run.problem, run.key())
}

/// The constructor of a method, with the type of the parameters that it reads beside [`MethodParameters`].
macro_rules! reads {
    ($method:expr) => {
        &Reads(|run, own| prepare(run, $method, own, Default::default()))
    };
    ($method:expr, Stages) => {
        &Reads(|run, (own, stages): (MethodParameters, Stages)| {
            prepare(run, $method, own, (stages, Division::default()))
        })
    };
    ($method:expr, Division) => {
        &Reads(|run, (own, division): (MethodParameters, Division)| {
            prepare(run, $method, own, (Stages::default(), division))
        })
    };
    ($method:expr, Stages, Division) => {
        &Reads(|run, (own, more): (MethodParameters, (Stages, Division))| prepare(run, $method, own, more))
    };
}

/// The parameters that every method reads.
const EVERY: &[Parameter] =
    &[Common::epochs(), Common::rounds(), Common::batch_size(), Common::sampling(), Common::learning_rate()];

/// The audit on all rows.
const ALL_ROWS: Scene = Scene {
    name: "all rows, Laplace",
    rows: 4,
    batch_size: None,
    parameters: &[("rounds", "2"), ("smoothness", "1"), ("strong-convexity", "0.25")],
    epsilon: Some(2.0),
    second: 1,
    rows_with_second: 4,
    needs_f32: true,
    ..Scene::FIXED
};

/// [`DP_GD`], which the other entries differ from.
const BASE: Algorithm = Algorithm {
    id: Method::GradientDescent.id(),
    name: "DP-GD",
    source: "[003 (2.4), §5]",
    promise: "ε-DP by Laplace noise on L1-clipped gradients, every iterate public; linear rate 1 − μα",
    private: true,
    release: true,
    common: &[EVERY, LAPLACE_NOISE, PRIVACY],
    scenes: &[
        ALL_ROWS,
        Scene {
            name: "without replacement, Laplace",
            rows: 8,
            rows_with_second: 8,
            batch_size: Some(4),
            others: Row::Opposite,
            power: 0.05,
            ..ALL_ROWS
        },
    ],
    constructor: reads!(Method::GradientDescent),
};

/// `x⁺ = x − α·g̃(x)` with Laplace noise of one scale for all rounds [003 (2.4), (3.4)–(3.5)].
pub(super) static DP_GD: Algorithm = BASE;

/// `x⁺ = x − α·g̃(x) + β·(x − x₋)` with Laplace noise of one scale [003 (3.1), (3.4)–(3.5)]; DP-SHB on batches. Without
/// `momentum`, β = (1 − √(μα))/(1 + √(μα)) as in [003 §5]. Rates and exact errors are in [`crate::theory::heavy_ball`].
pub(super) static DP_HB: Algorithm = Algorithm {
    id: Method::HeavyBall.id(),
    name: "DP heavy ball",
    source: "[003 (3.1), Prop. 3.1]",
    promise: "ε-DP by Laplace noise on L1-clipped gradients, every iterate public; exact error on quadratics",
    common: &[EVERY, LAPLACE_NOISE, &[Common::momentum()], PRIVACY],
    scenes: &[ALL_ROWS],
    constructor: reads!(Method::HeavyBall),
    ..BASE
};

/// `z = (1 + β)x − βx₋, x⁺ = z − α·g̃(z)` with noise of one scale [003 (4.1), (4.4)].
pub(super) static DP_NAG: Algorithm = Algorithm {
    id: Method::Nesterov { optimized: false }.id(),
    name: "DP Nesterov",
    source: "[003 (4.1), Theorem 4.1]",
    promise: "ε-DP, every iterate public; E_T ≤ 2(1 − √(μα))^T·E_0 + noise",
    scenes: &[ALL_ROWS],
    constructor: reads!(Method::Nesterov { optimized: false }),
    ..BASE
};

/// [`DP_NAG`] with T′ ≤ T rounds and scales that minimise the error bound [003 (4.5)–(4.6)]. The weights of the bound are in
/// [`crate::theory::multistage`], the division of the budget in [`crate::theory::allocation`].
pub(super) static DP_NAG_OPT: Algorithm = Algorithm {
    id: Method::Nesterov { optimized: true }.id(),
    name: "DP Nesterov, optimised budget",
    source: "[003 §4.1, (4.5), (4.6)]",
    promise: "as dp-nag, with the rounds and the division of the budget that minimise its bound",
    scenes: &[Scene {
        parameters: &[("rounds", "2"), ("smoothness", "1"), ("strong-convexity", "0.25"), ("initial-gap", "fixed")],
        ..ALL_ROWS
    }],
    constructor: reads!(Method::Nesterov { optimized: true }, Division),
    ..BASE
};

/// Nesterov's method in stages of shrinking step sizes, momentum reset at each [003 (4.7), Theorem 4.3], with noise of one
/// scale. Stages are in [`crate::theory::multistage`].
pub(super) static DP_MASG: Algorithm = Algorithm {
    id: Method::Multistage { optimized: false }.id(),
    name: "DP multistage Nesterov",
    source: "[003 §4.2, (4.7)]",
    promise: "ε-DP, every iterate public; bound (4.8) with 2·E_0",
    scenes: &[Scene {
        parameters: &[("rounds", "2"), ("smoothness", "1"), ("strong-convexity", "0.25"), ("first-stage", "1")],
        ..ALL_ROWS
    }],
    constructor: reads!(Method::Multistage { optimized: false }, Stages),
    ..BASE
};

/// [`DP_MASG`] with the scales that minimise (4.8).
pub(super) static DP_MASG_OPT: Algorithm = Algorithm {
    id: Method::Multistage { optimized: true }.id(),
    name: "DP multistage Nesterov, optimised budget",
    source: "[003 §4.2, (4.5)–(4.8)]",
    promise: "as dp-masg, with the rounds and the division of the budget that minimise its bound",
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
    constructor: reads!(Method::Multistage { optimized: true }, Stages, Division),
    ..BASE
};

//! DP-HB (DP-SHB on batches): `x⁺ = x − α·g̃(x) + β·(x − x₋)` with Laplace noise of one scale [003 (3.1), (3.4)–(3.5)]. Without
//! `momentum`, β = (1 − √(μα))/(1 + √(μα)) as in [003 §5]. The iteration is [`super::momentum`]; rates and exact
//! errors are in [`crate::theory::heavy_ball`].

use super::Algorithm;
use super::accelerated_plan::{self, ALL_ROWS, EVERY, Method, MethodParameters};
use super::parameters::{Common, PRIVACY};

/// The catalogue's entry.
pub static DP_HB: Algorithm = Algorithm {
    id: "dp-hb",
    name: "DP heavy ball",
    source: "[003 (3.1), Prop. 3.1]",
    promise: "ε-DP by Laplace noise on L1-clipped gradients, every iterate public; exact error on quadratics",
    private: true,
    release: true,
    groups: &[EVERY, &[Common::momentum()], PRIVACY, MethodParameters::ALL],
    scenes: &[ALL_ROWS],
    constructor: |problem, settings| accelerated_plan::prepare(Method::HeavyBall, problem, settings),
};

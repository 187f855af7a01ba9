//! Table I of paper 002 as functions: what each parallel method costs to reach ε with L = R = 1, without logarithms and
//! constants.

/// What a table's row says of one (d, ε).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Cost {
    /// Adaptive rounds.
    pub query_depth: f64,
    /// Dependent vector operations.
    pub computational_depth: f64,
    /// Gradient queries.
    pub queries: f64,
}

/// A method of Table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Stochastic gradient descent [Nesterov 2018].
    Sgd,
    /// Accelerated randomised smoothing [Duchi et al. 2012].
    RandomizedSmoothing,
    /// The highly parallel higher-order method [Bubeck et al. 2019]: analytic only. Its round approximates gradients of
    /// f̂ on a whole ball from at least d queries, d^{4/3}ε^{−8/3} in all: 10¹¹ queries at d = 1,000, ε = 0.01.
    HighlyParallel,
    /// Cutting planes [Kozlov et al. 1988 through inscribed ellipsoids].
    CuttingPlane,
    /// [002 Theorem 1].
    ResqueEpochSgd,
    /// [002 Theorem 2].
    ResqueAcceleratedSa,
}

impl Method {
    /// All rows in the table's order.
    pub const ALL: [Self; 6] = [
        Self::Sgd,
        Self::RandomizedSmoothing,
        Self::HighlyParallel,
        Self::CuttingPlane,
        Self::ResqueEpochSgd,
        Self::ResqueAcceleratedSa,
    ];

    /// The row at dimension d and accuracy ε.
    pub fn cost(self, dimension: f64, accuracy: f64) -> Cost {
        let (d, e) = (dimension, accuracy);
        let resque = d.cbrt() * e.powf(-2.0 / 3.0);
        let smoothing = d.powf(0.25) / e;
        let statistics = e.powi(-2);
        match self {
            Self::Sgd => Cost {
                query_depth: statistics,
                computational_depth: statistics,
                queries: statistics,
            },
            Self::RandomizedSmoothing => Cost {
                query_depth: smoothing,
                computational_depth: smoothing,
                queries: smoothing + statistics,
            },
            Self::HighlyParallel => {
                let work = d.powf(4.0 / 3.0) * e.powf(-8.0 / 3.0);
                Cost {
                    query_depth: resque,
                    computational_depth: work,
                    queries: work,
                }
            }
            Self::CuttingPlane => Cost {
                query_depth: d,
                computational_depth: d,
                queries: d,
            },
            Self::ResqueEpochSgd => Cost {
                query_depth: resque,
                computational_depth: resque + statistics,
                queries: resque + statistics,
            },
            Self::ResqueAcceleratedSa => Cost {
                query_depth: resque,
                computational_depth: resque + smoothing,
                queries: resque + statistics,
            },
        }
    }

    /// Exponents (of d, of 1/ε) of the query depth.
    pub fn depth_exponents(self) -> (f64, f64) {
        match self {
            Self::Sgd => (0.0, 2.0),
            Self::RandomizedSmoothing => (0.25, 1.0),
            Self::CuttingPlane => (1.0, 0.0),
            Self::HighlyParallel | Self::ResqueEpochSgd | Self::ResqueAcceleratedSa => (1.0 / 3.0, 2.0 / 3.0),
        }
    }

    /// Exponents (of d, of 1/ε) of the number of queries where ε ≤ d^{−1/4}.
    pub fn query_exponents(self) -> (f64, f64) {
        match self {
            Self::HighlyParallel => (4.0 / 3.0, 8.0 / 3.0),
            Self::CuttingPlane => (1.0, 0.0),
            _ => (0.0, 2.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_the_slopes_of_the_costs() {
        // Far out, where one term of each sum rules: d = 1e30, ε = 1e-20 is in the intermediate regime.
        let (d, e, factor) = (1e30, 1e-20, 10.0f64);
        for method in Method::ALL {
            let depth = |d: f64, e: f64| method.cost(d, e).query_depth.log10();
            let (of_d, of_e) = method.depth_exponents();
            assert!((depth(d * factor, e) - depth(d, e) - of_d).abs() < 1e-9, "{method:?}");
            assert!((depth(d, e / factor) - depth(d, e) - of_e).abs() < 1e-9, "{method:?}");
            let queries = |d: f64, e: f64| method.cost(d, e).queries.log10();
            let (of_d, of_e) = method.query_exponents();
            assert!(
                (queries(d * factor, e) - queries(d, e) - of_d).abs() < 1e-6,
                "{method:?}"
            );
            assert!(
                (queries(d, e / factor) - queries(d, e) - of_e).abs() < 1e-6,
                "{method:?}"
            );
        }
    }

    #[test]
    fn in_the_intermediate_regime_resque_is_shallowest() {
        // ε ∈ [d^{−1}, d^{−1/4}].
        let (d, e) = (1e8, 1e-4);
        let depth = |method: Method| method.cost(d, e).query_depth;
        for other in [Method::Sgd, Method::RandomizedSmoothing, Method::CuttingPlane] {
            assert!(depth(Method::ResqueAcceleratedSa) < depth(other), "{other:?}");
        }
        assert!(Method::HighlyParallel.cost(d, e).queries > 1e10 * Method::ResqueEpochSgd.cost(d, e).queries);
    }
}

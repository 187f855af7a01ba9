//! Table I of paper 002: the cost of each parallel method to reach accuracy ε in dimension d with L = R = 1, without
//! logarithms and constants, as exponents of d and 1/ε.

/// A method of Table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Stochastic gradient descent [Nesterov 2018].
    Sgd,
    /// Accelerated randomised smoothing [Duchi et al. 2012].
    RandomizedSmoothing,
    /// Cutting planes [Kozlov et al. 1988 through inscribed ellipsoids].
    CuttingPlane,
    /// [002 Theorem 1].
    ResqueEpochSgd,
    /// [002 Theorem 2].
    ResqueAcceleratedSa,
}

impl Method {
    /// Exponents (of d, of 1/ε) of the query depth.
    pub fn depth_exponents(self) -> (f64, f64) {
        match self {
            Self::Sgd => (0.0, 2.0),
            Self::RandomizedSmoothing => (0.25, 1.0),
            Self::CuttingPlane => (1.0, 0.0),
            Self::ResqueEpochSgd | Self::ResqueAcceleratedSa => (1.0 / 3.0, 2.0 / 3.0),
        }
    }

    /// Exponents (of d, of 1/ε) of the number of queries where ε ≤ d^{−1/4}.
    pub fn query_exponents(self) -> (f64, f64) {
        match self {
            Self::CuttingPlane => (1.0, 0.0),
            _ => (0.0, 2.0),
        }
    }
}

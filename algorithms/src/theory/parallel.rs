//! Table I of paper 002: the cost of each parallel method to reach accuracy ε in dimension d with L = R = 1, without
//! logarithms and constants, as exponents of d and 1/ε.

/// A method of Table I that can be run. The bisection-free variant is held against Theorem 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Stochastic gradient descent, one query a round [Nesterov 2018].
    Sgd,
    /// Accelerated descent on a smoothed function [Duchi et al. 2012].
    RandomizedSmoothing,
    /// Cutting planes: analytic centres here, centres of inscribed ellipsoids in the paper's reference [Khachiyan, Tarasov and
    /// Erlikh 1988].
    CuttingPlane,
    /// Ball acceleration with EpochSGD and line search [002 Theorem 1].
    ResqueEpochSgd,
    /// Ball acceleration with AC-SA and line search [002 Theorem 2].
    ResqueAcSa,
    /// Ball acceleration with AC-SA, without a line search.
    ResqueBisectionFree,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Sgd,
        Self::RandomizedSmoothing,
        Self::CuttingPlane,
        Self::ResqueEpochSgd,
        Self::ResqueAcSa,
        Self::ResqueBisectionFree,
    ];

    /// The id in tables and results.
    pub fn id(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::RandomizedSmoothing => "randomized-smoothing",
            Self::CuttingPlane => "cutting-plane",
            Self::ResqueEpochSgd => "resque-epoch-sgd",
            Self::ResqueAcSa => "resque-ac-sa",
            Self::ResqueBisectionFree => "resque-bisection-free",
        }
    }

    /// Exponents (of d, of 1/ε) of the query depth.
    pub fn depth_exponents(self) -> (f64, f64) {
        match self {
            Self::Sgd => (0.0, 2.0),
            Self::RandomizedSmoothing => (0.25, 1.0),
            Self::CuttingPlane => (1.0, 0.0),
            Self::ResqueEpochSgd | Self::ResqueAcSa | Self::ResqueBisectionFree => (1.0 / 3.0, 2.0 / 3.0),
        }
    }

    /// Exponents (of d, of 1/ε) of the computational depth where ε ≤ d^{−1/4}.
    pub fn computational_exponents(self) -> (f64, f64) {
        match self {
            Self::ResqueEpochSgd => (0.0, 2.0),
            Self::ResqueAcSa | Self::ResqueBisectionFree => (0.25, 1.0),
            _ => self.depth_exponents(),
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

impl std::str::FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.id() == text);
        found.ok_or_else(|| format!("'{text}' is not one of {}", Self::ALL.map(Self::id).join(", ")))
    }
}

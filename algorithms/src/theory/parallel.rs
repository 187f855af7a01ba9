//! Table I of paper 002: the cost of each parallel method to reach accuracy ε in dimension d with L = R = 1, without
//! logarithms and constants, as exponents of d and 1/ε. Table II: that of private methods.

crate::choices::choices! {
    /// A method of Table I that can be run. The bisection-free variant is held against Theorem 2.
    pub enum Method {
        /// Stochastic gradient descent, one query a round [Nesterov 2018].
        Sgd = "sgd",
        /// Accelerated descent on a smoothed function [Duchi et al. 2012].
        RandomizedSmoothing = "randomized-smoothing",
        /// Cutting planes: analytic centres here, centres of inscribed ellipsoids in the paper's reference [Khachiyan, Tarasov and
        /// Erlikh 1988].
        CuttingPlane = "cutting-plane",
        /// Ball acceleration with EpochSGD and line search [002 Theorem 1].
        ResqueEpochSgd = "resque-epoch-sgd",
        /// Ball acceleration with AC-SA and line search [002 Theorem 2].
        ResqueAcSa = "resque-ac-sa",
        /// Ball acceleration with AC-SA, without a line search.
        ResqueBisectionFree = "resque-bisection-free",
    }
}

impl Method {
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

/// The optimal error of (ε, δ)-private methods with L = R = 1: `1/√n + √(d·ln(1/δ))/(nε)` [002 (1), Table II].
pub fn private_error(n: f64, d: f64, epsilon: f64, delta: f64) -> f64 {
    1.0 / n.sqrt() + (d * (1.0 / delta).ln()).sqrt() / (n * epsilon)
}

/// Gradient queries as a function of n, d and ε.
pub type Queries = fn(f64, f64, f64) -> f64;

/// Table II: gradient queries of private methods to the optimal error without logarithms and constants; Theorem 4 is the last.
pub const PRIVATE_QUERIES: [(&str, Queries); 4] = [
    ("n²: Bassily et al. 2014 and 2020, Feldman et al. 2020", |n, _, _| n * n),
    ("Asi et al. 2021", |n, d, epsilon| n.powf(1.5).min(n * n * epsilon / d.sqrt())),
    ("Kulkarni et al. 2021", |n, d, epsilon| {
        (n.powf(1.25) * d.powf(0.125) * epsilon.sqrt()).min(n.powf(1.5) * epsilon / d.powf(0.125))
    }),
    ("Theorem 4", |n, d, epsilon| {
        let near_linear = n.min((n * epsilon).powi(2) / d);
        near_linear + ((n * d).powf(2.0 / 3.0) / epsilon).min(n.powf(4.0 / 3.0) * epsilon.cbrt())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theorem_4_is_near_linear_and_below_the_others_where_the_paper_says() {
        let at = |n: f64, exponent: f64| PRIVATE_QUERIES.map(|(_, queries)| queries(n, n.powf(exponent), 1.0));
        let n = 1e12_f64;
        for exponent in [0.0, 0.25, 0.5, 1.0, 1.25] {
            let [square, asi, kulkarni, theorem] = at(n, exponent);
            assert!(theorem < kulkarni && kulkarni <= asi && asi < square, "d = n^{exponent}");
            assert_eq!(theorem < 2.1 * n, exponent <= 0.5, "d = n^{exponent}");
        }
        // From d = n^{4/3} on it improves on none.
        let [_, asi, _, theorem] = at(n, 4.0 / 3.0);
        assert!((theorem / asi).ln().abs() < 1.0, "{theorem:e} {asi:e}");
        assert!((private_error(1e4, 100.0, 0.5, (-1.0f64).exp()) - 0.012).abs() < 1e-12);
    }
}

//! Table II and Figure 1 of paper 002 as functions: gradient queries of private stochastic convex optimisation at the
//! optimal excess loss, with L = R = 1, without logarithms and constants.

/// A method of Table II.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateMethod {
    /// Bassily, Smith and Thakurta 2014 (its loss has an extra d^{1/4}).
    NoisySgd2014,
    /// Bassily, Feldman, Talwar and Thakurta 2019.
    Stable2019,
    /// Feldman, Koren and Talwar 2020.
    Localized2020,
    /// Bassily, Feldman, Guzmán and Talwar 2020.
    Subgradient2020,
    /// Asi, Feldman, Koren and Talwar 2021.
    Regularized2021,
    /// Kulkarni, Lee and Liu 2021.
    Smoothed2021,
    /// [002 Theorem 4].
    Resque,
}

impl PrivateMethod {
    /// All rows in the table's order.
    pub const ALL: [Self; 7] = [
        Self::NoisySgd2014,
        Self::Stable2019,
        Self::Localized2020,
        Self::Subgradient2020,
        Self::Regularized2021,
        Self::Smoothed2021,
        Self::Resque,
    ];

    /// Gradient queries at n examples, dimension d and privacy ε.
    pub fn queries(self, examples: f64, dimension: f64, epsilon: f64) -> f64 {
        let (n, d, e) = (examples, dimension, epsilon);
        match self {
            Self::NoisySgd2014 | Self::Localized2020 | Self::Subgradient2020 => n * n,
            Self::Stable2019 => n.powf(4.5),
            Self::Regularized2021 => n.powf(1.5).min(n * n * e / d.sqrt()),
            Self::Smoothed2021 => (n.powf(1.25) * d.powf(0.125) * e.sqrt()).min(n.powf(1.5) * e / d.powf(0.125)),
            Self::Resque => n.min(n * n * e * e / d) + ((n * d).powf(2.0 / 3.0) / e).min(n.powf(4.0 / 3.0) * e.cbrt()),
        }
    }

    /// Figure 1's axes: log_n of the queries at d = n^{`dimension_exponent`}, ε = 1, as n grows.
    pub fn query_exponent(self, dimension_exponent: f64) -> f64 {
        let n = 1e60f64;
        self.queries(n, n.powf(dimension_exponent), 1.0).ln() / n.ln()
    }
}

/// The optimal excess population loss `1/√n + √(d·ln(1/δ))/(nε)` with L = R = 1 [002 (1)].
pub fn optimal_excess_loss(examples: f64, dimension: f64, epsilon: f64, delta: f64) -> f64 {
    1.0 / examples.sqrt() + (dimension * (1.0 / delta).ln()).sqrt() / (examples * epsilon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resque_is_linear_up_to_the_root_and_best_up_to_four_thirds() {
        // Near-linear for n ≥ d²; below the others for d ≪ n^{4/3} [002 §I-B].
        assert!((PrivateMethod::Resque.query_exponent(0.5) - 1.0).abs() < 0.01);
        for exponent in [0.1, 0.5, 0.9, 1.2] {
            for other in &PrivateMethod::ALL[..6] {
                let (ours, theirs) = (
                    PrivateMethod::Resque.query_exponent(exponent),
                    other.query_exponent(exponent),
                );
                assert!(ours < theirs, "{other:?} at {exponent}: {ours} {theirs}");
            }
        }
        let crossing =
            PrivateMethod::Resque.query_exponent(4.0 / 3.0) - PrivateMethod::Regularized2021.query_exponent(4.0 / 3.0);
        assert!(crossing.abs() < 0.01, "{crossing}");
    }

    #[test]
    fn privacy_is_free_from_d_over_epsilon_squared_on() {
        let free = optimal_excess_loss(1e8, 1e4, 1.0, (-1.0f64).exp());
        assert!((free / 2e-4 - 1.0).abs() < 1.0 && free < 1.02e-4 + 1e-6, "{free}");
    }
}

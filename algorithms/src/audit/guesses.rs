//! Bounds from guesses of the coins of one run.

use crate::normal::{normal_quantile, survival};

/// Guesses of the coins of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guesses {
    /// Canaries m.
    pub canaries: usize,
    /// Guesses r, the others abstained from.
    pub guesses: usize,
    /// Right ones v.
    pub right: usize,
    /// Probability that a bound from them exceeds the truth.
    pub error: f64,
}

/// ln P[Binomial(n, p) = k], for 0 < p < 1.
pub(super) fn log_binomial(k: usize, n: usize, log_p: f64, log_other: f64) -> f64 {
    let [k, n] = [k as f64, n as f64];
    libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0) + k * log_p + (n - k) * log_other
}

/// The largest value in [0, most] that `contradicted` holds at, which holds below a point and not above.
fn largest(most: f64, contradicted: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    while high - low > 1e-7 {
        let middle = 0.5 * (low + high);
        if contradicted(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

impl Guesses {
    /// The largest ε that an (ε, δ)-DP run contradicts (Steinke, Nasr and Jagielski 2023, Theorem 3.1): with p = e^ε/(1 + e^ε),
    /// `P[≥ v right] ≤ β + 2mδ·α`, `β = P[Bin(r, p) ≥ v]`, `α = max_{1 ≤ i ≤ v} (P[Bin(r, p) ≥ v − i] − β)/i`.
    pub fn epsilon(self, delta: f64) -> f64 {
        let Self { canaries, guesses, right, error } = self;
        largest(30.0, |epsilon| {
            let (log_p, log_other) = (-(-epsilon).exp().ln_1p(), -epsilon.exp().ln_1p());
            let mass = |count: usize| log_binomial(count, guesses, log_p, log_other).exp();
            let beta: f64 = (right..=guesses).map(mass).sum();
            // P[v > Bin ≥ v − i]/i.
            let (mut above, mut alpha) = (0.0, 0.0_f64);
            for i in 1..=right {
                above += mass(right - i);
                alpha = alpha.max(above / i as f64);
            }
            beta + 2.0 * canaries as f64 * delta * alpha < error
        })
    }

    /// True if so many right guesses have a probability below that of an error on an f-DP run (Mahloujifar, Melis and Chaudhuri 2024, Algorithm 3).
    /// `least` maps the probability of an event on one of two neighbours to the least that it can have on the other, x to f(1 − x).
    ///
    /// With r_i and h_i the probabilities that a canary's guess is right, or wrong, and at least i are right, a recursion down from i = v, where
    /// both sum to τ·r/m, bounds them from below; they sum to r/m at most at i = 0.
    fn contradict(self, least: impl Fn(f64) -> f64) -> bool {
        let [canaries, guesses, right] = [self.canaries, self.guesses, self.right].map(|count| count as f64);
        let (mut is_right, mut is_wrong) = (self.error * right / canaries, self.error * (guesses - right) / canaries);
        for i in (0..self.right).rev() {
            let wrong = least(is_right).max(is_wrong);
            is_right += i as f64 / (guesses - i as f64) * (wrong - is_wrong);
            is_wrong = wrong;
            // Both only grow, and far beyond 1 without end.
            if is_right + is_wrong > guesses / canaries {
                return true;
            }
        }
        false
    }

    /// The largest μ of a Gaussian mechanism that is contradicted.
    pub fn gaussian_mu(self) -> f64 {
        largest(20.0, |mu| self.contradict(|x| if x >= 1.0 { 1.0 } else { survival(mu - normal_quantile(x)) }))
    }

    /// The same for the mechanism whose profile is (ε, δ) at these points, in both directions:
    /// `Q(E) ≥ max(0, 1 − δ − e^ε(1 − x), e^{−ε}(x − δ))` where P(E) = x.
    pub(super) fn contradict_curve(self, curve: &[(f64, f64)]) -> bool {
        self.contradict(|x| {
            let points = curve
                .iter()
                .map(|(epsilon, delta)| (1.0 - delta - epsilon.exp() * (1.0 - x)).max((-epsilon).exp() * (x - delta)));
            points.fold(0.0, f64::max)
        })
    }
}

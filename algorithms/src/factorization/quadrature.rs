//! x^(−1/2) = Σ_m w_m / (x + s_m²): the rational approximation that turns an inverse square root into shifted solves.
//!
//! [Hale, Higham & Trefethen, SIAM J. Numer. Anal. 46 (2008), method 3] The nodes come from the substitution
//! s = √m·sc(τ | k′) in x^(−1/2) = (2/π) ∫₀^∞ ds / (x + s²) with the midpoint rule; on [m, M] the relative error falls
//! like exp(−2π²N / (ln(M/m) + 3)), so 40 nodes reach 1e-13 at M/m = 1e10.

use super::lanes::{LANES, Lanes};

/// Nodes s_m² and weights w_m of x^(−1/2) ≈ Σ w_m / (x + s_m²) on [smallest, largest].
#[derive(Clone, Debug)]
pub(crate) struct InverseSquareRoot {
    /// s_m², ascending.
    shifts: Vec<f64>,
    /// w_m > 0.
    weights: Vec<f64>,
    smallest: f64,
    largest: f64,
}

impl InverseSquareRoot {
    /// The rule on [smallest, largest], 0 < smallest ≤ largest, with a relative error below 3e-14.
    pub(crate) fn on(smallest: f64, largest: f64) -> Self {
        // A margin at both ends, so that a bound off by rounding stays inside.
        let (smallest, largest) = (smallest * 0.999, largest * 1.001);
        let count = ((36.0 * ((largest / smallest).ln() + 3.0)) / (2.0 * std::f64::consts::PI.powi(2))).ceil() as usize;
        let count = count.max(4).next_multiple_of(8);
        // k = √(m/M) is the complementary modulus of k′.
        let modulus = (smallest / largest).sqrt();
        let quarter_period = std::f64::consts::FRAC_PI_2 / arithmetic_geometric_mean(1.0, modulus);
        let scale = 2.0 * quarter_period * smallest.sqrt() / (std::f64::consts::PI * count as f64);
        let node = |node: usize| {
            let argument = (node as f64 + 0.5) * quarter_period / count as f64;
            // sc(K′ − u) = 1/(k·sc u) gives the upper half, where sc itself would lose digits.
            let tangent = if argument <= 0.5 * quarter_period {
                elliptic_tangent(argument, modulus, quarter_period)
            } else {
                1.0 / (modulus * elliptic_tangent(quarter_period - argument, modulus, quarter_period))
            };
            // dn/cn² = √((1 + sc²)(1 + k²·sc²)): sums of positive terms only.
            let square = tangent * tangent;
            let weight = ((1.0 + square) * (modulus * modulus).mul_add(square, 1.0)).sqrt();
            (smallest * square, scale * weight)
        };
        let (shifts, weights) = (0..count).map(node).unzip();
        Self { shifts, weights, smallest, largest }
    }

    /// (s², w) of eight nodes at a time; partial results are combined in this order, whatever thread made them.
    pub(crate) fn groups(&self) -> Vec<(Lanes, Lanes)> {
        let lanes = |values: &[f64]| Lanes(std::array::from_fn(|lane| values[lane]));
        let [shifts, weights] = [&self.shifts, &self.weights].map(|values| values.chunks_exact(LANES).map(lanes));
        shifts.zip(weights).collect()
    }

    /// sup |√x · Σ w_m / (x + s_m²) − 1| over a fine geometric grid of the interval.
    pub(crate) fn relative_error(&self) -> f64 {
        const POINTS: usize = 4096;
        let step = (self.largest / self.smallest).ln() / (POINTS - 1) as f64;
        (0..POINTS).map(|index| self.smallest * (step * index as f64).exp()).fold(0.0, |worst: f64, x| {
            let nodes = self.shifts.iter().zip(&self.weights);
            let sum: f64 = nodes.map(|(shift, weight)| weight / (x + shift)).sum();
            worst.max((x.sqrt() * sum - 1.0).abs())
        })
    }
}

/// agm(a, b), the arithmetic-geometric mean.
fn arithmetic_geometric_mean(mut a: f64, mut b: f64) -> f64 {
    for _ in 0..64 {
        if (a - b).abs() <= 2.0 * f64::EPSILON * a {
            break;
        }
        (a, b) = (0.5 * (a + b), (a * b).sqrt());
    }
    a
}

/// sc(u | k′) = sn/cn for 0 ≤ u ≤ K′/2, where `modulus` is k, the complementary modulus, and `quarter_period` K′.
///
/// Small k: sc(u | k′) = −i·sn(iu | k) = (2π/(k·K)) Σ_n q^(n+1/2)/(1 − q^(2n+1))·sinh((2n+1)πu/(2K)), positive terms whose
/// ratio is at most √q (Whittaker & Watson 22.6). Else by descending Landen steps (Abramowitz & Stegun 16.4).
fn elliptic_tangent(u: f64, modulus: f64, quarter_period: f64) -> f64 {
    if modulus < 0.3 {
        let half = std::f64::consts::FRAC_PI_2;
        let real_period = half / arithmetic_geometric_mean(1.0, ((1.0 - modulus) * (1.0 + modulus)).sqrt());
        let nome = (-2.0 * half * quarter_period / real_period).exp();
        let argument = half * u / real_period;
        let sum: f64 = (0..12)
            .map(|n| {
                let order = f64::from(2 * n + 1);
                nome.powi(n) / (1.0 - nome.powi(2 * n + 1)) * (order * argument).sinh()
            })
            .filter(|term| term.is_finite())
            .sum();
        return 4.0 * half * nome.sqrt() / (modulus * real_period) * sum;
    }
    let mut means = vec![1.0];
    let mut halves = vec![((1.0 - modulus) * (1.0 + modulus)).max(0.0).sqrt()];
    let (mut a, mut b) = (1.0_f64, modulus);
    while (a - b).abs() > 1e-16 * a && means.len() < 64 {
        let half_difference = 0.5 * (a - b);
        (a, b) = (0.5 * (a + b), (a * b).sqrt());
        means.push(a);
        halves.push(half_difference);
    }
    let levels = means.len() - 1;
    let mut phase = 2.0_f64.powi(levels as i32) * a * u;
    for level in (1..=levels).rev() {
        phase = 0.5 * (phase + (halves[level] / means[level] * phase.sin()).asin());
    }
    phase.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_exact_to_rounding_over_wide_intervals() {
        for (smallest, largest) in [
            (1.0, 1.0),
            (1.0, 2.0),
            (1e-3, 7.0),
            (3e-9, 14.0),
            (1e-13, 1e2),
            (1e2, 1e12),
            (1.0, 1e20),
            (1.0, 10.0),
            (1.0, 13.0),
        ] {
            let error = InverseSquareRoot::on(smallest, largest).relative_error();
            assert!(error < 3e-14, "[{smallest}, {largest}]: {error:e}");
        }
    }
}

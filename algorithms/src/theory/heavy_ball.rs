//! Heavy ball with noisy gradients on strongly convex quadratics [003 §3]: the exact error and the bound of Theorem 3.5.
//!
//! Corrections used here (specification 9): B = (−α, 0)ᵀ (E13); the noise is a trace bound, so the dimension enters once,
//! and a Laplace coordinate has variance 2b² (E14).

use rounds_numerics::Mat;
use rounds_numerics::dense::{ellipsoid_cut, singular_vectors};

use super::{Curvature, QuadraticMode, TheoryError, TransitionMatrix, within};

/// `ρ = max_{λ ∈ {μ, L}} |a_{λ,±}|`, the rate on quadratics [003 (3.18)].
pub fn spectral_radius(step_size: f64, momentum: f64, curvature: Curvature) -> f64 {
    [curvature.mu(), curvature.smoothness()]
        .into_iter()
        .map(|eigenvalue| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue).spectral_radius())
        .fold(0.0, f64::max)
}

/// The β in [0, 1) that minimises ρ for a given step size α ≤ 1/L: `(1 − √(αμ))²`, the larger of the critical dampings
/// `(1 − √(αλ))²` (below it the mode of μ is overdamped and slower; above it ρ = √β grows).
pub fn fastest_momentum(step_size: f64, curvature: Curvature) -> f64 {
    let critical = |eigenvalue: f64| (1.0 - (step_size * eigenvalue).sqrt()).powi(2);
    critical(curvature.mu()).max(critical(curvature.smoothness()))
}

/// `L·m(α, β)` with `m = (σ²/2)·Σ_i 2α(1+β)/((1−β)λ_i(2+2β−αλ_i))`: the noise term of [003 (3.17)].
fn published_noise_bound(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    variance: f64,
) -> Result<f64, TheoryError> {
    within("momentum", momentum, "in [0, 1)", (0.0..1.0).contains(&momentum))?;
    let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
    let mut total = 0.0;
    for &eigenvalue in eigenvalues {
        let gap = 2.0 + 2.0 * momentum - step_size * eigenvalue;
        let quantity = "2 + 2·momentum − step size·eigenvalue";
        within(quantity, gap, "above 0 (a smaller step size)", gap > 0.0)?;
        total += variance * (step_size * (1.0 + momentum) / ((1.0 - momentum) * gap)) / eigenvalue;
    }
    Ok(largest * total)
}

/// E F(x_t) − F* for t = 0 … T on a quadratic, exactly; `variances[t]` is that of the noise of round t, a coordinate.
pub fn expected_excess(modes: &[QuadraticMode], step_size: f64, momentum: f64, variances: &[f64]) -> Vec<f64> {
    let transitions = |_, eigenvalue| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue);
    super::expected_excess(modes, variances.len(), transitions, |t| (step_size, variances[t]))
}

/// `log10(C_t²·ρ^{2t}·V(ξ_0) + L·m(α, β))` with C_t = t and `V(ξ_0) = ‖ξ_0 − ξ*‖² + σ²α²/(1 − ρ²)`: the curve that
/// [003 Figure 1] draws, in a form that neither overflows nor underflows.
///
/// # Errors
/// β outside [0, 1), αλ_i ≥ 2 + 2β, a rate of 1 or more.
pub fn published_bound_log10(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    initial_squared_distance: f64,
    variance: f64,
    rounds: usize,
) -> Result<f64, TheoryError> {
    let of_mode = |&eigenvalue: &f64| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue);
    let rates = eigenvalues.iter().map(|eigenvalue| of_mode(eigenvalue).spectral_radius());
    let rate = rates.fold(0.0, f64::max);
    within("rate", rate, "below 1", rate < 1.0)?;
    let noise = published_noise_bound(step_size, momentum, eigenvalues, variance)?;
    let start = initial_squared_distance + variance * step_size * step_size / (1.0 - rate * rate);
    let time = rounds as f64;
    Ok((time * time * rate.powf(2.0 * time) * start + noise).log10())
}

/// c_0 and the entries P_11, P_12, P_22 of a solution of the linear matrix inequality (3.14), at c = 1.
type Unknowns = [f64; 4];

/// The bound (3.15) of [003 Proposition 3.4] on F ∈ S_{μ,L}, quadratic or not: the rates ρ² = 1 − 10^{−k/16}, k = 1 … 64, for
/// which (3.14) has a solution.
pub struct Proposition34 {
    curvature: Curvature,
    step_size: f64,
    momentum: f64,
    squared_rates: Vec<f64>,
}

impl Proposition34 {
    /// The solvable rates of a step size α and a momentum β.
    pub fn new(curvature: Curvature, step_size: f64, momentum: f64) -> Self {
        let mut bound = Self { curvature, step_size, momentum, squared_rates: Vec::new() };
        let rates = (1..=64).map(|k| 1.0 - 10_f64.powf(f64::from(k) / -16.0));
        bound.squared_rates = rates.filter(|&rate| bound.solution(rate, [0.0; 4]).is_some()).collect();
        bound
    }

    /// diag(c_0·X_0 + X_1 + (1 − ρ²)·X_2 − Φ(A, B, P, ρ), P, c_0) of [003 (3.14)], affine in the unknowns; solutions are where it is
    /// positive semidefinite. B = (−α, 0)ᵀ (erratum E13), d = 1. Its upper triangle is given as (row, column, entry).
    fn inequality(&self, squared_rate: f64, [c, p, q, r]: Unknowns) -> [(usize, usize, f64); 10] {
        let (mu, smooth, alpha, beta) =
            (self.curvature.mu(), self.curvature.smoothness(), self.step_size, self.momentum);
        let (grown, gap) = (1.0 + beta, 1.0 - squared_rate);
        let (curved, mixed) = (0.5 * smooth * beta * beta, 0.5 * (1.0 - smooth * alpha) * beta);
        let kept = grown * grown * p + 2.0 * grown * q + r - squared_rate * p;
        [
            (0, 0, 2.0 * mu * smooth * c - curved + 0.5 * gap * mu - kept),
            (0, 1, curved + beta * (grown * p + q) + squared_rate * q),
            (0, 2, -c * (mu + smooth) - mixed - 0.5 * gap + alpha * (grown * p + q)),
            (1, 1, -curved - beta * beta * p + squared_rate * r),
            (1, 2, mixed - alpha * beta * p),
            (2, 2, 2.0 * c + alpha * (1.0 - 0.5 * smooth * alpha) - alpha * alpha * p),
            (3, 3, p),
            (3, 4, q),
            (4, 4, r),
            (5, 5, c),
        ]
    }

    /// The solution with the least ⟨cost, unknowns⟩, to a thousandth, by the ellipsoid method; any solution where the cost is 0. None where the
    /// ellipsoid, at first the ball of radius 1000, has none left.
    fn solution(&self, squared_rate: f64, cost: Unknowns) -> Option<Unknowns> {
        let quadratic_form = |unknowns: Unknowns, vector: &dyn Fn(usize) -> f64| -> f64 {
            let entries = self.inequality(squared_rate, unknowns).into_iter();
            let terms = entries.map(|(i, j, entry)| if i == j { 1.0 } else { 2.0 } * entry * vector(i) * vector(j));
            terms.sum()
        };
        let mut centre = [0.0; 4];
        let mut shape: [f64; 16] = std::array::from_fn(|place| if place % 5 == 0 { 1e6 } else { 0.0 });
        let mut best: Option<(f64, Unknowns)> = None;
        for _ in 0..2_000 {
            // Shifted by its norm the matrix has its eigenvalues as singular values.
            let entries = self.inequality(squared_rate, centre);
            let shift = 2.0 * entries.iter().map(|(.., entry)| entry.abs()).sum::<f64>();
            let mut matrix = Mat::from_fn(6, 6, |i, j| if i == j { shift } else { 0.0 });
            for (i, j, entry) in entries {
                matrix[(i, j)] += entry;
                matrix[(j, i)] = matrix[(i, j)];
            }
            let (values, vectors) = singular_vectors(matrix.as_ref())?;
            let violation = shift - values[5];
            let is_solution = violation <= 1e-12 * shift;
            let normal = if is_solution {
                let value = cost.iter().zip(&centre).map(|(cost, unknown)| cost * unknown).sum();
                if best.is_none_or(|(least, _)| value < least) {
                    best = Some((value, centre));
                }
                cost
            } else {
                let least = |i: usize| vectors[(i, 5)];
                let constant = quadratic_form([0.0; 4], &least);
                std::array::from_fn(|place| {
                    let unit = std::array::from_fn(|other| if other == place { 1.0 } else { 0.0 });
                    constant - quadratic_form(unit, &least)
                })
            };
            let width = ellipsoid_cut(&mut centre, &mut shape, &normal);
            let is_done = if is_solution {
                best.is_some_and(|(least, _)| width <= 1e-3 * least.abs())
            } else {
                violation > width
            };
            if is_done {
                break;
            }
        }
        best.map(|(_, unknowns)| unknowns)
    }

    /// The least of [003 (3.15)] over the rates, or none without a rate:
    ///
    /// ```text
    /// ρ^{2t}·V_{P,1}(ξ_0) + (1 − ρ^{2t})/(1 − ρ²)·(Lα²/2)·E‖w‖²·(1 + 2P_12²/(P_22·L + 2|P|))
    /// ```
    ///
    /// for x_{−1} = x_0 at this squared distance and excess; E‖w‖² is a trace (erratum E14).
    pub fn bound(&self, squared_distance: f64, excess: f64, trace: f64, rounds: usize) -> Option<f64> {
        let smoothness = self.curvature.smoothness();
        let weights = |rate: f64| {
            let left = rate.powf(rounds as f64);
            (left, (1.0 - left) / (1.0 - rate) * 0.5 * smoothness * self.step_size * self.step_size * trace)
        };
        // At P = 0: no solution has less.
        let least = |rate: f64| weights(rate).0 * excess + weights(rate).1;
        let mut rates = self.squared_rates.clone();
        rates.sort_by(|a, b| least(*a).total_cmp(&least(*b)));
        let mut best: Option<f64> = None;
        for rate in rates {
            if best.is_some_and(|best| best <= least(rate)) {
                break;
            }
            let (left, noise) = weights(rate);
            let start = left * squared_distance;
            // The last factor of the bound is at most 1 + 2·P_11/L.
            let cost = [0.0, start + 2.0 * noise / smoothness, 2.0 * start, start];
            let Some([_, p, q, r]) = self.solution(rate, cost) else {
                continue;
            };
            let below = r * smoothness + 2.0 * (p * r - q * q);
            let factor = if below > 0.0 { 1.0 + 2.0 * q * q / below } else { 1.0 };
            let bound = left * (squared_distance * (p + 2.0 * q + r) + excess) + noise * factor;
            best = Some(best.map_or(bound, |best| best.min(bound)));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::tests::uniform_numbers;

    fn curvature(mu: f64, smoothness: f64) -> Curvature {
        Curvature::new(mu, smoothness).unwrap()
    }

    #[test]
    fn without_momentum_the_rate_is_that_of_gradient_descent() {
        let class = curvature(0.5, 2.0);
        for step_size in [0.1, 0.3, 0.5] {
            let expected = (1.0 - step_size * 0.5_f64).abs().max((1.0 - step_size * 2.0_f64).abs());
            assert!((spectral_radius(step_size, 0.0, class) - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn fastest_momentum_beats_every_other_on_a_grid() {
        let class = curvature(0.5, 1.0);
        for step_size in [0.01, 0.1, 0.5, 1.0] {
            let best = spectral_radius(step_size, fastest_momentum(step_size, class), class);
            for index in 0..1_000 {
                let momentum = f64::from(index) / 1_000.0;
                let other = spectral_radius(step_size, momentum, class);
                assert!(best <= other + 1e-12, "{step_size} {momentum}");
            }
        }
    }

    #[test]
    fn propagated_moments_approach_the_stationary_excess() {
        let eigenvalues = [0.5, 1.0, 1.7];
        let modes = eigenvalues.map(|eigenvalue| QuadraticMode { eigenvalue, start: 3.0 });
        for (step_size, momentum) in [(0.5, 0.0), (0.5, 0.4), (0.2, 0.8), (1.0, 0.3)] {
            let exact = expected_excess(&modes, step_size, momentum, &vec![0.04; 2_000]);
            // Σ_i (s²/2)·α(1+β)/((1−β)(2+2β−αλ_i)) (specification 6.4).
            let stationary: f64 = eigenvalues
                .iter()
                .map(|eigenvalue| {
                    0.02 * step_size * (1.0 + momentum)
                        / ((1.0 - momentum) * (2.0 + 2.0 * momentum - step_size * eigenvalue))
                })
                .sum();
            assert!((exact[2_000] / stationary - 1.0).abs() < 1e-10, "{stationary}");
        }
    }

    #[test]
    fn simulated_heavy_ball_has_the_exact_excess() {
        // Seeded xorshift noise, uniform with variance s² = 1/12: only second moments matter on a quadratic.
        let (step_size, momentum, eigenvalue, runs, rounds) = (0.4, 0.6, 1.3, 40_000, 25);
        let mut uniform = uniform_numbers(0x9e37_79b9_7f4a_7c15);
        let mut squares = 0.0;
        let mut fourths = 0.0;
        for _ in 0..runs {
            let (mut now, mut before) = (0.2_f64, 0.2_f64);
            for _ in 0..rounds {
                (now, before) =
                    (now - step_size * (eigenvalue * now + uniform() - 0.5) + momentum * (now - before), now);
            }
            squares += now * now;
            fourths += now.powi(4);
        }
        let mean = squares / f64::from(runs);
        let error = ((fourths / f64::from(runs) - mean * mean) / f64::from(runs)).sqrt() * 0.5 * eigenvalue;
        let modes = [QuadraticMode { eigenvalue, start: 0.2 }];
        let exact = expected_excess(&modes, step_size, momentum, &vec![1.0 / 12.0; rounds]);
        // 4.9 standard errors: α = 1e-6.
        let difference = 0.5 * eigenvalue * mean - exact[rounds];
        assert!(difference.abs() < 4.9 * error, "{mean} {error} {difference}");
    }

    #[test]
    fn the_exact_error_lies_under_theorem_3_5_in_every_round() {
        let eigenvalues = [0.5, 0.7, 1.0];
        let modes = eigenvalues.map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        // ‖ξ_0 − ξ*‖² of the stacked start (x_0, x_0).
        let distance = 2.0 * 3.0 * 4.0;
        for (step_size, momentum) in [(0.1, 0.0), (0.1, 0.6), (0.5, 0.25), (1.0, 0.08), (1.0, 0.9)] {
            for variance in [0.0, 1e-4, 1.0] {
                let exact = expected_excess(&modes, step_size, momentum, &[variance; 150]);
                for (rounds, &excess) in exact.iter().enumerate().skip(1) {
                    let bound = published_bound_log10(step_size, momentum, &eigenvalues, distance, variance, rounds);
                    let what = format!("α = {step_size}, β = {momentum}, σ² = {variance}, t = {rounds}: {excess}");
                    assert!(excess.log10() <= bound.unwrap() + 1e-9, "{what}");
                }
            }
        }
    }

    #[test]
    fn proposition_3_4_has_the_rate_of_gradient_descent_without_momentum_and_none_at_large_momentum() {
        let class = curvature(0.01, 1.0);
        // (1 − αμ)² at a step of 1/L is the rate of gradient descent, and 1 − αμ has the solution P = 0, c_0 = 0.
        let rates = Proposition34::new(class, 1.0, 0.0).squared_rates;
        assert!(rates[0] >= 0.99_f64.powi(2) && rates[0] <= 0.99, "{}", rates[0]);
        assert!(Proposition34::new(class, 1.0, 0.81).squared_rates.is_empty());
        // The quadratic of the class with eigenvalue μ has the rate ρ itself.
        for (step_size, momentum) in [(1.0, 0.25), (0.5, 0.5), (0.1, 0.9)] {
            let rates = Proposition34::new(class, step_size, momentum).squared_rates;
            let exact = spectral_radius(step_size, momentum, class).powi(2);
            assert!(rates[0] >= exact, "{} {exact}", rates[0]);
        }
    }

    #[test]
    fn the_exact_error_lies_under_proposition_3_4_and_close_to_it_where_noise_is_left() {
        let class = curvature(0.5, 1.0);
        let modes = [0.5, 0.7, 1.0].map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        for (step_size, momentum) in [(0.1, 0.0), (0.1, 0.6), (0.5, 0.25), (1.0, 0.0), (1.0, 0.08)] {
            let proposition = Proposition34::new(class, step_size, momentum);
            for variance in [0.0, 1e-4, 1.0] {
                let exact = expected_excess(&modes, step_size, momentum, &[variance; 150]);
                let ratio = |rounds: usize| {
                    let bound = proposition.bound(12.0, exact[0], 3.0 * variance, rounds);
                    bound.unwrap() / exact[rounds]
                };
                for rounds in [1, 10, 40] {
                    assert!(ratio(rounds) >= 1.0, "α = {step_size}, β = {momentum}: {}", ratio(rounds));
                }
                assert!(variance == 0.0 || ratio(150) < 3.0, "{step_size} {momentum}: {}", ratio(150));
            }
        }
    }

    #[test]
    fn divergent_parameters_are_refused() {
        assert!(published_bound_log10(0.1, 1.0, &[1.0], 1.0, 1.0, 10).is_err());
        assert!(published_bound_log10(5.0, 0.1, &[1.0], 1.0, 1.0, 10).is_err());
    }
}

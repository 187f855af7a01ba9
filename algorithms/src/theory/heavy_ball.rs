//! Heavy ball with noisy gradients on strongly convex quadratics [003 §3]: the exact error and the bound of Theorem 3.5.
//!
//! Corrections used here (specification 9): B = (−α, 0)ᵀ (E13); the noise is a trace bound, so the dimension enters once,
//! and a Laplace coordinate has variance 2b² (E14).

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
    let rates = eigenvalues
        .iter()
        .map(|eigenvalue| of_mode(eigenvalue).spectral_radius());
    let rate = rates.fold(0.0, f64::max);
    within("rate", rate, "below 1", rate < 1.0)?;
    let noise = published_noise_bound(step_size, momentum, eigenvalues, variance)?;
    let start = initial_squared_distance + variance * step_size * step_size / (1.0 - rate * rate);
    let time = rounds as f64;
    Ok((time * time * rate.powf(2.0 * time) * start + noise).log10())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::uniform_numbers;

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
                (now, before) = (
                    now - step_size * (eigenvalue * now + uniform() - 0.5) + momentum * (now - before),
                    now,
                );
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
    fn divergent_parameters_are_refused() {
        assert!(published_bound_log10(0.1, 1.0, &[1.0], 1.0, 1.0, 10).is_err());
        assert!(published_bound_log10(5.0, 0.1, &[1.0], 1.0, 1.0, 10).is_err());
    }
}

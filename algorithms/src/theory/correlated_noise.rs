//! Gradient descent with linearly correlated noise ([001 §4], specification 5): `x_{t+1} = x_t − γ·(∇f(x_t) + w_t)`, w = C⁻¹Z
//! with rows of Z of expected squared length σ² (sens(C) included: erratum E11), f convex and L-smooth.

use super::{QuadraticMode, TheoryError, within};

/// `‖x_0 − x*‖²/(γ(T + 1)) + γσ²`, a bound on the mean of `E f(x_t) − f*` over t ≤ T for independent noise (PGD, B = S);
/// [001 Proposition 4.4] with its constants (specification 5.3).
///
/// # Errors
/// γ > 1/(2L).
pub fn independent_bound(
    squared_distance: f64,
    step_size: f64,
    smoothness: f64,
    rounds: usize,
    squared_noise: f64,
) -> Result<f64, TheoryError> {
    within(
        "step size",
        step_size,
        "at most 1/(2L)",
        step_size > 0.0 && step_size <= 0.5 / smoothness * (1.0 + 1e-12),
    )?;
    Ok(squared_distance / (step_size * (rounds as f64 + 1.0)) + step_size * squared_noise)
}

/// `2‖x_0 − x*‖²/(γ(T + 1)) + 4Lγ²σ²`, the same for anti-correlated noise (Anti-PGD, B = I); [001 Proposition 4.5], whose
/// proof needs γ ≤ 1/(4L) (erratum E12).
///
/// # Errors
/// γ > 1/(4L).
pub fn anti_correlated_bound(
    squared_distance: f64,
    step_size: f64,
    smoothness: f64,
    rounds: usize,
    squared_noise: f64,
) -> Result<f64, TheoryError> {
    within(
        "step size",
        step_size,
        "at most 1/(4L)",
        step_size > 0.0 && step_size <= 0.25 / smoothness * (1.0 + 1e-12),
    )?;
    Ok(2.0 * squared_distance / (step_size * (rounds as f64 + 1.0))
        + 4.0 * smoothness * step_size * step_size * squared_noise)
}

/// The noise term in brackets of [001 Theorems 4.6 and 4.7], of the rows b_1 … b_T of B:
///
/// ```text
/// (1/τ)·Σ_t ‖b_t − b_{⌊t/τ⌋τ}‖² + Σ_{τ | t} ‖b_t − b_{t−τ}‖²     and, for convex f, + ‖b_{⌊T/τ⌋τ}‖²
/// ```
///
/// The last one is not in Λ_τ's objective (specification 5.3).
pub fn restart_term(rows: &[Vec<f64>], tau: usize, convex: bool) -> f64 {
    let zero = Vec::new();
    // b_0 = 0; rows may be cut after their last non-zero entry.
    let row = |t: usize| if t == 0 { &zero } else { &rows[t - 1] };
    let distance = |t: usize, s: usize| -> f64 {
        let (left, right) = (row(t), row(s));
        (0..left.len().max(right.len()))
            .map(|i| (left.get(i).unwrap_or(&0.0) - right.get(i).unwrap_or(&0.0)).powi(2))
            .sum()
    };
    let rounds = rows.len();
    let within: f64 = (1..=rounds).map(|t| distance(t, t / tau * tau)).sum();
    let restarts: f64 = (1..=rounds / tau).map(|k| distance(k * tau, (k - 1) * tau)).sum();
    let last = if convex { distance(rounds / tau * tau, 0) } else { 0.0 };
    within / tau as f64 + restarts + last
}

/// `‖x_0 − x*‖²/(γT) + σ²/(T·L·τ)·[…]`, [001 Theorem 4.7] without its unstated constant: ratios between factorisations are
/// what it says.
pub fn convex_rate(
    squared_distance: f64,
    step_size: f64,
    smoothness: f64,
    tau: usize,
    squared_noise: f64,
    rows: &[Vec<f64>],
) -> f64 {
    let rounds = rows.len() as f64;
    squared_distance / (step_size * rounds)
        + squared_noise / (rounds * smoothness * tau as f64) * restart_term(rows, tau, true)
}

/// `E(f(x_t) − f*)` and `E‖∇f(x_t)‖²` for t = 0 … T on a quadratic, exactly (specification 5.3): along the direction of
/// eigenvalue λ,
///
/// ```text
/// E e_t = (1 − γλ)^t·e_0,     Var e_t = γ²s²·‖r_t‖²,     r_t = (1 − γλ)·r_{t−1} + row_t(C⁻¹)
/// ```
///
/// s² is the variance of an entry of Z. `inverse` are the rows of C⁻¹, each up to its diagonal.
pub fn quadratic_moments(
    modes: &[QuadraticMode],
    step_size: f64,
    variance: f64,
    inverse: &[Vec<f64>],
) -> (Vec<f64>, Vec<f64>) {
    let rounds = inverse.len();
    let (mut excess, mut gradient) = (vec![0.0; rounds + 1], vec![0.0; rounds + 1]);
    for mode in modes {
        let decay = 1.0 - step_size * mode.eigenvalue;
        let mut response = vec![0.0; rounds];
        let mut mean = mode.start;
        for t in 0..=rounds {
            let spread = if t == 0 {
                0.0
            } else {
                mean *= decay;
                for (value, entry) in response.iter_mut().zip(&inverse[t - 1]) {
                    *value = decay * *value + entry;
                }
                step_size * step_size * variance * response[..t].iter().map(|value| value * value).sum::<f64>()
            };
            let second = mean * mean + spread;
            excess[t] += 0.5 * mode.eigenvalue * second;
            gradient[t] += mode.eigenvalue * mode.eigenvalue * second;
        }
    }
    (excess, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B of independent (S) and anti-correlated (I) noise.
    fn rows(rounds: usize, anti: bool) -> Vec<Vec<f64>> {
        (0..rounds)
            .map(|t| (0..=t).map(|s| if anti && s < t { 0.0 } else { 1.0 }).collect())
            .collect()
    }

    /// C⁻¹ of the same: I, and first differences.
    fn inverse(rounds: usize, anti: bool) -> Vec<Vec<f64>> {
        (0..rounds)
            .map(|t| {
                (0..=t)
                    .map(|s| match t - s {
                        0 => 1.0,
                        1 if anti => -1.0,
                        _ => 0.0,
                    })
                    .collect()
            })
            .collect()
    }

    fn modes() -> Vec<QuadraticMode> {
        [0.0, 0.3, 1.0, 4.0, 10.0]
            .map(|eigenvalue| QuadraticMode { eigenvalue, start: 1.5 })
            .to_vec()
    }

    #[test]
    fn the_exact_error_of_quadratics_stays_below_both_bounds() {
        let (smoothness, rounds, variance) = (10.0, 300, 0.04);
        let squared_distance = 4.0 * 1.5 * 1.5;
        let squared_noise = variance * modes().len() as f64;
        for anti in [false, true] {
            for step_size in [0.002, 0.01, 0.025] {
                let (excess, _) = quadratic_moments(&modes(), step_size, variance, &inverse(rounds, anti));
                let mean = excess.iter().sum::<f64>() / excess.len() as f64;
                let bound = if anti { anti_correlated_bound } else { independent_bound };
                let bound = bound(squared_distance, step_size, smoothness, rounds, squared_noise).unwrap();
                assert!(mean <= bound, "{anti} {step_size}: {mean} > {bound}");
                assert!(
                    mean > 0.01 * bound,
                    "{anti} {step_size}: a bound of {bound} says nothing of {mean}"
                );
            }
        }
        assert!(independent_bound(1.0, 0.06, smoothness, rounds, 1.0).is_err());
        assert!(anti_correlated_bound(1.0, 0.03, smoothness, rounds, 1.0).is_err());
    }

    #[test]
    fn anti_correlated_noise_costs_a_factor_of_step_times_smoothness_less() {
        let variance = 1.0;
        let still: Vec<_> = modes()
            .into_iter()
            .map(|mode| QuadraticMode { start: 0.0, ..mode })
            .collect();
        let mean = |anti| {
            let (excess, _) = quadratic_moments(&still, 0.01, variance, &inverse(400, anti));
            excess.iter().sum::<f64>() / excess.len() as f64
        };
        // γ·L = 0.1.
        assert!(mean(true) < 0.35 * mean(false), "{} {}", mean(true), mean(false));
    }

    #[test]
    fn restart_terms_have_the_orders_of_the_paper() {
        // B = S: differences of rows at most τ apart have length up to √τ: (1/τ)·T·τ/2 + T = 3T/2; B = I: 2T/τ + 2T/τ.
        let (rounds, tau) = (960, 16);
        let independent = restart_term(&rows(rounds, false), tau, false) / rounds as f64;
        let anti = restart_term(&rows(rounds, true), tau, false) * tau as f64 / rounds as f64;
        assert!((1.2..1.6).contains(&independent), "{independent}");
        assert!((2.5..4.1).contains(&anti), "{anti}");
    }

    #[test]
    fn restart_terms_are_the_objective_of_lambda_tau() {
        // ‖Λ_τ·B‖² by the matrix, for B = S.
        let (rounds, tau) = (24, 5);
        let lambda = crate::factorization::lambda_tau_matrix(rounds, tau);
        let squared: f64 = (0..rounds)
            .flat_map(|t| (0..rounds).map(move |s| (t, s)))
            .map(|(t, s)| (s..rounds).map(|k| lambda[(t, k)]).sum::<f64>().powi(2))
            .sum();
        let term = restart_term(&rows(rounds, false), tau, false);
        assert!((squared / term - 1.0).abs() < 1e-12, "{squared} {term}");
    }

    #[test]
    fn convex_rates_rank_factorisations_by_their_restart_terms() {
        let rate = |anti| convex_rate(1.0, 0.01, 10.0, 10, 1.0, &rows(500, anti));
        assert!(rate(true) < rate(false));
    }
}

//! Gradient descent with linearly correlated noise ([001 §4], specification 5): `x_{t+1} = x_t − γ·(∇f(x_t) + w_t)`, w = C⁻¹Z
//! with rows of Z of expected squared length σ² (sens(C) included: erratum E11), f convex and L-smooth.

use super::QuadraticMode;

/// The noise terms in brackets of [001 Theorem 4.6] and [001 Theorem 4.7], of the rows b_1 … b_T of B:
///
/// ```text
/// (1/τ)·Σ_t ‖b_t − b_{⌊t/τ⌋τ}‖² + Σ_{τ | t} ‖b_t − b_{t−τ}‖²,     the same + ‖b_{⌊T/τ⌋τ}‖²
/// ```
///
/// The first is the objective of Λ_τ. The second is for convex f (specification 5.3).
pub fn restart_terms(rows: &[Vec<f64>], tau: usize) -> [f64; 2] {
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
    let last = distance(rounds / tau * tau, 0);
    let both = within / tau as f64 + restarts;
    [both, both + last]
}

/// `‖x_0 − x*‖²/(γT) + γL̃² + γζL̃·sens(C)·‖B‖_F/√T`, the order of the mean excess of x_0 … x_T that [001 (5)] cites for L̃-Lipschitz f, with
/// constant 1. ζ² is the expected squared length of a row of Z before sens(C).
pub fn lipschitz_order(
    squared_distance: f64,
    step_size: f64,
    rounds: usize,
    lipschitz: f64,
    noise: f64,
    (sensitivity, frobenius): (f64, f64),
) -> f64 {
    let rounds = rounds as f64;
    squared_distance / (step_size * rounds)
        + step_size * lipschitz * (lipschitz + noise * sensitivity * frobenius / rounds.sqrt())
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

    #[test]
    fn restart_terms_are_the_objective_of_lambda_tau_and_the_last_restart() {
        // ‖Λ_τ·B‖² by the matrix, for B = S, and ‖b_20‖² = 20.
        let (rounds, tau) = (24, 5);
        let lambda = crate::factorization::tests::lambda_tau_matrix(rounds, tau);
        let entry = |t: usize, s: usize| (s..rounds).map(|k| lambda[(t, k)]).sum::<f64>();
        let row = |t: usize| (0..rounds).map(|s| entry(t, s).powi(2)).sum::<f64>();
        let squared: f64 = (0..rounds).map(row).sum();
        let rows: Vec<Vec<f64>> = (1..=rounds).map(|t| vec![1.0; t]).collect();
        let [both, all] = restart_terms(&rows, tau);
        assert!((squared / both - 1.0).abs() < 1e-12, "{squared} {both}");
        assert!(((squared + 20.0) / all - 1.0).abs() < 1e-12, "{squared} {all}");
    }

    /// The remark on (5): with B = S and C = I its last term grows as γζL̃√(T/2) where SGD's does not.
    #[test]
    fn the_lipschitz_order_of_independent_noise_grows_with_the_root_of_the_rounds() {
        let of = |rounds: usize| {
            let count = rounds as f64;
            lipschitz_order(4.0, 0.1, rounds, 2.0, 3.0, (1.0, (0.5 * count * (count + 1.0)).sqrt()))
        };
        assert!((of(1) - (40.0 + 0.1 * 2.0 * (2.0 + 3.0))).abs() < 1e-12);
        assert!((of(40_000) / of(10_000) - 2.0).abs() < 0.01);
    }

    /// The mean excess of the last round on `(L/2)·‖x‖²` from the optimum, in one dimension, with noise of variance 1 and C⁻¹ of a row
    /// (its last entries).
    fn stationary(step_size: f64, smoothness: f64, rounds: usize, row: &[f64]) -> f64 {
        let modes = [QuadraticMode { eigenvalue: smoothness, start: 0.0 }];
        let inverse: Vec<Vec<f64>> = (1..=rounds)
            .map(|t| {
                let mut full = vec![0.0; t];
                let kept = row.len().min(t);
                full[t - kept..].copy_from_slice(&row[row.len() - kept..]);
                full
            })
            .collect();
        quadratic_moments(&modes, step_size, 1.0, &inverse).0[rounds]
    }

    /// [001 Appendix E]: the noise terms of (11), γσ², and (12), Lγ²σ², are tight on (L/2)·‖x‖². Exactly, the risk tends to
    /// `γσ²/(2(2 − γL))` under independent noise and to `Lγ²σ²/(2 − γL)` under anti-correlated noise.
    #[test]
    fn the_noise_terms_of_pgd_and_anti_pgd_are_tight_on_a_quadratic() {
        for smoothness in [1.0, 10.0] {
            for share in [0.01, 0.1, 0.49] {
                let step = share / smoothness;
                let independent = stationary(step, smoothness, 2_000, &[1.0]);
                let anti = stationary(step, smoothness, 2_000, &[-1.0, 1.0]);
                assert!((independent / (step / (2.0 * (2.0 - share))) - 1.0).abs() < 1e-9);
                assert!((anti / (smoothness * step * step / (2.0 - share)) - 1.0).abs() < 1e-9);
            }
        }
    }

    /// [001 Appendix A]: factorisations of S whose sens(C)·‖B‖_F agree within √2 for every T, of which one keeps the risk bounded and
    /// the other does not: B = S, C = I (√(T(T+1)/2)) and B = I, C = S (√T·√T).
    #[test]
    fn the_frobenius_norm_does_not_tell_bounded_from_unbounded_noise() {
        let (step, smoothness) = (0.04, 10.0);
        let risks = |rounds: usize| {
            let independent = stationary(step, smoothness, rounds, &[1.0]);
            // sens(S)² = T.
            let anti = rounds as f64 * stationary(step, smoothness, rounds, &[-1.0, 1.0]);
            [independent, anti]
        };
        let (few, many) = (risks(100), risks(1_600));
        assert!(many[0] < 1.01 * few[0], "{few:?} {many:?}");
        assert!((many[1] / few[1] - 16.0).abs() < 0.1, "{few:?} {many:?}");
    }
}

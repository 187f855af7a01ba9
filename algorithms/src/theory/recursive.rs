//! The accelerated method of papers 000 and 004 with noisy gradients: its bound, its exact error on quadratics, its step constant
//! ([000 §4], specification 4.1 and 10.1). Weights are η_t = t + 1, so that η_{0:t} = (t + 1)(t + 2)/2.

use super::QuadraticMode;

/// `β = M + T^{3/2}·√V/(√12·R)`, the β that minimises Bound A (specification 4.1, 10.1) for fresh gradients (ζ = 1/2),
/// V = L²/B + dσ².
pub fn best_beta(smoothness: f64, rounds: usize, variance: f64, distance: f64) -> f64 {
    smoothness + (rounds as f64).powf(1.5) * variance.sqrt() / (12_f64.sqrt() * distance)
}

fn summed_weights(t: usize) -> f64 {
    0.5 * (t + 1) as f64 * (t + 2) as f64
}

/// Bound A at ζ = 1/2, for errors `V_t = E‖η_t·e_t‖²` of the gradients:
///
/// ```text
/// E F(y_T) − F* ≤ [ β·‖x* − z_0‖² + Σ_{t < T} ( η_{0:t}/(2(β − M))·V_t/η_t² + √V_t·D_t ) ] / η_{0:T−1}
/// ```
///
/// D_t bounds √E‖z_t − x*‖² where the error is correlated with the past, and is 0 for fresh gradients. `errors(t)` gives
/// (V_t, D_t). It holds for any β > M, which [000 Theorem 4.7] with its printed constants does not (errata E3, E4).
pub fn bound_a(
    (smoothness, beta): (f64, f64),
    squared_distance: f64,
    rounds: usize,
    errors: impl Fn(usize) -> (f64, f64),
) -> f64 {
    let terms = (0..rounds).map(|t| {
        let (variance, distance) = errors(t);
        let eta = (t + 1) as f64;
        summed_weights(t) / (2.0 * (beta - smoothness)) * variance / (eta * eta) + variance.sqrt() * distance
    });
    (beta * squared_distance + terms.sum::<f64>()) / summed_weights(rounds - 1)
}

/// `2·(M·b_max + 2M·D + L)`, a bound on ‖η_t·∇f(x_t; d) − η_{t−1}·∇f(x_{t−1}; d)‖ for every example d and round t
/// ([000 Claim 4.2], [004 Lemma 5.9] before its second inequality, erratum E23). D is the diameter of the domain, b_max bounds the noise
/// ‖N_t‖/β of a step, and β ≥ 2MT.
pub fn difference_bound(smoothness: f64, lipschitz: f64, diameter: f64, most_noise: f64) -> f64 {
    2.0 * (smoothness * most_noise + 2.0 * smoothness * diameter + lipschitz)
}

/// `Q²·(t + 1)/(B·η_t²) = Q²/(B·(t + 1))`, a bound on E‖g_t − ∇F(x_t)‖² without noise [000 §4.4.1, proof of Theorem 4.7]. Q bounds the
/// distance of a difference from its mean over the population.
pub fn recursion_error_bound(spread: f64, batch: usize, t: usize) -> f64 {
    spread * spread / (batch * (t + 1)) as f64
}

/// `c_t·η + c_t − c_{t−1}` at c_t = t + 1: about the length of a difference of the unaccelerated recursion with steps η and
/// L = M = D = 1. [000 §4.3] prints c_t·η, which round 0 refutes; the rest is the specification's 4.3.
pub fn unaccelerated_difference(step_size: f64, t: usize) -> f64 {
    (t + 1) as f64 * step_size + 1.0
}

/// `t·η²/B`, about the variance of g_{t−1} of the unaccelerated recursion with steps η; tB/n for η = B/√n [000 §4.3].
pub fn unaccelerated_variance(step_size: f64, batch: usize, t: usize) -> f64 {
    t as f64 * step_size * step_size / batch as f64
}

/// Exact moments of a run on a quadratic.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// E F(y_t) − F* for t = 1 … T.
    pub excess: Vec<f64>,
    /// E‖z_t − x*‖² for t = 0 … T − 1.
    pub mirror: Vec<f64>,
}

/// Moments of the method at ζ = 1/2 without projection; every round draws noise of `variance` a coordinate. It is that of the
/// gradient, or, if `recursive`, that of the increments of η_t·g_t, which sum up: `V_t = d·variance·η_t²` or
/// `V_t = d·variance·(t + 1)`.
///
/// Along an eigenvector λ the state (y, z, n) is linear in the noise ν: with `x = (1 − τ_t)y + τ_t·z`, `τ_t = 2/(t + 2)` and
/// g = λx + n, `y⁺ = x − g/β` and `z⁺ = z − η_t·g/(2β)`; n = ν, or η_t·n = η_{t−1}·n₋ + ν.
pub fn expected_moments(modes: &[QuadraticMode], rounds: usize, beta: f64, variance: f64, recursive: bool) -> Moments {
    let mut moments = Moments { excess: vec![0.0; rounds], mirror: vec![0.0; rounds] };
    for &QuadraticMode { eigenvalue, start } in modes {
        let mut mean = [start, start, 0.0];
        let mut covariance = [[0.0_f64; 3]; 3];
        for t in 0..rounds {
            moments.mirror[t] += mean[1] * mean[1] + covariance[1][1];
            let (eta, tau) = ((t + 1) as f64, 2.0 / (t + 2) as f64);
            let (carried, fresh) = if recursive { (t as f64 / eta, 1.0 / eta) } else { (0.0, 1.0) };
            // Rows of the transition, and the factors of ν.
            let noise =
                |factor: f64| [-factor * eigenvalue * (1.0 - tau), -factor * eigenvalue * tau, -factor * carried];
            let (step, mirror_step) = (1.0 / beta, eta / (2.0 * beta));
            let (along, across) = (noise(step), noise(mirror_step));
            let transition = [
                [along[0] + 1.0 - tau, along[1] + tau, along[2]],
                [across[0], across[1] + 1.0, across[2]],
                [0.0, 0.0, carried],
            ];
            let drawn = [-step * fresh, -mirror_step * fresh, fresh];
            let apply = |matrix: &[[f64; 3]; 3], i: usize, j: usize| -> f64 {
                (0..3).map(|k| transition[i][k] * matrix[k][j]).sum()
            };
            let half: [[f64; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| apply(&covariance, i, j)));
            covariance = std::array::from_fn(|i| {
                std::array::from_fn(|j| {
                    let spread: f64 = (0..3).map(|k| half[i][k] * transition[j][k]).sum();
                    spread + variance * drawn[i] * drawn[j]
                })
            });
            mean = std::array::from_fn(|i| (0..3).map(|k| transition[i][k] * mean[k]).sum());
            moments.excess[t] += 0.5 * eigenvalue * (mean[0] * mean[0] + covariance[0][0]);
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_errors_lie_under_bound_a_and_within_a_hundredth_of_it() {
        let modes = [0.002, 0.05, 0.3, 1.0].map(|eigenvalue| QuadraticMode { eigenvalue, start: 1.5 });
        let squared_distance = 4.0 * 2.25;
        for (recursive, variance) in [(false, 0.0), (false, 0.01), (true, 0.0), (true, 0.01)] {
            for beta in [2.0, 20.0, 400.0] {
                let moments = expected_moments(&modes, 200, beta, variance, recursive);
                for rounds in [1, 10, 200] {
                    let error = |t: usize| {
                        let spread =
                            4.0 * variance * if recursive { (t + 1) as f64 } else { ((t + 1) * (t + 1)) as f64 };
                        (spread, if recursive { moments.mirror[t].sqrt() } else { 0.0 })
                    };
                    let bound = bound_a((1.0, beta), squared_distance, rounds, error);
                    let exact = moments.excess[rounds - 1];
                    assert!(exact <= bound, "{recursive} {variance} {beta} {rounds}: {exact} > {bound}");
                    assert!(exact >= 1e-4 * bound, "{recursive} {variance} {beta} {rounds}: {exact} of {bound}");
                }
            }
        }
    }

    #[test]
    fn moments_are_those_of_simulated_runs() {
        let mode = QuadraticMode { eigenvalue: 0.5, start: 2.0 };
        let (rounds, beta, variance, seeds) = (12, 3.0, 0.09_f64, 40_000);
        for recursive in [false, true] {
            let mut uniform = crate::theory::tests::uniform_numbers(7);
            let mut total = 0.0;
            for _ in 0..seeds {
                let (mut y, mut z, mut sum) = (2.0, 2.0, 0.0);
                for t in 0..rounds {
                    let (eta, tau) = ((t + 1) as f64, 2.0 / (t + 2) as f64);
                    // A uniform number of the same variance.
                    let drawn = (uniform() - 0.5) * (12.0 * variance).sqrt();
                    sum += drawn;
                    let x = (1.0 - tau) * y + tau * z;
                    let gradient = 0.5 * x + if recursive { sum / eta } else { drawn };
                    (y, z) = (x - gradient / beta, z - eta / (2.0 * beta) * gradient);
                }
                total += 0.25 * y * y / f64::from(seeds);
            }
            let exact = expected_moments(&[mode], rounds, beta, variance, recursive).excess[rounds - 1];
            assert!((total / exact - 1.0).abs() < 0.02, "{recursive}: {total} {exact}");
        }
    }
}

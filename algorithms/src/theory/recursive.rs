//! Stochastic recursive gradients: how large their differences are, how far their recursion strays, and what the
//! accelerated method loses by it ([000 §4], [004 §5]; specification 4.1 to 4.3).
//!
//! Constants are those of a convex F whose per-example losses are L-Lipschitz and M-smooth on a ball of diameter D,
//! weights are η_t = t + 1, η_{0:t} = (t + 1)(t + 2)/2.

use super::{TheoryError, within};

/// `η_{0:t} = Σ_{i ≤ t} (i + 1)`.
fn summed_weights(t: usize) -> f64 {
    let t = t as f64;
    0.5 * (t + 1.0) * (t + 2.0)
}

/// `2·(M·b_max + 2·M·D + L)`, a bound on `‖η_t·∇f(x_t; d) − η_{t−1}·∇f(x_{t−1}; d)‖` for β ≥ 2MT when no noise vector
/// (divided by β) is longer than b_max ([000 Claim 4.2]; D is the diameter, erratum E26).
///
/// # Errors
/// β < 2MT: the induction of the claim needs it.
pub fn difference_bound(
    beta: f64,
    rounds: usize,
    lipschitz: f64,
    smoothness: f64,
    diameter: f64,
    largest_noise: f64,
) -> Result<f64, TheoryError> {
    let needed = 2.0 * smoothness * rounds as f64;
    within("beta", beta, "at least 2·M·T", beta >= needed)?;
    Ok(2.0 * (smoothness * largest_noise + 2.0 * smoothness * diameter + lipschitz))
}

/// `V_t = E‖η_t·(g_t − ∇F(x_t))‖²` of the recursion, at most `Q²(t + 1)/B + d·v`: Q bounds the distance of a difference to
/// its mean (2S, if S bounds the differences and none is clipped), v is the variance of the noise of prefix t a
/// coordinate, on the mean of a batch.
pub fn recursive_variance(t: usize, spread: f64, batch: usize, dimension: usize, prefix_variance: f64) -> f64 {
    spread * spread * (t + 1) as f64 / batch as f64 + dimension as f64 * prefix_variance
}

/// `V_t = η_t²·(L²/B + d·σ²)` of fresh mini-batch gradients with noise of variance σ² a coordinate.
pub fn independent_variance(t: usize, lipschitz: f64, batch: usize, dimension: usize, variance: f64) -> f64 {
    ((t + 1) as f64).powi(2) * (lipschitz * lipschitz / batch as f64 + dimension as f64 * variance)
}

/// What [`accelerated_bound`] reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceleratedRun {
    /// β > M.
    pub beta: f64,
    /// ζ ≤ 1/2 of the z-step.
    pub zeta: f64,
    /// M.
    pub smoothness: f64,
    /// ‖x* − z_0‖.
    pub distance: f64,
    /// T.
    pub rounds: usize,
    /// `max ‖z − x*‖` over the ball for gradients whose error is correlated with the past (the recursion); 0 for fresh
    /// ones, whose error has mean 0 whatever happened before.
    pub correlation_radius: f64,
}

/// Bound A (specification 4.1, 10.1):
///
/// ```text
/// E F(y_T) − F* ≤ [ β/(2ζ)·‖x* − z_0‖² + Σ_{t < T} ( η_{0:t}/(2(β − M))·V_t/η_t² + √V_t·D_z ) ] / η_{0:T−1}
/// ```
///
/// It holds for any β > M, which [000 Theorem 4.7] with its printed constants does not (errata E3, E4).
///
/// # Errors
/// β ≤ M, or ζ outside (0, 1/2]: η_t²/η_{0:t} < 2 is absorbed by ζ.
pub fn accelerated_bound(run: &AcceleratedRun, variances: impl Fn(usize) -> f64) -> Result<f64, TheoryError> {
    within("beta", run.beta, "more than M", run.beta > run.smoothness)?;
    within(
        "zeta",
        run.zeta,
        "a number in (0, 1/2]",
        run.zeta > 0.0 && run.zeta <= 0.5,
    )?;
    within("rounds", run.rounds as f64, "at least 1", run.rounds > 0)?;
    let mut total = run.beta / (2.0 * run.zeta) * run.distance * run.distance;
    for t in 0..run.rounds {
        let (variance, weight) = (variances(t), (t + 1) as f64);
        total += summed_weights(t) / (2.0 * (run.beta - run.smoothness)) * variance / (weight * weight)
            + variance.sqrt() * run.correlation_radius;
    }
    Ok(total / summed_weights(run.rounds - 1))
}

/// `β = M + T^{3/2}·√V/(√12·R)`, the β that minimises Bound A for fresh gradients (ζ = 1/2), V = L²/B + dσ².
pub fn best_beta(smoothness: f64, rounds: usize, variance: f64, distance: f64) -> f64 {
    smoothness + (rounds as f64).powf(1.5) * variance.sqrt() / (12_f64.sqrt() * distance)
}

/// `β·‖x* − z_0‖²/(ζ·T(T + 1))`, what is left of Bound A without noise and with full batches: Nesterov's rate.
pub fn noiseless_bound(beta: f64, zeta: f64, distance: f64, rounds: usize) -> f64 {
    beta / (2.0 * zeta) * distance * distance / summed_weights(rounds - 1)
}

/// `t·B/n`, the order of Var(g_t) of the unaccelerated recursion with steps of length B/√n and L = M = D = 1: the
/// variance of a single example's gradient at t ~ n/B, whatever B ([000 §4.3]).
pub fn unaccelerated_variance(t: usize, batch: usize, examples: usize) -> f64 {
    t as f64 * batch as f64 / examples as f64
}

/// `Σ_{i ≤ t} E‖w_i·∇f(x_i) − w_{i−1}·∇f(x_{i−1})‖²/(B·w_t²)`, a bound on the variance of the unaccelerated recursion,
/// from bounds on its differences: `‖…‖ ≤ (w_i − w_{i−1})·L + w_{i−1}·M·‖x_i − x_{i−1}‖`, w_t = (t + 1)^k.
pub fn unaccelerated_variance_bound(
    steps: &[f64],
    power: f64,
    lipschitz: f64,
    smoothness: f64,
    batch: usize,
) -> Vec<f64> {
    let weight = |t: usize| (t as f64 + 1.0).powf(power);
    let mut squares = 0.0;
    (0..=steps.len())
        .map(|t| {
            let difference = match t.checked_sub(1) {
                None => lipschitz,
                Some(before) => (weight(t) - weight(before)) * lipschitz + weight(before) * smoothness * steps[before],
            };
            squares += difference * difference;
            squares / (batch as f64 * weight(t) * weight(t))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: AcceleratedRun = AcceleratedRun {
        beta: 50.0,
        zeta: 0.5,
        smoothness: 0.25,
        distance: 2.0,
        rounds: 100,
        correlation_radius: 0.0,
    };

    #[test]
    fn best_beta_is_where_the_bound_is_least() {
        let (lipschitz, batch, dimension, sigma) = (1.0, 100, 10, 0.02);
        let variance = lipschitz * lipschitz / batch as f64 + dimension as f64 * sigma * sigma;
        let best = best_beta(RUN.smoothness, RUN.rounds, variance, RUN.distance);
        let bound = |beta| {
            accelerated_bound(&AcceleratedRun { beta, ..RUN }, |t| {
                independent_variance(t, lipschitz, batch, dimension, sigma * sigma)
            })
            .unwrap()
        };
        // The closed form takes Σ η_{0:t} ≈ T³/6: right to the order 1/T.
        assert!(bound(best) <= bound(1.1 * best) && bound(best) <= bound(0.9 * best));
    }

    #[test]
    fn without_noise_the_bound_is_nesterovs() {
        let bound = accelerated_bound(&RUN, |_| 0.0).unwrap();
        assert!((bound / noiseless_bound(50.0, 0.5, 2.0, 100) - 1.0).abs() < 1e-12);
        assert!((bound / (2.0 * 50.0 * 4.0 / (100.0 * 101.0)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn constants_outside_the_assumptions_are_refused() {
        assert!(accelerated_bound(&AcceleratedRun { beta: 0.2, ..RUN }, |_| 0.0).is_err());
        assert!(accelerated_bound(&AcceleratedRun { zeta: 1.0, ..RUN }, |_| 0.0).is_err());
        assert!(difference_bound(49.0, 100, 1.0, 0.25, 4.0, 0.0).is_err());
        assert_eq!(
            difference_bound(50.0, 100, 1.0, 0.25, 4.0, 1.0),
            Ok(2.0 * (0.25 + 2.0 + 1.0))
        );
    }

    #[test]
    fn the_variance_of_large_batches_does_not_fall_without_acceleration() {
        // Steps of length B/√n over n/B rounds, as the sketch assumes: the bound stays of order 1 at the end.
        let examples = 10_000;
        let last: Vec<f64> = [10, 100, 1_000]
            .into_iter()
            .map(|batch| {
                let steps = vec![batch as f64 / 100.0; examples / batch];
                *unaccelerated_variance_bound(&steps, 1.0, 0.0, 1.0, batch)
                    .last()
                    .unwrap()
            })
            .collect();
        for (variance, batch) in last.iter().zip([10, 100, 1_000]) {
            let sketch = unaccelerated_variance(examples / batch, batch, examples);
            assert!((0.1..=1.1).contains(&(variance / sketch)), "{variance} {sketch}");
        }
    }
}

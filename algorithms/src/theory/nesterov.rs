//! Nesterov's method with noisy gradients on S_{μ,L} [003 §4.1]: its Lyapunov function and the error bounds (4.2)–(4.3)
//! and (4.8), repaired.
//!
//! The recursion printed in [003 Theorem 4.1] is stated for E_t = E F(x_t) − F*, which the method without noise already
//! violates; it holds for the Lyapunov function V_t below (specification 6.4, E21). Since V_0 ≤ 2·E_0, the error bound
//! carries a factor 2 on E_0 and is otherwise as printed; (4.8) is an inequality.

use super::multistage::Schedule;
use super::{Curvature, QuadraticMode, TransitionMatrix};

/// `V(x, x₋) = F(x) − F* + ‖(x − x*)/√(2α) + (√(μ/2) − 1/√(2α))·(x₋ − x*)‖²` for one coordinate-wise pair of distances.
///
/// `E V_t ≤ (1 − √(μα))·E V_{t−1} + α(1 + αL)·E‖w_t‖²/2` for α ≤ 1/L and β of [`Curvature::momentum`]; E‖w‖² = 2·d·b²
/// for Laplace(b) noise, plus σ_s² of subsampling.
///
/// # Panics
/// Distances of different lengths.
pub fn lyapunov(gap: f64, distance: &[f64], previous_distance: &[f64], step_size: f64, mu: f64) -> f64 {
    assert_eq!(
        distance.len(),
        previous_distance.len(),
        "distances of different dimensions"
    );
    let inverse = 1.0 / (2.0 * step_size).sqrt();
    let factor = (0.5 * mu).sqrt() - inverse;
    let squares = distance
        .iter()
        .zip(previous_distance)
        .map(|(now, before)| (inverse * now + factor * before).powi(2));
    gap + squares.sum::<f64>()
}

/// `E_T ≤ 2·a_{T,0}·E_0 + Σ_t a_{T,t}·(d·b_t² + σ_s²/2)` [003 (4.3), (4.8), repaired]; `half_traces[t − 1]` is the noise of
/// the round that produces x_t, half the trace of its covariance: d·b_t² + σ_s²/2 for Laplace, (d·s_t² + σ_s²)/2 for
/// Gaussian noise.
///
/// # Panics
/// Another number of rounds than the schedule's.
pub fn error_bound(schedule: &Schedule, initial_gap: f64, half_traces: &[f64]) -> f64 {
    assert_eq!(half_traces.len(), schedule.rounds(), "one noise level a round");
    let noise: f64 = schedule
        .log_weights()
        .iter()
        .zip(half_traces)
        .map(|(weight, half)| weight.exp() * half)
        .sum();
    2.0 * schedule.log_initial_weight().exp() * initial_gap + noise
}

/// E F(x_t) − F* for t = 0 … T on a quadratic, exactly, with momentum reset at every stage (no stage changes: Nesterov's
/// method); `variances[t]` is that of the noise of round t, a coordinate.
///
/// # Panics
/// More rounds than the schedule's.
pub fn expected_excess(modes: &[QuadraticMode], schedule: &Schedule, variances: &[f64]) -> Vec<f64> {
    let curvature = schedule.curvature();
    super::expected_excess(
        modes,
        variances.len(),
        |t, eigenvalue| {
            let step_size = schedule.step_size(t);
            // A reset sets x_prev = x, which leaves z = x whatever β is.
            let momentum = if schedule.starts_stage(t) {
                0.0
            } else {
                curvature.momentum(step_size)
            };
            TransitionMatrix::nesterov(step_size, momentum, eigenvalue)
        },
        |t| (schedule.step_size(t), variances[t]),
    )
}

/// `ρ = max_{λ ∈ {μ, L}} |eigenvalue|` of Nesterov's recursion on quadratics; `1 − √(μα)` or less.
pub fn spectral_radius(step_size: f64, curvature: Curvature) -> f64 {
    let momentum = curvature.momentum(step_size);
    [curvature.mu(), curvature.smoothness()]
        .into_iter()
        .map(|eigenvalue| TransitionMatrix::nesterov(step_size, momentum, eigenvalue).spectral_radius())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGENVALUES: [f64; 4] = [0.01, 0.07, 0.4, 1.0];

    fn class() -> Curvature {
        Curvature::new(0.01, 1.0).unwrap()
    }

    fn gap(distance: &[f64]) -> f64 {
        EIGENVALUES
            .iter()
            .zip(distance)
            .map(|(eigenvalue, e)| 0.5 * eigenvalue * e * e)
            .sum()
    }

    #[test]
    fn the_lyapunov_function_shrinks_without_noise_and_the_printed_recursion_does_not_hold() {
        let class = class();
        let (mut now, mut before) = ([1.0, -2.0, 0.5, 3.0], [1.0, -2.0, 0.5, 3.0]);
        let mut violations = 0;
        for _ in 0..200 {
            let beta = class.momentum(1.0);
            let next: [f64; 4] =
                std::array::from_fn(|i| (1.0 - EIGENVALUES[i]) * ((1.0 + beta) * now[i] - beta * before[i]));
            let shrunk = 0.9 * lyapunov(gap(&now), &now, &before, 1.0, 0.01);
            assert!(lyapunov(gap(&next), &next, &now, 1.0, 0.01) <= shrunk * (1.0 + 1e-12) + 1e-15);
            violations += usize::from(gap(&next) > 0.9 * gap(&now) * (1.0 + 1e-12));
            (before, now) = (now, next);
        }
        assert!(violations > 0, "E_t itself is expected to violate (4.2) as printed");
    }

    #[test]
    fn the_initial_lyapunov_value_is_at_most_twice_the_gap() {
        let distance = [0.3, -1.0, 2.0, 0.1];
        for step_size in [0.1, 0.5, 1.0] {
            let value = lyapunov(gap(&distance), &distance, &distance, step_size, 0.01);
            let squared: f64 = distance.iter().map(|e| e * e).sum();
            assert!((value - gap(&distance) - 0.005 * squared).abs() < 1e-12);
            assert!(value <= 2.0 * gap(&distance));
        }
    }

    #[test]
    fn exact_errors_of_one_and_of_several_stages_lie_under_their_bound() {
        let class = class();
        let modes = EIGENVALUES.map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        let start = gap(&[2.0; 4]);
        let schedules = [
            Schedule::constant(class, 1.0, 150).unwrap(),
            Schedule::constant(class, 0.2, 150).unwrap(),
            Schedule::multistage(class, 1.0, 1, None, 150).unwrap(),
            Schedule::multistage(class, 0.5, 1, Some(20), 150).unwrap(),
        ];
        for full in schedules {
            for rounds in 1..=150 {
                let schedule = full.truncated(rounds);
                let variances: Vec<f64> = (0..rounds).map(|t| 0.02 / (1.0 + t as f64)).collect();
                let exact = expected_excess(&modes, &schedule, &variances)[rounds];
                let halves: Vec<f64> = variances.iter().map(|variance| 2.0 * variance).collect();
                let bound = error_bound(&schedule, start, &halves);
                assert!(exact <= bound * (1.0 + 1e-9), "{rounds}: {exact} > {bound}");
            }
        }
    }

    #[test]
    fn the_rate_on_quadratics_is_at_most_that_of_the_bound() {
        for step_size in [0.01, 0.3, 1.0] {
            assert!(spectral_radius(step_size, class()) <= 1.0 - (0.01 * step_size).sqrt() + 1e-12);
        }
    }
}

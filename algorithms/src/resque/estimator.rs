//! The ReSQue estimator's weights: in the log domain, their moments, and where they are valid ([002 Definition 2,
//! Lemmas 1 and 2], specification 7.1).
//!
//! ```text
//! w(v, ξ) = γ_ρ(v − ξ)/γ_ρ(ξ) = exp((2⟨v, ξ⟩ − ‖v‖²)/(2ρ²)),     v = x − x̄,  ξ ~ N(0, ρ²I)
//! E[w(v, ξ)·g(x̄ + ξ)] = ∇f̂_ρ(x),     f̂_ρ(x) = E f(x + ξ)
//! ```
//!
//! A query point x̄ + ξ does not depend on x, so one round of queries serves every x near x̄.
//!
//! **Linear models.** ξ enters `w·g` only through the K scalars `s_k = ⟨a, ξ_k⟩` of the margins and through ⟨v, ξ⟩. Where
//! every ξ serves one point only and g is one example's gradient, these K + 1 scalars may be drawn instead of ξ, with
//! the same law: [`super::projected`].

use super::{ResqueError, Result};

/// `ln w = (2⟨v, ξ⟩ − ‖v‖²)/(2ρ²)` from the two scalars.
pub(super) fn log_weight(inner_product: f64, squared_offset: f64, radius: f64) -> f64 {
    (2.0 * inner_product - squared_offset) / (2.0 * radius * radius)
}

/// `w = e^{log_weight}`.
///
/// # Errors
/// An exponent above 709 (the weight would be infinite) or NaN: the point lies far outside the ball of validity.
pub(super) fn weight(log_weight: f64) -> Result<f64> {
    if log_weight <= 709.0 { Ok(log_weight.exp()) } else { Err(ResqueError::WeightOverflow) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::dot;
    use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

    const TEST: Purpose = Purpose(0x7e57);

    fn normals(round: u64, count: usize) -> Vec<f64> {
        let mut z = vec![0f32; count];
        fill_gaussian(&StreamKey::Simulation(41), TEST, round, 1.0, &mut z);
        z.into_iter().map(f64::from).collect()
    }

    /// `E w^p = exp((p² − p)‖v‖²/(2ρ²))`, exact for every real p (specification 7.1; the display of [002 (7)] prints twice
    /// the exponent at p = 2, its constant 3 ≥ e stands).
    fn weight_moment(power: f64, distance: f64, radius: f64) -> f64 {
        ((power * power - power) * distance * distance / (2.0 * radius * radius)).exp()
    }

    #[test]
    fn weights_have_their_exact_moments() {
        let (radius, count) = (0.3, 400_000);
        for dimension in [1, 4, 17] {
            let direction = normals(90 + dimension as u64, dimension);
            let scale = 0.25 * radius / dot(&direction, &direction).sqrt();
            let v: Vec<f64> = direction.iter().map(|z| z * scale).collect();
            let squared = dot(&v, &v);
            let z = normals(dimension as u64, count / 4 * dimension);
            let weigh = |z: &[f64]| weight(log_weight(radius * dot(z, &v), squared, radius)).unwrap();
            let weights: Vec<f64> = z.chunks_exact(dimension).map(weigh).collect();
            for power in [1.0, 2.0, 3.0] {
                let expected = weight_moment(power, squared.sqrt(), radius);
                let mean = weights.iter().map(|w| w.powf(power)).sum::<f64>() / weights.len() as f64;
                let variance = weight_moment(2.0 * power, squared.sqrt(), radius) - expected * expected;
                let close = (mean - expected).abs() < 4.9 * (variance / weights.len() as f64).sqrt();
                assert!(close, "d = {dimension}, p = {power}: {mean} for {expected}");
            }
        }
    }

    #[test]
    fn the_second_moment_on_the_ball_is_at_most_three_and_lemma_two_holds() {
        assert!(weight_moment(2.0, 1.0, 1.0) < 3.0);
        for power in [2.0, 3.0, 8.0] {
            assert!(weight_moment(power, 1.0 / power, 1.0) <= 2.0, "{power}");
            // E|w(v) − w(v′)|^p by quadrature along the line of v and v′ (the worst case is collinear).
            for (v, other) in [(1.0 / power, -1.0 / power), (1.0 / power, 0.9 / power), (0.0, 0.01)] {
                let step = 1e-3;
                let moment: f64 = (-12_000..12_000)
                    .map(|i| {
                        let z = f64::from(i) * step;
                        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
                        let difference =
                            log_weight(v * z, v * v, 1.0).exp() - log_weight(other * z, other * other, 1.0).exp();
                        difference.abs().powf(power) * density * step
                    })
                    .sum();
                // E|w(v) − w(v′)|^p ≤ (24p‖x − x′‖/ρ)^p for ‖v‖, ‖v′‖ ≤ ρ/p and p ≥ 2 [002 Lemma 2].
                let bound = (24.0 * power * (v - other).abs()).powf(power);
                assert!(moment <= bound, "p = {power}, v = {v}");
            }
        }
    }

    #[test]
    fn overflowing_weights_are_refused() {
        assert!(weight(700.0).is_ok());
        assert!(matches!(weight(710.0), Err(ResqueError::WeightOverflow)));
        assert!(matches!(weight(f64::NAN), Err(ResqueError::WeightOverflow)));
    }
}

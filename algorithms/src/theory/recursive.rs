//! The step constant of the accelerated method with fresh gradients ([000 §4], specification 4.1).

/// `β = M + T^{3/2}·√V/(√12·R)`, the β that minimises Bound A (specification 4.1, 10.1) for fresh gradients (ζ = 1/2),
/// V = L²/B + dσ².
pub fn best_beta(smoothness: f64, rounds: usize, variance: f64, distance: f64) -> f64 {
    smoothness + (rounds as f64).powf(1.5) * variance.sqrt() / (12_f64.sqrt() * distance)
}

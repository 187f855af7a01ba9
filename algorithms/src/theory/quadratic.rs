//! Exact moments of linear recursions with momentum on a quadratic: one 2×2 system an eigenvalue.

/// One eigendirection of a quadratic: F − F* = Σ_i λ_i·e_i²/2, e_i the distance to the optimum along direction i.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuadraticMode {
    /// Eigenvalue λ > 0.
    pub eigenvalue: f64,
    /// e_0: where the method starts (x_{−1} = x_0).
    pub start: f64,
}

/// A of `(e_{t+1}, e_t)ᵀ = A·(e_t, e_{t−1})ᵀ − (α·w_t, 0)ᵀ`; its second row is (1, 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransitionMatrix {
    /// Factor of e_t.
    pub current: f64,
    /// Factor of e_{t−1}.
    pub previous: f64,
}

impl TransitionMatrix {
    /// Heavy ball: `(1 + β − αλ, −β)` [003 (B.10)].
    pub fn heavy_ball(step_size: f64, momentum: f64, eigenvalue: f64) -> Self {
        Self { current: 1.0 + momentum - step_size * eigenvalue, previous: -momentum }
    }

    /// `max |eigenvalue|`: the rate of the recursion.
    pub fn spectral_radius(self) -> f64 {
        let discriminant = self.current * self.current + 4.0 * self.previous;
        if discriminant < 0.0 {
            (-self.previous).sqrt()
        } else {
            f64::midpoint(self.current.abs(), discriminant.sqrt())
        }
    }
}

/// `E F(x_t) − F*` for t = 0 … T, exactly: mean and covariance of (e_t, e_{t−1}) are propagated a mode,
/// `m ← A·m`, `P ← A·P·Aᵀ + diag(α²s², 0)` (specification 6.4).
///
/// `transitions(t, λ)` is the matrix of round t (0-based), `steps(t)` gives (α_t, s_t²): the step size and the variance
/// of the gradient noise, a coordinate.
pub fn expected_excess(
    modes: &[QuadraticMode],
    rounds: usize,
    transitions: impl Fn(usize, f64) -> TransitionMatrix,
    steps: impl Fn(usize) -> (f64, f64),
) -> Vec<f64> {
    let mut excess = vec![0.0; rounds + 1];
    for mode in modes {
        // Mean (e_t, e_{t−1}) and covariance (p, q; q, r).
        let (mut now, mut before) = (mode.start, mode.start);
        let (mut p, mut q, mut r) = (0.0, 0.0, 0.0);
        excess[0] += 0.5 * mode.eigenvalue * now * now;
        for (t, total) in excess[1..].iter_mut().enumerate() {
            let TransitionMatrix { current: a, previous: b } = transitions(t, mode.eigenvalue);
            let (step_size, variance) = steps(t);
            (now, before) = (a * now + b * before, now);
            (p, q, r) = (a * a * p + 2.0 * a * b * q + b * b * r + step_size * step_size * variance, a * p + b * q, p);
            *total += 0.5 * mode.eigenvalue * (now * now + p);
        }
    }
    excess
}

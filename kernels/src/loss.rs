//! Losses of linear models: value and residual (the derivative with respect to the margins) in closed form.
//!
//! Source: ALGORITHMS table of losses; stable evaluation by max subtraction (softmax) and sign branches (logistic).

/// A loss φ of the margins `u = W·a` of one row; the per-example gradient is `residual ⊗ a`, of rank one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Multinomial logistic (softmax cross-entropy) with `K ≥ 2` classes: residual `softmax(u) − e_y`.
    Softmax,
    /// Binary logistic, y = ±1: `ln(1 + e^{−yu})`, residual `−y σ(−yu)`.
    Logistic,
    /// `(u − y)²/2`, residual `u − y`.
    Squared,
    /// Huber with threshold `h > 0`: residual `clamp(u − y, −h, h)`.
    Huber(f32),
    /// `max(0, 1 − yu)`, y = ±1: residual `−y·1[yu < 1]`.
    Hinge,
    /// `|u − y|`, residual `sign(u − y)`, 0 at 0.
    Absolute,
}

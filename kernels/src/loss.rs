//! Losses of linear models: value and residual (the derivative with respect to the margins) in closed form.
//!
//! Source: specification section 1, table of losses; stable evaluation by max subtraction (softmax) and sign branches
//! (logistic).

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

/// What one row's margins are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// A class in `0..K`.
    Class(usize),
    /// A real; ±1 for the logistic and hinge losses.
    Value(f64),
}

impl Loss {
    /// φ(u; target) in f64, the plain scalar reference. `margins` has K values.
    ///
    /// # Panics
    /// Softmax with a real target, or another loss with a class or more than one margin.
    pub fn value(self, margins: &[f64], target: Target) -> f64 {
        match (self, target) {
            (Loss::Softmax, Target::Class(class)) => {
                let max = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = margins.iter().map(|margin| (margin - max).exp()).sum();
                sum.ln() + max - margins[class]
            }
            (loss, Target::Value(y)) if loss != Loss::Softmax && margins.len() == 1 => {
                let u = margins[0];
                match loss {
                    Loss::Logistic => {
                        let z = y * u;
                        (-z).max(0.0) + (-z.abs()).exp().ln_1p()
                    }
                    Loss::Squared => 0.5 * (u - y) * (u - y),
                    Loss::Huber(h) => {
                        let (h, distance) = (f64::from(h), (u - y).abs());
                        if distance <= h {
                            0.5 * distance * distance
                        } else {
                            h * (distance - 0.5 * h)
                        }
                    }
                    Loss::Hinge => (1.0 - y * u).max(0.0),
                    Loss::Absolute | Loss::Softmax => (u - y).abs(),
                }
            }
            (loss, target) => panic!(
                "{loss:?} with {} margins cannot be compared with {target:?}",
                margins.len()
            ),
        }
    }

    /// ∂φ/∂u at `margins` in f64, written over them: the plain scalar reference.
    ///
    /// # Panics
    /// As [`Loss::value`].
    pub fn residual(self, margins: &mut [f64], target: Target) {
        match (self, target) {
            (Loss::Softmax, Target::Class(class)) => {
                let max = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                margins.iter_mut().for_each(|margin| *margin = (*margin - max).exp());
                let sum: f64 = margins.iter().sum();
                margins.iter_mut().for_each(|margin| *margin /= sum);
                margins[class] -= 1.0;
            }
            (loss, Target::Value(y)) if loss != Loss::Softmax && margins.len() == 1 => {
                let u = margins[0];
                margins[0] = match loss {
                    Loss::Logistic => {
                        let z = y * u;
                        let decay = (-z.abs()).exp();
                        -y * if z > 0.0 {
                            decay / (1.0 + decay)
                        } else {
                            1.0 / (1.0 + decay)
                        }
                    }
                    Loss::Squared => u - y,
                    Loss::Huber(h) => (u - y).clamp(-f64::from(h), f64::from(h)),
                    Loss::Hinge => {
                        if y * u < 1.0 {
                            -y
                        } else {
                            0.0
                        }
                    }
                    Loss::Absolute | Loss::Softmax => {
                        if u == y {
                            0.0
                        } else {
                            (u - y).signum()
                        }
                    }
                };
            }
            (loss, target) => panic!(
                "{loss:?} with {} margins cannot be compared with {target:?}",
                margins.len()
            ),
        }
    }
}

impl Loss {
    /// m with smoothness `M = m·‖a‖²` of the per-example loss; `None` where the loss is not smooth.
    ///
    /// Softmax: λ_max(diag(p) − ppᵀ) ≤ 1/2; logistic: σ′ ≤ 1/4; squared and Huber: 1.
    pub fn smoothness_factor(self) -> Option<f64> {
        match self {
            Self::Softmax => Some(0.5),
            Self::Logistic => Some(0.25),
            Self::Squared | Self::Huber(_) => Some(1.0),
            Self::Hinge | Self::Absolute => None,
        }
    }
}

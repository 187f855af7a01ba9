//! Losses of linear models. One file per loss holds all of its facts; this file lists the losses and selects among them.
//!
//! **Adding a loss** of one margin: write its file (copy `loss/hinge.rs`), then add its module and its entry of `losses!`, both in
//! this file. The command line, the help text, the kernels and the optimisers' constants follow.
//!
//! Source: specification section 1, table of losses.

pub(crate) mod absolute;
mod convolution;
pub(crate) mod hinge;
pub(crate) mod huber;
pub(crate) mod logistic;
pub(crate) mod softmax;
pub(crate) mod squared;

use crate::features::Norm;
use wide::f32x16;

/// Declares the losses of one margin: an entry holds the description, the variant with its parameter and an example of it, and
/// the module whose type has the variant's name. The list of all losses and the selection among them follow.
macro_rules! losses {
    ($dollar:tt $($(#[$about:meta])* $loss:ident $(($parameter:ident: $type:ty = $example:literal))? in $module:ident;)*) => {
        /// A loss φ of the margins `u = W·a` of one row. The per-example gradient is `residual ⊗ a`, of rank one.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Loss {
            /// Multinomial logistic (softmax cross-entropy) with K ≥ 2 classes: residual `softmax(u) − e_y`.
            Softmax,
            $($(#[$about])* $loss $(($type))?,)*
        }

        impl Loss {
            /// Every loss, in the order of the help text, those with a parameter at an example of it.
            pub const ALL: [Self; ["softmax", $(stringify!($loss)),*].len()] =
                [Self::Softmax, $(Self::$loss $(($example))?),*];
        }

        /// `with_margin_loss!(loss, one => a, softmax => b)` is `a` with `one` bound to the [`MarginLoss`] that the loss is, and
        /// `b` for softmax.
        macro_rules! with_margin_loss {
            ($dollar loss:expr, $dollar one:ident => $dollar body:expr, softmax => $dollar softmax:expr $dollar(,)?) => {
                match $dollar loss {
                    $crate::loss::Loss::Softmax => $dollar softmax,
                    $($crate::loss::Loss::$loss $(($parameter))? => {
                        let $dollar one = $crate::loss::$module::$loss $(($parameter))?;
                        $dollar body
                    })*
                }
            };
        }
    };
}

losses! { $
    /// Binary logistic, y = ±1: `ln(1 + e^{−yu})`, residual `−y σ(−yu)`.
    Logistic in logistic;
    /// `(u − y)²/2`, residual `u − y`.
    Squared in squared;
    /// Huber with threshold `h > 0`: residual `clamp(u − y, −h, h)`.
    Huber(h: f32 = 1.0) in huber;
    /// `max(0, 1 − yu)`, y = ±1: residual `−y·1[yu < 1]`.
    Hinge in hinge;
    /// `|u − y|`, residual `sign(u − y)`, 0 at 0.
    Absolute in absolute;
}
pub(crate) use with_margin_loss;

/// The target that one row's margins are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// A class in `0..K`.
    Class(usize),
    /// A real; ±1 for the logistic and hinge losses.
    Value(f64),
}

/// The targets that a loss takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Classes `0..K`, one output each.
    Classes,
    /// −1 and 1, one output.
    Signs,
    /// Reals, one output.
    Reals,
}

/// The facts of a loss φ(u; y) of one margin u and one real target y.
///
/// The kernels are generic over it: each loss has its own machine code, and no loop selects by loss.
pub(crate) trait MarginLoss: Copy {
    /// The name on the command line.
    const NAME: &'static str;
    /// `Signs` or `Reals`.
    const TARGETS: TargetKind;

    /// φ(u; y), the scalar reference.
    fn value(self, u: f64, y: f64) -> f64;

    /// ∂φ/∂u, the scalar reference.
    fn residual(self, u: f64, y: f64) -> f64;

    /// ∂φ/∂u on sixteen lanes.
    fn residual_lanes(self, u: f32x16, y: f32x16) -> f32x16;

    /// ∂φ/∂u on sixteen lanes for the kernels of narrow rows, where its cost shows. May err by a few ulp more.
    #[inline(always)]
    fn fast_residual_lanes(self, u: f32x16, y: f32x16) -> f32x16 {
        self.residual_lanes(u, y)
    }

    /// sup |∂φ/∂u|, the Lipschitz constant in the margin; `None` if unbounded.
    fn lipschitz(self) -> Option<f64>;

    /// sup ∂²φ/∂u²; `None` if the loss is not smooth.
    fn curvature(self) -> Option<f64>;

    /// `E φ(u + s·z; y)` and its derivative in u for z ~ N(0, 1) and s > 0.
    fn convolved(self, u: f64, y: f64, s: f64) -> (f64, f64);
}

impl Loss {
    /// The names that the command line takes: "softmax, logistic, …".
    pub fn names() -> String {
        let names = Self::ALL.map(|loss| match loss {
            Self::Huber(_) => format!("{}=h", loss.name()),
            _ => loss.name().to_owned(),
        });
        names.join(", ")
    }

    /// The name without a parameter.
    fn name(self) -> &'static str {
        fn of<L: MarginLoss>(_: L) -> &'static str {
            L::NAME
        }
        with_margin_loss!(self, loss => of(loss), softmax => softmax::NAME)
    }

    /// The targets that the loss takes.
    pub fn targets(self) -> TargetKind {
        fn of<L: MarginLoss>(_: L) -> TargetKind {
            L::TARGETS
        }
        with_margin_loss!(self, loss => of(loss), softmax => TargetKind::Classes)
    }

    /// sup ‖residual‖ in `norm`: the Lipschitz constant for features of norm 1. `None` if unbounded (squared loss).
    pub fn lipschitz(self, norm: Norm) -> Option<f64> {
        with_margin_loss!(self, loss => loss.lipschitz(), softmax => Some(softmax::lipschitz(norm)))
    }

    /// m with smoothness `M = m·‖a‖²` of the per-example loss: sup φ″, for softmax sup λ_max of the Hessian in the
    /// margins. `None` if the loss is not smooth.
    pub fn curvature(self) -> Option<f64> {
        with_margin_loss!(self, loss => loss.curvature(), softmax => Some(softmax::CURVATURE))
    }

    /// The curvature at margins of 0: 1/K for K classes, else as [`Loss::curvature`].
    pub fn curvature_at_zero(self, outputs: usize) -> Option<f64> {
        with_margin_loss!(self, loss => loss.curvature(), softmax => Some(1.0 / outputs as f64))
    }

    /// φ(u; target) in f64, the scalar reference. `margins` has K values.
    ///
    /// # Panics
    /// A target of another kind than [`Loss::targets`], or more than one margin for a real target.
    pub fn value(self, margins: &[f64], target: Target) -> f64 {
        with_margin_loss!(
            self,
            loss => match (margins, target) {
                (&[u], Target::Value(y)) => loss.value(u, y),
                _ => self.refuse(margins, target),
            },
            softmax => match target {
                Target::Class(class) => softmax::value(margins, class),
                Target::Value(_) => self.refuse(margins, target),
            },
        )
    }

    /// ∂φ/∂u at `margins` in f64, written over them: the scalar reference.
    ///
    /// # Panics
    /// As [`Loss::value`].
    pub fn residual(self, margins: &mut [f64], target: Target) {
        with_margin_loss!(
            self,
            loss => match (&mut *margins, target) {
                ([u], Target::Value(y)) => *u = loss.residual(*u, y),
                _ => self.refuse(margins, target),
            },
            softmax => match target {
                Target::Class(class) => softmax::residual(margins, class),
                Target::Value(_) => self.refuse(margins, target),
            },
        );
    }

    /// The Gaussian convolution `E φ(margin + s·z; target)` and its derivative in the margin, for z ~ N(0, 1) and
    /// `s = deviation > 0`. `None` for softmax, whose margins are K-dimensional.
    ///
    /// For `f(x) = φ(⟨a, x⟩)` and `s = ρ‖a‖` this is `f̂_ρ(x) = E f(x + ρz)`, and `∇f̂_ρ(x)` is the derivative times a
    /// (specification 1). Exact to rounding, except for the logistic loss: relative error below 1e-9 for s ≤ 2 and 1e-5
    /// for s ≤ 10.
    pub fn convolved(self, margin: f64, target: f64, deviation: f64) -> Option<(f64, f64)> {
        with_margin_loss!(self, loss => Some(loss.convolved(margin, target, deviation)), softmax => None)
    }

    fn refuse(self, margins: &[f64], target: Target) -> ! {
        let kind = match target {
            Target::Class(_) => "a class",
            Target::Value(_) => "a number",
        };
        panic!("{self} with {} margins cannot be compared with {kind}", margins.len())
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Huber(threshold) => write!(f, "{}={threshold}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

/// A name that no loss has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a loss; expected one of {names} (h > 0)", names = Loss::names())]
pub struct UnknownLoss(String);

impl std::str::FromStr for Loss {
    type Err = UnknownLoss;

    fn from_str(text: &str) -> Result<Self, UnknownLoss> {
        let (name, parameter) = match text.split_once('=') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let found = Self::ALL.into_iter().find(|loss| loss.name() == name);
        match (found, parameter) {
            (Some(Self::Huber(_)), parameter) => parameter
                .and_then(|threshold| threshold.parse().ok())
                .filter(|&threshold: &f32| threshold > 0.0 && threshold.is_finite())
                .map(Self::Huber),
            (found, None) => found,
            (_, Some(_)) => None,
        }
        .ok_or_else(|| UnknownLoss(text.to_owned()))
    }
}

/// 2⁻⁶⁴. Probabilities and residuals below it count as 0: multiplied with a small feature or clip factor they would
/// become subnormal, which is many times slower. The loss is far below the rounding of the other residuals.
pub(crate) const NEGLIGIBLE: f32 = 1.0 / 18_446_744_073_709_551_616.0;

/// `probabilities`, with 0 for those below [`NEGLIGIBLE`].
#[inline(always)]
fn without_negligible(probabilities: f32x16) -> f32x16 {
    probabilities.simd_lt(f32x16::splat(NEGLIGIBLE)).select(f32x16::ZERO, probabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_shown() {
        for loss in Loss::ALL.into_iter().chain([Loss::Huber(0.25)]) {
            assert_eq!(loss.to_string().parse(), Ok(loss));
        }
        for wrong in ["", "cubic", "huber", "huber=0", "huber=inf", "hinge=1", "Hinge"] {
            let error = wrong.parse::<Loss>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains(&Loss::names()), "{error}");
        }
    }

    #[test]
    fn lanes_agree_with_the_scalar_references() {
        for loss in Loss::ALL {
            for step in -300_i16..=300 {
                let u = f32::from(step) / 32.0;
                for y in [-1.0_f32, 1.0] {
                    let (lanes, targets) = (f32x16::splat(u), f32x16::splat(y));
                    let found = with_margin_loss!(
                        loss,
                        one => [
                            one.residual_lanes(lanes, targets),
                            one.fast_residual_lanes(lanes, targets),
                        ],
                        softmax => continue,
                    );
                    let (mut residual, target) = ([f64::from(u)], Target::Value(y.into()));
                    loss.residual(&mut residual, target);
                    for (found, expected) in found.into_iter().zip([residual[0], residual[0]]) {
                        let found = f64::from(found.to_array()[7]);
                        assert!(
                            (found - expected).abs() <= 1e-6 * (1.0 + expected.abs()),
                            "{loss} at {u}, {y}: {found} for {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn constants_bound_the_residuals_and_their_slopes() {
        for loss in Loss::ALL.into_iter().filter(|&loss| loss != Loss::Softmax) {
            let residual = |u: f64, y: f64| {
                let mut residual = [u];
                loss.residual(&mut residual, Target::Value(y));
                residual[0]
            };
            for step in -400..400 {
                for y in [-1.0, 1.0] {
                    let u = f64::from(step) / 40.0;
                    let bound = loss.lipschitz(Norm::L2).unwrap_or(f64::INFINITY);
                    assert!(residual(u, y).abs() <= bound, "{loss}");
                    let slope = (residual(u + 1e-6, y) - residual(u, y)) / 1e-6;
                    assert!(slope <= loss.curvature().unwrap_or(f64::INFINITY) + 1e-4, "{loss}: {slope}");
                }
            }
        }
    }
}

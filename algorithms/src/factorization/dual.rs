//! The dual problems of the optimal factorisation: objective, interface, and the steps that close the certified gap.

use rounds_numerics::Mat;

use super::error::{FactorizationError, numerical};
use super::minimizer::{Evaluation, Minimizer};

/// The error that a factorisation minimises, at sensitivity 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// ‖B‖_F: the root of the summed squared errors of all rounds.
    #[default]
    Frobenius,
    /// max_t ‖B_t‖₂: the error of the worst round.
    Max,
}

impl Objective {
    /// The squared objective from the squared row norms of B: their sum, or the largest.
    pub(crate) fn of_squares(self, squares: &[f64]) -> f64 {
        match self {
            Self::Frobenius => squares.iter().sum(),
            Self::Max => largest(squares),
        }
    }

    /// λ, one a row of B, from its logarithms: 1 under the mean error, which has no such variables.
    pub(crate) fn row_multipliers(self, rounds: usize, logarithms: &[f64]) -> Vec<f64> {
        match self {
            Self::Frobenius => vec![1.0; rounds],
            Self::Max => exponentials(logarithms),
        }
    }

    /// D = ‖·‖²_*/(Σλ·Σv), with Σλ = 1 under the mean error.
    pub(crate) fn dual_value(self, nuclear: f64, weights: &[f64], rows: &[f64]) -> f64 {
        let rows = match self {
            Self::Frobenius => 1.0,
            Self::Max => rows.iter().sum(),
        };
        nuclear * nuclear / (weights.iter().sum::<f64>() * rows)
    }
}

/// A start of the maximisation whose values are finite.
pub(crate) fn finite_start(start: Vec<f64>, rounds: usize) -> Result<Vec<f64>, FactorizationError> {
    if start.iter().all(|value| value.is_finite()) { Ok(start) } else { Err(numerical(SQUARE_ROOT, rounds)) }
}

/// The routine that makes the start.
pub(crate) const SQUARE_ROOT: &str = "the square root of AᵀA";

/// −ln D without its gradient; `None` where the nuclear norm is not a positive number.
pub(crate) fn dual_evaluation(nuclear: f64, weights: &[f64], rows: &[f64]) -> Option<Evaluation> {
    let [sum, row_sum] = [weights, rows].map(|values| values.iter().sum::<f64>());
    (nuclear.is_finite() && nuclear > 0.0).then(|| Evaluation {
        value: sum.ln() + row_sum.ln() - 2.0 * nuclear.ln(),
        gradient: Vec::new(),
        inverse_curvature: Vec::new(),
    })
}

/// The largest of non-negative numbers; 0 for none.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0_f64, |largest, &value| largest.max(value))
}

/// C and the certificate that comes with it.
#[derive(Clone, Debug)]
pub(crate) struct Optimum {
    /// C, lower triangular.
    pub(crate) strategy: Mat<f64>,
    /// (primal − dual)/primal of the squared objective.
    pub(crate) relative_gap: f64,
}

/// A dual problem in logarithmic variables, and the primal point that belongs to its optimum.
pub(crate) trait Dual {
    /// The objective that it bounds.
    fn objective(&self) -> Objective;
    /// The start of the maximisation.
    fn start(&self) -> Result<Vec<f64>, FactorizationError>;
    /// A start near the optimum, where there is one, for when the way from the first one ends elsewhere.
    fn near_start(&self) -> Option<Vec<f64>> {
        None
    }
    /// −ln D plus the barrier term, and its gradient; `None` outside the domain.
    fn evaluate(&self, point: &[f64], barrier: f64) -> Option<Evaluation>;
    /// The first weight of the barriers that keep the dual's blocks away from singular ones, −Σ_π ln det S_π/b, and its
    /// multipliers away from zero, from which the way back is flat; 0 where nothing needs them.
    fn first_barrier(&self) -> f64;
    /// A strategy from the primal point and its certified gap; `None` where the primal point is not positive definite.
    fn certify(&self, point: &[f64]) -> Result<Option<Optimum>, FactorizationError>;
}

/// Steps until the certificate meets the goal, from the first start or else from the near one.
pub(crate) fn minimize_gap(dual: &impl Dual, goal: f64) -> Result<Optimum, FactorizationError> {
    let first = minimize_gap_from(dual, dual.start()?, dual.first_barrier(), goal);
    match first {
        Err(FactorizationError::NotConverged { .. }) if let Some(start) = dual.near_start() => {
            minimize_gap_from(dual, start, 0.0, goal)
        }
        first => first,
    }
}

/// Steps from `start` until the certificate meets the goal. A cheap estimate decides when a certificate is worth its price.
fn minimize_gap_from(
    dual: &impl Dual,
    start: Vec<f64>,
    mut barrier: f64,
    goal: f64,
) -> Result<Optimum, FactorizationError> {
    const MOST_STEPS: usize = 5000;
    const MOST_STEPS_A_BARRIER: usize = 200;
    let size = start.len();
    let failed = move || numerical("the dual of the optimal factorisation", size);
    let first = dual.evaluate(&start, barrier).ok_or_else(failed)?;
    let mut minimizer = Minimizer::new(start, first, 30);
    // The last barrier costs far less than the goal.
    while barrier > 0.02 * goal {
        for _ in 0..MOST_STEPS_A_BARRIER {
            if !minimizer.step(|point| dual.evaluate(point, barrier))
                || minimizer.evaluation.expected_gain() < 0.3 * barrier
            {
                break;
            }
        }
        barrier *= 0.1;
        minimizer.evaluation = dual.evaluate(&minimizer.point, barrier).ok_or_else(failed)?;
    }
    // The gap of the worst row is first order in what is left of the gradient, that of the sum second order.
    let mut estimate_goal = match dual.objective() {
        Objective::Frobenius => 0.1 * goal,
        Objective::Max => 0.01 * goal * goal.min(1.0),
    };
    let mut best: Option<Optimum> = None;
    for _ in 0..MOST_STEPS {
        let stuck = !minimizer.step(|point| dual.evaluate(point, barrier));
        if stuck || minimizer.evaluation.expected_gain() <= estimate_goal {
            if let Some(found) = dual.certify(&minimizer.point)? {
                let gap = found.relative_gap;
                if best.as_ref().is_none_or(|best| gap < best.relative_gap) {
                    best = Some(found);
                }
                // Some block of the dual is all but singular where its weight is so small that D does not see it: no step leads back.
                let is_lost = gap > 0.5 && dual.objective() == Objective::Frobenius;
                if gap <= goal || is_lost {
                    break;
                }
            }
            if stuck && barrier <= 1e-6 * goal {
                break;
            }
            estimate_goal = 0.1 * minimizer.evaluation.expected_gain().min(estimate_goal);
            if barrier > 0.0 {
                barrier *= 0.1;
                minimizer.evaluation = dual.evaluate(&minimizer.point, barrier).ok_or_else(failed)?;
            }
        }
    }
    let gap = best.as_ref().map_or(f64::INFINITY, |best| best.relative_gap);
    best.filter(|_| gap <= goal).ok_or(FactorizationError::NotConverged { gap, asked: goal })
}

/// e^x, scaled so that the largest is 1: the dual does not depend on the scale of its multipliers, so it may drift.
pub(crate) fn exponentials(logarithms: &[f64]) -> Vec<f64> {
    let largest = logarithms.iter().fold(f64::NEG_INFINITY, |largest, &value| largest.max(value));
    logarithms.iter().map(|value| (value - largest).exp()).collect()
}

/// Appends the gradient and curvature in ln w of ln Σw − ln nuclear² for multipliers w whose constraints have the values
/// `squares`, and the barrier −(μ/n)·Σ ln(w_i/Σw) that keeps multipliers of slack constraints off zero.
pub(crate) fn add_multipliers(
    evaluation: &mut Evaluation,
    multipliers: &[f64],
    squares: &[f64],
    nuclear: f64,
    barrier: f64,
) {
    let sum: f64 = multipliers.iter().sum();
    let share = barrier / multipliers.len() as f64;
    for (multiplier, square) in multipliers.iter().zip(squares) {
        let fraction = multiplier / sum;
        if share > 0.0 {
            evaluation.value -= share * fraction.ln();
        }
        evaluation.gradient.push(fraction - multiplier * square / nuclear + barrier * fraction - share);
        evaluation.inverse_curvature.push(1.0 / (0.5 * fraction + share));
    }
}

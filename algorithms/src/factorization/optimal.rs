//! The optimal factorisation: min ‖B‖_F (or the largest row norm of B) subject to B·C = A and sens(C) = 1.
//!
//! With X = Cᵀ·C and non-negative weights λ on the rows of B, the problem is min_X max_λ tr(AᵀΛA X⁻¹) subject to the
//! sensitivity of X; Λ = I is the Frobenius objective, λ on the simplex the largest row norm. Its dual is
//!
//! ```text
//! D(λ, U) = ‖Λ^(1/2)·A·U^(1/2)‖²_* / (Σ λ_t · Σ_π v_π),      v_π = max_{i∈π} U_ii   [derived]
//! ```
//!
//! where U is positive semi-definite and couples only rounds of one pattern π of the participation. D is a lower bound
//! for every (λ, U) [a unit change of one example has ⟨U_π, X_π⟩ ≤ v_π·sens²], so the gap that is returned is certified:
//! (P − D)/P with P the squared error of the matrix C that is returned, at its own sensitivity.
//!
//! Single participation: U = diag(v). This is γ₂-duality, and for Λ = I the dual of Denisov et al. 2022 (Lemma 3.4).
//! Multi-epoch participation: at the optimum U is positive definite, which forces X_{ii'} = 0 for any two rounds of one
//! pattern (aligned contributions would make a 2 × 2 minor of U vanish): columns that an example can use together are
//! orthogonal, and the sensitivity max_π Σ_{i∈π} X_ii is exact for every sign and direction of the contributions.
//!
//! Both duals are maximised in logarithms by L-BFGS (`minimizer.rs`). The workloads of the catalogue have banded
//! inverses, so a dual value and its gradient cost O(T) (single) or O(T·(kp)²) (k epochs); any other workload takes the
//! dense path, whose every step is a singular value decomposition.

use faer::{Mat, MatRef};
use rayon::prelude::*;

use super::banded_lower::BandedLower;
use super::dense;
use super::error::FactorizationError;
use super::minimizer::{Evaluation, Minimizer};
use super::participation::Participation;
use super::pattern_dual::PatternDual;
use super::quadrature::InverseSquareRoot;
use super::shifted_inverse::{MOST_SUBDIAGONALS, ShiftedInverse};
use super::workload::Workload;

/// What a factorisation makes small, at sensitivity 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// ‖B‖_F: the root of the summed squared errors of all rounds.
    #[default]
    Frobenius,
    /// max_t ‖B_t‖₂: the error of the worst round.
    Max,
}

/// C and the certificate that comes with it.
#[derive(Clone, Debug)]
pub(crate) struct Optimum {
    /// C, lower triangular.
    pub(crate) strategy: Mat<f64>,
    /// (primal − dual)/primal of the squared objective.
    pub(crate) relative_gap: f64,
}

/// The optimal C for `workload`, with a certified relative gap of the squared objective of at most `gap`.
///
/// # Errors
///
/// `NotConverged` when the gap is out of reach, `Unsupported` for minimum-separation participation.
pub(crate) fn optimize(
    workload: &Workload,
    participation: &Participation,
    objective: Objective,
    gap: f64,
) -> Result<Optimum, FactorizationError> {
    participation.check(workload.rounds())?;
    if !(gap.is_finite() && gap > 0.0) {
        return Err(FactorizationError::InvalidParameter {
            name: "gap",
            value: gap,
            expected: "a positive number",
        });
    }
    let banded = workload
        .banded_inverse()
        .filter(|inverse| inverse.subdiagonals() <= MOST_SUBDIAGONALS);
    if participation.participations(workload.rounds()) == 1 {
        if let Some(inverse) = banded {
            return minimize_gap(&SingleParticipation::new(workload, inverse, objective), gap);
        }
        return minimize_gap(
            &PatternDual::new(workload, &Participation::Single, objective, None)?,
            gap,
        );
    }
    minimize_gap(&PatternDual::new(workload, participation, objective, banded)?, gap)
}

/// A dual problem in logarithmic variables, and the primal point that belongs to its optimum.
pub(crate) trait Dual {
    /// Which objective it bounds.
    fn objective(&self) -> Objective;
    /// Where to start.
    fn start(&self) -> Result<Vec<f64>, FactorizationError>;
    /// −ln D plus the barrier term, and its gradient; `None` outside the domain.
    fn evaluate(&self, point: &[f64], barrier: f64) -> Option<Evaluation>;
    /// The first weight of the barrier −Σ_π ln det S_π/b that keeps the dual's blocks away from singular ones, from
    /// which the way back is flat; `None` where the dual has no such blocks.
    fn first_barrier(&self) -> Option<f64> {
        None
    }
    /// A strategy from the primal point and its certified gap; `None` where the primal point is not positive definite.
    fn certify(&self, point: &[f64]) -> Result<Option<Optimum>, FactorizationError>;
}

/// Steps until the certificate meets the goal. A cheap estimate decides when a certificate is worth its price.
fn minimize_gap(dual: &impl Dual, goal: f64) -> Result<Optimum, FactorizationError> {
    const MOST_STEPS: usize = 5000;
    const MOST_STEPS_A_BARRIER: usize = 200;
    let start = dual.start()?;
    let size = start.len();
    let failed = move || FactorizationError::Numerical {
        routine: "the dual of the optimal factorisation",
        size,
    };
    let mut barrier = dual.first_barrier().unwrap_or(0.0);
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
        minimizer.reevaluate(dual.evaluate(&minimizer.point, barrier).ok_or_else(failed)?);
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
                if gap <= goal {
                    break;
                }
            }
            if stuck {
                break;
            }
            estimate_goal = 0.1 * minimizer.evaluation.expected_gain().min(estimate_goal);
            if barrier > 0.0 {
                barrier *= 0.1;
                minimizer.reevaluate(dual.evaluate(&minimizer.point, barrier).ok_or_else(failed)?);
            }
        }
    }
    match best {
        Some(best) if best.relative_gap <= goal => Ok(best),
        Some(best) => Err(FactorizationError::NotConverged {
            gap: best.relative_gap,
            asked: goal,
        }),
        None => Err(FactorizationError::NotConverged {
            gap: f64::INFINITY,
            asked: goal,
        }),
    }
}

/// The dual for U = diag(v) and a workload with a banded inverse.
struct SingleParticipation<'a> {
    workload: &'a Workload,
    inverse: &'a BandedLower,
    /// J·A⁻ᵀ·J, for the rows of B.
    reflected: BandedLower,
    squared_columns: Vec<f64>,
    objective: Objective,
}

/// v, λ and what the dual says of them.
struct DualPoint {
    weights: Vec<f64>,
    rows: Vec<f64>,
    rule: InverseSquareRoot,
    /// A⁻¹·Λ^(−1/2).
    factor: BandedLower,
    /// diag X(v, λ).
    columns_squared: Vec<f64>,
    /// ‖Λ^(1/2)·A·V^(1/2)‖_*.
    nuclear: f64,
}

impl<'a> SingleParticipation<'a> {
    fn new(workload: &'a Workload, inverse: &'a BandedLower, objective: Objective) -> Self {
        Self {
            workload,
            inverse,
            reflected: inverse.reflect(),
            squared_columns: workload.squared_column_norms(),
            objective,
        }
    }

    fn split(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let rounds = self.workload.rounds();
        let weights = point[..rounds].iter().map(|value| value.exp()).collect();
        let rows = match self.objective {
            Objective::Frobenius => vec![1.0; rounds],
            Objective::Max => point[rounds..].iter().map(|value| value.exp()).collect(),
        };
        (weights, rows)
    }

    fn dual_point(&self, point: &[f64]) -> DualPoint {
        let (weights, rows) = self.split(point);
        let factor = match self.objective {
            Objective::Frobenius => self.inverse.clone(),
            Objective::Max => self.inverse.scale_columns(|column| rows[column].powf(-0.5)),
        };
        // Bounds of the spectrum of V^(−1/2)·A⁻¹Λ⁻¹A⁻ᵀ·V^(−1/2): from the norm of the matrix and of its inverse.
        let scaled = BandedLower::from_fn(factor.size(), factor.subdiagonals(), |row, column| {
            factor.get(row, column) / weights[row].sqrt()
        });
        let largest_row = rows.iter().fold(0.0_f64, |largest, &row| largest.max(row));
        let inverse_norm = largest_row * super::minimizer::dot(&weights, &self.squared_columns);
        let rule = InverseSquareRoot::on(1.0 / inverse_norm, scaled.squared_norm_bound());
        let columns_squared = ShiftedInverse {
            factor: &factor,
            weights: &weights,
            rule: &rule,
        }
        .diagonal();
        let nuclear = super::minimizer::dot(&weights, &columns_squared);
        DualPoint {
            weights,
            rows,
            rule,
            factor,
            columns_squared,
            nuclear,
        }
    }

    /// diag of B·Bᵀ = A·X⁻¹·Aᵀ at the dual's primal point: the same operator for J·A⁻ᵀ·J, read backwards.
    fn row_errors(&self, point: &DualPoint) -> Vec<f64> {
        let last = self.workload.rounds() - 1;
        let factor = self
            .reflected
            .scale_columns(|column| point.weights[last - column].powf(-0.5));
        let rows: Vec<f64> = point.rows.iter().rev().copied().collect();
        let mut errors = ShiftedInverse {
            factor: &factor,
            weights: &rows,
            rule: &point.rule,
        }
        .diagonal();
        errors.reverse();
        errors
    }
}

impl Dual for SingleParticipation<'_> {
    fn objective(&self) -> Objective {
        self.objective
    }

    fn start(&self) -> Result<Vec<f64>, FactorizationError> {
        // One step of the fixed point from uniform weights: v = diag(G^(1/2)), λ = diag((A·Aᵀ)^(1/2)).
        let rounds = self.workload.rounds();
        let mut start = vec![
            0.0;
            if self.objective == Objective::Max {
                2 * rounds
            } else {
                rounds
            }
        ];
        let point = self.dual_point(&start);
        if self.objective == Objective::Max {
            for (value, error) in start[rounds..].iter_mut().zip(self.row_errors(&point)) {
                *value = error.ln();
            }
        }
        for (value, column) in start.iter_mut().zip(&point.columns_squared) {
            *value = column.ln();
        }
        if start.iter().all(|value| value.is_finite()) {
            Ok(start)
        } else {
            Err(FactorizationError::Numerical {
                routine: "the square root of AᵀA",
                size: rounds,
            })
        }
    }

    fn evaluate(&self, point: &[f64], _barrier: f64) -> Option<Evaluation> {
        let dual = self.dual_point(point);
        if !(dual.nuclear.is_finite() && dual.nuclear > 0.0) {
            return None;
        }
        let sum: f64 = dual.weights.iter().sum();
        let row_sum: f64 = dual.rows.iter().sum();
        let value = sum.ln() + row_sum.ln() - 2.0 * dual.nuclear.ln();
        let derivative = |weights: &[f64], squares: &[f64], sum: f64| -> Vec<f64> {
            weights
                .iter()
                .zip(squares)
                .map(|(weight, square)| weight / sum - weight * square / dual.nuclear)
                .collect()
        };
        let mut gradient = derivative(&dual.weights, &dual.columns_squared, sum);
        let mut inverse_curvature: Vec<f64> = dual.weights.iter().map(|weight| 2.0 * sum / weight).collect();
        if self.objective == Objective::Max {
            gradient.extend(derivative(&dual.rows, &self.row_errors(&dual), row_sum));
            inverse_curvature.extend(dual.rows.iter().map(|row| 2.0 * row_sum / row));
        }
        Some(Evaluation {
            value,
            gradient,
            inverse_curvature,
        })
    }

    fn certify(&self, point: &[f64]) -> Result<Option<Optimum>, FactorizationError> {
        let dual = self.dual_point(point);
        let shifted = ShiftedInverse {
            factor: &dual.factor,
            weights: &dual.weights,
            rule: &dual.rule,
        };
        let mut gram = shifted.upper_triangle();
        let scales: Vec<f64> = gram
            .diagonal()
            .column_vector()
            .iter()
            .map(|entry| 1.0 / entry.sqrt())
            .collect();
        for column in 0..gram.ncols() {
            for row in 0..column {
                gram[(row, column)] *= scales[row] * scales[column];
            }
            gram[(column, column)] = 1.0;
        }
        let Some(strategy) = dense::strategy_from_gram(gram.transpose()) else {
            return Ok(None);
        };
        drop(gram);
        let sensitivity = largest_column(strategy.as_ref());
        let errors = squared_row_errors(self.workload, strategy.as_ref());
        let nuclear = dual.nuclear * (1.0 - dual.rule.relative_error() - 1e-13);
        let sum: f64 = dual.weights.iter().sum();
        let row_sum: f64 = dual.rows.iter().sum();
        let (primal, bound) = match self.objective {
            Objective::Frobenius => (sensitivity * errors.iter().sum::<f64>(), nuclear * nuclear / sum),
            Objective::Max => (
                sensitivity * errors.iter().fold(0.0_f64, |largest, &error| largest.max(error)),
                nuclear * nuclear / (sum * row_sum),
            ),
        };
        Ok(Some(Optimum {
            strategy,
            relative_gap: (primal - bound) / primal,
        }))
    }
}

/// max_s ‖C e_s‖².
fn largest_column(strategy: MatRef<'_, f64>) -> f64 {
    (0..strategy.ncols())
        .map(|column| strategy.col(column).iter().map(|entry| entry * entry).sum::<f64>())
        .fold(0.0, f64::max)
}

/// ‖B_t‖² for every round t, B = A·C⁻¹. Columns are taken in blocks of fixed size, combined in their order.
pub(crate) fn squared_row_errors(workload: &Workload, strategy: MatRef<'_, f64>) -> Vec<f64> {
    let inverse = dense::invert_lower(strategy);
    squared_row_norms_of_product(workload, inverse.as_ref())
}

/// ‖(A·R)_t‖² for every round t.
pub(crate) fn squared_row_norms_of_product(workload: &Workload, right: MatRef<'_, f64>) -> Vec<f64> {
    squared_row_norms_of_columns(workload, right.ncols(), |column, values| {
        for (value, entry) in values.iter_mut().zip(right.col(column).iter()) {
            *value = *entry;
        }
    })
}

/// ‖(A·R)_t‖² for every round t, with R given column by column; blocks of fixed size, combined in their order.
pub(crate) fn squared_row_norms_of_columns(
    workload: &Workload,
    columns: usize,
    fill: impl Fn(usize, &mut [f64]) + Sync,
) -> Vec<f64> {
    const BLOCK: usize = 32;
    let rounds = workload.rounds();
    let blocks: Vec<usize> = (0..columns).step_by(BLOCK).collect();
    let partial: Vec<Vec<f64>> = blocks
        .into_par_iter()
        .map(|first| {
            let mut sums = vec![0.0; rounds];
            let mut values = vec![0.0; rounds];
            for column in first..(first + BLOCK).min(columns) {
                fill(column, &mut values);
                workload.apply_in_place(&mut values);
                for (sum, value) in sums.iter_mut().zip(&values) {
                    *sum += value * value;
                }
            }
            sums
        })
        .collect();
    let mut totals = vec![0.0; rounds];
    for sums in &partial {
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    totals
}

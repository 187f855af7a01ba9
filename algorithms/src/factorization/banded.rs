//! Optimised banded factorisations: C with b diagonals, whose noise needs b − 1 past vectors.
//!
//! With b ≤ the separation of participations, columns that one example can use together do not overlap, so the
//! sensitivity is exact [Choquette-Choo et al. 2023]. The coefficients start from the square root of the workload, cut
//! after b terms, and are optimised as a Toeplitz matrix; then, where the size allows it, every entry of the band on its
//! own, with the columns of each participation pattern scaled to sensitivity 1.

use rayon::prelude::*;

use super::Factorization;
use super::dual::Objective;
use super::error::{FactorizationError, check_range, numerical};
use super::minimizer::{Evaluation, Minimizer, minimize, sum_in_order};
use super::participation::Participation;
use super::strategy::{BandedStrategy, Strategy};
use super::toeplitz::{ToeplitzObjective, inverse_coefficients, square_root_coefficients};
use super::workload::Workload;
use crate::vectors::{dot, dot_reversed};

/// The best banded C that the optimiser finds.
pub(crate) fn optimize(
    workload: &Workload,
    participation: &Participation,
    objective: Objective,
    bands: usize,
) -> Result<BandedStrategy, FactorizationError> {
    let rounds = workload.rounds();
    let range = 1.0..rounds as f64 + 1.0;
    check_range("bands", bands as f64, range, "1 ≤ b ≤ T, the main diagonal included")?;
    let coefficients = toeplitz_coefficients(workload, participation, objective, bands)?;
    let start = BandedStrategy::toeplitz(rounds, &coefficients);
    Ok(match EntryWise::new(workload, participation, bands) {
        Some(problem) if objective == Objective::Frobenius => problem.refine(start),
        _ => start,
    })
}

/// The root mean square error of the sums of a workload per unit of noise through the best Toeplitz C with `bands` bands and columns of norm 1
/// at most: little more than that of the best banded C, in a fraction of its time.
///
/// # Errors
/// More bands than rounds.
pub(crate) fn toeplitz_banded_error(workload: &Workload, bands: usize) -> Result<f64, FactorizationError> {
    let coefficients = toeplitz_coefficients(workload, &Participation::Single, Objective::Frobenius, bands)?;
    let strategy = BandedStrategy::toeplitz(workload.rounds(), &coefficients);
    Ok(Factorization::evaluate(workload.clone(), Participation::Single, Strategy::Banded(strategy))?.rms_error())
}

/// c_0 = 1, c_1, …, c_{b−1} of the best Toeplitz C for the Toeplitz part of the workload.
fn toeplitz_coefficients(
    workload: &Workload,
    participation: &Participation,
    objective: Objective,
    bands: usize,
) -> Result<Vec<f64>, FactorizationError> {
    const MOST_STEPS: usize = 500;
    let rounds = workload.rounds();
    let target = ToeplitzObjective::new(workload, participation, objective);
    let start = square_root_coefficients(bands, &target.roots)[1..].to_vec();
    let coefficients_of = |point: &[f64]| {
        let mut coefficients = vec![0.0; rounds];
        coefficients[0] = 1.0;
        coefficients[1..bands].copy_from_slice(point);
        coefficients
    };
    let evaluate = |point: &[f64]| {
        let coefficients = coefficients_of(point);
        let inverse = inverse_coefficients(&coefficients).ok()?;
        let (sensitivity, sensitivity_gradient) = target.squared_sensitivity(&coefficients);
        let (error, error_gradient) = target.squared_error(&inverse);
        // d = 1/c, so ∂d/∂c_i = −xⁱ·d² and the gradient is −Σ_n g_n (d²)_{n−i}; d² solves c·(d²) = d.
        let square = divide(&inverse, &coefficients[..bands]);
        let gradient = (1..bands)
            .map(|i| sensitivity_gradient[i] / sensitivity - dot(&error_gradient[i..], &square) / error)
            .collect();
        Some((sensitivity.ln() + error.ln(), gradient))
    };
    let point = match bands {
        1 => start,
        _ => minimize(start, MOST_STEPS, evaluate).ok_or_else(|| numerical("the banded optimiser", rounds))?,
    };
    Ok([vec![1.0], point].concat())
}

/// The series a/c, where c has few terms and c_0 = 1.
fn divide(numerator: &[f64], denominator: &[f64]) -> Vec<f64> {
    let mut quotient = numerator.to_vec();
    for n in 1..quotient.len() {
        let reach = denominator.len().min(n + 1);
        quotient[n] -= dot_reversed(&denominator[1..reach], &quotient[n + 1 - reach..n]);
    }
    quotient
}

/// min ‖A·C⁻¹‖_F over all banded C of sensitivity 1, by L-BFGS on the band's entries.
struct EntryWise<'a> {
    workload: &'a Workload,
    patterns: Vec<Vec<usize>>,
    bands: usize,
    most_steps: usize,
    /// Rows of A.
    rows: Vec<f64>,
}

impl<'a> EntryWise<'a> {
    /// `None` where the problem is too large for it, or the sensitivity of the entries is not that of orthogonal columns.
    fn new(workload: &'a Workload, participation: &Participation, bands: usize) -> Option<Self> {
        const WORK: f64 = 2.5e10;
        let rounds = workload.rounds();
        let separation = participation.separation(rounds);
        let single = participation.participations(rounds) == 1;
        let most_steps = (WORK / (rounds as f64).powi(2) / bands as f64) as usize;
        if (!single && bands > separation) || most_steps < 10 || rounds > 4096 || bands == 1 {
            return None;
        }
        // Minimum separation: every column alone at norm 1 is worst-case √k together, as for equal norms.
        let patterns = participation.patterns(rounds).unwrap_or_else(|| (0..rounds).map(|round| vec![round]).collect());
        let matrix = workload.matrix();
        let rows = matrix.row_iter().flat_map(|row| row.iter().copied()).collect();
        Some(Self { workload, patterns, bands, most_steps: most_steps.min(200), rows })
    }

    fn refine(&self, start: BandedStrategy) -> BandedStrategy {
        let Some(first) = self.evaluate(&start.coefficients) else {
            return start;
        };
        let mut minimizer = Minimizer::new(start.coefficients, first, 12);
        for _ in 0..self.most_steps {
            let before = minimizer.evaluation.value;
            if !minimizer.step(|point| self.evaluate(point)) || before - minimizer.evaluation.value < 1e-10 {
                break;
            }
        }
        let coefficients = self.scaled(&minimizer.point).0;
        BandedStrategy { rounds: self.workload.rounds(), bands: self.bands, coefficients }
    }

    /// The entries with every pattern scaled to Σ_{i∈π} ‖C_i‖² = 1, and the factors.
    fn scaled(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let rounds = self.workload.rounds();
        let mut squares = vec![0.0; rounds];
        for (at, column) in self.entries() {
            squares[column] += point[at].powi(2);
        }
        let mut factors = vec![0.0; rounds];
        for pattern in &self.patterns {
            let factor = pattern.iter().map(|&round| squares[round]).sum::<f64>().powf(-0.5);
            for &round in pattern {
                factors[round] = factor;
            }
        }
        let mut scaled = vec![0.0; point.len()];
        for (at, column) in self.entries() {
            scaled[at] = point[at] * factors[column];
        }
        (scaled, factors)
    }

    /// (place in the band, column) of every entry, row by row.
    fn entries(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let bands = self.bands;
        let of_row = move |row: usize| (0..bands.min(row + 1)).map(move |lag| (row * bands + lag, row - lag));
        (0..self.workload.rounds()).flat_map(of_row)
    }

    /// ln ‖B‖²_F and its gradient −2·(BᵀB·C⁻ᵀ)/‖B‖² on the band, through the scaling of the columns.
    fn evaluate(&self, point: &[f64]) -> Option<Evaluation> {
        const BLOCK: usize = 32;
        let (rounds, bands) = (self.workload.rounds(), self.bands);
        let (scaled, factors) = self.scaled(point);
        let strategy = BandedStrategy { rounds, bands, coefficients: scaled };
        let starts: Vec<usize> = (0..rounds).step_by(BLOCK).collect();
        let partial: Vec<(f64, Vec<f64>)> = starts
            .into_par_iter()
            .map(|first| {
                let mut gradient = vec![0.0; rounds * bands];
                let mut error = 0.0;
                let mut row = vec![0.0; rounds];
                for t in first..(first + BLOCK).min(rounds) {
                    // B_t solves B_t·C = A_t from the right end; it vanishes beyond t.
                    let reach = t + 1;
                    row[..reach].copy_from_slice(&self.rows[t * rounds..t * rounds + reach]);
                    for s in (0..reach).rev() {
                        let line = &strategy.coefficients[s * bands..s * bands + bands.min(s + 1)];
                        let value = row[s] / line[0];
                        row[s] = value;
                        for (target, c) in row[..s].iter_mut().rev().zip(&line[1..]) {
                            *target -= c * value;
                        }
                    }
                    error += dot(&row[..reach], &row[..reach]);
                    // R = C⁻¹·B_tᵀ, and −2·B_ti·R_j for the entry (i, j).
                    let mut solved = row[..reach].to_vec();
                    for s in 0..reach {
                        let line = &strategy.coefficients[s * bands..s * bands + bands.min(s + 1)];
                        solved[s] = (solved[s] - dot_reversed(&line[1..], &solved[..s])) / line[0];
                        let target = &mut gradient[s * bands..s * bands + bands.min(s + 1)];
                        let weight = -2.0 * row[s];
                        for (entry, value) in target.iter_mut().zip(solved[..=s].iter().rev()) {
                            *entry += weight * value;
                        }
                    }
                }
                (error, gradient)
            })
            .collect();
        let error: f64 = partial.iter().map(|(share, _)| share).sum();
        let mut gradient = sum_in_order(rounds * bands, partial.iter().map(|(_, entries)| entries));
        if !(error.is_finite() && error > 0.0) {
            return None;
        }
        // Through C_i = f_π·V_i, f_π = (Σ ‖V_i‖²)^(−1/2): ∂V = f·(∂C − C·Σ_{π} ⟨∂C, C⟩).
        let mut along = vec![0.0; rounds];
        for (at, column) in self.entries() {
            gradient[at] /= error;
            along[column] += gradient[at] * strategy.coefficients[at];
        }
        let mut by_pattern = vec![0.0; rounds];
        for pattern in &self.patterns {
            let sum: f64 = pattern.iter().map(|&round| along[round]).sum();
            for &round in pattern {
                by_pattern[round] = sum;
            }
        }
        for (at, column) in self.entries() {
            gradient[at] = factors[column] * (gradient[at] - strategy.coefficients[at] * by_pattern[column]);
        }
        let inverse_curvature = vec![rounds as f64; gradient.len()];
        Some(Evaluation { value: error.ln(), gradient, inverse_curvature })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_gradient, prefix, separated, sums};
    use super::super::{Factorization, Strategy};
    use super::*;

    fn frobenius(workload: &Workload, participation: Participation, strategy: BandedStrategy) -> f64 {
        Factorization::evaluate(workload.clone(), participation, Strategy::Banded(strategy)).unwrap().frobenius()
    }

    #[test]
    fn cut_square_roots_have_the_reference_errors() {
        let workload = prefix(64);
        let participation = Participation::FixedEpoch { epochs: 4 };
        for (bands, expected) in [(1, 91.214), (4, 53.618), (16, 37.771), (64, 45.709)] {
            let coefficients = square_root_coefficients(bands, &[1.0]);
            let strategy = BandedStrategy::toeplitz(64, &coefficients);
            let found = frobenius(&workload, participation, strategy);
            assert!((found - expected).abs() < 1e-3, "{bands}: {found}");
        }
    }

    #[test]
    fn optimising_lowers_the_error_of_the_cut_square_root() {
        for (specification, participation) in [
            (sums(), Participation::epochs(4)),
            (sums().with_momentum(0.9), Participation::epochs(4)),
            (sums(), Participation::Single),
            (sums(), separated(3, 16)),
        ] {
            let workload = Workload::new(64, specification).unwrap();
            let roots = workload.similar_roots();
            for bands in [2, 8, 16] {
                let cut = BandedStrategy::toeplitz(64, &square_root_coefficients(bands, &roots));
                let before = frobenius(&workload, participation, cut);
                let toeplitz = toeplitz_coefficients(&workload, &participation, Objective::Frobenius, bands).unwrap();
                let between = frobenius(&workload, participation, BandedStrategy::toeplitz(64, &toeplitz));
                let found = optimize(&workload, &participation, Objective::Frobenius, bands).unwrap();
                let after = frobenius(&workload, participation, found);
                let falls = between < before && after <= between * (1.0 + 1e-9);
                assert!(falls, "{bands}: {before} {between} {after}");
            }
        }
    }

    #[test]
    fn the_entry_wise_gradient_is_that_of_finite_differences() {
        let workload = Workload::new(12, sums().with_momentum(0.5)).unwrap();
        let problem = EntryWise::new(&workload, &Participation::FixedEpoch { epochs: 3 }, 3).unwrap();
        let start = BandedStrategy::toeplitz(12, &[1.0, 0.6, 0.3]).coefficients;
        let gradient = problem.evaluate(&start).unwrap().gradient;
        let value = |point: &[f64]| problem.evaluate(point).unwrap().value;
        assert_gradient(&start, &gradient, (1e-6, 1e-8), value);
    }

    #[test]
    fn one_band_is_the_identity_and_more_than_the_rounds_are_refused() {
        let workload = prefix(5);
        let found = optimize(&workload, &Participation::Single, Objective::Frobenius, 1).unwrap();
        assert_eq!(found, BandedStrategy::toeplitz(5, &[1.0]));
        for bands in [0, 6] {
            let error = optimize(&workload, &Participation::Single, Objective::Frobenius, bands).unwrap_err();
            assert!(matches!(error, FactorizationError::InvalidParameter { .. }), "{error}");
        }
    }
}

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
//! Multi-epoch participation: for Λ = I the optimal U = X⁻¹·G·X⁻¹ is positive definite, which forces X_{ii'} = 0 for any two
//! rounds of one pattern (aligned contributions would make a 2 × 2 minor of U vanish) [derived]: columns that an example
//! can use together are orthogonal, and the sensitivity max_π Σ_{i∈π} X_ii is exact for every sign and direction of the
//! contributions. Under the largest row norm some rows may be slack, λ_t = 0, and U singular; then the primal point is
//! measured at its own sensitivity (`participation.rs`), beside its orthogonalised neighbour.
//!
//! Both duals are maximised in logarithms by L-BFGS (`minimizer.rs`), that of k epochs once more from a start near the optimum where that
//! leaves a gap. Workloads have banded inverses, so a dual value and
//! its gradient cost O(T) (single) or O(T·(kp)²) (k epochs).

use super::banded_lower::BandedLower;
use super::dual::{
    Dual, Objective, Optimum, add_multipliers, dual_evaluation, exponentials, finite_start, largest, minimize_gap,
};
use super::error::FactorizationError;
use super::minimizer::Evaluation;
use super::participation::Participation;
use super::pattern_dual::PatternDual;
use super::quadrature::InverseSquareRoot;
use super::shifted_inverse::ShiftedInverse;
use super::workload::{Workload, squared_row_errors};
use crate::vectors::dot;
use rounds_numerics::dense;

/// The optimal C for `workload`, with a certified relative gap of the squared objective of at most `gap`.
///
/// # Errors
/// `NotConverged` when the gap is out of reach, `Unsupported` for minimum-separation participation.
pub(crate) fn optimize(
    workload: &Workload,
    participation: &Participation,
    objective: Objective,
    gap: f64,
) -> Result<Optimum, FactorizationError> {
    participation.check(workload.rounds())?;
    if !(gap.is_finite() && gap > 0.0) {
        return Err(FactorizationError::InvalidParameter { name: "gap", value: gap, expected: "a positive number" });
    }
    if participation.participations(workload.rounds()) == 1 {
        return minimize_gap(&SingleParticipation::new(workload, objective), gap);
    }
    minimize_gap(&PatternDual::new(workload, participation, objective)?, gap)
}

/// The dual for U = diag(v).
struct SingleParticipation<'a> {
    workload: &'a Workload,
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
    fn new(workload: &'a Workload, objective: Objective) -> Self {
        Self {
            workload,
            reflected: workload.inverse().reflect(),
            squared_columns: workload.squared_column_norms(),
            objective,
        }
    }

    fn dual_point(&self, point: &[f64]) -> DualPoint {
        let rounds = self.workload.rounds();
        let weights = exponentials(&point[..rounds]);
        let rows = self.objective.row_multipliers(rounds, &point[rounds..]);
        let factor = match self.objective {
            Objective::Frobenius => self.workload.inverse().clone(),
            Objective::Max => self.workload.inverse().scale_columns(|column| rows[column].powf(-0.5)),
        };
        // Bounds of the spectrum of V^(−1/2)·A⁻¹Λ⁻¹A⁻ᵀ·V^(−1/2): from the norm of the matrix and of its inverse.
        let scaled = BandedLower::from_fn(factor.size, factor.subdiagonals, |row, column| {
            factor.get(row, column) / weights[row].sqrt()
        });
        let inverse_norm = largest(&rows) * dot(&weights, &self.squared_columns);
        let rule = InverseSquareRoot::on(1.0 / inverse_norm, scaled.squared_norm_bound());
        let columns_squared = ShiftedInverse { factor: &factor, weights: &weights, rule: &rule }.diagonal();
        let nuclear = dot(&weights, &columns_squared);
        DualPoint { weights, rows, rule, factor, columns_squared, nuclear }
    }

    /// diag of B·Bᵀ = A·X⁻¹·Aᵀ at the dual's primal point: the same operator for J·A⁻ᵀ·J, read backwards.
    fn row_errors(&self, point: &DualPoint) -> Vec<f64> {
        let last = self.workload.rounds() - 1;
        let factor = self.reflected.scale_columns(|column| point.weights[last - column].powf(-0.5));
        let rows: Vec<f64> = point.rows.iter().rev().copied().collect();
        let mut errors = ShiftedInverse { factor: &factor, weights: &rows, rule: &point.rule }.diagonal();
        errors.reverse();
        errors
    }
}

impl Dual for SingleParticipation<'_> {
    fn objective(&self) -> Objective {
        self.objective
    }

    fn first_barrier(&self) -> f64 {
        if self.objective == Objective::Max { 0.1 } else { 0.0 }
    }

    fn start(&self) -> Result<Vec<f64>, FactorizationError> {
        // One step of the fixed point from uniform weights: v = diag(G^(1/2)), λ = diag((A·Aᵀ)^(1/2)).
        let rounds = self.workload.rounds();
        let blocks = if self.objective == Objective::Max { 2 } else { 1 };
        let mut start = vec![0.0; blocks * rounds];
        let point = self.dual_point(&start);
        if self.objective == Objective::Max {
            for (value, error) in start[rounds..].iter_mut().zip(self.row_errors(&point)) {
                *value = error.ln();
            }
        }
        for (value, column) in start.iter_mut().zip(&point.columns_squared) {
            *value = column.ln();
        }
        finite_start(start, rounds)
    }

    fn evaluate(&self, point: &[f64], barrier: f64) -> Option<Evaluation> {
        let dual = self.dual_point(point);
        let mut evaluation = dual_evaluation(dual.nuclear, &dual.weights, &dual.rows)?;
        // Only the worst row leaves constraints slack.
        let barrier = if self.objective == Objective::Max { barrier } else { 0.0 };
        let mut add = |multipliers: &[f64], squares: &[f64]| {
            add_multipliers(&mut evaluation, multipliers, squares, dual.nuclear, barrier);
        };
        add(&dual.weights, &dual.columns_squared);
        if self.objective == Objective::Max {
            add(&dual.rows, &self.row_errors(&dual));
        }
        Some(evaluation)
    }

    fn certify(&self, point: &[f64]) -> Result<Option<Optimum>, FactorizationError> {
        let dual = self.dual_point(point);
        let shifted = ShiftedInverse { factor: &dual.factor, weights: &dual.weights, rule: &dual.rule };
        let mut gram = shifted.upper_triangle();
        let squares: Vec<f64> = gram.diagonal().column_vector().iter().copied().collect();
        // Columns the optimum leaves slack (v → 0, the worst row only) must not be stretched to the constraint.
        let scales: Vec<f64> = match self.objective {
            Objective::Frobenius => squares.iter().map(|square| square.powf(-0.5)).collect(),
            Objective::Max => vec![largest(&squares).powf(-0.5); squares.len()],
        };
        for column in 0..gram.ncols() {
            for row in 0..=column {
                gram[(row, column)] *= scales[row] * scales[column];
            }
            if self.objective == Objective::Frobenius {
                gram[(column, column)] = 1.0;
            }
        }
        let Some(strategy) = dense::strategy_from_gram(gram.transpose()) else {
            return Ok(None);
        };
        drop(gram);
        let columns = 0..strategy.ncols();
        let squared_norms = columns.map(|column| dense::column_product(strategy.as_ref(), column, column, column));
        let sensitivity = squared_norms.fold(0.0, f64::max);
        let errors = squared_row_errors(self.workload, strategy.as_ref());
        let nuclear = dual.nuclear * (1.0 - dual.rule.relative_error() - 1e-13);
        let bound = self.objective.dual_value(nuclear, &dual.weights, &dual.rows);
        let primal = sensitivity * self.objective.of_squares(&errors);
        Ok(Some(Optimum { strategy, relative_gap: (primal - bound) / primal }))
    }
}

#[cfg(test)]
mod tests {
    use rounds_numerics::Mat;

    use super::super::tests::{separated, sequence, sums};
    use super::super::workload::WorkloadSpecification;
    use super::super::{Exactness, Factorization, FactorizationRequest, Method, largest_difference};
    use super::*;

    fn optimal(
        rounds: usize,
        specification: WorkloadSpecification,
        participation: Participation,
        objective: Objective,
        gap: f64,
    ) -> Factorization {
        let workload = Workload::new(rounds, specification).unwrap();
        let request = FactorizationRequest::new(workload, participation, Method::Optimal);
        let request = FactorizationRequest { objective, gap, ..request };
        request.factorize().unwrap()
    }

    /// Several epochs, or one; the mean error.
    fn mean(rounds: usize, specification: WorkloadSpecification, epochs: usize, gap: f64) -> Factorization {
        let participation = Participation::epochs(epochs);
        optimal(rounds, specification, participation, Objective::Frobenius, gap)
    }

    fn matrix_of(factorization: &Factorization) -> Mat<f64> {
        factorization.strategy().matrix()
    }

    #[test]
    fn prefix_sums_have_the_reference_errors() {
        for (rounds, expected) in [
            (1, 1.0),
            (2, 0.25 * (3.0 + 5.0_f64.sqrt())),
            (3, 1.535_953_882_8),
            (4, 1.718_536_024_1),
            (8, 2.233_272_166_6),
            (16, 2.854_084_800_7),
            (32, 3.579_990_713_3),
            (64, 4.409_397_203_9),
            (120, 5.249_745_569_9),
            (128, 5.340_726_756_0),
            (256, 6.372_668_142_6),
            (512, 7.504_228_294_0),
            (600, 7.777_076_515_4),
            (1024, 8.734_696_479_0),
            (2048, 10.063_581_980_5),
        ] {
            let found = mean(rounds, sums(), 1, 1e-9);
            let squared = found.rms_error().powi(2);
            let close = (squared - expected).abs() < 1.1e-9 * expected;
            assert!(close, "T = {rounds}: {squared} {expected}");
            let gap = found.relative_gap().unwrap();
            assert!(gap <= 1e-9 && gap > -1e-12, "T = {rounds}: {gap}");
            assert!((found.sensitivity().value - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn momentum_decay_and_lambda_tau_have_the_reference_objectives_and_period_one_is_the_identity() {
        let decayed = sums().with_momentum(0.9).with_decay((-2.5_f64).exp());
        let weighted = |period| sums().with_lambda_tau(Some(period));
        for (rounds, specification, gap, expected, tolerance) in [
            (64, decayed, 1e-8, 99.296_f64.powi(2), 0.2),
            (32, weighted(8), 1e-9, 16.2887, 1e-4),
            (32, weighted(32), 1e-9, 6.266_32, 1e-4),
            (20, weighted(1), 1e-9, 20.0, 1e-7),
        ] {
            let found = mean(rounds, specification, 1, gap).frobenius().powi(2);
            assert!((found - expected).abs() < tolerance, "{expected}: {found}");
        }
        let found = matrix_of(&mean(20, weighted(1), 1, 1e-9));
        assert!(largest_difference(found.as_ref(), Mat::identity(20, 20).as_ref()).0 < 1e-6);
        // The last row of B = S·C⁻¹ under DP-MF⁺ and under DP-MF, τ = T = 32.
        for (period, expected) in [(Some(32), 2.2471), (None, 4.3237)] {
            let weighted = mean(32, sums().with_lambda_tau(period), 1, 1e-10);
            let plain = Workload::new(32, sums()).unwrap();
            let measured = Factorization::evaluate(plain, Participation::Single, weighted.strategy().clone()).unwrap();
            assert!((measured.row_errors()[31].powi(2) - expected).abs() < 1e-4);
        }
    }

    #[test]
    fn factors_are_triangular_and_multiply_to_the_workload() {
        for epochs in [1, 3] {
            for specification in [
                sums(),
                sums().with_momentum(0.9),
                sums().with_decay(0.3).with_momentum(0.5),
                sums().with_learning_rates((0..24).map(|t| 1.0 / (1.0 + f64::from(t))).collect()),
            ] {
                let found = mean(24, specification, epochs, 1e-6);
                let (strategy, errors) = (matrix_of(&found), found.strategy().error_matrix(found.workload()).unwrap());
                let above =
                    |matrix: &Mat<f64>| (0..24).all(|row| (row + 1..24).all(|column| matrix[(row, column)] == 0.0));
                assert!(above(&strategy) && above(&errors));
                let (product, workload) = (&errors * &strategy, found.workload().matrix());
                let worst = largest_difference(product.as_ref(), workload.as_ref());
                assert!(worst.0 < 1e-11 * workload[(23, 0)].abs(), "{worst:?}");
                assert!((found.sensitivity().value - 1.0).abs() < 1e-9);
                assert_eq!(found.sensitivity().exactness, Exactness::Exact);
                let gap = found.relative_gap().unwrap();
                assert!((-1e-12..=1e-6).contains(&gap), "{gap}");
            }
        }
    }

    #[test]
    fn six_participations_of_momentum_and_decay_are_certified() {
        // From the start of these, multipliers went to zero, where the dual is flat. The reference is a dense L-BFGS-B in NumPy.
        for (decay, expected) in [((-2.5_f64).exp(), 85_226.856_5), (1e-3, 72_435.0)] {
            for gap in [1e-2, 1e-4] {
                let found = mean(60, sums().with_momentum(0.9).with_decay(decay), 6, gap);
                assert!(found.relative_gap().unwrap() <= gap);
                let error = found.frobenius().powi(2) / expected;
                assert!((1.0 - 1e-5..1.0 + 1.1 * gap).contains(&error), "{error}");
            }
        }
    }

    /// The way of the barriers ends at a dual point of nearly the right value whose primal point has a gap of 0.98: blocks of the patterns with
    /// the least weights are all but singular. References: 1,500 steps of the same fixed point by dense decompositions, in NumPy.
    #[test]
    fn momentum_whose_last_rounds_weigh_little_is_certified() {
        for (rounds, epochs, expected) in [(60, 8, 507_043.061_177_6), (132, 3, 680_116.378_262)] {
            let found = mean(rounds, sums().with_momentum(0.98), epochs, 1e-5);
            assert!(found.relative_gap().unwrap() <= 1e-5);
            let error = found.frobenius().powi(2) / expected;
            assert!((1.0 - 1e-9..1.0 + 1.1e-5).contains(&error), "{error}");
        }
    }

    #[test]
    fn columns_that_one_example_uses_together_are_orthogonal() {
        let found = mean(30, sums(), 5, 1e-7);
        let strategy = matrix_of(&found);
        for left in 0..30 {
            for right in (left + 6..30).step_by(6) {
                let product = dense::column_product(strategy.as_ref(), left, right, right);
                assert!(product.abs() < 1e-12, "{left} {right} {product}");
            }
        }
    }

    #[test]
    fn no_small_change_of_the_optimum_improves_it() {
        for epochs in [1, 2] {
            let found = mean(8, sums(), epochs, 1e-10);
            let mut next = sequence(7);
            for _ in 0..300 {
                let mut strategy = matrix_of(&found);
                for column in 0..8 {
                    (column..8).for_each(|row| strategy[(row, column)] += 1e-3 * next());
                }
                let (workload, participation) = (found.workload().clone(), *found.participation());
                let changed = Factorization::from_matrix(workload, participation, strategy).unwrap();
                assert!(changed.frobenius() > found.frobenius() * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn the_worst_row_is_lower_under_its_own_objective_and_near_the_square_root() {
        for epochs in [1, 4] {
            let mean = mean(64, sums(), epochs, 1e-6);
            let worst = optimal(64, sums(), Participation::epochs(epochs), Objective::Max, 1e-4);
            assert!(worst.max_error() < mean.max_error());
            assert!(worst.frobenius() > mean.frobenius() * (1.0 - 1e-6));
        }
        // The square root is optimal among Toeplitz matrices for the worst row, and close among all.
        let found = optimal(128, sums(), Participation::Single, Objective::Max, 1e-4).max_error();
        assert!(found < 2.610_103_865 && found > 2.2, "{found}");
    }

    #[test]
    fn several_epochs_cost_less_than_their_group_bound() {
        // k epochs of a single-participation optimum cost at most k times its error (group privacy).
        let [single, several] = [1, 6].map(|epochs| mean(60, sums(), epochs, 1e-6).frobenius());
        assert!(several > single && several < 6.0 * single);
        // The reference's banded square root of 16 bands has 37.771.
        let banded = mean(64, sums(), 4, 1e-6).frobenius();
        assert!(banded < 37.771 && banded > 34.0, "{banded}");
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        for (rounds, epochs, objective) in
            [(150, 1, Objective::Frobenius), (150, 1, Objective::Max), (96, 4, Objective::Frobenius)]
        {
            let runs = [1, 2, 3, 8].map(|threads| -> Vec<u64> {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let specification = sums().with_momentum(0.5);
                    let found = optimal(rounds, specification, Participation::epochs(epochs), objective, 1e-4);
                    let matrix = matrix_of(&found);
                    let entries = matrix.col_iter().flat_map(|column| column.iter().copied());
                    entries.map(f64::to_bits).collect()
                })
            });
            let same = runs.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same, "T = {rounds}, {epochs} epochs");
        }
    }

    #[test]
    fn what_cannot_be_optimised_is_refused() {
        type Refused = fn(&FactorizationError) -> bool;
        let nine = Participation::FixedEpoch { epochs: 9 };
        let cases: [(Participation, f64, Refused); 4] = [
            (separated(2, 4), 1e-6, |error| matches!(error, FactorizationError::Unsupported { .. })),
            (Participation::Single, 0.0, |error| matches!(error, FactorizationError::InvalidParameter { .. })),
            (Participation::Single, 1e-17, |error| matches!(error, FactorizationError::NotConverged { .. })),
            (nine, 1e-6, |error| *error == FactorizationError::MoreEpochsThanRounds { epochs: 9, rounds: 8 }),
        ];
        for (participation, gap, refused) in cases {
            let workload = Workload::new(8, sums()).unwrap();
            let request = FactorizationRequest::new(workload, participation, Method::Optimal);
            let error = FactorizationRequest { gap, ..request }.factorize().unwrap_err();
            assert!(refused(&error), "{error}");
        }
    }
}

//! Workloads A: the linear map from released increments to what a learner uses, row t for round t.
//!
//! Every workload is a product of simple factors, A = Λ_τ·S·diag(η)·M·L, whose inverses have one subdiagonal each; so
//! A⁻¹ is banded with at most three subdiagonals, and products with A and solves cost O(T). That structure is what makes
//! the optimal factorisation fast (`optimal.rs`).

use std::str::FromStr;

use rayon::prelude::*;
use rounds_numerics::{Mat, MatRef};

use super::banded_lower::BandedLower;
use super::error::{FactorizationError, check_length, check_range, check_square};
use super::minimizer::sum_in_order;
use rounds_numerics::dense;

/// The composition of a workload: A = Λ_τ·S·diag(η)·M·L; a factor that is absent is the identity (S is always there).
///
/// * S, the prefix sum: (S g)_t = Σ_{s ≤ t} g_s [001 §2.1];
/// * M, momentum β: (M g)_t = Σ_{s ≤ t} β^{t−s} g_s [000 §5.1];
/// * L, the SRG recursion with decays c_t: (L D)_t = c_t (L D)_{t−1} + D_t [000 Algorithm 3];
/// * η, learning rates: round t's step is η_t times the (momentum) gradient;
/// * Λ_τ, the weighting of DP-MF⁺ [001 (15); specification 5.2].
///
/// `FromStr` reads `prefix`, `momentum=β`, `srg=c`, `srg=c,momentum=β` (in either order). Learning rates and τ are added
/// with the `with_…` methods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadSpecification {
    momentum: Option<f64>,
    decay: Option<f64>,
    decays: Option<Vec<f64>>,
    learning_rates: Option<Vec<f64>>,
    period: Option<usize>,
}

impl WorkloadSpecification {
    /// S.
    pub fn prefix() -> Self {
        Self::default()
    }

    /// Multiplies by M with momentum β in [0, 1).
    #[must_use]
    pub fn with_momentum(mut self, momentum: f64) -> Self {
        self.momentum = Some(momentum);
        self
    }

    /// Multiplies by L with the constant decay c in [0, 1).
    #[must_use]
    pub fn with_decay(mut self, decay: f64) -> Self {
        self.decay = Some(decay);
        self
    }

    /// Multiplies by L with the decays c_t ≥ 0, one a round, of which the first is not used.
    #[must_use]
    pub fn with_decays(mut self, decays: Vec<f64>) -> Self {
        self.decays = Some(decays);
        self
    }

    /// Multiplies by diag(η): one positive learning rate a round.
    #[must_use]
    pub fn with_learning_rates(mut self, learning_rates: Vec<f64>) -> Self {
        self.learning_rates = Some(learning_rates);
        self
    }

    /// Multiplies by Λ_τ, so that B measures the error that DP-MF⁺ minimises; `None` removes it again.
    #[must_use]
    pub fn with_lambda_tau(mut self, period: Option<usize>) -> Self {
        self.period = period;
        self
    }

    /// τ, where the workload is weighted by Λ_τ.
    pub fn lambda_tau(&self) -> Option<usize> {
        self.period
    }
}

impl FromStr for WorkloadSpecification {
    type Err = FactorizationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unreadable = || FactorizationError::Unreadable {
            what: "a workload",
            text: text.to_owned(),
            expected: "prefix, momentum=β, srg=c or srg=c,momentum=β",
        };
        if text == "prefix" {
            return Ok(Self::default());
        }
        let mut specification = Self::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(unreadable)?;
            let value: f64 = value.trim().parse().map_err(|_| unreadable())?;
            match name.trim() {
                "momentum" if specification.momentum.is_none() => specification.momentum = Some(value),
                "srg" if specification.decay.is_none() => specification.decay = Some(value),
                _ => return Err(unreadable()),
            }
        }
        Ok(specification)
    }
}

/// A, lower triangular and invertible, T × T, with Λ_τ already multiplied in where the specification has it.
#[derive(Clone, Debug)]
pub struct Workload {
    rounds: usize,
    specification: WorkloadSpecification,
    inverse: BandedLower,
}

impl Workload {
    /// Builds and checks A for T rounds.
    ///
    /// ```
    /// use rounds_algorithms::factorization::{Workload, WorkloadSpecification};
    ///
    /// let prefix_sums = Workload::new(3, WorkloadSpecification::prefix())?;
    /// let mut values = [1.0, 2.0, 3.0];
    /// prefix_sums.apply_in_place(&mut values);
    /// assert_eq!(values, [1.0, 3.0, 6.0]);
    /// # Ok::<(), rounds_algorithms::factorization::FactorizationError>(())
    /// ```
    ///
    /// # Errors
    /// T = 0, β or c outside their range, a rate that is not positive, a sequence that has not one value a round, τ = 0
    /// or τ > T.
    pub fn new(rounds: usize, specification: WorkloadSpecification) -> Result<Self, FactorizationError> {
        if rounds == 0 {
            return Err(FactorizationError::NoRounds);
        }
        if let Some(momentum) = specification.momentum {
            check_range("momentum", momentum, 0.0..1.0, "0 ≤ β < 1")?;
        }
        if let Some(decay) = specification.decay {
            check_range("srg", decay, 0.0..1.0, "a decay 0 ≤ c < 1")?;
        }
        if let Some(decays) = &specification.decays {
            check_length("the decays", decays.len(), rounds)?;
            // No entry of L is negative, and L·1 bounds all of them.
            let (mut sums, range) = (vec![1.0; rounds], "numbers of at least 0 whose products are finite");
            decays.iter().try_for_each(|&decay| check_range("srg", decay, 0.0..f64::INFINITY, range))?;
            accumulate(&mut sums, decays);
            sums.iter().try_for_each(|&sum| check_range("srg", sum, 0.0..f64::INFINITY, range))?;
        }
        if let Some(rates) = &specification.learning_rates {
            check_length("the learning-rate schedule", rates.len(), rounds)?;
            let positive = f64::MIN_POSITIVE..f64::MAX;
            for &rate in rates {
                check_range("learning rate", rate, positive.clone(), "a positive, finite number")?;
            }
        }
        if let Some(period) = specification.period {
            check_range("lambda-tau", period as f64, 1.0..rounds as f64 + 1.0, "1 ≤ τ ≤ T")?;
        }
        let inverse = composed_inverse(rounds, &specification);
        Ok(Self { rounds, specification, inverse })
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// A canonical text of everything this workload is made of, apart from T, bit-exact: what a cache is keyed by.
    pub(crate) fn key(&self) -> String {
        let WorkloadSpecification { momentum, decay, decays, learning_rates, period } = &self.specification;
        let none = || "none".to_owned();
        let bits = |value: &f64| format!("{:016x}", value.to_bits());
        let decay = decay.as_ref().map_or_else(none, |decay| format!("constant {}", bits(decay)));
        let list = |values: &Vec<f64>| values.iter().map(bits).collect::<Vec<_>>().join(",");
        // Caches hold keys from before there were sequences of decays.
        let decays = decays.as_ref().map_or_else(String::new, |decays| format!(" sequence {}", list(decays)));
        let rates = learning_rates.as_ref().map_or_else(none, list);
        format!(
            "composed;momentum={:?};decay={decay}{decays};rates={rates};period={period:?}",
            momentum.map(f64::to_bits)
        )
    }

    /// A⁻¹.
    pub(crate) fn inverse(&self) -> &BandedLower {
        &self.inverse
    }

    /// x ← A x = Λ_τ·S·diag(η)·M·L x, one pass a factor, O(T). `values` has one entry a round.
    pub fn apply_in_place(&self, values: &mut [f64]) {
        if let Some(decays) = &self.specification.decays {
            accumulate(values, decays);
        }
        for factor in [self.specification.decay, self.specification.momentum].into_iter().flatten() {
            for round in 1..values.len() {
                values[round] += factor * values[round - 1];
            }
        }
        if let Some(rates) = &self.specification.learning_rates {
            for (value, rate) in values.iter_mut().zip(rates) {
                *value *= rate;
            }
        }
        for round in 1..values.len() {
            values[round] += values[round - 1];
        }
        if let Some(period) = self.specification.period {
            apply_lambda_tau(period, values);
        }
    }

    /// A as a dense matrix.
    pub fn matrix(&self) -> Mat<f64> {
        matrix_of_map(self.rounds, |values| self.apply_in_place(values))
    }

    /// A has neither learning rates, Λ_τ nor decays that change.
    pub(crate) fn is_toeplitz(&self) -> bool {
        let WorkloadSpecification { learning_rates, period, decays, .. } = &self.specification;
        learning_rates.is_none() && period.is_none() && decays.is_none()
    }

    /// The zeros r_i of ∏ (1 − r_i x) = 1/A(x), where A is Toeplitz with the generating function A(x): {1, β, c}. Of one
    /// that is not, those of its Toeplitz part S·M·L.
    pub(crate) fn similar_roots(&self) -> Vec<f64> {
        let mut roots = vec![1.0];
        roots.extend(self.specification.momentum);
        roots.extend(self.specification.decay);
        roots
    }

    /// ‖A e_s‖² for every column s.
    pub(crate) fn squared_column_norms(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.rounds];
        if self.is_toeplitz() {
            // Column s is the beginning of the first one.
            values[0] = 1.0;
            self.apply_in_place(&mut values);
            let mut sum = 0.0;
            for value in &mut values {
                sum += *value * *value;
                *value = sum;
            }
            values.reverse();
            return values;
        }
        (0..self.rounds)
            .map(|column| {
                values.fill(0.0);
                values[column] = 1.0;
                self.apply_in_place(&mut values);
                values[column..].iter().map(|value| value * value).sum()
            })
            .collect()
    }
}

/// x_t ← c_t x_{t−1} + x_t, in the order of rounds.
fn accumulate(values: &mut [f64], decays: &[f64]) {
    for round in 1..values.len() {
        values[round] += decays[round] * values[round - 1];
    }
}

/// Checks that C is square, finite, lower triangular and invertible.
pub(crate) fn check_lower_triangular(matrix: MatRef<'_, f64>) -> Result<(), FactorizationError> {
    let (rows, columns) = matrix.shape();
    if rows == 0 || columns == 0 {
        return Err(FactorizationError::NoRounds);
    }
    check_square("C", (rows, columns), rows.max(columns))?;
    for column in 0..columns {
        for row in 0..rows {
            let value = matrix[(row, column)];
            if !value.is_finite() {
                return Err(FactorizationError::NotFinite { row, column, value });
            }
            if row < column && value != 0.0 {
                return Err(FactorizationError::NotLowerTriangular { row, column, value });
            }
            if row == column && value == 0.0 {
                return Err(FactorizationError::Singular { row, value });
            }
        }
    }
    Ok(())
}

/// x ← Λ_τ x [001 (15); specification 5.2, rows reconstructed]. With 1-based t and x_0 = 0:
/// y_t = x_t − x_{t−τ} where τ divides t, y_t = (x_t − x_{⌊t/τ⌋τ})/√τ elsewhere.
pub(crate) fn apply_lambda_tau(period: usize, values: &mut [f64]) {
    let weight = 1.0 / (period as f64).sqrt();
    for round in (1..=values.len()).rev() {
        let (base, factor) = if round % period == 0 { (round - period, 1.0) } else { (round - round % period, weight) };
        let reference = if base == 0 { 0.0 } else { values[base - 1] };
        values[round - 1] = factor * (values[round - 1] - reference);
    }
}

/// The matrix of a linear map.
pub(super) fn matrix_of_map(rounds: usize, apply: impl Fn(&mut [f64])) -> Mat<f64> {
    matrix_of(rounds, rounds, |column, values| {
        values.fill(0.0);
        values[column] = 1.0;
        apply(values);
    })
}

/// The matrix whose columns `fill` writes.
pub(crate) fn matrix_of(rows: usize, columns: usize, fill: impl Fn(usize, &mut [f64])) -> Mat<f64> {
    let mut matrix = Mat::zeros(rows, columns);
    let mut values = vec![0.0; rows];
    for column in 0..columns {
        fill(column, &mut values);
        for (row, &value) in values.iter().enumerate() {
            matrix[(row, column)] = value;
        }
    }
    matrix
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
    sum_in_order(rounds, &partial)
}

/// ‖B_t‖² for every round t, B = A·C⁻¹ for a dense C.
pub(crate) fn squared_row_errors(workload: &Workload, strategy: MatRef<'_, f64>) -> Vec<f64> {
    squared_row_norms_of_columns(workload, strategy.ncols(), columns_of(dense::invert_lower(strategy)))
}

/// Copies the columns of a matrix.
pub(crate) fn columns_of(matrix: Mat<f64>) -> impl Fn(usize, &mut [f64]) + Sync {
    move |column, values| values.iter_mut().zip(matrix.col(column).iter()).for_each(|(value, entry)| *value = *entry)
}

/// A⁻¹ = L⁻¹·M⁻¹·diag(1/η)·(Λ_τ S)⁻¹, each factor with at most one subdiagonal.
///
/// (Λ_τ S)⁻¹ is bidiagonal although Λ_τ⁻¹ is not: with w = 1/√τ, the increment x_t − x_{t−1} of what Λ_τ weights is
/// y_t/w_t − [τ ∤ t−1] y_{t−1}/w, w_t = 1 where τ | t and w elsewhere, since the reference points cancel [derived].
fn composed_inverse(rounds: usize, specification: &WorkloadSpecification) -> BandedLower {
    let mut inverse = match specification.period {
        None => BandedLower::from_fn(rounds, 1, |row, column| if row == column { 1.0 } else { -1.0 }),
        Some(period) => {
            let root = (period as f64).sqrt();
            BandedLower::from_fn(rounds, 1, |row, column| match (row == column, (column + 1).is_multiple_of(period)) {
                (true, true) => 1.0,
                (true, false) => root,
                (false, true) => 0.0,
                (false, false) => -root,
            })
        }
    };
    if let Some(rates) = &specification.learning_rates {
        inverse = BandedLower::from_fn(rounds, 0, |row, _| 1.0 / rates[row]).multiply(&inverse);
    }
    for factor in [specification.momentum, specification.decay].into_iter().flatten() {
        inverse =
            BandedLower::from_fn(rounds, 1, |row, column| if row == column { 1.0 } else { -factor }).multiply(&inverse);
    }
    if let Some(decays) = &specification.decays {
        inverse = BandedLower::from_fn(rounds, 1, |row, column| if row == column { 1.0 } else { -decays[row] })
            .multiply(&inverse);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::super::largest_difference;
    use super::super::tests::{lambda_tau_matrix, sums, toeplitz_rows};
    use super::*;

    fn specifications(rounds: usize) -> Vec<WorkloadSpecification> {
        let rates: Vec<f64> = (0..rounds).map(|t| 0.1 + 1.0 / (1.0 + t as f64)).collect();
        let mut all = vec![
            sums(),
            sums().with_momentum(0.9),
            sums().with_decay(0.3),
            sums().with_decay(0.3).with_momentum(0.5),
            sums().with_learning_rates(rates.clone()),
            sums().with_decays(rates.clone()),
            sums().with_decays(rates.clone()).with_momentum(0.8).with_learning_rates(rates.clone()),
            sums().with_decay(0.6).with_momentum(0.8).with_learning_rates(rates),
        ];
        for period in [1, 2, 3, rounds] {
            all.push(sums().with_lambda_tau(Some(period)));
            all.push(sums().with_decay(0.6).with_lambda_tau(Some(period)));
        }
        all
    }

    #[test]
    fn banded_inverses_invert_the_workload() {
        for rounds in [3, 7, 12] {
            for specification in specifications(rounds) {
                let workload = Workload::new(rounds, specification.clone()).unwrap();
                let inverse = Mat::from_fn(rounds, rounds, |row, column| workload.inverse().get(row, column));
                let product = workload.matrix() * inverse;
                let worst = largest_difference(product.as_ref(), Mat::identity(rounds, rounds).as_ref());
                assert!(worst.0 < 1e-10, "{specification:?}: {worst:?}");
            }
        }
    }

    #[test]
    fn workloads_are_products_of_their_factors() {
        let (momentum, decay) = (0.9_f64, 0.25_f64);
        let workload = Workload::new(9, sums().with_momentum(momentum).with_decay(decay)).unwrap();
        let power = |base: f64| {
            let coefficients: Vec<f64> = (0..9).map(|lag| base.powi(lag)).collect();
            let rows = toeplitz_rows(&coefficients);
            Mat::from_fn(9, 9, |row, column| rows[row][column])
        };
        let expected = power(1.0) * power(momentum) * power(decay);
        assert!(largest_difference(workload.matrix().as_ref(), expected.as_ref()).0 < 1e-12);
        let mut constant = vec![decay; 9];
        constant[0] = 7.0;
        let listed = Workload::new(9, sums().with_momentum(momentum).with_decays(constant)).unwrap();
        assert!(listed.matrix() == workload.matrix() && !listed.is_toeplitz() && listed.key() != workload.key());
        assert!(workload.is_toeplitz());
        assert_eq!(workload.similar_roots(), [1.0, momentum, decay]);
    }

    #[test]
    fn squared_column_norms_are_those_of_the_matrix() {
        for specification in specifications(8) {
            let workload = Workload::new(8, specification).unwrap();
            let matrix = workload.matrix();
            for (column, found) in workload.squared_column_norms().iter().enumerate() {
                let expected: f64 = matrix.col(column).iter().map(|entry| entry * entry).sum();
                assert!((found - expected).abs() < 1e-12 * expected);
            }
        }
    }

    #[test]
    fn lambda_of_period_three_has_the_exact_rows() {
        let found = lambda_tau_matrix(12, 3);
        let s = 1.0 / 3.0_f64.sqrt();
        // Row t has this weight at t and its negative at `minus`, all from 1, 0 for none [specification 5.2].
        let rows = [0, 3, 6, 9].into_iter().flat_map(|minus| [s, s, 1.0].map(|weight| (weight, minus)));
        for (plus, (weight, minus)) in (1..).zip(rows) {
            for column in 1..=12_usize {
                let expected = if column == plus {
                    weight
                } else if column == minus {
                    -weight
                } else {
                    0.0
                };
                assert_eq!(found[(plus - 1, column - 1)], expected, "({plus}, {column})");
            }
        }
        // τ = 1: Λ·S = I.
        let identity = Workload::new(6, sums().with_lambda_tau(Some(1))).unwrap().matrix();
        assert_eq!(identity, Mat::<f64>::identity(6, 6));
    }

    #[test]
    fn texts_are_read_and_others_refused() {
        let read = |text: &str| text.parse::<WorkloadSpecification>();
        assert_eq!(read("prefix").unwrap(), sums());
        assert_eq!(read("momentum=0.9").unwrap(), sums().with_momentum(0.9));
        let both = sums().with_decay(0.25).with_momentum(0.5);
        assert_eq!(read("srg=0.25,momentum=0.5").unwrap(), both);
        assert_eq!(read("momentum=0.5,srg=0.25").unwrap(), both);
        let bad = ["", "momentum", "momentum=x", "srg=0.1,srg=0.2", "suffix", "momentum=0.5,"];
        for text in bad {
            let error = read(text).unwrap_err();
            assert!(matches!(error, FactorizationError::Unreadable { .. }), "{text}");
        }
    }

    #[test]
    fn workloads_out_of_range_are_refused() {
        assert_eq!(Workload::new(0, sums()).unwrap_err(), FactorizationError::NoRounds);
        for broken in [
            sums().with_momentum(1.0),
            sums().with_momentum(f64::NAN),
            sums().with_decay(-0.1),
            sums().with_decays(vec![0.5, -0.1]),
            sums().with_decays(vec![0.5, f64::NAN]),
            sums().with_learning_rates(vec![1.0, 0.0]),
            sums().with_learning_rates(vec![1.0, f64::INFINITY]),
            sums().with_lambda_tau(Some(0)),
            sums().with_lambda_tau(Some(3)),
        ] {
            let error = Workload::new(2, broken).unwrap_err();
            assert!(matches!(error, FactorizationError::InvalidParameter { .. }), "{error}");
        }
        let error = Workload::new(2, sums().with_learning_rates(vec![1.0])).unwrap_err();
        assert!(error.to_string().contains("holds 1 values, expected 2"), "{error}");
    }
}

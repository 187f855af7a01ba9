//! Workloads A: the linear map from released increments to what a learner uses, row t for round t.
//!
//! Every workload is a product of simple factors, A = Λ_τ·S·diag(η)·M·L, whose inverses have one subdiagonal each; so
//! A⁻¹ is banded with at most three subdiagonals, and products with A and solves cost O(T). That structure is what makes
//! the optimal factorisation fast (`optimal.rs`). A workload given as a matrix keeps the same interface.

use std::str::FromStr;

use faer::{Mat, MatRef};

use super::banded_lower::BandedLower;
use super::error::FactorizationError;

/// How a workload is composed: A = Λ_τ·S·diag(η)·M·L; a factor that is absent is the identity (S is always there).
///
/// * S, the prefix sum: (S g)_t = Σ_{s ≤ t} g_s [001 §2.1];
/// * M, momentum β: (M g)_t = Σ_{s ≤ t} β^{t−s} g_s [000 §5.1];
/// * L, the SRG recursion with decay c: (L D)_t = c_t (L D)_{t−1} + D_t [000 Algorithm 3], constant or a sequence;
/// * η, learning rates: round t's step is η_t times the (momentum) gradient;
/// * Λ_τ, the weighting of DP-MF⁺ [001 (15); specification 5.2].
///
/// `FromStr` reads `prefix`, `momentum=β`, `srg=c`, `srg=c,momentum=β` (in either order). Learning rates, decay
/// sequences and τ are added with the `with_…` methods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadSpecification {
    momentum: Option<f64>,
    decay: Option<Decay>,
    learning_rates: Option<Vec<f64>>,
    period: Option<usize>,
}

/// The decays c_t of the SRG recursion; c_1 multiplies nothing.
#[derive(Clone, Debug, PartialEq)]
enum Decay {
    Constant(f64),
    Sequence(Vec<f64>),
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
        self.decay = Some(Decay::Constant(decay));
        self
    }

    /// Multiplies by L with one decay c_t ≥ 0 a round (c_1 is not used).
    #[must_use]
    pub fn with_decays(mut self, decays: Vec<f64>) -> Self {
        self.decay = Some(Decay::Sequence(decays));
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

    /// A canonical text of everything this specification holds, bit-exact: what a cache is keyed by.
    pub(crate) fn canonical(&self) -> String {
        let sequence = |values: &[f64]| {
            values
                .iter()
                .map(|value| format!("{:016x}", value.to_bits()))
                .collect::<Vec<_>>()
                .join(",")
        };
        format!(
            "momentum={:?};decay={};rates={};period={:?}",
            self.momentum.map(f64::to_bits),
            match &self.decay {
                None => "none".to_owned(),
                Some(Decay::Constant(decay)) => format!("constant {:016x}", decay.to_bits()),
                Some(Decay::Sequence(decays)) => format!("sequence {}", sequence(decays)),
            },
            self.learning_rates
                .as_deref()
                .map_or_else(|| "none".to_owned(), sequence),
            self.period
        )
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
                "srg" if specification.decay.is_none() => specification.decay = Some(Decay::Constant(value)),
                _ => return Err(unreadable()),
            }
        }
        Ok(specification)
    }
}

/// η_t = η for the first rounds, then falling linearly to `final_fraction`·η over the last `cooldown` rounds.
///
/// Round T − cooldown + i, i = 1 … cooldown, has η·(1 − (1 − final_fraction)·i/cooldown).
///
/// # Errors
///
/// A rate or fraction that is not positive, or a cooldown longer than the run.
pub fn learning_rates_with_cooldown(
    rounds: usize,
    learning_rate: f64,
    cooldown: usize,
    final_fraction: f64,
) -> Result<Vec<f64>, FactorizationError> {
    if cooldown > rounds {
        return Err(FactorizationError::InvalidParameter {
            name: "cooldown",
            value: cooldown as f64,
            expected: "at most the number of rounds",
        });
    }
    for (name, value) in [("learning rate", learning_rate), ("final fraction", final_fraction)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(FactorizationError::InvalidParameter {
                name,
                value,
                expected: "a positive number",
            });
        }
    }
    let start = rounds - cooldown;
    Ok((0..rounds)
        .map(|round| {
            if round < start {
                learning_rate
            } else {
                learning_rate * (1.0 - (1.0 - final_fraction) * (round - start + 1) as f64 / cooldown as f64)
            }
        })
        .collect())
}

/// A, lower triangular and invertible, T × T, with Λ_τ already multiplied in where the specification has it.
#[derive(Clone, Debug)]
pub struct Workload {
    rounds: usize,
    form: Form,
    key: String,
}

#[derive(Clone, Debug)]
enum Form {
    Composed {
        specification: WorkloadSpecification,
        inverse: BandedLower,
    },
    Dense {
        matrix: Mat<f64>,
    },
}

impl Workload {
    /// Builds and checks A for T rounds.
    ///
    /// # Errors
    ///
    /// T = 0, β or c outside their range, a rate that is not positive, a sequence that has not one value a round, τ = 0
    /// or τ > T.
    pub fn new(rounds: usize, specification: WorkloadSpecification) -> Result<Self, FactorizationError> {
        if rounds == 0 {
            return Err(FactorizationError::NoRounds);
        }
        if let Some(momentum) = specification.momentum {
            check_range("momentum", momentum, 0.0..1.0, "0 ≤ β < 1")?;
        }
        match &specification.decay {
            Some(Decay::Constant(decay)) => check_range("srg", *decay, 0.0..1.0, "a decay 0 ≤ c < 1")?,
            Some(Decay::Sequence(decays)) => {
                check_length("the decay sequence", decays.len(), rounds)?;
                for &decay in decays {
                    check_range("decay", decay, 0.0..f64::MAX, "a finite decay c_t ≥ 0")?;
                }
            }
            None => {}
        }
        if let Some(rates) = &specification.learning_rates {
            check_length("the learning-rate schedule", rates.len(), rounds)?;
            for &rate in rates {
                check_range(
                    "learning rate",
                    rate,
                    f64::MIN_POSITIVE..f64::MAX,
                    "a positive, finite number",
                )?;
            }
        }
        if let Some(period) = specification.period
            && (period == 0 || period > rounds)
        {
            return Err(FactorizationError::InvalidParameter {
                name: "lambda-tau",
                value: period as f64,
                expected: "1 ≤ τ ≤ T",
            });
        }
        let inverse = composed_inverse(rounds, &specification);
        let key = format!("composed;{}", specification.canonical());
        Ok(Self {
            rounds,
            form: Form::Composed { specification, inverse },
            key,
        })
    }

    /// A given entry by entry.
    ///
    /// # Errors
    ///
    /// An empty or non-square matrix, an entry that is not finite, a non-zero entry above the diagonal, a zero on it.
    pub fn from_matrix(matrix: Mat<f64>) -> Result<Self, FactorizationError> {
        check_lower_triangular("the workload", matrix.as_ref())?;
        let rounds = matrix.nrows();
        let mut digest = <sha2::Sha256 as sha2::Digest>::new();
        for column in 0..rounds {
            for row in column..rounds {
                sha2::Digest::update(&mut digest, matrix[(row, column)].to_le_bytes());
            }
        }
        let key = format!("matrix;{}", crate::hexadecimal(&sha2::Digest::finalize(digest)));
        Ok(Self {
            rounds,
            form: Form::Dense { matrix },
            key,
        })
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// What identifies this workload in a cache, apart from T.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The specification it was built from, unless it was given as a matrix.
    pub fn specification(&self) -> Option<&WorkloadSpecification> {
        match &self.form {
            Form::Composed { specification, .. } => Some(specification),
            Form::Dense { .. } => None,
        }
    }

    /// A⁻¹, where it is known to be banded.
    pub fn banded_inverse(&self) -> Option<&BandedLower> {
        match &self.form {
            Form::Composed { inverse, .. } => Some(inverse),
            Form::Dense { .. } => None,
        }
    }

    /// x ← A x, O(T) for composed workloads. `values` has one entry a round.
    pub fn apply_in_place(&self, values: &mut [f64]) {
        match &self.form {
            Form::Composed { specification, .. } => apply_composed(specification, values),
            Form::Dense { matrix } => {
                for row in (0..self.rounds).rev() {
                    values[row] = (0..=row).map(|column| matrix[(row, column)] * values[column]).sum();
                }
            }
        }
    }

    /// A as a dense matrix.
    pub fn matrix(&self) -> Mat<f64> {
        match &self.form {
            Form::Composed { .. } => {
                let mut matrix = Mat::zeros(self.rounds, self.rounds);
                let mut column_values = vec![0.0; self.rounds];
                for column in 0..self.rounds {
                    column_values.fill(0.0);
                    column_values[column] = 1.0;
                    self.apply_in_place(&mut column_values);
                    for row in column..self.rounds {
                        matrix[(row, column)] = column_values[row];
                    }
                }
                matrix
            }
            Form::Dense { matrix } => matrix.clone(),
        }
    }

    /// The zeros r_i of ∏ (1 − r_i x) = 1/A(x), where A is Toeplitz with the generating function A(x): {1, β, c}.
    ///
    /// `None` with learning rates, a decay sequence, Λ_τ or a matrix: those are not Toeplitz.
    pub fn toeplitz_roots(&self) -> Option<Vec<f64>> {
        let Form::Composed { specification, .. } = &self.form else {
            return None;
        };
        if specification.learning_rates.is_some() || specification.period.is_some() {
            return None;
        }
        specification.underlying_roots()
    }

    /// The roots of a Toeplitz workload, or of the Toeplitz part of one that is not: {1} where there is none.
    pub(crate) fn similar_roots(&self) -> Vec<f64> {
        match &self.form {
            Form::Composed { specification, .. } => specification.underlying_roots().unwrap_or_else(|| vec![1.0]),
            Form::Dense { .. } => vec![1.0],
        }
    }

    /// The coefficients a_0 … a_{T−1} of a Toeplitz workload, A[t, s] = a_{t−s}; `None` where A is not Toeplitz.
    pub fn toeplitz_coefficients(&self) -> Option<Vec<f64>> {
        self.toeplitz_roots()?;
        let mut coefficients = vec![0.0; self.rounds];
        coefficients[0] = 1.0;
        self.apply_in_place(&mut coefficients);
        Some(coefficients)
    }

    /// ‖A e_s‖² for every column s.
    pub(crate) fn squared_column_norms(&self) -> Vec<f64> {
        if let Some(coefficients) = self.toeplitz_coefficients() {
            let mut norms = vec![0.0; self.rounds];
            let mut sum = 0.0;
            for (length, coefficient) in coefficients.iter().enumerate() {
                sum += coefficient * coefficient;
                norms[self.rounds - 1 - length] = sum;
            }
            return norms;
        }
        let mut values = vec![0.0; self.rounds];
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

impl WorkloadSpecification {
    /// {1, β, c} of the Toeplitz part S·M·L, ignoring rates and Λ_τ; `None` with a decay sequence.
    pub(crate) fn underlying_roots(&self) -> Option<Vec<f64>> {
        let mut roots = vec![1.0];
        roots.extend(self.momentum);
        match self.decay {
            None => {}
            Some(Decay::Constant(decay)) => roots.push(decay),
            Some(Decay::Sequence(_)) => return None,
        }
        Some(roots)
    }
}

impl Decay {
    fn at(&self, round: usize) -> f64 {
        match self {
            Self::Constant(decay) => *decay,
            Self::Sequence(decays) => decays[round],
        }
    }
}

fn check_range(
    name: &'static str,
    value: f64,
    range: std::ops::Range<f64>,
    expected: &'static str,
) -> Result<(), FactorizationError> {
    if range.contains(&value) {
        Ok(())
    } else {
        Err(FactorizationError::InvalidParameter { name, value, expected })
    }
}

fn check_length(name: &'static str, found: usize, expected: usize) -> Result<(), FactorizationError> {
    if found == expected {
        Ok(())
    } else {
        Err(FactorizationError::WrongLength { name, found, expected })
    }
}

/// Checks that a matrix is square, finite, lower triangular and invertible.
pub(crate) fn check_lower_triangular(name: &'static str, matrix: MatRef<'_, f64>) -> Result<(), FactorizationError> {
    let (rows, columns) = matrix.shape();
    if rows == 0 || columns == 0 {
        return Err(FactorizationError::NoRounds);
    }
    if rows != columns {
        return Err(FactorizationError::ShapeMismatch {
            name,
            rows,
            columns,
            expected: rows.max(columns),
        });
    }
    for column in 0..columns {
        for row in 0..rows {
            let value = matrix[(row, column)];
            if !value.is_finite() {
                return Err(FactorizationError::NotFinite {
                    name,
                    row,
                    column,
                    value,
                });
            }
            if row < column && value != 0.0 {
                return Err(FactorizationError::NotLowerTriangular {
                    name,
                    row,
                    column,
                    value,
                });
            }
            if row == column && value == 0.0 {
                return Err(FactorizationError::Singular { name, row, value });
            }
        }
    }
    Ok(())
}

/// x ← Λ_τ·S·diag(η)·M·L x, one pass a factor.
fn apply_composed(specification: &WorkloadSpecification, values: &mut [f64]) {
    if let Some(decay) = &specification.decay {
        for round in 1..values.len() {
            values[round] += decay.at(round) * values[round - 1];
        }
    }
    if let Some(momentum) = specification.momentum {
        for round in 1..values.len() {
            values[round] += momentum * values[round - 1];
        }
    }
    if let Some(rates) = &specification.learning_rates {
        for (value, rate) in values.iter_mut().zip(rates) {
            *value *= rate;
        }
    }
    for round in 1..values.len() {
        values[round] += values[round - 1];
    }
    if let Some(period) = specification.period {
        apply_lambda_tau(period, values);
    }
}

/// x ← Λ_τ x [001 (15); specification 5.2, rows reconstructed]. With 1-based t and x_0 = 0:
/// y_t = x_t − x_{t−τ} where τ divides t, y_t = (x_t − x_{⌊t/τ⌋τ})/√τ elsewhere.
pub(crate) fn apply_lambda_tau(period: usize, values: &mut [f64]) {
    let weight = 1.0 / (period as f64).sqrt();
    for round in (1..=values.len()).rev() {
        let (base, factor) = if round % period == 0 {
            (round - period, 1.0)
        } else {
            (round - round % period, weight)
        };
        let reference = if base == 0 { 0.0 } else { values[base - 1] };
        values[round - 1] = factor * (values[round - 1] - reference);
    }
}

/// Λ_τ as a matrix, T × T.
pub fn lambda_tau_matrix(rounds: usize, period: usize) -> Mat<f64> {
    let mut matrix = Mat::zeros(rounds, rounds);
    let mut values = vec![0.0; rounds];
    for column in 0..rounds {
        values.fill(0.0);
        values[column] = 1.0;
        apply_lambda_tau(period, &mut values);
        for row in 0..rounds {
            matrix[(row, column)] = values[row];
        }
    }
    matrix
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
            BandedLower::from_fn(rounds, 1, |row, column| {
                match (row == column, (column + 1).is_multiple_of(period)) {
                    (true, true) => 1.0,
                    (true, false) => root,
                    (false, true) => 0.0,
                    (false, false) => -root,
                }
            })
        }
    };
    if let Some(rates) = &specification.learning_rates {
        inverse = BandedLower::from_fn(rounds, 0, |row, _| 1.0 / rates[row]).multiply(&inverse);
    }
    if let Some(momentum) = specification.momentum {
        inverse = BandedLower::from_fn(rounds, 1, |row, column| if row == column { 1.0 } else { -momentum })
            .multiply(&inverse);
    }
    if let Some(decay) = &specification.decay {
        inverse = BandedLower::from_fn(
            rounds,
            1,
            |row, column| if row == column { 1.0 } else { -decay.at(row) },
        )
        .multiply(&inverse);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specifications(rounds: usize) -> Vec<WorkloadSpecification> {
        let prefix = WorkloadSpecification::prefix;
        let rates: Vec<f64> = (0..rounds).map(|t| 0.1 + 1.0 / (1.0 + t as f64)).collect();
        let decays: Vec<f64> = (0..rounds).map(|t| t as f64 / (t as f64 + 2.0)).collect();
        let mut all = vec![
            prefix(),
            prefix().with_momentum(0.9),
            prefix().with_decay(0.3),
            prefix().with_decay(0.3).with_momentum(0.5),
            prefix().with_learning_rates(rates.clone()),
            prefix()
                .with_decays(decays.clone())
                .with_momentum(0.8)
                .with_learning_rates(rates),
        ];
        for period in [1, 2, 3, rounds] {
            all.push(prefix().with_lambda_tau(Some(period)));
            all.push(prefix().with_decays(decays.clone()).with_lambda_tau(Some(period)));
        }
        all
    }

    #[test]
    fn banded_inverses_invert_the_workload() {
        for rounds in [3, 7, 12] {
            for specification in specifications(rounds) {
                let workload = Workload::new(rounds, specification.clone()).unwrap();
                let (matrix, inverse) = (workload.matrix(), workload.banded_inverse().unwrap());
                for row in 0..rounds {
                    for column in 0..rounds {
                        let product: f64 = (0..rounds).map(|k| matrix[(row, k)] * inverse.get(k, column)).sum();
                        let unit = f64::from(u8::from(row == column));
                        assert!(
                            (product - unit).abs() < 1e-10,
                            "{specification:?} ({row}, {column}): {product}"
                        );
                    }
                }
                let mut values: Vec<f64> = (0..rounds).map(|t| (t as f64 * 0.7).sin()).collect();
                let expected = values.clone();
                workload.apply_in_place(&mut values);
                inverse.multiply_in_place(&mut values);
                for (found, expected) in values.iter().zip(&expected) {
                    assert!((found - expected).abs() < 1e-10);
                }
                let mut solved = expected.clone();
                inverse.solve_in_place(&mut solved);
                let mut applied = expected.clone();
                workload.apply_in_place(&mut applied);
                for (found, expected) in solved.iter().zip(&applied) {
                    assert!((found - expected).abs() < 1e-10 * expected.abs().max(1.0));
                }
            }
        }
    }

    #[test]
    fn workloads_are_products_of_their_factors() {
        let (momentum, decay) = (0.9_f64, 0.25_f64);
        let workload = Workload::new(
            9,
            WorkloadSpecification::prefix()
                .with_momentum(momentum)
                .with_decay(decay),
        )
        .unwrap();
        let power = |base: f64| {
            Mat::from_fn(9, 9, |row, column| {
                if row >= column {
                    base.powi((row - column) as i32)
                } else {
                    0.0
                }
            })
        };
        let expected = power(1.0) * power(momentum) * power(decay);
        let found = workload.matrix();
        for row in 0..9 {
            for column in 0..9 {
                assert!((found[(row, column)] - expected[(row, column)]).abs() < 1e-12);
            }
        }
        assert_eq!(workload.toeplitz_roots(), Some(vec![1.0, momentum, decay]));
        assert_eq!(workload.toeplitz_coefficients().unwrap().len(), 9);
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
        // (round, weight, plus, minus), all from 1, minus 0 for none [specification 5.2].
        let rows = [
            (1, s, 1, 0),
            (2, s, 2, 0),
            (3, 1.0, 3, 0),
            (4, s, 4, 3),
            (5, s, 5, 3),
            (6, 1.0, 6, 3),
            (7, s, 7, 6),
            (8, s, 8, 6),
            (9, 1.0, 9, 6),
            (10, s, 10, 9),
            (11, s, 11, 9),
            (12, 1.0, 12, 9),
        ];
        for (round, weight, plus, minus) in rows {
            for column in 1..=12_usize {
                let expected = if column == plus {
                    weight
                } else if column == minus {
                    -weight
                } else {
                    0.0
                };
                assert_eq!(found[(round - 1, column - 1)], expected, "({round}, {column})");
            }
        }
        // τ = 1: Λ·S = I.
        let identity = Workload::new(6, WorkloadSpecification::prefix().with_lambda_tau(Some(1)))
            .unwrap()
            .matrix();
        assert_eq!(identity, Mat::<f64>::identity(6, 6));
    }

    #[test]
    fn texts_are_read_and_others_refused() {
        let read = |text: &str| text.parse::<WorkloadSpecification>();
        assert_eq!(read("prefix").unwrap(), WorkloadSpecification::prefix());
        assert_eq!(
            read("momentum=0.9").unwrap(),
            WorkloadSpecification::prefix().with_momentum(0.9)
        );
        let both = WorkloadSpecification::prefix().with_decay(0.25).with_momentum(0.5);
        assert_eq!(read("srg=0.25,momentum=0.5").unwrap(), both);
        assert_eq!(read("momentum=0.5,srg=0.25").unwrap(), both);
        for text in [
            "",
            "momentum",
            "momentum=x",
            "srg=0.1,srg=0.2",
            "suffix",
            "momentum=0.5,",
        ] {
            assert!(
                matches!(read(text), Err(FactorizationError::Unreadable { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn workloads_out_of_range_are_refused() {
        let prefix = WorkloadSpecification::prefix;
        assert_eq!(Workload::new(0, prefix()).unwrap_err(), FactorizationError::NoRounds);
        for broken in [
            prefix().with_momentum(1.0),
            prefix().with_momentum(f64::NAN),
            prefix().with_decay(-0.1),
            prefix().with_learning_rates(vec![1.0, 0.0]),
            prefix().with_learning_rates(vec![1.0, f64::INFINITY]),
            prefix().with_decays(vec![0.0, -1.0]),
            prefix().with_lambda_tau(Some(0)),
            prefix().with_lambda_tau(Some(3)),
        ] {
            assert!(matches!(
                Workload::new(2, broken),
                Err(FactorizationError::InvalidParameter { .. })
            ));
        }
        let short = prefix().with_learning_rates(vec![1.0]);
        assert!(matches!(
            Workload::new(2, short),
            Err(FactorizationError::WrongLength {
                found: 1,
                expected: 2,
                ..
            })
        ));
    }

    #[test]
    fn matrices_that_are_no_workload_are_refused() {
        let matrix = |entries: [[f64; 2]; 2]| Mat::from_fn(2, 2, |row, column| entries[row][column]);
        let refused = |entries| Workload::from_matrix(matrix(entries)).unwrap_err();
        assert!(matches!(
            refused([[1.0, 0.5], [1.0, 1.0]]),
            FactorizationError::NotLowerTriangular { row: 0, column: 1, .. }
        ));
        assert!(matches!(
            refused([[1.0, 0.0], [1.0, 0.0]]),
            FactorizationError::Singular { row: 1, .. }
        ));
        assert!(matches!(
            refused([[1.0, 0.0], [f64::NAN, 1.0]]),
            FactorizationError::NotFinite { row: 1, .. }
        ));
        assert!(matches!(
            Workload::from_matrix(Mat::zeros(2, 3)).unwrap_err(),
            FactorizationError::ShapeMismatch {
                rows: 2,
                columns: 3,
                ..
            }
        ));
        assert!(matches!(
            Workload::from_matrix(Mat::zeros(0, 0)).unwrap_err(),
            FactorizationError::NoRounds
        ));
    }

    #[test]
    fn learning_rates_cool_down_linearly() {
        let rates = learning_rates_with_cooldown(6, 2.0, 4, 0.5).unwrap();
        assert_eq!(rates, [2.0, 2.0, 1.75, 1.5, 1.25, 1.0]);
        assert!(learning_rates_with_cooldown(3, 1.0, 4, 0.5).is_err());
        assert!(learning_rates_with_cooldown(3, 0.0, 1, 0.5).is_err());
    }
}

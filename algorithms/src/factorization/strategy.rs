//! C in the form a method produces it, and what every form has in common: its inverse, its sensitivity, its error.

use rounds_numerics::{Mat, MatRef};

use super::error::{FactorizationError, check_length};
use super::participation::{Participation, Sensitivity, gram_sensitivity, toeplitz_sensitivity};
use super::toeplitz::inverse_coefficients;
use super::tree::{TreeVariant, nodes, prefix_noise_column, tree_sensitivity};
use super::workload::{Workload, check_lower_triangular, columns_of, matrix_of, squared_row_norms_of_columns};
use crate::vectors::dot_reversed;
use rounds_numerics::dense;

/// Writes the column of an index.
type ColumnWriter<'a> = Box<dyn Fn(usize, &mut [f64]) + Sync + 'a>;

/// C of a factorisation A = B·C.
#[derive(Clone, Debug)]
pub enum Strategy {
    /// C = I.
    Identity {
        /// T.
        rounds: usize,
    },
    /// Any lower-triangular matrix, T × T.
    Dense(Mat<f64>),
    /// Lower triangular with few diagonals.
    Banded(BandedStrategy),
    /// C[t, s] = c_{t−s}.
    Toeplitz {
        /// c_0 … c_{T−1}.
        coefficients: Vec<f64>,
    },
    /// Buffered linear Toeplitz: c_0 = 1, c_i = Σ_j ω_j·θ_j^{i−1}.
    Blt {
        /// T.
        rounds: usize,
        /// ω, one a buffer.
        omega: Vec<f64>,
        /// θ, one a buffer.
        theta: Vec<f64>,
    },
    /// The incidence matrix of tree nodes and rounds: rectangular, one row a released node. Plain or online Honaker; the
    /// full Honaker estimator is kept as the dense causal Cholesky factor of its law.
    Tree {
        /// T.
        rounds: usize,
        /// Nodes and estimator.
        variant: TreeVariant,
    },
}

/// C with `bands` diagonals: `coefficients[t·bands + i]` = C[t, t − i], 0 where t < i.
#[derive(Clone, Debug, PartialEq)]
pub struct BandedStrategy {
    /// T.
    pub rounds: usize,
    /// The number of diagonals, the main one included.
    pub bands: usize,
    /// Row-major T × bands.
    pub coefficients: Vec<f64>,
}

impl BandedStrategy {
    /// The Toeplitz matrix of the given coefficients, one a band.
    pub fn toeplitz(rounds: usize, coefficients: &[f64]) -> Self {
        let bands = coefficients.len();
        let rows = (0..rounds).flat_map(|round| {
            coefficients.iter().enumerate().map(move |(lag, &value)| if lag <= round { value } else { 0.0 })
        });
        Self { rounds, bands, coefficients: rows.collect() }
    }

    /// C[row, column].
    #[inline]
    pub fn get(&self, row: usize, column: usize) -> f64 {
        if row < column || row - column >= self.bands {
            0.0
        } else {
            self.coefficients[row * self.bands + row - column]
        }
    }

    /// x ← C⁻¹ x: O(T·bands).
    pub fn solve_in_place(&self, values: &mut [f64]) {
        for row in 0..self.rounds {
            let line = &self.coefficients[row * self.bands..(row + 1) * self.bands];
            let reach = self.bands.min(row + 1);
            let sum = dot_reversed(&line[1..reach], &values[row + 1 - reach..row]);
            values[row] = (values[row] - sum) / line[0];
        }
    }

    /// ⟨C e_left, C e_right⟩.
    pub(crate) fn gram(&self, left: usize, right: usize) -> f64 {
        let (first, last) = (left.max(right), (left.min(right) + self.bands).min(self.rounds));
        (first..last).map(|row| self.get(row, left) * self.get(row, right)).sum()
    }
}

impl Strategy {
    /// T.
    pub fn rounds(&self) -> usize {
        match self {
            Self::Identity { rounds } | Self::Blt { rounds, .. } | Self::Tree { rounds, .. } => *rounds,
            Self::Dense(matrix) => matrix.nrows(),
            Self::Banded(banded) => banded.rounds,
            Self::Toeplitz { coefficients } => coefficients.len(),
        }
    }

    /// C as a matrix: T × T, or one row a node for trees.
    pub fn matrix(&self) -> Mat<f64> {
        let rounds = self.rounds();
        match self {
            Self::Identity { .. } => Mat::identity(rounds, rounds),
            Self::Dense(matrix) => matrix.clone(),
            Self::Banded(banded) => Mat::from_fn(rounds, rounds, |row, column| banded.get(row, column)),
            Self::Toeplitz { .. } | Self::Blt { .. } => {
                let coefficients = self.toeplitz_coefficients().unwrap_or_default();
                let entry = |row: usize, column| row.checked_sub(column).map_or(0.0, |lag| coefficients[lag]);
                Mat::from_fn(rounds, rounds, entry)
            }
            Self::Tree { variant, .. } => {
                let nodes: Vec<(usize, usize)> = nodes(*variant, rounds).collect();
                Mat::from_fn(nodes.len(), rounds, |row, column| {
                    let (level, index) = nodes[row];
                    f64::from(u8::from(column >> level == index - 1))
                })
            }
        }
    }

    /// c_0 … c_{T−1} of the Toeplitz forms.
    fn toeplitz_coefficients(&self) -> Option<Vec<f64>> {
        match self {
            Self::Identity { rounds } => {
                let mut coefficients = vec![0.0; *rounds];
                coefficients[0] = 1.0;
                Some(coefficients)
            }
            Self::Toeplitz { coefficients } => Some(coefficients.clone()),
            Self::Blt { rounds, omega, theta } => Some(blt_coefficients(*rounds, omega, theta)),
            Self::Dense(_) | Self::Banded(_) | Self::Tree { .. } => None,
        }
    }

    /// sens(C) under a participation, with its exactness.
    ///
    /// # Errors
    /// Those of [`Participation::check`].
    pub fn sensitivity(&self, participation: &Participation) -> Result<Sensitivity, FactorizationError> {
        match self {
            Self::Identity { .. } | Self::Toeplitz { .. } | Self::Blt { .. } => {
                toeplitz_sensitivity(&self.toeplitz_coefficients().unwrap_or_default(), participation)
            }
            Self::Dense(matrix) => gram_sensitivity(
                matrix.nrows(),
                |row, column| dense::column_product(matrix.as_ref(), row, column, row.max(column)),
                participation,
            ),
            Self::Banded(banded) => {
                gram_sensitivity(banded.rounds, |row, column| banded.gram(row, column), participation)
            }
            Self::Tree { rounds, variant } => tree_sensitivity(*variant, *rounds, participation),
        }
    }

    /// ‖B_t‖² for every round, B = A·C⁻¹ (for trees A·S⁻¹ times the estimator's weights): of Toeplitz C and A running sums
    /// of b_s², b = A·d.
    ///
    /// # Errors
    /// `InverseOverflow`, `Singular`.
    pub(crate) fn squared_row_errors(&self, workload: &Workload) -> Result<Vec<f64>, FactorizationError> {
        let (columns, write) = self.noise_columns()?;
        let is_toeplitz = matches!(self, Self::Identity { .. } | Self::Toeplitz { .. } | Self::Blt { .. });
        let errors = if is_toeplitz && workload.is_toeplitz() {
            let mut values = vec![0.0; self.rounds()];
            write(0, &mut values);
            workload.apply_in_place(&mut values);
            let mut sum = 0.0;
            for value in &mut values {
                sum += *value * *value;
                *value = sum;
            }
            values
        } else {
            squared_row_norms_of_columns(workload, columns, write)
        };
        match errors.iter().position(|error| !error.is_finite()) {
            Some(row) => Err(FactorizationError::InverseOverflow { row }),
            None => Ok(errors),
        }
    }

    /// C⁻¹ as a dense matrix; for trees `Unsupported`, their C is not square.
    ///
    /// # Errors
    /// `InverseOverflow`, `Singular`, `Unsupported`.
    pub fn inverse_matrix(&self) -> Result<Mat<f64>, FactorizationError> {
        if matches!(self, Self::Tree { .. }) {
            return Err(FactorizationError::Unsupported {
                what: "the inverse of a tree's node matrix".to_owned(),
                reason: "it has one row a node; stream it by its recursion instead".to_owned(),
            });
        }
        self.noise_matrix()
    }

    /// C⁻¹, or for trees the weight of every node in the noise of every round.
    pub(super) fn noise_matrix(&self) -> Result<Mat<f64>, FactorizationError> {
        let (columns, write) = self.noise_columns()?;
        let noise = matrix_of(self.rounds(), columns, write);
        let overflow = noise.col_iter().find_map(|column| column.iter().position(|value| !value.is_finite()));
        match overflow {
            Some(row) => Err(FactorizationError::InverseOverflow { row }),
            None => Ok(noise),
        }
    }

    /// The number of columns of [`noise_matrix`](Self::noise_matrix), and a function that writes one.
    fn noise_columns(&self) -> Result<(usize, ColumnWriter<'_>), FactorizationError> {
        let rounds = self.rounds();
        Ok(match self {
            Self::Dense(matrix) => (rounds, Box::new(columns_of(dense::invert_lower(matrix.as_ref())))),
            Self::Identity { .. } | Self::Toeplitz { .. } | Self::Blt { .. } => {
                let inverse = inverse_coefficients(&self.toeplitz_coefficients().unwrap_or_default())?;
                let write = move |column: usize, values: &mut [f64]| {
                    values[..column].fill(0.0);
                    values[column..].copy_from_slice(&inverse[..rounds - column]);
                };
                (rounds, Box::new(write))
            }
            Self::Banded(banded) => {
                let write = |column: usize, values: &mut [f64]| {
                    values.fill(0.0);
                    values[column] = 1.0;
                    banded.solve_in_place(values);
                };
                (rounds, Box::new(write))
            }
            Self::Tree { variant, .. } => {
                let nodes: Vec<(usize, usize)> = nodes(*variant, rounds).collect();
                let count = nodes.len();
                // The differences of a node's weights in the prefixes.
                let write = move |column: usize, values: &mut [f64]| {
                    let (level, index) = nodes[column];
                    prefix_noise_column(*variant, level, index, values);
                    for round in (1..values.len()).rev() {
                        values[round] -= values[round - 1];
                    }
                };
                (count, Box::new(write))
            }
        })
    }

    /// A bound of `‖CX − I‖_F` for a matrix X near C⁻¹, or for the first columns of a Toeplitz one if C is Toeplitz.
    ///
    /// An entry of the computed product is wrong by at most `(T + 1)·u·(|C||X|)`, all together by `(T + 1)·u·‖C‖_F·‖X‖_F`.
    /// Each of T Toeplitz columns is part of the first.
    pub(crate) fn inverse_error(&self, inverse: MatRef<'_, f64>) -> f64 {
        let (matrix, columns) = (self.matrix(), inverse.ncols());
        let rounds = matrix.nrows() as f64;
        let mut residual = dense::multiply(matrix.as_ref(), inverse);
        for t in 0..columns {
            residual[(t, t)] -= 1.0;
        }
        let rounding = (rounds + 2.0) * f64::EPSILON * matrix.norm_l2() * inverse.norm_l2();
        1.001 * (residual.norm_l2() + rounding) * (rounds / columns as f64).sqrt()
    }

    /// Checks what no type can hold: finite entries, a triangular and invertible C, sequences of the right length.
    pub(crate) fn check(&self) -> Result<(), FactorizationError> {
        let finite = |values: &[f64]| match values.iter().position(|value| !value.is_finite()) {
            Some(row) => {
                let (column, value) = (0, values[row]);
                Err(FactorizationError::NotFinite { row, column, value })
            }
            None => Ok(()),
        };
        let invertible = |zero: Option<usize>| match zero {
            Some(row) => Err(FactorizationError::Singular { row, value: 0.0 }),
            None => Ok(()),
        };
        if self.rounds() == 0 {
            return Err(FactorizationError::NoRounds);
        }
        match self {
            Self::Identity { .. } | Self::Tree { .. } => Ok(()),
            Self::Dense(matrix) => check_lower_triangular(matrix.as_ref()),
            Self::Banded(banded) => {
                // A C without bands holds no value, and no row is right.
                let expected = banded.rounds * banded.bands.max(1);
                check_length("the table of band coefficients", banded.coefficients.len(), expected)?;
                finite(&banded.coefficients)?;
                invertible((0..banded.rounds).find(|&row| banded.get(row, row) == 0.0))
            }
            Self::Toeplitz { coefficients } => {
                finite(coefficients)?;
                invertible((coefficients[0] == 0.0).then_some(0))
            }
            Self::Blt { omega, theta, .. } => {
                check_length("the decays θ", theta.len(), omega.len())?;
                finite(omega)?;
                finite(theta)
            }
        }
    }
}

/// c_0 = 1, c_i = Σ_j ω_j·θ_j^{i−1}.
pub(crate) fn blt_coefficients(rounds: usize, omega: &[f64], theta: &[f64]) -> Vec<f64> {
    let mut terms = omega.to_vec();
    let mut coefficients = Vec::with_capacity(rounds);
    coefficients.push(1.0);
    for _ in 1..rounds {
        coefficients.push(terms.iter().sum());
        for (term, decay) in terms.iter_mut().zip(theta) {
            *term *= decay;
        }
    }
    coefficients
}

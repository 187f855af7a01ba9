//! Dense f64 linear algebra with one fixed partition of the work, so that results do not depend on the thread count.
//!
//! Everything here is a thin, typed wrapper of faer's routines. A result's bits depend on one constant partition,
//! and not on how many threads the pool in which it runs has.

use std::num::NonZeroUsize;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::{Accum, Mat, MatRef, Par};

/// The partition of every routine, for any thread count.
const PARALLELISM: Par = Par::Rayon(NonZeroUsize::new(4).unwrap());

/// X = L·Lᵀ: the lower Cholesky factor of a symmetric positive definite matrix (its lower triangle is read).
///
/// `None` when X is not positive definite to working precision. O(n³/3).
pub fn cholesky(matrix: MatRef<'_, f64>) -> Option<Mat<f64>> {
    let size = matrix.nrows();
    let mut factor = Mat::zeros(size, size);
    factor.copy_from_triangular_lower(matrix);
    let mut memory = MemBuffer::new(faer::linalg::cholesky::llt::factor::cholesky_in_place_scratch::<f64>(
        size,
        PARALLELISM,
        Default::default(),
    ));
    faer::linalg::cholesky::llt::factor::cholesky_in_place(
        factor.as_mut(),
        Default::default(),
        PARALLELISM,
        MemStack::new(&mut memory),
        Default::default(),
    )
    .ok()?;
    for column in 1..size {
        factor.col_mut(column).subrows_mut(0, column).fill(0.0);
    }
    Some(factor)
}

/// X = Cᵀ·C with C lower triangular: C = J·Lᵀ·J of the Cholesky factor L of J·X·J, J the exchange matrix.
///
/// [Denisov et al. 2022; specification 3.3] The ordinary Cholesky factor is in the wrong order: L·Lᵀ is not Cᵀ·C. The
/// lower triangle of X is read. `None` when X is not positive definite.
pub fn strategy_from_gram(gram: MatRef<'_, f64>) -> Option<Mat<f64>> {
    // J·Mᵀ·J of a lower triangle.
    let reflected = |matrix: MatRef<'_, f64>| {
        let size = matrix.nrows();
        let at = |row: usize, column: usize| matrix[(size - 1 - column, size - 1 - row)];
        Mat::from_fn(size, size, |row, column| if row >= column { at(row, column) } else { 0.0 })
    };
    let factor = cholesky(reflected(gram).as_ref())?;
    Some(reflected(factor.as_ref()))
}

/// L⁻¹ of a lower triangular matrix, entries above the diagonal zero. O(n³/3).
pub fn invert_lower(matrix: MatRef<'_, f64>) -> Mat<f64> {
    let size = matrix.nrows();
    let mut inverse = Mat::zeros(size, size);
    faer::linalg::triangular_inverse::invert_lower_triangular(inverse.as_mut(), matrix, PARALLELISM);
    inverse
}

/// The product left · right.
pub fn multiply(left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    let mut product = Mat::zeros(left.nrows(), right.ncols());
    faer::linalg::matmul::matmul(product.as_mut(), Accum::Replace, left, right, 1.0, PARALLELISM);
    product
}

/// N = P·Σ·Qᵀ of a square matrix: the singular values, largest first, and Q; `None` where the iteration does not
/// converge.
pub fn singular_vectors(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
    let size = matrix.ncols();
    let mut values = faer::diag::Diag::<f64>::zeros(size);
    let mut left = Mat::zeros(size, size);
    let mut right = Mat::zeros(size, size);
    let mut memory = MemBuffer::new(svd_scratch::<f64>(
        size,
        size,
        ComputeSvdVectors::Full,
        ComputeSvdVectors::Full,
        PARALLELISM,
        Default::default(),
    ));
    svd(
        matrix,
        values.as_mut(),
        Some(left.as_mut()),
        Some(right.as_mut()),
        PARALLELISM,
        MemStack::new(&mut memory),
        Default::default(),
    )
    .ok()?;
    let values = (0..size).map(|index| values[index]).collect();
    Some((values, right))
}

/// The largest eigenvalue of a symmetric matrix; `None` where the routine fails.
pub fn largest_eigenvalue(matrix: MatRef<'_, f64>) -> Option<f64> {
    decomposed(matrix, None, Par::Seq)?.into_iter().reduce(f64::max)
}

/// M = V·Λ·Vᵀ of a symmetric matrix (its lower triangle is read): the eigenvalues, smallest first, and V, a column each; `None` where
/// the routine fails.
pub fn eigenvectors(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let mut vectors = Mat::zeros(matrix.nrows(), matrix.nrows());
    let values = decomposed(matrix, Some(&mut vectors), PARALLELISM)?;
    Some((values, vectors))
}

/// The eigenvalues of a symmetric matrix, smallest first; its eigenvectors go to `vectors`, if they are given.
fn decomposed(matrix: MatRef<'_, f64>, vectors: Option<&mut Mat<f64>>, parallelism: Par) -> Option<Vec<f64>> {
    use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
    let size = matrix.nrows();
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let mut values = faer::diag::Diag::<f64>::zeros(size);
    let requirement = self_adjoint_evd_scratch::<f64>(size, wanted, parallelism, Default::default());
    self_adjoint_evd(
        matrix,
        values.as_mut(),
        vectors.map(|vectors| vectors.as_mut()),
        parallelism,
        MemStack::new(&mut MemBuffer::new(requirement)),
        Default::default(),
    )
    .ok()?;
    Some((0..size).map(|index| values[index]).collect())
}

/// True only if the symmetric `matrix` (rows of `dimension` numbers) is positive semidefinite, whatever f64 rounds: a proof of it. A matrix
/// that is so by less than some roundings of its trace is not proven.
///
/// Where Cholesky's factorisation of Ã runs to its end in f64, RᵀR = Ã + Δ with ‖Δ‖₂ ≤ γ/(1 − γ)·tr(Ã), γ = γ_{n+1}, so that no
/// eigenvalue of Ã is below −2(n + 2)u·tr(Ã), u = 2⁻⁵³ (Rump, "Verification of positive definiteness", BIT 46, 2006, theorem 2.3). Here
/// Ã = M − 4(n + 3)u·tr(M)·I, whose diagonal is rounded by u of itself: twice what is needed. Numbers that underflow are off by
/// 2⁻¹⁰⁷⁴, which the other half covers for traces of at least 1e-200.
pub fn is_surely_semidefinite(mut matrix: Vec<f64>, dimension: usize) -> bool {
    assert_eq!(matrix.len(), dimension * dimension);
    let diagonal = (0..dimension).map(|i| i * dimension + i);
    let trace: f64 = diagonal.clone().map(|place| matrix[place]).sum();
    if !(trace >= 1e-200) {
        return false;
    }
    let shift = 4.0 * (dimension + 3) as f64 * (0.5 * f64::EPSILON) * trace;
    diagonal.for_each(|place| matrix[place] -= shift);
    for i in 0..dimension {
        for j in 0..=i {
            let (above, own) = (j * dimension, i * dimension);
            let known: f64 = (0..j).map(|k| matrix[own + k] * matrix[above + k]).sum();
            let rest = matrix[own + j] - known;
            matrix[own + j] = if j < i {
                rest / matrix[above + j]
            } else if rest > 0.0 {
                rest.sqrt()
            } else {
                return false;
            };
        }
    }
    matrix.iter().all(|value| value.is_finite())
}

/// M⁻¹·b for a positive definite M, by Cholesky's factorisation in place. `matrix` holds the rows of M; its lower triangle is
/// read.
pub fn solve_positive(mut matrix: Vec<f64>, dimension: usize, right: &[f64]) -> Vec<f64> {
    for i in 0..dimension {
        for j in 0..=i {
            let (above, row) = matrix.split_at(i * dimension);
            let other = if j == i { row } else { &above[j * dimension..] };
            let inner: f64 = row[..j].iter().zip(&other[..j]).map(|(a, b)| a * b).sum();
            let rest = row[j] - inner;
            let pivot = other[j];
            matrix[i * dimension + j] = if i == j { rest.max(1e-300).sqrt() } else { rest / pivot };
        }
    }
    let mut x = right.to_vec();
    for i in 0..dimension {
        let row = &matrix[i * dimension..i * dimension + i];
        let inner: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
        x[i] = (x[i] - inner) / matrix[i * dimension + i];
    }
    for i in (0..dimension).rev() {
        x[i] /= matrix[i * dimension + i];
        let value = x[i];
        for j in 0..i {
            x[j] -= matrix[i * dimension + j] * value;
        }
    }
    x
}

/// The smallest ellipsoid {x: (x − c)ᵀP⁻¹(x − c) ≤ 1} around the half {⟨g, x − c⟩ ≤ 0} of one, in place:
/// `ĝ = g/√(gᵀPg)`, `c ← c − Pĝ/(d+1)`, `P ← d²/(d²−1)·(P − 2/(d+1)·Pĝ(Pĝ)ᵀ)`. `shape` holds the rows of P.
///
/// Returns `√(gᵀPg)`, the most that ⟨g, x − c⟩ was; where it is 0 nothing is cut.
pub fn ellipsoid_cut(centre: &mut [f64], shape: &mut [f64], normal: &[f64]) -> f64 {
    let dimension = centre.len();
    let d = dimension as f64;
    let product = |row: &[f64]| row.iter().zip(normal).map(|(p, g)| p * g).sum::<f64>();
    let image: Vec<f64> = shape.chunks_exact(dimension).map(product).collect();
    let squared = product(&image);
    if squared <= 0.0 {
        return 0.0;
    }
    let width = squared.sqrt();
    if dimension == 1 {
        // Bisection: the half interval in the direction of −g.
        centre[0] -= 0.5 * image[0] / width;
        shape[0] *= 0.25;
        return width;
    }
    for (c, p) in centre.iter_mut().zip(&image) {
        *c -= p / width / (d + 1.0);
    }
    let growth = d * d / (d * d - 1.0);
    let shrink = 2.0 / (d + 1.0) / squared;
    for (i, row) in shape.chunks_exact_mut(dimension).enumerate() {
        for (j, p) in row.iter_mut().enumerate() {
            *p = growth * (*p - shrink * image[i] * image[j]);
        }
    }
    width
}

/// ⟨C e_i, C e_j⟩ over the rows from `first` on.
pub fn column_product(matrix: MatRef<'_, f64>, left: usize, right: usize, first: usize) -> f64 {
    let rows = matrix.nrows() - first;
    let (left, right) = (matrix.col(left).subrows(first, rows), matrix.col(right).subrows(first, rows));
    left.iter().zip(right.iter()).map(|(a, b)| a * b).sum()
}

/// Multiplies a column by `factor`.
pub fn scale_column(matrix: &mut Mat<f64>, column: usize, factor: f64) {
    for entry in matrix.col_mut(column).iter_mut() {
        *entry *= factor;
    }
}

/// Adds `factor` times another column to a column.
pub fn add_column(matrix: &mut Mat<f64>, target: usize, source: usize, factor: f64) {
    for row in 0..matrix.nrows() {
        let value = matrix[(row, source)];
        matrix[(row, target)] += factor * value;
    }
}

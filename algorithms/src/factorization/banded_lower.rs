//! W, a lower-triangular matrix with few subdiagonals: the inverse of every workload.

/// W[row, column] ≠ 0 only for column ≤ row ≤ column + p: p subdiagonals, T columns.
///
/// Stored by columns: `entries[column·(p + 1) + d] = W[column + d, column]`; entries below the last row are zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BandedLower {
    /// T.
    pub(crate) size: usize,
    /// p, the number of stored subdiagonals.
    pub(crate) subdiagonals: usize,
    entries: Vec<f64>,
}

impl BandedLower {
    /// The matrix with W[row, column] = `entry(row, column)` on the band.
    pub(crate) fn from_fn(size: usize, subdiagonals: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let width = subdiagonals + 1;
        let mut entries = vec![0.0; size * width];
        for column in 0..size {
            for row in column..(column + width).min(size) {
                entries[column * width + row - column] = entry(row, column);
            }
        }
        Self { size, subdiagonals, entries }
    }

    /// W[row, column], zero outside the band.
    #[inline]
    pub(crate) fn get(&self, row: usize, column: usize) -> f64 {
        if row < column || row > column + self.subdiagonals {
            0.0
        } else {
            self.entries[column * (self.subdiagonals + 1) + row - column]
        }
    }

    /// The stored part of a column: W[column..=column + p, column].
    #[inline]
    pub(crate) fn column(&self, column: usize) -> &[f64] {
        let width = self.subdiagonals + 1;
        &self.entries[column * width..(column + 1) * width]
    }

    /// self · right. The subdiagonals add up.
    #[must_use]
    pub(crate) fn multiply(&self, right: &Self) -> Self {
        assert_eq!(self.size, right.size, "factors of a product have one size");
        Self::from_fn(self.size, self.subdiagonals + right.subdiagonals, |row, column| {
            (column..=row).map(|inner| self.get(row, inner) * right.get(inner, column)).sum()
        })
    }

    /// W · diag(factors).
    #[must_use]
    pub(crate) fn scale_columns(&self, factors: impl Fn(usize) -> f64) -> Self {
        let mut scaled = self.clone();
        let width = self.subdiagonals + 1;
        for (column, entries) in scaled.entries.chunks_exact_mut(width).enumerate() {
            let factor = factors(column);
            entries.iter_mut().for_each(|entry| *entry *= factor);
        }
        scaled
    }

    /// J·Wᵀ·J, again lower triangular: entry (row, column) is W[T − 1 − column, T − 1 − row].
    #[must_use]
    pub(crate) fn reflect(&self) -> Self {
        let last = self.size.wrapping_sub(1);
        Self::from_fn(self.size, self.subdiagonals, |row, column| self.get(last - column, last - row))
    }

    /// ‖W‖₁·‖W‖_∞ ≥ ‖W‖₂²: a bound of the largest eigenvalue of W·Wᵀ.
    pub(crate) fn squared_norm_bound(&self) -> f64 {
        let mut rows = vec![0.0; self.size];
        let mut largest_column: f64 = 0.0;
        for column in 0..self.size {
            let mut sum = 0.0;
            for (offset, entry) in self.column(column).iter().enumerate() {
                if column + offset < self.size {
                    rows[column + offset] += entry.abs();
                    sum += entry.abs();
                }
            }
            largest_column = largest_column.max(sum);
        }
        largest_column * rows.iter().fold(0.0_f64, |largest, &row| largest.max(row))
    }
}

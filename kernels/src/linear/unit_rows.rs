//! The rows of units, and products of a unit's rows.

use crate::features::{BLOCK_ROWS, Rows, bias_in_units};
use crate::vector::lanes::{self, LANES};
use crate::vector::{self};
use std::ops::Range;

/// The most rows of a unit whose length is computed from products of rows.
pub(super) const MOST_ROWS: usize = BLOCK_ROWS;

/// From the gradients of a unit's rows to one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// `(1/m)·Σ_i g_i` over the m rows of the unit, null rows among them.
    #[default]
    Mean,
    /// `Σ_i g_i`.
    Sum,
}

/// The units of a matrix: unit u has the rows `offsets[u]..offsets[u + 1]`.
#[derive(Clone, Copy, Debug)]
pub struct UnitRows<'a> {
    /// One more than there are units, ascending.
    pub offsets: &'a [usize],
    /// How a unit's rows become one vector.
    pub reduction: Reduction,
    /// Products of the rows of each unit.
    pub products: &'a RowProducts,
}

impl UnitRows<'_> {
    /// Number of units.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True if there are no units.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn rows_of(&self, unit: usize) -> Range<usize> {
        self.offsets[unit]..self.offsets[unit + 1]
    }

    /// The factor w of a sum of `rows` rows.
    pub(super) fn weight(&self, rows: usize) -> f64 {
        match self.reduction {
            Reduction::Mean => 1.0 / rows.max(1) as f64,
            Reduction::Sum => 1.0,
        }
    }
}

/// `a_i·a_j`, bias included, of the rows of units of 2 to [`MOST_ROWS`] rows, in squares of a unit of features, rounded to f32.
///
/// Those of a unit: of each row with itself, then for each eight of its rows the products of each with all rows before it, twice, and with
/// itself; zeros up to whole vectors.
#[derive(Clone, Debug)]
pub struct RowProducts {
    pub(super) values: Vec<f32>,
    /// Where those of a unit start.
    pub(super) starts: Vec<usize>,
    /// The value of 1 in features.
    pub(super) unit: f64,
}

/// Rows whose products are summed together, a half of a vector: as many chains of sums as hide their latency.
pub(super) const TOGETHER: usize = LANES / 2;

/// Products that are stored with each of the eight rows from `first` on.
pub(super) fn width(first: usize) -> usize {
    (first + TOGETHER).next_multiple_of(LANES)
}

/// Numbers that are stored for a unit of so many rows.
fn stored(rows: usize) -> usize {
    if !(2..=MOST_ROWS).contains(&rows) {
        return 0;
    }
    rows.next_multiple_of(LANES) + (0..rows).step_by(TOGETHER).map(|first| TOGETHER * width(first)).sum::<usize>()
}

impl RowProducts {
    /// Of the units `units` of some rows, which have a bias or not. `unit` is the public step of features, of bytes their scale; 1 where
    /// there is none.
    pub fn new(rows: Rows<'_>, has_bias: bool, offsets: &[usize], units: Range<usize>, unit: f64) -> Self {
        // At least ν of the lattice, and the bias in floating point.
        let bias = if has_bias { (1.0 / unit).max(bias_in_units(unit)) } else { 0.0 };
        let sizes = units.clone().map(|of| stored(offsets[of + 1] - offsets[of]));
        let mut starts = vec![0];
        starts.extend(sizes.scan(0, |start, size| {
            *start += size;
            Some(*start)
        }));
        let mut products = RowProducts { values: vec![0.0; starts[starts.len() - 1]], starts, unit };
        let columns = rows.columns();
        let mut wide = Vec::new();
        for (place, of) in units.enumerate() {
            let (own, start) = (offsets[of]..offsets[of + 1], products.starts[place]);
            let values = &mut products.values[start..products.starts[place + 1]];
            if values.is_empty() {
                continue;
            }
            wide.clear();
            if let Rows::U8(bytes) = rows {
                own.clone().for_each(|row| wide.extend(bytes.row(row).iter().map(|&byte| f32::from(byte))));
            }
            let dot = |i: usize, j: usize| match rows {
                Rows::F32(dense) => vector::dot(dense.row(own.start + i), dense.row(own.start + j)) / (unit * unit),
                Rows::U8(_) => vector::dot(&wide[i * columns..][..columns], &wide[j * columns..][..columns]),
                Rows::Sparse(sparse) => {
                    sparse_dot(sparse.row(own.start + i), sparse.row(own.start + j)) / (unit * unit)
                }
            };
            let dot = |i, j| dot(i, j) + bias * bias;
            let (diagonal, mut rest) = values.split_at_mut(own.len().next_multiple_of(LANES));
            diagonal.iter_mut().zip(0..own.len()).for_each(|(out, i)| *out = dot(i, i) as f32);
            for first in (0..own.len()).step_by(TOGETHER) {
                let (eight, behind) = rest.split_at_mut(TOGETHER * width(first));
                rest = behind;
                for (i, out) in (first..own.len()).zip(eight.chunks_exact_mut(width(first))) {
                    for (j, out) in out[..=i].iter_mut().enumerate() {
                        *out = (if i == j { 1.0 } else { 2.0 } * dot(i, j)) as f32;
                    }
                }
            }
        }
        products
    }

    /// Takes in the products of the units behind these.
    pub fn append(&mut self, other: &Self) {
        let end = self.values.len();
        self.values.extend_from_slice(&other.values);
        self.starts.extend(other.starts[1..].iter().map(|start| end + start));
    }

    /// Asks for the products of a unit: they are read when the margins of its rows are there.
    pub(super) fn prefetch(&self, unit: usize) {
        for line in self.of(unit).chunks(LANES) {
            lanes::prefetch(line.as_ptr().cast());
        }
    }

    pub(super) fn of(&self, unit: usize) -> &[f32] {
        &self.values[self.starts[unit]..self.starts[unit + 1]]
    }
}

/// The product of two sparse rows.
fn sparse_dot((columns, values): (&[u32], &[f32]), (others, other_values): (&[u32], &[f32])) -> f64 {
    let (mut i, mut j, mut sum) = (0, 0, 0.0);
    while i < columns.len() && j < others.len() {
        match columns[i].cmp(&others[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                sum += f64::from(values[i]) * f64::from(other_values[j]);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    sum
}

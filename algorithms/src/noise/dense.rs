//! Any lower triangular C: rows of `C⁻¹Z` in blocks of rounds, as matrix products.
//!
//! A round of its own would read t vectors. Instead the rows of a block of R rounds are made together: for every chunk
//! of coordinates, `N = C⁻¹[block, 0..end]·Z[0..end]` with Z made again from its addressed streams, a panel of rounds
//! at a time. Over T rounds that is T²·p flops of matrix product at the machine's GEMM rate, T²/(2R) fresh vectors, and
//! R vectors of memory.
//!
//! **The real noise.** X being the stored rows of C⁻¹, `W = σXz`, and the strategy is the real X⁻¹, for which the account
//! takes its sensitivity ([`super::factorized`]).
//!
//! **The bound.** In whatever order a panel's product adds, a term `X[t, s]·z̃_s` passes through at most PANEL + 1 roundings
//! there, and through one where its panel and each later one up to t's is added. With E and R the bounds of the normals
//! of a chunk and one rounding of the product by σ,
//!
//! ```text
//! |W̃_t − W_t| ≤ σ·Σ_s |X[t, s]|·(E + (PANEL + 3 + ⌊t/PANEL⌋ − ⌊s/PANEL⌋)·u·R)
//! ```

use std::sync::{Arc, Mutex};

use rounds_kernels::gemm::Shape;
use rounds_kernels::random::exact::{Exact, LinearForm, NormalBounds, decide};
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey};

use super::lattice::{MOST_OF_RECURSIONS, add_enclosed, in_units};
use super::recursion::ROUNDOFF;
use super::scalar::NoiseScalar;
use super::stream::{NOISE, NoiseMechanism, Progress, Result};
use crate::parallel::{Engine, lock};
use crate::state::StateVisitor;

/// Rounds whose noise is made together, at most.
const BLOCK_ROUNDS: usize = 128;
/// Rounds of Z that are in cache together.
const PANEL: usize = 64;
/// Coordinates of a task.
const WIDTH: usize = BLOCK_COORDINATES;

/// Rows of `C⁻¹Z` for any lower triangular C.
pub(super) struct Dense {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    /// Rows of C⁻¹ (or of any lower triangular matrix whose product with Z is wanted) up to the diagonal.
    rows: Arc<Vec<Vec<f64>>>,
    made: Made,
    dimension: usize,
}

/// The current block of rounds: in f64 for a release key or a lattice, in f32 for idealised simulations.
enum Made {
    Nothing,
    Single(Table<f32>),
    Double(Table<f64>),
}

/// The noise of a block of rounds.
struct Table<F> {
    rounds: usize,
    /// The matrix, row-major.
    rows: Vec<F>,
    /// For each chunk of coordinates, one row a round.
    block: Vec<F>,
    /// One panel of Z a worker.
    panels: Vec<Mutex<Vec<F>>>,
    /// Of the normals of each chunk of coordinates.
    bounds: Vec<Mutex<NormalBounds>>,
    /// First round of the block that is filled.
    filled: Option<usize>,
}

impl<F: NoiseScalar> Table<F> {
    fn new(matrix: &[Vec<f64>], dimension: usize) -> Self {
        let rounds = matrix.len();
        let mut rows = vec![F::default(); rounds * rounds];
        for (row, values) in rows.chunks_mut(rounds.max(1)).zip(matrix) {
            for (entry, &value) in row.iter_mut().zip(values) {
                *entry = F::from_f64(value);
            }
        }
        let chunks = dimension.div_ceil(WIDTH);
        Self {
            rounds,
            rows,
            block: vec![F::default(); chunks * WIDTH * BLOCK_ROUNDS.min(rounds)],
            panels: Vec::new(),
            bounds: (0..chunks).map(|_| Mutex::default()).collect(),
            filled: None,
        }
    }

    /// Rounds of a block.
    fn height(&self) -> usize {
        BLOCK_ROUNDS.min(self.rounds)
    }

    /// The noise of a round on a chunk of coordinates, and the bounds of its normals.
    fn round(&self, round: usize, chunk: usize) -> (&[F], NormalBounds) {
        let first = (chunk * self.height() + round % BLOCK_ROUNDS) * WIDTH;
        let bounds = *lock(&self.bounds[chunk]);
        (&self.block[first..first + WIDTH], bounds)
    }

    /// Makes the noise of the block of rounds that holds `round`.
    fn fill(&mut self, round: usize, key: &StreamKey, dimension: usize, engine: &Engine) {
        let start = round / BLOCK_ROUNDS * BLOCK_ROUNDS;
        if self.filled == Some(start) {
            return;
        }
        let (rounds, height) = (self.rounds, self.height());
        let end = (start + BLOCK_ROUNDS).min(rounds);
        if self.panels.len() < engine.threads() {
            self.panels.resize_with(engine.threads(), || Mutex::new(vec![F::default(); PANEL * WIDTH]));
        }
        let (rows, panels, bounds) = (&self.rows, &self.panels, &self.bounds);
        let task = |offset: usize, block: &mut [F], worker: usize| {
            block.fill(F::default());
            // A worker runs one task at a time, so these locks are never contended.
            let mut panel = lock(&panels[worker]);
            let chunk = offset / (height * WIDTH);
            let width = WIDTH.min(dimension - chunk * WIDTH);
            let mut greatest = NormalBounds::default();
            for first in (0..end).step_by(PANEL) {
                let last = (first + PANEL).min(end);
                for (round, z) in (first..last).zip(panel.chunks_mut(WIDTH)) {
                    let found = F::fill_gaussian(key, NOISE, round as u64, chunk as u64, &mut z[..width]);
                    greatest.error = greatest.error.max(found.error);
                    greatest.magnitude = greatest.magnitude.max(found.magnitude);
                }
                // Rows of the block that end before this panel have no entries in it.
                let top = first.saturating_sub(start).min(end - start);
                let shape = Shape {
                    m: end - start - top,
                    k: last - first,
                    n: width,
                    a_stride: rounds,
                    b_stride: WIDTH,
                    c_stride: WIDTH,
                };
                F::multiply_add(shape, &rows[(start + top) * rounds + first..], &panel, &mut block[top * WIDTH..]);
            }
            *lock(&bounds[chunk]) = greatest;
        };
        engine.for_each_chunk_with_worker(&mut self.block, height * WIDTH, &task);
        self.filled = Some(start);
    }

    /// Adds W, not rounded.
    fn add(&self, round: usize, standard_deviation: f64, sum: &mut [f64]) {
        for (chunk, part) in sum.chunks_mut(WIDTH).enumerate() {
            for (sum, &noise) in part.iter_mut().zip(self.round(round, chunk).0) {
                *sum += standard_deviation * noise.into();
            }
        }
    }
}

impl Dense {
    /// The mechanism for `rows[t][s]`, s ≤ t, the rows of C⁻¹.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, rows: Arc<Vec<Vec<f64>>>, dimension: usize) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rows.len() as u64),
            rows,
            made: Made::Nothing,
            dimension,
        }
    }
}

fn row_size(row: &[f64]) -> f64 {
    row.iter().map(|entry| entry.abs()).sum()
}

impl Dense {
    fn in_units(&self, unit: f64) -> Result<f64> {
        let size = self.rows.iter().map(|row| row_size(row)).fold(0.0, f64::max);
        in_units(self.standard_deviation, unit, size, MOST_OF_RECURSIONS)
    }
}

impl NoiseMechanism for Dense {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        debug_assert_eq!(sum.len(), self.dimension);
        self.progress.take(round)?;
        let scale = unit.map(|unit| self.in_units(unit)).transpose()?;
        let (key, dimension, round) = (&self.key, self.dimension, round as usize);
        if matches!(self.made, Made::Nothing) {
            self.made = match (key, scale) {
                (StreamKey::Simulation(_), None) => Made::Single(Table::new(&self.rows, dimension)),
                _ => Made::Double(Table::new(&self.rows, dimension)),
            };
        }
        match (&mut self.made, scale) {
            (Made::Double(table), Some(scale)) => {
                table.fill(round, key, dimension, engine);
                let row = Row { row: &self.rows[round], scale };
                add_enclosed(
                    sum,
                    engine,
                    &|chunk, values| {
                        let (noise, bounds) = table.round(round, chunk);
                        values.iter_mut().zip(noise).for_each(|(value, noise)| *value = scale * noise);
                        row.bound(bounds)
                    },
                    &|coordinate| decide(key, &row, coordinate),
                );
            }
            (Made::Double(table), None) => {
                table.fill(round, key, dimension, engine);
                table.add(round, self.standard_deviation, sum);
            }
            (Made::Single(table), None) => {
                table.fill(round, key, dimension, engine);
                table.add(round, self.standard_deviation, sum);
            }
            _ => panic!("a run gives a unit in every round or in none"),
        }
        Ok(())
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        self.in_units(unit).map(drop)
    }

    fn resident_vectors(&self) -> usize {
        BLOCK_ROUNDS.min(self.progress.rounds as usize)
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
        // The block is made again from its addresses.
        match &mut self.made {
            Made::Nothing => {}
            Made::Single(table) => table.filled = None,
            Made::Double(table) => table.filled = None,
        }
    }
}

/// `scale·Σ_s X[t, s]·z_s`.
struct Row<'a> {
    row: &'a [f64],
    scale: f64,
}

impl Row<'_> {
    /// The bound of the computed values, given those of their normals.
    fn bound(&self, normals: NormalBounds) -> f64 {
        let panels = self.row.len().div_ceil(PANEL);
        let term = |(s, entry): (usize, &f64)| {
            let roundings = (PANEL + 2 + panels - s / PANEL) as f64;
            entry.abs() * (normals.error + roundings * ROUNDOFF * normals.magnitude)
        };
        self.scale * self.row.iter().enumerate().map(term).sum::<f64>()
    }
}

impl LinearForm for Row<'_> {
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N> {
        let terms = (0..).zip(self.row);
        let sum = terms.fold(Exact::ZERO, |sum, (round, entry)| sum + normal(NOISE, round).times(*entry));
        sum.times(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use rounds_kernels::random::exact::round_enclosed;

    use super::*;

    #[test]
    fn the_bound_holds_across_panels_and_a_thousandth_of_it_does_not() {
        const DIMENSION: usize = 60;
        let row = |t: usize| (0..=t).map(|s| 0.7_f64.powi((t - s) as i32) - 0.2).collect();
        let matrix: Vec<Vec<f64>> = (0..150).map(row).collect();
        let key = StreamKey::Release([4; 32]);
        let mut table = Table::<f64>::new(&matrix, DIMENSION);
        let mut wrong = 0;
        for round in [1, 60, 90, 127, 128, 140, 149] {
            table.fill(round, &key, DIMENSION, &Engine::Sequential);
            let (noise, normals) = table.round(round, 0);
            for (greatest, share) in [(0.3, 1.0), (100.0, 0.001)] {
                let row = |scale| Row { row: &matrix[round], scale };
                let row = row(greatest / row(1.0).bound(normals));
                let values: [f64; DIMENSION] = std::array::from_fn(|j| row.scale * noise[j]);
                let exact: [i64; DIMENSION] = std::array::from_fn(|j| decide(&key, &row, j as u64));
                let mut rounded = [0; DIMENSION];
                round_enclosed(&values, share * row.bound(normals), &mut rounded, |j| exact[j]);
                let differ = rounded.iter().zip(&exact).filter(|(a, b)| a != b).count();
                assert!(share < 1.0 || differ == 0, "round {round}");
                wrong += differ;
            }
        }
        assert!(wrong > 5, "a thousandth of the bound is wrong {wrong} times");
    }
}

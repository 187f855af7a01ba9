//! Any lower triangular C: rows of `C⁻¹Z` in blocks of rounds, as matrix products.
//!
//! A round of its own would read t vectors. Instead the rows of a block of R rounds are made together: for every chunk
//! of coordinates, `N = C⁻¹[block, 0..end]·Z[0..end]` with Z made again from its addressed streams, a panel of rounds
//! at a time. Over T rounds that is T²·p flops of matrix product at the machine's GEMM rate, T²/(2R) fresh vectors, and
//! R vectors of memory.

use std::sync::Mutex;
use std::sync::PoisonError;

use rounds_kernels::gemm::Shape;
use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey};

use super::scalar::NoiseScalar;
use super::{NOISE, NoiseError, NoiseMechanism, Progress, refuse_unit};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// Rounds whose noise is made together, at most.
const BLOCK_ROUNDS: usize = 128;
/// Rounds of Z that are in cache together.
const PANEL: usize = 64;
/// Coordinates of a task.
const WIDTH: usize = BLOCK_COORDINATES;

/// Rows of `C⁻¹Z` for any lower triangular C, given as the rows of C⁻¹.
pub(super) struct Dense<F: NoiseScalar> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    /// Rows of C⁻¹ (or of any lower triangular matrix whose product with Z is wanted), `rounds × rounds`, row-major.
    rows: Vec<F>,
    /// The noise of the current block of rounds: for each chunk of coordinates, one row a round.
    block: Vec<F>,
    /// One panel of Z a worker.
    panels: Vec<Mutex<Vec<F>>>,
    /// First round of the block that is filled.
    filled: Option<usize>,
    dimension: usize,
}

impl<F: NoiseScalar> Dense<F> {
    /// The mechanism for `inverse[t][s]`, s ≤ t, the rows of C⁻¹.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, inverse: &[Vec<f64>], dimension: usize) -> Self {
        let rounds = inverse.len();
        let mut rows = vec![F::default(); rounds * rounds];
        for (row, values) in rows.chunks_mut(rounds.max(1)).zip(inverse) {
            for (entry, &value) in row.iter_mut().zip(values) {
                *entry = F::from_f64(value);
            }
        }
        let chunks = dimension.div_ceil(WIDTH);
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rounds as u64),
            rows,
            block: vec![F::default(); chunks * WIDTH * BLOCK_ROUNDS.min(rounds)],
            panels: Vec::new(),
            filled: None,
            dimension,
        }
    }

    /// Makes the noise of the block of rounds that begins at `start`.
    fn fill_block(&mut self, start: usize, engine: &Engine) {
        let rounds = self.progress.rounds as usize;
        let end = (start + BLOCK_ROUNDS).min(rounds);
        if self.panels.len() < engine.threads() {
            self.panels
                .resize_with(engine.threads(), || Mutex::new(vec![F::default(); PANEL * WIDTH]));
        }
        let (rows, panels, key, dimension) = (&self.rows, &self.panels, &self.key, self.dimension);
        let height = BLOCK_ROUNDS.min(rounds);
        let task = |offset: usize, block: &mut [F], worker: usize| {
            block.fill(F::default());
            // A worker runs one task at a time, so this lock is never contended.
            let mut panel = panels[worker].lock().unwrap_or_else(PoisonError::into_inner);
            let chunk = offset / (height * WIDTH);
            let width = WIDTH.min(dimension - chunk * WIDTH);
            for first in (0..end).step_by(PANEL) {
                let last = (first + PANEL).min(end);
                for (round, z) in (first..last).zip(panel.chunks_mut(WIDTH)) {
                    F::fill_gaussian(key, NOISE, round as u64, chunk as u64, &mut z[..width]);
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
                F::multiply_add(
                    shape,
                    &rows[(start + top) * rounds + first..],
                    &panel,
                    &mut block[top * WIDTH..],
                );
            }
        };
        engine.for_each_chunk_with_worker(&mut self.block, height * WIDTH, &task);
        self.filled = Some(start);
    }
}

impl<F: NoiseScalar> NoiseMechanism for Dense<F> {
    fn add_increment(
        &mut self,
        round: u64,
        sum: &mut [f64],
        unit: Option<f64>,
        engine: &Engine,
    ) -> Result<(), NoiseError> {
        refuse_unit(unit)?;
        debug_assert_eq!(sum.len(), self.dimension);
        self.progress.take(round)?;
        let height = BLOCK_ROUNDS.min(self.progress.rounds as usize);
        let within = round as usize % BLOCK_ROUNDS;
        let start = round as usize - within;
        if self.filled != Some(start) {
            self.fill_block(start, engine);
        }
        for (part, block) in sum.chunks_mut(WIDTH).zip(self.block.chunks(height * WIDTH)) {
            for (sum, &noise) in part.iter_mut().zip(&block[within * WIDTH..]) {
                *sum += self.standard_deviation * noise.into();
            }
        }
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        BLOCK_ROUNDS.min(self.progress.rounds as usize)
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
        // The block is made again from its addresses.
        self.filled = None;
    }
}

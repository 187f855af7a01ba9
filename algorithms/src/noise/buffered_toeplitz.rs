//! Buffered linear Toeplitz C (Dvijotham et al. 2024, McMahan et al. 2024): `c_0 = 1`, `c_i = Σ_j ω_j θ_j^{i−1}`.
//!
//! ```text
//! ζ_t = z_t − Σ_j ω_j s_j,     s_j ← θ_j s_j + ζ_t     (s = 0 at the start)
//! ```
//! yields ζ = C⁻¹Z with m buffers: O(m·p) a round.

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey};

use super::scalar::NoiseScalar;
use super::{NOISE, NoiseError, NoiseMechanism, Progress, refuse_unit};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// Rows of `C⁻¹Z` from m buffers.
pub(super) struct BufferedToeplitz<F: NoiseScalar> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    output_scale: Vec<F>,
    decay: Vec<F>,
    /// One row a buffer within each block of coordinates.
    buffers: Vec<F>,
    dimension: usize,
}

impl<F: NoiseScalar> BufferedToeplitz<F> {
    /// The mechanism with `output_scale` ω and `decay` θ.
    ///
    /// # Panics
    /// If ω and θ have different lengths.
    pub(super) fn new(
        key: StreamKey,
        standard_deviation: f64,
        rounds: u64,
        output_scale: &[f64],
        decay: &[f64],
        dimension: usize,
    ) -> Self {
        assert_eq!(output_scale.len(), decay.len(), "a buffer has one scale and one decay");
        let width = BLOCK_COORDINATES.min(dimension.max(1));
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rounds),
            output_scale: output_scale.iter().map(|&value| F::from_f64(value)).collect(),
            decay: decay.iter().map(|&value| F::from_f64(value)).collect(),
            buffers: vec![F::default(); dimension.div_ceil(width) * decay.len() * width],
            dimension,
        }
    }

    fn width(&self) -> usize {
        BLOCK_COORDINATES.min(self.dimension.max(1))
    }
}

impl<F: NoiseScalar> NoiseMechanism for BufferedToeplitz<F> {
    fn add_increment(
        &mut self,
        round: u64,
        sum: &mut [f64],
        unit: Option<f64>,
        _engine: &Engine,
    ) -> Result<(), NoiseError> {
        refuse_unit(unit)?;
        debug_assert_eq!(sum.len(), self.dimension);
        self.progress.take(round)?;
        let width = self.width();
        let count = self.decay.len();
        let mut zeta = [F::default(); BLOCK_COORDINATES];
        for (block, part) in sum.chunks_mut(width).enumerate() {
            let zeta = &mut zeta[..part.len()];
            F::fill_gaussian(&self.key, NOISE, round, block as u64, zeta);
            let buffers = &mut self.buffers[block * count * width..(block + 1) * count * width];
            for (buffer, &scale) in buffers.chunks(width).zip(&self.output_scale) {
                let factor = F::from_f64(-scale.into());
                for (zeta, &value) in zeta.iter_mut().zip(buffer) {
                    *zeta = zeta.add_product(factor, value);
                }
            }
            for (buffer, &decay) in buffers.chunks_mut(width).zip(&self.decay) {
                for (value, &zeta) in buffer.iter_mut().zip(&*zeta) {
                    *value = zeta.add_product(decay, *value);
                }
            }
            for (sum, &zeta) in part.iter_mut().zip(&*zeta) {
                *sum += self.standard_deviation * zeta.into();
            }
        }
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        self.decay.len()
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
        F::visit(visitor, "noise_buffers", &mut self.buffers);
    }
}

//! Banded C (Choquette-Choo et al. 2023): `ζ_t = (z_t − Σ_{i=1}^{b−1} C[t, t−i]·ζ_{t−i}) / C[t, t]`, so ζ = C⁻¹Z needs
//! the last b − 1 vectors only.

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey};

use super::scalar::NoiseScalar;
use super::{NOISE, NoiseError, NoiseMechanism, Progress, refuse_unit};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// Rows of `C⁻¹Z` for a banded lower triangular C, one pass over the last b − 1 vectors a round.
pub(super) struct Banded<F: NoiseScalar> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    /// Row t: `C[t, t], C[t, t−1], …, C[t, t−b+1]`.
    rows: Vec<Vec<f64>>,
    bands: usize,
    /// ζ of the last b − 1 rounds (round s in slot s mod (b − 1)), a row a slot within each block of coordinates.
    history: Vec<F>,
    dimension: usize,
}

impl<F: NoiseScalar> Banded<F> {
    /// The mechanism for a banded C, `rows[t]` holding `C[t, t], C[t, t−1], …`.
    ///
    /// # Panics
    /// If a row is empty or its diagonal entry is 0.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, rows: Vec<Vec<f64>>, dimension: usize) -> Self {
        assert!(
            rows.iter()
                .all(|row| row.first().is_some_and(|&diagonal| diagonal != 0.0)),
            "a diagonal entry of C is 0"
        );
        let bands = rows.iter().map(Vec::len).max().unwrap_or(1);
        let blocks = dimension.div_ceil(BLOCK_COORDINATES);
        let width = BLOCK_COORDINATES.min(dimension.max(1));
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rows.len() as u64),
            rows,
            bands,
            history: vec![F::default(); blocks * (bands - 1).max(1) * width],
            dimension,
        }
    }
}

impl<F: NoiseScalar> NoiseMechanism for Banded<F> {
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
        let coefficients = &self.rows[round as usize];
        let slots = (self.bands - 1).max(1);
        let width = BLOCK_COORDINATES.min(self.dimension.max(1));
        let reach = (coefficients.len() - 1).min(round as usize);
        let inverse = F::from_f64(1.0 / coefficients[0]);
        let mut zeta = [F::default(); BLOCK_COORDINATES];
        for (block, (part, history)) in sum
            .chunks_mut(width)
            .zip(self.history.chunks_mut(slots * width))
            .enumerate()
        {
            let zeta = &mut zeta[..part.len()];
            F::fill_gaussian(&self.key, NOISE, round, block as u64, zeta);
            let past = |lag: usize| {
                let slot = (round as usize - lag) % slots;
                &history[slot * width..slot * width + part.len()]
            };
            // Eight vectors are read together, so that ζ passes through the registers once for all of them.
            let mut lag = 1;
            while lag + 7 <= reach {
                let factors: [F; 8] = std::array::from_fn(|i| F::from_f64(-coefficients[lag + i]));
                let vectors: [&[F]; 8] = std::array::from_fn(|i| past(lag + i));
                for (index, zeta) in zeta.iter_mut().enumerate() {
                    let mut value = *zeta;
                    for (factor, vector) in factors.iter().zip(&vectors) {
                        value = value.add_product(*factor, vector[index]);
                    }
                    *zeta = value;
                }
                lag += 8;
            }
            for lag in lag..=reach {
                let factor = F::from_f64(-coefficients[lag]);
                for (zeta, &value) in zeta.iter_mut().zip(past(lag)) {
                    *zeta = zeta.add_product(factor, value);
                }
            }
            let slot = round as usize % slots;
            let kept = &mut history[slot * width..slot * width + part.len()];
            for ((sum, &value), kept) in part.iter_mut().zip(&*zeta).zip(kept) {
                *kept = F::default().add_product(inverse, value);
                *sum += self.standard_deviation * (*kept).into();
            }
        }
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        self.bands - 1
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
        F::visit(visitor, "noise_history", &mut self.history);
    }
}

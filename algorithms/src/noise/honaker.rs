//! The tree with Honaker's online estimator ([001 Example 3.3]): a completed subtree is estimated from all its nodes.
//!
//! All 2T − 1 nodes of the full tree carry noise. A subtree of height h is estimated by the inverse-variance average of
//! its own node and the sum of its children's estimates: own weight `w_h = 2^h/(2^{h+1} − 1)`, the children's `1 − w_h`,
//! variance `w_h·σ²`. This is the best causal estimator from completed nodes. sens(C) = √(⌊log₂T⌋ + 1): a leaf lies in
//! one node of each complete level.

use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey};

use super::plan::{NoisePlan, PlannedNoise};
use super::scalar::NoiseScalar;
use super::{NoiseError, NoiseMechanism, Progress, TREE_LEVELS, refuse_unit};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// Coordinates of all levels that are updated together, in cache.
const CHUNK: usize = BLOCK_COORDINATES;

/// The registry's entry: one tree an epoch.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let (rounds, epoch, dimension) = (plan.rounds as u64, plan.rounds_per_epoch as u64, plan.dimension);
    PlannedNoise::new(plan.tree_release(), move |key, sigma| match key {
        StreamKey::Release(_) => Box::new(HonakerTree::<f64>::new(key, sigma, rounds, epoch, dimension)),
        StreamKey::Simulation(_) => Box::new(HonakerTree::<f32>::new(key, sigma, rounds, epoch, dimension)),
    })
}

/// Increments of the prefix estimates. Keeps the estimate of each open subtree, ⌊log₂T⌋ + 1 vectors.
pub(super) struct HonakerTree<F: NoiseScalar> {
    key: StreamKey,
    standard_deviation: f64,
    restart_every: u64,
    progress: Progress,
    levels: usize,
    /// The estimates, interleaved: for each chunk of coordinates one row a level.
    estimates: Vec<F>,
    dimension: usize,
    chunk: usize,
}

impl<F: NoiseScalar> HonakerTree<F> {
    /// Trees of `restart_every` rounds for `rounds` rounds on vectors of length `dimension`, node noise of standard
    /// deviation σ.
    ///
    /// # Panics
    /// If `restart_every` is 0.
    pub(super) fn new(
        key: StreamKey,
        standard_deviation: f64,
        rounds: u64,
        restart_every: u64,
        dimension: usize,
    ) -> Self {
        assert!(restart_every > 0, "a tree covers at least one round");
        let levels = restart_every.min(rounds.max(1)).ilog2() as usize + 1;
        let chunk = CHUNK.min(dimension.max(1));
        Self {
            key,
            standard_deviation,
            restart_every,
            progress: Progress::new(rounds),
            levels,
            estimates: vec![F::default(); dimension.div_ceil(chunk) * levels * chunk],
            dimension,
            chunk,
        }
    }
}

/// `2^h/(2^{h+1} − 1)`: weight of a subtree's own node, and its estimate's variance in units of σ².
fn own_weight(height: usize) -> f64 {
    let leaves = (1_u64 << height) as f64;
    leaves / (2.0 * leaves - 1.0)
}

impl<F: NoiseScalar> NoiseMechanism for HonakerTree<F> {
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
        let (key, levels, width, scale) = (&self.key, self.levels, self.chunk, self.standard_deviation);
        let leaf = round % self.restart_every + 1;
        let top = leaf.trailing_zeros() as usize;
        let mut fresh = [F::default(); CHUNK];
        let mut current = [F::default(); CHUNK];
        let _ = engine;
        for (index, (part, rows)) in sum
            .chunks_mut(width)
            .zip(self.estimates.chunks_mut(levels * width))
            .enumerate()
        {
            let block = (index * width / BLOCK_COORDINATES) as u64;
            let length = part.len();
            let (fresh, current) = (&mut fresh[..length], &mut current[..length]);
            F::fill_gaussian(key, Purpose(TREE_LEVELS), round, block, current);
            for (height, left) in rows.chunks(width).take(top).enumerate() {
                F::fill_gaussian(key, Purpose(TREE_LEVELS + height as u32 + 1), round, block, fresh);
                let own = F::from_f64(own_weight(height + 1));
                let children = F::from_f64(1.0 - own_weight(height + 1));
                for (((current, &fresh), &left), sum) in current.iter_mut().zip(&*fresh).zip(left).zip(part.iter_mut())
                {
                    *sum -= scale * left.into();
                    let both = left.add_product(F::from_f64(1.0), *current);
                    *current = F::default().add_product(own, fresh).add_product(children, both);
                }
            }
            for ((&current, estimate), sum) in current.iter().zip(&mut rows[top * width..]).zip(part.iter_mut()) {
                *sum += scale * current.into();
                *estimate = current;
            }
        }
        Ok(())
    }

    fn resident_vectors(&self) -> usize {
        self.levels
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
        F::visit(visitor, "noise_estimates", &mut self.estimates);
    }
}

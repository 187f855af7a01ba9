//! The binary tree mechanism ([000 Lemma 4.3], [004 Lemma 5.6], with the root that the papers' index range omits).
//!
//! Leaves are rounds 1…T; node (k, j), j odd, covers the 2^k rounds that end at j·2^k. Round t completes exactly one
//! node, of level ctz(t), and prefix t is the sum of the nodes at the set bits of t. A row of C is a node: 1 for each of
//! its leaves. A leaf lies in at most ⌊log₂T⌋ + 1 nodes (leaf 1 in exactly that many), hence sens(C) = √(⌊log₂T⌋ + 1).

use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks};

use super::plan::{NoisePlan, PlannedNoise};
use super::{NOISE, NoiseError, NoiseMechanism, PARALLEL_CHUNK, Progress};
use crate::oracle::Engine;
use crate::state::StateVisitor;

/// The registry's entry: one tree an epoch.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let (rounds, epoch) = (plan.rounds as u64, plan.rounds_per_epoch as u64);
    PlannedNoise::new(plan.tree_release(), move |key, sigma| {
        Box::new(Tree::new(key, sigma, rounds, epoch))
    })
}

/// Increments of the tree's prefix noise: at round t the new node, minus the nodes that it absorbs. Nodes are made again
/// from their addresses rather than kept: the node that round t completes is addressed by t, and on average less than
/// one node a round is absorbed, so a round costs less than two fresh vectors and no memory.
///
/// `restart_every` rounds a new tree begins (as between epochs); its nodes have addresses of their own.
pub(super) struct Tree {
    key: StreamKey,
    standard_deviation: f64,
    restart_every: u64,
    progress: Progress,
}

impl Tree {
    /// Trees of `restart_every` rounds for `rounds` rounds, node noise of standard deviation σ.
    ///
    /// # Panics
    /// If `restart_every` is 0.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, rounds: u64, restart_every: u64) -> Self {
        assert!(restart_every > 0, "a tree covers at least one round");
        Self {
            key,
            standard_deviation,
            restart_every,
            progress: Progress::new(rounds),
        }
    }
}

impl NoiseMechanism for Tree {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], engine: &Engine) -> Result<(), NoiseError> {
        self.progress.take(round)?;
        let before = round / self.restart_every * self.restart_every;
        let leaf = round - before + 1;
        engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
            let block = (offset / BLOCK_COORDINATES) as u64;
            add_gaussian_blocks(&self.key, NOISE, before + leaf, block, self.standard_deviation, part);
            // Prefix leaf − 1 ends in ctz(leaf) ones: the absorbed nodes end where these bits are added.
            let mut end = leaf & (leaf - 1);
            for level in (0..leaf.trailing_zeros()).rev() {
                end += 1 << level;
                add_gaussian_blocks(&self.key, NOISE, before + end, block, -self.standard_deviation, part);
            }
        });
        Ok(())
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

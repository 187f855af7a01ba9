//! The tree with Honaker's online estimator ([001 Example 3.3]): a completed subtree is estimated from all its nodes.
//!
//! All 2T − 1 nodes of the full tree carry noise. A subtree of height h is estimated by the inverse-variance average of
//! its own node and the sum of its children's estimates: own weight `w_h = 2^h/(2^{h+1} − 1)`, the children's `1 − w_h`,
//! variance `w_h·σ²`. This is the best causal estimator from completed nodes. sens(C) = √(⌊log₂T⌋ + 1): a leaf lies in
//! one node of each complete level.
//!
//! **The real noise.** The stored w_h ≥ ½ is the f64 nearest to its formula, and `1 − w_h` is exact. So the estimator N of
//! these weights satisfies `N·H = I` for the node matrix H, with sens(H) = √(⌊log₂T⌋ + 1): `G + σNz = N(HG + σz)` is
//! post-processing of the Gaussian mechanism on the nodes.

use std::sync::Arc;

use rounds_kernels::random::Purpose;

use super::plan::{NoisePlan, PlannedNoise};
use super::recursion::{Machine, Planned, Recursion, Recursive};
use super::stream::TREE_LEVELS;
use crate::factorization::estimate_variance;

/// The registry's entry: one tree an epoch.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let (rounds, epoch, dimension) = (plan.rounds as u64, plan.rounds_per_epoch as u64, plan.dimension);
    let planned = Arc::new(Planned::new(HonakerTree::new(rounds, epoch), rounds));
    PlannedNoise::new(plan.tree_release(), move |key, sigma| Box::new(Recursive::new(key, sigma, planned, dimension)))
}

/// Increments of the prefix estimates. Keeps the estimate of each open subtree, ⌊log₂T⌋ + 1 vectors; σ is the standard
/// deviation of a node.
pub(super) struct HonakerTree {
    restart_every: u64,
    levels: usize,
}

impl HonakerTree {
    /// Trees of `restart_every` rounds for `rounds` rounds.
    ///
    /// # Panics
    /// If `restart_every` is 0.
    pub(super) fn new(rounds: u64, restart_every: u64) -> Self {
        assert!(restart_every > 0, "a tree covers at least one round");
        let levels = restart_every.min(rounds.max(1)).ilog2() as usize + 1;
        Self { restart_every, levels }
    }

    /// Height of the largest subtree that the round completes.
    fn top(&self, round: u64) -> u32 {
        (round % self.restart_every + 1).trailing_zeros()
    }
}

impl Recursion for HonakerTree {
    fn slots(&self) -> usize {
        self.levels
    }

    /// Slot h keeps the last left subtree of height h.
    fn step(&self, round: u64, machine: &mut impl Machine) {
        let top = self.top(round);
        machine.draw(Purpose(TREE_LEVELS), round);
        for height in 0..top {
            machine.take_back(height as usize);
            machine.add_kept(1, |_| (1.0, height as usize));
            let own = estimate_variance(height as usize + 1);
            machine.average(own, Purpose(TREE_LEVELS + height + 1), round, 1.0 - own);
        }
        machine.put_out();
        machine.keep(top as usize);
    }

    /// The subtree that the round completes begins there.
    fn origin(&self, round: u64) -> u64 {
        round + 1 - (1 << self.top(round))
    }

    fn gains(&self, _rounds: u64) -> Vec<f64> {
        let top = self.levels - 1;
        vec![(0..top).map(|level| gain(top, level)).sum()]
    }

    fn carried(&self, _gains: &[f64], round: u64, errors: &[f64]) -> f64 {
        let top = self.top(round) as usize;
        (0..top).map(|level| gain(top, level) * errors[level]).sum()
    }
}

/// κ of height `level` in a round whose subtree has height `top`.
///
/// The outcome of a round is an estimate less those k_h of the left subtrees in it, `h < top`, each of which has the weight
/// `∏_{h < i ≤ top} (1 − w_i) ≤ 1` there: a change of k_h changes it by at most that. A k_h holds 2^{h−g−1} left subtrees of
/// height g < h, each with the weight `∏_{g < i ≤ h} (1 − w_i) ≤ 2^{g−h}`, one half together. So a change at height g counts at
/// most 1 in k_g, and one half in each k_h above it.
fn gain(top: usize, level: usize) -> f64 {
    1.0 + 0.5 * (top - 1 - level) as f64
}

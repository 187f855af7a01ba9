//! The binary tree mechanism ([000 Lemma 4.3], [004 Lemma 5.6], with the root that the papers' index range omits).
//!
//! Leaves are rounds 1…T; node (k, j), j odd, covers the 2^k rounds that end at j·2^k. Round t completes exactly one
//! node, of level ctz(t), and prefix t is the sum of the nodes at the set bits of t. A row of C is a node: 1 for each of
//! its leaves. A leaf lies in at most ⌊log₂T⌋ + 1 nodes (leaf 1 in exactly that many), hence sens(C) = √(⌊log₂T⌋ + 1).

use rounds_kernels::random::StreamKey;

use super::addressed::Addressed;
use super::plan::{NoisePlan, PlannedNoise};
use super::stream::NoiseMechanism;

/// The registry's entry: one tree an epoch.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let (rounds, epoch) = (plan.rounds as u64, plan.rounds_per_epoch as u64);
    PlannedNoise::new(plan.tree_release(), move |key, sigma| Box::new(stream(key, sigma, rounds, epoch)))
}

/// Increments of the tree's prefix noise: at round t the new node, minus the nodes that it absorbs. Nodes are made again
/// from their addresses rather than kept: the node that round t completes is addressed by t, and on average less than
/// one node a round is absorbed, so a round costs less than two fresh vectors and no memory.
///
/// `restart_every` rounds a new tree begins (as between epochs); its nodes have addresses of their own. σ is the standard
/// deviation of a node.
///
/// # Panics
/// If `restart_every` is 0.
pub(super) fn stream(key: StreamKey, sigma: f64, rounds: u64, restart_every: u64) -> impl NoiseMechanism {
    assert!(restart_every > 0, "a tree covers at least one round");
    let levels = restart_every.min(rounds.max(1)).ilog2() + 1;
    Addressed::new(key, sigma, rounds, levels, move |round: u64, add: &mut dyn FnMut(u64, f64)| {
        let before = round / restart_every * restart_every;
        let leaf = round - before + 1;
        add(before + leaf, 1.0);
        // Prefix leaf − 1 ends in ctz(leaf) ones: the absorbed nodes end where these bits are added.
        let mut end = leaf & (leaf - 1);
        for level in (0..leaf.trailing_zeros()).rev() {
            end += 1 << level;
            add(before + end, -1.0);
        }
    })
}

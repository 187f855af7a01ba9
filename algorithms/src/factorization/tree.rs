//! The binary tree mechanism as a factorisation: nodes, sensitivities and the estimators of Honaker.
//!
//! Node (k, j), level k ≥ 0, j ≥ 1, covers the rounds (j − 1)·2ᵏ + 1 … j·2ᵏ (from 1) and exists iff j·2ᵏ ≤ T
//! [000 Lemma 4.3, 004 Lemma 5.6; corrected: specification E7]. C is the incidence matrix of the released nodes and
//! rounds, one row a node; sums of nodes are non-negative, so every sensitivity here is attained by aligned
//! contributions.

use super::error::FactorizationError;
use super::participation::{Exactness, Participation, Sensitivity, bound, exact, gram_sensitivity};

/// The released nodes and the estimator of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeVariant {
    /// Prefix t sums the nodes of t's binary digits. Only nodes with odd j are ever used, T of them; only those are
    /// released.
    Plain,
    /// All completed nodes are released; a completed subtree is estimated from its own node and its children's
    /// estimates by inverse variances [001 Example 3.3]: the best causal estimator from completed nodes.
    HonakerOnline,
    /// All nodes are used for every prefix: B = S·H⁺ [001 Example 3.3]. Only its law matters, so the streaming form is
    /// the causal Cholesky factor of B·Bᵀ.
    HonakerFull,
}

/// v_h = 2ʰ/(2ʰ⁺¹ − 1): the variance of the estimate of a completed subtree of height h, and the weight of its own node.
pub(crate) fn estimate_variance(height: usize) -> f64 {
    let leaves = 2.0_f64.powi(height as i32);
    leaves / (2.0 * leaves - 1.0)
}

/// The released nodes (k, j), level by level.
pub(crate) fn nodes(variant: TreeVariant, rounds: usize) -> impl Iterator<Item = (usize, usize)> {
    let step = if variant == TreeVariant::Plain { 2 } else { 1 };
    (0..usize::BITS as usize)
        .take_while(move |&level| rounds >> level > 0)
        .flat_map(move |level| (1..=rounds >> level).step_by(step).map(move |index| (level, index)))
}

/// (CᵀC)_{ii'}: how many released nodes cover both rounds (from 0).
pub(crate) fn gram(variant: TreeVariant, rounds: usize, row: usize, column: usize) -> f64 {
    let mut shared = 0;
    for level in (0..usize::BITS as usize).take_while(|&level| rounds >> level > 0) {
        let index = row >> level;
        // Index is j − 1: node j is complete when (index + 1)·2ᵏ ≤ T, and odd when index is even.
        if index == column >> level
            && (index + 1) << level <= rounds
            && (variant != TreeVariant::Plain || index.is_multiple_of(2))
        {
            shared += 1;
        }
    }
    f64::from(shared)
}

/// The weight of every released node in the estimate of every prefix: column `(level, index)` of the prefix noise, one
/// entry a round.
pub(crate) fn prefix_noise_column(variant: TreeVariant, level: usize, index: usize, column: &mut [f64]) {
    let end = index << level;
    // weights[H] = weight of this node in the estimate of its ancestor of height H.
    let mut weights = [0.0; usize::BITS as usize];
    match variant {
        TreeVariant::Plain => weights[level] = 1.0,
        TreeVariant::HonakerOnline | TreeVariant::HonakerFull => {
            let mut weight = estimate_variance(level);
            for (height, entry) in weights.iter_mut().enumerate().skip(level) {
                if height > level {
                    weight *= 1.0 - estimate_variance(height);
                }
                *entry = weight;
            }
        }
    }
    for (offset, value) in column.iter_mut().enumerate() {
        let round = offset + 1;
        *value = if round < end {
            0.0
        } else {
            // The subtree of prefix `round` that covers round `end`: the highest digit in which they part.
            let height = ((end - 1) ^ round).ilog2() as usize;
            if height >= level { weights[height] } else { 0.0 }
        };
    }
}

/// sens(C) of the tree, exact. Minimum separation: a dynamic programme over subtrees, see [`separated_sensitivity`].
pub(crate) fn tree_sensitivity(
    variant: TreeVariant,
    rounds: usize,
    participation: &Participation,
) -> Result<Sensitivity, FactorizationError> {
    participation.check(rounds)?;
    let participations = participation.participations(rounds);
    let entry = |row: usize, column: usize| gram(variant, rounds, row, column);
    if participations == 1 {
        let squared = (0..rounds).map(|round| entry(round, round)).fold(0.0, f64::max);
        return Ok(exact(squared, "the most nodes over one round"));
    }
    if !matches!(participation, Participation::MinimumSeparation { .. }) {
        let found = gram_sensitivity(rounds, entry, participation)?;
        debug_assert_eq!(found.exactness, Exactness::Exact);
        return Ok(Sensitivity {
            reason: "node sums are non-negative: the largest pattern sum of CᵀC is attained",
            ..found
        });
    }
    let separation = participation.separation(rounds);
    // The dynamic programme costs about k²·b³; beyond this a bound is returned instead.
    if (participations as f64).powi(2) * (separation as f64).powi(3) > 2e9 {
        let per_level: f64 = (0..=rounds.ilog2() as usize)
            .map(|level| {
                let most = (1_usize << level).div_ceil(separation).min(participations);
                (most * participations) as f64
            })
            .sum();
        let reason = "every level's nodes filled as much as the separation allows";
        return Ok(bound(per_level, reason));
    }
    let squared = separated_sensitivity(variant, rounds, participations, separation);
    let reason = "dynamic programme over subtrees: the exact largest sum over all separated sets";
    Ok(exact(squared, reason))
}

/// max over sets π of at most k rounds, at least b apart, of Σ_nodes |node ∩ π|².
///
/// For a complete subtree of 2ʰ rounds, V[n][f][l] is the largest sum over its own nodes with n used rounds, at least f
/// rounds free before the first and l after the last (both capped at b − 1, beyond which they bind nobody). Two
/// siblings combine as max over x of V_left[n₁][f][x] + V_right[n₂][b − 1 − x][l], plus n² for the parent.
fn separated_sensitivity(variant: TreeVariant, rounds: usize, participations: usize, separation: usize) -> f64 {
    let mut released = SubtreeTable::leaf(separation, true);
    let mut unreleased = SubtreeTable::leaf(separation, false);
    let mut pieces = Vec::new();
    for level in 0..=rounds.ilog2() as usize {
        if rounds >> level & 1 == 1 {
            pieces.push(released.clone());
        }
        if level < rounds.ilog2() as usize {
            // The left child has an odd index; of the right one a plain tree releases no node.
            let right = if variant == TreeVariant::Plain { &unreleased } else { &released };
            let parent = SubtreeTable::join(&released, right, participations);
            unreleased = parent.clone();
            released = parent.with_root();
        }
    }
    // The complete subtrees of T's binary digits, largest first, have no common parent.
    let pieces = pieces.into_iter().rev();
    let prefix = pieces.reduce(|before, piece| SubtreeTable::join(&before, &piece, participations));
    prefix.map_or(0.0, |table| table.values.iter().map(|grid| grid[0]).fold(0.0, f64::max))
}

#[derive(Clone)]
struct SubtreeTable {
    /// Rounds covered.
    size: usize,
    /// b.
    separation: usize,
    /// `values[n][f·b + l]`, −∞ where no such set exists.
    values: Vec<Vec<f64>>,
}

impl SubtreeTable {
    fn leaf(separation: usize, counted: bool) -> Self {
        let mut one = vec![f64::NEG_INFINITY; separation * separation];
        one[0] = f64::from(u8::from(counted));
        Self { size: 1, separation, values: vec![vec![0.0; separation * separation], one] }
    }

    fn with_root(mut self) -> Self {
        for (count, grid) in self.values.iter_mut().enumerate() {
            grid.iter_mut().for_each(|value| *value += (count * count) as f64);
        }
        self
    }

    fn at(&self, count: usize, first: usize, last: usize) -> f64 {
        self.values[count][first * self.separation + last]
    }

    fn join(left: &Self, right: &Self, participations: usize) -> Self {
        let b = left.separation;
        let size = left.size + right.size;
        let most = participations.min(size.div_ceil(b));
        let mut values = vec![vec![f64::NEG_INFINITY; b * b]; most + 1];
        values[0] = vec![0.0; b * b];
        for (count, grid) in values.iter_mut().enumerate().skip(1) {
            for first in 0..b {
                for last in 0..b {
                    let mut best = f64::NEG_INFINITY;
                    for taken in count.saturating_sub(right.values.len() - 1)..=count.min(left.values.len() - 1) {
                        let others = count - taken;
                        if others == 0 {
                            best = best.max(left.at(taken, first, last.saturating_sub(right.size)));
                        } else if taken == 0 {
                            best = best.max(right.at(others, first.saturating_sub(left.size), last));
                        } else {
                            for slack in 0..b {
                                best = best.max(left.at(taken, first, slack) + right.at(others, b - 1 - slack, last));
                            }
                        }
                    }
                    grid[first * b + last] = best;
                }
            }
        }
        Self { size, separation: b, values }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{separated, separated_sets};
    use super::*;
    use crate::privacy::tree_squared_sensitivity;

    #[test]
    fn the_plain_tree_completes_one_node_a_round() {
        for rounds in 1..70 {
            assert_eq!(nodes(TreeVariant::Plain, rounds).count(), rounds);
            let mut completed: Vec<usize> =
                nodes(TreeVariant::Plain, rounds).map(|(level, index)| index << level).collect();
            completed.sort_unstable();
            assert_eq!(completed, (1..=rounds).collect::<Vec<_>>());
        }
        assert_eq!(nodes(TreeVariant::HonakerOnline, 64).count(), 127);
    }

    #[test]
    fn estimates_are_unbiased_sums_of_the_prefix() {
        // Node sums of the all-ones input are 2^level; weighted with the estimator they must give t back.
        for variant in [TreeVariant::Plain, TreeVariant::HonakerOnline] {
            for rounds in [1, 5, 8, 13, 32] {
                let mut column = vec![0.0; rounds];
                let mut totals = vec![0.0; rounds];
                for (level, index) in nodes(variant, rounds) {
                    prefix_noise_column(variant, level, index, &mut column);
                    crate::vectors::add_scaled(&mut totals, (1 << level) as f64, &column);
                }
                let exact = (1..=rounds).zip(&totals).all(|(round, total)| (total - round as f64).abs() < 1e-12);
                assert!(exact, "{variant:?} {rounds} {totals:?}");
            }
        }
    }

    #[test]
    fn one_participation_meets_the_floor_of_the_logarithm_and_one() {
        for rounds in (1..200_usize).chain([511, 512, 513, 1600]) {
            for variant in [TreeVariant::Plain, TreeVariant::HonakerOnline] {
                let found = tree_sensitivity(variant, rounds, &Participation::Single).unwrap();
                let expected = f64::from(rounds.ilog2() + 1);
                assert!((found.value.powi(2) - expected).abs() < 1e-12);
                assert_eq!(tree_squared_sensitivity(rounds), expected, "what accountants read");
            }
        }
    }

    #[test]
    fn separated_sensitivities_are_the_reference_ones() {
        // The reference counts the rounds between two participations, one fewer than the separation here.
        for ((participations, between, rounds), expected) in
            [((1, 7, 8), 4.0), ((3, 3, 9), 11.0), ((3, 2, 7), 9.0), ((8, 2, 24), 88.0), ((8, 0, 8), 120.0)]
        {
            let participation = separated(participations, between + 1);
            let found = tree_sensitivity(TreeVariant::HonakerOnline, rounds, &participation).unwrap();
            let close = (found.value.powi(2) - expected).abs() < 1e-9;
            assert!(close, "{participation:?} {rounds}: {found:?}");
            assert_eq!(found.exactness, Exactness::Exact);
        }
    }

    #[test]
    fn separated_sensitivities_are_those_of_brute_force() {
        for variant in [TreeVariant::Plain, TreeVariant::HonakerOnline] {
            for rounds in 1..=14_usize {
                for separation in 1..=4 {
                    for participations in 1..=4 {
                        let sum = |set: Vec<usize>| -> f64 {
                            let pairs = set.iter().flat_map(|&i| set.iter().map(move |&j| (i, j)));
                            pairs.map(|(i, j)| gram(variant, rounds, i, j)).sum()
                        };
                        let sets = separated_sets(rounds, participations, separation);
                        let largest = sets.map(sum).fold(0.0, f64::max);
                        let participation = separated(participations, separation);
                        let found = tree_sensitivity(variant, rounds, &participation).unwrap();
                        let close = (found.value.powi(2) - largest).abs() < 1e-9;
                        assert!(close, "{variant:?} {rounds} {participation:?}: {found:?} {largest}");
                    }
                }
            }
        }
    }
}

//! The order in which partial sums are added: a complete binary tree over the leaves, `((l₀ + l₁) + (l₂ + l₃)) + …`.
//!
//! The number of leaves is a power of two, so a subtree is an aligned run of 1, 2, 4, … leaves. Whoever holds all of its
//! leaves can add it up alone and hand on one sum, which keeps the bits the same on any number of ranks at the price of one
//! vector a rank; a left fold would have to send every leaf, or pass from rank to rank.

use std::ops::Range;

/// Sums that are under way at the same time: one a level of the tree, below that of 2⁶³ leaves.
const MOST_LEVELS: usize = 64;

/// The subtrees that cover the leaves `range` of a tree, as few as possible, from the left.
pub fn subtrees(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let left = range.end.checked_sub(start).filter(|&left| left > 0)?;
        let fitting = 1 << left.ilog2();
        let aligned = if start == 0 { fitting } else { 1 << start.trailing_zeros() };
        let subtree = start..start + fitting.min(aligned);
        start = subtree.end;
        Some(subtree)
    })
}

/// Values of scratch that [`add`] needs for sums of `width` values over trees of up to `leaves` leaves.
pub fn scratch(leaves: usize, width: usize) -> usize {
    width * (leaves.max(1).ilog2() as usize + 2)
}

/// `sum = Σ parts` in the order of the tree: `parts` are neighbouring subtrees from the left that make up one complete
/// subtree, each as its leaves and its values.
///
/// # Panics
/// Parts that leave gaps or do not make up one subtree; values of another length than `sum`; too little scratch.
pub fn add<'p>(parts: impl Iterator<Item = (Range<usize>, &'p [f64])>, sum: &mut [f64], scratch: &mut [f64]) {
    let width = sum.len();
    let mut parts = parts.peekable();
    let mut open: [Range<usize>; MOST_LEVELS] = [const { 0..0 }; MOST_LEVELS];
    let mut depth = 0;
    let siblings = |left: &Range<usize>, right: &Range<usize>| {
        left.len() == right.len() && left.end == right.start && left.start.is_multiple_of(2 * left.len())
    };
    while let Some((leaves, values)) = parts.next() {
        // Sum number 0 lies in `sum`, the others in `scratch`.
        let (first, rest) = (&mut *sum, &mut *scratch);
        let own = if depth == 0 { first } else { &mut rest[(depth - 1) * width..depth * width] };
        open[depth] = leaves;
        if let Some((next, others)) = parts.next_if(|(next, _)| siblings(&open[depth], next)) {
            for ((to, &a), &b) in own.iter_mut().zip(values).zip(others) {
                *to = a + b;
            }
            open[depth].end = next.end;
        } else {
            own.copy_from_slice(values);
        }
        depth += 1;
        while depth > 1 && siblings(&open[depth - 2], &open[depth - 1]) {
            let (below, above) = scratch.split_at_mut((depth - 2) * width);
            let into = if depth == 2 { &mut *sum } else { &mut below[(depth - 3) * width..] };
            for (to, &from) in into.iter_mut().zip(&above[..width]) {
                *to += from;
            }
            open[depth - 2].end = open[depth - 1].end;
            depth -= 1;
        }
    }
    assert_eq!(depth, 1, "the parts do not make up one subtree");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition.
    fn reference(values: &[f64]) -> f64 {
        if let [value] = values {
            return *value;
        }
        let (left, right) = values.split_at(values.len() / 2);
        reference(left) + reference(right)
    }

    fn leaf(index: usize) -> f64 {
        (index as f64 * 1.7).sin() * 1e3_f64.powi(index as i32 % 5)
    }

    #[test]
    fn sums_follow_the_tree_whatever_subtrees_they_come_in() {
        for leaves in [1, 2, 4, 8, 16, 32, 64] {
            let values: Vec<f64> = (0..leaves).map(leaf).collect();
            for ranks in 1..=7 {
                let mut nodes = Vec::new();
                for rank in 0..ranks {
                    for node in subtrees(leaves * rank / ranks..leaves * (rank + 1) / ranks) {
                        let parts = node.clone().map(|leaf| (leaf..leaf + 1, &values[leaf..=leaf]));
                        let mut sum = [0.0];
                        add(parts, &mut sum, &mut vec![0.0; scratch(leaves, 1)]);
                        nodes.push((node, sum));
                    }
                }
                let mut sum = [f64::NAN];
                let parts = nodes.iter().map(|(node, value)| (node.clone(), value.as_slice()));
                add(parts, &mut sum, &mut vec![0.0; scratch(leaves, 1)]);
                assert_eq!(sum[0].to_bits(), reference(&values).to_bits(), "{leaves} leaves, {ranks} ranks");
            }
        }
    }

    #[test]
    fn the_tree_is_no_left_fold() {
        let values: Vec<f64> = (0..16).map(leaf).collect();
        assert_ne!(values.iter().fold(0.0, |a, b| a + b), reference(&values));
    }

    #[test]
    fn subtrees_are_aligned_and_cover() {
        assert_eq!(subtrees(5..16).collect::<Vec<_>>(), [5..6, 6..8, 8..16]);
        assert!(subtrees(0..8).eq(std::iter::once(0..8)));
        assert_eq!(subtrees(3..3).count(), 0);
        for (start, end) in [(0, 5), (1, 64), (21, 43), (10, 11)] {
            let mut next = start;
            for node in subtrees(start..end) {
                assert!(node.start == next && node.len().is_power_of_two() && node.start % node.len() == 0);
                next = node.end;
            }
            assert_eq!(next, end);
        }
    }
}

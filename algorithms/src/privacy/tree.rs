//! Sensitivity of binary-tree aggregation (specification 3.1).

/// ⌊log₂ T⌋ + 1, the squared sensitivity of the nodes of one tree over T rounds, for an example in one leaf whose term
/// changes by norm 1 (attained by the first leaf). Papers 000 and 004 use 1 + ⌈log₂ T⌉, which is safe but not tight.
pub fn squared_sensitivity(rounds: usize) -> f64 {
    f64::from(rounds.max(1).ilog2() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes (k, j), j odd, that exist for T rounds and cover leaf i, counted from their definition.
    fn nodes_over_leaf(leaf: usize, rounds: usize) -> usize {
        (0..usize::BITS as usize)
            .filter(|&level| {
                let width = 1_usize << level.min(40);
                let index = (leaf - 1) / width + 1;
                index % 2 == 1 && index * width <= rounds
            })
            .count()
    }

    #[test]
    fn the_sensitivity_is_the_largest_number_of_nodes_over_a_leaf() {
        for rounds in (1..=130).chain([511, 512, 513, 1600]) {
            let most = (1..=rounds).map(|leaf| nodes_over_leaf(leaf, rounds)).max().unwrap();
            assert_eq!(squared_sensitivity(rounds), most as f64, "{rounds} rounds");
        }
    }
}

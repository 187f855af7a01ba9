//! Sensitivity of binary-tree aggregation (specification 3.1).

/// ⌊log₂ T⌋ + 1, the squared sensitivity of the nodes of one tree over T rounds, for an example in one leaf whose term
/// changes by norm 1 (attained by the first leaf). Papers 000 and 004 use 1 + ⌈log₂ T⌉, which is safe but not tight.
pub fn squared_sensitivity(rounds: usize) -> f64 {
    f64::from(rounds.max(1).ilog2() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::tree;
    use crate::privacy::{Adjacency, Sampling, gaussian, gdp, rdp};

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

    #[test]
    fn golden_epsilons_of_the_reference_library() {
        // reference values, single-epoch tree aggregation (replace-special, RDP): (noise, rounds, delta, epsilon).
        for (noise_multiplier, rounds, delta, expected) in [
            (1.13, 1600, 1e-6, 18.709_609_89),
            (8.83, 1600, 1e-6, 1.773_192_45),
            (1.0, 1024, 1e-5, 20.259_186_88),
            (4.0, 120, 1e-5, 2.958_508_859),
            (0.149, 1600, 1e-6, 363.658_091_7),
        ] {
            let tree = tree(noise_multiplier, Sampling::FixedOrder, rounds, 1);
            let (by_rdp, _) = rdp::RenyiCurve::new(&tree, Adjacency::ZeroOut)
                .unwrap()
                .epsilon(delta)
                .unwrap();
            // Continuous orders win over the reference's grid, by little.
            assert!(
                by_rdp <= expected * (1.0 + 1e-9) && by_rdp > expected * 0.995,
                "{by_rdp} against {expected}"
            );
            let exact = gaussian::epsilon(delta, gdp::mu(&tree, Adjacency::ZeroOut).unwrap()).unwrap();
            assert!(exact < by_rdp);
        }
    }

    #[test]
    fn restarts_between_epochs_compose_and_do_not_come_for_free() {
        // reference values: four epochs of 400 steps, a fresh tree each, every example in all four.
        let tree = tree(2.0, Sampling::ShuffledOnce, 400, 4);
        let mu = gdp::mu(&tree, Adjacency::ZeroOut).unwrap();
        assert!((gaussian::epsilon(1e-6, mu).unwrap() / 18.163_445_76 - 1.0).abs() < 1e-9);
    }
}

//! Iterative localisation: population risk from a private solver of the empirical one [002 Proposition 11; Feldman et al.
//! 2020; specification 7.5 and 10.3].
//!
//! ```text
//! disjoint chunks of n_i = n/2^i examples, i = 1, 2, … while n_i ≥ 16
//! x_i = A_erm(chunk i, regulariser (λ_i/2)‖x − x_{i−1}‖²),   λ_i = 8^i·λ_0,   λ_0 = (L/R)·√(1/n + d·ln(1/δ)/(nε)²)
//! ```
//!
//! **Privacy.** Chunks are disjoint: replacing one example changes one chunk, so each phase may spend the whole (ε, δ)
//! (parallel composition; the paper's ε/2^i is not needed, E27) and later phases only post-process.

/// One phase: its rows and its regulariser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    /// Rows of the chunk.
    pub(crate) rows: std::ops::Range<usize>,
    /// λ_i.
    pub(crate) regularization: f64,
}

/// λ_0 for L, R and a budget; `privacy` = √(d·ln(1/δ))/(nε), 0 without one.
pub(crate) fn first_regularization(lipschitz: f64, domain_radius: f64, examples: usize, privacy: f64) -> f64 {
    lipschitz / domain_radius * (1.0 / examples as f64 + privacy * privacy).sqrt()
}

/// The phases for n examples, chunks in order and disjoint; one phase of all rows if n < 32.
pub(crate) fn phases(examples: usize, first_regularization: f64) -> Vec<Phase> {
    let mut phases = Vec::new();
    let (mut start, mut size, mut regularization) = (0, examples / 2, 8.0 * first_regularization);
    while size >= 16 {
        phases.push(Phase { rows: start..start + size, regularization });
        start += size;
        size /= 2;
        regularization *= 8.0;
    }
    if phases.is_empty() {
        phases.push(Phase { rows: 0..examples, regularization });
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_disjoint_and_halve() {
        for examples in [32, 1_000, 60_000] {
            let phases = phases(examples, 0.5);
            assert_eq!(phases[0].rows.len(), examples / 2);
            for pair in phases.windows(2) {
                assert_eq!(pair[0].rows.end, pair[1].rows.start);
                assert_eq!(pair[1].rows.len(), pair[0].rows.len() / 2);
                assert_eq!(pair[1].regularization, 8.0 * pair[0].regularization);
            }
            let last = phases.last().unwrap();
            assert!(last.rows.end <= examples && last.rows.len() >= 16);
        }
        assert_eq!(phases(20, 1.0).len(), 1);
    }

    #[test]
    fn the_first_weight_balances_statistics_and_privacy() {
        assert!((first_regularization(2.0, 4.0, 100, 0.0) - 0.05).abs() < 1e-15);
        assert!(first_regularization(1.0, 1.0, 100, 0.3) > 0.3);
    }
}

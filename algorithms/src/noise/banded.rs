//! Banded C (Choquette-Choo et al. 2023): `ζ_t = (z_t − Σ_{i=1}^{b−1} C[t, t−i]·ζ_{t−i}) / C[t, t]`, so ζ = C⁻¹Z needs
//! the last b − 1 vectors only.
//!
//! W = σζ for the real C⁻¹ of the stored C, whose sensitivity the account takes.

use super::recursion::{Machine, Recursion, impulse_gains};
use super::stream::NOISE;

/// Rows of `C⁻¹Z` for a banded lower triangular C, one pass over the last b − 1 vectors a round.
#[derive(Debug)]
pub(super) struct Banded {
    /// Row t: `C[t, t], C[t, t−1], …, C[t, t−b+1]`.
    rows: Vec<Vec<f64>>,
    bands: usize,
}

impl Banded {
    /// The mechanism for a banded C, `rows[t]` holding `C[t, t], C[t, t−1], …`.
    ///
    /// # Panics
    /// If a row is empty or its diagonal entry is 0.
    pub(super) fn new(rows: Vec<Vec<f64>>) -> Self {
        assert!(
            rows.iter().all(|row| row.first().is_some_and(|&diagonal| diagonal != 0.0)),
            "a diagonal entry of C is 0"
        );
        let bands = rows.iter().map(Vec::len).max().unwrap_or(1);
        Self { rows, bands }
    }
}

impl Recursion for Banded {
    fn slots(&self) -> usize {
        self.bands - 1
    }

    /// Slot s mod (b − 1) keeps ζ_s.
    fn step(&self, round: u64, machine: &mut impl Machine) {
        let (row, at, slots) = (&self.rows[round as usize], round as usize, self.slots());
        machine.draw(NOISE, round);
        let reach = (row.len() - 1).min(at);
        machine.add_kept(reach, |i| (-row[i + 1], (at - i - 1) % slots));
        machine.divide(row[0]);
        machine.put_out();
        if slots > 0 {
            machine.keep(at % slots);
        }
    }

    fn origin(&self, _round: u64) -> u64 {
        0
    }

    fn gains(&self, rounds: u64) -> Vec<f64> {
        let is_moderate = |row: &Vec<f64>| row[0].abs() >= 2_f64.powi(-10) && row.iter().all(|c| c.abs() <= 1024.0);
        if self.rows.iter().all(is_moderate) { impulse_gains(self, rounds, false) } else { vec![f64::INFINITY] }
    }

    /// Slots take turns: κ is the norm of a row of C⁻¹·diag(C), less the diagonal.
    fn carried(&self, gains: &[f64], _round: u64, errors: &[f64]) -> f64 {
        gains[0] * errors.iter().copied().fold(0.0, f64::max)
    }
}

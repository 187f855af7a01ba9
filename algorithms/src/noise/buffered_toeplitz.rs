//! Buffered linear Toeplitz C (Dvijotham et al. 2024, McMahan et al. 2024): `c_0 = 1`, `c_i = Σ_j ω_j θ_j^{i−1}`.
//!
//! ```text
//! ζ_t = z_t − Σ_j ω_j s_j,     s_j ← θ_j s_j + ζ_t     (s = 0 at the start)
//! ```
//! yields ζ = C⁻¹Z with m buffers: O(m·p) a round. W = σζ for the real C⁻¹ of the stored ω and θ.

use super::recursion::{Machine, Recursion, impulse_gains};
use super::stream::NOISE;

/// Rows of `C⁻¹Z` from m buffers.
#[derive(Debug)]
pub(super) struct BufferedToeplitz {
    output_scale: Vec<f64>,
    decay: Vec<f64>,
}

impl BufferedToeplitz {
    /// The mechanism with `output_scale` ω and `decay` θ.
    ///
    /// # Panics
    /// If ω and θ have different lengths.
    pub(super) fn new(output_scale: &[f64], decay: &[f64]) -> Self {
        assert_eq!(output_scale.len(), decay.len(), "a buffer has one scale and one decay");
        Self { output_scale: output_scale.to_vec(), decay: decay.to_vec() }
    }
}

impl Recursion for BufferedToeplitz {
    fn slots(&self) -> usize {
        self.decay.len()
    }

    fn step(&self, round: u64, machine: &mut impl Machine) {
        machine.draw(NOISE, round);
        machine.add_kept(self.slots(), |j| (-self.output_scale[j], j));
        machine.put_out();
        for (j, &decay) in self.decay.iter().enumerate() {
            machine.decay(j, decay);
        }
    }

    fn origin(&self, _round: u64) -> u64 {
        0
    }

    fn gains(&self, rounds: u64) -> Vec<f64> {
        if self.output_scale.iter().all(|omega| omega.abs() <= 1024.0)
            && self.decay.iter().all(|theta| theta.abs() <= 1.0)
        {
            impulse_gains(self, rounds, true)
        } else {
            vec![f64::INFINITY]
        }
    }

    fn carried(&self, gains: &[f64], _round: u64, errors: &[f64]) -> f64 {
        gains.iter().zip(errors).map(|(gain, error)| gain * error).sum()
    }
}

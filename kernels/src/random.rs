//! Addressed random streams and the samplers that fill slices from them.
//!
//! A stream is addressed by (key, purpose, round, block), so any thread can produce any part of a round's noise and a
//! replay gives the same bits. Simulation keys drive 16-lane xoshiro; release keys drive ChaCha20 in f64.

/// The key of all streams of a run.
#[derive(Clone)]
pub enum StreamKey {
    /// Reproducible simulation from a seed (xoshiro). Never a release.
    Simulation(u64),
    /// A 256-bit key from the operating system (ChaCha20).
    Release([u8; 32]),
}

/// What a stream is for: two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purpose(pub u32);

/// `sum[j] += standard_deviation · z_j`, z iid N(0, 1) from the stream (key, purpose, round, ·).
pub fn add_gaussian(_key: &StreamKey, _purpose: Purpose, _round: u64, _standard_deviation: f64, _sum: &mut [f64]) {
    todo!()
}

/// Fills `out` with `standard_deviation · N(0, 1)`; the same coordinates as [`add_gaussian`] up to rounding.
pub fn fill_gaussian(_key: &StreamKey, _purpose: Purpose, _round: u64, _standard_deviation: f32, _out: &mut [f32]) {
    todo!()
}

/// `sum[j] += Laplace(scale)`: density e^{−|y|/scale}/(2·scale), standard deviation √2·scale.
pub fn add_laplace(_key: &StreamKey, _purpose: Purpose, _round: u64, _scale: f64, _sum: &mut [f64]) {
    todo!()
}

/// A stream of uniform 64-bit words for sampling decisions.
pub struct UniformStream {}

impl UniformStream {
    /// The stream (key, purpose, round, block).
    pub fn new(_key: &StreamKey, _purpose: Purpose, _round: u64, _block: u64) -> Self {
        todo!()
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        todo!()
    }
}

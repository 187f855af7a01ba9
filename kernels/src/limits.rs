//! Loops that reach a limit of the machine: f32 multiply-adds on registers alone, and reads of memory. Whoever has a clock times them.

use std::hint::black_box;

pub use wide::f32x16;

/// Independent chains of multiply-adds: enough to hide the latency (4 cycles, 2 units), few enough for the registers.
const CHAINS: usize = if cfg!(target_feature = "avx512f") { 12 } else { 6 };
const LANES: usize = 16;

/// `steps` multiply-adds of each of several independent chains on registers. Returns the floating-point operations, 2 a lane and
/// multiply-add.
pub fn multiply_add_loop(steps: usize) -> f64 {
    let mut chains: [f32x16; CHAINS] = black_box([f32x16::splat(1.0); CHAINS]);
    let factor = black_box(f32x16::splat(0.999_999));
    let addend = black_box(f32x16::splat(1e-6));
    for _ in 0..steps {
        for chain in &mut chains {
            *chain = chain.mul_add(factor, addend);
        }
    }
    black_box(chains);
    (2 * LANES * CHAINS * steps) as f64
}

/// Reads all vectors as one stream; a rest of fewer than eight is left out.
pub fn read_one_stream(vectors: &[f32x16]) {
    let mut sums = [f32x16::splat(0.0); 8];
    for block in vectors.chunks_exact(8) {
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum += *value;
        }
    }
    black_box(sums);
}

/// Reads all vectors as four streams side by side: one may not keep enough lines in flight. A rest of fewer than eight is left
/// out.
pub fn read_four_streams(vectors: &[f32x16]) {
    let (front, back) = vectors.split_at(vectors.len() / 2);
    let ((first, second), (third, fourth)) = (front.split_at(front.len() / 2), back.split_at(back.len() / 2));
    let mut sums = [f32x16::splat(0.0); 8];
    let pairs =
        first.chunks_exact(2).zip(second.chunks_exact(2)).zip(third.chunks_exact(2).zip(fourth.chunks_exact(2)));
    for ((first, second), (third, fourth)) in pairs {
        for (pair, sums) in [first, second, third, fourth].into_iter().zip(sums.chunks_exact_mut(2)) {
            sums[0] += pair[0];
            sums[1] += pair[1];
        }
    }
    black_box(sums);
}

//! The instruction set of the kernels, as one word.
//!
//! The bits of a sum in floating point depend on the kernels that made it, so results, checkpoints and ranks are compared by
//! this word. A kernel of another level that rounds otherwise has to change it. Sums of integers
//! ([`crate::linear::Instructions`]) have the same bits on all levels with fused multiply-adds.

/// The level of the kernels in this process: `avx512` (with `+amx` where they also use this processor's integer tiles),
/// `avx2`, `avx`, `sse4.2`, `sse2`, `neon` or `scalar`. `wide` picks its instructions at compile time, tiles are looked for
/// when the process runs.
pub fn level() -> &'static str {
    let levels = [
        (crate::linear::has_integer_tiles(), "avx512+amx"),
        (cfg!(target_feature = "avx512f"), "avx512"),
        (cfg!(all(target_feature = "avx2", target_feature = "fma")), "avx2"),
        (cfg!(target_feature = "avx"), "avx"),
        (cfg!(target_feature = "sse4.2"), "sse4.2"),
        (cfg!(target_feature = "sse2"), "sse2"),
        (cfg!(target_feature = "neon"), "neon"),
    ];
    levels.into_iter().find(|&(has, _)| has).map_or("scalar", |(_, level)| level)
}

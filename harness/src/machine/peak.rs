//! The roofline of this machine, measured: peak = 2 · lanes · (fused multiply-adds a second), from registers alone;
//! bandwidth = bytes read a second from memory. The time of any computation is at least max(flops / peak, bytes / bandwidth).

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use wide::f32x16;

use super::{Pinning, Topology};
use crate::statistics::median;

/// Independent chains of multiply-adds: enough to hide the latency (4 cycles, 2 units), few enough for the registers.
const CHAINS: usize = if cfg!(target_feature = "avx512f") { 12 } else { 6 };
const LANES: usize = 16;
/// Multiply-adds of each chain in one repeat: about 5 ms.
const CHAIN_LENGTH: usize = 1 << 21;
const REPEATS: usize = 5;

/// The limits of the machine for a number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Threads that ran together.
    pub threads: usize,
    /// f32 multiply-adds from registers, 2 flops each, in GFLOP/s.
    pub peak_gflops: f64,
    /// Bytes read from memory, in GB/s (10⁹).
    pub bandwidth_gbytes_per_s: f64,
}

impl Roofline {
    /// The limits of `threads` threads: GFLOP/s, and GB/s.
    pub fn new(threads: usize, peak_gflops: f64, bandwidth_gbytes_per_s: f64) -> Self {
        Self {
            threads,
            peak_gflops,
            bandwidth_gbytes_per_s,
        }
    }

    /// max(flops / peak, bytes / bandwidth), in seconds: no computation of this size can be faster.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / (self.peak_gflops * 1e9)).max(bytes / (self.bandwidth_gbytes_per_s * 1e9))
    }

    /// The share of the roofline that a measured time reaches. Above 1 the bytes did not all come from memory, or the flops
    /// were not all in f32; [`beyond_rooflines`] names the cause.
    pub fn fraction(&self, flops: f64, bytes: f64, seconds: f64) -> f64 {
        self.seconds(flops, bytes) / seconds
    }
}

/// A measured rate, with the limit of its threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Floating-point operations a second, in 10⁹.
    pub gflops: f64,
    /// Bytes a second, in 10⁹.
    pub gbytes_per_s: f64,
    /// The limit.
    pub limit: Roofline,
    /// True for rows of bytes.
    pub on_bytes: bool,
}

/// The number of `what` (`configurations`) that exceed their limit, with the causes, in a sentence. `isa` is the build's: the
/// kernels exceed the peak of f32 with rows of bytes where it names AMX.
pub fn beyond_rooflines(what: &str, rates: impl IntoIterator<Item = Reached>, isa: &str) -> Option<String> {
    let (mut all, mut beyond, mut tiles, mut clock, mut reads) = (0, 0, false, false, false);
    for rate in rates {
        let faster = rate.gflops > rate.limit.peak_gflops;
        let nearer = rate.gbytes_per_s > rate.limit.bandwidth_gbytes_per_s;
        let on_tiles = rate.on_bytes && isa.contains("amx");
        all += 1;
        beyond += usize::from(faster || nearer);
        tiles |= faster && on_tiles;
        clock |= faster && !on_tiles;
        reads |= nearer;
    }
    let causes: Vec<&str> = [
        (
            tiles,
            "rows of bytes are multiplied as 8-bit integers in the processor's tiles (AMX), whose own, higher peak is not \
             measured",
        ),
        (clock, "the processor ran faster than while its peak was measured"),
        (reads, "rows that were read before come from a cache"),
    ]
    .into_iter()
    .filter_map(|(holds, cause)| holds.then_some(cause))
    .collect();
    (beyond > 0).then(|| {
        format!(
            "{beyond} of {all} {what} are above 100 % of the roofline, which is that of f32 multiply-adds and of reads from memory: {}",
            causes.join("; ")
        )
    })
}

/// Peak of f32 multiply-adds on `threads` threads, in GFLOP/s: the median of short repeats (about 40 ms in all).
///
/// # Panics
/// If `threads` is zero.
fn measure_peak(threads: usize, pinning: &Pinning) -> f64 {
    let seconds = together(
        threads,
        pinning,
        |_| (),
        |()| {
            let mut chains: [f32x16; CHAINS] = black_box([f32x16::splat(1.0); CHAINS]);
            let factor = black_box(f32x16::splat(0.999_999));
            let addend = black_box(f32x16::splat(1e-6));
            for _ in 0..CHAIN_LENGTH {
                for chain in &mut chains {
                    *chain = chain.mul_add(factor, addend);
                }
            }
            black_box(chains);
        },
    );
    (2 * LANES * CHAINS * CHAIN_LENGTH * threads) as f64 / seconds / 1e9
}

/// Read bandwidth of memory on `threads` threads, in GB/s: the median of short repeats.
///
/// Each thread reads its own part of `bytes`, which it touched first, so that on a NUMA machine it is near. It is the faster of
/// one and of four sequential streams a thread: one stream may not keep enough lines in flight.
fn measure_bandwidth(threads: usize, pinning: &Pinning, bytes: usize) -> f64 {
    // Four streams of pairs: a multiple of eight vectors.
    let vectors = (bytes / threads / size_of::<f32x16>()).next_multiple_of(8);
    let make = |_| vec![f32x16::splat(1.0); vectors];
    let read = |part: &[f32x16]| {
        let mut sums = [f32x16::splat(0.0); 8];
        for block in part.chunks_exact(8) {
            for (sum, value) in sums.iter_mut().zip(block) {
                *sum += *value;
            }
        }
        black_box(sums);
    };
    let read_four = |part: &[f32x16]| {
        let (front, back) = part.split_at(part.len() / 2);
        let ((first, second), (third, fourth)) = (front.split_at(front.len() / 2), back.split_at(back.len() / 2));
        let mut sums = [f32x16::splat(0.0); 8];
        let pairs = first
            .chunks_exact(2)
            .zip(second.chunks_exact(2))
            .zip(third.chunks_exact(2).zip(fourth.chunks_exact(2)));
        for ((first, second), (third, fourth)) in pairs {
            for (pair, sums) in [first, second, third, fourth].into_iter().zip(sums.chunks_exact_mut(2)) {
                sums[0] += pair[0];
                sums[1] += pair[1];
            }
        }
        black_box(sums);
    };
    let seconds = together(threads, pinning, make, |part| read(part))
        .min(together(threads, pinning, make, |part| read_four(part)));
    (vectors * size_of::<f32x16>() * threads) as f64 / seconds / 1e9
}

/// Bytes of all parts together: four times the last-level cache, between 256 MiB and 1 GiB.
fn bandwidth_buffer_bytes(topology: &Topology) -> usize {
    let cache = topology.last_level_cache_bytes().unwrap_or(64 << 20);
    let memory = topology.memory_bytes.0.unwrap_or(4 << 30);
    (4 * cache).clamp(256 << 20, 1 << 30).min(memory / 8).max(1 << 20) as usize
}

/// Runs `work` on all threads at once, a few times, each on what its own thread `prepare`d; the median time, in
/// seconds, from the first start to the last end.
fn together<T>(
    threads: usize,
    pinning: &Pinning,
    prepare: impl Fn(usize) -> T + Sync,
    work: impl Fn(&T) + Sync,
) -> f64 {
    assert!(threads > 0, "at least one thread");
    let barrier = Barrier::new(threads);
    let spans: Vec<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let (barrier, prepare, work) = (&barrier, &prepare, &work);
                scope.spawn(move || {
                    pinning.bind(index, threads);
                    let prepared = prepare(index);
                    let mut spans = Vec::with_capacity(REPEATS);
                    // The first one warms up.
                    for repeat in 0..=REPEATS {
                        barrier.wait();
                        let start = Instant::now();
                        work(&prepared);
                        if repeat > 0 {
                            spans.push((start, Instant::now()));
                        }
                    }
                    spans
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a measuring thread does not panic"))
            .collect()
    });
    let seconds: Vec<f64> = (0..REPEATS)
        .map(|repeat| {
            let start = spans.iter().map(|spans| spans[repeat].0).min().expect("a thread");
            let end = spans.iter().map(|spans| spans[repeat].1).max().expect("a thread");
            end.duration_since(start).as_secs_f64()
        })
        .collect();
    median(&seconds)
}

/// Peak and bandwidth for one thread count.
pub fn measure_roofline(threads: usize, pinning: &Pinning) -> Roofline {
    let bytes = bandwidth_buffer_bytes(&Topology::detect());
    Roofline::new(
        threads,
        measure_peak(threads, pinning),
        measure_bandwidth(threads, pinning, bytes),
    )
}

/// Peak and bandwidth for each thread count, each count once, ascending.
pub fn measure_rooflines(threads: &[usize], pinning: &Pinning) -> Vec<Roofline> {
    let mut threads: Vec<usize> = threads.iter().copied().filter(|&threads| threads > 0).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
        .into_iter()
        .map(|threads| measure_roofline(threads, pinning))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roofline_is_the_slower_of_arithmetic_and_memory() {
        let roofline = Roofline::new(1, 100.0, 10.0);
        assert!((roofline.seconds(1e11, 1.0) - 1.0).abs() < 1e-12);
        assert!((roofline.seconds(1.0, 2e10) - 2.0).abs() < 1e-12);
        assert!((roofline.fraction(1e11, 2e10, 4.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_exceeds_the_roofline_is_counted_and_explained() {
        let limit = Roofline::new(1, 100.0, 10.0);
        let reached = |on_bytes: bool, (gflops, gbytes_per_s): (f64, f64)| Reached {
            gflops,
            gbytes_per_s,
            limit,
            on_bytes,
        };
        let said = |rates: &[(f64, f64)], isa: &str| {
            beyond_rooflines("kernels", rates.iter().map(|&rates| reached(true, rates)), isa)
        };
        assert_eq!(said(&[(99.0, 9.0), (100.0, 10.0)], "avx512+amx"), None);
        let tiles = said(&[(99.0, 9.0), (170.0, 4.0)], "avx512+amx").unwrap();
        assert!(tiles.starts_with("1 of 2 kernels ") && tiles.contains("AMX") && !tiles.contains("cache"));
        let cache = said(&[(30.0, 30.0)], "avx512+amx").unwrap();
        assert!(cache.contains("cache") && !cache.contains("AMX"));
        assert!(said(&[(170.0, 30.0)], "avx2").unwrap().contains("ran faster"));
        let floats = beyond_rooflines("kernels", [reached(false, (101.0, 4.0))], "avx512+amx").unwrap();
        assert!(floats.contains("ran faster") && !floats.contains("AMX"));
    }

    #[test]
    fn measured_rates_are_positive_and_counts_are_sorted_and_unique() {
        assert!(measure_bandwidth(1, &Pinning::none(), 1 << 20) > 0.0);
        assert!(measure_peak(1, &Pinning::none()) > 0.0);
        assert_eq!(measure_rooflines(&[0], &Pinning::none()), []);
    }

    #[test]
    fn the_buffer_exceeds_the_cache_and_leaves_memory_to_others() {
        let mut topology = Topology::detect();
        topology.memory_bytes = Some(1 << 40).into();
        let cache = topology.last_level_cache_bytes().unwrap_or(0);
        let bytes = bandwidth_buffer_bytes(&topology) as u64;
        assert!(bytes >= 256 << 20 && (bytes >= 2 * cache || bytes == 1 << 30));
        topology.memory_bytes = Some(1 << 30).into();
        assert!(bandwidth_buffer_bytes(&topology) <= 128 << 20);
    }
}

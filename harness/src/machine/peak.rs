//! The rooflines of this machine, measured: peaks of the instructions that kernels use, from registers alone, and bytes read a
//! second from each cache and from memory. The time of a kernel is at least max(operations / peak of its instructions, bytes /
//! bandwidth of where its data fit).

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use rounds_kernels::instructions::InstructionSet;
use rounds_kernels::limits::{f32x16, multiply_add_loop, read_four_streams, read_one_stream};
use rounds_kernels::linear::integer_peak_loop;
use serde::{Deserialize, Serialize};

use super::{Pinning, Topology};
use crate::format::three_digits;

/// Multiply-adds of each chain in one repeat: about 5 ms.
const CHAIN_LENGTH: usize = 1 << 21;
const REPEATS: usize = 5;
/// Steps of integer products in one repeat: 2 to 15 ms.
const INTEGER_STEPS: usize = 1 << 19;
/// Least bytes that a repeat reads: 2 ms or more.
const LEAST_READ: usize = 256 << 20;

/// The limits of the machine for a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Threads that ran together.
    pub threads: usize,
    /// f32 multiply-adds from registers, 2 flops each, in GFLOP/s.
    pub peak_gflops: f64,
    /// The instructions of the integer kernels; `None` where there are no such kernels, and in sheets of older builds, which
    /// [`builds`](crate::builds) reads.
    #[serde(default)]
    pub int8: Option<IntegerPeak>,
    /// Bytes read from memory, in GB/s (10⁹).
    pub bandwidth_gbytes_per_s: f64,
    /// Bytes read from caches, the smallest first; none in sheets of older builds.
    #[serde(default)]
    pub caches: Vec<CacheBandwidth>,
}

/// Products of 8-bit integers and their sums, from registers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntegerPeak {
    /// The instruction set: `avx2`, `avx512` or `amx`.
    pub instructions: String,
    /// Multiplications and additions, in 10⁹ a second.
    pub gops: f64,
}

/// Reads from the caches of one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CacheBandwidth {
    /// 2 for the second level.
    pub level: usize,
    /// Bytes that those of these threads hold.
    pub capacity_bytes: u64,
    /// Bytes read, in GB/s (10⁹).
    pub gbytes_per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    F32,
    Int8,
}

/// The limits that apply to a kernel: the peak of its instructions, and the bandwidth of the smallest cache that holds its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    pub arithmetic: Arithmetic,
    /// Their peak in 10⁹ flops of the method a second; for integers that of operations, over the operations for a flop.
    pub gflops: f64,
    /// Level of the cache, `None` for memory.
    pub cache: Option<usize>,
    pub gbytes_per_s: f64,
}

impl Roofline {
    /// The limits of `threads` threads in f32 and on rows from memory: GFLOP/s, and GB/s.
    pub fn new(threads: usize, peak_gflops: f64, bandwidth_gbytes_per_s: f64) -> Self {
        Self { threads, peak_gflops, bandwidth_gbytes_per_s, int8: None, caches: Vec::new() }
    }

    /// The limit of a kernel with `working_set` bytes of data. `integer_operations` are those for a flop of the method, `None`
    /// for arithmetic in f32.
    pub fn limit(&self, integer_operations: Option<f64>, working_set: f64) -> Limit {
        let integers = integer_operations.zip(self.int8.as_ref());
        let (arithmetic, gflops) = integers.map_or((Arithmetic::F32, self.peak_gflops), |(operations, peak)| {
            (Arithmetic::Int8, peak.gops / operations)
        });
        let cache = self.caches.iter().find(|cache| working_set <= cache.capacity_bytes as f64);
        Limit {
            arithmetic,
            gflops,
            cache: cache.map(|cache| cache.level),
            gbytes_per_s: cache.map_or(self.bandwidth_gbytes_per_s, |cache| cache.gbytes_per_s),
        }
    }

    /// The limits in words.
    pub fn words(&self) -> String {
        let int8 = self.int8.as_ref().map_or_else(String::new, |peak| {
            format!(", {} GOP/s (int8, {})", three_digits(peak.gops), peak.instructions)
        });
        let caches = self.caches.iter();
        let caches: String =
            caches.map(|cache| format!("L{} {}, ", cache.level, three_digits(cache.gbytes_per_s))).collect();
        format!(
            "{} GFLOP/s (f32){int8}; reads in GB/s: {caches}memory {}",
            three_digits(self.peak_gflops),
            three_digits(self.bandwidth_gbytes_per_s)
        )
    }
}

impl Limit {
    /// max(flops / peak, bytes / bandwidth), in seconds: no computation of this size can be faster.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.gflops).max(bytes / self.gbytes_per_s) * 1e-9
    }

    /// The share of the limit that a measured time reaches. It exceeds 1 by noise alone; people read
    /// [`of_limit`](crate::format::of_limit).
    pub fn fraction(&self, flops: f64, bytes: f64, seconds: f64) -> f64 {
        self.seconds(flops, bytes) / seconds
    }

    /// The name of the peak.
    pub fn peak_name(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::F32 => "f32 multiply-adds",
            Arithmetic::Int8 => "int8 products",
        }
    }

    /// The source of the rows.
    pub fn source_name(&self) -> String {
        self.cache.map_or_else(|| "memory".to_owned(), |level| format!("L{level}"))
    }

    /// The limit that is the nearer one at these rates.
    pub fn nearer(&self, gflops: f64, gbytes_per_s: f64) -> String {
        if gflops / self.gflops >= gbytes_per_s / self.gbytes_per_s {
            self.peak_name().to_owned()
        } else {
            format!("reads from {}", self.source_name())
        }
    }
}

/// Peak of f32 multiply-adds on `threads` threads, in GFLOP/s (about 40 ms).
///
/// # Panics
/// If `threads` is zero.
fn measure_peak(threads: usize, pinning: &Pinning) -> f64 {
    let operations = multiply_add_loop(1) * (CHAIN_LENGTH * threads) as f64;
    let run = |(): &()| {
        multiply_add_loop(CHAIN_LENGTH);
    };
    operations / together(threads, pinning, |_| (), run) / 1e9
}

/// Peak of the instructions of the integer kernels on `threads` threads.
fn measure_integer_peak(threads: usize, pinning: &Pinning) -> Option<IntegerPeak> {
    let instructions = InstructionSet::fastest();
    let operations = integer_peak_loop(instructions, INTEGER_STEPS)? * threads as f64;
    let run = |(): &()| {
        integer_peak_loop(instructions, INTEGER_STEPS);
    };
    Some(IntegerPeak {
        instructions: format!("{instructions:?}").to_lowercase(),
        gops: operations / together(threads, pinning, |_| (), run) / 1e9,
    })
}

/// Read bandwidth on `threads` threads, in GB/s, of `bytes` in all, again and again.
///
/// Each thread reads its own part, which it touched first, so that on a NUMA machine it is near. It is the faster of
/// one and of four sequential streams a thread: one stream may not keep enough lines in flight.
fn measure_bandwidth(threads: usize, pinning: &Pinning, bytes: usize) -> f64 {
    // Four streams of pairs: a multiple of eight vectors.
    let vectors = (bytes / threads / size_of::<f32x16>()).next_multiple_of(8);
    let passes = (LEAST_READ / bytes).max(1);
    let make = |_| vec![f32x16::splat(1.0); vectors];
    let seconds = |read: &(dyn Fn(&[f32x16]) + Sync)| {
        together(threads, pinning, make, |part: &Vec<f32x16>| {
            (0..passes).for_each(|_| read(part));
        })
    };
    let seconds = seconds(&read_one_stream).min(seconds(&read_four_streams));
    (passes * vectors * size_of::<f32x16>() * threads) as f64 / seconds / 1e9
}

/// Bytes of all parts together: four times the last-level cache, between 256 MiB and 1 GiB.
fn bandwidth_buffer_bytes(topology: &Topology) -> usize {
    let cache = topology.last_level_cache_bytes().unwrap_or(64 << 20);
    let memory = topology.memory_bytes.0.unwrap_or(4 << 30);
    (4 * cache).clamp(256 << 20, 1 << 30).min(memory / 8).max(1 << 20) as usize
}

/// Level, bytes and bytes to read of the caches behind the first level that `threads` threads have. What is read is the
/// geometric mean of a level and of the one below it.
fn cache_sizes(topology: &Topology, threads: usize) -> Vec<(usize, u64, usize)> {
    let (mut sizes, mut below) = (Vec::new(), 0);
    for cache in topology.caches.iter().filter(|cache| cache.kind != "instruction") {
        let capacity = cache.size_bytes.0.unwrap_or(0) * threads.min(cache.count) as u64;
        if cache.level > 1 && capacity > below {
            let read = (below.max(capacity / 64) as f64 * capacity as f64).sqrt();
            sizes.push((cache.level, capacity, read as usize));
        }
        below = below.max(capacity);
    }
    sizes
}

/// Runs `work` on all threads at once, a few times, each on what its own thread `prepare`d; the least time, in seconds, from the
/// first start to the last end. Other work on the machine lengthens the rest, and is no limit.
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
        workers.into_iter().map(|worker| worker.join().expect("a measuring thread does not panic")).collect()
    });
    let seconds = (0..REPEATS).map(|repeat| {
        let start = spans.iter().map(|spans| spans[repeat].0).min().expect("a thread");
        let end = spans.iter().map(|spans| spans[repeat].1).max().expect("a thread");
        end.duration_since(start).as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

/// Peaks and bandwidths for one thread count.
fn measure_roofline(threads: usize, pinning: &Pinning) -> Roofline {
    let topology = Topology::detect();
    let caches = cache_sizes(&topology, threads).into_iter();
    let memory = measure_bandwidth(threads, pinning, bandwidth_buffer_bytes(&topology));
    Roofline {
        int8: measure_integer_peak(threads, pinning),
        caches: caches
            .map(|(level, capacity_bytes, read)| CacheBandwidth {
                level,
                capacity_bytes,
                gbytes_per_s: measure_bandwidth(threads, pinning, read),
            })
            .collect(),
        ..Roofline::new(threads, measure_peak(threads, pinning), memory)
    }
}

/// Peaks and bandwidths for each thread count, each count once, ascending.
pub(crate) fn measure_rooflines(threads: &[usize], pinning: &Pinning) -> Vec<Roofline> {
    let threads: BTreeSet<usize> = threads.iter().copied().filter(|&threads| threads > 0).collect();
    threads.into_iter().map(|threads| measure_roofline(threads, pinning)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::topology::synthetic;

    #[test]
    fn the_limit_is_that_of_the_instructions_and_of_the_cache_that_holds_the_data() {
        let cache = |level, capacity_bytes, gbytes_per_s| CacheBandwidth { level, capacity_bytes, gbytes_per_s };
        let roofline = Roofline {
            int8: Some(IntegerPeak { instructions: "avx512".into(), gops: 1200.0 }),
            caches: vec![cache(2, 1_000, 80.0), cache(3, 2_000, 40.0)],
            ..Roofline::new(1, 100.0, 10.0)
        };
        let floats = roofline.limit(None, 2_001.0);
        assert!((floats.seconds(1e11, 1.0) - 1.0).abs() < 1e-12);
        assert!((floats.seconds(1.0, 2e10) - 2.0).abs() < 1e-12);
        assert!((floats.fraction(1e11, 2e10, 4.0) - 0.5).abs() < 1e-12);
        assert_eq!(floats.nearer(50.0, 6.0), "reads from memory");
        let integers = roofline.limit(Some(3.0), 2_000.0);
        assert!((integers.seconds(4e11, 4e10) - 1.0).abs() < 1e-12);
        assert_eq!(integers.nearer(300.0, 20.0), "int8 products");
        assert_eq!((integers.cache, roofline.limit(None, 9.0).cache), (Some(3), Some(2)));
        assert!(roofline.words().contains("1200 GOP/s (int8, avx512); reads in GB/s: L2 80, L3 40, memory 10"));
        // A machine without integer kernels.
        assert_eq!(Roofline { int8: None, ..roofline }.limit(Some(3.0), 9.0).arithmetic, Arithmetic::F32);
    }

    #[test]
    fn caches_are_read_between_their_size_and_that_of_the_level_below() {
        let topology =
            synthetic("Package:1 L3Cache:1(size=32MiB) L2Cache:4(size=1MiB) L1dCache:1(size=64KiB) Core:1 PU:2");
        let one = cache_sizes(&topology, 1);
        assert_eq!(one, [(2, 1 << 20, 1 << 18), (3, 32 << 20, 5_931_641)]);
        assert_eq!(cache_sizes(&topology, 8)[0], (2, 4 << 20, 1 << 20));
    }

    #[test]
    fn measured_rates_are_positive_and_counts_are_sorted_and_unique() {
        assert!(measure_bandwidth(1, &Pinning::none(), 1 << 20) > 0.0);
        assert!(measure_peak(1, &Pinning::none()) > 0.0);
        let int8 = measure_integer_peak(1, &Pinning::none());
        assert_eq!(int8.is_some(), InstructionSet::fastest() != InstructionSet::Scalar);
        assert!(int8.is_none_or(|peak| peak.gops > 0.0));
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

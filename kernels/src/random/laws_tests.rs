//! Tests of what the samplers promise: laws, independence of streams, replay. All seeds are fixed and every statistical
//! test has level α = 1e-6.

use super::*;
use rand_core::Rng;
use std::collections::HashSet;

const SIMULATION: StreamKey = StreamKey::Simulation(20_240_229);
const RELEASE: StreamKey = StreamKey::Release(*b"a key that only these tests use.");
const PURPOSE: Purpose = Purpose(7);

/// P(|N(0, 1)| > 4.892) = 1e-6.
const TWO_SIDED: f64 = 4.892;

pub(super) fn normal_tail(t: f64) -> f64 {
    0.5 * libm::erfc(t / std::f64::consts::SQRT_2)
}

fn normal_cdf(t: f64) -> f64 {
    normal_tail(-t)
}

fn laplace_cdf(t: f64) -> f64 {
    if t < 0.0 { 0.5 * libm::exp(t) } else { 1.0 - 0.5 * libm::exp(-t) }
}

/// Kolmogorov and Smirnov: √n·sup|F̂ − F| < √(ln(2/α)/2) = 2.694.
pub(super) fn assert_kolmogorov_smirnov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let mut distance = 0.0f64;
    for (i, &x) in sample.iter().enumerate() {
        let p = cdf(x);
        distance = distance.max(p - i as f64 / n).max((i + 1) as f64 / n - p);
    }
    assert!(distance * n.sqrt() < 2.694, "KS statistic {}", distance * n.sqrt());
}

/// Pearson: Σ(observed − expected)²/expected below the 1 − 1e-6 quantile of χ² (Wilson and Hilferty), cells of
/// expectation below 10 pooled.
pub(super) fn assert_chi_square(observed: &[u64], probabilities: &[f64]) {
    assert_eq!(observed.len(), probabilities.len());
    let total = observed.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut pooled_observed, mut pooled_expected) = (0.0, 0.0);
    for (&observed, &probability) in observed.iter().zip(probabilities) {
        pooled_observed += observed as f64;
        pooled_expected += total * probability;
        if pooled_expected >= 10.0 {
            statistic += (pooled_observed - pooled_expected).powi(2) / pooled_expected;
            cells += 1.0;
            (pooled_observed, pooled_expected) = (0.0, 0.0);
        }
    }
    // The cells that remain pooled at the end count as one of expectation at least 10 by the slack of their own excess.
    statistic += (pooled_observed - pooled_expected).powi(2) / pooled_expected.max(10.0);
    let degrees: f64 = cells - 1.0;
    let variance = 2.0 / (9.0 * degrees);
    let quantile = degrees * (1.0 - variance + 4.753 * f64::sqrt(variance)).powi(3) + 1.0;
    assert!(statistic < quantile, "chi square {statistic} with {degrees} degrees of freedom, quantile {quantile}");
}

/// A binomial count of rare events: normal for a large expectation, else Poisson tails above α/2 on either side.
fn assert_count(observed: u64, expected: f64) {
    if expected > 500.0 {
        let distance = (observed as f64 - expected).abs();
        assert!(distance < TWO_SIDED * expected.sqrt(), "{observed} events where {expected} were expected");
        return;
    }
    let (mut term, mut below) = (libm::exp(-expected), 0.0);
    for k in 0..observed {
        below += term;
        term *= expected / (k + 1) as f64;
    }
    // below = P(count < observed), and below + term = P(count ≤ observed).
    assert!(1.0 - below > 5e-7 && below + term > 5e-7, "{observed} events where {expected} were expected");
}

fn assert_moment(sample: &[f64], power: i32, moment: f64, moment_of_twice_the_power: f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().map(|z| z.powi(power)).sum::<f64>() / n;
    let error = (mean - moment) / f64::sqrt((moment_of_twice_the_power - moment * moment) / n);
    assert!(error.abs() < TWO_SIDED, "moment {power} is {mean}, {error} standard errors off");
}

fn normals(key: &StreamKey, round: u64, length: usize) -> Vec<f64> {
    let mut z = vec![0.0; length];
    add_gaussian(key, PURPOSE, round, 1.0, &mut z);
    z
}

fn laplaces(key: &StreamKey, round: u64, scale: f64, length: usize) -> Vec<f64> {
    let mut y = vec![0.0; length];
    add_laplace_blocks(key, PURPOSE, round, 0, scale, &mut y);
    y
}

/// Counts in 256 cells of equal probability under `cdf`.
fn assert_equiprobable(sample: &[f64], cdf: impl Fn(f64) -> f64) {
    let mut counts = [0; 256];
    for &x in sample {
        counts[((cdf(x) * 256.0) as usize).min(255)] += 1;
    }
    assert_chi_square(&counts, &[1.0 / 256.0; 256]);
}

#[test]
fn gaussian_has_the_normal_law() {
    for (key, length) in [(SIMULATION, 1 << 22), (RELEASE, 1 << 20)] {
        let z = normals(&key, 1, length);
        assert_equiprobable(&z, normal_cdf);
        // E z^{2k} = (2k − 1)!!
        for (power, moment, twice) in
            [(1, 0.0, 1.0), (2, 1.0, 3.0), (3, 0.0, 15.0), (4, 3.0, 105.0), (5, 0.0, 945.0), (6, 15.0, 10_395.0)]
        {
            assert_moment(&z, power, moment, twice);
        }
        assert_kolmogorov_smirnov(z, normal_cdf);
    }
}

#[test]
fn laplace_has_its_law_and_its_parameter_is_the_scale() {
    const SCALE: f64 = 2.5;
    for (key, length) in [(SIMULATION, 1 << 22), (RELEASE, 1 << 20)] {
        let y = laplaces(&key, 1, SCALE, length);
        let absolute: Vec<f64> = y.iter().map(|y| y.abs()).collect();
        // E|y| = scale and Var y = 2·scale²: a standard deviation taken for the scale would give scale/√2 and scale².
        assert_moment(&absolute, 1, SCALE, 2.0 * SCALE.powi(2));
        assert_moment(&y, 1, 0.0, 2.0 * SCALE.powi(2));
        assert_moment(&y, 2, 2.0 * SCALE.powi(2), 24.0 * SCALE.powi(4));
        assert_moment(&y, 3, 0.0, 720.0 * SCALE.powi(6));
        assert_moment(&y, 4, 24.0 * SCALE.powi(4), 40_320.0 * SCALE.powi(8));
        let unit: Vec<f64> = y.iter().map(|y| y / SCALE).collect();
        assert_equiprobable(&unit, laplace_cdf);
        assert_kolmogorov_smirnov(unit, laplace_cdf);
    }
}

/// Counts of |z| beyond thresholds in steps of a quarter from 4 on, over `length` coordinates of one round.
fn gaussian_tails(key: &StreamKey, length: u64) -> [u64; 16] {
    const PIECE: u64 = 16;
    let mut counts = [0; 16];
    let mut z = vec![0f32; PIECE as usize * BLOCK_COORDINATES];
    for first_block in (0..length / BLOCK_COORDINATES as u64).step_by(PIECE as usize) {
        fill_gaussian_blocks(key, PURPOSE, 2, first_block, 1.0, &mut z);
        for group in z.as_chunks::<64>().0 {
            if group.iter().fold(0f32, |largest, z| largest.max(z.abs())) > 4.0 {
                for z in group {
                    let steps = ((z.abs() - 4.0) * 4.0).ceil().clamp(0.0, 16.0) as usize;
                    counts[..steps].iter_mut().for_each(|count| *count += 1);
                }
            }
        }
    }
    counts
}

fn assert_gaussian_tails(counts: [u64; 16], length: u64) {
    for (i, count) in counts.into_iter().enumerate() {
        assert_count(count, length as f64 * 2.0 * normal_tail(4.0 + 0.25 * i as f64));
    }
}

#[test]
fn gaussian_tails_beyond_five_and_a_half_deviations_are_those_of_the_law() {
    assert_gaussian_tails(gaussian_tails(&SIMULATION, 1 << 29), 1 << 29);
}

#[test]
#[ignore = "2^35 normals, about half a minute on one core in a release build"]
fn gaussian_tails_beyond_six_and_a_half_deviations_are_those_of_the_law() {
    assert_gaussian_tails(gaussian_tails(&SIMULATION, 1 << 35), 1 << 35);
}

#[test]
#[ignore = "2^29 release normals, about ten seconds on one core in a release build"]
fn release_tails_beyond_five_and_a_half_deviations_are_those_of_the_law() {
    assert_gaussian_tails(gaussian_tails(&RELEASE, 1 << 29), 1 << 29);
}

#[test]
fn laplace_tails_are_those_of_the_law() {
    let mut counts = [0; 20];
    let mut y = vec![0.0; 1 << 14];
    let length = 1 << 26;
    for first_block in (0..length / BLOCK_COORDINATES as u64).step_by(4) {
        y.fill(0.0);
        add_laplace_blocks(&SIMULATION, PURPOSE, 2, first_block, 1.0, &mut y);
        for y in &y {
            if y.abs() >= 8.0 {
                counts[8..(y.abs() as usize + 1).min(20)].iter_mut().for_each(|count| *count += 1);
            }
        }
    }
    for (threshold, count) in counts.into_iter().enumerate().skip(8) {
        assert_count(count, length as f64 * libm::exp(-(threshold as f64)));
    }
}

#[test]
fn release_and_simulation_have_the_same_law() {
    // Two-sample Kolmogorov and Smirnov: √(n/2)·sup|F̂ − Ĝ| < 2.694.
    for (mut a, mut b) in [
        (normals(&SIMULATION, 3, 1 << 20), normals(&RELEASE, 3, 1 << 20)),
        (laplaces(&SIMULATION, 3, 1.0, 1 << 20), laplaces(&RELEASE, 3, 1.0, 1 << 20)),
    ] {
        a.sort_unstable_by(f64::total_cmp);
        b.sort_unstable_by(f64::total_cmp);
        let (mut i, mut j, mut distance) = (0, 0, 0);
        while i < a.len() && j < b.len() {
            if a[i] <= b[j] {
                i += 1;
            } else {
                j += 1;
            }
            distance = distance.max(i.abs_diff(j));
        }
        let statistic = distance as f64 / a.len() as f64 * f64::sqrt(a.len() as f64 / 2.0);
        assert!(statistic < 2.694, "two-sample KS statistic {statistic}");
    }
}

/// √n times the correlations of the two sequences and of their squares.
fn assert_uncorrelated(a: &[f64], b: &[f64]) {
    let n = a.len() as f64;
    let product = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / n.sqrt();
    let squares = a.iter().zip(b).map(|(a, b)| (a * a - 1.0) * (b * b - 1.0)).sum::<f64>() / (2.0 * n.sqrt());
    assert!(product.abs() < TWO_SIDED && squares.abs() < TWO_SIDED, "correlations {product} and {squares}");
}

#[test]
fn streams_of_neighbouring_addresses_are_uncorrelated() {
    let length = 1 << 16;
    let draw = |key: &StreamKey, purpose, round, first_block| {
        let mut z = vec![0.0; length];
        add_gaussian_blocks(key, Purpose(purpose), round, first_block, 1.0, &mut z);
        z
    };
    for seed in [0, 1, 2, 1 << 32, u64::MAX] {
        let key = StreamKey::Simulation(seed);
        let origin = draw(&key, 1, 1, 0);
        for bit in (0..64).step_by(7) {
            assert_uncorrelated(&origin, &draw(&StreamKey::Simulation(seed ^ 1 << bit), 1, 1, 0));
            assert_uncorrelated(&origin, &draw(&key, 1, 1 ^ 1 << bit, 0));
            assert_uncorrelated(&origin, &draw(&key, 1, 1, 1 << bit));
            assert_uncorrelated(&origin, &draw(&key, 1 ^ 1 << (bit / 2), 1, 0));
        }
    }
    let release = draw(&RELEASE, 1, 1, 0);
    assert_uncorrelated(&release, &draw(&RELEASE, 1, 2, 0));
    assert_uncorrelated(&release, &draw(&RELEASE, 2, 1, 0));
    assert_uncorrelated(&release, &draw(&RELEASE, 1, 1, 1));
}

#[test]
fn coordinates_of_one_stream_are_uncorrelated_at_every_lag_of_the_lanes() {
    for key in [SIMULATION, RELEASE] {
        let z = normals(&key, 4, 1 << 18);
        for lag in (1..=64).chain([4064, 4096]) {
            assert_uncorrelated(&z[lag..], &z[..z.len() - lag]);
        }
    }
}

#[test]
fn one_coordinate_over_many_rounds_has_the_law_and_no_memory() {
    for key in [SIMULATION, RELEASE] {
        for length in [1, 17] {
            let rounds = |purpose| -> Vec<f64> {
                (0..1 << 17)
                    .map(|round| {
                        let mut z = [0.0; 17];
                        add_gaussian(&key, Purpose(purpose), round, 1.0, &mut z[..length]);
                        z[length - 1]
                    })
                    .collect()
            };
            let z = rounds(1);
            assert_uncorrelated(&z[1..], &z[..z.len() - 1]);
            assert_uncorrelated(&z, &rounds(2));
            assert_kolmogorov_smirnov(z, normal_cdf);
        }
    }
}

#[test]
fn no_two_addresses_share_a_stream() {
    for key in [SIMULATION, RELEASE] {
        let mut seen = HashSet::new();
        // The same number in each place of the address, and both ends of every range.
        let values = [0, 1, 2, 3, 4, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
        let purposes: HashSet<u32> = values.iter().map(|&value| value as u32).collect();
        let mut addresses = 0;
        for &purpose in &purposes {
            for round in values {
                for block in values {
                    addresses += 1;
                    seen.insert(UniformStream::new(&key, Purpose(purpose), round, block).next_u64().to_string());
                    for add in [add_gaussian_blocks, add_laplace_blocks] {
                        addresses += 1;
                        let mut first = [0.0; 2];
                        add(&key, Purpose(purpose), round, block, 1.0, &mut first);
                        seen.insert(format!("{first:?}"));
                    }
                }
            }
        }
        assert_eq!(seen.len(), addresses);
    }
    // Long streams of neighbours share no word.
    for key in [SIMULATION, RELEASE] {
        let mut words = HashSet::new();
        for round in 0..16 {
            for block in 0..16 {
                let mut stream = UniformStream::new(&key, PURPOSE, round, block);
                words.extend((0..512).map(|_| stream.next_u64()));
            }
        }
        assert_eq!(words.len(), 16 * 16 * 512);
    }
}

#[test]
fn release_streams_are_those_that_the_documentation_defines() {
    // Independently of the code under test: ChaCha20 words through the generator's own seeking.
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    let StreamKey::Release(master) = &RELEASE else { unreachable!() };
    let mut generator = ChaCha20Rng::from_seed(*master);
    generator.set_stream(7 << 32 | 3);
    generator.set_word_pos(11 * 16);
    let mut round_key = [0; 32];
    generator.fill_bytes(&mut round_key);
    let mut expected = ChaCha20Rng::from_seed(round_key);
    expected.set_stream(5);
    let mut stream = UniformStream::new(&RELEASE, PURPOSE, 11, 5);
    for _ in 0..1000 {
        assert_eq!(stream.next_u64(), expected.next_u64());
    }
}

#[test]
fn a_replay_gives_the_same_bits() {
    for key in [SIMULATION, RELEASE] {
        assert_eq!(normals(&key, 5, 9_000), normals(&key.clone(), 5, 9_000));
        assert_eq!(laplaces(&key, 5, 1.0, 9_000), laplaces(&key.clone(), 5, 1.0, 9_000));
        assert_ne!(normals(&key, 5, 9_000), normals(&key, 6, 9_000));
    }
}

#[test]
fn recorded_addresses_keep_their_values() {
    // Seed 1, purpose 2, round 3, block 4, computed apart in exact integers and f64 from the definitions of the streams
    // and the transform. A change of the addressing would break the replay of every recorded run.
    let mut stream = UniformStream::new(&StreamKey::Simulation(1), Purpose(2), 3, 4);
    assert_eq!([stream.next_u64(), stream.next_u64()], [11_973_187_258_459_801_366, 15_491_880_385_520_397_198]);
    let mut z = [0.0; 32];
    add_gaussian_blocks(&StreamKey::Simulation(1), Purpose(2), 3, 4, 1.0, &mut z);
    for (j, expected) in [(0, 0.881_245_860), (1, -0.794_196_836), (16, -2.045_998_404), (17, -0.103_273_226)] {
        assert!((z[j] - expected).abs() < 1e-6, "coordinate {j}: {} for {expected}", z[j]);
    }
}

/// Runs `check` on a sampler of each kind, as a function of (first block, out).
fn for_each_sampler(check: impl Fn(&str, &dyn Fn(u64, &mut [f64]))) {
    for key in [SIMULATION, RELEASE] {
        check("add_gaussian", &|block, out| {
            add_gaussian_blocks(&key, PURPOSE, 6, block, 1.5, out);
        });
        check("add_laplace", &|block, out| {
            add_laplace_blocks(&key, PURPOSE, 6, block, 1.5, out);
        });
        check("fill_gaussian", &|block, out| {
            let mut values = vec![0.0; out.len()];
            fill_gaussian_blocks(&key, PURPOSE, 6, block, 1.5, &mut values);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = f64::from(value));
        });
    }
}

#[test]
fn a_shorter_fill_is_a_prefix_and_touches_nothing_else() {
    for_each_sampler(|name, sample| {
        let longest = 2 * BLOCK_COORDINATES + 70;
        let mut whole = vec![0.0; longest];
        sample(0, &mut whole);
        let lengths = (0..=65).chain(4090..4102).chain(8185..8262);
        for (offset, length) in lengths.enumerate().map(|(i, length)| (i % 9, length)) {
            let mut part = vec![0.0; offset + length + 3];
            part[..offset].fill(f64::INFINITY);
            part[offset + length..].fill(f64::INFINITY);
            sample(0, &mut part[offset..offset + length]);
            assert_eq!(part[offset..offset + length], whole[..length], "{name}, length {length}");
            assert!(part[..offset].iter().chain(&part[offset + length..]).all(|&x| x == f64::INFINITY), "{name}");
        }
    });
}

#[test]
fn blocks_filled_apart_equal_the_whole() {
    for_each_sampler(|name, sample| {
        let mut whole = vec![0.0; 5 * BLOCK_COORDINATES + 123];
        sample(3, &mut whole);
        let mut parts = vec![0.0; whole.len()];
        for (first_block, count) in [(5, 2), (3, 1), (7, 9), (4, 1)] {
            let start = (first_block - 3) as usize * BLOCK_COORDINATES;
            let end = (start + count * BLOCK_COORDINATES).min(whole.len());
            sample(first_block, &mut parts[start..end]);
        }
        assert_eq!(parts, whole, "{name}");
    });
}

#[test]
fn all_gaussian_samplers_use_the_same_normals() {
    for key in [SIMULATION, RELEASE] {
        let z = normals(&key, 8, 5_000);
        let (mut double, mut filled) = (vec![10.0; 5_000], vec![f32::NAN; 5_000]);
        add_gaussian(&key, PURPOSE, 8, 3.0, &mut double);
        fill_gaussian(&key, PURPOSE, 8, 3.0, &mut filled);
        for (j, &z) in z.iter().enumerate() {
            assert_eq!(double[j], 3f64.mul_add(z, 10.0));
            assert_eq!(filled[j], (3.0 * z) as f32);
        }
    }
}

#[test]
fn noise_of_scale_zero_changes_nothing() {
    for key in [SIMULATION, RELEASE] {
        let mut sum: Vec<f64> = (0..5_000).map(f64::from).collect();
        let expected = sum.clone();
        add_gaussian(&key, PURPOSE, 9, 0.0, &mut sum);
        add_laplace_blocks(&key, PURPOSE, 9, 0, 0.0, &mut sum);
        assert_eq!(sum, expected);
    }
}

#[test]
fn a_release_key_is_never_printed() {
    let printed = format!("{RELEASE:?} {RELEASE:#?}");
    assert_eq!(printed, "Release(redacted) Release(redacted)");
    assert_eq!(format!("{:?}", StreamKey::Simulation(3)), "Simulation(3)");
}

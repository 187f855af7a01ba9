//! Comparisons of simulated runs, whose noise is that of machines and whose changes are known: the rates of right verdicts.
//!
//! A simulated run measures m configurations in passes, as `rounds run` does. A round takes
//! `t_c · mode · pass · run · body · tail`: body is log-normal; the tail hits some rounds by a factor 1 + Pareto, and some
//! repeats as a whole; a pass shares what the machine does over time (an AR(1) sequence and a drift from begin to end);
//! the run shares the machine's state; a repeat may be in a second, slower mode; and each configuration has the memory that
//! its run got. Everything comes from seeds. Nothing is timed here.

use rayon::prelude::*;

use super::{Rules, Verdict, common_change, verdicts};
use crate::statistics::{Choices, deviation, median};

/// What a simulated machine does to times; all numbers are relative, standard deviations where they are random.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Noise {
    name: &'static str,
    /// Of a round.
    body: f64,
    /// Of a configuration between repeats.
    repeat: f64,
    /// Share of rounds in the tail.
    tail: f64,
    /// Share of repeats that another program slows by a fifth on average.
    disturbed: f64,
    /// Of a pass, correlated with the one before by 0.7.
    pass: f64,
    /// Greatest drift from begin to end of a run, uniform between it and its negative.
    drift: f64,
    /// Share of repeats in the second mode, and how much slower it is.
    modes: (f64, f64),
    /// Of a whole run.
    run: f64,
    /// Of a configuration between runs, as memory lies.
    memory: f64,
}

/// A machine on which nothing else runs.
const QUIET: Noise = Noise {
    name: "quiet",
    body: 0.02,
    repeat: 0.004,
    tail: 0.01,
    disturbed: 0.0,
    pass: 0.002,
    drift: 0.0,
    modes: (0.0, 0.0),
    run: 0.003,
    memory: 0.001,
};

const NOISES: [Noise; 5] = [
    QUIET,
    Noise { name: "heavy tail", body: 0.04, repeat: 0.01, tail: 0.08, disturbed: 0.05, ..QUIET },
    Noise { name: "drift", repeat: 0.008, pass: 0.01, drift: 0.04, run: 0.01, ..QUIET },
    Noise { name: "two modes", repeat: 0.006, modes: (0.2, 0.08), ..QUIET },
    Noise {
        name: "all of these",
        body: 0.05,
        repeat: 0.02,
        tail: 0.08,
        disturbed: 0.08,
        pass: 0.01,
        drift: 0.04,
        modes: (0.1, 0.08),
        run: 0.01,
        ..QUIET
    },
];

const CHANGES: [f64; 3] = [0.02, 0.05, 0.10];
/// Configurations of a simulated run.
const CONFIGURATIONS: usize = 24;
/// Configurations that get each planted change; as many others get its inverse.
const CHANGED: usize = 2;
const ROUNDS: usize = 25;

/// What a number of comparisons came to on one machine.
#[derive(Debug, Clone, PartialEq)]
struct Rates {
    noise: &'static str,
    /// Repeats of each configuration in both runs.
    repeats: usize,
    /// Comparisons of each kind.
    comparisons: usize,
    /// Standard deviation of a repeat's median, as a share, as the simulated runs had it (the middle configuration's).
    spread: f64,
    /// Share of comparisons of equal code without any verdict of change.
    quiet: f64,
    /// Share of single verdicts that were wrong, in comparisons of equal code.
    false_verdicts: f64,
    /// Share of planted changes that were found, by `CHANGES`.
    power: [f64; 3],
    /// Share of single verdicts of change among what was not changed, beside planted changes.
    false_beside: f64,
}

/// Log-times of the repeats of every configuration in one run; `change` is what each is multiplied by.
fn run(noise: Noise, repeats: usize, change: &dyn Fn(usize) -> f64, choices: &mut Choices) -> Vec<Vec<f64>> {
    let passes = passes(noise, repeats, choices);
    let state = noise.run * choices.normal();
    (0..CONFIGURATIONS)
        .map(|configuration| {
            // Small batches scatter more than large ones.
            let scale = 0.7 + 0.6 * (configuration % 4) as f64 / 3.0;
            let base = 10.0 + change(configuration).ln() + state + noise.memory * choices.normal();
            let repeat = |pass: &f64| {
                let slow_mode = choices.uniform() < noise.modes.0;
                let disturbed = choices.uniform() < noise.disturbed;
                let mut level = base + pass + scale * noise.repeat * choices.normal();
                level += if slow_mode { noise.modes.1 } else { 0.0 };
                level -= if disturbed { 0.2 * (1.0 - choices.uniform()).ln() } else { 0.0 };
                let rounds: Vec<f64> = (0..ROUNDS)
                    .map(|_| {
                        // A Pareto variable with index 1.5: its variance is infinite.
                        let hit = choices.uniform() < noise.tail;
                        let tail = if hit { (1.0 - choices.uniform()).powf(-1.0 / 1.5) } else { 1.0 };
                        level + scale * noise.body * choices.normal() + tail.ln()
                    })
                    .collect();
                median(&rounds)
            };
            passes.iter().map(repeat).collect()
        })
        .collect()
}

/// Log-times of a run and of another one, the second multiplied by `change`, by configuration.
fn pairs(noise: Noise, repeats: usize, change: &dyn Fn(usize) -> f64, choices: &mut Choices) -> Vec<[Vec<f64>; 2]> {
    let before = run(noise, repeats, &|_| 1.0, choices);
    let after = run(noise, repeats, change, choices);
    before.into_iter().zip(after).map(<[_; 2]>::from).collect()
}

/// What all configurations share in each pass.
fn passes(noise: Noise, repeats: usize, choices: &mut Choices) -> Vec<f64> {
    const MEMORY: f64 = 0.7;
    let slope = noise.drift * (2.0 * choices.uniform() - 1.0);
    let mut state = choices.normal();
    (0..repeats)
        .map(|pass| {
            if pass > 0 {
                state = MEMORY * state + f64::sqrt(1.0 - MEMORY * MEMORY) * choices.normal();
            }
            noise.pass * state + slope * pass as f64 / (repeats - 1).max(1) as f64
        })
        .collect()
}

fn planted(configuration: usize) -> f64 {
    let group = configuration / CHANGED;
    match CHANGES.get(group / 2) {
        Some(change) if group.is_multiple_of(2) => 1.0 + change,
        Some(change) => 1.0 / (1.0 + change),
        None => 1.0,
    }
}

/// Compares `comparisons` pairs of simulated runs of equal code, and as many with planted changes of 2, 5 and 10 %.
fn calibrate(noise: Noise, repeats: usize, comparisons: usize, rules: Rules, seed: u64) -> Rates {
    let mut choices = Choices::new(seed);
    let (mut quiet, mut wrong, mut wrong_beside) = (0, 0, 0);
    let mut found = [0; 3];
    let mut spreads = Vec::new();
    let verdicts_of = |pairs: &[[Vec<f64>; 2]], trial: usize| -> (Vec<Verdict>, bool) {
        let rules = Rules { seed: trial as u64, ..rules };
        let common = common_change(pairs, rules).is_some_and(|common| common.verdict != Verdict::Unchanged);
        let own = verdicts(pairs, rules).into_iter().map(|(_, _, verdict, _)| verdict);
        (own.collect(), common)
    };
    for trial in 0..comparisons {
        let equal = pairs(noise, repeats, &|_| 1.0, &mut choices);
        let changed = pairs(noise, repeats, &planted, &mut choices);
        spreads.extend(equal.iter().map(|[before, _]| deviation(before)));
        let (own, common) = verdicts_of(&equal, trial);
        let false_ones = own.iter().filter(|verdict| **verdict != Verdict::Unchanged).count();
        wrong += false_ones;
        quiet += usize::from(false_ones == 0 && !common);
        let (own, _) = verdicts_of(&changed, trial);
        for (configuration, verdict) in own.into_iter().enumerate() {
            let change = planted(configuration);
            let right = if change > 1.0 { Verdict::Slower } else { Verdict::Faster };
            match (configuration / CHANGED / 2).min(CHANGES.len()) {
                3 => wrong_beside += usize::from(verdict != Verdict::Unchanged),
                size => found[size] += usize::from(verdict == right),
            }
        }
    }
    let share = |count: usize, of: usize| count as f64 / (of * comparisons).max(1) as f64;
    Rates {
        noise: noise.name,
        repeats,
        comparisons,
        spread: median(&spreads),
        quiet: share(quiet, 1),
        false_verdicts: share(wrong, CONFIGURATIONS),
        power: found.map(|count| share(count, 2 * CHANGED)),
        false_beside: share(wrong_beside, CONFIGURATIONS - 2 * CHANGED * CHANGES.len()),
    }
}

const RULES: fn() -> Rules = || Rules { resamples: 4_000, ..Rules::default() };

/// Prints the rows of the table in results/history.md.
#[test]
#[ignore = "long; make test-all"]
fn equal_code_shows_no_change_on_any_machine() {
    let machines: Vec<(Noise, usize)> = NOISES.into_iter().flat_map(|noise| [3, 5, 10].map(|n| (noise, n))).collect();
    let rules = Rules { resamples: 10_000, ..Rules::default() };
    let simulate = |(noise, repeats)| calibrate(noise, repeats, 40, rules, 20_260_131);
    for rates in machines.into_par_iter().map(simulate).collect::<Vec<_>>() {
        println!("{rates:?}");
        // Of 40 comparisons, 95 % are quiet in fewer than 29 with probability 1e-6: below that a promise is broken.
        assert!(rates.quiet >= 0.72, "{rates:?}");
        assert!(rates.repeats > 3 || rates.false_verdicts < 0.02, "{rates:?}");
    }
}

#[test]
fn planted_changes_are_found_where_the_machine_is_quiet_enough() {
    let rates = calibrate(NOISES[0], 10, 12, RULES(), 12);
    assert!(rates.power[0] > 0.5 && rates.power[1] > 0.95 && rates.power[2] > 0.95, "{rates:?}");
    assert!(rates.false_beside < 0.05, "{rates:?}");
    let rates = calibrate(NOISES[1], 5, 12, RULES(), 13);
    assert!(rates.power[2] > 0.3, "{rates:?}");
}

/// Two runs of a machine without shared disturbances, the second one changed by a factor.
fn pair(noise: Noise, change: f64, choices: &mut Choices) -> Vec<[Vec<f64>; 2]> {
    let noise = Noise { pass: 0.0, run: 0.0, memory: 0.0, ..noise };
    pairs(noise, 3, &|_| change, choices)
}

#[test]
fn the_interval_contains_the_true_ratio_as_often_as_it_says() {
    let (mut choices, mut covered) = (Choices::new(5), 0);
    for seed in 0..20 {
        for (_, interval, ..) in verdicts(&pair(NOISES[0], 1.03, &mut choices), Rules { seed, ..RULES() }) {
            covered += usize::from(interval.contains(1.03));
        }
    }
    let share = covered as f64 / (20 * CONFIGURATIONS) as f64;
    assert!((0.91..=0.998).contains(&share), "{share}");
}

#[test]
fn changes_below_the_threshold_are_no_changes() {
    let quiet = Noise { body: 1e-4, repeat: 1e-5, tail: 0.0, ..NOISES[0] };
    let verdicts = verdicts(&pair(quiet, 1.005, &mut Choices::new(6)), RULES());
    assert!(verdicts.iter().all(|(_, _, verdict, _)| *verdict == Verdict::Unchanged));
}

#[test]
fn a_verdict_that_ignored_the_number_of_configurations_would_be_caught() {
    // At a threshold of nothing and with intervals of 95 % for each of 24 configurations, most comparisons show a change:
    // the calibration sees it.
    let mut choices = Choices::new(3);
    let mut quiet = 0;
    for trial in 0..20 {
        let pairs = pairs(NOISES[0], 3, &|_| 1.0, &mut choices);
        let rules = Rules { seed: trial, threshold: 0.0, ..RULES() };
        let single = verdicts(&pairs, rules);
        quiet += usize::from(single.iter().all(|(_, interval, ..)| interval.contains(1.0)));
    }
    assert!(quiet < 15, "{quiet} of 20");
}

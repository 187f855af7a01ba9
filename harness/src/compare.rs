//! Comparison of two runs: for each configuration the ratio of its times, an interval, and a calibrated verdict.
//!
//! The unit of evidence is a repeat, not a round: rounds of one repeat share the state of the machine and follow each
//! other, so a thousand of them say little about the next repeat. With y_cr = ln(median time of configuration c in
//! repeat r), the ratio is exp(median_r y_after − median_r y_before). Its distribution comes from a bootstrap of the
//! residuals y_cr − mean_r y_cr of all configurations together, each scaled to its configuration's spread: a handful of
//! repeats say too little about one configuration's spread, hundreds of residuals say enough about all. The spread of
//! each configuration is shrunk towards the common one by as much as the spreads agree (the empirical-Bayes estimate of
//! G. Smyth, Linear models and empirical Bayes methods, 2004, section 6), and drawn anew in each resample for what is
//! still unknown about it.
//!
//! A change is significant if the interval at level 1 − 0.04/m (m configurations: all of them together are wrong in at
//! most 4 % of comparisons without change, and what they share in at most 1 %) excludes 1, and the ratio is off by more than a threshold.
//!
//! Repeats cannot show that the machine was slower all through one of the two runs: its temperature, its neighbours, the
//! memory that it gave. That meets all configurations alike, so their common change u = median_c of the log-ratios is
//! judged by itself: it counts as a change where it exceeds what the machine may do between two runs (a standard deviation
//! a run that is assumed, `Rules::machine_noise`, beside what the passes of the runs show of it). As long as it does not,
//! a configuration has changed only if it has so both in all and against u; once it does, all are judged by their whole
//! change. Fewer than six configurations have no common change that their own could be told from. Tests hold the promised
//! rates against simulated machines.

use std::collections::{BTreeMap, BTreeSet};

use rounds_models::Difference;
use rounds_models::build::Build;
use serde::Serialize;
use thiserror::Error;

use crate::format::{changed, plural};
use crate::grouping::by_key;
use crate::results::{Configuration, Pooled, Run, pool};
use crate::statistics::{
    Choices, Interval, SampleWarning, as_numbers, deviation, mean, median, normal_quantile, percentile_interval,
    sorted_quantile,
};

/// Probability that a comparison of equal code reports a change of a configuration. The common change has the rest of 5 %.
const FAMILY_ERROR: f64 = 0.04;
/// Draws of the bootstrap: the outermost 1/2000 still holds twenty.
const RESAMPLES: usize = 40_000;
/// Relative difference of measured peaks that is reported.
const OTHER_PEAK: f64 = 0.05;
/// Least number of configurations with a common change.
const COMMON_FROM: usize = 6;
/// The two-sided normal quantile of 99 %.
const NORMAL_99: f64 = 2.575_829;
/// Number of blocks of a single repeat.
const BLOCKS: usize = 4;

/// A reason to refuse a comparison.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its variant")]
pub enum CompareError {
    #[error(
        "the runs differ in their {}: {} and {}; a ratio would compare these, not the runs. Measure both alike, or compare \
         them anyway with --force",
        .0.what, .0.recorded, .0.now
    )]
    Different(Difference),
    #[error("the runs have no configuration in common; compare runs of the same suite")]
    NothingInCommon,
    #[error("no configuration has times in both runs: some failed in the {0} run, for example {1}")]
    Failed(&'static str, String),
}

/// Verdict on a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Significantly less time.
    Faster,
    /// Significantly more time.
    Slower,
    /// No significant change.
    Unchanged,
}

/// One configuration in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The configuration.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Median over the repeats' medians, in nanoseconds.
    pub before_ns: f64,
    /// The same in the second run.
    pub after_ns: f64,
    /// After divided by before: below 1 is faster.
    pub ratio: f64,
    /// 95 % bootstrap interval of the ratio, for this configuration alone.
    pub interval: Interval,
    /// Verdict that allows for the number of configurations.
    pub verdict: Verdict,
    /// The least slowdown whose verdict would not be `unchanged` more often than not, as a ratio.
    pub visible_from: f64,
    /// Warnings about the samples of either run.
    pub warnings: Vec<SampleWarning>,
}

/// The common change of all configurations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CommonChange {
    /// exp of the median of all log-ratios.
    pub ratio: f64,
    /// Ratios within it may be due to the machine (99 %).
    pub tolerance: Interval,
    /// The verdict.
    pub verdict: Verdict,
}

/// Two runs compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the builds: their revisions, with the begin of the executable's digest where these are equal.
    pub builds: [String; 2],
    /// The configurations of both runs.
    pub changes: Vec<Change>,
    /// Geometric mean of all ratios.
    pub mean_ratio: f64,
    /// The common change, with enough configurations.
    pub common: Option<CommonChange>,
    /// Configurations of the first run alone.
    pub only_before: Vec<String>,
    /// Configurations of the second run alone.
    pub only_after: Vec<String>,
    /// Configurations that diverged or failed verification in the first run, in all repeats or some, each with its reason; those without
    /// times in either run are left out.
    pub failed_before: Vec<String>,
    /// The same of the second run.
    pub failed_after: Vec<String>,
    /// Limits of the comparison.
    pub remarks: Vec<String>,
}

/// Parameters of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Smaller relative changes are ignored.
    pub threshold: f64,
    /// Standard deviation of the machine's effect on all times of a run, as a share.
    pub machine_noise: f64,
    /// Compare runs of different machines, instruction sets, builds or data.
    pub force: bool,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Draws of the bootstrap.
    pub resamples: usize,
}

impl Rules {
    /// The same rules with at least 2 % of machine noise if a run is from a virtual machine, whose neighbours change. With 1 %
    /// one in ten comparisons of equal code reported a change there.
    #[must_use]
    pub fn with_noise_of(self, runs: [&Run; 2]) -> Self {
        let is_virtual = |run: &Run| {
            let kind = run.environment.state.virtualisation.0.as_deref();
            kind.is_some_and(|kind| kind != "none")
        };
        if runs.into_iter().any(is_virtual) {
            Self { machine_noise: self.machine_noise.max(0.02), ..self }
        } else {
            self
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { threshold: 0.01, machine_noise: 0.01, force: false, seed: 1, resamples: RESAMPLES }
    }
}

/// Compares the second run with the first.
///
/// # Errors
/// Runs of different machines, instruction sets, builds or data (unless forced), or with nothing in common.
pub fn compare(before: &Run, after: &Run, rules: Rules) -> Result<Comparison, CompareError> {
    let mut remarks = Vec::new();
    for difference in before.binding.differences(&after.binding) {
        let Difference { what, recorded, now } = &difference;
        // The builds are what is compared; their names stand in the table.
        if what == "build" {
            continue;
        }
        if let Some(suite) = what.strip_prefix("suite ") {
            remarks.push(format!("the definition of suite {suite} changed between the runs"));
        } else if rules.force {
            remarks.push(format!("another {what}: {recorded} and {now}"));
        } else {
            return Err(CompareError::Different(difference));
        }
    }
    let (first, second) = (pool(&before.results.samples), pool(&after.results.samples));
    let second_by_key: BTreeMap<String, &Pooled> =
        second.iter().map(|cell| (cell.configuration().key(), cell)).collect();
    let pairs: Vec<(&Pooled, &Pooled)> =
        first.iter().filter_map(|cell| Some((cell, *second_by_key.get(&cell.configuration().key())?))).collect();
    let keys = |cells: &[Pooled]| cells.iter().map(|cell| cell.configuration().key()).collect::<BTreeSet<_>>();
    let tried = |cells: &[Pooled], run: &Run| {
        &keys(cells) | &run.results.rejected.keys().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>()
    };
    if pairs.is_empty() {
        let of = [("first", before, tried(&second, after)), ("second", after, tried(&first, before))];
        let failed = of.iter().find_map(|(name, run, tried)| Some((name, failed_in(run, tried).into_iter().next()?)));
        return Err(failed.map_or(CompareError::NothingInCommon, |(name, one)| CompareError::Failed(name, one)));
    }
    if pairs.iter().any(|(first, second)| first.repeat_medians.len().min(second.repeat_medians.len()) < 2) {
        remarks.push(
            "some configurations have a single repeat: their intervals do not include the variation between repeats; measure \
             with --repeats 3 or more"
                .into(),
        );
    }
    let samples: Vec<[Vec<f64>; 2]> = pairs.iter().map(|(first, second)| [evidence(first), evidence(second)]).collect();
    let common = common_change(&samples, rules);
    // Without an assumed effect of the machine the change is that of the code.
    if let Some(all) = common.filter(|all| all.verdict != Verdict::Unchanged && rules.machine_noise > 0.0) {
        remarks.push(format!(
            "all configurations together are {}, more than the assumed effect of the machine between two runs: \
             without a change in code that all of them use, the machine was in another state; measure both runs again, in \
             turn",
            changed(all.ratio, "slower", "faster")
        ));
    }
    remarks.extend(other_peaks(before, after));
    remarks.extend(other_models(before, after));
    let changes: Vec<Change> = verdicts(&samples, rules)
        .into_iter()
        .zip(&pairs)
        .zip(&samples)
        .map(|(((ratio, interval, verdict, visible_from), (first, second)), [before, after])| Change {
            configuration: first.configuration().clone(),
            before_ns: median(before).exp(),
            after_ns: median(after).exp(),
            ratio,
            interval,
            verdict,
            visible_from,
            warnings: first.warnings.iter().chain(&second.warnings).cloned().collect(),
        })
        .collect();
    let timed = &keys(&first) | &keys(&second);
    let only_in = |mine: &[Pooled], tried: BTreeSet<String>| (&keys(mine) - &tried).into_iter().collect();
    let mean_ratio = (changes.iter().map(|change| change.ratio.ln()).sum::<f64>() / changes.len() as f64).exp();
    Ok(Comparison {
        builds: names_of_builds(&before.environment.build, &after.environment.build),
        changes,
        mean_ratio,
        common,
        only_before: only_in(&first, tried(&second, after)),
        only_after: only_in(&second, tried(&first, before)),
        failed_before: failed_in(before, &timed),
        failed_after: failed_in(after, &timed),
        remarks,
    })
}

fn names_of_builds(before: &Build, after: &Build) -> [String; 2] {
    let names = [before, after].map(|build| {
        let (revision, star) = (build.revision.as_str(), if build.dirty == "true" { "*" } else { "" });
        format!("{}{star}", revision.get(..7).unwrap_or(revision))
    });
    if names[0] != names[1] || before.identity() == after.identity() {
        return names;
    }
    let digests = [before, after].map(|build| build.identity().chars().take(4).collect::<String>());
    std::array::from_fn(|side| format!("{}+{}", names[side], digests[side]))
}

/// A remark about runs of the same cell, seed and repeat that end in another model or value.
fn other_models(before: &Run, after: &Run) -> Option<String> {
    let ends = |run: &Run| -> BTreeMap<String, String> {
        let samples = run.results.samples.iter();
        samples.map(|sample| (sample.key(), sample.model_sha256.clone())).collect()
    };
    let (first, second) = (ends(before), ends(after));
    let common = || first.iter().filter_map(|(key, model)| Some((key, model, second.get(key)?)));
    let differ = || common().filter(|(_, model, other)| model != other);
    let (example, ..) = differ().next()?;
    Some(format!(
        "{} of {} runs end in another model or value, for example {example}",
        differ().count(),
        common().count()
    ))
}

/// Configurations, of `others`, with runs that diverged or failed verification, and the first reason.
fn failed_in(run: &Run, others: &BTreeSet<String>) -> Vec<String> {
    let rejected = run.results.rejected.iter().filter(|((key, _), _)| others.contains(key));
    by_key(rejected.map(|((key, _), reason)| (key, reason)))
        .into_iter()
        .map(|(key, reasons)| format!("{key}: {}", reasons[0]))
        .collect()
}

/// Remarks about thread counts whose measured peak differs between the runs.
fn other_peaks(before: &Run, after: &Run) -> Vec<String> {
    let (first, second) = (&before.environment, &after.environment);
    let rooflines = first.rooflines.iter();
    rooflines
        .filter_map(|roofline| {
            let ratio = second.roofline(roofline.threads)?.peak_gflops / roofline.peak_gflops;
            ((ratio - 1.0).abs() > OTHER_PEAK).then(|| {
                format!(
                    "the machine's measured peak on {} was {} in the second run: it was in another state \
                     (frequency, neighbours); measure both runs again, in turn",
                    plural(roofline.threads, "thread"),
                    changed(ratio, "higher", "lower")
                )
            })
        })
        .collect()
}

/// Logarithms of the repeats' medians; for a single repeat, of its blocks' medians.
fn evidence(cell: &Pooled) -> Vec<f64> {
    if cell.repeat_medians.len() > 1 {
        return cell.repeat_medians.iter().map(|median| median.max(1.0).ln()).collect();
    }
    let samples = as_numbers(&cell.cell.round_ns.samples);
    let length = samples.len().div_ceil(BLOCKS).max(1);
    let blocks: Vec<f64> = samples.chunks(length).map(|block| median(block).max(1.0).ln()).collect();
    if blocks.is_empty() { vec![cell.median().max(1.0).ln()] } else { blocks }
}

/// Ratio, 95 % interval, verdict and the least visible slowdown of each pair of log-times.
pub(crate) fn verdicts(pairs: &[[Vec<f64>; 2]], rules: Rules) -> Vec<(f64, Interval, Verdict, f64)> {
    // A configuration must differ from the common change too.
    let shared = common_change(pairs, rules)
        .filter(|common| common.verdict == Verdict::Unchanged)
        .map_or(0.0, |common| common.ratio.ln());
    let spreads: Vec<Spread> = pairs.iter().map(Spread::of).collect();
    let (common, prior_degrees) = common_spread(&spreads);
    let shrunk: Vec<(f64, f64)> = spreads
        .iter()
        .map(|spread| {
            let degrees = prior_degrees + spread.degrees;
            ((prior_degrees * common + spread.squares) / degrees.max(1.0), degrees.max(1.0))
        })
        .collect();
    let residuals = standardised_residuals(pairs, &shrunk);
    let mut choices = Choices::new(rules.seed);
    let level = 1.0 - FAMILY_ERROR / pairs.len() as f64;
    let mut drawn = Vec::new();
    pairs
        .iter()
        .zip(&shrunk)
        .map(|([before, after], &(variance, degrees))| {
            let difference = median(after) - median(before);
            let mut draws: Vec<f64> = (0..rules.resamples)
                .map(|_| {
                    let scale = (variance * degrees / chi_squared(degrees, &mut choices)).sqrt();
                    let mut side = |count: usize| {
                        drawn.clear();
                        drawn.extend((0..count).map(|_| residuals[choices.below(residuals.len())]));
                        drawn.sort_unstable_by(f64::total_cmp);
                        sorted_quantile(&drawn, 0.5)
                    };
                    // The error's sign is turned: an estimate that was too high means a truth that is lower.
                    difference - scale * (side(after.len()) - side(before.len()))
                })
                .collect();
            let interval = percentile_interval(&mut draws, 0.95);
            let tail = (1.0 - level) / 2.0;
            let (low, high) = (sorted_quantile(&draws, tail), sorted_quantile(&draws, 1.0 - tail));
            let ratio = difference.exp();
            let large = (ratio - 1.0).abs() > rules.threshold;
            let verdict = match (large, low > shared.max(0.0), high < shared.min(0.0)) {
                (true, true, _) => Verdict::Slower,
                (true, _, true) => Verdict::Faster,
                _ => Verdict::Unchanged,
            };
            let visible_from = (difference - low + shared.max(0.0)).exp().max(1.0 + rules.threshold);
            let interval = Interval::new(interval.low.exp(), interval.high.exp());
            (ratio, interval, verdict, visible_from)
        })
        .collect()
}

/// The change that all configurations share, if they are enough to have one.
///
/// Its standard deviation is √(s₁² + s₂² + 2·σ²): s² is the variance over the passes of a run of what all configurations share
/// in a pass, not divided by their number, because passes that follow each other drift together; σ is the machine's noise
/// between runs.
pub(crate) fn common_change(pairs: &[[Vec<f64>; 2]], rules: Rules) -> Option<CommonChange> {
    if pairs.len() < COMMON_FROM {
        return None;
    }
    let changes: Vec<f64> = pairs.iter().map(|[before, after]| median(after) - median(before)).collect();
    let shared = median(&changes);
    let of_passes: f64 = (0..2).map(|side| pass_variance(pairs, side)).sum();
    let deviation = (of_passes + 2.0 * rules.machine_noise.powi(2)).sqrt();
    let limit = (NORMAL_99 * deviation).max(rules.threshold.ln_1p());
    let verdict = if shared > limit {
        Verdict::Slower
    } else if shared < -limit {
        Verdict::Faster
    } else {
        Verdict::Unchanged
    };
    Some(CommonChange { ratio: shared.exp(), tolerance: Interval::new((-limit).exp(), limit.exp()), verdict })
}

/// Variance over passes of what all configurations share in a pass of one run.
fn pass_variance(pairs: &[[Vec<f64>; 2]], side: usize) -> f64 {
    let passes = pairs.iter().map(|pair| pair[side].len()).min().unwrap_or(0);
    if passes < 2 {
        return 0.0;
    }
    let centred: Vec<Vec<f64>> = pairs
        .iter()
        .map(|pair| {
            let own = &pair[side][..passes];
            let mean = mean(own);
            own.iter().map(|value| value - mean).collect()
        })
        .collect();
    let effects: Vec<f64> =
        (0..passes).map(|pass| median(&centred.iter().map(|own| own[pass]).collect::<Vec<_>>())).collect();
    deviation(&effects).powi(2)
}

/// The scatter of a configuration's repeats around the mean of their run.
struct Spread {
    squares: f64,
    degrees: f64,
}

impl Spread {
    fn of(pair: &[Vec<f64>; 2]) -> Self {
        let squares = pair.iter().map(|side| {
            let mean = mean(side);
            side.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        });
        // A clock's grain and rounding are never zero: a part in ten thousand.
        let degrees = pair.iter().map(|side| side.len() - 1).sum::<usize>() as f64;
        Self { squares: squares.sum::<f64>().max(degrees * 1e-8), degrees }
    }
}

/// The common variance and for how many degrees of freedom it counts beside a configuration's own.
///
/// The variance of ln s² over configurations is ψ′(d/2) + ψ′(d₀/2) (Smyth 2004, equation 6.2): what exceeds the first
/// term tells how little the variances agree.
fn common_spread(spreads: &[Spread]) -> (f64, f64) {
    let usable: Vec<&Spread> = spreads.iter().filter(|spread| spread.degrees > 0.0).collect();
    let degrees: f64 = usable.iter().map(|spread| spread.degrees).sum();
    if degrees == 0.0 {
        // No repeats at all: a standard deviation of 5 %, on one degree of freedom.
        return (0.0025, 1.0);
    }
    let pooled = usable.iter().map(|spread| spread.squares).sum::<f64>() / degrees;
    if usable.len() < 3 {
        return (pooled, 0.0);
    }
    let logs: Vec<f64> = usable.iter().map(|spread| (spread.squares / spread.degrees).ln()).collect();
    let count = logs.len() as f64;
    let variance = deviation(&logs).powi(2);
    let expected = usable.iter().map(|spread| trigamma(spread.degrees / 2.0)).sum::<f64>() / count;
    let excess = variance - expected;
    // A dozen configurations cannot show that all spreads are equal, and small and large batches never are: the common
    // spread weighs at most as much as a configuration's own. In simulations with spreads up to twofold this keeps the
    // promised error rate at no loss of power.
    let own = degrees / count;
    let prior = if excess <= trigamma(own / 2.0) { own } else { 2.0 * inverse_trigamma(excess) };
    (pooled, prior)
}

/// Residuals of all configurations, each divided by its configuration's spread, all together of variance 1.
fn standardised_residuals(pairs: &[[Vec<f64>; 2]], shrunk: &[(f64, f64)]) -> Vec<f64> {
    let mut residuals = Vec::new();
    for (pair, (variance, _)) in pairs.iter().zip(shrunk) {
        for side in pair.iter().filter(|side| side.len() > 1) {
            let mean = mean(side);
            residuals.extend(side.iter().map(|value| (value - mean) / variance.sqrt()));
        }
    }
    let square = residuals.iter().map(|residual| residual * residual).sum::<f64>() / residuals.len().max(1) as f64;
    if residuals.len() < 12 || square <= 0.0 {
        // Too few for a distribution of their own: standard normal quantiles stand in.
        return normal_scores();
    }
    residuals.into_iter().map(|residual| residual / square.sqrt()).collect()
}

/// Φ⁻¹(k/102) for k = 1 to 101.
fn normal_scores() -> Vec<f64> {
    (1..=101).map(|place| normal_quantile(f64::from(place) / 102.0)).collect()
}

/// A draw of χ² with `degrees` degrees of freedom (Wilson and Hilferty's cube root, within a few percent).
fn chi_squared(degrees: f64, choices: &mut Choices) -> f64 {
    let part = 2.0 / (9.0 * degrees);
    (degrees * (1.0 - part + choices.normal() * part.sqrt()).max(0.05).powi(3)).max(1e-6)
}

/// ψ′(x) for x > 0: recurrence up to 6, then the asymptotic series (error below 1e-8).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    sum + 1.0 / x + inverse / 2.0 + inverse / x * (1.0 / 6.0 - inverse * (1.0 / 30.0 - inverse / 42.0))
}

/// The x with ψ′(x) = y, by bisection: ψ′ falls from infinity to 0.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1e6);
    for _ in 0..200 {
        let middle = f64::sqrt(low * high);
        if trigamma(middle) > y {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::sqrt(low * high)
}

#[cfg(test)]
mod simulated_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_its_known_values_and_inverse() {
        let pi_squared = std::f64::consts::PI.powi(2);
        assert!((trigamma(1.0) - pi_squared / 6.0).abs() < 1e-8);
        assert!((trigamma(0.5) - pi_squared / 2.0).abs() < 1e-8);
        for x in [0.3, 1.0, 7.5, 60.0] {
            assert!((inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-7);
        }
    }

    #[test]
    fn normal_scores_are_quantiles() {
        let scores = normal_scores();
        assert!(scores[50].abs() < 1e-9);
        // Φ⁻¹(1/102) and Φ⁻¹(101/102).
        assert!((scores[0] + 2.3339).abs() < 1e-3 && (scores[100] - 2.3339).abs() < 1e-3);
    }
}

//! Thread scaling: what a round takes on 1, 2, … threads, with the batch fixed (strong scaling) and with the rows a thread
//! fixed (weak scaling); speed-up, efficiency and the serial fraction that the speed-ups tell of, each with its interval.
//!
//! With T(p, B) the time of a round of B rows on p threads:
//!
//! - strong: S(p) = T(1, B) / T(p, B), efficiency S(p)/p, and Amdahl's law T(p)/T(1) = s + (1 − s)/p;
//! - weak: S(p) = p·T(1, B) / T(p, p·B), efficiency S(p)/p, and Gustafson's law S(p) = p − s·(p − 1), where s is a share of
//!   the time on p threads.
//!
//! The unit of evidence is a repeat: S(p) is the median over the repeats of the ratio of the two medians that one repeat
//! measured side by side, and intervals are percentiles of a bootstrap over repeats, the same ones for all thread counts.
//! A serial fraction below 0 says that more threads did better than their number, as caches that add up do.

mod presentation;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::round_time::RoundBudget;
use crate::cluster::Traffic;
use crate::experiment::cache::check;
use crate::experiment::{
    self, Cell, Configuration, Context, Definition, Execution, Experiment, Outcome, Presentation, Results, Run, Sample,
    Selection, Study,
};
use crate::grouping::by_key;
use crate::machine::{Disturbance, Environment, PinPolicy, Roofline};
use crate::measure;
use crate::results::RoundTimes;
use crate::statistics::{Choices, Estimate, SampleWarning, as_numbers, examine_all, median, percentile_interval};

const RESAMPLES: usize = 4_000;
const LEVEL: f64 = 0.95;

/// Parameter of weak scaling, instead of the batch size.
const ROWS_PER_THREAD: &str = "rows-per-thread";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    rounds: RoundBudget,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounds {
    round_ns: RoundTimes,
    /// SHA-256 of the model: equal for all thread counts of a batch size.
    model_sha256: String,
}

pub(super) type Scaling = Experiment<Options>;

/// Quantity that stays constant while threads are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The batch.
    Strong,
    /// The rows a thread.
    Weak,
}

impl Kind {
    /// The batch on so many threads, over that on one.
    fn work(self, threads: usize) -> usize {
        match self {
            Self::Strong => 1,
            Self::Weak => threads,
        }
    }
}

/// A curve: speed-up of a method against threads.
#[derive(Debug, Clone, PartialEq)]
struct CurveId {
    method: String,
    kind: Kind,
    /// Batch size (strong) or rows a thread (weak).
    size: usize,
}

impl CurveId {
    fn of(cell: &Configuration) -> Self {
        let (kind, size) = match cell.whole(ROWS_PER_THREAD) {
            Ok(Some(rows)) => (Kind::Weak, rows),
            _ => (Kind::Strong, cell.batch_size),
        };
        Self { method: cell.method.clone(), kind, size }
    }

    /// `DP-SGD, bytes, B = 8000`, or with rows a thread.
    fn label(&self) -> String {
        match self.kind {
            Kind::Strong => format!("{}, B = {}", self.method, self.size),
            Kind::Weak => format!("{}, {} rows a thread", self.method, self.size),
        }
    }
}

/// Times of one method, batch size and thread count.
#[derive(Debug, Clone, PartialEq)]
struct Timed {
    curve: CurveId,
    threads: usize,
    /// Median round of each repeat, in nanoseconds.
    medians: Vec<f64>,
    /// Median over all rounds, in nanoseconds.
    round_ns: f64,
    /// Warnings about the samples of any repeat, each kind once.
    warnings: Vec<SampleWarning>,
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    threads: usize,
    batch_size: usize,
    /// S(p).
    speedup: Estimate,
    /// S(p)/p.
    efficiency: Estimate,
}

#[derive(Debug, Clone, PartialEq)]
struct Curve {
    id: CurveId,
    /// By threads, 1 first.
    points: Vec<Point>,
    /// Serial fraction: Amdahl's for strong scaling, Gustafson's for weak; none on one thread alone.
    serial_fraction: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq)]
struct Found {
    /// Machine, its state, the build and the rooflines by thread count, measured before.
    environment: Environment,
    threads: Vec<usize>,
    repeats: usize,
    cells: Vec<Timed>,
    curves: Vec<Curve>,
    /// Disturbances of the measurement, each with its remedy.
    warnings: Vec<String>,
}

/// Thread counts that show a curve: all up to 4, then three for each doubling, and all cores.
fn thread_counts(cores: usize) -> Vec<usize> {
    let steps =
        (0..).flat_map(|power: u32| [4 << power, 5 << power, 6 << power, 7 << power].map(|count| count as usize));
    let counts = (1..4).chain(steps.take_while(|&count| count < cores));
    let counts = counts.filter(|&count| count <= cores && (count < 8 || count.is_multiple_of(2)));
    counts.chain([cores.max(1)]).collect::<BTreeSet<usize>>().into_iter().collect()
}

impl Study for Scaling {
    const KIND: experiment::Kind = experiment::Kind {
        pin: PinPolicy::Core,
        threads: thread_counts,
        ..experiment::Kind::new::<Self>("scaling", Execution::Interleaved)
    };

    type Options = Options;
    type Outcome = Rounds;

    fn check(definition: &Definition<Options>) -> anyhow::Result<()> {
        definition.options().rounds.check()
    }

    fn cells(&self, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
        let selection = Selection {
            // Speed-ups are those over one thread.
            threads: [selection.threads_or(&self.definition.threads), &[1]].concat(),
            ..selection.clone()
        };
        let mut cells = self.definition.cells(&selection)?;
        for cell in cells.iter_mut().map(|cell| &mut cell.configuration) {
            if let Some(rows) = cell.whole(ROWS_PER_THREAD)? {
                cell.batch_size = rows * cell.threads;
            }
            ensure!(cell.batch_size > 0, "{}: batch-size or {ROWS_PER_THREAD} must be given", cell.key());
        }
        let algorithms: Vec<Cell> = cells.iter().map(plain).collect();
        check(&algorithms)?;
        Ok(cells)
    }

    /// The cells of a curve are measured side by side.
    fn group(&self, cell: &Cell) -> String {
        let CurveId { method, kind, size } = CurveId::of(&cell.configuration);
        format!("{method} {} {kind:?} {size}", cell.configuration.features)
    }

    fn measure(&self, run: &Run<'_, Rounds>, context: &Context<'_>) -> anyhow::Result<Outcome<Rounds>> {
        let cell = plain(run.cell).configuration;
        let engine = context.engine(cell.threads)?;
        let loaded = context.problem(&cell, run.trial.draw, &engine)?;
        let rounds = self.definition.options().rounds;
        let prepared = match rounds.prepare(&cell, &loaded.train, self.definition.seed, context)? {
            Ok((prepared, _)) => prepared,
            Err(reason) => return Ok(Outcome::Skipped(reason)),
        };
        let timed = measure::time_rounds(&loaded.train, &engine, prepared, rounds.warm_up, &Traffic::default)?;
        let model = timed.model_sha256;
        let same = |other: &&Sample<Rounds>| {
            let (one, other) = (&run.cell.configuration, &other.configuration);
            (&one.method, &one.features, one.batch_size) == (&other.method, &other.features, other.batch_size)
        };
        if let Some(other) = run.earlier.samples.iter().find(same)
            && other.model_sha256 != model
        {
            let (threads, expected) = (cell.threads, &other.model_sha256);
            return Ok(Outcome::Rejected(format!(
                "the model on {threads} threads is {model}, on others it was {expected}"
            )));
        }
        Ok(Outcome::Measured(Rounds { round_ns: RoundTimes::new(timed.round), model_sha256: model }))
    }

    fn present(&self, results: &Results<Rounds>, _: &Path, context: &Context<'_>) -> anyhow::Result<Presentation> {
        let found = self.found(results, context)?;
        Ok(Presentation { warnings: found.warnings.clone(), ..Presentation::of(presentation::present(&found)) })
    }
}

/// The cell as the algorithm knows it.
fn plain(cell: &Cell) -> Cell {
    let mut plain = cell.clone();
    plain.configuration.parameters.remove(ROWS_PER_THREAD);
    plain
}

impl Scaling {
    fn found(&self, results: &Results<Rounds>, context: &Context<'_>) -> anyhow::Result<Found> {
        let measured = self.measured(results)?;
        let threads: BTreeSet<usize> = measured.iter().map(|(cell, _)| cell.configuration.threads).collect();
        let threads: Vec<usize> = threads.into_iter().collect();
        let cells: Vec<Timed> = measured.iter().map(|(cell, runs)| timed(&cell.configuration, runs)).collect();
        let mut curves: Vec<Curve> = Vec::new();
        let of_curve = |cell: &Timed| (cell.curve.clone(), (cell.threads, cell.medians.clone()));
        for (id, mut medians) in by_key(cells.iter().map(of_curve)) {
            medians.sort_by_key(|(threads, _)| *threads);
            // A stopped run measured some thread counts once less.
            let least = medians.iter().map(|(_, medians)| medians.len()).min().unwrap_or(0);
            medians.iter_mut().for_each(|(_, medians)| medians.truncate(least));
            if medians[0].0 != 1 {
                continue;
            }
            let (points, serial_fraction) = scaled(id.kind, id.size, &medians, self.definition.seed);
            curves.push(Curve { id, points, serial_fraction });
        }
        let mut warnings = context.disturbances.clone();
        warnings.extend(doubtful(&cells).map(|doubtful| doubtful.to_string()));
        if threads == [1] {
            warnings
                .push("one thread alone shows no scaling: run it where there are more cores, or give --threads".into());
        }
        Ok(Found {
            environment: context.environment.clone(),
            threads,
            repeats: cells.iter().map(|cell| cell.medians.len()).max().unwrap_or(0),
            cells,
            curves,
            warnings,
        })
    }
}

fn timed(cell: &Configuration, runs: &[&Sample<Rounds>]) -> Timed {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| run.trial);
    let samples: Vec<Vec<f64>> = runs.iter().map(|run| as_numbers(&run.round_ns.samples)).collect();
    Timed {
        round_ns: median(&samples.concat()),
        curve: CurveId::of(cell),
        threads: cell.threads,
        medians: samples.iter().map(|samples| median(samples)).collect(),
        warnings: examine_all(&samples),
    }
}

/// Number of cells with doubtful samples, if there are any.
fn doubtful(cells: &[Timed]) -> Option<Disturbance> {
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for cell in cells {
        let own = cell.warnings.iter().map(SampleWarning::name);
        let own: Vec<_> = own.filter(|name| *name != "too-few").collect();
        count += usize::from(!own.is_empty());
        kinds.extend(own);
    }
    (count > 0).then(|| Disturbance::DoubtfulSamples {
        cells: count,
        of: cells.len(),
        kinds: kinds.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// Speed-ups and serial fraction from the medians of each repeat by thread count, 1 first.
fn scaled(kind: Kind, size: usize, medians: &[(usize, Vec<f64>)], seed: u64) -> (Vec<Point>, Option<Estimate>) {
    let base = &medians[0].1;
    // S(p) of each repeat.
    let ratios: Vec<(usize, Vec<f64>)> = medians
        .iter()
        .map(|(threads, own)| {
            let ratio = |(one, many): (&f64, &f64)| kind.work(*threads) as f64 * one / many;
            (*threads, base.iter().zip(own).map(ratio).collect())
        })
        .collect();
    let repeats = base.len();
    let mut choices = Choices::new(seed ^ size as u64);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); ratios.len()];
    let mut fractions = Vec::with_capacity(RESAMPLES);
    let mut chosen = vec![0; repeats];
    let mut drawn = Vec::with_capacity(repeats);
    for _ in 0..RESAMPLES {
        chosen.fill_with(|| choices.below(repeats));
        let mut speedups = Vec::with_capacity(ratios.len());
        for ((threads, ratios), draws) in ratios.iter().zip(&mut draws) {
            drawn.clear();
            drawn.extend(chosen.iter().map(|&repeat| ratios[repeat]));
            let speedup = median(&drawn);
            draws.push(speedup);
            speedups.push((*threads, speedup));
        }
        fractions.extend(serial_fraction(kind, &speedups));
    }
    let medians: Vec<(usize, f64)> = ratios.iter().map(|(threads, ratios)| (*threads, median(ratios))).collect();
    let points = medians
        .iter()
        .zip(&mut draws)
        .map(|(&(threads, value), draws)| {
            let speedup = Estimate::new(value, percentile_interval(draws, LEVEL));
            Point { threads, batch_size: size * kind.work(threads), speedup, efficiency: speedup.over(threads as f64) }
        })
        .collect();
    let fraction =
        serial_fraction(kind, &medians).map(|value| Estimate::new(value, percentile_interval(&mut fractions, LEVEL)));
    (points, fraction)
}

/// The serial fraction by least squares through (p, S(p)): of 1/S(p) − 1/p = s·(1 − 1/p) by Amdahl's law, of
/// p − S(p) = s·(p − 1) by Gustafson's. None on one thread alone.
fn serial_fraction(kind: Kind, speedups: &[(usize, f64)]) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for &(threads, speedup) in speedups {
        let count = threads as f64;
        let (x, y) = match kind {
            Kind::Strong => (1.0 - 1.0 / count, 1.0 / speedup - 1.0 / count),
            Kind::Weak => (count - 1.0, count - speedup),
        };
        products += x * y;
        squares += x * x;
    }
    (squares > 0.0).then(|| products / squares)
}

/// Speed-ups of the machine itself: arithmetic from registers, and reading from memory.
fn limits(study: &Found) -> Vec<(&'static str, Vec<(usize, f64)>)> {
    let Some(one) = study.environment.roofline(1) else {
        return Vec::new();
    };
    let of = |value: fn(&Roofline) -> f64| -> Vec<(usize, f64)> {
        let rooflines = study.environment.rooflines.iter();
        rooflines.map(|roofline| (roofline.threads, value(roofline) / value(one))).collect()
    };
    vec![
        ("measured peak", of(|roofline| roofline.peak_gflops)),
        ("measured bandwidth", of(|roofline| roofline.bandwidth_gbytes_per_s)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn thread_counts_grow_to_all_cores() {
        for (cores, expected) in [
            (1, &[1][..]),
            (2, &[1, 2]),
            (4, &[1, 2, 3, 4]),
            (6, &[1, 2, 3, 4, 5, 6]),
            (16, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]),
            (22, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 22]),
        ] {
            assert_eq!(thread_counts(cores), expected);
        }
    }

    /// Medians of `repeats` repeats on 1, 2, 4 and 8 threads by a law, with a drift that all threads share.
    fn medians(law: &dyn Fn(f64) -> f64, repeats: usize, noise: f64) -> Vec<(usize, Vec<f64>)> {
        let mut choices = Choices::new(5);
        [1, 2, 4, 8]
            .map(|threads| {
                let times = (0..repeats).map(|repeat| {
                    let drift = 1.0 + 0.2 * repeat as f64;
                    1e6 * law(threads as f64) * drift * (1.0 + noise * (choices.uniform() - 0.5))
                });
                (threads, times.collect())
            })
            .into()
    }

    #[test]
    fn the_serial_fraction_of_each_law_is_found_in_spite_of_drift() {
        let amdahl = medians(&|count| 0.1 + 0.9 / count, 11, 0.0);
        let (points, fraction) = scaled(Kind::Strong, 8_000, &amdahl, 1);
        assert!((fraction.unwrap().value - 0.1).abs() < 1e-9);
        let speedup = points[3].speedup.value;
        assert!((speedup - 1.0 / (0.1 + 0.9 / 8.0)).abs() < 1e-9);
        assert_eq!(points[0].speedup.value, 1.0);
        assert!((points[3].efficiency.value - speedup / 8.0).abs() < 1e-12);
        // By Gustafson's law with s = 0.2 the time grows by 1 / (1 - s (p - 1) / p).
        let gustafson = medians(&|count| count / (count - 0.2 * (count - 1.0)), 11, 0.0);
        let (points, fraction) = scaled(Kind::Weak, 4_000, &gustafson, 1);
        assert!((fraction.unwrap().value - 0.2).abs() < 1e-9);
        assert!((points[1].speedup.value - 1.8).abs() < 1e-9);
        assert_eq!(points[1].batch_size, 8_000);
    }

    #[test]
    fn intervals_hold_the_truth_and_shrink_with_the_noise() {
        let truth = 1.0 / (0.05 + 0.95 / 8.0);
        let mut widths = Vec::new();
        for noise in [0.01, 0.1] {
            let noisy = medians(&|count| 0.05 + 0.95 / count, 15, noise);
            let (points, fraction) = scaled(Kind::Strong, 8_000, &noisy, 1);
            let (speedup, fraction) = (points[3].speedup, fraction.unwrap());
            assert!(speedup.low <= truth && truth <= speedup.high, "{speedup}");
            assert!(fraction.low <= 0.05 && 0.05 <= fraction.high, "{fraction}");
            widths.push(speedup.high - speedup.low);
        }
        assert!(widths[0] < widths[1] / 3.0, "{widths:?}");
    }

    #[test]
    fn one_thread_alone_has_no_serial_fraction() {
        let (points, fraction) = scaled(Kind::Strong, 8_000, &[(1, vec![1.0, 2.0])], 1);
        assert_eq!((points.len(), fraction), (1, None));
    }

    #[test]
    fn a_small_study_measures_every_cell_once_a_repeat() {
        let text = r#"
            repeats = 2
            threads = [2]
            [options.rounds]
            examples = 1
            at-least = 2
            at-most = 2
            [[problem]]
            dataset = "synthetic-mnist"
            features = "u8"
            [[method]]
            label = "SGD"
            algorithm = "sgd"
            parameters = { batch-size = [64, 128] }
            [[method]]
            label = "SGD"
            algorithm = "sgd"
            parameters = { rows-per-thread = 64 }
        "#;
        let (scaling, results) = testing::small::<Scaling>(text, 1).unwrap();
        let found = scaling.found(&results, &testing::context(2)).unwrap();
        assert_eq!((found.threads.as_slice(), found.cells.len(), found.curves.len()), (&[1, 2][..], 6, 3));
        let twice = |cell: &Timed| cell.medians.len() == 2;
        assert!(found.cells.iter().all(twice));
        assert!(results.samples.iter().all(|sample| sample.round_ns.samples.len() == 2));
        assert!(presentation::present(&found).terminal().contains("All curves"));
    }
}

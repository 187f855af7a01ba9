//! Final gaps of the methods, the best over their numbers of rounds, and heavy ball beside gradient descent, draw by draw.

use std::collections::BTreeMap;

use super::{DRAWN_NOISE, Gaps, Options};
use crate::experiment::{Configuration, Measured, Sample};
use crate::format::three_digits;
use crate::grouping::by_key;
use crate::report::{Axis, Chart, Entry, Panel, Point, Style, Table, grouped};
use crate::statistics::{median, of_mean, percentile_interval};

/// The best of a method over T on one draw, with one step scale and one kind of noise.
pub(super) struct Best<'r> {
    setting: [String; 2],
    algorithm: &'r str,
    draw: usize,
    gap: f64,
    /// T.
    rounds: String,
    run: &'r Sample<Gaps>,
}

fn setting(cell: &Configuration) -> [String; 2] {
    ["step-scale", DRAWN_NOISE].map(|name| cell.text(name).unwrap_or_default())
}

/// The best over T, for every setting, method and draw.
pub(super) fn best<'r>(measured: &[Measured<'r, Gaps>]) -> Vec<Best<'r>> {
    let runs = measured.iter().flat_map(|(_, runs)| runs).filter_map(|&run| {
        let cell = &run.configuration;
        let one = Best {
            setting: setting(cell),
            algorithm: &cell.algorithm,
            draw: run.trial.draw,
            gap: *run.gap_mean.last()?,
            rounds: cell.text("rounds").unwrap_or_default(),
            run,
        };
        Some(((one.setting.clone(), one.algorithm, one.draw), one))
    });
    let best = by_key(runs).into_iter();
    best.filter_map(|(_, runs)| runs.into_iter().min_by(|a, b| a.gap.total_cmp(&b.gap))).collect()
}

/// Quartiles of values, and their mean with its 95 % interval.
fn distribution(values: &[f64]) -> [Entry; 3] {
    let quartiles = percentile_interval(&mut values.to_vec(), 0.5);
    let mean = of_mean(values, 0.95);
    let half = mean.ends().map(|(low, high)| format!(" ± {}", three_digits(0.5 * (high - low))));
    [
        Entry::number(median(values), three_digits),
        Entry::text(format!("{} – {}", three_digits(quartiles.low), three_digits(quartiles.high))),
        Entry::sorted(three_digits(mean.value) + &half.unwrap_or_default(), mean.value),
    ]
}

/// The final gaps of every cell over the draws, beside the published ones.
pub(super) fn ends(measured: &[Measured<'_, Gaps>], options: &Options) -> Table {
    let columns = "noise|#c|method|#T|#T′|#median gap|quartiles|#mean|#draws|#published";
    let mut table = Table::new("Final gaps", columns);
    for (cell, runs) in measured {
        let gaps: Vec<f64> = runs.iter().filter_map(|run| run.gap_mean.last().copied()).collect();
        let [scale, noise] = setting(&cell.configuration);
        let [middle, quartiles, mean] = distribution(&gaps);
        table.row([
            Entry::text(noise),
            Entry::text(scale),
            Entry::text(&*cell.configuration.algorithm),
            Entry::text(cell.configuration.text("rounds").unwrap_or_default()),
            Entry::count(runs[0].rounds),
            middle,
            quartiles,
            mean,
            Entry::count(gaps.len()),
            Entry::number(options.published_for(&cell.configuration), three_digits),
        ]);
    }
    table.without_empty_columns()
}

/// The best gaps of every method over the draws.
pub(super) fn table(best: &[Best<'_>]) -> Table {
    let mut table = Table::new("Best over T", "noise|#c|method|#median gap|quartiles|#mean|#draws|T (draws)");
    for ((setting, algorithm), own) in by_key(best.iter().map(|one| ((&one.setting, one.algorithm), one))) {
        let mut chosen: BTreeMap<usize, usize> = BTreeMap::new();
        own.iter().for_each(|one| *chosen.entry(one.rounds.parse().unwrap_or(0)).or_default() += 1);
        let chosen: Vec<_> = chosen.iter().map(|(rounds, draws)| format!("{rounds} ({draws})")).collect();
        let [middle, quartiles, mean] = distribution(&own.iter().map(|one| one.gap).collect::<Vec<_>>());
        table.row([
            Entry::text(&*setting[1]),
            Entry::text(&*setting[0]),
            Entry::text(algorithm),
            middle,
            quartiles,
            mean,
            Entry::count(own.len()),
            Entry::text(chosen.join(", ")),
        ]);
    }
    table
}

/// The best DP-HB and the best DP-GD of every setting and draw.
fn pairs<'b, 'r>(best: &'b [Best<'r>]) -> impl Iterator<Item = (&'b Best<'r>, &'b Best<'r>)> {
    let of = |id: &'static str| best.iter().filter(move |one| one.algorithm == id);
    of("dp-hb").filter_map(move |heavy| {
        let same = |plain: &&Best<'_>| (&plain.setting, plain.draw) == (&heavy.setting, heavy.draw);
        Some((heavy, of("dp-gd").find(same)?))
    })
}

/// A table of the draws: their labels, their starts, and the best DP-HB over the best DP-GD. Nothing without both methods.
pub(super) fn comparison(best: &[Best<'_>]) -> Option<Table> {
    let columns = "#draw|#negative labels|#F(x_0) − F*|noise|#c|#best DP-HB|#best DP-GD|#DP-HB over DP-GD";
    let mut table = Table::new("The best DP-HB beside the best DP-GD, draw by draw", columns);
    let mut pairs: Vec<_> = pairs(best).collect();
    let order = |one: &Best<'_>| (one.setting.clone(), one.run.negative_labels);
    pairs.sort_by(|(a, _), (b, _)| order(a).partial_cmp(&order(b)).expect("shares are numbers"));
    for (heavy, plain) in &pairs {
        table.row([
            Entry::count(heavy.draw),
            Entry::number(heavy.run.negative_labels, |share| format!("{:.2} %", 100.0 * share)),
            Entry::number(heavy.run.gap_mean[0], three_digits),
            Entry::text(&*heavy.setting[1]),
            Entry::text(&*heavy.setting[0]),
            Entry::number(heavy.gap, three_digits),
            Entry::number(plain.gap, three_digits),
            Entry::number(heavy.gap / plain.gap, three_digits),
        ]);
    }
    (!pairs.is_empty()).then_some(table)
}

/// The best DP-HB over the best DP-GD against the gap at the start, a point a draw.
pub(super) fn ratios(best: &[Best<'_>]) -> Option<Panel> {
    let points = pairs(best).map(|(heavy, plain)| {
        let [scale, noise] = &heavy.setting;
        let (start, ratio) = (heavy.run.gap_mean[0], heavy.gap / plain.gap);
        let share = 100.0 * heavy.run.negative_labels;
        let note = format!("draw {}: {share:.2} % negative labels, ratio {ratio:.3}", heavy.draw);
        (format!("c = {scale}, {noise}"), Point::new(start, ratio, note))
    });
    let series = grouped(Style::Points, points);
    let (x, y) = (Axis::logarithmic("F(x_0) − F*"), Axis::logarithmic("best DP-HB / best DP-GD"));
    let chart = Chart::new("best DP-HB over best DP-GD, draw by draw", "", x, y, series);
    (!chart.series.is_empty()).then(|| Panel::chart(&chart.title.clone(), "", chart))
}

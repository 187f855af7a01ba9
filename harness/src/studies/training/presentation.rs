//! The presentation of studies of private training: a table of every panel with the published numbers, and charts of the
//! panels with an axis.

use super::{Metric, Options, Panel, Setting};
use crate::experiment::{Definition, text};
use crate::format::{count, number, percent, seconds, three_digits};
use crate::grouping::{by_key, distinct};
use crate::report::{
    Axis, Chart, Entry, Figure, Format, Panel as Picture, Part, Point, Presentation, Scale, Style, Table, grouped,
    sentence_of_guarantees,
};
use crate::studies::exponents::fit;

/// The title that the definition gives, or its name and its data sets.
fn title(definition: &Definition<Options>) -> String {
    definition.options().title.clone().unwrap_or_else(|| {
        let datasets = distinct(definition.problems.iter().map(|problem| &*problem.dataset));
        format!("{}: {}", definition.name, datasets.join(", "))
    })
}

/// The presentation of the study. Of swept parameters the best combination is shown.
pub(super) fn present(definition: &Definition<Options>, panels: &[Panel<'_>]) -> Presentation {
    let options = definition.options();
    let level = format!("{} %", three_digits(100.0 * options.level));
    let source =
        if options.source.is_empty() { String::new() } else { format!("; published numbers: {}", options.source) };
    let over = if definition.draws > 1 { "draws" } else { "runs" };
    let means = format!("Means over {over} with their {level} intervals");
    let is_swept = panels.iter().flat_map(|panel| &panel.settings).any(|setting| !setting.best);
    let swept = if is_swept { " Swept parameters show their best combination." } else { "" };
    let about = format!("{means}{source}.{swept}");
    let title = title(definition);
    let mut presentation = Presentation::new(&title, "Private training", &about);
    let pictures = (1..).zip(panels).flat_map(|(number, panel)| charts(panel, number, &means));
    let pictures: Vec<Picture> = pictures.collect();
    if !pictures.is_empty() {
        let figure = Figure::new(&title, "Panel", pictures);
        presentation.parts.push(Part::Figure(figure));
    }
    for panel in panels {
        presentation.parts.push(Part::Heading(panel.label.clone()));
        // The sentence says δ and the relation.
        let (table, _) = table(panel).without_shared_columns(&["δ", "relation"]);
        presentation.parts.extend(Part::table(table, &["runs", "clipped", "ε"]));
        let statements = best(panel).map(|setting| &setting.runs[0].privacy);
        presentation.parts.extend(sentence_of_guarantees(statements).map(Part::Text));
        let left_out = panel.left_out.iter().map(|reason| format!("Left out: {reason}"));
        let left_out: Vec<String> = left_out.collect();
        presentation.parts.extend((!left_out.is_empty()).then_some(Part::List(left_out)));
        if panel.problem.axis.as_deref() == Some("rows") {
            presentation.parts.push(Part::Table(growth(panel)));
        }
    }
    presentation
}

fn best<'p, 'r>(panel: &'p Panel<'r>) -> impl Iterator<Item = &'p Setting<'r>> {
    panel.settings.iter().filter(|setting| setting.best)
}

/// A row for each method and place on the axis, in the order of places.
fn table(panel: &Panel<'_>) -> Table {
    let metric = match panel.metric {
        Metric::TestAccuracy => "#test accuracy (%)",
        Metric::ExcessRisk => "#excess population risk",
        Metric::ExcessObjective => "#F − F*",
    };
    let axis = panel.problem.axis.as_deref().unwrap_or_default();
    let target = panel.problem.target.map_or_else(String::new, three_digits);
    let columns = format!(
        "method|#{axis}|{metric}|#final risk F|#accuracy|#runs|#published|#difference|#rounds to {target}|#queries to {target}|\
         #rounds|#queries|#clipped|#time of a run|#ε|#δ|relation|#noise multiplier|chosen"
    );
    let mut table = Table::new(&panel.label, &columns);
    let mut rows: Vec<&Setting<'_>> = best(panel).collect();
    let same_method = |a: &&Setting<'_>, b: &&Setting<'_>| {
        a.cell.configuration.label_of_method() == b.cell.configuration.label_of_method()
    };
    for of_method in rows.chunk_by_mut(same_method) {
        let place = |setting: &Setting<'_>| setting.cell.axis.unwrap_or_default();
        of_method.sort_by(|a, b| place(a).total_cmp(&place(b)));
    }
    for setting in rows {
        table.row(row(panel, setting));
    }
    table.without_empty_columns()
}

fn row(panel: &Panel<'_>, setting: &Setting<'_>) -> [Entry; 19] {
    let decimals = |value: f64| match panel.metric {
        Metric::TestAccuracy => format!("{value:.2}"),
        Metric::ExcessRisk | Metric::ExcessObjective => three_digits(value),
    };
    let (mean, first) = (setting.mean, setting.runs[0]);
    let (published, published_interval) = setting.cell.published;
    let of_paper = |value: f64| {
        let half = published_interval.map_or_else(String::new, |half| format!(" ± {half:.2}"));
        format!("{value:.2}{half}")
    };
    let reached = setting.to_target();
    let to_target = |value: Option<u64>| match (panel.problem.target, value) {
        (None, _) => Entry::default(),
        (_, None) => Entry::text("not reached"),
        (_, Some(value)) => Entry::number(value as f64, count),
    };
    let configuration = &setting.cell.configuration;
    let own = configuration.of_algorithm();
    let rivals = || panel.settings.iter().filter(|rival| setting.competes_with(rival));
    let is_swept =
        |name: &str, value| rivals().any(|rival| rival.cell.configuration.parameters.get(name) != Some(value));
    let swept = own.iter().filter(|(name, value)| is_swept(name, value));
    let mut chosen: Vec<String> =
        swept.map(|(name, value)| format!("{name} {}", value.as_f64().map_or_else(|| text(value), number))).collect();
    if rivals().any(|rival| rival.cell.configuration.batch_size != configuration.batch_size) {
        chosen.push(format!("batch {}", configuration.batch_size));
    }
    let objective = first.objective.map(|_| setting.mean_of(&|run| run.objective.unwrap_or(f64::NAN)));
    let accuracy = first.test_accuracy.filter(|_| panel.metric == Metric::ExcessObjective);
    let accuracy = accuracy.map(|_| setting.mean_of(&|run| run.test_accuracy.unwrap_or(f64::NAN)));
    let epsilon = first.privacy_number("epsilon");
    let adjacency = first.privacy["adjacency"].as_str().unwrap_or_default();
    let half = mean.ends().map(|(low, high)| format!(" ± {}", decimals(0.5 * (high - low))));
    [
        Entry::text(configuration.label_of_method()),
        Entry::number(setting.cell.axis, number),
        Entry::sorted(decimals(mean.value) + &half.unwrap_or_default(), mean.value),
        Entry::number(objective, |value| format!("{value:.4}")),
        Entry::number(accuracy, percent),
        Entry::count(setting.runs.len()),
        Entry::number(published, of_paper),
        Entry::number(published.map(|value| mean.value - value), |value| format!("{value:+.2}")),
        to_target(reached.map(|(rounds, _)| rounds)),
        to_target(reached.map(|(_, queries)| queries)),
        Entry::number(setting.mean_of(&|run| run.rounds as f64), count),
        Entry::number(setting.mean_of(&|run| run.gradient_queries as f64), count),
        Entry::number(setting.mean_of(&|run| run.clipped), |share| format!("{:.0} %", 100.0 * share)),
        Entry::number(setting.seconds(), seconds),
        match epsilon {
            _ if panel.problem.axis.as_deref() == Some("epsilon") => Entry::default(),
            None => Entry::text("∞"),
            Some(epsilon) => Entry::number(epsilon, three_digits),
        },
        Entry::number(first.privacy_number("delta").filter(|_| epsilon.is_some()), |delta| format!("{delta:e}")),
        Entry::text(adjacency),
        Entry::number(first.privacy_number("noise_multiplier"), three_digits),
        Entry::text(chosen.join(", ")),
    ]
}

/// Growth of rounds, queries and risk with n: exponents of power laws through three places or more, each with the 95 % interval
/// of the misfit. Cells with fewer runs than the others are unfinished and left out.
fn growth(panel: &Panel<'_>) -> Table {
    let columns = "method|#rounds ~ n^ (95 %)|#queries ~ n^ (95 %)|#excess risk ~ n^ (95 %)";
    let mut table = Table::new("Growth with n", columns);
    let most = panel.settings.iter().map(|setting| setting.runs.len()).max();
    let settings = panel.settings.iter();
    for (method, mut own) in by_key(settings.map(|setting| (setting.cell.configuration.label_of_method(), setting))) {
        own.retain(|setting| setting.best && Some(setting.runs.len()) == most);
        let slope = |value: &dyn Fn(&Setting<'_>) -> f64| {
            let row = |setting: &&Setting<'_>| Some((vec![setting.cell.axis?], value(setting)));
            let exponents = fit(&own.iter().filter_map(row).collect::<Vec<_>>());
            let exponent = exponents.map(|exponents| exponents[0]).filter(|own| own.value.is_finite());
            exponent.map_or_else(Entry::default, |own| Entry::sorted(own.to_string(), own.value))
        };
        table.row([
            Entry::text(method),
            slope(&|one| one.mean_of(&|run| run.rounds as f64)),
            slope(&|one| one.mean_of(&|run| run.gradient_queries as f64)),
            slope(&|one| one.mean.value),
        ]);
    }
    table
}

/// The charts of a panel with an axis: accuracy, or risk with the seconds and rounds of a run.
fn charts(panel: &Panel<'_>, place: usize, subtitle: &str) -> Vec<Picture> {
    let Some(axis) = &panel.problem.axis else {
        return Vec::new();
    };
    let chart = |suffix: &str, y: Axis, value: &dyn Fn(&Setting<'_>) -> (f64, Option<(f64, f64)>)| {
        let format = y.format;
        let mut shown: Vec<&Setting<'_>> = best(panel).collect();
        shown.sort_by(|a, b| a.cell.axis.partial_cmp(&b.cell.axis).expect("places are numbers"));
        let points = shown.into_iter().filter_map(|outcome| {
            let (x, (y, interval)) = (outcome.cell.axis?, value(outcome));
            let method = outcome.cell.configuration.label_of_method();
            let note = format!("{method} at {}: {}", number(x), format.show(y));
            Some((method.to_owned(), Point { interval, ..Point::new(x, y, note) }))
        });
        let title = format!("{}{}", panel.label, suffix.replace('-', ", "));
        let chart = Chart::new(&title, subtitle, Axis::logarithmic(axis), y, grouped(Style::Line, points));
        Picture::chart(&title, &format!("panel-{place}{suffix}"), chart)
    };
    match panel.metric {
        // An interval of few runs may end outside of 0 to 100 %.
        Metric::TestAccuracy => vec![chart("", Axis::linear("test accuracy (%)"), &|outcome| {
            (outcome.mean.value, outcome.mean.ends().map(|(low, high)| (low.max(0.0), high.min(100.0))))
        })],
        Metric::ExcessRisk | Metric::ExcessObjective => vec![
            chart("", Axis::logarithmic("excess risk"), &|outcome| (outcome.mean.value, outcome.mean.ends())),
            chart(
                "-seconds",
                Axis::new("time of a run, one thread", Scale::Logarithmic, Format::Seconds),
                &|outcome| (outcome.seconds(), None),
            ),
            chart("-rounds", Axis::logarithmic("adaptive rounds"), &|outcome| {
                (outcome.mean_of(&|run| run.rounds as f64), None)
            }),
        ],
    }
}

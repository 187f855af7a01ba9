//! The page of a run: key numbers, figures, the studies below its folder, every cell, and the
//! machine.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::cells;
use super::figures::{self, Drawn, dataset_name, of_most_threads};
use super::labels::{Labels, phases};
use super::studies::Studies;
use super::warnings;
use crate::drawing::presentation::Figure;
use crate::drawing::shell::{Section, page};
use crate::experiment::left_out;
use crate::format::{count, minus, of_limit, plural, three_digits, time};
use crate::machine::Environment;
use crate::results::{Phases, Pooled, Run, pool};
use crate::statistics::median;

/// The page of a run with the studies below its folder.
pub fn report_html(run: &Run, studies: &Studies) -> String {
    let environment = &run.environment;
    let cells = pool(&run.results.samples);
    if let ([(_, alone)], true) = (&studies.presentations[..], run.results.is_empty()) {
        return alone.page(environment);
    }
    let suites: BTreeSet<&str> = cells.iter().map(|cell| cell.configuration().suite.as_str()).collect();
    let suites = suites.into_iter().collect::<Vec<_>>().join(", ");
    let title = match studies.presentations.len() {
        studies if run.results.is_empty() => plural(studies, "study"),
        _ => format!("Cost of a round: {suites}"),
    };
    let overview = overview(run, studies, &cells, &title);
    let mut sections = vec![Section::new("overview", "Overview", overview)];
    sections.extend(figure_sections(&cells, environment));
    let of_cells = |section: Section| (!cells.is_empty()).then_some(section);
    sections.extend(studies.sections());
    sections
        .extend(not_measured(run).map(|html| Section::folded("not-measured", "Not measured", "Not measured", &html)));
    let all_cells = html! {
        p.lead {
            "Every configuration, with pooled repeats. A heading sorts; several words filter by all of them."
        }
        (cells::all(&cells).html("all-cells", true))
    };
    sections.extend(of_cells(Section::folded("cells", "All cells", "All cells", &all_cells)));
    sections.push(Section::folded("machine", "Machine", "The machine", &machine(environment)));
    let footer = html! {
        "Measured " (environment.date.strftime("%Y-%m-%d %H:%M UTC")) " by " code { (environment.command) }
        " (revision " (environment.build.short_revision()) "); page by " code { "rounds report" }
        ". All repeats are in measurements.csv, the raw samples in measurements.jsonl of the same folder."
    };
    page(&format!("rounds: {title} on {}, {}", environment.machine.id, environment.day()), &sections, &footer)
}

/// Key numbers, the table of algorithms, and warnings.
fn overview(run: &Run, studies: &Studies, cells: &[Pooled], title: &str) -> Markup {
    let environment = &run.environment;
    let datasets: BTreeSet<String> = cells.iter().map(dataset_name).collect();
    let shared = Labels::of(cells.iter().map(Pooled::configuration)).shared();
    let typical = key_cells(cells);
    let topology = &environment.machine.topology;
    html! {
        h1 { (title) }
        p.lead {
            (topology.processor) " on " (plural(topology.cores, "core")) ", " (environment.date.strftime("%-d %B %Y")) "."
            @if !cells.is_empty() {
                " " (plural(cells.len(), "configuration")) " of " (plural(figures::algorithms(cells).len(), "algorithm"))
                " on " (plural(datasets.len(), "data set")) ", " (plural(run.results.samples.len(), "measurement"))
                " in all" @if !shared.is_empty() { "; " (shared) } "."
            }
        }
        @if !cells.is_empty() {
            dl.tiles {
                @for (name, value, about) in key_numbers(cells) {
                    div { dt { (name) } dd { (value) small { (about) } } }
                }
            }
        }
        (notes(run, studies, cells))
        @if let Some(first) = typical.first() {
            h2 {
                "The algorithms at batch size " (count(first.configuration().batch_size as f64)) ", "
                (plural(first.configuration().threads, "thread"))
            }
            (cells::of_algorithms(&typical).html("typical", true))
            p.circumstances {
                "Phases:"
                @for (part, (name, _)) in phases(&Phases::default()).iter().enumerate() {
                    @if part > 0 { "," } " " span.phase { i class={ "key s" (part) } {} (name) }
                }
                ". Of roofline: the least time of a round, max(operations / peak, bytes / bandwidth), over its time; the median of \
                the rounds. The peak is the measured one of the instructions that the kernels use, f32 multiply-adds or int8 \
                products; the bandwidth is that of the smallest cache that holds the data set, or of memory. Limit: the nearer \
                of both."
            }
        }
    }
}

/// The cells of the most threads at the batch size nearest to 500 that most algorithms have.
pub(super) fn key_cells(cells: &[Pooled]) -> Vec<&Pooled> {
    let mut cells = of_most_threads(cells);
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for cell in &cells {
        *sizes.entry(cell.configuration().batch_size).or_default() += 1;
    }
    let most = sizes.values().copied().max();
    let sizes = sizes.into_iter().filter(|(_, count)| Some(*count) == most);
    let size = sizes.map(|(size, _)| size).min_by_key(|size| size.abs_diff(500));
    cells.retain(|cell| Some(cell.configuration().batch_size) == size);
    cells
}

fn key_numbers(cells: &[Pooled]) -> Vec<(&'static str, String, String)> {
    let labels = Labels::of(cells.iter().map(Pooled::configuration));
    let describe = |cell: &Pooled| {
        let configuration = cell.configuration();
        let (name, size) = (labels.name(configuration), count(configuration.batch_size as f64));
        format!("{name}, batch size {size}, {}", plural(configuration.threads, "thread"))
    };
    let least = |value: &dyn Fn(&Pooled) -> f64| cells.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
    let share = |cell: &Pooled| cell.cell.rates.roofline_fraction;
    let mut numbers = Vec::new();
    if let (Some(round), Some(epoch)) = (least(&Pooled::median), least(&Pooled::epoch_seconds)) {
        numbers.push(("Fastest round", time(round.median()), describe(round)));
        numbers.push(("Fastest epoch", time(epoch.epoch_seconds() * 1e9), describe(epoch)));
    }
    if let Some(best) = least(&|cell| -share(cell).unwrap_or(f64::NEG_INFINITY))
        && let Some(share) = share(best)
    {
        numbers.push(("Best share of the roofline", of_limit(share), describe(best)));
    }
    // The cost of privacy: dp-sgd compared with sgd, all else equal. At one batch size it is that of the noise of the machine.
    let most = of_most_threads(cells);
    let place = |cell: &Pooled| (dataset_name(cell), cell.configuration().batch_size);
    let of = |id: &'static str| most.iter().filter(move |cell| cell.configuration().algorithm == id);
    let ratio = |private: &&Pooled| {
        let plain = of("sgd").find(|plain| place(plain) == place(private))?;
        Some(private.median() / plain.median())
    };
    let ratios: Vec<f64> = of("dp-sgd").filter_map(ratio).collect();
    if !ratios.is_empty() {
        let about = format!("dp-sgd over sgd, median over {}", plural(ratios.len(), "cell"));
        numbers.push(("Private over plain round", format!("{} ×", three_digits(median(&ratios))), about));
    }
    numbers
}

/// Disturbances of the machine, suspicious samples, messages about the files.
fn notes(run: &Run, studies: &Studies, cells: &[Pooled]) -> Markup {
    let threads = cells.iter().map(|cell| cell.configuration().threads).max().unwrap_or(1);
    let mut lines = warnings::lines(cells, &run.environment, threads);
    if !run.results.rejected.is_empty() {
        lines.push(format!(
            "{} diverged or failed verification, so the time is not kept (see Not measured)",
            plural(run.results.rejected.len(), "run")
        ));
    }
    lines.extend(run.messages.iter().chain(&studies.messages).cloned());
    html! {
        @if !lines.is_empty() {
            div.notes { h3 { "Read with care" } ul { @for line in &lines { li { (minus(line)) } } } }
        }
    }
}

/// The configurations without a measurement, with the reason; `None` if there are none.
fn not_measured(run: &Run) -> Option<Markup> {
    let skipped = left_out(run.results.skipped.iter().map(|(cell, reason)| (cell.key(), reason.clone())));
    let rejected = left_out(run.results.rejected.iter().map(|((key, _), reason)| (key.clone(), reason.clone())));
    (skipped.len() + rejected.len() > 0).then(|| {
        html! {
            p.lead {
                "Skipped: an impossible combination. Rejected: the run diverged, or its result failed verification."
            }
            ul {
                @for line in &skipped { li { "Skipped: " (line) } }
                @for line in &rejected { li { "Rejected: " (line) } }
            }
        }
    })
}

fn machine(environment: &Environment) -> Markup {
    html! {
        p.lead {
            "Peaks and bandwidths are measured in the same run: f32 multiply-adds and int8 products from registers, reads from caches and \
             memory."
        }
        dl.sheet {
            @for (name, value) in environment.sheet() {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// The figures of the cells, each with a panel for each data set.
fn figure_sections(cells: &[Pooled], environment: &Environment) -> Vec<Section> {
    let lines = figures::lines(cells, environment);
    let section = |drawn: Drawn| {
        let Drawn { id, link, title, about, .. } = &drawn;
        let panels = drawn.panels(&lines);
        let figure = (!panels.is_empty()).then(|| Figure::new(title, panels))?;
        let html = html! { p.lead { (about) } (figure.html(id, &environment.command)) };
        // The first figure is the page's; the others are looked up.
        Some(if id == "time-per-round" {
            Section::new(id, link, html! { h2 { (title) } (html) })
        } else {
            Section::folded(id, link, title, &html)
        })
    };
    figures::drawn().into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::presentation::Presentation;
    use crate::machine::Known;
    use crate::results::{Binding, tests::cell};

    fn run(cells: Vec<crate::results::Cell>) -> Run {
        let environment = Environment::capture(&[]);
        Run {
            folder: "results".into(),
            binding: Binding::new(&environment, []),
            environment,
            results: cells.into_iter().collect(),
            messages: Vec::new(),
        }
    }

    #[test]
    fn the_page_loads_nothing_and_escapes_everything() {
        let mut run = run(vec![cell("dp-sgd", 64, 1, 0), cell("sgd", 64, 2, 0)]);
        run.environment.command = "rounds run '</script><script>alert(1)</script>'".into();
        run.environment.machine.topology.processor = Known(Some("<b>Evil</b>".into()));
        run.results.samples[0].configuration.dataset = "</script><img src=x>".into();
        let reason = "batch > n & \"more\"".to_owned();
        let configuration = run.results.samples[1].configuration.clone();
        run.results.skipped.push((configuration, reason));
        run.messages.push("cut off".into());
        let page = report_html(&run, &Studies::default());
        assert!(page.contains("default-src 'none'"));
        for forbidden in "<script>alert <img <b>Evil src=\"http href=\"http url( @import".split(' ') {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("batch &gt; n &amp; &quot;more&quot;") && page.contains("cut off"));
    }

    #[test]
    fn a_page_of_studies_has_their_titles_and_no_cells() {
        let mut studies = Studies::default();
        for (title, heading) in [("Rates", "<title>rounds: Rates</title>"), ("Bounds", "<h1>2 studies</h1>")] {
            let study = Presentation::new(title, "Papers", "");
            studies.presentations.push((title.to_owned(), study));
            let page = report_html(&run(Vec::new()), &studies);
            assert!(page.contains(heading) && page.contains("Rates"), "{page}");
            assert!(!page.contains("configurations") && !page.contains("Cost of a round"));
        }
    }

    #[test]
    fn the_cost_of_privacy_is_a_median_over_batch_sizes() {
        let mut cells = Vec::new();
        for (size, factor) in [(64, 1), (500, 30), (2000, 2)] {
            cells.push(cell("sgd", size, 1, 0));
            let mut private = cells[cells.len() - 1].clone();
            private.configuration.algorithm = "dp-sgd".into();
            private.round_ns.samples.iter_mut().for_each(|time| *time *= factor);
            cells.push(private);
        }
        let (name, ratio, about) = key_numbers(&pool(&cells)).pop().unwrap();
        assert_eq!((name, &*ratio), ("Private over plain round", "2 ×"));
        assert!(about.contains("3 cells"));
    }

    #[test]
    fn figures_without_numbers_are_left_out() {
        let mut bare = cell("sgd", 64, 1, 0);
        (bare.rates.gflops, bare.rates.gbytes_per_s, bare.rates.roofline_fraction) = (None, None, None);
        (bare.quality.test_accuracy, bare.privacy) = (None, serde_json::Value::Null);
        let page = report_html(&run(vec![bare]), &Studies::default());
        let has = |id: &str| page.contains(&format!("id=\"{id}\""));
        assert!(has("time-per-round") && has("time-per-epoch"));
        assert!(!has("accuracy") && !has("roofline") && !has("speed-up"));
        assert!(!page.split("<script>").next().unwrap().contains("NaN"));
    }
}

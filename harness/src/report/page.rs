//! `report.html`: one file that needs nothing else. Style, script, figures and data are inside, and its own policy
//! forbids the browser to load anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::bars::Bars;
use super::chart::{CHART_STYLE, Chart, DARK_VARIABLES, NARROW, VARIABLES, WIDE};
use super::figures::{self, dataset_name, threads_name};
use super::format::{count, escape, percent, three_digits, time};
use super::peers::Peers;
use super::tables::{self, Entry, Table};
use super::training::{training_charts, training_html};
use crate::machine::{Environment, disturbances};
use crate::results::{Pooled, Run, pool, write_csv};
use crate::studies::private_training::Study;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a run.
pub fn report_html(run: &Run) -> String {
    report_html_with(run, &[])
}

/// The page of a run with the studies of private training that lie beside it.
pub fn report_html_with(run: &Run, studies: &[Study]) -> String {
    let cells = pool(&run.cells);
    let environment = &run.environment;
    let suites: BTreeSet<&str> = cells.iter().map(|cell| cell.configuration().suite.as_str()).collect();
    let suites = suites.into_iter().collect::<Vec<_>>().join(", ");
    let mut figures = sections(&cells, environment);
    let trainings = training_charts(studies);
    if !trainings.is_empty() {
        figures.push(Section {
            id: "accuracy",
            link: "Accuracy and risk",
            about: "Means over runs with their intervals, from the studies of private training that lie beside the cells.",
            panels: trainings
                .into_iter()
                .map(|(label, chart)| (label, Picture::Chart(chart)))
                .collect(),
        });
    }
    let peers = Peers::beside(&run.folder);
    if let Some(charts) = peers.as_ref().map(Peers::charts).filter(|charts| !charts.is_empty()) {
        figures.push(Section {
            id: "peers",
            link: "Other libraries",
            about: "A DP-SGD round here and in the libraries that people use, the same work on the same threads in one run of \
                    bench/peers/run.py; whiskers are bootstrap intervals of the median.",
            panels: charts.into_iter().map(|(label, chart)| (label, Picture::Chart(chart))).collect(),
        });
    }
    let mut links = vec![("overview", "Overview"), ("machine", "Machine")];
    links.extend(figures.iter().map(|section| (section.id, section.link)));
    if !studies.is_empty() {
        links.push(("training", "Private training"));
    }
    links.push(("cells", "All cells"));
    let navigation = links.iter().fold(String::new(), |mut html, (id, name)| {
        let _ = write!(html, "<a href=\"#{id}\">{name}</a>");
        html
    });
    let mut measurements = Vec::new();
    // Writing to memory cannot fail; an empty table would say so at once.
    let _ = write_csv(&run.cells, &mut measurements);
    let measurements = escape(&String::from_utf8_lossy(&measurements));

    let mut page = String::with_capacity(1 << 20);
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data: blob:\">\
         <link rel=\"icon\" href=\"data:,\">\
         <title>rounds: {suites} on {machine}, {day}</title>\
         <style>:root{{{VARIABLES}}}@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{DARK_VARIABLES}}}}}\
         :root[data-theme=dark]{{{DARK_VARIABLES}}}{STYLE}</style><style id=\"chart-style\">{CHART_STYLE}\
         .chart .group{{fill:var(--ink);font-weight:600;font-size:13px}}</style></head><body>\
         <a class=\"skip\" href=\"#overview\">To the results</a>\
         <header class=\"bar\"><div><b>rounds</b><nav aria-label=\"Sections\">{navigation}</nav>\
         <button id=\"theme\" type=\"button\" hidden>theme: auto</button></div></header><main>",
        suites = escape(&suites),
        machine = escape(&environment.machine.id),
        day = environment.day(),
    );
    overview(run, &cells, &suites, &mut page);
    machine(environment, &mut page);
    for section in &figures {
        section.html(environment, &mut page);
    }
    page.push_str(&peers.as_ref().map(Peers::html).unwrap_or_default());
    page.push_str(&training_html(studies));
    let _ = write!(
        page,
        "<section id=\"cells\"><h2>All cells</h2><p class=\"lead\">Every configuration, its repeats pooled. A heading \
         sorts; several words filter by all of them.</p>\
         <div class=\"filter\"><label for=\"filter\">Filter</label><input id=\"filter\" type=\"search\" \
         placeholder=\"dp-sgd 2000\" aria-controls=\"all-cells\"><output for=\"filter\"></output>\
         <span class=\"tools\"><button type=\"button\" data-save=\"measurements\">CSV of all repeats</button></span></div>{}\
         </section><footer>Measured {} by <code>{}</code> (revision {}); page by <code>rounds report</code>. Raw samples \
         lie beside it in measurements.jsonl.</footer></main>\
         <pre id=\"measurements\" hidden>{measurements}</pre><script>{SCRIPT}</script></body></html>",
        tables::of_cells(&cells).html(Some("all-cells"), "All cells", true),
        environment.date.strftime("%Y-%m-%d %H:%M UTC"),
        escape(&environment.command),
        escape(&environment.build.short_revision()),
    );
    page
}

/// Headline numbers, the table of algorithms, and what to distrust.
fn overview(run: &Run, cells: &[Pooled], suites: &str, page: &mut String) {
    let environment = &run.environment;
    let algorithms: BTreeSet<String> = cells.iter().map(|cell| cell.configuration().label()).collect();
    let datasets: BTreeSet<String> = cells.iter().map(dataset_name).collect();
    let _ = write!(
        page,
        "<section id=\"overview\"><h1>What a round costs: {}</h1><p class=\"lead\">{} on {}, {}. {} configurations of {} \
         on {}, {} measurements in all.</p>",
        escape(suites),
        escape(&environment.machine.topology.processor.to_string()),
        escape(&plural(environment.machine.topology.cores, "core")),
        environment.date.strftime("%-d %B %Y"),
        cells.len(),
        plural(algorithms.len(), "algorithm"),
        plural(datasets.len(), "data set"),
        run.cells.len(),
    );
    if cells.is_empty() {
        page.push_str("<p class=\"notes\">No cell is finished yet.</p></section>");
        return;
    }
    page.push_str("<dl class=\"tiles\">");
    for (name, value, about) in headlines(cells) {
        let _ = write!(
            page,
            "<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>",
            escape(&name),
            escape(&value),
            escape(&about)
        );
    }
    page.push_str("</dl>");

    let typical = typical_cells(cells);
    if let Some(first) = typical.first() {
        let configuration = first.configuration();
        let batch_size = count(configuration.batch_size as f64);
        let _ = write!(
            page,
            "<h2>The algorithms at batch size {batch_size}, {}</h2>{}",
            threads_name(configuration.threads),
            tables::of_algorithms(&typical).html(Some("algorithms"), "Algorithms", false)
        );
    }
    notes(run, cells, page);
    page.push_str("</section>");
}

/// The cells of the most threads at the batch size nearest to 500, which every algorithm has.
fn typical_cells(cells: &[Pooled]) -> Vec<&Pooled> {
    let Some(threads) = cells.iter().map(|cell| cell.configuration().threads).max() else {
        return Vec::new();
    };
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.configuration().threads == threads) {
        *sizes.entry(cell.configuration().batch_size).or_default() += 1;
    }
    let most = sizes.values().copied().max().unwrap_or(0);
    let size = sizes
        .into_iter()
        .filter(|(_, count)| *count == most)
        .map(|(size, _)| size)
        .min_by_key(|size| size.abs_diff(500));
    cells
        .iter()
        .filter(|cell| cell.configuration().threads == threads && Some(cell.configuration().batch_size) == size)
        .collect()
}

fn headlines(cells: &[Pooled]) -> Vec<(String, String, String)> {
    let describe = |cell: &Pooled| {
        let configuration = cell.configuration();
        let batch_size = count(configuration.batch_size as f64);
        format!(
            "{}, batch size {batch_size}, {}",
            configuration.label(),
            threads_name(configuration.threads)
        )
    };
    let mut headlines = Vec::new();
    if let Some(fastest) = cells.iter().min_by(|a, b| a.median().total_cmp(&b.median())) {
        headlines.push(("Fastest round".into(), time(fastest.median()), describe(fastest)));
    }
    if let Some(fastest) = cells
        .iter()
        .min_by(|a, b| a.epoch_seconds().total_cmp(&b.epoch_seconds()))
    {
        headlines.push((
            "Fastest epoch".into(),
            time(fastest.epoch_seconds() * 1e9),
            describe(fastest),
        ));
    }
    let share = |cell: &&Pooled| cell.cell.roofline_fraction.unwrap_or(f64::NEG_INFINITY);
    if let Some(best) = cells.iter().max_by(|a, b| share(a).total_cmp(&share(b)))
        && let Some(share) = best.cell.roofline_fraction
    {
        headlines.push(("Best share of the roofline".into(), percent(share), describe(best)));
    }
    // What privacy costs: dp-sgd beside sgd, all else equal, at the typical batch.
    let typical = typical_cells(cells);
    let of = |algorithm: &str| typical.iter().find(|cell| cell.configuration().algorithm == algorithm);
    if let (Some(plain), Some(private)) = (of("sgd"), of("dp-sgd")) {
        let ratio = format!("{} ×", three_digits(private.median() / plain.median()));
        headlines.push(("Private over plain round".into(), ratio, describe(private)));
    }
    headlines
}

/// Disturbances of the machine, doubtful samples, skipped and rejected cells, messages about the files.
fn notes(run: &Run, cells: &[Pooled], page: &mut String) {
    let environment = &run.environment;
    let threads = cells.iter().map(|cell| cell.configuration().threads).max().unwrap_or(1);
    let mut lines: Vec<String> = disturbances(
        &environment.machine,
        &environment.state,
        &environment.build.profile,
        threads,
    )
    .iter()
    .map(ToString::to_string)
    .collect();
    let mut doubtful: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for warning in cells.iter().flat_map(|cell| &cell.warnings) {
        let (number, example) = doubtful
            .entry(warning.name())
            .or_insert_with(|| (0, warning.to_string()));
        *number += 1;
        if *number == 1 {
            *example = warning.to_string();
        }
    }
    lines.extend(
        doubtful
            .into_values()
            .map(|(number, example)| format!("{}: {example}", plural(number, "cell"))),
    );
    lines.extend(run.messages.iter().cloned());
    if !lines.is_empty() {
        page.push_str("<div class=\"notes\"><h3>Read with care</h3><ul>");
        for line in lines {
            let _ = write!(page, "<li>{}</li>", escape(&line));
        }
        page.push_str("</ul></div>");
    }
    let mut table = Table::new(vec![("configuration", false), ("outcome", false), ("reason", false)]);
    for (outcome, list) in [("skipped", &run.skipped), ("rejected", &run.rejected)] {
        for (configuration, reason) in list {
            table.row(vec![
                Entry::text(&configuration.key()),
                Entry::text(outcome),
                Entry::text(reason),
            ]);
        }
    }
    if !table.is_empty() {
        let _ = write!(
            page,
            "<h2>Not measured</h2>{}",
            table.html(Some("not-measured"), "Not measured", true)
        );
    }
}

/// The experiment sheet.
fn machine(environment: &Environment, page: &mut String) {
    let (topology, state, build) = (&environment.machine.topology, &environment.state, &environment.build);
    let size = |bytes: u64| {
        let (value, unit) = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
            .into_iter()
            .find(|(shift, _)| bytes >> shift > 0)
            .map_or((bytes as f64, "B"), |(shift, unit)| {
                (bytes as f64 / f64::from(1_u32 << shift), unit)
            });
        format!("{} {unit}", three_digits(value))
    };
    let caches: Vec<String> = topology
        .caches
        .iter()
        .map(|cache| {
            let kind = if cache.kind == "unified" { "" } else { &cache.kind[..1] };
            let bytes = cache.size_bytes.0.map_or_else(|| "unknown".into(), size);
            format!("L{}{kind} {} × {bytes}", cache.level, cache.count)
        })
        .collect();
    let megahertz = |value: Option<f64>| value.map_or_else(|| "unknown".into(), |value| format!("{value:.0} MHz"));
    let mut rows: Vec<(String, String)> = [
        ("machine", environment.machine.id.clone()),
        ("processor", topology.processor.to_string()),
        (
            "cores",
            format!(
                "{}, {}, {}",
                plural(topology.cores, "core"),
                plural(topology.hardware_threads, "hardware thread"),
                plural(topology.numa_nodes.len(), "NUMA node")
            ),
        ),
        ("caches", caches.join(", ")),
        ("memory", topology.memory_bytes.0.map_or_else(|| "unknown".into(), size)),
        ("built for", build.isa.clone()),
        ("governor", state.governor.to_string()),
        (
            "frequency",
            format!(
                "{}, maximum {}",
                megahertz(state.frequency_mhz.0),
                megahertz(state.maximum_frequency_mhz.0)
            ),
        ),
        (
            "turbo",
            state
                .turbo
                .0
                .map_or("unknown", |on| if on { "on" } else { "off" })
                .into(),
        ),
        ("virtualisation", state.virtualisation.to_string()),
        (
            "load before",
            state.load.0.map_or_else(|| "unknown".into(), three_digits),
        ),
        ("pinning", environment.pinning.to_string()),
        ("huge pages", state.huge_pages.to_string()),
        ("kernel", state.kernel.to_string()),
        ("revision", build.short_revision()),
        ("compiler", format!("{}, {}", build.rustc, build.profile)),
        (
            "flags",
            if build.rustflags.is_empty() {
                "none".into()
            } else {
                build.rustflags.clone()
            },
        ),
        ("command", environment.command.clone()),
        ("date", environment.date.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    rows.extend(environment.rooflines.iter().map(|limit| {
        let value = format!(
            "{:.0} GFLOP/s, {:.1} GB/s",
            limit.peak_gflops, limit.bandwidth_gbytes_per_s
        );
        (threads_name(limit.threads), value)
    }));
    page.push_str(
        "<section id=\"machine\"><h2>The machine</h2><p class=\"lead\">Peak and bandwidth are measured: f32 \
         multiply-adds from registers, and reads from memory.</p><dl class=\"sheet\">",
    );
    for (name, value) in rows {
        let _ = write!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(&name), escape(&value));
    }
    page.push_str("</dl></section>");
}

/// A figure with its panels, one for each data set.
struct Section {
    id: &'static str,
    link: &'static str,
    about: &'static str,
    panels: Vec<(String, Picture)>,
}

enum Picture {
    Chart(Chart),
    Bars(Bars),
}

fn sections(cells: &[Pooled], environment: &Environment) -> Vec<Section> {
    let mut datasets: Vec<String> = Vec::new();
    for cell in cells {
        let name = dataset_name(cell);
        if !datasets.contains(&name) {
            datasets.push(name);
        }
    }
    let panels = |draw: &dyn Fn(&[&Pooled]) -> Option<Picture>| -> Vec<(String, Picture)> {
        datasets
            .iter()
            .filter_map(|dataset| {
                let cells: Vec<&Pooled> = cells.iter().filter(|cell| dataset_name(cell) == *dataset).collect();
                Some((dataset.clone(), draw(&cells)?))
            })
            .collect()
    };
    let section = |id, link, about, draw: &dyn Fn(&[&Pooled]) -> Option<Picture>| Section {
        id,
        link,
        about,
        panels: panels(draw),
    };
    let sections = [
        section(
            "time-per-round",
            "Time per round",
            "Median time of one adaptive round; whiskers span 10 % to 90 % of the rounds. Dotted: the least time that the \
             machine allows, max(bytes / bandwidth, flops / peak).",
            &|cells| Some(Picture::Chart(figures::time_per_round(cells, environment))),
        ),
        section(
            "phases",
            "Phases",
            "Where the time of a round goes: drawing the batch, gradients with clipping, drawing noise, updating the model. \
             On the right, the median time of the whole round.",
            &|cells| figures::phases(cells, environment).map(Picture::Bars),
        ),
        section(
            "time-per-epoch",
            "Time per epoch",
            "Time of one pass over the data: n / batch size rounds. Small batches pay the fixed costs of a round more often.",
            &|cells| Some(Picture::Chart(figures::time_per_epoch(cells, environment))),
        ),
        section(
            "accuracy",
            "Accuracy and ε",
            "Accuracy on the test data against the ε of the run, as its privacy statement gives it. Dotted: the best \
             without privacy.",
            &|cells| figures::accuracy(cells, environment).map(Picture::Chart),
        ),
        section(
            "speed-up",
            "Speed-up",
            "The same round on one thread, divided by its time on more.",
            &|cells| figures::speed_up(cells, environment).map(Picture::Chart),
        ),
        section(
            "roofline",
            "Roofline",
            "Every round as a kernel: flops a second against flops for each byte of rows it reads. Above the slope, rows \
             came from a cache.",
            &|cells| figures::roofline(cells, environment).map(Picture::Chart),
        ),
    ];
    sections
        .into_iter()
        .filter(|section| !section.panels.is_empty())
        .collect()
}

impl Section {
    fn html(&self, environment: &Environment, page: &mut String) {
        let title = match &self.panels[0].1 {
            Picture::Chart(chart) => &chart.title,
            Picture::Bars(bars) => &bars.title,
        };
        let _ = write!(
            page,
            "<section id=\"{0}\"><h2>{1}</h2><p class=\"lead\">{2}</p><figure id=\"figure-{0}\" data-title=\"{1}\">",
            self.id,
            escape(title),
            escape(self.about)
        );
        if self.panels.len() > 1 {
            page.push_str("<fieldset class=\"panels\"><legend>Data set</legend>");
            for (number, (name, _)) in self.panels.iter().enumerate() {
                let checked = if number == 0 { " checked" } else { "" };
                let _ = write!(
                    page,
                    "<label><input type=\"radio\" name=\"{}-panel\"{checked}><span>{}</span></label>",
                    self.id,
                    escape(name)
                );
            }
            page.push_str("</fieldset>");
        }
        for (name, picture) in &self.panels {
            let (legend, wide, narrow, table, subtitle) = match picture {
                Picture::Chart(chart) => (
                    chart
                        .series
                        .iter()
                        .map(|series| (series.name.clone(), series.sample()))
                        .collect::<Vec<_>>(),
                    chart.inline_svg(WIDE),
                    chart.inline_svg(NARROW),
                    tables::of_chart(chart),
                    &chart.subtitle,
                ),
                Picture::Bars(bars) => (
                    bars.parts
                        .iter()
                        .enumerate()
                        .map(|(part, name)| ((*name).to_string(), Bars::sample(part)))
                        .collect(),
                    bars.inline_svg(WIDE),
                    bars.inline_svg(NARROW),
                    tables::of_bars(bars),
                    &bars.subtitle,
                ),
            };
            page.push_str("<div class=\"panel\"><div class=\"legend\" role=\"group\" aria-label=\"Series\">");
            for (number, (name, sample)) in legend.iter().enumerate() {
                let _ = write!(
                    page,
                    "<button type=\"button\" aria-pressed=\"true\" data-series=\"{number}\"><svg class=\"chart\" \
                     viewBox=\"0 -6 28 12\" aria-hidden=\"true\">{sample}</svg>{}</button>",
                    escape(name)
                );
            }
            let _ = write!(
                page,
                "</div>{}{}<p class=\"circumstances\">{}</p>\
                 <div class=\"tools\"><button type=\"button\" data-save=\"csv\">CSV</button>\
                 <button type=\"button\" data-save=\"svg\">SVG</button><button type=\"button\" data-save=\"png\">PNG</button>\
                 <code>{}</code></div><details><summary>Data of this figure: {}</summary>{}</details></div>",
                wide.replacen("class=\"chart\"", "class=\"chart wide\"", 1),
                narrow.replacen("class=\"chart\"", "class=\"chart narrow\"", 1),
                escape(subtitle),
                escape(&environment.command),
                escape(name),
                table.html(None, "Data of this figure", true)
            );
        }
        page.push_str("</figure></section>");
    }
}

fn plural(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Known;
    use crate::results::{Binding, store_tests::cell};

    fn run(cells: Vec<crate::results::Cell>) -> Run {
        let environment = Environment::capture(&[]);
        Run {
            folder: "results".into(),
            binding: Binding::new(&environment, []),
            environment,
            cells,
            skipped: Vec::new(),
            rejected: Vec::new(),
            messages: Vec::new(),
        }
    }

    #[test]
    fn the_page_asks_nothing_of_the_network_and_lets_nothing_in() {
        let mut run = run(vec![cell("dp-sgd", 64, 1, 0), cell("sgd", 64, 2, 0)]);
        run.environment.command = "rounds run '</script><script>alert(1)</script>'".into();
        run.environment.machine.topology.processor = Known(Some("<b>Evil</b>".into()));
        run.cells[0].configuration.dataset = "</script><img src=x>".into();
        run.skipped
            .push((run.cells[1].configuration.clone(), "batch > n & \"more\"".into()));
        run.messages.push("cut off".into());
        let page = report_html(&run);
        assert!(page.contains("default-src 'none'"));
        for forbidden in [
            "<script>alert",
            "<img",
            "<b>Evil",
            "src=\"http",
            "href=\"http",
            "url(",
            "@import",
        ] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("batch &gt; n &amp; &quot;more&quot;") && page.contains("cut off"));
    }

    #[test]
    fn an_unfinished_run_has_a_page_too() {
        let page = report_html(&run(Vec::new()));
        assert!(page.contains("No cell is finished yet") && page.contains("The machine"));
    }

    #[test]
    fn cells_without_rates_accuracy_or_privacy_are_drawn_as_far_as_they_go() {
        let mut bare = cell("sgd", 64, 1, 0);
        (
            bare.gflops,
            bare.gbytes_per_s,
            bare.roofline_fraction,
            bare.test_accuracy,
        ) = (None, None, None, None);
        bare.privacy = serde_json::Value::Null;
        let page = report_html(&run(vec![bare]));
        assert!(page.contains("id=\"time-per-round\"") && page.contains("id=\"phases\""));
        assert!(
            !page.contains("id=\"accuracy\"") && !page.contains("id=\"roofline\"") && !page.contains("id=\"speed-up\"")
        );
        assert!(!page.split("<script>").next().unwrap().contains("NaN"));
    }
}

//! The page of a run: headlines, a card for each algorithm, figures, the studies beside it, every cell, and the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::beside::Beside;
use super::cards::cards;
use super::doubts::doubts;
use super::figures::{self, dataset_name, threads_name};
use super::format::{count, escape, percent, three_digits, time};
use super::labels::Labels;
use super::peers::Peers;
use super::section::{Picture, Section};
use super::shell::Page;
use super::tables::{self, Entry, Table};
use crate::kernel_rates::KernelRate;
use crate::machine::{Environment, disturbances};
use crate::results::{Pooled, Run, pool, write_csv};

/// The page of a run.
pub fn report_html(run: &Run) -> String {
    report_html_with(run, &Beside::default())
}

/// The page of a run with the studies that lie beside it.
pub fn report_html_with(run: &Run, beside: &Beside) -> String {
    let cells = pool(&run.cells);
    let environment = &run.environment;
    let suites: BTreeSet<&str> = cells.iter().map(|cell| cell.configuration().suite.as_str()).collect();
    let suites = suites.into_iter().collect::<Vec<_>>().join(", ");
    let section = |id: &str, link: &str, html: String| (id.to_owned(), link.to_owned(), html);
    let mut sections = vec![section("overview", "Overview", overview(run, beside, &cells, &suites))];
    sections.extend(
        figures_of(&cells, environment, &beside.kernels)
            .iter()
            .map(Section::rendered),
    );
    sections.push(section("algorithms", "Algorithms", cards(&cells, environment)));
    sections.extend(Peers::beside(&run.folder).map(|peers| peers.section()));
    sections.extend(beside.sections());
    sections.extend(doubts(&cells).map(|html| section("doubtful", "Doubtful samples", html)));
    sections.extend(not_measured(run).map(|html| section("not-measured", "Not measured", html)));
    sections.push(section(
        "cells",
        "All cells",
        format!(
            "<h2>All cells</h2><p class=\"lead\">Every configuration, its repeats pooled. A heading sorts; several words \
             filter by all of them.{}</p>{}<div class=\"tools\"><button type=\"button\" data-save=\"measurements\">CSV of all \
             repeats</button></div>",
            tables::about_roofline(&cells, environment),
            tables::of_cells(&cells).html(Some("all-cells"), "All cells", true)
        ),
    ));
    sections.push(section("machine", "Machine", machine(environment)));
    let mut measurements = Vec::new();
    // Writing to memory cannot fail; an empty table would say so at once.
    let _ = write_csv(&run.cells, &mut measurements);
    Page {
        title: format!("rounds: {suites} on {}, {}", environment.machine.id, environment.day()),
        sections,
        footer: format!(
            "Measured {} by <code>{}</code> (revision {}); page by <code>rounds report</code>. Raw samples lie beside it in \
             measurements.jsonl.",
            environment.date.strftime("%Y-%m-%d %H:%M UTC"),
            escape(&environment.command),
            escape(&environment.build.short_revision()),
        ),
        measurements: String::from_utf8_lossy(&measurements).into_owned(),
    }
    .html()
}

/// Headline numbers, the table of algorithms, and what to distrust.
fn overview(run: &Run, beside: &Beside, cells: &[Pooled], suites: &str) -> String {
    let environment = &run.environment;
    let algorithms: BTreeSet<&str> = cells
        .iter()
        .map(|cell| cell.configuration().algorithm.as_str())
        .collect();
    let datasets: BTreeSet<String> = cells.iter().map(dataset_name).collect();
    let shared = Labels::of(cells.iter().map(Pooled::configuration)).shared();
    let mut page = format!(
        "<h1>What a round costs{}{}</h1><p class=\"lead\">{} on {}, {}. {} of {} on {}, {} in all{}.</p>",
        if suites.is_empty() { "" } else { ": " },
        escape(suites),
        escape(&environment.machine.topology.processor.to_string()),
        escape(&plural(environment.machine.topology.cores, "core")),
        environment.date.strftime("%-d %B %Y"),
        plural(cells.len(), "configuration"),
        plural(algorithms.len(), "algorithm"),
        plural(datasets.len(), "data set"),
        plural(run.cells.len(), "measurement"),
        if shared.is_empty() {
            shared
        } else {
            format!("; {}", escape(&shared))
        },
    );
    if cells.is_empty() {
        page.push_str("<p class=\"notes\">No cell is finished yet, or measurements.jsonl is not here.</p>");
        notes(run, beside, cells, &mut page);
        return page;
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
            "<h2>The algorithms at batch size {batch_size}, {}</h2>{}<p class=\"circumstances\">Of roofline: the least time \
             that the measured peak of f32 multiply-adds and bandwidth of memory allow a round, max(flops / peak, bytes / \
             bandwidth), over its time; the median of the rounds.{}</p>",
            threads_name(configuration.threads),
            tables::of_algorithms(&typical).html(Some("typical"), "Algorithms", false),
            tables::about_roofline(cells, environment)
        );
    }
    notes(run, beside, cells, &mut page);
    page
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
    let labels = Labels::of(cells.iter().map(Pooled::configuration));
    let describe = |cell: &Pooled| {
        let configuration = cell.configuration();
        let batch_size = count(configuration.batch_size as f64);
        format!(
            "{}, batch size {batch_size}, {}",
            labels.name(configuration),
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
        headlines.push(("Best share of the f32 roofline".into(), percent(share), describe(best)));
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

/// Disturbances of the machine, doubtful samples, messages about the files.
fn notes(run: &Run, beside: &Beside, cells: &[Pooled], page: &mut String) {
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
    let failed = run.rejected.len();
    if failed > 0 {
        lines.push(format!(
            "{}: the answer failed verification, so the time is not kept (see Not measured)",
            plural(failed, "cell")
        ));
    }
    lines.extend(run.messages.iter().chain(&beside.messages).cloned());
    if !lines.is_empty() {
        page.push_str("<div class=\"notes\"><h3>Read with care</h3><ul>");
        for line in lines {
            let _ = write!(page, "<li>{}</li>", escape(&line));
        }
        page.push_str("</ul></div>");
    }
}

/// What was asked for and not measured, with the reason; nothing where everything was.
fn not_measured(run: &Run) -> Option<String> {
    // Configurations with one reason are one line: an algorithm, a data set, and the batch sizes and threads.
    let mut groups: BTreeMap<(&str, &str, &str, &str), (BTreeSet<usize>, BTreeSet<usize>)> = BTreeMap::new();
    for (outcome, list) in [("skipped", &run.skipped), ("rejected", &run.rejected)] {
        for (configuration, reason) in list {
            let (sizes, threads) = groups
                .entry((outcome, &configuration.algorithm, &configuration.dataset, reason))
                .or_default();
            sizes.insert(configuration.batch_size);
            threads.insert(configuration.threads);
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut table = Table::new(vec![
        ("algorithm", false),
        ("data", false),
        ("batch", false),
        ("threads", false),
        ("outcome", false),
        ("reason", false),
    ]);
    let list = |values: &BTreeSet<usize>| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for ((outcome, algorithm, dataset, reason), (sizes, threads)) in &groups {
        table.row(vec![
            Entry::link(algorithm, &super::cards::anchor(algorithm)),
            Entry::text(dataset),
            Entry::text(&list(sizes)),
            Entry::text(&list(threads)),
            Entry::text(outcome),
            Entry::text(reason),
        ]);
    }
    Some(format!(
        "<h2>Not measured</h2><p class=\"lead\">Skipped: a combination that cannot be. Rejected: measured, but the answer \
         failed verification.</p>{}",
        table.html(Some("skipped-cells"), "Not measured", true)
    ))
}

/// The experiment sheet.
fn machine(environment: &Environment) -> String {
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
            "{:.0} GFLOP/s (f32 FMA), {:.1} GB/s",
            limit.peak_gflops, limit.bandwidth_gbytes_per_s
        );
        (threads_name(limit.threads), value)
    }));
    let mut page =
        "<h2>The machine</h2><p class=\"lead\">Peak and bandwidth are measured on the spot: f32 multiply-adds from \
                    registers, and reads from memory.</p><dl class=\"sheet\">"
            .to_owned();
    for (name, value) in rows {
        let _ = write!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(&name), escape(&value));
    }
    page.push_str("</dl>");
    page
}

/// The figures of the cells, each with a panel for each data set.
fn figures_of(cells: &[Pooled], environment: &Environment, kernels: &[KernelRate]) -> Vec<Section> {
    let mut datasets: Vec<String> = Vec::new();
    for cell in cells {
        let name = dataset_name(cell);
        if !datasets.contains(&name) {
            datasets.push(name);
        }
    }
    // What was measured most is seen first.
    datasets.sort_by_key(|name| std::cmp::Reverse(cells.iter().filter(|cell| dataset_name(cell) == *name).count()));
    let panels = |draw: &dyn Fn(&[&Pooled]) -> Option<Picture>| -> Vec<(String, Picture)> {
        datasets
            .iter()
            .filter_map(|dataset| {
                let cells: Vec<&Pooled> = cells.iter().filter(|cell| dataset_name(cell) == *dataset).collect();
                Some((dataset.clone(), draw(&cells)?))
            })
            .collect()
    };
    let section = |id: &str, link: &str, about: &str, draw: &dyn Fn(&[&Pooled]) -> Option<Picture>| Section {
        id: id.to_owned(),
        link: link.to_owned(),
        about: about.to_owned(),
        panels_by: "Data set",
        panels: panels(draw),
        command: environment.command.clone(),
    };
    let chart = |(chart, legend)| Picture::Chart(chart, legend);
    let mut sections = [
        section(
            "time-per-round",
            "Time per round",
            "Median time of one adaptive round; whiskers span 10 % to 90 % of the rounds. Dotted: the least time that the \
             machine allows with f32 multiply-adds, max(bytes / bandwidth, flops / peak).",
            &|cells| Some(chart(figures::time_per_round(cells, environment))),
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
            "Time of one pass over the data: n / batch size rounds, of batches that shrink as many as their mean size asks for. \
             Small batches pay the fixed costs of a round more often.",
            &|cells| Some(chart(figures::time_per_epoch(cells, environment))),
        ),
        section(
            "accuracy",
            "Accuracy and ε",
            "Accuracy on the test data against the ε of the run, as its privacy statement gives it. Dotted: the best \
             without privacy.",
            &|cells| figures::accuracy(cells, environment).map(chart),
        ),
        section(
            "speed-up",
            "Speed-up",
            "The same round on one thread, divided by its time on more.",
            &|cells| figures::speed_up(cells, environment).map(chart),
        ),
        section(
            "roofline",
            "Roofline",
            "Every round as a kernel: flops a second against flops for each byte of rows it reads. Points above the slope read \
             rows from a cache; points above the level compute with narrower numbers than f32.",
            &|cells| figures::roofline(cells, environment).map(chart),
        ),
    ];
    if let Some(drawn) = figures::kernels(kernels, environment) {
        sections[5].panels.push(("kernels, 1 thread".to_owned(), chart(drawn)));
    }
    sections
        .into_iter()
        .filter(|section| !section.panels.is_empty())
        .collect()
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

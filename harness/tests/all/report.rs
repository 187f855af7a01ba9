//! The report in a real browser: figures and tables are there, series switch, tables sort and filter, and nothing is
//! asked of the network. Where no Chromium is installed the browser tests say so and pass.
//!
//! With ROUNDS_SCREENSHOTS set to a folder, pictures for looking at are left there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use rounds::drawing::{Entry, Part, Presentation, Table};
use rounds::report::{Studies, report_html, time_per_round_svg};
use rounds::results::{Record, read_run};

use crate::synthetic::{Plan, environment, write_run};

const FIGURES: [&str; 5] = ["time-per-round", "time-per-epoch", "accuracy", "speed-up", "roofline"];

fn plan() -> Plan<'static> {
    Plan {
        algorithms: &["sgd", "dp-sgd", "dp-ftrl", "accelerated-dp-srg"],
        datasets: &["synthetic-mnist", "mnist"],
        batch_sizes: &[64, 256, 500, 2000, 8000, 60_000],
        repeats: 3,
        noise: 0.03,
        factor: &|_, _| 1.0,
        seed: 1,
    }
}

/// Starts Chromium on a page with arguments; what it prints. `None` where there is none.
fn chromium(page: &Path, arguments: &[&str]) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
                 --hide-scrollbars --virtual-time-budget=2000";
    let output = Command::new("chromium")
        .args(flags.split_whitespace())
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output();
    if output.is_err() {
        println!("skipped: chromium is not installed");
    }
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

/// The page with a script behind its own, which writes what it finds into the title; `$` selects.
fn examined(page: &str, script: &str) -> String {
    let select = "const $ = (s) => [...document.querySelectorAll(s)];";
    page.replace("</body>", &format!("<script>{select}{script}</script></body>"))
}

fn page() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let cells = plan().cells();
    let mut store = write_run(folder.path(), &cells);
    let mut impossible = cells[0].configuration.clone();
    impossible.batch_size = 100_000;
    let skipped =
        Record::Skipped { configuration: impossible, reason: "batch size 100000 is larger than n = 60000".into() };
    store.append(skipped).unwrap();
    let page = report_html(&read_run(folder.path()).unwrap(), &Studies::default());
    (folder, page)
}

/// Checks what a script finds in a page: the JSON that it leaves in the title. Nothing is checked where there is no browser.
fn examine(folder: &Path, page: &str, script: &str, check: impl FnOnce(serde_json::Value)) {
    let path = folder.join("examined.html");
    fs::write(&path, examined(page, script)).unwrap();
    if let Some(dom) = chromium(&path, &["--dump-dom", "--window-size=1200,900"]) {
        check(title_of(&dom));
    }
}

/// The JSON in the title of a page.
fn title_of(dom: &str) -> serde_json::Value {
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let title = title.expect("a title");
    let text = title.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).expect(title)
}

/// The picture of times of these algorithms.
fn picture(algorithms: &[&str]) -> String {
    let plan = Plan { algorithms, datasets: &["synthetic-mnist"], ..plan() };
    time_per_round_svg(&plan.cells(), &environment())
}

#[test]
fn the_picture_of_times_names_algorithms_threads_and_the_roofline_once() {
    let svg = picture(&["sgd", "dp-sgd"]);
    let names = ">sgd<|>dp-sgd<|>1 thread<|>2 threads<|>roofline, 2 threads<";
    for text in names.split('|').chain(["batch size", "median time per round", "revision"]) {
        // Names stand in the legend once; marks name them again, with their numbers.
        let once = text.starts_with('>');
        let count = svg.matches(text).count();
        assert!(if once { count == 1 } else { count > 0 }, "{count} of {text}");
    }
    if let Some(folder) = std::env::var_os("ROUNDS_SCREENSHOTS") {
        fs::write(Path::new(&folder).join("time-per-round.svg"), svg).unwrap();
    }
}

#[test]
fn of_many_algorithms_the_picture_draws_one_of_each_family_and_says_so() {
    let algorithms = "sgd dp-sgd dp-ftrl dp-memf dp-mf dp-mf-plus pgd anti-pgd dp-srg-memf dp-nag";
    let svg = picture(&algorithms.split(' ').collect::<Vec<_>>());
    let said = svg.contains("5 of 10 algorithms on 2 threads, one of each family");
    assert!(said, "the subtitle says what is left out");
    assert!(svg.contains(">dp-nag<") && !svg.contains(">anti-pgd<") && !svg.contains(">1 thread<"));
}

#[test]
fn figures_and_tables_stand_in_the_loaded_page_and_work() {
    let (folder, page) = page();
    let script = r"
        const facts = {};
        facts.figures = $('figure').map((f) => f.id).join(' ');
        facts.drawn = $('figure .panel:not([hidden]) svg.chart.wide').filter((s) => s.getBoundingClientRect().height > 100).length;
        facts.points = $('#figure-time-per-round .panel:not([hidden]) svg.wide .point').length;
        facts.rows = $('#all-cells tbody tr').length;
        const off = () => $('#figure-time-per-round .panel:not([hidden]) svg.wide .series.off').length;
        const button = (name) => $('#figure-time-per-round .panel:not([hidden]) .legend button').find((b) => b.textContent === name);
        button('dp-sgd').click();
        facts.switched = off();
        facts.pressed = button('dp-sgd').getAttribute('aria-pressed');
        button('1 thread').click();
        facts.both = off();
        button('dp-sgd').click();
        button('1 thread').click();
        facts.again = off();
        const input = document.querySelector('#cells .filter input');
        input.value = 'dp-ftrl 2000';
        input.dispatchEvent(new Event('input'));
        facts.filtered = $('#all-cells tbody tr').filter((r) => !r.hidden).length;
        const head = $('#all-cells th button').find((b) => b.textContent === 'time per round');
        const column = head.closest('th').cellIndex;
        const ordered = (sign) => {
            const values = $('#all-cells tbody tr').map((r) => Number(r.cells[column].dataset.value));
            return values.every((v, k) => k === 0 || sign * (v - values[k - 1]) >= 0);
        };
        head.click(); facts.ascending = ordered(1);
        head.click(); facts.descending = ordered(-1);
        facts.sorted = head.closest('th').getAttribute('aria-sort');
        $('#figure-time-per-round .panels input')[1].click();
        facts.panel = $('#figure-time-per-round .panel').map((p) => p.hidden).join(' ');
        facts.ids = $('[id]').length === new Set($('[id]').map((e) => e.id)).size;
        facts.anchors = $('a[href^=\'#\']').every((a) => document.getElementById(a.hash.slice(1)));
        facts.loads = performance.getEntriesByType('resource').length;
        facts.overflow = document.documentElement.scrollWidth <= innerWidth;
        document.title = JSON.stringify(facts);
    ";
    let figures = FIGURES.map(|figure| format!("figure-{figure}")).join(" ");
    let expected = serde_json::json!({
        "figures": figures,
        "drawn": 5,
        "points": 4 * 2 * 6,
        "rows": 4 * 2 * 6 * 2,
        // One algorithm on two thread counts; then all of one thread too, its roofline among them.
        "switched": 2,
        "pressed": "false",
        "both": 6,
        "again": 0,
        // Two data sets, two thread counts.
        "filtered": 4,
        "ascending": true,
        "descending": true,
        "sorted": "descending",
        "panel": "true false",
        // An id names one thing, every link leads somewhere, and nothing is loaded from anywhere.
        "ids": true,
        "anchors": true,
        "loads": 0,
        "overflow": true,
    });
    examine(folder.path(), &page, script, |facts| assert_eq!(facts, expected));
    assert!(!page.contains("above 100 %"), "nothing to explain");
}

#[test]
fn the_keyboard_reaches_legends_marks_and_tables() {
    let (folder, page) = page();
    let script = r"
        const key = (target, name) => target.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
        const facts = {};
        const legend = $('#figure-time-per-round .panel:not([hidden]) .legend button');
        legend[0].focus();
        key(legend[0], 'ArrowRight');
        facts.next = document.activeElement === legend[1];
        document.activeElement.click();
        facts.switched = $('#figure-time-per-round .panel:not([hidden]) svg.wide .series.off').length > 0;
        const chart = document.querySelector('#figure-time-per-round .panel:not([hidden]) svg.wide');
        chart.focus();
        facts.focus = document.activeElement === chart;
        key(chart, 'ArrowRight');
        const first = document.getElementById('tip').textContent;
        key(chart, 'ArrowRight');
        const second = document.getElementById('tip').textContent;
        facts.told = first.includes('at 64') && second.includes('at 256');
        key(chart, 'ArrowDown');
        facts.other = document.getElementById('tip').textContent.split('\n')[0] !== second.split('\n')[0];
        facts.status = document.getElementById('tip').getAttribute('role');
        facts.unreachable = $('button, input, .scroll').filter((e) => e.tabIndex < 0).length;
        facts.unnamed = $('button, input').filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length))).length;
        document.title = JSON.stringify(facts);
    ";
    let expected = serde_json::json!({
        "next": true, "switched": true, "focus": true, "told": true, "other": true, "status": "status", "unreachable": 0,
        "unnamed": 0
    });
    examine(folder.path(), &page, script, |facts| assert_eq!(facts, expected));
}

#[test]
fn every_figure_saves_its_numbers_as_csv_and_its_picture_as_svg_and_png() {
    let (folder, page) = page();
    // What would be saved is caught where the page makes a link to it.
    let script = r"
        const saved = [];
        HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
        const sizes = [];
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { sizes.push([blob.type, blob.size]); return make(blob); };
        const buttons = $('figure .tools button[data-save]').filter((button) => button.dataset.save !== 'table');
        buttons.forEach((button) => button.click());
        const panels = $('figure .panel').length;
        setTimeout(() => { document.title = JSON.stringify({ saved, sizes, panels }); }, 1500);
    ";
    examine(folder.path(), &page, script, |facts| {
        let saved: BTreeSet<&str> =
            facts["saved"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
        // Each panel has names of its own.
        let panels = facts["panels"].as_u64().unwrap() as usize;
        assert!(panels > FIGURES.len() && saved.len() == 3 * panels, "{panels} panels, {saved:?}");
        for figure in FIGURES {
            for kind in ["csv", "svg", "png"] {
                let file = format!("{figure}-1-mnist-u8.{kind}");
                assert!(saved.contains(&*file), "{file} in {saved:?}");
            }
        }
        let sizes = facts["sizes"].as_array().unwrap();
        let is_large = |size: &&serde_json::Value| size[1].as_u64() > Some(500);
        for kind in ["text/csv", "image/svg+xml", "image/png"] {
            let number = sizes.iter().filter(is_large).filter(|size| size[0] == kind).count();
            assert_eq!(number, panels, "{kind}");
        }
    });
}

#[test]
fn a_saved_table_holds_the_words_in_its_columns_of_numbers() {
    let mut table = Table::new("Rounds", "method|#T");
    table.rows.extend((0..20).map(|row| vec![Entry::text("sgd"), Entry::count(row)]));
    table.row([Entry::text("pgd"), Entry::text("not reached")]);
    let mut presentation = Presentation::new("Study", "Study", "");
    presentation.parts = vec![Part::Table(table)];
    let script = r"
        HTMLAnchorElement.prototype.click = () => {};
        URL.createObjectURL = (blob) => {
            blob.text().then((text) => { document.title = JSON.stringify(text.trim().split('\n').slice(-2)); });
            return 'blob:x';
        };
        document.querySelector('button[data-save=table]').click();
    ";
    let folder = tempfile::tempdir().unwrap();
    let page = presentation.page(&environment());
    examine(folder.path(), &page, script, |rows| assert_eq!(rows, serde_json::json!(["sgd,19", "pgd,not reached"])));
}

#[test]
fn rounds_at_their_limit_stay_inside_the_roofline_figure() {
    let folder = tempfile::tempdir().unwrap();
    let mut cells = plan().cells();
    for cell in &mut cells {
        cell.rates.gflops = cell.rates.gflops.map(|gflops| 5.0 * gflops);
        cell.rates.roofline_fraction = cell.rates.roofline_fraction.map(|share| 5.0 * share);
    }
    write_run(folder.path(), &cells);
    let run = read_run(folder.path()).unwrap();
    let page = report_html(&run, &Studies::default());
    assert!(page.contains("f32 multiply-adds 260 GFLOP/s and memory 26 GB/s, 2 threads"));
    assert!(page.contains("100 % (at the limit)"), "no share above 1 is shown");
    let script = r"
        const chart = document.querySelector('#figure-roofline .panel:not([hidden]) svg.wide');
        const outer = chart.getBoundingClientRect();
        const inside = [...chart.querySelectorAll('.mark')].every((mark) => {
            const box = mark.getBoundingClientRect();
            return box.top >= outer.top && box.bottom <= outer.bottom && box.left >= outer.left && box.right <= outer.right;
        });
        const level = Math.min(...[...chart.querySelectorAll('.reference .path')].map((p) => p.getBoundingClientRect().top));
        const highest = Math.min(...[...chart.querySelectorAll('.mark')].map((m) => m.getBoundingClientRect().top));
        const ticks = [...chart.querySelectorAll('text')].map((t) => t.textContent).some((t) => Number(t) >= 500);
        document.title = JSON.stringify({ inside, above: highest < level, ticks });
    ";
    let expected = serde_json::json!({"inside": true, "above": true, "ticks": true});
    examine(folder.path(), &page, script, |facts| assert_eq!(facts, expected));
}

/// What a script finds in pages, each at every width of a window, by page and width (a headless window has a least width, frames have not): the
/// script ends in `tell(facts)`. One browser shows all of them. `None` where there is none.
fn framed(
    folder: &Path,
    pages: &[(String, String)],
    widths: &[u32],
    script: &str,
) -> Option<Vec<Vec<serde_json::Value>>> {
    let tell = "const tell = (facts) => parent.postMessage([Number(name), facts], '*');";
    let mut frames = String::new();
    for (number, (_, page)) in pages.iter().enumerate() {
        fs::write(folder.join(format!("framed-{number}.html")), examined(page, &format!("{tell}{script}"))).unwrap();
        for (place, width) in widths.iter().enumerate() {
            let (name, style) = (number * widths.len() + place, format!("width:{width}px;height:844px;border:0"));
            let source = format!("src=\"framed-{number}.html\"");
            frames.extend(["<iframe name=\"", &name.to_string(), "\" ", &source, " style=\"", &style, "\"></iframe>"]);
        }
    }
    let frame = folder.join("frame.html");
    let text = format!(
        "<!doctype html><title>waiting</title><script>const told = [];onmessage = (e) => {{told[e.data[0]] = e.data[1];\
         if (Object.keys(told).length === {}) document.title = JSON.stringify(told)}}</script>{frames}",
        pages.len() * widths.len()
    );
    fs::write(&frame, text).unwrap();
    let dom = chromium(&frame, &["--dump-dom", "--window-size=1600,900"])?;
    let told: Vec<serde_json::Value> = serde_json::from_value(title_of(&dom)).unwrap();
    Some(told.chunks(widths.len()).map(<[_]>::to_vec).collect())
}

#[test]
fn a_phone_shows_the_narrow_figures_without_scrolling_sideways() {
    let (folder, page) = page();
    let script = r"
        const wide = $('svg.wide').filter((s) => s.getBoundingClientRect().width > 0).length;
        const narrow = $('figure .panel:not([hidden]) svg.narrow').filter((s) => s.getBoundingClientRect().width > 300).length;
        const names = $('td:first-child').filter((cell) => getComputedStyle(cell).position !== 'sticky').length;
        const overflow = document.documentElement.scrollWidth > innerWidth;
        HTMLAnchorElement.prototype.click = () => {};
        URL.createObjectURL = (blob) => {
            blob.text().then((text) => {
                const svg = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
                const of = (name) => [...svg.querySelectorAll(name)].map((text) => text.textContent);
                const conditions = of('.subtitle').join(' ').includes('60\u202f000');
                tell({ wide, narrow, width: innerWidth, overflow, names, saved: svg.getAttribute('width'), title: of('.title'), conditions });
            });
            return 'blob:x';
        };
        document.querySelector('button[data-save=svg]').click();
    ";
    // A saved picture is the wide one, with its conditions.
    let expected = serde_json::json!({
        "wide": 0, "narrow": 5, "width": 390, "overflow": false, "names": 0, "saved": "1180",
        "title": ["Time per round against batch size: mnist (u8)"], "conditions": true,
    });
    if let Some(facts) = framed(folder.path(), &[("run".to_owned(), page)], &[390], script) {
        assert_eq!(facts, [[expected]]);
    }
}

/// Words without an end, cells of many words.
fn unruly() -> (String, Presentation) {
    let words = "faster than another one from 3.62 ms on, ".repeat(12);
    let name = "5".repeat(400);
    let mut presentation = Presentation::new(&name, "Study", &words);
    words.clone_into(&mut presentation.command);
    let rows = (0..20).map(|row| vec![Entry::text(&words), Entry::count(row)]);
    let mut table = Table::new(&name, "method|#seconds");
    table.rows.extend(rows);
    presentation.parts = vec![Part::Heading(name.clone()), Part::Table(table), Part::List(vec![name])];
    ("study".to_owned(), presentation)
}

/// The newest studies of this repository's results; none in a copy without them.
fn studies() -> Studies {
    let days = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../results"));
    let days = days.into_iter().flatten().flatten();
    let machines = days.filter_map(|day| fs::read_dir(day.path()).ok());
    let mut folders: Vec<_> = machines.flatten().flatten().map(|machine| machine.path()).collect();
    folders.sort();
    let mut found = folders.iter().rev().map(|folder| Studies::read(folder, &rounds::studies::present));
    found.find(|studies| studies.presentations.len() > 3).unwrap_or_default()
}

/// The pages of the studies.
fn pages_of(studies: &Studies) -> Vec<(String, String)> {
    let page = |(name, own): &(String, Presentation)| (name.replace('/', "-"), own.page(&environment()));
    studies.presentations.iter().map(page).collect()
}

#[test]
fn no_page_is_wider_than_its_window_and_what_is_wider_scrolls_in_its_own_box() {
    let (folder, _) = page();
    let run = read_run(folder.path()).unwrap();
    let mut studies = studies();
    let mut pages = pages_of(&studies);
    studies.presentations.push(unruly());
    studies.messages.push("y".repeat(400));
    pages.push(("run".to_owned(), report_html(&run, &studies)));
    let script = r"
        // Everything that a reader may open is open.
        $('.panel').forEach((panel) => { panel.hidden = false; });
        $('details').forEach((details) => { details.open = true; });
        const facts = { width: innerWidth, page: document.documentElement.scrollWidth };
        facts.loose = $('table').filter((table) => !table.closest('.scroll')).length;
        facts.outside = $('.scroll, .drawn, figure, .legend, .tools, .panels')
            .filter((box) => box.getBoundingClientRect().right > innerWidth + 0.5).length;
        facts.broken = $('td.number, th').filter((cell) => getComputedStyle(cell).whiteSpace !== 'nowrap').length;
        // Words of a table may stand in several lines; no cell of words asks for more than a window.
        facts.unbroken = $('td:not(.number)').filter((cell) => cell.getBoundingClientRect().width > innerWidth).length;
        const clipped = $('svg.chart').flatMap((chart) => {
            const outer = chart.getBoundingClientRect();
            const inside = (box) => box.left >= outer.left - 1 && box.right <= outer.right + 1 && box.top >= outer.top - 1 && box.bottom <= outer.bottom + 1;
            return [...chart.querySelectorAll('text')].filter((text) => !inside(text.getBoundingClientRect())).map((text) => text.textContent);
        });
        facts.clipped = clipped.slice(0, 5);
        facts.tables = $('table').length;
        tell(facts);
    ";
    let Some(told) = framed(folder.path(), &pages, &[1400, 390], script) else {
        return;
    };
    for ((name, _), told) in pages.iter().zip(told) {
        for (facts, width) in told.iter().zip([1400, 390]) {
            assert_eq!(facts["width"], width, "{name}");
            assert_eq!(facts["page"], width, "{name} scrolls sideways at {width}: {facts}");
            for fact in ["loose", "outside", "broken", "unbroken"] {
                assert_eq!(facts[fact], 0, "{fact} in {name} at {width}: {facts}");
            }
            assert_eq!(facts["clipped"], serde_json::json!([]), "{name} at {width}");
            assert!(*name != "run" || facts["tables"].as_u64() > Some(2), "{name}: {facts}");
        }
    }
}

#[test]
fn screenshots_for_looking_at() {
    let Some(target) = std::env::var_os("ROUNDS_SCREENSHOTS") else {
        return;
    };
    let (_folder, page) = page();
    let target = Path::new(&target);
    fs::write(target.join("report.html"), &page).unwrap();
    let dark = page.replace("<html lang=\"en\">", "<html lang=\"en\" data-theme=\"dark\">");
    fs::write(target.join("dark.html"), dark).unwrap();
    for (name, page) in pages_of(&studies()) {
        fs::write(target.join(format!("{name}.html")), page).unwrap();
    }
    for (name, width) in [("report", 1200), ("dark", 1200), ("phone", 390)] {
        let source = if name == "phone" { "report" } else { name };
        let frame = format!(
            "<!doctype html><body style=\"margin:0\"><iframe src=\"{source}.html\" \
             style=\"width:{width}px;height:5600px;border:0\"></iframe>"
        );
        let file = target.join(format!("{name}-frame.html"));
        fs::write(&file, frame).unwrap();
        let shot = format!("--screenshot={}", target.join(format!("{name}.png")).display());
        chromium(&file, &[&shot, &format!("--window-size={},5600", width.max(500))]);
    }
}

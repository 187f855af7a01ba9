//! The report in a real browser: figures and tables are there, series switch, tables sort and filter, and nothing is
//! asked of the network. Where no Chromium is installed the browser tests say so and pass.
//!
//! With ROUNDS_SCREENSHOTS set to a folder, pictures for looking at are left there.

mod synthetic;

use std::fs;
use std::path::Path;
use std::process::Command;

use rounds::report::{report_html, time_per_round_svg};
use rounds::results::{Record, read_run};
use synthetic::{Plan, environment, write_run};

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
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--hide-scrollbars",
            "--virtual-time-budget=2000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output();
    if output.is_err() {
        println!("skipped: chromium is not installed");
    }
    output
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The page with a script behind its own, which writes what it finds into the title.
fn examined(page: &str, script: &str) -> String {
    page.replace("</body>", &format!("<script>{script}</script></body>"))
}

fn page() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let cells = plan().cells();
    let mut store = write_run(folder.path(), &cells);
    let mut impossible = cells[0].configuration.clone();
    impossible.batch_size = 100_000;
    let reason = "batch size 100000 is larger than n = 60000".into();
    store
        .append(Record::Skipped {
            configuration: impossible,
            reason,
        })
        .unwrap();
    let page = report_html(&read_run(folder.path()).unwrap());
    (folder, page)
}

#[test]
fn the_picture_of_times_names_every_series_and_the_roofline() {
    let cells = Plan {
        algorithms: &["sgd", "dp-sgd"],
        datasets: &["synthetic-mnist"],
        ..plan()
    }
    .cells();
    let svg = time_per_round_svg(&cells, &environment());
    for text in [
        "sgd, 1 thread<",
        "dp-sgd, 2 threads<",
        "roofline, 2 threads<",
        "batch size",
        "median time per round",
        "revision",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    if let Some(folder) = std::env::var_os("ROUNDS_SCREENSHOTS") {
        fs::write(Path::new(&folder).join("time-per-round.svg"), svg).unwrap();
    }
}

#[test]
fn figures_and_tables_stand_in_the_loaded_page_and_work() {
    let (folder, page) = page();
    let script = r"
        const $ = (s) => [...document.querySelectorAll(s)];
        const facts = {};
        facts.figures = $('figure').map((f) => f.id).join(' ');
        facts.drawn = $('figure .panel:not([hidden]) svg.chart.wide').filter((s) => s.getBoundingClientRect().height > 100).length;
        facts.points = $('#figure-time-per-round .panel:not([hidden]) svg.wide .point').length;
        facts.rows = $('#all-cells tbody tr').length;
        const legend = $('#figure-time-per-round .panel:not([hidden]) .legend button');
        legend[0].click();
        facts.switched = $('#figure-time-per-round .panel:not([hidden]) svg.wide .series.off').length;
        facts.pressed = legend[0].getAttribute('aria-pressed');
        const filter = document.getElementById('filter');
        filter.value = 'dp-ftrl 2000';
        filter.dispatchEvent(new Event('input'));
        facts.filtered = $('#all-cells tbody tr').filter((r) => !r.hidden).length;
        const head = $('#all-cells th button').find((b) => b.textContent === 'time per round');
        const column = head.closest('th').cellIndex;
        const ordered = (sign) => {
            const values = $('#all-cells tbody tr').map((r) => Number(r.cells[column].dataset.value));
            return values.every((v, k) => k === 0 || sign * (v - values[k - 1]) >= 0);
        };
        head.click(); facts.ascending = ordered(1);
        head.click(); facts.descending = ordered(-1);
        $('#figure-time-per-round .panels input')[1].click();
        facts.panel = $('#figure-time-per-round .panel').map((p) => p.hidden).join(' ');
        facts.loads = performance.getEntriesByType('resource').length;
        facts.overflow = document.documentElement.scrollWidth <= innerWidth;
        document.title = JSON.stringify(facts);
    ";
    let path = folder.path().join("report.html");
    fs::write(&path, examined(&page, script)).unwrap();
    let Some(dom) = chromium(&path, &["--dump-dom", "--window-size=1200,900"]) else {
        return;
    };
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next())
        .expect("a title");
    let facts: serde_json::Value = serde_json::from_str(&title.replace("&quot;", "\"")).expect(title);
    assert_eq!(
        facts["figures"],
        "figure-time-per-round figure-phases figure-time-per-epoch figure-accuracy figure-speed-up figure-roofline"
    );
    assert_eq!(facts["drawn"], 6);
    assert_eq!(facts["points"], 4 * 2 * 6);
    assert_eq!(facts["rows"], 4 * 2 * 6 * 2);
    assert_eq!((&facts["switched"], &facts["pressed"]), (&1.into(), &"false".into()));
    // Two data sets, two thread counts.
    assert_eq!(facts["filtered"], 4);
    assert_eq!(
        (&facts["ascending"], &facts["descending"]),
        (&true.into(), &true.into())
    );
    assert_eq!(facts["panel"], "true false");
    assert_eq!(facts["loads"], 0, "nothing is loaded from anywhere");
    assert_eq!(facts["overflow"], true);
}

#[test]
fn a_phone_shows_the_narrow_figures_without_scrolling_sideways() {
    let (folder, page) = page();
    // Headless windows have a least width; a frame of 390 pixels has not.
    let path = folder.path().join("report.html");
    let script = r"
        const $ = (s) => [...document.querySelectorAll(s)];
        const wide = $('svg.wide').filter((s) => s.getBoundingClientRect().width > 0).length;
        const narrow = $('figure .panel:not([hidden]) svg.narrow').filter((s) => s.getBoundingClientRect().width > 300).length;
        parent.postMessage(JSON.stringify([wide, narrow, document.documentElement.scrollWidth, innerWidth]), '*');
    ";
    fs::write(&path, examined(&page, script)).unwrap();
    let frame = folder.path().join("frame.html");
    let text = "<!doctype html><title>waiting</title><script>onmessage=(e)=>{document.title=e.data}</script>\
                <iframe src=\"report.html\" style=\"width:390px;height:844px;border:0\"></iframe>";
    fs::write(&frame, text).unwrap();
    let Some(dom) = chromium(&frame, &["--dump-dom", "--window-size=800,900"]) else {
        return;
    };
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next())
        .expect("a title");
    let facts: Vec<u32> = serde_json::from_str(title).expect(title);
    assert_eq!(facts[..2], [0, 6], "{title}");
    assert!(facts[2] <= 390 && facts[3] == 390, "{title}");
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

//! The report in a real browser: figures and tables are there, and nothing is asked of the network.

mod synthetic;

use rounds::report::time_per_round_svg;
use synthetic::{Plan, environment};

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
        std::fs::write(std::path::Path::new(&folder).join("time-per-round.svg"), svg).unwrap();
    }
}

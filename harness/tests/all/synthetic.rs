//! A synthetic run, with the times of a model of the machine: for tests of results, report and comparison.

use std::path::Path;

use rounds::machine::{Environment, Roofline};
use rounds::results::{Binding, Cell, Mode, Phases, Rates, Record, RoundTimes, Store};
use rounds::statistics::Choices;
use serde_json::json;

use crate::cell::cell as plain;

/// The environment of this machine with limits that were not measured.
pub(crate) fn environment() -> Environment {
    let mut environment = Environment::capture(&[]);
    environment.rooflines = vec![Roofline::new(1, 130.0, 14.0), Roofline::new(2, 260.0, 26.0)];
    environment
}

/// The distance of a cell's times from a model of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Deviation {
    /// Factor of all times.
    pub(crate) factor: f64,
    /// Relative scatter.
    pub(crate) noise: f64,
    pub(crate) seed: u64,
}

/// A cell with times of a model of the machine.
pub(crate) fn cell(
    algorithm: &str,
    dataset: &str,
    batch_size: usize,
    threads: usize,
    repeat: usize,
    Deviation { factor, noise, seed }: Deviation,
) -> Cell {
    let mut choices = Choices::new(seed);
    let private = algorithm != "sgd";
    let (flops, bytes) = (31_360.0 * batch_size as f64, 784.0 * batch_size as f64);
    let limit = environment_roofline(threads).limit(None, f64::INFINITY);
    let roofline = limit.seconds(flops, bytes) * 1e9;
    let overhead = if private { 9_000.0 } else { 2_500.0 } + 1_500.0 * threads as f64;
    let work = match algorithm {
        "accelerated-dp-srg" => 1.55,
        "dp-ftrl" => 1.1,
        _ => 1.0,
    };
    let drift = 1.0 + noise * (2.0 * choices.uniform() - 1.0);
    let time = factor * drift * (overhead + work * roofline / 0.82);
    let mut sample = || {
        let slow = if choices.uniform() < 0.04 { 1.5 } else { 1.0 };
        (time * slow * (1.0 + noise * (choices.uniform() + choices.uniform() - 1.0))) as u64
    };
    let samples = (0..60).map(|_| sample()).collect();
    let round_ns = RoundTimes::new(samples);
    let median = round_ns.median as f64;
    let noise_ns = if private { 5_500.0 } else { 0.0 };
    let epsilon = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0][(batch_size / 400) % 6];
    let mut cell = plain(algorithm, batch_size, threads, repeat);
    cell.configuration.dataset = dataset.into();
    cell.configuration.features = "u8".into();
    let tree = (algorithm == "dp-ftrl").then(|| ("noise".to_owned(), json!("tree")));
    cell.configuration.parameters = tree.into_iter().collect();
    cell.work.rounds = 60;
    cell.work.gradient_queries = 60 * batch_size as u64;
    cell.work.timed_queries = 60 * batch_size as u64;
    cell.phases_ns = Phases {
        sample: (0.02 * median) as u64,
        gradient: (0.96 * median - noise_ns).max(0.3 * median) as u64,
        noise: noise_ns as u64,
        update: (0.02 * median) as u64,
    };
    cell.rates = Rates {
        gflops: Some(flops / median),
        gbytes_per_s: Some(bytes / median),
        roofline_fraction: Some(roofline / median),
        limit: Some(limit),
    };
    cell.round_ns = round_ns;
    cell.quality.train_loss = Some(0.35);
    cell.quality.test_accuracy = Some(if private { 0.9 - 0.03 / epsilon } else { 0.921 });
    cell.model_sha256 = format!("{algorithm}-{dataset}-{batch_size}");
    if private {
        cell.privacy = json!({
            "claim": "simulation", "epsilon": epsilon, "delta": 1e-5, "adjacency": "add-remove", "unit": "example",
            "accountant": "pld", "sampling": "poisson", "mechanism": "gaussian", "noise_multiplier": 1.1,
            "clip_norm": 1.0, "noise_source": "xoshiro", "arithmetic": "f32"
        });
    }
    cell
}

fn environment_roofline(threads: usize) -> Roofline {
    Roofline::new(threads, 130.0 * threads as f64, 13.0 * threads as f64)
}

/// What a run is made of.
pub(crate) struct Plan<'a> {
    pub(crate) algorithms: &'a [&'a str],
    pub(crate) datasets: &'a [&'a str],
    pub(crate) batch_sizes: &'a [usize],
    pub(crate) repeats: usize,
    /// Relative scatter.
    pub(crate) noise: f64,
    /// What each cell's time is multiplied by.
    pub(crate) factor: &'a dyn Fn(&str, usize) -> f64,
    pub(crate) seed: u64,
}

impl Plan<'_> {
    /// All cells of the plan on 1 and 2 threads.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for repeat in 0..self.repeats {
            for dataset in self.datasets {
                for algorithm in self.algorithms {
                    for &batch_size in self.batch_sizes {
                        for threads in [1, 2] {
                            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(cells.len() as u64);
                            let factor = (self.factor)(algorithm, batch_size);
                            let deviation = Deviation { factor, noise: self.noise, seed };
                            cells.push(cell(algorithm, dataset, batch_size, threads, repeat, deviation));
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Writes cells as a run into a folder.
pub(crate) fn write_run(folder: &Path, cells: &[Cell]) -> Store {
    let environment = environment();
    let binding = Binding::new(&environment, [("quick".to_string(), "digest".to_string())]);
    let mut store = Store::open(folder, environment, binding, Mode::New).unwrap();
    for cell in cells {
        store.append(Record::Cell(Box::new(cell.clone()))).unwrap();
    }
    store.write_table().unwrap();
    store
}

//! A cell of a suite, for tests of the crate and of its interface.

use rounds::machine::PinPolicy;
use rounds::results::{Cell, Configuration, Phases, Quality, Rates, RoundCost, RoundTimes, RunWork, Shape, Trial};
use serde_json::json;

/// A cell as `rounds run` writes it, with plausible numbers.
pub(crate) fn cell(algorithm: &str, batch_size: usize, threads: usize, repeat: usize) -> Cell {
    let median = (20_000 + batch_size as u64 * 60) / threads as u64;
    let samples = (0..21_u64).map(|round| median * (1000 + (round * 7 + repeat as u64) % 21) / 1010).collect();
    let private = algorithm != "sgd";
    let outcome = RoundCost {
        shape: Shape { n: 60_000, dimension: 784, classes: 10 },
        work: RunWork { rounds: 21, gradient_queries: 21 * batch_size as u64, timed_queries: 21 * batch_size as u64 },
        pinning: PinPolicy::None,
        round_ns: RoundTimes::new(samples),
        phases_ns: Phases { sample: 900, gradient: median * 9 / 10, noise: 1500, update: 700 },
        rates: Rates {
            gflops: Some(31_360.0 * batch_size as f64 / median as f64),
            gbytes_per_s: Some(3136.0 * batch_size as f64 / median as f64),
            roofline_fraction: Some(0.8),
            limit: None,
        },
        quality: Quality { train_loss: Some(0.3), test_accuracy: Some(if private { 0.89 } else { 0.92 }) },
        model_sha256: format!("{algorithm}-{batch_size}"),
        privacy: if private {
            json!({"claim": "simulation", "epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"})
        } else {
            json!({"claim": "none"})
        },
        warnings: Vec::new(),
    };
    Cell {
        configuration: Configuration {
            suite: "quick".into(),
            algorithm: algorithm.into(),
            dataset: "synthetic-mnist".into(),
            features: "f32".into(),
            batch_size,
            threads,
            parameters: private.then(|| ("clip_norm".to_string(), json!(1.0))).into_iter().collect(),
            ..Configuration::default()
        },
        trial: Trial { repeat, draw: 0 },
        outcome,
        date: "2026-01-31T12:00:00Z".parse().unwrap(),
    }
}

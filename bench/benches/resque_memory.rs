//! Memory of a materialised ReSQue pool: ten million queries at d = 1,024 in one round, then one reweighted mean of all of
//! them. Prints the process's peak resident memory before and after; what is kept is an answer a query, not its ξ.

use std::time::Instant;

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::resque::black_box::BlackBoxOracle;
use rounds_algorithms::resque::functions::MaxOfLinear;
use rounds_algorithms::resque::pool::GradientPool;
use rounds_kernels::random::StreamKey;

/// Peak resident memory in MiB, where the system tells.
fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024.0)
}

fn main() {
    // `cargo bench` gives every benchmark the same arguments: run where none chooses others, and list and test as asked.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--list") {
        println!("resque_memory: benchmark");
        return;
    }
    let filters: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if has("--test") || !(filters.is_empty() || filters.iter().any(|filter| "resque_memory".contains(filter.as_str())))
    {
        return;
    }
    let (dimension, queries) = (1_024, 10_000_000);
    let engine = Engine::with_threads(2).expect("threads");
    let function = MaxOfLinear::new(dimension, dimension, 1.0, 1.0).expect("a dimension");
    let mut oracle = BlackBoxOracle::new(&function, engine.clone(), StreamKey::Simulation(1));
    let centre = vec![0.0; dimension];
    let offset = vec![1e-4; dimension];
    let mut mean = vec![0.0; dimension];
    let mut round = |count: usize| {
        let started = Instant::now();
        engine.install(|| {
            oracle.fetch(&centre, 0.1, count).expect("a round");
            oracle.reweighted_mean(0..count, &offset, &mut mean).expect("inside the ball");
        });
        println!(
            "{count} queries at d = {dimension}: {:.2} s, peak {} MiB",
            started.elapsed().as_secs_f64(),
            peak().map_or_else(|| "unknown".to_owned(), |peak| format!("{peak:.1}"))
        );
    };
    round(1_000);
    round(queries / 10);
    round(queries);
}

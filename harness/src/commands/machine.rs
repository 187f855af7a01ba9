//! `rounds machine`: what this machine is and what it can do.

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};

use super::UsageError;
use crate::kernel_rates;
use crate::machine::{
    Cache, Environment, Known, PinPolicy, Pinning, Place, Topology, beyond_rooflines, disturbances, measure_roofline,
};

/// Topology, instruction set, caches, state, and the measured peak and bandwidth for each thread count.
#[derive(Debug, Clone, Args)]
pub struct MachineArguments {
    /// Thread counts to measure; by default 1 and the number of cores.
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Vec<u16>,
    /// How the measuring threads are bound to cores; where each policy puts them is shown in any case.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pub pin: PinPolicy,
    /// Do not measure peak and bandwidth.
    #[arg(long)]
    pub no_measure: bool,
    /// Measure the kernels too, and place them under the roofline of one thread (about three seconds).
    #[arg(long, conflicts_with = "no_measure")]
    pub kernels: bool,
}

/// Prints the machine.
///
/// # Errors
/// If stdout cannot be written.
pub fn run(arguments: &MachineArguments, json: bool) -> Result<()> {
    let threads: Vec<usize> = if arguments.no_measure {
        Vec::new()
    } else if arguments.threads.is_empty() {
        vec![1, Topology::detect().cores]
    } else {
        arguments.threads.iter().map(|&threads| usize::from(threads)).collect()
    };
    let pinning = Pinning::new(arguments.pin).map_err(|error| UsageError::new(error.to_string()))?;
    let environment = Environment::capture_pinned(&threads, &pinning);
    let most_threads = threads.into_iter().max().unwrap_or(environment.machine.topology.cores);
    let places = places(most_threads);
    let kernels = arguments.kernels.then(kernel_rates::measure);
    if json {
        let mut document = document(&environment, &places);
        if let Some(kernels) = kernels {
            document["kernels"] = serde_json::to_value(kernels)?;
        }
        println!("{document}");
    } else {
        print_for_people(&environment, &places, most_threads);
        if let Some(kernels) = kernels {
            let roofline = environment.roofline(1).unwrap_or_else(|| measure_roofline(1, &pinning));
            println!("{}", kernel_rates::table(&kernels, Some(roofline)));
            let reached = kernels.iter().map(|rate| rate.beside(roofline));
            if let Some(sentence) = beyond_rooflines("kernels", reached, &environment.build.isa) {
                println!("of roofline: {sentence}");
            }
        }
    }
    Ok(())
}

/// Where each policy binds the threads of a pool, for those that hwloc can place.
fn places(threads: usize) -> Vec<(PinPolicy, Vec<Place>)> {
    [PinPolicy::Compact, PinPolicy::Scatter, PinPolicy::Core]
        .into_iter()
        .filter_map(|policy| Some((policy, Pinning::new(policy).ok()?.places(threads))))
        .collect()
}

/// Processors of each thread in order, memory nodes in brackets where there are several: `0 2 4+5 [1: 8 10]`.
fn places_in_words(places: &[Place]) -> String {
    let several = places.iter().any(|place| place.node != places[0].node);
    let of_node = |places: &[Place]| -> String {
        let words: Vec<String> = places
            .iter()
            .map(|place| {
                let processors: Vec<_> = place.processors.iter().map(ToString::to_string).collect();
                processors.join("+")
            })
            .collect();
        words.join(" ")
    };
    places
        .chunk_by(|left, right| left.node == right.node)
        .map(|near| {
            if several {
                format!("[node {}: {}]", near[0].node, of_node(near))
            } else {
                of_node(near)
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The JSON document: a flat view of the environment.
fn document(environment: &Environment, places: &[(PinPolicy, Vec<Place>)]) -> Value {
    let places: serde_json::Map<String, Value> = places
        .iter()
        .map(|(policy, places)| (policy.to_string(), json!(places)))
        .collect();
    let topology = &environment.machine.topology;
    let by_threads = |value: fn(&crate::machine::Roofline) -> f64| -> Value {
        environment
            .rooflines
            .iter()
            .map(|roofline| (roofline.threads.to_string(), json!(value(roofline))))
            .collect()
    };
    json!({
        "machine": environment.machine.id,
        "processor": topology.processor,
        "cores": topology.cores,
        "hardware_threads": topology.hardware_threads,
        "packages": topology.packages,
        "numa_nodes": topology.numa_nodes,
        "memory_bytes": topology.memory_bytes,
        "isa": environment.build.isa,
        "features": environment.build.features,
        "caches": topology.caches,
        "peak_gflops": by_threads(|roofline| roofline.peak_gflops),
        "bandwidth_gbytes_per_s": by_threads(|roofline| roofline.bandwidth_gbytes_per_s),
        "pinning": environment.pinning,
        "places": places,
        "state": environment.state,
        "build": environment.build,
        "command": environment.command,
        "date": environment.date,
    })
}

fn print_for_people(environment: &Environment, places: &[(PinPolicy, Vec<Place>)], threads: usize) {
    let (topology, state, build) = (&environment.machine.topology, &environment.state, &environment.build);
    let mut table = Table::new();
    table.load_style(NOTHING);
    let with = |value: &Known<f64>, unit: &str| {
        value
            .0
            .map_or_else(|| "unknown".into(), |value| format!("{value:.0} {unit}"))
    };
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_string(), value]);
    };
    row("machine", environment.machine.id.clone());
    row("processor", topology.processor.to_string());
    row(
        "cores",
        format!(
            "{} cores, {} hardware threads, {} sockets, {} NUMA nodes",
            topology.cores,
            topology.hardware_threads,
            topology.packages,
            topology.numa_nodes.len()
        ),
    );
    row(
        "caches",
        topology.caches.iter().map(cache_words).collect::<Vec<_>>().join(", "),
    );
    row(
        "memory",
        topology.memory_bytes.0.map_or_else(|| "unknown".into(), binary_size),
    );
    row("built for", format!("{} ({})", build.isa, build.features.join(" ")));
    row("governor", state.governor.to_string());
    row(
        "turbo",
        state
            .turbo
            .0
            .map_or("unknown", |on| if on { "on" } else { "off" })
            .into(),
    );
    row(
        "frequency",
        format!(
            "{} (maximum {})",
            with(&state.frequency_mhz, "MHz"),
            with(&state.maximum_frequency_mhz, "MHz")
        ),
    );
    row("virtualisation", state.virtualisation.to_string());
    row(
        "load",
        state
            .load
            .0
            .map_or_else(|| "unknown".into(), |load| format!("{load:.2}")),
    );
    row("huge pages", state.huge_pages.to_string());
    row("kernel", state.kernel.to_string());
    row(
        "revision",
        format!("{} ({}, {})", build.short_revision(), build.rustc, build.profile),
    );
    for (policy, places) in places {
        row(
            &format!("--pin {policy}"),
            format!("threads on processors {}", places_in_words(places)),
        );
    }
    if !environment.rooflines.is_empty() {
        row("bound now", environment.pinning_policy().to_owned());
    }
    for roofline in &environment.rooflines {
        row(
            &format!(
                "{} thread{}",
                roofline.threads,
                if roofline.threads == 1 { "" } else { "s" }
            ),
            format!(
                "{:.0} GFLOP/s f32, {:.1} GB/s read",
                roofline.peak_gflops, roofline.bandwidth_gbytes_per_s
            ),
        );
    }
    println!("{table}");
    for disturbance in disturbances(&environment.machine, state, &build.profile, threads) {
        eprintln!("warning: {disturbance}");
    }
}

fn cache_words(cache: &Cache) -> String {
    let kind = match cache.kind.as_str() {
        "data" => "d",
        "instruction" => "i",
        _ => "",
    };
    let size = cache.size_bytes.0.map_or_else(|| "unknown".into(), binary_size);
    format!("L{}{kind} {} × {size}", cache.level, cache.count)
}

/// Bytes in KiB, MiB or GiB.
fn binary_size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_the_promised_keys() {
        let document = document(&Environment::capture(&[]), &places(2));
        for key in ["cores", "isa", "caches", "peak_gflops", "bandwidth_gbytes_per_s"] {
            assert!(document.get(key).is_some(), "{key}");
        }
        assert!(document["cores"].as_u64().unwrap() >= 1);
        assert!(document["peak_gflops"].is_object());
    }

    #[test]
    fn places_name_processors_and_nodes() {
        let place = |processors: &[usize], node| Place {
            processors: processors.to_vec(),
            node,
        };
        assert_eq!(places_in_words(&[place(&[0, 1], 0), place(&[2], 0)]), "0+1 2");
        assert_eq!(
            places_in_words(&[place(&[0], 0), place(&[8], 1)]),
            "[node 0: 0] [node 1: 8]"
        );
        assert_eq!(places_in_words(&[]), "");
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        assert_eq!(binary_size(48 << 10), "48 KiB");
        assert_eq!(binary_size(2 << 20), "2 MiB");
        assert_eq!(binary_size(3 << 29), "1.5 GiB");
    }
}

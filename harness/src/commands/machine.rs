//! `rounds machine`: the properties and the measured limits of this machine.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::{Output, UsageError, output};
use crate::experiment::definition::thread_counts;
use crate::machine::{Environment, PinPolicy, Pinning, Place, Roofline, Topology, disturbances};

/// Topology, instruction set, caches, state, and the measured peak and bandwidth for each thread count
#[derive(Debug, Clone, Args)]
pub struct MachineArguments {
    /// Thread counts to measure, such as 1,2 or 1-64 [default: 1 and the number of cores]
    #[arg(long, value_name = "COUNTS", value_parser = thread_counts, default_value = "", hide_default_value = true)]
    pub threads: std::vec::Vec<usize>,
    /// Binding of the measuring threads to cores; the places of every policy are shown in any case
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pub pin: PinPolicy,
    /// Do not measure peaks and bandwidths
    #[arg(long)]
    pub no_measure: bool,
}

/// Prints the machine.
///
/// # Errors
/// A policy that cannot be had on this machine.
pub fn run(arguments: &MachineArguments, output: Output) -> Result<()> {
    let threads: Vec<usize> = if arguments.no_measure {
        Vec::new()
    } else if arguments.threads.is_empty() {
        vec![1, Topology::detect().cores]
    } else {
        arguments.threads.clone()
    };
    let pinning = Pinning::new(arguments.pin).map_err(UsageError::of)?;
    let most = threads.iter().copied().max();
    let environment = Environment::capture_pinned(&threads, &pinning, most.unwrap_or(0));
    let most_threads = most.unwrap_or(environment.machine.topology.cores);
    for disturbance in disturbances(&environment.machine, &environment.state, &environment.build.profile, most_threads)
    {
        output::warn(disturbance);
    }
    let sheet = Sheet { places: places(most_threads), environment };
    output.print(&sheet.document(), sheet.text())
}

/// The machine and its limits.
struct Sheet {
    environment: Environment,
    places: Vec<(PinPolicy, Vec<Place>)>,
}

impl Sheet {
    fn document(&self) -> Value {
        let environment = &self.environment;
        let topology = &environment.machine.topology;
        let by_threads = |value: fn(&Roofline) -> Value| -> Value {
            let limits = environment.rooflines.iter();
            limits.map(|limit| (limit.threads.to_string(), value(limit))).collect()
        };
        let places = self.places.iter();
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
            "peak_gflops": by_threads(|limit| json!(limit.peak_gflops)),
            "int8": by_threads(|limit| json!(limit.int8)),
            "bandwidth_gbytes_per_s": by_threads(|limit| json!(limit.bandwidth_gbytes_per_s)),
            "cache_bandwidths": by_threads(|limit| json!(limit.caches)),
            "pinning": environment.pinning,
            "places": places.map(|(policy, places)| (policy.to_string(), json!(places))).collect::<Value>(),
            "state": environment.state,
            "build": environment.build,
            "command": environment.command,
            "date": environment.date,
        })
    }

    fn text(&self) -> String {
        let mut rows = self.environment.sheet();
        rows.extend(self.places.iter().map(|(policy, places)| {
            let processors = places_in_words(places);
            (format!("--pin {policy}"), format!("threads on processors {processors}"))
        }));
        output::pairs(rows.iter().map(|(name, value)| (name.as_str(), value.clone()))).to_string()
    }
}

/// The places of the threads of a pool under each policy, as far as hwloc knows the machine.
fn places(threads: usize) -> Vec<(PinPolicy, Vec<Place>)> {
    [PinPolicy::Compact, PinPolicy::Scatter, PinPolicy::Core]
        .into_iter()
        .filter_map(|policy| Some((policy, Pinning::new(policy).ok()?.places(threads))))
        .collect()
}

/// Processors of each thread in order, memory nodes in brackets where there are several: `0 2 4+5 [1: 8 10]`.
fn places_in_words(places: &[Place]) -> String {
    let several = places.iter().any(|place| place.node != places[0].node);
    let of_node = |places: &[Place]| {
        let word = |place: &Place| place.processors.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        places.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    let nodes = places
        .chunk_by(|left, right| left.node == right.node)
        .map(|near| if several { format!("[node {}: {}]", near[0].node, of_node(near)) } else { of_node(near) });
    nodes.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_the_promised_keys() {
        let sheet = Sheet { environment: Environment::capture(&[]), places: places(2) };
        let document = sheet.document();
        for key in ["cores", "isa", "caches", "peak_gflops", "int8", "bandwidth_gbytes_per_s"] {
            assert!(document.get(key).is_some(), "{key}");
        }
        assert!(document["cores"].as_u64().unwrap() >= 1);
        assert!(sheet.text().contains("hardware thread"));
    }

    #[test]
    fn places_name_processors_and_nodes() {
        let place = |processors: &[usize], node| Place { processors: processors.to_vec(), node };
        assert_eq!(places_in_words(&[place(&[0, 1], 0), place(&[2], 0)]), "0+1 2");
        let two_nodes = [place(&[0], 0), place(&[8], 1)];
        assert_eq!(places_in_words(&two_nodes), "[node 0: 0] [node 1: 8]");
        assert_eq!(places_in_words(&[]), "");
    }
}

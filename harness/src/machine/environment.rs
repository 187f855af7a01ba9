//! The experiment sheet of a result: machine, state, build, command and date.

use jiff::Timestamp;
use rounds_algorithms::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use rounds_models::build::Build;

use crate::format::{bytes, plural, three_digits};
use crate::usage::command_again;

use super::{Known, PinPolicy, Pinning, Place, ProcessorState, Roofline, Topology};

/// The properties of the machine that do not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// A name for paths that stays the same between runs on this machine: see `Machine::detect`.
    pub id: String,
    #[serde(flatten)]
    pub topology: Topology,
}

impl Machine {
    /// The machine as hwloc sees it. The id is the processor's name, the number of cores and a digest of the topology: machines
    /// of one kind share it. Host names do not enter, so a container that starts anew keeps its id.
    pub fn detect() -> Self {
        Self::from_topology(Topology::detect())
    }

    fn from_topology(topology: Topology) -> Self {
        // The kernel keeps a varying part of the memory.
        let shape = serde_json::json!([
            topology.processor,
            topology.packages,
            topology.cores,
            topology.hardware_threads,
            topology.numa_nodes.len(),
            topology.caches,
            std::env::consts::ARCH,
            std::env::consts::OS,
        ]);
        let digest = hexadecimal(&Sha256::digest(shape.to_string().as_bytes()));
        let name = topology.processor.0.as_deref().map_or_else(|| std::env::consts::ARCH.into(), path_word);
        let id = format!("{name}-{}c-{}", topology.cores, &digest[..6]);
        Self { id, topology }
    }
}

/// A processor's name as a word for paths: lower case, words joined by hyphens, trade marks and filler left out.
fn path_word(name: &str) -> String {
    let name = name.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words: Vec<String> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !["cpu", "processor", "with"].contains(word))
        .take(4)
        .map(String::from)
        .collect();
    if words.is_empty() { std::env::consts::ARCH.into() } else { words.join("-") }
}

/// The experiment sheet: everything that decides a time besides algorithm and data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// When it was taken, in UTC.
    pub date: Timestamp,
    /// The command that ran.
    pub command: String,
    /// The definitions that it ran, by name or by file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Its state at the start.
    pub state: ProcessorState,
    /// The program.
    pub build: Build,
    /// Binding of threads to cores.
    pub pinning: PinPolicy,
    /// Places of the threads of the largest pool, by worker; empty if they were not bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// Measured limits, one for each thread count.
    pub rooflines: Vec<Roofline>,
}

impl Environment {
    /// The sheet now, with the roofline measured for each of `threads` (about 0.5 s each).
    pub fn capture(threads: &[usize]) -> Self {
        Self::capture_pinned(threads, &Pinning::none(), 0)
    }

    /// [`capture`](Self::capture) with bound threads, `most` in the largest pool.
    pub fn capture_pinned(threads: &[usize], pinning: &Pinning, most: usize) -> Self {
        // The state first: the measurement itself is load.
        let state = ProcessorState::read();
        Self {
            date: Timestamp::now(),
            command: command_again(&[]),
            definitions: Vec::new(),
            machine: Machine::detect(),
            state,
            build: super::build().clone(),
            pinning: pinning.policy(),
            places: pinning.places(most),
            rooflines: super::measure_rooflines(threads, pinning),
        }
    }

    /// The sheet as names and values.
    pub fn sheet(&self) -> Vec<(String, String)> {
        let (topology, state, build) = (&self.machine.topology, &self.state, &self.build);
        let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let megahertz = |value: &Known<f64>| known(value.0.map(|value| format!("{value:.0} MHz")));
        let turbo = state.turbo.0.map(|on| if on { "on" } else { "off" }.to_owned());
        let cores = [
            plural(topology.cores, "core"),
            plural(topology.hardware_threads, "hardware thread"),
            plural(topology.numa_nodes.len(), "NUMA node"),
        ];
        let frequency = [&state.frequency_mhz, &state.maximum_frequency_mhz].map(megahertz);
        let caches: Vec<_> = topology.caches.iter().map(ToString::to_string).collect();
        let flags = if build.rustflags.is_empty() { "none" } else { &build.rustflags };
        let rows = [
            ("machine", self.machine.id.clone()),
            ("processor", topology.processor.to_string()),
            ("cores", cores.join(", ")),
            ("caches", caches.join(", ")),
            ("memory", known(topology.memory_bytes.0.map(bytes))),
            ("built for", format!("{} ({})", build.isa, build.features.join(" "))),
            ("governor", state.governor.to_string()),
            ("frequency", frequency.join(", maximum ")),
            ("turbo", known(turbo)),
            ("virtualisation", state.virtualisation.to_string()),
            ("load before", known(state.load.0.map(three_digits))),
            ("pinning", self.pinning.to_string()),
            ("huge pages", state.huge_pages.to_string()),
            ("kernel", state.kernel.to_string()),
            ("revision", build.short_revision()),
            ("compiler", format!("{}, {}", build.rustc, build.profile)),
            ("flags", flags.to_owned()),
            ("command", self.command.clone()),
            ("date", self.date.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
        ];
        let limits = self.rooflines.iter();
        let limits = limits.map(|limit| (plural(limit.threads, "thread"), limit.words()));
        let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
        rows.chain(limits).collect()
    }

    /// The measured limits for a thread count.
    pub fn roofline(&self, threads: usize) -> Option<&Roofline> {
        self.rooflines.iter().find(|roofline| roofline.threads == threads)
    }

    /// The day in UTC, as in paths: `2026-01-31`.
    pub fn day(&self) -> String {
        self.date.strftime("%Y-%m-%d").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_id_is_stable_and_fit_for_paths() {
        let (first, second) = (Machine::detect(), Machine::detect());
        assert_eq!(first, second);
        assert!(first.id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{}", first.id);
    }

    #[test]
    fn another_cache_or_core_count_is_another_machine() {
        let topology = Topology::detect();
        let id = |change: &dyn Fn(&mut Topology)| {
            let mut topology = topology.clone();
            change(&mut topology);
            Machine::from_topology(topology).id
        };
        let here = id(&|_| ());
        assert_ne!(here, id(&|topology| topology.cores += 1));
        assert_ne!(here, id(&|topology| topology.caches.clear()));
        assert_eq!(here, id(&|topology| topology.memory_bytes = Some(1).into()));
    }

    #[test]
    fn processor_names_become_path_words() {
        assert_eq!(path_word("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"), "intel-xeon-platinum-8481c");
        assert_eq!(path_word("AMD Ryzen 9 7950X 16-Core Processor"), "amd-ryzen-9-7950x");
        assert_eq!(path_word("??"), std::env::consts::ARCH);
    }

    #[test]
    fn an_environment_survives_a_round_trip() {
        let environment = Environment::capture(&[]);
        let text = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
    }
}

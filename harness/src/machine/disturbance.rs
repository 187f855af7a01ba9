//! What on this machine disturbs a measurement, and what to do about it.

use thiserror::Error;

use super::{Machine, ProcessorState};

/// A reason to distrust times, with its remedy.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Disturbance {
    /// The governor may change the frequency.
    #[error("the frequency governor is {governor}; set it with: sudo cpupower frequency-set --governor performance")]
    Governor {
        /// As found.
        governor: String,
    },
    /// Turbo makes times depend on temperature and on how many cores work.
    #[error(
        "turbo is on, so times depend on temperature and on the number of busy cores; turn it off for comparisons \
         (echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 to cpufreq/boost)"
    )]
    Turbo,
    /// Other programs run.
    #[error("{load:.1} tasks were running before the measurement began; stop other programs, or wait and run again")]
    Load {
        /// Load average over a minute.
        load: f64,
    },
    /// More threads than cores.
    #[error("{threads} threads on {cores} cores share them; ask for at most --threads {cores}")]
    TooManyThreads {
        /// Asked for.
        threads: usize,
        /// At hand.
        cores: usize,
    },
    /// The control group takes time away.
    #[error(
        "the container may use {quota:.1} processors' worth of time but {threads} threads are asked; raise its quota"
    )]
    Quota {
        /// Processors allowed.
        quota: f64,
        /// Asked for.
        threads: usize,
    },
    /// A hypervisor is between.
    #[error(
        "{kind}: its host may run others on the same cores and may hide the true topology; repeat more often \
         (--repeats), compare within one run, or measure on the bare machine"
    )]
    VirtualMachine {
        /// As detected.
        kind: String,
    },
    /// The binary is not optimised.
    #[error("this is a {profile} build; measure with cargo build --release")]
    UnoptimisedBuild {
        /// The profile.
        profile: String,
    },
}

/// Everything about this machine, its state and build that disturbs a measurement with up to `threads` threads.
pub fn disturbances(machine: &Machine, state: &ProcessorState, profile: &str, threads: usize) -> Vec<Disturbance> {
    let mut found = Vec::new();
    if profile != "release" {
        found.push(Disturbance::UnoptimisedBuild {
            profile: profile.into(),
        });
    }
    if let Some(governor) = state
        .governor
        .0
        .as_deref()
        .filter(|governor| *governor != "performance")
    {
        found.push(Disturbance::Governor {
            governor: governor.into(),
        });
    }
    if state.turbo.0 == Some(true) {
        found.push(Disturbance::Turbo);
    }
    // Half a task is the shell and whatever else every system runs.
    if let Some(load) = state.load.0.filter(|load| *load > 0.5) {
        found.push(Disturbance::Load { load });
    }
    if threads > machine.topology.cores {
        found.push(Disturbance::TooManyThreads {
            threads,
            cores: machine.topology.cores,
        });
    }
    if let Some(quota) = state.processor_quota.0.filter(|quota| *quota < threads as f64) {
        found.push(Disturbance::Quota { quota, threads });
    }
    if let Some(kind) = state.virtualisation.0.as_deref().filter(|kind| *kind != "none") {
        found.push(Disturbance::VirtualMachine { kind: kind.into() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> (Machine, ProcessorState) {
        let mut machine = Machine::detect();
        machine.topology.cores = 4;
        let mut state = ProcessorState::read_below(std::path::Path::new("/nonexistent"));
        state.governor = Some("performance".to_string()).into();
        (machine, state)
    }

    #[test]
    fn a_quiet_machine_has_no_disturbance() {
        let (machine, state) = quiet();
        assert_eq!(disturbances(&machine, &state, "release", 4), []);
    }

    #[test]
    fn each_disturbance_is_found_and_names_its_remedy() {
        let (machine, mut state) = quiet();
        state.governor = Some("powersave".to_string()).into();
        state.turbo = Some(true).into();
        state.load = Some(1.5).into();
        state.processor_quota = Some(2.0).into();
        state.virtualisation = Some("virtual machine".to_string()).into();
        let found = disturbances(&machine, &state, "debug", 5);
        let remedies = [
            "--release",
            "--governor performance",
            "no_turbo",
            "stop other programs",
            "--threads 4",
            "quota",
            "--repeats",
        ];
        assert_eq!(found.len(), remedies.len());
        for (disturbance, remedy) in found.iter().zip(remedies) {
            assert!(disturbance.to_string().contains(remedy), "{disturbance}");
        }
    }
}

//! Disturbances of a measurement on this machine, with their remedies.

use thiserror::Error;

use super::{Environment, Interference, Machine, PinPolicy, ProcessorState};

#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum Disturbance {
    #[error("the frequency governor is {governor}; set it with: sudo cpupower frequency-set --governor performance")]
    Governor { governor: String },
    #[error(
        "turbo is on, so times depend on temperature and on the number of busy cores; turn it off for comparisons \
         (echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 to cpufreq/boost)"
    )]
    Turbo,
    #[error("{load:.1} tasks were running before the measurement began; stop other programs, or wait and run again")]
    Load { load: f64 },
    #[error(
        "{threads} threads on {cores} cores share them; ask for at most --threads {cores}{}",
        if *hidden { ", or let the process use all of the machine's processors (taskset, cpuset)" } else { "" }
    )]
    TooManyThreads { threads: usize, cores: usize, hidden: bool },
    #[error(
        "the container may use {quota:.1} processors' worth of time but {threads} threads are asked; raise its quota"
    )]
    Quota { quota: f64, threads: usize },
    #[error(
        "{kind}: its host may run others on the same cores and may hide the true topology; repeat more often \
         (--repeats), compare within one run, or measure on the bare machine"
    )]
    VirtualMachine { kind: String },
    #[error("threads are not bound, so that the system may move them between cores; bind them with --pin core")]
    Unbound,
    #[error(
        "other programs took {processors:.2} processors' worth of time during the measurement; stop them and run again"
    )]
    OtherWork { processors: f64 },
    #[error(
        "the host took {processors:.2} processors' worth of time away from this virtual machine during the measurement; \
         run again when it is quiet, or on processors of its own"
    )]
    Stolen { processors: f64 },
    #[error(
        "the measured peak of {threads} threads is {ratio:.2} times that of one: processors share cores, which a virtual \
         machine may hide, or slow down together, or others ran; bind with --pin core, ask for whole cores, and compare \
         speed-ups with this one"
    )]
    SharedCores { threads: usize, ratio: f64 },
    #[error("this is a {profile} build; measure with cargo build --release")]
    UnoptimisedBuild { profile: String },
}

/// The disturbances of a measurement with up to `threads` threads that machine, state and build show.
pub(crate) fn disturbances(
    machine: &Machine,
    state: &ProcessorState,
    profile: &str,
    threads: usize,
) -> Vec<Disturbance> {
    let mut found = Vec::new();
    if profile != "release" {
        let profile = profile.into();
        found.push(Disturbance::UnoptimisedBuild { profile });
    }
    if let Some(governor) = state.governor.0.clone().filter(|governor| governor != "performance") {
        found.push(Disturbance::Governor { governor });
    }
    if state.turbo.0 == Some(true) {
        found.push(Disturbance::Turbo);
    }
    // Half a task is the shell and whatever else every system runs.
    if let Some(load) = state.load.0.filter(|load| *load > 0.5) {
        found.push(Disturbance::Load { load });
    }
    let topology = &machine.topology;
    if threads > topology.cores {
        let present = topology.hardware_threads_present.0;
        found.push(Disturbance::TooManyThreads {
            threads,
            cores: topology.cores,
            hidden: present.is_some_and(|present| present > topology.hardware_threads),
        });
    }
    if let Some(quota) = state.processor_quota.0.filter(|quota| *quota < threads as f64) {
        found.push(Disturbance::Quota { quota, threads });
    }
    if let Some(kind) = state.virtualisation.0.clone().filter(|kind| kind != "none") {
        found.push(Disturbance::VirtualMachine { kind });
    }
    found
}

/// Smallest time of others that is reported, in processors: less is the system's housekeeping.
const NOTABLE: f64 = 0.05;
/// Smallest peak of p threads, over p times one thread's, on cores of their own.
const FULL_CORES: f64 = 0.85;

/// The disturbances that a measurement itself shows: threads that were free to move, peaks that do not add up, work of others.
pub(crate) fn measured_disturbances(environment: &Environment, interference: Option<Interference>) -> Vec<Disturbance> {
    let mut found = Vec::new();
    if environment.pinning == PinPolicy::None {
        found.push(Disturbance::Unbound);
    }
    if let Some(Interference { others, stolen }) = interference {
        if others > NOTABLE {
            found.push(Disturbance::OtherWork { processors: others });
        }
        if stolen > NOTABLE {
            found.push(Disturbance::Stolen { processors: stolen });
        }
    }
    if let (Some(one), Some(most)) = (environment.roofline(1), environment.rooflines.last()) {
        let ratio = most.peak_gflops / one.peak_gflops;
        let cores = most.threads.min(environment.machine.topology.cores);
        if ratio < FULL_CORES * cores as f64 {
            found.push(Disturbance::SharedCores { threads: most.threads, ratio });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Roofline;

    #[test]
    fn what_a_measurement_shows_is_told_with_its_remedy() {
        let mut environment = Environment::capture(&[]);
        environment.machine.topology.cores = 4;
        environment.pinning = PinPolicy::Core;
        environment.rooflines = vec![Roofline::new(1, 100.0, 1.0), Roofline::new(4, 390.0, 1.0)];
        let quiet = Interference { others: 0.01, stolen: 0.0 };
        assert_eq!(measured_disturbances(&environment, Some(quiet)), []);
        assert_eq!(measured_disturbances(&environment, None), []);
        environment.pinning = PinPolicy::None;
        environment.rooflines[1].peak_gflops = 210.0;
        let busy = Interference { others: 0.5, stolen: 0.2 };
        let found = measured_disturbances(&environment, Some(busy));
        for (disturbance, remedy) in found.iter().zip(["--pin core", "stop them", "of its own", "whole cores"]) {
            assert!(disturbance.to_string().contains(remedy), "{disturbance}");
        }
        assert_eq!(found.len(), 4);
    }

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

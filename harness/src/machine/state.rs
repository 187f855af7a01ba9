//! The state of the processor: governor, frequency, turbo, virtualisation, quota, load. Read from Linux' /proc and /sys
//! below a root folder; elsewhere every field is unknown.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Known;

/// A snapshot of the processor's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessorState {
    /// Frequency governor; several are joined by commas.
    pub governor: Known<String>,
    /// True if the processor may exceed its nominal frequency.
    pub turbo: Known<bool>,
    /// Current frequency of the first core, in MHz.
    pub frequency_mhz: Known<f64>,
    /// Highest frequency of the first core, in MHz.
    pub maximum_frequency_mhz: Known<f64>,
    /// `none`, or the hypervisor as far as it is visible.
    pub virtualisation: Known<String>,
    /// Processors that the control group allows.
    pub processor_quota: Known<f64>,
    /// Runnable tasks, averaged over a minute.
    pub load: Known<f64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Known<String>,
    pub kernel: Known<String>,
}

impl ProcessorState {
    pub fn read() -> Self {
        Self::read_below(Path::new("/"))
    }

    /// The state as the files below `root` give it.
    pub fn read_below(root: &Path) -> Self {
        let text = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        let number = |path: &str| text(path)?.parse::<f64>().ok();
        let processors = text("proc/cpuinfo");
        let megahertz = |path: &str| number(path).map(|kilohertz| kilohertz / 1000.0);
        let turbo = number("sys/devices/system/cpu/intel_pstate/no_turbo")
            .map(|disabled| disabled == 0.0)
            .or_else(|| number("sys/devices/system/cpu/cpufreq/boost").map(|enabled| enabled != 0.0));
        Self {
            governor: governors(root).into(),
            turbo: turbo.into(),
            frequency_mhz: megahertz("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
                .or_else(|| processor_field(processors.as_deref()?, "cpu MHz")?.parse().ok())
                .into(),
            maximum_frequency_mhz: megahertz("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").into(),
            virtualisation: virtualisation(
                processors.as_deref(),
                text("sys/class/dmi/id/sys_vendor"),
                text("sys/hypervisor/type"),
            )
            .into(),
            processor_quota: processor_quota(&text).into(),
            load: text("proc/loadavg").and_then(|line| line.split_whitespace().next()?.parse().ok()).into(),
            huge_pages: text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_string()))
                .into(),
            kernel: text("proc/sys/kernel/osrelease").map(|release| format!("Linux {release}")).into(),
        }
    }
}

/// The governors of all processors, each once.
fn governors(root: &Path) -> Option<String> {
    let folder = fs::read_dir(root.join("sys/devices/system/cpu")).ok()?;
    let names: BTreeSet<String> = folder
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|name| name.trim().to_string())
        .collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(","))
}

/// The first value of a field of /proc/cpuinfo.
fn processor_field<'a>(listing: &'a str, field: &str) -> Option<&'a str> {
    listing
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == field)
        .map(|(_, value)| value.trim())
}

/// A flag shows a hypervisor; the board's vendor or Xen's type names it.
fn virtualisation(processors: Option<&str>, vendor: Option<String>, hypervisor: Option<String>) -> Option<String> {
    let flags = processor_field(processors?, "flags")?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none".into());
    }
    Some(hypervisor.or(vendor).map_or_else(|| "virtual machine".into(), |name| format!("virtual machine ({name})")))
}

/// Quota divided by period of the control group, version 2 or 1. No limit is no quota, hence unknown.
fn processor_quota(text: &dyn Fn(&str) -> Option<String>) -> Option<f64> {
    let (quota, period) = match text("sys/fs/cgroup/cpu.max") {
        Some(line) => {
            let (quota, period) = line.split_once(' ')?;
            (quota.to_string(), period.to_string())
        }
        None => (text("sys/fs/cgroup/cpu/cpu.cfs_quota_us")?, text("sys/fs/cgroup/cpu/cpu.cfs_period_us")?),
    };
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn an_empty_system_knows_nothing() {
        let state = ProcessorState::read_below(folder(&[]).path());
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(text.matches("unknown").count(), 9, "{text}");
        assert_eq!(serde_json::from_str::<ProcessorState>(&text).unwrap(), state);
    }

    #[test]
    fn a_laptop_tells_governor_turbo_frequency_and_load() {
        let state = ProcessorState::read_below(
            folder(&[
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4800000\n"),
                ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("proc/loadavg", "1.25 0.5 0.1 2/300 77\n"),
                ("proc/cpuinfo", "flags : fpu avx2\n"),
                ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ])
            .path(),
        );
        assert_eq!(state.governor.0.as_deref(), Some("performance,powersave"));
        assert_eq!(
            (state.turbo.0, state.frequency_mhz.0, state.maximum_frequency_mhz.0),
            (Some(true), Some(2400.0), Some(4800.0))
        );
        assert_eq!((state.load.0, state.huge_pages.0.as_deref()), (Some(1.25), Some("madvise")));
        assert_eq!((state.virtualisation.0.as_deref(), state.processor_quota.0), (Some("none"), None));
    }

    #[test]
    fn a_container_in_a_virtual_machine_tells_both() {
        let state = ProcessorState::read_below(
            folder(&[
                ("proc/cpuinfo", "cpu MHz : 2000.5\nflags : fpu hypervisor avx2\n"),
                ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
                ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ])
            .path(),
        );
        assert_eq!(state.virtualisation.0.as_deref(), Some("virtual machine (QEMU)"));
        assert_eq!((state.processor_quota.0, state.frequency_mhz.0), (Some(1.5), Some(2000.5)));
    }
}

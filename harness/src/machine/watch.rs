//! Processor time of others during a measurement: of other programs, and of a virtual machine's host. From Linux' /proc;
//! elsewhere nothing is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Ticks of /proc a second, as programs see them.
const TICKS: f64 = 100.0;

/// Counters, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counters {
    /// Busy time of all processors.
    busy: f64,
    /// Time that the host took away.
    stolen: f64,
    /// Time of all threads of this process.
    own: f64,
}

/// The counters at the start of a measurement.
#[derive(Debug)]
pub(crate) struct Watch {
    root: PathBuf,
    started: Instant,
    before: Counters,
}

/// Time of others over wall-clock time, in processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interference {
    pub others: f64,
    pub stolen: f64,
}

impl Watch {
    /// Starts, if the system has the counters.
    pub(crate) fn start() -> Option<Self> {
        Self::start_below(Path::new("/"))
    }

    fn start_below(root: &Path) -> Option<Self> {
        Some(Self { before: counters(root)?, root: root.to_owned(), started: Instant::now() })
    }

    /// The time of others since the start.
    pub(crate) fn end(&self) -> Option<Interference> {
        Some(self.between(counters(&self.root)?, self.started.elapsed().as_secs_f64()))
    }

    fn between(&self, after: Counters, seconds: f64) -> Interference {
        let rate = |time: f64| (time / seconds.max(1.0 / TICKS)).max(0.0);
        let (busy, own) = (after.busy - self.before.busy, after.own - self.before.own);
        Interference { others: rate(busy - own), stolen: rate(after.stolen - self.before.stolen) }
    }
}

fn counters(root: &Path) -> Option<Counters> {
    let all = fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal
    let ticks: Vec<f64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let at = |place: usize| ticks.get(place).copied().unwrap_or(0.0) / TICKS;
    let own = fs::read_to_string(root.join("proc/self/stat")).ok()?;
    // The name, in brackets, may hold spaces; user and system time are the 14th and 15th field.
    let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
    let own = |place: usize| fields.get(place - 3)?.parse::<f64>().ok().map(|ticks| ticks / TICKS);
    Some(Counters { busy: at(0) + at(1) + at(2) + at(5) + at(6), stolen: at(7), own: own(14)? + own(15)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_what_is_busy_without_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let write = |all: &str, own: &str| {
            fs::create_dir_all(folder.path().join("proc/self")).unwrap();
            fs::write(folder.path().join("proc/stat"), format!("cpu  {all}\ncpu0 1 2 3\n")).unwrap();
            let stat = format!("7 (a b) R 1 2 3 4 5 6 7 8 9 10 {own} 0 0\n");
            fs::write(folder.path().join("proc/self/stat"), stat).unwrap();
        };
        write("100 0 50 999 0 0 0 10", "40 10");
        let watch = Watch::start_below(folder.path()).unwrap();
        // In ten seconds: 12 seconds busy, of which 8 are this process's; 3 stolen.
        write("1000 0 250 1999 0 50 50 310", "640 210");
        let found = watch.between(counters(folder.path()).unwrap(), 10.0);
        assert!((found.others - 0.4).abs() < 1e-9 && (found.stolen - 0.3).abs() < 1e-9, "{found:?}");
        assert!(Watch::start_below(Path::new("/nonexistent")).is_none());
    }
}

//! The terminal of a training run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rounds_models::fit::{Observer, Stage, Times, Training};

use super::run::stop_on_interrupt;
use super::{Output, output};
use crate::cluster::{Cluster, Traffic};
use crate::usage::flags;

/// Message of the first Ctrl-C of a run with a checkpoint, and of a selection with one.
const AFTER_THIS_ROUND: &str =
    "stopping after the current round, with a checkpoint; press Ctrl-C again to stop at once";
const IN_THIS_TRIAL: &str = "stopping after the current round, with a checkpoint of the trials before this one, which begins anew; press Ctrl-C \
                             again to stop at once";

/// The terminal of a run: its clock, its progress bar, its warnings and Ctrl-C.
pub(super) struct Terminal<'a> {
    output: Output,
    cluster: &'a Cluster,
    /// The run keeps a checkpoint: Ctrl-C stops it there.
    keeps_state: bool,
    /// The run is no release, of which no time is told.
    tells_times: bool,
    stopped: Arc<AtomicBool>,
    progress: Option<ProgressBar>,
    /// The stages so far, with the messages between ranks before each.
    marks: Vec<(Instant, Traffic)>,
}

impl<'a> Terminal<'a> {
    pub(super) fn new(output: Output, cluster: &'a Cluster, training: &Training) -> Self {
        let (keeps_state, tells_times) = (training.checkpoint.file.is_some(), !training.privacy.secure);
        Self { output, cluster, keeps_state, tells_times, stopped: Arc::default(), progress: None, marks: Vec::new() }
    }

    /// The times of a run that is finished: of loading, planning and rounds.
    pub(super) fn times(&self) -> Times {
        let seconds = |stage: usize| (self.marks[stage + 1].0 - self.marks[stage].0).as_secs_f64();
        let said = self.marks[4].1 - self.marks[3].1;
        Times {
            seconds: seconds(3),
            communication_seconds: self.cluster.count().map(|_| said.nanoseconds as f64 * 1e-9),
            load_seconds: seconds(0),
            calibration_seconds: seconds(1),
        }
    }
}

impl Observer for Terminal<'_> {
    fn enter(&mut self, stage: Stage) {
        if matches!(stage, Stage::Rounds(_) | Stage::Trials) {
            // Rounds that take longer may hold a unit of many rows: of a release the bar tells none.
            let bar = "training {bar:20.green} {pos}/{len} rounds, {left}";
            let (rounds, template) = match stage {
                Stage::Rounds(rounds) if self.tells_times => (rounds, bar),
                Stage::Rounds(rounds) => (rounds, "{spinner} training {len} rounds"),
                _ => (0, "{spinner} tuning"),
            };
            let progress = self.output.progress(rounds, template);
            if self.cluster.is_root() {
                progress.enable_steady_tick(Duration::from_millis(250));
            }
            self.progress = Some(progress);
            // Ranks are ended by their launcher.
            if self.keeps_state && self.cluster.count().is_none() {
                let message = if matches!(stage, Stage::Trials) { IN_THIS_TRIAL } else { AFTER_THIS_ROUND };
                match stop_on_interrupt(message) {
                    Ok(stopped) => self.stopped = stopped,
                    Err(error) => output::warn(format_args!(
                        "Ctrl-C will end this run at once, without a checkpoint of its last rounds: {error}"
                    )),
                }
            }
        } else if let Some(progress) = self.progress.take() {
            progress.finish_and_clear();
        }
        self.marks.push((Instant::now(), self.cluster.traffic()));
    }

    fn after_round(&mut self, round: u64) {
        if let Some(progress) = self.progress.as_ref().filter(|_| self.tells_times && round % 16 == 1) {
            progress.set_position(round);
        }
    }

    fn stops(&mut self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn warn(&mut self, warning: &str) {
        if self.cluster.is_root() {
            output::warn(flags(warning));
        }
    }
}

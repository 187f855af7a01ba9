//! The face's part of a run: threads and ranks, progress, clocks, interrupts.

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::CalibrationMemory;

use crate::build::Build;
use crate::group::Group;

/// The threads and ranks of a run, and the build that its files name. None of them decides the model.
#[derive(Clone)]
pub struct Execution {
    pub(super) engine: Engine,
    /// The ranks of `engine`.
    pub(super) group: Group,
    /// The binding of threads to cores, in a word.
    pub pinning: Option<String>,
    /// The build of the program: [`Build::of_process`] with what a face knows of its compiler. It may read the executable, which only
    /// files of models and checkpoints need.
    pub build: fn() -> &'static Build,
    /// Noise that was calibrated before, from settings and public facts alone. Clones share it, so that runs with one budget calibrate once.
    pub calibrations: CalibrationMemory,
}

impl Default for Execution {
    /// The calling thread.
    fn default() -> Self {
        Self::on(Engine::Sequential)
    }
}

impl Execution {
    /// The threads of an engine, on each of its ranks if it is over ranks.
    pub fn on(engine: Engine) -> Self {
        // One value says what the ranks are: an engine over ranks without their common key and rows would add up other runs.
        let group = engine.ranked().map_or_else(Group::alone, |ranked| Group::over(ranked.shared()));
        Self { engine, group, pinning: None, build: Build::of_process, calibrations: CalibrationMemory::default() }
    }
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rows are read and encoded.
    Loading,
    /// The algorithm is planned and its noise calibrated.
    Planning,
    /// The state of a checkpoint is restored, and rows are placed in the memory of their readers.
    Placing,
    /// So many rounds, from the first or the checkpoint's.
    Rounds(u64),
    /// The trials of a selection, of which no observer sees a round or an end.
    Trials,
    /// The model is written and evaluated.
    Publishing,
}

/// Observer of a run. Whatever it does, it changes no bit of the model.
pub trait Observer: Send {
    /// The run enters a stage; the stages of a run follow each other.
    fn enter(&mut self, _stage: Stage) {}

    /// A round is done; `round` of them are. Of a release no face shows it: it is a clock of the rows.
    fn after_round(&mut self, _round: u64) {}

    /// True to stop the run after this round with [`FitError::Stopped`](super::FitError::Stopped), a release with
    /// [`FitError::Interrupted`](super::FitError::Interrupted), and with a checkpoint if the run keeps one. Ranks go on: they are ended by
    /// their launcher.
    fn stops(&mut self) -> bool {
        false
    }

    /// A person should know this. It may depend on rows only in a run that is no release.
    fn warn(&mut self, _warning: &str) {}
}

/// Nobody observes.
impl Observer for () {}

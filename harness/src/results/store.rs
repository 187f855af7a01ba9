//! The folder of a run: one writer, one line a finished cell, and the binding that a resumed run must match.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cell::repeat_key;
use super::{Cell, Configuration, Record, SCHEMA, write_csv};
use crate::files;
use crate::machine::{Environment, Pinning, measure_rooflines};

const MEASUREMENTS: &str = "measurements.jsonl";
const ENVIRONMENT: &str = "environment.json";
const TABLE: &str = "measurements.csv";
const LOCK: &str = ".lock";

/// Why results cannot be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The file system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another run holds the folder.
    #[error("{} is being written by another run{holder}; wait for it, or choose another folder with --out", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// Its process, where it left its number.
        holder: String,
    },
    /// The folder holds a run already.
    #[error(
        "{} holds {finished} finished cells already; continue them with --resume, or choose another folder with --out",
        folder.display()
    )]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// Finished cells.
        finished: usize,
    },
    /// The run that is to be resumed was another one.
    #[error(
        "{} cannot be resumed: its {what} was {recorded}, now it is {now}; results of both must not be mixed. Run the \
         same {what} again, or start anew with another --out",
        folder.display()
    )]
    Mismatch {
        /// The folder.
        folder: PathBuf,
        /// What differs: machine, build, instruction set, pinning, suite or data.
        what: String,
        /// As recorded.
        recorded: String,
        /// As it is now.
        now: String,
    },
    /// A line or file that this program did not write.
    #[error("{}:{line}: damaged: {message}; remove the line, or restore the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// Written by another version.
    #[error(
        "{}:{line}: results of schema {found}, this program reads schema {SCHEMA}; read it with the version that wrote \
         it, or measure again",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// As found; `none` where the line names no schema.
        found: String,
    },
    /// A cell could not be written; all finished ones are as they were.
    #[error(
        "cannot write the cell {key} to {}: {source}; the {finished} finished cells are intact: make room and continue \
         with --resume",
        path.display()
    )]
    Append {
        /// The file.
        path: PathBuf,
        /// The cell that is lost.
        key: String,
        /// How many are not.
        finished: usize,
        /// What the system said.
        source: io::Error,
    },
    /// There is no run here.
    #[error("{} holds no results: {ENVIRONMENT} is missing; name a folder that `rounds run` wrote", folder.display())]
    NoRun {
        /// The folder.
        folder: PathBuf,
    },
}

/// What must be the same for cells to be comparable within one folder. A resumed run must match it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// `Machine::id`.
    pub machine: String,
    /// `Build::identity`.
    pub build: String,
    /// The vector extension built for.
    pub isa: String,
    /// How threads are bound.
    #[serde(default = "unbound")]
    pub pinning: String,
    /// Digest of each suite, by name.
    #[serde(default)]
    pub suites: BTreeMap<String, String>,
    /// Digest of each data set, by name, as they were loaded.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

/// What runs did before threads could be bound.
fn unbound() -> String {
    "none".to_owned()
}

impl Binding {
    /// The binding of an environment to suites, given as (name, digest).
    pub fn new(environment: &Environment, suites: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            machine: environment.machine.id.clone(),
            build: environment.build.identity(),
            isa: environment.build.isa.clone(),
            pinning: environment.pinning_policy().to_owned(),
            suites: suites.into_iter().collect(),
            data: BTreeMap::new(),
        }
    }

    /// The first thing in which `now` differs: (what, recorded, now). Suites and data that only one of them knows do
    /// not count.
    fn difference(&self, now: &Self) -> Option<(String, String, String)> {
        let pairs = [
            ("machine", &self.machine, &now.machine),
            ("instruction set", &self.isa, &now.isa),
            ("build", &self.build, &now.build),
            ("pinning", &self.pinning, &now.pinning),
        ];
        let single = pairs
            .into_iter()
            .map(|(what, recorded, now)| (what.to_string(), recorded, now));
        let named = |what: &'static str, recorded: &'_ BTreeMap<String, String>, now: &BTreeMap<String, String>| {
            recorded
                .iter()
                .filter_map(|(name, digest)| Some((format!("{what} {name}"), digest.clone(), now.get(name)?.clone())))
                .collect::<Vec<_>>()
        };
        single
            .map(|(what, recorded, now)| (what, recorded.clone(), now.clone()))
            .chain(named("suite", &self.suites, &now.suites))
            .chain(named("data set", &self.data, &now.data))
            .find(|(_, recorded, now)| recorded != now)
    }
}

/// Whether a run starts anew or continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The folder must hold no cells.
    New,
    /// Finished cells are kept.
    Resume,
}

/// `environment.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sheet {
    schema: u32,
    binding: Binding,
    #[serde(flatten)]
    environment: Environment,
}

/// A run as read from its folder.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where it was read.
    pub folder: PathBuf,
    /// The experiment sheet.
    pub environment: Environment,
    /// What its cells are bound to.
    pub binding: Binding,
    /// Finished cells, in the order of the run; a cell that was measured twice counts once.
    pub cells: Vec<Cell>,
    /// Configurations that could not be measured, with the reason.
    pub skipped: Vec<(Configuration, String)>,
    /// Measurements whose answer failed verification, with the reason.
    pub rejected: Vec<(Configuration, String)>,
    /// What a person should know about the files, such as a half-written line that was dropped.
    pub messages: Vec<String>,
}

/// The one writer of a folder; the folder stays locked until it is dropped.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    measurements: File,
    sheet: Sheet,
    cells: Vec<Cell>,
    finished: HashSet<String>,
    skipped: HashSet<String>,
    models: HashMap<String, String>,
    messages: Vec<String>,
    _lock: File,
}

impl Store {
    /// Opens the folder of a run, alone.
    ///
    /// # Errors
    /// A folder that cannot be written, that another run holds, that holds cells already (`Mode::New`), or whose
    /// cells were measured with another machine, build, instruction set, suite or data (`Mode::Resume`).
    pub fn open(folder: &Path, environment: Environment, binding: Binding, mode: Mode) -> Result<Self, ResultsError> {
        fs::create_dir_all(folder).map_err(file_error("create", folder))?;
        let lock = lock(folder)?;
        let path = folder.join(MEASUREMENTS);
        let measurements = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(file_error("write", &path))?;
        let mut contents = read_measurements(&path)?;
        let mut sheet = Sheet {
            schema: SCHEMA,
            binding,
            environment,
        };
        match mode {
            Mode::New if !contents.records.is_empty() => {
                let finished = contents.cells().count();
                return Err(ResultsError::Exists {
                    folder: folder.into(),
                    finished,
                });
            }
            Mode::New => {}
            // A run that was killed before its sheet was written has measured nothing.
            Mode::Resume if !folder.join(ENVIRONMENT).exists() && contents.records.is_empty() => {}
            Mode::Resume => {
                let recorded = read_sheet(folder)?;
                if let Some((what, recorded, now)) = recorded.binding.difference(&sheet.binding) {
                    return Err(ResultsError::Mismatch {
                        folder: folder.into(),
                        what,
                        recorded,
                        now,
                    });
                }
                let suites = std::mem::take(&mut sheet.binding.suites);
                sheet = recorded;
                sheet.binding.suites.extend(suites);
            }
        }
        measurements
            .set_len(contents.whole_bytes)
            .map_err(file_error("repair", &path))?;
        let mut store = Self {
            folder: folder.into(),
            measurements,
            sheet,
            cells: Vec::new(),
            finished: HashSet::new(),
            skipped: HashSet::new(),
            models: HashMap::new(),
            messages: std::mem::take(&mut contents.messages),
            _lock: lock,
        };
        for record in contents.records {
            store.remember(record);
        }
        store.write_sheet()?;
        Ok(store)
    }

    /// Whether a repeat of a configuration is finished.
    pub fn is_finished(&self, configuration: &Configuration, repeat: usize) -> bool {
        self.finished.contains(&repeat_key(configuration, repeat))
    }

    /// Finished cells, those of earlier runs included.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The model digest that a finished repeat of this configuration gave: another repeat must give the same.
    pub fn model_sha256(&self, configuration: &Configuration) -> Option<&str> {
        self.models.get(&configuration.key()).map(String::as_str)
    }

    /// The experiment sheet: of this run, or where it was resumed, of the first.
    pub fn environment(&self) -> &Environment {
        &self.sheet.environment
    }

    /// Where the run lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a person should know about the files that were found.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Binds the run to the digest of a data set that was loaded.
    ///
    /// # Errors
    /// `Mismatch` where the run's earlier cells were measured on other data of this name.
    pub fn bind_data(&mut self, name: &str, digest: &str) -> Result<(), ResultsError> {
        match self.sheet.binding.data.get(name) {
            Some(recorded) if recorded == digest => Ok(()),
            Some(recorded) => Err(ResultsError::Mismatch {
                folder: self.folder.clone(),
                what: format!("data set {name}"),
                recorded: recorded.clone(),
                now: digest.into(),
            }),
            None => {
                self.sheet.binding.data.insert(name.into(), digest.into());
                self.write_sheet()
            }
        }
    }

    /// Measures peak and bandwidth for those thread counts that the sheet lacks, and keeps them in it.
    ///
    /// Call it before the first cell, not when there is none to measure: a finished run is resumed at once.
    ///
    /// # Errors
    /// When the sheet cannot be written.
    pub fn measure_rooflines(&mut self, threads: &[usize], pinning: &Pinning) -> Result<(), ResultsError> {
        let environment = &mut self.sheet.environment;
        let missing: Vec<usize> = threads
            .iter()
            .copied()
            .filter(|&threads| environment.roofline(threads).is_none())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        environment.rooflines.extend(measure_rooflines(&missing, pinning));
        environment.rooflines.sort_by_key(|roofline| roofline.threads);
        self.write_sheet()
    }

    /// Appends one record: one write, then a sync. When this returns, the record survives a kill.
    ///
    /// # Errors
    /// `Append` when the disk is full or fails; the file is then as it was before.
    pub fn append(&mut self, record: Record) -> Result<(), ResultsError> {
        let key = match &record {
            Record::Cell(cell) => cell.key(),
            Record::Skipped { configuration, .. } if self.skipped.contains(&configuration.key()) => return Ok(()),
            Record::Skipped { configuration, .. } => configuration.key(),
            Record::Rejected {
                configuration, repeat, ..
            } => repeat_key(configuration, *repeat),
        };
        let start = self
            .measurements
            .seek(SeekFrom::End(0))
            .map_err(file_error("write", &self.measurements_path()))?;
        let written = line_of(&record)
            .and_then(|line| self.measurements.write_all(&line))
            .and_then(|()| self.measurements.sync_data());
        if let Err(source) = written {
            // A half line would be dropped on reading anyhow; without it the file is whole for every other reader.
            let _ = self.measurements.set_len(start);
            return Err(ResultsError::Append {
                path: self.measurements_path(),
                key,
                finished: self.cells.len(),
                source,
            });
        }
        self.remember(record);
        Ok(())
    }

    /// Writes `measurements.csv` anew.
    ///
    /// # Errors
    /// When it cannot be written; `measurements.jsonl` is not touched.
    pub fn write_table(&self) -> Result<(), ResultsError> {
        let mut table = Vec::new();
        let path = self.folder.join(TABLE);
        write_csv(&self.cells, &mut table).map_err(|error| file_error("write", &path)(error.into()))?;
        files::replace(&path, &table).map_err(file_error("write", &path))
    }

    fn remember(&mut self, record: Record) {
        match record {
            Record::Cell(cell) => {
                self.models
                    .entry(cell.configuration.key())
                    .or_insert_with(|| cell.model_sha256.clone());
                if self.finished.insert(cell.key()) {
                    self.cells.push(*cell);
                }
            }
            Record::Skipped { configuration, .. } => {
                self.skipped.insert(configuration.key());
            }
            Record::Rejected { .. } => {}
        }
    }

    fn measurements_path(&self) -> PathBuf {
        self.folder.join(MEASUREMENTS)
    }

    fn write_sheet(&self) -> Result<(), ResultsError> {
        let path = self.folder.join(ENVIRONMENT);
        let mut text =
            serde_json::to_vec_pretty(&self.sheet).map_err(|error| file_error("write", &path)(error.into()))?;
        text.push(b'\n');
        files::replace(&path, &text).map_err(file_error("write", &path))
    }
}

/// A line as written.
#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    record: &'a Record,
}

fn line_of(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { schema: SCHEMA, record })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a run. It may still be written: a last line that is not whole yet is left out, with a message.
///
/// # Errors
/// No run there, files that cannot be read, damaged lines, another schema; each names file and line.
pub fn read_run(folder: &Path) -> Result<Run, ResultsError> {
    let sheet = read_sheet(folder)?;
    let path = folder.join(MEASUREMENTS);
    let contents = if path.exists() {
        read_measurements(&path)?
    } else {
        Contents::default()
    };
    let mut run = Run {
        folder: folder.into(),
        environment: sheet.environment,
        binding: sheet.binding,
        cells: Vec::new(),
        skipped: Vec::new(),
        rejected: Vec::new(),
        messages: contents.messages,
    };
    let mut known = HashSet::new();
    for record in contents.records {
        match record {
            Record::Cell(cell) => {
                if known.insert(cell.key()) {
                    run.cells.push(*cell);
                }
            }
            Record::Skipped { configuration, reason } => run.skipped.push((configuration, reason)),
            Record::Rejected {
                configuration, reason, ..
            } => run.rejected.push((configuration, reason)),
        }
    }
    // What was skipped at first and measured by a resumed run, with data files say, is measured.
    let measured: HashSet<String> = run.cells.iter().map(|cell| cell.configuration.key()).collect();
    run.skipped
        .retain(|(configuration, _)| !measured.contains(&configuration.key()));
    Ok(run)
}

/// Where a run goes below `root`: `<day>/<machine>` when it starts anew, `<day>-2/<machine>` and so on when that
/// holds a run already; the newest folder of this machine when it is resumed (a new one where there is none).
pub fn results_directory(root: &Path, environment: &Environment, mode: Mode) -> PathBuf {
    let machine = &environment.machine.id;
    if mode == Mode::Resume
        && let Some(newest) = newest_directory(root, machine)
    {
        return newest;
    }
    let day = environment.day();
    let mut folder = root.join(&day).join(machine);
    let mut count = 1;
    while folder.join(ENVIRONMENT).exists() {
        count += 1;
        folder = root.join(format!("{day}-{count}")).join(machine);
    }
    folder
}

/// The newest folder of a machine below `root`, by the date in its name and the number behind it.
pub fn newest_directory(root: &Path, machine: &str) -> Option<PathBuf> {
    let order = |name: &str| -> (String, u32) {
        match name.char_indices().nth(10) {
            Some((place, '-')) => (name[..place].into(), name[place + 1..].parse().unwrap_or(0)),
            _ => (name.into(), 1),
        }
    };
    fs::read_dir(root)
        .ok()?
        .flatten()
        .map(|entry| (order(&entry.file_name().to_string_lossy()), entry.path().join(machine)))
        .filter(|(_, folder)| folder.join(ENVIRONMENT).exists())
        .max()
        .map(|(_, folder)| folder)
}

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ResultsError {
    move |source| ResultsError::File {
        action,
        path: path.into(),
        source,
    }
}

fn lock(folder: &Path) -> Result<File, ResultsError> {
    let path = folder.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(file_error("write", &path))?;
    match file.try_lock() {
        Ok(()) => {
            // The number is a courtesy to whoever meets the lock; the lock itself is the kernel's and dies with us.
            let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).ok().filter(|process| !process.is_empty());
            let holder = holder.map_or_else(String::new, |process| format!(" (process {process})"));
            Err(ResultsError::Locked {
                folder: folder.into(),
                holder,
            })
        }
        Err(TryLockError::Error(source)) => Err(ResultsError::File {
            action: "lock",
            path,
            source,
        }),
    }
}

fn read_sheet(folder: &Path) -> Result<Sheet, ResultsError> {
    let path = folder.join(ENVIRONMENT);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ResultsError::NoRun { folder: folder.into() });
        }
        Err(source) => {
            return Err(ResultsError::File {
                action: "read",
                path,
                source,
            });
        }
    };
    parse(&text, &path, None)
}

/// What `measurements.jsonl` holds.
#[derive(Default)]
struct Contents {
    records: Vec<Record>,
    /// Bytes up to the end of the last whole line.
    whole_bytes: u64,
    messages: Vec<String>,
}

impl Contents {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.records.iter().filter_map(|record| match record {
            Record::Cell(cell) => Some(&**cell),
            _ => None,
        })
    }
}

fn read_measurements(path: &Path) -> Result<Contents, ResultsError> {
    let text = fs::read(path).map_err(file_error("read", path))?;
    let whole = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |place| place + 1);
    let mut contents = Contents {
        whole_bytes: whole as u64,
        ..Contents::default()
    };
    for (place, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
        if !line.is_empty() {
            contents.records.push(parse(line, path, Some(place + 1))?);
        }
    }
    if whole < text.len() {
        let line = text[..whole].split(|&byte| byte == b'\n').count();
        contents.messages.push(format!(
            "{}:{line}: the last line was cut off ({} bytes without an end); the cell in it was not finished and is \
             left out",
            path.display(),
            text.len() - whole
        ));
    }
    Ok(contents)
}

/// Parses a document that names its schema. `line` is the line it stands on; without it, the parser's own counts.
fn parse<T: for<'de> Deserialize<'de>>(text: &[u8], path: &Path, line: Option<usize>) -> Result<T, ResultsError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: Option<serde_json::Value>,
    }
    let damaged = |error: &serde_json::Error| {
        // The parser's own place is within the line; the message keeps its column.
        let message = error.to_string().replace("line 1 column", "column");
        ResultsError::Damaged {
            path: path.into(),
            line: line.unwrap_or(error.line().max(1)),
            message,
        }
    };
    let found = serde_json::from_slice::<Schema>(text)
        .map_err(|error| damaged(&error))?
        .schema;
    if found != Some(SCHEMA.into()) {
        let found = found.map_or_else(|| "none".into(), |found| found.to_string());
        return Err(ResultsError::Schema {
            path: path.into(),
            line: line.unwrap_or(1),
            found,
        });
    }
    serde_json::from_slice(text).map_err(|error| damaged(&error))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::{Phases, RoundTimes};

    /// A cell as `rounds run` writes it, with plausible numbers.
    pub(crate) fn cell(algorithm: &str, batch_size: usize, threads: usize, repeat: usize) -> Cell {
        let median = (20_000 + batch_size as u64 * 60) / threads as u64;
        let samples = (0..21_u64)
            .map(|round| median * (1000 + (round * 7 + repeat as u64) % 21) / 1010)
            .collect();
        let private = algorithm != "sgd";
        Cell {
            configuration: Configuration {
                suite: "quick".into(),
                algorithm: algorithm.into(),
                dataset: "synthetic-mnist".into(),
                features: "f32".into(),
                batch_size,
                threads,
                ranks: None,
                parameters: if private {
                    [("clip_norm".to_string(), json!(1.0))].into()
                } else {
                    BTreeMap::new()
                },
            },
            repeat,
            n: 60_000,
            dimension: 784,
            classes: 10,
            rounds: 21,
            pinning: crate::machine::PinPolicy::None,
            gradient_queries: 21 * batch_size as u64,
            timed_queries: None,
            round_ns: RoundTimes::new(samples),
            phases_ns: Phases {
                sample: 900,
                gradient: median * 9 / 10,
                noise: 1500,
                update: 700,
            },
            communication_ns: None,
            computing_ns: None,
            messages: None,
            row_bytes: None,
            link_ns: None,
            link_bytes_per_s: None,
            gflops: Some(31_360.0 * batch_size as f64 / median as f64),
            gbytes_per_s: Some(3136.0 * batch_size as f64 / median as f64),
            roofline_fraction: Some(0.8),
            train_loss: Some(0.3),
            test_accuracy: Some(if private { 0.89 } else { 0.92 }),
            excess_risk: None,
            model_sha256: format!("{algorithm}-{batch_size}"),
            privacy: if private {
                json!({"claim": "simulation", "epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"})
            } else {
                json!({"claim": "none"})
            },
            warnings: Vec::new(),
            date: "2026-01-31T12:00:00Z".parse().unwrap(),
        }
    }

    type Change = fn(&mut Binding);

    fn environment() -> Environment {
        Environment::capture(&[])
    }

    fn binding() -> Binding {
        Binding::new(&environment(), [("quick".to_string(), "a".to_string())])
    }

    fn open(folder: &Path, mode: Mode) -> Result<Store, ResultsError> {
        Store::open(folder, environment(), binding(), mode)
    }

    fn record(batch_size: usize, repeat: usize) -> Record {
        Record::Cell(Box::new(cell("dp-sgd", batch_size, 1, repeat)))
    }

    #[test]
    fn finished_cells_are_found_when_the_run_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.append(record(64, 0)).unwrap();
        store.append(record(64, 1)).unwrap();
        let skipped = Record::Skipped {
            configuration: cell("sgd", 1, 1, 0).configuration,
            reason: "too small".into(),
        };
        store.append(skipped.clone()).unwrap();
        store.append(skipped).unwrap();
        store.write_table().unwrap();
        drop(store);

        let store = open(folder.path(), Mode::Resume).unwrap();
        let configuration = cell("dp-sgd", 64, 1, 0).configuration;
        assert!(store.is_finished(&configuration, 0) && store.is_finished(&configuration, 1));
        assert!(!store.is_finished(&configuration, 2));
        assert_eq!(store.model_sha256(&configuration), Some("dp-sgd-64"));
        assert_eq!(store.messages(), [] as [String; 0]);

        let run = read_run(folder.path()).unwrap();
        assert_eq!(run.cells, [cell("dp-sgd", 64, 1, 0), cell("dp-sgd", 64, 1, 1)]);
        assert_eq!(run.skipped.len(), 1);
        assert_eq!(
            fs::read_to_string(folder.path().join(TABLE)).unwrap().lines().count(),
            3
        );
    }

    #[test]
    fn rooflines_are_measured_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.measure_rooflines(&[1], &Pinning::none()).unwrap();
        let measured = store.environment().rooflines.clone();
        assert_eq!(measured.len(), 1);
        drop(store);
        let mut store = open(folder.path(), Mode::Resume).unwrap();
        store.measure_rooflines(&[1], &Pinning::none()).unwrap();
        assert_eq!(store.environment().rooflines, measured);
        assert_eq!(read_run(folder.path()).unwrap().environment.rooflines, measured);
    }

    #[test]
    fn a_folder_with_cells_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), Mode::New).unwrap().append(record(64, 0)).unwrap();
        let error = open(folder.path(), Mode::New).unwrap_err();
        assert!(matches!(error, ResultsError::Exists { finished: 1, .. }));
        assert!(error.to_string().contains("--resume"));
    }

    #[test]
    fn two_runs_cannot_write_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path(), Mode::New).unwrap();
        let error = open(folder.path(), Mode::Resume).unwrap_err();
        assert!(matches!(error, ResultsError::Locked { .. }));
        assert!(
            error.to_string().contains(&format!("(process {})", std::process::id())),
            "{error}"
        );
        drop(first);
        open(folder.path(), Mode::Resume).unwrap();
    }

    #[test]
    fn a_last_line_cut_anywhere_loses_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.append(record(64, 0)).unwrap();
        let path = folder.path().join(MEASUREMENTS);
        let first = fs::metadata(&path).unwrap().len() as usize;
        store.append(record(64, 1)).unwrap();
        drop(store);
        let whole = fs::read(&path).unwrap();
        for end in (first..whole.len()).step_by(37).chain([first + 1, whole.len() - 1]) {
            fs::write(&path, &whole[..end]).unwrap();
            let run = read_run(folder.path()).unwrap();
            assert_eq!(run.cells, [cell("dp-sgd", 64, 1, 0)]);
            assert_eq!(run.messages.len(), usize::from(end > first));
            let mut store = open(folder.path(), Mode::Resume).unwrap();
            assert_eq!(store.cells().len(), 1);
            if end > first {
                assert!(store.messages()[0].contains("jsonl:2:"), "{:?}", store.messages());
            }
            store.append(record(64, 1)).unwrap();
            drop(store);
            assert!(fs::read(&path).unwrap() == whole, "cut at {end}");
        }
    }

    #[test]
    fn another_machine_build_instruction_set_suite_or_data_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.append(record(64, 0)).unwrap();
        store.bind_data("mnist", "one").unwrap();
        store.bind_data("mnist", "one").unwrap();
        assert!(matches!(
            store.bind_data("mnist", "two"),
            Err(ResultsError::Mismatch { .. })
        ));
        drop(store);
        let changes: [(&str, Change); 5] = [
            ("machine", |binding| binding.machine = "other".into()),
            ("build", |binding| binding.build = "other".into()),
            ("instruction set", |binding| binding.isa = "other".into()),
            ("suite quick", |binding| {
                binding.suites.insert("quick".into(), "other".into());
            }),
            ("data set mnist", |binding| {
                binding.data.insert("mnist".into(), "other".into());
            }),
        ];
        for (what, change) in changes {
            let mut binding = binding();
            change(&mut binding);
            let error = Store::open(folder.path(), environment(), binding, Mode::Resume)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(&format!("its {what} was")) && error.contains("other"),
                "{error}"
            );
        }
        let mut more = binding();
        more.suites.insert("full".into(), "b".into());
        let store = Store::open(folder.path(), environment(), more, Mode::Resume).unwrap();
        assert_eq!(store.sheet.binding.suites.len(), 2);
        drop(store);
        let mut store = open(folder.path(), Mode::Resume).unwrap();
        assert!(
            store
                .bind_data("mnist", "two")
                .unwrap_err()
                .to_string()
                .contains("data set mnist was one")
        );
    }

    #[test]
    fn damaged_and_older_files_are_named_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.append(record(64, 0)).unwrap();
        drop(store);
        let path = folder.path().join(MEASUREMENTS);
        let good = fs::read_to_string(&path).unwrap();
        let cases = [
            (format!("{good}{{\"schema\":1,\"rec\n{good}"), "jsonl:2: damaged"),
            (format!("{good}{{\"schema\":0}}\n"), "jsonl:2: results of schema 0"),
            ("{\"algorithm\":\"sgd\"}\n".into(), "jsonl:1: results of schema none"),
            (
                "{\"schema\":1,\"record\":\"cell\"}\n".into(),
                "jsonl:1: damaged: missing field",
            ),
            ("\u{0}\u{1}\n".into(), "jsonl:1: damaged"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).unwrap();
            for error in [
                read_run(folder.path()).unwrap_err(),
                open(folder.path(), Mode::Resume).unwrap_err(),
            ] {
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
        fs::write(&path, good).unwrap();
        fs::write(folder.path().join(ENVIRONMENT), "{\n\"schema\": 1,\n oops").unwrap();
        assert!(
            read_run(folder.path())
                .unwrap_err()
                .to_string()
                .contains("environment.json:3: damaged")
        );
    }

    #[test]
    fn what_was_skipped_and_measured_later_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        let skipped = |batch_size| Record::Skipped {
            configuration: cell("dp-sgd", batch_size, 1, 0).configuration,
            reason: "it needs data files".into(),
        };
        store.append(skipped(64)).unwrap();
        store.append(skipped(500)).unwrap();
        store.append(record(64, 0)).unwrap();
        drop(store);
        let run = read_run(folder.path()).unwrap();
        assert_eq!(run.cells.len(), 1);
        assert_eq!(run.skipped.len(), 1);
        assert_eq!(run.skipped[0].0.batch_size, 500);
    }

    #[test]
    fn a_folder_without_a_run_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read_run(folder.path()), Err(ResultsError::NoRun { .. })));
        // A run that was killed before it wrote anything starts anew.
        open(folder.path(), Mode::Resume).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = open(&file.join("below"), Mode::New).unwrap_err();
        assert!(
            matches!(error, ResultsError::File { .. }) && error.to_string().contains("below"),
            "{error}"
        );
    }

    #[test]
    fn runs_of_one_day_get_their_own_folders_and_the_newest_is_resumed() {
        let root = tempfile::tempdir().unwrap();
        let environment = environment();
        let (day, machine) = (environment.day(), environment.machine.id.clone());
        let first = results_directory(root.path(), &environment, Mode::New);
        assert_eq!(first, root.path().join(&day).join(&machine));
        assert_eq!(results_directory(root.path(), &environment, Mode::Resume), first);
        for _ in 0..10 {
            drop(open(&results_directory(root.path(), &environment, Mode::New), Mode::New).unwrap());
        }
        let tenth = root.path().join(format!("{day}-10")).join(&machine);
        assert_eq!(results_directory(root.path(), &environment, Mode::Resume), tenth);
        assert_eq!(newest_directory(root.path(), "other"), None);
    }
}

//! The folder of an experiment: one writer, one line a finished run, and the binding that a resumed experiment must match.
//!
//! `environment.json` holds the experiment sheet, `measurements.jsonl` one line a run, written at once and synced, and
//! `measurements.csv` the same without lists. A line that a kill cut in half is dropped when the folder is opened again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use liblzma::read::XzDecoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::cell::{Configuration, Record, SCHEMA, Sample, Trial, Values, text};
use crate::format::plural;
use crate::machine::{Environment, PinPolicy, Pinning, measure_rooflines};
use rounds_models::Difference;
use rounds_models::files;

const MEASUREMENTS: &str = "measurements.jsonl";
/// The same, packed for keeping. It is only read.
const PACKED: &str = "measurements.jsonl.xz";
const ENVIRONMENT: &str = "environment.json";
const TABLE: &str = "measurements.csv";
const LOCK: &str = ".lock";

/// Why results cannot be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its variant")]
pub enum StoreError {
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is being written by another run{holder}; wait for it, or choose another folder with --out", folder.display())]
    Locked { folder: PathBuf, holder: String },
    #[error(
        "{} holds {finished} finished runs already; continue them with --resume, or choose another folder with --out",
        folder.display()
    )]
    Exists { folder: PathBuf, finished: usize },
    #[error("{} holds packed runs; unpack {PACKED} first, or choose another folder with --out", folder.display())]
    Packed { folder: PathBuf },
    #[error("{} cannot be resumed: its {difference}; results of both must not be mixed. Run the same {} again, or start anew \
             with another --out", folder.display(), difference.what)]
    Mismatch { folder: PathBuf, difference: Difference },
    #[error("{}{}: damaged: {message}; remove the line, or restore the file", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Damaged { path: PathBuf, line: Option<usize>, message: String },
    #[error(
        "{}:{line}: results of schema {found}, this program reads schema {SCHEMA}; read it with the version that wrote \
         it, or measure again",
        path.display()
    )]
    Schema { path: PathBuf, line: usize, found: String },
    #[error(
        "cannot write the run {key} to {}: {source}; the {finished} finished runs are intact: free some space and continue \
         with --resume",
        path.display()
    )]
    Append { path: PathBuf, key: String, finished: usize, source: io::Error },
    #[error("{} holds no results: {ENVIRONMENT} is missing; name a folder that `rounds run` wrote", folder.display())]
    NoRun { folder: PathBuf },
}

/// Conditions under which runs of one folder are comparable. A resumed run must match them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// `Machine::id`.
    pub machine: String,
    /// `Build::identity`.
    pub build: String,
    /// The vector extension built for.
    pub isa: String,
    /// Binding of threads to cores.
    pub pinning: PinPolicy,
    /// Digest of each suite, by name.
    pub suites: BTreeMap<String, String>,
    /// Digest of each data set, by name, as they were loaded.
    pub data: BTreeMap<String, String>,
}

impl Binding {
    /// The binding of an environment to suites, given as (name, digest).
    pub fn new(environment: &Environment, suites: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            machine: environment.machine.id.clone(),
            build: environment.build.identity(),
            isa: environment.build.isa.clone(),
            pinning: environment.pinning,
            suites: suites.into_iter().collect(),
            data: BTreeMap::new(),
        }
    }

    /// Conditions in which `now` differs. Suites and data that only one of them knows do not count.
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let others = now.conditions();
        let differs = |(what, recorded): (String, String)| {
            let (_, now) = others.iter().find(|(other, now)| *other == what && *now != recorded)?;
            let now = now.clone();
            Some(Difference { what, recorded, now })
        };
        self.conditions().into_iter().filter_map(differs).collect()
    }

    fn conditions(&self) -> Vec<(String, String)> {
        let single = [
            ("machine", self.machine.clone()),
            ("instruction set", self.isa.clone()),
            ("build", self.build.clone()),
            ("pinning", self.pinning.to_string()),
        ];
        let mut all: Vec<_> = single.map(|(what, value)| (what.to_owned(), value)).into();
        for (kind, digests) in [("suite", &self.suites), ("data set", &self.data)] {
            let named = digests.iter().map(|(name, digest)| (format!("{kind} {name}"), digest.clone()));
            all.extend(named);
        }
        all
    }
}

/// Begin of a run: anew or continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The folder must hold no cells.
    New,
    /// Finished cells are kept.
    Resume,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sheet {
    binding: Binding,
    #[serde(flatten)]
    environment: Environment,
}

/// All runs that a folder holds.
#[derive(Debug, Clone)]
pub struct Results<T = Values> {
    /// Finished runs, in the order in which they ended.
    pub samples: Vec<Sample<T>>,
    /// Cells that cannot be measured, with the reason.
    pub skipped: Vec<(Configuration, String)>,
    /// The reasons of runs that diverged, or whose result failed verification, by the key of their cell and the run.
    pub rejected: BTreeMap<(String, Trial), String>,
    /// Keys of cells whose last record is a skip: none of their other runs is missing.
    closed: HashSet<String>,
    /// Places of samples by the key of their cell.
    places: HashMap<String, Vec<usize>>,
}

impl<T> Default for Results<T> {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            skipped: Vec::new(),
            rejected: BTreeMap::new(),
            closed: HashSet::new(),
            places: HashMap::new(),
        }
    }
}

impl<T> Results<T> {
    /// True where no run was made or left out.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.skipped.is_empty() && self.rejected.is_empty()
    }

    /// True where this run is finished.
    pub fn is_finished(&self, configuration: &Configuration, trial: Trial) -> bool {
        self.of(configuration).any(|sample| sample.trial == trial)
    }

    /// The finished runs of a cell.
    pub fn of(&self, configuration: &Configuration) -> impl Iterator<Item = &Sample<T>> {
        let places = self.places.get(&configuration.key()).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&place| &self.samples[place])
    }

    /// The reason for which a cell cannot be measured.
    pub fn reason(&self, configuration: &Configuration) -> Option<&str> {
        let found = self.skipped.iter().find(|(skipped, _)| skipped == configuration);
        found.map(|(_, reason)| reason.as_str())
    }

    /// The number of rejected runs, one of them and its reason, as text; `None` without rejected runs.
    pub fn failures(&self) -> Option<String> {
        let ((key, _), reason) = self.rejected.first_key_value()?;
        Some(format!("{} failed, for example {key}: {reason}", plural(self.rejected.len(), "run")))
    }

    /// The reasons for which runs of a cell were rejected, one a run.
    pub fn rejections(&self, configuration: &Configuration) -> impl Iterator<Item = &str> {
        let key = configuration.key();
        let own = self.rejected.range((key.clone(), Trial::default())..).take_while(move |((own, _), _)| *own == key);
        own.map(|(_, reason)| reason.as_str())
    }

    /// True for a cell whose other runs, or all, cannot be measured.
    pub fn is_closed(&self, configuration: &Configuration) -> bool {
        self.closed.contains(&configuration.key())
    }

    /// A table in CSV: a row a run, a column a number or text. Lists are left out.
    ///
    /// # Errors
    /// Never, but for values that JSON cannot represent.
    pub fn csv(&self) -> io::Result<Vec<u8>>
    where
        T: Serialize,
    {
        let mut rows = Vec::new();
        let mut columns: Vec<String> = Vec::new();
        for sample in &self.samples {
            let mut row = BTreeMap::new();
            flatten("", &serde_json::to_value(sample)?, &mut row);
            let unknown = row.keys().filter(|name| !columns.contains(name));
            columns.extend(unknown.cloned().collect::<Vec<_>>());
            rows.push(row);
        }
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(&columns)?;
        for row in rows {
            table.write_record(columns.iter().map(|column| row.get(column).map_or("", String::as_str)))?;
        }
        table.into_inner().map_err(csv::IntoInnerError::into_error)
    }

    /// Adds a record. A run that is finished or rejected already counts once; what was measured is no longer skipped or rejected.
    fn add(&mut self, record: Record<T>) {
        match record {
            Record::Cell(sample) => {
                if !self.is_finished(&sample.configuration, sample.trial) {
                    let key = sample.configuration.key();
                    self.skipped.retain(|(configuration, _)| *configuration != sample.configuration);
                    self.rejected.remove(&(key.clone(), sample.trial));
                    self.closed.remove(&key);
                    self.places.entry(key).or_default().push(self.samples.len());
                    self.samples.push(*sample);
                }
            }
            Record::Skipped { configuration, reason } => {
                self.closed.insert(configuration.key());
                if self.reason(&configuration).is_none() && self.of(&configuration).next().is_none() {
                    self.skipped.push((configuration, reason));
                }
            }
            Record::Rejected { configuration, trial, reason } => {
                if !self.is_finished(&configuration, trial) {
                    self.rejected.entry((configuration.key(), trial)).or_insert(reason);
                }
            }
        }
    }
}

impl<T> FromIterator<Sample<T>> for Results<T> {
    fn from_iter<I: IntoIterator<Item = Sample<T>>>(samples: I) -> Self {
        let mut results = Self::default();
        for sample in samples {
            results.add(Record::Cell(Box::new(sample)));
        }
        results
    }
}

/// An experiment as read from its folder.
#[derive(Debug, Clone)]
pub struct Stored<T = Values> {
    /// The folder.
    pub folder: PathBuf,
    /// The experiment sheet.
    pub environment: Environment,
    /// Conditions of its runs.
    pub binding: Binding,
    /// Its runs.
    pub results: Results<T>,
    /// Messages about the files, such as a half-written line that was dropped.
    pub messages: Vec<String>,
}

impl<T: DeserializeOwned> Stored<T> {
    fn new(folder: &Path, environment: Environment, binding: Binding) -> Self {
        Self { folder: folder.into(), environment, binding, results: Results::default(), messages: Vec::new() }
    }

    /// Reads `measurements.jsonl`, plain or packed, and returns the number of bytes up to the end of the last whole line.
    fn read_measurements(&mut self) -> Result<u64, StoreError> {
        let mut path = self.folder.join(MEASUREMENTS);
        let mut text = Vec::new();
        if path.exists() {
            text = fs::read(&path).map_err(file_error("read", &path))?;
        } else if self.folder.join(PACKED).exists() {
            path = self.folder.join(PACKED);
            let unpacked = File::open(&path).and_then(|file| XzDecoder::new(file).read_to_end(&mut text));
            unpacked.map_err(file_error("read", &path))?;
        }
        let end = text.iter().rposition(|&byte| byte == b'\n');
        let (whole, half) = text.split_at(end.map_or(0, |place| place + 1));
        let mut number = 0;
        for line in whole.split(|&byte| byte == b'\n') {
            number += 1;
            if !line.is_empty() {
                self.results.add(parse(line, &path, Some(number))?);
            }
        }
        if !half.is_empty() {
            self.messages.push(format!(
                "{}:{number}: the last line was cut off ({} bytes without an end); the run in it was not finished and is left out",
                path.display(),
                half.len()
            ));
        }
        Ok(whole.len() as u64)
    }
}

/// The one writer of a folder. The folder stays locked until it is dropped.
#[derive(Debug)]
pub struct Store<T = Values> {
    run: Stored<T>,
    measurements: File,
    _lock: File,
}

impl<T: Serialize + DeserializeOwned> Store<T> {
    /// Opens the folder of a run, alone.
    ///
    /// # Errors
    /// A folder that cannot be written, that another run holds, that holds cells already (`Mode::New`), or whose
    /// cells were measured with another machine, build, instruction set, suite or data (`Mode::Resume`).
    pub fn open(folder: &Path, environment: Environment, binding: Binding, mode: Mode) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(file_error("create", folder))?;
        let lock = lock(folder)?;
        let path = folder.join(MEASUREMENTS);
        if !path.exists() && folder.join(PACKED).exists() {
            return Err(StoreError::Packed { folder: folder.into() });
        }
        let mut options = OpenOptions::new();
        let opened = options.read(true).append(true).create(true).open(&path);
        let measurements = opened.map_err(file_error("write", &path))?;
        let mut run = Stored::new(folder, environment, binding);
        let whole = run.read_measurements()?;
        // A run that was killed before its sheet was written has measured nothing.
        let begun = folder.join(ENVIRONMENT).exists() || !run.results.is_empty();
        match mode {
            Mode::New if !run.results.is_empty() => {
                return Err(StoreError::Exists { folder: folder.into(), finished: run.results.samples.len() });
            }
            Mode::Resume if begun => {
                let recorded = read_sheet(folder)?;
                if let Some(difference) = recorded.binding.differences(&run.binding).into_iter().next() {
                    let folder = folder.into();
                    return Err(StoreError::Mismatch { folder, difference });
                }
                let suites = std::mem::take(&mut run.binding.suites);
                (run.environment, run.binding) = (recorded.environment, recorded.binding);
                run.binding.suites.extend(suites);
            }
            Mode::New | Mode::Resume => {}
        }
        measurements.set_len(whole).map_err(file_error("repair", &path))?;
        let store = Self { run, measurements, _lock: lock };
        store.write_sheet()?;
        Ok(store)
    }

    /// All runs, those of earlier calls included.
    pub fn results(&self) -> &Results<T> {
        &self.run.results
    }

    /// The experiment sheet: of this run, or where it was resumed, of the first.
    pub fn environment(&self) -> &Environment {
        &self.run.environment
    }

    /// Messages about the files that were found.
    pub fn messages(&self) -> &[String] {
        &self.run.messages
    }

    /// Binds the run to the digest of a data set that was loaded.
    ///
    /// # Errors
    /// `Mismatch` where the run's earlier cells were measured on other data of this name.
    pub fn bind_data(&mut self, name: &str, digest: &str) -> Result<(), StoreError> {
        match self.run.binding.data.get(name) {
            Some(recorded) if recorded == digest => Ok(()),
            Some(recorded) => Err(StoreError::Mismatch {
                folder: self.run.folder.clone(),
                difference: Difference {
                    what: format!("data set {name}"),
                    recorded: recorded.clone(),
                    now: digest.into(),
                },
            }),
            None => {
                self.run.binding.data.insert(name.into(), digest.into());
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
    pub fn measure_rooflines(&mut self, threads: &[usize], pinning: &Pinning) -> Result<(), StoreError> {
        let environment = &mut self.run.environment;
        let mut missing = threads.to_vec();
        missing.retain(|&threads| environment.roofline(threads).is_none());
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
    pub fn append(&mut self, record: Record<T>) -> Result<(), StoreError> {
        let key = match &record {
            Record::Cell(sample) => sample.key(),
            Record::Skipped { configuration, .. } if self.results().reason(configuration).is_some() => return Ok(()),
            Record::Rejected { configuration, trial, .. }
                if self.results().rejected.contains_key(&(configuration.key(), *trial)) =>
            {
                return Ok(());
            }
            Record::Skipped { configuration, .. } | Record::Rejected { configuration, .. } => configuration.key(),
        };
        let path = self.run.folder.join(MEASUREMENTS);
        let start = self.measurements.seek(SeekFrom::End(0)).map_err(file_error("write", &path))?;
        let written = line_of(&record)
            .and_then(|line| self.measurements.write_all(&line))
            .and_then(|()| self.measurements.sync_data());
        if let Err(source) = written {
            // A half line would be dropped on reading anyhow; without it the file is whole for every other reader.
            let _ = self.measurements.set_len(start);
            return Err(StoreError::Append { path, key, finished: self.results().samples.len(), source });
        }
        self.run.results.add(record);
        Ok(())
    }

    /// Writes `measurements.csv` anew, see [`Results::csv`].
    ///
    /// # Errors
    /// When it cannot be written; `measurements.jsonl` is not touched.
    pub fn write_table(&self) -> Result<(), StoreError> {
        let path = self.run.folder.join(TABLE);
        let table = self.results().csv().map_err(file_error("write", &path))?;
        files::replace(&path, &table).map_err(file_error("write", &path))
    }

    fn write_sheet(&self) -> Result<(), StoreError> {
        let path = self.run.folder.join(ENVIRONMENT);
        let sheet = Sheet { binding: self.run.binding.clone(), environment: self.run.environment.clone() };
        let sheet = Line { schema: SCHEMA, record: &sheet };
        let mut text = serde_json::to_vec_pretty(&sheet).map_err(|error| file_error("write", &path)(error.into()))?;
        text.push(b'\n');
        files::replace(&path, &text).map_err(file_error("write", &path))
    }
}

/// The numbers and texts of a value by their path, joined by `_`.
fn flatten(path: &str, value: &Value, row: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                let below = if path.is_empty() { name.clone() } else { format!("{path}_{name}") };
                flatten(&below, value, row);
            }
        }
        Value::Null | Value::Array(_) => {}
        _ => {
            row.insert(path.to_owned(), text(value));
        }
    }
}

#[derive(Serialize)]
struct Line<'a, R> {
    schema: u32,
    #[serde(flatten)]
    record: &'a R,
}

fn line_of<T: Serialize>(record: &Record<T>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { schema: SCHEMA, record })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads an experiment. It may still be written: a last line that is not whole yet is left out, with a message.
///
/// # Errors
/// No experiment there, files that cannot be read, damaged lines, another schema; each names file and line.
pub fn read<T: DeserializeOwned>(folder: &Path) -> Result<Stored<T>, StoreError> {
    let sheet = read_sheet(folder)?;
    let mut run = Stored::new(folder, sheet.environment, sheet.binding);
    run.read_measurements()?;
    Ok(run)
}

/// The experiment sheet of a folder, and the conditions of its runs.
///
/// # Errors
/// Those of [`read`].
pub fn head(folder: &Path) -> Result<(Environment, Binding), StoreError> {
    let sheet = read_sheet(folder)?;
    Ok((sheet.environment, sheet.binding))
}

/// True for a folder that an experiment wrote.
pub fn holds_results(folder: &Path) -> bool {
    folder.join(ENVIRONMENT).is_file()
}

/// Folder of a run below `root`: `<day>/<machine>` when it starts anew, `<day>-2/<machine>` and so on when that
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
    while folder.exists() {
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
        .filter(|(_, folder)| folder.is_dir())
        .max()
        .map(|(_, folder)| folder)
}

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::File { action, path: path.into(), source }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(file_error("write", &path))?;
    match file.try_lock() {
        Ok(()) => {
            // The number is a courtesy to whoever meets the lock; the lock itself is the kernel's and dies with us.
            let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).ok().filter(|process| !process.is_empty());
            let holder = holder.map_or_else(String::new, |process| format!(" (process {process})"));
            Err(StoreError::Locked { folder: folder.into(), holder })
        }
        Err(TryLockError::Error(source)) => Err(StoreError::File { action: "lock", path, source }),
    }
}

fn read_sheet(folder: &Path) -> Result<Sheet, StoreError> {
    let path = folder.join(ENVIRONMENT);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoRun { folder: folder.into() });
        }
        text => text.map_err(file_error("read", &path))?,
    };
    parse(&text, &path, None)
}

/// Parses a document that names its schema. `line` is the line it stands on; without it, the parser's own counts, which knows that of bad
/// syntax but not that of a wrong type.
fn parse<T: DeserializeOwned>(text: &[u8], path: &Path, line: Option<usize>) -> Result<T, StoreError> {
    let damaged = |error: serde_json::Error| {
        // The parser's own place is within the line; the message keeps its column.
        let message = error.to_string().replace("line 1 column", "column");
        StoreError::Damaged { path: path.into(), line: line.or(Some(error.line()).filter(|line| *line > 0)), message }
    };
    let mut value: Value = serde_json::from_slice(text).map_err(damaged)?;
    let found = value.as_object_mut().and_then(|fields| fields.shift_remove("schema"));
    if found != Some(SCHEMA.into()) {
        let found = found.map_or_else(|| "none".into(), |found| found.to_string());
        return Err(StoreError::Schema { path: path.into(), line: line.unwrap_or(1), found });
    }
    serde_json::from_value(value).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::cell;
    use crate::results::{RoundCost, Store};

    type Change = fn(&mut Binding);

    fn environment() -> Environment {
        Environment::capture(&[])
    }

    fn binding() -> Binding {
        Binding::new(&environment(), [("quick".to_string(), "a".to_string())])
    }

    fn open(folder: &Path, mode: Mode) -> Result<Store, StoreError> {
        Store::open(folder, environment(), binding(), mode)
    }

    /// The message of an error.
    fn said<T>(result: Result<T, StoreError>) -> String {
        result.err().unwrap().to_string()
    }

    /// A folder with one finished run.
    fn begun() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), Mode::New).unwrap().append(record(64, 0)).unwrap();
        folder
    }

    fn record(batch_size: usize, repeat: usize) -> Record<RoundCost> {
        Record::Cell(Box::new(cell("dp-sgd", batch_size, 1, repeat)))
    }

    #[test]
    fn finished_cells_are_found_when_the_run_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        store.append(record(64, 0)).unwrap();
        store.append(record(64, 1)).unwrap();
        let skipped = Record::Skipped { configuration: cell("sgd", 1, 1, 0).configuration, reason: "too small".into() };
        store.append(skipped.clone()).unwrap();
        store.append(skipped).unwrap();
        store.write_table().unwrap();
        drop(store);

        let store = open(folder.path(), Mode::Resume).unwrap();
        let configuration = cell("dp-sgd", 64, 1, 0).configuration;
        let finished = |repeat, draw| store.results().is_finished(&configuration, Trial { repeat, draw });
        assert!(finished(0, 0) && finished(1, 0) && !finished(2, 0) && !finished(0, 1));
        assert_eq!(store.results().of(&configuration).count(), 2);
        assert_eq!(store.messages(), [] as [String; 0]);

        let run = read::<RoundCost>(folder.path()).unwrap();
        assert_eq!(run.results.samples, [cell("dp-sgd", 64, 1, 0), cell("dp-sgd", 64, 1, 1)]);
        assert_eq!(run.results.skipped.len(), 1);
        assert_eq!(fs::read_to_string(folder.path().join(TABLE)).unwrap().lines().count(), 3);
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
        assert_eq!(read::<RoundCost>(folder.path()).unwrap().environment.rooflines, measured);
    }

    #[test]
    fn a_folder_of_packed_cells_is_neither_written_nor_hidden() {
        let folder = begun();
        fs::rename(folder.path().join(MEASUREMENTS), folder.path().join(PACKED)).unwrap();
        for mode in [Mode::New, Mode::Resume] {
            let error = open(folder.path(), mode).unwrap_err();
            assert!(matches!(error, StoreError::Packed { .. }), "{error}");
        }
        assert!(!folder.path().join(MEASUREMENTS).exists());
    }

    #[test]
    fn a_folder_with_cells_is_not_overwritten() {
        let folder = begun();
        let error = open(folder.path(), Mode::New).unwrap_err();
        assert!(matches!(error, StoreError::Exists { finished: 1, .. }));
        assert!(error.to_string().contains("--resume"));
    }

    #[test]
    fn two_runs_cannot_write_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path(), Mode::New).unwrap();
        let error = said(open(folder.path(), Mode::Resume));
        let process = format!("by another run (process {})", std::process::id());
        assert!(error.contains(&process), "{error}");
        drop(first);
        open(folder.path(), Mode::Resume).unwrap();
    }

    #[test]
    fn a_last_line_cut_anywhere_loses_only_itself() {
        let folder = begun();
        let path = folder.path().join(MEASUREMENTS);
        let first = fs::metadata(&path).unwrap().len() as usize;
        let mut store = open(folder.path(), Mode::Resume).unwrap();
        store.append(record(64, 1)).unwrap();
        drop(store);
        let whole = fs::read(&path).unwrap();
        for end in (first..whole.len()).step_by(37).chain([first + 1, whole.len() - 1]) {
            fs::write(&path, &whole[..end]).unwrap();
            let run = read::<RoundCost>(folder.path()).unwrap();
            assert_eq!(run.results.samples, [cell("dp-sgd", 64, 1, 0)]);
            assert_eq!(run.messages.len(), usize::from(end > first));
            let mut store = open(folder.path(), Mode::Resume).unwrap();
            assert_eq!(store.results().samples.len(), 1);
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
        let folder = begun();
        let mut store = open(folder.path(), Mode::Resume).unwrap();
        store.bind_data("mnist", "one").unwrap();
        store.bind_data("mnist", "one").unwrap();
        assert!(matches!(store.bind_data("mnist", "two"), Err(StoreError::Mismatch { .. })));
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
            let error = said(Store::open(folder.path(), environment(), binding, Mode::Resume));
            assert!(error.contains(&format!("its {what} was")) && error.contains("other"), "{error}");
        }
        let mut more = binding();
        more.suites.insert("full".into(), "b".into());
        let store = Store::open(folder.path(), environment(), more, Mode::Resume).unwrap();
        assert_eq!(store.run.binding.suites.len(), 2);
        drop(store);
        let mut store = open(folder.path(), Mode::Resume).unwrap();
        assert!(said(store.bind_data("mnist", "two")).contains("data set mnist was one"));
    }

    #[test]
    fn damaged_and_older_files_are_named_with_their_line() {
        let folder = begun();
        let path = folder.path().join(MEASUREMENTS);
        let good = fs::read_to_string(&path).unwrap();
        let cases = [
            (format!("{good}{{\"schema\":1,\"rec\n{good}"), "jsonl:2: damaged"),
            (format!("{good}{{\"schema\":0}}\n"), "jsonl:2: results of schema 0"),
            ("{\"algorithm\":\"sgd\"}\n".into(), "jsonl:1: results of schema none"),
            ("{\"schema\":1,\"record\":\"cell\"}\n".into(), "jsonl:1: damaged: missing field"),
            ("\u{0}\u{1}\n".into(), "jsonl:1: damaged"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).unwrap();
            for error in [said(read::<RoundCost>(folder.path())), said(open(folder.path(), Mode::Resume))] {
                assert!(error.contains(expected), "{error}");
            }
        }
        fs::write(&path, good).unwrap();
        fs::write(folder.path().join(ENVIRONMENT), "{\n\"schema\": 1,\n oops").unwrap();
        assert!(said(read::<RoundCost>(folder.path())).contains("environment.json:3: damaged"));
        fs::write(folder.path().join(ENVIRONMENT), "{\n\"schema\": 1,\n\"binding\": 7 }").unwrap();
        assert!(said(read::<RoundCost>(folder.path())).contains("environment.json: damaged: invalid type"));
    }

    #[test]
    fn what_was_skipped_or_rejected_and_measured_later_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), Mode::New).unwrap();
        let skipped = |batch_size| Record::Skipped {
            configuration: cell("dp-sgd", batch_size, 1, 0).configuration,
            reason: "it needs data files".into(),
        };
        store.append(skipped(64)).unwrap();
        store.append(skipped(500)).unwrap();
        let rejected = |repeat| Record::Rejected {
            configuration: cell("dp-sgd", 64, 1, 0).configuration,
            trial: Trial { repeat, draw: 0 },
            reason: "it diverged".into(),
        };
        for repeat in [0, 1, 1, 12] {
            store.append(rejected(repeat)).unwrap();
        }
        store.append(record(64, 0)).unwrap();
        // As a record of another draw, from before draws were kept.
        store.append(rejected(0)).unwrap();
        drop(store);
        let run = read::<RoundCost>(folder.path()).unwrap();
        assert_eq!(run.results.samples.len(), 1);
        assert_eq!(run.results.skipped.len(), 1);
        assert_eq!(run.results.skipped[0].0.batch_size, 500);
        let known = |size| run.results.rejections(&cell("dp-sgd", size, 1, 0).configuration).count();
        assert_eq!((known(64), known(500)), (2, 0));
        let lines = fs::read_to_string(folder.path().join(MEASUREMENTS)).unwrap();
        assert_eq!(lines.lines().count(), 2 + 3 + 2, "a rejected run is written once");
    }

    #[test]
    fn a_folder_without_a_run_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read::<RoundCost>(folder.path()), Err(StoreError::NoRun { .. })));
        // A run that was killed before it wrote anything starts anew.
        open(folder.path(), Mode::Resume).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = open(&file.join("below"), Mode::New).unwrap_err();
        assert!(matches!(error, StoreError::File { .. }) && error.to_string().contains("below"), "{error}");
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

//! Ledgers: what runs on one data set have spent of a budget, in a file that only grows.
//!
//! The first line is the budget: (ε, δ), the relation, the unit, the name of the data and their number of rows or units. Every other line
//! books a run, before it reads a row, with its statement and the part of the budget that it takes, or says that a booked run is done, or
//! that it ended before its noise was drawn and spent nothing. A run that dies stays booked: its noise may have been seen. Each line has the
//! SHA-256 of the one before it and of its own text, so that damage shows.
//!
//! Runs are added up by a [`Filter`], whose theorem allows that each is chosen after the results of all before it.
//!
//! **Nothing secret, nothing of the rows.** The facts of a line are settings, the declared domain, what follows from them, and the SHA-256 of
//! a released model. The data set is known by what is public of it, not by its contents: a digest of rows would let anybody who has all rows
//! but one test a guess at that one. So a ledger cannot tell new contents under one name and number from the old ones.
//!
//! **One process.** The file is locked (advisory, `flock`) while a run goes on. A copy of a ledger is another budget, and one that is put back from a
//! backup forgets: no file can prevent either, but for one that is replaced while a run has it in use, which the run finds before its noise is drawn. Whoever publishes its last line's digest beside a model can show that it did not shrink.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rounds_algorithms::hexadecimal;
use rounds_algorithms::privacy::{
    Adjacency, Filter, FilterKind, PrivacyError, PrivacyStatement, PrivacyWarning, Share, Taken,
};
use rounds_algorithms::problem::{Domain, Relation};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::{self, OpenError};
use crate::text::{foreign, percent_left, rounded_down, rounded_up};

/// The version of the format.
const VERSION: u32 = 1;
/// The longest ledger that is read.
const MOST_BYTES: u64 = 1 << 30;

/// A ledger that cannot be made or used, or a run that it refuses. Nothing was booked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the fields")]
pub enum LedgerError {
    #[error("ledger {}: cannot {action}: {source}", path.display())]
    File { path: PathBuf, action: &'static str, source: io::Error },
    #[error("ledger {}: there is none; `rounds ledger new {}` makes one", path.display(), path.display())]
    Absent { path: PathBuf },
    #[error("ledger {}: it is {is}; name the file itself", path.display())]
    Place { path: PathBuf, is: &'static str },
    #[error("ledger {}: another run has it in use; begin again when that has ended", path.display())]
    InUse { path: PathBuf },
    #[error("ledger {}: another file has taken its place since this run opened it; nothing was drawn, begin again", path.display())]
    Replaced { path: PathBuf },
    #[error("ledger {}: line {line} is damaged: {reason}; no run is booked in a ledger that cannot be read whole", path.display())]
    Damaged { path: PathBuf, line: usize, reason: String },
    #[error("ledger {}: it is of another data set: its {what} is {of_ledger}, of this run {of_run}", path.display())]
    OtherData { path: PathBuf, what: &'static str, of_ledger: String, of_run: String },
    #[error(
        "ledger {}: the budget would be exceeded: this run takes {wanted}, and {} % is left{way_out}. It read no row and spent nothing",
        path.display(), percent_left(*left)
    )]
    Exceeded { path: PathBuf, wanted: String, left: f64, way_out: String },
    #[error(
        "ledger {}: of a selection ε and δ alone are known, which its {filter} filter would count as {counted}. A ledger with \
         the basic filter adds them up; this run read no row and spent nothing",
        path.display()
    )]
    Selection { path: PathBuf, filter: FilterKind, counted: String },
    #[error("ledger {}: {source}", path.display())]
    Privacy { path: PathBuf, source: PrivacyError },
    #[error(transparent)]
    Budget(#[from] PrivacyError),
    #[error("ledger {}: the run of this checkpoint is not open in it ({reason}); a run is booked when it begins", path.display())]
    NotOpen { path: PathBuf, reason: &'static str },
    #[error("`rows {given}`: the relation is {relation}, and {needed}")]
    Rows { given: String, relation: Adjacency, needed: &'static str },
}

impl LedgerError {
    /// Something that the settings decide.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::File { source, .. } => source.kind() == io::ErrorKind::AlreadyExists,
            Self::Damaged { .. } | Self::InUse { .. } | Self::Replaced { .. } => false,
            _ => true,
        }
    }
}

/// The budget of a data set, the first line of its ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Budget {
    version: u32,
    /// The public name of the data: that of their file or named set.
    pub data: String,
    /// Their number of rows, or units; the declared one under add-remove.
    pub rows: usize,
    /// The relation of every run.
    pub adjacency: Adjacency,
    /// The unit of protection.
    pub unit: String,
    /// ε of all runs together.
    pub epsilon: f64,
    /// δ of all runs together.
    pub delta: f64,
    /// The theorem by which they are added up.
    pub filter: FilterKind,
}

impl Budget {
    /// The budget (ε, δ) of data of a declared domain, of which `rows` is the number of rows or units: it is public, and must be given, but
    /// under add-remove, where it is private and the domain's public number stands for it.
    ///
    /// # Errors
    /// ε and δ out of range, a number of rows that is missing or superfluous.
    pub fn new(
        data: &str,
        domain: &Domain,
        rows: Option<usize>,
        (filter, epsilon, delta): (FilterKind, f64, f64),
    ) -> Result<Self, LedgerError> {
        let adjacency = domain.relation.adjacency();
        let (known, needed) = if let Relation::AddRemove { public_rows } = domain.relation {
            (rows.is_none().then_some(public_rows), "the number of rows is private; `public-rows` stands for it")
        } else {
            let needed = "the number of rows, or of units, is public and plans follow from it: give it";
            (rows.filter(|&rows| rows > 0), needed)
        };
        let given = rows.map_or_else(|| "N".to_owned(), |rows| rows.to_string());
        let rows = known.ok_or(LedgerError::Rows { given, relation: adjacency, needed })?;
        let unit = PrivacyStatement::name_of_unit(domain.unit.as_ref());
        let budget = Self { version: VERSION, data: name_of(data), rows, adjacency, unit, epsilon, delta, filter };
        budget.filter()?;
        Ok(budget)
    }

    fn filter(&self) -> Result<Filter, PrivacyError> {
        Filter::new(self.filter, self.epsilon, self.delta)
    }

    /// A warning about δ.
    pub fn warning(&self) -> Option<PrivacyWarning> {
        PrivacyWarning::for_delta(self.delta, self.rows)
    }
}

fn taken(share: Share, statement: &PrivacyStatement) -> Taken {
    (share, [statement.epsilon, statement.delta].map(|stated| stated.unwrap_or(f64::INFINITY)))
}

/// The public name of data: the last part of their path.
pub(crate) fn name_of(data: &str) -> String {
    Path::new(data).file_name().map_or_else(|| data.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The state of a booked run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It goes on, was stopped, or died: spent, since its noise may have been seen. Resumed from its checkpoint, it costs nothing more.
    Open,
    /// Its model is written.
    Done,
    /// It ended before its noise was drawn, and spent nothing.
    Void,
}

/// A booked run.
#[derive(Clone, Debug, Serialize)]
pub struct BookedRun {
    /// Its name: the digest of its line.
    pub id: String,
    /// Its statement.
    pub statement: PrivacyStatement,
    /// The part of the budget that it takes.
    pub share: Share,
    /// Its state.
    pub state: State,
    /// SHA-256 of its model.
    pub model_sha256: Option<String>,
}

/// What a line says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Entry {
    Budget(Budget),
    Booked { statement: Box<PrivacyStatement>, share: Share },
    Done { run: String, model_sha256: String },
    Void { run: String },
}

/// What a ledger says.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// The budget.
    pub budget: Budget,
    /// All runs that were booked, in order.
    pub runs: Vec<BookedRun>,
    /// The digest of the last line.
    pub sha256: String,
    /// The place, for messages.
    #[serde(skip)]
    path: PathBuf,
}

/// What stands before and after the entry of a line.
const BEFORE: [&str; 2] = ["{\"sha256\":\"", "\",\"entry\":"];

/// A file with this text is a ledger, whole or damaged.
pub(crate) fn is_ledger(text: &[u8]) -> bool {
    let rest = text.strip_prefix(BEFORE[0].as_bytes()).and_then(|rest| rest.get(64..));
    rest.is_some_and(|rest| rest.starts_with(BEFORE[1].as_bytes()))
}

/// The digest of a line after that of the one before.
fn chained(before: &str, entry: &str) -> String {
    hexadecimal(&Sha256::new_with_prefix(b"rounds ledger\n").chain_update(before).chain_update(entry).finalize())
}

fn line_of(before: &str, entry: &Entry) -> (String, String) {
    let entry = serde_json::to_string(entry).expect("names and values");
    let sha256 = chained(before, &entry);
    (format!("{}{sha256}{}{entry}}}\n", BEFORE[0], BEFORE[1]), sha256)
}

impl Account {
    /// Reads a ledger, which another process may have in use.
    ///
    /// # Errors
    /// A file that cannot be read, or is damaged.
    pub fn read(path: &Path) -> Result<Self, LedgerError> {
        Self::of(path, &opened(path, OpenOptions::new().read(true))?)
    }

    fn of(path: &Path, file: &File) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::File { path: path.into(), action: "read it", source };
        let mut text = String::new();
        if file.metadata().map_err(failed)?.len() > MOST_BYTES {
            return Err(failed(io::Error::other("it is longer than 1 GiB")));
        }
        let damaged = |line: usize, reason: &str| LedgerError::Damaged {
            path: path.into(),
            line: line + 1,
            reason: reason.into(),
        };
        match (&mut &*file).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged(0, "it is no text")),
            read => read.map_err(failed)?,
        };
        if !text.ends_with('\n') {
            let last = text.lines().count().saturating_sub(1);
            let reason = "it is incomplete, as after a crash while it was written; no run began by it, so cut it off";
            return Err(damaged(last, if text.is_empty() { "the file is empty" } else { reason }));
        }
        let mut account: Option<Self> = None;
        for (number, line) in text.lines().enumerate() {
            let parts = line.strip_prefix(BEFORE[0]).and_then(|rest| {
                let (sha256, rest) = rest.split_at_checked(64)?;
                Some((sha256, rest.strip_prefix(BEFORE[1])?.strip_suffix('}')?))
            });
            let (sha256, entry) = parts.ok_or_else(|| damaged(number, "it is no line of a ledger"))?;
            let before = account.as_ref().map_or("", |account| &account.sha256);
            if chained(before, entry) != sha256 {
                return Err(damaged(number, "its digest is not that of its text after the lines before it"));
            }
            let entry = serde_json::from_str(entry).map_err(|error| damaged(number, &foreign(&error)))?;
            let sha256 = sha256.to_owned();
            match (&mut account, entry) {
                (None, Entry::Budget(budget)) if budget.version == VERSION => {
                    account = Some(Self { budget, runs: Vec::new(), sha256, path: path.into() });
                }
                (Some(account), entry) => {
                    account.apply(entry, sha256).map_err(|reason| damaged(number, reason))?;
                }
                (None, _) => return Err(damaged(number, "it is not the budget of a ledger of this version")),
            }
        }
        account.ok_or_else(|| damaged(0, "the file is empty"))
    }

    /// One more line, with this digest.
    fn apply(&mut self, entry: Entry, sha256: String) -> Result<(), &'static str> {
        match entry {
            Entry::Budget(_) => return Err("it is a second budget"),
            Entry::Booked { statement, share } => {
                if !share.iter().all(|part| (0.0..=1.0).contains(part)) {
                    return Err("it books no part of the budget");
                }
                let (id, statement) = (sha256.clone(), *statement);
                self.runs.push(BookedRun { id, statement, share, state: State::Open, model_sha256: None });
            }
            Entry::Done { run, model_sha256 } => {
                let run = self.open_run(&run)?;
                (run.state, run.model_sha256) = (State::Done, Some(model_sha256));
            }
            Entry::Void { run } => self.open_run(&run)?.state = State::Void,
        }
        self.sha256 = sha256;
        Ok(())
    }

    fn open_run(&mut self, id: &str) -> Result<&mut BookedRun, &'static str> {
        let run = self.runs.iter_mut().find(|run| run.id == id).ok_or("it was never booked")?;
        match run.state {
            State::Open => Ok(run),
            State::Done => Err("it is done"),
            State::Void => Err("it ended before its noise was drawn"),
        }
    }

    /// The part of the budget that booked runs have taken.
    pub fn spent(&self) -> Share {
        self.budget.filter().map_or([1.0; 2], |filter| filter.spent(&self.taken()))
    }

    /// The cost of every booked run that counts.
    fn taken(&self) -> Vec<Taken> {
        let counted = self.runs.iter().filter(|run| run.state != State::Void);
        counted.map(|run| taken(run.share, &run.statement)).collect()
    }

    /// The greatest ε of one more run at `delta`, of Gaussian noise without amplification where that decides.
    pub fn room(&self, delta: f64) -> Option<f64> {
        self.budget.filter().ok()?.room(&self.taken(), delta)
    }

    /// The part of the budget that a run takes, if it fits.
    fn fitting(&self, statement: &PrivacyStatement) -> Result<Share, LedgerError> {
        let Budget { adjacency, unit, .. } = &self.budget;
        let own = statement.adjacency.map_or_else(|| "none".to_owned(), |of| of.to_string());
        for (what, of_ledger, of_run) in
            [("relation", adjacency.to_string(), own), ("unit", unit.clone(), statement.unit.clone())]
        {
            self.same(what, of_ledger, of_run)?;
        }
        let of_budget = |source| LedgerError::Privacy { path: self.path.clone(), source };
        let by = self.budget.filter().map_err(of_budget)?;
        let share = by.share(statement).map_err(of_budget)?;
        let mut runs = self.taken();
        let spent = by.spent(&runs);
        // The one of ε and δ that there is less of.
        let part = usize::from(spent[1] + share[1] > spent[0] + share[0]);
        let filter = self.budget.filter;
        if statement.selection.is_some() && filter != FilterKind::Basic {
            let counted = match share[part] {
                share if share.is_finite() => format!("{} % of the budget", rounded_up(100.0 * share, 3)),
                _ => "more than any budget".to_owned(),
            };
            return Err(LedgerError::Selection { path: self.path.clone(), filter, counted });
        }
        runs.push(taken(share, statement));
        if by.fits(&runs) {
            return Ok(share);
        }
        let whole = by.room(&[], statement.delta.unwrap_or(0.0));
        // A looser accountant may state more than the budget of a run that fits an empty ledger.
        let is_more = |epsilon: &f64| share[part] > 1.0 && whole.is_some_and(|whole| *epsilon > whole);
        let beyond = statement.epsilon.filter(is_more);
        let wanted = match (beyond, filter) {
            (Some(epsilon), _) => format!("ε = {}, more than all of it", rounded_up(epsilon, 3)),
            _ if share[part].is_finite() => format!("{} % of it", rounded_up(100.0 * share[part], 3)),
            (None, FilterKind::Basic) => "a δ, of which it has none".to_owned(),
            (None, _) => format!("more of it than the {filter} filter can count"),
        };
        let by_numbers = beyond.is_none() && filter != FilterKind::Basic;
        let way_out = if by_numbers && share[part].is_infinite() {
            "; of such a run ε and δ alone are counted, which a ledger with the basic filter adds up".to_owned()
        } else {
            self.room_in_words(statement.delta.unwrap_or(0.0))
        };
        Err(LedgerError::Exceeded { path: self.path.clone(), wanted, left: 1.0 - spent[part], way_out })
    }

    /// [`room`](Self::room) in words, if there is some.
    pub fn room_in_words(&self, delta: f64) -> String {
        let Some(room) = self.room(delta).filter(|&room| room > 1e-9 * self.budget.epsilon) else {
            return String::new();
        };
        let delta = if delta == 0.0 { "0".to_owned() } else { format!("{delta:e}") };
        let by = if self.budget.filter == FilterKind::Basic { "" } else { " by Gaussian noise" };
        format!(", enough for ε = {} at δ = {delta}{by}", rounded_down(room))
    }

    /// Refuses a run on other data.
    pub(crate) fn same(&self, what: &'static str, of_ledger: String, of_run: String) -> Result<(), LedgerError> {
        let path = self.path.clone();
        if of_ledger == of_run { Ok(()) } else { Err(LedgerError::OtherData { path, what, of_ledger, of_run }) }
    }
}

/// A ledger that this process alone has in use.
#[derive(Debug)]
pub struct Ledger {
    account: Account,
    file: File,
}

fn opened(path: &Path, options: &mut OpenOptions) -> Result<File, LedgerError> {
    let path = path.to_owned();
    files::open_regular(&path, options).map_err(|error| match error {
        OpenError::NotRegular(is) => LedgerError::Place { path, is },
        OpenError::File(source) if source.kind() == io::ErrorKind::NotFound => LedgerError::Absent { path },
        OpenError::File(source) => LedgerError::File { path, action: "read and write it", source },
    })
}

impl Ledger {
    /// Writes the ledger of a budget that nothing was spent of, to a file that is not there yet.
    ///
    /// # Errors
    /// A file that is there, or cannot be written.
    pub fn create(path: &Path, budget: &Budget) -> Result<(), LedgerError> {
        let (line, _) = line_of("", &Entry::Budget(budget.clone()));
        let written = OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
            written
                .and_then(|()| File::open(files::folder_of(path))?.sync_all())
                .inspect_err(|_| drop(fs::remove_file(path)))
        });
        written.map_err(|source| {
            let is_there = source.kind() == io::ErrorKind::AlreadyExists;
            let action = if is_there { "make it, since a ledger is never replaced" } else { "make it" };
            LedgerError::File { path: path.into(), action, source }
        })
    }

    /// Takes a ledger into use, until it is dropped.
    ///
    /// # Errors
    /// A file that cannot be read or written, that another process has in use, or that is damaged.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let file = opened(path, OpenOptions::new().read(true).append(true))?;
        match file.try_lock() {
            Ok(()) => {
                let ledger = Self { account: Account::of(path, &file)?, file };
                ledger.check_place()?;
                Ok(ledger)
            }
            Err(TryLockError::WouldBlock) => Err(LedgerError::InUse { path: path.into() }),
            Err(TryLockError::Error(source)) => Err(LedgerError::File { path: path.into(), action: "lock it", source }),
        }
    }

    /// What it says.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Books a run with this statement, on the disk when this returns; its name.
    ///
    /// # Errors
    /// Another relation or unit, a budget that would be exceeded, a file that cannot be written. Nothing is booked then.
    pub fn book(&mut self, statement: &PrivacyStatement) -> Result<String, LedgerError> {
        let share = self.account.fitting(statement)?;
        self.append(Entry::Booked { statement: Box::new(statement.clone()), share })?;
        Ok(self.account.sha256.clone())
    }

    /// Checks that a run was booked and has not ended.
    ///
    /// # Errors
    /// A run that is done, or was never booked here.
    pub fn check_open(&mut self, run: &str) -> Result<(), LedgerError> {
        let path = self.account.path.clone();
        self.account.open_run(run).map(drop).map_err(|reason| LedgerError::NotOpen { path, reason })
    }

    /// Notes that a run's model is written.
    ///
    /// # Errors
    /// A file that cannot be written; the run then stays open.
    pub fn close(&mut self, run: &str, model_sha256: &str) -> Result<(), LedgerError> {
        self.append(Entry::Done { run: run.to_owned(), model_sha256: model_sha256.to_owned() })
    }

    /// Gives back what a run was booked for. Its noise must not have been drawn.
    ///
    /// # Errors
    /// A file that cannot be written; the run then stays open.
    pub(crate) fn give_back(&mut self, run: &str) -> Result<(), LedgerError> {
        self.append(Entry::Void { run: run.to_owned() })
    }

    fn append(&mut self, entry: Entry) -> Result<(), LedgerError> {
        let path = self.account.path.clone();
        let failed = |source| LedgerError::File { path: path.clone(), action: "write to it", source };
        let (line, sha256) = line_of(&self.account.sha256, &entry);
        // What no reader would accept is not written.
        let mut account = self.account.clone();
        account.apply(entry, sha256).map_err(|reason| LedgerError::NotOpen { path: path.clone(), reason })?;
        let before = self.file.metadata().map_err(failed)?.len();
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        // No half of a line stays.
        written.inspect_err(|_| drop(self.file.set_len(before))).map_err(failed)?;
        self.account = account;
        self.check_place()
    }

    /// Refuses a file that no longer has its name: nobody would read what is booked in it.
    fn check_place(&self) -> Result<(), LedgerError> {
        let path = &self.account.path;
        let same =
            |own: Metadata| Ok((own.dev(), own.ino()) == fs::symlink_metadata(path).map(|of| (of.dev(), of.ino()))?);
        match self.file.metadata().and_then(same) {
            Ok(true) => Ok(()),
            _ => Err(LedgerError::Replaced { path: path.clone() }),
        }
    }
}

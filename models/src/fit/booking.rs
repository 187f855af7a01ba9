//! The ledger of a run: booked by its plan before a row is read, noted as done at the end.

use rounds_algorithms::privacy::PrivacyStatement;
use rounds_algorithms::problem::{PublicProblem, Relation};

use super::error::FitError;
use super::observer::Observer;
use super::setup::{Setup, public_problem};
use crate::ledger::{Ledger, name_of};
use crate::model_file::Model;

/// A run that is booked in a ledger, which it has in use.
pub(super) struct Booking {
    ledger: Ledger,
    /// Its name there.
    pub(super) run: String,
    /// Rows or units that it was planned for.
    rows: usize,
    /// Its noise may have been drawn: from here on it stays booked, whatever happens.
    pub(super) has_begun: bool,
}

/// Books the run in the ledger of its settings, if they name one, or finds the booking of the run that is resumed; `stated` is what a run states
/// by public facts alone.
///
/// The plan is made for the number of rows that the ledger declares, by the code that plans the run, and no row is read for it. The loaded rows must be
/// as many, and what the run states that of the booking ([`Booking::begin`]).
pub(super) fn book(
    setup: &Setup,
    stated: impl FnOnce(&PublicProblem) -> Result<PrivacyStatement, FitError>,
) -> Result<Option<Booking>, FitError> {
    let training = &setup.training;
    let Some(path) = &training.ledger else {
        return Ok(None);
    };
    let refused = |argument: &str, problem: &str| Err(FitError::argument(argument, problem));
    if !training.privacy.secure {
        let problem = "it counts releases, and this run is none: its noise follows from a seed, so that no budget covers it; give `secure`";
        return refused("ledger", problem);
    }
    if training.privacy.diagnostics {
        return refused("diagnostics", "what it tells of the rows is in no ledger; leave it out, or `ledger`");
    }
    if setup.execution.group.count().is_some() {
        return refused("ledger", "ranks keep none; run one process, with as many threads");
    }
    let mut ledger = Ledger::open(path)?;
    let budget = ledger.account().budget.clone();
    ledger.account().same("name", budget.data, name_of(&training.data.data))?;
    // A release has a domain, and no draft.
    let Some(domain) = &setup.domain else {
        return refused("ledger", "it is of data of a declared domain");
    };
    let rows = match (training.split(), domain.relation) {
        (Some(split), _) => split.training_rows(budget.rows).ok_or_else(|| {
            FitError::argument("test-split", "it leaves none of the rows for training or none for testing")
        })?,
        (None, Relation::AddRemove { public_rows }) => {
            ledger.account().same("public number of rows", budget.rows.to_string(), public_rows.to_string())?;
            public_rows
        }
        (None, _) => budget.rows,
    };
    if let Some(checkpoint) = &setup.resumed {
        let Some(run) = checkpoint.booking() else {
            return refused("ledger", "the run of this checkpoint was booked in none, and is resumed without");
        };
        ledger.check_open(run)?;
        return Ok(Some(Booking { run: run.to_owned(), ledger, rows, has_begun: true }));
    }
    let problem = public_problem(training, (&training.data.data, None), domain, rows);
    let problem = problem.map_err(|problem| FitError::argument("ledger", problem))?;
    let mut statement = stated(&problem)?;
    if let Some(epsilon) = training.data.declaration.private_bounds() {
        statement = statement.after_private_bounds(epsilon);
    }
    training.privacy.check_release(&problem, &statement)?;
    let run = ledger.book(&statement)?;
    Ok(Some(Booking { ledger, run, rows, has_begun: false }))
}

impl Booking {
    /// The rounds are about to begin: as they were booked, or not at all.
    pub(super) fn begin(&mut self, stated: &PrivacyStatement, problem: &PublicProblem) -> Result<(), FitError> {
        let account = self.ledger.account();
        let rows = problem.rows();
        account.same("number of training rows, or of units,", self.rows.to_string(), rows.to_string())?;
        let noise = |of: &PrivacyStatement| (of.mechanisms.clone(), of.selection.clone());
        let booked = account.runs.iter().find(|run| run.id == self.run).map(|run| noise(&run.statement));
        if booked != Some(noise(stated)) {
            return Err(FitError::argument(
                "ledger",
                "the plan of these rows is not the one that was booked; nothing was drawn",
            ));
        }
        self.has_begun = true;
        Ok(())
    }
}

impl Drop for Booking {
    /// A run that ends before its noise is drawn has spent nothing. Where that cannot be noted it stays booked.
    fn drop(&mut self) {
        if !self.has_begun {
            let _ = self.ledger.give_back(&self.run);
        }
    }
}

/// Notes in the ledger of a run, if it has one, that its model is written.
pub(super) fn done(booking: Option<Booking>, observer: &mut dyn Observer, model: &Model) {
    if let Some(mut booking) = booking
        && let Err(error) = booking.ledger.close(&booking.run, &model.header().model_sha256)
    {
        observer.warn(&format!("the run is done and counted, but its ledger does not say that it is done: {error}"));
    }
}

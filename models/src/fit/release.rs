//! The refusals of a run, and above all of a release: each stands here once, for every face.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::privacy::{PrivacyStatement, PrivacyWarning};
use rounds_algorithms::problem::{Claims, Domain, DomainSource, NoClaim, Problem, PublicProblem, Relation};

use super::error::FitError;
use super::settings::Training;
use crate::data::{self, DataError, Declaration, SchemaError, schema};

/// Largest ε of a release without `allow-weak-privacy`.
const MOST_EPSILON: f64 = 10.0;

impl Claims for Training {
    fn claims(&self) -> bool {
        self.privacy.secure
    }
}

/// The error of loading: of a release without anything of the rows.
pub(super) fn explained(training: &Training, error: impl Into<DataError>) -> FitError {
    let error = error.into();
    match NoClaim::of(training) {
        None => FitError::Data(error),
        Some(witness) => FitError::Explained(error.explained(witness)),
    }
}

/// The error of a declaration, as [`explained`].
pub(super) fn of_schema(training: &Training, error: SchemaError) -> FitError {
    match error {
        SchemaError::Data(error) => explained(training, error),
        SchemaError::Draft(error) => explained(training, error),
        error => FitError::Schema(error),
    }
}

/// The file or folder at a path, the same under each of its names.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Refuses test rows of a release that are its training rows.
fn check_test_rows(training: &Training) -> Result<(), FitError> {
    let data = Path::new(&training.data.data);
    let test = data::test_file(data, training.request(None)).filter(|_| training.privacy.secure);
    let is_data = |test: &Path| identity(data).is_some_and(|of| identity(test) == Some(of));
    match test.filter(|test| is_data(test)) {
        None => Ok(()),
        Some(test) => Err(FitError::argument(
            "test",
            format!(
                "{}: these test rows are the training rows, which are private; name public ones with `test FILE`",
                test.display()
            ),
        )),
    }
}

/// Refuses a domain that no run, or no release, with these settings has.
pub(crate) fn check_domain(training: &Training, domain: &Domain) -> Result<(), FitError> {
    if training.privacy.secure && domain.is_draft() {
        let problem =
            "the schema is a draft that was read from the rows. Check every line of it, then set drafted = false";
        return Err(FitError::argument("secure", problem));
    }
    match (training.data.test_split, domain.relation) {
        (Some(_), Relation::AddRemove { .. }) => Err(FitError::argument(
            "test-split",
            "under add-remove the number of rows is private, and with it the positions of the split; put the test rows in a \
             file of their own (`test FILE`)",
        )),
        _ => Ok(()),
    }
}

/// The declared domain of the data, from a schema or declarations; a release needs one that a person has confirmed. For a run that is
/// no release the domain of a table that nothing declares is drafted from its rows; then there are warnings.
pub(super) fn declared(training: &Training) -> Result<(Option<Arc<Domain>>, Vec<String>), FitError> {
    let secure = training.privacy.secure;
    let (mut domain, mut warnings) = (domain(training)?, Vec::new());
    if let Some(domain) = domain.as_ref().filter(|_| secure) {
        check_unit_flags(&training.data.declaration, domain)?;
    }
    let declaration = training.declaration();
    let has_ids = training.data.declaration.unit_ids.is_some();
    if secure && training.data.rows.is_none() && !has_ids && data::deals_users(&training.data.data) {
        let problem = "its users are dealt out by the labels of all rows, for studies, so that no claim holds for one of them: a release \
                       needs the ids of its units (`unit-ids FILE`)";
        return Err(FitError::argument("data", problem));
    }
    let draft = training.draft_command();
    match (domain.as_ref().map(|domain| domain.is_draft()), draft) {
        (Some(_), _) if !secure => {}
        (Some(false), Some(draft)) if domain.as_ref().is_some_and(|domain| declaration.columns_are_guessed(domain)) => {
            let problem = format!(
                "`bounds` for all columns takes every column of the header for a number, and a word in one would be \
                 lost. Declare the columns by name: by a schema, which `{draft}` drafts for you to check (`bounds \
                 private:EPSILON` may stay), or by `bounds NAME=LO:HI,…` for each of them"
            );
            return Err(FitError::argument("bounds", problem));
        }
        (Some(_), _) => {}
        (None, draft) if secure => {
            let remedy = draft.map_or_else(
                || "Rows in memory carry it, their `domain`".to_owned(),
                |draft| {
                    format!(
                        "`{draft}` drafts a schema to check; for rows of numbers without a header `bounds LO,HI` `dimension D` \
                         `classes A,B` are enough"
                    )
                },
            );
            let known = "columns, bounds and classes that are known without the rows";
            let problem = format!("a release needs the declared domain of its data: {known}. {remedy}");
            return Err(FitError::argument("secure", problem));
        }
        (None, None) => {}
        (None, Some(_)) => {
            let drafted = data::drafted(&training.data.data, &declaration);
            let drafted = drafted.map_err(|error| of_schema(training, error))?;
            (domain, warnings) = drafted.map_or_else(Default::default, |(domain, warnings)| (Some(domain), warnings));
        }
    }
    if let Some(domain) = &domain {
        check_domain(training, domain)?;
    }
    if let Some(domain) = domain.as_mut().filter(|_| training.data.test_split.is_some()) {
        // They are rows of the private file, whatever the schema says of test rows.
        Arc::make_mut(domain).test_is_public = false;
    }
    if let (true, Some(_), Some(domain)) = (secure, &training.data.rows, &mut domain) {
        // No file shows that test rows in memory are none of the training rows, and a comparison of rows would tell of them. The
        // model evaluates public rows after the run.
        Arc::make_mut(domain).test_is_public = false;
    }
    Ok((domain, warnings))
}

/// Refuses flags of a release that name a unit which its schema does not declare.
fn check_unit_flags(flags: &Declaration, domain: &Domain) -> Result<(), FitError> {
    let declared = domain.unit.as_ref().map(|unit| &unit.column);
    let (argument, line) = match (&flags.columns.unit, &flags.unit_ids) {
        (Some(column), _) if declared != Some(&flags.columns.unit) => {
            (format!("unit {column}"), format!("unit = {column:?}"))
        }
        (None, Some(file)) if declared != Some(&None) => {
            (format!("unit-ids {}", file.display()), "unit = true".to_owned())
        }
        _ => return Ok(()),
    };
    let problem =
        format!("a release protects the unit that its schema declares: write {line} under [rows] of the schema");
    Err(FitError::argument(argument, problem))
}

/// The domain that rows in memory carry, or that the data at a place are declared in.
fn domain(training: &Training) -> Result<Option<Arc<Domain>>, FitError> {
    let Some(rows) = &training.data.rows else {
        check_test_rows(training)?;
        let mut declaration = training.declaration();
        if training.privacy.secure {
            // They declare nothing; they may repeat what the schema declares.
            (declaration.columns.unit, declaration.unit_ids) = (None, None);
        }
        let declared = data::declare(&training.data.data, training.data.data_dir.as_deref(), &declaration);
        return declared.map_err(|error| of_schema(training, error));
    };
    if training.data.declaration != Declaration::default() || training.data.test.is_some() {
        let problem = "rows in memory carry their domain and their test rows; leave out declarations and `test`";
        return Err(FitError::argument("data", problem));
    }
    let domain = rows.train.domain().cloned();
    if let Some(domain) = &domain {
        let kept = schema::keeps(domain).and_then(|()| match domain.source {
            DomainSource::PrivateBounds(_) => {
                Err("its bounds were read off rows; give `bounds private:EPSILON` to the run of a table".to_owned())
            }
            _ => Ok(()),
        });
        kept.map_err(|reason| {
            FitError::argument("data", format!("the domain of these rows enters no statement: {reason}"))
        })?;
    }
    // Else the number of rows would set batches and divisors of a claim that keeps it private.
    let drawn_for = domain.as_ref().map(|domain| domain.relation.adjacency());
    if let (Some(given), Some(declared)) =
        (training.privacy.adjacency, drawn_for.filter(|&of| training.privacy.adjacency != Some(of)))
    {
        let problem = format!("{given} is not the relation of the rows' domain, {declared}; declare it there");
        return Err(FitError::argument("adjacency", problem));
    }
    Ok(domain)
}

/// Refuses rows of one unit, whose number is public but under add-remove.
pub(super) fn check_units(problem: &Problem) -> Result<(), FitError> {
    let is_public = !matches!(problem.relation(), Relation::AddRemove { .. });
    match problem.public().unit() {
        Some(unit) if is_public && problem.rows() == 1 => {
            let unit = unit.column.as_ref().map_or_else(|| "unit-ids".to_owned(), |column| format!("unit {column}"));
            let problem =
                "all rows are of one unit, and a model of it would be a model of one: name what tells people apart";
            Err(FitError::argument(unit, problem))
        }
        _ => Ok(()),
    }
}

/// Refuses data that are no data set of the domain's public number of rows or units.
pub(super) fn check_rows(problem: &Problem) -> Result<(), FitError> {
    if problem.rows() <= problem.most_rows() {
        return Ok(());
    }
    let of = if problem.public().unit().is_some() { "units" } else { "rows" };
    let problem = format!(
        "the data have more than {} times as many {of}, and are no data set of the declared domain",
        rounds_algorithms::problem::MOST_ROWS_PER_PUBLIC_ROW
    );
    Err(FitError::argument("public-rows", problem))
}

/// Refuses a release that claims nothing, or a claim that protects next to nothing.
pub(crate) fn check_release(
    training: &Training,
    problem: &PublicProblem,
    privacy: &PrivacyStatement,
) -> Result<(), FitError> {
    if !training.privacy.secure {
        return Ok(());
    }
    let (Some(epsilon), Some(delta)) = (privacy.epsilon, privacy.delta) else {
        let reason = privacy.reason.as_deref().unwrap_or("nothing is claimed");
        let problem = format!("this run would claim nothing: {reason}. Without `secure` it runs and says so");
        return Err(FitError::argument("secure", problem));
    };
    if training.privacy.allow_weak_privacy {
        return Ok(());
    }
    if let Some(warning) = PrivacyWarning::for_delta(delta, problem.rows()) {
        return Err(FitError::argument("delta", format!("{warning}, or give `allow-weak-privacy`")));
    }
    if epsilon > MOST_EPSILON {
        return Err(FitError::argument(
            "epsilon",
            format!(
                "ε = {epsilon}: above {MOST_EPSILON} a release protects next to nothing; lower `epsilon` or raise \
                 `noise-multiplier`, or give `allow-weak-privacy`"
            ),
        ));
    }
    Ok(())
}

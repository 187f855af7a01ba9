//! Privacy statements as documents: what a run writes, and what a verifier computes again.
//!
//! A statement follows from the parameters of the run, the domain of its rows and their number, which stand in the same document. The
//! verifier reads these, plans the run by its own code, and compares the whole document with the one that this run writes.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rounds_algorithms::catalog;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::privacy::{CalibrationMemory, Claim, Composed, CompositionError, PrivacyStatement};
use rounds_algorithms::problem::{DomainSource, Relation};
use rounds_kernels::random::StreamKey;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::data::check_private_bounds;
use crate::factorization_cache;
use crate::fit::plan::{check_relation, of_run};
use crate::fit::setup::{check_domain, check_moments, public_problem, with_factorization};
use crate::fit::tune::SelectionPlan;
use crate::fit::{Training, Tuning};
use crate::ledger::is_ledger;
use crate::model_file::{Header, Model, ModelFileError, TrainedOn, header_text};
use crate::signature::PublicKey;
use crate::text::foreign;

/// The largest model whose statement is verified without its weights.
const MOST_PARAMETERS: usize = 1 << 26;

/// Relative tolerance of numbers that are computed again, on another machine perhaps.
const TOLERANCE: f64 = 1e-9;

/// What no document shows.
const UNSHOWN: &str = "that this run took place, as its build runs, on rows of this domain, with a secret key; and of a selection, that the rows \
                       which it calls public are public";
/// And of one that was not checked against a signer's key.
const UNSIGNED: &str = ". Without a valid signature by the key given to `verify`, the name of the data, what its domain was declared by, the build, and the hash of weights that are not in the file are taken on trust";

/// A file without a statement that can be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the fields")]
pub enum StatementError {
    /// A file that cannot be read.
    #[error("statement {}: it cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A ledger.
    #[error(
        "statement {}: it is a ledger; give the model, or the document, of one of its runs. What they spent together shows \
         `rounds ledger show FILE`",
        path.display()
    )]
    Ledger { path: PathBuf },
    /// Neither JSON nor a model.
    #[error("statement {}: it is no JSON ({}), and no model ({model})", path.display(), foreign(json))]
    Foreign { path: PathBuf, json: serde_json::Error, model: Box<ModelFileError> },
    /// A document without a statement and its plan.
    #[error(
        "`statement {}`: it holds no privacy statement with its plan ({}); give a model of `rounds train --model`, or the \
         whole document of `rounds train --json`",
        path.display(),
        foreign(json)
    )]
    Absent { path: PathBuf, json: serde_json::Error },
    /// A statement that claims no release.
    #[error("`statement {}`: it claims no release: {reason}; `rounds train --secure` makes one", path.display())]
    NoClaim { path: PathBuf, reason: String },
    /// A run whose noise was drawn through a factorisation from a file.
    #[error("`statement {}`: its noise follows from a factorisation in a file; give that by `factorization FILE`", path.display())]
    Factorization { path: PathBuf },
    /// A document whose run cannot be planned, as of one that no run writes.
    #[error("`statement {}`: the run that it describes cannot be planned: {reason}", path.display())]
    Impossible { path: PathBuf, reason: String },
    /// A statement of a composition that does not hold.
    #[error("`compose {}`: the statement does not hold ({first}); `statement FILE` shows all of it", path.display())]
    Differs { path: PathBuf, first: String },
    /// One release under two names.
    #[error("`compose {}`: it is the release in {}; a run counts once", path.display(), same.display())]
    Twice { path: PathBuf, same: PathBuf },
    /// Claims that do not add up.
    #[error("`compose FILE…`: {0}")]
    Composition(CompositionError),
}

/// A statement beside the one that follows from its parameters and domain.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The statement that follows.
    pub statement: PrivacyStatement,
    /// Each field that differs, with what is stated and what follows.
    pub differences: Vec<String>,
    /// The key that the document is signed with.
    pub signer: Option<String>,
    /// The weights are in the file, and those of the statement.
    pub weights: bool,
    /// What no document shows.
    pub unshown: String,
    /// Nothing differs.
    pub holds: bool,
}

/// The verifier of statements. What it plans it remembers.
#[derive(Clone)]
pub struct Verifier {
    /// The public key whose signature the document must have, if any.
    pub signer: Option<PublicKey>,
    /// The file of the factorisation of the run's noise, where the run was given one.
    pub factorization: Option<PathBuf>,
    strategies: StrategyMemory,
    calibrations: CalibrationMemory,
}

impl Default for Verifier {
    fn default() -> Self {
        let strategies = StrategyMemory::filled_from(factorization_cache::reader());
        Self { signer: None, factorization: None, strategies, calibrations: CalibrationMemory::default() }
    }
}

impl Verifier {
    /// Verifies the statement of a model, or of the document of a run.
    ///
    /// # Errors
    /// A file that holds no statement of a release, or one whose run cannot be planned.
    pub fn verify(&self, path: &Path) -> Result<Verified, StatementError> {
        self.verified(path, read(path)?)
    }

    fn verified(
        &self,
        path: &Path,
        (header, document, weights): (Header, Value, Option<Vec<f32>>),
    ) -> Result<Verified, StatementError> {
        let key = self.signer.as_ref();
        let stated = &header.privacy;
        if stated.claim != Claim::Release {
            let reason = stated
                .reason
                .clone()
                .unwrap_or_else(|| "its noise comes from a seed, or nothing is claimed".to_owned());
            return Err(StatementError::NoClaim { path: path.into(), reason });
        }
        if header.parameters.contains_key("factorization") && self.factorization.is_none() {
            return Err(StatementError::Factorization { path: path.into() });
        }
        let rebuilt = self.rebuilt(path, &header, weights.as_deref());
        let rebuilt = rebuilt.map_err(|reason| StatementError::Impossible { path: path.into(), reason })?;
        let mut differences = Vec::new();
        compare("", Some(&document), Some(&rebuilt.document()), &mut differences);
        let signer = header.signature.as_ref().map(|signature| signature.signer(&document));
        let other = match (&signer, key) {
            (None, Some(_)) => Some("there is none; `rounds train --secure --sign KEYFILE` signs"),
            (Some(None), _) => Some("it is not of this document, which was changed since"),
            (Some(Some(signer)), Some(key)) if signer != key => Some("it is of another signer than that of `verify`"),
            _ => None,
        };
        let is_signed = key.is_some() && other.is_none();
        differences.extend(other.map(|difference| format!("signature: {difference}")));
        Ok(Verified {
            statement: rebuilt.privacy,
            holds: differences.is_empty(),
            differences,
            signer: header.signature.filter(|_| matches!(signer, Some(Some(_)))).map(|signature| signature.key),
            weights: weights.is_some(),
            unshown: format!("{UNSHOWN}{}", if is_signed { "" } else { UNSIGNED }),
        })
    }
}

/// A run of a composition.
#[derive(Clone, Debug, Serialize)]
pub struct ComposedRun {
    /// The file of its statement.
    #[serde(serialize_with = "displayed")]
    pub file: PathBuf,
    /// Its own claim, as it follows from its parameters and domain.
    pub statement: PrivacyStatement,
    /// Its number of rows or units, or the one that stands for it.
    pub n: Option<usize>,
}

/// A path that need not be Unicode, as text.
fn displayed<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Verifier {
    /// Verifies the statements of runs on the same rows, and computes what they guarantee together at `delta`, by default the sum of
    /// theirs ([`Composed::new`]). The factorisation in a file, if there is one, is that of all runs that name one.
    ///
    /// # Errors
    /// As [`verify`](Self::verify); a statement that does not hold, one that is given twice, claims that do not add up.
    pub fn compose(
        &self,
        paths: &[PathBuf],
        delta: Option<f64>,
    ) -> Result<(Composed, Vec<ComposedRun>), StatementError> {
        let (mut runs, mut hashes): (Vec<ComposedRun>, Vec<Value>) = (Vec::new(), Vec::new());
        for path in paths {
            let contents = read(path)?;
            let hash = contents.1["model_sha256"].clone();
            let declared = contents.0.domain(&path.display().to_string()).ok().flatten();
            let public = declared.and_then(|domain| match domain.relation {
                Relation::AddRemove { public_rows } => Some(public_rows),
                Relation::ZeroOut | Relation::ReplaceOne => None,
            });
            let n = contents.0.n.or(public);
            let mut own = self.clone();
            own.factorization = own.factorization.filter(|_| contents.0.parameters.contains_key("factorization"));
            let found = own.verified(path, contents)?;
            if !found.holds {
                return Err(StatementError::Differs { path: path.clone(), first: found.differences[0].clone() });
            }
            if let Some(same) = hashes.iter().position(|other| *other == hash) {
                return Err(StatementError::Twice { path: path.clone(), same: paths[same].clone() });
            }
            hashes.push(hash);
            runs.push(ComposedRun { file: path.clone(), statement: found.statement, n });
        }
        let statements: Vec<_> = runs.iter().map(|run| &run.statement).collect();
        Ok((Composed::new(&statements, delta).map_err(StatementError::Composition)?, runs))
    }
}

/// [`Verifier::verify`] of a statement that is signed by `key`, if one is given.
///
/// # Errors
/// As there.
pub fn verify(path: &Path, key: Option<&PublicKey>) -> Result<Verified, StatementError> {
    Verifier { signer: key.cloned(), ..Verifier::default() }.verify(path)
}

/// The keys of an outcome beside its header, which no statement is about.
const BESIDE: &str = "numbers ranks threads pinning gradient_queries seconds communication_seconds load_seconds calibration_seconds \
    test_accuracy test_errors test_rows test_file held_out diagnostics seed warnings trials";

/// The header in a file, as values and as its text holds them, with the weights of a model.
fn read(path: &Path) -> Result<(Header, Value, Option<Vec<f32>>), StatementError> {
    let text = std::fs::read(path).map_err(|source| StatementError::Read { path: path.into(), source })?;
    if is_ledger(&text) {
        return Err(StatementError::Ledger { path: path.into() });
    }
    let (text, weights) = match serde_json::from_slice::<IgnoredAny>(&text) {
        Ok(_) => (text, None),
        Err(json) => {
            let model = Model::parse(path, &text).and_then(|model| Ok((model, header_text(path, &text)?)));
            let foreign = |model| StatementError::Foreign { path: path.into(), json, model: Box::new(model) };
            let (model, header) = model.map_err(foreign)?;
            (header.into_bytes(), Some(model.weights().to_vec()))
        }
    };
    let absent = |json| StatementError::Absent { path: path.into(), json };
    // Of the text, whose fields stand in it once: of two values of one field another reader may take the other.
    let header = serde_json::from_slice(&text).map_err(absent)?;
    let mut document: Map<String, Value> = serde_json::from_slice(&text).map_err(absent)?;
    if weights.is_none() {
        document.retain(|key, _| BESIDE.split(' ').all(|beside| beside != key));
    }
    Ok((header, document.into(), weights))
}

impl Verifier {
    /// The header that a release with the domain and the parameters of `header` writes: it is planned again by the code of a run. The
    /// reason if there is none.
    fn rebuilt(&self, path: &Path, header: &Header, weights: Option<&[f32]>) -> Result<Header, String> {
        fn said(error: impl Display) -> String {
            error.to_string()
        }
        let algorithm = catalog::find(&header.algorithm).map_err(said)?;
        let mut training = Training::of_bound(algorithm.id, &header.parameters)?;
        training.data.clip_features = header.data.clip_features.map(|of| (of.norm, of.bound));
        training.privacy.factorization.clone_from(&self.factorization);
        training.seed = header.data.test_split.map_or(training.seed, |split| split.seed);
        let mut domain = header.domain(&path.display().to_string()).map_err(said)?.ok_or("it declares no domain")?;
        let private_bounds = training.data.declaration.private_bounds();
        if private_bounds.is_some() != matches!(domain.source, DomainSource::PrivateBounds(_)) {
            return Err("the origin of its domain and the ε of private bounds do not agree".to_owned());
        }
        private_bounds.map_or(Ok(()), |epsilon| check_private_bounds(&domain, epsilon))?;
        // Test rows of a split are of the private file, whatever the schema says of test rows.
        domain.test_is_public &= training.split().is_none();
        check_domain(&training, &domain).map_err(said)?;
        check_moments(&training, algorithm, Some(&domain)).map_err(said)?;
        let rows = header.n.unwrap_or_default();
        if training.split().is_some_and(|split| !split.leaves(rows)) {
            return Err(format!("no such split leaves {rows} rows"));
        }
        let domain = Arc::new(domain);
        let parameters = domain.features().saturating_mul(domain.classes().unwrap_or(1));
        if weights.is_none() && parameters > MOST_PARAMETERS {
            return Err(format!("a model of some {parameters} parameters is verified with its weights alone"));
        }
        if training.optimizer.loss.is_none() {
            return Err("it names no loss".to_owned());
        }
        let problem = public_problem(&training, (&header.data.dataset, header.data.given), &domain, rows)?;
        let (mut settings, used) = with_factorization(&training, algorithm).map_err(said)?;
        settings.key = StreamKey::Release([0; 32]);
        settings.calibrations = self.calibrations.clone();
        if used.is_none() {
            settings.strategies = self.strategies.clone();
        }
        let tuned = Tuning::of_bound(&training, &header.parameters)?;
        let selection = match &tuned {
            None => None,
            Some(tuning) => {
                let stated = header.privacy.selection.as_ref().ok_or("it states no selection")?;
                // The ε of trials is found by search, whose last digits no other machine need find: it is checked against the total.
                let given = Some(stated.trial_epsilon);
                Some(SelectionPlan::new(tuning, algorithm, &problem, &settings, given).map_err(said)?)
            }
        };
        if let Some(selection) = &selection {
            settings.budget = selection.budget;
        }
        let prepared = algorithm.prepare(&problem, &settings).map_err(said)?;
        if used.is_some_and(|used| !used.load(Ordering::Relaxed)) {
            return Err("its noise is drawn through no factorisation".to_owned());
        }
        let features = training.data.features.as_ref().map(|map| map.on(domain.features())).transpose()?;
        let features = features.map(|map| map.map().clone());
        let follows_from_moments = features.as_ref().is_some_and(|map| map.moments().is_some());
        let matrix = header
            .data
            .features_sha256
            .as_ref()
            .map(|digest| digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if (prepared.privacy.moments_noise.is_some(), matrix)
            != (follows_from_moments, follows_from_moments.then_some(true))
        {
            return Err("its features and the release of moments that they follow from do not agree".to_owned());
        }
        let data = TrainedOn {
            private_bounds,
            test_split: training.split(),
            features,
            dimension: problem.model().features,
            scale_features: training.data.scale_features,
            ..header.data.clone()
        };
        check_relation(&training, &problem, &prepared.privacy).map_err(said)?;
        let privacy = match &selection {
            None => prepared.privacy,
            Some(selection) => selection.stated(prepared.privacy, &problem),
        };
        let privacy = of_run(privacy, &data, Some(&domain));
        training.privacy.check_release(&problem, &privacy).map_err(said)?;
        let own = ["algorithm", "data"];
        let of_tuning = tuned.as_ref().map_or_else(Vec::new, Tuning::bound);
        let parameters = training.bound_parameters(None).into_iter().filter(|(name, _)| !own.contains(&name.as_str()));
        let parameters = parameters.chain(of_tuning);
        let rebuilt = Header {
            n: (!matches!(problem.relation(), Relation::AddRemove { .. })).then(|| problem.rows()),
            rounds: prepared.rounds,
            data,
            parameters: parameters.map(|(name, value)| (name, value.into())).collect(),
            plan: prepared.parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            privacy,
            ..header.clone()
        };
        Ok(rebuilt.completed(problem.model().loss, Some(&domain), weights))
    }
}

/// Names every leaf of `stated` that is not as in `follows`.
fn compare(place: &str, stated: Option<&Value>, follows: Option<&Value>, differences: &mut Vec<String>) {
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match (stated, follows) {
        (Some(Value::Object(stated)), Some(Value::Object(follows))) => {
            let added = stated.keys().filter(|key| !follows.contains_key(*key));
            for key in follows.keys().chain(added) {
                compare(&below(key), stated.get(key), follows.get(key), differences);
            }
        }
        (Some(Value::Array(stated)), Some(Value::Array(follows))) => {
            for index in 0..stated.len().max(follows.len()) {
                compare(&below(&index.to_string()), stated.get(index), follows.get(index), differences);
            }
        }
        (Some(Value::Number(stated)), Some(Value::Number(follows))) if is_near(stated, follows) => {}
        (Some(Value::String(stated)), Some(Value::String(follows)))
            if (place.starts_with("plan.") || place.starts_with("parameters.")) && is_one_number(stated, follows) => {}
        (stated, follows) if stated == follows => {}
        (stated, follows) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            differences.push(format!("{place}: {} is stated, {} follows", shown(stated), shown(follows)));
        }
    }
}

/// Values of a plan stand in texts.
fn is_one_number(stated: &str, follows: &str) -> bool {
    let [stated, follows] = [stated, follows].map(|text| text.parse::<f64>().ok().filter(|number| number.is_finite()));
    stated.zip(follows).is_some_and(|(stated, follows)| (stated - follows).abs() <= TOLERANCE * follows.abs())
}

fn is_near(stated: &serde_json::Number, follows: &serde_json::Number) -> bool {
    match (stated.as_u64(), follows.as_u64(), stated.as_f64(), follows.as_f64()) {
        (Some(stated), Some(follows), ..) => stated == follows,
        (.., Some(stated), Some(follows)) => (stated - follows).abs() <= TOLERANCE * follows.abs(),
        _ => false,
    }
}

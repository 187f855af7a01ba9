//! Privacy statements as documents: what a run writes, and what a verifier computes again.
//!
//! A statement is a function of its mechanisms, accountant, relation, δ and clip norm, of the domain and of the plan, which stand in the
//! same document. The verifier reads these, writes the statement by the code of the run, and compares all of it.

use std::path::{Path, PathBuf};

use rounds_algorithms::catalog;
use rounds_algorithms::privacy::{
    Adjacency, Arithmetic, Claim, DISJOINT_CHUNKS, Mechanism, NoiseSource, PrivacyStatement, PrivateRun, Sampling,
};
use rounds_algorithms::problem::{self, Domain, DomainSource, PublicProblem};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::model_file::{Header, Model, ModelFileError, NormBound, TrainedOn, header_text};
use crate::signature::PublicKey;
use crate::text::three_digits;

/// Relative tolerance of numbers that are computed again, on another machine perhaps.
const TOLERANCE: f64 = 1e-9;

/// What no document shows.
const UNSHOWN: &str = "that this run took place, as its build runs, on rows of this domain, with a secret key";

/// A file without a statement that can be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the fields")]
pub enum StatementError {
    /// A file that cannot be read.
    #[error("`statement {}`: it cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// Neither JSON nor a model.
    #[error("`statement {}`: it is no JSON ({json}), and no model ({model})", path.display())]
    Foreign { path: PathBuf, json: serde_json::Error, model: Box<ModelFileError> },
    /// A document without a statement and its plan.
    #[error(
        "`statement {}`: it holds no privacy statement with its plan ({source}); give a model of `rounds train --model`, or the \
         whole document of `rounds train --json`",
        path.display()
    )]
    Absent { path: PathBuf, source: serde_json::Error },
    /// A statement that claims no release.
    #[error("`statement {}`: it claims no release: {reason}; `rounds train --secure` makes one", path.display())]
    NoClaim { path: PathBuf, reason: String },
    /// A document that no run writes.
    #[error("`statement {}`: no run can have written it: {reason}", path.display())]
    Impossible { path: PathBuf, reason: String },
}

/// A statement beside the one that follows from its mechanisms, domain and plan.
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
    pub unshown: &'static str,
    /// Nothing differs.
    pub holds: bool,
}

/// The statement of a run for that of its noise: with the part that private bounds took, and notes on public treatments of the rows.
pub(crate) fn of_run(mut privacy: PrivacyStatement, data: &TrainedOn, domain: Option<&Domain>) -> PrivacyStatement {
    if let (Some(epsilon), Some(domain)) = (data.private_bounds, domain) {
        let (columns, relation) = (domain.numbers(), domain.relation);
        let note = format!(
            "bounds of numbers: one Laplace release of the counts of {columns} columns in public bins, {epsilon}-DP under {} for \
             all of them together (rounded Laplace noise of scale {}); the SHA-256 of the domain is that of the domain with these bounds",
            relation.adjacency(),
            three_digits(problem::noise_scale(columns, relation, epsilon))
        );
        privacy = privacy.after_private_bounds(epsilon).with_note(note);
    }
    if let Some(NormBound { norm, bound }) = data.clip_features {
        let note = format!("every row of features is clipped to {norm:?} norm {bound}, a public constant");
        privacy = privacy.with_note(note);
    }
    if let Some(factor) = data.scale_features {
        privacy = privacy.with_note(format!("features are multiplied by {factor}, a public constant"));
    }
    if let Some(split) = data.test_split {
        let but = if data.private_bounds.is_some() { " but the counts of the private bounds" } else { "" };
        privacy = privacy.with_note(format!(
            "a part of {} of the rows is kept for testing and enters no sum{but}; their positions follow from the number of \
             rows and the seed {}, both public",
            split.fraction, split.seed
        ));
    }
    privacy
}

/// Verifies the statement of a model, or of the document of a run; `key` is that of the signer who is asked for.
///
/// # Errors
/// A file that holds no statement of a release, or none that is signed where a signer is asked for.
pub fn verify(path: &Path, key: Option<&PublicKey>) -> Result<Verified, StatementError> {
    let (header, document, weights) = read(path)?;
    let stated = &header.privacy;
    if stated.claim != Claim::Release {
        let reason =
            stated.reason.clone().unwrap_or_else(|| "its noise comes from a seed, or nothing is claimed".to_owned());
        return Err(StatementError::NoClaim { path: path.into(), reason });
    }
    let rebuilt = rebuilt(path, &header, weights.as_deref());
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
    differences.extend(other.map(|difference| format!("signature: {difference}")));
    Ok(Verified {
        statement: rebuilt.privacy,
        holds: differences.is_empty(),
        differences,
        signer: header.signature.filter(|_| other.is_none()).map(|signature| signature.key),
        weights: weights.is_some(),
        unshown: UNSHOWN,
    })
}

/// The keys of an outcome beside its header, which no statement is about.
const BESIDE: &str = "numbers ranks threads pinning gradient_queries seconds communication_seconds load_seconds calibration_seconds \
    test_accuracy test_errors test_rows test_file held_out diagnostics seed warnings";

/// The header in a file, as values and as its text holds them, with the weights of a model.
fn read(path: &Path) -> Result<(Header, Value, Option<Vec<f32>>), StatementError> {
    let text = std::fs::read(path).map_err(|source| StatementError::Read { path: path.into(), source })?;
    let (text, weights) = match serde_json::from_slice::<IgnoredAny>(&text) {
        Ok(_) => (text, None),
        Err(json) => {
            let model = Model::parse(path, &text).and_then(|model| Ok((model, header_text(path, &text)?)));
            let foreign = |model| StatementError::Foreign { path: path.into(), json, model: Box::new(model) };
            let (model, header) = model.map_err(foreign)?;
            (header.into_bytes(), Some(model.weights().to_vec()))
        }
    };
    let absent = |source| StatementError::Absent { path: path.into(), source };
    // Of the text, whose fields stand in it once: of two values of one field another reader may take the other.
    let header = serde_json::from_slice(&text).map_err(absent)?;
    let mut document: Map<String, Value> = serde_json::from_slice(&text).map_err(absent)?;
    if weights.is_none() {
        document.retain(|key, _| BESIDE.split(' ').all(|beside| beside != key));
    }
    Ok((header, document.into(), weights))
}

/// The header that a release with the mechanisms, the domain and the plan of `header` writes; the reason if there is none.
fn rebuilt(path: &Path, header: &Header, weights: Option<&[f32]>) -> Result<Header, String> {
    let algorithm = catalog::find(&header.algorithm).map_err(|error| error.to_string())?;
    if !(algorithm.private && algorithm.release) {
        return Err(format!("algorithm '{}' makes no release", algorithm.id));
    }
    let loss: Loss = header.loss.parse().map_err(|error| format!("its loss: {error}"))?;
    let domain = header.domain(&path.display().to_string()).map_err(|error| error.to_string())?;
    let domain = std::sync::Arc::new(domain.ok_or("it declares no domain")?);
    let has_private_bounds = matches!(domain.source, DomainSource::PrivateBounds(_));
    if header.data.private_bounds.map_or(has_private_bounds, |epsilon| !(epsilon > 0.0 && has_private_bounds)) {
        return Err("the origin of its domain and the ε of private bounds do not agree".to_owned());
    }
    let problem = PublicProblem::of_domain(&header.data.dataset, &domain, header.n.unwrap_or_default(), loss, 0.0);
    let problem = problem.map_err(|error| error.to_string())?;
    let stated = &header.privacy;
    let (Some(accountant), Some(mut adjacency), Some(delta), Some(clip_norm)) =
        (stated.accountant, stated.adjacency, stated.delta, stated.clip_norm)
    else {
        return Err("it has no accountant, adjacency, delta or clip norm".to_owned());
    };
    let declared = domain.relation.adjacency();
    if header.data.private_bounds.is_some() || [declared, adjacency].contains(&Adjacency::AddRemove) {
        // No other relation can be stated.
        adjacency = declared;
    }
    let mechanism = Mechanism::Composition(stated.mechanisms.clone());
    let mechanism = mechanism.single().unwrap_or(&mechanism);
    let is_laplace = |step: &&Mechanism| matches!(step, Mechanism::Laplace { .. });
    // The sensitivity of Laplace noise is that of a clipped row; other noise is stated in multiples of the clip norm.
    let clipped = |step: &Mechanism| match *step {
        Mechanism::Laplace { l1_sensitivity, sampling, .. } => l1_sensitivity / sampling.row_change_factor(adjacency),
        _ => clip_norm,
    };
    let clip_norm = mechanism.steps().into_iter().map(clipped).find(|&of| of != clip_norm).unwrap_or(clip_norm);
    let is_short = algorithm.reads("precision") && header.plan.get("precision").is_some_and(|bits| bits == "16");
    let mut privacy = PrivacyStatement::new(&PrivateRun {
        mechanism,
        accountant,
        adjacency,
        delta,
        clip_norm,
        norm: if mechanism.steps().iter().all(is_laplace) { Norm::L1 } else { Norm::L2 },
        problem: &problem,
        noise_source: NoiseSource::Chacha20,
        arithmetic: if is_short { Arithmetic::Exact16 } else { Arithmetic::Exact },
    });
    // Of the algorithms that write this note, one makes releases.
    if header.plan.contains_key("chunks") {
        privacy = privacy.with_note(DISJOINT_CHUNKS);
    }
    let privacy = of_run(privacy, &header.data, Some(&domain));
    if let Some(reason) = privacy.reason {
        return Err(reason);
    }
    let n = (declared != Adjacency::AddRemove).then(|| problem.rows());
    let mut rebuilt = Header { n, privacy, ..header.clone() }.completed(loss, Some(&domain), weights);
    if algorithm.reads("precision") {
        rebuilt.plan.insert("precision".to_owned(), if is_short { "16" } else { "24" }.to_owned());
    }
    let relations = [("accountant", accountant.to_string()), ("adjacency", adjacency.to_string())];
    for (name, implied) in relations {
        rebuilt.plan.entry(name.to_owned()).and_modify(|planned| *planned = implied);
    }
    let rebuilt = if algorithm.reads("batch-size") { batched(rebuilt, mechanism, problem.rows()) } else { rebuilt };
    Ok(given(rebuilt))
}

/// The header with the batches that its mechanism implies on so many rows: their size and number, as far as it implies them.
fn batched(mut header: Header, mechanism: &Mechanism, rows: usize) -> Header {
    let planned = |name| header.plan.get(name).map(|value| value.parse().ok().filter(|&value: &usize| value > 0));
    let inner = planned("inner");
    if let (Some(Some(inner)), Some(chunks)) = (inner, planned("chunks").unwrap_or(Some(1))) {
        // Rounds of several releases on batches drawn from each chunk.
        header.rounds = (mechanism.rounds() / inner).saturating_mul(chunks) as u64;
        header.plan.insert("rounds".to_owned(), header.rounds.to_string());
        return header;
    }
    let Some(Some(batch_size)) = planned("batch-size").filter(|_| inner.is_none()) else {
        header.plan.insert("batch-size".to_owned(), "at least 1".to_owned());
        return header;
    };
    let implied = match mechanism.sampling() {
        Some(Sampling::Poisson { rate }) if batch_size as f64 / rows as f64 != rate => rate * rows as f64,
        Some(Sampling::WithoutReplacement { population, .. }) if population != rows => f64::NAN,
        Some(Sampling::WithoutReplacement { batch, .. }) => batch as f64,
        Some(Sampling::FullBatch) => rows as f64,
        _ => batch_size as f64,
    };
    let (rounds, epoch) = (header.rounds as usize, rows.div_ceil(batch_size).max(1));
    let epochs = rounds.div_ceil(epoch);
    let rounds = match *mechanism {
        Mechanism::Gaussian { participations, .. } if participations != epochs => participations.saturating_mul(epoch),
        Mechanism::Tree { trees, rounds: leaves, .. } if (trees, leaves) != (epochs, rounds.min(epoch)) => {
            trees.saturating_mul(leaves)
        }
        Mechanism::SubsampledGaussian { .. } | Mechanism::Laplace { .. } | Mechanism::Composition(_) => {
            mechanism.rounds()
        }
        _ => rounds,
    };
    header.rounds = rounds as u64;
    header.plan.insert("rounds".to_owned(), rounds.to_string());
    header.plan.insert("batch-size".to_owned(), implied.to_string());
    if let (Some(sampling), Some(planned)) = (mechanism.sampling(), header.plan.get_mut("sampling")) {
        sampling.name().clone_into(planned);
    }
    header
}

/// The header with the settings that follow from its statement and its plan, where they were given.
fn given(mut header: Header) -> Header {
    let Header { privacy, plan, data, .. } = &header;
    // A target is met but for the tolerance of the search for the noise.
    let target = header.parameters.get("epsilon").and_then(|target| target.as_str()?.parse::<f64>().ok());
    let spent = privacy.epsilon.map(|epsilon| epsilon - privacy.bounds_epsilon.unwrap_or_default());
    let spent = spent.map(|spent| target.filter(|target| (spent / target - 1.0).abs() < 1e-4).unwrap_or(spent));
    let is_targeted = !header.parameters.contains_key("noise-multiplier");
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let planned = |name: &str| plan.get(name).cloned();
    let chooses_rounds = ["chunks", "rounds-rule"].iter().any(|name| plan.contains_key(*name));
    let implied = [
        ("secure", true, Some("true".to_owned())),
        ("epsilon", is_targeted, number(spent)),
        // Pure privacy spends no δ, whatever was given.
        ("delta", true, number(privacy.delta.filter(|&delta| delta > 0.0))),
        ("accountant", false, privacy.accountant.map(|accountant| accountant.to_string())),
        ("adjacency", false, privacy.adjacency.map(|adjacency| adjacency.to_string())),
        ("noise-multiplier", false, number(privacy.noise_multiplier)),
        ("bounds", data.private_bounds.is_some(), data.private_bounds.map(|epsilon| format!("private:{epsilon}"))),
        ("scale-features", false, data.scale_features.map(|factor| factor.to_string())),
        ("clip-features", false, data.clip_features.map(|of| format!("{:?}", (of.norm, of.bound)))),
        ("test-split", false, number(data.test_split.map(|split| split.fraction))),
        ("batch-size", false, planned("batch-size")),
        ("clip-norm", false, planned("clip-norm")),
        ("precision", false, planned("precision")),
        ("rounds", false, planned("rounds").filter(|_| !chooses_rounds)),
        // All rows have one order.
        ("sampling", false, planned("sampling").filter(|planned| planned != "full-batch")),
    ];
    let of_set = implied.clone().map(|(name, _, implied)| (format!("set {name}"), false, implied));
    let of_flags = implied.map(|(name, is_needed, implied)| (name.to_owned(), is_needed, implied));
    for (name, is_needed, implied) in of_flags.into_iter().chain(of_set) {
        let Some(implied) = implied.filter(|_| is_needed || header.parameters.contains_key(&name)) else { continue };
        let given = header.parameters.entry(name).or_insert(Value::Null);
        // 1e-5 and 0.00001 are one number; a clip norm is one of f32.
        let number = |text: &str| text.parse::<f64>().ok().map(|number| number as f32);
        let is_same = |given: &str| given == implied || (number(given).is_some() && number(given) == number(&implied));
        if !given.as_str().is_some_and(is_same) {
            *given = implied.into();
        }
    }
    header
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
        (stated, follows) if stated == follows => {}
        (stated, follows) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            differences.push(format!("{place}: {} is stated, {} follows", shown(stated), shown(follows)));
        }
    }
}

fn is_near(stated: &serde_json::Number, follows: &serde_json::Number) -> bool {
    match (stated.as_u64(), follows.as_u64(), stated.as_f64(), follows.as_f64()) {
        (Some(stated), Some(follows), ..) => stated == follows,
        (.., Some(stated), Some(follows)) => (stated - follows).abs() <= TOLERANCE * follows.abs(),
        _ => false,
    }
}

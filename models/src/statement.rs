//! Privacy statements as documents, and the recomputation of what they state.

use std::path::{Path, PathBuf};

use rounds_algorithms::privacy::{Accountant, Adjacency, Mechanism, PrivacyError, PrivacyStatement};
use serde::Serialize;
use serde_json::Value;

use crate::model_file::{Model, ModelFileError};

/// Relative tolerance of a recomputed ε: that of printing and reading decimal numbers.
const TOLERANCE: f64 = 1e-9;

/// A file without a statement that can be computed again.
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
    /// A document without a statement.
    #[error(
        "`statement {}`: it holds no privacy statement ({source}); give a model of `rounds train --model`, or the document of \
         `rounds train --json`",
        path.display()
    )]
    Absent { path: PathBuf, source: serde_json::Error },
    /// A statement without a claim.
    #[error("`statement {}`: it claims nothing: {reason}", path.display())]
    NoClaim { path: PathBuf, reason: String },
    /// Mechanisms that no accountant covers so.
    #[error("`statement {}`: its mechanisms cannot be accounted: {source}", path.display())]
    Mechanisms { path: PathBuf, source: PrivacyError },
}

/// The ε of a statement, computed again from its mechanisms, accountant, relation and δ.
#[derive(Clone, Debug, Serialize)]
pub struct Recomputed {
    /// ε of the mechanisms.
    pub epsilon: f64,
    /// ε as it is stated.
    pub stated_epsilon: f64,
    /// δ.
    pub delta: Option<f64>,
    /// The neighbouring relation.
    pub adjacency: Option<Adjacency>,
    /// The accountant.
    pub accountant: Option<Accountant>,
    /// The mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// The mechanisms give at most the stated ε.
    pub holds: bool,
}

/// The statement in a file: a model, the document of a run, or a statement by itself.
///
/// # Errors
/// A file that cannot be read or holds no statement.
pub fn read(path: &Path) -> Result<PrivacyStatement, StatementError> {
    let bytes = std::fs::read(path).map_err(|source| StatementError::Read { path: path.into(), source })?;
    let privacy = match serde_json::from_slice::<Value>(&bytes) {
        Ok(document) => document.get("privacy").unwrap_or(&document).clone(),
        Err(json) => {
            return match Model::parse(path, &bytes) {
                Ok(model) => Ok(model.header.privacy),
                Err(model) => Err(StatementError::Foreign { path: path.into(), json, model: Box::new(model) }),
            };
        }
    };
    serde_json::from_value(privacy).map_err(|source| StatementError::Absent { path: path.into(), source })
}

/// Recomputes the statement in a file.
///
/// # Errors
/// As [`read`]; statements without a claim, mechanisms that cannot be accounted.
pub fn recompute(path: &Path) -> Result<Recomputed, StatementError> {
    let statement = read(path)?;
    let Some(stated_epsilon) = statement.epsilon else {
        let reason = statement.reason.unwrap_or_else(|| "no reason is given".to_owned());
        return Err(StatementError::NoClaim { path: path.into(), reason });
    };
    let epsilon = statement.recomputed_epsilon();
    let epsilon = epsilon.map_err(|source| StatementError::Mechanisms { path: path.into(), source })?;
    let PrivacyStatement { delta, adjacency, accountant, mechanisms, .. } = statement;
    let holds = epsilon <= stated_epsilon * (1.0 + TOLERANCE);
    Ok(Recomputed { epsilon, stated_epsilon, delta, adjacency, accountant, mechanisms, holds })
}

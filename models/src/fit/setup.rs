//! What a run is before its rows: all that its settings decide, and its public problem.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rounds_algorithms::optimizers::{Algorithm, Settings};
use rounds_algorithms::problem::{
    BYTE_SCALE, Dataset, DatasetError, Domain, Features, Labels, PublicProblem, SparseMatrix, Storage, UnitIds,
};

use super::settings::{DataSettings, Training};
use crate::features::Mapper;
use crate::model_file::{Given, NormBound, scaled_and_clipped};
use crate::signature::SecretKey;

/// A run before its data: all that the settings decide.
pub(super) struct Setup {
    pub(super) algorithm: &'static Algorithm,
    pub(super) settings: Settings,
    pub(super) domain: Option<Arc<Domain>>,
    /// Warnings about a drafted domain, then about rows without one.
    pub(super) warnings: Vec<String>,
    /// Set when the algorithm takes the factorisation of a file.
    pub(super) factorization_used: Option<Arc<AtomicBool>>,
    /// Every setting that decides the model, as name and value.
    pub(super) parameters: Vec<(String, String)>,
    /// The signer of the statement, on rank 0.
    pub(super) signer: Option<SecretKey>,
}

/// The public problem of a run with these settings on so many rows of the domain, of data of a name that were given to it in a way, as a
/// verifier knows it: that of one row, which is treated as all are.
pub(crate) fn public_problem(
    training: &Training,
    data: (&str, Option<Given>),
    domain: &Arc<Domain>,
    rows: usize,
) -> Result<PublicProblem, String> {
    fn said(error: impl Display) -> String {
        error.to_string()
    }
    let DataSettings { features, scale_features, clip_features, .. } = &training.data;
    let treated = |row: Dataset| {
        let mapped = match features {
            // What is released of moments decides nothing here.
            Some(map) => map.on(row.columns()).map(Mapper::planned)?.apply(row).map_err(said)?,
            None => row,
        };
        scaled_and_clipped(mapped, *scale_features, *clip_features).map_err(said)
    };
    let row = row_of(data, domain).map_err(said)?;
    // Bytes that the run clips are dense rows in its domain.
    let bytes = data.1.and_then(|given| given.byte_scale).filter(|_| training.data.clip_features.is_some());
    let given = row.treatment().and_then(Given::of);
    if given.map(|given| Given { byte_scale: given.byte_scale.or(bytes), ..given }) != data.1 {
        return Err("no rows are given as it says".to_owned());
    }
    let (row, loss) = treated(row)?.for_loss(training.optimizer.loss).map_err(said)?;
    let problem = training.optimizer.problem(row, loss).map_err(said)?;
    let problem = problem.public().clone().with_rows(rows);
    if (1..=u32::MAX as usize).contains(&problem.rows()) {
        Ok(problem)
    } else {
        Err(format!("it has {} rows", problem.rows()))
    }
}

/// One row of the domain, as it was given to the run: a unit of its own.
fn row_of((name, given): (&str, Option<Given>), domain: &Arc<Domain>) -> Result<Dataset, DatasetError> {
    let columns = domain.features();
    let scale = given.and_then(|given| given.byte_scale).unwrap_or(BYTE_SCALE);
    let features = match domain.storage {
        Storage::Bytes => Features::bytes(&vec![0; columns], columns, scale),
        Storage::Dense => Features::f32(vec![0.0; columns], columns),
        Storage::Sparse => Features::Sparse(SparseMatrix { offsets: vec![0, 0], ..SparseMatrix::new(columns) }),
    };
    let labels = match domain.classes() {
        Some(classes) => Labels::Classes { values: vec![0], classes, names: None },
        // A target of every loss.
        None => Labels::Values(vec![1.0]),
    };
    let mut row = Dataset::new(name, features, labels)?.in_domain(Arc::clone(domain))?;
    if let Some(unit) = &domain.unit {
        row = row.by_unit(&UnitIds { of_rows: vec![0], count: 1 }, unit.clone())?;
    }
    if let Some(given) = given {
        row = row.in_units_of(given.unit)?;
        if let Some(NormBound { norm, bound }) = given.bound {
            row = row.clip_features(norm, bound)?;
        }
    }
    Ok(row)
}

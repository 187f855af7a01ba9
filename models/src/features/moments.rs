//! Affine maps that follow from the private second moment of the rows: principal components, whitening, a norm of each feature.
//!
//! ```text
//! y = s·A(x − m),     A = V_Kᵀ (pca),   (S + λI)^{−p} (whiten),   diag(S + λI)^{−1/2} (normalize)
//! ```
//!
//! m and S are mean and covariance as they are [released](rounds_algorithms::moments), V_K the eigenvectors of the K largest eigenvalues, and
//! λ the norm of the noise of S: that of a symmetric matrix of d rows, τ√(2d), or τ of a diagonal one, τ the deviation of a mean square.
//! Eigenvalues and variances below 0, which are of noise, count as 0. s makes `E‖y‖² = 4/9` by the released moments themselves; rows are
//! then cut to norm 1 and multiplied by 3, so that bounds, steps and noise of a run depend on nothing that is released, and can be
//! planned before a row is read.
//!
//! **Privacy.** A, m and s are functions of what is released, and the model keeps them as numbers in f32. y is a function of the row and of
//! these alone (a row of a product has its bits beside any others), rounded to the grid of its domain and cut to it.

use std::fmt;
use std::sync::Arc;

use rounds_algorithms::moments::{Form, Moments};
use rounds_numerics::{Mat, dense};

use super::{FeatureMap, check_memory};

/// The norm to which rows are cut, in features of a run.
pub(super) const REACH: f32 = 3.0;
/// 1/√(E‖y‖²), before rows are cut to norm 1.
const SPREAD: f64 = 1.5;
/// Most features whose second moment is released in full.
const MOST_COLUMNS: usize = 4096;

/// A matrix that is released, row-major: of d features to K the d rows of s·Aᵀ, then −s·Am; of a norm of each feature the factors, then
/// the offsets.
pub type Released = Arc<[f32]>;

/// Features that follow from moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// The principal components with the largest variances.
    Pca {
        /// K.
        count: usize,
    },
    /// All directions, those of large variance shortened.
    Whiten {
        /// p ∈ (0, 1]; 1/2 makes all variances equal.
        power: f64,
    },
    /// Each feature by its own mean and variance.
    Normalize,
}

/// A map that follows from the moments of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct MomentMap {
    /// The map of the rows whose moments are released.
    pub before: Option<Box<FeatureMap>>,
    /// Features of a row before, without another map.
    pub inputs: Option<usize>,
    /// The features.
    pub basis: Basis,
    /// The share of the budget's μ² that the release takes.
    pub share: f64,
    /// Rows are cut to this norm first, where less than their domain's bound is known of them.
    pub norm: Option<f64>,
}

impl fmt::Display for MomentMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.before.iter().try_for_each(|before| write!(formatter, "{before}+"))?;
        formatter.write_str(match self.basis {
            Basis::Pca { .. } => "pca:",
            Basis::Whiten { .. } => "whiten:",
            Basis::Normalize => "normalize:",
        })?;
        self.inputs.iter().try_for_each(|inputs| write!(formatter, "inputs={inputs},"))?;
        match self.basis {
            Basis::Pca { count } => write!(formatter, "count={count},")?,
            Basis::Whiten { power } => write!(formatter, "power={power},")?,
            Basis::Normalize => {}
        }
        self.norm.iter().try_for_each(|norm| write!(formatter, "norm={norm},"))?;
        write!(formatter, "share={}", self.share)
    }
}

impl MomentMap {
    /// With a fifth of the budget.
    pub(super) fn of(basis: Basis) -> Self {
        Self { before: None, inputs: None, basis, share: 0.2, norm: None }
    }

    /// The moments that it follows from.
    pub(super) fn form(&self) -> Form {
        if self.basis == Basis::Normalize { Form::Diagonal } else { Form::Full }
    }

    /// Features of a row that has so many before.
    ///
    /// # Errors
    /// Values out of range, or more than can be decomposed, and what to give instead.
    pub(super) fn features(&self, columns: usize) -> Result<usize, String> {
        if !(self.share > 0.0 && self.share < 1.0) {
            return Err("a share above 0 and below 1 is needed, that of the budget which the moments take".to_owned());
        }
        if self.norm.is_some_and(|norm| !(norm > 0.0 && norm.is_finite())) {
            return Err("a norm above 0 is needed, to which rows are cut".to_owned());
        }
        if self.form() == Form::Full {
            if columns > MOST_COLUMNS {
                return Err(format!(
                    "rows have {columns} features, and the second moment of more than {MOST_COLUMNS} is not released; take \
                     normalize, or fewer features"
                ));
            }
            // Sums, a block's products, the covariance, and eigenvectors with their memory.
            check_memory(64.0 * (columns * columns) as f64, || "the second moment of its rows takes".to_owned())?;
        }
        match self.basis {
            Basis::Pca { count } if count == 0 || count > columns => Err(format!(
                "rows have {columns} features, and so many components at most: give count=1 to count={columns}"
            )),
            Basis::Pca { count } => Ok(count),
            Basis::Whiten { power } if !(power > 0.0 && power <= 1.0) => {
                Err("a power above 0 and at most 1 is needed: 0.25, or 0.5 for equal variances".to_owned())
            }
            Basis::Whiten { .. } | Basis::Normalize => Ok(columns),
        }
    }

    /// Numbers of the matrix of so many features.
    pub(super) fn numbers(&self, columns: usize) -> usize {
        match self.basis {
            Basis::Pca { count } => (columns + 1) * count,
            Basis::Whiten { .. } => (columns + 1) * columns,
            Basis::Normalize => 2 * columns,
        }
    }

    /// The matrix that follows from moments; `None` where they have no decomposition.
    pub(super) fn matrix(&self, moments: &Moments) -> Option<Released> {
        let (d, noise) = (moments.mean.len(), moments.deviation);
        if self.basis == Basis::Normalize {
            let variances = &moments.covariance;
            let gains: Vec<f64> = variances.iter().map(|variance| (variance.max(0.0) + noise).powf(-0.5)).collect();
            let factor = factor((variances, noise), (0, &gains), noise);
            let offsets = gains.iter().zip(&moments.mean).map(|(gain, mean)| (-factor * gain * mean) as f32);
            return Some(gains.iter().map(|gain| (factor * gain) as f32).chain(offsets).collect());
        }
        let covariance = Mat::from_fn(d, d, |row, column| moments.covariance[row * d + column]);
        let (values, vectors) = dense::eigenvectors(covariance.as_ref())?;
        let level = noise * (2.0 * d as f64).sqrt();
        let (first, gains): (usize, Vec<f64>) = match self.basis {
            Basis::Pca { count } => (d - count, vec![1.0; count]),
            Basis::Whiten { power } => (0, values.iter().map(|value| (value.max(0.0) + level).powf(-power)).collect()),
            Basis::Normalize => unreachable!("above"),
        };
        let factor = factor((&values, level), (first, &gains), noise);
        let kept = gains.len();
        // Largest variances first.
        let scaled = Mat::from_fn(d, kept, |row, column| {
            let from = kept - 1 - column;
            factor * gains[from] * vectors[(row, first + from)]
        });
        let matrix = match self.basis {
            Basis::Whiten { .. } => {
                let back = Mat::from_fn(kept, d, |row, column| vectors[(column, first + kept - 1 - row)]);
                dense::multiply(scaled.as_ref(), back.as_ref())
            }
            _ => scaled,
        };
        let offset = |column: usize| -(0..d).map(|row| matrix[(row, column)] * moments.mean[row]).sum::<f64>();
        let rows = (0..d * kept).map(|place| matrix[(place / kept, place % kept)] as f32);
        Some(rows.chain((0..kept).map(|column| offset(column) as f32)).collect())
    }
}

/// s, for gains of the directions from `first` on: 1/√(E‖y‖²) by variances along all directions, over [`SPREAD`].
///
/// Variances up to the `level` of the noise are noise for the most part, of mean 0 over all of them: each counts as their mean. Where even that is
/// below 0, nothing is known of the rows' lengths but that it is less than the noise of a direction; rows are cut to norm 1 then.
fn factor((variances, level): (&[f64], f64), (first, gains): (usize, &[f64]), noise: f64) -> f64 {
    let low = variances.iter().filter(|&&variance| variance <= level);
    let mean = low.clone().sum::<f64>() / (low.count() as f64).max(1.0);
    let of = |variance: f64| if variance <= level { mean.max(0.0) } else { variance };
    let squares = gains.iter().map(|gain| gain * gain);
    let square: f64 = squares.clone().zip(&variances[first..]).map(|(square, &variance)| square * of(variance)).sum();
    1.0 / (SPREAD * square.max(1e-3 * noise * squares.sum::<f64>()).sqrt())
}

//! A data set that is owned and checked once: features, labels, a name, and the public bound of its rows.
//!
//! After [`Dataset::new`] every feature is finite, every target is finite or that of a null row, every class is in range or
//! [`NULL_CLASS`], and every row has its label, so that nothing downstream validates again. The kernels read it through the borrowed views of
//! [`rounds_kernels::features`].

use std::sync::Arc;

use rounds_kernels::features::{F32Rows, NULL_CLASS, NULL_TARGET, Norm, Rows, SparseRows, Targets};
use rounds_kernels::loss::{Loss, TargetKind};
pub use rounds_kernels::memory::{Buffer, ByteRows};
use sha2::digest::common::hazmat::SerializableState as _;
use sha2::{Digest, Sha256};

use super::domain::{Domain, Label, Storage};
use crate::oracle::ranks::{Ranks, gather_messages};
use crate::oracle::{Engine, partition};

/// A design matrix of n rows and d columns, in the format in which it is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Dense f32, row-major, `n × columns` values.
    F32 {
        /// The values.
        values: Buffer<f32>,
        /// Features a row.
        columns: usize,
    },
    /// Dense bytes; feature = `scale · byte`.
    U8 {
        /// The rows.
        rows: ByteRows,
        /// What a byte is multiplied with, e.g. 1/255.
        scale: f32,
    },
    /// Compressed sparse rows: row i stores `values[offsets[i]..offsets[i + 1]]` in the columns `indices[..]`, which
    /// ascend strictly. Stored zeros are allowed.
    Sparse {
        /// `n + 1` offsets, the first one 0.
        offsets: Vec<usize>,
        /// Column of each stored value.
        indices: Vec<u32>,
        /// The stored values.
        values: Vec<f32>,
        /// Features a row.
        columns: usize,
    },
}

impl Features {
    /// Dense rows of `columns` f32 values, one row after the other.
    pub fn f32(values: impl Into<Buffer<f32>>, columns: usize) -> Self {
        Features::F32 {
            values: values.into(),
            columns,
        }
    }

    /// Dense rows of `columns` bytes, one row after the other; feature = `scale · byte`.
    pub fn bytes(values: &[u8], columns: usize, scale: f32) -> Self {
        Features::U8 {
            rows: ByteRows::new(values, columns),
            scale,
        }
    }

    /// The matrix as the kernels read it.
    pub fn rows(&self) -> Rows<'_> {
        match self {
            Features::F32 { values, columns } => Rows::F32(F32Rows {
                values,
                columns: *columns,
            }),
            Features::U8 { rows, scale } => Rows::U8(rows.view(*scale)),
            Features::Sparse {
                offsets,
                indices,
                values,
                columns,
            } => Rows::Sparse(SparseRows {
                offsets,
                indices,
                values,
                columns: *columns,
            }),
        }
    }

    /// Number of rows n.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Features a row, d.
    pub fn columns(&self) -> usize {
        self.rows().columns()
    }

    /// Values held: n·d for dense rows, the stored ones (explicit zeros included) for sparse rows.
    pub fn stored(&self) -> usize {
        match self {
            Features::F32 { values, .. } => values.len(),
            Features::U8 { rows, .. } => rows.stored(),
            Features::Sparse { values, .. } => values.len(),
        }
    }

    /// Bytes of the matrix, without gaps between rows.
    pub fn value_bytes(&self) -> usize {
        match self {
            Features::F32 { values, .. } => size_of_val(&**values),
            Features::U8 { rows, .. } => rows.stored(),
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => size_of_val(offsets.as_slice()) + size_of_val(indices.as_slice()) + size_of_val(values.as_slice()),
        }
    }

    /// The format in a domain's words.
    pub fn storage(&self) -> Storage {
        match self {
            Features::F32 { .. } => Storage::Dense,
            Features::U8 { .. } => Storage::Bytes,
            Features::Sparse { .. } => Storage::Sparse,
        }
    }

    /// Sets the features of the rows for which `is_null` holds to 0; sparse rows lose their stored values.
    pub(crate) fn clear_rows(&mut self, is_null: impl Fn(usize) -> bool) {
        let rows = self.len();
        let null = (0..rows).filter(|&row| is_null(row));
        match self {
            Features::F32 { values, columns } => {
                let columns = *columns;
                null.for_each(|row| values[row * columns..(row + 1) * columns].fill(0.0));
            }
            Features::U8 { rows: bytes, .. } => {
                let (memory, stride) = bytes.memory_mut();
                null.for_each(|row| memory[row * stride..(row + 1) * stride].fill(0));
            }
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => {
                let Some(first) = null.into_iter().next() else { return };
                let mut kept = offsets[first];
                let mut start = kept;
                for row in first..rows {
                    let end = offsets[row + 1];
                    if !is_null(row) {
                        indices.copy_within(start..end, kept);
                        values.copy_within(start..end, kept);
                        kept += end - start;
                    }
                    (offsets[row + 1], start) = (kept, end);
                }
                indices.truncate(kept);
                values.truncate(kept);
            }
        }
    }

    /// The format's name, as it is shown and as it enters the digest.
    pub fn format(&self) -> &'static str {
        match self {
            Features::F32 { .. } => "f32",
            Features::U8 { .. } => "u8",
            Features::Sparse { .. } => "sparse-f32",
        }
    }
}

/// What is to be predicted.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// A class in `0..classes` for each row.
    Classes {
        /// One class a row, [`NULL_CLASS`] of a null row.
        values: Vec<u32>,
        /// Number of classes K.
        classes: usize,
        /// What the classes were called in the file, where it said so; K names.
        names: Option<Vec<String>>,
    },
    /// A real for each row, NaN of a null row.
    Values(Vec<f32>),
}

impl Labels {
    /// The labels as the kernels read them.
    pub fn targets(&self) -> Targets<'_> {
        match self {
            Labels::Classes { values, .. } => Targets::Classes(values),
            Labels::Values(values) => Targets::Values(values),
        }
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.targets().len()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of classes K, or `None` for real targets.
    pub fn classes(&self) -> Option<usize> {
        match self {
            Labels::Classes { classes, .. } => Some(*classes),
            Labels::Values(_) => None,
        }
    }
}

/// Why data is refused, and what to do about it. Rows and columns count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// No row at all.
    #[error("data set {name}: it has no rows; at least one is needed")]
    Empty {
        /// The data set.
        name: String,
    },
    /// No feature at all.
    #[error("data set {name}: its rows have no features; at least one column is needed")]
    NoColumns {
        /// The data set.
        name: String,
    },
    /// More rows or columns than 32-bit indices address.
    #[error("data set {name}: {found} {what} are more than the {limit} that 32-bit indices address; split the data")]
    TooLarge {
        /// The data set.
        name: String,
        /// "rows", "columns" or "classes".
        what: &'static str,
        /// How many.
        found: usize,
        /// How many are possible.
        limit: usize,
    },
    /// Values do not fill whole rows.
    #[error("data set {name}: {values} values do not fill rows of {columns} features; the last row is incomplete")]
    IncompleteRow {
        /// The data set.
        name: String,
        /// Number of values.
        values: usize,
        /// Features a row.
        columns: usize,
    },
    /// Offsets of sparse rows that do not partition the stored values.
    #[error(
        "data set {name}, row {row}: its offsets {start}..{end} do not lie in order within {stored} stored values; \
         offsets start at 0, never fall and end at the number of stored values"
    )]
    Offsets {
        /// The data set.
        name: String,
        /// The row.
        row: usize,
        /// Where the row starts.
        start: usize,
        /// Where the row ends.
        end: usize,
        /// Number of stored values.
        stored: usize,
    },
    /// A column out of range, repeated or out of order.
    #[error(
        "data set {name}, row {row}: column {column} is repeated, out of order or not below {columns}; columns of a \
         row ascend strictly"
    )]
    ColumnOrder {
        /// The data set.
        name: String,
        /// The row.
        row: usize,
        /// The offending column.
        column: u32,
        /// Features a row.
        columns: usize,
    },
    /// NaN or infinite feature.
    #[error(
        "data set {name}, row {row}, column {column}: the feature is {value}; features are finite (remove the row or \
         fill the value in)"
    )]
    NonFiniteFeature {
        /// The data set.
        name: String,
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The value.
        value: f32,
    },
    /// Infinite target.
    #[error("data set {name}, row {row}: the target is {value}; targets are finite (remove the row)")]
    NonFiniteTarget {
        /// The data set.
        name: String,
        /// The row.
        row: usize,
        /// The value.
        value: f32,
    },
    /// A class that does not exist.
    #[error("data set {name}, row {row}: class {label} is not below the number of classes, {classes}")]
    LabelOutOfRange {
        /// The data set.
        name: String,
        /// The row.
        row: usize,
        /// The class.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// A number of labels that is not the number of rows.
    #[error("data set {name}: {rows} rows but {labels} labels; each row has exactly one")]
    LengthMismatch {
        /// The data set.
        name: String,
        /// Number of rows.
        rows: usize,
        /// Number of labels.
        labels: usize,
    },
    /// A number of class names that is not the number of classes.
    #[error("data set {name}: {names} class names for {classes} classes; give one name a class, or none")]
    ClassNames {
        /// The data set.
        name: String,
        /// Number of names.
        names: usize,
        /// Number of classes.
        classes: usize,
    },
    /// Two classes were needed.
    #[error(
        "data set {name}: {found}, where a binary loss needs two classes or targets of −1 and 1; choose a multiclass \
         loss, or set one class against the rest"
    )]
    NotBinary {
        /// The data set.
        name: String,
        /// What was found.
        found: String,
    },
    /// A domain that is not that of the data.
    #[error("data set {name}: it has {found}, but its domain declares {declared}; mend the schema")]
    Domain {
        /// The data set.
        name: String,
        /// What the data has.
        found: String,
        /// What the domain declares.
        declared: String,
    },
    /// A scale, factor or bound that is not a positive finite number.
    #[error("data set {name}: the {what} is {value}; it must be a positive, finite number")]
    NotPositive {
        /// The data set.
        name: String,
        /// "scale", "scaling factor" or "feature bound".
        what: &'static str,
        /// The value.
        value: f64,
    },
}

/// The L2 or L1 norm that no row exceeds, as a constant that does not depend on the data.
pub type FeatureBound = (Norm, f64);

/// The domain of the rows as they were encoded, and what an encoded feature and target were multiplied with since.
#[derive(Clone, Debug, PartialEq)]
struct Declared {
    domain: Arc<Domain>,
    feature_unit: f64,
    target_unit: f64,
}

/// n rows of d features with their labels: checked, owned, immutable but for explicit operations on the features.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    name: String,
    features: Features,
    labels: Labels,
    feature_bound: Option<FeatureBound>,
    declared: Option<Declared>,
}

impl Dataset {
    /// Checks features and labels and owns them.
    ///
    /// # Errors
    /// Every [`DatasetError`] but `NotBinary` and `Domain`: no rows or columns, incomplete rows, offsets or columns out of
    /// order, NaN or infinite features, infinite targets, classes out of range, as many labels as rows not given, a scale
    /// that is not positive.
    pub fn new(name: impl Into<String>, features: Features, mut labels: Labels) -> Result<Self, DatasetError> {
        let name = name.into();
        check_features(&name, &features)?;
        check_labels(&name, &labels)?;
        if features.len() != labels.len() {
            return Err(DatasetError::LengthMismatch {
                name,
                rows: features.len(),
                labels: labels.len(),
            });
        }
        if let Labels::Values(values) = &mut labels {
            // One of the NaNs, so that the digest knows no other.
            values
                .iter_mut()
                .filter(|value| value.is_nan())
                .for_each(|value| *value = NULL_TARGET);
        }
        Ok(Self {
            name,
            features,
            labels,
            feature_bound: None,
            declared: None,
        })
    }

    /// The same rows with the domain into which they were encoded. Of a data set that has a domain already, the units stay.
    ///
    /// # Errors
    /// `Domain` if columns, storage or classes are not those of the domain, `NotBinary` for real targets other than ±1 where
    /// it declares two classes.
    pub fn in_domain(self, domain: Arc<Domain>) -> Result<Self, DatasetError> {
        let units = self
            .declared
            .as_ref()
            .map_or((1.0, 1.0), |declared| (declared.feature_unit, declared.target_unit));
        self.in_domain_times(domain, units)
    }

    /// The same rows, which are `units.0` times features and `units.1` times targets that were encoded into `domain`.
    pub(crate) fn in_domain_times(mut self, domain: Arc<Domain>, units: (f64, f64)) -> Result<Self, DatasetError> {
        let refuse = |found: String, declared: String| {
            Err(DatasetError::Domain {
                name: self.name.clone(),
                found,
                declared,
            })
        };
        if self.columns() != domain.features() {
            let features = |count| format!("{count} features");
            return refuse(features(self.columns()), features(domain.features()));
        }
        let storage = self.features.storage();
        if storage != domain.storage {
            let rows = |storage: Storage| format!("{} rows", storage.name());
            return refuse(rows(storage), rows(domain.storage));
        }
        let classes =
            |classes: Option<usize>| classes.map_or_else(|| "real targets".into(), |k| format!("{k} classes"));
        match (self.classes(), domain.classes()) {
            (None, Some(2)) => drop(self.binary_targets()?),
            (found, declared) if found != declared => return refuse(classes(found), classes(declared)),
            _ => {}
        }
        self.declared = Some(Declared {
            domain,
            feature_unit: units.0,
            target_unit: units.1,
        });
        Ok(self)
    }

    /// The declared domain, if the rows were encoded into one.
    pub fn domain(&self) -> Option<&Arc<Domain>> {
        self.declared.as_ref().map(|declared| &declared.domain)
    }

    /// A bound on the magnitude of every target that follows from the domain: 1 for classes as ±1 and for encoded numbers.
    pub fn target_bound(&self) -> Option<f64> {
        self.declared.as_ref().map(|declared| declared.target_unit)
    }

    /// Whether `row` is the null row.
    pub fn is_null(&self, row: usize) -> bool {
        self.targets().is_null(row)
    }

    /// The same rows but for `row`, which becomes the null row, features 0: the neighbour under zero-out.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn null_row(mut self, row: usize) -> Self {
        match &mut self.labels {
            Labels::Classes { values, .. } => values[row] = NULL_CLASS,
            Labels::Values(values) => values[row] = NULL_TARGET,
        }
        self.features.clear_rows(|other| other == row);
        self
    }

    /// What the data set is called in tables and results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The features as the kernels read them.
    pub fn rows(&self) -> Rows<'_> {
        self.features.rows()
    }

    /// The labels as the kernels read them.
    pub fn targets(&self) -> Targets<'_> {
        self.labels.targets()
    }

    /// Number of rows n, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a checked data set is never empty")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Features a row d, without a bias, at least 1.
    pub fn columns(&self) -> usize {
        self.features.columns()
    }

    /// Number of classes K, or `None` for real targets.
    pub fn classes(&self) -> Option<usize> {
        self.labels.classes()
    }

    /// The public bound that [`clip_features`](Self::clip_features) enforced, if it was called; `None` says that no
    /// constant independent of the data is known.
    pub fn feature_bound(&self) -> Option<FeatureBound> {
        self.feature_bound
    }

    /// The smallest norm bound that follows without looking at a value: the enforced one, converted between norms by
    /// `‖x‖₂ ≤ ‖x‖₁ ≤ √d·‖x‖₂`; what the format implies, `255·scale·√d` (L2) and `255·scale·d` (L1) for bytes; else the
    /// domain's [`row_bound`](Domain::row_bound).
    pub fn public_bound(&self, norm: Norm) -> Option<f64> {
        let columns = self.columns() as f64;
        let enforced = self.feature_bound.map(|(of, bound)| match (of, norm) {
            (Norm::L2, Norm::L1) => round_up(bound * columns.sqrt()),
            _ => bound,
        });
        match (enforced, self.implied_bound(norm)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What format (for bytes) or domain imply of every norm, whatever the values are.
    fn implied_bound(&self, norm: Norm) -> Option<f64> {
        let columns = self.columns() as f64;
        let Features::U8 { scale, .. } = &self.features else {
            let declared = self.declared.as_ref()?;
            return Some(round_up(declared.domain.row_bound(norm) * declared.feature_unit));
        };
        let of_one = 255.0 * f64::from(*scale);
        Some(round_up(match norm {
            Norm::L1 => of_one * columns,
            Norm::L2 => of_one * columns.sqrt(),
        }))
    }

    /// `SHA-256(format ‖ n ‖ d ‖ scale ‖ values ‖ labels)`, all numbers little-endian, sizes as u64: equal for equal data in
    /// the same format, whatever the file it came from. Name, class names and bound do not enter.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = self.digest_start(self.len());
        for segment in 0..self.segments() {
            self.hash_segment_start(segment, &mut hasher);
            self.hash_segment(segment, 0, &mut hasher);
        }
        hasher.finalize().into()
    }

    /// [`digest`](Self::digest) of the rows of all ranks, of which this data set holds a part: each rank adds its part to a
    /// state that goes from rank to rank, so every rank gets the digest of the whole.
    pub fn digest_over(&self, ranks: &dyn Ranks) -> [u8; 32] {
        let own = [self.len() as u64, self.features.stored() as u64].map(u64::to_le_bytes);
        let sizes: Vec<[u64; 2]> = gather_messages(ranks, own.as_flattened())
            .iter()
            .map(|sizes| {
                let (pairs, _) = sizes.as_chunks::<8>();
                [u64::from_le_bytes(pairs[0]), u64::from_le_bytes(pairs[1])]
            })
            .collect();
        let rows: u64 = sizes.iter().map(|size| size[0]).sum();
        let stored_before: u64 = sizes[..ranks.rank()].iter().map(|size| size[1]).sum();
        let mut hasher = self.digest_start(rows as usize);
        for segment in 0..self.segments() {
            self.hash_segment_start(segment, &mut hasher);
            for rank in 0..ranks.count() {
                if rank == ranks.rank() {
                    self.hash_segment(segment, stored_before, &mut hasher);
                }
                let mut state = hasher.serialize();
                ranks.broadcast(rank, &mut state);
                hasher = Sha256::deserialize(&state).expect("a state that was just written");
            }
        }
        hasher.finalize().into()
    }

    fn digest_start(&self, rows: usize) -> Sha256 {
        let mut hasher = Sha256::new();
        hasher.update(b"rounds dataset 1\n");
        hasher.update(self.features.format().as_bytes());
        hasher.update(b"\n");
        hasher.update((rows as u64).to_le_bytes());
        hasher.update((self.columns() as u64).to_le_bytes());
        if let Features::U8 { scale, .. } = &self.features {
            hasher.update(scale.to_le_bytes());
        }
        hasher
    }

    /// Arrays that enter the digest one after the other.
    fn segments(&self) -> usize {
        match self.features {
            Features::Sparse { .. } => 4,
            _ => 2,
        }
    }

    /// What stands before the first row's values of an array.
    fn hash_segment_start(&self, segment: usize, hasher: &mut Sha256) {
        match (&self.features, segment) {
            (Features::Sparse { .. }, 0) => hasher.update(0_u64.to_le_bytes()),
            _ if segment + 1 == self.segments() => match &self.labels {
                Labels::Classes { classes, .. } => {
                    hasher.update(b"classes");
                    hasher.update((*classes as u64).to_le_bytes());
                }
                Labels::Values(_) => hasher.update(b"values"),
            },
            _ => {}
        }
    }

    /// One array of these rows; `stored_before` values are stored in the rows before them.
    fn hash_segment(&self, segment: usize, stored_before: u64, hasher: &mut Sha256) {
        match (&self.features, segment) {
            (Features::F32 { values, .. }, 0) => hash_numbers(hasher, values, f32::to_le_bytes),
            (Features::U8 { rows, .. }, 0) => rows.iter().for_each(|row| hasher.update(row)),
            (Features::Sparse { offsets, .. }, 0) => {
                hash_numbers(hasher, &offsets[1..], |offset| {
                    (stored_before + offset as u64).to_le_bytes()
                });
            }
            (Features::Sparse { indices, .. }, 1) => hash_numbers(hasher, indices, u32::to_le_bytes),
            (Features::Sparse { values, .. }, 2) => hash_numbers(hasher, values, f32::to_le_bytes),
            _ => match &self.labels {
                Labels::Classes { values, .. } => hash_numbers(hasher, values, u32::to_le_bytes),
                Labels::Values(values) => hash_numbers(hasher, values, f32::to_le_bytes),
            },
        }
    }

    /// Targets of a binary loss: class 0 ↦ −1, class 1 ↦ +1; real targets that are all ±1 as they are. Null rows stay null.
    ///
    /// # Errors
    /// `NotBinary` for another number of classes or other real targets.
    pub fn binary_targets(&self) -> Result<Vec<f32>, DatasetError> {
        let not_binary = |found| DatasetError::NotBinary {
            name: self.name.clone(),
            found,
        };
        match &self.labels {
            Labels::Classes { values, classes: 2, .. } => Ok(values
                .iter()
                .map(|&class| match class {
                    0 => -1.0,
                    NULL_CLASS => NULL_TARGET,
                    _ => 1.0,
                })
                .collect()),
            Labels::Classes { classes, .. } => Err(not_binary(format!("{classes} classes"))),
            Labels::Values(values) => match values.iter().position(|value| value.abs() != 1.0 && !value.is_nan()) {
                None => Ok(values.clone()),
                Some(row) => Err(not_binary(format!("the target {} in row {row}", values[row]))),
            },
        }
    }

    /// The same rows with [`binary_targets`](Self::binary_targets) as real targets.
    ///
    /// # Errors
    /// As `binary_targets`.
    pub fn into_binary(mut self) -> Result<Self, DatasetError> {
        self.labels = Labels::Values(self.binary_targets()?);
        Ok(self)
    }

    /// The same rows with the targets that `loss` takes, and the loss: by default softmax for classes, squared for reals.
    ///
    /// # Errors
    /// As [`Dataset::into_binary`], for classes and a loss of one output.
    pub fn for_loss(self, loss: Option<Loss>) -> Result<(Self, Loss), DatasetError> {
        let has_classes = self.classes().is_some();
        let loss = loss.unwrap_or(if has_classes { Loss::Softmax } else { Loss::Squared });
        if has_classes && loss.targets() != TargetKind::Classes {
            Ok((self.into_binary()?, loss))
        } else {
            Ok((self, loss))
        }
    }

    /// The same rows with two classes, which the domain then declares: `class` ↦ 1, every other one ↦ 0, null rows stay null.
    ///
    /// # Errors
    /// `LabelOutOfRange` (row 0 named) if there is no such class, `NotBinary` for real targets.
    pub fn one_against_rest(mut self, class: u32) -> Result<Self, DatasetError> {
        let Labels::Classes { values, classes, names } = self.labels else {
            return Err(DatasetError::NotBinary {
                name: self.name,
                found: "real targets".into(),
            });
        };
        if class as usize >= classes {
            return Err(DatasetError::LabelOutOfRange {
                name: self.name,
                row: 0,
                label: class,
                classes,
            });
        }
        let chosen = names.map_or_else(|| class.to_string(), |names| names[class as usize].clone());
        let names = vec![format!("not {chosen}"), chosen];
        if let Some(declared) = &mut self.declared {
            Arc::make_mut(&mut declared.domain).label = Label::Classes(names.clone());
        }
        let of = |value: u32| {
            if value == NULL_CLASS {
                value
            } else {
                u32::from(value == class)
            }
        };
        self.labels = Labels::Classes {
            values: values.into_iter().map(of).collect(),
            classes: 2,
            names: Some(names),
        };
        Ok(self)
    }

    /// The same data as dense f32 rows, which the domain then declares.
    ///
    /// # Errors
    /// `TooLarge` if `n·d` values cannot be addressed.
    pub fn to_f32(mut self) -> Result<Self, DatasetError> {
        self.features = match self.features {
            dense @ Features::F32 { .. } => dense,
            Features::U8 { rows, scale } => {
                let mut values = Buffer::zeroed(rows.stored());
                for (value, &byte) in values.iter_mut().zip(rows.iter().flatten()) {
                    *value = scale * f32::from(byte);
                }
                Features::f32(values, rows.columns())
            }
            Features::Sparse {
                offsets,
                indices,
                values,
                columns,
            } => {
                let rows = offsets.len() - 1;
                let limit = isize::MAX as usize / size_of::<f32>();
                let Some(size) = rows.checked_mul(columns).filter(|&size| size <= limit) else {
                    return Err(DatasetError::TooLarge {
                        name: self.name,
                        what: "rows",
                        found: rows,
                        limit: limit / columns,
                    });
                };
                let mut dense: Buffer<f32> = Buffer::zeroed(size);
                for (row, out) in dense.chunks_exact_mut(columns).enumerate() {
                    for entry in offsets[row]..offsets[row + 1] {
                        out[indices[entry] as usize] = values[entry];
                    }
                }
                Features::f32(dense, columns)
            }
        };
        if let Some(declared) = &mut self.declared
            && declared.domain.storage != Storage::Dense
        {
            Arc::make_mut(&mut declared.domain).storage = Storage::Dense;
        }
        Ok(self)
    }

    /// `x ↦ factor · x` for every row. `factor` is a public constant; an enforced bound is multiplied with it, rounded up.
    /// Bytes stay bytes. Products that overflow become the largest number, so that no row can fail.
    ///
    /// # Errors
    /// `NotPositive` for a factor that is not positive and finite, or that makes a scale of bytes overflow.
    pub fn scale_features(mut self, factor: f32) -> Result<Self, DatasetError> {
        check_positive(&self.name, "scaling factor", f64::from(factor))?;
        let times = |value: &mut f32| *value = (*value * factor).clamp(f32::MIN, f32::MAX);
        match &mut self.features {
            Features::F32 { values, .. } => values.iter_mut().for_each(times),
            Features::Sparse { values, .. } => values.iter_mut().for_each(times),
            Features::U8 { scale, .. } => {
                *scale *= factor;
                check_features(&self.name, &self.features)?;
            }
        }
        // One rounding of a product to f32 is at most 2⁻²⁴ relative, and 2⁻¹⁵⁰ absolute below the normal range.
        let columns = self.features.columns() as f64;
        let scaled =
            |bound: f64| round_up(bound * f64::from(factor) * (1.0 + 2f64.powi(-24)) + columns * 2f64.powi(-150));
        if let Some((_, bound)) = &mut self.feature_bound {
            *bound = scaled(*bound);
        }
        if let Some(declared) = &mut self.declared {
            // Bytes are rounded twice more: 1/255, and its product with a byte.
            declared.feature_unit = scaled(declared.feature_unit) * (1.0 + 2f64.powi(-22));
        }
        Ok(self)
    }

    /// `x ↦ x · min(1, bound/‖x‖)` for every row, so that `bound` is a public constant of the data.
    ///
    /// # Guarantee
    /// The exact norm of every resulting row is at most `bound`, rounding included: norms are rounded up, factors down,
    /// and products towards zero. Rows that stay below the bound by more than (d + 4)·2⁻⁵² of it keep their values. Bytes
    /// become f32 rows, unless no row of bytes could exceed the bound: the format, on which the public constants and the
    /// rounding of *all* rows depend, must not depend on whether some row does.
    ///
    /// # Errors
    /// `NotPositive` for a bound that is not positive and finite.
    pub fn clip_features(mut self, norm: Norm, bound: f64) -> Result<Self, DatasetError> {
        check_positive(&self.name, "feature bound", bound)?;
        if self.implied_bound(norm).is_some_and(|implied| bound < implied) {
            self = self.to_f32()?;
        }
        match &mut self.features {
            Features::F32 { values, columns } => {
                values
                    .chunks_exact_mut(*columns)
                    .for_each(|row| clip_row(norm, bound, row));
            }
            Features::U8 { .. } => {}
            Features::Sparse { offsets, values, .. } => {
                for row in offsets.windows(2) {
                    clip_row(norm, bound, &mut values[row[0]..row[1]]);
                }
            }
        }
        let bound = match self.feature_bound {
            Some((known, earlier)) if known == norm => bound.min(earlier),
            _ => bound,
        };
        self.feature_bound = Some((norm, bound));
        Ok(self)
    }

    /// The rows `rows` alone, with all class names.
    ///
    /// # Panics
    /// Rows that do not exist, or none.
    #[must_use]
    pub fn part(mut self, rows: std::ops::Range<usize>) -> Self {
        assert!(!rows.is_empty() && rows.end <= self.len(), "there are no rows {rows:?}");
        match &mut self.features {
            Features::F32 { values, columns } => {
                *values = Buffer::from(&values[rows.start * *columns..rows.end * *columns]);
            }
            Features::U8 { rows: all, .. } => *all = all.part(rows.clone()),
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => {
                let stored = offsets[rows.start]..offsets[rows.end];
                keep(indices, stored.clone());
                keep(values, stored.clone());
                keep(offsets, rows.start..rows.end + 1);
                offsets.iter_mut().for_each(|offset| *offset -= stored.start);
            }
        }
        match &mut self.labels {
            Labels::Classes { values, .. } => keep(values, rows),
            Labels::Values(values) => keep(values, rows),
        }
        self
    }

    /// Takes the features out: the data set keeps its name, labels and columns, and has no rows to read.
    pub(crate) fn take_features(&mut self) -> Features {
        let empty = match &self.features {
            Features::F32 { columns, .. } => Features::f32(Buffer::new(), *columns),
            Features::U8 { rows, scale } => Features::U8 {
                rows: ByteRows::zeroed(0, rows.columns()),
                scale: *scale,
            },
            Features::Sparse { columns, .. } => Features::Sparse {
                offsets: vec![0],
                indices: Vec::new(),
                values: Vec::new(),
                columns: *columns,
            },
        };
        std::mem::replace(&mut self.features, empty)
    }

    /// The same features in memory that the threads of `engine` touched first: of the `leaves` equal parts of the rows each
    /// is copied by a thread of the node that reads it when all rows are a batch of as many leaves. The system gives a page
    /// to the node that first writes to it.
    pub(crate) fn touched_by(&mut self, engine: &Engine, leaves: usize) {
        let rows = self.len();
        let part = |leaf: usize| partition::leaf_range(rows, leaves, leaf);
        match &mut self.features {
            Features::F32 { values, columns } => {
                let mut copy = Buffer::zeroed(values.len());
                let ends = (0..leaves).map(|leaf| part(leaf).end * *columns);
                copy_by(engine, values, &mut copy, ends);
                *values = copy;
            }
            Features::U8 { rows: bytes, .. } => {
                let mut copy = ByteRows::zeroed(rows, bytes.columns());
                let (values, stride) = bytes.memory();
                let ends = (0..leaves).map(|leaf| part(leaf).end * stride);
                copy_by(engine, values, copy.memory_mut().0, ends);
                *bytes = copy;
            }
            Features::Sparse {
                offsets,
                indices,
                values,
                ..
            } => {
                let ends = || (0..leaves).map(|leaf| offsets[part(leaf).end]);
                // Memory for zeros comes from the system untouched.
                let (mut new_indices, mut new_values) = (vec![0; indices.len()], vec![0.0; values.len()]);
                copy_by(engine, indices, &mut new_indices, ends());
                copy_by(engine, values, &mut new_values, ends());
                (*indices, *values) = (new_indices, new_values);
            }
        }
    }

    /// The features and labels, to build another data set from.
    pub fn into_parts(self) -> (Features, Labels) {
        (self.features, self.labels)
    }
}

/// Copies parts, which end at `ends`, by the threads that `engine` gives them to.
fn copy_by<T: Copy + Send + Sync>(engine: &Engine, values: &[T], copy: &mut [T], ends: impl Iterator<Item = usize>) {
    let mut rest = (copy, values);
    let mut parts: Vec<(&mut [T], &[T])> = Vec::new();
    let mut start = 0;
    for end in ends {
        let (to, to_rest) = rest.0.split_at_mut(end - start);
        let (from, from_rest) = rest.1.split_at(end - start);
        parts.push((to, from));
        rest = (to_rest, from_rest);
        start = end;
    }
    engine.for_each(&mut parts, &|(to, from), _| to.copy_from_slice(from));
}

/// Keeps the values in `range`, and no memory for others.
fn keep<T>(values: &mut Vec<T>, range: std::ops::Range<usize>) {
    values.truncate(range.end);
    values.drain(..range.start);
    values.shrink_to_fit();
}

/// The next f64 above a positive one: covers the rounding of the operation that made it.
fn round_up(value: f64) -> f64 {
    value * (1.0 + 4.0 * f64::EPSILON)
}

/// An upper bound of the norm, tight to `(d + 4)·2⁻⁵²`.
fn norm_rounded_up(norm: Norm, row: impl ExactSizeIterator<Item = f64>) -> f64 {
    let slack = 1.0 + (row.len() + 4) as f64 * f64::EPSILON;
    match norm {
        Norm::L1 => row.map(f64::abs).sum::<f64>() * slack,
        Norm::L2 => row.map(|value| value * value).sum::<f64>().sqrt() * slack,
    }
}

fn clip_row(norm: Norm, bound: f64, row: &mut [f32]) {
    let length = norm_rounded_up(norm, row.iter().map(|&value| f64::from(value)));
    if length > bound {
        let factor = bound / length * (1.0 - 4.0 * f64::EPSILON);
        for value in row {
            let product = f64::from(*value) * factor;
            let rounded = product as f32;
            *value = if f64::from(rounded.abs()) > product.abs() {
                f32::from_bits(rounded.to_bits() - 1)
            } else {
                rounded
            };
        }
    }
}

fn check_positive(name: &str, what: &'static str, value: f64) -> Result<(), DatasetError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(DatasetError::NotPositive {
            name: name.into(),
            what,
            value,
        })
    }
}

/// Index of the first NaN or infinity.
fn first_non_finite(values: &[f32]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let blocks = 4096;
    let block = values.chunks(blocks).position(|block| {
        block
            .iter()
            .fold(false, |bad, value| bad | (value.to_bits() & EXPONENT == EXPONENT))
    })?;
    let start = block * blocks;
    values[start..]
        .iter()
        .position(|value| !value.is_finite())
        .map(|offset| start + offset)
}

fn check_features(name: &str, features: &Features) -> Result<(), DatasetError> {
    let limit = u32::MAX as usize;
    let columns = features.columns();
    if columns == 0 {
        return Err(DatasetError::NoColumns { name: name.into() });
    }
    if columns > limit {
        return Err(DatasetError::TooLarge {
            name: name.into(),
            what: "columns",
            found: columns,
            limit,
        });
    }
    if features.is_empty() && features.stored() == 0 {
        return Err(DatasetError::Empty { name: name.into() });
    }
    if features.len() > limit {
        return Err(DatasetError::TooLarge {
            name: name.into(),
            what: "rows",
            found: features.len(),
            limit,
        });
    }
    match features {
        Features::F32 { .. } | Features::U8 { .. } if !features.stored().is_multiple_of(columns) => {
            return Err(DatasetError::IncompleteRow {
                name: name.into(),
                values: features.stored(),
                columns,
            });
        }
        Features::F32 { values, .. } => {
            if let Some(entry) = first_non_finite(values) {
                let (row, column) = (entry / columns, entry % columns);
                return Err(DatasetError::NonFiniteFeature {
                    name: name.into(),
                    row,
                    column,
                    value: values[entry],
                });
            }
        }
        Features::U8 { scale, .. } => {
            check_positive(name, "scale", f64::from(*scale))?;
            check_positive(name, "scale of the largest byte", f64::from(255.0 * scale))?;
        }
        Features::Sparse {
            offsets,
            indices,
            values,
            ..
        } => {
            check_sparse(name, offsets, indices, values, columns)?;
        }
    }
    Ok(())
}

fn check_sparse(
    name: &str,
    offsets: &[usize],
    indices: &[u32],
    values: &[f32],
    columns: usize,
) -> Result<(), DatasetError> {
    let stored = values.len();
    let rows = offsets.len().saturating_sub(1);
    if rows == 0 {
        return Err(DatasetError::Empty { name: name.into() });
    }
    for row in 0..rows {
        let (start, end) = (offsets[row], offsets[row + 1]);
        let first_is_zero = row > 0 || start == 0;
        let last_is_stored = row + 1 < rows || end == stored;
        if !first_is_zero || !last_is_stored || start > end || end > stored || indices.len() != stored {
            return Err(DatasetError::Offsets {
                name: name.into(),
                row,
                start,
                end,
                stored: stored.min(indices.len()),
            });
        }
        let row_indices = &indices[start..end];
        let ascending = row_indices.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || row_indices.last().is_some_and(|&column| column as usize >= columns) {
            let repeated = row_indices
                .windows(2)
                .find(|pair| pair[0] >= pair[1])
                .map(|pair| pair[1]);
            let column = repeated.unwrap_or_else(|| row_indices[row_indices.len() - 1]);
            return Err(DatasetError::ColumnOrder {
                name: name.into(),
                row,
                column,
                columns,
            });
        }
    }
    if let Some(entry) = first_non_finite(values) {
        let row = offsets.partition_point(|&offset| offset <= entry) - 1;
        let (column, value) = (indices[entry] as usize, values[entry]);
        return Err(DatasetError::NonFiniteFeature {
            name: name.into(),
            row,
            column,
            value,
        });
    }
    Ok(())
}

fn check_labels(name: &str, labels: &Labels) -> Result<(), DatasetError> {
    match labels {
        Labels::Classes { values, classes, names } => {
            if *classes > u32::MAX as usize {
                let limit = u32::MAX as usize;
                return Err(DatasetError::TooLarge {
                    name: name.into(),
                    what: "classes",
                    found: *classes,
                    limit,
                });
            }
            if let Some(row) = values
                .iter()
                .position(|&label| label as usize >= *classes && label != NULL_CLASS)
            {
                let label = values[row];
                return Err(DatasetError::LabelOutOfRange {
                    name: name.into(),
                    row,
                    label,
                    classes: *classes,
                });
            }
            if let Some(names) = names.as_ref().filter(|names| names.len() != *classes) {
                return Err(DatasetError::ClassNames {
                    name: name.into(),
                    names: names.len(),
                    classes: *classes,
                });
            }
        }
        Labels::Values(values) => {
            if let Some(row) = values.iter().position(|value| value.is_infinite()) {
                return Err(DatasetError::NonFiniteTarget {
                    name: name.into(),
                    row,
                    value: values[row],
                });
            }
        }
    }
    Ok(())
}

/// Hashes numbers as their little-endian bytes, a block at a time.
fn hash_numbers<T: Copy, const BYTES: usize>(hasher: &mut Sha256, numbers: &[T], bytes: impl Fn(T) -> [u8; BYTES]) {
    let mut buffer = [0; 4096];
    for block in numbers.chunks(buffer.len() / BYTES) {
        for (out, &number) in buffer.chunks_exact_mut(BYTES).zip(block) {
            out.copy_from_slice(&bytes(number));
        }
        hasher.update(&buffer[..block.len() * BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Bounds, Columns, DomainSource, Relation};
    use super::*;
    use proptest::prelude::*;

    fn dense(values: &[f32], columns: usize) -> Features {
        Features::f32(values.to_vec(), columns)
    }

    fn classes(values: &[u32], classes: usize) -> Labels {
        Labels::Classes {
            values: values.to_vec(),
            classes,
            names: None,
        }
    }

    fn sparse(offsets: &[usize], indices: &[u32], values: &[f32], columns: usize) -> Features {
        Features::Sparse {
            offsets: offsets.to_vec(),
            indices: indices.to_vec(),
            values: values.to_vec(),
            columns,
        }
    }

    fn refusal(features: Features, labels: Labels) -> String {
        Dataset::new("d", features, labels).unwrap_err().to_string()
    }

    #[test]
    fn data_that_breaks_a_promise_is_refused_with_row_and_way_out() {
        let ok = classes(&[0, 1], 2);
        assert!(refusal(dense(&[], 3), classes(&[], 2)).contains("no rows"));
        assert!(refusal(dense(&[1.0], 0), ok.clone()).contains("no features"));
        assert!(refusal(dense(&[1.0; 5], 3), ok.clone()).contains("5 values do not fill rows of 3"));
        assert!(refusal(dense(&[1.0; 2], 3), ok.clone()).contains("2 values do not fill rows of 3"));
        assert!(refusal(dense(&[1.0; 9], 3), ok.clone()).contains("3 rows but 2 labels"));
        let message = refusal(dense(&[1.0, 2.0, 3.0, f32::NAN], 2), ok.clone());
        assert!(
            message.contains("row 1, column 1") && message.contains("NaN"),
            "{message}"
        );
        let message = refusal(dense(&[1.0, f32::NEG_INFINITY, 3.0, 4.0], 2), ok.clone());
        assert!(
            message.contains("row 0, column 1") && message.contains("-inf"),
            "{message}"
        );
        assert!(refusal(dense(&[1.0; 4], 2), classes(&[0, 2], 2)).contains("row 1: class 2 is not below"));
        assert!(refusal(dense(&[1.0; 4], 2), Labels::Values(vec![0.0, f32::INFINITY])).contains("row 1: the target"));
        let names = Some(vec!["only".to_owned()]);
        let labels = Labels::Classes {
            values: vec![0, 1],
            classes: 2,
            names,
        };
        assert!(refusal(dense(&[1.0; 4], 2), labels).contains("1 class names for 2 classes"));
        let bytes = Features::bytes(&[1; 4], 2, 0.0);
        assert!(refusal(bytes, ok.clone()).contains("scale is 0"));
        let bytes = Features::bytes(&[1; 4], 2, f32::MAX);
        assert!(refusal(bytes, ok).contains("largest byte"));
        if usize::BITS == 64 {
            let columns = 1usize << 33;
            let message = refusal(sparse(&[0, 0], &[], &[], columns), classes(&[0], 1));
            assert!(message.contains("8589934592 columns"), "{message}");
        }
    }

    #[test]
    fn sparse_rows_that_are_out_of_order_are_refused() {
        let ok = classes(&[0, 1], 2);
        assert!(refusal(sparse(&[0], &[], &[], 3), ok.clone()).contains("no rows"));
        assert!(refusal(sparse(&[], &[], &[], 3), ok.clone()).contains("no rows"));
        for offsets in [[1, 1, 2], [0, 2, 1], [0, 1, 1], [0, 3, 2]] {
            assert!(
                refusal(sparse(&offsets, &[0, 1], &[1.0, 2.0], 3), ok.clone()).contains("offsets"),
                "{offsets:?}"
            );
        }
        assert!(refusal(sparse(&[0, 1, 2], &[0], &[1.0, 2.0], 3), ok.clone()).contains("offsets"));
        assert!(refusal(sparse(&[0, 2, 2], &[1, 1], &[1.0, 2.0], 3), ok.clone()).contains("row 0: column 1"));
        assert!(refusal(sparse(&[0, 0, 2], &[2, 1], &[1.0, 2.0], 3), ok.clone()).contains("row 1: column 1"));
        assert!(refusal(sparse(&[0, 1, 2], &[0, 3], &[1.0, 2.0], 3), ok.clone()).contains("row 1: column 3"));
        let message = refusal(sparse(&[0, 0, 2], &[0, 2], &[1.0, f32::NAN], 3), ok.clone());
        assert!(message.contains("row 1, column 2"), "{message}");
        let data = Dataset::new("d", sparse(&[0, 0, 2], &[0, 2], &[1.0, 3.0], 3), ok).unwrap();
        assert_eq!((data.len(), data.columns(), data.features().stored()), (2, 3, 2));
        let Features::F32 { values, .. } = data.to_f32().unwrap().into_parts().0 else {
            panic!("dense")
        };
        assert_eq!(values, [0.0, 0.0, 0.0, 1.0, 0.0, 3.0]);
    }

    #[test]
    fn the_digest_is_that_of_the_values_and_changes_with_each_of_them() {
        let make =
            |values: &[f32], columns, labels| Dataset::new("d", dense(values, columns), labels).unwrap().digest();
        let base = make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 2));
        assert_eq!(base, make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 2)));
        // hashlib.sha256(b"rounds dataset 1\nf32\n" + struct.pack("<QQ4f7sQII", 2, 2, 1, 2, 3, 4, b"classes", 2, 0, 1))
        assert_eq!(base[..8], 0xf746_1f1a_8743_6222_u64.to_be_bytes());
        for other in [
            make(&[1.0, 2.0, 3.0, 4.5], 2, classes(&[0, 1], 2)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[1, 1], 2)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 3)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, Labels::Values(vec![0.0, 1.0])),
            make(&[1.0, 2.0, 3.0, 4.0], 1, classes(&[0, 1, 0, 1], 2)),
        ] {
            assert_ne!(base, other);
        }
        let bytes = |scale| {
            let features = Features::bytes(&[1, 2, 3, 4], 2, scale);
            Dataset::new("d", features, classes(&[0, 1], 2)).unwrap().digest()
        };
        assert_ne!(bytes(1.0), base);
        assert_ne!(bytes(1.0), bytes(0.5));
    }

    #[test]
    fn two_classes_become_minus_one_and_one() {
        let data = Dataset::new("d", dense(&[1.0; 3], 1), classes(&[0, 1, 0], 2)).unwrap();
        assert_eq!(data.binary_targets().unwrap(), [-1.0, 1.0, -1.0]);
        assert_eq!(data.into_binary().unwrap().binary_targets().unwrap(), [-1.0, 1.0, -1.0]);
        let three = Dataset::new("d", dense(&[1.0; 3], 1), classes(&[0, 1, 2], 3)).unwrap();
        assert!(three.binary_targets().unwrap_err().to_string().contains("3 classes"));
        let split = three.clone().one_against_rest(2).unwrap();
        assert_eq!(split.binary_targets().unwrap(), [-1.0, -1.0, 1.0]);
        let error = three.one_against_rest(3).unwrap_err();
        assert!(matches!(error, DatasetError::LabelOutOfRange { label: 3, .. }));
        let real = Dataset::new("d", dense(&[1.0; 2], 1), Labels::Values(vec![1.0, 0.5])).unwrap();
        assert!(real.binary_targets().unwrap_err().to_string().contains("0.5 in row 1"));
        assert!(matches!(real.one_against_rest(0), Err(DatasetError::NotBinary { .. })));
    }

    #[test]
    fn no_single_row_decides_on_the_format_or_a_public_bound_of_clipped_features() {
        let clipped = |last: u8, norm: Norm, bound: f64| {
            let bytes = Features::bytes(&[0, 10, 20, 0, last, last], 2, 1.0 / 255.0);
            let data = Dataset::new("d", bytes, classes(&[0, 1, 0], 2)).unwrap();
            data.clip_features(norm, bound).unwrap()
        };
        for (norm, bound) in [(Norm::L1, 0.5), (Norm::L1, 1.9), (Norm::L2, 1.0), (Norm::L2, 2.0)] {
            let (without, with) = (clipped(0, norm, bound), clipped(255, norm, bound));
            let is_bytes = |data: &Dataset| matches!(data.features(), Features::U8 { .. });
            assert_eq!(is_bytes(&without), is_bytes(&with));
            for asked in [Norm::L1, Norm::L2] {
                assert_eq!(without.public_bound(asked), with.public_bound(asked));
            }
        }
    }

    #[test]
    fn bytes_stay_bytes_where_none_can_exceed_the_bound_which_follows_from_the_format() {
        let bytes = Features::bytes(&[0, 255, 255, 255], 2, 1.0 / 255.0);
        let data = Dataset::new("d", bytes, classes(&[0, 1], 2)).unwrap();
        assert!((data.public_bound(Norm::L2).unwrap() - 2f64.sqrt()).abs() < 1e-6);
        assert!((data.public_bound(Norm::L1).unwrap() - 2.0).abs() < 1e-6);
        assert_eq!(data.feature_bound(), None);
        let wide = data.clone().clip_features(Norm::L2, 2.0).unwrap();
        assert_eq!(wide.features(), data.features());
        assert_eq!(wide.feature_bound(), Some((Norm::L2, 2.0)));
        assert!(wide.public_bound(Norm::L2).unwrap() < 1.4143);
        let clipped = data.clip_features(Norm::L2, 1.0).unwrap();
        let Features::F32 { values, .. } = clipped.features() else {
            panic!("f32 rows")
        };
        assert!(values[0] == 0.0 && values[1] <= 1.0 && values[1] >= 0.999_999_9);
        assert!((values[2] - 0.5f32.sqrt()).abs() < 1e-6);
        let tighter = clipped.clip_features(Norm::L2, 0.5).unwrap();
        assert_eq!(tighter.feature_bound(), Some((Norm::L2, 0.5)));
        assert_eq!(
            tighter.clip_features(Norm::L2, 3.0).unwrap().feature_bound(),
            Some((Norm::L2, 0.5))
        );
    }

    fn domain(count: usize, storage: Storage, label: Label) -> Arc<Domain> {
        let hi = if storage == Storage::Bytes { 255.0 } else { 1.0 };
        Arc::new(Domain {
            relation: Relation::ZeroOut,
            columns: Columns::Matrix {
                count,
                bounds: Bounds::new(0.0, hi).unwrap(),
            },
            storage,
            label,
            label_column: None,
            dropped: Vec::new(),
            test_is_public: false,
            source: DomainSource::Arguments,
        })
    }

    #[test]
    fn a_null_row_has_no_features_and_no_label_whatever_becomes_of_the_labels() {
        for features in [
            dense(&[1.0; 6], 2),
            Features::bytes(&[1; 6], 2, 1.0),
            sparse(&[0, 2, 3, 4], &[0, 1, 0, 1], &[1.0; 4], 2),
        ] {
            let data = Dataset::new("d", features.clone(), classes(&[0, 1, 2], 3)).unwrap();
            let null = data.clone().null_row(1);
            assert!(null.is_null(1) && !null.is_null(0) && !null.is_null(2));
            assert_ne!(null.digest(), data.digest());
            let rows = |data: &Dataset| data.clone().to_f32().unwrap().features().clone();
            let Features::F32 { values, .. } = rows(&null) else {
                panic!("f32")
            };
            assert_eq!(values[2..4], [0.0, 0.0]);
            let Features::F32 { values: before, .. } = rows(&data) else {
                panic!("f32")
            };
            assert_eq!((&values[..2], &values[4..]), (&before[..2], &before[4..]));
            // Nulling is idempotent, and the same before and after labels change.
            assert_eq!(null.clone().null_row(1), null);
            let split = null.clone().one_against_rest(1).unwrap();
            assert_eq!(split, data.clone().one_against_rest(1).unwrap().null_row(1));
            let binary = split.into_binary().unwrap();
            assert!(binary.is_null(1) && binary.binary_targets().unwrap()[1].is_nan());
            let other = data.one_against_rest(1).unwrap().into_binary().unwrap().null_row(1);
            assert_eq!(binary.digest(), other.digest());
            assert!(null.part(1..2).is_null(0));
        }
        let nan = f32::from_bits(0xffc1_2345);
        let data = Dataset::new("d", dense(&[1.0; 2], 1), Labels::Values(vec![nan, 2.0])).unwrap();
        assert!(data.is_null(0) && !data.is_null(1));
        let Labels::Values(values) = data.labels() else {
            panic!("values")
        };
        assert_eq!(values[0].to_bits(), NULL_TARGET.to_bits());
    }

    #[test]
    fn a_domain_stays_with_its_rows_and_bounds_them() {
        let names = || Label::Classes(["a", "b", "c"].map(str::to_owned).to_vec());
        let data = Dataset::new("d", dense(&[0.5; 8], 4), classes(&[0, 2], 3)).unwrap();
        for (domain, part) in [
            (domain(3, Storage::Dense, names()), "3 features"),
            (domain(4, Storage::Sparse, names()), "sparse rows"),
            (
                domain(4, Storage::Dense, Label::Classes(vec!["a".into(), "b".into()])),
                "2 classes",
            ),
            (
                domain(4, Storage::Dense, Label::Number(Bounds::new(0.0, 1.0).unwrap())),
                "real targets",
            ),
        ] {
            let message = data.clone().in_domain(domain).unwrap_err().to_string();
            assert!(
                message.contains(part) && message.contains("mend the schema"),
                "{message}"
            );
        }
        let data = data.in_domain(domain(4, Storage::Dense, names())).unwrap();
        let bound = |data: &Dataset, norm| data.public_bound(norm).unwrap();
        assert!((bound(&data, Norm::L2) - 2.0).abs() < 1e-12 && (bound(&data, Norm::L1) - 4.0).abs() < 1e-12);
        let scaled = data.clone().scale_features(0.25).unwrap();
        assert!((0.5..0.500_001).contains(&bound(&scaled, Norm::L2)));
        assert!(bound(&data.clone().clip_features(Norm::L2, 1.0).unwrap(), Norm::L2) <= 1.0);
        let binary = data.one_against_rest(2).unwrap().into_binary().unwrap().part(0..1);
        let declared = binary.domain().unwrap();
        assert_eq!(declared.label, Label::Classes(vec!["not 2".into(), "2".into()]));
        assert_eq!(binary.target_bound(), Some(1.0));
        let bytes = Dataset::new("d", Features::bytes(&[9; 8], 4, 1.0 / 255.0), classes(&[0, 2], 3)).unwrap();
        let bytes = bytes.in_domain(domain(4, Storage::Bytes, names())).unwrap();
        assert!(bound(&bytes, Norm::L2) < 2.000_001);
        assert_eq!(bytes.to_f32().unwrap().domain().unwrap().storage, Storage::Dense);
    }

    #[test]
    fn scaling_keeps_bytes_and_carries_the_bound() {
        let bytes = Features::bytes(&[0, 100], 1, 1.0);
        let data = Dataset::new("d", bytes, classes(&[0, 1], 2))
            .unwrap()
            .scale_features(0.01)
            .unwrap();
        assert_eq!(data.features(), &Features::bytes(&[0, 100], 1, 0.01));
        let data = Dataset::new("d", dense(&[3.0, 4.0], 2), classes(&[0], 1)).unwrap();
        let data = data.clip_features(Norm::L2, 5.0).unwrap().scale_features(0.1).unwrap();
        let (norm, bound) = data.feature_bound().unwrap();
        assert!(norm == Norm::L2 && (0.5..0.500_001).contains(&bound));
        assert!((data.public_bound(Norm::L1).unwrap() - bound * 2f64.sqrt()).abs() < 1e-9);
        for factor in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = data.clone().scale_features(factor).unwrap_err().to_string();
            assert!(error.contains("scaling factor"), "{error}");
        }
        let largest = data.clone().scale_features(f32::MAX).unwrap().scale_features(f32::MAX);
        assert_eq!(largest.unwrap().features(), &dense(&[f32::MAX; 2], 2));
        assert!(
            data.clip_features(Norm::L1, 0.0)
                .unwrap_err()
                .to_string()
                .contains("feature bound is 0")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn clipped_rows_never_exceed_the_bound_and_short_rows_keep_their_bits(
            values in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO, 1..40),
            exponent in -40i32..38,
            l1 in any::<bool>(),
        ) {
            let norm = if l1 { Norm::L1 } else { Norm::L2 };
            let bound = 10f64.powi(exponent);
            let columns = values.len();
            let data = Dataset::new("d", dense(&values, columns), classes(&[0], 1)).unwrap();
            let data = data.clip_features(norm, bound).unwrap();
            let Features::F32 { values: clipped, .. } = data.features() else { panic!("f32 rows") };
            let exact = |row: &[f32]| match norm {
                Norm::L1 => row.iter().map(|&value| f64::from(value.abs())).sum::<f64>(),
                Norm::L2 => row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt(),
            };
            // The check itself rounds, by at most (d + 1)·2⁻⁵³ relative.
            prop_assert!(exact(clipped) <= bound * (1.0 + (columns + 1) as f64 * f64::EPSILON / 2.0));
            if exact(&values) <= bound * (1.0 - 1e-12) {
                prop_assert_eq!(&**clipped, &*values);
            }
        }
    }
}

//! A data set that is owned and checked once: features, labels, a name, and the public bound of its rows.
//!
//! After [`Dataset::new`] every feature is finite, every target is finite or that of a null row, every class is in range or
//! [`NULL_CLASS`], and every row has its label, so that nothing downstream validates again. The kernels read it through the
//! borrowed views of [`rounds_kernels::features`].

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rounds_kernels::features::{NULL_CLASS, NULL_TARGET, Norm, Rows, Targets};
use rounds_kernels::linear::FeatureGrid;
use rounds_kernels::loss::{Loss, TargetKind};
use sha2::digest::common::hazmat::SerializableState as _;
use sha2::{Digest, Sha256};

use super::domain::{Column, ColumnKind, Columns, Domain, Label, Storage};
use super::features::{Buffer, DatasetError, Features, Labels, SparseMatrix, argument, check_positive, fault};
use super::units::{UnitDeclaration, UnitIds, Units};
use crate::parallel::ranks::{Ranks, gather_messages};
use crate::parallel::{Engine, partition};
use crate::plural;

/// Shares of the rows that are hashed side by side, and rows of one after each other.
const SHARES: usize = 16;
const SHARED_ROWS: usize = 64;

/// The domain of the rows as they were encoded, and the factor of their features since.
#[derive(Clone, Debug, PartialEq)]
struct Declared {
    domain: Arc<Domain>,
    unit: f64,
}

/// Public facts of rows beside their domain, which decide their bounds and their grid with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Treatment {
    /// The factor of features since they were encoded into the domain.
    pub unit: f64,
    /// The value of a byte of 1, of bytes.
    pub byte_scale: Option<f32>,
    /// The norm bound that is enforced on every row of features.
    pub bound: Option<(Norm, f64)>,
}

/// n rows of d features with their labels: checked, owned, immutable but for explicit operations on the features.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    name: String,
    features: Features,
    labels: Labels,
    /// The norm that [`clip_features`](Self::clip_features) enforced, and its bound.
    feature_bound: Option<(Norm, f64)>,
    declared: Option<Declared>,
    units: Option<Units>,
}

impl Dataset {
    /// Checks features and labels and owns them.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let features = Features::f32(vec![0.0, 1.0, 1.0, 0.0], 2);
    /// let dataset = Dataset::new("two rows", features, Labels::Values(vec![1.0, -1.0]))?;
    /// assert_eq!((dataset.len(), dataset.columns()), (2, 2));
    /// # Ok::<(), rounds_algorithms::problem::DatasetError>(())
    /// ```
    ///
    /// # Errors
    /// No rows or columns, incomplete rows, offsets or columns out of order, NaN or infinite features, infinite targets,
    /// classes out of range, a number of labels other than that of the rows, a scale that is not positive.
    pub fn new(name: impl Into<String>, features: Features, mut labels: Labels) -> Result<Self, DatasetError> {
        let name = name.into();
        let (rows, count) = (features.len(), labels.len());
        let counts = || {
            if rows == count {
                Ok(())
            } else {
                fault("", format!("{rows} rows but {count} labels; each row has exactly one"))
            }
        };
        let checked = features.check().and_then(|()| labels.check()).and_then(|()| counts());
        checked.map_err(|error| error.of(&name))?;
        if let Labels::Values(values) = &mut labels {
            // One of the NaNs, so that the digest knows no other.
            values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = NULL_TARGET);
        }
        Ok(Self { name, features, labels, feature_bound: None, declared: None, units: None })
    }

    /// The same rows with the domain into which they were encoded. Of a data set that has a domain already, the unit stays.
    ///
    /// What an [`Encoder`](super::Encoder) could not have made becomes what it would have made, row by row: features and numbers
    /// are cut to ±1, and a row in which a category has not one 1 among zeros is the null row. So the bounds that the domain
    /// promises ([`Domain::row_bound`]) hold whoever encoded the rows, and no row of the domain's shape is refused.
    ///
    /// # Errors
    /// A domain that [`Domain::check`] refuses; columns, storage or classes that are not those of the domain; real targets other than ±1
    /// where it declares two classes; rows that were clipped before they have named columns.
    pub fn in_domain(mut self, domain: Arc<Domain>) -> Result<Self, DatasetError> {
        domain.check().or_else(|error| refused(&self.name, error.to_string()))?;
        if let (None, Some(_), Columns::Named(_)) = (&self.declared, self.feature_bound, &domain.columns) {
            return refused(
                &self.name,
                "its rows are clipped, so no category is seen in them; give the domain first".into(),
            );
        }
        if let (None, Labels::Values(values), Label::Number(_)) = (&self.declared, &mut self.labels, &domain.label) {
            // Of NaN, which is the null row's, this is NaN.
            values.iter_mut().for_each(|value| *value = value.clamp(-1.0, 1.0));
        }
        let unit = self.declared.as_ref().map_or(1.0, |declared| declared.unit);
        self.in_domain_times(domain, unit)
    }

    /// The same rows of a domain, as `unit` times features that were encoded into it: they are rounded to that grid and cut to ±unit.
    ///
    /// # Errors
    /// Rows without a domain; a unit that is not positive and finite.
    pub fn in_units_of(self, unit: f64) -> Result<Self, DatasetError> {
        check_positive("unit", unit).map_err(|error| error.of(&self.name))?;
        match self.domain().cloned() {
            Some(domain) => self.in_domain_times(domain, unit),
            None => refused(&self.name, "it has no domain, which units belong to".to_owned()),
        }
    }

    /// The same rows, which are `unit` times features that were encoded into `domain`.
    pub(crate) fn in_domain_times(mut self, domain: Arc<Domain>, unit: f64) -> Result<Self, DatasetError> {
        let refuse = |found: String, declared: String| {
            let problem = format!("it has {found}, but its domain declares {declared}; mend the schema");
            refused(&self.name, problem)
        };
        if self.columns() != domain.features() {
            let features = |count| plural(count, "feature");
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
            (None, Some(2)) if self.binary_targets().is_err() => {
                let problem =
                    "it has targets other than -1 and 1, but its domain declares two classes; mend the schema";
                return fault("", problem).map_err(|error| error.of(&self.name));
            }
            (None, Some(2)) => {}
            (found, declared) if found != declared => return refuse(classes(found), classes(declared)),
            _ => {}
        }
        if let Columns::Named(columns) = &domain.columns
            && self.declared.as_ref().is_none_or(|earlier| earlier.domain.columns != domain.columns)
        {
            self.null_rows_of_no_category(columns);
        }
        self.declared = Some(Declared { domain, unit });
        self.round_to_grid();
        Ok(self)
    }

    /// Makes rows null rows in which some category has not one 1 among zeros.
    fn null_rows_of_no_category(&mut self, columns: &[Column]) {
        let ends = columns.iter().scan(0, |end, column| {
            *end += column.kind.features();
            Some((*end, column))
        });
        let is_category = |column: &Column| matches!(column.kind, ColumnKind::Category { .. });
        let categories: Vec<_> = ends
            .filter(|(_, column)| is_category(column))
            .map(|(end, column)| end - column.kind.features()..end)
            .collect();
        let Features::F32 { values, columns } = &self.features else { return };
        let is_one = |group: &[f32]| {
            let ones = group.iter().filter(|&&value| value == 1.0).count();
            ones == 1 && group.iter().filter(|&&value| value == 0.0).count() == group.len() - 1
        };
        let fits = |row: &[f32]| categories.iter().all(|category| is_one(&row[category.clone()]));
        let rows = values.chunks_exact(*columns).enumerate();
        let misfits: Vec<usize> =
            rows.filter(|&(row, features)| !self.is_null(row) && !fits(features)).map(|(row, _)| row).collect();
        self.make_null(&misfits);
    }

    /// The same rows by unit: each unit's side by side in their order, units in theirs. Rows of no unit are left out.
    ///
    /// # Errors
    /// As many numbers as there are rows are needed, and a row of some unit.
    pub fn by_unit(self, ids: &UnitIds, declaration: UnitDeclaration) -> Result<Self, DatasetError> {
        let rows = self.len();
        if ids.of_rows.len() != rows {
            let problem = format!("{rows} rows but {} units' numbers; each row has exactly one", ids.of_rows.len());
            return fault("", problem).map_err(|error| error.of(&self.name));
        }
        let (order, offsets) = ids.order(declaration.most_rows);
        if order.is_empty() {
            return fault("", "no row has a unit").map_err(|error| error.of(&self.name));
        }
        let is_ordered = order.len() == rows && order.iter().enumerate().all(|(place, &row)| place == row);
        let labels = if is_ordered { self.labels } else { self.labels.select(order.iter().copied()) };
        let features = if is_ordered { self.features } else { self.features.into_order(&order) };
        let without_id = ids.of_rows.iter().filter(|&&unit| unit == UnitIds::NO_UNIT).count();
        Ok(Self { features, labels, units: Some(Units::new(declaration, offsets).beside(without_id)), ..self })
    }

    /// The units of the rows, if they have others than themselves.
    pub fn units(&self) -> Option<&Units> {
        self.units.as_ref()
    }

    /// Number of units, which are the rows where no others are declared: what is sampled, and what neighbours differ in.
    pub fn records(&self) -> usize {
        self.units.as_ref().map_or_else(|| self.len(), Units::count)
    }

    /// The declared domain, if the rows were encoded into one.
    pub fn domain(&self) -> Option<&Arc<Domain>> {
        self.declared.as_ref().map(|declared| &declared.domain)
    }

    /// The treatment of the rows since they were encoded into their domain; none without a domain.
    pub fn treatment(&self) -> Option<Treatment> {
        let byte_scale = match self.features {
            Features::U8 { scale, .. } => Some(scale),
            _ => None,
        };
        self.declared.as_ref().map(|declared| Treatment { unit: declared.unit, byte_scale, bound: self.feature_bound })
    }

    /// The public grid on which the features lie: that of bytes, or multiples of 2⁻¹⁴ times the public bound of a feature, rounded
    /// up to a power of two. None without a domain.
    pub fn feature_grid(&self) -> Option<FeatureGrid> {
        let unit = self.declared.as_ref()?.unit;
        Some(match self.features {
            Features::U8 { scale, .. } => FeatureGrid::bytes(scale),
            Features::F32 { .. } | Features::Sparse(_) => {
                FeatureGrid::fixed_point(self.feature_bound.map_or(unit, |(_, bound)| bound.min(unit)))
            }
        })
    }

    /// Rounds features to their grid, where there is one, and cuts them to the unit: to nearest, or where that could exceed a bound
    /// towards 0.
    fn round_to_grid(&mut self) {
        if let Some(grid) = self.feature_grid() {
            let unit = self.declared.as_ref().map_or(1.0, |declared| declared.unit);
            let greatest = (unit / f64::from(grid.step)).floor();
            // Where the unit is no multiple of the step, nearest could exceed it.
            let towards_zero = self.feature_bound.is_some() || greatest * f64::from(grid.step) < unit;
            self.features.round_to(grid.step, greatest as f32, towards_zero);
        }
    }

    /// `row` is the null row.
    pub fn is_null(&self, row: usize) -> bool {
        self.targets().is_null(row)
    }

    /// The neighbour under zero-out: the same rows but for `record`, a row that becomes the null row, features 0, or a unit that has
    /// no rows any more.
    ///
    /// # Panics
    /// If there is no such record; if no row is left.
    #[must_use]
    pub fn null_row(mut self, record: usize) -> Self {
        let Some(units) = &self.units else {
            self.make_null(&[record]);
            return self;
        };
        let (count, own) = (units.count(), units.rows_of(record));
        let offset = |place: usize| units.offsets()[place] - if place > record { own.len() } else { 0 };
        let others = Units::new(units.declaration().clone(), (0..=count).map(offset).collect());
        let rows: Vec<usize> = (0..own.start).chain(own.end..self.len()).collect();
        Self { units: Some(others), ..self.with_rows(rows.into_iter()) }
    }

    /// Makes `rows`, in ascending order, null rows.
    fn make_null(&mut self, rows: &[usize]) {
        for &row in rows {
            match &mut self.labels {
                Labels::Classes { values, .. } => values[row] = NULL_CLASS,
                Labels::Values(values) => values[row] = NULL_TARGET,
            }
        }
        self.features.clear_rows(|row| rows.binary_search(&row).is_ok());
    }

    /// The name in tables and results.
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

    /// The smallest norm bound that follows without looking at a value: the enforced one, converted between norms by
    /// `‖x‖₂ ≤ ‖x‖₁ ≤ √d·‖x‖₂`; what the format implies, `255·scale·√d` (L2) and `255·scale·d` (L1) for bytes; else the
    /// domain's [`row_bound`](Domain::row_bound).
    pub fn public_bound(&self, norm: Norm) -> Option<f64> {
        let columns = self.columns() as f64;
        let enforced = self.feature_bound.map(|(of, bound)| match (of, norm) {
            (Norm::L2, Norm::L1) => round_up(bound * columns.sqrt()),
            _ => bound,
        });
        [enforced, self.implied_bound(norm)].into_iter().flatten().reduce(f64::min)
    }

    /// True where the public bound on the L2 norm is at most ¾ of the one that the format or the domain implies: rows were clipped to it.
    pub(super) fn is_short(&self) -> bool {
        let bounds = self.public_bound(Norm::L2).zip(self.implied_bound(Norm::L2));
        bounds.is_some_and(|(bound, implied)| bound <= 0.75 * implied)
    }

    /// The bound that the format (for bytes) or the domain implies for every norm.
    fn implied_bound(&self, norm: Norm) -> Option<f64> {
        match (&self.features, &self.declared) {
            (Features::U8 { scale, .. }, _) => Some(byte_bound(*scale, self.columns(), norm)),
            (_, Some(declared)) => Some(round_up(declared.domain.row_bound(norm) * declared.unit)),
            (_, None) => None,
        }
    }

    /// `SHA-256(format ‖ n ‖ d ‖ scale ‖ kind of labels ‖ SHA-256 of each share of the rows ‖ SHA-256 of the labels)`, all numbers
    /// little-endian, sizes as u64, and behind it the units, if there are any: equal for equal data in the same format, whatever the file it came from. A share has every 16th of the
    /// blocks of 64 rows; shares are hashed side by side. Other data with the same digest have one SHA-256 for two of these texts. Name, class
    /// names and bound do not enter.
    pub fn digest(&self) -> [u8; 32] {
        let mut shares = vec![Sha256::new(); SHARES + 1];
        self.hash_rows(0, &mut shares);
        self.digest_of(self.len(), shares)
    }

    /// [`digest`](Self::digest) of the rows of all ranks, of which this data set holds a part: each rank adds its part to
    /// states that go from rank to rank, so every rank gets the digest of the whole.
    pub fn digest_over(&self, ranks: &dyn Ranks) -> [u8; 32] {
        let lengths = gather_messages(ranks, &(self.len() as u64).to_le_bytes());
        let rows =
            |lengths: &[Vec<u8>]| lengths.concat().as_chunks().0.iter().map(|&n| u64::from_le_bytes(n)).sum::<u64>();
        let before = rows(&lengths[..ranks.rank()]);
        let mut shares = vec![Sha256::new(); SHARES + 1];
        for rank in 0..ranks.count() {
            if rank == ranks.rank() {
                self.hash_rows(before as usize, &mut shares);
            }
            let mut states: Vec<_> = shares.iter().map(Sha256::serialize).collect();
            for (share, state) in shares.iter_mut().zip(&mut states) {
                ranks.broadcast(rank, state);
                *share = Sha256::deserialize(state).expect("a state that was just written");
            }
        }
        self.digest_of(rows(&lengths) as usize, shares)
    }

    /// The digest of so many rows in these shares, the last one that of the labels.
    fn digest_of(&self, rows: usize, shares: Vec<Sha256>) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(b"rounds dataset 2\n");
        hasher.update(self.features.format().as_bytes());
        hasher.update(b"\n");
        hasher.update((rows as u64).to_le_bytes());
        hasher.update((self.columns() as u64).to_le_bytes());
        if let Features::U8 { scale, .. } = &self.features {
            hasher.update(scale.to_le_bytes());
        }
        match &self.labels {
            Labels::Classes { classes, .. } => {
                hasher.update(b"classes");
                hasher.update((*classes as u64).to_le_bytes());
            }
            Labels::Values(_) => hasher.update(b"values"),
        }
        shares.into_iter().for_each(|share| hasher.update(share.finalize()));
        if let Some(units) = &self.units {
            hasher.update(format!("units {:?}", units.declaration()));
            units.offsets().iter().for_each(|&offset| hasher.update((offset as u64).to_le_bytes()));
        }
        hasher.finalize().into()
    }

    /// Adds each of these rows, behind `before` others, to its share, and their labels to the last one.
    fn hash_rows(&self, before: usize, shares: &mut [Sha256]) {
        let (labels, shares) = shares.split_last_mut().expect("a share of labels");
        match &self.labels {
            Labels::Classes { values, .. } => hash_numbers(labels, values, u32::to_le_bytes),
            Labels::Values(values) => hash_numbers(labels, values, f32::to_le_bytes),
        }
        let blocks = before / SHARED_ROWS..(before + self.len()).div_ceil(SHARED_ROWS);
        shares.par_iter_mut().enumerate().for_each(|(share, hasher)| {
            for block in blocks.clone().filter(|block| block % SHARES == share) {
                let start = (block * SHARED_ROWS).max(before) - before;
                self.hash_block(start..((block + 1) * SHARED_ROWS - before).min(self.len()), hasher);
            }
        });
    }

    /// Hashes the values of some rows: a text with which that of no other list of as many rows begins.
    fn hash_block(&self, block: Range<usize>, hasher: &mut Sha256) {
        match &self.features {
            Features::F32 { values, columns } => {
                hash_numbers(hasher, &values[block.start * columns..block.end * columns], f32::to_le_bytes);
            }
            Features::U8 { rows, .. } => {
                // With the zeros between rows, which follow from the number of columns: hashing whole cache lines takes 0.9 of the time.
                rows.laid_out(block, |bytes| hasher.update(bytes));
            }
            Features::Sparse(sparse) => {
                for row in block {
                    let stored = sparse.row(row);
                    hasher.update((stored.len() as u64).to_le_bytes());
                    hash_numbers(hasher, &sparse.indices[stored.clone()], u32::to_le_bytes);
                    hash_numbers(hasher, &sparse.values[stored], f32::to_le_bytes);
                }
            }
        }
    }

    /// Targets of a binary loss: class 0 ↦ −1, class 1 ↦ +1; real targets that are all ±1 as they are. Null rows stay null.
    ///
    /// # Errors
    /// Another number of classes or other real targets.
    pub fn binary_targets(&self) -> Result<Vec<f32>, DatasetError> {
        let not_binary = |found: &str| not_binary(&self.name, found);
        match &self.labels {
            Labels::Classes { values, classes: 2, .. } => Ok(values
                .iter()
                .map(|&class| match class {
                    0 => -1.0,
                    NULL_CLASS => NULL_TARGET,
                    _ => 1.0,
                })
                .collect()),
            Labels::Classes { classes, .. } => not_binary(&format!("{classes} classes")),
            Labels::Values(values) => match values.iter().position(|value| value.abs() != 1.0 && !value.is_nan()) {
                None => Ok(values.clone()),
                Some(row) => {
                    let found = format!("the target {} in row {} (counted from 1)", values[row], row + 1);
                    fault("", binary_needed(&found)).map_err(|error| error.of(&self.name))
                }
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
    /// A single class; as [`Dataset::into_binary`], for classes and a loss of one output.
    pub fn for_loss(self, loss: Option<Loss>) -> Result<(Self, Loss), DatasetError> {
        let has_classes = self.classes().is_some();
        if self.classes() == Some(1) {
            let problem =
                "all its labels are one class; a classifier needs at least two: choose another label, or more rows";
            return refused(&self.name, problem.to_owned());
        }
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
    /// No such class; real targets.
    pub fn one_against_rest(mut self, class: u32) -> Result<Self, DatasetError> {
        let Labels::Classes { values, classes, names } = self.labels else {
            return not_binary(&self.name, "real targets");
        };
        if class as usize >= classes {
            let problem = format!("class {class} is not below the number of classes, {classes}");
            return refused(&self.name, problem);
        }
        let chosen = names.map_or_else(|| class.to_string(), |names| names[class as usize].clone());
        let names = vec![format!("not {chosen}"), chosen];
        if let Some(declared) = &mut self.declared {
            Arc::make_mut(&mut declared.domain).label = Label::Classes(names.clone());
        }
        let of = |value: u32| {
            if value == NULL_CLASS { value } else { u32::from(value == class) }
        };
        self.labels = Labels::Classes { values: values.into_iter().map(of).collect(), classes: 2, names: Some(names) };
        Ok(self)
    }

    /// The same data as dense f32 rows, which the domain then declares.
    ///
    /// # Errors
    /// `n·d` values that cannot be addressed.
    pub fn to_f32(mut self) -> Result<Self, DatasetError> {
        let rows = self.len();
        let Some(features) = self.features.into_f32() else {
            let problem = format!("{rows} rows are more than can be addressed as dense ones; split the data");
            return fault("", problem).map_err(|error| error.of(&self.name));
        };
        self.features = features;
        if let Some(declared) = &mut self.declared
            && declared.domain.storage != Storage::Dense
        {
            Arc::make_mut(&mut declared.domain).storage = Storage::Dense;
        }
        self.round_to_grid();
        Ok(self)
    }

    /// `x ↦ factor · x` for every row. `factor` is a public constant; an enforced bound is multiplied with it, rounded up.
    /// Bytes stay bytes. Products that overflow become the largest number, so that no row can fail.
    ///
    /// # Errors
    /// A factor that is not positive and finite, or that makes a scale of bytes overflow.
    pub fn scale_features(mut self, factor: f32) -> Result<Self, DatasetError> {
        let fail = |error: DatasetError| error.of(&self.name);
        check_positive("scaling factor", f64::from(factor)).map_err(fail)?;
        let times = |value: &mut f32| *value = (*value * factor).clamp(f32::MIN, f32::MAX);
        match &mut self.features {
            Features::F32 { values, .. } => values.iter_mut().for_each(times),
            Features::Sparse(sparse) => sparse.values.iter_mut().for_each(times),
            Features::U8 { scale, .. } => {
                *scale *= factor;
                self.features.check().map_err(fail)?;
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
            declared.unit = scaled(declared.unit) * (1.0 + 2f64.powi(-22));
        }
        self.round_to_grid();
        Ok(self)
    }

    /// `x ↦ x · min(1, bound/‖x‖)` for every row, so that `bound` is a public constant of the data.
    ///
    /// # Guarantee
    /// The exact norm of every resulting row is at most `bound`, rounding included: norms are rounded up, factors down,
    /// and products towards zero. Rows that stay below the bound by more than (d + 4)·2⁻⁵² of it keep their values. Bytes
    /// become f32 rows, unless no row of bytes could exceed the bound: the format, on which the public constants and the
    /// rounding of *all* rows depend, must not depend on one row.
    ///
    /// # Errors
    /// A bound that is not positive and finite.
    pub fn clip_features(mut self, norm: Norm, bound: f64) -> Result<Self, DatasetError> {
        check_positive("feature bound", bound).map_err(|error| error.of(&self.name))?;
        if self.implied_bound(norm).is_some_and(|implied| bound < implied) {
            self = self.to_f32()?;
        }
        match &mut self.features {
            Features::F32 { values, columns } => {
                values.chunks_exact_mut(*columns).for_each(|row| clip_row(norm, bound, row));
            }
            Features::U8 { .. } => {}
            Features::Sparse(SparseMatrix { offsets, values, .. }) => {
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
        self.round_to_grid();
        Ok(self)
    }

    /// The same rows with other features, of each row a function of its own alone: those of `domain`, encoded, if these rows have one.
    /// Null rows have zeros.
    ///
    /// # Errors
    /// Another number of rows, features that are not those of the domain; without a domain features that are not finite.
    pub fn with_features(mut self, mut features: Features, domain: Option<Arc<Domain>>) -> Result<Self, DatasetError> {
        if features.len() != self.len() {
            let problem = format!("{} rows, and features of {}", self.len(), features.len());
            return refused(&self.name, problem);
        }
        features.clear_rows(|row| self.is_null(row));
        (self.features, self.feature_bound, self.declared) = (features, None, None);
        match domain {
            // They are rounded to its grid and cut to its bounds, whatever they are.
            Some(domain) => self.in_domain_times(domain, 1.0),
            None => match self.features.check() {
                Ok(()) => Ok(self),
                Err(error) => Err(error.of(&self.name)),
            },
        }
    }

    /// The records `records` alone, rows or whole units, in this order, with all class names and the domain.
    ///
    /// # Panics
    /// Records that do not exist, or without a row.
    #[must_use]
    pub fn select(&self, records: impl ExactSizeIterator<Item = usize> + Clone) -> Self {
        match &self.units {
            None => self.with_rows(records),
            Some(units) => {
                let (units, rows) = units.select(records);
                Self { units: Some(units), ..self.with_rows(rows.into_iter()) }
            }
        }
    }

    /// These rows alone, without units.
    fn with_rows(&self, rows: impl ExactSizeIterator<Item = usize> + Clone) -> Self {
        assert!(rows.len() > 0, "a data set has rows");
        Self {
            name: self.name.clone(),
            features: self.features.select(rows.clone()),
            labels: self.labels.select(rows),
            feature_bound: self.feature_bound,
            declared: self.declared.clone(),
            units: None,
        }
    }

    /// Takes the features out: the data set keeps its name, labels and columns, and has no rows to read.
    pub(crate) fn take_features(&mut self) -> Features {
        let empty = self.features.emptied();
        std::mem::replace(&mut self.features, empty)
    }

    /// Copies the features to memory that the threads of `engine` write to first: of the `leaves` equal parts of the rows each
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
                let mut copy = bytes.blank();
                let (values, stride) = bytes.memory();
                let ends = (0..leaves).map(|leaf| part(leaf).end * stride);
                copy_by(engine, values, copy.memory_mut().0, ends);
                *bytes = copy;
            }
            Features::Sparse(sparse) => {
                let ends = || (0..leaves).map(|leaf| sparse.offsets[part(leaf).end]);
                // Memory for zeros comes from the system untouched.
                let (mut indices, mut values) = (vec![0; sparse.indices.len()], vec![0.0; sparse.values.len()]);
                copy_by(engine, &sparse.indices, &mut indices, ends());
                copy_by(engine, &sparse.values, &mut values, ends());
                (sparse.indices, sparse.values) = (indices, values);
            }
        }
    }

    /// The features and labels, to build another data set from.
    pub fn into_parts(self) -> (Features, Labels) {
        (self.features, self.labels)
    }
}

/// The refusal of the data set `name` as a whole.
fn refused<T>(name: &str, problem: String) -> Result<T, DatasetError> {
    argument(problem).map_err(|error| error.of(name))
}

fn not_binary<T>(name: &str, found: &str) -> Result<T, DatasetError> {
    refused(name, binary_needed(found))
}

fn binary_needed(found: &str) -> String {
    format!(
        "{found}, where a binary loss needs two classes or targets of −1 and 1; choose a multiclass loss, or set one class \
         against the rest"
    )
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

/// A bound on the norm of every row of bytes, each a feature of `scale` times itself.
pub(super) fn byte_bound(scale: f32, columns: usize, norm: Norm) -> f64 {
    let (of_one, columns) = (255.0 * f64::from(scale), columns as f64);
    round_up(match norm {
        Norm::L1 => of_one * columns,
        Norm::L2 => of_one * columns.sqrt(),
    })
}

/// The next f64 above a positive one: covers the rounding of the operation that made it.
pub(super) fn round_up(value: f64) -> f64 {
    value * (1.0 + 4.0 * f64::EPSILON)
}

fn clip_row(norm: Norm, bound: f64, row: &mut [f32]) {
    // An upper bound of the norm, tight to (d + 4)·2⁻⁵².
    let slack = 1.0 + (row.len() + 4) as f64 * f64::EPSILON;
    let values = row.iter().map(|&value| f64::from(value));
    let length = slack
        * match norm {
            Norm::L1 => values.map(f64::abs).sum::<f64>(),
            Norm::L2 => values.map(|value| value * value).sum::<f64>().sqrt(),
        };
    if length > bound {
        let factor = bound / length * (1.0 - 4.0 * f64::EPSILON);
        for value in row {
            let product = f64::from(*value) * factor;
            let rounded = product as f32;
            *value =
                if f64::from(rounded.abs()) > product.abs() { f32::from_bits(rounded.to_bits() - 1) } else { rounded };
        }
    }
}

/// Hashes numbers as their little-endian bytes, a block at a time.
fn hash_numbers<T: Copy>(hasher: &mut Sha256, numbers: &[T], bytes: impl Fn(T) -> [u8; 4]) {
    let mut buffer = [[0; 4]; 1024];
    for block in numbers.chunks(buffer.len()) {
        for (out, &number) in buffer.iter_mut().zip(block) {
            *out = bytes(number);
        }
        hasher.update(buffer[..block.len()].as_flattened());
    }
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Bounds, DomainSource, Other};
    use super::*;
    use crate::problem::{Claims, NoClaim};
    use proptest::prelude::*;

    fn data(features: Features, labels: Labels) -> Dataset {
        Dataset::new("d", features, labels).unwrap()
    }

    fn dense(values: &[f32], columns: usize) -> Features {
        Features::f32(values.to_vec(), columns)
    }

    /// The values of f32 rows.
    fn values(data: &Dataset) -> &[f32] {
        let Features::F32 { values, .. } = data.features() else { panic!("f32 rows") };
        values
    }

    fn classes(values: &[u32], classes: usize) -> Labels {
        Labels::numbered(values.to_vec(), classes)
    }

    fn sparse(offsets: &[usize], indices: &[u32], values: &[f32], columns: usize) -> Features {
        Features::Sparse(SparseMatrix {
            offsets: offsets.to_vec(),
            indices: indices.to_vec(),
            values: values.to_vec(),
            columns,
        })
    }

    /// A caller who claims nothing.
    struct Tester;

    impl Claims for Tester {
        fn claims(&self) -> bool {
            false
        }
    }

    fn witness() -> NoClaim {
        NoClaim::of(&Tester).unwrap()
    }

    #[test]
    fn no_message_of_refused_rows_holds_what_was_found_but_to_one_who_claims_nothing() {
        let rows = |values: Vec<f32>| Features::f32(values, 1);
        let classes = Labels::Classes { values: vec![31337, 0], classes: 2, names: None };
        let sparse = SparseMatrix { offsets: vec![0, 1], indices: vec![31336], values: vec![1.0], columns: 2 };
        let targets = Dataset::new("d", rows(vec![0.0; 2]), Labels::Values(vec![1.0, 31337.0])).unwrap();
        for refused in [
            Dataset::new("d", rows(vec![0.0; 2]), classes).unwrap_err(),
            Dataset::new("d", Features::Sparse(sparse), Labels::Values(vec![0.0])).unwrap_err(),
            Dataset::new("d", rows(vec![0.0; 31337]), Labels::Values(vec![0.0])).unwrap_err(),
            targets.binary_targets().unwrap_err(),
        ] {
            assert!(!format!("{refused} {refused:?}").contains("3133"), "{refused} {refused:?}");
            assert!(refused.explained(&witness()).contains("31337"), "{}", refused.explained(&witness()));
        }
    }

    #[test]
    fn data_that_breaks_a_promise_is_refused_with_row_and_way_out() {
        let ok = || classes(&[0, 1], 2);
        let one_name = Labels::Classes { values: vec![0, 1], classes: 2, names: Some(vec!["only".to_owned()]) };
        let ones = || dense(&[1.0; 4], 2);
        for (features, labels, parts) in [
            (dense(&[], 3), classes(&[], 2), "no rows"),
            (dense(&[1.0], 0), ok(), "no features"),
            (dense(&[1.0; 5], 3), ok(), "5 values do not fill rows of 3"),
            (dense(&[1.0; 2], 3), ok(), "2 values do not fill rows of 3"),
            (dense(&[1.0; 9], 3), ok(), "3 rows but 2 labels"),
            (dense(&[1.0, 2.0, 3.0, f32::NAN], 2), ok(), "row 2, column 2|NaN"),
            (dense(&[1.0, -f32::INFINITY, 3.0, 4.0], 2), ok(), "row 1, column 2|-inf"),
            (ones(), classes(&[0, 2], 2), "row 2 (counted from 1): class 2 is not below"),
            (ones(), Labels::Values(vec![0.0, f32::INFINITY]), "row 2 (counted from 1): the target"),
            (ones(), one_name, "1 class names for 2 classes"),
            (Features::bytes(&[1; 4], 2, 0.0), ok(), "scale is 0"),
            (Features::bytes(&[1; 4], 2, f32::MAX), ok(), "largest byte"),
            (sparse(&[0, 0], &[], &[], 1 << 33), classes(&[0], 1), "8589934592 columns"),
            (sparse(&[0], &[], &[], 3), ok(), "no rows"),
            (sparse(&[], &[], &[], 3), ok(), "no rows"),
            (sparse(&[0, 1, 2], &[0], &[1.0, 2.0], 3), ok(), "offsets"),
            (sparse(&[0, 2, 2], &[1, 1], &[1.0, 2.0], 3), ok(), "row 1 (counted from 1): column 2"),
            (sparse(&[0, 0, 2], &[2, 1], &[1.0, 2.0], 3), ok(), "row 2 (counted from 1): column 2"),
            (sparse(&[0, 1, 2], &[0, 3], &[1.0, 2.0], 3), ok(), "row 2 (counted from 1): column 4"),
            (sparse(&[0, 0, 2], &[0, 2], &[1.0, f32::NAN], 3), ok(), "row 2, column 3"),
        ]
        .into_iter()
        .chain(
            [[1, 1, 2], [0, 2, 1], [0, 1, 1], [0, 3, 2]]
                .map(|offsets| (sparse(&offsets, &[0, 1], &[1.0, 2.0], 3), ok(), "offsets")),
        ) {
            let message = Dataset::new("d", features, labels).unwrap_err().explained(&witness());
            let holds = parts.split('|').all(|part| message.contains(part));
            assert!(holds, "{parts} in {message}");
        }
    }

    #[test]
    fn sparse_rows_become_dense_ones() {
        let data = data(sparse(&[0, 0, 2], &[0, 2], &[1.0, 3.0], 3), classes(&[0, 1], 2));
        assert_eq!((data.len(), data.columns(), data.features().stored()), (2, 3, 2));
        assert_eq!(values(&data.to_f32().unwrap()), [0.0, 0.0, 0.0, 1.0, 0.0, 3.0]);
    }

    #[test]
    fn the_digest_is_that_of_the_values_and_changes_with_each_of_them() {
        let make = |values: &[f32], columns, labels| data(dense(values, columns), labels).digest();
        let base = make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 2));
        assert_eq!(base, make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 2)));
        // s = lambda text: hashlib.sha256(text).digest(); s(b"rounds dataset 2\nf32\n" + struct.pack("<QQ7sQ", 2, 2, b"classes", 2) +
        //   s(struct.pack("<4f", 1, 2, 3, 4)) + 15 * s(b"") + s(struct.pack("<2I", 0, 1)))
        assert_eq!(base[..8], 0xbb42_5380_ea51_cde1_u64.to_be_bytes());
        for other in [
            make(&[1.0, 2.0, 3.0, 4.5], 2, classes(&[0, 1], 2)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[1, 1], 2)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, classes(&[0, 1], 3)),
            make(&[1.0, 2.0, 3.0, 4.0], 2, Labels::Values(vec![0.0, 1.0])),
            make(&[1.0, 2.0, 3.0, 4.0], 1, classes(&[0, 1, 0, 1], 2)),
        ] {
            assert_ne!(base, other);
        }
        // Rows of several blocks of several shares: each, and its place, counts.
        let many: Vec<f32> = (0..2_500).map(|row| row as f32 / 4096.0).collect();
        let digest = |rows: &[f32]| make(rows, 1, Labels::Values(vec![0.5; rows.len()]));
        for row in [0, 63, 64, 1_023, 1_024, 2_499] {
            let mut other = many.clone();
            other[row] = 0.75;
            assert_ne!(digest(&other), digest(&many), "row {row}");
        }
        let mut swapped = many.clone();
        swapped[..128].rotate_left(64);
        assert_ne!(digest(&swapped), digest(&many));
        let bytes = |scale| data(Features::bytes(&[1, 2, 3, 4], 2, scale), classes(&[0, 1], 2)).digest();
        assert_ne!(bytes(1.0), base);
        assert_ne!(bytes(1.0), bytes(0.5));
    }

    #[test]
    fn two_classes_become_minus_one_and_one() {
        let two = data(dense(&[1.0; 3], 1), classes(&[0, 1, 0], 2));
        assert_eq!(two.binary_targets().unwrap(), [-1.0, 1.0, -1.0]);
        assert_eq!(two.into_binary().unwrap().binary_targets().unwrap(), [-1.0, 1.0, -1.0]);
        let three = data(dense(&[1.0; 3], 1), classes(&[0, 1, 2], 3));
        assert!(three.binary_targets().unwrap_err().explained(&witness()).contains("3 classes"));
        let split = three.clone().one_against_rest(2).unwrap();
        assert_eq!(split.binary_targets().unwrap(), [-1.0, -1.0, 1.0]);
        let error = three.one_against_rest(3).unwrap_err();
        assert!(error.to_string().contains("class 3 is not below"));
        let real = data(dense(&[1.0; 2], 1), Labels::Values(vec![1.0, 0.5]));
        assert!(real.binary_targets().unwrap_err().explained(&witness()).contains("0.5 in row 2"));
        let error = real.one_against_rest(0).unwrap_err();
        assert!(error.to_string().contains("real targets, where a binary loss"));
    }

    #[test]
    fn no_single_row_decides_on_the_format_or_a_public_bound_of_clipped_features() {
        let clipped = |last: u8, norm: Norm, bound: f64| {
            let bytes = Features::bytes(&[0, 10, 20, 0, last, last], 2, 1.0 / 255.0);
            let clipped = data(bytes, classes(&[0, 1, 0], 2)).clip_features(norm, bound);
            clipped.unwrap()
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
        let data = data(bytes, classes(&[0, 1], 2));
        assert!((data.public_bound(Norm::L2).unwrap() - 2f64.sqrt()).abs() < 1e-6);
        assert!((data.public_bound(Norm::L1).unwrap() - 2.0).abs() < 1e-6);
        assert_eq!(data.feature_bound, None);
        let wide = data.clone().clip_features(Norm::L2, 2.0).unwrap();
        assert_eq!(wide.features(), data.features());
        assert_eq!(wide.feature_bound, Some((Norm::L2, 2.0)));
        assert!(wide.public_bound(Norm::L2).unwrap() < 1.4143);
        let clipped = data.clip_features(Norm::L2, 1.0).unwrap();
        let values = values(&clipped);
        assert!(values[0] == 0.0 && values[1] <= 1.0 && values[1] >= 0.999_999_9);
        assert!((values[2] - 0.5f32.sqrt()).abs() < 1e-6);
        let tighter = clipped.clip_features(Norm::L2, 0.5).unwrap();
        let wider = tighter.clone().clip_features(Norm::L2, 3.0).unwrap();
        assert_eq!([tighter.feature_bound, wider.feature_bound], [Some((Norm::L2, 0.5)); 2]);
    }

    fn domain(count: usize, storage: Storage, label: Label) -> Arc<Domain> {
        let hi = if storage == Storage::Bytes { 255.0 } else { 1.0 };
        let bounds = Bounds::new(0.0, hi).unwrap();
        let columns = Columns::Matrix { count, bounds };
        Arc::new(Domain::new(columns, storage, label, DomainSource::Arguments))
    }

    #[test]
    fn a_null_row_has_no_features_and_no_label_whatever_becomes_of_the_labels() {
        for features in
            [dense(&[1.0; 6], 2), Features::bytes(&[1; 6], 2, 1.0), sparse(&[0, 2, 3, 4], &[0, 1, 0, 1], &[1.0; 4], 2)]
        {
            let data = data(features.clone(), classes(&[0, 1, 2], 3));
            let null = data.clone().null_row(1);
            assert!(null.is_null(1) && !null.is_null(0) && !null.is_null(2));
            assert_ne!(null.digest(), data.digest());
            let [before, after] = [&data, &null].map(|data| values(&data.clone().to_f32().unwrap()).to_vec());
            assert_eq!(after[2..4], [0.0, 0.0]);
            assert_eq!((&after[..2], &after[4..]), (&before[..2], &before[4..]));
            // Nulling is idempotent, and the same before and after labels change.
            assert_eq!(null.clone().null_row(1), null);
            let split = null.clone().one_against_rest(1).unwrap();
            assert_eq!(split, data.clone().one_against_rest(1).unwrap().null_row(1));
            let binary = split.into_binary().unwrap();
            assert!(binary.is_null(1) && binary.binary_targets().unwrap()[1].is_nan());
            let other = data.one_against_rest(1).unwrap().into_binary().unwrap().null_row(1);
            assert_eq!(binary.digest(), other.digest());
            assert!(null.select(1..2).is_null(0));
        }
        let nan = f32::from_bits(0xffc1_2345);
        let data = data(dense(&[1.0; 2], 1), Labels::Values(vec![nan, 2.0]));
        assert!(data.is_null(0) && !data.is_null(1));
        let Labels::Values(values) = data.labels() else { panic!("values") };
        assert_eq!(values[0].to_bits(), NULL_TARGET.to_bits());
    }

    #[test]
    fn a_domain_stays_with_its_rows_and_bounds_them() {
        let names = || Label::Classes(["a", "b", "c"].map(str::to_owned).to_vec());
        let rows = data(dense(&[0.5; 8], 4), classes(&[0, 2], 3));
        let two = Label::Classes(vec!["a".into(), "b".into()]);
        let number = Label::Number(Bounds::new(0.0, 1.0).unwrap());
        for (domain, part) in [
            (domain(3, Storage::Dense, names()), "3 features"),
            (domain(4, Storage::Sparse, names()), "sparse rows"),
            (domain(4, Storage::Dense, two), "2 classes"),
            (domain(4, Storage::Dense, number), "real targets"),
        ] {
            let message = rows.clone().in_domain(domain).unwrap_err().explained(&witness());
            let holds = message.contains(part) && message.contains("mend the schema");
            assert!(holds, "{message}");
        }
        let bytes = data(Features::bytes(&[9; 8], 4, 1.0 / 255.0), classes(&[0, 2], 3));
        let data = rows.in_domain(domain(4, Storage::Dense, names())).unwrap();
        let bound = |data: &Dataset, norm| data.public_bound(norm).unwrap();
        assert!((bound(&data, Norm::L2) - 2.0).abs() < 1e-12 && (bound(&data, Norm::L1) - 4.0).abs() < 1e-12);
        let scaled = data.clone().scale_features(0.25).unwrap();
        assert!((0.5..0.500_001).contains(&bound(&scaled, Norm::L2)));
        assert!(bound(&data.clone().clip_features(Norm::L2, 1.0).unwrap(), Norm::L2) <= 1.0);
        let binary = data.one_against_rest(2).unwrap().into_binary().unwrap().select(0..1);
        let declared = binary.domain().unwrap();
        assert_eq!(declared.label, Label::Classes(vec!["not 2".into(), "2".into()]));
        let bytes = bytes.in_domain(domain(4, Storage::Bytes, names())).unwrap();
        assert!(bound(&bytes, Norm::L2) < 2.000_001);
        assert_eq!(bytes.to_f32().unwrap().domain().unwrap().storage, Storage::Dense);
    }

    #[test]
    fn rows_that_no_encoder_made_are_cut_into_their_domain() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let number = ColumnKind::Number { bounds: Bounds::new(0.0, 1.0).unwrap(), missing: None };
        let values = ["a", "b"].map(str::to_owned).to_vec();
        let category = ColumnKind::Category { values, other: Other::NullRow };
        let columns = Columns::Named(vec![column("number", number), column("category", category)]);
        let label = Label::Number(Bounds::new(0.0, 1.0).unwrap());
        let domain = Arc::new(Domain::new(columns, Storage::Dense, label, DomainSource::Arguments));
        let features = [[0.5, 1.0, 0.0], [3e38, 0.0, 1.0], [0.5, 1.0, 1.0], [0.5, 0.0, 0.0], [0.5, 0.5, 0.0]];
        let labels = Labels::Values(vec![0.25, 3e38, 0.0, 0.0, 0.0]);
        let data = data(dense(features.as_flattened(), 3), labels).in_domain(domain).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|row| data.is_null(row)), [false, false, true, true, true]);
        assert_eq!(self::values(&data)[..9], [0.5, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let Labels::Values(values) = data.labels() else { panic!("values") };
        assert_eq!(values[..2], [0.25, 1.0]);
        // Features times a factor are no ones any more, and stay.
        let scaled = data.scale_features(0.5).unwrap();
        let domain = scaled.domain().unwrap().clone();
        assert!(!scaled.in_domain(domain).unwrap().is_null(0));
    }

    #[test]
    fn scaling_keeps_bytes_and_carries_the_bound() {
        let bytes = data(Features::bytes(&[0, 100], 1, 1.0), classes(&[0, 1], 2));
        let scaled = bytes.scale_features(0.01).unwrap();
        assert_eq!(scaled.features(), &Features::bytes(&[0, 100], 1, 0.01));
        let data = data(dense(&[3.0, 4.0], 2), classes(&[0], 1));
        let data = data.clip_features(Norm::L2, 5.0).unwrap().scale_features(0.1).unwrap();
        let (norm, bound) = data.feature_bound.unwrap();
        assert!(norm == Norm::L2 && (0.5..0.500_001).contains(&bound));
        assert!((data.public_bound(Norm::L1).unwrap() - bound * 2f64.sqrt()).abs() < 1e-9);
        for factor in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = data.clone().scale_features(factor).unwrap_err().explained(&witness());
            assert!(error.contains("scaling factor"), "{error}");
        }
        let largest = data.clone().scale_features(f32::MAX).unwrap().scale_features(f32::MAX);
        assert_eq!(largest.unwrap().features(), &dense(&[f32::MAX; 2], 2));
        let error = data.clip_features(Norm::L1, 0.0).unwrap_err().explained(&witness());
        assert!(error.contains("feature bound is 0"), "{error}");
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
            let data = data(dense(&values, columns), classes(&[0], 1)).clip_features(norm, bound).unwrap();
            let clipped = self::values(&data);
            let exact = |row: &[f32]| match norm {
                Norm::L1 => row.iter().map(|&value| f64::from(value.abs())).sum::<f64>(),
                Norm::L2 => row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt(),
            };
            // The check itself rounds, by at most (d + 1)·2⁻⁵³ relative.
            prop_assert!(exact(clipped) <= bound * (1.0 + (columns + 1) as f64 * f64::EPSILON / 2.0));
            if exact(&values) <= bound * (1.0 - 1e-12) {
                prop_assert_eq!(clipped, &*values);
            }
        }
    }
}

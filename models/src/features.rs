//! Features that are functions of a row alone, in a domain of their own: scattering coefficients of images, random Fourier features, and
//! affine maps that follow from the private moments of the rows ([`moments`]).
//!
//! **Privacy.** A map reads one row, public numbers, what is released of moments, and nothing else, so that data sets that differ in a row have features that differ
//! in the same row, and a null row's are 0 as before. What is declared of the features are bounds that hold for every row, proven at
//! [`Scattering::normalize`] and below, and enforced: features are cut to them, and rows to the bound of their norm. Nothing is centred or
//! scaled by a statistic of rows but by released ones, whose noise is paid for.

pub mod moments;

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use rounds_algorithms::moments::{MomentSums, Moments};
use rounds_algorithms::problem::{
    Bounds, Buffer, Columns, Dataset, DatasetError, Domain, Features, Format, Label, Labels, Storage,
};
use rounds_kernels::features::{Norm, Rows};
use rounds_kernels::gemm::{Shape, multiply_add_f32};
use rounds_kernels::scattering::{Scattering, Workspace};
use serde::{Deserialize, Serialize};

use self::moments::{Basis, MomentMap, Released};
use crate::choices::Choices;
use crate::factorization_cache::memory_of_machine;
use crate::text::three_digits;

/// Rows that a thread maps at once.
const BLOCK: usize = 16;

/// The grid of features is 2⁻¹⁴ of their bound, and rounding moves them by half of that.
const HALF_STEP: f64 = 1.0 / 32_768.0;

/// Coefficients are cut to so many standard deviations of their group: few are greater, and those by little.
const MOST_DEVIATIONS: f64 = 8.0;

/// Bytes of a feature while a run has it: f32, and two planes of bytes.
const BYTES: f64 = 6.0;

/// A map from the features of a row to others. As text `NAME` or `NAME:KEY=VALUE,…`; after another one `OTHER+NAME:KEY=VALUE,…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FeatureMap {
    /// Scattering coefficients ([`Scattering`]) of images of `shape` (channels, rows, columns; of 784 columns one of 28 × 28, of 3,072 three
    /// of 32 × 32) with 2^`scales` pixels between two, [normalised](Scattering::normalize) and cut to ±8.
    Scattering {
        /// Channels, rows and columns of an image.
        shape: Option<[usize; 3]>,
        /// J.
        scales: usize,
    },
    /// Random Fourier features of the Gaussian kernel (Rahimi and Recht 2007): cos(⟨w_j, x⟩) for every j, then sin(⟨w_j, x⟩), w_j ~ N(0,
    /// I/bandwidth²) from a public seed.
    Fourier {
        /// Features of a row before.
        inputs: Option<usize>,
        /// Features, an even number.
        count: usize,
        /// The kernel is exp(−‖x − y‖²/(2·bandwidth²)).
        bandwidth: f64,
        /// The seed.
        seed: u64,
    },
    /// An affine map that follows from the private moments of the rows.
    Moments(MomentMap),
}

impl fmt::Display for FeatureMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scattering { shape, scales } => {
                formatter.write_str("scattering:")?;
                if let Some([channels, rows, columns]) = shape {
                    write!(formatter, "shape={channels}x{rows}x{columns},")?;
                }
                write!(formatter, "scales={scales}")
            }
            Self::Fourier { inputs, count, bandwidth, seed } => {
                formatter.write_str("fourier:")?;
                if let Some(inputs) = inputs {
                    write!(formatter, "inputs={inputs},")?;
                }
                write!(formatter, "count={count},bandwidth={bandwidth},seed={seed}")
            }
            Self::Moments(map) => map.fmt(formatter),
        }
    }
}

impl From<FeatureMap> for String {
    fn from(map: FeatureMap) -> Self {
        map.to_string()
    }
}

impl TryFrom<String> for FeatureMap {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for FeatureMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "scattering, scattering:shape=3x32x32,scales=2, fourier:count=2000,bandwidth=5,seed=1, whiten:power=0.25, \
                             pca:count=50, normalize, or one of the last three after one of the others: scattering+normalize";
        fn read<T: FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{value:?} is none of its values: {FORMS}"))
        }
        // A number may hold a plus.
        let chain = text.rsplit_once('+').filter(|(_, last)| last.starts_with(char::is_alphabetic));
        let (before, text) = chain.map_or((None, text), |(before, last)| (Some(before), last));
        let (name, keys) = text.split_once(':').unwrap_or((text, ""));
        let of_moments = |basis| Self::Moments(MomentMap::of(basis));
        let mut map = match name {
            "whiten" => of_moments(Basis::Whiten { power: 0.25 }),
            "pca" => of_moments(Basis::Pca { count: 50 }),
            "normalize" => of_moments(Basis::Normalize),
            "scattering" => Self::Scattering { shape: None, scales: 2 },
            "fourier" => Self::Fourier { inputs: None, count: 2000, bandwidth: 5.0, seed: 1 },
            _ => return Err(format!("no features are called so; give {FORMS}")),
        };
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            let (key, value) = key.split_once('=').unwrap_or((key, ""));
            match (&mut map, key) {
                (Self::Scattering { shape, .. }, "shape") => {
                    let sides = value.split('x').map(read).collect::<Result<Vec<usize>, _>>()?;
                    *shape = Some(match sides[..] {
                        [rows, columns] => [1, rows, columns],
                        [channels, rows, columns] => [channels, rows, columns],
                        _ => return read(value),
                    });
                }
                (Self::Scattering { scales, .. }, "scales") => *scales = read(value)?,
                (Self::Fourier { inputs, .. }, "inputs") => *inputs = Some(read(value)?),
                (Self::Fourier { count, .. }, "count") => *count = read(value)?,
                (Self::Fourier { bandwidth, .. }, "bandwidth") => *bandwidth = read(value)?,
                (Self::Fourier { seed, .. }, "seed") => *seed = read(value)?,
                (Self::Moments(MomentMap { inputs, .. }), "inputs") => *inputs = Some(read(value)?),
                (Self::Moments(MomentMap { share, .. }), "share") => *share = read(value)?,
                (Self::Moments(MomentMap { norm, .. }), "norm") => *norm = Some(read(value)?),
                (Self::Moments(MomentMap { basis: Basis::Whiten { power }, .. }), "power") => *power = read(value)?,
                (Self::Moments(MomentMap { basis: Basis::Pca { count }, .. }), "count") => *count = read(value)?,
                _ => return Err(format!("{name} has no key {key:?}; give {FORMS}")),
            }
        }
        if let Some(before) = before {
            match (before.parse()?, &mut map) {
                (Self::Moments(_), _) => {
                    return Err(format!("moments are released once, of what stands before: {FORMS}"));
                }
                (before, Self::Moments(map)) => map.before = Some(Box::new(before)),
                _ => return Err(format!("{name} follows no other features: {FORMS}")),
            }
        }
        Ok(map)
    }
}

impl FeatureMap {
    /// Features of a row before, if they are known.
    pub fn inputs(&self) -> Option<usize> {
        match self {
            Self::Scattering { shape, .. } => shape.map(|[channels, rows, columns]| channels * rows * columns),
            Self::Fourier { inputs, .. } => *inputs,
            Self::Moments(map) => map.before.as_ref().map_or(map.inputs, |before| before.inputs()),
        }
    }

    /// The map that follows from the private moments of the rows, if it is one.
    pub fn moments(&self) -> Option<&MomentMap> {
        match self {
            Self::Moments(map) => Some(map),
            _ => None,
        }
    }

    /// The map of rows of so many features.
    ///
    /// # Errors
    /// Rows that it has no features of: why, and what to give instead.
    pub fn on(&self, inputs: usize) -> Result<Mapper, String> {
        let refuse = |problem: String| Err(format!("`features {self}`: {problem}"));
        match *self {
            Self::Scattering { shape, scales } => {
                let known = match inputs {
                    784 => Some([1, 28, 28]),
                    3072 => Some([3, 32, 32]),
                    _ => None,
                };
                let Some(shape) = shape.or(known) else {
                    return refuse(format!(
                        "rows have {inputs} features; give the shape of their images, shape=ROWSxCOLUMNS"
                    ));
                };
                let [channels, rows, columns] = shape;
                if channels.checked_mul(rows).and_then(|part| part.checked_mul(columns)) != Some(inputs) {
                    let found = format!("{channels} x {rows} x {columns}");
                    return refuse(format!(
                        "rows have {inputs} features, and images of {found} have another number of pixels"
                    ));
                }
                let Some(scattering) = Scattering::new([rows, columns], scales) else {
                    return refuse(format!(
                        "images of {rows} x {columns} pixels have no {scales} scales: each has sides of at least 2^scales"
                    ));
                };
                let features = channels * scattering.coefficients();
                Ok(Mapper {
                    map: Self::Scattering { shape: Some(shape), scales },
                    inputs,
                    features,
                    bound: MOST_DEVIATIONS,
                    norm: (features as f64).sqrt(),
                    transform: Transform::Scattering(scattering),
                })
            }
            Self::Fourier { inputs: given, count, bandwidth, seed } => {
                if given.is_some_and(|given| given != inputs) {
                    return refuse(format!("rows have {inputs} features"));
                }
                // Angles are finite.
                if count < 2 || count % 2 == 1 || !(1e-30..=1e30).contains(&bandwidth) {
                    return refuse(
                        "an even count of at least 2 and a bandwidth from 1e-30 to 1e30 are needed".to_owned(),
                    );
                }
                // Before they are made.
                let directions = 4.0 * inputs as f64 * (count / 2) as f64;
                check_memory(directions, || format!("`features {self}`: its directions take"))
                    .map_err(|problem| problem + "; take fewer")?;
                let directions = move || {
                    let mut choices = Choices::new(seed);
                    (0..inputs * (count / 2)).map(|_| (choices.normal() / bandwidth) as f32).collect()
                };
                Ok(Mapper {
                    map: Self::Fourier { inputs: Some(inputs), count, bandwidth, seed },
                    inputs,
                    features: count,
                    bound: 1.0,
                    norm: (count as f64 / 2.0).sqrt(),
                    transform: Transform::Fourier(LazyLock::new(Box::new(directions))),
                })
            }
            Self::Moments(ref map) => {
                let before = map.before.as_ref().map(|before| before.on(inputs)).transpose()?;
                if before.is_none() && map.inputs.is_some_and(|given| given != inputs) {
                    return refuse(format!("rows have {inputs} features"));
                }
                let columns = before.as_ref().map_or(inputs, Mapper::features);
                let features = map.features(columns).map_err(|problem| format!("`features {self}`: {problem}"))?;
                Ok(Mapper {
                    map: Self::Moments(MomentMap {
                        before: before.as_ref().map(|before| Box::new(before.map.clone())),
                        inputs: before.is_none().then_some(inputs),
                        ..map.clone()
                    }),
                    inputs,
                    features,
                    bound: 1.0,
                    norm: 1.0,
                    transform: Transform::Moments { before: before.map(Box::new), columns, released: None },
                })
            }
        }
    }
}

/// Refuses more bytes than the machine has, with both numbers. What is free would tell of rows that were read.
pub(crate) fn check_memory(needed: f64, taken: impl FnOnce() -> String) -> Result<(), String> {
    let present = memory_of_machine();
    let gib = |bytes: f64| three_digits(bytes / f64::from(1 << 30));
    let refusal = || format!("{} {} GiB, and this machine has {}", taken(), gib(needed), gib(present));
    if needed <= present.min(MOST_BYTES) { Ok(()) } else { Err(refusal()) }
}

/// More bytes than any machine has: products of sizes below it do not overflow.
const MOST_BYTES: f64 = (1_u64 << 50) as f64;

/// A map for rows of a number of features, with its public bounds.
pub struct Mapper {
    map: FeatureMap,
    inputs: usize,
    features: usize,
    /// No feature is greater: 8 of a coefficient, which is cut to it; 1 of a cosine.
    bound: f64,
    /// No row is longer: √d of d coefficients; of cosines and sines of D/2 angles √(D/2).
    norm: f64,
    transform: Transform,
}

enum Transform {
    Scattering(Scattering),
    /// Directions, `inputs × count/2`, made for the first row: what does not fit into memory is refused before.
    Fourier(LazyLock<Vec<f32>, Box<dyn FnOnce() -> Vec<f32> + Send>>),
    /// What the rows are mapped by first, features then, and the map, once it is released.
    Moments {
        before: Option<Box<Mapper>>,
        columns: usize,
        released: Option<Released>,
    },
}

/// A thread's memory.
struct Memory {
    rows: Vec<f32>,
    products: Vec<f32>,
    workspace: Option<Workspace>,
}

impl Mapper {
    /// The map with all that the rows decide of it.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Features of a row before.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Features of the rows that [`fill`](Self::fill) reads.
    fn columns(&self) -> usize {
        if let Transform::Moments { columns, .. } = self.transform { columns } else { self.inputs }
    }

    /// The same map with what was released for it.
    ///
    /// # Errors
    /// Another number of numbers than it has.
    pub fn with_released(mut self, matrix: Option<&Released>) -> Result<Self, String> {
        let numbers = self.map.moments().map(|map| map.numbers(self.columns()));
        if matrix.map(|matrix| matrix.len()) != numbers.filter(|_| matrix.is_some()) {
            return Err(format!("`features {}`: its matrix has another number of values", self.map));
        }
        if let Transform::Moments { released, .. } = &mut self.transform {
            *released = matrix.cloned();
        }
        Ok(self)
    }

    /// The same map without what is released, as a plan needs it: of 0 alone.
    pub(crate) fn planned(self) -> Self {
        let blank = self.map.moments().map(|map| vec![0.0; map.numbers(self.columns())].into());
        self.with_released(blank.as_ref()).expect("as many numbers")
    }

    /// Numbers of the matrix that it follows from.
    pub(crate) fn numbers(&self) -> usize {
        self.map.moments().map_or(0, |map| map.numbers(self.columns()))
    }

    /// The sums that a release for this map is made of, over [prepared](Self::prepared) rows.
    ///
    /// # Errors
    /// Rows whose moments are not released, with the reason; a map without a release.
    pub(crate) fn sums(&self, dataset: &Dataset) -> Result<MomentSums, String> {
        let map = self.map.moments().ok_or("it follows from no moments")?;
        MomentSums::of(dataset, map.form()).map_err(|reason| format!("`features {}`: {reason}", self.map))
    }

    /// What follows for this map from released moments.
    ///
    /// # Errors
    /// Moments without a decomposition: a function of released values.
    pub(crate) fn following(&self, moments: &Moments) -> Result<Released, String> {
        let matrix = self.map.moments().and_then(|map| map.matrix(moments));
        matrix.ok_or_else(|| format!("`features {}`: its noisy moments have no eigenvectors; take normalize", self.map))
    }

    /// Features of a row.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The bound on the L2 norm of a row of features as they are [written](Self::fill), with what rounding them to their grid and
    /// arithmetic in f32 may add.
    pub fn norm_bound(&self) -> f64 {
        self.norm / self.bound * (1.0 + 2.0 * HALF_STEP) + HALF_STEP * (self.features as f64).sqrt()
    }

    /// The domain of the features of rows of a domain.
    pub fn domain(&self, of: &Domain) -> Domain {
        let bounds = Bounds::new(-self.bound, self.bound).expect("a bound above 0");
        Domain {
            columns: Columns::Matrix { count: self.features, bounds },
            storage: Storage::Dense,
            label_column: None,
            dropped: Vec::new(),
            format: None,
            ..of.clone()
        }
    }

    /// Checks that the features of so many rows, a public number, fit into the memory of the machine.
    ///
    /// # Errors
    /// Both numbers. A system that does not tell its memory refuses nothing.
    pub fn check_memory(&self, rows: usize) -> Result<(), String> {
        let taken = || format!("`features {}`: {rows} rows of {} features take", self.map, self.features);
        let before = if self.columns() == self.inputs { 0 } else { 4 * self.columns() };
        check_memory(rows as f64 * (BYTES * self.features as f64 + before as f64), taken)
            .map_err(|problem| problem + "; take fewer rows or features")
    }

    /// The data set with these features instead of its own.
    ///
    /// # Errors
    /// Rows without a domain whose features are not finite; a map that is not released yet.
    ///
    /// # Panics
    /// Rows with another number of features.
    pub fn apply(&self, dataset: Dataset) -> Result<Dataset, DatasetError> {
        self.finished(self.prepared(dataset)?)
    }

    /// The rows whose moments are released, of a map that follows from them; else the rows as they are.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(crate) fn prepared(&self, mut dataset: Dataset) -> Result<Dataset, DatasetError> {
        if let Transform::Moments { before: Some(before), .. } = &self.transform {
            dataset = before.apply(dataset)?;
        }
        match self.map.moments().and_then(|map| map.norm) {
            Some(norm) => dataset.clip_features(Norm::L2, norm),
            None => Ok(dataset),
        }
    }

    /// [`apply`](Self::apply) to prepared rows.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn finished(&self, dataset: Dataset) -> Result<Dataset, DatasetError> {
        let is_released = !matches!(self.transform, Transform::Moments { released: None, .. });
        if !is_released {
            let problem =
                format!("`features {}`: a run releases what it is made of (`rounds train --features`)", self.map);
            return Err(DatasetError::Argument { name: dataset.name().to_owned(), problem });
        }
        let domain = dataset.domain().map(|domain| Arc::new(self.domain(domain)));
        let mut values = Buffer::zeroed(dataset.len() * self.features);
        self.fill(dataset.rows(), 0, &mut values);
        let mapped = dataset.with_features(Features::f32(values, self.features), domain)?;
        let mapped = mapped.clip_features(Norm::L2, self.norm_bound())?;
        if self.map.moments().is_some() { mapped.scale_features(moments::REACH) } else { Ok(mapped) }
    }

    /// Writes the features of rows from `first` on, in units of their bound: all in [−1, 1].
    ///
    /// # Panics
    /// Rows that are not there or have other features; less than whole rows to write.
    pub fn fill(&self, rows: Rows<'_>, first: usize, out: &mut [f32]) {
        assert!(rows.columns() == self.columns() && out.len().is_multiple_of(self.features), "rows of the map");
        let memory = || Memory {
            rows: vec![0.0; BLOCK * self.columns()],
            products: Vec::new(),
            workspace: match &self.transform {
                Transform::Scattering(scattering) => Some(scattering.workspace()),
                Transform::Fourier(_) | Transform::Moments { .. } => None,
            },
        };
        out.par_chunks_mut(BLOCK * self.features).enumerate().for_each_init(memory, |memory, (block, out)| {
            let count = out.len() / self.features;
            for (row, values) in memory.rows.chunks_exact_mut(self.columns()).take(count).enumerate() {
                rows.widen(first + block * BLOCK + row, values);
            }
            self.block(count, memory, out);
        });
    }

    /// The features of `count` rows in memory.
    fn block(&self, count: usize, Memory { rows, products, workspace }: &mut Memory, out: &mut [f32]) {
        let rows = &rows[..count * self.columns()];
        match (&self.transform, workspace) {
            (Transform::Scattering(scattering), Some(workspace)) => {
                let images = self.features / scattering.coefficients();
                let pixels = self.inputs / images;
                let written = out.chunks_mut(BLOCK * scattering.coefficients());
                for (images, out) in rows.chunks(BLOCK * pixels).zip(written) {
                    scattering.transform(images, out, workspace);
                }
                let factor = (1.0 / self.bound) as f32;
                for row in out.chunks_exact_mut(self.features) {
                    scattering.normalize(row);
                    row.iter_mut().for_each(|value| *value = (*value * factor).clamp(-1.0, 1.0));
                }
            }
            (Transform::Fourier(directions), _) => {
                let half = self.features / 2;
                products.clear();
                products.resize(count * half, 0.0);
                multiply_add_f32(Shape::packed(count, self.inputs, half), rows, directions, products);
                for (out, angles) in out.chunks_exact_mut(self.features).zip(products.chunks_exact(half)) {
                    let (cosines, sines) = out.split_at_mut(half);
                    for ((cosine, sine), angle) in cosines.iter_mut().zip(sines).zip(angles) {
                        (*sine, *cosine) = angle.sin_cos();
                    }
                }
            }
            (Transform::Moments { columns, released, .. }, _) => {
                let released = released.as_ref().expect("a map that is released");
                let (matrix, offsets) = released.split_at(released.len() - self.features);
                out.chunks_exact_mut(self.features).for_each(|row| row.copy_from_slice(offsets));
                if matrix.len() == offsets.len() {
                    for (out, row) in out.chunks_exact_mut(self.features).zip(rows.chunks_exact(*columns)) {
                        out.iter_mut().zip(row).zip(matrix).for_each(|((out, value), factor)| *out += value * factor);
                    }
                } else {
                    multiply_add_f32(Shape::packed(count, *columns, self.features), rows, matrix, out);
                }
            }
            (Transform::Scattering(_), None) => unreachable!("memory is made for the transform"),
        }
    }
}

/// The greatest integer of features in files, which stands for their bound.
const GREATEST: f64 = 16_384.0;

impl Mapper {
    /// The domain of the files that [`write`](Self::write) makes, for their schema.
    pub fn domain_of_files(&self, of: &Domain) -> Domain {
        let of_features = |bound: f64| Bounds::new(-bound, bound).expect("a bound above 0");
        let columns = Columns::Matrix { count: self.features, bounds: of_features(GREATEST) };
        let label = match &of.label {
            Label::Number(_) => Label::Number(of_features(1.0)),
            classes @ Label::Classes(_) => classes.clone(),
        };
        Domain { columns, label, format: Some(Format::Npy), ..self.domain(of) }
    }

    /// Writes the features of a data set and its labels as two NPY arrays: features as integers of 16 bits, 16,384 for
    /// their bound, the grid on which a run has them; classes as words, numbers as f32 in [−1, 1]. A null row has zeros, and no label. `told`
    /// hears of rows that are written, and may end it.
    ///
    /// # Errors
    /// Files that cannot be written; that of `told`.
    pub fn write(
        &self,
        dataset: &Dataset,
        [features, labels]: [File; 2],
        told: &mut dyn FnMut(usize) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let rows = dataset.len();
        let begin = |file: File, element: &str, shape: &str| {
            let mut file = BufWriter::new(file);
            let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({shape}), }}");
            // Values begin at a multiple of 64 bytes.
            let width = (10 + header.len() + 1).next_multiple_of(64) - 10;
            file.write_all(b"\x93NUMPY\x01\x00")?;
            file.write_all(&(width as u16).to_le_bytes())?;
            file.write_all(format!("{header:<padded$}\n", padded = width - 1).as_bytes())?;
            Ok::<_, std::io::Error>(file)
        };
        let mut file = begin(features, "<i2", &format!("{rows}, {}", self.features))?;
        let mut values = vec![0.0; rows.min(16 * BLOCK) * self.features];
        for first in (0..rows).step_by(16 * BLOCK) {
            let count = (rows - first).min(16 * BLOCK);
            let values = &mut values[..count * self.features];
            self.fill(dataset.rows(), first, values);
            for (row, values) in values.chunks_exact(self.features).enumerate() {
                let factor = if dataset.is_null(first + row) { 0.0 } else { GREATEST as f32 };
                let integer = |value: &f32| (value * factor).round_ties_even().clamp(-16_384.0, 16_384.0) as i16;
                let bytes: Vec<u8> = values.iter().flat_map(|value| integer(value).to_le_bytes()).collect();
                file.write_all(&bytes)?;
            }
            told(count)?;
        }
        file.flush()?;
        let mut file = match dataset.labels() {
            Labels::Values(values) => {
                let mut file = begin(labels, "<f4", &format!("{rows},"))?;
                values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))?;
                file
            }
            classes @ Labels::Classes { values, .. } => {
                let mut names = classes.class_names().unwrap_or_default();
                if let Some(Label::Classes(declared)) = dataset.domain().map(|domain| &domain.label) {
                    names.clone_from(declared);
                }
                let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(1);
                let mut file = begin(labels, &format!("<U{width}"), &format!("{rows},"))?;
                for &class in values {
                    let letters = names.get(class as usize).into_iter().flat_map(|name| name.chars());
                    for letter in letters.map(u32::from).chain(std::iter::repeat(0)).take(width) {
                        file.write_all(&letter.to_le_bytes())?;
                    }
                }
                file
            }
        };
        file.flush()
    }
}

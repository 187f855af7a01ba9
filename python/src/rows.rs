//! Declared domains, and rows of arrays and of columns encoded into them.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use rounds_algorithms::hexadecimal;
use rounds_algorithms::oracle::Oracle;
use rounds_algorithms::privacy::{Adjacency, Sampling};
use rounds_algorithms::problem::encoding::NULL_LABEL;
use rounds_algorithms::problem::{
    self, BYTE_SCALE, Bounds, Buffer, ByteRows, ColumnKind, Columns, Dataset, DomainSource, Encoder, Features, Label,
    Labels, Problem, Relation, SparseMatrix, Storage, UnitDeclaration, UnitIds,
};
use rounds_algorithms::sampling::Sampler;
use rounds_kernels::linear::{Clip, Reduction};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use rounds_models::data::{Declaration, declare, schema};

use crate::{detached, refused};

/// A declared domain: columns, bounds, label, relation and unit.
#[pyclass(frozen, module = "rounds")]
pub(crate) struct Domain(pub(crate) Arc<problem::Domain>);

#[pymethods]
impl Domain {
    /// The domain that the TOML text of a schema declares; `place` is its name in messages.
    #[staticmethod]
    #[pyo3(signature = (text, place = "schema"))]
    fn parse(text: &str, place: &str) -> PyResult<Self> {
        schema::parse(place, text).map(|domain| Self(Arc::new(domain))).map_err(|error| refused(&error))
    }

    /// The domain of a schema file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        schema::read(&path).map(|domain| Self(Arc::new(domain))).map_err(|error| refused(&error))
    }

    /// The domain of a named data set, or that of the schema beside a file.
    #[staticmethod]
    #[pyo3(signature = (name, data_dir = None))]
    fn of(name: &str, data_dir: Option<PathBuf>) -> PyResult<Self> {
        let declared = declare(name, data_dir.as_deref(), &Declaration::default()).map_err(|error| refused(&error))?;
        let none =
            || PyValueError::new_err(format!("{name}: nothing declares its domain; put a schema.toml beside it"));
        declared.map(Self).ok_or_else(none)
    }

    /// Columns without names, all with the same bounds.
    #[staticmethod]
    #[pyo3(signature = (columns, bounds, *, classes = None, label_bounds = None, storage = "dense", relation = "zero-out", public_rows = None, drafted = None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
    fn matrix(
        columns: usize,
        bounds: (f64, f64),
        classes: Option<Vec<Bound<'_, PyAny>>>,
        label_bounds: Option<(f64, f64)>,
        storage: &str,
        relation: &str,
        public_rows: Option<usize>,
        drafted: Option<String>,
    ) -> PyResult<Self> {
        let pair = |(lo, hi)| Bounds::new(lo, hi).map_err(|error| refused(&error));
        let label = match (classes, label_bounds) {
            (Some(classes), None) => Label::Classes(classes.iter().map(class).collect::<PyResult<_>>()?),
            (None, Some(bounds)) => Label::Number(pair(bounds)?),
            _ => return Err(PyValueError::new_err("a label has either `classes` or `label_bounds`")),
        };
        let storage: Storage = storage.parse().map_err(|error| refused(&error))?;
        let source = drafted.map_or(DomainSource::Arguments, DomainSource::Draft);
        let columns = Columns::Matrix { count: columns, bounds: pair(bounds)? };
        let mut domain = problem::Domain::new(columns, storage, label, source);
        domain.relation = match (relation.parse::<Adjacency>().map_err(|error| refused(&error))?, public_rows) {
            (Adjacency::AddRemove, Some(public_rows)) => Relation::AddRemove { public_rows },
            (Adjacency::ZeroOut, None) => Relation::ZeroOut,
            (Adjacency::ReplaceOne, None) => Relation::ReplaceOne,
            _ => return Err(PyValueError::new_err("`public_rows` belongs to the relation add-remove, which needs it")),
        };
        domain.check().map_err(|error| refused(&error))?;
        Ok(Self(Arc::new(domain)))
    }

    /// The same domain, whose unit of privacy is that of the ids in a column, or of those that rows come with.
    #[pyo3(signature = (*, column = None, reduce = "mean", most_rows = None))]
    fn by_unit(&self, column: Option<String>, reduce: &str, most_rows: Option<usize>) -> PyResult<Self> {
        let reduction = match reduce {
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            other => return Err(PyValueError::new_err(format!("`reduce` is mean or sum, not {other:?}"))),
        };
        let mut domain = (*self.0).clone();
        let column = column.or_else(|| domain.unit.take().and_then(|unit| unit.column));
        domain.unit = Some(UnitDeclaration { column, reduction, most_rows });
        domain.check().map_err(|error| refused(&error))?;
        Ok(Self(Arc::new(domain)))
    }

    /// Names and kinds of the columns, none of columns without names.
    #[getter]
    fn columns(&self) -> Option<Vec<(String, &'static str)>> {
        let Columns::Named(columns) = &self.0.columns else { return None };
        let kind = |kind: &ColumnKind| if matches!(kind, ColumnKind::Number { .. }) { "number" } else { "category" };
        Some(columns.iter().map(|column| (column.name.clone(), kind(&column.kind))).collect())
    }

    /// Names of the features that a row has once it is encoded.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        match &self.0.columns {
            Columns::Matrix { count, .. } => (0..*count).map(|column| format!("x{column}")).collect(),
            Columns::Named(columns) => {
                let names = columns.iter().flat_map(|column| match &column.kind {
                    ColumnKind::Number { .. } => vec![column.name.clone()],
                    ColumnKind::Category { values, .. } => {
                        values.iter().map(|value| format!("{}={value}", column.name)).collect()
                    }
                });
                names.collect()
            }
        }
    }

    /// Offset and factor by which a raw value becomes a feature, of columns without names: feature = offset + factor·value.
    #[getter]
    fn affine(&self) -> Option<(f64, f64)> {
        let Columns::Matrix { bounds, .. } = &self.0.columns else { return None };
        Some(match self.0.storage {
            Storage::Bytes => (0.0, f64::from(BYTE_SCALE)),
            _ if bounds.lo() <= 0.0 && 0.0 <= bounds.hi() => (0.0, 1.0 / bounds.magnitude()),
            _ => {
                let factor = 2.0 / (bounds.hi() - bounds.lo());
                (-1.0 - factor * bounds.lo(), factor)
            }
        })
    }

    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        if let Label::Classes(names) = &self.0.label { Some(names.clone()) } else { None }
    }

    #[getter]
    fn label_bounds(&self) -> Option<(f64, f64)> {
        if let Label::Number(bounds) = &self.0.label { Some((bounds.lo(), bounds.hi())) } else { None }
    }

    #[getter]
    fn label_column(&self) -> Option<String> {
        self.0.label_column.clone()
    }

    #[getter]
    fn relation(&self) -> String {
        self.0.relation.adjacency().to_string()
    }

    /// Column with the ids of units; an empty name where ids come beside the rows.
    #[getter]
    fn unit(&self) -> Option<String> {
        self.0.unit.as_ref().map(|unit| unit.column.clone().unwrap_or_default())
    }

    #[getter]
    fn storage(&self) -> &'static str {
        self.0.storage.name()
    }

    #[getter]
    fn drafted(&self) -> bool {
        self.0.is_draft()
    }

    #[getter]
    fn sha256(&self) -> String {
        hexadecimal(&self.0.digest())
    }

    /// The domain of a schema's text, with the origin that statements name.
    #[staticmethod]
    fn restored(text: &str, source: &str) -> PyResult<Self> {
        let domain = schema::parse("schema", text).map_err(|error| refused(&error))?;
        let source = DomainSource::stated(source).unwrap_or(domain.source.clone());
        Ok(Self(Arc::new(problem::Domain { source, ..domain })))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let restore = slf.py().import("rounds._core")?.getattr("restore_domain")?;
        Ok((restore, (slf.get().toml(), slf.get().source())))
    }

    fn __repr__(&self) -> String {
        let label = match &self.0.label {
            Label::Classes(classes) => format!("{} classes", classes.len()),
            Label::Number(bounds) => format!("a label in [{}, {}]", bounds.lo(), bounds.hi()),
        };
        format!("<rounds.Domain of {} features and {label}, {}>", self.0.features(), self.0.source)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// The origin of the domain, as statements name it.
    #[getter]
    fn source(&self) -> String {
        self.0.source.to_string()
    }

    /// The domain as the TOML text of a schema.
    fn toml(&self) -> String {
        schema::write(&self.0, &Default::default())
    }
}

/// Rows with their labels, encoded into their domain if they have one.
#[pyclass(frozen, module = "rounds")]
pub(crate) struct Rows(pub(crate) Dataset);

/// A column or labels: numbers, or the different words with each row's index among them, −1 for none.
#[derive(FromPyObject)]
pub(crate) enum GivenColumn<'py> {
    Words(Vec<String>, PyReadonlyArray1<'py, i64>),
    Numbers(PyReadonlyArray1<'py, f64>),
}

/// A matrix: dense rows of f32 or bytes in C order, or the offsets, columns and values of sparse rows with their number of columns.
#[derive(FromPyObject)]
pub(crate) enum GivenMatrix<'py> {
    Floats(PyReadonlyArray2<'py, f32>),
    Bytes(PyReadonlyArray2<'py, u8>),
    Sparse(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f32>, usize),
}

/// The bytes of a NumPy array, which lives as long as this does. The package says that nobody changes rows during a call.
struct ArrayBytes {
    _array: Py<PyAny>,
    start: *const u8,
    len: usize,
}

// SAFETY: the memory is only read, and the array is dropped by whichever thread, which Python's own reference counting allows.
unsafe impl Send for ArrayBytes {}
// SAFETY: as above.
unsafe impl Sync for ArrayBytes {}

impl AsRef<[u8]> for ArrayBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a contiguous array of `len` bytes, which `_array` keeps alive.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

fn shared<T: numpy::Element>(array: &PyReadonlyArray2<'_, T>) -> PyResult<Arc<ArrayBytes>> {
    let slice =
        array.as_slice().map_err(|_| PyValueError::new_err("rows in C order are needed (numpy.ascontiguousarray)"))?;
    let (start, len) = (slice.as_ptr().cast(), size_of_val(slice));
    Ok(Arc::new(ArrayBytes { _array: array.as_any().clone().unbind(), start, len }))
}

/// Features where the array has them; sparse ones are copied.
fn features(matrix: &GivenMatrix<'_>) -> PyResult<Features> {
    match matrix {
        GivenMatrix::Floats(values) => {
            let columns = values.shape()[1];
            let values = Buffer::shared(shared(values)?)
                .ok_or_else(|| PyValueError::new_err("values of f32 are not aligned"))?;
            Ok(Features::F32 { values, columns })
        }
        GivenMatrix::Bytes(values) => {
            let columns = values.shape()[1];
            let rows = ByteRows::shared(shared(values)?, columns);
            rows.map(|rows| Features::U8 { rows, scale: BYTE_SCALE })
                .ok_or_else(|| PyValueError::new_err("rows have no columns"))
        }
        GivenMatrix::Sparse(offsets, indices, values, columns) => {
            let (offsets, indices) = (offsets.as_slice()?, indices.as_slice()?);
            let unfit = |_| PyValueError::new_err("indices of sparse rows lie between 0 and 2^32 − 1");
            let offsets =
                offsets.iter().map(|&offset| usize::try_from(offset)).collect::<Result<_, _>>().map_err(unfit)?;
            let indices = indices.iter().map(|&index| u32::try_from(index)).collect::<Result<_, _>>().map_err(unfit)?;
            let values = values.as_slice()?.to_vec();
            Ok(Features::Sparse(SparseMatrix { offsets, indices, values, columns: *columns }))
        }
    }
}

/// Codes of labels in a domain; any class for rows without them.
fn codes(labels: Option<&GivenColumn<'_>>, rows: usize, encoder: &Encoder<'_>) -> PyResult<Vec<u32>> {
    match labels {
        None => Ok(vec![0; rows]),
        Some(GivenColumn::Words(words, indices)) => {
            let codes: Vec<u32> = words.iter().map(|word| encoder.label(word.as_bytes())).collect();
            let missing = encoder.label(b"");
            let code = |&index: &i64| {
                usize::try_from(index).ok().and_then(|index| codes.get(index)).copied().unwrap_or(missing)
            };
            Ok(indices.as_slice()?.iter().map(code).collect())
        }
        Some(GivenColumn::Numbers(values)) => {
            Ok(values.as_slice()?.iter().map(|&value| encoder.label_number(value)).collect())
        }
    }
}

/// The word of a class: a text, or a whole number as labels have it.
fn class(given: &Bound<'_, PyAny>) -> PyResult<String> {
    if given.is_instance_of::<PyString>() {
        return given.extract();
    }
    if !given.is_instance_of::<PyBool>()
        && let Ok(number) = given.call_method0("__index__")
    {
        return number.str()?.extract();
    }
    let message = "`classes` are words or whole numbers, as the labels have them: give classes=[\"no\", \"yes\"] or classes=[0, 1]";
    Err(PyTypeError::new_err(message))
}

/// Labels that nothing declares: words are classes, numbers are targets.
fn undeclared(labels: Option<&GivenColumn<'_>>, rows: usize) -> PyResult<Labels> {
    Ok(match labels {
        None => Labels::Values(vec![0.0; rows]),
        Some(GivenColumn::Words(words, indices)) => {
            let values = indices.as_slice()?.iter().map(|&index| u32::try_from(index).unwrap_or(u32::MAX)).collect();
            Labels::Classes { values, classes: words.len(), names: Some(words.clone()) }
        }
        Some(GivenColumn::Numbers(values)) => {
            Labels::Values(values.as_slice()?.iter().map(|&value| value as f32).collect())
        }
    })
}

/// A data set of encoded rows, by unit if ids are given.
fn dataset(
    name: &str,
    (features, labels): (Features, Labels),
    domain: Option<&Arc<problem::Domain>>,
    units: Option<&[String]>,
) -> Result<Dataset, problem::DatasetError> {
    let mut rows = Dataset::new(name, features, labels)?;
    if let Some(domain) = domain {
        rows = rows.in_domain(domain.clone())?;
    }
    match (units, domain.and_then(|domain| domain.unit.clone())) {
        (Some(ids), Some(unit)) => rows.by_unit(&UnitIds::of_values(ids.iter().map(String::as_str)), unit),
        _ => Ok(rows),
    }
}

/// The error of rows: their own fault is told where the caller says that nothing is claimed, and else withheld.
fn of_rows(error: &problem::DatasetError, explain: bool) -> PyErr {
    struct Explains;
    impl problem::Claims for Explains {
        fn claims(&self) -> bool {
            false
        }
    }
    match problem::NoClaim::of(&Explains).filter(|_| explain) {
        Some(witness) => PyValueError::new_err(error.explained(&witness)),
        None => refused(error),
    }
}

impl Rows {
    fn finished(
        py: Python<'_>,
        name: &str,
        encoded: (Features, Labels),
        domain: Option<Arc<problem::Domain>>,
        (units, explain): (Option<Vec<String>>, bool),
    ) -> PyResult<Self> {
        if encoded.0.is_empty() {
            return Err(PyValueError::new_err(format!("{name}: there are no rows; give one at least")));
        }
        let rows = detached(py, || dataset(name, encoded, domain.as_ref(), units.as_deref()))?;
        rows.map(Self).map_err(|error| of_rows(&error, explain))
    }
}

#[pymethods]
impl Rows {
    /// Rows of a matrix. Bytes are read where the array has them, if the domain keeps bytes or there is none.
    #[staticmethod]
    #[pyo3(signature = (name, matrix, labels = None, domain = None, units = None, explain = false))]
    fn of_matrix(
        py: Python<'_>,
        name: &str,
        matrix: GivenMatrix<'_>,
        labels: Option<GivenColumn<'_>>,
        domain: Option<&Domain>,
        units: Option<Vec<String>>,
        explain: bool,
    ) -> PyResult<Self> {
        let raw = features(&matrix)?;
        let rows = raw.len();
        let domain = domain.map(|domain| domain.0.clone());
        let encoded = match &domain {
            None => (raw, undeclared(labels.as_ref(), rows)?),
            Some(domain) => {
                let Columns::Matrix { count, .. } = domain.columns else {
                    return Err(PyTypeError::new_err("the domain has named columns: give a data frame with these"));
                };
                if count != raw.columns() {
                    return Err(PyValueError::new_err(format!(
                        "X has {} features, but its domain declares {count}",
                        raw.columns()
                    )));
                }
                let is_sparse = |storage| storage == Storage::Sparse;
                if is_sparse(raw.storage()) && !is_sparse(domain.storage) {
                    return Err(PyTypeError::new_err(
                        "sparse rows, and the domain keeps dense ones: declare storage = \"sparse\"",
                    ));
                }
                let encoder = Encoder::new(domain);
                let codes = codes(labels.as_ref(), rows, &encoder)?;
                detached(py, || encoder.finish(encoder.matrix(raw), codes))?
            }
        };
        Self::finished(py, name, encoded, domain, (units, explain))
    }

    /// Rows of columns, in the order of the domain's.
    #[staticmethod]
    #[pyo3(signature = (name, columns, rows, domain, labels = None, units = None, explain = false))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
    fn of_columns(
        py: Python<'_>,
        name: &str,
        columns: Vec<Bound<'_, PyAny>>,
        rows: usize,
        domain: &Domain,
        labels: Option<GivenColumn<'_>>,
        units: Option<Vec<String>>,
        explain: bool,
    ) -> PyResult<Self> {
        let domain = domain.0.clone();
        let Columns::Named(declared) = &domain.columns else {
            return Err(PyTypeError::new_err("the domain has columns without names: give an array"));
        };
        let encoder = Encoder::new(&domain);
        let (width, mut values) = (domain.features(), Buffer::zeroed(rows * domain.features()));
        let mut codes = codes(labels.as_ref(), rows, &encoder)?;
        let mut offset = 0;
        for (place, column) in columns.into_iter().enumerate().take(declared.len()) {
            let own = encoder.width(place);
            let is_number = matches!(declared[place].kind, ColumnKind::Number { .. });
            let mut features = vec![0.0; own];
            let mut set = |row: usize, keeps: bool, features: &[f32]| {
                values[row * width + offset..][..own].copy_from_slice(features);
                if !keeps {
                    codes[row] = NULL_LABEL;
                }
            };
            match column.extract()? {
                GivenColumn::Numbers(numbers) => {
                    for (row, &number) in numbers.as_slice()?.iter().enumerate().take(rows) {
                        let keeps = match is_number {
                            true => encoder.number(place, number, &mut features),
                            false if number.is_nan() => encoder.field(place, b"", &mut features),
                            false => encoder.field(place, number.to_string().as_bytes(), &mut features),
                        };
                        set(row, keeps, &features);
                    }
                }
                GivenColumn::Words(words, indices) => {
                    let encode = |word: &[u8]| {
                        let mut features = vec![0.0; own];
                        (encoder.field(place, word, &mut features), features)
                    };
                    let known: Vec<_> = words.iter().map(|word| encode(word.as_bytes())).collect();
                    let missing = encode(b"");
                    for (row, &index) in indices.as_slice()?.iter().enumerate().take(rows) {
                        let (keeps, features) =
                            usize::try_from(index).ok().and_then(|index| known.get(index)).unwrap_or(&missing);
                        set(row, *keeps, features);
                    }
                }
            }
            offset += own;
        }
        let encoded = encoder.finish(Features::f32(values, width), codes);
        Self::finished(py, name, encoded, Some(domain.clone()), (units, explain))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The address of dense rows' first value.
    #[getter]
    fn address(&self) -> usize {
        match self.0.features() {
            Features::F32 { values, .. } => values.as_ptr().addr(),
            Features::U8 { rows, .. } => rows.memory().0.as_ptr().addr(),
            Features::Sparse(sparse) => sparse.values.as_ptr().addr(),
        }
    }
}

/// `Σ clip(∇f(w; row))` over all rows, the bias last, each gradient clipped to `clip_norm` in L2.
#[pyfunction]
#[pyo3(signature = (rows, weights, loss, clip_norm, threads))]
pub(crate) fn clipped_sum<'py>(
    py: Python<'py>,
    rows: &Rows,
    weights: Vec<f32>,
    loss: &str,
    clip_norm: f32,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let loss: Loss = loss.parse().map_err(|error| refused(&error))?;
    if !(clip_norm > 0.0 && clip_norm.is_finite()) {
        return Err(PyValueError::new_err("`clip_norm` is a positive number"));
    }
    let rows = rows.0.clone();
    let found = detached(py, move || {
        let (rows, loss) = rows.for_loss(Some(loss)).map_err(|error| refused(&error))?;
        let problem = Problem::new(Arc::new(rows), loss, true, 0.0).map_err(|error| refused(&error))?;
        if weights.len() != problem.parameters() {
            let needed = problem.parameters();
            return Err(PyValueError::new_err(format!(
                "`weights` has {} values, and the model {needed}",
                weights.len()
            )));
        }
        let count = problem.rows();
        let mut sampler = Sampler::new(Sampling::FullBatch, count, count, StreamKey::Simulation(0))
            .map_err(|error| refused(&error))?;
        let mut sum = vec![0.0; weights.len()];
        let mut oracle = Oracle::new(&problem, crate::engine::engine(Some(threads))?);
        oracle
            .gradient_sum(&sampler.draw(0, count), &weights, Clip::l2(clip_norm), &mut sum)
            .map_err(|error| refused(&error))?;
        Ok::<_, PyErr>(sum)
    })??;
    Ok(PyArray1::from_vec(py, found))
}

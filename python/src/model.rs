//! Models: outputs for rows, quality, files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray as _, PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rounds_models::data::{LabelUse, ModelRows, schema};
use rounds_models::model_file::{self, Target};

use crate::rows::{Domain, Rows};
use crate::{detached, of_file, refused};

/// A trained model with its privacy statement.
#[pyclass(frozen, module = "rounds")]
pub(crate) struct Model {
    model: model_file::Model,
    domain: Option<Arc<rounds_algorithms::problem::Domain>>,
}

impl Model {
    pub(crate) fn new(model: model_file::Model) -> PyResult<Self> {
        let text = model.header().data.schema.as_deref();
        let domain = text.map(|text| schema::parse("the model's schema", text)).transpose();
        let domain = domain.map_err(|error| refused(&error))?.map(Arc::new);
        Ok(Self { model, domain })
    }

    /// The rows as the training rows were treated.
    fn treated(&self, rows: &Rows) -> PyResult<rounds_algorithms::problem::Dataset> {
        let data = &self.model.header().data;
        let (found, known) = (rows.0.columns(), data.columns());
        if found != known {
            return Err(PyValueError::new_err(format!("X has {found} features, but the model was trained on {known}")));
        }
        self.model.treated(rows.0.clone()).map_err(|error| refused(&error))
    }
}

#[pymethods]
impl Model {
    /// Reads a model file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        Self::new(model_file::Model::read(&path).map_err(|error| of_file(&error))?)
    }

    /// Writes the model with its statement. A file that holds a release is not replaced.
    fn write(&self, path: PathBuf) -> PyResult<()> {
        self.model
            .clone()
            .write(&path)
            .map_err(|error| if error.is_usage() { refused(&error) } else { of_file(&error) })
    }

    /// The bytes of the model's file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.model.to_bytes().map(|bytes| PyBytes::new(py, &bytes)).map_err(|error| of_file(&error))
    }

    /// The model that the bytes of a file hold.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        Self::new(model_file::Model::parse(Path::new("bytes"), bytes).map_err(|error| refused(&error))?)
    }

    /// Pickled as its file, which holds no key.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let restore = slf.py().import("rounds._core")?.getattr("restore_model")?;
        Ok((restore, (slf.get().to_bytes(slf.py())?,)))
    }

    /// Everything but the weights, as JSON.
    fn header(&self) -> PyResult<String> {
        serde_json::to_string(self.model.header()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Weights `[K, d + 1]`, the bias last.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        matrix(py, self.model.weights().to_vec(), self.model.header().data.dimension + 1)
    }

    #[getter]
    fn domain(&self) -> Option<Domain> {
        self.domain.clone().map(Domain)
    }

    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        self.model.classes().map(<[String]>::to_vec)
    }

    #[getter]
    fn has_probabilities(&self) -> bool {
        self.model.has_probabilities()
    }

    /// Rows of a file or a named data set, encoded for this model.
    #[pyo3(signature = (name, data_dir = None, labels = true))]
    fn load(&self, py: Python<'_>, name: &str, data_dir: Option<PathBuf>, labels: bool) -> PyResult<(Rows, bool)> {
        let labels = if labels { LabelUse::Needed } else { LabelUse::Ignored };
        // What `load` gives is treated, and is not treated again.
        let loaded = detached(py, || self.model.load_untreated(name, data_dir.as_deref(), labels))?;
        loaded.map(|rows| (Rows(rows.dataset), rows.are_test_rows)).map_err(|error| refused(&error))
    }

    /// Outputs `[n, K]`, of numbers in the units of the label.
    fn outputs<'py>(&self, py: Python<'py>, rows: &Rows) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = self.treated(rows)?;
        let mut outputs = detached(py, || self.model.outputs(rows.rows()))?;
        let target = &self.model.header().data.target;
        if let Target::Bounds(_) = target {
            outputs.iter_mut().for_each(|output| *output = target.number(*output));
        }
        let columns = outputs.len() / rows.len().max(1);
        matrix(py, outputs, columns)
    }

    /// Classes that outputs predict, by their places; −1 for rows outside of the domain.
    fn predicted<'py>(&self, py: Python<'py>, rows: &Rows) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = self.treated(rows)?;
        let outputs = detached(py, || self.model.outputs(rows.rows()))?;
        let by_row = outputs.chunks_exact(outputs.len() / rows.len().max(1)).enumerate();
        let place = |(row, outputs)| if rows.is_null(row) { -1 } else { model_file::Model::class(outputs) as i64 };
        Ok(by_row.map(place).collect::<Vec<i64>>().into_pyarray(py))
    }

    /// The quality on labelled rows, as JSON.
    #[pyo3(signature = (rows, are_test_rows = false))]
    fn evaluate(&self, py: Python<'_>, rows: &Rows, are_test_rows: bool) -> PyResult<String> {
        let dataset = self.treated(rows)?;
        let found = detached(py, || self.model.evaluate(ModelRows { dataset, are_test_rows }))?
            .map_err(|error| refused(&error))?;
        serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn matrix<T: numpy::Element>(py: Python<'_>, values: Vec<T>, columns: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = values.len() / columns.max(1);
    let matrix =
        Array2::from_shape_vec((rows, columns), values).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(matrix.into_pyarray(py))
}

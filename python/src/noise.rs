//! Streams of correlated noise for training loops of other programs.

use numpy::{PyReadwriteArrayDyn, PyUntypedArrayMethods as _};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rounds_algorithms::factorization::WorkloadSpecification;
use rounds_algorithms::noise::{NoiseKind, NoiseMechanism as _, NoisePlan, PrivateNoise, StrategyMemory};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::{Accountant, Adjacency, Mechanism, PrivacyError, Sampling, calibrate, gdp};
use rounds_kernels::random::StreamKey;
use rounds_models::factorization_cache;
use serde_json::json;
use std::sync::Mutex;

use crate::{detached, refused};

/// The noise of a run's rounds, one after the other.
#[pyclass(frozen, module = "rounds.noise")]
pub(crate) struct Noise {
    stream: Mutex<(PrivateNoise, u64, Engine)>,
    rounds: u64,
    dimension: usize,
    statement: String,
    sensitivity: f64,
    multiplier: f64,
}

/// A gradient or a sum of one's own.
#[derive(FromPyObject)]
enum Buffer<'py> {
    Single(PyReadwriteArrayDyn<'py, f32>),
    Double(PyReadwriteArrayDyn<'py, f64>),
}

fn buffer<'py>(given: &Bound<'py, PyAny>) -> PyResult<Buffer<'py>> {
    let needed = || {
        let kind = given.getattr("dtype").map_or_else(|_| given.get_type().to_string(), |dtype| dtype.to_string());
        PyTypeError::new_err(format!(
            "a writable NumPy array of float32 or float64 in C order is needed, not this one ({kind}): make it by \
             numpy.array(values, dtype=numpy.float64, order=\"C\"), and go on with what that gives"
        ))
    };
    let buffer: Buffer<'py> = given.extract().map_err(|_| needed())?;
    let is_in_order = match &buffer {
        Buffer::Single(values) => values.is_c_contiguous(),
        Buffer::Double(values) => values.is_c_contiguous(),
    };
    if is_in_order { Ok(buffer) } else { Err(needed()) }
}

fn workload(text: &str, lambda_tau: Option<usize>) -> PyResult<WorkloadSpecification> {
    let known: WorkloadSpecification =
        text.parse().map_err(|error| PyValueError::new_err(format!("`workload` {text}: {error}")))?;
    Ok(known.with_lambda_tau(lambda_tau))
}

/// A mechanism of Gaussian noise.
fn kind(text: &str) -> PyResult<NoiseKind> {
    let is_gaussian = |kind: &NoiseKind| *kind != NoiseKind::Laplace;
    text.parse().ok().filter(is_gaussian).ok_or_else(|| {
        let known = NoiseKind::ALL.iter().copied().filter(is_gaussian).map(|kind| kind.to_string());
        let known = known.chain(["mf", "mf+"].map(str::to_owned)).collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("noise mechanism {text:?} is not known: it is one of {known}"))
    })
}

impl Noise {
    fn refuse_unfit(&self, buffer: &mut Buffer<'_>) -> PyResult<()> {
        let len = match buffer {
            Buffer::Single(values) => values.as_slice_mut().map(|values| values.len()),
            Buffer::Double(values) => values.as_slice_mut().map(|values| values.len()),
        };
        let len = len.map_err(|_| PyValueError::new_err("a contiguous and aligned buffer is needed"))?;
        if len != self.dimension {
            return Err(PyValueError::new_err(format!(
                "the buffer has {len} values, and the noise {}",
                self.dimension
            )));
        }
        if self.round()? < self.rounds { Ok(()) } else { Err(self.used_up()) }
    }

    fn used_up(&self) -> PyErr {
        PyValueError::new_err(format!("the noise is of {} rounds and is used up: plan for more rounds", self.rounds))
    }
}

#[pymethods]
impl Noise {
    #[new]
    #[pyo3(signature = (mechanism, dimension, seed, *, rounds, rounds_per_epoch, clip_norm, noise_multiplier, epsilon, delta, adjacency, workload, lambda_tau, threads))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
    fn new(
        py: Python<'_>,
        mechanism: &str,
        dimension: usize,
        seed: Option<u64>,
        rounds: usize,
        rounds_per_epoch: usize,
        clip_norm: f64,
        noise_multiplier: Option<f64>,
        epsilon: Option<f64>,
        delta: f64,
        adjacency: &str,
        workload: &str,
        lambda_tau: Option<usize>,
        threads: usize,
    ) -> PyResult<Self> {
        let kind = kind(mechanism)?;
        let adjacency: Adjacency = adjacency.parse().map_err(|error| refused(&error))?;
        if rounds == 0 || rounds_per_epoch == 0 || dimension == 0 || !(clip_norm > 0.0 && clip_norm.is_finite()) {
            return Err(PyValueError::new_err("`dimension`, `rounds`, `rounds_per_epoch` and `clip_norm` are above 0"));
        }
        let workload = self::workload(workload, lambda_tau)?;
        let plan = NoisePlan { rounds, rounds_per_epoch, workload, dimension };
        let key = if let Some(seed) = seed {
            StreamKey::Simulation(seed)
        } else {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            StreamKey::Release(key)
        };
        let engine = crate::engine::engine(Some(threads))?;
        let made = detached(py, move || {
            let memory = StrategyMemory::filled_from(factorization_cache::source());
            let planned = kind.prepare(&plan, &memory).map_err(|error| refused(&error))?;
            let family = |noise_multiplier| planned.mechanism(noise_multiplier, Sampling::FixedOrder);
            let accountant = Accountant::default_for(&family(1.0));
            let said = |error: PrivacyError| refused(&error);
            let noise_multiplier = match (noise_multiplier, epsilon) {
                (Some(noise_multiplier), None) => noise_multiplier,
                (None, Some(epsilon)) => calibrate(accountant, adjacency, epsilon, delta, family).map_err(said)?,
                _ => return Err(PyValueError::new_err("give either `epsilon` or `noise_multiplier`")),
            };
            let stated = family(noise_multiplier);
            let epsilon = accountant.epsilon(&stated, adjacency, delta).map_err(said)?;
            // μ = f·sensitivity/noise multiplier, f the change of a term.
            let sensitivity = gdp::mu(&family(1.0), Adjacency::ZeroOut).map_err(said)?;
            let statement =
                statement(&stated, (accountant, adjacency), (epsilon, delta), (clip_norm, sensitivity), &plan, &key);
            let stream = planned.unaccounted(key, noise_multiplier * clip_norm);
            Ok((stream, statement, sensitivity, noise_multiplier))
        })?;
        let (stream, statement, sensitivity, noise_multiplier) = made?;
        let stream = Mutex::new((stream, 0, engine));
        Ok(Self { stream, rounds: rounds as u64, dimension, statement, sensitivity, multiplier: noise_multiplier })
    }

    /// Refuses a buffer that cannot take the next round.
    fn check(&self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        self.refuse_unfit(&mut buffer(given)?)
    }

    /// Adds the noise of the next round to `buffer`, a sum of clipped terms; its round. A buffer that is refused takes none.
    fn add(&self, py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut buffer = buffer(given)?;
        self.refuse_unfit(&mut buffer)?;
        let mut noise = vec![0.0; self.dimension];
        let round = detached(py, || {
            let mut stream = self.stream.lock().map_err(|_| PyRuntimeError::new_err("the stream ended by a fault"))?;
            let (stream, next, engine) = &mut *stream;
            // Another thread may have drawn the last one. Independent noise has no end of its own.
            if *next >= self.rounds {
                return Err(self.used_up());
            }
            stream.add_increment(*next, &mut noise, None, engine).map_err(|error| refused(&error))?;
            *next += 1;
            Ok::<_, PyErr>(*next - 1)
        })??;
        let contiguous = |_| PyValueError::new_err("a contiguous and aligned buffer is needed");
        match &mut buffer {
            Buffer::Single(values) => {
                let values = values.as_slice_mut().map_err(contiguous)?;
                values.iter_mut().zip(&noise).for_each(|(value, noise)| *value = (f64::from(*value) + noise) as f32);
            }
            Buffer::Double(values) => {
                let values = values.as_slice_mut().map_err(contiguous)?;
                values.iter_mut().zip(&noise).for_each(|(value, noise)| *value += noise);
            }
        }
        Ok(round)
    }

    /// Rounds that are drawn.
    #[getter]
    fn round(&self) -> PyResult<u64> {
        self.stream.lock().map(|stream| stream.1).map_err(|_| PyRuntimeError::new_err("the stream ended by a fault"))
    }

    #[getter]
    fn rounds(&self) -> u64 {
        self.rounds
    }

    #[getter]
    fn dimension(&self) -> usize {
        self.dimension
    }

    #[getter]
    fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.multiplier
    }

    #[getter]
    fn statement(&self) -> &str {
        &self.statement
    }
}

/// What holds of sums to which the noise is added, as JSON.
fn statement(
    mechanism: &Mechanism,
    (accountant, adjacency): (Accountant, Adjacency),
    (epsilon, delta): (f64, f64),
    (clip_norm, sensitivity): (f64, f64),
    plan: &NoisePlan,
    key: &StreamKey,
) -> String {
    let epochs = plan.epochs();
    let is_secret = matches!(key, StreamKey::Release(_));
    let takes = format!(
        "each example is in one round of every {} at most, always at the same place, {epochs} times at most in {} rounds",
        plan.rounds_per_epoch, plan.rounds
    );
    json!({
        "claim": "none",
        "reason": "the loop is not ours: what follows holds if the assumptions do, and is not checked",
        "epsilon": epsilon,
        "delta": delta,
        "accountant": accountant,
        "adjacency": adjacency,
        "mechanism": mechanism.to_string(),
        "noise_multiplier": mechanism.noise_multiplier(),
        "clip_norm": clip_norm,
        "sensitivity": sensitivity,
        "rounds": plan.rounds,
        "noise_source": if is_secret { "chacha20" } else { "xoshiro" },
        "assumptions": [
            format!("the noise is added to the sum of terms that are clipped to {clip_norm} in L2, one an example, before any mean is taken"),
            takes,
            "every round's noise is added once, in order, and nothing else of the rows is released".to_owned(),
            "noise in floating point stands for real numbers".to_owned(),
            if is_secret { "the key of the stream is the operating system's" } else { "a simulation: anyone can draw this noise again" }.to_owned(),
        ],
    })
    .to_string()
}

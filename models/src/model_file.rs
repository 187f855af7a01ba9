//! Models as files: the weights with everything that predictions need, and the privacy statement (docs/FORMAT.md).

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::privacy::{Claim, PrivacyStatement};
use rounds_algorithms::problem::{self, BYTE_SCALE, Dataset, DatasetError, Domain, DomainSource, Label, Treatment};
use rounds_kernels::features::{Norm, Rows};
use rounds_kernels::loss::{Loss, TargetKind};
use rounds_kernels::network::{Network, NetworkError};
use rounds_kernels::vector;
use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::build::Build;
use crate::data::{DataError, Explained, LabelUse, ModelRows, Request, SchemaError, Split, load_for_model, schema};
use crate::features::moments::Released;
use crate::features::{FeatureMap, Mapper};
use crate::files;
use crate::signature::{SecretKey, Signature};
use crate::text::{foreign, rounded_up};

/// The version of the header that is written, and the last one that is read.
const VERSION: u32 = 1;
/// The header's key in the metadata of the file.
const KEY: &str = "rounds";
const WEIGHTS: &str = "weights";
const FEATURES: &str = "features";

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum ModelFileError {
    #[error("model {}: cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("model {}: {found}; `rounds train --model NAME.safetensors` writes a model", path.display())]
    Foreign { path: PathBuf, found: String },
    #[error(
        "model {}: its format has version {version}, and this program reads up to {VERSION}; update rounds",
        path.display()
    )]
    Newer { path: PathBuf, version: u32 },
    #[error("model {}: it is damaged: {reason}; copy or train it again", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("`model {}`: the file cannot be written", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    #[error("`model {}`: {problem}", path.display())]
    Taken { path: PathBuf, problem: String },
    #[error("model {}: it cannot be encoded: {source}", path.display())]
    Encoding { path: PathBuf, source: SafeTensorError },
}

impl ModelFileError {
    /// A place that another one must be named for.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

/// Checks that a model, of a release or not, may be written to `path`, before the work that makes it: what may hold a release is
/// never replaced, since its ε is spent.
///
/// # Errors
/// A place that cannot be written, or that holds a release.
pub fn check_place(path: &Path, is_release: bool) -> Result<(), ModelFileError> {
    let unwritable = |source| ModelFileError::Unwritable { path: path.to_owned(), source };
    let taken = |problem: String| Err(ModelFileError::Taken { path: path.to_owned(), problem });
    files::check_replaceable(path).map_err(unwritable)?;
    if is_release && is_npy(path) && path.is_file() {
        let problem = "it is there already and may hold a release, whose ε is spent; name another file, or move this one away \
                       (`resume` then writes it again, if this run did)";
        return taken(problem.to_owned());
    }
    match Model::read(path) {
        Ok(model) if model.header.privacy.claim == Claim::Release => taken(format!(
            "it holds a release, whose ε = {} is spent; name another file, or move this one away",
            rounded_up(model.header.privacy.epsilon.unwrap_or_default(), 6)
        )),
        Ok(_) => Ok(()),
        // Perhaps the data, a key or a checkpoint of this very run.
        Err(_) if files::holds_other(path, |start| is_npy(path) && start.starts_with(b"\x93NUMPY")) => {
            taken("it holds something else than a model; name another file, or move this one away".to_owned())
        }
        Err(_) => Ok(()),
    }
}

/// Takes the room of a model of so many weights on the disk, until what is returned is dropped: a release that has spent its ε is not lost
/// to a disk that others fill.
pub(crate) fn reserve(path: &Path, weights: usize, held: Option<File>) -> Result<Option<File>, ModelFileError> {
    // The header beside them.
    let bytes = 4 * weights as u64 + (1 << 17);
    files::reserve(path, bytes, held).map_err(|source| ModelFileError::Unwritable { path: path.to_owned(), source })
}

/// The meaning of a model's outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The class of the greatest output, or of a single output the second one if it is at least 0.
    Classes(Vec<String>),
    /// A number. With bounds the output −1 stands for the lower one and 1 for the upper one.
    Bounds(Option<[f64; 2]>),
}

/// The columns and the label of the training rows: all that decides how other rows become features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// The name of the data set.
    pub dataset: String,
    /// Features a row, without the bias.
    pub dimension: usize,
    /// The meaning of the outputs.
    pub target: Target,
    /// The domain as the TOML text of a schema; none of undeclared rows, whose features are taken as they are.
    pub schema: Option<String>,
    /// The origin of the domain.
    pub domain_source: Option<String>,
    /// ε of private bounds of the columns of numbers.
    pub private_bounds: Option<f64>,
    /// The rows that were kept for testing.
    pub test_split: Option<Split>,
    /// The map to other features, the first step of their treatment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureMap>,
    /// SHA-256 of the matrix of a map that was released, which stands in the tensor `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features_sha256: Option<String>,
    /// Public factor by which features are multiplied.
    pub scale_features: Option<f32>,
    /// Norm bound to which rows are clipped.
    pub clip_features: Option<NormBound>,
    /// The treatment of rows in memory by their program, or of generated ones, before the run. Files that
    /// [`Model::load`] reads are not treated so: that program treats the rows that it predicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// Public facts of rows that are not as they were encoded into their domain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The factor of encoded features.
    pub unit: f64,
    /// The value of a byte of 1, of bytes.
    pub byte_scale: Option<f32>,
    /// The norm bound of a row.
    pub bound: Option<NormBound>,
}

/// A bound of a norm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormBound {
    /// The norm.
    #[serde(with = "NormName")]
    pub norm: Norm,
    /// The bound.
    pub bound: f64,
}

/// A norm by its name.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Norm", rename_all = "lowercase")]
enum NormName {
    L1,
    L2,
}

/// All that a model file holds beside the weights, and the document of a run beside its outcome: the statement with everything
/// that it follows from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The algorithm's id.
    pub algorithm: String,
    /// The number of rows, or of units, if it is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
    /// Rounds of the run.
    pub rounds: u64,
    /// The loss, as the command line names it.
    pub loss: String,
    /// The columns and the label of the training rows.
    pub data: TrainedOn,
    /// Hyper-parameters as they were given.
    #[serde(deserialize_with = "once")]
    pub parameters: Map<String, Value>,
    /// Values of the algorithm's parameters, given or chosen.
    #[serde(deserialize_with = "once")]
    pub plan: BTreeMap<String, String>,
    /// SHA-256 of the weights as little-endian values.
    pub model_sha256: String,
    /// The statement as it was printed.
    pub privacy: PrivacyStatement,
    /// The build of the program that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The signature of all of the above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// Names with values, each name once: of two values of one name another reader may take the other.
fn once<'de, V: Deserialize<'de>, M: FromIterator<(String, V)>, D: Deserializer<'de>>(from: D) -> Result<M, D::Error> {
    struct Once<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Once<V> {
        type Value = Vec<(String, V)>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("names with values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut fields, mut names) = (Vec::new(), HashSet::new());
            while let Some((name, value)) = map.next_entry::<String, V>()? {
                if !names.insert(name.clone()) {
                    return Err(serde::de::Error::custom(format!("duplicate field `{name}`")));
                }
                fields.push((name, value));
            }
            Ok(fields)
        }
    }
    Ok(from.deserialize_map(Once(PhantomData))?.into_iter().collect())
}

/// The part of every header that later versions keep.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A linear model, or a network, that knows its rows.
///
/// ```
/// use rounds_models::data::LabelUse;
/// use rounds_models::fit::{Execution, Training, fit};
/// use rounds_models::model_file::Model;
/// use rounds_models::statement;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model");
/// let training = Training::on("synthetic-logistic").private(1.0, 1e-5);
/// fit(&training, &Execution::default(), &mut ())?.model.write(&path)?;
///
/// let model = Model::read(&path)?;
/// let rows = model.load("synthetic-logistic", None, LabelUse::Needed)?;
/// assert_eq!(model.predict(&rows.dataset, false).predictions.len(), rows.dataset.len());
/// assert!(model.evaluate(rows)?.rows > 0);
/// // No release: noise from a seed protects nothing.
/// assert!(statement::verify(&path, None).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    /// Everything but the weights. No caller changes it: a simulation would be rewritten as a release.
    pub(crate) header: Header,
    /// Row-major `[K, d + 1]`, bias last; of a network in its order.
    weights: Vec<f32>,
    /// The matrix of its features, where they follow from one that was released.
    released: Option<Released>,
    network: Option<Network>,
    loss: Loss,
    domain: Option<Arc<Domain>>,
}

fn argument_of(dataset: &Dataset, problem: String) -> DatasetError {
    DatasetError::Argument { name: dataset.name().to_owned(), problem }
}

/// Features as a run takes them: mapped to others, scaled by a public factor, then clipped to a public norm bound. A map that follows from
/// a release has what was `released`, or the plan of it.
///
/// # Errors
/// Rows that have no such features; a factor or a bound out of range.
pub(crate) fn treat_features(
    mut dataset: Dataset,
    map: Option<(&FeatureMap, Option<&Released>)>,
    factor: Option<f32>,
    clip: Option<(Norm, f64)>,
) -> Result<Dataset, DatasetError> {
    if let Some((map, released)) = map {
        let map = map.on(dataset.columns()).and_then(|map| map.with_released(released));
        dataset = map.map_err(|problem| argument_of(&dataset, problem))?.apply(dataset)?;
    }
    scaled_and_clipped(dataset, factor, clip)
}

/// [`treat_features`] without its first step.
///
/// # Errors
/// A factor or a bound out of range.
pub(crate) fn scaled_and_clipped(
    mut dataset: Dataset,
    factor: Option<f32>,
    clip: Option<(Norm, f64)>,
) -> Result<Dataset, DatasetError> {
    if let Some(factor) = factor {
        dataset = dataset.scale_features(factor)?;
    }
    match clip {
        Some((norm, bound)) => dataset.clip_features(norm, bound),
        None => Ok(dataset),
    }
}

impl Target {
    /// The meaning that a domain declares.
    pub(crate) fn of(domain: &Domain) -> Self {
        match &domain.label {
            Label::Classes(names) => Self::Classes(names.clone()),
            Label::Number(bounds) => Self::Bounds(Some([bounds.lo(), bounds.hi()])),
        }
    }

    /// The number that an output predicts, in the units of the label.
    pub fn number(&self, output: f64) -> f64 {
        match *self {
            Self::Bounds(Some([lo, hi])) => lo + 0.5 * (output + 1.0) * (hi - lo),
            _ => output,
        }
    }
}

impl TrainedOn {
    /// The columns and the label of training rows as they were loaded, which a run treats so.
    pub fn of(
        dataset: &Dataset,
        map: Option<&Mapper>,
        scale_features: Option<f32>,
        clip_features: Option<(Norm, f64)>,
    ) -> Self {
        let target = match dataset.domain() {
            Some(domain) => Target::of(domain),
            None => dataset.labels().class_names().map_or(Target::Bounds(None), Target::Classes),
        };
        Self {
            dataset: dataset.name().to_owned(),
            dimension: map.map_or(dataset.columns(), Mapper::features),
            target,
            schema: dataset.domain().map(|domain| schema_of(domain)),
            domain_source: dataset.domain().map(|domain| domain.source.to_string()),
            private_bounds: None,
            test_split: None,
            features: map.map(|map| map.map().clone()),
            features_sha256: None,
            scale_features,
            clip_features: clip_features.map(|(norm, bound)| NormBound { norm, bound }),
            given: dataset.treatment().and_then(Given::of),
        }
    }
}

impl TrainedOn {
    /// Features of a row as it is loaded.
    pub fn columns(&self) -> usize {
        self.features.as_ref().and_then(FeatureMap::inputs).unwrap_or(self.dimension)
    }
}

impl Given {
    /// The treatment of rows, if they are not as they were encoded.
    pub(crate) fn of(treatment: Treatment) -> Option<Self> {
        let Treatment { unit, byte_scale, bound } = treatment;
        let is_encoded = unit == 1.0 && byte_scale.is_none_or(|scale| scale == BYTE_SCALE) && bound.is_none();
        let bound = bound.map(|(norm, bound)| NormBound { norm, bound });
        (!is_encoded).then_some(Self { unit, byte_scale, bound })
    }
}

/// The schema of a model's rows, in whatever format they come.
fn schema_of(domain: &Domain) -> String {
    schema::write(&Domain { format: None, ..domain.clone() }, &Default::default())
}

impl Header {
    /// The same header with all that follows from the loss, the domain, the statement and the weights.
    pub(crate) fn completed(mut self, loss: Loss, domain: Option<&Domain>, weights: Option<&[f32]>) -> Self {
        self.version = VERSION;
        self.loss = loss.to_string();
        self.model_sha256 = weights.map_or(self.model_sha256, digest);
        if let Some(domain) = domain {
            self.data.target = Target::of(domain);
            if self.data.features.is_none() {
                self.data.dimension = domain.features();
            }
            self.data.schema = Some(schema_of(domain));
            self.data.domain_source = Some(domain.source.to_string());
        }
        if loss.targets() == TargetKind::Signs && !matches!(self.data.target, Target::Classes(_)) {
            self.data.target = Target::Classes(["-1", "1"].map(str::to_owned).to_vec());
        }
        self.plan.insert("rounds".to_owned(), self.rounds.to_string());
        self.plan.extend(self.privacy.clip_norm.map(|clip_norm| ("clip-norm".to_owned(), clip_norm.to_string())));
        self
    }

    /// The header as a reader of its text has it: 0.1 of an f32 is 0.1.
    pub(crate) fn document(&self) -> Value {
        let text = serde_json::to_string(self).expect("names and values");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The declared domain.
    ///
    /// # Errors
    /// A text that declares none.
    pub(crate) fn domain(&self, place: &str) -> Result<Option<Domain>, SchemaError> {
        let domain = self.data.schema.as_deref().map(|text| schema::parse(place, text)).transpose()?;
        let source = self.data.domain_source.as_deref().and_then(DomainSource::stated);
        Ok(domain.map(|domain| Domain { source: source.unwrap_or(domain.source.clone()), ..domain }))
    }

    /// The shape of so many weights: `[K, d + 1]`, or of a network all in a list.
    fn shape_of(&self, weights: usize) -> Vec<usize> {
        let columns = self.data.dimension + 1;
        if self.parameters.contains_key("model-kind") {
            return vec![weights];
        }
        assert!(weights.is_multiple_of(columns), "weights do not fill their rows");
        vec![weights / columns, columns]
    }

    /// The network that its parameters name, if they do.
    fn network(&self) -> Result<Option<Network>, NetworkError> {
        let outputs = if let Target::Classes(names) = &self.data.target { names.len() } else { 1 };
        let text = self.parameters.get("model-kind").map(|text| text.as_str().unwrap_or_default());
        text.map(|text| Network::new(text, self.data.dimension, outputs)).transpose()
    }

    /// The file of a model: safetensors with the tensor `weights` and this header as JSON in its metadata.
    ///
    /// # Errors
    /// A header of more than 100 MB.
    ///
    /// # Panics
    /// Weights of a linear model that are not rows of `dimension + 1` values.
    pub(crate) fn to_file(&self, weights: &[f32], released: Option<&[f32]>) -> Result<Vec<u8>, SafeTensorError> {
        let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
        let (weight_bytes, matrix) = (bytes(weights), released.map(bytes));
        let tensor = TensorView::new(Dtype::F32, self.shape_of(weights.len()), &weight_bytes)?;
        let columns = self.data.dimension;
        let matrix = matrix.as_ref().map(|matrix| {
            Ok::<_, SafeTensorError>((
                FEATURES,
                TensorView::new(Dtype::F32, vec![matrix.len() / 4 / columns, columns], matrix)?,
            ))
        });
        let header = [(KEY.to_owned(), serde_json::to_string(self).map_err(SafeTensorError::from)?)];
        let tensors = [(WEIGHTS, tensor)].into_iter().chain(matrix.transpose()?);
        safetensors::serialize(tensors, Some(header.into_iter().collect()))
    }
}

impl Model {
    /// A model of these weights, row-major `[K, d + 1]`, bias last, or of the network that the header names, which was trained.
    pub(crate) fn new(header: Header, weights: Vec<f32>, loss: Loss, domain: Option<Arc<Domain>>) -> Self {
        let network = header.network().expect("a network that was trained");
        Self { header, weights, released: None, network, loss, domain }
    }

    /// The same model with the matrix that its features follow from.
    pub(crate) fn with_released(self, released: Option<Released>) -> Self {
        Self { released, ..self }
    }

    /// The weights, row-major `[K, d + 1]`, bias last; of a network those of its layers in order
    /// ([`Network`]).
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Everything but the weights.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The privacy statement.
    pub fn privacy(&self) -> &PrivacyStatement {
        &self.header.privacy
    }

    /// Signs the header, with the build.
    pub(crate) fn sign(&mut self, key: &SecretKey, build: fn() -> &'static Build) {
        self.header.build.get_or_insert_with(|| build().clone());
        self.header.signature = Some(key.sign(&self.header.document()));
    }

    /// Writes the model: a file called `.npy` as NPY f32 `[K, d + 1]` (of a network `[p]`), any other one with its header. The header holds what the
    /// settings decide and what the outcome tells: of a release nothing else.
    ///
    /// # Errors
    /// As [`check_place`].
    pub fn write(&mut self, path: &Path) -> Result<(), ModelFileError> {
        check_place(path, self.header.privacy.claim == Claim::Release)?;
        self.replace(path, Build::of_process)
    }

    /// Writes the model by this build to a place that was checked before its run. Where a release lies there since, whose ε is spent
    /// as this one's is, it is written beside that one.
    ///
    /// # Errors
    /// As [`check_place`].
    pub(crate) fn keep(&mut self, path: &Path, build: fn() -> &'static Build) -> Result<PathBuf, ModelFileError> {
        let is_free = |path: &PathBuf| check_place(path, self.header.privacy.claim == Claim::Release).is_ok();
        let numbered = (1..100).map(|number| {
            let mut name = path.file_stem().unwrap_or_default().to_owned();
            name.push(format!("-{number}"));
            path.extension().iter().for_each(|extension| name.extend([".".as_ref(), *extension]));
            path.with_file_name(name)
        });
        let place = std::iter::once(path.to_owned()).chain(numbered).find(is_free).unwrap_or(path.to_owned());
        check_place(&place, self.header.privacy.claim == Claim::Release)?;
        self.replace(&place, build)?;
        Ok(place)
    }

    /// [`write`](Self::write) by this build to a place that was checked.
    fn replace(&mut self, path: &Path, build: fn() -> &'static Build) -> Result<(), ModelFileError> {
        self.header.build.get_or_insert_with(|| build().clone());
        let bytes = if is_npy(path) {
            let shape = self.header.shape_of(self.weights.len());
            let matrix = ndarray::ArrayViewD::from_shape(shape, &self.weights).expect("weights fill their rows");
            let mut bytes = Vec::new();
            ndarray_npy::WriteNpyExt::write_npy(&matrix, &mut bytes).expect("an array is written to memory");
            bytes
        } else {
            let encoded = self.header.to_file(&self.weights, self.released.as_deref());
            encoded.map_err(|source| ModelFileError::Encoding { path: path.to_owned(), source })?
        };
        files::replace(path, &bytes).map_err(|source| ModelFileError::Unwritable { path: path.to_owned(), source })
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// Files that are no models, damaged ones, and those of a later version.
    pub fn read(path: &Path) -> Result<Self, ModelFileError> {
        let failed = |source| ModelFileError::Read { path: path.into(), source };
        let foreign = |found: &str| ModelFileError::Foreign { path: path.into(), found: found.to_owned() };
        // A pipe would wait for its writer.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(foreign("no regular file"));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        // The header's length, then its first letter: other files are not read as a whole.
        (&mut file).take(9).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.starts_with(b"\x93NUMPY") {
            return Err(foreign("a plain NPY array, which knows neither its columns nor its classes"));
        }
        if bytes.get(8) != Some(&b'{') {
            return Err(foreign("no model file (safetensors)"));
        }
        file.read_to_end(&mut bytes).map_err(failed)?;
        Self::parse(path, &bytes)
    }

    /// The bytes of a model file.
    ///
    /// # Errors
    /// A header of more than 100 MB.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelFileError> {
        let encoded = self.header.to_file(&self.weights, self.released.as_deref());
        encoded.map_err(|source| ModelFileError::Encoding { path: "bytes".into(), source })
    }

    /// The model that the bytes of the file `path` hold.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelFileError> {
        let damaged = |reason: String| ModelFileError::Damaged { path: path.into(), reason };
        let unreadable = |error: SafeTensorError| damaged(error.to_string());
        let header = &header_text(path, bytes)?;
        let malformed = |error: serde_json::Error| damaged(format!("its header: {}", foreign(&error)));
        let Version { version } = serde_json::from_str(header).map_err(malformed)?;
        if version > VERSION {
            let path = path.into();
            return Err(ModelFileError::Newer { path, version });
        }
        let header: Header = serde_json::from_str(header).map_err(malformed)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(unreadable)?;
        let tensor = tensors.tensor(WEIGHTS).map_err(unreadable)?;
        let is_released = header.data.features.as_ref().is_some_and(|map| map.moments().is_some());
        if tensors.len() != 1 + usize::from(is_released) {
            return Err(damaged(
                "it holds another tensor beside its weights, or lacks the one of its features".to_owned(),
            ));
        }
        let numbers = |tensor: &TensorView<'_>| -> Vec<f32> {
            tensor.data().as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect()
        };
        let weights = numbers(&tensor);
        let matrix = is_released.then(|| tensors.tensor(FEATURES)).transpose().map_err(unreadable)?;
        let released: Option<Released> = matrix.as_ref().map(|matrix| numbers(matrix).into());
        let is_written =
            |matrix: &Released| header.data.features_sha256 == Some(digest(matrix)) && vector::is_finite(matrix);
        if matrix.is_some_and(|matrix| matrix.dtype() != Dtype::F32) || !released.iter().all(is_written) {
            return Err(damaged("the matrix of its features is not the one that was written".to_owned()));
        }
        if tensor.dtype() != Dtype::F32 || header.model_sha256 != digest(&weights) {
            return Err(damaged("its weights are not those that were written".to_owned()));
        }
        let loss: Loss = header.loss.parse().map_err(|error| damaged(format!("its loss: {error}")))?;
        let place = path.display().to_string();
        let domain = header.domain(&place).map_err(|error| damaged(error.to_string()))?;
        let data = &header.data;
        let outputs = match (&data.target, loss.targets()) {
            (Target::Classes(names), TargetKind::Classes) => names.len(),
            (Target::Classes(names), _) if names.len() != 2 => 0,
            _ => 1,
        };
        let loaded = domain.as_ref().map_or(data.columns(), Domain::features);
        let features = match &data.features {
            None => loaded,
            Some(map) => {
                let map = map.on(loaded).and_then(|map| map.with_released(released.as_ref()));
                map.map_err(damaged)?.features()
            }
        };
        let network = header.network().map_err(|error| damaged(format!("its network: {error}")))?;
        let shape = network.as_ref().map_or(vec![outputs, data.dimension + 1], |network| vec![network.parameters()]);
        let fits = outputs > 0 && features == data.dimension && *tensor.shape() == shape;
        if !fits || !vector::is_finite(&weights) {
            let reason = "its weights are not finite, or do not fit its loss, columns and classes";
            return Err(damaged(reason.to_owned()));
        }
        Ok(Self { weights, released, network, loss, domain: domain.map(Arc::new), header })
    }

    /// Class names; none of a model of numbers.
    pub fn classes(&self) -> Option<&[String]> {
        match &self.header.data.target {
            Target::Classes(names) => Some(names),
            Target::Bounds(_) => None,
        }
    }

    /// The outputs are a model of probabilities.
    pub fn has_probabilities(&self) -> bool {
        matches!(self.loss, Loss::Softmax | Loss::Logistic)
    }

    /// Loads rows for this model and treats their features as the training run did.
    ///
    /// # Errors
    /// As [`load_for_model`]; features that the model's treatment does not allow.
    pub fn load(&self, name_or_path: &str, data_dir: Option<&Path>, labels: LabelUse) -> Result<ModelRows, Explained> {
        let rows = self.load_untreated(name_or_path, data_dir, labels)?;
        if let Some(map) = &self.header.data.features {
            let of = |problem| DataError::from(argument_of(&rows.dataset, problem)).for_reader();
            map.on(rows.dataset.columns()).and_then(|map| map.check_memory(rows.dataset.len())).map_err(of)?;
        }
        let dataset = self.treated(rows.dataset).map_err(|error| DataError::from(error).for_reader())?;
        Ok(ModelRows { dataset, ..rows })
    }

    /// [`load`](Self::load) without the treatment of features.
    ///
    /// # Errors
    /// As [`load_for_model`].
    pub fn load_untreated(
        &self,
        name_or_path: &str,
        data_dir: Option<&Path>,
        labels: LabelUse,
    ) -> Result<ModelRows, Explained> {
        let columns = Some(self.header.data.columns());
        let input = Request { columns, labels, ..Request::of(self.domain.as_ref()) };
        load_for_model(name_or_path, data_dir, input, self.classes())
    }

    /// Rows of the model's domain with their features treated as the training run treated them.
    ///
    /// # Errors
    /// Features that the treatment does not allow.
    pub fn treated(&self, rows: Dataset) -> Result<Dataset, DatasetError> {
        let data = &self.header.data;
        let clip = data.clip_features.map(|NormBound { norm, bound }| (norm, bound));
        let map = data.features.as_ref().map(|map| (map, self.released.as_ref()));
        treat_features(rows, map, data.scale_features, clip)
    }

    /// [`outputs`](problem::outputs) of this model.
    ///
    /// # Panics
    /// Rows with another number of features.
    pub fn outputs(&self, rows: Rows<'_>) -> Vec<f64> {
        assert_eq!(rows.columns(), self.header.data.dimension, "features a row");
        match &self.network {
            Some(network) => problem::outputs_of_network(network, &self.weights, rows),
            None => problem::outputs(&self.weights, rows, true),
        }
    }

    /// The class that a row's outputs predict: the first of the greatest; of a single output the sign's, 1 for 0.
    pub fn class(outputs: &[f64]) -> usize {
        rounds_algorithms::selection::predicted(outputs)
    }

    /// Logits of the classes: the outputs, or of a single output u the pair −u/2 and u/2, whose softmax is its logistic function.
    pub fn logits(outputs: &[f64]) -> Vec<f64> {
        match outputs {
            [output] => vec![-0.5 * output, 0.5 * output],
            _ => outputs.to_vec(),
        }
    }
}

/// The header in the bytes of the model file `path`: the one text of its metadata. Every name around it stands once, as within it: of two
/// texts of one name, of which one is verified, another reader may take the other.
pub(crate) fn header_text(path: &Path, bytes: &[u8]) -> Result<String, ModelFileError> {
    #[derive(Deserialize)]
    struct Names(
        #[expect(dead_code, reason = "read to be counted")]
        #[serde(deserialize_with = "once")]
        BTreeMap<String, Value>,
    );
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(rename = "__metadata__", default, deserialize_with = "once")]
        texts: BTreeMap<String, String>,
    }
    let damaged = |reason: String| ModelFileError::Damaged { path: path.into(), reason };
    let (length, _) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(error.to_string()))?;
    let text = &bytes[size_of::<u64>()..][..length];
    let malformed = |error: serde_json::Error| damaged(format!("its header: {}", foreign(&error)));
    serde_json::from_slice::<Names>(text).map_err(malformed)?;
    let Metadata { mut texts } = serde_json::from_slice(text).map_err(malformed)?;
    let found = || "a safetensors file of another program".to_owned();
    let header = texts.remove(KEY).ok_or_else(|| ModelFileError::Foreign { path: path.into(), found: found() })?;
    if texts.is_empty() { Ok(header) } else { Err(damaged(format!("its metadata holds more than '{KEY}'"))) }
}

/// SHA-256 of parameters as little-endian f32, in hexadecimal digits.
pub fn digest(parameters: &[f32]) -> String {
    let bytes: Vec<u8> = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
    rounds_algorithms::hexadecimal(&Sha256::digest(&bytes))
}

/// A model of this name is its weights alone.
pub fn is_npy(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

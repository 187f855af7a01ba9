//! Networks as lists of layers: their text form, shapes, the layout of parameters, and initial weights.

use std::fmt::{self, Display};

use crate::random::{Purpose, StreamKey, fill_gaussian};
use crate::vector::lanes::LANES;

/// The network of Choquette-Choo et al. (2022, arXiv:2211.06530) for CIFAR-10: 550,570 parameters with ten classes.
const CNN_550K: &str = "conv 32, tanh, conv 32, tanh, pool, conv 64, tanh, conv 64, tanh, pool, conv 128, tanh, conv 128, tanh, pool, \
                        dense 128, tanh";

/// Networks by name.
const NAMED: [(&str, &str); 1] = [("cnn-550k", CNN_550K)];

/// Images whose shape their number of columns tells.
const IMAGES: [Image; 2] = [Image { height: 28, width: 28, channels: 1 }, Image { height: 32, width: 32, channels: 3 }];

/// The greatest number of parameters, of values between layers, and of a size.
const MOST_VALUES: usize = 1 << 24;

/// Streams of initial weights.
const INITIAL: Purpose = Purpose(0x494e_4954);

/// A text that is no network, or one that does not suit the rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message describes its fields")]
pub enum NetworkError {
    #[error(
        "'{0}' is no layer: a network is `cnn-550k` or a list of `conv N`, `dense N`, `pool`, `tanh`, `relu` and `group-norm GROUPS`, \
         such as `conv 16, tanh, pool, dense 32, tanh`, after `image HxWxC` where the shape of the rows is not known"
    )]
    Layer(String),
    #[error(
        "rows of {0} columns have no known shape: begin the list with `image HxWxC`; 784 columns are 28x28x1, 3072 are 32x32x3"
    )]
    Shape(usize),
    #[error("an image of {image} has {} values, and rows have {columns} columns", image.values())]
    Columns { image: Image, columns: usize },
    #[error("a network begins with `conv N` or `dense N`")]
    First,
    #[error("`{0}` does not suit what comes to it, {1}")]
    Misplaced(String, Image),
    #[error("the network would have {0} {1}, and {MOST_VALUES} are the most")]
    Size(usize, &'static str),
    #[error(
        "a network tells two classes or more apart, by the loss softmax: take a data set with classes, and no other loss"
    )]
    Outputs,
}

/// Height, width and channels of an image, or of the values between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// H.
    pub height: usize,
    /// W.
    pub width: usize,
    /// C.
    pub channels: usize,
}

impl Image {
    /// H·W·C.
    pub fn values(self) -> usize {
        self.height.saturating_mul(self.width).saturating_mul(self.channels)
    }
}

impl Display for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}x{}", self.height, self.width, self.channels)
    }
}

/// A layer as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// 3 × 3, stride 1, zeros around the image.
    Convolution(usize),
    /// All values to so many.
    Dense(usize),
    /// The greatest of 2 × 2; a last row or column that is alone is left out.
    Pool,
    Tanh,
    Relu,
    /// Values less the mean of their group of channels of the row, over their deviation; then a scale and a shift a channel.
    GroupNorm(usize),
    /// From an image with a border to a list without.
    Flatten,
}

impl Layer {
    fn parse(text: &str) -> Option<Self> {
        let (name, size) = text.split_once(' ').unwrap_or((text, ""));
        let size = || size.trim().parse().ok().filter(|size| (1..=MOST_VALUES).contains(size));
        match name {
            "conv" => size().map(Self::Convolution),
            "dense" => size().map(Self::Dense),
            "group-norm" => size().map(Self::GroupNorm),
            _ => match text {
                "pool" => Some(Self::Pool),
                "tanh" => Some(Self::Tanh),
                "relu" => Some(Self::Relu),
                _ => None,
            },
        }
    }
}

/// Values between two layers as they lie in memory: rows of pixels, channels of a pixel together, with zeros behind them up to a whole
/// vector, and around an image a border of zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plane {
    pub(super) image: Image,
    /// Channels with the zeros behind them.
    pub(super) stored: usize,
    /// Pixels around the image: 1 or 0.
    pub(super) border: usize,
}

impl Plane {
    /// Values from a row of pixels to the next.
    pub(super) fn line(&self) -> usize {
        (self.image.width + 2 * self.border) * self.stored
    }

    pub(super) fn len(&self) -> usize {
        (self.image.height + 2 * self.border) * self.line()
    }

    /// The place of the first pixel.
    pub(super) fn first(&self) -> usize {
        self.border * (self.line() + self.stored)
    }
}

/// Parameters `[taps][inputs][outputs]` of a layer: where they lie among all, and where with zeros up to whole vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) taps: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) stored_inputs: usize,
    pub(super) stored_outputs: usize,
    pub(super) start: usize,
    pub(super) stored_start: usize,
}

impl Tensor {
    pub(super) fn len(&self) -> usize {
        self.taps * self.inputs * self.outputs
    }

    pub(super) fn stored(&self) -> std::ops::Range<usize> {
        self.stored_start..self.stored_start + self.taps * self.stored_inputs * self.stored_outputs
    }

    /// The places of rows of `outputs` values, and of the same rows as they are stored.
    pub(super) fn rows(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.taps).flat_map(move |tap| {
            (0..self.inputs).map(move |input| {
                let stored = (tap * self.stored_inputs + input) * self.stored_outputs;
                (self.start + (tap * self.inputs + input) * self.outputs, self.stored_start + stored)
            })
        })
    }
}

/// A layer with its place in a network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    pub(super) layer: Layer,
    /// The planes that it reads and writes; one where it works in place.
    pub(super) input: usize,
    pub(super) output: usize,
    /// Its weights and biases, or scales and shifts.
    pub(super) tensors: Option<[Tensor; 2]>,
}

/// A network for images with classes: layers, then a dense one to the classes and the softmax loss.
///
/// Parameters are those of the layers in their order: of a convolution `[3][3][inputs][outputs]`, of a dense layer `[y][x][inputs][outputs]`, then
/// the biases; of a group norm scales, then shifts. A row is C planes of H × W values; of a pixel x the network reads 2x − 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    text: String,
    pub(super) stages: Vec<Stage>,
    pub(super) planes: Vec<Plane>,
    parameters: usize,
    pub(super) stored_parameters: usize,
    /// Multiplications of a forward pass.
    multiplications: usize,
}

impl Network {
    /// The network that `text` declares for rows of `columns` values and so many classes.
    ///
    /// ```
    /// let network = rounds_kernels::network::Network::new("cnn-550k", 3_072, 10)?;
    /// assert_eq!(network.parameters(), 550_570);
    /// # Ok::<(), rounds_kernels::network::NetworkError>(())
    /// ```
    ///
    /// # Errors
    /// A text that is no list of layers, layers that do not suit each other, rows of another shape, more parameters than memory is made for.
    pub fn new(text: &str, columns: usize, classes: usize) -> Result<Self, NetworkError> {
        let list = NAMED.iter().find(|(name, _)| *name == text).map_or(text, |(_, list)| list);
        let mut words = list.split(',').map(str::trim).peekable();
        let declared = words.next_if(|word| word.starts_with("image "));
        let image = match declared {
            Some(word) => image_of(word).ok_or_else(|| NetworkError::Layer(word.to_owned()))?,
            None => *IMAGES.iter().find(|image| image.values() == columns).ok_or(NetworkError::Shape(columns))?,
        };
        if image.values() != columns {
            return Err(NetworkError::Columns { image, columns });
        }
        if classes < 2 {
            return Err(NetworkError::Outputs);
        }
        let layers = words.map(|word| Layer::parse(word).ok_or_else(|| NetworkError::Layer(word.to_owned())));
        let layers: Vec<Layer> = layers.collect::<Result<_, _>>()?;
        let border = match layers.first() {
            Some(Layer::Convolution(_)) => 1,
            Some(Layer::Dense(_)) => 0,
            _ => return Err(NetworkError::First),
        };
        // Read one by one, pixels of the rows need no whole vectors.
        let plane = Plane { image, stored: image.channels, border };
        let mut network = Self {
            text: text.to_owned(),
            stages: Vec::new(),
            planes: vec![plane],
            parameters: 0,
            stored_parameters: 0,
            multiplications: 0,
        };
        for layer in layers.into_iter().chain([Layer::Dense(classes)]) {
            network.push(layer)?;
        }
        Ok(network)
    }

    fn push(&mut self, layer: Layer) -> Result<(), NetworkError> {
        let last = self.planes.len() - 1;
        let Plane { image, stored, border } = self.planes[last];
        let Image { height, width, channels } = image;
        let misplaced = |name: String| Err(NetworkError::Misplaced(name, image));
        let next = |image: Image, border| Plane { image, stored: image.channels.next_multiple_of(LANES), border };
        let (plane, taps, inputs, outputs, stored_inputs) = match layer {
            Layer::Convolution(filters) if border == 0 => return misplaced(format!("conv {filters}")),
            Layer::Convolution(filters) => {
                (Some(next(Image { channels: filters, ..image }, 1)), 9, channels, filters, stored)
            }
            Layer::Dense(_) if border == 1 => {
                self.push(Layer::Flatten)?;
                return self.push(layer);
            }
            Layer::Dense(units) => {
                let plane = next(Image { height: 1, width: 1, channels: units }, 0);
                (Some(plane), height * width, channels, units, stored)
            }
            Layer::Pool if border == 0 || height < 2 || width < 2 => return misplaced("pool".to_owned()),
            Layer::Pool => {
                let image = Image { height: height / 2, width: width / 2, channels };
                (Some(next(image, 1)), 0, 0, 0, 0)
            }
            Layer::GroupNorm(groups) if !channels.is_multiple_of(groups) => {
                return misplaced(format!("group-norm {groups}"));
            }
            Layer::GroupNorm(_) => (Some(self.planes[last]), 1, 1, channels, 1),
            Layer::Flatten => (Some(Plane { border: 0, ..self.planes[last] }), 0, 0, 0, 0),
            Layer::Tanh | Layer::Relu => (None, 0, 0, 0, 0),
        };
        if let Some(plane) = plane {
            // Before anything is allocated.
            if plane.len() > MOST_VALUES {
                return Err(NetworkError::Size(plane.len(), "values between two layers"));
            }
            self.planes.push(plane);
        }
        let mut tensor = |taps: usize, inputs: usize, stored_inputs: usize| {
            let tensor = Tensor {
                taps,
                inputs,
                outputs,
                stored_inputs,
                stored_outputs: outputs.next_multiple_of(LANES),
                start: self.parameters,
                stored_start: self.stored_parameters,
            };
            self.parameters += tensor.len();
            self.stored_parameters += tensor.stored().len();
            tensor
        };
        let tensors = (taps > 0).then(|| [tensor(taps, inputs, stored_inputs), tensor(1, 1, 1)]);
        if self.parameters > MOST_VALUES {
            return Err(NetworkError::Size(self.parameters, "parameters"));
        }
        let pixels = if matches!(layer, Layer::Convolution(_)) { height * width } else { 1 };
        if matches!(layer, Layer::Convolution(_) | Layer::Dense(_)) {
            self.multiplications += pixels * taps * inputs * outputs;
        }
        self.stages.push(Stage { layer, input: last, output: self.planes.len() - 1, tensors });
        Ok(())
    }

    /// The text that declares it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The shape of the rows.
    pub fn image(&self) -> Image {
        self.planes[0].image
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Number of classes.
    pub fn outputs(&self) -> usize {
        self.planes[self.planes.len() - 1].image.channels
    }

    /// Floating-point operations of the gradient of one row: products forward, of the weights' gradient, and of the values' gradient, which the
    /// first layer does not have.
    pub fn flops(&self) -> f64 {
        let pixels = self.planes[1].image;
        let first = self.stages[0].tensors.map_or(0, |[weights, _]| {
            if self.planes[0].border == 1 { pixels.height * pixels.width * weights.len() } else { weights.len() }
        });
        2.0 * (3 * self.multiplications - first) as f64
    }

    /// Initial weights from a public seed: normal with variance 1 over the number of a unit's inputs, so that values keep their size where
    /// tanh is next to the identity (LeCun, Bottou, Orr and Müller 1998), and twice that before a ReLU, which halves their squares (He et al.
    /// 2015). Biases and shifts are 0, scales 1.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let mut parameters = vec![0.0; self.parameters];
        for (place, stage) in self.stages.iter().enumerate() {
            let Some([weights, _]) = stage.tensors else { continue };
            let values = &mut parameters[weights.start..weights.start + weights.len()];
            if let Layer::GroupNorm(_) = stage.layer {
                values.fill(1.0);
                continue;
            }
            let is_activation = |stage: &&Stage| matches!(stage.layer, Layer::Tanh | Layer::Relu | Layer::Dense(_));
            let following = self.stages[place + 1..].iter().find(is_activation);
            let gain = if following.is_some_and(|stage| stage.layer == Layer::Relu) { 2.0 } else { 1.0 };
            let deviation = (gain / (weights.taps * weights.inputs) as f64).sqrt() as f32;
            fill_gaussian(&StreamKey::Simulation(seed), INITIAL, place as u64, deviation, values);
        }
        parameters
    }
}

/// `image HxWxC`.
fn image_of(word: &str) -> Option<Image> {
    let mut sizes = word.strip_prefix("image ")?.trim().split('x').map(|size| size.parse::<usize>().ok());
    let image = Image { height: sizes.next()??, width: sizes.next()??, channels: sizes.next()?? };
    (sizes.next().is_none() && (1..=MOST_VALUES).contains(&image.values())).then_some(image)
}

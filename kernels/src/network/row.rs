//! The gradient of one row: forward, loss, backward. One row at a time, whatever lies beside it: a row's gradient is a function of its values, its
//! class and the parameters.

use super::elementwise::{self, Normalized};
use super::layers::{Layer, Network, Plane, Stage, Tensor};
use super::product::{Grid, PANEL, Product, Start, Strides};
use crate::features::Rows;
use crate::loss::{Loss, Target};

/// Values of a block of pixels whose products with an image are summed at a time: half of the fastest cache.
const BLOCK_VALUES: usize = 4_096;

/// Parameters as products read them: padded to whole vectors, and in panels. Made once a round.
#[derive(Debug)]
pub struct PackedParameters {
    /// All of them, zeros behind.
    stored: Vec<f32>,
    /// Panels of each stage's weights, and of these transposed, of a convolution with its taps turned.
    panels: Vec<[Vec<f32>; 2]>,
}

impl PackedParameters {
    /// Memory for those of `network`.
    pub fn new(network: &Network) -> Self {
        let panels = network.stages.iter().enumerate().map(|(place, stage)| {
            let Some([weights, _]) = stage.tensors.filter(|_| is_product(stage)) else { return [vec![], vec![]] };
            let Tensor { taps, stored_inputs, stored_outputs, .. } = weights;
            let zeros = |depth: usize, columns: usize| vec![0.0; columns.next_multiple_of(PANEL) * depth];
            let backward = match stage.layer {
                _ if place == 0 => vec![],
                Layer::Dense(_) => zeros(stored_outputs, taps * stored_inputs),
                _ => zeros(taps * stored_outputs, stored_inputs),
            };
            [zeros(taps * stored_inputs, stored_outputs), backward]
        });
        Self { stored: vec![0.0; network.stored_parameters], panels: panels.collect() }
    }

    /// Takes `parameters` in.
    ///
    /// # Panics
    /// Another number of them than the network's.
    pub fn set(&mut self, network: &Network, parameters: &[f32]) {
        assert_eq!(parameters.len(), network.parameters(), "parameters given (left) and of the network (right)");
        for tensor in network.stages.iter().filter_map(|stage| stage.tensors).flatten() {
            for (from, to) in tensor.rows() {
                self.stored[to..to + tensor.outputs].copy_from_slice(&parameters[from..from + tensor.outputs]);
            }
        }
        for (place, (stage, [forward, backward])) in network.stages.iter().zip(&mut self.panels).enumerate() {
            let Some([weights, _]) = stage.tensors.filter(|_| is_product(stage)) else { continue };
            let Tensor { taps, stored_inputs, stored_outputs, .. } = weights;
            let own = &self.stored[weights.stored()];
            fill_panels(forward, (taps * stored_inputs, stored_outputs), |depth, column| {
                own[depth * stored_outputs + column]
            });
            match stage.layer {
                _ if place == 0 => {}
                Layer::Dense(_) => fill_panels(backward, (stored_outputs, taps * stored_inputs), |depth, column| {
                    own[column * stored_outputs + depth]
                }),
                _ => fill_panels(backward, (taps * stored_outputs, stored_inputs), |depth, column| {
                    let (tap, output) = (taps - 1 - depth / stored_outputs, depth % stored_outputs);
                    own[(tap * stored_inputs + column) * stored_outputs + output]
                }),
            }
        }
    }
}

fn is_product(stage: &Stage) -> bool {
    matches!(stage.layer, Layer::Convolution(_) | Layer::Dense(_))
}

/// Writes `of(depth, column)` in panels of [`PANEL`] columns.
fn fill_panels(panels: &mut [f32], (depth, columns): (usize, usize), of: impl Fn(usize, usize) -> f32) {
    for (number, panel) in panels.chunks_exact_mut(depth * PANEL).enumerate() {
        let first = number * PANEL;
        for (place, row) in panel.chunks_exact_mut(PANEL).enumerate() {
            for (value, column) in row.iter_mut().zip(first..columns) {
                *value = of(place, column);
            }
        }
    }
}

/// The values of one row between layers, and their gradients.
#[derive(Debug)]
pub(super) struct Pass {
    values: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    normalized: Vec<Normalized>,
    pixels: Vec<f32>,
    /// Outputs, then residuals.
    outputs: Vec<f64>,
}

const ONE: Grid = Grid { outer: 1, inner: 1 };
const NONE: Strides = Strides { outer: 0, inner: 0 };

/// The pixels of a plane.
fn grid(plane: Plane) -> Grid {
    Grid { outer: plane.image.height, inner: plane.image.width }
}

fn lines(plane: Plane) -> Strides {
    Strides { outer: plane.line(), inner: plane.stored }
}

/// The 3 × 3 pixels around one of a plane, of which three of a line lie together.
fn window(plane: Plane) -> (Grid, Strides) {
    (Grid { outer: 3, inner: 3 * plane.stored }, Strides { outer: plane.line(), inner: 1 })
}

/// The convolution of an image of the plane `from` with weights in panels.
fn convolution(from: Plane, to: Plane) -> Product {
    let (depth, a_depth) = window(from);
    Product {
        rows: grid(to),
        depth,
        columns: to.stored,
        a_rows: lines(from),
        a_depth,
        b_depth: Strides { outer: depth.inner * PANEL, inner: PANEL },
        b_panel: depth.outer * depth.inner * PANEL,
        c_rows: lines(to),
    }
}

/// A list of values times a matrix in panels.
fn dense(inputs: usize, outputs: usize) -> Product {
    Product {
        rows: ONE,
        depth: Grid { outer: 1, inner: inputs },
        columns: outputs,
        a_rows: NONE,
        a_depth: Strides { outer: 0, inner: 1 },
        b_depth: Strides { outer: 0, inner: PANEL },
        b_panel: inputs * PANEL,
        c_rows: Strides { outer: 0, inner: outputs },
    }
}

/// The gradient of a convolution's weights: images times gradients, over their pixels.
fn weights_of_convolution(from: Plane, to: Plane, pixels: Grid) -> Product {
    let (rows, a_rows) = window(from);
    Product {
        rows,
        depth: pixels,
        columns: to.stored,
        a_rows,
        a_depth: lines(from),
        b_depth: lines(to),
        b_panel: PANEL,
        c_rows: Strides { outer: rows.inner * to.stored, inner: to.stored },
    }
}

/// The gradient of a dense layer's weights.
fn weights_of_dense(inputs: usize, outputs: usize) -> Product {
    Product {
        rows: Grid { outer: 1, inner: inputs },
        depth: ONE,
        columns: outputs,
        a_rows: Strides { outer: 0, inner: 1 },
        a_depth: NONE,
        b_depth: NONE,
        b_panel: PANEL,
        c_rows: Strides { outer: 0, inner: outputs },
    }
}

impl Pass {
    pub(super) fn new(network: &Network) -> Self {
        let zeros = || network.planes.iter().map(|plane| vec![0.0; plane.len()]).collect();
        Self {
            values: zeros(),
            gradients: zeros(),
            normalized: vec![Normalized::default(); network.stages.len()],
            pixels: vec![0.0; network.image().values()],
            outputs: vec![0.0; network.outputs()],
        }
    }

    /// The outputs for a row.
    pub(super) fn forward(
        &mut self,
        network: &Network,
        parameters: &PackedParameters,
        (rows, row): (Rows<'_>, usize),
    ) -> &[f64] {
        rows.widen(row, &mut self.pixels);
        let plane = network.planes[0];
        let channels = plane.image.channels;
        for (channel, pixels) in self.pixels.chunks_exact(plane.image.values() / channels).enumerate() {
            for (y, line) in pixels.chunks_exact(plane.image.width).enumerate() {
                let start = plane.first() + y * plane.line() + channel;
                let places = (start..).step_by(channels);
                line.iter().zip(places).for_each(|(pixel, place)| self.values[0][place] = 2.0 * pixel - 1.0);
            }
        }
        for (place, stage) in network.stages.iter().enumerate() {
            let (from, to) = (network.planes[stage.input], network.planes[stage.output]);
            let panels = &parameters.panels[place][0];
            let own = stage.tensors.map(|tensors| tensors.map(|tensor| &parameters.stored[tensor.stored()]));
            let (before, behind) = self.values.split_at_mut(stage.output);
            let (input, output) = (before.get(stage.input), &mut behind[0]);
            match (stage.layer, own, input) {
                (Layer::Tanh, ..) => elementwise::tanh_of(output),
                (Layer::Relu, ..) => elementwise::relu_of(output),
                (Layer::Convolution(_), Some([_, bias]), Some(input)) => {
                    convolution(from, to).run(input, panels, &mut output[to.first()..], Start::Bias(bias));
                }
                (Layer::Dense(_), Some([_, bias]), Some(input)) => {
                    dense(from.len(), to.stored).run(input, panels, output, Start::Bias(bias));
                }
                (Layer::Pool, _, Some(input)) => elementwise::pool((from, input), (to, output)),
                (Layer::GroupNorm(groups), Some(own), Some(input)) => {
                    elementwise::group_norm(from, groups, input, own, &mut self.normalized[place], output);
                }
                (Layer::Flatten, _, Some(input)) => copy((from, input), (to, output)),
                _ => unreachable!("a layer with its tensors and its input"),
            }
        }
        let outputs = &self.values[network.planes.len() - 1];
        self.outputs.iter_mut().zip(outputs).for_each(|(out, &value)| *out = f64::from(value));
        &self.outputs
    }

    /// Adds a coefficient times the gradient of the row whose outputs are there to `sum`, or writes it where that holds nothing yet. False
    /// where an output is not finite.
    pub(super) fn backward(
        &mut self,
        network: &Network,
        (parameters, coefficient): (&PackedParameters, f32),
        class: u32,
        (sum, is_sum): (&mut [f32], bool),
    ) -> bool {
        Loss::Softmax.residual(&mut self.outputs, Target::Class(class as usize));
        if self.outputs.iter().any(|residual| !residual.is_finite()) {
            return false;
        }
        let last = network.planes.len() - 1;
        let residuals = self.outputs.iter().map(|residual| (residual * f64::from(coefficient)) as f32);
        self.gradients[last].iter_mut().zip(residuals).for_each(|(out, residual)| *out = residual);
        let start = if is_sum { Start::Sum } else { Start::Zero };
        for (place, stage) in network.stages.iter().enumerate().rev() {
            let (from, to) = (network.planes[stage.input], network.planes[stage.output]);
            let panels = &parameters.panels[place][1];
            let (before, behind) = self.gradients.split_at_mut(stage.output);
            let output = &mut behind[0];
            let values = &self.values[stage.output];
            match stage.layer {
                Layer::Tanh => {
                    elementwise::tanh_gradient(output, values);
                    continue;
                }
                Layer::Relu => {
                    elementwise::relu_gradient(output, values);
                    continue;
                }
                _ => {}
            }
            let (input, input_values) = (&mut before[stage.input], &self.values[stage.input]);
            let Some([weights, biases]) = stage.tensors else {
                match stage.layer {
                    Layer::Pool => elementwise::pool_gradient((from, input_values, input), (to, values, output)),
                    _ => copy((to, output), (from, input)),
                }
                continue;
            };
            let (of_weights, of_biases) = sum.split_at_mut(biases.stored_start);
            let (of_weights, of_biases) = (&mut of_weights[weights.stored()], &mut of_biases[..biases.stored_outputs]);
            if !is_sum {
                of_biases.fill(0.0);
            }
            if let Layer::GroupNorm(groups) = stage.layer {
                if !is_sum {
                    of_weights.fill(0.0);
                }
                let (scales, of_both) = (&parameters.stored[weights.stored()], [of_weights, of_biases]);
                let normalized = &self.normalized[place];
                elementwise::group_norm_gradient((from, groups), normalized, output, scales, of_both, input);
                continue;
            }
            add_pixels((to, output), of_biases);
            if let Layer::Dense(_) = stage.layer {
                weights_of_dense(from.len(), to.stored).run(input_values, output, of_weights, start);
                if place > 0 {
                    dense(to.stored, from.len()).run(output, panels, input, Start::Zero);
                }
                continue;
            }
            let Grid { outer: height, inner: width } = grid(to);
            let block = (BLOCK_VALUES / (width * to.stored)).clamp(1, height);
            for first in (0..height).step_by(block) {
                let pixels = Grid { outer: block.min(height - first), inner: width };
                let (images, own) = (&input_values[first * from.line()..], &output[to.first() + first * to.line()..]);
                let start = if first > 0 { Start::Sum } else { start };
                weights_of_convolution(from, to, pixels).run(images, own, of_weights, start);
            }
            if place > 0 {
                convolution(to, from).run(output, panels, &mut input[from.first()..], Start::Zero);
            }
        }
        true
    }
}

/// The pixels of a plane in another one of the same image.
fn copy((from, values): (Plane, &[f32]), (to, out): (Plane, &mut [f32])) {
    let length = from.image.width * from.stored;
    for y in 0..from.image.height {
        let [source, target] = [from, to].map(|plane| plane.first() + y * plane.line());
        out[target..target + length].copy_from_slice(&values[source..source + length]);
    }
}

/// `sum += Σ` over the pixels of a plane.
fn add_pixels((plane, values): (Plane, &[f32]), sum: &mut [f32]) {
    for y in 0..plane.image.height {
        let start = plane.first() + y * plane.line();
        for pixel in values[start..start + plane.image.width * plane.stored].chunks_exact(plane.stored) {
            sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
    }
}

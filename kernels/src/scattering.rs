//! The scattering transform of images: moduli of wavelet coefficients, of the image and of these moduli, averaged over squares.
//!
//! ```text
//! S₀ = x ∗ φ,   S₁(λ) = |x ∗ ψ_λ| ∗ φ,   S₂(λ, μ) = ||x ∗ ψ_λ| ∗ ψ_μ| ∗ φ,   j(λ) < j(μ) < J,
//! ```
//!
//! each sampled every 2^J pixels (Bruna and Mallat 2013). ψ_λ are Morlet wavelets of J scales and L angles, φ a Gaussian, all as
//! `Scattering2D` of Kymatio 0.3 (Andreux et al. 2020) has them: its filters, periodic and cropped in frequency, its reflection at the
//! borders, its order of channels (S₀, S₁ by λ, S₂ by λ and then μ; λ by scale and then angle), and its 3.1415 for π in a norm.
//!
//! Sixteen images are transformed at once, one a lane of each vector, by the same operations: no image enters another one's
//! coefficients, and they have the same bits in every lane and beside any others. φ is separable, so that averages are products of small
//! matrices; only wavelets take Fourier transforms.

use std::f64::consts::PI;

use wide::f32x16;

use crate::vector::lanes::LANES;

/// The longest side of an image.
pub const MOST_PIXELS: usize = 1000;
/// The most scales: 2^J is then at most [`MOST_PIXELS`].
pub const MOST_SCALES: usize = 9;
/// Factors of a padded side are at most this: it is even, and at most [`MOST_PIXELS`] + 4.
const MOST_FACTOR: usize = MOST_PIXELS / 2 + 2;
/// L, which the filters are designed for.
const ANGLES: usize = 8;

#[derive(Clone, Copy)]
struct Complex {
    re: f32x16,
    im: f32x16,
}

impl Complex {
    const ZERO: Self = Self { re: f32x16::ZERO, im: f32x16::ZERO };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }

    /// `self + factor·other`.
    #[inline(always)]
    fn plus_times(self, factor: f32, other: Self) -> Self {
        let factor = f32x16::splat(factor);
        Self { re: factor.mul_add(other.re, self.re), im: factor.mul_add(other.im, self.im) }
    }

    /// `−i·self`.
    #[inline(always)]
    fn turned(self) -> Self {
        Self { re: self.im, im: -self.re }
    }

    #[inline(always)]
    fn times(self, [re, im]: [f32; 2]) -> Self {
        let (re, im) = (f32x16::splat(re), f32x16::splat(im));
        Self { re: re.mul_add(self.re, -(im * self.im)), im: re.mul_add(self.im, im * self.re) }
    }
}

/// A line of values in memory: the first one, and the distance between two.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    stride: usize,
}

/// One pass of a transform of length n: its radix r, `m` twiddles for each of the outputs 1..r, and cosines and sines of r-th roots.
struct Pass {
    radix: usize,
    blocks: usize,
    twiddles: Vec<[f32; 2]>,
    roots: Vec<[f32; 2]>,
}

/// The discrete Fourier transform of one length (sign −1) or its inverse (sign 1) without the factor 1/n, by Stockham's passes.
struct Fourier {
    length: usize,
    sign: f64,
    passes: Vec<Pass>,
}

impl Fourier {
    fn new(length: usize, sign: f64) -> Self {
        let mut rest = length;
        let mut passes = Vec::new();
        while rest > 1 {
            let radix = [4, 2].into_iter().find(|of: &usize| rest.is_multiple_of(*of));
            let radix = radix.unwrap_or_else(|| {
                (3..).step_by(2).find(|of: &usize| rest.is_multiple_of(*of)).expect("it divides itself")
            });
            let root = |power: usize, of: usize| {
                let angle = sign * 2.0 * PI * (power % of) as f64 / of as f64;
                [angle.cos() as f32, angle.sin() as f32]
            };
            let blocks = rest / radix;
            let twiddles = (0..blocks).flat_map(|block| (0..radix).map(move |output| (block, output)));
            passes.push(Pass {
                radix,
                blocks,
                twiddles: twiddles.map(|(block, output)| root(block * output, rest)).collect(),
                roots: (0..radix).map(|power| root(power, radix)).collect(),
            });
            rest = blocks;
        }
        Self { length, sign, passes }
    }

    /// Transforms a line of `data` in place.
    fn line(&self, data: &mut [Complex], at: Line, scratch: &mut [Complex]) {
        let (mut one, mut other) = scratch[..2 * self.length].split_at_mut(self.length);
        let own = Line { start: 0, stride: 1 };
        let (mut groups, last) = (1, self.passes.len() - 1);
        for (number, pass) in self.passes.iter().enumerate() {
            match (number == 0, number == last) {
                (true, _) => self.pass(pass, groups, (data, at), (one, own)),
                (_, true) => self.pass(pass, groups, (one, own), (data, at)),
                _ => {
                    self.pass(pass, groups, (one, own), (other, own));
                    std::mem::swap(&mut one, &mut other);
                }
            }
            groups *= pass.radix;
        }
        if last == 0 {
            (0..self.length).for_each(|k| data[at.start + k * at.stride] = one[k]);
        }
    }

    fn pass(&self, pass: &Pass, groups: usize, from: (&[Complex], Line), to: (&mut [Complex], Line)) {
        match pass.radix {
            2 => self.butterflies::<2>(2, pass, groups, from, to),
            3 => self.butterflies::<3>(3, pass, groups, from, to),
            4 => self.butterflies::<4>(4, pass, groups, from, to),
            5 => self.butterflies::<5>(5, pass, groups, from, to),
            radix => self.butterflies::<MOST_FACTOR>(radix, pass, groups, from, to),
        }
    }

    /// Butterflies of `radix` inputs, at most R.
    #[inline(always)]
    fn butterflies<const R: usize>(
        &self,
        radix: usize,
        pass: &Pass,
        groups: usize,
        (from, of_from): (&[Complex], Line),
        (to, of_to): (&mut [Complex], Line),
    ) {
        let mut x = [Complex::ZERO; R];
        let mut y = [Complex::ZERO; R];
        for block in 0..pass.blocks {
            let twiddles = &pass.twiddles[block * radix..][..radix];
            for group in 0..groups {
                for j in 0..radix {
                    x[j] = from[of_from.start + (group + groups * (block + pass.blocks * j)) * of_from.stride];
                }
                match radix {
                    2 => (y[0], y[1]) = (x[0].plus(x[1]), x[0].minus(x[1])),
                    4 => {
                        let (even, odd) = (x[0].plus(x[2]), x[1].plus(x[3]));
                        let (left, right) = (x[0].minus(x[2]), x[1].minus(x[3]).turned());
                        (y[0], y[2]) = (even.plus(odd), even.minus(odd));
                        (y[1], y[3]) = (left.plus(right), left.minus(right));
                        if self.sign > 0.0 {
                            y.swap(1, 3);
                        }
                    }
                    _ => odd(&x[..radix], &pass.roots, &mut y[..radix]),
                }
                for k in 0..radix {
                    let value = if block == 0 || k == 0 { y[k] } else { y[k].times(twiddles[k]) };
                    to[of_to.start + (group + groups * (radix * block + k)) * of_to.stride] = value;
                }
            }
        }
    }
}

/// The transform of an odd number of values: `y_k, y_{r−k} = x₀ + Σ_j cos(2πjk/r)·(x_j + x_{r−j}) ± i·Σ_j sin(2πjk/r)·(x_j − x_{r−j})`.
#[inline(always)]
fn odd(x: &[Complex], roots: &[[f32; 2]], y: &mut [Complex]) {
    let radix = x.len();
    y[0] = x[1..].iter().fold(x[0], |sum, &x| sum.plus(x));
    for k in 1..=radix / 2 {
        let (mut cosines, mut sines) = (x[0], Complex::ZERO);
        for j in 1..=radix / 2 {
            let [cos, sin] = roots[j * k % radix];
            cosines = cosines.plus_times(cos, x[j].plus(x[radix - j]));
            sines = sines.plus_times(sin, x[j].minus(x[radix - j]));
        }
        let turned = sines.turned();
        (y[k], y[radix - k]) = (cosines.minus(turned), cosines.plus(turned));
    }
}

/// Sides of the padded image at a resolution, and the transforms along them.
struct Level {
    sides: [usize; 2],
    forward: [Fourier; 2],
    inverse: [Fourier; 2],
    /// Of each side the matrix, outputs × side, that averages by φ and samples.
    average: [Vec<f32>; 2],
}

impl Level {
    fn transform(fourier: &[Fourier; 2], data: &mut [Complex], scratch: &mut [Complex]) {
        let [rows, columns] = [fourier[0].length, fourier[1].length];
        for row in 0..rows {
            fourier[1].line(data, Line { start: row * columns, stride: 1 }, scratch);
        }
        for column in 0..columns {
            fourier[0].line(data, Line { start: column, stride: columns }, scratch);
        }
    }
}

/// The transform of images of one size.
pub struct Scattering {
    sides: [usize; 2],
    /// Pixels of the image that the padded one repeats, along each side.
    reflected: [Vec<usize>; 2],
    scales: usize,
    levels: Vec<Level>,
    /// In frequency, with the factor of the inverse transform: by scale, angle and level of the input.
    wavelets: Vec<Vec<Vec<Vec<f32>>>>,
}

/// Memory of a transform.
pub struct Workspace {
    image: Vec<f32x16>,
    out: Vec<f32x16>,
    moduli: [Vec<f32x16>; 2],
    narrow: Vec<f32x16>,
    scratch: Vec<Complex>,
    spectrum: Vec<Complex>,
    field: Vec<Complex>,
    spectra: [Vec<Complex>; 2],
}

impl Scattering {
    /// The transform of images of these sides with J scales; `None` where it has none: 2^J is above a side, a side above
    /// [`MOST_PIXELS`], no scale.
    pub fn new(sides: [usize; 2], scales: usize) -> Option<Self> {
        let fits = |side: usize| side <= MOST_PIXELS && side >> scales > 0;
        if scales == 0 || scales > MOST_SCALES || !sides.into_iter().all(fits) {
            return None;
        }
        let padded = sides.map(|side| ((side >> scales) + 2) << scales);
        let level = |level: usize| {
            let sides = padded.map(|side| side >> level);
            Level {
                sides,
                forward: sides.map(|side| Fourier::new(side, -1.0)),
                inverse: sides.map(|side| Fourier::new(side, 1.0)),
                average: padded.map(|side| average(side, scales, level)),
            }
        };
        let reflected = |axis: usize| {
            let (side, before) = (sides[axis], (padded[axis] - sides[axis]) / 2);
            let period = 2 * (side - 1).max(1);
            let pixel = |place: usize| (place + period * padded[axis] - before) % period;
            (0..padded[axis]).map(|place| pixel(place).min(period - pixel(place)).min(side - 1)).collect()
        };
        Some(Self {
            sides,
            reflected: [reflected(0), reflected(1)],
            scales,
            levels: (0..scales).map(level).collect(),
            wavelets: (0..scales)
                .map(|scale| (0..ANGLES).map(|angle| wavelet(padded, scale, angle)).collect())
                .collect(),
        })
    }

    /// Channels of an image: 1 + 8·J + 64·J(J − 1)/2.
    pub fn channels(&self) -> usize {
        1 + ANGLES * self.scales + ANGLES * ANGLES * self.scales * (self.scales - 1) / 2
    }

    /// Sides of a channel.
    pub fn outputs(&self) -> [usize; 2] {
        self.sides.map(|side| side >> self.scales)
    }

    /// Coefficients of an image.
    pub fn coefficients(&self) -> usize {
        self.channels() * self.outputs().iter().product::<usize>()
    }

    /// Normalises the coefficients of the images (colours, say) of one row: those of all images in channels that differ in the last angle alone
    /// are a group of their own, `x ↦ (x − μ)/√(σ² + 10⁻⁵)` with its mean and variance.
    ///
    /// In exact arithmetic a group of m values has a norm of at most √m, since `Σ(x − μ)² = m·σ²`: a row of d values has one of at most √d.
    ///
    /// # Panics
    /// A part of an image.
    pub fn normalize(&self, row: &mut [f32]) {
        let (of_image, squares) = (self.coefficients(), self.outputs().iter().product::<usize>());
        assert!(row.len().is_multiple_of(of_image), "whole images");
        // The first channel has no angle, and each of the others' angles come one after the other.
        let starts = std::iter::once(0).chain((1..self.channels()).step_by(ANGLES));
        for start in starts {
            let group = start * squares..if start == 0 { squares } else { (start + ANGLES) * squares };
            let size = (row.len() / of_image * group.len()) as f32;
            // Sixteen sums side by side, each of every sixteenth value.
            let sum = |of: &dyn Fn(f32x16) -> f32x16| {
                let images = row.chunks_exact(of_image).map(|image| &image[group.clone()]);
                let (mut lanes, mut rest) = (f32x16::ZERO, 0.0);
                for part in images {
                    let (whole, tail) = part.as_chunks::<LANES>();
                    lanes = whole.iter().fold(lanes, |sum, &values| sum + of(f32x16::new(values)));
                    rest = tail.iter().fold(rest, |sum, &value| sum + of(f32x16::splat(value)).as_array()[0]);
                }
                lanes.to_array().iter().fold(rest, |sum, value| sum + value) / size
            };
            let mean = sum(&|values| values);
            let variance = sum(&|values| (values - f32x16::splat(mean)) * (values - f32x16::splat(mean)));
            let factor = 1.0 / (variance + 1e-5).sqrt();
            for image in row.chunks_exact_mut(of_image) {
                image[group.clone()].iter_mut().for_each(|value| *value = (*value - mean) * factor);
            }
        }
    }

    /// Memory of a transform, for one thread.
    pub fn workspace(&self) -> Workspace {
        let [rows, columns] = self.levels[0].sides;
        let (real, complex) = (vec![f32x16::ZERO; rows * columns], vec![Complex::ZERO; rows * columns]);
        Workspace {
            image: vec![f32x16::ZERO; self.sides.iter().product()],
            out: vec![f32x16::ZERO; self.coefficients()],
            moduli: [real.clone(), real],
            narrow: vec![f32x16::ZERO; rows * self.outputs()[1]],
            scratch: vec![Complex::ZERO; 2 * rows.max(columns)],
            spectrum: complex.clone(),
            field: complex.clone(),
            spectra: [complex.clone(), complex],
        }
    }

    /// Writes the coefficients, `channels × rows × columns`, of up to sixteen images, row-major, one after the other.
    ///
    /// Of pixels in [−1, 1] coefficients err by at most 10⁻⁵ of the transform in exact arithmetic.
    ///
    /// # Panics
    /// Other lengths; more than sixteen images.
    pub fn transform(&self, images: &[f32], coefficients: &mut [f32], memory: &mut Workspace) {
        let (pixels, outputs) = (memory.image.len(), self.coefficients());
        let count = images.len() / pixels;
        assert!(
            count <= LANES && images.len() == count * pixels && coefficients.len() == count * outputs,
            "whole images"
        );
        for (pixel, lanes) in memory.image.iter_mut().enumerate() {
            let of = |lane: usize| if lane < count { images[lane * pixels + pixel] } else { 0.0 };
            *lanes = f32x16::new(std::array::from_fn(of));
        }
        self.in_lanes(memory);
        for (place, lanes) in memory.out.iter().enumerate() {
            let lanes = lanes.as_array();
            (0..count).for_each(|lane| coefficients[lane * outputs + place] = lanes[lane]);
        }
    }

    /// [`transform`](Self::transform) from the memory's image to its outputs.
    fn in_lanes(&self, memory: &mut Workspace) {
        let Workspace { image, out, moduli: [first, second], narrow, scratch, spectrum, field, spectra } = memory;
        let squares = self.outputs().iter().product::<usize>();
        let (mut out, channels) = (out.chunks_exact_mut(squares).collect::<Vec<_>>(), ANGLES * self.scales);
        let whole = &self.levels[0];
        for (row, &of_row) in self.reflected[0].iter().enumerate() {
            for (column, &of_column) in self.reflected[1].iter().enumerate() {
                let (place, pixel) = (row * whole.sides[1] + column, image[of_row * self.sides[1] + of_column]);
                (first[place], spectrum[place]) = (pixel, Complex { re: pixel, im: f32x16::ZERO });
            }
        }
        self.average(0, first, narrow, out[0]);
        Level::transform(&whole.forward, spectrum, scratch);
        let mut channel = channels + 1;
        for scale in 0..self.scales {
            // Two moduli, which are real, have one complex transform.
            for pair in (0..ANGLES).step_by(2) {
                let both = [first.as_mut_slice(), second.as_mut_slice()].into_iter().zip(pair..ANGLES);
                for (modulus, angle) in both {
                    self.modulus((0, spectrum), (scale, angle), field, modulus, scratch);
                    self.average(scale, modulus, narrow, out[1 + scale * ANGLES + angle]);
                }
                if scale + 1 == self.scales {
                    continue;
                }
                let level = &self.levels[scale];
                let field = &mut field[..level.sides[0] * level.sides[1]];
                for (place, value) in field.iter_mut().enumerate() {
                    *value = Complex { re: first[place], im: second[place] };
                }
                Level::transform(&level.forward, field, scratch);
                split(level.sides, field, spectra);
                for spectrum in &*spectra {
                    for coarser in scale + 1..self.scales {
                        for angle in 0..ANGLES {
                            self.modulus((scale, spectrum), (coarser, angle), field, first, scratch);
                            self.average(coarser, first, narrow, out[channel]);
                            channel += 1;
                        }
                    }
                }
            }
        }
    }

    /// `|x ∗ ψ|` at the wavelet's resolution, of the spectrum of x at a level.
    fn modulus(
        &self,
        (level, spectrum): (usize, &[Complex]),
        (scale, angle): (usize, usize),
        field: &mut [Complex],
        modulus: &mut [f32x16],
        scratch: &mut [Complex],
    ) {
        let (wavelet, [_, width]) = (&self.wavelets[scale][angle][level], self.levels[level].sides);
        let (to, folds) = (&self.levels[scale], 1 << (scale - level));
        let [rows, columns] = to.sides;
        let field = &mut field[..rows * columns];
        // To sample is to add up frequencies that become one.
        for row in 0..rows {
            let out = &mut field[row * columns..][..columns];
            out.fill(Complex::ZERO);
            for (fold, of_row) in (0..folds * folds).map(|fold| (fold % folds, row + fold / folds * rows)) {
                let from = of_row * width + fold * columns..of_row * width + (fold + 1) * columns;
                for ((out, &value), &factor) in out.iter_mut().zip(&spectrum[from.clone()]).zip(&wavelet[from]) {
                    *out = out.plus_times(factor, value);
                }
            }
        }
        Level::transform(&to.inverse, field, scratch);
        for (modulus, value) in modulus.iter_mut().zip(field) {
            *modulus = value.re.mul_add(value.re, value.im * value.im).sqrt();
        }
    }

    /// Averages by φ, of every 2^J pixels of the image that was padded.
    fn average(&self, level: usize, values: &[f32x16], narrow: &mut [f32x16], out: &mut [f32x16]) {
        let Level { sides: [rows, columns], average: [of_rows, of_columns], .. } = &self.levels[level];
        let width = self.outputs()[1];
        for row in 0..*rows {
            let values = &values[row * columns..][..*columns];
            product(of_columns, values, (&mut narrow[row..], *rows));
        }
        for column in 0..width {
            product(of_rows, &narrow[column * rows..][..*rows], (&mut out[column..], width));
        }
    }
}

/// Writes a row-major matrix times a vector, every `stride`-th value of `out`.
fn product(matrix: &[f32], values: &[f32x16], (out, stride): (&mut [f32x16], usize)) {
    let mut rows = matrix.chunks_exact(values.len()).enumerate();
    loop {
        // Four sums at once: a sum's next term waits for its last one.
        let four: [_; 4] = std::array::from_fn(|_| rows.next());
        let Some((first, row)) = four[0] else { return };
        let of = |part: Option<(usize, _)>| part.map_or(row, |(_, row)| row);
        let (rows, mut sums) = (four.map(of), [f32x16::ZERO; 4]);
        for (column, &value) in values.iter().enumerate() {
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = f32x16::splat(row[column]).mul_add(value, *sum);
            }
        }
        let written = four.iter().flatten().count();
        sums[..written].iter().enumerate().for_each(|(row, &sum)| out[(first + row) * stride] = sum);
    }
}

/// The spectra of two real images of that of the complex one: `(Z_k + Z̄_{−k})/2` and `(Z_k − Z̄_{−k})/2i`.
fn split([rows, columns]: [usize; 2], both: &[Complex], [one, other]: &mut [Vec<Complex>; 2]) {
    let half = f32x16::splat(0.5);
    for row in 0..rows {
        let mirrored = (rows - row) % rows * columns;
        for column in 0..columns {
            let (place, mirror) = (row * columns + column, both[mirrored + (columns - column) % columns]);
            let value = both[place];
            one[place] = Complex { re: half * (value.re + mirror.re), im: half * (value.im - mirror.im) };
            other[place] = Complex { re: half * (value.im + mirror.im), im: half * (mirror.re - value.re) };
        }
    }
}

#[expect(clippy::approx_constant, reason = "Kymatio's norm of filters has it for π")]
const ABOUT_PI: f64 = 3.1415;
const NORM: f64 = PI / ABOUT_PI;

/// Frequencies that a sampled filter adds up: those of ±2 periods, beyond which filters are below 10⁻¹².
const ALIASES: [f64; 5] = [-2.0, -1.0, 0.0, 1.0, 2.0];

/// The frequency that stands at `place` of `side` ones after cropping to the lowest of them, of a filter sampled at `whole` pixels.
fn frequency(place: usize, side: usize, whole: usize) -> f64 {
    let place = if place < side / 2 { place } else { place + whole - side };
    2.0 * PI * place as f64 / whole as f64
}

/// The matrix that averages a side by φ, a Gaussian of σ = 0.8·2^(J−1) pixels, and samples every 2^J pixels of the unpadded image.
fn average(padded: usize, scales: usize, level: usize) -> Vec<f32> {
    let (side, sigma) = (padded >> level, 0.8 * f64::from(1 << (scales - 1)));
    let gaussian = |alias: f64, of: f64| (-0.5 * (sigma * (of + 2.0 * PI * alias)).powi(2)).exp();
    let of = |place| ALIASES.iter().map(|&alias| gaussian(alias, frequency(place, side, padded))).sum::<f64>();
    let spectrum: Vec<f64> = (0..side).map(of).collect();
    let weight = |distance: usize| {
        let angle = |place: usize| 2.0 * PI * (place * distance % side) as f64 / side as f64;
        let sum: f64 = spectrum.iter().enumerate().map(|(place, value)| value * angle(place).cos()).sum();
        (NORM.sqrt() * sum / side as f64) as f32
    };
    let weights: Vec<f32> = (0..side).map(weight).collect();
    let step = 1 << (scales - level);
    let outputs = 1..(padded >> scales) - 1;
    outputs
        .flat_map(|output| (0..side).map(move |pixel| (output * step + side - pixel) % side))
        .map(|at| weights[at])
        .collect()
}

/// A Morlet wavelet in frequency, at the resolutions of the images that it meets, with the factor of the inverse transform:
///
/// ```text
/// ψ̂(ω) = Ĝ(ω − ξ) − κ·Ĝ(ω),   Ĝ(ω) = exp(−σ²(ω_∥² + (L/4)²·ω_⊥²)/2),   σ = 0.8·2^j,   |ξ| = 3π/(4·2^j),
/// ```
///
/// κ such that ψ̂(0) = 0, and ω_∥ along ξ, which lies at the angle (L/2 − 1 − l)·π/L from the first axis. (A Gaussian's transform is one;
/// sampling adds up periods.)
fn wavelet(padded: [usize; 2], scale: usize, angle: usize) -> Vec<Vec<f32>> {
    let size = f64::from(1 << scale);
    let (sigma, center, slant) = (0.8 * size, 0.75 * PI / size, ANGLES as f64 / 4.0);
    let (sin, cos) = ((ANGLES as f64 / 2.0 - 1.0 - angle as f64) * PI / ANGLES as f64).sin_cos();
    let gaussian = |along: f64, across: f64| (-0.5 * sigma * sigma * (along * along + (slant * across).powi(2))).exp();
    // At a frequency, with and without ξ.
    let sums = |row: f64, column: f64| {
        let mut sums = [0.0; 2];
        for (of_row, of_column) in ALIASES.iter().flat_map(|row| ALIASES.iter().map(move |column| (row, column))) {
            let (row, column) = (row + 2.0 * PI * of_row, column + 2.0 * PI * of_column);
            let (along, across) = (row * cos + column * sin, column * cos - row * sin);
            sums[0] += gaussian(along - center, across);
            sums[1] += gaussian(along, across);
        }
        sums
    };
    let at_zero = sums(0.0, 0.0);
    let at_level = |level: usize| {
        let sides = padded.map(|side| side >> level);
        let factor = NORM / (sides[0] * sides[1]) as f64;
        let value = |place: usize| {
            let place = [place / sides[1], place % sides[1]];
            let [row, column] = [0, 1].map(|axis| frequency(place[axis], sides[axis], padded[axis]));
            let [with, without] = sums(row, column);
            (factor * (with - at_zero[0] / at_zero[1] * without)) as f32
        };
        (0..sides[0] * sides[1]).map(value).collect()
    };
    (0..scale.max(1)).map(at_level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image([rows, columns]: [usize; 2]) -> Vec<f32> {
        let pixel = |row: usize, column: usize| ((row * 7 + column * 13 + row * column) % 29) as f32 / 28.0;
        (0..rows).flat_map(|row| (0..columns).map(move |column| pixel(row, column))).collect()
    }

    fn coefficients(scattering: &Scattering, images: &[f32]) -> Vec<f32> {
        let count = images.len() / scattering.sides.iter().product::<usize>();
        let mut found = vec![0.0; count * scattering.coefficients()];
        scattering.transform(images, &mut found, &mut scattering.workspace());
        found
    }

    /// `Scattering2D(J, shape)(x)` of Kymatio 0.3.0 (NumPy 2.4, SciPy 1.16) at (channel, row, column), x in double precision.
    #[test]
    fn coefficients_are_kymatios() {
        let of_two: &[(usize, usize, usize, f64)] = &[
            (0, 0, 0, 0.435_627_087),
            (1, 3, 5, 0.091_770_109),
            (4, 5, 6, 0.040_186_489),
            (8, 3, 5, 0.079_130_599),
            (9, 6, 3, 0.028_017_088),
            (12, 1, 4, 0.018_009_746),
            (16, 6, 3, 0.024_098_518),
            (17, 2, 1, 0.006_276_389),
            (18, 5, 6, 0.012_997_494),
            (24, 2, 1, 0.006_125_154),
            (25, 5, 6, 0.010_265_818),
            (50, 3, 5, 0.006_637_681),
            (80, 2, 1, 0.005_300_837),
        ];
        let of_three = &[
            (0, 0, 0, 0.459_409_569),
            (1, 0, 2, 0.073_812_775),
            (9, 0, 0, 0.021_661_930),
            (17, 0, 1, 0.012_398_780),
            (25, 0, 2, 0.006_184_520),
            (88, 0, 2, 0.008_132_123),
            (89, 0, 1, 0.002_777_064),
            (100, 0, 2, 0.002_014_890),
            (160, 0, 2, 0.004_427_828),
            (216, 0, 0, 0.004_772_955),
        ];
        for (sides, scales, channels, expected) in [([28, 28], 2, 81, of_two), ([24, 28], 3, 217, of_three)] {
            let scattering = Scattering::new(sides, scales).unwrap();
            let [rows, columns] = scattering.outputs();
            assert_eq!((scattering.channels(), rows, columns), (channels, sides[0] >> scales, sides[1] >> scales));
            let found = coefficients(&scattering, &image(sides));
            for &(channel, row, column, value) in expected {
                let found = f64::from(found[(channel * rows + row) * columns + column]);
                assert!((found - value).abs() < 1e-6, "{scales} {channel}: {found} is not {value}");
            }
        }
    }

    /// Complex images in double precision, by their definitions: sums over all pixels.
    mod direct {
        use std::f64::consts::PI;

        pub(super) type Image = Vec<Vec<[f64; 2]>>;

        pub(super) fn build([rows, columns]: [usize; 2], of: impl Fn(usize, usize) -> [f64; 2]) -> Image {
            (0..rows).map(|row| (0..columns).map(|column| of(row, column)).collect()).collect()
        }

        pub(super) fn sides(image: &Image) -> [usize; 2] {
            [image.len(), image[0].len()]
        }

        fn times([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
            [a * c - b * d, a * d + b * c]
        }

        /// Along the rows, then along the columns, which are the rows of the transposed image.
        pub(super) fn fourier(image: &Image, sign: f64) -> Image {
            along_rows(&along_rows(image, sign), sign)
        }

        /// The transposed image with each row transformed.
        fn along_rows(image: &Image, sign: f64) -> Image {
            let [rows, columns] = sides(image);
            build([columns, rows], |k, row| {
                let terms = image[row].iter().enumerate().map(|(column, &value)| {
                    let (sin, cos) = (sign * 2.0 * PI * (k * column % columns) as f64 / columns as f64).sin_cos();
                    times(value, [cos, sin])
                });
                terms.fold([0.0; 2], |sum, term| [sum[0] + term[0], sum[1] + term[1]])
            })
        }

        /// A Gabor filter in space, as Kymatio's `gabor_2d`: five periods, 3.1415.
        fn gabor(of: [usize; 2], (sigma, theta, xi, slant): (f64, f64, f64, f64)) -> Image {
            let (sin, cos) = theta.sin_cos();
            build(of, |row, column| {
                let mut sum = [0.0; 2];
                for (of_row, of_column) in (0..25).map(|period| (period / 5, period % 5)) {
                    let x = row as f64 + (of_row as f64 - 2.0) * of[0] as f64;
                    let y = column as f64 + (of_column as f64 - 2.0) * of[1] as f64;
                    let (along, across) = (x * cos + y * sin, y * cos - x * sin);
                    let size = (-(along * along + slant * slant * across * across) / (2.0 * sigma * sigma)).exp();
                    let size = size * slant / (2.0 * crate::scattering::ABOUT_PI * sigma * sigma);
                    sum = [sum[0] + size * (xi * along).cos(), sum[1] + size * (xi * along).sin()];
                }
                sum
            })
        }

        pub(super) fn wavelet(of: [usize; 2], scale: i32, angle: usize) -> Image {
            let (size, theta) = (2_f64.powi(scale), (3.0 - angle as f64) * PI / 8.0);
            let [wave, plain] =
                [0.75 * PI / size, 0.0].map(|xi| fourier(&gabor(of, (0.8 * size, theta, xi, 0.5)), -1.0));
            let factor = wave[0][0][0] / plain[0][0][0];
            build(of, |k, l| [wave[k][l][0] - factor * plain[k][l][0], 0.0])
        }

        pub(super) fn low_pass(of: [usize; 2], scales: i32) -> Image {
            fourier(&gabor(of, (0.8 * 2_f64.powi(scales - 1), 0.0, 0.0, 1.0)), -1.0)
        }

        /// A filter in frequency at a coarser resolution, as Kymatio's `periodize_filter_fft`.
        fn cropped(filter: &Image, [rows, columns]: [usize; 2]) -> Image {
            let [of_rows, of_columns] = sides(filter);
            let at = |k: usize, side: usize, whole: usize| if k < side / 2 { k } else { k + whole - side };
            build([rows, columns], |k, l| filter[at(k, rows, of_rows)][at(l, columns, of_columns)])
        }

        /// `x ∗ filter` at every `step`-th pixel.
        pub(super) fn filtered(spectrum: &Image, filter: &Image, step: usize) -> Image {
            let (of, filter) = (sides(spectrum), cropped(filter, sides(spectrum)));
            let product = build(of, |k, l| times(spectrum[k][l], filter[k][l]));
            let image = fourier(&product, 1.0);
            let size = (of[0] * of[1]) as f64;
            build(of.map(|side| side / step), |row, column| image[row * step][column * step].map(|part| part / size))
        }

        pub(super) fn modulus(image: &Image) -> Image {
            build(sides(image), |row, column| [image[row][column][0].hypot(image[row][column][1]), 0.0])
        }
    }

    /// The definition, on sides with factors 2, 3, 5 and 7, with as many scales as have every resolution.
    #[test]
    fn coefficients_are_those_of_their_definition() {
        for (sides, scales) in [([8, 21], 2), ([16, 9], 3), ([5, 4], 1)] {
            let scattering = Scattering::new(sides, scales).unwrap();
            let pixels = image(sides);
            let found = coefficients(&scattering, &pixels);
            let padded = sides.map(|side| ((side + (1 << scales)) / (1 << scales) + 1) << scales);
            let reflected = |axis: usize, place: usize| {
                let mut place = place as i64 - ((padded[axis] - sides[axis]) / 2) as i64;
                let last = sides[axis] as i64 - 1;
                while !(0..=last).contains(&place) {
                    place = if place < 0 { -place } else { 2 * last - place };
                }
                place as usize
            };
            let pixel = |row, column| f64::from(pixels[reflected(0, row) * sides[1] + reflected(1, column)]);
            let spectrum = direct::fourier(&direct::build(padded, |row, column| [pixel(row, column), 0.0]), -1.0);
            let low_pass = direct::low_pass(padded, scales as i32);
            let average = |spectrum: &direct::Image, level: usize| -> Vec<f64> {
                let averaged = direct::filtered(spectrum, &low_pass, 1 << (scales - level));
                let [rows, columns] = direct::sides(&averaged);
                averaged[1..rows - 1].iter().flat_map(|row| row[1..columns - 1].iter().map(|value| value[0])).collect()
            };
            let wavelets: Vec<_> = (0..8 * scales).map(|of| direct::wavelet(padded, (of / 8) as i32, of % 8)).collect();
            let (mut expected, mut seconds) = (average(&spectrum, 0), Vec::new());
            for (number, wavelet) in wavelets.iter().enumerate() {
                let scale = number / 8;
                let first = direct::modulus(&direct::filtered(&spectrum, wavelet, 1 << scale));
                let first = direct::fourier(&first, -1.0);
                expected.extend(average(&first, scale));
                for (coarser, wavelet) in wavelets.iter().enumerate().skip(8 * (scale + 1)) {
                    let step = 1 << (coarser / 8 - scale);
                    let second = direct::modulus(&direct::filtered(&first, wavelet, step));
                    seconds.extend(average(&direct::fourier(&second, -1.0), coarser / 8));
                }
            }
            expected.extend(seconds);
            assert_eq!(found.len(), expected.len());
            let errors = found.iter().zip(&expected).map(|(found, expected)| (f64::from(*found) - expected).abs());
            let worst = errors.fold(0.0, f64::max);
            assert!(worst < 1e-6, "{sides:?} {scales}: {worst}");
        }
    }

    #[test]
    fn an_image_has_the_same_bits_beside_any_others() {
        let scattering = Scattering::new([9, 12], 2).unwrap();
        let of = |seed: usize| -> Vec<f32> { (0..108).map(|place| ((place * seed) % 31) as f32 / 30.0).collect() };
        let alone = coefficients(&scattering, &of(7));
        for lane in [0, 3, 15] {
            let images: Vec<f32> =
                (0..16).flat_map(|image| if image == lane { of(7) } else { of(11 + image) }).collect();
            let together = coefficients(&scattering, &images);
            assert_eq!(together[lane * alone.len()..][..alone.len()], alone, "lane {lane}");
        }
    }

    #[test]
    fn images_too_small_and_too_large_have_no_transform() {
        assert!(Scattering::new([7, 8], 3).is_none() && Scattering::new([8, 8], 3).is_some());
        assert!(Scattering::new([8, MOST_PIXELS + 1], 2).is_none() && Scattering::new([8, 8], 0).is_none());
    }

    /// 994 pixels are padded to 2 · 499.
    #[test]
    fn sides_with_the_greatest_factors_have_a_transform() {
        let scattering = Scattering::new([2, 994], 1).unwrap();
        let found = coefficients(&scattering, &[0.5; 2 * 994]);
        let (averages, others) = found.split_at(497);
        // Filters but for Kymatio's norm: 1, and 0 at frequency 0.
        assert!(
            averages.iter().all(|value| (value - 0.5).abs() < 1e-3) && others.iter().all(|value| value.abs() < 1e-4)
        );
    }

    #[test]
    fn groups_of_a_row_have_mean_0_and_variance_1_and_no_part_of_another() {
        let scattering = Scattering::new([8, 12], 2).unwrap();
        let (of_image, squares) = (scattering.coefficients(), 6);
        // Two images: one channel of a group varies, in the second image.
        let mut row: Vec<f32> = (0..2 * of_image).map(|place| (place * 7 % 29) as f32).collect();
        let before = row.clone();
        let group = (1 + 2 * ANGLES) * squares..(1 + 3 * ANGLES) * squares;
        let mut other = row.clone();
        other[of_image + group.start] += 5.0;
        scattering.normalize(&mut row);
        scattering.normalize(&mut other);
        for channel in
            std::iter::once(0..squares).chain((0..10).map(|of| (1 + 8 * of) * squares..(9 + 8 * of) * squares))
        {
            let values = |row: &[f32]| [&row[channel.clone()], &row[of_image..][channel.clone()]].concat();
            let [found, was] = [&row, &before].map(|row| values(row).into_iter().map(f64::from).collect::<Vec<_>>());
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
            assert!(mean(&found).abs() < 1e-5 && (square(&found) - 1.0).abs() < 1e-4, "{channel:?}");
            let deviation = (square(&was) - mean(&was).powi(2)).sqrt();
            assert!((found[3] - (was[3] - mean(&was)) / deviation).abs() < 1e-4);
            assert_eq!(values(&row) == values(&other), channel != group, "{channel:?}");
        }
    }
}

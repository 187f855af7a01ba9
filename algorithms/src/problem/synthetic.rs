//! Generators of synthetic data: the same data for the same seed, on any machine and with any number of threads.
//!
//! Every row draws from its own generator, addressed by (seed, purpose, row), and all arithmetic is plain IEEE 754
//! without fused operations, with transcendentals in software.
//!
//! Domains are those of the laws that rows are drawn from: sizes, ranges and classes, which hold for every seed. Rows of a
//! known seed are public themselves; their domain is there so that runs on them are planned as runs on private rows are.

use std::sync::Arc;

use crate::problem::domain::{Bounds, Columns, Domain, DomainSource, Label, Storage};
use crate::problem::{Buffer, ByteRows, Dataset, Features, Labels, SparseMatrix, UnitDeclaration, UnitIds};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use rounds_kernels::features::Norm;
use rounds_kernels::linear::Reduction;
use std::f64::consts::TAU;

/// The purpose of a generator's stream; streams of different purposes are unrelated.
#[derive(Clone, Copy)]
enum Purpose {
    Strokes = 1,
    TrainingRows = 2,
    TestRows = 3,
    Features = 4,
    PlantedWeights = 5,
    Spectrum = 6,
    Users = 7,
}

/// The generator of one row (or one object) of one purpose.
fn stream(seed: u64, purpose: Purpose, index: u64) -> Xoshiro256PlusPlus {
    let mut base = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..purpose as usize {
        base.next_u64();
    }
    Xoshiro256PlusPlus::seed_from_u64(base.next_u64().wrapping_add(index))
}

/// Uniform in [0, 1), a multiple of 2⁻²⁴, hence exact in f32.
fn uniform(generator: &mut Xoshiro256PlusPlus) -> f64 {
    (generator.next_u64() >> 40) as f64 * 2f64.powi(-24)
}

/// A standard normal by Box and Muller; of the quality that planted parameters need, not that of privacy noise.
fn normal(generator: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(((generator.next_u64() >> 11) as f64 + 0.5) * 2f64.powi(-53)));
    radius * libm::cos(TAU * uniform(generator))
}

/// A number with density ∝ x^{a−1}e^{−x} (Marsaglia and Tsang 2000; below a = 1 with their power of a uniform).
fn gamma(generator: &mut Xoshiro256PlusPlus, shape: f64) -> f64 {
    let boost = if shape < 1.0 { libm::pow(1.0 - uniform(generator), 1.0 / shape) } else { 1.0 };
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(generator);
        let v = (1.0 + c * x).max(0.0);
        let v = v * v * v;
        let u = 1.0 - uniform(generator);
        if v > 0.0 && libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return boost * d * v;
        }
    }
}

/// A split of labelled rows into the users of a federated study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Users {
    /// Mean number of rows m of a user.
    pub rows: f64,
    /// σ of the logarithm of a user's number of rows, `m·exp(σ·z − σ²/2)`; with 0 all users but the last have m.
    pub spread: f64,
    /// α of the Dirichlet law of a user's classes: the smaller, the more they differ.
    pub skew: f64,
}

impl Users {
    /// The users of rows with these classes: each takes its rows without replacement by its own law of classes (Hsu, Qi and Brown 2019,
    /// arXiv:1909.06335), among the classes that have any left. Public, as it follows from the seed and the rows' classes alone: for studies.
    ///
    /// ```
    /// use rounds_algorithms::problem::synthetic::Users;
    ///
    /// let classes: Vec<u32> = (0..1_000).map(|row| row % 10).collect();
    /// let users = Users { rows: 20.0, spread: 0.0, skew: 0.3 }.of(&classes, 10, 1);
    /// assert_eq!((users.count, users.of_rows.len()), (50, 1_000));
    /// ```
    ///
    /// # Panics
    /// A class that is not below `count`; a mean or α that is not above 0.
    pub fn of(self, classes: &[u32], count: usize, seed: u64) -> UnitIds {
        assert!(self.rows > 0.0 && self.skew > 0.0, "{self:?}");
        let mut generator = stream(seed, Purpose::Users, 0);
        let mut left = vec![Vec::new(); count];
        (0..).zip(classes).for_each(|(row, &class): (usize, _)| left[class as usize].push(row));
        for rows in &mut left {
            for last in (1..rows.len()).rev() {
                let other = (uniform(&mut generator) * (last + 1) as f64) as usize;
                rows.swap(last, other.min(last));
            }
        }
        let mut of_rows = vec![0; classes.len()];
        let (mut taken, mut user) = (0, 0);
        while taken < classes.len() {
            let law: Vec<f64> = left.iter().map(|_| gamma(&mut generator, self.skew)).collect();
            let deviation = self.spread * normal(&mut generator) - self.spread * self.spread / 2.0;
            let size = (self.rows * libm::exp(deviation)).round().max(1.0) as usize;
            for _ in 0..size.min(classes.len() - taken) {
                let weight = |class: usize| if left[class].is_empty() { 0.0 } else { law[class].max(1e-300) };
                let mut place = uniform(&mut generator) * (0..count).map(weight).sum::<f64>();
                let passed = |class: &usize| {
                    place -= weight(*class);
                    place >= 0.0
                };
                let found = (0..count).take_while(passed).count();
                let class = if found < count && !left[found].is_empty() { found } else { longest(&left) };
                of_rows[left[class].pop().expect("a class with rows left")] = user;
                taken += 1;
            }
            user += 1;
        }
        UnitIds { of_rows, count: user as usize }
    }
}

/// The class with most rows.
fn longest(left: &[Vec<usize>]) -> usize {
    (0..left.len()).max_by_key(|&class| left[class].len()).unwrap_or(0)
}

/// Magnitudes that [`normal`] cannot exceed: `√(2·54·ln 2)` is 8.652.
const NORMAL_BOUND: f64 = 8.66;

/// Runs `make(number, row, label)` for every row of `stride` values, at least [`BLOCK`] of them in one task.
fn for_each_row<T: Send>(
    values: &mut [T],
    stride: usize,
    labels: &mut [u32],
    make: impl Fn(u64, &mut [T], &mut u32) + Sync + Send,
) {
    let rows = values.par_chunks_exact_mut(stride).zip(labels).enumerate();
    rows.with_min_len(BLOCK).for_each(|(index, (row, label))| make(index as u64, row, label));
}

/// The domain of a generated data set: `count` columns within `bounds`.
pub(super) fn domain(name: &str, count: usize, bounds: Bounds, storage: Storage, label: Label) -> Domain {
    let columns = Columns::Matrix { count, bounds };
    let mut domain = Domain::new(columns, storage, label, DomainSource::BuiltIn(name.to_owned()));
    domain.test_is_public = true;
    domain
}

/// Names of the classes −1 and 1.
pub(super) fn signs() -> Vec<String> {
    ["-1", "1"].map(str::to_owned).to_vec()
}

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
const CLASSES: usize = 10;
/// Handwritings of a class: each is the class' strokes with its own distortion.
const HANDWRITINGS: usize = 40;
/// Control points of a class' pen stroke.
const KNOTS: usize = 5;
/// Candidates among which a class' stroke is chosen.
const CANDIDATES: usize = 24;
/// Scores are computed for 16 lanes, of which the last 6 are idle.
const LANES: usize = 16;
/// Rows generated by one task. It does not enter the result.
const BLOCK: usize = 500;

/// Data with MNIST's shape: 60,000 training and 10,000 test rows of 28 × 28 bytes with scale 1/255, 10 classes.
///
/// Each class is a pen stroke through random points of the central 20 × 20 box. A row is one of the class' handwritings,
/// shifted by up to a pixel in each direction, with its own pressure and grain. Its label is drawn from a planted softmax
/// model, P(y = k | x) ∝ exp(⟨W_k, x⟩ + c_k), whose weights are the centred and scaled class means; so a linear model is
/// well specified and its accuracy cannot exceed about 92 %, as on MNIST. About 19 % of the bytes are not zero, and the
/// mean byte is about 33 (MNIST: 19.1 %, 33.3).
pub fn synthetic_mnist(seed: u64) -> (Dataset, Dataset) {
    let model = StrokeModel::new(seed);
    let train = model.dataset(seed, Purpose::TrainingRows, 60_000);
    let test = model.dataset(seed, Purpose::TestRows, 10_000);
    (train, test)
}

/// The domain of [`synthetic_mnist`]: 784 bytes and the digits.
pub fn synthetic_mnist_domain() -> Domain {
    let bounds = Bounds::new(0.0, 255.0).expect("bytes have bounds");
    let digits = Label::Classes((0..CLASSES).map(|digit| digit.to_string()).collect());
    domain("synthetic-mnist", PIXELS, bounds, Storage::Bytes, digits)
}

/// Images of all handwritings and the planted model.
struct StrokeModel {
    /// `CLASSES · HANDWRITINGS` images.
    images: Vec<[u8; PIXELS]>,
    /// Planted weights, one vector of lanes a pixel.
    weights: Vec<[f32; LANES]>,
    /// Planted intercepts.
    intercepts: [f32; LANES],
}

impl StrokeModel {
    /// Steepness of the planted model: sets the accuracy a linear model can reach.
    const STEEPNESS: f64 = 0.3;
    /// Standard deviation of a handwriting's knots around those of its class, in pixels.
    const DISTORTION: f64 = 1.3;

    fn new(seed: u64) -> Self {
        let mut images = Vec::with_capacity(CLASSES * HANDWRITINGS);
        let mut classes = Vec::with_capacity(CLASSES);
        for class in 0..CLASSES as u64 {
            let mut generator = stream(seed, Purpose::Strokes, class);
            let knots = class_knots(&mut generator, &classes);
            classes.push(draw(&knots));
            for _ in 0..HANDWRITINGS {
                let distorted = knots.map(|(x, y)| {
                    let dx = Self::DISTORTION * normal(&mut generator);
                    let dy = Self::DISTORTION * normal(&mut generator);
                    ((x + dx).clamp(5.0, 23.0), (y + dy).clamp(5.0, 23.0))
                });
                images.push(draw(&distorted));
            }
        }
        let mut means = vec![[0f64; CLASSES]; PIXELS];
        for (index, image) in images.iter().enumerate() {
            for (mean, &byte) in means.iter_mut().zip(image) {
                mean[index / HANDWRITINGS] += f64::from(byte) / (255.0 * HANDWRITINGS as f64);
            }
        }
        let mut weights = vec![[0f32; LANES]; PIXELS];
        let mut intercepts = [0f64; CLASSES];
        for (weight, mean) in weights.iter_mut().zip(&means) {
            let centre = mean.iter().sum::<f64>() / CLASSES as f64;
            for class in 0..CLASSES {
                let planted = Self::STEEPNESS * (mean[class] - centre);
                weight[class] = planted as f32;
                intercepts[class] -= 0.5 * planted * (mean[class] + centre);
            }
        }
        let intercepts = std::array::from_fn(|lane| intercepts.get(lane).map_or(0.0, |&intercept| intercept as f32));
        Self { images, weights, intercepts }
    }

    fn dataset(&self, seed: u64, purpose: Purpose, rows: usize) -> Dataset {
        let mut pixels = ByteRows::zeroed(rows, PIXELS);
        let mut labels = vec![0u32; rows];
        let (memory, stride) = pixels.memory_mut();
        for_each_row(memory, stride, &mut labels, |index, row, label| {
            let image = &mut row[..PIXELS];
            let mut generator = stream(seed, purpose, index);
            self.write(&mut generator, image);
            *label = self.label(&mut generator, image);
        });
        let features = Features::U8 { rows: pixels, scale: 1.0 / 255.0 };
        Dataset::new("synthetic-mnist", features, Labels::numbered(labels, CLASSES))
            .and_then(|data| data.in_domain(Arc::new(synthetic_mnist_domain())))
            .expect("bytes and classes below 10 make a data set")
    }

    /// One image: a handwriting, shifted, with pressure and grain.
    fn write(&self, generator: &mut Xoshiro256PlusPlus, image: &mut [u8]) {
        let choice = generator.next_u64();
        let handwriting = &self.images[((choice >> 32) as usize * self.images.len()) >> 32];
        let third = |bits: u64| ((bits & 0xffff) as usize * 3) >> 16;
        let shift = third(choice) * SIDE + third(choice >> 16);
        let pressure = 225 + (generator.next_u64() >> 58) as u16;
        // The strokes keep 3 pixels from the border, so a shift by one pixel up to `SIDE + 1` either way stays inside.
        let centre = SIDE + 1;
        let start = shift.saturating_sub(centre);
        let source = &handwriting[centre.saturating_sub(shift)..];
        let length = source.len().min(PIXELS - start);
        for (out, stroke) in image[start..start + length].chunks_mut(8).zip(source.chunks(8)) {
            let grain = generator.next_u64().to_le_bytes();
            for ((out, &byte), grain) in out.iter_mut().zip(stroke).zip(grain) {
                let strength = pressure - u16::from(grain & 63);
                *out = ((u32::from(byte) * u32::from(strength)) >> 8).min(255) as u8;
            }
        }
    }

    /// A class drawn from the planted model.
    fn label(&self, generator: &mut Xoshiro256PlusPlus, image: &[u8]) -> u32 {
        let mut scores = self.intercepts;
        for (&byte, weight) in image.iter().zip(&self.weights) {
            if byte != 0 {
                let value = f32::from(byte) * (1.0 / 255.0);
                for (score, weight) in scores.iter_mut().zip(weight) {
                    *score += value * weight;
                }
            }
        }
        let largest = scores[..CLASSES].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut cumulative = [0f32; CLASSES];
        let mut total = 0.0;
        for (sum, score) in cumulative.iter_mut().zip(scores) {
            total += libm::expf(score - largest);
            *sum = total;
        }
        let threshold = uniform(generator) as f32 * total;
        cumulative.iter().position(|&sum| threshold < sum).unwrap_or(CLASSES - 1) as u32
    }
}

/// Points that a class' stroke passes through: of several candidates the one least like the classes there are, so that
/// every seed makes classes that are about equally hard to tell apart.
fn class_knots(generator: &mut Xoshiro256PlusPlus, others: &[[u8; PIXELS]]) -> [(f64, f64); KNOTS] {
    let mut chosen = ([(0.0, 0.0); KNOTS], f64::INFINITY);
    for _ in 0..CANDIDATES {
        let knots = random_knots(generator);
        let image = draw(&knots);
        let likeness = others.iter().map(|other| cosine(&image, other)).fold(0.0, f64::max);
        if likeness < chosen.1 {
            chosen = (knots, likeness);
        }
    }
    chosen.0
}

/// `⟨a, b⟩/(‖a‖·‖b‖)`.
fn cosine(a: &[u8; PIXELS], b: &[u8; PIXELS]) -> f64 {
    let inner = |a: &[u8], b: &[u8]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    inner(a, b) / libm::sqrt(inner(a, a) * inner(b, b))
}

/// Points inside the central box, consecutive ones neither close nor far.
fn random_knots(generator: &mut Xoshiro256PlusPlus) -> [(f64, f64); KNOTS] {
    let mut knots = [(0.0, 0.0); KNOTS];
    for index in 0..KNOTS {
        knots[index] = loop {
            let point = (6.0 + 16.0 * uniform(generator), 6.0 + 16.0 * uniform(generator));
            let (x, y) = knots[index.saturating_sub(1)];
            if index == 0 || (9.0..15.0).contains(&libm::hypot(point.0 - x, point.1 - y)) {
                break point;
            }
        };
    }
    knots
}

/// A pen along the straight lines between knots; edges fall off over a pixel.
fn draw(knots: &[(f64, f64)]) -> [u8; PIXELS] {
    /// Radius of the pen, in pixels.
    const PEN: f64 = 1.7;
    let mut image = [0; PIXELS];
    for (pixel, byte) in image.iter_mut().enumerate() {
        let (x, y) = ((pixel % SIDE) as f64 + 0.5, (pixel / SIDE) as f64 + 0.5);
        let distance = knots
            .windows(2)
            .map(|ends| {
                let (start, end) = (ends[0], ends[1]);
                let (dx, dy) = (end.0 - start.0, end.1 - start.1);
                let along = ((x - start.0) * dx + (y - start.1) * dy) / (dx * dx + dy * dy).max(1e-12);
                let along = along.clamp(0.0, 1.0);
                libm::hypot(x - start.0 - along * dx, y - start.1 - along * dy)
            })
            .fold(f64::INFINITY, f64::min);
        *byte = ((PEN + 0.5 - distance).clamp(0.0, 1.0) * 255.0) as u8;
    }
    image
}

/// Paper 003, section 5: n rows of d features, uniform in [0, 1), labelled y = sign(⟨u, w⟩) with w ~ N(0, I).
///
/// Class 1 is y = +1. The bound ‖u‖₁ ≤ d (20 in the paper, where d = 20 and n = 100,000) follows from how rows are drawn, is
/// public, and is the data set's [`public_bound`](Dataset::public_bound).
///
/// # Panics
/// If n or d is 0, or n·d values cannot be addressed.
pub fn synthetic_logistic(n: usize, d: usize, seed: u64) -> Dataset {
    logistic_rows("synthetic-logistic", (n, d), seed, synthetic_logistic_domain(d), |_| 0.0)
}

/// The rows of users who differ: those of [`synthetic_logistic`] of d features, labelled y = sign(⟨u, w⟩ + b_k), b_k ~ N(0, τ²) for user k. Each
/// user has as many rows.
///
/// # Panics
/// As [`synthetic_logistic`], of `users · rows` rows; more than 2³² users.
pub fn synthetic_users((users, rows): (usize, usize), d: usize, deviation: f64, seed: u64) -> Dataset {
    let offset = |row: u64| deviation * normal(&mut stream(seed, Purpose::Users, row / rows as u64));
    let domain = synthetic_users_domain(d);
    let unit = domain.unit.clone().expect("a unit");
    let users = u32::try_from(users).expect("at most 2³² users");
    let ids = (0..users).flat_map(|user| (0..rows).map(move |_| user)).collect();
    logistic_rows("synthetic-users", (users as usize * rows, d), seed, domain, offset)
        .by_unit(&UnitIds { of_rows: ids, count: users as usize }, unit)
        .expect("a user for each row")
}

/// The domain of [`synthetic_users`]: that of [`synthetic_logistic`], with users as units.
pub fn synthetic_users_domain(d: usize) -> Domain {
    let unit = UnitDeclaration { column: None, reduction: Reduction::Mean, most_rows: None };
    let source = DomainSource::BuiltIn("synthetic-users".to_owned());
    Domain { unit: Some(unit), source, ..synthetic_logistic_domain(d) }
}

/// The rows of [`synthetic_logistic`], with an offset to each row's margin.
fn logistic_rows(
    name: &str,
    (n, d): (usize, usize),
    seed: u64,
    domain: Domain,
    offset: impl Fn(u64) -> f64 + Sync + Send,
) -> Dataset {
    assert!(n > 0 && d > 0, "{name} needs at least one row and one feature, not n = {n}, d = {d}");
    let mut generator = stream(seed, Purpose::PlantedWeights, 0);
    let weights: Vec<f64> = (0..d).map(|_| normal(&mut generator)).collect();
    let mut values = Buffer::zeroed(n.checked_mul(d).expect("n·d values can be addressed"));
    let mut labels = vec![0u32; n];
    for_each_row(&mut values, d, &mut labels, |index, row, label| {
        let mut generator = stream(seed, Purpose::Features, index);
        row.fill_with(|| uniform(&mut generator) as f32);
        let products = row.iter().zip(&weights).map(|(&value, weight)| f64::from(value) * weight);
        *label = u32::from(products.sum::<f64>() + offset(index) >= 0.0);
    });
    let labels = Labels::Classes { values: labels, classes: 2, names: Some(signs()) };
    Dataset::new(name, Features::f32(values, d), labels)
        .and_then(|data| data.clip_features(Norm::L1, d as f64))
        .and_then(|data| data.in_domain(Arc::new(domain)))
        .expect("uniform features make a data set")
}

/// The domain of [`synthetic_logistic`] with d features: [0, 1], and the classes −1 and 1.
pub fn synthetic_logistic_domain(d: usize) -> Domain {
    let bounds = Bounds::new(0.0, 1.0).expect("0 is below 1");
    domain("synthetic-logistic", d, bounds, Storage::Dense, Label::Classes(signs()))
}

/// `f(x) = Σ_i λ_i (x_i − x*_i)²/2` with L = λ_1 ≥ … ≥ λ_d ≥ 0: paper 001, Fig. 2 (there L = 10).
///
/// Every quadratic is of this form in the coordinates of its Hessian, and gradient descent with isotropic noise does not
/// see the rotation; so mean and variance of every iterate are known exactly (specification 5.3). The paper does not say how
/// its spectrum was drawn; here λ_1 = L, a quarter of the eigenvalues is 0 (the function is not strongly convex), and
/// the rest is uniform in [0, L).
#[derive(Clone, Debug, PartialEq)]
pub struct Quadratic {
    /// λ_i, descending, each exact in f32.
    pub eigenvalues: Vec<f64>,
    /// x*, each coordinate exact in f32.
    pub optimum: Vec<f64>,
}

impl Quadratic {
    /// A random quadratic of `dimension` coordinates and smoothness L, with a standard normal optimum.
    ///
    /// # Panics
    /// If the dimension is 0 or L is not positive and finite.
    pub fn random(dimension: usize, smoothness: f64, seed: u64) -> Self {
        assert!(dimension > 0, "a quadratic needs at least one coordinate");
        assert!(smoothness > 0.0 && smoothness.is_finite(), "smoothness {smoothness} must be positive and finite");
        let mut generator = stream(seed, Purpose::Spectrum, 0);
        let flat = dimension / 4;
        let mut eigenvalues = vec![0.0; dimension];
        for eigenvalue in &mut eigenvalues[..dimension - flat] {
            *eigenvalue = f64::from((smoothness * uniform(&mut generator)) as f32);
        }
        eigenvalues[0] = f64::from(smoothness as f32);
        eigenvalues.sort_by(|a, b| b.total_cmp(a));
        let optimum = (0..dimension).map(|_| f64::from(normal(&mut generator) as f32)).collect();
        Self { eigenvalues, optimum }
    }

    /// `f(x)`.
    ///
    /// # Panics
    /// If `x` has another length than the quadratic's dimension.
    pub fn value(&self, x: &[f32]) -> f64 {
        assert_eq!(x.len(), self.optimum.len(), "coordinates of a point");
        let terms = x.iter().zip(&self.optimum).zip(&self.eigenvalues);
        terms.map(|((&x, optimum), eigenvalue)| 0.5 * eigenvalue * (f64::from(x) - optimum).powi(2)).sum()
    }

    /// √(d·L), rounded as features are.
    fn largest_feature(dimension: usize, smoothness: f64) -> f64 {
        f64::from(libm::sqrt(dimension as f64 * smoothness) as f32)
    }

    /// The domain of [`dataset`](Self::dataset) for quadratics of `dimension` coordinates and smoothness L that
    /// [`random`](Self::random) makes: features within √(d·L), targets within 8.66 times that, which no normal exceeds.
    ///
    /// # Panics
    /// If the dimension is 0 or L is not positive and finite.
    pub fn domain(dimension: usize, smoothness: f64) -> Domain {
        let largest = Self::largest_feature(dimension, smoothness);
        let within = |bound: f64| Bounds::new(-bound, bound).expect("a positive bound");
        let targets = Label::Number(within(NORMAL_BOUND * largest));
        domain("quadratic", dimension, within(largest), Storage::Sparse, targets)
    }

    /// The data whose mean squared loss `(1/d) Σ_i (⟨a_i, x⟩ − y_i)²/2` without bias is `f`: d sparse rows `a_i = √(d·λ_i)·e_i`,
    /// targets `y_i = ⟨a_i, x*⟩`, both rounded to f32: √(d·L) and 8.66·√(d·L) times what is encoded into the
    /// [`domain`](Self::domain).
    ///
    /// # Panics
    /// If an eigenvalue is negative, the first one not positive, or a feature or target overflows f32.
    pub fn dataset(&self) -> Dataset {
        let dimension = self.eigenvalues.len();
        let mut rows = SparseMatrix::new(dimension);
        for (column, eigenvalue) in (0..).zip(&self.eigenvalues) {
            rows.push_row([(column, libm::sqrt(dimension as f64 * eigenvalue) as f32)]);
        }
        let targets = rows.values.iter().zip(&self.optimum);
        let labels = Labels::Values(targets.map(|(&value, optimum)| (f64::from(value) * optimum) as f32).collect());
        let features = Features::Sparse(rows);
        let domain = Self::domain(dimension, self.eigenvalues[0]);
        let largest = Self::largest_feature(dimension, self.eigenvalues[0]);
        Dataset::new("quadratic", features, labels)
            .and_then(|data| data.in_domain_times(Arc::new(domain), largest))
            .expect("finite eigenvalues and optima make a data set")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::optimizers::sgd::SGD;
    use crate::optimizers::{Budget, Settings};
    use crate::oracle::evaluate;
    use crate::parallel::Engine;
    use crate::problem::Problem;
    use rounds_kernels::loss::Loss;
    use rounds_kernels::random::StreamKey;

    fn bytes_and_classes(data: &Dataset) -> (Vec<u8>, &[u32]) {
        let Features::U8 { rows, .. } = data.features() else { panic!("bytes") };
        let Labels::Classes { values: classes, .. } = data.labels() else { panic!("classes") };
        (rows.iter().flatten().copied().collect(), classes)
    }

    /// Accuracy on the test rows after two epochs of softmax regression.
    fn linear_accuracy(train: Dataset, test: Dataset) -> f64 {
        let [train, test] = [train, test].map(|data| Problem::new(Arc::new(data), Loss::Softmax, true, 0.0).unwrap());
        let settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1))
            .with("batch-size", 20)
            .with("epochs", 2)
            .with("learning-rate", 0.2)
            .with("averaging", "suffix");
        let prepared = SGD.prepare(&train, &settings).unwrap();
        let mut executor = Executor::new(&train, Engine::Sequential, prepared);
        executor.run().unwrap();
        let evaluation = evaluate(&test, &Engine::Sequential, executor.solution()).unwrap();
        evaluation.correct as f64 / evaluation.rows as f64
    }

    #[test]
    fn users_take_every_row_once_and_differ_in_their_classes() {
        let classes: Vec<u32> = (0..10_000).map(|row| row * 7 % 10).collect();
        let share_of_first = |skew| {
            let users = Users { rows: 50.0, spread: 0.0, skew }.of(&classes, 10, 3);
            assert_eq!(users.count, 200);
            let mut counts = vec![[0; 10]; 200];
            classes.iter().zip(&users.of_rows).for_each(|(&class, &user)| counts[user as usize][class as usize] += 1);
            assert!(counts.iter().all(|counts| counts.iter().sum::<i32>() == 50));
            counts.iter().take(100).map(|counts| f64::from(*counts.iter().max().unwrap()) / 50.0).sum::<f64>() / 100.0
        };
        // The expected share of a user's most frequent class.
        let (even, skewed) = (share_of_first(1e4), share_of_first(0.1));
        assert!(even < 0.22 && skewed > 0.6, "{even}, {skewed}");
        let uneven = Users { rows: 20.0, spread: 1.0, skew: 0.3 }.of(&classes, 10, 3);
        assert!((350..700).contains(&uneven.count), "{}", uneven.count);
        assert_eq!(uneven, Users { rows: 20.0, spread: 1.0, skew: 0.3 }.of(&classes, 10, 3));
    }

    #[test]
    fn users_of_a_population_differ_in_their_offset() {
        let variance_of_shares = |deviation| {
            let data = synthetic_users((400, 25), 20, deviation, 5);
            assert_eq!((data.records(), data.len()), (400, 10_000));
            let Labels::Classes { values, .. } = data.labels() else { panic!("classes") };
            let shares = values.chunks(25).map(|rows| f64::from(rows.iter().sum::<u32>()) / 25.0);
            let mean = shares.clone().sum::<f64>() / 400.0;
            shares.map(|share| (share - mean).powi(2)).sum::<f64>() / 400.0
        };
        // Without an offset the variance of 25 independent labels: a quarter of 1/25 at most.
        let (alike, unlike) = (variance_of_shares(0.0), variance_of_shares(5.0));
        assert!(alike < 0.013 && unlike > 2.0 * alike, "{alike}, {unlike}");
        let plain = synthetic_logistic(10_000, 20, 5);
        assert_eq!(synthetic_users((400, 25), 20, 0.0, 5).labels(), plain.labels());
    }

    #[test]
    fn gamma_numbers_have_their_mean_and_variance() {
        for shape in [0.3, 1.0, 4.5] {
            let mut generator = stream(1, Purpose::Users, 1);
            let numbers: Vec<f64> = (0..40_000).map(|_| gamma(&mut generator, shape)).collect();
            let mean = numbers.iter().sum::<f64>() / 40_000.0;
            let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 40_000.0;
            assert!((mean / shape - 1.0).abs() < 0.03 && (variance / shape - 1.0).abs() < 0.08, "{mean}, {variance}");
        }
    }

    #[test]
    fn synthetic_mnist_has_the_shape_sparsity_and_difficulty_of_mnist() {
        let (train, test) = synthetic_mnist(1);
        assert_eq!((train.len(), test.len()), (60_000, 10_000));
        assert_eq!((train.columns(), train.classes()), (PIXELS, Some(CLASSES)));
        let (bytes, classes) = bytes_and_classes(&train);
        let stored = bytes.iter().filter(|&&byte| byte != 0).count() as f64 / bytes.len() as f64;
        let mean = bytes.iter().map(|&byte| f64::from(byte)).sum::<f64>() / bytes.len() as f64;
        assert!((0.17..0.21).contains(&stored), "bytes that are not zero: {stored}");
        assert!((30.0..36.0).contains(&mean), "mean byte: {mean}");
        for class in 0..CLASSES as u32 {
            let count = classes.iter().filter(|&&label| label == class).count();
            assert!((5_000..7_000).contains(&count), "rows of class {class}: {count}");
        }
        let inside = 1..SIDE - 1;
        let border = |pixel: usize| !inside.contains(&(pixel / SIDE)) || !inside.contains(&(pixel % SIDE));
        let blank = |row: &[u8]| (0..PIXELS).filter(|&pixel| border(pixel)).all(|pixel| row[pixel] == 0);
        // Strokes keep off the border, so that shifts do not wrap.
        assert!(bytes.chunks_exact(PIXELS).all(blank));
        let accuracy = linear_accuracy(train, test);
        assert!((0.88..0.94).contains(&accuracy), "softmax regression: {accuracy}");
    }

    #[test]
    fn generators_give_the_same_data_for_any_number_of_threads_and_other_data_for_another_seed() {
        let digests = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let (train, test) = synthetic_mnist(7);
                [train.digest(), test.digest(), synthetic_logistic(1234, 20, 7).digest()]
            })
        };
        let one = digests(1);
        assert_eq!(one, digests(3));
        // The data of a published result must stay the data: a change of these digests is a change of the data set.
        let starts = one.map(|digest| u64::from_be_bytes(digest[..8].try_into().unwrap()));
        let published = [0xb0eb_7e35_27ca_7eab, 0x9794_426d_d098_f8c8, 0x951c_8721_a1a4_b7fb];
        assert_eq!(starts, published);
        assert_ne!(one[2], synthetic_logistic(1234, 20, 8).digest());
    }

    #[test]
    fn logistic_data_is_uniform_separable_and_bounded_in_l1() {
        let data = synthetic_logistic(20_000, 20, 3);
        assert_eq!((data.len(), data.columns(), data.classes()), (20_000, 20, Some(2)));
        assert_eq!(data.public_bound(Norm::L1), Some(20.0));
        let Features::F32 { values, .. } = data.features() else { panic!("f32 rows") };
        // Kolmogorov–Smirnov with α = 1e-6: √n·D ≤ √(ln(2/α)/2) = 2.694.
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        let count = sorted.len() as f64;
        let steps = sorted.iter().enumerate();
        let distance = steps
            .map(|(rank, &value)| (f64::from(value) - (rank as f64 + 0.5) / count).abs() + 0.5 / count)
            .fold(0.0, f64::max);
        assert!(distance * count.sqrt() < 2.694, "KS distance {distance}");
        let mut generator = stream(3, Purpose::PlantedWeights, 0);
        let planted: Vec<f64> = (0..20).map(|_| normal(&mut generator)).collect();
        for (row, target) in values.chunks_exact(20).zip(data.binary_targets().unwrap()) {
            let products = row.iter().zip(&planted).map(|(&value, weight)| f64::from(value) * weight);
            assert!(products.sum::<f64>() * f64::from(target) >= 0.0);
        }
    }

    #[test]
    fn the_squared_loss_of_quadratic_data_is_the_quadratic() {
        let quadratic = Quadratic::random(40, 10.0, 5);
        assert_eq!(quadratic.eigenvalues[0], 10.0);
        assert!(quadratic.eigenvalues.windows(2).all(|pair| pair[0] >= pair[1]));
        let flat = quadratic.eigenvalues.iter().filter(|&&eigenvalue| eigenvalue == 0.0);
        assert_eq!(flat.count(), 10);
        let data = quadratic.dataset();
        let Features::Sparse(SparseMatrix { values, .. }) = data.features() else { panic!("sparse rows") };
        let Labels::Values(targets) = data.labels() else { panic!("real targets") };
        let point: Vec<f32> = (0..40).map(|index| (index as f32 * 0.7).sin()).collect();
        let products = values.iter().zip(&point).map(|(value, x)| value * x);
        let residuals = products.zip(targets).map(|(product, y)| f64::from(product - y));
        let loss: f64 = residuals.map(|residual| 0.5 * residual * residual).sum::<f64>() / 40.0;
        let exact = quadratic.value(&point);
        assert!((loss - exact).abs() < 1e-5 * exact, "{loss} against {exact}");
        let optimum: Vec<f32> = quadratic.optimum.iter().map(|&x| x as f32).collect();
        assert_eq!(quadratic.value(&optimum), 0.0);
        assert_eq!(quadratic, Quadratic::random(40, 10.0, 5));
        assert_ne!(quadratic, Quadratic::random(40, 10.0, 6));
    }
}

//! The smallest problem on which an algorithm's guarantee is put to the test, and copies of the algorithm that are broken
//! on purpose.
//!
//! **The canary** is one row with feature e_1 and a squared loss whose residual is [`RAW_GRADIENT`](crate::optimizers::scene::RAW_GRADIENT) throughout, so that its
//! gradient points along the first coordinate in every participation and is clipped to the clip norm; a skipped clip
//! shows tenfold. All other rows are 0, and so are their gradients: the other coordinates see the run's noise and
//! nothing else. The canary is the first row, which takes part first and as often as any.
//!
//! **Its neighbour** is what the relation says: under zero-out the null row in its place, under add/remove a data set
//! with one row less and the same declared N, under replace-one a row with the opposite gradient: of f32 one with the
//! opposite feature and the same label, of integers one that differs in its label alone. Where a batch is drawn without
//! replacement, a batch that misses the canary holds another row: under replace-one all others have the opposite gradient.
//!
//! **On rows of bytes** ([`CanaryRows::Bytes`]) the canary is a byte of 255 among 64, with two classes: what the integer
//! tiles of a release take. The residual of a softmax with two classes is a multiple of (1, −1), so that the clipped
//! gradient is C·(1, −1)/√2 ⊗ e_1 whatever the model is, as long as it is clipped; steps are so small that the margins, and
//! the gradient with them, hardly move. The audit reads the iterates along (1, −1)/√2. **On fixed-point rows**
//! ([`CanaryRows::FixedPoint`]) the canary is the same, a number of f32 that is read as two bytes. In integers of 16 bits
//! ([`CanaryRows::Short`]) it is the row of bytes. The coefficient of such a row has 64 steps and more, so that a contribution whose
//! length nobody checked would be longer by a sixty-fourth at most: less than an audit resolves. Tests of the integers attack that
//! (`kernels/src/linear/lattice.rs`).
//!
//! **Through a network** ([`CanaryRows::Network`]) rows are images of one pattern: the canary in full contrast and of class 0, its opposite the same of
//! class 1, all others in less contrast and of class 1. With steps so small that gradients hardly move, the canary adds C times the direction
//! of its gradient at the initial weights, the others about the opposite of that; where batches are drawn, others are null rows. The audit reads the iterates along that direction, and weights on which it hardly
//! lies for the noise alone. Such copies are broken in three more ways, which are made of honest runs in fixed batches:
//! a sum that is clipped is C long in the direction of the longest gradient, so that the others are null rows once the canary is there; layers
//! that are clipped one by one are as one gradient that is clipped to √3·C, with the noise of C; a norm that takes its mean over the batch leaves of
//! each image what its contrast is above that mean.
//!
//! **Units** of several rows: the canary is a unit of [`CANARY_ROWS`] such rows, its neighbour under zero-out a unit without rows, its
//! opposite one of another number of rows, and all others have one row each.
//!
//! **In one run** there are many canaries, each with a coordinate of its own, in or out by a fair coin. Rows and batches are as many times those of
//! the scene, so that noise, rate and rounds are the same, and each canary meets what the single one does.
//!
//! **A sabotaged copy** is the unmodified algorithm with settings, or on data, that its claim does not cover: half the
//! noise; a clip norm above every gradient with the same noise; the example standing twice in the data, so that one of
//! its participations is missing in the sensitivity; batches in a fixed order that were accounted for as drawn; a plan from the real number of rows where that is private; of claims about units,
//! the rows of the unit as records of their own, or a plan from the number of all rows or of the units that have rows. No switch in the
//! algorithms weakens their guarantee.

use std::sync::{Arc, OnceLock};

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::{Clip, Reduction};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

use crate::choices::choices;
use crate::optimizers::scene::Row;
use crate::optimizers::{Algorithm, Budget, Scene, Settings};
use crate::oracle::Oracle;
use crate::parallel::Engine;
use crate::privacy::{Accountant, Adjacency, gaussian};
use crate::problem::{
    Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Problem, Relation, Storage,
    UnitDeclaration, UnitIds,
};

/// A clip norm that clips nothing, in units of the longest gradient: not more, since accountants of subsampled noise take
/// long for multipliers that are very small.
const NO_CLIP: f64 = 1.2;
/// Coordinates: the canary's, and those that show the noise alone.
pub(super) const COLUMNS: usize = 8;
/// μ of the claims of Gaussian mechanisms: far from 0, and within reach of counts of a few thousand.
pub(super) const CLAIMED_MU: f64 = 2.0;

/// The learning rate of audits on rows of bytes: margins of rows that are a few dozen long stay far below 1.
const BYTES_LEARNING_RATE: f64 = 1e-4;
/// Rows of the canary where it is a unit, and of its opposite.
const CANARY_ROWS: usize = 3;
const OPPOSITE_ROWS: usize = 2;
/// Bytes of a row: a tile is as wide.
const BYTES: usize = 64;

/// A network with three layers of weights, the side of its images, and the seed of its initial weights.
const NETWORK: (&str, usize, u64) = ("image 12x12x1, conv 2, tanh, dense 3, tanh", 12, 1);
const NETWORK_LAYERS: f64 = 3.0;
/// Its learning rate: weights hardly move.
const NETWORK_LEARNING_RATE: f64 = 1e-3;
/// Contrasts in hundredths, of the canary and of others.
const CONTRASTS: (usize, usize) = (100, 30);

choices! {
    /// The format of the canary's row.
    #[derive(Default)]
    pub enum CanaryRows {
        /// Rows of f32, a squared loss.
        #[default]
        F32 = "f32",
        /// Rows of bytes and two classes, summed as releases are: as integers.
        Bytes = "bytes",
        /// The same rows as numbers of f32 in a declared domain, summed as integers of two bytes.
        FixedPoint = "fixed-point",
        /// Rows of bytes, with weights and coefficients of 16 bits.
        Short = "short",
        /// Images, through a small network.
        Network = "network",
    }
}

/// The contrast of a row's image, in hundredths.
fn contrast(row: Row) -> usize {
    if row == Row::Zero { CONTRASTS.1 } else { CONTRASTS.0 }
}

/// The initial weights of the network, the direction of the canary's gradient at them, and the other coordinates: weights on which it hardly lies.
struct Along {
    start: Vec<f32>,
    direction: Vec<f64>,
    others: Vec<usize>,
}

impl Along {
    fn of_network() -> &'static Self {
        static ALONG: OnceLock<Along> = OnceLock::new();
        ALONG.get_or_init(|| {
            let rows = [(Row::Canary, 0)];
            let problem =
                Scene::FIXED.problem_of_rows(Relation::ZeroOut, (&rows, None), (CanaryRows::Network, COLUMNS));
            let start = problem.network().expect("a network").initial(NETWORK.2);
            let mut direction = vec![0.0; start.len()];
            let sum = Oracle::new(&problem, Engine::Sequential).gradient_sum(
                &Selection::Range(0..1),
                &start,
                Clip::Unbounded,
                &mut direction,
            );
            sum.expect("a finite gradient");
            let length = direction.iter().map(|value| value * value).sum::<f64>().sqrt();
            direction.iter_mut().for_each(|value| *value /= length);
            let mut others: Vec<usize> = (0..start.len()).collect();
            others.sort_by(|&left, &right| direction[left].abs().total_cmp(&direction[right].abs()));
            Self { start, direction, others }
        })
    }

    /// The canary's coordinate of an iterate, or another one.
    fn coordinate(&self, iterate: &[f32], column: usize) -> f32 {
        let moved = |place: usize| iterate[place] - self.start[place];
        match column.checked_sub(1) {
            Some(other) => moved(self.others[other]),
            None => self.direction.iter().enumerate().map(|(place, part)| part * f64::from(moved(place))).sum::<f64>()
                as f32,
        }
    }
}

impl CanaryRows {
    /// The first `count` coordinates of one iterate: the canary's is the first of [`COLUMNS`].
    pub(super) fn coordinates(self, iterate: &[f32], count: usize) -> impl Iterator<Item = f32> {
        let width = iterate.len() / 2;
        (0..count).map(move |column| match self {
            Self::F32 => iterate[column],
            Self::Bytes | Self::FixedPoint | Self::Short => {
                std::f32::consts::FRAC_1_SQRT_2 * (iterate[column] - iterate[width + column])
            }
            Self::Network => Along::of_network().coordinate(iterate, column),
        })
    }

    /// Columns of rows of which so many coordinates are read.
    fn columns(self, coordinates: usize) -> usize {
        match self {
            Self::F32 => coordinates,
            Self::Bytes | Self::FixedPoint | Self::Short => coordinates.max(BYTES),
            Self::Network => NETWORK.1 * NETWORK.1,
        }
    }
}

choices! {
    /// A copy of the algorithm that is broken on purpose.
    pub enum Sabotage {
        /// The noise is half of what is claimed.
        HalvedNoise = "halved-noise",
        /// Gradients are not clipped.
        SkippedClip = "skipped-clip",
        /// The sensitivity counts one participation less than there is.
        IgnoredParticipation = "ignored-participation",
        /// Batches that are accounted for as drawn at random are read in their order.
        FixedOrder = "fixed-order",
        /// Under add/remove, batch, rate and divisor come from the real number of rows.
        DivisorFromRows = "divisor-from-rows",
        /// Of networks: the sum is clipped, not its terms.
        ClipAfterSum = "clip-after-sum",
        /// Of networks: each layer is clipped to the norm of the whole.
        ClipLayers = "clip-layers",
        /// Of networks: a norm takes its mean over the batch.
        BatchStatistic = "batch-statistic",
        /// Of units: each row is clipped by itself.
        ClipRowsNotUnits = "clip-rows-not-units",
        /// Of units: batch, rate and divisor come from the number of rows.
        DivisorFromRowCount = "divisor-from-row-count",
        /// Of units: their number is that of the units that have rows.
        UnitCountFromRows = "unit-count-from-rows",
        /// Of moments: entries above and below the diagonal have noise of their own.
        TwoTriangles = "two-triangles",
        /// Of selections: the winner's score is told as it was before its noise.
        ReportTheScore = "report-the-score",
        /// Of selections: the number of trials is not random.
        DeterministicCount = "deterministic-count",
    }
}

impl Sabotage {
    /// The only relation whose claim it breaks, if there is one.
    pub fn breaks(self) -> Option<Adjacency> {
        (self == Self::DivisorFromRows).then_some(Adjacency::AddRemove)
    }

    /// It breaks networks, and nothing else; in batches whose rows are known, if it is one of the sum.
    pub fn is_of_networks(self) -> bool {
        self == Self::ClipLayers || self.is_of_batches()
    }

    /// It is made of the rows that share a batch.
    pub(super) fn is_of_batches(self) -> bool {
        matches!(self, Self::ClipAfterSum | Self::BatchStatistic)
    }

    /// It breaks claims about units of several rows, and no others.
    pub fn is_of_units(self) -> bool {
        matches!(self, Self::ClipRowsNotUnits | Self::DivisorFromRowCount | Self::UnitCountFromRows)
    }

    /// It breaks claims about selections, and no others.
    pub fn is_of_selections(self) -> bool {
        matches!(self, Self::ReportTheScore | Self::DeterministicCount)
    }

    /// The example stands twice in the data.
    fn repeats(self) -> bool {
        matches!(self, Self::IgnoredParticipation | Self::ClipRowsNotUnits)
    }

    /// A plan from a number that is private.
    pub(super) fn is_of_counts(self) -> bool {
        matches!(self, Self::DivisorFromRows | Self::DivisorFromRowCount | Self::UnitCountFromRows)
    }
}

/// The noise that a claim came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Noise {
    /// Gaussian.
    Multiplier(f64),
    /// Laplace, as the ε by addition of its scales.
    PureEpsilon(f64),
}

impl Scene {
    /// The scene in which `sabotage` bites: a divisor shows where it is small, and all of the batch.
    pub(super) fn sabotaged(&self, sabotage: Option<Sabotage>) -> Self {
        match sabotage {
            Some(sabotage) if sabotage.is_of_counts() => {
                Self { rows: 4, batch_size: None, epsilon: Some(0.5), ..self.clone() }
            }
            Some(Sabotage::IgnoredParticipation) => Self { rows: self.rows_with_second, ..self.clone() },
            _ => self.clone(),
        }
    }

    /// True if the rows of a batch are drawn.
    pub(super) fn is_drawn(&self) -> bool {
        self.batch_size.is_some() && !self.parameters.contains(&("sampling", "fixed"))
    }

    /// ε of the claim where none is asked for.
    pub(super) fn epsilon(&self, delta: f64) -> f64 {
        self.epsilon.or_else(|| gaussian::epsilon(delta, CLAIMED_MU).ok()).unwrap_or(1.0)
    }

    /// True if the audit of `algorithm` can be made on such rows.
    pub fn takes(&self, rows: CanaryRows, algorithm: &Algorithm) -> bool {
        match rows {
            CanaryRows::F32 => true,
            CanaryRows::Bytes | CanaryRows::FixedPoint => !self.needs_f32,
            CanaryRows::Short => !self.needs_f32 && algorithm.reads("precision"),
            CanaryRows::Network => !self.needs_f32 && !self.needs_units && algorithm.reads("initialization"),
        }
    }

    /// The settings with this budget, key and clip norm (1 in a claim); steps on rows of bytes are small where the algorithm
    /// takes any.
    pub(super) fn settings(
        &self,
        budget: Budget,
        clip: f64,
        key: StreamKey,
        (algorithm, rows): (&Algorithm, CanaryRows),
    ) -> Settings {
        let mut settings = Settings::new(budget, key).with("clip-norm", clip);
        if let Some(batch_size) = self.batch_size {
            settings.set("batch-size", batch_size);
        }
        if let Some(max_batch) = self.max_batch {
            settings.set("max-batch", max_batch);
        }
        for (name, value) in self.parameters {
            settings.set(name, value);
        }
        for (name, value) in self.scaled {
            settings.set(name, value * clip);
        }
        // In place of the scene's.
        let learning_rate = match rows {
            CanaryRows::F32 => None,
            CanaryRows::Network => Some(NETWORK_LEARNING_RATE),
            _ => Some(BYTES_LEARNING_RATE),
        };
        if let Some(learning_rate) = learning_rate.filter(|_| algorithm.reads("learning-rate")) {
            settings.set("learning-rate", learning_rate);
        }
        if rows == CanaryRows::Network {
            settings.set("initialization", NETWORK.2);
        }
        if rows == CanaryRows::Short {
            settings.set("precision", 16);
        }
        settings
    }

    /// The settings that are run: those of the claim, its noise given as what it came to, unless sabotage changes them.
    /// `noise` is the claim's multiplier, or for Laplace noise the ε by addition that its scales come to.
    pub(super) fn run(
        &self,
        sabotage: Option<Sabotage>,
        noise: Noise,
        delta: f64,
        key: StreamKey,
        rows: (&Algorithm, CanaryRows),
    ) -> Settings {
        let (share, clip) = match sabotage {
            Some(Sabotage::HalvedNoise) => (0.5, 1.0),
            // The same noise: multiplier times clip norm.
            Some(Sabotage::SkippedClip) => (1.0 / (NO_CLIP * self.raw), NO_CLIP * self.raw),
            Some(Sabotage::ClipLayers) => (NETWORK_LAYERS.sqrt().recip(), NETWORK_LAYERS.sqrt()),
            None | Some(_) => (1.0, 1.0),
        };
        match noise {
            Noise::Multiplier(noise_multiplier) => {
                let budget = Budget::NoiseMultiplier { noise_multiplier: noise_multiplier * share, delta };
                let settings = self.settings(budget, clip, key, rows);
                match sabotage {
                    Some(Sabotage::FixedOrder) => {
                        settings.with("sampling", "fixed").without("bands").without("max-batch")
                    }
                    _ => settings,
                }
            }
            // Scales of Laplace noise are sensitivity over ε.
            Noise::PureEpsilon(epsilon) => {
                let budget = Budget::Target { epsilon: epsilon / share, delta };
                self.settings(budget, clip, key, rows).with("accountant", Accountant::Pure)
            }
        }
    }

    /// The problems without and with the canary, a unit of rows or a row: neighbours under `adjacency`.
    pub(super) fn problems(
        &self,
        adjacency: Adjacency,
        sabotage: Option<Sabotage>,
        (format, of_units): (CanaryRows, bool),
    ) -> [Problem; 2] {
        let places: &[usize] = match sabotage {
            Some(Sabotage::IgnoredParticipation) => &[0, self.second],
            // Two rows of the unit in a batch.
            Some(Sabotage::ClipRowsNotUnits) => &[0, 1],
            _ => &[0],
        };
        let of_units =
            of_units && !matches!(sabotage, Some(Sabotage::ClipRowsNotUnits | Sabotage::DivisorFromRowCount));
        let other = match adjacency {
            Adjacency::ReplaceOne => self.others,
            Adjacency::ZeroOut | Adjacency::AddRemove => Row::Zero,
        };
        let with_examples = |example: Row| -> Vec<Row> {
            let at = |place| if places.contains(&place) { example } else { other };
            (0..self.rows).map(at).collect()
        };
        let mut present = with_examples(Row::Canary);
        let absent = match adjacency {
            // What a unit without rows leaves of itself where units are counted by their rows.
            _ if matches!(sabotage, Some(Sabotage::DivisorFromRowCount | Sabotage::UnitCountFromRows)) => {
                vec![other; self.rows - 1]
            }
            Adjacency::ZeroOut => with_examples(Row::Null),
            Adjacency::ReplaceOne => with_examples(Row::Opposite),
            Adjacency::AddRemove => vec![other; self.rows - places.len()],
        };
        if sabotage == Some(Sabotage::DivisorFromRowCount) {
            // Its other rows.
            present.extend([Row::Zero; CANARY_ROWS]);
        }
        if sabotage == Some(Sabotage::ClipAfterSum) {
            present[1..self.batch_size.unwrap_or(self.rows)].fill(Row::Null);
        }
        [absent, present].map(|rows| {
            let is_counted = sabotage.is_some_and(Sabotage::is_of_counts);
            let public_rows = if is_counted { rows.len() } else { self.rows };
            let relation = match adjacency {
                Adjacency::ZeroOut => Relation::ZeroOut,
                Adjacency::ReplaceOne => Relation::ReplaceOne,
                Adjacency::AddRemove => Relation::AddRemove { public_rows },
            };
            let mut units: Vec<(Row, usize)> = rows.into_iter().map(|row| (row, 0)).collect();
            if sabotage == Some(Sabotage::BatchStatistic) {
                for batch in units.chunks_mut(self.batch_size.unwrap_or(self.rows)) {
                    let known = || batch.iter().filter(|(row, _)| *row != Row::Null);
                    let mean = known().map(|(row, _)| contrast(*row)).sum::<usize>() / known().count().max(1);
                    batch.iter_mut().for_each(|(_, less)| *less = mean);
                }
            }
            self.problem(relation, &units, (format, of_units, COLUMNS))
        })
    }

    /// The scene with so many canaries in one run, each with a coordinate of its own: as many times the rows and the batch.
    pub(super) fn with_canaries(&self, canaries: usize, sabotage: Option<Sabotage>) -> Self {
        let copies = if sabotage.is_some_and(Sabotage::repeats) { 2 } else { 1 };
        // And a row that stays, whatever the coins are.
        let scale = (copies * canaries + 1).div_ceil(self.rows);
        let [batch_size, max_batch] = [self.batch_size, self.max_batch].map(|size| size.map(|size| scale * size));
        Self { rows: scale * self.rows, batch_size, max_batch, second: scale * self.second, ..self.clone() }
    }

    /// The problem of a scene [`with_canaries`](Self::with_canaries), each of them in or out as `coins` say; out is what the relation says.
    pub(super) fn of_coins(
        &self,
        adjacency: Adjacency,
        sabotage: Option<Sabotage>,
        (format, of_units): (CanaryRows, bool),
        coins: &[bool],
    ) -> Problem {
        let of_units = of_units && sabotage != Some(Sabotage::ClipRowsNotUnits);
        // A second copy stands one block later: in another batch, or as a row of the same unit in the same one.
        let block = match sabotage {
            Some(Sabotage::ClipRowsNotUnits) => 1,
            Some(Sabotage::IgnoredParticipation) => self.second,
            _ => 0,
        };
        let mut units = vec![Some((Row::Zero, 0)); self.rows];
        for (canary, &is_in) in coins.iter().enumerate() {
            let row = match adjacency {
                _ if is_in => Some((Row::Canary, canary)),
                Adjacency::ZeroOut => Some((Row::Null, canary)),
                Adjacency::ReplaceOne => Some((Row::Opposite, canary)),
                Adjacency::AddRemove => None,
            };
            let place = canary + canary.checked_div(block).map_or(0, |blocks| blocks * block);
            units[place] = row;
            units[place + block] = row;
        }
        let units: Vec<_> = units.into_iter().flatten().collect();
        let relation = match adjacency {
            Adjacency::ZeroOut => Relation::ZeroOut,
            Adjacency::ReplaceOne => Relation::ReplaceOne,
            Adjacency::AddRemove => Relation::AddRemove { public_rows: self.rows },
        };
        self.problem(relation, &units, (format, of_units, coins.len()))
    }

    /// The problem of `units`, all rows of each of which are alike, or of one row each.
    fn problem(
        &self,
        relation: Relation,
        units: &[(Row, usize)],
        (format, of_units, coordinates): (CanaryRows, bool, usize),
    ) -> Problem {
        if !of_units {
            return self.problem_of_rows(relation, (units, None), (format, coordinates));
        }
        let rows_of = |row: Row| match row {
            Row::Canary => CANARY_ROWS,
            Row::Opposite => OPPOSITE_ROWS,
            Row::Zero => 1,
            Row::Null => 0,
        };
        let numbered = || units.iter().zip(0..).flat_map(|(&row, unit)| (0..rows_of(row.0)).map(move |_| (row, unit)));
        let rows: Vec<_> = numbered().map(|(row, _)| row).collect();
        let ids = UnitIds { of_rows: numbered().map(|(_, unit)| unit).collect(), count: units.len() };
        self.problem_of_rows(relation, (&rows, Some(&ids)), (format, coordinates))
    }

    /// The problem of `rows`, each with the coordinate of its feature (of an image with what its contrast lacks), in a domain of this relation.
    fn problem_of_rows(
        &self,
        relation: Relation,
        (rows, ids): (&[(Row, usize)], Option<&UnitIds>),
        (format, coordinates): (CanaryRows, usize),
    ) -> Problem {
        let width = format.columns(coordinates);
        let declaration = UnitDeclaration { column: None, reduction: Reduction::Mean, most_rows: None };
        let bounds = |lo, hi| Bounds::new(lo, hi).expect("bounds in order");
        let domain = |count, bounds, storage, label| {
            let columns = Columns::Matrix { count, bounds };
            let unit = ids.map(|_| declaration.clone());
            Domain { relation, unit, ..Domain::new(columns, storage, label, DomainSource::Arguments) }
        };
        let mut unit = 1.0;
        let (features, labels, domain, loss) = match format {
            CanaryRows::Bytes | CanaryRows::FixedPoint | CanaryRows::Short => {
                let mut values = vec![0; rows.len() * width];
                for ((row, coordinate), values) in rows.iter().zip(values.chunks_exact_mut(width)) {
                    values[*coordinate] = u8::from(matches!(row, Row::Canary | Row::Opposite));
                }
                // The residual (½, −½) is 1/√2 long, and makes a gradient of raw.
                let feature = std::f32::consts::SQRT_2 * self.raw as f32;
                let labels = rows.iter().map(|(row, _)| u32::from(*row == Row::Canary)).collect();
                let classes = Label::Classes(vec!["0".to_owned(), "1".to_owned()]);
                let (features, domain) = if format == CanaryRows::FixedPoint {
                    unit = f64::from(feature);
                    let values: Vec<f32> = values.into_iter().map(|value| f32::from(value) * feature).collect();
                    let features = Features::f32(values, width);
                    (features, domain(width, bounds(0.0, unit), Storage::Dense, classes))
                } else {
                    values.iter_mut().for_each(|value| *value *= 255);
                    let features = Features::bytes(&values, width, feature / 255.0);
                    (features, domain(width, bounds(0.0, 255.0), Storage::Bytes, classes))
                };
                (features, Labels::numbered(labels, 2), domain, Loss::Softmax)
            }
            CanaryRows::F32 => {
                let sign = |row: &Row| match row {
                    Row::Canary => 1.0_f32,
                    Row::Opposite => -1.0,
                    Row::Zero | Row::Null => 0.0,
                };
                let mut values = vec![0.0; rows.len() * width];
                for ((row, coordinate), values) in rows.iter().zip(values.chunks_exact_mut(width)) {
                    values[*coordinate] = sign(row);
                }
                let labels = rows.iter().map(|(row, _)| sign(row).abs() * -self.raw as f32).collect();
                let number = Label::Number(bounds(-self.raw, self.raw));
                let domain = domain(width, bounds(-1.0, 1.0), Storage::Dense, number);
                (Features::f32(values, width), Labels::Values(labels), domain, Loss::Squared)
            }
            CanaryRows::Network => {
                let signs = || (0..width).map(|place| if place * 7 % 11 < 6 { 1.0 } else { -1.0 });
                let image = |&(row, less): &(Row, usize)| {
                    let contrast = (contrast(row) as f32 - less as f32) / 200.0;
                    signs().map(move |sign| 0.5 + sign * contrast)
                };
                let labels = rows.iter().map(|(row, _)| u32::from(*row != Row::Canary)).collect();
                let classes = Label::Classes(vec!["0".to_owned(), "1".to_owned()]);
                let domain = domain(width, bounds(0.0, 1.0), Storage::Dense, classes);
                let values: Vec<f32> = rows.iter().flat_map(image).collect();
                (Features::f32(values, width), Labels::numbered(labels, 2), domain, Loss::Softmax)
            }
        };
        let mut dataset = Dataset::new("canary", features, labels)
            .and_then(|dataset| dataset.in_domain_times(Arc::new(domain), unit))
            .expect("rows of the domain");
        if format == CanaryRows::F32 {
            dataset = dataset.clip_features(Norm::L2, 1.0).expect("a bound above 0");
        }
        // Drawn, others through a network would hide the canary: each has a gradient.
        let is_hidden = |row| row == Row::Zero && format == CanaryRows::Network && self.is_drawn();
        let null = (0..rows.len()).filter(|&place| rows[place].0 == Row::Null || is_hidden(rows[place].0));
        let mut dataset = null.fold(dataset, Dataset::null_row);
        if let Some(ids) = ids {
            dataset = dataset.by_unit(ids, declaration).expect("a unit for each row");
        }
        let is_network = format == CanaryRows::Network;
        let problem = Problem::new(Arc::new(dataset), loss, is_network, 0.0).expect("labels for the loss");
        if is_network { problem.with_network(NETWORK.0).expect("a network of these rows") } else { problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ALGORITHMS;
    use crate::oracle::Oracle;
    use crate::parallel::Engine;
    use crate::privacy::Sampling;
    use rounds_kernels::features::{Norm, Selection};
    use rounds_kernels::linear::{Clip, has_integer_kernels};

    #[test]
    fn the_claimed_clip_norm_clips_the_canary_and_that_of_a_skipped_clip_clips_nothing() {
        let private = ALGORITHMS.iter().filter(|algorithm| algorithm.private);
        for (algorithm, scene) in
            private.flat_map(|algorithm| algorithm.scenes.iter().map(move |scene| (*algorithm, scene)))
        {
            let id = algorithm.id;
            for rows in [CanaryRows::F32, CanaryRows::Bytes, CanaryRows::FixedPoint] {
                if !scene.takes(rows, algorithm) {
                    continue;
                }
                let [_, present] = scene.problems(Adjacency::ZeroOut, None, (rows, false));
                for (sabotage, expected) in [(None, 1.0), (Some(Sabotage::SkippedClip), scene.raw)] {
                    let key = StreamKey::Simulation(0);
                    let settings = scene.run(sabotage, Noise::Multiplier(1.0), 1e-5, key, (algorithm, rows));
                    let clip_norm = settings.parameters["clip-norm"].parse::<f64>().unwrap() as f32;
                    let (sum, clipped) = gradient_sum(&present, clip_norm);
                    assert_eq!(clipped, u64::from(sabotage.is_none()), "{id} on {rows}");
                    let along = rows.coordinates(&sum, 1).next().unwrap();
                    // The clipped row is rounded towards 0, by at most a step of 2⁻¹⁴.
                    let close = (f64::from(along.abs()) - expected).abs() < 7e-5 * expected;
                    assert!(close, "{id} on {rows}: {along}, not ±{expected}");
                }
            }
        }
    }

    /// What a claim rests on: rows in a fixed order are claimed as rows that were shuffled once.
    fn kind(sampling: Sampling) -> (&'static str, bool) {
        let fixed = if sampling == Sampling::ShuffledOnce { Sampling::FixedOrder } else { sampling };
        (fixed.name(), sampling.rate().is_some_and(|rate| rate < 1.0))
    }

    #[test]
    fn the_default_sampling_of_every_private_algorithm_has_a_scene() {
        for algorithm in ALGORITHMS.iter().copied().filter(|algorithm| algorithm.private) {
            let sampling = |scene: &Scene, is_default: bool| {
                let rows = CanaryRows::F32;
                let [_, present] = scene.problems(Adjacency::ZeroOut, None, (rows, false));
                let budget = Budget::Target { epsilon: 4.0, delta: 1e-5 };
                let settings = scene.settings(budget, 1.0, StreamKey::Simulation(0), (algorithm, rows));
                let prepared = if is_default {
                    let settings = settings.without("sampling").without("batch-size");
                    algorithm.prepare(&present.public().clone().with_rows(1_000), &settings)
                } else {
                    algorithm.prepare(&present, &settings)
                };
                kind(prepared.unwrap().mechanism.unwrap().sampling().unwrap())
            };
            let of_rows = algorithm.scenes.iter().filter(|scene| !scene.needs_units);
            let audited: Vec<_> = of_rows.map(|scene| sampling(scene, false)).collect();
            let default = sampling(&algorithm.scenes[0], true);
            assert!(audited.contains(&default), "{}: {default:?} is none of {audited:?}", algorithm.id);
        }
    }

    /// The sum over all rows at 0, and the number of clipped rows.
    fn gradient_sum(problem: &Problem, clip_norm: f32) -> (Vec<f32>, u64) {
        let norm = Norm::L2;
        let clip = Clip::Bounded { norm, clip_norm };
        let mut oracle = Oracle::new(problem, Engine::Sequential);
        let model = vec![0.0; problem.parameters()];
        let mut sum = vec![0.0; problem.parameters()];
        let batch = Selection::Range(0..problem.rows());
        oracle.gradient_sum(&batch, &model, clip, &mut sum).unwrap();
        let sum = sum.into_iter().map(|value| value as f32).collect();
        (sum, oracle.ledger().clipped)
    }

    #[test]
    fn neighbours_differ_as_their_relation_says_and_in_nothing_public() {
        let scene = &crate::optimizers::dp_sgd::DP_SGD.scenes[1];
        let formats = [CanaryRows::F32, CanaryRows::Bytes, CanaryRows::FixedPoint];
        for (rows, of_units) in formats.into_iter().flat_map(|rows| [(rows, false), (rows, true)]) {
            for (adjacency, real_rows, sums) in [
                (Adjacency::ZeroOut, 16, [0.0, 1.0]),
                (Adjacency::AddRemove, 15, [0.0, 1.0]),
                (Adjacency::ReplaceOne, 16, [-16.0, -14.0]),
            ] {
                let problems = scene.problems(adjacency, None, (rows, of_units));
                assert_eq!(problems[1].dataset().len() > 16, of_units);
                assert_eq!(problems[0].public(), problems[1].public());
                assert_eq!((problems[0].rows(), problems[1].rows()), (real_rows, 16));
                assert_eq!(problems[0].public().rows(), 16);
                assert!(rows == CanaryRows::F32 || problems[0].is_in_integers() == has_integer_kernels());
                assert_eq!(problems[0].unclaimable(), None);
                assert!(of_units || problems[0].dataset().is_null(0) == (adjacency == Adjacency::ZeroOut));
                for (problem, expected) in problems.iter().zip(sums) {
                    let along = rows.coordinates(&gradient_sum(problem, 1.0).0, 1).next().unwrap();
                    let close = (f64::from(along) - expected).abs() < 1e-3;
                    assert!(close, "{adjacency} on {rows}: {along}");
                }
            }
        }
        let broken = scene.problems(Adjacency::AddRemove, Some(Sabotage::DivisorFromRows), (CanaryRows::F32, false));
        assert_eq!((broken[0].public().rows(), broken[1].public().rows()), (15, 16));
    }
}

//! Mechanisms that keep vectors: a recursion, written once for [`Machine`]s, and the stream that runs it.
//!
//! **The real noise.** A recursion is a list of steps over real numbers: draws of ideal normals, and sums and products with
//! the stored f64 coefficients. Its outcome times σ is W. [`Vectors`] follows it in f32 (idealised noise of simulations)
//! or f64, [`Replay`] in exact arithmetic from the key alone.
//!
//! **The bound.** Call a step's own error how far its result is from the exact step of the *computed* kept vectors. What
//! is kept in slot j has an own error of at most δ_j, what is put out of e. The errors pass through a linear recursion, so
//!
//! ```text
//! |W̃_t − W_t| ≤ e + σ·Σ_j κ_j·δ_j,     κ_j ≥ Σ_s |change of W_t/σ if slot j changes by 1 where it is kept in round s|
//! ```
//!
//! κ follows from the coefficients alone ([`Recursion::gains`], [`impulse_gains`]); δ_j is the greatest own error so far, of
//! the block of coordinates. For `Cζ = z`, Σκ is the norm of a row of C⁻¹·diag(C) without the diagonal. Adding up the errors
//! of the ζ themselves would let the bound grow exponentially, in exact arithmetic too: there the middles of balls are kept,
//! and their radii are the δ.
//!
//! **Privacy.** The integers that are added are those of W, whatever the bounds are: these decide how long it takes, which
//! depends on the noise alone. Nothing here reads the sum but the last addition.
//!
//! **Own errors of [`Vectors`]**: E of the normals ([`fill_enclosed_normals`]) carried through the step, and for each
//! rounding u times its result; the latter are added up for each coordinate. Sums of bounds are themselves rounded, which
//! the 0.1 % covers that [`round_enclosed`] adds to every bound.
//!
//! [`fill_enclosed_normals`]: rounds_kernels::random::exact::fill_enclosed_normals

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rounds_kernels::random::exact::{Exact, LinearForm, decide};
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey};

use super::lattice::{MOST_OF_RECURSIONS, add_enclosed, in_units};
use super::scalar::NoiseScalar;
use super::stream::{NoiseMechanism, Progress, Result};
use crate::parallel::{Engine, lock};
use crate::state::StateVisitor;

/// Unit roundoff u.
pub(super) const ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// Steps on a value v, kept values k, which are 0 at first, and the round's outcome w, which begins at 0.
pub(super) trait Machine {
    /// v ← z(purpose, round).
    fn draw(&mut self, purpose: Purpose, round: u64);
    /// v ← v + Σ_{i < count} c_i·k_{j_i} in this order, (c_i, j_i) = `term(i)`.
    fn add_kept(&mut self, count: usize, term: impl Fn(usize) -> (f64, usize));
    /// v ← v/divisor.
    fn divide(&mut self, divisor: f64);
    /// v ← own·z(purpose, round) + rest·v.
    fn average(&mut self, own: f64, purpose: Purpose, round: u64, rest: f64);
    /// k_slot ← v.
    fn keep(&mut self, slot: usize);
    /// k_slot ← factor·k_slot + v.
    fn decay(&mut self, slot: usize, factor: f64);
    /// w ← w + v.
    fn put_out(&mut self);
    /// w ← w − k_slot.
    fn take_back(&mut self, slot: usize);
}

/// Rounds of noise from kept vectors.
pub(super) trait Recursion: Send + Sync + 'static {
    /// Vectors kept.
    fn slots(&self) -> usize;
    /// One round.
    fn step(&self, round: u64, machine: &mut impl Machine);
    /// The first round that `round` depends on.
    fn origin(&self, round: u64) -> u64;
    /// Bounds of the κ in all of these rounds, in a form that [`Self::carried`] reads; their sum bounds Σ_j κ_j. It is infinite
    /// where the exact arithmetic could leave its range, 2⁶².
    fn gains(&self, rounds: u64) -> Vec<f64>;
    /// `Σ_j κ_j·δ_j` or more, in `round`.
    fn carried(&self, gains: &[f64], round: u64, errors: &[f64]) -> f64;
}

/// A recursion for a number of rounds, shared by all its streams.
pub(super) struct Planned<R> {
    pub(super) recursion: R,
    pub(super) rounds: u64,
    gains: OnceLock<Vec<f64>>,
}

impl<R: Recursion> Planned<R> {
    pub(super) fn new(recursion: R, rounds: u64) -> Self {
        Self { recursion, rounds, gains: OnceLock::new() }
    }

    fn gains(&self) -> &[f64] {
        self.gains.get_or_init(|| self.recursion.gains(self.rounds))
    }

    /// [`Recursion::carried`].
    fn carried(&self, round: u64, errors: &[f64]) -> f64 {
        self.recursion.carried(self.gains(), round, errors)
    }
}

/// The stream of a recursion.
pub(super) struct Recursive<R> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    planned: Arc<Planned<R>>,
    dimension: usize,
    kept: Kept,
}

/// The kept vectors: of f64 for a release key or a lattice, of f32 for idealised simulations. One task has a block, so that
/// its lock is never contended.
enum Kept {
    /// Before the first round.
    Nothing,
    Single(Vec<Mutex<Block<f32>>>),
    Double(Vec<Mutex<Block<f64>>>),
}

/// The kept vectors of a block of coordinates.
struct Block<F> {
    /// One row a slot.
    values: Vec<F>,
    /// δ.
    errors: Vec<f64>,
}

impl<R: Recursion> Recursive<R> {
    /// Noise on vectors of length `dimension`, σ the standard deviation of the normals.
    pub(super) fn new(key: StreamKey, standard_deviation: f64, planned: Arc<Planned<R>>, dimension: usize) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(planned.rounds),
            planned,
            dimension,
            kept: Kept::Nothing,
        }
    }

    fn blocks<F: NoiseScalar>(&self) -> Vec<Mutex<Block<F>>> {
        let slots = self.planned.recursion.slots();
        (0..self.dimension)
            .step_by(BLOCK_COORDINATES)
            .map(|first| BLOCK_COORDINATES.min(self.dimension - first))
            .map(|length| {
                Mutex::new(Block {
                    values: vec![F::default(); slots * length],
                    errors: vec![0.0; if F::ENCLOSED { slots } else { 0 }],
                })
            })
            .collect()
    }

    /// One round on a block of coordinates: `outcome += factor·w`; its own error, if values are enclosed.
    fn step<F: NoiseScalar>(
        &self,
        blocks: &[Mutex<Block<F>>],
        round: u64,
        block: usize,
        factor: f64,
        outcome: &mut [f64],
    ) -> f64 {
        let mut kept = lock(&blocks[block]);
        let mut work = Work::new();
        let source = Source::Key(&self.key, block as u64);
        let mut machine = Vectors::new(source, factor, &mut work, &mut kept, outcome);
        self.planned.recursion.step(round, &mut machine);
        machine.outcome_error
    }

    /// One round on a block of coordinates: `values += W`, and the bound of their errors; σ is `scale`.
    fn enclose(&self, blocks: &[Mutex<Block<f64>>], round: u64, block: usize, scale: f64, values: &mut [f64]) -> f64 {
        let own = self.step(blocks, round, block, scale, values);
        own + scale * self.planned.carried(round, &lock(&blocks[block]).errors)
    }

    fn in_units(&self, unit: f64) -> Result<f64> {
        let size = 1.0 + self.planned.gains().iter().sum::<f64>();
        in_units(self.standard_deviation, unit, size, MOST_OF_RECURSIONS)
    }

    /// Adds W, not rounded.
    fn add<F: NoiseScalar>(&self, blocks: &[Mutex<Block<F>>], round: u64, sum: &mut [f64], engine: &Engine) {
        engine.for_each_chunk(sum, BLOCK_COORDINATES, &|offset, part| {
            self.step(blocks, round, offset / BLOCK_COORDINATES, self.standard_deviation, part);
        });
    }

    /// Adds `⌊W + ½⌋`, σ being `scale`.
    fn add_rounded(&self, blocks: &[Mutex<Block<f64>>], round: u64, sum: &mut [f64], scale: f64, engine: &Engine) {
        let replay = Replay { planned: &self.planned, round, scale };
        add_enclosed(sum, engine, &|block, values| self.enclose(blocks, round, block, scale, values), &|coordinate| {
            decide(&self.key, &replay, coordinate)
        });
    }
}

impl<R: Recursion> NoiseMechanism for Recursive<R> {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        debug_assert_eq!(sum.len(), self.dimension);
        self.progress.take(round)?;
        let scale = unit.map(|unit| self.in_units(unit)).transpose()?;
        if matches!(self.kept, Kept::Nothing) {
            self.kept = match (&self.key, scale) {
                (StreamKey::Simulation(_), None) => Kept::Single(self.blocks()),
                _ => Kept::Double(self.blocks()),
            };
        }
        match (&self.kept, scale) {
            (Kept::Double(blocks), Some(scale)) => self.add_rounded(blocks, round, sum, scale, engine),
            (Kept::Double(blocks), None) => self.add(blocks, round, sum, engine),
            (Kept::Single(blocks), None) => self.add(blocks, round, sum, engine),
            _ => panic!("a run gives a unit in every round or in none"),
        }
        Ok(())
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        self.in_units(unit).map(drop)
    }

    fn resident_vectors(&self) -> usize {
        self.planned.recursion.slots()
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        fn visit<F: NoiseScalar>(visitor: &mut dyn StateVisitor, blocks: &mut [Mutex<Block<F>>]) {
            for block in blocks {
                let block = block.get_mut().unwrap_or_else(PoisonError::into_inner);
                F::visit(visitor, "noise_kept", &mut block.values);
                if F::ENCLOSED {
                    visitor.f64s("noise_errors", &mut block.errors);
                }
            }
        }
        visitor.u64("noise_next", &mut self.progress.next);
        let now = match self.kept {
            Kept::Nothing => 0,
            Kept::Single(_) => 32,
            Kept::Double(_) => 64,
        };
        let mut bits = now;
        visitor.u64("noise_bits", &mut bits);
        if bits != now {
            self.kept = match bits {
                32 => Kept::Single(self.blocks()),
                64 => Kept::Double(self.blocks()),
                _ => Kept::Nothing,
            };
        }
        match &mut self.kept {
            Kept::Nothing => {}
            Kept::Single(blocks) => visit(visitor, blocks),
            Kept::Double(blocks) => visit(visitor, blocks),
        }
    }
}

/// v and fresh normals for a block of coordinates, and the own error of each coordinate of v from roundings, in units of u.
struct Work<F> {
    value: [F; BLOCK_COORDINATES],
    fresh: [F; BLOCK_COORDINATES],
    roundings: [f64; BLOCK_COORDINATES],
}

impl<F: NoiseScalar> Work<F> {
    #[allow(clippy::large_stack_arrays, reason = "nothing is allocated in a round")]
    fn new() -> Self {
        Self {
            value: [F::default(); BLOCK_COORDINATES],
            fresh: [F::default(); BLOCK_COORDINATES],
            roundings: [0.0; BLOCK_COORDINATES],
        }
    }
}

/// The normals of a [`Vectors`].
enum Source<'a> {
    /// Those of a block.
    Key(&'a StreamKey, u64),
    /// None: instead the `first + i`-th value that is kept changes by 1 at coordinate i.
    Impulses { first: usize, slots: &'a mut Vec<usize> },
}

/// The machine in floating point, on part of a block of coordinates; w is `outcome`, times `factor`.
struct Vectors<'a, F> {
    source: Source<'a>,
    factor: f64,
    value: &'a mut [F],
    fresh: &'a mut [F],
    roundings: &'a mut [f64],
    /// Own error of v but for roundings.
    error: f64,
    kept: &'a mut Block<F>,
    outcome: &'a mut [f64],
    /// Bound of the outcome's own error, and of its size.
    outcome_error: f64,
    outcome_size: f64,
}

impl<'a, F: NoiseScalar> Vectors<'a, F> {
    fn new(
        source: Source<'a>,
        factor: f64,
        work: &'a mut Work<F>,
        kept: &'a mut Block<F>,
        outcome: &'a mut [f64],
    ) -> Self {
        let length = outcome.len();
        Self {
            source,
            factor,
            value: &mut work.value[..length],
            fresh: &mut work.fresh[..length],
            roundings: &mut work.roundings[..length],
            error: 0.0,
            kept,
            outcome,
            outcome_error: 0.0,
            outcome_size: 0.0,
        }
    }

    fn own_error(&self) -> f64 {
        if F::ENCLOSED { self.error + ROUNDOFF * greatest(self.roundings) } else { 0.0 }
    }

    /// Notes the own error of what slot `slot` keeps now.
    fn note(&mut self, slot: usize, error: f64) {
        if F::ENCLOSED {
            self.kept.errors[slot] = self.kept.errors[slot].max(error);
        }
        if let Source::Impulses { first, slots } = &mut self.source {
            let length = self.outcome.len();
            if let Some(coordinate) = slots.len().checked_sub(*first).filter(|at| *at < length) {
                let value = &mut self.kept.values[slot * length + coordinate];
                *value = value.add_product(F::from_f64(1.0), F::from_f64(1.0));
            }
            slots.push(slot);
        }
    }

    /// `v += Σ c_i·k_i`.
    fn add_group<const GROUP: usize>(&mut self, terms: [(f64, usize); GROUP]) {
        let length = self.value.len();
        let vectors = terms.map(|(factor, slot)| (F::from_f64(factor), &self.kept.values[slot * length..][..length]));
        for (index, (value, roundings)) in self.value.iter_mut().zip(&mut *self.roundings).enumerate() {
            // A sum of eight is made by itself: what it rounds is smaller than v. One product is added to v at once.
            let (mut sum, mut sizes) = (if GROUP == 1 { *value } else { F::default() }, *roundings);
            for (factor, vector) in &vectors {
                sum = sum.add_product(*factor, vector[index]);
                if F::ENCLOSED {
                    sizes += sum.into().abs();
                }
            }
            if GROUP > 1 {
                sum = value.add_product(F::from_f64(1.0), sum);
                if F::ENCLOSED {
                    sizes += sum.into().abs();
                }
            }
            (*value, *roundings) = (sum, sizes);
        }
    }

    /// `w += factor·values`, the product and the sum rounded.
    fn add_to_outcome(outcome: &mut [f64], factor: f64, values: &[F]) {
        for (outcome, &value) in outcome.iter_mut().zip(values) {
            *outcome += factor * value.into();
        }
    }

    /// Adds the two roundings of [`Self::add_to_outcome`], the product being at most as large as what was there and what is.
    fn note_outcome(&mut self) {
        if F::ENCLOSED {
            let before = std::mem::replace(&mut self.outcome_size, greatest(self.outcome));
            self.outcome_error += ROUNDOFF * (2.0 * self.outcome_size + before);
        }
    }
}

impl<F: NoiseScalar> Machine for Vectors<'_, F> {
    fn draw(&mut self, purpose: Purpose, round: u64) {
        self.error = match self.source {
            Source::Key(key, block) => F::fill_gaussian(key, purpose, round, block, self.value).error,
            Source::Impulses { .. } => {
                self.value.fill(F::default());
                0.0
            }
        };
        self.roundings.fill(0.0);
    }

    fn add_kept(&mut self, count: usize, term: impl Fn(usize) -> (f64, usize)) {
        // Eight vectors are read together, so that v passes through the registers once for all of them.
        let whole = count / 8 * 8;
        for first in (0..whole).step_by(8) {
            self.add_group::<8>(std::array::from_fn(|i| term(first + i)));
        }
        (whole..count).for_each(|i| self.add_group([term(i)]));
    }

    fn divide(&mut self, divisor: f64) {
        self.error /= divisor.abs();
        for (value, roundings) in self.value.iter_mut().zip(&mut *self.roundings) {
            *value = value.over(divisor);
            if F::ENCLOSED {
                *roundings = *roundings / divisor.abs() + (*value).into().abs();
            }
        }
    }

    fn average(&mut self, own: f64, purpose: Purpose, round: u64, rest: f64) {
        let error = match self.source {
            Source::Key(key, block) => F::fill_gaussian(key, purpose, round, block, self.fresh).error,
            Source::Impulses { .. } => 0.0,
        };
        self.error = own.abs() * error + rest.abs() * self.error;
        let (own, other) = (F::from_f64(own), F::from_f64(rest));
        for ((value, &mut fresh), roundings) in self.value.iter_mut().zip(&mut *self.fresh).zip(&mut *self.roundings) {
            let drawn = F::default().add_product(own, fresh);
            *value = drawn.add_product(other, *value);
            if F::ENCLOSED {
                *roundings = rest.abs() * *roundings + drawn.into().abs() + (*value).into().abs();
            }
        }
    }

    fn keep(&mut self, slot: usize) {
        let length = self.value.len();
        self.kept.values[slot * length..][..length].copy_from_slice(self.value);
        let error = self.own_error();
        self.note(slot, error);
    }

    fn decay(&mut self, slot: usize, factor: f64) {
        let length = self.value.len();
        let rate = F::from_f64(factor);
        let kept = &mut self.kept.values[slot * length..][..length];
        for (kept, &value) in kept.iter_mut().zip(&*self.value) {
            *kept = value.add_product(rate, *kept);
        }
        let size = if F::ENCLOSED { greatest(kept) } else { 0.0 };
        let error = self.own_error() + ROUNDOFF * size;
        self.note(slot, error);
    }

    fn put_out(&mut self) {
        Self::add_to_outcome(self.outcome, self.factor, self.value);
        self.outcome_error += self.factor * self.own_error();
        self.note_outcome();
    }

    fn take_back(&mut self, slot: usize) {
        let length = self.value.len();
        Self::add_to_outcome(self.outcome, -self.factor, &self.kept.values[slot * length..][..length]);
        self.note_outcome();
    }
}

/// The greatest size of a value.
fn greatest<F: Copy + Into<f64>>(values: &[F]) -> f64 {
    // Lanes of their own, as the maximum of one after the other is not vectorised.
    let mut lanes = [0.0_f64; 8];
    let (groups, rest) = values.as_chunks::<8>();
    for values in groups.iter().map(<[F; 8]>::as_slice).chain([rest]) {
        for (lane, &value) in lanes.iter_mut().zip(values) {
            let size = value.into().abs();
            *lane = if size > *lane { size } else { *lane };
        }
    }
    lanes.into_iter().fold(0.0, f64::max)
}

/// Bounds of κ from impulses: the recursion runs without draws, on one coordinate for each value that is kept, which there
/// changes by 1. The result is the greatest Σ_j κ_j of a round; or, where the recursion is the same in every round
/// (`stationary`), each κ_j, as the sum over all rounds of what an impulse of the first one does.
///
/// The bounds allow for the roundings of this very computation: with δ and e its own errors and m slots,
/// `κ_j ≤ κ̃_j + T·(e + G·δ)` for the sum G of all κ, so that `G ≤ 2(G̃ + mTe)` if `mTδ ≤ ½`; if not, the bounds are infinite. It
/// takes the time of T rounds of noise on as many coordinates as values are kept, T for bands and m for buffers, once for a
/// plan. Above `G = 2²⁰` or `T = 2²⁴` they are infinite too: below, with coefficients up to 2¹⁰, no value reaches 2⁶².
pub(super) fn impulse_gains<R: Recursion>(recursion: &R, rounds: u64, stationary: bool) -> Vec<f64> {
    let slots = recursion.slots();
    // By slot, or by round.
    let mut sums = vec![0.0; if stationary { slots } else { rounds as usize }];
    let (mut first, mut error, mut outcome_error) = (0, 0.0_f64, 0.0_f64);
    let mut work = Work::new();
    loop {
        let length = if stationary { slots } else { BLOCK_COORDINATES.min(slots * rounds as usize) };
        let mut kept = Block { values: vec![0.0; slots * length], errors: vec![0.0; slots] };
        let mut owners = Vec::new();
        for round in 0..rounds {
            let mut outcome = vec![0.0; length];
            let source = Source::Impulses { first, slots: &mut owners };
            let mut machine = Vectors::<f64>::new(source, 1.0, &mut work, &mut kept, &mut outcome);
            recursion.step(round, &mut machine);
            outcome_error = outcome_error.max(machine.outcome_error);
            for (value, &slot) in outcome.iter().zip(owners.iter().skip(first)) {
                sums[if stationary { slot } else { round as usize }] += value.abs();
            }
        }
        error = kept.errors.iter().copied().fold(error, f64::max);
        first += length;
        if stationary || first >= owners.len() {
            break;
        }
    }
    let found = if stationary { sums } else { vec![sums.into_iter().fold(0.0, f64::max)] };
    let entries = slots as f64 * rounds as f64;
    let most = 2.0 * (found.iter().sum::<f64>() + entries * outcome_error);
    let valid = entries * error <= 0.5 && most <= 2_f64.powi(20) && rounds <= 1 << 24;
    let slack = if valid { entries * (outcome_error + most * error) } else { f64::INFINITY };
    found.into_iter().map(|found| found + slack).collect()
}

/// W of a coordinate, from the key alone.
struct Replay<'a, R> {
    planned: &'a Planned<R>,
    round: u64,
    scale: f64,
}

impl<R: Recursion> LinearForm for Replay<'_, R> {
    fn value<const N: usize>(&self, normal: &mut dyn FnMut(Purpose, u64) -> Exact<N>) -> Exact<N> {
        let recursion = &self.planned.recursion;
        let slots = recursion.slots();
        let mut point = Point {
            normal,
            value: Exact::ZERO,
            kept: vec![Exact::ZERO; slots],
            errors: vec![0.0; slots],
            outcome: Exact::ZERO,
        };
        for round in recursion.origin(self.round)..=self.round {
            point.outcome = Exact::ZERO;
            recursion.step(round, &mut point);
        }
        let error = 1.001 * self.scale * self.planned.carried(self.round, &point.errors);
        point.outcome.times(self.scale).widened(error)
    }
}

/// The machine in exact arithmetic, on one coordinate: kept are the middles of balls.
struct Point<'a, const N: usize> {
    normal: &'a mut dyn FnMut(Purpose, u64) -> Exact<N>,
    value: Exact<N>,
    kept: Vec<Exact<N>>,
    /// δ.
    errors: Vec<f64>,
    outcome: Exact<N>,
}

impl<const N: usize> Point<'_, N> {
    fn store(&mut self, slot: usize, value: Exact<N>) {
        let (centre, error) = value.centre();
        self.kept[slot] = centre;
        self.errors[slot] = self.errors[slot].max(error);
    }
}

impl<const N: usize> Machine for Point<'_, N> {
    fn draw(&mut self, purpose: Purpose, round: u64) {
        self.value = (self.normal)(purpose, round);
    }

    fn add_kept(&mut self, count: usize, term: impl Fn(usize) -> (f64, usize)) {
        for (factor, slot) in (0..count).map(term) {
            self.value = self.value + self.kept[slot].times(factor);
        }
    }

    fn divide(&mut self, divisor: f64) {
        self.value = self.value.over(divisor);
    }

    fn average(&mut self, own: f64, purpose: Purpose, round: u64, rest: f64) {
        self.value = (self.normal)(purpose, round).times(own) + self.value.times(rest);
    }

    fn keep(&mut self, slot: usize) {
        self.store(slot, self.value);
    }

    fn decay(&mut self, slot: usize, factor: f64) {
        self.store(slot, self.kept[slot].times(factor) + self.value);
    }

    fn put_out(&mut self) {
        self.outcome = self.outcome + self.value;
    }

    fn take_back(&mut self, slot: usize) {
        self.outcome = self.outcome - self.kept[slot];
    }
}

#[cfg(test)]
mod tests {
    use rounds_kernels::random::exact::round_enclosed;

    use super::super::banded::Banded;
    use super::super::buffered_toeplitz::BufferedToeplitz;
    use super::super::honaker::HonakerTree;
    use super::*;

    const ROUNDS: u64 = 20;
    const DIMENSION: usize = 100;

    fn banded() -> Banded {
        let row = |t: u64| (0..=t.min(4)).map(|lag| (1.0 + 0.03 * t as f64) / (1.0 + lag as f64)).collect();
        Banded::new((0..ROUNDS).map(row).collect())
    }

    fn buffered() -> BufferedToeplitz {
        BufferedToeplitz::new(&[0.044_441, 0.120_545, 0.311_390], &[0.998_973, 0.978_560, 0.743_284])
    }

    /// The bound holds, and a hundredth of it does not where errors of f64 are of the lattice's size.
    fn check_bound<R: Recursion>(recursion: R) {
        let planned = Arc::new(Planned::new(recursion, ROUNDS));
        for key in [StreamKey::Simulation(3), StreamKey::Release([7; 32])] {
            let stream = Recursive::new(key.clone(), 1.0, Arc::clone(&planned), DIMENSION);
            let all = |scale: f64, check: &mut dyn FnMut(f64, &[f64; DIMENSION], [i64; DIMENSION])| {
                let blocks = stream.blocks::<f64>();
                for round in 0..ROUNDS {
                    let mut values = [0.0; DIMENSION];
                    let bound = stream.enclose(&blocks, round, 0, scale, &mut values);
                    let replay = Replay { planned: &planned, round, scale };
                    check(bound, &values, std::array::from_fn(|j| decide(&key, &replay, j as u64)));
                }
            };
            let mut greatest = 0.0_f64;
            all(1.0, &mut |bound, _, _| greatest = greatest.max(bound));
            all(0.3 / greatest, &mut |bound, values, exact| {
                let mut rounded = [0; DIMENSION];
                round_enclosed(values, bound, &mut rounded, |j| exact[j]);
                assert!(rounded == exact && bound < 0.4, "{bound}");
            });
            let mut wrong = 0;
            all(25.0 / greatest, &mut |bound, values, exact| {
                let mut rounded = [0; DIMENSION];
                round_enclosed(values, 0.01 * bound, &mut rounded, |j| exact[j]);
                wrong += rounded.iter().zip(&exact).filter(|(a, b)| a != b).count();
                let errors = values.iter().zip(&exact).map(|(value, exact)| value - *exact as f64);
                assert!(errors.fold(0.0, |most: f64, error| most.max(error.abs())) <= bound + 0.5);
            });
            assert!(wrong > 5, "a hundredth of the bound is wrong {wrong} times");
        }
    }

    #[test]
    fn the_bounds_of_recursions_hold_and_a_hundredth_of_them_does_not() {
        check_bound(banded());
        check_bound(buffered());
        check_bound(HonakerTree::new(ROUNDS, 16));
    }

    #[test]
    fn gains_are_those_of_the_matrix() {
        // Of a band with c_0 = 1, c_1 = −½: C⁻¹[t, s] = 2^{s−t}, and the sum over s < t nears 1.
        let geometric = Banded::new(vec![vec![1.0, -0.5]; 40]);
        let found = geometric.gains(40);
        assert!((found[0] - 1.0).abs() < 1e-9, "{found:?}");
        // A buffer with ω and θ: C⁻¹ has c_i = −ω(θ − ω)^{i−1}, and a change of s_t by 1 changes ζ_{t+i} by it.
        let (omega, theta) = (0.25, 0.9);
        let found = BufferedToeplitz::new(&[omega], &[theta]).gains(400)[0];
        assert!((found - omega / (1.0 - (theta - omega))).abs() < 1e-9, "{found}");
        // The closed form of the tree bounds what impulses give.
        let tree = HonakerTree::new(64, 64);
        let (closed, found) = (tree.gains(64)[0], impulse_gains(&tree, 64, false)[0]);
        assert!(found <= closed && found > 0.4 * closed, "{found} {closed}");
        // A C⁻¹ that grows beyond bounds has none.
        let growing = Banded::new(vec![vec![1.0, 4.0]; 2_000]);
        assert!(growing.gains(2_000).contains(&f64::INFINITY));
    }
}

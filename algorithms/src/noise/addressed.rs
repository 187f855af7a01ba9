//! Noise whose rounds are sums of addressed draws.

use rounds_kernels::random::exact::{Term, fill_rounded_combination};
use rounds_kernels::random::{BLOCK_COORDINATES, StreamKey, add_gaussian_blocks};

use super::lattice::{MOST_OF_SUMS, add_rounded, in_units};
use super::stream::{NOISE, NoiseMechanism, PARALLEL_CHUNK, Progress, Result};
use crate::parallel::Engine;
use crate::state::StateVisitor;

/// Noise whose rounds are sums of draws addressed by numbers, ±σ·z: nothing is kept, and draws are made again where later
/// rounds need them. The coefficients are integers, so W is their real sum times σ.
pub(super) struct Addressed<D> {
    key: StreamKey,
    standard_deviation: f64,
    progress: Progress,
    /// Names the draws of a round: address and sign.
    draws: D,
    /// Draws of a round, at most.
    most: u32,
    /// The draws of the round at hand.
    terms: Vec<Term>,
}

impl<D: Fn(u64, &mut dyn FnMut(u64, f64))> Addressed<D> {
    pub(super) fn new(key: StreamKey, standard_deviation: f64, rounds: u64, most: u32, draws: D) -> Self {
        Self {
            key,
            standard_deviation,
            progress: Progress::new(rounds),
            draws,
            most,
            terms: Vec::with_capacity(most as usize),
        }
    }

    fn in_units(&self, unit: f64) -> Result<f64> {
        in_units(self.standard_deviation, unit, self.most.into(), MOST_OF_SUMS)
    }
}

impl<D: Fn(u64, &mut dyn FnMut(u64, f64)) + Send> NoiseMechanism for Addressed<D> {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        self.progress.take(round)?;
        let scale = unit.map_or(Ok(self.standard_deviation), |unit| self.in_units(unit))?;
        let (key, terms) = (&self.key, &mut self.terms);
        terms.clear();
        (self.draws)(round, &mut |round, coefficient| {
            terms.push(Term { purpose: NOISE, round, coefficient });
        });
        terms.iter_mut().for_each(|term| term.coefficient *= scale);
        let terms = &*terms;
        if unit.is_some() {
            add_rounded(sum, engine, &|block, noise| {
                fill_rounded_combination(key, terms, block, noise);
            });
        } else {
            engine.for_each_chunk(sum, PARALLEL_CHUNK, &|offset, part| {
                let block = (offset / BLOCK_COORDINATES) as u64;
                for term in terms {
                    add_gaussian_blocks(key, NOISE, term.round, block, term.coefficient, part);
                }
            });
        }
        Ok(())
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        self.in_units(unit).map(drop)
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("noise_next", &mut self.progress.next);
    }
}

//! Noise on the lattice of a sum: σ in its units, and integers added to integers.

use rounds_kernels::random::BLOCK_COORDINATES;
use rounds_kernels::random::exact::round_enclosed;

use super::{NoiseError, Result};
use crate::oracle::Engine;

/// Greatest `Σ|coefficients|·σ/γ` of a sum of few normals, 2⁴⁹: noise below 2⁵³.
pub(super) const MOST_OF_SUMS: f64 = 562_949_953_421_312.0;
/// Greatest `κ·σ/γ` of a recursion, 2⁴⁴: beyond, errors of f64 near ½ would send most coordinates to the slow path.
pub(super) const MOST_OF_RECURSIONS: f64 = 17_592_186_044_416.0;

/// The f64 above σ/γ: in units of the lattice the noise is at least the one that is accounted for. The real σ of every
/// formula on the lattice is this f64.
///
/// # Errors
/// `size` or `σ/γ·size` above `most`; public numbers all.
pub(super) fn in_units(deviation: f64, unit: f64, size: f64, most: f64) -> Result<f64> {
    // Once for the quotient, once for σ itself, a product that was rounded.
    let scale = (deviation / unit).next_up().next_up();
    if scale > 0.0 && scale.max(1.0) * size <= most {
        Ok(scale)
    } else {
        Err(NoiseError::TooFine { unit, coarser: scale.max(1.0) * size / most })
    }
}

/// `sum += R` for integers R that `fill` writes, a block of coordinates at a time.
pub(super) fn add_rounded(sum: &mut [f64], engine: &Engine, fill: &(impl Fn(u64, &mut [i64]) + Sync)) {
    // A block takes some 10 µs: worth a thread of its own.
    engine.for_each_chunk(sum, BLOCK_COORDINATES, &|offset, part| {
        #[allow(clippy::large_stack_arrays, reason = "32 KiB, and nothing is allocated in a round")]
        let mut noise = [0; BLOCK_COORDINATES];
        let noise = &mut noise[..part.len()];
        fill((offset / BLOCK_COORDINATES) as u64, noise);
        add_integers(part, noise);
    });
}

/// `sum += ⌊W + ½⌋`: `enclose` writes values of a block of coordinates near its real numbers W, and tells how near; `decide`
/// gives the integer of a coordinate that this leaves open.
pub(super) fn add_enclosed(
    sum: &mut [f64],
    engine: &Engine,
    enclose: &(impl Fn(usize, &mut [f64]) -> f64 + Sync),
    decide: &(impl Fn(u64) -> i64 + Sync),
) {
    engine.for_each_chunk(sum, BLOCK_COORDINATES, &|offset, part| {
        #[allow(clippy::large_stack_arrays, reason = "64 KiB, and nothing is allocated in a round")]
        let (mut values, mut noise) = ([0.0; BLOCK_COORDINATES], [0; BLOCK_COORDINATES]);
        let (values, noise) = (&mut values[..part.len()], &mut noise[..part.len()]);
        let bound = enclose(offset / BLOCK_COORDINATES, values);
        round_enclosed(values, bound, noise, |index| decide((offset + index) as u64));
        add_integers(part, noise);
    });
}

/// `sum += noise`, both integers: the sum is exact below 2⁶³, and its rounding to f64 is a function of it.
fn add_integers(sum: &mut [f64], noise: &[i64]) {
    for (sum, noise) in sum.iter_mut().zip(noise) {
        debug_assert_eq!(sum.fract(), 0.0, "a sum in units of the lattice is an integer");
        *sum = (*sum as i64 + noise) as f64;
    }
}

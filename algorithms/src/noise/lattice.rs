//! Noise on the lattice of a sum: σ in its units, and integers added to integers.

use rounds_kernels::random::BLOCK_COORDINATES;
use rounds_kernels::random::exact::round_enclosed;

use super::stream::{NoiseError, Result};
use crate::parallel::Engine;

/// Greatest `Σ|coefficients|·σ/γ` of a sum of few normals, 2⁴⁹: noise below 2⁵³.
pub(super) const MOST_OF_SUMS: f64 = 562_949_953_421_312.0;
/// Greatest `κ·σ/γ` of a recursion, 2⁴⁴: beyond, errors of f64 near ½ would send most coordinates to the slow path.
pub(super) const MOST_OF_RECURSIONS: f64 = 17_592_186_044_416.0;

/// 1 + 2⁻²⁴: a release has so much more noise than its account reads. Sensitivities, noise multipliers, μ and σ are computed in f64 and
/// rounded to nearest; the factor covers what they lose together.
///
/// Proof, with u = 2⁻⁵³, T rounds and k participations. An entry of CᵀC is wrong by at most γ_T·‖C_i‖‖C_j‖ in any order of its sum, so
/// over the k rounds of a pattern by γ_T·(Σ‖C_i‖)² ≤ k·γ_T·Σ‖C_i‖², and Σ‖C_i‖² is at most the pattern's squared sensitivity. The sums
/// over a pattern have at most k² + 2 terms ≥ 0, or k + T where columns are added; BLT coefficients with ω, θ ≥ 0 have relative errors
/// of at most γ_{T+16}. So a sensitivity is wrong by less than (k + 1)(T + 20)·2u of itself, μ of n steps by (n + 10)·u/2, and each product
/// and quotient on the way to σ/γ by u: together less than 2⁻²⁴ for (k + 1)(T + 20) and n below 2²⁷. Where signs
/// conflict, the eigenvalue is a bound that Cholesky's factorisation proves (`eigenvalue_bound`), to a few roundings of the trace; the
/// other terms are sums of at most k numbers ≥ 0, and an error of the entries moves the value by at most as much as above, since the
/// value is at least Σ‖C_i‖².
pub(crate) const EXCESS: f64 = 1.0 + 1.0 / (1 << 24) as f64;

/// True if [`EXCESS`] is proven for a sensitivity over T rounds and k participations.
pub(super) fn covers(rounds: usize, participations: usize) -> bool {
    (participations as f64 + 1.0) * (rounds as f64 + 20.0) <= f64::from(1 << 27)
}

/// σ/γ times [`EXCESS`]: in units of the lattice the noise is more than the one that is accounted for. The real σ of every
/// formula on the lattice is this f64.
///
/// # Errors
/// `size` or `σ/γ·size` above `most`; public numbers all.
pub(super) fn in_units(deviation: f64, unit: f64, size: f64, most: f64) -> Result<f64> {
    let scale = deviation / unit * EXCESS;
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

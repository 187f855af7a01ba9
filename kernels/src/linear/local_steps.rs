//! Contributions of units that take steps of their own.

use super::driver::accumulate_gradients;
use super::lattice::SumLattice;
use super::model::{Batch, Clip, LinearModel, NonFiniteGradient, Tally};
use super::units::UnitSums;
use super::workspace::Workspace;
use crate::features::Selection;

/// Steps that a unit takes on its own rows, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalSteps {
    /// Passes E over the rows.
    pub passes: usize,
    /// η.
    pub step_size: f32,
    /// Rows of a step, fewer in the last one of a pass.
    pub batch: usize,
    /// Weights are cut to this magnitude, so that no row of a declared domain fails whatever the steps.
    pub most_weight: f32,
}

/// `sum += Σ_u clip(x − x_u)` over the units of a batch: x_u is x after E passes of `x ← x − η·(1/b)·Σ ∇f(x; d_i)` over the unit's rows, b at a
/// time (McMahan, Ramage, Talwar and Zhang 2018, arXiv:1710.06963, Algorithm 1). On a lattice in its units, with the guarantee of
/// [sums over units](super::units): a difference of models is a function of the unit, x and public numbers.
///
/// # Errors
/// A row without a domain whose gradient is not finite.
///
/// # Panics
/// A batch without units; as [`super::accumulate_gradients`].
pub fn accumulate_local_steps(
    model: &LinearModel,
    batch: &Batch<'_>,
    (parameters, local): (&[f32], &LocalSteps),
    (clip, lattice): (Clip, Option<&SumLattice>),
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let units = batch.units.expect("local steps are those of units");
    let mut own = std::mem::take(&mut *workspace.units);
    own.prepare(model.outputs, model.parameters());
    let sums = UnitSums::new(units, lattice, clip, model.outputs);
    let unit = lattice.map_or(1.0, SumLattice::unit);
    let (mut weights, mut gradient) = (parameters.to_vec(), vec![0.0; parameters.len()]);
    let mut tally = Tally { rows: batch.selection.len(), clipped: 0 };
    let mut outcome = Ok(());
    'units: for of in batch.selection.rows() {
        let rows = units.rows_of(of);
        weights.copy_from_slice(parameters);
        let starts = (0..local.passes).flat_map(|_| rows.clone().step_by(local.batch));
        for start in starts {
            let part = start..(start + local.batch).min(rows.end);
            let step = local.step_size / part.len() as f32;
            gradient.fill(0.0);
            let part = batch.of_rows(Selection::Range(part));
            let found = accumulate_gradients(model, &part, &weights, Clip::Unbounded, &mut gradient, workspace);
            if let Err(error) = found {
                outcome = Err(error);
                break 'units;
            }
            for (weight, &gradient) in weights.iter_mut().zip(&gradient) {
                // A step that underflows times a slope that overflows would be no number.
                let slope = (gradient as f32).clamp(f32::MIN, f32::MAX);
                *weight = (*weight - step * slope).clamp(-local.most_weight, local.most_weight);
            }
        }
        for ((whole, &now), &before) in own.whole.iter_mut().zip(&weights).zip(parameters) {
            *whole = (f64::from(before) - f64::from(now)) / unit;
        }
        tally.clipped += usize::from(sums.add_whole(1.0, &own.whole, (&mut *sum, 1.0)));
    }
    *workspace.units = own;
    outcome.map(|()| tally)
}

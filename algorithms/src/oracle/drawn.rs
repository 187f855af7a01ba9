//! Sums over batches of rows that are drawn from a finite law: each distinct row's clipped term, times its count.

use rounds_kernels::features::{Norm, Rows, Selection, Targets};
use rounds_kernels::linear::{Clip, Point};
use rounds_kernels::loss::Target;

use super::QueryError;
use crate::problem::Problem;
use crate::problem::law::Law;

/// `sum = Σ_c N_c·clip(a·∇f(x; d_c) − b·∇f(x′; d_c))` with the counts N of the batch, in f64; the rows of the batch and the
/// clipped ones among them.
pub(super) fn sum(
    problem: &Problem,
    law: &Law,
    batch: &Selection<'_>,
    (current, previous): (Point<'_>, Option<Point<'_>>),
    clip: Clip,
    sum: &mut [f64],
) -> Result<(usize, usize), QueryError> {
    let Selection::Range(range) = batch else {
        return Err(QueryError::Order);
    };
    let dataset = problem.dataset();
    let (Rows::Sparse(rows), Targets::Values(targets)) = (dataset.rows(), dataset.targets()) else {
        unreachable!("problems of a law have sparse rows, and their losses one margin");
    };
    let loss = problem.model().loss;
    let mut clipped = 0;
    sum.fill(0.0);
    for (row, count) in law.counts(range).into_iter().enumerate() {
        if count == 0 {
            continue;
        }
        let stored = rows.offsets[row]..rows.offsets[row + 1];
        let (columns, values) = (&rows.indices[stored.clone()], &rows.values[stored]);
        let weighted = |point: Point<'_>| {
            let products = columns.iter().zip(values);
            let products = products.map(|(&j, &a)| f64::from(a) * f64::from(point.parameters[j as usize]));
            let mut residual = [products.sum::<f64>()];
            loss.residual(&mut residual, Target::Value(f64::from(targets[row])));
            f64::from(point.coefficient) * residual[0]
        };
        let residual = weighted(current) - previous.map_or(0.0, weighted);
        let factor = match clip {
            Clip::Unbounded => 1.0,
            Clip::Bounded { norm, clip_norm } => {
                let values = values.iter().map(|&a| f64::from(a));
                let length = match norm {
                    Norm::L1 => values.map(f64::abs).sum(),
                    Norm::L2 => values.map(|a| a * a).sum::<f64>().sqrt(),
                };
                f64::from(clip_norm) / (residual.abs() * length)
            }
        };
        if factor < 1.0 {
            clipped += count as usize;
        }
        let weight = count as f64 * residual * factor.min(1.0);
        for (&j, &a) in columns.iter().zip(values) {
            sum[j as usize] += weight * f64::from(a);
        }
    }
    Ok((range.len(), clipped))
}

//! A copy of rows of few features in stripes of 512, whose sums take less time and have the bits of the rows' own.
//!
//! The rows of a block of 128 are summed in four chains, row i in chain i mod 4 ([`super::narrow`]). A stripe is four blocks: lane
//! 4·b + c holds chain c of block b, so that margins and gradients take one feature of sixteen rows at a time, in the same order of
//! additions, and nothing is summed across lanes. That holds for rows that are summed as one run, such as a leaf.

use std::ops::Range;

use wide::f32x16;

use super::clipping::ClipRule;
use super::few_features::{self, Run, coefficients};
use super::model::{LinearModel, Tally};
use super::packing::Layout;
use crate::features::BLOCK_ROWS;
use crate::features::{F32Rows, Rows, StripedRows};
use crate::loss::MarginLoss;
use crate::memory::Buffer;
use crate::vector::lanes::{LANES, load};

/// Blocks of a stripe, chains of a block, and rows of a chain.
const BLOCKS: usize = 4;
const CHAINS: usize = 4;
const STEPS: usize = BLOCK_ROWS / CHAINS;

/// Rows of a stripe.
const STRIPE_ROWS: usize = BLOCKS * BLOCK_ROWS;

/// Rows of a last stripe that is not full: with fewer its zeros cost more than the stripe gains.
const LEAST_ROWS: usize = STRIPE_ROWS / 2;

/// Most bytes of rows that are copied: about what caches hold.
const MOST_BYTES: usize = 32 << 20;

/// Features whose gradients are summed in registers at the same time.
const TILE: usize = 10;

/// Runs of dense rows, copied in stripes.
#[derive(Clone, Debug)]
pub struct Stripes {
    /// The rows of each run, ascending, and the values before its own.
    runs: Vec<(Range<usize>, usize)>,
    /// `stripes × 32 × features × 16` values.
    values: Buffer<f32>,
}

impl Stripes {
    /// The stripes of `rows`, of which `runs` are summed each on its own; `None` for models that the kernel of few features does not take, and for more
    /// than 32 MiB of rows: reading these from memory takes longer than summing them. At the end of a run, rows that make up no sixteen, or
    /// less than half a stripe, are left out.
    ///
    /// # Panics
    /// Runs that do not ascend, or rows that do not exist.
    pub fn for_model(model: &LinearModel, rows: Rows<'_>, runs: impl Iterator<Item = Range<usize>>) -> Option<Self> {
        let Rows::F32(F32Rows { values, columns, .. }) = rows else {
            return None;
        };
        if !few_features::takes(model) || size_of_val(values) > MOST_BYTES {
            return None;
        }
        let copied = |run: &Range<usize>| {
            let rows = run.len() / LANES * LANES;
            let rest = rows % STRIPE_ROWS;
            if rest >= LEAST_ROWS { rows } else { rows - rest }
        };
        let mut length = 0;
        let runs: Vec<_> = runs
            .map(|run| {
                let before = length;
                length += copied(&run).next_multiple_of(STRIPE_ROWS) * columns;
                (run, before)
            })
            .collect();
        assert!(runs.is_sorted_by(|a, b| a.0.end <= b.0.start), "runs ascend");
        let mut stripes = Buffer::zeroed(length);
        for (run, before) in &runs {
            let rows = values[run.start * columns..run.end * columns].chunks_exact(columns);
            for (place, row) in rows.take(copied(run)).enumerate() {
                let (stripe, block) = (place / STRIPE_ROWS, place % STRIPE_ROWS / BLOCK_ROWS);
                let (step, lane) = (place % BLOCK_ROWS / CHAINS, block * CHAINS + place % CHAINS);
                let first = before + (stripe * STEPS + step) * columns * LANES + lane;
                for (to, &value) in stripes[first..].iter_mut().step_by(LANES).zip(row) {
                    *to = value;
                }
            }
        }
        Some(Self { runs, values: stripes })
    }

    /// The copy as the kernels read it.
    pub fn view(&self) -> StripedRows<'_> {
        StripedRows { runs: &self.runs, values: &self.values }
    }
}

impl<'a> StripedRows<'a> {
    /// The stripes of a run, and none for other rows.
    pub(super) fn of(self, rows: &Range<usize>) -> &'a [f32] {
        let Ok(run) = self.runs.binary_search_by_key(&rows.start, |(run, _)| run.start) else {
            return &[];
        };
        let end = self.runs.get(run + 1).map_or(self.values.len(), |&(_, before)| before);
        if self.runs[run].0 == *rows { &self.values[self.runs[run].1..end] } else { &[] }
    }
}

/// Targets or norms of the rows of a stripe, filled up with `padding` where it has fewer rows.
#[inline(always)]
fn padded<'a>(values: &'a [f32], padding: f32, space: &'a mut [f32; STRIPE_ROWS]) -> &'a [f32; STRIPE_ROWS] {
    if let Ok(whole) = values.try_into() {
        return whole;
    }
    space.fill(padding);
    space[..values.len()].copy_from_slice(values);
    space
}

/// `values[128·b + 4·step + c]` at lane `4·b + c`.
#[inline(always)]
fn lanes(values: &[f32; STRIPE_ROWS], step: usize) -> f32x16 {
    let chains = |block: usize| values[block * BLOCK_ROWS + step * CHAINS..].first_chunk::<CHAINS>();
    let blocks: [[f32; CHAINS]; BLOCKS] = std::array::from_fn(|block| *chains(block).expect("a step of the stripe"));
    f32x16::new(bytemuck::cast(blocks))
}

/// `sum += Σ clip(∇f)` over the rows of `run` that its stripes hold, as [`super::narrow::accumulate_front`], and how many these are: whole
/// stripes before the first with something that is not finite or too large to be clipped in f32.
pub(super) fn accumulate<L: MarginLoss, const V: usize>(
    loss: L,
    model: &LinearModel,
    run: &Run<'_>,
    rule: Option<&ClipRule>,
    layout: Layout,
    (weights, bias): (&[f32x16; V], f32x16),
    sum: &mut [f64],
) -> Tally {
    let features = model.features;
    let weights: [[f32; LANES]; V] = weights.map(f32x16::to_array);
    // Features of each vector, of which the last begins with those that the one before has.
    let starts: [usize; V] = std::array::from_fn(|v| if v + 1 == V { layout.tail } else { v * LANES });
    let (mut own_targets, mut own_norms) = ([0.0; STRIPE_ROWS], [0.0; STRIPE_ROWS]);
    let mut tally = Tally::default();
    for stripe in run.stripes.chunks_exact(STRIPE_ROWS * features) {
        let rows = (run.targets.len() / LANES * LANES - tally.rows).min(STRIPE_ROWS);
        let of_stripe = tally.rows..tally.rows + rows;
        // Rows beyond the run are null rows.
        let targets = padded(&run.targets[of_stripe.clone()], f32::NAN, &mut own_targets);
        let norms = run.norms.map(|norms| padded(&norms[of_stripe], 0.0, &mut own_norms));
        let mut found = [f32x16::ZERO; STEPS];
        let mut clipped = 0;
        for (step, found) in found.iter_mut().enumerate() {
            // SAFETY: sixteen values of each feature in each of 32 steps.
            let margins = unsafe { margins(stripe.as_ptr().add(step * features * LANES), &starts, &weights, layout) };
            let (targets, norms) = (lanes(targets, step), norms.map(|norms| lanes(norms, step)));
            let Some((values, longer)) = coefficients(loss, rule, margins + bias, targets, norms) else {
                return tally;
            };
            clipped += longer;
            *found = values;
        }
        add_gradient(stripe, &found, &mut sum[..features]);
        if model.bias {
            add_totals(&found, &mut sum[features]);
        }
        tally.rows += rows;
        tally.clipped += clipped;
    }
    tally
}

/// `W·a_i` of sixteen rows by the tree of [`crate::vector::lanes::sum_each_of_sixteen`].
///
/// # Safety
/// Sixteen values of each feature at `rows`; every start leaves sixteen features.
#[inline(always)]
unsafe fn margins<const V: usize>(
    rows: *const f32,
    starts: &[usize; V],
    weights: &[[f32; LANES]; V],
    layout: Layout,
) -> f32x16 {
    let mut quarters = [f32x16::ZERO; 4];
    for (number, quarter) in quarters.iter_mut().enumerate() {
        // The weights of features that the vector before has are 0.
        let repeated = 4 * number + 3 < layout.stale;
        let mut sums = [f32x16::ZERO; 4];
        for (lane, sum) in (4 * number..).zip(&mut sums) {
            // SAFETY: the caller's promise.
            *sum = unsafe { load(rows.add((starts[0] + lane) * LANES)) } * f32x16::splat(weights[0][lane]);
        }
        for vector in 1..V {
            if vector + 1 < V || !repeated {
                for (lane, sum) in (4 * number..).zip(&mut sums) {
                    // SAFETY: the caller's promise.
                    let values = unsafe { load(rows.add((starts[vector] + lane) * LANES)) };
                    *sum = values.mul_add(f32x16::splat(weights[vector][lane]), *sum);
                }
            }
        }
        *quarter = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    }
    (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
}

/// `sum_j += Σ_i q_i·a_ij`, block by block.
fn add_gradient(stripe: &[f32], coefficients: &[f32x16; STEPS], sum: &mut [f64]) {
    let features = sum.len();
    assert!(features >= TILE && stripe.len() == STRIPE_ROWS * features);
    for first in (0..features).step_by(TILE) {
        // The last tile may begin with features of the one before.
        let start = first.min(features - TILE);
        let mut sums = [f32x16::ZERO; TILE];
        for (step, &q) in coefficients.iter().enumerate() {
            for (feature, sum) in sums.iter_mut().enumerate() {
                // SAFETY: sixteen values of each feature in each of 32 steps.
                let values = unsafe { load(stripe.as_ptr().add((step * features + start + feature) * LANES)) };
                *sum = q.mul_add(values, *sum);
            }
        }
        for (chains, sum) in sums[first - start..].iter().zip(&mut sum[first..]) {
            for [a, b, c, d] in chains.to_array().as_chunks::<CHAINS>().0 {
                *sum += f64::from((a + b) + (c + d));
            }
        }
    }
}

/// `sum += Σ_i q_i`, block by block: sixteen rows that follow each other at a time.
fn add_totals(coefficients: &[f32x16; STEPS], sum: &mut f64) {
    let mut totals = [f32x16::ZERO; CHAINS];
    for four in coefficients.as_chunks::<CHAINS>().0 {
        for (total, &q) in totals.iter_mut().zip(four) {
            *total += q;
        }
    }
    let totals = totals.map(f32x16::to_array);
    for block in 0..BLOCKS {
        let rows = std::array::from_fn(|row| totals[row / CHAINS][block * CHAINS + row % CHAINS]);
        *sum += f64::from(f32x16::new(rows).reduce_add());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{NULL_TARGET, Norm, Selection, Targets};
    use crate::linear::{Batch, Clip, Workspace, accumulate_gradients, row_norms};
    use crate::loss::Loss;

    const ROWS: usize = 2_700;

    /// Sums and tallies, or the row that is named, of `rows` with and without their stripes.
    fn both(
        model: &LinearModel,
        matrix: &[f32],
        rows: &Range<usize>,
        clip: Clip,
    ) -> [Result<(Tally, Vec<u64>), usize>; 2] {
        let mut targets: Vec<f32> = matrix[..ROWS].iter().map(|value| value.signum()).collect();
        targets[rows.start + rows.len() / 3] = NULL_TARGET;
        let plain = Rows::f32(matrix, model.features);
        let norms = row_norms(plain, model.bias, Norm::L2).ok();
        let runs = [0..rows.start, rows.clone(), rows.end..ROWS];
        let stripes = Stripes::for_model(model, plain, runs.into_iter()).expect("rows of few features");
        let parameters: Vec<f32> = (0..model.parameters()).map(|place| (place as f32).sin()).collect();
        [None, Some(&stripes)].map(|stripes| {
            let mut data = plain;
            if let Rows::F32(dense) = &mut data {
                dense.stripes = stripes.map(Stripes::view);
            }
            let batch = Batch {
                rows: data,
                targets: Targets::Values(&targets),
                norms: norms.as_ref(),
                selection: Selection::Range(rows.clone()),
                units: None,
            };
            let mut sum = vec![0.1; model.parameters()];
            let tally = accumulate_gradients(model, &batch, &parameters, clip, &mut sum, &mut Workspace::new(model));
            match tally {
                Ok(tally) => Ok((tally, sum.iter().map(|value| value.to_bits()).collect())),
                Err(error) => Err(error.row),
            }
        })
    }

    fn matrix(features: usize) -> Vec<f32> {
        (0..ROWS * features).map(|place| ((place * place) as f32 * 0.37).sin()).collect()
    }

    #[test]
    fn stripes_have_the_bits_of_their_rows() {
        for (features, loss, bias) in [
            (16, Loss::Logistic, false),
            (17, Loss::Squared, true),
            (20, Loss::Logistic, true),
            (29, Loss::Huber(0.5), false),
            (32, Loss::Squared, false),
            (47, Loss::Logistic, true),
            (64, Loss::Logistic, true),
        ] {
            let model = LinearModel { features, outputs: 1, bias, loss };
            let matrix = matrix(features);
            for rows in [0..ROWS, 3..3 + 512, 5..5 + 511, 1..1 + 784, 1..1 + 785, 131..1_927, 7..30, 900..900 + 1_300] {
                for clip in [Clip::Unbounded, Clip::l2(0.5), Clip::l2(50.0)] {
                    let [plain, striped] = both(&model, &matrix, &rows, clip);
                    assert!(plain.is_ok());
                    assert_eq!(plain, striped, "{model:?} {rows:?} {clip:?}");
                }
            }
        }
    }

    #[test]
    fn rows_that_are_not_finite_are_named_and_long_ones_are_clipped_as_without_stripes() {
        let features = 20;
        let model = |loss| LinearModel { features, outputs: 1, bias: false, loss };
        let whole_stripes = 40..2_600;
        for (loss, rows) in [(Loss::Squared, whole_stripes.clone()), (Loss::Logistic, 3..2_600)] {
            let model = model(loss);
            for culprit in [rows.start, 700, 2_099, rows.end - 1] {
                let change = |value: f32| {
                    let mut matrix = matrix(features);
                    matrix[culprit * features + 19] = value;
                    matrix
                };
                for wrong in [f32::NAN, f32::INFINITY] {
                    assert_eq!(both(&model, &change(wrong), &rows, Clip::Unbounded), [Err(culprit), Err(culprit)]);
                }
                let [plain, striped] = both(&model, &change(1e30), &rows, Clip::l2(0.5));
                let (tally, sum) = plain.as_ref().expect("a sum");
                assert!(tally.rows == rows.len() && tally.clipped > 0);
                assert!(sum.iter().all(|&sum| (f64::from_bits(sum) - 0.1).abs() <= rows.len() as f64 * 0.5));
                assert_eq!(plain, striped);
            }
        }
        // Beside the run nothing is read.
        let mut matrix = matrix(features);
        matrix[(whole_stripes.start - 1) * features] = f32::NAN;
        matrix[whole_stripes.end * features] = f32::NAN;
        let [plain, striped] = both(&model(Loss::Squared), &matrix, &whole_stripes, Clip::Unbounded);
        assert!(plain.is_ok() && plain == striped);
    }

    #[test]
    fn only_whole_runs_of_models_of_few_features_have_stripes() {
        let model = |features, loss| LinearModel { features, outputs: 1, bias: false, loss };
        let matrix = matrix(20);
        let rows = Rows::f32(&matrix, 20);
        let stripes = Stripes::for_model(&model(20, Loss::Logistic), rows, [0..600, 600..ROWS].into_iter()).unwrap();
        assert_eq!(stripes.view().of(&(0..600)).len(), 512 * 20);
        assert_eq!(stripes.view().of(&(600..ROWS)).len(), 4 * 512 * 20);
        for other in [0..599, 1..600, 600..2_000, 0..ROWS, 5..5] {
            assert!(stripes.view().of(&other).is_empty());
        }
        assert!(Stripes::for_model(&model(20, Loss::Hinge), rows, std::iter::once(0..ROWS)).is_none());
        let short = Rows::f32(&matrix, 15);
        assert!(Stripes::for_model(&model(15, Loss::Logistic), short, std::iter::once(0..ROWS)).is_none());
    }
}

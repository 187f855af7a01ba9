//! Gradients of models of one output and 16 to 64 features: the shape in which what surrounds the two matrix products
//! (gathering facts of rows, clip factors, sums across lanes) costs more than they do.
//!
//! Sixteen rows go together: their margins end in one register, where the residual and the clip factor are taken. The
//! gradient of up to 128 rows then stays in registers while the rows, now in first-level cache, stream past again.

use wide::f32x16;

use super::clipping::ClipRule;
use super::dense::add_partial;
use super::few_features::{MOST_VECTORS, Run, coefficients};
use super::model::{Batch, Clip, LinearModel, Tally};
use super::packing::{Layout, PackedWeights};
use super::stripes;
use crate::features::BLOCK_ROWS;
use crate::features::{Rows, Selection, Targets};
use crate::loss::{MarginLoss, with_margin_loss};
use crate::vector::lanes::{self, LANES, load, put, sum_each_of_sixteen, vector};

/// Rows anywhere in memory that are prefetched before they are copied: as many as make up for a miss of every cache.
const AHEAD: usize = 48;

/// `sum += Σ clip(∇f)` over as many rows from the front of the batch as this kernel takes, a multiple of sixteen, and how
/// many that is: all rows before the first sixteen with something that is not finite or too
/// large to be clipped in f32. The rest is left to the general kernels.
///
/// `weights` are packed in `layout`; blocks of at most 128 rows are summed in f32.
pub(super) fn accumulate_front(
    model: &LinearModel,
    batch: &Batch<'_>,
    norms: Option<&[f32]>,
    clip: Clip,
    layout: Layout,
    weights: &PackedWeights,
    sum: &mut [f64],
) -> Tally {
    let (Rows::F32(dense), Targets::Values(targets)) = (&batch.rows, batch.targets) else {
        return Tally::default();
    };
    let features = model.features;
    let rule = match clip {
        Clip::Unbounded => None,
        Clip::Bounded { norm, clip_norm } => Some(ClipRule::new(norm, clip_norm, 1)),
    };
    let mut add = |run: &Run<'_>| {
        let rule = rule.as_ref();
        with_margin_loss!(
            model.loss,
            loss => match layout.vectors {
                1 => accumulate::<_, 1>(loss, model, run, rule, layout, weights, sum),
                2 => accumulate::<_, 2>(loss, model, run, rule, layout, weights, sum),
                3 => accumulate::<_, 3>(loss, model, run, rule, layout, weights, sum),
                _ => accumulate::<_, MOST_VECTORS>(loss, model, run, rule, layout, weights, sum),
            },
            softmax => Tally::default(),
        )
    };
    match &batch.selection {
        Selection::Range(range) => {
            let run = Run {
                values: &dense.values[range.start * features..range.end * features],
                stripes: dense.stripes.map_or(&[], |stripes| stripes.of(range)),
                targets: &targets[range.clone()],
                norms: norms.map(|norms| &norms[range.clone()]),
            };
            add(&run)
        }
        // Blocks of rows from anywhere, copied together: the sum has the same bits as on rows that follow each other.
        Selection::Indices(indices) => {
            #[expect(clippy::large_stack_arrays, reason = "a block of 32 KiB: kernels allocate nothing")]
            let mut values = [0.0_f32; BLOCK_ROWS * MOST_VECTORS * LANES];
            let (mut own_targets, mut own_norms) = ([0.0_f32; BLOCK_ROWS], [0.0_f32; BLOCK_ROWS]);
            let mut tally = Tally::default();
            let prefetch = |row: usize| {
                let first = dense.values.as_ptr().wrapping_add(row * features);
                lanes::prefetch(first.cast());
                lanes::prefetch(first.wrapping_add(features - 1).cast());
                lanes::prefetch(targets.as_ptr().wrapping_add(row).cast());
                if let Some(norms) = norms {
                    lanes::prefetch(norms.as_ptr().wrapping_add(row).cast());
                }
            };
            indices.iter().take(AHEAD).for_each(|&row| prefetch(row as usize));
            let mut ahead = indices.iter().skip(AHEAD);
            for block in indices.chunks(BLOCK_ROWS) {
                for (place, &row) in block.iter().enumerate() {
                    if let Some(&row) = ahead.next() {
                        prefetch(row as usize);
                    }
                    let row = row as usize;
                    copy(&dense.values[row * features..][..features], &mut values[place * features..][..features]);
                    own_targets[place] = targets[row];
                    if let Some(norms) = norms {
                        own_norms[place] = norms[row];
                    }
                }
                let run = Run {
                    values: &values[..block.len() * features],
                    stripes: &[],
                    targets: &own_targets[..block.len()],
                    norms: norms.map(|_| &own_norms[..block.len()]),
                };
                let of_block = add(&run);
                tally.rows += of_block.rows;
                tally.clipped += of_block.clipped;
                if of_block.rows < block.len() {
                    break;
                }
            }
            tally
        }
    }
}

/// Copies a row of 16 features or more in vectors, the last of which may overlap: a call of `memcpy` costs more.
#[inline(always)]
fn copy(row: &[f32], to: &mut [f32]) {
    let last = row.len() - LANES;
    for start in (0..last).step_by(LANES).chain([last]) {
        put(to, start, vector(row, start));
    }
}

/// [`accumulate_front`] of a run, with V vectors a row.
fn accumulate<L: MarginLoss, const V: usize>(
    loss: L,
    model: &LinearModel,
    run: &Run<'_>,
    rule: Option<&ClipRule>,
    layout: Layout,
    weights: &PackedWeights,
    sum: &mut [f64],
) -> Tally {
    let features = model.features;
    assert!(layout.vectors == V && layout.tail + LANES == features && sum.len() >= features);
    assert_eq!(run.values.len(), run.targets.len() * features, "whole rows");
    let packed: [f32x16; V] = *weights.vectors.first_chunk().expect("a vector of weights each vector");
    let bias = f32x16::splat(weights.biases[0]);
    // Where the vectors of a row start: the last one ends with the row.
    let starts: [usize; V] = std::array::from_fn(|v| if v + 1 == V { layout.tail } else { v * LANES });
    let mut places = [0.0_f32; BLOCK_ROWS];
    let mut tally = if run.stripes.is_empty() {
        Tally::default()
    } else {
        stripes::accumulate(loss, model, run, rule, layout, (&packed, bias), sum)
    };
    let rows = run.targets.len() / LANES * LANES;
    while tally.rows < rows {
        let count = (rows - tally.rows).min(BLOCK_ROWS);
        let (first, mut clipped, mut total) = (tally.rows, 0, f32x16::ZERO);
        for (start, place) in (first..first + count).step_by(LANES).zip(places.as_chunks_mut::<LANES>().0) {
            // SAFETY: rows start..start + 16 are within the run, as `rows` is at most its length.
            let margins =
                unsafe { margins::<V>(run.values.as_ptr().add(start * features), features, &starts, &packed) };
            let lanes = |values: &[f32]| vector(values, start);
            let found = coefficients(loss, rule, margins + bias, lanes(run.targets), run.norms.map(lanes));
            let Some((coefficient, longer)) = found else {
                return tally;
            };
            clipped += longer;
            total += coefficient;
            *place = coefficient.to_array();
        }
        // SAFETY: `count` rows from `first` on are within the run, and as many coefficients were written.
        let partial =
            unsafe { gradient::<V>(run.values.as_ptr().add(first * features), features, &starts, &places[..count]) };
        add_partial(&partial, layout, &mut sum[..features]);
        if model.bias {
            sum[features] += f64::from(total.reduce_add());
        }
        tally.rows += count;
        tally.clipped += clipped;
    }
    tally
}

/// `W·a_i` of sixteen rows, a lane each.
///
/// # Safety
/// Sixteen rows of `features` values at `rows`; every start leaves sixteen of them.
#[inline(always)]
unsafe fn margins<const V: usize>(
    rows: *const f32,
    features: usize,
    starts: &[usize; V],
    weights: &[f32x16; V],
) -> f32x16 {
    // SAFETY: the caller's promise.
    let sums: [f32x16; LANES] = std::array::from_fn(|row| unsafe {
        let row = rows.add(row * features);
        let mut sum = load(row.add(starts[0])) * weights[0];
        for v in 1..V {
            sum = load(row.add(starts[v])).mul_add(weights[v], sum);
        }
        sum
    });
    sum_each_of_sixteen(sums)
}

/// `Σ_i q_i·a_i` over as many rows as there are coefficients, a multiple of four.
///
/// # Safety
/// That many rows of `features` values at `rows`; every start leaves sixteen of them.
#[inline(always)]
unsafe fn gradient<const V: usize>(
    rows: *const f32,
    features: usize,
    starts: &[usize; V],
    coefficients: &[f32],
) -> [f32x16; V] {
    // Four chains a vector hide the latency of the multiply-adds.
    let mut sums = [[f32x16::ZERO; V]; 4];
    for (four, coefficients) in coefficients.as_chunks::<4>().0.iter().enumerate() {
        for (chain, (sums, &coefficient)) in sums.iter_mut().zip(coefficients).enumerate() {
            let q = f32x16::splat(coefficient);
            for (sum, &start) in sums.iter_mut().zip(starts) {
                // SAFETY: the caller's promise.
                let lanes = unsafe { load(rows.add((4 * four + chain) * features + start)) };
                *sum = q.mul_add(lanes, *sum);
            }
        }
    }
    std::array::from_fn(|v| (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]))
}

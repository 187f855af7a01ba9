//! The dual for participations of several epochs.
//!
//! U is block diagonal over the patterns; on pattern π it is v_π·S_π with S_π a correlation matrix, S = L·Lᵀ with rows
//! of unit norm, each row r the normalised (a_{r1}, …, a_{r,r−1}, 1). The variables are ln v_π, the a's, and for the
//! largest-row objective ln λ_t: any value of them is a feasible dual point.

use rounds_numerics::Mat;

use super::banded_lower::BandedLower;
use super::dual::{
    Dual, Objective, Optimum, SQUARE_ROOT, add_multipliers, dual_evaluation, exponentials, finite_start, largest,
};
use super::error::{FactorizationError, numerical};
use super::minimizer::Evaluation;
use super::participation::{Participation, gram_sensitivity};
use super::pattern_band::{FoldedOrder, SymmetricBand, shifted_inverse_band, weighted_product};
use super::quadrature::InverseSquareRoot;
use super::workload::{Workload, squared_row_errors};
use crate::vectors::{add_scaled, dot, norm};
use rounds_numerics::dense;

/// The dual problem over block-diagonal U.
pub(crate) struct PatternDual<'a> {
    workload: &'a Workload,
    participation: &'a Participation,
    objective: Objective,
    patterns: Vec<Vec<usize>>,
    order: FoldedOrder,
    squared_columns: Vec<f64>,
}

/// v, S and λ of one dual point.
struct Blocks {
    scales: Vec<f64>,
    /// Per pattern: L with unit rows, row-major k × k, and the norms of its rows before normalisation.
    roots: Vec<(Vec<f64>, Vec<f64>)>,
    rows: Vec<f64>,
}

/// The parts of the primal point that the gradient needs.
struct PrimalBlocks {
    nuclear: f64,
    /// X on every pattern, row-major k × k.
    gram: Vec<Vec<f64>>,
    /// diag of B·Bᵀ, where the objective needs it.
    row_errors: Vec<f64>,
}

impl<'a> PatternDual<'a> {
    /// The problem; `Unsupported` for a participation whose patterns cannot be listed.
    pub(crate) fn new(
        workload: &'a Workload,
        participation: &'a Participation,
        objective: Objective,
    ) -> Result<Self, FactorizationError> {
        let rounds = workload.rounds();
        let patterns = participation.patterns(rounds).ok_or_else(|| FactorizationError::Unsupported {
            what: format!("the optimal factorisation for {}", participation.describe()),
            reason:
                "its patterns are too many to list; use a banded or BLT factorisation, whose sensitivity is known, \
                     or fixed epochs"
                    .to_owned(),
        })?;
        Ok(Self {
            workload,
            participation,
            objective,
            order: FoldedOrder::new(rounds, &patterns, workload.inverse().subdiagonals),
            squared_columns: workload.squared_column_norms(),
            patterns,
        })
    }

    /// Reads the variables: ln v, then the a's pattern by pattern and row by row, then ln λ.
    fn blocks(&self, point: &[f64]) -> Blocks {
        let scales = exponentials(&point[..self.patterns.len()]);
        let mut next = self.patterns.len();
        let roots = self
            .patterns
            .iter()
            .map(|pattern| {
                let size = pattern.len();
                let mut root = vec![0.0; size * size];
                let mut norms = vec![1.0; size];
                for row in 0..size {
                    root[row * size..row * size + row].copy_from_slice(&point[next..next + row]);
                    root[row * size + row] = 1.0;
                    next += row;
                    let line = &mut root[row * size..=row * size + row];
                    norms[row] = dot(line, line).sqrt();
                    line.iter_mut().for_each(|value| *value /= norms[row]);
                }
                (root, norms)
            })
            .collect();
        let rows = self.objective.row_multipliers(self.workload.rounds(), &point[next..]);
        Blocks { scales, roots, rows }
    }

    fn primal(&self, blocks: &Blocks) -> Option<PrimalBlocks> {
        let (inverse, order, squared_columns) = (self.workload.inverse(), &self.order, &self.squared_columns);
        let mut coupling = SymmetricBand::zeros(order);
        let mut coupling_inverse_norm: f64 = 0.0;
        let mut inverse_norm = 0.0;
        let mut block_inverses = Vec::with_capacity(self.patterns.len());
        for ((pattern, (root, _)), &scale) in self.patterns.iter().zip(&blocks.roots).zip(&blocks.scales) {
            let size = pattern.len();
            for row in 0..size {
                for column in 0..=row {
                    let value = scale
                        * dot(&root[row * size..=row * size + column], &root[column * size..=column * size + column]);
                    coupling.add(order, pattern[row], pattern[column], value);
                }
                // tr(U·G) ≤ λ_max(U_π)·tr(G_π) and λ_max(U_π) ≤ k·v.
                inverse_norm += size as f64 * scale * squared_columns[pattern[row]];
            }
            let root_inverse = invert_small_lower(root, size);
            coupling_inverse_norm = coupling_inverse_norm.max(dot(&root_inverse, &root_inverse) / scale);
            block_inverses.push(root_inverse);
        }
        let row_inverses: Vec<f64> = blocks.rows.iter().map(|row| 1.0 / row).collect();
        let fixed = weighted_product(order, inverse, &row_inverses);
        let smallest = 1.0 / (inverse_norm * largest(&blocks.rows));
        let largest = fixed.norm_bound() * coupling_inverse_norm;
        if !(smallest > 0.0 && largest.is_finite() && largest / smallest < 1e24) {
            return None;
        }
        let rule = InverseSquareRoot::on(smallest, largest);
        let gram_band = shifted_inverse_band(&fixed, &coupling, &rule)?;
        let mut nuclear = 0.0;
        let mut gram = Vec::with_capacity(self.patterns.len());
        for pattern in &self.patterns {
            let mut block = Vec::with_capacity(pattern.len().pow(2));
            for &row in pattern {
                for &column in pattern {
                    let value = gram_band.get(order, row, column);
                    nuclear += coupling.get(order, row, column) * value;
                    block.push(value);
                }
            }
            gram.push(block);
        }
        let row_errors = if self.objective == Objective::Max {
            // B·Bᵀ = Σ w (A⁻ᵀU⁻¹A⁻¹ + s²Λ)⁻¹, in the same band.
            let mut fixed = SymmetricBand::zeros(order);
            for ((pattern, root_inverse), &scale) in self.patterns.iter().zip(&block_inverses).zip(&blocks.scales) {
                add_inverse_coupling(&mut fixed, order, inverse, pattern, root_inverse, scale);
            }
            let mut shifted = SymmetricBand::zeros(order);
            for (round, &row) in blocks.rows.iter().enumerate() {
                shifted.add(order, round, round, row);
            }
            let errors = shifted_inverse_band(&fixed, &shifted, &rule)?;
            let diagonal = (0..self.workload.rounds()).map(|round| errors.get(order, round, round));
            diagonal.collect()
        } else {
            Vec::new()
        };
        Some(PrimalBlocks { nuclear, gram, row_errors })
    }

    /// ‖Λ^(1/2)·A·L‖_* with U = L·Lᵀ, and F = L⁻ᵀ·Q·Σ^(1/2) of X = F·Fᵀ (transposed: one round a column), from the
    /// singular value decomposition of Λ^(1/2)·A·L.
    fn dense_primal(&self, blocks: &Blocks) -> Result<(f64, Mat<f64>), FactorizationError> {
        let rounds = self.workload.rounds();
        let mut product = Mat::zeros(rounds, rounds);
        let mut values = vec![0.0; rounds];
        for ((pattern, (root, _)), &scale) in self.patterns.iter().zip(&blocks.roots).zip(&blocks.scales) {
            let size = pattern.len();
            for column in 0..size {
                values.fill(0.0);
                for row in column..size {
                    values[pattern[row]] = scale.sqrt() * root[row * size + column];
                }
                self.workload.apply_in_place(&mut values);
                for (row, value) in values.iter().enumerate() {
                    product[(row, pattern[column])] = value * blocks.rows[row].sqrt();
                }
            }
        }
        let (singular, right) = dense::singular_vectors(product.as_ref())
            .ok_or_else(|| numerical("the singular value decomposition", rounds))?;
        let mut factor =
            Mat::from_fn(rounds, rounds, |index, round| right[(round, index)] * singular[index].max(0.0).sqrt());
        for ((pattern, (root, _)), &scale) in self.patterns.iter().zip(&blocks.roots).zip(&blocks.scales) {
            let size = pattern.len();
            for row in (0..size).rev() {
                for later in row + 1..size {
                    dense::add_column(
                        &mut factor,
                        pattern[row],
                        pattern[later],
                        -scale.sqrt() * root[later * size + row],
                    );
                }
                dense::scale_column(&mut factor, pattern[row], 1.0 / (scale.sqrt() * root[row * size + row]));
            }
        }
        Ok((singular.iter().sum(), factor))
    }
}

impl Dual for PatternDual<'_> {
    fn objective(&self) -> Objective {
        self.objective
    }

    fn start(&self) -> Result<Vec<f64>, FactorizationError> {
        let rounds = self.workload.rounds();
        let sizes = self.patterns.iter().map(Vec::len);
        let pairs: usize = sizes.map(|size| size * (size - 1) / 2).sum();
        let row_variables = if self.objective == Objective::Max { rounds } else { 0 };
        let mut start = vec![0.0; self.patterns.len() + pairs + row_variables];
        let primal = self.primal(&self.blocks(&start)).ok_or_else(|| numerical(SQUARE_ROOT, rounds))?;
        for (value, (pattern, gram)) in start.iter_mut().zip(self.patterns.iter().zip(&primal.gram)) {
            let diagonal = gram.iter().step_by(pattern.len() + 1);
            *value = diagonal.sum::<f64>().ln();
        }
        if self.objective == Objective::Max {
            for (value, error) in start[self.patterns.len() + pairs..].iter_mut().zip(&primal.row_errors) {
                *value = error.ln();
            }
        }
        finite_start(start, rounds)
    }

    /// Steps that see a block whatever its weight is, unlike those of a quasi-Newton method on D.
    fn near_start(&self) -> Option<Vec<f64>> {
        const STEPS: usize = 100;
        let start = self.start().ok().filter(|_| self.objective == Objective::Frobenius)?;
        (0..STEPS).try_fold(start, |point, _| self.ascended(&point))
    }

    fn first_barrier(&self) -> f64 {
        let coupled = self.patterns.iter().any(|pattern| pattern.len() > 1);
        if coupled || self.objective == Objective::Max { 1.0 } else { 0.0 }
    }

    fn evaluate(&self, point: &[f64], barrier: f64) -> Option<Evaluation> {
        let blocks = self.blocks(point);
        let primal = self.primal(&blocks)?;
        let nuclear = primal.nuclear;
        let mut evaluation = dual_evaluation(nuclear, &blocks.scales, &blocks.rows)?;
        let sum: f64 = blocks.scales.iter().sum();
        let block_barrier = barrier / self.patterns.len() as f64;
        let mut inner_products = Vec::with_capacity(self.patterns.len());
        let mut angles = Vec::new();
        let mut angle_curvatures = Vec::new();
        for (((pattern, (root, norms)), gram), &scale) in
            self.patterns.iter().zip(&blocks.roots).zip(&primal.gram).zip(&blocks.scales)
        {
            let size = pattern.len();
            // M = X·L; ⟨S, X⟩ = Σ L∘M; ∂(2 ln nuclear)/∂L = 2v·M/nuclear.
            let product = times_lower(gram, root, size);
            inner_products.push(dot(&product, root));
            for row in 0..size {
                let line = row * size..=row * size + row;
                let along = dot(&product[line.clone()], &root[line]);
                // ln det S = −2 Σ ln ‖row‖.
                evaluation.value += 2.0 * block_barrier * norms[row].ln();
                for column in 0..row {
                    let at = row * size + column;
                    let descent = 2.0 * scale / nuclear * (product[at] - along * root[at]);
                    angles.push((2.0 * block_barrier * root[at] - descent) / norms[row]);
                    angle_curvatures.push(norms[row].powi(2) / (scale / (sum * size as f64) + 2.0 * block_barrier));
                }
            }
        }
        let add = |evaluation: &mut Evaluation, multipliers: &[f64], squares: &[f64]| {
            add_multipliers(evaluation, multipliers, squares, nuclear, barrier);
        };
        add(&mut evaluation, &blocks.scales, &inner_products);
        evaluation.gradient.extend(angles);
        evaluation.inverse_curvature.extend(angle_curvatures);
        if self.objective == Objective::Max {
            add(&mut evaluation, &blocks.rows, &primal.row_errors);
        }
        Some(evaluation)
    }

    fn certify(&self, point: &[f64]) -> Result<Option<Optimum>, FactorizationError> {
        let blocks = self.blocks(point);
        let (nuclear, mut factor) = self.dense_primal(&blocks)?;
        let nuclear = nuclear * (1.0 - 1e-13);
        let bound = self.objective.dual_value(nuclear, &blocks.scales, &blocks.rows);
        // Where rows of B are slack the optimum need not be orthogonal: then the dual's own primal point may be better.
        let unchanged = if self.objective == Objective::Max {
            self.optimum(dense::multiply(factor.transpose(), factor.as_ref()), bound)?
        } else {
            None
        };
        self.orthogonalize(&mut factor);
        let mut gram = dense::multiply(factor.transpose(), factor.as_ref());
        for pattern in &self.patterns {
            for &row in pattern {
                for &column in pattern {
                    if row != column {
                        gram[(row, column)] = 0.0;
                    }
                }
            }
        }
        let orthogonal = self.optimum(gram, bound)?;
        Ok([orthogonal, unchanged]
            .into_iter()
            .flatten()
            .min_by(|left, right| left.relative_gap.total_cmp(&right.relative_gap)))
    }
}

impl PatternDual<'_> {
    /// The dual point with the largest ⟨Q, A·U'^(1/2)⟩, Q the polar factor of A·U^(1/2) at `point`: D does not fall, since that is at most
    /// ‖A·U'^(1/2)‖_* and equal at U. With U_π = v·L·Lᵀ it is known row by row: L' ∝ X·L, √v' ∝ √v·Σ ‖rows of X·L‖ [derived].
    fn ascended(&self, point: &[f64]) -> Option<Vec<f64>> {
        let blocks = self.blocks(point);
        let primal = self.primal(&blocks)?;
        let mut next = Vec::with_capacity(point.len());
        let mut angles = Vec::with_capacity(point.len());
        for ((pattern, (root, _)), (gram, scale)) in
            self.patterns.iter().zip(&blocks.roots).zip(primal.gram.iter().zip(&blocks.scales))
        {
            let size = pattern.len();
            let mut rows = times_lower(gram, root, size);
            next.push(scale.ln() + 2.0 * rows.chunks(size).map(norm).sum::<f64>().ln());
            for row in 0..size {
                // Gram–Schmidt on rows: what lies along the rows before over what is left are the a's.
                let (before, line) = rows.split_at_mut(row * size);
                let line = &mut line[..size];
                let along = |before: &[f64]| {
                    let along = dot(before, line);
                    add_scaled(line, -along, before);
                    along
                };
                let along: Vec<f64> = before.chunks(size).map(along).collect();
                let rest = norm(line);
                line.iter_mut().for_each(|value| *value /= rest);
                angles.extend(along.iter().map(|value| value / rest));
            }
        }
        next.extend(angles);
        Some(next)
    }

    /// Makes the columns of every pattern orthogonal, their squared norms adding up to at most 1, by Gram–Schmidt on F: a
    /// congruence of X = FᵀF, so X stays positive definite however badly it is conditioned.
    fn orthogonalize(&self, factor: &mut Mat<f64>) {
        let mut traces = Vec::with_capacity(self.patterns.len());
        for pattern in &self.patterns {
            let mut trace = 0.0;
            for (index, &round) in pattern.iter().enumerate() {
                for _ in 0..2 {
                    for &earlier in &pattern[..index] {
                        let along = dense::column_product(factor.as_ref(), earlier, round, 0)
                            / dense::column_product(factor.as_ref(), earlier, earlier, 0);
                        dense::add_column(factor, round, earlier, -along);
                    }
                }
                trace += dense::column_product(factor.as_ref(), round, round, 0);
            }
            traces.push(trace);
        }
        if self.objective == Objective::Max {
            // Patterns the optimum leaves slack must not be stretched to the constraint.
            let largest = largest(&traces);
            traces.fill(largest);
        }
        for (pattern, trace) in self.patterns.iter().zip(&traces) {
            for &round in pattern {
                dense::scale_column(factor, round, 1.0 / trace.sqrt());
            }
        }
    }

    /// C of a Gram matrix, scaled to sensitivity 1, and its gap to the dual bound.
    fn optimum(&self, gram: Mat<f64>, bound: f64) -> Result<Option<Optimum>, FactorizationError> {
        let Some(mut strategy) = dense::strategy_from_gram(gram.as_ref()) else {
            return Ok(None);
        };
        drop(gram);
        let entry = |row: usize, column: usize| dense::column_product(strategy.as_ref(), row, column, row.max(column));
        let sensitivity = gram_sensitivity(self.workload.rounds(), entry, self.participation)?.value;
        for column in 0..strategy.ncols() {
            dense::scale_column(&mut strategy, column, 1.0 / sensitivity);
        }
        let errors = squared_row_errors(self.workload, strategy.as_ref());
        let primal = self.objective.of_squares(&errors);
        let relative_gap = (primal - bound) / primal;
        Ok(relative_gap.is_finite().then_some(Optimum { strategy, relative_gap }))
    }
}

/// X·L of small row-major matrices, L lower triangular.
fn times_lower(left: &[f64], root: &[f64], size: usize) -> Vec<f64> {
    let entry =
        |row: usize, column: usize| (column..size).map(|k| left[row * size + k] * root[k * size + column]).sum();
    (0..size * size).map(|at| entry(at / size, at % size)).collect()
}

/// L⁻¹ of a small row-major lower-triangular matrix.
fn invert_small_lower(root: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; size * size];
    for column in 0..size {
        for row in column..size {
            let known: f64 = (column..row).map(|k| root[row * size + k] * inverse[k * size + column]).sum();
            let unit = if row == column { 1.0 } else { 0.0 };
            inverse[row * size + column] = (unit - known) / root[row * size + row];
        }
    }
    inverse
}

/// Adds A⁻ᵀ·U_π⁻¹·A⁻¹ for one pattern, U_π⁻¹ = L⁻ᵀL⁻¹/v.
fn add_inverse_coupling(
    target: &mut SymmetricBand,
    order: &FoldedOrder,
    inverse: &BandedLower,
    pattern: &[usize],
    root_inverse: &[f64],
    scale: f64,
) {
    let size = pattern.len();
    let reach = inverse.subdiagonals;
    for a in 0..size {
        for c in 0..size {
            let entry: f64 =
                (a.max(c)..size).map(|k| root_inverse[k * size + a] * root_inverse[k * size + c]).sum::<f64>() / scale;
            let (row, column) = (pattern[a], pattern[c]);
            for i in row.saturating_sub(reach)..=row {
                for j in column.saturating_sub(reach)..=column {
                    // Every unordered pair (i, j), i ≠ j, is met twice, as (i, j) and (j, i).
                    if i >= j {
                        target.add(order, i, j, inverse.get(row, i) * entry * inverse.get(column, j));
                    }
                }
            }
        }
    }
}

//! Queries on networks: the same rounds, with a row's gradient by [`rounds_kernels::network`].

use std::sync::Arc;

use rounds_kernels::features::Selection;
use rounds_kernels::linear::{Clip, Point};
use rounds_kernels::network::{self, GradientLattice, Network, PackedParameters};

use super::{Oracle, QueryError, Scratch};
use crate::problem::Problem;

/// The network of a problem with these parameters, if its model is one.
pub(super) fn packed<'p>(problem: &'p Problem, parameters: &[f32]) -> Option<(&'p Arc<Network>, PackedParameters)> {
    let network = problem.network()?;
    let mut packed = PackedParameters::new(network);
    packed.set(network, parameters);
    Some((network, packed))
}

impl Oracle<'_> {
    /// One adaptive round at one or two points of a network; the unit of the sum, if it is one of integers: where sums are exact and clipped.
    /// No row, nor a feature's step, decides over it.
    pub(super) fn network_query(
        &mut self,
        network: &Arc<Network>,
        batch: &Selection<'_>,
        (current, previous): (Point<'_>, Option<Point<'_>>),
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<Option<f64>, QueryError> {
        let rows = self.problem.most_rows();
        let lattice = match clip {
            Clip::Bounded { clip_norm, .. } if self.exact => {
                let lattice = GradientLattice::new(clip_norm, rows).filter(|_| self.problem.rows() <= rows);
                Some(lattice.ok_or(QueryError::Lattice { rows })?)
            }
            _ => None,
        };
        let earlier = previous.map(|point| Point { coefficient: -point.coefficient, ..point });
        let points: Vec<Point<'_>> = std::iter::once(current).chain(earlier).collect();
        let mut packed = std::mem::take(&mut self.networks);
        packed.resize_with(points.len().max(packed.len()), || PackedParameters::new(network));
        packed.iter_mut().zip(&points).for_each(|(packed, point)| packed.set(network, point.parameters));
        let at: Vec<_> = packed.iter().zip(&points).map(|(packed, point)| (packed, point.coefficient)).collect();
        let counts = (points.len() as u64, 4 * points.len() as u64);
        let exact_rows = if lattice.is_some() { usize::MAX } else { 0 };
        let outcome = self.round(batch, clip, counts, (sum, 1.0, exact_rows), &|_, rows, (sum, _), scratch| {
            let Scratch::Network(workspace) = scratch else { panic!("a network with the scratch of a linear model") };
            network::accumulate(network, rows, &at, (clip, lattice.as_ref()), sum, workspace)
        });
        self.networks = packed;
        outcome?;
        Ok(lattice.map(|lattice| lattice.unit()))
    }
}

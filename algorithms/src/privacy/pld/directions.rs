//! The steps of a mechanism as dominating pairs, in each direction of the neighbouring relation.

use super::super::laplace;
use super::super::mechanism::Mechanism;
use super::super::sampling::{Draw, Sampling};
use super::allocation::Allocation;
use super::pair::Pair;
use super::step::Step;
use crate::problem::adjacency::Adjacency;

/// One direction of the neighbouring relation: the steps of the whole mechanism, equal ones counted.
pub(super) type Direction = Vec<(Step, usize)>;

/// `direction` with `count` more of `step`.
fn counted(direction: &mut Direction, step: Step, count: usize) {
    match direction.iter_mut().find(|(known, _)| *known == step) {
        Some((_, known)) => *known += count,
        None => direction.push((step, count)),
    }
}

/// The same steps with every epoch of random allocation finished, which dominates them ([`allocation`](super::allocation)).
pub(super) fn finished(direction: &Direction) -> Direction {
    let mut finished = Direction::new();
    for (step, count) in direction {
        let step = match step {
            Step::Allocation(begun) => Step::Allocation(Allocation { visible: begun.slots, ..*begun }),
            other => other.clone(),
        };
        counted(&mut finished, step, *count);
    }
    finished
}

/// The directions to be composed separately: one where the pairs are symmetric, else removal first, then addition. Nothing
/// for a step that no pair is known for; the error says which.
pub(super) fn directions(mechanism: &Mechanism, adjacency: Adjacency) -> Result<Vec<Direction>, &Mechanism> {
    let (mut remove, mut add): (Direction, Direction) = (Vec::new(), Vec::new());
    let mut mu_squared = 0.0;
    let mut push = |remove_step: Step, add_step: Step, count: usize| {
        counted(&mut remove, remove_step, count);
        counted(&mut add, add_step, count);
    };
    for step in mechanism.steps() {
        if let Some(mu) = step.gaussian_mu(adjacency) {
            mu_squared += mu * mu;
        } else if let &Mechanism::Laplace { scale, l1_sensitivity, sampling: Sampling::Poisson { rate }, steps } = step
            && rate < 1.0
        {
            let epsilon = l1_sensitivity / scale;
            push(
                Step::Pair(Pair::LaplaceRemove { rate, epsilon }),
                Step::Pair(Pair::LaplaceAdd { rate, epsilon }),
                steps,
            );
        } else if let Some((epsilon, count)) = laplace::step_epsilon(step) {
            let pair = if laplace::is_plain(step) { Pair::Laplace { epsilon } } else { Pair::Response { epsilon } };
            push(Step::Pair(pair), Step::Pair(pair), count);
        } else if let Some((noise, draws)) = step.draws() {
            for (draw, count) in draws {
                let draw = match draw {
                    Draw::Truncated { rate, share: 0.0, .. } => Draw::Poisson { rate },
                    // One round of t is a Poisson one.
                    Draw::Allocation { slots, visible: 1 } => Draw::Poisson { rate: 1.0 / slots as f64 },
                    other => other,
                };
                match draw {
                    Draw::Poisson { rate } => {
                        push(Step::Pair(Pair::Remove { rate, noise }), Step::Pair(Pair::Add { rate, noise }), count);
                    }
                    Draw::Truncated { rate, share, cut_rate } => {
                        // Of the others' terms one, y, makes room for the unit's, g: means ‖g − y‖ ≤ 2 and ‖−y‖ ≤ 1 away from 0, which
                        // are dominated by 2 and −2 in one dimension: by advanced joint convexity the divergence is q times that of one
                        // part from a mixture with the centre and the other, the further the larger.
                        let cut = Pair::Replace { rate: cut_rate, noise: 0.5 * noise };
                        let either = |plain| Step::Either { plain, cut, share };
                        push(either(Pair::Remove { rate, noise }), either(Pair::Add { rate, noise }), count);
                    }
                    Draw::Allocation { slots, visible } => {
                        let one = |removal| Step::Allocation(Allocation { noise, slots, visible, removal });
                        push(one(true), one(false), count);
                    }
                    Draw::WithoutReplacement { .. } => return Err(step),
                }
            }
        } else {
            return Err(step);
        }
    }
    if mu_squared > 0.0 {
        let pair = Pair::Gaussian { mu: f64::sqrt(mu_squared) };
        push(Step::Pair(pair), Step::Pair(pair), 1);
    }
    Ok(if remove == add { vec![remove] } else { vec![remove, add] })
}

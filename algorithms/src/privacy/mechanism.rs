//! Mechanisms as data: what an optimiser states about itself and the accountants read, nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{self, PrivacyError};
use super::sampling::{Draw, Sampling};
use crate::plural;
use crate::problem::adjacency::Adjacency;

/// Everything that a run releases about its data.
///
/// `noise_multiplier` is, everywhere, the standard deviation of the independent Gaussian draws divided by the clip
/// norm c, for noise added to a *sum* of clipped terms (equivalently, both divided by the same public batch size). It
/// does not contain the adjacency: one example's term moves by f·c with f =
/// [`row_change_factor`](Adjacency::row_change_factor), so that one Gaussian release has μ = f / noise_multiplier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Independent Gaussian noise each round; a given example is read in exactly `participations` rounds:
    /// μ = f·√participations / noise_multiplier.
    Gaussian {
        /// Noise standard deviation / clip norm.
        noise_multiplier: f64,
        /// Any sampler with a fixed number of participations.
        sampling: Sampling,
        /// Rounds that read a given example (epochs; all rounds for a full batch).
        participations: usize,
    },
    /// Independent Gaussian noise each round on randomly drawn batches.
    SubsampledGaussian {
        /// Noise standard deviation / clip norm.
        noise_multiplier: f64,
        /// Poisson or without replacement.
        sampling: Sampling,
        /// Rounds in all.
        steps: usize,
    },
    /// Correlated noise C⁻¹·Z on randomly drawn batches, C with few bands: no two participations of a unit reach the same row of C, so
    /// that every participation is a Gaussian mechanism of its own with the norm of C's column in place of 1
    /// (Choquette-Choo et al. 2023, 2306.08153, Theorem 5).
    SubsampledBanded {
        /// Standard deviation of the entries of Z / clip norm.
        noise_multiplier: f64,
        /// A random sampler.
        sampling: Sampling,
        /// Bands of C, the main diagonal included: at most the separation of the sampler.
        bands: usize,
        /// The largest norm of a column of C.
        sensitivity: f64,
        /// Rounds in all.
        steps: usize,
    },
    /// Correlated noise B·Z of a factorisation A = B·C, one Gaussian mechanism: μ = f·sensitivity / noise_multiplier.
    Factorized {
        /// Standard deviation of the entries of Z / clip norm.
        noise_multiplier: f64,
        /// A sampler with a fixed participation pattern, the one that `sensitivity` was computed for.
        sampling: Sampling,
        /// Sensitivity of C under that pattern, for rows that change by norm 1 (its largest column norm if every
        /// example takes part once).
        sensitivity: f64,
    },
    /// The last iterate of gradient steps that contract, all other iterates unseen, with independent Gaussian noise each round:
    /// μ = f·r / noise_multiplier, r by [`last_iterate_ratio`](super::last_iterate::last_iterate_ratio).
    LastIterate {
        /// Standard deviation of a round's noise / the longest gradient: no gradient is clipped.
        noise_multiplier: f64,
        /// The same batches in every pass.
        sampling: Sampling,
        /// c, by which a step without noise brings any two points closer at least.
        contraction: f64,
        /// Batches l of a pass, in one of which a given example is.
        batches: usize,
        /// Rounds in all.
        rounds: usize,
    },
    /// Binary-tree aggregation, one fresh tree after the other, a given example in exactly one leaf of each:
    /// μ = f·√(trees·(⌊log₂ rounds⌋ + 1)) / noise_multiplier.
    Tree {
        /// Standard deviation of a node's noise / clip norm.
        noise_multiplier: f64,
        /// Any sampler that reads every example once per tree.
        sampling: Sampling,
        /// Leaves of one tree.
        rounds: usize,
        /// Trees (epochs) in all.
        trees: usize,
    },
    /// Independent Laplace noise on every coordinate each round: without subsampling ε = l1_sensitivity / scale a round.
    Laplace {
        /// Laplace scale b (variance 2b²) of the noise on the released quantity.
        scale: f64,
        /// L1 sensitivity of the *same* quantity under the adjacency (its factor 2 included): S₁/m for a mean over m
        /// examples whose terms differ by at most S₁.
        l1_sensitivity: f64,
        /// Any sampler.
        sampling: Sampling,
        /// Rounds that read a given example; for random samplers, rounds in all.
        steps: usize,
    },
    /// Unlike mechanisms on the same data, one after the other, each possibly chosen from what was released before.
    Composition(Vec<Mechanism>),
}

impl Mechanism {
    /// A Laplace mechanism with its own scale each round (paper 003, budget allocation).
    pub fn laplace_schedule(scales: &[f64], l1_sensitivity: f64, sampling: Sampling) -> Self {
        let step = |&scale: &f64| Self::Laplace { scale, l1_sensitivity, sampling, steps: 1 };
        Self::Composition(scales.iter().map(step).collect())
    }

    /// The [moments](crate::moments) of the rows with noise of this multiplier, if they are released, and then `run`.
    pub(crate) fn after_moments(noise: Option<f64>, run: Self) -> Self {
        let Some(noise_multiplier) = noise else { return run };
        let moments = Self::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 };
        Self::Composition([moments].into_iter().chain(run.steps().into_iter().cloned()).collect())
    }

    /// The kind's name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gaussian { .. } => "gaussian",
            Self::SubsampledGaussian { .. } => "subsampled-gaussian",
            Self::SubsampledBanded { .. } => "subsampled-banded",
            Self::Factorized { .. } => "factorized",
            Self::Tree { .. } => "tree",
            Self::LastIterate { .. } => "last-iterate",
            Self::Laplace { .. } => "laplace",
            Self::Composition(_) => "composition",
        }
    }

    /// The noise multiplier, where there is one for all steps.
    pub fn noise_multiplier(&self) -> Option<f64> {
        match *self {
            Self::Gaussian { noise_multiplier, .. }
            | Self::SubsampledGaussian { noise_multiplier, .. }
            | Self::SubsampledBanded { noise_multiplier, .. }
            | Self::Factorized { noise_multiplier, .. }
            | Self::LastIterate { noise_multiplier, .. }
            | Self::Tree { noise_multiplier, .. } => Some(noise_multiplier),
            Self::Laplace { .. } => None,
            Self::Composition(_) => self.shared(Self::noise_multiplier),
        }
    }

    /// A property of the steps, where all have the same.
    fn shared<T: PartialEq>(&self, property: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut all = self.steps().into_iter().map(property);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first).flatten()
    }

    /// Rounds that draw a batch, of subsampled mechanisms; for the others, rounds that read a given example.
    pub fn rounds(&self) -> usize {
        match *self {
            Self::Gaussian { participations, .. } => participations,
            Self::SubsampledGaussian { steps, .. }
            | Self::SubsampledBanded { steps, .. }
            | Self::Laplace { steps, .. } => steps,
            Self::Factorized { .. } => 1,
            Self::LastIterate { batches, rounds, .. } => rounds.div_ceil(batches.max(1)),
            Self::Tree { trees, .. } => trees,
            Self::Composition(ref parts) => parts.iter().map(Self::rounds).fold(0, usize::saturating_add),
        }
    }

    /// The sampler, where there is one for all steps.
    pub fn sampling(&self) -> Option<Sampling> {
        match *self {
            Self::Gaussian { sampling, .. }
            | Self::SubsampledGaussian { sampling, .. }
            | Self::SubsampledBanded { sampling, .. }
            | Self::Factorized { sampling, .. }
            | Self::LastIterate { sampling, .. }
            | Self::Tree { sampling, .. }
            | Self::Laplace { sampling, .. } => Some(sampling),
            Self::Composition(_) => self.shared(Self::sampling),
        }
    }

    /// The same noise on a sensitivity that is `factor` times larger: what an accountant of a release reads when
    /// rounding can lift a clipped sum by that factor.
    #[must_use]
    pub fn with_inflated_sensitivity(&self, factor: f64) -> Self {
        let mut mechanism = self.clone();
        match &mut mechanism {
            Self::Gaussian { noise_multiplier, .. }
            | Self::SubsampledGaussian { noise_multiplier, .. }
            | Self::SubsampledBanded { noise_multiplier, .. }
            | Self::Factorized { noise_multiplier, .. }
            | Self::LastIterate { noise_multiplier, .. }
            | Self::Tree { noise_multiplier, .. } => *noise_multiplier /= factor,
            Self::Laplace { l1_sensitivity, .. } => *l1_sensitivity *= factor,
            Self::Composition(parts) => {
                for part in parts {
                    *part = part.with_inflated_sensitivity(factor);
                }
            }
        }
        mechanism
    }

    /// The only step of a composition of one, or the mechanism itself if it is none.
    pub fn single(&self) -> Option<&Self> {
        match self {
            Self::Composition(parts) => match parts.as_slice() {
                [part] => part.single(),
                _ => None,
            },
            single => Some(single),
        }
    }

    /// The steps of a composition, nested ones flattened; the mechanism itself if it is none.
    pub fn steps(&self) -> Vec<&Self> {
        match self {
            Self::Composition(parts) => parts.iter().flat_map(Self::steps).collect(),
            single => vec![single],
        }
    }

    /// μ of this step where it is exactly one Gaussian mechanism: every kind but Laplace and truly random batches.
    pub(super) fn gaussian_mu(&self, adjacency: Adjacency) -> Option<f64> {
        let factor =
            self.sampling().map_or(adjacency.row_change_factor(), |sampling| sampling.row_change_factor(adjacency));
        match *self {
            Self::Gaussian { noise_multiplier, participations, .. } => {
                Some(factor * (participations as f64).sqrt() / noise_multiplier)
            }
            // A batch that always holds every example is no subsample.
            Self::SubsampledGaussian { .. } | Self::SubsampledBanded { .. } => {
                let (noise, draws) = self.draws()?;
                let certain =
                    draws.iter().map(|(draw, count)| draw.is_certain().then_some(*count)).sum::<Option<usize>>();
                certain.map(|count| factor * (count as f64).sqrt() / noise)
            }
            Self::Factorized { noise_multiplier, sensitivity, .. } => Some(factor * sensitivity / noise_multiplier),
            Self::Tree { noise_multiplier, rounds, trees, .. } => {
                Some(factor * (trees as f64 * tree_squared_sensitivity(rounds)).sqrt() / noise_multiplier)
            }
            Self::LastIterate { noise_multiplier, contraction, batches, rounds, .. } => {
                Some(factor * super::last_iterate::last_iterate_ratio(contraction, batches, rounds) / noise_multiplier)
            }
            Self::Laplace { .. } | Self::Composition(_) => None,
        }
    }

    /// The Gaussian mechanisms on random batches that this step is, as draws about one unit, equal ones counted, and their noise
    /// over the sensitivity of one participation.
    pub(super) fn draws(&self) -> Option<(f64, Vec<(Draw, usize)>)> {
        match *self {
            Self::SubsampledGaussian { noise_multiplier, sampling, steps } => {
                Some((noise_multiplier, sampling.draws(steps)))
            }
            Self::SubsampledBanded { noise_multiplier, sampling, sensitivity, steps, .. } => {
                Some((noise_multiplier / sensitivity, sampling.draws(steps)))
            }
            _ => None,
        }
    }

    /// True if units are allocated to rounds, whose law takes long to compute.
    pub(super) fn is_allocated(&self) -> bool {
        let allocated = |step: &&Self| matches!(step.sampling(), Some(Sampling::RandomAllocation { slots: 2.., .. }));
        self.steps().iter().any(allocated)
    }

    /// Checks every parameter, the sampler against the adjacency, and the sampler against the kind of mechanism.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`], [`PrivacyError::RefusedSampling`], [`PrivacyError::RefusedMechanism`] or
    /// [`PrivacyError::EmptyComposition`].
    pub fn check(&self, adjacency: Adjacency) -> Result<(), PrivacyError> {
        if let Self::Composition(parts) = self {
            if parts.is_empty() {
                return Err(PrivacyError::EmptyComposition);
            }
            return parts.iter().try_for_each(|part| part.check(adjacency));
        }
        self.check_parameters()?;
        let Some(sampling) = self.sampling() else {
            return Ok(());
        };
        sampling.check(adjacency)?;
        if let Self::SubsampledBanded { bands, steps, .. } = *self
            && sampling.amplifies()
            && bands.min(steps) > sampling.separation()
        {
            let separation = sampling.separation();
            return Err(PrivacyError::BandsBeyondSeparation { bands, separation, sampling: sampling.name() });
        }
        match self.refusal(sampling) {
            None => Ok(()),
            Some(reason) => {
                let (mechanism, sampling) = (self.name(), sampling.name());
                Err(PrivacyError::RefusedMechanism { mechanism, sampling, reason })
            }
        }
    }

    fn check_parameters(&self) -> Result<(), PrivacyError> {
        if let Some(noise_multiplier) = self.noise_multiplier() {
            error::noise_multiplier(noise_multiplier)?;
        }
        let count = error::at_least_one;
        let positive = |value, quantity, remedy| error::positive(value, quantity, remedy).map(drop);
        match *self {
            Self::Gaussian { participations, .. } => {
                let remedy = "give how many steps read one example: of a run, its epochs";
                count(participations, "the number of steps that read an example", remedy)
            }
            Self::SubsampledGaussian { steps, .. } => count(steps, "the number of steps", "give the number of rounds"),
            Self::SubsampledBanded { steps, bands, sensitivity, .. } => {
                count(steps, "the number of steps", "give the number of rounds")?;
                count(bands, "the number of bands", "1 is noise that is drawn afresh every round")?;
                positive(sensitivity, "the sensitivity of C", "it is the largest norm of a column")
            }
            Self::Factorized { sensitivity, .. } => {
                let remedy = "compute it for the participation pattern of the run";
                positive(sensitivity, "the sensitivity of C", remedy)
            }
            Self::LastIterate { contraction, batches, rounds, .. } => {
                count(batches, "the batches of a pass", "1 is a full batch")?;
                count(rounds, "the number of rounds", "give the rounds of the run")?;
                let valid = contraction > 0.0 && contraction <= 1.0;
                let remedy = "it is max(|1 - eta lambda|, |1 - eta L|), and a step is at most 2/L";
                error::checked(contraction, valid, "the contraction", "above 0 and at most 1", remedy).map(drop)
            }
            Self::Tree { rounds, trees, .. } => {
                count(rounds, "the rounds of a tree", "give the number of rounds of a tree")?;
                let remedy = "give the number of trees, 1 for a single one";
                count(trees, "the number of trees", remedy)
            }
            Self::Laplace { scale, l1_sensitivity, steps, .. } => {
                positive(scale, "the Laplace scale", "its variance is 2 b^2")?;
                let remedy = "it is the L1 norm of the largest change";
                positive(l1_sensitivity, "the L1 sensitivity", remedy)?;
                count(steps, "the number of steps", "give the number of rounds")
            }
            Self::Composition(_) => Ok(()),
        }
    }

    /// The reason why the analysis of this kind of mechanism does not cover a sampler.
    fn refusal(&self, sampling: Sampling) -> Option<&'static str> {
        let (refused, reason) = match self {
            Self::Gaussian { .. } => (
                sampling.amplifies(),
                "the number of participations is random; describe it as a subsampled Gaussian mechanism",
            ),
            Self::SubsampledGaussian { .. } | Self::SubsampledBanded { .. } => (
                !sampling.amplifies(),
                "fixed or shuffled batches do not amplify privacy; describe it as a Gaussian mechanism with its \
                 participations, or draw Poisson batches",
            ),
            Self::Factorized { .. } => (
                sampling.amplifies() || sampling == Sampling::ReshuffledEachEpoch,
                "the sensitivity of correlated noise needs a fixed participation pattern; keep one order for all \
                 epochs (fixed or shuffled), or describe few bands under a cyclic sampler as a subsampled banded mechanism",
            ),
            Self::LastIterate { .. } => (
                !matches!(sampling, Sampling::FullBatch | Sampling::FixedOrder | Sampling::ShuffledOnce),
                "the theorem is for the same batches in every pass; keep one order for all (fixed or shuffled)",
            ),
            Self::Tree { .. } => (
                sampling.amplifies() || sampling == Sampling::FullBatch,
                "the tree's sensitivity holds for one leaf an example and tree; read the data in fixed, shuffled \
                 or reshuffled order, one tree an epoch",
            ),
            Self::Laplace { .. } => (
                sampling.amplifies()
                    && !matches!(sampling, Sampling::Poisson { .. } | Sampling::WithoutReplacement { .. }),
                "Laplace noise is amplified by poisson sampling and by batches without replacement alone",
            ),
            Self::Composition(_) => return None,
        };
        refused.then_some(reason)
    }
}

/// ⌊log₂ T⌋ + 1, the squared sensitivity of the nodes of one tree over T rounds, for an example in one leaf whose term
/// changes by norm 1 (attained by the first leaf; specification 3.1). Papers 000 and 004 use 1 + ⌈log₂ T⌉, which is safe
/// but not tight.
pub(crate) fn tree_squared_sensitivity(rounds: usize) -> f64 {
    f64::from(rounds.max(1).ilog2() + 1)
}

/// Random batches in words.
fn batches_of(sampling: Sampling) -> String {
    match sampling {
        Sampling::WithoutReplacement { batch, population } => {
            format!("{batch} of {population} examples without replacement")
        }
        Sampling::CyclicPoisson { groups, rate } => {
            format!("Poisson batches, rate {rate}, of {} in turn", plural(groups, "group"))
        }
        Sampling::RandomAllocation { groups: 1, slots } => {
            format!("batches by random allocation, {} an epoch", plural(slots, "round"))
        }
        Sampling::RandomAllocation { groups, slots } => {
            format!("batches by random allocation to {} of each of {groups} groups in turn", plural(slots, "round"))
        }
        Sampling::TruncatedPoisson { rate, most, population } => {
            format!("Poisson batches, rate {rate}, cut to {most} of {population} examples")
        }
        other => format!("Poisson batches, rate {}", other.rate().unwrap_or(1.0)),
    }
}

/// One line for people: the kind with its parameters.
impl fmt::Display for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Gaussian { participations, .. } => format!("Gaussian, {participations} participation(s) an example"),
            Self::SubsampledGaussian { sampling: Sampling::Poisson { rate }, steps, .. } => {
                format!("Poisson-subsampled Gaussian, rate {rate}, {}", plural(*steps, "step"))
            }
            Self::SubsampledGaussian { sampling, steps, .. } => {
                format!("Gaussian on {}, {}", batches_of(*sampling), plural(*steps, "step"))
            }
            Self::SubsampledBanded { sampling, bands, sensitivity, steps, .. } => format!(
                "correlated Gaussian noise of {} with sensitivity {sensitivity} on {}, {}",
                plural(*bands, "band"),
                batches_of(*sampling),
                plural(*steps, "step")
            ),
            Self::Factorized { sensitivity, .. } => {
                format!("correlated Gaussian noise of a factorisation with sensitivity {sensitivity}")
            }
            Self::LastIterate { contraction, batches, rounds, .. } => {
                let (rounds, contraction) = (plural(*rounds, "round"), error::brief(*contraction));
                format!("last iterate of {rounds}, {batches} a pass, steps that contract by {contraction}")
            }
            Self::Tree { rounds, trees, .. } => {
                format!("Gaussian binary-tree aggregation, {trees} tree(s) of {rounds} rounds")
            }
            Self::Laplace { scale, l1_sensitivity, steps, .. } => {
                format!("Laplace of scale {scale} on L1 sensitivity {l1_sensitivity}, {}", plural(*steps, "step"))
            }
            Self::Composition(parts) => format!("composition of {} mechanisms", parts.len()),
        };
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::{gaussian, laplace, subsampled, tree};

    const POISSON: Sampling = Sampling::Poisson { rate: 0.1 };

    fn refused(mechanism: &Mechanism, adjacency: Adjacency) -> String {
        mechanism.check(adjacency).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_kind_of_mechanism_refuses_the_samplers_that_its_analysis_does_not_cover() {
        use Adjacency::{AddRemove, ZeroOut};
        use Sampling::{FixedOrder, ReshuffledEachEpoch, ShuffledOnce};
        let gaussian = Mechanism::Gaussian { noise_multiplier: 1.0, sampling: POISSON, participations: 1 };
        let factorized = |sampling| Mechanism::Factorized { noise_multiplier: 1.0, sampling, sensitivity: 1.0 };
        for (mechanism, adjacency, reason) in [
            (subsampled(1.0, FixedOrder, 10), ZeroOut, "do not amplify"),
            (subsampled(1.0, ShuffledOnce, 10), ZeroOut, "do not amplify"),
            (subsampled(1.0, ReshuffledEachEpoch, 10), ZeroOut, "do not amplify"),
            (gaussian, AddRemove, "is random"),
            (factorized(POISSON), AddRemove, "fixed participation pattern"),
            (factorized(ReshuffledEachEpoch), ZeroOut, "fixed participation pattern"),
            (tree(1.0, POISSON, 8, 1), AddRemove, "one leaf"),
        ] {
            let message = refused(&mechanism, adjacency);
            assert!(message.contains(reason), "{mechanism}: {message}");
        }
    }

    #[test]
    fn adjacency_enters_once_as_the_row_change() {
        let mechanism =
            Mechanism::Gaussian { noise_multiplier: 2.0, sampling: Sampling::ShuffledOnce, participations: 9 };
        assert_eq!(mechanism.gaussian_mu(Adjacency::ZeroOut), Some(1.5));
        assert_eq!(mechanism.gaussian_mu(Adjacency::ReplaceOne), Some(3.0));
        let tree = tree(2.0, Sampling::ReshuffledEachEpoch, 400, 4);
        assert_eq!(tree.gaussian_mu(Adjacency::ZeroOut), Some(3.0));
    }

    #[test]
    fn every_parameter_out_of_range_is_named() {
        let factorized =
            |sensitivity| Mechanism::Factorized { noise_multiplier: 1.0, sampling: Sampling::FullBatch, sensitivity };
        let shared = |participations| Mechanism::Gaussian {
            noise_multiplier: 1.0,
            sampling: Sampling::FullBatch,
            participations,
        };
        let bad_numbers = [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().flat_map(|bad| {
            [
                (gaussian(bad), "the noise multiplier"),
                (factorized(bad), "sensitivity of C"),
                (laplace(bad, 1.0, 1), "the Laplace scale"),
                (laplace(1.0, bad, 1), "the L1 sensitivity"),
            ]
        });
        let bad_counts = [
            (shared(0), "steps that read an example"),
            (subsampled(1.0, POISSON, 0), "the number of steps"),
            (laplace(1.0, 1.0, 0), "the number of steps"),
            (tree(1.0, Sampling::FullBatch, 0, 1), "the rounds of a tree"),
            (tree(1.0, Sampling::FullBatch, 1, 0), "the number of trees"),
            (Mechanism::Composition(vec![shared(0)]), "steps that read an example"),
        ];
        for (mechanism, name) in bad_numbers.chain(bad_counts) {
            let message = refused(&mechanism, Adjacency::ZeroOut);
            assert!(message.contains(name), "{name}: {message}");
        }
        let empty = Mechanism::Composition(vec![]).check(Adjacency::ZeroOut);
        assert_eq!(empty, Err(PrivacyError::EmptyComposition));
    }

    #[test]
    fn compositions_flatten_and_keep_what_their_steps_share() {
        let step = gaussian(2.0);
        let nested = Mechanism::Composition(vec![step.clone(), Mechanism::Composition(vec![step.clone(), step])]);
        assert_eq!(nested.steps().len(), 3);
        assert_eq!(nested.noise_multiplier(), Some(2.0));
        assert_eq!(nested.sampling(), Some(Sampling::FullBatch));
        assert_eq!(nested.with_inflated_sensitivity(2.0).noise_multiplier(), Some(1.0));
        let schedule = Mechanism::laplace_schedule(&[1.0, 2.0], 1.0, Sampling::FullBatch);
        assert_eq!(schedule.steps().len(), 2);
        assert_eq!(schedule.noise_multiplier(), None);
    }

    #[test]
    fn mechanisms_survive_json() {
        let step = subsampled(1.1, POISSON, 7);
        let mechanism = Mechanism::Composition(vec![step]);
        let text = serde_json::to_string(&mechanism).unwrap();
        assert_eq!(serde_json::from_str::<Mechanism>(&text).unwrap(), mechanism);
    }
}

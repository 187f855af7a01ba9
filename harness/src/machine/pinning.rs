//! Affinity: the places of a policy, found through hwloc, and the engine whose threads are bound to them.
//!
//! Worker i of a pool has the i-th place of the policy's order. The calling thread is never bound, since threads inherit
//! affinity. Over several NUMA nodes workers are numbered node by node, and the engine distributes tasks by node.

use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, mpsc};

use clap::ValueEnum;
use hwlocality::Topology as Hwloc;
use hwlocality::bitmap::BitmapIndex;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use rounds_algorithms::parallel::{Engine, EngineError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Affinity of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinPolicy {
    /// None: the system moves threads.
    #[default]
    None,
    /// Adjacent hardware threads first, then the next core, cache and socket.
    Compact,
    /// Sockets, NUMA nodes and caches in turn, and cores before their second hardware threads.
    Scatter,
    /// One thread a core, free between the core's hardware threads; adjacent cores first.
    Core,
}

impl PinPolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Display for PinPolicy {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Why threads are not bound.
#[derive(Debug, Error)]
pub enum PinningError {
    #[error("--pin {policy}: the machine's topology is out of reach ({reason}); run with --pin none")]
    Topology { policy: PinPolicy, reason: String },
    #[error("--pin: thread {worker} could not be bound to processors {processors:?}: {reason}; run with --pin none")]
    Binding { worker: usize, processors: Vec<usize>, reason: String },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The place of a bound thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Hardware threads, by the system's numbers.
    pub processors: Vec<usize>,
    /// Nearest NUMA node, by hwloc's count.
    pub node: usize,
}

impl Place {
    fn set(&self) -> CpuSet {
        let numbers = self.processors.iter().copied();
        numbers.filter_map(|number| BitmapIndex::try_from(number).ok()).collect()
    }
}

/// A policy on this machine.
#[derive(Clone, Debug)]
pub struct Pinning {
    policy: PinPolicy,
    /// The places in the policy's order; empty if threads are not bound.
    places: Vec<Place>,
    hwloc: Option<Arc<Hwloc>>,
}

impl Pinning {
    /// Threads that are not bound.
    pub fn none() -> Self {
        Self { policy: PinPolicy::None, places: Vec::new(), hwloc: None }
    }

    /// The policy's places among the processors that this process may use.
    ///
    /// # Errors
    /// A machine that hwloc does not know.
    pub fn new(policy: PinPolicy) -> Result<Self, PinningError> {
        if policy == PinPolicy::None {
            return Ok(Self::none());
        }
        let refused = |reason: String| PinningError::Topology { policy, reason };
        let hwloc = Hwloc::new().map_err(|error| refused(error.to_string()))?;
        let places = places(&hwloc, policy, &usable_processors(&hwloc));
        if places.is_empty() {
            return Err(refused("no processor is listed".to_owned()));
        }
        Ok(Self { policy, places, hwloc: Some(Arc::new(hwloc)) })
    }

    pub fn policy(&self) -> PinPolicy {
        self.policy
    }

    /// The places of `threads` threads, by worker; more threads than places share them in turn. Empty if threads are not
    /// bound.
    pub fn places(&self, threads: usize) -> Vec<Place> {
        let mut places: Vec<Place> = self.places.iter().cycle().take(threads).cloned().collect();
        places.sort_by_key(|place| place.node);
        places
    }

    /// Number of threads of each NUMA node that has any.
    fn threads_by_node(places: &[Place]) -> Vec<usize> {
        places.chunk_by(|left, right| left.node == right.node).map(<[Place]>::len).collect()
    }

    /// An engine of `threads` threads, each bound before its first task.
    ///
    /// # Errors
    /// No threads; a thread that the system does not bind.
    pub fn engine(&self, threads: usize) -> Result<Engine, PinningError> {
        let places = self.places(threads);
        let Some(hwloc) = self.hwloc.clone().filter(|_| threads > 0) else {
            return Ok(Engine::with_threads(threads)?);
        };
        let nodes = Self::threads_by_node(&places);
        let (sender, outcomes) = mpsc::channel();
        let engine = Engine::with_start(&nodes, move |worker| {
            // The receiver is gone once a thread has failed.
            let _ = sender.send((worker, bind(&hwloc, &places[worker])));
        })?;
        // One message a thread.
        for (worker, outcome) in outcomes.into_iter().take(threads) {
            outcome.map_err(|reason| PinningError::Binding {
                worker,
                processors: self.places(threads)[worker].processors.clone(),
                reason,
            })?;
        }
        Ok(engine)
    }

    /// Binds the calling thread as worker `worker` of `threads`; where the system refuses, it stays free.
    pub fn bind(&self, worker: usize, threads: usize) {
        if let (Some(hwloc), Some(place)) = (&self.hwloc, self.places(threads).get(worker)) {
            let _ = bind(hwloc, place);
        }
    }
}

/// Binds the calling thread and looks whether it is bound.
fn bind(hwloc: &Hwloc, place: &Place) -> Result<(), String> {
    let set = place.set();
    hwloc.bind_cpu(&set, CpuBindingFlags::THREAD).map_err(|error| error.to_string())?;
    let found = hwloc.cpu_binding(CpuBindingFlags::THREAD).map_err(|error| error.to_string())?;
    if found == set { Ok(()) } else { Err(format!("it is bound to {found} instead")) }
}

/// The processors that the machine and the affinity of the process allow.
pub(super) fn usable_processors(hwloc: &Hwloc) -> CpuSet {
    let allowed = hwloc.allowed_cpuset().clone_target();
    let own = hwloc.cpu_binding(CpuBindingFlags::PROCESS).map(|own| &own & &allowed).ok().filter(|own| !own.is_empty());
    own.unwrap_or(allowed)
}

fn places(hwloc: &Hwloc, policy: PinPolicy, usable: &CpuSet) -> Vec<Place> {
    let usable_in = |object: &TopologyObject| -> Vec<usize> {
        let own = object.cpuset().map(|set| &set.clone_target() & usable);
        own.map_or_else(Vec::new, |own| own.iter_set().map(usize::from).collect())
    };
    let units: Vec<&TopologyObject> = match policy {
        PinPolicy::None => Vec::new(),
        PinPolicy::Compact => hwloc.objects_with_type(ObjectType::PU).collect(),
        PinPolicy::Scatter => apart(hwloc.root_object()),
        PinPolicy::Core => {
            let cores: Vec<_> = hwloc.objects_with_type(ObjectType::Core).collect();
            if cores.is_empty() { hwloc.objects_with_type(ObjectType::PU).collect() } else { cores }
        }
    };
    units
        .into_iter()
        .map(|unit| Place {
            processors: usable_in(unit),
            node: unit.nodeset().and_then(|nodes| nodes.first_set()).map_or(0, usize::from),
        })
        .filter(|place| !place.processors.is_empty())
        .collect()
}

/// The hardware threads below an object, one of each child in turn.
fn apart(object: &TopologyObject) -> Vec<&TopologyObject> {
    if object.object_type() == ObjectType::PU {
        return vec![object];
    }
    let children: Vec<Vec<&TopologyObject>> = object.normal_children().map(apart).collect();
    let longest = children.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| children.iter().filter_map(move |child| child.get(turn).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets, each a memory node with two third-level caches, two cores below each, two hardware threads a core:
    /// processors 0 and 1 are the first core, 0 to 7 the first socket.
    fn server() -> Hwloc {
        let description = "Package:2 NUMANode:1(memory=8GB) L3Cache:2(size=32MiB) Core:2 PU:2";
        Hwloc::builder().from_synthetic(description).unwrap().build().unwrap()
    }

    #[test]
    fn places_have_the_order_of_their_policy_among_the_usable_processors() {
        let hwloc = server();
        let of_cores = (0..8).map(|core| vec![2 * core, 2 * core + 1]);
        let alone = |processors: &[usize]| processors.iter().map(|&processor| vec![processor]).collect::<Vec<_>>();
        let (all, some): (Vec<usize>, _) = ((0..16).collect(), [1, 2, 3, 8].to_vec());
        for (policy, usable, expected) in [
            // Cores, caches and sockets one after another.
            (PinPolicy::Compact, &all, alone(&all)),
            // Sockets, then caches, then cores, and second hardware threads last.
            (PinPolicy::Scatter, &all, alone(&[0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15])),
            (PinPolicy::Core, &all, of_cores.collect()),
            (PinPolicy::None, &all, Vec::new()),
            (PinPolicy::Core, &some, vec![vec![1], vec![2, 3], vec![8]]),
            (PinPolicy::Scatter, &some, alone(&[8, 2, 1, 3])),
        ] {
            let set = Place { processors: usable.clone(), node: 0 }.set();
            let found: Vec<_> = places(&hwloc, policy, &set).into_iter().map(|place| place.processors).collect();
            assert_eq!(found, expected, "{policy} of {usable:?}");
        }
    }

    #[test]
    fn workers_are_counted_node_by_node_and_share_places_where_there_are_too_few() {
        let hwloc = server();
        let all = hwloc.cpuset().clone_target();
        let pinning =
            Pinning { policy: PinPolicy::Scatter, places: places(&hwloc, PinPolicy::Scatter, &all), hwloc: None };
        let of = |threads| -> Vec<usize> {
            let places = pinning.places(threads);
            places.iter().flat_map(|place| place.processors.clone()).collect()
        };
        assert_eq!(of(1), [0]);
        assert_eq!(of(3), [0, 4, 8]);
        assert_eq!(Pinning::threads_by_node(&pinning.places(3)), [2, 1]);
        assert_eq!(Pinning::threads_by_node(&pinning.places(2)), [1, 1]);
        assert_eq!(of(17).len(), 17);
        assert!(Pinning::none().places(4).is_empty());
    }

    #[test]
    fn the_threads_of_an_engine_are_where_the_policy_put_them() {
        for policy in [PinPolicy::Compact, PinPolicy::Scatter, PinPolicy::Core] {
            let Ok(pinning) = Pinning::new(policy) else {
                println!("hwloc does not know this machine: nothing to bind");
                return;
            };
            for threads in [1, 2] {
                let engine = pinning.engine(threads).unwrap();
                assert_eq!(engine.threads(), threads);
                let hwloc = pinning.hwloc.as_deref().unwrap();
                let mut seen = vec![None; 64];
                engine.for_each(&mut seen, &|seen, worker| {
                    *seen = Some((worker, hwloc.cpu_binding(CpuBindingFlags::THREAD).unwrap()));
                });
                for (worker, set) in seen.into_iter().flatten() {
                    assert_eq!(set, pinning.places(threads)[worker].set(), "{policy} {worker}");
                }
            }
        }
        // The thread that made the engines is free.
        let hwloc = Hwloc::new().unwrap();
        assert_eq!(
            hwloc.cpu_binding(CpuBindingFlags::THREAD).unwrap(),
            hwloc.cpu_binding(CpuBindingFlags::PROCESS).unwrap()
        );
    }

    #[test]
    fn no_threads_are_refused() {
        assert!(matches!(Pinning::none().engine(0), Err(PinningError::Engine(_))));
    }
}

//! Cores, hardware threads, caches and NUMA nodes, as hwloc sees them.

use std::fmt::{self, Display, Formatter};

use hwlocality::Topology as Hwloc;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{CacheType, ObjectType};
use serde::{Deserialize, Serialize};

use super::Known;
use super::pinning::usable_processors;
use crate::format;
use rounds_models::factorization_cache::memory_of_machine;

/// Cores, caches and memory. Counts are of hardware that this process may use, except `hardware_threads_present`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub processor: Known<String>,
    /// Sockets.
    pub packages: Known<usize>,
    /// Physical cores that this process may use.
    pub cores: usize,
    /// Hardware threads that this process may use.
    pub hardware_threads: usize,
    /// Hardware threads of the machine.
    pub hardware_threads_present: Known<usize>,
    pub memory_bytes: Known<u64>,
    /// NUMA nodes, by number.
    pub numa_nodes: Vec<NumaNode>,
    /// Caches, smallest level first.
    pub caches: Vec<Cache>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The operating system's number.
    pub index: Known<usize>,
    pub memory_bytes: Known<u64>,
    /// Hardware threads close to it.
    pub hardware_threads: Known<usize>,
}

/// All caches of one level and kind that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for the innermost.
    pub level: usize,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size of each, in bytes.
    pub size_bytes: Known<u64>,
    /// Line, in bytes.
    pub line_bytes: Known<usize>,
    /// Hardware threads that share each.
    pub shared_by: Known<usize>,
    pub count: usize,
}

impl Display for Cache {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind.as_str() {
            "unified" => "",
            kind => &kind[..1],
        };
        let size = self.size_bytes.0.map_or_else(|| "unknown".to_owned(), format::bytes);
        write!(formatter, "L{}{kind} {} × {size}", self.level, self.count)
    }
}

impl Topology {
    /// The topology as hwloc sees it; if hwloc fails, counts come from the standard library and the rest is unknown.
    pub fn detect() -> Self {
        Hwloc::new().map_or_else(|_| Self::without_hwloc(), |hwloc| Self::from_hwloc(&hwloc))
    }

    fn without_hwloc() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cores: threads, hardware_threads: threads, ..Self::default() }
    }

    fn from_hwloc(hwloc: &Hwloc) -> Self {
        let allowed =
            if hwloc.is_this_system() { usable_processors(hwloc) } else { hwloc.allowed_cpuset().clone_target() };
        let usable = |kind| {
            hwloc
                .objects_with_type(kind)
                .filter(|object| object.cpuset().is_some_and(|set| set.intersects(&allowed)))
                .count()
        };
        let package = hwloc.objects_with_type(ObjectType::Package).next();
        let processor = package
            .and_then(|package| package.info("CPUModel"))
            .map(|name| name.to_string_lossy().split_whitespace().collect::<Vec<_>>().join(" "));
        let numa_nodes: Vec<NumaNode> = hwloc
            .objects_with_type(ObjectType::NUMANode)
            .map(|node| NumaNode {
                index: node.os_index().into(),
                memory_bytes: match node.attributes() {
                    Some(ObjectAttributes::NUMANode(attributes)) => attributes.local_memory().map(u64::from),
                    _ => None,
                }
                .into(),
                hardware_threads: node.cpuset().and_then(|set| set.weight()).into(),
            })
            .collect();
        // Nodes may lack memory that was added while the machine runs.
        let told = memory_of_machine();
        let told = (hwloc.is_this_system() && told.is_finite()).then_some(told as u64);
        let of_nodes = Some(hwloc.root_object().total_memory()).filter(|&bytes| bytes > 0);
        let hardware_threads = usable(ObjectType::PU).max(1);
        let cores = usable(ObjectType::Core);
        Self {
            processor: processor.into(),
            packages: Some(hwloc.objects_with_type(ObjectType::Package).count()).filter(|&count| count > 0).into(),
            cores: if cores == 0 { hardware_threads } else { cores },
            hardware_threads,
            hardware_threads_present: hwloc.complete_cpuset().weight().into(),
            memory_bytes: of_nodes.max(told).into(),
            numa_nodes,
            caches: caches(hwloc),
        }
    }

    /// The largest cache of the highest level, in bytes.
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        let level = self.caches.iter().map(|cache| cache.level).max()?;
        self.caches.iter().filter(|cache| cache.level == level).filter_map(|cache| cache.size_bytes.0).max()
    }
}

/// Every data, unified and (where hwloc keeps them) instruction cache, alike ones counted together.
fn caches(hwloc: &Hwloc) -> Vec<Cache> {
    let kinds = [
        ObjectType::L1Cache,
        ObjectType::L1ICache,
        ObjectType::L2Cache,
        ObjectType::L2ICache,
        ObjectType::L3Cache,
        ObjectType::L4Cache,
        ObjectType::L5Cache,
    ];
    let mut caches: Vec<Cache> = Vec::new();
    for object in kinds.into_iter().flat_map(|kind| hwloc.objects_with_type(kind)) {
        let Some(ObjectAttributes::Cache(attributes)) = object.attributes() else {
            continue;
        };
        let cache = Cache {
            level: attributes.depth(),
            kind: match attributes.cache_type() {
                CacheType::Data => "data",
                CacheType::Instruction => "instruction",
                _ => "unified",
            }
            .into(),
            size_bytes: attributes.size().map(u64::from).into(),
            line_bytes: attributes.line_size().map(usize::from).into(),
            shared_by: object.cpuset().and_then(|set| set.weight()).into(),
            count: 1,
        };
        match caches.iter_mut().find(|known| Cache { count: 1, ..(*known).clone() } == cache) {
            Some(known) => known.count += 1,
            None => caches.push(cache),
        }
    }
    caches
}

/// The topology of hwloc's description.
#[cfg(test)]
pub(super) fn synthetic(description: &str) -> Topology {
    let hwloc = Hwloc::builder().from_synthetic(description).unwrap().build().unwrap();
    Topology::from_hwloc(&hwloc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sockets_with_shared_caches_and_two_threads_a_core_are_counted() {
        let topology =
            synthetic("Package:2 L3Cache:1(size=32MiB) L2Cache:4(size=1MiB) L1dCache:1(size=48KiB) Core:1 PU:2");
        assert_eq!((topology.packages.0, topology.cores, topology.hardware_threads), (Some(2), 8, 16));
        let of_level = |level| topology.caches.iter().find(|cache: &&Cache| cache.level == level).unwrap();
        assert_eq!((of_level(1).count, of_level(1).shared_by.0, of_level(1).kind.as_str()), (8, Some(2), "data"));
        assert_eq!((of_level(3).count, of_level(3).shared_by.0, of_level(3).kind.as_str()), (2, Some(8), "unified"));
        assert_eq!(of_level(3).size_bytes.0, Some(32 << 20));
        assert_eq!(topology.last_level_cache_bytes(), Some(32 << 20));
    }

    #[test]
    fn numa_nodes_know_their_threads() {
        let topology = synthetic("NUMANode:2(memory=8GB) Core:4 PU:1");
        let threads: Vec<_> = topology.numa_nodes.iter().map(|node| node.hardware_threads.0).collect();
        assert_eq!(threads, [Some(4), Some(4)]);
        assert!(topology.numa_nodes.iter().all(|node| node.memory_bytes.0.is_some()));
        assert!(topology.caches.is_empty());
        assert_eq!(topology.last_level_cache_bytes(), None);
    }

    #[test]
    fn the_machine_at_hand_has_a_core_and_no_more_cores_than_threads() {
        let topology = Topology::detect();
        assert!(topology.cores >= 1);
        assert!(topology.cores <= topology.hardware_threads);
        assert_eq!(topology.hardware_threads, std::thread::available_parallelism().map_or(1, usize::from));
        let memory = topology.memory_bytes.0.map_or(f64::INFINITY, |bytes| bytes as f64);
        assert!(memory >= memory_of_machine(), "{memory}");
    }
}

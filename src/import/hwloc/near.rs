//! NUMA nodes with their CPUs, and the node near a device.
//!
//! hwloc places a device by its `local_cpus`, not its `numa_node`. The CPUs of one node mean that node;
//! all CPUs of a machine with several nodes may mean no node, or one without CPUs.

use super::super::ImportError;
use super::super::limits::at_most;
use super::xml::{Document, Locality, ObjectKind};
use crate::model::Order as _;
use crate::model::{Fact, IdList, NumaNode, Why};

/// Above Linux' limit.
const NODES: usize = 1024;

pub struct Nodes {
    /// As sysfs lists them.
    pub all: Fact<Vec<NumaNode>>,
    /// Nodes without CPUs of their own.
    memory: IdList,
}

impl Nodes {
    pub fn of(document: &Document) -> Result<Self, ImportError> {
        let mut listed = Vec::new();
        for object in &document.objects {
            if let ObjectKind::Node { number, cpus, subtype } = &object.kind {
                at_most(NODES, listed.len() + 1, "NUMA nodes")?;
                listed.push((*number, cpus.as_ref(), is_memory(subtype)));
            }
        }
        let bare =
            listed.iter().filter(|(_, cpus, memory)| *memory || cpus.is_some_and(IdList::is_empty));
        Ok(Self {
            memory: IdList::new(bare.filter_map(|(number, ..)| *number)),
            all: nodes(&listed, document.all_nodes.as_ref())
                .map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
        })
    }

    /// The node near devices below this part of the processors.
    pub fn near(&self, place: &Locality) -> Fact<Option<u32>> {
        let Some(nodes) = place.all_nodes.as_ref().or(place.nodes.as_ref()) else {
            return Fact::Unknown(Why::NotCovered);
        };
        // Far above real machines; the code below is quadratic.
        if nodes.len() > NODES as u64 {
            return Fact::Unknown(Why::NotCovered);
        }
        let nodes = if place.whole {
            nodes.clone()
        } else {
            nodes.without(|node| self.memory.contains(node))
        };
        match (nodes.first(), nodes.len()) {
            (Some(node), 1) => Fact::Known(Some(node)),
            _ => Fact::Unknown(Why::NotCovered),
        }
    }
}

/// hwloc gives memory-only nodes the CPUs near them. These memory types never have CPUs of their own if
/// another node is at the same place.
fn is_memory(subtype: &str) -> bool {
    matches!(subtype, "GPUMemory" | "HBM" | "MCDRAM" | "SPM" | "NVM" | "CXL-DRAM" | "CXL-NVM")
}

type Listed<'a> = (Option<u32>, Option<&'a IdList>, bool);

/// `None` if a node is missing (not usable by the container), or if a CPU's node is unknown.
fn nodes(listed: &[Listed<'_>], all: Option<&IdList>) -> Option<Vec<NumaNode>> {
    let mut nodes = Vec::with_capacity(listed.len());
    for (number, cpus, memory) in listed {
        nodes.push(NumaNode {
            id: (*number)?,
            cpus: if *memory && shared(listed, *cpus) {
                IdList::default()
            } else {
                (*cpus)?.clone()
            },
        });
    }
    nodes.order_by_key(|node| node.id);
    let numbers = IdList::new(nodes.iter().map(|node| node.id));
    let cpus = IdList::union(nodes.iter().map(|node| &node.cpus));
    let disjoint = cpus.len() == nodes.iter().map(|node| node.cpus.len()).sum::<u64>();
    let complete = all == Some(&numbers) && numbers.len() == nodes.len() as u64;
    (complete && disjoint && !nodes.is_empty()).then_some(nodes)
}

/// Whether a node of another type has the same CPUs.
fn shared(listed: &[Listed<'_>], cpus: Option<&IdList>) -> bool {
    listed.iter().any(|(_, other, memory)| !memory && *other == cpus)
}

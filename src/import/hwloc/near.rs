//! NUMA: the nodes and their CPUs, and the node a device is near.
//!
//! hwloc places a device by its `local_cpus`, not by its `numa_node`. One node's CPUs are that node's; all of a machine
//! with several nodes may stand for no node, and for one without CPUs.

use super::super::ImportError;
use super::super::limits::at_most;
use super::xml::{Document, Locality, ObjectKind};
use crate::model::{Fact, IdList, NumaNode, Why};

/// More nodes than Linux can have.
const NODES: usize = 1024;

/// The nodes of a document.
pub struct Nodes {
    /// As sysfs would list them.
    pub all: Fact<Vec<NumaNode>>,
    /// Those that are memory alone.
    memory: IdList,
}

impl Nodes {
    pub fn of(document: &Document) -> Result<Self, ImportError> {
        let mut listed = Vec::new();
        for object in &document.objects {
            if let ObjectKind::Node {
                number,
                cpus,
                subtype,
            } = &object.kind
            {
                at_most(NODES, listed.len() + 1, "NUMA nodes")?;
                listed.push((*number, cpus.as_ref(), is_memory(subtype)));
            }
        }
        let bare = listed
            .iter()
            .filter(|(_, cpus, memory)| *memory || cpus.is_some_and(IdList::is_empty));
        Ok(Self {
            memory: IdList::new(bare.filter_map(|(number, ..)| *number)),
            all: nodes(&listed, document.all_nodes.as_ref())
                .map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
        })
    }

    /// The node that devices right below this part of the processors are near.
    pub fn near(&self, place: &Locality) -> Fact<Option<u32>> {
        let Some(nodes) = place.all_nodes.as_ref().or(place.nodes.as_ref()) else {
            return Fact::Unknown(Why::NotCovered);
        };
        // So many are never one machine's, and what follows looks at each.
        if nodes.len() > NODES as u64 {
            return Fact::Unknown(Why::NotCovered);
        }
        let nodes = match place.whole {
            true => nodes.clone(),
            false => nodes.without(|node| self.memory.contains(node)),
        };
        match (nodes.first(), nodes.len()) {
            (Some(node), 1) => Fact::Known(Some(node)),
            _ => Fact::Unknown(Why::NotCovered),
        }
    }
}

/// hwloc gives a node of memory alone the CPUs that are near it. These kinds of memory never have any of their own where
/// there is another node in the same place.
fn is_memory(subtype: &str) -> bool {
    matches!(
        subtype,
        "GPUMemory" | "HBM" | "MCDRAM" | "SPM" | "NVM" | "CXL-DRAM" | "CXL-NVM"
    )
}

type Listed<'a> = (Option<u32>, Option<&'a IdList>, bool);

/// None where a node is missing, as those that a container may not use, and where it is not told whose a CPU is.
fn nodes(listed: &[Listed<'_>], all: Option<&IdList>) -> Option<Vec<NumaNode>> {
    let mut nodes = Vec::with_capacity(listed.len());
    for (number, cpus, memory) in listed {
        nodes.push(NumaNode {
            id: (*number)?,
            cpus: match *memory && shared(listed, *cpus) {
                true => IdList::default(),
                false => (*cpus)?.clone(),
            },
        });
    }
    nodes.sort_by_key(|node| node.id);
    let numbers = IdList::new(nodes.iter().map(|node| node.id));
    let cpus = IdList::union(nodes.iter().map(|node| &node.cpus));
    let disjoint = cpus.len() == nodes.iter().map(|node| node.cpus.len()).sum::<u64>();
    let complete = all == Some(&numbers) && numbers.len() == nodes.len() as u64;
    (complete && disjoint && !nodes.is_empty()).then_some(nodes)
}

/// Whether a node of another kind has the same CPUs.
fn shared(listed: &[Listed<'_>], cpus: Option<&IdList>) -> bool {
    listed
        .iter()
        .any(|(_, other, memory)| !memory && *other == cpus)
}

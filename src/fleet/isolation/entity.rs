//! The parts of a fleet that may be at fault, and the measurements that each of them takes part in.

use super::Network;

/// A NIC of a node, as numbers from 0. NICs of equal number are a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nic {
    pub node: usize,
    pub rail: usize,
}

/// A measured value of one direction; more is better. `None` failed.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Samples of one group have the same usual value.
    pub group: usize,
    pub value: Option<f64>,
    pub from: Nic,
    pub to: Nic,
}

/// A part that may be at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entity {
    /// A NIC's cable or port in the direction from the NIC.
    Sending(Nic),
    /// The direction to the NIC.
    Receiving(Nic),
    /// A NIC, its cable or its port, in both directions.
    Nic(Nic),
    Node(usize),
    Rail(usize),
    /// A leaf switch.
    Leaf(usize),
    /// What connects a leaf switch with the others.
    Uplinks(usize),
}

impl Entity {
    /// True if the other one is a part of this one. Leaf switches are compared by their measurements only.
    pub fn contains(&self, other: &Self) -> bool {
        let inner = match other {
            Self::Sending(nic) | Self::Receiving(nic) | Self::Nic(nic) => *nic,
            _ => return false,
        };
        match self {
            Self::Nic(nic) => *nic == inner && !matches!(other, Self::Nic(_)),
            Self::Node(node) => *node == inner.node,
            Self::Rail(rail) => *rail == inner.rail,
            _ => false,
        }
    }
}

/// All parts of a network.
pub struct Members<'n> {
    network: &'n Network,
    pub entities: Vec<Entity>,
    /// The leaf of each NIC, by node and rail.
    leaves: Vec<Option<usize>>,
    /// Directions of a cable are parts of their own.
    one_way: bool,
}

impl<'n> Members<'n> {
    /// For figures of one direction.
    pub fn one_way(network: &'n Network) -> Self {
        Self::new(network, true)
    }

    /// For figures that both directions share.
    pub fn two_way(network: &'n Network) -> Self {
        Self::new(network, false)
    }

    fn new(network: &'n Network, one_way: bool) -> Self {
        let nics = (0..network.nodes)
            .flat_map(|node| (0..network.rails).map(move |rail| Nic { node, rail }));
        let mut entities = Vec::new();
        if one_way {
            entities.extend(nics.clone().map(Entity::Sending));
            entities.extend(nics.clone().map(Entity::Receiving));
        }
        entities.extend(nics.map(Entity::Nic));
        entities.extend((0..network.nodes).map(Entity::Node));
        entities.extend((0..network.rails).map(Entity::Rail));
        entities.extend((0..network.leaves.len()).map(Entity::Leaf));
        entities.extend((0..network.leaves.len()).map(Entity::Uplinks));
        let mut leaves = vec![None; network.nodes * network.rails];
        for (leaf, nics) in network.leaves.iter().enumerate() {
            for nic in nics {
                leaves[nic.node * network.rails + nic.rail] = Some(leaf);
            }
        }
        Self { network, entities, leaves, one_way }
    }

    /// Of each part the numbers of the samples that it takes part in.
    pub fn samples(&self, samples: &[Sample]) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.entities.len()];
        let Network { nodes, rails, .. } = *self.network;
        let nics = nodes * rails;
        let nic = |nic: Nic| nic.node * rails + nic.rail;
        let first = if self.one_way { 2 * nics } else { 0 };
        let leaves = first + nics + nodes + rails;
        for (at, sample) in samples.iter().enumerate() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let (from, to) = (nic(sample.from), nic(sample.to));
            let mut add = |entity: usize| members[entity].push(at);
            if self.one_way {
                add(from);
                add(nics + to);
            }
            add(first + from);
            add(first + to);
            add(first + nics + sample.from.node);
            add(first + nics + sample.to.node);
            add(first + nics + nodes + sample.from.rail);
            if sample.from.rail != sample.to.rail {
                add(first + nics + nodes + sample.to.rail);
            }
            let ends = [self.leaves[from], self.leaves[to]];
            let distinct = ends[0] != ends[1];
            for leaf in ends.iter().take(1 + usize::from(distinct)).flatten() {
                add(leaves + leaf);
                if distinct {
                    add(leaves + self.network.leaves.len() + leaf);
                }
            }
        }
        members
    }
}

//! Places functions by the nesting of bridges. hwloc may omit bridges, so each step counts only if its bus
//! numbers fit.
//!
//! hwloc invents a host bridge above each bus without a bridge. If it could not read a bridge's buses, that
//! bus is not a root bus, so such host bridges are ignored.

use std::collections::BTreeMap;

use super::xml::{Document, ObjectKind};
use crate::model::Order as _;
use crate::model::{Bdf, PciPath, RootBus};

pub struct Tree<'a> {
    document: &'a Document,
    nodes: Vec<Node>,
    /// Number of bridges that lead to each (domain, first bus).
    leading: BTreeMap<(u32, u8), usize>,
    /// Per domain, the lowest bus with a bridge whose buses are unreadable.
    unread: BTreeMap<u32, u8>,
    /// Host bridges with overlapping buses, by (domain, first bus); true if one begins within another.
    overlapping: BTreeMap<(u32, u8), bool>,
}

/// An object's role in the tree.
#[derive(Debug, Clone, Copy)]
enum Node {
    Host(Buses),
    Bridge(Bdf, Buses),
    Function(Bdf),
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Buses {
    domain: u32,
    first: u8,
    last: u8,
}

impl<'a> Tree<'a> {
    pub fn new(document: &'a Document) -> Self {
        let nodes: Vec<Node> = document.objects.iter().map(|object| node(&object.kind)).collect();
        let mut leading = BTreeMap::new();
        let mut unread = BTreeMap::new();
        for (node, object) in nodes.iter().zip(&document.objects) {
            match node {
                Node::Host(buses) | Node::Bridge(_, buses) => {
                    *leading.entry((buses.domain, buses.first)).or_insert(0) += 1;
                }
                Node::Function(bdf) if is_unread_bridge(&object.kind) => {
                    let lowest = unread.entry(bdf.domain).or_insert(bdf.bus);
                    *lowest = bdf.bus.min(*lowest);
                }
                Node::Function(_) | Node::Other => {}
            }
        }
        Self { document, overlapping: overlapping(&nodes), nodes, leading, unread }
    }

    /// The address of an object that is a function.
    pub fn function(&self, at: usize) -> Option<Bdf> {
        match self.nodes.get(at)? {
            Node::Bridge(bdf, _) | Node::Function(bdf) => Some(*bdf),
            Node::Host(_) | Node::Other => None,
        }
    }

    /// The place of the object of this function.
    pub fn place(&self, at: usize, bdf: Bdf) -> PciPath {
        let mut root = RootBus { domain: bdf.domain, bus: bdf.bus };
        let mut bridges = Vec::new();
        let mut rooted = false;
        for above in self.above(at) {
            match above {
                Node::Bridge(..) if bridges.len() == PciPath::MAX_BRIDGES => break,
                Node::Bridge(bridge, buses)
                    if bridge.domain == root.domain && self.leads_to(*buses, root) =>
                {
                    bridges.push(*bridge);
                    root.bus = bridge.bus;
                }
                Node::Host(buses) if self.leads_to(*buses, root) && self.is_root(root) => {
                    rooted = true;
                    break;
                }
                _ => break,
            }
        }
        bridges.reverse();
        PciPath { root, rooted, bridges }
    }

    /// Whether the processors above an object are near it: hwloc merges trees with overlapping buses.
    pub fn is_near_its_processors(&self, at: usize) -> bool {
        let top = self.above(at).last();
        !matches!(top, Some(Node::Host(buses)) if self.overlapping.contains_key(&(buses.domain, buses.first)))
    }

    fn above(&self, at: usize) -> impl Iterator<Item = &Node> {
        let up = |at: &usize| self.document.objects.get(*at).and_then(|object| object.above);
        std::iter::successors(up(&at), up).filter_map(|at| self.nodes.get(at))
    }

    /// Whether exactly one bridge, with these buses, leads to this bus.
    fn leads_to(&self, buses: Buses, bus: RootBus) -> bool {
        let key = (buses.domain, buses.first);
        key == (bus.domain, bus.bus) && self.leading.get(&key) == Some(&1)
    }

    fn is_root(&self, bus: RootBus) -> bool {
        let below_unread = self.unread.get(&bus.domain).is_some_and(|lowest| *lowest < bus.bus);
        !below_unread && self.overlapping.get(&(bus.domain, bus.bus)) != Some(&true)
    }
}

fn node(kind: &ObjectKind) -> Node {
    match kind {
        ObjectKind::Bridge { kind, buses, address, .. } => {
            match (kind.as_str(), self::buses(buses), address.parse()) {
                ("0-1", Some(buses), _) => Node::Host(buses),
                ("1-1", Some(buses), Ok(bdf)) => Node::Bridge(bdf, buses),
                (_, _, Ok(bdf)) => Node::Function(bdf),
                _ => Node::Other,
            }
        }
        ObjectKind::Pci { address, .. } => address.parse().map_or(Node::Other, Node::Function),
        ObjectKind::Node { .. } | ObjectKind::Os { .. } => Node::Other,
    }
}

/// A PCI bridge that hwloc lists as a plain function.
fn is_unread_bridge(kind: &ObjectKind) -> bool {
    match kind {
        ObjectKind::Pci { pci, .. } => pci.starts_with("0604 "),
        _ => true,
    }
}

fn buses(text: &str) -> Option<Buses> {
    let (domain, range) = text.split_once(":[")?;
    let (first, last) = range.strip_suffix(']')?.split_once('-')?;
    let buses = Buses {
        domain: u32::from_str_radix(domain, 16).ok()?,
        first: u8::from_str_radix(first, 16).ok()?,
        last: u8::from_str_radix(last, 16).ok()?,
    };
    (buses.first <= buses.last).then_some(buses)
}

fn overlapping(nodes: &[Node]) -> BTreeMap<(u32, u8), bool> {
    let mut hosts: Vec<Buses> = nodes
        .iter()
        .filter_map(|node| match node {
            Node::Host(buses) => Some(*buses),
            _ => None,
        })
        .collect();
    hosts.order_by_key(|buses| (buses.domain, buses.first));
    let mut found = BTreeMap::new();
    let mut widest: Option<Buses> = None;
    for buses in hosts {
        match widest {
            Some(wide) if wide.domain == buses.domain && buses.first <= wide.last => {
                found.entry((wide.domain, wide.first)).or_insert(false);
                found.insert((buses.domain, buses.first), true);
                if buses.last > wide.last {
                    widest = Some(Buses { last: buses.last, ..wide });
                }
            }
            _ => widest = Some(buses),
        }
    }
    found
}

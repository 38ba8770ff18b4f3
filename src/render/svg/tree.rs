//! The part of the PCI forest that leads to rows, grouped by NUMA node; contains no coordinates.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Order as _;
use crate::model::{Bdf, Fact, Facts, Ids, LinkState, PciDevice, RootBus};
use crate::topo::{Forest, Role, Topology};

use super::acs::Acs;
use super::scene::Ink;

pub struct Group {
    pub title: String,
    pub roots: Vec<Root>,
}

/// One host bridge; without a title if the place of its rows is unknown.
pub struct Root {
    pub title: Option<String>,
    /// Devices below it that have no row.
    pub others: usize,
    pub below: Vec<Branch>,
}

pub enum Branch {
    Port(Port, Vec<Branch>),
    /// A switch or another bridge.
    Hub(Hub, Vec<Branch>),
    /// A device: one row per function of interest.
    Card(Vec<usize>, Vec<Note>, u8),
}

#[derive(Clone)]
pub struct Port {
    pub bdf: Bdf,
    /// ACS bits that affect a pair.
    pub failure: Option<Problem>,
}

#[derive(Clone)]
pub struct Problem {
    pub bits: String,
    /// Bad if the pair meets below a switch; fair if its path uses the root complex anyway.
    pub ink: Ink,
}

/// A switch, identified by its upstream port.
#[derive(Clone)]
pub struct Hub {
    pub name: String,
    pub detail: String,
    pub link: Vec<Note>,
    pub lanes: u8,
}

/// A short text beside a link.
pub type Note = (String, Ink);

pub struct Sources<'a> {
    pub facts: &'a Facts,
    pub topology: &'a Topology<'a>,
    pub forest: &'a Forest<'a>,
    pub acs: &'a Acs,
    pub names: &'a dyn Fn(&Ids) -> String,
}

/// A row and the bridges still above it.
type Hanging<'a> = (usize, Bdf, &'a [Bdf]);

impl Sources<'_> {
    /// The groups by node; rows without a node, then rows with an unknown place, come last.
    pub fn groups(&self) -> Vec<Group> {
        let mut roots: BTreeMap<RootBus, Vec<Hanging<'_>>> = BTreeMap::new();
        let mut lost = Vec::new();
        for (at, row) in self.topology.rows.iter().enumerate() {
            let device = row.bdf.and_then(|bdf| self.facts.device(bdf));
            match device.and_then(|device| Some((device.bdf, device.place.known()?))) {
                Some((bdf, place)) => {
                    roots.entry(place.root).or_default().push((at, bdf, &place.bridges))
                }
                None => lost.push(Branch::Card(vec![at], Vec::new(), 0)),
            }
        }
        // No node sorts after every node.
        let mut nodes: BTreeMap<(bool, u32), Vec<Root>> = BTreeMap::new();
        for (bus, rows) in roots {
            let node = rows
                .iter()
                .find_map(|(at, ..)| self.topology.rows[*at].numa.known().copied().flatten());
            let root = self.root(bus, &rows);
            nodes.entry((node.is_none(), node.unwrap_or(0))).or_default().push(root);
        }
        let mut groups: Vec<Group> = nodes
            .into_iter()
            .map(|((nowhere, node), roots)| Group {
                title: if nowhere { "no NUMA node".to_owned() } else { self.node_title(node) },
                roots,
            })
            .collect();
        if !lost.is_empty() {
            groups.push(Group {
                title: "unknown place in the PCI tree".to_owned(),
                roots: vec![Root { title: None, others: 0, below: lost }],
            });
        }
        groups
    }

    /// Number of host bridges that lead to no row.
    pub fn undrawn(&self) -> usize {
        let devices = self.topology.rows.iter().filter_map(|row| self.facts.device(row.bdf?));
        let drawn: BTreeSet<RootBus> =
            devices.filter_map(|d| d.place.known()).map(|p| p.root).collect();
        self.forest.roots().filter(|(bus, _)| !drawn.contains(bus)).count()
    }

    fn node_title(&self, node: u32) -> String {
        let nodes = self.facts.numa.known();
        match nodes.and_then(|nodes| nodes.iter().find(|known| known.id == node)) {
            Some(known) if !known.cpus.is_empty() => {
                format!("NUMA node {node} · CPUs {}", known.cpus)
            }
            _ => format!("NUMA node {node}"),
        }
    }

    fn root(&self, bus: RootBus, rows: &[Hanging<'_>]) -> Root {
        let slot = |bdf: Bdf| (bdf.domain, bdf.bus, bdf.device);
        let drawn: BTreeSet<_> = rows.iter().map(|(_, bdf, _)| slot(*bdf)).collect();
        let here =
            |device: &&PciDevice| device.place.known().is_some_and(|place| place.root == bus);
        let others: BTreeSet<_> = self
            .facts
            .devices()
            .iter()
            .filter(here)
            .filter(|device| self.forest.role(device) == Role::Endpoint)
            .map(|device| slot(device.bdf))
            .filter(|slot| !drawn.contains(slot))
            .collect();
        Root { title: Some(bus.to_string()), others: others.len(), below: self.below(rows, None) }
    }

    /// What is below a port, a bridge, or a root bus (`None`), by address.
    fn below(&self, rows: &[Hanging<'_>], under: Option<Role>) -> Vec<Branch> {
        // A port has one device below it, whatever its number of functions.
        let one_device = matches!(under, Some(Role::RootPort | Role::DownstreamPort));
        let mut bridges: BTreeMap<Bdf, Vec<Hanging<'_>>> = BTreeMap::new();
        let mut cards: BTreeMap<Option<Bdf>, Vec<(Bdf, usize)>> = BTreeMap::new();
        for &(at, bdf, path) in rows {
            match path.split_first() {
                Some((bridge, rest)) => bridges.entry(*bridge).or_default().push((at, bdf, rest)),
                None => {
                    let slot = (!one_device).then_some(Bdf { function: 0, ..bdf });
                    cards.entry(slot).or_default().push((bdf, at));
                }
            }
        }
        let mut branches: Vec<(Bdf, Branch)> = Vec::new();
        for mut functions in cards.into_values() {
            functions.sort_unstable();
            if let Some(&(bdf, _)) = functions.first() {
                let gpu = functions
                    .iter()
                    .any(|(_, at)| self.topology.rows[*at].kind == crate::model::Kind::Gpu);
                let (notes, lanes) = self.link(bdf, gpu);
                let rows = functions.into_iter().map(|(_, at)| at).collect();
                branches.push((bdf, Branch::Card(rows, notes, lanes)));
            }
        }
        for (bdf, rows) in bridges {
            branches.push((bdf, self.bridge(bdf, &rows, under)));
        }
        branches.order_by_key(|(bdf, _)| *bdf);
        branches.into_iter().map(|(_, branch)| branch).collect()
    }

    fn bridge(&self, bdf: Bdf, rows: &[Hanging<'_>], under: Option<Role>) -> Branch {
        let device = self.forest.device(bdf);
        let role = match (device, under) {
            (Some(device), _) => self.forest.role(device),
            (None, None) => Role::RootPort,
            (None, _) => Role::Bridge,
        };
        let below = self.below(rows, Some(role));
        if matches!(role, Role::RootPort | Role::DownstreamPort) {
            let failure = self.acs.ports.get(&bdf).map(|found| Problem {
                bits: found.bits.names().join(" "),
                ink: if found.below_a_switch { Ink::Bad } else { Ink::Fair },
            });
            return Branch::Port(Port { bdf, failure }, below);
        }
        let (link, lanes) = self.link(bdf, false);
        let name = device.and_then(|device| device.ids.known()).map(|ids| short((self.names)(ids)));
        let switch = below.iter().any(|branch| matches!(branch, Branch::Port(..)));
        let kind = if switch { "switch" } else { "bridge" };
        let hub = Hub {
            name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| kind.to_owned()),
            detail: format!("{kind} {bdf}"),
            link,
            lanes,
        };
        Branch::Hub(hub, below)
    }

    /// The notes beside the link above a function, and its lanes.
    fn link(&self, bdf: Bdf, gpu: bool) -> (Vec<Note>, u8) {
        let above = self.forest.device(bdf).map(|device| self.forest.link_above(device));
        match above {
            Some(Fact::Known(Some(link))) => (link_notes(link, gpu), link.current.width),
            Some(Fact::Known(None)) => (Vec::new(), 0),
            Some(Fact::Unknown(_)) | None => (vec![("link unknown".to_owned(), Ink::Unknown)], 0),
        }
    }
}

/// Lost lanes are red. A slow GPU link is power saving; another device trained below its maximum.
fn link_notes(link: LinkState, gpu: bool) -> Vec<Note> {
    let LinkState { current, max } = link;
    let narrow = current.width < max.width;
    let slow = current.speed < max.speed;
    let speed = if gpu { current.speed.max(max.speed) } else { current.speed };
    let ink = if narrow { Ink::Bad } else { Ink::Text };
    let mut notes = vec![(format!("{speed} x{}", current.width), ink)];
    match (narrow, slow) {
        (true, true) if !gpu => notes.push((format!("of {max}"), Ink::Bad)),
        (true, _) => notes.push((format!("of x{}", max.width), Ink::Bad)),
        (false, true) if !gpu => notes.push((format!("of {}", max.speed), Ink::Fair)),
        (false, _) => {}
    }
    if gpu && slow {
        notes.push((format!("idle {}", current.speed), Ink::Grey));
    }
    notes
}

/// The product name from a `chip [product]` entry.
pub fn short(name: String) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open + 1 < close => name[open + 1..close].to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Link, LinkSpeed};

    #[test]
    fn narrow_link_is_red_and_idle_link_is_grey() {
        let link = |speed, width| Link { speed: LinkSpeed(speed), width };
        let notes = |current, max, gpu| link_notes(LinkState { current, max }, gpu);
        let text = |text: &str, ink| (text.to_owned(), ink);
        assert_eq!(notes(link(5, 16), link(5, 16), true), [text("32GT/s x16", Ink::Text)]);
        assert_eq!(
            notes(link(1, 16), link(5, 16), true),
            [text("32GT/s x16", Ink::Text), text("idle 2.5GT/s", Ink::Grey)]
        );
        assert_eq!(
            notes(link(4, 8), link(4, 16), false),
            [text("16GT/s x8", Ink::Bad), text("of x16", Ink::Bad)]
        );
        assert_eq!(
            notes(link(3, 16), link(4, 16), false),
            [text("8GT/s x16", Ink::Text), text("of 16GT/s", Ink::Fair)]
        );
    }

    #[test]
    fn short_product_name() {
        assert_eq!(short("MT2910 Family [ConnectX-7]".to_owned()), "ConnectX-7");
        assert_eq!(short("PEX890xx".to_owned()), "PEX890xx");
        assert_eq!(short("][".to_owned()), "][");
    }
}

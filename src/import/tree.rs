//! Places functions by bus numbers, for dumps that have no paths. A bus without a bridge counts as a root
//! bus only if that is certain.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Bdf, Fact, PciPath, RootBus, Why};

pub(super) struct Node {
    pub bdf: Bdf,
    /// The bus below a bridge; 0 if it is not configured.
    pub secondary: Option<u8>,
    /// The last bus below a bridge, if known.
    pub subordinate: Option<u8>,
    /// It is certainly on a root bus.
    pub on_root: bool,
    /// It is certainly below another port: a switch's downstream port.
    pub below_a_port: bool,
}

pub(super) struct Tree {
    above: BTreeMap<RootBus, Above>,
    roots: BTreeSet<RootBus>,
    no_roots: BTreeSet<RootBus>,
    lasts: BTreeMap<Bdf, u8>,
    aliases: BTreeMap<RootBus, RootBus>,
}

/// What leads to a bus.
enum Above {
    Bridge(Bdf),
    /// Several bridges; these are two of them.
    Several(Bdf, Bdf),
}

impl Tree {
    pub(super) fn new(nodes: &[Node]) -> Self {
        let mut tree = Self {
            above: BTreeMap::new(),
            roots: BTreeSet::new(),
            no_roots: BTreeSet::new(),
            lasts: BTreeMap::new(),
            aliases: BTreeMap::new(),
        };
        for node in nodes {
            if node.on_root {
                tree.roots.insert(bus_of(node.bdf));
            }
            if let Some(last) = node.subordinate {
                tree.lasts.insert(node.bdf, last);
            }
            if let Some(bus) = node.secondary.filter(|bus| *bus != 0) {
                let below = RootBus { domain: node.bdf.domain, bus };
                tree.above
                    .entry(below)
                    .and_modify(|above| {
                        let (Above::Bridge(first) | Above::Several(first, _)) = *above;
                        *above = Above::Several(first, node.bdf);
                    })
                    .or_insert(Above::Bridge(node.bdf));
            }
        }
        // A bus with a switch port is not a root bus.
        for node in nodes.iter().filter(|node| node.below_a_port) {
            tree.roots.remove(&bus_of(node.bdf));
            tree.no_roots.insert(bus_of(node.bdf));
        }
        tree
    }

    /// Records that virtual functions extend to a bus without a bridge: they are below the same bridge.
    pub(super) fn reaches(&mut self, physical: Bdf, bus: u8) {
        let reached = RootBus { domain: physical.domain, bus };
        let within = match self.above.get(&bus_of(physical)) {
            Some(Above::Bridge(bridge)) => self.lasts.get(bridge).is_some_and(|last| bus <= *last),
            Some(Above::Several(..)) | None => false,
        };
        let free = reached != bus_of(physical)
            && !self.above.contains_key(&reached)
            && !self.roots.contains(&reached);
        if free && within {
            self.aliases.entry(reached).or_insert(bus_of(physical));
        }
    }

    /// The place of a function.
    pub(super) fn place(&self, bdf: Bdf) -> Fact<PciPath> {
        let mut bridges = Vec::new();
        let mut bus = bus_of(bdf);
        loop {
            match self.above.get(&bus) {
                Some(Above::Several(..)) => return Fact::Unknown(Why::Broken),
                // Cycles end here too.
                Some(Above::Bridge(_)) if bridges.len() == PciPath::MAX_BRIDGES => {
                    return Fact::Unknown(Why::Broken);
                }
                Some(Above::Bridge(bridge)) => {
                    bridges.push(*bridge);
                    bus = bus_of(*bridge);
                }
                None => match self.aliases.get(&bus) {
                    // Terminates: an alias leads to a lower bus.
                    Some(of) if of.bus < bus.bus => bus = *of,
                    _ => break,
                },
            }
        }
        bridges.reverse();
        Fact::Known(PciPath {
            root: bus,
            rooted: self.roots.contains(&bus) || (bus.bus == 0 && !self.no_roots.contains(&bus)),
            bridges,
        })
    }

    /// Inconsistencies of the bus numbers, each with a bridge concerned.
    pub(super) fn failure(&self) -> Vec<(Bdf, String)> {
        let mut failure = Vec::new();
        for (bus, above) in &self.above {
            match above {
                Above::Several(one, other) => failure.push((
                    *other,
                    format!(
                        "{one} and {other} both lead to bus {:02x}: the place of devices below is unknown",
                        bus.bus
                    ),
                )),
                Above::Bridge(bridge) if self.leads_nowhere(*bridge) => failure.push((
                    *bridge,
                    format!("the bridges above {bridge} form a cycle: its place is unknown"),
                )),
                Above::Bridge(_) => {}
            }
        }
        failure
    }

    fn leads_nowhere(&self, bridge: Bdf) -> bool {
        let mut bus = bus_of(bridge);
        for _ in 0..PciPath::MAX_BRIDGES {
            match self.above.get(&bus) {
                Some(Above::Bridge(above)) => bus = bus_of(*above),
                _ => return false,
            }
        }
        true
    }
}

fn bus_of(bdf: Bdf) -> RootBus {
    RootBus { domain: bdf.domain, bus: bdf.bus }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bdf(text: &str) -> Bdf {
        text.parse().expect("an address")
    }

    fn node(text: &str, secondary: Option<u8>, on_root: bool) -> Node {
        Node {
            bdf: bdf(text),
            secondary,
            subordinate: secondary.map(|bus| bus.saturating_add(1)),
            on_root,
            below_a_port: false,
        }
    }

    fn tree(nodes: &[(&str, Option<u8>, bool)]) -> Tree {
        let nodes: Vec<Node> = nodes.iter().map(|(a, b, c)| node(a, *b, *c)).collect();
        Tree::new(&nodes)
    }

    /// `root/bridge/bridge`, with a question mark if the root is uncertain.
    fn place(tree: &Tree, of: &str) -> String {
        match tree.place(bdf(of)) {
            Fact::Known(place) => {
                let sure = if place.rooted { "" } else { "?" };
                let bridges = place.bridges.iter().map(|bridge| format!("/{bridge}"));
                format!("{}{sure}{}", place.root, bridges.collect::<String>())
            }
            Fact::Unknown(why) => format!("{why:?}"),
        }
    }

    #[test]
    fn bridges_lead_to_their_secondary_bus() {
        let tree = tree(&[
            ("00:01.0", Some(1), false),
            ("01:00.0", Some(2), false),
            ("02:03.0", Some(7), false),
            ("0001:00:01.0", Some(1), false),
        ]);
        assert_eq!(place(&tree, "07:00.1"), "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:03.0");
        assert_eq!(place(&tree, "0001:01:00.0"), "pci0001:00/0001:00:01.0");
        assert_eq!(place(&tree, "00:1f.0"), "pci0000:00");
        assert!(tree.failure().is_empty());
    }

    #[test]
    fn bus_without_bridge_is_root_only_if_certain() {
        let tree = tree(&[
            ("17:02.0", Some(0x18), false),
            ("40:00.0", None, true),
            ("40:01.0", Some(0x41), false),
            // Not configured.
            ("40:02.0", Some(0), false),
        ]);
        assert_eq!(place(&tree, "18:00.0"), "pci0000:17?/0000:17:02.0");
        assert_eq!(place(&tree, "41:00.0"), "pci0000:40/0000:40:01.0");
        assert_eq!(place(&tree, "00:00.0"), "pci0000:00");
    }

    #[test]
    fn two_bridges_to_one_bus_are_ambiguous() {
        let tree = tree(&[
            ("00:01.0", Some(1), false),
            ("00:02.0", Some(1), false),
            ("01:00.0", Some(2), false),
            ("00:03.0", Some(3), false),
        ]);
        assert_eq!(place(&tree, "01:00.0"), "Broken");
        assert_eq!(place(&tree, "02:00.0"), "Broken");
        assert_eq!(place(&tree, "03:00.0"), "pci0000:00/0000:00:03.0");
        let failure = tree.failure();
        assert_eq!(failure.len(), 1, "{failure:?}");
        assert!(failure[0].1.contains("0000:00:01.0 and 0000:00:02.0 both lead to bus 01"));
    }

    #[test]
    fn cycles_terminate() {
        let tree = tree(&[
            ("01:00.0", Some(2), false),
            ("02:00.0", Some(1), false),
            ("05:00.0", Some(5), false),
        ]);
        for of in ["01:00.0", "02:00.0", "05:00.0"] {
            assert_eq!(place(&tree, of), "Broken", "{of}");
        }
        assert_eq!(tree.failure().len(), 3);
    }

    #[test]
    fn virtual_functions_share_place_of_physical_function() {
        let mut tree = tree(&[("00:01.0", Some(1), false), ("00:02.0", Some(3), false)]);
        tree.reaches(bdf("01:00.0"), 2);
        tree.reaches(bdf("01:00.0"), 3);
        assert_eq!(place(&tree, "02:00.1"), "pci0000:00/0000:00:01.0");
        // A bridge takes precedence.
        assert_eq!(place(&tree, "03:00.0"), "pci0000:00/0000:00:02.0");
    }

    #[test]
    fn virtual_functions_stay_below_their_bridge() {
        let mut tree = tree(&[("00:01.0", Some(1), false), ("02:00.0", None, true)]);
        for bus in [2, 3] {
            tree.reaches(bdf("01:00.0"), bus);
        }
        // The bus above is unknown.
        tree.reaches(bdf("40:00.0"), 0x41);
        assert_eq!(place(&tree, "02:01.0"), "pci0000:02", "a root bus");
        assert_eq!(place(&tree, "03:00.0"), "pci0000:03?", "behind the last bus of the bridge");
        assert_eq!(place(&tree, "41:00.0"), "pci0000:41?");
    }

    #[test]
    fn bus_with_switch_port_is_not_root() {
        let mut nodes = vec![node("17:00.0", None, true), node("17:01.0", Some(0x18), false)];
        assert_eq!(place(&Tree::new(&nodes), "18:00.0"), "pci0000:17/0000:17:01.0");
        nodes[1].below_a_port = true;
        assert_eq!(place(&Tree::new(&nodes), "18:00.0"), "pci0000:17?/0000:17:01.0");
    }
}

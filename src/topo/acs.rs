//! Which ports' access control services send a pair's traffic up to the root complex, or stop it.
//!
//! PCI Express Base Specification 5.0, 6.12. A request is judged by the downstream port it enters the switch through,
//! its completion by the one on the other leg: so every downstream port of both legs counts, and no other. Source
//! validation and upstream forwarding are never the cause.

use crate::model::{Bdf, Fact, Meeting, Path, PciDevice, RootBus, Why};

use super::forest::{Forest, Role};

/// One port on the way of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub port: Bdf,
    /// The bits that redirect or block, by lspci's names; empty where the port lets the pair through. Unknown where
    /// its configuration space could not be read that far.
    pub bits: Fact<Vec<&'static str>>,
    /// The value of the control register that lets the pair through and keeps the other bits.
    pub cleared: u16,
    /// Offset of the control register in configuration space.
    pub register: u16,
}

/// The ports on both legs of a path, judged.
pub fn redirects(forest: &Forest<'_>, path: &Path) -> Vec<Redirect> {
    let ends =
        [path.hops.first(), path.hops.last()].map(|hop| hop.and_then(|hop| forest.device(hop.bdf)));
    let translated = ends
        .iter()
        .flatten()
        .any(|device| device.config.ats.present().is_some_and(|ats| ats.enabled));
    let legs = || {
        let turn = |bdf| path.meeting == Meeting::Bridge(bdf);
        let inner = path
            .hops
            .iter()
            .skip(1)
            .take(path.hops.len().saturating_sub(2));
        inner.filter(move |hop| !turn(hop.bdf))
    };
    let ports: Vec<(&PciDevice, Role)> = legs()
        .filter_map(|hop| forest.device(hop.bdf))
        .map(|device| (device, forest.role(device)))
        .filter(|(_, role)| matches!(role, Role::DownstreamPort | Role::RootPort | Role::Unplaced))
        .collect();
    let beside: Vec<Beside<'_>> = ports
        .iter()
        .map(|(device, _)| beside(forest, device))
        .collect();
    let judged = ports.iter().zip(&beside).map(|((port, role), own)| {
        let redirect = judge(port, sibling(own, &beside), translated);
        match (role, &redirect.bits) {
            // What an upstream port's bits are set to redirects nothing.
            (Role::Unplaced, Fact::Known(bits)) if !bits.is_empty() => Redirect {
                bits: Fact::Unknown(Why::NotCovered),
                ..redirect
            },
            _ => redirect,
        }
    });
    // A bridge that a path names and the source does not list.
    let missing = legs()
        .filter(|hop| forest.device(hop.bdf).is_none())
        .map(|hop| Redirect {
            port: hop.bdf,
            bits: Fact::Unknown(Why::NotCovered),
            cleared: 0,
            register: 0,
        });
    judged.chain(missing).collect()
}

/// What a port with these bits does to a pair's requests. Egress control blocks them, unless redirect sends them up first.
pub fn verb(bits: &[&str]) -> &'static str {
    match bits.contains(&"EgressCtrl") && !bits.contains(&"ReqRedir") {
        true => "blocks",
        false => "redirects",
    }
}

/// A port, the bridge above it and its root bus.
type Beside<'a> = (&'a PciDevice, Option<Bdf>, Option<RootBus>);

fn beside<'a>(forest: &Forest<'_>, port: &'a PciDevice) -> Beside<'a> {
    let parent = forest.parent(port).map(|parent| parent.bdf);
    (port, parent, port.place.known().map(|place| place.root))
}

/// The port of the other leg in the same switch or root complex: the target that egress control may block.
fn sibling<'a>((port, parent, root): &Beside<'_>, ports: &[Beside<'a>]) -> Option<&'a PciDevice> {
    let mut others = ports.iter().filter(|(other, ..)| other.bdf != port.bdf);
    let found = others.find(|(_, above, bus)| above == parent && bus == root);
    found.map(|(other, ..)| *other)
}

fn judge(port: &PciDevice, target: Option<&PciDevice>, translated: bool) -> Redirect {
    let unknown = |why: Why| Redirect {
        port: port.bdf,
        bits: Fact::Unknown(why),
        cleared: 0,
        register: 0,
    };
    let acs = match &port.config.acs {
        Fact::Known(Some(acs)) => acs,
        Fact::Known(None) => {
            return Redirect {
                bits: Fact::Known(Vec::new()),
                ..unknown(Why::NotCovered)
            };
        }
        Fact::Unknown(why) => return unknown(*why),
    };
    let control = acs.control;
    let mut bits = Vec::new();
    // Requests that carry translated addresses go straight where the port is told so: the way of virtual machines.
    let direct = control.direct_translated() && translated;
    if control.request_redirect() && !direct {
        bits.push("ReqRedir");
    }
    if control.completion_redirect() && !direct {
        bits.push("CmpltRedir");
    }
    let number = target
        .and_then(|target| target.config.express.present())
        .and_then(|express| express.link.as_ref())
        .map(|link| link.port_number);
    match number.map(|number| acs.egress_blocks(number)) {
        Some(Fact::Known(true)) => bits.push("EgressCtrl"),
        // Whatever else is set, whether this port also blocks is not known.
        Some(Fact::Unknown(why)) => return unknown(why),
        Some(Fact::Known(false)) | None => {}
    }
    // Request and completion redirect are bits 2 and 3, egress control is bit 5.
    let mut mask = 0b00_1100;
    if bits.contains(&"EgressCtrl") {
        mask |= 0b10_0000;
    }
    Redirect {
        port: port.bdf,
        bits: Fact::Known(bits),
        cleared: control.0 & !mask,
        register: acs.control_offset(),
    }
}

//! Finds ports whose ACS bits redirect a pair's traffic to the root complex, or block it.
//!
//! PCI Express Base Specification 5.0, 6.12: a request is controlled by the downstream port through which it enters the
//! switch, its completion by the one on the other leg. So the downstream ports of both legs count. Source validation and
//! upstream forwarding never matter.

use crate::model::config::Acs;
use crate::model::{AcsBits, Bdf, Fact, Meeting, Path, PciDevice, RootBus, Why};

use super::Topology;
use super::forest::{Forest, Role};

/// A port on a pair's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub port: Bdf,
    /// The bits that redirect or block; empty if the port lets the pair through. Unknown if its configuration space was
    /// not readable that far.
    pub bits: Fact<AcsBits>,
    pub register: u16,
}

impl Topology<'_> {
    /// The ports whose ACS bits decide the path. Traffic that goes to the root complex anyway passes switch ports whatever their bits
    /// are.
    pub fn governing(&self, path: &Path) -> impl Iterator<Item = Redirect> {
        let below_a_switch = matches!(path.meeting, Meeting::Bridge(_));
        let redirects = redirects(&self.forest, path).into_iter();
        redirects.filter(move |redirect| {
            let device = self.forest.device(redirect.port);
            let role = device.map(|device| self.forest.role(device));
            below_a_switch || role != Some(Role::DownstreamPort)
        })
    }

    /// The ports of a path whose bits redirect or block its pair, or are unknown, as `pcie.acs` judges: none in a guest, where the host's
    /// ports decide, none with NVIDIA's CPUs, whose ports keep their bits, none for a device of a virtual machine.
    pub fn redirecting(&self, path: &Path) -> Vec<Redirect> {
        let ends = [path.hops.first(), path.hops.last()];
        let is_passed_through = ends.into_iter().flatten().any(|hop| {
            let device = self.forest.device(hop.bdf);
            device.is_some_and(|device| device.passthrough_driver().is_some())
        });
        if self.facts.platform.is_guest() || self.facts.is_grace() || is_passed_through {
            return Vec::new();
        }
        let is_clear = |bits: &Fact<AcsBits>| matches!(bits, Fact::Known(bits) if bits.is_empty());
        self.governing(path).filter(|redirect| !is_clear(&redirect.bits)).collect()
    }
}

/// The ports on both legs of a path.
pub fn redirects(forest: &Forest<'_>, path: &Path) -> Vec<Redirect> {
    let ends =
        [path.hops.first(), path.hops.last()].map(|hop| hop.and_then(|hop| forest.device(hop.bdf)));
    let translated = ends
        .iter()
        .flatten()
        .any(|device| device.config.ats.present().is_some_and(|ats| ats.enabled));
    let legs = || {
        let common = |bdf| path.meeting == Meeting::Bridge(bdf);
        let inner = path.hops.iter().skip(1).take(path.hops.len().saturating_sub(2));
        inner.filter(move |hop| !common(hop.bdf))
    };
    let ports: Vec<(&PciDevice, Role)> = legs()
        .filter_map(|hop| forest.device(hop.bdf))
        .map(|device| match forest.role(device) {
            // It is above an end of the path, so it is a bridge that could not be read.
            Role::Endpoint => (device, Role::Unplaced),
            role => (device, role),
        })
        .filter(|(_, role)| matches!(role, Role::DownstreamPort | Role::RootPort | Role::Unplaced))
        .collect();
    let position: Vec<PortPosition<'_>> =
        ports.iter().map(|(device, _)| position(forest, device)).collect();
    let judged = ports.iter().zip(&position).map(|((port, role), own)| {
        let redirect = judge(port, sibling(own, &position), translated);
        match (role, &redirect.bits) {
            // An upstream port's bits redirect nothing.
            (Role::Unplaced, Fact::Known(bits)) if !bits.is_empty() => {
                Redirect { bits: Fact::Unknown(Why::NotCovered), ..redirect }
            }
            _ => redirect,
        }
    });
    // A bridge of the path that the source does not list.
    let missing = legs().filter(|hop| forest.device(hop.bdf).is_none()).map(|hop| Redirect {
        port: hop.bdf,
        bits: Fact::Unknown(Why::NotCovered),
        register: 0,
    });
    judged.chain(missing).collect()
}

/// What these bits do to requests. Egress control blocks them, unless redirect sends them up first.
pub fn verb(bits: AcsBits) -> &'static str {
    if bits.egress_control() && !bits.request_redirect() { "blocks" } else { "redirects" }
}

type PortPosition<'a> = (&'a PciDevice, Option<Bdf>, Option<RootBus>);

fn position<'a>(forest: &Forest<'_>, port: &'a PciDevice) -> PortPosition<'a> {
    let parent = forest.parent(port).map(|parent| parent.bdf);
    (port, parent, port.place.known().map(|place| place.root))
}

/// The other leg's port in the same switch or root complex, which egress control may block.
fn sibling<'a>(
    (port, parent, root): &PortPosition<'_>,
    ports: &[PortPosition<'a>],
) -> Option<&'a PciDevice> {
    let mut others = ports.iter().filter(|(other, ..)| other.bdf != port.bdf);
    let found = others.find(|(_, above, bus)| above == parent && bus == root);
    found.map(|(other, ..)| *other)
}

fn judge(port: &PciDevice, target: Option<&PciDevice>, translated: bool) -> Redirect {
    let unknown = |why: Why| Redirect { port: port.bdf, bits: Fact::Unknown(why), register: 0 };
    let acs = match &port.config.acs {
        Fact::Known(Some(acs)) => acs,
        Fact::Known(None) => {
            return Redirect { bits: Fact::Known(AcsBits::default()), ..unknown(Why::NotCovered) };
        }
        Fact::Unknown(why) => return unknown(*why),
    };
    let control = acs.control;
    let mut bits = AcsBits::default();
    // With direct translated set, translated requests go directly (used in virtual machines).
    let direct = control.direct_translated() && translated;
    if !direct {
        bits = control & AcsBits::REDIRECT;
    }
    let blocks = match target {
        Some(target) => blocks(acs, target),
        None => Fact::Known(false),
    };
    match blocks {
        Fact::Known(true) => bits = bits | AcsBits::EGRESS_CONTROL,
        Fact::Known(false) => {}
        // The port may also block.
        Fact::Unknown(why) => return unknown(why),
    }
    Redirect { port: port.bdf, bits: Fact::Known(bits), register: acs.control_offset() }
}

/// True if egress control stops requests to the other leg's port, whose number its link capabilities give.
fn blocks(acs: &Acs, target: &PciDevice) -> Fact<bool> {
    if !acs.control.egress_control() {
        return Fact::Known(false);
    }
    match &target.config.express {
        Fact::Unknown(why) => Fact::Unknown(*why),
        Fact::Known(express) => {
            let link = express.as_ref().and_then(|express| express.link.as_ref());
            link.map_or(Fact::Known(false), |link| acs.egress_blocks(link.port_number))
        }
    }
}

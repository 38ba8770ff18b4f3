//! Ports whose ACS bits affect the traffic between a GPU and its NIC.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AcsBits, Bdf, Fact, Meeting, PciClass, Verdict};
use crate::topo::{Role, Topology, redirects};

use super::nets::picks;

/// Results for the paths of all pairs.
#[derive(Default)]
pub struct Acs {
    /// Ports that redirect or block traffic.
    pub ports: BTreeMap<Bdf, Found>,
    /// Ports whose bits are unknown.
    pub unknown: BTreeSet<Bdf>,
}

/// Effect of one port.
#[derive(Default)]
pub struct Found {
    /// The bits that redirect or block.
    pub bits: AcsBits,
    /// The port affects a pair that meets below the root complex: it loses its direct path.
    pub below_a_switch: bool,
}

/// Checks the paths of all pairs.
pub fn find(topology: &Topology<'_>) -> Acs {
    let forest = &topology.forest;
    let mut acs = Acs::default();
    for (gpu, nic, verdict) in picks(topology) {
        // A good pair of two host bridges uses NVLink-C2C, not these ports.
        let class = topology.class(gpu, nic);
        if verdict == Verdict::Good && class.is_some_and(|class| class >= PciClass::Phb) {
            continue;
        }
        let Ok(path) = topology.route(gpu, nic) else {
            continue;
        };
        let below_a_switch = matches!(path.meeting, Meeting::Bridge(_));
        for redirect in redirects(forest, &path) {
            // Traffic that goes to the root complex anyway passes the switch ports whatever their bits are.
            let role = forest.device(redirect.port).map(|port| forest.role(port));
            if !below_a_switch && role == Some(Role::DownstreamPort) {
                continue;
            }
            match redirect.bits {
                Fact::Known(bits) if bits.is_empty() => {}
                Fact::Known(bits) => {
                    let found = acs.ports.entry(redirect.port).or_default();
                    found.below_a_switch |= below_a_switch;
                    found.bits = found.bits | bits;
                }
                Fact::Unknown(_) => {
                    acs.unknown.insert(redirect.port);
                }
            }
        }
    }
    acs
}

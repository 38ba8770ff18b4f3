//! The ports whose access control services stand between a GPU and its NIC.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Bdf, Fact, Meeting, PciClass, Verdict};
use crate::topo::{Role, Topology, redirects};

use super::nets::picks;

/// What was found on the legs of all pairs.
#[derive(Default)]
pub struct Acs {
    /// The ports that redirect or block.
    pub ports: BTreeMap<Bdf, Found>,
    /// Ports whose bits could not be read.
    pub unknown: BTreeSet<Bdf>,
}

/// What one port does.
#[derive(Default)]
pub struct Found {
    /// Its bits that redirect or block.
    pub bits: Vec<&'static str>,
    /// It is in the way of a pair that meets below the root complex, and so costs it its short way.
    pub below_a_switch: bool,
}

/// Judges the ways of all pairs.
pub fn find(topology: &Topology<'_>) -> Acs {
    let forest = &topology.forest;
    let mut acs = Acs::default();
    for (gpu, nic, verdict) in picks(topology) {
        // A good pair of two host bridges goes over NVLink-C2C, not through these ports.
        let class = topology.class(gpu, nic);
        if verdict == Verdict::Good && class.is_some_and(|class| class >= PciClass::Phb) {
            continue;
        }
        let Ok(path) = topology.route(gpu, nic) else {
            continue;
        };
        let below_a_switch = matches!(path.meeting, Meeting::Bridge(_));
        for redirect in redirects(forest, &path) {
            // What goes up to the root complex anyhow passes the switch's ports whatever their bits are.
            let role = forest.device(redirect.port).map(|port| forest.role(port));
            if !below_a_switch && role == Some(Role::DownstreamPort) {
                continue;
            }
            match redirect.bits {
                Fact::Known(bits) => {
                    for bit in bits {
                        let found = acs.ports.entry(redirect.port).or_default();
                        found.below_a_switch |= below_a_switch;
                        if !found.bits.contains(&bit) {
                            found.bits.push(bit);
                        }
                    }
                }
                Fact::Unknown(_) => {
                    acs.unknown.insert(redirect.port);
                }
            }
        }
    }
    acs
}

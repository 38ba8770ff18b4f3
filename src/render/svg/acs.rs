//! Ports whose ACS bits affect the traffic between a GPU and its NIC.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AcsBits, Bdf, Fact, Meeting};
use crate::topo::Topology;

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
    let mut acs = Acs::default();
    for (gpu, nic, _) in picks(topology) {
        let Ok(path) = topology.route(gpu, nic) else {
            continue;
        };
        let below_a_switch = matches!(path.meeting, Meeting::Bridge(_));
        for redirect in topology.redirecting(&path) {
            match redirect.bits {
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

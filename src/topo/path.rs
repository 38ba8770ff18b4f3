//! The path between two devices, hop by hop, with its narrowest link.

use std::collections::BTreeMap;

use super::Topology;
use super::classify::bridges_in_common;
use super::forest::Forest;
use crate::model::{
    Bdf, Bottleneck, Fact, Hop, Link, Meeting, Path, PciDevice, PciPath, RdmaPath, Row, Why,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrowest {
    /// The device below the link.
    pub below: Bdf,
    /// The link at the best speed of both ends, with its active lanes.
    pub link: Link,
    /// Bytes per second in one direction, before packet headers.
    pub bytes_per_second: u64,
}

impl Topology<'_> {
    /// The path between two rows with its narrowest link, or why there is none.
    pub fn between(&self, a: usize, b: usize) -> Result<Path, String> {
        let mut path = self.route(a, b)?;
        path.bottleneck = narrowest(&path).map(|narrow| Bottleneck {
            below: narrow.below,
            bytes_per_second: narrow.bytes_per_second,
            shared_with: self.sharers(narrow.below, [a, b]).map(|row| row.name.clone()).collect(),
        });
        Ok(path)
    }

    /// The narrowest link that data passes between a GPU and a NIC: with NVLink-C2C, or if the GPU's memory is the CPU's, only the NIC's
    /// own links count. Unknown in a guest, which does not see the host's links.
    pub fn limit(&self, gpu: usize, nic: usize) -> Fact<Narrowest> {
        if self.facts.platform.is_guest() {
            return Fact::Unknown(Why::NotCovered);
        }
        let Ok(mut path) = self.route(gpu, nic) else {
            return Fact::Unknown(Why::NotCovered);
        };
        let is_integrated = self.rows.get(gpu).is_some_and(|row| row.integrated);
        match self.rdma_path(gpu, nic) {
            Fact::Known(RdmaPath::Pcie) if !is_integrated => {}
            Fact::Known(RdmaPath::Pcie | RdmaPath::C2c) => {
                let device = self.device(nic);
                let place = device.and_then(|device| device.place.known());
                path.hops.retain(|hop| {
                    Some(hop.bdf) == device.map(|device| device.bdf)
                        || place.is_some_and(|place| place.bridges.contains(&hop.bdf))
                });
            }
            Fact::Known(RdmaPath::DataDirect) => return Fact::Unknown(Why::NotCovered),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
        narrowest(&path)
    }

    /// Only the path: finding the sharers of the narrowest link is too slow for every pair.
    pub fn route(&self, a: usize, b: usize) -> Result<Path, String> {
        let (Some(from), Some(to)) = (self.rows.get(a), self.rows.get(b)) else {
            return Err("no such row".to_owned());
        };
        if a == b {
            return Err(format!("{} and {} are the same device", from.name, to.name));
        }
        let (first, last) = (self.located(a, from)?, self.located(b, to)?);
        let class = self.pair(a, b).map_or(Fact::Unknown(Why::NotCovered), |pair| pair.pci);
        if first.bdf == last.bdf {
            return Err(format!(
                "{} and {} are the same PCI function {}",
                from.name, to.name, first.bdf
            ));
        }
        let (Some(here), Some(there)) = (first.place.known(), last.place.known()) else {
            return Err("their places in the PCI tree are unknown".to_owned());
        };
        let common = bridges_in_common(here, there);
        let meeting = meeting(here, there)
            .ok_or_else(|| "the bridges above one of them are not in this snapshot".to_owned())?;
        let forest = &self.forest;
        let up = std::iter::once(&first.bdf).chain(here.bridges[common..].iter().rev());
        let down = there.bridges[common..].iter().chain(std::iter::once(&last.bdf));
        let mut hops: Vec<Hop> = up.clone().chain(down).map(|bdf| hop(forest, *bdf)).collect();
        if let Meeting::Bridge(bridge) = meeting {
            // The link above the common bridge is not on the path.
            let common = Hop { link: Fact::Known(None), ..hop(forest, bridge) };
            hops.insert(up.count(), common);
        }
        Ok(Path {
            from: from.name.clone(),
            to: to.name.clone(),
            class,
            hops,
            meeting,
            bottleneck: Fact::default(),
        })
    }

    /// The common bridge of two rows; `None` if they meet at the root complex, or if it is unknown.
    pub fn common_bridge(&self, a: usize, b: usize) -> Option<Bdf> {
        let (a, b) = (self.device(a)?, self.device(b)?);
        match meeting(a.place.known()?, b.place.known()?) {
            Some(Meeting::Bridge(bridge)) if a.bdf != b.bdf => Some(bridge),
            _ => None,
        }
    }

    /// Other rows whose traffic to the root uses the link above a function.
    pub fn sharers(&self, below: Bdf, ends: [usize; 2]) -> impl Iterator<Item = &Row> {
        let rows = self.below.get_or_init(|| self.rows_below()).get(&below);
        let others = rows.into_iter().flatten().filter(move |row| !ends.contains(row));
        others.filter_map(|row| self.rows.get(*row))
    }

    pub fn sharer_count(&self, below: Bdf, ends: [usize; 2]) -> usize {
        let rows = self.below.get_or_init(|| self.rows_below()).get(&below);
        let rows = rows.map_or(&[][..], Vec::as_slice);
        rows.len() - ends.iter().filter(|end| rows.binary_search(end).is_ok()).count()
    }

    /// The rows at or below each function, in order.
    fn rows_below(&self) -> BTreeMap<Bdf, Vec<usize>> {
        let mut below: BTreeMap<Bdf, Vec<usize>> = BTreeMap::new();
        for row in 0..self.rows.len() {
            let Some(device) = self.device(row) else {
                continue;
            };
            let bridges = device.place.known().into_iter().flat_map(|place| &place.bridges);
            for bdf in bridges.chain([&device.bdf]) {
                let rows = below.entry(*bdf).or_default();
                // A hand-written link may repeat a bridge.
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
            }
        }
        below
    }

    fn located(&self, at: usize, row: &Row) -> Result<&PciDevice, String> {
        self.device(at).ok_or_else(|| {
            let Row { name, label, .. } = row;
            format!("{name} ({label}) is not a PCI device: its network device has no PCI function")
        })
    }
}

/// Where two places meet; `None` if that is above what the source contains.
fn meeting(a: &PciPath, b: &PciPath) -> Option<Meeting> {
    match a.bridges.get(..bridges_in_common(a, b)).and_then(<[Bdf]>::last) {
        Some(bridge) => Some(Meeting::Bridge(*bridge)),
        None if !(a.rooted && b.rooted) => None,
        None if a.root == b.root => Some(Meeting::HostBridge(a.root)),
        None => Some(Meeting::Interconnect(a.root, b.root)),
    }
}

fn hop(forest: &Forest<'_>, bdf: Bdf) -> Hop {
    match forest.device(bdf) {
        Some(device) => Hop {
            bdf,
            role: forest.role(device).phrase().to_owned(),
            link: forest.link_above(device),
            acs: device.config.acs.as_ref().map(|acs| acs.as_ref().map(|acs| acs.control)),
        },
        None => Hop {
            bdf,
            role: "bridge".to_owned(),
            link: Fact::Unknown(Why::NotCovered),
            acs: Fact::Unknown(Why::NotCovered),
        },
    }
}

/// The narrowest link of a path; unknown if any link is.
pub fn narrowest(path: &Path) -> Fact<Narrowest> {
    let mut narrowest: Option<Narrowest> = None;
    for hop in path.hops.iter().filter(|hop| path.meeting != Meeting::Bridge(hop.bdf)) {
        let state = match hop.link {
            Fact::Known(Some(state)) => state,
            Fact::Known(None) => continue,
            Fact::Unknown(why) => return Fact::Unknown(why),
        };
        let Some(bytes_per_second) = state.bandwidth() else {
            return Fact::Unknown(Why::Broken);
        };
        if narrowest.is_none_or(|least| bytes_per_second < least.bytes_per_second) {
            narrowest = Some(Narrowest {
                below: hop.bdf,
                link: Link { speed: state.max.speed, width: state.current.width },
                bytes_per_second,
            });
        }
    }
    // Integrated devices have no link.
    narrowest.map_or(Fact::Unknown(Why::NotCovered), Fact::Known)
}

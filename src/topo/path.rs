//! The way from one device to another, hop by hop, with its narrowest link.

use crate::model::{Bdf, Bottleneck, Fact, Facts, Hop, Meeting, Path, PciDevice, Row, Topology, Why};

use super::classify::class;
use super::forest::Forest;

/// The path between two rows with its narrowest link; an error in words where there is none to show.
pub fn between(facts: &Facts, forest: &Forest<'_>, topology: &Topology, a: usize, b: usize) -> Result<Path, String> {
    let mut path = route(facts, forest, topology, a, b)?;
    let turn = path.meeting;
    let legs = path.hops.iter().filter(|hop| turn != Meeting::Bridge(hop.bdf));
    path.bottleneck = bottleneck(facts, topology, legs, [a, b]);
    Ok(path)
}

/// The path alone: who shares its narrowest link is dear to find, where every pair is looked at.
pub fn route(facts: &Facts, forest: &Forest<'_>, topology: &Topology, a: usize, b: usize) -> Result<Path, String> {
    let (Some(from), Some(to)) = (topology.rows.get(a), topology.rows.get(b)) else {
        return Err("there is no such row".to_owned());
    };
    if a == b {
        return Err(format!("{} and {} are the same device", from.name, to.name));
    }
    let (first, last) = (located(facts, from)?, located(facts, to)?);
    let class = class(facts, from, to);
    if first.bdf == last.bdf {
        return Err(format!(
            "{} and {} are the same PCI function {}",
            from.name, to.name, first.bdf
        ));
    }
    let (Some(here), Some(there)) = (first.place.known(), last.place.known()) else {
        return Err("their places in the PCI tree are not known".to_owned());
    };
    let common = match here.root == there.root {
        true => here
            .bridges
            .iter()
            .zip(&there.bridges)
            .take_while(|(a, b)| a == b)
            .count(),
        false => 0,
    };
    let meeting = match here.bridges.get(..common).and_then(<[Bdf]>::last) {
        Some(bridge) => Meeting::Bridge(*bridge),
        None if !(here.rooted && there.rooted) => {
            return Err("this source lacks the bridges above one of them, where they may meet".to_owned());
        }
        None if here.root == there.root => Meeting::HostBridge(here.root),
        None => Meeting::Interconnect(here.root, there.root),
    };
    let up = std::iter::once(&first.bdf).chain(here.bridges[common..].iter().rev());
    let down = there.bridges[common..].iter().chain(std::iter::once(&last.bdf));
    let mut hops: Vec<Hop> = up.clone().chain(down).map(|bdf| hop(forest, *bdf)).collect();
    if let Meeting::Bridge(bridge) = meeting {
        // The link above the bridge where the legs meet is not on the way.
        let turn = Hop {
            link: Fact::Known(None),
            ..hop(forest, bridge)
        };
        hops.insert(up.count(), turn);
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

fn located<'a>(facts: &'a Facts, row: &Row) -> Result<&'a PciDevice, String> {
    row.bdf.and_then(|bdf| facts.device(bdf)).ok_or_else(|| {
        let Row { name, label, .. } = row;
        format!("{name} ({label}) is not on the PCI bus: it runs over a network device that has no PCI function")
    })
}

fn hop(forest: &Forest<'_>, bdf: Bdf) -> Hop {
    match forest.device(bdf) {
        Some(device) => Hop {
            bdf,
            role: forest.role(device).phrase().to_owned(),
            link: forest.link_above(device),
            acs: device
                .config
                .acs
                .as_ref()
                .map(|acs| acs.as_ref().map(|acs| acs.control)),
        },
        None => Hop {
            bdf,
            role: "bridge".to_owned(),
            link: Fact::Unknown(Why::NotCovered),
            acs: Fact::Unknown(Why::NotCovered),
        },
    }
}

fn bottleneck<'a>(
    facts: &Facts,
    topology: &Topology,
    legs: impl Iterator<Item = &'a Hop>,
    ends: [usize; 2],
) -> Fact<Bottleneck> {
    let mut narrowest: Option<(&Hop, u64)> = None;
    for hop in legs {
        let bandwidth = match hop.link {
            Fact::Known(Some(link)) => link.bandwidth(),
            Fact::Known(None) => continue,
            Fact::Unknown(why) => return Fact::Unknown(why),
        };
        let Some(bandwidth) = bandwidth else {
            return Fact::Unknown(Why::Broken);
        };
        if narrowest.is_none_or(|(_, least)| bandwidth < least) {
            narrowest = Some((hop, bandwidth));
        }
    }
    let Some((hop, bytes_per_second)) = narrowest else {
        // Devices integrated into the root complex have no link.
        return Fact::Unknown(Why::NotCovered);
    };
    let shares = |row: &Row| {
        let device = row.bdf.and_then(|bdf| facts.device(bdf));
        device.is_some_and(|device| {
            device.bdf == hop.bdf
                || device
                    .place
                    .known()
                    .is_some_and(|place| place.bridges.contains(&hop.bdf))
        })
    };
    Fact::Known(Bottleneck {
        below: hop.bdf,
        bytes_per_second,
        shared_with: topology
            .rows
            .iter()
            .enumerate()
            .filter(|(at, row)| !ends.contains(at) && shares(row))
            .map(|(_, row)| row.name.clone())
            .collect(),
    })
}

//! The path of a pair in NCCL's words (NCCL, src/graph/paths.cc, `ncclTopoSetPaths`).

use super::rules::Rules;
use crate::model::{Bdf, Fact, NcclPath};
use crate::topo::Topology;

/// The path over PCI Express, with CPUs and switches as NCCL's topology has them; none if unknown.
pub fn over_pcie(topology: &Topology<'_>, a: usize, b: usize) -> Option<NcclPath> {
    let (here, there) = (switches(topology, a)?, switches(topology, b)?);
    let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
    match common {
        0 => {
            let (here, there) = (node(topology, &here, a)?, node(topology, &there, b)?);
            Some(if here == there { NcclPath::Phb } else { NcclPath::Sys })
        }
        _ if here.len().max(there.len()) == common => Some(NcclPath::Pix),
        _ => Some(NcclPath::Pxb),
    }
}

/// The switches above a row, outermost first. In a file of NCCL the bridges are its switches already.
fn switches(topology: &Topology<'_>, row: usize) -> Option<Vec<Bdf>> {
    let place = topology.device(row)?.place.known()?;
    if topology.facts.nccl.is_some() {
        return Some(place.bridges.clone());
    }
    if !place.rooted {
        return None;
    }
    let mut switches: Vec<Bdf> = place.bridges.iter().rev().skip(1).step_by(2).copied().collect();
    switches.reverse();
    Some(switches)
}

/// The NUMA node of the outermost function, −1 without one: NCCL has one CPU for each.
fn node(topology: &Topology<'_>, switches: &[Bdf], row: usize) -> Option<i64> {
    let outermost = switches.first().copied().or(topology.rows.get(row)?.bdf)?;
    match topology.facts.device(outermost).map(|device| &device.numa_node) {
        Some(Fact::Known(node)) => Some(node.map_or(-1, i64::from)),
        // A file of NCCL has the devices without a node below node −1.
        _ if topology.facts.nccl.is_some() => Some(-1),
        _ => None,
    }
}

/// The path between two GPUs.
pub fn gpus(
    topology: &Topology<'_>,
    rules: &Rules,
    a: usize,
    b: usize,
    nvb: bool,
) -> Option<NcclPath> {
    let links = |a, b| topology.pair(a, b)?.nvlinks.known().copied();
    if links(a, b)? > 0 {
        return Some(NcclPath::Nvl);
    }
    let mut others = topology.rows_of(crate::model::Kind::Gpu).map(|(at, _)| at);
    let is_linked = |x, y| links(x, y).is_some_and(|count| count > 0);
    if nvb && others.any(|c| c != a && c != b && is_linked(a, c) && is_linked(c, b)) {
        return Some(NcclPath::Nvb);
    }
    let path = over_pcie(topology, a, b)?;
    let coherent = [a, b].iter().all(|row| topology.rows[*row].coherent);
    let by_c2c = coherent && path == NcclPath::Phb && rules.minor >= 26;
    Some(if by_c2c { NcclPath::C2c } else { path })
}

//! For each GPU its best NIC, for each NIC its best GPU, and what the pair is worth.

use crate::model::{Fact, Facts, Kind, Match, PciClass, Row, Topology, Verdict};

use super::forest::Forest;
use super::path;

/// A partner: how near it is, how much the way carries, and its row.
struct Candidate {
    row: usize,
    /// 0 the nearest.
    distance: u8,
    class: PciClass,
    bandwidth: u64,
    down: bool,
}

/// The matches of all GPUs, then of all NICs.
pub fn matches(facts: &Facts, forest: &Forest<'_>, topology: &Topology) -> Vec<Match> {
    let of = |mine: Kind, theirs: Kind| {
        let mut taken = vec![0_usize; topology.rows.len()];
        let rows: Vec<usize> = topology.rows_of(mine).map(|(at, _)| at).collect();
        rows.into_iter()
            .map(|row| {
                let found = one(facts, forest, topology, row, theirs, &taken);
                if let Some(pick) = found.pick {
                    taken[pick] += 1;
                }
                found
            })
            .collect::<Vec<_>>()
    };
    let mut matches = of(Kind::Gpu, Kind::Nic);
    matches.extend(of(Kind::Nic, Kind::Gpu));
    matches
}

fn one(facts: &Facts, forest: &Forest<'_>, topology: &Topology, row: usize, theirs: Kind, taken: &[usize]) -> Match {
    let me = &topology.rows[row];
    let mut candidates: Vec<Candidate> = topology
        .rows_of(theirs)
        .filter(|(_, other)| !me.software && !other.software)
        .filter_map(|(at, other)| candidate(facts, forest, topology, row, at, other))
        .collect();
    candidates.sort_by_key(|c| (c.distance, c.down, std::cmp::Reverse(c.bandwidth), c.row));
    let Some(nearest) = candidates.first() else {
        return nobody(topology, row, theirs);
    };
    let best: Vec<&Candidate> = candidates
        .iter()
        .take_while(|c| (c.distance, c.down, c.bandwidth) == (nearest.distance, nearest.down, nearest.bandwidth))
        .collect();
    let pick = best.iter().min_by_key(|c| (taken[c.row], c.row)).map(|c| c.row);
    let partner = &topology.rows[pick.unwrap_or(nearest.row)];
    let (verdict, reason) = judge(me, partner, nearest.class);
    Match {
        row,
        best: best.iter().map(|c| c.row).collect(),
        pick,
        verdict,
        reason: format!("{} to {}: {reason}", me.name, partner.name),
        advice: (verdict == Verdict::Bad).then(|| advice(facts, me, partner)),
    }
}

fn nobody(topology: &Topology, row: usize, theirs: Kind) -> Match {
    let name = &topology.rows[row].name;
    let others = topology.rows_of(theirs).count();
    let reason = match (theirs, others, topology.rows[row].software) {
        (_, _, true) => format!("{name} is software over a network device: GPUDirect RDMA needs a card"),
        (Kind::Gpu, 0, _) => "there is no GPU".to_owned(),
        (_, 0, _) => "there is no RDMA device".to_owned(),
        _ => format!("{name} has no partner whose place in the PCI tree is known"),
    };
    Match {
        row,
        best: Vec::new(),
        pick: None,
        verdict: Verdict::Unknown,
        reason,
        advice: None,
    }
}

fn candidate(
    facts: &Facts,
    forest: &Forest<'_>,
    topology: &Topology,
    row: usize,
    at: usize,
    other: &Row,
) -> Option<Candidate> {
    let class = *topology.pair(row, at)?.pci.known()?;
    let me = &topology.rows[row];
    let bandwidth = path::between(facts, forest, topology, row, at)
        .ok()
        .and_then(|path| path.bottleneck.known().map(|b| b.bytes_per_second));
    Some(Candidate {
        row: at,
        distance: match class {
            _ if by_socket(me, other) => 0,
            PciClass::Pix => 0,
            PciClass::Pxb => 1,
            PciClass::Phb => 2,
            PciClass::Node => 3,
            PciClass::Sys => 4,
        },
        class,
        bandwidth: bandwidth.unwrap_or(0),
        down: other.active == Some(false),
    })
}

/// A coherent GPU reaches the NICs of its own socket over NVLink-C2C, whatever class the PCI tree gives.
fn by_socket(a: &Row, b: &Row) -> bool {
    (a.coherent || b.coherent) && matches!((&a.numa, &b.numa), (Fact::Known(Some(a)), Fact::Known(Some(b))) if a == b)
}

fn judge(me: &Row, partner: &Row, class: PciClass) -> (Verdict, String) {
    let letters = class.letters();
    if by_socket(me, partner) {
        let reason = format!("{letters}, on one socket: the way is NVLink-C2C, not PCI Express");
        return (Verdict::Good, reason);
    }
    let (verdict, reason) = match class {
        PciClass::Pix => (Verdict::Good, "below one switch"),
        PciClass::Pxb => (Verdict::Good, "below one root port, through several switches"),
        PciClass::Phb => (
            Verdict::LikelyGood,
            "through one host bridge; what that carries depends on the CPU",
        ),
        PciClass::Node => (Verdict::Bad, "between host bridges of one NUMA node"),
        PciClass::Sys => (Verdict::Bad, "across the interconnect between NUMA nodes"),
    };
    (verdict, format!("{letters}, {reason}"))
}

/// What to move where.
fn advice(facts: &Facts, me: &Row, partner: &Row) -> String {
    let (gpu, nic) = match me.kind {
        Kind::Gpu => (me, partner),
        Kind::Nic | Kind::Nvme => (partner, me),
    };
    let place = |row: &Row| row.bdf.and_then(|bdf| facts.device(bdf)).and_then(|d| d.place.known());
    let bus = place(gpu).map_or_else(|| "its root bus".to_owned(), |place| place.root.to_string());
    let node = match &gpu.numa {
        Fact::Known(Some(node)) => format!(", NUMA node {node}"),
        _ => String::new(),
    };
    let below = match place(gpu).map_or(0, |place| place.bridges.len()) {
        0 | 1 => "",
        _ => ", best below the same switch",
    };
    let address = |row: &Row| row.bdf.map_or_else(String::new, |bdf| format!(" ({bdf})"));
    let from = place(nic).map_or_else(String::new, |place| format!(" from {}", place.root));
    format!(
        "move {}{}{from}, or put another NIC, to a slot on the host bridge of {}{}: {bus}{node}{below}",
        nic.label,
        address(nic),
        gpu.name,
        address(gpu),
    )
}

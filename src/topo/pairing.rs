//! The best NIC of each GPU, the best GPU of each NIC, and a verdict on each match.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::advice::advise;
use super::classify::bridges_in_common;
use super::nearest::Partners;
use super::rating::{is_by_socket, rate};
use super::share::{self, Taken};
use super::{ForcedPcie, Topology, forced_pcie, forced_pcie_remedy};
use crate::model::Order as _;
use crate::model::{Fact, Ids, Kind, Match, PciClass, Row, Verdict};

/// Partners at this distance or farther have no bridge in common with the row.
const DISTANCE_OF_PHB: u8 = 2;

/// Number of nearest partners considered if there are too many rows for all pairs.
const MAX_CANDIDATES: usize = 64;

#[derive(Clone, Copy)]
struct Candidate {
    row: usize,
    /// 0 is the nearest.
    distance: u8,
    class: PciClass,
    bandwidth: u64,
}

impl Candidate {
    /// Candidates of equal rank are equally good; the least is best.
    fn rank(&self) -> (u8, Reverse<u64>) {
        (self.distance, Reverse(self.bandwidth))
    }
}

pub fn matches(topology: &Topology<'_>) -> Vec<Match> {
    let legs: Vec<Leg> = (0..topology.rows.len()).map(|row| leg(topology, row)).collect();
    let match_rows = |mine: Kind, theirs: Kind, local_gpus: &dyn Fn(usize) -> usize| {
        let partners = Partners::new(topology, theirs);
        let mut taken = Taken::new(topology.rows.len());
        let rows = topology.rows_of(mine).map(|(at, _)| at);
        rows.map(|row| {
            let mut found = one(topology, &legs, &partners, (row, theirs), &taken);
            if let Some(pick) = found.pick {
                let count = match theirs {
                    // The nearest of a GPU are in row order; NCCL counts for the first.
                    Kind::Nic => {
                        let first = found.best.iter().min_by_key(|nic| topology.rows[**nic].bdf);
                        let gpus = first.map_or(1, |nic| local_gpus(*nic)).max(1);
                        share::devices(&topology.rows, &found.best).div_ceil(gpus)
                    }
                    Kind::Gpu | Kind::Nvme => 1,
                };
                let used = taken.take(&topology.rows, &found.best, pick, count);
                if theirs == Kind::Nic {
                    found.nccl = used;
                }
            }
            found
        })
        .collect::<Vec<_>>()
    };
    let of_nics = match_rows(Kind::Nic, Kind::Gpu, &|_| 1);
    let gpus: BTreeMap<usize, usize> =
        of_nics.iter().map(|found| (found.row, found.best.len())).collect();
    let mut matches = match_rows(Kind::Gpu, Kind::Nic, &|nic| gpus.get(&nic).copied().unwrap_or(1));
    advise(topology, &mut matches);
    matches.extend(of_nics);
    matches
}

fn one(
    topology: &Topology<'_>,
    legs: &[Leg],
    partners: &Partners<'_>,
    (row, theirs): (usize, Kind),
    taken: &Taken,
) -> Match {
    let me = &topology.rows[row];
    let any = nearest(topology, legs, partners, (row, theirs), |_| true);
    let Some(nearest_rank) = any.iter().map(Candidate::rank).min() else {
        return no_partner(topology, partners, row, theirs);
    };
    // A NIC without an active port carries nothing, however near it is.
    let usable =
        nearest(topology, legs, partners, (row, theirs), |other| other.active != Some(false));
    let down = match usable.iter().map(Candidate::rank).min() {
        Some(rank) if rank.0 == nearest_rank.0 => None,
        _ => any
            .iter()
            .filter(|candidate| candidate.rank() == nearest_rank)
            .min_by_key(|candidate| (topology.rows[candidate.row].bdf, candidate.row)),
    };
    let Some(rank) = usable.iter().map(Candidate::rank).min() else {
        return no_active_port(topology, row, down);
    };
    let best = usable.iter().filter(|c| c.rank() == rank);
    let best: Vec<usize> = best.map(|candidate| candidate.row).collect();
    let pick = taken.least(&topology.rows, &best);
    let Some(pick) = pick.and_then(|pick| usable.iter().find(|candidate| candidate.row == pick))
    else {
        return no_partner(topology, partners, row, theirs);
    };
    let partner = &topology.rows[pick.row];
    let not_in_matrix = topology
        .rows_of(theirs)
        .filter(|(at, other)| {
            topology.is_in_matrix(row) && other.bdf.is_none() && !topology.is_in_matrix(*at)
        })
        .map(|(at, _)| at);
    let unplaced = partners
        .unplaced(row)
        .chain(not_in_matrix)
        .find(|at| pick.distance >= DISTANCE_OF_PHB && topology.class(row, *at).is_none());
    if let Some(unplaced) = unplaced {
        return Match {
            reason: format!(
                "{} may be nearer than {}: this source omits the bridges above it",
                topology.rows[unplaced].name, partner.name
            ),
            ..no_partner(topology, partners, row, theirs)
        };
    }
    let (verdict, reason) = rated(topology, row, pick);
    let forced = forced(topology, row, pick.row);
    let (verdict, reason) = match &forced {
        Some((verdict, denied)) => (*verdict, format!("{}, {denied}", pick.class.letters())),
        None => (verdict, reason),
    };
    let reason = format!("{} to {}: {reason}", me.name, partner.name);
    Match {
        row,
        best: if topology.has_all_pairs() { best } else { vec![pick.row] },
        pick: Some(pick.row),
        nccl: Vec::new(),
        nearer_down: down.map(|down| down.row),
        verdict,
        reason: match down {
            Some(down) => format!("{reason}; {}", nearer_but_down(topology, down)),
            None => reason,
        },
        advice: match down {
            Some(down) => Some(port_advice(&topology.rows[down.row])),
            None => (forced.is_some() && verdict == Verdict::Bad)
                .then(|| forced_pcie_remedy(topology.facts).to_owned()),
        },
    }
}

fn rated(topology: &Topology<'_>, row: usize, pick: &Candidate) -> (Verdict, String) {
    let platform = &topology.facts.platform;
    let is_guest = platform.is_guest();
    if !is_guest && is_unknown_model(topology, row, pick) {
        return (Verdict::Unknown, unknown_model(pick));
    }
    match rate(&topology.rows[row], &topology.rows[pick.row], pick.class, is_guest) {
        (Verdict::Good | Verdict::LikelyGood, _) if platform.may_be_guest() => {
            (Verdict::Unknown, unknown_platform(pick))
        }
        rated => rated,
    }
}

fn nearer_but_down(topology: &Topology<'_>, down: &Candidate) -> String {
    let Row { name, label, .. } = &topology.rows[down.row];
    format!("{name} ({label}) is nearer ({}), but none of its ports is up", down.class.letters())
}

fn port_advice(nic: &Row) -> String {
    let address = nic.bdf.map_or_else(String::new, |bdf| format!(" ({bdf})"));
    format!(
        "Connect a port of {}{address} and bring its link up; 'rdma link' shows the state.",
        nic.label
    )
}

/// All partners are NICs without an active port.
fn no_active_port(topology: &Topology<'_>, row: usize, nearest: Option<&Candidate>) -> Match {
    let reason = nearest.map_or_else(String::new, |nearest| {
        let Row { name, label, .. } = &topology.rows[nearest.row];
        format!("; the nearest is {name} ({label}, {})", nearest.class.letters())
    });
    Match {
        row,
        best: Vec::new(),
        pick: None,
        nccl: Vec::new(),
        nearer_down: nearest.map(|nearest| nearest.row),
        verdict: Verdict::Bad,
        reason: format!("no NIC has an active port{reason}"),
        advice: nearest.map(|nearest| port_advice(&topology.rows[nearest.row])),
    }
}

/// The candidates of the first non-empty level, in row order.
fn nearest(
    topology: &Topology<'_>,
    legs: &[Leg],
    partners: &Partners<'_>,
    (row, theirs): (usize, Kind),
    is_wanted: impl Fn(&Row) -> bool,
) -> Vec<Candidate> {
    let most = if topology.has_all_pairs() { usize::MAX } else { MAX_CANDIDATES };
    if topology.rows[row].software {
        return Vec::new();
    }
    if topology.is_in_matrix(row) {
        // A matrix says the class of partners whose places are unknown.
        let rows = topology.rows_of(theirs).filter(|(_, other)| is_wanted(other));
        return rows.filter_map(|(at, _)| candidate(topology, legs, row, at)).collect();
    }
    for level in partners.levels(row) {
        let rows = level.into_iter().flatten();
        let wanted = rows.filter(|at| is_wanted(&topology.rows[**at]));
        let found = wanted.filter_map(|at| candidate(topology, legs, row, *at));
        let mut candidates: Vec<Candidate> = found.take(most).collect();
        if !candidates.is_empty() {
            candidates.order_by_key(|candidate| candidate.row);
            candidates.dedup_by_key(|candidate| candidate.row);
            return candidates;
        }
    }
    Vec::new()
}

fn no_partner(topology: &Topology<'_>, partners: &Partners<'_>, row: usize, theirs: Kind) -> Match {
    let name = &topology.rows[row].name;
    let reason = match (theirs, partners.are_absent, topology.rows[row].software) {
        (_, _, true) => {
            format!("{name} is a software device: GPUDirect RDMA needs a NIC")
        }
        (Kind::Gpu, true, _) => "there is no GPU".to_owned(),
        (_, true, _) => match topology.facts.rdma.known() {
            Some(_) => "there is no RDMA device".to_owned(),
            None => "the source does not show RDMA devices".to_owned(),
        },
        _ => format!("{name} has no partner with a known place in the PCI tree"),
    };
    Match {
        row,
        best: Vec::new(),
        pick: None,
        nccl: Vec::new(),
        nearer_down: None,
        verdict: Verdict::Unknown,
        reason,
        advice: None,
    }
}

fn candidate(topology: &Topology<'_>, legs: &[Leg], row: usize, at: usize) -> Option<Candidate> {
    let class = topology.class(row, at)?;
    let (me, other) = (&topology.rows[row], &topology.rows[at]);
    Some(Candidate {
        row: at,
        distance: match class {
            PciClass::Pix => 0,
            PciClass::Pxb => 1,
            // NVLink-C2C and the NIC's root port.
            _ if is_by_socket(me, other) => DISTANCE_OF_PHB,
            PciClass::Phb => DISTANCE_OF_PHB,
            PciClass::Node => 3,
            PciClass::NodeOrSys => 4,
            PciClass::Sys => 5,
        },
        class,
        bandwidth: bandwidth(topology, legs, row, at),
    })
}

/// The bandwidth in bytes per second from a device up to each bridge, by the number of bridges above that one. `u64::MAX`
/// without a link, 0 if unknown.
type Leg = Vec<u64>;

fn leg(topology: &Topology<'_>, row: usize) -> Leg {
    let Some((device, place)) =
        topology.device(row).and_then(|device| Some((device, device.place.known()?)))
    else {
        return Vec::new();
    };
    let link =
        |bdf| match topology.forest.device(bdf).map(|device| topology.forest.link_above(device)) {
            Some(Fact::Known(Some(link))) => link.bandwidth().unwrap_or(0),
            Some(Fact::Known(None)) => u64::MAX,
            Some(Fact::Unknown(_)) | None => 0,
        };
    let mut narrowest = link(device.bdf);
    let mut leg = vec![narrowest];
    for bridge in place.bridges.iter().rev() {
        narrowest = narrowest.min(link(*bridge));
        leg.push(narrowest);
    }
    leg.reverse();
    leg
}

/// The bandwidth of the narrowest link between two rows; 0 if unknown.
fn bandwidth(topology: &Topology<'_>, legs: &[Leg], a: usize, b: usize) -> u64 {
    let ends =
        [a, b].map(|row| topology.end(row).and_then(|end| Some((end.bdf?, end.place.known()?))));
    let [Some((first, here)), Some((last, there))] = ends else {
        return 0;
    };
    let common = bridges_in_common(here, there);
    if common == 0 && !(here.rooted && there.rooted) {
        // The source may omit the narrowest link.
        return 0;
    }
    if common == 0 && is_by_socket(&topology.rows[a], &topology.rows[b]) {
        // The GPU's own link is not on the way.
        let nic = if topology.rows[a].kind == Kind::Nic { a } else { b };
        let up = legs[nic].first().copied();
        return up.filter(|up| *up != u64::MAX).unwrap_or(0);
    }
    match (legs[a].get(common), legs[b].get(common)) {
        (Some(up), Some(down)) if first != last && up.min(down) != &u64::MAX => *up.min(down),
        _ => 0,
    }
}

/// True if a pair's path depends on the GPU's model, which no list has: coherent memory is near by NVLink-C2C.
fn is_unknown_model(topology: &Topology<'_>, row: usize, pick: &Candidate) -> bool {
    let mut devices = [row, pick.row].into_iter().filter_map(|row| topology.device(row));
    !matches!(pick.class, PciClass::Pix | PciClass::Pxb)
        && devices.any(|device| device.ids.known().is_some_and(Ids::is_unknown_gpu))
}

fn unknown_platform(pick: &Candidate) -> String {
    format!(
        "{}; whether this is a guest, whose tree is the hypervisor's, is unknown: --platform says it",
        pick.class.letters()
    )
}

fn unknown_model(pick: &Candidate) -> String {
    let letters = pick.class.letters();
    format!(
        "{letters}; unknown model: whether NVLink-C2C connects it is unknown, and 'gdr probe rdma' measures it"
    )
}

/// The verdict on a pair whose GPU memory the driver does not map, or may not map, as the pair's software asks.
fn forced(topology: &Topology<'_>, me: usize, partner: usize) -> Option<(Verdict, String)> {
    let (gpu, nic) = match topology.rows[me].kind {
        Kind::Gpu => (me, partner),
        Kind::Nic | Kind::Nvme => (partner, me),
    };
    let demand = topology.forced_mapping(gpu, nic).known().copied()??;
    let version = topology.facts.driver.version();
    let driver = version.present().map_or("", String::as_str);
    let by = demand.by;
    let answer = match forced_pcie(topology.facts, topology.rows[gpu].bdf?, demand.function) {
        Ok(answer) => answer?,
        Err(missing) => {
            let missing = missing.why.sentence(&missing.source);
            let reason = format!(
                "whether the driver allows the forced PCIe mapping that {by} asks for is unknown: {missing}"
            );
            return Some((Verdict::Unknown, reason));
        }
    };
    match answer {
        ForcedPcie::Allowed => None,
        ForcedPcie::Denied => Some((
            Verdict::Bad,
            format!("driver {driver} denies the forced PCIe mapping that {by} asks for"),
        )),
        ForcedPcie::Unproven => Some((
            Verdict::Unknown,
            format!(
                "whether driver {driver} allows the forced PCIe mapping that {by} asks for is unknown"
            ),
        )),
    }
}

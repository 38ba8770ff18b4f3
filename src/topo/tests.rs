//! Compares the index of nearest partners with a search of all pairs, on random machines.

use proptest::prelude::*;

use super::{MAX_PATHS, MAX_ROWS, Topology, narrowest, topology};
use crate::model::*;

const GPU: u16 = 0x2330;
/// With coherent memory (GH200).
const COHERENT: u16 = 0x2342;

/// A device's position, in small numbers, so that many coincide.
#[derive(Debug, Clone)]
struct Position {
    gpu: bool,
    coherent: bool,
    software: bool,
    down: bool,
    root: u8,
    rooted: bool,
    bridges: Vec<u8>,
    numa: Option<Option<u32>>,
    /// Link width; 0 without a link, `None` if unknown.
    width: Option<u8>,
}

fn position() -> impl Strategy<Value = Position> {
    let tree = (0..3_u8, prop::bool::weighted(0.9), prop::collection::vec(0..2_u8, 0..4));
    let flags =
        (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>());
    let numa = prop::option::weighted(0.9, prop::option::weighted(0.8, 0..2_u32));
    let width = prop::option::weighted(0.9, prop::sample::select(vec![0_u8, 4, 8, 16]));
    (flags, tree, numa, width).prop_map(
        |((gpu, coherent, software, down), (root, rooted, bridges), numa, width)| Position {
            gpu,
            coherent: coherent && gpu,
            software: software && !gpu,
            down: down && !gpu,
            root,
            rooted,
            bridges,
            numa,
            width,
        },
    )
}

fn address(domain: u32, bus: u8, device: u8) -> Bdf {
    Bdf { domain, bus, device, function: 0 }
}

/// The addresses of the bridges above, derived from the path to each.
fn bridges(position: &Position) -> Vec<Bdf> {
    let path_number = |length: usize| {
        position.bridges[..length].iter().fold(1_u8, |path_number, common| path_number * 2 + common)
    };
    (1..=position.bridges.len())
        .map(|length| address(u32::from(position.root), path_number(length), 1))
        .collect()
}

fn device(bdf: Bdf, position: &Position, bridges: Vec<Bdf>, ids: (u16, u16, u32)) -> PciDevice {
    let link = position.width.map(|width| {
        let link = Link { speed: LinkSpeed(5), width };
        LinkState { current: link, max: link }
    });
    PciDevice {
        bdf,
        place: Fact::Known(PciPath {
            root: RootBus { domain: position.root.into(), bus: 0 },
            rooted: position.rooted,
            bridges,
        }),
        ids: Fact::Known(Ids { vendor: ids.0, device: Some(ids.1), class: ids.2 }),
        numa_node: position.numa.map_or(Fact::Unknown(Why::Denied), Fact::Known),
        config: Config::default(),
        attributes: Some(Box::new(Attributes {
            link: link.map_or(Fact::Unknown(Why::Denied), |link| {
                Fact::Known((link.current.width > 0).then_some(link))
            }),
            ..Attributes::default()
        })),
    }
}

fn facts(positions: &[Position], nodes: Option<u32>) -> Facts {
    let mut devices: Vec<PciDevice> = Vec::new();
    let mut nics = Vec::new();
    for (at, position) in (0_u32..).zip(positions) {
        let bdf = address(0x1000 + at, 0, 0);
        let above = bridges(position);
        for (length, bridge) in above.iter().enumerate() {
            if devices.iter().all(|device| device.bdf != *bridge) {
                devices.push(device(
                    *bridge,
                    position,
                    above[..length].to_vec(),
                    (0x1000, 0xc030, 0x06_0400),
                ));
            }
        }
        let ids = match (position.gpu, position.coherent) {
            (true, true) => (Ids::NVIDIA, COHERENT, 0x03_0200),
            (true, false) => (Ids::NVIDIA, GPU, 0x03_0200),
            (false, _) => (Ids::MELLANOX, 0x1021, 0x02_0700),
        };
        devices.push(device(bdf, position, above, ids));
        if !position.gpu {
            let port = RdmaPort {
                number: 1,
                state: Fact::Known(if position.down { "DOWN" } else { "ACTIVE" }.to_owned()),
                ..RdmaPort::default()
            };
            nics.push(RdmaDevice {
                name: format!("mlx5_{at}"),
                place: Fact::Known(Some(bdf)),
                parent: Fact::Known(position.software.then(|| "eth0".to_owned())),
                ports: Fact::Known(vec![port]),
                ..RdmaDevice::default()
            });
        }
    }
    devices.sort_by_key(|device| device.bdf);
    Facts {
        pci: Fact::Known(devices),
        rdma: Fact::Known(nics),
        numa: nodes.map_or(Fact::Unknown(Why::NotCovered), |nodes| {
            let node = |id| NumaNode { id, cpus: IdList::default() };
            Fact::Known((0..nodes).map(node).collect())
        }),
        ..Facts::default()
    }
}

/// The distance of a partner by class, less is nearer; `None` if unknown.
fn rank(topology: &Topology<'_>, me: usize, other: usize) -> Option<(u8, u64)> {
    let (a, b) = (&topology.rows[me], &topology.rows[other]);
    let class = topology.pair(me, other)?.pci.known().copied()?;
    let place = |at: usize| topology.device(at).and_then(|device| device.place.known());
    let by_socket = (a.coherent || b.coherent)
        && matches!((&a.numa, &b.numa), (Fact::Known(Some(a)), Fact::Known(Some(b))) if a == b);
    let below_one_bridge = matches!(class, PciClass::Pix | PciClass::Pxb);
    let mut path = topology.route(me, other).ok();
    if by_socket && !below_one_bridge {
        // Over NVLink-C2C only the NIC's links count.
        let nic = if a.kind == Kind::Nic { me } else { other };
        let mut own: Vec<Bdf> = place(nic)?.bridges.clone();
        own.extend(topology.rows[nic].bdf);
        if let Some(path) = &mut path {
            path.hops.retain(|hop| own.contains(&hop.bdf));
        }
    }
    let narrow =
        path.and_then(|path| narrowest(&path).known().map(|narrow| narrow.bytes_per_second));
    let distance = match class {
        PciClass::Pix => 0,
        PciClass::Pxb => 1,
        _ if by_socket => 2,
        PciClass::Phb => 2,
        PciClass::Node => 3,
        PciClass::NodeOrSys => 4,
        PciClass::Sys => 5,
    };
    Some((distance, u64::MAX - narrow.unwrap_or(0)))
}

/// The partners of least rank with an active port, by searching all; none if a partner that may be nearer is not placed.
fn nearest(topology: &Topology<'_>, me: usize, theirs: Kind) -> Vec<usize> {
    let others: Vec<usize> = topology
        .rows_of(theirs)
        .filter(|(_, row)| !row.software && !topology.rows[me].software)
        .map(|(at, _)| at)
        .collect();
    let ranked: Vec<_> = others
        .iter()
        .filter(|at| topology.rows[**at].active != Some(false))
        .filter_map(|at| Some((rank(topology, me, *at)?, *at)))
        .collect();
    let least = ranked.iter().map(|(rank, _)| *rank).min();
    let place = |at: usize| topology.device(at).and_then(|device| device.place.known());
    let may_be_nearer = |at: usize| {
        let (Some(here), Some(there)) = (place(me), place(at)) else {
            return false;
        };
        here.root.domain == there.root.domain
            && !(here.rooted && there.rooted)
            && rank(topology, me, at).is_none()
    };
    if least.is_some_and(|(distance, _)| distance > 1) && others.into_iter().any(may_be_nearer) {
        return Vec::new();
    }
    ranked.into_iter().filter(|(rank, _)| Some(*rank) == least).map(|(_, at)| at).collect()
}

fn other(kind: Kind) -> Kind {
    if kind == Kind::Gpu { Kind::Nic } else { Kind::Gpu }
}

proptest! {
    #[test]
    fn index_equals_search_of_all_pairs(
        positions in prop::collection::vec(position(), 1..14),
        nodes in prop::option::of(1..3_u32),
    ) {
        let facts = facts(&positions, nodes);
        let topology = topology(&facts);
        prop_assert_eq!(topology.matches.len(), positions.len());
        for found in &topology.matches {
            let theirs = other(topology.rows[found.row].kind);
            prop_assert_eq!(&found.best, &nearest(&topology, found.row, theirs), "{}", topology.rows[found.row].name);
            prop_assert_eq!(found.pick.is_some(), !found.best.is_empty());
            prop_assert!(found.pick.is_none_or(|pick| found.best.contains(&pick)));
        }
    }
}

/// Which of equal NICs is a GPU's partner does not depend on their names.
#[test]
fn partners_of_equal_rank_go_by_address() {
    let position = |gpu| Position {
        gpu,
        coherent: false,
        software: false,
        down: false,
        root: 0,
        rooted: true,
        bridges: vec![0],
        numa: Some(Some(0)),
        width: Some(16),
    };
    let mut facts = facts(&[true, true, false, false, false].map(position), Some(1));
    let partners = |facts: &Facts| -> Vec<Option<Bdf>> {
        let topology = topology(facts);
        let of_gpus = topology.rows_of(Kind::Gpu).map(|(gpu, _)| gpu);
        of_gpus
            .map(|gpu| topology.matches[gpu].pick.and_then(|pick| topology.rows[pick].bdf))
            .collect()
    };
    // Of three NICs each of the two GPUs uses two.
    let expected = [address(0x1002, 0, 0), address(0x1004, 0, 0)].map(Some);
    assert_eq!(partners(&facts), expected);
    // The kernel lists devices by name.
    if let Fact::Known(nics) = &mut facts.rdma {
        nics.reverse();
        for (nic, name) in nics.iter_mut().zip(["a", "b", "c"]) {
            nic.name = name.to_owned();
        }
    }
    assert_eq!(partners(&facts), expected);
}

/// A machine with more rows than the limit: eight equal trees that share the devices.
fn large(gpus: usize, nics: usize) -> Facts {
    let positions: Vec<Position> = (0..gpus + nics)
        .map(|at| Position {
            gpu: at < gpus,
            coherent: false,
            software: false,
            down: at % 5 == 0,
            root: (at % 8) as u8,
            rooted: true,
            bridges: vec![(at / 8 % 2) as u8, (at / 16 % 2) as u8],
            numa: Some(Some((at % 2) as u32)),
            width: Some(16),
        })
        .collect();
    facts(&positions, Some(2))
}

#[test]
fn above_the_limit_partners_are_nearest() {
    let facts = large(MAX_ROWS, 64);
    let topology = topology(&facts);
    assert!(!topology.has_all_pairs() && !topology.has_all_paths());
    assert!(topology.omission().is_some_and(|why| why.contains("1088 GPUs, NICs")));
    for found in topology.matches.iter().step_by(7) {
        let best = nearest(&topology, found.row, other(topology.rows[found.row].kind));
        let pick = found.pick.expect("a partner");
        assert_eq!(found.best, [pick]);
        assert!(
            best.contains(&pick),
            "{}: {pick} is not in {best:?}",
            topology.rows[found.row].name
        );
    }
    // Evenly distributed: no NIC has many more than its share of GPUs.
    let of_gpus =
        topology.matches.iter().filter(|found| topology.rows[found.row].kind == Kind::Gpu);
    let mut taken = vec![0; topology.rows.len()];
    of_gpus.filter_map(|found| found.pick).for_each(|pick| taken[pick] += 1);
    assert!(taken.iter().all(|count| *count <= 2 * MAX_ROWS / 64 + 2), "{taken:?}");
}

#[test]
fn limits_are_exact() {
    let cases = [
        (MAX_ROWS, 0, true, false),
        (MAX_ROWS + 1, 0, false, false),
        // 256 GPUs make 32,640 pairs, and with one NIC 32,896.
        (256, 0, true, true),
        (256, 1, true, false),
        // 8 GPUs with each other, and with 1,016 NICs.
        (8, 1_016, true, true),
        (32, 992, true, true),
    ];
    for (gpus, nics, pairs, paths) in cases {
        let facts = large(gpus, nics);
        let topology = topology(&facts);
        assert_eq!(
            (topology.has_all_pairs(), topology.has_all_paths()),
            (pairs, paths),
            "{gpus} and {nics}"
        );
        assert_eq!(topology.omission().is_none(), pairs && paths);
    }
    assert_eq!((MAX_ROWS, MAX_PATHS), (1_024, 32_768));
}

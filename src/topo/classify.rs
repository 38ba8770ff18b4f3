//! The class of a pair, by nvidia-smi's rule (checked on public matrices).
//!
//! 1. Different root buses: NODE on one NUMA node, else SYS; "NODE or SYS" where the nodes are unknown.
//! 2. One root bus and no bridge in common: PHB.
//! 3. A bridge in common: PIX with at most one bridge between it and either device, else PXB.

use crate::model::{Bdf, Fact, Facts, PciClass, PciPath, Why};

/// One end of a pair, as far as it decides the class.
pub struct End<'a> {
    pub bdf: Option<Bdf>,
    pub place: Fact<&'a PciPath>,
    pub numa: Fact<Option<u32>>,
}

pub fn class(facts: &Facts, a: &End<'_>, b: &End<'_>) -> Fact<PciClass> {
    match (&a.place, &b.place) {
        (Fact::Known(_), Fact::Known(_)) if a.bdf == b.bdf => Fact::Known(PciClass::Pix),
        (Fact::Known(here), Fact::Known(there)) if facts.nccl.is_some() => {
            between_switches(facts, a, b, bridges_in_common(here, there))
        }
        (Fact::Known(here), Fact::Known(there)) if here.root == there.root => {
            below_one_root(here, there)
        }
        (Fact::Known(_), Fact::Known(_)) if crosses_host_bridges(a, b) => across_roots(facts, a, b),
        // A bridge missing in the source may be above both.
        (Fact::Known(_), Fact::Known(_)) => Fact::Unknown(Why::NotCovered),
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
    }
}

/// True if two functions are known to be below different host bridges.
fn crosses_host_bridges(a: &End<'_>, b: &End<'_>) -> bool {
    match (&a.place, &b.place) {
        // Functions of different PCI domains have no bridge in common, even if the source omits bridges.
        (Fact::Known(here), Fact::Known(there)) => {
            here.root != there.root
                && (here.rooted && there.rooted || here.root.domain != there.root.domain)
        }
        _ => false,
    }
}

/// The number of common bridges, counted from the root.
pub fn bridges_in_common(a: &PciPath, b: &PciPath) -> usize {
    if a.root == b.root {
        a.bridges.iter().zip(&b.bridges).take_while(|(a, b)| a == b).count()
    } else {
        0
    }
}

fn below_one_root(a: &PciPath, b: &PciPath) -> Fact<PciClass> {
    let common = bridges_in_common(a, b);
    let between = (a.bridges.len() - common).max(b.bridges.len() - common);
    match (common, between) {
        (0, _) if !(a.rooted && b.rooted) => Fact::Unknown(Why::NotCovered),
        (0, _) => Fact::Known(PciClass::Phb),
        (_, 0 | 1) => Fact::Known(PciClass::Pix),
        _ => Fact::Known(PciClass::Pxb),
    }
}

/// The class in NCCL's topology, which lists a switch by its upstream port alone: a switch below another adds two ports. The root buses
/// are unknown.
fn between_switches(facts: &Facts, a: &End<'_>, b: &End<'_>, common: usize) -> Fact<PciClass> {
    let depth = |end: &End<'_>| end.place.known().map_or(0, |place| place.bridges.len());
    let is_other_node = match (a.numa.present(), b.numa.present()) {
        (Some(here), Some(there)) => here != there,
        _ => false,
    };
    match common {
        0 if is_other_node => Fact::Known(PciClass::Sys),
        0 if crosses_host_bridges(a, b) => across_roots(facts, a, b),
        0 => Fact::Unknown(Why::NotCovered),
        _ if depth(a).max(depth(b)) == common => Fact::Known(PciClass::Pix),
        _ => Fact::Known(PciClass::Pxb),
    }
}

/// Without a node from the kernel, new drivers print NODE (WRX90, 575.51.03); 535 printed SYS.
fn across_roots(facts: &Facts, a: &End<'_>, b: &End<'_>) -> Fact<PciClass> {
    if facts.numa.known().is_some_and(|nodes| nodes.len() == 1) {
        return Fact::Known(PciClass::Node);
    }
    match (&a.numa, &b.numa) {
        // With a single node, its number and none are the same.
        (Fact::Known(a), Fact::Known(b))
            if a.is_some() != b.is_some() && facts.numa.known().is_none() =>
        {
            Fact::Known(PciClass::NodeOrSys)
        }
        (Fact::Known(a), Fact::Known(b)) if a == b => Fact::Known(PciClass::Node),
        (Fact::Known(_), Fact::Known(_)) => Fact::Known(PciClass::Sys),
        _ => Fact::Known(PciClass::NodeOrSys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RootBus;

    /// A place below root bus 0 with these bridges.
    fn place(bridges: &[&str]) -> PciPath {
        PciPath {
            root: RootBus { domain: 0, bus: 0 },
            rooted: true,
            bridges: bridges.iter().map(|b| b.parse().expect("an address")).collect(),
        }
    }

    #[test]
    fn classifies_pairs_below_one_root() {
        const RP: &str = "00:01.0";
        const UP: &str = "01:00.0";
        let rows: [(&[&str], &[&str], PciClass); 6] = [
            // On the root bus; below different root ports.
            (&[], &[], PciClass::Phb),
            (&[RP], &["00:02.0"], PciClass::Phb),
            // Two functions of a NIC; two downstream ports of a switch.
            (&[RP], &[RP], PciClass::Pix),
            (&[RP, UP, "02:00.0"], &[RP, UP, "02:01.0"], PciClass::Pix),
            // A cascaded switch on one side (IGX Orin: three bridges against one).
            (&[RP, UP, "02:00.0", "03:00.0", "04:00.0"], &[RP, UP, "02:01.0"], PciClass::Pxb),
            (
                &[RP, UP, "02:00.0", "03:00.0", "04:00.0"],
                &[RP, UP, "02:01.0", "05:00.0", "06:00.0"],
                PciClass::Pxb,
            ),
        ];
        for (a, b, class) in rows {
            assert_eq!(below_one_root(&place(a), &place(b)), Fact::Known(class), "{a:?} {b:?}");
            assert_eq!(below_one_root(&place(b), &place(a)), Fact::Known(class), "{b:?} {a:?}");
        }
    }

    #[test]
    fn domains_have_no_bridge_in_common() {
        let function = |domain, bus| Bdf { domain, bus, device: 0, function: 0 };
        let unrooted = |bdf: Bdf| PciPath {
            root: RootBus { domain: bdf.domain, bus: bdf.bus },
            ..PciPath { rooted: false, ..place(&[]) }
        };
        let class_of = |a: (Bdf, u32), b: (Bdf, u32)| {
            let places = [unrooted(a.0), unrooted(b.0)];
            let [a, b] = [(a, &places[0]), (b, &places[1])].map(|((bdf, node), place)| End {
                bdf: Some(bdf),
                place: Fact::Known(place),
                numa: Fact::Known(Some(node)),
            });
            class(&Facts::default(), &a, &b)
        };
        let gpu = (function(4, 4), 0);
        let near = (function(3, 1), 0);
        let far = (function(0x33, 1), 8);
        assert_eq!(class_of(gpu, near), Fact::Known(PciClass::Node));
        assert_eq!(class_of(gpu, far), Fact::Known(PciClass::Sys));
        let beside = (function(4, 5), 0);
        assert_eq!(class_of(gpu, beside), Fact::Unknown(Why::NotCovered));
    }

    #[test]
    fn host_bridges_of_unknown_nodes_are_node_or_sys() {
        let class_of = |nodes: [Fact<Option<u32>>; 2], rooted| {
            let place =
                |bus| PciPath { root: RootBus { domain: 0, bus }, rooted, bridges: Vec::new() };
            let places = [place(0x40), place(0xc0)];
            let [a, b] = [0, 1].map(|at| End {
                bdf: Some(Bdf { domain: 0, bus: 0x40 + at, device: 0, function: 0 }),
                place: Fact::Known(&places[usize::from(at)]),
                numa: nodes[usize::from(at)].clone(),
            });
            class(&Facts::default(), &a, &b)
        };
        let unknown = || Fact::<Option<u32>>::default();
        let node_or_sys = Fact::Known(PciClass::NodeOrSys);
        assert_eq!(class_of([unknown(), unknown()], true), node_or_sys);
        assert_eq!(class_of([unknown(), Fact::Known(Some(1))], true), node_or_sys);
        assert_eq!(class_of([Fact::Known(None), Fact::Known(Some(1))], true), node_or_sys);
        // A bridge above both may be missing.
        assert_eq!(class_of([unknown(), unknown()], false), Fact::Unknown(Why::NotCovered));
    }

    #[test]
    fn unknown_upper_bridges_leave_only_pairs_below_a_common_bridge() {
        let unrooted = |bridges: &[&str]| PciPath { rooted: false, ..place(bridges) };
        let up = "01:00.0";
        let class = below_one_root(&unrooted(&[up, "02:00.0"]), &unrooted(&[up, "02:01.0"]));
        assert_eq!(class, Fact::Known(PciClass::Pix));
        assert_eq!(
            below_one_root(&unrooted(&["02:00.0"]), &unrooted(&["02:01.0"])),
            Fact::Unknown(Why::NotCovered)
        );
    }
}

//! NUMA nodes: which CPUs and which host memory an end uses, and what the wrong node costs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::options::Options;
use super::pairs::task;
use super::task::{Extent, LocalEnd};
use crate::model::ProbeResult;
use crate::model::figure::rdma;
use crate::probe::children::{ChildResult, Children};
use crate::probe::depth::Depth;
use crate::probe::machine::{Machine, ProbedNic};
use crate::probe::scope::{Binding, Nodes, ProbeError, bindings};

/// Separates a subject from the number of its node.
const ON_NODE: &str = " on node ";

/// The results that are compared: name, words, and whether the largest message counts.
const COSTS: [(&str, &str, bool); 4] = [
    (rdma::SEND_LATENCY.name, "latency of sends", false),
    (rdma::WRITE.name, "bandwidth of writes", true),
    (rdma::STAGED.name, "staged bandwidth", true),
    (rdma::WRITE_RATE, "rate of writes", true),
];

/// The ends on each selected node.
pub fn on_nodes(
    options: &Options,
    machine: &Machine,
    nics: &[ProbedNic],
    places: Vec<LocalEnd>,
) -> Result<Vec<LocalEnd>, ProbeError> {
    let mut bound = Vec::new();
    for place in places {
        let nodes =
            nodes_of(options.nodes.unwrap_or(Nodes::Near), machine, nics, &place.port.device)?;
        let is_one = nodes.len() == 1;
        bound.extend(nodes.into_iter().map(|node| match node {
            Some(node) if !is_one => named_on(&place, node),
            node => LocalEnd { node, ..place.clone() },
        }));
    }
    Ok(bound)
}

/// The remote end on this machine: on the node of its NIC, or on the local end's if that was selected.
pub fn remote_on_node(
    options: &Options,
    machine: &Machine,
    nics: &[ProbedNic],
    local: &LocalEnd,
    remote: LocalEnd,
) -> Result<LocalEnd, ProbeError> {
    let node = match (options.nodes, &local.node) {
        (Some(Nodes::All | Nodes::One(_)), Some(node)) => Some(node.clone()),
        _ => {
            nodes_of(Nodes::Near, machine, nics, &remote.port.device)?.into_iter().next().flatten()
        }
    };
    Ok(match node {
        Some(node) if local.subject.contains(ON_NODE) => named_on(&remote, node),
        node => LocalEnd { node, ..remote },
    })
}

fn nodes_of(
    wanted: Nodes,
    machine: &Machine,
    nics: &[ProbedNic],
    device: &str,
) -> Result<Vec<Option<Binding>>, ProbeError> {
    let nic = nics.iter().find(|nic| nic.name == device);
    bindings(wanted, machine, nic.and_then(|nic| nic.numa))
}

fn named_on(place: &LocalEnd, node: Binding) -> LocalEnd {
    LocalEnd {
        subject: format!("{}{ON_NODE}{}", place.subject, node.0),
        node: Some(node),
        ..place.clone()
    }
}

/// Measures a connection that was just measured from another node, unless nodes were selected. None if there is no other.
pub fn compare(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
    local: &LocalEnd,
    remote: &LocalEnd,
) -> Result<Option<ChildResult>, ProbeError> {
    let is_wanted =
        options.nodes.is_none() && !options.all && options.scope.terms.depth != Depth::Quick;
    let Some((home, _)) = local.node.as_ref().filter(|_| is_wanted) else {
        return Ok(None);
    };
    let other = bindings(Nodes::All, machine, Some(*home))?
        .into_iter()
        .flatten()
        .find(|(node, _)| node != home);
    let Some(other) = other else {
        return Ok(None);
    };
    let mut task = task(options, &named_on(local, other.clone()), &named_on(remote, other));
    task.extent = Extent::NodeCost;
    children.run(&task.subject.clone(), &task, &[]).map(Some)
}

/// How the results from other nodes differ from those from the first one, which is the NIC's.
pub fn costs(results: &[ProbeResult]) -> Vec<String> {
    let mut costs = Vec::new();
    let mut firsts: BTreeMap<String, &ProbeResult> = BTreeMap::new();
    let mut subjects = BTreeSet::new();
    for result in results.iter().filter(|result| result.median.is_some()) {
        if !subjects.insert(&result.subject) {
            continue;
        }
        let base = without_nodes(&result.subject);
        match firsts.get(&base) {
            Some(first) => costs.extend(cost(results, &base, first, result)),
            None => drop(firsts.insert(base, result)),
        }
    }
    costs
}

/// `here` and `there` are any results from the first and from the other node.
fn cost(
    results: &[ProbeResult],
    base: &str,
    here: &ProbeResult,
    there: &ProbeResult,
) -> Option<String> {
    let (first, node) = (here.numa?, there.numa?);
    let ratio = |(name, words, is_largest): (&str, &str, bool)| {
        let of = |subject: &str| -> Vec<&ProbeResult> {
            let measured = results.iter().filter(|result| result.median.is_some());
            let of_subject = measured.filter(|result| result.subject == subject);
            of_subject.filter(|result| result.name == name).collect()
        };
        let measured = of(&there.subject).into_iter();
        let there = (if is_largest {
            measured.max_by_key(|result| result.bytes)
        } else {
            measured.min_by_key(|result| result.bytes)
        })?;
        let here = of(&here.subject);
        let here = here.iter().find(|result| result.bytes == there.bytes)?;
        let ratio = there.median? / here.median.filter(|median| *median > 0.0)?;
        let bytes = there.bytes?;
        Some(format!("{words} of {bytes} bytes {ratio:.2} times"))
    };
    let ratios: Vec<String> = COSTS.into_iter().filter_map(ratio).collect();
    (!ratios.is_empty()).then(|| {
        format!(
            "{base}: CPUs and host memory of node {node} instead of node {first}: {}.",
            ratios.join(", ")
        )
    })
}

/// A subject without the numbers of its nodes.
fn without_nodes(subject: &str) -> String {
    let mut parts = subject.split(ON_NODE);
    let mut base = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        base.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    base
}

/// The node of the host memory at an address of this process; none if the kernel does not tell.
pub fn memory_node(address: u64) -> Option<u32> {
    node_in_maps(&fs::read_to_string("/proc/self/numa_maps").ok()?, address)
}

/// The node of most pages of the mapping at an address; none if its pages are spread.
fn node_in_maps(text: &str, address: u64) -> Option<u32> {
    let mappings = text.lines().filter_map(|line| {
        let (start, rest) = line.split_once(' ')?;
        Some((u64::from_str_radix(start, 16).ok()?, rest))
    });
    let (_, fields) =
        mappings.filter(|(start, _)| *start <= address).max_by_key(|(start, _)| *start)?;
    let pages: Vec<(u32, u64)> = fields
        .split(' ')
        .filter_map(|field| {
            let (node, pages) = field.strip_prefix('N')?.split_once('=')?;
            Some((node.parse().ok()?, pages.parse().ok()?))
        })
        .collect();
    let total: u64 = pages.iter().map(|(_, pages)| pages).sum();
    let (node, most) = pages.into_iter().max_by_key(|(_, pages)| *pages)?;
    (most.saturating_mul(4) >= total.saturating_mul(3)).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_of_most_pages() {
        let maps = "\
            7f0000000000 default file=/usr/lib/libc.so.6 mapped=40 N0=40 kernelpagesize_kB=4\n\
            7f1000000000 bind:1 anon=64 dirty=64 N1=64 kernelpagesize_kB=4\n\
            7f2000000000 default anon=10 N0=5 N1=5 kernelpagesize_kB=4\n\
            7f3000000000 default\n";
        for (address, node) in [
            (0x7f00_0000_1000, Some(0)),
            (0x7f10_0000_0000, Some(1)),
            (0x7f20_0000_1000, None),
            (0x7f30_0000_0000, None),
            (0x1000, None),
        ] {
            assert_eq!(node_in_maps(maps, address), node, "{address:#x}");
        }
        assert_eq!(node_in_maps("not a map", 1), None);
    }

    #[test]
    fn subjects_without_nodes() {
        for (subject, base) in [
            ("mlx5_0:1", "mlx5_0:1"),
            ("mlx5_0:1 on node 1", "mlx5_0:1"),
            ("a on node 12 -> b on node 3", "a -> b"),
        ] {
            assert_eq!(without_nodes(subject), base);
        }
    }

    #[test]
    fn cost_of_the_other_node() {
        let result = |subject: &str, numa, name: &str, bytes, median| ProbeResult {
            subject: subject.to_owned(),
            numa: Some(numa),
            name: name.to_owned(),
            bytes: Some(bytes),
            median: Some(median),
            ..ProbeResult::default()
        };
        let results = [
            result("a:1", 0, "rdma.send.latency", 8, 2.0),
            result("a:1", 0, "rdma.send.latency", 4096, 9.0),
            result("a:1", 0, "rdma.write.bandwidth", 65536, 12.0),
            result("a:1", 0, "rdma.write.rate", 8, 10.0),
            result("a:1 on node 1", 1, "rdma.send.latency", 8, 2.5),
            result("a:1 on node 1", 1, "rdma.write.bandwidth", 65536, 11.4),
            result("a:1 on node 1", 1, "rdma.write.rate", 8, 8.0),
        ];
        assert_eq!(
            costs(&results),
            [
                "a:1: CPUs and host memory of node 1 instead of node 0: latency of sends of 8 bytes 1.25 times, bandwidth of writes of \
                 65536 bytes 0.95 times, rate of writes of 8 bytes 0.80 times."
            ]
        );
        assert!(costs(&results[..4]).is_empty());
    }
}

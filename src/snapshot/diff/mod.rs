//! Compares the facts of two machines, or of one at two times.
//!
//! Things are matched by key (address, name, path, number); one that only one side has is a single change. A fact that
//! only one side could read was learned or lost, not changed.

mod command_line;
mod node;
mod words;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use crate::model::Order as _;
use crate::model::{Change, ChangeKind, Diff, Fact, Facts, Software, Why, to_tree};
use node::Node;

/// The changes from `a` to `b`.
pub fn diff(a: &Facts, b: &Facts) -> Diff {
    let mut walk = Walk {
        path: Vec::new(),
        found: Vec::new(),
        power_saving: [a, b].into_iter().flat_map(power_saving).collect(),
    };
    // Each area is dropped before the next, because the trees of large snapshots take much memory.
    macro_rules! areas {
        ($($field:ident)*) => { $( walk.area(&[stringify!($field)], &a.$field, &b.$field); )* };
    }
    let host = |facts: &Facts| crate::model::Host {
        // The kernel is an area of its own.
        kernel: None,
        ..facts.host.clone().original()
    };
    walk.area(&["host"], &host(a), &host(b));
    walk.list("pci", &a.pci, &b.pci, |device| device.bdf.to_string());
    walk.list("rdma", &a.rdma, &b.rdma, |device| device.name.clone());
    walk.list("nvidia_nodes", &a.nvidia_nodes, &b.nvidia_nodes, |node| node.path.clone());
    walk.list("linked_pairs", &a.linked_pairs, &b.linked_pairs, |pair| {
        format!("{} to {}", pair.from, pair.to)
    });
    areas!(numa unnamed_nics nvme nvml cuda verbs network driver peer_memory gdrdrv kernel modprobe process platform tools online_cpus fabric rdma_stack module_files);
    areas!(limits environment boot);
    // What could not be read is not a difference between the machines.
    let Software { libraries, perftest, unread: _ } = &a.software;
    walk.list("libraries", libraries, &b.software.libraries, |library| library.path.clone());
    walk.area(&["perftest"], perftest, &b.software.perftest);
    let mapping = |facts: &Facts| facts.mapping.clone().unwrap_or(Fact::Unknown(Why::NotCovered));
    walk.area(&["mapping"], &mapping(a), &mapping(b));
    let registration =
        |facts: &Facts| facts.registration.clone().unwrap_or(Fact::Unknown(Why::NotCovered));
    walk.area(&["registration"], &registration(a), &registration(b));
    let mut found = walk.found;
    drop_duplicate_links(&mut found);
    found.order_by(|a, b| order(a).cmp(&order(b)));
    Diff { changes: found }
}

/// Functions whose links slow down when idle: GPUs, and the port above each.
fn power_saving(facts: &Facts) -> impl Iterator<Item = String> {
    facts.gpus().flat_map(|gpu| {
        let port = gpu.place.known().and_then(|place| place.bridges.last());
        std::iter::once(gpu.bdf).chain(port.copied()).map(|bdf| bdf.to_string())
    })
}

struct Walk {
    path: Vec<String>,
    found: Vec<Change>,
    power_saving: HashSet<String>,
}

impl Walk {
    /// Compares an area.
    fn area<T: Serialize + PartialEq>(&mut self, path: &[&str], a: &T, b: &T) {
        if a == b {
            return;
        }
        self.path = path.iter().map(|part| (*part).to_owned()).collect();
        let (a, b) = (self.tree(a), self.tree(b));
        compare(self, &a, &b);
    }

    fn tree<T: Serialize>(&mut self, value: &T) -> Node {
        Node::new(&mut self.path, to_tree(value).unwrap_or_default())
    }

    /// Compares a long list element by element, with one tree at a time.
    fn list<T: Serialize + PartialEq>(
        &mut self,
        name: &str,
        a: &Fact<Vec<T>>,
        b: &Fact<Vec<T>>,
        key: impl Fn(&T) -> String,
    ) {
        let (Fact::Known(olds), Fact::Known(news)) = (a, b) else {
            if a != b {
                self.path = vec![name.to_owned()];
                let change = change(self, &in_all(a), &in_all(b));
                self.found.extend(change);
            }
            return;
        };
        let by_key = |list| -> HashMap<String, &T> {
            <[T]>::iter(list).map(|thing| (key(thing), thing)).collect()
        };
        let (by_old, by_new) = (by_key(olds.as_slice()), by_key(news.as_slice()));
        if by_old.len() < olds.len() || by_new.len() < news.len() {
            // Elements without keys.
            self.area(&[name], olds, news);
            return;
        }
        for old in olds {
            let key = key(old);
            let new = by_new.get(&key).copied();
            if new == Some(old) {
                continue;
            }
            self.path = vec![name.to_owned(), key];
            let tree = self.thing(old);
            match new {
                Some(new) => {
                    let new = self.thing(new);
                    compare(self, &tree, &new);
                }
                None => one_sided(self, &tree, ChangeKind::Removed),
            }
        }
        for new in news {
            let key = key(new);
            if !by_old.contains_key(&key) {
                self.path = vec![name.to_owned(), key];
                let tree = self.thing(new);
                one_sided(self, &tree, ChangeKind::Added);
            }
        }
    }

    fn thing<T: Serialize>(&mut self, thing: &T) -> Node {
        let mut value = to_tree(thing).unwrap_or_default();
        if let Some(fields) = value.as_object_mut()
            && fields.get("attributes").is_some_and(serde_json::Value::is_null)
        {
            // Attributes of an unread PCI function are unknown, not absent.
            fields.remove("attributes");
        }
        Node::new(&mut self.path, value)
    }
}

/// A list as one node.
fn in_all<T>(list: &Fact<Vec<T>>) -> Node {
    match list {
        Fact::Unknown(why) => Node::Unknown(*why),
        Fact::Known(list) if list.is_empty() => Node::Leaf("none".to_owned()),
        Fact::Known(list) => Node::Leaf(format!("{} known", list.len())),
    }
}

/// Adds a thing that only one side has.
fn one_sided(walk: &mut Walk, here: &Node, kind: ChangeKind) {
    let (area, fact) = words::name(&walk.path);
    let text = Some(here.summary());
    let (a, b) = match kind {
        ChangeKind::Added => (None, text),
        _ => (text, None),
    };
    walk.found.push(Change {
        area,
        fact,
        a,
        b,
        kind,
        identity: false,
        volatile: false,
        figure: None,
    });
}

fn compare(walk: &mut Walk, a: &Node, b: &Node) {
    if a == b {
        return;
    }
    match (a, b) {
        (Node::Things(a), Node::Things(b)) => members(walk, a, b, one_sided),
        (Node::Facts(a), Node::Facts(b)) if !is_other_variant(&walk.path, a, b) => {
            members(walk, a, b, |walk, here, kind| {
                let omitted_value = words::omitted_value(&walk.path);
                match kind {
                    ChangeKind::Added => compare(walk, &omitted_value, here),
                    _ => compare(walk, here, &omitted_value),
                }
            });
        }
        _ => {
            let change = change(walk, a, b);
            walk.found.extend(change);
        }
    }
}

/// Compares common members, and adds those of one side.
fn members(
    walk: &mut Walk,
    a: &BTreeMap<String, Node>,
    b: &BTreeMap<String, Node>,
    one_sided: impl Fn(&mut Walk, &Node, ChangeKind),
) {
    let new = b.keys().filter(|name| !a.contains_key(*name));
    for name in a.keys().chain(new) {
        walk.path.push(name.clone());
        match (a.get(name), b.get(name)) {
            (Some(a), Some(b)) => compare(walk, a, b),
            (Some(a), None) => one_sided(walk, a, ChangeKind::Removed),
            (None, Some(b)) => one_sided(walk, b, ChangeKind::Added),
            (None, None) => {}
        }
        walk.path.pop();
    }
}

/// True if the values are different variants of an enum, such as `read` and `absent` of NVML: they share no field.
fn is_other_variant(
    path: &[String],
    a: &BTreeMap<String, Node>,
    b: &BTreeMap<String, Node>,
) -> bool {
    !path.is_empty() && !a.is_empty() && !b.is_empty() && a.keys().all(|name| !b.contains_key(name))
}

/// The change of one fact; `None` if only the order differs.
fn change(walk: &Walk, a: &Node, b: &Node) -> Option<Change> {
    let path = walk.path.as_slice();
    let (area, fact) = words::name(path);
    let is_command_line = path.iter().map(String::as_str).eq(["kernel", "command_line"]);
    let (mut from, mut to) = (variant(a), variant(b));
    if let (true, Node::Leaf(a), Node::Leaf(b)) = (is_command_line, a, b) {
        let (a, b) = (command_line::parameters(a), command_line::parameters(b));
        (from, to) = (command_line::only_in(&a, &b), command_line::only_in(&b, &a));
        if from == to {
            return None;
        }
    }
    if path.last().is_some_and(|last| last == "express") {
        // An appeared or lost capability is shown as a whole.
        for (text, node) in [(&mut from, a), (&mut to, b)] {
            if matches!(node, Node::Facts(_)) {
                "present".clone_into(text);
            }
        }
    }
    let unknown = |node: &Node| matches!(node, Node::Unknown(_));
    let uncovered = |node: &Node| *node == Node::Unknown(Why::NotCovered);
    Some(Change {
        kind: match (unknown(a), unknown(b)) {
            (true, false) => ChangeKind::Learned,
            (false, true) => ChangeKind::Lost,
            _ => ChangeKind::Changed,
        },
        identity: words::is_identity(path),
        // Different reasons for "unknown" say nothing about the machine.
        volatile: (unknown(a) && unknown(b))
            || uncovered(a)
            || uncovered(b)
            || words::is_volatile(path, Some(&from), Some(&to), |bdf| {
                walk.power_saving.contains(bdf)
            }),
        area,
        fact,
        a: Some(from),
        b: Some(to),
        figure: None,
    })
}

/// Summarizes a node; of an enum also the variant's name.
fn variant(node: &Node) -> String {
    match node {
        Node::Facts(facts) if facts.len() == 1 => {
            facts.iter().next().map_or_else(String::new, |(name, inner)| {
                let reason = match inner {
                    Node::Facts(facts) => facts.get("reason").map(Node::summary),
                    _ => None,
                };
                reason.map_or_else(|| name.clone(), |reason| format!("{name} ({reason})"))
            })
        }
        node => node.summary(),
    }
}

/// Removes the link of attribute files if that of configuration space changed too.
fn drop_duplicate_links(found: &mut Vec<Change>) {
    let twins =
        [(words::LINK_OF_ATTRIBUTES, "link"), (words::MAX_LINK_OF_ATTRIBUTES, "maximum link")];
    let firsts = twins.map(|(_, first)| first);
    let known: HashSet<(String, String, Option<String>)> = found
        .iter()
        .filter(|change| firsts.contains(&change.fact.as_str()))
        .map(|change| (change.area.clone(), change.fact.clone(), change.b.clone()))
        .collect();
    found.retain(|change| {
        let twin = twins.iter().find(|(fact, _)| *fact == change.fact);
        twin.is_none_or(|(_, first)| {
            !known.contains(&(change.area.clone(), (*first).to_owned(), change.b.clone()))
        })
    });
}

/// Orders the machine first, then its parts, then PCI devices; numbers in names by value.
fn order(change: &Change) -> (usize, Natural<'_>, &str) {
    const KINDS: [&str; 17] = [
        "host", "machine", "platform", "kernel", "IOMMU", "module", "driver", "driver's", "peer",
        "gdrdrv", "node", "NUMA", "PCI", "RDMA", "NVMe", "NVML", "CPU",
    ];
    let first = change.area.split(' ').next().unwrap_or_default();
    let rank = KINDS.iter().position(|kind| *kind == first).unwrap_or(KINDS.len());
    (rank, Natural(&change.area), &change.fact)
}

/// A text whose trailing number is ordered by value.
#[derive(PartialEq, Eq)]
struct Natural<'a>(&'a str);

impl Natural<'_> {
    fn parts(&self) -> (&str, u64) {
        let stem = self.0.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem, self.0[stem.len()..].parse().unwrap_or(u64::MAX))
    }
}

impl Ord for Natural<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts()).then_with(|| self.0.cmp(other.0))
    }
}

impl PartialOrd for Natural<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;

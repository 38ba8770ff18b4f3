//! What differs between the facts of two machines, or of one at two times: by fact, never by line.
//!
//! Things are matched by what they are known by (an address, a name, a path, a number), and a thing that only one side
//! has is one change. A fact that only one side could read was learned or lost; it did not change.

mod node;
mod words;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::{Change, ChangeKind, Diff, Facts, Why};
use node::Node;

/// What differs from `a` to `b`.
pub fn diff(a: &Facts, b: &Facts) -> Diff {
    let mut found = Vec::new();
    let tree = |facts: &Facts| {
        let mut value = serde_json::to_value(facts).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            // What was hard to read is no fact of the machine; the kernel has its own area.
            fields.remove("notes");
            if let Some(host) = fields.get_mut("host").and_then(serde_json::Value::as_object_mut) {
                host.remove("kernel");
            }
            let attributes = fields
                .get_mut("pci")
                .and_then(|pci| pci.get_mut("known")?.as_array_mut());
            for device in attributes.into_iter().flatten() {
                // Not looked at closely: its attributes are not none, they are not known.
                if device.get("attributes").is_some_and(serde_json::Value::is_null)
                    && let Some(device) = device.as_object_mut()
                {
                    device.remove("attributes");
                }
            }
        }
        Node::new(&mut Vec::new(), value)
    };
    compare(&mut Vec::new(), &tree(a), &tree(b), &mut found);
    said_twice(&mut found);
    found.sort_by(|a, b| order(a).cmp(&order(b)));
    Diff { changes: found }
}

fn compare(path: &mut Vec<String>, a: &Node, b: &Node, found: &mut Vec<Change>) {
    if a == b {
        return;
    }
    match (a, b) {
        (Node::Things(a), Node::Things(b)) => members(path, a, b, found, |path, here, kind, found| {
            let (area, fact) = words::name(path);
            let text = Some(here.summary());
            let (a, b) = match kind {
                ChangeKind::Added => (None, text),
                _ => (text, None),
            };
            found.push(Change {
                area,
                fact,
                a,
                b,
                kind,
                identity: false,
                volatile: false,
            });
        }),
        (Node::Facts(a), Node::Facts(b)) if !is_other_variant(path, a, b) => {
            members(path, a, b, found, |path, here, kind, found| {
                let unsaid = words::unsaid(path);
                match kind {
                    ChangeKind::Added => compare(path, &unsaid, here, found),
                    _ => compare(path, here, &unsaid, found),
                }
            });
        }
        _ => found.push(change(path, a, b)),
    }
}

/// Compares what both have, and tells of what one has alone.
fn members(
    path: &mut Vec<String>,
    a: &BTreeMap<String, Node>,
    b: &BTreeMap<String, Node>,
    found: &mut Vec<Change>,
    alone: impl Fn(&mut Vec<String>, &Node, ChangeKind, &mut Vec<Change>),
) {
    let new = b.keys().filter(|name| !a.contains_key(*name));
    for name in a.keys().chain(new) {
        path.push(name.clone());
        match (a.get(name), b.get(name)) {
            (Some(a), Some(b)) => compare(path, a, b, found),
            (Some(a), None) => alone(path, a, ChangeKind::Removed, found),
            (None, Some(b)) => alone(path, b, ChangeKind::Added, found),
            (None, None) => {}
        }
        path.pop();
    }
}

/// Whether the two are different answers, as `read` and `absent` of NVML: no field of one is one of the other.
fn is_other_variant(path: &[String], a: &BTreeMap<String, Node>, b: &BTreeMap<String, Node>) -> bool {
    !path.is_empty() && !a.is_empty() && !b.is_empty() && a.keys().all(|name| !b.contains_key(name))
}

fn change(path: &[String], a: &Node, b: &Node) -> Change {
    let (area, fact) = words::name(path);
    let is_command_line = path.iter().map(String::as_str).eq(["kernel", "command_line"]);
    let (mut from, mut to) = (variant(a), variant(b));
    if let (true, Node::Leaf(a), Node::Leaf(b)) = (is_command_line, a, b) {
        (from, to) = (words_only_in(a, b), words_only_in(b, a));
    }
    let unknown = |node: &Node| matches!(node, Node::Unknown(_));
    let uncovered = |node: &Node| *node == Node::Unknown(Why::NotCovered);
    Change {
        kind: match (unknown(a), unknown(b)) {
            (true, false) => ChangeKind::Learned,
            (false, true) => ChangeKind::Lost,
            _ => ChangeKind::Changed,
        },
        identity: words::is_identity(path),
        // Why something is not known, and what a source cannot tell, says nothing of the machine.
        volatile: (unknown(a) && unknown(b))
            || uncovered(a)
            || uncovered(b)
            || words::is_volatile(path, Some(&from), Some(&to)),
        area,
        fact,
        a: Some(from),
        b: Some(to),
    }
}

/// A node in a few words; of one with a single field, the name of that too: it is the one that was taken of several.
fn variant(node: &Node) -> String {
    match node {
        Node::Facts(facts) if facts.len() == 1 => facts.iter().next().map_or_else(String::new, |(name, inner)| {
            let reason = match inner {
                Node::Facts(facts) => facts.get("reason").map(Node::summary),
                _ => None,
            };
            reason.map_or_else(|| name.clone(), |reason| format!("{name} ({reason})"))
        }),
        node => node.summary(),
    }
}

/// The words of a command line that the other does not have.
fn words_only_in(line: &str, other: &str) -> String {
    let there: Vec<&str> = other.split_ascii_whitespace().collect();
    let alone = line.split_ascii_whitespace().filter(|word| !there.contains(word));
    let alone: Vec<&str> = alone.collect();
    match alone.is_empty() {
        true => "none of these".to_owned(),
        false => alone.join(" "),
    }
}

/// A link is in configuration space and in attribute files: what the first tells, the second need not.
fn said_twice(found: &mut Vec<Change>) {
    let twins = [
        (words::LINK_OF_ATTRIBUTES, "link"),
        (words::LINK_AT_BEST_OF_ATTRIBUTES, "link at best"),
    ];
    let told: Vec<(String, String, Option<String>)> = found
        .iter()
        .map(|change| (change.area.clone(), change.fact.clone(), change.b.clone()))
        .collect();
    found.retain(|change| {
        let twin = twins.iter().find(|(fact, _)| *fact == change.fact);
        twin.is_none_or(|(_, first)| {
            !told
                .iter()
                .any(|(area, fact, b)| *area == change.area && fact == first && *b == change.b)
        })
    });
}

/// The machine first, then what is in it, then what sits on its buses; numbers within names by their value.
fn order(change: &Change) -> (usize, Natural<'_>, &str) {
    const KINDS: [&str; 17] = [
        "host", "machine", "platform", "kernel", "IOMMU", "module", "driver", "driver's", "peer", "gdrdrv", "node",
        "NUMA", "PCI", "RDMA", "NVMe", "NVML", "CPU",
    ];
    let first = change.area.split(' ').next().unwrap_or_default();
    let rank = KINDS.iter().position(|kind| *kind == first).unwrap_or(KINDS.len());
    (rank, Natural(&change.area), &change.fact)
}

/// A text that is ordered with the numbers at its end by their value.
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

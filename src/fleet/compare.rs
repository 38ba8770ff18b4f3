//! The report of a fleet: majority and outliers of each fact, and groups of nodes that are alike.

use std::collections::{BTreeMap, HashMap};

use super::isolation::{Entity, Fault};
use super::merge::{FactKey, Fleet, Node};
use super::network::Links;
use super::{figures, fold, natural};
use crate::model::Order as _;
use crate::model::{
    FleetDifference, FleetFact, FleetFinding, FleetNode, FleetReport, FleetState, FleetSummary,
    FleetValue, NodeGroup,
};

/// Most groups, facts and findings of a report, values of a fact and differences of a group.
const MAX_GROUPS: usize = 200;
const MAX_FACTS: usize = 500;
const MAX_FINDINGS: usize = 500;
const MAX_VALUES: usize = 20;
const MAX_DIFFERENCES: usize = 100;

impl Fleet {
    /// The report. With `mask` the nodes are numbered instead of named.
    pub fn report(mut self, mask: bool) -> FleetReport {
        self.close();
        let faults = self.links.as_ref().map(Links::faults).unwrap_or_default();
        self.mark_faults(&faults);
        if mask {
            self.number_nodes();
        }
        let section = self
            .links
            .as_ref()
            .map(|links| links.section(&faults, mask));
        let (network, mut findings) = section.unzip();
        let (links, heat) = match &self.links {
            Some(links) => links.links(),
            None => (figures::worst_links(&self), figures::heat_map(&self)),
        };
        let order = self.order();
        let majorities = self.majorities(&order);
        let differences = self.differences(&majorities);
        let mut report = FleetReport {
            summary: self.summary(),
            simulated: self.simulated,
            nodes: order
                .iter()
                .map(|at| FleetNode {
                    name: self.nodes[*at].name.clone(),
                    state: self.nodes[*at].state,
                })
                .collect(),
            absent: self.absent.values().cloned().collect(),
            versions: self.versions(&order),
            groups: self.groups(&order, &majorities, &differences),
            findings: self.findings(&order),
            facts: self.facts(&order, &majorities, &differences),
            figures: figures::outliers(&self),
            network,
            links,
            heat,
            notes: Vec::new(),
        };
        if let Some(faults) = &mut findings {
            report.findings.splice(0..0, faults.drain(..));
        }
        report
            .absent
            .order_by(|a, b| natural(&a.node).cmp(&natural(&b.node)));
        self.limit("groups", MAX_GROUPS, &mut report.groups);
        self.limit("facts", MAX_FACTS, &mut report.facts);
        self.limit("findings", MAX_FINDINGS, &mut report.findings);
        report.notes = self.notes.into_iter().collect();
        report
    }

    /// Replaces the names of the nodes by numbers, in their order.
    fn number_nodes(&mut self) {
        let mut names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        names.extend(self.absent.keys().cloned());
        names.extend(self.links.iter().flat_map(|links| links.nodes.clone()));
        names.order_by(|a, b| natural(a).cmp(&natural(b)));
        names.dedup();
        let names: HashMap<&String, usize> = names.iter().zip(1..).collect();
        let number = |name: &String| format!("node{}", names.get(name).copied().unwrap_or(0));
        for node in &mut self.nodes {
            node.name = number(&node.name);
        }
        for absent in self.absent.values_mut() {
            // A reason may name a file or an address.
            absent.reason = absent.why.word().to_owned();
            absent.node = number(&absent.node);
        }
        if let Some(links) = &mut self.links {
            for node in &mut links.nodes {
                *node = number(node);
            }
            for (at, (leaf, _)) in (1..).zip(&mut links.leaves) {
                *leaf = format!("leaf{at}");
            }
        }
        self.notes.clear();
    }

    /// A node with a fault of its own has failed.
    fn mark_faults(&mut self, faults: &[Fault]) {
        let Some(links) = &self.links else { return };
        for fault in faults {
            let is_own = matches!(
                fault.entity,
                Entity::Sending(_) | Entity::Receiving(_) | Entity::Nic(_) | Entity::Node(_)
            );
            let own = links.nodes_of(fault.entity).into_iter().filter(|_| is_own);
            for at in own {
                let name = &links.nodes[at];
                let nodes = self.nodes.iter_mut();
                for node in nodes.filter(|node| node.name == *name) {
                    node.state = FleetState::Failed;
                }
            }
        }
    }

    fn limit<T>(&mut self, what: &str, most: usize, list: &mut Vec<T>) {
        let more = list.len().saturating_sub(most);
        if more > 0 {
            list.truncate(most);
            self.note(format!("{more} more {what} are not listed"));
        }
    }

    /// The nodes in the order of their names.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.order_by(|a, b| natural(&self.nodes[*a].name).cmp(&natural(&self.nodes[*b].name)));
        order
    }

    fn summary(&self) -> FleetSummary {
        let count = |state| self.nodes.iter().filter(|node| node.state == state).count();
        FleetSummary {
            nodes: self.nodes.len() + self.absent.len(),
            ok: count(FleetState::Ok),
            failed: count(FleetState::Failed),
            undetermined: count(FleetState::Undetermined),
            absent: self.absent.len(),
        }
    }

    fn names<'a>(&'a self, nodes: impl IntoIterator<Item = &'a usize>) -> String {
        fold(nodes.into_iter().map(|at| self.nodes[*at].name.as_str()))
    }

    fn versions(&self, order: &[usize]) -> Vec<FleetValue> {
        let mut versions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in order {
            versions
                .entry(self.nodes[*at].version)
                .or_default()
                .push(*at);
        }
        let mut versions: Vec<FleetValue> = versions
            .into_iter()
            .map(|(version, nodes)| FleetValue {
                value: self.texts.text(version).to_owned(),
                count: nodes.len(),
                nodes: self.names(&nodes),
            })
            .collect();
        versions.order_by_key(|version| std::cmp::Reverse(version.count));
        versions
    }

    /// The value of most nodes for each fact; `None` for a fact that every node has differently, such as a name. Inside, `None`
    /// if most nodes have no such fact.
    fn majorities(&self, order: &[usize]) -> Vec<Option<Option<u32>>> {
        let mut counts: Vec<HashMap<u32, (usize, usize)>> = vec![HashMap::new(); self.keys.len()];
        let mut of_kind = vec![0_usize; self.kinds.len()];
        for (rank, at) in order.iter().enumerate() {
            let node = &self.nodes[*at];
            for (kind, count) in of_kind.iter_mut().enumerate() {
                *count += usize::from(node.kinds & (1 << kind) != 0);
            }
            for (key, value) in &node.facts {
                let entry = counts[*key as usize].entry(*value).or_insert((0, rank));
                entry.0 += 1;
            }
        }
        let majority = |(key, counts): (&FactKey, HashMap<u32, (usize, usize)>)| {
            let total = of_kind[usize::from(key.kind)];
            let known: usize = counts.values().map(|(count, _)| count).sum();
            let absent = total.saturating_sub(known);
            // Of equally frequent values that of the first node.
            let first = |(value, (count, rank)): (&u32, &(usize, usize))| {
                (*count, std::cmp::Reverse(*rank), *value)
            };
            let best = counts.iter().map(first).max();
            let distinct = counts.len() + usize::from(absent > 0);
            match best {
                Some((count, ..)) if absent > count => {
                    (distinct < 3 || absent * 2 > total).then_some(None)
                }
                Some((count, _, value)) => {
                    (distinct < 3 || count * 2 > total).then_some(Some(value))
                }
                None => None,
            }
        };
        self.keys.iter().zip(counts).map(majority).collect()
    }

    /// Of each node the facts that are not as those of most nodes; a value of `None` is a fact that it lacks.
    fn differences(&self, majorities: &[Option<Option<u32>>]) -> Vec<Vec<(u32, Option<u32>)>> {
        let of_node = |node: &Node| {
            let mut facts = node.facts.clone();
            facts.sort_unstable();
            let mut own = facts.iter().copied().peekable();
            let mut differences = Vec::new();
            for (key, majority) in majorities.iter().enumerate() {
                let key = u32::try_from(key).unwrap_or(u32::MAX);
                let mut values = Vec::new();
                while let Some((_, value)) = own.next_if(|(known, _)| *known == key) {
                    values.push(value);
                }
                let has_kind = node.kinds & (1 << self.keys[key as usize].kind) != 0;
                match majority {
                    Some(majority) if has_kind => match (values.as_slice(), majority) {
                        ([], Some(_)) => differences.push((key, None)),
                        (values, majority) => {
                            let other = values.iter().filter(|value| Some(**value) != *majority);
                            differences.extend(other.map(|value| (key, Some(*value))));
                        }
                    },
                    _ => {}
                }
            }
            differences
        };
        self.nodes.iter().map(of_node).collect()
    }

    /// Words for a fact.
    fn fact_name(&self, key: u32) -> String {
        let key = &self.keys[key as usize];
        let (id, subject) = (self.texts.text(key.id), self.texts.text(key.subject));
        let kind = &self.kinds[usize::from(key.kind)];
        let probe = if kind == "doctor" {
            String::new()
        } else {
            format!("{kind}: ")
        };
        match (id, key.source) {
            ("host", _) => subject.to_owned(),
            (_, Some(source)) => format!("{probe}{id}, {subject}: {}", self.texts.text(source)),
            (_, None) => format!("{probe}{id}, {subject}"),
        }
    }

    fn text(&self, value: Option<u32>) -> Option<String> {
        value.map(|value| self.texts.text(value).to_owned())
    }

    fn groups(
        &self,
        order: &[usize],
        majorities: &[Option<Option<u32>>],
        differences: &[Vec<(u32, Option<u32>)>],
    ) -> Vec<NodeGroup> {
        type Alike<'a> = (FleetState, &'a [(u32, Option<u32>)]);
        let mut groups: HashMap<Alike<'_>, Vec<usize>> = HashMap::new();
        for at in order {
            let alike = (self.nodes[*at].state, differences[*at].as_slice());
            groups.entry(alike).or_default().push(*at);
        }
        let mut groups: Vec<(Alike<'_>, Vec<usize>)> = groups.into_iter().collect();
        let rank: HashMap<usize, usize> = order
            .iter()
            .enumerate()
            .map(|(rank, at)| (*at, rank))
            .collect();
        groups.order_by_key(|(_, nodes)| (std::cmp::Reverse(nodes.len()), rank[&nodes[0]]));
        let group = |((state, differences), nodes): (Alike<'_>, Vec<usize>)| NodeGroup {
            count: nodes.len(),
            nodes: self.names(&nodes),
            state,
            differences: differences
                .iter()
                .take(MAX_DIFFERENCES)
                .map(|(key, value)| FleetDifference {
                    fact: self.fact_name(*key),
                    value: self.text(*value),
                    majority: self.text(majorities[*key as usize].flatten()),
                })
                .collect(),
            more: differences.len().saturating_sub(MAX_DIFFERENCES),
        };
        groups.into_iter().map(group).collect()
    }

    /// Facts that some nodes do not share, those with the fewest exceptions first.
    fn facts(
        &self,
        order: &[usize],
        majorities: &[Option<Option<u32>>],
        differences: &[Vec<(u32, Option<u32>)>],
    ) -> Vec<FleetFact> {
        let mut others: BTreeMap<u32, BTreeMap<Option<u32>, Vec<usize>>> = BTreeMap::new();
        for at in order {
            for (key, value) in &differences[*at] {
                others
                    .entry(*key)
                    .or_default()
                    .entry(*value)
                    .or_default()
                    .push(*at);
            }
        }
        let fact = |(key, values): (u32, BTreeMap<Option<u32>, Vec<usize>>)| {
            let mut outliers: Vec<FleetValue> = values
                .into_iter()
                .map(|(value, nodes)| FleetValue {
                    value: self.text(value).unwrap_or_else(|| "none".to_owned()),
                    count: nodes.len(),
                    nodes: self.names(&nodes),
                })
                .collect();
            outliers.order_by_key(|value| std::cmp::Reverse(value.count));
            let kind = self.keys[key as usize].kind;
            let total = self
                .nodes
                .iter()
                .filter(|node| node.kinds & (1 << kind) != 0)
                .count();
            let different: usize = outliers.iter().map(|value| value.count).sum();
            outliers.truncate(MAX_VALUES);
            FleetFact {
                fact: self.fact_name(key),
                majority: self.text(majorities[key as usize].flatten()),
                count: total.saturating_sub(different),
                outliers,
            }
        };
        let mut facts: Vec<FleetFact> = others.into_iter().map(fact).collect();
        facts.order_by_key(|fact| std::cmp::Reverse(fact.count));
        facts
    }

    /// What failed, warned or is open, with its nodes; failures first, then the most frequent.
    fn findings(&self, order: &[usize]) -> Vec<FleetFinding> {
        let mut found: BTreeMap<(usize, u32, u32), Vec<usize>> = BTreeMap::new();
        for at in order {
            for (key, value) in &self.nodes[*at].facts {
                let fact = &self.keys[*key as usize];
                let rank = match self.texts.text(*value).split_once(": ") {
                    _ if fact.source.is_some() || self.texts.text(fact.id) == "host" => None,
                    Some(("fail", _)) => Some(0),
                    Some(("unknown", _)) => Some(1),
                    Some(("warn", _)) => Some(2),
                    _ => None,
                };
                if let Some(rank) = rank {
                    found.entry((rank, *key, *value)).or_default().push(*at);
                }
            }
        }
        let mut findings: Vec<(usize, FleetFinding)> = found
            .into_iter()
            .map(|((rank, key, value), nodes)| {
                let fact = &self.keys[key as usize];
                let text = self.texts.text(value);
                let (outcome, message) = text.split_once(": ").unwrap_or(("", text));
                let finding = FleetFinding {
                    id: self.texts.text(fact.id).to_owned(),
                    outcome: outcome.to_owned(),
                    subject: self.texts.text(fact.subject).to_owned(),
                    message: message.to_owned(),
                    count: nodes.len(),
                    nodes: self.names(&nodes),
                };
                (rank, finding)
            })
            .collect();
        findings.order_by_key(|(rank, finding)| (*rank, std::cmp::Reverse(finding.count)));
        findings.into_iter().map(|(_, finding)| finding).collect()
    }
}

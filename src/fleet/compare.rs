//! The report of a fleet: majority and outliers of each fact, and groups of nodes that are alike.

use std::collections::{BTreeMap, HashMap};

use super::isolation::{Entity, Fault};
use super::lacking::Lacking;
use super::merge::{Fleet, Node};
use super::names::{cut, masks};
use super::network::Links;
use super::{figures, fold, natural};
use crate::model::Order as _;
use crate::model::{
    FleetDifference, FleetFact, FleetFinding, FleetNode, FleetReport, FleetState, FleetSummary,
    FleetValue, MaskKey, NodeGroup, Record,
};

/// Most groups, facts and findings of a report, values of a fact and differences of a group.
const MAX_GROUPS: usize = 200;
const MAX_FACTS: usize = 500;
const MAX_FINDINGS: usize = 500;
const MAX_VALUES: usize = 20;
const MAX_DIFFERENCES: usize = 100;

/// The facts of a node that are not as those of most nodes, with its values; `None` is a fact that it lacks.
type Differences = Vec<(u32, Option<u32>)>;

/// A fact, another value of it than most nodes have, and a node that has that.
type Outlier = (u32, Option<u32>, usize);

impl Fleet {
    /// The report. With `mask` the nodes are numbered instead of named, with a key they have the masks that follow from it.
    pub fn report(mut self, mask: bool, key: Option<&MaskKey>) -> FleetReport {
        self.close();
        let faults = self.links.as_ref().map(Links::faults).unwrap_or_default();
        self.mark_faults(&faults);
        if mask {
            self.mask_nodes(key);
        }
        self.add_faults(&faults, mask);
        let worse = figures::worse(&self);
        let slow = figures::slow_nodes(&self, &worse);
        for at in slow.keys() {
            let node = &mut self.nodes[*at];
            node.state = node.state.max(FleetState::Slow);
        }
        let section = self.links.as_ref().map(|links| links.section(&faults, mask));
        let (network, mut findings) = section.unzip();
        let (links, heat) = match &self.links {
            Some(links) => links.links(),
            None => (figures::worst_links(&self), figures::heat_map(&self)),
        };
        let order = self.order();
        let majorities = self.majorities(&order);
        let mut differences = self.differences(&majorities);
        let lacking = self.fold_lacking(&majorities, &mut differences);
        let (groups, more_groups) = self.groups(&order, &majorities, (&differences, &lacking));
        let (facts, more_facts) = self.facts(&order, &majorities, &differences);
        let (own_findings, more_findings) = self.findings(&order);
        let mut report = FleetReport {
            summary: self.summary(),
            simulated: self.simulated,
            actions: self.actions(&slow),
            nodes: order
                .iter()
                .map(|at| (at, &self.nodes[*at]))
                .map(|(at, node)| FleetNode {
                    name: node.name.clone(),
                    state: node.state,
                    reasons: match slow.get(at) {
                        Some(slow) if node.state == FleetState::Slow => vec![slow.words()],
                        _ => node.reasons.of(node.state),
                    },
                    next_step: node.reasons.next_step(node.state),
                })
                .collect(),
            topology: self.shared_topology(&majorities),
            absent: self.absent.values().cloned().collect(),
            versions: self.versions(&order),
            groups,
            findings: own_findings,
            facts,
            figures: figures::outliers(&self, worse),
            network,
            links,
            heat,
            comparison: None,
            record: None,
            notes: Vec::new(),
        };
        if let Some(faults) = &mut findings {
            report.findings.splice(0..0, faults.drain(..));
        }
        report.absent.order_by(|a, b| natural(&a.node).cmp(&natural(&b.node)));
        let above = cut_off(&mut report.findings, MAX_FINDINGS);
        for (what, more) in
            [("groups", more_groups), ("facts", more_facts), ("findings", more_findings + above)]
        {
            if more > 0 {
                self.note(format!("{more} more {what} are not listed"));
            }
        }
        report.notes = self.notes.into_iter().collect();
        report
    }

    /// What is kept of all reports.
    pub fn record(&mut self) -> Record {
        self.close();
        let mut record = std::mem::take(&mut self.recorder).finish();
        for (node, of_fleet) in record.nodes.iter_mut().zip(&self.nodes) {
            node.state = of_fleet.state;
        }
        record.absent = self.absent.keys().cloned().collect();
        record
    }

    /// Replaces the names of the nodes by numbers, in their order.
    fn mask_nodes(&mut self, key: Option<&MaskKey>) {
        let mut names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        names.extend(self.absent.keys().cloned());
        names.extend(self.links.iter().flat_map(|links| links.nodes.clone()));
        let names = masks(names, key);
        let number = |name: &String| names.get(name).cloned().unwrap_or_default();
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
            slow: count(FleetState::Slow),
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
            versions.entry(self.nodes[*at].version).or_default().push(*at);
        }
        let mut versions: Vec<FleetValue> = versions
            .into_iter()
            .map(|(version, nodes)| FleetValue {
                value: self.text(version),
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
        let of_kind = self.nodes_of_kinds();
        let mut all: Vec<(u32, u32, usize)> = Vec::new();
        for (rank, at) in order.iter().enumerate() {
            let facts = self.nodes[*at].facts.iter();
            all.extend(facts.map(|(key, value)| (*key, *value, rank)));
        }
        all.sort_unstable();
        let mut majorities = vec![None; self.keys.len()];
        for of_key in all.chunk_by(|a, b| a.0 == b.0) {
            let key = of_key[0].0 as usize;
            let total = of_kind[usize::from(self.keys[key].kind)];
            let absent = total.saturating_sub(of_key.len());
            let values = of_key.chunk_by(|a, b| a.1 == b.1);
            let distinct = values.clone().count() + usize::from(absent > 0);
            // Of equally frequent values that of the first node.
            let first = |nodes: &[(u32, u32, usize)]| {
                (nodes.len(), std::cmp::Reverse(nodes[0].2), nodes[0].1)
            };
            majorities[key] = match values.map(first).max() {
                Some((count, ..)) if absent > count => {
                    (distinct < 3 || absent * 2 > total).then_some(None)
                }
                Some((count, _, value)) => {
                    (distinct < 3 || count * 2 > total).then_some(Some(value))
                }
                None => None,
            };
        }
        majorities
    }

    /// Number of nodes with a document of each kind.
    pub(super) fn nodes_of_kinds(&self) -> Vec<usize> {
        let has = |kind: usize| move |node: &&Node| node.kinds & (1 << kind) != 0;
        (0..self.kinds.len()).map(|kind| self.nodes.iter().filter(has(kind)).count()).collect()
    }

    /// Of each node the facts that are not as those of most nodes; a value of `None` is a fact that it lacks.
    fn differences(&self, majorities: &[Option<Option<u32>>]) -> Vec<Vec<(u32, Option<u32>)>> {
        // Facts that most nodes have. A node is compared with these and with its own, not with those that others have.
        let mut common: Vec<Vec<u32>> = vec![Vec::new(); self.kinds.len()];
        for ((key, number), majority) in self.keys.iter().zip(0..).zip(majorities) {
            if matches!(majority, Some(Some(_))) {
                common[usize::from(key.kind)].push(number);
            }
        }
        let of_node = |node: &Node| {
            let mut facts = node.facts.clone();
            facts.sort_unstable();
            let has = |key: &u32| facts.binary_search_by_key(key, |(key, _)| *key).is_ok();
            let kinds = common.iter().zip(0..);
            let kinds = kinds.filter(|(_, kind)| node.kinds & (1 << kind) != 0);
            let mut differences: Vec<(u32, Option<u32>)> = kinds
                .flat_map(|(keys, _)| keys.iter().filter(|key| !has(key)))
                .map(|key| (*key, None))
                .collect();
            let others = facts.iter().filter(|(key, value)| {
                majorities[*key as usize].is_some_and(|majority| majority != Some(*value))
            });
            differences.extend(others.map(|(key, value)| (*key, Some(*value))));
            differences.sort_unstable();
            differences
        };
        self.nodes.iter().map(of_node).collect()
    }

    /// Words for a fact.
    fn fact_name(&self, key: u32) -> String {
        let key = &self.keys[key as usize];
        let (id, subject) = (self.text(key.id), self.text(key.subject));
        let kind = &self.kinds[usize::from(key.kind)];
        let probe = if kind == "doctor" { String::new() } else { format!("{kind}: ") };
        match (id.as_str(), key.source) {
            ("host", _) => subject,
            (_, Some(source)) => format!("{probe}{id}, {subject}: {}", self.text(source)),
            (_, None) => format!("{probe}{id}, {subject}"),
        }
    }

    /// The text, up to its limit.
    fn text(&self, number: u32) -> String {
        cut(self.texts.text(number))
    }

    fn groups(
        &self,
        order: &[usize],
        majorities: &[Option<Option<u32>>],
        (differences, lacking): (&[Differences], &[Option<Lacking>]),
    ) -> (Vec<NodeGroup>, usize) {
        type Alike<'a> = (FleetState, Option<&'a Lacking>, &'a [(u32, Option<u32>)]);
        let mut groups: HashMap<Alike<'_>, Vec<usize>> = HashMap::new();
        for at in order {
            let alike = (self.nodes[*at].state, lacking[*at].as_ref(), differences[*at].as_slice());
            groups.entry(alike).or_default().push(*at);
        }
        let mut groups: Vec<(Alike<'_>, Vec<usize>)> = groups.into_iter().collect();
        let rank: HashMap<usize, usize> =
            order.iter().enumerate().map(|(rank, at)| (*at, rank)).collect();
        groups.order_by_key(|(_, nodes)| (std::cmp::Reverse(nodes.len()), rank[&nodes[0]]));
        let more = cut_off(&mut groups, MAX_GROUPS);
        let group = |((state, lacking, differences), nodes): (Alike<'_>, Vec<usize>)| NodeGroup {
            count: nodes.len(),
            nodes: self.names(&nodes),
            state,
            differences: lacking
                .map(|lacking| FleetDifference {
                    fact: "missing devices".to_owned(),
                    value: Some(lacking.words()),
                    majority: None,
                })
                .into_iter()
                .chain(differences.iter().take(MAX_DIFFERENCES).map(|(key, value)| {
                    FleetDifference {
                        fact: self.fact_name(*key),
                        value: value.map(|value| self.text(value)),
                        majority: self.majority(majorities, *key),
                    }
                }))
                .collect(),
            more: differences.len().saturating_sub(MAX_DIFFERENCES),
        };
        (groups.into_iter().map(group).collect(), more)
    }

    fn majority(&self, majorities: &[Option<Option<u32>>], key: u32) -> Option<String> {
        majorities[key as usize].flatten().map(|value| self.text(value))
    }

    /// Facts that some nodes do not share, those with the fewest exceptions first.
    fn facts(
        &self,
        order: &[usize],
        majorities: &[Option<Option<u32>>],
        differences: &[Vec<(u32, Option<u32>)>],
    ) -> (Vec<FleetFact>, usize) {
        let of_kind = self.nodes_of_kinds();
        let mut others: Vec<Outlier> = Vec::new();
        for at in order {
            let own = differences[*at].iter();
            others.extend(own.map(|(key, value)| (*key, *value, *at)));
        }
        others.sort_unstable();
        let with_count = |others| {
            let others: &[Outlier] = others;
            let total = of_kind[usize::from(self.keys[others[0].0 as usize].kind)];
            (total.saturating_sub(others.len()), others)
        };
        let mut facts: Vec<_> = others.chunk_by(|a, b| a.0 == b.0).map(with_count).collect();
        facts.order_by_key(|(count, _)| std::cmp::Reverse(*count));
        let more = cut_off(&mut facts, MAX_FACTS);
        let fact = |(count, others): (usize, &[Outlier])| {
            let mut values: Vec<_> = others.chunk_by(|a, b| a.1 == b.1).collect();
            values.order_by_key(|nodes| std::cmp::Reverse(nodes.len()));
            values.truncate(MAX_VALUES);
            let outlier = |nodes: &[Outlier]| FleetValue {
                value: nodes[0].1.map_or_else(|| "none".to_owned(), |value| self.text(value)),
                count: nodes.len(),
                nodes: self.names(nodes.iter().map(|(.., at)| at)),
            };
            let key = others[0].0;
            FleetFact {
                fact: self.fact_name(key),
                majority: self.majority(majorities, key),
                count,
                outliers: values.into_iter().map(outlier).collect(),
            }
        };
        (facts.into_iter().map(fact).collect(), more)
    }

    /// What failed, warned or is open, with its nodes; failures first, then the most frequent.
    fn findings(&self, order: &[usize]) -> (Vec<FleetFinding>, usize) {
        let mut all: Vec<(u8, u32, u32, usize)> = Vec::new();
        for at in order {
            for (key, value) in &self.nodes[*at].facts {
                if let Some(rank) = self.rank(*key, *value) {
                    all.push((rank, *key, *value, *at));
                }
            }
        }
        all.sort_unstable();
        let mut found: Vec<_> = all.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)).collect();
        found.order_by_key(|nodes| (nodes[0].0, std::cmp::Reverse(nodes.len())));
        let more = cut_off(&mut found, MAX_FINDINGS);
        let finding = |nodes: &[(u8, u32, u32, usize)]| {
            let (_, key, value, _) = nodes[0];
            let fact = &self.keys[key as usize];
            let text = self.texts.text(value);
            let (outcome, message) = text.split_once(": ").unwrap_or(("", text));
            FleetFinding {
                id: self.text(fact.id),
                outcome: outcome.to_owned(),
                subject: self.text(fact.subject),
                message: cut(message),
                count: nodes.len(),
                nodes: self.names(nodes.iter().map(|(.., at)| at)),
            }
        };
        (found.into_iter().map(finding).collect(), more)
    }

    /// How urgent a fact is, 0 the most; none if it says that all is well.
    pub(super) fn rank(&self, key: u32, value: u32) -> Option<u8> {
        let fact = &self.keys[key as usize];
        if fact.source.is_some() || self.texts.text(fact.id) == "host" {
            return None;
        }
        match self.texts.text(value).split_once(": ")?.0 {
            "fail" => Some(0),
            "unknown" => Some(1),
            "warn" => Some(2),
            _ => None,
        }
    }
}

/// Cuts a list, and returns how many are left out.
fn cut_off<T>(list: &mut Vec<T>, most: usize) -> usize {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    more
}

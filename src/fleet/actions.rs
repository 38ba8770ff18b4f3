//! The nodes that need an action, each once: what is wrong with it in words, and what somebody must do. What most nodes share is
//! no fault of one of them, unless it is a failure.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::document::required;
use super::figures::SlowNode;
use super::isolation::{Entity, Fault};
use super::merge::{Fleet, Node};
use super::names::cut;
use super::natural;
use super::wrongs::{Rank, SOURCE, Wrong, examine};
use crate::model::Order as _;
use crate::model::{
    Absence, AbsentNode, ActionClass, FleetState, NodeAction, NodeProblem, NodeRecord, Record,
    RecordedProblem, RequiredAction,
};

/// Most checks that the entry of a node names.
const MAX_CHECKS: usize = 8;

impl Fleet {
    /// Adds the parts of the network that are at fault to the faults of their nodes.
    pub(super) fn add_faults(&mut self, faults: &[Fault], mask: bool) {
        let Some(links) = &self.links else { return };
        let mut found: Vec<(String, Wrong)> = Vec::new();
        for fault in faults {
            let (class, then) = match fault.entity {
                Entity::Sending(_) | Entity::Receiving(_) | Entity::Nic(_) => {
                    (ActionClass::ReseatCable, Some(ActionClass::ReseatNic))
                }
                Entity::Node(_) => (ActionClass::Examine, None),
                Entity::Rail(_) | Entity::Leaf(_) | Entity::Uplinks(_) => continue,
            };
            let finding = links.finding(fault, mask);
            for at in links.nodes_of(fault.entity) {
                let wrong = Wrong {
                    rank: Rank::Failed,
                    fact: None,
                    check: finding.id.clone(),
                    words: cut(&format!("{}: {}", finding.subject, finding.message)),
                    action: required(class, then, true, SOURCE),
                    fix: None,
                };
                found.push((links.nodes[at].clone(), wrong));
            }
        }
        for (name, wrong) in found {
            if let Some(node) = self.nodes.iter_mut().find(|node| node.name == name) {
                node.wrongs.add(wrong);
            }
        }
    }

    /// The nodes that need an action: failures first, then in the order of their names.
    pub(super) fn actions(&self, slow: &BTreeMap<usize, SlowNode>) -> Vec<NodeAction> {
        let common = self.common();
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter_map(|(at, node)| {
            let (is_common, mut action) = node_action(node, slow.get(&at), &common)?;
            for (field, value) in &node.fields {
                *field(&mut action) = Some(value.clone());
            }
            Some((is_common, action))
        });
        let absent = self.absent.values().map(|node| (false, absent(node)));
        let mut actions: Vec<(bool, NodeAction)> = nodes.chain(absent).collect();
        // What a few nodes have is read first.
        actions.order_by(|(common, a), (other, b)| {
            let names = || natural(&a.node).cmp(&natural(&b.node));
            (a.problem, common).cmp(&(b.problem, other)).then_with(names)
        });
        actions.into_iter().map(|(_, action)| action).collect()
    }

    /// The facts that more than half of the nodes with such a report warn of, fail with or do not know.
    fn common(&self) -> HashSet<(u32, Rank)> {
        let of_kind = self.nodes_of_kinds();
        let mut counts: HashMap<(u32, Rank), usize> = HashMap::new();
        for wrong in self.nodes.iter().flat_map(|node| &node.wrongs.list) {
            if let Some(fact) = wrong.fact {
                *counts.entry((fact, wrong.rank)).or_default() += 1;
            }
        }
        let is_common = |(fact, _): &(u32, Rank), count: usize| {
            let kind = usize::from(self.keys[*fact as usize].kind);
            count > 1 && count * 2 > of_kind[kind]
        };
        counts.retain(|key, count| is_common(key, *count));
        counts.into_keys().collect()
    }
}

/// Adds when the first fault of each node was seen first, which a record knows that was compared with an earlier one.
pub fn add_since(actions: &mut [NodeAction], record: &Record) {
    let nodes: HashMap<&str, &NodeRecord> =
        record.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    for action in actions.iter_mut().filter(|action| action.problem != NodeProblem::Slow) {
        let (Some(node), Some(check)) = (nodes.get(action.node.as_str()), action.checks.first())
        else {
            continue;
        };
        let of_check = |own: &&RecordedProblem| {
            record.problems.get(own.problem).is_some_and(|problem| problem.check == *check)
        };
        let since = node.problems.iter().filter(of_check).filter_map(|own| own.since.as_ref());
        action.since = since.min().cloned();
    }
}

/// The entry of a node, and whether most nodes have its first fault; none if it is well.
fn node_action(
    node: &Node,
    slow: Option<&SlowNode>,
    common: &HashSet<(u32, Rank)>,
) -> Option<(bool, NodeAction)> {
    let is_common =
        |wrong: &&Wrong| wrong.fact.is_some_and(|fact| common.contains(&(fact, wrong.rank)));
    let mut wrongs: Vec<&Wrong> = node.wrongs.list.iter().collect();
    wrongs.retain(|wrong| wrong.rank == Rank::Failed || !is_common(wrong));
    // A node's own fault before one that most nodes have, failures before warnings.
    wrongs.order_by_key(|wrong| (is_common(wrong), wrong.rank));
    let failed = wrongs.iter().any(|wrong| wrong.rank == Rank::Failed);
    if !failed && let Some(slow) = slow {
        return Some((false, slow_node(node, slow, &wrongs)));
    }
    let first = wrongs.first()?;
    let problem = match node.state {
        _ if failed => NodeProblem::Failed,
        FleetState::Failed => NodeProblem::Failed,
        _ if wrongs.iter().any(|wrong| wrong.rank == Rank::Warned) => NodeProblem::Warned,
        _ => NodeProblem::Undetermined,
    };
    let action = NodeAction {
        more: wrongs.len() - 1 + node.wrongs.left_out,
        text: first.action.words(first.fix.as_deref()),
        ..of_node(node, problem, (first.words.clone(), first.action.clone()), &wrongs)
    };
    Some((is_common(first), action))
}

fn slow_node(node: &Node, slow: &SlowNode, wrongs: &[&Wrong]) -> NodeAction {
    let more = wrongs.len();
    NodeAction { more, ..of_node(node, NodeProblem::Slow, (slow.words(), examine(true)), wrongs) }
}

/// What the report of a node says.
fn of_node(
    node: &Node,
    problem: NodeProblem,
    needed: (String, RequiredAction),
    wrongs: &[&Wrong],
) -> NodeAction {
    NodeAction {
        explained: node.wrongs.explained,
        checks: checks(wrongs),
        ..NodeAction::new(&node.name, problem, needed)
    }
}

/// The checks of these faults, each once.
fn checks(wrongs: &[&Wrong]) -> Vec<String> {
    let mut checks: Vec<String> = Vec::new();
    for wrong in wrongs {
        if checks.len() < MAX_CHECKS && !checks.contains(&wrong.check) {
            checks.push(wrong.check.clone());
        }
    }
    checks
}

fn absent(absent: &AbsentNode) -> NodeAction {
    let action = match absent.why {
        Absence::TimedOut => examine(true),
        Absence::Version => required(ActionClass::Install, None, false, SOURCE),
        Absence::Missing | Absence::Ended | Absence::Invalid => examine(false),
    };
    let (word, reason) = (absent.why.word(), &absent.reason);
    let words = if reason == word {
        format!("no report: {reason}")
    } else {
        format!("no report ({word}): {reason}")
    };
    NodeAction::new(&absent.node, NodeProblem::Absent, (words, action))
}

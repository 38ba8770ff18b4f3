//! What is wrong with a node, taken in from its reports: faults that no other finding of the node explains.

use super::document::{Finding, required};
use super::names::cut;
use crate::model::{ActionClass, Outcome, RequiredAction, Severity, in_words};

/// Most faults that are kept of a node; further ones are counted.
const MAX_WRONGS: usize = 200;
/// The source of actions that no check prescribes.
pub(super) const SOURCE: &str = "docs: commands/fleet.md";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Rank {
    Failed,
    Warned,
    Unknown,
}

/// A fault of a node that no other finding of the node explains.
#[derive(Debug)]
pub(super) struct Wrong {
    pub rank: Rank,
    /// Number of its fact; faults of the same fact are compared between nodes.
    pub fact: Option<u32>,
    /// The check or the result.
    pub check: String,
    pub words: String,
    pub action: RequiredAction,
    pub fix: Option<String>,
}

/// The faults of a node.
#[derive(Debug, Default)]
pub(super) struct Wrongs {
    pub list: Vec<Wrong>,
    /// Number of further faults.
    pub left_out: usize,
    /// Findings that others explain.
    pub explained: usize,
}

impl Wrongs {
    pub fn add(&mut self, wrong: Wrong) {
        if self.list.len() < MAX_WRONGS {
            self.list.push(wrong);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds a finding, if it is a fault. `is_consequence`: another finding explains it.
    pub fn add_finding(&mut self, finding: &Finding<'_>, fact: Option<u32>, is_consequence: bool) {
        let rank = match finding.outcome {
            Outcome::Fail => Rank::Failed,
            Outcome::Warn => Rank::Warned,
            Outcome::Unknown if finding.severity == Severity::Error => Rank::Unknown,
            _ => return,
        };
        // As for a NIC in another slot: a warning that calls for nothing is for who reads doctor's own report.
        let needs_nothing =
            finding.action.as_ref().is_some_and(|action| action.class == ActionClass::Nothing);
        if rank == Rank::Warned && needs_nothing {
            return;
        }
        if is_consequence {
            self.explained += 1;
            return;
        }
        self.add(Wrong {
            rank,
            fact,
            check: cut(&finding.id),
            words: cut(&in_words(&finding.subject, &finding.message)),
            action: finding.action.clone().unwrap_or_else(|| examine(rank == Rank::Failed)),
            fix: finding.fix.as_ref().and_then(|fix| fix.id.as_deref()).map(cut),
        });
    }

    pub fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.explained += other.explained;
        other.list.into_iter().for_each(|wrong| self.add(wrong));
    }
}

/// What is left to do where no check says it.
pub(super) fn examine(drain: bool) -> RequiredAction {
    required(ActionClass::Examine, None, drain, SOURCE)
}

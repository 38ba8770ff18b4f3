//! Why a node is not ok: its first failures, else what is unknown of it, and the next step that its report names.

use std::collections::BTreeSet;

use super::document::{Root, Step};
use super::names::cut;
use crate::model::FleetState;

/// Most reasons of a node; further ones are counted.
const MAX_REASONS: usize = 5;
/// Most checks that are kept of a report's roots.
const MAX_CHECKS: usize = 1_000;

#[derive(Debug, Default)]
pub struct Reasons {
    failed: List,
    unknown: List,
    step: Option<String>,
    /// Checks that fail by themselves, with their subjects, and those that others explain.
    roots: BTreeSet<(String, String)>,
    explained: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct List {
    first: Vec<String>,
    count: usize,
}

impl List {
    fn add(&mut self, text: &str) {
        self.count += 1;
        if self.first.len() < MAX_REASONS {
            self.first.push(cut(text));
        }
    }

    fn append(&mut self, other: Self) {
        let left_out = other.count - other.first.len();
        for text in &other.first {
            self.add(text);
        }
        self.count += left_out;
    }
}

impl Reasons {
    pub fn add(&mut self, state: FleetState, text: &str) {
        match state {
            FleetState::Failed => self.failed.add(text),
            FleetState::Undetermined => self.unknown.add(text),
            FleetState::Ok | FleetState::Slow => {}
        }
    }

    /// True if another finding explains this one, which is then no reason of its own.
    pub fn is_consequence(&self, check: &str, subject: &str) -> bool {
        self.explained.contains(check)
            && !self.roots.contains(&(check.to_owned(), subject.to_owned()))
    }

    /// A report names its roots before its findings.
    pub fn root(&mut self, root: &Root<'_>) {
        for subject in &root.subjects {
            if self.roots.len() < MAX_CHECKS {
                self.roots.insert((root.check.to_string(), subject.to_string()));
            }
        }
        for check in &root.explains {
            if self.explained.len() < MAX_CHECKS {
                self.explained.insert(check.to_string());
            }
        }
    }

    /// The first step of the report counts.
    pub fn step(&mut self, step: &Step<'_>) {
        let line = step.command.as_deref().or(step.advice.as_deref());
        if self.step.is_none() {
            self.step = line.map(cut);
        }
    }

    /// Adds those of another report of the node.
    pub fn append(&mut self, other: Self) {
        self.failed.append(other.failed);
        self.unknown.append(other.unknown);
        self.step = self.step.take().or(other.step);
    }

    /// The reasons for the state, the first ones and the number of others.
    pub fn of(&self, state: FleetState) -> Vec<String> {
        let list = match state {
            FleetState::Failed => &self.failed,
            FleetState::Undetermined => &self.unknown,
            FleetState::Ok | FleetState::Slow => return Vec::new(),
        };
        let more = list.count - list.first.len();
        let more = (more > 0).then(|| format!("and {more} more"));
        list.first.iter().cloned().chain(more).collect()
    }

    /// What to do about a node that is not ok.
    pub fn next_step(&self, state: FleetState) -> Option<String> {
        self.step.clone().filter(|_| state != FleetState::Ok)
    }
}

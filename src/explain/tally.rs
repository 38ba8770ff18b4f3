//! Collects matches and orders them by score. A repeated symptom is one match with a count.

use std::collections::BTreeMap;

use super::table::Table;
use crate::model::{Quote, SymptomMatch};

pub(super) struct Occurrence {
    /// From 1.
    pub line: u64,
    /// The line for display.
    pub text: String,
    /// Reduction of the score.
    pub less: u8,
}

pub(super) struct Tally<'a> {
    table: &'a Table,
    found: BTreeMap<Of, Found>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Symptom(usize),
    Rule(usize),
}

struct Found {
    first: Occurrence,
    /// The last line with this match.
    last: u64,
    count: u64,
}

/// The result for a text.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The matches, best first.
    pub matches: Vec<SymptomMatch>,
    pub lines: u64,
    pub bytes: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            found: BTreeMap::new(),
        }
    }

    pub(super) fn symptom(
        &mut self,
        at: usize,
        line: u64,
        occurrence: impl FnOnce() -> Occurrence,
    ) {
        self.add(Of::Symptom(at), line, occurrence);
    }

    pub(super) fn rule(&mut self, at: usize, line: u64, occurrence: impl FnOnce() -> Occurrence) {
        self.add(Of::Rule(at), line, occurrence);
    }

    /// Only the first line is formatted for display; parts of one line count once.
    fn add(&mut self, of: Of, line: u64, occurrence: impl FnOnce() -> Occurrence) {
        match self.found.get_mut(&of) {
            Some(found) => {
                found.count += u64::from(line > found.last);
                found.last = found.last.max(line);
            }
            None => {
                let first = occurrence();
                self.found.insert(
                    of,
                    Found {
                        first,
                        last: line,
                        count: 1,
                    },
                );
            }
        }
    }

    /// The matches. Equal scores keep the table's order; a rule is dropped if a better match has its check.
    pub(super) fn reading(self, lines: u64, bytes: u64) -> Reading {
        let mut matches: Vec<(bool, SymptomMatch)> = self
            .found
            .into_iter()
            .filter_map(|(of, found)| {
                let rule = matches!(of, Of::Rule(_));
                of_table(self.table, of, found).map(|found| (rule, found))
            })
            .collect();
        matches.sort_by_key(|(_, found)| std::cmp::Reverse(found.score));
        let mut kept: Vec<SymptomMatch> = Vec::new();
        for (rule, found) in matches {
            let is_covered = rule
                && kept
                    .iter()
                    .any(|buffered| buffered.checks.contains(&found.check));
            if !is_covered {
                kept.push(found);
            }
        }
        Reading {
            matches: kept,
            lines,
            bytes,
        }
    }
}

fn of_table(table: &Table, of: Of, found: Found) -> Option<SymptomMatch> {
    let (name, score, cause, checks, sources) = match of {
        Of::Symptom(at) => {
            let symptom = table.symptoms.get(at)?;
            (
                &symptom.name,
                symptom.score,
                &symptom.cause,
                &symptom.checks,
                &symptom.sources,
            )
        }
        Of::Rule(at) => {
            let rule = table.rules.get(at)?;
            (
                &rule.name,
                rule.score,
                &rule.cause,
                &rule.checks,
                &rule.sources,
            )
        }
    };
    Some(SymptomMatch {
        check: checks.first()?.clone(),
        score: score.saturating_sub(found.first.less),
        cause: cause.clone(),
        source: sources.first()?.clone(),
        symptom: name.clone(),
        checks: checks.clone(),
        sources: sources.clone(),
        line: Quote {
            number: found.first.line,
            text: found.first.text,
        },
        count: found.count,
        standing: None,
    })
}

//! Collects what the table found in a text and ranks the checks. A repeated symptom counts once.

use std::collections::BTreeMap;

use super::table::{Hint, Symptom, Table};
use crate::check;
use crate::model::{Quote, SymptomMatch};

/// A symptom lists its checks best first: each is this much less likely than the one before.
const NEXT_CHECK: u8 = 5;

/// The score of a hint: its points, on the scale of the symptoms, at most this.
const HINT_BASE: i32 = 27;
const HINT_POINT: i32 = 4;
const HINT_MOST: i32 = 78;

/// If a symptom and a hint point to one check, this part of the lower score is added.
const AGREEMENT: u8 = 16;

pub(super) struct Occurrence {
    /// From 1.
    pub line: u64,
    /// The line for display.
    pub text: String,
    /// Reduction of the score.
    pub less: u8,
}

/// The concepts of a question that a hint counts.
pub(super) struct HintMatch {
    pub hint: usize,
    pub points: i32,
    pub words: Vec<String>,
    /// The line with most of them.
    pub line: u64,
    pub text: String,
}

pub(super) struct Tally<'a> {
    table: &'a Table,
    found: BTreeMap<usize, Found>,
    hints: Vec<HintMatch>,
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
    /// The checks that the text points to, best first.
    pub matches: Vec<SymptomMatch>,
    pub lines: u64,
    pub bytes: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            found: BTreeMap::new(),
            hints: Vec::new(),
        }
    }

    /// Only the first line is formatted for display; parts of one line count once.
    pub(super) fn symptom(
        &mut self,
        at: usize,
        line: u64,
        occurrence: impl FnOnce() -> Occurrence,
    ) {
        match self.found.get_mut(&at) {
            Some(found) => {
                found.count += u64::from(line > found.last);
                found.last = found.last.max(line);
            }
            None => {
                let first = occurrence();
                self.found.insert(
                    at,
                    Found {
                        first,
                        last: line,
                        count: 1,
                    },
                );
            }
        }
    }

    pub(super) fn hint(&mut self, found: HintMatch) {
        self.hints.push(found);
    }

    /// The checks, each with its best symptom or its hint. Equal scores keep the table's order.
    pub(super) fn reading(self, lines: u64, bytes: u64) -> Reading {
        let mut symptoms: Vec<(&Symptom, Found)> = self
            .found
            .into_iter()
            .filter_map(|(at, found)| Some((self.table.symptoms.get(at)?, found)))
            .collect();
        symptoms.sort_by_key(|(symptom, found)| {
            std::cmp::Reverse(symptom.score.saturating_sub(found.first.less))
        });
        let mut matches: Vec<SymptomMatch> = Vec::new();
        for (symptom, found) in &symptoms {
            for (check, less) in symptom.checks.iter().zip((0..).step_by(NEXT_CHECK.into())) {
                let new = of_symptom(symptom, found, check, less);
                match matches.iter_mut().find(|old| old.check == *check) {
                    Some(old) if old.score >= new.score => {}
                    Some(old) => *old = new,
                    None => matches.push(new),
                }
            }
        }
        for found in self.hints {
            let Some(hint) = self.table.hints.get(found.hint) else {
                continue;
            };
            let new = of_hint(hint, found);
            match matches.iter_mut().find(|old| old.check == new.check) {
                Some(old) => {
                    let (high, low) = (old.score.max(new.score), old.score.min(new.score));
                    old.score = high.saturating_add(low / AGREEMENT).min(99);
                    old.words = new.words;
                }
                None => matches.push(new),
            }
        }
        matches.sort_by_key(|found| std::cmp::Reverse(found.score));
        Reading {
            matches,
            lines,
            bytes,
        }
    }
}

fn of_symptom(symptom: &Symptom, found: &Found, check: &str, less: u8) -> SymptomMatch {
    SymptomMatch {
        check: check.to_owned(),
        score: symptom
            .score
            .saturating_sub(found.first.less.saturating_add(less))
            .max(1),
        cause: symptom.cause.clone(),
        source: symptom.sources.first().cloned().unwrap_or_default(),
        symptom: Some(symptom.name.clone()),
        words: Vec::new(),
        sources: symptom.sources.clone(),
        line: Quote {
            number: found.first.line,
            text: found.first.text.clone(),
        },
        count: found.count,
        standing: None,
    }
}

fn of_hint(hint: &Hint, found: HintMatch) -> SymptomMatch {
    let score = (HINT_BASE + HINT_POINT * found.points).clamp(1, HINT_MOST);
    let references = check::find(&hint.check).map_or(&[][..], |check| check.references);
    let sources: Vec<String> = references
        .iter()
        .filter(|reference| reference.starts_with("https://"))
        .map(|&reference| reference.to_owned())
        .collect();
    SymptomMatch {
        check: hint.check.clone(),
        score: u8::try_from(score).unwrap_or(1),
        cause: hint.cause.clone(),
        source: sources.first().cloned().unwrap_or_default(),
        symptom: None,
        words: found.words,
        sources,
        line: Quote {
            number: found.line,
            text: found.text,
        },
        count: 1,
        standing: None,
    }
}

//! The patterns of a table, and those of them that may match a line: one automaton finds their literals, so the cost per line does
//! not grow with the table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::literal;
use super::table::{Table, TableError};

pub struct Pattern {
    pub of: Of,
    text: String,
    /// Compiled on first use.
    regex: OnceLock<Option<Regex>>,
}

/// The owner of a pattern, by its place in the table.
#[derive(Clone, Copy)]
pub enum Of {
    Symptom(usize),
    Prose(usize),
    Uncovered(usize),
    Unless(usize),
    Concept(usize),
    UnlessConcept(usize),
}

impl Of {
    /// True for what is found in a log too, not only in a short text.
    fn is_failure(self) -> bool {
        matches!(self, Self::Symptom(_) | Self::Uncovered(_))
    }

    fn is_of_logs(self) -> bool {
        self.is_failure() || matches!(self, Self::Unless(_))
    }
}

/// The literals of patterns.
pub struct Literals {
    automaton: AhoCorasick,
    /// The patterns of each literal.
    patterns_of: Vec<Vec<usize>>,
}

/// All patterns of a table.
pub struct Patterns {
    patterns: Vec<Pattern>,
    /// Of all patterns, and of those that count in a log.
    all: Literals,
    of_logs: Literals,
    /// The literals of failures: a line without one needs no other search.
    failures: AhoCorasick,
}

impl Patterns {
    pub fn new(table: &Table) -> Result<Self, TableError> {
        let mut patterns = Vec::new();
        let mut every: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        let mut of_logs: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        let mut failures = Vec::new();
        for (of, name, text) in all(table) {
            let required = literal::required(text).ok_or_else(|| TableError::Literal {
                name: name.to_owned(),
                pattern: text.to_owned(),
            })?;
            for literal in required {
                if of.is_failure() {
                    failures.push(literal.clone());
                }
                if of.is_of_logs() {
                    of_logs.entry(literal.clone()).or_default().push(patterns.len());
                }
                every.entry(literal).or_default().push(patterns.len());
            }
            patterns.push(Pattern { of, text: text.to_owned(), regex: OnceLock::new() });
        }
        Ok(Self {
            patterns,
            all: Literals::new(every)?,
            of_logs: Literals::new(of_logs)?,
            failures: AhoCorasick::new(failures)?,
        })
    }

    /// The patterns that may match a line, in the order of the table.
    pub fn candidates(&self, line: &[u8], is_log: bool) -> impl Iterator<Item = &Pattern> {
        let literals = if is_log { &self.of_logs } else { &self.all };
        let mut found = Vec::new();
        for literal in literals.automaton.find_overlapping_iter(line) {
            found.extend_from_slice(&literals.patterns_of[literal.pattern()]);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| &self.patterns[at])
    }

    /// True if a line of a log may report a failure.
    pub fn may_fail(&self, line: &[u8]) -> bool {
        self.failures.is_match(line)
    }
}

impl Literals {
    fn new(literals: BTreeMap<Vec<u8>, Vec<usize>>) -> Result<Self, TableError> {
        let automaton = AhoCorasick::new(literals.keys())?;
        Ok(Self { automaton, patterns_of: literals.into_values().collect() })
    }
}

impl Pattern {
    pub fn is_in(&self, line: &[u8]) -> bool {
        let regex = self.regex.get_or_init(|| compiled(&self.text).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(line))
    }
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).build()
}

/// Every pattern of a table, with its owner.
fn all(table: &Table) -> impl Iterator<Item = (Of, &str, &str)> {
    fn of<'a>(
        of: Of,
        name: &'a str,
        patterns: &'a [String],
    ) -> impl Iterator<Item = (Of, &'a str, &'a str)> {
        patterns.iter().map(move |pattern| (of, name, pattern.as_str()))
    }
    let symptoms = table.symptoms.iter().enumerate().flat_map(|(at, symptom)| {
        let unless = of(Of::Unless(at), &symptom.name, &symptom.unless);
        let prose = of(Of::Prose(at), &symptom.name, &symptom.prose);
        let printed = of(Of::Symptom(at), &symptom.name, &symptom.patterns);
        printed.chain(prose).chain(unless)
    });
    let concepts = table.concepts.iter().enumerate().flat_map(|(at, concept)| {
        let unless = of(Of::UnlessConcept(at), &concept.name, &concept.unless);
        of(Of::Concept(at), &concept.name, &concept.patterns).chain(unless)
    });
    let uncovered = table
        .uncovered
        .iter()
        .enumerate()
        .flat_map(|(at, failure)| of(Of::Uncovered(at), &failure.name, &failure.patterns));
    symptoms.chain(concepts).chain(uncovered)
}

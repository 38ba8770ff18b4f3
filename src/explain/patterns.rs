//! The patterns of a table, and those of them that may match a line: one automaton finds their literals, so the cost per line does
//! not grow with the table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
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

/// An automaton that finds the literals of patterns.
struct Literals {
    automaton: AhoCorasick,
    /// The patterns of each literal.
    patterns_of: Vec<Vec<usize>>,
}

/// All patterns of a table.
pub struct Patterns {
    patterns: Vec<Pattern>,
    literals: Vec<literal::Literals>,
    all: Literals,
    /// Of those that count in a log. This and what follows is made when a log needs it.
    of_logs: OnceLock<Option<Literals>>,
    /// The literals of failures: a line without one needs no other search.
    failures: OnceLock<Option<AhoCorasick>>,
    /// The same as a table of all steps: three times as fast, and for a short log the making takes longer than the search.
    failures_of_long: OnceLock<Option<AhoCorasick>>,
}

impl Patterns {
    pub fn new(table: &Table) -> Result<Self, TableError> {
        let texts: Vec<&str> = all(table).map(|(_, _, text)| text).collect();
        let mut patterns = Vec::new();
        let mut literals = Vec::new();
        for ((of, name, text), required) in all(table).zip(literal::of_all(&texts)) {
            literals.push(required.ok_or_else(|| TableError::Literal {
                name: name.to_owned(),
                pattern: text.to_owned(),
            })?);
            patterns.push(Pattern { of, text: text.to_owned(), regex: OnceLock::new() });
        }
        let all = Literals::new(literals.iter().enumerate())?;
        let (of_logs, failures, failures_of_long) = Default::default();
        Ok(Self { patterns, literals, all, of_logs, failures, failures_of_long })
    }

    /// The patterns that may match a line, in the order of the table.
    pub fn candidates(&self, line: &[u8], is_log: bool) -> impl Iterator<Item = &Pattern> {
        // Its automaton is not larger than the one of all.
        let of_logs = || Literals::new(self.those(Of::is_of_logs)).ok();
        let of_logs = is_log.then(|| self.of_logs.get_or_init(of_logs).as_ref()).flatten();
        let literals = of_logs.unwrap_or(&self.all);
        let mut found = Vec::new();
        for literal in literals.automaton.find_overlapping_iter(line) {
            found.extend_from_slice(&literals.patterns_of[literal.pattern()]);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| &self.patterns[at])
    }

    /// True if a line of a log may report a failure. The log may be long.
    pub fn may_fail(&self, line: &[u8], is_long: bool) -> bool {
        let (automaton, kind) = if is_long {
            (&self.failures_of_long, Some(AhoCorasickKind::DFA))
        } else {
            (&self.failures, None)
        };
        let made = automaton.get_or_init(|| {
            let literals = self.those(Of::is_failure).flat_map(|(_, literals)| literals);
            AhoCorasick::builder().kind(kind).build(literals).ok()
        });
        made.as_ref().is_none_or(|automaton| automaton.is_match(line))
    }

    /// The literals of some patterns, with the place of the pattern.
    fn those(
        &self,
        is_wanted: fn(Of) -> bool,
    ) -> impl Iterator<Item = (usize, &literal::Literals)> {
        let all = self.patterns.iter().zip(&self.literals).enumerate();
        all.filter(move |(_, (pattern, _))| is_wanted(pattern.of))
            .map(|(at, (_, literals))| (at, literals))
    }
}

impl Literals {
    fn new<'a>(
        patterns: impl Iterator<Item = (usize, &'a literal::Literals)>,
    ) -> Result<Self, TableError> {
        let mut patterns_of: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (at, literals) in patterns {
            for literal in literals {
                patterns_of.entry(literal).or_default().push(at);
            }
        }
        let automaton = AhoCorasick::new(patterns_of.keys())?;
        Ok(Self { automaton, patterns_of: patterns_of.into_values().collect() })
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

/// What `literals.txt` has for a table, in the order of its patterns.
pub fn literals_to_generate(table: &Table) -> Option<String> {
    literal::to_generate(&all(table).map(|(_, _, text)| text).collect::<Vec<_>>())
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

#[cfg(test)]
mod tests {
    use super::super::shipped;
    use super::*;

    /// Long logs are searched by another automaton than short ones.
    #[test]
    fn both_automata_find_the_same() {
        let table = shipped().expect("the shipped table");
        let patterns = Patterns::new(&table).expect("its patterns");
        let printed = table.symptoms.iter().filter(|symptom| !symptom.patterns.is_empty());
        let printed = printed.map(|symptom| symptom.example.to_ascii_lowercase());
        let mut count = 0;
        for line in printed.chain(["step 3 of 9, 0.4 s".to_owned()]) {
            let found = [false, true].map(|is_long| patterns.may_fail(line.as_bytes(), is_long));
            assert_eq!(found[0], found[1], "{line}");
            count += usize::from(found[0]);
        }
        assert!(count > 80 && !patterns.may_fail(b"step 3 of 9, 0.4 s", true), "{count}");
    }
}

//! The table against a text: which symptoms and rules each line tells of.
//!
//! Every line goes once through one automaton over the literals of all patterns; only the patterns whose literal is
//! there are held against it. So what a line costs does not grow with the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::clean::{Cleaner, shown};
use super::literal;
use super::pieces::Pieces;
use super::table::{Table, TableError};
use super::tally::{Reading, Seen, Tally};

/// Lines that are looked at together, for concepts on neighbouring lines.
const NEIGHBOURS: usize = 6;

/// A text up to this size may be prose, or have its lines broken by a terminal: neighbouring lines are read together.
const SHORT: usize = 16 << 10;

/// A log says the same again and again: so many lines, none longer than this, are looked at once.
const REMEMBERED: usize = 4_096;
const REMEMBERED_LENGTH: usize = 512;

/// What a match over a broken line, and over neighbouring lines, is worth less.
const BROKEN: u8 = 5;
const ACROSS: u8 = 10;

/// A table that is ready.
pub struct Matcher {
    table: Table,
    cleaner: Cleaner,
    /// The literals, and the patterns of each.
    literals: AhoCorasick,
    patterns_of: Vec<Vec<usize>>,
    patterns: Vec<Pattern>,
    /// Of each rule the concepts that must and must not be there, as bits.
    rules: Vec<(u64, u64)>,
}

struct Pattern {
    of: Of,
    text: String,
    /// Compiled where a line has its literal.
    regex: OnceLock<Option<Regex>>,
}

#[derive(Clone, Copy)]
enum Of {
    Symptom(usize),
    Unless(usize),
    Concept(usize),
}

/// What one line tells.
#[derive(Default, Clone)]
struct LineMatch {
    symptoms: Vec<usize>,
    concepts: u64,
}

impl Matcher {
    /// Makes a table ready.
    pub fn new(table: Table) -> Result<Self, TableError> {
        let mut patterns = Vec::new();
        let mut literals: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (of, name, text) in all(&table) {
            let required = literal::required(text).ok_or_else(|| TableError::Literal {
                name: name.to_owned(),
                pattern: text.to_owned(),
            })?;
            for literal in required {
                literals.entry(literal).or_default().push(patterns.len());
            }
            patterns.push(Pattern {
                of,
                text: text.to_owned(),
                regex: OnceLock::new(),
            });
        }
        let automaton = AhoCorasick::new(literals.keys())?;
        let rules = table
            .rules
            .iter()
            .map(|rule| (bits(&table, &rule.all), bits(&table, &rule.none)))
            .collect();
        Ok(Self {
            cleaner: Cleaner::new()?,
            table,
            literals: automaton,
            patterns_of: literals.into_values().collect(),
            patterns,
            rules,
        })
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Reads a text to its end, and says what it tells.
    pub fn read(&self, text: impl Read) -> io::Result<Reading> {
        let mut tally = Tally::new(&self.table);
        let mut pieces = Pieces::new(text);
        let mut neighbours: Vec<Neighbour> = Vec::new();
        let mut line = Vec::new();
        let mut short = true;
        let mut lines = 0;
        let mut before: HashMap<Vec<u8>, LineMatch> = HashMap::new();
        // What earlier pieces of the same line told.
        let mut known: BTreeSet<usize> = BTreeSet::new();
        while let Some(piece) = pieces.next()? {
            lines = piece.line;
            if !piece.goes_on {
                known.clear();
            }
            self.cleaner.clean(piece.bytes, &mut line);
            if line.is_empty() {
                continue;
            }
            let seen = || Seen {
                line: piece.line,
                text: shown(piece.bytes),
                less: 0,
            };
            let told = match before.get(&line) {
                Some(told) => told.clone(),
                None => self.tell(&line, &known),
            };
            known.extend(&told.symptoms);
            if !piece.goes_on && line.len() <= REMEMBERED_LENGTH && before.len() < REMEMBERED {
                before.insert(line.clone(), told.clone());
            }
            for symptom in &told.symptoms {
                tally.symptom(*symptom, piece.line, seen);
            }
            for rule in self.rules_of(told.concepts, |_| true) {
                tally.rule(rule, piece.line, seen);
            }
            short = short && piece.line <= 200 && !piece.goes_on;
            if short {
                neighbours.push(Neighbour {
                    line: piece.line,
                    clean: line.clone(),
                    raw: shown(piece.bytes),
                    told,
                });
            }
        }
        let read = pieces.bytes();
        if short && read <= SHORT as u64 {
            self.read_together(&neighbours, &mut tally);
        }
        Ok(tally.reading(lines, read))
    }

    /// What neighbouring lines of a short text tell together: a line that was broken, and concepts that belong together.
    fn read_together(&self, lines: &[Neighbour], tally: &mut Tally<'_>) {
        for pair in lines.windows(2) {
            let [a, b] = pair else { continue };
            let joined = [a.clean.as_slice(), b" ", b.clean.as_slice()].concat();
            for symptom in self.tell(&joined, &BTreeSet::new()).symptoms {
                if !a.told.symptoms.contains(&symptom) && !b.told.symptoms.contains(&symptom) {
                    tally.symptom(symptom, a.line, || Seen {
                        line: a.line,
                        text: format!("{} {}", a.raw, b.raw),
                        less: BROKEN,
                    });
                }
            }
        }
        for window in lines.windows(NEIGHBOURS.min(lines.len()).max(1)) {
            let together = window.iter().fold(0, |all, line| all | line.told.concepts);
            let Some(first) = window.first() else {
                continue;
            };
            for rule in self.rules_of(together, |rule| self.table.rules[rule].across) {
                tally.rule(rule, first.line, || Seen {
                    line: first.line,
                    text: first.raw.clone(),
                    less: ACROSS,
                });
            }
        }
    }

    fn rules_of(
        &self,
        concepts: u64,
        wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let holds = move |(all, none): &(u64, u64)| concepts & all == *all && concepts & none == 0;
        self.rules
            .iter()
            .enumerate()
            .filter(move |(at, rule)| concepts != 0 && wanted(*at) && holds(rule))
            .map(|(at, _)| at)
    }

    /// What a line tells, but for the symptoms that are known of it.
    fn tell(&self, line: &[u8], known: &BTreeSet<usize>) -> LineMatch {
        let mut told = LineMatch::default();
        let mut symptoms = BTreeSet::new();
        let mut not = BTreeSet::new();
        let literals = self.literals.find_overlapping_iter(line);
        let mut candidates: Vec<usize> = literals
            .flat_map(|literal| &self.patterns_of[literal.pattern()])
            .copied()
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        for pattern in candidates.into_iter().map(|at| &self.patterns[at]) {
            let needless = match pattern.of {
                Of::Symptom(symptom) => symptoms.contains(&symptom) || known.contains(&symptom),
                Of::Unless(symptom) => not.contains(&symptom) || known.contains(&symptom),
                Of::Concept(concept) => told.concepts & bit(concept) != 0,
            };
            if needless || !pattern.is_in(line) {
                continue;
            }
            match pattern.of {
                Of::Symptom(symptom) => _ = symptoms.insert(symptom),
                Of::Unless(symptom) => _ = not.insert(symptom),
                Of::Concept(concept) => told.concepts |= bit(concept),
            }
        }
        told.symptoms = symptoms.difference(&not).copied().collect();
        told
    }
}

struct Neighbour {
    line: u64,
    clean: Vec<u8>,
    raw: String,
    told: LineMatch,
}

impl Pattern {
    fn is_in(&self, line: &[u8]) -> bool {
        let regex = self.regex.get_or_init(|| compiled(&self.text).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(line))
    }
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).build()
}

/// Every pattern of a table, with what it is of.
fn all(table: &Table) -> impl Iterator<Item = (Of, &str, &str)> {
    fn of<'a>(
        of: Of,
        name: &'a str,
        patterns: &'a [String],
    ) -> impl Iterator<Item = (Of, &'a str, &'a str)> {
        patterns
            .iter()
            .map(move |pattern| (of, name, pattern.as_str()))
    }
    let symptoms = table.symptoms.iter().enumerate().flat_map(|(at, symptom)| {
        let unless = of(Of::Unless(at), &symptom.name, &symptom.unless);
        of(Of::Symptom(at), &symptom.name, &symptom.patterns).chain(unless)
    });
    let concepts = table.concepts.iter().enumerate();
    symptoms.chain(
        concepts.flat_map(|(at, concept)| of(Of::Concept(at), &concept.name, &concept.patterns)),
    )
}

/// A table has at most 64 concepts: a test counts them.
fn bit(concept: usize) -> u64 {
    1u64.checked_shl(u32::try_from(concept).unwrap_or(u32::MAX))
        .unwrap_or(0)
}

fn bits(table: &Table, names: &[String]) -> u64 {
    names
        .iter()
        .filter_map(|name| {
            table
                .concepts
                .iter()
                .position(|concept| concept.name == *name)
        })
        .fold(0, |all, at| all | bit(at))
}

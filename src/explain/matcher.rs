//! Matches the table of symptoms against a text.
//!
//! One automaton finds the literals of all patterns in a line; only patterns whose literal occurs are tried, so the cost
//! per line does not grow with the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::clean::{Cleaner, is_sentence, shown};
use super::literal;
use super::pieces::LineReader;
use super::table::{Rule, Table, TableError};
use super::tally::{Occurrence, Reading, Tally};

/// Number of neighbouring lines searched together for the concepts of a rule.
const NEIGHBOURS: usize = 6;

/// Lines that a person picked from a log.
const FEW_LINES: usize = 5;

/// Texts up to this size may be a question, if a person wrote a line or picked a few: settings and prose count, and neighbouring
/// lines are joined. Longer ones are logs.
const SHORT_BYTES: u64 = 16 << 10;
const SHORT_LINES: u64 = 200;

/// Logs repeat lines: this many, up to this length, are matched once.
const REMEMBERED: usize = 4_096;
const REMEMBERED_LENGTH: usize = 512;

/// Score reductions for matches in wrapped lines, and across neighbouring lines.
const BROKEN: u8 = 5;
const ACROSS: u8 = 10;

/// A compiled table.
pub struct Matcher {
    table: Table,
    cleaner: Cleaner,
    /// The patterns of each literal.
    literals: AhoCorasick,
    patterns_of: Vec<Vec<usize>>,
    patterns: Vec<Pattern>,
    /// Each rule's required and excluded concepts, as bits.
    rules: Vec<(u64, u64)>,
}

struct Pattern {
    of: Of,
    text: String,
    /// Compiled on first use.
    regex: OnceLock<Option<Regex>>,
}

#[derive(Clone, Copy)]
enum Of {
    Symptom(usize),
    Prose(usize),
    Unless(usize),
    Concept(usize),
    UnlessConcept(usize),
}

#[derive(Default, Clone)]
struct LineMatch {
    symptoms: Vec<usize>,
    /// Symptoms whose `prose` alone matches.
    prose: Vec<usize>,
    concepts: u64,
}

impl Matcher {
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

    /// Reads a text to its end and returns the matches.
    pub fn read(&self, text: impl Read) -> io::Result<Reading> {
        let mut tally = Tally::new(&self.table);
        let mut reader = LineReader::new(text);
        let mut neighbours: Vec<Neighbour> = Vec::new();
        let mut line = Vec::new();
        let mut short = true;
        // A person wrote a line.
        let mut asked = false;
        let mut lines = 0;
        let mut before: HashMap<Vec<u8>, LineMatch> = HashMap::new();
        // Matches in earlier parts of the same line.
        let mut known: BTreeSet<usize> = BTreeSet::new();
        while let Some(part) = reader.next()? {
            lines = part.line;
            if !part.continues {
                known.clear();
            }
            let printed = self.cleaner.clean(part.bytes, &mut line);
            if line.is_empty() {
                continue;
            }
            let sentence = !printed && is_sentence(&line);
            asked = asked || sentence;
            let occurrence = || Occurrence {
                line: part.line,
                text: shown(part.bytes),
                less: 0,
            };
            let line_match = match before.get(&line) {
                Some(line_match) => line_match.clone(),
                None => self.match_line(&line, &known),
            };
            known.extend(&line_match.symptoms);
            if !part.continues && line.len() <= REMEMBERED_LENGTH && before.len() < REMEMBERED {
                before.insert(line.clone(), line_match.clone());
            }
            for symptom in &line_match.symptoms {
                tally.symptom(*symptom, part.line, occurrence);
            }
            for rule in self.rules_of(line_match.concepts, |rule| self.table.rules[rule].log) {
                tally.rule(rule, part.line, occurrence);
            }
            short = short && part.line <= SHORT_LINES && !part.continues;
            if short {
                neighbours.push(Neighbour {
                    line: part.line,
                    clean: line.clone(),
                    raw: shown(part.bytes),
                    printed,
                    sentence,
                    line_match,
                });
            }
        }
        let read = reader.bytes();
        if short && read <= SHORT_BYTES && (asked || neighbours.len() <= FEW_LINES) {
            self.read_alone(&neighbours, &mut tally);
            self.read_together(&neighbours, &mut tally);
        }
        Ok(tally.reading(lines, read))
    }

    /// Applies what is for short texts only to each line.
    fn read_alone(&self, lines: &[Neighbour], tally: &mut Tally<'_>) {
        for line in lines {
            let occurrence = || Occurrence {
                line: line.line,
                text: line.raw.clone(),
                less: 0,
            };
            for symptom in &line.line_match.prose {
                tally.symptom(*symptom, line.line, occurrence);
            }
            let rules = self.rules_of(line.line_match.concepts, |rule| !self.table.rules[rule].log);
            for rule in rules {
                tally.rule(rule, line.line, occurrence);
            }
        }
    }

    /// Matches neighbouring lines of a short text together: wrapped lines, and rules across lines.
    fn read_together(&self, lines: &[Neighbour], tally: &mut Tally<'_>) {
        for pair in lines.windows(2) {
            let [a, b] = pair else { continue };
            let joined = [a.clean.as_slice(), b" ", b.clean.as_slice()].concat();
            let found = self.match_line(&joined, &BTreeSet::new());
            for symptom in found.symptoms.into_iter().chain(found.prose) {
                if !a.line_match.has(symptom) && !b.line_match.has(symptom) {
                    tally.symptom(symptom, a.line, || Occurrence {
                        line: a.line,
                        text: format!("{} {}", a.raw, b.raw),
                        less: BROKEN,
                    });
                }
            }
        }
        // The first line is a title: it names the subject of all others.
        let title = lines
            .first()
            .filter(|line| !line.printed)
            .map_or(0, |line| line.line_match.concepts);
        for window in lines.windows(NEIGHBOURS.min(lines.len()).max(1)) {
            // Lines of programs have nothing to do with each other; a person writes about the lines around.
            if lines.len() > FEW_LINES && !window.iter().any(|line| line.sentence) {
                continue;
            }
            let together = window
                .iter()
                .fold(title, |all, line| all | line.line_match.concepts);
            self.rules_across(window, together, tally, |rule| rule.across);
        }
        let all = lines
            .iter()
            .fold(0, |all, line| all | line.line_match.concepts);
        self.rules_across(lines, all, tally, |rule| rule.whole);
    }

    /// Rules whose concepts these lines have together.
    fn rules_across(
        &self,
        lines: &[Neighbour],
        together: u64,
        tally: &mut Tally<'_>,
        is_wanted: impl Fn(&Rule) -> bool,
    ) {
        let Some(first) = lines.first() else {
            return;
        };
        for rule in self.rules_of(together, |rule| is_wanted(&self.table.rules[rule])) {
            tally.rule(rule, first.line, || Occurrence {
                line: first.line,
                text: first.raw.clone(),
                less: ACROSS,
            });
        }
    }

    fn rules_of(
        &self,
        concepts: u64,
        is_wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let holds = move |(all, none): &(u64, u64)| concepts & all == *all && concepts & none == 0;
        self.rules
            .iter()
            .enumerate()
            .filter(move |(at, rule)| concepts != 0 && is_wanted(*at) && holds(rule))
            .map(|(at, _)| at)
    }

    /// Matches a line, except for symptoms already found in it.
    fn match_line(&self, line: &[u8], known: &BTreeSet<usize>) -> LineMatch {
        let mut line_match = LineMatch::default();
        let mut symptoms = BTreeSet::new();
        let mut prose = BTreeSet::new();
        let mut not = BTreeSet::new();
        let mut excluded = 0;
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
                Of::Prose(symptom) => prose.contains(&symptom) || known.contains(&symptom),
                Of::Unless(symptom) => not.contains(&symptom) || known.contains(&symptom),
                Of::Concept(concept) => line_match.concepts & bit(concept) != 0,
                Of::UnlessConcept(concept) => excluded & bit(concept) != 0,
            };
            if needless || !pattern.is_in(line) {
                continue;
            }
            match pattern.of {
                Of::Symptom(symptom) => _ = symptoms.insert(symptom),
                Of::Prose(symptom) => _ = prose.insert(symptom),
                Of::Unless(symptom) => _ = not.insert(symptom),
                Of::Concept(concept) => line_match.concepts |= bit(concept),
                Of::UnlessConcept(concept) => excluded |= bit(concept),
            }
        }
        line_match.concepts &= !excluded;
        line_match.symptoms = symptoms.difference(&not).copied().collect();
        let prose = prose.difference(&not).filter(|at| !symptoms.contains(at));
        line_match.prose = prose.copied().collect();
        line_match
    }
}

impl LineMatch {
    fn has(&self, symptom: usize) -> bool {
        self.symptoms.contains(&symptom) || self.prose.contains(&symptom)
    }
}

struct Neighbour {
    line: u64,
    clean: Vec<u8>,
    raw: String,
    /// A program printed it.
    printed: bool,
    /// A person wrote it.
    sentence: bool,
    line_match: LineMatch,
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

/// Every pattern of a table, with its owner.
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
        let prose = of(Of::Prose(at), &symptom.name, &symptom.prose);
        let printed = of(Of::Symptom(at), &symptom.name, &symptom.patterns);
        printed.chain(prose).chain(unless)
    });
    let concepts = table.concepts.iter().enumerate().flat_map(|(at, concept)| {
        let unless = of(Of::UnlessConcept(at), &concept.name, &concept.unless);
        of(Of::Concept(at), &concept.name, &concept.patterns).chain(unless)
    });
    symptoms.chain(concepts)
}

/// A test checks that a table has at most 64 concepts.
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

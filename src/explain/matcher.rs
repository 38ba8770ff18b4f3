//! Matches the table of symptoms against a text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read};

use super::clean::{Cleaner, has_address, is_sentence, lower, shown};
use super::general::General;
use super::listing::{self, Listing};
use super::notices::{Notice, Notices};
use super::patterns::{Of, Patterns};
use super::pieces::{LinePart, LineReader};
use super::settings::Settings;
use super::subject::{Named, Subject};
use super::table::{Concept, Table, TableError};
use super::tally::{HintMatch, Occurrence, Reading, Tally};
use super::words::{Basis, Voice, Words};
use crate::model::Quote;

/// Lines that a person picked from a log.
const FEW_LINES: usize = 5;

/// Texts up to this size may be a question, if a person wrote a line or picked a few: settings and prose count, and neighbouring
/// lines are joined. Longer ones are logs.
const SHORT_BYTES: u64 = 16 << 10;
const SHORT_LINES: u64 = 200;

/// From here on a log is searched by a larger automaton.
const LONG_LENGTH: usize = 8 << 20;

/// Logs repeat lines: this many, up to this length, are matched once.
const REMEMBERED: usize = 4_096;
const REMEMBERED_LENGTH: usize = 512;

/// Score reduction for matches in wrapped lines.
const BROKEN: u8 = 5;

/// Points from which a hint counts.
const ENOUGH: i32 = 6;

/// A hint counts only if one of its concepts that give this many points occurs: the others say too little alone.
const SUBJECT: i32 = 4;

/// The symptom of an inactive NVLink.
const NVLINK_FAULT: &str = "nvlink-fault";

/// A compiled table.
pub struct Matcher {
    table: Table,
    cleaner: Cleaner,
    listing: Listing,
    settings: Settings,
    notices: Notices,
    general: General,
    words: Words,
    subject: Subject,
    patterns: Patterns,
    /// Concepts that say that something went wrong.
    outcomes: Concepts,
    /// Concepts that say that the text is about GPUs or RDMA.
    domain: Concepts,
    /// The points of each hint.
    hints: Vec<Vec<(usize, i32)>>,
}

/// Concepts of the table, as bits.
type Concepts = u128;

#[derive(Default, Clone)]
struct LineMatch {
    symptoms: Vec<usize>,
    /// Failures that gdr has no check for.
    uncovered: Vec<usize>,
    /// Symptoms whose `prose` alone matches.
    prose: Vec<usize>,
    /// Those that only sentences show that report nothing that happened.
    unreal: Vec<usize>,
    concepts: Concepts,
}

impl Matcher {
    pub fn new(table: Table) -> Result<Self, TableError> {
        let patterns = Patterns::new(&table)?;
        let concepts = || table.concepts.iter().enumerate();
        let those = |is_wanted: fn(&Concept) -> bool| {
            concepts()
                .filter(|(_, concept)| is_wanted(concept))
                .fold(0, |all, (at, _)| all | bit(at))
        };
        let outcomes = those(|concept| concept.outcome);
        let domain = those(|concept| concept.domain);
        let hints = table
            .hints
            .iter()
            .map(|hint| {
                concepts()
                    .filter_map(|(at, concept)| {
                        Some((at, i32::from(*hint.words.get(concept.name.as_str())?)))
                    })
                    .collect()
            })
            .collect();
        Ok(Self {
            cleaner: Cleaner::new()?,
            listing: Listing::new()?,
            settings: Settings::new()?,
            notices: Notices::new()?,
            general: General::new()?,
            words: Words::new()?,
            subject: Subject::new()?,
            table,
            patterns,
            outcomes,
            domain,
            hints,
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
        // `written`: lines with text, also those that do not count.
        let (mut short, mut lines, mut written, mut length) = (true, 0, 0, 0);
        let mut before: HashMap<Vec<u8>, LineMatch> = HashMap::new();
        let mut listed = listing::Found::default();
        let mut environment = BTreeMap::new();
        let (mut is_log, mut is_of_release) = (false, false);
        let (mut named, mut voice) = (Named::default(), Voice::default());
        // Matches in earlier parts of the same line.
        let mut known: BTreeSet<usize> = BTreeSet::new();
        while let Some(part) = reader.next()? {
            lines = part.line;
            if !part.continues {
                known.clear();
            }
            // The state of a port.
            if self.listing.read(part.bytes, part.line, &mut listed) {
                continue;
            }
            lower(part.bytes, &mut line);
            self.subject.read(&line, &mut named);
            length += part.bytes.len();
            if !short && self.says_nothing(part.bytes, &line, length > LONG_LENGTH) {
                is_log = is_log || self.is_of_log(&mut line);
                continue;
            }
            let printed = self.cleaner.clean(&mut line);
            if line.is_empty() {
                continue;
            }
            written += 1;
            let sentence = !printed && is_sentence(&line);
            is_log |= printed || sentence;
            let is_command = !printed && !sentence && !line.starts_with(b"nccl ");
            self.settings.read(part.bytes, part.line, is_command, &mut environment);
            let words = voice.read(&self.words, &self.general, &line, printed, sentence);
            let is_title = part.line == 1 || sentence;
            let notice = self.notices.of(part.bytes, &line, is_title, &mut is_of_release);
            if notice == Notice::Nothing || sentence && self.general.is_rule(&line) {
                continue;
            }
            let mut line_match =
                self.remembered(&line, !short, part.continues, &known, &mut before);
            let is_advice = sentence && self.general.is_advice(&line);
            discount(&mut line_match, notice, is_advice);
            known.extend(&line_match.symptoms);
            count(&line_match, part, words, &mut tally);
            short = short && part.line <= SHORT_LINES && !part.continues;
            if short {
                neighbours.push(Neighbour {
                    line: part.line,
                    clean: line.clone(),
                    raw: shown(part.bytes),
                    printed,
                    sentence,
                    words,
                    line_match,
                });
            }
        }
        let read = reader.bytes();
        let listing = listed.program.filter(|_| !is_log);
        let is_picked = written <= FEW_LINES;
        if short && read <= SHORT_BYTES && (is_picked || listing.is_none()) {
            self.read_question(&neighbours, is_picked, &mut tally);
        }
        named.program(listed.names_subject());
        tally.names_subject(named.is_subject(), |line| self.subject.is_device(line, &named));
        self.read_listing(&listed, &mut tally);
        if short && is_picked && self.only_asks(&neighbours) {
            tally.only_asks();
        }
        tally.possible_from(voice.possible_from());
        Ok(Reading { environment, listing, ..tally.reading(lines, read) })
    }

    /// True if a line of a log, in lower case, shows no symptom and no variable. Cleaning only takes words away, except that those
    /// around an address become neighbours.
    fn says_nothing(&self, raw: &[u8], line: &[u8], is_long: bool) -> bool {
        !self.patterns.may_fail(line, is_long) && !self.settings.are_in(raw) && !has_address(line)
    }

    /// True if a program or a person wrote a line: it is not of a listing.
    fn is_of_log(&self, line: &mut Vec<u8>) -> bool {
        let printed = self.cleaner.clean(line);
        !line.is_empty() && (printed || is_sentence(line))
    }

    /// Matches a line, once for all lines like it.
    fn remembered(
        &self,
        line: &[u8],
        is_log: bool,
        continues: bool,
        known: &BTreeSet<usize>,
        before: &mut HashMap<Vec<u8>, LineMatch>,
    ) -> LineMatch {
        if let Some(line_match) = before.get(line) {
            return line_match.clone();
        }
        let line_match = self.match_line(line, is_log, known);
        if !continues && line.len() <= REMEMBERED_LENGTH && before.len() < REMEMBERED {
            before.insert(line.to_vec(), line_match.clone());
        }
        line_match
    }

    /// Reads a short text as a question, if it is one.
    fn read_question(&self, lines: &[Neighbour], is_picked: bool, tally: &mut Tally<'_>) {
        if self.is_question(lines, is_picked) {
            self.read_alone(lines, tally);
            self.read_together(lines, tally);
            self.read_hints(lines, is_picked, tally);
        }
    }

    /// True if a person wrote or picked these lines: they are few, begin with a sentence or a title, or have many sentences.
    /// Programs print sentences, too.
    fn is_question(&self, lines: &[Neighbour], is_picked: bool) -> bool {
        let sentences = lines.iter().filter(|line| line.sentence).count();
        let begins = lines.iter().take(FEW_LINES).any(|line| line.sentence);
        let is_title = lines.first().is_some_and(|line| {
            let concepts = line.line_match.concepts;
            !line.printed && concepts & self.outcomes != 0 && concepts & self.domain != 0
        });
        is_picked || begins || is_title || sentences * 10 >= lines.len()
    }

    /// True if all lines are a person's, one of them is a general question, and none reports a failure.
    fn only_asks(&self, lines: &[Neighbour]) -> bool {
        let is_general = |line: &Neighbour| self.general.is_question(&line.clean);
        let is_question = |line: &Neighbour| {
            !line.printed
                && (is_general(line) || line.sentence && !self.general.is_report(&line.clean))
        };
        lines.iter().any(is_general) && lines.iter().all(is_question)
    }

    /// What a listing says: ports that are down, and an NVLink of a GPU that is inactive where others of it are active.
    fn read_listing(&self, listed: &listing::Found, tally: &mut Tally<'_>) {
        tally.ports(listed);
        let Some(link) = &listed.inactive_nvlink else { return };
        let is_fault = |symptom: &super::table::Symptom| symptom.name == NVLINK_FAULT;
        if let Some(symptom) = self.table.symptoms.iter().position(is_fault) {
            let (line, text) = (link.line, link.text.clone());
            tally.symptom(symptom, line, || Occurrence {
                line,
                text,
                less: 0,
                basis: Basis::Message,
            });
        }
    }

    /// Applies what is for short texts only to each line.
    fn read_alone(&self, lines: &[Neighbour], tally: &mut Tally<'_>) {
        for line in lines {
            let lacks_fault = line.sentence && !self.general.names_fault(&line.clean);
            for symptom in &line.line_match.prose {
                let basis = line.line_match.basis(*symptom, line.words, lacks_fault);
                let text = || line.raw.clone();
                let occurrence = || Occurrence { line: line.line, text: text(), less: 0, basis };
                tally.symptom(*symptom, line.line, occurrence);
            }
        }
    }

    /// Matches neighbouring lines of a short text together, because lines are wrapped.
    fn read_together(&self, lines: &[Neighbour], tally: &mut Tally<'_>) {
        for pair in lines.windows(2) {
            let [a, b] = pair else { continue };
            // A line with a time or a process of its own continues no other, and neither does a paragraph or the row of a table.
            let is_row = [a, b].iter().any(|line| line.raw.starts_with('|'));
            if b.printed || b.line != a.line + 1 || is_row {
                continue;
            }
            let joined = [a.clean.as_slice(), b" ", b.clean.as_slice()].concat();
            let lacks_fault = (a.sentence || b.sentence) && !self.general.names_fault(&joined);
            let found = self.match_line(&joined, false, &BTreeSet::new());
            let words = a.words || b.words;
            let printed = found.symptoms.iter().map(|symptom| (*symptom, false));
            let prose = found.prose.iter().map(|symptom| (*symptom, lacks_fault));
            for (symptom, lacks_fault) in printed.chain(prose) {
                if !a.line_match.has(symptom) && !b.line_match.has(symptom) {
                    tally.symptom(symptom, a.line, || Occurrence {
                        line: a.line,
                        text: format!("{} {}", a.raw, b.raw),
                        less: BROKEN,
                        basis: found.basis(symptom, words, lacks_fault),
                    });
                }
            }
        }
    }

    /// Adds up what the concepts of a question say about each check. Lines of programs count if they say that something went wrong;
    /// the first line is a title.
    fn read_hints(&self, lines: &[Neighbour], is_picked: bool, tally: &mut Tally<'_>) {
        let counts = |(at, line): &(usize, &Neighbour)| {
            let is_title = *at == 0 && !line.printed;
            let is_failure = line.line_match.concepts & self.outcomes != 0;
            is_title || line.sentence || is_failure || is_picked
        };
        let lines: Vec<&Neighbour> =
            (lines.iter().enumerate().filter(counts)).map(|(_, line)| line).collect();
        let all = (lines.iter()).fold(0, |all, line| all | line.line_match.concepts);
        if all & self.outcomes == 0 || all & self.domain == 0 {
            return;
        }
        for (hint, words) in self.hints.iter().enumerate() {
            let points = points(words, all, self.outcomes);
            if points >= ENOUGH {
                tally.hint(self.hint_match(hint, points, &lines, all));
            }
        }
    }

    fn hint_match(
        &self,
        hint: usize,
        points: i32,
        lines: &[&Neighbour],
        all: Concepts,
    ) -> HintMatch {
        let words = &self.hints[hint];
        let best = (lines.iter().rev()).max_by_key(|line| sum(words, line.line_match.concepts));
        HintMatch {
            hint,
            points,
            words: words
                .iter()
                .filter(|(at, points)| *points > 0 && all & bit(*at) != 0)
                .map(|(at, _)| self.table.concepts[*at].name.clone())
                .collect(),
            line: best.map_or(1, |line| line.line),
            text: best.map_or_else(String::new, |line| line.raw.clone()),
        }
    }

    /// Matches a line and tells which symptoms only words show that report nothing.
    fn match_line(&self, line: &[u8], is_log: bool, known: &BTreeSet<usize>) -> LineMatch {
        let mut line_match = self.match_words(line, is_log, known);
        if line_match.symptoms.is_empty() && line_match.prose.is_empty() {
            return line_match;
        }
        if let Some(happened) = self.words.happened(line) {
            let rest = self.match_words(&happened, is_log, known);
            let all = line_match.symptoms.iter().chain(&line_match.prose);
            line_match.unreal = all.filter(|symptom| !rest.has(**symptom)).copied().collect();
        }
        line_match
    }

    /// Matches a line, except for symptoms already found in it; in a log without prose and concepts.
    fn match_words(&self, line: &[u8], is_log: bool, known: &BTreeSet<usize>) -> LineMatch {
        let mut line_match = LineMatch::default();
        let mut symptoms = BTreeSet::new();
        let mut prose = BTreeSet::new();
        let mut not = BTreeSet::new();
        let mut excluded = 0;
        for pattern in self.patterns.candidates(line, is_log) {
            let needless = match pattern.of {
                Of::Symptom(symptom) => symptoms.contains(&symptom) || known.contains(&symptom),
                Of::Uncovered(failure) => line_match.uncovered.contains(&failure),
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
                Of::Uncovered(failure) => line_match.uncovered.push(failure),
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

/// Takes from a match what the words of a counter, or of advice, do not say.
fn discount(line_match: &mut LineMatch, notice: Notice, is_advice: bool) {
    if notice == Notice::Counter {
        line_match.concepts = 0;
    }
    if is_advice {
        line_match.uncovered.clear();
    }
}

/// Counts what a line says wherever it stands.
fn count(line_match: &LineMatch, part: LinePart<'_>, words: bool, tally: &mut Tally<'_>) {
    for symptom in &line_match.symptoms {
        tally.symptom(*symptom, part.line, || Occurrence {
            line: part.line,
            text: shown(part.bytes),
            less: 0,
            basis: line_match.basis(*symptom, words, false),
        });
    }
    for failure in &line_match.uncovered {
        tally.uncovered(*failure, || Quote {
            number: part.line,
            text: shown(part.bytes),
            file: None,
        });
    }
}

impl LineMatch {
    fn has(&self, symptom: usize) -> bool {
        self.symptoms.contains(&symptom) || self.prose.contains(&symptom)
    }

    /// What a symptom of this line rests on. A person's sentence without a word for a fault makes it possible only.
    fn basis(&self, symptom: usize, words: bool, lacks_fault: bool) -> Basis {
        if lacks_fault || words && self.unreal.contains(&symptom) {
            Basis::Possible
        } else if words {
            Basis::Words
        } else {
            Basis::Message
        }
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
    /// It has no sign of a program's message.
    words: bool,
    line_match: LineMatch,
}

/// A test checks that the table has no more concepts than bits.
fn bit(concept: usize) -> Concepts {
    1u128.checked_shl(u32::try_from(concept).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// The points of a hint for these concepts; none if its subject, or an outcome that it counts, does not occur.
fn points(words: &[(usize, i32)], concepts: Concepts, outcomes: Concepts) -> i32 {
    let occurs = |least: i32, among: Concepts| {
        (words.iter()).any(|(at, points)| *points >= least && concepts & among & bit(*at) != 0)
    };
    if occurs(SUBJECT, Concepts::MAX) && occurs(1, outcomes) { sum(words, concepts) } else { 0 }
}

fn sum(words: &[(usize, i32)], concepts: Concepts) -> i32 {
    words.iter().filter(|(at, _)| concepts & bit(*at) != 0).map(|(_, points)| points).sum()
}

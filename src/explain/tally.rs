//! Collects what the table found in a text and ranks the checks. A repeated symptom counts once.

use std::collections::{BTreeMap, BTreeSet};

use super::listing::{self, Port};
use super::settings::Setting;
use super::table::{Hint, Symptom, Table};
use super::words::Basis;
use crate::check;
use crate::model::{Likelihood, Quote, SymptomMatch, Uncovered};

/// A symptom lists its checks best first: each is this much less likely than the one before.
const NEXT_CHECK: u8 = 5;

/// The score of a hint: its points, on the scale of the symptoms, at most this.
const HINT_BASE: i32 = 27;
const HINT_POINT: i32 = 4;
const MAX_HINT: i32 = 78;

/// The least score of a hint that names a cause; a weaker one is a question. Of 21 fresh threads in which a hint came first, 9 of 11
/// from 65 on were right, 2 of 10 below; elsewhere 7 of 10 below 60 were wrong.
const CONFIDENT: u8 = 60;

/// Limit of questions, which are guesses.
const MAX_QUESTIONS: usize = 2;

/// The least scores of a symptom that is certain, and of one that is likely.
const CERTAIN: u8 = 94;
const LIKELY: u8 = 75;

/// The score of the check of ports where the text lists no port that is active.
const PORT_SCORE: u8 = 74;

/// Symptoms that any device can have.
const OF_DEVICES: [&str; 2] = ["iommu-fault-unnamed", "aer"];

/// Limit of ports that are named.
const MAX_PORTS: usize = 8;

/// If a symptom and a hint point to one check, this part of the lower score is added.
const AGREEMENT: u8 = 16;

pub(super) struct Occurrence {
    /// From 1.
    pub line: u64,
    /// The line for display.
    pub text: String,
    /// Reduction of the score.
    pub less: u8,
    /// The best of all lines counts.
    pub basis: Basis,
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
    uncovered: BTreeMap<usize, Quote>,
    ports: Option<SymptomMatch>,
    /// Some ports are active: the others may have no cable.
    is_port_question: bool,
    /// The text only asks: it has no failure.
    only_asks: bool,
    /// What rests on this basis, or on a weaker one, is possible only.
    possible_from: Basis,
    /// Symptoms that other devices and programs have, too.
    possible: BTreeSet<usize>,
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
    /// What its words suggest, too weakly for a cause.
    pub questions: Vec<SymptomMatch>,
    /// Failures that gdr has no check for.
    pub uncovered: Vec<Uncovered>,
    /// The environment variables that the text shows.
    pub environment: BTreeMap<String, Setting>,
    /// The program whose listing the text is: it describes a machine, perhaps another one.
    pub listing: Option<&'static str>,
    pub lines: u64,
    pub bytes: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            found: BTreeMap::new(),
            hints: Vec::new(),
            uncovered: BTreeMap::new(),
            ports: None,
            is_port_question: false,
            only_asks: false,
            possible_from: Basis::Possible,
            possible: BTreeSet::new(),
        }
    }

    /// Ports that a listing shows as down. Where others are active, these may have no cable.
    pub(super) fn ports(&mut self, found: &listing::Found) {
        let down = found.inactive();
        let Some(first) = down.first() else { return };
        self.is_port_question = found.may_lack_cables();
        let names = names(&down);
        let cause = if self.is_port_question {
            format!(
                "Of {} ports these are not active: {names}. It is a fault only where a cable is meant to be.",
                found.ports.len()
            )
        } else {
            format!("These ports of the text are not active: {names}.")
        };
        let Some(check) = check::all().find(|check| check.judges_ports) else { return };
        let sources = addresses(check.references);
        self.ports = Some(SymptomMatch {
            check: check.id.to_owned(),
            score: PORT_SCORE,
            likelihood: Likelihood::Possible,
            cause,
            source: sources.first().cloned().unwrap_or_default(),
            symptom: None,
            words: Vec::new(),
            sources,
            line: Quote { number: first.line, text: first.state.clone(), file: None },
            count: down.len() as u64,
            standing: None,
            remedy: remedy(check.id),
        });
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
                if found.first.basis != Basis::Message {
                    let other = occurrence();
                    if other.basis < found.first.basis {
                        found.first = other;
                    }
                }
            }
            None => {
                let first = occurrence();
                self.found.insert(at, Found { first, last: line, count: 1 });
            }
        }
    }

    /// Whether the text is about NVIDIA GPUs or RDMA: without, no symptom is more than possible.
    /// Where a device reports an error, the device counts.
    pub(super) fn names_subject(&mut self, does: bool, is_device: impl Fn(&str) -> bool) {
        for (at, found) in &self.found {
            let symptom = self.table.symptoms.get(*at);
            let is_of_device =
                symptom.is_some_and(|symptom| OF_DEVICES.contains(&symptom.name.as_str()));
            if !does || is_of_device && !is_device(&found.first.text) {
                self.possible.insert(*at);
            }
        }
    }

    /// The text is a general question: nothing is a cause.
    pub(super) fn only_asks(&mut self) {
        self.only_asks = true;
    }

    pub(super) fn possible_from(&mut self, basis: Basis) {
        self.possible_from = basis;
    }

    pub(super) fn uncovered(&mut self, at: usize, line: impl FnOnce() -> Quote) {
        self.uncovered.entry(at).or_insert_with(line);
    }

    pub(super) fn hint(&mut self, found: HintMatch) {
        self.hints.push(found);
    }

    /// The checks, each with its best symptom or its hint. Equal scores keep the table's order.
    pub(super) fn reading(self, lines: u64, bytes: u64) -> Reading {
        let mut symptoms: Vec<(&Symptom, Found, bool)> = self
            .found
            .into_iter()
            .filter_map(|(at, found)| {
                let is_possible =
                    found.first.basis >= self.possible_from || self.possible.contains(&at);
                Some((self.table.symptoms.get(at)?, found, is_possible))
            })
            .collect();
        symptoms.sort_by_key(|(symptom, found, _)| {
            std::cmp::Reverse(symptom.score.saturating_sub(found.first.less))
        });
        let mut matches: Vec<SymptomMatch> = Vec::new();
        for (symptom, found, is_possible) in &symptoms {
            for (check, less) in symptom.checks.iter().zip((0..).step_by(NEXT_CHECK.into())) {
                let mut new = of_symptom(symptom, found, check, less);
                if *is_possible {
                    make_question(&mut new);
                }
                match matches.iter_mut().find(|old| old.check == *check) {
                    Some(old) if old.score >= new.score => {}
                    Some(old) => *old = new,
                    None => matches.push(new),
                }
            }
        }
        let mut questions = Vec::new();
        match self.ports {
            Some(ports) if self.is_port_question => questions.push(ports),
            Some(ports) => matches.push(ports),
            None => {}
        }
        for found in self.hints {
            let Some(hint) = self.table.hints.get(found.hint) else {
                continue;
            };
            let new = of_hint(hint, found);
            // Where a line reports a failure of another kind, its words are about that.
            let is_weak = new.score < CONFIDENT || !self.uncovered.is_empty();
            if is_weak && !matches.iter().any(|old| old.check == new.check) {
                questions.push(new);
                continue;
            }
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
        if self.only_asks {
            questions = std::mem::take(&mut matches);
            questions.iter_mut().for_each(make_question);
            let mut causes = BTreeSet::new();
            questions.retain(|found| causes.insert(found.cause.clone()));
        }
        // A line that gdr knows leaves nothing to guess.
        if matches.iter().any(|found| found.symptom.is_some() && found.score >= LIKELY) {
            questions.clear();
        }
        questions.sort_by_key(|found| std::cmp::Reverse(found.score));
        questions.truncate(MAX_QUESTIONS);
        let uncovered = self.uncovered.into_iter().filter_map(|(at, line)| {
            let subject = self.table.uncovered.get(at)?.subject.clone();
            Some(Uncovered { subject, line })
        });
        let mut uncovered: Vec<Uncovered> = uncovered.collect();
        uncovered.sort_by_key(|failure| failure.line.number);
        Reading { matches, questions, uncovered, lines, bytes, ..Reading::default() }
    }
}

fn of_symptom(symptom: &Symptom, found: &Found, check: &str, less: u8) -> SymptomMatch {
    let score = symptom.score.saturating_sub(found.first.less);
    SymptomMatch {
        check: check.to_owned(),
        score: score.saturating_sub(less).max(1),
        likelihood: match score {
            CERTAIN.. => Likelihood::Certain,
            LIKELY.. => Likelihood::Likely,
            _ => Likelihood::Possible,
        },
        cause: symptom.cause.clone(),
        source: symptom.sources.first().cloned().unwrap_or_default(),
        symptom: Some(symptom.name.clone()),
        words: Vec::new(),
        sources: symptom.sources.clone(),
        line: Quote { number: found.first.line, text: found.first.text.clone(), file: None },
        count: found.count,
        standing: None,
        remedy: remedy(check),
    }
}

fn of_hint(hint: &Hint, found: HintMatch) -> SymptomMatch {
    let score = (HINT_BASE + HINT_POINT * found.points).clamp(1, MAX_HINT);
    let references = check::find(hint.check).map_or(&[][..], |check| check.references);
    let sources = addresses(references);
    SymptomMatch {
        check: hint.check.to_owned(),
        score: u8::try_from(score).unwrap_or(1),
        likelihood: Likelihood::Possible,
        cause: hint.cause.to_owned(),
        source: sources.first().cloned().unwrap_or_default(),
        symptom: None,
        words: found.words,
        sources,
        line: Quote { number: found.line, text: found.text, file: None },
        count: 1,
        standing: None,
        remedy: remedy(hint.check),
    }
}

/// Makes a cause a possible one.
fn make_question(found: &mut SymptomMatch) {
    found.likelihood = Likelihood::Possible;
    found.score = found.score.min(LIKELY - 1);
}

fn remedy(check: &str) -> String {
    check::find(check).map_or_else(String::new, |check| check.remedy.to_owned())
}

/// The web addresses of a check's references.
fn addresses(references: &[&str]) -> Vec<String> {
    let addresses = references.iter().filter(|text| text.starts_with("https://"));
    addresses.map(|&text| text.to_owned()).collect()
}

/// The first ports, and how many more there are.
fn names(ports: &[&Port]) -> String {
    let names: Vec<&str> = (ports.iter().take(MAX_PORTS)).map(|port| port.name.as_str()).collect();
    match ports.len().saturating_sub(MAX_PORTS) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

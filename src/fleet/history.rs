//! The nodes of a fleet over time: takes in records in any order, one at a time, and keeps a few bytes of each node and time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::names::{cut, masks};
use super::{fold, natural};
use crate::model::Order as _;
use crate::model::{
    FLEET_SCHEMA, FleetState, History, MaskKey, NodeHistory, Outcome, ProblemHistory, RECORD_SCHEMA,
};

const DAY: u64 = 86_400;
/// Failures and recoveries from which on a node flaps.
const FLAPS: usize = 2;
/// Most problems of a node that are listed, and that are counted.
const MAX_LISTED: usize = 5;
const MAX_PROBLEMS: usize = 1_000;
/// Most reports of nodes: ten years of 1,000 nodes by day.
const MAX_POINTS: usize = 4_000_000;

/// The parts of a record that a history needs.
#[derive(Debug, Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    schema: Cow<'a, str>,
    #[serde(borrow, default)]
    taken: Cow<'a, str>,
    #[serde(borrow, default)]
    problems: Vec<Problem<'a>>,
    #[serde(borrow, default)]
    nodes: Vec<Node<'a>>,
    #[serde(borrow, default)]
    absent: Vec<Absent<'a>>,
    #[serde(borrow)]
    record: Option<Box<Document<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Problem<'a> {
    #[serde(borrow)]
    check: Cow<'a, str>,
    #[serde(borrow)]
    device: Cow<'a, str>,
    outcome: Outcome,
}

#[derive(Debug, Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    taken: Cow<'a, str>,
    #[serde(borrow)]
    booted: Option<Cow<'a, str>>,
    state: FleetState,
    #[serde(default)]
    problems: Vec<Reference>,
    #[serde(borrow, default)]
    counters: BTreeMap<Cow<'a, str>, Flaps>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    problem: usize,
}

/// The counters of a port or an interface that say how often its link went down.
#[derive(Debug, Default, Deserialize)]
struct Flaps {
    #[serde(default)]
    link_downed: u64,
    #[serde(default)]
    link_down_events_phy: u64,
}

/// A record names an absent node, a report of a fleet says more of it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Absent<'a> {
    Name(#[serde(borrow)] Cow<'a, str>),
    Node {
        #[serde(borrow)]
        node: Cow<'a, str>,
    },
}

/// Records over time.
#[derive(Debug, Default)]
pub struct Timeline {
    nodes: Vec<Line>,
    by_name: HashMap<String, usize>,
    problems: Vec<(String, String)>,
    by_problem: HashMap<(String, String), u32>,
    notes: BTreeSet<String>,
    reports: usize,
}

/// One node.
#[derive(Debug, Default)]
struct Line {
    name: String,
    points: Vec<Point>,
    /// By problem: reports that have it, the first and the last time.
    problems: HashMap<u32, (usize, u32, u32)>,
}

/// A node at one time.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Seconds since the epoch.
    time: u32,
    booted: u32,
    flaps: u32,
    state: State,
}

/// The best first: the worst of a day counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ok,
    Undetermined,
    Slow,
    Absent,
    Failed,
}

impl State {
    fn letter(self) -> char {
        match self {
            Self::Ok => '.',
            Self::Undetermined => '?',
            Self::Slow => 's',
            Self::Absent => '-',
            Self::Failed => 'X',
        }
    }
}

impl Timeline {
    /// Takes in a record, or a report of a fleet. False if the document is another one.
    pub fn add(&mut self, json: &[u8]) -> serde_json::Result<bool> {
        let document: Document<'_> = serde_json::from_slice(json)?;
        match (document.schema.as_ref(), document.record) {
            (FLEET_SCHEMA, Some(record)) => self.record(&record, seconds(&document.taken)),
            (RECORD_SCHEMA, _) | (FLEET_SCHEMA, None) => {
                let document = Document { record: None, ..document };
                self.record(&document, seconds(&document.taken));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.insert(note.into());
    }

    fn record(&mut self, record: &Document<'_>, taken: Option<u32>) {
        let problems: Vec<Option<u32>> = record
            .problems
            .iter()
            .map(|problem| {
                matches!(problem.outcome, Outcome::Fail | Outcome::Warn)
                    .then(|| self.problem(problem))
            })
            .collect();
        for node in &record.nodes {
            let Some(time) = seconds(&node.taken).or(taken) else {
                self.note(format!("{}: a report without a time is left out", cut(&node.name)));
                continue;
            };
            let state = match node.state {
                FleetState::Ok => State::Ok,
                FleetState::Undetermined => State::Undetermined,
                FleetState::Slow => State::Slow,
                FleetState::Failed => State::Failed,
            };
            let sum = |count: fn(&Flaps) -> u64| {
                node.counters.values().map(count).fold(0, u64::saturating_add)
            };
            // Some drivers count an event in both.
            let flaps = sum(|flaps| flaps.link_downed).max(sum(|flaps| flaps.link_down_events_phy));
            let point = Point {
                time,
                booted: node.booted.as_deref().and_then(seconds).unwrap_or(0),
                flaps: u32::try_from(flaps).unwrap_or(u32::MAX),
                state,
            };
            let Some(line) = self.line(&node.name) else { return };
            line.points.push(point);
            for problem in &node.problems {
                let Some(problem) = problems.get(problem.problem).copied().flatten() else {
                    continue;
                };
                if line.problems.len() == MAX_PROBLEMS && !line.problems.contains_key(&problem) {
                    continue;
                }
                let known = line.problems.entry(problem).or_insert((0, time, time));
                *known = (known.0 + 1, known.1.min(time), known.2.max(time));
            }
        }
        let times = record.nodes.iter().filter_map(|node| seconds(&node.taken));
        let Some(time) = times.max().or(taken) else { return };
        for absent in &record.absent {
            let (Absent::Name(name) | Absent::Node { node: name }) = absent;
            let Some(line) = self.line(name) else { return };
            line.points.push(Point { time, booted: 0, flaps: 0, state: State::Absent });
        }
    }

    fn problem(&mut self, problem: &Problem<'_>) -> u32 {
        let key = (cut(&problem.check), cut(&problem.device));
        let all = &mut self.problems;
        *self.by_problem.entry(key).or_insert_with_key(|key| {
            all.push(key.clone());
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// The line of a node; none if there are too many reports.
    fn line(&mut self, name: &str) -> Option<&mut Line> {
        if self.reports == MAX_POINTS {
            self.note(format!("only the first {MAX_POINTS} reports of nodes were read"));
            return None;
        }
        self.reports += 1;
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                self.nodes.push(Line { name: cut(name), ..Line::default() });
                self.by_name.insert(name.to_owned(), self.nodes.len() - 1);
                self.nodes.len() - 1
            }
        };
        self.nodes.get_mut(at)
    }

    /// Replaces the names of the nodes, as a report does. Notes name files, which may have names of nodes.
    pub fn mask(&mut self, key: Option<&MaskKey>) {
        let names = self.nodes.iter().map(|line| line.name.clone()).collect();
        let masks = masks(names, key);
        for line in &mut self.nodes {
            line.name = masks.get(&line.name).cloned().unwrap_or_default();
        }
        self.notes.clear();
    }

    /// The history of all nodes.
    pub fn history(mut self) -> History {
        for line in &mut self.nodes {
            line.points.order_by_key(|point| point.time);
        }
        let days: BTreeSet<u64> =
            self.nodes.iter().flat_map(|line| &line.points).map(Point::day).collect();
        let columns: HashMap<u64, usize> = days.iter().copied().zip(0..).collect();
        let mut not_ok = vec![0; columns.len()];
        let mut ok = Vec::new();
        let mut nodes = Vec::new();
        for line in &self.nodes {
            let states = line.by_day(&columns);
            for (count, state) in not_ok.iter_mut().zip(&states) {
                *count += usize::from(state.is_some_and(|state| state != State::Ok));
            }
            if states.iter().flatten().all(|state| *state == State::Ok) {
                ok.push(line.name.as_str());
            } else {
                nodes.push(self.node(line, &states));
            }
        }
        nodes.order_by(|a: &NodeHistory, b: &NodeHistory| {
            let rank =
                |node: &NodeHistory| (node.state == '.', !node.flaps, usize::MAX - node.failures);
            rank(a).cmp(&rank(b)).then_with(|| natural(&a.name).cmp(&natural(&b.name)))
        });
        History {
            days: days.iter().map(|day| rfc3339(day * DAY)[..10].to_owned()).collect(),
            not_ok,
            reports: self.reports,
            always_ok_count: ok.len(),
            always_ok: fold(ok),
            nodes,
            notes: self.notes.into_iter().collect(),
        }
    }

    fn node(&self, line: &Line, states: &[Option<State>]) -> NodeHistory {
        let was_ok = |point: &Point| point.state == State::Ok;
        let turns = |from: bool| {
            line.points
                .windows(2)
                .filter(|pair| was_ok(&pair[0]) == from && was_ok(&pair[1]) != from)
                .count()
        };
        let (failures, recoveries) = (turns(true), turns(false));
        let last = line.points.last();
        let since = last.and_then(|last| {
            line.points.iter().rev().take_while(|point| point.state == last.state).last()
        });
        let mut problems: Vec<(&u32, &(usize, u32, u32))> = line.problems.iter().collect();
        let name = |at: u32| self.problems.get(at as usize).cloned().unwrap_or_default();
        problems.order_by(|a, b| b.1.cmp(a.1).then_with(|| name(*a.0).cmp(&name(*b.0))));
        problems.truncate(MAX_LISTED);
        NodeHistory {
            name: line.name.clone(),
            line: states.iter().map(|state| state.map_or(' ', State::letter)).collect(),
            state: last.map_or(' ', |last| last.state.letter()),
            since: since.map_or_else(String::new, |point| rfc3339(point.time.into())),
            failures,
            recoveries,
            flaps: failures >= FLAPS && recoveries >= FLAPS,
            link_flaps: line.link_flaps(),
            problems: problems
                .into_iter()
                .map(|(problem, (reports, first, last))| {
                    let (check, device) = name(*problem);
                    ProblemHistory {
                        check,
                        device,
                        reports: *reports,
                        first: rfc3339((*first).into()),
                        last: rfc3339((*last).into()),
                    }
                })
                .collect(),
        }
    }
}

impl Point {
    fn day(&self) -> u64 {
        u64::from(self.time) / DAY
    }
}

impl Line {
    /// The worst state of each day.
    fn by_day(&self, columns: &HashMap<u64, usize>) -> Vec<Option<State>> {
        let mut states = vec![None; columns.len()];
        for point in &self.points {
            if let Some(state) = columns.get(&point.day()).and_then(|at| states.get_mut(*at)) {
                *state = (*state).max(Some(point.state));
            }
        }
        states
    }

    /// What the counters rose by; a start of the machine resets them.
    fn link_flaps(&self) -> u64 {
        let read: Vec<&Point> =
            self.points.iter().filter(|point| point.state != State::Absent).collect();
        let rise = |pair: &[&Point]| {
            let has_started = pair[1].booted > pair[0].time;
            let rise = pair[1].flaps.saturating_sub(pair[0].flaps);
            if has_started { 0 } else { u64::from(rise) }
        };
        read.windows(2).map(rise).sum()
    }
}

/// Seconds since the epoch.
fn seconds(time: &str) -> Option<u32> {
    let time = humantime::parse_rfc3339(time).ok()?;
    let passed = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u32::try_from(passed.as_secs()).ok()
}

fn rfc3339(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .to_string()
}

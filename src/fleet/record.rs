//! Reduces reports to a record: problems by device, versions, devices, counters and figures. Equal parts are kept once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use super::document::{Figure, Finding, Head, Part};
use super::names::cut;
use crate::model::{
    BYTES, DeviceReading, FigureName, MICROSECONDS, NodeRecord, Outcome, PortReading, ProbeVerdict,
    Problem, Readings, Record, RecordedProblem, Severity, counter,
};

/// Most problems of a node.
const MAX_PROBLEMS: usize = 2_000;

/// A record while reports come in.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    nodes: Vec<NodeRecord>,
    /// Checks that ran, and whether each judged anything.
    checks: Numbered<BTreeMap<String, bool>>,
    versions: Numbered<Set>,
    devices: Numbered<Set>,
    problems: Numbered<Problem>,
    figures: Numbered<FigureName>,
    /// Checks of the current report that fail by themselves, and those that others explain, with the root.
    roots: BTreeSet<String>,
    explained: BTreeMap<String, String>,
    /// Since when problems are known, by check and device.
    still: BTreeMap<(String, String), String>,
    /// Checks of the current report, and whether each judged anything.
    judged: BTreeMap<String, bool>,
    /// Number of problems that the node had before the current report.
    before: usize,
}

type Set = BTreeMap<String, String>;

/// Values by number; each is kept once.
#[derive(Debug)]
struct Numbered<T> {
    all: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        *self.numbers.entry(value).or_insert_with_key(|value| {
            self.all.push(value.clone());
            self.all.len() - 1
        })
    }
}

impl Recorder {
    /// A report of a node begins.
    pub fn open(&mut self, at: usize, name: &str, head: &Head<'_>) {
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, NodeRecord::default);
        }
        let node = &mut self.nodes[at];
        name.clone_into(&mut node.name);
        head.gdr.as_ref().clone_into(&mut node.gdr);
        if *head.taken > *node.taken {
            node.taken = cut(&head.taken);
        }
        if let Some(booted) = &head.host.booted {
            node.booted = Some(cut(booted));
        }
        self.roots.clear();
        self.explained.clear();
        self.still.clear();
        self.before = node.problems.len();
    }

    /// The report ends. Its keys may have had any order.
    pub fn close(&mut self, at: usize) {
        let judged = std::mem::take(&mut self.judged);
        if !judged.is_empty() {
            self.nodes[at].checks = Some(self.checks.number(judged));
        }
        for own in &mut self.nodes[at].problems[self.before..] {
            let Problem { check, device, .. } = &self.problems.all[own.problem];
            let cause = self.explained.get(check).filter(|_| !self.roots.contains(check));
            own.cause = cause.cloned();
            own.since = self.still.get(&(check.clone(), device.clone())).cloned();
        }
    }

    pub fn part(&mut self, at: usize, part: &Part<'_>) {
        match part {
            Part::Root(root) => {
                self.roots.insert(root.check.to_string());
                for check in &root.explains {
                    self.explained.insert(check.to_string(), root.check.to_string());
                }
            }
            Part::Still(still) => {
                for device in &still.devices {
                    if let Some(since) =
                        still.since.as_ref().filter(|_| self.still.len() < MAX_PROBLEMS)
                    {
                        self.still.insert((still.what.clone(), device.clone()), cut(since));
                    }
                }
            }
            Part::Finding(finding) => self.finding(at, finding),
            Part::Readings(readings) => self.readings(at, readings),
            Part::Figure(figure) => self.figure(at, figure),
            _ => {}
        }
    }

    fn finding(&mut self, at: usize, finding: &Finding<'_>) {
        let outcome = finding.outcome;
        let is_judged = !matches!(outcome, Outcome::Skip | Outcome::Unknown);
        let judged = self.judged.entry(finding.id.to_string()).or_default();
        *judged |= is_judged;
        let is_problem = match outcome {
            Outcome::Fail | Outcome::Warn => true,
            Outcome::Unknown => finding.severity == Severity::Error,
            Outcome::Pass | Outcome::Info | Outcome::Skip => false,
        };
        if !is_problem {
            return;
        }
        let check: &str = &finding.id;
        for device in finding.subject.split(", ") {
            if self.nodes[at].problems.len() == MAX_PROBLEMS {
                return;
            }
            let problem = self.problems.number(Problem {
                check: check.to_owned(),
                device: cut(device),
                outcome,
                message: cut(&finding.message),
            });
            let problems = &mut self.nodes[at].problems;
            problems.push(RecordedProblem { problem, cause: None, since: None });
        }
    }

    fn readings(&mut self, at: usize, readings: &Readings) {
        let node = &mut self.nodes[at];
        for (of, counters) in &readings.counters {
            let known = counters.iter().filter(|(name, count)| {
                **count > 0 && counter(name).is_some_and(|counter| counter.kind.is_fault())
            });
            let known = known.map(|(name, count)| (name.clone(), *count)).collect();
            node.counters.insert(of.clone(), known);
        }
        node.versions = Some(self.versions.number(readings.versions.clone()));
        node.devices = Some(self.devices.number(devices(readings)));
    }

    fn figure(&mut self, at: usize, figure: &Figure<'_>) {
        let is_valid = matches!(figure.verdict, ProbeVerdict::Ok | ProbeVerdict::Slow);
        let Some(value) = figure.median.filter(|value| is_valid && value.is_finite()) else {
            return;
        };
        if figure.unit == BYTES || self.nodes[at].figures.len() == MAX_PROBLEMS {
            return;
        }
        let number = self.figures.number(FigureName {
            name: cut(&figure.name),
            subject: cut(&figure.subject),
            bytes: figure.bytes,
            unit: cut(&figure.unit),
        });
        // From several NUMA nodes the best counts, as among the nodes of a fleet.
        match self.nodes[at].figures.last_mut() {
            Some((last, known)) if *last == number => {
                *known =
                    if figure.unit == MICROSECONDS { known.min(value) } else { known.max(value) };
            }
            _ => self.nodes[at].figures.push((number, value)),
        }
    }

    pub fn finish(self) -> Record {
        Record {
            checks: self.checks.all,
            problems: self.problems.all,
            versions: self.versions.all,
            devices: self.devices.all,
            figures: self.figures.all,
            nodes: self.nodes,
            absent: Vec::new(),
        }
    }
}

/// These stand among the devices where a list of them is unknown.
pub(super) const UNKNOWN_GPUS: &str = "GPUs unknown";
pub(super) const UNKNOWN_NICS: &str = "NICs unknown";

/// GPUs, NICs and ports, each with what should stay as it is.
fn devices(readings: &Readings) -> Set {
    let mut devices = Set::new();
    for (name, list) in [(UNKNOWN_GPUS, &readings.gpus), (UNKNOWN_NICS, &readings.nics)] {
        if list.is_none() {
            devices.insert(name.to_owned(), String::new());
        }
    }
    let width = |device: &DeviceReading| device.width.map(|width| format!("x{width}"));
    for gpu in readings.gpus.iter().flatten() {
        let name = gpu.bdf.as_ref().unwrap_or(&gpu.name);
        let parts = [gpu.model.clone(), width(gpu)];
        devices.insert(format!("GPU {name}"), joined(parts));
    }
    for nic in readings.nics.iter().flatten() {
        let place = nic.bdf.as_ref().map(|bdf| format!("at {bdf}"));
        let parts = [nic.model.clone(), place, width(nic)];
        devices.insert(format!("NIC {}", nic.name), joined(parts));
    }
    for PortReading { name, state, rate } in &readings.ports {
        let rate = rate.map(|rate| format!("{rate} Gb/s"));
        devices.insert(format!("port {name}"), joined([state.clone(), rate]));
    }
    devices
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

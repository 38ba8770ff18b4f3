//! Takes in the reports of nodes, one at a time: each is reduced to numbers of interned texts and figures, so the memory does
//! not grow with the documents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::{Document, Figure, Finding};
use super::network::Links;
use crate::model::{
    Absence, AbsentNode, BYTES, FleetState, MICROSECONDS, Outcome, PROBE_SCHEMA, ProbeVerdict,
    ReadyState, Severity,
};

/// Schema of topologies.
const TOPO_SCHEMA: &str = "gdr.topo/1";
/// Schema of the doctor's reports.
pub const DOCTOR_SCHEMA: &str = "gdr.doctor/1";

/// Most facts and figures of one document; further ones are left out, with a note.
const MAX_FACTS: usize = 100_000;

/// Checks whose evidence changes by itself: idle links, counters, memory in use.
const VOLATILE: [&str; 4] = [
    "pcie.link",
    "pcie.errors",
    "limits.rdma-cgroup",
    "platform.cma",
];

/// Reports of a fleet.
#[derive(Debug, Default)]
pub struct Fleet {
    pub(super) nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
    expected: BTreeSet<String>,
    pub(super) absent: BTreeMap<String, AbsentNode>,
    pub(super) texts: Texts,
    pub(super) keys: Vec<FactKey>,
    by_key: HashMap<FactKey, u32>,
    pub(super) series: Vec<Series>,
    by_series: HashMap<(u8, u32, u32, Option<u64>), usize>,
    /// Kinds of documents: doctor, and the probes by name.
    pub(super) kinds: Vec<String>,
    pub(super) simulated: bool,
    pub(super) notes: BTreeSet<String>,
    pub(super) links: Option<Links>,
}

/// A node with at least one report.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub name: String,
    pub state: FleetState,
    pub version: u32,
    /// Bits of the kinds of its documents.
    pub kinds: u32,
    /// Fact and value.
    pub facts: Vec<(u32, u32)>,
}

/// What identifies a fact: texts by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FactKey {
    pub kind: u8,
    /// The check or the result.
    pub id: u32,
    pub subject: u32,
    /// The source of an evidence; none for the outcome itself.
    pub source: Option<u32>,
}

/// One figure of all nodes.
#[derive(Debug)]
pub(super) struct Series {
    pub name: u32,
    pub subject: u32,
    pub bytes: Option<u64>,
    pub unit: u32,
    /// Node and value.
    pub values: Vec<(u32, f64)>,
}

/// Texts by number; each is kept once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Texts {
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    pub fn text(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", |text| text)
    }
}

impl Fleet {
    /// Nodes that must have a report.
    pub fn expect(&mut self, names: impl IntoIterator<Item = String>) {
        self.expected.extend(names);
    }

    /// A node that has no report.
    pub fn absent(&mut self, node: &str, why: Absence, reason: impl Into<String>) {
        let absent = AbsentNode {
            node: node.to_owned(),
            why,
            reason: reason.into(),
        };
        // The first reason is the cause.
        self.absent.entry(node.to_owned()).or_insert(absent);
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.insert(note.into());
    }

    /// What was measured between the nodes.
    pub fn connect(&mut self, links: Links) {
        self.links = Some(links);
    }

    /// A report. `node` is its name if a launcher gave one; else the report names its host, or `source` does. A report that
    /// cannot be used makes the node absent.
    pub fn add(&mut self, node: Option<&str>, source: &str, json: &[u8]) {
        let name = node.unwrap_or(source);
        if json.trim_ascii().is_empty() {
            return self.absent(
                name,
                Absence::Ended,
                "its report is empty: gdr ended before it could write one",
            );
        }
        let document: Document<'_> = match serde_json::from_slice(json) {
            Ok(document) => document,
            Err(error) if error.is_eof() => {
                let reason =
                    "its report is cut off: gdr ended while it wrote, or the copy is incomplete";
                return self.absent(name, Absence::Ended, reason);
            }
            Err(error) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                return self.absent(
                    name,
                    Absence::Invalid,
                    format!("its report is no valid JSON of gdr doctor, topo or probe: {place}"),
                );
            }
        };
        let kind = match (document.schema.as_ref(), document.probe) {
            (DOCTOR_SCHEMA, _) => "doctor".to_owned(),
            (PROBE_SCHEMA, Some(probe)) => format!("probe {}", probe.name()),
            (TOPO_SCHEMA, _) => "topo".to_owned(),
            (schema, _)
                if ["gdr.doctor/", "gdr.probe/", "gdr.topo/"]
                    .iter()
                    .any(|known| schema.starts_with(known)) =>
            {
                let reason = format!(
                    "another gdr ({}) wrote it, with a schema that this gdr does not read",
                    document.gdr
                );
                return self.absent(name, Absence::Version, reason);
            }
            _ => {
                return self.absent(
                    name,
                    Absence::Invalid,
                    "its report is not of gdr doctor, topo or probe",
                );
            }
        };
        self.document(node, source, &document, &kind);
    }

    fn document(&mut self, node: Option<&str>, source: &str, document: &Document<'_>, kind: &str) {
        let Some(kind) = self.kind(kind) else {
            return;
        };
        let at = self.node(node, source, document, kind);
        let version = self.texts.number(&document.gdr);
        self.simulated |= document.simulated;
        let mut facts = Vec::new();
        if document.probe.is_none() {
            self.add_host(document, kind, &mut facts);
        }
        self.add_topology(document, kind, &mut facts);
        let mut state = self.add_findings(&document.findings, kind, &mut facts);
        for readiness in &document.readiness {
            let is_open = readiness.state == ReadyState::Undetermined;
            state = state.max(if is_open {
                FleetState::Undetermined
            } else {
                FleetState::Ok
            });
            let word = format!("{:?}", readiness.state);
            self.fact(&mut facts, kind, ("ready", &readiness.profile, None), &word);
        }
        state = state.max(self.add_results(&document.results, at, kind, &mut facts));
        for change in document
            .baseline
            .iter()
            .flat_map(|baseline| &baseline.changes)
        {
            if change
                .figure
                .as_ref()
                .is_some_and(|figure| figure.regression)
            {
                let value = |text: &Option<std::borrow::Cow<'_, str>>| {
                    text.as_deref().unwrap_or("none").to_owned()
                };
                let text = format!(
                    "fail: worse than its baseline: {}, was {}",
                    value(&change.b),
                    value(&change.a)
                );
                self.fact(&mut facts, kind, (&change.fact, &change.area, None), &text);
                state = FleetState::Failed;
            }
        }
        if !document.complete {
            state = state.max(FleetState::Undetermined);
        }
        if facts.len() > MAX_FACTS {
            facts.truncate(MAX_FACTS);
            self.note(format!(
                "{}: only the first {MAX_FACTS} facts were compared",
                self.nodes[at].name
            ));
        }
        facts.shrink_to_fit();
        let node = &mut self.nodes[at];
        node.state = node.state.max(state);
        node.version = version;
        node.facts.append(&mut facts);
    }

    fn kind(&mut self, name: &str) -> Option<u8> {
        let at = self
            .kinds
            .iter()
            .position(|kind| kind == name)
            .unwrap_or_else(|| {
                self.kinds.push(name.to_owned());
                self.kinds.len() - 1
            });
        // A mask of 32 bits; there are fewer probes.
        u8::try_from(at).ok().filter(|at| *at < 32)
    }

    /// The node of a document. Two documents of one kind are of two nodes, whatever their names.
    fn node(
        &mut self,
        node: Option<&str>,
        source: &str,
        document: &Document<'_>,
        kind: u8,
    ) -> usize {
        let host = document
            .host
            .name
            .as_deref()
            .filter(|name| !name.is_empty());
        let plain = node.or(host).unwrap_or(source).to_owned();
        let has_kind = |name: &str| {
            let known = self.by_name.get(name).and_then(|at| self.nodes.get(*at));
            known.is_some_and(|known| known.kinds & (1 << kind) != 0)
        };
        let name = match has_kind(&plain) {
            true => format!("{plain} ({source})"),
            false => plain,
        };
        let at = *self.by_name.entry(name.clone()).or_insert_with(|| {
            self.nodes.push(Node {
                name,
                ..Node::default()
            });
            self.nodes.len() - 1
        });
        self.nodes[at].kinds |= 1 << kind;
        at
    }

    fn fact(
        &mut self,
        facts: &mut Vec<(u32, u32)>,
        kind: u8,
        key: (&str, &str, Option<&str>),
        value: &str,
    ) {
        let (id, subject, source) = key;
        let key = FactKey {
            kind,
            id: self.texts.number(id),
            subject: self.texts.number(subject),
            source: source.map(|source| self.texts.number(source)),
        };
        let keys = &mut self.keys;
        let number = *self.by_key.entry(key).or_insert_with(|| {
            keys.push(key);
            u32::try_from(keys.len() - 1).unwrap_or(u32::MAX)
        });
        facts.push((number, self.texts.number(value)));
    }

    fn add_host(&mut self, document: &Document<'_>, kind: u8, facts: &mut Vec<(u32, u32)>) {
        let host = &document.host;
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
        for (what, value) in [
            ("system", text(&host.os)),
            ("kernel", text(&host.kernel)),
            ("CPU", text(&host.cpu)),
            ("CPUs", number(host.cpus)),
            // Equal machines differ by a few MiB.
            (
                "memory, GiB",
                number(host.memory.map(|bytes| (bytes + (1 << 29)) >> 30)),
            ),
        ] {
            if let Some(value) = value {
                self.fact(facts, kind, ("host", what, None), &value);
            }
        }
    }

    fn add_topology(&mut self, document: &Document<'_>, kind: u8, facts: &mut Vec<(u32, u32)>) {
        for device in &document.devices {
            let place = device.bdf.as_deref().unwrap_or("no PCI function");
            let numa = device
                .numa
                .map_or("none".to_owned(), |numa| numa.to_string());
            let links = device
                .nvlinks
                .map_or("unknown".to_owned(), |links| links.to_string());
            let value = format!(
                "{} at {place}, NUMA node {numa}, NVLinks {links}",
                device.label
            );
            self.fact(facts, kind, ("device", &device.name, None), &value);
        }
        for (from, row) in &document.matrix {
            for (to, class) in row.iter().filter(|(to, _)| *to > from) {
                self.fact(
                    facts,
                    kind,
                    ("path", &format!("{from} to {to}"), None),
                    class,
                );
            }
        }
    }

    fn add_findings(
        &mut self,
        findings: &[Finding<'_>],
        kind: u8,
        facts: &mut Vec<(u32, u32)>,
    ) -> FleetState {
        let mut state = FleetState::Ok;
        for finding in findings {
            let outcome = match finding.outcome {
                Outcome::Fail => "fail",
                Outcome::Warn => "warn",
                Outcome::Unknown if finding.severity == Severity::Error => "unknown",
                Outcome::Unknown => "not known",
                Outcome::Pass => "pass",
                Outcome::Info => "info",
                Outcome::Skip => "skip",
            };
            state = state.max(match outcome {
                "fail" => FleetState::Failed,
                "unknown" => FleetState::Undetermined,
                _ => FleetState::Ok,
            });
            let value = format!("{outcome}: {}", finding.message);
            self.fact(facts, kind, (&finding.id, &finding.subject, None), &value);
            if VOLATILE.contains(&finding.id.as_ref()) {
                continue;
            }
            for evidence in &finding.evidence {
                let key = (
                    finding.id.as_ref(),
                    finding.subject.as_ref(),
                    Some(evidence.source.as_ref()),
                );
                self.fact(facts, kind, key, &evidence.value);
            }
        }
        state
    }

    fn add_results(
        &mut self,
        results: &[Figure<'_>],
        node: usize,
        kind: u8,
        facts: &mut Vec<(u32, u32)>,
    ) -> FleetState {
        let mut state = FleetState::Ok;
        let node = u32::try_from(node).unwrap_or(u32::MAX);
        for result in results.iter().take(MAX_FACTS) {
            let failed = match result.verdict {
                ProbeVerdict::Wrong => true,
                ProbeVerdict::Impossible => result.required,
                _ => false,
            };
            if failed {
                state = FleetState::Failed;
            }
            if matches!(
                result.verdict,
                ProbeVerdict::Wrong | ProbeVerdict::Impossible | ProbeVerdict::Slow
            ) {
                let word = if failed { "fail" } else { "warn" };
                let reason = result.reason.as_deref().unwrap_or("no reason was given");
                let value = format!(
                    "{word}: {}: {reason}",
                    result.verdict.word(result.median.is_some())
                );
                let name = match result.bytes {
                    Some(bytes) => format!("{}, {bytes} bytes", result.name),
                    None => result.name.to_string(),
                };
                self.fact(facts, kind, (&name, &result.subject, None), &value);
            }
            let is_valid = matches!(result.verdict, ProbeVerdict::Ok | ProbeVerdict::Slow);
            if let Some(value) = result.median.filter(|value| {
                is_valid && *value > 0.0 && value.is_finite() && result.unit != BYTES
            }) {
                self.figure(result, node, kind, value);
            }
        }
        state
    }

    fn figure(&mut self, result: &Figure<'_>, node: u32, kind: u8, value: f64) {
        let (name, subject) = (
            self.texts.number(&result.name),
            self.texts.number(&result.subject),
        );
        let unit = self.texts.number(&result.unit);
        let series = &mut self.series;
        let at = *self
            .by_series
            .entry((kind, name, subject, result.bytes))
            .or_insert_with(|| {
                series.push(Series {
                    name,
                    subject,
                    bytes: result.bytes,
                    unit,
                    values: Vec::new(),
                });
                series.len() - 1
            });
        // From several NUMA nodes the best counts: the others are far by design.
        let values = &mut self.series[at].values;
        match values.last_mut() {
            Some((last, known)) if *last == node && result.unit == MICROSECONDS => {
                *known = known.min(value)
            }
            Some((last, known)) if *last == node => *known = known.max(value),
            _ => values.push((node, value)),
        }
    }

    /// Ends the intake: nodes that were expected and have no report are missing.
    pub(super) fn close(&mut self) {
        let missing: Vec<String> = self
            .expected
            .iter()
            .filter(|name| !self.by_name.contains_key(*name))
            .cloned()
            .collect();
        for name in missing {
            self.absent(
                &name,
                Absence::Missing,
                "it was expected, and no report of it came",
            );
        }
        // A report that came in the end counts.
        let by_name = &self.by_name;
        self.absent.retain(|name, _| !by_name.contains_key(name));
    }
}

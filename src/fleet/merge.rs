//! Takes in the reports of nodes, one at a time: each is reduced to numbers of interned texts and figures, so the memory does
//! not grow with the documents.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::document::{self, Change, Device, Figure, Finding, Head, Part};
use super::names::cut;
use super::network::Links;
use super::node_facts::{Field, NODE_FACTS, NodeFact};
use super::reasons::Reasons;
use super::record::Recorder;
use super::wrongs::{Rank, Wrong, Wrongs, examine};
use crate::input::json_error;
use crate::model::{
    Absence, AbsentNode, BYTES, FleetState, MICROSECONDS, Outcome, PROBE_SCHEMA, ProbeVerdict,
    ReadyState, Severity,
};

/// Schema of topologies.
const TOPO_SCHEMA: &str = "gdr.topo/1";
/// Schema of the doctor's reports.
pub const DOCTOR_SCHEMA: &str = "gdr.doctor/1";

/// Most facts and most figures of one document; further ones are left out, with a note.
const MAX_FACTS: usize = 100_000;

/// Reports of a fleet.
#[derive(Debug)]
pub struct Fleet {
    /// True for the id of a check whose evidence changes by itself: only its outcomes are compared.
    is_volatile: fn(&str) -> bool,
    pub(super) node_facts: &'static [NodeFact],
    /// True for the id of a check of one device alone: without the device it has no finding.
    pub(super) is_of_one_device: fn(&str) -> bool,
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
    pub(super) recorder: Recorder,
}

/// A node with at least one report.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub name: String,
    pub state: FleetState,
    pub version: u32,
    pub reasons: Reasons,
    pub wrongs: Wrongs,
    /// Bits of the kinds of its documents.
    pub kinds: u32,
    /// Fact and value.
    pub facts: Vec<(u32, u32)>,
    /// Values of the columns of facts.
    pub fields: Vec<(Field, String)>,
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

/// What is taken in of one document.
struct Intake {
    node: u32,
    kind: u8,
    facts: Vec<(u32, u32)>,
    fields: Vec<(Field, String)>,
    /// Number of figures.
    figures: usize,
    /// Facts or figures were left out.
    is_cut: bool,
    state: FleetState,
    reasons: Reasons,
    wrongs: Wrongs,
}

impl Intake {
    /// A fault of a probe or of the report itself.
    fn wrong(&mut self, rank: Rank, fact: Option<u32>, check: &str, words: &str) {
        self.wrongs.add(Wrong {
            rank,
            fact,
            check: check.to_owned(),
            words: cut(words),
            action: examine(rank == Rank::Failed),
            fix: None,
        });
    }

    /// True if no more facts are taken in, and so no texts of theirs.
    fn is_full(&mut self) -> bool {
        let is_full = self.facts.len() == MAX_FACTS;
        self.is_cut |= is_full;
        is_full
    }

    fn at_least(&mut self, state: FleetState) {
        self.state = self.state.max(state);
    }
}

/// Texts by number; each is kept once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Texts {
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let text: Arc<str> = text.into();
        self.all.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub fn text(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", |text| text)
    }
}

impl Fleet {
    /// A fleet without reports, and what is true of checks by their ids.
    pub fn new(is_volatile: fn(&str) -> bool, is_of_one_device: fn(&str) -> bool) -> Self {
        Self {
            is_volatile,
            node_facts: NODE_FACTS,
            is_of_one_device,
            nodes: Vec::new(),
            by_name: HashMap::new(),
            expected: BTreeSet::new(),
            absent: BTreeMap::new(),
            texts: Texts::default(),
            keys: Vec::new(),
            by_key: HashMap::new(),
            series: Vec::new(),
            by_series: HashMap::new(),
            kinds: Vec::new(),
            simulated: false,
            notes: BTreeSet::new(),
            links: None,
            recorder: Recorder::default(),
        }
    }

    /// Nodes that must have a report.
    pub fn expect(&mut self, names: impl IntoIterator<Item = String>) {
        self.expected.extend(names);
    }

    /// A node that has no report.
    pub fn absent(&mut self, node: &str, why: Absence, reason: impl Into<String>) {
        let absent = AbsentNode { node: node.to_owned(), why, reason: reason.into() };
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
        // Before anything is taken in, because a report counts whole or not at all.
        let checked = serde_json::from_slice(json).and_then(|head: Head<'_>| {
            document::parts(json, &mut |_| ())?;
            Ok(head)
        });
        let head = match checked {
            Ok(head) => head,
            Err(error) if error.is_eof() => {
                let reason =
                    "its report is cut off: gdr ended while it wrote, or the copy is incomplete";
                return self.absent(name, Absence::Ended, reason);
            }
            Err(error) => {
                let reason = format!("gdr cannot read its report: {}", json_error(&error));
                return self.absent(name, Absence::Invalid, reason);
            }
        };
        let kind = match (head.schema.as_ref(), head.probe) {
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
                    head.gdr
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
        self.document(node, source, &head, &kind, json);
    }

    fn document(
        &mut self,
        node: Option<&str>,
        source: &str,
        head: &Head<'_>,
        kind: &str,
        json: &[u8],
    ) {
        let Some(kind) = self.kind(kind) else {
            return;
        };
        let at = self.node(node, source, head, kind);
        let version = self.texts.number(&head.gdr);
        self.simulated |= head.simulated;
        let mut intake = Intake {
            node: u32::try_from(at).unwrap_or(u32::MAX),
            kind,
            facts: Vec::new(),
            fields: Vec::new(),
            figures: 0,
            is_cut: false,
            state: if head.complete { FleetState::Ok } else { FleetState::Undetermined },
            reasons: Reasons::default(),
            wrongs: Wrongs::default(),
        };
        if !head.complete {
            let text =
                format!("gdr {}: it ended before it was complete", self.kinds[usize::from(kind)]);
            intake.reasons.add(FleetState::Undetermined, &text);
            intake.wrong(Rank::Unknown, None, "complete", &text);
        }
        if head.probe.is_none() {
            self.part(Part::Host(&head.host), &mut intake);
        }
        self.recorder.open(at, &self.nodes[at].name, head);
        // It was read to its end before.
        let _ = document::parts(json, &mut |part| {
            self.recorder.part(at, &part);
            self.part(part, &mut intake);
        });
        self.recorder.close(at);
        if intake.is_cut {
            self.note(format!(
                "{}: only the first {MAX_FACTS} facts and figures were compared",
                self.nodes[at].name
            ));
        }
        intake.facts.shrink_to_fit();
        let node = &mut self.nodes[at];
        node.state = node.state.max(intake.state);
        node.version = version;
        node.reasons.append(intake.reasons);
        node.wrongs.append(intake.wrongs);
        node.facts.append(&mut intake.facts);
        node.fields.append(&mut intake.fields);
    }

    fn part(&mut self, part: Part<'_>, intake: &mut Intake) {
        self.add_facts(&part, intake);
        match part {
            Part::Readiness(readiness) => {
                if readiness.state == ReadyState::Undetermined {
                    intake.at_least(FleetState::Undetermined);
                    let text = format!(
                        "profile {}: it cannot be determined whether the node is ready",
                        readiness.profile
                    );
                    intake.reasons.add(FleetState::Undetermined, &text);
                }
                let word = format!("{:?}", readiness.state);
                self.fact(intake, ("ready", &readiness.profile), &word);
            }
            Part::Root(root) => intake.reasons.root(&root),
            Part::Step(step) => intake.reasons.step(&step),
            Part::Finding(finding) => self.add_finding(&finding, intake),
            Part::Figure(figure) => self.add_result(&figure, intake),
            Part::Device(device) => self.add_device(&device, intake),
            // Each path stands in two rows.
            Part::Path(from, to, class) if to > from => {
                self.fact(intake, ("path", &format!("{from} to {to}")), class);
            }
            // A comparison of two times uses them, not one of nodes.
            Part::Host(_) | Part::Path(..) | Part::Readings(_) | Part::Still(_) => {}
            Part::Change(change) => self.add_change(&change, intake),
        }
    }

    fn kind(&mut self, name: &str) -> Option<u8> {
        let at = self.kinds.iter().position(|kind| kind == name).unwrap_or_else(|| {
            self.kinds.push(name.to_owned());
            self.kinds.len() - 1
        });
        // A mask of 32 bits; there are fewer probes.
        u8::try_from(at).ok().filter(|at| *at < 32)
    }

    /// The node of a document. Two documents of one kind are of two nodes, whatever their names.
    fn node(&mut self, node: Option<&str>, source: &str, head: &Head<'_>, kind: u8) -> usize {
        let host = head.host.name.as_deref().filter(|name| !name.is_empty());
        let plain = node.or(host).unwrap_or(source).to_owned();
        let has_kind = |name: &str| {
            let known = self.by_name.get(name).and_then(|at| self.nodes.get(*at));
            known.is_some_and(|known| known.kinds & (1 << kind) != 0)
        };
        let name = if has_kind(&plain) { format!("{plain} ({source})") } else { plain };
        let at = *self.by_name.entry(name.clone()).or_insert_with(|| {
            self.nodes.push(Node { name, ..Node::default() });
            self.nodes.len() - 1
        });
        self.nodes[at].kinds |= 1 << kind;
        at
    }

    /// Takes in a fact and returns its number; none if there is no room.
    fn fact(&mut self, intake: &mut Intake, key: (&str, &str), value: &str) -> Option<u32> {
        if intake.is_full() {
            return None;
        }
        let key = (self.texts.number(key.0), self.texts.number(key.1), None);
        Some(self.numbered_fact(intake, key, value))
    }

    /// A fact whose check, subject and source have numbers.
    fn numbered_fact(
        &mut self,
        intake: &mut Intake,
        key: (u32, u32, Option<u32>),
        value: &str,
    ) -> u32 {
        let (id, subject, source) = key;
        let key = FactKey { kind: intake.kind, id, subject, source };
        let keys = &mut self.keys;
        let number = *self.by_key.entry(key).or_insert_with(|| {
            keys.push(key);
            u32::try_from(keys.len() - 1).unwrap_or(u32::MAX)
        });
        intake.facts.push((number, self.texts.number(value)));
        number
    }

    fn add_facts(&mut self, part: &Part<'_>, intake: &mut Intake) {
        for fact in self.node_facts {
            let Some(value) = (fact.of)(part) else { continue };
            self.fact(intake, ("host", fact.name), &value);
            intake.fields.extend(fact.field.map(|field| (field, value)));
        }
    }

    fn add_device(&mut self, device: &Device<'_>, intake: &mut Intake) {
        let place = device.bdf.as_deref().unwrap_or("no PCI function");
        let numa = device.numa.map_or("none".to_owned(), |numa| numa.to_string());
        let links = device.nvlinks.map_or("unknown".to_owned(), |links| links.to_string());
        let value = format!("{} at {place}, NUMA node {numa}, NVLinks {links}", device.label);
        self.fact(intake, ("device", &device.name), &value);
    }

    fn add_finding(&mut self, finding: &Finding<'_>, intake: &mut Intake) {
        let outcome = match finding.outcome {
            Outcome::Fail => "fail",
            Outcome::Warn => "warn",
            Outcome::Unknown if finding.severity == Severity::Error => "unknown",
            Outcome::Unknown => "not known",
            Outcome::Pass => "pass",
            Outcome::Info => "info",
            Outcome::Skip => "skip",
        };
        let state = match outcome {
            "fail" => FleetState::Failed,
            "unknown" => FleetState::Undetermined,
            _ => FleetState::Ok,
        };
        intake.at_least(state);
        let is_consequence = intake.reasons.is_consequence(&finding.id, &finding.subject);
        if state != FleetState::Ok && !is_consequence {
            let text = format!("{} ({}): {}", finding.id, finding.subject, finding.message);
            intake.reasons.add(state, &text);
        }
        if intake.is_full() {
            intake.wrongs.add_finding(finding, None, is_consequence);
            return;
        }
        let value = format!("{outcome}: {}", finding.message);
        // Once for all evidence, because a subject may be long.
        let id = self.texts.number(&finding.id);
        let subject = self.texts.number(&finding.subject);
        let fact = self.numbered_fact(intake, (id, subject, None), &value);
        intake.wrongs.add_finding(finding, Some(fact), is_consequence);
        if (self.is_volatile)(finding.id.as_ref()) {
            return;
        }
        for evidence in &finding.evidence {
            if intake.is_full() {
                return;
            }
            let source = self.texts.number(&evidence.source);
            self.numbered_fact(intake, (id, subject, Some(source)), &evidence.value);
        }
    }

    fn add_change(&mut self, change: &Change<'_>, intake: &mut Intake) {
        let figure = change.figure.as_ref();
        if !figure.is_some_and(|figure| figure.regression) {
            return;
        }
        let value = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or("none").to_owned();
        let text = format!(
            "fail: worse than its baseline: {}, was {}",
            value(&change.b),
            value(&change.a)
        );
        let fact = self.fact(intake, (&change.fact, &change.area), &text);
        intake.at_least(FleetState::Failed);
        let text = text.trim_start_matches("fail: ");
        let text = format!("{} ({}): {text}", change.fact, change.area);
        intake.wrong(Rank::Failed, fact, "baseline", &text);
        intake.reasons.add(FleetState::Failed, &text);
    }

    fn add_result(&mut self, result: &Figure<'_>, intake: &mut Intake) {
        let failed = match result.verdict {
            ProbeVerdict::Wrong => true,
            ProbeVerdict::Impossible => result.required,
            _ => false,
        };
        if failed {
            intake.at_least(FleetState::Failed);
        }
        if matches!(
            result.verdict,
            ProbeVerdict::Wrong | ProbeVerdict::Impossible | ProbeVerdict::Slow
        ) {
            let word = if failed { "fail" } else { "warn" };
            let reason = result.reason.as_deref().unwrap_or("no reason was given");
            let value =
                format!("{word}: {}: {reason}", result.verdict.word(result.median.is_some()));
            let name = match result.bytes {
                Some(bytes) => format!("{}, {bytes} bytes", result.name),
                None => result.name.to_string(),
            };
            let fact = self.fact(intake, (&name, &result.subject), &value);
            if failed {
                let text = format!("{name} ({}): {reason}", result.subject);
                intake.wrong(Rank::Failed, fact, &result.name, &text);
                intake.reasons.add(FleetState::Failed, &text);
            }
        }
        let is_valid = matches!(result.verdict, ProbeVerdict::Ok | ProbeVerdict::Slow);
        if let Some(value) = result
            .median
            .filter(|value| is_valid && *value > 0.0 && value.is_finite() && result.unit != BYTES)
        {
            self.figure(result, intake, value);
        }
    }

    fn figure(&mut self, result: &Figure<'_>, intake: &mut Intake, value: f64) {
        if intake.figures == MAX_FACTS {
            intake.is_cut = true;
            return;
        }
        intake.figures += 1;
        let node = intake.node;
        let (name, subject) = (self.texts.number(&result.name), self.texts.number(&result.subject));
        let unit = self.texts.number(&result.unit);
        let series = &mut self.series;
        let at = *self.by_series.entry((intake.kind, name, subject, result.bytes)).or_insert_with(
            || {
                series.push(Series {
                    name,
                    subject,
                    bytes: result.bytes,
                    unit,
                    values: Vec::new(),
                });
                series.len() - 1
            },
        );
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
            self.absent(&name, Absence::Missing, "it was expected, and no report of it came");
        }
        // A report that came in the end counts.
        let by_name = &self.by_name;
        self.absent.retain(|name, _| !by_name.contains_key(name));
    }
}

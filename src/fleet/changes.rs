//! Compares two records of a fleet, node by node. What one side could not see is not a change of a machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::record::{UNKNOWN_GPUS, UNKNOWN_NICS};
use super::{fold, natural};
use crate::model::{
    Comparison, Counts, Difference, DifferenceKind, MICROSECONDS, NodeRecord, Order as _, Outcome,
    Problem, Record, is_flap, is_high, risen_since, span,
};

/// A figure that changed by this share has drifted.
const DRIFT: f64 = 0.1;
/// Most differences.
const MAX_DIFFERENCES: usize = 5_000;

/// Most problems and devices of a node that are compared.
const MAX_COMPARED: usize = 2_000;

/// Names and values.
type Set = BTreeMap<String, String>;

/// What identifies a difference of several nodes.
type Key = (
    DifferenceKind,
    String,
    Vec<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Vec<String>,
);

/// How `new` differs from `old`. The evidence and the words of volatile checks change by themselves. Problems that are still there
/// get the time since which they are known.
pub fn compare(old: &Record, new: &mut Record, is_volatile: fn(&str) -> bool) -> Comparison {
    let by_name: HashMap<&str, &NodeRecord> =
        old.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let mut all: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    let mut notes = Notes::default();
    let mut nodes = 0;
    let mut since = Vec::new();
    for (at, node) in new.nodes.iter().enumerate() {
        let Some(before) = by_name.get(node.name.as_str()) else {
            let change = Change::new(DifferenceKind::Node, "no report before");
            all.entry(change.key()).or_default().push(node.name.clone());
            continue;
        };
        nodes += 1;
        let pair = Pair { old, new, before, node, is_volatile };
        let mut changes = Changes::default();
        since.extend(pair.problems(&mut changes, &mut notes).into_iter().map(|found| (at, found)));
        pair.devices(&mut changes);
        pair.versions(&mut changes);
        pair.counters(&mut changes);
        pair.figures(&mut changes);
        for change in changes.0 {
            all.entry(change.key()).or_default().push(node.name.clone());
        }
    }
    let present: BTreeSet<&str> = new.nodes.iter().map(|node| node.name.as_str()).collect();
    for node in old.nodes.iter().filter(|node| !present.contains(node.name.as_str())) {
        let change = Change::new(DifferenceKind::Node, "no report now");
        all.entry(change.key()).or_default().push(node.name.clone());
    }
    for (at, (problem, first)) in since {
        new.nodes[at].problems[problem].since = Some(first);
    }
    let mut differences: Vec<Difference> = all.into_iter().map(difference).collect();
    differences.order_by(|a, b| {
        a.kind
            .cmp(&b.kind)
            .then(b.count.cmp(&a.count))
            .then_with(|| natural(&a.nodes).cmp(&natural(&b.nodes)))
    });
    if differences.len() > MAX_DIFFERENCES {
        notes.0.insert(format!(
            "{} more differences are not listed",
            differences.len() - MAX_DIFFERENCES
        ));
        differences.truncate(MAX_DIFFERENCES);
    }
    Comparison {
        source: String::new(),
        taken: old.nodes.iter().map(|node| &node.taken).max().cloned(),
        nodes,
        differences,
        notes: notes.sentences(),
    }
}

fn difference((key, mut nodes): (Key, Vec<String>)) -> Difference {
    let (kind, what, devices, before, now, since, explains) = key;
    nodes.sort_unstable();
    nodes.dedup();
    Difference {
        kind,
        what,
        devices,
        before,
        now,
        since,
        explains,
        count: nodes.len(),
        nodes: fold(nodes.iter().map(String::as_str)),
    }
}

/// A change of one node.
#[derive(Debug)]
struct Change {
    kind: DifferenceKind,
    what: String,
    devices: Vec<String>,
    before: Option<String>,
    now: Option<String>,
    since: Option<String>,
    explains: BTreeSet<String>,
}

impl Change {
    fn new(kind: DifferenceKind, what: &str) -> Self {
        Self {
            kind,
            what: what.to_owned(),
            devices: Vec::new(),
            before: None,
            now: None,
            since: None,
            explains: BTreeSet::new(),
        }
    }

    fn key(self) -> Key {
        let explains = self.explains.into_iter().collect();
        (self.kind, self.what, self.devices, self.before, self.now, self.since, explains)
    }

    /// True if it is about a device: one of its names stands in a list of devices.
    fn concerns(&self, device: &str) -> bool {
        let name = device.rsplit(' ').next().unwrap_or(device);
        let name = name
            .split_once(':')
            .filter(|(nic, _)| !nic.chars().all(|c| c.is_ascii_hexdigit()))
            .map_or(name, |(nic, _)| nic);
        let is_word = |text: &str| {
            let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','));
            words.any(|word| {
                word == name
                    || word.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '/']))
            })
        };
        self.devices.iter().any(|device| is_word(device))
    }
}

/// The changes of one node: those that differ only in their devices are one.
#[derive(Debug, Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn add(&mut self, change: Change) {
        let same = self.0.iter_mut().find(|known| {
            (known.kind, &known.what, &known.before, &known.now, &known.since)
                == (change.kind, &change.what, &change.before, &change.now, &change.since)
        });
        match same {
            Some(known) => {
                known.devices.extend(change.devices);
                known.explains.extend(change.explains);
            }
            None => self.0.push(change),
        }
    }

    /// The change of a check, if it is one of these kinds.
    fn of(&mut self, kinds: &[DifferenceKind], check: &str) -> Option<&mut Change> {
        self.0.iter_mut().find(|change| kinds.contains(&change.kind) && change.what == check)
    }

    /// True if a problem of a device came, changed or went.
    fn has_problem(&self, device: &str) -> bool {
        use DifferenceKind::{Changed, Fixed, New};
        self.0
            .iter()
            .any(|change| matches!(change.kind, New | Changed | Fixed) && change.concerns(device))
    }
}

/// Checks that one side does not have.
#[derive(Default)]
struct Notes(BTreeSet<String>, BTreeSet<String>, BTreeSet<String>);

impl Notes {
    fn sentences(self) -> Vec<String> {
        let list =
            |checks: &BTreeSet<String>| checks.iter().cloned().collect::<Vec<_>>().join(", ");
        let only = |checks: BTreeSet<String>, which: &str| {
            let text = format!(
                "only {which} report has these checks, so they are not compared (another gdr, or other options): {}",
                list(&checks)
            );
            (!checks.is_empty()).then_some(text)
        };
        let sides = [only(self.1, "this"), only(self.2, "the earlier")];
        sides.into_iter().flatten().chain(self.0).collect()
    }
}

/// One node at two times.
struct Pair<'a> {
    old: &'a Record,
    new: &'a Record,
    before: &'a NodeRecord,
    node: &'a NodeRecord,
    is_volatile: fn(&str) -> bool,
}

/// A problem of a node, its place in the node's list, the check that explains it, and since when it is known.
struct Found<'a> {
    at: usize,
    problem: &'a Problem,
    cause: Option<&'a str>,
    since: &'a str,
}

fn problems<'a>(
    record: &'a Record,
    node: &'a NodeRecord,
) -> BTreeMap<(&'a str, &'a str), Found<'a>> {
    let mut found = BTreeMap::new();
    for (at, own) in node.problems.iter().enumerate().take(MAX_COMPARED) {
        let Some(problem) = record.problems.get(own.problem) else { continue };
        let since = own.since.as_deref().unwrap_or(&node.taken);
        let cause = own.cause.as_deref();
        let known = found.entry((problem.check.as_str(), identity(&problem.device)));
        let new = Found { at, problem, cause, since };
        // A check may have two findings for a device: the worse one counts.
        known
            .and_modify(|known: &mut Found<'_>| {
                if problem.outcome.urgency() < known.problem.outcome.urgency() {
                    *known = Found { at, problem, cause, since };
                }
            })
            .or_insert(new);
    }
    found
}

fn is_wrong(problem: &Problem) -> bool {
    problem.outcome != Outcome::Unknown
}

/// The PCI address of a GPU's name: numbers of GPUs shift when one is gone.
fn identity(device: &str) -> &str {
    let inside = device.split_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.filter(|inside| inside.contains(':')).unwrap_or(device)
}

fn word(problem: &Problem) -> String {
    let outcome = match problem.outcome {
        Outcome::Fail => "fail",
        Outcome::Warn => "warn",
        _ => "unknown",
    };
    format!("{outcome}: {}", problem.message)
}

impl Pair<'_> {
    fn set<T>(list: &[T], at: Option<usize>) -> Option<&T> {
        at.and_then(|at| list.get(at))
    }

    /// Problems that came, changed, went or stayed. Returns those that stayed, with the time since which they are known.
    fn problems(&self, changes: &mut Changes, notes: &mut Notes) -> Vec<(usize, String)> {
        let nothing = BTreeMap::new();
        let old_checks = Self::set(&self.old.checks, self.before.checks).unwrap_or(&nothing);
        let new_checks = Self::set(&self.new.checks, self.node.checks).unwrap_or(&nothing);
        if old_checks.is_empty() || new_checks.is_empty() {
            return Vec::new();
        }
        for (from, to, into) in
            [(new_checks, old_checks, &mut notes.1), (old_checks, new_checks, &mut notes.2)]
        {
            into.extend(from.keys().filter(|check| !to.contains_key(*check)).cloned());
        }
        let old = problems(self.old, self.before);
        let new = problems(self.new, self.node);
        let mut since = Vec::new();
        let mut appeared = Vec::new();
        for (key, found) in &new {
            let check = key.0;
            if let Some(before) = old.get(key) {
                since.push((found.at, before.since.to_owned()));
                self.stayed(before, found, changes);
            } else if old_checks.contains_key(check) {
                appeared.push(found);
            }
        }
        appear(&appeared, changes);
        let gone = self.gone();
        let mut fixed = Vec::new();
        for (key, before) in
            old.iter().filter(|(key, before)| !new.contains_key(*key) && is_wrong(before.problem))
        {
            match new_checks.get(key.0) {
                None => {}
                Some(_) if gone.iter().any(|device| names(&before.problem.device, device)) => {}
                Some(true) => fixed.push(before),
                Some(false) => changes.add(Change {
                    devices: vec![before.problem.device.clone()],
                    before: Some(word(before.problem)),
                    now: Some("not judged: it is unknown now, or does not apply".to_owned()),
                    ..Change::new(DifferenceKind::Unknown, key.0)
                }),
            }
        }
        disappear(&fixed, changes);
        since
    }

    fn stayed(&self, before: &Found<'_>, found: &Found<'_>, changes: &mut Changes) {
        let (old, new) = (before.problem, found.problem);
        let same_words = (self.is_volatile)(&new.check) || old.message == new.message;
        let change = |kind| Change {
            devices: vec![new.device.clone()],
            before: Some(word(old)),
            now: Some(word(new)),
            ..Change::new(kind, &new.check)
        };
        match (is_wrong(old), is_wrong(new)) {
            (false, false) => {}
            (true, false) => changes.add(change(DifferenceKind::Unknown)),
            _ if found.cause.is_some() => {}
            (true, true) if old.outcome == new.outcome && same_words => changes.add(Change {
                before: None,
                since: Some(before.since.to_owned()),
                ..change(DifferenceKind::Still)
            }),
            (false, true) => changes.add(change(DifferenceKind::New)),
            (true, true) => changes.add(change(DifferenceKind::Changed)),
        }
    }

    /// Devices that only the earlier report has.
    fn gone(&self) -> Vec<&str> {
        let (Some(old), Some(new)) = self.device_sets() else { return Vec::new() };
        let known = old.keys().filter(|device| knows(new, device) && !new.contains_key(*device));
        known.take(MAX_COMPARED).map(String::as_str).collect()
    }

    /// The devices before and now.
    fn device_sets(&self) -> (Option<&Set>, Option<&Set>) {
        (
            Self::set(&self.old.devices, self.before.devices),
            Self::set(&self.new.devices, self.node.devices),
        )
    }

    fn devices(&self, changes: &mut Changes) {
        let (Some(old), Some(new)) = self.device_sets() else { return };
        let one_sided = |device: &str, others: &Set| {
            // A port comes and goes with its NIC.
            let nic = device.strip_prefix("port ").and_then(|port| port.split_once(':'));
            knows(others, device)
                && !others.contains_key(device)
                && nic.is_none_or(|(nic, _)| others.contains_key(&format!("NIC {nic}")))
        };
        let mut found = Vec::new();
        for (device, value) in old.iter().take(MAX_COMPARED) {
            if one_sided(device, new) {
                found.push((device, Some(value), None));
            } else if let Some(now) = new.get(device).filter(|now| *now != value)
                && !changes.has_problem(device)
            {
                found.push((device, Some(value), Some(now)));
            }
        }
        found.extend(
            new.iter()
                .take(MAX_COMPARED)
                .filter(|(device, _)| one_sided(device, old))
                .map(|(device, now)| (device, None, Some(now))),
        );
        for (device, before, now) in found {
            changes.add(Change {
                before: before.cloned(),
                now: now.cloned(),
                ..Change::new(DifferenceKind::Device, device)
            });
        }
    }

    fn versions(&self, changes: &mut Changes) {
        let mut add = |what: &str, before: Option<&String>, now: Option<&String>| {
            let (what, devices) = match what.strip_prefix("firmware of ") {
                Some(device) => ("firmware", vec![device.to_owned()]),
                None => (what, Vec::new()),
            };
            changes.add(Change {
                devices,
                before: before.cloned(),
                now: now.cloned(),
                ..Change::new(DifferenceKind::Version, what)
            });
        };
        let is_same_gdr = self.before.gdr == self.node.gdr;
        if !is_same_gdr {
            add("gdr", Some(&self.before.gdr), Some(&self.node.gdr));
        }
        let old = Self::set(&self.old.versions, self.before.versions);
        let new = Self::set(&self.new.versions, self.node.versions);
        let (Some(old), Some(new)) = (old, new) else { return };
        // A path is a library, which may come and go; others are unknown where they are missing, and another gdr knows others.
        let may_be_missing = |what: &str| is_same_gdr && what.starts_with('/');
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for what in names {
            match (old.get(what), new.get(what)) {
                (before, now) if before == now => {}
                (Some(before), Some(now)) => add(what, Some(before), Some(now)),
                (before, now) if may_be_missing(what) => add(what, before, now),
                _ => {}
            }
        }
    }

    fn counters(&self, changes: &mut Changes) {
        let Some(seconds) = seconds(&self.before.taken, &self.node.taken) else { return };
        let has_rebooted =
            self.node.booted.as_deref().is_some_and(|booted| booted > self.before.taken.as_str());
        let rises = rises(&self.before.counters, &self.node.counters, has_rebooted);
        for (device, rises) in rises {
            let judged = ["rdma.counters", "pcie.errors", "gpu.nvlink"];
            let gpu = device.strip_prefix("NVLink of ").unwrap_or(&device);
            let is_problem = changes
                .0
                .iter()
                .any(|change| judged.contains(&change.what.as_str()) && change.concerns(gpu));
            let high = rises.iter().filter(|(name, rise)| is_high(name, **rise, seconds));
            let words: Vec<String> = high.map(|(name, rise)| rate(name, *rise, seconds)).collect();
            if !words.is_empty() && !is_problem {
                changes.add(Change {
                    devices: vec![device],
                    now: Some(words.join(", ")),
                    ..Change::new(DifferenceKind::Counter, "counters")
                });
            }
        }
    }

    fn figures(&self, changes: &mut Changes) {
        let old: HashMap<_, f64> = self
            .before
            .figures
            .iter()
            .filter_map(|(at, value)| Some((self.old.figures.get(*at)?, *value)))
            .collect();
        for (at, now) in &self.node.figures {
            let Some(name) = self.new.figures.get(*at) else { continue };
            let Some(before) = old.get(name).filter(|before| **before > 0.0) else { continue };
            let share = now / before - 1.0;
            if share.abs() < DRIFT {
                continue;
            }
            let is_worse = (share < 0.0) != (name.unit == MICROSECONDS);
            let bytes = name.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
            let word = if is_worse { "worse" } else { "better" };
            changes.add(Change {
                devices: vec![name.subject.clone()],
                before: Some(format!("{before:.2} {}", name.unit)),
                now: Some(format!("{now:.2} {} ({word}, {:+.0} %)", name.unit, share * 100.0)),
                ..Change::new(DifferenceKind::Figure, &format!("{}{bytes}", name.name))
            });
        }
    }
}

/// False for the name of a list that is unknown, and for the devices of a list that is unknown on this side.
fn knows(devices: &Set, device: &str) -> bool {
    let list = if device.starts_with("GPU") { UNKNOWN_GPUS } else { UNKNOWN_NICS };
    !devices.contains_key(list) && device != UNKNOWN_GPUS && device != UNKNOWN_NICS
}

/// True if a subject names a device of the readings: `NIC mlx5_0`, `GPU 0000:18:00.0`.
fn names(subject: &str, device: &str) -> bool {
    let subject =
        Change { devices: vec![subject.to_owned()], ..Change::new(DifferenceKind::New, "") };
    subject.concerns(device)
}

/// Problems that came; what a new problem explains is folded into it.
fn appear(found: &[&Found<'_>], changes: &mut Changes) {
    use DifferenceKind::{Changed, New, Unknown};
    let (roots, consequences): (Vec<_>, Vec<_>) =
        found.iter().partition(|found| found.cause.is_none());
    let change = |found: &Found<'_>| Change {
        devices: vec![found.problem.device.clone()],
        now: Some(word(found.problem)),
        ..Change::new(if is_wrong(found.problem) { New } else { Unknown }, &found.problem.check)
    };
    for root in roots {
        changes.add(change(root));
    }
    for found in consequences {
        match found.cause.and_then(|cause| changes.of(&[New, Changed], cause)) {
            Some(root) => _ = root.explains.insert(found.problem.check.clone()),
            None => changes.add(change(found)),
        }
    }
}

/// Problems that went; what a fixed problem explained is folded into it.
fn disappear(found: &[&Found<'_>], changes: &mut Changes) {
    let (roots, consequences): (Vec<_>, Vec<_>) =
        found.iter().partition(|found| found.cause.is_none());
    let change = |found: &Found<'_>| Change {
        devices: vec![found.problem.device.clone()],
        before: Some(word(found.problem)),
        ..Change::new(DifferenceKind::Fixed, &found.problem.check)
    };
    for root in roots {
        changes.add(change(root));
    }
    for found in consequences {
        match found.cause.and_then(|cause| changes.of(&[DifferenceKind::Fixed], cause)) {
            Some(root) => _ = root.explains.insert(found.problem.check.clone()),
            None => changes.add(change(found)),
        }
    }
}

/// How much each counter rose, where both sides read it.
pub fn rises(before: &Counts, now: &Counts, has_rebooted: bool) -> Counts {
    let risen = |(of, after): (&String, &BTreeMap<String, u64>)| {
        let before = before.get(of)?;
        Some((of.clone(), risen_since(before, after, has_rebooted)))
    };
    now.iter().filter_map(risen).collect()
}

fn rate(name: &str, rise: u64, seconds: f64) -> String {
    if is_flap(name) {
        return format!("{name} +{rise} in {}", span(seconds));
    }
    format!("{name} +{rise} in {} ({:.0} an hour)", span(seconds), rise as f64 * 3600.0 / seconds)
}

/// Seconds between two times; none if they do not follow each other.
pub fn seconds(from: &str, to: &str) -> Option<f64> {
    let parse = |text: &str| humantime::parse_rfc3339(text).ok();
    let passed = parse(to)?.duration_since(parse(from)?).ok()?;
    Some(passed.as_secs_f64()).filter(|seconds| *seconds > 0.0)
}

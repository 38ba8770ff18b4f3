//! What gdr says about a machine, in a form in which two machines can be compared.

use std::collections::{BTreeMap, BTreeSet};

use gdr::check::{self, Ctx, Judged};
use gdr::model::{Facts, Kind, Outcome, PciClass, ReadyState, Row, Verdict};
use gdr::profile::{Expectations, Profile};
use gdr::topo::{self, Topology};

/// How bad an outcome is. Everything from `UNKNOWN` on asks for attention.
fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Fail => 3,
        Outcome::Warn => 2,
        Outcome::Unknown => UNKNOWN,
        Outcome::Info | Outcome::Pass | Outcome::Skip => 0,
    }
}
const UNKNOWN: u8 = 1;

pub struct Verdicts {
    /// The worst outcome of each check for each part of a subject.
    findings: BTreeMap<Key, Outcome>,
    /// The other parts of these subjects.
    beside: BTreeMap<Key, BTreeSet<String>>,
    ready_profiles: BTreeSet<String>,
    /// Profile and unit.
    ready_units: BTreeSet<(String, String)>,
    /// Pairs of a GPU and a NIC, and GPUs with their partner: 2 good, 1 likely good, 0 the rest.
    pairs: BTreeMap<String, u8>,
    messages: BTreeMap<Key, String>,
}

/// A check, and a part of a subject.
type Key = (String, String);

/// The checks that say which devices there are. If one of them cannot name a device any more, the others cannot judge it.
const IDENTIFYING: &[&str] = &["gpu.present", "rdma.device"];

/// Ends the name of a device's match with its partner.
const MATCH: &str = " match";

impl Verdicts {
    pub fn of(facts: &Facts, profiles: &[Profile]) -> Self {
        let topology = topo::topology(facts);
        let expectations = Expectations::of(profiles);
        let ctx = Ctx::new(facts, &topology, &expectations);
        let judged = Judged::new(&ctx, |_| true);
        let mut verdicts = Self {
            findings: BTreeMap::new(),
            ready_profiles: BTreeSet::new(),
            ready_units: BTreeSet::new(),
            pairs: pairs(&topology),
            messages: BTreeMap::new(),
            beside: BTreeMap::new(),
        };
        for profile in expectations.profiles() {
            let ready = check::readiness(&ctx, profile, &judged);
            if ready.state == ReadyState::Ready {
                verdicts.ready_profiles.insert(profile.name.clone());
            }
            let unit = |unit: &String| (profile.name.clone(), identity(&topology, unit));
            verdicts.ready_units.extend(ready.ready.iter().map(unit));
        }
        for finding in judged.into_findings(&expectations) {
            let parts = finding.subject.split(", ");
            let parts: BTreeSet<String> = parts.map(|part| identity(&topology, part)).collect();
            for part in &parts {
                let key = (finding.id.clone(), part.clone());
                let beside = verdicts.beside.entry(key.clone()).or_default();
                beside.extend(parts.iter().cloned());
                let worst = verdicts.findings.entry(key.clone()).or_insert(finding.outcome);
                if rank(finding.outcome) >= rank(*worst) {
                    *worst = finding.outcome;
                    verdicts.messages.insert(key, finding.message.clone());
                }
            }
        }
        verdicts
    }

    /// Everything that is said of the parts that `names` keeps, by the names that it gives them.
    pub fn said(&self, names: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
        let findings = self.findings.iter().filter_map(|((check, part), outcome)| {
            Some(format!("{check} {outcome:?}: {}", names(part)?))
        });
        let pairs = self
            .pairs
            .iter()
            .filter_map(|(pair, rank)| Some(format!("pair {rank}: {}", names(pair)?)));
        let units = self
            .ready_units
            .iter()
            .filter_map(|(profile, unit)| Some(format!("ready for {profile}: {}", names(unit)?)));
        let profiles = self.ready_profiles.iter().map(|profile| format!("ready: {profile}"));
        findings.chain(pairs).chain(units).chain(profiles).collect()
    }

    /// The worst outcome of a check.
    pub fn worst(&self, check: &str) -> Option<Outcome> {
        let of_check = self.findings.iter().filter(|((id, _), _)| id == check);
        let outcomes = of_check.map(|(_, outcome)| *outcome);
        outcomes.max_by_key(|outcome| rank(*outcome))
    }

    /// What is better after a loss: kinds, each with an example.
    pub fn improvements(&self, after: &Self) -> Vec<(String, String)> {
        let mut better = Vec::new();
        for (key, before) in &self.findings {
            if rank(*before) < UNKNOWN {
                continue;
            }
            let (id, part) = key;
            let now = after.findings.get(key);
            match now {
                Some(now) if rank(*now) >= UNKNOWN => {}
                Some(_) if self.is_newly_open(after, IDENTIFYING, part) => {}
                Some(_) if id == "pcie.locality" && self.has_lost_a_port(after) => {}
                // Without NVML it is about the PCI bus alone, and gpu.driver says so.
                Some(_)
                    if id == "gpu.present" && self.is_newly_open(after, &["gpu.driver"], part) => {}
                Some(now) => better.push((
                    format!("{id} {before:?} -> {now:?}"),
                    format!("{part}: {} -> {}", self.messages[key], after.messages[key]),
                )),
                None if self.is_open_elsewhere(id, part, after) => {}
                // It speaks of the libraries that were read.
                None if id == "sw.libraries" => {}
                None => better.push((
                    format!("{id} {before:?} -> gone"),
                    format!("{part}: {}", self.messages[key]),
                )),
            }
        }
        for profile in after.ready_profiles.difference(&self.ready_profiles) {
            better.push((format!("profile {profile} ready"), String::new()));
        }
        for (profile, unit) in after.ready_units.difference(&self.ready_units) {
            better.push((format!("unit of {profile} ready"), unit.clone()));
        }
        for (pair, now) in &after.pairs {
            let before = self.pairs.get(pair).copied().unwrap_or(0);
            if *now > before && !(pair.ends_with(MATCH) && self.has_lost_a_port(after)) {
                better.push((format!("pair {before} -> {now}"), pair.clone()));
            }
        }
        better
    }

    /// True if the check asks for attention elsewhere: for another part of the same subject, or where it did not before. The
    /// device may have lost its name.
    fn is_open_elsewhere(&self, id: &str, part: &str, after: &Self) -> bool {
        let beside = &self.beside[&(id.to_owned(), part.to_owned())];
        let open = after.open();
        let mut of_check = open.filter(|(other, _)| other == id);
        of_check.any(|key| {
            let is_end_of_pair = part.split(' ').any(|end| end == key.1);
            part == "machine" || is_end_of_pair || beside.contains(&key.1) || !self.is_open(key)
        }) || self.is_newly_open(after, IDENTIFYING, part)
    }

    /// True if one of the checks asks for attention to this part, or where it did not before.
    fn is_newly_open(&self, after: &Self, checks: &[&str], part: &str) -> bool {
        let mut open = after.open().filter(|(id, _)| checks.contains(&id.as_str()));
        open.any(|key| part.split(' ').any(|end| end == key.1) || !self.is_open(key))
    }

    /// True if the state of a port became unknown. It may be down, which `topo` and pcie.locality do not know then; rdma.port
    /// says so.
    fn has_lost_a_port(&self, after: &Self) -> bool {
        after.findings.iter().any(|(key, outcome)| {
            key.0 == "rdma.port"
                && *outcome == Outcome::Unknown
                && self.findings.get(key) != Some(outcome)
        })
    }

    fn is_open(&self, key: &Key) -> bool {
        self.findings.get(key).is_some_and(|outcome| rank(*outcome) >= UNKNOWN)
    }

    /// What asks for attention.
    fn open(&self) -> impl Iterator<Item = &Key> {
        self.findings.keys().filter(|key| self.is_open(key))
    }
}

/// The devices in a text by what does not change with the number of devices: a GPU's address, an RDMA device's name.
fn identity(topology: &Topology<'_>, text: &str) -> String {
    let words = text.split([' ', '(', ')', '–', '/']);
    let mut names: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(|word| match topology.find(word) {
            Some(row) => name(&topology.rows[row]),
            None => word.to_owned(),
        })
        .collect();
    names.dedup();
    names.join(" ")
}

fn name(row: &Row) -> String {
    match (row.kind, row.bdf) {
        (Kind::Gpu, Some(bdf)) => bdf.to_string(),
        _ => row.label.clone(),
    }
}

fn pairs(topology: &Topology<'_>) -> BTreeMap<String, u8> {
    let mut pairs = BTreeMap::new();
    for (gpu, row) in topology.rows_of(Kind::Gpu) {
        for (nic, other) in topology.rows_of(Kind::Nic) {
            let class = match topology.class(gpu, nic) {
                Some(PciClass::Pix | PciClass::Pxb) => 2,
                Some(PciClass::Phb) => 1,
                _ => 0,
            };
            pairs.insert(format!("{} {}", name(row), name(other)), class);
        }
    }
    for found in &topology.matches {
        let verdict = match found.verdict {
            Verdict::Good => 2,
            Verdict::LikelyGood => 1,
            Verdict::Bad | Verdict::Unknown => 0,
        };
        pairs.insert(format!("{} match", name(&topology.rows[found.row])), verdict);
    }
    pairs
}

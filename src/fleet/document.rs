//! The parts of a doctor's or a probe's JSON that a fleet report uses. Texts are borrowed from the document where possible.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{Outcome, ProbeKind, ProbeVerdict, ReadyState, Severity};

/// A report of one node.
#[derive(Debug, Deserialize)]
pub struct Document<'a> {
    #[serde(borrow, default)]
    pub schema: Cow<'a, str>,
    #[serde(borrow, default)]
    pub gdr: Cow<'a, str>,
    #[serde(borrow, default)]
    pub host: Host<'a>,
    #[serde(borrow, default)]
    pub readiness: Vec<Readiness<'a>>,
    #[serde(borrow, default)]
    pub findings: Vec<Finding<'a>>,
    pub probe: Option<ProbeKind>,
    #[serde(default)]
    pub simulated: bool,
    #[serde(default = "yes")]
    pub complete: bool,
    #[serde(borrow, default)]
    pub results: Vec<Figure<'a>>,
    /// Of a topology.
    #[serde(borrow, default)]
    pub devices: Vec<Device<'a>>,
    #[serde(borrow, default)]
    pub matrix: BTreeMap<Cow<'a, str>, BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow)]
    pub baseline: Option<Baseline<'a>>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
pub struct Host<'a> {
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub os: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub kernel: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub cpu: Option<Cow<'a, str>>,
    pub cpus: Option<u64>,
    pub memory: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct Readiness<'a> {
    #[serde(borrow)]
    pub profile: Cow<'a, str>,
    pub state: ReadyState,
}

#[derive(Debug, Deserialize)]
pub struct Finding<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    pub outcome: Outcome,
    pub severity: Severity,
    #[serde(borrow)]
    pub subject: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub evidence: Vec<Evidence<'a>>,
}

#[derive(Debug, Deserialize)]
pub struct Evidence<'a> {
    #[serde(borrow)]
    pub source: Cow<'a, str>,
    #[serde(borrow)]
    pub value: Cow<'a, str>,
}

/// A row of a topology.
#[derive(Debug, Deserialize)]
pub struct Device<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub bdf: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub label: Cow<'a, str>,
    pub numa: Option<u32>,
    pub nvlinks: Option<u32>,
}

/// A result of a probe.
#[derive(Debug, Deserialize)]
pub struct Figure<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub subject: Cow<'a, str>,
    pub bytes: Option<u64>,
    #[serde(borrow, default)]
    pub unit: Cow<'a, str>,
    pub median: Option<f64>,
    pub verdict: ProbeVerdict,
    #[serde(borrow)]
    pub reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Deserialize)]
pub struct Baseline<'a> {
    #[serde(borrow, default)]
    pub changes: Vec<Change<'a>>,
}

#[derive(Debug, Deserialize)]
pub struct Change<'a> {
    #[serde(borrow)]
    pub area: Cow<'a, str>,
    #[serde(borrow)]
    pub fact: Cow<'a, str>,
    #[serde(borrow)]
    pub a: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub b: Option<Cow<'a, str>>,
    pub figure: Option<FigureChange>,
}

#[derive(Debug, Deserialize)]
pub struct FigureChange {
    pub regression: bool,
}

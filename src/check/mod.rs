//! The doctor's checks: a registry, and one module per family of pure functions from facts to
//! judgements.
//!
//! A check judges; the engine weighs the judgement by profile and makes a finding.

mod action;
mod causes;
mod container;
pub mod expect;
mod gin;
mod gpu;
mod judged;
mod judgement;
mod limits;
mod memory_path;
mod modules;
mod nics;
mod param;
mod passthrough;
mod pcie;
mod platform;
mod rdma;
mod readiness;
mod readings;
mod registry;
mod roles;
mod selection;
mod software;
#[cfg(test)]
pub mod testing;
mod version;
mod words;

/// Facts and helpers that fixes share with the checks.
pub mod ground {
    pub use super::container::in_container;
    pub use super::modules::{buildable, loads_module};
    pub use super::nics::{driver as nic_driver, rdma_nics};
    pub use super::param::{
        Misspelt, for_device, keeps_out, misspelt, next, refused, registry_keys, shown, unreached,
    };
    pub use super::pcie::{
        Held, Ports, Redirecting, is_translated, ports, small_reads, translated, unplaced,
    };
    pub use super::rdma::{SETTING as NON_PREFETCHABLE, prefetchable_nics};
    pub use super::version::{branch, driver, kernel};
    pub use crate::check::memory_path::dma_buf_everywhere;
}

pub use action::CheckAction;
pub use causes::{causes, roots, steps};
pub use gin::{STACKS, Stack};
pub use judged::{Judged, Weighed, too_many_devices, unidentified};
pub use judgement::{Judgement, Rule};
pub use readiness::readiness;
pub use readings::readings;
pub use registry::{
    Check, FAMILIES, Family, Hint, Source, all, families, family, find, is_family,
    is_of_one_device, is_volatile,
};
pub use selection::{Selection, SelectionError, similar};

use crate::model::{
    Area, Fact, Facts, Finding, Outcome, ProbeReport, Readiness, ReadyState, Severity,
};
use crate::profile::Expectations;
use crate::topo::{Forest, Topology};

/// The input of every check.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    pub facts: &'a Facts,
    pub topology: &'a Topology<'a>,
    pub forest: &'a Forest<'a>,
    pub expectations: &'a Expectations,
}

impl<'a> Ctx<'a> {
    pub fn new(
        facts: &'a Facts,
        topology: &'a Topology<'a>,
        expectations: &'a Expectations,
    ) -> Self {
        Self { facts, topology, forest: &topology.forest, expectations }
    }
}

/// Runs every check, in registry order.
pub fn run(ctx: &Ctx<'_>) -> Vec<Finding> {
    run_those(ctx, |_| true)
}

/// Runs the wanted checks, in registry order.
pub fn run_those(ctx: &Ctx<'_>, wanted: impl Fn(&str) -> bool) -> Vec<Finding> {
    Judged::new(ctx, wanted).into_findings(ctx.expectations)
}

/// The exit code of doctor: 1 if an outcome in `failing` occurred, or if the machine is not ready for the only profile, as a
/// machine with one GPU for p2p; else 3 if a required check is undetermined.
pub fn exit_code(
    findings: &[Finding],
    readiness: &[Readiness],
    expectations: &Expectations,
    failing: &[Outcome],
) -> u8 {
    let not_ready = matches!(readiness, [only] if only.state == ReadyState::NotReady);
    let failed = not_ready || findings.iter().any(|f| failing.contains(&f.outcome));
    let undetermined = findings.iter().any(|finding| leaves_open(finding, expectations));
    match (failed, undetermined) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

/// True if a required check is undetermined.
pub fn leaves_open(finding: &Finding, expectations: &Expectations) -> bool {
    is_undetermined(finding.outcome, finding.severity, &finding.id, expectations)
}

fn is_undetermined(
    outcome: Outcome,
    severity: Severity,
    id: &str,
    expectations: &Expectations,
) -> bool {
    outcome == Outcome::Unknown && (severity == Severity::Error || expectations.requires(id))
}

/// Findings about the bandwidths of a probe that the profiles name.
pub fn expected_bandwidths(expectations: &Expectations, report: &ProbeReport) -> Vec<Finding> {
    let judgements = expect::bandwidths(expectations, report);
    Judged::of(&expect::BANDWIDTH, judgements).into_findings(expectations)
}

/// The judgements, or one that skips the machine if there is none.
pub fn or_skip(judgements: Vec<Judgement>, message: &str) -> Vec<Judgement> {
    if judgements.is_empty() { vec![Judgement::skip("machine", message)] } else { judgements }
}

/// The judgement if a library may also be where gdr could not look.
pub fn unread_library(ctx: &Ctx<'_>, name: &str) -> Option<Judgement> {
    let why = ctx.facts.software.unread.get(name)?;
    let source = format!("directories that may have {name}");
    Some(Judgement::unknown(name, *why, Area::Files, &source))
}

/// The judgement if the PCI functions or the RDMA devices are unknown.
pub fn unknown_devices(ctx: &Ctx<'_>) -> Option<Judgement> {
    unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
        .or_else(|| unknown_if(&ctx.facts.rdma, "machine", Area::Sys, "/sys/class/infiniband"))
}

/// The judgement for an unknown fact; `None` if the fact is known.
pub fn unknown_if<T>(fact: &Fact<T>, subject: &str, area: Area, source: &str) -> Option<Judgement> {
    fact.why().map(|why| Judgement::unknown(subject, why, area, source))
}

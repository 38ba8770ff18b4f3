//! The doctor's catalogue: a registry, and one file a family of pure functions from facts to judgements.
//!
//! A check judges; the engine turns its judgement into a finding with the weight that the profiles give it.

mod gpu;
mod judged;
mod judgement;
mod limits;
mod modules;
mod param;
mod passthrough;
mod pcie;
mod platform;
mod rdma;
mod readiness;
mod registry;
mod selection;
mod software;
#[cfg(test)]
mod testing;
mod version;
mod words;

/// What checks judge on, for the repairs that mend what they find.
pub mod ground {
    pub use super::modules::{buildable, dma_buf_everywhere, suits};
    pub use super::param::{
        Misspelt, for_device, keeps_out, misspelt, next, refused, registry_keys, shown, unreached,
    };
    pub use super::pcie::{
        Held, Ports, Redirecting, is_grace, is_translated, ports, small_reads, translated,
    };
    pub use super::platform::in_container;
    pub use super::rdma::{SETTING as NON_PREFETCHABLE, driver as nic_driver, rdma_nics, untold};
    pub use super::version::{branch, driver, kernel};
}

pub use judged::{Judged, Weighed, too_many_devices};
pub use judgement::{Judgement, Rule};
pub use readiness::readiness;
pub use registry::{Check, FAMILIES, Family, Source, all, families, find, is_family};
pub use selection::{Selection, SelectionError, similar};

use crate::model::{Fact, Facts, Finding, Outcome, Severity};
use crate::profile::Expectations;
use crate::topo::{Forest, Topology};

/// All that a check may look at.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    pub facts: &'a Facts,
    /// The devices and how they meet.
    pub topology: &'a Topology<'a>,
    /// The PCI forest under the topology.
    pub forest: &'a Forest<'a>,
    /// What the profiles ask for.
    pub expectations: &'a Expectations,
}

impl<'a> Ctx<'a> {
    /// What the checks look at, of a machine and its topology.
    pub fn new(
        facts: &'a Facts,
        topology: &'a Topology<'a>,
        expectations: &'a Expectations,
    ) -> Self {
        Self {
            facts,
            topology,
            forest: &topology.forest,
            expectations,
        }
    }
}

/// Runs every check, in the order of the registry.
pub fn run(ctx: &Ctx<'_>) -> Vec<Finding> {
    run_those(ctx, |_| true)
}

/// Runs the checks that are wanted, by their ids, in the order of the registry.
pub fn run_those(ctx: &Ctx<'_>, wanted: impl Fn(&str) -> bool) -> Vec<Finding> {
    Judged::new(ctx, wanted).into_findings(ctx.expectations)
}

/// The exit code of doctor: 1 something failed, 3 nothing failed but something required could not be determined. What
/// counts as failed are the outcomes in `failing`.
pub fn exit_code(findings: &[Finding], expectations: &Expectations, failing: &[Outcome]) -> u8 {
    let failed = findings.iter().any(|f| failing.contains(&f.outcome));
    let undetermined = findings
        .iter()
        .any(|finding| leaves_open(finding, expectations));
    match (failed, undetermined) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

/// Whether a finding leaves open what a profile wants to know.
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

/// The judgement on a subject whose fact is unknown; none where it is known.
pub fn unknown_if<T>(fact: &Fact<T>, subject: &str, source: &str) -> Option<Judgement> {
    fact.why()
        .map(|why| Judgement::unknown(subject, why, source))
}

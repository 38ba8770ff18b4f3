//! What a machine says about the paths that a job lost, and the exit status of a job.

use std::fs;

use crate::check::ground::rdma_nics;
use crate::check::{self, Check, Ctx};
use crate::cmd::doctor;
use crate::cmd::machine::Machine;
use crate::model::{Allowed, Facts, FasterPath, Finding, Job, Loss, Outcome, ReasonKind};
use crate::profile::Expectations;
use crate::topo;

/// A path is slower than the machine allows, or a rank failed.
const SLOWER: u8 = 1;

/// Neither the log nor a machine says whether the paths are the best.
const UNDETERMINED: u8 = 3;

/// The checks of a path: those whose pass allows it, and the others.
fn checks(faster: FasterPath) -> impl Iterator<Item = &'static Check> {
    let of_path = check::all().filter(move |check| check.closes == Some(faster));
    let allowing = of_path.clone().filter(|check| check.allows_path);
    allowing.chain(of_path.filter(|check| !check.allows_path))
}

/// True if a machine could say more than the log.
pub fn is_open(job: &Job) -> bool {
    job.lost.iter().any(is_open_loss)
}

fn is_open_loss(loss: &Loss) -> bool {
    let is_open = loss.allowed == Allowed::Unknown || loss.kind == ReasonKind::Unknown;
    is_open && checks(loss.faster).next().is_some()
}

/// True if this machine is a node of the job.
pub fn is_here(job: &Job) -> bool {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // NCCL writes the name without its domain.
    let own = own.trim().split('.').next().unwrap_or_default();
    !own.is_empty() && own != "localhost" && job.nodes.iter().any(|node| node == own)
}

/// Adds what a machine of the job says.
pub fn inspect(job: &mut Job, machine: &Machine, expectations: &Expectations) {
    let open = || job.lost.iter().filter(|loss| is_open_loss(loss));
    let ids: Vec<&str> =
        open().flat_map(|loss| checks(loss.faster)).map(|check| check.id).collect();
    let facts = machine.facts(doctor::want(false, |id| ids.contains(&id)));
    let topology = topo::topology(&facts);
    let ctx = Ctx::new(&facts, &topology, expectations);
    let findings = check::run_those(&ctx, |id| ids.contains(&id));
    for loss in job.lost.iter_mut().filter(|loss| is_open_loss(loss)) {
        let failing = checks(loss.faster).find_map(|check| {
            let of_check = findings.iter().filter(|finding| finding.id == check.id);
            of_check.into_iter().find(|finding| is_bad(finding))
        });
        if loss.allowed == Allowed::Unknown {
            loss.allowed = allowed(loss.faster, failing, &findings, &facts);
        }
        if let Some(finding) = failing.filter(|_| loss.kind == ReasonKind::Unknown) {
            loss.kind = ReasonKind::Check;
            loss.why = format!("the check {} fails: {}", finding.id, finding.message);
        }
    }
}

fn is_bad(finding: &Finding) -> bool {
    matches!(finding.outcome, Outcome::Fail | Outcome::Warn)
}

fn allowed(
    faster: FasterPath,
    failing: Option<&Finding>,
    findings: &[Finding],
    facts: &Facts,
) -> Allowed {
    let mut deciding = checks(faster).filter(|check| check.allows_path).map(|check| check.id);
    let deciding = deciding.next().unwrap_or_default();
    let passes = || {
        let of_check: Vec<&Finding> =
            findings.iter().filter(|finding| finding.id == deciding).collect();
        !of_check.is_empty() && of_check.iter().all(|finding| finding.outcome == Outcome::Pass)
    };
    match faster {
        FasterPath::PeerAccess if passes() => Allowed::Yes,
        FasterPath::PeerAccess if failing.is_some_and(|finding| finding.id == deciding) => {
            Allowed::No
        }
        FasterPath::Rdma if rdma_nics(facts).next().is_some() => Allowed::Yes,
        FasterPath::Rdma if facts.rdma.known().is_some() => Allowed::No,
        // What a check finds can be repaired.
        FasterPath::GpuDirect if failing.is_some() || passes() => Allowed::Yes,
        _ => Allowed::Unknown,
    }
}

/// The exit status of a job: 0 if every rank is in the log and used the best path that its machine allows.
pub fn status(job: &Job) -> u8 {
    let has = |allowed: Allowed| job.lost.iter().any(|loss| loss.allowed == allowed);
    let has_paths = job.communicators.iter().any(|communicator| !communicator.paths.is_empty());
    let is_complete = job.ranks.is_some_and(|ranks| ranks <= job.ranks_seen)
        && (has_paths || job.ranks == Some(1))
        && !job.cut;
    if job.certain_failures().next().is_some() || has(Allowed::Yes) {
        SLOWER
    } else if has(Allowed::Unknown) || !is_complete || !job.failures.is_empty() {
        UNDETERMINED
    } else {
        0
    }
}

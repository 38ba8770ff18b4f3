//! Which finding explains which, and what to do first. Reads no facts: the registry says which checks explain a check.

use std::collections::BTreeSet;

use super::find;
use crate::model::{Finding, NextStep, Outcome, Readiness, ReadyState, Remedy, Root};

/// The next steps that a report lists at most.
const MAX_STEPS: usize = 6;

/// For each finding, the index of the failure or warning at its root; `None` for a finding that nothing explains.
pub fn causes(findings: &[Finding]) -> Vec<Option<usize>> {
    let direct: Vec<Option<usize>> =
        findings.iter().map(|finding| direct(findings, finding)).collect();
    let root = |cause: usize| {
        let mut at = cause;
        // The relation of checks has no cycle.
        while let Some(next) = direct[at] {
            at = next;
        }
        at
    };
    direct.iter().map(|cause| cause.map(root)).collect()
}

/// The first finding that explains this one itself.
fn direct(findings: &[Finding], finding: &Finding) -> Option<usize> {
    let is_problem = matches!(finding.outcome, Outcome::Fail | Outcome::Warn | Outcome::Unknown);
    let explained_by = find(&finding.id).filter(|_| is_problem)?.explained_by;
    findings.iter().position(|other| {
        is_wrong(other)
            && explained_by.contains(&other.id.as_str())
            && concerns(&other.subject, &finding.subject)
    })
}

pub fn is_wrong(finding: &Finding) -> bool {
    matches!(finding.outcome, Outcome::Fail | Outcome::Warn)
}

/// True unless each of the two subjects names devices, and none of them is the same.
fn concerns(cause: &str, consequence: &str) -> bool {
    let [cause, consequence] = [cause, consequence].map(devices);
    cause.is_empty() || consequence.is_empty() || !cause.is_disjoint(&consequence)
}

/// The names of devices in a subject: they have a digit, words such as `machine` and `this process` do not.
fn devices(subject: &str) -> BTreeSet<&str> {
    subject
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','))
        .filter(|word| !word.starts_with('/') && word.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// The failures and warnings that nothing else explains, failures first.
pub fn roots(findings: &[Finding], causes: &[Option<usize>]) -> Vec<Root> {
    let mut roots: Vec<Root> = Vec::new();
    for outcome in [Outcome::Fail, Outcome::Warn] {
        for (at, finding) in findings.iter().enumerate() {
            if finding.outcome != outcome || causes[at].is_some() {
                continue;
            }
            let explains = findings.iter().zip(causes);
            let explains = explains.filter(|(_, cause)| **cause == Some(at));
            let explains: Vec<&str> = explains.map(|(other, _)| other.id.as_str()).collect();
            let root = match roots
                .iter_mut()
                .find(|root| (root.outcome, &root.check) == (outcome, &finding.id))
            {
                Some(root) => root,
                None => {
                    roots.push(Root {
                        check: finding.id.clone(),
                        outcome,
                        subjects: Vec::new(),
                        explains: Vec::new(),
                    });
                    let last = roots.len() - 1;
                    &mut roots[last]
                }
            };
            root.subjects.push(finding.subject.clone());
            for id in explains {
                if !root.explains.iter().any(|known| known == id) {
                    root.explains.push(id.to_owned());
                }
            }
        }
    }
    roots
}

/// What to do, in the order in which it helps: the repairs of the roots, then the proof by a probe. `fix` is the command that the ids of
/// fixes follow.
pub fn steps(
    findings: &[Finding],
    roots: &[Root],
    readiness: &[Readiness],
    fix: &str,
) -> Vec<NextStep> {
    let mut steps: Vec<NextStep> = Vec::new();
    let mut fixes: Option<(usize, Vec<&str>)> = None;
    for root in roots {
        let its = |finding: &&Finding| {
            finding.id == root.check
                && finding.outcome == root.outcome
                && root.subjects.contains(&finding.subject)
        };
        let remedies: Vec<&Remedy> =
            findings.iter().filter(its).filter_map(|finding| finding.fix.as_ref()).collect();
        let Some(remedy) = remedies.first() else {
            continue;
        };
        match (remedies.iter().find_map(|remedy| remedy.id()), &mut fixes) {
            // One command makes all repairs that gdr has, where the first of them comes.
            (Some(id), Some((at, ids))) => {
                if !ids.contains(&id) {
                    ids.push(id);
                }
                steps[*at].checks.push(root.check.clone());
            }
            (Some(id), None) => {
                fixes = Some((steps.len(), vec![id]));
                steps.push(NextStep::new(&root.check));
            }
            (None, _) => {
                let manual = remedy.manual();
                steps.push(NextStep {
                    command: manual.command.clone(),
                    advice: manual.advice.clone(),
                    ..NextStep::new(&root.check)
                });
            }
        }
    }
    if let Some((at, ids)) = fixes {
        steps[at].command = Some(format!("{fix} {}", ids.join(" ")));
    }
    steps.truncate(MAX_STEPS);
    if roots.iter().all(|root| root.outcome == Outcome::Warn) {
        steps.extend(proof(findings, readiness));
    }
    steps
}

/// The probe that proves what is ready, or the command that reads what is unknown.
fn proof(findings: &[Finding], readiness: &[Readiness]) -> Option<NextStep> {
    let needs_root = |finding: &Finding| {
        finding.outcome == Outcome::Unknown && finding.needs.as_deref() == Some("root")
    };
    let is_open = readiness.iter().any(|one| one.state == ReadyState::Undetermined);
    if is_open {
        let checks = findings.iter().filter(|finding| needs_root(finding));
        let checks: Vec<String> = checks.map(|finding| finding.id.clone()).collect();
        return (!checks.is_empty()).then(|| NextStep {
            checks,
            command: Some("sudo gdr doctor".to_owned()),
            advice: None,
        });
    }
    let ready =
        readiness.iter().find(|one| matches!(one.state, ReadyState::Ready | ReadyState::Partly))?;
    let probe = match ready.profile.as_str() {
        "gdrcopy" => "copy",
        "p2p" => "p2p",
        "async" => "async",
        "mpi" => "mpi",
        _ => "rdma",
    };
    Some(NextStep { checks: Vec::new(), command: Some(format!("gdr probe {probe}")), advice: None })
}

/// Those of these checks that none of the others explains.
pub fn without_consequences(checks: &[&'static str]) -> Vec<&'static str> {
    let is_explained = |id: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(check) = open.pop().and_then(find) {
            for cause in check.explained_by {
                if checks.contains(cause) {
                    return true;
                }
                if seen.insert(*cause) {
                    open.push(cause);
                }
            }
        }
        false
    };
    checks.iter().copied().filter(|id| !is_explained(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::all;

    #[test]
    fn causes_are_checks_and_have_no_cycle() {
        for check in all() {
            let mut seen = BTreeSet::new();
            let mut open = vec![check.id];
            while let Some(id) = open.pop() {
                let known = find(id).unwrap_or_else(|| panic!("{}: {id} is not a check", check.id));
                for cause in known.explained_by {
                    assert_ne!(*cause, check.id, "a cycle through {id}");
                    if seen.insert(*cause) {
                        open.push(cause);
                    }
                }
            }
        }
    }

    #[test]
    fn subjects_of_other_devices_have_other_causes() {
        for (cause, consequence, expected) in [
            ("driver", "GPU0 (0000:43:00.0)", true),
            ("GPU0 (0000:43:00.0)", "GPU0", true),
            ("GPU0 (0000:43:00.0)", "GPU1 (0000:45:00.0)", false),
            ("mlx5_0, mlx5_1", "mlx5_1", true),
            ("mlx5_0", "GPU0", false),
            ("this process", "mlx5_0", true),
            ("/dev/nvidia0", "GPU1", true),
        ] {
            assert_eq!(concerns(cause, consequence), expected, "{cause}, {consequence}");
        }
    }
}

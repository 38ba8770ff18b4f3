//! What the checks said, before profiles weigh it: judged once, weighed for each profile.

use std::cmp::Reverse;

use super::registry::{FAMILIES, Family};
use super::{Check, Ctx, Judgement, Rule};
use crate::model::{Facts, Finding, Outcome, Severity};
use crate::profile::Expectations;
use crate::topo::MAX_ROWS;

/// The most judgements of one check. A machine within the limits of the topology has fewer for each check.
const MAX_JUDGEMENTS: usize = MAX_ROWS;

/// Checks that ask which profiles are in force: they are judged again for each profile alone.
const BY_PROFILE: [&str; 4] = ["gpu.min-driver", "gpu.mig", "gpu.p2p-grant", "pcie.iommu"];

/// The checks that were run, each with its judgements.
pub struct Judged(Vec<(&'static Check, Vec<Judgement>)>);

/// A judgement as profiles weigh it.
pub struct Weighed<'a> {
    /// The check's id.
    pub id: &'static str,
    /// What it comes to.
    pub outcome: Outcome,
    /// How much it weighs.
    pub severity: Severity,
    /// What the check said.
    pub judgement: &'a Judgement,
}

impl Judged {
    /// Runs the checks that are wanted, by their ids, in the order of the registry.
    pub fn new(ctx: &Ctx<'_>, wanted: impl Fn(&str) -> bool) -> Self {
        let checks = FAMILIES
            .iter()
            .flat_map(|family| family.checks.iter().map(move |check| (family, check)));
        let judged = checks
            .filter(|(_, check)| wanted(check.id))
            .map(|(family, check)| (check, judge(ctx, family, check)));
        Self(judged.collect())
    }

    /// Those of these checks that ask which profiles are in force, run again under others.
    pub fn again(&self, ctx: &Ctx<'_>) -> Self {
        Self::new(ctx, |id| {
            BY_PROFILE.contains(&id) && self.0.iter().any(|(check, _)| check.id == id)
        })
    }

    /// What they come to, with the judgements of `again` in place of those of the same checks.
    pub fn weighed<'a>(&'a self, again: &'a Self, expectations: &Expectations) -> Vec<Weighed<'a>> {
        let instead = |id: &str| again.0.iter().find(|(check, _)| check.id == id);
        let judged = self.0.iter().map(|judged| instead(judged.0.id).unwrap_or(judged));
        judged
            .flat_map(|(check, judgements)| judgements.iter().map(|judgement| weigh(check, judgement, expectations)))
            .collect()
    }

    /// The findings.
    pub fn into_findings(self, expectations: &Expectations) -> Vec<Finding> {
        let judgements = self
            .0
            .into_iter()
            .flat_map(|(check, judgements)| judgements.into_iter().map(move |judgement| (check, judgement)));
        judgements
            .map(|(check, judgement)| {
                let Weighed { outcome, severity, .. } = weigh(check, &judgement, expectations);
                Finding {
                    id: check.id.to_owned(),
                    outcome,
                    severity,
                    subject: judgement.subject,
                    message: judgement.message,
                    evidence: judgement.evidence,
                    needs: judgement.needs,
                    fix: judgement.fix,
                }
            })
            .collect()
    }
}

fn weigh<'a>(check: &Check, judgement: &'a Judgement, expectations: &Expectations) -> Weighed<'a> {
    let severity = expectations.weight(check.id, check.severity, judgement.weight);
    Weighed {
        id: check.id,
        outcome: match judgement.rule {
            Rule::Holds => Outcome::Pass,
            Rule::Broken => severity.outcome(),
            Rule::Noted => Outcome::Info,
            Rule::Unknown => Outcome::Unknown,
            Rule::Skipped => Outcome::Skip,
        },
        severity,
        judgement,
    }
}

/// Runs one check. A check that judges nothing does not apply here, and says so.
fn judge(ctx: &Ctx<'_>, family: &Family, check: &Check) -> Vec<Judgement> {
    if family.judges_devices
        && let Some(devices) = too_many_devices(ctx.facts)
    {
        return vec![devices];
    }
    let mut judgements = (check.judge)(ctx);
    if judgements.is_empty() {
        judgements.push(Judgement::skip("machine", "nothing here for it to judge"));
    }
    few(judgements)
}

/// Where there are more GPUs and NICs than a machine can have, none is judged: what is true of a part says nothing of all.
pub fn too_many_devices(facts: &Facts) -> Option<Judgement> {
    let nics = facts.rdma.known().map_or(0, Vec::len) + facts.unnamed_nics.len();
    let devices = facts.gpus().count() + nics;
    (devices > MAX_ROWS).then(|| {
        let message = format!("cannot determine: there are {devices} GPUs and NICs; gdr judges at most {MAX_ROWS}");
        Judgement::undetermined("machine", message).needs("a source with the devices of one machine alone")
    })
}

/// The worst of too many judgements, with one more for the rest, which counts as the worst of those.
fn few(mut judgements: Vec<Judgement>) -> Vec<Judgement> {
    if judgements.len() <= MAX_JUDGEMENTS {
        return judgements;
    }
    judgements.sort_by_key(|judgement| {
        let rule = match judgement.rule {
            Rule::Broken => 0,
            Rule::Unknown => 1,
            Rule::Noted => 2,
            Rule::Holds => 3,
            Rule::Skipped => 4,
        };
        (rule, Reverse(judgement.weight))
    });
    let rest = judgements.split_off(MAX_JUDGEMENTS);
    if let Some(worst) = rest.first() {
        judgements.push(Judgement {
            subject: "machine".to_owned(),
            message: format!("{} more, none of them worse than: {}", rest.len(), worst.message),
            ..worst.clone()
        });
    }
    judgements
}

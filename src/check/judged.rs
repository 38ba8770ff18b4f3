//! Judgements of all checks, computed once and weighed for each profile.

use std::cmp::Reverse;

use super::registry::{FAMILIES, Family};
use super::{Check, Ctx, Judgement, Rule, Source, words};
use crate::model::Order as _;
use crate::model::{Area, Bdf, Facts, Finding, Outcome, Severity};
use crate::profile::Expectations;
use crate::topo::MAX_ROWS;

/// Maximum judgements per check; a machine within the topology limits has fewer.
const MAX_JUDGEMENTS: usize = MAX_ROWS;

pub struct Judged(Vec<(&'static Check, Vec<Judgement>)>);

pub struct Weighed<'a> {
    pub check: &'static Check,
    pub outcome: Outcome,
    pub severity: Severity,
    pub judgement: &'a Judgement,
}

impl Judged {
    /// Judgements of one check that were made elsewhere.
    pub fn of(check: &'static Check, judgements: Vec<Judgement>) -> Self {
        Self(vec![(check, few(judgements))])
    }

    /// Runs the wanted checks, in registry order.
    pub fn new(ctx: &Ctx<'_>, wanted: impl Fn(&str) -> bool) -> Self {
        Self::those(ctx, |check| wanted(check.id))
    }

    /// Runs the profile-dependent checks again under other expectations.
    pub fn again(&self, ctx: &Ctx<'_>) -> Self {
        Self::those(ctx, |wanted| {
            wanted.by_profile && self.0.iter().any(|(check, _)| check.id == wanted.id)
        })
    }

    fn those(ctx: &Ctx<'_>, wanted: impl Fn(&Check) -> bool) -> Self {
        let checks = FAMILIES
            .iter()
            .flat_map(|family| family.checks.iter().map(move |check| (family, check)));
        let judged = checks
            .filter(|(_, check)| wanted(check))
            .map(|(family, check)| (check, judge(ctx, family, check)));
        Self(judged.collect())
    }

    /// Weighs the judgements; those of `again` replace those of the same checks.
    pub fn weighed<'a>(&'a self, again: &'a Self, expectations: &Expectations) -> Vec<Weighed<'a>> {
        let replacement = |id: &str| again.0.iter().find(|(check, _)| check.id == id);
        let judged = self.0.iter().map(|judged| replacement(judged.0.id).unwrap_or(judged));
        judged
            .flat_map(|(check, judgements)| {
                judgements.iter().map(|judgement| weigh(check, judgement, expectations))
            })
            .collect()
    }

    pub fn into_findings(self, expectations: &Expectations) -> Vec<Finding> {
        let judgements = self.0.into_iter().flat_map(|(check, judgements)| {
            judgements.into_iter().map(move |judgement| (check, judgement))
        });
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
                    action: matches!(outcome, Outcome::Fail | Outcome::Warn).then(|| {
                        let has_fix = judgement.fix.as_ref().is_some_and(|fix| fix.id().is_some());
                        judgement.action.unwrap_or(check.action).required(has_fix)
                    }),
                    fix: judgement.fix,
                    missing: judgement.missing,
                }
            })
            .collect()
    }
}

fn weigh<'a>(
    check: &'static Check,
    judgement: &'a Judgement,
    expectations: &Expectations,
) -> Weighed<'a> {
    let severity = expectations.weight(check.id, check.severity, judgement.weight);
    Weighed {
        check,
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

/// Runs one check. A check without judgements is reported as not applicable.
fn judge(ctx: &Ctx<'_>, family: &Family, check: &Check) -> Vec<Judgement> {
    if family.judges_devices()
        && let Some(devices) = too_many_devices(ctx.facts)
    {
        return vec![devices];
    }
    let mut judgements = (check.judge)(ctx);
    // Of the whole machine, for want of a device.
    let is_skipped = |judgement: &Judgement| {
        judgement.rule == Rule::Skipped
            && ["machine", "driver"].contains(&judgement.subject.as_str())
    };
    let needs_live = [Source::Mapping, Source::Registration];
    if family.judges_devices()
        && judgements.iter().all(is_skipped)
        && !family.by_table
        && !check.reads.iter().any(|source| needs_live.contains(source))
        && let Some(unidentified) = unidentified(ctx.facts)
    {
        return vec![unidentified];
    }
    if judgements.iter().all(is_skipped) && !family.by_table && may_have_unlisted_gpus(ctx.facts) {
        return vec![Judgement::unlisted()];
    }
    if judgements.is_empty() {
        judgements.push(Judgement::skip("machine", "This check does not apply to this machine."));
    }
    few(judgements)
}

/// A list without GPUs that may lack functions, such as one of a vendor, does not show that the machine has no GPU.
fn may_have_unlisted_gpus(facts: &Facts) -> bool {
    facts.partial && facts.gpus().next().is_none()
}

/// Functions of the PCI bus that may be GPUs or NICs: where one is, nothing is known to be absent.
pub fn unidentified(facts: &Facts) -> Option<Judgement> {
    let nics = facts.rdma.known().into_iter().flatten();
    let nics: Vec<&Bdf> = nics.filter_map(|nic| nic.place.present()).collect();
    let unidentified: Vec<_> = facts
        .devices()
        .iter()
        .filter(|device| device.ids.known().is_none() && !nics.contains(&&device.bdf))
        .collect();
    let why = unidentified.first()?.ids.why()?;
    let names = words::list(unidentified.iter().map(|device| device.bdf));
    let source = "/sys/bus/pci/devices/*/{config,vendor,device,class}";
    let judgement = Judgement::unknown(names.clone(), why, Area::Sys, source);
    Some(Judgement {
        message: format!("{}, of {names}, which may be a GPU or a NIC", judgement.message),
        ..judgement
    })
}

/// Beyond the device limits no check runs: a partial result would mislead.
pub fn too_many_devices(facts: &Facts) -> Option<Judgement> {
    let nics = facts.rdma.known().map_or(0, Vec::len) + facts.unnamed_nics.len();
    let devices = facts.gpus().count() + nics;
    (devices > MAX_ROWS).then(|| {
        let message = format!(
            "cannot determine: there are {devices} GPUs and NICs; gdr judges at most {MAX_ROWS}"
        );
        Judgement::undetermined("machine", message)
            .needs("a source with the devices of one machine only")
    })
}

/// Keeps the worst judgements and adds a summary with the worst outcome of the rest.
fn few(mut judgements: Vec<Judgement>) -> Vec<Judgement> {
    if judgements.len() <= MAX_JUDGEMENTS {
        return judgements;
    }
    judgements.order_by_key(|judgement| {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::check::testing::{Edit, assert_says, gpu, machine, rdma};
    use crate::check::{exit_code, readiness};
    use crate::model::{Fact, ReadyState};
    use crate::profile::{Profile, SHIPPED};
    use crate::topo::topology;

    fn profile(name: &str) -> Profile {
        let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name).expect("a profile");
        Profile::parse(name, text, |_| true).expect("a profile")
    }

    /// The small machine plus this many GPUs, each on its own root bus.
    fn crowded(more: u32) -> Facts {
        let mut facts = machine();
        for at in 0..more {
            facts.add(gpu(&format!("{:04x}:01:00.0", 0x100 + at)));
        }
        facts
    }

    #[test]
    fn too_many_devices_are_undetermined() {
        let facts = crowded(MAX_ROWS as u32);
        let (topology, profile) = (topology(&facts), profile("rdma"));
        let expectations = Expectations::of(std::slice::from_ref(&profile));
        let ctx = Ctx::new(&facts, &topology, &expectations);
        let judged = Judged::new(&ctx, |_| true);
        let ready = readiness(&ctx, &profile, &judged);
        assert_eq!(
            (ready.state, ready.ready.len()),
            (ReadyState::Undetermined, 0),
            "{}",
            ready.text
        );
        let of_devices = FAMILIES.iter().filter(|family| family.judges_devices());
        let ids: BTreeSet<&str> =
            of_devices.flat_map(|family| family.checks).map(|check| check.id).collect();
        let findings = judged.into_findings(&expectations);
        let on_devices: Vec<&Finding> =
            findings.iter().filter(|found| ids.contains(found.id.as_str())).collect();
        assert_eq!(on_devices.len(), ids.len());
        for found in on_devices {
            assert_eq!(found.outcome, Outcome::Unknown, "{found:#?}");
            assert_says(found, "there are 1026 GPUs and NICs");
        }
        assert_eq!(exit_code(&findings, &[], &expectations, &[Outcome::Fail]), 3);
    }

    #[test]
    fn too_many_pairs_are_undetermined() {
        let ready = |gpus| {
            let facts = crowded(gpus);
            let (topology, profile) = (topology(&facts), profile("p2p"));
            let expectations = Expectations::of(std::slice::from_ref(&profile));
            let ctx = Ctx::new(&facts, &topology, &expectations);
            let judged = Judged::new(&ctx, |id| ["pcie.acs", "pcie.payload"].contains(&id));
            let outcomes: Vec<Outcome> = judged
                .weighed(&judged.again(&ctx), &expectations)
                .iter()
                .map(|weighed| weighed.outcome)
                .collect();
            (readiness(&ctx, &profile, &judged).state, outcomes.contains(&Outcome::Unknown))
        };
        // 255 GPUs and one NIC make 32,640 pairs; 256 GPUs make 32,896.
        assert_eq!(ready(254), (ReadyState::Ready, false));
        assert_eq!(ready(255), (ReadyState::Undetermined, true));
    }

    #[test]
    fn summary_has_worst_outcome_of_rest() {
        let mut judgements: Vec<Judgement> =
            (0..MAX_JUDGEMENTS).map(|at| Judgement::pass(format!("{at}"), "Well.")).collect();
        assert_eq!(few(judgements.clone()), judgements);
        judgements.push(Judgement::broken("late", "Broken."));
        judgements.push(Judgement::pass("later", "Well."));
        let kept = few(judgements.clone());
        assert_eq!(kept.len(), MAX_JUDGEMENTS + 1);
        assert_eq!((kept[0].subject.as_str(), kept[0].rule), ("late", Rule::Broken));
        let last = &kept[MAX_JUDGEMENTS];
        assert_eq!((last.subject.as_str(), last.rule), ("machine", Rule::Holds));
        assert_eq!(last.message, "2 more, none of them worse than: Well.");
        judgements
            .extend((0..MAX_JUDGEMENTS).map(|at| Judgement::broken(format!("b{at}"), "Broken.")));
        assert_eq!(few(judgements)[MAX_JUDGEMENTS].rule, Rule::Broken);
    }

    /// A check that reads the expectations of the profiles must be judged again for each.
    #[test]
    fn checks_that_read_expectations_depend_on_profiles() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
        let mut found = 0;
        for check in FAMILIES.iter().filter(|family| family.by_table).flat_map(|of| of.checks) {
            assert!(check.by_profile, "{}", check.id);
        }
        for family in fs::read_dir(source).expect("the checks") {
            let family = family.expect("a family").path();
            if !family.is_dir() || family.ends_with("expect") {
                continue;
            }
            for file in fs::read_dir(&family).expect("a family") {
                let file = file.expect("a file").path();
                let text = fs::read_to_string(&file).unwrap_or_default();
                if text.contains("ctx.expectations") {
                    found += 1;
                    assert!(text.contains("by_profile: true"), "{}", file.display());
                }
            }
        }
        assert!(found >= 5, "{found}");
    }

    #[test]
    fn evidence_stays_short_with_many_devices() {
        let mut facts = machine();
        let names = (0..MAX_ROWS - 1).map(|at| rdma(&format!("mlx5_{at:0>200}"), "0000:04:00.0"));
        facts.rdma = Fact::Known(names.collect());
        let topology = topology(&facts);
        let expectations = Expectations::of(&[]);
        let ctx = Ctx::new(&facts, &topology, &expectations);
        let findings = Judged::new(&ctx, |id| id.starts_with("rdma.")).into_findings(&expectations);
        let longest = findings
            .iter()
            .flat_map(|found| &found.evidence)
            .map(|evidence| evidence.value.len().max(evidence.source.len()));
        assert!(longest.max().is_some_and(|longest| longest < 5_000));
    }
}

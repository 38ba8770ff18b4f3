//! The plan for a machine's findings: which fixes it has, what it leaves, and what is unknown.

use crate::check::{self, Ctx};
use crate::fix::{self, Fix, FixRequest, Options, PortChoice};
use crate::model::{Facts, Finding, Left, Outcome, Plan, Remedy, Repair};
use crate::profile::Expectations;
use crate::topo;
use crate::world::World;

/// What a plan is to repair.
pub struct Wanted<'a> {
    /// Ids of the fixes; empty for those of all failed findings.
    pub ids: &'a [String],
    /// `gdr fix-acs`: no other fix, and not all checks ran.
    pub ports_only: bool,
    pub expectations: &'a Expectations,
    pub options: &'a Options,
}

pub fn plan(world: &World, facts: &Facts, wanted: &Wanted<'_>) -> Plan {
    examine(facts, wanted.expectations, |ctx, findings| {
        let fixes = fixes(findings, wanted);
        let requested: Vec<Vec<&Finding>> =
            fixes.iter().map(|fix| findings_of(fix, findings)).collect();
        let fix_requests: Vec<(&Fix, FixRequest<'_>)> = fixes
            .iter()
            .zip(&requested)
            .map(|(fix, findings)| {
                let fix_request = FixRequest { ctx, findings, options: wanted.options };
                (*fix, fix_request)
            })
            .collect();
        let mut plan = fix::plan(ctx, &fix_requests, world.files.as_ref());
        add_unknown(&mut plan, findings, wanted);
        if !wanted.ports_only {
            let is_failure = |finding: &&Finding| finding.outcome == Outcome::Fail;
            plan.failures = Some(findings.iter().filter(is_failure).count());
            plan.left = left(&plan, findings.iter().filter(is_failure));
        }
        plan
    })
}

/// Plans every repair that a finding of a shipped profile requests, and discards the plan: a recording world then
/// contains what such a plan needs.
pub fn rehearse(world: &World, facts: &Facts) -> anyhow::Result<()> {
    let expectations = super::profiles::expectations(&["all".to_owned()])?;
    examine(facts, &expectations, |ctx, findings| {
        let options = Options::default();
        for fix in fix::FIXES {
            let requested = findings_of(fix, findings);
            if requested.is_empty() {
                continue;
            }
            let fix_request = FixRequest { ctx, findings: &requested, options: &options };
            fix::plan(ctx, &[(fix, fix_request)], world.files.as_ref());
        }
    });
    Ok(())
}

/// Runs the checks and passes on their findings.
pub fn examine<T>(
    facts: &Facts,
    expectations: &Expectations,
    then: impl FnOnce(&Ctx<'_>, &[Finding]) -> T,
) -> T {
    let topology = topo::topology(facts);
    let ctx = Ctx::new(facts, &topology, expectations);
    let findings = check::run(&ctx);
    then(&ctx, &findings)
}

/// The wanted fixes, and those that they require and a finding names, in the order in which they run.
fn fixes(findings: &[Finding], wanted: &Wanted<'_>) -> Vec<&'static Fix> {
    let is_wanted = |fix: &Fix| {
        if wanted.ids.is_empty() {
            findings
                .iter()
                .any(|finding| finding.outcome == Outcome::Fail && requests(finding, fix.id))
        } else {
            wanted.ids.iter().any(|id| id == fix.id)
        }
    };
    let is_required = |fix: &Fix| {
        let mut others = fix::FIXES.iter().filter(|other| is_wanted(other));
        !wanted.ports_only
            && others.any(|other| other.requires.contains(&fix.id))
            && !findings_of(fix, findings).is_empty()
    };
    let all = fix::FIXES.iter();
    all.filter(|fix| is_wanted(fix) || is_required(fix)).collect()
}

/// The findings that a fix would repair.
fn findings_of<'f>(fix: &Fix, findings: &'f [Finding]) -> Vec<&'f Finding> {
    findings.iter().filter(|finding| requests(finding, fix.id)).collect()
}

fn requests(finding: &Finding, fix: &str) -> bool {
    let bad = matches!(finding.outcome, Outcome::Fail | Outcome::Warn | Outcome::Info);
    bad && finding.fix.as_ref().and_then(Remedy::id) == Some(fix)
}

/// Adds what the checks could not read. A fix that the user names has nothing to change only if its checks are known.
fn add_unknown(plan: &mut Plan, findings: &[Finding], wanted: &Wanted<'_>) {
    let sentence = |finding: &Finding| fix::open(&finding.message, finding.needs.as_deref());
    if wanted.ids.is_empty() {
        let names_a_fix = |finding: &Finding| {
            let mut fixes = fix::FIXES.iter();
            fixes.any(|fix| fix.checks.contains(&finding.id.as_str()))
        };
        let open = findings.iter().filter(|finding| {
            check::leaves_open(finding, wanted.expectations) && names_a_fix(finding)
        });
        plan.unknown = open.map(sentence).collect();
        plan.unknown.dedup();
        return;
    }
    // The user names the ports: what is unknown of others does not matter.
    if wanted.options.ports != PortChoice::Judged {
        return;
    }
    let is_empty = |repair: &&mut Repair| repair.steps.is_empty() && repair.refused.is_none();
    for repair in plan.repairs.iter_mut().filter(is_empty) {
        let is_named = wanted.ids.contains(&repair.fix);
        let Some(fix) = fix::find(&repair.fix).filter(|_| is_named) else {
            continue;
        };
        let of_fix = findings.iter().filter(|finding| {
            finding.outcome == Outcome::Unknown && fix.checks.contains(&finding.id.as_str())
        });
        for finding in of_fix {
            let sentence = sentence(finding);
            if !repair.unknown.contains(&sentence) {
                repair.unknown.push(sentence);
            }
        }
    }
}

/// The failures that no step of the plan is for, those with the same next step together.
fn left<'f>(plan: &Plan, failures: impl Iterator<Item = &'f Finding>) -> Vec<Left> {
    let mut all: Vec<Left> = Vec::new();
    for finding in failures {
        let id = finding.fix.as_ref().and_then(Remedy::id);
        let repair = plan.repairs.iter().find(|repair| Some(repair.fix.as_str()) == id);
        let next = match (id, repair) {
            (_, Some(repair)) if !repair.steps.is_empty() => continue,
            (Some(id), None) => format!("gdr fix {id}"),
            (_, Some(repair)) => repair
                .refused
                .clone()
                .or_else(|| repair.unknown.first().cloned())
                .or_else(|| repair.warnings.first().cloned())
                .unwrap_or_else(|| by_hand(finding)),
            (None, None) => by_hand(finding),
        };
        let same = all.iter_mut().find(|left| left.check == finding.id && left.next == next);
        match same {
            Some(left) => left.subjects.push(finding.subject.clone()),
            None => all.push(Left {
                check: finding.id.clone(),
                subjects: vec![finding.subject.clone()],
                next,
            }),
        }
    }
    all
}

fn by_hand(finding: &Finding) -> String {
    let manual = finding.fix.as_ref().map(Remedy::manual);
    let command = manual.and_then(|manual| manual.command.clone());
    let advice = manual.and_then(|manual| manual.advice.clone());
    match (command, advice) {
        (Some(command), Some(advice)) => format!("{command} ({advice})"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => format!("see 'gdr doctor --only {}'", finding.id),
    }
}

//! `gdr fix` and `gdr fix-acs`: show a plan for the findings, ask, apply it and verify it.

use std::io::Write;

use anyhow::{Context as _, bail};

use super::machine::Machine;
use super::profiles::expectations;
use super::repair::{UNDONE, agreed, boot_id, executor};
use super::trusted::unsafe_program;
use crate::check::{self, Ctx};
use crate::cli::{
    FixAcs, FixOptions, Global, PersistHow, PlanFormat, Platform, RepairOptions, style,
};
use crate::collect::CollectOptions;
use crate::fix::{self, Fix, FixRequest, Moment, Options, Persist, PortChoice, UndoOptions};
use crate::input::did_you_mean;
use crate::model::{Facts, Finding, Journal, JournalState, Outcome, PLAN_SCHEMA, Plan, Progress};
use crate::output::{self, Document};
use crate::profile::Expectations;
use crate::render;
use crate::topo;
use crate::world::{Executor, World};

/// `gdr fix`.
pub fn run(
    machine: &Machine,
    global: &Global,
    options: &FixOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if options.list {
        let fixes = fix::FIXES.iter().map(|fix| (fix.id, fix.about));
        super::print(out, &render::plan::fixes(fixes, style(global.color)))?;
        return Ok(0);
    }
    for id in &options.ids {
        if fix::find(id).is_none() {
            let ids: Vec<&str> = fix::FIXES.iter().map(|fix| fix.id).collect();
            let near = did_you_mean(id, ids.iter().copied());
            bail!(
                "there is no fix '{id}'{near}; the fixes are {}",
                ids.join(", ")
            );
        }
    }
    let request = Request {
        ids: options.ids.clone(),
        expectations: expectations(&options.profile)?,
        options: Options {
            force: options.how.force,
            ..Options::default()
        },
        how: &options.how,
        rerun: rerun(
            "gdr fix",
            &[options.ids.clone(), profiles(options)].concat(),
            global,
        ),
    };
    repair(machine, global, &request, out, err)
}

/// The profile options as typed, and --force.
fn profiles(options: &FixOptions) -> Vec<String> {
    let usual = options.profile == [crate::profile::DEFAULT];
    let typed = options.profile.iter().filter(|_| !usual);
    let mut words: Vec<String> = typed.map(|name| format!("--profile={name}")).collect();
    words.extend(options.how.force.then(|| "--force".to_owned()));
    words
}

/// `gdr fix-acs`.
pub fn run_acs(
    machine: &Machine,
    global: &Global,
    options: &FixAcs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let ports = match (&options.pair, options.device, options.all_bridges) {
        (Some(pair), ..) => match pair.as_slice() {
            [a, b] => PortChoice::Pair(a.clone(), b.clone()),
            _ => bail!("--pair wants two devices"),
        },
        (None, Some(port), _) => PortChoice::Port(port),
        (None, None, true) => PortChoice::AllBridges,
        (None, None, false) => PortChoice::Judged,
    };
    let persist = options.persist.map(|how| match how {
        PersistHow::Unit => Persist::Unit,
        PersistHow::Cmdline => Persist::CommandLine,
    });
    let chosen = chosen(options);
    let (boot_command, unsafe_program) = match persist {
        Some(Persist::Unit) => at_boot(&chosen, global.from.is_some())?,
        _ => (Vec::new(), None),
    };
    let mut words = chosen;
    words.extend(options.persist.map(|how| match how {
        PersistHow::Unit => "--persist=unit".to_owned(),
        PersistHow::Cmdline => "--persist=cmdline".to_owned(),
    }));
    let request = Request {
        ids: vec!["acs".to_owned()],
        expectations: expectations(&[crate::profile::DEFAULT.to_owned()])?,
        options: Options {
            force: options.how.force,
            ports,
            persist,
            rerun: boot_command,
            unsafe_program,
        },
        how: &options.how,
        rerun: rerun("gdr fix-acs", &words, global),
    };
    repair(machine, global, &request, out, err)
}

/// The command of the unit, and why the program is unsafe to run as root, if it is.
fn at_boot(chosen: &[String], recorded: bool) -> anyhow::Result<(Vec<String>, Option<String>)> {
    let program = std::env::current_exe().context("cannot find the binary of gdr")?;
    if !program.is_file() {
        bail!(
            "the binary of gdr is no longer at {}, where the unit would run it: install gdr permanently and start it from there",
            program.display()
        );
    }
    // The unit of a recorded machine names the gdr that will be there.
    let why = if recorded {
        None
    } else {
        unsafe_program(&program)
    };
    let program = program
        .to_str()
        .context("the path of the gdr binary is not UTF-8")?;
    let command = [program, "fix-acs", "--yes"].map(str::to_owned).into_iter();
    Ok((command.chain(chosen.iter().cloned()).collect(), why))
}

/// The options that choose the ports, as typed.
fn chosen(options: &FixAcs) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(pair) = &options.pair {
        words.push("--pair".to_owned());
        words.extend(pair.iter().cloned());
    }
    words.extend(options.device.map(|port| format!("--device={port}")));
    words.extend(options.all_bridges.then(|| "--all-bridges".to_owned()));
    words.extend(options.how.force.then(|| "--force".to_owned()));
    words.extend(options.how.platform.map(|platform| match platform {
        Platform::BareMetal => "--platform=bare-metal".to_owned(),
        Platform::Guest => "--platform=guest".to_owned(),
    }));
    words
}

/// The requested repair.
struct Request<'a> {
    /// Ids of the fixes; empty for those of all failed findings.
    ids: Vec<String>,
    expectations: Expectations,
    options: Options,
    how: &'a RepairOptions,
    /// The command that makes the repair.
    rerun: String,
}

fn rerun(command: &str, ids: &[String], global: &Global) -> String {
    let root = global
        .sysroot
        .as_ref()
        .map(|root| format!("--sysroot={}", root.display()));
    let words = std::iter::once(command.to_owned())
        .chain(ids.iter().cloned())
        .chain(root);
    words.collect::<Vec<_>>().join(" ")
}

fn repair(
    machine: &Machine,
    global: &Global,
    request: &Request<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let Machine::World(world) = machine else {
        bail!(
            "a dump of another program is not complete enough for a repair: take a snapshot with 'gdr snapshot'"
        );
    };
    let facts = facts(machine, request);
    super::notes(global, false, &facts, err);
    if let Some(judgement) = check::too_many_devices(&facts) {
        bail!("{}", judgement.message);
    }
    let plan = plan(world, &facts, request);
    let style = style(global.color);
    if request.how.dry_run || request.how.format == PlanFormat::Script {
        super::print(out, &shown(&plan, request.how.format, style)?)?;
        return Ok(u8::from(refused(&plan)));
    }
    // Without root, facts are missing: a plan that looks empty may not be.
    let lacks_root = machine.is_live() && facts.process.uid.known().is_some_and(|uid| *uid != 0);
    let root_message = format!(
        "root is required to read and change this machine. Run: sudo {}{}",
        request.rerun,
        if request.how.yes { " --yes" } else { "" }
    );
    if lacks_root && plan.is_empty() {
        super::print(out, &shown(&plan, request.how.format, style)?)?;
        super::remark(err, &root_message);
        return Ok(UNDONE);
    }
    if plan.repairs.is_empty() {
        super::print(out, "No failed check has a fix.\n")?;
        return Ok(0);
    }
    if request.how.format == PlanFormat::Table {
        super::print(out, &render::plan::table(&plan, style))?;
    }
    if plan.is_empty() {
        if request.how.format == PlanFormat::Json {
            super::print(out, &shown(&plan, PlanFormat::Json, style)?)?;
        }
        return Ok(u8::from(refused(&plan)));
    }
    let Some(executor) = executor(global, machine, request.how.tools.as_deref())? else {
        bail!(
            "a recorded machine cannot be repaired: --dry-run shows the plan, --format script writes it as a script"
        );
    };
    if lacks_root {
        super::remark(err, &root_message);
        return Ok(UNDONE);
    }
    if !request.how.yes && !agreed("Make these changes? [y/N] ", err)? {
        super::remark(err, "nothing was changed");
        return Ok(UNDONE);
    }
    let Some(journal) = apply(&executor, world, &plan, err)? else {
        return Ok(1);
    };
    if request.how.format == PlanFormat::Json {
        super::print(out, &output::pretty(&journal)?)?;
    }
    if let JournalState::Stopped(why) = &journal.state {
        super::remark(err, &format!("stopped: {why}"));
        return stopped(&executor, world, request, &journal, style, (out, err));
    }
    if request.how.format == PlanFormat::Table {
        let now = self::facts(machine, request);
        super::print(out, &outcome(&journal, &plan, &now, request, style.width))?;
    }
    Ok(u8::from(refused(&plan)))
}

/// Applies the plan. `None` if the first step failed, so that nothing was changed.
fn apply(
    executor: &Executor,
    world: &World,
    plan: &Plan,
    err: &mut dyn Write,
) -> anyhow::Result<Option<Journal>> {
    let moment = Moment {
        taken: output::now(),
        boot: boot_id(world),
    };
    match fix::apply(executor, plan, &moment, &mut |line| {
        super::remark(err, line)
    }) {
        Ok(journal) => Ok(Some(journal)),
        Err(fix::Error::Unexpected(why) | fix::Error::NotInstalled(why)) => {
            super::remark(err, &format!("stopped, and nothing was changed: {why}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The facts of the machine, with the platform of --platform.
fn facts(machine: &Machine, request: &Request<'_>) -> Facts {
    let mut facts = machine.facts(want(request));
    facts.platform.asserted = request.how.platform.map(Platform::kind);
    facts
}

/// Offers to undo a repair that stopped at a step.
fn stopped(
    executor: &Executor,
    world: &World,
    request: &Request<'_>,
    journal: &Journal,
    style: render::Style,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> anyhow::Result<u8> {
    let number = journal.number;
    if !request.how.yes && agreed("Undo the changes? [y/N] ", err)? {
        let how = UndoOptions {
            number: Some(number),
            boot: boot_id(world),
            force: false,
        };
        let undone = fix::undo(executor, &how, &mut |line| super::remark(err, line))?;
        super::print(out, &super::undo::report(&undone, false, style))?;
    } else {
        super::remark(
            err,
            &format!("the changes stay: 'gdr undo {number}' undoes them"),
        );
    }
    Ok(1)
}

/// The report after a repair.
fn outcome(
    journal: &Journal,
    plan: &Plan,
    now: &Facts,
    request: &Request<'_>,
    width: usize,
) -> String {
    let printed = journal
        .entries
        .iter()
        .filter(|entry| entry.progress == Progress::Printed)
        .count();
    let made = journal.entries.len() - printed;
    let mut text = format!(
        "Repair {} is made: {made} {}.",
        journal.number,
        if made == 1 { "step" } else { "steps" }
    );
    if printed > 0 {
        text.push_str(&format!(
            " {printed} more to run yourself, as printed above."
        ));
    }
    text.push_str(&format!(" 'gdr undo {}' undoes it.\n", journal.number));
    let findings = examine(now, &request.expectations, |_, findings| findings.to_vec());
    for repair in &plan.repairs {
        let mut checks: Vec<&str> = repair
            .findings
            .iter()
            .map(|cause| cause.check.as_str())
            .collect();
        checks.dedup();
        for check in checks {
            let worst = findings
                .iter()
                .filter(|f| f.id == check)
                .find(|f| matches!(f.outcome, Outcome::Fail | Outcome::Warn));
            match (worst, repair.afterwards.is_empty()) {
                (None, _) => text.push_str(&format!("  {check}: fixed.\n")),
                (Some(_), false) => text.push_str(&format!(
                    "  {check}: fixed after the remaining actions: see 'then' above.\n"
                )),
                (Some(finding), true) => {
                    text.push_str(&format!("  {check}: still {}\n", finding.message))
                }
            }
        }
    }
    let wrapped = text
        .lines()
        .map(|line| render::wrap(line, width, 0, "    ") + "\n");
    wrapped.collect()
}

fn plan(world: &World, facts: &Facts, request: &Request<'_>) -> Plan {
    examine(facts, &request.expectations, |ctx, findings| {
        let fixes: Vec<&Fix> = fix::FIXES
            .iter()
            .filter(|fix| wanted(fix, findings, &request.ids))
            .collect();
        let requested: Vec<Vec<&Finding>> =
            fixes.iter().map(|fix| findings_of(fix, findings)).collect();
        let fix_requests: Vec<(&Fix, FixRequest<'_>)> = fixes
            .iter()
            .zip(&requested)
            .map(|(fix, findings)| {
                let fix_request = FixRequest {
                    ctx,
                    findings,
                    options: &request.options,
                };
                (*fix, fix_request)
            })
            .collect();
        fix::plan(ctx, &fix_requests, world.files.as_ref())
    })
}

/// Plans every repair that a finding of a shipped profile requests, and discards the plan: a recording world then
/// contains what such a plan needs.
pub fn rehearse(world: &World, facts: &Facts) -> anyhow::Result<()> {
    let expectations = expectations(&["all".to_owned()])?;
    examine(facts, &expectations, |ctx, findings| {
        let options = Options::default();
        for fix in fix::FIXES {
            let requested = findings_of(fix, findings);
            if requested.is_empty() {
                continue;
            }
            let fix_request = FixRequest {
                ctx,
                findings: &requested,
                options: &options,
            };
            fix::plan(ctx, &[(fix, fix_request)], world.files.as_ref());
        }
    });
    Ok(())
}

/// The findings that a fix would repair.
fn findings_of<'f>(fix: &Fix, findings: &'f [Finding]) -> Vec<&'f Finding> {
    findings
        .iter()
        .filter(|finding| requests(finding, fix.id))
        .collect()
}

fn wanted(fix: &Fix, findings: &[Finding], ids: &[String]) -> bool {
    match ids.is_empty() {
        true => findings
            .iter()
            .any(|finding| finding.outcome == Outcome::Fail && requests(finding, fix.id)),
        false => ids.iter().any(|id| id == fix.id),
    }
}

fn requests(finding: &Finding, fix: &str) -> bool {
    let bad = matches!(
        finding.outcome,
        Outcome::Fail | Outcome::Warn | Outcome::Info
    );
    bad && finding
        .fix
        .as_ref()
        .is_some_and(|remedy| remedy.id() == Some(fix))
}

/// Runs the checks and passes on their findings.
fn examine<T>(
    facts: &Facts,
    expectations: &Expectations,
    then: impl FnOnce(&Ctx<'_>, &[Finding]) -> T,
) -> T {
    let topology = topo::topology(facts);
    let ctx = Ctx::new(facts, &topology, expectations);
    let findings = check::run(&ctx);
    then(&ctx, &findings)
}

fn shown(plan: &Plan, format: PlanFormat, style: render::Style) -> anyhow::Result<String> {
    Ok(match format {
        PlanFormat::Table => render::plan::table(plan, style),
        PlanFormat::Script => render::plan::script(plan),
        PlanFormat::Json => output::pretty(&Document::new(PLAN_SCHEMA, plan))?,
    })
}

fn refused(plan: &Plan) -> bool {
    plan.repairs.iter().any(|repair| repair.refused.is_some())
}

/// Everything that the checks need, including slow library calls.
fn want(request: &Request<'_>) -> CollectOptions {
    let everything = super::doctor::want(false, |_| true);
    match request.ids == ["acs"] {
        // The ports depend on devices and NVLinks only; the rest is slow.
        true => CollectOptions {
            cuda: false,
            verbs: None,
            network: None,
            ..everything
        },
        false => CollectOptions {
            initramfs: true,
            ..everything
        },
    }
}

//! `gdr fix` and `gdr fix-acs`: show a plan for the findings, ask, apply it and verify it.

use std::io::Write;

use anyhow::{Context as _, bail};

use super::machine::Machine;
use super::planned;
use super::profiles::expectations;
use super::repair::{UNDONE, agreed, boot_id, executor};
use super::trusted::unsafe_program;
use crate::check;
use crate::cli::{
    FixAcs, FixOptions, Global, PersistHow, PlanFormat, Platform, RepairOptions, style,
};
use crate::collect::CollectOptions;
use crate::fix::{self, Moment, Options, Persist, PortChoice, UndoOptions};
use crate::input::did_you_mean;
use crate::model::{Facts, Journal, JournalState, Outcome, PLAN_SCHEMA, Plan, Progress};
use crate::output::{self, Document};
use crate::profile::Expectations;
use crate::render;
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
            bail!("there is no fix '{id}'{near}; the fixes are {}", ids.join(", "));
        }
    }
    let request = Request {
        ids: options.ids.clone(),
        ports_only: false,
        expectations: expectations(&options.profile)?,
        options: Options { force: options.how.force, ..Options::default() },
        how: &options.how,
        rerun: rerun("gdr fix", &[options.ids.clone(), profiles(options)].concat(), global),
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
        Some(Persist::Unit) => at_boot(&chosen, !global.from.is_empty())?,
        _ => (Vec::new(), None),
    };
    let mut words = chosen;
    words.extend(options.persist.map(|how| match how {
        PersistHow::Unit => "--persist=unit".to_owned(),
        PersistHow::Cmdline => "--persist=cmdline".to_owned(),
    }));
    let request = Request {
        ids: vec!["acs".to_owned()],
        ports_only: true,
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
    let why = if recorded { None } else { unsafe_program(&program) };
    let program = program.to_str().context("the path of the gdr binary is not UTF-8")?;
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

/// Exit status: it is unknown whether there is something to repair.
const UNKNOWN: u8 = 3;

/// The requested repair.
struct Request<'a> {
    /// Ids of the fixes; empty for those of all failed findings.
    ids: Vec<String>,
    /// Nothing but the ports that an option or pcie.acs names.
    ports_only: bool,
    expectations: Expectations,
    options: Options,
    how: &'a RepairOptions,
    /// The command that makes the repair.
    rerun: String,
}

impl Request<'_> {
    fn wanted(&self) -> planned::Wanted<'_> {
        planned::Wanted {
            ids: &self.ids,
            ports_only: self.ports_only,
            expectations: &self.expectations,
            options: &self.options,
        }
    }
}

fn rerun(command: &str, ids: &[String], global: &Global) -> String {
    let root = global.sysroot.as_ref().map(|root| format!("--sysroot={}", root.display()));
    let words = std::iter::once(command.to_owned()).chain(ids.iter().cloned()).chain(root);
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
    let plan = planned::plan(world, &facts, &request.wanted());
    let style = style(global.color);
    if request.how.dry_run || request.how.format == PlanFormat::Script {
        super::print(out, &shown(&plan, request, style)?)?;
        return Ok(status(&plan, request));
    }
    // Without root, facts are missing: a plan that looks empty may not be.
    let lacks_root = machine.is_live() && facts.process.uid.known().is_some_and(|uid| *uid != 0);
    let root_message = format!(
        "root is required to read and change this machine. Run: sudo {}{}",
        request.rerun,
        if request.how.yes { " --yes" } else { "" }
    );
    if lacks_root && plan.is_empty() {
        super::print(out, &shown(&plan, request, style)?)?;
        super::remark(err, &root_message);
        return Ok(UNDONE);
    }
    if plan.is_empty() || request.how.format == PlanFormat::Table {
        super::print(out, &shown(&plan, request, style)?)?;
    }
    if plan.is_empty() {
        return Ok(status(&plan, request));
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
    Ok(status(&plan, request))
}

/// Applies the plan. `None` if the first step failed, so that nothing was changed.
fn apply(
    executor: &Executor,
    world: &World,
    plan: &Plan,
    err: &mut dyn Write,
) -> anyhow::Result<Option<Journal>> {
    let moment = Moment { taken: output::now(), boot: boot_id(world) };
    match fix::apply(executor, plan, &moment, &mut |line| super::remark(err, line)) {
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
        let how = UndoOptions { number: Some(number), boot: boot_id(world), force: false };
        let undone = fix::undo(executor, &how, &mut |line| super::remark(err, line))?;
        super::print(out, &super::undo::report(&undone, false, style))?;
    } else {
        super::remark(err, &format!("the changes stay: 'gdr undo {number}' undoes them"));
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
    let printed =
        journal.entries.iter().filter(|entry| entry.progress == Progress::Printed).count();
    let made = journal.entries.len() - printed;
    let mut text = format!(
        "Repair {} is made: {made} {}.",
        journal.number,
        if made == 1 { "step" } else { "steps" }
    );
    if printed > 0 {
        text.push_str(&format!(" {printed} more to run yourself, as printed above."));
    }
    text.push_str(&format!(" 'gdr undo {}' undoes it.\n", journal.number));
    let findings = planned::examine(now, &request.expectations, |_, findings| findings.to_vec());
    for repair in &plan.repairs {
        let mut checks: Vec<&str> =
            repair.findings.iter().map(|cause| cause.check.as_str()).collect();
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
    let wrapped = text.lines().map(|line| render::wrap(line, width, 0, "    ") + "\n");
    wrapped.collect()
}

fn shown(plan: &Plan, request: &Request<'_>, style: render::Style) -> anyhow::Result<String> {
    Ok(match request.how.format {
        PlanFormat::Table => render::plan::table(plan, request.ids.is_empty(), style),
        PlanFormat::Script => render::plan::script(plan),
        PlanFormat::Json => {
            let recorded = plan.host.recorded.as_deref();
            output::pretty(&Document::of(PLAN_SCHEMA, recorded, plan))?
        }
    })
}

/// Exit status of a plan that is shown or made.
fn status(plan: &Plan, request: &Request<'_>) -> u8 {
    let refused = plan.repairs.iter().any(|repair| repair.refused.is_some());
    let unknown = plan.repairs.iter().any(|repair| !repair.unknown.is_empty());
    match (
        refused || request.ids.is_empty() && !plan.left.is_empty(),
        unknown || !plan.unknown.is_empty(),
    ) {
        (true, _) => 1,
        (false, true) => UNKNOWN,
        (false, false) => 0,
    }
}

/// Everything that the checks need, including slow library calls.
fn want(request: &Request<'_>) -> CollectOptions {
    let everything = super::doctor::want(false, |_| true);
    if request.ports_only {
        // The ports depend on devices and NVLinks only; the rest is slow.
        CollectOptions { cuda: false, verbs: None, network: None, ..everything }
    } else {
        CollectOptions { initramfs: true, ..everything }
    }
}

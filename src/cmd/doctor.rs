//! `gdr doctor`.

use std::io::Write;

use anyhow::bail;

use super::machine::Machine;
use super::profiles::expectations;
use crate::check::{self, Ctx, Judged, Selection};
use crate::cli::{Doctor, DoctorFormat, FailOn, Global, Platform, style};
use crate::collect::CollectOptions;
use crate::model::{Outcome, Summary};
use crate::output;
use crate::render::doctor::{self, Report, Shown};
use crate::topo;
use crate::world::{NvmlQuery, VerbsQuery};

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Doctor,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if options.list {
        super::print(
            out,
            &doctor::list(check::all().map(|c| (c.id, c.severity, c.rule))),
        )?;
        return Ok(0);
    }
    if options.live && !machine.can_be_tried() {
        bail!(
            "--live tries the hardware of the machine gdr runs on: it cannot be had with --sysroot, and with --from only \
             where 'gdr snapshot --live' recorded what came of it"
        );
    }
    let selection = Selection::of(&options.only, &options.skip)?;
    let expectations = expectations(&options.profile)?;
    let mut facts = machine.facts(want(options.live));
    facts.platform.asserted = options.platform.map(Platform::kind);
    super::notes(global, machine.is_imported(), &facts, err);
    let topology = topo::topology(&facts);
    let ctx = Ctx::new(&facts, &topology, &expectations);
    let judged = Judged::new(&ctx, |id| selection.has(id));
    // Of a few checks alone nobody can say that a machine is ready.
    let profiles = expectations
        .profiles()
        .iter()
        .filter(|_| selection.is_everything());
    let readiness = profiles
        .map(|profile| check::readiness(&ctx, profile, &judged))
        .collect();
    let findings = judged.into_findings(&expectations);
    let report = Report {
        schema: "gdr.doctor/1",
        host: &facts.host,
        profiles: &expectations.names,
        readiness,
        summary: Summary::of(&findings),
        findings: &findings,
        notes: &facts.notes,
    };
    let families = check::families();
    let shown = Shown {
        quiet: options.quiet,
        evidence: global.verbose,
        families: &families,
        why: &|id| check::find(id).map_or("", |check| check.why),
    };
    super::print_with(out, |out| match options.format {
        DoctorFormat::Table => doctor::table(&report, &shown, style(global.color), out),
        DoctorFormat::Json => output::write_pretty(out, &report),
        DoctorFormat::Markdown => doctor::markdown(&report, &shown, out),
        DoctorFormat::Prometheus => doctor::prometheus(&report, out),
    })?;
    Ok(check::exit_code(
        &findings,
        &expectations,
        failing(options.fail_on),
    ))
}

/// The outcomes that count as failed.
fn failing(on: FailOn) -> &'static [Outcome] {
    match on {
        FailOn::Error => &[Outcome::Fail],
        FailOn::Warn => &[Outcome::Fail, Outcome::Warn],
        FailOn::Unknown => &[Outcome::Fail, Outcome::Warn, Outcome::Unknown],
    }
}

/// What the checks read; `live`: also what only a trial of the hardware tells.
pub fn want(live: bool) -> CollectOptions {
    CollectOptions {
        nvme: false,
        nvml: NvmlQuery::EVERYTHING,
        system: true,
        cuda: true,
        verbs: Some(VerbsQuery { trials: live }),
        mapping: live,
        registration: live,
        initramfs: false,
    }
}

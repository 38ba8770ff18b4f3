//! `gdr doctor`.

use std::io::Write;

use anyhow::{Context as _, bail};

use super::machine::Machine;
use crate::check::{self, Ctx};
use crate::cli::{Doctor, DoctorFormat, Global, Platform, style};
use crate::collect::Want;
use crate::model::{PlatformKind, Summary};
use crate::profile::{Expectations, Profile, SHIPPED};
use crate::render::doctor::{self, Report};
use crate::topo::{self, Forest};
use crate::world::NvmlWant;

/// Examines the machine.
pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Doctor,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if options.list {
        super::print(out, &doctor::list(check::all().map(|c| (c.id, c.severity, c.rule))))?;
        return Ok(0);
    }
    if options.live && !machine.can_be_tried() {
        bail!(
            "--live tries the hardware of the machine gdr runs on: it cannot be had with --sysroot, and with --from only \
             where 'gdr snapshot --live' recorded what came of it"
        );
    }
    let expectations = expectations(&options.profile)?;
    let mut facts = machine.facts(want(options.live));
    facts.platform.asserted = options.platform.map(|platform| match platform {
        Platform::BareMetal => PlatformKind::BareMetal,
        Platform::Guest => PlatformKind::Guest,
    });
    super::notes(global, machine.is_imported(), &facts, err);
    let topology = topo::topology(&facts);
    let findings = check::run(&Ctx {
        facts: &facts,
        topology: &topology,
        forest: &Forest::new(facts.devices()),
        expectations: &expectations,
    });
    let report = Report {
        schema: "gdr.doctor/1",
        host: &facts.host,
        profiles: &expectations.names,
        summary: Summary::of(&findings),
        findings: &findings,
        notes: &facts.notes,
    };
    let text = match options.format {
        DoctorFormat::Table => doctor::table(&report, style(global.color)),
        DoctorFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    super::print(out, &text)?;
    Ok(check::exit_code(&findings, &expectations))
}

fn want(live: bool) -> Want {
    Want {
        nvme: false,
        nvml: NvmlWant::EVERYTHING,
        system: true,
        cuda: true,
        mapping: live,
    }
}

/// The profiles by name, or from files.
fn expectations(names: &[String]) -> anyhow::Result<Expectations> {
    let known = |id: &str| check::find(id).is_some();
    let profiles: Vec<Profile> = names
        .iter()
        .map(|name| match SHIPPED.iter().find(|(shipped, _)| shipped == name) {
            Some((name, text)) => Ok(Profile::parse(name, text, known)?),
            None => {
                let text = std::fs::read_to_string(name).with_context(|| {
                    let shipped: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                    format!(
                        "'{name}' is neither a profile ({}) nor a file that can be read",
                        shipped.join(", ")
                    )
                })?;
                Ok(Profile::parse(name, &text, known)?)
            }
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Expectations::of(&profiles))
}

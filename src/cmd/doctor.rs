//! `gdr doctor`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::bail;

use super::baseline::{self, Baseline};
use super::machine::Machine;
use super::mask_key::Masked;
use super::profiles::expectations;
use crate::check::{self, Ctx, Judged, Selection, Source};
use crate::cli::{Doctor, DoctorFormat, FailOn, Global, Platform, style};
use crate::collect::CollectOptions;
use crate::model::{
    Area, Comparison, Fact, Facts, Finding, Network, Outcome, Readiness, Remedy, Summary, Why,
};
use crate::output::{self, Document, shell_word};
use crate::profile::{self, Expectations};
use crate::render::doctor::{self, Report, Shown};
use crate::render::{Style, html, junit, svg};
use crate::topo;
use crate::world::{NetworkQuery, NvmlQuery, VerbsQuery};

/// The exit status where nothing failed and something required is unknown.
const UNKNOWN: u8 = 3;

const SCHEMA: &str = "gdr.doctor/1";

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Doctor,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if options.list {
        return list(global, out);
    }
    reject_live(machine, options)?;
    let selection = Selection::of(&options.only, &options.skip)?;
    let expectations = expectations(&options.profile)?;
    // Without an expectation these checks do not apply, and a report is shorter without them.
    let expects = expectations.expects().next().is_some() || !options.only.is_empty();
    let applies = |id: &str| selection.has(id) && (expects || !is_by_table(id));
    let wanted = |id: &str| applies(id) && !(options.quick && is_costly(id));
    let mut sources = want(options.live, wanted);
    // Starting CUDA takes most of the time of a report.
    sources.cuda &= !options.quick;
    sources.nvml.errors &= !options.quick;
    let masked = Masked::by(options.masks.mask_key.as_deref())?;
    let mut facts = masked.facts(machine.facts(sources))?;
    facts.platform.asserted = options.platform.map(Platform::kind);
    let earlier = earlier(options, &mut facts)?;
    super::notes(global, machine.is_imported(), &facts, err);
    let topology = topo::topology(&facts);
    let ctx = Ctx::new(&facts, &topology, &expectations);
    let judged = Judged::new(&ctx, wanted);
    // A few checks alone cannot show that a machine is ready.
    let profiles =
        expectations.profiles().iter().filter(|_| selection.is_everything() && !options.quick);
    let readiness: Vec<Readiness> =
        profiles.map(|profile| check::readiness(&ctx, profile, &judged)).collect();
    let mut findings = judged.into_findings(&expectations);
    let left_out = if options.quick { left_out(applies, &mut findings) } else { BTreeSet::new() };
    let names = machine.names();
    let fix = fix_command(facts.host.origin(), machine, &options.profile);
    let causes = check::causes(&findings);
    let roots = check::roots(&findings, &causes);
    let mut report = Report {
        host: &facts.host,
        hardware: topo::hardware(&facts, &topology, &|ids| names.of(ids)),
        profiles: &expectations.names,
        summary: Summary::of(&findings),
        next_steps: check::steps(&findings, &roots, &readiness, &fix),
        readings: check::readings(&ctx),
        comparison: None,
        roots,
        causes,
        readiness,
        findings: &findings,
        notes: &facts.notes,
        left_out,
    };
    report.comparison = earlier.map(|earlier| compare(earlier, &report)).transpose()?;
    let families = check::families();
    let shown = Shown {
        quiet: options.quiet,
        verbose: global.verbose,
        families: &families,
        why: &|id| check::find(id).map_or("", |check| check.why),
        matters: &|finding| check::leaves_open(finding, &expectations),
        fix,
        fix_where: fix_where(machine),
        missing: missing(facts.host.origin(), machine),
        shown_by: &|area, sources| shown_by(area, sources, machine, &facts),
    };
    let drawing = || svg::svg(&facts, &topology, &|ids| names.of(ids));
    let style = style(global.color);
    super::print_with(out, |out| write(options.format, &report, &shown, style, &drawing, out))?;
    if !global.from.is_empty() && findings.iter().any(has_fix) {
        let text = "fixes are for the recorded machine: run gdr fix there, or with --dry-run here";
        super::remark(err, text);
    }
    let failing = failing(options.fail_on);
    let code = check::exit_code(&findings, &report.readiness, &expectations, failing);
    Ok(if options.allow_unknown && code == UNKNOWN { 0 } else { code })
}

/// Prints all checks.
fn list(global: &Global, out: &mut dyn Write) -> anyhow::Result<u8> {
    let checks = check::all().map(|c| (c.id, c.severity, c.rule));
    super::print(out, &doctor::list(checks, style(global.color)))?;
    Ok(0)
}

/// The earlier report of this machine. The facts get what counters rose by since then.
fn earlier(options: &Doctor, facts: &mut Facts) -> anyhow::Result<Option<Baseline>> {
    let Some(source) = &options.baseline else { return Ok(None) };
    let Some(found) = baseline::read(source)? else {
        bail!(
            "--baseline {}: no file of this directory ends in .json or .json.zst",
            source.display()
        );
    };
    let earlier = found.of_machine(facts.host.name.as_deref())?;
    add_growth(facts, &earlier);
    Ok(Some(earlier))
}

fn compare(mut earlier: Baseline, report: &Report<'_>) -> anyhow::Result<Comparison> {
    let document = Document::of(SCHEMA, report.host.recorded.as_deref(), report);
    Ok(earlier.compare_machine(&serde_json::to_vec(&document)?))
}

/// Counters that rose since the earlier report, unless they were just read twice.
fn add_growth(facts: &mut Facts, earlier: &Baseline) {
    let taken = facts.host.recorded.clone().unwrap_or_else(output::now);
    let nothing = Expectations::of(&[]);
    let topology = topo::topology(facts);
    let now = check::readings(&Ctx::new(facts, &topology, &nothing));
    let growth = earlier.growth(&facts.host, &now, &taken);
    // Without RoCE there is nothing to ask about network interfaces.
    if facts.network == Fact::Unknown(Why::NotCovered) && !has_roce(facts) {
        facts.network = Fact::Known(Network::default());
    }
    if let Fact::Known(network) = &mut facts.network
        && network.growth.is_none()
    {
        network.growth = growth;
    }
}

/// True if an active port is Ethernet: its network interfaces were asked, where the source has them.
fn has_roce(facts: &Facts) -> bool {
    let nics = facts.rdma.known().into_iter().flatten();
    let mut ports = nics.filter_map(|nic| nic.ports.known()).flatten();
    ports.any(|port| {
        port.is_active() && port.link_layer.known().is_some_and(|layer| layer == "Ethernet")
    })
}

/// Trials need the hardware, or its recorded results.
fn reject_live(machine: &Machine, options: &Doctor) -> anyhow::Result<()> {
    if options.live && !machine.can_be_tried() {
        bail!(
            "--live tests the hardware of this machine: it does not work with --sysroot, and with --from only \
             if 'gdr snapshot --live' recorded the results"
        );
    }
    Ok(())
}

fn write(
    format: DoctorFormat,
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    drawing: &dyn Fn() -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        DoctorFormat::Table => doctor::table(report, shown, style, out),
        DoctorFormat::Json => {
            let document = Document::of(SCHEMA, report.host.recorded.as_deref(), report);
            output::write_pretty(out, &document)
        }
        DoctorFormat::Markdown => doctor::markdown(report, shown, out),
        DoctorFormat::Prometheus => doctor::prometheus(report, out),
        DoctorFormat::Html => {
            out.write_all(html::doctor(report, shown, &drawing(), &output::now()).as_bytes())
        }
        DoctorFormat::Line => out.write_all(doctor::line(report, shown.matters).as_bytes()),
        DoctorFormat::Junit => out.write_all(junit::doctor(report, shown.matters).as_bytes()),
    }
}

fn fix_where(machine: &Machine) -> &'static str {
    if machine.is_imported() { ", on that machine" } else { "" }
}

/// Words for a source that could not be read.
fn missing(source: &str, machine: &Machine) -> &'static str {
    match source {
        "live" => "not available",
        _ if machine.is_imported() => "not in this dump",
        _ => "not in this snapshot",
    }
}

/// The command whose output, in the same text or another --from, shows more of these sources.
fn shown_by(
    area: Area,
    sources: &BTreeSet<&str>,
    machine: &Machine,
    facts: &Facts,
) -> Option<&'static str> {
    if !machine.is_imported() {
        return None;
    }
    let lacks = |path: &str| sources.iter().any(|source| source.contains(path));
    let has_tree = facts.devices().iter().any(|device| device.place.known().is_some());
    match area {
        Area::Nvml if facts.nvml.known().is_none() => Some("'nvidia-smi -q'"),
        Area::ConfigSpace => Some("'sudo lspci -vvv'"),
        Area::Sys if !has_tree => Some("'sudo lspci -vvv'"),
        Area::Sys if lacks("/sys/class/infiniband") && facts.rdma.known().is_none() => {
            Some("'ibstat'")
        }
        Area::Sys if lacks("iommu_groups") => Some("'sudo dmesg'"),
        Area::Proc if lacks("/proc/driver/nvidia/params") => {
            Some("'cat /proc/driver/nvidia/params' (with its command line)")
        }
        Area::Proc if lacks("/proc/cmdline") => Some("'cat /proc/cmdline'"),
        _ => None,
    }
}

/// True if the check runs tools or looks through directories of software.
fn is_costly(id: &str) -> bool {
    let costly = |source: &Source| matches!(source, Source::Settings | Source::Software);
    check::find(id).is_some_and(|check| check.reads.iter().any(costly))
}

/// True for a check that compares with the table `expect` of a profile.
pub fn is_by_table(id: &str) -> bool {
    check::family(id).is_some_and(|family| family.by_table)
}

/// The checks that `--quick` leaves out, whole or for some of their subjects.
fn left_out(applies: impl Fn(&str) -> bool, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    let costly = check::all().map(|check| check.id).filter(|id| applies(id) && is_costly(id));
    costly.map(str::to_owned).chain(without_cuda(findings)).collect()
}

/// Removes the findings that only CUDA could decide, and returns their checks.
fn without_cuda(findings: &mut Vec<Finding>) -> Vec<String> {
    let removed = findings
        .extract_if(.., |finding| finding.missing == Some(Area::Cuda))
        .map(|finding| finding.id);
    removed.collect()
}

/// True if gdr can repair the problem.
fn has_fix(finding: &Finding) -> bool {
    let wrong = matches!(finding.outcome, Outcome::Fail | Outcome::Warn);
    wrong && finding.fix.as_ref().and_then(Remedy::id).is_some()
}

/// The command that repairs the inspected machine, without ids of fixes. A replay names the command for its machine.
fn fix_command(source: &str, machine: &Machine, profiles: &[String]) -> String {
    let mut command = if source == "live" || machine.is_imported() {
        "sudo gdr fix".to_owned()
    } else {
        format!("gdr --sysroot {} fix", shell_word(source))
    };
    for profile in profiles.iter().filter(|_| profiles != [profile::DEFAULT]) {
        command.push_str(&format!(" --profile {}", shell_word(profile)));
    }
    command
}

/// The outcomes that count as failures.
fn failing(on: FailOn) -> &'static [Outcome] {
    match on {
        FailOn::Error => &[Outcome::Fail],
        FailOn::Warn => &[Outcome::Fail, Outcome::Warn],
        FailOn::Unknown => &[Outcome::Fail, Outcome::Warn, Outcome::Unknown],
    }
}

/// The sources that the checks need; `live` adds tests of the hardware.
pub fn want(live: bool, wanted: impl Fn(&str) -> bool) -> CollectOptions {
    let read: Vec<Source> = check::all()
        .filter(|check| wanted(check.id))
        .flat_map(|check| check.reads)
        .copied()
        .collect();
    let has = |source| read.contains(&source);
    let nvml = has(Source::Nvml) || has(Source::NvmlPeers);
    CollectOptions {
        nvme: false,
        nvml: NvmlQuery {
            links: has(Source::NvLinks),
            p2p: has(Source::NvmlPeers),
            p2p_only: None,
            details: has(Source::Nvml),
            errors: has(Source::NvLinkErrors),
            // NVLinks need two GPUs.
            from_gpus: if nvml { 0 } else { 2 },
        },
        system: true,
        modules: has(Source::Modules),
        software: has(Source::Software),
        settings: has(Source::Settings),
        cuda: has(Source::Cuda),
        verbs: has(Source::Verbs).then_some(VerbsQuery { trials: live }),
        network: has(Source::Network).then_some(NetworkQuery { twice: live }),
        mapping: live && has(Source::Mapping),
        registration: live && has(Source::Registration),
        initramfs: false,
    }
}

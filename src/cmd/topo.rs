//! `gdr topo`.

use std::io::Write;

use anyhow::{Context as _, anyhow, bail};

use super::machine::Machine;
use super::mask_key::Masked;
use crate::cli::{Global, P2p, Platform, Topo, TopoFormat, style};
use crate::collect::CollectOptions;
use crate::model::{Fact, Facts, Ids, Kind, NvmlOutcome, P2pCapability, Verdict};
use crate::output::{self, Document};
use crate::render::{View, html, json, nccl, nccl_decisions, pairs, path, smi, svg, table};
use crate::topo::{self, MAX_ROWS, Topology};
use crate::world::NvmlQuery;

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Topo,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if options.all && options.format != TopoFormat::Table {
        bail!("--all supports --format table; the other formats show all pairs anyway");
    }
    let masked = Masked::by(options.masks.mask_key.as_deref())?;
    let mut facts = masked.facts(machine.facts(want(options)))?;
    facts.platform.asserted = options.platform.map(Platform::kind);
    super::notes(global, machine.is_imported(), &facts, err);
    let topology = topo::topology(&facts);
    // Devices that a text lists without addresses are rows too.
    if let Some(why) = facts.pci.why().filter(|_| topology.rows.is_empty()) {
        bail!(
            "cannot list the PCI devices ({}): {}",
            why.phrase(),
            match machine {
                Machine::World(_) => "check /sys/bus/pci/devices",
                Machine::Imported { .. } => "the dump does not contain them",
            }
        );
    }
    let names = machine.names();
    let name = |ids: &Ids| names.of(ids);
    let view = View {
        facts: &facts,
        topology: &topology,
        forest: &topology.forest,
        name: &name,
        style: style(global.color),
        pci_only: options.pci,
        all: options.all,
    };
    match (options, options.format) {
        (Topo { p2p: Some(letter), .. }, TopoFormat::Table | TopoFormat::NvidiaSmi) => {
            p2p(&view, *letter, out)?
        }
        (Topo { p2p: Some(_), .. }, _) => bail!("--p2p supports --format table and nvidia-smi"),
        (Topo { nccl: Some(version), .. }, format) => {
            super::print(out, &decisions(&view, version.as_deref(), format)?)?
        }
        (Topo { path: Some(ends), .. }, format) => {
            super::print(out, &between(&view, ends, format)?)?
        }
        (Topo { pairs: true, .. }, TopoFormat::Table) => {
            super::print_with(out, |out| pairs::write(&view, out))?
        }
        (Topo { pairs: true, .. }, _) => {
            bail!("--pairs supports --format table; --format json contains pairs anyway")
        }
        (_, TopoFormat::Table) => super::print_with(out, |out| table::write(&view, out))?,
        (_, TopoFormat::NvidiaSmi) => matrix(&view, out, err)?,
        (_, TopoFormat::Json) => super::print_with(out, |out| json::write(&view, out))?,
        (_, TopoFormat::NcclXml) => nccl_xml(&topology, out, err)?,
        (_, TopoFormat::Svg) => super::print(out, &svg::svg(&facts, &topology, &name))?,
        (_, TopoFormat::Html) => {
            let drawing = svg::svg(&facts, &topology, &name);
            super::print(out, &html::topo(&view, &drawing, &output::now()))?;
        }
    }
    Ok(if options.check { verdict(&topology) } else { 0 })
}

fn want(options: &Topo) -> CollectOptions {
    CollectOptions {
        nvme: options.nvme || options.path.iter().flatten().any(|end| names_nvme(end)),
        nvml: NvmlQuery {
            links: options.p2p.is_none() && !options.pci,
            p2p: options.p2p.is_some() || options.nccl.is_some(),
            p2p_only: options.p2p.map(capability),
            details: false,
            errors: false,
            // NVLinks need two GPUs; for one GPU, skip the NVML query. NCCL's topology has the number of each GPU.
            from_gpus: match options.format {
                _ if options.p2p.is_some() => 0,
                TopoFormat::NcclXml => 0,
                _ => 2,
            },
        },
        // The environment, and the NCCL that is installed.
        system: options.nccl.is_some(),
        software: options.nccl.is_some(),
        ..CollectOptions::default()
    }
}

/// True if the end of a path is written as an NVMe controller: NVME0, nvme0.
fn names_nvme(end: &str) -> bool {
    end.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("nvme"))
}

fn p2p(view: &View<'_>, letter: P2p, out: &mut dyn Write) -> anyhow::Result<()> {
    match &view.facts.nvml {
        Fact::Known(NvmlOutcome::Read(nvml)) if nvml.gpus.len() > MAX_ROWS => {
            bail!("NVML lists {} GPUs; gdr shows all pairs of at most {MAX_ROWS}", nvml.gpus.len())
        }
        Fact::Known(NvmlOutcome::Read(nvml)) => {
            super::print_with(out, |out| smi::p2p(nvml, capability(letter), out))
        }
        Fact::Known(NvmlOutcome::Absent { reason }) => {
            bail!(
                "peer-to-peer status needs libnvidia-ml.so.1: {reason}; install the user-space part of the driver"
            )
        }
        Fact::Known(NvmlOutcome::Failed { code, reason }) => {
            let code = code.map_or_else(String::new, |code| format!(" (code {code})"));
            bail!("cannot read peer-to-peer status from NVML: {reason}{code}")
        }
        Fact::Unknown(why) => {
            let reason = nvml_note(view.facts)
                .unwrap_or_else(|| "it is available on the live machine only".to_owned());
            bail!("cannot read peer-to-peer status from NVML: {}: {reason}", why.phrase())
        }
    }
}

fn capability(letter: P2p) -> P2pCapability {
    match letter {
        P2p::Read => P2pCapability::Read,
        P2p::Write => P2pCapability::Write,
        P2p::Nvlink => P2pCapability::Nvlink,
        P2p::Atomics => P2pCapability::Atomics,
        P2p::Pci => P2pCapability::Pci,
    }
}

fn nvml_note(facts: &Facts) -> Option<String> {
    let note = facts.notes.iter().find(|note| note.source == "NVML")?;
    Some(note.message.clone())
}

fn matrix(view: &View<'_>, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<()> {
    let dialect = smi::dialect(view.facts);
    if let Some(note) = dialect.note() {
        super::remark(err, &note);
    }
    if view.topology.rows_of(Kind::Gpu).next().is_none() {
        bail!("no NVIDIA GPU found: nvidia-smi prints no matrix without one");
    }
    if let Some(omission) = view.topology.omission().filter(|_| !view.topology.has_all_pairs()) {
        bail!(
            "cannot print a matrix: {omission}; --format table and --format json show the devices and their nearest partners"
        );
    }
    if let Some(note) = smi::undecided(view) {
        super::remark(err, &note);
    }
    super::print_with(out, |out| smi::matrix(view, &dialect, out))
}

/// What NCCL decides on this machine.
fn decisions(view: &View<'_>, version: Option<&str>, format: TopoFormat) -> anyhow::Result<String> {
    if let Some(omission) = view.topology.omission().filter(|_| !view.topology.has_all_pairs()) {
        bail!("cannot say what NCCL decides about each pair: {omission}");
    }
    let found = topo::nccl_decisions(view.topology, version).map_err(|reason| anyhow!(reason))?;
    match format {
        TopoFormat::Table => Ok(nccl_decisions::text(view, &found)),
        TopoFormat::Json => Ok(output::pretty(&Document::of(
            "gdr.nccl/1",
            view.facts.host.recorded.as_deref(),
            &found,
        ))?),
        TopoFormat::NvidiaSmi | TopoFormat::Svg | TopoFormat::Html | TopoFormat::NcclXml => {
            bail!("--nccl supports --format table and json")
        }
    }
}

fn nccl_xml(
    topology: &Topology<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<()> {
    let system = topo::nccl_system(topology);
    for sentence in &system.omitted {
        super::remark(err, sentence);
    }
    if system.root.children.is_empty() {
        bail!(
            "no GPU and no NIC whose place in the PCI tree is known: NCCL cannot use such a file"
        );
    }
    super::print(out, &nccl::xml(&system.root))
}

fn between(view: &View<'_>, ends: &[String], format: TopoFormat) -> anyhow::Result<String> {
    let row = |name: &String| {
        view.topology.find(name).ok_or_else(|| {
            anyhow!("unknown device '{name}'; the devices are: {}", row_names(view.topology))
        })
    };
    let [from, to] = ends else {
        bail!("--path needs two devices");
    };
    let found = view
        .topology
        .between(row(from)?, row(to)?)
        .map_err(|reason| anyhow!(reason))
        .context("cannot show the path")?;
    match format {
        TopoFormat::Table => Ok(path::text(view, &found)),
        TopoFormat::Json => Ok(output::pretty(&Document::of(
            "gdr.path/1",
            view.facts.host.recorded.as_deref(),
            &found,
        ))?),
        TopoFormat::NvidiaSmi | TopoFormat::Svg | TopoFormat::Html | TopoFormat::NcclXml => {
            bail!("--path supports --format table and json")
        }
    }
}

/// Names of the rows, as many as fit into a message.
fn row_names(topology: &Topology<'_>) -> String {
    const SHOWN: usize = 64;
    let names: Vec<&str> = topology.rows.iter().take(SHOWN).map(|row| row.name.as_str()).collect();
    match (names.is_empty(), topology.rows.len().saturating_sub(SHOWN)) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(" "),
        (false, more) => format!("{} and {more} more", names.join(" ")),
    }
}

/// Exit status of --check: 1 if the best NIC of a GPU is rated bad, 3 if this is unknown.
fn verdict(topology: &Topology<'_>) -> u8 {
    let gpus = topology
        .matches
        .iter()
        .filter(|m| topology.rows.get(m.row).is_some_and(|row| row.kind == Kind::Gpu));
    let verdicts: Vec<Verdict> = gpus.map(|m| m.verdict).collect();
    if verdicts.contains(&Verdict::Bad) {
        1
    } else if verdicts.contains(&Verdict::Unknown) || verdicts.is_empty() {
        3
    } else {
        0
    }
}

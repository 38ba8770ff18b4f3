//! Any text with output of commands in any order → sections, recognized by their content → the recorded machine. Pure.
//!
//! A section begins with a line that only one program prints and ends where another begins, or at a prompt. Sections are read in the
//! order of [`KINDS`], so the facts do not depend on the order of the text. What a text does not show stays unknown.

mod adapters;
mod charts;
mod cluster;
mod conflict;
mod cuda;
mod cut;
mod described;
mod diagnoses;
mod driver;
mod exporters;
mod fields;
mod foreign;
mod headings;
mod identity;
mod interfaces;
mod inventory;
mod job;
mod json;
mod kernel_log;
mod lines;
mod listings;
mod machines;
mod marks;
mod named;
mod nccl;
mod nccl_tree;
mod nic_tools;
mod other;
mod plain;
mod programs;
mod query;
mod rdma_lists;
mod records;
mod samples;
mod section;
mod smi;
mod summary;
#[cfg(test)]
mod tests;
mod xml_parts;

pub(super) use cut::embedded;
pub use plain::Plain;
pub(super) use plain::plain;

use std::collections::BTreeSet;

use super::support::{Recording, SupportReport};
use super::{ImportError, find, lspci, matrix};
use crate::model::ListedGpu;

/// What a line begins that only one program prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// The whole output: a second such line begins that of another run.
    Output,
    /// A line or a part of it, as for each device.
    Line,
}

/// A kind of text: how it is recognized, and what it yields.
pub struct Kind {
    /// The command, or the file.
    pub name: &'static str,
    starts: Starts,
    /// True for the first line of such a section, without indentation.
    begins: fn(&str) -> bool,
    /// What gdr takes from it, for the documentation.
    pub yields: &'static str,
    /// Text as people paste it.
    pub example: &'static str,
    /// Records what the section says.
    read: fn(&str, &mut Recording) -> Result<(), ImportError>,
}

/// All kinds. Where two say the same of one thing, the earlier one counts.
pub const KINDS: [&Kind; 85] = [
    &other::LSPCI,
    &driver::VERSION,
    &driver::PARAMS,
    &driver::INFORMATION,
    &other::LSMOD,
    &other::MODINFO,
    &other::ULIMIT,
    &other::COMMAND_LINE,
    &diagnoses::OPTIONS,
    &other::UNAME,
    &other::NUMACTL,
    &other::LSCPU,
    &inventory::LSPCI_FOR_PROGRAMS,
    &inventory::HWINFO,
    &inventory::LSHW,
    &inventory::INXI,
    &adapters::IBSTATUS,
    &adapters::IBV_DEVINFO,
    &adapters::IBSTAT,
    &adapters::RDMA_LINK,
    &adapters::IBDEV2NETDEV,
    &adapters::SHOW_GIDS,
    &rdma_lists::RDMA_DEV,
    &rdma_lists::SYSFS,
    &rdma_lists::IBV_DEVICES,
    &rdma_lists::LSTOPO,
    &xml_parts::XML_PART,
    &diagnoses::MLXLINK,
    &nic_tools::MST_STATUS,
    &nic_tools::MLXCONFIG,
    &nic_tools::FLINT,
    &nic_tools::ETHTOOL,
    &interfaces::SETTINGS,
    &interfaces::IP_LINK,
    &interfaces::DEVLINK,
    &nic_tools::UCX_INFO,
    &nic_tools::FI_INFO,
    &rdma_lists::UCX_LOG,
    &rdma_lists::NAMES,
    &rdma_lists::LSHCA,
    &exporters::NODE_EXPORTER,
    &smi::QUERY,
    &smi::XML,
    &smi::TABLE,
    &smi::CSV,
    &smi::LIST,
    &smi::MATRIX,
    &cuda::ENVIRONMENT,
    &cuda::PROGRAMS,
    &samples::SAMPLES,
    &cuda::MONITOR,
    &cuda::VULKANINFO,
    &cluster::DCGMI,
    &diagnoses::DIAG,
    &json::DIAG,
    &json::MONITORS,
    &diagnoses::TOPOLOGY,
    &diagnoses::NVLINK,
    &diagnoses::HEALTH,
    &exporters::DCGM,
    &exporters::NVIDIA_GPU_EXPORTER,
    &charts::CHARTS,
    &cluster::GDSCHECK,
    &cluster::KUBECTL,
    &job::CONTAINER_CLI,
    &programs::CONTAINER_LOG,
    &job::CONTAINER,
    &job::TESTS,
    &kernel_log::KERNEL_LOG,
    &nccl::LOG,
    &nccl::GRAPH,
    &job::ENVIRONMENT,
    &programs::OLLAMA,
    &programs::XORG,
    &listings::NODES,
    &listings::PROC_PCI,
    &listings::PCICONF,
    &listings::DEVBIND,
    &listings::UBUNTU_DRIVERS,
    &listings::PACKAGES,
    &listings::SLURM,
    &listings::UNADDRESSED,
    &diagnoses::NHC,
    &section::SECTION,
    &summary::SUMMARY,
];

/// Read of the whole text, where no kind shows a GPU, or none a NIC.
const OTHERS: [&Kind; 2] = [&records::RECORDS, &lines::LINES];

/// All kinds, and those that are read last.
pub(super) fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.into_iter().chain(OTHERS)
}

/// The text of lspci, in which other sections are empty lines, so that remarks name lines of the text.
pub(super) struct Text {
    pub lspci: Vec<u8>,
    pub report: SupportReport,
    /// Names of the kinds in it, in the order of [`KINDS`].
    pub kinds: Vec<&'static str>,
}

/// Reads the sections of a text into the report of the same machine, if there is one. Fails if they are of several machines.
pub(super) fn read(
    bytes: &[u8],
    lines: &[usize],
    report: SupportReport,
) -> Result<Text, ImportError> {
    let prefixes = machines::prefixes(bytes);
    if prefixes.len() > 1 {
        return Err(ImportError::Machines(machines::prefixed(&prefixes)));
    }
    let mut cut = cut::cut(bytes, lines, prefixes.first().map(String::as_str));
    let by_name = cut.machines.several().or_else(|| cut.roles.several());
    let by_device = || conflict::found(&cut).or_else(|| identity::found(bytes, lines));
    if let Some(words) = by_name.or_else(by_device) {
        return Err(ImportError::Machines(words));
    }
    let launched = conflict::launched(&cut.sections);
    let is_alone = report.is_empty();
    let mut recording = Recording::of(report);
    for (path, content) in std::mem::take(&mut cut.files) {
        recording.pasted_file(&path, content)?;
    }
    let mut kinds = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        let of_kind = cut.sections.iter().filter(|section| section.kind == at);
        let mut texts: Vec<&String> = of_kind.map(|section| &section.text).collect();
        texts.sort_unstable();
        texts.dedup();
        for text in &texts {
            match kind.name {
                name if launched.len() > 1 && name == job::TESTS.name => {}
                name if launched.len() > 1 && name == nccl::LOG.name => {
                    nccl::variables(text, &mut recording);
                }
                _ => (kind.read)(text, &mut recording)?,
            }
        }
        if !texts.is_empty() {
            kinds.push(kind.name);
        }
    }
    if launched.len() > 1 {
        let names: Vec<&str> = launched.iter().copied().collect();
        let message = format!("of {}, so their devices are not read", machines::list(&names));
        recording.note("lines of a job on several machines", message);
    }
    let mut report = recording.finish();
    if is_alone {
        add_others(bytes, &cut.lspci, &launched, &mut report, &mut kinds)?;
    }
    Ok(Text { lspci: cut.lspci, report, kinds })
}

/// Adds the GPUs or the NICs of [`OTHERS`], if the kinds show none.
fn add_others(
    bytes: &[u8],
    lspci: &[u8],
    launched: &BTreeSet<&str>,
    report: &mut SupportReport,
    kinds: &mut Vec<&'static str>,
) -> Result<(), ImportError> {
    let printed = report.printed_devices(lspci);
    let is_lspcis = lspci::is_format(lspci) || lspci::is_format(&report.lspci);
    let shows_none = |report: &SupportReport| !report.has_devices() && !is_lspcis;
    if launched.len() > 1 {
        if shows_none(report) {
            return Err(ImportError::Job(machines::launched(launched)));
        }
        return Ok(());
    }
    let text = String::from_utf8_lossy(bytes);
    for kind in OTHERS {
        let shown = report.shown();
        let (gpus, nics) = (shown.gpus || printed.gpus, shown.nics || printed.nics);
        if gpus && nics {
            break;
        }
        let mut recording = Recording::default();
        match (kind.read)(&text, &mut recording) {
            Err(error) if shows_none(report) => return Err(error),
            // Of several machines.
            Err(_) => break,
            Ok(()) => {}
        }
        if report.fill(recording.finish(), !gpus, !nics) {
            kinds.push(kind.name);
        }
    }
    Ok(())
}

/// The kind that a line begins, which has no indentation.
fn begun(line: &str) -> Option<usize> {
    if line.is_empty() { None } else { KINDS.iter().position(|kind| (kind.begins)(line)) }
}

/// True if a line of a document begins a kind, or if the document names a device.
pub(super) fn has_kind(bytes: &[u8]) -> bool {
    let mut lines = find::lines(bytes).filter_map(|line| str::from_utf8(line).ok());
    lines.any(|line| begun(line.trim()).is_some())
        || records::shows_something(&String::from_utf8_lossy(bytes))
}

/// `a, b and c`.
fn and(words: &[String]) -> String {
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// What a text looks like that yields nothing, for a message.
pub(super) fn looks_like(bytes: &[u8], kinds: &[&'static str]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    // Rows without a head have a name of their own.
    let is_whole = |name: &&str| {
        *name != smi::MATRIX.name || text.lines().any(|line| matrix::is_head(line.trim()))
    };
    let known = kinds.first().copied().filter(|name| is_whole(name));
    let nodes = text.lines().filter(|line| line.trim_start().starts_with("Roles:")).count();
    if known == Some(cluster::KUBECTL.name) && nodes > 1 {
        return Some(format!(
            "the output of kubectl describe node for {nodes} nodes ('kubectl describe node NAME' shows one)"
        ));
    }
    known.or_else(|| foreign::name(bytes)).map(|name| match name {
        _ if name.starts_with("kernel log") => {
            format!("a {name}, whose failures gdr explain FILE shows")
        }
        _ if BARE.iter().any(|word| name.starts_with(word)) => name.to_owned(),
        _ if name.starts_with('/') => format!("the content of {name}"),
        _ => format!("the output of {name}"),
    })
}

/// Beginnings of names that are not names of commands.
const BARE: [&str; 9] =
    ["a ", "an ", "the ", "rows ", "lines ", "source ", "environment ", "NCCL", "PyTorch's "];

/// A list up to the largest index: the GPUs before it exist too.
pub fn by_index(gpus: Vec<(usize, ListedGpu)>) -> Vec<ListedGpu> {
    /// As many as a matrix may have.
    const MOST: usize = 64;
    let mut list = Vec::new();
    for (index, gpu) in gpus.into_iter().filter(|(index, _)| *index < MOST) {
        if list.len() <= index {
            list.resize(index + 1, ListedGpu::default());
        }
        list[index] = gpu;
    }
    list
}

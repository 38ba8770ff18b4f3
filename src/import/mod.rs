//! Machine dumps → Facts: output of lspci, hwloc, NCCL and rdma_topo. Support reports and texts with output of commands → recorded files.
//! Pure.
//!
//! What the format cannot contain is unknown, never guessed: if a dump omits the bridge above a
//! function, the function's place is known only as far as the dump goes
//! ([`PciPath::rooted`](crate::model::PciPath)).

mod find;
mod hwloc;
mod limits;
mod lspci;
mod matrix;
mod nccl;
mod rdma_topo;
mod support;
mod text;
mod tree;
mod xml;

use crate::model::{Bdf, Facts, Ids, PciDevice};
use crate::pci::PciNames;

pub use text::Plain;

pub use support::{SupportReport, add_printed, archived_logs, is_support_report, support_report};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dump {
    /// Text of `lspci`, with any of `-v`, `-n`, `-x`.
    Lspci,
    /// hwloc 1, 2 or 3, from `lstopo --of xml`.
    Hwloc,
    /// NCCL's topology or graph, from NCCL_TOPO_DUMP_FILE or NCCL_GRAPH_DUMP_FILE.
    Nccl,
    /// JSON of rdma-core's `rdma_topo dump`.
    RdmaTopo,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(
        "not a gdr snapshot, and no output that gdr reads: no GPU, NIC or PCI device found in it; give a snapshot ('sudo gdr \
         snapshot -o FILE'), or the output of 'sudo lspci -vvv' and 'nvidia-smi topo -m'"
    )]
    Unrecognised,
    #[error(
        "looks like {0}: no GPU, NIC or PCI device in it; give a snapshot ('sudo gdr snapshot -o FILE'), or the output of \
         'sudo lspci -vvv' and 'nvidia-smi topo -m'"
    )]
    Useless(String),
    /// Parts of a text are of several machines.
    #[error("{0}")]
    Machines(String),
    /// Lines of a text without other devices are of several machines.
    #[error("{0}")]
    Job(String),
    #[error("{0}")]
    Malformed(String),
}

impl ImportError {
    /// True for a text without a device that is one of a machine.
    pub fn shows_no_machine(&self) -> bool {
        matches!(self, Self::Unrecognised | Self::Useless(_) | Self::Job(_))
    }
}

/// Detects the kind of dump from its content.
pub fn recognise(bytes: &[u8]) -> Option<Dump> {
    let start = bytes.trim_ascii_start();
    match start.first()? {
        // Other text may begin like this too: `<details>`, `[root@node ~]# lspci`.
        b'<' if hwloc::is_format(start) => Some(Dump::Hwloc),
        b'<' if nccl::is_graph(start) => None,
        b'<' if nccl::is_format(start) => Some(Dump::Nccl),
        b'[' if rdma_topo::is_format(start) => Some(Dump::RdmaTopo),
        _ => lspci::is_format(bytes).then_some(Dump::Lspci),
    }
}

/// The facts of a dump. `names` resolves names without numbers.
pub fn facts(bytes: &[u8], names: &PciNames) -> Result<Facts, ImportError> {
    match recognise(bytes).ok_or(ImportError::Unrecognised)? {
        Dump::Lspci => {
            let mut facts = lspci::facts(bytes, names)?;
            facts.partial = true;
            matrix::add(&mut facts, &String::from_utf8_lossy(bytes));
            Ok(facts)
        }
        Dump::Hwloc => hwloc::facts(bytes),
        Dump::Nccl => nccl::facts(bytes),
        Dump::RdmaTopo => rdma_topo::facts(bytes),
    }
}

/// The XML of hwloc or NCCL that stands between other words, and the text without it.
pub fn embedded(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (xml, rest) = text::embedded(bytes)?;
    let is_whole = match recognise(&xml)? {
        Dump::Hwloc => hwloc::facts(&xml).is_ok(),
        Dump::Nccl => nccl::facts(&xml).is_ok(),
        Dump::Lspci | Dump::RdmaTopo => false,
    };
    is_whole.then_some((xml, rest))
}

/// The bytes of a text that a program wrote for another: UTF-16, the escapes of HTML and JSON, numbers or comment marks before all
/// lines. None if there is nothing to undo.
pub fn plain(bytes: &[u8]) -> Option<Plain> {
    text::plain(bytes)
}

/// The facts of lspci's output alone.
fn printed_by_lspci(bytes: &[u8], names: &PciNames) -> Result<Facts, ImportError> {
    if lspci::is_format(bytes) {
        lspci::facts(bytes, names)
    } else {
        Err(ImportError::Unrecognised)
    }
}

/// Adds the sections of a text to what is recorded of its machine. Fails if the text describes no machine.
pub fn text(bytes: &[u8], recorded: SupportReport) -> Result<SupportReport, ImportError> {
    text_of_file(bytes, &[], recorded)
}

/// The same for a text whose lines stand on these lines of a file, for messages.
pub fn text_of_file(
    bytes: &[u8],
    lines: &[usize],
    recorded: SupportReport,
) -> Result<SupportReport, ImportError> {
    let was_empty = recorded.is_empty();
    let text::Text { lspci, mut report, kinds } = text::read(bytes, lines, recorded)?;
    if report.lspci.is_empty() {
        report.lspci = lspci;
    } else if !lspci.is_empty() {
        report.lspci.push(b'\n');
        report.lspci.extend_from_slice(&lspci);
    }
    if was_empty {
        report.complete = false;
        report.only_texts = true;
    }
    let has_functions = kinds.contains(&"lspci") || lspci::is_format(&report.lspci);
    if was_empty && !has_functions && report.says_nothing() {
        return Err(match text::looks_like(bytes, &kinds) {
            Some(kind) => ImportError::Useless(kind),
            None => ImportError::Unrecognised,
        });
    }
    Ok(report)
}

/// True for a document in which gdr reads something.
pub fn shows_something(bytes: &[u8]) -> bool {
    text::has_kind(bytes)
}

/// What gdr reads: name, what it yields, an example.
pub fn text_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    text::kinds().map(|kind| (kind.name, kind.yields, kind.example))
}

/// Adds facts of texts where a dump states none.
pub fn join(mut dump: Facts, text: Facts) -> Facts {
    fn fill<T: Default + PartialEq>(known: &mut T, other: T) {
        if *known == T::default() {
            *known = other;
        }
    }
    fill(&mut dump.nvml, text.nvml);
    fill(&mut dump.rdma, text.rdma);
    fill(&mut dump.numa, text.numa);
    fill(&mut dump.linked_pairs, text.linked_pairs);
    // The dump lists the GPUs.
    let placed = dump.gpus().count();
    let mut listed = text.listed;
    if let Some(listed) = listed.as_mut().filter(|_| placed > 0) {
        listed.gpus.truncate(placed);
    }
    fill(&mut dump.listed, listed);
    fill(&mut dump.driver, text.driver);
    fill(&mut dump.modprobe, text.modprobe);
    fill(&mut dump.peer_memory, text.peer_memory);
    fill(&mut dump.gdrdrv, text.gdrdrv);
    fill(&mut dump.kernel, text.kernel);
    fill(&mut dump.online_cpus, text.online_cpus);
    fill(&mut dump.host.name, text.host.name);
    dump.partial = true;
    dump.notes.extend(text.notes);
    dump
}

/// Likely RDMA devices: InfiniBand controllers and Mellanox network controllers.
fn nics(pci: &[PciDevice]) -> Vec<Bdf> {
    let is_nic = |ids: &Ids| {
        ids.class_and_subclass() == 0x0207
            || (ids.vendor == Ids::MELLANOX && ids.base_class() == 0x02)
    };
    let nics = pci.iter().filter(|device| device.ids.known().is_some_and(is_nic));
    nics.map(|device| device.bdf).collect()
}

/// Counts devices made by a hypervisor. Virtio alone may come from a DPU: the CPU flags that would show it
/// are in no dump.
fn paravirtual_devices(pci: &[PciDevice]) -> usize {
    let ids = || pci.iter().filter_map(|device| device.ids.known());
    if ids().any(|ids| ids.is_paravirtual() && !ids.is_virtio()) {
        ids().filter(|ids| ids.is_paravirtual()).count()
    } else {
        0
    }
}

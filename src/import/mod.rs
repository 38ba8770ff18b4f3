//! Machine dumps → Facts: output of lspci, hwloc, NCCL and rdma_topo. Support reports → recorded files. Pure.
//!
//! What the format cannot contain is unknown, never guessed: if a dump omits the bridge above a
//! function, the function's place is known only as far as the dump goes
//! ([`Place::rooted`](crate::model::Place)).

mod hwloc;
mod limits;
mod lspci;
mod matrix;
mod nccl;
mod rdma_topo;
mod support;
mod tree;
mod xml;

use crate::model::{Bdf, Facts, Ids, PciDevice};
use crate::pci::PciNames;

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
        "not a gdr snapshot, lspci text, hwloc XML, NCCL topology XML, rdma_topo JSON, log of nvidia-bug-report.sh, or archive of sosreport or \
         supportconfig; take a snapshot with 'gdr snapshot -o FILE', or a dump with 'lspci -vvv' as root"
    )]
    Unrecognised,
    #[error("{0}")]
    Malformed(String),
}

/// Detects the kind of dump from its content.
pub fn recognise(bytes: &[u8]) -> Option<Dump> {
    let start = bytes.trim_ascii_start();
    match start.first()? {
        // Other text may begin like this too: `<details>`, `[root@node ~]# lspci`.
        b'<' if hwloc::is_format(start) => Some(Dump::Hwloc),
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
            matrix::add(&mut facts, bytes);
            Ok(facts)
        }
        Dump::Hwloc => hwloc::facts(bytes),
        Dump::Nccl => nccl::facts(bytes),
        Dump::RdmaTopo => rdma_topo::facts(bytes),
    }
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

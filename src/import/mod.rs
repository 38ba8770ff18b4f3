//! Text dumps of a machine → Facts: what lspci, hwloc and rdma_topo printed there. Pure: it opens no file.
//!
//! A dump is no World: its format says what it can tell, and the rest is unknown, not covered. Nothing is guessed: where a
//! dump leaves out the bridge above a function, that function's place is known as far as the dump goes
//! ([`Place::rooted`](crate::model::Place)).

mod hwloc;
mod limits;
mod lspci;
mod rdma_topo;
mod tree;

use crate::model::{Bdf, Facts, Ids, PciDevice};
use crate::pci::PciNames;

/// The kinds of dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dump {
    /// The text of `lspci`, with whatever of `-v`, `-n`, `-x` it was called.
    Lspci,
    /// XML of hwloc 1, 2 or 3, as `lstopo --of xml` writes it.
    Hwloc,
    /// JSON of rdma-core's `rdma_topo dump`.
    RdmaTopo,
}

/// Why a dump could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is none of the kinds.
    #[error(
        "it is no snapshot of gdr, no text of lspci, no XML of hwloc and no JSON of rdma_topo; take a snapshot with \
         'gdr snapshot -o FILE', or a dump with 'lspci -vvv' as root"
    )]
    Unrecognised,
    /// It is of this kind and cannot be read.
    #[error("{0}")]
    Malformed(String),
}

/// What kind of dump this is, by its content.
pub fn recognise(bytes: &[u8]) -> Option<Dump> {
    let start = bytes.trim_ascii_start();
    match start.first()? {
        // A report may begin so, too: `<details>`, `[root@node ~]# lspci`.
        b'<' if hwloc::is_one(start) => Some(Dump::Hwloc),
        b'[' if rdma_topo::is_one(start) => Some(Dump::RdmaTopo),
        _ => lspci::is_one(bytes).then_some(Dump::Lspci),
    }
}

/// The facts a dump tells. `names` serves where it has names without numbers.
pub fn facts(bytes: &[u8], names: &PciNames) -> Result<Facts, ImportError> {
    match recognise(bytes).ok_or(ImportError::Unrecognised)? {
        Dump::Lspci => lspci::facts(bytes, names).map(|facts| Facts {
            partial: true,
            ..facts
        }),
        Dump::Hwloc => hwloc::facts(bytes),
        Dump::RdmaTopo => rdma_topo::facts(bytes),
    }
}

/// Functions that look like RDMA devices: InfiniBand controllers, and Mellanox' network controllers.
fn nics(pci: &[PciDevice]) -> Vec<Bdf> {
    let is_nic = |ids: &Ids| {
        ids.class_and_subclass() == 0x0207
            || (ids.vendor == Ids::MELLANOX && ids.base_class() == 0x02)
    };
    let nics = pci
        .iter()
        .filter(|device| device.ids.known().is_some_and(is_nic));
    nics.map(|device| device.bdf).collect()
}

/// Devices that a hypervisor made. Where virtio is all there is, a DPU may have made it: the processor's flags, which
/// would tell, are in no dump.
fn paravirtual_devices(pci: &[PciDevice]) -> usize {
    let ids = || pci.iter().filter_map(|device| device.ids.known());
    match ids().any(|ids| ids.is_paravirtual() && !ids.is_virtio()) {
        true => ids().filter(|ids| ids.is_paravirtual()).count(),
        false => 0,
    }
}

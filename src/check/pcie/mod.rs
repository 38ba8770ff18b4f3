//! The way between GPUs and NICs over PCI Express.

mod acs;
mod acs_vm;
mod iommu;
mod link;
mod locality;
mod ports;

pub use acs::acs;
pub use acs_vm::acs_vm;
pub use iommu::iommu;
pub use link::link;
pub use locality::locality;

use super::Ctx;
use crate::model::{Bdf, Ids, Kind, Row};

/// The GPUs, and the NICs that are cards, with their addresses.
fn endpoints<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'a Row, Bdf)> {
    let rows = ctx.topology.rows.iter();
    rows.filter(|row| matches!(row.kind, Kind::Gpu | Kind::Nic) && !row.software)
        .filter_map(|row| Some((row, row.bdf?)))
}

/// Whether GPUs hang on NVIDIA's own CPUs (Grace, Vera): their memory is coherent over NVLink-C2C, and their ports' access
/// control is to stay as the kernel sets it.
fn is_grace(ctx: &Ctx<'_>) -> bool {
    let coherent = ctx
        .facts
        .gpus()
        .any(|gpu| gpu.ids.known().is_some_and(Ids::is_coherent_gpu));
    let arm = ctx
        .facts
        .platform
        .architecture
        .known()
        .is_some_and(|name| name == "aarch64");
    let root_port = |ids: &Ids| ids.vendor == Ids::NVIDIA && ids.is_bridge();
    let nvidia = || {
        ctx.facts
            .devices()
            .iter()
            .any(|device| device.ids.known().is_some_and(root_port))
    };
    coherent || (arm && nvidia())
}

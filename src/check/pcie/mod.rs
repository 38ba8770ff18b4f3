//! PCI Express between GPUs and NICs.

mod acs;
mod acs_vm;
mod ats;
mod boot;
mod errors;
mod iommu;
mod link;
mod locality;
mod payload;
mod ports;
mod shared;

pub use acs::Held;
pub use iommu::{is_translated, translated};
pub use payload::small_reads;
pub use ports::{Ports, Redirecting, is_joined, ports, redirecting};

use super::{Check, Ctx, Judgement, nics, unknown_devices, words};
use crate::model::{Area, Bdf, Kind, Row, Why};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    locality::CHECK,
    acs::CHECK,
    acs_vm::CHECK,
    iommu::CHECK,
    ats::CHECK,
    link::CHECK,
    payload::CHECK,
    errors::CHECK,
    shared::CHECK,
];

/// GPUs and NICs with their addresses, without software devices.
fn endpoints<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'a Row, Bdf)> {
    let rows = ctx.topology.rows.iter();
    rows.filter(|row| matches!(row.kind, Kind::Gpu | Kind::Nic) && !row.software)
        .filter_map(|row| Some((row, row.bdf?)))
}

/// GPUs and NICs used by the host itself, not passed through.
fn own<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'a Row, Bdf)> {
    endpoints(ctx).filter(|(_, bdf)| {
        let device = ctx.facts.device(*bdf);
        device.is_none_or(|device| device.passthrough_driver().is_none())
    })
}

/// The judgement of GPUs and NICs whose function or place in the PCI tree is unknown, and with it the paths to them.
pub fn unplaced(ctx: &Ctx<'_>) -> Option<Judgement> {
    let nics =
        nics::rdma_nics(ctx.facts).filter_map(|nic| Some((nic.name.clone(), nic.place.why()?)));
    let rows = own(ctx).filter_map(|(row, bdf)| {
        let device = ctx.facts.device(bdf)?;
        Some((words::row(row), device.place.why()?))
    });
    let unplaced: Vec<(String, Why)> = nics.chain(rows).collect();
    let (_, why) = unplaced.first()?;
    let names = words::list(unplaced.iter().map(|(name, _)| name));
    let source = format!("the place of {names} in the PCI tree");
    Some(Judgement::unknown(names, *why, Area::Sys, &source))
}

/// The judgements; without any, one that skips the machine if it has no such device.
fn or_skip(ctx: &Ctx<'_>, judgements: Vec<Judgement>, message: &str) -> Vec<Judgement> {
    match (judgements.is_empty(), unknown_devices(ctx)) {
        (true, Some(unknown)) => vec![unknown],
        _ => super::or_skip(judgements, message),
    }
}

fn is_arm(ctx: &Ctx<'_>) -> bool {
    let architecture = ctx.facts.platform.architecture.known();
    architecture.is_some_and(|name| name == "aarch64")
}

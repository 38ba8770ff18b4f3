//! nonprefetchable: the firmware of an mlx5 NIC is told to offer its first BAR as memory that is not prefetchable.

use std::collections::BTreeSet;

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use crate::check::{Ctx, ground};
use crate::model::{Bdf, Fact, FirmwareTool, Operation};

pub const FIX: Fix = Fix {
    id: "nonprefetchable",
    about: "NICs offer their doorbells as memory that is not prefetchable, so that GPUs older than Pascal can map them.",
    desired,
};

/// The programs that set it, the vendor's first; both take the same arguments.
const TOOLS: [(&str, FirmwareTool); 2] = [
    ("mlxconfig", FirmwareTool::Mlxconfig),
    ("mstconfig", FirmwareTool::Mstconfig),
];

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let untold = ground::untold(ctx);
    if untold.is_empty() {
        return DesiredState::default();
    }
    let Some(program) = tool(ctx) else {
        return DesiredState::refused(
            "Neither mlxconfig nor mstconfig is installed: one of them tells the NIC's firmware. mlxconfig is in NVIDIA's MFT, \
             mstconfig in the package mstflint.",
        );
    };
    let mut desired = DesiredState::default();
    // The setting is the NIC's: its functions share it.
    let mut rdma_nics = BTreeSet::new();
    for nic in untold {
        let bdf = nic.bdf;
        if !rdma_nics.insert((bdf.domain, bdf.bus, bdf.device)) {
            continue;
        }
        desired.desired_change(
            format!(
                "The firmware of {} ({bdf}) is told: at its next reset {} is 1.",
                nic.nic.name,
                ground::NON_PREFETCHABLE
            ),
            ChangeTarget::Run(Operation::SetNonPrefetchable {
                program,
                device: bdf,
                on: true,
            }),
        );
        desired.warnings.push(format!(
            "A BAR that is not prefetchable lies below 4 GiB, and so must the windows of the bridges above {bdf} have room for \
             it there ({}). Where they have not, the NIC is gone after the reset: lower LOG_PF_UAR_BAR_SIZE first, and see to a \
             console that does not need this NIC.",
            size(ctx, bdf)
        ));
        desired.afterwards.push(format!(
            "Reset the NIC, which takes its ports down: mlxfwreset -d {bdf} reset (mstfwreset in mstflint), or switch the \
             machine off and on. After an undo, reset it again."
        ));
    }
    desired
}

/// The first that is there; the vendor's where that is not known. None where neither is.
fn tool(ctx: &Ctx<'_>) -> Option<FirmwareTool> {
    let found = |name: &str| ctx.facts.tools.get(name);
    let there = TOOLS
        .iter()
        .find(|(name, _)| matches!(found(name), Some(Fact::Known(Some(_)))));
    let absent = TOOLS
        .iter()
        .all(|(name, _)| matches!(found(name), Some(Fact::Known(None))));
    match there {
        Some((_, tool)) => Some(*tool),
        None if absent => None,
        None => Some(FirmwareTool::Mlxconfig),
    }
}

/// The first BAR's size in words.
fn size(ctx: &Ctx<'_>, bdf: Bdf) -> String {
    let attributes = ctx
        .facts
        .device(bdf)
        .and_then(|device| device.attributes.as_ref());
    let resources = attributes.and_then(|attributes| attributes.resources.known());
    match resources.and_then(|resources| resources.iter().find(|resource| resource.bar == 0)) {
        Some(bar) if bar.size >= 1 << 20 => format!("its first BAR has {} MiB", bar.size >> 20),
        _ => "gdr could not read how large it is".to_owned(),
    }
}

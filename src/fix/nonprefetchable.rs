//! nonprefetchable: configures an mlx5 NIC's firmware to make its first BAR non-prefetchable.

use std::collections::BTreeSet;

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::devices;
use crate::check::{Ctx, ground};
use crate::model::{Bdf, Fact, FirmwareTool, Operation};

pub const FIX: Fix = Fix {
    id: "nonprefetchable",
    about: "NICs map their doorbells as non-prefetchable memory, so that GPUs older than Pascal can map them.",
    checks: &["rdma.nonprefetchable"],
    requires: &[],
    desired,
};

/// The programs that can set it, the vendor's first; they share their arguments.
const TOOLS: [(&str, FirmwareTool); 2] =
    [("mlxconfig", FirmwareTool::Mlxconfig), ("mstconfig", FirmwareTool::Mstconfig)];

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if let Err(why) = devices::all_known(ctx) {
        return DesiredState::none(why);
    }
    let nics = ground::prefetchable_nics(ctx);
    if nics.is_empty() {
        return DesiredState::default();
    }
    let Some(program) = tool(ctx) else {
        return DesiredState::refused(
            "Neither mlxconfig nor mstconfig is installed. Install NVIDIA's MFT (mlxconfig) or the package mstflint \
             (mstconfig).",
        );
    };
    let mut desired = DesiredState::default();
    // The functions of a NIC share the setting.
    let mut seen = BTreeSet::new();
    for nic in nics {
        let bdf = nic.bdf;
        if !seen.insert((bdf.domain, bdf.bus, bdf.device)) {
            continue;
        }
        desired.change(
            format!(
                "Set {} in the firmware of {} ({bdf}), effective at its next reset.",
                ground::NON_PREFETCHABLE,
                nic.nic.name
            ),
            ChangeTarget::Run(Operation::SetNonPrefetchable { program, device: bdf, on: true }),
        );
        desired.warnings.push(format!(
            "A non-prefetchable BAR lies below 4 GiB, so the bridge windows above {bdf} need room for it there ({}). Without \
             room the NIC is missing after the reset: lower PF_LOG_BAR_SIZE first, and have a console that does not need \
             this NIC.",
            size(ctx, bdf)
        ));
        desired.afterwards.push(format!(
            "Reset the NIC, which takes its ports down: mlxfwreset -d {bdf} reset (mstfwreset in mstflint), or power the machine \
             off and on. Reset it again after an undo."
        ));
    }
    desired
}

/// The first installed program; the vendor's if that is unknown; `None` if neither is installed.
fn tool(ctx: &Ctx<'_>) -> Option<FirmwareTool> {
    let found = |name: &str| ctx.facts.tools.get(name);
    let there = TOOLS.iter().find(|(name, _)| matches!(found(name), Some(Fact::Known(Some(_)))));
    let absent = TOOLS.iter().all(|(name, _)| matches!(found(name), Some(Fact::Known(None))));
    match there {
        Some((_, tool)) => Some(*tool),
        None if absent => None,
        None => Some(FirmwareTool::Mlxconfig),
    }
}

/// The first BAR's size, for a sentence.
fn size(ctx: &Ctx<'_>, bdf: Bdf) -> String {
    let attributes = ctx.facts.device(bdf).and_then(|device| device.attributes.as_ref());
    let resources = attributes.and_then(|attributes| attributes.resources.known());
    match resources.and_then(|resources| resources.iter().find(|resource| resource.bar == 0)) {
        Some(bar) if bar.size >= 1 << 20 => format!("its first BAR has {} MiB", bar.size >> 20),
        _ => "its size is unknown".to_owned(),
    }
}

//! param.grdma-topo: will the driver let a NIC at the GPU's memory, for where both sit?

use super::PARAMS;
use crate::check::{Ctx, Judgement, passthrough, rdma, unknown_if, version, words};
use crate::model::{Bdf, Fact, Facts, Ids, PciDevice};

const OPTION: &str = "GrdmaPciTopoCheckOverride";
const DEVICES: &str = "/sys/bus/pci/devices";

/// The first driver with this check.
const SINCE: [u32; 3] = [570, 86, 15];

/// The driver refuses where the root complex is known not to carry peer traffic and no bridge is above both (nv-pci.c:
/// nv_grdma_pci_topology_supported).
pub fn grdma_topo(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let driver = match version::driver(ctx.facts) {
        Fact::Known(Some(driver)) => driver,
        Fact::Known(None) => {
            return vec![Judgement::skip(
                "driver",
                "The NVIDIA driver is not loaded.",
            )];
        }
        Fact::Unknown(why) => {
            return vec![Judgement::unknown(
                "driver",
                why,
                "/sys/module/nvidia/version",
            )];
        }
    };
    if numbers(&driver) < SINCE.to_vec() {
        let message = format!(
            "Driver {driver} does not look at where GPU and NIC sit: drivers from 570.86.15 on do."
        );
        return vec![Judgement::skip("driver", message)];
    }
    let chipset = match chipset(ctx.facts) {
        Fact::Known(chipset) => chipset,
        Fact::Unknown(why) => return vec![Judgement::unknown("driver", why, DEVICES)],
    };
    let (gpus, coherent): (Vec<&PciDevice>, Vec<&PciDevice>) = passthrough::own_gpus(ctx.facts)
        .partition(|gpu| !gpu.ids.known().is_some_and(Ids::is_coherent_gpu));
    if gpus.is_empty() && coherent.is_empty() {
        return vec![Judgement::skip("driver", "There is no GPU.")];
    }
    if gpus.is_empty() {
        let message = "These GPUs' memory is coherent with the CPU: the driver lets a NIC at it wherever both sit.";
        return vec![Judgement::pass("driver", message).evidence(DEVICES, devices(&coherent))];
    }
    match overridden(ctx) {
        Some(judgement) => vec![judgement],
        None => judge(ctx, &gpus, chipset),
    }
}

/// The parameter goes before every other rule.
fn overridden(ctx: &Ctx<'_>) -> Option<Judgement> {
    let value = match &ctx.facts.driver.params {
        Fact::Known(params) => params.as_ref().and_then(|params| params.get(OPTION)),
        Fact::Unknown(why) => return Some(Judgement::unknown("driver", *why, PARAMS)),
    };
    let evidence = |judgement: Judgement| {
        judgement.evidence(
            format!("{PARAMS}: {OPTION}"),
            value.map_or("", String::as_str),
        )
    };
    match value.map(String::as_str) {
        Some("1") => Some(evidence(Judgement::pass(
            "driver",
            "GrdmaPciTopoCheckOverride=1: the driver lets every NIC at GPU memory, wherever it sits.",
        ))),
        Some("2") => Some(
            evidence(Judgement::broken(
                "driver",
                "GrdmaPciTopoCheckOverride=2: the driver lets no NIC at GPU memory, and GPUDirect RDMA fails.",
            ))
            .advice(
                "Take NVreg_GrdmaPciTopoCheckOverride=2 out of modprobe.d, rebuild the initramfs and \
                 reload the driver.",
            ),
        ),
        _ => None,
    }
}

fn judge(ctx: &Ctx<'_>, gpus: &[&PciDevice], chipset: Option<&'static str>) -> Vec<Judgement> {
    let seen = |judgement: Judgement| {
        judgement.evidence(
            DEVICES,
            chipset.unwrap_or("none of the root complexes the driver names"),
        )
    };
    let Some(chipset) = chipset else {
        let message =
            "The driver allows NIC access to GPU memory for every topology of this machine.";
        return vec![seen(Judgement::pass("driver", message))];
    };
    if ctx.facts.platform.is_guest() {
        let message = "The driver lets a NIC at a GPU that was passed through to this guest, wherever both sit.";
        return vec![seen(Judgement::pass("driver", message))];
    }
    if let Some(unknown) = unknown_if(&ctx.facts.rdma, "driver", "/sys/class/infiniband") {
        return vec![unknown];
    }
    let nics: Vec<Bdf> = rdma::rdma_nics(ctx.facts)
        .filter_map(|nic| nic.place.present().copied())
        .collect();
    if nics.is_empty() {
        return vec![Judgement::skip(
            "driver",
            "There is no NIC to be let at GPU memory.",
        )];
    }
    gpus.iter()
        .map(|gpu| seen(one(ctx, gpu, &nics, chipset)))
        .collect()
}

fn one(ctx: &Ctx<'_>, gpu: &PciDevice, nics: &[Bdf], chipset: &str) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let bridges = |device: &PciDevice| device.place.as_ref().map(|place| place.bridges.clone());
    let above = match bridges(gpu) {
        Fact::Known(above) => above,
        Fact::Unknown(why) => return Judgement::unknown(subject, why, DEVICES),
    };
    let (mut near, mut far, mut unknown) = (Vec::new(), Vec::new(), None);
    for nic in nics {
        match ctx.facts.device(*nic).map(bridges) {
            Some(Fact::Known(others)) if others.iter().any(|bridge| above.contains(bridge)) => {
                near.push(*nic)
            }
            Some(Fact::Known(_)) => far.push(*nic),
            Some(Fact::Unknown(why)) => unknown = Some(why),
            None => unknown = Some(crate::model::Why::NotCovered),
        }
    }
    let named = |nics: &[Bdf]| words::list(nics.iter().map(|nic| words::device(ctx, *nic)));
    match (near.is_empty(), far.is_empty(), unknown) {
        (true, _, Some(why)) => Judgement::unknown(subject, why, DEVICES),
        (true, _, None) => Judgement::broken(
            subject,
            format!(
                "The driver refuses this GPU's memory to {}: {chipset} carries no peer traffic, and no bridge is above \
                 both.",
                named(&far)
            ),
        )
        .advice(
            "Put GPU and NIC below one PCIe switch; NVreg_GrdmaPciTopoCheckOverride=1 makes the \
                 driver try all the same, and may bring the machine down with bus errors.",
        ),
        (false, true, _) => Judgement::pass(subject, format!("A bridge is above this GPU and {}.", named(&near))),
        (false, false, _) => Judgement::pass(
            subject,
            format!(
                "A bridge is above this GPU and {}; the driver refuses its memory to {}.",
                named(&near),
                named(&far)
            ),
        ),
    }
}

/// The root complex that the driver knows to carry no peer traffic; none if it is another.
///
/// osinit.c names three, and nvcst.h the bridges they are known by: Grace (TH500), Ampere Altra, AmpereOne with 160
/// cores; AmpereOne with 192 is not among them.
fn chipset(facts: &Facts) -> Fact<Option<&'static str>> {
    let of = |ids: &Ids| match (ids.vendor, ids.device?) {
        _ if ids.base_class() != 6 => None,
        (Ids::NVIDIA, 0x22b1..=0x22b4 | 0x22b8 | 0x22b9) => Some("NVIDIA Grace"),
        (super::AMPERE, 0xe000 | 0xe00d | 0xe00e | 0xe010 | 0xe100 | 0xe110) => {
            Some("Ampere Altra")
        }
        (super::AMPERE, 0xe200..=0xe207) => Some("AmpereOne"),
        _ => None,
    };
    facts.pci.as_ref().and_then(|devices| {
        let found = devices.iter().find_map(|device| of(device.ids.known()?));
        let unknown = devices.iter().find_map(|device| device.ids.why());
        match (found, unknown, facts.partial) {
            (Some(found), _, _) => Fact::Known(Some(found)),
            (None, Some(why), _) => Fact::Unknown(why),
            (None, None, true) => Fact::default(),
            (None, None, false) => Fact::Known(None),
        }
    })
}

fn devices(gpus: &[&PciDevice]) -> String {
    words::list(gpus.iter().filter_map(|gpu| gpu.ids.known()))
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests;

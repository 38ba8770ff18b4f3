//! param.grdma-topo: the driver allows NIC access to GPU memory for this topology.

mod coherent;

use super::PARAMS;
use crate::check::{Check, Ctx, Judgement, nics, passthrough, unknown_if, version, words};
use crate::model::{ActionClass, Area, Bdf, Fact, Facts, Ids, PciDevice, Severity};

const OPTION: &str = "GrdmaPciTopoCheckOverride";
const DEVICES: &str = "/sys/bus/pci/devices";

/// The first driver with this check (nv.h: NV_FLAG_PCI_P2P_UNSUPPORTED_CHIPSET). In 570.86.15 to 575.64.05 the option exists, but
/// concerns only coherent GPUs that also map their memory to BAR 1.
const SINCE: [u32; 3] = [580, 65, 6];

pub const CHECK: Check = Check {
    id: "param.grdma-topo",
    rule: "The driver allows NIC access to GPU memory for this topology.",
    sources: "driver version, /proc/driver/nvidia/params, PCI ids of the bridges, links of /sys/bus/pci/devices, iommu_group",
    severity: Severity::Warn,
    why: "Since 580.65.06 the driver rejects GPUDirect RDMA, by peermem and by dma-buf, if the root complex \
        is known not to carry peer traffic (Grace, Ampere Altra, AmpereOne) and GPU and NIC share no bridge: \
        ibv_reg_mr fails. Memory that is coherent with the CPU (GH200, GB200, GB300) has two mappings. The default one goes over \
        NVLink-C2C and is always allowed. The forced PCIe mapping needs one IOMMU group of GPU and NIC, or none at both; \
        GrdmaPciTopoCheckOverride=1 allows it from 570.86.15 to 590.48.01 and does not count from 595.44.02 on. \
        aws-ofi-nccl always asks for it, NCCL unless the path is P2C (a NIC of the GPU's CPU, below no bridge of the GPU's), \
        UCX for a Data Direct function. A denied one fails with errno 524; with aws-ofi-nccl NCCL then uses sockets.",
    remedy: "Coherent GPUs: NVreg_GrdmaPciTopoCheckOverride=1 with a driver before 595, else one IOMMU group. Other GPUs: put GPU and \
        NIC below one PCIe switch; the parameter makes the driver map the memory, whether or not the root complex carries the traffic.",
    action: ActionClass::Configure.drained("https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-pci.c"),
    references: &[
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/570.86.15/kernel-open/nvidia/nv-pci.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-pci.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-pci.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-dmabuf.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osinit.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-reg.h",
        "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/graph/paths.cc",
        "https://github.com/aws/aws-ofi-nccl/blob/9ddf2334/src/nccl_ofi_cuda.cpp",
        "https://github.com/openucx/ucx/blob/master/src/uct/cuda/cuda_copy/cuda_copy_md.c",
        "https://github.com/NVIDIA/aicr/pull/2607",
        "https://github.com/Azure/azhpc-images/pull/589",
    ],
    explained_by: &["gpu.driver"],
    judge: grdma_topo,
    ..Check::DEFAULT
};

/// The driver denies access if the root complex is known not to carry peer traffic and GPU and NIC
/// share no bridge (nv-pci.c: nv_grdma_pci_topology_supported).
fn grdma_topo(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let driver = match version::driver(ctx.facts) {
        Fact::Known(Some(driver)) => driver,
        Fact::Known(None) => return vec![Judgement::no_driver("driver")],
        Fact::Unknown(why) => {
            return vec![Judgement::unknown(
                "driver",
                why,
                Area::Sys,
                "/sys/module/nvidia/version",
            )];
        }
    };
    let is = |gpu: &PciDevice, is: fn(&Ids) -> bool| gpu.ids.known().is_some_and(is);
    let (unlisted, listed): (Vec<&PciDevice>, Vec<&PciDevice>) =
        passthrough::own_gpus(ctx.facts).partition(|gpu| is(gpu, Ids::is_unknown_gpu));
    let (coherent, gpus): (Vec<&PciDevice>, Vec<&PciDevice>) =
        listed.into_iter().partition(|gpu| is(gpu, Ids::is_coherent_gpu));
    let mut judgements: Vec<Judgement> =
        unlisted.iter().map(|gpu| unknown_model(ctx, gpu)).collect();
    if !coherent.is_empty() {
        judgements.extend(coherent::judge(ctx, &coherent));
    }
    if !gpus.is_empty() || judgements.is_empty() {
        judgements.extend(others(ctx, &driver, &gpus));
    }
    judgements
}

/// The driver's rule depends on whether the memory is coherent.
fn unknown_model(ctx: &Ctx<'_>, gpu: &PciDevice) -> Judgement {
    Judgement::undetermined(
        words::device(ctx, gpu.bdf),
        "Unknown model: whether its memory is coherent with the CPU, and so which rule the driver applies, is unknown.",
    )
    .evidence(
        format!("{DEVICES}/{}/device", gpu.bdf),
        gpu.ids.known().map_or_else(String::new, Ids::to_string),
    )
    .needs("gdr probe rdma")
}

/// GPUs that are not coherent with the CPU.
fn others(ctx: &Ctx<'_>, driver: &str, gpus: &[&PciDevice]) -> Vec<Judgement> {
    if version::numbers(driver) < SINCE.to_vec() {
        let message =
            format!("Driver {driver} does not check the root complex: drivers since 580.65.06 do.");
        return vec![Judgement::skip("driver", message)];
    }
    let chipset = match chipset(ctx.facts) {
        Fact::Known(chipset) => chipset,
        Fact::Unknown(why) => return vec![Judgement::unknown("driver", why, Area::Sys, DEVICES)],
    };
    if gpus.is_empty() {
        return vec![Judgement::skip("driver", "There is no GPU.")];
    }
    match overridden(ctx) {
        Some(judgement) => vec![judgement],
        None => judge(ctx, gpus, chipset),
    }
}

/// The parameter overrides every other rule.
fn overridden(ctx: &Ctx<'_>) -> Option<Judgement> {
    let value = match &ctx.facts.driver.params {
        Fact::Known(params) => params.as_ref().and_then(|params| params.get(OPTION)),
        Fact::Unknown(why) => return Some(Judgement::unknown("driver", *why, Area::Proc, PARAMS)),
    };
    let evidence = |judgement: Judgement| {
        judgement.evidence(format!("{PARAMS}: {OPTION}"), value.map_or("", String::as_str))
    };
    match value.map(String::as_str) {
        Some("1") => Some(evidence(Judgement::pass(
            "driver",
            "GrdmaPciTopoCheckOverride=1: the driver allows every NIC access to GPU memory.",
        ))),
        Some("2") => Some(
            evidence(Judgement::broken(
                "driver",
                "GrdmaPciTopoCheckOverride=2: the driver allows no NIC access to GPU memory, and GPUDirect RDMA fails.",
            ))
            .advice(
                "Remove NVreg_GrdmaPciTopoCheckOverride=2 from modprobe.d, rebuild the initramfs and \
                 reload the driver.",
            ),
        ),
        _ => None,
    }
}

fn judge(ctx: &Ctx<'_>, gpus: &[&PciDevice], chipset: Option<&'static str>) -> Vec<Judgement> {
    let with_chipset = |judgement: Judgement| {
        judgement.evidence(DEVICES, chipset.unwrap_or("no root complex that the driver rejects"))
    };
    let Some(chipset) = chipset else {
        let message =
            "The driver allows NIC access to GPU memory for every topology of this machine.";
        return vec![with_chipset(Judgement::pass("driver", message))];
    };
    if ctx.facts.platform.is_guest() {
        let message = "The driver allows NIC access to GPUs passed through to this guest, for every topology.";
        return vec![with_chipset(Judgement::pass("driver", message))];
    }
    if let Some(answer) = without_nics(ctx) {
        return vec![answer];
    }
    let places = || nics::rdma_nics(ctx.facts).map(|nic| &nic.place);
    let nics: Vec<Bdf> = places().filter_map(|place| place.present().copied()).collect();
    match places().find_map(Fact::why) {
        Some(why) if nics.is_empty() => {
            let source = "the PCI functions of the RDMA devices";
            return vec![Judgement::unknown("driver", why, Area::Sys, source)];
        }
        None if nics.is_empty() => return vec![Judgement::skip("driver", "There is no RDMA NIC.")],
        _ => {}
    }
    gpus.iter().map(|gpu| with_chipset(one(ctx, gpu, &nics, chipset))).collect()
}

/// The answer where no NIC can be judged.
fn without_nics(ctx: &Ctx<'_>) -> Option<Judgement> {
    let source = "/sys/class/infiniband";
    unknown_if(&ctx.facts.rdma, "driver", Area::Sys, source).or_else(|| {
        let none = nics::rdma_nics(ctx.facts).next().is_none();
        none.then(|| Judgement::skip("driver", "There is no RDMA NIC."))
    })
}

fn one(ctx: &Ctx<'_>, gpu: &PciDevice, nics: &[Bdf], chipset: &str) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let bridges = |device: &PciDevice| device.place.as_ref().map(|place| place.bridges.clone());
    let above = match bridges(gpu) {
        Fact::Known(above) => above,
        Fact::Unknown(why) => return Judgement::unknown(subject, why, Area::Sys, DEVICES),
    };
    let (mut shared, mut separate, mut unknown) = (Vec::new(), Vec::new(), None);
    for nic in nics {
        match ctx.facts.device(*nic).map(bridges) {
            Some(Fact::Known(others)) if others.iter().any(|bridge| above.contains(bridge)) => {
                shared.push(*nic)
            }
            Some(Fact::Known(_)) => separate.push(*nic),
            Some(Fact::Unknown(why)) => unknown = Some(why),
            None => unknown = Some(crate::model::Why::NotCovered),
        }
    }
    let named = |nics: &[Bdf]| words::list(nics.iter().map(|nic| words::device(ctx, *nic)));
    match (shared.is_empty(), separate.is_empty(), unknown) {
        (true, _, Some(why)) => Judgement::unknown(subject, why, Area::Sys, DEVICES),
        (true, _, None) => Judgement::broken(
            subject,
            format!(
                "Memory denied to NICs by the driver: {chipset} carries no peer traffic, and this GPU shares no bridge with {}.",
                named(&separate)
            ),
        )
        .advice(
            "Put GPU and NIC below one PCIe switch; NVreg_GrdmaPciTopoCheckOverride=1 makes the \
                 driver map the memory anyway, and may bring the machine down with bus errors.",
        ),
        (false, true, _) => Judgement::pass(subject, format!("This GPU shares a bridge with {}.", named(&shared))),
        (false, false, _) => Judgement::pass(
            subject,
            format!(
                "This GPU shares a bridge with {}; the driver denies access to {}.",
                named(&shared),
                named(&separate)
            ),
        ),
    }
}

/// The root complex, if the driver knows it to carry no peer traffic.
///
/// osinit.c names three, and nvcst.h the bridges that identify them: Grace (TH500), Ampere Altra, AmpereOne with 160
/// cores; AmpereOne with 192 is not among them.
fn chipset(facts: &Facts) -> Fact<Option<&'static str>> {
    let root_complex = |ids: &Ids| match (ids.vendor, ids.device?) {
        _ if ids.base_class() != 6 => None,
        (Ids::NVIDIA, 0x22b1..=0x22b4 | 0x22b8 | 0x22b9) => Some("NVIDIA Grace"),
        (super::AMPERE, 0xe000 | 0xe00d | 0xe00e | 0xe010 | 0xe100 | 0xe110) => {
            Some("Ampere Altra")
        }
        (super::AMPERE, 0xe200..=0xe207) => Some("AmpereOne"),
        _ => None,
    };
    facts.pci.as_ref().and_then(|devices| {
        let found = devices.iter().find_map(|device| root_complex(device.ids.known()?));
        let unknown = devices.iter().find_map(|device| device.ids.why());
        match (found, unknown, facts.partial) {
            (Some(found), _, _) => Fact::Known(Some(found)),
            (None, Some(why), _) => Fact::Unknown(why),
            (None, None, true) => Fact::default(),
            (None, None, false) => Fact::Known(None),
        }
    })
}

#[cfg(test)]
mod tests;

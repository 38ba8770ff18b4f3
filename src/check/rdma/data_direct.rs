//! rdma.data-direct: the Data Direct functions of ConnectX-8, a second path to GPU memory.

use crate::check::{Check, Ctx, Hint, Judgement, or_skip, unidentified, words};
use crate::model::{ActionClass, Area, Bdf, Fact, Ids, PciDevice, Severity};
use crate::topo::{ForcedPcie, forced_pcie, forced_pcie_remedy};

pub const CHECK: Check = Check {
    id: "rdma.data-direct",
    rule: "The driver maps a coherent GPU's memory for a ConnectX-8 Data Direct function over PCI Express.",
    sources: "PCI functions 15b3:2100, iommu_group, driver version, /proc/driver/nvidia/params",
    severity: Severity::Info,
    why: "On Grace Blackwell the Data Direct function writes to GPU memory over PCI Express \
        instead of through the CPU. The driver maps memory for it if both are in one IOMMU group or in none, or, \
        before 595, if NVreg_GrdmaPciTopoCheckOverride=1.",
    remedy: "Set the ACS bits that rdma_topo prints for Data Direct on the kernel command line \
        (pci=config_acs=...).",
    action: ActionClass::Configure.drained("https://docs.nvidia.com/multi-node-nvlink-systems/grace-blackwell-cx8-gpudirect-rdma-guide/").then(ActionClass::Reboot),
    references: &[
        "https://docs.nvidia.com/multi-node-nvlink-systems/grace-blackwell-cx8-gpudirect-rdma-guide/",
        "https://github.com/linux-rdma/rdma-core/blob/v64.0/kernel-boot/rdma_topo",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-pci.c",
    ],
    hint: Some(Hint {
        cause: "The NIC's own way to GPU memory (Data Direct) is not usable.",
        words: "data-direct=6 rdma=1 missing=1 failure=1",
    }),
    judge: data_direct,
    ..Check::DEFAULT
};

/// One judgement for each Data Direct function.
fn data_direct(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown("machine", why, Area::Sys, "/sys/bus/pci/devices")];
    }
    let functions = ctx.facts.devices().iter().filter(|device| is_data_direct(device));
    let coherent: Vec<&PciDevice> =
        ctx.facts.gpus().filter(|gpu| gpu.ids.known().is_some_and(Ids::is_coherent_gpu)).collect();
    let judgements: Vec<Judgement> =
        functions.map(|device| judge(ctx, device, &coherent)).collect();
    if judgements.is_empty() && ctx.facts.partial {
        return vec![Judgement::unlisted()];
    }
    or_skip(judgements, "There is no Data Direct function.")
}

/// pci.ids: `15b3:2100 CX8 Family [CX8 Data Direct Interface]`.
fn is_data_direct(device: &PciDevice) -> bool {
    device.ids.known().is_some_and(|ids| ids.is_data_direct())
}

fn judge(ctx: &Ctx<'_>, device: &PciDevice, coherent: &[&PciDevice]) -> Judgement {
    let name = device.bdf.to_string();
    if coherent.is_empty()
        && let Some(unidentified) = unidentified(ctx.facts)
    {
        return Judgement { subject: name, ..unidentified };
    }
    if coherent.is_empty() {
        return Judgement::info(
            name,
            "A Data Direct function: useful only with GPUs that are coherent with the CPU.",
        );
    }
    let (mut with, mut unproven, mut unknown) = (Vec::<Bdf>::new(), false, None);
    for gpu in coherent {
        match forced_pcie(ctx.facts, gpu.bdf, device.bdf) {
            Ok(Some(ForcedPcie::Allowed)) => with.push(gpu.bdf),
            Ok(Some(ForcedPcie::Unproven)) => unproven = true,
            Ok(Some(ForcedPcie::Denied) | None) => {}
            Err(missing) => unknown = Some(missing),
        }
    }
    if let (true, Some(missing)) = (with.is_empty(), unknown) {
        return Judgement::missing(name, missing);
    }
    let judgement = if !with.is_empty() {
        let gpus = words::list(with.into_iter().map(|bdf| words::device(ctx, bdf)));
        Judgement::pass(
            name,
            format!(
                "A Data Direct function for which the driver maps the memory of {gpus} over PCI Express."
            ),
        )
    } else if unproven {
        Judgement::undetermined(
            name,
            "Data Direct function: whether this driver maps GPU memory for it over PCI Express is in no published source.",
        )
        .needs("gdr probe rdma")
    } else {
        Judgement::broken(
            name,
            "Data Direct function without GPUs: the driver maps no GPU's memory for it over PCI Express, by IOMMU groups or \
             GrdmaPciTopoCheckOverride, and the data goes through the CPU.",
        )
        .advice(format!(
            "Run rdma_topo check as root, and add the ACS setting that it prints to the kernel command line. Or: {}",
            forced_pcie_remedy(ctx.facts)
        ))
    };
    judgement.evidence(format!("/sys/bus/pci/devices/{}/iommu_group", device.bdf), group(device))
}

fn group(device: &PciDevice) -> String {
    let attributes = device.attributes.as_ref();
    match attributes.map(|attributes| &attributes.iommu_group) {
        Some(Fact::Known(Some(group))) => group.to_string(),
        Some(Fact::Known(None)) => "none".to_owned(),
        Some(Fact::Unknown(_)) | None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, assert_says, gpu, machine, only, set_device_id};
    use crate::model::{Facts, Outcome};

    #[test]
    fn partial_list_does_not_exclude_it() {
        let mut facts = machine();
        assert_eq!(only("rdma.data-direct", &facts).outcome, Outcome::Skip);
        facts.partial = true;
        assert_eq!(only("rdma.data-direct", &facts).outcome, Outcome::Unknown);
    }

    fn with(own: Fact<Option<u32>>) -> Facts {
        let mut facts = machine();
        // A GB200.
        set_device_id(&mut facts, GPU, 0x2941);
        facts.attributes_mut(GPU).iommu_group = Fact::Known(Some(7));
        let mut function = gpu("0000:05:00.0");
        function.ids =
            Fact::Known(Ids { vendor: Ids::MELLANOX, device: Some(0x2100), class: 0x08_8000 });
        if let Some(attributes) = &mut function.attributes {
            attributes.iommu_group = own;
        }
        facts.add(function);
        facts
    }

    #[test]
    fn needs_coherent_gpu_and_group() {
        assert_eq!(only("rdma.data-direct", &machine()).outcome, Outcome::Skip);
        let found = only("rdma.data-direct", &with(Fact::Known(None)));
        assert_eq!(found.outcome, Outcome::Info);
        let mut plain = with(Fact::Known(Some(7)));
        set_device_id(&mut plain, GPU, 0x2335);
        let found = only("rdma.data-direct", &plain);
        assert_says(&found, "useful only");
    }
}

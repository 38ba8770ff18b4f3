//! rdma.data-direct: the Data Direct functions of ConnectX-8, a second path to GPU memory.

use crate::check::{Ctx, Judgement, or_skip, unidentified, words};
use crate::model::{Area, Bdf, Fact, Ids, PciDevice, Why};

/// One judgement for each Data Direct function.
pub fn data_direct(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown(
            "machine",
            why,
            Area::Sys,
            "/sys/bus/pci/devices",
        )];
    }
    let functions = ctx
        .facts
        .devices()
        .iter()
        .filter(|device| is_data_direct(device));
    let coherent: Vec<&PciDevice> = ctx
        .facts
        .gpus()
        .filter(|gpu| gpu.ids.known().is_some_and(Ids::is_coherent_gpu))
        .collect();
    let judgements: Vec<Judgement> = functions
        .map(|device| judge(ctx, device, &coherent))
        .collect();
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
        return Judgement {
            subject: name,
            ..unidentified
        };
    }
    if coherent.is_empty() {
        return Judgement::info(
            name,
            "A Data Direct function: useful only with GPUs that are coherent with the CPU.",
        );
    }
    let source = format!("/sys/bus/pci/devices/{}/iommu_group", device.bdf);
    let own = match group(device) {
        Fact::Known(group) => group,
        Fact::Unknown(why) => return Judgement::unknown(name, why, Area::Sys, &source),
    };
    let mut with = Vec::<Bdf>::new();
    for gpu in coherent {
        match group(gpu) {
            Fact::Known(theirs) if theirs == own && own.is_some() => with.push(gpu.bdf),
            Fact::Known(_) => {}
            Fact::Unknown(why) => {
                return Judgement::unknown(
                    name,
                    why,
                    Area::Sys,
                    &format!("/sys/bus/pci/devices/{}/iommu_group", gpu.bdf),
                );
            }
        }
    }
    let value = own.map_or_else(|| "none".to_owned(), |group| group.to_string());
    match with.is_empty() {
        false => {
            let gpus = words::list(with.into_iter().map(|bdf| words::device(ctx, bdf)));
            Judgement::pass(name, format!("A Data Direct function in one IOMMU group with {gpus}."))
        }
        true => Judgement::broken(
            name,
            "A Data Direct function in no GPU's IOMMU group: the driver does not map GPU memory for it, and the data goes \
             through the CPU.",
        )
        .advice("Run rdma_topo check as root, and add the ACS setting that it prints to the kernel command line."),
    }
    .evidence(source, value)
}

fn group(device: &PciDevice) -> Fact<Option<u32>> {
    match &device.attributes {
        Some(attributes) => attributes.iommu_group.clone(),
        None => Fact::Unknown(Why::NotCovered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, assert_says, gpu, machine, only, set_device_id};
    use crate::model::{Facts, Outcome};

    fn with(own: Fact<Option<u32>>) -> Facts {
        let mut facts = machine();
        // A GB200.
        set_device_id(&mut facts, GPU, 0x2941);
        facts.attributes_mut(GPU).iommu_group = Fact::Known(Some(7));
        let mut function = gpu("0000:05:00.0");
        function.ids = Fact::Known(Ids {
            vendor: Ids::MELLANOX,
            device: Some(0x2100),
            class: 0x08_8000,
        });
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

//! param.iomap-wc: uncached CPU mappings of GPU memory make writes slow.

use super::{AMPERE, PARAMS, loaded, registry_keys as keys};
use crate::check::{Check, Ctx, Judgement, version};
use crate::model::{ActionClass, Area, Bdf, Fact, Facts, Ids, PciDevice, Severity};

const KEY: &str = "RmForceDisableIomapWC";
/// The first driver branch that maps uncached in Arm guests (hypervisor.c: 580.142 does not, 590.44.01 does).
const ARM_GUESTS: u32 = 590;

pub const CHECK: Check = Check {
    id: "param.iomap-wc",
    rule: "The driver maps GPU memory for the CPU write-combined.",
    sources: "/proc/driver/nvidia/params, PCI ids of the bridges, /proc/cpuinfo",
    severity: Severity::Info,
    why: "With an uncached mapping each CPU store is a separate transfer: writes through gdrcopy take many \
        times as long, and on Arm unaligned ones raise SIGBUS. RmForceDisableIomapWC=1, BlueField-3 hosts, the \
        first Ampere Altra and, since driver 590, Arm guests have uncached mappings.",
    remedy: "Remove RmForceDisableIomapWC=1 from NVreg_RegistryDwords, unless GPUDirect Storage by P2PDMA needs it.",
    action: ActionClass::Configure.drained("https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/nvme-p2pdma-troubleshooting.html"),
    references: &[
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/src/kernel/platform/chipset/chipset_info.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/src/kernel/virtualization/hypervisor/hypervisor.c",
        "https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/nvme-p2pdma-troubleshooting.html",
    ],
    explained_by: &["gpu.driver"],
    judge: iomap_wc,
    ..Check::DEFAULT
};

/// The driver maps BAR memory write-combined, except by registry key and on some machines
/// (chipset.c, chipset_info.c, hypervisor.c of the open kernel modules; used in nv-mmap.c).
fn iomap_wc(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let params = match loaded(ctx.facts) {
        Ok(params) => params,
        Err(judgements) => return judgements,
    };
    let text = |name: &str| params.get(name).map_or("", String::as_str);
    let (all, each) = (text("RegistryDwords"), text("RegistryDwordsPerDevice"));
    let on_one = |gpu: Bdf| keys::key_of_device(each, gpu, KEY) == Some(1);
    let by_key = keys::key(all, KEY) == Some(1) || ctx.facts.gpus().any(|gpu| on_one(gpu.bdf));
    let cause = if by_key {
        Fact::Known(Some("the registry key RmForceDisableIomapWC=1"))
    } else {
        by_machine(ctx.facts)
    };
    let judgement = match cause {
        Fact::Known(Some(cause)) => {
            let judgement = Judgement::broken(
                "driver",
                format!(
                    "CPU writes through gdrcopy are many times slower: the driver maps GPU memory for the CPU uncached, not \
                     write-combined, because of {cause}."
                ),
            );
            if by_key {
                judgement.advice(
                    "Remove RmForceDisableIomapWC=1 from NVreg_RegistryDwords if nothing needs it \
                 (GPUDirect Storage by P2PDMA does), rebuild the initramfs and reload the driver.",
                )
            } else {
                judgement.advice(
                    "Let the GPU write to host memory instead of the CPU writing to GPU memory.",
                )
            }
        }
        Fact::Known(None) => {
            Judgement::pass("driver", "The driver maps GPU memory for the CPU write-combined.")
        }
        Fact::Unknown(why) => {
            Judgement::unknown("driver", why, Area::Sys, "/sys/bus/pci/devices, /proc/cpuinfo")
        }
    };
    vec![
        judgement
            .evidence(format!("{PARAMS}: RegistryDwords"), all)
            .evidence(format!("{PARAMS}: RegistryDwordsPerDevice"), each),
    ]
}

/// Machines on which the driver maps uncached without a key.
fn by_machine(facts: &Facts) -> Fact<Option<&'static str>> {
    let devices = match &facts.pci {
        Fact::Known(devices) => devices,
        Fact::Unknown(why) => return Fact::Unknown(*why),
    };
    if let Some(found) = devices.iter().find_map(bridge) {
        return Fact::Known(Some(found));
    }
    match &facts.platform.architecture {
        Fact::Known(architecture) if architecture != "aarch64" => Fact::Known(None),
        Fact::Known(_) => match facts.platform.kind().0 {
            Fact::Known(crate::model::PlatformKind::Guest) => arm_guest(facts),
            Fact::Known(crate::model::PlatformKind::BareMetal) => Fact::Known(None),
            Fact::Unknown(why) => Fact::Unknown(why),
        },
        Fact::Unknown(why) => Fact::Unknown(*why),
    }
}

fn arm_guest(facts: &Facts) -> Fact<Option<&'static str>> {
    version::driver(facts).map(|driver| {
        let branch = driver.as_deref().and_then(version::branch);
        branch.is_none_or(|branch| branch >= ARM_GUESTS).then_some("a guest on an Arm machine")
    })
}

fn bridge(device: &PciDevice) -> Option<&'static str> {
    let ids = device.ids.known().filter(|ids| ids.base_class() == 6)?;
    match (ids.vendor, ids.device?) {
        (Ids::MELLANOX, 0xa2da | 0xa2db) => Some("a BlueField-3 host"),
        (AMPERE, 0xe000 | 0xe00d | 0xe00e | 0xe010 | 0xe100 | 0xe110) => {
            let first = device.config.header.known().is_some_and(|header| header.revision == 0);
            first.then_some("the first revision of Ampere Altra")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

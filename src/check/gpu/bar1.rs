//! gpu.bar1: how much GPU memory other devices can access at a time.

use super::reading::cuda_gpu;
use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, words};
use crate::model::{ActionClass, Area, Bar1, Fact, NvmlGpu, PciDevice, Severity, Why};

/// The size of BAR1 on boards that do not resize it.
const SMALL: u64 = 256 << 20;
/// Resource flag of memory.
const MEMORY: u64 = 0x200;

pub const CHECK: Check = Check {
    id: "gpu.bar1",
    rule: "BAR1 is as large as the GPU's memory and not full.",
    sources: "/sys/bus/pci/devices/*/resource, NVML",
    severity: Severity::Warn,
    why: "A NIC and the CPU reach GPU memory through BAR1. If it is small (256 MiB), larger registrations fail \
        with out of memory or resource errors; if it is full, every further registration fails.",
    remedy: "Enable Above 4G Decoding and Resizable BAR in the firmware; end the processes that hold mappings.",
    action: ActionClass::Firmware.drained("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-reg.h",
    ],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "The GPU's window for other devices (BAR1) is too small or full.",
        words: "bar1=6 no-memory=2 p2p=2 gpu-memory=1 register=1 geforce=1 failure=1 unsupported=1 gpu-word=1 \
            firmware=1 missing=1 driver=1",
    }),
    judge: bar1,
    ..Check::DEFAULT
};

/// Compares BAR1 with the memory of each GPU.
fn bar1(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown("machine", why, Area::Sys, "/sys/bus/pci/devices")];
    }
    passthrough::own_gpus(ctx.facts).map(|gpu| judge(ctx, gpu)).collect()
}

fn judge(ctx: &Ctx<'_>, gpu: &PciDevice) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let nvml =
        ctx.facts.nvml().and_then(|nvml| nvml.gpus.iter().find(|found| found.bdf == gpu.bdf));
    let resource = format!("/sys/bus/pci/devices/{}/resource", gpu.bdf);
    let by_nvml = nvml.and_then(|gpu| gpu.bar1.known().copied());
    let (total, source) = match (by_nvml, bar1_size(gpu)) {
        (Some(bar1), _) => (bar1.total, "nvmlDeviceGetBAR1MemoryInfo".to_owned()),
        (None, Fact::Known(Some(size))) => (size, resource),
        (None, Fact::Known(None)) if is_integrated(ctx, gpu) => {
            return Judgement::skip(subject, "It shares the CPU's memory and has no BAR1.");
        }
        (None, Fact::Known(None)) => return unassigned(subject, &resource),
        (None, Fact::Unknown(why)) => {
            return Judgement::unknown(subject, why, Area::Sys, &resource);
        }
    };
    let evidence = |judgement: Judgement| judgement.evidence(source.clone(), words::size(total));
    let size = words::size(total);
    let memory = memory(nvml);
    // Since driver 580 all memory of a GPU is mapped at once if it fits; BAR1 usage then does not grow.
    let all_mapped = |used: u64| {
        memory.known().is_some_and(|memory| u128::from(used) * 20 >= u128::from(*memory) * 19)
    };
    let is_full = |bar1: &Bar1| {
        u128::from(bar1.used) * 10 > u128::from(bar1.total) * 9 && !all_mapped(bar1.used)
    };
    if let Some(Bar1 { used, .. }) = by_nvml.filter(is_full) {
        let message = format!(
            "BAR1 is nearly full: {} of {size} in use, so new registrations and mappings fail.",
            words::size(used)
        );
        return evidence(Judgement::broken(subject, message))
            .evidence("nvmlDeviceGetBAR1MemoryInfo", format!("used {}", words::size(used)))
            .advice(
                "End the processes that keep GPU memory registered or mapped: nvidia-smi -q -d MEMORY \
                 shows how much of BAR1 is used.",
            );
    }
    if let Some(why) = nvml.and_then(unread).filter(|_| total > SMALL) {
        let source = "nvmlDeviceGetBAR1MemoryInfo";
        return evidence(Judgement::unknown(subject, why, Area::Nvml, source));
    }
    let coherent = gpu.ids.known().is_some_and(|ids| ids.is_coherent_gpu());
    match memory {
        Fact::Known(memory) if total >= memory => evidence(Judgement::pass(
            subject,
            format!(
                "BAR1 is {size}, the memory {}: all of it can be registered.",
                words::size(memory)
            ),
        )),
        _ if coherent => evidence(Judgement::info(
            subject,
            format!("BAR1 is {size}; access to the memory of this GPU goes over NVLink-C2C, which does not need BAR1."),
        )),
        _ if total <= SMALL => evidence(Judgement::broken(
            subject,
            format!("BAR1 is {size}: less than that of GPU memory can be registered or mapped at a time."),
        ))
        .advice(resize(ctx)),
        Fact::Known(memory) => evidence(Judgement::info(
            subject,
            format!(
                "BAR1 is {size}, the memory {}: less than {size} can be registered or mapped at a time.",
                words::size(memory)
            ),
        ))
        .evidence("nvmlDeviceGetMemoryInfo", words::size(memory))
        .advice(resize(ctx)),
        Fact::Unknown(why) => evidence(Judgement::unknown(subject, why, Area::Nvml, "NVML: device memory"))
            .needs(format!("NVML, to compare BAR1 ({size}) with the memory")),
    }
}

/// Why NVML cannot say how much is in use; none if it says so, or was not asked.
fn unread(gpu: &NvmlGpu) -> Option<Why> {
    gpu.bar1.why().filter(|why| *why != Why::NotCovered)
}

/// BAR1 in `resource`: the prefetchable BAR at register 1, or 2 if BAR0 takes two registers. Later
/// BARs are others, some larger (a GH200 in a guest shows its memory there).
fn bar1_size(gpu: &PciDevice) -> Fact<Option<u64>> {
    let Some(attributes) = &gpu.attributes else {
        return Fact::Unknown(Why::NotCovered);
    };
    // Every GPU has a BAR for registers: an empty list was not recorded.
    if let Fact::Known(resources) = &attributes.resources
        && resources.iter().all(|window| window.flags == 0 && window.size == 0)
    {
        return Fact::Unknown(Why::NotCovered);
    }
    attributes.resources.as_ref().map(|resources| {
        let found = resources.iter().find(|window| {
            matches!(window.bar, 1 | 2) && window.is_prefetchable_memory() && window.size > 0
        });
        // BAR1 of old boards is not always marked prefetchable.
        let plain = || {
            resources
                .iter()
                .find(|window| window.bar == 1 && window.flags & MEMORY != 0 && window.size > 0)
        };
        found.or_else(plain).map(|window| window.size)
    })
}

fn is_integrated(ctx: &Ctx<'_>, gpu: &PciDevice) -> bool {
    cuda_gpu(ctx, gpu.bdf).is_ok_and(|gpu| gpu.integrated == Fact::Known(true))
}

fn memory(nvml: Option<&NvmlGpu>) -> Fact<u64> {
    nvml.map_or(Fact::Unknown(Why::NotCovered), |gpu| gpu.memory_total.clone())
}

fn unassigned(subject: String, source: &str) -> Judgement {
    Judgement::broken(subject, "BAR1 has no address: no other device can access GPU memory.")
        .evidence(source, "no prefetchable BAR at register 1 or 2")
        .advice(
            "Enable 'Above 4G Decoding' in the firmware, or boot with pci=realloc; the kernel log \
                 says which BAR it could not assign.",
        )
}

fn resize(ctx: &Ctx<'_>) -> &'static str {
    let params = ctx.facts.driver.params.present();
    let is_off =
        params.and_then(|params| params.get("EnableResizableBar")) == Some(&"0".to_owned());
    match (ctx.facts.platform.is_guest(), is_off) {
        (true, _) => {
            "On the host, enable 'Above 4G Decoding' and 'Resizable BAR', and give the guest a large MMIO window."
        }
        (false, true) => {
            "Enable 'Above 4G Decoding' and 'Resizable BAR' in the firmware, where the board can resize BAR1; the driver resizes it \
             itself only with NVreg_EnableResizableBar=1."
        }
        (false, false) => {
            "Enable 'Above 4G Decoding' and 'Resizable BAR' in the firmware, where the board can resize BAR1."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, assert_fix_says, assert_says, machine, only};
    use crate::model::{Facts, Outcome, Resource};

    const GIB: u64 = 1 << 30;

    #[test]
    fn reads_size_without_nvml() {
        let mut facts = machine();
        facts.nvml = Fact::Unknown(Why::NotCovered);
        let found = only("gpu.bar1", &facts);
        assert_eq!(found.outcome, Outcome::Unknown);
        assert_eq!(found.needs.as_deref(), Some("NVML, to compare BAR1 (256 GiB) with the memory"));
        let set = |facts: &mut Facts, resources: Fact<Vec<Resource>>| {
            let device = facts.device_mut(GPU);
            device.attributes.as_mut().expect("attributes").resources = resources;
        };
        let window = |bar, size| Resource { bar, start: 1 << 40, size, flags: 0x14_220c };
        set(
            &mut facts,
            Fact::Known(vec![window(0, 16 << 20), window(1, 256 << 20), window(4, 128 * GIB)]),
        );
        assert_eq!(only("gpu.bar1", &facts).outcome, Outcome::Warn, "256 MiB at register 1");
        facts.param("EnableResizableBar", "0");
        assert_fix_says(&only("gpu.bar1", &facts), "NVreg_EnableResizableBar=1");
        facts.param("EnableResizableBar", "1");
        let fix = only("gpu.bar1", &facts).fix.expect("advice");
        assert!(!fix.text().contains("NVreg"));
        set(&mut facts, Fact::Known(vec![window(0, 16 << 20), window(2, 0)]));
        assert_says(&only("gpu.bar1", &facts), "no address");
        set(&mut facts, Fact::Unknown(Why::Denied));
        assert_eq!(only("gpu.bar1", &facts).outcome, Outcome::Unknown);
    }
}
